"""HTML that all panels are made of: every text in it is escaped here."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.plots import style

PNG, SVG = "image/png", "image/svg+xml"
_SHORT = 18  # characters of a cell that stay on one line
JSON, CSV = "application/json", "text/csv"


def status(text: str, kind: str = "", bar: str = "") -> str:
    """What is going on, in a line that a screen reader is told of; `bar` is HTML beside it."""
    return (
        f'<div role="status" class="{_classes("workbench-status", kind)}" '
        f'style="color: var(--jp-ui-font-color2, #555)">{bar}{html.escape(text)}</div>'
    )


def error(text: str, heading: str = "") -> str:
    """Why there is no result, in words."""
    bold = f"<b>{html.escape(heading)}</b> " if heading else ""
    return (
        '<div role="alert" class="workbench-error" style="border-left: 4px solid #a8321a; '
        "padding: .5rem .8rem; white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.45; "
        f'max-width: 60rem">{bold}{html.escape(text)}</div>'
    )


def facts(lines: Mapping[str, str], open_ended: Iterable[str] = ()) -> str:
    """A table of names and texts; a row's class is `workbench-` and its name.

    Args:
        lines: {name: text}; rows without a text are left out.
        open_ended: Names that have a row without a text as well: it is still to come.
    """
    waiting = set(open_ended)
    rows = "".join(
        f'<tr class="workbench-{_slug(name)}"><th scope="row" style="text-align: left; '
        f'padding: .1rem 1rem .1rem 0; vertical-align: top; white-space: nowrap">'
        f'{html.escape(name)}</th><td style="text-align: left; padding: .1rem 0">'
        f"{html.escape(text) or '…'}</td></tr>"
        for name, text in lines.items()
        if text or name in waiting
    )
    return f'<table class="workbench-facts">{rows}</table>' if rows else ""


def as_it_was(widget: str, *shown: str) -> str:
    """What a page without a kernel shows in a widget's place, as HTML."""
    note = f"{widget} as it was when its cell ended. Run the cell to move its controls."
    return f"<p>{note}</p>{''.join(shown)}"


def table(
    rows: Sequence[Mapping[str, Any]], caption: str, heads: Mapping[str, str] | None = None
) -> str:
    """A table with a caption; the first column names the row.

    Args:
        rows: Dicts with the same keys.
        heads: Other words for the keys.
    """
    if not rows:
        return ""
    names = heads or {}
    head = "".join(f'<th scope="col">{html.escape(names.get(k, k))}</th>' for k in rows[0])
    body = ""
    for row in rows:
        first, *rest = row.values()
        cells = "".join(map(_cell, rest))
        body += f'<tr><th scope="row">{html.escape(str(first))}</th>{cells}</tr>'
    return (
        f'<div class="workbench-scroll" tabindex="0" role="region" '
        f'aria-label="{html.escape(caption)}"><table class="workbench-table">'
        f"<caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def image(figure: Any, alt: str, scale: float = 1.2) -> str:
    """A figure of `workbench.plots` as an image with its text alternative."""
    data = data_uri(style.png(figure, scale), PNG)
    # With a ratio of its sides the page keeps its place while one image replaces another.
    sides = " / ".join(f"{inches:g}" for inches in figure.get_size_inches())
    return (
        f'<img alt="{html.escape(alt)}" src="{data}" style="width: 100%; '
        f'max-width: 60rem; aspect-ratio: {sides}; background: white; display: block">'
    )


def data_uri(content: bytes, kind: str) -> str:
    """`content` as an address that holds it."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def download(content: bytes, kind: str, name: str, text: str) -> str:
    """A link that saves `content` as a file `name`."""
    return (
        f'<a class="workbench-download" download="{html.escape(name)}" '
        f'href="{data_uri(content, kind)}">{html.escape(text)}</a>'
    )


def evidence(*results: Any, note: str = "") -> str:
    """What the results shown rest on, in small print."""
    text = html.escape(style.evidence_text(*results, note=note))
    return f'<small class="workbench-evidence">{text}</small>'


def _cell(value: Any) -> str:
    words = str(value)
    whole = ' class="workbench-number"' if len(words) <= _SHORT else ""  # never broken in two
    return f"<td{whole}>{html.escape(words)}</td>"


def _slug(name: str) -> str:
    return name.replace(" ", "-").replace("'", "")


def _classes(*names: str) -> str:
    return " ".join(filter(None, names))


def note(text: str) -> str:
    """Why something is missing that could be there."""
    return f'<p class="workbench-note">{html.escape(text)}</p>'


def preformatted(text: str, label: str) -> str:
    """Text as it is, with a heading; it scrolls, also by keyboard."""
    return (
        f'<p class="workbench-label"><b>{html.escape(label)}</b></p>'
        f'<pre class="workbench-log" tabindex="0" role="region" aria-label="{html.escape(label)}">'
        f"{html.escape(text)}</pre>"
    )


def progress(done: int, of: int, label: str) -> str:
    """A bar that says how far the work is."""
    return (
        f'<progress class="workbench-progress" aria-label="{html.escape(label)}" '
        f'value="{done}" max="{of}"></progress>'
    )


def text(words: str) -> str:
    """Words as HTML."""
    return html.escape(words)
