"""Whether a revealed tree explains what its function gives for other values."""

from __future__ import annotations

import math

import numpy as np

from workbench.errors import InputError
from workbench.orders.reveal import probing
from workbench.orders.reveal.confirm import Prober, probe_terms, random_terms, sample_size
from workbench.orders.reveal.targets import RevealError, Target
from workbench.orders.tree import ReductionTree

# Other values than those that found the tree: (M, unit, most units a sum may have).
_OTHER = {
    "fp32": (2.0**80, 2.0**-20, 1 << 24),
    "bf16": (2.0**80, 2.0**-20, 1 << 24),
    "fp64": (2.0**500, 2.0**-20, 1 << 53),
    "fp16": (3 * 2.0**14, 2.0**-23, 1 << 14),
}
# Values of an ordinary size, of which one unit is swallowed in an accumulator of fp32 (fp64 for
# fp64 terms): a quarter of an ulp below M.
_ORDINARY = {
    "fp32": (2.0**-2, 2.0**-28),
    "bf16": (2.0**-2, 2.0**-28),
    "fp64": (2.0**-2, 2.0**-57),
    "fp16": (2.0**5, 2.0**-21),
}
_HALF_ULP = {"fp32": 2.0**-24, "bf16": 2.0**-24, "fp16": 2.0**-24, "fp64": 2.0**-53}
_ACCUMULATORS = {
    "fp32": ("fp32", "fp64"),
    "fp64": ("fp64",),
    "fp16": ("fp32", "fp64", "fp16"),
    "bf16": ("fp32", "fp64"),
}
_NUMPY = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}


def other_probes(
    target: Target, found: probing.Found, prober: Prober, rng: np.random.Generator
) -> str:
    """Probes of other pairs, with another M and unit and the signs exchanged.

    Raises:
        RevealError: Their answers are not the tree's.
    """
    n, some = target.n, sample_size(target)
    big, unit, most = _OTHER[target.dtype]
    i = rng.integers(0, n, some)
    j = (i + rng.integers(1, n, some)) % n
    units = np.ones((some, n), bool)
    most = min(most, prober.count, n)
    if most < n:
        units = np.argsort(rng.random((some, n)), axis=1) < most
    terms = probe_terms(target, j, i, big, unit)  # +M at j
    at = np.arange(some)
    units[at, i] = units[at, j] = True
    terms[~units] = 0
    counts = target.sums(terms).astype(np.float64) / unit
    wanted = units.sum(1) - probing.expected(found, i, j, units)
    bad = np.flatnonzero(counts != wanted)
    if len(bad):
        k = int(bad[0])
        raise RevealError(
            f"{target.name}: the order depends on the values: with M = {big:g} and units of "
            f"{unit:g} the probe of terms {j[k]} and {i[k]} counts {counts[k]:g} units; the order "
            f"found with M = {target.big:g} and {target.unit:g} counts {wanted[k]}",
            "value-dependent",
        )
    return f"{some} probes of other values agree"


def refuse_sorting_early(target: Target, prober: Prober, rng: np.random.Generator) -> None:
    """Raise where all pairs seem to meet in one node and sums are not as good as such a node's.

    A sum of sorted terms looks so, and to take such a node apart costs a round a term.
    """
    n, some = target.n, sample_size(target)
    if n <= probing.ALL_PAIRS:
        return
    i = rng.integers(0, n, some)
    j = (i + rng.integers(1, n, some)) % n
    none, whole = np.array([-1]), np.array([0, n])
    asked = prober.probes
    lost = prober.ask(probing.Round(i, j, np.zeros(some, np.int64), np.arange(n), whole, none))
    prober.probes = asked  # it finds nothing of the order
    if (lost == n).all():
        _refuse_sorting(target, rng)


def _layered(target: Target, rows: int, rng: np.random.Generator) -> np.ndarray:
    """[rows, n] values of the target's dtype, as fp64: of many scales, and most of each is taken
    away again. A sum that is nearly exact (compensated, say) shows here that it is not."""
    n, narrow = target.n, target.dtype == "fp16"
    reach = 10 if narrow else 40
    terms = rng.standard_normal((rows, n)) * 2.0 ** rng.integers(-reach, reach + 1, (rows, n))
    half = n // 2
    for k, row in enumerate(terms):
        places = rng.permutation(n)
        if k % 2 and n >= 5 and not narrow:  # two layers go, and the last one is left
            row[:] = 0
            row[places[:5]] = 2.0**60, 1, 2.0**-60, -1, -(2.0**60)
        else:
            row[places[1:half]] = -row[places[half + 1 : 2 * half]]
    return target.decode(target.encode(terms)).astype(np.float64)


def random_sums(
    target: Target, tree: ReductionTree, found: probing.Found, rng: np.random.Generator
) -> tuple[str | None, str]:
    """What arithmetic along the tree gives the function's sums of random terms, bit for bit.

    Raises:
        RevealError: None does, because the order depends on the values.
    """
    rows = sample_size(target)
    terms = random_terms(target, rows, rng)
    terms[: rows // 4] = _layered(target, rows // 4, rng)
    got = target.sums(terms)
    aligned = bool((found.kinds[np.diff(tree.offsets) > 2] == probing.ALIGNED).any())
    for kind in () if aligned else _ACCUMULATORS[target.dtype]:
        try:
            sums = tree.sum(terms.astype(_NUMPY[kind]))
        except InputError:  # a node that `sum` has no model of
            break
        if _as_output(sums, target.out_dtype).tobytes() == _bits(got):
            words = f"{kind} sums"
            if kind != target.out_dtype:
                words += f", rounded to {target.out_dtype}"
            return words, f"{rows} sums of random terms have the bits of {words} along the tree"
    partly = False
    if tree.arity == 2 and target.dtype == "fp32":
        wide = _wide_nodes(target, tree)
        if _bits(mixed_sum(tree, terms, wide)) == _bits(got):
            words = f"fp32 sums, {int(wide.sum())} of {len(wide)} nodes in fp64"
            return words, f"{rows} sums of random terms have the bits of {words} along the tree"
        partly = bool(wide.any()) and not wide[:-1].all()  # all of them: a correction shows so too
    if not partly:
        _refuse_dependent(target, tree, found, rng)
    why = (
        "its fused nodes align their terms, which is not modelled"
        if aligned
        else "the arithmetic is not plain sums of rounded terms"
    )
    return None, f"sums of random terms differ from sums along the tree: {why}; see arithmetic"


def _as_output(sums: np.ndarray, dtype: str) -> np.ndarray:
    """Rounded to the dtype of the results, widened as `Target.sums` widens them."""
    if dtype == "fp64":
        return sums.astype(np.float64)
    with np.errstate(over="ignore"):
        if dtype == "bf16":
            import torch

            return torch.from_numpy(sums).bfloat16().float().numpy()
        if dtype == "fp16":
            sums = sums.astype(np.float16)
        return sums.astype(np.float32)


def _bits(values: np.ndarray) -> bytes:
    return np.ascontiguousarray(values).tobytes()


def _refuse_dependent(
    target: Target, tree: ReductionTree, found: probing.Found, rng: np.random.Generator
) -> None:
    """Raise where values choose the order, or a correction is carried along."""
    n = target.n
    if n < 3:
        return
    if tree.height == 1:
        _refuse_sorting(target, rng)
        return
    big, unit = _ORDINARY[target.dtype]
    some = sample_size(target)
    i = rng.integers(0, n, some)
    j = (i + rng.integers(1, n, some)) % n
    k = rng.integers(0, n, some)
    k = np.where((k == i) | (k == j), -1, k)
    units = np.zeros((some, n), bool)
    at = np.arange(some)
    units[at[k >= 0], k[k >= 0]] = True
    terms = probe_terms(target, i, j, big, 0.0)
    terms[units] = unit
    lone = probing.expected(found, i, j, units) == 2  # the unit is not below the pair's node
    wanted = np.where(lone & (k >= 0), unit, 0)
    got = target.sums(terms).astype(np.float64)
    if (got == np.where(k >= 0, unit, 0)).all():
        return  # nothing is swallowed: a wider accumulator, whose order ordinary values do not tell
    if not (got == wanted).all():
        bad = int(np.flatnonzero(got != wanted)[0])
        raise RevealError(
            f"{target.name}: the order depends on the values: with +-{big:g} at terms {i[bad]} and "
            f"{j[bad]}, {unit:g} at term {k[bad]} and zeros elsewhere it gives {got[bad]:g}; the "
            f"order found with large values gives {wanted[bad]:g} (a branch on the data, sorting, "
            "or sums that do not round to nearest: see orders.reveal.positive)",
            "value-dependent",
        )
    half = _HALF_ULP[target.dtype]
    chains = _chains(tree, some, rng)
    terms = np.zeros((len(chains), n))
    at = np.arange(len(chains))
    terms[at, chains[:, 0]] = 1
    terms[at[:, None], chains[:, 1:]] = half
    # 1 + u ties to 1 in any plain sum, twice; toward infinity it gives 1 + 4u.
    if (target.sums(terms).astype(np.float64) == 1 + 2 * half).all():
        raise RevealError(
            f"{target.name}: the sum carries a correction: (1 + u) + u, u half an ulp of 1, gives "
            "1 + 2u, though large values swallow small ones. A compensated sum (Kahan) has no "
            "order of plain additions to reveal",
            "compensated",
        )


def _wide_nodes(target: Target, tree: ReductionTree) -> np.ndarray:
    """bool [inner]: nodes whose sum keeps more bits than fp32 until it is added to the next.

    OpenBLAS's sdot adds its last n mod 32 products in fp64, for example. Below a node stand 1 and
    2^-30, and -1 in the node's sibling: what is left of 2^-30 tells. The root is never wide, since
    the result is fp32.
    """
    n, inner = tree.leaves, len(tree.offsets) - 1
    pairs = tree.children.reshape(-1, 2)
    leaf = np.arange(n + inner)
    sibling = np.full(n + inner, -1)
    for k, (a, b) in enumerate(pairs.tolist()):
        leaf[n + k] = leaf[a]
        sibling[a], sibling[b] = b, a
    wide = np.zeros(inner, bool)
    step = max(1, target.batch_bytes // (8 * n))
    for low in range(0, inner - 1, step):
        nodes = np.arange(low, min(low + step, inner - 1))
        terms = np.zeros((len(nodes), n))
        at = np.arange(len(nodes))
        terms[at, leaf[pairs[nodes, 0]]] = 1
        terms[at, leaf[pairs[nodes, 1]]] = 2.0**-30
        terms[at, leaf[sibling[n + nodes]]] = -1
        wide[nodes] = target.sums(terms) == 2.0**-30
    return wide


def mixed_sum(tree: ReductionTree, terms: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Sums along a binary tree, fp32 but for the `wide` nodes, which keep fp64; [R] fp32.

    Args:
        terms: [R, n] values of fp32.
        wide: bool [inner].
    """
    values = [*np.asarray(terms, np.float64).T]
    for k, (a, b) in enumerate(tree.children.reshape(-1, 2).tolist()):
        total = values[a] + values[b]
        # A sum of two fp32 values rounded to fp64 and then to fp32 is rounded as if once.
        values.append(total if wide[k] else total.astype(np.float32).astype(np.float64))
        values[a] = values[b] = None
    return values[-1].astype(np.float32)


def _chains(tree: ReductionTree, some: int, rng: np.random.Generator) -> np.ndarray:
    """[K, 3] leaves a, b, c such that a and b meet before c joins them."""
    n, inner = tree.leaves, len(tree.offsets) - 1
    leaf = list(range(n)) + [0] * inner  # one leaf below each node
    flat, at = tree.children.tolist(), tree.offsets.tolist()
    chains = []
    for k in range(inner):
        node = flat[at[k] : at[k + 1]]
        leaf[n + k] = leaf[node[0]]
        lower = [c for c in node if c >= n]
        if lower:
            under = flat[at[lower[0] - n] : at[lower[0] - n + 1]]
            other = next(c for c in node if c != lower[0])
            chains.append([leaf[under[0]], leaf[under[1]], leaf[other]])
    picked = rng.permutation(len(chains))[:some]
    return np.array(chains, np.int64)[picked]


def _refuse_sorting(target: Target, rng: np.random.Generator) -> None:
    """One node over all terms is what a sum of sorted terms looks like. A fused node is far better.

    Of terms in [1, 2) a node that aligns loses less than an ulp of 1 a term, and its rounding less
    than an ulp of the result.
    """
    ulp = 2 * _HALF_ULP[target.dtype]
    terms = target.decode(target.encode(1 + rng.random((4 * sample_size(target), target.n)) / 2))
    exact = np.array([math.fsum(row) for row in terms.astype(np.float64)])
    bound = target.n * 2 * ulp + 2.0 ** np.floor(np.log2(exact)) * ulp
    off = np.abs(target.sums(terms).astype(np.float64) - exact) > bound
    if target.out_dtype in ("fp32", "fp64") and off.any():
        raise RevealError(
            f"{target.name}: no place of a term matters, and yet the result is not the rounded sum "
            f"({int(off.sum())} of {len(off)} sums are off by more than one fused addition of "
            f"{target.n} terms can be). It sorts its terms, or chooses the order by their values",
            "value-dependent",
        )
