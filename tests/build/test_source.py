"""The source pass on its own: what it finds in a text, and what it leaves alone."""

from __future__ import annotations

import pytest

from workbench.build import source

K = 'extern "C" __global__ __aicore__ void {}({}) {{}}\n'


def names(text: str) -> list[str]:
    return [k.name for k in source.parse(text).kernels]


def parameters(text: str) -> list[tuple[str, str]]:
    (kernel,) = source.parse(K.format("k", text)).kernels
    return [(p.type, p.name) for p in kernel.parameters]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (K.format("k", "GM_ADDR x"), ["k"]),
        ("__global__ __vector__ void k(GM_ADDR x) {}", ["k"]),
        ("__global__ __attribute__((aiv)) __aicore__ void k(GM_ADDR x) {}", ["k"]),
        ('extern "C"\n__global__\n__aicore__\nvoid\nk\n(\nGM_ADDR x)\n{}', ["k"]),
        (
            "namespace a { namespace b::c { " + K.format("k", "") + "} }" + K.format("m", ""),
            ["a::b::c::k", "m"],
        ),
        ("namespace { " + K.format("k", "") + "}", ["k"]),
        ("inline namespace v1 { " + K.format("k", "") + "}", ["v1::k"]),
        (
            "struct S { int x{0}; };\nnamespace a { void f() { if (1) { } } }\n"
            + K.format("k", ""),
            ["k"],
        ),
        ("// " + K.format("k", ""), []),
        ("/* " + K.format("k", "") + "*/", []),
        ("// a comment that goes on \\\n" + K.format("k", ""), []),
        ('const char *s = "__global__ void k() {}";', []),
        ('const char *s = R"x(\n__global__ void k() {}\n)" )x";' + K.format("m", ""), ["m"]),
        ("char c = '\"'; " + K.format("k", "") + "char d = '\"';", ["k"]),
        ("auto c = L'\"'; " + K.format("k", "") + "auto d = u8'\"';", ["k"]),
        ("int n = 1'000'000; " + K.format("k", "") + "int m = 0xAB'CD;", ["k"]),
        ("#if 0\n" + K.format("k", "") + "#endif\n" + K.format("m", ""), ["m"]),
        (
            "#if 0 // no\n#if 1\n#endif\n"
            + K.format("k", "")
            + "#else\n"
            + K.format("m", "")
            + "#endif\n",
            ["m"],
        ),
        (
            "#define KERNEL(n) __global__ void n(GM_ADDR x) \\\n  __global__ void z(int a)\n"
            + K.format("m", ""),
            ["m"],
        ),
        ("void k(GM_ADDR x) {}", []),
        ("", []),
    ],
)
def test_kernels_that_are_found(text, found):
    assert names(text) == found


def test_a_windows_file():
    text = "#if 0\r\n" + K.format("k", "") + "#endif\r\n" + K.format("m", "int n")
    (kernel,) = source.parse(text).kernels
    assert (kernel.name, kernel.line) == ("m", 4)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("void", []),
        ("GM_ADDR x, GM_ADDR y", [("GM_ADDR", "x"), ("GM_ADDR", "y")]),
        ("__gm__ float* x", [("__gm__ float*", "x")]),
        ("__gm__ const half *__restrict__ x", [("__gm__ half *", "x")]),
        ("const uint32_t n, unsigned long m", [("uint32_t", "n"), ("unsigned long", "m")]),
        ("Pair<int, Pair<half, 3>> p, bool b", [("Pair<int, Pair<half, 3>>", "p"), ("bool", "b")]),
        ("ns::Tiling t", [("ns::Tiling", "t")]),
        ("int n = f(1, 2), float a = 1.5f", [("int", "n"), ("float", "a")]),
        ("int /* how many */ n // so\n, float a", [("int", "n"), ("float", "a")]),
        (
            "GM_ADDR, uint32_t, unsigned int, __gm__ float *",
            [
                ("GM_ADDR", "arg0"),
                ("uint32_t", "arg1"),
                ("unsigned int", "arg2"),
                ("__gm__ float *", "arg3"),
            ],
        ),
    ],
)
def test_parameters(text, found):
    assert parameters(text) == found


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("\n\n" + K.format("k", "int &n"), 3, "is a reference; pass it by value"),
        ("\n" + K.format("k", "void (*f)(int)"), 2, "parameter 0 cannot be read"),
        ("\n" + K.format("k", "float x[4]"), 2, "parameter 0 cannot be read"),
        ("\nvoid f() { k<<<1, nullptr>>>(x); }", 2, "three values.*got <<<1, nullptr>>>"),
        ("\nvoid f() { k<<<1, nullptr, s(x); }", 2, "'<<<' without '>>>'"),
        ("\n__global__ void k(GM_ADDR x", 2, "parameter list of kernel k has no end"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_line(text, line, words):
    with pytest.raises(source.SourceError, match=words) as e:
        source.parse(text)
    assert e.value.line == line


@pytest.mark.parametrize(
    ("launch", "rewritten"),
    [
        (
            "k<<<b, nullptr, s>>>(x, 1);",
            "::twin::configure(b, nullptr, s)([&](auto... wb) { k(wb...); })(x, 1);",
        ),
        (
            "k <<< b , nullptr , s >>> (x);",
            "::twin::configure( b , nullptr , s )([&](auto... wb) { k(wb...); }) (x);",
        ),
        (
            "a::k<<<f(1, 2), nullptr, s>>>();",
            "::twin::configure(f(1, 2), nullptr, s)([&](auto... wb) { a::k(wb...); })();",
        ),
        (
            "::k<<<b, nullptr, s>>>();",
            "::twin::configure(b, nullptr, s)([&](auto... wb) { ::k(wb...); })();",
        ),
        (
            "k<float, 3><<<b, 0, s>>>(x);",
            "::twin::configure(b, 0, s)([&](auto... wb) { k<float, 3>(wb...); })(x);",
        ),
        (
            "k<P<int>><<<b, 0, s>>>(x);",
            "::twin::configure(b, 0, s)([&](auto... wb) { k<P<int>>(wb...); })(x);",
        ),
        (
            "k<<<n >> 6, 0, s>>>(x);",
            "::twin::configure(n >> 6, 0, s)([&](auto... wb) { k(wb...); })(x);",
        ),
        (
            "k<<<n < 4 ? n : 4, 0, s>>>(x);",
            "::twin::configure(n < 4 ? n : 4, 0, s)([&](auto... wb) { k(wb...); })(x);",
        ),
        (
            "k<<<P<1, 2>::n, 0, s>>>(x);",
            "::twin::configure(P<1, 2>::n, 0, s)([&](auto... wb) { k(wb...); })(x);",
        ),
        ("// k<<<b, 0, s>>>(x)", "// k<<<b, 0, s>>>(x)"),
        ('"k<<<b, 0, s>>>(x)"', '"k<<<b, 0, s>>>(x)"'),
        ('R"(k<<<b>>>)"', 'R"(k<<<b>>>)"'),
        ("a << b << c >> d", "a << b << c >> d"),
    ],
)
def test_launches(launch, rewritten):
    assert source.parse(launch).text == rewritten


def test_a_launch_over_several_lines_keeps_the_lines():
    text = "void f() {\n  k<<<1,\n      nullptr, // l2\n      s>>>(\n      x);\n}\nint after;\n"
    out = source.parse(text).text
    assert out.count("\n") == text.count("\n")
    assert out.split("\n")[6] == "int after;"


def test_definitions_win_over_declarations_and_templates_are_not_launchable():
    text = (
        "__global__ void k(GM_ADDR, int);\n"
        "template <typename T>\n__global__ void t(GM_ADDR x) {}\n"
        "template <>\n__global__ void t<float>(GM_ADDR x) {}\n"
        "__global__ void k(GM_ADDR out, int n) {}\n"
        "__global__ void only(GM_ADDR, int);\n"
    )
    parsed = source.parse(text)
    found = {k.name: k for k in parsed.launchable}
    assert sorted(found) == ["k", "only"]
    assert ([p.name for p in found["k"].parameters], found["k"].line) == (["out", "n"], 6)
    assert [p.name for p in found["only"].parameters] == ["arg0", "arg1"]
    assert [k.name for k in parsed.kernels if k.template] == ["t"]


def test_conditions_travel_with_a_kernel():
    text = (
        "#ifndef GUARD_H\n#define GUARD_H\n"
        + K.format("plain", "")
        + "#ifdef A // so\n#if B \\\n  && C\n"
        + K.format("deep", "")
        + "#endif\n"
        + K.format("first", "")
        + "#elif defined(D)\n#else\n"
        + K.format("first", "int n")
        + "#endif\n#endif\n"
        + K.format("last", "")
    )
    found = [(k.name, k.guards) for k in source.parse(text).kernels]
    assert found == [
        ("plain", ()),
        ("deep", ("#ifdef A", "#if B \\\n  && C")),
        ("first", ("#ifdef A",)),
        ("first", ("#ifdef A\n#elif defined(D)\n#else",)),
        ("last", ()),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("void k() {\n}\n", None),
        ("\nvoid k() {\n  if (1) {\n}\n", 2),
        ("namespace a {\nvoid k() {}\n", 1),
        ("// {\nconst char *s = \"{\"; char c = '{';\nvoid k() {}\n", None),
        ("void k() {}\n}\nvoid l() {\n", 3),
    ],
)
def test_the_brace_that_is_never_closed(text, line):
    assert source.never_closed(text) == line
