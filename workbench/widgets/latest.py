"""Work off the main thread where only the latest request counts."""

from __future__ import annotations

import atexit
import math
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable
from typing import Any

_EXIT_SECONDS = 10
_alive: weakref.WeakSet[Latest] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Let what is at work come to an end before the interpreter does.

    A thread that comes back from C++ to an interpreter that is being taken down is unwound through
    it, which aborts the process. Nothing is applied any more; longer than a step it does not take.
    """
    end = time.monotonic() + _EXIT_SECONDS
    busy = [one for one in _alive if one.busy]
    for one in busy:
        one.forget()
    for one in busy:
        one.wait(max(0.0, end - time.monotonic()))


class Latest:
    """Runs `work(item)` on a thread of its own; a newer item makes an older one moot.

    `work` yields results; each goes to `apply` unless a newer item has come in the meantime, and
    then the rest of the older work is given up at its next yield. The thread ends when there is
    nothing left to do, so an idle one never waits, in a notebook or without a front end.

    Args:
        work: item -> results, one after another.
        apply: Called with each result that still counts, on the worker's thread, one at a time.
        failed: Called with (item, exception) where `work` or `apply` raised, `SystemExit` too.
        patience: Seconds after which older work that has become moot and yields nothing is left to
            itself, and newer work begins beside it: a function of a user's may never return.
    """

    def __init__(
        self,
        work: Callable[[Any], Iterable[Any]],
        apply: Callable[[Any], None],
        failed: Callable[[Any, BaseException], None],
        patience: float = math.inf,
    ) -> None:
        self._work, self._apply, self._failed = work, apply, failed
        self._patience, self._moot_since = patience, math.inf
        # Re-entrant: `apply` may set widgets whose observers submit again.
        self._turn = threading.RLock()
        self._generation = 0
        self._waiting: tuple[int, Any] | None = None
        self._thread: threading.Thread | None = None
        _alive.add(self)

    @property
    def busy(self) -> bool:
        """True while something is being worked on."""
        return self._thread is not None

    def submit(self, item: Any) -> None:
        """Ask for `item`; whatever was asked for before no longer counts."""
        with self._turn:
            self.forget()
            self._waiting = self._generation, item
            stuck = time.monotonic() - self._moot_since > self._patience
            if self._thread is None or stuck:
                self._moot_since = math.inf
                self._thread = threading.Thread(
                    target=self._run, name="workbench-panel", daemon=True
                )
                self._thread.start()

    def forget(self) -> None:
        """Whatever was asked for no longer counts; nothing of it is applied from now on."""
        with self._turn:
            self._generation += 1
            self._waiting = None
            self._moot_since = min(self._moot_since, time.monotonic())

    def wait(self, timeout: float = 60) -> bool:
        """Wait until nothing is left to do; False if that took longer than `timeout` seconds."""
        end = time.monotonic() + timeout
        while self.busy:
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def _run(self) -> None:
        while True:
            with self._turn:
                if self._thread is not threading.current_thread():
                    return  # another one goes on
                if self._waiting is None:
                    self._thread = None
                    return
                generation, item = self._waiting
                self._waiting, self._moot_since = None, math.inf
            try:
                for result in self._work(item):
                    with self._turn:
                        if generation != self._generation:
                            break
                        self._apply(result)
            except BaseException as error:  # sys.exit() in a user's function ends no panel
                with self._turn:
                    if generation == self._generation:
                        self._tell(item, error)

    def _tell(self, item: Any, error: BaseException) -> None:
        try:
            self._failed(item, error)
        except Exception:  # nobody is left to tell; the next request has to run all the same
            traceback.print_exc()
