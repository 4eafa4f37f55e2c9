"""How each supported name of the table of Ascend C functions is used: one snippet or more for each
of its forms.

In a snippet `$T` is an element type of the table, `$D` and `$S` are a pair of its (destination,
source). `ub<T>`, `gm<T>`, `bits` and the other names in lower case are in `PRELUDE`. A name without
element types is used once. Where an alias is called in another way than the name itself it stands
in `ALIASES`; elsewhere its name is put in place of the name's.
"""

from __future__ import annotations

PRELUDE = """
#include <algorithm>
#include <cmath>
#include "kernel_operator.h"
using namespace AscendC;
template <typename T> LocalTensor<T> ub;
template <typename T> GlobalTensor<T> gm;
template <typename T> T *address;
template <typename T> T value;
uint64_t bits[2] = {1, 0};
const UnaryRepeatParams unary_params;
const BinaryRepeatParams binary_params;
GM_ADDR memory;
TPipe *the_pipe;
TQue<TPosition::VECIN, 2> que;
TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> bound;
TQue<TPosition::VECCALC, 0> kept_in_place;
TBuf<TPosition::VECCALC> buf;
LocalMemAllocator<> arena;
uint64_t count64;
uint32_t count32[4];
uint16_t count16[4];
struct config { static constexpr CumSumConfig rows = {false, false, false}; };
void on_aiv(int) {}
"""

Forms = dict[str, list[str]]


def one(*uses: str, form: str = "") -> Forms:
    return {form: list(uses)}


def three(head: str, params: str) -> Forms:
    """The forms of an elementwise instruction; `head`: `Add($T, …` up to the count or mask."""
    whole = head.replace("!", "")
    tagged = head.replace("!", "<$T, false>") if "!" in head else head
    return {
        "count": [f"{whole}, 32);"],
        "mask": [
            f"{whole}, 32, 1, {params});",
            f"{tagged}, MASK_PLACEHOLDER, 1, {params});",
        ],
        "bits": [
            f"{whole}, bits, 1, {params});",
            f"{tagged}, MASK_PLACEHOLDER_LIST, 1, {params});",
        ],
    }


def unary(name: str) -> Forms:
    return three(f"{name}!(ub<$T>, ub<$T>", "unary_params")


def binary(name: str) -> Forms:
    return three(f"{name}!(ub<$T>, ub<$T>, ub<$T>", "binary_params")


def binary_pair(name: str) -> Forms:
    return three(f"{name}(ub<$D>, ub<$S>, ub<$S>", "binary_params")


def scalar(name: str) -> Forms:
    return three(f"{name}!(ub<$T>, ub<$T>, value<$T>", "unary_params")


def declared(*names: str) -> dict[str, Forms]:
    return {name: one(f"{{ {name} p; (void)p; }}") for name in names}


def whole_reduction(name: str, *, order: bool) -> Forms:
    made = {
        "mask": [
            f"{name}(ub<$T>, ub<$T>, 16, 1, 1, 1, 8);",
            f"{name}<$T, false>(ub<$T>, ub<$T>, MASK_PLACEHOLDER, 1, 1, 1, 8);",
        ],
        "bits": [f"{name}<$T>(ub<$T>, ub<$T>, bits, 1, 1, 1, 8);"],
    }
    if order:
        made["mask"].append(
            f"{name}(ub<$T>, ub<$T>, 16, 1, 1, 1, 8, ReduceOrder::ORDER_ONLY_VALUE);"
        )
    return made


def block_reduction(name: str) -> Forms:
    return {
        "mask": [
            f"{name}(ub<$T>, ub<$T>, 1, 16, 1, 1, 8);",
            f"{name}<$T, false>(ub<$T>, ub<$T>, 1, MASK_PLACEHOLDER, 1, 1, 8);",
        ],
        "bits": [f"{name}<$T>(ub<$T>, ub<$T>, 1, bits, 1, 1, 8);"],
    }


def shifted(name: str, extra: str = "") -> Forms:
    made = scalar(name)
    if extra:
        made["mask"].append(f"{name}(ub<$T>, ub<$T>, value<$T>, 32, 1, unary_params, {extra});")
    return made


SNIPPETS: dict[str, Forms] = {
    # ---- types ----------------------------------------------------------------------------------
    "LocalTensor": one(
        "{ LocalTensor<float> a; a = ub<float>[8]; a.SetValue(0, 1.0f); a(1) = a.GetValue(0); }",
        "{ ub<half>.SetSize(8); (void)ub<half>.GetSize(); (void)ub<half>.GetLength(); }",
        "{ (void)ub<half>.GetPhyAddr(); (void)ub<half>.GetPhyAddr(2); ub<half>.SetBufferLen(32); }",
        "{ TPosition p = ub<half>.GetPosition(); (void)p; ub<half>.SetUserTag(3); }",
        "{ TTagType tag = ub<half>.GetUserTag(); (void)tag; }",
        "{ LocalTensor<int16_t> b = ub<half>.ReinterpretCast<int16_t>(); (void)b; }",
        "ub<half>.SetAddrWithOffset(ub<float>, 8);",
        "{ uint32_t s[] = {2, 16}; ub<half>.SetShapeInfo(ShapeInfo(2, s)); }",
        "{ ShapeInfo info = ub<half>.GetShapeInfo(); (void)info; }",
        'ub<float>.Print(); ub<float>.Print(8); ub<float>.ToFile("x.bin");',
        "{ ub<float> = ub<float> + ub<float>; ub<float> = ub<float> - ub<float>; }",
        "{ ub<float> = ub<float> * ub<float>; ub<float> = ub<float> / ub<float>; }",
        "{ ub<int16_t> = ub<int16_t> & ub<int16_t>; ub<int16_t> = ub<int16_t> | ub<int16_t>; }",
        "{ ub<uint8_t> = ub<half> < ub<half>; ub<uint8_t> = ub<half> > ub<half>; }",
        "{ ub<uint8_t> = ub<half> <= ub<half>; ub<uint8_t> = ub<half> >= ub<half>; }",
        "{ ub<uint8_t> = ub<half> == ub<half>; ub<uint8_t> = ub<half> != ub<half>; }",
        "{ LocalTensor<float> a(TPosition::VECCALC, 0, 64); (void)a; }",
    ),
    "GlobalTensor": one(
        "{ gm<half>.SetGlobalBuffer(address<__gm__ half>); }",
        "{ gm<half>.SetGlobalBuffer((__gm__ half *)memory + 8, 64); }",
        "{ gm<half>.SetValue(0, half(1.0f)); half v = gm<half>.GetValue(0); (void)v; }",
        "{ gm<half>(1) = gm<half>(0); GlobalTensor<half> b = gm<half>[8]; (void)b.GetSize(); }",
        "{ (void)gm<half>.GetPhyAddr(); (void)gm<half>.GetPhyAddr(3); }",
        "{ GlobalTensor<int16_t> b = gm<half>.ReinterpretCast<int16_t>(); (void)b; }",
        "{ uint32_t s[] = {2, 16}; gm<half>.SetShapeInfo(ShapeInfo(2, s)); }",
        "{ ShapeInfo info = gm<half>.GetShapeInfo(); (void)info; }",
        "gm<half>.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);",
        "gm<half>.SetL2CacheHint<CacheRwMode::READ>(CacheMode::CACHE_MODE_NORMAL);",
    ),
    "UnaryRepeatParams": one(
        "{ UnaryRepeatParams p = {1, 1, 8, 8}; p.srcRepStride = 4; UnaryRepeatParams q; q = p; }"
    ),
    "BinaryRepeatParams": one(
        "{ BinaryRepeatParams p = {1, 1, 1, 8, 8, 8}; p.src1RepStride = 0; }",
        "{ BinaryRepeatParams p{1, 1, 1, 8, 8, 8}; p.src0BlkStride = 0; p.dstBlkStride = 2; }",
    ),
    "CopyRepeatParams": one("{ CopyRepeatParams p{1, 1, 8, 8}; p.dstRepeatSize = 4; }"),
    "BrcbRepeatParams": one("{ BrcbRepeatParams p{1, 8}; p.dstRepStride = 4; }"),
    "GatherRepeatParams": one("{ GatherRepeatParams p{1, 8}; p.dstRepStride = 4; }"),
    "GatherMaskParams": one("{ GatherMaskParams p{1, 1, 8, 0}; p.repeatTimes = 4; }"),
    "DataCopyParams": one(
        "{ DataCopyParams p; p.blockCount = 1; p.blockLen = 8; p.srcStride = 0; p.dstStride = 0; }",
        "{ DataCopyParams p{1, 8, 0, 0}; p.srcGap = 1; p.dstGap = 1; }",
    ),
    "DataCopyExtParams": one("{ DataCopyExtParams p{1, 20, 0, 0, 0}; p.blockLen = 4; }"),
    "DataCopyPadParams": one("{ DataCopyPadParams p{true, 0, 2, 0}; p.paddingValue = 1; }"),
    "DataCopyPadExtParams": one(
        "{ DataCopyPadExtParams<half> p{true, 0, 2, half(0.0f)}; p.rightPadding = 1; }",
        "{ DataCopyPadExtParams<float> p{false, 0, 0, 0}; p.isPad = true; }",
    ),
    "DataCopyEnhancedParams": one(
        "{ DataCopyEnhancedParams p; p.blockMode = BlockMode::BLOCK_MODE_NORMAL; }"
    ),
    "SliceInfo": one("{ SliceInfo p[2] = {{0, 15, 0, 2, 16}, {0, 3, 0, 1, 4}}; (void)p; }"),
    "Nd2NzParams": one("{ Nd2NzParams p{1, 16, 16, 0, 16, 16, 1, 0}; p.nValue = 8; }"),
    "Nz2NdParamsFull": one("{ Nz2NdParamsFull p{1, 16, 16, 1, 16, 16, 1}; p.nValue = 8; }"),
    "TransDataTo5HDParams": one(
        "{ TransDataTo5HDParams p{false, false, 1, 0, 0}; p.repeatTimes = 2; }"
    ),
    "TransposeParamsExt": one(
        "{ TransposeParamsExt p; p.nSize = 1; p.transposeType = "
        "TransposeType::TRANSPOSE_NCHW2NHWC; }"
    ),
    "MrgSort4Info": one("{ MrgSort4Info p(count16, false, 15, 1); p.validBit = 3; }"),
    "MrgSortSrcList": one(
        "{ MrgSortSrcList<half> p(ub<half>, ub<half>, ub<half>, ub<half>); p.src1 = p.src2; }"
    ),
    "ShapeInfo": one("{ uint32_t s[] = {4, 8}; ShapeInfo p(2, s); p.shapeDim = 1; }"),
    "VdeqInfo": one("{ VdeqInfo p; p.vdeqScale[0] = 1; p.vdeqOffset[0] = 0; }"),
    "TPosition": one(
        "{ TPosition p = TPosition::VECIN; p = TPosition::VECOUT; p = TPosition::VECCALC; "
        "p = TPosition::GM; p = TPosition::LCM; (void)p; }"
    ),
    "HardEvent": one(
        *(
            f"SetFlag<HardEvent::{e}>(EVENT_ID0); WaitFlag<AscendC::HardEvent::{e}>(EVENT_ID0);"
            for e in (
                *("V_S", "S_V", "V_MTE2", "MTE2_V", "V_MTE3", "MTE3_V", "MTE2_S", "S_MTE2"),
                *("MTE3_S", "S_MTE3", "MTE2_MTE3", "MTE3_MTE2"),
            )
        )
    ),
    "RoundMode": one(
        *(
            f"{{ RoundMode m = RoundMode::CAST_{m}; (void)m; }}"
            for m in ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")
        )
    ),
    "CMPMODE": one(
        *(f"{{ CMPMODE m = CMPMODE::{m}; (void)m; }}" for m in ("LT", "GT", "EQ", "LE", "GE", "NE"))
    ),
    "SELMODE": one(
        *(
            f"{{ SELMODE m = SELMODE::VSEL_{m}; (void)m; }}"
            for m in ("CMPMASK_SPR", "TENSOR_SCALAR_MODE", "TENSOR_TENSOR_MODE")
        )
    ),
    "ReduceOrder": one(
        *(
            f"{{ ReduceOrder m = ReduceOrder::ORDER_{m}; (void)m; }}"
            for m in ("VALUE_INDEX", "INDEX_VALUE", "ONLY_VALUE", "ONLY_INDEX")
        )
    ),
    "ReduceType": one("{ ReduceType m = ReduceType::SUM; m = ReduceType::MAX; (void)m; }"),
    "MaskMode": one("{ MaskMode m = MaskMode::NORMAL; m = MaskMode::COUNTER; (void)m; }"),
    "DataFormat": one("{ DataFormat m = DataFormat::ND; m = DataFormat::NZ; (void)m; }"),
    "AtomicDtype": one("{ AtomicDtype m = AtomicDtype::ATOMIC_F32; (void)m; }"),
    "AtomicOp": one("{ AtomicOp m = AtomicOp::ATOMIC_SUM; (void)m; }"),
    "CacheLine": one(
        "{ CacheLine m = CacheLine::SINGLE_CACHE_LINE; m = CacheLine::ENTIRE_DATA_CACHE; (void)m; }"
    ),
    "DcciDst": one("{ DcciDst m = DcciDst::CACHELINE_OUT; (void)m; }"),
    "int4b_t": one("{ LocalTensor<int4b_t> a = ub<int8_t>.ReinterpretCast<int4b_t>(); (void)a; }"),
    "half": one(
        "{ half a = 1.0f; half b = static_cast<half>(2); float c = a; a = half(c * 2); (void)b; }",
        "{ half a(0.5), b(1.5f); if (a < b) { a = a + b; a += b; } a = -a; }",
        "{ half a = 1.0, b = (half)3; bool e = a == b || a > b; (void)e; a = a * b - a / b; }",
    ),
    "bfloat16_t": one(
        "{ bfloat16_t a(1.0f); a = bfloat16_t(2.0f); LocalTensor<bfloat16_t> b; (void)b; }"
    ),
    "IsSameType": one('static_assert(IsSameType<half, half>::value, "");'),
    "Std": one(
        'static_assert(AscendC::Std::is_same_v<int, int>, "");',
        'static_assert(Std::is_same<int, float>::value == false, "");',
        "{ Std::enable_if_t<true, int> a = 1; Std::conditional_t<true, int, half> b = a; b = 2; }",
        "{ int a = Std::min(3, 4); a = Std::max(a, 2); Std::integral_constant<int, 3> b; a = b; }",
        "{ Std::tuple<int, float> t = Std::make_tuple(1, 2.0f); (void)Std::get<0>(t); }",
        'static_assert(Std::tuple_size_v<Std::tuple<int, float>> == 2, "");',
    ),
    "NumericLimits": one(
        "{ float a = NumericLimits<float>::Max(); a = NumericLimits<float>::Lowest(); (void)a; }",
        "{ half a = NumericLimits<half>::Infinity(); (void)a; }",
        "{ int8_t a = NumericLimits<int8_t>::Max(); a = NumericLimits<int8_t>::Min(); (void)a; }",
    ),
    "GetValue": one("{ $T a = ub<$T>.GetValue(1); a = gm<$T>.GetValue(1); (void)a; }"),
    "SetValue": one("{ ub<$T>.SetValue(1, value<$T>); gm<$T>.SetValue(1, value<$T>); }"),
    "WriteGmByPassDCache": one("WriteGmByPassDCache<$T>(address<__gm__ $T>, value<$T>);"),
    "ReadGmByPassDCache": one("{ $T a = ReadGmByPassDCache<$T>(address<__gm__ $T>); (void)a; }"),
    # ---- resources ------------------------------------------------------------------------------
    "TPipe": one("{ TPipe p; p.Init(); p.InitBuffer(que, 2, 256); p.InitBuffer(buf, 256); }"),
    "TQue": one(
        "{ TQue<QuePosition::VECIN, 1> q; (void)q.VacantInQue(); }",
        "{ TQue<TPosition::VECOUT, 2> q; (void)q.HasTensorInQue(); }",
        "{ TQue<TPosition::VECCALC, 1, 0> q; (void)q.HasTensorInQue(); }",
    ),
    "TQueBind": one(
        "{ TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> q; (void)q.VacantInQue(); }",
        "{ TQueBind<QuePosition::VECIN, QuePosition::VECOUT, 2, 0> q; (void)q.VacantInQue(); }",
    ),
    "TBuf": one(
        "{ TBuf<> b; (void)b; TBuf<TPosition::VECCALC> c; (void)c.GetBufLen(); }",
        "{ TBuf<QuePosition::VECCALC> b; LocalTensor<float> a = b.Get<float>(); (void)a; }",
    ),
    "TBufPool": one(
        "{ TBufPool<TPosition::VECCALC> p; the_pipe->InitBufPool(p, 512); "
        "p.InitBuffer(que, 2, 64); }",
        "{ TBufPool<TPosition::VECCALC, 16> p; p.InitBuffer(buf, 64); p.Reset(); }",
    ),
    "TQueSync": one("{ TQueSync<PIPE_V, PIPE_MTE3> s; s.SetFlag(0); s.WaitFlag(0); }"),
    "LocalMemAllocator": one(
        "{ LocalMemAllocator a; (void)a.GetCurAddr(); }",
        "{ LocalMemAllocator<Hardware::UB> a; auto t = a.Alloc<float, 64>(); (void)t; }",
    ),
    "InitBuffer": one(
        "{ the_pipe->InitBuffer(que, 2, 256); the_pipe->InitBuffer(bound, 1, 256); }",
        "the_pipe->InitBuffer(buf, 128 * sizeof(half));",
        "the_pipe->InitBuffer(kept_in_place, 1, 32);",
    ),
    "AllocTensor": one(
        "{ LocalTensor<half> a = que.AllocTensor<half>(); a = bound.AllocTensor<half>(); }",
        "{ kept_in_place.AllocTensor<half>(ub<half>); kept_in_place.AllocTensor(ub<half>); }",
    ),
    "FreeTensor": one("que.FreeTensor(ub<half>); bound.FreeTensor(ub<half>);"),
    "EnQue": one(
        "que.EnQue(ub<half>); que.EnQue<half>(ub<half>);",
        "bound.EnQue<TPosition::VECIN, TPosition::VECCALC, half>(ub<half>);",
    ),
    "DeQue": one(
        "{ LocalTensor<half> a = que.DeQue<half>(); kept_in_place.DeQue<half>(a); }",
        "{ auto a = bound.DeQue<TPosition::VECCALC, TPosition::VECOUT, half>(); (void)a; }",
    ),
    "VacantInQue": one("{ bool a = que.VacantInQue(); (void)a; }"),
    "HasTensorInQue": one("{ bool a = que.HasTensorInQue(); (void)a; }"),
    "GetTensorCountInQue": one("{ int32_t a = que.GetTensorCountInQue(); (void)a; }"),
    "HasIdleBuffer": one("{ bool a = que.HasIdleBuffer(); (void)a; }"),
    "FreeAllEvent": one("que.FreeAllEvent();"),
    "GetState": one("{ TBufState a = que.GetState(ub<half>); a = TBufState::FREE; (void)a; }"),
    "AllocEventID": one("{ TEventID a = the_pipe->AllocEventID<HardEvent::V_S>(); (void)a; }"),
    "ReleaseEventID": one("the_pipe->ReleaseEventID<HardEvent::V_S>(0);"),
    "FetchEventID": one(
        "{ event_t a = event_t(GetTPipePtr()->FetchEventID(HardEvent::V_S)); (void)a; }",
        "{ int32_t a = the_pipe->FetchEventID<HardEvent::V_S>(); SetFlag<HardEvent::V_S>(a); }",
    ),
    "Get": one("{ LocalTensor<half> a = buf.Get<half>(); a = buf.Get<half>(32); }"),
    "Reset": one("the_pipe->Reset();"),
    "Destroy": one("the_pipe->Destroy();"),
    "InitBufPool": one(
        "{ TBufPool<TPosition::VECCALC> p, q, r; the_pipe->InitBufPool(p, 512); "
        "p.InitBufPool(q, 256); p.InitBufPool(r, 256, q); the_pipe->InitBufPool(r, 512, p); }"
    ),
    "Alloc": one(
        "{ auto a = arena.Alloc<half, 64>(); a = arena.Alloc<half>(64); }",
        "{ auto a = arena.Alloc<TPosition::VECIN, half, 64>(); "
        "a = arena.Alloc<TPosition::VECIN, half>(64); }",
    ),
    "GetCurAddr": one("{ uint32_t a = arena.GetCurAddr(); (void)a; }"),
    "GetTPipePtr": one("{ TPipe *p = GetTPipePtr(); p = AscendC::GetTPipePtr(); (void)p; }"),
    "GetBaseAddr": one("{ auto a = the_pipe->GetBaseAddr(int8_t(TPosition::VECIN)); (void)a; }"),
    "InitSocState": one("InitSocState(); AscendC::InitSocState();"),
    "GetSysWorkSpacePtr": one("{ GM_ADDR a = GetSysWorkSpacePtr(); (void)a; }"),
    "SetSysWorkSpace": one("SetSysWorkSpace(memory); SetSysWorkspace(memory);"),
    "GetUserWorkspace": one("{ GM_ADDR a = GetUserWorkspace(memory); (void)a; }"),
    "PopStackBuffer": one("PopStackBuffer<half, TPosition::LCM>(ub<half>);"),
    "PopStackShareBuffer": one("PopStackShareBuffer<half, TPosition::LCM>(ub<half>);"),
    # ---- copies ---------------------------------------------------------------------------------
    "DataCopy": {
        "count": [
            "DataCopy(ub<$T>, gm<$T>, 32);",
            "DataCopy(gm<$T>[8], ub<$T>, 32);",
            "DataCopy(ub<$T>, ub<$T>[8], 32);",
        ],
        "params": [
            "DataCopy(ub<$T>, gm<$T>, DataCopyParams(1, 2, 0, 0));",
            "DataCopy(gm<$T>, ub<$T>, {1, 2, 0, 0});",
            "DataCopy(ub<$T>, ub<$T>, DataCopyParams());",
            "DataCopy(ub<$T>, gm<$T>, DataCopyParams(), DataCopyEnhancedParams());",
            "DataCopy(ub<$T>, gm<$T>, Nd2NzParams());",
            "DataCopy(gm<$T>, ub<$T>, Nz2NdParamsFull());",
        ],
        "slice": [
            "{ SliceInfo d[1], s[1]; DataCopy(ub<$T>, gm<$T>, d, s, 1); DataCopy(gm<$T>, ub<$T>, "
            "d, s); }"
        ],
    },
    "DataCopyPad": one(
        "DataCopyPad(ub<$T>, gm<$T>, DataCopyExtParams(), DataCopyPadExtParams<$T>());",
        "DataCopyPad(ub<$T>, gm<$T>, {1, 20, 0, 0, 0}, {false, 0, 0, $T(0)});",
        "DataCopyPad(ub<$T>, gm<$T>, DataCopyParams(), DataCopyPadParams());",
        "DataCopyPad(gm<$T>, ub<$T>, DataCopyExtParams());",
        "DataCopyPad(gm<$T>, ub<$T>, {1, 20, 0, 0, 0});",
        "DataCopyPad(gm<$T>, ub<$T>, DataCopyParams());",
        form="params",
    ),
    "Copy": {
        "mask": [
            "Copy(ub<$T>, ub<$T>, 16, 1, {1, 1, 8, 8});",
            "Copy<$T, false>(ub<$T>, ub<$T>, MASK_PLACEHOLDER, 1, CopyRepeatParams());",
        ],
        "bits": ["Copy(ub<$T>, ub<$T>, bits, 1, CopyRepeatParams());"],
    },
    "SetPadValue": one("SetPadValue(value<$T>);"),
    # ---- elementwise ----------------------------------------------------------------------------
    **{n: unary(n) for n in ("Ln", "Abs", "Reciprocal", "Rsqrt", "Sqrt", "Relu", "Not")},
    "Exp": {
        **unary("Exp"),
        "count": [
            "Exp(ub<$T>, ub<$T>, 32);",
            "Exp<$T, 15>(ub<$T>, ub<$T>, 32);",
            "Exp<$T, 0>(ub<$T>, ub<$T>, ub<uint8_t>, 32);",
            "Exp<$T, 0>(ub<$T>, ub<$T>, 32);",
            "Exp<$T, 0, true>(ub<$T>, ub<$T>, ub<uint8_t>, 32);",
        ],
    },
    **{
        n: binary(n)
        for n in (
            *("Add", "Sub", "Mul", "Div", "Max", "Min", "And", "Or", "AddRelu", "SubRelu"),
            *("FusedMulAdd", "FusedMulAddRelu"),
        )
    },
    **{n: scalar(n) for n in ("Adds", "Muls", "Maxs", "Mins", "LeakyRelu", "ShiftLeft")},
    "ShiftRight": shifted("ShiftRight", "true"),
    **{n: binary_pair(n) for n in ("MulAddDst", "AddReluCast", "SubReluCast", "MulCast")},
    "AddDeqRelu": {
        "count": ["AddDeqRelu(ub<$D>, ub<$S>, ub<$S>, 32);"],
        "mask": [
            "AddDeqRelu(ub<$D>, ub<$S>, ub<$S>, 32, 1, binary_params);",
            "AddDeqRelu<false>(ub<half>, ub<int32_t>, ub<int32_t>, 32, 1, binary_params);",
        ],
        "bits": ["AddDeqRelu(ub<$D>, ub<$S>, ub<$S>, bits, 1, binary_params);"],
    },
    "Axpy": three("Axpy(ub<$D>, ub<$S>, value<$S>", "unary_params"),
    "BilinearInterpolation": {
        f: [
            "BilinearInterpolation(ub<$T>, ub<$T>, ub<uint32_t>, ub<$T>, "
            f"{mask}, 1, false, 1, 8, 1, ub<uint8_t>);"
        ]
        for f, mask in (("mask", "16"), ("bits", "bits"))
    },
    "Xor": one(
        "Xor(ub<$T>, ub<$T>, ub<$T>, 32);",
        "Xor(ub<$T>, ub<$T>, ub<$T>);",
        "Xor(ub<$T>, ub<$T>, ub<$T>, ub<uint8_t>, 32);",
        "Xor<$T, false>(ub<$T>, ub<$T>, ub<$T>, ub<uint8_t>);",
        form="count",
    ),
    # ---- casts, comparisons, selection ----------------------------------------------------------
    "Cast": {
        "count": ["Cast(ub<$D>, ub<$S>, RoundMode::CAST_NONE, 32);"],
        "mask": [
            "Cast(ub<$D>, ub<$S>, RoundMode::CAST_RINT, 32, 1, {1, 1, 8, 4});",
            "Cast<$D, $S, false>(ub<$D>, ub<$S>, RoundMode::CAST_RINT, MASK_PLACEHOLDER, 1, "
            "unary_params);",
        ],
        "bits": ["Cast(ub<$D>, ub<$S>, RoundMode::CAST_RINT, bits, 1, unary_params);"],
    },
    "CastDeq": {
        "count": [
            "CastDeq(ub<$D>, ub<$S>, 32);",
            "CastDeq<$D, $S, false, false>(ub<$D>, ub<$S>, 32);",
        ],
        "mask": ["CastDeq<$D, $S, true, true, true>(ub<$D>, ub<$S>, 32, 1, unary_params);"],
        "bits": ["CastDeq<$D, $S, true, false, true>(ub<$D>, ub<$S>, bits, 1, unary_params);"],
    },
    "SetDeqScale": one(
        "SetDeqScale(half(1.0f));",
        "SetDeqScale(1.0f, 0, true);",
        "SetDeqScale(ub<uint64_t>, VdeqInfo());",
    ),
    "Compare": {
        "count": ["Compare(ub<uint8_t>, ub<$T>, ub<$T>, CMPMODE::EQ, 128);"],
        "mask": ["Compare(ub<uint8_t>, ub<$T>, ub<$T>, CMPMODE::EQ, 32, 1, binary_params);"],
        "bits": ["Compare(ub<uint8_t>, ub<$T>, ub<$T>, CMPMODE::EQ, bits, 1, binary_params);"],
        "register": [
            "Compare(ub<$T>, ub<$T>, CMPMODE::EQ, 32, binary_params);",
            "Compare<$T>(ub<$T>, ub<$T>, CMPMODE::EQ, bits, binary_params);",
        ],
    },
    "CompareScalar": {
        "count": ["CompareScalar(ub<uint8_t>, ub<$T>, value<$T>, CMPMODE::EQ, 128);"],
        "mask": [
            "CompareScalar(ub<uint8_t>, ub<$T>, value<$T>, CMPMODE::EQ, 32, 1, unary_params);"
        ],
        "bits": [
            "CompareScalar(ub<uint8_t>, ub<$T>, value<$T>, CMPMODE::EQ, bits, 1, unary_params);"
        ],
    },
    "GetCmpMask": one("GetCmpMask(ub<$T>);"),
    "SetCmpMask": one("SetCmpMask(ub<$T>);"),
    "Select": {
        "count": [
            "Select(ub<$T>, ub<uint8_t>, ub<$T>, ub<$T>, SELMODE::VSEL_TENSOR_TENSOR_MODE, 32);",
            "Select(ub<$T>, ub<uint16_t>, ub<$T>, value<$T>, SELMODE::VSEL_TENSOR_SCALAR_MODE, 8);",
        ],
        "mask": [
            "Select(ub<$T>, ub<uint8_t>, ub<$T>, ub<$T>, SELMODE::VSEL_CMPMASK_SPR, 32, 1, "
            "binary_params);",
            "Select(ub<$T>, ub<uint32_t>, ub<$T>, value<$T>, SELMODE::VSEL_TENSOR_SCALAR_MODE, 32, "
            "1, binary_params);",
        ],
        "bits": [
            "Select(ub<$T>, ub<uint64_t>, ub<$T>, ub<$T>, SELMODE::VSEL_CMPMASK_SPR, bits, 1, "
            "binary_params);",
            "Select(ub<$T>, ub<uint8_t>, ub<$T>, value<$T>, SELMODE::VSEL_TENSOR_SCALAR_MODE, "
            "bits, 1, binary_params);",
        ],
        "register": [
            "Select<$T, SELMODE::VSEL_CMPMASK_SPR>(ub<$T>, ub<$T>, ub<$T>, 1, binary_params);",
            "Select<$T, uint8_t>(ub<$T>, ub<uint8_t>, ub<$T>, 1, binary_params);",
        ],
    },
    # ---- fills, gathering, transposition, sorting -----------------------------------------------
    "Duplicate": three("Duplicate(ub<$T>, value<$T>", "1, 8"),
    "Brcb": one("Brcb(ub<$T>, ub<$T>, 1, {1, 8});", form="repeat"),
    "CreateVecIndex": three("CreateVecIndex(ub<$T>, value<$T>", "1, 8"),
    "ArithProgression": one(
        "ArithProgression(ub<$T>, value<$T>, value<$T>, 32);",
        "ArithProgression<$T>(ub<$T>, static_cast<$T>(0), static_cast<$T>(2), 32);",
        form="count",
    ),
    "Gather": three("Gather(ub<$T>, ub<$T>, ub<uint32_t>, 0", "8"),
    "Gatherb": one("Gatherb(ub<$T>, ub<$T>, ub<uint32_t>, 1, {1, 8});", form="repeat"),
    "Scatter": three("Scatter(ub<$T>, ub<$T>, ub<uint32_t>, 0", "8"),
    "GatherMask": {
        "pattern": [
            "GatherMask(ub<$T>, ub<$T>, 1, false, 0, GatherMaskParams(), count64);",
            "{ uint64_t n = 0; GatherMask(ub<$T>, ub<$T>, 7, true, 32, {1, 1, 8, 0}, n); }",
        ],
        "tensor": [
            "GatherMask(ub<$T>, ub<$T>, ub<Std::conditional_t<sizeof($T) == 1, uint8_t, "
            "Std::conditional_t<sizeof($T) == 2, uint16_t, uint32_t>>>, true, 32, "
            "GatherMaskParams(), count64);"
        ],
    },
    "Transpose": {
        "block": ["Transpose(ub<$T>, ub<$T>);"],
        "ext": ["Transpose(ub<$T>, ub<$T>, ub<uint8_t>, TransposeParamsExt());"],
    },
    "TransDataTo5HD": {
        "list": [
            "{ LocalTensor<$T> d[16], s[16]; TransDataTo5HD<$T>(d, s, TransDataTo5HDParams()); }",
            "{ uint64_t d[16], s[16]; TransDataTo5HD<$T>(d, s, TransDataTo5HDParams()); }",
        ],
        "tensor": ["TransDataTo5HD<$T>(ub<uint64_t>, ub<uint64_t>, TransDataTo5HDParams());"],
    },
    "Sort32": one("Sort32(ub<$T>, ub<$T>, ub<uint32_t>, 1);", form="repeat"),
    "MrgSort": one(
        "MrgSort<$T>(ub<$T>, MrgSortSrcList<$T>(), MrgSort4Info());",
        "MrgSort<$T, true>(ub<$T>, MrgSortSrcList<$T>(), count16, count32, 15, 1);",
        form="list",
    ),
    "RpSort16": one("RpSort16(ub<$T>, ub<$T>, 1);", form="repeat"),
    "MrgSort4": one("MrgSort4(ub<$T>, MrgSortSrcList<$T>(), MrgSort4Info());", form="repeat"),
    "ProposalConcat": one("ProposalConcat(ub<$T>, ub<$T>, 1, 4);", form="repeat"),
    "ProposalExtract": one("ProposalExtract(ub<$T>, ub<$T>, 1, 4);", form="repeat"),
    "GetMrgSortResult": one("GetMrgSortResult(count16[0], count16[1], count16[2], count16[3]);"),
    "Sort": one(
        "Sort<$T, true>(ub<$T>, ub<$T>, ub<uint32_t>, ub<$T>, 1);",
        "Sort<$T, false>(ub<$T>, ub<$T>, ub<uint32_t>, ub<$T>, 1);",
        form="repeat",
    ),
    "Concat": one("Concat(ub<$T>, ub<$T>, ub<$T>, 1);", form="repeat"),
    "Extract": one("Extract(ub<$T>, ub<uint32_t>, ub<$T>, 1);", form="repeat"),
    "GetSortOffset": one("{ uint32_t n = GetSortOffset<$T>(32); (void)n; }"),
    "GetSortLen": one("{ uint32_t n = GetSortLen<$T>(32); (void)n; }"),
    "TopK": one(
        "TopK<$T, false, false, false, TopKMode::TOPK_NORMAL>(ub<$T>, ub<int32_t>, ub<$T>, "
        "ub<int32_t>, ub<bool>, 8, TopkTiling(), TopKInfo(), true);",
        "TopK<$T, true, true, false, TopKMode::TOPK_NSMALL>(ub<$T>, ub<int32_t>, ub<$T>, "
        "ub<int32_t>, ub<bool>, ub<uint8_t>, 8, TopkTiling(), TopKInfo());",
        form="count",
    ),
    # ---- reductions -----------------------------------------------------------------------------
    "WholeReduceSum": whole_reduction("WholeReduceSum", order=False),
    "WholeReduceMax": whole_reduction("WholeReduceMax", order=True),
    "WholeReduceMin": whole_reduction("WholeReduceMin", order=True),
    **{
        n: block_reduction(n)
        for n in ("BlockReduceSum", "BlockReduceMax", "BlockReduceMin", "PairReduceSum")
    },
    "RepeatReduceSum": one(
        "RepeatReduceSum(ub<$T>, ub<$T>, 1, 16, 0, 1, 1, 8);",
        "RepeatReduceSum<$T, false>(ub<$T>, ub<$T>, 1, 16, 0, 1, 1, 8);",
        form="count",
    ),
    "ReduceSum": {
        "count": [
            "ReduceSum(ub<$T>, ub<$T>, ub<$T>, 32);",
            "ReduceSum<$T>(ub<$T>, ub<$T>, ub<$T>, 32);",
        ],
        "mask": ["ReduceSum(ub<$T>, ub<$T>, ub<$T>, 32, 1, 8);"],
        "bits": ["ReduceSum<$T>(ub<$T>, ub<$T>, ub<$T>, bits, 1, 8);"],
    },
    **{
        n: {
            "count": [
                f"{n}(ub<$T>, ub<$T>, ub<$T>, 32);",
                f"{n}<$T>(ub<$T>, ub<$T>, ub<$T>, 32, true);",
            ],
            "mask": [f"{n}(ub<$T>, ub<$T>, ub<$T>, 32, 1, 8, true);"],
            "bits": [f"{n}<$T>(ub<$T>, ub<$T>, ub<$T>, bits, 1, 8, false);"],
        }
        for n in ("ReduceMax", "ReduceMin")
    },
    "GetReduceMaxMinCount": one(
        "{ $T v, i; GetReduceMaxMinCount<$T>(v, i); GetReduceMaxMinCount<$T>(v); }"
    ),
    "GetAccVal": one("{ $T v = GetAccVal<$T>(); (void)v; }"),
    # ---- masks, atomics, synchronisation, caches ------------------------------------------------
    "SetMaskNorm": one("SetMaskNorm();"),
    "SetMaskCount": one("SetMaskCount();"),
    "ResetMask": one("ResetMask();"),
    "SetVectorMask": one(
        "SetVectorMask<$T>(0, 0xff);",
        "SetVectorMask<$T, MaskMode::COUNTER>(0, 100);",
        "SetVectorMask<$T, MaskMode::NORMAL>(32);",
        "SetVectorMask<$T, MaskMode::COUNTER>(100);",
    ),
    **{n: one(f"{n}<$T>();") for n in ("SetAtomicAdd", "SetAtomicMax", "SetAtomicMin")},
    "SetAtomicType": one("SetAtomicType<$T>();"),
    "SetAtomicNone": one("SetAtomicNone();"),
    "SetStoreAtomicConfig": one(
        "SetStoreAtomicConfig<AtomicDtype::ATOMIC_F32, AtomicOp::ATOMIC_SUM>();"
    ),
    "GetStoreAtomicConfig": one("GetStoreAtomicConfig(count16[0], count16[1]);"),
    "SetFlag": one(
        "SetFlag<HardEvent::MTE2_V>(EVENT_ID0); AscendC::SetFlag<AscendC::HardEvent::V_S>(1);"
    ),
    "WaitFlag": one("{ int32_t id = 0; WaitFlag<HardEvent::MTE2_V>(id); }"),
    "PipeBarrier": one(
        *(
            f"PipeBarrier<PIPE_{p}>(); AscendC::PipeBarrier<PIPE_{p}>();"
            for p in ("V", "MTE2", "MTE3", "ALL")
        )
    ),
    "DataSyncBarrier": one("DataSyncBarrier<MemDsbT::ALL>(); DataSyncBarrier<MemDsbT::UB>();"),
    "SyncAll": one(
        "SyncAll(); SyncAll<true>();",
        "SyncAll(gm<int32_t>, ub<int32_t>); SyncAll(gm<int32_t>, ub<int32_t>, 4);",
    ),
    "CrossCoreSetFlag": one("CrossCoreSetFlag<0x0, PIPE_MTE3>(0x8);"),
    "CrossCoreWaitFlag": one(
        "CrossCoreWaitFlag(0x8); CrossCoreWaitFlag<0x0, PIPE_MTE3>(0x8); CrossCoreWaitFlag<1>(3);"
    ),
    "IBSet": one("IBSet(gm<int32_t>, ub<int32_t>, 0, 0);"),
    "IBWait": one("IBWait(gm<int32_t>, ub<int32_t>, 0, 0);"),
    "InitDetermineComputeWorkspace": one(
        "InitDetermineComputeWorkspace(gm<int32_t>, ub<int32_t>);"
    ),
    "WaitPreBlock": one("WaitPreBlock(gm<int32_t>, ub<int32_t>);"),
    "NotifyNextBlock": one("NotifyNextBlock(gm<int32_t>, ub<int32_t>);"),
    "DataCacheCleanAndInvalid": one(
        "DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, "
        "DcciDst::CACHELINE_OUT>(gm<float>);",
        "DataCacheCleanAndInvalid<float, CacheLine::ENTIRE_DATA_CACHE>(gm<float>);",
        "DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, "
        "DcciDst::CACHELINE_ALL>(ub<float>);",
    ),
    "DataCachePreload": one("DataCachePreload(gm<uint64_t>, int64_t(0));"),
    "ICachePreLoad": one("ICachePreLoad(2);"),
    "GetICachePreloadStatus": one("{ int64_t s = GetICachePreloadStatus(); (void)s; }"),
}

# (name, alias): the alias' own way to be called.
ALIASES: dict[tuple[str, str], Forms] = {
    ("Get", "GetWithOffset"): one(
        "{ LocalTensor<half> a = buf.GetWithOffset<half>(32, 64); (void)a; }"
    ),
    ("GetBlockIdx", "block_idx"): one("{ int64_t n = block_idx; n = block_idx * 4 + 1; (void)n; }"),
    ("GetBlockNum", "block_num"): one("{ int64_t n = 8 / block_num; (void)n; }"),
    ("GetBlockIdx", "get_block_idx"): one("{ int64_t n = get_block_idx(); (void)n; }"),
    ("GetBlockNum", "get_block_num"): one("{ int64_t n = get_block_num(); (void)n; }"),
    ("assert", "ASSERT_MSG"): one('ASSERT_MSG(count64 == 0, "is %d", 3);'),
    **{
        (f"WholeReduce{kind}", "ReduceRepeat"): {
            "mask": [f"ReduceRepeat<ReduceType::{kind.upper()}>(ub<$T>, ub<$T>, 16, 1, 1, 1, 8);"],
            "bits": [
                f"ReduceRepeat<ReduceType::{kind.upper()}, true>(ub<$T>, ub<$T>, bits, 1, 1, 1, 8);"
            ],
        }
        for kind in ("Sum", "Max", "Min")
    },
    **{
        (f"{old}{kind}", new): {
            "mask": [f"{new}<ReduceType::{kind.upper()}>(ub<$T>, ub<$T>, 1, 16, 1, 1, 8);"],
            "bits": [f"{new}<ReduceType::{kind.upper()}>(ub<$T>, ub<$T>, 1, bits, 1, 1, 8);"],
        }
        for old, new, kinds in (
            ("BlockReduce", "ReduceDataBlock", ("Sum", "Max", "Min")),
            ("PairReduce", "ReducePairElem", ("Sum",)),
        )
        for kind in kinds
    },
}
