// Copies between GM and UB, and within UB.
#include "twin/copy.h"

#include "accesses.h"
#include "arith.h"
#include "atomics.h"
#include "ub.h"

namespace twin {
namespace {

// Copies from memory that the caches have not seen: a plain loop of wide moves with the lines ahead
// asked for early. The C library's memcpy takes `rep movsb` at these sizes, which is up to twice as
// slow on some CPUs.
void stream(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    typedef uint64_t Wide __attribute__((vector_size(32), aligned(1), may_alias));
    constexpr uint32_t kStep = 2 * sizeof(Wide);  // one cache line
    constexpr uint32_t kAhead = 4096;             // bytes; measured best of 512 to 8192
    uint32_t i = 0;
    auto step = [&] {
        const Wide first = *reinterpret_cast<const Wide *>(from + i);
        const Wide second = *reinterpret_cast<const Wide *>(from + i + sizeof(Wide));
        *reinterpret_cast<Wide *>(to + i) = first;
        *reinterpret_cast<Wide *>(to + i + sizeof(Wide)) = second;
        i += kStep;
    };
    while (i + kAhead + kStep <= bytes) {
        __builtin_prefetch(from + i + kAhead);
        step();
    }
    while (i + kStep <= bytes) {
        step();
    }
    std::memcpy(to + i, from + i, bytes - i);
}

// Copies that come from addresses at one distance, alone or two by two, go on so.
constexpr uint32_t kLargeCopy = 2048;  // bytes

void look_ahead(const uint8_t *source, uint32_t bytes) {
    Block &b = block();
    uint64_t *past = b.sources;  // the latest last
    const uint64_t from = reinterpret_cast<uint64_t>(source);
    for (int back = 2; back >= 1; --back) {
        const uint64_t before = past[4 - back], twice = past[4 - 2 * back];
        if (twice != 0 && from - before == before - twice && from != before) {
            b.ahead = reinterpret_cast<const uint8_t *>(from + (from - before));
            b.ahead_bytes = bytes;
            break;
        }
    }
    past[0] = past[1];
    past[1] = past[2];
    past[2] = past[3];
    past[3] = from;
}

void fill(uint8_t *begin, uint8_t *end, const void *element, uint32_t size) {
    for (; begin + size <= end; begin += size) {
        std::memcpy(begin, element, size);
    }
}

void check_bursts(const char *name, uint64_t count, uint64_t len, uint64_t most, const char *unit,
                  Where where) {
    if (count > 4095 || len > most) {
        fault(where, "mem", "copy-params",
              "%s of %llu bursts of %llu %s; at most 4095 bursts of %llu %s", name,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(len), unit,
              static_cast<unsigned long long>(most), unit);
    }
}

// The count form copies whole data blocks: what is left over is lost in silence on a device.
uint64_t whole_blocks(uint64_t bytes) {
    return bytes / kDataBlock * kDataBlock;
}

void report_tail(uint64_t bytes, Where where) {
    if (block().observer != nullptr && bytes % kDataBlock != 0) {
        block().observer->lost_tail(unsigned(bytes % kDataBlock), where);
    }
}

// One burst into GM.
inline void put(uint8_t *to, const uint8_t *from, uint64_t bytes) {
    if (__builtin_expect(block().atomic != 0, 0)) {
        combine(to, from, bytes);
    } else {
        std::memcpy(to, from, bytes);
    }
}

}  // namespace

// ---- DataCopy -----------------------------------------------------------------------------------

void copy_count(Local dst, Global src, uint64_t bytes, Where where) {
    const uint64_t whole = whole_blocks(bytes);
    const Access accesses[] = {bytes_of("src", src, whole, false),
                               bytes_of("dst", dst, whole, true)};
    begin({Op::DataCopy, Pipe::kMTE2, where, 0, accesses, 2, false});
    report_tail(bytes, where);
    stream(dst.address, src.address, uint32_t(whole));
}

void copy_count(Global dst, Local src, uint64_t bytes, Where where) {
    const uint64_t whole = whole_blocks(bytes);
    const bool atomic = begin_atomic(whole, where);
    const Access accesses[] = {bytes_of("src", src, whole, false),
                               bytes_of("dst", dst, whole, true)};
    begin({Op::DataCopy, Pipe::kMTE3, where, 0, accesses, 2, atomic});
    report_tail(bytes, where);
    put(dst.address, src.address, whole);
}

void copy_count(Local dst, Local src, uint64_t bytes, Where where) {
    const uint64_t whole = whole_blocks(bytes);
    const Access accesses[] = {bytes_of("src", src, whole, false),
                               bytes_of("dst", dst, whole, true)};
    begin({Op::DataCopy, Pipe::kV, where, uint32_t((whole + kRepeat - 1) / kRepeat), accesses, 2,
           false});
    report_tail(bytes, where);
    std::memmove(dst.address, src.address, whole);
}

namespace {

struct Steps {
    uint32_t bytes;  // of one burst
    int64_t src, dst;
};

Steps steps_of(const DataBlocks &p, Where where) {
    check_bursts("DataCopy", p.count, p.len, 65535, "data blocks", where);
    return {p.len * kDataBlock, (int64_t(p.len) + p.src_gap) * kDataBlock,
            (int64_t(p.len) + p.dst_gap) * kDataBlock};
}

}  // namespace

void copy_blocks(Local dst, Global src, const DataBlocks &p, Where where) {
    const Steps step = steps_of(p, where);
    const Access accesses[] = {bursts_of("src", src, step.bytes, false, p.count, step.src),
                               bursts_of("dst", dst, step.bytes, true, p.count, step.dst)};
    begin({Op::DataCopy, Pipe::kMTE2, where, 0, accesses, 2, false});
    for (uint32_t i = 0; i < p.count; ++i) {
        stream(dst.address + i * step.dst, src.address + i * step.src, step.bytes);
    }
}

void copy_blocks(Global dst, Local src, const DataBlocks &p, Where where) {
    const Steps step = steps_of(p, where);
    const bool atomic = begin_atomic(step.bytes, where);
    const Access accesses[] = {bursts_of("src", src, step.bytes, false, p.count, step.src),
                               bursts_of("dst", dst, step.bytes, true, p.count, step.dst)};
    begin({Op::DataCopy, Pipe::kMTE3, where, 0, accesses, 2, atomic});
    for (uint32_t i = 0; i < p.count; ++i) {
        put(dst.address + i * step.dst, src.address + i * step.src, step.bytes);
    }
}

void copy_blocks(Local dst, Local src, const DataBlocks &p, Where where) {
    const Steps step = steps_of(p, where);
    const Access accesses[] = {bursts_of("src", src, step.bytes, false, p.count, step.src),
                               bursts_of("dst", dst, step.bytes, true, p.count, step.dst)};
    const uint64_t all = uint64_t(p.count) * step.bytes;
    begin({Op::DataCopy, Pipe::kV, where, uint32_t((all + kRepeat - 1) / kRepeat), accesses, 2,
           false});
    for (uint32_t i = 0; i < p.count; ++i) {
        std::memmove(dst.address + i * step.dst, src.address + i * step.src, step.bytes);
    }
}

void check_enhanced(const AscendC::DataCopyEnhancedParams &p, Where where) {
    if (p.blockMode != AscendC::BlockMode::BLOCK_MODE_NORMAL ||
        p.deqScale != AscendC::DeqScale::DEQ_NONE || p.isRelu) {
        fault(
            where, "mem", "copy-params",
            "DataCopy with computation on the way (blockMode %u, deqScale %u, isRelu %d); between "
            "GM and UB there is BLOCK_MODE_NORMAL, DEQ_NONE and no Relu",
            unsigned(p.blockMode), unsigned(p.deqScale), int(p.isRelu));
    }
}

// ---- slices -------------------------------------------------------------------------------------

namespace {

// The segments of one side: element offsets of their starts, all of one length.
struct Segments {
    uint64_t bytes = 0;
    std::vector<uint64_t> starts;  // bytes
};

Segments segments_of(const char *name, const AscendC::SliceInfo *dims, uint32_t n, uint32_t elem,
                     Where where) {
    Segments s;
    std::vector<uint64_t> starts{0};
    uint64_t pitch = 1;  // elements from one index of this dimension to the next
    for (uint32_t d = 0; d < n; ++d) {
        const AscendC::SliceInfo &i = dims[d];
        const uint64_t length = d == 0 ? uint64_t(i.burstLen) * kDataBlock / elem : 1;
        if (length == 0 || i.endIndex < i.startIndex || (d > 0 && i.burstLen != 1) ||
            (i.shapeValue != 0 && i.endIndex >= i.shapeValue)) {
            fault(where, "mem", "copy-params",
                  "%s of dimension %u goes from %u to %u of %u with burstLen %u; burstLen is at "
                  "least 1 data block in the first dimension and 1 in the others, and the end lies "
                  "inside the shape",
                  name, d, i.startIndex, i.endIndex, i.shapeValue, i.burstLen);
        }
        const uint64_t range = uint64_t(i.endIndex) - i.startIndex + 1;
        if ((range + i.stride) % (length + i.stride) != 0) {
            fault(where, "mem", "copy-params",
                  "%s of dimension %u: %llu elements are not segments of %llu with %u between",
                  name, d, static_cast<unsigned long long>(range),
                  static_cast<unsigned long long>(length), i.stride);
        }
        const uint64_t count = (range + i.stride) / (length + i.stride);
        std::vector<uint64_t> next;
        next.reserve(starts.size() * count);
        for (uint64_t k = 0; k < count; ++k) {
            const uint64_t at = (i.startIndex + k * (length + i.stride)) * pitch;
            for (uint64_t start : starts) {
                next.push_back(start + at);
            }
        }
        starts.swap(next);
        pitch *= i.shapeValue;
        if (d == 0) {
            s.bytes = length * elem;
        }
    }
    for (uint64_t start : starts) {
        s.starts.push_back(start * elem);
    }
    return s;
}

void check_slices(const Segments &to, const Segments &from, uint32_t dims, Where where) {
    if (dims == 0 || dims > 8) {
        fault(where, "mem", "copy-params",
              "DataCopy of slices of %u dimensions; 1 to 8 are possible", dims);
    }
    if (to.bytes * to.starts.size() != from.bytes * from.starts.size()) {
        fault(where, "mem", "copy-params",
              "DataCopy from a slice of %llu bytes to one of %llu; they must hold the same",
              static_cast<unsigned long long>(from.bytes * from.starts.size()),
              static_cast<unsigned long long>(to.bytes * to.starts.size()));
    }
}

template <typename Tensor>
std::vector<Access> accesses_of(const char *name, const Tensor &tensor, const Segments &s,
                                bool write) {
    std::vector<Access> all;
    for (uint64_t start : s.starts) {
        Access a = bytes_of(name, tensor, s.bytes, write);
        a.address += start;
        all.push_back(a);
    }
    return all;
}

// Copies the segments of one side, one after another, into those of the other, which may be cut
// differently.
template <typename Move>
void copy_segments(const Segments &to, const Segments &from, Move move) {
    const uint64_t all = to.bytes * to.starts.size();
    for (uint64_t done = 0; done < all;) {
        const uint64_t at_to = done % to.bytes, at_from = done % from.bytes;
        const uint64_t left_to = to.bytes - at_to, left_from = from.bytes - at_from;
        const uint64_t n = left_to < left_from ? left_to : left_from;
        move(to.starts[done / to.bytes] + at_to, from.starts[done / from.bytes] + at_from, n);
        done += n;
    }
}

}  // namespace

void copy_slice(Local dst, Global src, uint32_t elem, const AscendC::SliceInfo *to_info,
                const AscendC::SliceInfo *from_info, uint32_t dims, Where where) {
    const Segments to = segments_of("dstSliceInfo", to_info, dims, elem, where);
    const Segments from = segments_of("srcSliceInfo", from_info, dims, elem, where);
    check_slices(to, from, dims, where);
    std::vector<Access> accesses = accesses_of("src", src, from, false);
    const std::vector<Access> written = accesses_of("dst", dst, to, true);
    accesses.insert(accesses.end(), written.begin(), written.end());
    begin(Op::DataCopy, Pipe::kMTE2, where, 0, accesses);
    copy_segments(to, from, [&](uint64_t a, uint64_t b, uint64_t n) {
        std::memcpy(dst.address + a, src.address + b, n);
    });
}

void copy_slice(Global dst, Local src, uint32_t elem, const AscendC::SliceInfo *to_info,
                const AscendC::SliceInfo *from_info, uint32_t dims, Where where) {
    const Segments to = segments_of("dstSliceInfo", to_info, dims, elem, where);
    const Segments from = segments_of("srcSliceInfo", from_info, dims, elem, where);
    check_slices(to, from, dims, where);
    const bool atomic = begin_atomic(to.bytes, where);
    std::vector<Access> accesses = accesses_of("src", src, from, false);
    const std::vector<Access> written = accesses_of("dst", dst, to, true);
    accesses.insert(accesses.end(), written.begin(), written.end());
    begin(Op::DataCopy, Pipe::kMTE3, where, 0, accesses, atomic);
    copy_segments(to, from, [&](uint64_t a, uint64_t b, uint64_t n) {
        put(dst.address + a, src.address + b, n);
    });
}

// ---- changes of format on the way ---------------------------------------------------------------

void copy_nd_to_nz(Local dst, Global src, uint32_t elem, const AscendC::Nd2NzParams &p,
                   Where where) {
    if (p.ndNum > 4095 || p.nValue > 16384 || p.dstNzC0Stride > 16384 || p.dstNzNStride > 16384) {
        fault(where, "mem", "copy-params",
              "DataCopy with ndNum %u, nValue %u, dstNzC0Stride %u, dstNzNStride %u; at most 4095, "
              "16384, 16384 and 16384",
              p.ndNum, p.nValue, p.dstNzC0Stride, p.dstNzNStride);
    }
    const uint64_t row = uint64_t(p.dValue) * elem;
    const uint64_t columns = (row + kDataBlock - 1) / kDataBlock;
    std::vector<Access> accesses;
    for (uint32_t m = 0; m < p.ndNum && row != 0; ++m) {
        Access from =
            bursts(bytes_of("src", src, row, false), p.nValue, int64_t(p.srcDValue) * elem);
        from.address += uint64_t(m) * p.srcNdMatrixStride * elem;
        accesses.push_back(from);
        for (uint64_t c = 0; c < columns; ++c) {
            Access to = bursts(bytes_of("dst", dst, kDataBlock, true), p.nValue,
                               int64_t(p.dstNzNStride) * kDataBlock);
            to.address +=
                uint64_t(m) * p.dstNzMatrixStride * elem + c * p.dstNzC0Stride * kDataBlock;
            accesses.push_back(to);
        }
    }
    begin(Op::DataCopy, Pipe::kMTE2, where, 0, accesses);
    for (uint32_t m = 0; m < p.ndNum; ++m) {
        for (uint32_t n = 0; n < p.nValue; ++n) {
            const uint8_t *from =
                src.address +
                (uint64_t(m) * p.srcNdMatrixStride + uint64_t(n) * p.srcDValue) * elem;
            for (uint64_t c = 0; c < columns; ++c) {
                uint8_t *to = dst.address + uint64_t(m) * p.dstNzMatrixStride * elem +
                              (c * p.dstNzC0Stride + uint64_t(n) * p.dstNzNStride) * kDataBlock;
                const uint64_t left = row - c * kDataBlock;
                const uint64_t bytes = left < kDataBlock ? left : kDataBlock;
                std::memcpy(to, from + c * kDataBlock, bytes);
                std::memset(to + bytes, 0, kDataBlock - bytes);  // assumed: zeros
            }
        }
    }
}

void copy_nz_to_nd(Global dst, Local src, uint32_t elem, const AscendC::Nz2NdParamsFull &p,
                   Where where) {
    constexpr uint32_t kColumn = 16;  // elements of a row in one column of the matrix
    if (p.ndNum > 4095 || p.nValue > 8192 || p.dValue > 8192 || p.dValue % kColumn != 0) {
        fault(where, "mem", "copy-params",
              "DataCopy with ndNum %u, nValue %u, dValue %u; at most 4095, 8192 and 8192, and "
              "dValue a multiple of 16",
              p.ndNum, p.nValue, p.dValue);
    }
    const uint32_t bytes = kColumn * elem;
    const uint32_t columns = p.dValue / kColumn;
    const bool atomic = begin_atomic(bytes, where);
    std::vector<Access> accesses;
    for (uint32_t m = 0; m < p.ndNum && columns != 0; ++m) {
        for (uint32_t c = 0; c < columns; ++c) {
            Access from = bursts(bytes_of("src", src, bytes, false), p.nValue, bytes);
            from.address +=
                (uint64_t(m) * p.srcNdMatrixStride * kColumn + uint64_t(c) * p.srcNStride) * bytes;
            accesses.push_back(from);
        }
        Access to = bursts(bytes_of("dst", dst, uint64_t(p.dValue) * elem, true), p.nValue,
                           int64_t(p.dstDStride) * elem);
        to.address += uint64_t(m) * p.dstNdMatrixStride * elem;
        accesses.push_back(to);
    }
    begin(Op::DataCopy, Pipe::kMTE3, where, 0, accesses, atomic);
    for (uint32_t m = 0; m < p.ndNum; ++m) {
        for (uint32_t n = 0; n < p.nValue; ++n) {
            uint8_t *to = dst.address +
                          (uint64_t(m) * p.dstNdMatrixStride + uint64_t(n) * p.dstDStride) * elem;
            for (uint32_t c = 0; c < columns; ++c) {
                const uint8_t *from = src.address + (uint64_t(m) * p.srcNdMatrixStride * kColumn +
                                                     uint64_t(c) * p.srcNStride + n) *
                                                        bytes;
                put(to + uint64_t(c) * bytes, from, bytes);
            }
        }
    }
}

// ---- DataCopyPad --------------------------------------------------------------------------------

void set_pad_value(uint64_t bits, Where where) {
    begin({Op::SetPadValue, Pipe::kS, where, 0, nullptr, 0, false});
    block().pad_value = bits;
    block().pad_value_set = true;
}

void copy_pad_in(Local dst, Global src, const Burst &burst, const Padding &padding, Where where) {
    check_bursts("DataCopyPad", burst.count, burst.len, 2097151, "bytes", where);
    const uint32_t left = padding.left;
    const uint32_t right = padding.right;
    if (left > kDataBlock || right > kDataBlock) {
        fault(where, "mem", "copy-params",
              "DataCopyPad with paddings of %u and %u bytes; at most 32 each", left, right);
    }
    if (burst.len == 0) {
        return;
    }
    const uint32_t whole = uint32_t(round_to_block(left + burst.len + right));
    const uint64_t ub_step = whole + uint64_t(burst.dst_stride) * kDataBlock;
    const uint64_t gm_step = burst.len + uint64_t(burst.src_stride);
    const Access accesses[] = {
        bursts_of("src", src, burst.len, false, burst.count, int64_t(gm_step)),
        bursts_of("dst", dst, whole, true, burst.count, int64_t(ub_step))};
    begin({Op::DataCopyPad, Pipe::kMTE2, where, 0, accesses, 2, false});
    // Without isPad the value is that of SetPadValue, if there was one (assumed: a value given with
    // isPad does not stay behind).
    const void *value = padding.value;
    if (value == nullptr && block().pad_value_set) {
        value = &block().pad_value;
    }
    uint8_t *to = dst.address;
    const uint8_t *from = src.address;
    if (burst.count == 1 && burst.len >= kLargeCopy) {
        look_ahead(from, burst.len);
    }
    for (uint32_t i = 0; i < burst.count; ++i) {
        uint8_t *data = to + left;
        uint8_t *end = data + burst.len;
        stream(data, from, burst.len);
        if (left + right == 0) {
            fill(end, to + whole, from, padding.element);
        } else if (value != nullptr) {
            fill(to, data, value, padding.element);
            fill(end, end + right, value, padding.element);
            fill(end + right, to + whole, from, padding.element);
        } else {
            poison(to, left);
            poison(end, to + whole - end);
            if (block().observer != nullptr) {
                block().observer->undefined(to, left);
                block().observer->undefined(end, to + whole - end);
            }
        }
        to += ub_step;
        from += gm_step;
    }
}

void copy_pad_out(Global dst, Local src, const Burst &burst, Type type, Where where) {
    (void)type;
    check_bursts("DataCopyPad", burst.count, burst.len, 2097151, "bytes", where);
    const uint32_t whole = uint32_t(round_to_block(burst.len));
    const uint64_t ub_step = whole + uint64_t(burst.src_stride) * kDataBlock;
    const uint64_t gm_step = burst.len + uint64_t(burst.dst_stride);
    const bool atomic = begin_atomic(burst.len, where);
    const Access accesses[] = {
        bursts_of("src", src, burst.len, false, burst.count, int64_t(ub_step)),
        bursts_of("dst", dst, burst.len, true, burst.count, int64_t(gm_step))};
    begin({Op::DataCopyPad, Pipe::kMTE3, where, 0, accesses, 2, atomic});
    uint8_t *to = dst.address;
    const uint8_t *from = src.address;
    for (uint32_t i = 0; i < burst.count; ++i) {
        put(to, from, burst.len);
        from += ub_step;
        to += gm_step;
    }
}

// ---- Copy ---------------------------------------------------------------------------------------

void copy_lanes(Local dst, Local src, Type type, const Lanes &lanes, const CopyStrides &s,
                Where where) {
    const uint32_t elem = size_of(type);
    Pattern p = pattern_of(lanes, elem, "Copy", where);
    if (!p.counted) {
        const Access accesses[] = {
            lanes_of("src", src, p, s.src_blk, s.src_rep, uint8_t(elem), false),
            lanes_of("dst", dst, p, s.dst_blk, s.dst_rep, uint8_t(elem), true)};
        begin({Op::Copy, Pipe::kV, where, p.repeats, accesses, 2, false, true});
        alignas(64) uint8_t packed[kRepeat];
        for (uint32_t r = 0; r < p.repeats; ++r) {
            gather_lanes(packed, src.address, p, r, s.src_blk, s.src_rep, elem);
            scatter_lanes(dst.address, packed, p, r, s.dst_blk, s.dst_rep, elem);
        }
        return;
    }
    // Counter mode: the count is that of every repeat (documented), so the repeats stay.
    const uint32_t count = p.total;
    Pattern one{};
    one.lanes = one.total = count;
    one.repeats = count != 0 ? 1 : 0;
    one.counted = true;
    std::vector<Access> accesses;
    for (uint32_t r = 0; r < lanes.repeat && count != 0; ++r) {
        Access from = lanes_of("src", src, one, s.src_blk, 0, uint8_t(elem), false);
        Access to = lanes_of("dst", dst, one, s.dst_blk, 0, uint8_t(elem), true);
        from.address += uint64_t(r) * s.src_rep * kDataBlock;
        to.address += uint64_t(r) * s.dst_rep * kDataBlock;
        accesses.push_back(from);
        accesses.push_back(to);
    }
    begin(Op::Copy, Pipe::kV, where, lanes.repeat, accesses);
    std::vector<uint8_t> packed(uint64_t(count) * elem);
    for (size_t i = 0; i < accesses.size(); i += 2) {
        gather_lanes(packed.data(), accesses[i].address, one, 0, s.src_blk, 0, elem);
        scatter_lanes(accesses[i + 1].address, packed.data(), one, 0, s.dst_blk, 0, elem);
    }
}

}  // namespace twin
