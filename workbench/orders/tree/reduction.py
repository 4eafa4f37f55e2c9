"""`ReductionTree`: an order of summation as a value that can be hashed, compared and executed.

Nothing here recurses: a left-to-right sum of 10,000 terms is a tree 9,999 levels deep.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import InputError
from workbench.orders.tree.execute import Schedule, check_terms, chunk_rows, schedule
from workbench.orders.tree.layout import Layout
from workbench.orders.tree.nested import (
    Nested,
    adjacent_pairs,
    by_levels,
    joined,
    paired,
    parse,
    parse_json,
    sequential,
    write_json,
)

if TYPE_CHECKING:
    from workbench.orders.tree.compare import Difference
    from workbench.orders.tree.fold import FoldedTree

__all__ = [
    "Nested",
    "ReductionTree",
    "adjacent_pairs",
    "by_levels",
    "joined",
    "paired",
    "sequential",
]

_MATRIX_BYTES = 2 << 30  # a matrix of all pairs that is larger is surely a mistake


@dataclass(frozen=True, eq=False, repr=False)
class ReductionTree:
    """An order in which the terms 0..n-1 are added. Immutable.

    Build one with `from_nested`, `from_json`, `from_arrays`, `workbench.declared_order` or
    `workbench.orders.standard`. Leaves are numbered 0..n-1 in storage, inner nodes n.. with every
    child before its parent, so each pass over the tree is a loop and the last node is the root.
    Two trees are equal when they differ by the order of children only, since IEEE addition
    commutes (bit for bit, NaN payloads aside: an order claims nothing about those).

    A node with more than two children is a fused one: its children's exact sum, rounded once.
    That is the model of an ideal fused adder (an assumption about hardware, not a promise of it).

    The arrays are checked and copied, so that nothing outside changes them.

    Attributes:
        leaves: Number of terms n; 0 for the empty sum, which is +0.
        children: Ids of the children of all inner nodes, one node after another; int64.
        offsets: Where each inner node starts in `children`, and the end; int64 [inner + 1].

    Example:
        >>> tree = ReductionTree.from_nested([[0, 1], [2, 3]])
        >>> tree.height, tree.arity, tree == ReductionTree.from_nested([[3, 2], [1, 0]])
        (2, 2, True)
    """

    leaves: int
    children: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        flat, starts = _ids(self.children, "children", 1), _ids(self.offsets, "offsets", 1)
        for name, value in (
            ("leaves", _leaves_of(flat, starts, self.leaves)),
            ("children", flat),
            ("offsets", starts),
        ):
            object.__setattr__(self, name, value)
        flat.flags.writeable = starts.flags.writeable = False

    # ---------------------------------------------------------------- in and out

    @classmethod
    def from_nested(cls, nested: Nested) -> ReductionTree:
        """The tree written as nested lists of term numbers: `[[0, 1], 2]` is (x0 + x1) + x2.

        A list of one element adds nothing and is the element itself; `[]` alone is the empty sum.
        A finished tree may stand for the subtree of its own term numbers.

        Raises:
            InputError: A term number is missing, repeated or negative, or a part is no list.

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).height
            2
        """
        return cls(*parse(nested))

    @classmethod
    def from_arrays(
        cls,
        children: Sequence[int] | np.ndarray,
        offsets: Sequence[int] | np.ndarray,
        leaves: int | None = None,
    ) -> ReductionTree:
        """The tree of arrays as this class stores them, checked and copied.

        Args:
            children: Ids of the children of all inner nodes, one node after another. Leaves are
                0..n-1, inner nodes n.. in the order given, each after its children.
            offsets: Where each inner node starts in `children`, and the end: [inner + 1].
            leaves: Number of terms n. None works it out; only 0 (the empty sum) has to be said.

        Raises:
            InputError: Not one tree: a node is missing, used twice or before it is made, or has
                fewer than two children.

        Example:
            >>> ReductionTree.from_arrays([0, 1, 3, 2], [0, 2, 4]).to_json()
            '[[0,1],2]'
        """
        flat, starts = _ids(children, "children", 1), _ids(offsets, "offsets", 1)
        return cls(_leaves_of(flat, starts, leaves), flat, starts)

    def to_nested(self, first: int = 0) -> list | int:
        """Nested lists of term numbers, children in stored order. `[]` for the empty sum.

        Args:
            first: Number of the first term, to put the tree into a larger one.

        Example:
            >>> pair = ReductionTree.from_nested([0, 1])
            >>> ReductionTree.from_nested([pair.to_nested(2), pair]).to_json()
            '[[2,3],[0,1]]'
        """
        return self.filled(range(first, first + self.leaves)) if self.leaves else []

    def filled(self, items: Iterable[Any]) -> Any:
        """Nested lists with the k-th of `items` in the place of term k.

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).filled("abc")
            [['a', 'b'], 'c']
        """
        parts = list(items)
        if len(parts) != self.leaves or not parts:
            raise InputError(f"got {len(parts)} items for a tree of {self.leaves} terms")
        for node in self._nodes():
            parts.append([parts[c] for c in node])
        return parts[-1]

    @classmethod
    def from_json(cls, text: str) -> ReductionTree:
        """The tree of `to_json`. Reads any depth, which `json.loads` does not.

        Raises:
            InputError: `text` is not nested lists of term numbers.

        Example:
            >>> ReductionTree.from_json("[[0,1],2]").to_json()
            '[[0,1],2]'
        """
        return cls.from_nested(parse_json(text))

    def to_json(self, node: int | None = None, limit: int | None = None) -> str:
        """Nested lists of term numbers as JSON text, e.g. `[[0,1],2]`; any depth.

        Args:
            node: Write the subtree of this node only; None for the whole tree.
            limit: Cut the text after about so many characters and end it in " …" (no JSON then).
        """
        if not self.leaves:
            return "[]"
        return write_json(self.leaves, self._nodes(), self._root if node is None else node, limit)

    def __reduce__(self):
        return type(self), (self.leaves, np.array(self.children), np.array(self.offsets))

    def __repr__(self) -> str:
        return (
            f"ReductionTree(leaves={self.leaves}, height={self.height}, arity={self.arity}, "
            f"hash={self.hash!r})"
        )

    # ---------------------------------------------------------------- properties

    @property
    def hash(self) -> str:
        """16 hex digits that name the order: equal for equal trees, children unordered."""
        return self._digest.hex()[:16]

    @property
    def height(self) -> int:
        """Edges on the longest path from a leaf to the root; 0 for one leaf."""
        return int(self._layout.heights.max(initial=0))

    @property
    def arity(self) -> int:
        """The largest number of children of a node; 0 when there is no inner node."""
        return int(np.diff(self.offsets).max(initial=0))

    def depths(self) -> np.ndarray:
        """Edges from each leaf to the root: int64 [n]. A term is rounded that many times."""
        return self._layout.depths[: self.leaves].copy()

    def parents(self) -> np.ndarray:
        """The parent of each node, -1 for the root: int64 [leaves + inner].

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).parents().tolist()
            [3, 3, 4, 4, -1]
        """
        return self._layout.parents.copy()

    def sizes(self) -> np.ndarray:
        """The number of leaves below each node, 1 for a leaf: int64 [leaves + inner].

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).sizes().tolist()
            [1, 1, 1, 2, 3]
        """
        return self._layout.sizes.copy()

    def lca_sizes(self, i: np.ndarray | int, j: np.ndarray | int) -> np.ndarray:
        """l(i, j): the number of terms in the first partial sum that holds both i and j.

        Args:
            i, j: Term numbers 0..n-1, of any shapes that go together.

        Returns:
            int64 of their common shape: 1 where i = j, n where they meet in the last addition.

        Raises:
            InputError: A term number is out of range or no integer.

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).lca_sizes([0, 0, 0], [0, 1, 2]).tolist()
            [1, 2, 3]
        """
        i, j = (_ids(x, "term numbers") for x in (i, j))
        for x in (i, j):
            if x.size and (x.min() < 0 or x.max() >= self.leaves):
                raise InputError(
                    f"term numbers run from {x.min()} to {x.max()}; this tree has the terms "
                    f"0..{self.leaves - 1}"
                )
        return self._layout.lca_sizes(*np.broadcast_arrays(i, j))

    def lca_matrix(self) -> np.ndarray:
        """l(i, j) of all pairs of terms: int32 [n, n], 1 on the diagonal. See `lca_sizes`.

        Raises:
            InputError: n is so large that the matrix would take more than 2 GiB.

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).lca_matrix().tolist()
            [[1, 2, 3], [2, 1, 3], [3, 3, 1]]
        """
        n = self.leaves
        if 4 * n * n > _MATRIX_BYTES:
            raise InputError(
                f"the matrix of all pairs of {n:,} terms takes {4 * n * n / 2**30:,.0f} GiB; at "
                f"most {_MATRIX_BYTES >> 30} are made. Ask `lca_sizes` for the pairs you need"
            )
        matrix = np.ones((n, n), np.int32)
        place, meet = self._layout.starts, self._layout.sizes[self._layout.gaps]
        for t in range(n - 1):  # leaves in the order of the tree: running maxima of the meetings
            np.maximum.accumulate(meet[t:], out=matrix[t, t + 1 :])
            matrix[t + 1 :, t] = matrix[t, t + 1 :]
        return matrix[np.ix_(place[:n], place[:n])]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReductionTree):
            return NotImplemented
        return self.leaves == other.leaves and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def _root(self) -> int:
        return self.leaves + len(self.offsets) - 2 if len(self.offsets) > 1 else 0

    def _nodes(self) -> list[list[int]]:
        """Children of each inner node as Python lists (numpy scalars are slow in loops)."""
        flat, at = self.children.tolist(), self.offsets.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(at)]

    @functools.cached_property
    def _layout(self) -> Layout:
        return Layout(self.leaves, self.children, self.offsets)

    @functools.cached_property
    def _digest(self) -> bytes:
        # Children sorted by digest make the hash independent of their order. The tag and the
        # fixed width of a digest keep a leaf, a node and the number of children apart.
        sha = hashlib.sha256
        digests = [sha(b"leaf" + i.to_bytes(8, "little")).digest() for i in range(self.leaves)]
        for node in self._nodes():
            if len(node) == 2:
                a, b = digests[node[0]], digests[node[1]]
                below = a + b if a < b else b + a
            else:
                below = b"".join(sorted([digests[c] for c in node]))
            digests.append(sha(b"node" + below).digest())
        return digests[-1] if digests else sha(b"empty").digest()

    # ---------------------------------------------------------------- the same order otherwise

    def permuted(self, order: Sequence[int] | np.ndarray) -> ReductionTree:
        """The tree that adds term `order[k]` where this one adds term k.

        So `tree.permuted(order).sum(terms)` is `tree.sum(terms[:, order])`.

        Raises:
            InputError: `order` is no permutation of 0..n-1.

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).permuted([2, 0, 1]).to_json()
            '[[2,0],1]'
        """
        order = _ids(order, "order")
        if order.shape != (self.leaves,) or (np.sort(order) != np.arange(self.leaves)).any():
            raise InputError(
                f"order must hold each of 0..{self.leaves - 1} once; got {order.size} numbers that "
                "do not. numpy.random.default_rng(0).permutation(n) makes one"
            )
        inner = np.arange(self.leaves, self._layout.total)
        return ReductionTree(
            self.leaves, np.concatenate([order, inner])[self.children], np.array(self.offsets)
        )

    def sorted(self) -> ReductionTree:
        """The same tree with the children of each node in ascending order of their least terms.

        Equal trees have the same sorted nested lists.

        Example:
            >>> ReductionTree.from_nested([[3, 2], [1, 0]]).sorted().to_json()
            '[[0,1],[2,3]]'
        """
        layout = self._layout
        if not layout.inner:
            return self
        by = np.lexsort((layout.least[self.children], layout.owner))
        return ReductionTree(self.leaves, self.children[by], np.array(self.offsets))

    def fold(self) -> FoldedTree:
        """The tree with equal subtrees (up to a shift of term numbers) held once; see
        `workbench.orders.tree.fold.FoldedTree`."""
        from workbench.orders.tree.fold import fold

        return fold(self)

    def diff(self, other: ReductionTree) -> Difference:
        """Where this order first differs from another; see `workbench.orders.tree.compare`."""
        from workbench.orders.tree.compare import compare

        return compare(self, other)

    # ---------------------------------------------------------------- execution

    @functools.cached_property
    def _schedule(self) -> Schedule:
        return schedule(self._layout)

    def sum(self, terms: Any) -> np.ndarray:
        """Add `terms` in exactly this order, every node rounded to the dtype of the terms.

        A node with two children is an IEEE addition. One with more is the exact sum of the
        children's values rounded once, to nearest even, with signed zeros, infinities and NaN as
        `workbench.orders.tree.fused.fused_sum` says. (A model: real fused adders may truncate.)

        Args:
            terms: float16, float32 or float64, [R, n] or [n]; rows are independent sums.

        Returns:
            [R] (or a scalar array for [n]), same dtype. The empty sum is +0.

        Raises:
            InputError: Wrong shape or dtype.
            WorkbenchError: This thread flushes subnormals to zero, which changes bits.

        Example:
            >>> import numpy as np
            >>> terms = np.array([[1e8, 1, -1e8, 1]], np.float32)
            >>> ReductionTree.from_nested([[[0, 1], 2], 3]).sum(terms)
            array([1.], dtype=float32)
            >>> ReductionTree.from_nested([[0, 2], [1, 3]]).sum(terms)
            array([2.], dtype=float32)
            >>> ReductionTree.from_nested([0, 1, 2, 3]).sum(terms)  # one fused node
            array([2.], dtype=float32)
        """
        terms = check_terms(terms, self.leaves)
        rows = np.atleast_2d(terms)
        total = np.zeros(len(rows), terms.dtype)
        if self.leaves:
            step = chunk_rows(self._layout.total, terms.dtype.itemsize)
            root = int(self._schedule.slot[self._root])
            for start in range(0, len(rows), step):
                values = self._schedule.run(rows[start : start + step])
                total[start : start + step] = values[root]
        return total if terms.ndim == 2 else total[0]

    def partial_sums(self, terms: Any) -> np.ndarray:
        """The value of every inner node, rounded as in `sum`; the last one is the sum itself.

        All rows are held at once: give as many as [R, leaves + inner] fits in memory for.

        Args:
            terms: float16, float32 or float64, [R, n] or [n].

        Returns:
            [R, inner] (or [inner] for [n]), same dtype, nodes as in `offsets`.

        Raises:
            InputError: Wrong shape or dtype.
            WorkbenchError: This thread flushes subnormals to zero.

        Example:
            >>> import numpy as np
            >>> terms = np.array([[1e8, 1, -1e8]], np.float32)
            >>> ReductionTree.from_nested([[0, 1], 2]).partial_sums(terms).tolist()
            [[100000000.0, 0.0]]
        """
        terms = check_terms(terms, self.leaves)
        if not self.leaves:
            return np.zeros((*terms.shape[:-1], 0), terms.dtype)
        values = self._schedule.run(np.atleast_2d(terms))
        found = np.ascontiguousarray(values[self._schedule.slot[self.leaves :]].T)
        return found if terms.ndim == 2 else found[0]


def _leaves_of(flat: np.ndarray, starts: np.ndarray, leaves: int | None) -> int:
    """Number of terms of a tree's arrays; what is no tree of `leaves` terms is refused."""
    if leaves is not None:
        if isinstance(leaves, (bool, np.bool_)) or not isinstance(leaves, (int, np.integer)):
            raise InputError(f"leaves={leaves!r}; wanted a whole number of terms, or None")
        leaves = int(leaves)
    if not len(starts) or starts[0] != 0 or starts[-1] != len(flat):
        raise InputError(
            f"offsets must go from 0 to the number of children ({len(flat)}); got "
            f"{starts[:1].tolist()} … {starts[-1:].tolist()}. Write [0] for a tree of one term"
        )
    inner = len(starts) - 1
    few = np.flatnonzero(np.diff(starts) < 2)
    if len(few):
        raise InputError(
            f"inner node {few[0]} has {np.diff(starts)[few[0]]} children; a node adds at least "
            "two. Leave out nodes that add nothing"
        )
    n = len(flat) - inner + 1
    if leaves is not None and leaves != n:
        if inner or leaves != 0:
            raise InputError(
                f"{inner} inner nodes with {len(flat)} children make a tree of {n} leaves; got "
                f"leaves={leaves}. Leave `leaves` out"
            )
        n = 0
    if not inner:
        return n
    used = np.bincount(flat[(flat >= 0) & (flat < n + inner - 1)], minlength=n + inner - 1)
    odd = np.flatnonzero(used != 1)
    if len(odd):
        raise InputError(
            f"each of the nodes 0..{n + inner - 2} is the child of one node, and the last one "
            f"is the root; node {odd[0]} is a child {used[odd[0]]} times. Number leaves "
            f"0..{n - 1} and inner nodes from {n}"
        )
    late = np.flatnonzero(flat >= n + np.repeat(np.arange(inner), np.diff(starts)))
    if len(late):
        raise InputError(
            f"node {flat[late[0]]} is used before it is made; list children before parents"
        )
    return n


def _ids(numbers: Any, name: str, dimensions: int | None = None) -> np.ndarray:
    """An int64 copy of whole numbers."""
    try:
        found = np.asarray(numbers)
    except ValueError:  # lists of several lengths
        raise InputError(f"{name} must be one list of whole numbers") from None
    if found.size and not np.issubdtype(found.dtype, np.integer):
        raise InputError(f"{name} must be whole numbers; got dtype {found.dtype.name}")
    if dimensions is not None and found.ndim != dimensions:
        raise InputError(f"{name} must be one list of whole numbers; got shape {[*found.shape]}")
    return np.array(found, np.int64)
