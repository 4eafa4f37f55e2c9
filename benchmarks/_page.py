"""Writes docs/benchmarks.md and its figures from the JSON of the benchmarks: the docs quote a run.

    python benchmarks/_page.py [--results DIR] [--page FILE] [--images DIR]

`make bench` does so at its end. A benchmark whose JSON is missing is "not measured here".
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _figures import FIGURES
from _sections import SECTIONS
from _telling import Result, Row, prose, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS, PAGE, IMAGES = HERE / "results", ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "img"

# Musts that are no figure: (what, where it is tested).
TESTED = (
    (
        "a sweep killed at any moment and resumed: the table of one that was not killed",
        "tests/sweep/test_sweep_workers.py::test_killed_at_any_moment_and_resumed",
    ),
    (
        "8 processes write 1,000 runs each, two killed: what was committed is there exactly once",
        "tests/sweep/test_record_crash.py::test_eight_writers_two_of_them_killed",
    ),
    (
        "linear: the bits of the twin, over dtypes, shapes, orders and special values",
        "tests/orders/test_linear.py",
    ),
)


def machine(result: Result) -> str:
    m = result["machine"]
    when = f"; {result['when'][:10]}" if "when" in result else ""
    return (
        f"{m['cpu']}, {m['cores']} cores, Python {m['python']}, torch {m['torch']}, "
        f"{m['compiler']}; load before the run {m['load_before']}{when}"
    )


def met(row: Row, result: Result) -> str:
    if row.met is None:
        return "not measured" if row.must else ""
    if result.get("quick"):
        return "quick run"
    return "yes" if row.met else "**no**"


def load(folder: Path) -> dict[str, Result]:
    """{benchmark: its JSON} of those that are there."""
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    found = {name: json.loads(f.read_text("utf-8")) for name, f in files.items() if f.exists()}
    for result in found.values():  # an older one calls its alternating runs pairs
        result.setdefault("runs", result.get("pairs", 1))
    return found


def anchor(title: str) -> str:
    """As GitHub makes one of a heading."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return "#" + kept.replace(" ", "-")


def page(
    results: Mapping[str, Result], images: Path, at: Path, notes: Mapping[str, str] | None = None
) -> str:
    """The page that is to lie at `at`; draws the figures into `images`.

    Args:
        results: {benchmark: its JSON}.
        notes: {benchmark: why its last run gave nothing}.
    """
    notes = notes or {}
    summary, bodies, costs = [], [], []
    for name, section in SECTIONS.items():
        untold = (section.must, "not measured" if section.must else "")
        link = f"[{name}]({anchor(section.title)})"
        lines = ["", f"## {section.title}", "", f"`make bench ONLY={name}`"]
        if name in notes:
            lines[-1] += f". **{notes[name]}** What stands here is of an earlier run."
        result = results.get(name)
        if result is None:
            summary.append((link, "not measured here", "", "", "", *untold))
            bodies += [*lines[:-1], f"Not measured here: `make bench ONLY={name}`."]
            if name in notes:
                bodies[-1] += f" {notes[name]}"
            continue
        try:
            rows, body = section.rows(result), section.body(result)
            image = _draw(name, result, images)
        except (KeyError, IndexError, TypeError) as error:
            why = f"results/{name}.json is of another form ({type(error).__name__}: {error})"
            summary.append((link, why, "", "", "", *untold))
            bodies += [*lines, "", f"{why}. `make bench ONLY={name}` makes it anew."]
            continue
        for k, row in enumerate(rows):
            cells = (row.what, row.ours, row.peer, row.ratio, row.must, met(row, result))
            summary.append((link if k == 0 else "", *cells))
        if "took_seconds" in result:
            costs.append((name, result["took_seconds"]))
        runs = f"{result['runs']} run{'s' * (result['runs'] != 1)}"
        lines += [
            "",
            f"{result['what']}; {runs}. {machine(result)}.",
            "",
            *body,
        ]
        if image:
            where = os.path.relpath(image, at.parent)
            lines += ["", f"![{section.title}]({where})"]
        bodies += lines
    return "\n".join([*_head(results, costs), *_summary(summary), *_tested(at), *bodies, ""])


def _draw(name: str, result: Result, images: Path) -> Path | None:
    from workbench.plots import png

    if result.get("measured") is False:
        return None
    image = images / f"bench_{name}.png"
    images.mkdir(parents=True, exist_ok=True)
    image.write_bytes(png(FIGURES[name](result), scale=1.5))
    return image


def _head(results: Mapping[str, Result], costs: list[tuple[str, float]]) -> list[str]:
    lines = [
        "# Benchmarks",
        "",
        *prose(
            """`make bench` measures everything here and writes this page. `make bench
            ONLY=linear,startup` measures a part and leaves the rest as it is; `make bench QUICK=1`
            runs all of it in toy sizes and writes to `build/bench-quick` instead. What fails or
            takes too long is named at the end, with exit code 1; the others are measured all the
            same. A section is written anew without a run by `python benchmarks/_page.py`."""
        ),
        "",
        *prose(
            """Times are of one machine that other work may share: read the ratios, each side of
            which comes from the same run, the candidates in turn. No absolute time here is a
            promise. All of it is the twin and host code on a CPU; nothing here says how fast a
            kernel is on an NPU. Each result is in `benchmarks/results/`, with the machine and its
            load before the run."""
        ),
    ]
    if any(result.get("quick") for result in results.values()):
        lines += [
            "",
            "**Quick run: toy sizes, to see that the chain works. No figure is a measurement.**",
        ]
    if costs:
        total = sum(took for _, took in costs)
        each = ", ".join(f"{name} {took:.0f} s" for name, took in costs)
        lines += [
            "",
            f"Of these runs it is known what they took, {total / 60:.1f} minutes: {each}.",
        ]
    return lines


def _summary(rows: list[tuple]) -> list[str]:
    head = ("benchmark", "what", "ours", "peer", "ratio", "Must", "met")
    return [
        "",
        "## Summary",
        "",
        *prose(
            """A ratio above 1 is in favour of ours, unless its cell says of what it is. Of a cell
            with two figures, both must reach the Must."""
        ),
        "",
        *table(head, rows),
    ]


def _tested(at: Path) -> list[str]:
    rows = []
    for what, test in TESTED:
        file, _, name = test.partition("::")
        where = os.path.relpath(ROOT / file, at.parent)
        rows.append((what, f"[`{name or file}`]({where})"))
    return [
        "",
        "What must hold and is no figure is a test of `make test`:",
        "",
        *table(("Must", "test"), rows),
    ]


def write(
    results: Path, at: Path, images: Path, notes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    found = load(results)
    text = page(found, images, at, notes)
    at.parent.mkdir(parents=True, exist_ok=True)
    at.write_text(text, "utf-8")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--images", type=Path, default=IMAGES)
    options = parser.parse_args()
    write(options.results, options.page, options.images)
    print(f"wrote {options.page}", file=sys.stderr)
