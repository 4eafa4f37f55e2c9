"""What was returned is there: after kills, after a power cut, on a full disk. Each check has a
writer or a setting beside it that breaks the promise, and is caught."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from record_kit import a_run, broken_promises, returned

from workbench.build.compiler import find_cxx
from workbench.sweep import record as module
from workbench.sweep.record import Record, RecordError

HERE = Path(__file__).resolve().parent


def start(path: Path, writer: int, count: int, mode: str = "honest", **environment: str):
    """A writer of its own: (process, log)."""
    log = path.parent / f"{mode}-{writer}.log"
    paths = os.pathsep.join([str(HERE.parent.parent), str(HERE), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, HERE / "record_kit.py", path, str(writer), str(count), log, mode],
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )
    return process, log


def kill_at(process: subprocess.Popen, log: Path, lines: int) -> None:
    """SIGKILL once the writer has noted that many runs."""
    end = time.monotonic() + 60
    while not log.exists() or log.read_bytes().count(b"\n") < lines:
        assert process.poll() is None, "the writer ended before it was killed"
        assert time.monotonic() < end, "the writer does not write"
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL


def test_eight_writers_two_of_them_killed(tmp_path):
    """8 processes make and fill one record, 1,000 runs each; two are killed in the middle."""
    path = tmp_path / "runs.sqlite"
    writers = [start(path, number, 1000) for number in range(8)]
    longest = 0
    for process, log in writers[:2]:
        kill_at(process, log, 300)
    logs = [log for _, log in writers]
    waiting = [process for process, _ in writers[2:]]
    while any(process.poll() is None for process in waiting):
        wal = Path(f"{path}-wal")
        longest = max(longest, wal.stat().st_size if wal.exists() else 0)
        time.sleep(0.01)
    assert [process.returncode for process in waiting] == [0] * 6
    with Record(path) as record:
        record.check()
        runs = record.runs()
        assert broken_promises(runs, logs) == []
        # A killed writer may have committed one run that it could not note.
        noted = {key for log in logs for _, key in returned(log)}
        beyond = [run for run in runs if run.key not in noted]
        assert len(beyond) <= 2 and {run.inputs.seed for run in beyond} <= {0, 1}
        assert len(runs) == len(noted) + len(beyond) >= 6000 + 2 * 300
        # And each as it was written.
        for run in runs:
            assert run == a_run(run.config["max_blocks"], run.inputs.seed)
    assert 0 < longest < 8 << 20  # the log is copied into the file as it grows


def test_a_writer_that_answers_before_it_commits_is_caught(tmp_path):
    path = tmp_path / "runs.sqlite"
    Record(path).close()
    process, log = start(path, 0, 100_000, "early")
    kill_at(process, log, 20)
    with Record(path) as record:
        assert len(broken_promises(record.runs(), [log])) >= 20


@pytest.mark.parametrize("after", [0, 3], ids=lambda ms: f"{ms}ms")
@pytest.mark.parametrize("sign", ["-lock", "", "-journal", "-wal"])
def test_a_kill_while_a_record_is_made(tmp_path, sign, after):
    """Killed some milliseconds after one of its files has appeared: the next writer gets a record,
    with what was returned."""
    path = tmp_path / "runs.sqlite"
    process, log = start(path, 0, 10_000)
    end = time.monotonic() + 60
    while not os.path.exists(f"{path}{sign}"):  # a journal lives for a moment, or is not seen
        if sign == "-journal" and os.path.exists(f"{path}-wal"):
            break
        assert process.poll() is None and time.monotonic() < end
    time.sleep(after / 1000)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    with Record(path) as record:
        record.check()
        assert broken_promises(record.runs(), [log]) == []
        assert record.add(a_run(10**6)) > 0


# ---- power cuts ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    """A library that keeps of every file what was synced: see power_loss.cpp."""
    made = tmp_path_factory.mktemp("shim") / "power_loss.so"
    source = HERE / "power_loss.cpp"
    command = [*find_cxx().command, "-std=c++17", "-shared", "-fPIC", "-O1", source, "-o", made]
    subprocess.run([*command, "-ldl"], check=True)
    return made


def after_a_power_cut(shim: Path, folder: Path, change: str) -> tuple[Record, Path]:
    """A record as a power cut leaves it while a writer is at work, past several checkpoints, and
    the writer's log. `change` is run in the writer: what to break."""
    lost = folder / "disk"
    lost.mkdir()
    plain = "import os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); os.fsync(fd)"
    environment = {"LD_PRELOAD": str(shim), "POWER_LOSS": str(lost)}
    subprocess.run(
        [sys.executable, "-c", plain, folder / "probe"], env=os.environ | environment, check=True
    )
    if not (lost / "probe").exists():
        pytest.skip("this system's fsync cannot be watched through LD_PRELOAD")
    program = f"""
import os, sys
from record_kit import Record, a_run
from workbench.sweep import record as module
module._CHECKPOINT = 200_000
{change}
record = Record(sys.argv[1])
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
number = 0
while number < 150 or os.stat(sys.argv[1] + "-wal").st_size < 100_000:
    run = a_run(number)
    os.write(log, f"{{record.add(run)}} {{run.key}}\\n".encode())
    number += 1
os.kill(os.getpid(), 9)
"""
    log = folder / "writer.log"
    paths = os.pathsep.join([str(HERE.parent.parent), str(HERE)])
    writer = subprocess.run(
        [sys.executable, "-c", program, folder / "runs.sqlite", log],
        env={**os.environ, **environment, "PYTHONPATH": paths},
    )
    assert writer.returncode == -signal.SIGKILL
    return Record(lost / "runs.sqlite"), log


def test_what_was_returned_outlives_a_power_cut(shim, tmp_path):
    """Only what was synced is left."""
    record, log = after_a_power_cut(shim, tmp_path, "")
    record.check()
    assert len(returned(log)) >= 150
    assert broken_promises(record.runs(), [log]) == []


NORMAL = """
own = Record._settings
def settings(self, db):
    own(self, db)
    db.execute("PRAGMA synchronous = NORMAL")
Record._settings = settings
"""


def test_less_synchronisation_would_lose_runs_and_is_caught(shim, tmp_path):
    """The control, and why the record pays for FULL."""
    record, log = after_a_power_cut(shim, tmp_path, NORMAL)
    record.check()  # whole, but older
    assert len(broken_promises(record.runs(), [log])) > 1


def test_a_record_syncs_at_every_commit(tmp_path):
    with Record(tmp_path / "runs.sqlite") as record:
        read = {n: record._db().execute(f"PRAGMA {n}").fetchone()[0] for n in
                ("journal_mode", "synchronous", "wal_autocheckpoint")}  # fmt: skip
    assert read == {"journal_mode": "wal", "synchronous": 2, "wal_autocheckpoint": 0}


# ---- a full disk ---------------------------------------------------------------------------------


def fill(record: Record, runs: int = 5000, start: int = 0) -> tuple[list[int], RecordError]:
    """Add runs of 20 kB until it fails: what was returned, and the error."""
    numbers = []
    with pytest.raises(RecordError) as e:
        for number in range(start, start + runs):
            big = a_run(number, counters={f"counter {k}": k for k in range(1000)})
            numbers.append(record.add(big))
    return numbers, e.value


def test_no_page_left(tmp_path):
    with Record(tmp_path / "runs.sqlite") as record:
        record.add(a_run(10**6))
        record._db().execute("PRAGMA max_page_count = 60")
        numbers, error = fill(record)
        assert error.reason == "full" and "no space left" in str(error)
        assert numbers and [run.id for run in record.runs()] == [1, *numbers]
        record._db().execute("PRAGMA max_page_count = 1000000")
        assert record.add(a_run(2 * 10**6)) > numbers[-1]  # goes on when there is room
        record.check()


@pytest.mark.parametrize("what", ["log", "file"])
def test_a_limit_on_the_size_of_files(tmp_path, what):
    """The system refuses to let the log, or at a checkpoint the file, grow: another error, the
    same promise."""
    path = tmp_path / "runs.sqlite"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            record = Record(path)
            limit = 1 << 20
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            if what == "file":  # the log is copied and emptied before it grows as far
                record._retry_at = module._CHECKPOINT = 1 << 17
            numbers, error = fill(record)
            assert error.reason in ("full", "disk"), error
            os.write(write, ",".join(map(str, numbers)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with open(read, "rb") as pipe:
        numbers = [int(n) for n in pipe.read().decode().split(",")]
    assert os.waitpid(child, 0)[1] == 0
    with Record(path) as record:
        record.check()
        there = [run.id for run in record.runs()]
        assert numbers and there[: len(numbers)] == numbers
        # An error at the sync of a commit leaves open whether the run is there: one at most.
        assert len(there) - len(numbers) in (0, 1)
        assert record.add(a_run(10**6)) > max(there)


def test_a_full_disk(tmp_path):
    """A disk of 1 MiB. Needs the right to mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "workbench-test", str(disk)]
    if os.geteuid() or shutil.which("mount") is None or subprocess.run(mount).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        with Record(disk / "runs.sqlite") as record:
            numbers, error = fill(record)
            assert error.reason == "full" and "Free some space" in str(error)
            assert [run.id for run in record.runs()] == numbers != []
            record.check()
            again, error = fill(record, start=10**6)
            assert (again, error.reason) == ([], "full")
        # And opened anew where there is room.
        shutil.copytree(disk, tmp_path / "roomy")
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    with Record(tmp_path / "roomy" / "runs.sqlite") as record:
        record.check()
        assert [run.id for run in record.runs()] == numbers
        record.add(a_run(10**6))
