"""Whole programs: an `.asc` file with `main`, the acl host API and `kernel<<<…>>>(…)`, compiled for
the twin and run in a process of its own."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from workbench import paths
from workbench._result import Result
from workbench.build import arch as archs
from workbench.build import cache, compiler, includes, source, steps
from workbench.build.launch import check_names
from workbench.build.toolchain import Unit
from workbench.build.twin import TwinToolchain
from workbench.errors import BuildError, CacheError, ConfigError, InputError

PROGRAM = "program"  # the executable's name in its entry of the cache
GRACE = 1.0  # seconds between SIGTERM and SIGKILL
DRAIN = 1.0  # seconds to wait for output that a process of the program's keeps open
OUTPUT_LIMIT = 16 * 2**20  # bytes of stdout and of stderr that are kept
TIMED_OUT, FAULTED, SIGNALLED = 124, 1, 128  # exit codes of `workbench run`
_NO_MAIN = re.compile(r"undefined (?:reference to|symbol:) [`']?main\b")


@dataclass(frozen=True)
class Program:
    """A compiled program in the build cache."""

    source: Path
    arch: str
    defines: dict[str, str]
    path: Path
    cached: bool
    seconds: float
    log: str


@dataclass
class ProgramRun(Result):
    """What came of a program.

    Attributes:
        exit_code: The program's own status; None if a signal ended it.
        signal: Number of the signal that ended it, or None.
        timed_out: Whether it was stopped at the time limit.
        stdout: What it printed (empty where it went straight through), as `stderr`.
        faults: One dict each, in the order they were found: `kind` ("mem", "init", "race", "sync"),
            `code`, `file`, `line`, `block`, `instruction`, `tensor`, `message`, `mend`, `device`.
        counters: Totals over all launches, and `lines`, the same per source line.
        seconds: How long it ran.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stdout: str
    stderr: str
    faults: list[dict[str, Any]]
    counters: dict[str, Any]
    seconds: float
    arch: str
    checks: list[str]
    defines: dict[str, str] = field(default_factory=dict)
    cached: bool = False
    build_seconds: float = 0.0

    @property
    def status(self) -> int:
        """What `workbench run` exits with."""
        if self.timed_out:
            return TIMED_OUT
        if self.faults:
            return FAULTED
        return SIGNALLED + self.signal if self.signal else self.exit_code or 0

    def __str__(self) -> str:
        """Faults and how it ended, where that was not well; else empty."""
        lines = [line for fault in self.faults for line in _shown(fault)]
        if self.timed_out:
            lines.append(f"stopped at the time limit, after {self.seconds:.1f} s")
        elif self.signal:
            lines.append(f"ended by signal {self.signal} ({_signal_name(self.signal)})")
        return "\n".join(lines)

    def checked(self) -> str:
        """Of a run without faults: what was watched, and what was counted."""
        if "launches" not in self.counters:
            return "no fault was reported, but the program ended before its checks could report"
        launches = self.counters["launches"]
        text = f"{len(self.faults)} faults; checked {', '.join(self.checks)} in {launches} "
        text += "launch" if launches == 1 else "launches"
        if not self.counters.get("lines"):
            return text
        return text + (
            f"; counted {self.counters['vector_instructions']:,} vector instructions, "
            f"{self.counters['gm_to_ub_bytes']:,} bytes from GM to UB, "
            f"{self.counters['ub_to_gm_bytes']:,} back"
        )


def _shown(fault: dict[str, Any]) -> list[str]:
    place = f"{fault['file']}:{fault['line']}: " if fault.get("line") else ""
    block = f" in block {fault['block']}" if fault.get("block") is not None else ""
    lines = [f"{place}{fault['kind']} fault ({fault['code']}){block}: {fault['message']}"]
    if place:
        lines += filter(None, [compiler.source_line(fault["file"], fault["line"])])
    for name, text in (("tensor", "operand"), ("mend", "to mend it"), ("device", "a device says")):
        if fault.get(name):
            lines.append(f"       {text}: {fault[name]}")
    return lines


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


# ---- compiling -----------------------------------------------------------------------------------


def compile_program(
    path: str | os.PathLike[str],
    arch: str = "dav-2201",
    defines: dict[str, Any] | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    toolchain: TwinToolchain | None = None,
) -> Program:
    """Compile a whole program, or take it from the build cache.

    Args:
        path: The file with `main`. Headers of the user's own that it includes may launch kernels
            too.
        arch: Architecture, for example "dav-2201".
        defines: Macros, {"NAME": value}.
        include_dirs: More folders for `#include`.
        toolchain: Instead of the twin's own (tests).

    Raises:
        InputError: There is no such file or folder.
        BuildError: The compiler refused it; the message has file, line and source line.
        MissingError: There is no C++ compiler.
    """
    started = time.perf_counter()
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        raise InputError(f"There is no file {path}.")
    folders = [Path(p).expanduser().absolute() for p in include_dirs]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"-I {folder}: there is no such folder")
    try:
        data = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as e:
        raise ConfigError(f"cannot read {file}: {e.strerror}") from None
    chain = toolchain or TwinToolchain()
    macros = steps.check_defines(defines or {})
    # No launcher is made for a program, so its kernels' signatures are not read.
    text = source.Source(_rewritten(file, data), (), True)
    unit = Unit(file, data, text, (), archs.load(arch), macros, [])
    scanned = includes.scan(data, file.parent, [file.parent], [paths.TWIN / "include", *folders])
    headers = _rewritten_headers(scanned)
    key = _key(unit, chain, scanned, headers, folders)
    with steps.turn(key):
        for attempt in range(steps.ATTEMPTS):
            with steps.again_if_vanished(attempt):
                entry = cache.get(key)
                if entry is not None and not steps.still_true(entry.meta):
                    cache.discard(key)
                    entry = None
                cached = entry is not None
                if entry is None:
                    entry = _compile(key, unit, chain, scanned, headers, folders)
                return Program(
                    *(file, arch, macros, entry.path(PROGRAM), cached),
                    *(time.perf_counter() - started, entry.meta["log"]),
                )
    raise AssertionError("not reached: the last attempt returns or raises")


def _rewritten_headers(scanned: includes.Includes) -> dict[Path, str]:
    """The user's headers, as `_rewritten`, if one of them launches a kernel; else none, and the
    compiler reads them where they are. (All or none: they include each other.)"""
    found = {}
    for name in steps.user_headers(scanned):
        found[Path(name)] = Path(name).read_bytes().removeprefix(codecs.BOM_UTF8)
    if not any(b"<<<" in data for data in found.values()):
        return {}
    return {path: _rewritten(path, data) for path, data in found.items()}


def _rewritten(file: Path, data: bytes) -> str:
    """A file's text as the compiler sees it: the launch syntax replaced, the lines kept."""
    text = data.decode("utf-8", errors="surrogateescape")
    try:
        launches = source.rewrite_launches(text, source.blank(text)) if "<<<" in text else text
    except source.SourceError as e:
        line = compiler.source_line(str(file), e.line)
        raise BuildError(f"{file}:{e.line}: {e}\n{line}", file=str(file), line=e.line) from None
    shown = str(file).replace("\\", "\\\\").replace('"', '\\"')
    return f'#line 1 "{shown}"\n{launches}'


def _key(
    unit: Unit,
    chain: TwinToolchain,
    scanned: includes.Includes,
    headers: dict[Path, str],
    folders: list[Path],
) -> str:
    runtime = sorted((paths.TWIN / "runtime").iterdir())
    material = {
        "format": steps.FORMAT,
        "what": PROGRAM,
        "arch": unit.arch.name,
        "path": str(unit.path),
        "source": includes.digest(_bytes(unit.source.text)),
        "includes": sorted(scanned.files.items()),
        "headers": [[str(p), includes.digest(_bytes(t))] for p, t in sorted(headers.items())],
        "folders": [str(p) for p in folders],
        "shared": [includes.digest(p.read_bytes()) for p in runtime if p.is_file()],
        "defines": sorted(unit.defines.items()),
        "flags": chain.flags(unit),
        "toolchain": chain.identity(),
    }
    return includes.digest(json.dumps(material, sort_keys=True).encode())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogateescape")


def _mirrored(root: Path, path: Path) -> Path:
    """Where `path` lies in the copy of the folders below `root`."""
    return root.joinpath(*path.parts[1:])


def _mirror(root: Path, texts: dict[Path, str]) -> None:
    """Write rewritten files below `root` in the folders they come from, so that they find each
    other by the same relative names; what is not there is then found in its own place."""
    for path, text in texts.items():
        place = _mirrored(root, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(_bytes(text))
    # `#include "a/../b.h"` needs the folder a, also where no file in it was rewritten.
    for path, text in texts.items():
        for name, _ in includes.names_in(_bytes(text))[0]:
            if ".." in name.split("/"):
                step = path.parent
                for part in name.split("/")[:-1]:
                    step = step / part
                    if step.is_dir():
                        with contextlib.suppress(OSError):
                            _mirrored(root, Path(os.path.normpath(step))).mkdir(
                                parents=True, exist_ok=True
                            )


def _compile(
    key: str,
    unit: Unit,
    chain: TwinToolchain,
    scanned: includes.Includes,
    headers: dict[Path, str],
    folders: list[Path],
) -> cache.Entry:
    with cache.workspace() as work:
        objects = steps.all_held(chain.program_objects(), work)
        root = work / "source"
        _mirror(root, {**headers, unit.path: unit.source.text})
        main = _mirrored(root, unit.path)
        beside = [main.parent, unit.path.parent]
        flags = [
            *chain.flags(unit),
            *(word for folder in beside for word in ("-iquote", str(folder))),
            f"-I{paths.TWIN / 'include'}",
            *(f"-I{p}" for folder in folders for p in (_mirrored(root, folder), folder)),
            *("-x", "c++"),
        ]
        command = chain.program_command(flags, main, work / PROGRAM, work / "unit.d")
        status, log = compiler.run([*command, "-x", "none", *map(str, objects)], work)
        if status != 0:
            raise _refused(unit, scanned, log, cache.write_log(key, log))
        if not (work / PROGRAM).is_file():
            raise BuildError(
                f"building {unit.path.name}: {chain.compiler_name} ended well but made no "
                "program; check the compiler",
                log=log,
                log_path=cache.write_log(key, log),
            )
        meta = {
            "what": unit.path.name,
            "source": str(unit.path),
            "arch": unit.arch.name,
            "backend": chain.name,
            "defines": unit.defines,
            "flags": chain.flags(unit),
            "compiler": chain.compiler_name,
            "log": log,
            "more_headers": steps.more_headers(work / "unit.d", scanned),
        }
        return cache.publish(key, work, [PROGRAM], meta)


def _refused(unit: Unit, scanned: includes.Includes, log: str, log_path: str | None) -> BuildError:
    """The BuildError for a program that the compiler or the linker refused."""
    steps.refuse_full_disk(log)
    mine = [str(unit.path), *steps.user_headers(scanned)]
    error = compiler.build_error(f"building {unit.path.name}", log, mine, log_path)
    if error.line is None and _NO_MAIN.search(log):
        return BuildError(
            f"{unit.path} has no `int main()`: `workbench run` wants a whole program, with the "
            "host code that launches its kernels. `workbench build` builds kernels alone",
            file=str(unit.path),
            log=log,
            log_path=log_path,
        )
    opened = source.never_closed(unit.data.decode(errors="replace")) if error.line is None else None
    if opened:
        return compiler.placed(error, unit.path, opened, "this '{' is never closed")
    return error


# ---- running -------------------------------------------------------------------------------------


def run_program(
    program: Program,
    args: Sequence[str] = (),
    *,
    checks: Iterable[str] = (),
    cwd: str | os.PathLike[str] | None = None,
    timeout: float = 60.0,
    counters: bool = True,
    capture: bool = True,
) -> ProgramRun:
    """Run a compiled program in a process group of its own, and wait for it.

    Args:
        program: What `compile_program` returned.
        args: Its arguments.
        checks: Families of checks: mem, init, race, sync.
        cwd: Its working folder; None: this process's.
        timeout: Seconds after which the whole process group is ended.
        counters: Whether instructions are counted (which costs time).
        capture: Whether what it prints is kept; else it goes to this process's stdout and stderr.

    Raises:
        InputError: `cwd` is no folder.
        CacheError: Nothing can be run from the build cache's disk.
        Vanished: Another process has removed the program from the cache.
    """
    if cwd is not None and not Path(cwd).is_dir():
        raise InputError(f"--cwd {cwd}: there is no such folder")
    wanted = check_names(checks)
    with tempfile.TemporaryDirectory(prefix="workbench-run-") as folder:
        report = Path(folder) / "report"
        env = {k: v for k, v in os.environ.items() if not k.startswith("WORKBENCH_RUN_")}
        env["WORKBENCH_RUN_REPORT"] = str(report)
        env["WORKBENCH_RUN_CHECK"] = ",".join([*wanted, *(["count"] if counters else [])])
        if "WORKBENCH_RUN_THREADS" in os.environ:
            env["WORKBENCH_RUN_THREADS"] = os.environ["WORKBENCH_RUN_THREADS"]
        pipe = subprocess.PIPE if capture else None
        started = time.perf_counter()
        process = None
        try:
            with _interrupt_later():
                # Its own session: a signal reaches all of its processes and none of ours.
                process = subprocess.Popen(
                    [program.source.stem, *args],
                    executable=str(program.path),
                    cwd=cwd,
                    env=env,
                    stdout=pipe,
                    stderr=pipe,
                    start_new_session=True,
                )
            out, err, timed_out = _wait(process, timeout)
        except FileNotFoundError as e:
            raise cache.Vanished(f"{program.path} was removed from the build cache") from e
        except PermissionError as e:
            raise CacheError(
                f"{program.path} cannot be run: {e.strerror}. Point WORKBENCH_CACHE at a folder "
                "whose disk is mounted without noexec"
            ) from e
        finally:
            if process is not None:
                _end(process)
        seconds = time.perf_counter() - started
        faults, counted = _read_report(report)
    code = process.returncode
    return ProgramRun(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        timed_out=timed_out,
        stdout=out,
        stderr=err,
        faults=faults,
        counters=counted,
        seconds=seconds,
        arch=program.arch,
        checks=wanted,
        defines=program.defines,
        cached=program.cached,
        build_seconds=program.seconds,
    )


def run_file(
    path: str | os.PathLike[str],
    args: Sequence[str] = (),
    *,
    arch: str = "dav-2201",
    defines: dict[str, Any] | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] = (),
    **how: Any,
) -> ProgramRun:
    """Compile a whole program (or take it from the cache) and run it.

    Args:
        path, arch, defines, include_dirs: As `compile_program` takes them.
        args, how: As `run_program` takes them.

    Example:
        >>> path = Path(tempfile.mkdtemp(), "seven.asc")
        >>> _ = path.write_text("int main(int argc, char **) { return 5 + argc; }")
        >>> run_file(path, ["an argument"], checks=["mem"], timeout=10).exit_code
        7
    """
    for attempt in range(steps.ATTEMPTS):
        program = compile_program(path, arch, defines, include_dirs)
        with steps.again_if_vanished(attempt):
            return run_program(program, args, **how)
    raise AssertionError("not reached: the last attempt returns or raises")


@contextlib.contextmanager
def _interrupt_later() -> Iterator[None]:
    """Ctrl-C takes effect at the end of the block: a process that is being started is then known,
    and can be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


class _Kept:
    """What came through a pipe, up to OUTPUT_LIMIT bytes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.dropped = 0

    def take(self, data: bytes) -> None:
        room = OUTPUT_LIMIT - len(self.data)
        self.data += data[:room]
        self.dropped += max(0, len(data) - room)

    @property
    def text(self) -> str:
        rest = f"\n[{self.dropped} more bytes are left out]\n" if self.dropped else ""
        return self.data.decode("utf-8", errors="replace") + rest


def _wait(process: subprocess.Popen, timeout: float) -> tuple[str, str, bool]:
    """(stdout, stderr, whether the time limit ended it): waits for the program itself, not for
    what it may have left in the background."""
    kept = {"out": _Kept(), "err": _Kept()}
    deadline = time.monotonic() + timeout
    timed_out = False
    with selectors.DefaultSelector() as pipes:
        for name, pipe in (("out", process.stdout), ("err", process.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                pipes.register(pipe, selectors.EVENT_READ, name)
        pause = 0.001
        while process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                timed_out = True
                _end(process)
                break
            pause = min(2 * pause, 0.02)  # also how late its end may be noticed
            if pipes.get_map():
                _read(pipes, kept, min(left, pause))
            else:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, pause))
        _end(process)  # its background processes, which may hold the pipes open
        end = time.monotonic() + DRAIN
        while pipes.get_map() and time.monotonic() < end:
            _read(pipes, kept, 0.02)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    return kept["out"].text, kept["err"].text, timed_out


def _read(pipes: selectors.BaseSelector, kept: dict[str, _Kept], timeout: float) -> None:
    for key, _ in pipes.select(timeout):
        pipe: IO[bytes] = key.fileobj  # type: ignore[assignment]
        data = os.read(pipe.fileno(), 2**16)
        if data:
            kept[key.data].take(data)
        else:
            pipes.unregister(pipe)


def _end(process: subprocess.Popen) -> None:
    """End the whole process group: politely while the program itself lives, then by force."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_report(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(faults, counters) of the report that the program has written, however it ended."""
    faults: list[dict[str, Any]] = []
    totals: dict[str, Any] = {}
    lines: list[dict[str, Any]] = []
    try:
        text = path.read_text("utf-8", errors="replace")
    except FileNotFoundError:  # it did not come as far as its own start
        text = ""
    for row in text.split("\n"):
        try:
            found = json.loads(row)
        except ValueError:  # empty, or cut off by the end of the program
            continue
        if "fault" in found:
            faults.append(found["fault"])
        elif "line" in found:
            lines.append(found["line"])
        else:
            totals.update(found.get("counters", {}))
    return faults, {**totals, "lines": lines}
