"""Makes the tables and figures of docs/drift.md from results computed here and now.

python docs/make_drift.py         # half a minute on two cores
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import workbench as wb
from workbench.evidence import cpu_name
from workbench.numerics.drift import drift
from workbench.numerics.drift.over import drift_over
from workbench.numerics.drift.views import DriftResult
from workbench.plots import drift as plots
from workbench.plots import png, style

DOCS = Path(__file__).resolve().parent
PAGE, IMG = DOCS / "drift.md", DOCS / "img"
TILES, DTYPES = (64, 128, 256, 576), ("fp32", "bf16", "fp16")
AGAINST = ("exact", "torch.mv", "F.linear")


def kernel(tile: int = 4096) -> Any:
    config = wb.KernelConfig(tile_length=tile, max_blocks=128, arch="dav-2201")
    return wb.build("lm_head", config, backend="twin")


def sample() -> tuple[torch.Tensor, torch.Tensor]:
    """160 x 576 and 4096 x 576, fp32."""
    found = wb.samples.smollm2()
    return found.hidden.reshape(-1, found.hidden.shape[-1]), found.weight.float()


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    rows = list(rows)
    lines = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    return "\n".join(lines + ["| " + " | ".join(map(str, r.values())) + " |" for r in rows])


def pairs_table(result: DriftResult) -> str:
    return markdown(
        {
            "candidate": c.candidate,
            "against": c.reference,
            "max abs": style.scientific(c.max_abs),
            "rms": style.scientific(c.rms),
            "max, ULP of Σ\\|x w\\|": f"{c.max_ulp:.2f}",
            "max, ULP of the largest partial sum": f"{c.max_partial_ulp:.1f}",
            "max, of the peak": style.scientific(c.max_peak),
            "other bits": f"{c.differing:,} of {c.outputs:,}",
        }
        for c in result.comparisons
    )


def tiles_table(out_dtype: torch.dtype | None, inputs: tuple) -> tuple[str, Any]:
    table = drift_over(kernel(), TILES, DTYPES, *inputs, ("exact", "torch.mv"), None, out_dtype)
    rows = [
        {"tile": tile}
        | {d: style.scientific(table[tile, d]["kernel", "exact"].max_abs) for d in DTYPES}
        for tile in TILES
    ]
    own = {d: table[TILES[0], d]["torch.mv", "exact"].max_abs for d in DTYPES}
    rows.append({"tile": "`torch.mv`"} | {d: style.scientific(v) for d, v in own.items()})
    return markdown(rows), table


def exact_table(by_fp64: DriftResult, rounded: DriftResult) -> str:
    big = torch.tensor([[1e30, 1.0, -1e30]]), torch.ones(1, 3)
    control = drift(lambda h, w: h @ w.T, *big, "exact").exact
    cases = {
        "sample, fp64": by_fp64.exact,
        "sample, rounded": rounded.exact,
        "1e30 + 1 - 1e30, fp64": control,
    }
    return markdown(
        {
            "inputs, exact=": name,
            "own error at most": style.scientific(e.own_error),
            "in ULP of Σ\\|x w\\|": style.scientific(e.own_error_ulp),
            "outputs checked": f"{e.checked:,}",
            "round to another value": f"{e.differing:,}",
            "largest difference": style.scientific(e.max_difference),
            "beyond fp64's bound": e.beyond_bound,
        }
        for name, e in cases.items()
    )


def main() -> None:
    inputs = sample()
    run = kernel()
    result = drift(run, *inputs, AGAINST, tree="declared")
    rounded = drift(run, *inputs, "exact", exact="rounded")
    g = torch.Generator().manual_seed(0)
    draw = torch.randn(32, 4096, generator=g), torch.randn(257, 4096, generator=g)
    random = drift(run, *draw, AGAINST, tree="declared")
    in_fp32, table = tiles_table(torch.float32, inputs)
    own_dtype, _ = tiles_table(None, inputs)
    e = result.evidence
    where = (
        f"Twin (simulated on a CPU, no Ascend hardware), dav-2201, tile 4096; torch "
        f"{e.torch_version} ({e.blas}, {e.cpu_capability}) on {cpu_name()}, {e.threads} threads."
    )
    parts = {
        "pairs": f"{where}\n\n{pairs_table(result)}",
        "random": pairs_table(random),
        "exact": exact_table(result, rounded),
        "fp32": in_fp32,
        "own": own_dtype,
        "worst": markdown(
            {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            for row in result.worst(5, unit="ulp").rows()
        ),
    }
    text = PAGE.read_text("utf-8")
    for name, body in parts.items():
        pattern = rf"(<!-- made: {name} -->\n).*?(<!-- end -->)"
        text, found = re.subn(
            pattern, lambda m, body=body: f"{m[1]}{body}\n{m[2]}", text, flags=re.S
        )
        assert found == 1, name
    PAGE.write_text(text, "utf-8")
    IMG.mkdir(exist_ok=True)
    for name, figure in {
        "map": plots.drift_map(result),
        "histogram": plots.drift_histogram(result.histogram()),
        "vocabulary": plots.drift_by_vocab(result),
        "tiles": plots.drift_by_tile(table),
    }.items():
        (IMG / f"drift_{name}.png").write_bytes(png(figure, scale=1))
    print(f"wrote {PAGE} and {IMG}/drift_*.png")


if __name__ == "__main__":
    main()
