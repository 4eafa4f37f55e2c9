"""Which outputs of one call share an order: `row_orders`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench._result import Result
from workbench.errors import InputError
from workbench.orders.reveal.confirm import random_terms
from workbench.orders.reveal.find import RevealedTree, revealed
from workbench.orders.reveal.targets import BATCH_BYTES, RevealError, Target, target_of

_SIGNATURE = 24  # calls whose bits must be the same for outputs that share an order


@dataclass(frozen=True)
class RowOrders(Result):
    """The orders of the outputs of one call.

    Attributes:
        target: Name of what was asked.
        n: Number of terms.
        shape: Rows and columns of the call.
        axis: "rows" or "columns": what `groups` numbers.
        groups: (tree, outputs) of each order, the most outputs first; a tree is a `RevealedTree`.
        unexplained: Outputs whose sums of random terms no arithmetic along their tree gives.
    """

    target: str
    n: int
    shape: dict[str, int]
    axis: str
    groups: tuple[tuple[RevealedTree, tuple[int, ...]], ...] = field(metadata={"json": False})
    unexplained: tuple[int, ...]

    def tree_of(self, output: int) -> RevealedTree:
        """The tree of one output.

        Raises:
            InputError: There is no such output.
        """
        for tree, outputs in self.groups:
            if output in outputs:
                return tree
        raise InputError(f"output {output} of {sum(len(o) for _, o in self.groups)}")

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "order": tree.hash,
                "height": tree.height,
                "outputs": len(outputs),
                self.axis: _ranges(outputs),
                "arithmetic": tree.report.arithmetic
                or ("not plain sums" if self.n else "nothing is added"),
            }
            for tree, outputs in self.groups
        ]

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "groups": self.rows()}

    def title(self) -> str:
        shape = ", ".join(f"{k} = {v}" for k, v in self.shape.items() if k in ("rows", "columns"))
        return f"{len(self.groups)} orders in one call of {self.target}, n = {self.n}, {shape}"


def row_orders(
    target: Any,
    n: int,
    rows: int,
    *,
    columns: int | None = None,
    dtype: str = "fp32",
    array: str = "auto",
    seed: int = 0,
    batch_bytes: int = BATCH_BYTES,
) -> RowOrders:
    """The orders of all outputs of one call of `target`.

    Outputs that give the same bits for the same random terms are taken to share an order and are
    probed together, many probes a call. Afterwards every output is checked against its tree.

    Args:
        target: As for `reveal`; the call has exactly `rows` rows.
        n: Number of terms.
        rows, columns: Shape of the call. With more columns than rows the outputs of row 0 are
            asked for, column by column, else those of column 0, row by row.
        dtype, array, seed, batch_bytes: As for `reveal`.

    Raises:
        RevealError: An output is no sum in one order.
        InputError: Unknown target or shape.

    Example:
        >>> def ends(terms):  # the last row is added from the right
        ...     left = (terms[:, 0] + terms[:, 1]) + terms[:, 2]
        ...     right = terms[:, 0] + (terms[:, 1] + terms[:, 2])
        ...     left[-1] = right[-1]
        ...     return left
        >>> for tree, outputs in row_orders(ends, 3, 4).groups:
        ...     print(tree.to_json(), outputs)
        [[0,1],2] (0, 1, 2)
        [0,[1,2]] (3,)
    """
    if isinstance(rows, bool) or not isinstance(rows, (int, np.integer)) or rows < 1:
        raise InputError(f"rows={rows!r}; wanted a whole number of 1 or more")
    asked = target_of(
        target,
        n,
        dtype=dtype,
        rows=rows,
        columns=columns,
        array=array,
        batch_bytes=batch_bytes,
    )
    assert asked.slots is not None
    rng = np.random.default_rng(seed % 2**64)
    terms = random_terms(asked, _SIGNATURE, rng) if n else np.zeros((1, 0))
    sums = broadcast_sums(asked, terms)
    groups: list[tuple[RevealedTree, tuple[int, ...]]] = []
    unexplained: list[int] = []
    todo = _alike(sums)
    while todo:
        outputs = todo.pop(0)
        try:
            tree = revealed(asked.at(outputs), seed=seed, unexplained="allow")
        except RevealError:
            if len(outputs) == 1:
                raise
            todo = [outputs[:1], outputs[1:], *todo]  # not one order after all
            continue
        unexplained += _unexplained(tree, terms, sums, outputs)
        groups.append((tree, tuple(outputs)))
    trees = {tree.hash: tree for tree, _ in groups}
    found = [
        (tree, tuple(sorted(o for t, outputs in groups if t.hash == name for o in outputs)))
        for name, tree in trees.items()
    ]
    found.sort(key=lambda one: (-len(one[1]), one[1]))
    by_column = (columns or 1) > rows
    return RowOrders(
        target=asked.name,
        n=n,
        shape={k: v for k, v in asked.shape.items() if k in ("rows", "columns")},
        axis="columns" if by_column else "rows",
        groups=tuple(found),
        unexplained=tuple(sorted(unexplained)),
    )


def broadcast_sums(target: Target, terms: np.ndarray) -> np.ndarray:
    """The sums of each row of `terms`, at every slot of a call: [K, slots]."""
    out = []
    for row in target.encode(terms):
        matrix = np.broadcast_to(row, (target.slots or 1, target.n)).copy()
        out.append(target.call(matrix))
    return np.stack(out)


def _unexplained(
    tree: RevealedTree, terms: np.ndarray, sums: np.ndarray, outputs: list[int]
) -> list[int]:
    """The outputs of a group whose sums of `terms` are not those along its tree."""
    arithmetic = tree.report.arithmetic
    if tree.leaves < 2:
        return []
    if arithmetic is None:
        return list(outputs)
    if arithmetic in ("fp32 sums", "fp64 sums"):
        wanted = tree.sum(terms.astype(sums.dtype))
    else:  # wider or rounded once more: `revealed` had the bits of such sums at the first output
        wanted = sums[:, outputs[0]]
    return [o for o in outputs if sums[:, o].tobytes() != wanted.tobytes()]


def _alike(sums: np.ndarray) -> list[list[int]]:
    """Slots with the same bits in all rows of `sums`, the largest group first."""
    groups: dict[bytes, list[int]] = {}
    for slot, column in enumerate(sums.T):
        groups.setdefault(np.ascontiguousarray(column).tobytes(), []).append(slot)
    return sorted(groups.values(), key=lambda g: (-len(g), g))


def _ranges(numbers: tuple[int, ...]) -> str:
    """`0-3, 7` for (0, 1, 2, 3, 7)."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
