"""What an order of summation does not say: one-shot probes of the arithmetic at its nodes.

Two sums in one order differ in their bits when one of them fuses a product with its first addition,
rounds in another direction, keeps more bits between two additions, or flushes subnormal numbers.
Each question is a few rows whose exact results differ by the answer. They need the order, so that a
term meets its partner where it should.
"""

from __future__ import annotations

import dataclasses
import inspect
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench._result import Result
from workbench.errors import InputError
from workbench.orders.arithmetic.probes import FORMATS, Dots, Places, Prober
from workbench.orders.tree import ReductionTree

__all__ = ["Arithmetic", "Dots", "arithmetic"]

_BATCH_BYTES = 64 << 20
_NODES = 32  # nodes and leaves that are asked where one kind of arithmetic is expected in all


@dataclass(frozen=True)
class Arithmetic(Result):
    """The arithmetic of a sum whose order is known, as its results show it.

    Attributes:
        target, n, dtype: What was asked: name, terms, dtype of its inputs.
        fused: "separate": every product is rounded before it is added; "fused": in every node that
            has a leaf, one product is added unrounded (as fused multiply-adds do); "exact": all
            products are; "mixed"; "not probed" for a sum of terms; "unknown".
        fused_leaves: The terms whose product goes into its first addition unrounded.
        product: How a rounded product is rounded, e.g. "24 bits, nearest even"; "exact".
        rounding: How a sum is rounded (with 16-bit inputs: below the root): one of "nearest even",
            "nearest, ties away", "nearest, ties to zero", "toward zero", "up", "down", "to odd",
            "none" (the result is exact), "mixed", "unknown".
        input_bits: Significant bits of an input that arrive at the sum.
        sum_bits: Significant bits that a sum keeps for the next addition, ascending, as found at
            the nodes asked: (24,) where every addition rounds to fp32. () with fewer than three
            terms. With 16-bit inputs at most 27 can be told, which then stands for "more".
        subnormal_inputs, subnormal_products, subnormal_sums: "kept", "flushed", "mixed",
            "unknown", "not probed", or "cannot occur" in the dtype.
        empty: "+0" or "-0": the sum of terms that are all -0. "+0": an accumulator started at +0
            (or sums are rounded down and none did).
        raw: Bits that were seen, per question, e.g. {"empty": ["0x00000000"]}, most frequent first.
        probes, calls, seconds: Rows evaluated, calls they took, and time.
        evidence: Of the target.
    """

    target: str
    n: int
    dtype: str
    fused: str
    fused_leaves: tuple[int, ...]
    product: str
    rounding: str
    input_bits: int
    sum_bits: tuple[int, ...]
    subnormal_inputs: str
    subnormal_products: str
    subnormal_sums: str
    empty: str
    raw: dict[str, list[str]]
    probes: int
    calls: int
    seconds: float
    evidence: Any

    @property
    def mask(self) -> np.ndarray:
        """bool [n]: the terms whose product goes into its first addition unrounded."""
        mask = np.zeros(self.n, bool)
        mask[list(self.fused_leaves)] = True
        return mask

    @property
    def plain(self) -> bool:
        """Whether all that was seen is `tree.sum` of products rounded to fp32: separate products
        (or exact ones of 16-bit inputs), sums rounded to nearest even in fp32 every time, and
        subnormal numbers kept. (A sum of terms has no products to ask about.)

        It speaks of the nodes that were asked; one odd node among many is seen for sure with
        `nodes=None` only. And `empty` is apart: the sum of nothing but -0 may still be +0.
        """
        fp32 = self.dtype == "fp32"
        rounded = fp32 and self.product == "24 bits, nearest even" and self.fused == "separate"
        products = rounded or self.fused in ("not probed", "not probed" if fp32 else "exact")
        subnormal = (self.subnormal_inputs, self.subnormal_products, self.subnormal_sums)
        kept = not {"flushed", "mixed", "unknown"} & {*subnormal}
        sums = self.rounding == "nearest even" and self.sum_bits in ((24,), ())
        return products and sums and kept and self.input_bits >= FORMATS[self.dtype][0]

    def title(self) -> str:
        return f"arithmetic of {self.target}, n = {self.n}, {self.dtype}"

    def sentences(self) -> list[str]:
        """One sentence for each thing that was asked."""
        count = len(self.fused_leaves)
        products = {
            "separate": "Every product is rounded before it is added",
            "fused": f"{count} of {self.n} products go unrounded into their first addition, one in "
            "each node that has a leaf: fused multiply-adds",
            "exact": "No product is rounded before it is added",
            "mixed": f"{count} of {self.n} products go unrounded into their first addition",
            "not probed": "Nothing was asked about products: this is a sum of terms",
            "unknown": "What happens to products is not known: their sums fit no rule",
        }[self.fused]
        if self.dtype != "fp32" and self.fused == "exact":
            products += " (products of 16-bit inputs are exact in fp32, so fused or not is one)"
        bits = ", ".join(map(str, self.sum_bits)) or "not asked"
        return [
            f"{products}.",
            f"A rounded product: {self.product}.",
            f"A sum is rounded: {self.rounding}.",
            f"Bits that reach the sum: {self.input_bits}; that it keeps between additions: {bits}.",
            f"Subnormal numbers: inputs {self.subnormal_inputs}, products "
            f"{self.subnormal_products}, sums {self.subnormal_sums}.",
            f"All terms -0 give {self.empty}.",
        ]

    def rows(self) -> list[dict[str, Any]]:
        names = (
            *("fused", "product", "rounding", "input_bits", "sum_bits", "subnormal_inputs"),
            *("subnormal_products", "subnormal_sums", "empty", "probes", "calls", "seconds"),
        )
        return [{"what": name, "found": getattr(self, name)} for name in names]


def arithmetic(
    target: Any,
    n: int,
    *,
    tree: ReductionTree | None = None,
    dtype: str | None = None,
    nodes: int | None = _NODES,
    seed: int = 0,
    batch_bytes: int = _BATCH_BYTES,
    **options: Any,
) -> Arithmetic:
    """Probe the arithmetic of a sum or of a sum of products.

    Args:
        target: A function of two arguments (a float32 numpy [R, n], b [n]) -> [R], sums of
            products; one of one argument (terms [R, n]) -> [R]; a `Dots`; or whatever `reveal`
            takes (a kernel of `wb.build`, "torch.mv", …).
        n: Number of terms, at least 2.
        tree: The order in which the target adds, which a triple of terms for each inner node
            confirms; None: it is revealed first.
        dtype: "fp32", "bf16" or "fp16", of the inputs; None: the target's own, or fp32.
        nodes: At most so many nodes and leaves, drawn at random, where one answer is expected for
            all; None: every one. Whether a product is fused is asked for each term in any case.
        seed: Of that draw.
        batch_bytes: Largest input of one call, in bytes.
        options: Rows, columns and the like, for targets that `reveal` knows.

    Raises:
        InputError: n < 2, a tree of another size or order, or a target that is no callable.

    Example:
        >>> import numpy as np
        >>> def dot(a, b):
        ...     p = a * b
        ...     return (p[:, 0] + p[:, 1]) + p[:, 2]
        >>> found = arithmetic(dot, 3, tree=ReductionTree.from_nested([[0, 1], 2]))
        >>> found.fused, found.rounding, found.sum_bits, found.empty
        ('separate', 'nearest even', (24,), '-0')
    """
    start = time.perf_counter()
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
        raise InputError(f"n={n!r}; wanted a whole number of terms")
    n = int(n)
    if n < 2:
        raise InputError(f"got n={n}; arithmetic is seen where two terms meet, so give n >= 2")
    dots = _dots_of(target, n, dtype, options)
    given = tree is not None
    if tree is None:
        tree = _revealed(target, n, dtype, options)
    elif not isinstance(tree, ReductionTree):
        raise InputError(f"tree is a {type(tree).__name__}; wanted a ReductionTree, or None")
    if tree.leaves != n:
        raise InputError(f"the tree has {tree.leaves} terms and n={n}; give the tree for this n")
    if given:
        _confirm(dots, tree, batch_bytes, seed)
    ask = Prober(dots, Places(tree, nodes, seed), batch_bytes)
    input_bits = ask.input_bits()
    fused, fused_leaves, product = ask.products(input_bits)
    subnormals = ask.subnormals()
    return Arithmetic(
        target=dots.name,
        n=n,
        dtype=dots.dtype,
        fused=fused,
        fused_leaves=fused_leaves,
        product=product,
        rounding=ask.rounding(),
        input_bits=input_bits,
        sum_bits=ask.sum_bits(),
        subnormal_inputs=subnormals[0],
        subnormal_products=subnormals[1],
        subnormal_sums=subnormals[2],
        empty=ask.empty(),
        raw=ask.raw,
        probes=ask.probes,
        calls=ask.calls,
        seconds=time.perf_counter() - start,
        evidence=_evidence(dots),
    )


# ---- who is asked --------------------------------------------------------------------------------


def _dots_of(target: Any, n: int, dtype: str | None, options: dict[str, Any]) -> Dots:
    if isinstance(target, Dots):
        found = target
    elif _takes_two(target):
        name = getattr(target, "__name__", type(target).__name__)
        found = Dots(target, name, dtype or "fp32", source=target)
    else:
        from workbench.orders.reveal.targets import target_of

        asked = target_of(target, n, **_with(options, dtype))
        two = asked.operands == 2
        run = asked.sums if two else lambda a, b: asked.sums(a)
        found = Dots(run, asked.name, asked.dtype, two, source=asked)
    if found.dtype not in FORMATS or (dtype or found.dtype) != found.dtype:
        raise InputError(
            f"{found.name} takes {found.dtype} and dtype={dtype!r}; arithmetic is probed with "
            f"{', '.join(FORMATS)}, those of the target"
        )
    return found


def _takes_two(target: Any) -> bool:
    """Whether a plain callable wants two operands. Kernels and operators are no plain callables."""
    if not inspect.isroutine(target):
        return False
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # a builtin that does not say
        return False
    wanted = [
        p
        for p in parameters
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len(wanted) == 2


# B and a unit that is lost beside it in sums of up to 100 bits (fp16: of up to 28).
_TRIPLE = {"fp32": (2.0**100, 1.0), "bf16": (2.0**100, 1.0), "fp16": (2.0**15, 2.0**-14)}


def _confirm(dots: Dots, tree: ReductionTree, batch_bytes: int, seed: int) -> None:
    """Ask one triple for each inner edge, whatever the rounding; see `agrees_by_triples`.

    Of B, -B and a unit u the sum is u where B and -B meet first. Where u meets one of them first,
    the bits of u are rounded away, up or down. A sum of more bits gives u in any case.

    Raises:
        InputError: The target does not add in this order.
    """
    from workbench.orders.reveal.triples import OUTSIDE, distinguishing, in_words

    rng = np.random.default_rng([seed % 2**64, 1])
    triples, wanted = distinguishing(tree, rng)
    triples = rng.permutation(triples[wanted == OUTSIDE])
    big, unit = _TRIPLE[dots.dtype]
    ones = np.ones(tree.leaves, np.float32)
    step = max(1, batch_bytes // (4 * tree.leaves))
    for at in range(0, len(triples), step):
        part = triples[at : at + step]
        terms = np.zeros((len(part), tree.leaves), np.float32)
        np.put_along_axis(terms, part, np.array([[big, -big, unit]], np.float32), axis=1)
        sums = np.asarray(dots.run(terms, ones), np.float64).reshape(-1)
        bad = np.flatnonzero(sums != unit) if len(sums) == len(part) else [0]
        if len(bad):
            raise InputError(
                f"{dots.name} does not add in the order of this tree {tree.hash}: in it "
                f"{in_words(part[bad[0]], OUTSIDE)}, and of {big:g}, {-big:g} and {unit:g} there "
                f"the sum is {sums[bad[0]]:g}. Leave `tree` out: the order is then revealed"
            )


def _revealed(target: Any, n: int, dtype: str | None, options: dict[str, Any]) -> ReductionTree:
    from workbench.orders.reveal import reveal

    if isinstance(target, Dots) or _takes_two(target):
        run = target.run if isinstance(target, Dots) else target
        ones = np.ones(n, np.float32)
        return reveal(lambda terms: run(terms, ones), n, array="numpy", check=False)
    return reveal(target, n, check=False, **_with(options, dtype))


def _with(options: dict[str, Any], dtype: str | None) -> dict[str, Any]:
    return {**options, "dtype": dtype} if dtype else options


def _evidence(dots: Dots) -> Any:
    from workbench.evidence import evidence

    source = dots.source if dots.source is not None else dots.run
    fn = getattr(source, "fn", None) or source  # a Target holds what it asks
    made = evidence(fn)
    return dataclasses.replace(made, target=dots.name)
