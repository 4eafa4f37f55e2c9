"""Sorting, merging and region proposals, byte for byte against numpy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.twin.image import Lines, assert_only, get, put, random_image

BITS = {"float": np.uint32, "half": np.uint16}
DTYPE = {"float": np.float32, "half": np.float16}
LISTS = "MrgSortSrcList<{t}> list(UB({t}, 0), UB({t}, {a}), UB({t}, {b}), UB({t}, {c}));"
FOUR = LISTS.format(t="float", a=256, b=512, c=768)  # 32 elements of eight bytes each
INFO = "uint16_t n[4] = {%s}; MrgSort4Info info(n, %s, %d, %d);"

LINES = {
    "sort32 float": "Sort32(UB(float, 16384), UB(float, 0), UB(uint32_t, 4096), 3);",
    "sort32 half": "Sort32(UB(half, 16384), UB(half, 0), UB(uint32_t, 4096), 3);",
    "merge 4": FOUR
    + INFO % ("32, 32, 32, 32", "false", 15, 1)
    + "MrgSort(UB(float, 16384), list, info);"
    "uint16_t a, b, c, d; GetMrgSortResult(a, b, c, d); out[0] = a; out[1] = b; out[2] = c;"
    "out[3] = d;",
    "merge 3": FOUR
    + INFO % ("32, 7, 0, 32", "false", 7, 1)
    + "MrgSort(UB(float, 16384), list, info);",
    "merge 2": FOUR
    + INFO % ("30, 32, 0, 0", "true", 3, 1)
    + "MrgSort(UB(float, 16384), list, info);"
    "uint16_t a, b, c, d; GetMrgSortResult(a, b, c, d); out[0] = a; out[1] = b;",
    "merge repeats": FOUR
    + INFO % ("32, 32, 32, 32", "false", 15, 3)
    + "MrgSort(UB(float, 16384), list, info);",
    "merge apart": LISTS.format(t="float", a=256, b=512, c=1024)
    + INFO % ("32, 32, 32, 32", "false", 15, 3)
    + "MrgSort(UB(float, 16384), list, info);",
    "merge high": FOUR + "uint16_t n[4] = {30, 32, 0, 0}; uint32_t taken[4];"
    "MrgSort<float, true>(UB(float, 16384), list, n, taken, 3, 1);"
    "for (int i = 0; i < 4; ++i) { out[i] = taken[i]; }",
    "full": "LocalTensor<float> joined, tmp = UB(float, 24576); "
    "Concat(joined, UB(float, 0), tmp, 5);"
    "Sort<float, true>(UB(float, 16384), joined, UB(uint32_t, 4096), tmp, 5);"
    "PipeBarrier<PIPE_V>(); Extract(UB(float, 32768), UB(uint32_t, 36864), UB(float, 16384), 5);",
    "groups": "LocalTensor<half> tmp; "
    "Sort<half, false>(UB(half, 16384), UB(half, 0), UB(uint32_t, 4096), tmp, 5);"
    "PipeBarrier<PIPE_V>(); Extract(UB(half, 32768), UB(uint32_t, 36864), UB(half, 16384), 5);"
    "out[0] = GetSortOffset<half>(10); out[1] = GetSortLen<half>(10);"
    "out[2] = GetSortOffset<float>(10); out[3] = GetSortLen<float>(10);",
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> Lines:
    return Lines(tmp_path_factory.mktemp("sort"), LINES)


def scores(kind: str, n: int, seed: int) -> np.ndarray:
    """Random scores with ties, zeros of both signs and infinities."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, n).astype(DTYPE[kind])
    x[rng.integers(0, n, n // 8)] = -0.0
    x[rng.integers(0, n, 2)] = np.inf
    x[rng.integers(0, n, 2)] = -np.inf
    return x


def order(x: np.ndarray) -> np.ndarray:
    return np.argsort(-x.astype(np.float64), kind="stable")


def items(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Elements of eight bytes: the score, for half two zero bytes, the index."""
    out = np.zeros((x.size, 8), np.uint8)
    size = x.dtype.itemsize
    out[:, :size] = x.view(np.uint8).reshape(-1, size)
    out[:, 4:] = index.astype(np.uint32).view(np.uint8).reshape(-1, 4)
    return out


@pytest.mark.parametrize("kind", ["float", "half"])
def test_sort32(lines: Lines, kind: str) -> None:
    x = scores(kind, 96, 1)
    index = np.random.default_rng(2).integers(0, 2**32, 96, dtype=np.uint32)
    image = put(put(random_image(1), 0, x), 4096, index)
    by = np.concatenate([order(x[r : r + 32]) + r for r in range(0, 96, 32)])
    ub, _, _ = lines(f"sort32 {kind}", image)
    assert_only(image, ub, {16384: items(x[by], index[by])})
    unstable = np.argsort(x[:32].astype(np.float64), kind="stable")[::-1]
    assert not np.array_equal(unstable, by[:32]), "the control: there are ties"


def merged(lists: list[np.ndarray]) -> np.ndarray:
    """Lists of elements -> one: descending, of equal scores the earlier list first."""
    every = np.concatenate(lists)
    keys = every[:, :4].copy().view(np.float32).reshape(-1)
    return every[np.argsort(-keys.astype(np.float64), kind="stable")]


def sorted_image(seed: int, lists: int = 12) -> tuple[np.ndarray, list[np.ndarray]]:
    image, out = random_image(seed), []
    for k in range(lists):
        x = scores("float", 32, seed * 100 + k)
        by = order(x)
        out.append(items(x[by], by + 1000 * k))
        image = put(image, k * 256, out[-1])
    return image, out


def test_merges(lines: Lines) -> None:
    image, lists = sorted_image(3)
    ub, _, z = lines("merge 4", image)
    assert_only(image, ub, {16384: merged(lists[:4])})
    assert z[:4].tolist() == [32] * 4
    ub, _, _ = lines("merge 3", image)
    assert_only(image, ub, {16384: merged([lists[0], lists[1][:7]])})
    ub, _, _ = lines("merge repeats", image)
    every = [merged(lists[r * 4 : r * 4 + 4]) for r in range(3)]
    assert_only(image, ub, {16384: np.concatenate(every)})
    # Lists that do not lie one after another: the repeat count has no effect (documented).
    ub, _, _ = lines("merge apart", image)
    assert_only(image, ub, {16384: merged([*lists[:3], lists[4]])})


def test_merges_stop_at_an_exhausted_list(lines: Lines) -> None:
    image, lists = sorted_image(4)
    both = merged([lists[0][:30], lists[1]])
    first = both[:, 4:].copy().view(np.uint32).reshape(-1) < 1000
    last = min(np.flatnonzero(first)[-1], np.flatnonzero(~first)[-1])  # ends the shorter of the two
    taken = [int(first[: last + 1].sum()), int((~first[: last + 1]).sum())]
    assert 30 in taken or 32 in taken
    for name in ("merge 2", "merge high"):
        ub, _, z = lines(name, image)
        assert_only(image, ub, {16384: both[: last + 1]})
        assert z[:2].tolist() == taken


def test_high_level_sort(lines: Lines) -> None:
    x = scores("float", 160, 5)
    index = np.arange(160, dtype=np.uint32) * 3
    image = put(put(random_image(5), 0, x), 4096, index)
    by = order(x)
    ub, _, _ = lines("full", image)
    ub = put(ub, 24576, image[24576 : 24576 + 1280])  # what tmp holds is not documented
    assert_only(image, ub, {16384: items(x[by], index[by]), 32768: x[by], 36864: index[by]})

    x = scores("half", 160, 6)
    image = put(put(random_image(6), 0, x), 4096, index)
    by = np.concatenate([order(x[r : r + 32]) + r for r in range(0, 160, 32)])
    ub, _, z = lines("groups", image)
    assert_only(image, ub, {16384: items(x[by], index[by]), 32768: x[by], 36864: index[by]})
    assert z[:4].tolist() == [40, 40, 20, 20]


PROPOSALS = {
    "concat": "ProposalConcat(UB(half, 16384), UB(half, 0), 2, 4);",
    "extract": "ProposalExtract(UB(half, 16384), UB(half, 0), 2, 3);",
    "sort": "RpSort16(UB(half, 16384), UB(half, 0), 2);",
    "sort in place": "RpSort16(UB(half, 0), UB(half, 0), 2);",
    "merge": LISTS.format(t="half", a=256, b=512, c=768)
    + INFO % ("16, 16, 16, 16", "false", 15, 2)
    + "MrgSort4(UB(half, 16384), list, info);",
    "bad mode": "ProposalConcat(UB(half, 16384), UB(half, 0), 2, 6);",
}


@pytest.mark.parametrize("arch", ["dav-1001", "dav-2002"])
def test_region_proposals(arch: str, tmp_path) -> None:
    lines = Lines(tmp_path, PROPOSALS, arch)
    image = random_image(7)
    x = get(image, 0, np.uint16, 32)
    want = {16384 + i * 16 + 8: x[i] for i in range(32)}  # the others of each stay
    assert_only(image, lines("concat", image)[0], want)
    rows = get(image, 0, np.uint16, 256).reshape(32, 8)
    assert_only(image, lines("extract", image)[0], {16384: rows[:, 3]})

    rows = get(image, 0, np.uint16, 128 * 8).reshape(128, 8)
    rows[:, 4] = scores("half", 128, 8).view(np.uint16)
    for r in range(0, 128, 16):  # for the merge: every list sorted
        score = rows[r : r + 16, 4].copy().view(np.float16)
        mixed = rows[r : r + 16]
        image = put(image, r * 16, mixed[order(score)])
    shuffled = put(image, 0, rows[:32])
    want_rows = np.concatenate(
        [rows[r : r + 16][order(rows[r : r + 16, 4].copy().view(np.float16))] for r in (0, 16)]
    )
    assert_only(shuffled, lines("sort", shuffled)[0], {16384: want_rows})
    assert_only(shuffled, lines("sort in place", shuffled)[0], {0: want_rows})

    lists = get(image, 0, np.uint16, 128 * 8).reshape(2, 64, 8)
    both = [half[order(half[:, 4].copy().view(np.float16))] for half in lists]
    assert_only(image, lines("merge", image)[0], {16384: np.concatenate(both)})
    with pytest.raises(wb.TwinFault, match="modeNumber 6; 0 to 5 are possible"):
        lines("bad mode", image)


FAULTS = {
    "valid bits with a hole": (
        "merge-params",
        FOUR + INFO % ("32, 32, 32, 32", "false", 5, 1) + "MrgSort(UB(float, 16384), list, info);",
        FOUR + INFO % ("32, 32, 32, 32", "false", 7, 1) + "MrgSort(UB(float, 16384), list, info);",
    ),
    "a list that is too long": (
        "merge-params",
        FOUR + INFO % ("4096, 1, 0, 0", "false", 3, 1) + "MrgSort(UB(float, 32768), list, info);",
        FOUR + INFO % ("4095, 1, 0, 0", "false", 3, 1) + "MrgSort(UB(float, 32768), list, info);",
    ),
    "repeat count": (
        "repeat",
        "Sort32(UB(float, 16384), UB(float, 0), UB(uint32_t, 4096), 256);",
        "Sort32(UB(float, 0), UB(float, 32768), UB(uint32_t, 49152), 128);",
    ),
    "a temporary that is too small": (
        "sort-tmp",
        "LocalTensor<float> tmp = UB(float, 24576); tmp.SetSize(319);"
        "Sort<float, true>(UB(float, 16384), UB(float, 0), UB(uint32_t, 4096), tmp, 5);",
        "LocalTensor<float> tmp = UB(float, 24576); tmp.SetSize(320);"
        "Sort<float, true>(UB(float, 16384), UB(float, 0), UB(uint32_t, 4096), tmp, 5);",
    ),
}


def test_faults(tmp_path) -> None:
    both = {}
    for name, (_, faulty, corrected) in FAULTS.items():
        both[f"{name}: faulty"], both[f"{name}: corrected"] = faulty, corrected
    faults = Lines(tmp_path, both)
    image = random_image(9)
    for name, (code, _, _) in FAULTS.items():
        with pytest.raises(wb.TwinFault) as caught:
            faults(f"{name}: faulty", image)
        assert (caught.value.kind, caught.value.code) == ("mem", code), name
        faults(f"{name}: corrected", image)
