// Operators on whole tensors: dst = a + b calculates as many elements as dst has, dst = a < b as
// many as a has.
#pragma once

#include "twin/compare.h"
#include "twin/vector.h"

namespace twin {

void assign(const Local &dst, Types types, Op op, int mode, const Local &src0, const Local &src1,
            Where where);

// a + b, of elements T.
template <typename T>
struct Whole {
    Op op;
    Local src0, src1;
};
struct WholeComparison {
    Type type;
    AscendC::CMPMODE mode;
    Local src0, src1;
};

// What is assigned to a tensor of T. An operator has no place for a default argument, so the place
// in the user's source comes in here, on the way to operator=.
template <typename T>
struct Assigned {
    Types types;
    Op op;
    int mode;
    Local src0, src1;
    Where where;

    Assigned(const Whole<T> &e, Where where = Where::here())
        : types(types_of<T, T>()), op(e.op), mode(0), src0(e.src0), src1(e.src1), where(where) {}
    Assigned(const WholeComparison &e, Where where = Where::here())
        : types({TypeOf<T>::value, e.type}),
          op(Op::Compare),
          mode(int(e.mode)),
          src0(e.src0),
          src1(e.src1),
          where(where) {}
    void to(const Local &dst) const { assign(dst, types, op, mode, src0, src1, where); }
};

}  // namespace twin

namespace AscendC {

#define TWIN_OPERATOR(symbol, name)                                                \
    template <typename T>                                                          \
    __aicore__ inline twin::Whole<T> operator symbol(const LocalTensor<T> &src0,   \
                                                     const LocalTensor<T> &src1) { \
        TWIN_TAKES(name, T);                                                       \
        return {twin::Op::name, src0.twin_local(), src1.twin_local()};             \
    }
TWIN_OPERATOR(+, Add)
TWIN_OPERATOR(-, Sub)
TWIN_OPERATOR(*, Mul)
TWIN_OPERATOR(/, Div)
TWIN_OPERATOR(&, And)
TWIN_OPERATOR(|, Or)
#undef TWIN_OPERATOR

#define TWIN_OPERATOR(symbol, mode)                                                           \
    template <typename T>                                                                     \
    __aicore__ inline twin::WholeComparison operator symbol(const LocalTensor<T> &src0,       \
                                                            const LocalTensor<T> &src1) {     \
        TWIN_TAKES(Compare, T);                                                               \
        return {twin::TypeOf<T>::value, CMPMODE::mode, src0.twin_local(), src1.twin_local()}; \
    }
TWIN_OPERATOR(<, LT)
TWIN_OPERATOR(>, GT)
TWIN_OPERATOR(==, EQ)
TWIN_OPERATOR(<=, LE)
TWIN_OPERATOR(>=, GE)
TWIN_OPERATOR(!=, NE)
#undef TWIN_OPERATOR

}  // namespace AscendC
