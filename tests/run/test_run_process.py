"""The process of a program: time limits, signals, groups, and what it prints."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_kit import START

from workbench import errors
from workbench.build import cache, program

HANG = """
#include <csignal>
#include <cstdio>
#include <fstream>
#include <unistd.h>
int main(int argc, char **argv) {
    if (argc > 2) std::signal(SIGTERM, SIG_IGN);
    const bool child = fork() == 0;
    std::ofstream(argv[1], std::ios::app) << getpid() << std::endl;
    if (!child) { std::printf("before\\n"); std::fflush(stdout); }
    for (;;) sleep(1);
}
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while any(map(alive, pids)):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("stubborn", [[], ["ignore SIGTERM"]], ids=["polite", "stubborn"])
def test_the_time_limit_ends_the_whole_group(call, write, tmp_path, stubborn):
    pids = tmp_path / "pids"
    code, out, _ = call(write(HANG), "--timeout", "1", "--json", "--", pids, *stubborn)
    assert code == 124
    assert (out["exit_code"], out["timed_out"]) == (None, True)
    assert out["signal"] == (signal.SIGKILL if stubborn else signal.SIGTERM)
    assert out["stdout"] == "before\n"
    assert 1 <= out["seconds"] < 30, "the program's own time, without the compiler's"
    found = [int(n) for n in pids.read_text().split()]
    assert len(found) == 2 and gone(found)


def test_the_time_limit_is_said(call, write, tmp_path):
    code, out, err = call(write(HANG), "--timeout", "0.5", "--", tmp_path / "pids")
    assert (code, out) == (124, "before\n") and "time limit" in err


def test_a_short_program_is_not_held_up(run):
    out = run("int main() {}\n", "--timeout", "50", rc=0)
    assert out["seconds"] < 20 and not out["timed_out"]


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_a_signal(call, write, number):
    text = "#include <csignal>\n#include <cstdlib>\n"
    text += "int main(int, char **argv) { std::raise(std::atoi(argv[1])); }\n"
    path = write(text)
    code, out, _ = call(path, "--json", "--", int(number))
    assert code == 128 + number
    assert (out["exit_code"], out["signal"], out["timed_out"]) == (None, number, False)
    code, _, err = call(path, "--", int(number))
    assert code == 128 + number and number.name in err


def test_what_a_program_leaves_in_the_background_is_ended(call, write, tmp_path):
    text = """
    #include <cstdio>
    #include <unistd.h>
    int main() {
        const int child = fork();
        if (child == 0) for (;;) sleep(1);
        std::printf("%d", child);
        std::fflush(stdout);
        _exit(3);
    }
    """
    code, out, _ = call(write(text), "--json")
    assert (code, out["exit_code"], out["timed_out"]) == (3, 3, False)
    assert gone([int(out["stdout"])])


def test_a_daemon_that_keeps_the_pipe_open_holds_nobody_up(run):
    text = """
    #include <cstdio>
    #include <unistd.h>
    int main() {
        if (fork() == 0) { setsid(); sleep(15); return 0; }
        usleep(300000);
        std::printf("done");
    }
    """
    out = run(text, rc=0)
    assert out["stdout"] == "done" and out["seconds"] < 10


def test_the_program_does_not_outlive_the_command(write, tmp_path):
    pids = tmp_path / "pids"
    path = write(HANG.replace("fork() == 0", "false"))
    command = [sys.executable, "-m", "workbench.cli", "run", str(path), "--", str(pids), "x"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"before\n"
    process.kill()
    process.wait()
    found = [int(n) for n in pids.read_text().split()]
    assert len(found) == 1 and gone(found)


def test_an_interrupt_ends_it(write, tmp_path):
    pids = tmp_path / "pids"
    command = [sys.executable, "-m", "workbench.cli", "run", str(write(HANG)), "--", str(pids)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"before\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert gone([int(n) for n in pids.read_text().split()])


def test_an_interrupt_while_it_starts_ends_it(write, tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    built = program.compile_program(write(HANG))
    real = subprocess.Popen

    def popen(*args, **how):
        process = real(*args, **how)
        end = time.monotonic() + 30
        while not pids.exists() or len(pids.read_text().split()) < 2:  # it is running by now
            assert time.monotonic() < end
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        return process

    monkeypatch.setattr(program.subprocess, "Popen", popen)
    with pytest.raises(KeyboardInterrupt):
        program.run_program(built, [str(pids)])
    assert gone([int(n) for n in pids.read_text().split()])


def test_much_output_is_cut_and_says_so(run, monkeypatch):
    monkeypatch.setattr(program, "OUTPUT_LIMIT", 1000)
    text = '#include <cstdio>\nint main() { for (int i = 0; i < 99999; ++i) puts("0123456"); }\n'
    out = run(text, rc=0)
    assert out["stdout"].startswith("0123456\n" * 125)
    assert out["stdout"].endswith(f"\n[{99999 * 8 - 1000} more bytes are left out]\n")


def test_output_that_is_no_text(run):
    out = run('#include <cstdio>\nint main() { std::fputs("a\\xff\\xfe", stdout); }\n', rc=0)
    assert out["stdout"] == "a\ufffd\ufffd"


FAULTY = (
    START
    + """
extern "C" __global__ __aicore__ void hang(GM_ADDR x) {
    AscendC::WaitFlag<AscendC::HardEvent::V_MTE3>(0);  // <- here
}
int main(int argc, char **) {
    aclrtSetDevice(0);
    hang<<<1, nullptr, nullptr>>>(nullptr);
    if (argc == 2) std::abort();
    if (argc == 3) std::_Exit(0);
    if (argc == 4) for (;;) {}
    return 0;
}
"""
)
LINE = 1 + FAULTY[: FAULTY.index("// <- here")].count("\n")


@pytest.mark.parametrize(
    ("args", "code"),
    [([], 1), (["abort"], 1), (["_Exit", "x"], 1), (["hang", "x", "x"], 124)],
    ids=["return", "abort", "_Exit", "hang"],
)
def test_a_fault_is_reported_however_the_program_ends(call, write, args, code):
    got, out, _ = call(write(FAULTY), "--json", "--timeout", "1.5", "--", *args)
    assert got == code, out
    (fault,) = out["faults"]
    assert (fault["kind"], fault["line"]) == ("sync", LINE)
    assert fault["file"].endswith("main.asc") and fault["message"] and fault["block"] == 0
    assert out["counters"]["launches"] == 1


def test_a_fault_is_printed_with_its_line(call, write):
    path = write(FAULTY)
    code, out, err = call(path)
    assert (code, out) == (1, "")
    assert f"{path}:{LINE}: sync fault (flag-not-set) in block 0" in err
    assert "WaitFlag<AscendC::HardEvent::V_MTE3>(0);" in err


def test_the_executable_alone_prints_its_faults(write):
    built = program.compile_program(write(FAULTY))
    done = subprocess.run([str(built.path)], capture_output=True, text=True)
    assert done.returncode == 0 and f"main.asc:{LINE}: sync fault" in done.stderr


def test_a_program_that_starts_another_reports_itself(call, write, tmp_path):
    inner = program.compile_program(write(FAULTY, "inner.asc"))
    text = f"""
    #include <cstdlib>
    int main() {{ return std::system("{inner.path} 2>/dev/null"); }}
    """
    code, out, _ = call(write(text), "--json")
    assert (code, out["faults"]) == (0, []) and out["counters"]["launches"] == 0
    assert os.path.exists(inner.path)


def test_a_program_that_vanishes_from_the_cache_is_made_again(write, monkeypatch, tmp_path):
    path = write("int main() { return 5; }\n")
    real, removed = program.run_program, []

    def run_program(built, *args, **how):
        if not removed:
            removed.append(built.path)
            cache.discard(built.path.parent.name)
        return real(built, *args, **how)

    monkeypatch.setattr(program, "run_program", run_program)
    assert program.run_file(path).exit_code == 5 and removed


def test_a_disk_that_nothing_can_be_run_from(write):
    built = program.compile_program(write("int main() {}\n"))
    copy = write("", "copy")
    copy.write_bytes(built.path.read_bytes())
    copy.chmod(0o644)
    with pytest.raises(errors.CacheError, match="noexec"):
        program.run_program(dataclasses.replace(built, path=copy))


def test_threads_of_the_host_launch_at_once(run):
    text = """
    #include <thread>
    #include <vector>
    __global__ __aicore__ void add(__gm__ int *x) { x[AscendC::GetBlockIdx()] += 1; }
    int main() {
        std::vector<std::thread> threads;
        int bad = 0, sums[4] = {};
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&, t] {
                aclrtSetDevice(0);
                aclrtStream stream;
                aclrtCreateStream(&stream);
                int *x, h[8];
                aclrtMalloc((void **)&x, sizeof h, ACL_MEM_MALLOC_HUGE_FIRST);
                aclrtMemset(x, sizeof h, 0, sizeof h);
                for (int n = 0; n < 50; ++n) add<<<8, nullptr, stream>>>(x);
                aclrtSynchronizeStream(stream);
                aclrtMemcpy(h, sizeof h, x, sizeof h, ACL_MEMCPY_DEVICE_TO_HOST);
                for (int i = 0; i < 8; ++i) sums[t] += h[i];
                aclrtFree(x);
                aclrtDestroyStream(stream);
            });
        }
        for (auto &thread : threads) thread.join();
        for (int sum : sums) bad += sum != 400;
        return bad;
    }
    """
    out = run(START + text, "--check", "all", rc=0)
    assert out["counters"]["launches"] == 200


def test_the_programs_name_is_that_of_its_file(run):
    out = run("#include <cstdio>\nint main(int, char **argv) { puts(argv[0]); }\n", rc=0)
    assert out["stdout"] == "main\n"
