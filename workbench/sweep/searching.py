"""A search by Optuna, for spaces that are too large to try as a whole."""

from __future__ import annotations

import dataclasses
import math
import os
import random
from typing import Any

from workbench.build.config import KernelConfig, spec
from workbench.errors import InputError, MissingError
from workbench.sweep import choose
from workbench.sweep.fixtures import REAL
from workbench.sweep.record import Record
from workbench.sweep.result import SweepResult
from workbench.sweep.run import Run
from workbench.sweep.runner import sweep
from workbench.sweep.space import Space

_BATCH = 8  # configurations that are asked for before the sampler learns of their results
_REPEATS = 20  # proposals in a row that are known already, before one is drawn at random


def search(
    space: Space,
    inputs: Any = REAL,
    store: Record | str | os.PathLike[str] = "runs.sqlite",
    *,
    trials: int = 50,
    cost: str = "bytes",
    drift: str = "max_abs",
    seed: int = 0,
    batch: int = _BATCH,
    **options: Any,
) -> SweepResult:
    """Measure the configurations of `space` that Optuna proposes, drift and cost both to be small.

    Args:
        space: Of one dtype and one shape, with at least one list to choose from.
        inputs, store: As in `sweep`, and so are `options`. What the record has is not measured
            again, and the sampler learns of it as of the others.
        trials: How many different configurations, at most.
        cost, drift: What is made small: as in `recommend`.
        seed: Of the sampler. The same seed, space and figures give the same proposals; with
            cost="time" the figures differ from run to run.
        batch: Configurations between two proposals, measured side by side.

    Returns:
        The runs, in the order of the proposals; `.recommend()` and `choose.pareto` take them.

    Raises:
        MissingError: Optuna is not installed.
        InputError: A space that leaves nothing to choose, or more than one question.
    """
    lists = space.lists()
    if len(space.arches) > 1:
        lists = {"arch": space.arches, **lists}
    if len(space.dtypes) != 1 or len(space.shapes) != 1:
        raise InputError(
            f"a search is for one dtype and one shape; {space.dtypes} and {space.shapes} were given"
        )
    for name, value, least in (("trials", trials, 1), ("batch", batch, 1), ("seed", seed, 0)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not least <= value < 2**32:  # as many seeds as NumPy has
            raise InputError(f"{name}={value!r:.60}; want a whole number from {least}")
    if not any(len(values) > 1 for values in lists.values()):
        raise InputError("there is nothing to choose from: give several tiles, schedules, …")
    choose.checked(cost, drift)
    try:
        import optuna
    except ImportError:
        raise MissingError(
            "a search needs Optuna, which is not installed. Run `pip install "
            "'ascend-kernel-workbench[search]'`, or sweep the whole space"
        ) from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    proposer = _Proposer(space, lists, study, seed)
    found: list[SweepResult] = []
    while proposer.tried < min(trials, proposer.size):
        room = min(batch, min(trials, proposer.size) - proposer.tried)
        asked = proposer.ask(room)
        only = tuple(asked)
        result = sweep(dataclasses.replace(space, only=only), inputs, store, **options)
        found.append(result)
        for config, numbers in asked.items():
            own = [run for run in result.runs if _is(run, config)]
            proposer.tell(config, numbers, _values(own, cost, drift))
        if result.stopped:
            break
    last = found[-1]
    return dataclasses.replace(
        last,
        space=space.to_dict(),
        runs=tuple(run for one in found for run in one.runs),
        total=sum(one.total for one in found),
        kept=sum(one.kept for one in found),
        seconds=sum(one.seconds for one in found),
        notes=(
            *(note for one in found for note in one.notes),
            f"{proposer.tried} of {proposer.size} configurations, proposed by Optuna "
            f"{optuna.__version__}, seed {seed}",
        ),
    )


class _Proposer:
    """Proposals of a study as configurations, each of them once."""

    def __init__(
        self, space: Space, lists: dict[str, tuple[Any, ...]], study: Any, seed: int
    ) -> None:
        self.space, self.lists, self.study = space, lists, study
        self.random = random.Random(seed)
        self.size = math.prod(len(values) for values in lists.values())
        self.known: dict[KernelConfig, tuple[float, float] | None] = {}
        self.tried = 0

    def ask(self, count: int) -> dict[KernelConfig, list[Any]]:
        """{configuration: its trials}: `count` that were not asked for before."""
        asked: dict[KernelConfig, list[Any]] = {}
        repeats = 0
        while len(asked) < count:
            if repeats >= _REPEATS:
                # So that the search ends: the first one not known from a random place on.
                asked[self._unknown(asked)] = []
                continue
            trial = self.study.ask()
            given = {n: v[trial.suggest_categorical(n, range(len(v)))]
                     for n, v in self.lists.items()}  # fmt: skip
            config = self._config(given)
            if config in self.known:
                repeats += 1
                self._say(trial, self.known[config])
            elif config in asked:
                repeats += 1
                asked[config].append(trial)
            else:
                repeats = 0
                asked[config] = [trial]
        return asked

    def tell(self, config: KernelConfig, trials: list[Any], values: Any) -> None:
        self.known[config] = values
        self.tried += 1
        for trial in trials:
            self._say(trial, values)

    def _say(self, trial: Any, values: tuple[float, float] | None) -> None:
        import optuna

        if values is None:  # refused, failed, or not invariant
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            self.study.tell(trial, values)

    def _config(self, given: dict[str, Any]) -> KernelConfig:
        arch = given.pop("arch", self.space.arches[0])
        return spec(self.space.op).complete(KernelConfig(arch=arch).replace(**given))

    def _unknown(self, asked: dict[KernelConfig, list[Any]]) -> KernelConfig:
        start = self.random.randrange(self.size)
        for step in range(self.size):
            place, given = (start + step) % self.size, {}
            for name, values in self.lists.items():
                place, digit = divmod(place, len(values))
                given[name] = values[digit]
            config = self._config(given)
            if config not in self.known and config not in asked:
                return config
        raise InputError("the space has fewer configurations than its lists have combinations: "
                         "give each value once")  # fmt: skip


def _is(run: Run, config: KernelConfig) -> bool:
    return {"arch": run.arch, **run.config} == config.to_dict()


def _values(runs: list[Run], cost: str, drift: str) -> tuple[float, float] | None:
    """(largest drift, mean cost) over the inputs; None where it cannot be chosen."""
    if not runs or any(choose.why_not(run, cost, drift) for run in runs):
        return None
    costs = [choose.cost_of(run, cost) or 0.0 for run in runs]
    return max(getattr(run.drift, drift) for run in runs), sum(costs) / len(costs)
