// Sums over lanes, in the architecture's own order. Extremes: extremes.cpp.
#include "reduce.h"

#include <vector>

#include "rounding.h"
#include "simd.h"

namespace twin {
namespace {

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
            x[j] = load<Vec>(src + r * kFloatLanes + j * kSimd);
        }
        by_repeat[r] = sum_of_each(x);
    }
    return sum_of_each(by_repeat);
}

float tree8(const float *v) {
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

float tree64(const float *src) {
    Vec x[8];
    for (int j = 0; j < 8; ++j) {
        x[j] = load<Vec>(src + j * kSimd);
    }
    float partial[8];
    store(partial, sum_of_each(x));
    return tree8(partial);
}

// How one element type adds: its values are floats here, and each sum is one of the type.
struct Floats {
    using Element = float;
    static constexpr uint32_t kLanes = kRepeat / sizeof(float);
    explicit Floats(bool) {}

    float add(float a, float b) const { return a + b; }
    static float value(float element) { return element; }
    static float element(float value) { return twin::canonical(value); }
    float tree(float *x) const { return tree64(x); }
    static const float *dense(const float *src, float *) { return src; }
};

struct Halves {
    using Element = uint16_t;
    static constexpr uint32_t kLanes = kRepeat / sizeof(uint16_t);
    bool saturate;
    explicit Halves(bool saturate) : saturate(saturate) {}

    float add(float a, float b) const { return round_to_half(a + b, saturate); }
    static float value(uint16_t element) { return half_value(element); }
    static uint16_t element(float value) { return half_bits(value); }
    float tree(float *x) const {
        for (uint32_t n = kLanes; n > 1; n /= 2) {
            float next[kLanes / 2];
            for (uint32_t i = 0; i < n / 2; ++i) {
                next[i] = add(x[2 * i], x[2 * i + 1]);
            }
            std::memcpy(x, next, n / 2 * sizeof(float));
        }
        return x[0];
    }
    static const float *dense(const uint16_t *src, float *room) {
        for (uint32_t i = 0; i < kLanes; ++i) {
            room[i] = half_value(src[i]);
        }
        return room;
    }
};

// What a masked lane contributes: +0, or -0, which leaves every value as it is and so stands for
// "skipped".
float masked_lane() {
    return block().arch->masked_is_zero ? 0.0f : -0.0f;
}

// The tree over `live` <= kLanes values, the other lanes of the repeat masked.
template <typename Kind>
float tree_of(const Kind &kind, const float *values, uint32_t live, float masked) {
    float x[Kind::kLanes];
    std::memcpy(x, values, live * sizeof(float));
    for (uint32_t i = live; i < Kind::kLanes; ++i) {
        x[i] = masked;
    }
    return kind.tree(x);
}

// One result per repeat of `count` consecutive elements into `out`; returns how many.
template <typename Kind>
uint32_t repeats_to(const Kind &kind, float *out, const typename Kind::Element *src, uint32_t count,
                    float masked) {
    constexpr uint32_t kLanes = Kind::kLanes;
    const uint32_t whole = count / kLanes;
    uint32_t r = 0;
    if constexpr (kLanes == kFloatLanes) {
        for (; r + 8 <= whole; r += 8) {
            store(out + r, eight_repeats(src + r * kLanes));
        }
    }
    if constexpr (kLanes == kFloatLanes) {
        for (; r < whole; ++r) {
            out[r] = tree64(src + r * kLanes);
        }
    }
    for (; r * kLanes < count; ++r) {
        const uint32_t live = count - r * kLanes < kLanes ? count - r * kLanes : kLanes;
        float x[kLanes];
        for (uint32_t i = 0; i < live; ++i) {
            x[i] = kind.value(src[r * kLanes + i]);
        }
        out[r] = live == kLanes ? kind.tree(x) : tree_of(kind, x, live, masked);
    }
    return r;
}

// Method 2: trees over the results of the pass before, until one is left.
template <typename Kind>
float trees_over(const Kind &kind, const float *results, uint32_t n, float masked) {
    std::vector<float> left(results, results + n);
    while (left.size() > 1) {
        std::vector<float> next;
        for (uint32_t i = 0; i < left.size(); i += Kind::kLanes) {
            const uint32_t live = std::min<uint32_t>(uint32_t(left.size()) - i, Kind::kLanes);
            next.push_back(tree_of(kind, left.data() + i, live, masked));
        }
        left.swap(next);
    }
    return left[0];
}

// Method 1: results added one after another. Adding to -0 leaves the first result as it is.
template <typename Kind>
float in_sequence(const Kind &kind, const typename Kind::Element *src, uint32_t count,
                  float masked) {
    constexpr uint32_t kPass = 64;  // repeats
    float accumulator = block().arch->starts_at_zero ? 0.0f : -0.0f;
    float results[kPass];
    for (uint32_t done = 0; done < count;) {
        const uint32_t n = std::min(count - done, kPass * Kind::kLanes);
        const uint32_t repeats = repeats_to(kind, results, src + done, n, masked);
        for (uint32_t r = 0; r < repeats; ++r) {
            accumulator = kind.add(accumulator, results[r]);
        }
        done += n;
    }
    return accumulator;
}

// Method 3: the repeats are folded lane by lane, then one tree. A lane the last repeat lacks keeps
// its value.
template <typename Kind>
float folded(const Kind &kind, const typename Kind::Element *src, uint32_t count, float masked) {
    float fold[Kind::kLanes];
    const uint32_t live = std::min(count, Kind::kLanes);
    const uint32_t repeats = (count + Kind::kLanes - 1) / Kind::kLanes;
    for (uint32_t i = 0; i < live; ++i) {
        auto lane = [&](uint32_t repeat) {
            const uint32_t at = repeat * Kind::kLanes + i;
            return at < count ? kind.value(src[at]) : masked;
        };
        float v = lane(0);
        if (repeats >= 2) {
            v = kind.add(v, lane(1));
        }
        if (repeats == 3) {
            v = kind.add(v, lane(2));
        } else if (repeats == 4) {
            v = kind.add(v, kind.add(lane(2), lane(3)));
        }
        fold[i] = v;
    }
    return tree_of(kind, fold, live, masked);
}

template <typename Kind>
float sum_by_method(const Kind &kind, const typename Kind::Element *src, uint32_t count, int method,
                    float masked, std::vector<float> *results) {
    if (method == 1) {
        return in_sequence(kind, src, count, masked);
    }
    if (method == 3) {
        return folded(kind, src, count, masked);
    }
    std::vector<float> own((count + Kind::kLanes - 1) / Kind::kLanes);
    const uint32_t n = repeats_to(kind, own.data(), src, count, masked);
    results->insert(results->end(), own.begin(), own.end());
    return trees_over(kind, own.data(), n, masked);
}

template <typename Kind>
void put_results(const Kind &, uint8_t *to, const std::vector<float> &results) {
    for (float result : results) {
        const typename Kind::Element element = Kind::element(result);
        std::memcpy(to, &element, sizeof element);
        to += sizeof element;
    }
}

template <typename Kind>
void sum_count(Local dst, Local src, Local tmp, uint32_t n, Where where) {
    using Element = typename Kind::Element;
    const Arch &arch = *block().arch;
    const Kind kind(!arch.inf_nan);
    const uint32_t bytes = n * uint32_t(sizeof(Element));
    const bool small = bytes >= arch.small_min_bytes && bytes <= arch.small_max_bytes;
    const int method = small ? arch.small_method : arch.count_method;
    const uint32_t repeats = (n + Kind::kLanes - 1) / Kind::kLanes;
    const bool uses_tmp = method == 2 && repeats > 1;
    if (uses_tmp && tmp.bytes / sizeof(Element) < repeats) {
        // A device writes one result per repeat past the end of a smaller one.
        block().op = Op::ReduceSum;
        fault(where, "mem", "reduce-tmp",
              "ReduceSum over %u elements puts %u results into a temporary tensor of %u elements; "
              "make it larger",
              n, repeats, unsigned(tmp.bytes / sizeof(Element)));
    }
    if (uses_tmp) {
        const Access accesses[] = {
            bytes_of("src", src, bytes, false),
            bytes_of("dst", dst, sizeof(Element), true, sizeof(Element)),
            bytes_of("sharedTmpBuffer", tmp, repeats * sizeof(Element), true)};
        begin({Op::ReduceSum, Pipe::kV, where, repeats, accesses, 3, false});
    } else {
        const Access accesses[] = {
            bytes_of("src", src, bytes, false),
            bytes_of("dst", dst, n != 0 ? sizeof(Element) : 0, true, sizeof(Element))};
        begin({Op::ReduceSum, Pipe::kV, where, repeats, accesses, 2, false});
    }
    if (n == 0) {
        return;  // no operation
    }
    const auto *from = reinterpret_cast<const Element *>(src.address);
    const float masked = masked_lane();
    const uint32_t tail = n % Kind::kLanes;
    std::vector<float> results;
    float sum;
    if (arch.count_tail_apart && tail != 0 && repeats > 1) {
        const float body = sum_by_method(kind, from, n - tail, method, masked, &results);
        sum = kind.add(body, sum_by_method(kind, from + n - tail, tail, method, masked, &results));
    } else {
        sum = sum_by_method(kind, from, n, method, masked, &results);
    }
    if (uses_tmp) {
        put_results(kind, tmp.address, results);
    }
    if (method == 1) {
        block().accumulator = sum;
    }
    const Element element = Kind::element(sum);
    std::memcpy(dst.address, &element, sizeof element);
}

// The lanes of repeat r, those that do not take part as `masked`.
template <typename Kind>
void load_lanes(float *x, const uint8_t *address, const Pattern &p, uint32_t r, uint16_t blk,
                uint16_t rep, float masked) {
    using Element = typename Kind::Element;
    for (uint32_t lane = 0; lane < Kind::kLanes; ++lane) {
        x[lane] = masked;
        if (lane < p.bound(r) && p.takes(r, lane)) {
            Element element;
            std::memcpy(&element, address + lane_at(r, lane, blk, rep, sizeof element),
                        sizeof element);
            x[lane] = Kind::value(element);
        }
    }
}

template <typename Kind>
float one_repeat(const Kind &kind, const uint8_t *address, const Pattern &p, uint32_t r,
                 uint16_t blk, uint16_t rep, float masked) {
    alignas(64) float x[Kind::kLanes];
    if (blk == 1 && p.full(r)) {
        const uint8_t *at = address + uint64_t(r) * rep * kDataBlock;
        if constexpr (sizeof(typename Kind::Element) == sizeof(float)) {
            std::memcpy(x, at, sizeof x);
        } else {
            typename Kind::Element elements[Kind::kLanes];
            std::memcpy(elements, at, sizeof elements);
            Kind::dense(elements, x);
        }
    } else {
        load_lanes<Kind>(x, address, p, r, blk, rep, masked);
    }
    return kind.tree(x);
}

template <typename Kind>
void sum_masked(Local dst, Local src, Local tmp, const Pattern &p, uint16_t rep, Where where) {
    using Element = typename Kind::Element;
    constexpr uint32_t kPerBlock = kDataBlock / sizeof(Element);
    const Kind kind(!block().arch->inf_nan);
    const uint32_t needed = (p.repeats + kPerBlock - 1) / kPerBlock * kPerBlock;
    if (tmp.bytes / sizeof(Element) < needed) {
        fault(where, "mem", "reduce-tmp",
              "ReduceSum over %u repeats takes a temporary tensor of %u elements; this one has %u",
              p.repeats, needed, unsigned(tmp.bytes / sizeof(Element)));
    }
    const Access accesses[] = {
        lanes_of("src", src, p, 1, rep, sizeof(Element), false),
        bytes_of("sharedTmpBuffer", tmp, p.repeats * sizeof(Element), true),
        bytes_of("dst", dst, p.repeats != 0 ? sizeof(Element) : 0, true, sizeof(Element))};
    begin({Op::ReduceSum, Pipe::kV, where, p.repeats, accesses, 3, false});
    if (p.repeats == 0) {
        return;
    }
    const float masked = masked_lane();
    std::vector<float> results(p.repeats);
    for (uint32_t r = 0; r < p.repeats; ++r) {
        results[r] = one_repeat(kind, src.address, p, r, 1, rep, masked);
    }
    const Element sum = Kind::element(trees_over(kind, results.data(), p.repeats, masked));
    put_results(kind, tmp.address, results);
    std::memcpy(dst.address, &sum, sizeof sum);
}

// dav-3510: integers of 64 bits, whose order makes no difference.
void sum_integers(Local dst, Local src, uint32_t n, Where where) {
    const Access accesses[] = {
        bytes_of("src", src, uint64_t(n) * sizeof(uint64_t), false),
        bytes_of("dst", dst, n != 0 ? sizeof(uint64_t) : 0, true, sizeof(uint64_t))};
    begin({Op::ReduceSum, Pipe::kV, where, (n + 31) / 32, accesses, 2, false});
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; ++i) {
        uint64_t element;
        std::memcpy(&element, src.address + uint64_t(i) * sizeof element, sizeof element);
        sum += element;
    }
    if (n != 0) {
        std::memcpy(dst.address, &sum, sizeof sum);
    }
}

// ---- per repeat ---------------------------------------------------------------------------------

template <typename Kind>
void store_element(uint8_t *to, float value) {
    const typename Kind::Element element = Kind::element(value);
    std::memcpy(to, &element, sizeof element);
}

// Whether any of `n` lanes from `first` on takes part in repeat r.
bool any_of(const Pattern &p, uint32_t r, uint32_t first, uint32_t n) {
    for (uint32_t lane = first; lane < first + n; ++lane) {
        if (lane < p.bound(r) && p.takes(r, lane)) {
            return true;
        }
    }
    return false;
}

template <typename Kind>
void whole_sums(const PerRepeat &i, const Pattern &p) {
    const Kind kind(!block().arch->inf_nan);
    constexpr uint32_t kSize = sizeof(typename Kind::Element);
    const int64_t step = int64_t(i.dst_rep) * kSize;
    const Access accesses[] = {
        lanes_of("src", i.src, p, uint16_t(i.src_blk), uint16_t(i.src_rep), kSize, false),
        bursts(bytes_of("dst", i.dst, kSize, true, kSize), p.repeats, step)};
    begin({i.op, Pipe::kV, i.where, p.repeats, accesses, 2, false});
    const float masked = masked_lane();
    for (uint32_t r = 0; r < p.repeats; ++r) {
        store_element<Kind>(i.dst.address + r * step,
                            one_repeat(kind, i.src.address, p, r, uint16_t(i.src_blk),
                                       uint16_t(i.src_rep), masked));
    }
}

// `group` neighbouring lanes to a result: a data block's, or two. A group without a lane that takes
// part leaves its result alone.
template <typename Kind>
void group_sums(const PerRepeat &i, const Pattern &p, uint32_t group) {
    const Kind kind(!block().arch->inf_nan);
    constexpr uint32_t kSize = sizeof(typename Kind::Element);
    const uint32_t results = Kind::kLanes / group;
    const uint64_t step = uint64_t(i.dst_rep) * results * kSize;
    std::vector<Access> accesses{
        lanes_of("src", i.src, p, uint16_t(i.src_blk), uint16_t(i.src_rep), kSize, false)};
    check_start(i.op, "dst", i.dst, uint8_t(std::min(results * kSize, kDataBlock)), i.where);
    Runs written("dst", i.dst, true);
    for (uint32_t r = 0; r < p.repeats; ++r) {
        for (uint32_t g = 0; g < results; ++g) {
            written.add(r * step + g * kSize, any_of(p, r, g * group, group) ? kSize : 0);
        }
    }
    written.append_to(&accesses);
    begin(i.op, Pipe::kV, i.where, p.repeats, accesses);
    const float masked = masked_lane();
    for (uint32_t r = 0; r < p.repeats; ++r) {
        float x[Kind::kLanes];
        load_lanes<Kind>(x, i.src.address, p, r, uint16_t(i.src_blk), uint16_t(i.src_rep), masked);
        for (uint32_t g = 0; g < results; ++g) {
            if (!any_of(p, r, g * group, group)) {
                continue;
            }
            float *of = x + g * group;
            for (uint32_t n = group; n > 1; n /= 2) {
                for (uint32_t k = 0; k < n / 2; ++k) {
                    of[k] = kind.add(of[2 * k], of[2 * k + 1]);
                }
            }
            store_element<Kind>(i.dst.address + r * step + g * kSize, of[0]);
        }
    }
}

}  // namespace

Pattern reduce_pattern(Op op, const ReduceLanes &given, Type type, int64_t most, Where where) {
    block().op = op;
    Lanes lanes = given.lanes;
    if (lanes.form != Lanes::kCount) {
        check_repeat(given.repeat, most, op, where);
        lanes.repeat = given.repeat != 0;
    }
    Pattern p = pattern_of(lanes, size_of(type), op_name(op), where);
    if (!p.counted && p.repeats != 0) {
        p.repeats = uint32_t(given.repeat);
    }
    return p;
}

void check_stride(Op op, const char *name, int32_t stride, Where where) {
    if (stride < 0 || stride > 65535) {
        fault(where, "mem", "stride", "%s with %s %d; 0 to 65535 are possible", op_name(op), name,
              stride);
    }
}

void reduce_sum(Type type, Local dst, Local src, Local tmp, int32_t count, Where where) {
    const uint32_t n = count > 0 ? uint32_t(count) : 0;
    return type == Type::kFloat  ? sum_count<Floats>(dst, src, tmp, n, where)
           : type == Type::kHalf ? sum_count<Halves>(dst, src, tmp, n, where)
                                 : sum_integers(dst, src, n, where);
}

void reduce_sum(Type type, Local dst, Local src, Local tmp, const ReduceLanes &lanes,
                int32_t src_rep, Where where) {
    const Pattern p = reduce_pattern(Op::ReduceSum, lanes, type, INT32_MAX, where);
    check_stride(Op::ReduceSum, "srcRepStride", src_rep, where);
    if (type == Type::kFloat) {
        sum_masked<Floats>(dst, src, tmp, p, uint16_t(src_rep), where);
    } else {
        sum_masked<Halves>(dst, src, tmp, p, uint16_t(src_rep), where);
    }
}

void reduce_per_repeat(const PerRepeat &i) {
    const Pattern p = reduce_pattern(i.op, i.lanes, i.type, 255, i.where);
    check_stride(i.op, "dstRepStride", i.dst_rep, i.where);
    check_stride(i.op, "srcBlkStride", i.src_blk, i.where);
    check_stride(i.op, "srcRepStride", i.src_rep, i.where);
    const bool half = i.type == Type::kHalf;
    switch (i.op) {
        case Op::WholeReduceSum:
        case Op::RepeatReduceSum:
            return half ? whole_sums<Halves>(i, p) : whole_sums<Floats>(i, p);
        case Op::BlockReduceSum:
            return half ? group_sums<Halves>(i, p, 16) : group_sums<Floats>(i, p, 8);
        case Op::PairReduceSum:
            return half ? group_sums<Halves>(i, p, 2) : group_sums<Floats>(i, p, 2);
        default:
            return extremes_per_repeat(i, p);
    }
}

uint64_t accumulated(Type type, Where where) {
    begin({Op::GetAccVal, Pipe::kS, where, 0, nullptr, 0, false});
    const float value = block().accumulator;
    return type == Type::kHalf ? half_bits(value) : float_to_bits(twin::canonical(value));
}

}  // namespace twin
