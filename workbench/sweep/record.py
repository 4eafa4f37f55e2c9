"""The record of runs: one SQLite file that any number of processes write and read.

`add` returns when the run is on the disk: it is there after `kill -9`, and after a power cut as far
as the disk does what it says. docs/records.md tells how, and what is left to the user.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench._result import Result, html_table
from workbench.errors import InputError
from workbench.sweep import export, files, schema
from workbench.sweep.compare import Comparison, compare
from workbench.sweep.files import RecordError
from workbench.sweep.run import DONE, STATUSES, Run

__all__ = ["Record", "RecordError", "Summary"]

_CHECKPOINT = 4 << 20  # bytes of the log after which it is copied into the file
_VALUES = 900  # values of one filter: the most that every SQLite takes
_BY = ("op", "arch", "dtype")


@dataclass(frozen=True)
class Summary(Result):
    """Runs counted in groups, none of which mixes backends.

    Attributes:
        table: One dict a group: "backend" and the columns asked for, then `runs`, `ok`, `refused`,
            `failed`, `inputs` and `orders` (how many different ones), and `max_abs`, the largest
            distance from the exact logits of its runs (None where none was measured).
    """

    table: tuple[dict[str, Any], ...]

    def rows(self) -> list[dict[str, Any]]:
        return list(self.table)

    def title(self) -> str:
        return f"{sum(row['runs'] for row in self.table)} runs"


class Record:
    """The runs in one file.

    Args:
        path: Made if it is not there; its folder must exist, on a disk of this machine.
        readonly: Read a file that others may be writing; nothing is created or changed.
        timeout: Seconds to wait for another process that is writing, before a `RecordError`.

    One record may be shared by threads, kept over a fork, and opened by many processes at once. Use
    it as a context manager, or `close` it.

    Raises:
        InputError: A path that cannot be a file.
        MissingError: `readonly`, and there is none.
        RecordError: It is not a record, a newer one, corrupted, on a network file system, …

    Example:
        >>> import tempfile
        >>> from workbench.sweep.run import Inputs, Provenance
        >>> run = Run("lm_head", {"tile_length": 64}, "dav-2201", "twin", "fp32", (2, 64, 8),
        ...           Inputs("5f0c"), Provenance("ab12", "g++ 12.2.0", "0.1", "2.13.0"))
        >>> with tempfile.TemporaryDirectory() as folder, Record(f"{folder}/runs.sqlite") as record:
        ...     number = record.add(run)
        ...     number, record.has(run.key), record.add(run), len(record)
        (1, True, 1, 1)
    """

    def __init__(
        self, path: str | os.PathLike[str], *, readonly: bool = False, timeout: float = 60.0
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise InputError(f"store={path!r:.60}; want a Record, or the path of one")
        # The real path: SQLite names its files beside the record by it, and so is the lock named.
        self.path = Path(os.path.realpath(Path(path).expanduser()))
        self.readonly = readonly
        self.timeout = timeout
        self._mutex = threading.RLock()
        self._open: sqlite3.Connection | None = None
        self._lock_fd: int | None = None
        self._file: tuple[int, int] | None = None
        self._retry_at = _CHECKPOINT
        self._refuse_network()  # before anything is opened there
        version = files.probe(self.path, readonly)
        with self._errors(), self._mutex:
            if readonly:
                self._open = self._open_to_read()
                self._file = self._inode()
                self._old(files.identify(self._open, self.path, self.path.stat().st_size))
            else:
                self._prepare(version)
        _RECORDS.add(self)

    # ---- writing ---------------------------------------------------------------------------------

    def add(self, run: Run) -> int:
        """Add a run; return its number. When this returns, the run is on the disk.

        A key stands in a record once. Where it is there already, its number is returned: a run that
        is better than what is there (ok, then refused, then failed) takes its place, any other is
        dropped.

        Raises:
            RecordError: The disk is full, or the record is locked, gone or corrupted: the run is
                not in it. Or the key is there with other bits (`reason` "other bits"): the same
                kernel on the same inputs gave another result, which must not pass unseen.
        """
        return self.add_all([run])[0]

    def add_all(self, runs: Iterable[Run]) -> list[int]:
        """Add several runs in one transaction, all or none; return their numbers."""
        rows = [schema.row_of(run) for run in runs]
        if not rows:
            return []
        with self._writing() as db:
            return [self._put(db, row) for row in rows]

    def merge(self, other: Record | str | os.PathLike[str]) -> int:
        """Add the runs of another record, of a device's machine for example; return how many were
        new. Numbers are given anew.

        Raises:
            RecordError: A key is in both with other bits; nothing is added.
        """
        if not isinstance(other, Record):
            with Record(other, readonly=True, timeout=self.timeout) as opened:
                return self.merge(opened)
        before = len(self)
        self.add_all(other.runs())
        return len(self) - before

    # ---- reading ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._read("SELECT count(*) FROM runs")[0][0])

    def __bool__(self) -> bool:
        return True  # an empty record is a record

    def has(self, key: str, statuses: Sequence[str] = DONE) -> bool:
        """True if a run with this key is there and ok or refused: a resumed sweep skips it."""
        found = self._read("SELECT status FROM runs WHERE key = ?", key)
        return bool(found) and found[0][0] in statuses

    def keys(self, statuses: Sequence[str] = DONE) -> frozenset[str]:
        """The keys of all runs that are done, read at once."""
        found = self._read("SELECT key, status FROM runs")
        return frozenset(key for key, status in found if status in statuses)

    def get(self, which: int | str) -> Run:
        """A run by its number or its key.

        Raises:
            InputError: There is none.
        """
        column = "key" if isinstance(which, str) else "id"
        found = self._runs(f"WHERE {column} = ?", which)
        if not found:
            raise InputError(f"the record {self.path} has no run of {column} {which!r}")
        return found[0]

    def runs(self, config: Mapping[str, Any] | None = None, **where: Any) -> list[Run]:
        """The runs, in the order they were added, as they stand at one moment.

        Args:
            config: Constants they must have, e.g. {"tile_length": 64}.
            **where: Columns and a value, or several: op="lm_head", backend="twin", arch, dtype,
                out_dtype, n, h, v, status, fixture_id, order_hash, bits, key, repeat; None means
                "has none".

        Raises:
            InputError: A column that does not exist, or a constant that no run has.
        """
        text, values = _where(where)
        found = self._runs(f"{text} ORDER BY id", *values)
        if not config:
            return found
        known = {name for run in found for name in run.config}
        if found and (unknown := {*config} - known):
            raise InputError(
                f"no run has {', '.join(sorted(unknown))} among its constants; they have "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        return [r for r in found if all(r.config.get(k, _ALL) == v for k, v in config.items())]

    def summary(self, by: Sequence[str] = _BY, **where: Any) -> Summary:
        """Runs counted in groups of equal backend and `by` (columns of `runs`)."""
        _known(by)
        names = tuple(dict.fromkeys(("backend", *by)))
        groups: dict[tuple[Any, ...], list[Run]] = {}
        for run in self.runs(**where):
            groups.setdefault(tuple(_column(run, name) for name in names), []).append(run)
        table = []
        for values, group in groups.items():
            statuses = [run.status for run in group]
            far = [run.drift.max_abs for run in group if run.drift is not None]
            orders = {run.order_hash for run in group} - {None}
            table.append(
                dict(zip(names, values, strict=True))
                | {"runs": len(group), **{name: statuses.count(name) for name in STATUSES}}
                | {"inputs": len({run.inputs.fixture_id for run in group})}
                # A NaN is worse than any number, and max() would lose it.
                | {"orders": len(orders), "max_abs": max(far, key=_badness, default=None)}
            )
        return Summary(tuple(table))

    def compare(self, run_a: int | str | Run, run_b: int | str | Run) -> Comparison:
        """What differs between two runs (numbers, keys, or runs of any record)."""
        return compare(*(r if isinstance(r, Run) else self.get(r) for r in (run_a, run_b)))

    def rows(self, **where: Any) -> list[dict[str, Any]]:
        """The runs as flat rows: "backend", "config.tile_length", "drift.max_abs", …"""
        return export.table(self.runs(**where))

    def to_pandas(self, **where: Any) -> Any:
        """The runs as a `pandas.DataFrame`, columns as in `rows`."""
        return export.to_pandas(self.runs(**where))

    def export(self, path: str | os.PathLike[str], **where: Any) -> Path:
        """Write the runs to a .csv or .parquet file (which needs pyarrow); return its path."""
        target = Path(path).expanduser().absolute()
        export.write(self.runs(**where), target)
        return target

    def check(self) -> None:
        """Raise a `RecordError` unless the whole file holds together, its index too."""
        with self._errors(), self._mutex:
            files.check(self._db(), self.path, whole=True)

    def __repr__(self) -> str:
        return f"Record({str(self.path)!r}{', readonly=True' if self.readonly else ''})"

    def __str__(self) -> str:
        return f"{self.path}: {self.summary()}"

    def _repr_html_(self) -> str:
        return html_table(self.summary().rows(), str(self.path))

    # ---- opening and closing ---------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._mutex:
            self._disconnect()

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._disconnect()

    def _disconnect(self) -> None:
        db, fd = self._open, self._lock_fd
        self._open = self._lock_fd = None
        if db is not None:
            db.close()
        if fd is not None:
            os.close(fd)

    def _db(self) -> sqlite3.Connection:
        if self._open is None:
            if self.readonly:
                self._open = self._open_to_read()
            else:
                self._still_there()
                self._prepare(schema.VERSION)
                assert self._open is not None
        return self._open

    def _open_to_read(self) -> sqlite3.Connection:
        self._refuse_network()
        try:
            if files.on_network(self.path):
                raise sqlite3.OperationalError("unable to open")
            db = files.connect(self.path, "mode=ro", self.timeout)
            db.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError as e:
            # In a folder that cannot be written SQLite has no place for its shared memory. Without
            # a log nobody writes, and the file can be read as it lies.
            hindered = "unable to open" in str(e) or "readonly" in str(e)
            if files.has_log(self.path) or not hindered:
                raise
            db = files.connect(self.path, "immutable=1", self.timeout)
        db.row_factory = sqlite3.Row
        return db

    def _refuse_network(self) -> None:
        where = files.on_network(self.path)
        if where and not self.readonly:
            raise _network(self.path, where, "written")
        if where and files.has_log(self.path):
            raise _network(self.path, where, "read while it is written to")

    def _prepare(self, version: int) -> None:
        """Open to write: make the tables of a new file, bring those of an old one up to date."""
        if version and self._file is None:
            # Read first: to open for writing could copy a log into a file that is corrupted.
            mode = "mode=ro" if files.has_log(self.path) else "mode=rw"
            with contextlib.closing(files.connect(self.path, mode, self.timeout)) as db:
                files.check(db, self.path)
        try:
            self._lock_fd = os.open(f"{self.path}-lock", os.O_RDONLY | os.O_CREAT, 0o666)
        except OSError as e:
            full = e.errno in (errno.ENOSPC, errno.EDQUOT)
            text = "full" if full else f"unable to open: {e.strerror}"
            raise files.explain(sqlite3.OperationalError(text), self.path) from e
        try:
            with files.lock(self._lock_fd, self.path, self.timeout):
                mode = "mode=rw" if self._file else "mode=rwc"
                self._open = db = files.connect(self.path, mode, self.timeout)
                db.row_factory = sqlite3.Row
                found = files.identify(db, self.path, 0)
                self._settings(db)
                if found != schema.VERSION:
                    self._upgrade(db)
        except BaseException:
            self._disconnect()
            raise
        self._file = self._inode()

    def _settings(self, db: sqlite3.Connection) -> None:
        mode = db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise _network(self.path, f"no WAL, but {mode}", "written")
        # FULL: the log is synced at each commit, before `add` returns. NORMAL syncs it at
        # checkpoints alone, so a power cut could take back runs whose commit had returned.
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = ON")  # macOS: through the disk's own cache
        db.execute("PRAGMA checkpoint_fullfsync = ON")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # see files.lock
        db.execute("PRAGMA cell_size_check = ON")

    def _upgrade(self, db: sqlite3.Connection) -> None:
        with _transaction(db):
            found = files.identify(db, self.path, 0)  # another process may have been faster
            if found == 0:
                schema.create(db)
            elif found < schema.VERSION:
                schema.migrate(db, found)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name of a new file
        finally:
            os.close(folder)

    def _old(self, version: int) -> None:
        if version != schema.VERSION:
            what = f"of version {version}" if version else "empty"
            self._disconnect()
            raise RecordError(
                f"the record {self.path} is {what} and this workbench reads version "
                f"{schema.VERSION}. Open it once without readonly to bring it up to date",
                "older",
            )

    # ---- transactions ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as e:
            raise files.explain(e, self.path) from e

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self.readonly:
            raise InputError(f"{self!r} was opened to be read; open it without readonly to write")
        with self._errors(), self._mutex:
            db = self._db()
            assert self._lock_fd is not None
            with files.lock(self._lock_fd, self.path, self.timeout):
                self._still_there()
                with _transaction(db):
                    # Again: a newer workbench may have migrated it just now.
                    files.identify(db, self.path, 0)
                    yield db
                self._checkpoint(db)

    def _checkpoint(self, db: sqlite3.Connection) -> None:
        """Copy a long log into the file, and empty it; not before somebody who reads it is done."""
        with contextlib.suppress(OSError, sqlite3.Error):  # the commit stands, whatever this does
            if os.stat(f"{self.path}-wal").st_size < self._retry_at:
                return
            db.execute("PRAGMA busy_timeout = 0")
            try:
                busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                db.execute(f"PRAGMA busy_timeout = {int(1000 * self.timeout)}")
            size = os.stat(f"{self.path}-wal").st_size if busy else 0
            self._retry_at = size + _CHECKPOINT

    def _still_there(self) -> None:
        """SQLite would go on writing into a file that was removed: runs would be lost unseen."""
        if self._inode() != self._file:
            raise RecordError(
                f"the record {self.path} was removed or replaced while it was open. What it held "
                "is in the file that was removed, and nothing was added. Open a new one",
                "gone",
            )

    def _inode(self) -> tuple[int, int] | None:
        # By name: to open and close the file here would drop the locks that SQLite has on it.
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return None
        return stat.st_dev, stat.st_ino

    def _read(self, text: str, *values: Any) -> list[sqlite3.Row]:
        with self._errors(), self._mutex:
            self._still_there()
            return self._db().execute(text, values).fetchall()

    def _runs(self, rest: str, *values: Any) -> list[Run]:
        found = []
        for row in self._read(f"SELECT id, {_ALL} FROM runs {rest}", *values):
            try:
                found.append(schema.run_of(row))
            except (ValueError, TypeError, KeyError) as e:
                raise RecordError(
                    f"run {row['id']} of {self.path} cannot be read ({e}): something else has "
                    "written to the record. Take it from a copy",
                    "corrupted",
                ) from e
        return found

    def _put(self, db: sqlite3.Connection, row: dict[str, Any]) -> int:
        there = db.execute(
            "SELECT id, status, order_hash, bits FROM runs WHERE key = ?", (row["key"],)
        ).fetchone()
        if there is None:
            return schema.insert(db, row)
        if row["status"] == there["status"] == "ok":
            for name in ("bits", "order_hash"):
                if None not in (row[name], there[name]) and row[name] != there[name]:
                    raise RecordError(
                        f"run {there['id']} of {self.path} has the same configuration, inputs and "
                        f"versions, but {name} {there[name]} where this run has {row[name]}. A "
                        "kernel gave two results for one input; give `repeat` to record both",
                        "other bits",
                    )
        elif STATUSES.index(row["status"]) <= STATUSES.index(there["status"]):
            schema.update(db, row, there["id"])
        return int(there["id"])


_ALL = ", ".join(schema.ALL)
_RECORDS: weakref.WeakSet[Record] = weakref.WeakSet()
_held: list[Record] = []


def _before_fork() -> None:
    """Close every connection: a child that inherits one, or opens its own beside it, would believe
    to hold locks that it does not hold (sqlite.org/howtocorrupt.html, 2.6). Each side opens the
    file again at its next use."""
    for record in list(_RECORDS):
        record._mutex.acquire()
        _held.append(record)
        record._disconnect()


def _after_fork() -> None:
    while _held:
        _held.pop()._mutex.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


@contextlib.contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    """IMMEDIATE: the right to write is asked for at once, so no commit fails for a stale read."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
        raise


def _known(names: Iterable[str]) -> None:
    unknown = [name for name in names if name not in schema.COLUMNS]
    if unknown:
        raise InputError(
            f"{', '.join(unknown)} is no column to search by; there are "
            f"{', '.join(schema.COLUMNS)}, and constants as config={{…}}"
        )


def _where(where: Mapping[str, Any]) -> tuple[str, list[Any]]:
    _known(where)
    parts, values = [], []
    for name, value in where.items():
        if value is None:
            parts.append(f"{name} IS NULL")
            continue
        several = [value] if isinstance(value, (str, int)) else list(value)
        if len(several) > _VALUES:
            raise InputError(f"{name} was given {len(several)} values; give at most {_VALUES}")
        some = [one for one in several if one is not None]
        none = f" OR {name} IS NULL" if len(some) < len(several) else ""
        parts.append(f"({name} IN ({', '.join('?' * len(some))}){none})")
        values += some
    return ("WHERE " + " AND ".join(parts) if parts else ""), values


def _column(run: Run, name: str) -> Any:
    if name in ("n", "h", "v"):
        return run.shape["nhv".index(name)]
    return run.inputs.fixture_id if name == "fixture_id" else getattr(run, name)


def _badness(value: float) -> float:
    return float("inf") if value != value else value


def _network(path: Path, where: str, done: str) -> RecordError:
    return RecordError(
        f"the record {path} lies on a file system ({where}) where it cannot be {done}: SQLite's "
        "log needs memory that all its processes share, so a disk of this machine. Write to a "
        "local disk (in /tmp, for example), and copy or export the record when the sweep is done. "
        "Several machines: let each write its own record and `merge` them, or let one process add "
        "what the others return",
        "network",
    )
