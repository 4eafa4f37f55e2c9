"""Makes the tables and the figure of docs/bounds.md from results computed here and now.

python docs/make_bounds_table.py            # a million outputs, about a minute on one core
python docs/make_bounds_table.py --seeds 1  # a hundred thousand
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import torch

import workbench as wb
from workbench.evidence import cpu_name
from workbench.numerics.bounds import Bounds, bounds
from workbench.numerics.bounds.study import BoundsStudy, bounds_study, errors_in, markdown
from workbench.orders.standard import reduce_sum, sequential_order
from workbench.plots import png
from workbench.plots.bounds import bound_scatter

DOCS = Path(__file__).resolve().parent
PAGE, FIGURE = DOCS / "bounds.md", DOCS / "img" / "bound_against_error.png"


def study(seeds: int, outputs: int) -> BoundsStudy:
    """All seeds as one result."""
    parts = [bounds_study(outputs, seed) for seed in range(seeds)]
    return BoundsStudy(tuple(c for part in parts for c in part.cells), parts[0].delta, 0)


def full_size() -> tuple[list[dict[str, Any]], dict[str, tuple[Bounds, Any]]]:
    """Rows for whole workloads, and what the figure shows."""
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(32, 4096, generator=g), torch.randn(257, 4096, generator=g)
    sample = wb.samples.smollm2()
    real = sample.hidden.reshape(-1, sample.hidden.shape[-1]), sample.weight
    constant = torch.full((2, 4096), 0.1), torch.full((2, 4096), 0.1)
    pattern = torch.tensor([0.1, 0.2, 0.7]).repeat(1366)[None, :4096].contiguous()
    cases = {
        "N(0, 1), method 1": (reduce_sum(4096, 1), hidden, weight),
        "N(0, 1), sequential": (sequential_order(4096), hidden, weight),
        "real sample, method 1": (reduce_sum(576, 1), *real),
        "all 0.1, sequential": (sequential_order(4096), *constant),
        "0.1, 0.2, 0.7, …, sequential": (sequential_order(4096), pattern, torch.ones(1, 4096)),
    }
    rows, shown = [], {}
    for name, (tree, x, w) in cases.items():
        found, error = bounds(tree, x, w), errors_in(tree, x, w, torch.float32, False)
        ratio = found.ratio(error)
        rows.append(
            {"inputs and order": name, "N x H x V": " x ".join(map(str, found.shape))}
            | {f"{kind} ratio": value for kind, value in ratio.items()}
            | {"warnings": len(found.warnings)}
        )
        shown[name] = (found, error)
    return rows, shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--outputs", type=int, default=700, help="outputs of one call")
    given = parser.parse_args()
    rows, shown = full_size()
    FIGURE.parent.mkdir(exist_ok=True)
    FIGURE.write_bytes(png(bound_scatter(shown), scale=1))
    found = study(given.seeds, given.outputs)
    parts = [
        f"{found.title()}.\n",
        *(markdown(found.by(key)) + "\n" for key in ("distribution", "order", "dtypes")),
        "Whole workloads:\n",
        markdown(rows) + "\n",
        f"Made by `python docs/make_bounds_table.py --seeds {given.seeds} --outputs "
        f"{given.outputs}` on {cpu_name()}, torch {torch.__version__}.",
    ]
    text = PAGE.read_text("utf-8")
    new = "<!-- study -->\n" + "\n".join(parts) + "\n<!-- end -->"
    text, count = re.subn(r"<!-- study -->.*?<!-- end -->", lambda _: new, text, flags=re.S)
    if count != 1:
        raise SystemExit(f"{PAGE} has no place for the tables: <!-- study --> … <!-- end -->")
    PAGE.write_text(text, "utf-8")
    print(found.title())


if __name__ == "__main__":
    main()
