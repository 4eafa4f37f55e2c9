"""How the counters of a kernel grow with N, H and V: exact laws, found by counting on the twin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from workbench._result import Result
from workbench.errors import InputError

AXES = ("N", "H", "V")


@dataclass(frozen=True)
class Law(Result):
    """How one counter grows along one axis, exactly.

    Attributes:
        axis, counter: E.g. "V", "gm_to_ub_bytes".
        sizes, counts: What was counted.
        slope: More counts for one more of the axis; None if the points are not on one line.
        fixed: The line at 0. With `fixed` 0 the counter is proportional to the axis.
    """

    axis: str
    counter: str
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    slope: Fraction | None
    fixed: Fraction | None

    @property
    def kind(self) -> str:
        """ "constant", "proportional", "affine" or "other"."""
        if self.slope is None:
            return "other"
        return "constant" if not self.slope else "affine" if self.fixed else "proportional"

    def __str__(self) -> str:
        if self.slope is None:
            return f"{self.counter}: not a line in {self.axis}"
        parts = [f"{self.slope} {self.axis}"] if self.slope else []
        parts += [str(self.fixed)] if self.fixed or not parts else []
        return f"{self.counter} = {' + '.join(parts)}"


@dataclass(frozen=True)
class Growth(Result):
    """The laws of all counters along all axes, from `base`, the shape (N, H, V)."""

    base: tuple[int, int, int]
    laws: tuple[Law, ...]

    def law(self, axis: str, counter: str) -> Law:
        """One of them.

        Raises:
            InputError: There is none of that axis and counter.
        """
        for law in self.laws:
            if (law.axis, law.counter) == (axis, counter):
                return law
        raise InputError(f"no law of {counter!r} along {axis!r}")

    def title(self) -> str:
        return f"Counters from N, H, V = {self.base} (exact, counted on the twin)"

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"axis": law.axis, "counter": law.counter, "kind": law.kind, "law": str(law)}
            for law in self.laws
        ]


def growth(
    count: Callable[[int, int, int], Mapping[str, int]],
    base: tuple[int, int, int],
    factors: Sequence[int] = (1, 2, 3),
) -> Growth:
    """Count at `factors` times each size of `base`, one axis at a time.

    Args:
        count: (N, H, V) -> counters of a launch of that shape.
        base: The shape to start from.
        factors: At least three, different: two points are always on a line.

    Raises:
        InputError: Fewer than three factors.

    Example:
        >>> found = growth(lambda n, h, v: {"bytes": 8 * n * h * v, "waits": 5 + n}, (2, 4, 8))
        >>> print(found.law("V", "bytes"), "|", found.law("N", "waits"))
        bytes = 64 V | waits = 1 N + 5
    """
    steps = sorted(set(factors))
    if len(steps) < 3 or steps[0] < 1:
        raise InputError(f"factors={list(factors)}: give at least three different ones from 1 on")
    laws = []
    known: dict[tuple[int, ...], Mapping[str, int]] = {}
    for place, axis in enumerate(AXES):
        shapes = [tuple(s * f if k == place else s for k, s in enumerate(base)) for f in steps]
        for shape in shapes:
            if shape not in known:
                known[shape] = dict(count(*shape))
        sizes = tuple(shape[place] for shape in shapes)
        for counter in known[shapes[0]]:
            counts = tuple(known[shape][counter] for shape in shapes)
            laws.append(Law(axis, counter, sizes, counts, *_line(sizes, counts)))
    return Growth(base, tuple(laws))


def _line(
    sizes: Sequence[int], counts: Sequence[int]
) -> tuple[Fraction, Fraction] | tuple[None, None]:
    """(slope, value at 0) of the line through all points, in whole-number arithmetic."""
    slope = Fraction(counts[1] - counts[0], sizes[1] - sizes[0])
    fixed = counts[0] - slope * sizes[0]
    if all(fixed + slope * s == c for s, c in zip(sizes, counts, strict=True)):
        return slope, fixed
    return None, None
