// The sums of one repeat: 64 products, rounded, then a tree of adjacent pairs. Two ways, which
// differ in what a lane is and give the same bits.
#pragma once

#include "linear_lanes.h"

namespace order {

// What becomes of the sum of a repeat: from[0] + s, from[1] + that, …; the last goes to `to`.
struct Merge {
    static constexpr int kMost = 32;  // levels of a tree over 2^31 repeats, and the total
    const float *from[kMost];
    int count = 0;
    float *to = nullptr;

    ORDER_INLINE void apply(Wide s, long at) const {
        for (int i = 0; i < count; ++i) {
            s = load<Wide>(from[i] + at) + s;
        }
        store(to + at, s);
    }
};

// ---- lanes are rows of weight
// --------------------------------------------------------------------
//
// A repeat of kLanes rows of weight is transposed once, widened on the way, and multiplied by the
// elements of every row of hidden. The tree goes depth first, so a level needs one register.

// to[k][lane] = row[lane][at + k], k < 64.
template <typename In>
inline void pack(const typename In::Element *const *row, long at, float *to) {
    constexpr int kPer = In::kPairs ? 2 : 1;  // elements of a 32-bit word
    Largest<WideU> largest;
    for (int k = 0; k < kRepeat; k += kPer * kLanes) {
        Wide half[4][kLanes / 4];
        for (int q = 0; q < kLanes / 4; ++q) {
            Wide four[4], out[4];
            for (int i = 0; i < 4; ++i) {
                four[i] = load<Wide>(row[4 * q + i] + at + k);
                if constexpr (In::kHasCareful) {
                    largest.take((WideU)four[i]);
                }
            }
            transpose_groups(four, out);
            for (int j = 0; j < 4; ++j) {
                half[j][q] = out[j];
            }
        }
        for (int j = 0; j < 4; ++j) {
            Wide column[kLanes / 4];
            exchange_groups(half[j], column);
            for (int g = 0; g < kLanes / 4; ++g) {
                float *word = to + (k + (4 * g + j) * kPer) * kLanes;
                if constexpr (In::kPairs) {
                    store(word, In::template low<Wide, WideU>((WideU)column[g]));
                    store(word + kLanes, In::template high<Wide, WideU>((WideU)column[g]));
                } else {
                    store(word, column[g]);
                }
            }
        }
    }
    if constexpr (In::kHasCareful) {
        if (largest.has_special()) {
            pack<typename In::Careful>(row, at, to);
        }
    }
}

// What is fetched while trees are made: `lines` cache lines of each lane's next repeat, spread over
// the trees, since a processor waits where too many are asked for at once.
struct Ahead {
    const char *row[kLanes];
    long lines = 0, groups = 1, group = 0;  // groups of rows of hidden, and how many are done

    ORDER_INLINE void lane(int i) const {
        for (long line = lines * group / groups; line < lines * (group + 1) / groups; ++line) {
            __builtin_prefetch(row[i] + 64 * line + 63, 0, 2);
        }
    }
};

// Where method 3 adds `count` repeats (2 to 4) lane by lane before the tree: they stand in w one
// after another, in x `step` floats apart.
struct Fold {
    long count = 1, step = 0;
};

// The tree over 2^kLog products from w and x on, of R rows of hidden 64 floats apart. kFirst: which
// product of the repeat is the first.
template <int R, bool kFolds, int kLog, int kFirst = 0>
struct Tree {
    static ORDER_INLINE void run(const float *w, const float *x, const Fold &fold, Wide *out,
                                 const Ahead &ahead) {
        constexpr int kHalf = 1 << (kLog - 1);
        if constexpr (kHalf * 2 * kLanes == kRepeat) {
            ahead.lane(kFirst * kLanes / kRepeat);
        }
        Wide right[R];
        Tree<R, kFolds, kLog - 1, kFirst>::run(w, x, fold, out, ahead);
        Tree<R, kFolds, kLog - 1, kFirst + kHalf>::run(w + kHalf * kLanes, x + kHalf, fold, right,
                                                       ahead);
        for (int r = 0; r < R; ++r) {
            out[r] = out[r] + right[r];
            pin(out[r]);
        }
    }
};
template <int R, bool kFolds, int kFirst>
struct Tree<R, kFolds, 0, kFirst> {
    static ORDER_INLINE void run(const float *w, const float *x, const Fold &fold, Wide *out,
                                 const Ahead &) {
        products(w, x, out);
        if constexpr (kFolds) {
            constexpr long kStep = kRepeat * kLanes;
            Wide other[R], last[R];
            products(w + kStep, x + fold.step, other);
            add(out, other);
            if (fold.count > 2) {  // (v0 + v1) + v2, or (v0 + v1) + (v2 + v3)
                products(w + 2 * kStep, x + 2 * fold.step, other);
                if (fold.count > 3) {
                    products(w + 3 * kStep, x + 3 * fold.step, last);
                    add(other, last);
                }
                add(out, other);
            }
        }
    }
    static ORDER_INLINE void products(const float *w, const float *x, Wide *out) {
        Wide factor = load<Wide>(w);
        pin(factor);
        for (int r = 0; r < R; ++r) {
            out[r] = factor * x[r * kRepeat];
            pin(out[r]);
        }
    }
    static ORDER_INLINE void add(Wide *to, const Wide *other) {
        for (int r = 0; r < R; ++r) {
            to[r] = to[r] + other[r];
        }
    }
};

// Rows n of hidden from `begin` while R of them are left; returns the next one.
template <int R, bool kFolds>
__attribute__((noinline)) long rows_of_trees(const float *w, const float *x, const Fold &fold,
                                             const Merge &merge, long begin, long rows,
                                             Ahead *ahead) {
    for (; begin + R <= rows; begin += R) {
        Wide out[R];
        Tree<R, kFolds, 6>::run(w, x + begin * kRepeat, fold, out, *ahead);
        ++ahead->group;
        for (int r = 0; r < R; ++r) {
            merge.apply(out[r], (begin + r) * kLanes);
        }
    }
    return begin;
}

inline void all_trees(const float *w, const float *x, const Fold &fold, const Merge &merge,
                      long rows, Ahead *ahead) {
    ahead->group = 0;
    if (fold.count > 1) {
        ahead->groups = rows / 2 + rows % 2;
        const long n = rows_of_trees<2, true>(w, x, fold, merge, 0, rows, ahead);
        rows_of_trees<1, true>(w, x, fold, merge, n, rows, ahead);
        return;
    }
    ahead->groups = rows / kRows + (kRows > 2 ? rows % kRows / 2 : 0) + rows % 2;
    long n = rows_of_trees<kRows, false>(w, x, fold, merge, 0, rows, ahead);
    if (kRows > 2) {
        n = rows_of_trees<2, false>(w, x, fold, merge, n, rows, ahead);
    }
    rows_of_trees<1, false>(w, x, fold, merge, n, rows, ahead);
}

// ---- lanes are terms ----------------------------------------------------------------------------
//
// For one or two rows of hidden: every element of weight is used once or twice, so transposing it
// would cost more than adding neighbours by shuffles.

// Vectors of terms: eight lanes, and for 16-bit inputs sixteen where the machine has them.
template <typename In>
constexpr int kTermLanes = In::kPairs && kLanes == 16 ? 16 : 8;
template <typename In>
using Terms = typename LanesOf<kTermLanes<In>>::F;
template <typename In>
using TermsU = typename LanesOf<kTermLanes<In>>::U;

// Repeats that are summed together, of four rows of weight.
template <typename In>
constexpr int kTogether = kTermLanes<In> / 4;

// Where the element `index` of a repeat stands in x: for 16 bits the first elements of the words of
// a vector, then the second ones.
template <typename In>
constexpr int place(int index) {
    constexpr int n = kTermLanes<In>;
    return In::kPairs ? index / (2 * n) * 2 * n + index % 2 * n + index % (2 * n) / 2 : index;
}

// Rows of weight that share what is loaded of hidden.
template <typename In>
constexpr int kShare = kTermLanes<In> == 16 ? 4 : 1;

// A part of a repeat is what `finish` makes its sum of. fp32: lane j is the sum of the j-th eight.
// 16 bits: an eight or a half of one, group g of those of group g of every vector in turn. For
// kShare rows of weight from `at` on, and N rows of hidden, `step` floats apart.
template <typename In, int N>
ORDER_INLINE void part(const typename In::Element *const *w, long at, const float *x, long step,
                       Terms<In> (*out)[N], Largest<TermsU<In>> *largest) {
    using V = Terms<In>;
    constexpr int n = kTermLanes<In>;
    if constexpr (In::kPairs) {
        constexpr int kWords = kRepeat / 2 / n;
        V pair[kShare<In>][N][kWords];
        for (int k = 0; k < kWords; ++k) {
            V first[N], second[N];
            for (int i = 0; i < N; ++i) {
                first[i] = load<V>(x + i * step + 2 * n * k);
                second[i] = load<V>(x + i * step + 2 * n * k + n);
                if constexpr (kShare<In> > 1) {
                    pin(first[i]);
                    pin(second[i]);
                }
            }
            for (int s = 0; s < kShare<In>; ++s) {
                const auto word = load<TermsU<In>>(w[s] + at + 2 * n * k);
                if constexpr (In::kHasCareful) {
                    largest->take(word);
                }
                V even = In::template low<V, TermsU<In>>(word);
                V odd = In::template high<V, TermsU<In>>(word);
                pin(even);
                pin(odd);
                for (int i = 0; i < N; ++i) {
                    pair[s][i][k] = sum_of_products<In>(even, first[i], odd, second[i]);
                    pin(pair[s][i][k]);
                }
            }
        }
        for (int s = 0; s < kShare<In>; ++s) {
            for (int i = 0; i < N; ++i) {
                V *p = pair[s][i];
                out[s][i] = add_lanes(p[0], p[1]);
                if constexpr (kWords == 4) {
                    out[s][i] = add_lanes(out[s][i], add_lanes(p[2], p[3]));
                }
                pin(out[s][i]);
            }
        }
    } else {
        (void)largest;
        for (int i = 0; i < N; ++i) {
            V product[8];
            for (int k = 0; k < 8; ++k) {
                product[k] = load<V>(w[0] + at + n * k) * load<V>(x + i * step + n * k);
            }
            out[0][i] = sum_of_each(product);
            pin(out[0][i]);
        }
    }
}

// The parts of the next repeats of four rows of weight: parts[n][4 r + i] of repeat r and row i.
// Returns whether `In::Careful` must make them anew. As much from `ahead` on is fetched meanwhile.
template <typename In, int N>
ORDER_INLINE bool parts_of(const typename In::Element *const *w, const float *x, long step,
                           const typename In::Element *const *ahead,
                           Terms<In> (*parts)[4 * kTogether<In>]) {
    Largest<TermsU<In>> largest;
    for (int r = 0; r < kTogether<In>; ++r) {
        for (int i = 0; i < 4; i += kShare<In>) {
            for (int s = 0; s < kShare<In>; ++s) {
                const char *from = reinterpret_cast<const char *>(ahead[i + s] + r * kRepeat);
                for (int line = 0; line < kRepeat * int(sizeof(typename In::Element)); line += 64) {
                    __builtin_prefetch(from + line, 0, 2);
                }
            }
            Terms<In> found[kShare<In>][N];
            part<In, N>(w + i, r * kRepeat, x + r * kRepeat, step, found, &largest);
            for (int s = 0; s < kShare<In>; ++s) {
                for (int n = 0; n < N; ++n) {
                    parts[n][4 * r + i + s] = found[s][n];
                }
            }
        }
    }
    return In::kHasCareful && largest.has_special();
}

// Lane i of the result is the sum that parts[i] is of.
template <typename In>
ORDER_INLINE Terms<In> finish(const Terms<In> *parts) {
    using V = Terms<In>;
    if constexpr (!In::kPairs) {
        return sum_of_each(parts);
    } else if constexpr (kTermLanes<In> == 8) {
        V row[4];  // group r: the four sixteens of part 4 r + i
        for (int i = 0; i < 4; ++i) {
            row[i] = add_groups(parts[i], parts[4 + i]);
        }
        return add_lanes(add_lanes(row[0], row[1]), add_lanes(row[2], row[3]));
    } else {
        V rows[2];  // group r: the two halves of repeat r, of one row and of the next
        for (int p = 0; p < 2; ++p) {
            V eights[4];
            for (int r = 0; r < 4; ++r) {
                eights[r] = add_lanes(parts[4 * r + 2 * p], parts[4 * r + 2 * p + 1]);
            }
            rows[p] =
                add_groups(add_groups(eights[0], eights[1]), add_groups(eights[2], eights[3]));
        }
        return add_lanes(rows[0], rows[1]);
    }
}

// The sums of `repeats` (a multiple of kTogether) repeats of four rows of weight and N rows of
// hidden: to[n * to_step + repeat * kLanes + row]. What is fetched meanwhile stands some bytes on;
// near the end of a row it is the beginning of `next`.
template <typename In, int N>
ORDER_INLINE void terms(const typename In::Element *const *row,
                        const typename In::Element *const *next, const float *x, long step,
                        long repeats, float *to, long to_step) {
    using Element = typename In::Element;
    constexpr long kNow = kTogether<In>, kAhead = 4096 / sizeof(Element);
    const long ahead = repeats * kRepeat < kAhead ? repeats * kRepeat : kAhead;
    const Element *w[4] = {row[0], row[1], row[2], row[3]};
    for (long r = 0; r < repeats; r += kNow) {
        const long left = (repeats - r) * kRepeat;
        const Element *from[4];
        for (int i = 0; i < 4; ++i) {
            from[i] = left <= ahead ? next[i] + ahead - left : w[i] + ahead;
        }
        Terms<In> parts[N][4 * kNow];
        if (parts_of<In, N>(w, x, step, from, parts)) {
            if constexpr (In::kHasCareful) {
                parts_of<typename In::Careful, N>(w, x, step, from, parts);
            }
        }
        for (int n = 0; n < N; ++n) {
            float sums[4 * kNow];
            store(sums, finish<In>(parts[n]));
            for (int i = 0; i < kNow; ++i) {
                typedef LanesOf<4>::F Four;
                store(to + n * to_step + (r + i) * kLanes, load<Four>(sums + 4 * i));
            }
        }
        for (int i = 0; i < 4; ++i) {
            w[i] += kNow * kRepeat;
        }
        x += kNow * kRepeat;
    }
}

template <typename In>
using SumsByTerms = void(const typename In::Element *const *, const typename In::Element *const *,
                         const float *, long, long, float *, long);
template <typename In, int N, typename... A>
__attribute__((noinline)) void rounding_terms(A... a) {
    terms<In, N>(a...);
}
template <typename In, int N, typename... A>
__attribute__((noinline)) ORDER_FUSES void fusing_terms(A... a) {
    terms<In, N>(a...);
}
template <typename In, int N>
constexpr SumsByTerms<In> *sums_by_terms() {
    if constexpr (In::kExact) {
        return fusing_terms<In, N>;
    } else {
        return rounding_terms<In, N>;
    }
}

}  // namespace order
