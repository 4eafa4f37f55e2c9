// Sorting and merging, descending by score. Ties keep the order in which they came (documented for
// a merge: the earlier list first).
#include "twin/sort.h"

#include <algorithm>

#include "accesses.h"
#include "arith.h"
#include "rounding.h"

namespace twin {
namespace {

constexpr uint32_t kItem = 8;     // bytes of a score with its index
constexpr uint32_t kIndexAt = 4;  // bytes from its start to its index

float score_at(const uint8_t *at, Type type) {
    if (type == Type::kHalf) {
        uint16_t bits;
        std::memcpy(&bits, at, sizeof bits);
        return half_value(bits);
    }
    float value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

// Whether score a stands before score b; a NaN before every number (assumed), zeros are equal.
bool before(float a, float b) {
    const bool nan_a = a != a, nan_b = b != b;
    return nan_a || nan_b ? nan_a && !nan_b : a > b;
}

// The order of n scores, `step` bytes apart.
void order_of(const uint8_t *scores, uint32_t n, uint32_t step, Type type, uint32_t *order) {
    float values[32];
    for (uint32_t i = 0; i < n; ++i) {
        order[i] = i;
        values[i] = score_at(scores + uint64_t(i) * step, type);
    }
    std::stable_sort(order, order + n,
                     [&](uint32_t a, uint32_t b) { return before(values[a], values[b]); });
}

void sort_of_32(uint8_t *to, const uint8_t *scores, const uint8_t *indices, Type type) {
    const uint32_t elem = size_of(type);
    uint32_t order[32];
    order_of(scores, 32, elem, type, order);
    uint8_t items[32 * kItem] = {};  // half: the two bytes between are zero (reserved: assumed)
    for (uint32_t i = 0; i < 32; ++i) {
        std::memcpy(items + i * kItem, scores + order[i] * elem, elem);
        std::memcpy(items + i * kItem + kIndexAt, indices + order[i] * sizeof(uint32_t),
                    sizeof(uint32_t));
    }
    std::memcpy(to, items, sizeof items);
}

}  // namespace

void sort32(Local dst, Local scores, Local indices, Type type, int32_t repeat, Where where) {
    check_repeat(repeat, 255, Op::Sort32, where);
    const uint32_t elem = size_of(type);
    const uint32_t n = uint32_t(repeat) * 32;
    const Access accesses[] = {bytes_of("src0", scores, uint64_t(n) * elem, false),
                               bytes_of("src1", indices, uint64_t(n) * sizeof(uint32_t), false),
                               bytes_of("dst", dst, uint64_t(n) * kItem, true)};
    begin({Op::Sort32, Pipe::kV, where, uint32_t(repeat), accesses, 3, false});
    for (uint32_t i = 0; i < n; i += 32) {
        sort_of_32(dst.address + uint64_t(i) * kItem, scores.address + uint64_t(i) * elem,
                   indices.address + uint64_t(i) * sizeof(uint32_t), type);
    }
}

void merge_lists(const Merge &m) {
    // validBit: a bit per list, the first ones without a hole.
    const uint32_t lists = m.valid == 3 ? 2 : m.valid == 7 ? 3 : m.valid == 15 ? 4 : 0;
    block().op = m.op;
    if (lists == 0) {
        fault(m.where, "mem", "merge-params",
              "%s with validBit %u; 3, 7 and 15 are possible, for 2, 3 and 4 lists", op_name(m.op),
              m.valid);
    }
    check_repeat(m.repeat, 255, m.op, m.where);
    uint64_t total = 0;
    bool alike = lists == 4 && !m.suspend;  // a repeat count other than 1 has an effect
    for (uint32_t i = 0; i < lists; ++i) {
        if (m.lengths[i] > 4095) {
            fault(m.where, "mem", "merge-params", "%s with a list of %u elements; at most 4095",
                  op_name(m.op), m.lengths[i]);
        }
        total += m.lengths[i];
        alike = alike && m.lengths[i] == m.lengths[0] &&
                m.src[i].address == m.src[0].address + uint64_t(i) * m.lengths[0] * m.item;
    }
    const uint32_t repeats = alike ? uint32_t(m.repeat) : m.repeat != 0 ? 1 : 0;
    std::vector<uint8_t> out;  // everything is read before anything is written
    std::vector<Access> accesses;
    uint32_t done[4] = {};
    static const char *const kNames[] = {"src1", "src2", "src3", "src4"};
    for (uint32_t i = 0; i < lists; ++i) {
        Access read = bytes_of(kNames[i], m.src[i], 0, false);
        for (uint32_t r = 0; r < repeats; ++r) {
            read.bytes = uint64_t(m.lengths[i]) * m.item;
            accesses.push_back(read);
            check_operand(m.where, op_name(m.op), read);
            read.address += total * m.item;
        }
    }
    for (uint32_t r = 0; r < repeats; ++r) {
        std::fill(done, done + 4, 0u);
        const uint64_t shift = uint64_t(r) * total * m.item;
        while (true) {
            int best = -1;
            float best_score = 0;
            bool exhausted = false;
            for (uint32_t i = 0; i < lists; ++i) {
                if (done[i] == m.lengths[i]) {
                    exhausted = true;
                    continue;
                }
                const float score =
                    score_at(m.src[i].address + shift + uint64_t(done[i]) * m.item + m.key, m.type);
                if (best < 0 || before(score, best_score)) {
                    best = int(i);
                    best_score = score;
                }
            }
            if (best < 0 || (exhausted && m.suspend)) {
                break;
            }
            const uint8_t *item = m.src[best].address + shift + uint64_t(done[best]) * m.item;
            out.insert(out.end(), item, item + m.item);
            ++done[best];
        }
    }
    accesses.push_back(bytes_of("dst", m.dst, out.size(), true));
    begin(m.op, Pipe::kV, m.where, repeats, accesses);
    if (!out.empty()) {
        std::memcpy(m.dst.address, out.data(), out.size());
    }
    for (uint32_t i = 0; i < 4; ++i) {
        block().sort_list[i] = static_cast<uint16_t>(done[i]);
    }
}

// ---- region proposals ---------------------------------------------------------------------------

namespace {
constexpr uint32_t kProposals = 16;       // of one repeat
constexpr uint32_t kProposalNumbers = 8;  // x1, y1, x2, y2, score, label and two more
constexpr uint32_t kScore = 4;
}  // namespace

void sort16(Local dst, Local src, Type type, int32_t repeat, Where where) {
    check_repeat(repeat, 255, Op::RpSort16, where);
    const uint32_t item = kProposalNumbers * size_of(type);
    const uint64_t bytes = uint64_t(repeat) * kProposals * item;
    const Access accesses[] = {bytes_of("src", src, bytes, false),
                               bytes_of("dst", dst, bytes, true)};
    begin({Op::RpSort16, Pipe::kV, where, uint32_t(repeat), accesses, 2, false});
    for (int32_t r = 0; r < repeat; ++r) {
        const uint64_t at = uint64_t(r) * kProposals * item;
        uint32_t order[kProposals];
        order_of(src.address + at + kScore * size_of(type), kProposals, item, type, order);
        uint8_t items[kProposals * kProposalNumbers * sizeof(float)];
        for (uint32_t i = 0; i < kProposals; ++i) {
            std::memcpy(items + i * item, src.address + at + order[i] * item, item);
        }
        std::memcpy(dst.address + at, items, kProposals * item);
    }
}

namespace {

void check_mode(Op op, int32_t mode, Where where) {
    if (mode < 0 || mode > 5) {
        fault(where, "mem", "merge-params",
              "%s with modeNumber %d; 0 to 5 are possible: x1, y1, x2, y2, score, label",
              op_name(op), mode);
    }
}

}  // namespace

void proposal_concat(Local dst, Local src, uint32_t elem, int32_t repeat, int32_t mode,
                     Where where) {
    check_repeat(repeat, 255, Op::ProposalConcat, where);
    check_mode(Op::ProposalConcat, mode, where);
    const uint32_t n = uint32_t(repeat) * kProposals;
    const uint64_t step = uint64_t(kProposalNumbers) * elem;
    check_start(Op::ProposalConcat, "dst", dst, kDataBlock, where);
    Access written = bursts(bytes_of("dst", dst, elem, true, uint8_t(elem)), n, int64_t(step));
    written.address += uint64_t(mode) * elem;
    const Access accesses[] = {bytes_of("src", src, uint64_t(n) * elem, false), written};
    begin({Op::ProposalConcat, Pipe::kV, where, uint32_t(repeat), accesses, 2, false});
    const std::vector<uint8_t> in(src.address, src.address + uint64_t(n) * elem);
    for (uint32_t i = 0; i < n; ++i) {
        std::memcpy(written.address + i * step, in.data() + uint64_t(i) * elem, elem);
    }
}

void proposal_extract(Local dst, Local src, uint32_t elem, int32_t repeat, int32_t mode,
                      Where where) {
    check_repeat(repeat, 255, Op::ProposalExtract, where);
    check_mode(Op::ProposalExtract, mode, where);
    const uint32_t n = uint32_t(repeat) * kProposals;
    const uint64_t step = uint64_t(kProposalNumbers) * elem;
    check_start(Op::ProposalExtract, "src", src, kDataBlock, where);
    Access read = bursts(bytes_of("src", src, elem, false, uint8_t(elem)), n, int64_t(step));
    read.address += uint64_t(mode) * elem;
    const Access accesses[] = {read, bytes_of("dst", dst, uint64_t(n) * elem, true)};
    begin({Op::ProposalExtract, Pipe::kV, where, uint32_t(repeat), accesses, 2, false});
    std::vector<uint8_t> out(uint64_t(n) * elem);
    for (uint32_t i = 0; i < n; ++i) {
        std::memcpy(out.data() + uint64_t(i) * elem, read.address + i * step, elem);
    }
    if (n != 0) {
        std::memcpy(dst.address, out.data(), out.size());
    }
}

// ---- the high-level functions -------------------------------------------------------------------

void extract(Local values, Local indices, Local sorted, Type type, int32_t repeat, Where where) {
    check_repeat(repeat, 255, Op::Extract, where);
    const uint32_t elem = size_of(type);
    const uint32_t n = uint32_t(repeat) * 32;
    Access scores = bursts(bytes_of("sorted", sorted, elem, false), n, kItem);
    Access numbers = bursts(bytes_of("sorted", sorted, sizeof(uint32_t), false, 4), n, kItem);
    numbers.address += kIndexAt;
    const Access accesses[] = {scores, numbers,
                               bytes_of("dstValue", values, uint64_t(n) * elem, true),
                               bytes_of("dstIndex", indices, uint64_t(n) * sizeof(uint32_t), true)};
    begin({Op::Extract, Pipe::kV, where, uint32_t(repeat), accesses, 4, false});
    const std::vector<uint8_t> in(sorted.address, sorted.address + uint64_t(n) * kItem);
    for (uint32_t i = 0; i < n; ++i) {
        std::memcpy(values.address + uint64_t(i) * elem, in.data() + uint64_t(i) * kItem, elem);
        std::memcpy(indices.address + uint64_t(i) * sizeof(uint32_t),
                    in.data() + uint64_t(i) * kItem + kIndexAt, sizeof(uint32_t));
    }
}

void sort_all(Local dst, Local scores, Local indices, Local tmp, Type type, bool full,
              int32_t repeat, Where where) {
    check_repeat(repeat, 255, Op::Sort, where);
    const uint32_t elem = size_of(type);
    const uint32_t n = uint32_t(repeat) * 32;
    const bool merges = full && repeat > 1;
    const uint64_t bytes = uint64_t(n) * kItem;
    if (merges && tmp.bytes < bytes) {
        fault(where, "mem", "sort-tmp",
              "Sort of %u elements works in a temporary tensor of %llu bytes; this one has %u", n,
              static_cast<unsigned long long>(bytes), tmp.bytes);
    }
    const Access accesses[] = {bytes_of("concat", scores, uint64_t(n) * elem, false),
                               bytes_of("index", indices, uint64_t(n) * sizeof(uint32_t), false),
                               bytes_of("tmp", tmp, merges ? bytes : 0, true),
                               bytes_of("dst", dst, bytes, true)};
    begin({Op::Sort, Pipe::kV, where, uint32_t(repeat), accesses, 4, false});
    std::vector<uint8_t> items(bytes);
    for (uint32_t i = 0; i < n; i += 32) {
        sort_of_32(items.data() + uint64_t(i) * kItem, scores.address + uint64_t(i) * elem,
                   indices.address + uint64_t(i) * sizeof(uint32_t), type);
    }
    if (merges) {
        // Merges in which the earlier list wins ties amount to one stable sort.
        std::vector<uint32_t> order(n);
        for (uint32_t i = 0; i < n; ++i) {
            order[i] = i;
        }
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
            return before(score_at(items.data() + uint64_t(a) * kItem, type),
                          score_at(items.data() + uint64_t(b) * kItem, type));
        });
        for (uint32_t i = 0; i < n; ++i) {
            std::memcpy(tmp.address + uint64_t(i) * kItem,
                        items.data() + uint64_t(order[i]) * kItem, kItem);
        }
        std::memcpy(items.data(), tmp.address, bytes);
    }
    if (n != 0) {
        std::memcpy(dst.address, items.data(), bytes);
    }
}

}  // namespace twin
