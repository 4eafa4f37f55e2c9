"""The source pass: what has to be known of an `.asc` file, and what has to be rewritten, before a
C++ compiler sees it.

It is not a C++ parser. It finds `__global__` functions with their parameters and namespaces, and
the launch syntax `kernel<<<blocks, l2ctrl, stream>>>(…)`, in text whose comments and literals are
blanked out. Line numbers never change.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

_LITERALS = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?\*/|R"(?P<d>[^()\s\\]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?:\b[uUL]|\bu8|(?<![0-9a-zA-Z_]))'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_KERNEL = re.compile(
    r"\b__global__\b(?P<words>[^;{}()]*?(?:\(\([^()]*\)\)[^;{}()]*?)*)\bvoid\s+(?P<name>\w+)\s*\("
)
_LAUNCH = re.compile(
    r"(?P<callee>(?:::)?[A-Za-z_]\w*(?:\s*::\s*\w+)*(?:\s*<(?:[^<>;(){}]|<[^<>;(){}]*>)*>)?)\s*<<<"
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define\b(?:\\\n|[^\n])*", re.MULTILINE)
_CONDITION = re.compile(
    r"^[ \t]*#[ \t]*(?P<word>if|ifdef|ifndef|elif|else|endif)\b(?:\\\n|[^\n])*", re.MULTILINE
)
_GUARD = re.compile(r"#[ \t]*(?:ifndef[ \t]+|if[ \t]+!defined[ \t]*\(?[ \t]*)(?P<name>\w+)")
# A last word that is part of the type, not the parameter's name: `unsigned int`.
_TYPE_WORDS = frozenset(
    ["bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned"]
    + ["half", "bfloat16_t", "size_t", "GM_ADDR"]
    + [f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)]
)


class SourceError(ValueError):
    """Launch syntax or a kernel signature that the source pass cannot read. Has `.line`."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str

    @property
    def is_address(self) -> bool:
        return "*" in self.type or "GM_ADDR" in self.type


@dataclass(frozen=True)
class KernelDecl:
    """A `__global__` function: `name` with its namespaces, its parameters, whether it is a
    template, and the `#if …` lines that it stands under (one text per level)."""

    name: str
    parameters: tuple[Parameter, ...]
    line: int
    template: bool
    guards: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        return self.name.rsplit("::", 1)[-1]


@dataclass(frozen=True)
class Source:
    """An `.asc` text as the twin's compiler sees it, and the kernels in it."""

    text: str
    kernels: tuple[KernelDecl, ...]
    has_main: bool

    @property
    def launchable(self) -> tuple[KernelDecl, ...]:
        return tuple(k for k in self.kernels if not k.template)


def blank(text: str) -> str:
    """`text` with comments, literals and `#if 0` parts as spaces: same length, same lines."""
    out = _LITERALS.sub(lambda m: _spaces(m.group()), text)
    for start, end in _if_zero_parts(out):
        out = out[:start] + _spaces(out[start:end]) + out[end:]
    return out


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _if_zero_parts(text: str) -> list[tuple[int, int]]:
    parts, depth, start = [], 0, None
    for m in re.finditer(r"^[ \t]*#[ \t]*(if\w*|else|elif|endif)\b([^\n]*)", text, re.MULTILINE):
        word, rest = m.group(1), m.group(2).strip()
        if word.startswith("if"):
            depth += 1
            if start is None and word == "if" and rest == "0":
                start = (m.end(), depth)
        elif start is not None and depth == start[1]:
            parts.append((start[0], m.start()))
            start = None
        if word == "endif":
            depth -= 1
    return parts


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _closing(text: str, at: int) -> int:
    """Index of the parenthesis that closes the one at `at`, or -1."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return i
    return -1


def never_closed(text: str) -> int | None:
    """Line of the first `{` that no `}` closes, or None."""
    opened: list[int] = []
    for m in re.finditer(r"[{}]", blank(text)):
        if m.group() == "{":
            opened.append(m.start())
        elif opened:
            opened.pop()
    return _line(text, opened[0]) if opened else None


def _split(text: str) -> list[str]:
    """`text` split at commas outside any bracket."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        if c in "(<[{":
            depth += 1
        elif c in ")>]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    parts.append(text[last:])
    return [p.strip() for p in parts if p.strip()]


def _parameter(text: str, index: int, line: int) -> Parameter:
    text = " ".join(text.split("=", 1)[0].split())
    m = re.fullmatch(r"(?P<type>.*[\s*&])(?P<name>\w+)", text)
    if m is None or m["name"] in _TYPE_WORDS:
        kind, name = text, f"arg{index}"  # it has no name, as in a forward declaration
    else:
        kind, name = m["type"], m["name"]
    kind = re.sub(r"\b(const|volatile|__restrict__|__restrict)\b\s*", "", kind).strip()
    if "&" in kind:
        raise SourceError(f"kernel parameter {name!r} is a reference; pass it by value", line)
    if not re.fullmatch(r"[\w:<>,*\s]+", kind):
        raise SourceError(f"kernel parameter {index} cannot be read: {text!r}", line)
    return Parameter(name, kind)


def _namespaces(blanked: str, at: int) -> list[str]:
    """Names of the namespaces that are open at `at`."""
    stack: list[str | None] = []
    for m in re.finditer(r"\bnamespace\s+([\w:]*)\s*\{|\{|\}", blanked[:at]):
        if m.group() == "}":
            if stack:
                stack.pop()
        else:
            stack.append(m.group(1) if m.group(1) is not None else None)
    return [name for name in stack if name]


def _is_template(blanked: str, at: int) -> bool:
    before = re.sub(
        r"(extern\s*|__attribute__\s*\(\(.*?\)\)\s*|\[\[.*?\]\]\s*)+$", "", blanked[:at].rstrip()
    )
    before = before.rstrip()
    if not before.endswith(">"):
        return False
    depth = 0
    for i in range(len(before) - 1, -1, -1):
        depth += {">": 1, "<": -1}.get(before[i], 0)
        if depth == 0:
            return before[:i].rstrip().endswith("template")
    return False


@functools.lru_cache(maxsize=64)
def parse(text: str) -> Source:
    """Read an `.asc` text.

    Raises:
        SourceError: A launch or a signature that cannot be read; `.line` says where.

    Example:
        >>> parse('extern "C" __global__ __aicore__ void k(GM_ADDR x, int n) {}').kernels[0].name
        'k'
    """
    blanked = blank(text)
    # The text of a macro is no kernel.
    plain = _DEFINE.sub(lambda m: _spaces(m.group()), blanked)
    found: list[tuple[bool, KernelDecl]] = []
    for m in _KERNEL.finditer(plain):
        line = _line(blanked, m.start())
        open_at = m.end() - 1
        close_at = _closing(blanked, open_at)
        if close_at < 0:
            raise SourceError(f"the parameter list of kernel {m['name']} has no end", line)
        parameters = tuple(
            _parameter(p, i, line)
            for i, p in enumerate(_split(blanked[open_at + 1 : close_at]))
            if p != "void"
        )
        name = "::".join([*_namespaces(blanked, m.start()), m["name"]])
        guards = _guards(text, blanked, m.start())
        defined = re.match(r"[^;{]*\{", blanked[close_at + 1 :]) is not None
        template = _is_template(blanked, m.start())
        found.append((defined, KernelDecl(name, parameters, line, template, guards)))
    has_main = re.search(r"\b(?:int|auto)\s+main\s*\(", blanked) is not None
    return Source(rewrite_launches(text, blanked), _distinct(found), has_main)


def _distinct(found: list[tuple[bool, KernelDecl]]) -> tuple[KernelDecl, ...]:
    """One of each kernel: its definitions (one per `#if` branch) rather than its declarations."""
    with_body = {k.name for defined, k in found if defined}
    kept: dict[tuple, KernelDecl] = {}
    for defined, kernel in found:
        if defined or kernel.name not in with_body:
            kept.setdefault((kernel.name, kernel.guards), kernel)
    return tuple(kept.values())


def _guards(text: str, blanked: str, at: int) -> tuple[str, ...]:
    """The directives of each conditional that is open at `at`, outermost first.

    A guard against including the file twice is left out: it no longer holds after its `#define`.
    """
    levels: list[list[str]] = []
    for m in _CONDITION.finditer(blanked, 0, at):
        # Literals count in a condition (`__has_include("x.h")`); comments do not.
        raw = text[m.start() : m.end()]
        line = (raw if '"' in raw or "'" in raw else m.group()).strip()
        if m["word"] == "endif":
            if levels:
                levels.pop()
        elif m["word"] in ("elif", "else"):
            if levels and levels[-1]:
                levels[-1].append(line)
        else:
            guard = _GUARD.match(line)
            rest = blanked[m.end() :]
            twice = guard and re.match(rf"\s*#[ \t]*define[ \t]+{guard['name']}\b", rest)
            levels.append([] if twice else [line])
    return tuple("\n".join(level) for level in levels if level)


def _called(callee: str) -> str:
    return f"([&](auto... wb) {{ {callee}(wb...); }})"


def rewrite_launches(text: str, blanked: str) -> str:
    """`k<<<b, l, s>>>(…)` becomes `::twin::configure(b, l, s)([&](auto... wb) { k(wb...); })(…)`,
    on the same lines."""
    out, last = [], 0
    for m in _LAUNCH.finditer(blanked):
        end = blanked.find(">>>", m.end())
        line = _line(blanked, m.start())
        if end < 0:
            raise SourceError("a kernel launch '<<<' without '>>>'", line)
        config = text[m.end() : end]
        # `<` is a bracket or a comparison, `>>` two brackets or a shift: either reading may do.
        values = blanked[m.end() : end]
        if 3 not in (len(_split(values)), len(_split(re.sub("[<>]", " ", values)))):
            raise SourceError(
                "a kernel launch takes three values, <<<blocks, l2ctrl (nullptr), stream>>>; "
                f"got <<<{config.strip()}>>>",
                line,
            )
        out += [text[last : m.start()], f"::twin::configure({config}){_called(m['callee'])}"]
        last = end + 3
    out.append(text[last:])
    return "".join(out)


def launchers(
    kernels: tuple[KernelDecl, ...],
    constants: list[str],
    backend: str,
    arch: str,
    shown: str,
    function: str = "wb_kernel_table",
) -> str:
    """C++ text of the kernel table (`csrc/ascend/kernel_table.h`) for these kernels.

    `constants` are names of integer macros whose values the compiler writes into the table. An
    error in a launcher is placed at its kernel, in the file `shown` (escaped for a C++ string).
    `function` returns the table: a module of several kernel files has one for each.
    """
    names = [k.short_name for k in kernels]
    clear = {n for n in names if len({k.name for k in kernels if k.short_name == n}) == 1}
    table = []
    # In <>, so that a header of that name beside the user's file is not taken for ours.
    lines = ["#include <kernel_table.h>"]
    if backend == "twin":
        lines.append("#include <twin/bind.h>")
    for i, kernel in enumerate(kernels):
        # In the kernel's own namespace, where the types of its parameters are found.
        inside = kernel.name.rpartition("::")[0]
        lines += [*kernel.guards]
        lines.append((f"namespace {inside} {{ " if inside else "") + "namespace {")
        arguments = ", ".join(_argument(p, j) for j, p in enumerate(kernel.parameters))
        name = f"::{kernel.name}"
        lines.append(f'#line {kernel.line} "{shown}"')
        if backend == "twin":
            lines.append(
                f"void wb_body_{i}(void *context) "
                f"{{ const uint64_t *args = static_cast<uint64_t *>(context); "
                f"(void)args; {name}({arguments}); }}"
            )
            call = f"::twin::bound_launch(::twin::kArch, launch, args, report, wb_body_{i});"
        else:
            launch = "<<<launch->blocks, nullptr, launch->stream>>>"
            call = f"(void)args; (void)report; {name}{launch}({arguments});"
        lines.append(
            f"void wb_launch_{i}(const wb_launch *launch, const uint64_t *args, wb_report "
            f"*report) {{ {call} }}"
        )
        rows = ", ".join(_row(p) for p in kernel.parameters) or '{"", "", 0, 0}'
        lines.append(f"const wb_parameter wb_parameters_{i}[] = {{{rows}}};")
        lines += ["}}" if inside else "}", *["#endif"] * len(kernel.guards)]
        called = kernel.short_name if kernel.short_name in clear else kernel.name
        scope = f"{inside}::" if inside else ""
        table += [
            *kernel.guards,
            f'{{"{called}", {scope}wb_parameters_{i}, {len(kernel.parameters)}, '
            f"{scope}wb_launch_{i}}},",
            *["#endif"] * len(kernel.guards),
        ]
    values = ", ".join(f'{{"{name}", (long long)({name})}}' for name in constants)
    lines += [
        '#line 1 "<kernel table>"',
        "namespace {",
        "const wb_kernel wb_kernels[] = {",
        *table,
        "{nullptr, nullptr, 0, nullptr}};",
        f"const wb_constant wb_constants[] = {{{values or '{nullptr, 0}'}}};",
        f'const wb_table wb_the_table = {{"{backend}", "{arch}", wb_kernels, '
        f"sizeof wb_kernels / sizeof *wb_kernels - 1, wb_constants, {len(constants)}}};",
        "}",
        f'extern "C" const wb_table *{function}(void) {{ return &wb_the_table; }}',
        "",
    ]
    return "\n".join(lines)


def _argument(parameter: Parameter, index: int) -> str:
    if parameter.is_address:
        kind = parameter.type.replace("__gm__", "").replace("GM_ADDR", "uint8_t *").strip()
        return f"::wb::argument<{kind}>(args[{index}])"
    return f"::wb::argument<{parameter.type}>(args[{index}])"


def _row(parameter: Parameter) -> str:
    shown = parameter.type.replace("\\", "\\\\").replace('"', '\\"')
    if parameter.is_address:
        return f'{{"{parameter.name}", "{shown}", \'p\', 8}}'
    kind = parameter.type
    return f'{{"{parameter.name}", "{shown}", ::wb::kind<{kind}>(), ::wb::size<{kind}>()}}'
