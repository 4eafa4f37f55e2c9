"""Runs the notebooks, some at a time, and writes the report after each."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from workbench._result import jsonable
from workbench.errors import InputError

from . import pages
from .claims import declared, describe, read
from .execute import Executed, Execution
from .judge import judge
from .junit import junit
from .parameters import distribute, find, from_file
from .provenance import provenance
from .result import NotebookRun, Report

# A kernel with torch, a build of the twin beside it, and pictures.
MEMORY_A_NOTEBOOK = 3 * 2**30


def run_report(
    out: str | os.PathLike,
    notebooks: Iterable[str | os.PathLike] | None = None,
    parameters: Mapping[str, Any] | None = None,
    timeout: float = 600,
    progress: Callable[[str], None] | None = None,
    *,
    parameters_file: str | os.PathLike | None = None,
    notebook_timeout: float = 1800,
    jobs: int | None = None,
) -> Report:
    """Execute notebooks with this interpreter and write a report into `out`.

    Args:
        out: Folder of the report; made if it does not exist.
        notebooks: Paths, or names of notebooks of the workbench ("01" will do); None: all.
        parameters: Values for the notebooks' `parameters` cells. Each notebook is given those it
            declares; one that none declares is an error. A notebook's name ("02") with a dict
            holds values for that notebook alone.
        timeout: Seconds that one cell may take.
        progress: Called with a line of text before and after each notebook.
        parameters_file: The same as `parameters`, in YAML or JSON; `parameters` wins over it.
        notebook_timeout: Seconds that one notebook may take in all.
        jobs: Notebooks run at once; None: 2 where the machine has two cores and the memory.

    Returns:
        The verdicts. A notebook that fails is a verdict, not an exception.

    Raises:
        InputError: No such notebook or parameter, a value of another kind than the notebook's own,
            or `out` cannot be written, or another report is being written there.
        MissingError: There are no notebooks.
    """
    if not (timeout > 0 and notebook_timeout > 0):
        raise InputError("A time-out must be more than 0 seconds.")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs={jobs}: at least one notebook must run at a time.")
    files = find(notebooks)
    sources = {file: read(file) for file in files}
    given = distribute(
        {file: declared(source) for file, source in sources.items()},
        from_file(parameters_file) if parameters_file is not None else {},
        dict(parameters or {}),
    )
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"Cannot write a report into {folder}: {error.strerror}.") from error
    with _alone(folder):
        return _run(files, sources, given, folder, timeout, notebook_timeout, jobs, progress)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Refuse a second report into `folder`: its pages and this one's verdicts would be mixed.

    The lock ends with the process, however that ends.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"Another report is being written into {folder}; wait for it, or give another "
                    "folder with --out"
                ) from None
        yield
    finally:
        os.close(handle)


def _run(
    files: list[Path],
    sources: dict[Path, Any],
    given: dict[Path, dict[str, Any]],
    folder: Path,
    timeout: float,
    notebook_timeout: float,
    jobs: int | None,
    progress: Callable[[str], None] | None,
) -> Report:
    runs = [describe(file, sources[file], given[file]) for file in files]
    report = Report(str(folder), str(folder / "index.html"), runs, provenance(runs))
    work = [
        (run, Execution(sources[file], given[file], timeout, notebook_timeout))
        for file, run in zip(files, runs, strict=True)
    ]
    write(report, folder)
    news: queue.SimpleQueue = queue.SimpleQueue()
    try:
        for run, executed in execute_all(work, jobs or default_jobs(), progress, news):
            judge(run, executed, timeout, notebook_timeout)
            try:
                _keep(run, executed, report, folder)
            except KeyboardInterrupt:  # what has been done is kept; a second Ctrl-C ends this too
                _keep(run, executed, report, folder)
                raise
            if progress:
                progress(f"{run.status} {run.name} ({run.seconds:.1f} s)")
    except KeyboardInterrupt:
        report.interrupted = True
        while not news.empty():  # of notebooks that ended while another's page was written
            run, executed = news.get()
            if executed is not None and not executed.given_up:
                judge(run, executed, timeout, notebook_timeout)
                _keep(run, executed, report, folder)
        raise
    finally:
        write(report, folder)
    return report


def _keep(run: NotebookRun, executed: Executed, report: Report, folder: Path) -> None:
    page = folder / f"{run.name}.html"
    replace(page, pages.notebook_page(executed.notebook, run, report))
    run.html = page.name
    write(report, folder)


def default_jobs() -> int:
    """2, or 1 where there is one core or too little free memory for two notebooks."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 2 if (cores or 1) > 1 and _free_memory() > 2 * MEMORY_A_NOTEBOOK else 1


def _free_memory() -> float:
    """Bytes that can be had without swapping; infinity where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return float("inf")


def execute_all(
    work: list[tuple[NotebookRun, Execution]],
    jobs: int,
    progress: Callable[[str], None] | None = None,
    news: queue.SimpleQueue | None = None,
) -> Iterable[tuple[NotebookRun, Executed]]:
    """Execute `jobs` notebooks at a time; yields each as it ends. All end with the generator.

    In threads: on the main one nbclient takes Ctrl-C for itself and turns it into a dead kernel,
    which would look like a verdict. What `news` still holds after the end was not fetched.
    """
    news = queue.SimpleQueue() if news is None else news
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    for item in work:
        waiting.put(item)
    ended = threading.Event()

    def worker() -> None:
        while not ended.is_set():
            try:
                run, execution = waiting.get_nowait()
            except queue.Empty:
                return
            news.put((run, None))
            try:
                news.put((run, execution.run()))
            except Exception as error:  # nothing a notebook does may leave the report waiting
                news.put((run, Executed.failed(execution.source, error)))

    # Names of their own: jupyter_core keeps an event loop for each name.
    threads = [
        threading.Thread(target=worker, name=f"workbench-report-{os.getpid()}-{k}", daemon=True)
        for k in range(min(jobs, len(work)))
    ]
    started = finished = 0
    try:
        for thread in threads:
            thread.start()
        while finished < len(work):
            try:
                run, executed = news.get(timeout=0.2)  # so that Ctrl-C is seen everywhere
            except queue.Empty:
                continue
            if executed is None:
                started += 1
                if progress:
                    progress(f"[{started}/{len(work)}] {run.name}")
            else:
                finished += 1
                yield run, executed
    finally:
        ended.set()
        if finished < len(work):
            for _, execution in work:
                execution.stop()
        for thread in threads:
            thread.join(10)


def write(report: Report, folder: Path) -> None:
    text = json.dumps(jsonable(report), indent=2, allow_nan=False, ensure_ascii=False)
    replace(folder / "report.json", text + "\n")
    replace(folder / "report.xml", junit(report))
    replace(folder / "index.html", pages.index_page(report))


def replace(path: Path, text: str) -> None:
    """Write a whole file or leave the old one: a reader never sees half of it."""
    new = path.with_name(path.name + ".new")
    try:
        # A lone surrogate in an output has no bytes in UTF-8.
        new.write_text(text, "utf-8", "replace")
        new.replace(path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error
