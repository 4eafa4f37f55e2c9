"""The bound on linear_logp: correct evaluations keep it, wrong ones do not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from workbench.build.config import KernelConfig
from workbench.errors import InputError
from workbench.numerics.check_cases import Draw, gemm_height, heights_of
from workbench.numerics.exact import exact_product
from workbench.numerics.linear_logp_bounds import Heights, U, gamma, linear_logp_bounds
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


def test_heights_are_those_of_the_declared_orders():
    sizes = {"batch": 2, "seq": 16, "vocab": 257, "normalized_dim": 4096}
    config = KernelConfig(tile_length=1024, arch="dav-3510")
    for chosen in (None, config):
        made = Draw(torch.float32, **sizes, input_mode="random", constant_value=0.0, token_value=0,
                    seed=0)  # fmt: skip
        heights = heights_of(chosen, made)
        order = declared_order("lm_head", chosen or KernelConfig(tile_length=4096), 4096)
        assert heights.logits == order.height
        assert heights.grad_hidden == gemm_height(257, 128) == 129
        assert heights.grad_weight == gemm_height(32, 128) == 31
        assert 0 < heights.softmax < 257
    assert Heights.any_order(1, 1, 1) == Heights(0, 0, 0, 0)


@pytest.mark.parametrize(("depth", "leaf"), [(1, 4), (4, 4), (5, 4), (16, 4), (17, 4), (3, 1)])
def test_height_of_det_gemm_by_building_its_tree(depth, leaf):
    def height(leaves):
        """Of leaves in order, by their heights: left the largest power of two below them all."""
        if len(leaves) == 1:
            return leaves[0]
        left = 1 << (len(leaves) - 1).bit_length() - 1
        return 1 + max(height(leaves[:left]), height(leaves[left:]))

    sizes = [min(leaf, depth - start) for start in range(0, depth, leaf)]
    # The bound may take every leaf as a full one.
    assert height([size - 1 for size in sizes]) <= gemm_height(depth, leaf)
    assert height([min(leaf, depth) - 1] * len(sizes)) == gemm_height(depth, leaf)


def test_gamma_and_the_exact_product():
    assert gamma(0) == 0 and gamma(1) > U and gamma(4096) < 4098 * U
    exact, scale = exact_product(torch.tensor([[3.0, -4.0]]), torch.tensor([[1.0, 1.0]]))
    assert (exact.item(), scale.item()) == (-1.0, 7.0)
