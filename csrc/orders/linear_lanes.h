// Vectors of the order-exact linear layer: as wide as the machine's, and of eight lanes where
// neighbours are added. Compiler vector types only; every function is a few instructions.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

namespace order {

// ---- the machine
// ---------------------------------------------------------------------------------

// kLanes: fp32 of one vector register. kRows: rows of hidden whose trees are made at once; each
// holds a partial sum per level of its tree in a register (7 levels), so registers are the limit.
#if defined(__AVX512F__)
constexpr int kLanes = 16, kRows = 4;  // 32 registers
#elif defined(__AVX__)
constexpr int kLanes = 8, kRows = 2;  // 16 registers
#elif defined(__aarch64__)
constexpr int kLanes = 4, kRows = 4;  // 32 registers
#else
constexpr int kLanes = 4, kRows = 2;
#endif

#define ORDER_INLINE inline __attribute__((always_inline))

// The vector is in a register here, and is made after what was pinned before. Without this gcc
// hoists the loads of a whole tree before its first addition, and spills them all.
template <typename V>
ORDER_INLINE void pin(V &v) {
    if constexpr (sizeof(V) <= 4 * kLanes) {  // one register
#if defined(__AVX512F__)
        asm volatile("" : "+v"(v));
#elif defined(__SSE2__)
        asm volatile("" : "+x"(v));
#elif defined(__aarch64__)
        asm volatile("" : "+w"(v));
#endif
    }
}

// A function in which products that are added may be fused. Only products that are exact meet a sum
// there, so it rounds the same number once and has the same bits. Clang is told in
// `sum_of_products`.
#if defined(__GNUC__) && !defined(__clang__)
#define ORDER_FUSES __attribute__((optimize("fp-contract=fast")))
#else
#define ORDER_FUSES
#endif

constexpr int kRepeat = 64;  // fp32 of one vector instruction of the device

template <int N>
struct LanesOf {
    typedef float F __attribute__((vector_size(4 * N)));
    typedef uint32_t U __attribute__((vector_size(4 * N)));
    typedef int32_t S __attribute__((vector_size(4 * N)));
    typedef uint16_t H __attribute__((vector_size(2 * N)));
};
using Wide = LanesOf<kLanes>::F;
using WideU = LanesOf<kLanes>::U;
using Eight = LanesOf<8>::F;
using EightU = LanesOf<8>::U;

// Through a type that may alias and has no alignment: gcc expands memcpy by way of the stack.
template <typename V, typename T>
ORDER_INLINE V load(const T *p) {
    typedef V Unaligned __attribute__((aligned(1), may_alias));
    return *reinterpret_cast<const Unaligned *>(p);
}
template <typename V, typename T>
ORDER_INLINE void store(T *p, V v) {
    typedef V Unaligned __attribute__((aligned(1), may_alias));
    *reinterpret_cast<Unaligned *>(p) = v;
}

// Lane i of the result is lane f(i) of a and b in a row; f is a constant function.
template <typename F, typename V, size_t... I>
ORDER_INLINE V shuffled(V a, V b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, F::at(int(I), int(sizeof...(I)))...);
}
template <typename F, typename V>
ORDER_INLINE V shuffle(V a, V b) {
    return shuffled<F>(a, b, std::make_index_sequence<sizeof(V) / 4>());
}

// ---- inputs
// --------------------------------------------------------------------------------------

// How inputs are read. kPairs: a 32-bit word of weight holds two neighbours, the first in its low
// half; `low` and `high` make them fp32. kScale: what a sum of products has to be multiplied by.
// kExact: every product is exact in fp32, wherever it lies.
struct Fp32 {
    using Element = float;
    static constexpr bool kPairs = false, kHasCareful = false, kExact = false;
    static constexpr float kScale = 1.0f;
    static float hidden(float e) { return e; }
    static float bias(float e) { return e; }
};

inline float float_of(uint32_t bits) {
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
}

// Products are exact but for those below 2^-126 and above the largest number.
struct Bf16 {
    using Element = uint16_t;
    static constexpr bool kPairs = true, kHasCareful = false, kExact = false;
    static constexpr float kScale = 1.0f;
    template <typename F, typename U>
    static ORDER_INLINE F low(U w) {
        return (F)(w << 16);
    }
    template <typename F, typename U>
    static ORDER_INLINE F high(U w) {
        return (F)(w & 0xffff0000u);
    }
    static float hidden(uint16_t e) { return float_of(uint32_t(e) << 16); }
    static float bias(uint16_t e) { return hidden(e); }
};

// Sign, exponent and fraction of an fp16 number moved to where those of fp32 are make 2^-112 of its
// value. Weight stays so, hidden is scaled by 2^104, and the sum in the end by 2^8: products of
// fp16 numbers and their sums are multiples of 2^-48 and far from the ends of fp32, so powers of
// two change no rounding. Only infinity and NaN look like numbers then; where a weight is one,
// `Careful` reads it.
struct Fp16Careful {
    using Element = uint16_t;
    static constexpr bool kPairs = true, kHasCareful = false, kExact = true;
    static constexpr float kScale = 0x1p8f;
    template <typename U>
    static ORDER_INLINE U moved(U upper_half) {
        typedef int32_t S __attribute__((vector_size(sizeof(U))));
        return (U)((S)upper_half >> 3) & 0x8fffe000u;
    }
    template <typename U>
    static ORDER_INLINE U special(U bits) {
        return bits | ((U)((bits & 0x0f800000u) == 0x0f800000u) & 0x7f800000u);
    }
    template <typename F, typename U>
    static ORDER_INLINE F low(U w) {
        return (F)special(moved<U>(w << 16));
    }
    template <typename F, typename U>
    static ORDER_INLINE F high(U w) {
        return (F)special(moved<U>(w));
    }
    static float bias(uint16_t e) {
        const uint32_t magnitude = uint32_t(e & 0x7fff) << 13, sign = uint32_t(e & 0x8000) << 16;
        if (magnitude >= 0x7c00u << 13) {
            return float_of(sign | magnitude | 0x7f800000u);
        }
        return float_of(sign | magnitude) * 0x1p112f;
    }
    static float hidden(uint16_t e) { return bias(e) * 0x1p104f; }
};
struct Fp16 : Fp16Careful {
    static constexpr bool kHasCareful = true;
    using Careful = Fp16Careful;
    template <typename F, typename U>
    static ORDER_INLINE F low(U w) {
        return (F)moved<U>(w << 16);
    }
    template <typename F, typename U>
    static ORDER_INLINE F high(U w) {
        return (F)moved<U>(w);
    }
};

// a x + b y, each product rounded: the first level of the tree.
template <typename In, typename V>
ORDER_INLINE V sum_of_products(V a, V x, V b, V y) {
    if constexpr (In::kExact) {
#if defined(__clang__)
#pragma clang fp contract(fast)
#endif
        return a * x + b * y;
    } else {
        return a * x + b * y;
    }
}

// The largest magnitude among 16-bit numbers, word by word.
template <typename U>
struct Largest {
    typedef uint16_t H __attribute__((vector_size(sizeof(U))));
    H most = {};
    ORDER_INLINE void take(U word) {
        const H magnitude = (H)(word & 0x7fff7fffu);
        most = magnitude > most ? magnitude : most;
    }
    ORDER_INLINE bool has_special() const {  // infinity or NaN of fp16
        uint64_t words[sizeof(U) / 8], any = 0;
        const H found = (H)(most >= 0x7c00);
        std::memcpy(words, &found, sizeof words);
        for (uint64_t w : words) {
            any |= w;
        }
        return any != 0;
    }
};

// ---- transposition
// -------------------------------------------------------------------------------

// Of 32-bit lanes in groups of four (128 bits).
struct Low32 {  // a0 b0 a1 b1
    static constexpr int at(int i, int n) { return i / 4 * 4 + i % 4 / 2 + i % 2 * n; }
};
struct High32 {  // a2 b2 a3 b3
    static constexpr int at(int i, int n) { return Low32::at(i, n) + 2; }
};
struct Low64 {  // a0 a1 b0 b1
    static constexpr int at(int i, int n) { return i / 4 * 4 + i % 2 + i % 4 / 2 * n; }
};
struct High64 {  // a2 a3 b2 b3
    static constexpr int at(int i, int n) { return Low64::at(i, n) + 2; }
};
struct EvenGroups {  // the groups 0, 2, … of a, then of b
    static constexpr int at(int i, int n) {
        return i < n / 2 ? i / 4 * 8 + i % 4 : n + (i - n / 2) / 4 * 8 + i % 4;
    }
};
struct OddGroups {
    static constexpr int at(int i, int n) { return EvenGroups::at(i, n) + 4; }
};

// Transposing kLanes rows of kLanes 32-bit lanes in two steps. The first: 4 by 4 inside each group,
// of four rows; out[j] has element 4 g + j of the rows in group g.
ORDER_INLINE void transpose_groups(const Wide *row, Wide *out) {
    const Wide a = shuffle<Low32>(row[0], row[1]), b = shuffle<High32>(row[0], row[1]);
    const Wide c = shuffle<Low32>(row[2], row[3]), d = shuffle<High32>(row[2], row[3]);
    out[0] = shuffle<Low64>(a, c);
    out[1] = shuffle<High64>(a, c);
    out[2] = shuffle<Low64>(b, d);
    out[3] = shuffle<High64>(b, d);
}
// The second, for one j: t[q] is out[j] of rows 4 q to 4 q + 3; column[g] becomes element 4 g + j
// of all rows.
ORDER_INLINE void exchange_groups(const Wide *t, Wide *column) {
#if defined(__AVX512F__)
    const Wide e = shuffle<EvenGroups>(t[0], t[1]), o = shuffle<OddGroups>(t[0], t[1]);
    const Wide f = shuffle<EvenGroups>(t[2], t[3]), p = shuffle<OddGroups>(t[2], t[3]);
    column[0] = shuffle<EvenGroups>(e, f);
    column[1] = shuffle<EvenGroups>(o, p);
    column[2] = shuffle<OddGroups>(e, f);
    column[3] = shuffle<OddGroups>(o, p);
#elif defined(__AVX__)
    column[0] = shuffle<EvenGroups>(t[0], t[1]);
    column[1] = shuffle<OddGroups>(t[0], t[1]);
#else
    column[0] = t[0];
#endif
}

// ---- sums of neighbours
// --------------------------------------------------------------------------

struct EvenLanes {  // inside groups: a0 a2 b0 b2
    static constexpr int at(int i, int n) { return i / 4 * 4 + i % 2 * 2 + i % 4 / 2 * n; }
};
struct OddLanes {
    static constexpr int at(int i, int n) { return EvenLanes::at(i, n) + 1; }
};

template <typename V>
ORDER_INLINE V add_lanes(V a, V b) {
    return shuffle<EvenLanes>(a, b) + shuffle<OddLanes>(a, b);
}
template <typename V>
ORDER_INLINE V add_groups(V a, V b) {
    return shuffle<EvenGroups>(a, b) + shuffle<OddGroups>(a, b);
}

// Lane j of the result is the tree over the eight lanes of x[j].
ORDER_INLINE Eight sum_of_each(const Eight *x) {
    Eight low = add_lanes(add_lanes(x[0], x[1]), add_lanes(x[2], x[3]));
    pin(low);
    return add_groups(low, add_lanes(add_lanes(x[4], x[5]), add_lanes(x[6], x[7])));
}

// ---- results
// -------------------------------------------------------------------------------------

// Nearest even; `saturate`: the largest number for what overflows or is infinite, +0 for NaN.
ORDER_INLINE WideU narrow_half(Wide v, bool saturate) {
    const WideU u = (WideU)v, sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    WideU normal = magnitude - (112u << 23);
    normal = (normal + 0xfffu + ((normal >> 13) & 1u)) >> 13;
    // Below 2^-14 a multiple of 2^-24, rounded by one addition.
    const WideU small = (WideU)((Wide)magnitude + 0x1p-1f) - 0x3f000000u;
    WideU r = magnitude < 0x38800000u ? small : normal;
    r = magnitude >= 0x477ff000u ? WideU{} + (saturate ? 0x7bffu : 0x7c00u) : r;
    return magnitude > 0x7f800000u ? WideU{} + (saturate ? 0u : 0x7e00u) : r | sign;
}
ORDER_INLINE WideU narrow_bf16(Wide v, bool saturate) {
    const WideU u = (WideU)v, sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    WideU r = (magnitude + 0x7fffu + ((magnitude >> 16) & 1u)) >> 16;
    if (saturate) {
        r = r >= 0x7f80u ? WideU{} + 0x7f7fu : r;
    }
    return magnitude > 0x7f800000u ? WideU{} + (saturate ? 0u : 0x7fc0u) : r | sign;
}
ORDER_INLINE Wide canonical(Wide v) {
    return (Wide)(v == v ? (WideU)v : WideU{} + 0x7fc00000u);
}

}  // namespace order
