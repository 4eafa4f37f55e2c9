"""One run: build a configuration, and measure all that a record keeps of it.

`measure` is a pure function of a task that can be pickled, so it runs here, in a worker process, or
on another machine. What configurations have in common is computed once in a process: exact logits
and references of an input, the bound of an order on it, the drift of outputs with the same bits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import platform
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from workbench import __version__
from workbench.build import build
from workbench.build.config import KernelConfig
from workbench.errors import WorkbenchError
from workbench.evidence import cpu_name, fixture_id
from workbench.numerics.bounds import Bounds, bounds
from workbench.numerics.drift.measure import Truth, judge
from workbench.numerics.invariance import invariance
from workbench.numerics.transforms import TRANSFORMS
from workbench.ops.inputs import DTYPES
from workbench.orders import host
from workbench.orders.classes import adversarial, results
from workbench.orders.on_host import OnHost
from workbench.orders.reveal import RevealError, reveal
from workbench.orders.tree import ReductionTree
from workbench.sweep.code import code_digest
from workbench.sweep.cost_model import work
from workbench.sweep.fixtures import Fixture, InputRef, load
from workbench.sweep.run import (
    BoundFigures,
    DriftFigures,
    Inputs,
    Provenance,
    Run,
    Verdict,
    WallTime,
    version_text,
)

REFERENCE = "torch.mv"  # whose own error stands beside the kernel's
TIMED = "F.linear"  # what wall time is a ratio to
BOUND = "running"  # the kind that a verdict rests on
# The part of an invariance check that a sweep can afford for every configuration.
IDS, ROWS = 64, 3
QUICK: dict[str, Any] = {
    "sizes": (1, 3, 17),
    "position_sizes": (9,),
    "chunks": (1, 3),
    "max_blocks": (),  # other block counts are other configurations of the sweep
    "repeats": 1,
    "max_active": ROWS,
}
COUNTED = (8, 512)  # rows and ids of the launch that is counted, at most
Sizes = tuple[int | None, int | None]  # rows and ids that are used; None: all
_ADVERSARIAL = (12, 16)  # rows and columns, as in `wb.bit_classes`
_ONE = threading.RLock()  # of the caches below


@dataclass(frozen=True)
class Versions:
    """What a run depends on beside its configuration and inputs."""

    source_digest: str
    compiler: str
    backend: str
    code_digest: str = ""
    workbench: str = __version__
    torch: str = str(torch.__version__)

    @classmethod
    def of(cls, op: str, kernel: Any, anew: bool = False) -> Versions:
        """What a kernel, and the code around it, say of themselves; `anew` as in `code_digest`."""
        info = kernel.info
        code = code_digest(op, info.backend, anew)
        return cls(info.source_digest, info.compiler, info.backend, code)

    def differ(self, other: Versions) -> str:
        """Names and values that differ, in words; empty where none does."""
        pairs = ((f.name, version_text(getattr(self, f.name)), version_text(getattr(other, f.name)))
                 for f in dataclasses.fields(self))  # fmt: skip
        return ", ".join(f"{name} {a:.40} and not {b:.40}" for name, a, b in pairs if a != b)


@dataclass(frozen=True)
class Task:
    """What a worker is told.

    Attributes:
        op, config, dtype, out_dtype: What is built and asked of it.
        backend: "twin" or "npu".
        source: Where the input comes from; shape: (rows, ids) of it.
        fixture, name: Content and name of the input; sizes: (N, H, V).
        versions: As the coordinator knows them: a run that fails early has them too.
        timing: Rounds of the timing; 0: no wall time.
        repeat: Which repetition of the same runs this is.
        outputs: "kernel" or "host": see `workbench.sweep.outputs`.
    """

    op: str
    config: KernelConfig
    dtype: str
    out_dtype: str | None
    backend: str
    source: InputRef
    shape: tuple[int | None, int | None]
    fixture: str
    sizes: tuple[int, int, int]
    name: str
    versions: Versions
    timing: int = 5
    repeat: int = 0
    outputs: str = "kernel"

    def unfinished(self, status: str, error: str, seconds: float | None = None) -> Run:
        """The run of a task that was refused or has failed."""
        return Run(**self._same(), status=status, error=error, provenance=self._from(seconds))

    @functools.cached_property
    def key(self) -> str:
        """The key that the run will have, if the worker has the same versions."""
        return self.unfinished("failed", "not run").key

    def _same(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "config": self.config.to_dict(),
            "arch": self.config.arch,
            "backend": self.backend,
            "dtype": self.dtype,
            "out_dtype": self.out_dtype,
            "shape": self.sizes,
            "inputs": Inputs(self.fixture, self.name, self.source.seed),
            "repeat": self.repeat,
        }

    def _from(self, seconds: float | None, **extra: Any) -> Provenance:
        now = datetime.datetime.now(datetime.timezone.utc)
        started = now - datetime.timedelta(seconds=seconds or 0)
        v = self.versions
        return Provenance(
            source_digest=v.source_digest,
            compiler=v.compiler,
            workbench=v.workbench,
            torch=v.torch,
            cpu=cpu_name(),
            machine=platform.node(),
            started=started.isoformat(timespec="seconds"),
            seconds=seconds,
            extra=extra,
            code_digest=v.code_digest,
            outputs="" if self.outputs == "kernel" else self.outputs,
        )


def versions(
    op: str, config: KernelConfig, backend: str, dtype: str, anew: bool = False
) -> Versions:
    """The versions that a build on this machine has; `anew`: in a process that starts now."""
    return Versions.of(op, build(op, config, backend, dtypes=(dtype,)), anew)


def compiled(task: Task) -> None:
    """Build ahead of the run: afterwards the variant is in the cache."""
    build(task.op, task.config, task.backend, dtypes=(task.dtype,))
    if task.outputs == "host":
        host.library("linear.cpp")


def measure(task: Task) -> dict[str, Any]:
    """Run a task; the `Run` as a dict. What goes wrong is a failed run, not an exception."""
    started = time.perf_counter()
    try:
        found = _measured(task, started)
    except Exception as error:
        found = task.unfinished("failed", error_text(error), time.perf_counter() - started)
    return found.to_dict()


def error_text(error: BaseException) -> str:
    """What a failed run says of an error: one of ours in its own words, others with their type."""
    if isinstance(error, WorkbenchError):
        return str(error) or type(error).__name__
    return f"{type(error).__name__}: {error}"


def _measured(task: Task, started: float) -> Run:
    with one_thread():
        kernel = build(task.op, task.config, task.backend, dtypes=(task.dtype,))
        here = Versions.of(task.op, kernel)
        differ = here.differ(task.versions)
        if differ:
            raise WorkbenchError(
                f"{differ}, as when the sweep was started: something was edited meanwhile, or this "
                "machine has other versions than the one it was started on. Use one of each, and "
                "call the sweep again"
            )
        given = load(task.source, task.dtype, task.shape)
        if given.inputs.fixture_id != task.fixture:
            raise WorkbenchError(
                f"the inputs are {given.inputs.fixture_id} here and {task.fixture} where the sweep "
                "was started: another file, or another version of torch. Use one of each"
            )
        subject = _Subject(task, kernel)
        out, how = subject.outputs(given)
        made, tree, why = subject.bits(given, out)
        drift, reference = _drift(task, given, out)
        found = Run(
            **task._same(),
            provenance=Provenance("", "", "", ""),
            order_hash=None if tree is None else tree.hash,
            bits=made,
            drift=drift,
            reference_drift=reference,
            reference=REFERENCE,
            invariance=subject.invariance(given),
            bound=None if tree is None else _bound(task, given, tree, out),
            counters=subject.counters(given, out),
            time=subject.time(given),
        )
    seconds = time.perf_counter() - started
    info = kernel.info
    told = dataclasses.replace(task, versions=here)._from(
        seconds,
        threads=1,
        fidelity=info.fidelity.get("tag", ""),
        **({"order": why} if why else {}),
        **({"outputs_by": how} if how else {}),
    )
    return dataclasses.replace(found, provenance=told, key="")


class _Subject:
    """A built kernel as (hidden, weight) -> logits, and what is asked of it."""

    def __init__(self, task: Task, kernel: Any) -> None:
        self.task, self.kernel = task, kernel
        self.twin = kernel.info.backend == "twin"
        self.out_dtype = None if task.out_dtype is None else DTYPES[task.out_dtype]
        self.info, self.config = kernel.info, kernel.config  # for the evidence

    def __call__(self, hidden: torch.Tensor, weight: torch.Tensor, **more: Any) -> torch.Tensor:
        hidden, weight = self.on(hidden), self.on(weight)
        if self.task.op == "det_gemm":
            flat = hidden.reshape(-1, hidden.shape[-1])
            out = self.kernel(flat, weight.T.contiguous(), out_dtype=self.out_dtype, **more)
            return out.reshape(*hidden.shape[:-1], len(weight))
        return self.kernel(hidden, weight, out_dtype=self.out_dtype, **more)

    def outputs(self, given: Fixture) -> tuple[torch.Tensor, str]:
        """All outputs, and who computed them if it was not the kernel."""
        if self.task.outputs == "kernel":
            return self(given.hidden, given.weight).cpu(), ""
        stand_in = OnHost(self.kernel)
        out = stand_in(given.hidden, given.weight, out_dtype=self.out_dtype)
        told = stand_in.last
        part = "none" if told is None else "{} x {}".format(*told.part)
        first = " x ".join(str(min(a, b)) for a, b in zip(COUNTED, out.shape, strict=True))
        return out, (
            f"the order-exact host kernel; {part} of them, spread over all, and the first {first} "
            f"compared with the {self.task.backend}"
        )

    def on(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor if self.twin else tensor.to("npu")

    def bits(self, given: Fixture, out: torch.Tensor) -> tuple[str, ReductionTree | None, str]:
        """Name of the results' bits, and the order (or why there is none)."""
        width = given.hidden.shape[1]
        hard = adversarial(width, *_ADVERSARIAL, self.task.dtype, seed=0)
        found = results(self.task.op, self.kernel, *map(self.on, hard))
        name = fixture_id(*(t.cpu() for t in found), out)
        try:
            return name, reveal(self.kernel, width, dtype=self.task.dtype, check=False), ""
        except RevealError as error:
            return name, None, str(error)

    def invariance(self, given: Fixture) -> Verdict:
        found = invariance(self, given.hidden, given.weight[:IDS], transforms=TRANSFORMS, **QUICK)
        first = next((t.first_mismatch for t in found.transforms if t.first_mismatch), None)
        return Verdict(found.passed, tuple(t.name for t in found.transforms), first)

    def counters(self, given: Fixture, out: torch.Tensor) -> dict[str, int]:
        """What the twin counts in one launch, and of how many logits."""
        if not self.twin:
            return {}
        rows, ids = COUNTED
        hidden, weight = given.hidden[:rows], given.weight[:ids]
        counted = self(hidden, weight, counters=True)
        if fixture_id(counted) != fixture_id(out[:rows, :ids]):
            raise WorkbenchError(
                f"{self.task.op} gave other bits in a launch of {list(counted.shape)} logits that "
                "was counted than "
                + ("the host kernel; use outputs='kernel', and report this"
                   if self.task.outputs == "host"
                   else "without; a launch with counters must compute the same")
            )  # fmt: skip
        flat = work(self.kernel).flat()  # what the cost model reads
        return {**self.kernel.last.counters, **flat, "logits": counted.numel(), "rows": len(hidden)}

    def time(self, given: Fixture) -> WallTime | None:
        """Medians of alternating rounds on one thread each, after one that is not counted.

        Where outputs come from the host kernel, that is no time of this one's: it is timed on what
        is counted."""
        if not self.task.timing:
            return None
        hidden, weight = self.on(given.hidden), self.on(given.weight)
        if self.task.outputs == "host":
            hidden, weight = hidden[: COUNTED[0]], weight[: COUNTED[1]]
        ready = _nothing if self.twin else torch.npu.synchronize  # type: ignore[attr-defined]
        more = {"threads": 1} if self.twin else {}
        sides: tuple[Callable[[], Any], ...] = (
            lambda: torch.nn.functional.linear(hidden, weight),
            lambda: self(hidden, weight, **more),
        )
        taken: tuple[list[float], list[float]] = ([], [])
        for turn in range(self.task.timing + 1):
            for side, times in zip(sides, taken, strict=True):
                ready()
                start = time.perf_counter()
                side()
                ready()
                if turn:
                    times.append(time.perf_counter() - start)
        reference, own = (statistics.median(times) for times in taken)
        return WallTime(reference / own, TIMED, own, reference)


def _nothing() -> None:
    """A launch on the twin has ended when it returns."""


# ---- what configurations share -----------------------------------------------------------------


# By the name of the content, not of the file it is in: a file can be written anew.
@functools.lru_cache(maxsize=4)
def _truth(source: InputRef, dtype: str, shape: Sizes, fixture: str) -> Truth:
    given = load(source, dtype, shape)
    return Truth(given.hidden, given.weight, ("exact", REFERENCE))


@functools.lru_cache(maxsize=64)
def _bounds(
    source: InputRef, dtype: str, shape: Sizes, fixture: str, out_dtype: str, order: str
) -> Bounds:
    given, tree = load(source, dtype, shape), _trees[order]
    return bounds(tree, given.hidden, given.weight, out_dtype=DTYPES[out_dtype])


_trees: dict[str, ReductionTree] = {}
_drifts: dict[tuple, tuple[DriftFigures, DriftFigures]] = {}


def _drift(task: Task, given: Fixture, out: torch.Tensor) -> tuple[DriftFigures, DriftFigures]:
    """Distances of the outputs and of the reference from the exact logits."""
    key = (given.inputs.fixture_id, fixture_id(out))
    with _ONE:
        if key not in _drifts:
            truth = _truth(task.source, task.dtype, task.shape, task.fixture)

            def told(hidden: torch.Tensor, weight: torch.Tensor, **_: Any) -> torch.Tensor:
                return out

            found = judge(told, truth, None if task.out_dtype is None else DTYPES[task.out_dtype])
            pairs = (("kernel", "exact"), (REFERENCE, "exact"))
            figures = tuple(
                DriftFigures(c.max_abs, c.mean_abs, c.rms, c.max_ulp)
                for c in (found[pair] for pair in pairs)
            )
            _drifts[key] = (figures[0], figures[1])
        return _drifts[key]


def _bound(task: Task, given: Fixture, tree: ReductionTree, out: torch.Tensor) -> BoundFigures:
    with _ONE:
        _trees[tree.hash] = tree
        where = (task.source, task.dtype, task.shape, task.fixture)
        found = _bounds(*where, task.out_dtype or task.dtype, tree.hash)
        errors = out.double().numpy() - found.exact
        return BoundFigures(BOUND, float(found.get(BOUND).max()), found.ratio(errors)[BOUND])


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch inside: references then have one order, whoever computes them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
