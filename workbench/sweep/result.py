"""What a sweep found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result
from workbench.sweep import choose, export
from workbench.sweep.run import Run


@dataclass(frozen=True)
class SweepResult(Result):
    """What `sweep` found.

    Attributes:
        space: What was asked for.
        runs: In the order of the space, one for each configuration and input; those that the record
            had are among them.
        total: How many there are to be; more than `runs` if the sweep was stopped.
        kept: How many of `runs` the record had before.
        store: Path of the record.
        seconds: How long it took.
        stopped: True if it was stopped before the end.
        notes: What else happened, such as an executor that broke.
    """

    space: dict[str, Any]
    runs: tuple[Run, ...] = field(repr=False)
    total: int
    kept: int
    store: str
    seconds: float
    stopped: bool
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        return sum(run.status == "failed" for run in self.runs)

    @property
    def refused(self) -> int:
        return sum(run.status == "refused" for run in self.runs)

    @property
    def passed(self) -> bool:
        """True if every run that could be built ended well: it kept its bits and its bound."""
        good = all(
            run.status == "refused"
            or (
                run.status == "ok"
                and (run.invariance is None or run.invariance.passed)
                and (run.bound is None or run.bound.worst_ratio <= 1)
            )
            for run in self.runs
        )
        return good and not self.stopped and not self.disagreements()

    def classes(self) -> list[choose.RunClass]:
        """The bit classes of the runs, for each question (dtype, shape, input) on its own."""
        return choose.classes(self.runs)

    def disagreements(self) -> list[str]:
        """Runs of one order and other bits on one input: a constant that must not decide bits
        does."""
        return choose.disagreements(self.runs)

    def recommendations(self, **options: Any) -> list[choose.Recommendation]:
        """One for each architecture and dtype: `workbench.sweep.choose.recommend_each`."""
        return choose.recommend_each(self.runs, **options)

    def recommend(self, **options: Any) -> choose.Recommendation:
        """`workbench.sweep.choose.recommend` of the runs."""
        return choose.recommend(self.runs, **options)

    def to_dict(self) -> dict[str, Any]:
        table = export.table(self.runs)
        return {
            "runs": table,
            "failed": self.failed,
            "refused": self.refused,
            "classes": [one.to_dict() for one in self.classes()],
            "disagreements": self.disagreements(),
            "recommendations": [found.to_dict() for found in self.recommendations()],
            "total": self.total,
            "kept": self.kept,
            "store": self.store,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "notes": list(self.notes),
        }

    def to_pandas(self) -> Any:
        """Every field of every run, as `Record.to_pandas` gives them."""
        return export.to_pandas(self.runs)

    def rows(self) -> list[dict[str, Any]]:
        letters = {run.key: one.letter for one in self.classes() for run in one.runs}
        varied = _varied(self.runs)
        return [
            {
                **{name: choose.value(run, name) for name in varied},
                "status": run.status,
                "class": letters.get(run.key, ""),
                "max error": run.drift.max_abs if run.drift else None,
                "of its bound": run.bound.worst_ratio if run.bound else None,
                "invariant": run.invariance.passed if run.invariance else None,
                "bytes per logit": choose.bytes_per_logit(run),
                "speed": run.time.ratio if run.time else None,
                "why": run.error or "",
            }
            for run in self.runs
        ]

    def title(self) -> str:
        parts = [f"{len(self.runs)} runs"]
        parts += [f"{n} {what}" for n, what in ((self.refused, "refused"), (self.failed, "failed"),
                                                (self.kept, "from the record")) if n]  # fmt: skip
        if self.stopped:
            parts.append(f"stopped, {self.total - len(self.runs)} to go")
        letters = len(self.classes())
        text = f"{', '.join(parts)}; {letters} bit classes; {self.seconds:.1f} s; {self.store}"
        return "\n".join([text, *self.disagreements(), *self.notes])


def _varied(runs: tuple[Run, ...]) -> list[str]:
    """What differs between the runs, and the first constant in any case."""
    names = list(dict.fromkeys(name for run in runs for name in ("arch", "dtype", "shape", "inputs",
                                                                *run.config)))  # fmt: skip
    found = [n for n in names if len({str(choose.value(run, n)) for run in runs}) > 1]
    return found or names[:2]
