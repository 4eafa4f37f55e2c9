"""The rest of the catalog: fills, gathers, transposes, sorts and copies. See ``catalog``."""

from __future__ import annotations

import numpy as np
from models.vector import moves
from models.vector.core import BLOCK, NUMPY, SIZE, Instr, lanes_of

from .catalog import THREE, Case, Shape, elementwise_of, scalar_bits
from .draw import IMAGE, SCRATCH, Draw, Drawn, extent

# --- fills ----------------------------------------------------------------------------------------


def _duplicate_make(rnd: Draw, case: Case) -> Drawn:
    drawn = elementwise_of(rnd, case, Shape(0, case.types[0]))
    return drawn


def _copy_make(rnd: Draw, case: Case) -> Drawn:
    drawn = elementwise_of(rnd, case, Shape(1)) if case.form != "counter" else None
    if drawn is not None:
        return drawn
    kind = case.types[0]
    size, lanes = SIZE[kind], lanes_of(SIZE[kind])
    i = Instr(case.op, case.types, 0, form="counter", repeat=rnd.randrange(1, 4))
    i.count = rnd.randrange(1, lanes + 1)  # within one repeat's 256 bytes
    i.dst_blk, i.src_blk = rnd.often(1, 2), (rnd.often(1, 2),)
    i.dst_rep, i.src_rep = 16, (rnd.often(8, 16, 9),)
    sizes = [
        extent(size, lanes, i.repeat, i.dst_blk, i.dst_rep),
        extent(size, lanes, i.repeat, i.src_blk[0], i.src_rep[0]),
    ]
    i.dst, src = rnd.places(sizes)
    i.srcs = (src,)
    return Drawn(i, [(src, sizes[1], kind, "any")])


def _brcb_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    i = Instr(case.op, case.types, 0, form="repeat", repeat=rnd.randrange(1, 9))
    i.dst_blk = rnd.often(1, 2, 3)
    i.dst_rep = 8 * i.dst_blk + rnd.often(0, 3)
    while True:
        sizes = [
            ((i.repeat - 1) * i.dst_rep + 7 * i.dst_blk + 1) * BLOCK,
            8 * i.repeat * SIZE[kind],
        ]
        if sum(sizes) + 32 <= IMAGE:
            break
        i.repeat -= 1
    i.dst, src = rnd.places(sizes)
    i.srcs = (src,)
    return Drawn(i, [(src, sizes[1], kind, "any")])


def _index_make(rnd: Draw, case: Case) -> Drawn:
    """First values whose sums are exact, so that no order of additions can show."""
    kind = case.types[0]
    drawn = elementwise_of(rnd, case, Shape(0))
    first = rnd.randrange(-100, 100)
    i = drawn.instr
    if kind == "half":
        i.scalar = int(np.array([first], np.float16).view(np.uint16)[0])
        if case.form == "count":
            i.count = min(i.count, 1900)
    elif kind == "float":
        i.scalar = int(np.array([first], np.float32).view(np.uint32)[0])
    else:
        i.scalar = first & (1 << 8 * SIZE[kind]) - 1
    return drawn


def _progression_make(rnd: Draw, case: Case) -> Drawn:
    """Steps whose terms are exact, so that no way of computing them can show."""
    drawn = _index_make(rnd, case)
    step = rnd.randrange(-3, 4)
    i = drawn.instr
    if case.types[0] == "half":
        i.count = min(i.count, 600)
        i.extra["step"] = int(np.array([step], np.float16).view(np.uint16)[0])
    elif case.types[0] == "float":
        i.extra["step"] = int(np.array([step], np.float32).view(np.uint32)[0])
    else:
        i.extra["step"] = step & (1 << 8 * SIZE[case.types[0]]) - 1
    return drawn


# --- gather ---------------------------------------------------------------------------------------


def _gather_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    size, lanes = SIZE[kind], lanes_of(SIZE[kind])
    i = Instr(case.op, case.types, 0, form=case.form, src_blk=(1,), src_rep=(8,))
    if case.form == "count":
        total = i.count = rnd.count(600, lanes)
        out = total * size
    else:
        i.repeat = rnd.randrange(1, 5)
        i.mask = rnd.mask(case.form, lanes)
        i.dst_rep = rnd.often(8, 9, 12)
        total, out = i.repeat * lanes, extent(size, lanes, i.repeat, 1, i.dst_rep)
    source = rnd.randrange(1, 33) * BLOCK
    i.dst, src, table = rnd.places([out, source, 4 * total])
    i.srcs = (src, table)
    base = rnd.often(0, size, 8 * size)
    base = base if base < source else 0
    i.extra["base"] = base
    rng = np.random.default_rng(rnd.getrandbits(32))
    offsets = rng.integers(0, (source - base) // size, total).astype(np.uint32) * np.uint32(size)
    return Drawn(i, [(src, source, kind, "any"), (table, offsets)])


def _gatherb_make(rnd: Draw, case: Case) -> Drawn:
    i = Instr(case.op, case.types, 0, form="repeat", repeat=rnd.randrange(1, 7))
    i.dst_blk = rnd.often(1, 2)
    i.dst_rep = 8 * i.dst_blk + rnd.often(0, 1, 4)
    source = rnd.randrange(1, 33) * BLOCK
    while True:
        sizes = [((i.repeat - 1) * i.dst_rep + 7 * i.dst_blk + 1) * BLOCK, source, 32 * i.repeat]
        if sum(sizes) <= IMAGE:
            break
        i.repeat -= 1
    i.dst, src, table = rnd.places(sizes)
    i.srcs = (src, table)
    rng = np.random.default_rng(rnd.getrandbits(32))
    offsets = rng.integers(0, source // BLOCK, 8 * i.repeat).astype(np.uint32) * np.uint32(BLOCK)
    return Drawn(i, [(src, source, case.types[0], "any"), (table, offsets)])


def _gather_mask_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    size, lanes = SIZE[kind], lanes_of(SIZE[kind])
    i = Instr(case.op, case.types, 0, form="repeat", src_blk=(rnd.often(1, 2),))
    i.repeat = rnd.randrange(1, 6)
    counter = rnd.random() < 0.5
    each = lanes
    if counter:
        each = i.mask = rnd.randrange(1, 2 * lanes)
    i.src_rep = (rnd.often(8, 4, 0, 12),)
    rows = -(-each // lanes) * lanes
    tensor = case.variant == "tensor"
    rep1 = rnd.often(1, 0, 2) if tensor else 0
    while True:
        source = extent(size, rows, i.repeat, i.src_blk[0], i.src_rep[0])
        pattern = ((i.repeat - 1) * rep1 + 1) * BLOCK + rows // 8 if tensor else BLOCK
        sizes = [i.repeat * each * size, source, pattern]
        if sum(sizes) + 96 <= IMAGE:
            break
        i.repeat -= 1
    i.dst, src, table = rnd.places(sizes)
    i.srcs = (src, table)
    i.extra = {"reduce": counter, "src1_rep": rep1}
    fills = [(src, source, kind, "any")]
    if tensor:
        fills.append((table, pattern, "uint8_t", "raw"))
    else:
        i.extra["pattern"] = rnd.randrange(1, 8)
    return Drawn(i, fills)


# --- transpose ------------------------------------------------------------------------------------


def _transpose_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    i = Instr(case.op, case.types, 0, form="block", mode=case.variant)
    if case.variant == "":
        sizes = [512, 512]
    else:
        per, tall = BLOCK // SIZE[kind], 32 if SIZE[kind] == 1 else 16
        n, c = rnd.randrange(1, 4), rnd.randrange(1, 3 if tall == 32 else 6)
        h, w = rnd.choice(((1, per), (2, per // 2), (per, 1), (2, per)))
        i.extra["shape"] = (n, c, h, w)
        # The documents' sizes of the temporary tensor.
        rows = c + 2 if case.variant == "NCHW2NHWC" else 2 * c + 1
        sizes = [n * c * h * w * SIZE[kind]] * 2 + [rows * tall * BLOCK]
    offsets = rnd.places(sizes)
    i.dst, i.srcs = offsets[0], tuple(offsets[1:])
    if len(sizes) == 3:
        i.extra["tmp"] = (offsets[2], offsets[2] + -(-sizes[2] // BLOCK) * BLOCK)
    return Drawn(i, [(offsets[1], sizes[1], kind, "any")])


def _trans_data_make(rnd: Draw, case: Case) -> Drawn:
    i = Instr(case.op, case.types, 0, form="block", repeat=rnd.randrange(1, 5))
    # Repeats follow one another in every list entry, or blocks alternate between the entries.
    spans = 1 if i.repeat == 1 else i.repeat
    shift = rnd.often(0, 1) if i.repeat == 1 else 1
    i.dst_rep, i.src_rep = shift, (shift,)
    places = rnd.places([(spans + 1) * BLOCK] * 32)
    i.extra = {
        "dst_list": places[:16],
        "src_list": places[16:],
        "dst_high": SIZE[case.types[0]] == 1 and rnd.random() < 0.5,
        "src_high": SIZE[case.types[0]] == 1 and rnd.random() < 0.5,
    }
    return Drawn(i, [(at, (spans + 1) * BLOCK, case.types[0], "any") for at in places[16:]])


# --- sort -----------------------------------------------------------------------------------------


def _sort32_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    i = Instr(case.op, case.types, 0, form="repeat", repeat=rnd.randrange(1, 15))
    n = 32 * i.repeat
    sizes = [8 * n, SIZE[kind] * n, 4 * n]
    i.dst, a, b = rnd.places(sizes)
    i.srcs = (a, b)
    return Drawn(
        i, [(a, sizes[1], kind, rnd.choice(("ordered", "few"))), (b, sizes[2], "uint32_t", "raw")]
    )


def _queue(rng: np.random.Generator, kind: str, n: int, few: bool) -> np.ndarray:
    """A sorted queue of pairs as bytes."""
    score = rng.integers(-3, 4, n) * 0.5 if few else rng.standard_normal(n) * 100
    score = -np.sort(-score)
    out = rng.integers(0, 256, (n, 8)).astype(np.uint8)
    width = SIZE[kind]
    raw = score.astype(np.float16 if kind == "half" else np.float32).reshape(n, 1)
    out[:, :width] = raw.view(np.uint8)
    return out


def _mrg_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    rng = np.random.default_rng(rnd.getrandbits(32))
    i = Instr(case.op, case.types, 0, form="list")
    few = rnd.random() < 0.4
    if case.variant == "repeat":
        i.repeat = rnd.randrange(2, 4)
        length = rnd.choice((4, 16, 32, 40))
        step = 4 * length * 8
        i.dst, src = rnd.places([i.repeat * step] * 2)
        i.srcs = tuple(src + k * length * 8 for k in range(4))
        i.extra = {"lengths": (length,) * 4, "suspend": False}
        fills = [
            (s + n * step, _queue(rng, kind, length, few)) for n in range(i.repeat) for s in i.srcs
        ]
        return Drawn(i, fills)
    queues = rnd.randrange(2, 5)
    lengths = tuple(rnd.randrange(1, 90) for _ in range(queues))
    offsets = rnd.places([8 * sum(lengths), *[8 * n for n in lengths]])
    i.dst, i.srcs = offsets[0], tuple(offsets[1:])
    i.extra = {"lengths": lengths, "suspend": case.variant == "suspend"}
    fills = [(s, _queue(rng, kind, n, few)) for s, n in zip(i.srcs, lengths, strict=True)]
    return Drawn(i, fills)


def _extract_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    i = Instr(case.op, case.types, 0, form="repeat", repeat=rnd.randrange(1, 15))
    n = 32 * i.repeat
    i.dst, index, src = rnd.places([SIZE[kind] * n, 4 * n, 8 * n])
    i.srcs, i.extra = (src,), {"index": index}
    return Drawn(i, [(src, 8 * n, "uint8_t", "raw")])


# --- copies ---------------------------------------------------------------------------------------


def _copies_make(rnd: Draw, case: Case) -> Drawn:
    """DataCopy in the three ways, DataCopyPad in two."""
    kind, way = case.types[0], case.variant.split()[0]
    size = SIZE[kind]
    i = Instr(case.op, case.types, 0, form=case.form, extra={"way": way})
    pad = case.op == "DataCopyPad"
    if case.form == "count":
        i.count = rnd.randrange(1, 2000 // size)
        length, bursts, gaps = i.count * size // BLOCK * BLOCK, 1, (0, 0)
    else:
        bursts = rnd.randrange(1, 6)
        length = rnd.randrange(1, 300 // size) * size if pad else rnd.randrange(1, 10) * BLOCK
        if pad:  # GM in bytes, UB in data blocks
            near, far = rnd.often(0, rnd.randrange(1, 50)), rnd.often(0, 1, 3)
            gaps = (near, far) if way == "in" else (far, near)
        else:
            gaps = (rnd.often(0, 1, 4) * BLOCK, rnd.often(0, 1, 4) * BLOCK)
        i.extra |= {"blocks": bursts, "length": length, "gaps": gaps}
    left = right = 0
    if pad and way == "in":
        most = BLOCK // size
        kindly = rnd.random()
        if kindly > 0.4:
            left, right = rnd.randrange(most + 1), rnd.randrange(most + 1)
        i.extra["pad"] = (rnd.random() < 0.7, left, right, scalar_bits(rnd, kind))
        i.scalar = i.extra["pad"][3]
    if pad:
        step = -(-(length + (left + right) * size) // BLOCK) * BLOCK
        ub_gap, gm_gap = (gaps[1], gaps[0]) if way == "in" else gaps
        on_ub = bursts * (step + ub_gap * BLOCK)
        on_gm = bursts * (length + gm_gap)
    else:
        on_src = bursts * (length + gaps[0])
        on_dst = bursts * (length + gaps[1])
        on_ub, on_gm = (on_dst, on_src) if way == "in" else (on_src, on_dst)
    # GM is aligned to one byte, but an atomic needs whole elements.
    if way == "ub":
        i.dst, src = rnd.places([max(on_dst, BLOCK), max(on_src, BLOCK)])
        i.srcs = (src,)
        return Drawn(i, [(src, on_src, kind, "any")])
    (ub,) = rnd.places([max(on_ub, BLOCK)])
    (gm,) = rnd.places([max(on_gm, size)], align=size, image=SCRATCH)
    how = case.variant.split()[1:]
    if how:
        i.extra["atomic"] = how[0]
    i.dst, i.srcs = (ub, (gm,)) if way == "in" else (gm, (ub,))
    fills = [(ub, on_ub, kind, "any")] if way == "out" else []
    return Drawn(i, fills, uses_gm=True)


def _copy_cases() -> list[Case]:
    cases = []
    local, other = "f.at<{0}>(1)", "f.at<{0}>(2)"
    ends = {
        "in": (local, "f.global<{0}>(2)"),
        "out": ("f.global<{0}>(1)", other),
        "ub": (local, other),
    }
    for kind in ("int8_t", "half", "float", "int32_t", "bfloat16_t", "int64_t"):
        types = (kind, kind)
        for way, (dst, src) in ends.items():
            two = f"{dst}, {src}".format(kind)
            cases.append(
                Case(
                    "copy",
                    "DataCopy",
                    types,
                    "count",
                    f"DataCopy({two}, uint32_t(f.count()));",
                    _copies_make,
                    way,
                )
            )
            params = (
                "DataCopyParams(uint16_t(f.w(24)), uint16_t(f.w(25) / 32), "
                "uint16_t(f.w(26) / 32), uint16_t(f.w(27) / 32))"
            )
            cases.append(
                Case(
                    "copy",
                    "DataCopy",
                    types,
                    "params",
                    f"DataCopy({two}, {params});",
                    _copies_make,
                    way,
                )
            )
            if way == "ub":
                continue
            ext = (
                "DataCopyExtParams{uint16_t(f.w(24)), uint32_t(f.w(25)), uint32_t(f.w(26)), "
                "uint32_t(f.w(27)), 0}"
            )
            pad = (
                f", DataCopyPadExtParams<{kind}>{{f.w(28) != 0, uint8_t(f.w(29)), "
                f"uint8_t(f.w(30)), f.scalar<{kind}>()}}"
                if way == "in"
                else ""
            )
            cases.append(
                Case(
                    "copy",
                    "DataCopyPad",
                    types,
                    "params",
                    f"DataCopyPad({two}, {ext}{pad});",
                    _copies_make,
                    way,
                )
            )
    for kind in ("float", "half", "int16_t", "int32_t", "int8_t", "bfloat16_t"):
        dst, src = ends["out"]
        two = f"{dst}, {src}".format(kind)
        for how in ("add", "max", "min"):
            name = f"SetAtomic{how.capitalize()}<{kind}>(); "
            cases.append(
                Case(
                    "atomic",
                    "DataCopy",
                    (kind, kind),
                    "count",
                    f"{name}DataCopy({two}, uint32_t(f.count())); SetAtomicNone();",
                    _copies_make,
                    f"out {how}",
                )
            )
    return cases


_LENGTHS = (
    "uint16_t lengths[4] = {uint16_t(f.w(24)), uint16_t(f.w(25)), uint16_t(f.w(26)), "
    "uint16_t(f.w(27))}; "
)


def _sort_cases() -> list[Case]:
    cases = []
    for kind in ("half", "float"):
        types = (kind, kind)
        cases.append(
            Case(
                "sort",
                "Sort32",
                types,
                "repeat",
                f"Sort32(f.at<{kind}>(1), f.at<{kind}>(2), f.at<uint32_t>(3), f.w(7));",
                _sort32_make,
            )
        )
        lists = ", ".join(f"f.at<{kind}>({n})" for n in (2, 3, 4, 5))
        text = (
            f"{_LENGTHS}MrgSort4Info info(lengths, f.w(28) != 0, uint16_t(f.w(29)), "
            f"uint16_t(f.w(7))); MrgSort(f.at<{kind}>(1), MrgSortSrcList<{kind}>({lists}), info); "
            "uint16_t a, b, c, d; GetMrgSortResult(a, b, c, d); "
            "f.result(0, uint64_t(a) | uint64_t(b) << 16 | uint64_t(c) << 32 | uint64_t(d) << 48);"
        )
        for variant in ("", "suspend", "repeat"):
            cases.append(Case("sort", "MrgSort", types, "list", text, _mrg_make, variant))
        cases.append(
            Case(
                "sort",
                "Extract",
                types,
                "repeat",
                f"Extract(f.at<{kind}>(1), f.at<uint32_t>(24), f.at<{kind}>(2), f.w(7));",
                _extract_make,
            )
        )
    return cases


def _transpose_cases() -> list[Case]:
    cases = []
    for kind in moves.TAKES["Transpose"]:
        cases.append(
            Case(
                "transpose",
                "Transpose",
                (kind, kind),
                "block",
                f"Transpose(f.at<{kind}>(1), f.at<{kind}>(2));",
                _transpose_make,
            )
        )
    for kind in moves.TAKES["TransDataTo5HD"]:
        for mode in ("NCHW2NHWC", "NHWC2NCHW"):
            ext = (
                f"TransposeParamsExt(f.w(24), f.w(25), f.w(26), f.w(27), "
                f"TransposeType::TRANSPOSE_{mode})"
            )
            cases.append(
                Case(
                    "transpose",
                    "Transpose",
                    (kind, kind),
                    "block",
                    f"Transpose(f.at<{kind}>(1), f.at<{kind}>(2), f.at<uint8_t>(3), {ext});",
                    _transpose_make,
                    mode,
                )
            )
        text = (
            f"LocalTensor<{kind}> dst[16], src[16]; for (int32_t n = 0; n < 16; ++n) {{ "
            f"dst[n] = f.at<{kind}>(32 + n); src[n] = f.at<{kind}>(48 + n); }} "
            f"TransDataTo5HD<{kind}>(dst, src, TransDataTo5HDParams(f.w(24) != 0, f.w(25) != 0, "
            "f.repeat(), uint16_t(f.w(12)), uint16_t(f.w(13))));"
        )
        cases.append(
            Case("transpose", "TransDataTo5HD", (kind, kind), "block", text, _trans_data_make)
        )
    return cases


def here() -> list[Case]:
    cases: list[Case] = []

    def add(group, op, kind, form, text, make, variant=""):
        cases.append(Case(group, op, (kind, kind), form, text, make, variant))

    for kind in moves.TAKES["Duplicate"]:
        one, two = f"f.at<{kind}>(1)", f"f.at<{kind}>(1), f.at<{kind}>(2)"
        value, strides = f"f.scalar<{kind}>()", "uint16_t(f.w(8)), uint8_t(f.w(12))"
        texts = {
            "count": f"Duplicate({one}, {value}, f.count());",
            "mask": f"Duplicate({one}, {value}, f.mask(), f.repeat(), {strides});",
            "bits": f"BITS(f); Duplicate({one}, {value}, bits, f.repeat(), {strides});",
        }
        for form, text in texts.items():
            add("fill", "Duplicate", kind, form, text, _duplicate_make)
        params = (
            "CopyRepeatParams(uint16_t(f.w(8)), uint16_t(f.w(9)), uint16_t(f.w(12)), "
            "uint16_t(f.w(13)))"
        )
        texts = {
            "mask": f"Copy({two}, f.mask(), f.repeat(), {params});",
            "bits": f"BITS(f); Copy({two}, bits, f.repeat(), {params});",
            "counter": f"COUNTER_ON({kind}, f); Copy<{kind}, false>({two}, MASK_PLACEHOLDER, "
            f"f.repeat(), {params}); COUNTER_OFF();",
        }
        for form, text in texts.items():
            add("fill", "Copy", kind, form, text, _copy_make)
        add(
            "fill",
            "Brcb",
            kind,
            "repeat",
            f"Brcb({two}, f.repeat(), BrcbRepeatParams(uint16_t(f.w(8)), uint16_t(f.w(12))));",
            _brcb_make,
        )
        offsets = f"{two}, f.at<uint32_t>(3)"
        texts = {
            "count": f"Gather({offsets}, uint32_t(f.w(24)), uint32_t(f.count()));",
            "mask": f"Gather({offsets}, uint32_t(f.w(24)), f.mask(), f.repeat(), "
            "uint16_t(f.w(12)));",
            "bits": f"BITS(f); Gather({offsets}, uint32_t(f.w(24)), bits, f.repeat(), "
            "uint16_t(f.w(12)));",
        }
        for form, text in texts.items():
            add("gather", "Gather", kind, form, text, _gather_make)
        if kind in ("uint16_t", "uint32_t"):
            add(
                "gather",
                "Gatherb",
                kind,
                "repeat",
                f"Gatherb({offsets}, f.repeat(), GatherRepeatParams(uint8_t(f.w(8)), "
                "uint8_t(f.w(12))));",
                _gatherb_make,
            )
        tail = (
            "f.w(24) != 0, uint32_t(f.w64(16)), GatherMaskParams(uint8_t(f.w(9)), "
            "uint16_t(f.w(7)), uint16_t(f.w(13)), uint8_t(f.w(26))), rsvd); f.result(0, rsvd);"
        )
        bits = "uint16_t" if NUMPY[kind]().itemsize == 2 else "uint32_t"
        add(
            "gather",
            "GatherMask",
            kind,
            "repeat",
            f"uint64_t rsvd = 0; GatherMask({two}, uint8_t(f.w(25)), {tail}",
            _gather_mask_make,
            "pattern",
        )
        add(
            "gather",
            "GatherMask",
            kind,
            "repeat",
            f"uint64_t rsvd = 0; GatherMask({two}, f.at<{bits}>(3), {tail}",
            _gather_mask_make,
            "tensor",
        )
    for kind in moves.TAKES["CreateVecIndex"]:
        make = f"auto dst = f.at<{kind}>(1); CreateVecIndex(dst, f.scalar<{kind}>(), "
        strides = "uint16_t(f.w(8)), uint8_t(f.w(12))"
        texts = {
            "count": f"{make}uint32_t(f.count()));",
            "mask": f"{make}f.mask(), f.repeat(), {strides});",
            "bits": f"BITS(f); {make}bits, f.repeat(), {strides});",
        }
        assert tuple(texts) == THREE
        for form, text in texts.items():
            add("fill", "CreateVecIndex", kind, form, text, _index_make)
        ends = f"f.scalar<{kind}>(), f.scalar<{kind}>(24)"
        text = f"ArithProgression(f.at<{kind}>(1), {ends}, f.count());"
        add("fill", "ArithProgression", kind, "count", text, _progression_make)
    return cases + _transpose_cases() + _sort_cases() + _copy_cases()
