"""Makes the generated part of docs/mutations.md, and its picture, anew.

python docs/make_mutations.py         # writes docs/mutations.md and docs/img/mutations.png
"""

from __future__ import annotations

from pathlib import Path

from workbench.numerics.gates.standards import STANDARDS
from workbench.numerics.gates.table import mutation_table
from workbench.plots import style
from workbench.plots.mutations import mutation_grid

DOCS = Path(__file__).resolve().parent
START, END = "<!-- workbench mutations --markdown -->\n", "<!-- end -->"


def main() -> None:
    table = mutation_table()
    page = DOCS / "mutations.md"
    head, start, rest = page.read_text("utf-8").partition(START)
    _, end, tail = rest.partition(END)
    assert start and end, f"{page.name} has lost its markers {START!r} and {END!r}"
    page.write_text(f"{head}{start}{table.markdown()}\n{end}{tail}", "utf-8")
    heads = {name: standard.short for name, standard in STANDARDS.items()}
    ours = sum(standard.ours for standard in STANDARDS.values())
    file = DOCS / "img" / "mutations.png"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(style.png(mutation_grid(table, "fp32", heads, split=ours), scale=0.8))
    print(f"wrote {page.name} and {file.name}: {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
