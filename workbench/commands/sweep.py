"""`workbench sweep`: many configurations, each measured and recorded."""

from __future__ import annotations

from typing import Any

import click

from workbench.build.config import DEFAULT_ARCH, KernelConfig, spec
from workbench.commands.arguments import (
    BACKENDS,
    DTYPES,
    FAILED,
    INDEX,
    OK,
    SEED,
    SIZE,
    Outcome,
    check_constants,
    json_option,
    literal,
    parse_ints,
    parse_pairs,
    progress,
)
from workbench.errors import InputError
from workbench.sweep.outputs import OUTPUTS

# Again, so that no other command loads workbench.sweep.space, nor --help torch.
OPS = ("lm_head", "det_gemm")
SAMPLES = ("smollm2", "normal", "uniform", "outlier_channels", "heavy_tail", "constant", "linspace",
           "cancellation")  # fmt: skip


@click.command(short_help="Measure and record many configurations.")
@click.option("--op", type=click.Choice(OPS), default="lm_head", show_default=True)
@click.option("--tile", metavar="LIST", help="Tile lengths, as 64,256 or 64:4096:x2.")
@click.option("--max-blocks", metavar="LIST", help="MAX_BLOCKS, as 1,40,128.")
@click.option("--schedule", metavar="LIST", help="As output,weight_stationary.")
@click.option(
    "-D", "defines", multiple=True, metavar="K=LIST", help="Values of another constant; repeatable."
)
@click.option(
    "--dtype", default="fp32", show_default=True, metavar="LIST", help="Of fp32, bf16, fp16."
)
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, metavar="LIST")
@click.option("--backend", type=BACKENDS, default="auto", show_default=True)
@click.option(
    "--store",
    required=True,
    type=click.Path(dir_okay=False),
    help="The record, a SQLite file, made if it is not there; its folder must be there.",
)
@click.option("--resume", is_flag=True, help="Do not measure again what the record has.")
@click.option(
    "--workers",
    type=INDEX,
    help="Processes of this machine; 0: everything in this one.  [default: half the cores]",
)
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, as tcp://host:8786.")
@click.option("--sample", default="smollm2", show_default=True, metavar="LIST",
              help=f"Inputs: {', '.join(SAMPLES)}.")  # fmt: skip
@click.option(
    "--rows", type=SIZE, default=8, show_default=True, help="Rows of the sample, evenly spread."
)
@click.option(
    "--vocab", type=SIZE, default=512, show_default=True, help="Vocabulary ids, the first ones."
)
@click.option("--hidden", type=SIZE, help="H of a synthetic sample.  [default: 4096]")
@click.option("--seed", type=SEED, help="Of a synthetic sample.  [default: 0]")
@click.option(
    "--timing",
    type=INDEX,
    default=5,
    show_default=True,
    help="Rounds of the wall time; 0: none.",
)
@click.option(
    "--outputs",
    type=click.Choice(OUTPUTS),
    default="auto",
    show_default=True,
    help="Who computes them: the kernel, or the host kernel in its order; auto: where it is large.",
)
@click.option(
    "--same-bits-as",
    metavar="K=V,…",
    help="Recommend only what keeps every bit of this configuration, as tile_length=4096.",
)
@json_option
def sweep(
    op: str,
    tile: str | None,
    max_blocks: str | None,
    schedule: str | None,
    defines: tuple[str, ...],
    dtype: str,
    arch: str,
    backend: str,
    store: str,
    resume: bool,
    workers: int | None,
    scheduler: str | None,
    sample: str,
    rows: int,
    vocab: int,
    hidden: int | None,
    seed: int | None,
    timing: int,
    outputs: str,
    same_bits_as: str | None,
) -> Outcome:
    """Measure the product of the lists, and record each run as it ends.

    What cannot be built is recorded as refused, with its reason. A sweep that ended in any way goes
    on with --resume. Exit code 1: a run failed, broke its derived bound or was not invariant, or
    two of one order gave other bits. Refused configurations are no failure.

    Example: workbench sweep --tile 64:4096:x2 --max-blocks 1,40,128 --store runs.sqlite
    """
    from workbench.sweep import fixtures
    from workbench.sweep.record import Record, RecordError
    from workbench.sweep.runner import sweep as run_sweep
    from workbench.sweep.space import Space

    if scheduler is not None and workers is not None:
        raise InputError("--workers are processes of this machine; drop it, or --scheduler")
    lists = parse_pairs(defines, "-D")
    check_constants(lists)
    dtypes = _words(dtype, "--dtype", DTYPES)
    space = Space(
        op=op,
        tiles=tuple(parse_ints(tile)) if tile is not None else (),
        max_blocks=tuple(parse_ints(max_blocks)) if max_blocks is not None else (),
        schedules=tuple(_values(schedule)) if schedule is not None else (),
        dtypes=dtypes,
        arches=_words(arch, "--arch"),
        shapes=((rows, vocab),),
        constants={name.lower(): tuple(_values(text)) for name, text in lists.items()},
        backend=backend,
    )
    inputs = []
    for name in _words(sample, "--sample", SAMPLES):
        if name == "smollm2":
            inputs.append(fixtures.InputRef(name))
        else:
            inputs.append(fixtures.InputRef(name, "", hidden or 4096, seed or 0))
    if all(ref.name == "smollm2" for ref in inputs) and (hidden or seed is not None):
        raise InputError("--hidden and --seed are of a synthetic sample: add --sample normal")
    options: dict[str, Any] = {}
    if same_bits_as is not None:
        options["same_bits_as"] = _config(same_bits_as, space)
    progress(space.title())
    try:
        record = Record(store)
    except RecordError as error:  # no check failed: the path is the wrong one
        raise InputError(str(error)) from error
    try:
        found = run_sweep(
            space,
            inputs,
            record,
            client=scheduler,
            workers=workers,
            resume=resume,
            timing=timing,
            outputs=outputs,
        )
    except KeyboardInterrupt:
        progress(f"{len(record)} runs are in {store}; go on with --resume")
        raise
    finally:
        record.close()
    data, text, good = found.to_dict(), [str(found)], found.passed
    try:
        advice = found.recommendations(**options)
    except InputError as error:  # the runs are made: say what they are in any case
        advice, good = [], False
        data["notes"].append(f"no recommendation: {error}")
        text.append(data["notes"][-1])
    data["recommendations"] = [one.to_dict() for one in advice]
    return Outcome(data, "\n".join([*text, *map(str, advice)]), OK if good else FAILED)


def _words(text: str, option: str, known: tuple[str, ...] = ()) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    unknown = [word for word in words if known and word not in known]
    if unknown or not words:
        raise InputError(f"{option} {text!r}: give one or more of {', '.join(known) or 'them'}")
    return words


def _values(text: str) -> list[Any]:
    """Names of values stay words; numbers and ranges are read as such."""
    words = [word.strip() for word in text.split(",")]
    return words if all(word.isidentifier() for word in words) else parse_ints(text)


def _config(text: str, space: Any) -> dict[str, Any]:
    """`tile_length=4096,schedule=output` as a dict; something in the space must fit it."""
    pairs = parse_pairs(tuple(text.replace(" ", "").split(",")), "--same-bits-as")
    found = {name.lower(): literal(value) for name, value in pairs.items()}
    rules = spec(space.op)
    numbers = {n: getattr(rules.complete(KernelConfig().replace(**{n: v})), n)
               for n, v in found.items() if n != "arch"}  # fmt: skip
    refused = ""
    for point in space.points():
        fits = all(getattr(point.config, n) == v for n, v in numbers.items())
        if fits and found.get("arch", point.config.arch) == point.config.arch:
            if not point.refusal:
                return found
            refused = point.refusal
    if refused:
        raise InputError(f"--same-bits-as {text!r} cannot be built: {refused}")
    raise InputError(f"--same-bits-as {text!r} is not in the space; add it to the lists")
