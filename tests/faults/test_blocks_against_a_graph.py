"""Random programs of several blocks: a race is found exactly where a graph has one."""

from __future__ import annotations

import random

import pytest
import torch

import workbench as wb
from faults.test_against_a_graph import kernel

READ, WRITE, ADD, SYNC, SET, WAIT = range(1, 7)


def draw(rng: random.Random, blocks: int, ignored: frozenset[int]) -> tuple[list, set]:
    """Programs of `blocks` blocks, and the pairs of blocks that meet unordered; what is in
    `ignored` orders nothing in the graph."""
    code: list[list[list[int]]] = [[] for _ in range(blocks)]
    before: list[int] = []  # per node a bit for each one before it
    last = [0] * blocks  # per block: everything its next node comes after
    done: list[tuple[int, int, int, set]] = []  # (node, block, what, floats)
    flags: dict[tuple[int, int], int] = {}
    # One block hands a part of GM to another now and then: what a flag is for.
    planned: list[tuple[int, int]] = []
    at, n = 0, 1
    for _ in range(rng.choice((6, 15, 40))):
        b = rng.randrange(blocks)
        what = rng.choices((READ, WRITE, ADD, SYNC, SET, WAIT), (4, 4, 2, 1, 4, 4))[0]
        handed = bool(planned)
        if handed:
            b, what = planned.pop(0)
        elif rng.random() < 0.3:
            other = rng.choice([c for c in range(blocks) if c != b])
            what, planned = WRITE, [(b, SET), (other, WAIT), (other, READ)]
        if what == SYNC:
            for each in code:
                each.append([SYNC, 0, 0, 0])
            if SYNC not in ignored:
                last = [sum({n for each in last for n in bits(each)})] * blocks
            continue
        if what in (SET, WAIT):
            choice = [(b, len(code[b]))] if what == SET else [*flags]
            choice = [c for c in choice if what == SET or c[0] != b]
            if not choice:
                continue
            # (An event of its own for each: a block does not know when another one has waited.)
            flag = choice[-1] if handed else rng.choice(choice)
            code[b].append([what, *flag, 0])
            if what == SET:
                flags[flag] = last[b]
            else:
                last[b] |= flags.pop(flag) if WAIT not in ignored else flags.pop(flag) * 0
            continue
        if not handed:
            at, n = rng.randrange(60), rng.randrange(1, 12)
        code[b].append([what, at, n, 0])
        before.append(last[b])
        node = 1 << (len(before) - 1)
        last[b] |= node
        done.append((node, b, what, set(range(at, at + n))))
    races = set()
    for j, (_, b, what, floats) in enumerate(done):
        for node, other, was, theirs in done[:j]:
            meet = b != other and floats & theirs and {what, was} != {READ} and {what, was} != {ADD}
            if meet and not before[j] & node:
                races.add((min(b, other), max(b, other)))
    for flag in flags:  # each set flag is waited for, by its own block's neighbour
        code[(flag[0] + 1) % blocks].append([WAIT, *flag, 0])
    longest = max(map(len, code))
    return [c + [[0, 0, 0, 0]] * (longest - len(c)) for c in code], races


def bits(mask: int) -> list[int]:
    return [1 << i for i in range(mask.bit_length()) if mask >> i & 1]


def play(seed: int, programs: int, ignored: frozenset[int] = frozenset()) -> tuple[int, int, int]:
    """(races, clean ones, wrong ones) among the programs."""
    rng = random.Random(seed)
    races = clean = wrong = 0
    for _ in range(programs):
        blocks = rng.choice((2, 3, 5))
        code, pairs = draw(rng, blocks, ignored)
        program = torch.tensor(code, dtype=torch.int32)
        found = []
        for threads in (1, 3):
            gm, flags = torch.zeros(128), torch.zeros(4096, dtype=torch.int32)
            try:
                kernel().launch(
                    "play_blocks",
                    blocks,
                    program,
                    gm,
                    flags,
                    len(code[0]),
                    check="race,mem",
                    threads=threads,
                )
                found.append(None)
            except wb.TwinFault as fault:
                assert (fault.kind, fault.code) == ("race", "race-blocks"), fault
                found.append(str(fault))
                assert any(fault.block in pair for pair in pairs) or not pairs or ignored
        assert found[0] == found[1], "the same fault, however the blocks are spread"
        wrong += (found[0] is not None) != bool(pairs)
        races += bool(pairs)
        clean += not pairs
    return races, clean, wrong


@pytest.mark.parametrize("seed", range(4))
def test_races_between_blocks_are_those_of_the_graph(seed: int) -> None:
    races, clean, wrong = play(seed, 40)
    assert wrong == 0 and races > 5 and clean > 5, (races, clean, wrong)


@pytest.mark.parametrize("what", [SYNC, WAIT])
def test_a_graph_without_their_order_is_told_apart(what: int) -> None:
    assert sum(play(seed, 30, frozenset({what}))[2] for seed in range(3)) > 0
