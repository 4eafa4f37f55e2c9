"""`workbench check`: a candidate against the reference of an operator, under the contract."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from workbench.build.config import DEFAULT_ARCH, KernelConfig
from workbench.commands.arguments import (
    DTYPES,
    FAILED,
    INDEX,
    NUMBER,
    OK,
    SEED,
    SIZE,
    WHOLE,
    Outcome,
    json_option,
    literal,
    progress,
)
from workbench.errors import InputError
from workbench.ops import registry


@click.command(short_help="Check an operator, or yours, against the reference.")
@click.option("--op", type=click.Choice(registry.ops()), default="lm_head", show_default=True)
@click.option(
    "--candidate",
    default="ascend",
    show_default=True,
    metavar="C",
    help="ascend, pytorch, or module:callable with the arguments of the operator's forward; the "
    "current folder is searched first, and a class is made without arguments.",
)
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "npu"]),
    default="auto",
    show_default=True,
    help="Where it runs: cpu runs the Ascend kernel on the twin. (`workbench invariance` "
    "asks for it as --backend.)",
)
@click.option("--dtype", type=click.Choice(DTYPES), default="fp32", show_default=True)
@click.option("--batch", type=SIZE, default=2, show_default=True)
@click.option("--seq", type=SIZE, default=16, show_default=True)
@click.option("--vocab", type=SIZE, default=257, show_default=True, help="V; N of det_gemm.")
@click.option(
    "--normalized-dim", type=SIZE, default=4096, show_default=True, help="H; K of det_gemm."
)
@click.option(
    "--input-mode",
    type=click.Choice(["random", "constant"]),
    default="random",
    show_default=True,
    help="N(0, 1), or one value everywhere.",
)
@click.option(
    "--constant-value",
    type=NUMBER,
    default=0.25,
    show_default=True,
    help="Of --input-mode constant.",
)
@click.option(
    "--token-value",
    type=INDEX,
    default=0,
    show_default=True,
    help="Every target, with --input-mode constant.",
)
@click.option("--seed", type=SEED, default=123, show_default=True)
@click.option("--grad-seed", type=SEED, default=123, show_default=True)
@click.option("--check-grad", is_flag=True, help="Judge the gradients too; a missing one fails.")
@click.option(
    "--grad-mode",
    type=click.Choice(["random", "ones"]),
    default="random",
    show_default=True,
    help="The upstream gradient; ones cannot see rows that are mixed up.",
)
@click.option("--tile", type=WHOLE, help="TILE_LENGTH of the Ascend kernel.")
@click.option("--max-blocks", type=WHOLE, help="MAX_BLOCKS of the Ascend kernel.")
@click.option("--schedule", help="SCHEDULE of the LM head, for example weight_stationary.")
@click.option("--arch", help=f"Ascend architecture.  [default: {DEFAULT_ARCH}]")
@json_option
def check(
    op: str,
    candidate: str,
    device: str,
    dtype: str,
    tile: int | None,
    max_blocks: int | None,
    schedule: str | None,
    arch: str | None,
    check_grad: bool,
    **options,
) -> Outcome:
    """Check a candidate of an operator against its reference under the numerics contract.

    Prints a line for each output and, with --check-grad, each gradient: one, however long, for
    tools that read lines. The biased form of an operator is a case of its own. linear_logp rests on
    raw bits and a derived bound, since fp32 cannot keep its cell; the cell's verdict is printed as
    it is.

    Example: workbench check --op lm_head --dtype bf16 --check-grad
    """
    from workbench.numerics.checker import check as run_check

    constants: dict[str, Any] = {
        "tile_length": tile,
        "max_blocks": max_blocks,
        "schedule": None if schedule is None else literal(schedule),
    }
    given = {name: value for name, value in constants.items() if value is not None}
    asked = click.get_current_context().get_parameter_source
    for name in ("constant_value", "token_value"):
        if options["input_mode"] != "constant" and asked(name) is ParameterSource.COMMANDLINE:
            raise InputError(f"--{name.replace('_', '-')} goes with --input-mode constant: add it")
    config = None
    if given or arch is not None:
        if candidate != "ascend":
            raise InputError(
                "--tile, --max-blocks, --schedule and --arch are of the Ascend kernel: they go "
                "with --candidate ascend"
            )
        config = KernelConfig(arch=arch or DEFAULT_ARCH, **given)
    progress(f"checking {candidate} of {op}, {dtype}")
    found = run_check(
        op, candidate, device=device, dtype=dtype, check_grad=check_grad, config=config, **options
    )
    return Outcome(found, str(found), OK if found.passed else FAILED, as_is=True)
