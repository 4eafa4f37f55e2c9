from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from workbench.build.config import KernelConfig
from workbench.errors import InputError
from workbench.numerics import compare_bits, evidence, fixture_id, hex_bits, raw_bits

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)


@pytest.mark.parametrize("dtype", FLOATS)
def test_equal_bits_and_one_flipped_bit(dtype):
    x = torch.randn(3, 5).to(dtype)
    assert compare_bits(x, x.clone()).equal
    y = x.clone()
    raw_bits(y)[1, 2] ^= 1  # a view: flips the lowest bit of y
    found = compare_bits(x, y)
    assert (found.elements, found.mismatches, found.equal) == (15, 1, False)
    assert found.first_mismatch["index"] == [1, 2]
    bits = [int(found.first_mismatch[k], 16) for k in ("expected_bits", "got_bits")]
    assert bits[0] ^ bits[1] == 1


def test_zeros_and_nan_payloads_count():
    zeros = compare_bits(torch.zeros(2), torch.tensor([0.0, -0.0]))
    assert zeros.mismatches == 1
    assert zeros.first_mismatch["expected_bits"] == "0x00000000"
    assert zeros.first_mismatch["got_bits"] == "0x80000000"
    nan, other = torch.tensor([0x7FC00000, 0x7FC00001], dtype=torch.int32).view(torch.float32)
    assert compare_bits(nan, nan).equal  # though nan != nan
    assert compare_bits(nan, other).first_mismatch["index"] == []
    assert compare_bits(nan, other).to_dict()["first_mismatch"]["got"] == "nan"


def test_first_is_first_in_row_major_order():
    x = torch.zeros(2, 70_000)
    y = x.clone()
    y[1, 3] = y[0, 69_999] = y[1, 0] = 1
    found = compare_bits(x, y)
    assert found.mismatches == 3 and found.first_mismatch["index"] == [0, 69_999]


def test_strides_do_not_matter():
    x = torch.randn(6, 4)
    assert compare_bits(x.T, x.T.contiguous()).equal
    assert compare_bits(x[::2, 1:], x[::2, 1:].clone()).equal
    assert compare_bits(x[:1].expand(3, 4), x[:1].repeat(3, 1)).equal
    assert compare_bits(torch.empty(0, 3), torch.empty(0, 3)).elements == 0


def test_hex_bits():
    assert hex_bits(torch.tensor(1.0)) == "0x3f800000"
    assert hex_bits(torch.tensor([-1.0], dtype=torch.bfloat16)) == "0xbf80"
    assert hex_bits(torch.tensor(-0.0, dtype=torch.float64)) == "0x8000000000000000"


def test_refusals():
    with pytest.raises(InputError, match="shapes and dtypes"):
        compare_bits(torch.zeros(2), torch.zeros(3))
    with pytest.raises(InputError, match="float16"):
        compare_bits(torch.zeros(2), torch.zeros(2).half())
    with pytest.raises(InputError, match="complex"):
        raw_bits(torch.zeros(2, dtype=torch.complex64))


def test_text_says_the_verdict():
    x = torch.zeros(2)
    assert "bits equal" in str(compare_bits(x, x))
    assert "1 of 2" in compare_bits(x, torch.tensor([0.0, 1.0])).title()


def test_fixture_id_is_the_content(monkeypatch):
    x = torch.arange(12.0).reshape(3, 4)
    name = fixture_id(x, None)
    assert len(name) == 16 and name == fixture_id(x.T.contiguous().T, None)
    monkeypatch.setattr("workbench.evidence._DIGEST_BYTES", 20)  # pieces of one row
    assert name == fixture_id(x, None)
    changed = x.clone()
    changed[0, 0] = -0.0
    others = [(x,), (None, x), (changed, None), (x.reshape(4, 3), None), (x.double(), None)]
    others += [(x.view(torch.int32), None), (x[:2], x[2:]), (torch.empty(0, 4), None)]
    assert len({fixture_id(*o) for o in others} | {name}) == len(others) + 1
    assert fixture_id(torch.tensor(1.0)) != fixture_id(torch.tensor(2.0))


def test_evidence_of_a_callable_and_of_a_kernel():
    x = torch.zeros(2)
    plain = evidence(torch.mv, x)
    assert (plain.target, plain.backend, plain.arch, plain.config) == ("mv", None, None, {})
    assert plain.fixture_id == fixture_id(x) and plain.cpu and plain.threads >= 1
    info = SimpleNamespace(
        name="lm_head", backend="twin", arch="dav-2201", defines={"TILE_LENGTH": 64}
    )
    found = evidence(SimpleNamespace(info=info), x)
    assert (found.target, found.backend, found.arch) == ("lm_head", "twin", "dav-2201")
    assert found.to_dict()["config"] == {"TILE_LENGTH": 64}
    config = KernelConfig(tile_length=128, arch="dav-2201")
    found = evidence(SimpleNamespace(info=info, config=config), x)
    assert found.to_dict()["config"] == {"arch": "dav-2201", "tile_length": 128}
    plain = SimpleNamespace(tile_length=128)
    assert evidence(SimpleNamespace(config=plain), x).config == {"tile_length": 128}


def test_evidence_names_a_flushing_thread():
    assert evidence(torch.mv).flush_denormal is False
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormals")
    try:
        assert evidence(torch.mv).flush_denormal is True
    finally:
        torch.set_flush_denormal(False)
