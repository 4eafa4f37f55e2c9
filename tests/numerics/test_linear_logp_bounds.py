"""The bound on linear_logp: correct evaluations keep it, wrong ones do not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from workbench.build.config import KernelConfig
from workbench.errors import InputError
from workbench.numerics.bounds.linear_logp import (
    Heights,
    U,
    _partial_sums,
    gamma,
    linear_logp_bounds,
    log_prob_bound,
)
from workbench.numerics.check_cases import Draw, heights_of
from workbench.numerics.exact import exact_product
from workbench.orders import declared_order

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def draw(rows, width, vocab, dtype, spread=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    hidden = (torch.randn(rows, width, generator=g) * spread).to(dtype)
    weight = torch.randn(vocab, width, generator=g).to(dtype)
    bias = torch.randn(vocab, generator=g).to(dtype)
    target = torch.randint(vocab, (rows,), generator=g)
    return hidden, weight, bias, target, torch.randn(rows, generator=g)


def plain(hidden, weight, target, bias, upstream):
    """log-probs and gradients by torch in the dtype; its order is its own."""
    leaves = [t.clone().requires_grad_() for t in (hidden, weight, bias)]
    logits = F.linear(*leaves).float()
    logp = torch.log_softmax(logits, -1).gather(-1, target[:, None])[:, 0]
    grads = torch.autograd.grad(logp, leaves, upstream)
    return dict(zip(("logp", "hidden", "weight", "bias"), (logp.detach(), *grads), strict=True))


def ratios(got, found):
    return {
        name: float(((got[name].double() - value.exact).abs() / value.bound).max())
        for name, value in found.items()
    }


SHAPES = [(3, 64, 17), (5, 700, 131), (1, 8, 3), (9, 1, 2)]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spread", [0.01, 1.0, 8.0])
def test_torch_keeps_the_bound_of_any_order(dtype, shape, spread):
    hidden, weight, bias, target, up = draw(*shape, dtype, spread)
    heights = Heights.any_order(*shape)
    found = linear_logp_bounds(hidden, weight, target, bias, up, heights=heights)
    got = plain(hidden, weight, target, bias, up)
    assert max(ratios(got, found).values()) <= 1
    assert all((value.bound > 0).all() for value in found.values())


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("spread", [60.0, 2000.0])
def test_the_bound_stays_a_number_where_logits_are_off_by_much(dtype, spread):
    """e^{2E} is beyond 1 / 2u, or Inf, where the logits' own error is tens or thousands."""
    hidden, weight, bias, target, up = draw(4, 700, 131, torch.float32, spread)
    hidden, weight, bias = (t.clamp(-400, 400).to(dtype) for t in (hidden, weight, bias))
    found = linear_logp_bounds(
        hidden, weight, target, bias, up, heights=Heights.any_order(4, 700, 131)
    )
    for name, value in found.items():
        assert value.bound.isfinite().all() and (value.bound > 0).all(), name
        assert (value.bound < 1e4 * (value.scale + 1)).all(), name
    if dtype == torch.float32:  # an fp16 logit would overflow
        assert max(ratios(plain(hidden, weight, target, bias, up), found).values()) <= 1


def test_exact_values_agree_with_autograd_in_fp64():
    hidden, weight, bias, target, up = draw(5, 70, 13, torch.float32)
    heights = Heights.any_order(5, 70, 13)
    found = linear_logp_bounds(hidden, weight, target, bias, up, heights=heights)
    wide = plain(hidden.double(), weight.double(), target, bias.double(), up.double())
    # `plain` rounds the logits to fp32: their own error is far inside the bound.
    assert max(ratios(wide, found).values()) < 1
    leaves = [t.double().requires_grad_() for t in (hidden, weight, bias)]
    logp = torch.log_softmax(F.linear(*leaves), -1).gather(-1, target[:, None])[:, 0]
    grads = torch.autograd.grad(logp, leaves, up.double())
    for value, want in zip(found.values(), (logp.detach(), *grads), strict=True):
        # fp64 both: hundreds of roundings of 2^-53 are nothing against one of 2^-24.
        assert ((value.exact - want).abs() <= 2.0**-20 * value.bound).all()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_a_wrong_result_is_beyond_it(dtype):
    """A term of 700 dropped, a neighbour's target, a swapped sign, a bias forgotten."""
    hidden, weight, bias, target, up = draw(5, 700, 131, dtype)
    heights = Heights.any_order(5, 700, 131)
    found = linear_logp_bounds(hidden, weight, target, bias, up, heights=heights)
    dropped = weight.clone()
    dropped[:, 350] = 0
    wrong = {
        "dropped": plain(hidden, dropped, target, bias, up),
        "target": plain(hidden, weight, (target + 1) % 131, bias, up),
        "bias": plain(hidden, weight, target, bias * 0, up),
    }
    for name, got in wrong.items():
        assert min(ratios(got, found).values()) > 1, name
    swapped = plain(hidden, weight, target, bias, -up)
    assert {name for name, ratio in ratios(swapped, found).items() if ratio > 1} == {
        *("hidden", "weight", "bias")
    }


def test_ignored_rows_are_exactly_zero():
    hidden, weight, _, target, up = draw(4, 16, 5, torch.bfloat16)
    target[1] = -100
    found = linear_logp_bounds(
        hidden, weight, target, upstream=up, heights=Heights.any_order(4, 16, 5)
    )
    assert set(found) == {"logp", "hidden", "weight"}
    assert found["logp"].exact[1] == found["logp"].bound[1] == 0
    assert (found["hidden"].exact[1] == 0).all()
    keep = torch.tensor([0, 2, 3])
    less = linear_logp_bounds(
        hidden[keep], weight, target[keep], upstream=up[keep], heights=Heights.any_order(4, 16, 5)
    )
    assert torch.equal(less["weight"].exact, found["weight"].exact)
    for bad in (5, -1):
        target[0] = bad
        with pytest.raises(InputError, match="outside"):
            linear_logp_bounds(hidden, weight, target, heights=Heights.any_order(4, 16, 5))


def test_a_shallow_order_has_a_smaller_bound():
    hidden, weight, bias, target, up = draw(4, 512, 64, torch.float32)
    deep = linear_logp_bounds(
        hidden, weight, target, bias, up, heights=Heights.any_order(4, 512, 64)
    )
    flat = linear_logp_bounds(hidden, weight, target, bias, up, heights=Heights(9, 6, 6, 2))
    for name, value in flat.items():
        assert (value.bound < deep[name].bound).all() and torch.equal(value.exact, deep[name].exact)


@pytest.mark.parametrize("width", [1, 15, 16, 17, 70, 700])
def test_partial_sums_are_not_less_than_those_of_the_sequential_order(width):
    hidden, weight, bias, _, _ = draw(3, width, 1030, torch.float32)  # more than one part of ids
    products = hidden.double()[:, None] * weight.double()
    sums = products.cumsum(-1)
    plain_sums, biased = _partial_sums(hidden, weight, None), _partial_sums(hidden, weight, bias)
    assert (plain_sums >= sums.abs().sum(-1) * (1 - 2.0**-40)).all()
    moved = sums + bias.double()[:, None]
    for taken in (moved, torch.cat([sums, moved[..., -1:]], -1)):  # the bias first, or last
        assert (biased >= taken.abs().sum(-1) * (1 - 2.0**-40)).all()
    # Of one sign they are what they are: 1 + 2 + … + n.
    ones = _partial_sums(torch.ones(1, width), torch.ones(1, width), None)
    assert ones.item() == width * (width + 1) / 2


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("spread", [0.01, 1.0, 8.0])
def test_torch_keeps_the_bound_of_partial_sums(dtype, shape, spread):
    hidden, weight, bias, target, up = draw(*shape, dtype, spread)
    heights = Heights.any_order(*shape)
    found = linear_logp_bounds(hidden, weight, target, bias, up, heights=heights, running=True)
    got = plain(hidden, weight, target, bias, up)
    assert max(ratios(got, found).values()) <= 1


def test_orders_keep_the_bound_of_partial_sums_and_it_is_a_tenth_of_any_order_s():
    hidden, weight, bias, target, _ = draw(4, 2048, 33, torch.float32)
    heights = Heights.any_order(4, 2048, 33)
    narrow = linear_logp_bounds(hidden, weight, target, bias, heights=heights, running=True)
    any_order = linear_logp_bounds(hidden, weight, target, bias, heights=heights)
    assert (10 * narrow["logp"].bound < any_order["logp"].bound).all()
    g = torch.Generator().manual_seed(3)
    for order in (torch.arange(2047, -1, -1), torch.randperm(2048, generator=g)):
        products = (hidden[:, None, :] * weight)[..., order]
        logits = torch.zeros(4, 33)
        for k in range(2048):  # one after the other in fp32
            logits = logits + products[..., k]
        logp = torch.log_softmax(logits + bias, -1).gather(-1, target[:, None])[:, 0]
        assert ratios({"logp": logp}, narrow)["logp"] <= 1


def test_heights_are_those_of_the_declared_orders():
    sizes = {"batch": 2, "seq": 16, "vocab": 257, "normalized_dim": 4096}
    config = KernelConfig(tile_length=1024, arch="dav-3510")
    for chosen in (None, config):
        made = Draw(torch.float32, **sizes, input_mode="random", constant_value=0.0, token_value=0,
                    seed=0)  # fmt: skip
        heights = heights_of(chosen, made)
        order = declared_order("lm_head", chosen or KernelConfig(tile_length=4096), 4096)
        assert heights.logits == order.height
        assert heights.grad_hidden == 127 + 2  # a leaf of 128 products, then three leaves
        assert heights.grad_weight == 31
        assert 0 < heights.softmax < 257
    assert Heights.any_order(1, 1, 1) == Heights(0, 0, 0, 0)


def test_gamma_and_the_exact_product():
    assert gamma(0) == 0 and gamma(1) > U and gamma(4096) < 4098 * U
    exact, scale = exact_product(torch.tensor([[3.0, -4.0]]), torch.tensor([[1.0, 1.0]]))
    assert (exact.item(), scale.item()) == (-1.0, 7.0)


@pytest.mark.parametrize("top", [1e8, 1e10, 1e30])
def test_where_nothing_can_be_promised_the_bound_is_inf_and_not_nan(top):
    z = torch.tensor([[0.0, top]], dtype=torch.float64)
    for off in (0 * z, z * U):
        for target in (0, 1):
            logp, bound = log_prob_bound(z, off, torch.tensor([target]), 1)
            assert bool(bound > 0) and float(logp) == (0 if target else -top)
    unknown = log_prob_bound(torch.full((1, 2), 1e30).double() * z.sign(), z, torch.tensor([1]), 1)
    assert float(unknown[1]) == float("inf")
    small = log_prob_bound(z / top, 0 * z, torch.tensor([1]), 1)
    assert float(small[1]) < 32 * U, "the control"


def test_more_roundings_than_fp32_allows_have_no_bound():
    """Beyond 2^24 the formula is negative, and would allow less than nothing."""
    assert gamma(2**24 - 1) > 0
    for k in (2**24, 2**25):
        with pytest.raises(InputError, match="fewer than 2"):
            gamma(k)
