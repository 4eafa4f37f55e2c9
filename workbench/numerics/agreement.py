"""Log-prob agreement: does a trainer see the log-probs that the sampler saw?

A sampler computes a token's log-prob in the small batch it was generated in, a trainer in a large
packed or padded one. The distance is judged by the contract's limits; beside it stands whether
every bit is equal, which is what batch-invariant kernels promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.evidence import Evidence, evidence
from workbench.numerics.adapters import operator_rows
from workbench.numerics.bits import compare_bits
from workbench.numerics.contract import Agreement, contract
from workbench.ops.inputs import DTYPES, IGNORE_INDEX, NAMES
from workbench.ops.variant import backend_of

SAMPLERS = ("token", "step")
TRAINERS = ("packed", "padded right", "padded left", "micro-batches")
PROMPT = 8  # tokens of each sequence that were given, not sampled
CHUNK = 7  # rows of a micro-batch
_PADDING = 3  # positions beyond the longest sequence

LogpFn = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class LogpAgreement(Result):
    """Log-probs of the same tokens from two batches.

    Attributes:
        limits: The contract's verdict: max |d|, approximate KL and clip fraction over the active
            tokens, d = trainer - sampler in nats, each with its limit.
        mismatches: Active tokens whose bits differ.
        first_mismatch: None, or `index` (of the token), `expected_bits` (the sampler's), `got_bits`
            (the trainer's) and both values.
    """

    limits: Agreement
    mismatches: int
    first_mismatch: dict[str, Any] | None

    @property
    def passed(self) -> bool:
        """True if every aggregate is within the contract's limit; says nothing of bits."""
        return self.limits.passed

    @property
    def bits_equal(self) -> bool:
        """True if every active token has the same bits."""
        return self.mismatches == 0

    def to_dict(self) -> dict[str, Any]:
        found = self.limits.to_dict() | {"bits_equal": self.bits_equal}
        return found | {"mismatches": self.mismatches, "first_mismatch": self.first_mismatch}

    def rows(self) -> list[dict[str, Any]]:
        names = ("tokens", "max_abs", "approx_kl", "clip_fraction")
        row = {name: getattr(self.limits, name) for name in names}
        return [{"passed": self.passed, "mismatches": self.mismatches, **row}]

    def title(self) -> str:
        bits = "every bit equal" if self.bits_equal else f"{self.mismatches} tokens differ in bits"
        return f"{self.limits.title()}; {bits}"


def agreement(
    sampler: torch.Tensor,
    trainer: torch.Tensor,
    active: torch.Tensor | None = None,
    dtype: str | torch.dtype = "fp32",
) -> LogpAgreement:
    """How far a trainer's log-probs are from a sampler's, and whether their bits are equal.

    Args:
        sampler, trainer: [...] log-probs in nats, one shape and one dtype.
        active: bool [...], the tokens that count; None: all.
        dtype: Of the model, which chooses the limits: "fp32", "bf16", "fp16" or the torch dtype.

    Raises:
        InputError: Shapes or dtypes that differ, no active token, or NaN or Inf among the active
            ones.

    Example:
        >>> logp = torch.tensor([-1.0, -2.0, float("nan")])
        >>> found = agreement(logp, logp, active=torch.tensor([True, True, False]))
        >>> found.passed, found.bits_equal, found.limits.max_abs
        (True, True, 0.0)
    """
    verdict = contract().agreement(sampler, trainer, active, dtype)
    mask = torch.ones(sampler.shape, dtype=torch.bool) if active is None else active.cpu()
    bits = compare_bits(sampler.detach().cpu()[mask], trainer.detach().cpu()[mask])
    first = bits.first_mismatch
    if first is not None:
        token = mask.nonzero()[first["index"][0]]
        first = {**first, "index": [int(i) for i in token]}
    return LogpAgreement(verdict, bits.mismatches, first)


@dataclass(frozen=True)
class SamplerTrainerResult(Result):
    """One callable's log-probs in a sampler's batches against those in a trainer's.

    Attributes:
        pairs: {(sampler, trainer): LogpAgreement}.
        tokens: Active tokens: those that were sampled.
        dtype: Of hidden and weight.
        evidence: Backend, architecture, configuration, inputs, versions.
    """

    pairs: dict[tuple[str, str], LogpAgreement]
    tokens: int
    dtype: str
    evidence: Evidence

    @property
    def passed(self) -> bool:
        """True if every pair is within the contract's limits."""
        return all(pair.passed for pair in self.pairs.values())

    @property
    def bits_equal(self) -> bool:
        return all(pair.bits_equal for pair in self.pairs.values())

    def __getitem__(self, pair: tuple[str, str]) -> LogpAgreement:
        if pair not in self.pairs:
            raise KeyError(f"{pair!r} was not compared; this result has {list(self.pairs)}")
        return self.pairs[pair]

    def to_dict(self) -> dict[str, Any]:
        pairs = [
            {"sampler": sampler, "trainer": trainer, **found.to_dict()}
            for (sampler, trainer), found in self.pairs.items()
        ]
        return {
            "passed": self.passed,
            "bits_equal": self.bits_equal,
            "tokens": self.tokens,
            "dtype": self.dtype,
            "pairs": pairs,
            "evidence": self.evidence.to_dict(),
        }

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"sampler": sampler, "trainer": trainer, **found.rows()[0]}
            for (sampler, trainer), found in self.pairs.items()
        ]

    def title(self) -> str:
        e = self.evidence
        who = " ".join(part for part in (e.target, e.backend, e.arch) if part)
        bits = "every bit equal" if self.bits_equal else "bits differ"
        verdict = "within the limits" if self.passed else "beyond the limits"
        return f"Sampler and trainer, {who}, {self.tokens} tokens, {self.dtype}: {verdict}, {bits}"


@torch.no_grad()
def sampler_trainer(
    fn: LogpFn | str,
    sample: Any,
    dtype: str | torch.dtype = "fp32",
    *,
    config: Any = None,
    lengths: Sequence[int] | None = None,
    prompt: int = PROMPT,
    chunk: int = CHUNK,
    samplers: Sequence[str] = SAMPLERS,
    trainers: Sequence[str] = TRAINERS,
) -> SamplerTrainerResult:
    """Log-probs of sampled tokens, in the sampler's batches and again in the trainer's.

    The sampler takes each token alone ("token"), or at every step the tokens of all sequences that
    are still alive ("step"). The trainer takes all sequences at once: packed, padded on a side, or
    packed in micro-batches; there the prompt's targets are ignored ones.

    Args:
        fn: (hidden [..., H], weight [V, H], target [...]) -> logp [...], which takes the target
            -100 as ignored; or "linear_logp", our operator.
        sample: With hidden [S, T, H], weight [V, H] and target [S, T]: `samples.smollm2()`.
        dtype: hidden and weight are converted to it: "fp32", "bf16", "fp16" or the torch dtype.
        config: KernelConfig of "linear_logp".
        lengths: Tokens of each sequence, from `prompt` + 1 to T; None: all T.
        prompt: Tokens of each sequence that were given; the others are compared.
        chunk: Rows of a micro-batch.
        samplers, trainers: Some of "token", "step"; of "packed", "padded right", "padded left",
            "micro-batches".

    Raises:
        InputError: Shapes that do not fit, unknown batches, nothing sampled, NaN or Inf.

    Example:
        >>> from types import SimpleNamespace
        >>> sample = SimpleNamespace(
        ...     hidden=torch.ones(2, 5, 8),
        ...     weight=torch.eye(8),
        ...     target=torch.arange(10).reshape(2, 5) % 8,
        ... )
        >>> def per_row(hidden, weight, target):
        ...     logits = torch.stack([weight @ row for row in hidden.reshape(-1, 8)])
        ...     at = target.reshape(-1, 1).clamp(min=0)
        ...     return logits.log_softmax(-1).gather(-1, at).reshape(target.shape)
        >>> sampler_trainer(per_row, sample, prompt=2).bits_equal
        True
    """
    short = contract().dtype(dtype)
    if isinstance(fn, str):
        if fn != "linear_logp":
            raise InputError(f"fn={fn!r}; by name there is linear_logp, else give a callable")
        named = operator_rows(fn, config)
        call: LogpFn = named.operator
        subject: Any = named
    elif config is not None:
        raise InputError("config is for fn='linear_logp'; a callable has its own")
    else:
        call = subject = fn
    hidden = sample.hidden.to(DTYPES[short])
    if isinstance(fn, str):  # "auto" is decided by the tensors
        named.info.backend = backend_of(hidden, named.info.asked)
    weight = sample.weight.to(DTYPES[short])
    lengths = _check(hidden, weight, sample.target, lengths, prompt, samplers, trainers)
    places = torch.arange(hidden.shape[1])
    alive = places[None, :] < torch.tensor(lengths)[:, None]
    active = alive & (places >= prompt)
    trained = torch.where(active.to(sample.target.device), sample.target, IGNORE_INDEX)
    seen = {
        name: _scatter(active, _SAMPLERS[name](call, hidden, weight, sample.target, active))
        for name in samplers
    }
    learnt = {
        name: _scatter(alive, _trainer(name, call, hidden, weight, trained, alive, chunk))
        for name in trainers
    }
    return SamplerTrainerResult(
        pairs={
            (sampler, trainer): agreement(before, after, active, short)
            for sampler, before in seen.items()
            for trainer, after in learnt.items()
        },
        tokens=int(active.sum()),
        dtype=NAMES[hidden.dtype],
        evidence=evidence(subject, hidden, weight, trained),
    )


def _check(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    lengths: Sequence[int] | None,
    prompt: int,
    samplers: Sequence[str],
    trainers: Sequence[str],
) -> list[int]:
    if hidden.ndim != 3 or weight.ndim != 2 or tuple(target.shape) != tuple(hidden.shape[:2]):
        raise InputError(
            f"hidden {list(hidden.shape)}, weight {list(weight.shape)}, target "
            f"{list(target.shape)}; wanted [S, T, H], [V, H] and [S, T]"
        )
    for what, given, known in (("sampler", samplers, SAMPLERS), ("trainer", trainers, TRAINERS)):
        unknown = [name for name in given if name not in known]
        if unknown or not given:
            wrong = f"{what} {', '.join(unknown)} is unknown" if unknown else f"no {what} is given"
            raise InputError(f"{wrong}; known ones are {', '.join(known)}")
    sequences, longest = target.shape
    chosen = [longest] * sequences if lengths is None else [int(n) for n in lengths]
    if len(chosen) != sequences or any(not prompt < n <= longest for n in chosen):
        raise InputError(
            f"lengths={chosen} with prompt={prompt}: want one of {prompt + 1} to {longest} tokens "
            f"for each of {sequences} sequences"
        )
    return chosen


def _scatter(where: torch.Tensor, values: Iterator[torch.Tensor]) -> torch.Tensor:
    """[S, T] with the values of the places `where`, in row-major order, and NaN elsewhere: a token
    that was not computed can then not count as equal."""
    flat = torch.cat([value.detach().reshape(-1).cpu().clone() for value in values])
    out = torch.full(where.shape, float("nan"), dtype=flat.dtype)
    out[where] = flat
    return out


def _by_token(call, hidden, weight, target, active) -> Iterator[torch.Tensor]:
    for s, t in active.nonzero().tolist():
        yield call(hidden[s, t][None], weight, target[s, t][None])


def _by_step(call, hidden, weight, target, active) -> Iterator[torch.Tensor]:
    """One batch a step: the sequences that have a token there. In generation order, then sorted."""
    found: torch.Tensor | None = None
    for t in active.any(0).nonzero().flatten().tolist():
        live = active[:, t].nonzero().flatten()
        out = call(hidden[live, t], weight, target[live, t]).cpu()
        if found is None:
            found = torch.full(active.shape, float("nan"), dtype=out.dtype)
        found[live, t] = out
    assert found is not None  # every sequence has a token
    yield found[active]


_SAMPLERS: dict[str, Callable[..., Iterator[torch.Tensor]]] = {"token": _by_token, "step": _by_step}


def _trainer(name, call, hidden, weight, target, alive, chunk) -> Iterator[torch.Tensor]:
    """Log-probs of every token that is alive, in row-major order."""
    rows, ids = hidden[alive], target[alive]
    if name == "packed":
        yield call(rows, weight, ids)
        return
    if name == "micro-batches":
        for part, wanted in zip(rows.split(chunk), ids.split(chunk), strict=True):
            yield call(part, weight, wanted)
        return
    lengths = alive.sum(1).tolist()
    width = max(lengths) + _PADDING
    batch = hidden.new_zeros(len(lengths), width, hidden.shape[2])
    wanted = target.new_full((len(lengths), width), IGNORE_INDEX)
    taken = torch.zeros(wanted.shape, dtype=torch.bool)
    for s, length in enumerate(lengths):
        first = width - length if name == "padded left" else 0
        batch[s, first : first + length] = hidden[s, :length]
        wanted[s, first : first + length] = target[s, :length]
        taken[s, first : first + length] = True
    yield call(batch, weight, wanted)[taken]
