"""`workbench classes`: which configurations share every bit?"""

from __future__ import annotations

import itertools
from typing import Any

import click

from workbench.build.config import DEFAULT_ARCH, KernelConfig, spec
from workbench.commands.arguments import (
    BACKENDS,
    DTYPES,
    FAILED,
    OK,
    SEED,
    SIZE,
    Outcome,
    check_constants,
    json_option,
    parse_ints,
    parse_pairs,
    progress,
)
from workbench.errors import InputError, WorkbenchError

OPS = ("lm_head", "batch_invariant_logp", "det_gemm")


@click.command(short_help="Which configurations share every bit?")
@click.option("--op", type=click.Choice(OPS), default="lm_head", show_default=True)
@click.option("--n", type=SIZE, default=4096, show_default=True, help="Terms: H, V or K.")
@click.option("--tile", metavar="LIST", help="Tile lengths, as 64,256 or 64:4096:x2.")
@click.option("--max-blocks", metavar="LIST", help="MAX_BLOCKS, as 1,40,128.")
@click.option(
    "-D", "defines", multiple=True, metavar="K=LIST", help="Values of another constant; repeatable."
)
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, metavar="LIST")
@click.option("--dtype", type=click.Choice(DTYPES), default="fp32", show_default=True)
@click.option("--backend", type=BACKENDS, default="auto", show_default=True)
@click.option(
    "--order",
    type=click.Choice(["revealed", "declared"]),
    default="revealed",
    show_default=True,
    help="From the running binary, or from the source (quicker, says less).",
)
@click.option(
    "--random",
    "drawn",
    type=SIZE,
    metavar="N",
    help="N configurations drawn at random instead, and how often grouping them was wrong.",
)
@click.option("--seed", type=SEED, default=0, show_default=True)
@json_option
def classes(
    op: str,
    n: int,
    tile: str | None,
    max_blocks: str | None,
    defines: tuple[str, ...],
    arch: str,
    dtype: str,
    backend: str,
    order: str,
    drawn: int | None,
    seed: int,
) -> Outcome:
    """Group configurations of a kernel by the order they sum in and the bits of their results.

    Configurations are the product of the lists. Two are called equal only where order and bits
    agree. Exit code 1: one failed, or two with one order gave other bits; 2: none of them can be
    built. With --random: the false "equal" are counted against an independent truth; exit code 1
    if there are any.

    Example: workbench classes --tile 64:4096:x2 --max-blocks 1,128 --arch dav-2201,dav-3510
    """
    from workbench.orders import classes as bit_classes

    arches = [name.strip() for name in arch.split(",") if name.strip()]
    lists = _lists(op, tile, max_blocks, defines)
    if drawn is not None:
        if lists or order != "revealed":
            raise InputError("--random draws the constants itself and reveals: drop the others")
        configs = bit_classes.random_configs(drawn, op=op, dtype=dtype, seed=seed, arches=arches)
        progress(f"counting false equals among {drawn} configurations of {op}")
        study = bit_classes.equals_study(configs, n, op=op, dtype=dtype, backend=backend, seed=seed)
        return Outcome(study, str(study), OK if study.passed else FAILED)
    configs = [
        KernelConfig(arch=name, **dict(zip(lists, values, strict=True)))
        for name in arches
        for values in itertools.product(*lists.values())
    ]
    found = bit_classes.bit_classes(
        configs,
        n,
        op=op,
        dtype=dtype,
        backend=backend,
        order=order,
        seed=seed,
        progress=lambda done, total, config: progress(f"{done + 1}/{total} {config!r}"),
    )
    if not found.classes:
        _raise_again(found, op, backend)
    lines = [str(found), *(str(d) for d in found.disagreements)]
    return Outcome(found, "\n".join(lines), OK if found.passed else FAILED)


def _raise_again(found: Any, op: str, backend: str) -> None:
    """Where nothing ran: the error of the first build, which decides the exit code, with the
    reasons of all."""
    from workbench.build import build

    try:
        build(op, next(iter(found.failed)), backend=backend)
    except WorkbenchError as error:
        reasons = "; ".join(dict.fromkeys(found.failed.values()))
        error.args = (f"no configuration ran: {reasons}",)
        raise


def _lists(
    op: str, tile: str | None, max_blocks: str | None, defines: tuple[str, ...]
) -> dict[str, list[Any]]:
    """{constant in lower case: its values}."""
    texts: dict[str, str] = {}
    if tile is not None:
        texts[spec(op).raw["ub"]["tile"].lower()] = tile
    if max_blocks is not None:
        texts["max_blocks"] = max_blocks
    given = parse_pairs(defines, "-D")
    check_constants(given)
    for name, text in given.items():
        if name.lower() in texts:
            raise InputError(f"{name} is given twice")
        texts[name.lower()] = text
    # Names of values ("weight_stationary") stay words; numbers and ranges are read as such.
    return {
        name: words if all(w.isidentifier() for w in words) else parse_ints(text)
        for name, text in texts.items()
        for words in [[w.strip() for w in text.split(",")]]
    }
