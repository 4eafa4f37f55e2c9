"""What a sweep found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result, text_table
from workbench.sweep import bit_classes, choose, export, words
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
        """True if every run that could be built ended well: its order was revealed, and it kept its
        bits and its bound."""
        good = all(
            run.status == "refused"
            or (
                run.status == "ok"
                and run.order_hash is not None
                and (run.invariance is not None and run.invariance.passed)
                and (run.bound is not None and run.bound.worst_ratio <= 1)
            )
            for run in self.runs
        )
        return good and not self.stopped and not self.disagreements()

    def classes(self) -> list[bit_classes.RunClass]:
        """The bit classes of the runs, for each question (dtype, shape, input) on its own."""
        return bit_classes.classes(self.runs)

    def disagreements(self) -> list[str]:
        """Runs of one order and other bits on one input: a constant that must not decide bits
        does."""
        return bit_classes.disagreements(self.runs)

    def recommendations(self, **options: Any) -> list[choose.Recommendation]:
        """One for each architecture and dtype: `workbench.sweep.choose.recommend_each`, of the
        newest version if there are several."""
        return choose.recommend_each(self.runs, **{"only_newest": True, **options})

    def recommend(self, **options: Any) -> choose.Recommendation:
        """`workbench.sweep.choose.recommend` of the runs, of the newest version if there are
        several."""
        return choose.recommend(self.runs, **{"only_newest": True, **options})

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the runs as flat rows, and constants by the words that the text has for them.

        `backend` is that of the runs, None if there are none.
        """
        table = export.table(self.runs)
        for run, row in zip(self.runs, table, strict=True):
            constants = words.in_words(run.op, run.config)
            row |= {f"config.{name}": v for name, v in constants.items() if isinstance(v, str)}
        op, space = self.space["op"], dict(self.space)
        lists = {"schedule": space["schedules"], **space["constants"]}
        lists = {name: [words.word(op, name, v) for v in some] for name, some in lists.items()}
        space["schedules"] = lists.pop("schedule")
        return {
            "space": space | {"constants": lists},
            "backend": " and ".join(dict.fromkeys(run.backend for run in self.runs)) or None,
            "passed": self.passed,
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
                **{name: words.value(run, name) for name in varied},
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

    def __str__(self) -> str:
        """A line for each run, at most 100 wide as long as four things vary; refused and failed
        ones with their reasons below."""
        letters = {run.key: one.letter for one in self.classes() for run in one.runs}
        varied = _varied(self.runs)
        names = {words.value(run, "inputs") for run in self.runs}
        told_apart = len({name.partition(":")[0] for name in names}) == len(names)
        short = {"inputs": _before_colon} if told_apart else {}
        rows = [
            {
                **{name: short.get(name, words.value)(run, name) for name in varied},
                "class": letters.get(run.key) if run.status == "ok" else run.status,
                "error": f"{run.drift.max_abs:.3g}" if run.drift else None,
                "/bound": f"{run.bound.worst_ratio:.3g}" if run.bound else None,
                "B/logit": choose.bytes_per_logit(run),
                "speed": f"{run.time.ratio:.3g}" if run.time else None,
            }
            for run in self.runs
        ]
        return "\n".join([self.title(), *self._rests_on(), text_table(rows), *self._below()])

    def _rests_on(self) -> list[str]:
        """What all runs have in common, and what they rest on."""
        told = {
            "twin": "on the twin (simulated on this CPU, no Ascend hardware)",
            "npu": "on an NPU",
        }
        varied = _varied(self.runs)  # which have columns of their own
        same = [n for n in ("arch", "dtype", "shape") if n not in varied]
        facts = (
            (
                told.get(run.backend, run.backend),
                run.op,
                *(str(words.value(run, name)) for name in same),
                f"inputs {words.value(run, 'inputs')}",
            )
            for run in self.runs
        )
        facets = [" and ".join(dict.fromkeys(fact)) for fact in zip(*facts, strict=True)]
        return [f"  {'; '.join(part)}" for part in (facets[:-1], facets[-1:]) if part]

    def _below(self) -> list[str]:
        ok = [run for run in self.runs if run.status == "ok"]
        lines = []
        if ok:
            simulated = ", of a simulation" if {r.backend for r in ok} == {"twin"} else ""
            lines += [
                "class: one letter, the same bits. error: the largest of a logit, absolute.",
                "/bound: the largest |error| over its running bound. B/logit: bytes between GM",
                f"and UB. speed: F.linear's time over the kernel's{simulated}",
            ]
            stood_in = sum(run.provenance.outputs == "host" for run in ok)
            if stood_in:
                lines += [
                    f"outputs of {stood_in} of {counted(len(ok), 'run')} by the order-exact host "
                    "kernel, part of them",
                    "compared with the twin; their speed is that of the counted launch",
                ]
            broken = [run for run in ok if not (run.invariance and run.invariance.passed)]
            lines.append(
                f"invariance check: {len(ok) - len(broken)} of {len(ok)} kept every bit"
                + "".join(f"\n    not {words.label(run)}" for run in broken)
            )
        reasons: dict[tuple[str, str], int] = {}
        for run in self.runs:
            if run.status != "ok":
                told = run.status, run.error or ""
                reasons[told] = reasons.get(told, 0) + 1
        lines += [f"{n} {status}: {error}" for (status, error), n in reasons.items()]
        return [f"  {line}" for line in lines]

    def title(self) -> str:
        parts = [counted(len(self.runs), "run")]
        parts += [f"{n} {what}" for n, what in ((self.refused, "refused"), (self.failed, "failed"),
                                                (self.kept, "from the record")) if n]  # fmt: skip
        if self.stopped:
            parts.append(f"stopped, {self.total - len(self.runs)} to go")
        classes = counted(len(self.classes()), "bit class", "bit classes")
        text = f"{', '.join(parts)}; {classes}; {self.seconds:.1f} s; {self.store}"
        return "\n".join([text, *self.disagreements(), *self.notes])


def counted(number: int, one: str, more: str = "") -> str:
    """E.g. "1 run", "2 runs"."""
    return f"{number} {one if number == 1 else more or one + 's'}"


def _before_colon(run: Run, name: str) -> str:
    return str(words.value(run, name)).partition(":")[0]


def _varied(runs: tuple[Run, ...]) -> list[str]:
    """What differs between the runs, and a constant in any case."""
    names = list(dict.fromkeys(name for run in runs for name in ("arch", "dtype", "shape", "inputs",
                                                                *run.config)))  # fmt: skip
    found = [n for n in names if len({str(words.value(run, n)) for run in runs}) > 1]
    return found or [n for n in ("tile_length", "leaf_length") if n in names] or names[:2]
