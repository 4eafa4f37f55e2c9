"""One run of a sweep: what was built, on what it ran, and what came out.

A `Run` holds figures that others computed (drift, invariance, bounds, …), and names for what they
rest on. It computes nothing but its key: the name of "this configuration on these inputs with these
versions", by which a resumed sweep knows what is done.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workbench._result import Result, jsonable
from workbench.errors import InputError

STATUSES = ("ok", "refused", "failed")
DONE = ("ok", "refused")  # what a resumed sweep does not try again

_T = TypeVar("_T")


@dataclass(frozen=True)
class Inputs(Result):
    """What a run computed on: content (`workbench.evidence.fixture_id`), a name, the seed."""

    fixture_id: str
    name: str = ""
    seed: int | None = None


@dataclass(frozen=True)
class DriftFigures(Result):
    """Distances from the exact logits; `max_ulp` in ULP of Σ|x w|, the others in logits."""

    max_abs: float
    mean_abs: float
    rms: float
    max_ulp: float


@dataclass(frozen=True)
class Verdict(Result):
    """Invariance on raw bits: which transforms were tried, and the first bit that differed."""

    passed: bool
    transforms: tuple[str, ...] = ()
    first_mismatch: dict[str, Any] | None = None


@dataclass(frozen=True)
class BoundFigures(Result):
    """A derived bound: its kind ("worst_case", "running", "probabilistic"), the largest one over
    the outputs in logits, and the largest |error| / bound (above 1 the bound was broken)."""

    kind: str
    max: float
    worst_ratio: float


@dataclass(frozen=True)
class WallTime(Result):
    """Time against a reference in the same process: `ratio` = reference median / own median, so
    above 1 is faster than the reference. Medians in seconds; they belong to one machine."""

    ratio: float
    reference: str
    median: float
    reference_median: float


@dataclass(frozen=True)
class Provenance(Result):
    """Where a run comes from.

    Attributes:
        source_digest: Of the kernel's source, as `kernel.info.source_digest`.
        compiler: Name and version, of the toolkit too on a device, and in brackets where it lies.
        workbench, torch: Versions.
        cpu: Name of the processor; machine: of the host.
        started: ISO 8601, UTC. seconds: of the whole run, build included.
        extra: Whatever else is known: threads, device, driver, fidelity of the twin, …
        code_digest: Of all else that decides a result and may be edited under one version, as
            `workbench.sweep.code.code_digest`; "" where nobody looked.
        outputs: Who computed them where it was not the kernel: "host", the host kernel in the same
            order, as far as `extra` says compared with the kernel's; "" for the kernel.
    """

    source_digest: str
    compiler: str
    workbench: str
    torch: str
    cpu: str = ""
    machine: str = ""
    started: str = ""
    seconds: float | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    code_digest: str = ""
    outputs: str = ""

    @property
    def versions(self) -> dict[str, str]:
        """What runs must share to be of one version: part of their keys.

        Of the compiler its name and version: where it lies decides no bit.

        Example:
            >>> made = Provenance("ab12", "g++ 12.2.0 (/usr/bin/g++)", "0.1", "2.13.0")
            >>> made.versions["compiler"]
            'g++ 12.2.0'
        """
        found = {name: getattr(self, name) for name in VERSIONS}
        return found | {"compiler": version_text(self.compiler)}


_PARTS = {
    "inputs": Inputs,
    "provenance": Provenance,
    "drift": DriftFigures,
    "reference_drift": DriftFigures,
    "invariance": Verdict,
    "bound": BoundFigures,
    "time": WallTime,
}


@dataclass(frozen=True)
class Run(Result):
    """One configuration on one input: figures, and the evidence they rest on.

    Attributes:
        op, arch, backend, dtype: E.g. "lm_head", "dav-2201", "twin", "fp32".
        config: The constants, as `KernelConfig.to_dict()` gives them ("arch" may be among them).
        shape: (N, H, V).
        inputs, provenance: See `Inputs`, `Provenance`.
        status: "ok"; "refused" (cannot be built, and `error` says why); "failed".
        error: Why, for the latter two.
        out_dtype: Of the outputs; None where it is `dtype`.
        order_hash, bits: The bit class: name of the order of summation, and of the results' bits.
        drift: Of the kernel from the exact logits. reference_drift: that of `reference`.
        reference: E.g. "torch.mv".
        invariance, bound, time: See `Verdict`, `BoundFigures`, `WallTime`.
        counters: Exact counts of the launch: bytes, instructions, …
        repeat: Which repetition of the same run this is; part of the key.
        key: Made by `Run.key_of` from the other fields; give it only to keep one of your own.
        id: Number in a record; None until it is there.

    Raises:
        InputError: Something is missing or of the wrong kind.

    Example:
        >>> run = Run("lm_head", {"tile_length": 64}, "dav-2201", "twin", "fp32", (2, 64, 8),
        ...           Inputs("5f0c"), Provenance("ab12", "g++ 12.2.0", "0.1", "2.13.0"))
        >>> run.key == Run.from_dict(run.to_dict()).key, len(run.key)
        (True, 32)
    """

    op: str
    config: dict[str, Any]
    arch: str
    backend: str
    dtype: str
    shape: tuple[int, int, int]
    inputs: Inputs
    provenance: Provenance
    status: str = "ok"
    error: str | None = None
    out_dtype: str | None = None
    order_hash: str | None = None
    bits: str | None = None
    drift: DriftFigures | None = None
    reference_drift: DriftFigures | None = None
    reference: str | None = None
    invariance: Verdict | None = None
    bound: BoundFigures | None = None
    counters: dict[str, int] = field(default_factory=dict)
    time: WallTime | None = None
    repeat: int = 0
    key: str = ""
    id: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("op", "arch", "backend", "dtype"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise InputError(f"{name}={value!r}; want a name, such as 'lm_head' or 'twin'")
        if self.status not in STATUSES:
            raise InputError(f"status={self.status!r}; give one of {', '.join(STATUSES)}")
        if (self.status == "ok") != (not self.error):
            raise InputError(
                f"status={self.status!r} with error={self.error!r:.60}: a run that is not ok says "
                "why in `error`, and one that is ok has none"
            )
        for name, kind in _PARTS.items():
            value = getattr(self, name)
            if not isinstance(value, kind) and (value is not None or name in _NEEDED):
                raise InputError(
                    f"{name}={value!r:.60}; want a workbench.sweep.run.{kind.__name__}"
                )
        set_ = object.__setattr__
        set_(self, "shape", _shape(self.shape))
        set_(self, "config", _constants(self.config, self.arch))
        set_(self, "counters", jsonable(self.counters))
        if self.error:  # a compiler may print bytes that are no text
            set_(self, "error", self.error.encode("utf-8", "backslashreplace").decode())
        if not self.key:
            same = (self.op, self.config, self.arch, self.backend, self.dtype, self.shape)
            versions = (self.inputs, self.provenance, self.out_dtype, self.repeat)
            set_(self, "key", Run.key_of(*same, *versions))

    @staticmethod
    def key_of(
        op: str,
        config: Mapping[str, Any],
        arch: str,
        backend: str,
        dtype: str,
        shape: Iterable[int],
        inputs: Inputs,
        provenance: Provenance,
        out_dtype: str | None = None,
        repeat: int = 0,
    ) -> str:
        """The name of a run before it has run: 32 hex digits of a SHA-256 over the arguments.

        Of the inputs the content and the seed count, of the provenance the digests of source and
        code, the versions of compiler, workbench and torch, and `outputs`. The machine does not,
        nor where its compiler lies: on another one the twin must give the same bits, and a record
        refuses to hold both if it does not.
        """
        parts = {
            "op": op,
            "config": _constants(config, arch),
            "arch": arch,
            "backend": backend,
            "dtype": dtype,
            "out_dtype": out_dtype or dtype,
            "shape": [int(size) for size in shape],
            "inputs": [inputs.fixture_id, inputs.seed],
            "versions": [*provenance.versions.values()],
            "repeat": int(repeat),
        }
        if provenance.outputs:
            parts["outputs"] = provenance.outputs
        text = json.dumps(jsonable(parts), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Run:
        """The run whose `to_dict()` this is."""
        values = {**given, "shape": tuple(given["shape"])}
        for name, kind in _PARTS.items():
            if values.get(name) is not None:
                values[name] = _part(kind, values[name])
        return cls(**values)

    @property
    def label(self) -> str:
        """E.g. "run 3 (twin, dav-2201)": the backend always stands beside the number."""
        number = "a run" if self.id is None else f"run {self.id}"
        return f"{number} ({self.backend}, {self.arch})"

    def title(self) -> str:
        return f"{self.label}: {self.op}, {self.dtype}, {self.status}"

    def flat(self) -> dict[str, Any]:
        """All fields as one flat table row: "drift.max_abs", "config.tile_length", …

        A part that was not measured is None under each of its names, so rows line up; what is
        nested deeper (a first mismatch) is JSON text.
        """
        row: dict[str, Any] = {"id": self.id}
        row |= {name: getattr(self, name) for name in _PLAIN}
        row |= dict(zip(("n", "h", "v"), self.shape, strict=True))
        for name, kind in _PARTS.items():
            part = getattr(self, name)
            for f in dataclasses.fields(kind):
                if f.name != "extra":
                    row[f"{name}.{f.name}"] = _cell(getattr(part, f.name, None))
        for name in ("config", "counters"):
            row |= {f"{name}.{k}": _cell(v) for k, v in sorted(getattr(self, name).items())}
        extra = self.provenance.extra.items()
        return row | {f"provenance.{k}": _cell(v) for k, v in sorted(extra)}

    def rows(self) -> list[dict[str, Any]]:
        return [{"what": k, "value": v} for k, v in self.flat().items() if v is not None]


_NEEDED = ("inputs", "provenance")
VERSIONS = ("source_digest", "code_digest", "compiler", "workbench", "torch")
_PLAIN = ("key", "backend", "arch", "op", "dtype", "out_dtype", "status", "error", "order_hash",
          "bits", "reference", "repeat")  # fmt: skip


def version_text(compiler: str) -> str:
    """A compiler's name and version without the path that may stand behind them."""
    return compiler.partition(" (/")[0]


def one_backend(runs: Iterable[Run]) -> str:
    """The backend that all `runs` share: what an average or a ranking over them has to ask first.

    Raises:
        InputError: They are from several backends, or there are none.

    Example:
        >>> one_backend([])
        Traceback (most recent call last):
        ...
        workbench.errors.InputError: there are no runs, so no backend; give at least one
    """
    found = list(dict.fromkeys(run.backend for run in runs))
    if not found:
        raise InputError("there are no runs, so no backend; give at least one")
    if len(found) > 1:
        raise InputError(
            f"these runs are from {' and '.join(found)}: what the twin computed and what a device "
            f"did are not put into one figure. Choose one, for example runs(backend={found[0]!r})"
        )
    return found[0]


def _shape(given: Any) -> tuple[int, int, int]:
    try:
        n, h, v = (int(size) for size in given)
    except (TypeError, ValueError):
        raise InputError(f"shape={given!r:.60}; want three sizes (N, H, V)") from None
    if min(n, h, v) < 0:
        raise InputError(f"shape={given!r:.60}; a size is at least 0")
    return n, h, v


def _constants(config: Mapping[str, Any], arch: str) -> dict[str, Any]:
    if not isinstance(config, Mapping):
        raise InputError(f"config={config!r:.60}; want a dict, as KernelConfig.to_dict() gives it")
    found = jsonable(dict(config))
    if found.pop("arch", arch) != arch:
        raise InputError(f"config says arch {config['arch']!r} and the run {arch!r}; give one")
    return found


def _part(kind: type[_T], given: Mapping[str, Any]) -> _T:
    """A part from its JSON, in which a NaN is the text "nan" and a tuple is a list."""
    values = dict(given)
    for f in dataclasses.fields(kind):  # type: ignore[arg-type]
        value = values.get(f.name)
        if str(f.type).startswith("float") and value is not None:
            values[f.name] = float(value)
        elif str(f.type).startswith("tuple"):
            values[f.name] = tuple(value or ())
    return kind(**values)


def _cell(value: Any) -> Any:
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(jsonable(value), sort_keys=True)
    return value
