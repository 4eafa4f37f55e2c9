"""From an executed notebook to a verdict on it and on each of its claims."""

from __future__ import annotations

import re
import signal
from typing import Any

from .claims import claims, headings, section
from .execute import Executed
from .result import (
    FAILED,
    NOT_ASSERTED,
    NOT_REACHED,
    PASSED,
    Assertion,
    Claim,
    NotebookRun,
)

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"Cell In\s?\[(\d+)\], line (\d+)")


def judge(run: NotebookRun, executed: Executed, timeout: float, notebook_timeout: float) -> None:
    """Fill in `run`: the verdict; for a failure also which claim, which cell, which message."""
    notebook = executed.notebook
    cells = [c for c in notebook.cells if "injected-parameters" not in c.metadata.get("tags", [])]
    code = [i for i, c in enumerate(cells) if c.cell_type == "code" and c.source.strip()]
    begun = [i for i in code if cells[i].metadata.get("papermill", {}).get("start_time")]
    done = [i for i in code if cells[i].execution_count is not None]
    raised = [
        (i, output) for i in code for output in cells[i].outputs if output.output_type == "error"
    ]
    run.seconds = executed.seconds
    at: int | None = None
    if executed.error is None and not raised and done == code:
        run.status = PASSED
    else:
        run.status = FAILED
        at = raised[0][0] if raised else begun[-1] if begun else 0
        output = raised[0][1] if raised else None
        run.message = _message(executed, output, _stderr(cells[at]), timeout, notebook_timeout)
        run.failed_cell = at + 1
        run.not_reached = sum(i > at for i in code)
    frames = _frames(raised[0][1]) if raised else []
    _judge_claims(run, cells, executed.held, at, frames)


def _stderr(cell: Any) -> str:
    outputs = cell.get("outputs", [])
    return "".join(o.text for o in outputs if o.get("name") == "stderr").strip()


def _message(
    executed: Executed, output: Any, said: str, timeout: float, notebook_timeout: float
) -> str:
    error = executed.error
    if executed.out_of_time:
        text = f"TimeoutError: the notebook took more than {notebook_timeout:g} s"
    elif isinstance(error, TimeoutError):
        text = f"TimeoutError: the cell took more than {timeout:g} s"
    elif output is not None:
        text = f"{output.ename}: {output.evalue}".rstrip(": ")
    elif type(error).__name__ == "PapermillExecutionError":
        # A cell that failed without an error output: a magic's UsageError stands on stderr alone.
        text = said or f"{getattr(error, 'ename', '')}: {getattr(error, 'evalue', '')}".strip(": ")
        text = text or str(error)
    elif type(error).__name__ == "DeadKernelError":
        how = _how_it_ended(executed.exit_code)
        text = f"DeadKernelError: the kernel process died in this cell{how}\n{executed.log}"
    elif error:  # a kernel that did not start
        text = f"{type(error).__name__}: {error}\n{executed.log}"
    else:
        text = "the notebook stopped before its end"
    return _ANSI.sub("", text).strip()


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is None:
        return ""
    if exit_code >= 0:
        return f" (exit code {exit_code})"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f" ({name}{': often too little memory' if name == 'SIGKILL' else ''})"


def _frames(output: Any) -> list[tuple[int, int]]:
    """(execution count, line) of a traceback's places in the notebook, the innermost first."""
    text = _ANSI.sub("", "\n".join(output.get("traceback", [])))
    return [(int(cell), int(line)) for cell, line in _FRAME.findall(text)][::-1]


def _judge_claims(
    run: NotebookRun,
    cells: list,
    held: set[tuple[int, int]] | None,
    at: int | None,
    frames: list[tuple[int, int]],
) -> None:
    """The verdict on each claim; `at`: the cell that failed."""
    found = claims(cells, run.heading)
    broken = _broken(found, cells, frames)
    if broken is not None and run.message == "AssertionError":  # without words of its own
        run.message = f"AssertionError: {broken.source}"
    for claim in found.values():
        for one in claim.assertions:
            one.status = FAILED if one is broken else _status(one, cells, held, at)
        states = {one.status for one in claim.assertions}
        claim.status = next((s for s in (NOT_REACHED, PASSED) if s in states), NOT_ASSERTED)
    if at is not None:
        # The claim that fails is the one that is being made, wherever the assertion is written.
        place = section(cells, at)
        heading = run.heading if place is None else headings(cells[place].source)[-1]
        failed = found.setdefault(place, Claim(heading, []))
        failed.status, failed.message = FAILED, run.message
        run.failed_claim = heading
        found = dict(sorted(found.items(), key=lambda item: -1 if item[0] is None else item[0]))
    for place, claim in found.items():
        claim.seconds = _seconds(cells, place)
    run.claims = list(found.values())


def _status(one: Assertion, cells: list, held: set[tuple[int, int]] | None, at: int | None) -> str:
    count = cells[one.cell - 1].execution_count
    if held is not None and (count, one.line) in held:
        return PASSED
    if at is not None and one.cell - 1 >= at:
        return NOT_REACHED
    if count is None:
        return NOT_REACHED
    return PASSED if held is None else NOT_ASSERTED


def _broken(
    found: dict[int | None, Claim], cells: list, frames: list[tuple[int, int]]
) -> Assertion | None:
    """The assertion that raised, or in whose expression something did."""
    for count, line in frames:
        for claim in found.values():
            for one in claim.assertions:
                if cells[one.cell - 1].execution_count == count and (
                    one.line <= line <= one.last_line
                ):
                    return one
    return None


def _seconds(cells: list, place: int | None) -> float | None:
    """How long the cells of a section took."""
    times = [
        cell.metadata.get("papermill", {}).get("duration")
        for index, cell in enumerate(cells)
        if cell.cell_type == "code" and section(cells, index) == place
    ]
    known = [t for t in times if t is not None]
    return round(sum(known), 3) if known else None
