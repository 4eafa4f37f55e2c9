"""What the commands share: their outcome, exit codes, and how arguments are read."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import click

from workbench._result import Result
from workbench.errors import InputError

OK, FAILED, USAGE, MISSING, INTERRUPTED = 0, 1, 2, 3, 130
BACKENDS = click.Choice(["auto", "twin", "npu"])
SIZE = click.IntRange(min=1)
SEED = click.IntRange(-(2**63), 2**63 - 1)
DTYPES = ("fp32", "bf16", "fp16")  # of workbench.ops.inputs, which imports torch


@dataclass
class Outcome:
    """What a command found: for programs, for people, and as an exit code."""

    data: dict[str, Any] | Result
    text: str
    code: int = OK


def progress(text: str) -> None:
    """A line on stderr, where a person is watching."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


def parse_ints(text: str) -> list[int]:
    """Whole numbers from `a,b,c` or a range `lo:hi:xK` (times K) or `lo:hi:+K` (plus K).

    Both ends of a range are included where a step hits them.

    >>> parse_ints("64:1024:x4"), parse_ints("1:7:+3"), parse_ints("5,2")
    ([64, 256, 1024], [1, 4, 7], [5, 2])
    """
    values: list[int] = []
    for part in text.split(","):
        try:
            values += _range(part.strip()) if ":" in part else [int(part)]
        except ValueError as error:
            raise InputError(
                f"{part!r} is not a list of whole numbers: {error}. "
                "Give a,b,c or lo:hi:xK (times K) or lo:hi:+K (plus K)"
            ) from None
    return values


def _range(text: str) -> list[int]:
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
