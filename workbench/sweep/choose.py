"""Choosing among runs: the front of drift against cost, a recommendation."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from workbench._result import Result, text_table
from workbench.build.config import KernelConfig
from workbench.errors import InputError
from workbench.sweep.bit_classes import (
    PARTLY,
    NothingToChoose,
    by_configuration,
    class_and_others,
    kind_of,
    question,
)
from workbench.sweep.cost_model import cost as modelled
from workbench.sweep.run import VERSIONS, Run, one_backend
from workbench.sweep.words import in_words, label, varied_names

COSTS = {
    "bytes": "bytes moved per logit",
    "model": "modelled seconds per logit (model, not calibrated)",
    "time": "wall time over the reference's (on the twin, of a simulation)",
}
_WORDS = {"code_digest": "the code", "source_digest": "the kernel's source",
          "compiler": "the compiler"}  # fmt: skip
_HEADS = {"bytes": "bytes/logit", "model": "s/logit (model)", "time": "times reference"}
DRIFTS = ("max_abs", "mean_abs", "rms", "max_ulp")
OLDER = "of an older version"


# ---- costs ---------------------------------------------------------------------------------------


def bytes_per_logit(run: Run) -> float | None:
    """Bytes between GM and UB for each logit of the launch that was counted."""
    counted = run.counters
    if not counted.get("logits"):
        return None
    moved = counted.get("gm_to_ub_bytes", 0) + counted.get("ub_to_gm_bytes", 0)
    return moved / counted["logits"]


def cost_of(run: Run, cost: str) -> float | None:
    """One of `COSTS`; None where the run does not say."""
    if cost == "bytes":
        return bytes_per_logit(run)
    if cost == "time":
        ratio = 0.0 if run.time is None else run.time.ratio
        return 1 / ratio if math.isfinite(ratio) and ratio > 0 else None
    if cost == "model":
        logits = run.counters.get("logits")
        if not logits or not run.counters.get("blocks"):
            return None  # a device counts nothing, and without its blocks a launch has no waves
        return modelled(run).overlapped / logits
    raise InputError(f"cost={cost!r}; give one of {', '.join(COSTS)}")


# ---- choosing ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice(Result):
    """One configuration over all its inputs.

    Attributes:
        label: In words.
        config: Constants and arch.
        dtype: Of the inputs.
        drift: The largest over its inputs. cost: the mean over them.
        of_reference: Drift over that of the reference on the same input, the largest over its
            inputs; NaN where the reference was not measured.
        reference_drift: That of the reference on that input.
        bits: Of all its runs, as (order, bits).
        runs: Their keys.
        op: The operator.
    """

    label: str
    config: dict[str, Any]
    dtype: str
    drift: float
    cost: float
    of_reference: float
    reference_drift: float
    bits: tuple[tuple[str | None, str | None], ...]
    runs: tuple[str, ...]
    op: str

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"config": in_words(self.op, self.config)}

    def rows(self) -> list[dict[str, Any]]:
        return [{"configuration": self.label, "drift": self.drift, "cost": self.cost}]


@dataclass(frozen=True)
class Recommendation(Result):
    """Which configuration to take, and why.

    Attributes:
        choice: That one.
        reason: In a sentence.
        runners_up: The next ones by the same rule.
        front: Where no other is better in drift and cost at once, the cheapest first.
        considered: How many configurations could be chosen.
        excluded: {why: how many were not}.
        cost, drift: What was asked: keys of `COSTS`, one of `DRIFTS`.
        limit: The largest drift allowed, where one was given.
        choices: All that were considered, the cheapest first.
    """

    choice: Choice
    reason: str
    runners_up: tuple[Choice, ...]
    front: tuple[Choice, ...]
    considered: int
    excluded: dict[str, int]
    cost: str
    drift: str
    limit: float | None = None
    choices: tuple[Choice, ...] = field(default=(), repr=False, metadata={"json": False})

    def to_dict(self) -> dict[str, Any]:
        of = {"arch": self.choice.config["arch"], "dtype": self.choice.dtype}
        return of | super().to_dict()

    def rows(self) -> list[dict[str, Any]]:
        parts = [("recommended", [self.choice]), ("next", self.runners_up), ("front", self.front)]
        return [
            {"what": what, "configuration": c.label, self.drift: c.drift, COSTS[self.cost]: c.cost}
            for what, some in parts
            for c in some
        ]

    def __str__(self) -> str:
        short = {COSTS[self.cost]: _HEADS[self.cost]}
        rows = [{short.get(k, k): v for k, v in row.items()} for row in self.rows()]
        return f"{self.title()}\n{text_table(rows)}"

    def title(self) -> str:
        left_out = ", ".join(f"{n} {why}" for why, n in self.excluded.items())
        return self.reason + (f" Left out: {left_out}." if left_out else "")


def newest(runs: Sequence[Run]) -> list[Run]:
    """Of each backend, architecture and dtype the runs of one version: the last that was begun.

    A record keeps the runs of the code before an edit beside those after it, or of two compilers.

    Example:
        >>> from workbench.sweep.run import Inputs, Provenance
        >>> def ran(code, day):
        ...     made = Provenance("ab", "g++", "0.1", "2.13.0", started=day, code_digest=code)
        ...     return Run("lm_head", {}, "dav-2201", "twin", "fp32", (2, 8, 8), Inputs("5f"), made)
        >>> both = [ran("new", "2026-02-01"), ran("old", "2026-01-01")]
        >>> [run.provenance.code_digest for run in newest(both)]
        ['new']
    """
    last: dict[tuple[Any, ...], Run] = {}
    for run in runs:
        before = last.get(_ranked(run))
        if before is None or run.provenance.started >= before.provenance.started:
            last[_ranked(run)] = run
    return [r for r in runs if r.provenance.versions == last[_ranked(r)].provenance.versions]


def _ranked(run: Run) -> tuple[Any, ...]:
    """What runs must share to be ranked against each other, beside their versions."""
    return run.op, run.backend, run.arch, run.dtype, run.out_dtype or run.dtype


def pareto(runs: Sequence[Run], *, cost: str = "bytes", drift: str = "max_abs") -> list[Choice]:
    """The configurations that no other beats in drift and cost at once, the cheapest first.

    Of several that are equal in both the first stays.

    Raises:
        NothingToChoose: No run can be chosen.
        InputError: Runs that cannot be put beside each other.
    """
    return _front(_choices(runs, cost, drift)[0])


def recommend(
    runs: Sequence[Run],
    *,
    same_bits_as: Run | str | KernelConfig | Mapping[str, Any] | None = None,
    limit: float | None = None,
    cost: str = "bytes",
    drift: str = "max_abs",
    runners_up: int = 3,
    only_newest: bool = False,
) -> Recommendation:
    """The cheapest configuration whose drift is small enough.

    A run can be chosen if it kept every bit in its invariance check and its running bound, on every
    input that others were measured on. Small enough is `limit`; without one, on each input, what
    the reference (torch.mv) is itself off by there. If nothing is small enough, what is least over
    that is chosen. Equal costs are told apart by drift, then by the cost model, then by their
    order.

    Args:
        runs: Of one backend, architecture, dtype and version (`recommend_each` takes the first
            three apart); several inputs count together: the largest drift, the mean cost.
        same_bits_as: Choose only among what has every bit in common with this one.
        limit: The largest drift allowed, in the unit of `drift`.
        cost: "bytes" (moved per logit, counted), "model" (seconds per logit, of the cost model) or
            "time" (wall time over the reference's; of the twin that is the time of a simulation).
        drift: "max_abs", "mean_abs", "rms" or "max_ulp".
        runners_up: How many of the next ones are told.
        only_newest: Leave out what is not of the newest version, as `newest` does.

    Raises:
        NothingToChoose: No run can be chosen, or `same_bits_as` is not among them.
        InputError: Several architectures, backends or versions, times of several machines, unknown
            names.
    """
    bad = isinstance(limit, bool) or not isinstance(limit, Real)
    if limit is not None and (bad or not limit >= 0):
        raise InputError(f"limit={limit!r:.60}; want the largest drift allowed, a number from 0")
    if isinstance(runners_up, bool) or not isinstance(runners_up, int) or runners_up < 0:
        raise InputError(f"runners_up={runners_up!r:.60}; want a whole number from 0")
    apart: dict[str, int] = {}
    if only_newest:
        left = newest(runs)
        if len(left) < len(runs):
            apart[OLDER] = len(runs) - len(left)
        runs = left
    among = runs
    if same_bits_as is not None:
        runs, out = class_and_others(runs, same_bits_as)
        apart |= out
    choices, excluded = _choices(runs, cost, drift, apart, among)
    # Per input: what is small on one may be far off on another, whose logits are larger.
    over = {c.runs: c.of_reference if limit is None else _over(c.drift, limit) for c in choices}
    allowed = [c for c in choices if over[c.runs] <= 1]
    if allowed:
        order = sorted(allowed, key=lambda c: (c.cost, c.drift))
    else:
        order = sorted(choices, key=lambda c: (_last(over[c.runs]), c.drift, c.cost))
    best = order[0]
    equal = [c.label for c in order[1:] if (c.cost, c.drift) == (best.cost, best.drift)]
    few = "fewest" if cost == "bytes" else "smallest"
    than = "torch.mv's own" if limit is None else f"{limit:.3g}"
    if limit is None and len(best.runs) > 1:
        than += " on each input"
    if allowed:
        if limit is None and len(best.runs) == 1:
            than += f" {best.reference_drift:.3g}"
        why = (
            f"the {few} {COSTS[cost]} ({best.cost:.4g}) among the {len(allowed)} of {len(choices)} "
            f"whose {drift} error ({best.drift:.3g} here) is at most {than}"
        )
    elif math.isnan(over[best.runs]):
        why = (
            f"the smallest {drift} error ({best.drift:.3g}) of {len(choices)}; what is small "
            "enough is not known, as torch.mv was not measured beside them: give a limit"
        )
    else:
        of = f"none of {len(choices)} is within {than}"
        why = f"the smallest {drift} error ({best.drift:.3g}); {of}"
    if same_bits_as is not None:
        why += ", and every bit is that of the configuration to keep"
    others = "1 other is" if len(equal) == 1 else f"{len(equal)} others are"
    why += f"; {others} equal in both" if equal else ""
    return Recommendation(
        choice=best,
        reason=f"{best.config['arch']}, {best.dtype}: {best.label} has {why}.",
        runners_up=tuple(order[1 : 1 + runners_up]),
        front=tuple(_front(choices)),
        considered=len(choices),
        excluded=excluded,
        cost=cost,
        drift=drift,
        limit=limit,
        choices=tuple(choices),
    )


def _over(drift: float, allowed: float) -> float:
    """Drift as a multiple of what is allowed; of nothing allowed, nothing is once that."""
    if allowed:
        return drift / allowed
    return math.inf if drift else 1.0


def _last(value: float) -> float:
    """NaN behind every number."""
    return math.inf if math.isnan(value) else value


def recommend_each(runs: Sequence[Run], **options: Any) -> list[Recommendation]:
    """`recommend` for each backend, architecture and dtype that has something to choose from.

    Raises:
        NothingToChoose: `same_bits_as` that is in none of them.
        InputError: As `recommend`.
    """
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_ranked(run), []).append(run)
    found, said = [], None
    for group in groups.values():
        try:
            found.append(recommend(group, **options))
        except NothingToChoose as error:
            said = said or error
    if said and not found and options.get("same_bits_as") is not None:
        raise said
    return found


def _choices(
    runs: Sequence[Run],
    cost: str,
    drift: str,
    apart: Mapping[str, int] | None = None,
    among: Sequence[Run] = (),
) -> tuple[list[Choice], dict[str, int]]:
    """What can be chosen, and why other runs cannot; `apart`: those taken out before, `among` all.

    A label has what varies among all of them: also what all that are left have in common.
    """
    checked(cost, drift)
    excluded = dict(apart or {})
    every = {question(run) for run in runs if run.status == "ok"}
    good: list[list[Run]] = []
    for group in by_configuration(runs).values():
        reasons = [why_not(run, cost, drift) for run in group]
        for why in filter(None, reasons):
            excluded[why] = excluded.get(why, 0) + 1
        if any(reasons):
            continue  # also where it ran on other inputs
        kind = kind_of(question(group[0]))
        if {question(run) for run in group} == {one for one in every if kind_of(one) == kind}:
            good.append(group)
        else:  # a mean over other inputs is another figure
            excluded[PARTLY] = excluded.get(PARTLY, 0) + len(group)
    chosen = [run for group in good for run in group]
    if not chosen:
        reasons = [f"{n} {why}" for why, n in excluded.items()]
        raise NothingToChoose(f"no run can be chosen: {', '.join(reasons) or 'there are none'}")
    _alike_or_refused(chosen, cost)
    varied = varied_names(among or runs) or list(chosen[0].config)
    made = [_choice(group, cost, drift, varied) for group in good]
    # Stable: what the model cannot tell apart stays in the order of the runs.
    made.sort(key=lambda pair: (pair[0].cost, pair[0].drift, pair[1]))
    return [choice for choice, _ in made], excluded


def _alike_or_refused(runs: Sequence[Run], cost: str) -> None:
    """Raise InputError unless the runs can be ranked against each other."""
    one_backend(runs)
    # Not a matter of taste: another dtype is another question, with other inputs.
    names = ["op", "arch", "dtype", "out_dtype"]
    if cost == "time":  # a ratio belongs to the machine it was measured on, and to its reference
        names += ["provenance.machine", "provenance.cpu", "time.reference", "provenance.outputs"]
    for name in names:
        of = operator.attrgetter(name)
        found = list(dict.fromkeys(of(run) for run in runs))
        if name == "out_dtype":
            found = list(dict.fromkeys(run.out_dtype or run.dtype for run in runs))
        if len(found) > 1:
            told = " and ".join(str(value) or "none" for value in found)
            raise InputError(
                f"these runs are of {name.rpartition('.')[2]} {told}: "
                "choose for one at a time, with recommend_each (for backend, arch, dtype) or "
                f"[run for run in runs if run.{name} == {found[0]!r}]"
            )
    for name in VERSIONS:
        values = list(dict.fromkeys(run.provenance.versions[name] for run in runs))
        if len(values) > 1:
            told = ", ".join(value[:40] or "one without a name" for value in values)
            raise InputError(
                f"these runs are of {len(values)} versions of {_WORDS.get(name, name)} ({told}), "
                "as a record keeps them: what differs may be the versions. Choose among those of "
                "the newest, recommend(runs, only_newest=True) or choose.newest(runs), or of any: "
                f"[run for run in runs if run.provenance.versions[{name!r}] == {values[0]!r}]"
            )


def _choice(group: list[Run], cost: str, drift: str, varied: list[str]) -> tuple[Choice, float]:
    first = group[0]
    drifts = [getattr(run.drift, drift) for run in group]
    references = [getattr(run.reference_drift, drift, math.nan) for run in group]
    over = [_over(a, b) for a, b in zip(drifts, references, strict=True)]
    worst = max(range(len(group)), key=lambda k: _last(over[k]))
    costs = [cost_of(run, cost) or 0.0 for run in group]
    model = [cost_of(run, "model") for run in group]
    made = Choice(
        label=label(first, varied),
        config={"arch": first.arch, **first.config},
        dtype=first.dtype,
        drift=max(drifts),
        cost=sum(costs) / len(costs),
        of_reference=over[worst],
        reference_drift=references[worst],
        bits=tuple((run.order_hash, run.bits) for run in group),
        runs=tuple(run.key for run in group),
        op=first.op,
    )
    return made, math.inf if None in model else sum(filter(None, model))


def checked(cost: str, drift: str) -> None:
    """Raise InputError unless both are known."""
    for name, given, known in (("cost", cost, COSTS), ("drift", drift, DRIFTS)):
        if not isinstance(given, str) or given not in known:
            raise InputError(f"{name}={given!r:.60}; give one of {', '.join(known)}")


def why_not(run: Run, cost: str, drift: str = "max_abs") -> str:
    """Why a run cannot be chosen; empty where it can."""
    if run.status != "ok":
        return run.status
    if run.invariance is None or run.bound is None:
        return "without an invariance check" if run.invariance is None else "without a bound"
    if not run.invariance.passed:
        return "not invariant"
    if not run.bound.worst_ratio <= 1:
        return "over the derived bound"
    if run.drift is None or not math.isfinite(getattr(run.drift, drift)):
        return "without a finite drift"
    found = cost_of(run, cost)
    return "" if found is not None and math.isfinite(found) else f"without {COSTS[cost]}"


def _front(choices: Sequence[Choice]) -> list[Choice]:
    front: list[Choice] = []
    for choice in sorted(choices, key=lambda c: (c.cost, c.drift)):
        if not front or choice.drift < front[-1].drift:
            front.append(choice)
    return front
