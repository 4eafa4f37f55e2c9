"""A folder for the tensors that travel to workers as files: made when there are some, and gone with
its sweep, however that ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "workbench-sweep-"


class Scratch:
    """One sweep's folder, under the system's folder for temporary files.

    A process that is killed leaves its folder, and the next one that makes a folder removes it.
    Whether one is left is told by a lock on it, which the system frees when its process ends: the
    process number in its name may be another one's by then, or mean nothing here (a container).

    Example:
        >>> with Scratch() as scratch:
        ...     there = scratch.folder()
        ...     there.is_dir(), there == scratch.folder()
        (True, True)
        >>> there.exists()
        False
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._lock: int | None = None

    def folder(self) -> Path:
        """The folder; the first call makes it, and removes those of sweeps that were killed."""
        if self._folder is None:
            root = Path(tempfile.gettempdir())
            for left in root.glob(f"{PREFIX}[0-9]*-*"):
                _remove(left)
            while self._folder is None:
                made = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=root))
                # Not held: another process took it for a left one before it was locked.
                held, self._lock = _locked(made)
                self._folder = made if held else None
        return self._folder

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
        self._folder = self._lock = None


def _locked(folder: Path) -> tuple[bool, int | None]:
    """Whether the folder is this process's now, and the descriptor to close at the end: None where
    the disk knows no locks, so that nobody can take it either."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False, None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(folder)):
            return True, fd
        mine = False
    except (BlockingIOError, FileNotFoundError):
        mine = False
    except OSError:
        mine = True
    os.close(fd)
    return mine, None


def _remove(folder: Path) -> None:
    """Remove a folder of this user's that no process has locked."""
    _, lock = _locked(folder)
    if lock is not None:
        with contextlib.suppress(OSError):
            if os.fstat(lock).st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
