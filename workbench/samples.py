"""Inputs to judge kernels on: a real LM head, and synthetic ones of the shape of Qwen3-8B's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from workbench import paths
from workbench._result import Result
from workbench.errors import InputError, MissingError
from workbench.evidence import fixture_id
from workbench.ops.inputs import NAMES

SMOLLM2 = paths.DATA / "smollm2-135m"
QWEN3_HIDDEN = 4096
QWEN3_VOCAB = 151936
_CHUNK = 1 << 22  # fp32 elements drawn at a time: 16 MiB
_TENSORS = ("hidden", "weight", "target", "vocab_id")


@dataclass(frozen=True, eq=False)
class LMHeadSample(Result):
    """Inputs of an LM head.

    Attributes:
        name: What it is, in a word.
        hidden: [..., H], output of the final norm.
        weight: [V, H].
        target: [...] int64, the index of the next token in the rows of `weight`.
        vocab_id: [V] int64, the token id of each row of `weight`.
        provenance: Where it comes from: model, licence, text; or distribution and seed.
    """

    name: str
    hidden: torch.Tensor = field(repr=False, metadata={"json": False})
    weight: torch.Tensor = field(repr=False, metadata={"json": False})
    target: torch.Tensor = field(repr=False, metadata={"json": False})
    vocab_id: torch.Tensor = field(repr=False, metadata={"json": False})
    provenance: dict[str, Any]

    @functools.cached_property
    def fixture_id(self) -> str:
        """16 hex digits that name the content (hidden, weight, target, vocab_id)."""
        return fixture_id(self.hidden, self.weight, self.target, self.vocab_id)

    def to_dict(self) -> dict[str, Any]:
        shapes = {
            name: f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}"
            for name in _TENSORS
            for t in (getattr(self, name),)
        }
        return super().to_dict() | shapes | {"fixture_id": self.fixture_id}

    def rows(self) -> list[dict[str, Any]]:
        return [{k: v for k, v in self.to_dict().items() if k != "provenance"}]

    def title(self) -> str:
        return f"LM-head sample {self.name}"


class SmolLM2(LMHeadSample):
    """The real sample; see `smollm2`."""


def smollm2() -> SmolLM2:
    """Real hidden states, weights and targets of SmolLM2-135M-Instruct (Apache-2.0), 5 MB.

    Each call reads the file, so a caller may write into its tensors.

    Returns:
        hidden [4, 40, 576] fp32 (four short texts, output of the final norm), weight [4096, 576]
        bf16 (all target tokens, then the lowest ids), target [4, 40] int64, vocab_id [4096] int64.

    Raises:
        MissingError: The data file is not in the package.

    Source: `workbench/data/smollm2-135m/README.md`, also in `provenance["text"]`.

    Example:
        >>> sample = smollm2()
        >>> sample.hidden.shape, sample.weight.dtype
        (torch.Size([4, 40, 576]), torch.bfloat16)
    """
    from safetensors import safe_open

    file = SMOLLM2 / "lm_head.safetensors"
    if not file.is_file():
        raise MissingError(
            f"the sample {file} is not there; it belongs to the package. Reinstall workbench, or "
            "use samples.qwen3() for a synthetic one"
        )
    with safe_open(str(file), framework="pt") as reader:
        tensors = {name: reader.get_tensor(name) for name in _TENSORS}
        notes = dict(reader.metadata() or {})
    notes["text"] = (SMOLLM2 / "README.md").read_text(encoding="utf-8")
    return SmolLM2(name="smollm2-135m", provenance=notes, **tensors)


def _uniform(shape: tuple[int, int], g: torch.Generator) -> torch.Tensor:
    return torch.rand(shape, generator=g).mul_(2).sub_(1)


def _heavy_tail(shape: tuple[int, int], g: torch.Generator) -> torch.Tensor:
    # Student's t with 3 degrees of freedom: finite variance, no finite fourth moment.
    normal = torch.randn(shape, generator=g)
    chi2 = torch.zeros(shape)
    for _ in range(3):
        chi2 += torch.randn(shape, generator=g).square_()
    return normal.div_(chi2.div_(3).sqrt_().clamp_(min=1e-6))


def _normal(shape: tuple[int, int], g: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, generator=g)


# How each entry of hidden and weight is drawn, and in words what is done to `hidden` besides.
_DRAWS: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "normal": (_normal, "N(0, 1)"),
    "uniform": (_uniform, "uniform in [-1, 1)"),
    "outlier_channels": (_normal, "N(0, 1); every 512th channel of hidden times 50"),
    "heavy_tail": (_heavy_tail, "Student's t, 3 degrees of freedom"),
    "constant": (_normal, "hidden and weight all 0.25"),
    "linspace": (_normal, "hidden from -100 to 100 along the channels; weight N(0, 1)"),
    "cancellation": (_normal, "hidden repeats (big, 3, -big, 7); weight all 1"),
}
DISTRIBUTIONS = tuple(_DRAWS)


def _fill(out: torch.Tensor, draw: Callable[..., torch.Tensor], g: torch.Generator) -> None:
    # Whole rows at a time: with H a multiple of 16 the numbers are those of one draw.
    step = max(1, _CHUNK // max(1, out.shape[1]))
    for piece in out.split(step):
        piece.copy_(draw(tuple(piece.shape), g))


def qwen3(
    rows: int = 59,
    vocab: int = QWEN3_VOCAB,
    hidden_size: int = QWEN3_HIDDEN,
    distribution: str = "normal",
    dtype: torch.dtype = torch.bfloat16,
    seed: int = 0,
) -> LMHeadSample:
    """A synthetic LM head of the shape of Qwen3-8B's: H 4096, V up to 151,936, no bias.

    hidden, weight and target are drawn in this order from one `torch.Generator` with `seed`, fp32
    and then rounded to `dtype`, some rows at a time: no fp32 copy of the weight is made. "normal"
    in fp32 is `torch.randn(rows, H)`, then `torch.randn(vocab, H)`, of that generator.

    Args:
        rows: Number of hidden states N.
        vocab: Rows of the weight V.
        hidden_size: H.
        distribution: "normal", "uniform", "outlier_channels", "heavy_tail", "constant",
            "linspace" or "cancellation"; `provenance["distribution_text"]` says what it is.
        dtype: fp32, bf16 or fp16, of hidden and weight.
        seed: Of the generator.

    Returns:
        hidden [N, H], weight [V, H], target [N] int64 in 0..V-1, vocab_id [V] int64 (0..V-1).

    Raises:
        InputError: Unknown distribution or dtype, or a size that is negative (or V = 0).

    Example:
        >>> qwen3(rows=4, vocab=257, dtype=torch.float32).weight.shape
        torch.Size([257, 4096])
    """
    if distribution not in _DRAWS:
        raise InputError(f"distribution {distribution!r} is unknown; known: {DISTRIBUTIONS}")
    if dtype not in NAMES:
        raise InputError(
            f"dtype {dtype} is not one of an LM head; give one of {', '.join(map(str, NAMES))}"
        )
    if rows < 0 or hidden_size < 0 or vocab < 1:
        raise InputError(
            f"rows={rows}, vocab={vocab}, hidden_size={hidden_size}: sizes are not negative, and "
            "a target needs vocab >= 1"
        )
    g = torch.Generator().manual_seed(seed)
    draw, text = _DRAWS[distribution]
    hidden = torch.empty(rows, hidden_size, dtype=dtype)
    weight = torch.empty(vocab, hidden_size, dtype=dtype)
    _fill(hidden, draw, g)
    if distribution == "constant":
        hidden.fill_(0.25)
        weight.fill_(0.25)
    elif distribution == "cancellation":
        big = 1e20 if dtype != torch.float16 else 6e4
        pattern = torch.tensor([big, 3, -big, 7]).repeat(math.ceil(hidden_size / 4))
        hidden.copy_(pattern[:hidden_size].expand_as(hidden))
        weight.fill_(1)
    else:
        if distribution == "outlier_channels":
            hidden[:, ::512] *= 50
        elif distribution == "linspace":
            hidden.copy_(torch.linspace(-100, 100, hidden_size).expand_as(hidden))
        _fill(weight, draw, g)
    return LMHeadSample(
        name=f"qwen3-{distribution}",
        hidden=hidden,
        weight=weight,
        target=torch.randint(vocab, (rows,), generator=g),
        vocab_id=torch.arange(vocab),
        provenance={
            "model": "synthetic, the shape of Qwen3-8B's LM head",
            "distribution": distribution,
            "distribution_text": text,
            "seed": seed,
            "torch": torch.__version__,
        },
    )
