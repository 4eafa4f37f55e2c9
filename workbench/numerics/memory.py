"""Sizes beyond this machine's memory, refused before anything is made."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.errors import InputError

_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container


def total_memory() -> int:
    """Bytes of memory that this process can have at most.

    Example:
        >>> total_memory() > 2**20
        True
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(total, int(_LIMIT.read_text()))
    except (OSError, ValueError):  # there is none, or it says "max"
        return total


def check_memory(nbytes: int, what: str) -> None:
    """Raise InputError where `what` needs more bytes than the machine has.

    Example:
        >>> check_memory(1, "a byte")
    """
    has = total_memory()
    if nbytes > has:
        raise InputError(
            f"{what} takes at least {nbytes:,} bytes; this machine has {has:,}. Give smaller sizes"
        )
