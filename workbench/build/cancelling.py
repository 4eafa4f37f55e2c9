"""Giving up a build from another thread.

A compiler is a process, so a build that nobody waits for any more can be ended at once: its
processes are killed and its work folder goes; the cache only ever has finished entries.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from workbench.errors import Cancelled

T = TypeVar("T")


class Cancel:
    """A wish to give up, made by one thread and honoured in another.

    Example:
        >>> wish = Cancel()
        >>> wish.cancel()
        >>> with cancellable(wish):
        ...     check()
        Traceback (most recent call last):
        workbench.errors.Cancelled: given up before it was done
    """

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether somebody has asked for it."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Ask for it; from any thread, any number of times."""
        self._event.set()


_current: contextvars.ContextVar[Cancel | None] = contextvars.ContextVar("cancel", default=None)


@contextlib.contextmanager
def cancellable(wish: Cancel) -> Iterator[None]:
    """Builds that this thread makes inside are given up when `wish` is made.

    Raises:
        Cancelled: From whatever was at work.
    """
    before = _current.set(wish)
    try:
        yield
    finally:
        _current.reset(before)


def current() -> Cancel | None:
    """The wish that the work of this thread listens to."""
    return _current.get()


def check() -> None:
    """Raise Cancelled where the work of this thread is no longer wanted."""
    wish = current()
    if wish is not None and wish.cancelled:
        raise Cancelled("given up before it was done")


def bound(work: Callable[..., T]) -> Callable[..., T]:
    """`work`, to be run once on another thread, listening to what this thread listens to."""
    context = contextvars.copy_context()
    return lambda *args: context.run(work, *args)
