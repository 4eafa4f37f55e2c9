"""Executes the notebooks without a browser and writes what they found as static pages.

    report/index.html      contents, a verdict for each notebook, provenance
    report/NAME.html       one executed notebook each, everything inlined
    report/report.json     the same verdicts for programs

A notebook's claims are its assertions: a cell that raises is a claim that failed. The report is
written again after every notebook, so an interrupted run leaves the finished ones in place.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import importlib.metadata
import json
import logging
import os
import platform
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import paths
from ._result import Result, jsonable
from .errors import InputError, MissingError, WorkbenchError
from .lab import KERNEL, kernel_spec

NOT_RUN, PASSED, FAILED = "not run", "passed", "failed"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_ERROR_MARK = "papermill-error-cell-tag"
_WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass
class NotebookRun(Result):
    """The verdict on one notebook."""

    name: str
    heading: str
    claim: str
    status: str = NOT_RUN
    seconds: float | None = None
    html: str | None = None  # relative to the report's folder
    failed_claim: str | None = None  # heading over the cell that failed
    failed_cell: int | None = None  # counted from 1, among all cells
    message: str | None = None
    not_reached: int = 0  # code cells after the failure
    parameters: dict[str, str] = field(default_factory=dict)  # name -> value as source text
    figure: str | None = field(default=None, metadata={"json": False})  # base64 PNG, for the index
    figure_alt: str = field(default="", metadata={"json": False})

    @property
    def passed(self) -> bool:
        return self.status == PASSED

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "passed": self.passed}


@dataclass
class Report(Result):
    """All verdicts, and where and on what they were found."""

    out: str
    index: str
    notebooks: list[NotebookRun]
    provenance: dict[str, str]
    interrupted: bool = False

    @property
    def passed(self) -> bool:
        return all(n.passed for n in self.notebooks)

    def to_dict(self) -> dict[str, Any]:
        return {"passed": self.passed, **super().to_dict()}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"notebook": n.name, "verdict": n.status, "seconds": n.seconds, "message": n.message}
            for n in self.notebooks
        ]

    def __str__(self) -> str:
        lines = []
        for n in self.notebooks:
            seconds = "" if n.seconds is None else f"{n.seconds:6.1f} s"
            lines.append(f"{n.status:8} {seconds:>9}  {n.name}")
            if n.message:
                lines.append(f"{'':20} claim: {n.failed_claim} (cell {n.failed_cell})")
                lines.append(f"{'':20} {n.message.splitlines()[0]}")
        return "\n".join([*lines, f"report: {self.index}"])


def run_report(
    out: str | os.PathLike,
    notebooks: Iterable[str | os.PathLike] | None = None,
    parameters: Mapping[str, Any] | None = None,
    timeout: float = 600,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Execute notebooks with this interpreter and write a report into `out`.

    Args:
        out: Folder of the report; made if it does not exist.
        notebooks: Paths, or names of notebooks of the workbench ("01" will do); None: all.
        parameters: Values for the notebooks' `parameters` cells. Each notebook is given those it
            declares; one that none declares is an error.
        timeout: Seconds that one cell may take.
        progress: Called with a line of text before each notebook.

    Returns:
        The verdicts. A notebook that fails is a verdict, not an exception.

    Raises:
        InputError: No such notebook or parameter, or `out` cannot be written.
        MissingError: There are no notebooks.
    """
    files = _find(notebooks)
    given = _distribute(files, dict(parameters or {}))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(f"Cannot write a report into {folder}: {error.strerror}.") from error
    report = Report(
        out=str(folder),
        index=str(folder / "index.html"),
        notebooks=[_describe(file, given[file]) for file in files],
        provenance=provenance(),
    )
    report.provenance["architecture"] = _architectures(report.notebooks)
    try:
        for number, (file, run) in enumerate(zip(files, report.notebooks, strict=True), start=1):
            _write(report, folder)
            if progress:
                progress(f"[{number}/{len(files)}] {run.name}")
            _run_one(file, run, given[file], folder, timeout)
    except KeyboardInterrupt:
        report.interrupted = True
        raise
    finally:
        _write(report, folder)
    return report


# ---- which notebooks, which parameters ---------------------------------------------------------


def _find(notebooks: Iterable[str | os.PathLike] | None) -> list[Path]:
    own = sorted(paths.NOTEBOOKS.glob("*.ipynb")) if paths.NOTEBOOKS.is_dir() else []
    if notebooks is None:
        if not own:
            raise MissingError(f"There are no notebooks in {paths.NOTEBOOKS}.")
        return own
    files = []
    for asked in map(str, notebooks):
        matches = [f for f in own if f.stem == asked or f.name.startswith(asked)]
        if Path(asked).is_file():
            files.append(Path(asked).resolve())
        elif len(matches) == 1:
            files.append(matches[0])
        else:
            known = ", ".join(f.stem for f in own)
            what = "more than one notebook" if matches else "no file and no notebook of ours"
            raise InputError(f"{asked!r} names {what}; give a path, or one of: {known}")
    stems = [f.stem for f in files]
    if twice := {s for s in stems if stems.count(s) > 1}:
        raise InputError(f"Two notebooks would be written to the same page: {', '.join(twice)}")
    return files


def _declared(file: Path) -> dict[str, str]:
    """Names assigned in the cell tagged `parameters`, with the source text of their values."""
    found: dict[str, str] = {}
    for cell in _read(file).cells:
        if cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", []):
            for node in ast.parse(cell.source).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                if isinstance(node, ast.AnnAssign):
                    targets = [node.target]
                for target in targets:
                    if isinstance(target, ast.Name) and node.value is not None:
                        found[target.id] = ast.unparse(node.value)
    return found


def _distribute(files: list[Path], parameters: dict[str, Any]) -> dict[Path, dict[str, Any]]:
    """For each notebook those of `parameters` that it declares."""
    declared = {file: _declared(file) for file in files}
    known = set().union(*declared.values())
    if unknown := sorted(set(parameters) - known):
        raise InputError(
            f"No notebook has the parameter {', '.join(unknown)}; "
            f"they have: {', '.join(sorted(known)) or 'none'}"
        )
    return {f: {k: v for k, v in parameters.items() if k in declared[f]} for f in files}


def _read(file: Path):
    import nbformat

    try:
        return nbformat.read(file, as_version=4)
    except Exception as error:  # nbformat raises its own, json's, and others
        raise InputError(f"{file} is not a notebook: {error}") from error


def _describe(file: Path, given: dict[str, Any]) -> NotebookRun:
    """Name, title (first heading), claim (the paragraph after it) and parameters."""
    text = "\n\n".join(c.source for c in _read(file).cells if c.cell_type == "markdown")
    heading = re.search(r"^#\s+(.+?)\s*$", text, re.M)
    rest = text[heading.end() :] if heading else ""
    claim = next((b for b in rest.strip().split("\n\n") if b and not b.startswith("#")), "")
    return NotebookRun(
        name=file.stem,
        heading=_plain(heading.group(1)) if heading else file.stem,
        claim=_plain(claim),
        parameters={**_declared(file), **{k: repr(v) for k, v in given.items()}},
    )


def _plain(markdown: str) -> str:
    """A line of markdown without its marks."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    return " ".join(re.sub(r"[*`]|(?<!\w)_|_(?!\w)", "", text).split())


# ---- executing one -----------------------------------------------------------------------------


def _run_one(file: Path, run: NotebookRun, given: dict, folder: Path, timeout: float) -> None:
    """Execute one notebook, fill in `run`, write its page."""
    import nbformat

    source = _read(file)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="workbench-report-") as scratch:
        executed = Path(scratch, "executed.ipynb")
        log = Path(scratch, "kernel.log")
        error = _execute(source, executed, given, timeout, log)
        lines = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
        kernel_says = "\n".join(x for x in lines[-40:] if "[IPKernelApp] WARNING" not in x)
        notebook = nbformat.read(executed, as_version=4) if executed.exists() else source
    run.seconds = round(time.perf_counter() - start, 3)
    # papermill marks a failure with cells of its own; the report says it in its own way
    notebook.cells = [c for c in notebook.cells if _ERROR_MARK not in c.metadata.get("tags", [])]
    _judge(run, notebook, error, timeout, kernel_says)
    page = folder / f"{run.name}.html"
    _replace(page, _notebook_page(notebook, run))
    run.html = page.name


def _execute(source, executed: Path, given: dict, timeout: float, log: Path) -> Exception | None:
    """Execute `source` and keep the result in `executed`; the exception that ended it, or None.

    What the kernel process itself prints goes to `log`; the output of cells does not.
    """
    import papermill
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    kernels: list[AsyncKernelManager] = []
    ended: list[Exception | None] = [None]

    class ThisInterpreter(AsyncKernelManager):
        """Starts this interpreter, whatever kernelspecs are registered on the machine."""

        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            kernels.append(self)

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(**kernel_spec())

        async def start_kernel(self, **kwargs) -> None:  # type: ignore[override]
            with log.open("ab") as stream:
                await super().start_kernel(**kwargs, stdout=stream, stderr=stream)

    def work() -> None:
        try:
            papermill.execute_notebook(
                source,
                executed,
                parameters=given,
                kernel_name=KERNEL,
                kernel_manager_class=ThisInterpreter,
                language="python",
                progress_bar=False,
                execution_timeout=max(1, round(timeout)),
                start_timeout=120,
                cwd=executed.parent,
            )
        except Exception as error:  # an assertion, a time-out, a kernel that died: all verdicts
            ended[0] = error

    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    # In a thread of its own: on the main one nbclient takes Ctrl-C for itself and turns it into a
    # dead kernel, which would look like a verdict.
    thread = threading.Thread(target=work, name="workbench-report", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
    except KeyboardInterrupt:
        for kernel in kernels:
            pid = getattr(kernel.provisioner, "pid", None)
            with contextlib.suppress(OSError):
                if pid:
                    os.kill(pid, signal.SIGKILL)
        thread.join(10)
        raise
    return ended[0]


def _judge(run: NotebookRun, notebook, error: Exception | None, timeout: float, log: str) -> None:
    """The verdict; for a failure also which claim, in which cell, with which message."""
    cells = [c for c in notebook.cells if "injected-parameters" not in c.metadata.get("tags", [])]
    code = [i for i, c in enumerate(cells) if c.cell_type == "code" and c.source.strip()]
    begun = [i for i in code if cells[i].metadata.get("papermill", {}).get("start_time")]
    done = [i for i in code if cells[i].execution_count is not None]
    raised = [
        (i, output) for i in code for output in cells[i].outputs if output.output_type == "error"
    ]
    if error is None and not raised and done == code:
        run.status = PASSED
        return
    run.status = FAILED
    at = raised[0][0] if raised else begun[-1] if begun else 0
    if isinstance(error, TimeoutError):
        run.message = f"TimeoutError: the cell took more than {timeout:g} s"
    elif raised:
        output = raised[0][1]
        run.message = f"{output.ename}: {output.evalue}".rstrip(": ")
    elif error:  # a kernel that died or did not start
        run.message = f"{type(error).__name__}: {error}\n{log}".strip()
    else:
        run.message = "the notebook stopped before its end"
    run.message = _ANSI.sub("", run.message).strip()
    run.failed_cell = at + 1
    run.failed_claim = _heading_above(cells, at) or run.heading
    run.not_reached = sum(i > at for i in code)


def _heading_above(cells, index: int) -> str | None:
    """The last markdown heading before cell `index`."""
    for cell in reversed(cells[:index]):
        if cell.cell_type == "markdown":
            headings = re.findall(r"^#+\s+(.+?)\s*$", cell.source, re.M)
            if headings:
                return _plain(headings[-1])
    return None


# ---- writing -----------------------------------------------------------------------------------


def _notebook_page(notebook, run: NotebookRun) -> str:
    """One executed notebook as a page without anything fetched from elsewhere."""
    from nbconvert import HTMLExporter

    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if data.pop(_WIDGET, None) is not None:
                # a widget needs a kernel and scripts from elsewhere: say where it lives instead
                data["text/html"] = (
                    '<p class="widget-note">An interactive panel stands here. '
                    "Open the notebook with <code>workbench lab</code> to use it.</p>"
                )
            if "image/png" in data:
                meta = output.setdefault("metadata", {}).setdefault("image/png", {})
                above = _heading_above(notebook.cells, number) or run.heading
                meta["alt"] = meta.get("alt") or f"Figure under the heading: {above}"
                if run.figure is None:
                    run.figure, run.figure_alt = data["image/png"].strip(), meta["alt"]
    notebook.metadata.pop("widgets", None)
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return _render("notebook.html.j2", run=run, body=body)


def _render(name: str, **values: Any) -> str:
    import jinja2
    from pygments.formatters import HtmlFormatter

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(paths.DATA / "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    highlight = {
        theme: HtmlFormatter(style=style).get_style_defs(".highlight")
        for theme, style in (("light", "default"), ("dark", "github-dark"))
    }
    return env.get_template(name).render(highlight=highlight, **values)


def _write(report: Report, folder: Path) -> None:
    text = json.dumps(jsonable(report), indent=2, allow_nan=False, ensure_ascii=False)
    _replace(folder / "report.json", text + "\n")
    _replace(folder / "index.html", _render("index.html.j2", report=report))


def _replace(path: Path, text: str) -> None:
    """Write a whole file or leave the old one: a reader never sees half of it."""
    new = path.with_name(path.name + ".new")
    try:
        new.write_text(text, "utf-8")
        new.replace(path)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error


def provenance() -> dict[str, str]:
    """What the figures stand on: versions, processor, compiler, backend, date."""
    from .evidence import cpu_name

    facts = {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "backend": "twin: the kernels' own source, compiled for this CPU. "
        "Nothing here was run on Ascend hardware.",
        "architecture": "",  # kept here for its place in the table
        "processor": f"{cpu_name()}, {os.cpu_count()} logical cores",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Python": f"{platform.python_version()} ({sys.executable})",
    }
    with contextlib.suppress(WorkbenchError, ImportError):
        from .build.compiler import find_cxx

        cxx = find_cxx()
        facts["compiler"] = f"{cxx.version} ({cxx.path})"
    for name in ("ascend-kernel-workbench", "torch", "numpy", "matplotlib"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            facts[name] = importlib.metadata.version(name)
    return facts


def _architectures(notebooks: list[NotebookRun]) -> str:
    """The architectures that the notebooks' parameters name."""
    named = {
        name
        for run in notebooks
        for value in run.parameters.values()
        for name in re.findall(r"dav-\w+", value)
    }
    return ", ".join(sorted(named)) or "stated with each figure"
