"""The command line: `workbench COMMAND [--json]`.

Every command returns an `Outcome`; only `main` prints, so that with `--json` stdout carries one
JSON object and nothing else. Exit codes: 0 success, 1 a check failed, 2 wrong usage, 3 something
needed is missing (a compiler, a device). Libraries are imported inside the commands: `--help`,
`doctor`, `cache` and `run` load no torch.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from . import __version__
from . import doctor as doctor_
from ._result import Result, jsonable
from .errors import ConfigError, InputError, MissingError, WorkbenchError

OK, FAILED, USAGE, MISSING, INTERRUPTED = 0, 1, 2, 3, 130
DEFAULT_ARCH = "dav-2201"
BACKENDS = click.Choice(["auto", "twin", "npu"])
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


@dataclass
class Outcome:
    """What a command found: for programs, for people, and as an exit code."""

    data: dict[str, Any] | Result
    text: str
    code: int = OK


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. `argv`: without the program's name."""
    args = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
    # Kernels, candidates and libraries may print; with --json that must not reach stdout.
    with _stdout_aside() if as_json else contextlib.nullcontext():
        outcome, error = _run(args)
    try:
        if as_json and isinstance(outcome, Outcome):
            data = outcome.data.to_dict() if isinstance(outcome.data, Result) else outcome.data
            print(json.dumps(jsonable(data), allow_nan=False), flush=True)
        elif isinstance(outcome, Outcome) and error:
            print(f"workbench: {outcome.text}", file=sys.stderr, flush=True)
        elif isinstance(outcome, Outcome):
            print(outcome.text, flush=True)
    except BrokenPipeError:  # `workbench … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return outcome.code if isinstance(outcome, Outcome) else int(outcome or 0)


def _run(args: list[str]) -> tuple[Outcome | int | None, bool]:
    """What a command returns, or the error it ended with; the second item says which."""
    try:
        return cli.main(args=args, prog_name="workbench", standalone_mode=False), False
    except click.UsageError as error:
        failure = _failure(error, USAGE, error.format_message())
        failure.text += f"\nTry: {error.ctx.command_path} --help" if error.ctx else ""
        return failure, True
    except click.ClickException as error:
        return _failure(error, USAGE, error.format_message()), True
    except (ConfigError, InputError) as error:
        return _failure(error, USAGE), True
    except MissingError as error:
        return _failure(error, MISSING), True
    except WorkbenchError as error:
        return _failure(error, FAILED), True
    except (KeyboardInterrupt, click.Abort):  # click turns the first into the second
        return _failure(KeyboardInterrupt(), INTERRUPTED, "interrupted"), True
    except Exception as error:  # a bug, ours or a candidate's: the traceback is the message
        traceback.print_exc()
        return _failure(error, FAILED, f"{type(error).__name__}: {error}"), True


def _failure(error: BaseException, code: int, text: str | None = None) -> Outcome:
    details = {
        name: getattr(error, name)
        for name in ("file", "line", "log_path", "kind", "code", "block")
        if isinstance(error, WorkbenchError) and getattr(error, name, None) is not None
    }
    message = (text or str(error) or type(error).__name__).strip()
    return Outcome(
        {"error": {"type": type(error).__name__, "message": message, **details}}, message, code
    )


@contextlib.contextmanager
def _stdout_aside() -> Iterator[None]:
    """Send file descriptor 1 to stderr for a while: also what C code prints."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def progress(text: str) -> None:
    """A line on stderr, where a person is watching."""
    if sys.stderr.isatty():
        print(text, file=sys.stderr, flush=True)


# ---- reading arguments -------------------------------------------------------------------------


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


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"workbench {__version__}")
        ctx.exit()


# ---- commands ----------------------------------------------------------------------------------


@click.group(
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version)
def cli() -> None:
    """Develop Ascend C kernels whose bits matter.

    Exit codes: 0 success, 1 a check failed, 2 wrong usage, 3 something needed is missing.
    """


@cli.command()
@json_option
def doctor() -> Outcome:
    """Say what works on this machine and how to get what is missing."""
    found = doctor_.diagnose()
    return Outcome(found.to_dict(), str(found), OK if found.ok else MISSING)


@cli.command()
@click.argument("what", metavar="OP|FILE.asc")
@click.option(
    "-D", "defines", multiple=True, metavar="K=V", help="Build-time constant; repeatable."
)
@click.option("--backend", type=BACKENDS, default="auto", show_default=True)
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, help="Ascend architecture.")
@json_option
def build(what: str, defines: tuple[str, ...], backend: str, arch: str) -> Outcome:
    """Build one variant of a kernel: an operator of ours (lm_head) or your own FILE.asc.

    Example: workbench build lm_head -D TILE_LENGTH=1024 -D MAX_BLOCKS=40
    """
    constants = parse_pairs(defines, "-D")
    if what.endswith(".asc") and not Path(what).is_file():
        raise InputError(f"There is no file {what}.")
    progress(f"building {what} for {arch}")
    kernel = build_kernel(what, constants, backend, arch)
    info = kernel.info
    how = "from the cache" if info.cached else "compiled"
    values = " ".join(f"{k}={v}" for k, v in info.defines.items())
    text = (
        f"{what} {values} on {info.backend} ({info.arch}): {how}, {info.seconds:.3f} s\n{info.path}"
    )
    return Outcome(info, text)


def build_kernel(what: str, constants: dict[str, str], backend: str, arch: str) -> Any:
    """A kernel of ours by name, its constants checked against its spec, or one from a file."""
    builder = importlib.import_module("workbench.build")
    config_class = importlib.import_module("workbench.build.config").KernelConfig
    if what.endswith(".asc"):
        return builder.build(what, config_class(arch=arch), backend=backend, defines=constants)
    config = config_class(arch=arch, **{k.lower(): literal(v) for k, v in constants.items()})
    return builder.build(what, config, backend=backend)


@cli.command()
@click.argument("file", metavar="FILE.asc")
@click.argument("args", nargs=-1, metavar="[-- ARGS]...")
@click.option(
    "-D", "defines", multiple=True, metavar="K=V", help="Macro for the compiler; repeatable."
)
@click.option(
    "-I", "folders", multiple=True, metavar="DIR", help="More folders for #include; repeatable."
)
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, help="Ascend architecture.")
@click.option(
    "--check",
    metavar="LIST",
    help="Checked mode: mem, init, race, sync, several with commas, or all.",
)
@click.option("--cwd", metavar="DIR", help="Working folder of the program.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    help="Seconds after which the program is ended.",
)
@click.option("--no-counters", is_flag=True, help="Do not count instructions: runs faster.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def run(
    file: str,
    args: tuple[str, ...],
    defines: tuple[str, ...],
    folders: tuple[str, ...],
    arch: str,
    check: str | None,
    cwd: str | None,
    timeout: float,
    no_counters: bool,
    as_json: bool,
) -> Outcome | int:
    """Compile and run a whole Ascend C program (with main and the acl host API) on the twin.

    Exits with the program's own status; 1 if a fault was found, 124 at the time limit, 128 + N
    after signal N.

    Example: workbench run softmax.asc -D ROWS=64 --check all -- input.bin output.bin
    """
    launch = importlib.import_module("workbench.build.launch")
    programs = importlib.import_module("workbench.build.program")
    found = programs.run_file(
        file,
        args,
        arch=arch,
        defines=parse_pairs(defines, "-D"),
        include_dirs=folders,
        checks=launch.check_names(check),
        cwd=cwd,
        timeout=timeout,
        counters=not no_counters,
        capture=as_json,
    )
    if not as_json and str(found):  # stdout is the program's own
        print(f"workbench: {found}", file=sys.stderr, flush=True)
    return Outcome(found, "", found.status) if as_json else found.status


@cli.command()
@click.option("--op", type=click.Choice(["lm_head"]), default="lm_head", show_default=True)
@click.option(
    "--tile", type=int, help="TILE_LENGTH of the kernel; the kernel's default if left out."
)
@click.option("--max-blocks", type=int, help="MAX_BLOCKS of the kernel.")
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, help="Ascend architecture.")
@click.option("--backend", type=BACKENDS, default="auto", show_default=True)
@click.option("--dtype", type=click.Choice(list(DTYPES)), default="fp32", show_default=True)
@click.option(
    "--sample", type=click.Choice(["synthetic", "smollm2"]), default="synthetic", show_default=True
)
@click.option(
    "--hidden", type=click.IntRange(min=1), help="H of the synthetic sample.  [default: 4096]"
)
@click.option(
    "--vocab",
    type=click.IntRange(min=1),
    default=257,
    show_default=True,
    help="V: rows of the weight.",
)
@click.option(
    "--rows", type=click.IntRange(min=1), default=8, show_default=True, help="Hidden states."
)
@click.option("--transforms", metavar="T1,T2,…", help="Which transforms; all if left out.")
@click.option("--seed", type=int, help="Seed of the sample and of the transforms.")
@click.option(
    "--candidate",
    default="kernel",
    show_default=True,
    metavar="C",
    help="kernel, F.linear, torch.mv, or module:callable taking (hidden, weight).",
)
@json_option
def invariance(
    op: str,
    tile: int | None,
    max_blocks: int | None,
    arch: str,
    backend: str,
    dtype: str,
    sample: str,
    hidden: int | None,
    vocab: int,
    rows: int,
    transforms: str | None,
    seed: int | None,
    candidate: str,
) -> Outcome:
    """Check on raw bits that a row's result does not depend on its batch.

    Example: workbench invariance --op lm_head --tile 1024 --dtype bf16
    """
    given = {"tile_length": tile, "max_blocks": max_blocks}
    constants = {k: str(v) for k, v in given.items() if v is not None}
    if candidate != "kernel" and constants:
        raise InputError("--tile and --max-blocks are constants of the kernel: drop --candidate")
    if sample == "smollm2" and hidden is not None:
        raise InputError("--hidden is for the synthetic sample; smollm2's hidden size is 576")
    fn = _candidate(candidate) or build_kernel(op, constants, backend, arch)
    states, weight = _sample(sample, dtype, hidden or 4096, vocab, rows, seed or 0)
    judge = importlib.import_module("workbench.numerics.invariance").invariance
    options: dict[str, Any] = {} if seed is None else {"seed": seed}
    if transforms is not None:
        options["transforms"] = [t for t in transforms.replace(" ", "").split(",") if t]
    progress(f"comparing {candidate} on {rows} rows, V = {vocab}, {dtype}")
    found = judge(fn, states, weight, **options)
    return Outcome(found, _table(found), OK if found.passed else FAILED)


def _table(found: Any) -> str:
    """One line a transform, and its first mismatch below it."""
    lines = [found.title()]
    for t in found.transforms:
        verdict = "passed" if t.passed else "FAILED"
        count = f"{t.mismatches} of {t.elements} differ"
        lines.append(f"  {t.name}  {verdict}  {t.cases:3} cases  {count:24}  {t.relation}")
        if at := t.first_mismatch:
            lines.append(
                f"      first: row {at['row']}, vocabulary id {at['vocab_id']}, {at['case']}: "
                f"{at['expected_bits']} became {at['got_bits']}"
            )
    return "\n".join(lines)


def _candidate(name: str) -> Callable | None:
    """The callable a name stands for; None for the kernel itself."""
    if name == "kernel":
        return None
    if name in ("F.linear", "torch.mv"):
        import torch

        def linear(hidden, weight):
            return torch.nn.functional.linear(hidden, weight)

        def mv(hidden, weight):
            rows = [torch.mv(weight, row) for row in hidden.reshape(-1, hidden.shape[-1])]
            return torch.stack(rows).reshape(*hidden.shape[:-1], len(weight))

        reference = linear if name == "F.linear" else mv
        reference.__name__ = reference.__qualname__ = name  # what the result is titled with
        return reference
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise InputError(
            f"--candidate {name}: wanted kernel, F.linear, torch.mv or module:callable"
        )
    here = str(Path.cwd())
    if here not in sys.path:  # as with `python -m`; a console script leaves it out
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"--candidate {name}: cannot import {module}: {error}") from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputError(f"--candidate {name}: {module} has no callable {path}")
    return found


def _sample(
    name: str, dtype: str, hidden: int, vocab: int, rows: int, seed: int
) -> tuple[Any, Any]:
    """Hidden states [rows, H] and weight [vocab, H] in `dtype`."""
    import torch

    samples = importlib.import_module("workbench.samples")
    kind = getattr(torch, DTYPES[dtype])
    if name == "synthetic":
        found = samples.qwen3(rows=rows, vocab=vocab, hidden_size=hidden, dtype=kind, seed=seed)
        return found.hidden, found.weight
    found = samples.smollm2()
    states = found.hidden.reshape(-1, found.hidden.shape[-1])
    if rows > len(states) or vocab > len(found.weight):
        raise InputError(
            f"smollm2 has {len(states)} hidden states and {len(found.weight)} rows of weight; "
            f"asked for --rows {rows} --vocab {vocab}"
        )
    return states[:rows].to(kind), found.weight[:vocab].to(kind)


@cli.command()
@click.option("--arch", default=DEFAULT_ARCH, show_default=True, help="Ascend architecture.")
@click.option(
    "--device",
    type=click.Choice(["twin", "npu"]),
    default="twin",
    show_default=True,
    help="Who answers: the twin on this CPU, or an NPU.",
)
@click.option(
    "--switch",
    "switches",
    multiple=True,
    metavar="NAME=VALUE",
    help="Twin only: an undocumented choice, for example masked_lanes=skip. May be repeated.",
)
@click.option("--out", metavar="FILE.md", help="Also write the answers as Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def probe(
    arch: str, device: str, switches: tuple[str, ...], out: str | None, as_json: bool
) -> Outcome:
    """Ask the ten probes: how the twin, or a device, sums, rounds and casts."""
    from .numerics import probes

    bad = [s for s in switches if "=" not in s]
    if bad:
        raise InputError(f"--switch {bad[0]}: want NAME=VALUE, for example masked_lanes=skip")
    chosen = dict(s.split("=", 1) for s in switches)
    found = probes.probe(arch, backend=device, switches=chosen)
    text = [found.title()]
    for answer in found.halves():
        value = probes.shown(answer)
        mark = "" if answer.agrees else f"  (the twin expects {answer.expected_bits})"
        text.append(f"  {answer.name:11} {value:>15}  {answer.bits}  {answer.meaning}{mark}")
    if out:
        path = Path(out)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found.report())
        except OSError as e:
            raise InputError(f"--out {out}: cannot be written: {e.strerror}") from e
        text.append(f"wrote {path}")
    return Outcome(found, "\n".join(text), OK if found.passed else FAILED)


@cli.command()
@click.option(
    "--out", default="report", show_default=True, metavar="DIR", help="Folder of the report."
)
@click.option(
    "--notebook", "notebooks", multiple=True, metavar="NAME|FILE", help="Only this one; repeatable."
)
@click.option(
    "-p",
    "parameters",
    multiple=True,
    metavar="K=V",
    help="Value for the notebooks' parameters cell.",
)
@click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=600,
    show_default=True,
    help="Seconds a cell may take.",
)
@json_option
def report(
    out: str, notebooks: tuple[str, ...], parameters: tuple[str, ...], timeout: int
) -> Outcome:
    """Execute every notebook headless and write DIR/index.html."""
    from .report import run_report

    values = {k: literal(v) for k, v in parse_pairs(parameters, "-p").items()}
    found = run_report(out, notebooks or None, values, timeout, progress)
    return Outcome(found, str(found), OK if found.passed else FAILED)


@cli.command()
@click.option(
    "--dir", "folder", metavar="DIR", help="Where to work: the notebooks are copied there."
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--dry-run", is_flag=True, help="Prepare the folder and print the command only.")
@json_option
def lab(folder: str | None, port: int | None, no_browser: bool, dry_run: bool) -> Outcome:
    """Open the notebooks in JupyterLab.

    In a checkout they are opened in place; an installed workbench copies them to
    ./workbench-notebooks first and never overwrites a file that is there.
    """
    from .lab import run_lab

    found = run_lab(folder, port=port, browser=not no_browser, dry_run=dry_run)
    return Outcome(found, str(found), FAILED if found.exit_code else OK)


@cli.group(no_args_is_help=False)
def cache() -> None:
    """The build cache."""


@cache.command("info")
@json_option
def cache_info() -> Outcome:
    """How many builds are kept, how large they are, and where."""
    found = importlib.import_module("workbench.build.cache").info()
    text = f"{found['entries']} entries, {found['bytes'] / 2**20:.1f} MiB\n{found['path']}"
    return Outcome(found, text)


@cache.command("clear")
@json_option
def cache_clear() -> Outcome:
    """Remove every build that is kept. Kernels that are loaded stay usable."""
    found = importlib.import_module("workbench.build.cache").clear()
    return Outcome(found, f"removed {found['entries']} entries, {found['bytes'] / 2**20:.1f} MiB")


if __name__ == "__main__":
    sys.exit(main())
