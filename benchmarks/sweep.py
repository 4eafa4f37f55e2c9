"""200 configurations on the real sample, from nothing, beside the same one after another.

    python benchmarks/sweep.py [--quick] [--out FILE]

Ours is the command `workbench sweep`, start of Python and torch included, with an empty build cache
and a new record: the shared objects of the twin are compiled too. The peer measures the same
configurations one after another in one process that is already there, with the shared objects
compiled beforehand: neither the start nor those count against it. After each of our runs the peer
takes the next fifth of the 200, so that five runs of ours have all 200 of the peer's beside them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from _common import ratios, run, seconds, spread

TILES = tuple(64 * k for k in range(1, 11))
BLOCKS = (1, 4, 16, 40, 128)
SCHEDULES = ("output", "weight_stationary")
ARCHES = ("dav-2201", "dav-3510")
ROWS, VOCAB = 8, 512


class OneAfterAnother(Executor):
    """Runs each call where it is submitted; nothing is compiled ahead of it."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future:
        done: Future = Future()
        try:
            done.set_result(function(*args, **kwargs))
        except Exception as error:  # handed to who waits for it, as any executor does
            done.set_exception(error)
        return done


def command(folder: Path, tiles: tuple[int, ...], blocks: tuple[int, ...]) -> tuple[float, float]:
    """(seconds, processor seconds) of one sweep in a new process with a new cache."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)

    def sweep() -> None:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "workbench.cli", "sweep", "--backend", "twin", "--json"),
                *("--tile", ",".join(map(str, tiles)), "--max-blocks", ",".join(map(str, blocks))),
                *("--schedule", ",".join(SCHEDULES), "--arch", ",".join(ARCHES)),
                *("--sample", "smollm2", "--rows", str(ROWS), "--vocab", str(VOCAB)),
                *("--store", str(folder / "runs.sqlite")),
            ],
            env={**os.environ, "WORKBENCH_CACHE": str(folder / "cache")},
            check=True,
            stdout=subprocess.PIPE,
        )
        found = json.loads(done.stdout)
        count = len(tiles) * len(blocks) * len(SCHEDULES) * len(ARCHES)
        assert len(found["runs"]) == count and not found["failed"], found

    took = seconds(sweep)
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def measure(quick: bool) -> dict[str, Any]:
    runs = 1 if quick else 5
    tiles, blocks = (TILES[:1], BLOCKS[:1]) if quick else (TILES, BLOCKS)
    took, processor, theirs = [], [], []
    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory() as peer_folder:
        os.environ["WORKBENCH_CACHE"] = str(Path(peer_folder, "cache"))
        import workbench as wb
        from workbench.sweep.space import Space

        def part(tiles: tuple[int, ...], blocks: tuple[int, ...], name: str) -> None:
            space = Space(
                tiles=tiles,
                max_blocks=blocks,
                schedules=SCHEDULES,
                arches=ARCHES,
                shapes=[(ROWS, VOCAB)],
            )
            found = wb.sweep(
                space,
                "smollm2",
                store=Path(peer_folder, f"{name}.sqlite"),
                client=OneAfterAnother(),
                progress=False,
            )
            assert len(found.runs) == len(space) and not found.failed

        part((1024,), (1,), "shared")  # compiles what all variants share
        step = len(tiles) // runs
        for turn in range(runs):
            folder = Path(own, str(turn))
            folder.mkdir()
            ours = command(folder, tiles, blocks)
            took.append(ours[0])
            processor.append(ours[1])
            chunk = tiles[turn * step : (turn + 1) * step]
            theirs.append(seconds(lambda chunk=chunk: part(chunk, blocks, chunk[0])))
    count = len(tiles) * len(blocks) * len(SCHEDULES) * len(ARCHES)
    return {
        "what": f"seconds of a sweep of {count} configurations of the LM head ({len(tiles)} tile "
        f"lengths, {len(blocks)} block counts, 2 schedules, 2 architectures) on the real sample, "
        f"{ROWS} x 576 x {VOCAB}, fp32, twin; empty build cache, new process",
        "runs": runs,
        "configurations": count,
        "seconds": spread(took),
        "processor_seconds": spread(processor),
        "one_after_another": {
            "configurations_a_run": count // runs,
            "seconds_a_run": spread(theirs),
            "seconds": sum(theirs),
        },
        "times_faster": ratios([runs * t for t in theirs], took),
    }


if __name__ == "__main__":
    run(measure, __doc__)
