"""Which files a source includes, found by reading rather than by asking the compiler.

The build key needs the contents of every header before anything is compiled. The scan follows
`#include "x"` and `#include <x>` through the given folders (also in branches that the preprocessor
would skip), so that a header that newly shadows another is seen. What it cannot follow, `#include
MACRO`, is reported; the builder then adds what the compiler itself says it has read.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from workbench import paths

_INCLUDE = re.compile(
    rb"^[ \t]*(?:#|%:)[ \t]*(?:include|import)(?P<next>_next)?\b[ \t]*"
    rb'(?:(?P<q>"[^"\n]+")|(?P<a><[^>\n]+>)|(?P<m>[^\n]*))'
    rb'|__has_include[ \t]*\([ \t]*(?:(?P<hq>"[^"\n]+")|(?P<ha><[^>\n]+>))',
    re.MULTILINE,
)


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


_read: dict[str, tuple[tuple[int, ...], bytes, str]] = {}


def contents(path: str) -> tuple[bytes, str]:
    """The bytes of a file and their digest.

    Our own headers are many and seldom change: they are read again only if their size or times
    have changed. The user's files are read every time.

    Raises:
        OSError: It cannot be read.
    """
    ours = path.startswith((str(paths.TWIN), str(paths.ASCEND)))
    if ours:
        info = os.stat(path)
        stamp = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        known = _read.get(path)
        if known is not None and known[0] == stamp:
            return known[1:]
    with open(path, "rb") as f:
        data = f.read()
    mark = digest(data)
    if ours:
        _read[path] = (stamp, data, mark)
    return data, mark


Stamp = tuple[tuple[str, int, int, int, int], ...]


def stamp(*more: Path) -> Stamp:
    """Size and times of all files of the twin and the kernels, and of those in the folders `more`,
    without reading one: as long as it is the same, a scan of them finds the same. A header that
    newly shadows another changes it."""
    found: list[tuple[str, int, int, int, int]] = []
    todo = [str(folder) for folder in (paths.TWIN, paths.ASCEND, *more)]
    while todo:
        for item in os.scandir(todo.pop()):
            if item.is_dir():
                todo.append(item.path)
            else:
                info = item.stat()
                mark = (info.st_size, info.st_mtime_ns, info.st_ctime_ns)
                found.append((item.path, info.st_ino, *mark))
    return tuple(sorted(found))


@functools.lru_cache(maxsize=512)
def names_in(data: bytes) -> tuple[tuple[tuple[str, bool], ...], bool]:
    """(name, quoted) of each include in `data`, and whether there is one that only a compiler can
    follow."""
    found, macro = [], False
    for m in _INCLUDE.finditer(data):
        if m["m"] is not None or m["next"]:
            macro = True
            continue
        text = (m["q"] or m["a"] or m["hq"] or m["ha"]).decode(errors="replace")
        found.append((text[1:-1], text[0] == '"'))
    return tuple(dict.fromkeys(found)), macro


@dataclass
class Includes:
    """`files` maps each included file that was found to the digest of its bytes."""

    files: dict[str, str] = field(default_factory=dict)
    macro_includes: bool = False


def scan(data: bytes, folder: Path, quote: Iterable[Path], angle: Iterable[Path]) -> Includes:
    """Everything that `data`, a source that lies in `folder`, includes, directly or through
    headers.

    Args:
        data: The source's bytes.
        folder: Where a quoted include is looked up first.
        quote: Folders for quoted includes (`-iquote`).
        angle: Folders for both kinds (`-I`). Files found nowhere are the compiler's own and are
            left out: the compiler's identity stands for them.
    """
    result = Includes()
    for_angle = [os.fspath(p) for p in angle]
    for_quote = [os.fspath(p) for p in quote]
    todo = [(data, os.fspath(folder))]
    while todo:
        text, where = todo.pop()
        names, macro = names_in(text)
        result.macro_includes |= macro
        for name, quoted in names:
            for base in [where, *for_quote, *for_angle] if quoted else for_angle:
                path = os.path.normpath(os.path.join(base, name))
                if path in result.files:
                    break
                try:
                    content, mark = contents(path)
                except OSError:
                    continue
                result.files[path] = mark
                todo.append((content, os.path.dirname(path)))
                break
    return result
