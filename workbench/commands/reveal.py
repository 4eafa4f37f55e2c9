"""`workbench reveal`: in which order does this binary sum?"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import click

from workbench._result import JsonText
from workbench.build.config import DEFAULT_ARCH, KernelConfig
from workbench.commands.arguments import (
    BACKENDS,
    FAILED,
    INDEX,
    OK,
    SEED,
    SIZE,
    Outcome,
    json_option,
    parse_constants,
    progress,
)
from workbench.errors import InputError, WorkbenchError

KERNELS = ("lm_head", "det_gemm", "batch_invariant_logp")
_OUTLINE = 600  # characters of the outline; a tree of 4096 terms may have thousands
# Python's json reads no more than about 990 levels, less what the reader's own calls take.
_NESTED = 900


@click.command(short_help="In which order does a kernel or a library sum?")
@click.argument("target", metavar="TARGET")
@click.option("--n", type=INDEX, required=True, help="Number of terms.")
@click.option(
    "-D", "defines", multiple=True, metavar="K=V", help="Constant of a kernel; repeatable."
)
@click.option("--arch", help=f"Ascend architecture of a kernel.  [default: {DEFAULT_ARCH}]")
@click.option("--backend", type=BACKENDS, help="Who runs a kernel.  [default: auto]")
@click.option(
    "--dtype",
    type=click.Choice(["fp32", "bf16", "fp16", "fp64"]),
    default="fp32",
    show_default=True,
    help="Of the terms. Kernels show their fp32 sums.",
)
@click.option("--rows", type=SIZE, help="Rows of the call, where the shape matters.")
@click.option("--row", type=INDEX, default=0, show_default=True)
@click.option("--columns", type=SIZE, help="Columns of the call, likewise.")
@click.option("--column", type=INDEX, default=0, show_default=True)
@click.option(
    "--array",
    type=click.Choice(["auto", "torch", "numpy"]),
    default="auto",
    show_default=True,
    help="What a module:callable is given.",
)
@click.option("--all", "every", is_flag=True, help="All outputs of the call, grouped by order.")
@click.option("--arithmetic", is_flag=True, help="Also probe fusing, rounding and subnormals.")
@click.option(
    "--unexplained",
    is_flag=True,
    help="Show the order also where no arithmetic along it gives the sums of ordinary terms.",
)
@click.option("--seed", type=SEED, default=0, show_default=True)
@json_option
def reveal(
    target: str,
    n: int,
    defines: tuple[str, ...],
    arch: str | None,
    backend: str | None,
    dtype: str,
    rows: int | None,
    row: int,
    columns: int | None,
    column: int,
    array: str,
    every: bool,
    arithmetic: bool,
    unexplained: bool,
    seed: int,
) -> Outcome:
    """Find the order in which TARGET adds its terms, from its results alone.

    TARGET is a kernel (lm_head, det_gemm, batch_invariant_logp), a library function (numpy.sum,
    numpy.dot, torch.sum, torch.mv, torch.matmul, F.linear, …), or module:callable, a function of
    terms [R, n] that returns R sums. A library chooses its code by the shape of the call, so --rows
    and --columns belong to the question (1 where left out).

    Exit code 1: it is no sum in one fixed order; or the order of a kernel is not the declared one;
    or, with --all, no arithmetic along its order explains an output.

    Example: workbench reveal lm_head --n 4096 -D TILE_LENGTH=1024 --arch dav-3510
    """
    options: dict[str, Any] = {"rows": rows, "row": row, "columns": columns, "column": column}
    config = None
    asked: Any = target
    if target in KERNELS:
        config = KernelConfig(arch=arch or DEFAULT_ARCH, **parse_constants(defines))
        asked = _kernel(target, config, backend or "auto")
    elif defines or arch or backend:
        raise InputError(
            f"-D, --arch and --backend belong to a kernel ({', '.join(KERNELS)}); {target} has none"
        )
    elif ":" in target:
        from workbench.numerics.candidates import load_callable

        asked = load_callable(target, f"{', '.join(KERNELS)}, library functions, module:callable")
    else:
        _check_name(target)
    from workbench.numerics.memory import check_memory  # torch comes with it

    check_memory(16 * n * max(rows or 1, columns or 1), f"a call of {n:,} terms")
    progress(f"probing {target} with {n} terms")
    if every:
        return _every(target, asked, config, n, dtype, array, seed, options, arithmetic)
    if target == "batch_invariant_logp" and arithmetic:
        raise InputError("batch_invariant_logp sums exponentials: --arithmetic does not apply")
    from workbench.orders.reveal import reveal as find

    allowed = "allow" if unexplained else "refuse"
    with _options_named():
        tree = find(asked, n, dtype=dtype, array=array, seed=seed, unexplained=allowed, **options)
    declared = _declared(target, asked, n, tree) if config is not None else None
    data = _data(tree, declared)
    lines = _text(tree, data)
    if arithmetic:
        from workbench.orders.arithmetic import arithmetic as probe

        found = probe(asked, n, tree=tree, dtype=dtype, seed=seed, **options)
        data["arithmetic_probes"] = found.to_dict()
        lines += [f"  {sentence}" for sentence in found.sentences()]
    return Outcome(data, "\n".join(lines), FAILED if declared and not declared["equal"] else OK)


def _every(
    name: str,
    asked: Any,
    config: KernelConfig | None,
    n: int,
    dtype: str,
    array: str,
    seed: int,
    options: dict[str, Any],
    arithmetic: bool,
) -> Outcome:
    """The orders of all outputs of one call."""
    from workbench.orders.reveal.rows import row_orders

    if arithmetic or options["row"] or options["column"]:
        raise InputError("--all asks for every output: drop --row, --column and --arithmetic")
    rows = options["rows"] or 1
    with _options_named():
        found = row_orders(
            asked, n, rows, columns=options["columns"], dtype=dtype, array=array, seed=seed
        )
    if config is None:
        return Outcome(found, str(found), FAILED if found.unexplained else OK)
    declared = [_declared(name, asked, n, tree) for tree, _ in found.groups]
    lines = [str(found), *(_compared(one) for one in declared)]
    bad = found.unexplained or not all(one["equal"] for one in declared)
    data = {**found.to_dict(), "declared": declared}
    return Outcome(data, "\n".join(lines), FAILED if bad else OK)


def _check_name(target: str) -> None:
    from workbench.orders.reveal.libraries import NAMES

    if target not in NAMES:
        raise InputError(
            f"target {target!r} is unknown; known ones are {', '.join((*KERNELS, *NAMES))}, and "
            "module:callable, a function of terms [R, n] that returns R sums"
        )


@contextlib.contextmanager
def _options_named() -> Iterator[None]:
    """Let an error name the options of this command where it names arguments of `wb.reveal`."""
    try:
        yield
    except WorkbenchError as error:
        if getattr(error, "reason", "") != "raised":  # that one quotes the user's own code
            error.args = (_as_options(str(error)),)
        raise


def _as_options(message: str) -> str:
    """`message` with `--rows 3` for `rows=3`, and so on.

    >>> _as_options('row=5 of 1 rows; Ask with unexplained="warn"')
    '--row 5 of 1 rows; Ask with --unexplained'
    """
    message = message.replace('unexplained="warn"', "--unexplained")
    message = message.replace("reveal(…, rows=N, row=r)", "--rows N --row r")
    message = message.replace("use row_orders", "use --all")
    return re.sub(r"\b(rows?|columns?|dtype|n)=('?)([\w,]+)\2", r"--\1 \3", message)


def _kernel(name: str, config: KernelConfig, backend: str) -> Any:
    from workbench.build import builder

    progress(f"building {name} for {config.arch}")
    return builder.build(name, config, backend)


def _declared(name: str, kernel: Any, n: int, tree: Any) -> dict[str, Any]:
    """The order that the kernel's source promises, and how the revealed one differs from it."""
    from workbench.orders.declared import declared_order

    promised = declared_order(name, kernel.config, n)
    return {
        "hash": promised.hash,
        "equal": promised == tree,
        "difference": None if promised == tree else str(promised.diff(tree)),
    }


def _data(tree: Any, declared: dict[str, Any] | None) -> dict[str, Any]:
    report = tree.report.to_dict()
    return {
        "hash": tree.hash,
        "height": tree.height,
        "leaves": tree.leaves,
        "arity": tree.arity,
        **report,
        "declared": declared,
        "outline": tree.fold().text(_OUTLINE),
        "parents": tree.parents().tolist(),
        "tree": JsonText(tree.to_json()) if tree.height <= _NESTED else None,
    }


def _text(tree: Any, data: dict[str, Any]) -> list[str]:
    shape = data.get("shape")
    where = ", ".join(f"{k} {v}" for k, v in shape.items()) if shape else ""
    lines = [tree.report.title() + (f" ({where})" if where else "")]
    lines.append(f"  {data['outline']}")
    lines.append(
        f"  hash {tree.hash}, height {tree.height}"
        + (f", nodes of up to {tree.arity} terms" if tree.arity > 2 else "")
    )
    lines.append(
        f"  {data['probes']} probes in {data['calls']} calls"
        + (f", and {data['check_calls']} that check" if "check_calls" in data else "")
        + f"; {data['seconds']:.2f} s"
    )
    lines += [f"  {check}" for check in data["checks"]]
    if declared := data["declared"]:
        lines.append(_compared(declared))
    return lines


def _compared(declared: dict[str, Any]) -> str:
    same = "the same" if declared["equal"] else f"ANOTHER: {declared['difference']}"
    return f"  declared order: {same}"
