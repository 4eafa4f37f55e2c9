"""Two runs side by side: what differs between them, and whether their bits do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench._result import Result
from workbench.sweep.run import Run

_SAME_QUESTION = ("op", "dtype", "out_dtype", "shape")
_ALWAYS = ("id", "key", "provenance.started", "provenance.seconds")
# Column of `Run.flat` -> the part it is told under; the others by what stands before the dot.
_PARTS = {
    **dict.fromkeys(("op", "arch", "dtype", "out_dtype", "n", "h", "v"), "configuration"),
    **dict.fromkeys(("order_hash", "bits"), "bit class"),
    **dict.fromkeys(("status", "error"), "status"),
    "config": "configuration",
    "repeat": "configuration",
    "reference_drift": "drift of the reference",
    "reference": "drift of the reference",
    "invariance": "verdict",
}


@dataclass(frozen=True)
class Change(Result):
    """One thing that differs: its part ("configuration", "drift", …), its name, both values."""

    part: str
    name: str
    a: Any
    b: Any


@dataclass(frozen=True)
class Comparison(Result):
    """What `Record.compare` found.

    Attributes:
        a, b: The runs.
        changes: All that differs, but for numbers and keys, and when it ran and how long.
        same_bits: True or False; None where that is no question: `why` says why not.
        same_order: The same for the order of summation; orders are compared on any inputs.
        why: Empty, or why bits are not compared.
        cautions: What of the changes is no difference between the configurations.
    """

    a: Run
    b: Run
    changes: tuple[Change, ...]
    same_bits: bool | None
    same_order: bool | None
    why: str
    cautions: tuple[str, ...] = ()

    def of(self, part: str) -> tuple[Change, ...]:
        """The changes of one part, e.g. "drift"."""
        return tuple(change for change in self.changes if change.part == part)

    def to_dict(self) -> dict[str, Any]:
        return {
            "a": {"id": self.a.id, "backend": self.a.backend, "arch": self.a.arch},
            "b": {"id": self.b.id, "backend": self.b.backend, "arch": self.b.arch},
            "same_bits": self.same_bits,
            "same_order": self.same_order,
            "why": self.why,
            "cautions": list(self.cautions),
            "changes": [change.to_dict() for change in self.changes],
        }

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"part": c.part, "name": c.name, self.a.label: c.a, self.b.label: c.b}
            for c in self.changes
        ]

    def __str__(self) -> str:
        lines = [self.title()]
        for c in self.changes:
            name = c.part if c.name == c.part else f"{c.part}, {c.name.rpartition('.')[2]}"
            lines.append(f"  {name}: {' | '.join(_texts(c.a, c.b))}")
        lines += [f"  note: {text}" for text in self.cautions]
        return "\n".join(lines)

    def title(self) -> str:
        bits = {True: "the same bits", False: "other bits", None: f"bits not compared: {self.why}"}
        return f"{self.a.label} and {self.b.label}: {bits[self.same_bits]}"


def _texts(*values: Any) -> list[str]:
    """The values as people read them: numbers by four digits, by all where those are equal."""
    short = ["-" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for v in values]
    return short if len(set(short)) > 1 else ["-" if v is None else str(v) for v in values]


def compare(a: Run, b: Run) -> Comparison:
    """Compare two runs, of one backend or of two.

    Example:
        >>> from workbench.sweep.run import Inputs, Provenance
        >>> def ran(backend, bits):
        ...     made = Provenance("ab12", "g++ 12.2.0", "0.1", "2.13.0")
        ...     return Run("lm_head", {"tile_length": 64}, "dav-2201", backend, "fp32", (2, 64, 8),
        ...                Inputs("5f0c"), made, bits=bits)
        >>> print(compare(ran("twin", "aa"), ran("npu", "ab")))
        a run (twin, dav-2201) and a run (npu, dav-2201): other bits
          backend: twin | npu
          bit class, bits: aa | ab
    """
    left, right = a.flat(), b.flat()
    changes = []
    for name in dict.fromkeys((*left, *right)):
        if name in _ALWAYS or _same(left.get(name), right.get(name)):
            continue
        head = name.partition(".")[0]
        changes.append(Change(_PARTS.get(head, head), name, left.get(name), right.get(name)))
    why = _why_not(a, b)
    order = None if None in (a.order_hash, b.order_hash) else a.order_hash == b.order_hash
    parts = list(dict.fromkeys(change.part for change in changes))
    changes.sort(key=lambda change: parts.index(change.part))
    same = None if why else a.bits == b.bits
    return Comparison(a, b, tuple(changes), same, order, why, tuple(_cautions(a, b, same)))


def _why_not(a: Run, b: Run) -> str:
    for run in (a, b):
        if run.status != "ok":
            return f"{run.label} is {run.status}"
    for name in _SAME_QUESTION:
        left, right = (getattr(run, name) for run in (a, b))
        if name == "out_dtype":
            left, right = left or a.dtype, right or b.dtype
        if left != right:
            return f"other {name}, {left} and {right}"
    if a.inputs.fixture_id != b.inputs.fixture_id:
        return f"other inputs, {a.inputs.fixture_id} and {b.inputs.fixture_id}"
    if a.bits is None or b.bits is None:
        return f"{(a if a.bits is None else b).label} has none"
    return ""


def _cautions(a: Run, b: Run, same_bits: bool | None) -> list[str]:
    found = []
    machines = [(r.backend, r.provenance.machine, r.provenance.cpu) for r in (a, b)]
    if a.time and b.time and machines[0] != machines[1]:
        found.append("the times are of two machines: their ratios do not compare the kernels")
    versions = [(r.provenance.torch, r.provenance.workbench) for r in (a, b)]
    if same_bits is False and versions[0] != versions[1]:
        found.append(
            "other versions of torch or workbench: the adversarial data that `bits` stand for too "
            "may have been drawn otherwise. Measure both with one"
        )
    return found


def _same(left: Any, right: Any) -> bool:
    # A NaN is the same as a NaN here: it is shown, not computed with.
    return left == right or (left != left and right != right)
