"""`workbench mutations`: which mistake does which accuracy standard see?"""

from __future__ import annotations

from typing import Any

import click

from workbench.build.config import DEFAULT_ARCH
from workbench.commands.arguments import (
    DTYPES,
    FAILED,
    OK,
    SEED,
    SIZE,
    Outcome,
    progress,
)
from workbench.commands.inputs import sample_rows
from workbench.errors import InputError


@click.command(short_help="Which accuracy standard sees which mistake?")
@click.option(
    "--dtype", default=",".join(DTYPES), show_default=True, metavar="D,…", help="Of the inputs."
)
@click.option("--out", type=click.Choice(["inputs", "fp32"]), default="inputs", show_default=True,
              help="Dtype of the outputs: that of the inputs, or the fp32 sum.")  # fmt: skip
@click.option(
    "--sample",
    type=click.Choice(["normal", "smollm2"]),
    default="normal",
    show_default=True,
    help="N(0, 1) from numpy, with a bias and a padding row of zeros; or the real LM head.",
)
@click.option("--rows", type=SIZE, default=16, show_default=True, help="Hidden states.")
@click.option("--vocab", type=SIZE, default=64, show_default=True, help="Rows of the weight.")
@click.option("--hidden", type=SIZE, help="H of the normal sample.  [default: 1000]")
@click.option("--tile", type=SIZE, default=256, show_default=True, help="TILE_LENGTH.")
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, help="Ascend architecture.")
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of sample and mutations.")
@click.option(
    "--bench",
    type=click.Choice(["split-k", "torch"]),
    default="split-k",
    show_default=True,
    help="The other result of the standards that compare two errors: an order in 8 parts, equal on "
    "every machine, or F.linear here.",
)
@click.option("--gates", metavar="G,…", help="Which standards; all if left out.")
@click.option("--mutations", "names", metavar="M,…", help="Which mutations; all if left out.")
@click.option("--markdown", is_flag=True, help="Print what docs/mutations.md holds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def mutations(
    dtype: str,
    out: str,
    sample: str,
    rows: int,
    vocab: int,
    hidden: int | None,
    tile: int,
    arch: str,
    seed: int,
    bench: str,
    gates: str | None,
    names: str | None,
    markdown: bool,
    as_json: bool,
) -> Outcome:
    """Put mistakes into a correct LM head and ask every accuracy standard what it sees.

    The result is computed by a numpy model of the kernel's declared order, on no hardware. Below
    the mistakes stand correct results in other orders: what flags there is a false alarm. In a
    cell: "·" passes, a number of outputs flagged, "flags" as a whole, "–" no verdict. Exit 1: a
    derived bound flags a correct result, or a mutation that must change nothing does.

    Example: workbench mutations --dtype fp32 --hidden 4096 --tile 4096
    """
    if markdown and as_json:
        raise InputError("--json and --markdown each ask for a form of the output: give one")
    import torch

    from workbench.numerics.gates.table import mutation_table

    given: dict[str, Any] = {}
    if sample == "smollm2":
        given = _real(rows, vocab, hidden)
    found = mutation_table(
        (rows, 1000 if hidden is None else hidden, vocab),
        _list(dtype),
        seed,
        tile,
        arch,
        out_dtype=torch.float32 if out == "fp32" else None,
        bench=bench,
        gates=None if gates is None else _list(gates),
        mutations=None if names is None else _list(names),
        progress=progress,
        **given,
    )
    text = found.markdown() if markdown else str(found)
    return Outcome(found, text, OK if found.passed else FAILED, as_is=markdown)


def _list(text: str) -> list[str]:
    return [part for part in text.replace(" ", "").split(",") if part]


def _real(rows: int, vocab: int, hidden: int | None) -> dict[str, Any]:
    if hidden is not None:
        raise InputError("--hidden is for the normal sample; smollm2's hidden size is 576")
    states, weight, _ = sample_rows("lm_head", "smollm2", "fp32", None, vocab, rows, None)
    return {"hidden": states, "weight": weight}
