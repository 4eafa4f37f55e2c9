from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from workbench.build.config import KernelConfig, Spec
from workbench.errors import InputError
from workbench.numerics import RELATIONS, TRANSFORMS, invariance
from workbench.numerics.transforms import neutral_changes

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
    first, second = str(result).splitlines()[1:3]  # T1 passed: it has no first mismatch to show
    assert first.endswith("mismatches=0") and "first_case=" in second and "got_bits=0x" in second
    with pytest.raises(KeyError, match="T9"):
        result["T9"]


def test_refusals():
    hidden, weight = draw()
    for arguments, match in (
        ((hidden, weight[:, :5]), "same H"),
        ((hidden[:0], weight), "nothing would be compared"),
        ((hidden, weight[:0]), "nothing would be compared"),
        ((hidden, weight, None, ("T1", "T8")), "transform T8 is unknown"),
        ((hidden, weight, None, ()), "no transform is given; known ones are T1, T2"),
    ):
        with pytest.raises(InputError, match=match):
            invariance(steady, *arguments)
    with pytest.raises(InputError, match="returned"):
        invariance(lambda h, w: steady(h, w)[:, :1], hidden, weight)
    with pytest.raises(InputError, match="max_active=0"):
        invariance(steady, hidden, weight, max_active=0)


# ---- what travels with the rows ------------------------------------------------------------------


def picked(logits, target):
    """logits [.., V], target [..] -> [.., 2]: two results of a row."""
    at = target.clamp(min=0).unsqueeze(-1)
    chosen = torch.cat([logits.gather(-1, at), logits[..., :1]], -1)
    return torch.where(target.unsqueeze(-1) < 0, torch.zeros_like(chosen), chosen)


def draw_logits():
    g = torch.Generator().manual_seed(1)
    target = torch.randint(9, (20,), generator=g)
    target[[0, 7]] = -100
    return torch.randn(20, 9, generator=g), target


def test_a_companion_travels_with_its_row():
    logits, target = draw_logits()
    kinds, shapes = set(), set()

    def fn(rows, ids):
        assert ids.shape == rows.shape[:-1] and ids.dtype == torch.int64
        kinds.update(ids[ids < rows.shape[-1]].tolist())
        shapes.add(rows.shape[-1])
        return picked(rows, ids)

    result = invariance(fn, logits, row_inputs=[target], columns=("logit", "first"))
    assert result.passed and result.shape == (20, 9, 2)
    assert all(t.cases and t.elements for t in result.transforms)
    assert -100 in kinds and kinds <= {-100, *range(9)}  # what is drawn are values that were given
    assert shapes == {9, 4}  # T7 also calls it with fewer columns
    in_sequences = [t.reshape(4, 5, *t.shape[1:]) for t in (logits, target)]
    assert invariance(fn, in_sequences[0], row_inputs=in_sequences[1:]).passed


def test_a_companion_that_is_not_moved_is_caught():
    logits, target = draw_logits()

    def stale(rows, ids):
        kept = target[torch.arange(ids.numel()) % 20] % rows.shape[-1]
        return picked(rows, kept.reshape(ids.shape))

    result = invariance(stale, logits, row_inputs=[target], columns=("logit", "first"))
    assert not result["T2"].passed and not result["T6"].passed
    first = result["T2"].first_mismatch
    assert (first["column"], first["column_name"]) == (0, "logit")
    assert first["vocab_id"] == int(target[first["row"]])


def test_neighbours_of_float_companions_are_not_finite_either():
    hidden, weight = draw()
    upstream = torch.randn(20, V)
    seen = set()

    def fn(rows, w, u):
        if len(rows) == 17:  # T3
            seen.add((bool(rows.isfinite().all()), bool(u.isfinite().all())))
        return (u.double() @ w.double()).float()

    result = invariance(
        fn, hidden, weight, row_inputs=[upstream], transforms="T3", columns="channel"
    )
    assert seen == {(True, True), (False, False)} and result.shape == (20, H, H)


def test_a_result_without_columns():
    logits, _ = draw_logits()
    result = invariance(lambda rows: rows.double().sum(-1).float(), logits)
    assert result.passed and result.shape == (20, 9, 1)
    broken = invariance(lambda rows: rows.sum(-1) + len(rows), logits, transforms="T1")
    assert broken["T1"].first_mismatch["column"] == 0


def test_refusals_of_companions():
    logits, target = draw_logits()
    for call, match in (
        (lambda: invariance(picked, logits, row_inputs=[target[:5]]), r"row_inputs\[0\].*\[5\]"),
        (lambda: invariance(picked, logits[:, :0], row_inputs=[target]), "nothing"),
        (lambda: invariance(lambda rows: rows[:, :0], logits), "nothing to judge"),
        (lambda: invariance(picked, logits, judgement="accuracy"), "forward_invariance"),
    ):
        with pytest.raises(InputError, match=match):
            call()


# ---- which builds are tried ----------------------------------------------------------------------


def spec_of(constants, buffers=()):
    ub = {"tile": "TILE_LENGTH", "buffers": {"fp32": list(buffers)}}
    raw = {"archs": ["dav-2201"], "constants": constants, "ub": ub, "entries": []}
    raw["entries"] = [{"in": "fp32", "out": "fp32", "kernel": "k"}]
    return Spec("op", Path("k.asc"), raw)


TILE = {"default": 64, "min": 64, "multiple_of": 64, "decides_bits": True, "why": ""}
BLOCKS = {"default": 128, "min": 1, "max": 65535, "decides_bits": False, "why": ""}
ROWS = {"default": 4, "min": 1, "max": 16, "decides_bits": False, "why": ""}
WAY = {"default": 0, "names": {"a": 0, "b": 1}, "decides_bits": False, "why": ""}


def test_every_constant_that_decides_no_bits_is_varied_and_no_other():
    spec = spec_of({"TILE_LENGTH": TILE, "MAX_BLOCKS": BLOCKS, "ROWS": ROWS})
    assert neutral_changes(spec, None, "fp32", (1, 128, 40)) == [
        {"max_blocks": 1}, {"max_blocks": 40}, {"rows": 1}, {"rows": 16},
    ]  # fmt: skip
    free = spec_of({"TILE_LENGTH": {**TILE, "decides_bits": False}}, [{"count": 1, "bytes": 0}])
    tiles = [change["tile_length"] for change in neutral_changes(free, None, "fp32", ())]
    assert len(tiles) == 2 and all(tile % 64 == 0 for tile in tiles)


def test_what_does_not_fit_is_halved_until_it_does():
    big = {"count": 1, "times": "ROWS", "bytes": 40000}
    spec = spec_of({"TILE_LENGTH": TILE, "ROWS": ROWS}, [big])
    assert neutral_changes(spec, None, "fp32", (1,)) == [{"rows": 1}, {"rows": 2}]  # 8 do not fit


def test_constants_of_another_schedule_are_varied_there():
    used = {"count": 1, "times": "ROWS", "bytes": 32, "when": {"WAY": 1}}
    spec = spec_of({"TILE_LENGTH": TILE, "MAX_BLOCKS": BLOCKS, "ROWS": ROWS, "WAY": WAY}, [used])
    assert neutral_changes(spec, None, "fp32", (3, 256)) == [
        {"max_blocks": 3}, {"max_blocks": 256},
        {"way": 1}, {"way": 1, "max_blocks": 3, "rows": 1},
        {"way": 1, "max_blocks": 256, "rows": 16},
    ]  # fmt: skip
    there = KernelConfig(way="b")
    assert {"way": 0} in neutral_changes(spec, there, "fp32", (3,))
    assert {"rows": 16} in neutral_changes(spec, there, "fp32", (3,))


def test_no_block_counts_no_builds():
    hidden, weight = draw()
    kernel = FakeKernel(broken=True)
    assert invariance(kernel, hidden, weight, max_blocks=()).passed
    assert not invariance(kernel, hidden, weight, max_blocks=(40,)).passed


@pytest.mark.parametrize("name", ["argument 0", "argument 1", "bias"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_callable_that_changes_its_inputs_is_refused(name, when):
    """Its rows would be other ones at the next call: zeroed before, every bit is equal."""

    def changes(hidden, weight, bias):
        victim = {"argument 0": hidden, "argument 1": weight, "bias": bias}[name]
        if when == "before":
            victim.zero_()
        out = torch.stack([weight @ row for row in hidden]) + bias
        victim.zero_()
        return out

    with pytest.raises(InputError, match=f"changed its {name} in place"):
        invariance(changes, torch.ones(3, 8), torch.ones(5, 8), torch.ones(5), "T1", sizes=(2,))
