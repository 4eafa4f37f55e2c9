// Functions of the scalar unit.
#include "twin/scalar_unit.h"

#include "check.h"
#include "round.h"

namespace twin {

void scalar_operation(Op op, Where where) {
    begin({op, Pipe::kS, where, 0, nullptr, 0, false});
}

int64_t first_bit(uint64_t value, int bit) {
    const uint64_t ones = bit != 0 ? value : ~value;
    return ones == 0 ? -1 : __builtin_ctzll(ones);
}

int64_t sign_bits(int64_t value) {
    const uint64_t changes = uint64_t(value) ^ (value < 0 ? ~uint64_t{0} : uint64_t{0});
    return changes == 0 ? -1 : __builtin_clzll(changes) - 1;
}

uint16_t scalar_to_half(float value, int) {
    const uint16_t bits = narrow_to_half<AscendC::RoundMode::CAST_ODD>(double(value));
    const uint16_t magnitude = bits & 0x7fffu;
    if (!block().arch->inf_nan && magnitude >= 0x7c00u) {
        return magnitude > 0x7c00u ? uint16_t(0) : uint16_t(bits - 1);
    }
    return bits;
}

int32_t scalar_to_int32(float value, int mode) {
    using AscendC::RoundMode;
    const double v = value;
    switch (static_cast<RoundMode>(mode)) {
        case RoundMode::CAST_FLOOR:
            return integer<int32_t>(whole<RoundMode::CAST_FLOOR>(v));
        case RoundMode::CAST_CEIL:
            return integer<int32_t>(whole<RoundMode::CAST_CEIL>(v));
        case RoundMode::CAST_ROUND:
            return integer<int32_t>(whole<RoundMode::CAST_ROUND>(v));
        default:
            return integer<int32_t>(whole<RoundMode::CAST_RINT>(v));
    }
}

}  // namespace twin
