"""Takes out of notebooks what a session leaves in them: python tests/strip_notebooks.py FILE …

Outputs, counts, widget state, the language's version and a front end's own cell metadata.
`make format` calls it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

KEPT = {"tags", "lines_to_next_cell"}  # the second is jupytext's


def strip(file: Path) -> bool:
    """Strip `file` in place; False if there was nothing to take out."""
    before = file.read_text("utf-8")
    notebook = nbformat.reads(before, as_version=4)
    for name in ("widgets", "language_info"):
        notebook.metadata.pop(name, None)
    for cell in notebook.cells:
        for name in set(cell.metadata) - KEPT:
            del cell.metadata[name]
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    if notebook == nbformat.reads(before, as_version=4):
        return False
    nbformat.write(notebook, file)
    return True


if __name__ == "__main__":
    for name in sys.argv[1:]:
        if strip(Path(name)):
            print(f"stripped {name}")
