"""What a drift is: comparisons of candidates with references, and their errors seen by row, by
vocabulary id, pooled, counted, or one by one.

The values are kept, not the errors: an error is made where it is asked for, some rows at a time,
so that 59 x 151,936 outputs take little more than their logits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.evidence import Evidence, raw_bits
from workbench.numerics.drift.tables import DriftHistogram, ErrorTable, Pair
from workbench.numerics.exact import ExactCheck, rounded_to
from workbench.numerics.ulp import spacing

UNITS = {
    "abs": "units of the logits",
    "ulp": "ULP of Σ|x w|",
    "partial_ulp": "ULP of the largest partial sum",
    "peak": "the row's largest |logit|",
}
KERNEL_EXACT = ("kernel", "exact")

_BLOCK = 1 << 17  # outputs looked at at a time: their errors and units stay in the cache


@dataclass(frozen=True, eq=False)
class DriftValues:
    """The logits of all sides, and the sizes that errors are measured by.

    Attributes:
        sides: {"kernel": [N, V] of the output dtype, "exact": fp64 [N, V], …}.
        scale: fp64 [N, V], Σ|x w| (+ |bias|).
        largest: fp64 [N, V], the largest |product or partial sum| in the kernel's order; or None.
        peak: fp64 [N], the largest finite |exact logit| of each row.
        out_dtype: Whose ULP is meant.
    """

    sides: Mapping[str, torch.Tensor]
    scale: torch.Tensor
    largest: torch.Tensor | None
    peak: torch.Tensor
    out_dtype: torch.dtype

    def blocks(self) -> Iterator[slice]:
        """Rows, so many at a time that a block of fp64 stays small."""
        n, v = self.scale.shape
        step = max(1, _BLOCK // max(1, v))
        return (slice(start, min(n, start + step)) for start in range(0, n, step))

    def error(self, pair: Pair, rows: slice = slice(None)) -> np.ndarray:
        """Candidate - reference in fp64, [rows, V]."""
        got, wanted = (_doubles(self.sides[side][rows]) for side in pair)
        with np.errstate(invalid="ignore"):  # Inf - Inf
            return got - wanted

    def unit(self, name: str, rows: slice = slice(None)) -> np.ndarray | float:
        """What one unit is for each output: [rows, V], [rows, 1], or 1.0.

        Raises:
            InputError: There is no such unit, or it needs the tree that `drift` was not given.
        """
        if name == "abs":
            return 1.0
        if name == "ulp":
            return spacing(self.scale[rows].numpy(), self.out_dtype)
        if name == "peak":
            return self.peak[rows, None].numpy()
        if name not in UNITS:
            raise InputError(f"there is no unit {name!r}; units are {', '.join(UNITS)}")
        if self.largest is None:
            raise InputError(
                "errors in ULP of the largest partial sum need the order of the sum; call "
                "drift(…, tree=wb.declared_order(…))"
            )
        return spacing(self.largest[rows].numpy(), self.out_dtype)

    def in_unit(self, pair: Pair, name: str, rows: slice = slice(None)) -> np.ndarray:
        """Errors in a unit, fp64 [rows, V]. No error is 0 in any unit, even where a unit is 0."""
        error, unit = self.error(pair, rows), self.unit(name, rows)
        if name == "abs":
            return error
        with np.errstate(all="ignore"):
            return np.where(error == 0, 0.0, error / unit)

    def units(self) -> tuple[str, ...]:
        """The units that these values can be told in."""
        return tuple(u for u in UNITS if u != "partial_ulp" or self.largest is not None)


@dataclass(frozen=True)
class DriftComparison(Result):
    """One candidate against one reference, over all N x V outputs.

    Both sides are values of the output dtype, except "exact", which is fp64. NaN and Inf are not
    hidden: they are counted in `nonfinite` and pass into the aggregates, all but `max_finite`.

    Attributes:
        candidate, reference: "kernel", "exact" or the name of a reference.
        max_abs, mean_abs, rms: Of candidate - reference, in units of the logits.
        max_ulp: Largest |error| in ULP (of the output dtype) of the sum of |x w| of that output.
            The ULP of the result itself would mean nothing where terms cancel.
        max_partial_ulp: Likewise of the largest product or partial sum in the kernel's order; None
            where `drift` was given no tree.
        max_peak: Largest |error| over the largest |exact logit| of its row.
        max_finite: The largest |error| among those that are finite.
        differing: Outputs whose bits differ from the reference rounded to the output dtype.
        outputs: N x V.
        nonfinite: Outputs where the error is NaN or Inf.
        worst: `row`, `vocab_id`, `candidate`, `reference`, `error` at the largest |error|.
        values: What all this was computed from; not in the dict.
    """

    candidate: str
    reference: str
    max_abs: float
    mean_abs: float
    rms: float
    max_ulp: float
    max_partial_ulp: float | None
    max_peak: float
    max_finite: float
    differing: int
    outputs: int
    nonfinite: int
    worst: dict[str, Any]
    values: DriftValues = field(repr=False, compare=False, metadata={"json": False})

    @property
    def errors(self) -> np.ndarray:
        """Candidate - reference, fp64 [N, V], computed anew each time."""
        return self.errors_in("abs")

    def errors_in(self, unit: str = "ulp") -> np.ndarray:
        """Errors with their signs in one of `UNITS`: fp64 [N, V].

        Args:
            unit: "abs", "ulp" (of Σ|x w|), "partial_ulp" (of the largest partial sum; needs
                `tree=`), or "peak" (of the row's largest |logit|).

        Raises:
            InputError: No such unit, or no tree.
        """
        return self.values.in_unit((self.candidate, self.reference), unit)

    def rows(self) -> list[dict[str, Any]]:
        entry = self.to_dict()
        worst = entry.pop("worst")
        return [entry | {"worst_row": worst["row"], "worst_vocab_id": worst["vocab_id"]}]


@dataclass(frozen=True)
class DriftResult(Result):
    """What `drift` measured; `result["kernel", "exact"]` is one comparison.

    Attributes:
        comparisons: One `DriftComparison` for each pair that was asked for.
        shape: [N, H, V].
        dtype, out_dtype: Of the inputs and of the kernel's output.
        exact: How far "exact" itself may be off, and what a check of it found.
        evidence: Backend, architecture, configuration, inputs, versions.
        tree_hash: Of the order whose partial sums are used; None without.
    """

    comparisons: tuple[DriftComparison, ...]
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str
    exact: ExactCheck
    evidence: Evidence
    tree_hash: str | None = None

    def __getitem__(self, pair: Pair) -> DriftComparison:
        for comparison in self.comparisons:
            if (comparison.candidate, comparison.reference) == tuple(pair):
                return comparison
        known = ", ".join(f"{c.candidate!r} against {c.reference!r}" for c in self.comparisons)
        raise KeyError(f"{pair!r} was not compared; this result has {known}")

    def pairs(self) -> list[Pair]:
        """(candidate, reference) of every comparison."""
        return [(c.candidate, c.reference) for c in self.comparisons]

    def _known(self, pair: Pair) -> Pair:
        comparison = self[pair]
        return comparison.candidate, comparison.reference

    @property
    def values(self) -> DriftValues:
        """The logits of all sides, and the units."""
        return self.comparisons[0].values

    def rows(self) -> list[dict[str, Any]]:
        return [row for comparison in self.comparisons for row in comparison.rows()]

    def title(self) -> str:
        n, h, v = self.shape
        where = self.evidence.backend or self.evidence.target
        arch = f" {self.evidence.arch}" if self.evidence.arch else ""
        return f"Drift of {where}{arch} at {n} x {h} x {v}, {self.dtype} -> {self.out_dtype}"

    # ---------------------------------------------------------------- views

    def by_row(self, pair: Pair | None = None) -> ErrorTable:
        """Errors of each row of `hidden`: one table row for each of them and each pair.

        Args:
            pair: (candidate, reference), or None for all pairs.

        Example:
            >>> from workbench.numerics.drift.measure import drift
            >>> found = drift(torch.nn.functional.linear, torch.ones(2, 8), torch.ones(3, 8))
            >>> found.by_row(("kernel", "exact"))["max_abs"].tolist()
            [0.0, 0.0]
        """
        return self._table("row", pair, None)

    def by_vocab(self, pair: Pair | None = None, groups: int | None = None) -> ErrorTable:
        """Errors of each vocabulary id (row of `weight`), over all rows.

        Args:
            pair: (candidate, reference), or None for all pairs.
            groups: Put neighbouring ids together into at most so many groups, `vocab_id` to
                `last_id`; None: one id each.
        """
        return self._table("vocab_id", pair, groups)

    def _table(self, axis: str, pair: Pair | None, groups: int | None) -> ErrorTable:
        names = self.pairs() if pair is None else [self._known(pair)]
        parts = [self._aggregated(axis, name, groups) for name in names]
        columns = {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}
        what = "row" if axis == "row" else "vocabulary id"
        return ErrorTable(f"{self.title()}: errors of each {what}", columns, self.evidence)

    def _aggregated(self, axis: str, pair: Pair, groups: int | None) -> dict[str, np.ndarray]:
        n, _, v = self.shape
        length = n if axis == "row" else v
        size = 1 if groups is None else -(-length // max(1, groups))
        starts = np.arange(0, length, size)
        units = {"max_abs": "abs", "max_ulp": "ulp", "max_peak": "peak"}
        if "partial_ulp" in self.values.units():
            units["max_partial_ulp"] = "partial_ulp"
        peaks = {name: np.zeros(len(starts)) for name in units}
        sums = {name: np.zeros(len(starts)) for name in ("total", "squares", "signed")}
        counts = {name: np.zeros(len(starts), np.int64) for name in ("differing", "nonfinite")}

        def gather(kind: np.ufunc, block: np.ndarray, rows: slice) -> tuple[Any, np.ndarray]:
            if axis == "row":
                return rows, kind.reduce(block, axis=1)
            return slice(None), kind.reduceat(kind.reduce(block, axis=0), starts)

        with np.errstate(all="ignore"):
            for rows in self.values.blocks():
                for name, unit in units.items():
                    at, found = gather(np.maximum, abs(self.values.in_unit(pair, unit, rows)), rows)
                    peaks[name][at] = np.maximum(peaks[name][at], found)
                error = self.values.error(pair, rows)
                every = {"total": abs(error), "squares": error**2, "signed": error}
                for name, block in every.items():
                    at, found = gather(np.add, block, rows)
                    sums[name][at] += found
                flags = {
                    "differing": differing(self.values, pair, rows),
                    "nonfinite": ~np.isfinite(error),
                }
                for name, block in flags.items():
                    at, found = gather(np.add, block.astype(np.int64), rows)
                    counts[name][at] += found
            many = np.diff(np.append(starts, length)) * (v if axis == "row" else n)
            mean = {"mean_abs": sums["total"] / many, "rms": np.sqrt(sums["squares"] / many)}
            mean["mean"] = sums["signed"] / many
        head = {"candidate": pair[0], "reference": pair[1]}
        last = {} if groups is None else {"last_id": np.append(starts[1:], length) - 1}
        return {
            **{k: np.full(len(starts), name) for k, name in head.items()},
            axis: starts,
            **last,
            **peaks,
            **mean,
            **counts,
        }

    def worst(self, k: int = 10, pair: Pair = KERNEL_EXACT, unit: str = "abs") -> ErrorTable:
        """The k outputs with the largest errors in a unit, NaN and Inf first.

        Args:
            k: How many.
            pair: (candidate, reference).
            unit: One of "abs", "ulp", "partial_ulp", "peak".

        Example:
            >>> from workbench.numerics.drift.measure import drift
            >>> found = drift(torch.nn.functional.linear, torch.ones(2, 8), torch.ones(3, 8))
            >>> found.worst(2)["vocab_id"].tolist()
            [0, 1]
        """
        pair = self._known(pair)
        values, v = self.values, self.shape[2]
        size = np.empty(0)
        place = np.empty(0, np.int64)
        for rows in values.blocks():
            block = abs(values.in_unit(pair, unit, rows)).ravel()
            block = np.where(np.isnan(block), np.inf, block)
            top = largest_places(block, k)
            size = np.append(size, block[top])
            place = np.append(place, rows.start * v + top)
            keep = np.lexsort((place, -size))[:k]
            size, place = size[keep], place[keep]
        at = [divmod(p, v) for p in place.tolist()]
        got, wanted = (values.sides[side] for side in pair)
        columns: dict[str, list] = {"row": [r for r, _ in at], "vocab_id": [c for _, c in at]}
        columns[pair[0]] = [float(got[p]) for p in at]
        columns[pair[1]] = [float(wanted[p]) for p in at]
        columns["sum_abs"] = [float(values.scale[p]) for p in at]
        rows_of = {r: slice(r, r + 1) for r, _ in at}
        for name in values.units():
            found = {r: values.in_unit(pair, name, part)[0] for r, part in rows_of.items()}
            columns["error" if name == "abs" else name] = [float(found[r][c]) for r, c in at]
        where = f"the largest errors of {pair[0]} against {pair[1]}, in {UNITS[unit]}"
        return ErrorTable(f"{self.title()}: {where}", columns, self.evidence)

    def pooled(
        self,
        pair: Pair = KERNEL_EXACT,
        unit: str = "ulp",
        rows: int = 200,
        columns: int = 1000,
    ) -> np.ndarray:
        """The largest |error| in each cell of a grid over rows and vocabulary ids, for a picture.

        Args:
            pair, unit: As in `worst`.
            rows, columns: The most cells along each side.

        Returns:
            fp64 [min(N, rows), min(V, columns)], or a little smaller: neighbours share a cell where
            they must. NaN where an error in it is NaN.
        """
        pair = self._known(pair)
        n, _, v = self.shape
        tall, wide = -(-n // max(1, rows)), -(-v // max(1, columns))
        grid = np.zeros((-(-n // tall), -(-v // wide)))
        for part in self.values.blocks():
            block = abs(self.values.in_unit(pair, unit, part))
            block = np.maximum.reduceat(block, np.arange(0, v, wide), axis=1)
            for k, row in enumerate(block, start=part.start):
                grid[k // tall] = np.maximum(grid[k // tall], row)
        return grid

    def histogram(
        self, pairs: list[Pair] | None = None, unit: str = "ulp", bins: int = 81
    ) -> DriftHistogram:
        """Errors with their signs, counted on edges that all pairs share.

        Args:
            pairs: Which comparisons; None: every candidate against "exact".
            unit: One of "abs", "ulp", "partial_ulp", "peak".
            bins: How many; an odd number has a bin about 0.
        """
        if pairs is None:
            pairs = [p for p in self.pairs() if p[1] == "exact"] or self.pairs()
        pairs = [self._known(p) for p in pairs]
        reach = 0.0
        for pair in pairs:
            for rows in self.values.blocks():
                block = abs(self.values.in_unit(pair, unit, rows))
                reach = max(reach, float(block[np.isfinite(block)].max(initial=0)))
        edges = np.linspace(-reach, reach, bins + 1) if reach else np.linspace(-1, 1, bins + 1)
        counts = {pair: np.zeros(bins, np.int64) for pair in pairs}
        exactly, broken = dict.fromkeys(pairs, 0), dict.fromkeys(pairs, 0)
        for pair in pairs:
            for rows in self.values.blocks():
                block = self.values.in_unit(pair, unit, rows)
                finite = block[np.isfinite(block)]
                counts[pair] += np.histogram(finite, edges)[0]
                exactly[pair] += int((finite == 0).sum())
                broken[pair] += block.size - finite.size
        return DriftHistogram(
            unit, edges, counts, exactly, broken, self.shape, self.dtype, self.out_dtype,
            self.evidence,
        )  # fmt: skip


def _doubles(values: torch.Tensor) -> np.ndarray:
    # numpy, since torch would spread each pass over a block on threads that wait for each other
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy().astype(float)


def differing(values: DriftValues, pair: Pair, rows: slice) -> np.ndarray:
    """Which outputs have other bits than the reference rounded to the candidate's dtype."""
    got, wanted = (values.sides[side][rows] for side in pair)
    if torch.bfloat16 in (got.dtype, wanted.dtype):
        wanted = rounded_to(wanted, got.dtype)
    else:
        with np.errstate(all="ignore"):
            wanted = torch.from_numpy(wanted.numpy().astype(got.numpy().dtype))
    return raw_bits(wanted).numpy() != raw_bits(got).numpy()


def largest_places(values: np.ndarray, k: int) -> np.ndarray:
    """Where the k largest values are; of equal ones the first. In no order."""
    if k >= len(values):
        return np.arange(len(values))
    if k < 1:
        return np.arange(0)
    least = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > least)
    return np.append(above, np.flatnonzero(values == least)[: k - len(above)])
