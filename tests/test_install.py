"""A wheel, installed outside the checkout: everything it needs travels with it.

The environment is a new one that sees this environment's packages through a .pth file, so that
torch is not fetched again; `workbench` itself comes from the wheel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from workbench import doctor

ROOT = Path(__file__).resolve().parent.parent
SKIPPED_FOLDERS = shutil.ignore_patterns(".git", ".venv", "build", "dist", "report", "*.egg-info")

pytestmark = pytest.mark.slow
needs_cxx = pytest.mark.skipif(
    doctor.cxx_on_path() is None, reason="no C++ compiler (apt-get install g++)"
)


def call(*command: str, **options) -> subprocess.CompletedProcess:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from the source distribution, so that MANIFEST.in is checked as well."""
    copy = tmp_path_factory.mktemp("source") / "project"
    # `build` is ours below workbench/ and setuptools' at the top
    shutil.copytree(ROOT, copy, ignore=lambda d, n: SKIPPED_FOLDERS(d, n) if d == str(ROOT) else [])
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy))
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A function that runs a program of the new environment outside the checkout."""
    home = tmp_path_factory.mktemp("elsewhere")
    venv.create(home / "venv", with_pip=False)
    python = home / "venv" / "bin" / "python"
    ours = sysconfig.get_paths()["purelib"]
    site = Path(
        call(str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").stdout
        .strip()
    )  # fmt: skip
    # Plain sys.path entry: .pth files in `ours` (an editable install of this checkout) stay unread.
    (site / "borrowed.pth").write_text(ours + "\n")
    call(
        *[sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"],
        *["--no-index", "--quiet", str(wheel)],
    )
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env["WORKBENCH_CACHE"] = str(home / "cache")
    env["JUPYTER_PATH"] = str(Path(sys.prefix, "share", "jupyter"))  # nbconvert's templates

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess:
        return call(str(python.parent / program), *arguments, cwd=home, env=env)

    run.home = home  # type: ignore[attr-defined]
    return run


def test_what_the_wheel_contains(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, kinds in (("csrc", (".asc", ".json", ".h", ".hpp", ".cpp")), ("notebooks", None)):
        for file in (ROOT / folder).rglob("*"):
            if (
                not file.is_file()
                or "__pycache__" in file.parts
                or ".ipynb_checkpoints" in file.parts
            ):
                continue
            if kinds is None or file.suffix in kinds:
                assert f"workbench/{file.relative_to(ROOT).as_posix()}" in names
    data = [f for f in (ROOT / "workbench" / "data").rglob("*") if f.is_file()]
    assert data
    for file in data:
        assert file.relative_to(ROOT).as_posix() in names
    assert any(n.endswith("/LICENSE") and ".dist-info/" in n for n in names)
    assert {n.split("/")[0] for n in names if ".dist-info" not in n} == {"workbench"}
    assert not [n for n in names if n.endswith((".so", ".o", ".pyc"))]
    # Pure Python unless WORKBENCH_FORCE_ASCEND=1 (tests/build/test_aot_install.py); the stub of the
    # extension comes along, since the modules built at run time have its form.
    assert wheel.name.endswith("-py3-none-any.whl")
    assert {"workbench/_C_npu.pyi", "workbench/py.typed"} <= names
    assert not [n for n in names if "_C_npu." in n and not n.endswith(".pyi")]


def test_the_installed_one_is_used(installed):
    found = installed("python", "-c", "import workbench.paths as p; print(p.PACKAGE, p.CSRC)")
    package, csrc = found.stdout.split()
    assert str(installed.home) in package and csrc == f"{package}/csrc"


def test_doctor(installed):
    found = json.loads(installed("workbench", "doctor", "--json").stdout)
    assert found["backends"]["twin"]["ok"]
    assert found["packages"]["ascend-kernel-workbench"]


@needs_cxx
def test_a_kernel_is_built_and_judged(installed):
    built = json.loads(installed("workbench", "build", "lm_head", "--json").stdout)
    assert built["backend"] == "twin" and str(installed.home) in built["path"]
    arguments = ["--sample", "smollm2", "--rows", "2", "--vocab", "16", "--transforms", "T1"]
    judged = json.loads(installed("workbench", "invariance", *arguments, "--json").stdout)
    assert judged["passed"]


def test_lab_copies_the_notebooks(installed):
    found = json.loads(installed("workbench", "lab", "--dry-run", "--json").stdout)
    folder = installed.home / "workbench-notebooks"
    assert found["folder"] == str(folder)
    wanted = sorted(f.name for f in (ROOT / "notebooks").glob("*") if f.suffix in (".py", ".ipynb"))
    assert wanted and found["copied"] == wanted
    assert sorted(f.name for f in folder.iterdir()) == wanted


@needs_cxx
def test_the_report_runs_from_the_installed_one(installed):
    """One small notebook: the kernel process must import the installed workbench too."""
    import nbformat

    source = "import workbench; print('USED', workbench.__file__)"
    cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), installed.home / "one.ipynb")
    installed("workbench", "report", "--out", "out", "--notebook", "one.ipynb", "--json")
    page = (installed.home / "out" / "one.html").read_text()
    assert f"USED {installed.home}" in page
