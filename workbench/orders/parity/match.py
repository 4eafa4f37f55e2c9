"""Parity with a library: the same bits as `torch.mv`, without calling it.

A library's sum of products is fixed by the order of its additions, by which products are fused
into them, and by the sign of its empty sum. All three can be found by asking. What computes with
the same three has the same bits, for the shape, threads and alignment that were asked.
"""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import WorkbenchError
from workbench.evidence import Evidence, evidence
from workbench.orders.arithmetic import Dots, arithmetic
from workbench.orders.dot import dot
from workbench.orders.parity import data as parity_data
from workbench.orders.parity.asked import Asked, Sums, asked_of
from workbench.orders.reveal import reveal
from workbench.orders.reveal.targets import RevealError, Target
from workbench.orders.synthesise.regular import lanes_of
from workbench.orders.tree import ReductionTree

MOST_ORDERS = 16  # in one call; more are refused
GROUPING = 64  # sums of random terms that tell which outputs share an order
ENOUGH = 16  # outputs of one order in a call: with fewer, known trees are tried first


class ParityError(WorkbenchError, RuntimeError):
    """A function whose bits cannot be had, with where and why.

    Attributes:
        reason: What stands in the way, e.g. "not repeatable", "bits differ", "value-dependent".
        row, column: The output it was seen at, or None.
        data: Name of the data it was seen on, or None.
        ruled_out: What it is not, in words.
    """

    def __init__(
        self,
        message: str,
        reason: str,
        *,
        row: int | None = None,
        column: int | None = None,
        data: str | None = None,
        ruled_out: tuple[str, ...] = (),
    ) -> None:
        out = f". Ruled out: {'; '.join(ruled_out)}" if ruled_out else ""
        super().__init__(f"{message} ({reason}){out}")
        self.reason, self.row, self.column, self.data = reason, row, column, data
        self.ruled_out = ruled_out


@dataclass(frozen=True, eq=False)
class Order(Result):
    """How some of the outputs of a call are computed.

    Attributes:
        tree: The order of the additions.
        fused: bool [n]: products that enter their first addition unrounded.
        zero_start: Whether a sum of nothing but -0 is +0.
        rows_, columns_: The outputs, [K] each.
        where: The outputs in words.
        how: How the tree was found.
    """

    tree: ReductionTree = field(metadata={"json": False})
    fused: np.ndarray = field(metadata={"json": False})
    zero_start: bool
    rows_: np.ndarray = field(metadata={"json": False})
    columns_: np.ndarray = field(metadata={"json": False})
    where: str
    how: str

    @functools.cached_property
    def rectangles(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The outputs as few sets rows x columns: columns with the same rows are together."""
        together: dict[bytes, list[int]] = {}
        for column in np.unique(self.columns_).tolist():
            rows = self.rows_[self.columns_ == column]
            together.setdefault(rows.tobytes(), []).append(column)
        return [(np.frombuffer(r, self.rows_.dtype), np.array(c)) for r, c in together.items()]

    def to_dict(self) -> dict[str, Any]:
        lanes, _ = lanes_of(self.tree, self.fused) if self.tree.arity == 2 else (None, "")
        return {
            "outputs": self.where,
            "order": self.tree.hash,
            "height": self.tree.height,
            "form": str(lanes) if lanes else self.tree.fold().text(120),
            "fused": int(self.fused.sum()),
            "zero_start": self.zero_start,
            "how": self.how,
        }


@dataclass(frozen=True)
class ParityReport(Result):
    """What a `Parity` rests on.

    Attributes:
        target, rows_asked, columns_asked, n, threads: The call: [rows, n] by [columns, n], or by a
            vector where `columns_asked` is None.
        offset: Elements that the target's operands lay behind a 64-byte line.
        orders: One dict for each order among the outputs.
        alignment: What moving an operand further changes, in words.
        other_threads: What another number of threads changes, in words.
        checks: Data on which all outputs had the target's bits.
        calls, seconds: Calls of the target, and time.
        evidence: Of this machine.
    """

    target: str
    rows_asked: int
    columns_asked: int | None
    n: int
    threads: int
    offset: tuple[int, int]
    orders: tuple[dict[str, Any], ...]
    alignment: str
    other_threads: str
    checks: tuple[str, ...]
    calls: int
    seconds: float
    evidence: Evidence = field(repr=False, compare=False)

    def rows(self) -> list[dict[str, Any]]:
        return [dict(order) for order in self.orders]

    def title(self) -> str:
        by = f"[{self.columns_asked}, {self.n}]" if self.columns_asked else f"[{self.n}]"
        return (
            f"parity with {self.target}: [{self.rows_asked}, {self.n}] by {by}, "
            f"{self.threads} threads; the same bits on {len(self.checks)} kinds of data"
        )


class Parity:
    """A function with the bits of a library's. Made by `parity`.

    Call it with what the library takes; it returns the same kind and shape. It calls neither the
    library nor a BLAS. The bits are those of the library for operands that lie as they did when it
    was asked (`report.offset`), whatever memory is given here. Where the place of an operand
    changes the library's bits, or operands are not contiguous, the first call with such operands
    warns.

    Attributes:
        orders: One `Order` for each order among the outputs.
        report: ParityReport.
    """

    def __init__(self, asked: Asked, orders: tuple[Order, ...], report: ParityReport) -> None:
        self._asked, self.orders, self.report = asked, orders, report
        self._kernels: tuple[Any, ...] | None = None
        self._warned = False

    @property
    def tree(self) -> ReductionTree:
        """The order of all outputs.

        Raises:
            ParityError: They have several; see `trees`.
        """
        if len(self.orders) > 1:
            listed = "; ".join(f"{o.where}: {o.tree.hash}" for o in self.orders)
            raise ParityError(
                f"{self._asked.name} adds in {len(self.orders)} orders ({listed}). Take .trees",
                "several orders",
            )
        return self.orders[0].tree

    @property
    def trees(self) -> dict[str, ReductionTree]:
        """{outputs in words: their order}."""
        return {order.where: order.tree for order in self.orders}

    def __call__(self, a: Any, b: Any) -> Any:
        left, right, given = self._asked.read(a, b)
        self._warn(a, b)
        return self._asked.shaped(self._outputs(left, right), given)

    def _warn(self, a: Any, b: Any) -> None:
        """Say once that the library may have other bits for operands that lie like these."""
        if self._warned:
            return
        how = self._asked.lies_otherwise(a, b, self.report.alignment)
        if how is None:
            return
        self._warned = True
        warnings.warn(
            f"{how}: {self._asked.name} may have other bits for such operands than for those it "
            f"was asked with ({self.report.alignment}). Copy them to where they were, or ask "
            "again with parity(…, offset=…)",
            stacklevel=3,
        )

    def _outputs(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return evaluate(self.orders, a, b, self._kernels)

    def compiled(self, kind: str = "host", **options: Any) -> Parity:
        """The same function by generated kernels, one for each order (`synthesise`).

        Raises:
            SynthesisError: An order is not regular enough for this kind.
        """
        from workbench.orders.synthesise import synthesise

        made = Parity(self._asked, self.orders, self.report)
        made._kernels = tuple(
            synthesise(o.tree, kind=kind, fused=o.fused, zero_start=o.zero_start, **options)
            for o in self.orders
        )
        return made

    def check(self, a: Any, b: Any, data: str = "the given data") -> None:
        """That the target gives these bits for given operands (copied to where it was asked).

        Raises:
            ParityError: It does not; the first output that differs is named.
        """
        left, right, _ = self._asked.read(a, b)
        _compare(self._asked, data, left, right, self._outputs(left, right), ())

    def __repr__(self) -> str:
        return f"<{self.report.title()}>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def parity(
    target: Any = "torch.mv",
    rows: int = 1,
    n: int = 4096,
    *,
    columns: int | None = None,
    threads: int | None = None,
    offset: tuple[int, int] = (0, 0),
    seed: int = 0,
    trees: Iterable[ReductionTree] = (),
) -> Parity:
    """A function with the bits of `target`, for one shape and number of threads.

    Args:
        target: "torch.mv", "torch.matmul", "F.linear", "numpy.dot" or "numpy.matmul"; or a callable
            of (weight [rows, n], x [n]) that returns [rows], fp32 tensors.
        rows: Rows of the first operand.
        n: Terms of each sum.
        columns: None: the second operand is one vector [n] (not with F.linear). Else it has as many
            vectors: [columns, n] with F.linear, [n, columns] with the others.
        threads: Of torch; None: as many as it uses now. They are set for each call and restored.
        offset: fp32 elements by which the two operands of the target lie behind a 64-byte line,
            each 0 to 15. A tensor of its own starts on a line; a view of one may not, and a BLAS
            may take another path then.
        seed: Of the random data.
        trees: Orders to try first; one that explains n - 1 probes of the target is its order.

    Raises:
        ParityError: The target does not repeat, adds in no fixed order, or its bits were not those
            of its order: with where it was seen, and what was ruled out.
        InputError: A shape or target that is not known.

    Example:
        >>> import torch
        >>> ours = parity("torch.mv", rows=1, n=64)
        >>> weight, x = torch.randn(1, 64), torch.randn(64)
        >>> torch.equal(ours(weight, x), torch.mv(weight, x))
        True
    """
    started = time.perf_counter()
    asked = asked_of(target, rows, n, columns, threads, offset)
    rng = np.random.default_rng(seed)
    ruled_out: list[str] = []
    _repeats(asked, rng)
    ruled_out.append("a result that does not repeat")
    labels = _labels(asked, rng)
    if labels.max() + 1 > MOST_ORDERS:
        raise ParityError(
            f"the {labels.size} outputs of {asked.name} add the same terms in at least "
            f"{labels.max() + 1} ways; up to {MOST_ORDERS} are followed. The order depends on the "
            "position of an output, or on its neighbours' values",
            "order depends on the position",
        )
    found: list[Order] = []
    known = [*trees]
    for group in range(labels.max() + 1):
        order = _order(asked, labels == group, known, seed)
        found.append(order)
        known.append(order.tree)
    orders = tuple(found)
    ruled_out.append("an order that depends on the position of an output (each was looked at)")
    ruled_out.append("fused products that were not noticed (each product was probed)")
    checks = []
    for name, a, b in parity_data.draws(asked.rows, asked.columns or 1, asked.n, rng):
        _compare(asked, name, a, b, evaluate(orders, a, b), tuple(ruled_out))
        checks.append(name)
    report = ParityReport(
        target=asked.name,
        rows_asked=asked.rows,
        columns_asked=asked.columns,
        n=asked.n,
        threads=asked.threads,
        offset=asked.offset,
        orders=tuple(order.to_dict() for order in orders),
        alignment=_alignment(asked, rng),
        other_threads=_other_threads(asked, rng),
        checks=tuple(dict.fromkeys(checks)),
        calls=asked.calls,
        seconds=time.perf_counter() - started,
        evidence=evidence(asked.fn, torch.tensor([asked.rows, asked.columns or 0, asked.n, seed])),
    )
    return Parity(asked, orders, report)


def evaluate(
    orders: tuple[Order, ...], a: np.ndarray, b: np.ndarray, kernels: Any = None
) -> np.ndarray:
    """[rows, columns] of a [rows, n] and b [columns, n], each output in its order."""
    out = np.empty((len(a), len(b)), np.float32)
    for number, order in enumerate(orders):
        for rows, columns in order.rectangles:
            left, right = a[_span(rows)], b[_span(columns)]
            if kernels is None:
                part = dot(order.tree, left, right, order.fused, zero_start=order.zero_start)
            else:
                part = kernels[number](left, right)
            out[_cross(rows, columns)] = part
    return out


def _span(at: np.ndarray) -> Any:
    """The indices as a slice where they are neighbours: a view, not a copy of a large operand."""
    return slice(int(at[0]), int(at[-1]) + 1) if at[-1] - at[0] + 1 == len(at) else at


def _cross(rows: np.ndarray, columns: np.ndarray) -> Any:
    spans = _span(rows), _span(columns)
    return spans if all(isinstance(s, slice) for s in spans) else np.ix_(rows, columns)


# ---- what is found -------------------------------------------------------------------------------


def _repeats(asked: Asked, rng: np.random.Generator) -> None:
    a = rng.standard_normal((asked.rows, asked.n)).astype(np.float32)
    b = rng.standard_normal((asked.columns or 1, asked.n)).astype(np.float32)
    first = asked.outputs(a, b)
    for _ in range(4):
        again = asked.outputs(a, b)
        bad = np.argwhere(again.view(np.int32) != first.view(np.int32))
        if len(bad):
            row, column = bad[0].tolist()
            raise ParityError(
                f"{asked.name} gave two results for the same operands at row {row}, column "
                f"{column}: {first[row, column]!r} and {again[row, column]!r}. What has no bits of "
                "its own cannot be matched",
                "not repeatable",
                row=row,
                column=column,
            )


def _labels(asked: Asked, rng: np.random.Generator) -> np.ndarray:
    """[rows, columns]: equal numbers where the same terms gave the same bits every time."""
    shape = (asked.rows, asked.columns or 1)
    seen = np.empty((GROUPING, *shape), np.float32)
    for at in seen:
        u = rng.standard_normal(asked.n) * 2.0 ** rng.integers(-4, 5, asked.n)
        v = rng.standard_normal(asked.n)
        at[:] = asked.outputs(
            np.broadcast_to(u.astype(np.float32), (shape[0], asked.n)),
            np.broadcast_to(v.astype(np.float32), (shape[1], asked.n)),
        )
    flat = seen.reshape(GROUPING, -1).T.view(np.int32)
    _, first, labels = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))  # the first output has the order 0
    return rank[labels.reshape(-1)].reshape(shape)


def _order(asked: Asked, chosen: np.ndarray, known: list[ReductionTree], seed: int) -> Order:
    """The order of the chosen outputs, and the arithmetic of its nodes."""
    rows, columns = np.nonzero(chosen)
    sums = asked.sums(chosen)
    where = f"rows {_ranges(rows)}"
    if asked.columns is not None:
        where += f", columns {_ranges(columns)}"
    row, column = int(rows[0]), int(columns[0])
    here: dict[str, Any] = {"row": row, "column": column}
    tree, how = None, ""
    if sums.width < ENOUGH and asked.n > 1:
        known = [*known, *_of_one_row(asked, seed)]
        tree = next((t for t in known if t.leaves == asked.n and explains(t, sums)), None)
        how = f"known from elsewhere; confirmed by {asked.n - 1} probes"
    if tree is None:
        try:
            tree = reveal(_target(asked, sums), asked.n, seed=seed, unexplained="allow")
        except RevealError as error:
            raise ParityError(
                f"the order of {asked.name} at row {row}, column {column} cannot be revealed: "
                f"{error}",
                error.reason,
                **here,
            ) from error
        how = f"revealed by {tree.report.probes} probes"
    if tree.arity > 2:
        raise ParityError(
            f"{asked.name} adds up to {tree.arity} numbers in one step (row {row}, column "
            f"{column}); how such a step rounds is not known",
            "fused nodes",
            **here,
        )
    if asked.n < 2:
        start = bool(asked.n and not np.signbit(sums(np.full((1, 1), -0.0, np.float32))[0]))
        return Order(tree, np.zeros(asked.n, bool), start, rows, columns, where, how)
    given = Dots(sums, asked.name, source=asked.fn)
    found = arithmetic(given, asked.n, tree=tree, seed=seed)
    odd = [
        f"{what}: {seen}"
        for what, seen, ok in (
            ("products", found.fused, found.fused in ("separate", "fused", "mixed")),
            ("rounding of sums", found.rounding, found.rounding == "nearest even"),
            ("bits of a sum", found.sum_bits, set(found.sum_bits) <= {0, 24}),
            ("bits of an input", found.input_bits, found.input_bits >= 24),
            ("subnormal inputs", found.subnormal_inputs, found.subnormal_inputs == "kept"),
            ("subnormal sums", found.subnormal_sums, found.subnormal_sums == "kept"),
        )
        if not ok
    ]
    if odd:
        raise ParityError(
            f"the arithmetic of {asked.name} at row {row}, column {column} is not that of rounded "
            f"products and fp32 sums: {'; '.join(odd)}",
            "arithmetic",
            **here,
        )
    return Order(tree, found.mask, found.empty == "+0", rows, columns, where, how)


def _target(asked: Asked, sums: Sums) -> Target:
    # `Sums` copies the terms, so they cannot be changed.
    return Target(asked.name, asked.n, "fp32", "numpy", sums, watched=False)


def _of_one_row(asked: Asked, seed: int) -> list[ReductionTree]:
    """The order of the same function for one row: a single odd row often has it."""
    if asked.rows == 1 and (asked.columns or 1) == 1:
        return []
    one = asked.one_row()
    sums = one.sums(np.ones((1, 1), bool))
    asked.calls += 1
    try:
        return [reveal(_target(one, sums), one.n, seed=seed, unexplained="allow")]
    except RevealError:
        return []


def explains(tree: ReductionTree, sums: Callable[..., np.ndarray]) -> bool:
    """Whether a function adds in the order of `tree`, by one probe for each pair of children.

    Enough because subtrees are nested or apart: let the sets A and B below two children be subtrees
    of the function's order too. The node where it brings together a term of A and one of B contains
    both sets, and if it has |A| + |B| leaves, it is A and B. The leaves are subtrees; so, by
    induction, is every node.

    Args:
        tree: An order of n terms; nodes of two children.
        sums: sums(terms [K, n]) gives K sums, fp32.
    """
    n, pairs = tree.leaves, tree.children.reshape(-1, 2).tolist()
    size, leaf = [1] * n, list(range(n))
    for a, b in pairs:
        size.append(size[a] + size[b])
        leaf.append(leaf[a])
    i = np.array([leaf[a] for a, _ in pairs], np.int64)
    j = np.array([leaf[b] for _, b in pairs], np.int64)
    want = n - np.array(size[n:], np.float32)
    step = max(1, (16 << 20) // (4 * max(1, n)))
    big = np.float32(2.0**127)
    # A few at random first: a tree that is wrong is wrong in most of its nodes.
    order = np.random.default_rng(0).permutation(len(pairs))
    for part in (order[:8], *(order[at : at + step] for at in range(8, len(order), step))):
        terms = np.ones((len(part), n), np.float32)
        at = np.arange(len(part))
        terms[at, i[part]], terms[at, j[part]] = big, -big
        if (sums(terms) != want[part]).any():
            return False
    return True


# ---- what is compared ----------------------------------------------------------------------------


def _compare(
    asked: Asked,
    name: str,
    a: np.ndarray,
    b: np.ndarray,
    ours: np.ndarray,
    ruled_out: tuple[str, ...],
) -> None:
    theirs = asked.outputs(a, b)
    same = ours.view(np.int32) == theirs.view(np.int32)
    same |= np.isnan(ours) & np.isnan(theirs)  # an order claims nothing about payloads
    if same.all():
        return
    row, column = np.argwhere(~same)[0].tolist()
    x, y = ours[row, column], theirs[row, column]
    raise ParityError(
        f"{asked.name} and its own order differ in {int((~same).sum())} of {same.size} outputs on "
        f"{name}; first at row {row}, column {column}: {y!r} ({_hex(y)}) from {asked.name}, {x!r} "
        f"({_hex(x)}) in the order found. What it does depends on more than shape, position and "
        "threads: on the values, or on memory; or a few of its sums keep more bits than the others "
        "(`arithmetic` with nodes=None asks each)",
        "bits differ",
        row=row,
        column=column,
        data=name,
        ruled_out=ruled_out,
    )


def _hex(value: np.float32) -> str:
    return f"0x{int(np.float32(value).view(np.uint32)):08x}"


def _alignment(asked: Asked, rng: np.random.Generator) -> str:
    """What moving the operands off their place changes."""
    words = []
    for which, name in ((0, "first"), (1, "second")):
        moved = []
        for step in (1, 2, 3, 4, 8):
            offset = tuple(o + step * (k == which) for k, o in enumerate(asked.offset))
            if _changed(asked, rng, offset=offset):
                moved.append(str(4 * step))
        change = f"other bits {', '.join(moved)} bytes further" if moved else "no change seen"
        words.append(f"{name} operand: {change}")
    return "; ".join(words)


def _other_threads(asked: Asked, rng: np.random.Generator) -> str:
    """What another number of threads changes."""
    if asked.array == "numpy":
        return "not asked: numpy's BLAS has threads of its own"
    words = []
    for threads in sorted({1, 2, 4} - {asked.threads}):
        changed = _changed(asked, rng, threads=threads)
        words.append(f"{threads} threads: {'other bits' if changed else 'no change seen'}")
    return "; ".join(words)


def _changed(asked: Asked, rng: np.random.Generator, **how: Any) -> bool:
    """Whether any of some 100 random sums has other bits when it is called in this way."""
    for _ in range(-(-100 // (asked.rows * (asked.columns or 1)))):
        a = rng.standard_normal((asked.rows, asked.n)).astype(np.float32)
        b = rng.standard_normal((asked.columns or 1, asked.n)).astype(np.float32)
        if asked.outputs(a, b).tobytes() != asked.outputs(a, b, **how).tobytes():
            return True
    return False


def _ranges(numbers: np.ndarray) -> str:
    """0-255, 256 and the like."""
    values = np.unique(numbers)
    breaks = np.flatnonzero(np.diff(values) != 1)
    pieces = [
        f"{part[0]}" if len(part) == 1 else f"{part[0]}-{part[-1]}"
        for part in np.split(values, breaks + 1)
    ]
    return ", ".join(pieces[:6]) + (f", … ({len(values)} in all)" if len(pieces) > 6 else "")
