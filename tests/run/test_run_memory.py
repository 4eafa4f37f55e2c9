"""Device memory in checked mode: each mistake at its line, and its corrected twin without one."""

from __future__ import annotations

import pytest
from run_kit import START

PROGRAM = (
    START
    + """
extern "C" __global__ __aicore__ void store(__gm__ uint8_t *x, int from, int to) {
    for (int i = from; i < to; ++i) x[i] = uint8_t(i);
}
const auto kHuge = ACL_MEM_MALLOC_HUGE_FIRST;
const auto H2D = ACL_MEMCPY_HOST_TO_DEVICE;
const auto D2H = ACL_MEMCPY_DEVICE_TO_HOST;
int main() {
    aclrtSetDevice(0);
    uint8_t *d, *e, *p, h[200] = {};
    aclrtMalloc((void **)&d, 100, kHuge);
    aclrtMalloc((void **)&e, 100, kHuge);
    aclrtMallocHost((void **)&p, 100);
    aclrtMemcpy(d, 100, h, 100, H2D);
    BODY
    aclrtFree(e);
    aclrtFreeHost(p);
    aclrtResetDevice(0);
    return 0;
}
"""
)

# name: (family, code, the mistake with `// <-` at its line, the same without it)
MISTAKES = {
    "leak": (
        "mem leak",
        "void *x; aclrtMalloc(&x, 64, kHuge); // <-\n aclrtFree(d);",
        "void *x; aclrtMalloc(&x, 64, kHuge); aclrtFree(x); aclrtFree(d);",
    ),
    "leak of host memory": (
        "mem leak",
        "void *x; aclrtMallocHost(&x, 64); // <-\n aclrtFree(d);",
        "void *x; aclrtMallocHost(&x, 64); aclrtFreeHost(x); aclrtFree(d);",
    ),
    "freed twice": (
        "mem double-free",
        "aclrtFree(d);\n aclrtFree(d); // <-",
        "aclrtFree(d);",
    ),
    "host memory freed as device memory": (
        "mem foreign-free",
        "aclrtFree(p); // <-\n aclrtFree(d);",
        "aclrtFree(d);",
    ),
    "device memory freed as host memory": (
        "mem foreign-free",
        "aclrtFreeHost(d); // <-\n aclrtFree(d);",
        "aclrtFree(d);",
    ),
    "a pointer of nobody's": (
        "mem foreign-free",
        "aclrtFree(h); // <-\n aclrtFree(d);",
        "aclrtFree(d);",
    ),
    "a pointer into the middle": (
        "mem foreign-free",
        "aclrtFree(d + 32); // <-\n aclrtFree(d);",
        "aclrtFree(d);",
    ),
    "copy to device past the end": (
        "mem copy-bounds",
        "aclrtMemcpy(d, 101, h, 101, H2D); // <-\n aclrtFree(d);",
        "aclrtMemcpy(d, 100, h, 100, H2D); aclrtFree(d);",
    ),
    "copy to device from inside past the end": (
        "mem copy-bounds",
        "aclrtMemcpy(d + 60, 100, h, 41, H2D); // <-\n aclrtFree(d);",
        "aclrtMemcpy(d + 60, 100, h, 40, H2D); aclrtFree(d);",
    ),
    "copy to host past the end": (
        "mem copy-bounds",
        "aclrtMemcpy(h, 200, d, 128, D2H); // <-\n aclrtFree(d);",
        "aclrtMemcpy(h, 200, d, 100, D2H); aclrtFree(d);",
    ),
    "copy past pinned host memory": (
        "mem copy-bounds",
        "aclrtMemcpyAsync(p, 200, d, 100, D2H, nullptr);\n"
        "aclrtMemcpy(p + 1, 200, d, 100, D2H); // <-\n aclrtFree(d);",
        "aclrtMemcpy(p, 100, d, 100, D2H); aclrtFree(d);",
    ),
    "rows past the end": (
        "mem copy-bounds",
        "aclrtMemcpy2d(d, 40, h, 10, 10, 4, H2D); // <-\n aclrtFree(d);",
        "aclrtMemcpy2d(d, 30, h, 10, 10, 4, H2D); aclrtFree(d);",
    ),
    "memset past the end": (
        "mem copy-bounds",
        "aclrtMemset(d, 128, 0, 128); // <-\n aclrtFree(d);",
        "aclrtMemset(d, 100, 0, 100); aclrtFree(d);",
    ),
    "copy to freed memory": (
        "mem use-after-free",
        "aclrtFree(d);\n aclrtMemcpy(d, 100, h, 100, H2D); // <-",
        "aclrtMemcpy(d, 100, h, 100, H2D);\n aclrtFree(d);",
    ),
    "copy from freed memory": (
        "mem use-after-free",
        "aclrtFree(d);\n aclrtMemcpy(h, 100, d, 100, D2H); // <-",
        "aclrtMemcpy(h, 100, d, 100, D2H);\n aclrtFree(d);",
    ),
    "the wrong direction": (
        "mem memory-kind",
        "aclrtMemcpy(h, 100, d, 100, H2D); // <-\n aclrtFree(d);",
        "aclrtMemcpy(h, 100, d, 100, D2H); aclrtFree(d);",
    ),
    "host memory taken for device memory": (
        "mem memory-kind",
        "aclrtMemcpy(p, 100, h, 100, H2D); // <-\n aclrtFree(d);",
        "aclrtMemcpy(p, 100, h, 100, ACL_MEMCPY_HOST_TO_HOST); aclrtFree(d);",
    ),
    "a kernel's plain stores past the end": (
        "mem guard",
        "store<<<1, nullptr, nullptr>>>(d, 90, 101); // <-\n aclrtFree(d);",
        "store<<<1, nullptr, nullptr>>>(d, 90, 100); aclrtFree(d);",
    ),
    "a kernel's plain stores before the start": (
        "mem guard",
        "store<<<1, nullptr, nullptr>>>(d, -1, 10); // <-\n aclrtFree(d);",
        "store<<<1, nullptr, nullptr>>>(d, 0, 10); aclrtFree(d);",
    ),
    "bytes that nobody wrote": (
        "init uninitialised",
        "aclrtMemcpy(h, 100, e, 100, D2H); // <-\n aclrtFree(d);",
        "aclrtMemset(e, 100, 1, 100); aclrtMemcpy(h, 100, e, 100, D2H); aclrtFree(d);",
    ),
    "a tail that nobody wrote": (
        "init uninitialised",
        "aclrtMemcpy(e, 100, h, 98, H2D);\naclrtMemcpy(h, 100, e, 100, D2H); // <-\n aclrtFree(d);",
        "aclrtMemcpy(e, 100, h, 98, H2D); aclrtMemcpy(h, 100, e, 98, D2H); aclrtFree(d);",
    ),
    "copied within the device from what nobody wrote": (
        "init uninitialised",
        "aclrtMemcpy(d, 100, e, 100, ACL_MEMCPY_DEVICE_TO_DEVICE); d = d;\n"
        "aclrtFree(d); d = e;\n aclrtMemcpy(h, 100, d, 9, D2H); // <-",
        "aclrtMemcpy(e, 100, d, 100, ACL_MEMCPY_DEVICE_TO_DEVICE);\n"
        "aclrtFree(d); d = e;\n aclrtMemcpy(h, 100, d, 9, D2H);",
    ),
}


def with_body(body: str) -> tuple[str, int]:
    text = PROGRAM.replace("BODY", body)
    return text, 1 + text[: text.find("// <-")].count("\n") if "// <-" in text else 0


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found_at_its_line(run, name):
    family, body, _ = MISTAKES[name]
    text, line = with_body(body)
    out = run(text, "--check", "all", rc=1)
    (fault,) = out["faults"]
    assert f"{fault['kind']} {fault['code']}" == family, fault
    assert (fault["line"], fault["file"][-8:]) == (line, "main.asc")
    assert fault["mend"] and fault["instruction"]
    assert out["exit_code"] == 0  # the program's own


@pytest.mark.parametrize("name", MISTAKES)
def test_its_corrected_twin_has_no_fault(run, name):
    run(with_body(MISTAKES[name][2])[0], "--check", "all", rc=0)


@pytest.mark.parametrize("name", ["leak", "freed twice", "copy to device past the end"])
def test_without_the_check_nothing_is_reported(run, name):
    text, _ = with_body(MISTAKES[name][1])
    assert run(text, rc=0)["faults"] == []
    assert run(text, "--check", "race,sync", rc=0)["faults"] == []


def test_messages_name_both_places(run):
    text, line = with_body(MISTAKES["freed twice"][1])
    (fault,) = run(text, "--check", "mem", rc=1)["faults"]
    malloc = 1 + text[: text.index("aclrtMalloc((void **)&d")].count("\n")
    assert f"main.asc:{malloc}" in fault["message"] and f"main.asc:{line - 1}" in fault["message"]
    text, _ = with_body(MISTAKES["copy to device from inside past the end"][1])
    (fault,) = run(text, "--check", "mem", rc=1)["faults"]
    assert "60 bytes from the start, and 1 bytes too long" in fault["message"]


def test_bytes_a_kernel_stored_through_a_plain_pointer_count_as_written(run):
    body = "store<<<1, nullptr, nullptr>>>(e, 0, 100); aclrtMemcpy(h, 100, e, 100, D2H);"
    run(with_body(body + " aclrtFree(d);")[0], "--check", "all", rc=0)


def test_leaks_are_not_reported_on_top_of_another_fault(run):
    text, _ = with_body("aclrtFree(h); // <-\n return 0;")
    out = run(text, "--check", "mem", rc=1)
    assert [f["code"] for f in out["faults"]] == ["foreign-free"]


def test_several_leaks_are_all_reported(run):
    out = run(with_body("return 0;")[0], "--check", "mem", rc=1)
    assert [f["code"] for f in out["faults"]] == ["leak"] * 3


def test_a_forked_child_reports_no_leak_of_its_parents(run):
    text = PROGRAM.replace("BODY", "if (fork() == 0) std::exit(0); wait(nullptr); aclrtFree(d);")
    run("#include <unistd.h>\n#include <sys/wait.h>\n" + text, "--check", "mem", rc=0)


# ---- what waits for a stream and what does not ---------------------------------------------------

COPY = (
    START
    + """
extern "C" __global__ __aicore__ void copy(GM_ADDR x, GM_ADDR z) {
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 64);
    AscendC::GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float *)x, 16);
    out.SetGlobalBuffer((__gm__ float *)z, 16);
    AscendC::LocalTensor<float> local = buf.Get<float>();
    AscendC::DataCopy(local, in, 16);
    AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE3>(0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE3>(0);
    AscendC::DataCopy(out, local, 16);
}
int main() {
    aclrtSetDevice(0);
    aclrtStream s;
    aclrtCreateStream(&s);
    aclrtEvent e;
    aclrtCreateEvent(&e);
    float *x, *z, *w, *pinned, h[16] = {};
    aclrtMalloc((void **)&x, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void **)&z, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void **)&w, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMallocHost((void **)&pinned, 64);
    aclrtMemcpy(x, 64, h, 64, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemset(w, 64, 0, 64);
    copy<<<1, nullptr, s>>>((GM_ADDR)x, (GM_ADDR)z);
    BETWEEN;
    AFTER;
    aclrtSynchronizeStream(s);
    aclrtFree(x);
    aclrtFree(z);
    aclrtFree(w);
    aclrtFreeHost(pinned);
    aclrtDestroyEvent(e);
    aclrtDestroyStream(s);
    aclrtResetDevice(0);
}
"""
)
READ = "aclrtMemcpy(h, 64, z, 64, ACL_MEMCPY_DEVICE_TO_HOST)"


@pytest.mark.parametrize(
    ("between", "after"),
    [
        ("aclrtSynchronizeStream(s)", READ),
        ("aclrtSynchronizeStreamWithTimeout(s, 9000)", READ),
        ("aclrtSynchronizeDevice()", READ),
        ("aclrtRecordEvent(e, s); aclrtSynchronizeEvent(e)", READ),
        # With memory that is not pinned the call waits for the copy, and so for the kernel.
        ("aclrtMemcpyAsync(h, 64, z, 64, ACL_MEMCPY_DEVICE_TO_HOST, s)", READ),
        ("", "aclrtMemcpyAsync(pinned, 64, z, 64, ACL_MEMCPY_DEVICE_TO_HOST, s)"),
        ("", "aclrtMemcpy(h, 64, w, 64, ACL_MEMCPY_DEVICE_TO_HOST)"),  # which no kernel writes
    ],
)
def test_what_waits_for_the_kernel(run, between, after):
    run(COPY.replace("BETWEEN", between).replace("AFTER", after), "--check", "all", rc=0)


@pytest.mark.parametrize(
    ("between", "after"),
    [
        ("", READ),
        ("aclrtRecordEvent(e, s)", READ),
        ("aclrtMemcpyAsync(pinned, 64, z, 64, ACL_MEMCPY_DEVICE_TO_HOST, s)", READ),
        ("aclrtMemcpy(h, 64, w, 64, ACL_MEMCPY_DEVICE_TO_HOST)", READ),
        ("", "aclrtMemcpy(w, 64, z, 64, ACL_MEMCPY_DEVICE_TO_DEVICE)"),
        ("", "aclrtMemcpy(z, 64, h, 64, ACL_MEMCPY_HOST_TO_DEVICE)"),
        ("", "aclrtMemset(z, 64, 0, 64)"),
    ],
)
def test_what_does_not(run, between, after):
    text = COPY.replace("BETWEEN", between).replace("AFTER", after)
    (fault,) = run(text, "--check", "all", rc=1)["faults"]
    assert (fault["kind"], fault["code"]) == ("race", "missing-sync")
    before = COPY[: COPY.index("AFTER")].count("\n")
    assert fault["line"] == 1 + before
    assert f"main.asc:{before - 1}" in fault["message"]  # the launch
