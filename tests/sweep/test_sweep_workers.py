"""Who runs a sweep: processes of ours, executors, Dask; and what happens when some of them die."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import psutil
import pytest
from sweep_kit import deadly, deadly_once, slow, small, table

from workbench.build import cache
from workbench.errors import InputError, MissingError
from workbench.sweep import runner
from workbench.sweep.record import Record
from workbench.sweep.runner import sweep
from workbench.sweep.workers import WorkerDied, WorkerPool

HERE = Path(__file__).parent
SPACE = small(tiles=(64, 128, 100), max_blocks=(1, 3, 5))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The table of a sweep that nothing disturbed."""
    store = tmp_path_factory.mktemp("whole") / "runs.sqlite"
    found = sweep(SPACE, store=store, workers=0, progress=False, timing=0)
    assert found.passed and len(found.runs) == 9
    return table(found.runs)


# ---- the pool ------------------------------------------------------------------------------------


def test_a_death_is_that_call_alone():
    with WorkerPool(2) as pool:
        dying = pool.submit(signal.raise_signal, signal.SIGKILL)
        others = [pool.submit(divmod, n, 3) for n in range(8)]
        assert [f.result(60) for f in others] == [divmod(n, 3) for n in range(8)]
        with pytest.raises(WorkerDied, match=f"signal {int(signal.SIGKILL)}.*2 times"):
            dying.result(60)


def test_errors_come_back_and_the_process_stays():
    with WorkerPool(1) as pool:
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result(60)
        (first,) = pool.processes
        with pytest.raises(RuntimeError, match="not to be sent"):
            pool.submit(threading.Lock).result(60)
        with pytest.raises(Exception, match=r"(?i)pickle"):
            pool.submit(lambda: None).result(60)
        assert pool.submit(os.getpid).result(60) == first


def test_a_worker_runs_this_workbench(tmp_path, monkeypatch):
    """Not one that lies in the folder where the sweep was started."""
    (tmp_path / "workbench").mkdir()
    (tmp_path / "workbench" / "__init__.py").write_text("raise ImportError('another workbench')")
    monkeypatch.chdir(tmp_path)
    control = subprocess.run([sys.executable, "-m", "workbench"], capture_output=True, text=True)
    assert "another workbench" in control.stderr
    with WorkerPool(1) as pool:
        assert pool.submit(cache.root).result(60) == cache.root()


def test_a_call_that_takes_too_long():
    with WorkerPool(1, timeout=5.0) as pool:
        pool.submit(os.getpid).result(60)
        pool.timeout = 0.2
        with pytest.raises(WorkerDied, match=r"more than 0\.2 s"):
            pool.submit(time.sleep, 60.0).result(30)


def test_shutdown_ends_what_runs():
    pool = WorkerPool(1)
    pool.submit(os.getpid).result(60)
    (pid,) = pool.processes
    running, waiting = pool.submit(time.sleep, 60.0), pool.submit(time.sleep, 60.0)
    started = time.monotonic()
    pool.shutdown(wait=False, cancel_futures=True)
    assert time.monotonic() - started < 20 and not psutil.pid_exists(pid)
    assert waiting.cancelled() and (running.cancelled() or running.exception(10) is not None)
    with pytest.raises(RuntimeError):
        pool.submit(os.getpid)


@pytest.mark.parametrize("workers", [0, -1, True, "2"])
def test_no_workers(workers):
    with pytest.raises(InputError):
        WorkerPool(workers)


# ---- processes that die ------------------------------------------------------------------------


def test_a_configuration_that_kills_its_process(tmp_path, whole, monkeypatch):
    monkeypatch.setattr(runner, "measure", deadly)
    found = sweep(SPACE, store=tmp_path / "r", workers=1, progress=False, timing=0)
    assert [run.status for run in found.runs] == ["ok", "failed", *["ok"] * 4, *["refused"] * 3]
    assert "signal 9" in found.runs[1].error and "check=True" in found.runs[1].error
    monkeypatch.undo()
    again = sweep(SPACE, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert again.kept == 8 and table(again.runs) == whole


def test_a_process_pool_that_breaks(tmp_path, whole, monkeypatch):
    monkeypatch.setenv("SWEEP_KIT_FLAG", str(tmp_path / "flag"))
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setattr(runner, "measure", deadly_once)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = sweep(SPACE, store=tmp_path / "r", client=pool, progress=False, timing=0)
    assert (tmp_path / "flag").exists()
    assert found.passed and len(found.notes) == 1 and "in its place" in found.notes[0]
    assert table(found.runs) == whole


def test_a_process_pool_that_breaks_between_two_calls(tmp_path, whole):
    """It refuses the next call before those that are out have said so."""

    class Breaking(ThreadPoolExecutor):
        calls = 0

        def submit(self, *what, **more):
            self.calls += 1
            if self.calls > 3:
                raise BrokenProcessPool("a process was terminated abruptly")
            return super().submit(*what, **more)

    with Breaking(1) as pool:
        found = sweep(SPACE, store=tmp_path / "r", client=pool, progress=False, timing=0)
    assert found.passed and len(found.notes) == 1 and "in its place" in found.notes[0]
    assert table(found.runs) == whole


def test_threads(tmp_path, whole):
    with ThreadPoolExecutor(3) as pool:
        found = sweep(SPACE, store=tmp_path / "r", client=pool, progress=False, timing=0)
    assert table(found.runs) == whole


def test_stopped_in_the_middle_of_a_run(tmp_path):
    stop = threading.Event()

    def shown(at):
        if at.run is not None:
            stop.set()

    found = sweep(SPACE, store=tmp_path / "r", workers=1, progress=shown, stop=stop, timing=0)
    with Record(tmp_path / "r") as record:
        assert found.stopped and 4 <= len(record) == len(found.runs) < 9


# ---- the coordinator is killed -------------------------------------------------------------------

SCRIPT = """
import sys
sys.path.insert(0, {here!r})
import sweep_kit
from test_sweep_workers import SPACE
from workbench.sweep import runner
runner.measure = sweep_kit.slow
runner.sweep(SPACE, store=sys.argv[1], workers=int(sys.argv[2]), progress=False, timing=0)
"""


def interrupted(store: Path, workers: int, runs: int, delay: float, how: int) -> int:
    """Start a sweep, and end it `delay` seconds after the record has so many runs."""
    command = [sys.executable, "-c", SCRIPT.format(here=str(HERE)), str(store), str(workers)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    below: list[psutil.Process] = []
    while process.poll() is None:
        time.sleep(0.02)
        if store.exists() and _count(store) >= runs:
            time.sleep(delay)
            below = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(how)
            break
    process.communicate()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive, "a worker outlived its coordinator"
    return process.returncode


def _count(store: Path) -> int:
    try:
        with Record(store, readonly=True) as record:
            return len(record)
    except Exception:  # not yet a record
        return 0


def test_killed_at_any_moment_and_resumed(tmp_path, whole):
    store = tmp_path / "runs.sqlite"
    kill, stop = signal.SIGKILL, signal.SIGINT
    for workers, runs, delay, how in ((0, 1, 0.13, kill), (1, 5, 0.21, kill), (0, 7, 0.05, stop)):
        code = interrupted(store, workers, runs, delay, how)
        assert code in (-how, 1), code  # 1: a KeyboardInterrupt that was raised
        assert runs <= _count(store) < 9
    before = _count(store)
    found = sweep(SPACE, store=store, workers=0, progress=False, timing=0)
    assert found.kept == before and table(found.runs) == whole
    with Record(store, readonly=True) as record:
        record.check()
        assert len(record) == 9


def _objects_only(folder: Path) -> Path:
    """A build cache with what all variants share, and no variant."""
    for entry in (cache.root() / cache.LAYOUT).iterdir():
        if list(entry.glob("*.o")) or list(entry.glob("*.gch")):
            shutil.copytree(entry, folder / cache.LAYOUT / entry.name, copy_function=os.link)
    for made in (folder, folder / cache.LAYOUT):
        made.chmod(0o700)
    return folder


def _until(process: subprocess.Popen[str], what: Callable[[], bool]) -> None:
    while not what():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.005)


def test_killed_while_it_compiles_and_then_its_worker(tmp_path, whole, monkeypatch):
    """The coordinator in the middle of a compilation; in the second attempt the worker process."""
    monkeypatch.setenv("WORKBENCH_CACHE", str(_objects_only(tmp_path / "cache")))
    store, works = tmp_path / "runs.sqlite", tmp_path / "cache" / cache.LAYOUT / "tmp"
    command = [sys.executable, "-c", SCRIPT.format(here=str(HERE)), str(store), "1"]

    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    _until(first, lambda: store.exists() and bool(list(works.glob("*/unit.cpp"))))
    first.kill()
    first.communicate()
    left = list(works.iterdir())
    assert left and _count(store) < len(whole), "it was not in the middle"

    second = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    _until(second, lambda: _count(store) >= 4)
    below = psutil.Process(second.pid).children()
    workers = [p for p in below if "worker.main" in p.cmdline()[-1]]
    workers[0].kill()
    assert second.communicate(timeout=100) == (None, "") and second.returncode == 0
    with Record(store, readonly=True) as record:
        record.check()
        assert len(record) == len(whole)
    found = sweep(SPACE, store=store, workers=0, progress=False, timing=0)
    assert found.kept == len(whole) and table(found.runs) == whole
    assert not set(left) & set(works.iterdir()), "what the dead process left is still there"


# ---- Dask ----------------------------------------------------------------------------------------


def test_dask_with_a_worker_killed(tmp_path, whole, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install '.[dask]'")
    monkeypatch.setattr(runner, "measure", slow)
    monkeypatch.setenv("PYTHONPATH", f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    options = {"dashboard_address": None, "n_workers": 2, "threads_per_worker": 1}
    killed = []

    def shown(at):
        if at.run is not None and not killed:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    with distributed.LocalCluster(processes=True, silence_logs=50, **options) as cluster:
        found = sweep(SPACE, store=tmp_path / "r", client=cluster, progress=shown, timing=0)
        assert len(killed) == 1 and found.passed and table(found.runs) == whole
        with distributed.Client(cluster) as client:
            again = sweep(SPACE, store=tmp_path / "r", client=client, progress=False, timing=0)
            assert again.kept == 9
        address = cluster.scheduler_address
        more = sweep(
            small(tiles=(192,), max_blocks=(1,)),
            store=tmp_path / "r",
            client=address,
            progress=False,
            timing=0,
        )
        assert more.passed and len(more.runs) == 1
    with pytest.raises(InputError, match="no Dask scheduler"):
        monkeypatch.setattr(runner, "_PATIENCE", "1s")
        sweep(SPACE, store=tmp_path / "r", client="tcp://127.0.0.1:9", progress=False)


NOWHERE = """
import sys, time
from test_sweep_workers import SPACE
from workbench.errors import InputError
from workbench.sweep.runner import sweep
started = time.monotonic()
try:
    sweep(SPACE, store=sys.argv[1], client="nonsense", progress=False)
except InputError as error:
    print(error)
print(time.monotonic() - started, file=sys.stderr)
"""


def test_an_address_that_is_none_leaves_no_client_behind(tmp_path):
    """Python tried to end it at its own end, for 20 s, and said that it could not."""
    pytest.importorskip("distributed", reason="needs Dask: pip install '.[dask]'")
    found = subprocess.run(
        [sys.executable, "-c", NOWHERE, str(tmp_path / "r")],
        env={**os.environ, "PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parents[1]}"},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "no Dask scheduler" in found.stdout and "tcp://host:8786" in found.stdout
    assert found.returncode == 0 and "Traceback" not in found.stderr
    assert len(found.stderr.splitlines()) == 1, found.stderr


def test_without_dask(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(MissingError, match="pip install"):
        sweep(SPACE, store=tmp_path / "r", client="tcp://127.0.0.1:9", progress=False)
