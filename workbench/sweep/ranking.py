"""Configurations in the order of their modelled cost, and whether that order can be relied on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench._result import Result
from workbench.errors import InputError
from workbench.sweep.cost_model import Cost, cost, readable


@dataclass(frozen=True)
class Ranked(Result):
    """One configuration: its place from 1 on, and what could put it behind the next one.

    `shaky` names the assumed rates that would, if they were `factor` times larger or smaller.
    """

    place: int
    name: str
    seconds: float
    times_best: float
    limiting: str
    shaky: tuple[str, ...]


@dataclass(frozen=True)
class Ranking(Result):
    """Configurations, the fastest by the model first. `label` is that of the rates."""

    entries: tuple[Ranked, ...]
    factor: float
    label: str

    @property
    def sure(self) -> bool:
        """Whether no single assumed rate, `factor` times off, changes the order."""
        return not any(entry.shaky for entry in self.entries)

    def title(self) -> str:
        first = self.entries[0]
        rest = "whatever one assumed rate is" if self.sure else "but see 'shaky'"
        return (
            f"{first.name} first, {readable(first.seconds)}, {rest} within {self.factor:g}x "
            f"({self.label})"
        )

    def rows(self) -> list[dict[str, Any]]:
        return [{**e.to_dict(), "shaky": ", ".join(e.shaky) or "-"} for e in self.entries]


def rank(costs: Mapping[str, Cost], factor: float = 4.0) -> Ranking:
    """Order configurations by overlapped seconds, and test the order against what is assumed.

    Every rate tagged "assumed" is made `factor` times larger, then smaller, alone, for all
    configurations at once.

    Raises:
        InputError: Nothing to rank, rates that differ, or a factor that changes nothing.

    Example:
        >>> few, many = ({"gm_to_ub_bytes": 10**n, "copies": 1, "blocks": 48} for n in (6, 9))
        >>> found = rank({"many": cost(many, "dav-2201"), "few": cost(few, "dav-2201")})
        >>> [entry.name for entry in found.entries], found.sure
        (['few', 'many'], True)
    """
    if not costs:
        raise InputError("there is nothing to rank; give {name: cost(…)}")
    if not factor > 1:
        raise InputError(f"factor={factor!r}; want a number above 1")
    given = [c.rates for c in costs.values()]
    if any(r != given[0] for r in given):
        raise InputError("these costs have different rates; compute all with the same `rates`")
    order = sorted(costs, key=lambda name: costs[name].overlapped)
    shaky: dict[str, list[str]] = {name: [] for name in order}
    for rate in given[0].assumed:
        for by in (factor, 1 / factor):
            other = given[0].but({rate: given[0].table[rate].value * by})
            new = {name: cost(costs[name].work, rates=other).overlapped for name in order}
            for one, two in itertools.pairwise(order):
                if new[one] > new[two] and rate not in shaky[one]:
                    shaky[one].append(rate)
    best = costs[order[0]].overlapped
    return Ranking(
        tuple(
            Ranked(i + 1, n, costs[n].overlapped, costs[n].overlapped / best if best else 1.0,
                   costs[n].limiting, tuple(shaky[n]))
            for i, n in enumerate(order)
        ),
        factor,
        given[0].label,
    )  # fmt: skip
