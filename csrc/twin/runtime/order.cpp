#include "order.h"

namespace twin {

bool pipes_of(AscendC::HardEvent event, Pipe *from, Pipe *to) {
    using E = AscendC::HardEvent;
    const auto is = [&](Pipe a, Pipe b) {
        *from = a;
        *to = b;
        return true;
    };
    switch (event) {
        case E::V_S:
            return is(Pipe::kV, Pipe::kS);
        case E::S_V:
            return is(Pipe::kS, Pipe::kV);
        case E::V_MTE2:
            return is(Pipe::kV, Pipe::kMTE2);
        case E::MTE2_V:
            return is(Pipe::kMTE2, Pipe::kV);
        case E::V_MTE3:
            return is(Pipe::kV, Pipe::kMTE3);
        case E::MTE3_V:
            return is(Pipe::kMTE3, Pipe::kV);
        case E::MTE2_S:
            return is(Pipe::kMTE2, Pipe::kS);
        case E::S_MTE2:
            return is(Pipe::kS, Pipe::kMTE2);
        case E::MTE3_S:
            return is(Pipe::kMTE3, Pipe::kS);
        case E::S_MTE3:
            return is(Pipe::kS, Pipe::kMTE3);
        case E::MTE2_MTE3:
            return is(Pipe::kMTE2, Pipe::kMTE3);
        case E::MTE3_MTE2:
            return is(Pipe::kMTE3, Pipe::kMTE2);
        case E::V_V:
            return is(Pipe::kV, Pipe::kV);
        default:
            return false;
    }
}

Pipe filler(AscendC::TPosition from) {
    using P = AscendC::TPosition;
    return from == P::GM || from == P::VECIN ? Pipe::kMTE2 : Pipe::kV;
}

Pipe emptier(AscendC::TPosition to) {
    using P = AscendC::TPosition;
    return to == P::GM || to == P::VECOUT ? Pipe::kMTE3 : Pipe::kV;
}

}  // namespace twin
