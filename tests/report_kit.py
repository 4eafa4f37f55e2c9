"""Notebooks for tests of the report, written in a few words."""

from __future__ import annotations

import copy
import traceback
from pathlib import Path
from typing import Any

import nbformat

from workbench.report.claims import assertions


def notebook(path: Path, *cells: tuple[str, str]) -> Path:
    """Write a notebook; a cell is (kind, source), the kind "md", "code" or "parameters"."""
    made = []
    for kind, source in cells:
        if kind == "md":
            made.append(nbformat.v4.new_markdown_cell(source))
        else:
            made.append(nbformat.v4.new_code_cell(source))
            made[-1].metadata["tags"] = ["parameters"] if kind == "parameters" else []
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return path


def run_reduced(source: Any, cell: int | None, line: int | None) -> tuple[Any, set]:
    """A notebook "executed" with nothing but its assertions, in this process.

    The assertion at `cell` (an index) and `line` is false. The cells get the counts, times and
    error outputs that a kernel gives. Returns the notebook and the assertions that held.
    """
    executed, held, count = copy.deepcopy(source), set(), 0
    for index, one in enumerate(executed.cells):
        if one.cell_type != "code" or not one.source.strip():
            continue
        count += 1
        one.metadata["papermill"] = {"start_time": "2026-01-01T00:00:00", "duration": 0.5}
        one.execution_count = count
        for found in assertions(one.source):
            false = (index, found.line) == (cell, line)
            code = "\n" * (found.line - 1) + f"assert {not false}, 'broken on purpose'"
            try:
                exec(code, {})
            except AssertionError as error:
                at = traceback.extract_tb(error.__traceback__)[-1].lineno
                text = f"Cell In[{count}], line {at}"
                one.outputs = [
                    nbformat.v4.new_output(
                        "error", ename="AssertionError", evalue=str(error), traceback=[text]
                    )
                ]
                return executed, held
            held.add((count, found.line))
    return executed, held
