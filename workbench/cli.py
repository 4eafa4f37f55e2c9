"""The command line: `workbench COMMAND [--json]`.

Every command returns an `Outcome`; only `main` prints, so that with `--json` stdout carries one
JSON object and nothing else. Exit codes: 0 success, 1 a check failed, 2 wrong usage, 3 something
needed is missing (a compiler, a device). Libraries are imported inside the commands: `--help`,
`doctor`, `cache` and `run` load no torch.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from . import __version__
from . import doctor as doctor_
from ._result import json_text
from .build.config import DEFAULT_ARCH
from .commands.arguments import (
    BACKENDS,
    FAILED,
    INTERRUPTED,
    MISSING,
    OK,
    USAGE,
    NumberRange,
    Outcome,
    WholeRange,
    as_options,
    check_constants,
    json_option,
    literal,
    output_file,
    parse_pairs,
    progress,
    shown,
    whole,
)
from .commands.check import check
from .commands.classes import classes
from .commands.invariance import invariance
from .commands.mutations import mutations
from .commands.report import report
from .commands.reveal import reveal
from .commands.sweep import sweep
from .commands.tolerance import tolerance
from .errors import ConfigError, InputError, MissingError, WorkbenchError


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code. `argv`: without the program's name."""
    args = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in args[: args.index("--")] if "--" in args else "--json" in args
    # Kernels, candidates and libraries may print; with --json that must not reach stdout.
    with _stdout_aside() if as_json else contextlib.nullcontext():
        outcome, error = _run(args)
    code = outcome.code if isinstance(outcome, Outcome) else int(outcome or 0)
    try:
        if as_json and isinstance(outcome, Outcome):
            print(json_text(outcome.data), flush=True)
        elif isinstance(outcome, Outcome):
            stream = sys.stderr if error else sys.stdout
            text = outcome.text if outcome.as_is else shown(outcome.text, stream)
            print(text, file=stream, flush=True)
    except BrokenPipeError:  # `workbench … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as full:  # `workbench … > /dev/full`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"workbench: stdout cannot be written: {full.strerror}", file=sys.stderr, flush=True)
        code = USAGE
    if as_json and argv is None:  # the process ends now: what is printed at exit is no JSON
        os.dup2(2, 1)
    return code


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
        return _failure(error, USAGE, _with_options(error, args)), True
    except MissingError as error:
        return _failure(error, MISSING, _with_options(error, args)), True
    except WorkbenchError as error:
        return _failure(error, FAILED), True
    except (KeyboardInterrupt, click.Abort):  # click turns the first into the second
        return _failure(KeyboardInterrupt(), INTERRUPTED, "interrupted"), True
    except SystemExit as error:  # of code that a command ran: never a quiet success
        return _failure(
            error, FAILED, f"SystemExit: {error.code} was raised inside a command"
        ), True
    except Exception as error:  # a bug, ours or a candidate's: the traceback is the message
        traceback.print_exc()
        return _failure(error, FAILED, f"{type(error).__name__}: {error}"), True


def _with_options(error: WorkbenchError, args: list[str]) -> str:
    """The error's text, with the command's options where it names arguments of Python."""
    command = cli.commands.get(args[0]) if args else None
    options = {name: p for p in (command.params if command else ()) for name in p.opts}
    return as_options(str(error), options)


def _failure(error: BaseException, code: int, text: str | None = None) -> Outcome:
    details = {
        name: getattr(error, name)
        for name in ("file", "line", "log_path", "kind", "code", "block")
        if isinstance(error, WorkbenchError) and getattr(error, name, None) is not None
    }
    message = (text or str(error) or type(error).__name__).strip()
    data = {"error": {"type": type(error).__name__, "message": message, **details}}
    # Lines that are broken already quote a compiler or a source; `file:line: what` is one line.
    as_is = "\n" in message or "file" in details
    return Outcome(data, f"workbench: {message}", code, as_is)


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


@cli.command(short_help="What works here, and how to get what is missing.")
@json_option
def doctor() -> Outcome:
    """Say what works on this machine and how to get what is missing."""
    found = doctor_.diagnose()
    return Outcome(found.to_dict(), str(found), OK if found.ok else MISSING)


@cli.command(short_help="Build one variant of a kernel, of ours or of your FILE.asc.")
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
    text = f"{what} {values} on {info.backend} ({info.arch}): {how}, {info.seconds:.3f} s"
    return Outcome(info, f"{text}\n{whole(info.path)}")


def build_kernel(what: str, constants: dict[str, str], backend: str, arch: str) -> Any:
    """A kernel of ours by name, its constants checked against its spec, or one from a file."""
    builder = importlib.import_module("workbench.build")
    config_class = importlib.import_module("workbench.build.config").KernelConfig
    if what.endswith(".asc"):
        return builder.build(what, config_class(arch=arch), backend=backend, defines=constants)
    check_constants(constants)
    config = config_class(arch=arch, **{k.lower(): literal(v) for k, v in constants.items()})
    return builder.build(what, config, backend=backend)


@cli.command(short_help="Run a whole Ascend C program on the twin.")
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
    type=NumberRange(min=0, min_open=True),
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
    if as_json:
        return Outcome(found, "", found.status)
    # stdout is the program's own. `file:line: what` is one line, as compilers write it.
    lines = str(found).split("\n")
    said = "\n".join(shown(x, sys.stderr) if x.startswith(" " * 7) else x for x in lines)
    if said or found.checks:
        said = f"workbench: {said}" if said else shown(f"workbench: {found.checked()}", sys.stderr)
        print(said, file=sys.stderr, flush=True)
    return found.status


@cli.command(short_help="Ask how the twin, or a device, sums, rounds and casts.")
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
@click.option(
    "--out", metavar="FILE.md", help="Also write the answers as Markdown; its folder must be there."
)
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
    path = None if out is None else output_file(out, "--out")  # before anything is asked
    found = probes.probe(arch, backend=device, switches=chosen)
    text = [found.title()]
    for answer in found.halves():
        value = probes.shown(answer)
        mark = "" if answer.agrees else f"  (the twin expects {answer.expected_bits})"
        text.append(f"  {answer.name:11} {value:>15}  {answer.bits}  {answer.meaning}{mark}")
    if path:
        try:
            path.write_text(found.report())
        except OSError as e:
            raise InputError(f"--out {out}: cannot be written: {e.strerror}") from e
        text.append(f"wrote {whole(str(path))}")
    return Outcome(found, "\n".join(text), OK if found.passed else FAILED)


@cli.command(short_help="Open the notebooks in JupyterLab.")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    help="Where to work: the notebooks are copied there; made if it is not there.",
)
@click.option("--port", type=WholeRange(1, 65535), help="Port to listen on.")
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
    code = FAILED if found.exit_code else OK
    return Outcome(found, str(found), code, as_is=True)  # a command to be copied


for _command in (reveal, classes, check, invariance, tolerance, mutations, sweep, report):
    cli.add_command(_command)


@cli.group(no_args_is_help=False, short_help="The build cache: info, clear.")
def cache() -> None:
    """The build cache."""


@cache.command("info")
@json_option
def cache_info() -> Outcome:
    """How many builds are kept, how large they are, and where."""
    found = importlib.import_module("workbench.build.cache").info()
    size = f"{found['entries']} entries, {found['bytes'] / 2**20:.1f} MiB"
    text = f"{size}\n{whole(found['path'])}"
    return Outcome(found, text)


@cache.command("clear")
@json_option
def cache_clear() -> Outcome:
    """Remove every build that is kept. Kernels that are loaded stay usable."""
    found = importlib.import_module("workbench.build.cache").clear()
    return Outcome(found, f"removed {found['entries']} entries, {found['bytes'] / 2**20:.1f} MiB")


if __name__ == "__main__":
    sys.exit(main())
