"""What the tests of the builder share: small kernels, a stand-in compiler, and caches of their own.

The stand-in logs each call and then runs the real compiler, so that a test can count compilations.
What it does besides is said by variables (STANDIN_…), so that all tests share one stand-in, and
with it the objects that take long to compile.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from workbench.build import builder, cache, steps
from workbench.build.config import KernelConfig

ROOT = Path(__file__).resolve().parents[2]

# Writes N into out[block] of every block.
FILL = """#include "kernel_operator.h"
#ifndef N
#define N 1
#endif
extern "C" __global__ __aicore__ void fill(__gm__ float *out) {
    out[AscendC::GetBlockIdx()] = N;
}
"""

STANDIN = """#!/bin/sh
# Logs its calls, then does what the real compiler does.
if [ -n "$STANDIN_LOG" ]; then echo "$*" >> "$STANDIN_LOG"; fi
case " $* " in *" --version "*) exec {real} "$@" ;; esac
if [ -n "$STANDIN_SAYS" ]; then echo "$STANDIN_SAYS" >&2; exit 1; fi
if [ -n "$STANDIN_NOTHING" ]; then exit 0; fi
if [ -n "$STANDIN_SLEEP" ]; then
    echo half a file > started.o
    touch "$STANDIN_SLEEP"
    sleep 60 & echo $! > "$STANDIN_SLEEP.pid"; wait
fi
if [ -n "$STANDIN_GATE" ]; then
    touch "$STANDIN_GATE.$$"
    while [ ! -e "$STANDIN_GATE" ]; do sleep 0.02; done
fi
exec {real} "$@"
"""


def standin(folder: Path, real: str) -> Path:
    """The stand-in for `real` in `folder`, made once, whoever is first."""
    path = folder / f"standin-{Path(real).name}"
    if not path.exists():
        fresh = folder / f"{path.name}.{os.getpid()}"
        fresh.write_text(STANDIN.format(real=shutil.which(real)))
        fresh.chmod(0o755)
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path


@contextlib.contextmanager
def first_of_all(claim: Path):
    """True for the first process that comes here; the others get False when the first is done."""
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        wait_for(claim.with_suffix(".done").exists, 300)
        yield False
        return
    try:
        yield True
    finally:
        claim.with_suffix(".done").touch()


def source(folder: Path, text: str = FILL, name: str = "k.asc") -> Path:
    """Write an .asc file."""
    path = folder / name
    path.write_text(text)
    return path


def entries() -> list[Path]:
    """The folders of all entries of the cache in use."""
    folder = cache.root() / cache.LAYOUT
    return sorted(p for p in folder.iterdir() if p.name not in ("tmp", "logs"))


def modules() -> list[Path]:
    """Entries that are a variant (not an object)."""
    return [p for p in entries() if (p / "_C_npu.so").exists()]


def workspaces() -> list[Path]:
    return sorted((cache.root() / cache.LAYOUT / "tmp").iterdir())


def forget() -> None:
    """Nothing is loaded, nothing verified: as near to a fresh process as one process can come (the
    loader still knows what it has loaded from a path)."""
    builder._modules.clear()
    cache._verified.clear()


def key_of(path, config=None, defines=None, include_dirs=(), toolchain=None) -> str:
    """The key of a build, computed without building."""
    chain = toolchain or builder._toolchain("twin")
    unit = steps.read_unit(
        Path(path), config or KernelConfig(), steps.check_defines(defines or {}), None
    )
    folders = [*chain.include_folders(), *map(Path, include_dirs)]
    return builder._key(unit, chain, folders)[0]


class Recorder:
    """What the stand-in compiler was called with."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def calls(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    @property
    def compilations(self) -> list[str]:
        return [c for c in self.calls if c != "--version"]

    def reset(self) -> None:
        self.path.unlink(missing_ok=True)


def run_python(code: str, *args: str, env: dict[str, str] | None = None) -> subprocess.Popen:
    """A fresh Python with the workbench on its path; it prints JSON."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
    )


def finish(process: subprocess.Popen, timeout: float = 120) -> dict:
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
