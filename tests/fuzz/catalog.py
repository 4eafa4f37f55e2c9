"""Every instruction of the fuzz: its types and forms, its C++ call, and how one is drawn.

Element-wise instructions, compares, selections and reductions are here, the rest is in
``catalog_casts`` and ``catalog_moves``. A ``Case`` is one line of the interpreter's switch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from models.vector import elementwise, reduce
from models.vector.compare import MODES, SELECT_MODES
from models.vector.core import BLOCK, SIZE, Instr, lanes_of

from .draw import IMAGE, SPECIAL, Draw, Drawn, extent


@dataclass(frozen=True)
class Case:
    """One (instruction, types, form, variant)."""

    group: str
    op: str
    types: tuple[str, str]
    form: str
    code: str  # C++ statements; ``f`` is the frame
    make: Callable[[Draw, Case], Drawn]
    variant: str = ""

    @property
    def name(self) -> str:
        types = "/".join(dict.fromkeys(self.types))
        return " ".join(filter(None, (self.op, types, self.form, self.variant)))


THREE = ("count", "mask", "bits")
FOUR = (*THREE, "counter")
FIVE = (*FOUR, "norm")  # bits given by SetVectorMask; for the model the same as "bits"


def calls(op: str, types: str, head: str, params: str, forms=FOUR, tail: str = "") -> dict:
    """form -> C++ for a call ``op(head, <how many>, params)``. ``types``: template arguments."""
    counter = f"{op}<{types}, false>" if types else f"{op}<false>"
    made = {
        "count": f"{op}({head}, f.count());",
        "mask": f"{op}({head}, f.mask(), f.repeat(), {params}{tail});",
        "bits": f"BITS(f); {op}({head}, bits, f.repeat(), {params}{tail});",
        "counter": f"COUNTER_ON(float, f); "
        f"{counter}({head}, MASK_PLACEHOLDER, 1, {params}{tail}); COUNTER_OFF();",
        "norm": "SetMaskNorm(); SetVectorMask<half, MaskMode::NORMAL>(f.w64(18), f.w64(16)); "
        f"{counter}({head}, MASK_PLACEHOLDER, f.repeat(), {params}{tail}); ResetMask();",
    }
    return {form: made[form] for form in forms}


# --- element-wise: two types, some sources, maybe a scalar ----------------------------------------


@dataclass(frozen=True)
class Shape:
    """What the drawing of an element-wise instruction needs to know."""

    sources: int = 1
    scalar: str | None = None  # its type
    accumulates: bool = False  # reads its destination
    flavour: str = "any"
    in_place: bool = True  # dst may be a source
    spare: int = 0  # bytes that the instruction needs besides, at extra["spare"]


def elementwise_of(rnd: Draw, case: Case, shape: Shape) -> Drawn:
    """An element-wise instruction in any form."""
    dst, src = case.types
    a, b = SIZE.get(dst, 1), SIZE.get(src, 1)
    four_bits = "int4b_t" in case.types
    lanes = lanes_of(2) if four_bits else lanes_of(a, b)
    i = Instr(case.op, case.types, 0, form="bits" if case.form == "norm" else case.form)
    n = shape.sources
    half = 2 if four_bits else 1  # elements in a byte of int4b_t

    def size_of(kind: str, elements: int) -> int:
        return -(-elements // 2) if kind == "int4b_t" else elements * SIZE[kind]

    if case.form == "count":
        each = size_of(dst, 2) + n * size_of(src, 2)
        i.count = rnd.count(2 * (IMAGE - 32 * (n + 2) - shape.spare) // each, lanes)
        i.count = max(half, i.count // half * half)
        sizes = [size_of(dst, i.count), *[size_of(src, i.count)] * n]
    else:
        if case.form == "counter":
            repeats = rnd.randrange(1, 5)
            i.count = max(half, rnd.randrange(1, repeats * lanes + 1) // half * half)
            repeats = -(-i.count // lanes)
        else:
            most = min(255, IMAGE // 512)
            repeats = i.repeat = rnd.often(rnd.randrange(1, 6), 1, 8, most, share=0.8)
            i.mask = rnd.mask(i.form, lanes)
        while True:
            natural = [size_of(kind, lanes) // BLOCK for kind in (dst, src)]
            i.dst_blk = rnd.often(1, 2, 3, share=0.8)
            i.src_blk = tuple(rnd.often(1, 2, 3, share=0.8) for _ in range(n))
            least = (natural[0] - 1) * i.dst_blk + 1
            i.dst_rep = rnd.often(max(natural[0], least), least, least + 3, least + 8)
            rep = natural[1]
            i.src_rep = tuple(rnd.often(rep, 0, 1, rep + 5, 2 * rep) for _ in range(n))
            d, s = size_of(dst, lanes), size_of(src, lanes)
            sizes = [extent(1, d, repeats, i.dst_blk, i.dst_rep)]
            pairs = zip(i.src_blk, i.src_rep, strict=True)
            sizes += [extent(1, s, repeats, blk, r) for blk, r in pairs]
            if sum(sizes) + shape.spare <= IMAGE:
                break
            if case.form == "counter":
                i.count, repeats = min(i.count, lanes), 1
            else:
                repeats = i.repeat = max(1, i.repeat - 1)
    offsets = rnd.places(sizes + [shape.spare] * (shape.spare > 0))
    i.dst, i.srcs = offsets[0], tuple(offsets[1 : n + 1])
    if shape.spare:
        i.extra["spare"] = offsets[-1]
        i.extra["ignore"] = (offsets[-1], offsets[-1] + shape.spare)
    shared = _overlap(rnd, i, case, shape)
    if shared is not None:
        sizes[1 + shared] = sizes[0]
    if shape.scalar is not None:
        i.scalar = scalar_bits(rnd, shape.scalar)
    fills = [(o, s, src, shape.flavour) for o, s in zip(i.srcs, sizes[1:], strict=True)]
    if shape.accumulates:
        fills.append((i.dst, sizes[0], dst, shape.flavour))
    return Drawn(i, fills)


def _overlap(rnd: Draw, i: Instr, case: Case, shape: Shape) -> int | None:
    """Sometimes in place: dst is a source, exactly; or an accumulation with stride 0. Which one."""
    if not shape.in_place or case.types[0] != case.types[1] or not i.srcs or rnd.random() > 0.25:
        return None
    k = rnd.randrange(len(i.srcs))
    blk, rep = list(i.src_blk), list(i.src_rep)
    if case.form != "count":
        accumulate = case.form != "counter" and not shape.accumulates and rnd.random() < 0.4
        if accumulate:
            i.dst_rep = 0
        blk[k], rep[k] = i.dst_blk, i.dst_rep
    srcs = list(i.srcs)
    srcs[k] = i.dst
    i.srcs, i.src_blk, i.src_rep = tuple(srcs), tuple(blk), tuple(rep)
    return k


# Of a scalar that only moves (Duplicate, Select, a padding) every NaN is the canonical one: whether
# a payload survives the scalar unit is not documented.
_NAN = {"float": 0x7FC00000, "half": 0x7E00, "bfloat16_t": 0x7FC0}


def scalar_bits(rnd: Draw, kind: str) -> int:
    width = 8 * SIZE[kind]
    if rnd.random() < 0.3:
        if kind in SPECIAL:
            value = rnd.choice(SPECIAL[kind])
            inf = {"float": 0x7F800000, "half": 0x7C00, "bfloat16_t": 0x7F80}[kind]
            return _NAN[kind] if value & (1 << (width - 1)) - 1 > inf else value
        return rnd.choice((0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1))
    if kind == "float":
        sign, exponent = rnd.getrandbits(1), rnd.randrange(115, 140)
        return sign << 31 | exponent << 23 | rnd.getrandbits(23)
    if kind == "bfloat16_t":
        return rnd.getrandbits(1) << 15 | rnd.randrange(115, 140) << 7 | rnd.getrandbits(7)
    if kind == "half":
        return rnd.getrandbits(1) << 15 | rnd.randrange(8, 24) << 10 | rnd.getrandbits(10)
    return rnd.getrandbits(width) if rnd.random() < 0.3 else rnd.randrange(100)


def family(group: str, op: str, types, head: str, params: str, shape: Shape, **more) -> list[Case]:
    dst, _ = types
    targs = more.pop("targs", dst)
    forms = more.pop("forms", FOUR)
    tail, variant = more.pop("tail", ""), more.pop("variant", "")
    adjust = more.pop("adjust", None)
    before = more.pop("before", "")

    def make(rnd: Draw, case: Case) -> Drawn:
        drawn = elementwise_of(rnd, case, shape)
        if adjust is not None:
            adjust(rnd, drawn)
        return drawn

    texts = calls(op, targs, head, params, forms, tail)
    return [
        Case(group, op, types, form, before + text, make, variant, **more)
        for form, text in texts.items()
    ]


def heads(dst: str, src: str, sources: int, scalar: str | None = None) -> str:
    parts = [f"f.at<{dst}>(1)", *[f"f.at<{src}>({2 + n})" for n in range(sources)]]
    parts += [] if scalar is None else [f"f.scalar<{scalar}>()"]
    return ", ".join(parts)


_UNARY = ("Exp", "Ln", "Abs", "Reciprocal", "Sqrt", "Rsqrt", "Relu", "Not")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min", "And", "Or", "AddRelu", "SubRelu")
_SCALARS = ("Adds", "Muls", "Maxs", "Mins", "LeakyRelu")


def _shift_amount(rnd: Draw, drawn: Drawn) -> None:
    width = 8 * SIZE[drawn.instr.types[0]]
    drawn.instr.scalar = rnd.often(rnd.randrange(width + 1), 0, 1, width - 1, width)


def _round_shift(rnd: Draw, drawn: Drawn) -> None:
    _shift_amount(rnd, drawn)
    drawn.instr.extra["round"] = True


def arithmetic() -> list[Case]:
    cases: list[Case] = []
    for op in _UNARY:
        for kind in elementwise.TAKES[op]:
            head = heads(kind, kind, 1)
            cases += family("unary", op, (kind, kind), head, "UNARY(f)", Shape(1), forms=FIVE)
    for op in _BINARY:
        for kind in elementwise.TAKES[op]:
            head = heads(kind, kind, 2)
            cases += family("binary", op, (kind, kind), head, "BINARY(f)", Shape(2), forms=FIVE)
    for op in _SCALARS:
        for kind in elementwise.TAKES[op]:
            head = heads(kind, kind, 1, kind)
            shape = Shape(1, kind)
            cases += family("scalar", op, (kind, kind), head, "UNARY(f)", shape, forms=FIVE)
    for kind in elementwise.TAKES["ShiftLeft"]:
        head, shape = heads(kind, kind, 1, kind), Shape(1, kind)
        for op in ("ShiftLeft", "ShiftRight"):
            cases += family(
                "shift", op, (kind, kind), head, "UNARY(f)", shape, adjust=_shift_amount
            )
        cases += family(
            "shift",
            "ShiftRight",
            (kind, kind),
            head,
            "UNARY(f)",
            shape,
            forms=("mask", "bits"),
            tail=", true",
            variant="round",
            adjust=_round_shift,
        )
    for types in elementwise.MIXED["Axpy"]:
        head = heads(*types, 1, types[1])
        cases += family(
            "fused",
            "Axpy",
            types,
            head,
            "UNARY(f)",
            Shape(1, types[1], accumulates=True),
            targs=", ".join(types),
        )
        cases += family(
            "fused",
            "MulAddDst",
            types,
            heads(*types, 2),
            "BINARY(f)",
            Shape(2, accumulates=True),
            targs=", ".join(types),
        )
    for op in ("FusedMulAdd", "FusedMulAddRelu"):
        for kind in elementwise.TAKES[op]:
            cases += family(
                "fused",
                op,
                (kind, kind),
                heads(kind, kind, 2),
                "BINARY(f)",
                Shape(2, accumulates=True),
            )
    return cases


# --- compare, select ------------------------------------------------------------------------------


def _compare_make(sources: int, scalar: bool):
    def make(rnd: Draw, case: Case) -> Drawn:
        kind = case.types[1]
        size, lanes = SIZE[kind], lanes_of(SIZE[kind])
        i = Instr(case.op, case.types, 0, form=case.form, mode=case.variant)
        if case.form == "count":
            i.count = lanes * rnd.randrange(1, 13)
            sizes = [i.count // 8, *[i.count * size] * sources]
        else:
            i.repeat = rnd.randrange(1, 7)
            i.mask = rnd.mask(case.form, lanes)
            i.src_blk = tuple(rnd.often(1, 2) for _ in range(sources))
            i.src_rep = tuple(rnd.often(8, 0, 9, 16) for _ in range(sources))
            while True:
                sizes = [i.repeat * lanes // 8]
                sizes += [
                    extent(size, lanes, i.repeat, b, r)
                    for b, r in zip(i.src_blk, i.src_rep, strict=True)
                ]
                if sum(sizes) + 96 <= IMAGE:
                    break
                i.repeat -= 1
        offsets = rnd.places(sizes)
        i.dst, i.srcs = offsets[0], tuple(offsets[1:])
        if scalar:
            i.scalar = scalar_bits(rnd, kind)
        flavour = rnd.choice(("any", "few"))
        if scalar and flavour == "few":
            i.scalar = {"half": 0x3C00, "float": 0x3F800000, "int32_t": 1}[kind]
        fills = [(o, s, kind, flavour) for o, s in zip(i.srcs, sizes[1:], strict=True)]
        return Drawn(i, fills)

    return make


def _compare_mask_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[1]
    lanes = lanes_of(SIZE[kind])
    i = Instr(case.op, case.types, 0, form=case.form, mode=case.variant, dst_blk=1)
    i.mask = lanes if rnd.random() < 0.5 else rnd.mask("mask", lanes)
    i.src_blk, i.src_rep = (rnd.often(1, 2), rnd.often(1, 2)), (8, 8)
    sizes = [32, *[extent(SIZE[kind], lanes, 1, b, 8) for b in i.src_blk]]
    i.dst, *srcs = rnd.places(sizes)
    i.srcs = tuple(srcs)
    flavour = rnd.choice(("any", "few"))
    return Drawn(i, [(o, s, kind, flavour) for o, s in zip(srcs, sizes[1:], strict=True)])


def _select_make(rnd: Draw, case: Case) -> Drawn:
    kind = case.types[0]
    sources = 1 if case.variant == "TENSOR_SCALAR" else 2
    drawn = elementwise_of(rnd, case, Shape(sources, kind if sources == 1 else None))
    i = drawn.instr
    i.mode = case.variant
    lanes = lanes_of(SIZE[kind])
    total = i.count if case.form == "count" else i.repeat * lanes
    # The bits lie where neither operand does: the operands leave room, or shrink.
    used = [(f[0], f[0] + f[1]) for f in drawn.fills]
    size = (
        used[0][1] - used[0][0]
        if case.form == "count"
        else extent(SIZE[kind], lanes, i.repeat, i.dst_blk, i.dst_rep)
    )
    used.append((i.dst, i.dst + size))
    need = max(lanes // 8, -(-total // 8))
    room = [
        at
        for at in range(0, IMAGE - need + 1, BLOCK)
        if all(at + need <= a or at >= b for a, b in used)
    ]
    if not room:
        return _select_make(rnd, case)
    i.srcs = (rnd.choice(room), *i.srcs)
    return drawn


def _select_cases() -> list[Case]:
    cases = []
    names = dict(
        zip(
            SELECT_MODES,
            ("VSEL_CMPMASK_SPR", "VSEL_TENSOR_SCALAR_MODE", "VSEL_TENSOR_TENSOR_MODE"),
            strict=True,
        )
    )
    for kind in ("half", "float"):
        for mode, name in names.items():
            second = f"f.scalar<{kind}>()" if mode == "TENSOR_SCALAR" else f"f.at<{kind}>(4)"
            head = f"f.at<{kind}>(1), f.at<uint8_t>(2), f.at<{kind}>(3), {second}, SELMODE::{name}"
            texts = calls("Select", kind, head, "BINARY(f)", THREE)
            cases += [
                Case("select", "Select", (kind, kind), form, text, _select_make, mode)
                for form, text in texts.items()
            ]
    return cases


def comparisons() -> list[Case]:
    cases = []
    for mode in MODES:
        for kind in ("half", "float", "int32_t"):
            if kind == "int32_t" and mode != "EQ":
                continue
            types = ("uint8_t", kind)
            two = f"f.at<uint8_t>(1), f.at<{kind}>(2), f.at<{kind}>(3), CMPMODE::{mode}"
            one = f"f.at<uint8_t>(1), f.at<{kind}>(2), f.scalar<{kind}>(), CMPMODE::{mode}"
            for form, text in calls("Compare", kind, two, "BINARY(f)", THREE).items():
                cases.append(
                    Case("compare", "Compare", types, form, text, _compare_make(2, False), mode)
                )
            for form, text in calls("CompareScalar", kind, one, "UNARY(f)", THREE).items():
                cases.append(
                    Case(
                        "compare", "CompareScalar", types, form, text, _compare_make(1, True), mode
                    )
                )
            if kind != "int32_t":
                text = (
                    f"Compare(f.at<{kind}>(2), f.at<{kind}>(3), CMPMODE::{mode}, f.mask(), "
                    "BINARY(f)); GetCmpMask(f.at<uint8_t>(1));"
                )
                cases.append(
                    Case("compare", "CompareMask", types, "mask", text, _compare_mask_make, mode)
                )
    return cases + _select_cases()


# --- reductions -----------------------------------------------------------------------------------


def _reduce_make(rnd: Draw, case: Case) -> Drawn:
    """Whole, Block, Pair, Repeat: repeats with strides; and ReduceSum, Max, Min with tmp."""
    kind, op = case.types[0], case.op
    size, lanes = SIZE[kind], lanes_of(SIZE[kind])
    i = Instr(op, case.types, 0, form=case.form, mode="", src_blk=(1,))
    best = op.endswith(("Max", "Min"))
    flavour = (
        rnd.choice(("ordered", "few", "any")) if best else rnd.often("any", "minus", share=0.85)
    )
    flat = op in ("ReduceSum", "ReduceMax", "ReduceMin")
    if flat:
        i.extra = {"index": case.variant == "index"} if best else {}
        if case.form == "count":
            i.count = rnd.count((IMAGE * 7 // 8 - 1024) // size, lanes)
            source, repeats = i.count * size, -(-i.count // lanes)
        else:
            repeats = i.repeat = rnd.randrange(1, 20)
            i.mask = rnd.mask(case.form, lanes)
            i.src_rep = (rnd.often(8, 0, 9, 1),)
            source = extent(size, lanes, repeats, 1, i.src_rep[0])
        work = max(64, repeats * 2 * size) * 2
        dst, src, tmp = rnd.places([BLOCK, source, work])
        i.dst, i.srcs = dst, (src, tmp)
        i.extra["tmp"] = (tmp, tmp + -(-work // BLOCK) * BLOCK)
        return Drawn(i, [(src, source, kind, flavour)])
    i.mode = case.variant
    unit = {"Block": 8 * size, "Pair": 128}.get(op[:5].rstrip("R"), size)
    unit = 128 if op.startswith("Pair") else unit
    align = unit if op.startswith("Block") else BLOCK
    if op.startswith("Whole") and best:
        unit = {"ONLY_VALUE": size, "ONLY_INDEX": 4}.get(i.mode, 2 * size)
    i.repeat = rnd.often(rnd.randrange(1, 9), 1, 12, share=0.8)
    i.mask = rnd.mask(case.form, lanes)
    i.dst_rep = rnd.often(1, 2, 3)
    i.src_blk, i.src_rep = (rnd.often(1, 2),), (rnd.often(8, 0, 9, 16),)
    while True:
        sizes = [
            ((i.repeat - 1) * i.dst_rep + 1) * unit + 8,
            extent(size, lanes, i.repeat, i.src_blk[0], i.src_rep[0]),
        ]
        if sum(sizes) + 64 <= IMAGE:
            break
        i.repeat -= 1
    i.dst, src = rnd.places(sizes)
    if align < BLOCK:
        i.dst += rnd.choice((0, align))
    i.srcs = (src,)
    return Drawn(i, [(src, sizes[1], kind, flavour)])


def reductions() -> list[Case]:
    cases: list[Case] = []

    def add(op, kind, form, text, variant=""):
        cases.append(Case("reduce", op, (kind, kind), form, text, _reduce_make, variant))

    for kind in reduce.INDEX:
        two = f"f.at<{kind}>(1), f.at<{kind}>(2)"
        strides = "f.w(12), f.w(9), f.w(13)"
        how = {"mask": "int32_t(f.mask())", "bits": "bits"}
        for form, mask in how.items():
            bits = "BITS(f); " if form == "bits" else ""
            add(
                "WholeReduceSum",
                kind,
                form,
                f"{bits}WholeReduceSum({two}, {mask}, f.w(7), {strides});",
            )
            for op in ("WholeReduceMax", "WholeReduceMin"):
                for order in reduce.ORDERS:
                    add(
                        op,
                        kind,
                        form,
                        f"{bits}{op}({two}, {mask}, f.w(7), {strides}, "
                        f"ReduceOrder::ORDER_{order});",
                        order,
                    )
            for op in ("BlockReduceSum", "BlockReduceMax", "BlockReduceMin", "PairReduceSum"):
                add(op, kind, form, f"{bits}{op}({two}, f.w(7), {mask}, {strides});")
        add(
            "RepeatReduceSum",
            kind,
            "mask",
            f"RepeatReduceSum({two}, f.w(7), int32_t(f.mask()), 1, f.w(9), f.w(12), f.w(13));",
        )
        three = f"{two}, f.at<{kind}>(3)"
        add("ReduceSum", kind, "count", f"ReduceSum({three}, f.count());")
        raw = f"{kind} sum = GetAccVal<{kind}>(); uint64_t raw = 0; "
        raw += "__builtin_memcpy(&raw, &sum, sizeof sum); f.result(0, raw);"
        add("ReduceSum", kind, "count", f"ReduceSum({three}, f.count()); {raw}", "accumulator")
        for form, mask in how.items():
            bits = "BITS(f); " if form == "bits" else ""
            add("ReduceSum", kind, form, f"{bits}ReduceSum({three}, {mask}, f.w(7), f.w(13));")
        for op in ("ReduceMax", "ReduceMin"):
            for variant, flag in (("", "false"), ("index", "true")):
                add(op, kind, "count", f"{op}({three}, f.count(), {flag});", variant)
                for form, mask in how.items():
                    bits = "BITS(f); " if form == "bits" else ""
                    add(
                        op,
                        kind,
                        form,
                        f"{bits}{op}({three}, {mask}, f.w(7), f.w(13), {flag});",
                        variant,
                    )
    return cases


def here() -> list[Case]:
    return arithmetic() + comparisons() + reductions()
