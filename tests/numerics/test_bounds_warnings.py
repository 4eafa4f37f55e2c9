"""Warnings of the probabilistic bound: they stand where it fails, and not on ordinary inputs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from workbench import samples
from workbench.numerics.bounds import bounds
from workbench.numerics.bounds.study import errors_in, fused_order, random_order
from workbench.numerics.bounds.warnings import limit, local_errors
from workbench.orders.standard import pairwise_order, reduce_sum, sequential_order

F32 = torch.float32


pytestmark = pytest.mark.usefixtures("one_thread")


def draw(rows, hidden, vocab, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, hidden, generator=g), torch.randn(vocab, hidden, generator=g)


def periodic(*pattern, rows=1, n=4096):
    return torch.tensor(pattern).repeat(n)[:n].expand(rows, n).contiguous()


# IEEE arithmetic in one order: the same ratios on every machine.
FAILURES = {
    "constants": (periodic(0.1, rows=2), periodic(0.1, rows=2), 2.27),
    "a constant and ones": (periodic(0.1), periodic(1.0), 4.48),
    "a period of three": (periodic(0.1, 0.2, 0.7), periodic(1.0), 2.93),
    "of both signs": (periodic(0.1, -0.3, 0.7), periodic(1.0), 2.50),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_correct_sum_above_the_probabilistic_bound_is_warned_about(name):
    x, w, times = FAILURES[name]
    tree = sequential_order(4096)
    found = bounds(tree, x, w, 1e-3)
    ratio = found.ratio(errors_in(tree, x, w, F32, False))
    assert round(ratio["probabilistic"], 2) == times
    assert ratio["running"] <= 1 and ratio["worst_case"] <= 1
    told = "\n".join(found.warnings)
    assert "inputs repeat" in told and "share a sign" in told and "errors add up" in told
    assert "probabilistic" not in found.trusted


def uniform(shape, g):
    return torch.rand(shape, generator=g)


QUIET = {
    "normal": lambda g: (torch.randn(8, 512, generator=g), torch.randn(60, 512, generator=g)),
    "one sign": lambda g: (uniform((8, 512), g), uniform((60, 512), g)),
    "a constant row of hidden": lambda g: (torch.full((8, 512), 0.1), uniform((60, 512), g)),
    "a constant weight": lambda g: (uniform((8, 512), g), torch.full((60, 512), 0.1)),
    "the same row often": lambda g: (
        torch.randn(1, 512, generator=g).expand(40, 512).contiguous(),
        torch.randn(60, 512, generator=g),
    ),
    "sparse": lambda g: (
        torch.randn(8, 512, generator=g) * (uniform((8, 512), g) < 0.1),
        torch.randn(60, 512, generator=g),
    ),
    "one output": lambda g: (torch.randn(1, 512, generator=g), torch.randn(1, 512, generator=g)),
}


@pytest.mark.parametrize("name", QUIET)
@pytest.mark.parametrize("dtype", [F32, torch.bfloat16, torch.float16])
def test_ordinary_inputs_are_not_warned_about(name, dtype):
    for seed in range(3):
        x, w = QUIET[name](torch.Generator().manual_seed(seed))
        tree = (sequential_order, pairwise_order, lambda n: reduce_sum(n, 1))[seed](512)
        found = bounds(tree, x.to(dtype), w.to(dtype))
        assert found.warnings == ()
        error = errors_in(tree, x.to(dtype), w.to(dtype), F32, False)
        assert found.violations(error)["probabilistic"] == 0


@pytest.mark.parametrize("dtype", [F32, torch.bfloat16])
@pytest.mark.parametrize("order", [sequential_order, lambda n: reduce_sum(n, 1)])
def test_the_real_sample_is_not_warned_about(order, dtype):
    sample = samples.smollm2()
    hidden = sample.hidden.reshape(-1, 576)[::4].to(dtype)
    tree = order(576)
    found = bounds(tree, hidden, sample.weight[:300])
    assert found.warnings == ()
    assert (
        found.ratio(errors_in(tree, hidden, sample.weight[:300], F32, False))["probabilistic"] < 1
    )


def test_one_bad_output_among_many_is_found_and_named():
    x, w = draw(40, 1024, 90)
    x[17], w[55] = 0.1, 0.3
    found = bounds(sequential_order(1024), x, w)
    assert "1024 products of output (17, 55) have 1 different sizes (1 output" in found.warnings[0]
    x[17] = torch.randn(1024)
    assert bounds(sequential_order(1024), x, w).warnings == ()


def test_a_bad_row_shows_in_the_errors_alone():
    """Products that all differ, yet every addition rounds the same way: no repeated input."""
    n = 2048
    x, w = draw(6, n, 40)
    # Terms of a quarter ulp of the sum and a little more or less: all rounded down.
    x[3, 0], x[3, 1:] = 1.0, 2.0**-26 * (1 + torch.rand(n - 1) / 16)
    w[:, :] = 1 + 2.0**-12 * torch.rand(40, n).round(decimals=3)
    found = bounds(sequential_order(n), x, w)
    told = "\n".join(found.warnings)
    assert "inputs repeat" not in told
    assert "errors add up: in 1 hidden row, most in hidden row 3" in told


def test_stagnation_is_named():
    x = torch.full((1, 600), 2.0**-26)
    x[0, 0] = 1.0
    w = 1 + torch.rand(30, 600, generator=torch.Generator().manual_seed(0))
    found = bounds(sequential_order(600), x, w)
    assert any(text.startswith("stagnation") for text in found.warnings)
    assert any("of one sign, and so are the terms" in text for text in found.warnings)


def test_a_doubtful_reference_is_named():
    x, w, _ = FAILURES["a constant and ones"]  # equal numbers in pairs: only doubled, exactly
    found = bounds(pairwise_order(4096), x, w, reference=sequential_order(4096))
    assert any(text.startswith("reference: roundings share a sign") for text in found.warnings)
    assert not any(text.startswith("roundings share a sign") for text in found.warnings)


@pytest.mark.parametrize(
    "tree",
    [sequential_order(12), random_order(12, np.random.default_rng(1)), fused_order(12, 3)],
    ids=["sequential", "random", "fused"],
)
@pytest.mark.parametrize("rounded", [True, False])
def test_local_errors_add_up_to_the_error_of_the_sum(tree, rounded):
    """An identity of exact numbers: Σε is the sum's whole error."""
    x, w = (t.numpy() for t in draw(1, 12, 20))
    if not rounded:
        x, w = (np.round(t * 16) / 16 for t in (x, w))
    left = np.repeat(x.T, 20, axis=1)
    total, _, plus, minus, _, additions = local_errors(tree, left, w.T, rounded)
    sums = tree.sum(x * w)
    for j in range(20):
        exact = sum(
            Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x[0], w[j], strict=True)
        )
        # fp64 adds the errors, which are a few bits each
        assert Fraction(float(total[j])) == Fraction(float(sums[j])) - exact
    assert (plus + minus <= 12 + 11).all() and (additions <= 11).all()


def test_a_local_error_is_exact_however_far_apart_the_operands_are():
    """2^60 + b is 2^60 in fp32, and in fp64 too it is not the exact sum."""
    b = np.float32(1 + 2.0**-23)
    left, ones = np.array([[2.0**60], [b]], np.float32), np.ones((2, 1), np.float32)
    total, squares, plus, minus, absorbed, _ = local_errors(sequential_order(2), left, ones, True)
    assert total.tolist() == [-float(b)] and squares.tolist() == [float(b) ** 2]
    assert (plus[0], minus[0], absorbed[0]) == (0, 1, 1)


def test_the_limit_is_seldom_reached_by_signs_alone():
    """Of independent signs far fewer than the tail bound allows; of equal signs every one."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (2000, 64, 16))
    z = signs.sum(2) ** 2 / 16
    assert not (z.mean(1) > limit(64)).any()
    assert (z[:, 0].max() < limit(1)) and (16.0 * np.ones(64)).mean() > limit(64)
