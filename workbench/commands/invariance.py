"""`workbench invariance`: does a row keep its bits whatever stands around it?"""

from __future__ import annotations

import contextlib
import functools
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import click

from workbench.build.config import DEFAULT_ARCH, KernelConfig
from workbench.commands.arguments import (
    BACKENDS,
    DTYPES,
    FAILED,
    OK,
    SEED,
    SIZE,
    WHOLE,
    Outcome,
    json_option,
    parse_constants,
    progress,
)
from workbench.commands.inputs import sample_rows
from workbench.errors import InputError
from workbench.ops import registry


@click.command(short_help="Does a row keep its bits in every batch?")
@click.option("--op", type=click.Choice(registry.ops()), default="lm_head", show_default=True)
@click.option(
    "--gradient", is_flag=True, help="Judge the gradient of the rows: hidden, logits or a."
)
@click.option(
    "--tile", type=WHOLE, help="TILE_LENGTH of the kernel; the kernel's default if left out."
)
@click.option("--max-blocks", type=WHOLE, help="MAX_BLOCKS of the kernel.")
@click.option(
    "-D", "defines", multiple=True, metavar="K=V", help="Another constant of it; repeatable."
)
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, help="Ascend architecture.")
@click.option(
    "--backend",
    type=BACKENDS,
    default="auto",
    show_default=True,
    help="Who runs the kernel. (`workbench check` asks for it as --device.)",
)
@click.option("--dtype", type=click.Choice(DTYPES), default="fp32", show_default=True)
@click.option(
    "--sample", type=click.Choice(["synthetic", "smollm2"]), default="synthetic", show_default=True
)
@click.option(
    "--hidden", type=SIZE, help="H (K of det_gemm) of the synthetic sample.  [default: 4096]"
)
@click.option(
    "--vocab",
    type=SIZE,
    default=257,
    show_default=True,
    help="V: rows of the weight; N of det_gemm.",
)
@click.option("--rows", type=SIZE, default=8, show_default=True, help="Hidden states.")
@click.option("--transforms", metavar="T1,T2,…", help="Which transforms; all if left out.")
@click.option("--seed", type=SEED, help="Seed of the sample and of the transforms.")
@click.option(
    "--candidate",
    default="kernel",
    show_default=True,
    metavar="C",
    help="kernel, native, F.linear, torch.mv, or module:callable taking what the operator takes: "
    "(hidden, weight), (logits, target), (a, b) or (hidden, weight, target); the current folder is "
    "searched first, and a class is made without arguments.",
)
@json_option
def invariance(
    op: str,
    gradient: bool,
    tile: int | None,
    max_blocks: int | None,
    defines: tuple[str, ...],
    arch: str,
    backend: str,
    dtype: str,
    sample: str,
    hidden: int | None,
    vocab: int,
    rows: int,
    transforms: str | None,
    seed: int | None,
    candidate: str,
) -> Outcome:
    """Check on raw bits that a row's result does not depend on its batch.

    A candidate that raises fails: exit 1, and its traceback on stderr.

    With --gradient: that the gradient of a row does not. Of a callable it comes from torch's
    autograd. Logits of --op batch_invariant_logp are those of the sample's hidden states and
    weight; a target beyond --vocab is taken modulo it.

    Example: workbench invariance --op lm_head --tile 1024 --dtype bf16 --gradient
    """
    from workbench.numerics import adapters
    from workbench.numerics.invariance import JUDGEMENTS

    constants = _constants(tile, max_blocks, defines)
    if candidate != "kernel" and constants:
        raise InputError(
            "--tile, --max-blocks and -D are constants of the kernel: drop --candidate"
        )
    if sample == "smollm2" and hidden is not None:
        raise InputError("--hidden is for the synthetic sample; smollm2's hidden size is 576")
    if candidate == "kernel":
        config = KernelConfig(arch=arch, **constants)
        fn = adapters.operator_rows(op, config, gradient=gradient, backend=backend)
    elif candidate == "native":
        fn = adapters.operator_rows(op, gradient=gradient, impl="native")
    else:
        found_fn = _callable(candidate, op)
        fn = adapters.OperatorRows(
            op, _with_graph(found_fn) if gradient else found_fn, gradient=gradient
        )
    options: dict[str, Any] = {} if seed is None else {"seed": seed}
    inputs = adapters.operator_inputs(
        op, *sample_rows(op, sample, dtype, hidden, vocab, rows, seed), gradient=gradient, **options
    )
    if transforms is not None:
        options["transforms"] = [t for t in transforms.replace(" ", "").split(",") if t]
    what = f"the gradient of {candidate}" if gradient else candidate
    progress(f"comparing {what} on {rows} rows, V = {vocab}, {dtype}")
    ours = candidate in ("kernel", "native")
    with contextlib.nullcontext() if ours else _failing(candidate):
        found = adapters.operator_invariance(
            op,
            judgement=JUDGEMENTS[int(gradient)],
            dtype=dtype,
            fn=fn,
            inputs=inputs,
            leading_dims=ours and op != "det_gemm",
            **options,
        )
    return Outcome(found, _table(found), OK if found.passed else FAILED)


@contextlib.contextmanager
def _failing(candidate: str) -> Iterator[None]:
    """What a candidate raises, SystemExit too, in one sentence; its traceback goes to stderr."""
    from workbench.numerics.candidates import CandidateError

    try:
        yield
    except (KeyboardInterrupt, InputError):
        raise
    except CandidateError as error:
        raise CandidateError(f"candidate {candidate} failed: {error}") from error
    except BaseException as error:
        traceback.print_exc()
        said = f"{type(error).__name__}: {error}"
        raise CandidateError(f"candidate {candidate} failed: it raised {said}") from error


def _with_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, whose results are refused where no gradient can come from them."""

    @functools.wraps(fn, updated=())
    def call(*args, **options):
        import torch

        from workbench.numerics.candidates import CandidateError

        found = fn(*args, **options)
        for one in found if isinstance(found, (tuple, list)) else [found]:
            if not isinstance(one, torch.Tensor):
                what = "None" if one is None else f"a {type(one).__name__}"
                raise CandidateError(f"it returned {what}; want a tensor")
            if not one.requires_grad:
                raise CandidateError("no gradient: the result does not require one (detached?)")
        return found

    call.__name__ = getattr(fn, "__name__", type(fn).__name__)  # what the result is titled with
    return call


def _constants(
    tile: int | None, max_blocks: int | None, defines: tuple[str, ...]
) -> dict[str, Any]:
    found = parse_constants(defines)
    for name, option, value in (
        ("tile_length", "--tile", tile),
        ("max_blocks", "--max-blocks", max_blocks),
    ):
        if value is None:
            continue
        if name in found:
            raise InputError(f"{option} and -D {name.upper()} are the same: give one")
        found[name] = value
    return found


def _table(found: Any) -> str:
    """One line a transform, and its first mismatch below it."""
    from workbench.numerics.invariance import place

    lines = [found.title()]
    counts = [f"{t.mismatches} of {t.elements} differ" for t in found.transforms]
    for t, count in zip(found.transforms, counts, strict=True):
        verdict = "passed" if t.passed else "FAILED"
        count = count.ljust(max(map(len, counts)))
        lines.append(f"  {t.name}  {verdict}  {t.cases:3} cases  {count}  {t.relation}")
        if at := t.first_mismatch:
            lines.append(
                f"      first: {place(at)}, {at['case']}: "
                f"{at['expected_bits']} became {at['got_bits']}"
            )
    return "\n".join(lines)


def _callable(name: str, op: str) -> Callable[..., Any]:
    """The callable that a candidate's name stands for, if it is no operator of ours."""
    if name in ("F.linear", "torch.mv"):
        if op != "lm_head":
            raise InputError(f"--candidate {name} is an LM head; {op} has kernel and native")
        import torch

        def linear(hidden, weight):
            return torch.nn.functional.linear(hidden, weight)

        def mv(hidden, weight):
            rows = [torch.mv(weight, row) for row in hidden.reshape(-1, hidden.shape[-1])]
            return torch.stack(rows).reshape(*hidden.shape[:-1], len(weight))

        reference = linear if name == "F.linear" else mv
        reference.__name__ = reference.__qualname__ = name  # what the result is titled with
        return reference
    from workbench.numerics.candidates import load_callable

    return load_callable(name, "kernel, native, F.linear, torch.mv, module:callable")
