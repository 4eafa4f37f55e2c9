"""Draws batches, executes them on the twin and on the model, compares every byte."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from models.vector import Instr, Settings, apply
from models.vector.core import BLOCK, SIZE

from .catalog import Case
from .draw import IMAGE, SCRATCH, Draw, Drawn, Pools, image_of
from .interpreter import Outcome

BATCH = max(16, 2048 * 8192 // IMAGE)

Model = Callable[[Instr, np.ndarray, str | Settings, np.ndarray], tuple]


@dataclass
class Mismatch:
    """One instruction on which the two differ, with all that is needed to run it again."""

    case: str
    seed: str
    instr: Instr
    what: str

    def __str__(self) -> str:
        return f"{self.case}: {self.what}\n    seed {self.seed}: {self.instr}"


@dataclass
class Report:
    """Counts of a run."""

    ran: Counter = field(default_factory=Counter)
    wrong: Counter = field(default_factory=Counter)
    examples: list[Mismatch] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, mismatch: Mismatch, op: str, keep: int) -> None:
        if self.wrong[op] < keep:
            self.examples.append(mismatch)
        self.wrong[op] += 1

    @property
    def total(self) -> int:
        return sum(self.ran.values())


@dataclass
class Stand:
    """An executor that is another model: for controls, and to test the harness by itself."""

    model: Model = apply
    arch: str | Settings = "dav-2201"

    def run(self, cases, instrs, images, scratch) -> Outcome:
        out = Outcome(
            images.copy(), scratch.copy(), np.zeros((len(cases), 4), np.uint64), [None] * len(cases)
        )
        for n, instr in enumerate(instrs):
            try:
                out.images[n], out.scratch[n], facts = self.model(
                    instr, images[n], self.arch, scratch[n]
                )
            except ValueError as error:
                out.faults[n] = str(error)
                continue
            if "rsvd" in facts:
                out.results[n, 0] = facts["rsvd"]
            if "acc" in facts:
                out.results[n, 0] = facts["acc"]
            if "sorted" in facts:
                out.results[n, 0] = _packed(facts["sorted"])
        return out


def _packed(counts) -> int:
    return sum(int(c) << 16 * n for n, c in enumerate(counts))


def with_switches(base: Settings, switches: dict[str, str]) -> Settings:
    """The model's settings under the switches that a launch takes."""
    changes = {}
    for name, value in switches.items():
        if name == "masked_lanes":
            changes["masked"] = value
        elif name == "accumulator_start":
            changes["acc_start"] = value == "zero"
        elif name == "fused":
            changes["fused"] = value == "fused"
        elif name == "overflow":
            changes["overflow"] = value
        else:
            raise ValueError(f"unknown switch {name}")
    return replace(base, **changes)


def faulty(i: Instr) -> tuple[bool, bool]:
    """What checked mode must, and may, refuse of what the generators draw."""
    if i.op == "DataCopy":
        return i.form == "count" and i.count * SIZE[i.types[0]] % BLOCK != 0, False
    if i.op == "DataCopyPad" and "pad" in i.extra:
        # Bytes between a burst and its paddings hold anything, and the whole image is copied out.
        return False, any(i.extra["pad"][1:3])
    return False, False


def draw(case: Case, seed: str, pools: Pools, image: np.ndarray, gm: np.ndarray) -> Drawn:
    """One instruction and its memory, from nothing but the seed (and the pools)."""
    rnd = Draw(seed)
    drawn = case.make(rnd, case)
    image_of(drawn, rnd, pools, image, gm)
    return drawn


def difference(case: Case, instr: Instr, before, want, got, facts: dict, results) -> str | None:
    """What differs, in words, or None. ``before``, ``want``, ``got``: (image, scratch)."""
    image, scratch = got
    ignored = [
        *facts.get("ignore", ()),
        *([instr.extra["ignore"]] if "ignore" in instr.extra else ()),
    ]
    if ignored:
        image = image.copy()
        for a, b in ignored:
            image[a:b] = want[0][a:b]
    for name, w, g, b in (("UB", want[0], image, before[0]), ("GM", want[1], scratch, before[1])):
        if np.array_equal(w, g):
            continue
        at = np.flatnonzero(w != g)
        first = int(at[0]) // 8 * 8
        part = slice(first, first + 8)
        return (
            f"{len(at)} bytes of {name} differ, the first at {int(at[0])} "
            f"(dst {instr.dst}): before {bytes(b[part]).hex()}, model {bytes(w[part]).hex()}, "
            f"twin {bytes(g[part]).hex()}"
        )
    if "rsvd" in facts and int(results[0]) != facts["rsvd"]:
        return f"kept {int(results[0])} elements, the model {facts['rsvd']}"
    if case.variant == "accumulator" and int(results[0]) != facts.get("acc"):
        return f"accumulator {int(results[0]):#x}, the model {facts.get('acc')}"
    if instr.op == "MrgSort" and instr.extra.get("suspend"):
        given = int(results[0]) & (1 << 16 * len(facts["sorted"])) - 1
        if given != _packed(facts["sorted"]):
            return f"sorted counts {given:#x}, the model {facts['sorted']}"
    return None


def _turns(cases: list[Case], by: str) -> Callable[[int], Case]:
    if by == "case":
        return lambda k: cases[k % len(cases)]
    ops: dict[str, list[Case]] = {}
    for case in cases:
        ops.setdefault(case.op, []).append(case)
    members = list(ops.values())

    def turn(k: int) -> Case:
        own = members[k % len(members)]
        return own[k // len(members) % len(own)]

    return turn


def run(
    executor,
    cases: list[Case],
    count: int,
    seed: int,
    *,
    model: Model = apply,
    arch: str | Settings = "dav-2201",
    keep: int = 3,
    progress: Callable[[Report], None] = lambda report: None,
    by: str = "case",
) -> Report:
    """``count`` instructions, the cases in turn (or the instructions, with each its cases in turn).

    Batch b of a seed is always the same.
    """
    report = Report()
    started = time.perf_counter()
    if not cases:
        return report
    turn = _turns(cases, by)
    done = batch = 0
    while done < count:
        n = min(BATCH, count - done)
        pools = Pools(seed * 1_000_003 + batch % 16)
        images = np.empty((n, IMAGE), np.uint8)
        scratch = np.zeros((n, SCRATCH), np.uint8)
        chosen = [turn(done + k) for k in range(n)]
        seeds = [f"{seed}/{batch}/{k}" for k in range(n)]
        rows = zip(chosen, seeds, images, scratch, strict=True)
        drawn = [draw(case, name, pools, *memory) for case, name, *memory in rows]
        one_batch(executor, chosen, seeds, drawn, images, scratch, report, model, arch, keep)
        done += n
        batch += 1
        report.seconds = time.perf_counter() - started
        progress(report)
    return report


def one_batch(executor, cases, seeds, drawn, images, scratch, report, model, arch, keep) -> None:
    """Executes and compares one batch; the report grows."""
    instrs = [d.instr for d in drawn]
    out = executor.run(cases, instrs, images, scratch)
    for n, case in enumerate(cases):
        report.ran[case.op] += 1
        want_ub, want_gm, facts = model(instrs[n], images[n], arch, scratch[n])
        checked = bool(getattr(executor, "check", None))
        must, may = faulty(instrs[n]) if checked else (False, False)
        if out.faults[n] is not None and (must or may):
            what = None
        elif must:
            what = "the checked twin lets it pass"
        elif out.faults[n] is not None:
            what = f"the twin refuses it: {out.faults[n].splitlines()[0]}"
        else:
            what = difference(
                case,
                instrs[n],
                (images[n], scratch[n]),
                (want_ub, want_gm),
                (out.images[n], out.scratch[n]),
                facts,
                out.results[n],
            )
        if what is not None:
            report.add(Mismatch(case.name, seeds[n], instrs[n], what), case.op, keep)
