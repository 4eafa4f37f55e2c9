"""Casts of the catalog: Cast in every pair and mode, CastDeq, and the casting sums and products."""

from __future__ import annotations

from dataclasses import replace

from models.vector import casts

from .catalog import FOUR, THREE, Case, Shape, elementwise_of, family, heads, scalar_bits
from .draw import Draw, Drawn


def _deq(rnd: Draw, drawn: Drawn) -> None:
    drawn.instr.scalar = drawn.instr.extra["scale"] = scalar_bits(rnd, "half")


def _cast_cases() -> list[Case]:
    cases = []
    for (dst, src), modes in casts.PAIRS.items():
        for mode in modes:

            def set_mode(rnd: Draw, drawn: Drawn, mode=mode) -> None:
                drawn.instr.mode = mode
                if drawn.instr.types == ("half", "int32_t"):
                    _deq(rnd, drawn)

            head = f"f.at<{dst}>(1), f.at<{src}>(2), RoundMode::CAST_{mode}"
            before = "SetDeqScale(f.scalar<half>()); " if (dst, src) == ("half", "int32_t") else ""
            cases += family(
                "cast",
                "Cast",
                (dst, src),
                head,
                "UNARY(f)",
                Shape(1),
                targs=f"{dst}, {src}",
                variant=mode,
                adjust=set_mode,
                before=before,
                forms=THREE if "int4b_t" in (dst, src) else FOUR,
            )
    for op in ("AddReluCast", "SubReluCast"):
        for types in (("half", "float"), ("int8_t", "half"), ("int8_t", "int16_t")):
            cases += family(
                "cast", op, types, heads(*types, 2), "BINARY(f)", Shape(2), targs=", ".join(types)
            )
    for dst in ("int8_t", "uint8_t"):
        types = (dst, "half")
        cases += family(
            "cast",
            "MulCast",
            types,
            heads(*types, 2),
            "BINARY(f)",
            Shape(2),
            targs=", ".join(types),
        )
    types = ("half", "int32_t")
    cases += family(
        "cast",
        "AddDeqRelu",
        types,
        heads(*types, 2),
        "BINARY(f)",
        Shape(2),
        forms=THREE,
        before="SetDeqScale(f.scalar<half>()); ",
        adjust=_deq,
    )
    return cases


def _cast_deq_cases() -> list[Case]:
    """int16_t -> int8_t or uint8_t, one scale for all."""
    cases = []
    for dst in ("int8_t", "uint8_t"):
        for half_block in (True, False):
            signed = dst == "int8_t"
            block = str(half_block).lower()

            def make(rnd: Draw, case: Case, signed=signed, half_block=half_block) -> Drawn:
                # Results take as many data blocks as the sources: drawn as int16_t -> int16_t.
                drawn = elementwise_of(
                    rnd, replace(case, types=("int16_t", "int16_t")), Shape(1, in_place=False)
                )
                i = drawn.instr
                i.types = case.types
                scale, offset = scalar_bits(rnd, "float") & 0x7FFFFFFF, rnd.randrange(-256, 256)
                if (scale >> 23) == 0xFF:
                    scale = 0x3F000000
                i.scalar = scale | (offset & 0xFFFF) << 32
                i.extra = {
                    "scale": scale,
                    "offset": offset,
                    "signed": signed,
                    "half_block": half_block,
                }
                return drawn

            deq = f"SetDeqScale(f.scalar<float>(), int16_t(f.w(21)), {str(signed).lower()}); "
            call = f"f.at<{dst}>(1), f.at<int16_t>(2)"
            count = f"CastDeq<{dst}, int16_t, false, {block}>({call}, uint32_t(f.count()));"
            more = f"CastDeq<{dst}, int16_t, true, false, {block}>"
            texts = {
                "count": count,
                "mask": f"{more}({call}, int32_t(f.mask()), f.repeat(), UNARY(f));",
                "bits": f"BITS(f); {more}({call}, bits, f.repeat(), UNARY(f));",
            }
            cases += [
                Case(
                    "cast_deq",
                    "CastDeq",
                    (dst, "int16_t"),
                    form,
                    deq + text,
                    make,
                    "first" if half_block else "last",
                )
                for form, text in texts.items()
            ]
    return cases


def _vec_deq_make(rnd: Draw, case: Case) -> Drawn:
    """CastDeq with sixteen parameters in turn; they lie in the record (and in 128 bytes of UB)."""
    drawn = elementwise_of(
        rnd, replace(case, types=("int16_t", "int16_t")), Shape(1, in_place=False, spare=128)
    )
    i = drawn.instr
    i.types = case.types
    signed = case.types[0] == "int8_t"
    params = []
    for _ in range(16):
        scale = scalar_bits(rnd, "float") & 0x7FFFFFFF
        scale = scale if scale >> 23 < 0xFF else 0x3F000000
        params.append((scale, rnd.randrange(-256, 256), signed))
    i.extra |= {"params": params, "half_block": case.variant.endswith("first")}
    return drawn


def _vec_deq_cases() -> list[Case]:
    cases = []
    for dst in ("int8_t", "uint8_t"):
        signed = str(dst == "int8_t").lower()
        deq = (
            "float scale[16]; int16_t offset[16]; bool sign[16]; for (int32_t n = 0; n < 16; ++n) "
            f"{{ scale[n] = f.scalar<float>(32 + 2 * n); offset[n] = int16_t(f.w(33 + 2 * n)); "
            f"sign[n] = {signed}; }} "
            "SetDeqScale(f.at<uint64_t>(24), VdeqInfo(scale, offset, sign)); "
            "PipeBarrier<PIPE_ALL>(); "  # the scalar unit writes what CastDeq reads
        )
        call = f"f.at<{dst}>(1), f.at<int16_t>(2)"
        for where, block in (("first", "true"), ("last", "false")):
            more = f"CastDeq<{dst}, int16_t, true, true, {block}>"
            texts = {
                "count": f"CastDeq<{dst}, int16_t, true, {block}>({call}, uint32_t(f.count()));",
                "mask": f"{more}({call}, int32_t(f.mask()), f.repeat(), UNARY(f));",
                "bits": f"BITS(f); {more}({call}, bits, f.repeat(), UNARY(f));",
            }
            cases += [
                Case("cast_deq", "CastDeq", (dst, "int16_t"), form, deq + text, _vec_deq_make,
                     f"vector {where}")
                for form, text in texts.items()
            ]  # fmt: skip
    return cases


def here() -> list[Case]:
    return _cast_cases() + _cast_deq_cases() + _vec_deq_cases()
