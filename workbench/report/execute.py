"""Executes one notebook in a kernel of its own, within its time."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.lab import KERNEL, kernel_spec

from . import witness

_ERROR_MARK = "papermill-error-cell-tag"
_START = 120  # seconds a kernel may take to answer
_LONGEST = 2**31  # seconds that every timer takes


@dataclass
class Executed:
    """A notebook after its run, and how the run ended."""

    notebook: Any
    error: Exception | None
    seconds: float
    log: str  # what the kernel process printed itself
    held: set[tuple[int, int]] | None  # assertions that held: (cell's count, line)
    out_of_time: bool = False  # the whole notebook, not one cell
    exit_code: int | None = None  # of a kernel that died by itself
    given_up: bool = False  # stopped by us before its end: no verdict

    @classmethod
    def failed(cls, notebook: Any, error: Exception) -> Executed:
        return cls(notebook, error, 0.0, "", None)


class Execution:
    """One run of a notebook. `stop` may be called from another thread."""

    def __init__(self, source: Any, given: dict, timeout: float, notebook_timeout: float) -> None:
        self.source, self.given = source, given
        self.timeout, self.notebook_timeout = timeout, notebook_timeout
        self.stopped = threading.Event()
        self._kernels: list[Any] = []
        self._processes: list[Any] = []

    def stop(self) -> None:
        """Kill the kernel and what it started, now and should it only just be starting."""
        self.stopped.set()
        for kernel in self._kernels:
            provisioner = kernel.provisioner
            with contextlib.suppress(OSError):
                if group := getattr(provisioner, "pgid", None):
                    os.killpg(group, signal.SIGKILL)  # it leads a session: compilers end with it
                elif pid := getattr(provisioner, "pid", None):
                    os.kill(pid, signal.SIGKILL)

    def run(self) -> Executed:
        """Execute it; whatever goes wrong is in the result."""
        import nbformat

        start = time.perf_counter()
        late = threading.Event()

        def too_late() -> None:
            late.set()
            self.stop()

        timer = threading.Timer(min(self.notebook_timeout, _LONGEST), too_late)
        timer.daemon = True
        timer.start()
        try:
            with tempfile.TemporaryDirectory(
                prefix="workbench-report-", ignore_cleanup_errors=True
            ) as scratch:
                executed = Path(scratch, "executed.ipynb")
                log, held = Path(scratch, "kernel.log"), Path(scratch, "held")
                error = self._papermill(executed, log, held)
                stopped = self.stopped.is_set()
                lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
                says = "\n".join(x for x in lines[-40:] if "[IPKernelApp] WARNING" not in x)
                notebook = self.source
                if executed.exists():
                    notebook = nbformat.read(executed, as_version=4)
                found = witness.read(held)
        finally:
            timer.cancel()
        # papermill marks a failure with cells of its own; the report says it in its own way
        notebook.cells = [
            c for c in notebook.cells if _ERROR_MARK not in c.metadata.get("tags", [])
        ]
        code = next((p.returncode for p in self._processes if p.returncode is not None), None)
        seconds = round(time.perf_counter() - start, 3)
        given_up = stopped and not late.is_set()
        return Executed(notebook, error, seconds, says, found, late.is_set(), code, given_up)

    def _papermill(self, executed: Path, log: Path, held: Path) -> Exception | None:
        """Keep the executed notebook in `executed`; the exception that ended it, or None.

        What the kernel process itself prints goes to `log`; the output of cells does not.
        """
        import papermill
        from jupyter_client.kernelspec import KernelSpec
        from jupyter_client.manager import AsyncKernelManager

        execution = self
        watch = f"from workbench.report.witness import install; install({str(held)!r})"

        class ThisInterpreter(AsyncKernelManager):
            """Starts this interpreter, whatever kernelspecs are registered on the machine."""

            @property
            def kernel_spec(self) -> KernelSpec:
                spec = kernel_spec()
                spec["argv"] = [*spec["argv"], f"--IPKernelApp.exec_lines={watch}"]
                return KernelSpec(**spec)

            async def start_kernel(self, **kwargs) -> None:  # type: ignore[override]
                execution._kernels.append(self)
                # Not papermill's `cwd`: that moves this whole process, under the other threads.
                kwargs["cwd"] = str(executed.parent)
                with log.open("ab") as stream:
                    await super().start_kernel(**kwargs, stdout=stream, stderr=stream)
                if process := getattr(self.provisioner, "process", None):
                    execution._processes.append(process)
                if execution.stopped.is_set():
                    execution.stop()

        logging.getLogger("papermill").setLevel(logging.CRITICAL)
        try:
            papermill.execute_notebook(
                self.source,
                executed,
                parameters=self.given,
                kernel_name=KERNEL,
                kernel_manager_class=ThisInterpreter,
                language="python",
                progress_bar=False,
                execution_timeout=max(1, round(min(self.timeout, _LONGEST))),
                start_timeout=_START,
            )
        except Exception as error:  # an assertion, a time-out, a kernel that died: all verdicts
            return error
        return None
