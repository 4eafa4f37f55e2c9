// The LM head on the host, in the kernel's own order: out[n, v] = sum_k hidden[n, k] weight[v, k]
// (+ bias[v]), the bits of csrc/ascend/lm_head_ascend.asc on the twin. Threads share the rows of
// weight; no bit depends on how.
//
// Compile with -ffp-contract=off: products and sums round separately.
#include <atomic>
#include <new>
#include <system_error>
#include <thread>

#include "linear_work.h"
#include "order_host.h"
#include "placed.h"

namespace order {
namespace {

constexpr long kMostRows = 256;         // of hidden at a time: a repeat of them is 64 KiB
constexpr long kMostBytes = 16L << 20;  // of hidden in fp32 at a time
constexpr long kTaken = 4;  // blocks of kLanes rows of weight that a thread takes at once
constexpr double kProductsOfThread = 1e6;  // fewer are not worth starting one

// hidden in the layout of `Rows`, widened.
template <typename In>
void lay_out(const Call &call, const Rows &rows, float *to) {
    const long repeats = (call.width + kRepeat - 1) / kRepeat;
    const auto *hidden = static_cast<const typename In::Element *>(call.hidden);
    for (long n = 0; n < rows.count; ++n) {
        const auto *from = hidden + (rows.first + n) * call.width;
        for (long r = 0; r < repeats; ++r) {
            float x[kRepeat] = {};
            const long there = std::min<long>(kRepeat, call.width - r * kRepeat);
            for (long k = 0; k < there; ++k) {
                x[k] = In::hidden(from[r * kRepeat + k]);
            }
            if (rows.lanes == Lanes::kFours) {
                spread<In>(x, n, rows.count, to + r * rows.count * kSpread);
                continue;
            }
            const bool terms = rows.lanes == Lanes::kTerms;
            float *at = to + (terms ? n * repeats + r : r * rows.count + n) * kRepeat;
            for (int k = 0; k < kRepeat; ++k) {
                at[terms ? place<In>(k) : k] = x[k];
            }
        }
    }
}

// The outputs of all rows of weight, on as many threads as there are works.
template <typename In>
void on_threads(const Call &call, const Rows &rows, std::vector<Work<In>> *works) {
    const long blocks = (call.vocab + kLanes - 1) / kLanes;
    std::atomic<long> next{0};
    const auto share = [&](Work<In> *work) {
        const Environment environment;
        for (long block; (block = next.fetch_add(kTaken)) < blocks;) {
            for (long b = block; b < std::min(block + kTaken, blocks); ++b) {
                work->outputs(rows, b * kLanes);
            }
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(works->size());
    Placement placement;
    for (size_t i = 1; i < works->size(); ++i) {
        try {
            threads.emplace_back(share, &(*works)[i]);
            placement.spread(&threads.back());
        } catch (const std::system_error &) {
            break;  // the process may have no more; the others do the work
        }
    }
    share(&(*works)[0]);
    for (std::thread &thread : threads) {
        thread.join();
    }
}

// Whether some tile is not summed repeat by repeat: method 3 folds up to four before the tree.
bool folds(const Call &call) {
    const long tail = call.width % call.tile;
    return (call.width >= call.tile && call.method == 3 && call.tile > kRepeat) ||
           (call.last == 3 && tail > kRepeat);
}

// The fastest way for so many rows of hidden that takes no more memory than it may.
template <typename In>
Lanes lanes_for(const Call &call, long rows, long padded) {
    if (rows > std::max(kTermRows, kFourRows<In>) || folds(call)) {
        return Lanes::kRows;
    }
    if (rows <= kTermRows) {
        return Lanes::kTerms;
    }
    return rows * padded * kSpread / kRepeat <= kMostBytes / 4 ? Lanes::kFours : Lanes::kRows;
}

template <typename In>
void linear(const Call &call) {
    const long padded = (call.width + kRepeat - 1) / kRepeat * kRepeat;
    const long fit = std::max<long>(kMostBytes / 4 / std::max<long>(padded, 1), 1);
    const long most = std::min({kMostRows, fit, long(call.rows)});
    const long parts = (call.rows + most - 1) / most;
    const double products = double(call.rows) * double(call.width) * double(call.vocab);
    const long blocks = (call.vocab + kLanes - 1) / kLanes;
    long threads = std::min<long>(call.threads, (blocks + kTaken - 1) / kTaken);
    threads = std::max<long>(std::min<long>(threads, long(products / kProductsOfThread)), 1);

    const bool few = lanes_for<In>(call, most, padded) == Lanes::kFours;
    const long floats = most * padded * (few ? kSpread / kRepeat : 1);
    std::vector<float> memory(static_cast<size_t>(floats + kAlignment));
    float *const x = aligned(&memory);
    std::vector<Work<In>> works;
    works.reserve(size_t(threads));
    for (long i = 0; i < threads; ++i) {
        works.emplace_back(call, most);
    }
    for (long part = 0; part < parts; ++part) {  // of nearly equal size
        const long first = call.rows * part / parts, end = call.rows * (part + 1) / parts;
        const Rows rows{x, first, end - first, lanes_for<In>(call, end - first, padded)};
        {
            const Environment environment;
            lay_out<In>(call, rows, x);
        }
        on_threads(call, rows, &works);
    }
}

}  // namespace
}  // namespace order

// 0, or 1 where there is no memory.
extern "C" __attribute__((visibility("default"))) int order_linear(const order::Call *call) {
    try {
        switch (call->in) {
            case order::kFp32:
                order::linear<order::Fp32>(*call);
                break;
            case order::kBf16:
                order::linear<order::Bf16>(*call);
                break;
            default:
                order::linear<order::Fp16>(*call);
        }
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}
