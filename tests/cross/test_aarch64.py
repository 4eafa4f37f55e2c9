"""The twin on aarch64: built by Debian's cross compiler, run under qemu-user: the same bits.

The instructions of the fuzz harness (tests/fuzz) run as one whole program on both machines, from
the same records; every byte of every memory must be equal, NaN included.
"""

from __future__ import annotations

import os
import platform
import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from fuzz import interpreter
from fuzz import run as fuzz
from fuzz.draw import IMAGE, SCRATCH, Pools

from workbench.build.compiler import Compiler
from workbench.build.program import compile_program
from workbench.build.twin import TwinToolchain

CROSS, QEMU, ROOT = "aarch64-linux-gnu-g++", "qemu-aarch64", "/usr/aarch64-linux-gnu"
COUNT = int(os.environ.get("WORKBENCH_CROSS_COUNT", "3000"))
SEED = 64

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() == "aarch64", reason="this machine is an aarch64"),
    pytest.mark.skipif(
        not (shutil.which(CROSS) and shutil.which(QEMU)),
        reason="no cross compiler (apt-get install g++-aarch64-linux-gnu qemu-user)",
    ),
]


def program_text(cases) -> str:
    return interpreter.source(cases) + Path(__file__).with_name("main.inc").read_text()


def compiled(path: Path, cxx: str) -> Path:
    chain = TwinToolchain(Compiler((cxx,), shutil.which(cxx) or cxx))
    defines = {"FUZZ_IMAGE": IMAGE, "FUZZ_SCRATCH": SCRATCH, "FUZZ_COPY_PAD": 1}
    return compile_program(path, defines=defines, toolchain=chain).path


def memories(cases, seed: int, count: int) -> dict[str, np.ndarray]:
    """Records, images of UB and pieces of GM of `count` random instructions."""
    images, scratch = np.empty((count, IMAGE), np.uint8), np.zeros((count, SCRATCH), np.uint8)
    pools = Pools(seed)
    records = []
    order = list(range(len(cases)))
    random.Random(seed).shuffle(order)
    for n in range(count):
        number = order[n % len(order)]
        drawn = fuzz.draw(cases[number], f"{seed}/{n}", pools, images[n], scratch[n])
        records.append(interpreter.record(cases[number], drawn.instr, number))
    return {"records": np.stack(records), "images": images, "scratch": scratch}


def outputs(command: list[str], folder: Path, given: dict[str, np.ndarray]) -> dict[str, bytes]:
    """What a program leaves in the memories."""
    results = folder / "out"
    results.mkdir(exist_ok=True)
    for name, array in given.items():
        (folder / name).write_bytes(array.tobytes())
    done = subprocess.run(
        [*command, str(folder), str(results)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: (results / name).read_bytes() for name in given}


@pytest.fixture(scope="module")
def cases():
    twin = interpreter.Twin()
    have = twin.prepare(interpreter.all_cases())
    assert have
    return have


def test_every_instruction_has_the_same_bits_on_aarch64(cases, tmp_path) -> None:
    path = tmp_path / "bits.asc"
    path.write_text(program_text(cases))
    given = memories(cases, SEED, COUNT)
    here = outputs([str(compiled(path, "g++"))], tmp_path, given)
    there = outputs([QEMU, "-L", ROOT, str(compiled(path, CROSS))], tmp_path, given)
    assert here["images"] != given["images"].tobytes(), "the control: the program does something"
    rows = {name: np.frombuffer(here[name], np.uint8).reshape(COUNT, -1) for name in here}
    for name, bytes_there in there.items():
        other = np.frombuffer(bytes_there, np.uint8).reshape(COUNT, -1)
        differ = np.flatnonzero((rows[name] != other).any(1))
        numbers = {int(given["records"][n][0]) for n in differ}
        assert not len(differ), f"{name}: {sorted(cases[n].name for n in numbers)[:20]}"


HOST_NAN = """#include <cstdio>
#include <cstring>
int main(int argc, char **) {
    volatile float zero = float(argc - 1);
    const float nan = zero / zero;  // the machine's own: x86-64 sets its sign, aarch64 does not
    unsigned bits;
    std::memcpy(&bits, &nan, sizeof bits);
    std::printf("%08x", bits);
}
"""


def test_control_the_two_machines_differ_where_the_twin_takes_no_care(tmp_path) -> None:
    path = tmp_path / "nan.asc"
    path.write_text(HOST_NAN)
    found = [
        subprocess.run([*command, str(compiled(path, cxx))], capture_output=True, text=True).stdout
        for cxx, command in (("g++", []), (CROSS, [QEMU, "-L", ROOT]))
    ]
    assert found == ["ffc00000", "7fc00000"]
