"""Whether a revealed tree explains what its function gives for other values."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from workbench.errors import InputError
from workbench.orders.reveal import probing
from workbench.orders.reveal.confirm import Prober, probe_terms, sample_size
from workbench.orders.reveal.models import (
    aligned_models,
    aligned_sum,
    along,
    in_bf16,
    mixed_sum,
    twice_rounded_sum,
)
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
    "bf16": ("fp32", "fp64", "bf16"),
}
_EACH = 6  # rows of each kind of ordinary terms, at least, where rows are cheap
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


def refuse_sorting_early(
    target: Target, prober: Prober, rng: np.random.Generator, unexplained: str = "refuse"
) -> None:
    """Raise where all pairs seem to meet in one node and sums are not those of such a node.

    A sum of sorted terms looks so, and there is no point in taking it apart.
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
        star = ReductionTree(n, np.arange(n), np.array([0, n]))
        kinds = np.full(1, probing.ALIGNED)
        found = probing.Found(n, star.children, star.offsets, kinds)
        random_sums(target, star, found, rng, unexplained)


def ordinary_rows(target: Target, rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Sums of ordinary terms to be explained: [R, n] values of the target's dtype, and what each
    row is. A function that chooses its order by signs, sizes, zeros or the result shows it here.

    No row holds nothing but -0. Its sum is -0 by additions alone and +0 by an accumulator that
    starts at +0: that is no order (`orders.arithmetic` asks for it, as `empty`). Beside other
    values -0 stays, for a function that looks at the signs of zeros."""
    n, narrow = target.n, target.dtype == "fp16"
    many = target.rows_per_call >= sample_size(target) > _EACH
    # Two orders of few terms often give the same bits, so there are more rows of few terms.
    each = max(_EACH, min(64, 2048 // max(1, n))) if many else max(2, min(16, 512 // max(1, n)))
    size = (each, n)

    def normal() -> np.ndarray:
        return rng.standard_normal(size)

    def scales() -> np.ndarray:
        return 2.0 ** rng.integers(-6, 7, size)

    def some(share: float) -> np.ndarray:
        kept = rng.random(size) < share
        kept[np.arange(each), rng.integers(0, n, each)] = True
        return kept

    kinds = {
        "N(0, 1)": normal(),
        "mixed scales": normal() * scales(),
        "terms that cancel": _layered(target, each, rng),
        "positive terms": np.abs(normal()) + 2.0**-10,
        "negative terms": -np.abs(normal()) - 2.0**-10,
        "positive terms of mixed scales": (np.abs(normal()) + 2.0**-10) * scales(),
        "mostly zeros": normal() * some(0.3),
        "whole numbers": np.rint(8 * normal()),
        "large terms": normal() * 2.0 ** (6 if narrow else 60),
        "small terms": normal() * 2.0 ** (-6 if narrow else -60),
    }
    terms = target.decode(target.encode(np.concatenate([*kinds.values()]))).astype(np.float64)
    terms[(terms == 0).all(1)] = 0
    return terms, [name for name in kinds for _ in range(each)]


def _layered(target: Target, rows: int, rng: np.random.Generator) -> np.ndarray:
    """[rows, n] fp64: of many scales, and most of each is taken away again. A sum that is nearly
    exact (compensated, say) shows here that it is not."""
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
    return terms


def random_sums(
    target: Target,
    tree: ReductionTree,
    found: probing.Found,
    rng: np.random.Generator,
    unexplained: str = "refuse",
) -> tuple[str | None, str]:
    """What arithmetic along the tree gives the function's sums of random terms, bit for bit.

    Args:
        unexplained: "refuse" raises where none does; "warn" and "allow" do not.

    Raises:
        RevealError: None does, or the order depends on the values.
    """
    terms, kinds = ordinary_rows(target, rng)
    rows, got = len(terms), target.sums(terms)
    off: np.ndarray | None = None
    wide = np.diff(tree.offsets) > 2
    aligned = bool((found.kinds[wide] == probing.ALIGNED).any())
    for words, sums in _plain_models(target, tree, terms) if not aligned else ():
        if _bits(sums) == _bits(got):
            return words, f"{rows} sums of random terms have the bits of {words} along the tree"
        off = _differing(sums, got) if off is None else off
    if aligned and target.out_dtype == "fp32":
        exact = found.kinds == probing.EXACT
        few = np.arange(0, rows, max(1, rows // 16))
        for model in aligned_models(bool((~wide).any())):
            if off is None:
                off = _differing(aligned_sum(tree, terms, model, exact), got)
            if _bits(aligned_sum(tree, terms[few], model, exact)) != _bits(got[few]):
                continue
            sums = aligned_sum(tree, terms, model, exact)
            if _bits(sums) == _bits(got):
                words = f"fp32 sums; {model}"
                return words, f"{rows} sums of random terms have the bits of {words}"
    partly = False
    if tree.arity == 2 and target.dtype == "fp32":
        nodes = _wide_nodes(target, tree)
        if _bits(mixed_sum(tree, terms, nodes)) == _bits(got):
            words = f"fp32 sums, {int(nodes.sum())} of {len(nodes)} nodes in fp64"
            return words, f"{rows} sums of random terms have the bits of {words} along the tree"
        partly = bool(nodes.any()) and not nodes[:-1].all()  # all: a correction shows so too
    if not partly:
        _refuse_dependent(target, tree, found, rng)
    why = (
        "its fused nodes align their terms in a way that is not modelled"
        if aligned
        else "the arithmetic is not plain sums of rounded terms"
    )
    if unexplained == "refuse":
        raise _not_explained(target, why, kinds, off)
    note = f"sums of random terms differ from sums along the tree: {why}; see arithmetic"
    return None, note


def _plain_models(
    target: Target, tree: ReductionTree, terms: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """(in words, sums) of one dtype at all nodes."""
    for kind in _ACCUMULATORS[target.dtype]:
        try:
            if kind == "bf16":
                if tree.arity != 2:
                    continue
                sums = along(tree, terms, lambda _, values: in_bf16(values)).astype(np.float32)
            else:
                sums = tree.sum(terms.astype(_NUMPY[kind]))
        except InputError:  # a node that `sum` has no model of
            return
        words = f"{kind} sums"
        if kind != target.out_dtype:
            words += f", rounded to {target.out_dtype}"
        yield words, _as_output(sums, target.out_dtype)
    if tree.arity > 2 and target.out_dtype == "fp32" and target.dtype != "fp64":
        # as (float)fsum(…) gives: rounded twice, which differs near a tie
        yield "fp32 sums, fused nodes rounded to fp64 first", twice_rounded_sum(tree, terms)


def _differing(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """bool [R]: where bits differ."""
    kind = np.uint64 if a.itemsize == 8 else np.uint32
    return np.ascontiguousarray(a).view(kind) != np.ascontiguousarray(b, a.dtype).view(kind)


def _not_explained(
    target: Target, why: str, kinds: list[str], off: np.ndarray | None
) -> RevealError:
    """The refusal, with the kinds of rows that tell what the function may look at."""
    seen = ""
    if off is not None and off.any():
        names = np.array(kinds)
        wrong = {name: int(off[names == name].sum()) for name in dict.fromkeys(kinds)}
        right = [name for name, count in wrong.items() if not count]
        listed = ", ".join(f"{count} of {name}" for name, count in wrong.items() if count)
        seen = f": {int(off.sum())} of {len(off)} differ ({listed})"
        if right:
            seen += f"; those of {', '.join(right)} are explained"
    return RevealError(
        f"{target.name}: the order found with large values does not explain ordinary sums{seen}. "
        f"Either {why}, or the function chooses an order by its values (signs, sizes, zeros). "
        'Ask with unexplained="warn" for the order of the large values all the same',
        "unexplained",
    )


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
    # With both signs, lest it be a function that has another order for positive terms.
    if all((s * target.sums(s * terms).astype(float) == 1 + 2 * half).all() for s in (1, -1)):
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
