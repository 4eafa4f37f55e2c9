"""`workbench tolerance`: a pair (atol, rtol) on the scale of what the order of summation allows."""

from __future__ import annotations

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
    NumberRange,
    Outcome,
    json_option,
    progress,
)
from workbench.commands.inputs import sample_rows
from workbench.errors import InputError
from workbench.ops import registry

FROM_ZERO = NumberRange(min=0)


@click.command(short_help="A tolerance beside what the order of summation allows.")
@click.option("--op", type=click.Choice(registry.ops()), default="lm_head", show_default=True)
@click.option("--dtype", type=click.Choice(DTYPES), default="fp32", show_default=True)
@click.option(
    "--tile", type=WHOLE, help="TILE_LENGTH of the kernel; the kernel's default if left out."
)
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, help="Ascend architecture.")
@click.option("--backend", type=BACKENDS, default="auto", show_default=True)
@click.option(
    "--sample", type=click.Choice(["synthetic", "smollm2"]), default="smollm2", show_default=True
)
@click.option("--rows", type=SIZE, default=8, show_default=True, help="Hidden states; M.")
@click.option("--vocab", type=SIZE, default=257, show_default=True, help="V; N of det_gemm.")
@click.option(
    "--hidden", type=SIZE, help="H (K of det_gemm) of the synthetic sample.  [default: 4096]"
)
@click.option("--atol", type=FROM_ZERO, help="Of the pair to judge; the contract's if left out.")
@click.option("--rtol", type=FROM_ZERO, help="Likewise.")
@click.option(
    "--bound",
    type=click.Choice(["worst_case", "running", "probabilistic"]),
    help="What verdicts rest on; running where there is one.",
)
@click.option(
    "--delta",
    type=NumberRange(0, 1, min_open=True, max_open=True),
    default=1e-3,
    show_default=True,
    help="Probability with which the probabilistic bound may fail.",
)
@click.option(
    "--reference",
    type=click.Choice(["exact", "torch.mv"]),
    default="exact",
    show_default=True,
    help="What the outputs are compared with; the error of torch.mv counts as its own.",
)
@click.option("--seed", type=SEED, help="Seed of the synthetic sample.")
@json_option
def tolerance(
    op: str,
    dtype: str,
    tile: int | None,
    arch: str,
    backend: str,
    sample: str,
    rows: int,
    vocab: int,
    hidden: int | None,
    atol: float | None,
    rtol: float | None,
    bound: str | None,
    delta: float,
    reference: str,
    seed: int | None,
) -> Outcome:
    """Compare a tolerance with the error that the order of summation allows, and propose one.

    For each output a bound follows from the declared order and the data. Where atol + rtol
    |reference| is below it, a correct kernel may be flagged; where it is far above, a fault can
    hide. A proposed pair flags no correct kernel of this order on these inputs.

    Exit 1 if an output is beyond its bound: then the kernel does not add in its declared order, or
    is wrong. Beyond the probabilistic bound its roundings may also not be independent: see the
    warnings. A pair that flags outputs is a finding, not a failure.

    Example: workbench tolerance --op lm_head --tile 1024 --atol 2e-5 --rtol 0
    """
    from workbench.numerics.tolerance import tolerance as judge

    if sample == "smollm2" and (hidden is not None or seed is not None):
        raise InputError("--hidden and --seed are for the synthetic sample: add --sample synthetic")
    constants: dict[str, Any] = {} if tile is None else {"tile_length": tile}
    config = KernelConfig(arch=arch, **constants)
    operator = registry.class_of(op, "ascend")(config, backend)
    states, weight, target = sample_rows(op, sample, dtype, hidden, vocab, rows, seed)
    progress(f"bounding {op} on {rows} rows, V = {vocab}, {dtype}")
    found = judge(
        operator,
        states,
        None if op == "batch_invariant_logp" else weight,
        target=target if op in ("batch_invariant_logp", "linear_logp") else None,
        atol=atol,
        rtol=rtol,
        op=op,
        reference=reference,
        delta=delta,
        kind=bound,
    )
    data = found.to_dict()
    data["sample"] = sample
    data["bounds"] = {
        kind: {
            **entry,
            "proposed": [
                {k: v for k, v in p.to_dict().items() if k != "kind"}
                for p in found.proposals
                if p.kind == kind
            ],
        }
        for kind, entry in data["bounds"].items()
    }
    data["flagged"] = found.chosen.count
    return Outcome(data, report(found), FAILED if found.bounds[found.kind].beyond else OK)


def report(found: Any) -> str:
    """A `Tolerance` as lines of text."""
    lines = [found.title(), f"  {found.outputs:,} outputs; order: {found.order}"]
    for b in found.bounds.values():
        beyond = f"{b.beyond:,} outputs beyond it" if b.beyond else "no output beyond it"
        beyond += f", {b.unbounded:,} without a bound" if b.unbounded else ""
        lines.append(
            f"  {b.kind:13}  median {b.median:.2e}  max {b.max:.2e}  {beyond} "
            f"(worst |error| / bound {b.worst_ratio:.3g})"
        )
        lines.append(f"      rests on {b.rests_on.replace('delta', f'{found.delta:g}')}")
    lines.append(f"  a pair flags; it allows (min, median, max) times the {found.kind} bound")
    pairs = {"chosen": found.chosen, **{f"contract {k}": f for k, f in found.cells.items()}}
    for label, f in pairs.items():
        lines.append(f"  {label:13}  {_pair(f)}: {f.count:,} flagged; allows {_looseness(f)}")
        lines.append(
            f"      {f.below:,} allowed less than the bound, {f.far:,} more than ten times it; "
            f"{f.false_alarms:,} false alarms, {f.missed:,} missed"
        )
    lines.append("  derived pairs, which flag no output within that bound on these inputs:")
    for p in found.proposals:
        mark = "  <- tightest" if p == found.proposal else ""
        lines.append(f"  {p.kind:13}  {_pair(p)}: median {p.looseness_median:.3g} bounds{mark}")
    return "\n".join([*lines, *(f"  warning: {w}" for w in found.warnings)])


def _pair(found: Any) -> str:
    return f"atol {found.atol:.3g}, rtol {found.rtol:.3g}"


def _looseness(found: Any) -> str:
    ends = (found.looseness_min, found.looseness_median, found.looseness_max)
    return ", ".join(f"{value:.3g}" for value in ends)
