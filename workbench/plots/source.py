"""A kernel's source as a picture: what a check found, at the lines it found it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from workbench.errors import InputError
from workbench.plots import style

_ROW = 0.29  # inches of a line
_CHARACTER = 0.0815  # inches of a monospaced character at the size used
_NOTE = 0.066  # inches of a character of a note
_WIDE = 66  # characters of a note in a line; it has two


def source_lines(
    text: str,
    notes: Mapping[int, str],
    changed: Mapping[int, str] | None = None,
    evidence: str = "",
    title: str = "",
    first: int = 1,
) -> Figure:
    """The lines of a source with notes beside some of them.

    Args:
        text: The source; its first line is number 1.
        notes: {line: what is said of it}; those lines are marked with a triangle.
        changed: {line: a short mark}, e.g. where something was taken out.
        evidence: The line below.
        title: The finding; "": how many lines have notes.
        first: The first line shown.

    Raises:
        InputError: A note or a mark at a line that is not shown.
    """
    lines = text.rstrip("\n").split("\n")
    marks = dict(changed or {})
    outside = sorted(at for at in {*notes, *marks} if not first <= at <= len(lines))
    if outside:
        raise InputError(f"lines {outside}: the source shown has the lines {first} to {len(lines)}")
    shown = textwrap.dedent("\n".join(lines[first - 1 :])).split("\n")
    code = max(map(len, shown), default=0) * _CHARACTER + 1.0
    said = {
        at: textwrap.wrap(textwrap.shorten(note, 2 * _WIDE, placeholder=" …"), _WIDE)
        for at, note in notes.items()
    }
    beside = max((len(n) for some in said.values() for n in some), default=0) * _NOTE + 0.4
    margin = max(map(len, marks.values()), default=0) * _NOTE + 0.2
    width, height = margin + code + beside, len(shown) * _ROW
    fig = style.figure(
        width + 0.3,
        height + 1.3,
        title or f"{len(notes)} of {len(lines)} lines have a note",
        evidence or style.evidence_text(),
    )
    ax = fig.subplots()
    ax.set_xlim(0, width)
    ax.set_ylim(len(shown), 0)
    ax.axis("off")
    plain: dict[str, Any] = {"va": "center", "color": style.INK, "fontsize": 10}
    for row, line in enumerate(shown):
        at, y = first + row, row + 0.5
        if at in notes:
            ax.axhspan(row, row + 1, color=style.FAINT, lw=0)
            ax.text(margin + 0.5, y, "▶", **{**plain, "color": style.ACCENT})
        if at in marks:
            ax.text(margin, y, marks[at], ha="right", **{**plain, "color": style.CATEGORIES[0]})
            ax.axhspan(row, row + 1, xmin=(margin + 0.05) / width, xmax=(margin + 0.1) / width,
                       color=style.CATEGORIES[0], lw=0)  # fmt: skip
        number = {**plain, "color": style.SOFT, "family": "monospace"}
        ax.text(margin + 0.45, y, str(at), ha="right", **number)
        ax.text(margin + 0.75, y, line, family="monospace", **plain)
        if at in notes:
            note = {**plain, "fontsize": 9, "linespacing": 1.05}
            ax.text(margin + code + 0.15, y, "\n".join(said[at]), **note)
    return fig
