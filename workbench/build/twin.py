"""The twin's toolchain: the same `.asc` bytes compiled for the CPU by g++ or clang++ against
csrc/twin."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.build import compiler, source
from workbench.build.toolchain import MODULE, Object, Unit, module_object

# -ffp-contract=off: products and sums round separately. -fno-gnu-unique and hidden visibility:
# variants that live side by side in one process share no symbol.
BASE = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"]
RUNTIME = ("vector", "ub", "launch")


class TwinToolchain:
    """Builds for the CPU.

    Args:
        cxx: The compiler; None: `compiler.find_cxx()`.

    Raises:
        MissingError: There is no C++ compiler.
    """

    name = "twin"

    def __init__(self, cxx: compiler.Compiler | None = None) -> None:
        self.cxx = cxx or compiler.find_cxx()

    @property
    def compiler_name(self) -> str:
        return f"{self.cxx.version} ({self.cxx.path})"

    def identity(self) -> dict[str, Any]:
        return {
            "compiler": self.cxx.identity,
            "cpu": compiler.cpu_identity(),
            "flags": [*BASE, *self._tuning("-O2"), *_linker()],
        }

    def include_folders(self) -> list[Path]:
        return [paths.TWIN / "include", paths.ASCEND]

    def flags(self, unit: Unit) -> list[str]:
        return [
            *BASE,
            *self._tuning(
                "-O1"
            ),  # the arithmetic is in the runtime; more only costs time to rebuild
            f"-DWB_TWIN_ARCH={unit.arch.number}",
            *unit.define_flags,
        ]

    def _tuning(self, level: str) -> list[str]:
        # Without contraction the instruction set does not change a bit, so the CPU's own is used.
        flags = [level, "-mcpu=native" if platform.machine() == "aarch64" else "-march=native"]
        if not self.cxx.is_clang:
            flags.append("-fno-gnu-unique")
        return flags

    def _folders(self) -> list[str]:
        return [f"-I{p}" for p in self.include_folders()]

    def objects(self) -> list[Object]:
        base = [*self.cxx.command, *BASE, *self._tuning("-O2")]
        made = [module_object([*self.cxx.command, *BASE, "-O1"], self.identity())]
        for name in RUNTIME:
            path = paths.TWIN / "runtime" / f"{name}.cpp"
            made.append(
                Object(
                    name=f"{name}.o",
                    source=path,
                    command=[*base, "-pthread", *self._folders(), "-c", str(path)],
                    headers=self.include_folders(),
                    identity=self.identity(),
                )
            )
        return made

    def text(self, unit: Unit) -> str:
        shown = str(unit.path).replace("\\", "\\\\").replace('"', '\\"')
        table = source.launchers(unit.kernels, unit.constants, self.name, unit.arch.name, shown)
        return f'#line 1 "{shown}"\n{unit.source.text}\n#line 1 "<kernel table>"\n{table}'

    def commands(self, unit: Unit, work: Path, objects: list[Path]) -> list[list[str]]:
        path = work / "unit.cpp"
        path.write_text(self.text(unit), "utf-8")
        return [
            [
                *self.cxx.command,
                *self.flags(unit),
                "-Wall",
                "-fdiagnostics-color=never",
                "-iquote",
                str(unit.path.parent),
                *self._folders(),
                "-MMD",
                "-MF",
                str(work / "unit.d"),
                "-shared",
                "-pthread",
                *_linker(),
                "-o",
                str(work / MODULE),
                str(path),
                *map(str, objects),
            ]
        ]


def _linker() -> list[str]:
    # Linking takes longer than compiling with the default linker; where a faster one is installed
    # it is used.
    fast = next((name for name in ("mold", "gold") if shutil.which(f"ld.{name}")), None)
    return ["-Wl,-z,now", "-Wl,--strip-debug", *([f"-fuse-ld={fast}"] if fast else [])]
