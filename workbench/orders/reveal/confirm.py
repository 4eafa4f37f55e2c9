"""Probes as calls, and what is confirmed around them: that a function sums, in one order."""

from __future__ import annotations

import numpy as np

from workbench.orders.reveal import probing
from workbench.orders.reveal.targets import COUNTS, RevealError, Target, counts_exactly
from workbench.orders.tree import ReductionTree

_SAMPLE = 48  # probes or sums in a check where many rows fit into a call
_FEW = 12  # where each of them is a call


def sample_size(target: Target) -> int:
    """Sums that a check asks for."""
    return _SAMPLE if target.rows_per_call >= _SAMPLE else _FEW


def random_terms(target: Target, rows: int, rng: np.random.Generator) -> np.ndarray:
    """[rows, n] values of the target's dtype, as fp64: N(0, 1); every other row of mixed scales."""
    terms = rng.standard_normal((rows, target.n))
    terms[1::2] *= 2.0 ** rng.integers(-6, 7, (len(terms[1::2]), target.n))
    return target.decode(target.encode(terms)).astype(np.float64)


def probe_terms(
    target: Target,
    i: np.ndarray,
    j: np.ndarray,
    big: float | None = None,
    unit: float | None = None,
) -> np.ndarray:
    """[K, n] fp64: units, +M at i and -M at j."""
    terms = np.full((len(i), target.n), target.unit if unit is None else unit)
    at = np.arange(len(i))
    terms[at, i] = target.big if big is None else big
    terms[at, j] = -terms[at, i]
    return terms


class Prober:
    """Answers rounds of questions by calls.

    Where the results can hold n units, every leaf that is not ±M has one. Otherwise the units
    stand in the subset that is asked about, in parts that the results can hold, and the other
    leaves are 0.
    """

    def __init__(self, target: Target, rng: np.random.Generator, check: bool = True) -> None:
        self.target = target
        self.probes = 0
        self.count = self._count(rng) if check and target.n else counts_exactly(target)
        self.masked = target.n > self.count
        self.units = f"at most {self.count}" if self.masked else "all"
        self._one = target.encode([target.unit])[0]
        self._big = target.encode([target.big, -target.big])
        self._buffers: dict[bool, np.ndarray] = {}

    def _count(self, rng: np.random.Generator) -> int:
        """Units that are counted exactly, found by summing some."""
        target, most = self.target, counts_exactly(self.target)
        for count in sorted({most, *(c for c in COUNTS.values() if c < most)}, reverse=True):
            top = min(count, target.n)
            # Odd numbers near the top are the first that a short significand loses.
            odd = {s | 1 for s in rng.integers(top // 2, top, 8).tolist()}
            sizes = sorted({top, *(s for s in odd if s <= top)})
            terms = np.zeros((len(sizes), target.n))
            for row, size in zip(terms, sizes, strict=True):
                row[rng.permutation(target.n)[:size]] = target.unit
            sums = target.sums(terms).astype(np.float64) / target.unit
            if (sums == sizes).all():
                return count
            wrong = int(np.flatnonzero(sums != sizes)[0])
            if top <= min(COUNTS.values()):
                raise RevealError(
                    f"{target.name} gives {sums[wrong]:g} units for {sizes[wrong]} terms of one "
                    f"unit ({target.unit:g}) among {target.n} ({target.dtype}). Wanted the plain "
                    "sum of all terms: no mean, no scale, no bias",
                    "not a sum",
                )
        raise AssertionError("unreachable: COUNTS has a smallest entry")

    def ask(self, asked: probing.Round) -> np.ndarray:
        """`lost` of each pair of the round."""
        return self._masked(asked) if self.masked else self._plain(asked)

    def side(self, asked: probing.Round) -> np.ndarray:
        """Units lost on the side of j: those of the pair's subset alone count, and j itself."""
        return self._masked(asked) - 1  # ±M are two, and i is outside

    def _plain(self, asked: probing.Round) -> np.ndarray:
        target, total = self.target, len(asked.i)
        step = target.rows_per_call
        slots = None if target.slots is None else np.array(target.positions)
        buffer = self._buffer(min(step, total), masked=False)
        counts = np.empty(total)
        for low in range(0, total, step):
            i, j = asked.i[low : low + step], asked.j[low : low + step]
            row = np.arange(len(i)) if slots is None else slots[: len(i)]
            part = buffer[: len(i)] if slots is None else buffer
            part[row, i], part[row, j] = self._big
            counts[low : low + len(i)] = target.call(part)[row]
            part[row, i] = part[row, j] = self._one
        self.probes += total
        return 2 + self._lost(counts, np.full(total, target.n - 2))

    def _buffer(self, rows: int, masked: bool) -> np.ndarray:
        """Terms of a call: units everywhere, or zeros. One buffer, since fresh memory is slow."""
        rows = self.target.slots or rows
        held = self._buffers.get(masked)
        if held is None or len(held) < rows:
            shape = rows, self.target.n
            held = np.empty(shape, self.target.stored) if masked else self.target.room(rows)
            held[:] = self.target.encode(0.0) if masked else self._one
            self._buffers[masked] = held
        return held

    def _masked(self, asked: probing.Round) -> np.ndarray:
        """`lost`, with units in the subset of each pair (and at its witness) only."""
        target = self.target
        lost = np.full(len(asked.i), 2)
        jobs: list[tuple[np.ndarray, np.ndarray]] = []  # which pairs, with units at which leaves
        bounds = np.searchsorted(asked.owner, np.arange(len(asked.starts)))
        room = step = target.rows_per_call
        for t in range(len(asked.starts) - 1):
            units = asked.members[asked.starts[t] : asked.starts[t + 1]]
            if asked.witness[t] >= 0:
                units = np.append(units, asked.witness[t])
            for low in range(0, len(units), self.count):
                at = bounds[t]
                while at < bounds[t + 1]:
                    pairs = np.arange(at, min(at + room, bounds[t + 1]))
                    jobs.append((pairs, units[low : low + self.count]))
                    at, room = at + len(pairs), room - len(pairs)
                    if not room:
                        self._call(asked, jobs, lost)
                        jobs, room = [], step
        if jobs:
            self._call(asked, jobs, lost)
        return lost

    def _call(
        self,
        asked: probing.Round,
        jobs: list[tuple[np.ndarray, np.ndarray]],
        lost: np.ndarray,
    ) -> None:
        """One call with the probes of `jobs`; what they lose is added to `lost`."""
        target, used = self.target, sum(len(pairs) for pairs, _ in jobs)
        slots = np.arange(used) if target.slots is None else np.array(target.positions)[:used]
        part = self._buffer(used, masked=True)
        part = part[:used] if target.slots is None else part
        part[slots] = target.encode(0.0)
        units, at = np.empty(used, np.int64), 0
        inside = np.zeros(target.n, bool)
        for pairs, leaves in jobs:
            row = slots[at : at + len(pairs)]
            i, j = asked.i[pairs], asked.j[pairs]
            part[np.ix_(row, leaves)] = self._one
            part[row, i], part[row, j] = self._big
            inside[leaves] = True
            units[at : at + len(pairs)] = len(leaves) - inside[i] - inside[j].astype(int)
            inside[leaves] = False
            at += len(pairs)
        counts = target.call(part)[slots]
        self.probes += used
        np.add.at(lost, np.concatenate([pairs for pairs, _ in jobs]), self._lost(counts, units))

    def _lost(self, sums: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Units that do not count, of those given; a sum that is no count is refused."""
        counts = sums.astype(np.float64) / self.target.unit
        bad = ~((counts >= 0) & (counts <= units) & (counts == np.floor(counts)))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            if not np.isfinite(sums[at]):
                self._refuse_sizes()
                raise RevealError(
                    f"{self.target.name} gives {sums[at]:g} for a probe with M = "
                    f"{self.target.big:g}: it adds in a dtype of a shorter range than "
                    f"{self.target.dtype}. Ask with the dtype that it adds in, e.g. dtype='fp16'",
                    "accumulator too narrow",
                )
            raise RevealError(
                f"{self.target.name} gives {sums[at]:g} for a probe of +M, -M and {units[at]} "
                f"units of {self.target.unit:g}, which is no count of units. Wanted sums that "
                "round to the nearest, of terms that are added as they are. For sums rounded "
                "toward zero: workbench.orders.reveal.positive.reveal_positive",
                "not a sum",
            )
        return (units - counts).astype(np.int64)

    def _refuse_sizes(self) -> None:
        """Raise where 4 and -4 do not cancel."""
        terms = np.zeros((1, self.target.n))
        terms[0, :2] = 4, -4
        total = self.target.sums(terms)[0]
        if total != 0:
            raise RevealError(
                f"{self.target.name} gives {total:g} for the terms 4 and -4 among zeros: it does "
                "not add the terms as they are (their sizes, or squares?). For an increasing "
                "function of a sum of positive terms: "
                "workbench.orders.reveal.positive.reveal_positive",
                "not a sum",
            )


def before(target: Target, rng: np.random.Generator) -> list[str]:
    """Confirm that results repeat and that rows do not see each other.

    Raises:
        RevealError: They do not.
    """
    n, some = target.n, sample_size(target)
    i = rng.integers(0, n, some)
    j = (i + rng.integers(1, n, some)) % n if n > 1 else i
    stored = target.encode(
        np.where(i == j, target.unit, 0)[:, None] + random_terms(target, some, rng)
    )
    if n > 1:
        stored[: some // 2] = target.encode(probe_terms(target, i, j)[: some // 2])
    terms = target.decode(stored)
    first = target.sums(terms)
    again = target.sums(terms)
    if _differ(first, again):
        raise RevealError(
            f"{target.name} gives other bits when it is called again with the same terms; an order "
            "that changes from call to call (atomics, threads) cannot be revealed",
            "not repeatable",
        )
    done = [f"{some} sums repeat their bits"]
    if target.slots is None:
        done.append(_independent(target, terms, first))
    elif len(target.positions) > 1:
        turned = target.sums(terms[::-1])[::-1]
        if _differ(first, turned):
            raise RevealError(
                f"{target.name}: {len(target.positions)} slots of a call were said to share one "
                "order and give different bits for the same terms; ask for one, or use row_orders",
                "rows not independent",
            )
        done.append(f"{len(target.positions)} slots of a call agree on {some} sums")
    return done


def _independent(target: Target, terms: np.ndarray, first: np.ndarray) -> str:
    """A row alone, among others, at another place and in a large call has the same bits."""
    last = len(terms) - 1
    alone = np.concatenate([target.sums(terms[k : k + 1]) for k in (0, 1, last)])
    few = target.sums(terms[:5])
    turned = target.sums(terms[::-1])[::-1]
    large = min(target.rows_per_call, max(target.n - 1, len(terms)))
    tiled = target.call(_tiled(target, terms, large))
    bad = [
        _differ(alone, first[[0, 1, last]]),
        _differ(few, first[:5]),
        _differ(turned, first),
        _differ(tiled, np.resize(first, large)),
    ]
    if any(bad):
        how = ("alone", "among five", "at another place", f"in a call of {large} rows")
        where = ", ".join(h for h, b in zip(how, bad, strict=True) if b)
        raise RevealError(
            f"{target.name}: rows are not independent: the same terms give other bits {where} than "
            f"in a call of {len(terms)} rows. Say which call is meant: reveal(…, rows=N, row=r) "
            "asks for row r of calls of exactly N rows",
            "rows not independent",
        )
    return f"rows are independent: the same bits alone, elsewhere, and among 5 to {large} rows"


def _tiled(target: Target, terms: np.ndarray, rows: int) -> np.ndarray:
    """The terms over and over, as stored."""
    stored, room = target.encode(terms), target.room(rows)
    for low in range(0, rows, len(stored)):
        room[low : low + len(stored)] = stored[: rows - low]
    return room


def after(
    target: Target,
    tree: ReductionTree,
    found: probing.Found,
    prober: Prober,
    rng: np.random.Generator,
    unexplained: str = "refuse",
) -> tuple[str | None, list[str]]:
    """Confirm that the tree explains probes of other values, and sums of random terms.

    Returns:
        What arithmetic reproduces the random sums, or None; and what was confirmed.

    Raises:
        RevealError: It does not explain the probes or (unless `unexplained` says so) the random
            sums, or the order depends on the values.
    """
    from workbench.orders.reveal import explain  # which imports this module

    done = []
    if target.n > 1:
        done.append(explain.other_probes(target, found, prober, rng))
    arithmetic, note = explain.random_sums(target, tree, found, rng, unexplained)
    return arithmetic, [*done, note]


def _differ(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether any bits differ."""
    return np.ascontiguousarray(a).tobytes() != np.ascontiguousarray(b).tobytes()
