"""The build ahead of time: command lines, what it needs, what it leaves behind.

Against a stand-in for bisheng that writes a few bytes for each object; test_aot_module.py compiles
the same extension for this CPU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import sys
import sysconfig
from pathlib import Path

import aot_kit
import build_kit as kit
import pybind11
import pytest

import workbench as wb
from workbench import paths
from workbench.build import aot, cache, cann, extension
from workbench.build import arch as archs
from workbench.build import config as configs

OPS = sorted(configs.specs())


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home of CANN, an architecture, a private cache; the stand-in fakes what it compiles."""
    aot_kit.install_cann(tmp_path / "cann")
    aot_kit.clean_environment(monkeypatch, tmp_path / "cann")
    monkeypatch.setattr(cann, "DEFAULT_HOME", str(tmp_path / "no-default-home"))
    monkeypatch.setenv("WORKBENCH_ASCEND_ARCH", "dav-2201")
    monkeypatch.setenv("BISHENG_LOG", str(tmp_path / "bisheng.log"))
    monkeypatch.setenv("BISHENG_DOES", "fake")
    monkeypatch.setenv("WORKBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_verified", {})
    return tmp_path / "cann"


@pytest.fixture
def calls(home, tmp_path) -> aot_kit.Calls:
    return aot_kit.Calls(tmp_path / "bisheng.log")


@pytest.fixture
def module(tmp_path) -> Path:
    """Where the extension is to be built."""
    return extension.module_path(tmp_path / "package")


@pytest.fixture
def own_sources(tmp_path, monkeypatch):
    """csrc/ascend as a copy that a test may edit."""
    copy = tmp_path / "csrc" / "ascend"
    shutil.copytree(paths.ASCEND, copy)
    monkeypatch.setattr(paths, "CSRC", tmp_path / "csrc")
    monkeypatch.setattr(paths, "ASCEND", copy)
    configs.specs.cache_clear()
    yield copy
    configs.specs.cache_clear()


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


# ---- command lines -----------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
def test_each_kernel_file_is_compiled_with_its_specs_defaults(
    calls, home, module, monkeypatch, arch
):
    monkeypatch.setenv("WORKBENCH_ASCEND_ARCH", arch)
    manifest = aot.build(module, say=[].append)
    for op in OPS:
        defaults = {n: r["default"] for n, r in configs.spec(op).raw["constants"].items()}
        macros = [f"-D{n}={v}" for n, v in defaults.items()]
        argv = calls.of(f"{op}.o")
        assert argv[0] == str(home / "bin" / "bisheng")
        head = ["-x", "asc", f"--npu-arch={arch}", "-std=c++17", "-O2", "-fPIC"]
        assert argv[1:7] == head
        assert sorted(argv[7 : 7 + len(macros)]) == sorted(macros)
        folder = str(configs.spec(op).source.parent)
        tail = ["-iquote", folder, f"-I{paths.ASCEND}", "-c", f"{op}.asc", "-o", f"{op}.o"]
        assert argv[7 + len(macros) :] == tail
        assert manifest["parts"][op]["defines"] == {n: str(v) for n, v in defaults.items()}
    # and every other .asc there is, without macros
    files = {p.name for p in paths.ASCEND.rglob("*.asc")}
    assert {p["source"] for p in manifest["parts"].values()} == files
    assert not [a for a in calls.of("probe.o") if a.startswith("-D")]


def test_plain_cpp_is_compiled_by_bisheng_and_never_as_ascend_c(calls, home, module):
    aot.build(module, say=[].append)
    plain = ["npu_module", "merged_table", "parts"]
    for name in plain:
        argv = calls.of(f"{name}.o")
        assert argv[0] == str(home / "bin" / "bisheng")
        assert "-x" not in argv and not any(a.startswith("--npu-arch") for a in argv)
        assert argv[1:5] == ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"]
        where = "parts.cpp" if name == "parts" else str(paths.ASCEND / f"{name}.cpp")
        assert argv[-4:] == ["-c", where, "-o", f"{name}.o"]
        for folder in (pybind11.get_include(), sysconfig.get_path("include"), paths.ASCEND):
            assert f"-I{folder}" in argv
    parts = {*(f"{n}.o" for n in [*plain, *OPS, "probe"]), module.name}
    assert set(calls.made) == parts and len(calls.made) == len(parts)  # each once, nothing else


def test_the_link_is_the_documented_one(calls, home, module):
    aot.build(module, say=[].append)
    argv = calls.of(module.name)
    assert argv[:2] == [str(home / "bin" / "bisheng"), "-shared"] and "-x" not in argv
    end = argv.index("-o")
    assert sorted(argv[2:end]) == sorted(n for n in calls.made if n.endswith(".o"))
    library = str(home / "lib64")
    assert argv[end:] == ["-o", module.name, f"-L{library}", f"-Wl,-rpath,{library}", "-lascendcl"]
    assert module.name == f"_C_npu{sysconfig.get_config_var('EXT_SUFFIX')}"


def test_the_home_found_is_exported_over_whatever_was_set(calls, home, module, monkeypatch):
    """Else bisheng could take headers or libraries from another CANN."""
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", "/elsewhere")
    monkeypatch.setenv("ASCEND_OPP_PATH", "/elsewhere/opp")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere/lib64:/other")
    aot.build(module, say=[].append)
    for call in calls.all:
        seen = {k: v for k, v in call["environment"].items() if v is not None}
        assert seen == {
            "ASCEND_HOME_PATH": str(home),
            "ASCEND_TOOLKIT_HOME": str(home),
            "ASCEND_OPP_PATH": str(home / "opp"),
            "LD_LIBRARY_PATH": f"{home / 'lib64'}:/elsewhere/lib64:/other",
        }


def test_a_home_found_by_default_is_exported_too(home, monkeypatch):
    monkeypatch.delenv("ASCEND_HOME_PATH")
    monkeypatch.setattr(cann, "DEFAULT_HOME", str(home))
    found = cann.find_cann()
    assert found.environment()["ASCEND_HOME_PATH"] == str(home)
    assert found.environment()["LD_LIBRARY_PATH"] == str(home / "lib64")
    (home / "opp").rmdir()  # nothing is exported that is not there
    assert "ASCEND_OPP_PATH" not in found.environment()


def test_what_was_found_is_said(calls, home, module):
    said: list[str] = []
    aot.build(module, say=said.append)
    text = "\n".join(said)
    for words in (
        f"{home} ($ASCEND_HOME_PATH)",
        f"{home / 'bin' / 'bisheng'}: bisheng stand-in 0.0",
        "dav-2201 ($WORKBENCH_ASCEND_ARCH)",
        f"LD_LIBRARY_PATH      {home / 'lib64'}",
        f"kernels              {', '.join([*OPS, 'probe'])}",
        f"built                {module}",
    ):
        assert words in text


def test_an_operator_that_does_not_run_there_is_left_out_and_named(own_sources, calls, module):
    spec = json.loads((own_sources / "lm_head_ascend.json").read_text())
    spec["archs"] = ["dav-3510"]
    (own_sources / "lm_head_ascend.json").write_text(json.dumps(spec))
    configs.specs.cache_clear()
    said: list[str] = []
    manifest = aot.build(module, say=said.append)
    assert "lm_head.o" not in calls.made and "lm_head" not in manifest["parts"]
    why = "it runs on dav-3510, not on dav-2201"
    assert manifest["left_out"] == {"lm_head": {"source": "lm_head_ascend.asc", "why": why}}
    assert any(f"lm_head: {why}" in line for line in said)


def test_kernels_of_one_name_are_refused(own_sources, calls, module):
    shutil.copy(own_sources / "probe_ascend.asc", own_sources / "other.asc")
    with pytest.raises(wb.ConfigError, match="probe and other both have a kernel probe_sum"):
        aot.build(module, say=[].append)
    assert calls.all == []


# ---- what is compiled anew ---------------------------------------------------------------------


def test_nothing_is_compiled_twice(calls, module):
    first = aot.build(module, say=[].append)
    before = calls.made
    assert aot.build(module, say=[].append) == first and calls.made == before
    shutil.rmtree(module.parent)  # as pip does between two builds
    assert aot.build(module, say=[].append) == first and calls.made == before
    assert module.exists()


EDITS = {
    "lm_head_ascend.asc": {"lm_head.o"},
    "npu_module.cpp": {"npu_module.o"},
    "merged_table.cpp": {"merged_table.o"},
    "kernel_table.h": {"npu_module.o", "merged_table.o", "probe.o", *(f"{op}.o" for op in OPS)},
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_compiles_what_depends_on_it(own_sources, calls, module, name):
    first = aot.build(module, say=[].append)
    calls.reset()
    append(own_sources / name, "// edited\n")
    second = aot.build(module, say=[].append)
    assert set(calls.made) == EDITS[name] | {"parts.o", module.name}
    assert second["build"] != first["build"]


def test_an_edited_header_and_another_default_compile_one_kernel_file(own_sources, calls, module):
    append(own_sources / "probe_ascend.asc", '#include "own.h"\n')
    (own_sources / "own.h").write_text("// one\n")
    manifest = aot.build(module, say=[].append)
    assert set(manifest["parts"]["probe"]["files"]) == {"probe_ascend.asc", "own.h"}
    calls.reset()
    (own_sources / "own.h").write_text("// two\n")
    aot.build(module, say=[].append)
    assert set(calls.made) == {"probe.o", "parts.o", module.name}
    calls.reset()
    spec = json.loads((own_sources / "lm_head_ascend.json").read_text())
    spec["constants"]["MAX_BLOCKS"]["default"] = 40
    (own_sources / "lm_head_ascend.json").write_text(json.dumps(spec))
    configs.specs.cache_clear()
    aot.build(module, say=[].append)
    assert set(calls.made) == {"lm_head.o", "parts.o", module.name}
    assert "-DMAX_BLOCKS=40" in calls.of("lm_head.o")


def test_another_bisheng_or_home_compiles_all(calls, home, module, tmp_path, monkeypatch):
    aot.build(module, say=[].append)
    everything = calls.made
    calls.reset()
    os.utime(home / "bin" / "bisheng", ns=(0, 10**18))  # an update in place
    aot.build(module, say=[].append)
    assert calls.made == everything
    calls.reset()
    aot_kit.install_cann(tmp_path / "other")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "other"))
    aot.build(module, say=[].append)
    assert calls.made == everything


def test_where_the_sources_lie_compiles_nothing_anew(
    own_sources, calls, module, tmp_path, monkeypatch
):
    """`python -m build` makes the wheel in a new temporary folder each time."""
    aot.build(module, say=[].append)
    calls.reset()
    shutil.move(tmp_path / "csrc", tmp_path / "moved")
    monkeypatch.setattr(paths, "CSRC", tmp_path / "moved")
    monkeypatch.setattr(paths, "ASCEND", tmp_path / "moved" / "ascend")
    configs.specs.cache_clear()
    aot.build(module, say=[].append)
    assert calls.made == []


# ---- builds that end early ---------------------------------------------------------------------

BUILD = """
import sys
from pathlib import Path
from workbench.build import aot
aot.build(Path(sys.argv[1]), say=lambda line: None)
print("{}")
"""


def test_a_killed_build_leaves_nothing_half_written(calls, module, tmp_path):
    process = kit.run_python(BUILD, str(module), env={"BISHENG_SLEEPS": str(tmp_path / "asleep")})
    kit.wait_for((tmp_path / "asleep").exists)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not module.parent.exists()
    assert aot.build(module, say=[].append)["digest"] == cache.file_digest(module)
    assert sorted(p.name for p in module.parent.iterdir()) == sorted(
        [module.name, extension.manifest_path(module).name]
    )


def test_a_build_stopped_between_its_two_renames_is_no_extension(
    calls, own_sources, module, monkeypatch
):
    aot.build(module, say=[].append)
    append(own_sources / "probe_ascend.asc", "// edited\n")
    real = os.replace

    def replace(source, target):
        if str(target).endswith(".json") and Path(target).parent == module.parent:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(KeyboardInterrupt):
            aot.build(module, say=[].append)
    assert len(list(module.parent.iterdir())) == 2  # no temporary file is left
    found = extension.look(module.parent)
    assert found.broken and "half built" in found.reason
    with pytest.raises(wb.BuildError, match="half built"):
        aot.check(module.parent)
    aot.build(module, say=[].append)
    aot.check(module.parent)


def test_a_refusal_shows_the_compilers_words_and_keeps_what_was_there(
    own_sources, calls, module, monkeypatch
):
    aot.build(module, say=[].append)
    before = cache.file_digest(module)
    source = own_sources / "lm_head_ascend.asc"
    append(source, "// edited\n")
    line = next(i for i, x in enumerate(source.read_text().splitlines(), 1) if "__global__" in x)
    said = f"{source}:{line}:5: error: use of undeclared identifier 'Foo'\n1 error generated.\n"
    monkeypatch.setenv("BISHENG_SAYS", said)
    monkeypatch.setenv("BISHENG_FAILS", r"lm_head\.o")
    with pytest.raises(wb.BuildError) as caught:
        aot.build(module, say=[].append)
    e = caught.value
    assert (e.file, e.line) == (str(source), line)
    assert f"{source}:{line}: use of undeclared identifier 'Foo'" in str(e)
    assert e.log == said and e.log_path in str(e) and Path(e.log_path).read_text() == said
    assert cache.file_digest(module) == before
    monkeypatch.delenv("BISHENG_FAILS")
    aot.build(module, say=[].append)


def test_a_failing_link_is_named(calls, module, monkeypatch):
    monkeypatch.setenv("BISHENG_SAYS", "ld: cannot find -lascendcl\n")
    monkeypatch.setenv("BISHENG_FAILS", r"_C_npu.*\.so")
    with pytest.raises(wb.BuildError, match=r"(?s)building _C_npu\.cp.*cannot find -lascendcl"):
        aot.build(module, say=[].append)
    assert not module.exists()


@pytest.mark.parametrize("out", ["lm_head.o", "_C_npu.*.so"])
def test_a_compiler_that_makes_nothing_is_named(calls, module, monkeypatch, out):
    monkeypatch.setenv("BISHENG_EMPTY", out)
    with pytest.raises(wb.BuildError, match="ended well but made no"):
        aot.build(module, say=[].append)
    assert not module.exists()


def test_a_module_without_an_entry_point_is_refused(calls, module, monkeypatch):
    monkeypatch.setattr(aot, "ENTRY_POINT", b"PyInit_something_else")
    with pytest.raises(wb.BuildError, match="without PyInit_something_else"):
        aot.build(module, say=[].append)
    assert not module.exists()


# ---- what has to be there ----------------------------------------------------------------------


def missing(module: Path) -> str:
    with pytest.raises(wb.MissingError) as caught:
        aot.build(module, say=[].append)
    assert not module.parent.exists()
    return str(caught.value)


def test_without_bisheng(calls, home, module):
    (home / "bin" / "bisheng").unlink()
    text = missing(module)
    assert "bisheng, CANN's compiler: not in $ASCEND_HOME_PATH" in text
    assert "set_env.sh" in text and text.count("\n  - ") == 1


def test_without_libascendcl(calls, home, module):
    (home / "lib64" / "libascendcl.so").unlink()
    text = missing(module)
    assert f"libascendcl.so: not in {home / 'lib64'}" in text and text.count("\n  - ") == 1
    assert calls.all == []


def test_without_python_headers(calls, module, monkeypatch, tmp_path):
    real = sysconfig.get_path
    monkeypatch.setattr(
        sysconfig, "get_path", lambda name: str(tmp_path) if name == "include" else real(name)
    )
    assert f"{tmp_path / 'Python.h'}: install python3-dev" in missing(module)


@pytest.mark.parametrize("package", ["pybind11", "platformdirs"])
def test_without_a_python_package(calls, module, monkeypatch, package):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == package else real(name)
    )
    assert f"the Python package {package}: {sys.executable} -m pip install" in missing(module)


def test_all_that_is_missing_is_named_at_once(calls, home, module, monkeypatch, tmp_path):
    (home / "bin" / "bisheng").unlink()
    monkeypatch.delenv("WORKBENCH_ASCEND_ARCH")
    monkeypatch.setenv("PATH", str(tmp_path))
    text = missing(module)
    assert text.count("\n  - ") == 2
    for words in ("bisheng", "WORKBENCH_ASCEND_ARCH is not set", "no npu-smi on PATH"):
        assert words in text


def test_neither_torch_nor_numpy_is_needed_to_build(calls, module):
    """The environment that pip builds in has neither."""
    code = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numpy", "torch_npu", "pandas", "matplotlib"):
            raise ImportError(name)
sys.meta_path.insert(0, Without())
"""
    kit.finish(kit.run_python(code + BUILD, str(module)))
    assert module.exists()


# ---- for which architecture --------------------------------------------------------------------


@pytest.fixture
def asked(home, monkeypatch, tmp_path):
    """asked(*chips, board=…): no variable is set, and npu-smi names these chips."""
    monkeypatch.delenv("WORKBENCH_ASCEND_ARCH")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    def ask(*chips: str, board: str = "") -> tuple[str, str]:
        folder = aot_kit.install_npu_smi(
            tmp_path / f"tools{len(os.listdir(tmp_path))}", *chips, board=board
        )
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return aot.find_arch()

    return ask


CHIPS = {
    "910B3": "dav-2201",
    "910B2C": "dav-2201",
    "910_9362": "dav-2201",
    "Ascend910C": "dav-2201",
    "310P3": "dav-2002",
    "Ascend950PR": "dav-3510",
    "910ProB": "dav-1001",
}


@pytest.mark.parametrize("chip", CHIPS)
def test_npu_smi_tells_the_architecture(asked, chip):
    assert asked(chip, chip) == (CHIPS[chip], f"npu-smi info ({chip})")


BOARD = "        NPU ID     : 0\n        Chip Name   : Ascend910\n        NPU Name   : {}\n"


def test_a_name_of_several_architectures_is_settled_by_the_board(asked):
    """`Ascend910` alone is what a 910A and an Atlas A3 both answer."""
    assert asked("Ascend910", board=BOARD.format("9362"))[0] == "dav-2201"
    for board in ("", BOARD.format("1"), "        Chip Name   : Ascend910\n"):
        with pytest.raises(wb.MissingError, match="names Ascend910, which is not one known arch"):
            asked("Ascend910", board=board)


def test_chips_of_two_architectures_or_of_none_are_refused(asked):
    for chips in (("910B3", "310P3"), ("910B3", "H100"), ("H100",)):
        with pytest.raises(wb.MissingError) as caught:
            asked(*chips)
        text = str(caught.value)
        assert all(c in text for c in chips) and "set WORKBENCH_ASCEND_ARCH to one of" in text


def test_an_npu_smi_that_fails_is_quoted(asked, tmp_path, monkeypatch):
    folder = aot_kit.install_npu_smi(tmp_path / "broken", "910B3")
    (folder / "answers" / "info").unlink()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    with pytest.raises(wb.MissingError, match=r"(?s)names no chip.*no such question: info"):
        aot.find_arch()


def test_the_variable_goes_before_npu_smi(asked, monkeypatch):
    monkeypatch.setenv("WORKBENCH_ASCEND_ARCH", "dav-3510")
    assert asked("910B3") == ("dav-3510", "$WORKBENCH_ASCEND_ARCH")
    monkeypatch.setenv("WORKBENCH_ASCEND_ARCH", "a2")
    with pytest.raises(wb.ConfigError, match="'a2' is no architecture: the kernels run on dav-22"):
        asked("910B3")
    monkeypatch.setenv("WORKBENCH_ASCEND_ARCH", "Ascend910B4")
    with pytest.raises(wb.ConfigError, match="it is a chip, whose architecture is dav-2201; the"):
        asked("910B3")
    monkeypatch.setenv("WORKBENCH_ASCEND_ARCH", "dav-1001")  # known, and no kernel runs on it
    with pytest.raises(wb.ConfigError, match="no shipped operator runs on dav-1001; they run on"):
        asked("910B3")


def test_an_architecture_that_no_operator_runs_on(calls, module, monkeypatch):
    monkeypatch.setenv("WORKBENCH_ASCEND_ARCH", "dav-2002")
    with pytest.raises(wb.ConfigError, match=r"no shipped operator runs on dav-2002; they run on"):
        aot.build(module, say=[].append)
    assert calls.all == []


def test_every_architecture_has_chips_and_every_ambiguity_is_known():
    assert all(a.chips for a in map(archs.load, archs.names()))
    known = ("910", "910A", "910B", "910B4", "910C", "910_9392", "310P1", "950DT")
    assert {c for c in known if len(archs.of_chip(c)) > 1} == {"910", "910B"}
    assert all(archs.of_chip(c) for c in known)


# ---- the environment of builds at run time -----------------------------------------------------


def test_builds_at_run_time_export_the_home_as_well(home, calls, tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", "/elsewhere")
    monkeypatch.setattr(cann.CannToolchain, "objects", lambda self, unit=None: [])
    only_link = lambda self, unit, work, objects: [self.link([], "x.so")]  # noqa: E731
    monkeypatch.setattr(cann.CannToolchain, "commands", only_link)
    with pytest.raises(wb.BuildError, match="made no _C_npu"):
        wb.build(kit.source(tmp_path), backend="npu")
    assert [c["environment"]["ASCEND_TOOLKIT_HOME"] for c in calls.all] == [str(home)]
