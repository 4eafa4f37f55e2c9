"""What `workbench check` runs: for each operator its inputs, its exact results, and who computes.

The exact results are written out in fp64 here, apart from every implementation that is checked and
from autograd.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from workbench.build.config import KernelConfig, spec
from workbench.errors import InputError
from workbench.numerics.exact import exact_linear, exact_product
from workbench.numerics.linear_logp_bounds import Heights, linear_logp_bounds

IGNORED = -100
OPS = {
    "lm_head": ("lm_head", "LMHeadOp"),
    "batch_invariant_logp": ("logp", "BatchInvariantLogpOp"),
    "det_gemm": ("det_gemm", "DetGemmOp"),
    "linear_logp": ("linear_logp", "LinearLogpOp"),
}
CANDIDATES = ("ascend", "pytorch", "module:callable")


@dataclass(frozen=True)
class Truth:
    """The exact value of one output, fp64, with the sums of |x w| and a derived bound if any."""

    exact: torch.Tensor
    scale: torch.Tensor | None = None
    bound: torch.Tensor | None = None


@dataclass(frozen=True)
class Case:
    """One call of an operator.

    Attributes:
        name: For example "lm_head-bias-torch.float32-2x16x4096x257".
        inputs: By name, in the order of the operator's arguments.
        wrt: Names of the inputs that have a gradient.
        outputs: Names of the outputs; "" for an operator's only one.
        truth: From the upstream gradients (one for each output, or None: no gradients) to the exact
            value of each output and of "gradient:NAME" for each of `wrt`.
        options: Keywords that only operators of ours are given.
        ours_only: A case that a user's callable is not asked for.
    """

    name: str
    inputs: dict[str, torch.Tensor]
    wrt: tuple[str, ...]
    outputs: tuple[str, ...]
    truth: Callable[[list[torch.Tensor] | None], dict[str, Truth]]
    options: dict[str, Any] = field(default_factory=dict)
    ours_only: bool = False


@dataclass(frozen=True)
class Draw:
    """Which inputs to make; fields as in `check`."""

    dtype: torch.dtype
    batch: int
    seq: int
    vocab: int
    normalized_dim: int
    input_mode: str
    constant_value: float
    token_value: int
    seed: int

    def numbers(self) -> Callable[..., torch.Tensor]:
        """A function from a shape to a tensor of the dtype; the seed decides the sequence."""
        generator = torch.Generator().manual_seed(self.seed)

        def make(*shape: int) -> torch.Tensor:
            if self.input_mode == "constant":
                return torch.full(shape, self.constant_value).to(self.dtype)
            return torch.randn(shape, generator=generator).to(self.dtype)

        return make

    def target(self, ignore: bool = False) -> torch.Tensor:
        """[batch, seq] int64 vocabulary ids; with `ignore` every third one is ignored."""
        shape = (self.batch, self.seq)
        if self.input_mode == "constant":
            ids = torch.full(shape, self.token_value)
        else:
            # Its own generator: the same targets whatever else is drawn.
            ids = torch.randint(
                self.vocab, shape, generator=torch.Generator().manual_seed(self.seed)
            )
        if ignore:
            ids.view(-1)[::3] = IGNORED
        return ids

    def name(self, op: str, variant: str, *shape: int) -> str:
        parts = [op, *([variant] if variant else []), str(self.dtype), "x".join(map(str, shape))]
        return "-".join(parts)


def cases(op: str, draw: Draw, heights: Heights | None = None) -> list[Case]:
    """The cases of an operator. `heights`: of linear_logp's sums, for its bound."""
    make = {
        "lm_head": _lm_head,
        "batch_invariant_logp": _logp,
        "det_gemm": _det_gemm,
        "linear_logp": _linear_logp,
    }[op]
    return make(draw) if heights is None else _linear_logp(draw, heights)


def _lm_head(draw: Draw) -> list[Case]:
    found = []
    for variant in ("", "bias"):
        make = draw.numbers()
        hidden = make(draw.batch, draw.seq, draw.normalized_dim)
        weight = make(draw.vocab, draw.normalized_dim)
        inputs = {"hidden": hidden, "weight": weight}
        if variant:
            inputs["bias"] = make(draw.vocab)

        def truth(upstream, hidden=hidden, weight=weight, inputs=inputs):
            bias = inputs.get("bias")
            rows = hidden.reshape(-1, hidden.shape[-1])
            logits = exact_linear(rows, weight, bias)
            known = {"": Truth(*(t.reshape(*hidden.shape[:-1], len(weight)) for t in logits))}
            if upstream is None:
                return known
            g = upstream[0].reshape(len(rows), -1)
            known["gradient:hidden"] = _shaped(exact_product(g, weight.T), hidden)
            known["gradient:weight"] = _shaped(exact_product(g.T, rows.T), weight)
            if bias is not None:
                known["gradient:bias"] = _shaped(exact_product(g.T, torch.ones(1, len(g))), bias)
            return known

        shape = (draw.batch, draw.seq, draw.normalized_dim, draw.vocab)
        name = draw.name("lm_head", variant, *shape)
        found.append(Case(name, inputs, tuple(inputs), ("",), truth))
    return found


def _shaped(pair: tuple[torch.Tensor, torch.Tensor], like: torch.Tensor) -> Truth:
    return Truth(*(t.reshape(like.shape) for t in pair))


def _logp(draw: Draw) -> list[Case]:
    found = []
    for variant in ("", "ignore", "lse"):
        logits = draw.numbers()(draw.batch, draw.seq, draw.vocab)
        target = draw.target(ignore=variant != "")

        def truth(upstream, logits=logits, target=target, lse_too=variant == "lse"):
            x = logits.double()
            keep = target != IGNORED
            at = target.where(keep, torch.zeros_like(target))[..., None]
            lse = torch.logsumexp(x, -1)
            logp = x.gather(-1, at)[..., 0] - lse
            zero = torch.zeros_like(lse)
            known = {"": Truth(torch.where(keep, logp, zero))}
            if lse_too:
                known["lse"] = Truth(torch.where(keep, lse, zero))
            if upstream is None:
                return known
            weights = [torch.where(keep, g.double(), zero)[..., None] for g in upstream]
            p = torch.exp(x - lse[..., None])
            hit = torch.zeros_like(x).scatter_(-1, at, 1.0)
            grad = weights[0] * (hit - p)
            if lse_too:
                grad = grad + weights[1] * p
            known["gradient:logits"] = Truth(grad)
            return known

        shape = (draw.batch, draw.seq, draw.vocab)
        found.append(
            Case(
                draw.name("batch_invariant_logp", variant, *shape),
                {"logits": logits, "target": target},
                ("logits",),
                ("", "lse") if variant == "lse" else ("",),
                truth,
                {"return_lse": True} if variant == "lse" else {},
                ours_only=variant == "lse",
            )
        )
    return found


def _det_gemm(draw: Draw) -> list[Case]:
    make = draw.numbers()
    rows = draw.batch * draw.seq
    a, b = make(rows, draw.normalized_dim), make(draw.normalized_dim, draw.vocab)

    def truth(upstream):
        known = {"": Truth(*exact_product(a, b.T))}
        if upstream is not None:
            g = upstream[0]
            known["gradient:a"] = Truth(*exact_product(g, b))
            known["gradient:b"] = Truth(*exact_product(a.T, g.T))
        return known

    name = draw.name("det_gemm", "", rows, draw.normalized_dim, draw.vocab)
    return [Case(name, {"a": a, "b": b}, ("a", "b"), ("",), truth)]


def _linear_logp(draw: Draw, heights: Heights | None = None) -> list[Case]:
    found = []
    shape = (draw.batch, draw.seq, draw.normalized_dim, draw.vocab)
    any_order = Heights.any_order(draw.batch * draw.seq, draw.normalized_dim, draw.vocab)
    for variant in ("", "bias"):
        make = draw.numbers()
        inputs = {
            "hidden": make(draw.batch, draw.seq, draw.normalized_dim),
            "weight": make(draw.vocab, draw.normalized_dim),
            "target": draw.target(),
        }
        if variant:
            inputs["bias"] = make(draw.vocab)

        def truth(upstream, inputs=inputs):
            known = linear_logp_bounds(
                **inputs,
                upstream=None if upstream is None else upstream[0],
                heights=heights or any_order,
            )
            return {
                # The ULP of a gradient's sum says nothing: its terms carry the logits' error.
                "" if name == "logp" else f"gradient:{name}": Truth(
                    value.exact, value.scale if name == "logp" else None, value.bound
                )
                for name, value in known.items()
            }

        wrt = tuple(name for name in inputs if name != "target")
        found.append(Case(draw.name("linear_logp", variant, *shape), inputs, wrt, ("",), truth))
    return found


# ---- who computes --------------------------------------------------------------------------------


def native(op: str) -> Any:
    """The reference of an operator."""
    return getattr(importlib.import_module("workbench.ops.native"), f"Native{OPS[op][1]}")()


def ascend(op: str, config: KernelConfig | None, backend: str) -> Any:
    """The operator of ours, by its class: the registry's overrides must not replace a candidate."""
    module, name = OPS[op]
    made = getattr(importlib.import_module(f"workbench.ops.{module}"), f"Ascend{name}")
    if op != "linear_logp":
        return made(config, backend=backend)
    return made(config, logp_config=_logp_config(config), backend=backend)


def _logp_config(config: KernelConfig | None) -> KernelConfig | None:
    """The log-prob kernel beside an LM head: its architecture and block count."""
    if config is None:
        return None
    blocks = {k: v for k, v in config.constants if k == "max_blocks"}
    return KernelConfig(arch=config.arch, switches=dict(config.switches), **blocks)


def heights_of(config: KernelConfig | None, draw: Draw) -> Heights:
    """Heights of the sums in our `linear_logp`, from the orders its kernels declare."""
    from workbench.build import arch as architectures
    from workbench.orders.declared import lm_head_order

    head = spec("lm_head").complete(config)
    logp = spec("batch_invariant_logp").complete(_logp_config(config))
    arch = architectures.load(head.arch)
    # The sum of exponentials is tiled as a logit is: ReduceSum of a tile, tiles one by one.
    tile = getattr(logp, spec("batch_invariant_logp").raw["ub"]["tile"].lower())
    leaf = spec("det_gemm").complete(KernelConfig(arch=head.arch)).leaf_length
    return Heights(
        logits=lm_head_order(draw.normalized_dim, head.tile_length, arch).height,
        softmax=lm_head_order(draw.vocab, tile, arch).height,
        grad_hidden=gemm_height(draw.vocab, leaf),
        grad_weight=gemm_height(draw.batch * draw.seq, leaf),
    )


def gemm_height(depth: int, leaf_length: int) -> int:
    """Height of det_gemm's order: one after the other in a leaf, then a balanced tree of leaves.

    Example:
        >>> gemm_height(128, 128), gemm_height(257, 128)
        (127, 129)
    """
    leaves = -(-depth // leaf_length)
    return max(min(depth, leaf_length) - 1, 0) + max(leaves - 1, 0).bit_length()


def sequence(op: str, kind: str, config: KernelConfig | None, backend: str) -> Callable | None:
    """For linear_logp the two operators one after the other, whose bits it must have; else None."""
    if op != "linear_logp":
        return None
    if kind == "ascend":
        head = ascend("lm_head", config, backend)
        logp = ascend("batch_invariant_logp", _logp_config(config), backend)
    else:
        head, logp = plain_torch("lm_head"), plain_torch("batch_invariant_logp")

    def both(hidden, weight, target, bias=None):
        return logp(head(hidden, weight, bias), target)

    return both


def plain_torch(op: str) -> Callable:
    """What a user of torch writes: the batch as a whole, in torch's own order."""

    def linear(hidden, weight, bias=None):
        return F.linear(hidden, weight, bias)

    def logp(logits, target, return_lse=False):
        keep = target != IGNORED
        at = target.where(keep, torch.zeros_like(target))[..., None]
        wide = logits.float()
        picked = torch.log_softmax(wide, -1).gather(-1, at)[..., 0]
        picked = torch.where(keep, picked, torch.zeros_like(picked))
        if not return_lse:
            return picked
        lse = torch.logsumexp(wide, -1)
        return picked, torch.where(keep, lse, torch.zeros_like(lse))

    def both(hidden, weight, target, bias=None):
        return logp(linear(hidden, weight, bias), target)

    known: dict[str, Callable] = {
        "lm_head": linear,
        "batch_invariant_logp": logp,
        "det_gemm": torch.matmul,
        "linear_logp": both,
    }
    return known[op]


def load_callable(name: str) -> Callable:
    """The callable that "module:callable" names; a class is made without arguments.

    The current folder is searched for the module first, as with `python -m`.

    Raises:
        InputError: No such form, module or callable.

    Example:
        >>> load_callable("torch:matmul") is torch.matmul
        True
    """
    module, _, path = name.partition(":")
    if not module or not path:
        raise InputError(f"candidate {name!r} is unknown; known ones are {', '.join(CANDIDATES)}")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script leaves it out
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"candidate {name}: cannot import {module}: {error}") from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise InputError(f"candidate {name}: {module} has no callable {path}")
    return found() if isinstance(found, type) else found
