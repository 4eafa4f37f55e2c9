"""Pictures of the interactive views for a page without a kernel: what a view shows at first.

Written as SVG, since a view is shown again and again and matplotlib takes half a second.
"""

from __future__ import annotations

import base64
import html
import io
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.image import imsave

from workbench.plots import style

STOPS = 65  # colours of a map that a front end mixes from
_WIDE, _MARGIN, _FONT = 960, 64, 13
_LETTER = 7.4  # width of a letter of that size, about
_ENDS = ((0, "start"), (0.5, "middle"), (1, "end"))
_LINES = {"title": 26, "panel": 24, "axis": 20, "evidence": 17}


def palette(name: str) -> list[str]:
    """Colours of a map of matplotlib, evenly from its beginning to its end, as "#rrggbb".

    Example:
        >>> len(palette("cividis")), palette("cividis")[0]
        (65, '#00224e')
    """
    return [to_hex(color) for color in colormaps[name](np.linspace(0, 1, STOPS))]


def icicle_svg(
    windows: Sequence[Mapping[str, Any]],
    terms: Sequence[int],
    labels: Sequence[str],
    title: str,
    evidence: str = "",
) -> str:
    """Windows of icicles one below the other.

    Args:
        windows: `Window.to_dict()` of each, with "mark", the cell to outline or -1, and "folded".
        terms: Of each whole order.
        labels: The line above each.
        title: The finding.
        evidence: The line below all.
    """
    colors = colormaps[style.SEQUENTIAL]
    head = _wrapped(title, 17)
    parts = [_text(12, 24 + 22 * k, line, 17, "bold") for k, line in enumerate(head)]
    y = 14.0 + 22 * len(head)
    for view, n, label in zip(windows, terms, labels, strict=True):
        y += _LINES["panel"]
        parts.append(_text(12, y - 6, label, _FONT))
        high = min(34, max(18, 360 // len(view["rows"])))
        parts += _cells(view, n, y, high, colors)
        y += high * len(view["rows"]) + _LINES["axis"]
        low, end, _ = view["place"]
        for share, anchor in () if view["folded"] else _ENDS:
            number = f"{low + share * (end - low):,.0f}" + (" terms" if share == 1 else "")
            x = _MARGIN + share * (_WIDE - _MARGIN - 8)
            parts.append(_text(x, y - 4, number, 12, anchor=anchor, color=style.SOFT))
    words = "Below each sum the parts it adds; the lighter, the more terms."
    if not all(view["folded"] for view in windows):
        words += " Left: how many additions follow; a row of several (…) shows its first."
    if any(view["mark"] >= 0 for view in windows):
        words += " Orange: the first difference."
    for line in _wrapped(words, 13):
        y += _LINES["evidence"]
        parts.append(_text(12, y, line, 12, color=style.SOFT))
    return _page(parts, y + 6, evidence)


def heatmap_svg(
    values: np.ndarray,
    limit: float,
    ends: tuple[tuple[int, int], tuple[int, int]],
    names: tuple[str, str],
    unit: str,
    title: str,
    evidence: str = "",
) -> str:
    """A table of signed numbers on a diverging map centred on 0.

    Args:
        values: fp64 [tall, wide], what the bins show; a NaN or Inf is black.
        limit: The ends of the colour scale, -limit and limit.
        ends: ((first, last row), (first, last column)).
        names: What a row and a column are.
        unit: Of the values.
        title: The finding.
        evidence: The line below.
    """
    colors = colormaps[style.DIVERGING]
    with np.errstate(invalid="ignore"):
        pixels = colors(np.clip(0.5 + values / (2 * (limit or 1)), 0, 1))
    pixels[~np.isfinite(values)] = (0, 0, 0, 1)
    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png")
    picture = base64.b64encode(buffer.getvalue()).decode()
    head = _wrapped(title, 17)
    parts = [_text(12, 24 + 22 * k, line, 17, "bold") for k, line in enumerate(head)]
    top = 28.0 + 22 * len(head)
    high, wide = 260, _WIDE - _MARGIN - 8
    parts.append(
        f'<image x="{_MARGIN}" y="{top}" width="{wide}" height="{high}" '
        f'preserveAspectRatio="none" style="image-rendering: pixelated" '
        f'href="data:image/png;base64,{picture}"/>'
    )
    for share in (0, 1):
        y, x = top + 12 + share * (high - 12), _MARGIN + share * wide
        parts.append(_text(_MARGIN - 6, y, f"{ends[0][share]:,}", 12, anchor="end"))
        anchor = "end" if share else "start"
        parts.append(_text(x, top + high + 16, f"{ends[1][share]:,}", 12, anchor=anchor))
    middle = _MARGIN + wide / 2
    words = f"across: {names[1]}; down: {names[0]}"
    parts.append(_text(middle, top + high + 16, words, 12, anchor="middle"))
    y = top + high + 30
    for k in range(61):
        fill = to_hex(colors(k / 60))
        parts.append(f'<rect x="{_MARGIN + 4 * k}" y="{y}" width="4.5" height="12" fill="{fill}"/>')
    scale = f"−{limit:.3g} to {limit:.3g} {unit}; black: NaN or Inf"
    parts.append(_text(_MARGIN + 256, y + 11, scale, 12))
    return _page(parts, y + 20, evidence)


def svg_image(svg: str, alt: str) -> str:
    """An SVG as an HTML image: nothing in it runs, and it has a text alternative."""
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}" '
        'style="width: 100%; max-width: 60rem; background: white; display: block">'
    )


# ---- parts ---------------------------------------------------------------------------------------


def _cells(view: Mapping[str, Any], terms: int, top: float, high: int, colors: Any) -> list[str]:
    low, end, _ = view["place"]
    across = (_WIDE - _MARGIN - 8) / (end - low)
    most = math.log2(max(2, terms))
    cells, parts, marks = view["cells"], [], []
    for k, row in enumerate(cells["row"]):
        left = _MARGIN + (max(low, cells["x0"][k]) - low) * across
        right = _MARGIN + (min(end, cells["x1"][k]) - low) * across
        y, color = top + row * high, to_hex(colors(math.log2(cells["terms"][k]) / most))
        edge = ' stroke="white" stroke-width="1"' if right - left > 4 else ""
        parts.append(
            f'<rect x="{left:.1f}" y="{y:.0f}" width="{max(0.8, right - left):.1f}" '
            f'height="{high}" fill="{color}"{edge}/>'
        )
        if k == view["mark"]:
            marks.append(
                f'<rect x="{left:.1f}" y="{y:.0f}" width="{max(2.0, right - left):.1f}" '
                f'height="{high}" fill="none" stroke="{style.ACCENT}" stroke-width="4"/>'
            )
        words = next((w for w in _labels(cells, k) if len(w) * _LETTER + 8 < right - left), "")
        if words:
            x, ink = (left + right) / 2, style.ink_on(color)
            parts.append(_text(x, y + high / 2 + 4.5, words, _FONT, "", "middle", ink))
    if not view["folded"]:
        for k, (first, last) in enumerate(view["rows"]):
            words = f"{first:,}" if first == last else f"{first:,}…"
            y = top + k * high + high / 2 + 4
            parts.append(_text(_MARGIN - 6, y, words, 12, anchor="end", color=style.SOFT))
    return parts + marks


def _labels(cells: Mapping[str, Any], k: int) -> list[str]:
    """What could stand in a cell, the longest first."""
    if cells["pooled"][k] > 1:
        return []
    terms, count = cells["terms"][k], cells["count"][k]
    if terms == 1 and count == 1:
        return [f"term {cells['first'][k]:,}", f"{cells['first'][k]:,}"]
    each = "1 term" if terms == 1 else f"{terms:,} terms"
    short = f"{count:,} × {terms:,}" if count > 1 else f"{terms:,}"
    whole = f"{count:,} × {each}" if count > 1 else each
    run = f"{whole}: {cells['things'][k]:,} parts from left to right"
    return [run, whole, short] if cells["run"][k] else [whole, short]


def _wrapped(text: str, size: int) -> list[str]:
    return textwrap.wrap(text, int(_WIDE / (size * 0.56))) or [""]


def _text(
    x: float,
    y: float,
    words: str,
    size: int,
    weight: str = "",
    anchor: str = "start",
    color: str = style.INK,
) -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'fill="{color}"{bold}>{html.escape(words)}</text>'
    )


def _page(parts: list[str], y: float, evidence: str) -> str:
    small = _wrapped(evidence, 12) if evidence else []
    for k, line in enumerate(small):
        parts.append(_text(12, y + 14 + _LINES["evidence"] * k, line, 12, color=style.SOFT))
    high = y + 10 + _LINES["evidence"] * len(small)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high:.0f}" '
        f'width="{_WIDE}" height="{high:.0f}" font-family="system-ui, sans-serif">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>'
    )
