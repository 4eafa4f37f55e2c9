"""The form of the notebooks: what a reader meets in each, and what must not be committed.

tests/test_house.py compares each with its .py half. `make format` writes the .ipynb anew.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.strip_notebooks import KEPT, strip
from workbench import lab, paths
from workbench.errors import InputError
from workbench.report.claims import assertions, headings

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("*.ipynb"))
SHOWS = re.compile(r"(?m)^(?:    )*show\(")


def faults(notebook: Any) -> list[str]:
    """What a notebook lacks, or keeps and must not."""
    found = []
    cells = notebook.cells
    meta = notebook.metadata
    if meta.get("kernelspec", {}).get("name") != lab.KERNEL:
        found.append(f"its kernelspec is not {lab.KERNEL}")
    if "widgets" in meta:
        found.append("it keeps widget state")
    for number, cell in enumerate(cells, start=1):
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            found.append(f"cell {number} keeps an output or a count")
        if extra := set(cell.metadata) - KEPT:
            found.append(f"cell {number} keeps metadata: {', '.join(sorted(extra))}")
    tagged = [c for c in cells if "parameters" in c.metadata.get("tags", [])]
    if len(tagged) != 1 or tagged[0].cell_type != "code":
        found.append("not one code cell is tagged parameters")
    first = cells[0].source if cells and cells[0].cell_type == "markdown" else ""
    parts = first.split("\n\n")
    if not parts[0].startswith("# ") or len(parts) < 2 or parts[1].startswith("#"):
        found.append("it does not begin with a title and a claim")
    titles = [
        t for c in cells if c.cell_type == "markdown" for t in re.findall(r"(?m)^# .+", c.source)
    ]
    if len(titles) > 1:
        found.append("it has two titles")
    return found + _figures(cells)


def _figures(cells: list) -> list[str]:
    """Figures without a heading, or without an assertion before the next heading."""
    found = []
    waiting: list[int] = []  # figures of this section that no assertion follows yet
    headed = False
    for number, cell in enumerate(cells, start=1):
        if cell.cell_type == "markdown" and headings(cell.source):
            found += [f"the figure of cell {n} has no assertion after it" for n in waiting]
            waiting, headed = [], any(map(str.strip, re.findall(r"(?m)^##+ (.+)", cell.source)))
        elif cell.cell_type == "code":
            if SHOWS.search(cell.source):
                waiting.append(number)
                if not headed:
                    found.append(f"the figure of cell {number} has no heading")
            last = [m.start() for m in SHOWS.finditer(cell.source)]
            below = cell.source[last[-1] :].count("\n") if last else None
            lines = cell.source.count("\n") + 1
            if any(below is None or a.line > lines - below for a in assertions(cell.source)):
                waiting = []
    return found + [f"the figure of cell {n} has no assertion after it" for n in waiting]


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_a_notebook_has_the_form(file):
    notebook = nbformat.read(file, as_version=4)
    assert faults(notebook) == []
    assert sum(bool(SHOWS.search(c.source)) for c in notebook.cells) >= 1


def good() -> Any:
    v4 = nbformat.v4
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# Title\n\nOne claim."),
            v4.new_code_cell("a = 1", metadata={"tags": ["parameters"]}),
            v4.new_markdown_cell("## Finding"),
            v4.new_code_cell("show(a)"),
            v4.new_code_cell("assert a"),
            v4.new_markdown_cell("## Another"),
            v4.new_code_cell("for x in y:\n    show(x)\n    assert x"),
        ],
        metadata={"kernelspec": {"name": lab.KERNEL, "display_name": "x", "language": "python"}},
    )


def _set(cell: int, **fields: Any):
    return lambda notebook: notebook.cells[cell].update(fields)


BROKEN = {
    "its kernelspec is not python3": lambda n: n.metadata.pop("kernelspec"),
    "it keeps widget state": lambda n: n.metadata.update(widgets={}),
    "cell 2 keeps an output or a count": _set(1, execution_count=1),
    "cell 4 keeps an output or a count": _set(3, outputs=[{}]),
    "cell 4 keeps metadata: collapsed": _set(3, metadata={"collapsed": True}),
    "not one code cell is tagged parameters": _set(1, metadata={}),
    "it does not begin with a title and a claim": _set(0, source="# Title"),
    "it has two titles": _set(2, source="# A\n\n## Finding"),
    "the figure of cell 4 has no heading": _set(2, source="words"),
    "the figure of cell 4 has no assertion after it": _set(4, source="a"),
    "the figure of cell 7 has no assertion after it": _set(6, source="assert 1\nshow(a)"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_each_rule_is_seen_to_be_broken(fault):
    notebook = good()
    assert faults(notebook) == []
    broken = copy.deepcopy(notebook)
    BROKEN[fault](broken)
    assert faults(broken) == [fault]


# Edits that leave a claim without what it speaks of, and what is said before anything is computed.
REFUSED = {
    "01": ({"batch_sizes": [1, 64]}, "sizes from 1 to 32"),
    "02": ({"archs": ["dav-2201"], "tiles": [64, 4096]}, "lack dav-3510, tile 1024"),
    "03": ({"tiles": [64]}, "all add 4,096 terms in one order"),
    "04": ({"tiles": [64, 576]}, "all add a row of 576 in one order"),
    "05": ({"sizes": [1, 4]}, "a size above 4"),
    "06": ({"dtypes": ["fp16"]}, "lacks bf16 and fp32"),
    "07": ({"parts": 1}, "give 2 to 64"),
    "08": ({"keep": 100}, "not among tiles"),
    "09": ({"tile": 256}, r"divide 576: \[192\]"),
    "10": ({"tiles": [64]}, "in one order with each of them"),
}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_a_parameter_that_makes_no_sense_is_refused_in_words(file):
    """With its own values a notebook passes this cell: tests/notebooks executes them whole."""
    changed, said = REFUSED[file.stem[:2]]
    code = [c for c in nbformat.read(file, as_version=4).cells if c.cell_type == "code"]
    names: dict[str, Any] = {}
    exec(code[0].source, names)
    assert names.keys() >= changed.keys()
    names |= changed
    with pytest.raises(InputError, match=said):
        exec(re.sub(r"(?m)^%.*$", "", code[1].source), names)


def test_stripping_mends_what_a_session_left(tmp_path):
    file = tmp_path / "x.ipynb"
    nbformat.write(good(), file)
    assert not strip(file)
    used = nbformat.read(file, as_version=4)
    used.cells[1].execution_count = 3
    used.cells[4].outputs = [nbformat.v4.new_output("stream", text="x")]
    used.cells[2].metadata["collapsed"] = True
    used.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {}}
    nbformat.write(used, file)
    assert len(faults(used)) == 4
    assert strip(file) and faults(nbformat.read(file, as_version=4)) == []
    assert {c.id for c in nbformat.read(file, as_version=4).cells} == {c.id for c in used.cells}


def _saved_after_a_run(folder: Path, name: str) -> None:
    """Save a notebook as JupyterLab does, through jupytext's contents manager, with outputs."""
    from jupyter_server.services.contents.largefilemanager import LargeFileManager
    from jupytext.sync_contentsmanager import build_sync_jupytext_contents_manager_class

    manager = build_sync_jupytext_contents_manager_class(LargeFileManager)(root_dir=str(folder))
    notebook = manager.get(name)["content"]
    code = next(c for c in notebook.cells if c.cell_type == "code")
    code.outputs, code.execution_count = [nbformat.v4.new_output("stream", text="x")], 1
    notebook.metadata["language_info"] = {"name": "python", "version": "3.99"}
    manager.save({"type": "notebook", "format": "json", "content": notebook}, name)


@pytest.mark.parametrize("named", [True, False])
def test_a_session_leaves_nothing_that_make_format_cannot_take_out(tmp_path, named):
    """After Run All and a save the pair is what was committed, once it is stripped.

    jupytext would write its own version into the .py; the notebook's filter keeps it out.
    """
    for half in (NOTEBOOKS[0], NOTEBOOKS[0].with_suffix(".py")):
        text = half.read_text("utf-8")
        unnamed = "".join(
            line for line in text.splitlines(True) if "notebook_metadata_filter" not in line
        )
        unnamed = unnamed.replace('"ipynb,py:percent",', '"ipynb,py:percent"')
        assert unnamed != text
        (tmp_path / half.name).write_text(text if named else unnamed, "utf-8")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    _saved_after_a_run(tmp_path, NOTEBOOKS[0].name)
    assert (tmp_path / NOTEBOOKS[0].name).read_bytes() != before[NOTEBOOKS[0].name]
    assert strip(tmp_path / NOTEBOOKS[0].name)
    changed = {name for name in before if before[name] != (tmp_path / name).read_bytes()}
    assert changed == (set() if named else {NOTEBOOKS[0].with_suffix(".py").name})


@pytest.mark.slow
def test_lab_serves_a_kernel_that_runs_the_first_cells(tmp_path):
    """`workbench lab` as it is started, and its kernel asked over the server's own interface."""
    from jupyter_client.blocking import BlockingKernelClient

    line = [sys.executable, "-m", "workbench.cli", "lab", "--no-browser", "--dir", str(tmp_path)]
    env = {
        **os.environ,
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_TOKEN": "t",
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(line, cwd=ROOT, env=env, stdout=log, stderr=log)
    try:
        url = _wait(lambda: _server(tmp_path / "runtime"), process, tmp_path / "log")
        stems = {entry["name"] for entry in _ask(url, "contents")["content"]}
        assert {f.name for f in NOTEBOOKS} <= stems
        asked = _ask(url, f"contents/{NOTEBOOKS[0].name}")["content"]
        spec = asked["metadata"]["kernelspec"]["name"]
        kernel = _ask(url, "kernels", {"name": spec})["id"]
        (file,) = (tmp_path / "runtime").glob(f"kernel-{kernel}.json")
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        code = "import sys, workbench as wb\nprint(sys.executable, wb.__file__)"
        said = []
        reply = client.execute_interactive(
            code, timeout=60, output_hook=lambda m: said.append(m["content"].get("text", ""))
        )
        assert reply["content"]["status"] == "ok"
        assert f"{sys.executable} {paths.PACKAGE / '__init__.py'}" in "".join(said)
        client.stop_channels()
    finally:
        process.terminate()
        process.wait(30)


def _server(runtime: Path) -> str | None:
    for file in runtime.glob("jpserver-*.json"):
        try:
            url = json.loads(file.read_text())["url"]
            _ask(url, "status")
            return url
        except (OSError, ValueError):
            return None
    return None


def _ask(url: str, path: str, body: dict | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}api/{path}", data, {"Authorization": "token t"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def _wait(found: Any, process: subprocess.Popen, log: Path) -> Any:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-2000:]
        if value := found():
            return value
        time.sleep(0.2)
    raise AssertionError(f"no server after 90 s:\n{log.read_text()[-2000:]}")
