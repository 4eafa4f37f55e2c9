"""What works on this machine, what does not, and how to get what is missing.

Imports neither torch nor torch_npu: a broken one of them is among the things to diagnose.

    python3 -I workbench/doctor.py     # before anything is installed: what `make` needs to begin
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path

DISTRIBUTION = "ascend-kernel-workbench"
MIN_PYTHON = (3, 10)
COMPILERS = ("g++", "clang++", "c++")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

INSTALL_CXX = "Debian/Ubuntu: apt-get install g++ · Fedora/openEuler: dnf install gcc-c++"
INSTALL_HEADERS = (
    "Debian/Ubuntu: apt-get install python3-dev · Fedora/openEuler: dnf install python3-devel · "
    "or a Python that brings its own (conda, pyenv)"
)


@dataclass
class Problem:
    """One thing that is missing: what, why it matters, and how to get it."""

    what: str
    why: str
    how: str
    needed: bool = False  # without it the workbench's main job does not run

    def __str__(self) -> str:
        mark = "NEEDED  " if self.needed else "optional"
        return f"  {mark}  {self.what}\n            why: {self.why}\n            how: {self.how}"


def headers() -> Path | None:
    """The folder with this Python's `Python.h`, or None."""
    folder = Path(sysconfig.get_paths()["include"])
    return folder if (folder / "Python.h").is_file() else None


def cxx_on_path() -> str | None:
    """A C++ compiler: $CXX where it is set, else the first usual name on PATH."""
    asked = shlex.split(os.environ.get("CXX", ""))[:1]
    return next(filter(None, map(shutil.which, asked or COMPILERS)), None)


def prerequisites(installed: bool = False) -> list[Problem]:
    """What must be there to install the workbench and, `installed` or not, to build kernels.

    Standard library only: `make` asks before anything is installed.
    """
    problems = []
    if sys.version_info < MIN_PYTHON:
        problems.append(
            Problem(
                f"Python {platform.python_version()} is too old",
                f"the workbench needs Python {MIN_PYTHON[0]}.{MIN_PYTHON[1]} or newer",
                "install a newer one and run: make PYTHON=/path/to/python3.11 …",
                needed=True,
            )
        )
    if headers() is None:
        problems.append(
            Problem(
                f"Python.h is not in {sysconfig.get_paths()['include']}",
                "kernels are bound to Python by a small C++ module, built here",
                INSTALL_HEADERS,
                needed=True,
            )
        )
    if cxx_on_path() is None:
        asked = os.environ.get("CXX")
        problems.append(
            Problem(
                f"CXX={asked} is not a program" if asked else "no C++ compiler (g++ or clang++)",
                "the twin compiles the kernels for this CPU",
                INSTALL_CXX,
                needed=True,
            )
        )
    if not installed and importlib.util.find_spec("ensurepip") is None:
        problems.append(
            Problem(
                "Python has no ensurepip",
                "`python3 -m venv` cannot put pip into the environment",
                "Debian/Ubuntu: apt-get install python3-venv",
                needed=True,
            )
        )
    return problems


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution, or None. Does not import it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing_requirements() -> list[str]:
    """Names of the workbench's own requirements that are not installed, extras apart."""
    try:
        wanted = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        return []  # run from a checkout that is not installed: nothing to compare with
    names = [re.match(r"[\w.-]+", line) for line in wanted if "extra ==" not in line]
    return [m.group() for m in names if m and version_of(m.group()) is None]


def _extra(name: str) -> str:
    """What pip is told to install for an extra: the checkout where this is one."""
    if (Path(__file__).resolve().parents[1] / "setup.py").is_file():
        return f"-e '.[{name}]'"
    return f"'{DISTRIBUTION}[{name}]'"


def browser() -> str | None:
    """Path of a Chromium that the browser tests can drive, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def ascend_devices() -> list[str]:
    """Device nodes of Ascend NPUs on this machine."""
    return sorted(str(p) for p in Path("/dev").glob("davinci[0-9]*"))


def _twin(problems: list[Problem]) -> dict:
    from workbench.build.compiler import find_cxx
    from workbench.errors import MissingError

    reasons = [] if headers() else ["Python.h is missing"]
    try:
        cxx = find_cxx()
    except MissingError as error:
        if not any("compiler" in p.what or "CXX" in p.what for p in problems):
            problems.append(Problem("no usable C++ compiler", str(error), INSTALL_CXX, True))
        return {"ok": False, "compiler": None, "version": None, "reasons": [*reasons, str(error)]}
    if cxx.version.startswith("unknown"):  # it is there, and it does not run
        reasons.append(f"{cxx.path} does not run: {cxx.version}")
        problems.append(Problem(f"{cxx.path} does not run", cxx.version, INSTALL_CXX, True))
    return {
        "ok": not reasons,
        "compiler": str(cxx.path),
        "version": str(cxx.version),
        "reasons": reasons,
    }


def _npu(problems: list[Problem]) -> dict:
    from workbench import _npu_guard
    from workbench.build import extension
    from workbench.build.cann import find_cann

    cann, devices, torch_npu = find_cann(), ascend_devices(), version_of("torch_npu")
    built = extension.look()
    if built.broken:
        again = f"where bisheng is: {extension.HOW}"
        why = f"it is not used: {built.reason}"
        problems.append(Problem("extension built ahead of time", why, again))
    checks = [
        (
            cann is not None or built.manifest is not None,
            "CANN (bisheng)",
            "compiles kernels for an Ascend NPU",
            "install the CANN toolkit 8.5 and source its set_env.sh (it sets ASCEND_HOME_PATH)",
        ),
        (
            bool(devices) or shutil.which("npu-smi") is not None,
            "Ascend device",
            "runs kernels on hardware; without it the twin runs them on the CPU",
            "a machine with an Ascend NPU and its driver (/dev/davinci*)",
        ),
        (
            torch_npu is not None,
            "torch_npu",
            "gives PyTorch tensors on the NPU",
            f"pip install {_extra('npu')} (the release that matches torch)",
        ),
    ]
    reasons = []
    for present, what, why, how in checks:
        if not present:
            reasons.append(f"{what} not found")
            problems.append(Problem(what, why, how))
    if torch_npu and not _npu_guard.cann_loadable():
        reasons.append("torch_npu cannot load CANN's libraries")
        why = f"`import torch` raises unless workbench came first, or {_npu_guard.VARIABLE}=0"
        how = "source CANN's set_env.sh, or set that variable"
        problems.append(Problem("torch_npu without CANN's libraries", why, how))
    return {
        "ok": not reasons,
        "reasons": reasons,
        "cann": str(cann.home) if cann else None,
        "compiler": str(cann.bisheng) if cann and cann.bisheng else None,
        "torch_npu": torch_npu,
        "devices": devices,
        "extension": {
            "path": str(extension.module_path()) if built.manifest else None,
            "reason": built.reason,
            **{k: (built.manifest or {}).get(k) for k in ("arch", "compiler", "cann", "build")},
        },
    }


@dataclass
class Diagnosis:
    """The answer of `diagnose`."""

    backends: dict[str, dict]
    problems: list[Problem]
    python: dict
    packages: dict[str, str | None]
    tools: dict[str, str | None]
    machine: dict = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether kernels can be built and run here, and nothing the main job needs is missing."""
        return any(b["ok"] for b in self.backends.values()) and not any(
            p.needed for p in self.problems
        )

    def to_dict(self) -> dict:
        from workbench._result import jsonable

        return {"ok": self.ok, **jsonable(self)}

    def __str__(self) -> str:
        twin, npu = self.backends["twin"], self.backends["npu"]
        rows = [
            ("python", f"{self.python['version']}  {self.python['executable']}"),
            ("headers", self.python["headers"] or "missing"),
            *((name, version or "missing") for name, version in self.packages.items()),
            *((name, path or "missing") for name, path in self.tools.items()),
        ]
        state = {True: "ready", False: "not available"}
        compiler = [f"{twin['compiler']}  {twin['version']}"] if twin["compiler"] else []
        lines = [
            f"{name:6} {state[ok]:14} {'; '.join(notes)}".rstrip()
            for name, ok, notes in (
                ("twin", twin["ok"], [*compiler, *twin["reasons"]]),
                ("npu", npu["ok"], npu["reasons"]),
            )
        ]
        lines += ["", *(f"{name:{len(DISTRIBUTION)}}  {value}" for name, value in rows)]
        if self.problems:
            lines += ["", "What is missing here:", *map(str, self.problems)]
        lines += ["", "Ready to build kernels." if self.ok else "Kernels cannot be built yet."]
        return "\n".join(lines)


def diagnose() -> Diagnosis:
    """Look at everything the workbench can use on this machine. Imports no torch."""
    problems = prerequisites(installed=True)
    backends = {"twin": _twin(problems), "npu": _npu(problems)}
    for name in missing_requirements():
        problems.append(
            Problem(
                f"Python package {name}",
                "a requirement of the workbench",
                f"{sys.executable} -m pip install {name}",
                needed=True,
            )
        )
    tools = {"make": shutil.which("make"), "chromium": browser()}
    if tools["chromium"] is None:
        problems.append(
            Problem(
                "Chromium",
                "drives the widgets in the browser tests; nothing else needs it",
                "Debian: apt-get install chromium",
            )
        )
    if tools["make"] is None:
        problems.append(
            Problem(
                "make", "runs `make test` and `make report` in a checkout", "apt-get install make"
            )
        )
    packages = {
        name: version_of(name)
        for name in (DISTRIBUTION, "torch", "torch_npu", "numpy", "pybind11", "jupyterlab")
    }
    include = headers()
    return Diagnosis(
        backends=backends,
        problems=problems,
        python={
            "version": platform.python_version(),
            "executable": sys.executable,
            "headers": str(include) if include else None,
        },
        packages=packages,
        tools=tools,
        machine={"system": platform.system(), "machine": platform.machine()},
    )


if __name__ == "__main__":  # `make` asks before it builds the environment
    found = prerequisites()
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(3 if found else 0)
