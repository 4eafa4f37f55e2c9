"""The build cache: finished folders, each found by the digest of everything that went into it.

    <root>/v1/<key>/…files…, meta.json     an entry, complete from the moment it exists
    <root>/v1/tmp/<pid>-<host>-<random>/   work in progress, of no meaning to anyone else
    <root>/v1/logs/<key>.log               what the compiler said, also when it failed

An entry appears by one `rename` of a finished folder, so a kill in the middle of a build leaves
nothing but a stale temporary folder, and two processes that build the same thing both succeed.
There are no locks to go stale. A reader compares each file with the digest in `meta.json` before it
is used; an entry that does not match is thrown away.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.errors import CacheError

LAYOUT = "v1"
DEFAULT_LIMIT = 2 * 2**30  # bytes
STALE = 3600  # seconds after which another process's temporary folder may be removed
SHARE = 16  # this part of the limit a process may add between two looks at the whole cache


class Vanished(CacheError):
    """An entry was there and is gone: another process has cleared or trimmed the cache."""


def root() -> Path:
    """The cache's folder: $WORKBENCH_CACHE, else the user's own cache folder."""
    given = os.environ.get("WORKBENCH_CACHE")
    if given:
        return Path(given).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("ascend-workbench")


def limit() -> int:
    """The most bytes the cache keeps: $WORKBENCH_CACHE_LIMIT ("500M", "2G", bytes), else 2 GiB."""
    given = os.environ.get("WORKBENCH_CACHE_LIMIT", "").strip()
    if not given:
        return DEFAULT_LIMIT
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    unit = units.get(given[-1].upper(), 1)
    try:
        value = unit * float(given[:-1] if given[-1].upper() in units else given)
    except ValueError:
        value = -1.0
    if not 1 <= value < 2**63:  # a NaN is neither
        raise CacheError(
            f"WORKBENCH_CACHE_LIMIT={given!r}: want a positive size such as 500M, 2G or a "
            "number of bytes"
        )
    return int(value)


@dataclass(frozen=True)
class Entry:
    """A complete entry. `meta` is what the builder recorded; `path(name)` is one of its files."""

    key: str
    folder: Path
    meta: dict[str, Any]

    def path(self, name: str) -> Path:
        return self.folder / name


def _folder(create: bool = True) -> Path:
    top = root()
    folder = top / LAYOUT
    needed = (f"{top}", f"{folder}", f"{folder}/tmp", f"{folder}/logs")
    try:
        if create and not all(map(os.path.isdir, needed)):
            top.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in needed[1:]:
                os.makedirs(path, mode=0o700, exist_ok=True)
        for path in needed[:2]:
            with contextlib.suppress(FileNotFoundError):
                _refuse_shared(path)
    except CacheError:
        raise
    except OSError as e:
        raise explain(e, top) from e
    return folder


def _refuse_shared(path: str) -> None:
    """Loading a module runs it: a folder that others can write to is not a place to load from."""
    info = os.stat(path)
    if info.st_uid != os.geteuid():
        raise CacheError(
            f"the build cache {path} belongs to user {info.st_uid}, not to you ({os.geteuid()}). "
            "Point WORKBENCH_CACHE at a folder of your own"
        )
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheError(
            f"the build cache {path} can be written by others (mode "
            f"{stat.filemode(info.st_mode)}). "
            f"Run `chmod go-w {path}`, or point WORKBENCH_CACHE at a folder of your own"
        )


def explain(e: OSError, where: Path) -> CacheError:
    if e.errno in (errno.ENOSPC, errno.EDQUOT):
        return CacheError(
            f"no space left for the build cache in {where}. Nothing that was built is lost. "
            "Free some space, "
            "run `workbench cache clear`, or point WORKBENCH_CACHE at another disk"
        )
    if e.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return CacheError(
            f"the build cache {where} cannot be written: {e.strerror}. Point WORKBENCH_CACHE "
            "at a folder of your own"
        )
    return CacheError(f"the build cache {where} cannot be used: {e}")


def file_digest(path: str | Path) -> str:
    with open(path, "rb") as f:
        return hashlib.blake2b(f.read(), digest_size=20).hexdigest()


# Files this process has verified: path -> (size, mtime) at the time. Objects that every link uses
# are big.
_verified: dict[str, tuple[int, int]] = {}


def _matches(path: str, want: str) -> bool:
    info = os.stat(path)
    mark = (info.st_size, info.st_mtime_ns)
    if _verified.get(path) != mark:
        if file_digest(path) != want:
            return False
        _verified[path] = mark
    return True


def get(key: str) -> Entry | None:
    """The entry for `key`, verified, or None. A damaged one is removed."""
    folder = _folder() / key
    try:
        with open(f"{folder}/meta.json", "rb") as f:
            meta = json.loads(f.read())
        whole = all(_matches(f"{folder}/{name}", want) for name, want in meta["files"].items())
    except FileNotFoundError:
        if folder.is_dir():
            discard(key)
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        discard(key)
        return None
    with contextlib.suppress(OSError):
        os.utime(f"{folder}/meta.json")  # what was used last is removed last
    return Entry(key, folder, meta)


def holds(key: str) -> bool:
    """Whether there is an entry for `key`, which may still turn out to be damaged."""
    return os.path.isdir(f"{root()}/{LAYOUT}/{key}")


def discard(key: str) -> None:
    """Remove the entry for `key`, if there is one; it disappears at once, not file by file."""
    folder = _folder()
    with contextlib.suppress(OSError):
        gone = Path(tempfile.mkdtemp(prefix=_prefix(), dir=folder / "tmp"))
        os.rename(folder / key, gone / "entry")
        shutil.rmtree(gone, ignore_errors=True)


def _prefix() -> str:
    return f"{os.getpid()}-{_host()}-"


@functools.cache
def _host() -> str:
    """Where a process id means something: machines and containers may share a home folder."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return hashlib.blake2b(f"{platform.node()} {space}".encode(), digest_size=4).hexdigest()


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A private folder on the cache's disk to build in; it is gone afterwards.

    Raises:
        CacheError: The disk is full, or the folder cannot be written.
    """
    folder = _folder()
    try:
        work = Path(tempfile.mkdtemp(prefix=_prefix(), dir=folder / "tmp"))
    except OSError as e:
        raise explain(e, folder) from e
    try:
        yield work
    except CacheError:
        raise
    except OSError as e:
        raise explain(e, folder) from e
    finally:
        shutil.rmtree(work, ignore_errors=True)


def publish(key: str, work: Path, names: list[str], meta: dict[str, Any]) -> Entry:
    """Make the files `names` of the workspace `work` the entry for `key`.

    If another process was faster, its entry is taken. What else lies in `work` is not part of the
    entry.

    Raises:
        CacheError: The disk is full; nothing of the entry is left then.
    """
    folder = _folder()
    staged = work / "entry"
    try:
        staged.mkdir()
        files = {}
        for name in names:
            os.rename(work / name, staged / name)
            files[name] = file_digest(staged / name)
            _sync(staged / name)
        size = sum((staged / name).stat().st_size for name in names)
        meta = {**meta, "files": files, "bytes": size}
        (staged / "meta.json").write_text(json.dumps(meta))
        _sync(staged / "meta.json")
        for _ in range(2):
            try:
                os.rename(staged, folder / key)
                break
            except OSError as e:
                if e.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                other = get(key)  # also removes a damaged one, and then there is room for ours
                if other is not None:
                    return other
    except OSError as e:
        raise explain(e, folder) from e
    _added(folder, size, key)
    entry = get(key)
    if entry is None:
        raise Vanished(
            f"the entry {key} of the build cache {folder} was removed while it was made; build "
            "again"
        )
    return entry


def _sync(path: Path) -> None:
    # A full disk may show itself only here, and a power cut must not leave an entry with holes.
    with open(path, "rb") as f:
        os.fsync(f.fileno())


def write_log(key: str, text: str) -> str | None:
    """Keep a compiler's output; returns its path, or None when it could not be written."""
    try:
        folder = _folder() / "logs"
        handle, name = tempfile.mkstemp(dir=folder)
    except OSError:
        return None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as f:
            f.write(text)
        os.replace(name, folder / f"{key}.log")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        return None
    return str(folder / f"{key}.log")


def _entries(folder: Path) -> list[tuple[float, int, str]]:
    """(last use, bytes, key) of each entry."""
    found = []
    for item in os.scandir(folder):
        if item.name in ("tmp", "logs"):
            continue
        try:
            used = os.stat(os.path.join(item.path, "meta.json")).st_mtime
            size = sum(f.stat().st_size for f in os.scandir(item.path))
        except OSError:
            continue
        found.append((used, size, item.name))
    return found


# What this process may add until it looks at the whole cache again: folder -> (limit, bytes).
_room: dict[str, tuple[int, int]] = {}


def _added(folder: Path, size: int, key: str) -> None:
    """Trim, if the new entry may have brought the cache over its limit.

    A look at thousands of entries takes longer than the rest of a build, so not every one looks.
    What other processes add meanwhile is not seen: each may be over by a part (`SHARE`) of the
    limit.
    """
    most, room = _room.get(str(folder), (0, 0))
    _room[str(folder)] = most, room - size
    if most != limit() or size > room:
        trim(keep=key)


def trim(keep: str = "") -> int:
    """Remove the entries used longest ago until the cache is within its limit; returns how many.

    The newest entry and `keep` stay, whatever their size. A new entry calls this when it may be
    needed.

    A module that a process has loaded stays usable there after its file is removed.
    """
    folder = _folder()
    entries = sorted(_entries(folder))
    total = sum(size for _, size, _ in entries)
    most = limit()
    removed = 0
    for _, size, key in entries[:-1]:
        if total <= most:
            break
        if key == keep:
            continue
        discard(key)
        total -= size
        removed += 1
    _room[str(folder)] = most, min(most - total, most // SHARE)
    _remove_stale(folder / "tmp", STALE)
    logs = []
    for log in os.scandir(folder / "logs"):
        with contextlib.suppress(OSError):  # another process may remove it meanwhile
            logs.append((log.stat().st_mtime, log.path))
    for _, path in sorted(logs)[:-200]:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return removed


def _remove_stale(folder: Path, age: float) -> None:
    now = time.time()
    for item in os.scandir(folder):
        try:
            pid, host = item.name.split("-")[:2]
            alive = host != _host() or _alive(int(pid))
            old = now - item.stat().st_mtime > age
        except (ValueError, OSError):
            continue
        if not alive or (old and not item.name.startswith(_prefix())):
            shutil.rmtree(item.path, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def info() -> dict[str, Any]:
    """What the cache holds: `entries`, `bytes`, `limit` (bytes) and `path`."""
    folder = _folder(create=False)
    entries = _entries(folder) if folder.is_dir() else []
    return {
        "entries": len(entries),
        "bytes": sum(size for _, size, _ in entries),
        "limit": limit(),
        "path": str(root()),
    }


def clear() -> dict[str, Any]:
    """Remove every entry and log; returns how many `entries` and `bytes` went, and the `path`."""
    before = info()
    folder = _folder(create=False)
    if folder.is_dir():
        for _, _, key in _entries(folder):
            discard(key)
        for name in os.listdir(folder):
            if name not in ("tmp", "logs"):
                shutil.rmtree(folder / name, ignore_errors=True)
        _remove_stale(folder / "tmp", STALE)
        for log in os.scandir(folder / "logs"):
            with contextlib.suppress(OSError):
                os.unlink(log.path)
    _verified.clear()
    return {"entries": before["entries"], "bytes": before["bytes"], "path": before["path"]}
