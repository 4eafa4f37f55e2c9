"""`workbench report`: execute the notebooks headless, and say which claims hold."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import click

from workbench.commands.arguments import (
    FAILED,
    OK,
    SIZE,
    Outcome,
    json_option,
    literal,
    parse_pairs,
    progress,
)


@click.command(short_help="Execute the notebooks headless; write a report.")
@click.option(
    "--out",
    default="report",
    show_default=True,
    metavar="DIR",
    help="Folder of the report; made if it is not there.",
)
@click.option(
    "--notebook", "notebooks", multiple=True, metavar="NAME|FILE", help="Only this one; repeatable."
)
@click.option(
    "-p",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value for the notebooks' parameters cell; `-p NAME VALUE` as well. Repeatable.",
)
@click.option(
    "--parameters-file",
    "file",
    metavar="FILE",
    help="Such values in YAML or JSON, for all notebooks or below a notebook's name; -p wins.",
)
@click.option(
    "--timeout",
    type=SIZE,
    default=600,
    show_default=True,
    help="Seconds a cell may take.",
)
@click.option(
    "--notebook-timeout",
    type=SIZE,
    default=1800,
    show_default=True,
    help="Seconds a notebook may take in all.",
)
@click.option(
    "--jobs",
    type=SIZE,
    help="Notebooks run at once.  [default: 2 with the cores and 6 GiB of memory free, else 1]",
)
@click.argument("values", nargs=-1, metavar="")
@json_option
def report(
    out: str,
    notebooks: tuple[str, ...],
    parameters: tuple[str, ...],
    file: str | None,
    timeout: int,
    notebook_timeout: int,
    jobs: int | None,
    values: tuple[str, ...],
) -> Outcome:
    """Execute every notebook headless; write DIR/index.html, report.json and report.xml (JUnit).

    Exit code 1 if an assertion of a notebook fails; the output names the claim.
    """
    from workbench.report import run_report

    pairs = parse_pairs(_joined(parameters, values), "-p")
    with _ended_as_interrupted():
        found = run_report(
            out,
            notebooks or None,
            {name: literal(text) for name, text in pairs.items()},
            timeout,
            progress,
            parameters_file=file,
            notebook_timeout=notebook_timeout,
            jobs=jobs,
        )
    return Outcome(found, str(found), OK if found.passed else FAILED)


@contextlib.contextmanager
def _ended_as_interrupted() -> Iterator[None]:
    """SIGTERM, with which CI ends a job out of time, taken as Ctrl-C: the report says so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _joined(parameters: tuple[str, ...], values: tuple[str, ...]) -> tuple[str, ...]:
    """`-p NAME VALUE`, as papermill has it, as NAME=VALUE: click hands over the two apart."""
    rest = iter(values)
    joined = []
    for name in parameters:
        value = None if "=" in name else next(rest, None)
        joined.append(name if value is None else f"{name}={value}")
    if extra := list(rest):
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(extra)})")
    return tuple(joined)
