"""The Ascend C functions as data: `workbench/data/ascend_api.json` and what is made of it.

python -m workbench.build.api      # write the headers, op_names.inc and the table of docs/twin.md
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from workbench import paths
from workbench.build import arch as architectures

INCLUDE = paths.TWIN / "include" / "twin"
HEADER = INCLUDE / "api.h"
REFUSED = INCLUDE / "refused.h"
OP_NAMES = paths.TWIN / "runtime" / "op_names.inc"
DOC = paths.CSRC.parent / "docs" / "twin.md"
BEGIN, END = "<!-- api table -->", "<!-- /api table -->"

# C++ type -> (enumerator of twin::Type, short name in docs/twin.md). The order is the code.
TYPES = {
    "int4b_t": ("kS4", "i4"),
    "int8_t": ("kS8", "i8"),
    "uint8_t": ("kU8", "u8"),
    "int16_t": ("kS16", "i16"),
    "uint16_t": ("kU16", "u16"),
    "int32_t": ("kS32", "i32"),
    "uint32_t": ("kU32", "u32"),
    "int64_t": ("kS64", "i64"),
    "uint64_t": ("kU64", "u64"),
    "half": ("kHalf", "half"),
    "bfloat16_t": ("kBf16", "bf16"),
    "float": ("kFloat", "float"),
    "double": ("kDouble", "double"),
    "bool": ("kBool", "bool"),
}
CODES = {name: code for code, name in enumerate(TYPES)}

# Modes of Cast in the order of AscendC::RoundMode; DEQ: the mode has no effect, SetDeqScale scales.
MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD", "DEQ")

GROUPS = (
    "types",
    "resource",
    "copy",
    "unary",
    "binary",
    "scalar",
    "fused",
    "logic",
    "shift",
    "cast",
    "compare",
    "select",
    "fill",
    "gather",
    "transpose",
    "sort",
    "reduction",
    "mask",
    "atomics",
    "sync",
    "cache",
    "system",
    "scalar unit",
    "debug",
    "high-level",
    "words",
    "tiling",
    "host",
    "cube",
    "register API",
    "SIMT",
    "Hccl",
)
FORMS = (
    *("count", "mask", "bits", "repeat", "params", "slice"),
    *("register", "pattern", "tensor", "block", "ext", "list"),
)
KINDS = ("function", "class", "word", "macro")
PIPES = ("V", "S", "MTE2", "MTE3", "MTE", "-")  # MTE: by direction
FIDELITIES = ("exact", "assumed", "approximate")
STATUSES = ("supported", "refused")

# Why something is refused, as the sentence that the compiler prints.
REASONS = {
    "cube": "{} needs the cube unit, which the twin does not have: it runs vector kernels only",
    "reg": "{} belongs to the register API of dav-3510, which the twin does not have: use the "
    "functions on LocalTensor",
    "simt": "{} belongs to the SIMT API of dav-3510, which the twin does not have: use the "
    "functions on LocalTensor",
    "hccl": "{} communicates between devices, which the twin does not do: it runs one device",
    "tiling": "{} reads what the operator framework writes, which the twin does not have: pass "
    "the values as kernel arguments",
    "cpu": "{} belongs to the CPU mode of the vendor's toolkit: launch with <<<...>>> or from "
    "Python",
    "absent": "{} is not in the twin",
}
# Groups that no instruction comes from: declarations, host calls, what is refused as a whole.
_NO_OPS = frozenset({"words", "tiling", "host", "cube", "register API", "SIMT", "Hccl"})


@dataclass(frozen=True)
class Function:
    """One entry of the table: a function, class, keyword-like word or macro of Ascend C.

    `dtypes` are element types by architecture; an empty list: it does not exist there. Without any
    it has no element type and exists on `archs`. `count_only`: types that only the first-n form
    takes. `pairs`: [dst, src] where the two differ (`dtypes` are the sources' then).
    """

    name: str
    group: str
    kind: str = "function"
    forms: list[str] = field(default_factory=list)
    dtypes: dict[str, list[str]] = field(default_factory=dict)
    archs: list[str] = field(default_factory=list)
    pairs: dict[str, list[list[str]]] = field(default_factory=dict)
    count_only: dict[str, list[str]] = field(default_factory=dict)
    fidelity: str = "exact"
    fidelity_on: dict[str, str] = field(default_factory=dict)
    pipe: str = "-"
    aliases: list[str] = field(default_factory=list)
    status: str = "supported"
    reason: str = ""
    confirmed: bool = True
    op: str = ""
    namespaces: list[str] = field(default_factory=list)
    template: str = ""
    note: str = ""

    @property
    def is_op(self) -> bool:
        """Whether it executes something, and so has an enumerator in `twin::Op`."""
        return self.kind == "function" and self.status == "supported" and self.group not in _NO_OPS

    @property
    def op_name(self) -> str:
        """The enumerator: the name, except where that is a macro of the C library."""
        return self.op or self.name

    def exists_on(self, arch: str) -> bool:
        """Whether the architecture has it."""
        if self.dtypes:
            return bool(self.dtypes.get(arch))
        return not self.archs or arch in self.archs

    def fidelity_of(self, arch: str) -> str:
        """exact, assumed or approximate."""
        return self.fidelity_on.get(arch, self.fidelity)

    @property
    def sentence(self) -> str:
        """What the compiler says where it is refused."""
        return sentence(self.name, self.reason)


def sentence(name: str, reason: str) -> str:
    """The one sentence for the refused `name`."""
    return f"{REASONS[reason].format(name)} (docs/twin.md)"


@functools.cache
def _raw() -> dict:
    return json.loads((paths.DATA / "ascend_api.json").read_text())


@functools.cache
def load() -> dict[str, Function]:
    """All entries by name.

    Example:
        >>> load()["Add"].dtypes["dav-2201"]
        ['int16_t', 'half', 'int32_t', 'float']
    """
    return {name: Function(name, **entry) for name, entry in _raw()["functions"].items()}


def casts(arch: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """(from, to, modes) that `Cast` has on `arch`; DEQ: any mode, scaled by SetDeqScale."""
    return [(src, dst, tuple(modes)) for src, dst, modes in _raw()["casts"][arch]]


def ops() -> list[Function]:
    """The entries with an enumerator in `twin::Op`, in its order."""
    return [f for f in load().values() if f.is_op]


# ---- api.h, op_names.inc -------------------------------------------------------------------------

_HEAD = [
    "// Generated from workbench/data/ascend_api.json by `python -m workbench.build.api`.",
    "// Do not edit: a test compares.",
    "// clang-format off",
]


def _mask(types: Iterable[str]) -> int:
    return sum(1 << CODES[t] for t in types)


def takes_text(function: Function, arch: str) -> str:
    """The static_assert's text where an instruction does not take a type."""
    if not function.exists_on(arch):
        return f"{function.name} does not exist on {arch} (docs/twin.md)"
    if not function.dtypes:
        return f"{function.name} is on {arch} (docs/twin.md)"
    what = f"{function.name} on {arch} takes {', '.join(function.dtypes[arch])}"
    pairs = function.pairs.get(arch)
    if pairs:
        what += " (" + ", ".join(f"{dst} from {src}" for dst, src in pairs) + ")"
    only = function.count_only.get(arch)
    if only:
        what += f" ({', '.join(only)} only with a count)"
    return f"{what} (docs/twin.md)"


def header_text() -> str:
    """The text of `twin/api.h`: what does not depend on the architecture."""
    lines = [*_HEAD, "#pragma once", "", "#include <cstdint>", "", "namespace twin {", ""]
    lines += ["// One per instruction; overloads share one.", "enum class Op : uint16_t {"]
    lines += [f"    {f.op_name}," for f in ops()]
    lines += ["    kCount", "};", ""]
    lines += [
        "extern const char *const kOpNames[];     // as the user writes it",
        "// 0 documented-exact, 1 assumed, 2 approximate; by kArchIndex.",
        f"extern const uint8_t kOpFidelity[][{len(architectures.names())}];",
        "",
        "// Element types; the bit of a type in kTakes_… is 1 << its code.",
        "enum class Type : uint8_t {",
    ]
    lines += [f"    {code},  // {name}" for name, (code, _) in TYPES.items()]
    lines += [
        "    kCount",
        "};",
        "",
        "// kTakes_Add: the types that Add takes on this architecture (all bits where it has no",
        "// element type, 0 where it does not exist); kMasked_Add: those of its forms with a mask;",
        "// kFrom_Axpy[dst type]: the source types; kCastModes[from][to]: 1 << RoundMode, and 128",
        "// where the mode has no effect and SetDeqScale scales (0: no such cast).",
        "// TWIN_TAKES_TEXT_Add: the sentence for the static_assert.",
        "}  // namespace twin",
        "",
        "#if defined(WB_TWIN_ARCH)",
    ]
    for i, name in enumerate(architectures.names()):
        number = architectures.load(name).number
        lines += [
            f"#{'el' if i else ''}if WB_TWIN_ARCH == {number}",
            f'#include "api_{number}.h"',
        ]
    lines += ["#endif", "#endif", ""]
    return "\n".join(lines)


def arch_header(arch: str) -> Path:
    """The header with what `arch` takes."""
    return INCLUDE / f"api_{architectures.load(arch).number}.h"


def arch_header_text(arch: str) -> str:
    """The text of `twin/api_2201.h` and relatives: what each instruction takes there."""
    lines = [*_HEAD, "#pragma once", "", f'#define TWIN_ARCH_NAME "{arch}"', "", "namespace twin {"]
    lines += [f"constexpr unsigned kArchIndex = {architectures.names().index(arch)};", ""]
    texts = []
    for f in ops():
        types = f.dtypes.get(arch, [])
        mask = _mask(types) if f.dtypes else (0xFFFFFFFF if f.exists_on(arch) else 0)
        lines.append(f"constexpr uint32_t kTakes_{f.op_name} = 0x{mask:x};")
        if {"mask", "bits"} & set(f.forms):
            masked = _mask(t for t in types if t not in f.count_only.get(arch, []))
            lines.append(f"constexpr uint32_t kMasked_{f.op_name} = 0x{masked:x};")
        if f.pairs:
            pairs = f.pairs.get(arch, [])
            sources = [hex(_mask(src for dst, src in pairs if dst == to)) for to in TYPES]
            lines.append(f"constexpr uint32_t kFrom_{f.op_name}[] = {{{', '.join(sources)}}};")
        texts.append(f'#define TWIN_TAKES_TEXT_{f.op_name} "{takes_text(f, arch)}"')
    modes = {(src, dst): sum(1 << MODES.index(m) for m in names) for src, dst, names in casts(arch)}
    lines += ["", f"constexpr uint8_t kCastModes[{len(TYPES)}][{len(TYPES)}] = {{"]
    for src in TYPES:
        row = ", ".join(str(modes.get((src, dst), 0)) for dst in TYPES)
        lines.append(f"    {{{row}}},  // from {src}")
    lines += ["};", "}  // namespace twin", "", *texts, ""]
    return "\n".join(lines)


def op_names_text() -> str:
    """The text of `op_names.inc`: definitions for the runtime, which serves every architecture."""
    archs = architectures.names()
    fidelity = [
        "{" + ", ".join(str(FIDELITIES.index(f.fidelity_of(a))) for a in archs) + "}" for f in ops()
    ]
    return "\n".join(
        [
            *_HEAD,
            "// To be included inside namespace twin, after twin/api.h.",
            "const char *const kOpNames[] = {",
            *_packed(f'"{f.name}"' for f in ops()),
            "};",
            f"// {', '.join(archs)}",
            f"const uint8_t kOpFidelity[][{len(archs)}] = {{",
            *_packed(fidelity),
            "};",
            "",
        ]
    )


def _packed(items: Iterable[str]) -> list[str]:
    """The items with commas, as many to a line as fit."""
    lines = [""]
    for item in items:
        if len(lines[-1]) + len(item) > 94:
            lines.append("")
        lines[-1] += f"{item}, "
    return [f"    {line.rstrip()}" for line in lines]


# ---- refused.h -----------------------------------------------------------------------------------


_SHAPES = (  # template parameters of a stub, what its static_assert depends on
    ("typename... X", "refused_types<X...>"),
    ("typename A, auto V, auto... X", "refused_values<V>"),
    ("auto V, auto... X", "refused_values<V>"),
    ("typename A, typename B, auto V, auto... X", "refused_values<V>"),
)


def _refused_function(function: Function, name: str, why: str) -> list[str]:
    wide = function.group == "cube" or function.template
    return [
        f"template <{shape}> TWIN_NO({why}) int {name}(...) TWIN_BODY({why}, {depends})"
        for shape, depends in _SHAPES[: None if wide else 2]
    ]


def _refused_class(name: str, template: str, why: str) -> list[str]:
    if not template:
        return [f"class TWIN_NO({why}) {name} {{}};"]
    first, *more = template.split(",", 1)
    kind = "types" if first.startswith("typename") else "values"
    depends = f"refused_{kind}<A{'...' * ('...' in first)}>"
    parameters = ",".join([f"{first} A", *more])
    return [f"template <{parameters}> class TWIN_NO({why}) {name} TWIN_CLASS({why}, {depends});"]


def refused_text() -> str:
    """The text of `twin/refused.h`: one sentence at the user's line for what the twin refuses.

    A stub takes anything by a C ellipsis, the worst match there is, so that a user's own function
    of the same name wins. Words and macros cannot be declared: they expand to an error.
    """
    lines = [
        *_HEAD,
        "// A use of one of these names fails to compile with one sentence, at the user's line.",
        "// The ellipsis is the worst match there is: a user's own function of that name wins.",
        "#pragma once",
        "",
        "#if defined(__has_attribute)",
        "#if __has_attribute(unavailable)",
        "#define TWIN_NO(why) __attribute__((unavailable(why)))",
        "#define TWIN_BODY(why, ...) ;",
        "#endif",
        "#endif",
        "#if !defined(TWIN_NO)  // g++ before 12: the error stands at the stub, the warning here",
        "#define TWIN_NO(why) [[deprecated(why)]]",
        "#define TWIN_BODY(why, ...) { static_assert(::twin::__VA_ARGS__, why); return 0; }",
        "#define TWIN_CLASS(why, ...) { static_assert(::twin::__VA_ARGS__, why); }",
        "#elif defined(__clang__) && __clang_major__ < 18  // overlooks it on a class template",
        "#define TWIN_CLASS(why, ...) { static_assert(::twin::__VA_ARGS__, why); }",
        "#else",
        "#define TWIN_CLASS(why, ...) {}",
        "#endif",
        "",
        "namespace twin {",
        "template <typename...> constexpr bool refused_types = false;",
        "template <auto...> constexpr bool refused_values = false;",
        "}  // namespace twin",
        "",
    ]
    for reason in REASONS:
        lines.append(f'#define TWIN_{reason.upper()} "{sentence("", reason)}"')
    lines.append("")
    spaces: dict[str, list[str]] = {}
    words = []
    for f in load().values():
        if f.status != "refused":
            continue
        for name in (f.name, *f.aliases):
            if f.kind in ("word", "macro"):
                parameters = "(...)" if f.kind == "macro" else ""
                words += [
                    f"#undef {name}",
                    f"#define {name}{parameters} "
                    f'_Pragma("GCC error \\"{sentence(name, f.reason)}\\"")',
                ]
                continue
            why = f'"{name}" TWIN_{f.reason.upper()}'
            for space in f.namespaces or ["AscendC"]:
                spaces.setdefault(space, []).extend(
                    _refused_class(name, f.template, why)
                    if f.kind == "class"
                    else _refused_function(f, name, why)
                )
    for space, stubs in spaces.items():
        lines += [f"namespace {space} {{", *stubs, f"}}  // namespace {space}", ""]
    lines += ["namespace AscendC {", "namespace MicroAPI = Reg;", "}  // namespace AscendC", ""]
    lines += words
    return "\n".join([*lines, ""])


# ---- docs/twin.md --------------------------------------------------------------------------------

_DOC_HEAD = """# The twin

Ascend C on the CPU: what runs, what is refused, and how faithful each result is.

"""


def _short(types: Iterable[str]) -> str:
    return " ".join(TYPES[t][1] for t in types)


def _types_cell(function: Function, arch: str) -> str:
    if not function.exists_on(arch):
        return "–"
    if not function.dtypes:
        return "yes"
    pairs = function.pairs.get(arch)
    if pairs:
        return ", ".join(f"{TYPES[dst][1]}←{TYPES[src][1]}" for dst, src in pairs)
    only = function.count_only.get(arch, [])
    cell = _short(t for t in function.dtypes[arch] if t not in only)
    return f"{cell}; count: {_short(only)}".removeprefix("; ") if only else cell


def _group_table(group: str) -> list[str]:
    archs = architectures.names()
    functions = [f for f in load().values() if f.group == group]
    typed = any(f.dtypes or f.archs for f in functions)
    columns = ["name", "also called", "forms", *(archs if typed else [])]
    columns += ["fidelity", "status", "notes"]
    lines = [f"### {group[0].upper()}{group[1:]}", "", f"| {' | '.join(columns)} |"]
    lines.append("|" + "---|" * len(columns))
    for f in functions:
        fidelity = f.fidelity + "".join(f", {v} on {a}" for a, v in f.fidelity_on.items())
        note = f.note.replace("|", "\\|")
        if f.status == "refused" and f.reason != "absent":
            note = f"{note}; {f.reason}".removeprefix("; ")
        cells = [f"`{f.name}`" + ("" if f.confirmed else " †")]
        cells += [" ".join(f"`{a}`" for a in f.aliases), " ".join(f.forms)]
        cells += [_types_cell(f, a) for a in archs] if typed else []
        cells += [fidelity if f.is_op else "", f.status, note]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _cast_table() -> list[str]:
    archs = architectures.names()
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for a in archs:
        for src, dst, modes in casts(a):
            text = "scaled by SetDeqScale" if "DEQ" in modes else " ".join(modes)
            rows.setdefault((src, dst), {})[a] = text
    lines = ["### Casts", "", f"| from | to | {' | '.join(archs)} |", "|" + "---|" * 6]
    for src, dst in sorted(rows, key=lambda r: (CODES[r[0]], CODES[r[1]])):
        cells = " | ".join(rows[src, dst].get(a, "–") for a in archs)
        lines.append(f"| {TYPES[src][1]} | {TYPES[dst][1]} | {cells} |")
    return [*lines, ""]


def doc_text() -> str:
    """The table of docs/twin.md, between (and with) its markers."""
    functions = load().values()
    supported = sum(f.status == "supported" for f in functions)
    lines = [
        BEGIN,
        "<!-- Generated by `python -m workbench.build.api` from workbench/data/ascend_api.json -->",
        "",
        f"{supported} names supported, {len(functions) - supported} refused: a refused name fails "
        "to compile with one sentence.",
        "Types by architecture; `a←b`: destination from source; `count`: only with the first-n "
        "form; –: does not exist there.",
        "†: from general knowledge of the vendor's documentation, not looked up.",
        "",
    ]
    for group in GROUPS:
        lines += _group_table(group)
        if group == "cast":
            lines += _cast_table()
    return "\n".join([*lines, END])


def doc_with_table(text: str) -> str:
    """`text` of docs/twin.md with its table made anew (added at the end where it has none)."""
    if BEGIN not in text:
        return f"{text.rstrip()}\n\n## Functions\n\n{doc_text()}\n"
    before, _, rest = text.partition(BEGIN)
    return before + doc_text() + rest.partition(END)[2]


def generated() -> dict[Path, str]:
    """Path and text of every generated file."""
    files = {HEADER: header_text(), REFUSED: refused_text(), OP_NAMES: op_names_text()}
    files |= {arch_header(a): arch_header_text(a) for a in architectures.names()}
    return files


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text)
        print(f"wrote {path}")
    DOC.write_text(doc_with_table(DOC.read_text() if DOC.exists() else _DOC_HEAD))
    print(f"wrote {DOC}")
