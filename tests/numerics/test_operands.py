"""What a candidate may not do to the tensors it is given, and what is said when it raises."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.errors import ConfigError, InputError
from workbench.evidence import fixture_id
from workbench.numerics import operands as module
from workbench.numerics.bounds import bounds
from workbench.numerics.candidates import CandidateError
from workbench.numerics.drift import drift
from workbench.numerics.drift.over import drift_over
from workbench.numerics.operands import Operands, check_tensors
from workbench.numerics.tolerance import tolerance
from workbench.orders.standard import pairwise_order

G = torch.Generator().manual_seed(3)
HIDDEN, WEIGHT = torch.randn(3, 16, generator=G), torch.randn(5, 16, generator=G)
BIAS = torch.randn(5, generator=G)


def through_memory(h, w):
    """A write that torch's version counter does not see."""
    h.numpy()[...] *= 2
    return h @ w.T


WRITERS = {  # what it writes into, and a function that would be right about the changed data
    "doubled": ("hidden", lambda h, w: h.mul_(2) @ w.T),
    "cleared": ("hidden", lambda h, w: h.zero_() @ w.T),
    "one bit": ("hidden", lambda h, w: (h.view(torch.int32)[2, 15:].bitwise_xor_(1), h @ w.T)[1]),
    "the weight": ("weight", lambda h, w: h @ w.zero_().T),
    "two rows exchanged": ("weight", lambda h, w: h @ w.copy_(w[[1, 0, 2, 3, 4]]).T),
    "a sign of zero": ("weight", lambda h, w: h @ w.copy_(torch.where(w == 0, -w, w)).T),
    "both": ("hidden .*weight", lambda h, w: h.zero_() @ w.zero_().T),
    "through memory": ("hidden", through_memory),
    "the shape": ("hidden", lambda h, w: (h @ w.T, h.t_())[0]),
}  # fmt: skip


@pytest.fixture
def data():
    weight = WEIGHT.clone()
    weight[4, 3] = 0
    return HIDDEN.clone(), weight


@pytest.mark.parametrize("limit", [0, 1 << 20], ids=["checksum", "copy"])
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("how", [drift, tolerance])
def test_a_candidate_that_writes_into_its_operands_is_refused(monkeypatch, data, how, name, limit):
    monkeypatch.setattr(module, "_KEPT", limit)
    monkeypatch.setattr(module, "_CHUNK", 100)  # several pieces
    what, fn = WRITERS[name]
    before = fixture_id(*data)
    with pytest.raises(CandidateError, match=f"wrote into {what}"):
        how(fn, *data)
    assert (fixture_id(*data) == before) == (bool(limit) and name != "the shape")


@pytest.mark.parametrize("limit", [0, 1 << 20], ids=["checksum", "copy"])
def test_one_that_leaves_them_alone_passes(monkeypatch, data, limit):
    monkeypatch.setattr(module, "_KEPT", limit)
    hidden, weight = data
    weight[0, 0] = torch.nan  # is compared as bits
    for h, w in ((hidden, weight), (hidden.T.contiguous().T, weight.T.contiguous().T)):
        assert drift(lambda h, w: h.clone().mul_(2) @ w.T, h, w, "exact").shape == (3, 16, 5)
        assert tolerance(lambda h, w: h @ w.T, h, w).outputs == 15
    wide = hidden[:1].expand(4, 16)
    with pytest.raises(CandidateError, match=r"wrote into hidden \[4, 16\], which stays changed"):
        drift(lambda h, w: (h[0].zero_(), h @ w.T)[1], wide, weight)


def test_references_and_every_kernel_of_a_table_are_watched(data):
    good = torch.nn.functional.linear
    with pytest.raises(CandidateError, match="the reference 'mine' wrote into weight"):
        drift(good, *data, {"mine": lambda h, w: h @ w.mul_(2).T})
    for wrong in (1, 2):
        made = [good, good, good]
        made[wrong] = lambda h, w: h.mul_(2) @ w.T
        with pytest.raises(CandidateError, match="the kernel wrote into hidden"):
            drift_over(made.__getitem__, (0, 1, 2), ["fp32"], *data)
    with pytest.raises(CandidateError, match="wrote into bias"):
        drift(lambda h, w, bias: h @ w.T + bias.neg_(), *data, bias=BIAS.clone())
    with pytest.raises(CandidateError, match="wrote into target"):
        ids = torch.tensor([0, 1, 2])
        tolerance(
            lambda x, t: torch.log_softmax(x, 1).gather(1, t.fill_(0)[:, None])[:, 0],
            data[0], op="batch_invariant_logp", target=ids,
        )  # fmt: skip
    assert ids.tolist() == [0, 1, 2]


def test_a_buffer_that_is_written_again_changes_no_result(data):
    """Two functions with one buffer: compared as they are, both would hold the second result."""
    buffer = torch.empty(3, 5)

    def kernel(h, w):
        return torch.mm(h, w.T, out=buffer)

    def off(h, w):
        return torch.mm(2 * h, w.T, out=buffer)

    found = drift(kernel, *data, {"off": off})["kernel", "off"]
    assert found.differing == 15 and found.max_abs > 0
    one = tolerance(kernel, *data)
    buffer.zero_()
    assert one.at(one.chosen.atol, one.chosen.rtol) == one.chosen


def test_a_candidate_that_raises_is_named_with_its_shapes(data):
    def broken(h, w):
        return h @ w  # [3, 16] by [5, 16]

    told = r"{} raised RuntimeError: .*test_operands.py, line \d+.*hidden \[3, 16\] float32, weight"
    for how in (drift, tolerance):
        who = "the kernel" if how is drift else "the candidate"
        with pytest.raises(CandidateError, match=told.format(who)) as caught:
            how(broken, *data)
        assert isinstance(caught.value.__cause__, RuntimeError)
    with pytest.raises(CandidateError, match=told.format("the reference 'mine'")):
        drift(torch.nn.functional.linear, *data, {"mine": broken})

    def writes_first(h, w):
        h.zero_()
        raise ValueError("no")

    before = fixture_id(*data)
    with pytest.raises(CandidateError, match=r"no .*before that it wrote into hidden"):
        drift(writes_first, *data)
    assert fixture_id(*data) == before

    def ours(h, w):
        raise ConfigError("says it itself")

    with pytest.raises(ConfigError, match=r"^says it itself$"):
        tolerance(ours, *data)
    with pytest.raises(KeyboardInterrupt):

        def stopped(h, w):
            raise KeyboardInterrupt

        drift(stopped, *data)


@pytest.mark.parametrize("how", [drift, tolerance])
def test_an_option_that_the_callable_does_not_take(how, data):
    with pytest.raises(InputError, match=r"does not take out_dtype= .*leave out_dtype out"):
        how(lambda h, w: h @ w.T, *data, out_dtype=torch.float32)
    with pytest.raises(InputError, match="does not take bias="):
        how(lambda h, w: h @ w.T, *data, bias=BIAS)

    class Head(torch.nn.Module):
        def forward(self, h, w):
            return h @ w.T

    with pytest.raises(InputError, match="does not take out_dtype="):
        how(Head(), *data, out_dtype=torch.float32)

    def inside(h, w, out_dtype):  # a TypeError of its own is no such thing
        return h @ w.T + "a"

    with pytest.raises(CandidateError, match="raised TypeError"):
        how(inside, *data, out_dtype=torch.float32)


def test_what_has_no_numbers_is_refused_before_anything_else(data):
    hidden, weight = data
    tree = pairwise_order(16)
    calls = {
        "bounds": lambda h, w: bounds(tree, h, w),
        "drift": lambda h, w: drift(torch.nn.functional.linear, h, w),
        "tolerance": lambda h, w: tolerance(torch.nn.functional.linear, h, w),
    }
    for call in calls.values():
        with pytest.raises(InputError, match=r"hidden \[3, 16\] is on the meta device"):
            call(hidden.to("meta"), weight)
        with pytest.raises(InputError, match=r"weight \[5, 16\] is torch.sparse_coo"):
            call(hidden, weight.to_sparse())
        with pytest.raises(InputError, match=r"weight is ndarray; give a tensor.*from_numpy"):
            call(hidden, weight.numpy())
        with pytest.raises(InputError, match="hidden is NoneType"):
            call(None, weight)
    check_tensors(hidden, bias=None)


def test_bounds_refuse_what_is_no_probability_and_no_reference(data):
    tree = pairwise_order(16)
    for delta in ("a", None, np.nan, 0, 1, torch.tensor([0.1, 0.2])):
        with pytest.raises(InputError, match=r"delta=.*between 0 and 1"):
            bounds(tree, *data, delta)
        with pytest.raises(InputError, match=r"delta=.*between 0 and 1"):
            tolerance(torch.nn.functional.linear, *data, delta=delta)
    for reference in (np.ones(3), torch.ones(2), ["exact"], 5):
        with pytest.raises(InputError, match="is none of: None, 'exact', a tree"):
            bounds(tree, *data, reference=reference)


def test_the_checksum_sees_a_change_in_any_piece_and_no_layout(monkeypatch):
    monkeypatch.setattr(module, "_KEPT", 0)
    monkeypatch.setattr(module, "_CHUNK", 64)
    for value in (torch.zeros(7, 9), torch.zeros(9, 7).T, torch.zeros(7, 9, dtype=torch.bfloat16)):
        watched = Operands(value=value)
        for place in np.ndindex(7, 9):
            value[place] = -0.0
            with pytest.raises(CandidateError, match="stays changed"):
                watched.call("it", lambda: 0)
            value[place] = 0.0
        assert watched.call("it", lambda: 7) == 7
