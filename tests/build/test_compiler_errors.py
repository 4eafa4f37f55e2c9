"""What a compiler refuses is shown at the user's own file and line, and the process lives on."""

from __future__ import annotations

from pathlib import Path

import build_kit as kit
import pytest
import torch

import workbench as wb

# Line 11 stands on its own: it is what each case replaces.
KERNEL = """#include "kernel_operator.h"
#include "own.h"
using namespace AscendC;

namespace parts {
__aicore__ inline float twice(float x);
template <typename T>
__aicore__ inline T same(T x) { return x; }
}
extern "C" __global__ __aicore__ void fill(GM_ADDR out) {
    float v = parts::same(VALUE);
    ((__gm__ float *)out)[GetBlockIdx()] = v;
}
"""
TENSORS = "TPipe p; TBuf<TPosition::VECCALC> b; p.InitBuffer(b, 256); "
TENSORS += "LocalTensor<float> x = b.Get<float>(); LocalTensor<half> h = b.Get<half>(); "

# name: (what line 11 becomes, words of the message that all compilers have in common)
REFUSED = {
    "syntax error": ("float v = parts::same(VALUE;", ["expected ')'"]),
    "undeclared name": ("float v = VALUE + undeclared;", ["undeclared"]),
    "static_assert": (
        'static_assert(VALUE == 2, "VALUE must be two"); float v = 0;',
        ["VALUE must be two"],
    ),
    "wrong type of an argument": (
        TENSORS + "Add(x, x, h, 64); float v = 0;",
        ["no matching function for call to 'Add"],
    ),
    "wrong number of arguments": (
        TENSORS + "Mul(x, x); float v = 0;",
        ["no matching function for call to 'Mul"],
    ),
    "error inside our header": (
        TENSORS + "LocalTensor<char> c = b.Get<char>(); Add(c, c, c, 64); float v = 0;",
        ["Add on dav-2201 takes "],
    ),
    "no such member": (TENSORS + "x.Sing(); float v = 0;", ["Sing"]),
    "missing semicolon": ("float v = VALUE", []),
    "an #error": ("float v = 0;\n#error a word of the user's", ["a word of the user's"]),
}


# Of these a compiler takes notice in the line that follows.
NEXT_LINE = ("missing semicolon", "an #error")


def write(folder: Path, line: str = "float v = parts::same(VALUE);") -> Path:
    (folder / "own.h").write_text("#define VALUE 1\n#define WRONG nothing_of_that_name + 1\n")
    return kit.source(folder, KERNEL.replace("float v = parts::same(VALUE);", line))


def value(kernel) -> float:
    out = torch.zeros(1)
    kernel.launch("fill", 1, out)
    return out.item()


def refused(path: Path, file: Path | None = None, line: int | None = None) -> wb.BuildError:
    """The BuildError of a build, after what all of them have in common was checked."""
    before = kit.entries()
    with pytest.raises(wb.BuildError) as caught:
        wb.build(path, backend="twin")
    e = caught.value
    assert kit.entries() == before  # what failed is not kept
    if line is not None:
        shown = (file or path).read_text().split("\n")[line - 1]
        assert (e.file, e.line) == (str(file or path), line), e
        assert str(e).startswith(f"{e.file}:{line}: "), e
        assert str(e).split("\n")[1] == f"{line:6d} | {shown.rstrip()}"
    assert "unit.cpp" not in str(e)  # the generated file is no concern of the user's
    return e


def logged(e: wb.BuildError) -> None:
    """The whole output is in the error and on disk."""
    assert e.log_path and e.log_path in str(e)
    assert Path(e.log_path).read_text() == e.log
    assert "error: " in e.log and len(e.log) > len(str(e).split("\n")[0])


@pytest.mark.parametrize("case", REFUSED)
def test_an_error_is_shown_at_its_line(each_compiler, tmp_path, case):
    line, words = REFUSED[case]
    e = refused(write(tmp_path, line), line=12 if case in NEXT_LINE else 11)
    assert all(w in str(e).split("\n")[0].replace("‘", "'") for w in words), e
    logged(e)


def test_an_error_in_a_macro_of_the_users(each_compiler, tmp_path):
    """gcc names the line that defines it, clang the line that uses it: both are the user's."""
    path = write(tmp_path, "float v = WRONG;")
    place = (tmp_path / "own.h", 2) if each_compiler == "g++" else (path, 11)
    e = refused(path, *place)
    assert "nothing_of_that_name" in str(e).split("\n")[0]
    logged(e)


def test_an_error_in_a_header_of_the_users_own(each_compiler, tmp_path):
    path = write(tmp_path)
    header = tmp_path / "own.h"
    header.write_text("// of the user\n#define VALUE 1\nint broken = undeclared;\n")
    logged(refused(path, header, 3))
    (tmp_path / "inc").mkdir()
    header.write_text("#include <far.h>\n#define VALUE 1\n")
    far = tmp_path / "inc" / "far.h"
    far.write_text("struct Far { int x }\n;\n")
    with pytest.raises(wb.BuildError) as caught:
        wb.build(path, backend="twin", include_dirs=[tmp_path / "inc"])
    assert (caught.value.file, caught.value.line) == (str(far), 1)
    header.write_text('#include "no_such.h"\n#define VALUE 1\n')
    assert "no_such.h" in str(refused(path, header, 1)).split("\n")[0]


def test_a_header_of_ours_leads_back_to_the_template_that_used_it(each_compiler, tmp_path):
    """The error is in the twin's header, two instantiations below the user's call."""
    path = write(tmp_path, "float v = parts::deep<char>();")
    deep = (
        "using namespace AscendC; namespace parts {\n"
        "template <typename T>\n"
        "__aicore__ inline float deep() {\n"
        f"    {TENSORS} LocalTensor<T> c = b.Get<T>();\n"
        "    Add(c, c, c, 64);\n"
        "    return 0;\n"
        "}\n}\n"
    )
    (tmp_path / "own.h").write_text(deep)
    e = refused(path)
    places = {str(path): [11], str(tmp_path / "own.h"): [5]}
    assert e.line in places[e.file], e
    assert str(e).split("\n")[1].startswith(f"{e.line:6d} | ")
    logged(e)


def test_declared_but_never_defined(each_compiler, tmp_path):
    path = write(tmp_path, "float v = parts::twice(VALUE);")
    e = refused(path)
    assert "twice" in str(e) and "undefined symbol" in str(e)
    assert "declares something it does not define" in str(e)
    assert value(wb.build(write(tmp_path), backend="twin")) == 1


LAUNCHES = {
    "two values": ("fill<<<1, nullptr>>>(nullptr);", "takes three values"),
    "no end": ("fill<<<1, nullptr, nullptr>>(nullptr);", "'<<<' without '>>>'"),
}


@pytest.mark.parametrize("case", LAUNCHES)
def test_a_bad_launch(record, tmp_path, case):
    """Found by the source pass, before a compiler is asked."""
    line, words = LAUNCHES[case]
    text = KERNEL + f"inline void host() {{\n    {line}\n}}\n"
    write(tmp_path)
    path = kit.source(tmp_path, text)
    e = refused(path, line=15)
    assert words in str(e).split("\n")[0]
    assert record.compilations == []


def test_a_launch_of_no_kernel(each_compiler, tmp_path):
    """A launch that the source pass can read and the compiler refuses."""
    write(tmp_path)
    text = KERNEL + "inline void host() {\n    no_kernel<<<1, nullptr, nullptr>>>(nullptr);\n}\n"
    e = refused(kit.source(tmp_path, text), line=15)
    assert "no_kernel" in str(e)
    logged(e)


def test_a_kernel_parameter_without_a_name(each_compiler, tmp_path):
    """C++ allows it: the kernel is built and takes the argument by position."""
    write(tmp_path)
    text = KERNEL.replace("fill(GM_ADDR out)", "fill(GM_ADDR out, int32_t, __gm__ half *)")
    kernel = wb.build(kit.source(tmp_path, text), backend="twin")
    named = [(name, kind) for name, _, kind in kernel.kernels["fill"]]
    assert named == [("out", "p"), ("arg1", "i"), ("arg2", "p")]
    out = torch.zeros(1)
    kernel.launch("fill", 1, out, 5, None)
    assert out.item() == 1
    with pytest.raises(wb.InputError, match="arg1 is int32_t and takes a number"):
        kernel.launch("fill", 1, out, None, None)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [("GM_ADDR out, int32_t &n", "'n' is a reference"), ("GM_ADDR out, int n[3]", "int n[3]")],
)
def test_a_kernel_parameter_that_no_kernel_takes(record, tmp_path, parameters, words):
    write(tmp_path)
    e = refused(kit.source(tmp_path, KERNEL.replace("GM_ADDR out", parameters)), line=10)
    assert words in str(e).split("\n")[0]
    assert record.compilations == []


def test_a_kernel_without_an_end(record, tmp_path):
    write(tmp_path)
    e = refused(kit.source(tmp_path, KERNEL.split("out) {")[0]), line=10)
    assert "parameter list of kernel fill has no end" in str(e)


def test_a_file_that_is_not_text(record, tmp_path):
    path = write(tmp_path)
    path.write_bytes(path.read_bytes() + b"// caf\xe9\n")
    e = refused(path)
    assert e.file == str(path) and "not UTF-8" in str(e)
    assert record.compilations == []


def test_a_wrong_value_of_a_macro_is_shown_where_it_is_used(each_compiler, tmp_path):
    path = write(tmp_path, "float v = GIVEN;")
    with pytest.raises(wb.BuildError) as caught:
        wb.build(path, backend="twin", defines={"GIVEN": "oops"})
    assert caught.value.line == 11 and "oops" in str(caught.value)
    assert value(wb.build(path, backend="twin", defines={"GIVEN": 6})) == 6


def test_only_the_first_error_is_shown_and_all_are_logged(each_compiler, tmp_path):
    e = refused(write(tmp_path, "float v = first_one;\n    float w = second_one;"), line=11)
    assert "first_one" in str(e) and "second_one" not in str(e)
    assert "second_one" in e.log
    logged(e)


@pytest.mark.parametrize("folder", ["with a space", "col:on", 'quo"te', "back\\slash", "grüße"])
def test_odd_names_of_folders(each_compiler, tmp_path, folder):
    here = tmp_path / folder
    here.mkdir()
    path = write(here, "float v = undeclared;")
    logged(refused(path, line=11))
    assert value(wb.build(write(here), backend="twin")) == 1


def test_a_warning_is_kept_and_is_no_error(each_compiler, tmp_path):
    kernel = wb.build(write(tmp_path, "int unused; float v = VALUE;"), backend="twin")
    assert f"{tmp_path / 'k.asc'}:11:" in kernel.info.log and "unused" in kernel.info.log
    assert value(kernel) == 1


def test_kernels_that_are_loaded_still_run_and_the_fixed_file_builds(each_compiler, tmp_path):
    path = write(tmp_path)
    loaded = wb.build(path, backend="twin")
    assert value(loaded) == 1
    for line, _ in (REFUSED["syntax error"], REFUSED["wrong type of an argument"]):
        write(tmp_path, line)
        first = refused(path, line=11)
        assert value(loaded) == 1
        with pytest.raises(wb.BuildError):
            loaded.rebuild(tile_length=64)
        assert str(refused(path, line=11)) == str(first)  # the same again: a failure is not cached
    write(tmp_path, "float v = VALUE + 4;")
    fixed = wb.build(path, backend="twin")
    assert (fixed.info.cached, value(fixed), value(loaded)) == (False, 5, 1)
    write(tmp_path)
    back = wb.build(path, backend="twin")
    assert (back.info.cached, value(back)) == (True, 1)
