"""Reductions, bit for bit against the documented orders written in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.twin.image import Lines, assert_only, get, put, random_image

ARCHS = ("dav-2201", "dav-3510", "dav-2002", "dav-1001")
LANES = {"float": 64, "half": 128}
DTYPE = {"float": np.float32, "half": np.float16}
BITS = {"float": np.uint32, "half": np.uint16}
NAN = {"float": 0x7FC00000, "half": 0x7E00}
DST, TMP = 40960, 49152


# ---- the documents' orders ----------------------------------------------------------------------


class Order:
    """How an architecture adds numbers of one type."""

    def __init__(self, arch: str, kind: str, saturate: bool | None = None):
        self.kind, self.lanes, self.dtype = kind, LANES[kind], DTYPE[kind]
        self.saturate = arch in ("dav-1001", "dav-2002") if saturate is None else saturate
        self.arch = arch
        # A masked lane counts as +0; on dav-3510 it is skipped, which -0 amounts to.
        self.masked = self.dtype(-0.0 if arch == "dav-3510" else 0.0)

    def rounded(self, sums: np.ndarray) -> np.ndarray:
        """Exact sums (of halves, in float64) -> the type."""
        with np.errstate(over="ignore", invalid="ignore"):
            out = sums.astype(self.dtype)
        if self.kind == "half" and self.saturate:
            out = np.where(np.isnan(out), np.float16(0), np.clip(out, -65504, 65504))
            out = out.astype(np.float16)
        return out

    def add(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kind == "float":
                return np.float32(a) + np.float32(b)
            return self.rounded(np.float64(a) + np.float64(b))

    def tree(self, x: np.ndarray) -> np.ndarray:
        """Adjacent pairs along the last axis."""
        while x.shape[-1] > 1:
            x = self.add(x[..., 0::2], x[..., 1::2])
        return x[..., 0]

    def padded(self, x: np.ndarray) -> np.ndarray:
        n = -(-x.size // self.lanes) * self.lanes
        return np.concatenate([x, np.full(n - x.size, self.masked)]).reshape(-1, self.lanes)

    def method1(self, x: np.ndarray):
        total = self.dtype(0)
        for r in self.tree(self.padded(x)):
            total = self.add(total, r)
        return total

    def method2(self, x: np.ndarray):
        results = self.tree(self.padded(x))
        while results.size > 1:
            results = self.tree(self.padded(results))
        return results[0]

    def method3(self, x: np.ndarray):
        rows = self.padded(x)
        rows = np.where(np.arange(rows.size).reshape(rows.shape) < x.size, rows, self.dtype(-0.0))
        fold = rows[0]
        if len(rows) >= 2:
            fold = self.add(fold, rows[1])
        if len(rows) == 3:
            fold = self.add(fold, rows[2])
        if len(rows) == 4:
            fold = self.add(fold, self.add(rows[2], rows[3]))
        return self.tree(self.padded(fold[: min(x.size, self.lanes)]))[0]

    def count(self, x: np.ndarray):
        if self.arch == "dav-2201":
            return self.method1(x)
        if self.arch == "dav-3510":
            return self.method3(x) if 256 <= x.nbytes <= 1024 else self.method2(x)
        tail = x.size % self.lanes
        if tail and x.size > self.lanes:  # the whole repeats, then the tail
            return self.add(self.method2(x[:-tail]), self.method2(x[-tail:]))
        return self.method2(x)


def bits(values, kind: str) -> np.ndarray:
    values = np.atleast_1d(np.asarray(values, DTYPE[kind]))
    return np.where(np.isnan(values), BITS[kind](NAN[kind]), values.view(BITS[kind]))


def numbers(kind: str, n: int, seed: int, spread: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(n) * spread).astype(DTYPE[kind])


def kinds(arch: str, op: str) -> list[str]:
    return ["half"] if arch == "dav-1001" else ["half", "float"]


# ---- sums over everything -----------------------------------------------------------------------

COUNTS = (1, 2, 63, 64, 65, 127, 128, 129, 192, 200, 255, 256, 257, 500, 640, 4096, 4100)


def sum_lines(arch: str) -> dict[str, str]:
    lines = {}
    for kind in kinds(arch, "ReduceSum"):
        for n in COUNTS:
            lines[f"{kind} {n}"] = (
                f"ReduceSum(UB({kind}, {DST}), UB({kind}, 0), UB({kind}, {TMP}), {n});"
            )
        masked = f"ReduceSum(UB({kind}, {DST}), UB({kind}, 0), UB({kind}, {TMP}), "
        lines[f"{kind} mask"] = masked + f"{LANES[kind] - 5}, 7, 9);"
        lines[f"{kind} bits"] = (
            "uint64_t mask[] = {0x8000123456789abcull, "
            + ("0x11ull" if kind == "half" else "0")
            + "};"
            + masked
            + "mask, 70, 8);"
        )
        lines[f"{kind} many"] = masked + f"{LANES[kind]}, 300, 0);"
    if arch == "dav-2201":
        lines["float acc"] = (
            f"ReduceSum(UB(float, {DST}), UB(float, 0), UB(float, {TMP}), 200);"
            "float a = GetAccVal<float>(); UB(float, 45056).SetValue(0, a);"
        )
        lines["half acc"] = (
            f"ReduceSum(UB(half, {DST}), UB(half, 0), UB(half, {TMP}), 200);"
            "half a = GetReduceRepeatSumSpr<half>(); UB(half, 45056).SetValue(0, a);"
        )
    return lines


@pytest.fixture(scope="module", params=ARCHS)
def sums(request, tmp_path_factory) -> tuple[str, Lines]:
    folder = tmp_path_factory.mktemp("sums")
    return request.param, Lines(folder, sum_lines(request.param), request.param)


def special(kind: str, n: int) -> dict[str, np.ndarray]:
    wide = numbers(kind, n, 7) * DTYPE[kind](1000)
    zeros = np.full(n, -0.0, DTYPE[kind])
    tiny = (np.arange(n) % 7).astype(BITS[kind]).view(DTYPE[kind])
    huge = np.where(np.arange(n) % 3 == 2, -30000, 60000).astype(DTYPE[kind])
    infinite = numbers(kind, n, 8)
    infinite[n // 2] = np.inf
    nan = infinite.copy()
    nan[n // 3] = -np.inf
    return {"wide": wide, "zeros": zeros, "tiny": tiny, "huge": huge, "inf": infinite, "nan": nan}


def without_tmp(ub: np.ndarray, image: np.ndarray) -> np.ndarray:
    return put(ub, TMP, image[TMP : TMP + 8192])


def test_sums_by_count(sums) -> None:
    arch, lines = sums
    for kind in kinds(arch, "ReduceSum"):
        order = Order(arch, kind)
        for n in COUNTS:
            inputs = {"plain": numbers(kind, n, n)} | special(kind, n)
            for name, x in inputs.items():
                image = put(random_image(5), 0, x)
                ub, _, _ = lines(f"{kind} {n}", image)
                want = bits(order.count(x), kind)
                got = get(ub, DST, BITS[kind], 1)
                assert got == want, (arch, kind, n, name, hex(got[0]), hex(want[0]))
                assert_only(image, without_tmp(ub, image), {DST: want})


def test_the_orders_differ() -> None:
    """The control: on these inputs an order that is not the architecture's gives other bits."""
    x = numbers("float", 4100, 4100)
    order = Order("dav-2201", "float")
    assert order.method1(x) != order.method2(x)
    x = np.zeros(256, np.float32)
    x[[13, 20, 34, 51, 93, 104, 132, 219]] = [1, -1e8, 3, 3, 1, 3, 1e8, 1]
    order = Order("dav-3510", "float")
    assert [order.method1(x), order.method2(x), order.method3(x)] == [17, 16, 9]


def masked_rows(order: Order, image, mask, repeat: int, rep: int) -> np.ndarray:
    size = np.dtype(order.dtype).itemsize
    rows = []
    for r in range(repeat):
        row = get(image, r * rep * 32, order.dtype, 256 // size)
        rows.append(np.where(mask, row, order.masked))
    return np.array(rows)


def test_sums_by_mask(sums) -> None:
    arch, lines = sums
    for kind in kinds(arch, "ReduceSum"):
        order = Order(arch, kind)
        lanes = LANES[kind]
        x = numbers(kind, 40960 // np.dtype(DTYPE[kind]).itemsize, 11)
        image = put(random_image(6), 0, x)
        word = 0x8000123456789ABC | (0x11 << 64 if kind == "half" else 0)
        for name, mask, repeat, rep in (
            ("mask", np.arange(lanes) < lanes - 5, 7, 9),
            ("bits", np.array([word >> i & 1 for i in range(lanes)], bool), 70, 8),
            ("many", np.ones(lanes, bool), 300, 0),
        ):
            results = order.tree(masked_rows(order, image, mask, repeat, rep))
            first = bits(results, kind)
            while results.size > 1:
                results = order.tree(order.padded(results))
            ub, _, _ = lines(f"{kind} {name}", image)
            # The temporary tensor holds the repeats' results.
            assert_only(image, ub, {TMP: first, DST: bits(results, kind)})


@pytest.mark.parametrize("sums", ["dav-2201"], indirect=True)  # GetAccVal exists nowhere else
def test_accumulator(sums) -> None:
    arch, lines = sums
    for kind in ("float", "half"):
        x = numbers(kind, 200, 12)
        image = put(random_image(7), 0, x)
        ub, _, _ = lines(f"{kind} acc", image)
        want = bits(Order(arch, kind).count(x), kind)
        assert_only(image, ub, {DST: want, 45056: want})


# ---- sums and extremes per repeat ---------------------------------------------------------------

HALF_WORDS = "uint64_t mask[] = {0xff00ffff00000ff0ull, 0x8000000100000000ull};"
FLOAT_WORDS = "uint64_t mask[] = {0xff0fff0000000ff0ull, 0};"
WORDS = {
    "half": 0xFF00FFFF00000FF0 | 0x8000000100000000 << 64,
    "float": 0xFF0FFF0000000FF0,
}
ORDERS = ("VALUE_INDEX", "INDEX_VALUE", "ONLY_VALUE", "ONLY_INDEX")


def repeat_lines(arch: str) -> dict[str, str]:
    lines = {}
    for kind in kinds(arch, ""):
        words = HALF_WORDS if kind == "half" else FLOAT_WORDS
        m = LANES[kind] - 3
        to = f"UB({kind}, {DST}), UB({kind}, 0)"
        lines |= {
            f"{kind} whole": f"WholeReduceSum({to}, {m}, 5, 2, 1, 9);",
            f"{kind} whole full": f"WholeReduceSum({to}, {LANES[kind]}, 5, 1, 1, 8);",
            f"{kind} whole bits": f"{words} WholeReduceSum({to}, mask, 5, 1, 2, 17);",
            f"{kind} repeat": f"RepeatReduceSum({to}, 5, {m}, 0, 1, 2, 9);",
            f"{kind} counter": "SetMaskCount(); SetVectorMask<"
            f"{kind}, MaskMode::COUNTER>(0, {2 * LANES[kind] + 3});"
            f"WholeReduceSum<{kind}, false>({to}, MASK_PLACEHOLDER, 1, 1, 1, 8); SetMaskNorm();",
            f"{kind} none": f"WholeReduceSum({to}, {m}, 0, 1, 1, 8);"
            f"WholeReduceSum({to}, 0, 3, 1, 1, 8);",
        }
        for name in ("Sum", "Max", "Min"):
            block = f"BlockReduce{name}({to}, 4, "
            lines[f"{kind} block {name}"] = block + f"{m}, 1, 1, 8);"
            lines[f"{kind} block bits {name}"] = words + block + "mask, 2, 1, 9);"
        pair = f"PairReduceSum({to}, 3, "
        lines[f"{kind} pair"] = pair + f"{m}, 1, 1, 8);"
        lines[f"{kind} pair bits"] = words + pair + "mask, 2, 1, 9);"
        for name in ("Max", "Min"):
            for order in ORDERS:
                lines[f"{kind} {name} {order}"] = (
                    f"WholeReduce{name}({to}, {m}, 4, 3, 1, 8, ReduceOrder::ORDER_{order});"
                )
            lines[f"{kind} {name} bits"] = words + f"WholeReduce{name}({to}, mask, 4, 1, 1, 8);"
    lines["9 sum"] = (
        f"ReduceRepeat<ReduceType::SUM>(UB(half, {DST}), UB(half, 0), 100, 2, 1, 1, 8);"
    )
    lines["9 max"] = (
        f"ReduceRepeat<ReduceType::MAX>(UB(half, {DST}), UB(half, 0), 100, 2, 1, 1, 8);"
    )
    lines["9 block"] = (
        f"ReduceDataBlock<ReduceType::MIN>(UB(half, {DST}), UB(half, 0), 2, 100, 1, 1, 8);"
    )
    lines["9 pair"] = (
        f"ReducePairElem<ReduceType::SUM>(UB(half, {DST}), UB(half, 0), 2, 100, 1, 1, 8);"
    )
    lines["8 sum"] = f"WholeReduceSum(UB(half, {DST}), UB(half, 0), 100, 2, 1, 1, 8);"
    lines["8 max"] = f"WholeReduceMax(UB(half, {DST}), UB(half, 0), 100, 2, 1, 1, 8);"
    lines["8 block"] = f"BlockReduceMin(UB(half, {DST}), UB(half, 0), 2, 100, 1, 1, 8);"
    lines["8 pair"] = f"PairReduceSum(UB(half, {DST}), UB(half, 0), 2, 100, 1, 1, 8);"
    return lines


@pytest.fixture(scope="module", params=ARCHS)
def repeats(request, tmp_path_factory) -> tuple[str, Lines]:
    folder = tmp_path_factory.mktemp("repeats")
    return request.param, Lines(folder, repeat_lines(request.param), request.param)


def filled(kind: str, seed: int) -> np.ndarray:
    x = numbers(kind, DST // np.dtype(DTYPE[kind]).itemsize, seed)
    x[::11] = x[0]  # ties
    return put(random_image(seed), 0, x)


def lanes_of(image, kind: str, repeat: int, blk: int, rep: int) -> np.ndarray:
    size = np.dtype(DTYPE[kind]).itemsize
    out = np.empty((repeat, LANES[kind]), DTYPE[kind])
    for r in range(repeat):
        for b in range(8):
            at = (r * rep + b * blk) * 32
            out[r, b * 32 // size : (b + 1) * 32 // size] = get(image, at, DTYPE[kind], 32 // size)
    return out


def mask_of(kind: str, first: int | None = None) -> np.ndarray:
    i = np.arange(LANES[kind])
    return (
        i < first if first is not None else np.array([WORDS[kind] >> int(k) & 1 for k in i], bool)
    )


def test_whole_sums(repeats) -> None:
    arch, lines = repeats
    for kind in kinds(arch, ""):
        order, size = Order(arch, kind), np.dtype(DTYPE[kind]).itemsize
        image = filled(kind, 21)
        m = LANES[kind] - 3

        def expect(
            name, mask, repeat, step, blk, rep, order=order, kind=kind, size=size, image=image
        ):
            x = np.where(mask, lanes_of(image, kind, repeat, blk, rep), order.masked)
            sums = bits(order.tree(x), kind)
            want = {DST + r * step * size: sums[r] for r in range(repeat)}
            assert_only(image, lines(f"{kind} {name}", image)[0], want)

        expect("whole", mask_of(kind, m), 5, 2, 1, 9)
        expect("whole full", mask_of(kind, LANES[kind]), 5, 1, 1, 8)
        expect("whole bits", mask_of(kind), 5, 1, 2, 17)
        expect("repeat", mask_of(kind, m), 5, 2, 1, 9)
        mask = np.array([mask_of(kind, n) for n in (LANES[kind], LANES[kind], 3)])
        expect("counter", mask, 3, 1, 1, 8)
        assert_only(image, lines(f"{kind} none", image)[0], {})


def test_block_and_pair_sums(repeats) -> None:
    arch, lines = repeats
    for kind in kinds(arch, ""):
        order, size = Order(arch, kind), np.dtype(DTYPE[kind]).itemsize
        image = filled(kind, 22)
        for name, group, mask, repeat, step, rep in (
            ("block Sum", 32 // size, mask_of(kind, LANES[kind] - 3), 4, 1, 8),
            ("block bits Sum", 32 // size, mask_of(kind), 4, 2, 9),
            ("pair", 2, mask_of(kind, LANES[kind] - 3), 3, 1, 8),
            ("pair bits", 2, mask_of(kind), 3, 2, 9),
        ):
            x = np.where(mask, lanes_of(image, kind, repeat, 1, rep), order.masked)
            sums = order.tree(x.reshape(repeat, -1, group))
            alive = mask.reshape(-1, group).any(axis=1)  # else dst is left alone
            want = {}
            for r in range(repeat):
                for g in np.flatnonzero(alive):
                    at = DST + (r * step * sums.shape[1] + g) * size
                    want[at] = bits(sums[r, g], kind)
            assert_only(image, lines(f"{kind} {name}", image)[0], want)


def extreme(x: np.ndarray, mask: np.ndarray, larger: bool) -> tuple[int, int]:
    """(index of the extreme among the lanes of mask): a NaN wins, of equal ones the first."""
    best = -1
    for i in np.flatnonzero(mask):
        if best < 0 or (
            not np.isnan(x[best])
            and (np.isnan(x[i]) or (x[i] > x[best] if larger else x[i] < x[best]))
        ):
            best = int(i)
    return best


@pytest.mark.parametrize("nans", [False, True])
def test_whole_extremes(repeats, nans: bool) -> None:
    arch, lines = repeats
    for kind in kinds(arch, ""):
        size, image = np.dtype(DTYPE[kind]).itemsize, filled(kind, 23)
        if nans:
            image = put(image, 256 + 20 * size, np.array([np.nan, 1, np.nan], DTYPE[kind]))
            image = put(image, 512 + 20 * size, -np.zeros(1, DTYPE[kind]))
        x = lanes_of(image, kind, 4, 1, 8)
        for name in ("Max", "Min"):
            mask = mask_of(kind, LANES[kind] - 3)
            at = [extreme(row, mask, name == "Max") for row in x]
            value = [bits(x[r, i], kind)[0] for r, i in enumerate(at)]
            for order in ORDERS:
                want = {}
                for r in range(4):
                    both = (value[r], at[r]) if order == "VALUE_INDEX" else (at[r], value[r])
                    pair = {
                        "ONLY_VALUE": np.array([value[r]], BITS[kind]),
                        "ONLY_INDEX": np.array([at[r]], np.uint32),
                    }.get(order, np.array(both, BITS[kind]))
                    want[DST + r * 3 * pair.nbytes] = pair
                assert_only(image, lines(f"{kind} {name} {order}", image)[0], want)
            mask = mask_of(kind)
            at = [extreme(row, mask, name == "Max") for row in x]
            pairs = [np.array([bits(x[r, i], kind)[0], i], BITS[kind]) for r, i in enumerate(at)]
            assert_only(image, lines(f"{kind} {name} bits", image)[0], {DST: np.concatenate(pairs)})


def test_block_extremes(repeats) -> None:
    arch, lines = repeats
    for kind in kinds(arch, ""):
        size, image = np.dtype(DTYPE[kind]).itemsize, filled(kind, 24)
        for name in ("Max", "Min"):
            for form, mask, step, rep in (
                ("block", mask_of(kind, LANES[kind] - 3), 1, 8),
                ("block bits", mask_of(kind), 2, 9),
            ):
                x = lanes_of(image, kind, 4, 1, rep).reshape(4, 8, -1)
                want = {}
                for r in range(4):
                    for b in range(8):
                        i = extreme(x[r, b], mask.reshape(8, -1)[b], name == "Max")
                        if i >= 0:
                            at = DST + (r * step * 8 + b) * size
                            want[at] = bits(x[r, b, i], kind)
                assert_only(image, lines(f"{kind} {form} {name}", image)[0], want)


def test_names_of_cann_9(repeats) -> None:
    _, lines = repeats
    image = filled("half", 25)
    for name in ("sum", "max", "block", "pair"):
        new, old = lines(f"9 {name}", image)[0], lines(f"8 {name}", image)[0]
        assert np.array_equal(new, old)
        assert not np.array_equal(new, image)


# ---- extremes over everything -------------------------------------------------------------------


def extreme_lines(arch: str) -> dict[str, str]:
    lines = {}
    for kind in kinds(arch, ""):
        for name in ("Max", "Min"):
            call = f"Reduce{name}(UB({kind}, {DST}), UB({kind}, 0), UB({kind}, {TMP}), "
            lines[f"{kind} {name} count"] = call + "777);"
            lines[f"{kind} {name} index"] = call + "777, true);"
            lines[f"{kind} {name} mask"] = call + f"{LANES[kind] - 5}, 9, 9, true);"
            # Lanes 4 to 11, 24 to 47 and some more.
            words = HALF_WORDS if kind == "half" else FLOAT_WORDS
            lines[f"{kind} {name} bits"] = words + call + "mask, 9, 8, true);"
    if arch == "dav-2201":
        lines["registers"] = (
            f"WholeReduceMax(UB(float, {DST}), UB(float, 0), 64, 1, 1, 1, 8);"
            "float v = 0, i = 0; GetReduceMaxMinCount<float>(v, i);"
            "UB(float, 45056).SetValue(0, v); UB(float, 45056).SetValue(1, i);"
        )
    if arch == "dav-3510":
        for t in ("int16_t", "uint32_t", "int64_t", "uint64_t"):
            lines[t] = f"ReduceMax(UB({t}, {DST}), UB({t}, 0), UB({t}, {TMP}), 300, true);"
        lines["sum"] = f"ReduceSum(UB(int64_t, {DST}), UB(int64_t, 0), UB(int64_t, {TMP}), 300);"
    return lines


@pytest.fixture(scope="module", params=ARCHS)
def extremes(request, tmp_path_factory) -> tuple[str, Lines]:
    folder = tmp_path_factory.mktemp("extremes")
    return request.param, Lines(folder, extreme_lines(request.param), request.param)


def test_extremes(extremes) -> None:
    arch, lines = extremes
    for kind in kinds(arch, ""):
        size, lanes = np.dtype(DTYPE[kind]).itemsize, LANES[kind]
        for seed in range(4):
            image = filled(kind, 30 + seed)
            if seed == 3:  # a NaN wins
                image = put(image, 333 * size, np.array([np.nan], DTYPE[kind]))
            x = get(image, 0, DTYPE[kind], 777)
            for name in ("Max", "Min"):
                i = extreme(x, np.ones(777, bool), name == "Max")
                for form, values in (
                    ("count", [bits(x[i], kind)[0]]),
                    ("index", [bits(x[i], kind)[0], i]),
                ):
                    ub, _, _ = lines(f"{kind} {name} {form}", image)
                    want = np.array(values, BITS[kind])
                    assert_only(image, without_tmp(ub, image), {DST: want})
                for form, mask, rep in (
                    ("mask", mask_of(kind, lanes - 5), 9),
                    ("bits", mask_of(kind), 8),
                ):
                    rows = lanes_of(image, kind, 9, 1, rep).reshape(-1)
                    i = extreme(rows, np.tile(mask, 9), name == "Max")
                    ub, _, _ = lines(f"{kind} {name} {form}", image)
                    want = np.array([bits(rows[i], kind)[0], i], BITS[kind])
                    assert_only(image, without_tmp(ub, image), {DST: want})


def test_registers_and_integers(extremes) -> None:
    arch, lines = extremes
    if arch == "dav-2201":
        image = filled("float", 40)
        ub, _, _ = lines("registers", image)
        assert np.array_equal(ub[DST : DST + 8], ub[45056 : 45056 + 8])
    elif arch == "dav-3510":
        image = random_image(41)
        for name, dtype in (
            ("int16_t", np.int16),
            ("uint32_t", np.uint32),
            ("int64_t", np.int64),
            ("uint64_t", np.uint64),
        ):
            x = get(image, 0, dtype, 300)
            want = np.array([x.max(), x.argmax()], dtype)
            assert_only(image, lines(name, image)[0], {DST: want})
        total = get(image, 0, np.uint64, 300).sum(dtype=np.uint64)
        assert_only(image, lines("sum", image)[0], {DST: total})


# ---- faults -------------------------------------------------------------------------------------

TMP_OF = "LocalTensor<float> tmp = UB(float, 49152); tmp.SetSize(%d);"
FAULTS = {
    "temporary of a masked sum": (
        "reduce-tmp",
        TMP_OF % 15 + "ReduceSum(UB(float, 40960), UB(float, 0), tmp, 64, 9, 8);",
        TMP_OF % 16 + "ReduceSum(UB(float, 40960), UB(float, 0), tmp, 64, 9, 8);",
    ),
    "temporary of an extreme": (
        "reduce-tmp",
        TMP_OF % 23 + "ReduceMax(UB(float, 40960), UB(float, 0), tmp, 640, false);",
        TMP_OF % 24 + "ReduceMax(UB(float, 40960), UB(float, 0), tmp, 640, false);",
    ),
    "temporary of an extreme with its index": (
        "reduce-tmp",
        TMP_OF % 39 + "ReduceMax(UB(float, 40960), UB(float, 0), tmp, 640, true);",
        TMP_OF % 40 + "ReduceMax(UB(float, 40960), UB(float, 0), tmp, 640, true);",
    ),
    "repeat count": (
        "repeat",
        "WholeReduceSum(UB(float, 40960), UB(float, 0), 64, 256, 1, 1, 8);",
        "WholeReduceSum(UB(float, 40960), UB(float, 0), 64, 255, 1, 1, 0);",
    ),
    "negative stride": (
        "stride",
        "WholeReduceSum(UB(float, 40960), UB(float, 0), 64, 2, 1, 1, -8);",
        "WholeReduceSum(UB(float, 40960), UB(float, 0), 64, 2, 1, 1, 8);",
    ),
    "mask": (
        "mask",
        "WholeReduceSum(UB(float, 40960), UB(float, 0), 65, 2, 1, 1, 8);",
        "WholeReduceSum(UB(float, 40960), UB(float, 0), 64, 2, 1, 1, 8);",
    ),
    "negative mask": (
        "mask",
        "WholeReduceSum(UB(half, 40960), UB(half, 0), -1, 2, 1, 1, 8);",
        "WholeReduceSum(UB(half, 40960), UB(half, 0), 1, 2, 1, 1, 8);",
    ),
    "alignment of a pair": (
        "alignment",
        "WholeReduceMax(UB(float, 40964), UB(float, 0), 64, 2, 1, 1, 8);",
        "WholeReduceMax(UB(float, 40968), UB(float, 0), 64, 2, 1, 1, 8);",
    ),
    "alignment of block sums": (
        "alignment",
        "BlockReduceSum(UB(half, 40968), UB(half, 0), 2, 128, 1, 1, 8);",
        "BlockReduceSum(UB(half, 40976), UB(half, 0), 2, 128, 1, 1, 8);",
    ),
}


def test_faults(tmp_path) -> None:
    both = {}
    for name, (_, faulty, corrected) in FAULTS.items():
        both[f"{name}: faulty"], both[f"{name}: corrected"] = faulty, corrected
    faults = Lines(tmp_path, both)
    image = filled("float", 50)
    for name, (code, _, _) in FAULTS.items():
        with pytest.raises(wb.TwinFault) as caught:
            faults(f"{name}: faulty", image)
        assert (caught.value.kind, caught.value.code) == ("mem", code), name
        faults(f"{name}: corrected", image)
