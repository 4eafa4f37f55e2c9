"""Snippets as in api_snippets.py: system, scalar unit, debugging, the high-level API, words."""

from __future__ import annotations

from twin.api_snippets import Forms, one


def math(name: str, sources: int = 1) -> Forms:
    tensors = ", ".join(["ub<$T>"] * (1 + sources))
    tail = f"{name}<$T, false>({tensors}"
    return one(
        f"{name}({tensors}, 32);",
        f"{name}({tensors});",
        f"{tail}, ub<uint8_t>, 32);",
        f"{tail}, ub<uint8_t>);",
        form="count",
    )


def gelu(name: str) -> Forms:
    return one(
        f"{name}(ub<$T>, ub<$T>, 32);",
        f"{name}<$T, false, false>(ub<$T>, ub<$T>, ub<uint8_t>, 32);",
        form="count",
    )


def glu(name: str) -> Forms:
    return math(name, 2)


def softmax(name: str) -> Forms:
    tensors = "(ub<$T>, ub<$T>, ub<$T>, ub<$T>"
    return one(
        f"{name}<$T>{tensors}, SoftMaxTiling(), SoftMaxShapeInfo());",
        f"{name}<$T, true, false>{tensors}, ub<uint8_t>, SoftMaxTiling(), {{1, 32, 1, 32}});",
        form="count",
    )


SNIPPETS: dict[str, Forms] = {
    # ---- system, scalar unit --------------------------------------------------------------------
    **{
        n: one(f"{{ int64_t n = {n}(); n = AscendC::{n}(); (void)n; }}")
        for n in (
            *("GetBlockIdx", "GetBlockNum", "GetSubBlockIdx", "GetSubBlockNum", "GetTaskRation"),
            *("GetProgramCounter", "GetSystemCycle"),
        )
    },
    "GetArchVersion": one("{ uint32_t v = 0; GetArchVersion(v); }"),
    "GetDataBlockSizeInBytes": one(
        '{ constexpr uint32_t n = GetDataBlockSizeInBytes(); static_assert(n == 32, ""); }'
    ),
    "GetUBSizeInBytes": one("{ uint32_t n = GetUBSizeInBytes(); (void)n; }"),
    "GetRuntimeUBSize": one("{ uint32_t n = GetRuntimeUBSize(); (void)n; }"),
    "GetVecLen": one('{ constexpr uint32_t n = GetVecLen(); static_assert(n == 256, ""); }'),
    "SetCtrlSpr": one("SetCtrlSpr<48, 48>(1); SetCtrlSpr<60, 60>(0);"),
    "GetCtrlSpr": one("{ int64_t v = GetCtrlSpr<48, 48>(); (void)v; }"),
    "ResetCtrlSpr": one("ResetCtrlSpr<48, 48>();"),
    "SetSaturationFlag": one("SetSaturationFlag(true);"),
    "GetSaturationFlag": one("{ bool v = GetSaturationFlag(); (void)v; }"),
    "ScalarGetCountOfValue": one(
        "{ int64_t n = ScalarGetCountOfValue<1>($T(5)); n = ScalarGetCountOfValue<0>(5); (void)n; }"
    ),
    "ScalarCountLeadingZero": one("{ int64_t n = ScalarCountLeadingZero($T(5)); (void)n; }"),
    "CountBitsCntSameAsSignBit": one("{ int64_t n = CountBitsCntSameAsSignBit($T(5)); (void)n; }"),
    "ScalarGetSFFValue": one("{ int64_t n = ScalarGetSFFValue<1>($T(5)); (void)n; }"),
    "ScalarCast": one(
        "{ $D v = ScalarCast<$S, $D, IsSameType<$D, half>::value ? RoundMode::CAST_ODD : "
        "RoundMode::CAST_RINT>($S(1.5f)); (void)v; }",
        "{ half h = ScalarCast<float, half, RoundMode::CAST_ODD>(1.5f); (void)h; }",
        *(
            f"{{ int32_t i = ScalarCast<float, int32_t, RoundMode::CAST_{m}>(1.5f); (void)i; }}"
            for m in ("ROUND", "CEIL", "FLOOR", "RINT")
        ),
        "{ int32_t i = Cast<float, int32_t, RoundMode::CAST_RINT>(1.5f); (void)i; }",
    ),
    "ToBfloat16": one(
        "{ bfloat16_t b = ToBfloat16(1.5f); b = Cast<float, bfloat16_t>(1.5f); (void)b; }"
    ),
    "ToFloat": one(
        "{ float f = ToFloat(value<bfloat16_t>); f = Cast<bfloat16_t, float>(value<bfloat16_t>); "
        "(void)f; }"
    ),
    "Nop": one("Nop();"),
    "CeilDivision": one("{ int32_t n = CeilDivision(7, 2); (void)n; }"),
    "AlignUp": one("{ uint32_t n = AlignUp(7u, 32u); (void)n; }"),
    "Async": one("Async<EngineType::AIV, on_aiv>(3);"),
    # ---- debugging ------------------------------------------------------------------------------
    "printf": one(
        'printf("%d %f %s %p %x\\n", 1, 1.5f, "a", memory, 3u); AscendC::printf("%ld\\n", 1L);',
        'printf("%f %d\\n", value<half>, GetBlockIdx());',
    ),
    "assert": one('assert(count64 == 0); assert(count64 == 0, "is %d", 3);'),
    "Trap": one("Trap();"),
    "DumpTensor": one(
        "DumpTensor(ub<$T>, 1, 8); DumpTensor(gm<$T>, 1, 8);",
        "DumpTensor(ub<$T>, 1, 8, ShapeInfo()); DumpTensor(gm<$T>, 1, 8, ShapeInfo());",
    ),
    "DumpAccChkPoint": one("DumpAccChkPoint(ub<$T>, 1, 0, 8); DumpAccChkPoint(gm<$T>, 1, 0, 8);"),
    "PrintTimeStamp": one("PrintTimeStamp(1);"),
    "MetricsProfStart": one("MetricsProfStart();"),
    "MetricsProfStop": one("MetricsProfStop();"),
    "MarkStamp": one("MarkStamp(1);"),
    # ---- high-level -----------------------------------------------------------------------------
    **{
        n: one(
            f"{n}(ub<$T>, ub<$T>, {n}Params());",
            f"{n}<$T>(ub<$T>, ub<$T>, ub<uint8_t>, {n}Params{{1, 32, 32}});",
            form="count",
        )
        for n in ("Sum", "Mean")
    },
    "CumSum": one(
        "CumSum<$T>(ub<$T>, ub<$T>, ub<$T>, {1, 32});",
        "CumSum<$T, config::rows>(ub<$T>, ub<$T>, ub<$T>, ub<uint8_t>, CumSumInfo());",
        form="count",
    ),
    **{
        n: math(n)
        for n in (
            *("Log", "Log2", "Log10", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh"),
            *("Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Erfc", "Ceil", "Floor", "Round", "Trunc"),
            *("Frac", "Sign"),
        )
    },
    **{n: one(f"{n}(ub<$T>, ub<$T>, 32);", form="count") for n in ("Sigmoid", "Silu")},
    **{n: glu(n) for n in ("Fmod", "GeGLU", "ReGlu")},
    "Power": one(
        *glu("Power")["count"],
        "Power(ub<$T>, ub<$T>, value<$T>, 32);",
        "Power(ub<$T>, ub<$T>, value<$T>, ub<uint8_t>, 32);",
        "Power(ub<$T>, value<$T>, ub<$T>, 32);",
        "Power(ub<$T>, value<$T>, ub<$T>, ub<uint8_t>, 32);",
        form="count",
    ),
    **{
        n: one(
            f"{n}(ub<$T>, ub<$T>, value<$T>, 32);",
            f"{n}(ub<$T>, ub<$T>, ub<uint8_t>, value<$T>, 32);",
            form="count",
        )
        for n in ("ClampMax", "ClampMin")
    },
    **{n: softmax(n) for n in ("SoftMax", "SimpleSoftMax", "LogSoftMax")},
    "AdjustSoftMaxRes": one(
        "{ bool b = AdjustSoftMaxRes<$T, $T>(ub<$T>, ub<$T>, 0xff7fffff, value<$T>, "
        "{1, 32, 1, 32}); (void)b; }",
        form="count",
    ),
    "RmsNorm": one(
        "RmsNorm<$T>(ub<$T>, ub<$T>, ub<$T>, value<$T>, RmsNormTiling());",
        "RmsNorm<$T, false>(ub<$T>, ub<$T>, ub<$T>, ub<uint8_t>, value<$T>, RmsNormTiling());",
        form="count",
    ),
    "LayerNorm": one(
        "LayerNorm<$T>(ub<$T>, ub<$T>, ub<$T>, ub<$T>, ub<$T>, ub<$T>, value<$T>, "
        "LayerNormTiling());",
        "LayerNorm<$T, false>(ub<$T>, ub<$T>, ub<$T>, ub<$T>, ub<$T>, ub<$T>, ub<uint8_t>, "
        "value<$T>, LayerNormTiling());",
        form="count",
    ),
    **{n: gelu(n) for n in ("Gelu", "FasterGelu", "FasterGeluV2")},
    "Swish": one("Swish(ub<$T>, ub<$T>, 32, value<$T>);", form="count"),
    "SwiGLU": one(
        "SwiGLU(ub<$T>, ub<$T>, ub<$T>, 1.0f, 32);",
        "SwiGLU(ub<$T>, ub<$T>, ub<$T>, 1.0f);",
        "SwiGLU<$T, false>(ub<$T>, ub<$T>, ub<$T>, 1.0f, ub<uint8_t>, 32);",
        "SwiGLU<$T, false>(ub<$T>, ub<$T>, ub<$T>, 1.0f, ub<uint8_t>);",
        form="count",
    ),
    "Broadcast": one(
        "{ uint32_t d[2] = {4, 16}, s[2] = {4, 1}; Broadcast<$T, 2, 1>(ub<$T>, ub<$T>, d, s); "
        "Broadcast<$T, 2, 1>(ub<$T>, ub<$T>, d, s, ub<uint8_t>); }",
        "{ const uint32_t d[1] = {16}, s[1] = {1}; Broadcast<$T, 1, 0>(ub<$T>, ub<$T>, d, s); }",
        form="count",
    ),
    **{
        n: one(
            f"{n}(ub<$T>, ub<$T>, {n}Params(), {n}Tiling());",
            f"{n}(ub<$T>, ub<$T>, {n}Params(), ub<uint8_t>, {n}Tiling());",
            form="count",
        )
        for n in ("Pad", "UnPad")
    },
    "SelectWithBytesMask": one(
        "SelectWithBytesMask(ub<$T>, ub<$T>, value<$T>, ub<uint8_t>, ub<uint8_t>, {1, 32, 32});",
        "SelectWithBytesMask(ub<$T>, value<$T>, ub<$T>, ub<bool>, ub<uint8_t>, {1, 32, 32});",
        form="count",
    ),
    # ---- words ----------------------------------------------------------------------------------
    "__aicore__": one("{ struct A { __aicore__ inline A() {} } a; (void)a; }"),
    "__global__": one('} extern "C" __global__ __aicore__ void kernel_1(GM_ADDR x) {'),
    "__vector__": one("} __global__ __vector__ void kernel_2(GM_ADDR x) {"),
    "__gm__": one("{ __gm__ uint8_t *p = memory; __gm__ float *q = (__gm__ float *)p; (void)q; }"),
    "__ubuf__": one("{ __ubuf__ half *p = (__ubuf__ half *)ub<half>.GetPhyAddr(); (void)p; }"),
    "GM_ADDR": one("{ GM_ADDR p = memory + 32; (void)p; }"),
    "__inout_pipe__": one("} __aicore__ inline void __inout_pipe__(V) piped() {"),
    "ASCEND_IS_AIV": one("if ASCEND_IS_AIV { }", "if (ASCEND_IS_AIV) { }"),
    "ASCEND_IS_AIC": one("if ASCEND_IS_AIC { return; }"),
    "KERNEL_TASK_TYPE_DEFAULT": one("KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);"),
    "KERNEL_TASK_TYPE": one("KERNEL_TASK_TYPE(1, KERNEL_TYPE_MIX_AIV_1_0);"),
    "EVENT_ID0": one(
        "{ TEventID e = EVENT_ID0; e = EVENT_ID1; e = EVENT_ID2; e = EVENT_ID3; (void)e; }",
        "{ event_t e = event_t(EVENT_ID4); e = event_t(EVENT_ID7); (void)e; }",
    ),
    "MASK_PLACEHOLDER": one("{ uint64_t m = MASK_PLACEHOLDER; (void)m; }"),
}
