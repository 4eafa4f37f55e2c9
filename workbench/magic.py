"""`%%ascendc NAME`: a notebook cell is an Ascend C file, and NAME the kernel built from it.

    %load_ext workbench

    %%ascendc scale -D N=256 --check all
    #include "kernel_operator.h"
    extern "C" __global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y) { … }

The file lies in the build cache under a digest of its text, so that a kernel built from a cell
keeps its source after the cell was changed, and an unchanged cell is not compiled again. Its lines
have the numbers that the notebook shows beside the cell, where the `%%ascendc` line counts too.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import keyword
import os
import re
import shlex
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from workbench.build import builder, cache, includes
from workbench.build.compiler import source_line
from workbench.build.config import DEFAULT_ARCH, KernelConfig
from workbench.build.kernel import Kernel
from workbench.build.launch import check_names
from workbench.errors import BuildError, InputError, TwinFault, WorkbenchError

_SHOWN_WARNINGS = 10
_EXAMPLE = "for example: %%ascendc scale -D N=256 --arch dav-2201 --check all"
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Cell:
    """A cell as a file.

    Attributes:
        name: What the kernel is bound to.
        body: What stands below the `%%ascendc` line.
        text: The file: the body, its lines at the numbers that they have in the notebook.
        path: Where the file is.
    """

    name: str
    body: str
    text: str
    path: Path

    @classmethod
    def of(cls, name: str, body: str, lead: int) -> Cell:
        """`lead` lines of the cell stand above its body; they are empty in the file."""
        text = "\n" * lead + body
        digest = includes.digest(text.encode())[:16]
        folder = cache.root() / cache.LAYOUT / "cells" / digest
        return cls(name, body, text, folder / f"{name}.asc")

    def written(self) -> Path:
        """The file, written if it is not there or not as it should be."""
        path, data = self.path, self.text.encode()
        with contextlib.suppress(OSError):
            if path.read_bytes() == data:
                return path
        with cache.workspace() as work:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = work / path.name
            new.write_bytes(data)
            os.replace(new, path)
        return path

    def words(self, text: str) -> str:
        """A message in which this file's lines are lines of the cell."""
        at = re.compile(rf"{re.escape(str(self.path))}:(\d+)(?::\d+)?")
        return at.sub(rf"{self.name}, line \1 of the cell", text)


class CellKernel(Kernel):
    """A kernel whose source is a cell. All of `Kernel`, and faults that name the cell's line.

    Attributes:
        cell: The cell's text.
        check: What a launch is checked for if it does not say: names among "mem", "init", "race",
            "sync" (twin only).
    """

    cell: Cell
    check: list[str]

    def __init__(
        self,
        made: Kernel,
        cell: Cell,
        check: list[str],
        anew: Callable[[Cell, KernelConfig], CellKernel],
    ) -> None:
        vars(self).update(vars(made))
        self.cell, self.check, self._anew = cell, check, anew

    def rebuild(self, *, arch: str | None = None, **constants: int) -> CellKernel:
        """As `Kernel.rebuild`, of the text that this kernel was built from."""
        changes = {**constants, **({"arch": arch} if arch else {})}
        return self._anew(self.cell, self.config.replace(**changes))

    def edited(self, old: str, new: str) -> CellKernel:
        """A kernel of the same cell with one piece of its text replaced, e.g. to see that a check
        catches a mistake. Lines keep their numbers unless `new` has other line breaks.

        Args:
            old: What stands exactly once below the `%%ascendc` line.
            new: What is to stand there.

        Raises:
            InputError: `old` does not stand there exactly once.
            BuildError: As `workbench.build`; `line` is the line in the cell.
        """
        count = self.cell.body.count(old)
        if count != 1:
            raise InputError(
                f"{old!r} stands {count} times in the cell of {self.cell.name}; give a piece of "
                "text that stands there once"
            )
        lead = len(self.cell.text) - len(self.cell.body)
        cell = Cell.of(self.cell.name, self.cell.body.replace(old, new), lead)
        return self._anew(cell, self.config)

    def launch(self, name: str, blocks: int, *args: Any, check: Any = None, **how: Any) -> None:
        """As `Kernel.launch`; `check=None` stands for the checks that the cell asked for.

        Raises:
            TwinFault: `line` is the line in the cell.
        """
        try:
            super().launch(name, blocks, *args, check=self.check if check is None else check, **how)
        except TwinFault as fault:
            raise self._told(fault) from None

    def function(self, fn: _Function) -> _Function:
        """Mark a Python function as this kernel's, so that results on it name backend, architecture
        and constants in their evidence. A decorator.

        Args:
            fn: A function that launches this kernel and returns what it wrote.
        """
        fn.info = self.info  # type: ignore[attr-defined]
        return fn

    def _told(self, fault: TwinFault) -> TwinFault:
        text = self.cell.words(str(fault))
        if fault.line is not None and fault.file == str(self.cell.path):
            text += f"\n{source_line(fault.file, fault.line)}"
        told = TwinFault(text)
        vars(told).update(vars(fault))
        told._render_traceback_ = lambda: _callers_lines(told)  # type: ignore[attr-defined]
        return told


def _callers_lines(error: BaseException) -> list[str]:
    """What a notebook shows of an error: the lines that led to us, without ours."""
    steps = []
    at = error.__traceback__
    while at is not None:
        steps.append(at)
        at = at.tb_next
    ours = str(Path(__file__).parent)
    while steps and steps[-1].tb_frame.f_code.co_filename.startswith(ours):
        steps.pop()
    kept: types.TracebackType | None = None
    for step in reversed(steps):
        kept = types.TracebackType(kept, step.tb_frame, step.tb_lasti, step.tb_lineno)
    shell: Any = get_ipython()
    return list(shell.InteractiveTB.structured_traceback(type(error), error, kept))


@magics_class
class AscendcMagics(Magics):
    """The cell magic `%%ascendc`."""

    @property
    def _shell(self) -> Any:
        return self.shell  # a Magics without one cannot be registered

    @magic_arguments()
    @argument("name", help="The variable that the kernel is bound to.")
    @argument(
        "-D", dest="defines", action="append", default=[], metavar="K=V",
        help="A build-time constant or macro; repeatable. Integers under upper-case names can be "
        "changed later: NAME.rebuild(k=…).",
    )  # fmt: skip
    @argument("--arch", default=DEFAULT_ARCH, help=f"Architecture (default {DEFAULT_ARCH}).")
    @argument("--backend", default="auto", help="twin, npu or auto (the default).")
    @argument(
        "--check", default=None, metavar="LIST",
        help="Check every launch on the twin: mem, init, race, sync, joined by commas, or all.",
    )  # fmt: skip
    @argument(
        "-I", dest="folders", action="append", default=[], metavar="DIR",
        help="A folder for #include besides the notebook's own; repeatable.",
    )  # fmt: skip
    @cell_magic
    def ascendc(self, line: str, cell: str) -> None:
        """Build the cell as an Ascend C file and bind the kernel to NAME."""
        try:
            asked = self.ascendc.parser.parse_args(shlex.split(line))
        except (UsageError, ValueError) as e:  # ValueError: a quote without its other half
            _plainly(InputError(f"{f'%%ascendc {line}'.rstrip()}: {e}; {_EXAMPLE}"))
        try:
            kernel = self._build(asked, cell)
        except WorkbenchError as e:
            if isinstance(self._shell.user_ns.get(asked.name), Kernel):
                e.args = (
                    f"{e}\n{asked.name} is still the kernel that was built before",
                    *e.args[1:],
                )
            _plainly(e)
        before = self._shell.user_ns.get(asked.name, getattr(builtins, asked.name, None))
        if before is not None and not isinstance(before, Kernel):
            print(
                f"{asked.name} was a {type(before).__name__} until now; from here on it is this "
                "kernel. Give the kernel another name if that was not meant",
                file=sys.stderr,
            )
        self._shell.push({asked.name: kernel})
        _tell(asked.name, kernel)

    def _build(self, asked: Any, text: str) -> CellKernel:
        name = asked.name
        if not name.isidentifier() or keyword.iskeyword(name) or len(name) > 60:
            raise InputError(
                f"%%ascendc {name}: the kernel is bound to a variable, and {name!r} cannot be the "
                "name of one; give a name such as scale"
            )
        if not text.strip():
            raise InputError(
                f"%%ascendc {name}: the cell is empty; write the kernel below that line, "
                '#include "kernel_operator.h" first'
            )
        constants, macros = _apart(asked.defines)
        checks = check_names(asked.check)
        folders = [Path.cwd(), *(Path(p).expanduser() for p in asked.folders)]
        if missing := [str(p) for p in folders if not p.is_dir()]:
            raise InputError(f"-I {', '.join(missing)}: there is no such folder")
        cell = Cell.of(name, text, self._lead())
        config = KernelConfig().replace(arch=asked.arch, **constants)
        return _made(cell, config, checks, asked.backend, macros, folders)

    def _lead(self) -> int:
        """Lines of the cell before its body: the magic's own, and empty ones above it, which
        IPython takes away before a magic sees the cell."""
        raw = (getattr(self._shell.history_manager, "input_hist_raw", None) or [""])[-1]
        above = raw[: len(raw) - len(raw.lstrip())].count("\n")
        return 1 + (above if raw.lstrip().startswith("%%ascendc") else 0)


def _made(
    cell: Cell,
    config: KernelConfig,
    checks: list[str],
    backend: str,
    macros: dict[str, str],
    folders: list[Path],
) -> CellKernel:
    try:
        made = builder.build(cell.written(), config, backend, macros, include_dirs=[*folders])
    except BuildError as e:
        told = BuildError(cell.words(str(e)))
        vars(told).update(vars(e))
        raise told from None
    if not made.kernels:
        raise InputError(
            f"%%ascendc {cell.name}: the cell has no kernel that can be launched; write a function "
            '`extern "C" __global__ __aicore__ void name(GM_ADDR x, …)`'
        )

    def anew(cell: Cell, config: KernelConfig) -> CellKernel:
        return _made(cell, config, checks, backend, macros, folders)

    return CellKernel(made, cell, checks, anew)


def _apart(defines: list[str]) -> tuple[dict[str, int], dict[str, str]]:
    """-D options as constants, which `rebuild` can change, and as other macros."""
    constants: dict[str, int] = {}
    macros: dict[str, str] = {}
    for pair in defines:
        name, equals, text = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise InputError(f"-D {pair}: wanted NAME=VALUE, for example -D N=256")
        if name in macros or name.lower() in constants:
            raise InputError(f"-D {name} is given twice")
        value: Any = None
        with contextlib.suppress(ValueError, SyntaxError):
            value = ast.literal_eval(text)
        plain = isinstance(value, int) and not isinstance(value, bool)
        if plain and name == name.upper() and name not in ("ARCH", "SWITCHES"):
            constants[name.lower()] = value
        else:
            macros[name] = text
    return constants, macros


def _plainly(error: WorkbenchError) -> NoReturn:
    """Raise an error that a notebook shows as its message alone: no line of ours is of use."""
    shown = f"{type(error).__name__}: {error}".split("\n")
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    raise error.with_traceback(None) from None


def _tell(name: str, kernel: CellKernel) -> None:
    info, cell = kernel.info, kernel.cell
    how = "from the cache" if info.cached else f"compiled in {info.seconds:.2f} s"
    print(f"{name}: {how}, for {info.arch} on {info.backend}")
    for entry, parameters in kernel.kernels.items():
        rest = "".join(f", {p}" for p, _, _ in parameters)
        print(f'  {name}.launch("{entry}", blocks{rest})')
    warning = re.compile(rf"^{re.escape(str(cell.path))}:(\d+):(?:\d+:)? (warning: .*)$", re.M)
    found = list(dict.fromkeys(warning.findall(info.log)))
    for at, text in found[:_SHOWN_WARNINGS]:
        print(f"{name}, line {at} of the cell: {text}", file=sys.stderr)
        print(source_line(str(cell.path), int(at)), file=sys.stderr)
    if len(found) > _SHOWN_WARNINGS:
        print(f"… and {len(found) - _SHOWN_WARNINGS} more warnings", file=sys.stderr)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext workbench`: registers `%%ascendc`."""
    shell.register_magics(AscendcMagics)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext workbench`: takes `%%ascendc` away; kernels that were built stay."""
    shell.magics_manager.magics["cell"].pop("ascendc", None)
