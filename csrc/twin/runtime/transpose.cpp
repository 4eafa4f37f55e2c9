// Transpose and TransDataTo5HD.
#include "twin/transpose.h"

#include "accesses.h"
#include "ub.h"

namespace twin {
namespace {

constexpr uint32_t kSide = 16;  // rows, and data blocks of a repeat of TransDataTo5HD

using AscendC::TransposeType;

void transpose_block(Local dst, Local src) {
    uint16_t in[kSide][kSide], out[kSide][kSide];
    std::memcpy(in, src.address, sizeof in);
    for (uint32_t i = 0; i < kSide; ++i) {
        for (uint32_t j = 0; j < kSide; ++j) {
            out[j][i] = in[i][j];
        }
    }
    std::memcpy(dst.address, out, sizeof out);
}

}  // namespace

void transpose_16x16(Local dst, Local src, Where where) {
    constexpr uint32_t kBytes = kSide * kSide * sizeof(uint16_t);
    const Access accesses[] = {bytes_of("src", src, kBytes, false),
                               bytes_of("dst", dst, kBytes, true)};
    begin({Op::Transpose, Pipe::kV, where, 1, accesses, 2, false});
    transpose_block(dst, src);
}

void transpose_ext(Local dst, Local src, Local tmp, uint32_t elem,
                   const AscendC::TransposeParamsExt &p, Where where) {
    block().op = Op::Transpose;
    if (p.transposeType == TransposeType::TRANSPOSE_ND2ND_B16) {
        if (elem != sizeof(uint16_t)) {
            fault(where, "mem", "transpose-params",
                  "Transpose with TRANSPOSE_ND2ND_B16 takes elements of two bytes, not of %u",
                  elem);
        }
        transpose_16x16(dst, src, where);
        return;
    }
    const bool to_nhwc = p.transposeType == TransposeType::TRANSPOSE_NCHW2NHWC;
    if (!to_nhwc && p.transposeType != TransposeType::TRANSPOSE_NHWC2NCHW) {
        fault(where, "mem", "transpose-params",
              "Transpose with transposeType %u; there are TRANSPOSE_ND2ND_B16, "
              "TRANSPOSE_NCHW2NHWC and TRANSPOSE_NHWC2NCHW",
              unsigned(p.transposeType));
    }
    const uint64_t area = uint64_t(p.hSize) * p.wSize;
    const uint64_t bytes = uint64_t(p.nSize) * p.cSize * area * elem;
    if (area * elem % kDataBlock != 0) {
        fault(
            where, "mem", "transpose-params",
            "Transpose of %u x %u elements of %u bytes; hSize * wSize must fill data blocks of 32 "
            "bytes",
            p.hSize, p.wSize, elem);
    }
    // The documented size of the temporary buffer.
    const uint64_t side = elem == 1 ? 32 : 16;
    const uint64_t other = elem == 4 ? 8 : side;
    const uint64_t needed =
        (to_nhwc ? uint64_t(p.cSize) + 2 : 2 * uint64_t(p.cSize) + 1) * side * other * elem;
    if (tmp.bytes < needed) {
        fault(where, "mem", "transpose-tmp",
              "Transpose with cSize %u works in a temporary tensor of %llu bytes; this one has %u",
              p.cSize, static_cast<unsigned long long>(needed), tmp.bytes);
    }
    const Access accesses[] = {bytes_of("src", src, bytes, false),
                               bytes_of("sharedTmpBuffer", tmp, bytes != 0 ? needed : 0, true),
                               bytes_of("dst", dst, bytes, true)};
    begin({Op::Transpose, Pipe::kV, where, uint32_t((bytes + kRepeat - 1) / kRepeat), accesses, 3,
           false});
    if (bytes == 0) {
        return;
    }
    std::vector<uint8_t> in(src.address, src.address + bytes);
    poison(tmp.address, needed);  // what it holds afterwards is nobody's business
    const uint64_t rows = to_nhwc ? p.cSize : area, columns = to_nhwc ? area : p.cSize;
    for (uint64_t n = 0; n < p.nSize; ++n) {
        const uint64_t start = n * rows * columns;
        for (uint64_t i = 0; i < rows; ++i) {
            for (uint64_t j = 0; j < columns; ++j) {
                std::memcpy(dst.address + (start + j * rows + i) * elem,
                            in.data() + (start + i * columns + j) * elem, elem);
            }
        }
    }
}

// Per repeat the sixteen data blocks of src are the rows of a matrix, and those of dst its columns.
// Elements of two bytes: 16 x 16. Of four: 16 x 8, two data blocks of dst to a column. Of one:
// 16 x 16 out of the chosen halves.
void trans_data(const Local dst[], const Local src[], uint32_t elem,
                const AscendC::TransDataTo5HDParams &p, Where where) {
    const uint32_t half = kDataBlock / 2;
    const uint32_t src_at = elem == 1 && p.srcHighHalf ? half : 0;
    const uint32_t dst_at = elem == 1 && p.dstHighHalf ? half : 0;
    const uint32_t bytes = elem == 1 ? half : kDataBlock;
    // A single repeat starts one stride on, several start at the list (documented).
    const uint32_t first = p.repeatTimes == 1 ? 1 : 0;
    block().op = Op::TransDataTo5HD;
    std::vector<Access> accesses;
    for (int side = 0; side < 2; ++side) {
        const int64_t step = int64_t(side == 0 ? p.srcRepStride : p.dstRepStride) * kDataBlock;
        for (uint32_t i = 0; i < kSide; ++i) {
            const Local &tensor = side == 0 ? src[i] : dst[i];
            const char *name = side == 0 ? "srcList" : "dstList";
            check_start(Op::TransDataTo5HD, name, tensor, kDataBlock, where);
            Access a = bursts(bytes_of(name, tensor, bytes, side == 1, uint8_t(half)),
                              p.repeatTimes, step);
            a.address += first * step + (side == 0 ? src_at : dst_at);
            accesses.push_back(a);
        }
    }
    begin(Op::TransDataTo5HD, Pipe::kV, where, p.repeatTimes, accesses);
    for (uint32_t r = first; r < first + p.repeatTimes; ++r) {
        uint8_t in[kSide][kDataBlock], out[kSide][kDataBlock];
        for (uint32_t i = 0; i < kSide; ++i) {
            std::memcpy(in[i], src[i].address + uint64_t(r) * p.srcRepStride * kDataBlock + src_at,
                        bytes);
        }
        const uint32_t columns = bytes / elem;
        for (uint32_t i = 0; i < kSide; ++i) {
            for (uint32_t j = 0; j < columns; ++j) {
                // Element j of row i: number i of column j, whose elements run over as many data
                // blocks of dst as they fill.
                const uint32_t at = j * kSide + i;
                std::memcpy(&out[at / columns][at % columns * elem], &in[i][j * elem], elem);
            }
        }
        for (uint32_t i = 0; i < kSide; ++i) {
            std::memcpy(dst[i].address + uint64_t(r) * p.dstRepStride * kDataBlock + dst_at, out[i],
                        bytes);
        }
    }
}

namespace {

Local at_address(uint64_t address) {
    Local local{};
    local.address = reinterpret_cast<uint8_t *>(address);
    const uint64_t offset = static_cast<uint64_t>(local.address - block().ub);
    local.bytes = offset < kUbMax ? uint32_t(kUbMax - offset) : 0;
    local.buffer = -1;
    local.position = AscendC::TPosition::VECCALC;
    return local;
}

}  // namespace

void trans_data(const uint64_t dst[], const uint64_t src[], uint32_t elem,
                const AscendC::TransDataTo5HDParams &p, Where where) {
    Local to[kSide], from[kSide];
    for (uint32_t i = 0; i < kSide; ++i) {
        to[i] = at_address(dst[i]);
        from[i] = at_address(src[i]);
    }
    trans_data(to, from, elem, p, where);
}

void trans_data(Local dst, Local src, uint32_t elem, const AscendC::TransDataTo5HDParams &p,
                Where where) {
    uint64_t lists[2][kSide];
    block().op = Op::TransDataTo5HD;
    check_operand(where, "TransDataTo5HD", bytes_of("dst", dst, sizeof lists[0], false));
    check_operand(where, "TransDataTo5HD", bytes_of("src", src, sizeof lists[1], false));
    std::memcpy(lists[0], dst.address, sizeof lists[0]);
    std::memcpy(lists[1], src.address, sizeof lists[1]);
    trans_data(lists[0], lists[1], elem, p, where);
}

}  // namespace twin
