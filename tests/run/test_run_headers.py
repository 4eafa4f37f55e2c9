"""Launches wherever a user may write them: in headers, namespaces, templates and macros."""

from __future__ import annotations

import pytest
from run_kit import START

ADD = """#pragma once
#include "kernel_operator.h"
#include "../types.h"
namespace ours {
template <typename T, int n>
__global__ __aicore__ void add(__gm__ T *out, T value) {
    out[AscendC::GetBlockIdx()] = T(value + n);
}
inline void launch_add(Stream stream, float *out, float value) {
    add<float, 4><<<2, nullptr, stream>>>(out, value);
}
}  // namespace ours
"""

MAIN = """
#include <cstdio>
#include "kernels/add.h"
#define KERNEL ours::add<int, 3>
#define LAUNCH(k, s, ...) k<<<1, nullptr, s>>>(__VA_ARGS__)
extern "C" __global__ __aicore__ void plain(GM_ADDR x, int64_t n);
extern "C" __global__ __aicore__ void plain(GM_ADDR x, int64_t n) { ((float *)x)[n] = 5; }
namespace {
__global__ __vector__ void hidden(__gm__ float *x) { x[4] = 9; }
template <typename T>
void through(aclrtStream stream, T *x) {
    ours::add<T, 40><<<1, nullptr, stream>>>(x + 5, T(2));
}
}  // namespace
int main() {
    aclrtSetDevice(0);
    float *x;
    int *y;
    aclrtMalloc((void **)&x, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void **)&y, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtStream s = nullptr;
    ours::launch_add(s, x, 1.5f);
    KERNEL<<<1, nullptr, s>>>(y, 7);
    LAUNCH(plain, s, (GM_ADDR)x, 3);
    LAUNCH((ours::add<int, 30>), s, y + 1, 7);
    ::hidden<<<1 << 0, nullptr, s>>>(x);
    through(s, x);
    for (int i = 6; i < 8; ++i)
        plain<<<
            1,
            nullptr, s>>>(reinterpret_cast<GM_ADDR>(x), i);
    std::printf("%g %g %g %g %g %g %g %d %d", x[0], x[1], x[3], x[4], x[5], x[6], x[7], y[0], y[1]);
}
"""


@pytest.fixture
def files(write):
    write(ADD, "kernels/add.h")
    write('#pragma once\n#include "acl/acl.h"\nusing Stream = aclrtStream;\n', "types.h")
    return write


@pytest.mark.parametrize(
    "include", ["kernels/add.h", "kernels/../kernels/add.h", "other/../kernels/add.h"]
)
def test_launches_everywhere(files, call, tmp_path, include):
    (tmp_path / "other").mkdir()
    code, out, _ = call(files(MAIN.replace("kernels/add.h", include)), "--json")
    assert code == 0, out
    assert out["stdout"] == "5.5 5.5 5 9 42 5 5 10 37"
    assert out["counters"]["launches"] == 8


def test_a_header_found_through_a_folder(write, call, tmp_path):
    write(ADD.replace("../types.h", "types.h"), "far/add.h")
    write('#include "acl/acl.h"\nusing Stream = aclrtStream;\n', "near/types.h")
    main = write(MAIN.replace('"kernels/add.h"', "<add.h>"))
    code, out, _ = call(main, "--json", "-I", tmp_path / "far", "-I", tmp_path / "near")
    assert code == 0 and out["stdout"].startswith("5.5 5.5")


def test_a_kernel_file_that_another_includes(write, call):
    write(START + "__global__ __aicore__ void k(__gm__ int *x) { x[0] = 3; }\n", "k.asc")
    text = '#include "k.asc"\nint main() { int x = 0; k<<<1, nullptr, nullptr>>>(&x); return x; }\n'
    assert call(write(text), "--json")[0] == 3


def test_an_error_in_a_header_is_at_its_line(files, call, tmp_path):
    files(ADD.replace("T(value + n)", "T(value + n + nothing)"), "kernels/add.h")
    code, out, _ = call(files(MAIN), "--json")
    assert code == 1
    assert out["error"]["file"] == str(tmp_path / "kernels" / "add.h")
    assert out["error"]["line"] == 7


def test_a_launch_that_cannot_be_read_in_a_header(files, call, tmp_path):
    files(ADD.replace("<<<2, nullptr, stream>>>", "<<<2>>>"), "kernels/add.h")
    code, out, _ = call(files(MAIN), "--json")
    assert code == 1 and "three values" in out["error"]["message"]
    assert (out["error"]["file"], out["error"]["line"]) == (str(tmp_path / "kernels/add.h"), 10)


def test_file_and_line_macros_and_faults_are_the_users(files, call, tmp_path):
    header = """#pragma once
#include "kernel_operator.h"
__global__ __aicore__ void stuck() {
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);
}
#define HERE __FILE__, __LINE__
inline const char *name() { return __FILE__; }
"""
    files(header, "kernels/stuck.h")
    text = """
    #include "acl/acl.h"
    #include <cstdio>
    #include "kernels/stuck.h"
    int main() {
        std::printf("%s %s %d", name(), HERE);
        stuck<<<1, nullptr, nullptr>>>();
    }
    """
    code, out, _ = call(files(text), "--json")
    header_path, main_path, line = out["stdout"].split()
    assert header_path == str(tmp_path / "kernels" / "stuck.h")
    assert (main_path, line) == (str(tmp_path / "main.asc"), "6")
    assert (code, out["faults"][0]["line"]) == (1, 4)
    assert out["faults"][0]["file"] == header_path


@pytest.mark.parametrize(
    "order",
    [
        ["kernel_operator.h", "acl/acl.h"],
        ["acl/acl.h", "kernel_operator.h"],
        ["acl/acl_rt.h", "kernel_operator.h", "acl/acl_base.h", "acl/acl.h"],
        ["tiling/platform/platform_ascendc.h", "acl/acl.h", "kernel_operator.h"],
    ],
    ids="-".join,
)
def test_the_order_of_includes_is_free(run, order):
    text = "".join(f'#include "{name}"\n' for name in order)
    text += "#include <algorithm>\n#include <iostream>\n#include <map>\n#include <thread>\n"
    run(text + "int main() { return aclInit(nullptr) + aclFinalize(); }\n", rc=0)


def test_the_header_of_the_user_wins_over_none_of_ours(write, call):
    """A file beside the program with the name of one of our headers' parts changes nothing."""
    write("#error not meant\n", "twin/runtime.h")
    write("#error not meant\n", "host.h")
    assert call(write('#include "acl/acl.h"\nint main() { return 6; }\n'), "--json")[0] == 6


DEDUCED = """
#include <cstdio>
template <typename T>
__global__ __aicore__ void fill(__gm__ T *x, T value) { x[AscendC::GetBlockIdx()] = value; }
__global__ __aicore__ void pick(__gm__ float *x, int32_t n) { x[n] = 3; }
__global__ __aicore__ void pick(__gm__ int32_t *x, int32_t n) { x[n] = 4; }
int main() {
    aclrtSetDevice(0);
    float *x;
    int32_t *y;
    aclrtMalloc((void **)&x, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void **)&y, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtStream s = nullptr;
    fill<<<2, nullptr, s>>>(x, 1.5f);
    fill<<<2, nullptr, s>>>(y, 7);
    pick<<<1, nullptr, s>>>(x, 2);
    pick<<<1, nullptr, s>>>(y, 2);
    std::printf("%g %g %g %d %d %d", x[0], x[1], x[2], y[0], y[1], y[2]);
}
"""


def test_arguments_choose_overloads_and_template_parameters(run):
    assert run(START + DEDUCED)["stdout"] == "1.5 1.5 3 7 7 4"


@pytest.mark.parametrize("name", ["RmsNorm", "Sum", "SoftMax"])
def test_a_class_may_have_the_name_of_a_high_level_function(run, name):
    text = f"""
#include <cstdio>
using namespace AscendC;
class {name} {{
  public:
    __aicore__ inline void Process(__gm__ float *x) {{ x[0] = 6; }}
}};
__global__ __aicore__ void k(__gm__ float *x) {{
    {name} op;
    op.Process(x);
}}
int main() {{
    float *x;
    aclrtSetDevice(0);
    aclrtMalloc((void **)&x, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    k<<<1, nullptr, nullptr>>>(x);
    std::printf("%g", x[0]);
}}
"""
    assert run(START + text)["stdout"] == "6"
