"""Orders of sums that can carry positive terms only: log-sum-exp, norms, softmax denominators.

`reveal` puts +M and -M among the terms, and an exponential is never negative. So here the question
is a *rooted triple*: of three terms, which two are added to each other before the third? The third
term is 1, the two are v, a little less than half an ulp of 1, and all others are 0:

* the two meet first: 2 v is exact, and 1 + 2 v is rounded up;
* one of them meets the 1 first: 1 + v is 1 again, and so is that + v.

v need not be exact, so it may come out of an `Exp`: anything in (2^-25, 2^-24] serves where sums
are rounded to nearest, anything in (2^-24, 2^-23) where they are cut off. Three terms that meet in
one fused node give the same answer in each of the three roles: all above 1 (the node adds exactly
and rounds once) or none (it cuts the small ones off first).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench._result import Result
from workbench.errors import InputError
from workbench.orders.reveal.find import RevealedTree
from workbench.orders.reveal.rising import rises
from workbench.orders.reveal.targets import RevealError
from workbench.orders.reveal.triples import (
    WIDE,
    Asker,
    PositiveSum,
    distinguishing,
    in_words,
    numbered,
    random_triples,
    resolve,
)
from workbench.orders.tree import ReductionTree

__all__ = [
    "Agreement",
    "LogSumExpStages",
    "PositiveReport",
    "PositiveSum",
    "PositiveTree",
    "agrees_by_triples",
    "log_sum_exp",
    "log_sum_exp_stages",
    "reveal_positive",
    "root_of_squares",
]

_BATCH_BYTES = 64 << 20
_DENSE_TRIPLES = 256  # at most, asked again with no zero among the terms
_RANDOM_TRIPLES = 64  # asked of a finished tree, beside one for each of its inner edges


def log_sum_exp(target: Any, dtype: str = "fp32") -> PositiveSum:
    """The sum inside a log-sum-exp, as `reveal_positive` takes it.

    The row's largest logit is 0, so its term is exp(0) = 1; those of the two small terms are
    -16.875 or -16.25 (numbers of all three dtypes; exp gives 0.79 * 2^-24 and 1.47 * 2^-24), all
    others -1000, whose exponential is 0. -15.9375 (1.005 * 2^-23) is the one that must show.

    Args:
        target: A built batch_invariant_logp kernel, or a callable: torch logits [R, V] -> [R].
        dtype: "fp32", "bf16" or "fp16", of the logits. The sum is in fp32 in any case.

    Example:
        >>> import torch
        >>> reveal_positive(log_sum_exp(lambda x: torch.logsumexp(x, -1)), 2).to_json()
        '[0,1]'
    """
    import torch

    dtypes = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    if dtype not in dtypes:
        raise InputError(f"unknown dtype {dtype!r}; logits are of {', '.join(dtypes)}")
    spec = getattr(target, "spec", None)
    if spec is not None and spec.op != "batch_invariant_logp":
        raise InputError(
            f"{spec.op} has no sum of exponentials; give a batch_invariant_logp kernel or a "
            "callable logits [R, V] -> [R]"
        )

    def fn(logits: np.ndarray) -> np.ndarray:
        given = torch.from_numpy(logits).to(dtypes[dtype])
        if spec is None:
            return target(given).float().numpy()
        return target(given, torch.zeros(len(given), dtype=torch.int64))[1].numpy()

    kernel = target if spec is not None else None
    name = spec.op if spec is not None else getattr(target, "__name__", type(target).__name__)
    # exp(-41.5) is 0.92 * 2^-60
    inputs = (0.0, -1000.0, (-16.875, -16.25), -15.9375, -41.5, None)
    return PositiveSum(fn, f"{name} ({dtype})", *inputs, kernel)


def root_of_squares(fn: Callable[[np.ndarray], Any], name: str = "norm") -> PositiveSum:
    """The sum inside a Euclidean norm, as `reveal_positive` takes it.

    The large term is 1.5^2 = 2.25, since one ulp more of it changes the last bit of the root; that
    of 1 would not. Its ulp is 2^-22, and the small terms are 0.75 * 2^-23 and 0.75 * 2^-22.

    Args:
        fn: float32 numpy [R, n] -> [R], the root of the sum of the squares of each row.

    Example:
        >>> import numpy as np
        >>> norm = root_of_squares(lambda x: np.sqrt((x[:, 0]**2 + x[:, 1]**2) + x[:, 2]**2))
        >>> reveal_positive(norm, 3).to_json()
        '[[0,1],2]'
    """
    small = tuple(float(np.sqrt(0.75 * 2.0**k)) for k in (-23, -22))
    return PositiveSum(fn, name, one=1.5, small=small, visible=2.0**-11, dust=2.0**-30)


@dataclass(frozen=True)
class PositiveReport(Result):
    """How an order was found by triples.

    Attributes:
        target, n: What was asked, and its number of terms.
        probes, calls: Rows evaluated, and calls they took; those of the checks included.
        seconds: Time, without any build.
        cut: Triples that answered to the larger small term alone: something there cuts off what
            does not fit instead of rounding it to nearest.
        checks: What was confirmed, one sentence each.
        evidence: Of the kernel or callable.
    """

    target: str
    n: int
    probes: int
    calls: int
    seconds: float
    cut: int
    checks: tuple[str, ...]
    evidence: Any

    def title(self) -> str:
        return f"order of {self.target}, n = {self.n}, by triples"

    def rows(self) -> list[dict[str, Any]]:
        shown = {k: getattr(self, k) for k in ("probes", "calls", "seconds", "cut")}
        rows = [{"what": k, "value": v} for k, v in shown.items()]
        return rows + [{"what": "checked", "value": text} for text in self.checks]


@dataclass(frozen=True, eq=False, repr=False)
class PositiveTree(RevealedTree):
    """A `RevealedTree` of a sum of positive terms; its `report` is a `PositiveReport`."""


@dataclass(frozen=True)
class Agreement(Result):
    """Whether a sum has the order of a tree.

    Attributes:
        equal: True if every answer is the tree's; then the sum has that order and no other.
        triples: How many triples of terms were asked about.
        probes, calls: Rows evaluated, and the calls they took.
        difference: The first answer that is not the tree's, in words; None when equal.
    """

    equal: bool
    triples: int
    probes: int
    calls: int
    difference: str | None

    def __bool__(self) -> bool:
        return self.equal


def reveal_positive(
    target: Any,
    n: int,
    *,
    seed: int = 0,
    batch_bytes: int = _BATCH_BYTES,
    check: bool = True,
) -> PositiveTree:
    """The order in which a sum of positive terms adds, found from its results.

    For a set of terms that form one subtree, a random pair (i, j) is asked about every other term
    k: it is added on i's side, on j's side, in their own (fused) node, or after they have met. So
    the set falls into parts that are smaller problems of the same kind, where the node of i and j
    stands as one term among those added later. All open sets of a level share a call: about
    O(log n) calls and O(n log n) probes for balanced and for sequential sums.

    Args:
        target: A `PositiveSum` (see `log_sum_exp`), or a callable float32 numpy [R, n] -> [R] that
            is an increasing function of the sum of its terms. Rows must not depend on each other.
        n: Number of terms.
        seed: Of the random pairs.
        batch_bytes: Largest input of one call, in bytes.
        check: Ask the finished tree's own triples and random ones, with fresh rows; some of them
            again with no zero among the terms; and, where the terms are known (`PositiveSum.term`),
            whether the results of rows of ordinary terms rise with the sums along the tree.

    Returns:
        A ReductionTree with a `report`. A sum that is exact or kept in a wider format is one node
        with n children.

    Raises:
        RevealError: The answers are not those of a sum in one fixed order, or no v was found, or
            rows without zeros contradict the order.
        InputError: n < 0, or `target` is no callable.

    Example:
        >>> import numpy as np
        >>> def halves(x):
        ...     return (x[:, 0] + x[:, 2]) + (x[:, 1] + x[:, 3])
        >>> reveal_positive(halves, 4) == ReductionTree.from_nested([[0, 2], [1, 3]])
        True
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise InputError(f"got n={n!r}; a sum has a whole number of terms, 0 or more")
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    asker = Asker(target, n, batch_bytes, rng)
    children, root = resolve(asker, n, rng)
    arrays = numbered(children, root, n)
    checks: list[str] = []
    if check and n > 2:
        checks = _checked(asker, ReductionTree(n, *arrays), rng)
    seconds = time.perf_counter() - start
    report = PositiveReport(
        asker.target.name,
        n,
        asker.probes,
        asker.calls,
        seconds,
        asker.cut,
        tuple(checks),
        _evidence(asker.target),
    )
    return PositiveTree(n, *arrays, report)


def _checked(asker: Asker, tree: ReductionTree, rng: np.random.Generator) -> list[str]:
    """Ask fresh triples of the finished tree; what was confirmed, in words."""
    sets = {
        "one triple for each inner edge": distinguishing(tree, rng),
        "random triples": random_triples(tree, _RANDOM_TRIPLES, rng),
    }
    done = []
    for what, (triples, wanted) in sets.items():
        got = asker.relations(triples) if len(triples) else wanted
        if (got != wanted).any():
            at = int(np.argmax(got != wanted))
            raise RevealError(
                f"{asker.target.name}: asked again, {in_words(triples[at], int(got[at]))}, and "
                f"before, {in_words(triples[at], int(wanted[at]))}. The order depends on the "
                "values or on the place of a row in the call",
                "inconsistent",
            )
        done.append(f"{what} ({len(triples)}) asked again: as before")
    if asker.target.dust is not None:
        count, contradiction = _over_dust(asker, tree, rng)
        if contradiction:
            raise RevealError(
                f"{asker.target.name}: with no zero among the other terms {contradiction}. The "
                "order depends on the values: on zeros, or on how many there are",
                "value-dependent",
            )
        done.append(f"{count} of these triples asked with no zero among the terms: as before")
    if asker.target.term is not None:
        done.append(rises(asker, tree, rng))
    if tree.arity > 2 and tree.arity == tree.leaves:
        done.append(
            "one node has all terms: so looks an exact sum, a wider accumulator"
            + (", and one that sorts its terms" if asker.target.term is None else "")
        )
    if tree.arity > WIDE:
        done.append(f"a node has {tree.arity} children: taken from random triples, not from all")
    return done


def _over_dust(
    asker: Asker, tree: ReductionTree, rng: np.random.Generator
) -> tuple[int, str | None]:
    """Ask some of the tree's own triples over tiny terms: how many, and what contradicts it."""
    triples, wanted = distinguishing(tree, rng)
    some = rng.permutation(len(triples))[:_DENSE_TRIPLES]
    triples, wanted = triples[some], wanted[some]
    got = asker.over_dust(triples) if len(triples) else wanted
    if (got == wanted).all():
        return len(triples), None
    at = int(np.argmax(got != wanted))
    return len(triples), (
        f"{in_words(triples[at], int(got[at]))}, and with zeros, "
        f"{in_words(triples[at], int(wanted[at]))}"
    )


def agrees_by_triples(
    tree: ReductionTree, target: Any, *, seed: int = 0, batch_bytes: int = _BATCH_BYTES
) -> Agreement:
    """Whether a sum of positive terms has the order `tree`: n - 2 triples settle it.

    For an inner node u below another inner node, take a and b from two children of u, and c from a
    sibling of u: the triple "a and b meet before c". A binary tree with n leaves has n - 2 of them.
    No other order answers them alike: suppose T' does, and below two siblings x and y of `tree` it
    is known to have the same subtrees, with roots X and Y. The triple of x says that some b of y is
    not below X, that of y that some a of x is not below Y. So neither is X below Y nor Y below X,
    and all terms of x meet all of y in one and the same node of T': it has the subtree {x, y} as
    well. From the leaves up this reaches the root. (It is the case of Aho's BUILD where the
    components are two in each step.)

    A fused node answers alike in all three roles of a triple, so all three are asked. For a node of
    the tree with more than two children every triple of them with the first one must answer as
    fused (a node with more than 64 children: random triples of them, which proves less).

    All this is asked with zeros for the other terms; up to 256 of the triples are asked again with
    tiny ones, which an order that depends on zeros does not answer alike.

    Args:
        tree: The order to confirm.
        target: As in `reveal_positive`.
        seed: Of the places where the target is first tried.
        batch_bytes: Largest input of one call, in bytes.

    Raises:
        RevealError: The answers are not those of a sum.

    Example:
        >>> import numpy as np
        >>> tree = ReductionTree.from_nested([[0, 1], [2, 3]])
        >>> bool(agrees_by_triples(tree, lambda x: (x[:, 0] + x[:, 1]) + (x[:, 2] + x[:, 3])))
        True
        >>> agrees_by_triples(tree, lambda x: x[:, 0] + x[:, 1] + x[:, 2] + x[:, 3]).difference
        'declared: the terms 2 and 3 meet before 0; found: the terms 0 and 2 meet before 3'
    """
    rng = np.random.default_rng(seed)
    asker = Asker(target, tree.leaves, batch_bytes, rng)
    triples, wanted = distinguishing(tree, rng)
    got = asker.relations(triples) if len(triples) else wanted
    difference = None
    if (got != wanted).any():
        at = int(np.argmax(got != wanted))
        difference = (
            f"declared: {in_words(triples[at], int(wanted[at]))}; "
            f"found: {in_words(triples[at], int(got[at]))}"
        )
    elif len(triples) and asker.target.dust is not None:
        _, contradiction = _over_dust(asker, tree, rng)
        difference = contradiction and f"with no zero among the other terms {contradiction}"
    return Agreement(difference is None, len(triples), asker.probes, asker.calls, difference)


# ---- the stages of a log-sum-exp -----------------------------------------------------------------


@dataclass(frozen=True)
class LogSumExpStages(Result):
    """The stages of a log-sum-exp, and what was found of each.

    Attributes:
        target, n: What was asked, and its number of logits.
        maximum: Whether one logit far above the others comes out with its own bits, wherever it
            stands. A maximum is exact, so it has no order.
        exponential: Whether exp(x) beside exp(0) gives the same bits wherever the two stand: each
            element has the same exponential.
        order: The order of the sum of the exponentials, as revealed.
        probes: Rows evaluated.
    """

    target: str
    n: int
    maximum: bool
    exponential: bool
    order: PositiveTree
    probes: int

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "order": self.order.to_json(), "hash": self.order.hash}

    def rows(self) -> list[dict[str, Any]]:
        same = {True: "the same bits at every place asked", False: "depends on the place"}
        return [
            {"stage": "maximum", "found": same[self.maximum]},
            {"stage": "exponentials", "found": same[self.exponential]},
            {"stage": "their sum", "found": repr(self.order)},
        ]


def log_sum_exp_stages(
    target: Any, n: int, *, dtype: str = "fp32", places: int = 64, seed: int = 0
) -> LogSumExpStages:
    """Look at the stages of a log-sum-exp through its results.

    Args:
        target: As in `log_sum_exp`.
        n: Number of logits, at least 2.
        dtype: Of the logits.
        places: Places asked in the first two stages, the first and the last among them.
        seed: Of those places, and of the triples.

    Example:
        >>> import torch
        >>> found = log_sum_exp_stages(lambda x: torch.logsumexp(x, -1), 3)
        >>> found.maximum, found.exponential, found.order.to_json()
        (True, True, '[[0,1],2]')
    """
    if n < 2:
        raise InputError(f"got n={n}; stages are seen with n >= 2 logits")
    sums = log_sum_exp(target, dtype)
    rng = np.random.default_rng(seed)
    at = np.unique(np.r_[0, n - 1, rng.integers(0, n, places)])
    rows = np.arange(len(at))
    logits = np.full((len(at), n), -1000, np.float32)
    logits[rows, at] = 3.25
    found = np.asarray(sums.fn(logits)).view(np.uint32)
    maximum = bool((found == np.float32(3.25).view(np.uint32)).all())
    probes, exponential = len(at), True
    for x in (-0.75, -2.5, -7.125):  # numbers of all three dtypes; their exponentials are not
        logits = np.full((len(at), n), -1000, np.float32)
        logits[rows, at] = 0
        logits[rows, (at + 1 + rng.integers(0, n - 1, len(at))) % n] = x
        exponential &= len(np.unique(np.asarray(sums.fn(logits)).view(np.uint32))) == 1
        probes += len(at)
    order = reveal_positive(sums, n, seed=seed)
    assert order.report is not None
    probes += order.report.probes
    return LogSumExpStages(sums.name, n, maximum, exponential, order, probes)


def _evidence(target: PositiveSum) -> Any:
    from workbench.evidence import evidence

    return evidence(target.kernel if target.kernel is not None else target.fn)
