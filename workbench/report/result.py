"""What a report holds: notebooks, their claims, and the assertions that carry each claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
NOT_REACHED = "not reached"  # the notebook failed or ended before it
NOT_ASSERTED = "not asserted"  # its cell ran to the end and no assertion in it was evaluated


@dataclass
class Assertion(Result):
    """One `assert` of a notebook."""

    source: str
    cell: int  # counted from 1, among all cells
    line: int  # of that cell, counted from 1
    last_line: int = field(metadata={"json": False})
    status: str = NOT_RUN


@dataclass
class Claim(Result):
    """A heading, and the assertions between it and the next heading."""

    heading: str
    assertions: list[Assertion]
    status: str = NOT_RUN
    seconds: float | None = None  # of its cells
    message: str | None = None
    anchor: str | None = None  # the heading's id in the notebook's page

    @property
    def passed(self) -> bool:
        return self.status == PASSED

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "passed": self.passed}


@dataclass
class NotebookRun(Result):
    """The verdict on one notebook."""

    name: str
    heading: str
    claim: str
    status: str = NOT_RUN
    seconds: float | None = None
    html: str | None = None  # relative to the report's folder
    failed_claim: str | None = None  # heading over the cell that failed
    failed_cell: int | None = None  # counted from 1, among all cells
    message: str | None = None
    not_reached: int = 0  # code cells after the failure
    parameters: dict[str, str] = field(default_factory=dict)  # name -> value as source text
    inputs: list[str] = field(default_factory=list)  # the samples it names
    claims: list[Claim] = field(default_factory=list)
    figure: str | None = field(default=None, metadata={"json": False})  # base64 PNG, for the index
    figure_alt: str = field(default="", metadata={"json": False})

    @property
    def passed(self) -> bool:
        return self.status == PASSED

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "passed": self.passed}


@dataclass
class Report(Result):
    """All verdicts, and where and on what they were found."""

    out: str
    index: str
    notebooks: list[NotebookRun]
    provenance: dict[str, str]
    interrupted: bool = False

    @property
    def passed(self) -> bool:
        return all(n.passed for n in self.notebooks)

    @property
    def claims(self) -> list[Claim]:
        return [claim for n in self.notebooks for claim in n.claims]

    def to_dict(self) -> dict[str, Any]:
        return {"passed": self.passed, **super().to_dict()}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"notebook": n.name, "claim": c.heading, "verdict": c.status, "message": c.message}
            for n in self.notebooks
            for c in n.claims
        ]

    def __str__(self) -> str:
        lines = []
        for n in self.notebooks:
            seconds = "" if n.seconds is None else f"{n.seconds:6.1f} s"
            held = f"{sum(c.passed for c in n.claims)} of {len(n.claims)} claims"
            if silent := sum(c.status == NOT_ASSERTED for c in n.claims):
                held += f", {silent} not asserted on this machine or with these parameters"
            lines.append(f"{n.status:8} {seconds:>9}  {n.name}: {held}")
            if n.message:
                lines.append(f"{'':20} claim: {n.failed_claim} (cell {n.failed_cell})")
                lines.append(f"{'':20} {n.message.splitlines()[0]}")
        return "\n".join([*lines, f"report: {self.index}"])
