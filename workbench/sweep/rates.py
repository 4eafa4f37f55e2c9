"""How fast an architecture is taken to be: `workbench/data/rates.json`, each value with its source.

Nothing in it was measured by this project. Rates fitted to runs of a device are made by
`workbench.sweep.calibration`.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench import paths
from workbench._result import Result, text_table
from workbench.build import arch as archs
from workbench.errors import InputError

TAGS = ("documented", "reported", "derived", "assumed", "given", "fitted")
_SOURCED = ("documented", "reported", "derived")
MODEL = "model, not calibrated"


@dataclass(frozen=True)
class Rate(Result):
    """One rate.

    Attributes:
        name, value, unit: E.g. "gm_bytes_per_second", 1.8e12, what one of it is.
        tag: "documented" (a page of the vendor), "reported" (another public page), "derived" (from
            such figures), "assumed" (nobody says), "given" (by the caller), "fitted" (calibrated).
        source: Address of the page; empty for the last three tags.
        why: What the page says, or the reason for the value.
    """

    name: str
    value: float
    unit: str
    tag: str
    source: str = ""
    why: str = ""

    def __post_init__(self) -> None:
        if self.tag not in TAGS:
            raise InputError(f"{self.name}: tag {self.tag!r}; give one of {', '.join(TAGS)}")
        if self.tag in _SOURCED and not self.source.startswith("https://"):
            raise InputError(f"{self.name} is {self.tag} without a source; give its address")
        if not self.why:
            raise InputError(f"{self.name} is {self.tag} without a reason; say why")
        number = isinstance(self.value, (int, float)) and not isinstance(self.value, bool)
        divides = self.name.endswith("per_second") or self.name == "clock_hz"
        if not (number and math.isfinite(self.value) and self.value >= 0):
            raise InputError(f"{self.name}={self.value!r}; want a finite number, 0 or more")
        if divides and not self.value:
            raise InputError(f"{self.name}=0; want a number above 0, or nothing would ever move")


@dataclass(frozen=True)
class Rates(Result):
    """The rates of one architecture.

    Attributes:
        arch: E.g. "dav-2201".
        cores: Vector cores that run blocks at the same time.
        table: {name: Rate}; `rates.gm_bytes_per_second` is the value of one.
        calibration: What they were fitted to (`workbench.sweep.calibration.Calibration`), or None.
    """

    arch: str
    cores: int
    table: Mapping[str, Rate]
    calibration: Any = field(default=None, metadata={"json": False})

    def __getattr__(self, name: str) -> float:
        # Also asked for while an instance is being copied, before it has a table.
        table = self.__dict__.get("table", {})
        if name in table:
            return table[name].value
        raise AttributeError(name)

    @property
    def label(self) -> str:
        """What every figure made with these rates is called."""
        if self.calibration is None:
            return MODEL
        return f"model, calibrated on {self.calibration.label}"

    @property
    def assumed(self) -> tuple[str, ...]:
        """Names of the rates that nobody documents."""
        return tuple(name for name, rate in self.table.items() if rate.tag == "assumed")

    def tag(self, name: str) -> str:
        """What the seconds of a rate rest on: cycles rest on the clock too. (Fitted cycles do not:
        it was their seconds that were fitted.)"""
        own = self.table[name].tag
        cycles = not name.endswith(("per_second", "_seconds"))
        return "assumed" if cycles and own != "fitted" and "clock_hz" in self.assumed else own

    def seconds(self, name: str) -> float:
        """Seconds for one unit of a rate: a byte, a copy, a repeat, a launch, …"""
        value = self.table[name].value
        if name.endswith("per_second"):
            return 1 / value
        return value if name.endswith("_seconds") else value / self.clock_hz

    def but(self, values: Mapping[str, float] | None = None, *, cores: int | None = None) -> Rates:
        """The same with other values, tagged "given", and so not calibrated any more.

        Raises:
            InputError: A rate that there is not, or no possible value.

        Example:
            >>> rates("dav-2201").but({"gm_bytes_per_second": 1.2e12}, cores=40).cores
            40
        """
        given = values or {}
        unknown = given.keys() - self.table.keys()
        if unknown:
            raise InputError(f"no rate {', '.join(sorted(unknown))}; give {', '.join(self.table)}")
        new = {
            name: Rate(name, value, self.table[name].unit, "given", "", "given by the caller")
            for name, value in given.items()
        }
        return Rates(
            self.arch, _cores(self.cores if cores is None else cores), {**self.table, **new}
        )

    def __str__(self) -> str:
        rows = [
            {k: v for k, v in row.items() if k in ("name", "value", "unit", "tag")}
            for row in self.rows()
        ]
        return f"{self.title()}\n{text_table(rows)}"

    def title(self) -> str:
        return f"Rates of {self.arch}, {self.cores} vector cores ({self.label})"

    def rows(self) -> list[dict[str, Any]]:
        return [
            {k: getattr(r, k) for k in ("name", "value", "unit", "tag", "why", "source")}
            for r in self.table.values()
        ]

    def to_dict(self) -> dict[str, Any]:
        return {"arch": self.arch, "cores": self.cores, "label": self.label, "rates": self.rows()}


@functools.cache
def _data() -> dict[str, Any]:
    return json.loads((paths.DATA / "rates.json").read_text("utf-8"))


def rates(arch: str = "dav-2201", cores: int | None = None) -> Rates:
    """The rates of an architecture as public pages give them, and as we assume them.

    Args:
        arch: A name from `workbench.build.arch.names()`.
        cores: Vector cores of your device; None: the most that one of the architecture has.

    Raises:
        ConfigError: No architecture has that name.
        InputError: No possible number of cores.

    Example:
        >>> found = rates("dav-2201")
        >>> found.cores, found.table["gm_bytes_per_second"].tag, found.label
        (48, 'documented', 'model, not calibrated')
    """
    known = archs.load(arch)
    return parse(_data(), arch, _cores(max(known.vector_cores) if cores is None else cores))


def _cores(given: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InputError(f"cores={given!r}; want a whole number from 1")
    return given


def parse(data: Mapping[str, Any], arch: str, cores: int) -> Rates:
    """The rates of `arch` from data in the form of rates.json.

    Raises:
        InputError: A rate is missing, or has neither a source nor the tag "assumed".
    """
    units = data["units"]
    entries = {**data["common"], **data["archs"][arch]}
    if entries.keys() != units.keys():
        wrong = sorted(entries.keys() ^ units.keys())
        raise InputError(f"rates of {arch}: {', '.join(wrong)} is missing or unknown")
    return Rates(arch, cores, {n: Rate(n, unit=u, **entries[n]) for n, u in units.items()})
