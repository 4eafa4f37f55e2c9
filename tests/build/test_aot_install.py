"""`WORKBENCH_FORCE_ASCEND=1 pip install`, really run: a copy of the project, an environment of its
own, and the stand-in for bisheng. Nothing is fetched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import aot_kit
import build_kit as kit
import pytest

from workbench.build import extension

pytestmark = pytest.mark.slow

SOURCES = ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
FOLDERS = ("workbench", "csrc", "notebooks")
MODULE = f"_C_npu{sysconfig.get_config_var('EXT_SUFFIX')}"
MANIFEST = MODULE.removesuffix(".so") + ".json"


class Place:
    """A copy of the project, an environment that borrows this one's packages, and a CANN."""

    def __init__(self, folder: Path, home: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.home = home
        self.env = env
        self.calls = aot_kit.Calls(folder / "bisheng.log")
        self.python = folder / "venv" / "bin" / "python"

    def run(
        self, *command: str, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            command,
            cwd=cwd or self.project,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    def pip(self, *arguments: str, **env: str) -> subprocess.CompletedProcess:
        offline = ["--no-index", "--no-deps", "--disable-pip-version-check"]
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), *arguments[:1]]
        return self.run(*pip, *offline, *arguments[1:], **env)

    def editable(self, *more: str, **env: str) -> subprocess.CompletedProcess:
        return self.pip("install", "--no-build-isolation", *more, "-e", ".", **env)

    @property
    def in_place(self) -> list[str]:
        """What an extension left in the project's package."""
        return sorted(p.name for p in (self.project / "workbench").glob("_C_npu.[!p]*"))


@pytest.fixture
def place(tmp_path) -> Place:
    folder = tmp_path / "here"
    (folder / "project").mkdir(parents=True)
    for name in SOURCES:
        shutil.copy(kit.ROOT / name, folder / "project" / name)
    ignore = shutil.ignore_patterns("__pycache__", "_C_npu.*.so", "_C_npu.*.json")
    for name in FOLDERS:
        shutil.copytree(kit.ROOT / name, folder / "project" / name, ignore=ignore)
    venv.create(folder / "venv", with_pip=False)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = folder / "venv" / "lib" / version / "site-packages"
    # A plain entry of sys.path: the .pth files in there (this checkout) stay unread.
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    aot_kit.install_cann(folder / "home")
    drop = ("PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
    kept = {k: v for k, v in os.environ.items() if k not in drop and not k.startswith("ASCEND_")}
    env = {
        **kept,
        "ASCEND_HOME_PATH": str(folder / "home"),
        "WORKBENCH_FORCE_ASCEND": "1",
        "WORKBENCH_ASCEND_ARCH": "dav-2201",
        "WORKBENCH_CACHE": str(folder / "cache"),
        "BISHENG_LOG": str(folder / "bisheng.log"),
        "BISHENG_DOES": "fake",
    }
    return Place(folder, folder / "home", env)


@pytest.fixture
def real_place(place, real_extension) -> Place:
    """As `place`, with the objects of the extension that was compiled for this CPU at hand."""
    objects = sorted(str(p) for p in real_extension.glob("*.o"))
    place.home = real_extension / "home"
    place.env.update(
        ASCEND_HOME_PATH=str(place.home),
        WORKBENCH_CACHE=str(real_extension / "cache"),
        BISHENG_DOES="twin",
        BISHENG_OBJECTS=" ".join(objects),
    )
    return place


SHOW = """
import workbench as wb
kernel = wb.build("lm_head", backend="npu")
print("USED", kernel.info.made, kernel.info.path, len(kernel.module._module.kernels()))
"""


def test_an_editable_install_has_the_kernels(real_place):
    done = real_place.editable("-v")
    assert done.returncode == 0, done.stdout[-4000:]
    assert real_place.in_place == sorted([MODULE, MANIFEST])
    # What was found is said, and pip -v shows it.
    assert f"{real_place.home} ($ASCEND_HOME_PATH)" in done.stdout
    assert re.search(r"architecture +dav-2201 \(\$WORKBENCH_ASCEND_ARCH\)", done.stdout)
    del real_place.env["ASCEND_HOME_PATH"]  # bisheng is not needed from here on
    shown = real_place.run(str(real_place.python), "-c", SHOW, cwd=real_place.folder)
    assert f"USED ahead of time {real_place.project / 'workbench' / MODULE}" in shown.stdout
    # Built again: nothing has changed, so nothing is compiled.
    real_place.calls.reset()
    real_place.env["ASCEND_HOME_PATH"] = str(real_place.home)
    again = real_place.editable("-v")
    assert again.returncode == 0 and "nothing: all is as it was" in again.stdout
    assert real_place.calls.made == []


def test_a_wheel_has_the_kernels_wherever_it_is_installed(real_place):
    done = real_place.run(
        *[str(real_place.python), "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    )
    assert done.returncode == 0, done.stdout[-4000:]
    (wheel,) = (real_place.project / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"workbench/{n}" for n in (MODULE, MANIFEST, "_C_npu.pyi")} <= set(names)
    assert re.search(r"-cp3\d+-cp3\d+-linux_\w+\.whl$", wheel.name)
    assert real_place.in_place == []
    assert real_place.pip("install", str(wheel)).returncode == 0
    del real_place.env["ASCEND_HOME_PATH"]
    shown = real_place.run(str(real_place.python), "-c", SHOW, cwd=real_place.folder)
    assert f"USED ahead of time {real_place.folder / 'venv'}" in shown.stdout, shown.stdout


def test_the_compilers_message_reaches_the_user(place):
    source = place.project / "csrc" / "ascend" / "lm_head_ascend.asc"
    said = f"{source}:3:1: error: use of undeclared identifier 'Foo'\nand more of it\n"
    done = place.editable(BISHENG_FAILS=r"lm_head\.o", BISHENG_SAYS=said)
    assert done.returncode != 0 and place.in_place == []
    assert f"{source}:3: use of undeclared identifier 'Foo'" in done.stdout
    assert "and more of it" in done.stdout  # all it said, not the first error alone
    log = re.search(r"the compiler's full output: (\S+\.log)", done.stdout)
    assert log and Path(log[1]).read_text() == said
    wheel = place.pip("wheel", "--no-build-isolation", ".", BISHENG_FAILS=r".*\.so")
    assert wheel.returncode != 0 and not list(place.project.glob("*.whl"))
    assert place.editable().returncode == 0


def test_forced_without_bisheng_fails_and_says_what_is_missing(place):
    (place.home / "bin" / "bisheng").unlink()
    del place.env["WORKBENCH_ASCEND_ARCH"]
    for done in (
        place.editable(PATH=f"{place.python.parent}:/usr/bin:/bin"),
        place.pip("wheel", "--no-build-isolation", ".", PATH="/usr/bin:/bin"),
    ):
        assert done.returncode != 0
        assert "bisheng, CANN's compiler: not in" in done.stdout
        assert "WORKBENCH_ASCEND_ARCH is not set and there is no npu-smi" in done.stdout
    assert place.in_place == [] and not list(place.project.glob("*.whl"))


def test_no_wheel_comes_out_without_the_extension(place):
    """As where a step of the build was skipped."""
    done = place.run(str(place.python), "setup.py", "-q", "bdist_wheel", "--skip-build")
    assert done.returncode != 0 and place.calls.all == []
    assert "WORKBENCH_FORCE_ASCEND=1, and the extension is not in" in done.stdout
    assert not list((place.project / "dist").glob("*.whl"))
    done = place.run(str(place.python), "setup.py", "-q", "bdist_wheel")
    assert done.returncode == 0 and len(list((place.project / "dist").glob("*.whl"))) == 1


def test_an_editable_install_without_the_extension_fails(place):
    """The control: a build step that does nothing."""
    setup = place.project / "setup.py"
    text = setup.read_text()
    step = "aot().build(module, say=lambda line: print(line, flush=True))"
    placing = "aot().place(made, ROOT / self.get_ext_filename(extension.name))"
    assert text.count(step) == text.count(placing) == 1
    setup.write_text(text.replace(step, "pass").replace(placing, "pass"))
    done = place.editable()
    assert done.returncode != 0 and "the extension is not in" in done.stdout


@pytest.mark.parametrize("flag", ["", "0"])
def test_without_the_flag_it_is_pure_python(place, flag):
    """Also where an extension lies in place: it belongs to this checkout alone."""
    assert place.editable().returncode == 0 and len(place.in_place) == 2
    place.calls.reset()
    place.env["WORKBENCH_FORCE_ASCEND"] = flag
    done = place.run(
        *[str(place.python), "-m", "build", "--no-isolation", "--outdir", "dist"],
        BISHENG_FAILS=".*",
    )
    assert done.returncode == 0 and place.calls.all == [], done.stdout[-4000:]
    (wheel,) = (place.project / "dist").glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [n for n in names if "_C_npu" in n] == ["workbench/_C_npu.pyi"]
    (archive,) = (place.project / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        assert not [n for n in packed.getnames() if re.search(r"_C_npu\..*(so|json)$", n)]
    shown = place.run(str(place.python), "-X", "importtime", "setup.py", "--version")
    assert "setuptools" in shown.stdout and not re.search(r"\| +workbench", shown.stdout)
    assert len(place.in_place) == 2  # it is left where it lies


def test_a_flag_that_says_neither_is_refused(place):
    done = place.run(str(place.python), "setup.py", "--version", WORKBENCH_FORCE_ASCEND="yes")
    assert done.returncode != 0 and "WORKBENCH_FORCE_ASCEND='yes': want 1" in done.stdout


def test_what_building_needs_is_asked_of_pip(place):
    """So that an isolated build has it; without the flag nothing but setuptools is asked for."""
    code = "import setuptools.build_meta as b; print('NEEDS', b.get_requires_for_build_wheel())"
    shown = place.run(str(place.python), "-c", code)
    assert "NEEDS ['setuptools>=70.1', 'pybind11>=2.12', 'platformdirs>=3']" in shown.stdout
    shown = place.run(str(place.python), "-c", code, WORKBENCH_FORCE_ASCEND="0")
    assert "NEEDS []" in shown.stdout


def test_a_strict_editable_install_links_both_files(place):
    done = place.editable("--config-settings", "editable_mode=strict")
    assert done.returncode == 0, done.stdout[-3000:]
    code = "import workbench, os; print('HAS', os.listdir(os.path.dirname(workbench.__file__)))"
    shown = place.run(str(place.python), "-c", code, cwd=place.folder)
    assert f"'{MODULE}'" in shown.stdout and f"'{MANIFEST}'" in shown.stdout
    assert extension.manifest_path(Path(MODULE)).name == MANIFEST
