"""What the commands share: their outcome, exit codes, and how arguments are read."""

from __future__ import annotations

import ast
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.types import FloatParamType, IntParamType

from workbench._result import Result
from workbench.errors import InputError

OK, FAILED, USAGE, MISSING, INTERRUPTED = 0, 1, 2, 3, 130
BACKENDS = click.Choice(["auto", "twin", "npu"])
WIDTH = 100  # of a printed line
DTYPES = ("fp32", "bf16", "fp16")  # of workbench.ops.inputs, which imports torch


# ---- numbers ------------------------------------------------------------------------------------


class _InWords(click.ParamType):
    """Of a number: an error says what was given and, in words, what is wanted. NaN is none."""

    kind = "a number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = super().convert(value, param, ctx)
        except (click.BadParameter, OverflowError):
            number = math.nan
        if math.isnan(number):
            self.fail(f"{str(value)!r}; want {self.wanted()}", param, ctx)
        return number

    def wanted(self) -> str:
        return self.kind


def _range(kind: str, of: Any) -> str:
    """One of click's ranges in words: `min` alone, or both ends, both of them open or neither."""
    if of.max is None:
        return f"{kind} over {of.min}" if of.min_open else f"{kind}, {of.min} or more"
    words = "between {} and {}" if of.min_open else "from {} to {}"
    return f"{kind} {words.format(of.min, of.max)}"


class Whole(_InWords, IntParamType):
    """A whole number; which ones, the library says."""

    kind = "a whole number"


class WholeRange(_InWords, click.IntRange):
    """A whole number, `min` or more, or from `min` to `max`."""

    name = "integer"

    def wanted(self) -> str:
        return _range("a whole number", self)


class Number(_InWords, FloatParamType):
    """A number; which ones, the library says."""


class NumberRange(_InWords, click.FloatRange):
    """A number, `min` or more, or over it where `min_open`; or between `min` and `max`."""

    name = "float"

    def wanted(self) -> str:
        return _range("a number", self)


class Seed(Whole):
    """A whole number of 64 bits. No range stands in the help: it would have 41 characters."""

    kind = "a whole number from -2^63 to 2^63 - 1"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not -(2**63) <= number < 2**63:
            self.fail(f"{str(value)!r}; want {self.wanted()}", param, ctx)
        return number


WHOLE, NUMBER, SEED = Whole(), Number(), Seed()
SIZE, INDEX = WholeRange(min=1), WholeRange(min=0)


# ---- what is printed ----------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a command found: for programs, for people, and as an exit code.

    Attributes:
        as_is: The text's long lines are not broken, on a terminal either.
    """

    data: dict[str, Any] | Result
    text: str
    code: int = OK
    as_is: bool = False


def progress(text: str) -> None:
    """A line on stderr, where a person is watching."""
    if is_terminal(sys.stderr):
        print(fit(text), file=sys.stderr, flush=True)


# What a person copies stays in one piece: names in backticks, commands, and `whole`.
_PIECE = re.compile(r"`[^`\n]+`|\b(?:pip|apt-get) install [^\s,;)]+")
_JOINT = "\0"


def whole(text: str) -> str:
    """`text`, a path or a command to be copied, so that `fit` does not break it at a space."""
    return text.replace(" ", _JOINT)


def shown(text: str, stream: Any) -> str:
    """`text` as `stream` shows it: broken for a terminal, as it is for files and other programs."""
    return fit(text) if is_terminal(stream) else text.replace(_JOINT, " ")


def is_terminal(stream: Any) -> bool:
    """Whether a person reads what is written there."""
    return bool(stream.isatty())


def fit(text: str, width: int = WIDTH) -> str:
    """`text` with the lines that are longer than `width` broken at spaces.

    What follows hangs below the last column of the line, where it has columns (two spaces between
    them), else below its first word. A path, a name in backticks or a command stays in one piece,
    however long.

    >>> print(fit("  T1  passed  a sentence of several words", 26))
      T1  passed  a sentence
                  of several
                  words
    >>> print(fit("workbench: /a/path/longer/than/that is no folder", 24))
    workbench:
        /a/path/longer/than/that
        is no folder
    """
    lines = [_fitted(line, width) for line in text.split("\n")]
    return "\n".join(lines).replace(_JOINT, " ")


def _fitted(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    columns = list(re.finditer(r"(?<=\S) {2,}(?=\S)", line[: 6 * width // 10]))
    indent = len(line) - len(line.lstrip())
    return textwrap.fill(
        _PIECE.sub(lambda piece: whole(piece[0]), line),
        width,
        subsequent_indent=" " * (columns[-1].end() if columns else indent + 4),
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        expand_tabs=False,
    )


def as_options(message: str, options: dict[str, click.Parameter]) -> str:
    """`message` with `--arch …` for `arch=…` and `--backend twin` for `backend='twin'`, where the
    command has such options: an error of the library names arguments of Python.

    Only names that are no constants of a kernel: `rows=2` may be one.

    >>> as_options("pass one as arch=…; token_value=9", {"--arch": None})
    'pass one as --arch …; token_value=9'
    """

    def option(found: re.Match[str]) -> str:
        name, value = f"--{found[1].replace('_', '-')}", found[3]
        if name == "--backend" and name not in options and "--device" in options:
            known = getattr(options["--device"].type, "choices", ())
            name, value = "--device", value if value in known else "cpu"  # of `workbench check`
        return f"{name} {value}" if name in options else found[0]

    return re.sub(
        r"\b(arch|backend|token_value|constant_value)=('?)([\w+-]+(?:\.\w+)?|…)\2", option, message
    )


# ---- arguments ----------------------------------------------------------------------------------


def output_file(path: str, option: str) -> Path:
    """A file to be written, refused where its folder is not there: that is a misspelt path more
    often than a wish for a new folder."""
    found = Path(path).expanduser()
    if found.is_dir():
        raise InputError(f"{option} {path} is a folder; give a file in it")
    if not found.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {found.parent}; make it first")
    return found


def parse_ints(text: str) -> list[int]:
    """Whole numbers from `a,b,c` or a range `lo:hi:xK` (times K) or `lo:hi:+K` (plus K).

    Both ends of a range are included where a step hits them.

    >>> parse_ints("64:1024:x4"), parse_ints("1:7:+3"), parse_ints("5,2")
    ([64, 256, 1024], [1, 4, 7], [5, 2])
    """
    values: list[int] = []
    for part in text.split(","):
        try:
            values += _values_of(part.strip()) if ":" in part else [int(part)]
        except ValueError as error:
            raise InputError(
                f"{part!r} is not a list of whole numbers: {error}. "
                "Give a,b,c or lo:hi:xK (times K) or lo:hi:+K (plus K)"
            ) from None
    return values


def _values_of(text: str) -> list[int]:
    bounds = text.split(":")
    if len(bounds) != 3 or bounds[2][:1] not in ("x", "+"):
        raise ValueError("a range has three parts, the last one xK or +K")
    low, high, step = int(bounds[0]), int(bounds[1]), int(bounds[2][1:])
    if low > high:
        raise ValueError(f"{low} is above {high}")
    if bounds[2][0] == "+":
        if step < 1:
            raise ValueError("the step must be at least 1")
        return list(range(low, high + 1, step))
    if step < 2 or low < 1:
        raise ValueError("a geometric range starts at 1 or above and its factor is at least 2")
    count = int(math.log(high / low, step)) + 2  # one more than fits, for the logarithm's rounding
    return [v for v in (low * step**i for i in range(count)) if v <= high]


def parse_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """`NAME=VALUE` options as a dict, the values as they were typed."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(f"{option} {pair}: wanted NAME=VALUE, for example TILE_LENGTH=1024")
        if name in found:
            raise InputError(f"{option} {name} is given twice")
        found[name] = value
    return found


def parse_constants(pairs: tuple[str, ...]) -> dict[str, Any]:
    """`-D NAME=VALUE` options as constants of a kernel, by lower-case names."""
    texts = parse_pairs(pairs, "-D")
    check_constants(texts)
    return {name.lower(): literal(value) for name, value in texts.items()}


def check_constants(names: Iterable[str]) -> None:
    """Refuse names of a configuration's parts that are no constants, and one in two spellings."""
    seen = set()
    for name in names:
        if name.lower() in seen:
            raise InputError(f"-D {name} is given twice: upper and lower case are one constant")
        seen.add(name.lower())
        if name.lower() in ("arch", "switches"):
            raise InputError(
                f"-D {name}=…: that is no constant of a kernel; give constants such as "
                "TILE_LENGTH=1024, and the architecture with --arch"
            )


def literal(text: str) -> Any:
    """`text` as the Python literal it reads as, else as itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def json_option(command: Callable) -> Callable:
    """`--json`, which `main` reads; declared so that click knows and documents it."""
    return click.option(
        "--json", "as_json", is_flag=True, expose_value=False, help="Print one JSON object."
    )(command)
