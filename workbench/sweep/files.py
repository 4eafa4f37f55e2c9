"""A record's file: what it is, where it lies, who may write to it now.

SQLite keeps a record whole through kills and power cuts. What stands here is what it leaves open:
not to write into a file that is none of ours, not to trust its shared memory on a network disk, and
one lock for commits and checkpoints (see `lock`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from workbench.errors import InputError, MissingError, WorkbenchError
from workbench.sweep import schema

# WAL needs memory that all processes share, which a disk of another machine cannot give them.
_NETWORK = {
    *("nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "ncpfs", "afs", "ceph"),
    *("lustre", "gpfs", "beegfs", "pvfs2", "orangefs", "gfs2", "ocfs2", "glusterfs", "davfs"),
    *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone", "fuse.juicefs"),
    *("fuse.davfs2", "fuse.goofys", "fuse.gcsfuse", "fuse.mount-s3", "fuse.beegfs-fuse"),
    *("fuse.obsfs", "fuse.ossfs", "fuse.cosfs", "fuse.s3ql", "fuse.alluxio-fuse", "fuse.hdfs"),
    *("fuse.cephfs", "fuse.mfs", "fuse.curvefs", "panfs", "wekafs", "dpc", "vboxsf"),
}
_MOUNTS = Path("/proc/self/mountinfo")
_MAGIC_PAGE = 512  # bytes of the smallest page SQLite has


class RecordError(WorkbenchError, RuntimeError):
    """A record that cannot be used or written: foreign, corrupted, newer, locked, full, …

    Attributes:
        reason: "foreign", "corrupted", "newer", "older", "network", "gone", "locked", "full",
            "disk", "other bits" or "sqlite".
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def filesystem(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """The type of the file system that `path` lies on ("ext4", "nfs4", …); None if unknown."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    where = Path(os.path.realpath(path))
    best, found = -1, None
    for line in lines:
        left, _, right = line.partition(" - ")
        # A space is written \040; other letters stand as they are.
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), left.split()[4])
        parts = len(Path(point).parts)
        if where.is_relative_to(point) and parts >= best:  # of two on one point the later counts
            best, found = parts, right.split()[0]
    return found


def on_network(path: Path) -> str | None:
    """The type of the network file system that `path` lies on; None if it is a local one."""
    found = filesystem(path)
    return found if found in _NETWORK else None


def connect(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    """A connection in autocommit. `mode` is of SQLite's URI: "mode=ro", "immutable=1", …"""
    # check_same_thread: the record has a lock of its own around every use.
    db = sqlite3.connect(
        f"file:{quote(str(path))}?{mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    db.execute("PRAGMA trusted_schema = OFF")  # nothing in a file from elsewhere is run
    return db


def explain(e: sqlite3.Error, path: Path) -> RecordError:
    """What an error of SQLite means for a record, and what to do."""
    text = str(e)
    if "full" in text:
        return RecordError(
            f"no space left for the record {path}. Nothing that was committed is lost, and this "
            "change is not in it. Free some space and add it again",
            "full",
        )
    if "malformed" in text or "not a database" in text:
        return RecordError(
            f"the record {path} is corrupted ({text}). It was not changed. Take it from a copy, or "
            "read what is left of it with `sqlite3 FILE .recover`",
            "corrupted",
        )
    if "locked" in text or "busy" in text:
        return RecordError(
            f"the record {path} is locked by another program ({text}). End that one's transaction "
            "and try again",
            "locked",
        )
    if "disk I/O" in text:
        return RecordError(
            f"the disk of the record {path} refused ({text}): it may be full, over a quota, or "
            "failing. What was committed is kept. See to the disk and add the run again",
            "disk",
        )
    if "unable to open" in text or "readonly" in text:
        return RecordError(
            f"the record {path} cannot be written here ({text}). Its folder must be writable, for "
            "SQLite's files beside it; or open it with readonly=True",
            "sqlite",
        )
    return RecordError(f"the record {path}: {text}", "sqlite")


def identify(db: sqlite3.Connection, path: Path, size: int) -> int:
    """The version of the record's tables; 0 if there is nothing in the file yet.

    Raises:
        RecordError: It is no record, or a newer one.
    """
    kind = db.execute("PRAGMA application_id").fetchone()[0]
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if kind == schema.APPLICATION_ID:
        if version > schema.VERSION:
            raise RecordError(
                f"the record {path} is of version {version}, and this workbench knows up to "
                f"{schema.VERSION}. It was not changed. Install a newer workbench to use it",
                "newer",
            )
        return version
    tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master LIMIT 3")]
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    # SQLite takes a file of a few bytes, whatever they are, for an empty database.
    if kind or version or tables or (size and (not pages or size < _MAGIC_PAGE)):
        held = f"a SQLite file with {', '.join(tables)}" if tables else "another program's file"
        raise RecordError(
            f"{path} is no record but {held}. It was not changed. Give another path", "foreign"
        )
    return 0


def probe(path: Path, readonly: bool) -> int:
    """The version of the record at `path`, 0 if there is none yet. Nothing is written.

    Raises:
        InputError: A folder, or a file in a folder that does not exist.
        MissingError: There is no file, and it is to be read.
        RecordError: It is no record, a newer one, or a corrupted one.
    """
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"lies in {path.parent}, which does not exist"
        raise InputError(f"{path} {what}; want a file in a folder that exists, as runs.sqlite")
    if not path.exists():
        if readonly:
            raise MissingError(
                f"there is no record {path}: check the path (without readonly it would be made)"
            )
        return 0
    size = path.stat().st_size
    # `immutable` looks at the main file alone, with no lock and no file beside it. Where there is a
    # log, the main file may be half written: the log holds what is missing.
    mode = "mode=ro" if has_log(path) else "immutable=1"
    try:
        with contextlib.closing(connect(path, mode, 0)) as db:
            return identify(db, path, size)
    except sqlite3.DatabaseError as e:
        if mode == "immutable=1" and has_log(path):  # a writer began just now
            return probe(path, readonly)
        if "not a database" in str(e):
            raise RecordError(
                f"{path} is no SQLite file, so no record. It was not changed. Give another path",
                "foreign",
            ) from None
        raise explain(e, path) from None


def has_log(path: Path) -> bool:
    """True if there is a log (-wal) of commits that are not in the main file yet."""
    try:
        return os.stat(f"{path}-wal").st_size > 0
    except FileNotFoundError:
        return False


def check(db: sqlite3.Connection, path: Path, whole: bool = False) -> None:
    """Raise unless the pages of the file hold together; `whole`: its index too."""
    found = db.execute(f"PRAGMA {'integrity' if whole else 'quick'}_check(3)").fetchall()
    text = "; ".join(str(row[0]) for row in found)
    page = db.execute("PRAGMA page_size").fetchone()[0]
    if text == "ok" and not has_log(path) and path.stat().st_size % page:
        text = "the last page is cut off"  # which SQLite reads as if it ended in zeros
    if text != "ok":
        raise explain(sqlite3.DatabaseError(f"malformed: {text:.200}"), path)


@contextlib.contextmanager
def lock(fd: int, path: Path, timeout: float) -> Iterator[None]:
    """Hold the record's lock file: one commit or one checkpoint at a time, among all processes.

    SQLite has a lock of its own for commits. But in its releases before 3.51.3 (3.50.7, 3.44.6) a
    commit at the very moment of a second checkpoint can lose committed pages (sqlite.org/wal.html,
    "The WAL-Reset Bug"). No commit runs beside a checkpoint here, whatever release Python has. The
    system frees the lock when its process ends, however it ends.
    """
    start = time.monotonic()
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            waited = time.monotonic() - start
            if waited > timeout:
                raise RecordError(
                    f"the record {path} has been locked by another process for {timeout:g} s. See "
                    f"who has {path}-lock open (fuser), let it go on or end it, and try again",
                    "locked",
                ) from None
            # Short naps: a commit takes less than a millisecond, and a queue in which each sleeper
            # is woken in turn was measured to be twice as slow.
            time.sleep(0.0003 if waited < 2 else 0.005)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
