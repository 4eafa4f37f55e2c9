"""What the table of Ascend C functions says is supported compiles and links: each name, form, type
and architecture; and what the table does not list is refused with its sentence."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from twin import api_snippets, api_snippets_rest
from twin.api_snippets import ALIASES, PRELUDE, Forms
from workbench import paths
from workbench.build import api, arch, compiler, steps
from workbench.build.twin import RUNTIME, TwinToolchain

SNIPPETS = {**api_snippets.SNIPPETS, **api_snippets_rest.SNIPPETS}
ARCHS = arch.names()
CXX = compiler.find_cxx()
# Names that belong to others: of the host (tests/run), of groups that are refused as a whole.
ELSEWHERE = {"host"}
# They take a plain number: C++ converts it.
PLAIN = {
    *("ScalarGetCountOfValue", "ScalarCountLeadingZero", "CountBitsCntSameAsSignBit"),
    *("ScalarGetSFFValue", "ToBfloat16", "ToFloat"),
}

TWO_BYTES = ("int16_t", "uint16_t", "half", "bfloat16_t")  # what the plain Transpose takes

Use = tuple[str, str]  # ("Add.mask.half.0", the line that uses it)


def supported() -> list[api.Function]:
    """The entries that a kernel can use."""
    return [f for f in api.load().values() if f.status == "supported" and f.group not in ELSEWHERE]


def snippets_of(function: api.Function) -> Iterator[tuple[str, Forms]]:
    """(name or alias, its snippets)."""
    forms = SNIPPETS[function.name]
    yield function.name, forms
    for alias in function.aliases:
        own = ALIASES.get((function.name, alias))
        word = re.compile(rf"\b{re.escape(function.name)}\b")
        yield (
            alias,
            own or {form: [word.sub(alias, use) for use in uses] for form, uses in forms.items()},
        )


def types_of(function: api.Function, form: str, arch_name: str) -> list[tuple[str, str]]:
    """(destination, source) types that `form` takes; [("", "")] where there is no element type."""
    if not function.dtypes:
        return [("", "")]
    only = function.count_only.get(arch_name, [])
    masked = form in ("mask", "bits", "register")
    if function.name == "Cast":
        return [(dst, src) for src, dst, _ in api.casts(arch_name)]
    same = [(t, t) for t in function.dtypes[arch_name]]
    pairs = [tuple(pair) for pair in function.pairs.get(arch_name, same)]
    if (function.name, form) == ("Transpose", "block"):
        return [(t, t) for t, _ in pairs if t in TWO_BYTES]
    return [(dst, src) for dst, src in pairs if not (masked and src in only)]


def spelt(use: str, dst: str, src: str) -> str:
    return use.replace("$D", dst).replace("$S", src).replace("$T", src)


def good_uses(arch_name: str) -> list[Use]:
    """Every use that the table allows on the architecture."""
    made = []
    for function in supported():
        if not function.exists_on(arch_name):
            continue
        for name, forms in snippets_of(function):
            for form, uses in forms.items():
                for dst, src in types_of(function, form, arch_name):
                    types = src if dst == src else f"{dst}_from_{src}"
                    made += [
                        (f"{name}.{form}.{types}.{i}".replace("..", "."), spelt(use, dst, src))
                        for i, use in enumerate(uses)
                    ]
    return made


def bad_uses(arch_name: str, *, aliases: bool) -> list[tuple[str, str, str]]:
    """Uses that the table does not allow, each with the sentence that refuses it: types that are
    not listed, masks with types that want a count, functions that do not exist there.

    Aliases apart: where one calls the function itself, a compiler says it once for both.
    """
    made = []
    for function in supported():
        if not function.is_op or function.name == "Cast":
            continue
        text = api.takes_text(function, arch_name)
        for name, forms in snippets_of(function):
            if aliases != (name != function.name):
                continue
            for form, uses in forms.items():
                for dst, src in refused_types(function, form, arch_name):
                    key = f"{function.name}.{name}.{form}.{dst}.{src}".replace("..", ".")
                    made.append((key, spelt(uses[0], dst, src), text))
    return made


def refused_types(function: api.Function, form: str, arch_name: str) -> list[tuple[str, str]]:
    if not function.exists_on(arch_name):
        return [("half", "float")] if function.dtypes else [("", "")]
    if not function.dtypes or function.name in PLAIN:
        return []
    good = types_of(function, form, arch_name)
    every = [("int8_t", "int64_t"), ("float", "double"), *function.pairs.get(arch_name, [])]
    every = every if function.pairs else [(t, t) for t in api.TYPES]
    if (function.name, form) == ("Transpose", "block"):  # listed for the other form: see below
        good = [*good, *((t, t) for t in function.dtypes[arch_name])]
    return [tuple(pair) for pair in every if tuple(pair) not in good]


def unit(uses: list[Use]) -> str:
    """A file with one function for each use; the name of a use is the name of its file."""
    lines = [PRELUDE]
    for i, (name, line) in enumerate(uses):
        lines += [f'#line 1 "{name}"', f"void use_{i}() {{ {line} }}"]
    return "\n".join(lines) + "\n"


def qualified(text: str) -> str:
    """The text without the using-directive, every name of Ascend C with its namespace."""
    text = text.replace("using namespace AscendC;\n", "")
    macros = r"AscendC\b|GM_ADDR|KERNEL_|ASCEND_IS_|ASSERT_MSG|PIPE_"
    return re.sub(rf"(?<![\w:.>$\"])(?!{macros})([A-Z]\w+)", r"AscendC::\1", text)


# What a program's host part includes and says.
STD = """
#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>
"""
HOST = """
int host() {
    vector<float> a(8, 1.5f);
    sort(a.begin(), a.end());
    const float top = max(a[0], a[1]) + min(a[2], 2.0f) + abs(-1.5f) + exp(a[3]) + floor(a[4]);
    printf("%f\\n", top);
    cout << round(top) << sqrt(2.0) << endl;
    half h = 1.5f;
    static_assert(is_same<decltype(h), half>::value, "");
    tuple<int, half> t{1, h};
    return get<0>(t) + int(top) + int(copy(a.begin(), a.end(), a.begin()) - a.begin());
}
"""


def compile_uses(
    folder: Path, arch_name: str, uses: list[Use], change: Callable[[str], str] = str
) -> tuple[subprocess.CompletedProcess, dict[str, list[str]]]:
    """Compile (not link) a unit of these uses: the compiler's run, and its errors by use."""
    source = folder / f"{arch_name}.cpp"
    source.write_text(change(unit(uses)))
    flags = ["-std=c++17", "-O0", "-fPIC", "-w", f"-DWB_TWIN_ARCH={arch.load(arch_name).number}"]
    flags += ["-ferror-limit=0"] if CXX.is_clang else ["-fno-diagnostics-show-caret"]
    out = ["-c", str(source), "-o", str(source.with_suffix(".o"))]
    done = subprocess.run(
        [*CXX.command, *flags, f"-I{paths.TWIN / 'include'}", *out],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done, errors_by_use(done.stderr, {name for name, _ in uses})


def errors_by_use(output: str, names: set[str]) -> dict[str, list[str]]:
    """The compiler's errors by the use that they belong to ("": none). g++ names the use before an
    error in a header, clang++ after it."""
    found: dict[str, list[str]] = {}
    current = ""
    waiting: str | None = None
    for line in output.splitlines():
        place = re.match(r"(?:In file included from )?(.+?):\d+", line)
        use = place[1] if place and place[1] in names else None
        if " error: " in line:
            text = line.split(" error: ", 1)[1]
            if CXX.is_clang and use is None:
                waiting = text
                continue
            found.setdefault(use or current, []).append(text)
        elif use is not None:
            current = use
            if waiting is not None:
                found.setdefault(use, []).append(waiting)
                waiting = None
    return found


@pytest.fixture(scope="module")
def runtime_objects() -> list[str]:
    made = TwinToolchain()._runtime(RUNTIME)
    return [str(steps.compiled(item)) for item in made]


def test_every_supported_name_has_a_snippet_for_each_of_its_forms():
    for function in supported():
        forms = set(SNIPPETS.get(function.name, {}))
        assert forms == (set(function.forms) or {""}), function.name
    assert set(SNIPPETS) <= {f.name for f in supported()}
    assert all(alias in api.load()[name].aliases for name, alias in ALIASES)
    assert len(SNIPPETS) > 250, "the control"


@pytest.mark.parametrize("arch_name", ARCHS)
def test_what_is_supported_compiles_and_links(tmp_path, arch_name, runtime_objects):
    uses = good_uses(arch_name)
    done, errors = compile_uses(tmp_path, arch_name, uses)
    assert not errors and done.returncode == 0, errors or done.stderr
    assert len(uses) > 800, "the control: there is something to compile"
    made = [str(tmp_path / f"{arch_name}.o"), *runtime_objects, "-pthread"]
    linked = subprocess.run(
        [*CXX.command, "-shared", "-Wl,-z,defs", "-o", str(tmp_path / "all.so"), *made],
        capture_output=True,
        text=True,
    )
    missing = re.findall(r"undefined (?:reference|symbol)[^\n]*", linked.stderr)
    assert linked.returncode == 0, sorted(set(missing)) or linked.stderr


def test_what_does_not_exist_is_found_out(tmp_path, runtime_objects):
    """The control: names, arguments and types that there are not, each at its own place."""
    wrong = [
        ("no name", "NoSuchFunction(ub<half>);"),
        ("no form", "Exp(ub<half>, ub<half>, ub<half>, 32);"),
        ("no type", "Exp(ub<int8_t>, ub<int8_t>, 32);"),
        ("no architecture", "Scatter(ub<half>, ub<half>, ub<uint32_t>, 0, 32);"),
        ("no mode", "CrossCoreSetFlag<2, PIPE_MTE3>(1);"),
        ("no block", "Transpose(ub<float>, ub<float>);"),
    ]
    fine = ("fine", "Exp(ub<half>, ub<half>, 32);")
    done, errors = compile_uses(tmp_path, "dav-2201", [*wrong, fine])
    assert done.returncode != 0
    assert set(errors) == {name for name, _ in wrong}
    assert "does not exist on dav-2201" in errors["no architecture"][0]


@pytest.mark.parametrize("aliases", [False, True], ids=["names", "aliases"])
@pytest.mark.parametrize("arch_name", ARCHS)
def test_what_the_table_does_not_list_is_refused_with_its_sentence(tmp_path, arch_name, aliases):
    uses = bad_uses(arch_name, aliases=aliases)
    assert len(uses) > 200, "the control: there is something to refuse"
    _, errors = compile_uses(tmp_path, arch_name, [(name, line) for name, line, _ in uses])
    wrong = {
        name: errors.get(name, ["compiles"])[0]
        for name, _, text in uses
        if not any(text in error for error in errors.get(name, []))
    }
    assert not wrong


# ---- names ---------------------------------------------------------------------------------------


def test_every_name_is_in_its_namespace(tmp_path):
    done, errors = compile_uses(tmp_path, "dav-2201", good_uses("dav-2201"), qualified)
    assert not errors and done.returncode == 0, errors or done.stderr
    text = (tmp_path / "dav-2201.cpp").read_text()
    assert "using namespace" not in text and "AscendC::Add(" in text and "AscendC::Exp<" in text


def test_no_name_is_ambiguous_beside_the_standard_library(tmp_path):
    def change(text: str) -> str:
        return STD + text.replace("AscendC;", "AscendC;\nusing namespace std;", 1) + HOST

    done, errors = compile_uses(tmp_path, "dav-2201", good_uses("dav-2201"), change)
    assert not errors and done.returncode == 0, errors or done.stderr
    assert "using namespace std;" in (tmp_path / "dav-2201.cpp").read_text()
    clash = ("clash", "tuple_size_of_nothing<int> x;")
    assert "clash" in compile_uses(tmp_path, "dav-2201", [clash], change)[1], "the control"


GLOBAL = """
#include "kernel_operator.h"
class Kernel {
  public:
    __aicore__ inline void Wait() {
        event_t id = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_S));
        AscendC::SetFlag<HardEvent::V_S>(id);
        AscendC::WaitFlag<AscendC::HardEvent::V_S>(EVENT_ID0);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::PipeBarrier<PIPE_ALL>();
        first = (__gm__ half *)base + block_idx * 32 + get_block_idx() + block_num;
        printf("%d %d\\n", int(AscendC::GetBlockIdx()), EVENT_ID7);
        assert(first != nullptr);
    }
    GM_ADDR base;
    __gm__ half *first;
    bfloat16_t wide;
    int4b_t narrow;
};
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR y) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    AscendC::TPipe pipe;
    if ASCEND_IS_AIC { return; }
    if (ASCEND_IS_AIV) { Kernel op; op.base = x; op.Wait(); }
}
__global__ __vector__ void k2(GM_ADDR x) { Kernel op; op.base = x; op.Wait(); }
"""


@pytest.mark.parametrize("arch_name", ARCHS)
def test_what_the_documents_use_without_a_namespace(tmp_path, arch_name):
    number = arch.load(arch_name).number
    older = {1001: 100, 2002: 200, 2201: 220, 3510: 310}[number]
    check = f"static_assert(__NPU_ARCH__ == {number} && __CCE_AICORE__ == {older});\n"
    done, _ = compile_uses(tmp_path, arch_name, [], lambda _: GLOBAL + check)
    assert done.returncode == 0, done.stderr
    wrong = check.replace(str(number), "3002")
    done, _ = compile_uses(tmp_path, arch_name, [], lambda _: GLOBAL + wrong)
    assert done.returncode != 0, "the control"


# ---- the modes of Cast ---------------------------------------------------------------------------

CAST_KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
// Casts 0 to 7 and says how many of them came out as themselves.
template <typename Dst, typename Src>
__aicore__ inline int32_t cast(int32_t mode) {
    LocalTensor<Src> src(0, 64);
    LocalTensor<Dst> dst(4096, 64);
    constexpr bool packed = IsSameType<Src, int4b_t>::value || IsSameType<Dst, int4b_t>::value;
    if constexpr (!packed) {
        for (int i = 0; i < 64; ++i) {
            src.SetValue(i, Src(float(i & 7)));
        }
    }
    Cast(dst, src, static_cast<RoundMode>(mode), 64);
    int32_t same = packed ? 8 : 0;
    if constexpr (!packed) {
        for (int i = 0; i < 8; ++i) {
            same += float(dst.GetValue(i)) == float(i);
        }
    }
    return same;
}
extern "C" __global__ __aicore__ void k(GM_ADDR out, int32_t pair, int32_t mode) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    SETUP
    int32_t same = 0;
    switch (pair) {
CASES
    }
    GlobalTensor<int32_t> result;
    result.SetGlobalBuffer((__gm__ int32_t *)out);
    result.SetValue(0, same);
}
"""


@pytest.mark.parametrize("arch_name", ARCHS)
def test_the_modes_that_cast_has_are_those_of_the_table(tmp_path, arch_name):
    casts = api.casts(arch_name)
    cases = [
        f"    case {i}: same = cast<{dst}, {src}>(mode); break;"
        for i, (src, dst, _) in enumerate(casts)
    ]
    setup = "" if arch_name == "dav-1001" else "SetDeqScale(half(1.0f));"
    path = tmp_path / "casts.asc"
    path.write_text(CAST_KERNEL.replace("CASES", "\n".join(cases)).replace("SETUP", setup))
    kernel = wb.build(path, wb.KernelConfig(arch=arch_name), backend="twin")
    out = torch.zeros(1, dtype=torch.int32)
    wrong, refused = [], 0
    for i, (src, dst, modes) in enumerate(casts):
        for number, mode in enumerate(api.MODES[:-1]):
            out.zero_()
            try:
                kernel.launch("k", 1, out, i, number)
                came = out.item() == 8
            except wb.TwinFault as fault:
                came = fault.code != "cast-mode"
                refused += 1
                if mode not in modes and "DEQ" not in modes and not came:
                    continue
            if not came or (mode not in modes and "DEQ" not in modes):
                wrong.append((src, dst, mode, out.item()))
    assert not wrong
    assert refused > 10, "the control: some modes are refused"


def test_pairs_that_cast_does_not_have_are_refused(tmp_path):
    for arch_name in ARCHS:
        known = {(dst, src) for src, dst, _ in api.casts(arch_name)}
        pairs = [pair for pair in itertools.product(api.TYPES, repeat=2) if pair not in known]
        uses = [
            (f"{d}<{s}", f"Cast(ub<{d}>, ub<{s}>, RoundMode::CAST_NONE, 32);") for d, s in pairs
        ]
        _, errors = compile_uses(tmp_path, arch_name, uses)
        text = f"Cast on {arch_name} does not exist between these two types"
        assert [n for n, _ in uses if text not in errors.get(n, ["compiles"])[0]] == []
