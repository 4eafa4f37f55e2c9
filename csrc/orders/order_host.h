// What every generated dot product needs: out[i, j] = sum_k a[i, k] * b[j, k] in fp32, the sum in a
// given order. workbench/orders/synthesise/host.py writes a `Sum` with that order and includes it.
//
// Compile with -ffp-contract=off: a product is rounded, and then added, unless `fused` says
// otherwise. Portable: vector types of the compiler, no intrinsics.
#pragma once

#include <cfenv>
#include <cstdint>
#include <cstring>
#include <new>

namespace order {

// The default environment is round to nearest with subnormals kept; the caller's comes back.
class Environment {
  public:
    Environment() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~Environment() { std::fesetenv(&saved_); }
    Environment(const Environment &) = delete;
    Environment &operator=(const Environment &) = delete;

  private:
    std::fenv_t saved_;
};

template <int N>
struct Vector {
    typedef float Type __attribute__((vector_size(N * sizeof(float))));
};

template <int N>
inline typename Vector<N>::Type load(const float *from) {
    typename Vector<N>::Type v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

inline float fused(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}

template <typename V>
inline V fused_lanes(V a, V b, V c) {
    for (unsigned i = 0; i < sizeof(V) / sizeof(float); ++i) {
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    }
    return c;
}

// ---- lanes are outputs: any order ---------------------------------------------------------------

constexpr int kWidth = 16;
using Vec = Vector<kWidth>::Type;

inline Vec fused(const Vec &a, float b, const Vec &c) {
    return fused_lanes<Vec>(a, b - Vec{}, c);  // b - 0 is b in each lane; 0 + b would lose a -0
}

// What a table of operations means: the low two bits say what, the rest which term.
enum Operation : int32_t { kPush = 0, kAdd = 1, kFuse = 2, kJoin = 3 };
constexpr int kDepth = 40;  // a side of a node holds at most half of its terms, so log2(n) do

inline Vec run(const int32_t *operation, long count, const Vec *t, const float *x) {
    Vec stack[kDepth];
    int depth = 0;
    Vec s = {};
    for (const int32_t *end = operation + count; operation != end; ++operation) {
        const int32_t k = *operation >> 2;
        switch (*operation & 3) {
            case kPush:
                stack[depth++] = s;
                s = t[k] * x[k];
                break;
            case kAdd:
                s = s + t[k] * x[k];
                break;
            case kFuse:
                s = fused(t[k], x[k], s);
                break;
            default:
                s = stack[--depth] + s;
        }
    }
    return s;
}

// kWidth rows of a from row `first` on, interleaved: to[k] has term k of each; rows beyond the end
// are zero.
inline void interleave(const float *a, long rows, long terms, long first, Vec *to) {
    float *out = reinterpret_cast<float *>(to);
    const long count = rows - first < kWidth ? rows - first : kWidth;
    if (count < kWidth) {
        std::memset(out, 0, sizeof(Vec) * terms);
    }
    constexpr long kBlock = 64;  // terms of all rows stay in L1
    for (long begin = 0; begin < terms; begin += kBlock) {
        const long end = terms < begin + kBlock ? terms : begin + kBlock;
        for (long r = 0; r < count; ++r) {
            const float *row = a + (first + r) * terms;
            for (long k = begin; k < end; ++k) {
                out[k * kWidth + r] = row[k];
            }
        }
    }
}

template <typename Sum>
int by_outputs(const float *a, long rows, const float *b, long columns, float *out) {
    const Environment environment;
    // The longer side fills the lanes; a * b and b * a are the same product.
    const bool swap = columns > rows;
    const float *many = swap ? b : a, *few = swap ? a : b;
    const long outer = swap ? columns : rows, inner = swap ? rows : columns;
    const long step = swap ? 1 : columns, other = swap ? columns : 1;
    void *memory = ::operator new(sizeof(Vec) * Sum::kTerms, std::align_val_t(64), std::nothrow);
    if (!memory) {
        return 1;
    }
    Vec *t = static_cast<Vec *>(memory);
    for (long first = 0; first < outer; first += kWidth) {
        interleave(many, outer, Sum::kTerms, first, t);
        const long count = outer - first < kWidth ? outer - first : kWidth;
        for (long j = 0; j < inner; ++j) {
            const Vec s = Sum::sum(t, few + j * Sum::kTerms);
            for (long i = 0; i < count; ++i) {
                out[(first + i) * step + j * other] = s[i];
            }
        }
    }
    ::operator delete(memory, std::align_val_t(64));
    return 0;
}

// ---- lanes are terms: an order of lanes ---------------------------------------------------------

// `Sum::rows<R>(a, b, out, step)`: R sums at once, so that one does not wait for the other's
// addition; sum r goes to out[r * step].
template <typename Sum>
int by_terms(const float *a, long rows, const float *b, long columns, float *out) {
    const Environment environment;
    const bool swap = columns > rows;  // the longer side has the rows that are summed at once
    const float *many = swap ? b : a, *few = swap ? a : b;
    const long outer = swap ? columns : rows, inner = swap ? rows : columns;
    const long step = swap ? 1 : columns, other = swap ? columns : 1;
    constexpr long kRows = 4;
    for (long i = 0; i < outer;) {
        const float *left = many + i * Sum::kTerms;
        const long count = outer - i < kRows ? 1 : kRows;
        for (long j = 0; j < inner; ++j) {
            const float *right = few + j * Sum::kTerms;
            float *to = out + i * step + j * other;
            if (count == kRows) {
                Sum::template rows<kRows>(left, right, to, step);
            } else {
                Sum::template rows<1>(left, right, to, step);
            }
        }
        i += count;
    }
    return 0;
}

}  // namespace order
