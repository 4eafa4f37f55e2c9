"""What all figures share: size, colours, a title that states a finding, and the evidence below it.

Nothing here goes through pyplot or rcParams, so a figure may be drawn on any thread.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.textpath import TextPath

from workbench import __version__

# Okabe and Ito's palette, without its black and with its yellow late: it vanishes on white.
CATEGORIES = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#999999",
    "#F0E442",
)
INK, SOFT, FAINT = "#1c2024", "#5b636b", "#dcdfe3"
ACCENT = "#D55E00"
SEQUENTIAL, DIVERGING = "cividis", "PuOr"
DPI = 100
_CHARACTER = 0.062  # inches of one character of the evidence line, about
_LONG = 4  # a list of more values is shortened to its ends


def figure(width: float, height: float, title: str, evidence: str = "") -> Figure:
    """An empty figure of `width` x `height` inches with its title and evidence line."""
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    fig = Figure(figsize=(width, height), dpi=DPI, layout=layout, facecolor="white")
    fig.suptitle(
        _wrapped(title, width), x=0.01, ha="left", fontsize=15, fontweight="bold", color=INK
    )
    if evidence:
        small = textwrap.fill(evidence, int(width / _CHARACTER))
        fig.supxlabel(small, x=0.01, ha="left", fontsize=8, color=SOFT, linespacing=1.35)
    return fig


def _wrapped(title: str, width: float) -> str:
    """The title in lines that fit: letters differ in width, so each line is measured."""
    bold, lines = FontProperties(weight="bold", size=15), [title]
    for characters in range(int(width / 0.125), 8, -1):
        lines = textwrap.wrap(title, characters)
        if all(TextPath((0, 0), s, prop=bold).get_extents().x1 / 72 < width - 0.2 for s in lines):
            break
    return "\n".join(lines)


def plain_axes(ax: Axes, *, grid: bool = False) -> None:
    """Readable ticks, no box; a light grid on y where asked for."""
    ax.tick_params(labelsize=11, color=SOFT, labelcolor=INK)
    ax.xaxis.label.set(fontsize=12, color=INK)
    ax.yaxis.label.set(fontsize=12, color=INK)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(SOFT)
    if grid:
        ax.grid(axis="y", color=FAINT, linewidth=0.8)
        ax.set_axisbelow(True)


def cell_axes(ax: Axes, columns: Sequence[Any], rows: Sequence[Any]) -> None:
    """Ticks and white rules for a table of coloured cells drawn with `imshow`."""
    ax.set_xticks(range(len(columns)), [str(c) for c in columns])
    ax.set_yticks(range(len(rows)), [str(r) for r in rows])
    ax.tick_params(length=0, labelsize=11, labelcolor=INK)
    ax.xaxis.label.set(fontsize=12, color=INK)
    ax.yaxis.label.set(fontsize=12, color=INK)
    ax.set_xticks(np.arange(0.5, len(columns) - 1), minor=True)
    ax.set_yticks(np.arange(0.5, len(rows) - 1), minor=True)
    ax.grid(which="minor", color="white", linewidth=2)
    ax.tick_params(which="minor", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def size_bar(fig: Figure, axes: Any, norm: Normalize, label: str) -> None:
    """A colour bar for numbers of terms, `norm` over their logarithm to base 2."""
    bar = fig.colorbar(ScalarMappable(norm, SEQUENTIAL), ax=axes, shrink=0.8, pad=0.01, aspect=30)
    bar.set_label(label, fontsize=11)
    powers = np.unique(np.linspace(0, int(norm.vmax or 0), 6).astype(int)).tolist()
    bar.set_ticks(powers, labels=[f"{2**power:,}" for power in powers])
    bar.ax.tick_params(labelsize=10)
    bar.outline.set_visible(False)


def ink_on(color: Any) -> str:
    """Black or white, whichever reads better on `color`."""
    r, g, b = to_rgb(color)
    return INK if 0.299 * r + 0.587 * g + 0.114 * b > 0.55 else "white"


def scientific(value: float) -> str:
    """Two digits and a power of ten as people write it: 7.0e-5; 0 stays 0."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


# ---- evidence ------------------------------------------------------------------------------------


def evidence_text(*results: Any, note: str = "") -> str:
    """One line on what a figure rests on, made of the evidence of all results in it.

    Args:
        *results: Anything with `.evidence` (and, where it has them, `.shape`, `.dtype` and
            `.out_dtype`), or an `Evidence` itself, or an iterable of such.
        note: What else a reader should know, put first.
    """
    found = list(_flatten(results))
    if not found:
        return " · ".join(filter(None, [note, f"workbench {__version__}"]))
    evidences = [getattr(r, "evidence", r) for r in found]
    kernels = [e for e in evidences if e.backend]
    parts = [note]
    parts.append(_merge(BACKENDS.get(e.backend, str(e.backend)) for e in kernels))
    parts.append(_merge(e.arch for e in kernels))
    for name, words in (("tile_length", "tile"), ("max_blocks", "MAX_BLOCKS")):
        values = _merge(e.config[name] for e in kernels if name in e.config)
        parts.append(f"{words} {values}" if values else "")
    parts.append(_merge(e.target for e in evidences if not e.backend))
    parts.append(_merge(_shape(r) for r in found if hasattr(r, "shape")))
    parts.append("inputs " + _merge(e.fixture_id for e in evidences))
    last = evidences[-1]
    parts.append(
        f"torch {last.torch_version} ({last.blas}, {last.cpu_capability}), {last.cpu}, "
        f"{last.threads} threads"
    )
    return " · ".join(filter(None, [*parts, f"workbench {__version__}"]))


# What a figure calls a backend.
BACKENDS = {"twin": "twin (simulated on this CPU, no Ascend hardware)", "npu": "npu"}


def _flatten(things: Iterable[Any]) -> Iterable[Any]:
    for thing in things:
        if hasattr(thing, "evidence") or hasattr(thing, "fixture_id"):
            yield thing
        else:
            yield from _flatten(thing.values() if hasattr(thing, "values") else thing)


def _shape(result: Any) -> str:
    n, h, v = result.shape
    out = getattr(result, "out_dtype", result.dtype)
    arrow = "" if out == result.dtype else f" → {out}"
    return f"{n}×{h}×{v} {result.dtype}{arrow}"


def _merge(values: Iterable[Any]) -> str:
    """The different values in the order met, a long list by its first and last."""
    different = list(dict.fromkeys(values))
    if different and all(isinstance(v, int) for v in different):
        different.sort()
    texts = [str(v) for v in different]
    if len(texts) > _LONG:
        return f"{texts[0]} … {texts[-1]} ({len(texts)} of them)"
    return ", ".join(texts)


# ---- showing -------------------------------------------------------------------------------------


def png(fig: Figure, scale: float = 2) -> bytes:
    """The figure as a PNG, `scale` times as sharp as its nominal size."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=DPI * scale)
    return buffer.getvalue()


def show(fig: Figure, alt: str) -> None:
    """Display a figure in a notebook with a text alternative.

    The text goes into the output's metadata, where nbconvert takes it for `alt=…`, and into its
    plain-text form, which is what a terminal or a diff shows.

    Args:
        fig: A figure of this package.
        alt: What the figure shows, for someone who cannot see it.
    """
    from IPython.display import Image, display

    if not alt.strip():
        raise ValueError("alt is empty; say in a sentence what the figure shows")
    image = Image(png(fig), width=round(fig.get_figwidth() * DPI), alt=alt)
    data, metadata = image._repr_mimebundle_()
    data["text/plain"] = alt
    display(data, metadata=metadata, raw=True)
