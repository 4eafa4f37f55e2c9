// The arithmetic of the vector unit on plain arrays, with the compiler's portable vector types.
// Compiled with -ffp-contract=off: a product and a sum round separately.
#include "check.h"
#include "twin/runtime.h"

namespace twin {
namespace {

constexpr int kLanes = 8;
constexpr uint32_t kRepeatLanes = kRepeat / sizeof(float);  // 64

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef uint32_t VecU __attribute__((vector_size(kLanes * 4)));
typedef uint16_t VecH __attribute__((vector_size(kLanes * 2)));

// Unaligned access through a type that may alias, not through memcpy: gcc expands that in halves by
// way of the stack.
template <typename V, typename T>
inline V load(const T *p) {
    typedef V Unaligned __attribute__((aligned(1), may_alias));
    return *reinterpret_cast<const Unaligned *>(p);
}

template <typename V, typename T>
inline void store(T *p, V v) {
    typedef V Unaligned __attribute__((aligned(1), may_alias));
    *reinterpret_cast<Unaligned *>(p) = v;
}

inline Vec canonical(Vec v) {
    const VecU nan = VecU{} + kNan;
    return reinterpret_cast<Vec>((v == v) ? reinterpret_cast<VecU>(v) : nan);
}

template <typename VecOp, typename Op>
inline void map2(float *dst, const float *a, const float *b, uint32_t count, VecOp vec_op, Op op) {
    uint32_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        store(dst + i, canonical(vec_op(load<Vec>(a + i), load<Vec>(b + i))));
    }
    for (; i < count; ++i) {
        dst[i] = twin::canonical(op(a[i], b[i]));
    }
}

// Sums of adjacent lanes: {a01 a23 b01 b23 a45 a67 b45 b67}. Both shuffles stay inside 128-bit
// halves, which every vector unit does in one instruction; the order of the lanes differs from the
// order of the leaves, but each sum is still one of neighbours.
inline Vec add_pairs(Vec a, Vec b) {
    Vec even = __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
    Vec odd = __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
    return even + odd;
}

// {x0..x7}[j] is vector j; returns the adjacent-pair tree over each vector's eight lanes, result j
// in lane j.
inline Vec sum_of_each(const Vec x[8]) {
    Vec ab = add_pairs(x[0], x[1]);  // a01 a23 b01 b23 | a45 a67 b45 b67
    Vec cd = add_pairs(x[2], x[3]);
    Vec ef = add_pairs(x[4], x[5]);
    Vec gh = add_pairs(x[6], x[7]);
    Vec abcd = add_pairs(ab, cd);  // a03 b03 c03 d03 | a47 b47 c47 d47
    Vec efgh = add_pairs(ef, gh);
    Vec low = __builtin_shufflevector(abcd, efgh, 0, 1, 2, 3, 8, 9, 10, 11);
    Vec high = __builtin_shufflevector(abcd, efgh, 4, 5, 6, 7, 12, 13, 14, 15);
    return low + high;
}

// Trees over eight whole repeats of 64 elements; result j in lane j.
inline Vec eight_repeats(const float *src) {
    Vec by_repeat[8];
    for (int r = 0; r < 8; ++r) {
        Vec x[8];
        for (int j = 0; j < 8; ++j) {
            x[j] = load<Vec>(src + r * kRepeatLanes + j * kLanes);
        }
        by_repeat[r] = sum_of_each(x);
    }
    return sum_of_each(by_repeat);
}

float tree8(const float *v) {
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

// The tree over one repeat, of which `live` lanes take part.
float one_repeat(const float *src, uint32_t live, float masked) {
    float padded[kRepeatLanes];
    if (live < kRepeatLanes) {
        std::memcpy(padded, src, live * sizeof(float));
        for (uint32_t i = live; i < kRepeatLanes; ++i) {
            padded[i] = masked;
        }
        src = padded;
    }
    Vec x[8];
    for (int j = 0; j < 8; ++j) {
        x[j] = load<Vec>(src + j * kLanes);
    }
    float partial[8];
    store(partial, sum_of_each(x));
    return tree8(partial);
}

// One result per repeat into `out`; returns how many.
uint32_t repeats_to(float *out, const float *src, uint32_t count, float masked) {
    uint32_t whole = count / kRepeatLanes;
    uint32_t r = 0;
    for (; r + 8 <= whole; r += 8) {
        store(out + r, eight_repeats(src + r * kRepeatLanes));
    }
    for (; r < whole; ++r) {
        out[r] = one_repeat(src + r * kRepeatLanes, kRepeatLanes, masked);
    }
    if (uint32_t tail = count % kRepeatLanes) {
        out[r++] = one_repeat(src + whole * kRepeatLanes, tail, masked);
    }
    return r;
}

// The documented orders over `count` > 0 consecutive elements. `masked` is what a masked lane
// contributes: +0, or -0, which leaves every value as it is and so stands for "skipped".
float sum_by_method(const float *src, uint32_t count, int method, float masked) {
    if (method == 3) {
        // The repeats are folded lane by lane, then one tree. A lane the last repeat lacks keeps
        // its value.
        float fold[kRepeatLanes];
        uint32_t live = count < kRepeatLanes ? count : kRepeatLanes;
        for (uint32_t i = 0; i < live; ++i) {
            auto lane = [&](uint32_t repeat) {
                uint32_t at = repeat * kRepeatLanes + i;
                return at < count ? src[at] : masked;
            };
            uint32_t repeats = (count + kRepeatLanes - 1) / kRepeatLanes;
            float v = lane(0);
            if (repeats >= 2) {
                v = v + lane(1);
            }
            if (repeats == 3) {
                v = v + lane(2);
            } else if (repeats == 4) {
                v = v + (lane(2) + lane(3));
            }
            fold[i] = v;
        }
        return twin::canonical(one_repeat(fold, live, masked));
    }

    constexpr uint32_t kChunk = 4096;  // repeats per pass held on the stack
    if (method == 1) {
        float accumulator = 0.0f;  // +0: assumed
        float results[64];
        for (uint32_t done = 0; done < count;) {
            uint32_t n = count - done < 64 * kRepeatLanes ? count - done : 64 * kRepeatLanes;
            uint32_t repeats = repeats_to(results, src + done, n, masked);
            for (uint32_t r = 0; r < repeats; ++r) {
                accumulator += results[r];
            }
            done += n;
        }
        return twin::canonical(accumulator);
    }

    // Method 2: trees over the results of the pass before, until one is left.
    static_assert(kChunk * kRepeat >= kUbMax, "one pass over a whole UB must fit");
    float results[kChunk];
    uint32_t left = repeats_to(results, src, count, masked);
    while (left > 1) {
        float next[kChunk / kRepeatLanes];
        uint32_t n = repeats_to(next, results, left, masked);
        std::memcpy(results, next, n * sizeof(float));
        left = n;
    }
    return twin::canonical(results[0]);
}

}  // namespace

float half_to_float(uint16_t bits) {
    uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    uint32_t magnitude = uint32_t(bits & 0x7fffu) << 13;
    if ((bits & 0x7c00u) == 0x7c00u) {
        return bits_to_float(sign | magnitude | 0x7f800000u);
    }
    return bits_to_float(sign | float_to_bits(bits_to_float(magnitude) * 0x1p112f));
}

uint16_t float_to_half(float value) {
    uint32_t u = float_to_bits(value);
    uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
    uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0x7e00u;
    }
    if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
        return sign | 0x7c00u;
    }
    if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, rounded by one addition
        float aligned = bits_to_float(magnitude) + 0x1p-1f;
        return static_cast<uint16_t>(sign | (float_to_bits(aligned) - 0x3f000000u));
    }
    uint32_t rounded = magnitude - (112u << 23);
    rounded += 0xfffu + ((rounded >> 13) & 1u);
    return static_cast<uint16_t>(sign | (rounded >> 13));
}

float bfloat16_to_float(uint16_t bits) {
    return bits_to_float(uint32_t(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
    uint32_t u = float_to_bits(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fc0u;
    }
    return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

namespace {

void widen(float *dst, const bfloat16_t *src, uint32_t count) {
    uint32_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        store(dst + i, __builtin_convertvector(load<VecH>(&src[i].bits), VecU) << 16);
    }
    for (; i < count; ++i) {
        dst[i] = bfloat16_to_float(src[i].bits);
    }
}

void widen(float *dst, const half *src, uint32_t count) {
    uint32_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
        VecU h = __builtin_convertvector(load<VecH>(&src[i].bits), VecU);
        VecU magnitude = (h & 0x7fffu) << 13;
        // Times 2^112 moves half's exponent range into float's; exact for subnormals too.
        VecU scaled = reinterpret_cast<VecU>(reinterpret_cast<Vec>(magnitude) * 0x1p112f);
        VecU special = magnitude | 0x7f800000u;  // infinity, or NaN with its payload
        VecU finite = magnitude < (0x7c00u << 13);
        store(dst + i, (finite ? scaled : special) | ((h & 0x8000u) << 16));
    }
    for (; i < count; ++i) {
        dst[i] = half_to_float(src[i].bits);
    }
}

void narrow_rint(half *dst, const float *src, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        dst[i].bits = float_to_half(src[i]);
    }
}

void narrow_rint(bfloat16_t *dst, const float *src, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        dst[i].bits = float_to_bfloat16(src[i]);
    }
}

template <typename Dst, typename Src>
void check_cast(const Dst *dst, const Src *src, uint32_t count, Where where) {
    check_operand(where, "Cast", dst, uint64_t(count) * sizeof(Dst));
    check_operand(where, "Cast", src, uint64_t(count) * sizeof(Src));
}

template <typename Src>
void cast_wider(float *dst, const Src *src, AscendC::RoundMode mode, uint32_t count, Where where) {
    check_cast(dst, src, count, where);
    if (mode != AscendC::RoundMode::CAST_NONE) {
        fault(where, "mem", "cast-mode", "a widening Cast takes RoundMode::CAST_NONE only");
    }
    widen(dst, src, count);
}

template <typename Dst>
void cast_narrower(Dst *dst, const float *src, AscendC::RoundMode mode, bool none_allowed,
                   uint32_t count, Where where) {
    check_cast(dst, src, count, where);
    // CAST_NONE rounds as CAST_RINT where it is allowed at all: to half, not to bfloat16_t.
    if (mode != AscendC::RoundMode::CAST_RINT &&
        !(none_allowed && mode == AscendC::RoundMode::CAST_NONE)) {
        fault(where, "mem", "cast-mode",
              "the twin's narrowing Cast takes RoundMode::CAST_RINT so far");
    }
    narrow_rint(dst, src, count);
}

void check_binary(const char *name, const float *dst, const float *a, const float *b, int32_t count,
                  Where where) {
    const uint64_t bytes = uint64_t(count) * sizeof(float);
    check_operand(where, name, dst, bytes);
    check_operand(where, name, a, bytes);
    check_operand(where, name, b, bytes);
}

}  // namespace

void mul(float *dst, const float *a, const float *b, int32_t count, Where where) {
    check_binary("Mul", dst, a, b, count, where);
    map2(
        dst, a, b, count, [](Vec x, Vec y) { return x * y; },
        [](float x, float y) { return x * y; });
}

void add(float *dst, const float *a, const float *b, int32_t count, Where where) {
    check_binary("Add", dst, a, b, count, where);
    map2(
        dst, a, b, count, [](Vec x, Vec y) { return x + y; },
        [](float x, float y) { return x + y; });
}

void duplicate(float *dst, float value, int32_t count, Where where) {
    check_operand(where, "Duplicate", dst, uint64_t(count) * sizeof(float));
    const float scalar = twin::canonical(value);
    for (int32_t i = 0; i < count; ++i) {
        dst[i] = scalar;
    }
}

void cast(float *dst, const half *src, AscendC::RoundMode mode, uint32_t count, Where where) {
    cast_wider(dst, src, mode, count, where);
}
void cast(float *dst, const bfloat16_t *src, AscendC::RoundMode mode, uint32_t count, Where where) {
    cast_wider(dst, src, mode, count, where);
}
void cast(half *dst, const float *src, AscendC::RoundMode mode, uint32_t count, Where where) {
    cast_narrower(dst, src, mode, true, count, where);
}
void cast(bfloat16_t *dst, const float *src, AscendC::RoundMode mode, uint32_t count, Where where) {
    cast_narrower(dst, src, mode, false, count, where);
}

void reduce_sum(const Arch &arch, float *dst, const float *src, uint32_t tmp_elements,
                int32_t count, Where where) {
    if (count <= 0) {
        return;  // no operation
    }
    const uint32_t n = static_cast<uint32_t>(count);
    const uint32_t bytes = n * sizeof(float);
    check_operand(where, "ReduceSum", src, bytes);
    check_operand(where, "ReduceSum", dst, sizeof(float));
    const bool small = bytes >= arch.small_min_bytes && bytes <= arch.small_max_bytes;
    const int method = small ? arch.small_method : arch.count_method;
    const uint32_t repeats = (n + kRepeatLanes - 1) / kRepeatLanes;
    if (method == 2 && repeats > 1 && tmp_elements < repeats) {
        // A device writes one result per repeat past the end of a smaller one.
        fault(where, "mem", "reduce-tmp",
              "ReduceSum over %u elements puts %u results into a temporary tensor of %u elements; "
              "make it larger",
              n, repeats, tmp_elements);
    }
    const float masked = arch.masked_is_zero ? 0.0f : -0.0f;
    const uint32_t tail = n % kRepeatLanes;
    if (arch.count_tail_apart && tail != 0 && repeats > 1) {
        const float body = sum_by_method(src, n - tail, method, masked);
        dst[0] = twin::canonical(body + sum_by_method(src + n - tail, tail, method, masked));
    } else {
        dst[0] = sum_by_method(src, n, method, masked);
    }
}

}  // namespace twin
