"""What a notebook says before it is run: title, parameters, claims and their assertions."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Any

from workbench.errors import InputError

from .result import Assertion, Claim, NotebookRun

_FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.M | re.S)
_HEADING = re.compile(r"^#+\s+(.+?)\s*$", re.M)


def read(file: Path) -> Any:
    """The notebook in `file`, as nbformat's version 4.

    Raises:
        InputError: It is no notebook; says where it stops to be JSON.
    """
    import json

    import nbformat

    try:
        text = file.read_text("utf-8")
        json.loads(text)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # of json, or not UTF-8
        hint = " It holds the marks of a merge conflict." if _conflict(file) else ""
        if file.suffix == ".py" and file.with_suffix(".ipynb").is_file():
            hint = f" Give {file.with_suffix('.ipynb').name}, the notebook that it is paired with."
        raise InputError(f"{file} is not a notebook: it is not JSON: {error}.{hint}") from error
    try:
        return nbformat.reads(text, as_version=4)
    except Exception as error:  # nbformat raises its own, KeyError, AttributeError and others
        raise InputError(
            f"{file} is not a notebook: {type(error).__name__}: {error}. It must have cells and "
            "metadata; open it in JupyterLab and save it, or make it anew with `make format`"
        ) from error


def _conflict(file: Path) -> bool:
    return re.search(rb"^<<<<<<< ", file.read_bytes(), re.M) is not None


def transformed(source: str) -> str:
    """A cell's code as the kernel compiles it: magics are calls."""
    from IPython.core.inputtransformer2 import TransformerManager

    return TransformerManager().transform_cell(source)


def python(source: str) -> ast.Module | None:
    """A cell's code as the kernel parses it. None: it does not parse."""
    try:
        return ast.parse(transformed(source))
    except (SyntaxError, ValueError):  # the run will say so, at that cell
        return None


def assertions(source: str, cell: int = 1) -> list[Assertion]:
    """Every `assert` of a cell, in the order of its lines.

    Example:
        >>> [(a.line, a.source) for a in assertions("x = 1\\nfor i in y:\\n    assert  i == x")]
        [(3, 'assert i == x')]
    """
    return [Assertion(text, cell, line, last) for line, last, text in _asserted(source)]


@functools.lru_cache(maxsize=1024)
def _asserted(source: str) -> tuple[tuple[int, int, str], ...]:
    """(first line, last line, source text) of every `assert`."""
    tree = python(source)
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Assert)] if tree else []
    code = transformed(source) if found else ""
    return tuple(
        sorted(
            (
                node.lineno,
                node.end_lineno or node.lineno,
                " ".join((ast.get_source_segment(code, node) or ast.unparse(node)).split()),
            )
            for node in found
        )
    )


def headings(source: str) -> list[str]:
    """The headings of a markdown cell, without their marks; not those in a fenced block."""
    return [plain(text) for text in _HEADING.findall(_FENCE.sub("", source))]


def plain(markdown: str) -> str:
    """A line of markdown without its marks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    return " ".join(re.sub(r"[*`]|(?<!\w)_|_(?!\w)", "", text).split())


def heading_above(cells: list, index: int) -> str | None:
    """The last markdown heading before cell `index`."""
    at = section(cells, index)
    return None if at is None else headings(cells[at].source)[-1]


def section(cells: list, index: int) -> int | None:
    """The cell with the last heading before cell `index`."""
    for at in range(min(index, len(cells)) - 1, -1, -1):
        if cells[at].cell_type == "markdown" and headings(cells[at].source):
            return at
    return None


def claims(cells: list, title: str) -> dict[int | None, Claim]:
    """Each section that asserts something, by the cell of its heading."""
    found: dict[int | None, Claim] = {}
    for index, cell in enumerate(cells):
        if cell.cell_type == "code" and (here := assertions(cell.source, index + 1)):
            at = section(cells, index)
            heading = title if at is None else headings(cells[at].source)[-1]
            found.setdefault(at, Claim(heading, [])).assertions += here
    return found


def declared(notebook: Any) -> dict[str, str]:
    """Names assigned in the cell tagged `parameters`, with the source text of their values."""
    found: dict[str, str] = {}
    for cell in notebook.cells:
        if cell.cell_type != "code" or "parameters" not in cell.metadata.get("tags", []):
            continue
        tree = python(cell.source)
        for node in tree.body if tree else []:
            targets: list = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                value = getattr(node, "value", None)
                if isinstance(target, ast.Name) and value is not None:
                    found[target.id] = ast.unparse(value)
    return found


def describe(file: Path, notebook: Any, given: dict[str, Any]) -> NotebookRun:
    """Name, title (first heading), claim (the paragraph after it), parameters, inputs, claims."""
    texts = [_FENCE.sub("", c.source) for c in notebook.cells if c.cell_type == "markdown"]
    text = "\n\n".join(texts)
    found = re.search(r"^#\s+(.+?)\s*$", text, re.M)
    rest = text[found.end() :] if found else ""
    claim = next((b for b in rest.strip().split("\n\n") if b and not b.startswith("#")), "")
    heading = plain(found.group(1)) if found else file.stem
    code = "\n".join(c.source for c in notebook.cells if c.cell_type == "code")
    return NotebookRun(
        name=file.stem,
        heading=heading,
        claim=plain(claim),
        parameters={**declared(notebook), **{k: repr(v) for k, v in given.items()}},
        inputs=list(dict.fromkeys(re.findall(r"\bsamples\.(\w+)\(", code))),
        claims=list(claims(notebook.cells, heading).values()),
    )
