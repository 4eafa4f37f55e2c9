"""What only whole programs show: the bytes of device memory, from `aclrtMalloc` to `aclrtFree`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from workbench.build.launch import check_names
from workbench.build.program import compile_program, run_program

PROGRAM = """#include "acl/acl.h"
#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void add_one(GM_ADDR x, GM_ADDR y, uint32_t n) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float *)x);
    out.SetGlobalBuffer((__gm__ float *)y);
    pipe.InitBuffer(que, 1, 4096);
    LocalTensor<float> t = que.AllocTensor<float>();
    DataCopyPad(t, in, DataCopyExtParams{1, n * 4, 0, 0, 0}, DataCopyPadExtParams<float>());
    que.EnQue(t);
    t = que.DeQue<float>();
    DataCopyPad(out, t, DataCopyExtParams{1, n * 4, 0, 0, 0});
    que.FreeTensor(t);
}

int main() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream;
    aclrtCreateStream(&stream);
    void *host, *x, *y;
    aclrtMallocHost(&host, 1024);
    aclrtMalloc(&x, 1024, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc(&y, 1024, ACL_MEM_MALLOC_HUGE_FIRST);
    for (int i = 0; i < 256; ++i) {
        static_cast<float *>(host)[i] = float(i);
    }
    aclrtMemcpy(x, 1024, host, @COPIED@, ACL_MEMCPY_HOST_TO_DEVICE);
    @FIRST@
    add_one<<<1, nullptr, stream>>>((uint8_t *)@SOURCE@, (uint8_t *)y, @COUNT@);
    aclrtSynchronizeStream(stream);
    @LAST@
    aclrtFree(y);
    aclrtFreeHost(host);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
"""
WORDS = {
    "COPIED": "1024",
    "FIRST": "",
    "SOURCE": "x",
    "COUNT": "256",
    "LAST": "aclrtFree(x);",
}
READ = PROGRAM[: PROGRAM.index("    DataCopyPad(t, in")].count("\n") + 1

# One mistake each: what differs from WORDS, and the fault it is.
MISTAKES = {
    "one element that was never copied": ({"COPIED": "1020"}, "init", "gm-uninitialised"),
    "one element past the end": ({"COUNT": "257"}, "mem", "gm-out-of-bounds"),
    "memory of the host": ({"SOURCE": "host"}, "mem", "gm-host-memory"),
    "memory that was freed": ({"FIRST": "aclrtFree(x);", "LAST": ""}, "mem", "gm-freed"),
    "memory that nobody allocated": ({"SOURCE": "&stream"}, "mem", "gm-out-of-bounds"),
}


def run(folder: Path, words: dict[str, str], check: str):
    text = textwrap.dedent(PROGRAM)
    for word, value in {**WORDS, **words}.items():
        text = text.replace(f"@{word}@", value)
    path = folder / "main.asc"
    path.write_text(text)
    return run_program(compile_program(path, arch="dav-2201"), checks=check_names(check))


@pytest.mark.parametrize("name", MISTAKES)
def test_device_memory(name: str, tmp_path: Path) -> None:
    words, kind, code = MISTAKES[name]
    found = run(tmp_path, words, kind)
    assert [(f["kind"], f["code"], f["line"]) for f in found.faults][:1] == [(kind, code, READ)]


def test_the_program_without_a_mistake(tmp_path: Path) -> None:
    found = run(tmp_path, {}, "all")
    assert (found.exit_code, found.faults) == (0, [])
