"""Outputs prepared so that a pair (atol, rtol) costs a few passes over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from workbench._result import Result, html_table
from workbench.errors import InputError
from workbench.numerics.bounds.linear_logp import TINY, U
from workbench.numerics.tolerance.subject import Subject

_LARGEST = float(np.finfo(np.float32).max)
_SAMPLE = 4096  # values that a median is looked for with
_BLOCK = 1 << 15  # outputs in work at a time: they stay in the processor's cache

FAR = 10.0  # a rule that allows more than this many bounds is far above
STEPS_A_DECADE = 4  # of a grid's axes


@dataclass(frozen=True)
class Flagged(Result):
    """One pair (atol, rtol), and what it does.

    "Allowed" is atol + rtol |reference| in fp32, as the contract's pass rule computes it. The
    looseness of an output is allowed / bound.

    Attributes:
        atol, rtol: The pair.
        kind: The bound it is compared with.
        outputs: How many there are.
        count: Outputs of the candidate that are flagged; NaN and Inf are.
        share: count / outputs.
        worst_ratio: Largest |error| / allowed; NaN where an error is.
        worst: `row`, `column`, `candidate`, `reference` and `bound` of that output.
        looseness_min, looseness_median, looseness_max: Over the outputs (the median is one of
            them: the lower of two).
        below: Outputs where less than the bound is allowed: a correct kernel may be flagged.
        far: Outputs where more than FAR bounds are allowed: a fault may hide.
        false_alarms: Flagged outputs whose error is within the bound; where there is no bound
            (Inf), it is neither within nor beyond.
        missed: Outputs that pass though their error is beyond the bound.
    """

    atol: float
    rtol: float
    kind: str
    outputs: int
    count: int
    share: float
    worst_ratio: float
    worst: dict[str, Any]
    looseness_min: float
    looseness_median: float
    looseness_max: float
    below: int
    far: int
    false_alarms: int
    missed: int

    def title(self) -> str:
        return (
            f"atol {self.atol:g}, rtol {self.rtol:g}: {self.count:,} of {self.outputs:,} outputs "
            "flagged"
        )

    def rows(self) -> list[dict[str, Any]]:
        entry = self.to_dict()
        worst = entry.pop("worst")
        return [entry | {"worst_row": worst["row"], "worst_column": worst["column"]}]

    def _repr_html_(self) -> str:
        """For a reader: what the pair does, in words."""
        bound = f"{self.kind.replace('_', '-')} bound"
        loose = (self.looseness_min, self.looseness_median, self.looseness_max)
        at = f"in row {self.worst['row']}, column {self.worst['column']}"
        told = {
            "largest |error|, of what is allowed there": f"{self.worst_ratio:.3g}, {at}",
            f"allowed, in {bound}s: least, median, most": ", ".join(f"{x:.3g}" for x in loose),
            f"outputs allowed less than one {bound}: a correct kernel may be flagged": self.below,
            f"outputs allowed more than {FAR:g}: a fault may hide": self.far,
            "flagged though the error is within the bound": self.false_alarms,
            "passed though the error is beyond the bound": self.missed,
        }
        rows = [{"what": k, "found": f"{v:,}" if isinstance(v, int) else v}
                for k, v in told.items()]  # fmt: skip
        return html_table(rows, self.title())


def check_pair(atol: float, rtol: float) -> None:
    for name, value in (("atol", atol), ("rtol", rtol)):
        # Comparisons are false for NaN.
        if not (isinstance(value, (int, float, np.floating)) and 0 <= value <= _LARGEST):
            raise InputError(f"{name}={value!r}: want a finite number from 0, in the range of fp32")


def lower_median(values: np.ndarray) -> float:
    """The median, of an even number the lower one: NaN if there is a NaN or nothing.

    A sample says about where it is, so that only a small part has to be put in order.
    """
    k = (len(values) - 1) // 2
    if k < 0 or math.isnan(values.max()):  # (numpy's maximum is NaN where there is one)
        return math.nan
    some = np.sort(values[:: max(1, len(values) // _SAMPLE)])
    centre, reach = k * len(some) // len(values), 2 * math.isqrt(len(some))
    low = some[max(0, centre - reach)]
    high = some[min(len(some) - 1, centre + reach)]
    less = int(np.count_nonzero(values < low))
    part = values[(low <= values) & (values <= high)]
    if not 0 <= k - less < len(part):  # the sample was not like the rest
        part, less = values, 0
    return float(np.partition(part, k - less)[k - less])


@dataclass(frozen=True, eq=False)
class _Part:
    """One kind of bound, all flat over the outputs."""

    bound: torch.Tensor  # fp64
    least: np.ndarray  # fp32, the smallest number that is not below the bound
    within: np.ndarray  # bool, |error| <= bound, where there is a bound
    beyond: np.ndarray  # bool, the opposite, where there is a bound
    judged: torch.Tensor | None  # indices with a looseness; None: all
    rivals: tuple[np.ndarray, np.ndarray]  # bound and |reference| of those that decide an atol


class Scale:
    """Errors and bounds of all outputs, kept so that a pair costs a few passes over them.

    Attributes:
        size: fp32 [M], |candidate - reference| as the pass rule computes it.
        error: fp64 [M], the same without rounding.
        magnitude: fp32 [M], |reference|.
        parts: {kind: bound and what follows from it}.
    """

    def __init__(self, found: Subject) -> None:
        got, reference = found.got.float().flatten(), found.reference.flatten()
        self.got, self.reference, self.columns = got, reference, found.got.shape[1]
        self.size = (got - reference).abs()
        self.error = (got.double() - reference.double()).abs()
        self.magnitude = reference.abs()
        self.parts = {kind: self._part(bound.flatten()) for kind, bound in found.bounds.items()}

    def _part(self, bound: torch.Tensor) -> _Part:
        judged = (torch.isfinite(self.reference) & (bound > 0)).nonzero().flatten()
        r = self.magnitude[judged].double().numpy()
        b = bound[judged].numpy()
        # With another output of no larger |reference| and no smaller bound, an output decides
        # nothing: so few are left that a frontier costs no time.
        order = np.lexsort((-b, r))
        high = np.maximum.accumulate(np.concatenate([[0.0], b[order]]))
        kept = order[b[order] > high[:-1]]
        bounded = bound < torch.inf  # elsewhere nothing is promised, so nothing can break it
        within = self.error <= bound
        least = bound.float().numpy()
        with np.errstate(over="ignore"):
            up = np.nextafter(least, np.float32(np.inf))
        return _Part(
            bound=bound,
            least=np.where(least < bound.numpy(), up, least),
            within=(within & bounded).numpy(),
            beyond=(~within & bounded).numpy(),
            judged=None if len(judged) == len(bound) else judged,
            rivals=(b[kept], r[kept]),
        )

    def part(self, kind: str) -> _Part:
        if kind not in self.parts:
            known = ", ".join(self.parts)
            raise InputError(f"bound {kind!r}: of these outputs there are {known}")
        return self.parts[kind]

    def allowed(self, atol: float, rtol: float) -> torch.Tensor:
        """fp32, as `contract().judge` computes it."""
        return atol + rtol * self.magnitude

    def looseness(self, atol: float, rtol: float, kind: str) -> torch.Tensor:
        """allowed / bound, fp64, of the outputs that have a bound other than 0 and a reference."""
        allowed, part = self.allowed(atol, rtol), self.part(kind)
        if part.judged is None:
            return allowed / part.bound
        return allowed[part.judged] / part.bound[part.judged]

    def at(self, atol: float, rtol: float, kind: str) -> Flagged:
        check_pair(atol, rtol)
        part = self.part(kind)
        m = len(self.size)
        # numpy and blocks: torch's threads wait for each other longer than the work takes.
        size, magnitude, bound = self.size.numpy(), self.magnitude.numpy(), part.bound.numpy()
        relative, absolute = np.float32(rtol), np.float32(atol)
        loose = np.empty(m)
        count = below = alarms = missed = 0
        worst, place = -1.0, 0
        with np.errstate(all="ignore"):
            for start in range(0, m, _BLOCK):
                block = slice(start, start + _BLOCK)
                some = size[block]
                allowed = magnitude[block] * relative  # as `allowed` above
                allowed += absolute
                outside = ~(some <= allowed)  # a NaN counts as outside
                count += int(np.count_nonzero(outside))
                alarms += int(np.count_nonzero(outside & part.within[block]))
                missed += int(np.count_nonzero(part.beyond[block] & ~outside))
                # The rule allows fp32 numbers. (What a reference of Inf allows may be NaN, which
                # allows nothing.)
                below += len(some) - int(np.count_nonzero(allowed >= part.least[block]))
                np.divide(allowed, bound[block], out=loose[block])
                ratios = some / allowed
                at = int(ratios.argmax())  # the first NaN if there is one
                if math.isnan(ratios[at]):
                    ratios[some == 0] = 0  # no error needs no allowance
                    at = int(ratios.argmax())
                top = float(ratios[at])
                if not (math.isnan(worst) or top <= worst):
                    worst, place = top, start + at
            if part.judged is not None:
                loose = loose[part.judged.numpy()]
            none = math.nan
            return Flagged(
                atol=float(atol),
                rtol=float(rtol),
                kind=kind,
                outputs=m,
                count=count,
                share=count / m,
                worst_ratio=worst,
                worst={
                    "row": place // self.columns,
                    "column": place % self.columns,
                    "candidate": float(self.got[place]),
                    "reference": float(self.reference[place]),
                    "bound": float(bound[place]),
                },
                looseness_min=float(loose.min()) if len(loose) else none,
                looseness_median=lower_median(loose),
                looseness_max=float(loose.max()) if len(loose) else none,
                below=below,
                far=int(np.count_nonzero(loose > FAR)),
                false_alarms=alarms,
                missed=missed,
            )

    def smallest_atol(self, rtol: float, kind: str) -> float:
        check_pair(0.0, rtol)
        bound, magnitude = self.part(kind).rivals
        if not len(bound):
            return 0.0
        # The rule rounds four times in fp32 (the difference, the product, the sum, and rtol and
        # atol when they are read): 4 u of the bound pay for it, and rtol counts as it is read.
        needed = bound * (1 + 4 * U) - float(np.float32(rtol)) * magnitude
        most = float(needed.max())
        return (most + TINY) * (1 + 2 * U) if most > 0 else 0.0

    def counts(self, atols: Sequence[float], rtol: float) -> list[int]:
        """Flagged outputs for ascending atols: what passes once, passes from then on."""
        size, relative = self.size, rtol * self.magnitude
        found = []
        for atol in atols:
            outside = ~(size <= atol + relative)
            size, relative = size[outside], relative[outside]
            found.append(len(size))
        return found

    def axis(self, atols: Sequence[float]) -> tuple[float, ...]:
        """Powers of ten and what is between, around the errors, the bounds and `atols`."""
        errors = self.size[torch.isfinite(self.size) & (self.size > 0)]
        ends = [float(p.rivals[0].max()) for p in self.parts.values() if len(p.rivals[0])]
        if len(errors):
            ends += [float(errors.median()), float(errors.max())]
        logs = [math.log10(end) for end in (*ends, *atols) if 0 < end < math.inf] or [0.0]
        first, last = math.floor(min(logs) - 0.5), math.ceil(max(logs) + 0.1)
        steps = range(first * STEPS_A_DECADE, last * STEPS_A_DECADE + 1)
        return tuple(10.0 ** (k / STEPS_A_DECADE) for k in steps)
