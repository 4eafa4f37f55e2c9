"""Runs the benchmarks, each in a process of its own, and writes docs/benchmarks.md: `make bench`.

    python benchmarks/_all.py [--only linear,startup] [--quick]

A result replaces the one before it only if the run has ended well. What fails or takes too long is
named at the end, and the exit code is 1; the page is written all the same, and says it. A quick run
writes to build/bench-quick, so that it never stands where a measurement was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import _page
from _sections import SECTIONS

HERE = Path(__file__).resolve().parent
QUICK = HERE.parent / "build" / "bench-quick"
TAIL = 12  # lines of a failed one's output that are shown

# Seconds after which a benchmark is stopped: about three times what it takes on two quiet cores.
LIMITS = {
    "linear": 1500,
    "memory": 600,
    "sweep": 1500,
    "rebuild": 900,
    "startup": 300,
    "growth": 600,
    "twin": 600,
    "schedules": 400,
    "backward": 600,
    "reveal": 300,
    "parity": 600,
}
# They also write a table into a page of their own.
WITH_PAGE = ("linear", "parity")


@dataclass(frozen=True)
class Job:
    """One benchmark: the file to run, where its JSON goes, when to give up."""

    name: str
    file: Path
    out: Path
    limit: float
    arguments: tuple[str, ...] = ()

    def run(self) -> str:
        """Empty if it went well, else what happened, with the end of what it printed above it."""
        fresh = self.out.with_suffix(".new")
        log = self.out.with_suffix(".log")
        self.out.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(self.file), "--out", str(fresh), *self.arguments]
        with log.open("w") as to:
            process = subprocess.Popen(command, stdout=to, stderr=to, start_new_session=True)
            try:
                code = process.wait(self.limit)
                why = f"It failed with exit code {code}." if code else ""
            except subprocess.TimeoutExpired:
                why = f"It was stopped after its limit of {self.limit:.0f} s."
            finally:  # whatever it has started, too; Ctrl-C ends here as well
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if not why:
            try:
                json.loads(fresh.read_text("utf-8"))
                fresh.replace(self.out)
            except (OSError, ValueError) as error:
                why = f"It ended well and left no result: {error}."
        if why:
            print(*log.read_text(errors="replace").splitlines()[-TAIL:], sep="\n", file=sys.stderr)
        fresh.unlink(missing_ok=True)
        log.unlink()
        return why


def run(jobs: Sequence[Job]) -> dict[str, str]:
    """Run them in turn; {name: what happened} of those that went wrong."""
    notes = {}
    for job in jobs:
        print(f"== {job.name}", flush=True)
        started = time.perf_counter()
        why = job.run()
        took = time.perf_counter() - started
        print(f"   {why or 'done'} ({took:.0f} s)", flush=True)
        if why:
            notes[job.name] = f"The last run gave no result. {why}"
    return notes


def chosen(only: str, names: Sequence[str] = tuple(SECTIONS)) -> list[str]:
    """The names in a list with commas, in the order of the page; all for an empty one.

    Raises:
        ValueError: One that is no benchmark.
    """
    wanted = [word for word in only.replace(",", " ").split() if word]
    unknown = [word for word in wanted if word not in names]
    if unknown:
        raise ValueError(f"no benchmark is called {', '.join(unknown)}; want {', '.join(names)}")
    return [name for name in names if not wanted or name in wanted]


def main(arguments: Sequence[str] | None = None, limits: Mapping[str, float] = LIMITS) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names with commas between them")
    parser.add_argument("--quick", action="store_true", help="toy sizes, into build/bench-quick")
    parser.add_argument("--to", type=Path, help="a folder for results, page and figures")
    options = parser.parse_args(arguments)
    try:
        names = chosen(options.only)
    except ValueError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    results, page, images = _page.RESULTS, _page.PAGE, _page.IMAGES
    to = options.to or (QUICK if options.quick else None)
    if to:
        results, page, images = to / "results", to / "benchmarks.md", to / "img"
    jobs = []
    for name in names:
        more = ["--quick"] if options.quick else []
        more += ["--page"] if name in WITH_PAGE and not to else []
        out = results / f"{name}.json"
        jobs.append(Job(name, HERE / f"{name}.py", out, limits[name], tuple(more)))
    notes = run(jobs)
    _page.write(results, page, images, notes)
    print(f"== wrote {page}")
    if notes:
        print(f"bench: {len(notes)} of {len(jobs)} failed: {', '.join(notes)}", file=sys.stderr)
    return 1 if notes else 0


if __name__ == "__main__":
    sys.exit(main())
