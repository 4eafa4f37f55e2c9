// The sums of repeats for a few rows of hidden: lanes are four rows of weight, at kLanes / 4 places
// each. Weights are moved half as far as in `pack` and used where they are; neighbours are in one
// lane up to the sum of eight (fp32: of four), so few sums are left to be moved.
#pragma once

#include "linear_trees.h"

namespace order {

constexpr int kFours = kLanes / 4;
constexpr int kFoursAtOnce = kLanes == 16 ? 2 : 1;  // they share what is loaded of hidden
constexpr long kSpread = 4 * kRepeat;  // floats of a repeat of hidden: one for each of four rows

template <typename In>
constexpr int kPer = In::kPairs ? 2 : 1;  // elements of a 32-bit word
template <typename In>
constexpr int kVectors = 4 * kPer<In>;  // of a block: kLanes words of four rows
template <typename In>
constexpr int kBlocks = kRepeat / kPer<In> / kLanes;  // of a repeat
template <typename In>
constexpr int kParts = kFours * kBlocks<In>;  // of a repeat of kLanes rows

// A repeat of hidden, `rows` of them side by side in each block: to[block][row][vector][lane].
template <typename In>
inline void spread(const float *x, long row, long rows, float *to) {
    for (int block = 0; block < kBlocks<In>; ++block) {
        float *at = to + (block * rows + row) * kVectors<In> * kLanes;
        for (int j = 0; j < kVectors<In>; ++j) {
            for (int lane = 0; lane < kLanes; ++lane) {
                const int word = block * kLanes + lane / 4 * 4 + j / kPer<In>;
                at[j * kLanes + lane] = x[word * kPer<In> + j % kPer<In>];
            }
        }
    }
}

// Adjacent pairs over N vectors of parts, those of a four in a row; group f of the last is four f.
template <int N>
ORDER_INLINE Wide joined(const Wide *part) {
    if constexpr (N == 1) {
        return part[0];
    } else {
        const Wide left = joined<N / 2>(part), right = joined<N / 2>(part + N / 2);
        if constexpr (kLanes == 4) {
            return left + right;
        } else {
            return add_groups(left, right);
        }
    }
}

// A block of four rows of weight, transposed inside groups and widened. The same number of lines
// `ahead` elements on is fetched meanwhile.
template <typename In>
ORDER_INLINE void weights_of(const typename In::Element *const *row, long at, long ahead, Wide *w,
                             Largest<WideU> *largest) {
    Wide four[4], out[4];
    for (int i = 0; i < 4; ++i) {
        if (at * sizeof(typename In::Element) % 64 == 0) {
            __builtin_prefetch(row[i] + at + ahead, 0, 2);
        }
        four[i] = load<Wide>(row[i] + at);
        if constexpr (In::kHasCareful) {
            largest->take((WideU)four[i]);
        }
    }
    transpose_groups(four, out);
    for (int j = 0; j < 4; ++j) {
        if constexpr (In::kPairs) {
            w[2 * j] = In::template low<Wide, WideU>((WideU)out[j]);
            w[2 * j + 1] = In::template high<Wide, WideU>((WideU)out[j]);
            pin(w[2 * j]);
            pin(w[2 * j + 1]);
        } else {
            w[j] = out[j];
            pin(w[j]);
        }
    }
}

// The part of a block of kFoursAtOnce fours and one row of hidden: part[s * kBlocks] of four s.
template <typename In>
ORDER_INLINE void block_of(const Wide (*w)[kVectors<In>], const float *x, Wide *part) {
    Wide sum[2][kFoursAtOnce];
    for (int half = 0; half < 2; ++half) {
        Wide p[2][kFoursAtOnce];
        for (int k = 0; k < 2; ++k) {
            const int j = 2 * half + k;
            Wide first = load<Wide>(x + j * kPer<In> * kLanes);
            pin(first);
            if constexpr (In::kPairs) {
                Wide second = load<Wide>(x + (2 * j + 1) * kLanes);
                pin(second);
                for (int s = 0; s < kFoursAtOnce; ++s) {
                    p[k][s] = sum_of_products<In>(w[s][2 * j], first, w[s][2 * j + 1], second);
                    pin(p[k][s]);
                }
            } else {
                for (int s = 0; s < kFoursAtOnce; ++s) {
                    p[k][s] = w[s][j] * first;
                    pin(p[k][s]);
                }
            }
        }
        for (int s = 0; s < kFoursAtOnce; ++s) {
            sum[half][s] = p[0][s] + p[1][s];
            pin(sum[half][s]);
        }
    }
    for (int s = 0; s < kFoursAtOnce; ++s) {
        part[s * kBlocks<In>] = sum[0][s] + sum[1][s];
    }
}

// The parts of `repeats` repeats of kLanes rows of weight, from `at` on: parts[repeat][row of
// hidden][four][block]. N: rows of hidden, 0 for `given`. Returns whether `In::Careful` must make
// them anew.
template <typename In, int N>
ORDER_INLINE bool fours(const typename In::Element *const *row, long at, long ahead, const float *x,
                        long given, long repeats, Wide *parts) {
    const long rows = N > 0 ? N : given;
    Largest<WideU> largest;
    for (int f = 0; f < kFours; f += kFoursAtOnce) {
        for (long r = 0; r < repeats; ++r) {
            for (int b = 0; b < kBlocks<In>; ++b) {
                Wide w[kFoursAtOnce][kVectors<In>];
                for (int s = 0; s < kFoursAtOnce; ++s) {
                    const long from = at + r * kRepeat + b * kLanes * kPer<In>;
                    weights_of<In>(row + 4 * (f + s), from, ahead, w[s], &largest);
                }
                const float *of = x + r * rows * kSpread + b * rows * kVectors<In> * kLanes;
                Wide *part = parts + r * rows * kParts<In> + f * kBlocks<In> + b;
                for (long n = 0; n < rows; ++n) {
                    block_of<In>(w, of + n * kVectors<In> * kLanes, part + n * kParts<In>);
                }
            }
        }
    }
    return In::kHasCareful && largest.has_special();
}

template <typename In, int N, typename... A>
__attribute__((noinline)) bool rounding_fours(A... a) {
    return fours<In, N>(a...);
}
template <typename In, int N, typename... A>
__attribute__((noinline)) ORDER_FUSES bool fusing_fours(A... a) {
    return fours<In, N>(a...);
}

template <typename In, int N>
bool parts_by_fours(const typename In::Element *const *row, long at, long ahead, const float *x,
                    long rows, long repeats, Wide *parts) {
    if constexpr (In::kExact) {
        return fusing_fours<In, N>(row, at, ahead, x, rows, repeats, parts);
    } else {
        return rounding_fours<In, N>(row, at, ahead, x, rows, repeats, parts);
    }
}

template <typename In>
inline void parts_by_fours(const typename In::Element *const *row, long at, long ahead,
                           const float *x, long rows, long repeats, Wide *parts) {
    const auto run = rows == 3   ? parts_by_fours<In, 3>
                     : rows == 4 ? parts_by_fours<In, 4>
                                 : parts_by_fours<In, 0>;
    if (run(row, at, ahead, x, rows, repeats, parts)) {
        if constexpr (In::kHasCareful) {
            parts_by_fours<typename In::Careful, 0>(row, at, 0, x, rows, repeats, parts);
        }
    }
}

}  // namespace order
