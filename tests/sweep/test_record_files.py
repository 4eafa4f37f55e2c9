"""What a record will not touch, and who may have it open: foreign and corrupted files, versions,
readers, locks, network disks."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from record_kit import a_run

from workbench.errors import InputError, MissingError
from workbench.sweep import files, schema
from workbench.sweep import record as module
from workbench.sweep.record import Record, RecordError
from workbench.sweep.run import Inputs, Provenance, Run, Verdict

HERE = Path(__file__).resolve().parent


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "runs.sqlite"


def state(folder: Path) -> dict[str, tuple]:
    """Names, contents and times of change of all files in a folder."""
    return {
        p.name: (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns, p.stat().st_ino)
        for p in folder.iterdir()
        if p.is_file()
    }


def refused(path: Path, reason: str, **options) -> str:
    """The message with which a file is refused; its folder is as it was."""
    before = state(path.parent)
    with pytest.raises(RecordError) as e:
        Record(path, **options)
    assert e.value.reason == reason, str(e.value)
    assert state(path.parent) == before
    return str(e.value)


# ---- files that are no records -------------------------------------------------------------------


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"notes, not runs\n",
        b"n" * 511,
        b"n" * 512,
        b"n" * 5000,
        bytes(1),
        bytes(99),
        bytes(4096),
        b"SQLite format 3\0",
        b"SQLite format 3\0" + bytes(84),
        b"SQLite format 3\0" + bytes(8000),
        b"PAR1" + bytes(3000),
    ],
    ids=lambda c: f"{c[:6]!r}-{len(c)}",
)
def test_a_file_of_something_else_is_not_touched(path, content, readonly):
    path.write_bytes(content)
    assert "Give another path" in refused(path, "foreign", readonly=readonly)


@pytest.mark.parametrize("wal", [False, True])
def test_a_database_of_another_program_is_not_touched(path, wal):
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE books (title)")
        if wal:
            db.execute("PRAGMA journal_mode = WAL")
    db.close()
    assert "books" in refused(path, "foreign")
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE books")
        db.execute("PRAGMA application_id = 7")
    db.close()
    assert "another program's file" in refused(path, "foreign")


def test_a_database_whose_content_is_still_in_its_log_is_not_touched(path):
    """Nothing in the main file says whose it is: the log does."""
    make = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('PRAGMA journal_mode = WAL'); db.execute('CREATE TABLE books (title)');"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", make, path])
    before = {k: v for k, v in state(path.parent).items() if not k.endswith("-shm")}
    assert "runs.sqlite-wal" in before
    with pytest.raises(RecordError, match="books"):
        Record(path)
    # Its shared memory was set up anew to read it, as any reader does.
    assert {k: v for k, v in state(path.parent).items() if not k.endswith("-shm")} == before


def test_an_empty_file_becomes_a_record(path):
    path.touch()
    refused(path, "older", readonly=True)
    with Record(path) as record:
        assert record.add(a_run()) == 1


def test_paths_that_cannot_be_a_file(tmp_path, path):
    with pytest.raises(InputError, match="is a folder"):
        Record(tmp_path)
    with pytest.raises(InputError, match="nowhere, which does not exist"):
        Record(tmp_path / "nowhere" / "runs.sqlite")
    with pytest.raises(MissingError, match="check the path"):
        Record(path, readonly=True)
    assert state(tmp_path) == {}


@pytest.mark.parametrize("name", ["a b?mode=ro#x%20'\".sqlite", "läufe.sqlite", ":memory:"])
def test_any_name_will_do(tmp_path, name):
    with Record(tmp_path / name) as record:
        record.add(a_run())
    assert (tmp_path / name).stat().st_size > 0
    with Record(tmp_path / name, readonly=True) as record:
        assert len(record) == 1


def test_two_names_of_one_file_share_its_lock(tmp_path, path):
    (tmp_path / "alias.sqlite").symlink_to(path)
    with Record(path) as one, Record(tmp_path / "alias.sqlite") as two:
        one.add(a_run(1))
        two.add(a_run(2))
        assert len(one) == len(two) == 2
    assert {p.name for p in tmp_path.iterdir()} == {
        *("alias.sqlite", "runs.sqlite", "runs.sqlite-lock")
    }


# ---- corrupted records ---------------------------------------------------------------------------


def filled(path: Path, runs: int = 60) -> Path:
    with Record(path) as record:
        record.add_all([a_run(number) for number in range(runs)])
    return path


def test_a_truncated_record_is_refused(path):
    filled(path)
    data = path.read_bytes()
    for size in (len(data) // 2, len(data) - 1, 5000):
        path.write_bytes(data[:size])
        assert "sqlite3 FILE .recover" in refused(path, "corrupted")


def test_a_record_with_a_page_of_rubbish_is_refused(path):
    filled(path)
    data = bytearray(path.read_bytes())
    data[3 * 4096 : 4 * 4096] = b"\xa5" * 4096
    path.write_bytes(data)
    assert "corrupted" in refused(path, "corrupted")


def test_corruption_under_an_open_record_is_told(path):
    """Not found at opening (a reader looks at what it reads): as an error, not as wrong rows."""
    filled(path)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    with Record(path, readonly=True) as record, pytest.raises(RecordError) as e:
        record.runs()
    assert e.value.reason == "corrupted"


def test_a_row_that_is_no_run_is_told(path):
    with Record(filled(path)) as record:
        record._db().execute("UPDATE runs SET drift = '{\"max_abs\": 1}' WHERE id = 5")
        with pytest.raises(RecordError, match=r"run 5 of .* cannot be read"):
            record.runs()
        assert record.get(4).id == 4


def test_a_stale_log_of_another_file_is_not_replayed_as_ours(path, tmp_path):
    """A copy taken without its -wal file opens as it was when the log was last copied in."""
    with Record(path) as record:
        record.add(a_run(1))
        record._db().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        record.add(a_run(2))
        (tmp_path / "copy.sqlite").write_bytes(Path(path).read_bytes())
    with Record(tmp_path / "copy.sqlite") as record:
        assert [run.config["max_blocks"] for run in record.runs()] == [1]


# ---- versions ------------------------------------------------------------------------------------


def version_1(path: Path) -> Path:
    db = sqlite3.connect(path)
    db.executescript((HERE / "record_v1.sql").read_text())
    db.close()
    return path


def test_a_record_of_version_1_is_brought_up_to_date(path):
    version_1(path)
    refused(path, "older", readonly=True)
    with Record(path) as record:
        first, second = record.runs()
        assert (first.id, second.id) == (1, 4)
        assert first.invariance == Verdict(True) and second.invariance is None
        assert (first.time.ratio, first.time.reference) == (1.25, "torch.mv")
        assert math.isnan(first.time.median) and second.time is None
        assert first.drift.max_ulp == math.inf and first.counters == {
            "gm_to_ub_bytes": 12345678901234
        }
        assert (second.status, second.error, second.shape) == ("failed", "no compiler", (1, 64, 8))
        # A resumed sweep finds it: the key is the one that is made today.
        made = Provenance("abab", "g++ 12.2.0", "0.1", "2.13.0")
        config = {"tile_length": 64, "max_blocks": 40}
        same = ("lm_head", config, "dav-2201", "twin", "fp32", (160, 576, 4096))
        assert record.has(Run.key_of(*same, Inputs("5f0c", seed=3), made))
        record.check()
        assert record.add(a_run()) == 10  # 9 was given once; numbers are not given twice
    with Record(path, readonly=True) as record:
        assert len(record) == 3


def test_a_migration_that_is_cut_short_changes_nothing(path, monkeypatch):
    def dies(db):
        own(db)
        raise KeyboardInterrupt

    version_1(path)
    own = schema.MIGRATIONS[1]
    monkeypatch.setitem(schema.MIGRATIONS, 1, dies)
    with pytest.raises(KeyboardInterrupt):
        Record(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT count(passed) FROM runs").fetchone() == (1,)
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'newer'").fetchall() == []
    db.close()
    monkeypatch.setitem(schema.MIGRATIONS, 1, own)
    with Record(path) as record:
        assert len(record) == 2


def test_every_older_version_has_a_way_up():
    assert {*schema.MIGRATIONS} == {*range(1, schema.VERSION)}


@pytest.mark.parametrize("readonly", [False, True])
def test_a_newer_record_is_refused(path, readonly):
    filled(path)
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.close()
    (path.parent / "runs.sqlite-lock").unlink()
    text = refused(path, "newer", readonly=readonly)
    assert f"version {schema.VERSION + 1}" in text and "Install a newer workbench" in text


def test_a_record_that_becomes_newer_while_open_is_not_written(path):
    with Record(path) as record:
        record.add(a_run(1))
        other = sqlite3.connect(path)
        other.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
        other.close()
        with pytest.raises(RecordError) as e:
            record.add(a_run(2))
        assert e.value.reason == "newer" and len(record) == 1


# ---- readers and writers -------------------------------------------------------------------------


def test_a_reader_sees_what_a_writer_has_committed(path):
    with Record(path) as writer:
        writer.add(a_run(1))
        with Record(path, readonly=True) as reader:
            assert len(reader) == 1
            with writer._writing() as db:
                writer._put(db, schema.row_of(a_run(2)))
                assert len(reader) == 1  # not yet
            assert len(reader) == 2
            with pytest.raises(InputError, match="opened to be read"):
                reader.add(a_run(3))
        # A reader in another process, while this one holds its log.
        count = "import sys; from workbench.sweep.record import Record; print(len(Record(sys.argv[1], readonly=True)))"  # noqa: E501
        found = subprocess.run([sys.executable, "-c", count, path], capture_output=True, text=True)
        assert found.stdout == "2\n", found.stderr


def test_a_record_in_a_folder_that_cannot_be_written_is_read(tmp_path):
    """By a user who may not write there; as root the test becomes another user first."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        filled(folder / "runs.sqlite", 3)
        folder.chmod(0o555)
        before = state(folder)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = b"nothing"
            try:
                if os.geteuid() == 0:
                    os.setuid(65534)
                with Record(folder / "runs.sqlite", readonly=True) as record:
                    said = str(len(record.runs())).encode()
                try:
                    Record(folder / "runs.sqlite")
                    said += b" written"
                except RecordError as e:
                    said += b" readonly=True" if "readonly=True" in str(e) else str(e).encode()
            except BaseException as e:
                said = repr(e).encode()
            finally:
                os.write(write, said)
                os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        with open(read, "rb") as pipe:
            assert pipe.read() == b"3 readonly=True"
        assert state(folder) == before
        folder.chmod(0o755)


def test_a_long_reader_does_not_stop_writers(path):
    """The log cannot be emptied while somebody reads an older state; adding goes on."""
    with Record(path) as record:
        record._retry_at = 1  # ask for a checkpoint at every commit
        record.add(a_run(0))
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        start = time.monotonic()
        record._retry_at = 1
        for number in range(1, 20):
            record.add(a_run(number))
        assert time.monotonic() - start < record.timeout / 2
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        reader.close()
        assert len(record) == 20


def test_a_commit_waits_for_the_lock_and_says_so_at_last(path):
    """No commit runs beside a checkpoint: both hold this lock."""
    with Record(path, timeout=0.2) as record, open(f"{path}-lock") as other:
        with files.lock(other.fileno(), path, 0), pytest.raises(RecordError) as e:
            record.add(a_run(1))
        assert e.value.reason == "locked" and "-lock" in str(e.value)
        assert len(record) == 0
        record.timeout = 60
        done = []
        with files.lock(other.fileno(), path, 0):
            thread = threading.Thread(target=lambda: done.append(record.add(a_run(1))))
            thread.start()
            time.sleep(0.05)
            assert done == []
        thread.join()
        assert done == [1]


def test_checkpoints_run_under_the_lock_alone(path, monkeypatch):
    with Record(path) as record, open(f"{path}-lock") as other:
        seen = []

        def watch(statement):
            try:
                with files.lock(other.fileno(), path, 0):
                    free = True
            except RecordError:
                free = False
            seen.append((statement, free))

        record._retry_at = 1
        record._db().set_trace_callback(watch)
        record.add(a_run(1))
        record._db().set_trace_callback(None)
        steps = [(s, free) for s, free in seen if s.startswith(("BEGIN", "COMMIT", "PRAGMA wal"))]
        assert [s.split("(")[0] for s, _ in steps] == [
            *("BEGIN IMMEDIATE", "COMMIT", "PRAGMA wal_checkpoint")
        ]
        assert not any(free for _, free in steps)


def test_a_foreign_lock_is_told(path):
    with Record(path, timeout=0.1) as record:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordError, match="locked by another program"):
            record.add(a_run())
        other.close()
        assert record.add(a_run()) == 1


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_record_that_was_removed_is_not_written_into(path, tmp_path, how):
    """SQLite itself would go on, and the runs would be gone with the file."""
    with Record(path) as record:
        record.add(a_run(1))
        path.unlink()
        if how == "replaced":
            filled(tmp_path / "other.sqlite", 3)
            (tmp_path / "other.sqlite").rename(path)
        for act in (lambda: record.add(a_run(2)), record.runs):
            with pytest.raises(RecordError) as e:
                act()
            assert e.value.reason == "gone"


def test_the_lock_file_does_not_outlive_its_use_as_a_lock(path):
    """It stays, empty; a new record does not mind what an older one left."""
    Path(f"{path}-lock").touch()
    with Record(path) as record:
        record.add(a_run())
    assert Path(f"{path}-lock").stat().st_size == 0
    assert stat.S_ISREG(Path(f"{path}-lock").stat().st_mode)


# ---- network disks -------------------------------------------------------------------------------

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:40 / {home} rw - nfs4 server:/export rw,vers=4.2
31 22 0:41 / {home}/with\\040space rw shared:7 master:2 - tmpfs tmpfs rw
32 22 0:42 / {home}-near rw - cifs //server/share rw
33 22 0:43 / {home}-données\\040à\\134b rw - fuse.obsfs bucket rw
"""


@pytest.fixture
def network(tmp_path, monkeypatch) -> Path:
    """A folder that the system says is on NFS."""
    home = tmp_path / "home"
    (home / "with space").mkdir(parents=True)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(home=home))
    monkeypatch.setattr(files, "filesystem", lambda path, own=files.filesystem: own(path, mounts))
    return home


def test_the_file_system_is_found(network, tmp_path):
    assert files.filesystem(network / "deep" / "runs.sqlite") == "nfs4"
    assert files.filesystem(network / "with space" / "runs.sqlite") == "tmpfs"
    assert files.filesystem(tmp_path / "home-near" / "x") == "cifs"
    assert files.on_network(tmp_path / "home-données à\\b" / "x") == "fuse.obsfs"
    assert files.filesystem(tmp_path / "home2") == "ext4"
    assert files.on_network(network) == "nfs4" and files.on_network(tmp_path) is None


def test_a_record_on_a_network_disk_is_advised_against(network, tmp_path):
    text = refused(network / "runs.sqlite", "network")
    assert "nfs4" in text and "local disk" in text and "merge" in text
    with Record(network / "with space" / "runs.sqlite") as record:
        record.add(a_run(1))
        record.add(a_run(2))
        # Read it where it lies on the network: as long as nobody writes.
        data = Path(record.path).read_bytes()
        log = Path(f"{record.path}-wal").read_bytes()
    (network / "runs.sqlite").write_bytes(data)
    (network / "runs.sqlite-wal").write_bytes(log)
    assert "read while it is written to" in refused(
        network / "runs.sqlite", "network", readonly=True
    )
    for name in ("runs.sqlite-wal", "runs.sqlite"):
        (network / name).unlink()
    (network / "with space" / "runs.sqlite").rename(network / "runs.sqlite")
    with Record(network / "runs.sqlite", readonly=True) as record:
        assert len(record) == 2
    assert {p.name for p in network.iterdir()} == {"runs.sqlite", "with space"}


def test_a_file_system_without_shared_memory_is_refused(path, monkeypatch):
    """Where SQLite cannot have WAL it says so, and stays with another mode."""

    class Without(sqlite3.Connection):
        def execute(self, text, *values):
            return super().execute(text.replace("journal_mode = WAL", "journal_mode"), *values)

    own = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: own(*a, **k, factory=Without))
    with pytest.raises(RecordError) as e:
        Record(path)
    assert e.value.reason == "network" and "no WAL, but delete" in str(e.value)
    assert module._RECORDS is not None
