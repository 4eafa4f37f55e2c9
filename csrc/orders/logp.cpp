// Log-probability of one token per row on the host, the bits of
// csrc/ascend/batch_invariant_logp_ascend.asc on the twin: the maximum; exp(x - maximum), each
// rounded, added as ReduceSum adds a tile; the tiles in ascending order; its logarithm. Threads
// share the rows.
//
// No term is negative, so neither what a masked lane counts as (+0 or nothing) nor how an
// accumulator starts can change a bit.
#include <algorithm>
#include <atomic>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "logp_math.h"
#include "order_host.h"
#include "placed.h"

namespace order {
namespace {

// What `order_logp` is called with; workbench/orders/logp.py has the same fields.
struct Call {
    const void *logits;     // [rows, vocab]
    const int64_t *target;  // [rows]
    float *logp, *lse;      // [rows]
    int64_t rows, vocab, tile, ignore;
    int32_t method, last;  // of ReduceSum for a whole tile, and for a ragged last one: 1, 2, 3
    int32_t in, threads;   // 0: fp32, 1: bf16, 2: fp16
};

constexpr long kLogitsOfThread = 20000;  // fewer are not worth starting one

struct InFp32 {
    using Element = float;
    static ORDER_INLINE Halves load_wide(const float *p) { return load<Halves>(p); }
};
template <typename In>
struct In16 {
    using Element = uint16_t;
    static ORDER_INLINE Halves load_wide(const uint16_t *p) {
        const auto words = load<LanesOf<kDoubles>::H>(p);
        return In::widen(__builtin_convertvector(words, HalvesU) << 16);
    }
};
struct InBf16 : In16<InBf16> {
    static ORDER_INLINE Halves widen(HalvesU upper) { return (Halves)upper; }
};
struct InFp16 : In16<InFp16> {
    static ORDER_INLINE Halves widen(HalvesU upper) {
        return (Halves)Fp16Careful::special(Fp16Careful::moved(upper)) * 0x1p112f;
    }
};

template <typename In>
class Row {
  public:
    using Element = typename In::Element;

    Row(const Call &call, const Element *x) : call_(call), x_(x) {}

    void run(int64_t target, float *logp, float *lse) {
        if (target == call_.ignore) {
            *logp = *lse = 0.0f;
            return;
        }
        if (target < 0 || target >= call_.vocab) {
            *logp = *lse = canonical(__builtin_nanf(""));
            return;
        }
        const float largest = maximum();
        float sum = 0.0f;
        for (long begin = 0; begin < call_.vocab; begin += call_.tile) {
            sum += tile(begin, std::min<long>(call_.tile, call_.vocab - begin), largest);
        }
        const float log = ln(sum);
        *logp = canonical((at(target) + -largest) - log);
        *lse = canonical(log + largest);
    }

  private:
    static float canonical(float v) { return v == v ? v : float_of(0x7fc00000u); }

    float at(long i) const {
        Element few[kDoubles] = {x_[i]};
        return In::load_wide(few)[0];
    }

    float maximum() const {
        Halves most = Halves{} - __builtin_inff();
        long i = 0;
        for (; i + kDoubles <= call_.vocab; i += kDoubles) {
            const Halves v = In::load_wide(x_ + i);
            most = v > most ? v : most;  // passes over NaN: its exponential makes the row NaN
        }
        float m = -__builtin_inff();
        for (int j = 0; j < kDoubles; ++j) {
            m = most[j] > m ? most[j] : m;
        }
        for (; i < call_.vocab; ++i) {
            const float v = at(i);
            m = v > m ? v : m;
        }
        return m;
    }

    // exp(x - largest) of the 64 elements from `begin` on; +0 beyond `count`.
    void terms(long begin, long count, float largest, float *out) const {
        const Halves minus = Halves{} - largest;
        long i = 0;
        for (; i + kDoubles <= count; i += kDoubles) {
            exp_to(out + i, In::load_wide(x_ + begin + i) + minus);
        }
        if (i < kRepeat) {
            Element rest[kDoubles] = {};
            const long left = count - i;
            std::memcpy(rest, x_ + begin + i, size_t(left) * sizeof(Element));
            exp_to(out + i, In::load_wide(rest) + minus);
            std::fill(out + i + left, out + kRepeat, 0.0f);
        }
    }

    static float tree(const float *terms) {
        Eight x[8];
        for (int i = 0; i < 8; ++i) {
            x[i] = load<Eight>(terms + 8 * i);
        }
        const Eight v = sum_of_each(x);
        return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
    }

    float repeat(long begin, long count, float largest) const {
        alignas(64) float t[kRepeat];
        terms(begin, std::min<long>(count, kRepeat), largest, t);
        return tree(t);
    }

    float tile(long begin, long count, float largest) const {
        const long n = (count + kRepeat - 1) / kRepeat;
        const int method = count == call_.tile ? call_.method : call_.last;
        if (method == 3 && n > 1) {
            return folded(begin, count, n, largest);
        }
        float level[64], s = 0.0f;
        for (long i = 0; i < n; ++i) {
            s = repeat(begin + i * kRepeat, count - i * kRepeat, largest);
            if (method == 1) {
                s = i == 0 ? s : level[0] + s;
                level[0] = s;
                continue;
            }
            // A binary counter: set bits of i are subtrees that wait for their right side.
            int bit = 0;
            for (; i == n - 1 ? i >> bit != 0 : (i >> bit & 1) != 0; ++bit) {
                s = i >> bit & 1 ? level[bit] + s : s;
            }
            level[bit] = s;
        }
        return s;
    }

    float folded(long begin, long count, long n, float largest) const {
        alignas(64) float t[4][kRepeat];
        for (long i = 0; i < n; ++i) {
            const long left = std::min<long>(count - i * kRepeat, kRepeat);
            terms(begin + i * kRepeat, left, largest, t[i]);
        }
        for (int i = 0; i < kRepeat; ++i) {
            const float pair = t[0][i] + t[1][i];
            t[0][i] = n == 2 ? pair : n == 3 ? pair + t[2][i] : pair + (t[2][i] + t[3][i]);
        }
        return tree(t[0]);
    }

    const Call &call_;
    const Element *x_;
};

template <typename In>
void logp(const Call &call) {
    std::atomic<long> next{0};
    const auto share = [&] {
        const Environment environment;
        const auto *logits = static_cast<const typename In::Element *>(call.logits);
        for (long n; (n = next.fetch_add(1)) < call.rows;) {
            Row<In>(call, logits + n * call.vocab).run(call.target[n], call.logp + n, call.lse + n);
        }
    };
    const long most = long(double(call.rows) * double(call.vocab) / kLogitsOfThread);
    const long count = std::min<long>({call.threads, call.rows, most});
    std::vector<std::thread> threads;
    threads.reserve(size_t(std::max<long>(count, 1)));  // throws, if at all, before one runs
    Placement placement;
    try {
        for (long i = 1; i < count; ++i) {
            threads.emplace_back(share);
            placement.spread(&threads.back());
        }
    } catch (const std::system_error &) {
        // The process may have no more; the others do the work.
    }
    share();
    for (std::thread &thread : threads) {
        thread.join();
    }
}

}  // namespace
}  // namespace order

// 0, or 1 where there is no memory.
extern "C" __attribute__((visibility("default"))) int order_logp(const void *given) {
    const auto &call = *static_cast<const order::Call *>(given);
    try {
        switch (call.in) {
            case 0:
                order::logp<order::InFp32>(call);
                break;
            case 1:
                order::logp<order::InBf16>(call);
                break;
            default:
                order::logp<order::InFp16>(call);
        }
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

// e^x of n numbers that are at most 0, and the logarithms of n numbers: for tests.
extern "C" __attribute__((visibility("default"))) void order_exp(const float *x, float *out,
                                                                 long n) {
    const order::Environment environment;
    float in[order::kDoubles], got[order::kDoubles];
    for (long i = 0; i < n; i += order::kDoubles) {
        const size_t bytes = size_t(std::min<long>(n - i, order::kDoubles)) * sizeof(float);
        std::memset(in, 0, sizeof in);
        std::memcpy(in, x + i, bytes);
        order::exp_to(got, order::load<order::Halves>(in));
        std::memcpy(out + i, got, bytes);
    }
}
extern "C" __attribute__((visibility("default"))) void order_ln(const float *x, float *out,
                                                                long n) {
    const order::Environment environment;
    std::transform(x, x + n, out, order::ln);
}
