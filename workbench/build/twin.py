"""The twin's toolchain: the same `.asc` bytes compiled for the CPU by g++ or clang++ against
csrc/twin."""

from __future__ import annotations

import functools
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.build import api, compiler, source
from workbench.build.arch import Arch
from workbench.build.toolchain import MODULE, Object, Unit, module_object

# -ffp-contract=off: products and sums round separately. -fno-gnu-unique and hidden visibility:
# variants that live side by side in one process share no symbol.
BASE = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno"]
_SOURCES = sorted(p.stem for p in (paths.TWIN / "runtime").glob("*.cpp"))
HOST_API = tuple(name for name in _SOURCES if name.startswith("acl"))  # for whole programs
RUNTIME = tuple(name for name in _SOURCES if name not in HOST_API)


# Of a kernel. The arithmetic is in the runtime; more only costs time to rebuild: with -O1 an eighth
# more, for launches that are 0 to 6 hundredths faster.
_LEVEL = "-Og"
HEADER = "kernel_operator.h"
PARSED = ".gch"  # both compilers look for it where they are told to include the header


def _includes_us(unit: Unit) -> bool:
    """Whether the unit begins with our kernel_operator.h, not one of the user's own."""
    first = re.search(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)', unit.source.text, re.MULTILINE)
    ours = first is not None and first[1] == HEADER and not (unit.path.parent / HEADER).exists()
    return ours and not _has_high_level_name(unit.source.text)


@functools.lru_cache(maxsize=64)
def _has_high_level_name(text: str) -> bool:
    """Whether the file has a class or struct by the name of a high-level function, as in
    `class RmsNorm`."""
    own = re.findall(r"\b(?:class|struct)\s+(\w+)\s*[:{]", source.blank(text))
    known = {name for name, f in api.load().items() if f.group == "high-level"}
    return not known.isdisjoint(own)


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
    def environment(self) -> dict[str, str]:
        return {}

    @property
    def compiler_name(self) -> str:
        return f"{self.cxx.version} ({self.cxx.path})"

    def identity(self) -> dict[str, Any]:
        return self._identity

    @functools.cached_property
    def _identity(self) -> dict[str, Any]:
        return {
            "compiler": self.cxx.identity,
            "cpu": compiler.cpu_identity(),
            "flags": [*BASE, *self._tuning("-O2"), *self._linker],
        }

    def include_folders(self) -> list[Path]:
        return [paths.TWIN / "include", paths.ASCEND]

    def flags(self, unit: Unit) -> list[str]:
        return [
            *BASE,
            *self._tuning(_LEVEL),
            f"-DWB_TWIN_ARCH={unit.arch.number}",
            *(["-DTWIN_WITHOUT_HIGH_LEVEL"] if _has_high_level_name(unit.source.text) else []),
            *unit.define_flags,
        ]

    def _tuning(self, level: str) -> list[str]:
        # Without contraction the instruction set does not change a bit, so the CPU's own is used.
        flags = [level]
        if self.cxx.machine == platform.machine():
            flags.append("-mcpu=native" if self.cxx.machine == "aarch64" else "-march=native")
        if not self.cxx.is_clang:
            flags.append("-fno-gnu-unique")
        return flags

    @functools.cached_property
    def _linker(self) -> list[str]:
        # Linking takes longer than compiling with the default linker; where a faster one is
        # installed it is used.
        fast = next((name for name in ("mold", "gold") if shutil.which(f"ld.{name}")), None)
        return ["-Wl,-z,now", "-Wl,--strip-debug", *([f"-fuse-ld={fast}"] if fast else [])]

    def _folders(self) -> list[str]:
        return [f"-I{p}" for p in self.include_folders()]

    def objects(self, unit: Unit | None = None) -> list[Object]:
        made = [module_object([*self.cxx.command, *BASE, "-O1"], self.identity())]
        if unit is not None and _includes_us(unit):
            made.append(self.parsed_headers(unit.arch))
        # The kernels of a whole program are built for Python as well; its `main` comes along.
        whole = unit is not None and (unit.source.has_main or "acl" in unit.source.text)
        return [*made, *self._runtime((*RUNTIME, *HOST_API) if whole else RUNTIME)]

    def parsed_headers(self, on: Arch) -> Object:
        """kernel_operator.h, parsed once for this architecture: half of the time that a small
        kernel takes to compile."""
        path = paths.TWIN / "include" / HEADER
        arch = f"-DWB_TWIN_ARCH={on.number}"
        command = [*self.cxx.command, *BASE, *self._tuning(_LEVEL), arch, *self._folders()]
        return Object(
            name=f"{HEADER}{PARSED}",
            source=path,
            command=[*command, "-pthread", "-w", "-x", "c++-header", str(path)],
            headers=self.include_folders(),
            identity=self.identity(),
        )

    def program_objects(self) -> list[Object]:
        """What is linked into every whole program."""
        return self._runtime((*RUNTIME, *HOST_API))

    def program_command(self, flags: list[str], text: Path, out: Path, depfile: Path) -> list[str]:
        """The command that makes a program of `text`; the objects are to follow.

        Args:
            flags: What `flags` gives for the unit, and the folders of its headers.
        """
        return [
            *[*self.cxx.command, *flags, "-Wall", "-fdiagnostics-color=never"],
            *["-MMD", "-MF", str(depfile), "-pthread", *self._linker, "-o", str(out), str(text)],
        ]

    def _runtime(self, names: tuple[str, ...]) -> list[Object]:
        base = [*self.cxx.command, *BASE, *self._tuning("-O2")]
        identity = self.identity()
        made = []
        for name in names:
            path = paths.TWIN / "runtime" / f"{name}.cpp"
            made.append(
                Object(
                    name=f"{name}.o",
                    source=path,
                    command=[*base, "-pthread", *self._folders(), "-c", str(path)],
                    headers=self.include_folders(),
                    identity=identity,
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
        headers = [str(o.with_suffix("")) for o in objects if o.suffix == PARSED]
        parsed = [word for header in headers for word in ("-include", header)]
        for header in headers:  # what is read should a compiler find its own parsed one unfit
            Path(header).write_text(f'#include "{paths.TWIN / "include" / HEADER}"\n')
        return [
            [
                *self.cxx.command,
                *self.flags(unit),
                "-Wall",
                "-fdiagnostics-color=never",
                "-iquote",
                str(unit.path.parent),
                *self._folders(),
                *parsed,
                "-MMD",
                "-MF",
                str(work / "unit.d"),
                "-shared",
                "-pthread",
                *self._linker,
                "-o",
                str(work / MODULE),
                str(path),
                *(str(o) for o in objects if o.suffix != PARSED),
            ]
        ]
