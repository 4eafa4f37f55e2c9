"""A cost model: what a launch would take, from its exact counters and the rates of an architecture.

It is a model and says so in every form: the counters are exact, the rates are documented or
assumed (`workbench.sweep.rates`), and nothing here was measured on a device. What it leaves out is
in docs/cost-model.md.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench._result import Result, html_table
from workbench.build.launch import LaunchReport
from workbench.errors import InputError
from workbench.sweep.rates import Rates
from workbench.sweep.rates import rates as rates_of
from workbench.sweep.run import Run

PIPES = ("MTE2", "V", "MTE3", "S")
# What each pipe spends its time on: counter -> rate. "copies_in" and "copies_out" are the copies
# from GM and to GM; the scalar unit issues every instruction and copy.
TERMS: dict[str, dict[str, str]] = {
    "MTE2": {"gm_to_ub_bytes": "bytes", "copies_in": "copy_start_cycles"},
    "V": {
        "vector_repeats": "repeat_cycles",
        "vector_instructions": "vector_start_cycles",
        "barriers": "barrier_cycles",
    },
    "MTE3": {"ub_to_gm_bytes": "bytes", "copies_out": "copy_start_cycles"},
    "S": {
        "scalar_reads": "scalar_access_cycles",
        "scalar_writes": "scalar_access_cycles",
        "flags": "flag_cycles",
        "queue_operations": "queue_cycles",
        "vector_instructions": "issue_cycles",
        "copies": "issue_cycles",
    },
}
COUNTERS = tuple(dict.fromkeys(name for terms in TERMS.values() for name in terms))


@dataclass(frozen=True)
class Work(Result):
    """What a launch does: its counters, with copies told apart, and its blocks.

    Attributes:
        target, arch: Kernel and architecture whose program this is.
        blocks: Blocks of the launch.
        counters: {name of COUNTERS: number}, over all blocks.
        lines: One dict per source line: `file`, `line` and the same counters; empty if unknown.
    """

    target: str
    arch: str
    blocks: int
    counters: Mapping[str, int]
    lines: tuple[Mapping[str, Any], ...] = ()

    def flat(self) -> dict[str, int]:
        """Counters and blocks in one dict: what a record of runs keeps."""
        return {**self.counters, "blocks": self.blocks}


def work(source: Any, *, blocks: int | None = None, arch: str | None = None) -> Work:
    """The work of a launch.

    Args:
        source: A kernel of the twin that has just been launched with `counters=True`, its
            `LaunchReport`, a `Run` of a record whose counters have "blocks" (see `Work.flat`), or
            a dict of counters.
        blocks: Blocks, where the source does not say.
        arch: Architecture, where the source does not say.

    Raises:
        InputError: No counters, no number of blocks, or no architecture.
    """
    if isinstance(source, Work):
        return source
    if hasattr(source, "launch") and hasattr(source, "last"):
        source = source.last
    lines: Sequence[Mapping[str, Any]] = ()
    name: str
    given: Mapping[str, Any]
    said: str | None
    found: Any
    if isinstance(source, LaunchReport):
        name, given, lines = source.kernel, source.counters, source.lines
        found, said = source.blocks, source.arch
    elif isinstance(source, Run):
        name, given, said = source.op, source.counters, source.arch
        n, _, v = source.shape
        if "logits" in given and given["logits"] != n * v:  # a sweep counts a part of the launch
            name = f"{name}, the {given['logits']} of its {n * v} logits that were counted,"
        found = source.counters.get("blocks")
    elif isinstance(source, Mapping):
        name, given, said, found = "counters", source, arch, source.get("blocks")
    else:
        raise InputError(f"{type(source).__name__}; want a kernel, LaunchReport, Run or counters")
    if not given:
        raise InputError(
            f"{name} has no counters; launch it on the twin with kernel(…, counters=True)"
        )
    if arch is not None and said != arch:
        raise InputError(
            f"{name} ran as {said}, and arch={arch!r}: another architecture sums in other steps. "
            f"Build it for {arch} and count again"
        )
    number = blocks if blocks is not None else found
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"{name}: blocks={number!r}; give blocks= of the launch, from 1 on")
    if said is None:
        raise InputError("a dict of counters does not name its architecture; give arch=")
    apart = tuple({**row, **_apart(row)} for row in lines)
    counters = {c: sum(row[c] for row in apart) for c in COUNTERS} if apart else _apart(given)
    return Work(name, said, number, counters, apart)


def _apart(row: Mapping[str, Any]) -> dict[str, int]:
    """The counters of a line or launch, its copies by direction.

    A line of source copies one way. A launch of which the lines are not known has its copies to GM
    in "copies_out"; where that is missing too, all count as copies from GM.
    """
    got = {name: row.get(name, 0) for name in COUNTERS}
    bad = {n: v for n, v in got.items() if isinstance(v, bool) or not isinstance(v, int) or v < 0}
    if bad:
        raise InputError(f"counters {bad}; want whole numbers from 0 on")
    if "copies_in" not in row:
        only_out = got["ub_to_gm_bytes"] > 0 and not got["gm_to_ub_bytes"]
        got["copies_out"] = row.get("copies_out", got["copies"] if only_out else 0)
        got["copies_in"] = got["copies"] - got["copies_out"]
    if got["copies_in"] + got["copies_out"] != got["copies"] or got["copies_in"] < 0:
        raise InputError(
            f"copies={got['copies']}, and {got['copies_in']} in, {got['copies_out']} out"
        )
    return got


def unit_seconds(given: Rates, blocks: int, counter: str, rate: str) -> float:
    """Seconds of the launch that one more of `counter` takes, if all blocks do the same.

    A core does ceil(blocks / cores) of the blocks, one after the other. Bytes go at the rate of the
    cores at work, or at their share of GM's, whichever is slower.
    """
    share = -(-blocks // given.cores) / blocks
    if rate == "bytes":
        core = share * given.seconds("core_bytes_per_second")
        return max(core, given.seconds("gm_bytes_per_second"))
    return share * given.seconds(rate)


@dataclass(frozen=True)
class Term(Result):
    """One part of a pipe's time: `count` x `unit` = `seconds`; `rate` and its `tag`, which is
    "assumed" for cycles of an assumed clock too."""

    pipe: str
    counter: str
    count: int
    rate: str
    tag: str
    unit: float
    seconds: float


@dataclass(frozen=True)
class LineCost(Result):
    """What one source line adds to each pipe, in seconds."""

    file: str
    line: int
    pipes: Mapping[str, float]

    @property
    def seconds(self) -> float:
        return sum(self.pipes.values())


@dataclass(frozen=True)
class Cost(Result):
    """What a launch would take, by the model.

    Attributes:
        work, rates: What it was computed from.
        cores: Cores at work. waves: blocks that the busiest core runs, one after the other.
        terms: Every product in the sum.
        pipes: {pipe: seconds}.
        gm_seconds: Bytes both ways at GM's rate: copies in and out share it.
        start_seconds: The launch, and the start of each wave.
        lines: Source lines, the most costly first; empty where lines were not counted.
    """

    work: Work
    rates: Rates
    cores: int
    waves: int
    terms: tuple[Term, ...]
    pipes: Mapping[str, float]
    gm_seconds: float
    start_seconds: float
    lines: tuple[LineCost, ...]

    @property
    def label(self) -> str:
        """Stands beside every figure: "model, not calibrated", or what it was calibrated on."""
        return self.rates.label

    @property
    def overlapped(self) -> float:
        """Seconds if the pipes overlap perfectly: the slowest of them decides."""
        return self.start_seconds + max(*self.pipes.values(), self.gm_seconds)

    @property
    def serial(self) -> float:
        """Seconds if nothing overlaps: the sum of the pipes."""
        return self.start_seconds + sum(self.pipes.values())

    @property
    def limiting(self) -> str:
        """The slowest pipe, or "GM" where both directions together are slower than any."""
        slowest = max(PIPES, key=lambda pipe: self.pipes[pipe])
        return "GM" if self.gm_seconds > self.pipes[slowest] else slowest

    @property
    def assumed_share(self) -> float:
        """The part of the limiting pipe's time, and of the start, that rests on assumed rates."""
        if self.limiting == "GM":
            busy = [(self.gm_seconds, self.rates.table["gm_bytes_per_second"].tag)]
        else:
            busy = [(t.seconds, t.tag) for t in self.terms if t.pipe == self.limiting]
        assumed = sum(seconds for seconds, tag in busy if tag == "assumed")
        start = sum(
            count * self.rates.seconds(name)
            for name, count in (("launch_seconds", 1), ("block_seconds", self.waves))
            if self.rates.table[name].tag == "assumed"
        )
        whole = sum(seconds for seconds, _ in busy) + self.start_seconds
        return (assumed + start) / whole if whole else 0.0

    def formula(self) -> str:
        """The whole computation with its numbers, a line a pipe."""
        table = self.rates.table
        text = [
            f"{self.title()}",
            f"waves = ceil({self.work.blocks} blocks / {self.rates.cores} cores) = {self.waves}; "
            f"a core does {self.waves}/{self.work.blocks} of the work",
        ]
        for pipe in PIPES:
            parts = [
                f"{t.count} {t.counter} x {readable(t.unit)} ({t.rate}, {t.tag})"
                for t in self.terms
                if t.pipe == pipe and t.count
            ]
            text.append(
                f"{pipe:<5}= {' + '.join(parts) or 'nothing'} = {readable(self.pipes[pipe])}"
            )
        moved = self.work.counters["gm_to_ub_bytes"] + self.work.counters["ub_to_gm_bytes"]
        text += [
            f"GM   = {moved} bytes / {table['gm_bytes_per_second'].value:.4g} bytes/s "
            f"({table['gm_bytes_per_second'].tag}) = {readable(self.gm_seconds)}",
            f"start= {readable(table['launch_seconds'].value)} launch + {self.waves} waves x "
            f"{readable(table['block_seconds'].value)} = {readable(self.start_seconds)}",
            f"overlapped = start + the slowest ({self.limiting}) = {readable(self.overlapped)}",
            f"serial     = start + sum of pipes = {readable(self.serial)}",
        ]
        return "\n".join(text)

    def title(self) -> str:
        return (
            f"{self.work.target} on {self.rates.arch}, {self.work.blocks} blocks: "
            f"{readable(self.overlapped)} overlapped, {readable(self.serial)} serial, limited by "
            f"{self.limiting} ({self.label})"
        )

    def rows(self) -> list[dict[str, Any]]:
        whole = {**self.pipes, "GM": self.gm_seconds, "start": self.start_seconds}
        whole |= {"overlapped": self.overlapped, "serial": self.serial}
        return [{"what": k, "seconds": v, "label": self.label} for k, v in whole.items()]

    def to_dict(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "target": self.work.target,
            "arch": self.rates.arch,
            "blocks": self.work.blocks,
            "cores": self.cores,
            "waves": self.waves,
            "counters": dict(self.work.counters),
            "pipes": dict(self.pipes),
            "gm_seconds": self.gm_seconds,
            "start_seconds": self.start_seconds,
            "overlapped": self.overlapped,
            "serial": self.serial,
            "limiting": self.limiting,
            "assumed_share": self.assumed_share,
            "lines": [
                {"file": at.file, "line": at.line, **at.pipes, "seconds": at.seconds}
                for at in self.lines
            ],
            "rates": self.rates.to_dict(),
        }

    def __str__(self) -> str:
        text = [self.formula()]
        text += [
            f"  {at.file.rpartition('/')[2]}:{at.line}  {readable(at.seconds)} ({self.label})"
            for at in self.lines[:5]
        ]
        return "\n".join(text)

    def _repr_html_(self) -> str:
        lines = [
            {"line": f"{at.file.rpartition('/')[2]}:{at.line}", **at.pipes}
            for at in self.lines[:10]
        ]
        caption = f"seconds by line ({self.label})"
        table = html_table(self.rows(), self.title()) + (
            html_table(lines, caption) if lines else ""
        )
        return f"{table}<pre>{html.escape(self.formula())}</pre>"


def cost(
    source: Any,
    arch: str | None = None,
    rates: Rates | None = None,
    *,
    blocks: int | None = None,
) -> Cost:
    """What a launch would take on a device, by a model that is not calibrated.

    Args:
        source: As in `work`: a launched kernel, its report, a run of a record, or counters.
        arch: Only to be sure, or where `source` is a dict: the architecture of the counters.
        rates: None: those of `workbench.sweep.rates.rates`; or `.but(…)` of them, or fitted ones.
        blocks: Blocks of the launch, where the source does not say.

    Raises:
        InputError: No counters, no blocks, or rates of another architecture.

    Example:
        >>> counters = {"gm_to_ub_bytes": 36_000_000, "copies": 2000, "vector_repeats": 144_000}
        >>> found = cost(counters, "dav-2201", blocks=48)
        >>> found.limiting, found.waves, found.label
        ('MTE2', 1, 'model, not calibrated')
        >>> f"{found.gm_seconds:.2g}"
        '2e-05'
    """
    done = work(source, blocks=blocks, arch=arch)
    given = rates or rates_of(done.arch)
    if given.arch != done.arch:
        raise InputError(
            f"counters of {done.arch} with rates of {given.arch}; take the same for both"
        )
    terms = []
    for pipe, parts in TERMS.items():
        for counter, rate in parts.items():
            unit, count = unit_seconds(given, done.blocks, counter, rate), done.counters[counter]
            name = rate if rate != "bytes" else _binding(given, done.blocks)
            tag = given.tag(name)
            terms.append(Term(pipe, counter, count, name, tag, unit, count * unit))
    pipes = {p: sum(t.seconds for t in terms if t.pipe == p) for p in PIPES}
    moved = done.counters["gm_to_ub_bytes"] + done.counters["ub_to_gm_bytes"]
    waves = -(-done.blocks // given.cores)
    return Cost(
        work=done,
        rates=given,
        cores=min(done.blocks, given.cores),
        waves=waves,
        terms=tuple(terms),
        pipes=pipes,
        gm_seconds=moved * given.seconds("gm_bytes_per_second"),
        start_seconds=given.seconds("launch_seconds") + waves * given.seconds("block_seconds"),
        lines=_lines(done, terms),
    )


def _binding(given: Rates, blocks: int) -> str:
    """Which rate the bytes go at: that of the cores at work, or GM's."""
    core = -(-blocks // given.cores) / blocks * given.seconds("core_bytes_per_second")
    slower = core > given.seconds("gm_bytes_per_second")
    return "core_bytes_per_second" if slower else "gm_bytes_per_second"


def _lines(done: Work, terms: Sequence[Term]) -> tuple[LineCost, ...]:
    found = []
    for row in done.lines:
        pipes = {p: sum(t.unit * row[t.counter] for t in terms if t.pipe == p) for p in PIPES}
        if any(pipes.values()):
            found.append(LineCost(row["file"], row["line"], pipes))
    return tuple(sorted(found, key=lambda at: (-at.seconds, at.file, at.line)))


def readable(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.4g} {unit}"
    return f"{seconds * 1e9:.4g} ns"
