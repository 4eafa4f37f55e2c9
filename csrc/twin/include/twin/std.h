// AscendC::Std, which kernels use instead of the C++ library, and NumericLimits.
#pragma once

#include "twin/tensor.h"

namespace AscendC {
namespace Std {

template <typename T, T v>
struct integral_constant {
    static constexpr T value = v;
    using value_type = T;
    using type = integral_constant;
    constexpr operator T() const { return v; }
    constexpr T operator()() const { return v; }
};
template <bool v>
using bool_constant = integral_constant<bool, v>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;
template <size_t v>
using Int = integral_constant<size_t, v>;

template <typename A, typename B>
struct is_same : bool_constant<IsSameType<A, B>::value> {};
template <typename A, typename B>
constexpr bool is_same_v = is_same<A, B>::value;
template <typename Base, typename Derived>
struct is_base_of : bool_constant<__is_base_of(Base, Derived)> {};
template <typename Base, typename Derived>
constexpr bool is_base_of_v = is_base_of<Base, Derived>::value;

template <typename To>
true_type converts(To);
template <typename To>
false_type converts(...);
template <typename T>
T &&any_of();
template <typename From, typename To>
struct is_convertible : decltype(converts<To>(any_of<From>())) {};
template <typename From, typename To>
constexpr bool is_convertible_v = is_convertible<From, To>::value;

template <bool condition, typename T = void>
struct enable_if {};
template <typename T>
struct enable_if<true, T> {
    using type = T;
};
template <bool condition, typename T = void>
using enable_if_t = typename enable_if<condition, T>::type;

template <bool condition, typename A, typename B>
struct conditional {
    using type = A;
};
template <typename A, typename B>
struct conditional<false, A, B> {
    using type = B;
};
template <bool condition, typename A, typename B>
using conditional_t = typename conditional<condition, A, B>::type;

template <typename T>
struct remove_const {
    using type = T;
};
template <typename T>
struct remove_const<const T> {
    using type = T;
};
template <typename T>
struct remove_reference {
    using type = T;
};
template <typename T>
struct remove_reference<T &> {
    using type = T;
};
template <typename T>
struct remove_reference<T &&> {
    using type = T;
};
template <typename T>
using remove_const_t = typename remove_const<T>::type;
template <typename T>
using remove_reference_t = typename remove_reference<T>::type;
template <typename T>
using remove_cvref_t = remove_const_t<remove_reference_t<T>>;

template <typename T, T... v>
struct integer_sequence {
    using value_type = T;
    static constexpr size_t size() { return sizeof...(v); }
};
template <size_t... v>
using index_sequence = integer_sequence<size_t, v...>;
#if defined(__clang__)
template <typename T, T n>
using make_integer_sequence = __make_integer_seq<integer_sequence, T, n>;
#else
template <typename T, T n>
using make_integer_sequence = integer_sequence<T, __integer_pack(n)...>;
#endif
template <size_t n>
using make_index_sequence = make_integer_sequence<size_t, n>;

template <typename T, typename U>
__aicore__ constexpr T max(const T &a, const U &b) {
    return a > static_cast<T>(b) ? a : static_cast<T>(b);
}
template <typename T, typename U>
__aicore__ constexpr T min(const T &a, const U &b) {
    return a < static_cast<T>(b) ? a : static_cast<T>(b);
}

// ---- tuple --------------------------------------------------------------------------------------

template <typename... Ts>
struct tuple;
template <>
struct tuple<> {};
template <typename T, typename... Ts>
struct tuple<T, Ts...> : tuple<Ts...> {
    tuple() = default;
    constexpr explicit tuple(const T &head, const Ts &...rest)
        : tuple<Ts...>(rest...), head(head) {}
    T head{};
};

template <size_t i, typename T, typename... Ts>
__aicore__ constexpr auto &get(tuple<T, Ts...> &t) {
    if constexpr (i == 0) {
        return t.head;
    } else {
        return get<i - 1>(static_cast<tuple<Ts...> &>(t));
    }
}
template <size_t i, typename T, typename... Ts>
__aicore__ constexpr const auto &get(const tuple<T, Ts...> &t) {
    if constexpr (i == 0) {
        return t.head;
    } else {
        return get<i - 1>(static_cast<const tuple<Ts...> &>(t));
    }
}
template <typename... Ts>
__aicore__ constexpr tuple<Ts...> make_tuple(const Ts &...values) {
    return tuple<Ts...>(values...);
}
template <typename T>
struct tuple_size;
template <typename... Ts>
struct tuple_size<tuple<Ts...>> : integral_constant<size_t, sizeof...(Ts)> {};
template <typename T>
constexpr size_t tuple_size_v = tuple_size<remove_cvref_t<T>>::value;
template <size_t i, typename T>
struct tuple_element;
template <size_t i, typename T, typename... Ts>
struct tuple_element<i, tuple<T, Ts...>> : tuple_element<i - 1, tuple<Ts...>> {};
template <typename T, typename... Ts>
struct tuple_element<0, tuple<T, Ts...>> {
    using type = T;
};
template <size_t i, typename T>
using tuple_element_t = typename tuple_element<i, T>::type;

}  // namespace Std

// The range of an element type.
template <typename T>
struct NumericLimits {
    static_assert(T(-1) < T(0) || T(-1) > T(0), "NumericLimits of a type that is no number");
    static constexpr bool kSigned = T(-1) < T(0);
    __aicore__ static constexpr T Max() {
        return kSigned ? T((uint64_t{1} << (8 * sizeof(T) - 1)) - 1) : T(~uint64_t{0});
    }
    __aicore__ static constexpr T Lowest() { return kSigned ? T(-Max() - 1) : T(0); }
    __aicore__ static constexpr T Min() { return Lowest(); }
};

#define TWIN_FLOAT_LIMITS(T, Bits, max, min, infinity, nan, denorm)                   \
    template <>                                                                       \
    struct NumericLimits<T> {                                                         \
        static T of(Bits bits) {                                                      \
            T value;                                                                  \
            __builtin_memcpy(&value, &bits, sizeof value);                            \
            return value;                                                             \
        }                                                                             \
        static constexpr Bits kSign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));        \
        __aicore__ static T Max() { return of(max); }                                 \
        __aicore__ static T Lowest() { return of(Bits(max | kSign)); }                \
        __aicore__ static T Min() { return of(min); }                                 \
        __aicore__ static T Infinity() { return of(infinity); }                       \
        __aicore__ static T NegativeInfinity() { return of(Bits(infinity | kSign)); } \
        __aicore__ static T QuietNaN() { return of(nan); }                            \
        __aicore__ static T DenormMin() { return of(denorm); }                        \
    };
TWIN_FLOAT_LIMITS(float, uint32_t, 0x7f7fffffu, 0x00800000u, 0x7f800000u, 0x7fc00000u, 1u)
TWIN_FLOAT_LIMITS(half, uint16_t, 0x7bff, 0x0400, 0x7c00, 0x7e00, 1)
TWIN_FLOAT_LIMITS(bfloat16_t, uint16_t, 0x7f7f, 0x0080, 0x7f80, 0x7fc0, 1)
#undef TWIN_FLOAT_LIMITS

}  // namespace AscendC
