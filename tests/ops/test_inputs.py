"""Wrong inputs: each is refused with what was given, what was wanted and what to do (Cases 7)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import kernel, poisoned

import workbench as wb
from workbench.errors import ConfigError, InputError
from workbench.ops import AscendLMHeadOp, NativeLMHeadOp
from workbench.ops.inputs import LARGEST, check_lm_head

H, V = 40, 7


def given(**changes):
    tensors = {"hidden": torch.ones(3, H), "weight": torch.ones(V, H), "bias": torch.ones(V)}
    return {**tensors, **changes}


WRONG = {
    "hidden fp64": (
        {"hidden": torch.ones(3, H).double()},
        ["hidden is float64", "fp32, bf16 and fp16", "hidden.float()"],
    ),
    "all fp64": (
        {name: t.double() for name, t in given().items()},
        ["hidden is float64", "fp32, bf16 and fp16"],
    ),
    "hidden int": ({"hidden": torch.ones(3, H).int()}, ["hidden is int32"]),
    "hidden complex": ({"hidden": torch.ones(3, H).cfloat()}, ["hidden is complex64"]),
    "hidden fp8": (
        {"hidden": torch.ones(3, H).to(torch.float8_e4m3fn)},
        ["hidden is float8_e4m3fn", "fp32, bf16 and fp16"],
    ),
    "hidden 1-D": (
        {"hidden": torch.ones(H)},
        ["hidden has shape (40,)", "[..., H]", "hidden.unsqueeze(0)"],
    ),
    "hidden 0-D": ({"hidden": torch.ones(())}, ["hidden has shape ()", "[..., H]"]),
    "hidden a list": ({"hidden": [[1.0] * H]}, ["hidden is a list", "torch.Tensor"]),
    "weight an array": ({"weight": np.ones((V, H))}, ["weight is a ndarray", "torch.Tensor"]),
    "weight None": ({"weight": None}, ["weight is a NoneType", "torch.Tensor"]),
    "weight bf16": (
        {"weight": torch.ones(V, H).bfloat16()},
        ["weight is bf16", "hidden fp32", "one dtype", "weight.to(torch.float32)"],
    ),
    "weight wrong H": (
        {"weight": torch.ones(V, H + 1)},
        ["(7, 41)", "(3, 40)", "41 and 40", "same H"],
    ),
    "weight transposed": ({"weight": torch.ones(H, V)}, ["(40, 7)", "(3, 40)", "same H"]),
    "weight 1-D": ({"weight": torch.ones(H)}, ["weight has shape (40,)", "[V, H]", "H = 40"]),
    "weight 3-D": ({"weight": torch.ones(1, V, H)}, ["weight has shape (1, 7, 40)", "[V, H]"]),
    "weight elsewhere": (
        {"weight": torch.ones(V, H, device="meta")},
        ["weight is on meta", "hidden on cpu", "one device"],
    ),
    "bias wrong V": ({"bias": torch.ones(V + 1)}, ["bias has shape (8,)", "(7,)", "(7, 40)"]),
    "bias 2-D": ({"bias": torch.ones(1, V)}, ["bias has shape (1, 7)", "(7,)"]),
    "bias 0-D": ({"bias": torch.ones(())}, ["bias has shape ()", "(7,)"]),
    "bias fp16": ({"bias": torch.ones(V).half()}, ["bias is fp16", "hidden fp32", "one dtype"]),
    "bias elsewhere": (
        {"bias": torch.ones(V, device="meta")},
        ["bias is on meta", "hidden on cpu", "one device"],
    ),
    "bias a number": ({"bias": 1.0}, ["bias is a float", "torch.Tensor"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(name):
    changes, words = WRONG[name]
    arguments = given(**changes)
    for call in (
        AscendLMHeadOp(),
        AscendLMHeadOp().forward_fp32,
        NativeLMHeadOp(),
        NativeLMHeadOp().forward_fp32,
        kernel(),
    ):
        with pytest.raises(InputError) as caught:
            call(**arguments)
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert isinstance(caught.value, ValueError)


def test_control_the_right_inputs_pass():
    assert (AscendLMHeadOp()(**given()) == H + 1).all()
    assert check_lm_head(**given(), out_dtype=None) == torch.float32


def test_a_dimension_that_32_bits_do_not_count():
    def meta(*shape):
        return torch.empty(shape, device="meta")

    for hidden, weight in (
        (meta(65536, 65536, 0), meta(1, 0)),  # the rows of all leading dims together
        (meta(LARGEST + 1, 0), meta(1, 0)),
        (meta(1, 0), meta(LARGEST + 1, 0)),
    ):
        with pytest.raises(InputError, match="at most 2147483647"):
            check_lm_head(hidden, weight, None, None)
    assert check_lm_head(meta(LARGEST, 0), meta(1, 0), None, None) == torch.float32


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.float64, torch.int32])
def test_out_dtypes_that_no_entry_gives(out_dtype):
    with pytest.raises(InputError, match=r"bf16 inputs come as bf16 or fp32$"):
        kernel()(torch.ones(3, H).bfloat16(), torch.ones(V, H).bfloat16(), None, out_dtype)
    with pytest.raises(InputError, match=r"fp32 inputs come as fp32$"):  # once
        kernel()(torch.ones(3, H), torch.ones(V, H), None, out_dtype)


def test_wrong_out():
    hidden, weight = torch.ones(3, H), torch.ones(V, H)
    for out, words in (
        (torch.empty(3, V + 1), ["(3, 8)", "(3, 7)"]),
        (torch.empty(3 * V), ["(21,)", "(3, 7)"]),
        (torch.empty(3, V).half(), ["fp16", "fp32"]),
        (torch.empty(V, 3).T, ["contiguous=False"]),
    ):
        with pytest.raises(InputError) as caught:
            kernel()(hidden, weight, out=out)
        assert all(word in str(caught.value) for word in words), str(caught.value)
    with pytest.raises(InputError, match="meta"):
        kernel()(hidden, weight, out=torch.empty(3, V, device="meta"))


def test_wrong_launches():
    hidden, weight = torch.ones(3, H), torch.ones(V, H)
    out = poisoned((3, V), "fp32")
    before = out.view(torch.int32).clone()
    for blocks in (0, -1, 65536, 2.0, True):
        with pytest.raises(InputError, match="1 to 65535 blocks"):
            kernel()(hidden, weight, out=out, blocks=blocks)
    for ids in ([5], [-1], [0, 99]):
        with pytest.raises(InputError, match="not among the 5 blocks"):
            kernel()(hidden, weight, out=out, blocks=5, block_ids=ids)
    assert torch.equal(out.view(torch.int32), before)  # nothing was written


def test_wrong_operators():
    with pytest.raises(InputError, match=r"unknown backend 'gpu'.*twin"):
        AscendLMHeadOp(backend="gpu")
    with pytest.raises(ConfigError, match="multiple of 64"):
        AscendLMHeadOp(wb.KernelConfig(tile_length=100))
    with pytest.raises(ConfigError, match="largest value that works is 12160"):
        AscendLMHeadOp(wb.KernelConfig(tile_length=64 * 200))
    with pytest.raises(ConfigError, match="no constant block_size"):
        AscendLMHeadOp(wb.KernelConfig(block_size=3))
