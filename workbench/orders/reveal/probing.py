"""The algorithm: from answers l(i, j) to a tree, level by level.

Idea: FPRev (Xie et al., USENIX ATC 2025). A probe sets term i to +M, term j to -M and the others to
a unit, M so large that a unit beside it is lost. Units that meet +M or -M before these meet each
other are swallowed; the result counts the rest. `lost` = n - count is then the number of leaves
below the node where i and j meet, the two themselves included.

Here all subsets of a level share one round of probes, and nothing recurses. In a fused node, which
adds more than two values with one rounding, two behaviours are told apart: one that aligns its
terms to the largest loses every unit in it (`lost` is the size of the node); an exact one loses
only what the two children that hold i and j lose (`lost` is the sum of their sizes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from workbench.orders.reveal.targets import RevealError

# Up to this size the terms of a fused node are compared pair by pair, all in one round.
ALL_PAIRS = 64
# Of a larger one that aligns, so many random pairs are asked: to compare all would cost a round a
# term.
STAR_PAIRS = 256
_MOST_PROBES = 64  # times n log2 n; beyond, the answers are those of no sum that has an order

BINARY, EXACT, ALIGNED = 0, 1, 2  # kinds of a node


@dataclass
class Round:
    """One round of questions: pairs (i, j), and the subset that each belongs to.

    Attributes:
        i, j: Leaf ids, int64 [K].
        owner: Index of the subset of each pair, ascending, int64 [K].
        members, starts: The subsets: leaf ids of subset t at members[starts[t] : starts[t + 1]].
        witness: One leaf outside each subset, which shares a node with it if any does; -1: none.
    """

    i: np.ndarray
    j: np.ndarray
    owner: np.ndarray
    members: np.ndarray
    starts: np.ndarray
    witness: np.ndarray


@dataclass
class Found:
    """A tree as it is stored (`ReductionTree`), the kind of each inner node, and the rounds.

    `stars`: nodes whose children were taken from random pairs of them.
    """

    leaves: int
    children: np.ndarray
    offsets: np.ndarray
    kinds: np.ndarray
    rounds: int = 0
    probes: int = 0
    stars: int = 0


@dataclass
class _Tasks:
    """What was learnt of every subset: its pivot and its groups, ascending by `lost`."""

    pivot: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)  # where its groups start
    lost: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    ref: list[int] = field(default_factory=list)  # a leaf id, or ~index of the group's own task
    side: list[int] = field(default_factory=list)  # lost on the group's own side; 0: not asked
    stars: dict[int, list[int]] = field(default_factory=dict)  # leaves of tasks that are one node


def discover(
    n: int,
    ask: Callable[[Round], np.ndarray],
    side: Callable[[Round], np.ndarray],
    rng: np.random.Generator,
) -> Found:
    """The tree of a sum of n terms.

    Args:
        n: Number of terms.
        ask: Answers a round: `lost` of each pair, int64 [K], at least 2. A unit of the witness
            that is lost counts; units outside the subset and the witness need not.
        side: The same with units in the pair's subset only, in which j lies and i does not; j
            counts as lost. Asked where there are fused nodes.
        rng: Chooses the pivots.

    Raises:
        RevealError: The answers fit no tree, or take more probes than a tree's do.
    """
    empty = np.zeros(0, np.int64)
    tasks, found = _Tasks(), Found(n, empty, empty, empty)
    if n == 0:
        found.offsets = np.zeros(1, np.int64)
        return found
    table: dict[int, int] = {}  # lost of the pairs that were compared all with all
    members, starts = np.arange(n), np.array([0, n])
    witness = np.array([-1])
    known = np.zeros(1, np.int8)  # 0 ask a pivot, 1 ask all pairs, 2 all pairs are in the table
    most = _MOST_PROBES * n * max(1, n.bit_length())
    while len(starts) > 1:
        if found.probes > most:
            raise RevealError(
                f"more than {most:,} probes do not tell the order of {n} terms: the answers are "
                "not those of a sum in one order, or of one whose fused nodes are too wide",
                "inconsistent",
            )
        sizes = np.diff(starts)
        at = starts[:-1] + rng.integers(0, sizes)
        pivot = members[at]
        rest = np.delete(members, at)
        owner = np.repeat(np.arange(len(sizes)), sizes - 1)
        lost = _answers(ask, n, members, starts, witness, known, pivot, rest, owner, table, found)
        order = np.lexsort((rest, lost, owner))
        rest, lost, owner = rest[order], lost[order], owner[order]
        cut = np.ones(len(rest), bool)
        # Of an exact node, terms that are leaves beside the pivot lose the two and nothing else.
        cut[1:] = (owner[1:] != owner[:-1]) | (lost[1:] != lost[:-1]) | (lost[1:] == 2)
        begin = np.flatnonzero(cut)
        count = np.diff(np.append(begin, len(rest)))
        of, value = owner[begin], lost[begin]
        base = len(tasks.pivot) + len(sizes)  # index of the first task of the next level
        more = count > 1
        stars = _stars(ask, members, starts, witness, of, value, count, rng, found)
        for at in stars.tolist():
            t = of[at]
            tasks.stars[len(tasks.pivot) + int(t)] = members[starts[t] : starts[t + 1]].tolist()
        more[stars] = False
        ref = np.where(more, ~(base + np.cumsum(more) - 1), rest[begin] if len(rest) else 0)
        groups = len(tasks.lost) + np.searchsorted(of, np.arange(len(sizes)))
        # In an exact node of three or more, `lost` alone does not tell the pivot's side from the
        # other: ((a + b + c) + d + e + f) has the same answers either way round.
        before = np.cumsum(count) - count  # leaves in earlier groups of this level, all tasks
        started = before[np.searchsorted(of, np.arange(len(sizes)))[of]] if len(of) else before
        below = 1 + before - started  # leaves of the task that hang further down, pivot included
        fused = value != below + count  # no complete binary sibling: terms of a fused node
        unclear = np.flatnonzero(fused & more & (value <= sizes[of]))
        sides = np.zeros(len(value), np.int64)
        if len(unclear):
            inside = rest[np.repeat(np.isin(np.arange(len(count)), unclear), count)]
            sides[unclear] = side(
                Round(
                    pivot[of[unclear]],
                    rest[begin[unclear]],
                    np.arange(len(unclear)),
                    inside,
                    np.append(0, np.cumsum(count[unclear])),
                    np.full(len(unclear), -1),
                )
            )
            found.rounds += 1
            found.probes += len(unclear)
        tasks.side += sides.tolist()
        tasks.pivot += pivot.tolist()
        tasks.size += sizes.tolist()
        tasks.first += groups.tolist()
        tasks.lost += value.tolist()
        tasks.count += count.tolist()
        tasks.ref += ref.tolist()
        # The next level: groups of more than one leaf.
        members = rest[np.repeat(more, count)]
        starts = np.append(0, np.cumsum(count[more]))
        witness = pivot[of][more]
        flag = np.where(fused & (count <= ALL_PAIRS), 1, 0)
        known = np.where(known[of] > 0, 2, flag)[more].astype(np.int8)
    tasks.first.append(len(tasks.lost))
    return _assembled(n, tasks, found)


def _answers(ask, n, members, starts, witness, known, pivot, rest, owner, table, found):
    """`lost` of each (pivot, rest) pair: asked, or looked up where all pairs were asked."""
    lost = np.zeros(len(rest), np.int64)
    i, j, of = [], [], []
    for t in np.flatnonzero(known == 1).tolist():
        inside = members[starts[t] : starts[t + 1]]
        left, right = np.triu_indices(len(inside), 1)
        i.append(inside[left])
        j.append(inside[right])
        of.append(np.full(len(left), t))
    pairs = sum(map(len, i))
    plain = known[owner] == 0
    asked_i = np.concatenate([*i, pivot[owner[plain]]])
    asked_j = np.concatenate([*j, rest[plain]])
    asked_of = np.concatenate([*of, owner[plain]]).astype(np.int64)
    if len(asked_i):
        order = np.argsort(asked_of, kind="stable")
        answers = np.empty(len(asked_i), np.int64)
        answers[order] = ask(
            Round(asked_i[order], asked_j[order], asked_of[order], members, starts, witness)
        )
        found.rounds += 1
        found.probes += len(asked_i)
        low = np.minimum(asked_i[:pairs], asked_j[:pairs])
        high = np.maximum(asked_i[:pairs], asked_j[:pairs])
        table.update(zip((low * n + high).tolist(), answers[:pairs].tolist(), strict=True))
        lost[plain] = answers[pairs:]
    looked = np.flatnonzero(~plain)
    if len(looked):
        a, b = pivot[owner[looked]], rest[looked]
        keys = np.minimum(a, b) * n + np.maximum(a, b)
        lost[looked] = [table[k] for k in keys.tolist()]
    return lost


def _stars(ask, members, starts, witness, of, value, count, rng, found):
    """Groups that hold all of a large subset but its pivot, if random pairs lose as much as these.

    They are the terms of one node that aligns.
    """
    sizes = np.diff(starts)
    all_of_it = (count == sizes[of] - 1) & (sizes[of] > ALL_PAIRS) & (value >= sizes[of])
    groups = np.flatnonzero(all_of_it)
    if not len(groups):
        return groups
    chosen = of[groups]
    pairs = [rng.permutation(sizes[t])[:2] for t in chosen for _ in range(STAR_PAIRS)]
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    at = np.repeat(starts[chosen], STAR_PAIRS)
    inside = [members[starts[t] : starts[t + 1]] for t in chosen]
    answers = ask(
        Round(
            members[at + first],
            members[at + second],
            np.repeat(np.arange(len(chosen)), STAR_PAIRS),
            np.concatenate(inside),
            np.append(0, np.cumsum(sizes[chosen])),
            witness[chosen],
        )
    )
    found.rounds += 1
    found.probes += len(answers)
    same = (answers.reshape(len(chosen), STAR_PAIRS) == value[groups, None]).all(axis=1)
    found.stars += int(same.sum())
    return groups[same]


def _assembled(n: int, tasks: _Tasks, found: Found) -> Found:
    """Nodes from the groups, the deepest tasks first, so that children precede their parents."""
    nodes: list[list[int]] = []
    kinds: list[int] = []
    # Of each finished task: its root, the root's children with their sizes, whether it shares the
    # node of its parent, and the `lost` of that node.
    root = [0] * len(tasks.pivot)
    parts: list[list[tuple[int, int]]] = [[] for _ in tasks.pivot]
    outer = [0] * len(tasks.pivot)

    def close(opened: list[tuple[int, int]], kind: int) -> int:
        nodes.append([child for child, _ in opened])
        kinds.append(kind if len(opened) > 2 else BINARY)
        return n + len(nodes) - 1

    for t in range(len(tasks.pivot) - 1, -1, -1):
        if t in tasks.stars:
            parts[t] = [(leaf, 1) for leaf in tasks.stars[t]]
            lost = tasks.lost[tasks.first[t]]
            if lost > tasks.size[t]:
                outer[t] = lost  # they are children of the node of the parent
            else:
                root[t] = close(parts[t], ALIGNED)
            continue
        opened = [(tasks.pivot[t], 1)]  # children of the node that is being put together
        kind = BINARY
        below = total = 1  # leaves of its first child; leaves so far
        for g in range(tasks.first[t], tasks.first[t + 1]):
            lost, count, ref = tasks.lost[g], tasks.count[g], tasks.ref[g]
            whole = [(root[~ref] if ref < 0 else ref, count)]
            split = parts[~ref] if ref < 0 else whole
            shared = outer[~ref] if ref < 0 else 0
            side = tasks.side[g] or count
            even = all(size == side for _, size in split)
            last = g + 1 == tasks.first[t + 1]
            if lost == total + count and not shared:  # a complete sibling
                fresh, new, how = True, whole, BINARY
            elif shared in (lost, count + 1) and lost == total + count:  # of one node that aligns
                fresh, new, how = True, split, ALIGNED
            elif last and lost > tasks.size[t]:  # the others in the node of our parent's pivot
                fresh, new, how = True, split if shared else whole, ALIGNED
                outer[t] = lost
            elif not shared and lost - side in (total, below) and (even or side == count):
                # terms of an exact node: the one that is open, or a new one around all so far
                fresh, new, how = lost - side == total, whole if side == count else split, EXACT
            else:
                raise _no_tree(tasks, t, lost, count)
            if fresh:
                if len(opened) > 1:
                    opened = [(close(opened, kind), total)]
                below, kind = total, how
            else:
                kind = EXACT
            opened += new
            total += count
        parts[t] = opened
        if outer[t]:
            continue  # its terms become children of the node of the parent
        root[t] = close(opened, kind) if len(opened) > 1 else opened[0][0]
    if outer[0]:
        raise _no_tree(tasks, 0, outer[0], n)
    return _stored(n, nodes, kinds, root[0], found)


def _stored(n: int, nodes: list[list[int]], kinds: list[int], root: int, found: Found) -> Found:
    """The nodes that the root reaches, children before parents, the smallest leaf first."""
    lowest = list(range(n)) + [0] * len(nodes)
    for k, node in enumerate(nodes):
        node.sort(key=lowest.__getitem__)
        lowest[n + k] = lowest[node[0]]
    used = [False] * len(nodes)
    if root >= n:
        used[root - n] = True
    for k in range(len(nodes) - 1, -1, -1):
        if used[k]:
            for child in nodes[k]:
                if child >= n:
                    used[child - n] = True
    kept = [k for k in range(len(nodes)) if used[k]]
    place = {n + k: n + at for at, k in enumerate(kept)}
    flat = [place.get(child, child) for k in kept for child in nodes[k]]
    found.children = np.array(flat, np.int64)
    found.offsets = np.cumsum([0, *(len(nodes[k]) for k in kept)], dtype=np.int64)
    found.kinds = np.array([kinds[k] for k in kept], np.int64)
    return found


def _no_tree(tasks: _Tasks, t: int, lost: int, count: int) -> RevealError:
    return RevealError(
        f"the answers fit no tree: beside term {tasks.pivot[t]} a group of {count} terms loses "
        f"{lost} units, in a subset of {tasks.size[t]}. The order depends on the values, or large "
        "values do not swallow small ones (another rounding mode?)",
        "inconsistent",
    )


def expected(
    found: Found, i: np.ndarray, j: np.ndarray, units: np.ndarray | None = None
) -> np.ndarray:
    """`lost` of the pairs (i, j) as the tree and the kinds of its nodes have it.

    Args:
        i, j: Leaf ids, int64 [K].
        units: bool [K, n], where the probes have units; None: everywhere. The pair itself counts.

    Returns:
        int64 [K].
    """
    n, inner = found.leaves, len(found.offsets) - 1
    flat, at = found.children.tolist(), found.offsets.tolist()
    parent = [-1] * (n + inner)
    size = [1] * n + [0] * inner
    for k in range(inner):
        for child in flat[at[k] : at[k + 1]]:
            parent[child] = n + k
            size[n + k] += size[child]
    begin = [0] * (n + inner)  # place of a subtree's leaves in the order of a walk
    for k in range(inner - 1, -1, -1):
        place = begin[n + k]
        for child in flat[at[k] : at[k + 1]]:
            begin[child] = place
            place += size[child]
    walk = np.argsort(begin[:n])
    lost = np.zeros(len(i), np.int64)
    for k, (a, b) in enumerate(zip(i.tolist(), j.tolist(), strict=True)):
        pair = a, b
        while parent[a] != parent[b]:  # a parent's id is larger than its children's
            if parent[a] < parent[b]:
                a = parent[a]
            else:
                b = parent[b]
        node = parent[a]
        for below in (a, b) if found.kinds[node - n] == EXACT else (node,):
            if units is None:
                lost[k] += size[below]
            else:
                leaves = walk[begin[below] : begin[below] + size[below]]
                inside = units[k, leaves] | np.isin(leaves, pair)
                lost[k] += int(inside.sum())
    return lost
