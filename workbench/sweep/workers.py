"""Worker processes as an executor that outlives them.

`concurrent.futures.ProcessPoolExecutor` breaks as a whole when one of its processes dies, and does
not say which call killed it. Here each process has one call at a time: its death is that call's,
and a new process takes the next one.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from workbench.errors import InputError, WorkbenchError
from workbench.sweep.worker import receive, send

_TRIES = 2  # the system may have killed a process for what another one did


class WorkerDied(WorkbenchError, RuntimeError):
    """The process that ran a call ended before it answered, in every try."""


class WorkerPool(Executor):
    """Calls in `workers` processes, one at a time each.

    Args:
        workers: How many processes; they start at the first call.
        timeout: Seconds that a call may take before its process is killed; None: any number.
        environment: Variables for the processes, beside those of this one.

    What is called and its arguments must be picklable, and importable there.

    Example:
        >>> with WorkerPool(1) as pool:
        ...     pool.submit(divmod, 7, 2).result()
        (3, 1)
    """

    def __init__(
        self,
        workers: int = 1,
        timeout: float | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise InputError(f"workers={workers!r}; want at least 1 process")
        self.timeout = timeout
        self._environment = dict(environment or {})
        self._calls: queue.SimpleQueue[tuple | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._threads = [
            threading.Thread(target=self._serve, name=f"workbench-worker-{i}", daemon=True)
            for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._closed.is_set():
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._calls.put((future, fn, args, kwargs))
        return future

    @property
    def processes(self) -> list[int]:
        """Their ids, as far as they have started."""
        with self._lock:
            return [process.pid for process in self._running]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; without `wait` in the middle of what they do."""
        if cancel_futures or not wait:
            self._drop()
        for _ in self._threads:
            self._calls.put(None)
        self._closed.set()
        if not wait:
            with self._lock:
                for process in self._running:
                    process.kill()
        for thread in self._threads:
            thread.join()

    def _drop(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call[0].cancel()

    # ---- one thread for each process -------------------------------------------------------------

    def _serve(self) -> None:
        held: list[_Process] = []  # the process of this thread, if there is one
        try:
            while (call := self._calls.get()) is not None:
                future, *what = call
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    done, value = self._answer(held, tuple(what))
                except BaseException as error:  # not to be pickled, no process to be had, died
                    done, value = False, error
                (future.set_result if done else future.set_exception)(value)
        finally:
            self._forget(held)

    def _answer(self, held: list[_Process], what: tuple) -> tuple[bool, Any]:
        ended = ""
        for _ in range(_TRIES):
            if self._closed.is_set() and not held:
                break
            if not held:
                held.append(self._start())
            try:
                return held[0].ask(what, self.timeout)
            except TimeoutError:
                self._forget(held)
                raise WorkerDied(
                    f"took more than {self.timeout:g} s, and its process was ended. Give a longer "
                    "timeout, or fewer rows and ids"
                ) from None
            except (EOFError, BrokenPipeError):
                ended = held[0].ending()
            self._forget(held)
        if self._closed.is_set():
            raise WorkerDied("the sweep was stopped while this ran")
        raise WorkerDied(
            f"the worker process ended ({ended}), {_TRIES} times. The kernel may have written "
            "where it must not: launch it with check=True to see"
        )

    def _start(self) -> _Process:
        with self._lock:
            process = _Process(self._environment)
            self._running.add(process.popen)
            return process

    def _forget(self, held: list[_Process]) -> None:
        while held:
            process = held.pop()
            process.close()
            with self._lock:
                self._running.discard(process.popen)


class _Process:
    """A worker and the two pipes to it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        source, self._to = os.pipe()
        self._from, answers = os.pipe()
        # This workbench, not one that is installed, nor one in the current folder, which `-m` would
        # put first.
        path = [str(Path(__file__).parents[2]), *map(str, sys.path)]
        code = f"import sys; sys.path[:] = {path!r}; from workbench.sweep import worker"
        try:
            self.popen = subprocess.Popen(
                [sys.executable, "-c", f"{code}; worker.main({source}, {answers})"],
                stdin=subprocess.DEVNULL,
                pass_fds=(source, answers),
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is the coordinator's to handle
            )
        finally:
            os.close(source)
            os.close(answers)

    def ask(self, what: tuple, timeout: float | None) -> tuple[bool, Any]:
        send(self._to, what)
        if not wait([self._from], timeout):
            raise TimeoutError
        return receive(self._from)

    def ending(self) -> str:
        """How it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(timeout=5)
        code = self.popen.returncode
        if code is None:
            return "its pipe closed"
        return f"signal {-code}" if code < 0 else f"status {code}"

    def close(self) -> None:
        for fd in (self._to, self._from):
            with contextlib.suppress(OSError):
                os.close(fd)
        self.popen.kill()
        self.popen.wait()
