"""Candidates that do what no candidate should: a failed verdict, never an exception of `check`."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from workbench.numerics.check_cases import plain_torch
from workbench.numerics.checker import check

SMALL = {"device": "cpu", "batch": 2, "seq": 3, "vocab": 33, "normalized_dim": 70}


def reasons(found) -> set[str]:
    return {output.reason for case in found.cases for output in case.outputs}


def reshapes(hidden, weight, bias=None):
    out = F.linear(hidden, weight, bias)
    hidden.unsqueeze_(0)
    return out


def replaces(hidden, weight, bias=None):
    out = F.linear(hidden, weight, bias)
    weight.data = torch.zeros(1)
    return out


def leaves(hidden, weight, bias=None):
    raise SystemExit(0)


def is_sparse(hidden, weight, bias=None):
    return F.linear(hidden, weight, bias).to_sparse()


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        (reshapes, "changed its input hidden"),
        (replaces, "changed its input weight"),
        (leaves, "raised SystemExit: 0"),
        (is_sparse, "returned a torch.sparse_coo tensor; want a tensor"),
        (lambda *inputs: None, "returned None; want a tensor"),
    ],
)
def test_a_hostile_candidate_is_a_failed_verdict(candidate, why):
    found = check("lm_head", candidate, **SMALL)
    assert not found.passed and found.pass_rate == 0
    assert reasons(found) == {why}


class SparseGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, weight):
        ctx.save_for_backward(hidden, weight)
        return F.linear(hidden, weight)

    @staticmethod
    def backward(ctx, grad):
        hidden, weight = ctx.saved_tensors
        return (grad @ weight).to_sparse(), grad.flatten(0, 1).T @ hidden.flatten(0, 1)


def test_a_sparse_gradient_is_a_failed_verdict():
    def candidate(hidden, weight, bias=None):
        out = SparseGradient.apply(hidden, weight)
        return out if bias is None else out + bias

    found = check("lm_head", candidate, check_grad=True, **SMALL)
    assert not found.passed and found.cases[0].outputs[0].passed  # the result itself is right
    assert any("sparse_coo" in reason for reason in reasons(found))


@pytest.mark.parametrize(
    "options",
    [{"normalized_dim": 16384}, {"input_mode": "constant", "constant_value": 40.0}],
    ids=["long", "large"],
)
def test_linear_logp_of_large_logits_is_still_judged(options):
    """The derived bound is a number there, neither NaN nor so wide that everything is within it."""

    def right(hidden, weight, target, bias=None):
        return plain_torch("linear_logp")(hidden, weight, target, bias)

    def wrong(hidden, weight, target, bias=None):
        return right(hidden, weight, target, bias) * 2 - 1e9

    for candidate in (right, "pytorch"):
        found = check("linear_logp", candidate, check_grad=True, **(SMALL | options))
        assert found.passed, str(found)
    assert not check("linear_logp", wrong, check_grad=True, **(SMALL | options)).passed
