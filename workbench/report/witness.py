"""Runs inside the kernel: notes which assertions were evaluated and held.

An assertion below an `if`, or in a loop over nothing, can be passed over without a word. Only the
kernel knows, so each `assert` is followed there by a call that writes down its place.
"""

from __future__ import annotations

import ast
import builtins
import json
from pathlib import Path
from typing import Any

NAME = "__workbench_held__"


class AfterEachAssert(ast.NodeTransformer):
    """Puts a call of `NAME` with the cell's number and the line behind each `assert`.

    Cells are counted here, as they start: releases of IPython differ in when the shell's own
    `execution_count` moves on.
    """

    def __init__(self) -> None:
        self.cell = 0

    def started(self, info: Any) -> None:
        self.cell += bool(info.store_history)

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        place: list[ast.expr] = [ast.Constant(self.cell), ast.Constant(node.lineno)]
        call = ast.Expr(ast.Call(ast.Name(NAME, ast.Load()), place, []))
        return [node, ast.fix_missing_locations(ast.copy_location(call, node))]


def install(file: str, shell: Any = None) -> None:
    """Watch `shell` (None: the IPython running here) and write into `file`, a line a place."""
    if shell is None:
        from IPython import get_ipython

        shell = get_ipython()
    stream = open(file, "a", encoding="utf-8")  # noqa: SIM115
    seen: set[tuple[int, int]] = set()

    def held(cell: int, line: int) -> None:
        if (cell, line) not in seen:
            seen.add((cell, line))
            stream.write(json.dumps([cell, line]) + "\n")
            stream.flush()

    setattr(builtins, NAME, held)
    watcher = AfterEachAssert()
    shell.events.register("pre_run_cell", watcher.started)
    shell.ast_transformers.append(watcher)


def read(file: Path) -> set[tuple[int, int]] | None:
    """What was written: (number of the cell among those run, line). None: nobody watched."""
    if not file.exists():
        return None
    lines = file.read_text("utf-8").splitlines()
    return {(cell, line) for cell, line in map(json.loads, lines)}
