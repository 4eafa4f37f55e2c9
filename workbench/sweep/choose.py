"""Choosing among runs: bit classes, the front of drift against cost, a recommendation."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result
from workbench.build.config import KernelConfig, spec
from workbench.errors import ConfigError, InputError
from workbench.orders.classes import letter, value_text
from workbench.sweep.cost_model import cost as modelled
from workbench.sweep.run import Run, one_backend

COSTS = {
    "bytes": "bytes moved per logit",
    "model": "modelled seconds per logit",
    "time": "wall time over that of the reference, on this machine",
}
DRIFTS = ("max_abs", "mean_abs", "rms", "max_ulp")


# ---- bit classes ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunClass(Result):
    """Runs of one question (dtype, shape, input) with one order and the same bits."""

    letter: str
    order_hash: str
    bits: str
    question: str
    runs: tuple[Run, ...] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "letter": self.letter,
            "hash": self.order_hash,
            "bits": self.bits,
            "question": self.question,
            "configs": [{"arch": run.arch, **run.config} for run in self.runs],
        }

    def rows(self) -> list[dict[str, Any]]:
        return [{"class": self.letter, "configuration": label(run)} for run in self.runs]


def question(run: Run) -> tuple[Any, ...]:
    """What two runs must share for their bits to be comparable."""
    out = run.out_dtype or run.dtype
    return run.op, run.dtype, out, run.shape, run.inputs.fixture_id, run.backend


def classes(runs: Sequence[Run]) -> list[RunClass]:
    """Runs grouped by order and bits. A run without a revealed order is in none."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        if run.status == "ok" and run.order_hash and run.bits:
            groups.setdefault((question(run), run.order_hash, run.bits), []).append(run)
    return [
        RunClass(letter(i), order, bits, _asked(members[0]), tuple(members))
        for i, ((_, order, bits), members) in enumerate(groups.items())
    ]


def disagreements(runs: Sequence[Run]) -> list[str]:
    """Sentences on runs of one question that have one order and other bits."""
    seen: dict[tuple[Any, ...], Run] = {}
    found = []
    for run in runs:
        if run.status != "ok" or not run.order_hash:
            continue
        first = seen.setdefault((question(run), run.order_hash), run)
        if first.bits != run.bits:
            found.append(
                f"one order and other bits: {label(first)} and {label(run)} ({_asked(run)}). A "
                "constant that must not decide bits does, or the kernel reads what it did not write"
            )
    return found


def _asked(run: Run) -> str:
    out = "" if run.out_dtype in (None, run.dtype) else f" -> {run.out_dtype}"
    size = " x ".join(map(str, run.shape))
    return f"{run.dtype}{out}, {size}, inputs {run.inputs.fixture_id}, {run.backend}"


def in_class_of(runs: Sequence[Run], of: Run | str | KernelConfig | Mapping[str, Any]) -> list[Run]:
    """The runs that have every bit in common with a configuration: tuning that changes no bit.

    Args:
        of: A run, its key, or a configuration that is among the runs.

    Raises:
        InputError: It is not among them, or it has no bit class.
    """
    wanted = {(question(r), r.order_hash, r.bits) for r in _reference(runs, of)}
    return [
        run
        for run in runs
        if run.status == "ok" and (question(run), run.order_hash, run.bits) in wanted
    ]


def _reference(runs: Sequence[Run], of: Any) -> list[Run]:
    if isinstance(of, Run):
        found = [of]
    elif isinstance(of, str):
        found = [run for run in runs if run.key == of]
    elif isinstance(of, (KernelConfig, Mapping)):
        given = of.to_dict() if isinstance(of, KernelConfig) else dict(of)
        arch = given.pop("arch", None)
        given = {name: _number(runs, name, v) for name, v in given.items()}
        found = [
            run
            for run in runs
            if (arch is None or run.arch == arch)
            and all(run.config.get(name) == v for name, v in given.items())
        ]
    else:
        raise InputError(f"{of!r:.60}; give a run, its key, or a configuration")
    good = [run for run in found if run.status == "ok" and run.order_hash and run.bits]
    if not good:
        why = "has no bit class" if found else "is not among these runs"
        raise InputError(f"{of!s:.80} {why}: measure it in the same sweep")
    return good


def _number(runs: Sequence[Run], name: str, value: Any) -> Any:
    if not isinstance(value, str) or not runs:
        return value
    try:
        return getattr(spec(runs[0].op).complete(KernelConfig().replace(**{name: value})), name)
    except ConfigError:
        return value


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
        return None if run.time is None else 1 / run.time.ratio
    if cost == "model":
        logits = run.counters.get("logits")
        return modelled(run).overlapped / logits if logits else None
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
        reference_drift: That of the reference, on the input where it is smallest.
        bits: Of all its runs, as (order, bits).
        runs: Their keys.
    """

    label: str
    config: dict[str, Any]
    dtype: str
    drift: float
    cost: float
    reference_drift: float
    bits: tuple[tuple[str | None, str | None], ...]
    runs: tuple[str, ...]

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
    """

    choice: Choice
    reason: str
    runners_up: tuple[Choice, ...]
    front: tuple[Choice, ...]
    considered: int
    excluded: dict[str, int]
    cost: str
    drift: str

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

    def title(self) -> str:
        left_out = ", ".join(f"{n} {why}" for why, n in self.excluded.items())
        return self.reason + (f" Left out: {left_out}." if left_out else "")


def pareto(runs: Sequence[Run], *, cost: str = "bytes", drift: str = "max_abs") -> list[Choice]:
    """The configurations that no other beats in drift and cost at once, the cheapest first.

    Of several that are equal in both the first stays.

    Raises:
        InputError: Nothing to choose from, or runs that cannot be put beside each other.
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
) -> Recommendation:
    """The cheapest configuration whose drift is small enough.

    A run can be chosen if it kept every bit in its invariance check and its running bound. Small
    enough is `limit`; without one, what the reference (torch.mv) is itself off by on that input.
    If nothing is small enough, the smallest drift is chosen. Equal costs are told apart by drift,
    then by the cost model, then by their order.

    Args:
        runs: Of one backend, architecture and dtype (`recommend_each` takes them apart); several
            inputs count together: the largest drift, the mean cost.
        same_bits_as: Choose only among what has every bit in common with this one.
        limit: The largest drift allowed, in the unit of `drift`.
        cost: "bytes" (moved per logit, counted), "model" (seconds per logit, of the cost model) or
            "time" (wall time over the reference's; of the twin that is the time of a simulation).
        drift: "max_abs", "mean_abs", "rms" or "max_ulp".

    Raises:
        InputError: Nothing to choose from, several architectures or backends, unknown names.
    """
    if same_bits_as is not None:
        kept = in_class_of(runs, same_bits_as)
        keys = {run.key for run in kept}
        others = sum(run.status == "ok" and run.key not in keys for run in runs)
        choices, excluded = _choices(kept, cost, drift)
        excluded |= {"of other bits": others} if others else {}
    else:
        choices, excluded = _choices(runs, cost, drift)
    allowed = [c for c in choices if c.drift <= (c.reference_drift if limit is None else limit)]
    if allowed:
        order = sorted(allowed, key=lambda c: (c.cost, c.drift))
    else:
        order = sorted(choices, key=lambda c: (c.drift, c.cost))
    best = order[0]
    equal = [c.label for c in order[1:] if (c.cost, c.drift) == (best.cost, best.drift)]
    if allowed:
        of = f"the {len(allowed)} of {len(choices)}"
        than = f"torch.mv's own {best.reference_drift:.3g}" if limit is None else f"{limit:.3g}"
        why = (
            f"the fewest {COSTS[cost]} ({best.cost:.4g})" if cost == "bytes"
            else f"the smallest {COSTS[cost]} ({best.cost:.4g})"
        )  # fmt: skip
        why += f" among {of} whose {drift} error ({best.drift:.3g} here) is at most {than}"
    else:
        why = (
            f"the smallest {drift} error ({best.drift:.3g}); none of {len(choices)} is within "
            + ("torch.mv's own" if limit is None else f"{limit:.3g}")
        )
    if same_bits_as is not None:
        why += ", and every bit is that of the configuration to keep"
    why += f"; {len(equal)} others are equal in both" if equal else ""
    return Recommendation(
        choice=best,
        reason=f"{best.label}: {why}.",
        runners_up=tuple(order[1 : 1 + runners_up]),
        front=tuple(_front(choices)),
        considered=len(choices),
        excluded=excluded,
        cost=cost,
        drift=drift,
    )


def recommend_each(runs: Sequence[Run], **options: Any) -> list[Recommendation]:
    """`recommend` for each backend, architecture and dtype that has something to choose from.

    Raises:
        InputError: `same_bits_as` that is in none of them.
    """
    if options.get("same_bits_as") is not None:
        in_class_of(runs, options["same_bits_as"])
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        name = (run.op, run.backend, run.arch, run.dtype, run.out_dtype)
        groups.setdefault(name, []).append(run)
    found = []
    for group in groups.values():
        with contextlib.suppress(InputError):  # nothing there to choose from
            found.append(recommend(group, **options))
    return found


def _choices(runs: Sequence[Run], cost: str, drift: str) -> tuple[list[Choice], dict[str, int]]:
    """What can be chosen, and why other runs cannot."""
    checked(cost, drift)
    excluded: dict[str, int] = {}
    groups: dict[str, list[Run]] = {}
    bad: set[str] = set()
    for run in runs:
        name = json.dumps([run.op, run.arch, run.dtype, run.out_dtype, run.config], sort_keys=True)
        why = why_not(run, cost)
        if why:
            excluded[why] = excluded.get(why, 0) + 1
            bad.add(name)  # also where it ran on other inputs
        else:
            groups.setdefault(name, []).append(run)
    good = [group for name, group in groups.items() if name not in bad]
    chosen = [run for group in good for run in group]
    if not chosen:
        reasons = ", ".join(f"{n} {why}" for why, n in excluded.items()) or "there are none"
        raise InputError(f"no run can be chosen: {reasons}")
    one_backend(chosen)
    # Neither is a matter of taste: another dtype is another question, with other inputs.
    for what in ("op", "arch", "dtype", "out_dtype"):
        found = list(dict.fromkeys(getattr(run, what) for run in chosen))
        if len(found) > 1:
            raise InputError(
                f"these runs are of {what} {' and '.join(map(str, found))}: choose for one at a "
                f"time, with recommend_each or [run for run in runs if run.{what} == {found[0]!r}]"
            )
    varied = _varied(chosen)
    made = [_choice(group, cost, drift, varied) for group in good]
    # Stable: what the model cannot tell apart stays in the order of the runs.
    made.sort(key=lambda pair: (pair[0].cost, pair[0].drift, pair[1]))
    return [choice for choice, _ in made], excluded


def _choice(group: list[Run], cost: str, drift: str, varied: list[str]) -> tuple[Choice, float]:
    first = group[0]
    drifts = [getattr(run.drift, drift) for run in group]
    references = [getattr(run.reference_drift, drift) for run in group if run.reference_drift]
    costs = [cost_of(run, cost) or 0.0 for run in group]
    model = sum(cost_of(run, "model") or 0.0 for run in group)
    made = Choice(
        label=label(first, varied),
        config={"arch": first.arch, **first.config},
        dtype=first.dtype,
        drift=max(drifts),
        cost=sum(costs) / len(costs),
        reference_drift=min(references, default=math.nan),
        bits=tuple((run.order_hash, run.bits) for run in group),
        runs=tuple(run.key for run in group),
    )
    return made, model


def checked(cost: str, drift: str) -> None:
    """Raise InputError unless both are known."""
    for name, given, known in (("cost", cost, COSTS), ("drift", drift, DRIFTS)):
        if given not in known:
            raise InputError(f"{name}={given!r}; give one of {', '.join(known)}")


def why_not(run: Run, cost: str) -> str:
    """Why a run cannot be chosen; empty where it can."""
    if run.status != "ok":
        return run.status
    if run.invariance is not None and not run.invariance.passed:
        return "not invariant"
    if run.bound is not None and not run.bound.worst_ratio <= 1:
        return "over the derived bound"
    if run.drift is None or not math.isfinite(run.drift.max_abs):
        return "without a finite drift"
    if cost_of(run, cost) is None:
        return f"without {COSTS[cost]}"
    return ""


def _front(choices: Sequence[Choice]) -> list[Choice]:
    front: list[Choice] = []
    for choice in sorted(choices, key=lambda c: (c.cost, c.drift)):
        if not front or choice.drift < front[-1].drift:
            front.append(choice)
    return front


# ---- words ---------------------------------------------------------------------------------------


def value(run: Run, name: str) -> Any:
    """A constant by the name of its value; or "arch", "dtype", "shape", "inputs"."""
    if name == "shape":
        return " x ".join(map(str, run.shape))
    if name == "inputs":
        return run.inputs.name or run.inputs.fixture_id
    if name in ("arch", "dtype"):
        return getattr(run, name)
    given = run.config.get(name)
    return given if given is None or isinstance(given, dict) else value_text(run.op, name, given)


def label(run: Run, varied: Sequence[str] | None = None) -> str:
    """A configuration in words: all of it, or the names that vary."""
    names = ["arch", "dtype", *run.config] if varied is None else varied
    return ", ".join(f"{name} {value(run, name)}" for name in names) or run.op


def _varied(runs: Sequence[Run]) -> list[str]:
    names = list(dict.fromkeys(name for run in runs for name in run.config))
    return [n for n in names if len({str(value(run, n)) for run in runs}) > 1]
