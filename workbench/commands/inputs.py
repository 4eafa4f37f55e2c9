"""The samples that the commands take by name."""

from __future__ import annotations

from typing import Any

from workbench.errors import InputError


def sample_rows(
    op: str, name: str, dtype: str, hidden: int | None, vocab: int, rows: int, seed: int | None
) -> tuple[Any, Any, Any]:
    """The operator's rows, weight [vocab, H] and target [rows].

    Args:
        op: Of batch_invariant_logp the rows are the logits of the sample.
        name: "synthetic" or "smollm2".
        dtype: "fp32", "bf16" or "fp16", of rows and weight.
        hidden: H of the synthetic sample; None: 4096.
        vocab, rows: How many.
        seed: Of the synthetic sample; None: 0.

    Raises:
        InputError: More rows than the sample has.
    """
    from workbench import samples
    from workbench.numerics.memory import check_memory
    from workbench.ops import NativeLMHeadOp, inputs

    kind = inputs.DTYPES[dtype]
    if name == "synthetic":
        check_memory(4 * (rows + vocab) * (hidden or 4096), f"a sample of {rows} rows, V = {vocab}")
        found = samples.qwen3(
            rows=rows, vocab=vocab, hidden_size=hidden or 4096, dtype=kind, seed=seed or 0
        )
    else:
        found = samples.smollm2()
    states = found.hidden.reshape(-1, found.hidden.shape[-1])
    if rows > len(states) or vocab > len(found.weight):
        raise InputError(
            f"{name} has {len(states)} hidden states and {len(found.weight)} rows of weight; "
            f"asked for --rows {rows} --vocab {vocab}"
        )
    states, weight = states[:rows].to(kind), found.weight[:vocab].to(kind)
    target = found.target.flatten()[:rows] % vocab
    if op == "batch_invariant_logp":
        states = NativeLMHeadOp()(states, weight)
    return states, weight, target
