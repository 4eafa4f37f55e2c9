"""Rates fitted to runs of a device, so that the cost model says what that device would take.

The model is a maximum of sums (`cost_model`), so the fit goes in turns: which pipe limits each run
by the rates so far, then least squares of relative errors on the sums that remain, until
the limiting pipes stay the same. It starts from several places and keeps the best fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench._result import Result
from workbench.errors import InputError
from workbench.sweep.cost_model import PIPES, TERMS, Work, work
from workbench.sweep.rates import Rate, Rates
from workbench.sweep.rates import rates as rates_of
from workbench.sweep.run import Run, one_backend

FIT = ("launch_seconds", "gm_bytes_per_second", "repeat_cycles")
_STARTS = (1.0, 8.0, 0.125)  # times the rates before the fit
_TURNS = 50
_PROGRAM = ("op", "config", "arch", "dtype", "out_dtype", "shape")


@dataclass(frozen=True)
class Calibration(Result):
    """What rates were fitted to, and how well.

    Attributes:
        backend, machine, arch: Of the runs, e.g. "npu".
        runs: How many.
        overlap: Whether the pipes were taken to overlap.
        fitted: {rate: value}.
        errors: {rate: standard error, as a part of the value}.
        residuals: Of each run, modelled time over measured time, less 1.
        limiting: Of each run, the pipe the fit found to limit it; empty with overlap=False.
    """

    backend: str
    machine: str
    arch: str
    runs: int
    overlap: bool
    fitted: Mapping[str, float]
    errors: Mapping[str, float]
    residuals: tuple[float, ...]
    limiting: tuple[str, ...]

    @property
    def worst(self) -> float:
        """The largest |residual|."""
        return max(abs(r) for r in self.residuals)

    @property
    def label(self) -> str:
        where = f"{self.backend} {self.machine}".strip()
        return f"{self.runs} runs of {where}, off by at most {self.worst:.2g} of the time"

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"rate": n, "value": v, "standard error": self.errors[n], "runs": self.runs}
            for n, v in self.fitted.items()
        ]


def calibrate(
    runs: Iterable[Run],
    *,
    fit: Sequence[str] = FIT,
    start: Rates | None = None,
    overlap: bool = True,
) -> Rates:
    """Rates that explain the times of runs made on a device.

    Counters are exact and come from the twin: a device run without counters takes those of the
    twin's run of the same program and shape, if it is among `runs`. A time is never taken from the
    twin, whose times are those of this host.

    Args:
        runs: Of one device and one architecture, with `time` and counters with "blocks"; runs of
            the twin beside them give counters only.
        fit: Names of the rates to find; the others stay as they are.
        start: The rates before; None: the public ones.
        overlap: Fit the slowest pipe of each run; False: the sum of the pipes.

    Raises:
        InputError: Only runs of the twin, several devices or architectures, too few runs, or runs
            that cannot tell the rates apart.
    """
    every = list(runs)
    timed = [r for r in every if r.backend != "twin" and r.status == "ok" and r.time is not None]
    if not timed:
        raise InputError(
            f"none of these {len(every)} runs was timed on a device: times of the twin are those "
            "of this host and say nothing of an NPU. Record runs with backend='npu' first"
        )
    backend = one_backend(timed)
    arch = _one("architectures", [r.arch for r in timed])
    machine = _one("machines", [r.provenance.machine for r in timed])
    before = start or rates_of(arch)
    if before.arch != arch:
        raise InputError(f"runs of {arch} with rates of {before.arch}; take the same for both")
    names = _names(fit, before)
    if len(timed) <= len(names):
        raise InputError(
            f"{len(timed)} runs for {len(names)} rates ({', '.join(names)}); give more runs than "
            "rates, of several shapes and configurations"
        )
    done = [_counted(run, every) for run in timed]
    seconds = np.array([run.time.median for run in timed if run.time is not None])
    if not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise InputError("a run took no time or none that is finite; leave it out")
    fits = []
    for by in itertools.product(_STARTS, repeat=len(names)):
        x = {n: before.seconds(n) for n in before.table if n != "clock_hz"}
        x |= {n: x[n] * f for n, f in zip(names, by, strict=True)}
        fits.append(_settle(done, seconds, x, names, before.cores, overlap))
    good = [f for f in fits if isinstance(f, _Fit)]
    if not good:
        said = sorted({str(f) for f in fits})
        raise InputError(f"no fit: {'; '.join(said)}. Leave rates out of `fit`, or add runs")
    best = min(good, key=lambda f: f.rss)
    value = {n: _value(n, best.x[n], before) for n in names}
    residuals = tuple(float(r) for r in best.residuals)
    found = Calibration(
        backend, machine, arch, len(timed), overlap, value, best.errors, residuals, best.limiting
    )
    why = f"fitted to {len(timed)} runs of {backend}"
    table = {n: Rate(n, v, before.table[n].unit, "fitted", "", why) for n, v in value.items()}
    return Rates(arch, before.cores, {**before.table, **table}, found)


@dataclass(frozen=True)
class _Fit:
    x: Mapping[str, float]
    rss: float
    errors: Mapping[str, float]
    residuals: Any
    limiting: tuple[str, ...]


def _settle(
    done: Sequence[Work],
    seconds: Any,
    x: dict[str, float],
    names: Sequence[str],
    cores: int,
    overlap: bool,
) -> _Fit | str:
    """The fit from one start, or why there is none."""
    sums = [_sums(w, cores) for w in done]
    picked: list[Any] = []
    for _ in range(_TURNS):
        rows = [_limit(s, x, overlap) for s in sums]
        now = [key for key, _ in rows]
        if now == picked:
            break
        picked = now
        fixed = [sum(v * x[n] for n, v in row.items() if n not in names) for _, row in rows]
        a = np.array([[row.get(n, 0.0) for n in names] for _, row in rows]) / seconds[:, None]
        unseen = [n for n, column in zip(names, a.T, strict=True) if not column.any()]
        if unseen:
            return f"no run is limited by {', '.join(unseen)}"
        scale = np.linalg.norm(a, axis=0)
        if np.linalg.matrix_rank(a / scale) < len(names):
            return f"the runs cannot tell {', '.join(names)} apart: their counts are proportional"
        y = 1 - np.array(fixed) / seconds
        got = np.linalg.lstsq(a / scale, y, rcond=None)[0] / scale
        if (got <= 0).any():
            none = [n for n, v in zip(names, got, strict=True) if v <= 0]
            return f"{', '.join(none)} would take no time"
        x = {**x, **dict(zip(names, map(float, got), strict=True))}
    else:
        return "the limiting pipes never stayed the same"
    residuals = a @ got - y  # modelled time / measured time - 1, what was fixed included
    rss = float(residuals @ residuals)
    spread = rss / (len(seconds) - len(names)) * np.linalg.inv((a / scale).T @ (a / scale))
    errors = np.sqrt(np.diag(spread)) / scale / got
    if (errors >= 1).any():
        loose = [n for n, e in zip(names, errors, strict=True) if e >= 1]
        return f"{', '.join(loose)} is known no better than to a factor of 2"
    limiting = tuple(str(key) for key in picked) if overlap else ()
    return _Fit(x, rss, dict(zip(names, map(float, errors), strict=True)), residuals, limiting)


def _sums(done: Work, cores: int) -> dict[str, list[dict[str, float]]]:
    """{pipe: its sums as {rate: count}}; a pipe takes the largest of its sums.

    "start" is added to all; "GM" is the bytes both ways.
    """
    waves = -(-done.blocks // cores)
    share = waves / done.blocks
    found: dict[str, list[dict[str, float]]] = {}
    for pipe in PIPES:
        plain: dict[str, float] = {}
        moved = 0
        for counter, rate in TERMS[pipe].items():
            if rate == "bytes":
                moved = done.counters[counter]
            else:
                plain[rate] = plain.get(rate, 0.0) + share * done.counters[counter]
        found[pipe] = [plain]
        if any(rate == "bytes" for rate in TERMS[pipe].values()):
            found[pipe] = [
                {**plain, "core_bytes_per_second": share * moved},
                {**plain, "gm_bytes_per_second": float(moved)},
            ]
    both = done.counters["gm_to_ub_bytes"] + done.counters["ub_to_gm_bytes"]
    found["GM"] = [{"gm_bytes_per_second": float(both)}]
    found["start"] = [{"launch_seconds": 1.0, "block_seconds": float(waves)}]
    return found


def _limit(
    sums: Mapping[str, list[dict[str, float]]], x: Mapping[str, float], overlap: bool
) -> tuple[Any, dict[str, float]]:
    """Which sums make up the time with rates `x` (a name to compare), and all of them as one."""
    largest = {}
    for pipe, choices in sums.items():
        values = [sum(count * x[rate] for rate, count in c.items()) for c in choices]
        at = int(np.argmax(values))
        largest[pipe] = (values[at], at, choices[at])
    if overlap:
        # GM last: it counts only where it is slower than every pipe, as in `Cost.limiting`.
        slowest = max([*PIPES, "GM"], key=lambda pipe: largest[pipe][0])
        parts = ["start", slowest]
        key: Any = f"{slowest} (GM)" if largest[slowest][1] else slowest
    else:
        parts = ["start", *PIPES]
        key = tuple(largest[pipe][1] for pipe in PIPES)
    row: dict[str, float] = {}
    for part in parts:
        for rate, count in largest[part][2].items():
            row[rate] = row.get(rate, 0.0) + count
    return key, row


def _counted(run: Run, every: Sequence[Run]) -> Work:
    """The work of a run: its own counters, or those of the twin's run of the same program."""
    partly = ""
    for other in (run, *every):
        same = all(getattr(other, name) == getattr(run, name) for name in _PROGRAM)
        if not (same and other.counters and (other is run or other.backend == "twin")):
            continue
        n, _, v = other.shape
        logits = other.counters.get("logits", n * v)
        if logits == n * v:
            return work(other)
        partly = (
            f"; {other.label} has those of {logits} logits of {n * v}, which is no whole launch"
        )
    raise InputError(
        f"{run.label} has no counters, and no run of the twin with the same program and shape is "
        f"among the runs{partly}. Launch it on the twin with counters, all of it"
    )


def _names(fit: Sequence[str], before: Rates) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(fit))
    unknown = [n for n in names if n not in before.table or n == "clock_hz"]
    if unknown or not names:
        known = ", ".join(n for n in before.table if n != "clock_hz")
        raise InputError(
            f"fit={list(fit)}: give names among {known}. The clock scales with them all"
        )
    return names


def _one(what: str, values: Sequence[str]) -> str:
    different = list(dict.fromkeys(values))
    if len(different) > 1:
        raise InputError(f"runs of several {what}, {', '.join(different)}; give those of one")
    return different[0]


def _value(name: str, seconds: float, before: Rates) -> float:
    if name.endswith("per_second"):
        return 1 / seconds
    return seconds if name.endswith("_seconds") else seconds * before.clock_hz
