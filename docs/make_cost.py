"""Makes the tables and figures of docs/cost-model.md from counters taken here and now.

python docs/make_cost.py          # under a minute
python docs/make_cost.py --table  # the table of rates only
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import workbench as wb
from workbench.build import arch as archs
from workbench.plots import png
from workbench.plots.cost import cost_bars, counter_growth
from workbench.sweep.cost_model import Cost, cost
from workbench.sweep.growth import Growth, growth
from workbench.sweep.ranking import rank
from workbench.sweep.rates import rates

DOCS = Path(__file__).resolve().parent
PAGE, IMG = DOCS / "cost-model.md", DOCS / "img"
ROWS, WIDTH, VOCAB = 59, 4096, 960


def rates_table() -> str:
    """All rates of all architectures, in Markdown."""
    lines = ["| architecture | rate | value | unit | from | |", "|---|---|---|---|---|---|"]
    common: dict[str, set[Any]] = {}
    tables = {name: rates(name).table for name in archs.names()}
    for table in tables.values():
        for rate in table.values():
            common.setdefault(rate.name, set()).add(rate)
    for name, table in tables.items():
        for rate in table.values():
            everywhere = len(common[rate.name]) == 1
            if everywhere and name != archs.names()[0]:
                continue
            tag = f"[{rate.tag}]({rate.source})" if rate.source else rate.tag
            which = "all" if everywhere else name
            lines.append(
                f"| {which} | `{rate.name}` | {rate.value:g} | {rate.unit} | {tag} | {rate.why} |"
            )
    return "\n".join([*lines[:2], *sorted(lines[2:])])


def configurations() -> dict[str, Cost]:
    """Schedules, tiles and block counts of the LM head at 59 x 4096 x 960."""
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(ROWS, WIDTH, generator=g), torch.randn(VOCAB, WIDTH, generator=g)
    wanted = {
        "output, tile 4096, 48 blocks": ("output", 4096, 48),
        "output, tile 512, 48 blocks": ("output", 512, 48),
        "stationary, tile 4096, 48 blocks": ("weight_stationary", 4096, 48),
        "stationary, tile 1024, 48 blocks": ("weight_stationary", 1024, 48),
        "stationary, tile 4096, 49 blocks": ("weight_stationary", 4096, 49),
        "stationary, tile 4096, 12 blocks": ("weight_stationary", 4096, 12),
    }
    found = {}
    for name, (schedule, tile, blocks) in wanted.items():
        config = wb.KernelConfig(schedule=schedule, tile_length=tile, max_blocks=blocks)
        kernel = wb.build("lm_head", config, backend="twin")
        kernel(hidden, weight, counters=True)
        found[name] = cost(kernel)
    return found


def laws() -> dict[str, Growth]:
    """How the counters of both schedules grow."""
    found = {}
    for schedule in ("output", "weight_stationary"):
        kernel = wb.build("lm_head", wb.KernelConfig(schedule=schedule), backend="twin")

        def count(n: int, h: int, v: int, kernel: Any = kernel) -> Mapping[str, int]:
            kernel(torch.ones(n, h), torch.ones(v, h), counters=True)
            return kernel.last.counters

        found[schedule] = growth(count, (4, 256, 16), (1, 2, 4, 8))
    return found


def table(rows: list[dict[str, Any]]) -> str:
    head = [f"| {' | '.join(rows[0])} |", "|" + "---|" * len(rows[0])]
    cells = [
        "| "
        + " | ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in row.values())
        + " |"
        for row in rows
    ]
    return "\n".join(head + cells)


def put(page: str, mark: str, text: str) -> str:
    """`page` with what stands between the marks replaced."""
    between = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    return re.sub(between, lambda m: f"{m[1]}{text}\n{m[2]}", page, flags=re.S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true")
    only_table = parser.parse_args().table
    page = put(PAGE.read_text("utf-8"), "rates", rates_table())
    if not only_table:
        costs = configurations()
        page = put(page, "ranking", f"{rank(costs).title()}.\n\n{table(rank(costs).rows())}")
        page = put(
            page, "formula", f"```\n{costs['stationary, tile 4096, 48 blocks'].formula()}\n```"
        )
        found = laws()
        rows = [
            {"schedule": name, **row} for name, g in found.items() for row in g.rows()
            if row["kind"] != "constant"
        ]  # fmt: skip
        page = put(page, "laws", table(rows))
        note = f"LM head {ROWS}×{WIDTH}×{VOCAB} fp32"
        (IMG / "cost_by_configuration.png").write_bytes(png(cost_bars(costs, note=note)))
        (IMG / "counters_grow.png").write_bytes(png(counter_growth(found)))
    PAGE.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
