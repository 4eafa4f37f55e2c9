"""Makes the table of library orders in docs/orders.md: facts of the machine it runs on.

python docs/make_orders_table.py        # about a minute
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch

from workbench.evidence import cpu_name
from workbench.orders.reveal import RevealError, reveal
from workbench.orders.reveal.rows import row_orders

PAGE = Path(__file__).resolve().parent / "orders.md"
N = 4096
ONE = ("numpy.sum", "numpy.dot", "numpy.matmul", "numpy.einsum", "torch.sum", "torch.mv")
MANY = (("torch.mv", 257), ("F.linear", 1), ("F.linear", 2), ("F.linear", 8), ("torch.sum", 8))


def cells(name: str, rows: int, which: str, tree) -> str:
    shape = f"{rows} row{'s' if rows > 1 else ''}"
    arithmetic = tree.report.arithmetic or "not plain sums"
    return f"| `{name}` | {shape} | {which} | {tree.height} | `{tree.hash}` | {arithmetic} |"


def table() -> str:
    lines = [
        f"{cpu_name()}, {torch.get_num_threads()} threads, torch {torch.__version__}, numpy "
        f"{np.__version__}; fp32, n = {N}:",
        "",
        "| function | call | output | height | order | reproduced by |",
        "|---|---|---|---|---|---|",
    ]
    for name in ONE:
        try:
            lines.append(cells(name, 1, "the one", reveal(name, N)))
        except RevealError as error:
            lines.append(f"| `{name}` | 1 row | the one | | | refused: {error.reason} |")
    for name, rows in MANY:
        for row in row_orders(name, N, rows).groups:
            tree, outputs = row
            which = f"{len(outputs)}, from row {outputs[0]}"
            lines.append(cells(name, rows, which, tree))
    return "\n".join(lines)


def main() -> None:
    pattern = r"(<!-- orders -->\n).*?(<!-- /orders -->)"
    text, found = re.subn(
        pattern, lambda m: f"{m[1]}{table()}\n{m[2]}", PAGE.read_text(), flags=re.S
    )
    assert found == 1
    PAGE.write_text(text)
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
