"""What a toolchain is: how a kernel file becomes a `_C_npu` module on one backend.

Both toolchains make the same three parts: a unit made of the user's `.asc` and the generated kernel
table, the pybind11 object (`npu_module.cpp`, cached), and what else the backend links.
"""

from __future__ import annotations

import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from workbench import paths
from workbench.build import includes
from workbench.build.arch import Arch
from workbench.build.source import KernelDecl, Source

MODULE = "_C_npu.so"


@dataclass(frozen=True)
class Unit:
    """One kernel file to be built: where it lies, what is in it, and the macros it is built with.

    `kernels` are those the module can launch (the twin compiles no other), `constants` the macros
    whose values go into the module's table of constants.
    """

    path: Path
    data: bytes
    source: Source
    kernels: tuple[KernelDecl, ...]
    arch: Arch
    defines: dict[str, str]
    constants: list[str]

    @property
    def define_flags(self) -> list[str]:
        return [f"-D{k}={v}" if v != "" else f"-D{k}" for k, v in self.defines.items()]


@dataclass(frozen=True)
class Object:
    """An object file that is built once and linked into every variant."""

    name: str
    source: Path
    command: list[str]
    headers: list[Path]
    identity: Any

    def key_material(self) -> dict[str, Any]:
        text, mark = includes.contents(str(self.source))
        found = includes.scan(text, self.source.parent, [], self.headers)
        return {
            "object": self.name,
            "source": mark,
            "includes": sorted(found.files.values()),
            "command": self.command,
            "identity": self.identity,
        }


class Toolchain(Protocol):
    """`twin.TwinToolchain` and `cann.CannToolchain`."""

    name: str

    @property
    def compiler_name(self) -> str: ...

    @property
    def environment(self) -> dict[str, str]:
        """Variables that its commands need besides the caller's."""
        ...

    def identity(self) -> dict[str, Any]:
        """What, besides the unit, decides the binary: compiler, flags, CPU."""
        ...

    def include_folders(self) -> list[Path]:
        """Folders an `.asc` includes from, ours only."""
        ...

    def flags(self, unit: Unit) -> list[str]:
        """The flags a variant's record shows."""
        ...

    def objects(self, unit: Unit | None = None) -> list[Object]:
        """What is compiled once and goes into every variant (None: into a variant of any unit)."""
        ...

    def text(self, unit: Unit) -> str:
        """The text of the generated unit."""
        ...

    def commands(self, unit: Unit, work: Path, objects: list[Path]) -> list[list[str]]:
        """Commands that turn `work/unit.*` into `work/_C_npu.so`."""
        ...


def python_identity() -> dict[str, str]:
    """What the pybind11 object depends on: the interpreter's ABI and pybind11's version."""
    import pybind11

    return {"soabi": str(sysconfig.get_config_var("SOABI")), "pybind11": pybind11.__version__}


def python_include_flags() -> list[str]:
    import pybind11

    return [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_path('include')}"]


def module_object(command: list[str], identity: Any) -> Object:
    """The pybind11 part of every module, compiled by `command` (a C++17 compiler with its
    flags)."""
    source = paths.ASCEND / "npu_module.cpp"
    return Object(
        name="npu_module.o",
        source=source,
        command=[*command, *python_include_flags(), f"-I{paths.ASCEND}", "-c", str(source)],
        headers=[paths.ASCEND],
        identity=[identity, python_identity()],
    )
