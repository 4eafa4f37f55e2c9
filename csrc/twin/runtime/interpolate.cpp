// BilinearInterpolation. Products and sums round to half one by one, in the order of the horizontal
// iterations (assumed); the first product replaces what dst held.
#include "twin/interpolate.h"

#include <vector>

#include "arith.h"
#include "lanes.h"

namespace twin {

void interpolate(const Interpolation &i, const Lanes &lanes, Where where) {
    constexpr uint32_t kElem = 2, kBlocks = 8, kPerBlock = kDataBlock / kElem;
    Block &b = block();
    const bool counter = b.counter_mode;  // the mask is lanes here, in both modes
    b.counter_mode = false;
    const Pattern p = pattern_of(lanes, kElem, "BilinearInterpolation", where);
    b.counter_mode = counter;
    const uint32_t total = p.repeats == 0 ? 0 : uint32_t(i.rows) * i.repeats;
    const uint32_t weights = i.weight_per_block ? total * kBlocks : total;
    std::vector<Access> accesses;
    accesses.push_back(bytes_of("src0Offset", i.offsets, uint64_t(total) * kBlocks * 4, false));
    accesses.push_back(bytes_of("src1", i.src1, uint64_t(weights) * kElem, false));
    // The offsets say what else is read, so they are checked first.
    check_operand(where, "BilinearInterpolation", accesses[0]);
    auto *offsets = reinterpret_cast<const uint32_t *>(i.offsets.address);
    auto takes = [&](uint32_t blk) {  // whether some lane of the data block takes part
        for (uint32_t lane = blk * kPerBlock; lane < (blk + 1) * kPerBlock; ++lane) {
            if (p.takes(0, lane)) {
                return true;
            }
        }
        return false;
    };
    for (uint32_t n = 0; n < total; ++n) {
        for (uint32_t blk = 0; blk < kBlocks; ++blk) {
            if (takes(blk)) {
                Access a = bytes_of("src0", i.src0, kDataBlock, false);
                a.address += offsets[n * kBlocks + blk];
                accesses.push_back(a);
            }
        }
    }
    for (uint32_t v = 0; v < i.repeats && total != 0; ++v) {
        Access a = lanes_of("dst", i.dst, p, i.dst_blk, 0, kElem, true);
        a.address += uint64_t(v) * i.dst_step * kElem;
        accesses.push_back(a);
    }
    begin({Op::BilinearInterpolation, Pipe::kV, where, total, accesses.data(),
           unsigned(accesses.size()), false});
    const Arith multiply = arithmetic(Op::Muls, Type::kHalf, Type::kHalf, 0);
    const Arith add = arithmetic(Op::Add, Type::kHalf, Type::kHalf, 0);
    const bool stops = !b.arch->inf_nan;
    for (uint32_t v = 0; v < i.repeats && total != 0; ++v) {
        uint16_t sum[kBlocks * kPerBlock] = {};
        for (uint32_t h = 0; h < i.rows; ++h) {
            const uint32_t n = v * i.rows + h;
            uint16_t product[kBlocks * kPerBlock] = {};
            for (uint32_t blk = 0; blk < kBlocks; ++blk) {
                if (!takes(blk)) {
                    continue;
                }
                uint16_t weight;
                std::memcpy(&weight,
                            i.src1.address + (i.weight_per_block ? n * kBlocks + blk : n) * kElem,
                            kElem);
                const uint8_t *from = i.src0.address + offsets[n * kBlocks + blk];
                multiply(product + blk * kPerBlock, from, from, kPerBlock,
                         {weight, 0, b.arch->fused});
            }
            if (stops) {
                saturate(product, Type::kHalf, kBlocks * kPerBlock);
            }
            if (h == 0) {
                std::memcpy(sum, product, sizeof sum);
                continue;
            }
            add(sum, sum, product, kBlocks * kPerBlock, {});
            if (stops) {
                saturate(sum, Type::kHalf, kBlocks * kPerBlock);
            }
        }
        uint8_t *dst = i.dst.address + uint64_t(v) * i.dst_step * kElem;
        for (uint32_t lane = 0; lane < p.lanes; ++lane) {
            if (p.takes(0, lane)) {
                std::memcpy(dst + lane_at(0, lane, i.dst_blk, 0, kElem), &sum[lane], kElem);
            }
        }
    }
}

}  // namespace twin
