// Largest and smallest elements. Of equal ones the first (documented; so of -0 and +0, which are
// equal); a NaN wins over every number, the first of several (assumed), and becomes the twin's.
#include "reduce.h"

#include <type_traits>

#include "rounding.h"
#include "ub.h"

namespace twin {
namespace {

template <typename Key>
struct Best {
    Key key{};
    uint64_t bits = 0;  // of the element
    uint32_t index = 0;
    bool found = false;

    void offer(Key candidate, uint64_t candidate_bits, uint32_t at, bool larger) {
        if (!found || better(candidate, larger)) {
            key = candidate;
            bits = candidate_bits;
            index = at;
            found = true;
        }
    }

  private:
    bool better(Key candidate, bool larger) const {
        if (key != key) {
            return false;
        }
        return candidate != candidate || (larger ? candidate > key : candidate < key);
    }
};

uint64_t canonical_bits(float value, uint64_t bits, Type type) {
    return value == value ? bits : type == Type::kHalf ? 0x7e00u : kNan;
}

template <typename T>
T element_at(const uint8_t *at) {
    T element;
    std::memcpy(&element, at, sizeof element);
    return element;
}

// Calls found(key, bits) with the element there.
template <typename Key, typename Found>
void read(const uint8_t *at, Type type, Found found) {
    if constexpr (std::is_same<Key, float>::value) {
        if (type == Type::kHalf) {
            const auto bits = element_at<uint16_t>(at);
            const float value = half_value(bits);
            found(value, canonical_bits(value, bits, type));
        } else {
            const auto bits = element_at<uint32_t>(at);
            const float value = bits_to_float(bits);
            found(value, canonical_bits(value, bits, type));
        }
        return;
    } else {
        switch (type) {
            case Type::kS16:
                return found(Key(element_at<int16_t>(at)), element_at<uint16_t>(at));
            case Type::kU16:
                return found(Key(element_at<uint16_t>(at)), element_at<uint16_t>(at));
            case Type::kS32:
                return found(Key(element_at<int32_t>(at)), element_at<uint32_t>(at));
            case Type::kU32:
                return found(Key(element_at<uint32_t>(at)), element_at<uint32_t>(at));
            default:
                return found(Key(element_at<uint64_t>(at)), element_at<uint64_t>(at));
        }
    }
}

bool is_larger(Op op) {
    return op == Op::ReduceMax || op == Op::WholeReduceMax || op == Op::BlockReduceMax;
}

// Calls f with a key of the kind that elements of `type` are compared as.
template <typename F>
void with_key(Type type, F f) {
    if (type == Type::kHalf || type == Type::kFloat) {
        f(float());
    } else if (type == Type::kU64) {
        f(uint64_t());
    } else {
        f(int64_t());
    }
}

// Documented: pairs of a value and an index per repeat; with an index two more stages.
uint32_t needed_tmp(uint32_t repeats, uint32_t elem, bool index) {
    const uint32_t per_block = kDataBlock / elem, per_repeat = kRepeat / elem;
    auto up = [](uint32_t n, uint32_t to) { return (n + to - 1) / to; };
    const uint32_t first = repeats * 2;
    const uint32_t first_end = up(first, per_block) * per_block;
    if (!index) {
        return first_end;
    }
    const uint32_t second = up(first, per_repeat) * 2;
    const uint32_t second_end = up(second, per_block) * per_block;
    const uint32_t third = up(second, per_repeat) * 2;
    return first_end + second_end + up(third, per_block) * per_block;
}

void leave_in_registers(uint64_t value, uint64_t index) {
    block().reduce_value = value;
    block().reduce_index = index;
}

}  // namespace

void reduce_extreme(Op op, Type type, Local dst, Local src, Local tmp, const ReduceLanes &lanes,
                    int32_t src_rep, bool index, Where where) {
    const Pattern p = reduce_pattern(op, lanes, type, INT32_MAX, where);
    check_stride(op, "srcRepStride", src_rep, where);
    const uint32_t elem = size_of(type);
    const bool needs_tmp = block().arch->extremes_need_tmp;
    const uint32_t needed = needs_tmp && p.repeats != 0 ? needed_tmp(p.repeats, elem, index) : 0;
    if (tmp.bytes / elem < needed) {
        fault(where, "mem", "reduce-tmp",
              "%s over %u repeats%s takes a temporary tensor of %u elements; this one has %u",
              op_name(op), p.repeats, index ? " with the index" : "", needed,
              unsigned(tmp.bytes / elem));
    }
    const uint64_t results = p.repeats == 0 ? 0 : index ? 2 : 1;
    const Access accesses[] = {
        lanes_of("src", src, p, 1, uint16_t(src_rep), uint8_t(elem), false),
        bytes_of("sharedTmpBuffer", tmp, uint64_t(needed) * elem, true),
        bytes_of("dst", dst, results * elem, true, uint8_t(std::min(2 * elem, 8u)))};
    begin({op, Pipe::kV, where, p.repeats, accesses, 3, false});
    if (p.repeats == 0) {
        return;
    }
    with_key(type, [&](auto key) {
        Best<decltype(key)> best;
        for (uint32_t r = 0; r < p.repeats; ++r) {
            for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
                if (p.takes(r, lane)) {
                    const uint8_t *at = src.address + lane_at(r, lane, 1, uint16_t(src_rep), elem);
                    read<decltype(key)>(at, type, [&](auto candidate, uint64_t bits) {
                        best.offer(candidate, bits, r * p.lanes + lane, is_larger(op));
                    });
                }
            }
        }
        poison(tmp.address, uint64_t(needed) * elem);  // what it holds afterwards is not documented
        const uint64_t at = best.index;
        std::memcpy(dst.address, &best.bits, elem);
        if (index) {
            std::memcpy(dst.address + elem, &at, elem);
        }
        leave_in_registers(best.bits, at);
    });
}

namespace {

void whole_extremes(const PerRepeat &i, const Pattern &p) {
    using Order = AscendC::ReduceOrder;
    const uint32_t elem = size_of(i.type);
    // An index alone is a uint32_t, whatever the elements are (documented).
    const uint32_t bytes = i.order == Order::ORDER_ONLY_VALUE   ? elem
                           : i.order == Order::ORDER_ONLY_INDEX ? uint32_t(sizeof(uint32_t))
                                                                : 2 * elem;
    const int64_t step = int64_t(i.dst_rep) * bytes;
    const Access accesses[] = {
        lanes_of("src", i.src, p, uint16_t(i.src_blk), uint16_t(i.src_rep), uint8_t(elem), false),
        bursts(bytes_of("dst", i.dst, bytes, true, uint8_t(bytes)), p.repeats, step)};
    begin({i.op, Pipe::kV, i.where, p.repeats, accesses, 2, false});
    with_key(i.type, [&](auto key) {
        Best<decltype(key)> all;
        for (uint32_t r = 0; r < p.repeats; ++r) {
            Best<decltype(key)> best;
            for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
                if (p.takes(r, lane)) {
                    const uint8_t *at = i.src.address + lane_at(r, lane, uint16_t(i.src_blk),
                                                                uint16_t(i.src_rep), elem);
                    read<decltype(key)>(at, i.type, [&](auto candidate, uint64_t bits) {
                        best.offer(candidate, bits, lane, is_larger(i.op));
                    });
                }
            }
            all.offer(best.key, best.bits, r * p.lanes + best.index, is_larger(i.op));
            uint8_t *to = i.dst.address + r * step;
            const bool index_first = i.order == Order::ORDER_INDEX_VALUE;
            if (i.order != Order::ORDER_ONLY_INDEX) {
                std::memcpy(to + (index_first ? elem : 0), &best.bits, elem);
            }
            if (i.order != Order::ORDER_ONLY_VALUE) {
                const uint64_t index = best.index;
                std::memcpy(to + (i.order == Order::ORDER_VALUE_INDEX ? elem : 0), &index,
                            i.order == Order::ORDER_ONLY_INDEX ? sizeof(uint32_t) : elem);
            }
        }
        if (all.found) {
            leave_in_registers(all.bits, all.index);  // of several repeats: assumed
        }
    });
}

void block_extremes(const PerRepeat &i, const Pattern &p) {
    const uint32_t elem = size_of(i.type);
    const uint32_t per_block = kDataBlock / elem;
    constexpr uint32_t kBlocks = kRepeat / kDataBlock;
    const uint64_t step = uint64_t(i.dst_rep) * kBlocks * elem;
    std::vector<Access> accesses{
        lanes_of("src", i.src, p, uint16_t(i.src_blk), uint16_t(i.src_rep), uint8_t(elem), false)};
    check_start(i.op, "dst", i.dst, uint8_t(kBlocks * elem), i.where);
    Runs written("dst", i.dst, true);
    struct Result {
        uint64_t at, bits;
    };
    // What is written is found first; repeats of one instruction do not read each other's results
    // (documented: dst of repeat n must not overlap src of repeat n + 1).
    std::vector<Result> results;
    with_key(i.type, [&](auto key) {
        for (uint32_t r = 0; r < p.repeats; ++r) {
            for (uint32_t b = 0; b < kBlocks; ++b) {
                Best<decltype(key)> best;
                for (uint32_t lane = b * per_block; lane < (b + 1) * per_block; ++lane) {
                    if (lane < p.bound(r) && p.takes(r, lane)) {
                        const uint8_t *at = i.src.address + lane_at(r, lane, uint16_t(i.src_blk),
                                                                    uint16_t(i.src_rep), elem);
                        read<decltype(key)>(at, i.type, [&](auto candidate, uint64_t bits) {
                            best.offer(candidate, bits, lane, is_larger(i.op));
                        });
                    }
                }
                if (best.found) {  // a data block without a lane that takes part leaves dst alone
                    const uint64_t at = r * step + uint64_t(b) * elem;
                    written.add(at, elem);
                    results.push_back({at, best.bits});
                }
            }
        }
    });
    written.append_to(&accesses);
    begin(i.op, Pipe::kV, i.where, p.repeats, accesses);
    for (const Result &result : results) {
        std::memcpy(i.dst.address + result.at, &result.bits, elem);
    }
}

}  // namespace

void extremes_per_repeat(const PerRepeat &i, const Pattern &p) {
    if (i.op == Op::WholeReduceMax || i.op == Op::WholeReduceMin) {
        whole_extremes(i, p);
    } else {
        block_extremes(i, p);
    }
}

uint64_t reduced_value(Type type, bool index) {
    (void)type;
    return index ? block().reduce_index : block().reduce_value;
}

}  // namespace twin
