"""The table of Ascend C functions is sound, what is made of it is up to date, and what it refuses
fails to compile with one sentence at the user's line."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest

from workbench import paths
from workbench.build import api, arch

TABLE = paths.DATA / "ascend_api.json"
ARCHS = arch.names()
COMPILERS = [c for c in ("g++", "clang++") if shutil.which(c)] or [os.environ.get("CXX", "c++")]
INCLUDE = f"-I{api.INCLUDE.parent}"


def compile_text(tmp_path, text: str, compiler: str = COMPILERS[0], name: str = "k.cpp"):
    (tmp_path / name).write_text(text)
    flags = ["-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "-DWB_TWIN_ARCH=2201", INCLUDE]
    if "clang" in compiler:
        flags.append("-ferror-limit=0")
    return subprocess.run(
        [compiler, *flags, name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )


# ---- the table -----------------------------------------------------------------------------------


def problems(functions: dict[str, api.Function]) -> list[str]:
    """What is wrong with the entries, in words."""
    found = []
    names = set(functions)
    for f in functions.values():
        types = {
            *(t for column in (f.dtypes, f.count_only) for row in column.values() for t in row),
            *(t for row in f.pairs.values() for pair in row for t in pair),
        }
        on = {*f.dtypes, *f.archs, *f.pairs, *f.count_only, *f.fidelity_on}
        checks = {
            "group": f.group in api.GROUPS,
            "kind": f.kind in api.KINDS,
            "forms": set(f.forms) <= set(api.FORMS),
            "types": types <= set(api.TYPES),
            "architectures": on <= set(ARCHS),
            "dtypes name every architecture": not f.dtypes or set(f.dtypes) == set(ARCHS),
            "fidelity": {f.fidelity, *f.fidelity_on.values()} <= set(api.FIDELITIES),
            "pipe": f.pipe in api.PIPES,
            "status": f.status in api.STATUSES,
            "reason": (f.reason in api.REASONS) == (f.status == "refused"),
            "no alias is an entry": not names & set(f.aliases),
            "no type twice": all(len(set(r)) == len(r) for r in f.dtypes.values()),
            "an identifier": bool(re.fullmatch(r"[A-Za-z_]\w*", f.op_name)),
        }
        for a in ARCHS:
            checks[f"count_only on {a}"] = set(f.count_only.get(a, [])) <= set(f.dtypes.get(a, []))
            sources = {src for _, src in f.pairs.get(a, [])}
            checks[f"pairs on {a}"] = not f.pairs or sources == set(f.dtypes[a])
        found += [f"{f.name}: {what}" for what, good in checks.items() if not good]
    return found


def test_every_entry_is_sound():
    assert problems(api.load()) == []
    assert len({f.op_name for f in api.ops()}) == len(api.ops()) > 200


def test_no_name_stands_twice():
    def once(pairs):
        keys = [key for key, _ in pairs]
        assert len(set(keys)) == len(keys), sorted(k for k in keys if keys.count(k) > 1)
        return dict(pairs)

    json.loads(TABLE.read_text(), object_pairs_hook=once)


@pytest.mark.parametrize(
    "wrong",
    [
        {"group": "vectors"},
        {"group": "unary", "pipe": "VEC"},
        {"group": "unary", "fidelity": "perfect"},
        {"group": "unary", "forms": ["whole"]},
        {"group": "unary", "status": "refused"},
        {"group": "unary", "dtypes": {a: ["fp16"] for a in ARCHS}},
        {"group": "unary", "dtypes": {"dav-2201": ["half"]}},
        {"group": "unary", "aliases": ["Add"]},
    ],
)
def test_the_check_of_an_entry_can_fail(wrong):
    functions = {"Add": api.load()["Add"], "Wrong": api.Function("Wrong", **wrong)}
    assert len(problems(functions)) == 1


def test_casts_are_those_of_the_cast_entry():
    for a in ARCHS:
        rows = api.casts(a)
        assert len({(src, dst) for src, dst, _ in rows}) == len(rows)
        assert all(
            {src, dst} <= set(api.TYPES) and set(m) <= set(api.MODES) for src, dst, m in rows
        )
        assert {src for src, _, _ in rows} == set(api.load()["Cast"].dtypes[a])


def test_documented_facts():
    functions = api.load()
    modes = {(src, dst): set(m) for src, dst, m in api.casts("dav-2201")}
    assert modes["float", "half"] == set(api.MODES) - {"DEQ"}
    assert modes["float", "bfloat16_t"] == {"RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"}
    assert modes["bfloat16_t", "float"] == modes["half", "float"] == {"NONE"}
    assert not {("half", "bfloat16_t"), ("bfloat16_t", "half")} & set(modes)
    for a in ("dav-1001", "dav-2002"):
        assert not functions["DataCopyPad"].exists_on(a)
    # bfloat16_t on dav-2201: cast and copies, no arithmetic.
    arithmetic = ("unary", "binary", "scalar", "fused", "reduction", "compare", "select")
    for f in functions.values():
        if f.group in arithmetic:
            assert "bfloat16_t" not in f.dtypes.get("dav-2201", []), f.name


# ---- what is made of it --------------------------------------------------------------------------


@pytest.mark.parametrize("path", api.generated(), ids=lambda p: p.name)
def test_a_generated_file_is_up_to_date(path):
    assert path.read_text() == api.generated()[path], "run python -m workbench.build.api"


def test_the_table_of_the_document_is_up_to_date():
    if not api.DOC.exists():
        pytest.skip("docs/ is not part of an installed package")
    text = api.DOC.read_text()
    assert api.doc_with_table(text) == text, "run python -m workbench.build.api"
    assert text.count(api.BEGIN) == text.count(api.END) == 1


def test_text_around_the_table_of_the_document_stays():
    text = f"before\n{api.BEGIN}\nold\n{api.END}\nafter\n"
    made = api.doc_with_table(text)
    assert made.startswith(f"before\n{api.BEGIN}\n") and made.endswith(f"\n{api.END}\nafter\n")
    assert "| `Add` |" in made and "old" not in made.split("\n")


@pytest.mark.parametrize("name", ARCHS)
def test_the_header_says_what_the_table_says(tmp_path, name):
    """Compiled: every mask, every pair and every cast, against the table read in another way."""
    number = arch.load(name).number
    raw = json.loads(TABLE.read_text())
    code = {t: f"(1u << unsigned(twin::Type::{e}))" for t, (e, _) in api.TYPES.items()}
    lines = ['#include "twin/api.h"']
    for function in api.ops():
        op, entry = function.op_name, raw["functions"][function.name]
        types = entry["dtypes"].get(name, [])
        if entry["dtypes"]:
            want = " | ".join(code[t] for t in types) or "0u"
            lines.append(f"static_assert(twin::kTakes_{op} == ({want}));")
        assert_text = f"static_assert(sizeof TWIN_TAKES_TEXT_{op} > 20);"
        lines += [assert_text, f"static_assert(unsigned(twin::Op::{op}) < 65535);"]
    enumerator = {t: f"unsigned(twin::Type::{e})" for t, (e, _) in api.TYPES.items()}
    total = 0
    for src, dst, modes in raw["casts"][name]:
        want = sum(1 << api.MODES.index(m) for m in modes)
        total += want
        at = f"[{enumerator[src]}][{enumerator[dst]}]"
        lines.append(f"static_assert(twin::kCastModes{at} == {want});")
    lines += [
        "constexpr unsigned all() {",
        "    unsigned sum = 0;",
        "    for (auto &row : twin::kCastModes)",
        "        for (unsigned modes : row) sum += modes;",
        "    return sum;",
        "}",
        f"static_assert(all() == {total});",
    ]
    (tmp_path / "k.cpp").write_text("\n".join(lines))
    flags = ["-std=c++17", "-Wall", "-Werror", f"-DWB_TWIN_ARCH={number}", INCLUDE]
    done = subprocess.run(
        [COMPILERS[0], *flags, "-fsyntax-only", "k.cpp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_runtime_s_names_are_in_the_order_of_the_enumerators(tmp_path):
    ops = api.ops()
    at = [next(i for i, f in enumerate(ops) if f.name == n) for n in ("Add", "Exp", "printf")]
    text = f"""#include "twin/api.h"
    #include <cstdio>
    #include <cstring>
    namespace twin {{
    #include "{api.OP_NAMES}"
    }}
    int main() {{
        using namespace twin;
        bool good = sizeof kOpNames / sizeof *kOpNames == unsigned(Op::kCount) &&
                    sizeof kOpFidelity / sizeof *kOpFidelity == unsigned(Op::kCount) &&
                    int(Op::Add) == {at[0]} && int(Op::Exp) == {at[1]} &&
                    int(Op::Printf) == {at[2]} && !std::strcmp(kOpNames[{at[2]}], "printf") &&
                    kOpFidelity[{at[0]}][kArchIndex] == 0 && kOpFidelity[{at[1]}][kArchIndex] == 2;
        std::puts(kOpNames[{at[0]}]);
        return !good;
    }}"""
    (tmp_path / "k.cpp").write_text(text)
    flags = ["-std=c++17", "-DWB_TWIN_ARCH=2201", INCLUDE]
    subprocess.run([COMPILERS[0], *flags, "k.cpp", "-o", "k"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "k"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "Add\n")


# ---- what is refused -----------------------------------------------------------------------------

PRELUDE = """#include "twin/refused.h"
namespace AscendC { template <typename T> struct LocalTensor { T *at; unsigned size; }; }
struct Params { int m, n, k; ~Params() {} };
"""


def use(function: api.Function, name: str) -> str:
    """A line of a user's that uses `name`."""
    if function.kind in ("word", "macro"):
        return name + ("(1, 2)" if function.kind == "macro" else "")
    full = f"{(function.namespaces or ['AscendC'])[0]}::{name}"
    if function.kind == "function":
        return f"void use_{name}(int a, float b) {{ {full}(a, b, a); }}"
    arguments = {"t": "int", "a": "0"}
    parameters = [p.strip() for p in function.template.split(",") if p.strip()]
    needed = [arguments[p[0]] for p in parameters if "=" not in p and "..." not in p]
    full += f"<{', '.join(needed)}>" if parameters else ""
    return f"void use_{name}() {{ {full} v; (void)v; }}"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_refused_name_is_refused_where_it_is_used(tmp_path, compiler):
    """One file with one use a line: the sentence of each stands at its line."""
    uses = [
        (name, api.sentence(name, f.reason), use(f, name))
        for f in api.load().values()
        if f.status == "refused"
        for name in (f.name, *f.aliases)
    ]
    assert len(uses) > 150
    plain = [u for u in uses if not u[2].startswith(u[0])]
    words = [u for u in uses if u[2].startswith(u[0])]
    for group in (plain, words):  # a word breaks the declaration that it stands in
        text = PRELUDE + "\n".join(line for _, _, line in group)
        first = PRELUDE.count("\n") + 1
        done = compile_text(tmp_path, text, compiler)
        for number, (name, sentence, _) in enumerate(group, start=first):
            said = [e for e in done.stderr.splitlines() if "error: " in e and sentence in e]
            at = [e for e in done.stderr.splitlines() if e.startswith(f"k.cpp:{number}:")]
            # clang names a class template at the stub, and the user's line as its reason.
            assert said and at and ("clang" in compiler or set(said) & set(at)), f"{name}: {at}"


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("void k(AscendC::LocalTensor<float> c, Params p) { AscendC::Mmad(c, c, c, p); }", "Mmad"),
        ("using namespace AscendC; void k(LocalTensor<int> c) { LoadData(c, c, 1); }", "LoadData"),
        ("void k(AscendC::LocalTensor<int> c) { AscendC::Fixpipe<int, int, 3>(c, c); }", "Fixpipe"),
        ("void k(AscendC::LocalTensor<int> c) { AscendC::Neg<int>(c, c, 8); }", "Neg"),
        ("template <class T> void f(T t) { AscendC::Conv2D(t); } void g() { f(1); }", "Conv2D"),
        ("struct K { AscendC::Matmul<int, int, int, int> mm; };", "Matmul"),
        ("void k() { matmul::Matmul<int, int, int, int, 7> mm; (void)mm; }", "Matmul"),
        ("void k() { AscendC::MatmulType<3, 4, float> t; (void)t; }", "MatmulType"),
        ("void k() { AscendC::MmadParams p; (void)p; }", "MmadParams"),
        ("void k() { AscendC::Reg::RegTensor<float> r; (void)r; }", "RegTensor"),
        ("void k() { AscendC::MicroAPI::MaskReg m; (void)m; }", "MaskReg"),
        ("using namespace AscendC::MicroAPI; struct K { RegTensor<float> r; };", "RegTensor"),
        ("struct K { AscendC::Hccl<> h; };", "Hccl"),
        ("void vf(); void k() { AscendC::asc_vf_call<vf>(1, 2); }", "asc_vf_call"),
        ("__simd_vf__ inline void f() {}", "__simd_vf__"),
        ("__simt_vf__ inline void f() {}", "__simt_vf__"),
        ("static __cube__ void k() {}", "__cube__"),
        ("__mix__(1, 2) void k() {}", "__mix__"),
        ("void k(int t) { GET_TILING_DATA(d, t); }", "GET_TILING_DATA"),
    ],
)
def test_the_sentence_comes_first_and_the_text_is_short(tmp_path, compiler, line, name):
    reason = api.load()[name].reason
    done = compile_text(tmp_path, f"{PRELUDE}{line}\n", compiler)
    assert done.returncode != 0
    errors = [text for text in done.stderr.splitlines() if "error: " in text]
    number = PRELUDE.count("\n") + 1
    at = f"k.cpp:{number}:"
    assert errors[0].startswith(at) or ("clang" in compiler and at in done.stderr)
    assert api.sentence(name, reason) in errors[0]
    # g++ says the same twice for a function, and two lines more inside a template.
    assert len(done.stderr.splitlines()) <= 15, done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_user_s_own_function_of_that_name_wins(tmp_path, compiler):
    text = (
        PRELUDE
        + """using namespace AscendC;
    template <typename T> int Fill(LocalTensor<T> &t, float v) { return t.size + int(v); }
    int Neg(int v) { return -v; }
    namespace mine { template <typename T> int Where(T v) { return v; } int k = Where(1); }
    int k(LocalTensor<int> &t) { return Fill(t, 1) + Neg(2); }
    """
    )
    done = compile_text(tmp_path, text, compiler)
    assert done.returncode == 0, done.stderr


def test_a_compiler_without_the_attribute_refuses_as_well(tmp_path):
    """g++ before 12: the error stands at the stub, the user's line below it."""
    text = "#define __has_attribute(x) 0\n" + PRELUDE + "int k() { return AscendC::Mmad(1, 2); }\n"
    (tmp_path / "k.cpp").write_text(text)
    flags = ["-std=c++17", "-fsyntax-only", INCLUDE]
    done = subprocess.run(
        [COMPILERS[0], *flags, "k.cpp"], cwd=tmp_path, capture_output=True, text=True
    )
    errors = [line for line in done.stderr.splitlines() if "error: " in line]
    assert done.returncode != 0
    assert api.sentence("Mmad", "cube") in errors[0] and "k.cpp:5" in done.stderr
