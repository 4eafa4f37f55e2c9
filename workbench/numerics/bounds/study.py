"""The bounds against errors: many distributions, orders and dtypes, every output exact.

`python -m workbench.numerics.bounds.study` prints the tables that stand in docs/bounds.md.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.numerics.bounds.derive import Bounds, bounds
from workbench.numerics.bounds.parts import KINDS, fusable
from workbench.numerics.exact_sum import rounded_dot
from workbench.orders.declared import lm_head_order
from workbench.orders.dot import dot
from workbench.orders.standard import (
    pairwise_order,
    reduce_sum,
    reversed_order,
    sequential_order,
    split_k_order,
    warp_shuffle_order,
)
from workbench.orders.tree import Nested, ReductionTree

# Inputs' dtype, output's dtype, products fused into the first addition.
FORMATS = (
    (torch.float32, torch.float32, False),
    (torch.bfloat16, torch.float32, False),
    (torch.float16, torch.float32, False),
    (torch.float32, torch.bfloat16, False),
    (torch.bfloat16, torch.bfloat16, False),
    (torch.float32, torch.float32, True),
    (torch.float16, torch.float16, False),
)
WIDTHS = (1, 2, 7, 33, 64, 100, 256, 300, 577, 1000)
LONG = 64  # terms from which on the tables show how near an error comes to a bound

Pair = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class StudyCell(Result):
    """One draw in one order: N x V outputs, their errors against one call of `bounds`.

    Attributes:
        distribution, order: Keys of `DISTRIBUTIONS` and `ORDERS`.
        dtype, out_dtype, fused: Of the inputs, of the output; whether products were fused.
        n: Terms of a sum.
        outputs, unbounded: Number of outputs; of those without a bound (overflow is possible).
        ratio: {kind: the largest |error| / bound}.
        violations: {kind: outputs whose error is above the bound}.
        warned: Number of warnings of the call.
        errors, limits: |error| and the three bounds of the bounded outputs; not in the dict.
    """

    distribution: str
    order: str
    dtype: str
    out_dtype: str
    fused: bool
    n: int
    outputs: int
    unbounded: int
    ratio: dict[str, float]
    violations: dict[str, int]
    warned: int
    errors: np.ndarray = field(repr=False, compare=False, metadata={"json": False})
    limits: dict[str, np.ndarray] = field(repr=False, compare=False, metadata={"json": False})


@dataclass(frozen=True)
class BoundsStudy(Result):
    """What `bounds_study` found; the rows are grouped by distribution.

    Attributes:
        cells: One `StudyCell` for each draw.
        delta: Of the probabilistic bound, for each call (a call is a cell).
        seed: Of the draws.
    """

    cells: tuple[StudyCell, ...]
    delta: float
    seed: int

    @property
    def judged(self) -> int:
        """Outputs that have a bound."""
        return sum(c.outputs - c.unbounded for c in self.cells)

    def violations(self, kind: str) -> int:
        """Outputs above that bound, over all cells."""
        return sum(c.violations[kind] for c in self.cells)

    def calls(self, *, warned: bool) -> tuple[int, int]:
        """(calls with a violation of the probabilistic bound, calls), of those with or without a
        warning."""
        some = [c for c in self.cells if bool(c.warned) == warned and c.outputs > c.unbounded]
        return sum(c.violations["probabilistic"] > 0 for c in some), len(some)

    def by(self, key: str) -> list[dict[str, Any]]:
        """Rows grouped by "distribution", "order" or "dtypes".

        "… above" counts all outputs. "… ratio" is the largest |error| / bound of sums of 64 terms
        and more, and but for "dtypes" of fp32 outputs.
        """
        groups: dict[str, list[StudyCell]] = {}
        for cell in self.cells:
            groups.setdefault(_group(cell, key), []).append(cell)
        return [{key: name, **_summary(cells, key)} for name, cells in groups.items()]

    def rows(self) -> list[dict[str, Any]]:
        return self.by("distribution")

    def title(self) -> str:
        bad, calm = self.calls(warned=False)
        worse, warned = self.calls(warned=True)
        return (
            f"{self.judged} outputs with a bound in {len(self.cells)} calls: "
            f"{self.violations('worst_case')} above worst_case, {self.violations('running')} above "
            f"running; above probabilistic in {bad} of {calm} calls without a warning (delta = "
            f"{self.delta:g} a call) and in {worse} of {warned} calls with one"
        )


def _group(cell: StudyCell, key: str) -> str:
    if key == "dtypes":
        return f"{cell.dtype} -> {cell.out_dtype}{', fused' if cell.fused else ''}"
    if key not in ("distribution", "order"):
        raise InputError(f"there is no group {key!r}; give 'distribution', 'order' or 'dtypes'")
    return str(getattr(cell, key))


def _summary(cells: Sequence[StudyCell], key: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "calls": len(cells),
        "outputs": sum(c.outputs for c in cells),
        "without bound": sum(c.unbounded for c in cells),
    }
    # A sum of two terms, or one rounded to 16 bits, comes close to any good bound.
    wide = [c for c in cells if c.n >= LONG and (key == "dtypes" or c.out_dtype == "float32")]
    for kind in KINDS:
        row[f"{kind} above"] = sum(c.violations[kind] for c in cells)
    for kind in KINDS:
        row[f"{kind} ratio"] = max((c.ratio[kind] for c in wide), default=0.0)
    return row | {"calls warned": sum(c.warned > 0 for c in cells)}


# ---- orders --------------------------------------------------------------------------------------


def random_order(n: int, rng: np.random.Generator) -> ReductionTree:
    """Two nodes picked at random are added until one is left."""
    nodes: list[Nested] = list(range(n))
    while len(nodes) > 1:
        i, j = rng.choice(len(nodes), 2, replace=False).tolist()
        nodes[min(i, j)] = [nodes[i], nodes[j]]
        nodes[max(i, j)] = nodes[-1]
        nodes.pop()
    return ReductionTree.from_nested(nodes[0])


def fused_order(n: int, width: int = 4) -> ReductionTree:
    """An accumulator that takes `width` products at a time and rounds once for them.

    Example:
        >>> fused_order(5, 2).to_json()
        '[[[0,1],2,3],4]'
    """
    total: Nested | None = None
    for start in range(0, n, width):
        step: list[Nested] = list(range(start, min(start + width, n)))
        total = (step if len(step) > 1 else step[0]) if total is None else [total, *step]
    return ReductionTree.from_nested([] if total is None else total)


ORDERS: dict[str, Callable[[int, np.random.Generator], ReductionTree]] = {
    "sequential": lambda n, _: sequential_order(n),
    "reversed": lambda n, _: reversed_order(n),
    "pairwise": lambda n, _: pairwise_order(n),
    "method 1": lambda n, _: reduce_sum(n, 1),
    "method 1, tile 64": lambda n, _: lm_head_order(n, 64, None, 1),
    "method 2": lambda n, _: reduce_sum(n, 2),
    "method 3, tile 256": lambda n, _: lm_head_order(n, 256, None, 3),
    "split-K": lambda n, _: split_k_order(n),
    "warp shuffle": lambda n, _: warp_shuffle_order(n),
    "random tree": random_order,
    "fused nodes": lambda n, _: fused_order(n),
}


# ---- distributions -------------------------------------------------------------------------------


def _scaled(shape: Sequence[int], g: torch.Generator, low: int, high: int) -> torch.Tensor:
    """N(0, 1) times a power of two, 2^low to 2^high."""
    exponents = torch.randint(low, high + 1, tuple(shape), generator=g).double()
    return torch.randn(tuple(shape), generator=g) * torch.exp2(exponents)


def _both(draw: Callable[[Sequence[int], torch.Generator], torch.Tensor]) -> Callable[..., Pair]:
    return lambda rows, n, vocab, dtype, g: (draw((rows, n), g), draw((vocab, n), g))


def _normal(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    return torch.randn(tuple(shape), generator=g)


def _uniform(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    return torch.rand(tuple(shape), generator=g) * 2 - 1


def _one_signed(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    return torch.rand(tuple(shape), generator=g)


def _heavy(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    normal = torch.randn(tuple(shape), generator=g)
    return torch.exp(2.5 * torch.randn(tuple(shape), generator=g)) * normal.sign()


def _powers(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    return _scaled(shape, g, -6, 6).sign() * torch.exp2(
        torch.randint(-6, 7, tuple(shape), generator=g).float()
    )


def _sparse(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    keep = torch.rand(tuple(shape), generator=g) < 0.2
    return torch.randn(tuple(shape), generator=g) * keep


def _constant(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    return torch.full(tuple(shape), 0.1)


def _periodic(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    pattern = torch.tensor([0.1, 0.2, 0.3])
    return pattern.repeat(-(-shape[1] // 3))[: shape[1]].expand(*shape).clone()


def _integers(shape: Sequence[int], g: torch.Generator) -> torch.Tensor:
    return torch.randint(-8, 9, tuple(shape), generator=g).float()


def _cancelling(rows: int, n: int, vocab: int, dtype: torch.dtype, g: torch.Generator) -> Pair:
    """Every product has an opposite one somewhere, but for its last bits."""
    x, w = torch.randn(rows, n, generator=g), torch.randn(vocab, n, generator=g)
    place, half = torch.randperm(n, generator=g), n // 2
    one, other = place[:half], place[half : 2 * half]
    x[:, other] = x[:, one]
    w[:, other] = -w[:, one] * (1 + torch.finfo(dtype).eps)
    return x, w


def _large_first(rows: int, n: int, vocab: int, dtype: torch.dtype, g: torch.Generator) -> Pair:
    """One product is larger than all others by the digits of fp32 and goes again at the end."""
    x, w = torch.randn(rows, n, generator=g), torch.randn(vocab, n, generator=g)
    x[:, 0], x[:, -1] = 2.0**12, 2.0**12
    w[:, 0], w[:, -1] = 2.0**12, -(2.0**12)
    return x, w


def _subnormal(rows: int, n: int, vocab: int, dtype: torch.dtype, g: torch.Generator) -> Pair:
    """Products around the smallest subnormals of fp32; fp16 cannot go so low: its own ones."""
    low, high = (-24, -16) if dtype == torch.float16 else (-78, -66)
    return _scaled((rows, n), g, low, high), _scaled((vocab, n), g, low, high)


def _huge(rows: int, n: int, vocab: int, dtype: torch.dtype, g: torch.Generator) -> Pair:
    """Sums around the largest fp32 number (fp16: around 65504): some overflow, some do not."""
    top = 16 if dtype == torch.float16 else 127
    half = (top - math.log2(max(n, 1)) / 2) / 2
    x, w = torch.randn(rows, n, generator=g), torch.randn(vocab, n, generator=g)
    return x * 2.0 ** (half - 0.5), w * 2.0 ** (half - 0.5)


DISTRIBUTIONS: dict[str, Callable[[int, int, int, torch.dtype, torch.Generator], Pair]] = {
    "normal": _both(_normal),
    "uniform": _both(_uniform),
    "one-signed": _both(_one_signed),
    "heavy tail": _both(_heavy),
    "mixed exponents": _both(lambda shape, g: _scaled(shape, g, -8, 6)),
    "powers of two": _both(_powers),
    "small integers": _both(_integers),
    "sparse": _both(_sparse),
    "cancelling pairs": _cancelling,
    "large and back": _large_first,
    "subnormal products": _subnormal,
    "near overflow": _huge,
    "constants": _both(_constant),
    "short period": _both(_periodic),
}


# ---- the study -----------------------------------------------------------------------------------


def bounds_study(
    outputs: int = 700,
    seed: int = 0,
    delta: float = 1e-3,
    *,
    distributions: Iterable[str] | None = None,
    orders: Iterable[str] | None = None,
    formats: Sequence[tuple[torch.dtype, torch.dtype, bool]] = FORMATS,
    widths: Sequence[int] = WIDTHS,
    change: Callable[[ReductionTree], ReductionTree] | None = None,
) -> BoundsStudy:
    """Every distribution in every order, dtypes and widths taken in turn.

    Each error is that of the order executed in fp32 (`orders.dot.dot`) against the correctly
    rounded exact dot product. No bound takes part in either.

    Args:
        outputs: Outputs of one call; 5 hidden rows.
        seed: Of all draws.
        delta: Of the probabilistic bound.
        distributions, orders: Names, or None for all.
        formats: (dtype, out_dtype, fused) in turn.
        widths: Numbers of terms in turn.
        change: Gives the tree whose bounds are taken, instead of the one executed: a control.

    Example:
        >>> found = bounds_study(50, distributions=["normal"], orders=["pairwise"], widths=[64])
        >>> found.judged, found.violations("running")
        (50, 0)
    """
    cells = []
    rows = min(5, outputs)
    vocab = max(1, outputs // rows)
    names = list(orders or ORDERS)
    for k, distribution in enumerate(distributions or DISTRIBUTIONS):
        for j, order in enumerate(names):
            at = k * len(names) + j
            dtype, out_dtype, fused = formats[(at + k + seed) % len(formats)]
            n = widths[(at + 3 * k + seed) % len(widths)]
            g = torch.Generator().manual_seed(seed * 1_000_003 + at)
            x, w = DISTRIBUTIONS[distribution](rows, n, vocab, dtype, g)
            tree = ORDERS[order](n, np.random.default_rng([seed, at]))
            fused = fused and tree.arity <= 2
            x, w = x.to(dtype), w.to(dtype)
            found = bounds(
                change(tree) if change else tree, x, w, delta, out_dtype=out_dtype, fused=fused
            )
            error = errors_in(tree, x, w, out_dtype, fused)
            cells.append(_cell(distribution, order, fused, found, error))
    return BoundsStudy(tuple(cells), delta, seed)


def errors_in(
    tree: ReductionTree, x: torch.Tensor, w: torch.Tensor, out_dtype: torch.dtype, fused: bool
) -> np.ndarray:
    """Error of the fp32 sums in the order of `tree`, rounded to `out_dtype`: fp64 [N, V].

    Args:
        tree: The order.
        x, w: [N, H] and [V, H].
        fused: Whether products are fused as `fusable` says.
    """
    left, right = x.float().numpy(), w.float().numpy()
    sums = dot(tree, right, left, fusable(tree) if fused and tree.leaves > 1 else None).T
    got = torch.from_numpy(np.ascontiguousarray(sums)).to(out_dtype).double().numpy()
    exact = np.stack([rounded_dot(right, row) for row in left])
    with np.errstate(all="ignore"):
        return got - exact


def _cell(
    distribution: str, order: str, fused: bool, found: Bounds, error: np.ndarray
) -> StudyCell:
    judged = np.isfinite(found.running)
    return StudyCell(
        distribution=distribution,
        order=order,
        dtype=found.dtype,
        out_dtype=found.out_dtype,
        fused=fused,
        n=found.shape[1],
        outputs=error.size,
        unbounded=found.unbounded,
        ratio=found.ratio(error),
        violations=found.violations(error),
        warned=len(found.warnings),
        errors=np.abs(error[judged]),
        limits={kind: found.get(kind)[judged] for kind in KINDS},
    )


def markdown(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    head = list(rows[0])
    lines = [head, ["---"] * len(head)]
    lines += [[f"{v:.2f}" if isinstance(v, float) else str(v) for v in r.values()] for r in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m workbench.numerics.bounds.study")
    parser.add_argument("--outputs", type=int, default=700, help="outputs of one call")
    parser.add_argument("--seeds", type=int, default=1, help="repetitions")
    parser.add_argument("--delta", type=float, default=1e-3)
    given = parser.parse_args(argv)
    start = time.perf_counter()
    studies = [bounds_study(given.outputs, seed, given.delta) for seed in range(given.seeds)]
    study = BoundsStudy(tuple(c for s in studies for c in s.cells), given.delta, 0)
    print(study.title() + "\n")
    for key in ("distribution", "order", "dtypes"):
        print(markdown(study.by(key)) + "\n")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
