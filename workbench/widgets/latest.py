"""Work off the main thread where only the latest request counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any


class Latest:
    """Runs `work(item)` on a thread of its own; a newer item makes an older one moot.

    `work` yields results; each goes to `apply` unless a newer item has come in the meantime, and
    then the rest of the older work is given up at its next yield. The thread ends when there is
    nothing left to do, so an idle one never waits, in a notebook or without a front end.

    Args:
        work: item -> results, one after another.
        apply: Called with each result that still counts, on the worker's thread, one at a time.
        failed: Called with (item, exception) where `work` or `apply` raised.
    """

    def __init__(
        self,
        work: Callable[[Any], Iterable[Any]],
        apply: Callable[[Any], None],
        failed: Callable[[Any, Exception], None],
    ) -> None:
        self._work, self._apply, self._failed = work, apply, failed
        # Re-entrant: `apply` may set widgets whose observers submit again.
        self._turn = threading.RLock()
        self._generation = 0
        self._waiting: tuple[int, Any] | None = None
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """True while something is being worked on."""
        return self._thread is not None

    def submit(self, item: Any) -> None:
        """Ask for `item`; whatever was asked for before no longer counts."""
        with self._turn:
            self._generation += 1
            self._waiting = self._generation, item
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="workbench-panel", daemon=True
                )
                self._thread.start()

    def forget(self) -> None:
        """Whatever was asked for no longer counts; nothing of it is applied from now on."""
        with self._turn:
            self._generation += 1
            self._waiting = None

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
                if self._waiting is None:
                    self._thread = None
                    return
                generation, item = self._waiting
                self._waiting = None
            try:
                for result in self._work(item):
                    with self._turn:
                        if generation != self._generation:
                            break
                        self._apply(result)
            except Exception as error:
                with self._turn:
                    if generation == self._generation:
                        self._failed(item, error)
