"""`TreeView`: one order of summation, or two side by side, to zoom into and to fold."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import traitlets

from workbench.errors import InputError
from workbench.orders.tree.compare import Difference
from workbench.orders.tree.icicle import Icicle, Shares, icicle, shares
from workbench.orders.tree.reduction import ReductionTree
from workbench.orders.tree.window import Place, window, words
from workbench.plots import style
from workbench.plots.views import icicle_svg, palette, svg_image
from workbench.widgets.views.front import STILL, View, evidence_line, script, whole_number

FOLDED_FROM = 512  # terms from which the folded picture is shown first
_OTHER = ("left", "right")


def tree_view(
    tree: ReductionTree,
    other: ReductionTree | None = None,
    *,
    terms: Any = None,
    label: str = "",
    other_label: str = "",
    evidence: Any = "",
    folded: bool | None = None,
) -> TreeView:
    """An order of summation to move about in: zoom, fold, and read what each sum is.

    Args:
        tree: The order, up to hundreds of thousands of terms.
        other: A second order, beside the first; the first difference is marked in both.
        terms: float16, float32 or float64 [n], numpy or torch: what is added. Each sum then shows
            its share of the running error bound, u times the sum of all |partial sum|.
        label, other_label: What the orders are called.
        evidence: The line below: a text, or results that carry their evidence.
        folded: Begin with equal sums drawn once. None: from 512 terms on.

    Returns:
        A widget. `.selected` is (side, node) of the sum last looked at; `.set_terms` takes others.

    Raises:
        InputError: An order without terms, or `terms` of another shape or dtype.

    Example:
        >>> from workbench.orders.standard import pairwise_order, sequential_order
        >>> view = tree_view(pairwise_order(4), sequential_order(4))
        >>> view.difference["text"].splitlines()[1].strip()
        'left adds the 2 terms 2, 3: [2,3]'
    """
    view = TreeView(tree, other, label, other_label, evidence, folded)
    if terms is not None:
        view.set_terms(terms)
    return view


class TreeView(View):
    """Made by `tree_view`.

    Attributes:
        selected: (side, node): 0 for the first order or 1, and the node as in `ReductionTree`
            (terms 0..n-1, inner nodes from n). Of equal sums in one cell it is the first one.
        folded: Whether equal sums are drawn once; may be set.
        trees: The orders.
        difference: {} for one order. Else "equal", "text", and where each order has it.
    """

    _esm = script("tree_view.js")

    selected: Any = traitlets.Tuple((0, -1))
    folded = traitlets.Bool(False).tag(sync=True)
    orders: Any = traitlets.List().tag(sync=True)
    views: Any = traitlets.List().tag(sync=True)
    difference: Any = traitlets.Dict().tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)
    evidence = traitlets.Unicode().tag(sync=True)
    palette: Any = traitlets.List().tag(sync=True)

    def __init__(
        self,
        tree: ReductionTree,
        other: ReductionTree | None = None,
        label: str = "",
        other_label: str = "",
        evidence: Any = "",
        folded: bool | None = None,
    ) -> None:
        self.trees = (tree,) if other is None else (tree, other)
        for given in self.trees:
            if not isinstance(given, ReductionTree):
                raise InputError(
                    f"got a {type(given).__name__}; wanted a ReductionTree, such as "
                    "wb.declared_order(…) or wb.reveal(…) gives"
                )
        self._labels = [label, other_label] if label or other_label or other is None else [*_OTHER]
        self._icicles = [(icicle(t), icicle(t, folded=True)) for t in self.trees]
        self._shares: list[tuple[Shares | None, Shares | None]] = [(None, None)] * len(self.trees)
        self._marks = [(-1, -1)] * len(self.trees)
        self._terms_label = ""
        found = None if other is None else tree.diff(other)
        super().__init__(
            folded=tree.leaves >= FOLDED_FROM if folded is None else bool(folded),
            evidence=evidence_line(evidence),
            palette=palette(style.SEQUENTIAL),
            difference={} if found is None else self._difference(found),
            selected=(0, self._top(0)),
        )
        self._refresh()

    def set_terms(self, terms: Any, label: str = "") -> TreeView:
        """Show shares of the running error bound of the sum of `terms`; None: no shares.

        Args:
            terms: float16, float32 or float64 [n].
            label: What they are, as "row 3, vocabulary id 17".

        Raises:
            InputError: Another shape or dtype.
        """
        made: list[tuple[Shares | None, Shares | None]] = [(None, None)] * len(self.trees)
        if terms is not None:
            made = [(shares(a, terms), shares(b, terms)) for a, b in self._icicles]
        self._shares, self._terms_label = made, label
        self._refresh()
        return self

    def bound(self, side: int = 0) -> float | None:
        """The running error bound of the sum of the terms, u times the sum of all |partial sum|."""
        found = self._shares[side][0]
        return None if found is None else found.bound

    # ---- answers ---------------------------------------------------------------------------------

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Replies of the kernel: a window of cells, or a sum in words.

        Args:
            asked: {"ask": "window", "side", "folded", "place": [low, high, level]} or
                {"ask": "words", "side", "folded", "cell"}.

        Raises:
            InputError: No such window or cell.
        """
        side, folded = whole_number(asked["side"], "side"), bool(asked["folded"])
        if not 0 <= side < len(self.trees):
            raise InputError(f"side={side}; this view shows {len(self.trees)} of them, from 0")
        if asked["ask"] == "window":
            place = [whole_number(x, "place") for x in asked["place"]]
            return {"view": self._window(side, folded, Place(*place))}
        if asked["ask"] == "words":
            cell = whole_number(asked["cell"], "cell")
            cells = self._icicles[side][folded]
            terms, order = words(cells, cell)
            self.selected = (side, self._node(cells, cell))
            return {"terms": terms, "order": order}
        raise InputError(f"the page asked for {asked['ask']!r}; this view answers window and words")

    def _window(self, side: int, folded: bool, place: Place | None = None) -> dict[str, Any]:
        cells = self._icicles[side][folded]
        low, high, level = place or (0, None, None)
        found = window(cells, low, high, level, self._shares[side][folded])
        cell = self._marks[side][folded]
        mark = -1 if cell < 0 else found.at(cells, cell)
        return {
            **found.to_dict(),
            "folded": folded,
            "mark": mark,  # the cell drawn that is the first different sum, or that it is in
            "mark_is_it": mark >= 0 and int(found.cells["cell"][mark]) == cell,
        }

    @staticmethod
    def _node(cells: Icicle, cell: int) -> int:
        nodes = cells.nodes(cell)
        layout = cells.tree._layout
        whole = nodes[layout.sizes[nodes] == cells.terms[cell]]
        return int(whole[np.argmin(layout.least[whole])])

    def _top(self, side: int) -> int:
        return self._icicles[side][0].tree._layout.total - 1

    def _refresh(self) -> None:
        """What the page starts from, also one without a kernel: both pictures of each order."""
        orders = []
        for tree, label, found in zip(self.trees, self._labels, self._shares, strict=False):
            bound = found[0].bound if found[0] is not None else None
            orders.append(
                {
                    "label": label,
                    "n": tree.leaves,
                    "height": tree.height,
                    "hash": tree.hash,
                    "terms_label": self._terms_label,
                    "bound": None if bound is None or bound != bound else bound,
                    "has_shares": bound is not None,
                }
            )
        views = [[self._window(k, folded) for folded in (False, True)]
                 for k in range(len(self.trees))]  # fmt: skip
        with self.hold_sync():
            self.orders, self.views = orders, views
            self.alt = self._described()

    def _difference(self, found: Difference) -> dict[str, Any]:
        """Where the first difference is in both orders and both pictures."""
        told: dict[str, Any] = {"equal": found.equal, "text": str(found), "places": []}
        if not found.side:
            return told
        sets = found.terms, found.there_terms
        for side in (0, 1):
            terms = sets[0] if found.side == _OTHER[side] else sets[1]
            plain, folded = self._icicles[side]
            node = _holder(plain, terms)
            marks = (node, int(folded.cell_of[node]))
            self._marks[side] = marks
            both = zip((plain, folded), marks, strict=True)
            told["places"].append([list(_around(cells, mark)) for cells, mark in both])
        return told

    # ---- without a kernel ------------------------------------------------------------------------

    def _described(self) -> str:
        parts: list[str] = []
        for order, tree in zip(self.orders, self.trees, strict=True):
            name = order["label"] or "an order of summation"
            folded = self._icicles[len(parts)][1]
            whole = words(folded, int(np.argmin(folded.level)))[1]
            parts.append(
                f"{name}: {tree.leaves:,} terms, a term is rounded at most {tree.height:,} times"
                + (f"; in words: {whole}" if whole else "")
            )
        if self.difference and not self.difference["equal"]:
            parts.append(self.difference["text"].splitlines()[0])
        return "Icicle of " + ". ".join(parts) + "."

    def still(self) -> str:
        alone = len(self.orders) == 1  # its name is the title then
        labels = [_title(order | {"label": ""} if alone else order) for order in self.orders]
        title = self._labels[0] or "An order of summation"
        if len(self.trees) > 1:
            title = self.difference["text"].splitlines()[0].capitalize()
        shown = [pair[self.folded] for pair in self.views]
        picture = svg_image(
            icicle_svg(shown, [t.leaves for t in self.trees], labels, title, self.evidence),
            self.alt,
        )
        note = f'<p class="workbench-note">{html.escape(STILL)}</p>'
        return f'<div class="workbench-view">{picture}{note}</div>'

    def __repr__(self) -> str:
        return f"TreeView: {self.alt}"


def _title(order: dict[str, Any]) -> str:
    text = f"{order['n']:,} terms · height {order['height']:,} · order {order['hash'][:6]}"
    if order["bound"] is not None:
        of = f" of {order['terms_label']}" if order["terms_label"] else ""
        text += f" · running error bound{of}: {order['bound']:.3g}"
    return f"{order['label']} · {text}" if order["label"] else text


def _holder(cells: Icicle, terms: np.ndarray) -> int:
    """The smallest node of a plain picture that holds all these terms."""
    places = cells.tree._layout.starts[terms]
    holds = (cells.start <= places.min()) & (cells.end > places.max())
    found = np.flatnonzero(holds)
    return int(found[np.argmax(cells.level[found])])


def _around(cells: Icicle, cell: int) -> Place:
    """A window in which a cell is seen with what is about it."""
    here = cell
    while cells.parent[here] >= 0 and cells.width[here] < 2 * cells.width[cell]:
        here = int(cells.parent[here])
    return Place(int(cells.start[here]), int(cells.end[here]), int(cells.level[here]))
