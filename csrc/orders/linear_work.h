// One task of the order-exact linear layer: the outputs of kLanes rows of weight and all rows of
// hidden, in the order of lm_head: ReduceSum of each tile, the tiles added in ascending order to a
// sum that starts at +0, bias added once, one rounding to the output dtype.
#pragma once

#include <algorithm>
#include <vector>

#include "linear_fours.h"

namespace order {

enum Dtype : int32_t { kFp32 = 0, kBf16 = 1, kFp16 = 2 };

// What `order_linear` is called with; workbench/orders/linear.py has the same fields.
struct Call {
    const void *hidden;  // [rows, width]
    const void *weight;  // [vocab, width]
    const void *bias;    // [vocab] or null
    void *out;           // [rows, vocab]
    int64_t rows, width, vocab;
    int64_t tile;               // elements of a tile, a multiple of 64
    int32_t method, last;       // of ReduceSum for a whole tile, and for a ragged last one: 1, 2, 3
    int32_t in, outputs;        // Dtype of the inputs; of the outputs
    int32_t saturate, threads;  // overflow saturates in 16-bit outputs
};

// What a lane is, and with it how hidden is laid out.
enum class Lanes {
    kRows,   // of weight: [repeat][row][64]
    kFours,  // of weight, at several places each: [repeat] as `spread` says
    kTerms,  // [row][repeat][64] in the places of `place`
};

// Rows of hidden that are worked on together, widened to fp32, +0 beyond the width.
struct Rows {
    const float *x;
    long first, count;
    Lanes lanes;
};

// The most rows of hidden for which terms are lanes, and for which fours of rows of weight are: as
// measured on the machine that docs/host-kernels.md names, and there for fewer instructions too.
constexpr long kTermRows = 2;
template <typename In>
constexpr long kFourRows = In::kPairs     ? 8
                           : kLanes == 16 ? 4
                                          : 0;

// From one that is aligned for any vector.
inline float *aligned(std::vector<float> *memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory->data());
    return memory->data() + (64 - address / sizeof(float) % 64) % 64;
}
constexpr long kAlignment = 64;  // floats more than are used

// A sum of nothing but zeros is +0 whatever the signs of its terms, since the total starts at +0.
// So neither what masked lanes count as (+0 or nothing) nor how an accumulator starts can change a
// bit, and lanes beyond the width are zeros here.
template <typename In>
class Work {
  public:
    using Element = typename In::Element;

    Work(const Call &call, long most_rows)
        : call_(call), repeats_((call.width + kRepeat - 1) / kRepeat) {
        const long tile_repeats = std::min<long>(call.tile / kRepeat, std::max<long>(repeats_, 1));
        while (1L << levels_ < tile_repeats) {
            ++levels_;
        }
        stride_ = most_rows * kLanes;
        const long floats = (levels_ + 2) * stride_ + 4 * kRepeat * kLanes + 2 * kChunk * kLanes +
                            kSpreadFloats / kSpread * kParts<In> * kLanes + kAlignment;
        memory_.resize(size_t(floats));
        total_ = aligned(&memory_);
        level_ = total_ + stride_;
        packed_ = level_ + (levels_ + 1) * stride_;
        sums_ = packed_ + 4 * kRepeat * kLanes;
        parts_ = reinterpret_cast<Wide *>(sums_ + 2 * kChunk * kLanes);
        tail_.resize(size_t(kRepeat) * kLanes);
    }

    // The outputs of rows v … v + kLanes - 1 of weight, of those there are.
    void outputs(const Rows &rows, long v) {
        const auto *weight = static_cast<const Element *>(call_.weight);
        const long there = std::min<long>(kLanes, call_.vocab - v);
        for (int i = 0; i < kLanes; ++i) {  // a lane too many repeats the last row
            row_[i] = weight + (v + std::min<long>(i, there - 1)) * call_.width;
        }
        next_ = v + 2 * kLanes <= call_.vocab ? kLanes * call_.width : 0;
        begin_ = chunk_ = 0;
        std::memset(total_, 0, size_t(rows.count * kLanes) * sizeof(float));
        for (long begin = 0; begin < call_.width; begin += call_.tile) {
            tile(rows, begin, std::min<long>(call_.tile, call_.width - begin));
        }
        finish_outputs(rows, v, there);
    }

  private:
    // The sum of a tile, added to the total.
    void tile(const Rows &rows, long begin, long count) {
        const long first = begin / kRepeat, n = (count + kRepeat - 1) / kRepeat;
        const int method = count == call_.tile ? call_.method : call_.last;
        if (method == 3 && n > 1) {
            Merge merge;
            merge.from[merge.count++] = merge.to = total_;
            folded(rows, first, n, merge);
            return;
        }
        for (long i = 0; i < n; ++i) {
            if (method == 1 && rows.lanes != Lanes::kRows) {
                i += in_a_row(rows, first + i, i == 0, n - i);
                if (i == n) {
                    return;
                }
            }
            Merge merge;
            const bool end = i == n - 1;
            if (method == 1) {
                merge.to = level_;
                if (i > 0) {
                    merge.from[merge.count++] = level_;
                }
            } else {
                // A binary counter: set bits of i are subtrees that wait for their right side. The
                // last repeat meets all of them, as adjacent pairs with a ragged end do.
                int at = 0;
                for (; end ? i >> at != 0 : (i >> at & 1) != 0; ++at) {
                    if (i >> at & 1) {
                        merge.from[merge.count++] = level_ + at * stride_;
                    }
                }
                merge.to = level_ + at * stride_;
            }
            if (end) {
                merge.from[merge.count++] = merge.to = total_;
            }
            one(rows, first + i, merge);
        }
    }

    // Method 1 for as many repeats as have their sums made, of at most `count`: what is added up
    // stays in a register meanwhile. Returns how many they are.
    long in_a_row(const Rows &rows, long repeat, bool begins, long count) {
        prepare(rows, repeat);
        const long here = std::min(count, chunk_ - repeat);
        for (long n = 0; n < (here > 0 ? rows.count : 0); ++n) {
            Wide s = sum_of(rows, repeat, n);
            if (!begins) {
                s = load<Wide>(level_ + n * kLanes) + s;
            }
            for (long i = 1; i < here; ++i) {
                s = s + sum_of(rows, repeat + i, n);
            }
            if (here == count) {
                store(total_ + n * kLanes, load<Wide>(total_ + n * kLanes) + s);
            } else {
                store(level_ + n * kLanes, s);
            }
        }
        return std::max<long>(here, 0);
    }

    // Makes sums or their parts from `repeat` on where they are needed next.
    void prepare(const Rows &rows, long repeat) {
        if (repeat != chunk_) {
            return;
        }
        if (rows.lanes == Lanes::kFours) {
            by_fours(rows, repeat);
        } else {
            by_terms(rows, repeat);
        }
    }

    // Of a repeat before `chunk_`.
    ORDER_INLINE Wide sum_of(const Rows &rows, long repeat, long n) const {
        if (rows.lanes == Lanes::kFours) {
            return joined<kParts<In>>(parts_ + ((repeat - begin_) * rows.count + n) * kParts<In>);
        }
        return load<Wide>(sums_ + (n * kChunk + repeat % kChunk) * kLanes);
    }

    // The sum of one repeat for all rows.
    void one(const Rows &rows, long repeat, const Merge &merge) {
        if (rows.lanes != Lanes::kRows) {
            prepare(rows, repeat);
            if (repeat < chunk_) {
                for (long n = 0; n < rows.count; ++n) {
                    merge.apply(sum_of(rows, repeat, n), n * kLanes);
                }
                return;
            }
        }
        pack_repeat(repeat, packed_);
        if (rows.lanes == Lanes::kTerms) {
            unplaced(rows, repeat);
            all_trees(packed_, plain_, {}, merge, rows.count, &ahead_);
        } else {
            const float *x = rows.x + repeat * rows.count * kRepeat;
            all_trees(packed_, x, {}, merge, rows.count, &ahead_);
        }
    }

    void folded(const Rows &rows, long first, long n, const Merge &merge) {
        for (long i = 0; i < n; ++i) {
            pack_repeat(first + i, packed_ + i * kRepeat * kLanes);
        }
        const Fold fold{n, rows.count * kRepeat};
        all_trees(packed_, rows.x + first * fold.step, fold, merge, rows.count, &ahead_);
    }

    void pack_repeat(long repeat, float *to) {
        const long at = repeat * kRepeat;
        if (at + kRepeat <= call_.width) {
            // The next repeat, or the first one of the next rows.
            const long next = at + 2 * kRepeat <= call_.width ? at + kRepeat : next_;
            for (int i = 0; i < kLanes; ++i) {
                ahead_.row[i] = reinterpret_cast<const char *>(row_[i] + next);
            }
            ahead_.lines = kRepeat * sizeof(Element) / 64;
            pack<In>(row_, at, to);
            return;
        }
        ahead_.lines = 0;
        const Element *row[kLanes];
        tail(at, row);
        pack<In>(row, 0, to);
    }

    // A ragged last repeat with zeros at its end.
    void tail(long at, const Element **row) {
        std::memset(tail_.data(), 0, tail_.size() * sizeof(Element));
        for (int i = 0; i < kLanes; ++i) {
            Element *copy = tail_.data() + i * kRepeat;
            std::memcpy(copy, row_[i] + at, size_t(call_.width - at) * sizeof(Element));
            row[i] = copy;
        }
    }

    // The parts of the repeats from `first` on: of as many as leave hidden in the first cache,
    // since every kFoursAtOnce fours read it anew, and rows of weight are longer in a row then.
    void by_fours(const Rows &rows, long first) {
        const long at = first * kRepeat, whole = call_.width / kRepeat;
        const float *x = rows.x + first * rows.count * kSpread;
        const long most = std::max<long>(kSpreadFloats / kSpread / rows.count, 1);
        begin_ = first;
        if (first == whole) {
            const Element *row[kLanes];
            tail(at, row);
            parts_by_fours<In>(row, 0, 0, x, rows.count, 1, parts_);
            chunk_ = first + 1;
            return;
        }
        chunk_ = std::min(whole, first + most);
        long ahead = std::min<long>(kAhead / sizeof(Element), whole * kRepeat);
        if (chunk_ * kRepeat + ahead > whole * kRepeat) {  // the beginning of the next rows
            ahead = next_ ? next_ + ahead - whole * kRepeat : 0;
        }
        parts_by_fours<In>(row_, at, ahead, x, rows.count, chunk_ - first, parts_);
    }

    // The sums of the repeats from `first` on, as many as are whole and fit the chunk, in
    // multiples of kTogether.
    void by_terms(const Rows &rows, long first) {
        const long whole = call_.width / kRepeat, step = repeats_ * kRepeat;
        const long even = whole - (whole - first) % kTogether<In>;
        const long last = std::min(even, first / kChunk * kChunk + kChunk);
        const long at = first * kRepeat;
        for (int four = 0; four < kLanes; four += 4) {
            const Element *row[4], *next[4];
            for (int i = 0; i < 4; ++i) {
                row[i] = row_[four + i] + at;
                next[i] = four + 4 < kLanes ? row_[four + 4 + i] + at : row_[i] + next_;
            }
            auto *const sums = rows.count == 1 ? sums_by_terms<In, 1>() : sums_by_terms<In, 2>();
            sums(row, next, rows.x + at, step, last - first, sums_ + four, kChunk * kLanes);
        }
        chunk_ = last;
    }

    // A repeat of x in the order of its elements.
    void unplaced(const Rows &rows, long repeat) {
        for (long n = 0; n < rows.count; ++n) {
            const float *x = rows.x + (n * repeats_ + repeat) * kRepeat;
            for (int k = 0; k < kRepeat; ++k) {
                plain_[n * kRepeat + k] = x[place<In>(k)];
            }
        }
    }

    void finish_outputs(const Rows &rows, long v, long there) {
        float bias[kLanes] = {};
        if (call_.bias) {
            for (long i = 0; i < there; ++i) {
                bias[i] = In::bias(static_cast<const Element *>(call_.bias)[v + i]);
            }
        }
        const Wide b = load<Wide>(bias);
        const bool saturate = call_.saturate != 0;
        for (long n = 0; n < rows.count; ++n) {
            Wide s = load<Wide>(total_ + n * kLanes) * In::kScale;
            if (call_.bias) {
                s = s + b;
            }
            const long at = (rows.first + n) * call_.vocab + v;
            if (call_.outputs == kFp32) {
                s = canonical(s);
                std::memcpy(static_cast<float *>(call_.out) + at, &s, size_t(there) * 4);
            } else {
                const WideU bits =
                    call_.outputs == kBf16 ? narrow_bf16(s, saturate) : narrow_half(s, saturate);
                const auto narrow = __builtin_convertvector(bits, LanesOf<kLanes>::H);
                std::memcpy(static_cast<uint16_t *>(call_.out) + at, &narrow, size_t(there) * 2);
            }
        }
    }

    static constexpr long kChunk = 64;                   // repeats whose sums wait in `sums_`
    static constexpr long kSpreadFloats = 16 * kSpread;  // of hidden that a chunk of parts takes
    static constexpr long kAhead = 1024;                 // bytes
    static_assert(kFourRows<In> * kSpread <= kSpreadFloats);

    const Call &call_;
    long repeats_, stride_ = 0, next_ = 0, begin_ = 0, chunk_ = 0;
    int levels_ = 0;
    std::vector<float> memory_;
    std::vector<Element> tail_;
    float *total_, *level_, *packed_, *sums_;
    Wide *parts_;
    float plain_[2 * kRepeat];
    const Element *row_[kLanes];
    Ahead ahead_;
};

}  // namespace order
