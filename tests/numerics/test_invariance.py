from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest
import torch

from workbench.errors import InputError
from workbench.numerics import RELATIONS, TRANSFORMS, invariance

H, V = 48, 5


def draw(rows=20, dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    return torch.randn(rows, H, generator=g).to(dtype), torch.randn(V, H, generator=g).to(dtype)


def one(row, weight):
    """The logits of one row, in an order that depends on nothing."""
    return (weight.double() * row.double()).sum(-1).float()


def split(row, weight):
    """The same with K split in two fp32 halves: other bits."""
    half = H // 2
    return one(row[:half], weight[:, :half]) + one(row[half:], weight[:, half:])


def steady(hidden, weight):
    rows = hidden.reshape(-1, hidden.shape[-1])
    return torch.stack([one(row, weight) for row in rows]).reshape(*hidden.shape[:-1], -1)


def each(hidden, weight, how):
    """`steady`, but row i is summed by `split` where `how(i)` says so."""
    rows = [(split if how(i) else one)(row, weight) for i, row in enumerate(hidden)]
    return torch.stack(rows)


# ---- controls: each breaks one transform -------------------------------------------------


def splits_k_in_large_batches(hidden, weight):
    n = len(hidden)
    return each(hidden, weight, lambda i: n >= 64 and n % 2 == 0)


def depends_on_row_position(hidden, weight):
    return each(hidden, weight, lambda i: i >= 100)


def leaks_a_neighbour(hidden, weight):
    return steady(hidden, weight) + 0 * hidden.sum()


def shifts_after_left_padding(hidden, weight):
    padded = not hidden[0].any()
    return each(hidden, weight, lambda i: padded)


def depends_on_the_chunk(hidden, weight):
    return each(hidden, weight, lambda i: len(hidden) == 3)


def depends_on_storage(hidden, weight):
    return each(hidden, weight, lambda i: not hidden.is_contiguous())


def merges_equal_rows(hidden, weight):
    return each(hidden, weight, lambda i: i and torch.equal(hidden[i], hidden[i - 1]))


class RemembersRepeats:
    def __init__(self):
        self.last = torch.empty(0)

    def __call__(self, hidden, weight):
        again = torch.equal(hidden, self.last)
        self.last = hidden.clone()
        return each(hidden, weight, lambda i: again and len(hidden) == 16)


class RemembersTheWeight:
    def __init__(self):
        self.packed = None

    def __call__(self, hidden, weight):
        if self.packed is None or len(weight) < len(self.packed):  # "the same, or a part of it"
            self.packed = weight.clone()
        out = torch.zeros(len(hidden), len(weight))
        out[:, : len(self.packed)] = steady(hidden, self.packed)
        return out


class ReturnsItsBuffer:
    def __init__(self):
        self.buffer = torch.empty(400, V)

    def __call__(self, hidden, weight):
        out = self.buffer[: len(hidden), : len(weight)]
        return out.copy_(steady(hidden, weight))


def leaves_out_a_column(hidden, weight, out=None):
    result = steady(hidden, weight)
    if out is None:
        return result
    out[:, :-1] = result[:, :-1]
    return out


def ignores_out(hidden, weight, out=None):
    return steady(hidden, weight)


def adds_to_out(hidden, weight, out=None):
    result = steady(hidden, weight)
    return result if out is None else out.mul_(0).add_(result)


class FakeKernel:
    """A kernel whose bits depend on the block count, if `broken`."""

    def __init__(self, broken, max_blocks=128):
        self.broken, self.config = broken, SimpleNamespace(max_blocks=max_blocks, arch="dav-2201")
        self.info = SimpleNamespace(name="fake", backend="twin", arch="dav-2201", defines={})

    def rebuild(self, max_blocks):
        return FakeKernel(self.broken, max_blocks)

    def __call__(self, hidden, weight, bias=None, out_dtype=None, out=None):
        result = steady(hidden, weight)
        if self.broken and self.config.max_blocks == 40:
            result = each(hidden.reshape(-1, H), weight, lambda i: True).reshape(result.shape)
        return result if out is None else out.copy_(result)


CONTROLS = [
    (splits_k_in_large_batches, "T1"),
    (depends_on_row_position, "T2"),
    (leaks_a_neighbour, "T3"),
    (shifts_after_left_padding, "T4"),
    (depends_on_the_chunk, "T5"),
    (FakeKernel(broken=True), "T5"),
    (depends_on_storage, "T6"),
    (merges_equal_rows, "T6"),
    (RemembersRepeats(), "T7"),
    (RemembersTheWeight(), "T7"),
    (ReturnsItsBuffer(), "T7"),
    (leaves_out_a_column, "T7"),
    (ignores_out, "T7"),
    (adds_to_out, "T7"),
]


@pytest.mark.parametrize("fn, name", CONTROLS, ids=lambda x: getattr(x, "__name__", str(x)[:40]))
def test_each_control_is_caught_by_its_transform_and_no_other(fn, name):
    hidden, weight = draw()
    result = invariance(fn, hidden, weight, sizes=(1, 2, 7, 17, 64, 65))
    assert {t.name for t in result.transforms if not t.passed} == {name}
    assert result.passed is False and "bits differ" in result.title()
    found = result[name]
    assert found.mismatches >= found.failed_cases >= 1
    first = found.first_mismatch
    assert first["row"] in result.active and 0 <= first["vocab_id"] < V
    assert first["expected_bits"] != first["got_bits"]
    expected = one(hidden[first["row"]], weight)[first["vocab_id"]]
    assert int(first["expected_bits"], 16) == int(expected.view(torch.int32)) % 2**32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_steady_callable_passes(dtype):
    hidden, weight = draw(dtype=dtype)
    result = invariance(steady, hidden.reshape(4, 5, H), weight)
    assert result.passed and [t.name for t in result.transforms] == list(TRANSFORMS)
    assert all(t.cases and t.elements and t.first_mismatch is None for t in result.transforms)
    assert result.shape == (20, H, V) and result.dtype == str(dtype)[6:]
    assert len(result.active) == 8 and result.active[0] == 0 and result.active[-1] == 19


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows(rows):
    hidden, weight = draw(rows)
    assert invariance(steady, hidden, weight).passed
    assert invariance(steady, hidden[0], weight).passed  # 1-D: one row
    assert not invariance(splits_k_in_large_batches, hidden, weight)["T1"].passed


def test_kernels_get_other_block_counts_leading_dims_and_out():
    hidden, weight = draw()
    kernel = FakeKernel(broken=False)
    result = invariance(kernel, hidden, weight)
    plain = invariance(ignores_out_of_none, hidden, weight)
    assert result.passed
    for name in ("T4", "T5", "T6", "T7"):
        assert result[name].cases > plain[name].cases
    assert (result.evidence.backend, result.evidence.arch) == ("twin", "dav-2201")


def ignores_out_of_none(hidden, weight):
    return steady(hidden, weight)


def test_bias_and_out_dtype_reach_the_callable():
    hidden, weight = draw()
    seen = []

    def fn(h, w, bias, out_dtype):
        seen.append(len(bias) == len(w))
        return (steady(h, w) + bias).to(out_dtype)

    result = invariance(fn, hidden, weight, bias=torch.ones(V), out_dtype=torch.bfloat16)
    assert result.passed and result.out_dtype == "bfloat16" and all(seen)


def test_first_mismatch_is_the_smallest_row_and_column():
    hidden, weight = draw()

    def flips(h, w):
        out = steady(h, w)
        if len(h) == 65:
            for row, column in ((3, 1), (2, 4), (2, 3)):
                out.view(torch.int32)[row, column] ^= 1
        return out

    result = invariance(flips, hidden.reshape(4, 5, H), weight, leading_dims=False)
    found = result["T1"]
    assert (found.mismatches, found.failed_cases) == (3, 1)
    row = result.active[2]
    first = found.first_mismatch
    assert (first["row"], first["vocab_id"]) == (row, 3) and first["index"] == [row // 5, row % 5]
    assert first["case"].startswith("batch of 65")
    assert int(first["expected_bits"], 16) ^ int(first["got_bits"], 16) == 1


def test_only_the_bits_of_active_rows_count():
    hidden, weight = draw()

    def spoils_the_rest(h, w):
        out = steady(h, w)
        out[(h[:, None] != hidden[[0, 19]]).any(-1).all(-1)] = torch.rand(1)
        return out

    assert invariance(spoils_the_rest, hidden, weight, max_active=2).passed
    assert not invariance(spoils_the_rest, hidden, weight, max_active=3).passed


def test_linear_fails_where_the_library_is_known():
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(8, 4096, generator=g), torch.randn(257, 4096, generator=g)
    result = invariance(
        torch.nn.functional.linear, hidden, weight, transforms="T1", sizes=(1, 2, 8)
    )
    e = result.evidence
    if e.blas == "MKL" and e.cpu_capability == "AVX2":
        assert not result.passed


def test_seed_and_inputs_are_named():
    hidden, weight = draw()
    a, b = (invariance(steady, hidden, weight, transforms="T6", seed=s) for s in (1, 2))
    assert (a.seed, b.seed) == (1, 2) and a.evidence.fixture_id == b.evidence.fixture_id
    assert dataclasses.replace(a, seed=2) == b


def test_result_forms():
    hidden, weight = draw()
    result = invariance(depends_on_row_position, hidden, weight)
    entry = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert entry["passed"] is False and len(entry["transforms"]) == 7
    for t in entry["transforms"]:
        assert {"name", "passed", "cases", "mismatches", "first_mismatch"} <= set(t)
        assert t["relation"] == RELATIONS[t["name"]]
    assert set(entry["transforms"][1]["first_mismatch"]) >= {
        "case", "row", "vocab_id", "expected_bits", "got_bits",
    }  # fmt: skip
    frame = result.to_pandas()
    assert list(frame["name"]) == list(TRANSFORMS) and not frame["passed"][1]
    assert "T2" in str(result) and "<table>" in result._repr_html_()
    with pytest.raises(KeyError, match="T9"):
        result["T9"]


def test_refusals():
    hidden, weight = draw()
    for arguments, match in (
        ((hidden, weight[:, :5]), "same H"),
        ((hidden[:0], weight), "nothing would be compared"),
        ((hidden, weight[:0]), "nothing would be compared"),
        ((hidden, weight, None, ("T8",)), "T8"),
        ((hidden, weight, None, ()), "none"),
    ):
        with pytest.raises(InputError, match=match):
            invariance(steady, *arguments)
    with pytest.raises(InputError, match="returned"):
        invariance(lambda h, w: steady(h, w)[:, :1], hidden, weight)
    with pytest.raises(InputError, match="max_active=0"):
        invariance(steady, hidden, weight, max_active=0)
