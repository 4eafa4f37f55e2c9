from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from workbench.errors import InputError
from workbench.numerics import drift, exact
from workbench.orders import declared_order


def draw(rows=5, hidden=64, vocab=7, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    h, w = torch.randn(rows, hidden, generator=g), torch.randn(vocab, hidden, generator=g)
    return h.to(dtype), w.to(dtype)


def rounded_exact(hidden, weight, bias=None, out_dtype=None):
    out = hidden.double() @ weight.double().T
    out = out if bias is None else out + bias.double()
    return out.to(out_dtype or torch.float32)


def in_order(tree):
    """A callable that adds fp32 products in the order of `tree`, some rows at a time."""

    def logits(hidden, weight):
        products = ((row * weight).numpy() for row in hidden)  # [V, H] each, rounded to fp32
        return torch.stack([torch.from_numpy(tree.sum(p)) for p in products])

    return logits


# max |error| against fp64, and outputs of 8,224 whose bits differ from tile 4096's.
SIMULATED = {
    1: {64: (7.0e-5, 0), 256: (4.1e-5, 6687), 1024: (3.4e-5, 6650), 2048: (4.7e-5, 6351)},
    2: {64: (7.0e-5, 6766), 256: (3.4e-5, 5445), 1024: (2.7e-5, 2150), 2048: (2.7e-5, 0)},
}
AT_4096 = {1: 7.0e-5, 2: 2.7e-5}


@pytest.mark.parametrize("method", [1, 2])
def test_the_simulated_figures_are_found_again(method):
    hidden, weight = draw(32, 4096, 257)
    base = None
    for tile in (4096, 64, 256, 1024, 2048):
        cfg = SimpleNamespace(arch="dav-2201", tile_length=tile)
        logits = in_order(declared_order("lm_head", cfg, 4096, method=method))
        found = logits(hidden, weight)
        result = drift(lambda *_, found=found: found, hidden, weight, "exact")["kernel", "exact"]
        out = found.view(torch.int32)
        base = out if base is None else base
        error, differing = SIMULATED[method].get(tile, (AT_4096[method], 0))
        assert float(f"{result.max_abs:.1e}") == error, tile
        assert int((out != base).sum()) == differing, tile
        assert result.outputs == 8224


def test_most_of_the_distance_from_mv_is_mv_s_own():
    hidden, weight = draw(32, 4096, 257)
    cfg = SimpleNamespace(arch="dav-2201", tile_length=4096)
    result = drift(in_order(declared_order("lm_head", cfg, 4096)), hidden, weight)
    pairs = [(c.candidate, c.reference) for c in result.comparisons]
    assert pairs == [("kernel", "exact"), ("kernel", "torch.mv"), ("torch.mv", "exact")]
    for pair in pairs:
        c = result[pair]
        assert 0 < c.mean_abs < c.rms < c.max_abs
        assert c.max_ulp < 4096  # n roundings at most, in any order
        assert c.errors.shape == (32, 257) and abs(c.errors).max() == c.max_abs
        assert abs(c.errors[c.worst["row"], c.worst["vocab_id"]]) == c.max_abs
    e = result.evidence
    if e.blas == "MKL" and e.cpu_capability == "AVX2":
        assert result["torch.mv", "exact"].max_abs > 2 * result["kernel", "exact"].max_abs


def test_an_error_of_known_size_is_measured():
    hidden, weight = torch.full((2, 8), 0.5), torch.full((3, 8), -1.0)
    weight[:, ::2] = 1.0  # logits 0; sums of |x w| 4, whose fp32 ULP is 2^-21

    def off(h, w):
        out = h @ w.T
        out[1, 2] += 2.0**-20
        return out

    clean = drift(lambda h, w: h @ w.T, hidden, weight)
    assert all(c.max_abs == c.differing == c.max_ulp == 0 for c in clean.comparisons)
    c = drift(off, hidden, weight)["kernel", "exact"]
    assert (c.max_abs, c.max_ulp, c.differing, c.nonfinite) == (2.0**-20, 2.0, 1, 0)
    assert (c.worst["row"], c.worst["vocab_id"]) == (1, 2) and c.errors[1, 2] == 2.0**-20
    assert (c.mean_abs, c.rms) == (2.0**-20 / 6, (2.0**-40 / 6) ** 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_dtypes_bias_and_leading_dims(dtype):
    hidden, weight = draw(6, dtype=dtype)
    bias = torch.linspace(-3, 3, 7).to(dtype)
    before = [t.clone() for t in (hidden, weight, bias)]
    out_dtype = torch.float32 if dtype == torch.float64 else dtype
    result = drift(rounded_exact, hidden.reshape(2, 3, 64), weight, bias=bias, out_dtype=out_dtype)
    c = result["kernel", "exact"]
    assert c.differing == 0 and 0 < c.max_ulp <= 0.5  # one rounding is half an ULP at most
    assert result.shape == (6, 64, 7)
    assert result.dtype == str(dtype)[6:] and result.out_dtype == str(out_dtype)[6:]
    assert all(torch.equal(a, b) for a, b in zip(before, (hidden, weight, bias), strict=True))
    without = drift(
        lambda h, w, **_: rounded_exact(h, w, None, out_dtype), hidden, weight, bias=bias
    )
    assert without["kernel", "exact"].max_abs > 1  # the bias is part of the reference


def test_the_reference_mv_is_rounded_once_to_the_output_dtype():
    hidden, weight = draw(4, dtype=torch.bfloat16)

    def native(h, w):
        return torch.stack([torch.mv(w.float(), row.float()) for row in h]).to(h.dtype)

    c = drift(native, hidden, weight)["kernel", "torch.mv"]
    assert c.differing == c.max_abs == 0


def test_not_finite_is_counted_not_hidden():
    hidden, weight = draw(3)
    hidden[1, 0] = float("nan")
    c = drift(rounded_exact, hidden, weight)["kernel", "exact"]
    assert c.nonfinite == 7 and c.max_abs != c.max_abs and c.worst["row"] == 1
    assert c.to_dict()["max_abs"] == "nan"
    json.dumps(c.to_dict(), allow_nan=False)


def test_chunks_of_the_vocabulary_give_the_same(monkeypatch):
    hidden, weight = draw()
    whole = drift(rounded_exact, hidden, weight, against=("exact",))
    monkeypatch.setattr(exact, "_CHUNK_BYTES", 8 * 64 * 2)
    pieces = drift(rounded_exact, hidden, weight, against=("exact",))
    # 64 products and sums in fp64 either way
    scale = float((hidden.double().abs() @ weight.double().abs().T).max())
    moved = abs(pieces.comparisons[0].errors - whole.comparisons[0].errors).max()
    assert moved <= 2 * 65 * 2.0**-53 * scale
    assert len(whole.comparisons) == 1


def test_result_forms():
    hidden, weight = draw()
    result = drift(rounded_exact, hidden, weight)
    text = json.dumps(result.to_dict(), allow_nan=False)
    assert "errors" not in text and result.evidence.fixture_id in text
    assert list(result.to_pandas()["reference"]) == ["exact", "torch.mv", "exact"]
    assert "5 x 64 x 7" in str(result) and "<table>" in result._repr_html_()
    with pytest.raises(KeyError, match="'kernel' against 'exact'"):
        result["kernel", "numpy"]


def test_refusals():
    hidden, weight = draw()
    for arguments, match in (
        ((hidden, weight[:, :5]), "same H"),
        ((hidden.int(), weight), "int32"),
        ((hidden[:0], weight), "no outputs"),
        ((hidden, weight[:0]), "no outputs"),
        ((hidden, weight, ("numpy",)), "numpy"),
        ((hidden, weight, ()), "nothing"),
        ((hidden, weight, "exact", torch.zeros(3)), "bias"),
    ):
        with pytest.raises(InputError, match=match):
            drift(rounded_exact, *arguments)
    with pytest.raises(InputError, match="returned"):
        drift(lambda h, w: h @ w.T[:, :2], hidden, weight)
