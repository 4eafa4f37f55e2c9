"""The house rules that no linter knows: what imports what, what is packaged, what is committed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import jupytext
import nbformat
import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "workbench"


def project_files() -> list[Path]:
    """What is, or would be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True
    )
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    else:  # an unpacked source distribution
        found = [p for p in ROOT.rglob("*") if not {".venv", "build"} & set(p.parts)]
    return sorted(p for p in found if p.is_file())


FILES = project_files()
TEXTS = [p for p in FILES if p.suffix not in (".safetensors", ".png", ".jpg", ".bin")]


# ---- dependencies ------------------------------------------------------------------------------


def setup_lists() -> dict[str, list[str]]:
    tree = ast.parse((ROOT / "setup.py").read_text())
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.List)
    }


def test_environment_yml_names_what_setup_py_names():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    lists = setup_lists()
    assert pip == [*lists["INSTALL_REQUIRES"], *lists["EXTRAS_TEST"], "-e ."]
    assert environment["variables"] == {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def test_constraints_pin_every_requirement_to_a_release_it_allows():
    pins = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pin = Requirement(line)
            (specifier,) = pin.specifier
            assert specifier.operator == "==", line
            pins[pin.name.lower().replace("_", "-")] = specifier.version
    lists = setup_lists()
    for wanted in map(Requirement, [*lists["INSTALL_REQUIRES"], *lists["EXTRAS_TEST"]]):
        version = pins[wanted.name.lower().replace("_", "-")]
        assert wanted.specifier.contains(version), f"{wanted} is pinned to {version}"
    assert pins["torch"] == "2.13.0"


def test_building_needs_neither_torch_nor_anything_but_setuptools():
    """WORKBENCH_FORCE_ASCEND=1 alone brings in more, inside a function."""
    file = ROOT / "setup.py"
    always = {
        name.split(".")[0]
        for name, line in imports(file)
        if not file.read_text("utf-8").splitlines()[line - 1].startswith(" ")
    }
    assert always == {"os", "pathlib", "re", "setuptools", "sys"}
    inside = {name for name, _ in imports(file)} - always
    assert {n for n in inside if not n.startswith("setuptools.")} == {"workbench.build"}
    requires = re.search(r"^requires = (.*)$", (ROOT / "pyproject.toml").read_text(), re.M)
    assert requires
    assert [Requirement(r).name for r in json.loads(requires.group(1))] == ["setuptools"]


# ---- layers ------------------------------------------------------------------------------------

# Data flows one way; a unit imports its own rank or lower ones.
BASE = ("errors", "_result", "evidence", "paths", "_npu_guard", "_callable", "__init__")
RANKS = {
    **dict.fromkeys(BASE, 0),
    "build": 1,
    **dict.fromkeys(["ops", "magic"], 2),
    "orders": 3,
    "numerics": 4,
    "samples": 5,
    "sweep": 6,
    "plots": 7,
    "widgets": 8,
    **dict.fromkeys(["doctor", "lab"], 9),
    "report": 10,
    **dict.fromkeys(["commands", "cli"], 11),
}


def imports(file: Path) -> list[tuple[str, int]]:
    """(absolute module name, line) of every import in a file, importlib's with a literal too."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]
    found = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"), str(file))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # `from workbench import x` imports workbench.x
            deeper = stem == "workbench"
            found += [
                (f"{stem}.{alias.name}" if deeper else stem, node.lineno) for alias in node.names
            ]
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            found.append((str(node.args[0].value), node.lineno))
    return found


def unit(file: Path) -> str:
    """The first name below `workbench`: "build" for workbench/build/source.py."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layering_faults(file: Path) -> list[str]:
    faults = []
    for module, line in imports(file):
        parts = module.split(".")
        if parts[0] != "workbench" or len(parts) < 2 or parts[1].startswith("__version__"):
            continue
        if RANKS.get(parts[1], 99) > RANKS[unit(file)]:
            faults.append(f"{file.relative_to(ROOT)}:{line} imports {module}")
    return faults


def test_nothing_to_the_left_imports_anything_to_its_right():
    modules = [f for f in FILES if f.suffix == ".py" and PACKAGE in f.parents]
    # the facade names everything, lazily and for type checkers
    modules.remove(PACKAGE / "__init__.py")
    assert len(modules) > 5
    assert [fault for m in modules for fault in layering_faults(m)] == []


def test_the_layering_check_can_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(__name__ + ".ROOT", tmp_path)
    monkeypatch.setattr(__name__ + ".PACKAGE", tmp_path / "workbench")
    bad = tmp_path / "workbench" / "build" / "x.py"
    bad.parent.mkdir(parents=True)
    bad.write_text(
        "import os\nfrom workbench import errors, ops\nfrom ..plots.tree import draw\n"
        "def f():\n    import workbench.cli\n"
        "    importlib.import_module('workbench.numerics')\n"
    )
    assert [fault.split(" imports ")[1] for fault in layering_faults(bad)] == [
        "workbench.ops",
        "workbench.plots.tree",
        "workbench.cli",
        "workbench.numerics",
    ]


def test_every_folder_of_the_package_is_a_package():
    folders = {f.parent for f in FILES if f.suffix == ".py" and PACKAGE in f.parents}
    assert [str(f) for f in folders if not (f / "__init__.py").is_file()] == []


# ---- what is committed -------------------------------------------------------------------------


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) < 120


def test_nothing_refers_to_a_folder_outside_the_project():
    pattern = re.compile(r"\b" + "shared" + "/")
    found = [
        f"{f.relative_to(ROOT)}:{number}"
        for f in TEXTS
        for number, line in enumerate(f.read_text("utf-8", "replace").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert found == []


def test_no_file_has_grown_past_what_one_can_hold_in_mind():
    code = [f for f in FILES if f.suffix in (".py", ".h", ".hpp", ".cpp", ".asc")]
    sizes = {str(f.relative_to(ROOT)): len(f.read_text("utf-8").splitlines()) for f in code}
    assert {name: lines for name, lines in sizes.items() if lines >= 700} == {}


def test_no_source_is_hidden_from_git():
    """A pattern in .gitignore that matches too much loses files that only a fresh clone misses."""
    ours = ("workbench", "csrc", "notebooks", "tests", "docs", "benchmarks")
    listed = subprocess.run(
        ["git", "ls-files", "-oi", "--exclude-standard", "-z", *ours],
        cwd=ROOT,
        capture_output=True,
    )
    if listed.returncode:
        pytest.skip("not a git checkout: nothing says what is ignored")
    names = [name for name in listed.stdout.decode().split("\0") if name]
    # _C_npu.*.so and .json: an extension built in place
    scratch = ("__pycache__", ".ipynb_checkpoints", ".egg-info", ".pytest_cache", "/_C_npu.cpython")
    assert [n for n in names if not any(s in n for s in scratch)] == []


def test_license_and_ci_are_what_they_should_be():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "Version 2.0, January 2004" in text
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111, ".ci/run is not executable"


# ---- notebooks ---------------------------------------------------------------------------------

NOTEBOOKS = [f for f in FILES if f.suffix == ".ipynb"]


def cells(notebook) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (c.cell_type, c.source.strip(), tuple(c.metadata.get("tags", ()))) for c in notebook.cells
    ]


def notebook_faults(file: Path) -> list[str]:
    """What keeps a notebook from being a paired, stripped one."""
    notebook = nbformat.read(file, as_version=4)
    faults = []
    if "kernelspec" not in notebook.metadata:
        faults.append("no kernelspec in the metadata")
    if "widgets" in notebook.metadata:
        faults.append("widget state is kept")
    if not any("parameters" in c.metadata.get("tags", []) for c in notebook.cells):
        faults.append("no cell is tagged parameters")
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code" and (cell.outputs or cell.execution_count is not None):
            faults.append(f"cell {number} keeps an output or a count; strip it")
    pair = file.with_suffix(".py")
    if not pair.is_file():
        faults.append(f"no {pair.name} beside it")
    elif cells(jupytext.read(pair, fmt="py:percent")) != cells(notebook):
        faults.append(f"differs from {pair.name}; run `make format`")
    return faults


def test_notebooks_are_in_reading_order():
    names = [f.name for f in NOTEBOOKS]
    assert names, "there are no notebooks"
    assert [n[:3] for n in names] == [f"{i:02}_" for i in range(1, len(names) + 1)]
    assert {f.parent for f in NOTEBOOKS} == {ROOT / "notebooks"}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_notebook_is_paired_and_stripped(file):
    assert notebook_faults(file) == []


def test_the_notebook_check_can_fail(tmp_path):
    v4 = nbformat.v4
    code = v4.new_code_cell("1 + 1", execution_count=1)
    nbformat.write(v4.new_notebook(cells=[code]), tmp_path / "x.ipynb")
    (tmp_path / "x.py").write_text("# %%\n1 + 2\n")
    assert notebook_faults(tmp_path / "x.ipynb") == [
        "no kernelspec in the metadata",
        "no cell is tagged parameters",
        "cell 1 keeps an output or a count; strip it",
        "differs from x.py; run `make format`",
    ]
