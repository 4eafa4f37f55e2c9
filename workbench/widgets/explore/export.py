"""Figures and data of the panes as files, and as links that save them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workbench._result import JsonText, Result, json_text, jsonable
from workbench.errors import InputError
from workbench.plots import style
from workbench.widgets import markup
from workbench.widgets.explore import panes
from workbench.widgets.explore.pins import PinComparison
from workbench.widgets.explore.result import ExploreResult
from workbench.widgets.explore.study import PANES
from workbench.widgets.explore.work import PINS

SHARP = 2.0  # times a figure's nominal size, of a PNG


def files(pane: str, found: ExploreResult) -> Iterator[tuple[str, str, bytes]]:
    """(name, media type, content) of everything that a pane has to give.

    An order is given as its nested lists and as the number of roundings of each term.
    """
    for picture in panes.pictures(pane, found):
        figure = picture.draw()
        yield f"{picture.name}.png", markup.PNG, style.png(figure, SHARP)
        yield f"{picture.name}.svg", markup.SVG, _svg(figure)
    data = panes.data(pane, found)
    if data is None:
        return
    if isinstance(data, Result):
        rows = data.rows()
        text = json.dumps(jsonable(data), indent=2, allow_nan=False, ensure_ascii=False)
    else:
        rows = [{"term": k, "roundings": int(depth)} for k, depth in enumerate(data.depths())]
        nested = JsonText(data.to_json())
        text = json_text({"hash": data.hash, "height": data.height, "tree": nested})
    yield f"{pane}.json", markup.JSON, text.encode()
    yield f"{pane}.csv", markup.CSV, _csv(rows)


def pin_files(pins: Mapping[str, PinComparison]) -> Iterator[tuple[str, str, bytes]]:
    """(name, media type, content) of how each pin compares with what is shown now."""
    if not pins:
        return
    text = json.dumps(jsonable(pins), indent=2, allow_nan=False, ensure_ascii=False)
    yield f"{PINS}.json", markup.JSON, text.encode()
    rows = [{"pin": name} | row for name, found in pins.items() for row in found.rows()]
    yield f"{PINS}.csv", markup.CSV, _csv(rows)


def write(
    folder: Path, found: ExploreResult, code: str, pins: Mapping[str, PinComparison] | None = None
) -> list[Path]:
    """All panes that are done, the pins, the state and the code, into a folder.

    Raises:
        InputError: It cannot be written.
    """
    state = json.dumps(jsonable(found), indent=2, allow_nan=False, ensure_ascii=False)
    content = [("view.py", code.encode()), ("view.json", state.encode())]
    for pane in PANES:
        if pane in found.done:
            content += [(name, data) for name, _, data in files(pane, found)]
    content += [(name, data) for name, _, data in pin_files(pins or {})]
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in content:
            path = folder / name
            path.write_bytes(data)
            written.append(path)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror}") from error
    return written


def links(pane: str, found: ExploreResult, pins: Mapping[str, PinComparison]) -> str:
    """Links that save a pane's figures and data, as HTML."""
    given = pin_files(pins) if pane == PINS else files(pane, found)
    made = [markup.download(content, kind, name, name) for name, kind, content in given]
    if not made:
        return markup.note("This pane has nothing to export.")
    return f'<div class="workbench-links">Save: {" ".join(made)}</div>'


def _svg(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()


def _csv(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
