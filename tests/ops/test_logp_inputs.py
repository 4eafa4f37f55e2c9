"""What the log-probability does not take: refused with what was given, wanted and to do."""

from __future__ import annotations

import logp_kit as kit
import numpy as np
import pytest
import torch
from helpers import bits, poisoned

import workbench as wb
from workbench.errors import ConfigError, InputError
from workbench.ops import AscendBatchInvariantLogpOp, NativeBatchInvariantLogpOp
from workbench.ops.inputs import LARGEST, check_logp


def given(**changes):
    inputs = {"logits": torch.zeros(3, 7), "target": torch.tensor([0, 6, -100])}
    return {**inputs, **changes}


WRONG = {
    "logits fp64": (
        {"logits": torch.zeros(3, 7).double()},
        ["logits is float64", "fp32, bf16 and fp16", "logits.float()"],
    ),
    "logits int": ({"logits": torch.zeros(3, 7).int()}, ["logits is int32"]),
    "logits fp8": (
        {"logits": torch.zeros(3, 7).to(torch.float8_e4m3fn)},
        ["logits is float8_e4m3fn", "fp32, bf16 and fp16"],
    ),
    "logits 1-D": (
        {"logits": torch.zeros(7), "target": torch.tensor(0)},
        ["logits has shape (7,)", "[..., V]", "logits.unsqueeze(0)", "target.unsqueeze(0)"],
    ),
    "logits 0-D": ({"logits": torch.zeros(())}, ["logits has shape ()"]),
    "logits an array": ({"logits": np.zeros((3, 7))}, ["logits is a ndarray", "torch.Tensor"]),
    "target a list": ({"target": [0, 1, 2]}, ["target is a list", "torch.Tensor"]),
    "target float": (
        {"target": torch.zeros(3)},
        ["target is fp32", "int64 or int32", "target.long()"],
    ),
    "target bool": ({"target": torch.zeros(3).bool()}, ["target is bool", "int64 or int32"]),
    "target int16": ({"target": torch.zeros(3).short()}, ["target is int16"]),
    "target uint8": ({"target": torch.zeros(3, dtype=torch.uint8)}, ["target is uint8"]),
    "target too long": (
        {"target": torch.zeros(4, dtype=torch.int64)},
        ["target has shape (4,)", "logits (3, 7)", "one target per row, (3,)"],
    ),
    "target of one more dimension": (
        {"target": torch.zeros(3, 1, dtype=torch.int64)},
        ["target has shape (3, 1)", "(3,)"],
    ),
    "target 0-D": ({"target": torch.tensor(1)}, ["target has shape ()", "(3,)"]),
    "target elsewhere": (
        {"target": torch.zeros(3, dtype=torch.int64, device="meta")},
        ["target is on meta", "logits on cpu", "one device"],
    ),
    "no logits": (
        {"logits": torch.zeros(3, 0)},
        ["logits has shape (3, 0)", "not defined", "at least 1"],
    ),
    "ignore_index float": ({"ignore_index": -100.0}, ["ignore_index is -100.0", "float", "int"]),
    "ignore_index bool": ({"ignore_index": True}, ["ignore_index is True", "bool"]),
    "ignore_index None": ({"ignore_index": None}, ["ignore_index is None"]),
    "ignore_index of 65 bits": ({"ignore_index": 2**63}, ["9223372036854775808", "64 bits"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(name):
    """BL08: one dimension, shapes that do not match, and the rest."""
    changes, words = WRONG[name]
    for call in (AscendBatchInvariantLogpOp(), NativeBatchInvariantLogpOp(), kit.kernel(64)):
        with pytest.raises(InputError) as caught:
            call(**given(**changes))
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert isinstance(caught.value, ValueError)


def test_control_the_right_inputs_pass():
    for call in (AscendBatchInvariantLogpOp(), NativeBatchInvariantLogpOp()):
        got = call(**given())
        assert got[2] == 0 and (got[:2] < 0).all()
    check_logp(torch.zeros(0, 0), torch.zeros(0, dtype=torch.int32), -(2**63))


def test_a_dimension_that_32_bits_do_not_count():
    def meta(*shape, dtype=torch.float32):
        return torch.empty(shape, dtype=dtype, device="meta")

    for shape in ((1, LARGEST + 1), (65536, 65536, 1), (LARGEST + 1, 1)):
        with pytest.raises(InputError, match="at most 2147483647"):
            check_logp(meta(*shape), meta(*shape[:-1], dtype=torch.int64), -100)
    check_logp(meta(1, LARGEST), meta(1, dtype=torch.int64), -100)


def test_wrong_out():
    kernel, (logits, target) = kit.kernel(64), given().values()
    right, logp = torch.empty(3), None
    for logp, words in (
        (torch.empty(4), ["logp is fp32 (4,)", "fp32 (3,)"]),
        (torch.empty(3).half(), ["logp is fp16"]),
        (torch.empty(6)[::2], ["contiguous=False"]),
    ):
        with pytest.raises(InputError) as caught:
            kernel(logits, target, out=(logp, right))
        assert all(word in str(caught.value) for word in words), str(caught.value)
        with pytest.raises(InputError, match="lse is"):
            kernel(logits, target, out=(right, logp))
    out = (poisoned(3, "fp32"), poisoned(3, "fp32"))
    returned = kernel(logits, target, out=out)
    assert returned[0] is out[0] and returned[1] is out[1]
    assert (bits(out[0]) == bits(kernel(logits, target)[0])).all()
    _, lse = returned
    one, zero = torch.ones(3), torch.zeros(3)
    with pytest.raises(InputError, match=r"out is fp32 \(3, 8\).*want contiguous fp32 \(3, 7\)"):
        kernel.grad(logits, target, lse, one, zero, out=torch.empty(3, 8))
    grad = poisoned((3, 7), "fp32")
    assert kernel.grad(logits, target, lse, one, zero, out=grad) is grad
    assert (bits(grad) == bits(kernel.grad(logits, target, lse, one, zero))).all()


def test_wrong_gradients():
    kernel, (logits, target) = kit.kernel(64), given().values()
    right = [torch.zeros(3)] * 3
    for at, name in enumerate(("lse", "grad_logp", "grad_lse")):
        for wrong, words in (
            (torch.zeros(4), f"{name} is fp32 \\(4,\\); want fp32 \\(3,\\)"),
            (torch.zeros(3).half(), f"{name} is fp16 \\(3,\\)"),
            (torch.zeros(3, device="meta"), f"{name} is on meta"),
        ):
            with pytest.raises(InputError, match=words):
                kernel.grad(logits, target, *right[:at], wrong, *right[at + 1 :])


def test_wrong_launches_write_nothing():
    kernel, (logits, target) = kit.kernel(64), given().values()
    out = (poisoned(3, "fp32"), poisoned(3, "fp32"))
    before = bits(out[0]).copy()
    for blocks in (0, 65536):
        with pytest.raises(InputError, match="1 to 65535 blocks"):
            kernel(logits, target, out=out, blocks=blocks)
    with pytest.raises(InputError, match=r"target\[1\] is 9"):
        kernel(logits, torch.tensor([0, 9, 0]), out=out)
    assert (bits(out[0]) == before).all()


def test_wrong_operators():
    with pytest.raises(InputError, match=r"unknown backend 'gpu'.*twin"):
        AscendBatchInvariantLogpOp(backend="gpu")
    with pytest.raises(ConfigError, match="multiple of 64"):
        AscendBatchInvariantLogpOp(wb.KernelConfig(tile_length=100))
    with pytest.raises(ConfigError, match="no constant block_size"):
        AscendBatchInvariantLogpOp(wb.KernelConfig(block_size=3))
    with pytest.raises(ConfigError, match="16128 for bf16"):
        AscendBatchInvariantLogpOp(wb.KernelConfig(tile_length=64 * 400))
    fits_bf16 = wb.build(kit.OP, wb.KernelConfig(tile_length=16128), backend="twin")
    with pytest.raises(ConfigError, match="12224"):
        fits_bf16(**given())
