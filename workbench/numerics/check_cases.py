"""What `workbench check` runs: for each operator its inputs, its exact results, and who computes.

The exact results are written out in fp64 here, apart from every implementation that is checked and
from autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

from workbench.build.config import KernelConfig
from workbench.numerics.bounds.linear_logp import Heights, linear_logp_bounds
from workbench.numerics.exact import exact_linear, exact_product
from workbench.ops import registry
from workbench.ops.inputs import IGNORE_INDEX
from workbench.ops.variant import config_for
from workbench.orders import declared_order

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
            ids.view(-1)[::3] = IGNORE_INDEX
        return ids

    def name(self, op: str, variant: str, *shape: int) -> str:
        parts = [op, *([variant] if variant else []), str(self.dtype), "x".join(map(str, shape))]
        return "-".join(parts)


def cases(op: str, draw: Draw, heights: Heights | None = None) -> list[Case]:
    """The cases of an operator. `heights`: of linear_logp's sums, for its bound; None: their order
    is not known, and the bound is that of the sequential one's partial sums."""
    make = {
        "lm_head": _lm_head,
        "batch_invariant_logp": _logp,
        "det_gemm": _det_gemm,
        "linear_logp": _linear_logp,
    }[op]
    return make(draw) if heights is None else _linear_logp(draw, heights)


def least_bytes(op: str, batch: int, seq: int, vocab: int, normalized_dim: int) -> int:
    """Bytes that a check of these sizes needs at the least: the inputs as they are drawn, and the
    exact results with their sums of |x w|.

    Example:
        >>> least_bytes("batch_invariant_logp", 2, 16, 257, 4096)
        33408
    """
    rows = batch * seq
    if op == "batch_invariant_logp":
        return 4 * rows * vocab + 16 * rows
    return 4 * (rows + vocab) * normalized_dim + 16 * rows * vocab


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
            keep = target != IGNORE_INDEX
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
                running=heights is None,
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
    return registry.class_of(op, "native")()


def ascend(op: str, config: KernelConfig | None, backend: str) -> Any:
    """The operator of ours, by its class: the registry's overrides must not replace a candidate."""
    return registry.class_of(op, "ascend")(config, backend=backend)


def heights_of(config: KernelConfig | None, draw: Draw) -> Heights:
    """Heights of the sums in our `linear_logp`, from the orders its kernels declare."""

    def height(op: str, terms: int) -> int:
        return declared_order(op, config_for(op, config), terms).height

    return Heights(
        logits=declared_order("lm_head", config or KernelConfig(), draw.normalized_dim).height,
        softmax=height("batch_invariant_logp", draw.vocab),
        grad_hidden=height("det_gemm", draw.vocab),
        grad_weight=height("det_gemm", draw.batch * draw.seq),
    )


def sequence(op: str, kind: str, config: KernelConfig | None, backend: str) -> Callable | None:
    """For linear_logp the two operators one after the other, whose bits it must have; else None."""
    if op != "linear_logp":
        return None
    if kind == "ascend":
        head = ascend("lm_head", config, backend)
        beside = config_for("batch_invariant_logp", config)
        logp = ascend("batch_invariant_logp", beside, backend)
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
        keep = target != IGNORE_INDEX
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
