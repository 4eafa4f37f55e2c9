"""Running a C++ compiler: which one, what identifies it, and its messages in the user's terms."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.build import cancelling
from workbench.errors import BuildError, Cancelled, MissingError

TIMEOUT = 600  # seconds for one compiler run
_LOOK = 0.02  # seconds between two looks at whether a run is still wanted

# Variables that make a compiler read other files than its command line says.
_HIDDEN_INPUTS = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "LIBRARY_PATH",
    "LD_RUN_PATH",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "CCC_OVERRIDE_OPTIONS",
)


@dataclass(frozen=True)
class Compiler:
    """A compiler command. `command` may have several words ("ccache g++"); `path` is the last
    program's."""

    command: tuple[str, ...]
    path: str

    @property
    def identity(self) -> tuple[tuple[str, int, int], ...]:
        """(real path, size, mtime) of each program in the command: known without running it."""
        marks = []
        for word in self.command:
            found = shutil.which(word)
            if found:
                info = os.stat(found)
                marks.append((os.path.realpath(found), info.st_size, info.st_mtime_ns))
            else:
                marks.append((word, 0, 0))
        return tuple(marks)

    @property
    def is_clang(self) -> bool:
        """Whether it takes clang's flags, told from its name or the name of what it links to."""
        return any("clang" in Path(p).name for p in (self.path, os.path.realpath(self.path)))

    @property
    def machine(self) -> str:
        """The machine it compiles for: that of a cross compiler's name, else this one."""
        named = re.fullmatch(r"(x86_64|aarch64|riscv64)-.*", Path(self.path).name)
        return named[1] if named else platform.machine()

    @property
    def version(self) -> str:
        """First line of `--version` (runs the compiler once per identity)."""
        return _version(self.command, self.identity)


@functools.cache
def _version(command: tuple[str, ...], identity: tuple) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"unknown ({e})"
    return (done.stdout or done.stderr).strip().split("\n")[0]


def find_cxx() -> Compiler:
    """The twin's compiler: $CXX, else g++, else clang++, else c++.

    Raises:
        MissingError: There is none, or $CXX names one that does not exist.
    """
    given = os.environ.get("CXX", "").strip()
    if given:
        try:
            words = [os.path.abspath(w) if w.startswith(".") else w for w in shlex.split(given)]
        except ValueError as e:
            raise MissingError(f"CXX={given!r} cannot be read as a command: {e}") from None
        missing = next((w for w in words if not w.startswith("-") and not shutil.which(w)), None)
        if missing is None:
            program = next((w for w in reversed(words) if not w.startswith("-")), words[0])
            return Compiler(tuple(words), shutil.which(program) or program)
        raise MissingError(
            f"CXX={given!r}: {missing} is not on PATH. Set CXX to a C++17 compiler, or unset "
            "it to use g++"
        )
    for name in ("g++", "clang++", "c++"):
        found = shutil.which(name)
        if found:
            return Compiler((name,), found)
    raise MissingError(
        "no C++ compiler found (looked for $CXX, g++, clang++, c++). Install one, for example "
        "`apt-get install g++` or `dnf install gcc-c++`"
    )


@functools.cache
def cpu_identity() -> str:
    """What `-march=native` depends on: the machine and the CPU's features, as a short digest."""
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")
    try:
        text = Path("/proc/cpuinfo").read_text()
        first = text.split("\n\n", 1)[0]
        lines = [x for x in first.split("\n") if x.split("\t")[0].strip(" :") in wanted]
    except OSError:
        lines = [platform.processor()]
    raw = "\n".join([platform.machine(), *lines])
    return platform.machine() + "-" + hashlib.blake2b(raw.encode(), digest_size=8).hexdigest()


def run(
    command: Sequence[str], cwd: Path, more: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a compiler in `cwd`; returns (exit status, what it printed).

    The environment is the caller's without the variables that add hidden include or library
    folders, and with the variables `more`.

    Raises:
        Cancelled: It was not wanted any more (`cancelling`); its processes are gone.
    """
    wish = cancelling.current()
    cancelling.check()
    env = {k: v for k, v in os.environ.items() if k not in _HIDDEN_INPUTS}
    env.update({"LC_ALL": "C", "TMPDIR": str(cwd), **(more or {})})
    how: dict[str, Any] = {
        "cwd": cwd,
        "env": env,
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }
    try:
        if wish is None:
            done = subprocess.run(list(command), timeout=TIMEOUT, check=False, **how)
        else:
            done = _run_while_wanted(list(command), wish, how)
    except FileNotFoundError as e:
        raise MissingError(f"cannot run {command[0]}: {e.strerror}") from e
    except subprocess.TimeoutExpired as e:
        text = (e.stdout or b"").decode(errors="replace")
        return 124, text + f"\nstopped after {TIMEOUT} seconds"
    return done.returncode, done.stdout.decode(errors="replace")


def _run_while_wanted(
    command: list[str], wish: cancelling.Cancel, how: dict[str, Any]
) -> subprocess.CompletedProcess[bytes]:
    """`subprocess.run` that ends the compiler when it is not wanted any more.

    In a session of its own: a compiler starts others (cc1plus, as, ld), and all have to go.
    """
    end = time.monotonic() + TIMEOUT
    with subprocess.Popen(command, start_new_session=True, **how) as process:
        try:
            while True:
                try:
                    said, _ = process.communicate(timeout=_LOOK)
                    return subprocess.CompletedProcess(command, process.returncode, said)
                except subprocess.TimeoutExpired as e:
                    if wish.cancelled:
                        raise Cancelled(f"{Path(command[0]).name} was stopped") from None
                    if time.monotonic() > end:
                        raise subprocess.TimeoutExpired(command, TIMEOUT, e.output) from None
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


_ERROR = re.compile(
    r"^(?:(?P<file>[^\s:].*?):(?P<line>\d+):(?:\d+:)?|<command-line>:) (?:fatal )?error: "
    r"(?P<text>.*)$"
)
_MACRO = re.compile(r"^(?P<file>[^\s:].*?):(?P<line>\d+):(?:\d+:)? note: in expansion of macro")
_CONTEXT = re.compile(
    r"^(?P<file>[^\s:].*?):(?P<line>\d+):(?:\d+:)?\s+"
    r"(?:required from|note: in instantiation|in .constexpr. expansion)"
)


# Where gcc begins to say which instantiations lead to the next error.
_STACK = re.compile(r"^[^\s:].*?: In (?:instantiation|substitution) of ")
_CANDIDATE = re.compile(r"note: candidate: '.*?(?P<name>[\w:]+)\((?P<arguments>.*)\)'")
_MOST_FORMS = 3


def build_error(
    what: str, output: str, user_files: Iterable[str], log_path: str | None
) -> BuildError:
    """The BuildError for a failed compilation: the first error, at the user's own line.

    An error inside a header of ours is placed at the line of the user's file that led there.
    """
    text, place = _first_error(output, {os.path.normpath(f) for f in user_files})
    if text is None:
        tail = "\n".join(output.strip().split("\n")[-12:])
        message = f"{what} failed:\n{tail}"
    elif place is None:
        message = f"{what} failed: {text}"
    else:
        message = f"{place[0]}:{place[1]}: {text}\n{source_line(*place)}"
        message += "".join(f"\n       there is: {form}" for form in _forms(text, output))
        if text.endswith(": No such file or directory"):
            message += "\n       its own folder and those of -I (include_dirs=) are searched"
    if log_path:
        message += f"\n(the compiler's full output: {log_path})"
    return BuildError(
        message,
        file=place[0] if place else None,
        line=place[1] if place else None,
        log=output,
        log_path=log_path,
    )


def placed(error: BuildError, file: Path, line: int, text: str) -> BuildError:
    """The same failure at a place that the compiler did not name."""
    return BuildError(
        f"{file}:{line}: {text}\n{source_line(str(file), line)}\n{error}",
        file=str(file),
        line=line,
        log=error.log,
        log_path=error.log_path,
    )


# What a compiler puts around a sentence of our headers: a failed static_assert (gcc, clang), a
# function or class that is marked unavailable.
_AROUND = re.compile(
    r"""^(?:static assertion failed:\ |static_assert\ failed(?:\ due\ to\ requirement\ '.*')?\ "
    |static\ assertion\ failed(?:\ due\ to\ requirement\ '.*')?:\ |'.*'\ is\ unavailable:\ )
    (?P<text>.*docs/twin\.md.*?)"?$""",
    re.VERBOSE,
)


def _sentence(text: str) -> str:
    """The sentence of ours in an error message; any other message as it is."""
    ours = _AROUND.match(text)
    return ours["text"] if ours else text


def _forms(text: str, output: str) -> list[str]:
    """The forms of a function that a call fits none of, as its documentation writes them: those of
    ours (gcc lists them), of most nearly as many arguments first."""
    call = re.match(r"no matching (?:member )?function for call to '.*?\((?P<given>.*)\)'$", text)
    if not call:
        return []
    given = len(_split(call["given"]))
    forms: dict[str, int] = {}
    for line in output.split("\n"):
        found = _CANDIDATE.search(line)
        if found and "twin::Where" in found["arguments"]:
            arguments = [a for a in _split(found["arguments"]) if a != "twin::Where"]
            shown = f"{found['name']}({', '.join(arguments)})".replace("AscendC::", "")
            forms.setdefault(shown, abs(len(arguments) - given))
    return sorted(forms, key=forms.__getitem__)[:_MOST_FORMS]


def _split(arguments: str) -> list[str]:
    """ "A<B, C>, D" -> ["A<B, C>", "D"]."""
    parts, depth = [""], 0
    for c in arguments:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


def _first_error(output: str, mine: set[str]) -> tuple[str | None, tuple[str, int] | None]:
    """(text of the first error, the user's file and line it belongs to); None: not there."""
    text: str | None = None
    place: tuple[str, int] | None = None
    context: tuple[str, int] | None = None
    where = ""
    for line in output.split("\n"):
        if text is None and _STACK.match(line):
            context = None
        # gcc names the user's line after the error where a macro of ours expands to what is wrong.
        step = _CONTEXT.match(line) or (_MACRO.match(line) if text is not None else None)
        error = _ERROR.match(line)
        if step and os.path.normpath(step["file"]) in mine:
            # The innermost line of the user's, of all that lead from `main` to the error.
            if text is not None or context is None:
                context = (os.path.normpath(step["file"]), int(step["line"]))
            if text is not None and place is None:
                place = context  # clang names the user's line after the error
        elif error and text is None:
            file = os.path.normpath(error["file"] or "<command-line>")  # a macro of -D
            text = _sentence(error["text"])
            where = f"{file}:{error['line'] or 0}"
            place = (file, int(error["line"])) if file in mine else context  # gcc: before it
        elif error:
            break
    if text is not None and place is None:
        text += f" ({where})"  # in a header of ours, and nothing says which line led there
    return text, place


def source_line(file: str, line: int) -> str:
    try:
        text = Path(file).read_text("utf-8", errors="replace").split("\n")[line - 1]
    except (OSError, IndexError):
        return ""
    return f"{line:6d} | {text.rstrip()}"
