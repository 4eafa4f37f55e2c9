"""`sweep`: every configuration of a space on every input, into a record.

The coordinator alone writes the record: workers return runs. So a run is in it when the coordinator
says so, whatever a worker or its machine does, and workers need no disk in common with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from workbench import __version__
from workbench.errors import BuildError, InputError, MissingError
from workbench.sweep import fixtures
from workbench.sweep.measure import Task, Versions, compiled, error_text, measure, versions
from workbench.sweep.outputs import chosen
from workbench.sweep.record import Record, RecordError
from workbench.sweep.result import SweepResult
from workbench.sweep.run import Run
from workbench.sweep.scratch import Scratch
from workbench.sweep.space import Space
from workbench.sweep.workers import WorkerPool

_PROBES = 4  # configurations that are built to see what builds are, if the first do not build
_POLL = 0.2  # seconds between looks at `stop`
_WINDOW = 64  # calls that an executor of unknown size is given at a time
_TIMEOUT = 600.0  # seconds for one run
_LONGEST = 1e6  # of them: systems wait for 2^31 milliseconds at most
_PATIENCE = "10s"  # for a Dask scheduler to answer


@dataclass(frozen=True)
class Progress:
    """Where a sweep is.

    Attributes:
        done, total: Configurations, those that the record had and the refused among `done`.
        failed: Of `done`.
        seconds: Since the start. left: estimated; None before two runs have ended.
        run: The one that has just ended; None at the start.
    """

    done: int
    total: int
    failed: int
    seconds: float
    left: float | None
    run: Run | None


def sweep(
    space: Space,
    inputs: Any = fixtures.REAL,
    store: Record | str | os.PathLike[str] = "runs.sqlite",
    client: Any = None,
    workers: int | None = None,
    resume: bool = True,
    progress: Callable[[Progress], None] | bool | None = None,
    *,
    timing: int = 5,
    repeat: int = 0,
    timeout: float | None = _TIMEOUT,
    stop: threading.Event | None = None,
    outputs: str = "auto",
) -> SweepResult:
    """Measure every configuration of `space` on every input, and record each run as it ends.

    What cannot be built is recorded as refused, with the reason, before anything runs. A run that
    fails is recorded as failed, and the others go on. A sweep that ended in any way goes on where
    it was when it is called again: runs that the record has are not measured again.

    Each run has: the order of summation revealed from the binary and a name of the results' bits
    (on adversarial data and on the input), drift from the exact logits and that of torch.mv, an
    invariance check (T1 to T7 on 3 rows and 64 vocabulary ids, batches of 1, 3 and 17), the derived
    running bound with the largest |error| / bound, the twin's counters for a launch of at most
    8 x 512 logits, wall time as a ratio to F.linear (one thread each, medians of alternating
    rounds), and versions.

    Where the input is large, the outputs are computed by the order-exact host kernel, and part of
    them by the twin too, whose bits must be equal; the wall time is then that of the launch which
    is counted. All else is asked of the twin as ever. The run says so.

    Args:
        space: What is tried.
        inputs: "smollm2", a distribution of `samples.qwen3`, an `InputRef`, a sample, a pair
            (hidden [..., H], weight [V, H]), or a list of such.
        store: A `Record`, or the path of one; it is made if it is not there.
        client: Who runs: any `concurrent.futures.Executor`, a Dask client or cluster, or the
            address of a Dask scheduler. None: processes of this machine.
        workers: How many of those; 0: none, everything in this process. None: half the cores.
            While they run, threads of this process compile what comes next.
        resume: False: measure again what the record has. The record keeps the run it had, and other
            bits than that one's make the new run a failed one.
        progress: Called with a `Progress` now and then; True or False: a bar or none; None: a bar
            where stderr is a terminal.
        timing: Rounds of the timing; 0: no wall time.
        repeat: Count it up to measure the same again, as runs of their own in the record.
        timeout: Seconds for one run in a process of this machine; None: any number.
        stop: Set it from another thread to stop: the result has what was done. Ctrl-C stops too.
        outputs: Who computes them: "kernel"; "host": the host kernel, of lm_head on the twin; or
            "auto": the latter for more than 2^28 products (rows x H x ids). Runs of the two are
            runs of their own in the record.

    Returns:
        All runs of the space, those from the record too, in the order of the space.

    Raises:
        InputError: Inputs that do not fit, or a client that is none.
        MissingError: No compiler, or a Dask address without Dask.
        RecordError: The record cannot be used or written. What was added is in it.
        KeyboardInterrupt: Ctrl-C; every run that had ended is in the record.

    Example:
        >>> import tempfile
        >>> space = Space(tiles=(64, 128, 100), shapes=[(2, 16)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = sweep(space, store=f"{folder}/runs.sqlite", workers=0, progress=False)
        >>> len(found.runs), found.refused, found.failed, len(found.classes())
        (3, 1, 0, 2)
    """
    _check(space, workers, timing, repeat, timeout, stop)
    chosen(outputs, space.op, space.backend.replace("auto", "twin"), (0, 0, 0))  # or refused now
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(Scratch()).folder
        record = store if isinstance(store, Record) else stack.enter_context(Record(store))
        executor, window, local = _executor(client, workers, timeout, stack)
        tasks = _tasks(space, inputs, folder, timing, executor, repeat, outputs)
        job = _Job(record, tasks, resume, stack.enter_context(_shown(progress)), started)
        job.refuse()
        stopped = False
        if job.waiting:
            loop = _Loop(job, executor, window, stop or threading.Event(), timeout)
            stopped = loop.run(ahead=local, stack=stack)
    return SweepResult(
        space=space.to_dict() | {"title": space.title()},
        runs=tuple(job.found[key] for key, _, _ in tasks if key in job.found),
        total=len(tasks),
        kept=job.kept,
        store=str(record.path),
        seconds=time.perf_counter() - started,
        stopped=stopped,
        notes=tuple(job.notes),
    )


Planned = tuple[str, Task, str]  # key, what to do, why it is refused ("" where it is not)


def _check(space: Any, workers: Any, timing: Any, repeat: Any, timeout: Any, stop: Any) -> None:
    if not isinstance(space, Space):
        raise InputError(f"space is {space!r:.60}; want a workbench.sweep Space")
    for name, value in (("workers", workers), ("timing", timing), ("repeat", repeat)):
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        if not whole and not (name == "workers" and value is None):
            raise InputError(f"{name}={value!r:.60}; want a whole number from 0")
    number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if timeout is not None and not (number and 0 < timeout <= _LONGEST):
        raise InputError(
            f"timeout={timeout!r:.60}; want seconds for one run, up to {_LONGEST:g}, or None for "
            "any number"
        )
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise InputError(f"stop={stop!r:.60}; want a threading.Event, which another thread sets")


def _tasks(
    space: Space,
    inputs: Any,
    folder: Callable[[], Path],
    timing: int,
    executor: Executor,
    repeat: int = 0,
    by: str = "auto",
) -> list[Planned]:
    """All that there is to do, in order, each under the key that its run will have."""
    points = space.points()
    made = _versions(space, points, executor)
    planned: dict[str, Planned] = {}  # what two names or shapes stand for is measured once
    for source in fixtures.references(inputs, folder):
        for point in points:
            given = fixtures.load(source, point.dtype, point.shape)
            task = Task(
                op=space.op,
                config=point.config,
                dtype=point.dtype,
                out_dtype=space.out_dtype,
                backend=made.backend,
                source=source,
                shape=point.shape,
                fixture=given.inputs.fixture_id,
                sizes=given.shape,
                name=given.inputs.name,
                versions=made,
                timing=timing,
                repeat=repeat,
                outputs=chosen(by, space.op, made.backend, given.shape),
            )
            planned.setdefault(task.key, (task.key, task, point.refusal))
    return [*planned.values()]


def _versions(space: Space, points: list[Any], executor: Executor) -> Versions:
    """What builds here, or where the executor runs, will say of themselves."""
    error: Exception | None = None
    good = [point for point in points if not point.refusal]
    for point in good[:: max(1, len(good) // _PROBES)]:
        what = (space.op, point.config, space.backend, point.dtype)
        try:
            if isinstance(executor, (_Here, WorkerPool)):  # whose processes are still to start
                return versions(*what, anew=isinstance(executor, WorkerPool))
            return executor.submit(versions, *what).result()
        except BuildError as failed:  # of this configuration, perhaps not of the next
            error = failed
        except BrokenExecutor as failed:
            raise InputError(f"the client runs nothing: {failed}. Give one that works") from failed
    if error is not None:
        raise error
    backend = "twin" if space.backend == "auto" else space.backend
    return Versions("none was built", "none was asked", backend)


class _Job:
    """What has been found so far, and what is still to be done."""

    def __init__(
        self,
        record: Record,
        tasks: list[Planned],
        resume: bool,
        show: Callable[[Progress], None],
        started: float,
    ) -> None:
        self.record, self.tasks, self.show, self.started = record, tasks, show, started
        self.found: dict[str, Run] = {}
        self.notes: list[str] = []
        # What is refused now is refused, and what is not has to have run.
        good = {key: "refused" if refusal else "ok" for key, _, refusal in tasks}
        for run in record.runs() if resume else []:
            if good.get(run.key) == run.status:
                self.found[run.key] = run
        self.waiting = deque(
            (key, task) for key, task, refusal in tasks if not refusal and key not in self.found
        )
        self.kept = len(self.found)
        untimed = [r for r in self.found.values() if r.status == "ok" and r.time is None]
        if untimed and tasks[0][1].timing:
            self.notes.append(
                f"{len(untimed)} runs of the record have no wall time: they were measured without, "
                "and are not measured again. Another `repeat` measures them as runs of their own"
            )
        self.new = self.failed = 0
        self.since = time.perf_counter()

    def refuse(self) -> None:
        """Record what cannot be built, all at once."""
        new = [
            (key, task.unfinished("refused", refusal))
            for key, task, refusal in self.tasks
            if refusal and key not in self.found
        ]
        self.record.add_all(run for _, run in new)
        there = ((key, self.record.get(run.key)) for key, run in new)
        # A record keeps a run that is better than a refusal; here the configuration is refused.
        self.found.update(
            (key, old if old.status == "refused" else dict(new)[key]) for key, old in there
        )
        self.tell(None)

    def add(self, ended: list[tuple[str, Run]]) -> None:
        """Record runs that have ended."""
        for key, run in ended:
            try:
                number = self.record.add(run)
            except RecordError as error:
                if error.reason != "other bits":
                    raise
                # The record keeps what it had; here the run is a failed one.
                run = dataclasses.replace(run, status="failed", error=str(error))
            else:
                run = dataclasses.replace(run, id=number)
            self.found[key] = run
            self.new += 1
            self.failed += run.status == "failed"
            self.tell(run)

    def tell(self, run: Run | None) -> None:
        now = time.perf_counter()
        # From the end of the first run on: before it stand the first build and the workers' start.
        if self.new == 1:
            self.since = now
        pace = (now - self.since) / (self.new - 1) if self.new > 1 else None
        self.show(
            Progress(
                done=len(self.found),
                total=len(self.tasks),
                failed=self.failed,
                seconds=now - self.started,
                left=None if pace is None else pace * (len(self.tasks) - len(self.found)),
                run=run,
            )
        )


class _Loop:
    """Gives tasks to an executor, some at a time, and takes what comes back."""

    def __init__(
        self,
        job: _Job,
        executor: Executor,
        window: int,
        stop: threading.Event,
        timeout: float | None,
    ) -> None:
        self.job, self.executor, self.window, self.stop = job, executor, window, stop
        self.timeout = timeout
        self.running: dict[Future[Any], tuple[str, Task]] = {}
        self.building: dict[Future[Any], tuple[str, Task]] = {}
        self.ready: deque[tuple[str, Task]] = deque()

    def run(self, ahead: bool, stack: contextlib.ExitStack) -> bool:
        """Until all is done; True if it was stopped before."""
        builders = None
        if ahead:
            threads = os.cpu_count() or 1
            builders = ThreadPoolExecutor(threads, "workbench-build")
            stack.callback(builders.shutdown, wait=True, cancel_futures=True)
        try:
            while self.job.waiting or self.building or self.ready or self.running:
                if self.stop.is_set():
                    self._give_up()
                    return True
                self._feed(builders, stack)
                self.job.add(self._ended(stack))
        except BaseException:
            self._give_up()
            raise
        return False

    def _feed(self, builders: ThreadPoolExecutor | None, stack: contextlib.ExitStack) -> None:
        waiting = self.job.waiting
        if builders is None:
            while waiting and len(self.ready) < self.window:
                self.ready.append(waiting.popleft())
        else:
            # So far ahead that a worker need not wait, not so far that a stop would.
            ahead = 4 * (os.cpu_count() or 1)
            while waiting and len(self.building) + len(self.ready) < ahead:
                item = waiting.popleft()
                self.building[builders.submit(compiled, item[1])] = item
        while self.ready and len(self.running) < self.window:
            try:
                future = self.executor.submit(measure, self.ready[0][1])
            except BrokenExecutor as error:  # before the calls that are out have said so
                self._replace(error, stack)
                continue
            self.running[future] = self.ready.popleft()

    def _ended(self, stack: contextlib.ExitStack) -> list[tuple[str, Run]]:
        pending = [*self.building, *self.running]
        done, _ = wait(pending, timeout=_POLL, return_when=FIRST_COMPLETED)
        ended = []
        for future in done:
            if future in self.building:
                key, task = self.building.pop(future)
                error = future.exception()
                if error is None:
                    self.ready.append((key, task))
                else:
                    ended.append((key, task.unfinished("failed", error_text(error))))
                continue
            key, task = self.running.pop(future)
            error = future.exception() if not future.cancelled() else InputError("cancelled")
            if error is None:
                ended.append((key, _told(key, task, future.result())))
            elif isinstance(error, BrokenExecutor):
                self.ready.append((key, task))
                self._replace(error, stack)
            else:
                ended.append((key, task.unfinished("failed", error_text(error))))
        return ended

    def _replace(self, error: BaseException, stack: contextlib.ExitStack) -> None:
        """A pool that is broken as a whole: its calls go to processes of our own."""
        if isinstance(self.executor, WorkerPool):
            return
        count = getattr(self.executor, "_max_workers", None) or _half()
        self.executor, self.window = _own(count, self.timeout, stack)
        self.job.notes.append(
            f"the executor broke ({error}); {count} processes of this machine went on in its place"
        )

    def _give_up(self) -> None:
        for future in (*self.running, *self.building):
            future.cancel()
        if isinstance(self.executor, WorkerPool):
            self.executor.shutdown(wait=False, cancel_futures=True)
        # What has ended by now is kept.
        ended = [
            (self.running[f][0], _told(*self.running[f], f.result()))
            for f in self.running
            if f.done() and not f.cancelled() and f.exception() is None
        ]
        self.job.add(ended)


def _told(key: str, task: Task, answer: Any) -> Run:
    """The run that a worker told of; a failed one if this workbench cannot read it."""
    try:
        run = Run.from_dict(answer)
        why = "" if run.key == key else "it is that of another run"
    except Exception as error:
        why = error_text(error)
    if not why:
        return run
    return task.unfinished(
        "failed",
        f"what the worker answered is no run of this workbench, {__version__} ({why}). It may have "
        "another version: install one on all machines",
    )


# ---- who runs ------------------------------------------------------------------------------------


class _Here(Executor):
    """Runs a call when it is submitted, in this thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def _half() -> int:
    return max(1, (os.cpu_count() or 1) // 2)


def _own(workers: int, timeout: float | None, stack: contextlib.ExitStack) -> tuple[Executor, int]:
    # One thread each: workers times threads would be more than there are cores.
    one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "WORKBENCH_THREADS"), "1")
    pool = WorkerPool(workers, timeout, one)
    stack.callback(pool.shutdown, wait=False, cancel_futures=True)
    return pool, workers + 1


def _executor(
    client: Any, workers: int | None, timeout: float | None, stack: contextlib.ExitStack
) -> tuple[Executor, int, bool]:
    """(who runs, how many calls at a time, whether it shares this machine's build cache)."""
    if client is None:
        if workers == 0:
            return _Here(), 1, True
        return *_own(_half() if workers is None else workers, timeout, stack), True
    if workers is not None:
        raise InputError("workers are processes of this machine; a client has its own. Give one")
    if isinstance(client, Executor):
        return client, _WINDOW, False
    if hasattr(client, "get_executor"):
        return client.get_executor(pure=False), _WINDOW, False
    if isinstance(client, str) or hasattr(client, "scheduler_address"):
        try:
            from dask.distributed import Client
        except ImportError:
            raise MissingError(
                "a Dask scheduler needs Dask, which is not installed. Run `pip install "
                "'ascend-kernel-workbench[dask]'`, or leave the client out"
            ) from None

        class Closing(Client):
            """One that is closed when it does not start; otherwise its end is tried, and waited
            for, when Python collects it."""

            def start(self, **options: Any) -> None:
                try:
                    super().start(**options)
                except BaseException:
                    self.close()
                    raise

        try:
            dask = stack.enter_context(Closing(client, set_as_default=False, timeout=_PATIENCE))
        except Exception as error:
            raise InputError(
                f"no Dask scheduler answers at {client!r}: {error}. Start one (`dask scheduler`) "
                "and give its address, tcp://host:8786"
            ) from None
        return dask.get_executor(pure=False), _WINDOW, False
    raise InputError(
        f"client={client!r:.60}; give a concurrent.futures Executor, a Dask client or cluster, or "
        "the address of a Dask scheduler"
    )


# ---- progress ------------------------------------------------------------------------------------


@contextlib.contextmanager
def _shown(
    progress: Callable[[Progress], None] | bool | None,
) -> Iterator[Callable[[Progress], None]]:
    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        yield lambda _: None
        return
    from tqdm import tqdm

    with tqdm(unit="run", file=sys.stderr, dynamic_ncols=True) as bar:

        def show(at: Progress) -> None:
            bar.total = at.total
            if at.run is None:
                bar.initial = at.done  # the time left is that of what is measured
            bar.n = at.done
            bar.set_postfix(failed=at.failed, refresh=False)
            bar.refresh()

        yield show
