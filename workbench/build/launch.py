"""What a launch on the twin is asked to watch, and what it reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result
from workbench.build import api
from workbench.errors import InputError

# Families of checks, and the bit each has in the launch (csrc/ascend/kernel_table.h).
CHECKS = {"mem": 1, "init": 2, "race": 4, "sync": 8}
COUNTERS = 16


def check_names(check: bool | str | Iterable[str] | None) -> list[str]:
    """The checks named, in the order of CHECKS.

    Args:
        check: True or "all" for all of them, False or None for none, or names of CHECKS, as a
            list or joined by commas.

    Raises:
        InputError: A name that is not one of CHECKS.

    Example:
        >>> check_names("race, mem"), check_names(True), check_names(None)
        (['mem', 'race'], ['mem', 'init', 'race', 'sync'], [])
    """
    if check is None or isinstance(check, bool):
        return [*CHECKS] if check else []
    names = [n.strip() for n in check.split(",")] if isinstance(check, str) else list(check)
    unknown = [n for n in names if n not in CHECKS and n != "all"]
    if unknown:
        raise InputError(
            f"check {', '.join(map(repr, unknown))}: there are {', '.join(CHECKS)}, and all"
        )
    return [name for name in CHECKS if name in names or "all" in names]


def check_bits(check: bool | str | Iterable[str] | None) -> int:
    """The bits of the checks named, as `check_names` reads them.

    Example:
        >>> check_bits("mem,race"), check_bits(True)
        (5, 15)
    """
    return sum(CHECKS[name] for name in check_names(check))


def fidelity_tags(used: Iterable[int], arch: str) -> dict[str, str]:
    """{instruction: fidelity tag on `arch`} for the numbers of instructions that a launch used."""
    ops = api.ops()
    return {ops[n].name: ops[n].fidelity_of(arch) for n in used}


def weakest(tags: Iterable[str]) -> str:
    """The weakest of these fidelity tags: approximate, then assumed, then exact.

    Example:
        >>> weakest(["exact", "approximate", "assumed"])
        'approximate'
    """
    return max(tags, key=api.FIDELITIES.index, default="exact")


@dataclass(frozen=True)
class LaunchReport(Result):
    """What the twin reports of one launch.

    Attributes:
        kernel: Name of the kernel, with its backend and architecture in `backend` and `arch`.
        blocks: How many blocks the launch had.
        ub_bytes: Bytes of UB the hungriest block had reserved.
        checks: Which checks it ran under.
        switches: What was chosen otherwise than the architecture's default.
        perturb: Seed of the change by one ulp of approximate results; 0: none.
        fidelity: The weakest fidelity tag among the instructions executed.
        instructions: {instruction: its fidelity tag} for each one executed.
        counters: Totals of the launch, if it counted (bytes from GM to UB and back, instructions,
            …); else {}.
        lines: One dict per source line with `file`, `line` and the same counters.
    """

    kernel: str
    backend: str
    arch: str
    blocks: int
    ub_bytes: int
    checks: list[str] = field(default_factory=list)
    switches: dict[str, str] = field(default_factory=dict)
    perturb: int = 0
    fidelity: str = "not stated"
    instructions: dict[str, str] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def title(self) -> str:
        return f"{self.kernel}, {self.blocks} blocks on {self.backend}, {self.arch}"

    def rows(self) -> list[dict[str, Any]]:
        if self.lines:
            return self.lines
        shown = {**self.to_dict(), **self.counters}
        for name in ("counters", "lines", "instructions"):
            shown.pop(name)
        return [{"what": k, "value": v} for k, v in shown.items()]
