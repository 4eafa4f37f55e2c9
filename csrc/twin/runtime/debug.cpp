// printf, DumpTensor, assert.
#include "twin/debug.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "arith.h"
#include "check.h"

namespace twin {
namespace {

// Text of one printf leaves in one piece, and blocks take turns: the output of a launch is the same
// on any number of threads.
void put(const std::string &text) {
    if (in_block()) {
        wait_for_turn();
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (in_block()) {
        std::fflush(stdout);  // a fault, or Python, may come next
    }
}

template <typename T>
void append(std::string *to, const std::string &spec, T value) {
    char text[512];
    const int n = std::snprintf(text, sizeof text, spec.c_str(), value);
    if (n < 0) {
        return;
    }
    if (static_cast<size_t>(n) < sizeof text) {
        to->append(text, static_cast<size_t>(n));
        return;
    }
    std::string longer(static_cast<size_t>(n) + 1, '\0');
    std::snprintf(&longer[0], longer.size(), spec.c_str(), value);
    to->append(longer, 0, static_cast<size_t>(n));
}

int64_t as_signed(const Printed &a) {
    return a.kind == Printed::kFloat ? static_cast<int64_t>(a.f) : a.s;
}

// The bits of an unsigned conversion: as many as the argument had.
uint64_t as_unsigned(const Printed &a) {
    const uint64_t bits = a.kind == Printed::kFloat ? static_cast<uint64_t>(a.f) : a.u;
    return a.bytes >= 8 ? bits : bits & ((uint64_t{1} << a.bytes * 8) - 1);
}

double as_number(const Printed &a) {
    return a.kind == Printed::kFloat      ? a.f
           : a.kind == Printed::kUnsigned ? static_cast<double>(a.u)
                                          : static_cast<double>(a.s);
}

// The arguments carry their types, so the length modifiers of the format say nothing new.
std::string formatted(const char *format, const Printed *args, unsigned n) {
    std::string out;
    unsigned next = 0;
    for (const char *c = format; *c != 0; ++c) {
        if (*c != '%') {
            out += *c;
            continue;
        }
        if (c[1] == '%') {
            out += *++c;
            continue;
        }
        std::string spec = "%";
        const char *d = c + 1;
        for (; *d != 0 && std::strchr("-+ #0123456789.*hlzjtLq", *d) != nullptr; ++d) {
            if (*d == '*') {
                spec += std::to_string(next < n ? as_signed(args[next++]) : 0);
            } else if (std::strchr("hlzjtLq", *d) == nullptr) {
                spec += *d;
            }
        }
        if (*d == 0 || next >= n) {
            out += *c;  // no conversion, or no argument for it: as it stands
            continue;
        }
        const Printed &a = args[next++];
        switch (*d) {
            case 'd':
            case 'i':
                append(&out, spec + "lld", static_cast<long long>(as_signed(a)));
                break;
            case 'u':
            case 'x':
            case 'X':
            case 'o':
                append(&out, spec + "ll" + *d, static_cast<unsigned long long>(as_unsigned(a)));
                break;
            case 'c':
                append(&out, spec + "c", static_cast<int>(as_signed(a)));
                break;
            case 's':
                append(&out, spec + "s",
                       a.kind != Printed::kText ? "(not a string)"
                       : a.p == nullptr         ? "(null)"
                                                : static_cast<const char *>(a.p));
                break;
            case 'p':
                append(&out, spec + "p", a.p);
                break;
            case 'f':
            case 'F':
            case 'e':
            case 'E':
            case 'g':
            case 'G':
            case 'a':
            case 'A':
                append(&out, spec + *d, as_number(a));
                break;
            default:
                out.append(c, static_cast<size_t>(d - c) + 1);
        }
        c = d;
    }
    return out;
}

}  // namespace

int print(const char *format, const Printed *args, unsigned n) {
    if (in_block()) {
        mark(Op::Printf);
    }
    const std::string text = formatted(format, args, n);
    put(text);
    return static_cast<int>(text.size());
}

void assert_failed(Where where, const char *condition, const char *format, const Printed *args,
                   unsigned n) {
    std::string text = std::string("Assertion `") + condition + "'";
    if (format != nullptr) {
        text += " " + formatted(format, args, n);
    }
    while (!text.empty() && text.back() == '\n') {
        text.pop_back();
    }
    put("[ASSERT] " + std::string(where.file) + ":" + std::to_string(where.line) + ": " + text +
        "\n");
    if (!in_block()) {
        std::fflush(stdout);
        std::abort();
    }
    mark(Op::Assert);
    fault(where, "mem", "assert", "%s", text.c_str());
}

void trap(Where where) {
    mark(Op::Trap);
    fault(where, "mem", "trap", "Trap was called");
}

// ---- tensors ------------------------------------------------------------------------------------

namespace {

const char *type_name(Type type) {
    switch (type) {
        case Type::kS4:
            return "int4";
        case Type::kS8:
            return "int8";
        case Type::kU8:
            return "uint8";
        case Type::kS16:
            return "int16";
        case Type::kU16:
            return "uint16";
        case Type::kS32:
            return "int32";
        case Type::kU32:
            return "uint32";
        case Type::kS64:
            return "int64";
        case Type::kU64:
            return "uint64";
        case Type::kHalf:
            return "float16";
        case Type::kBf16:
            return "bfloat16";
        case Type::kFloat:
            return "float32";
        case Type::kBool:
            return "bool";
        default:
            return "?";
    }
}

template <typename T>
T load(const uint8_t *from, uint64_t i) {
    T value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    return value;
}

void append_element(std::string *to, const uint8_t *from, uint64_t i, Type type) {
    switch (type) {
        case Type::kS4: {
            const int nibble = from[i / 2] >> i % 2 * 4 & 15;
            *to += std::to_string(nibble < 8 ? nibble : nibble - 16);
            break;
        }
        case Type::kS8:
            *to += std::to_string(load<int8_t>(from, i));
            break;
        case Type::kU8:
        case Type::kBool:
            *to += std::to_string(from[i]);
            break;
        case Type::kS16:
            *to += std::to_string(load<int16_t>(from, i));
            break;
        case Type::kU16:
            *to += std::to_string(load<uint16_t>(from, i));
            break;
        case Type::kS32:
            *to += std::to_string(load<int32_t>(from, i));
            break;
        case Type::kU32:
            *to += std::to_string(load<uint32_t>(from, i));
            break;
        case Type::kS64:
            *to += std::to_string(load<int64_t>(from, i));
            break;
        case Type::kU64:
            *to += std::to_string(load<uint64_t>(from, i));
            break;
        case Type::kHalf:
            append(to, "%f", double(half_to_float(load<uint16_t>(from, i))));
            break;
        case Type::kBf16:
            append(to, "%f", double(bfloat16_to_float(load<uint16_t>(from, i))));
            break;
        case Type::kFloat:
            append(to, "%f", double(load<float>(from, i)));
            break;
        default:
            *to += '?';
    }
}

// Rows in brackets; what the shape has and the dump has not is "-".
void append_rows(std::string *to, const uint8_t *from, Type type, uint32_t count,
                 const uint32_t *shape, uint32_t dims, uint64_t *next) {
    *to += '[';
    for (uint32_t i = 0; i < shape[0]; ++i) {
        if (dims > 1) {
            *to += i != 0 ? ",\n" : "";
            append_rows(to, from, type, count, shape + 1, dims - 1, next);
            continue;
        }
        *to += i != 0 ? ", " : "";
        if (*next < count) {
            append_element(to, from, (*next)++, type);
        } else {
            *to += '-';
        }
    }
    *to += ']';
}

void dump(const uint8_t *from, uint64_t address, const char *position, Type type, uint32_t desc,
          uint32_t count, const AscendC::ShapeInfo *shape) {
    char head[160];
    std::snprintf(head, sizeof head,
                  "DumpTensor: desc=%u, addr=%llx, data_type=%s, position=%s, dump_size=%u\n", desc,
                  static_cast<unsigned long long>(address), type_name(type), position, count);
    std::string text = head;
    uint64_t next = 0;
    if (shape != nullptr && shape->shapeDim != 0) {
        append_rows(&text, from, type, count, shape->shape, shape->shapeDim, &next);
    } else {
        append_rows(&text, from, type, count, &count, 1, &next);
    }
    put(text + "\n");
}

uint64_t bytes_in(Type type, uint64_t n) {
    return type == Type::kS4 ? (n + 1) / 2 : n * size_of(type);
}

}  // namespace

void dump_tensor(Op op, const Local &tensor, Type type, uint32_t desc, uint64_t first,
                 uint32_t count, const AscendC::ShapeInfo *shape, Where where) {
    const Block &b = mark(op);
    const uint64_t offset = static_cast<uint64_t>(tensor.address - b.ub) + bytes_in(type, first);
    if (offset + bytes_in(type, count) > b.arch->ub_bytes) {
        fault(where, "mem", "out-of-bounds",
              "%s of %u elements from UB offset %lld on, which are not all in the %u bytes of UB "
              "of %s",
              op_name(op), count, static_cast<long long>(offset), b.arch->ub_bytes, b.arch->name);
    }
    dump(b.ub + offset, offset, "UB", type, desc, count, shape);
}

void dump_tensor(Op op, const Global &tensor, Type type, uint32_t desc, uint64_t first,
                 uint32_t count, const AscendC::ShapeInfo *shape, Where where) {
    mark(op);
    if (tensor.address == nullptr) {
        fault(where, "mem", "null-address", "%s of a tensor in GM with a null address",
              op_name(op));
    }
    const uint64_t offset = bytes_in(type, first);
    if (offset + bytes_in(type, count) > tensor.bytes) {
        fault(where, "mem", "gm-declared",
              "%s of %u elements from byte %llu on of a tensor in GM of %llu bytes", op_name(op),
              count, static_cast<unsigned long long>(offset),
              static_cast<unsigned long long>(tensor.bytes));
    }
    dump(tensor.address + offset, reinterpret_cast<uint64_t>(tensor.address) + offset, "GM", type,
         desc, count, shape);
}

void print_tensor(const Local &tensor, Type type, uint32_t elements, Where where) {
    dump_tensor(Op::DumpTensor, tensor, type, 0, 0, elements, nullptr, where);
}

bool write_tensor(const Local &tensor, const char *path) {
    std::FILE *file = std::fopen(path, "wb");
    if (file == nullptr) {
        return false;
    }
    const bool written = std::fwrite(tensor.address, 1, tensor.bytes, file) == tensor.bytes;
    return (std::fclose(file) == 0) && written;
}

}  // namespace twin
