"""Whether an increasing function of a sum of positive terms rises with the sums along a tree."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.orders.reveal.models import aligned_models, aligned_sum
from workbench.orders.reveal.targets import RevealError
from workbench.orders.reveal.triples import Asker
from workbench.orders.tree import ReductionTree

_TURNS = 24  # arrangements of each set of terms


def rises(asker: Asker, tree: ReductionTree, rng: np.random.Generator) -> str:
    """Compare rows of ordinary terms; what was confirmed, in words.

    What follows the sum is not known but for this: equal sums give equal results, and a larger sum
    no smaller one. So the rows come in sets of the same exact sum: the same terms arranged anew,
    and of every other row something of one term moved to the next. The sums of a set differ by
    rounding alone, many are equal, and a wrong order soon says that two are which are not.

    Raises:
        RevealError: No arithmetic that is modelled gives along the tree sums that the results rise
            with: the order depends on the values, or this is another arithmetic.
    """
    assert asker.target.term is not None
    # Two orders of few terms often give the same bits, so there are more rows of few terms.
    sets = _terms(48 if asker.n <= 64 else 12, asker.n, rng)
    rows = np.concatenate([[rng.permutation(terms) for _ in range(_TURNS)] for terms in sets])
    rows[1::2] = _moved(rows[1::2], rng)
    results = asker.evaluated(rows)
    terms = np.asarray(asker.target.term(rows), np.float32)
    least = None
    for words, sums in _sums(tree, terms):
        wrong = _contradictions(sums, results)
        if not wrong:
            return (
                f"{len(rows)} rows of ordinary terms, most without a zero: the results rise with "
                f"{words} along the tree, and are equal where these are"
            )
        least = wrong if least is None else min(least, wrong)
    raise RevealError(
        f"{asker.target.name}: the order found with one large term among zeros does not explain "
        f"sums of ordinary terms: of {len(rows)} rows at least {least} have results that do not "
        "rise with the sums along it. The order depends on the values (their sizes, zeros, or how "
        "they sort), or sums are neither rounded to nearest nor cut off. check=False returns the "
        "order all the same",
        "unexplained",
    )


def _terms(sets: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """fp32 [sets, n] positive numbers whose sum is near 1: its logarithm shows its last bit."""
    values = (1 + rng.random((sets, n))) / 2.0 ** max(0, n - 1).bit_length()
    values[1::3] *= 2.0 ** rng.integers(-12, 1, values[1::3].shape)
    values[2::3, 0] = 1
    values[-1][rng.random(n) < 0.3] = 0
    return values.astype(np.float32)


def _moved(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The rows with up to half of each second term moved to the one before: the same exact sum."""
    half = rows.shape[1] // 2
    to, of = rows[:, : 2 * half : 2].astype(float), rows[:, 1 : 2 * half : 2].astype(float)
    grid = np.ldexp(1.0, np.frexp(np.maximum(to, of))[1] - 24)
    some = grid * np.floor(rng.random(of.shape) * of / (2 * grid))
    more, less = to + some, of - some
    fits = (more.astype(np.float32) == more) & (less.astype(np.float32) == less) & (less > 0)
    moved = rows.copy()
    moved[:, : 2 * half : 2] = np.where(fits, more, to)
    moved[:, 1 : 2 * half : 2] = np.where(fits, less, of)
    return moved


def _sums(tree: ReductionTree, terms: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    yield "fp32 sums", tree.sum(terms)
    for model in aligned_models(pairs=True):
        if tree.arity > 2 or model.pairs:
            yield f"fp32 sums ({model})", aligned_sum(tree, terms, model)


def _contradictions(sums: np.ndarray, results: np.ndarray) -> int:
    """Rows whose result is not that of an equal sum, or is below that of a smaller one."""
    order = np.lexsort((results, sums))
    equal, step = np.diff(sums[order]) == 0, np.diff(results[order])
    return int((np.where(equal, step != 0, ~(step >= 0))).sum())
