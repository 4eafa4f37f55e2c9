"""The toolchain for real NPUs: bisheng from a CANN installation.

Nobody has run this on a device for this project: its command lines follow the vendor's
documentation and are tested against a stand-in that records them.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench import _npu_guard, paths
from workbench.build import compiler, extension, source
from workbench.build.toolchain import MODULE, Object, Unit, module_object
from workbench.errors import ConfigError, MissingError

DEFAULT_HOME = "/usr/local/Ascend/ascend-toolkit/latest"


@dataclass(frozen=True)
class Cann:
    """A CANN installation: its `home` and the path of its `bisheng`."""

    home: Path
    bisheng: Path
    found_by: str

    @property
    def libraries(self) -> list[Path]:
        places = [self.home / "lib64", self.home / f"{platform.machine()}-linux" / "lib64"]
        return [p for p in places if p.is_dir()]

    def environment(self) -> dict[str, str]:
        """The variables that bisheng and what it starts find CANN by: all name this home, whatever
        they were. A build that takes half of its files from another CANN is hard to notice."""
        found = {"ASCEND_HOME_PATH": str(self.home), "ASCEND_TOOLKIT_HOME": str(self.home)}
        if (self.home / "opp").is_dir():
            found["ASCEND_OPP_PATH"] = str(self.home / "opp")
        first = [str(p) for p in self.libraries]
        rest = [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p]
        if first or rest:
            path = [*first, *(p for p in rest if p not in first)]
            found["LD_LIBRARY_PATH"] = os.pathsep.join(path)
        return found


def find_cann() -> Cann | None:
    """The CANN installation that would be used, or None.

    Looks at $ASCEND_HOME_PATH, then $ASCEND_TOOLKIT_HOME, then the default home; in each for
    bisheng in `bin`, `tools/ccec_compiler/bin` and `<machine>-linux/ccec_compiler/bin`.
    """
    places = [(os.environ.get(n), f"${n}") for n in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")]
    places.append((DEFAULT_HOME, "the default home"))
    for given, found_by in places:
        if not given:
            continue
        home = Path(given).absolute()  # the compiler runs in another folder
        for folder in (
            home / "bin",
            home / "tools" / "ccec_compiler" / "bin",
            home / f"{platform.machine()}-linux" / "ccec_compiler" / "bin",
        ):
            candidate = folder / "bisheng"
            if os.access(candidate, os.X_OK) and candidate.is_file():
                return Cann(home, candidate, found_by)
    return None


class CannToolchain:
    """Builds for an NPU with bisheng.

    Args:
        cann: The installation; None: `find_cann()`.

    Raises:
        MissingError: There is no CANN; or, when a kernel is built, no host C++ compiler for the
            pybind11 part.
    """

    name = "npu"

    def __init__(self, cann: Cann | None = None) -> None:
        found = cann or find_cann()
        if found is None:
            raise MissingError(
                "backend 'npu' needs CANN's bisheng compiler; none was found in $ASCEND_HOME_PATH, "
                f"$ASCEND_TOOLKIT_HOME or {DEFAULT_HOME}. Install CANN 8.5 or newer and source "
                "its set_env.sh, "
                "or use backend='twin'"
            )
        self.cann = found
        self.bisheng = compiler.Compiler((str(found.bisheng),), str(found.bisheng))

    @functools.cached_property
    def cxx(self) -> compiler.Compiler:
        return compiler.find_cxx()

    @property
    def environment(self) -> dict[str, str]:
        return self.cann.environment()

    @property
    def compiler_name(self) -> str:
        return f"{self.bisheng.version} ({self.bisheng.path}, {self.cann.found_by})"

    def identity(self) -> dict[str, Any]:
        return {
            "compiler": self.bisheng.identity,
            "host compiler": self.cxx.identity,
            "home": str(self.cann.home),
        }

    def include_folders(self) -> list[Path]:
        return [paths.ASCEND]

    def flags(self, unit: Unit) -> list[str]:
        return [
            "-x",
            "asc",
            f"--npu-arch={unit.arch.name}",
            "-std=c++17",
            "-O2",
            "-fPIC",
            *unit.define_flags,
        ]

    def objects(self, unit: Unit | None = None) -> list[Object]:
        # `-x asc` must not see plain C++, so the pybind11 part is the host compiler's.
        host = [*self.cxx.command, "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden"]
        return [module_object(host, self.cxx.identity)]

    def text(self, unit: Unit, function: str = "wb_kernel_table") -> str:
        # The user's file goes through as it is; only the kernel table follows it. A backslash is
        # an escape in the table's `#line`, and none in an `#include`.
        if '"' in str(unit.path):
            raise ConfigError(
                f"{unit.path}: the npu backend cannot include a path with a quote in it; "
                "move the file"
            )
        shown = str(unit.path).replace("\\", "\\\\")
        table = source.launchers(
            unit.kernels, unit.constants, self.name, unit.arch.name, shown, function
        )
        return f'#include "{unit.path}"\n#line 1 "<kernel table>"\n{table}'

    def compilation(self, unit: Unit, text: str, out: str) -> list[str]:
        """The command that makes the object `out` of the generated text in the file `text`."""
        return [
            *[str(self.cann.bisheng), *self.flags(unit), "-iquote", str(unit.path.parent)],
            *[f"-I{paths.ASCEND}", "-c", text, "-o", out],
        ]

    def link(self, objects: Sequence[str], out: str) -> list[str]:
        """The command that makes the module `out` of `objects`."""
        search = [f"-L{p}" for p in self.cann.libraries]
        rpaths = [f"-Wl,-rpath,{p}" for p in self.cann.libraries]
        return [
            *[str(self.cann.bisheng), "-shared", *objects, "-o", out],
            *[*search, *rpaths, "-lascendcl"],
        ]

    def commands(self, unit: Unit, work: Path, objects: list[Path]) -> list[list[str]]:
        path, made = work / "unit.asc", str(work / "unit.o")
        path.write_text(self.text(unit), "utf-8")
        return [
            self.compilation(unit, str(path), made),
            self.link([made, *map(str, objects)], str(work / MODULE)),
        ]


def device_reasons() -> list[str]:
    """What an NPU needs and is not on this machine; empty where all is there. Imports neither
    torch nor torch_npu; whether they work, too, `why_no_npu` says."""
    reasons = []
    if find_cann() is None and not extension.usable():
        reasons.append("CANN (bisheng) not found, and no extension built ahead of time")
    if not _npu_guard.torch_npu_installed():
        reasons.append("torch_npu is not installed")
    if not list(Path("/dev").glob("davinci[0-9]*")) and shutil.which("npu-smi") is None:
        reasons.append("no NPU device (/dev/davinci*)")
    return reasons


def why_no_npu() -> list[str]:
    """Why no NPU can be used here; empty where one can. Imports torch_npu where what it needs is
    there."""
    reasons = device_reasons()
    if reasons:
        return reasons
    try:
        import torch_npu

        if not torch_npu.npu.is_available():
            return ["torch_npu finds no NPU that it can use"]
    except Exception as e:  # a runtime that is broken fails in any way it likes
        return [f"torch_npu does not work: {type(e).__name__}: {e}"]
    return []
