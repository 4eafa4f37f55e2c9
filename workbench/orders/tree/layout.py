"""What can be read off a tree without adding anything: who is above whom, and where each leaf
stands. Arrays over all nodes; the loops run over inner nodes once and cost no more for deep trees.
"""

from __future__ import annotations

import functools

import numpy as np


class Layout:
    """The arrays of one tree, each made when first asked for.

    Nodes are numbered as in `ReductionTree`: leaves 0..n-1, inner nodes n.. with children before
    parents, so the last node is the root.
    """

    def __init__(self, leaves: int, children: np.ndarray, offsets: np.ndarray):
        self.leaves, self.children, self.offsets = leaves, children, offsets
        self.inner = len(offsets) - 1
        self.total = leaves + self.inner

    @functools.cached_property
    def owner(self) -> np.ndarray:
        """For each entry of `children`: the node it is a child of."""
        arities = np.diff(self.offsets)
        return np.repeat(np.arange(self.leaves, self.total, dtype=np.int64), arities)

    @functools.cached_property
    def parents(self) -> np.ndarray:
        """The parent of each node, -1 for the root."""
        parents = np.full(self.total, -1, np.int64)
        parents[self.children] = self.owner
        return parents

    @functools.cached_property
    def _up(self) -> list[int]:
        """Parents of the inner nodes but the root, counted among the inner nodes."""
        return (self.parents[self.leaves : -1] - self.leaves).tolist() if self.inner else []

    @functools.cached_property
    def sizes(self) -> np.ndarray:
        """The number of leaves below each node; 1 for a leaf."""
        above = self.parents[: self.leaves] - self.leaves
        below = np.bincount(above, minlength=self.inner).tolist() if self.inner else []
        for k, up in enumerate(self._up):
            below[up] += below[k]
        return np.concatenate([np.ones(self.leaves, np.int64), np.array(below, np.int64)])

    @functools.cached_property
    def heights(self) -> np.ndarray:
        """Edges down to the farthest leaf below each node; 0 for a leaf."""
        high = [1] * self.inner
        for k, up in enumerate(self._up):
            if high[k] >= high[up]:
                high[up] = high[k] + 1
        return np.concatenate([np.zeros(self.leaves, np.int64), np.array(high, np.int64)])

    @functools.cached_property
    def depths(self) -> np.ndarray:
        """Edges from each node up to the root."""
        deep = [0] * self.inner
        up = self._up
        for k in range(self.inner - 2, -1, -1):
            deep[k] = deep[up[k]] + 1
        inner = np.array(deep, np.int64)
        if not self.inner:
            return np.zeros(self.leaves, np.int64)
        return np.concatenate([inner[self.parents[: self.leaves] - self.leaves] + 1, inner])

    @functools.cached_property
    def least(self) -> np.ndarray:
        """The smallest term number below each node."""
        if not self.inner:
            return np.arange(self.leaves)
        found = np.full(self.inner, self.leaves, np.int64)
        np.minimum.at(found, self.parents[: self.leaves] - self.leaves, np.arange(self.leaves))
        least = found.tolist()
        for k, up in enumerate(self._up):
            if least[k] < least[up]:
                least[up] = least[k]
        return np.concatenate([np.arange(self.leaves), np.array(least, np.int64)])

    # ------------------------------------------------------------ leaves in the order of the tree

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Where the leaves below each node begin when leaves are put in the order of the tree.

        A node covers the places starts[v] .. starts[v] + sizes[v] - 1.
        """
        if not self.inner:
            return np.zeros(self.leaves, np.int64)
        sizes = self.sizes[self.children]
        before = np.cumsum(sizes) - sizes
        within = np.zeros(self.total, np.int64)  # places of elder siblings
        within[self.children] = before - before[self.offsets[self.owner - self.leaves]]
        place, add, up = [0] * self.inner, within[self.leaves :].tolist(), self._up
        for k in range(self.inner - 2, -1, -1):  # parents before children
            place[k] = place[up[k]] + add[k]
        inner = np.array(place, np.int64)
        leaves = inner[self.parents[: self.leaves] - self.leaves] + within[: self.leaves]
        return np.concatenate([leaves, inner])

    @functools.cached_property
    def leaf_order(self) -> np.ndarray:
        """The term numbers in the order of the tree: leaf_order[starts[i]] = i."""
        order = np.empty(self.leaves, np.int64)
        order[self.starts[: self.leaves]] = np.arange(self.leaves)
        return order

    def terms(self, node: int) -> np.ndarray:
        """The term numbers below a node, ascending."""
        start = self.starts[node]
        return np.sort(self.leaf_order[start : start + self.sizes[node]])

    @functools.cached_property
    def gaps(self) -> np.ndarray:
        """The node at which the leaf in place t meets the one in place t + 1: ids [n - 1].

        The lowest common ancestor of places a < b is the largest of the nodes gaps[a:b].
        """
        nodes = np.empty(max(self.leaves - 1, 0), np.int64)
        if self.inner:
            younger = np.ones(len(self.children), bool)
            younger[self.offsets[:-1]] = False
            nodes[self.starts[self.children[younger]] - 1] = self.owner[younger]
        return nodes

    @functools.cached_property
    def _gap_maxima(self) -> RangeExtremes:
        return RangeExtremes(self.sizes[self.gaps], np.maximum)

    def lca_sizes(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Leaves below the lowest common ancestor of the leaves i and j; 1 where i = j."""
        a, b = self.starts[i], self.starts[j]
        low, high = np.minimum(a, b), np.maximum(a, b)
        found = np.ones(low.shape, np.int64)
        apart = low < high
        found[apart] = self._gap_maxima(low[apart], high[apart])
        return found


class RangeExtremes:
    """The maximum (or minimum) of `values[low:high]` for many ranges at once: a sparse table."""

    def __init__(self, values: np.ndarray, take: np.ufunc):
        self.take, self.levels = take, [values]
        width = 1
        while 2 * width <= len(values):
            last = self.levels[-1]
            self.levels.append(take(last[:-width], last[width:]))
            width *= 2

    def __call__(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Ranges must not be empty: low < high."""
        level = np.frexp((high - low).astype(np.float64))[1] - 1  # floor of the logarithm
        found = np.empty(low.shape, self.levels[0].dtype)
        for k in np.unique(level).tolist():
            here = level == k
            row = self.levels[k]
            found[here] = self.take(row[low[here]], row[high[here] - (1 << k)])
        return found
