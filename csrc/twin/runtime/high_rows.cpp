// The high-level API, row by row. Sums: high.h. Everything is computed in single precision, one
// rounding a step of the documented formula, and rounded to the type at the end (assumed).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "high.h"
#include "twin/high_level/rows.h"
#include "twin/high_level/topk.h"

namespace twin {
namespace {

// The elements of each row that count.
Access rows_of(const char *name, const Local &tensor, const Rows &r, uint32_t elem, bool write) {
    if (r.cols == r.stride) {
        return bytes_of(name, tensor, uint64_t{r.rows} * r.cols * elem, write);
    }
    return bursts(bytes_of(name, tensor, uint64_t{r.cols} * elem, write), r.rows,
                  int64_t{r.stride} * elem);
}

Access row_blocks(const char *name, const Local &tensor, const Rows &r, bool write) {
    return bytes_of(name, tensor, uint64_t{r.rows} * kDataBlock, write);
}

void check_rows(Op op, const Rows &r, Where where) {
    if (r.cols > r.stride) {
        fault(where, "mem", "shape", "%s of rows of %u elements, which are only %u apart",
              op_name(op), r.cols, r.stride);
    }
}

uint64_t row_at(const Rows &r, uint32_t row, uint32_t elem) {
    return uint64_t{row} * r.stride * elem;
}

uint32_t work(const Rows &r, uint32_t elem) {
    return repeats_of(uint64_t{r.rows} * r.cols * elem);
}

// A data block of one value.
void store_block(uint8_t *to, Type type, float value) {
    float values[kDataBlock / 2];
    std::fill(values, values + kDataBlock / 2, value);
    store_values(to, type, values, kDataBlock / size_of(type));
}

float load_one(const uint8_t *from, Type type) {
    float value;
    load_values(&value, from, type, 1);
    return value;
}

}  // namespace

void row_sums(Op op, Type type, bool in_float, const Local &dst, const Local &src, const Rows &r,
              Where where) {
    const uint32_t elem = size_of(type);
    check_rows(op, r, where);
    const Access accesses[] = {bytes_of("dst", dst, uint64_t{r.rows} * elem, true),
                               rows_of("src", src, r, elem, false)};
    begin({op, Pipe::kV, where, work(r, elem), accesses, 2, false});
    std::vector<float> x(r.cols), sums(r.rows);
    const float share = 1.0f / static_cast<float>(r.cols);
    for (uint32_t row = 0; row < r.rows; ++row) {
        load_values(x.data(), src.address + row_at(r, row, elem), type, r.cols);
        const float sum = sum_values(x.data(), r.cols, type == Type::kHalf && !in_float);
        sums[row] = op == Op::Mean ? sum * share : sum;
    }
    store_values(dst.address, type, sums.data(), r.rows);
}

void cum_sum(Type type, const Local &dst, const Local *last, const Local &src, const Rows &r,
             bool along_rows, Where where) {
    const uint32_t elem = size_of(type);
    const Access accesses[] = {
        rows_of("dst", dst, r, elem, true), rows_of("src", src, r, elem, false),
        bytes_of("lastRow", last != nullptr ? *last : dst, uint64_t{r.cols} * elem, true)};
    begin({Op::CumSum, Pipe::kV, where, work(r, elem), accesses, last != nullptr ? 3u : 2u, false});
    std::vector<float> x(r.cols), sums(r.cols);
    for (uint32_t row = 0; row < r.rows; ++row) {
        load_values(x.data(), src.address + row_at(r, row, elem), type, r.cols);
        for (uint32_t i = 0; i < r.cols; ++i) {
            const bool first = along_rows ? i == 0 : row == 0;
            const float before = first ? 0 : along_rows ? sums[i - 1] : sums[i];
            sums[i] = first ? x[i] : before + x[i];
        }
        store_values(dst.address + row_at(r, row, elem), type, sums.data(), r.cols);
    }
    if (last != nullptr && r.rows != 0) {
        store_values(last->address, type, sums.data(), r.cols);
    }
}

void softmax(Op op, Type type, Type stat_type, const Local &dst, const Local *sum, const Local *max,
             const Local &src, const Rows &r, Where where) {
    const uint32_t elem = size_of(type);
    const bool simple = op == Op::SimpleSoftMax;
    check_rows(op, r, where);
    Access accesses[4] = {rows_of("dst", dst, r, elem, true), rows_of("src", src, r, elem, false)};
    if (sum != nullptr) {
        accesses[2] = row_blocks(simple ? "inSum" : "sum", *sum, r, !simple);
        accesses[3] = row_blocks(simple ? "inMax" : "max", *max, r, !simple);
    }
    begin({op, Pipe::kV, where, work(r, elem), accesses, sum != nullptr ? 4u : 2u, false});
    std::vector<float> x(r.cols), e(r.cols), copy(r.cols);
    std::vector<uint8_t> before(uint64_t{r.cols} * elem);
    std::vector<double> logs(r.cols);
    for (uint32_t row = 0; row < r.rows; ++row) {
        const uint8_t *from = src.address + row_at(r, row, elem);
        uint8_t *to = dst.address + row_at(r, row, elem);
        std::memcpy(before.data(), from, before.size());
        load_values(x.data(), from, type, r.cols);
        float most, total;
        if (simple) {
            most = load_one(max->address + uint64_t{row} * kDataBlock, stat_type);
            total = load_one(sum->address + uint64_t{row} * kDataBlock, stat_type);
        } else {
            most = r.cols != 0 ? x[0] : 0;
            for (const float v : x) {
                most = most == most && (v > most || v != v) ? v : most;  // a NaN stays
            }
        }
        for (uint32_t i = 0; i < r.cols; ++i) {
            e[i] = x[i] - most;
        }
        exp_values(e.data(), e.data(), r.cols);
        if (!simple) {
            copy = e;
            total = sum_values(copy.data(), r.cols, false);
        }
        for (float &v : e) {
            v /= total;
        }
        if (op == Op::LogSoftMax) {
            for (uint32_t i = 0; i < r.cols; ++i) {
                logs[i] = std::log10(static_cast<double>(e[i]));
            }
            store_values(to, type, logs.data(), r.cols);
        } else {
            store_values(to, type, e.data(), r.cols);
        }
        perturb_values(op, type, to, before.data(), r.cols);
        if (!simple && sum != nullptr) {
            store_block(sum->address + uint64_t{row} * kDataBlock, stat_type, total);
            store_block(max->address + uint64_t{row} * kDataBlock, stat_type, most);
        }
    }
}

bool adjust_softmax(Type type, Type stat_type, const Local &res, const Local &max, uint32_t from,
                    float to, const Rows &r, Where where) {
    const uint32_t elem = size_of(type), stat = size_of(stat_type);
    const Access accesses[] = {rows_of("softMaxRes", res, r, elem, true),
                               row_blocks("maxTensor", max, r, false)};
    begin({Op::AdjustSoftMaxRes, Pipe::kV, where, work(r, elem), accesses, 2, false});
    bool found = false;
    const std::vector<float> values(r.cols, to);
    for (uint32_t row = 0; row < r.rows; ++row) {
        if (std::memcmp(max.address + uint64_t{row} * kDataBlock, &from, stat) == 0) {
            found = true;
            store_values(res.address + row_at(r, row, elem), type, values.data(), r.cols);
        }
    }
    return found;
}

void rms_norm(Type type, const Local &dst, const Local &src, const Local &gamma, float epsilon,
              const Rows &r, Where where) {
    const uint32_t elem = size_of(type);
    check_rows(Op::RmsNorm, r, where);
    const Access accesses[] = {rows_of("dst", dst, r, elem, true),
                               rows_of("src", src, r, elem, false),
                               bytes_of("gamma", gamma, uint64_t{r.cols} * elem, false)};
    begin({Op::RmsNorm, Pipe::kV, where, work(r, elem), accesses, 3, false});
    std::vector<float> x(r.cols), squares(r.cols), scale(r.cols);
    std::vector<uint8_t> before(uint64_t{r.cols} * elem);
    load_values(scale.data(), gamma.address, type, r.cols);
    const float share = 1.0f / static_cast<float>(r.cols);
    for (uint32_t row = 0; row < r.rows; ++row) {
        const uint8_t *from = src.address + row_at(r, row, elem);
        uint8_t *to = dst.address + row_at(r, row, elem);
        std::memcpy(before.data(), from, before.size());
        load_values(x.data(), from, type, r.cols);
        for (uint32_t i = 0; i < r.cols; ++i) {
            squares[i] = x[i] * x[i];
        }
        const float mean = sum_values(squares.data(), r.cols, false) * share;
        const float rms = std::sqrt(mean + epsilon);
        for (uint32_t i = 0; i < r.cols; ++i) {
            x[i] = x[i] / rms * scale[i];
        }
        store_values(to, type, x.data(), r.cols);
        perturb_values(Op::RmsNorm, type, to, before.data(), r.cols);
    }
}

void layer_norm(Type type, const Local &dst, const Local &mean, const Local &variance,
                const Local &src, const Local &gamma, const Local &beta, float epsilon,
                const Rows &r, Where where) {
    const uint32_t elem = size_of(type);
    check_rows(Op::LayerNorm, r, where);
    const uint64_t row_bytes = uint64_t{r.cols} * elem;
    const Access accesses[] = {rows_of("output", dst, r, elem, true),
                               bytes_of("outputMean", mean, uint64_t{r.rows} * elem, true),
                               bytes_of("outputVariance", variance, uint64_t{r.rows} * elem, true),
                               rows_of("inputX", src, r, elem, false),
                               bytes_of("gamma", gamma, row_bytes, false),
                               bytes_of("beta", beta, row_bytes, false)};
    begin({Op::LayerNorm, Pipe::kV, where, work(r, elem), accesses, 6, false});
    std::vector<float> x(r.cols), t(r.cols), scale(r.cols), shift(r.cols);
    std::vector<float> means(r.rows), variances(r.rows);
    std::vector<uint8_t> before(row_bytes);
    load_values(scale.data(), gamma.address, type, r.cols);
    load_values(shift.data(), beta.address, type, r.cols);
    const float share = 1.0f / static_cast<float>(r.cols);
    for (uint32_t row = 0; row < r.rows; ++row) {
        const uint8_t *from = src.address + row_at(r, row, elem);
        uint8_t *to = dst.address + row_at(r, row, elem);
        std::memcpy(before.data(), from, before.size());
        load_values(x.data(), from, type, r.cols);
        for (uint32_t i = 0; i < r.cols; ++i) {
            t[i] = x[i] * share;
        }
        means[row] = sum_values(t.data(), r.cols, false);
        for (uint32_t i = 0; i < r.cols; ++i) {
            x[i] -= means[row];
            t[i] = x[i] * x[i] * share;
        }
        variances[row] = sum_values(t.data(), r.cols, false);
        // Documented: Adds, Ln, Muls by -0.5, Exp.
        float factor = variances[row] + epsilon;
        ln_values(&factor, &factor, 1);
        factor *= -0.5f;
        exp_values(&factor, &factor, 1);
        for (uint32_t i = 0; i < r.cols; ++i) {
            const float scaled = x[i] * factor * scale[i];
            x[i] = scaled + shift[i];
        }
        store_values(to, type, x.data(), r.cols);
        perturb_values(Op::LayerNorm, type, to, before.data(), r.cols);
    }
    store_values(mean.address, type, means.data(), r.rows);
    store_values(variance.address, type, variances.data(), r.rows);
}

// ---- shapes: bytes move as they are -------------------------------------------------------------

void broadcast(uint32_t elem, const Local &dst, const Local &src, const uint32_t dst_shape[2],
               const uint32_t src_shape[2], Where where) {
    for (int i = 0; i < 2; ++i) {
        if (src_shape[i] != dst_shape[i] && src_shape[i] != 1) {
            fault(where, "mem", "shape",
                  "Broadcast of %u x %u elements to %u x %u: a dimension stays, or grows from 1",
                  src_shape[0], src_shape[1], dst_shape[0], dst_shape[1]);
        }
    }
    const uint64_t to = uint64_t{dst_shape[0]} * dst_shape[1] * elem;
    const uint64_t from = uint64_t{src_shape[0]} * src_shape[1] * elem;
    const Access accesses[] = {bytes_of("dst", dst, to, true), bytes_of("src", src, from, false)};
    begin({Op::Broadcast, Pipe::kV, where, repeats_of(to), accesses, 2, false});
    const std::vector<uint8_t> all(src.address, src.address + from);
    uint8_t *out = dst.address;
    for (uint32_t row = 0; row < dst_shape[0]; ++row) {
        const uint64_t start = src_shape[0] == 1 ? 0 : uint64_t{row} * src_shape[1];
        for (uint32_t col = 0; col < dst_shape[1]; ++col, out += elem) {
            std::memcpy(out, &all[(start + (src_shape[1] == 1 ? 0 : col)) * elem], elem);
        }
    }
}

void pad(uint32_t elem, const Local &dst, const Local &src, const Rows &r, uint32_t left,
         uint32_t right, uint64_t value, Where where) {
    const uint32_t per_block = kDataBlock / elem;
    const uint32_t width = left + r.cols + right;
    const Rows out{r.rows, width, (width + per_block - 1) / per_block * per_block};
    check_rows(Op::Pad, r, where);
    const Access accesses[] = {rows_of("dst", dst, out, elem, true),
                               rows_of("src", src, r, elem, false)};
    begin({Op::Pad, Pipe::kV, where, work(out, elem), accesses, 2, false});
    std::vector<uint8_t> all(src.address, src.address + row_at(r, r.rows, elem));
    for (uint32_t row = 0; row < r.rows; ++row) {
        uint8_t *to = dst.address + row_at(out, row, elem);
        for (uint32_t i = 0; i < width; ++i, to += elem) {
            const bool inside = i >= left && i < left + r.cols;
            std::memcpy(to,
                        inside ? &all[row_at(r, row, elem) + uint64_t{i - left} * elem]
                               : reinterpret_cast<const uint8_t *>(&value),
                        elem);
        }
    }
}

void unpad(uint32_t elem, const Local &dst, const Local &src, const Rows &r, uint32_t left,
           uint32_t right, Where where) {
    if (left + right > r.cols) {
        fault(where, "mem", "shape", "UnPad takes %u + %u elements off rows of %u", left, right,
              r.cols);
    }
    const uint32_t width = r.cols - left - right;
    const Rows in{r.rows, width, r.stride}, out{r.rows, width, width};
    Local inner = src;
    inner.address += uint64_t{left} * elem;
    Access read = rows_of("src", inner, in, elem, false);
    read.align = 1;
    const Access accesses[] = {rows_of("dst", dst, out, elem, true), read};
    begin({Op::UnPad, Pipe::kV, where, work(out, elem), accesses, 2, false});
    const std::vector<uint8_t> all(src.address, src.address + row_at(r, r.rows, elem));
    for (uint32_t row = 0; row < r.rows; ++row) {
        std::memcpy(dst.address + row_at(out, row, elem),
                    all.data() + row_at(r, row, elem) + uint64_t{left} * elem,
                    uint64_t{width} * elem);
    }
}

void select_bytes(uint32_t elem, const Local &dst, const Local &src, uint64_t scalar,
                  bool scalar_is_src1, const Local &mask, const Rows &r, uint32_t mask_stride,
                  Where where) {
    const Rows masks{r.rows, r.cols, mask_stride};
    check_rows(Op::SelectWithBytesMask, masks, where);
    const Access accesses[] = {rows_of("dst", dst, r, elem, true),
                               rows_of("src", src, r, elem, false),
                               rows_of("mask", mask, masks, 1, false)};
    begin({Op::SelectWithBytesMask, Pipe::kV, where, work(r, elem), accesses, 3, false});
    for (uint32_t row = 0; row < r.rows; ++row) {
        for (uint32_t i = 0; i < r.cols; ++i) {
            const uint64_t at = row_at(r, row, elem) + uint64_t{i} * elem;
            const bool second = mask.address[uint64_t{row} * mask_stride + i] != 0;
            std::memmove(dst.address + at,
                         second == scalar_is_src1 ? reinterpret_cast<const uint8_t *>(&scalar)
                                                  : src.address + at,
                         elem);
        }
    }
}

// ---- TopK ---------------------------------------------------------------------------------------

// Values in order, equal ones by their place in the row (assumed, as Sort32 has it); NaN is above
// all numbers (assumed). Values move as they are.
void top_k(Type type, const Local &dst, const Local &dst_index, const Local &src,
           const Local &src_index, const Local &finished, const TopKShape &shape, Where where) {
    const Rows &r = shape.rows;
    const uint32_t elem = size_of(type), k = shape.k;
    check_rows(Op::TopK, r, where);
    if (k == 0 || k > r.cols) {
        fault(where, "mem", "shape", "TopK with k %u; a row of %u elements has 1 to %u", k, r.cols,
              r.cols);
    }
    const auto stride = [&](uint32_t bytes) {
        const uint32_t per_block = kDataBlock / bytes;
        return shape.packed ? k : (k + per_block - 1) / per_block * per_block;
    };
    const Rows values{r.rows, k, stride(elem)}, indices{r.rows, k, stride(sizeof(int32_t))};
    const Rows given = shape.packed ? r : Rows{1, r.cols, r.cols};
    Access accesses[5] = {rows_of("dstValue", dst, values, elem, true),
                          rows_of("dstIndex", dst_index, indices, sizeof(int32_t), true),
                          rows_of("src", src, r, elem, false)};
    unsigned n = 3;
    if (shape.own_indices) {
        accesses[n++] = rows_of("srcIndex", src_index, given, sizeof(int32_t), false);
    }
    if (shape.has_finished) {
        accesses[n++] = bytes_of("finish", finished, r.rows, false);
    }
    begin({Op::TopK, Pipe::kV, where, work(r, elem), accesses, n, false});
    std::vector<float> x(r.cols);
    std::vector<uint32_t> order(r.cols);
    const std::vector<uint8_t> all(src.address, src.address + row_at(r, r.rows, elem));
    for (uint32_t row = 0; row < r.rows; ++row) {
        load_values(x.data(), all.data() + row_at(r, row, elem), type, r.cols);
        for (uint32_t i = 0; i < r.cols; ++i) {
            order[i] = i;
        }
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
            const float first = x[shape.largest ? a : b], second = x[shape.largest ? b : a];
            return first != first ? second == second : first > second;
        });
        const bool skipped = shape.has_finished && finished.address[row] != 0;
        for (uint32_t i = 0; i < k; ++i) {
            std::memcpy(dst.address + row_at(values, row, elem) + uint64_t{i} * elem,
                        all.data() + row_at(r, row, elem) + uint64_t{order[i]} * elem, elem);
            int32_t index = static_cast<int32_t>(skipped ? r.cols : order[i]);
            if (shape.own_indices && !skipped) {
                std::memcpy(&index,
                            src_index.address +
                                row_at(given, shape.packed ? row : 0, sizeof index) +
                                uint64_t{order[i]} * sizeof index,
                            sizeof index);
            }
            std::memcpy(
                dst_index.address + row_at(indices, row, sizeof index) + uint64_t{i} * sizeof index,
                &index, sizeof index);
        }
    }
}

}  // namespace twin
