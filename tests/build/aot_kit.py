"""A stand-in for CANN, for the build ahead of time: a home with a bisheng that writes down how it
was called and with what environment.

By what BISHENG_DOES says it then writes a few bytes in place of each object ("fake": fast), or
compiles the same files for this CPU with g++ against the twin's headers and runtime ("twin": the
module can be launched). No device and no CANN is in sight here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from workbench import paths
from workbench.build import source as source_pass

BISHENG = """#!{python}
import hashlib, json, os, re, subprocess, sys, time
args = sys.argv[1:]
if args == ["--version"]:
    sys.exit(print("bisheng stand-in 0.0"))
out = args[args.index("-o") + 1]
asc = next((a for a in args if a.endswith(".asc")), None)
cpp = next((a for a in args if a.endswith(".cpp")), None)
names = [n for n in os.environ if n.startswith("ASCEND_")] + ["LD_LIBRARY_PATH"]
seen = {{"argv": sys.argv, "out": out, "environment": {{n: os.environ.get(n) for n in names}}}}
with open(os.environ["BISHENG_LOG"], "a") as log:
    print(json.dumps(seen), file=log)
print(os.environ.get("BISHENG_SAYS", ""), end="", file=sys.stderr)
if re.fullmatch(os.environ.get("BISHENG_FAILS", "none"), out):
    sys.exit(1)
if "BISHENG_SLEEPS" in os.environ:
    open(out, "w").write("half an object")
    open(os.environ["BISHENG_SLEEPS"], "w").close()
    time.sleep(20)
if "-x" in args and cpp:
    sys.exit("bisheng stand-in: -x asc does not take plain C++")
if os.environ["BISHENG_DOES"] == "fake":
    read = [open(p, "rb").read() for p in [asc, cpp, *args] if p and os.path.isfile(p)]
    found = hashlib.sha1(b"".join(read) + " ".join(args).encode()).hexdigest()
    empty = re.fullmatch(os.environ.get("BISHENG_EMPTY", "none"), out)
    open(out, "w").write("" if empty else f"PyInit__C_npu {{found}}")
    sys.exit(0)
import importlib.util
spec = importlib.util.spec_from_file_location("source", {source!r})
source = sys.modules["source"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source)
if asc:
    first, _, table = open(asc).read().partition("\\n")
    path = re.fullmatch('#include "(.*)"', first)[1]
    with open("unit.cpp", "w") as file:
        print(f'#line 1 "{{path}}"', source.parse(open(path).read()).text, sep="\\n", file=file)
        print(source.parse(table).text, file=file)
    number = re.search(r"--npu-arch=dav-(\\d+)", " ".join(args))[1]
    command = [a for a in args if re.match("-D|-I|-std|-f|-O", a)]
    command += ["-iquote", os.path.dirname(path), "-I", {twin!r}, "-fvisibility=hidden"]
    command += ["-ffp-contract=off", f"-DWB_TWIN_ARCH={{number}}", "-c", "unit.cpp", "-o", out]
elif cpp:
    command = args
else:
    command = ["-Wl,--no-as-needed", *args, "-pthread", *os.environ["BISHENG_OBJECTS"].split()]
sys.exit(subprocess.call(["g++", *command]))
"""

NPU_SMI = """#!/bin/sh
# Answers each question as the file of its name says.
file="{folder}/$(echo "$*" | tr ' ' '_')"
if [ -f "$file" ]; then cat "$file"; else echo "npu-smi: no such question: $*" >&2; exit 1; fi
"""

TABLE = """+---------------------------------------------------------------------------------------+
| npu-smi 24.1.rc3                 Version: 24.1.rc3                                    |
+---------------------------+---------------+-------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)     Hugepages-Usage   |
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)              |
+===========================+===============+===========================================+
{rows}
"""
ROW = """| {number}     {name:19} | OK            | 93.0        40             0    / 0          |
| 0                         | 0000:C1:00.0  | 0           0    / 0          3347 / 65536   |
+===========================+===============+==============================================+"""


def install_cann(home: Path, library: bytes = b"a library") -> Path:
    """A home of CANN with the stand-in, `libascendcl.so` and an `opp`; the compiler's path."""
    path = home / "bin" / "bisheng"
    path.parent.mkdir(parents=True)
    twin = str(paths.TWIN / "include")
    path.write_text(BISHENG.format(python=sys.executable, source=source_pass.__file__, twin=twin))
    path.chmod(0o755)
    for folder in ("lib64", "opp"):
        (home / folder).mkdir()
    (home / "lib64" / "libascendcl.so").write_bytes(library)
    return path


def install_npu_smi(folder: Path, *chips: str, board: str = "") -> Path:
    """A folder for PATH with an npu-smi that names these chips."""
    (folder / "answers").mkdir(parents=True)
    program = folder / "npu-smi"
    program.write_text(NPU_SMI.format(folder=folder / "answers"))
    program.chmod(0o755)
    rows = "\n".join(ROW.format(number=i, name=name) for i, name in enumerate(chips))
    (folder / "answers" / "info").write_text(TABLE.format(rows=rows))
    (folder / "answers" / "info_-t_board_-i_0").write_text(board)
    return folder


class Calls:
    """What the stand-in was called with."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def all(self) -> list[dict]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [json.loads(line) for line in lines]

    @property
    def made(self) -> list[str]:
        """Names of the files that it was asked to make."""
        return sorted(call["out"] for call in self.all)

    def of(self, out: str) -> list[str]:
        """The arguments it was called with to make a file."""
        (one,) = [call["argv"] for call in self.all if call["out"] == out]
        return one

    def reset(self) -> None:
        self.path.unlink(missing_ok=True)


def clean_environment(monkeypatch, home: Path | None) -> None:
    """No variable of CANN's or of the build's but the home."""
    for name in [n for n in os.environ if n.startswith(("ASCEND_", "BISHENG_"))]:
        monkeypatch.delenv(name)
    for name in ("WORKBENCH_ASCEND_ARCH", "WORKBENCH_FORCE_ASCEND", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("ASCEND_HOME_PATH", str(home))
