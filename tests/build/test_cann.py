"""The npu backend against a stand-in for bisheng: every command line, and what is said of it.

No device and no CANN is in sight here, so nothing below says that a kernel runs on an NPU. The
stand-in writes down how it was called, then makes a loadable module of the unit with the project's
own source pass and the host compiler, against a few words in place of CANN's headers, or the twin's
where a test asks for them.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import types
from pathlib import Path

import build_kit as kit
import pytest
import torch

import workbench as wb
from workbench import paths
from workbench.build import arch, builder, cache, cann, steps
from workbench.build import source as source_pass
from workbench.build.twin import TwinToolchain

BISHENG = """#!{python}
import json, os, re, subprocess, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("bisheng stand-in 0.0"))
args = sys.argv[1:]
unit = next((a for a in args if a.endswith(".asc")), None)
text = open(unit).read() if unit else None
with open(os.environ["BISHENG_LOG"], "a") as log:
    seen = {{"argv": sys.argv, "unit": text, "paths": os.environ.get("LD_LIBRARY_PATH")}}
    print(json.dumps(seen), file=log)
print(os.environ.get("BISHENG_SAYS", ""), end="", file=sys.stderr)
if "BISHENG_FAILS" in os.environ:
    sys.exit(1)
if "BISHENG_NOTHING" in os.environ:
    sys.exit(0)
import importlib.util
spec = importlib.util.spec_from_file_location("source", {source!r})
source = sys.modules["source"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(source)
out = ["-o", args[args.index("-o") + 1]]
if unit:
    first, _, table = text.partition("\\n")
    path = re.fullmatch('#include "(.*)"', first)[1]
    with open("unit.cpp", "w") as file:
        print(f'#line 1 "{{path}}"', source.parse(open(path).read()).text, sep="\\n", file=file)
        print(source.parse(table).text, file=file)
    number = re.search(r"--npu-arch=dav-(\\d+)", " ".join(args))[1]
    headers = os.environ.get("BISHENG_HEADERS") or {include!r}
    command = [a for a in args if re.match("-D|-I|-std|-f", a)]
    command += ["-iquote", os.path.dirname(path), "-I", headers, "-fvisibility=hidden"]
    command += [f"-DWB_TWIN_ARCH={{number}}", "-c", "unit.cpp"]
else:
    objects = [a for a in args if a.endswith(".o")]
    command = ["-shared", "-pthread", *objects, *os.environ.get("BISHENG_OBJECTS", "").split()]
sys.exit(subprocess.call(["g++", *command, *out]))
"""

# What FILL and its like need of CANN's headers; a launch does nothing.
HEADER = """#include <stdint.h>
#define __global__
#define __aicore__
#define __gm__
typedef uint8_t *GM_ADDR;
namespace AscendC { inline int64_t GetBlockIdx() { return 0; } }
namespace twin {
struct Launch {
    template <typename K> auto operator()(K) { return [](auto...) {}; }
};
inline Launch configure(uint32_t, void *, void *) { return {}; }
}
"""

PLACES = ("bin", "tools/ccec_compiler/bin", f"{platform.machine()}-linux/ccec_compiler/bin")


def install(home: Path, place: str = "bin") -> Path:
    """A home of CANN with the stand-in and a folder of libraries; the stand-in's path."""
    path = home / place / "bisheng"
    path.parent.mkdir(parents=True, exist_ok=True)
    include = home / "include"
    text = BISHENG.format(python=sys.executable, source=source_pass.__file__, include=str(include))
    path.write_text(text)
    path.chmod(0o755)
    include.mkdir(exist_ok=True)
    (include / "kernel_operator.h").write_text(HEADER)
    (home / "lib64").mkdir(exist_ok=True)
    return path


class Calls:
    """What the stand-in was called with."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def all(self) -> list[dict]:
        return (
            [json.loads(x) for x in self.path.read_text().splitlines()]
            if self.path.exists()
            else []
        )

    @property
    def compilation(self) -> list[str]:
        (one,) = [c["argv"] for c in self.all if c["unit"] is not None]
        return one

    @property
    def unit(self) -> str:
        (one,) = [c["unit"] for c in self.all if c["unit"] is not None]
        return one

    @property
    def link(self) -> list[str]:
        (one,) = [c["argv"] for c in self.all if c["unit"] is None]
        return one


@pytest.fixture
def no_cann(monkeypatch, tmp_path):
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME", raising=False)
    monkeypatch.setattr(cann, "DEFAULT_HOME", str(tmp_path / "no-default-home"))


@pytest.fixture(scope="session")
def host_object(base, prepared) -> tuple[Path, list[str]]:
    """(a cache with npu_module.cpp compiled for the npu backend, the host compiler's calls)."""
    compiler, _ = prepared("g++")
    folder, log = base / "objects-npu", base / "objects-npu.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_CACHE", str(folder))
        patch.setenv("CXX", str(compiler))
        patch.setenv("STANDIN_LOG", str(log))
        with kit.first_of_all(folder.with_suffix(".claim")) as mine:
            if mine:
                anywhere = cann.Cann(base, compiler, "a test")
                for item in cann.CannToolchain(anywhere).objects():
                    steps.compiled(item)
    return folder, log.read_text().splitlines()


@pytest.fixture
def calls(record, no_cann, host_object, tmp_path, monkeypatch) -> Calls:
    """A home of CANN at $ASCEND_HOME_PATH, and what its bisheng is called with."""
    top = cache.root()
    skip = shutil.ignore_patterns("tmp", "logs")
    shutil.copytree(host_object[0], top, dirs_exist_ok=True, ignore=skip)
    install(tmp_path / "cann")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    monkeypatch.setenv("BISHENG_LOG", str(tmp_path / "bisheng.log"))
    assert record.compilations == []  # whatever it logs from now on is the test's own
    return Calls(tmp_path / "bisheng.log")


@pytest.fixture
def twin_headers(calls, monkeypatch):
    """The stand-in compiles against the twin's headers and links its runtime: any kernel builds."""
    runtime = [steps.compiled(o) for o in TwinToolchain().objects() if o.name != "npu_module.o"]
    monkeypatch.setenv("BISHENG_HEADERS", str(paths.TWIN / "include"))
    monkeypatch.setenv("BISHENG_OBJECTS", " ".join(map(str, runtime)))


@pytest.fixture
def torch_npu(monkeypatch) -> list:
    """A torch_npu that writes down what is done with its current stream."""
    done: list = []
    stream = types.SimpleNamespace(synchronize=lambda: done.append("flush"), npu_stream=0x1234)
    module = types.ModuleType("torch_npu")
    module.npu = types.SimpleNamespace(current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    return done


# ---- command lines -----------------------------------------------------------------------------


def test_the_compilation_is_the_documented_one(calls, tmp_path):
    path = kit.source(tmp_path)
    config = wb.KernelConfig(tile_length=64, max_blocks=8)
    kernel = wb.build(path, config, backend="npu", defines={"N": 3, "EMPTY": ""})
    argv = calls.compilation
    assert argv[0] == str(tmp_path / "cann" / "bin" / "bisheng")
    head = ["-x", "asc", "--npu-arch=dav-2201", "-std=c++17", "-O2", "-fPIC"]
    assert argv[1:7] == head
    macros = ["-DTILE_LENGTH=64", "-DMAX_BLOCKS=8", "-DN=3", "-DEMPTY"]
    assert sorted(a for a in argv if a.startswith("-D")) == sorted(macros)
    # Nothing else but folders, the unit and the object: no flag of the host compiler's.
    rest = [a for a in argv[7:] if a not in macros and not a.startswith("-I")]
    named = dict(zip(rest[::2], rest[1::2], strict=True))
    assert named.pop("-iquote", str(tmp_path)) == str(tmp_path)
    assert {k: Path(v).name for k, v in named.items()} == {"-c": "unit.asc", "-o": "unit.o"}
    assert f"-I{paths.ASCEND}" in argv
    assert not any(str(paths.TWIN) in a for a in argv)  # CANN's own headers, never the twin's
    assert kernel.info.flags[:6] == head and sorted(kernel.info.flags[6:]) == sorted(macros)
    assert kernel.constants == {"TILE_LENGTH": 64, "MAX_BLOCKS": 8, "N": 3}


def test_the_link_is_the_documented_one(calls, tmp_path):
    machine = tmp_path / "cann" / f"{platform.machine()}-linux" / "lib64"
    machine.mkdir(parents=True)
    wb.build(kit.source(tmp_path), backend="npu")
    argv = calls.link
    assert argv[:2] == [str(tmp_path / "cann" / "bin" / "bisheng"), "-shared"]
    assert "asc" not in argv and not any(a.startswith("--npu-arch") for a in argv)
    objects = [Path(a).name for a in argv if a.endswith(".o")]
    assert objects == ["unit.o", "npu_module.o"]  # and nothing of the twin's runtime
    assert Path(argv[argv.index("-o") + 1]).name == "_C_npu.so"
    folders = [str(tmp_path / "cann" / "lib64"), str(machine)]
    assert [a for a in argv if a.startswith("-L")] == [f"-L{f}" for f in folders]
    assert [a for a in argv if a.startswith("-Wl,")] == [f"-Wl,-rpath,{f}" for f in folders]
    assert argv.index("-lascendcl") > argv.index(f"-L{folders[0]}")
    assert argv[-1] == "-lascendcl"  # after the objects that need it


def test_the_module_is_compiled_by_the_host_compiler_alone(host_object, calls, record, tmp_path):
    compilations = [c for c in host_object[1] if c != "--version"]
    assert len(compilations) == 1
    (one,) = compilations
    assert f"-c {paths.ASCEND / 'npu_module.cpp'}" in one
    assert " -x" not in f" {one}" and "--npu-arch" not in one
    assert "-std=c++17" in one and "-fPIC" in one
    kernel = wb.build(kit.source(tmp_path), backend="npu")
    assert len(calls.all) == 2  # the unit and the link
    assert not any(a.endswith((".cpp", ".cc")) for c in calls.all for a in c["argv"])
    assert record.compilations == []  # the object is cached: once for all variants
    kernel.rebuild(tile_length=128)
    assert record.compilations == []


LAUNCHES = """#include "kernel_operator.h"
#include "own.h"
namespace deep {
extern "C" __global__ __aicore__ void marked(__gm__ float *out, int32_t n) { out[n] = VALUE; }
}
template <typename T>
__global__ __aicore__ void pattern(__gm__ T *out) {}
inline void call_unmodified(float *out, void *stream) {
    deep::marked<<<4, nullptr, stream>>>(out, 0);
    pattern<float><<<4, nullptr, stream>>>(out);
}
"""


def test_the_users_file_goes_through_unmodified(calls, tmp_path):
    path = kit.source(tmp_path, LAUNCHES)
    (tmp_path / "own.h").write_text("#define VALUE 1\n")
    before, mark = path.read_bytes(), path.stat().st_mtime_ns
    kernel = wb.build(path, backend="npu")
    first, _, table = calls.unit.partition("\n")
    assert first == f'#include "{path}"'
    assert calls.unit.count("#include") == 2 and "kernel_table.h" in table.splitlines()[1]
    for word in ("VALUE", "pattern", "call_unmodified", "own.h", "stream>>>(out"):
        assert word in LAUNCHES and word not in calls.unit
    assert "::deep::marked<<<launch->blocks, nullptr, launch->stream>>>(" in table
    assert table.count("<<<") == 1  # templates are the file's own business
    assert "twin" not in table
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, mark)
    assert kernel.info.entries == ["marked"]


def test_a_path_is_included_as_it_is(calls, tmp_path):
    """In an #include a backslash is no escape, unlike in a #line."""
    folder = tmp_path / "back\\slash and space"
    folder.mkdir()
    path = kit.source(folder)
    wb.build(path, backend="npu")
    assert calls.unit.splitlines()[0] == f'#include "{path}"'


def test_the_lm_head_is_built_as_it_is_shipped(calls, twin_headers, torch_npu):
    config = wb.KernelConfig(tile_length=64, max_blocks=8)
    kernel = wb.build("lm_head", config, backend="npu", dtypes=["bf16"])
    assert calls.unit.splitlines()[0] == f'#include "{paths.ASCEND / "lm_head_ascend.asc"}"'
    assert {"-DTILE_LENGTH=64", "-DMAX_BLOCKS=8"} <= set(calls.compilation)
    assert calls.unit.count("<<<") == len(kernel.info.entries) > 0
    assert (kernel.module.backend, kernel.module.arch) == ("npu", "dav-2201")
    with pytest.raises(wb.InputError, match=r"on cpu; .*built for the npu backend takes .* on npu"):
        kernel(torch.ones(1, 64, dtype=torch.bfloat16), torch.ones(2, 64, dtype=torch.bfloat16))


@pytest.mark.parametrize("name", arch.names())
def test_the_architecture_is_passed_on_and_reported(calls, tmp_path, name):
    kernel = wb.build(kit.source(tmp_path), wb.KernelConfig(arch=name), backend="npu")
    assert f"--npu-arch={name}" in calls.compilation
    assert (kernel.info.backend, kernel.info.arch) == ("npu", name)
    assert (kernel.module.backend, kernel.module.arch) == ("npu", name)


def test_include_dirs_are_searched_after_ours(calls, tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "own.h").write_text("#define N 5\n")
    path = kit.source(tmp_path, '#include "own.h"\n' + kit.FILL)
    wb.build(path, backend="npu", include_dirs=[tmp_path / "inc"])
    folders = [a for a in calls.compilation if a.startswith("-I")]
    assert folders.index(f"-I{paths.ASCEND}") < folders.index(f"-I{tmp_path / 'inc'}")


def test_the_environment_that_cann_needs_reaches_bisheng(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "cann" / "lib64"))
    wb.build(kit.source(tmp_path), backend="npu")
    assert calls.all[0]["paths"] == str(tmp_path / "cann" / "lib64")


# ---- the cache ---------------------------------------------------------------------------------


def test_npu_variants_are_cached_apart_from_the_twins(calls, tmp_path):
    path = kit.source(tmp_path)
    npu = wb.build(path, backend="npu")
    again = wb.build(path, backend="npu")
    assert again.info.cached and len(calls.all) == 2
    twin = wb.build(path, backend="twin")
    assert not twin.info.cached and twin.info.key != npu.info.key
    assert (twin.module.backend, npu.module.backend) == ("twin", "npu")
    kit.forget()
    assert wb.build(path, backend="npu").module.backend == "npu" and len(calls.all) == 2


def test_another_cann_is_another_variant(calls, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    first = wb.build(path, backend="npu")
    compiler = tmp_path / "cann" / "bin" / "bisheng"
    os.utime(compiler, ns=(0, 10**18))  # an update in place
    assert not wb.build(path, backend="npu").info.cached
    other = install(tmp_path / "other")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "other"))
    second = wb.build(path, backend="npu")
    assert not second.info.cached
    # Each says which compiler it was made by: a build that silently takes another is a complaint.
    assert f"({compiler}, $ASCEND_HOME_PATH)" in first.info.compiler
    assert f"({other}, $ASCEND_HOME_PATH)" in second.info.compiler


def own_header(folder: Path, line: str) -> Path:
    folder.mkdir()
    (folder / "own.h").write_text("#define VALUE 1\n")
    return kit.source(folder, f"{line}\n{kit.FILL.replace('= N;', '= VALUE;')}")


@pytest.mark.parametrize("line", ['#include "own.h"', "#include <own.h>"])
def test_an_edited_header_rebuilds(calls, tmp_path, line):
    path = own_header(tmp_path / "sources", line)
    given = [path.parent] if "<" in line else []
    assert not wb.build(path, backend="npu", include_dirs=given).info.cached
    assert wb.build(path, backend="npu", include_dirs=given).info.cached
    (path.parent / "own.h").write_text("#define VALUE 2\n")
    assert not wb.build(path, backend="npu", include_dirs=given).info.cached


def test_a_header_that_cannot_be_followed_rebuilds_always(calls, tmp_path):
    """bisheng is not asked what it has read, so nothing is taken for unchanged."""
    path = own_header(tmp_path / "sources", '#define H "own.h"\n#include H')
    assert not wb.build(path, backend="npu").info.cached
    assert not wb.build(path, backend="npu").info.cached


def test_no_folder_is_searched_that_the_key_does_not_know(calls, tmp_path):
    """`<own.h>` beside the source is not found, as on the twin: else its edits were not seen."""
    path = own_header(tmp_path / "sources", "#include <own.h>")
    for backend in ("twin", "npu"):
        with pytest.raises(wb.BuildError, match=r"own\.h") as caught:
            wb.build(path, backend=backend)
        assert caught.value.line == 1


def test_a_kernel_table_of_the_users_is_not_ours(calls, tmp_path):
    path = kit.source(tmp_path)
    (tmp_path / "kernel_table.h").write_text("#error the wrong one\n")
    for backend in ("npu", "twin"):
        assert wb.build(path, backend=backend).info.entries == ["fill"]


# ---- which CANN --------------------------------------------------------------------------------


def test_homes_are_tried_in_order(no_cann, tmp_path, monkeypatch):
    homes = {n: tmp_path / n for n in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "default")}
    wanted = {n: install(home, "tools/ccec_compiler/bin") for n, home in homes.items()}
    monkeypatch.setattr(cann, "DEFAULT_HOME", str(homes["default"]))
    assert cann.find_cann() == cann.Cann(homes["default"], wanted["default"], "the default home")
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        monkeypatch.setenv(name, str(homes[name]))
        assert cann.find_cann() == cann.Cann(homes[name], wanted[name], f"${name}")
    # a home without bisheng does not end the search
    wanted["ASCEND_HOME_PATH"].unlink()
    assert cann.find_cann().bisheng == wanted["ASCEND_TOOLKIT_HOME"]
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", "")
    assert cann.find_cann().bisheng == wanted["default"]


def test_the_default_home_is_the_documented_one():
    assert cann.DEFAULT_HOME == "/usr/local/Ascend/ascend-toolkit/latest"


def test_folders_of_a_home_are_tried_in_order(no_cann, tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    for place in reversed(PLACES):
        path = install(tmp_path, place)
        assert cann.find_cann().bisheng == path
    for place in PLACES:  # neither a folder of that name nor a file that cannot run is taken
        assert cann.find_cann().bisheng == tmp_path / place / "bisheng"
        (tmp_path / place / "bisheng").unlink()
        (tmp_path / place / "bisheng").mkdir()
    assert cann.find_cann() is None


def test_a_bisheng_that_cannot_be_run_is_passed_over(no_cann, tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    install(tmp_path, PLACES[0]).chmod(0o644)
    assert cann.find_cann() is None
    assert (
        cann.Cann(tmp_path, install(tmp_path, PLACES[1]), "$ASCEND_HOME_PATH") == cann.find_cann()
    )


def test_a_relative_home_is_made_absolute(no_cann, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = install(tmp_path / "here")
    monkeypatch.setenv("ASCEND_HOME_PATH", "here")
    assert cann.find_cann().bisheng == path
    assert cann.find_cann().libraries == [tmp_path / "here" / "lib64"]


# ---- which backend -----------------------------------------------------------------------------


def test_without_cann_the_npu_backend_says_what_to_do(record, no_cann, tmp_path):
    with pytest.raises(wb.MissingError) as caught:
        wb.build(kit.source(tmp_path), backend="npu")
    for words in (
        "bisheng",
        "$ASCEND_HOME_PATH",
        "$ASCEND_TOOLKIT_HOME",
        cann.DEFAULT_HOME,
        "Install CANN 8.5",
        "set_env.sh",
        "backend='twin'",
    ):
        assert words in str(caught.value)
    assert record.calls == []


def test_without_a_host_compiler_the_npu_backend_says_so(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    with pytest.raises(wb.MissingError, match=r"CXX=.*no-such-compiler is not on PATH"):
        wb.build(kit.source(tmp_path), backend="npu")
    assert calls.all == []


def test_auto_is_the_twin_without_a_device(calls, tmp_path, monkeypatch):
    """CANN alone is no device."""
    monkeypatch.setitem(sys.modules, "torch_npu", None)
    kernel = wb.build(kit.source(tmp_path), backend="auto")
    assert kernel.info.backend == "twin" and calls.all == []


def test_auto_needs_all_three(no_cann, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    monkeypatch.setenv("CXX", shutil.which("g++", path=os.defpath + ":/usr/local/bin"))
    assert len(cann.device_reasons()) == 3
    assert builder._toolchain("auto").name == "twin"
    (tmp_path / "site" / "torch_npu").mkdir(parents=True)
    (tmp_path / "site" / "torch_npu" / "__init__.py").write_text("raise OSError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))  # found, not imported
    assert len(cann.device_reasons()) == 2
    install(tmp_path / "cann")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "cann"))
    assert cann.device_reasons() == ["no NPU device (/dev/davinci*)"]
    assert builder._toolchain("auto").name == "twin"
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "npu-smi").write_text("#!/bin/sh\n")
    (tmp_path / "tools" / "npu-smi").chmod(0o755)
    assert cann.device_reasons() == []
    assert builder._toolchain("auto").name == "npu"


@pytest.mark.parametrize("backend", ["cuda", "NPU", "", None])
def test_an_unknown_backend(record, tmp_path, backend):
    with pytest.raises(wb.ConfigError, match=r"unknown backend .*; known ones are auto, twin, npu"):
        wb.build(kit.source(tmp_path), backend=backend)
    assert record.calls == []


# ---- launching, as far as it goes without a device ---------------------------------------------


@pytest.mark.parametrize("missing", [True, False])
def test_tensors_on_the_cpu_are_refused(calls, tmp_path, monkeypatch, missing, request):
    """With torch_npu and without it: the tensor is what is wrong in both cases."""
    if missing:
        monkeypatch.setitem(sys.modules, "torch_npu", None)
    else:
        request.getfixturevalue("torch_npu")
    kernel = wb.build(kit.source(tmp_path), backend="npu")
    words = "a tensor on cpu; a kernel built for the npu backend takes tensors on npu"
    with pytest.raises(wb.InputError, match=words):
        kernel.launch("fill", 1, torch.zeros(1))


@pytest.mark.parametrize("error", [ImportError, OSError, RuntimeError])
def test_a_torch_npu_that_does_not_import_is_named(calls, tmp_path, monkeypatch, error):
    kernel = wb.build(kit.source(tmp_path), backend="npu")
    monkeypatch.delitem(sys.modules, "torch_npu", raising=False)
    (tmp_path / "site").mkdir()
    said = f"raise {error.__name__}('libhccl.so: no such file')\n"
    (tmp_path / "site" / "torch_npu.py").write_text(said)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(wb.MissingError, match=r"torch_npu.*libhccl\.so"):
        kernel.launch("fill", 1, None)


def test_the_stream_is_flushed_before_the_launch_and_passed_on(calls, torch_npu, tmp_path):
    kernel = wb.build(kit.source(tmp_path), backend="npu")

    def launch(*args, **options):
        assert options == {"checks": 0, "switches": 0, "perturb": 0, "regions": None}
        torch_npu.append(args)
        return {"ub_bytes": 0, "used": []}

    known = kernel.module.kernels
    kernel._modules["fill"] = types.SimpleNamespace(kernels=known, launch=launch)
    kernel.launch("fill", 7, None)
    flush, (name, blocks, stream, args, *_, ids) = torch_npu
    assert (flush, name, blocks, stream, args, ids) == ("flush", "fill", 7, 0x1234, [0], None)
    with pytest.raises(wb.InputError, match="block_ids works on the twin only"):
        kernel.launch("fill", 7, None, block_ids=[1])


# ---- what is said ------------------------------------------------------------------------------


def test_nothing_claims_to_have_run_on_an_npu(calls, twin_headers, tmp_path):
    kernel = wb.build(kit.source(tmp_path), backend="npu")
    shipped = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="npu")
    claims = re.compile(r"verif|hardware|measured|tested|valid|exact|confirm|proven", re.I)
    for made in (kernel, shipped):
        said = [str(made.info), repr(made), made._repr_html_(), json.dumps(made.info.to_dict())]
        text = "\n".join([*said, made.info.log])
        assert not claims.search(text.replace(str(tmp_path), "")), text
        assert made.info.fidelity == {
            "tag": "as the device computes"
        }  # the twin's tags are its own
        assert "bisheng stand-in 0.0" in made.info.compiler  # the record says what it was made by
    assert "Nobody has run this on a device" in cann.__doc__


def test_what_bisheng_says_is_in_the_log(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("BISHENG_SAYS", "warning: of the stand-in\n")
    kernel = wb.build(kit.source(tmp_path), backend="npu")
    assert kernel.info.log.count("warning: of the stand-in") == 2  # compilation and link
    kit.forget()
    assert "warning: of the stand-in" in wb.build(kit.source(tmp_path), backend="npu").info.log


# ---- controls: a bisheng that fails ------------------------------------------------------------


def refused(path, **options) -> wb.BuildError:
    before = kit.entries()
    with pytest.raises(wb.BuildError) as caught:
        wb.build(path, backend="npu", **options)
    assert kit.entries() == before  # nothing half-made is kept
    if caught.value.log_path:
        assert Path(caught.value.log_path).read_text() == caught.value.log
    return caught.value


def test_a_refusal_is_placed_in_the_users_file(calls, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    said = f"In file included from unit.asc:1:\n{path}:6:5: error: use of undeclared 'Foo'\n"
    monkeypatch.setenv("BISHENG_SAYS", said + "1 error generated.\n")
    monkeypatch.setenv("BISHENG_FAILS", "1")
    e = refused(path)
    assert (e.file, e.line) == (str(path), 6)
    line = "     6 |     out[AscendC::GetBlockIdx()] = N;"
    assert str(e).startswith(f"{path}:6: use of undeclared 'Foo'\n{line}\n")
    assert said in e.log and e.log_path in str(e)
    assert len(calls.all) == 1  # no link after that
    monkeypatch.delenv("BISHENG_FAILS")
    assert wb.build(path, backend="npu").module.backend == "npu"


def test_a_refusal_in_a_header_of_canns_is_placed_at_the_users_line(calls, tmp_path, monkeypatch):
    path = kit.source(tmp_path)
    header = tmp_path / "cann" / "include" / "kernel_operator.h"
    said = (
        f"{header}:90:9: error: static assertion failed: no such type\n"
        f"{path}:6:9: note: in instantiation of function template specialization 'X<char>'\n"
    )
    monkeypatch.setenv("BISHENG_SAYS", said)
    monkeypatch.setenv("BISHENG_FAILS", "1")
    e = refused(path)
    assert (e.file, e.line) == (str(path), 6)
    assert "static assertion failed: no such type" in str(e)


def test_a_refusal_without_a_place_shows_its_words(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("BISHENG_FAILS", "1")
    monkeypatch.setenv("BISHENG_SAYS", "bisheng: error: unsupported value for --npu-arch\n")
    e = refused(kit.source(tmp_path))
    assert (e.file, e.line) == (None, None)
    assert "building k.asc failed" in str(e) and "unsupported value for --npu-arch" in str(e)
    monkeypatch.setenv("BISHENG_SAYS", "")
    assert "building k.asc failed" in str(refused(kit.source(tmp_path)))


def test_a_real_error_in_the_users_file(calls, tmp_path):
    path = kit.source(tmp_path, kit.FILL.replace("= N;", "= undeclared;"))
    e = refused(path)
    assert (e.file, e.line) == (str(path), 6) and "undeclared" in str(e)
    assert "out[AscendC::GetBlockIdx()] = undeclared;" in str(e)


def test_a_bisheng_that_makes_nothing(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("BISHENG_NOTHING", "1")
    e = refused(kit.source(tmp_path))
    assert "bisheng stand-in 0.0" in str(e) and "made no _C_npu.so" in str(e)


def test_a_host_compiler_that_fails(calls, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -DANOTHER")
    monkeypatch.setenv("STANDIN_SAYS", "fatal: the host compiler is broken")
    e = refused(kit.source(tmp_path))
    assert "compiling npu_module.cpp failed" in str(e) and "host compiler is broken" in str(e)
    assert calls.all == []
