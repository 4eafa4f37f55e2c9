"""How far a correct `linear_logp` can be from the exact log-prob: bounds from its sums' order.

The contract's cell for log-probs is absolute. Log-probs of logits of size 64 are beyond it in fp32
in any order of summation, so a verdict on `linear_logp` rests on what follows from the heights of
its sums, or where the order is not known from the partial sums of the sequential one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from workbench.errors import InputError
from workbench.numerics.bounds import parts
from workbench.numerics.exact import exact_linear, exact_product
from workbench.ops.inputs import IGNORE_INDEX

U = parts.U
TINY = 2.0**-149  # smallest subnormal of fp32; a product or an exp that underflows loses less
FUNCTION = 2 * U  # Exp and Ln within one ulp
RUN = 16  # products of a logit between two partial sums that are computed


@dataclass(frozen=True)
class Heights:
    """Heights of the trees of additions: edges on the longest path from a term to its sum.

    Attributes:
        logits: Of a logit, over H products.
        softmax: Of the sum of exponentials, over V.
        grad_hidden: Of an element of the hidden state's gradient, over V products.
        grad_weight: Of an element of the weight's and the bias's gradient, over the N rows.
    """

    logits: int
    softmax: int
    grad_hidden: int
    grad_weight: int

    @classmethod
    def any_order(cls, rows: int, width: int, vocab: int) -> Heights:
        """The largest heights there are: a sum of n terms one after the other has n - 1."""
        return cls(*(max(n - 1, 0) for n in (width, vocab, vocab, rows)))


class Bounded(NamedTuple):
    """An exact result with what bounds its error: fp64 tensors of one shape.

    Attributes:
        exact: The values.
        bound: The most a correct kernel can be off.
        scale: Sum of the absolute values of the terms; of a log-prob the largest one of its logits.
    """

    exact: torch.Tensor
    bound: torch.Tensor
    scale: torch.Tensor


def gamma(k: int) -> float:
    """k u / (1 - k u) of fp32: the relative error of k roundings in a row.

    Raises:
        InputError: k u >= 1, where nothing is known.

    Example:
        >>> gamma(1) > 2**-24, gamma(0)
        (True, 0.0)
    """
    return float(parts.gamma(np.array(k)))


def linear_logp_bounds(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    upstream: torch.Tensor | None = None,
    *,
    heights: Heights,
    running: bool = False,
    ignore_index: int = IGNORE_INDEX,
) -> dict[str, Bounded]:
    """Exact values of `linear_logp` and its gradients, and a bound on the error of each element.

    With z the exact logits, S_v the sum of |x w| (+ |b|) of logit v, h the heights, u = 2^-24,
    u_d the unit roundoff of a 16-bit dtype (0 for fp32), γ_k = k u / (1 - k u):

    1. A logit is off by e_v = γ_{h+1} S_v (h additions, one product; with a bias one addition
       more), then by u_d |z_v| for its rounding. E is the largest e_v of the row.
    2. The log-sum-exp of moved logits moves by E at most. On top comes its arithmetic: the
       argument of an exponential is rounded (u |z_v - m|), Exp and Ln are within one ulp (2u), and
       the sum of positive terms has relative error γ_h. So s is off by the factor 1 + ρ,
       1 + ρ = (1 + γ_h) (1 + e^{2E} Σ p_v δ_v), δ_v = e^{u (|z_v - m| + 2E)} (1 + 2u) - 1, and
       ln s by L = -ln(1 - ρ) + 2u (ln s + 2E + ρ). e^{2E} pays for taking p_v of exact logits; the
       largest δ_v is in the sum's place where that is less, as it is for a large E.
    3. logp = (z_t - m) - ln s: off by e_t + E + u |z_t - m| + L, and one rounding of the result.
    4. p_v = exp(z_v - lse) is off by p_v (e^{ε_v} (1 + 2u) - 1), where ε_v is the error of its
       argument, and by 1 + 2u at most: s has the term exp(0) = 1, so no computed log-sum-exp is
       below a computed logit, and no argument above 0. The gradient of a logit,
       g ([v = t] - p_v), is off by |g| times that, three roundings, and u_d for its rounding: B_v.
    5. The gradients are sums over v and over rows: B times |w| or |x|, γ_{h+1} of the sum of
       absolute values, and u_d for the last rounding.

    With `running` step 1 takes e_v = u (Σ|s_k| + Σ|p_i|) instead, with p_i the products of logit v
    and s_k their partial sums in ascending order, each with and without the bias: about a hundredth
    of γ_{h+1} S_v for 4096 products of both signs. It holds to first order, for the sequential sum
    and for others whose partial sums are no larger (blocks, lanes, trees); a correct sum in an
    order that makes them large, for example all positive products first, can exceed it. Between
    every 16 products s_k is bounded by the last one known plus the |p_i| since. The sums of
    exponentials and of gradients keep γ of `heights`: their terms differ so much in size that the
    place of the largest, which an order is free to choose, decides their partial sums; and beside
    the logits' error they count little.

    Args:
        hidden: [..., H] fp32, bf16 or fp16.
        weight: [V, H] of the same dtype.
        target: [...] integers.
        bias: [V] or None.
        upstream: [...] gradient of the log-probs; None: no gradients.
        heights: Of the sums.
        running: Whether the logits' error is that of the partial sums instead of the height.
        ignore_index: Rows with this target have log-prob 0 and no gradient, exactly.

    Returns:
        By name: "logp" [...], and with `upstream` "hidden" [..., H], "weight" [V, H] and, with a
        bias, "bias" [V].

    Raises:
        InputError: A target outside [0, V).

    Example:
        >>> x, w, t = torch.ones(1, 8), torch.ones(2, 8), torch.tensor([1])
        >>> found = linear_logp_bounds(x, w, t, heights=Heights.any_order(1, 8, 2))
        >>> exact, bound, scale = found["logp"]
        >>> round(float(exact), 6), bool(bound > 0), float(scale)
        (-0.693147, True, 8.0)
    """
    lead, width = hidden.shape[:-1], hidden.shape[-1]
    rows = hidden.detach().cpu().reshape(lead.numel(), width)
    ids = target.detach().cpu().reshape(-1).long()
    active = ids != ignore_index
    if bool(((ids < 0) | (ids >= len(weight)))[active].any()):
        raise InputError(f"a target is outside [0, {len(weight)}) and not {ignore_index}")
    at = torch.where(active, ids, torch.zeros_like(ids))[:, None]
    low = _Rounding.of(hidden.dtype)

    z, scale = exact_linear(rows, weight, bias)
    e = gamma(heights.logits + 1 + (bias is not None)) * scale
    if running:
        e = U * (_partial_sums(rows, weight, bias) + scale)
    e = e + width * TINY
    e = e + low(z.abs() + e)
    p, (most, _, lse, ln) = torch.softmax(z, 1), _log_sum_exp(z, e, heights.softmax)
    logp, bound = (t[:, None] for t in log_prob_bound(z, e, at[:, 0], heights.softmax))
    keep = active[:, None]
    zero = torch.zeros_like(logp)
    found = {
        "logp": Bounded(
            torch.where(keep, logp, zero).reshape(lead),
            torch.where(keep, bound, zero).reshape(lead),
            scale.amax(1).reshape(lead),
        )
    }
    if upstream is None:
        return found

    g = torch.where(keep, upstream.detach().cpu().double().reshape(-1, 1), zero)
    hit = torch.zeros_like(z).scatter_(1, at, 1.0)
    off_lse = most + ln + U * (lse.abs() + most + ln)
    argument = e + off_lse
    argument = argument + U * ((z - lse).abs() + argument)
    # (Capped before the product: e^710 is Inf, which times a p of zero would be NaN.)
    grown = torch.expm1(argument.clamp(max=700.0)) * (1 + FUNCTION) + FUNCTION
    off_p = (p * grown + TINY).where(argument <= 700, torch.full_like(p, 1 + FUNCTION))
    off_p = off_p.clamp(max=1 + FUNCTION)
    grad = g * (hit - p)
    off = g.abs() * (off_p * (1 + 2 * U) + 3 * U * (p + hit))
    off = off + torch.where(g == 0, torch.zeros_like(off), low(grad.abs() + off))

    found["hidden"] = _product(grad, off, weight.T, heights.grad_hidden, low, hidden.shape)
    found["weight"] = _product(grad.T, off.T, rows.T, heights.grad_weight, low, weight.shape)
    if bias is not None:
        ones = torch.ones(1, len(rows), dtype=torch.float64)
        found["bias"] = _product(grad.T, off.T, ones, heights.grad_weight, low, bias.shape)
    return found


def log_prob_bound(
    logits: torch.Tensor, off: torch.Tensor, target: torch.Tensor, height: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Exact log-probs and how far computed ones may be off, for logits that are off themselves.

    Steps 2 and 3 of `linear_logp_bounds`, for any bound on the logits: 0 for logits that are
    inputs, `bounds` for computed ones.

    Args:
        logits: fp64 [N, V], exact.
        off: fp64 [N, V], how far each computed logit may be from it.
        target: int64 [N], in [0, V).
        height: Of the tree that adds the exponentials.

    Returns:
        (logp, bound), both fp64 [N]. Inf where the logits are so large that rounding them may
        change an exponential by as much as itself.

    Example:
        >>> z = torch.zeros(1, 2, dtype=torch.float64)
        >>> logp, bound = log_prob_bound(z, 0 * z, torch.tensor([1]), 1)
        >>> round(float(logp), 6), 0 < float(bound) < 2**-20
        (-0.693147, True)
    """
    at = target[:, None]
    most, depth, lse, ln = _log_sum_exp(logits, off, height)
    logp = logits.gather(1, at) - lse
    bound = off.gather(1, at) + most + U * depth.gather(1, at) + ln
    bound = bound + U * (logp.abs() + bound)
    return logp[:, 0], bound[:, 0]


def _log_sum_exp(
    z: torch.Tensor, off: torch.Tensor, height: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(E, |z - m| + 2 E, log-sum-exp, L) of step 2: fp64 [N, 1], the second one [N, V]."""
    most = off.amax(1, keepdim=True)
    top = z.amax(1, keepdim=True)
    depth = (top - z).abs() + 2 * most
    delta = torch.expm1(U * depth) * (1 + FUNCTION) + FUNCTION
    rho = torch.exp(2 * most) * (torch.softmax(z, 1) * delta).sum(1, keepdim=True)
    # A mean is at most the largest; 0 * Inf, a p that vanishes in fp64, says nothing.
    rho = torch.fmin(rho, delta.amax(1, keepdim=True))
    rho = gamma(height) * (1 + rho) + rho + z.shape[1] * TINY
    lse = torch.logsumexp(z, 1, keepdim=True)
    log_s = (lse - top).abs() + 2 * most + rho
    unknown = torch.full_like(rho, torch.inf)
    ln = torch.where(rho < 1, -torch.log1p(-rho), unknown) + FUNCTION * log_s
    return most, depth, lse, ln


def _partial_sums(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """No less than Σ|s_k| over the partial sums of each logit in ascending order, fp64 [N, V]."""
    width, found = rows.shape[1], torch.empty(len(rows), len(weight), dtype=torch.float64)
    # Product i of a run is in each partial sum from its own to the last of the run.
    place = torch.arange(width)
    left = torch.minimum(RUN - place % RUN, width - place).double()
    x = rows.double()
    counted = x.abs() * left
    for start in range(0, len(weight), 1024):  # a part that stays in the processor's cache
        ids = slice(start, start + 1024)
        w = weight.detach()[ids].cpu().double()
        sizes, partial = counted @ w.abs().T, torch.zeros(len(x), len(w), dtype=torch.float64)
        for at in range(0, width, RUN):
            run = slice(at, min(at + RUN, width))
            sizes.add_(partial.abs(), alpha=run.stop - at)
            partial.addmm_(x[:, run], w[:, run].T)
        if bias is not None:  # added at the end, or what the sum starts from
            wide = bias.detach()[ids].cpu().double()
            sizes += wide.abs() * width + (partial + wide).abs()
        found[:, ids] = sizes
    return found


def _product(
    values: torch.Tensor,
    off: torch.Tensor,
    other: torch.Tensor,
    height: int,
    low: _Rounding,
    shape: torch.Size,
) -> Bounded:
    """Exact `values @ other.T` and the bound for `values` off by `off` and an fp32 sum."""
    exact, scale = exact_product(values, other)
    moved, _ = exact_product(off, other.abs())
    bound = moved + gamma(height + 1) * (scale + moved)
    bound = bound + low(exact.abs() + bound)
    return Bounded(exact.reshape(shape), bound.reshape(shape), scale.reshape(shape))


@dataclass(frozen=True)
class _Rounding:
    """The error of one rounding to a 16-bit dtype; none for fp32, which rounds nothing more.

    Finite also for a value too large for fp16 (65,520 and above), which rounds to Inf: the bound is
    on the finite results, and whether one may overflow is not its question.
    """

    unit: float
    tiny: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> _Rounding:
        if dtype == torch.float32:
            return cls(0.0, 0.0)
        info = torch.finfo(dtype)
        return cls(info.eps / 2, info.smallest_normal * info.eps / 2)

    def __call__(self, size: torch.Tensor) -> torch.Tensor:
        return self.unit * size + self.tiny
