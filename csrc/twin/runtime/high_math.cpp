// The high-level API, element by element.
//
// The vendor documents formulas, not bits. Activations are computed in single precision, one
// rounding a step of the documented formula, with the vector unit's own Exp. Functions that are one
// mathematical function (Sin, Erf, Log2 …) are computed in double precision by the C library and
// rounded once: correct but for about one in 2^28 arguments. Half is computed as float and rounded
// at the end (assumed).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "high.h"
#include "round.h"
#include "twin/high_level/math.h"

namespace twin {

void load_values(float *to, const uint8_t *from, Type type, uint32_t n) {
    if (type == Type::kFloat) {
        std::memcpy(to, from, n * sizeof(float));
        return;
    }
    for (uint32_t i = 0; i < n; ++i) {
        uint16_t bits;
        std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
        to[i] = half_to_float(bits);
    }
}

namespace {

template <typename Value>
void store_all(uint8_t *to, Type type, const Value *values, uint32_t n) {
    for (uint32_t i = 0; i < n; ++i) {
        const double v = values[i];
        if (type == Type::kFloat) {
            const float f = canonical(static_cast<float>(v));
            std::memcpy(to + i * sizeof f, &f, sizeof f);
        } else {
            const uint16_t h =
                v == v ? narrow_to_half<AscendC::RoundMode::CAST_RINT>(v) : uint16_t{0x7e00};
            std::memcpy(to + i * sizeof h, &h, sizeof h);
        }
    }
    if (!block().arch->inf_nan) {
        saturate(to, type, n);
    }
}

void apply(Op op, float *to, const float *from, uint32_t n) {
    static const Arith exp = transcendental(Op::Exp, Type::kFloat);
    static const Arith ln = transcendental(Op::Ln, Type::kFloat);
    const Operands none{0, 0, block().arch->fused};
    (op == Op::Exp ? exp : ln)(to, from, from, n, none);
}

}  // namespace

void store_values(uint8_t *to, Type type, const double *values, uint32_t n) {
    store_all(to, type, values, n);
}
void store_values(uint8_t *to, Type type, const float *values, uint32_t n) {
    store_all(to, type, values, n);
}
void exp_values(float *to, const float *from, uint32_t n) {
    apply(Op::Exp, to, from, n);
}
void ln_values(float *to, const float *from, uint32_t n) {
    apply(Op::Ln, to, from, n);
}

float sum_values(float *x, uint32_t n, bool as_half) {
    const auto round = [&](float v) {
        return as_half && v == v ? half_to_float(narrow_to_half<AscendC::RoundMode::CAST_RINT>(v))
                                 : v;
    };
    const uint32_t lanes = as_half ? 128 : 64;
    float sum = 0;
    for (uint32_t start = 0; start < n; start += lanes) {
        float tree[128] = {};  // lanes that are not there count as +0
        std::copy(x + start, x + std::min(n, start + lanes), tree);
        for (uint32_t width = lanes / 2; width != 0; width /= 2) {
            for (uint32_t i = 0; i < width; ++i) {
                tree[i] = round(tree[2 * i] + tree[2 * i + 1]);
            }
        }
        sum = round(sum + tree[0]);
    }
    return sum;
}

void perturb_values(Op op, Type type, uint8_t *to, const uint8_t *src, uint32_t n) {
    const uint64_t seed = block().perturb;
    if (seed == 0) {
        return;
    }
    int8_t moves[512];
    const uint32_t elem = size_of(type);
    for (uint32_t at = 0; at < n; at += 512) {
        const uint32_t some = std::min(512u, n - at);
        moves_of(moves, seed, op, src + uint64_t(at) * elem, src + uint64_t(at) * elem, elem, 0,
                 some);
        move(to + uint64_t(at) * elem, type, moves, some);
    }
}

namespace {

constexpr uint32_t kChunk = 512;

bool is_exact(Op op) {
    switch (op) {
        case Op::Ceil:
        case Op::Floor:
        case Op::Round:
        case Op::Trunc:
        case Op::Frac:
        case Op::Sign:
        case Op::ClampMax:
        case Op::ClampMin:
        case Op::Fmod:
        case Op::ReGlu:
            return true;
        default:
            return false;
    }
}

// One mathematical function, in double precision. Fmod and the roundings to whole numbers are
// exact.
double function(Op op, double x, double y) {
    switch (op) {
        case Op::Log2:
            return std::log2(x);
        case Op::Log10:
            return std::log10(x);
        case Op::Sin:
            return std::sin(x);
        case Op::Cos:
            return std::cos(x);
        case Op::Tan:
            return std::tan(x);
        case Op::Asin:
            return std::asin(x);
        case Op::Acos:
            return std::acos(x);
        case Op::Atan:
            return std::atan(x);
        case Op::Sinh:
            return std::sinh(x);
        case Op::Cosh:
            return std::cosh(x);
        case Op::Tanh:
            return std::tanh(x);
        case Op::Asinh:
            return std::asinh(x);
        case Op::Acosh:
            return std::acosh(x);
        case Op::Atanh:
            return std::atanh(x);
        case Op::Erf:
            return std::erf(x);
        case Op::Erfc:
            return std::erfc(x);
        case Op::Power:
            return std::pow(x, y);
        case Op::Fmod:
            return std::fmod(x, y);
        case Op::Ceil:
            return std::ceil(x);
        case Op::Floor:
            return std::floor(x);
        case Op::Round:  // to the nearest, ties to even (assumed)
            return std::nearbyint(x);
        case Op::Trunc:
            return std::trunc(x);
        case Op::Frac:
            return x - std::trunc(x);
        case Op::Sign:
            return x > 0 ? 1.0 : x < 0 ? -1.0 : x == x ? 0.0 : x;
        case Op::ClampMax:
            return x > y ? y : x;
        case Op::ClampMin:
            return x < y ? y : x;
        case Op::ReGlu:
            return x * (y > 0 || y != y ? y : 0.0);
        default:
            return x;
    }
}

// dst = x / (1 + exp(e)), e given.
void gate(float *to, const float *x, const float *e, uint32_t n) {
    float t[kChunk];
    exp_values(t, e, n);
    for (uint32_t i = 0; i < n; ++i) {
        to[i] = x[i] / (1.0f + t[i]);
    }
}

// False: `op` is none of these.
bool activation(Op op, float *to, const float *x, const float *y, float scalar, uint32_t n) {
    float e[kChunk], t[kChunk];
    switch (op) {
        case Op::Exp:
            exp_values(to, x, n);
            return true;
        case Op::Log:
            ln_values(to, x, n);
            return true;
        case Op::Sigmoid:
            for (uint32_t i = 0; i < n; ++i) {
                e[i] = -x[i];
                t[i] = 1.0f;
            }
            gate(to, t, e, n);
            return true;
        case Op::Silu:
        case Op::Swish: {
            const float beta = op == Op::Silu ? 1.0f : scalar;
            for (uint32_t i = 0; i < n; ++i) {
                e[i] = x[i] * -beta;
            }
            gate(to, x, e, n);
            return true;
        }
        case Op::SwiGLU:
            for (uint32_t i = 0; i < n; ++i) {
                e[i] = y[i] * -scalar;
            }
            gate(t, y, e, n);
            for (uint32_t i = 0; i < n; ++i) {
                to[i] = x[i] * t[i];
            }
            return true;
        case Op::Gelu:  // x / (1 + exp(-1.59576912 (x + 0.044715 x^3)))
            for (uint32_t i = 0; i < n; ++i) {
                const float cube = x[i] * x[i] * x[i];
                e[i] = (x[i] + cube * 0.044715f) * -1.59576912f;
            }
            gate(to, x, e, n);
            return true;
        case Op::GeGLU:  // src0 src1 / (1 + exp(a src1 (src1^2 + b)))
            for (uint32_t i = 0; i < n; ++i) {
                e[i] = (y[i] * y[i] + 22.363860002236f) * y[i] * -0.0713548162726f;
            }
            gate(t, y, e, n);
            for (uint32_t i = 0; i < n; ++i) {
                to[i] = x[i] * t[i];
            }
            return true;
        case Op::FasterGelu:  // x / (1 + exp(-1.702 |x|)) exp(0.851 (x - |x|))
            for (uint32_t i = 0; i < n; ++i) {
                e[i] = std::fabs(x[i]) * -1.702f;
            }
            gate(t, x, e, n);
            for (uint32_t i = 0; i < n; ++i) {
                e[i] = (x[i] - std::fabs(x[i])) * 0.851f;
            }
            exp_values(e, e, n);
            for (uint32_t i = 0; i < n; ++i) {
                to[i] = t[i] * e[i];
            }
            return true;
        case Op::FasterGeluV2:  // x (sgn(x) (a (min(|x| / sqrt 2, b) - b)^2 + 0.5) + 0.5)
            for (uint32_t i = 0; i < n; ++i) {
                const float b = 1.769f;
                const float z = std::fabs(x[i]) * 0.70710678f;
                const float d = (z > b ? b : z) - b;
                const float p = d * d * -0.1444f + 0.5f;
                to[i] = x[i] * ((x[i] < 0 ? -p : p) + 0.5f);
            }
            return true;
        default:
            return false;
    }
}

}  // namespace

void high_math(Op op, Type type, const Local &dst, const Local &src0, const Local *src1,
               float scalar, bool scalar_first, uint32_t count, Where where) {
    const uint32_t elem = size_of(type);
    const uint64_t bytes = uint64_t{count} * elem;
    const Access accesses[] = {bytes_of("dst", dst, bytes, true),
                               bytes_of(src1 != nullptr ? "src0" : "src", src0, bytes, false),
                               bytes_of("src1", src1 != nullptr ? *src1 : src0, bytes, false)};
    begin({op, Pipe::kV, where, repeats_of(bytes), accesses, src1 != nullptr ? 3u : 2u, false});
    float x[kChunk], y[kChunk], single[kChunk];
    double result[kChunk];
    uint8_t before[kChunk * sizeof(float)];
    std::fill(y, y + kChunk, scalar);
    for (uint32_t at = 0; at < count; at += kChunk) {
        const uint32_t n = std::min(kChunk, count - at);
        const uint64_t offset = uint64_t{at} * elem;
        load_values(x, src0.address + offset, type, n);
        std::memcpy(before, src0.address + offset, n * elem);
        if (src1 != nullptr) {
            load_values(y, src1->address + offset, type, n);
        }
        if (activation(op, single, x, y, scalar, n)) {
            store_values(dst.address + offset, type, single, n);
        } else {
            for (uint32_t i = 0; i < n; ++i) {
                result[i] = scalar_first ? function(op, y[i], x[i]) : function(op, x[i], y[i]);
            }
            store_values(dst.address + offset, type, result, n);
        }
        if (!is_exact(op)) {
            perturb_values(op, type, dst.address + offset, before, n);
        }
    }
}

}  // namespace twin
