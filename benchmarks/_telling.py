"""What the sections of the page share: a line of the summary, tables, times as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Result = dict[str, Any]

SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class Row:
    """A line of the summary. `met` is None where nothing is demanded."""

    what: str
    ours: str
    peer: str
    ratio: str
    must: str = ""
    met: bool | None = None


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    lines = [list(map(str, head)), ["---"] * len(head), *[list(map(str, row)) for row in rows]]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def prose(text: str) -> list[str]:
    """A paragraph in lines of the width that the docs have."""
    plain = " ".join(text.split())
    return textwrap.wrap(plain, 120, break_long_words=False, break_on_hyphens=False)


def time(seconds: float) -> str:
    if abs(seconds) < 0.1:
        return f"{1e3 * seconds:.2g} ms"
    return f"{seconds:.3g} s"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ranged(found: dict[str, float], scale: float = 1, unit: str = "") -> str:
    """The median, with the smallest and the largest."""
    median, low, high = (number(scale * found[k]) for k in ("median", "min", "max"))
    return f"{median}{unit} ({low} to {high})"
