"""A second opinion on every basic vector, scalar and copy instruction of Ascend C, in numpy.

Written from the documents alone, never from the twin's arithmetic; the two are compared on raw bits
(tests/fuzz). ``apply`` is the entry point. Nothing here was measured on hardware.

Where the documents are silent, this model decides as follows. A twin that decides otherwise is to
be discussed by facts, not adapted.

====================================  ==============================================================
question                              decision
====================================  ==============================================================
integer arithmetic beyond the type    wraps (CTRL[53] = 0, truncation; documented switch)
half beyond 65504                     inf on 2201 and 3510, +-65504 on 1001 and 2002 (CTRL[48]: half
                                      and conversions, never float); there NaN becomes 0
NaN that an instruction makes or      0x7fc00000, 0x7e00, 0x7fc0. Selection and copies (Select,
passes through arithmetic             Duplicate, Gather, Copy, sorts) keep the payload
Max, Min                              IEEE 754-2019 maximum, minimum: NaN wins, -0 < +0
Relu, AddRelu                         x > 0 ? x : +0; NaN stays NaN; -0 gives +0
LeakyRelu                             x < 0 ? x * slope : x; -0 stays -0; NaN canonical
Abs, Neg                              sign bit; NaN canonical; integers wrap
Exp, Ln, Sqrt, Rsqrt, Reciprocal, Div correctly rounded (approximate on a device)
Rsqrt(-0), Rsqrt(x < 0), Ln(0)        -inf, NaN, -inf
Axpy, MulAddDst, FusedMulAdd          one rounding; a switch makes it two
FusedMulAdd                           dst = src0 * dst + src1 (documented)
AddReluCast, SubReluCast              sum rounds in the source type, Relu, then a NONE cast
MulCast                               product rounds to half, then a NONE cast
Deq (int32_t -> half, AddDeqRelu)     x * scale rounded once; the 2^17 of the formula are exact
CastDeq                               RINT(x * scale) + offset, saturated; halfBlock = true fills
                                      the first 16 bytes of each data block
Cast to an integer                    saturates; NaN gives 0 (CTRL[59] default)
Cast float -> half beyond the range   directed modes that point inwards stop at the largest number
ShiftRight, rounding                  adds the last bit shifted out, signed types only (documented)
shift by the whole width              0, or the sign (documented range 0 .. 16, 0 .. 32)
Compare, CompareScalar, mask          has no effect on 2201 (documented); bits lie one after another
Compare into CMPMASK                  masked lanes and float's upper 64 bits: not compared
CreateVecIndex over several repeats   the lane's number goes on: repeat * lanes + lane
Gather, high-dimensional              offsets lie one after another, 4 bytes per lane
Scatter                               ascending order, the last write stays; not on 2201
GatherMask                            what follows the kept elements is not compared (undefined)
Copy in counter mode                  the count is per repeat (documented)
TransDataTo5HD with one repeat        starts at list + stride (documented)
Sort32, MrgSort                       ties keep their order, the earlier queue first (documented);
                                      NaN is refused; half's reserved bytes are not compared
Sums, masked lanes                    +0 on 1001, 2002, 2201, skipped on 3510 (architectures.json)
Sums, nothing live                    nothing is written
ReduceMax, WholeReduceMax, ...        first of equals, also of -0 and +0; NaN wins
scalars with a NaN payload            not drawn for instructions that only move (Duplicate, Select,
                                      paddings): whether the payload survives is not documented
ArithProgression                      first + n * step, rounded once (drawn where that is exact)
ReduceMax, index over repeats         repeat * lanes + lane, whatever the stride
DataCopyPad, paddings 0               the rest of a burst's last block holds the burst's first
                                      element (documented); other dummy bytes are not compared
atomic add                            one rounding in the type; max and min as Max and Min
====================================  ==============================================================
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import casts, compare, copies, elementwise, moves, reduce, sorting
from .core import Instr, Settings, Unsupported, settings

__all__ = ["OPS", "Instr", "Settings", "Unsupported", "apply", "settings"]

_GROUPS = {
    "elementwise": elementwise.GROUP,
    "casts": casts.GROUP,
    "compare": compare.GROUP,
    "moves": moves.GROUP,
    "sorting": sorting.GROUP,
    "reduce": reduce.GROUP,
}
OPS = {op: f for group in _GROUPS.values() for op, f in group.items()}

# Other names of the instructions above. The 9.x names ReduceRepeat and ReduceDataBlock take the
# kind of reduction as a parameter, so they have no single counterpart here.
ALIASES = {
    "ReducePairElem": "PairReduceSum",
    "Compares": "CompareScalar",
    "CastDequant": "CastDeq",
}


def apply(
    instr: Instr,
    ub: np.ndarray,
    arch: str | Settings = "dav-2201",
    gm: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None, dict]:
    """The bytes after one instruction: (ub, gm, facts); the arguments are not changed.

    facts may hold ``ignore`` (ranges of UB bytes whose value is not documented), ``rsvd``,
    ``sorted`` and ``acc`` (what the instruction returns besides memory).
    """
    s = settings(arch) if isinstance(arch, str) else arch
    op = ALIASES.get(instr.op, instr.op)
    instr = instr if op == instr.op else replace(instr, op=op)
    ub = ub.copy()
    gm = None if gm is None else gm.copy()
    with np.errstate(all="ignore"):
        if op in copies.GROUP:
            facts = copies.GROUP[op](instr, ub, s, gm)
        elif op not in OPS:
            raise Unsupported(f"unknown instruction {instr.op!r}")
        elif (instr.form == "count" and instr.count == 0 and op not in NO_COUNT) or (
            instr.repeat == 0 and instr.form in ("mask", "bits")
        ):
            facts = {}  # no operation
        else:
            facts = OPS[op](instr, ub, s)
    return ub, gm, facts


# Instructions with neither count nor mask: their repeat or shape says how much.
NO_COUNT = frozenset(
    (
        "Brcb",
        "Gatherb",
        "GatherMask",
        "Transpose",
        "TransDataTo5HD",
        "Sort32",
        "MrgSort",
        "Extract",
        "RpSort16",
        "ProposalConcat",
        "ProposalExtract",
        "CompareMask",
    )
)
