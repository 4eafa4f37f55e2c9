"""Runs that share every bit, and tuning that changes none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result
from workbench.build.config import KernelConfig, spec
from workbench.errors import ConfigError, InputError
from workbench.orders.classes import letter
from workbench.sweep.run import Run
from workbench.sweep.words import in_words, label

PARTLY = "not measured on every input"


class NothingToChoose(InputError):
    """None of the runs can be chosen."""


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
            "configs": [in_words(run.op, {"arch": run.arch, **run.config}) for run in self.runs],
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

    A configuration is in its class if its bits are the same on every input and shape that either
    of the two was measured on; if they differ on one, or are not known there, all its runs are out.

    Args:
        of: A configuration that is among the runs, or a run of it, or that run's key.

    Raises:
        NothingToChoose: It is not among them, or it has no bit class.
        InputError: It is several configurations that do not share their bits.
    """
    return class_and_others(runs, of)[0]


def class_and_others(runs: Sequence[Run], of: Any) -> tuple[list[Run], dict[str, int]]:
    """The runs of a class, and how many others are not in it, by reason."""
    wanted: dict[tuple[Any, ...], Run] = {}
    for run in _reference(runs, of):
        first = wanted.setdefault(question(run), run)
        if _bits(first) != _bits(run):
            raise InputError(
                f"{of!s:.80} has two bit classes among these runs: {label(first)} and {label(run)} "
                f"({_asked(run)}). Give more of its constants, its arch, or runs of one source"
            )
    asked: dict[str, set[tuple[Any, ...]]] = {}
    for one in wanted:
        asked.setdefault(kind_of(one), set()).add(one)
    kept: list[Run] = []
    excluded: dict[str, int] = {}
    for group in by_configuration(runs).values():
        ok = [run for run in group if run.status == "ok"]
        met = [run for run in ok if question(run) in wanted]
        if any(_bits(run) != _bits(wanted[question(run)]) for run in met):
            why = "of other bits"
        elif {question(run) for run in group} != asked.get(
            kind_of(question(group[0]))
        ) or ok != group:
            why = PARTLY
        else:
            kept += group
            continue
        if ok:
            excluded[why] = excluded.get(why, 0) + len(ok)
    order = {id(run): place for place, run in enumerate(runs)}
    return sorted(kept, key=lambda run: order[id(run)]), excluded


def _bits(run: Run) -> tuple[str | None, str | None]:
    return run.order_hash, run.bits


def kind_of(one: tuple[Any, ...]) -> str:
    """What a configuration keeps from input to input: a question without shape and input."""
    op, dtype, out, _, _, backend = one
    return json.dumps([op, dtype, out, backend])


def by_configuration(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of one configuration, on whatever inputs."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        of = [kind_of(question(run)), run.arch, run.config]
        groups.setdefault(json.dumps(of, sort_keys=True), []).append(run)
    return groups


def _reference(runs: Sequence[Run], of: Any) -> list[Run]:
    if isinstance(of, str):
        given = next((run for run in runs if run.key == of), None)
        found = [] if given is None else _alike(runs, given)
    elif isinstance(of, Run):
        found = _alike(runs, of)
    elif isinstance(of, (KernelConfig, Mapping)):
        constants = of.to_dict() if isinstance(of, KernelConfig) else dict(of)
        arch = constants.pop("arch", None)
        constants = {name: _number(runs, name, v) for name, v in constants.items()}
        found = [
            run
            for run in runs
            if (arch is None or run.arch == arch)
            and all(run.config.get(name) == v for name, v in constants.items())
        ]
    else:
        raise InputError(f"{of!r:.60}; give a run, its key, or a configuration")
    good = [run for run in found if run.status == "ok" and run.order_hash and run.bits]
    if not found:
        raise NothingToChoose(
            f"{of!s:.80} is not among these runs: measure it in the same sweep, on the same inputs"
        )
    if not good:
        why = next((run.error for run in found if run.error), "its order was not revealed")
        raise NothingToChoose(
            f"{of!s:.80} has no bit class ({found[0].status}: {why}). Choose another one to keep, "
            "or measure it in the same sweep without that error"
        )
    return good


def _alike(runs: Sequence[Run], given: Run) -> list[Run]:
    """All runs of the configuration of `given`, itself too if it is from another record."""
    groups = by_configuration([given, *runs])
    (found,) = [group for group in groups.values() if group[0] is given]
    return found


def _number(runs: Sequence[Run], name: str, value: Any) -> Any:
    if not isinstance(value, str) or not runs:
        return value
    try:
        return getattr(spec(runs[0].op).complete(KernelConfig().replace(**{name: value})), name)
    except ConfigError:
        return value
