"""Regular orders built as arrays: a level of equal additions is one step, whatever its width."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.errors import InputError
from workbench.orders.tree.reduction import ReductionTree


class Builder:
    """Collects the nodes of a tree over the terms 0..n-1.

    All methods take node ids in an array `[B, m]`, B sums of m things each, and return the ids of
    the B results. The terms are their own ids.

    Example:
        >>> build = Builder(4)
        >>> build.tree(build.pairs(np.arange(4)[None])).to_json()
        '[[0,1],[2,3]]'
    """

    def __init__(self, n: int):
        self.n = self.next = n
        self._children: list[np.ndarray] = []
        self._arities: list[np.ndarray] = []

    def add(self, things: np.ndarray) -> np.ndarray:
        """One node for each row of `things` [..., m], m >= 2: their ids [...]."""
        things = np.asarray(things, np.int64)
        count = things[..., 0].size
        ids = np.arange(self.next, self.next + count).reshape(things.shape[:-1])
        self.next += count
        self._children.append(things.reshape(-1))
        self._arities.append(np.full(count, things.shape[-1], np.int64))
        return ids

    def chain(self, things: np.ndarray) -> np.ndarray:
        """Each row of `things` [B, m] from left to right."""
        rows, count = things.shape
        if count == 1:
            return things[:, 0]
        # Ids are known beforehand, so the node before can be named before it is made.
        ids = self.next + np.arange((count - 1) * rows).reshape(count - 1, rows)
        before = np.concatenate([things[None, :, 0], ids[:-1]])
        return self.add(np.stack([before, things[:, 1:].T], axis=-1))[-1]

    def pairs(self, things: np.ndarray) -> np.ndarray:
        """Neighbours, then the results' neighbours, …; an odd last one is passed on as it is."""
        return self.levels(things, self._neighbours)

    def _neighbours(self, things: np.ndarray) -> np.ndarray:
        rows, count = things.shape
        whole = count - count % 2
        made = self.add(things[:, :whole].reshape(rows, whole // 2, 2))
        return np.concatenate([made, things[:, whole:]], axis=1)

    def halves(self, things: np.ndarray, width: int = 0) -> np.ndarray:
        """A halving tree: thing i and thing i + width/2, then i + width/4, …, then i + 1.

        `width` is a power of two, by default the smallest that holds all m things of a row. The
        places from m on are empty: where a partner is missing, a thing is passed on as it is.
        """
        width = width or 1 << (things.shape[1] - 1).bit_length()
        while width > 1:
            width //= 2
            both = max(things.shape[1] - width, 0)
            if both:
                made = self.add(np.stack([things[:, :both], things[:, width:]], axis=-1))
                things = np.concatenate([made, things[:, both:width]], axis=1)
        return things[:, 0]

    def levels(self, things: np.ndarray, once: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Apply `once`, which makes rows shorter, until one thing is left in each."""
        while things.shape[1] > 1:
            things = once(things)
        return things[:, 0]

    def tree(self, root: np.ndarray | None = None) -> ReductionTree:
        """The finished tree; checked, since a builder's mistake must not pass as an order."""
        if not self.n:
            return ReductionTree.from_nested([])
        if root is not None and int(np.asarray(root).item()) != self.next - 1:
            raise InputError(f"node {root} is not the last one made ({self.next - 1}); the root is")
        flat = np.concatenate([np.zeros(0, np.int64), *self._children])
        arities = np.concatenate([np.zeros(0, np.int64), *self._arities])
        return ReductionTree.from_arrays(flat, np.concatenate([[0], np.cumsum(arities)]))
