"""The command itself: each flag, each field, each exit code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid

import pytest
from run_kit import START

PRINT = """
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#ifndef N
#define N -1
#endif
int main(int argc, char **argv) {
    std::printf("n=%d argc=%d", int(N), argc);
    for (int i = 1; i < argc; ++i) std::printf(" <%s>", argv[i]);
    std::fprintf(stderr, "to stderr\\n");
    return argc > 1 ? std::atoi(argv[1]) : 0;
}
"""


def test_every_field(run):
    out = run(PRINT, "--", "7", "two words", "--json", rc=7)
    assert (out["exit_code"], out["signal"], out["timed_out"]) == (7, None, False)
    assert out["stdout"] == "n=-1 argc=4 <7> <two words> <--json>"
    assert out["stderr"] == "to stderr\n"
    assert out["faults"] == []
    assert out["counters"]["launches"] == 0 and out["counters"]["lines"] == []
    assert (out["arch"], out["checks"], out["defines"]) == ("dav-2201", [], {})
    assert out["seconds"] > 0 and out["build_seconds"] > 0


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_the_programs_own_status_is_kept(run, status):
    assert run(PRINT, "--", status, rc=status)["exit_code"] == status


def test_defines(run):
    assert run(PRINT, "-D", "N=42", rc=0)["stdout"].startswith("n=42")
    out = run(PRINT, "-D", "N=(1 + 2)", "-D", "M=x", rc=0)
    assert out["stdout"].startswith("n=3") and out["defines"] == {"N": "(1 + 2)", "M": "x"}


def test_without_json_the_output_goes_straight_through(call, write):
    code, out, err = call(write(PRINT), "--", "5")
    assert (code, out, err) == (5, "n=-1 argc=2 <5>", "to stderr\n")


def test_stdin_is_the_programs(write, tmp_path):
    path = write("#include <iostream>\nint main() { int x; std::cin >> x; return x; }\n")
    command = [sys.executable, "-m", "workbench.cli", "run", str(path)]
    assert subprocess.run(command, input=b"19\n").returncode == 19


def test_include_folders(run, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "value.h").write_text("#define VALUE 11\n")
    text = '#include "value.h"\n#include <value.h>\nint main() { return VALUE; }\n'
    run(text, "-I", tmp_path / "more", rc=11)


def test_cwd(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    text = """
    #include <fstream>
    #include <string>
    int main() {
        std::string word;
        std::ifstream("in.txt") >> word;
        std::ofstream("out.txt") << word << word;
        return word == "ab" ? 0 : 1;
    }
    """
    (tmp_path / "there" / "in.txt").write_text("ab")
    run(text, "--cwd", tmp_path / "there", rc=0)
    assert (tmp_path / "there" / "out.txt").read_text() == "abab"
    run(text, rc=1)  # the control: elsewhere there is no such file


@pytest.mark.parametrize(
    ("arch", "soc", "ub", "cores"),
    [
        ("dav-2201", "Ascend910B", 196352, 48),
        ("dav-3510", "Ascend950", 253952, 64),
        ("dav-2002", "Ascend310P", 262144, 7),
    ],
)
def test_arch(run, arch, soc, ub, cores):
    text = (
        START
        + """
    #include "tiling/platform/platform_ascendc.h"
    int main() {
        auto *platform = platform_ascendc::PlatformAscendCManager::GetInstance();
        uint64_t ub = 0;
        platform->GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
        int64_t cores = 0;
        aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &cores);
        std::printf("%s %llu %u %lld", aclrtGetSocName(), (unsigned long long)ub,
                    platform->GetCoreNumAiv(), (long long)cores);
    }
    """
    )
    out = run(text, "--arch", arch, rc=0)
    name, *numbers = out["stdout"].split()
    assert name.startswith(soc) and [int(n) for n in numbers] == [ub, cores, cores]
    assert out["arch"] == arch


LAUNCH = (
    START
    + """
extern "C" __global__ __aicore__ void copy(GM_ADDR x, GM_ADDR z) {
    AscendC::TPipe pipe;
    AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 1, 256);
    AscendC::GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float *)x + AscendC::GetBlockIdx() * 64, 64);
    out.SetGlobalBuffer((__gm__ float *)z + AscendC::GetBlockIdx() * 64, 64);
    auto a = que.AllocTensor<float>();
    AscendC::DataCopy(a, in, 64);
    que.EnQue(a);
    a = que.DeQue<float>();
    AscendC::DataCopy(out, a, 64);
    que.FreeTensor(a);
}
int main() {
    aclrtSetDevice(0);
    float host[256], *x, *z;
    for (int i = 0; i < 256; ++i) host[i] = i;
    aclrtMalloc((void **)&x, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void **)&z, sizeof host, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(x, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE);
    for (int n = 0; n < 2; ++n) copy<<<4, nullptr, nullptr>>>((GM_ADDR)x, (GM_ADDR)z);
    aclrtSynchronizeStream(nullptr);
    aclrtMemcpy(host, sizeof host, z, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST);
    aclrtFree(x);
    aclrtFree(z);
    return host[255] == 255 ? 0 : 1;
}
"""
)


def test_counters_are_exact(run):
    counters = run(LAUNCH, rc=0)["counters"]
    assert counters["launches"] == 2
    assert counters["gm_to_ub_bytes"] == counters["ub_to_gm_bytes"] == 2 * 4 * 256
    assert counters["copies"] == 2 * 2 * 4
    assert counters["queue_operations"] == 2 * 4 * 4
    assert counters["ub_high_water"] == 256
    line = 1 + LAUNCH[: LAUNCH.index("DataCopy(a, in")].count("\n")
    (found,) = [c for c in counters["lines"] if c["line"] == line]
    assert found["gm_to_ub_bytes"] == 2 * 4 * 256 and found["file"].endswith("main.asc")


def test_counters_can_be_left_out(run):
    counters = run(LAUNCH, "--no-counters", rc=0)["counters"]
    assert (counters["launches"], counters["copies"], counters["lines"]) == (2, 0, [])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("mem", ["mem"]),
        ("sync,mem", ["mem", "sync"]),
        ("all", ["mem", "init", "race", "sync"]),
    ],
)
def test_checks_are_named_and_a_clean_program_passes_them(run, text, names):
    assert run(LAUNCH, "--check", text, rc=0)["checks"] == names


def test_a_check_that_found_nothing_says_what_was_checked_and_counted(call, write):
    checked = "workbench: 0 faults; checked mem, race in 2 launches"
    counted = "counted 0 vector instructions, 2,048 bytes from GM to UB, 2,048 back"
    path = write(LAUNCH)
    code, out, err = call(path, "--check", "mem,race")
    assert (code, out, err) == (0, "", f"{checked}; {counted}\n")
    assert call(path, "--check", "mem,race", "--no-counters")[2] == f"{checked}\n"
    assert call(path)[2] == ""  # nothing was asked for
    # The control: of a program with a fault the fault is told.
    path = write(LAUNCH.replace("&x, sizeof host", "&x, sizeof host / 2"))
    code, _, err = call(path, "--check", "mem", "--no-counters")
    assert code == 1 and "mem fault" in err and "0 faults" not in err


def test_two_runs_compile_once(call, write):
    path = write(f"// {uuid.uuid4()}\nint main() {{ return N; }}\n")
    assert call(path, "-D", "N=1", "--json")[1]["cached"] is False
    again = call(path, "-D", "N=1", "--json")[1]
    assert again["cached"] is True and again["build_seconds"] < 1
    assert call(path, "-D", "N=2", "--json")[1]["cached"] is False
    path.write_text(path.read_text() + "// another text\n")
    assert call(path, "-D", "N=1", "--json")[1]["cached"] is False


def test_a_changed_header_compiles_anew(call, write):
    path = write('#include "h/value.h"\nint main() { return VALUE; }\n')
    write(f"// {uuid.uuid4()}\n#define VALUE 1\n", "h/value.h")
    code, out, _ = call(path, "--json")
    assert (code, out["cached"]) == (1, False)
    write("#define VALUE 2\n", "h/value.h")
    code, out, _ = call(path, "--json")
    assert (code, out["cached"]) == (2, False)


# ---- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["nowhere.asc"],
        ["main.asc", "--check", "speed"],
        ["main.asc", "--check", ""],
        ["main.asc", "-D", "N"],
        ["main.asc", "-D", "N=1", "-D", "N=2"],
        ["main.asc", "-I", "nowhere"],
        ["main.asc", "--cwd", "nowhere"],
        ["main.asc", "--timeout", "0"],
        ["main.asc", "--timeout", "soon"],
        ["main.asc", "--arch", "dav-1"],
        [],
    ],
    ids=" ".join,
)
def test_wrong_usage(call, write, args, monkeypatch, tmp_path):
    write("int main() {}\n")
    monkeypatch.chdir(tmp_path)
    code, out, err = call(*args)
    assert (code, out) == (2, "") and err.startswith("workbench: ")
    code, out, _ = call(*args, "--json")
    assert code == 2 and out["error"]["message"]


def test_no_compiler(call, write, monkeypatch):
    path = write("int main() {}\n")
    monkeypatch.setenv("CXX", "/no/such/compiler")
    code, out, _ = call(path, "--json")
    assert (code, out["error"]["type"]) == (3, "MissingError")


def test_a_compile_error_is_shown_at_the_users_line(call, write):
    path = write('#include "acl/acl.h"\n\nint main() {\n    return oops;\n}\n')
    code, out, err = call(path)
    assert (code, out) == (1, "")
    assert err.startswith(f"workbench: {path}:4: ") and "return oops;" in err
    code, out, _ = call(path, "--json")
    assert code == 1
    assert (out["error"]["file"], out["error"]["line"]) == (str(path), 4)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("void f();\nint main() { f<<<1>>>(); }\n", 2, "three values"),
        ("void f();\nint main() { f<<<1, nullptr, nullptr(); }\n", 2, "without '>>>'"),
        ("int main() {\n    if (true) {\n    return 0;\n}\n", 4, "expected '}'"),
        ("#include <cstdio>\nvoid k();\n", None, "has no `int main"),
        ("void f();\nint main() { f(); }\n", None, "undefined reference"),
    ],
)
def test_other_errors_of_the_source(call, write, text, line, words):
    code, out, _ = call(write(text), "--json")
    assert (code, out["error"]["type"]) == (1, "BuildError")
    assert re.search(words, out["error"]["message"])
    if line:
        assert out["error"]["line"] == line


def test_an_unknown_check_says_what_there_is(call, write):
    code, _, err = call(write("int main() {}\n"), "--check", "mem,speed")
    assert code == 2 and "check 'speed': there are mem, init, race, sync, and all" in err


def test_it_imports_no_torch(write):
    path = write("int main() { return 4; }\n")
    code = (
        "import sys; from workbench.cli import main; rc = main(sys.argv[1:]);"
        "print('TORCH' if 'torch' in sys.modules else 'light', rc, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "run", str(path)],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.stderr.split()[-2:] == ["light", "4"], done.stderr
