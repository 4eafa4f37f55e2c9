"""What a window of an icicle shows: few enough cells to draw, whatever the number of terms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import InputError
from workbench.orders.tree.compare import ranges
from workbench.orders.tree.fold import shapes_below
from workbench.orders.tree.foldtext import describe
from workbench.orders.tree.icicle import Icicle, Shares
from workbench.orders.tree.layout import Layout
from workbench.orders.tree.nested import write_json

LIMIT = 1500  # cells that are drawn, at most
ROWS = 18  # rows of cells, at most
_FINEST = 256  # parts of the window's width, the narrowest that is drawn by itself
_COARSEST = 16
_CRUMBS = 5
_TEXT = 240  # characters of an order in words, about
_DESCRIBED = 8192  # terms of an order up to which sums of its plain picture are put into words


class Place(NamedTuple):
    """Where a window stands: places low .. high - 1, from a level down."""

    low: int
    high: int
    level: int


class Crumb(NamedTuple):
    """A sum that holds the window: where it stands, its terms, and how many such sums there are."""

    place: Place
    terms: int
    sums: int


@dataclass(frozen=True, eq=False)
class Window:
    """The cells to draw. A row shows the sums at its first level; see `rows`.

    Attributes:
        place: Places and level of the window.
        n: Places of the whole picture.
        rows: (first, last level) of each row, from the top. One level a row where they fit; else
            more and more of them towards the bottom.
        cells: {name: array}, an entry for each cell drawn. "cell" is its number in the icicle, or
            -1 for `pooled` neighbours that are too narrow to be drawn one by one. "x0", "x1" are
            its places (they may reach beyond the window), "row" its row, "pooled" how many cells
            it is. "terms" is the largest number of terms in one of its sums, "terms_min" the
            least. The others are those of `Icicle`. "own" and "below" are shares of the bound.
        path: Sums that hold the window, from the whole to the smallest, a few of them.
        out: A window a step further out; None where this is the whole.
    """

    place: Place
    n: int
    rows: list[tuple[int, int]]
    cells: dict[str, np.ndarray]
    path: list[Crumb]
    out: Place | None

    def __len__(self) -> int:
        return len(self.cells["cell"])

    def at(self, icicle: Icicle, cell: int) -> int:
        """Which of the cells drawn is, or holds, a cell of the icicle; -1 if none does."""
        level, place = int(icicle.level[cell]), int(icicle.start[cell])
        row = next((r for r, (a, b) in enumerate(self.rows) if a <= level <= b), -1)
        drawn = self.cells
        here = (drawn["row"] == row) & (drawn["x0"] <= place) & (place < drawn["x1"])
        seen = (drawn["x1"] > self.place.low) & (drawn["x0"] < self.place.high)
        found = np.flatnonzero(here & seen)
        return int(found[0]) if len(found) else -1

    def to_dict(self) -> dict[str, Any]:
        """For a front end: lists, and None for NaN."""
        cells = {}
        for name, values in self.cells.items():
            if values.dtype.kind == "f":
                listed = [None if x != x else float(f"{x:.4g}") for x in values.tolist()]
            else:
                listed = values.tolist()
            cells[name] = listed
        return {
            "place": list(self.place),
            "n": self.n,
            "rows": [list(row) for row in self.rows],
            "cells": cells,
            "path": [[list(c.place), c.terms, c.sums] for c in self.path],
            "out": None if self.out is None else list(self.out),
        }


def window(
    icicle: Icicle,
    low: int = 0,
    high: int | None = None,
    level: int | None = None,
    shares: Shares | None = None,
    limit: int = LIMIT,
    rows: int = ROWS,
) -> Window:
    """The cells that a window of `icicle` shows.

    Args:
        icicle: Of any size; a window takes milliseconds.
        low, high: Places low .. high - 1; high=None: to the end.
        level: The window begins with the smallest sum that holds these places and is no deeper
            than this. None: the smallest of all, but in a window of everything the result.
        shares: Of the same icicle; None: none are told.
        limit: Cells, at most; at least 1,000.
        rows: Rows, at most; at least 4, and at most 20.

    Raises:
        InputError: No such places.

    Example:
        >>> from workbench.orders.standard import pairwise_order
        >>> from workbench.orders.tree.icicle import icicle
        >>> found = window(icicle(pairwise_order(151_936)))
        >>> len(found) <= 1500, found.rows[:2]
        (True, [(0, 0), (1, 1)])
    """
    n = icicle.places
    high = n if high is None else high
    if not 0 <= low < high <= n:
        raise InputError(f"a window of places {low} to {high}; there are the places 0 to {n}")
    if limit < 1000 or not 4 <= rows <= 20:
        raise InputError(f"limit={limit}, rows={rows}; wanted 1000 cells or more and 4 to 20 rows")
    if level is None and (low, high) == (0, n):
        level = 0
    chain = _holding(icicle, low, high, level)
    top = chain[0]
    ends, starts = icicle.ends
    a, b = np.searchsorted(starts, low, "right") - 1, np.searchsorted(starts, high)
    bottom = int(icicle.level[ends[a:b]].max())
    shown = _bands(int(icicle.level[top]), bottom, rows)
    slices = [_row(icicle, low, high, first) for first, _ in shown]
    finest = _FINEST
    while True:
        pools = [_pools(icicle, cells, low, high, finest) for cells in slices]
        if sum(map(len, pools)) <= limit or finest <= _COARSEST:
            break
        finest //= 2
    return Window(
        place=Place(low, high, int(icicle.level[top])),
        n=n,
        rows=shown,
        cells=_drawn(icicle, slices, pools, shares),
        path=_path(icicle, chain),
        out=_out(icicle, chain, low, high),
    )


def words(icicle: Icicle, cell: int) -> tuple[str, str]:
    """(the term numbers in the first sum of a cell, in what order they are added), for people.

    The order is "" where there is nothing to say or it would take long to find out.

    Example:
        >>> from workbench.orders.standard import halving_order
        >>> from workbench.orders.tree.icicle import icicle
        >>> words(icicle(halving_order(8)), 12)
        ('0..6 by 2', '[[0,4],[2,6]]')
    """
    if not 0 <= cell < len(icicle):
        raise InputError(
            f"there is no cell {cell}; this picture has the cells 0..{len(icicle) - 1}"
        )
    nodes = icicle.nodes(cell)
    layout = icicle.tree._layout
    # Of a run the last sum holds all; of several equal sums the first is described.
    whole = nodes[layout.sizes[nodes] == icicle.terms[cell]]
    node = int(whole[np.argmin(layout.least[whole])])
    size, first = int(layout.sizes[node]), int(layout.least[node])
    together = int(icicle.last[cell]) - first + 1 == size > 1
    numbers = f"{first}..{first + size - 1}" if together else ranges(layout.terms(node))
    if size == 1:
        return numbers, ""
    nodes_below: Any = _Nodes(layout)
    text = write_json(layout.leaves, nodes_below, node, _TEXT) if size <= _TEXT else " …"
    if text.endswith("]"):
        return numbers, text
    if icicle.folded:
        return numbers, describe(icicle._shapes[: icicle._kinds[cell] + 1], _TEXT)
    if icicle.tree.leaves > _DESCRIBED:
        return numbers, ""
    return numbers, describe(shapes_below(icicle.tree, node), _TEXT)


class _Nodes:
    """Children of inner nodes, looked up one by one: a list of all takes a fifth of a second."""

    def __init__(self, layout: Layout):
        self._children, self._offsets = layout.children, layout.offsets

    def __getitem__(self, k: int) -> list[int]:
        return self._children[self._offsets[k] : self._offsets[k + 1]].tolist()


# ---- parts ---------------------------------------------------------------------------------------


def _holding(icicle: Icicle, low: int, high: int, level: int | None) -> list[int]:
    """The smallest cell that holds the places (no deeper than `level`), and all above it."""
    # One look at all cells is faster than a walk from a leaf up through 150,000 levels.
    found = np.flatnonzero((icicle.start <= low) & (icicle.end >= high))
    if level is not None:
        found = found[icicle.level[found] <= level]
    return found[np.argsort(-icicle.level[found])].tolist()


def _bands(top: int, bottom: int, most: int) -> list[tuple[int, int]]:
    """Levels top .. bottom in at most `most` rows: one each, or more and more of them."""
    levels = bottom - top + 1
    if levels <= most:
        return [(k, k) for k in range(top, bottom + 1)]
    # A geometric series of heights, beginning with single levels.
    edges = np.unique(np.round(np.geomspace(1, levels + 1, most + 1)).astype(int)) - 1
    return [(top + a, top + b - 1) for a, b in itertools.pairwise(edges.tolist())]


def _row(icicle: Icicle, low: int, high: int, level: int) -> np.ndarray:
    """The cells of one level that a window cuts or holds, from left to right."""
    by, starts, bounds = icicle.by_level
    a, b = bounds[level], bounds[level + 1]
    first = a + max(0, int(np.searchsorted(starts[a:b], low, "right")) - 1)
    end = a + int(np.searchsorted(starts[a:b], high))
    found = by[first:end]
    if len(found) and icicle.start[found[0]] + icicle.width[found[0]] <= low:
        return found[1:]
    return found


def _pools(icicle: Icicle, cells: np.ndarray, low: int, high: int, finest: int) -> np.ndarray:
    """Where each of the cells drawn begins among `cells`: narrow neighbours are one."""
    if not len(cells):
        return np.zeros(0, np.int64)
    narrow = icicle.width[cells] * finest < high - low
    bucket = (icicle.start[cells] - low) * finest // (high - low)
    new = np.ones(len(cells), bool)
    new[1:] = ~(narrow[1:] & narrow[:-1] & (bucket[1:] == bucket[:-1]))
    return np.flatnonzero(new)


def _drawn(
    icicle: Icicle, slices: list[np.ndarray], pools: list[np.ndarray], shares: Shares | None
) -> dict[str, np.ndarray]:
    cells = np.concatenate(slices)
    sizes = [len(s) for s in slices]
    offsets = np.cumsum([0, *sizes[:-1]])
    at = np.concatenate([p + o for p, o in zip(pools, offsets, strict=True)])
    pooled = np.diff(np.append(at, len(cells)))
    head, tail = cells[at], cells[at + pooled - 1]
    found = {
        "cell": np.where(pooled == 1, head, -1),
        "row": np.repeat(np.arange(len(pools)), [len(p) for p in pools]),
        "x0": icicle.start[head],
        "x1": icicle.start[tail] + icicle.width[tail],
        "pooled": pooled,
        "terms": np.maximum.reduceat(icicle.terms[cells], at),
        "terms_min": np.minimum.reduceat(icicle.terms[cells], at),
        "count": np.add.reduceat(icicle.count[cells], at),
        "things": icicle.things[head],
        "run": icicle.run[head],
        "first": np.minimum.reduceat(icicle.first[cells], at),
        "last": np.maximum.reduceat(icicle.last[cells], at),
        "step": np.where(pooled == 1, icicle.step[head], 0),
        "depth_min": np.minimum.reduceat(icicle.depth_min[cells], at),
        "depth_max": np.maximum.reduceat(icicle.depth_max[cells], at),
    }
    if shares is not None:
        found["own"] = np.add.reduceat(shares.own[cells], at)
        found["below"] = np.add.reduceat(shares.below[cells], at)
    return found


def _place(icicle: Icicle, cell: int) -> Place:
    start = int(icicle.start[cell])
    return Place(start, start + int(icicle.width[cell]), int(icicle.level[cell]))


def _path(icicle: Icicle, chain: list[int]) -> list[Crumb]:
    """A few of the cells from the root to the window's: the ends, and between them the nearest."""
    steps = np.geomspace(1, len(chain), _CRUMBS).round().astype(int) - 1
    chosen = sorted({*steps.tolist()}, reverse=True) if len(chain) > _CRUMBS else None
    cells = chain[::-1] if chosen is None else [chain[k] for k in chosen]
    return [Crumb(_place(icicle, c), int(icicle.terms[c]), int(icicle.count[c])) for c in cells]


def _out(icicle: Icicle, chain: list[int], low: int, high: int) -> Place | None:
    """The next sum that is clearly wider; else the whole."""
    path = np.array(chain)
    if len(path) == 1 and high - low == icicle.places:
        return None
    wider = np.flatnonzero(2 * icicle.width[path] >= 3 * (high - low))
    return _place(icicle, int(path[wider[0]] if len(wider) else path[-1]))
