"""The probes behind `arithmetic`: where terms are put, and how results are read.

All numbers are scaled so that 16-bit inputs hold them too: the large term is 2^12, and its ulp in
fp32 is 2^-11.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.errors import InputError
from workbench.orders.tree import ReductionTree

_ULP = 2.0**-11  # of _LARGE in fp32
_LARGE = 2.0**12
_MODES = (
    *("nearest even", "nearest, ties away", "nearest, ties to zero"),
    *("toward zero", "up", "down", "to odd"),
)
# Bits of the significand, exponent of the smallest normal number, of an input.
FORMATS = {"fp32": (24, -126), "bf16": (8, -126), "fp16": (11, -14)}


@dataclass(frozen=True)
class Dots:
    """A sum of products to be probed: rows of one operand against one vector.

    Attributes:
        run: (a float32 [R, n], b float32 [n]) -> float [R], sums of a[r, k] * b[k]. With
            `products=False` b is always 1 and may be ignored.
        name: For reports.
        dtype: "fp32", "bf16" or "fp16": what a and b are rounded to. All that is asked fits.
        products: False for a sum of given terms: what concerns products is then not asked.
        source: The kernel or callable behind it, for the evidence.
    """

    run: Callable[[np.ndarray, np.ndarray], Any]
    name: str
    dtype: str = "fp32"
    products: bool = True
    source: Any = field(default=None, compare=False)


def rounded_quarters(quarters: int, mode: str) -> int:
    """`quarters` of an ulp, signed, rounded to whole ulps: the result in quarters as well.

    Args:
        quarters: The exact value; the ulp that lies at 0 is an even one.
        mode: One of "nearest even", "nearest, ties away", "nearest, ties to zero", "toward zero",
            "up", "down", "to odd".

    Example:
        >>> [rounded_quarters(6, mode) for mode in ("nearest even", "toward zero", "up")]
        [8, 4, 8]
    """
    below, part = divmod(quarters, 4)  # the ulp below the value, and how far above it that is
    negative = quarters < 0
    if mode == "up":
        above = part > 0
    elif mode == "down":
        above = False
    elif mode == "toward zero":
        above = part > 0 and negative
    elif mode == "to odd":
        above = part > 0 and below % 2 == 0
    elif part == 2:
        ties = {
            "nearest even": below % 2 == 1,
            "nearest, ties away": not negative,
            "nearest, ties to zero": negative,
        }
        above = ties[mode]
    else:
        above = part == 3
    return 4 * (below + above)


def _mode(seen: dict[int, float]) -> str:
    """The one mode that rounds each exact value (in quarters) to what was seen."""
    if all(got == exact for exact, got in seen.items()):
        return "none"
    fits = [
        mode
        for mode in _MODES
        if all(rounded_quarters(exact, mode) == got for exact, got in seen.items())
    ]
    return fits[0] if len(fits) == 1 else "unknown"


class Places:
    """Where to put terms so that they meet where a question wants them to."""

    def __init__(self, tree: ReductionTree, nodes: int | None, seed: int) -> None:
        n, flat, at = tree.leaves, tree.children.tolist(), tree.offsets.tolist()
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.most = nodes
        below = [flat[a:b] for a, b in itertools.pairwise(at)]
        leaf = list(range(n))  # a leaf below each node
        for node in below:
            leaf.append(leaf[node[0]])
        # A partner of each leaf, from a sibling: they meet in the leaf's first addition.
        self.partner = np.zeros(n, np.int64)
        self.leaf_groups: list[list[int]] = []  # leaves that are children of one node
        beside = [-1] * (n + len(below))  # a leaf from a sibling of each inner node
        for node in below:
            for c in node:
                beside[c] = leaf[node[1] if c == node[0] else node[0]]
        pairs, chains, wider = [], [], []
        for k, node in enumerate(below):
            own = [c for c in node if c < n]
            if own:
                self.leaf_groups.append(own)
            for c in own:
                self.partner[c] = beside[c]
            pairs.append((leaf[node[0]], leaf[node[1]]))
            # (b, j, z): b and j meet in a child of this node, z comes from another child.
            for c in node:
                if c >= n:
                    first, second, *_ = below[c - n]
                    chains.append((leaf[first], leaf[second], beside[c]))
                    wider += [(*chains[-1], beside[n + k])] if beside[n + k] >= 0 else []
        self.pairs = np.array(pairs, np.int64).reshape(-1, 2)
        self.chains = np.array(chains, np.int64).reshape(-1, 3)
        # (b, j, z, w): w is added to the node where z meets the two.
        self.wider = np.array(wider, np.int64).reshape(-1, 4)

    def some(self, places: np.ndarray) -> np.ndarray:
        """At most as many of the places as one asks for, the first and the last among them."""
        if self.most is None or len(places) <= self.most:
            return places
        middle = 1 + self.rng.choice(len(places) - 2, max(self.most - 2, 0), replace=False)
        return places[np.r_[0, np.sort(middle), len(places) - 1]]


class Prober:
    """Runs rows of mostly zeros and reads the answers; keeps count and the bits seen."""

    def __init__(self, dots: Dots, places: Places, batch_bytes: int) -> None:
        self.dots = dots
        self.places = places
        self.bits, self.lowest = FORMATS[dots.dtype]
        self.step = max(1, batch_bytes // (4 * places.n))
        self.probes = self.calls = 0
        self.raw: dict[str, list[str]] = {}

    def _run(
        self, what: str, at: np.ndarray, values: Any, b: float = 1.0, fill: float = 0.0
    ) -> np.ndarray:
        """values [V, m] at each of the places [P, m] against a constant b -> [P, V]."""
        n, parts = self.places.n, []
        with _subnormals_kept():
            values = np.asarray(values, np.float32)
            place, value = np.repeat(at, len(values), axis=0), np.tile(values, (len(at), 1))
            other = np.full(n, b, np.float32)
        for start in range(0, len(place), self.step):
            with _subnormals_kept():
                part = place[start : start + self.step]
                rows = np.full((len(part), n), fill, np.float32)
                np.put_along_axis(rows, part, value[start : start + self.step], axis=1)
            got = np.asarray(self.dots.run(rows, other))
            if got.shape != (len(part),):
                raise InputError(
                    f"{self.dots.name} gave {list(got.shape)} for [{len(part)}, {n}]; wanted one "
                    f"number per row, [{len(part)}]"
                )
            parts.append(got)
            self.calls += 1
        self.probes += len(place)
        found = np.concatenate(parts) if parts else np.empty(0, np.float32)
        if what:
            self.raw[what] = _hex(found)
        with _subnormals_kept():
            return found.reshape(len(at), len(values)).astype(np.float64)

    def input_bits(self) -> int:
        """The largest p for which 1 + 2^(1-p) alone arrives unchanged, up to the dtype's own."""
        values = _LARGE * (1 + 2.0 ** -np.arange(1, self.bits))[:, None]
        leaves = self.places.some(np.arange(self.places.n))[:, None]
        same = (self._run("input_bits", leaves, values) == values[:, 0]).all(axis=0)
        return 1 + (int(np.argmin(same)) if not same.all() else len(same))

    def products(self, bits: int) -> tuple[str, tuple[int, ...], str]:
        """7 (2^(p-1) + m) has three bits more than a p-bit number: 7 m counts quarters of its ulp.

        The partner takes 7 * 2^(p-1) away again, exactly.
        """
        if not self.dots.products:
            return "not probed", (), "not probed"
        large = 2.0 ** (bits - 1)
        leaves = np.arange(self.places.n)
        at = np.stack([leaves, self.places.partner], axis=1)
        left = self._run("fused", at, [[large + 1, -large]], b=7.0)[:, 0]
        unrounded = left == 7
        steps = [sign * m for m in (1, 2, 3, 6) for sign in (1, -1)]
        values = [[np.sign(m) * large + m, -np.sign(m) * large] for m in steps]
        rounded = at[~unrounded]
        if len(rounded):
            seen = self._run("product", self.places.some(rounded), values, b=7.0)
            modes = {_mode({7 * m: v for m, v in zip(steps, row, strict=True)}) for row in seen}
            mode = modes.pop() if len(modes) == 1 else "mixed"
            product = mode if mode in ("mixed", "unknown") else f"{bits} bits, {mode}"
        else:
            product = "exact"
        fused = tuple(np.flatnonzero(unrounded).tolist())
        return self._fused_rule(unrounded, product), fused, product

    def _fused_rule(self, unrounded: np.ndarray, product: str) -> str:
        if product == "unknown":
            return "unknown"
        if unrounded.all():
            return "exact"
        if not unrounded.any():
            return "separate"
        one_each = all(unrounded[group].sum() == 1 for group in self.places.leaf_groups)
        return "fused" if one_each else "mixed"

    def rounding(self) -> str:
        """2^12 plus 0 or 1 ulp, and a quarter, a half or three quarters of an ulp more.

        A 24-bit input holds the odd ulp itself. Otherwise it comes from a third term that meets the
        large one before, and a fourth takes 2^12 away again, so that a short result holds the rest.
        """
        places, ulp = self.places, _ULP
        exact = [s * (4 * odd + part) for odd in (0, 1) for part in (1, 2, 3) for s in (1, -1)]
        sign = np.sign(exact)
        odd, part = np.divmod(np.abs(exact), 4)
        large, odd, part = sign * _LARGE, sign * odd * ulp, sign * part * ulp / 4
        taken = np.zeros(1)
        if self.bits >= 24:
            at, values = places.pairs, [large + odd, part]
        elif len(places.wider):
            at, values, taken = places.wider, [large, odd, part, -large], large
        elif len(places.chains):
            at, values = places.chains, [large, odd, part]
        else:
            return "unknown"
        seen = self._run("rounding", places.some(at), np.stack(values, axis=1))
        above = (seen - large + taken) / (ulp / 4)
        modes = {_mode(dict(zip(exact, row, strict=True))) for row in above.tolist()}
        return modes.pop() if len(modes) == 1 else "mixed"

    def sum_bits(self) -> tuple[int, ...]:
        """1 + 2^(1-p) - 1 is 2^(1-p) where the node of the first two keeps p bits."""
        if not len(self.places.chains):
            return ()
        most = 27 if self.dots.dtype == "fp16" else 72  # fp16 holds no smaller term beside 2^12
        at = self.places.some(self.places.chains)
        # Where these are kept or lost alike, one node speaks for the others.
        alike = self._keeps("", at, [p for p in (8, 11, 24, 25, 53, 54, 64) if p <= most])
        _, first = np.unique(alike, axis=0, return_index=True)
        kept = self._keeps("sum_bits", at[first], range(2, most + 1))
        found = 1 + np.where(kept.all(axis=1), most - 1, np.argmin(kept, axis=1))
        return tuple(sorted({int(p) for p in found}))

    def _keeps(self, what: str, at: np.ndarray, bits: Iterable[int]) -> np.ndarray:
        small = _LARGE * 2.0 ** (1 - np.array(list(bits)))
        large = np.full(len(small), _LARGE)
        return self._run(what, at, np.stack([large, small, -large], axis=1)) == small

    def subnormals(self) -> tuple[str, str, str]:
        """Of inputs, of products of normal numbers, and of sums of normal numbers."""
        low, fp16 = self.lowest, self.dots.dtype == "fp16"
        pairs = self.places.some(self.places.pairs)
        if self.dots.products:  # times 2^60, into the normal numbers
            scale = 1.0 if fp16 else 2.0**60
            half = 2.0 ** (low - 1)
            inputs = self._run("subnormal_inputs", pairs, [[half, 0], [-half, 0]], b=scale)
            kept_inputs = _kept(inputs, np.array([half, -half]) * scale, (0.0,))
        else:
            normal, half = 2.0**low, 2.0 ** (low - 1)
            inputs = self._run("subnormal_inputs", pairs, [[normal, half], [half, normal]])
            kept_inputs = _kept(inputs, np.full(2, normal + half), (normal,))
        if fp16:
            return kept_inputs, "cannot occur", "cannot occur"
        kept_products = "not probed"
        if self.dots.products:
            tiny = 2.0**-65  # its square is subnormal in bf16, too
            got = self._run("subnormal_products", pairs, [[tiny, 0], [0, -tiny]], b=tiny)
            kept_products = _kept(got, np.array([tiny, -tiny]) * tiny, (0.0,))
        normal = 2.0**-126
        sums = self._run(
            "subnormal_sums", pairs, [[1.5 * normal, -normal], [normal, -1.5 * normal]]
        )
        return kept_inputs, kept_products, _kept(sums, np.array([0.5, -0.5]) * normal, (0.0,))

    def empty(self) -> str:
        got = self._run("empty", np.array([[0]]), [[-0.0]], fill=-0.0)[0, 0]
        return "unknown" if got != 0 else "-0" if np.signbit(got) else "+0"


@contextlib.contextmanager
def _subnormals_kept() -> Iterator[None]:
    """Numbers are made and read with subnormals kept, whatever this thread does with them: the
    target alone runs as the caller's environment says."""
    tiny = np.full(1, 2.0**-126, np.float32)
    flushed = (tiny * np.float32(0.5))[0] == 0
    if flushed:
        import torch

        torch.set_flush_denormal(False)
    try:
        yield
    finally:
        if flushed:
            torch.set_flush_denormal(True)


def _kept(seen: np.ndarray, whole: np.ndarray, flushed: Iterable[float]) -> str:
    kept, lost = seen == whole, np.isin(seen, list(flushed))
    if not (kept | lost).all():
        return "unknown"
    return "kept" if kept.all() else "flushed" if lost.all() else "mixed"


def _hex(found: np.ndarray) -> list[str]:
    """The bits seen, most frequent first, at most 16 different ones."""
    kinds = {2: np.uint16, 4: np.uint32, 8: np.uint64}
    bits = found.view(kinds[found.dtype.itemsize]).tolist()
    width = 2 * found.dtype.itemsize
    return [f"0x{b:0{width}x}" for b, _ in Counter(bits).most_common(16)]
