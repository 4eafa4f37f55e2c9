"""The shape all results share: a text form, an HTML form for notebooks, and a dict for JSON."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re
import uuid
from typing import Any


class JsonText(str):
    """JSON that is written already, for what Python's encoder cannot nest: a tree 900 deep."""


def json_text(value: Any) -> str:
    """`value` as one line of JSON; each `JsonText` in it goes in as it is.

    Example:
        >>> json_text({"tree": JsonText("[[0,1],2]"), "height": 2})
        '{"tree": [[0,1],2], "height": 2}'
    """
    parts: list[str] = []
    mark = uuid.uuid4().hex

    def without(item: Any) -> Any:
        if isinstance(item, JsonText):
            parts.append(item)
            return f"{mark}{len(parts) - 1}"
        if isinstance(item, dict):
            return {k: without(v) for k, v in item.items()}
        return [without(v) for v in item] if isinstance(item, list) else item

    text = json.dumps(without(jsonable(value)), allow_nan=False)
    return re.sub(f'"{mark}([0-9]+)"', lambda found: parts[int(found[1])], text)


def jsonable(value: Any) -> Any:
    """`value` in terms of dict, list, str, int, float, bool and None.

    JSON has no NaN or Infinity, so those floats become the strings "nan", "inf" and "-inf":
    a reader then sees that there was something, and what.
    """
    if isinstance(value, Result):
        return jsonable(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: jsonable(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(v) for v in value]
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return jsonable(value.item())
    return str(value)


def html_table(rows: list[dict[str, Any]], caption: str = "") -> str:
    """An HTML table of `rows` (all with the same keys), every cell escaped."""
    if not rows:
        return f"<p>{html.escape(caption)}: nothing to show</p>"
    head = "".join(f"<th scope='col'>{html.escape(str(k))}</th>" for k in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(v))}</td>" for v in row.values()) + "</tr>"
        for row in rows
    )
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def text_table(rows: list[dict[str, Any]], indent: str = "  ") -> str:
    """`rows` (all with the same keys) in columns: numbers to the right, words to the left.

    Example:
        >>> print(text_table([{"tile": 64, "class": "A"}, {"tile": 1024, "class": None}], ""))
        tile  class
          64  A
        1024  -
    """
    if not rows:
        return f"{indent}nothing to show"
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        cells = [name, *("-" if v in (None, "") else _cell(v) for v in values)]
        number = all(_numeric(v) for v in values)
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if number else cell.ljust(width) for cell in cells])
    lines = ("  ".join(cells) for cells in zip(*columns, strict=True))
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def _numeric(value: Any) -> bool:
    try:
        float(value or 0)
    except (TypeError, ValueError):
        return False
    return True


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


class Result:
    """Mixin for result dataclasses. Override `rows` (a table) or `to_dict` where it helps."""

    def to_dict(self) -> dict[str, Any]:
        return {
            f.name: jsonable(getattr(self, f.name))
            for f in dataclasses.fields(self)  # type: ignore[arg-type]
            if f.metadata.get("json", True)
        }

    def rows(self) -> list[dict[str, Any]]:
        """The result as table rows: one dict a row, the same keys in each."""
        return [self.to_dict()]

    def to_pandas(self) -> Any:
        """The rows as a `pandas.DataFrame`."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def title(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        lines = [self.title()]
        for row in self.rows():
            cells = ((k, _cell(v)) for k, v in row.items())
            lines.append("  " + "  ".join(f"{k}={text}" for k, text in cells if text))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_table(self.rows(), self.title())
