"""Random programs: the checks stop at the instruction that a graph of what orders what says.

The twin keeps a clock per pipe and the last accesses of each byte; the model here keeps every
access, and asks whether a path of flags and barriers leads from one to the other.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, field

import pytest
import torch

import workbench as wb
from faults.cases import HERE

EVENTS = "V_S S_V V_MTE2 MTE2_V V_MTE3 MTE3_V MTE2_S S_MTE2 MTE3_S S_MTE3 MTE2_MTE3 MTE3_MTE2"
EVENTS = tuple(EVENTS.split(" "))  # in the order of play.asc
PIPES = ("S", "V", "MTE2", "MTE3")
BARRIERS = ("V", "MTE2", "MTE3", "ALL")
BLOCKS, FLOATS, WORDS = 24, 96, 10  # data blocks of UB, floats of GM, words of an instruction
LINE = 64  # bytes of a line of the data cache


@dataclass
class Model:
    """Every instruction so far: what comes before it, and what it touched."""

    before: list[int] = field(default_factory=list)  # per node: a bit for each one before it
    begun: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PIPES, 0))
    gates: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PIPES, 0))
    touched: dict[tuple[str, int], list[tuple[int, bool]]] = field(default_factory=dict)
    written: set[int] = field(default_factory=set)
    flags: dict[str, int] = field(default_factory=dict)
    # The data cache of the scalar unit, in lines of GM: what is in it; bytes of it that GM has not;
    # lines that GM has otherwise.
    cached: set[int] = field(default_factory=set)
    dirty: set[int] = field(default_factory=set)
    stale: set[int] = field(default_factory=set)

    def node(self, preds: int) -> int:
        closure, rest = preds, preds
        while rest:
            low = rest & -rest
            closure |= self.before[low.bit_length() - 1]
            rest ^= low
        self.before.append(closure)
        return 1 << (len(self.before) - 1)

    def wait(self, pipe: str, node: int) -> None:
        for each in PIPES if pipe in ("S", "ALL") else (pipe,):
            self.gates[each] |= node

    def set(self, event: str) -> None:
        source = event.split("_")[0]
        self.flags[event] = self.node(self.begun[source] | self.gates[source])

    def take(self, event: str) -> None:
        self.wait(event.split("_")[1], self.node(self.flags.pop(event)))

    def barrier(self, pipe: str) -> None:
        pipes = PIPES if pipe == "ALL" else (pipe,)
        preds = 0
        for each in pipes:
            preds |= self.begun[each] | self.gates[each]
        self.wait(pipe, self.node(preds))

    def cache(self, pipe: str, reads: set, writes: set) -> bool:
        """What an access of GM does to the data cache; whether it is one that must not be."""
        read, written = ({at for space, at in each if space == "gm"} for each in (reads, writes))
        lines = {at // LINE for at in read | written}
        if pipe == "S":
            self.cached |= lines
            self.dirty |= written
            return bool(lines & self.stale)
        self.stale |= {at // LINE for at in written} & self.cached
        return bool(read & self.dirty or {at // LINE for at in written} & self.dirty_lines())

    def dirty_lines(self) -> set[int]:
        return {at // LINE for at in self.dirty}

    def clean(self, line: int) -> None:
        self.cached.discard(line)
        self.stale.discard(line)
        self.dirty = {at for at in self.dirty if at // LINE != line}

    def touch(self, pipe: str, reads: set, writes: set) -> set[str]:
        """Runs an instruction; the kinds of fault it may be stopped for."""
        node = self.node(self.gates[pipe] | (self.begun[pipe] if pipe == "S" else 0))
        mine = self.before[-1]
        kinds = {"race"} if self.cache(pipe, reads, writes) else set()
        for place in reads:
            if place[0] == "ub" and place[1] not in self.written:
                kinds.add("init")
        for place, write in [(p, False) for p in reads] + [(p, True) for p in writes]:
            for other, wrote in self.touched.get(place, ()):
                if other != node and (write or wrote) and not mine & other:
                    kinds.add("race")
        for place in reads:
            self.touched.setdefault(place, []).append((node, False))
        for place in writes:
            self.touched.setdefault(place, []).append((node, True))
            if place[0] == "ub":
                self.written.add(place[1])
        self.begun[pipe] |= node
        return kinds


def lanes(block: int, mask: int, repeats: int, blk: int, rep: int) -> set:
    return {
        ("ub", (block + r * rep + lane // 8 * blk) * 32 + lane % 8 * 4 + byte)
        for r in range(repeats)
        for lane in range(64)
        if mask >> lane & 1
        for byte in range(4)
    }


def bursts(space: str, start: int, count: int, length: int, step: int) -> set:
    return {(space, start + i * step + byte) for i in range(count) for byte in range(length)}


def draw(rng: random.Random, steps: int, model: Model) -> tuple[list[list[int]], int, set[str]]:
    """A program, and the step at which it must stop (its length: at none) for which kinds."""
    code: list[list[int]] = []
    if rng.random() < 0.6:  # else most programs end as init
        code = [[0, 0, 0, -1, -1, 16, 1, 8, 0, 0], [33] + [0] * (WORDS - 1)]
        model.touch("V", set(), lanes(0, (1 << 64) - 1, 16, 1, 8))
        model.barrier("ALL")
    while len(code) < steps:
        what = rng.random()
        kinds: set[str] = set()
        mask = rng.choice([(1 << 64) - 1, (1 << rng.randrange(1, 65)) - 1, rng.getrandbits(64)])
        low, high = (
            int(torch.tensor(v).to(torch.uint32).view(torch.int32))
            for v in (mask & 0xFFFFFFFF, mask >> 32)
        )
        repeats, blk, rep = rng.randrange(0, 3), rng.randrange(0, 3), rng.randrange(0, 9)
        to, start = rng.randrange(BLOCKS), rng.randrange(BLOCKS)
        if what < 0.15:
            words = [0, to, 0, low, high, repeats, max(blk, 1), rep]
            kinds = model.touch("V", set(), lanes(to, mask, repeats, max(blk, 1), rep))
        elif what < 0.3:
            blk2, rep2 = rng.randrange(0, 3), rng.randrange(0, 9)
            words = [1, to, start, low, high, repeats, max(blk, 1), rep, blk2, rep2]
            kinds = model.touch(
                "V",
                lanes(start, mask, repeats, blk2, rep2),
                lanes(to, mask, repeats, max(blk, 1), rep),
            )
        elif what < 0.5:
            count, length = rng.randrange(1, 4), rng.randrange(1, 20)
            gap, jump, far = rng.randrange(0, 4), rng.randrange(0, 3), rng.randrange(FLOATS)
            words = [2 if what < 0.4 else 3, to, far, count, length, gap, jump]
            whole = -(-length // 8) * 32
            gm = bursts("gm", far * 4, count, length * 4, (length + gap) * 4)
            if what < 0.4:
                ub = bursts("ub", to * 32, count, whole, whole + jump * 32)
                kinds = model.touch("MTE2", gm, ub)
            else:
                ub = bursts("ub", to * 32, count, length * 4, whole + jump * 32)
                kinds = model.touch("MTE3", ub, gm)
        elif what < 0.8:
            event = rng.choice(EVENTS)
            if event not in model.flags and rng.random() < 0.7:  # as a pair
                code.append([10 + EVENTS.index(event), 1] + [0] * (WORDS - 2))
                model.set(event)
            words = [10 + EVENTS.index(event), int(event not in model.flags)]
            model.take(event) if event in model.flags else model.set(event)
        elif what < 0.88:
            pipe = rng.choice(BARRIERS)
            words = [30 + BARRIERS.index(pipe)]
            model.barrier(pipe)
        elif what < 0.9:
            at = rng.randrange(FLOATS)
            words = [50, at]
            model.clean(at * 4 // LINE)
        else:
            which, at = rng.randrange(4), rng.randrange(BLOCKS * 8 if what < 0.94 else FLOATS)
            words = [40 + which, at]
            if which > 1 and rng.random() < 0.5:  # flags leave only the cache between
                for event in ("S_MTE2", "MTE2_S", "S_MTE3", "MTE3_S"):
                    if event not in model.flags:
                        for on in (1, 0):
                            code.append([10 + EVENTS.index(event), on] + [0] * (WORDS - 2))
                            model.set(event) if on else model.take(event)
            place = bursts("gm" if which > 1 else "ub", at * 4, 1, 4, 0)
            kinds = model.touch("S", *((set(), place) if which % 2 else (place, set())))
        code.append(words + [0] * (WORDS - len(words)))
        if kinds:
            return code, len(code) - 1, kinds
    return code, len(code), set()


@functools.cache
def kernel():
    return wb.build(HERE / "play.asc", wb.KernelConfig(arch="dav-2201"), backend="twin")


def play(seed: int, programs: int, kind: type[Model] = Model) -> dict[str, int]:
    """How many programs the twin stopped as the model says, by the kind of fault; "wrong": not."""
    rng = random.Random(seed)
    stops = {"init": 0, "race": 0, "none": 0, "wrong": 0}
    for _ in range(programs):
        code, stop, kinds = draw(rng, rng.choice((5, 20, 60)), kind())
        program = torch.tensor(code, dtype=torch.int32)
        progress, gm = torch.zeros(1, dtype=torch.int32), torch.zeros(4096)
        found = "none"
        try:
            kernel().launch("play", 1, program, progress, gm, len(code), check="init,race")
        except wb.TwinFault as fault:
            found = fault.kind
        same = int(progress[0]) == stop and found in (kinds or {"none"})
        stops[found if same else "wrong"] += 1
    return stops


@pytest.mark.parametrize("seed", range(8))
def test_the_checks_stop_where_the_graph_says(seed: int) -> None:
    stops = play(seed, 150)
    assert stops["wrong"] == 0, stops
    assert stops["init"] > 10 and stops["race"] > 30, stops


class WithoutBarriers(Model):
    def barrier(self, pipe: str) -> None:
        if pipe == "ALL":
            super().barrier(pipe)


class InOrderPipes(Model):
    """Each pipe by itself in order, as one might think."""

    def touch(self, pipe: str, reads: set, writes: set) -> set[str]:
        self.gates[pipe] |= self.begun[pipe]
        return super().touch(pipe, reads, writes)


class ScalarWaitsForItself(Model):
    """A wait of the scalar unit does not hold back what it issues afterwards."""

    def wait(self, pipe: str, node: int) -> None:
        for each in PIPES if pipe == "ALL" else (pipe,):
            self.gates[each] |= node


class WithoutDataCache(Model):
    def cache(self, pipe: str, reads: set, writes: set) -> bool:
        return False


class LinesOfOneByte(Model):
    """A copy meets only the bytes that SetValue wrote, not their lines."""

    def dirty_lines(self) -> set[int]:
        return set()


class FlagsOfOnePipe(Model):
    """A flag stands for what its pipe has begun, not for what that has waited for."""

    def set(self, event: str) -> None:
        source = event.split("_")[0]
        self.before.append(self.begun[source])
        self.flags[event] = 1 << (len(self.before) - 1)


@pytest.mark.parametrize(
    "wrong",
    [
        WithoutBarriers,
        InOrderPipes,
        ScalarWaitsForItself,
        FlagsOfOnePipe,
        WithoutDataCache,
        LinesOfOneByte,
    ],
)
def test_a_wrong_graph_is_told_apart(wrong: type[Model]) -> None:
    assert sum(play(seed, 100, wrong)["wrong"] for seed in range(6)) > 0
