"""The extension built ahead of time, compiled for this CPU by the stand-in for bisheng: what the
module has, that its kernels compute what the twin's variants do, and how `build` chooses it.

The stand-in takes the launchers of the npu backend, so the merged table and the launch by name are
those a device gets; the arithmetic is the twin's.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import types
import warnings
from pathlib import Path

import aot_kit
import build_kit as kit
import numpy as np
import pytest
import torch

import workbench as wb
from workbench import doctor, ops, paths
from workbench.build import aot, builder, cann, extension
from workbench.build import config as configs
from workbench.ops import variant

pytestmark = pytest.mark.slow

OPS = sorted(configs.specs())
ENTRIES = {op: [e["kernel"] for e in configs.spec(op).raw["entries"]] for op in OPS}


@pytest.fixture
def package(real_extension, prepared, tmp_path, monkeypatch) -> Path:
    """A folder of its own with the extension, as this process's package; there is no CANN."""
    shutil.copytree(real_extension / "package", tmp_path / "package")
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "package")
    aot_kit.clean_environment(monkeypatch, None)
    monkeypatch.setattr(cann, "DEFAULT_HOME", str(tmp_path / "no-default-home"))
    monkeypatch.setenv("WORKBENCH_CACHE", str(real_extension / "cache"))
    monkeypatch.setenv("CXX", str(prepared("g++")[0]))
    monkeypatch.delitem(sys.modules, extension.NAME, raising=False)
    variant.forget()
    yield tmp_path / "package"
    sys.modules.pop(extension.NAME, None)
    variant.forget()


@pytest.fixture
def bisheng(real_extension, tmp_path, monkeypatch) -> aot_kit.Calls:
    """There is a CANN as well; its bisheng fakes what it compiles, so nothing of it loads."""
    monkeypatch.setenv("ASCEND_HOME_PATH", str(real_extension / "home"))
    monkeypatch.setenv("BISHENG_LOG", str(tmp_path / "bisheng.log"))
    monkeypatch.setenv("BISHENG_DOES", "fake")
    monkeypatch.setattr(cann.CannToolchain, "objects", lambda self, unit=None: [])
    return aot_kit.Calls(tmp_path / "bisheng.log")


def edit_manifest(package: Path, **changes) -> None:
    path = extension.manifest_path(extension.module_path(package))
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# ---- what the module has -----------------------------------------------------------------------


def test_every_kernel_and_every_constant_is_in_the_module(package):
    kernel = wb.build("lm_head", backend="npu")
    module = sys.modules[extension.NAME]
    shipped = [name for names in ENTRIES.values() for name in names]
    probes = [k for k in module.kernels() if k.startswith("probe_")]
    assert sorted(module.kernels()) == sorted([*shipped, *probes]) and len(probes) >= 4
    defaults = {
        f"{op}.{name}": rule["default"]
        for op in OPS
        for name, rule in configs.spec(op).raw["constants"].items()
    }
    assert module.constants() == defaults
    clash = [k for k in defaults if k.endswith(".TILE_LENGTH")]
    assert len({defaults[k] for k in clash}) > 1  # one name, several values, each its own
    assert (module.backend, module.arch) == ("npu", "dav-2201")
    record = json.loads(extension.manifest_path(extension.module_path()).read_text())
    assert json.loads(module.manifest).items() <= record.items()
    assert kernel.kernels == wb.build("lm_head", backend="twin").kernels  # signatures and all


def test_the_libraries_of_cann_are_found_by_the_rpath(package, real_extension):
    """Imported by a process whose environment does not name them."""
    code = f"""
import sys, json
sys.path.insert(0, {str(kit.ROOT)!r})
from pathlib import Path
from workbench import paths
paths.PACKAGE = Path({str(package)!r})
import workbench as wb
kernel = wb.build("lm_head", backend="npu")
maps = open("/proc/self/maps").read()
print(json.dumps([line.split()[-1] for line in maps.splitlines() if "libascendcl" in line]))
"""
    loaded = kit.finish(kit.run_python(code))
    assert set(loaded) == {str(real_extension / "home" / "lib64" / "libascendcl.so")}


def drive(op: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """All kernels of an operator for inputs of a dtype, through what people call."""
    rng = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=rng).to(dtype).requires_grad_()

    if op == "lm_head":
        hidden, weight, bias = draw(3, 5000), draw(9, 5000), draw(9)
        made = [f(hidden, weight, bias) for f in _both(ops.AscendLMHeadOp(backend="twin"))]
        return [t.detach() for t in made]
    if op == "det_gemm":
        a, b = draw(5, 300), draw(300, 70)
        made = [f(a, b) for f in _both(ops.AscendDetGemmOp(backend="twin"))]
        if dtype != torch.float32:  # a in fp32 against b in 16 bits: kernels of their own
            kernel = variant.built("det_gemm", configs.spec(op).complete(None).to_key(), "twin")
            made += [kernel(a.float(), b, wanted) for wanted in (None, torch.float32)]
        return [t.detach() for t in made]
    if op == "batch_invariant_logp":
        logits, target = draw(6, 5000), torch.tensor([0, 1, 4999, 2500, -100, 7])
        logp, lse = ops.AscendBatchInvariantLogpOp(backend="twin")(logits, target, return_lse=True)
        (grad,) = torch.autograd.grad((logp.sum() + lse.sum()), logits)
        return [logp.detach(), lse.detach(), grad]
    raise AssertionError(f"a new operator: say here how {op} is driven")


def _both(op):
    return op.forward, op.forward_fp32


def launched(monkeypatch, op: str, module=None) -> tuple[dict[str, list[bytes]], set[str]]:
    """(raw bits of what each dtype's kernels made, names of the kernels that ran), by the twin's
    variants, or by those of `module` in their place."""
    ran: set[str] = set()
    real = builder.build

    def build(name, config=None, backend="auto", *args, **options):
        kernel = real(name, config, backend, *args, **options)
        find = kernel._module

        def watched(kernel_name):
            ran.add(kernel_name)
            return find(kernel_name) if module is None else module

        kernel._module = watched
        return kernel

    bits = {}
    with monkeypatch.context() as patch:
        patch.setattr(builder, "build", build)
        variant.forget()
        for name, dtype in (
            ("fp32", torch.float32),
            ("bf16", torch.bfloat16),
            ("fp16", torch.float16),
        ):
            made = drive(op, dtype)
            assert all(t.numel() for t in made)
            bits[name] = [t.contiguous().view(torch.uint8).numpy().tobytes() for t in made]
    variant.forget()
    return bits, ran


class Flawed:
    """The module with one kernel launched on fewer blocks: what it leaves out must show."""

    def __init__(self, module) -> None:
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)

    def launch(self, name, blocks, stream, args, *rest, **options):
        regions = options.get("regions") or []
        report = self.module.launch(name, blocks, stream, args, *rest, **options)
        size = regions[-1][1]  # of the last tensor, an output
        ctypes.memset(regions[-1][0] + size - 1, 0x55, 1)
        return report


@pytest.mark.parametrize("op", OPS)
def test_the_merged_module_computes_the_bits_of_the_variants(package, monkeypatch, op):
    wb.build(op, backend="npu")
    module = sys.modules[extension.NAME]
    wanted, by_twin = launched(monkeypatch, op)
    got, by_module = launched(monkeypatch, op, module)
    assert got == wanted
    assert by_module == by_twin and by_twin & set(ENTRIES[op])
    assert launched(monkeypatch, op, Flawed(module))[0] != wanted  # the comparison can fail


def test_every_entry_of_every_operator_was_launched(package, monkeypatch):
    ran = {name for op in OPS for name in launched(monkeypatch, op)[1]}
    assert {name for names in ENTRIES.values() for name in names} - ran == set()


def test_the_probes_run_through_it(package, monkeypatch):
    path = paths.ASCEND / "probe_ascend.asc"
    kernel = wb.build(path, wb.KernelConfig(), backend="npu")
    assert kernel.info.made == "ahead of time" and kernel.constants == {}
    x, y = np.arange(64, dtype=np.float32), np.zeros(8, dtype=np.float32)
    kernel.module.launch("probe_sum", 1, 0, [x.ctypes.data, y.ctypes.data, 64])
    assert y[0] == x.sum()
    with pytest.raises(
        wb.MissingError, match=r"it was built with no PROBE_MUL_ADD=0, not with PROBE"
    ):
        wb.build(path, backend="npu", defines={"PROBE_MUL_ADD": 0})


def test_errors_of_the_module_name_what_it_has(package):
    kernel = wb.build("lm_head", backend="npu")
    with pytest.raises(wb.InputError, match="lm_head has no kernel 'det_gemm_fp32'"):
        kernel.launch("det_gemm_fp32", 1)
    with pytest.raises(wb.InputError, match="a tensor on cpu; a kernel built for the npu backend"):
        kernel(torch.ones(1, 64), torch.ones(2, 64))


# ---- how build chooses it ----------------------------------------------------------------------


def test_it_is_used_where_it_fits_and_bisheng_is_not_needed(package):
    kernel = wb.build("lm_head", backend="npu")
    info = kernel.info
    assert info.made == "ahead of time" and info.backend == "npu" and info.cached
    assert info.path == str(extension.module_path()) and "bisheng stand-in 0.0" in info.compiler
    assert info.entries == ENTRIES["lm_head"]
    assert "-DTILE_LENGTH=4096" in info.flags and "--npu-arch=dav-2201" in info.flags
    assert {"what": "made", "value": "ahead of time"} in info.rows()
    assert kernel.constants["TILE_LENGTH"] == 4096
    assert set(kernel.constants) == set(configs.spec("lm_head").raw["constants"])
    explicit = wb.build(
        "lm_head", wb.KernelConfig(tile_length=4096), backend="npu", dtypes=["bf16"]
    )
    assert explicit.info.key == info.key
    assert wb.build("det_gemm", backend="npu").info.key != info.key
    assert wb.build("lm_head", backend="twin").info.made == "at run time"


def test_bisheng_is_not_called_where_the_extension_fits(package, bisheng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wb.build("lm_head", backend="npu")
    assert bisheng.all == []


def test_auto_needs_no_bisheng_with_the_extension(package, monkeypatch, tmp_path):
    reasons = cann.device_reasons()
    assert not any("CANN" in r for r in reasons)
    (tmp_path / "site" / "torch_npu").mkdir(parents=True)
    (tmp_path / "site" / "torch_npu" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    tools = aot_kit.install_npu_smi(tmp_path / "tools", "910B3")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert cann.device_reasons() == []
    assert wb.build("lm_head").info.made == "ahead of time"
    extension.module_path().unlink()
    assert [r.split(",")[0] for r in cann.device_reasons()] == ["CANN (bisheng) not found"]


OTHERS = {
    "constants": (
        {"tile_length": 64},
        "it was built with TILE_LENGTH=4096, not with TILE_LENGTH=64",
    ),
    "architecture": ({"arch": "dav-3510"}, "it was built for dav-2201, not for dav-3510"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_it_does_not_have_is_built_by_bisheng_or_refused(package, monkeypatch, name, request):
    changes, reason = OTHERS[name]
    with pytest.raises(wb.MissingError) as caught:
        wb.build("lm_head", wb.KernelConfig(**changes), backend="npu")
    for words in ("bisheng", "set_env.sh", reason, "WORKBENCH_FORCE_ASCEND=1 pip install"):
        assert words in str(caught.value)
    calls = request.getfixturevalue("bisheng")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # another variant is no complaint
        with pytest.raises(wb.BuildError, match="does not load"):  # what the stand-in faked
            wb.build("lm_head", backend="npu").rebuild(**changes)
    assert [Path(c["out"]).name for c in calls.all] == ["unit.o", "_C_npu.so"]


def test_other_files_and_include_folders_are_not_its_business(package, tmp_path):
    path = kit.source(tmp_path)
    with pytest.raises(wb.MissingError, match=r"it has no k\.asc"):
        wb.build(path, backend="npu")
    with pytest.raises(wb.MissingError, match="bisheng"):
        wb.build("lm_head", backend="npu", include_dirs=[tmp_path])


def test_without_any_extension_both_ways_are_named(package):
    shutil.rmtree(package)
    with pytest.raises(
        wb.MissingError, match=r"(?s)bisheng.*Nor can the extension.*none was built"
    ):
        wb.build("lm_head", backend="npu")


# ---- one that cannot be used -------------------------------------------------------------------


def truncate(package: Path) -> None:
    """As a disk that filled up leaves it: the end of the file, with its tables, is gone."""
    module = extension.module_path(package)
    os.truncate(module, module.stat().st_size // 2)


def no_library(package: Path) -> None:
    module = extension.module_path(package)
    module.write_bytes(b"\\x7fELF but not much of it")
    edit_manifest(package, digest=extension.cache.file_digest(module))


def other_python(package: Path) -> None:
    module = extension.module_path(package)
    module.rename(module.with_name("_C_npu.cpython-39-x86_64-linux-gnu.so"))
    extension.manifest_path(module).unlink()


def old_format(package: Path) -> None:
    edit_manifest(package, format=0)


BROKEN = {
    "truncated": (truncate, "is half built or was changed .*: its digest is not that of _C_npu"),
    "no library": (no_library, r"does not load: .*"),
    "no module": (lambda p: extension.module_path(p).unlink(), "half built.*there is no _C_npu"),
    "no manifest": (
        lambda p: extension.manifest_path(extension.module_path(p)).unlink(),
        r"half built.*there is no _C_npu.*\\.json",
    ),
    "half a manifest": (
        lambda p: os.truncate(extension.manifest_path(extension.module_path(p)), 100),
        "half built.*cannot be read",
    ),
    "not a manifest": (
        lambda p: extension.manifest_path(extension.module_path(p)).write_text("[]"),
        "half built.*cannot be read",
    ),
    "another Python's": (other_python, "cpython-39.*which is another Python's than this one's"),
    "another version's": (old_format, "is of another version of the workbench"),
    "the module's sources": (
        lambda p: edit_manifest(p, shared={"npu_module.cpp": "0"}),
        "it was built before kernel_table.h, merged_table.cpp, npu_module.cpp changed",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_extension_is_named_and_never_loaded(package, name, request):
    damage, reason = BROKEN[name]
    reason = reason.replace("\\\\", "\\")
    damage(package)
    with pytest.raises(wb.MissingError, match=f"(?s)bisheng.*{reason}"):
        wb.build("lm_head", backend="npu")
    assert extension.NAME not in sys.modules
    assert extension.usable() == (name == "no library")
    calls = request.getfixturevalue("bisheng")
    with (
        pytest.warns(UserWarning, match=f"(?s)not used for lm_head_ascend.asc: .*{reason}"),
        pytest.raises(wb.BuildError, match="does not load"),  # what the stand-in faked
    ):
        wb.build("lm_head", backend="npu")
    assert len(calls.all) == 2


def test_a_truncated_module_ends_a_process_that_loads_it(package):
    """The control of the digest: without it there would be no exception to catch."""
    truncate(package)
    code = f"import ctypes; ctypes.CDLL({str(extension.module_path(package))!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0


@pytest.fixture
def edited(package, tmp_path, monkeypatch):
    """csrc/ascend as a copy that a test may edit; the extension stays as it was built."""
    shutil.copytree(paths.ASCEND, tmp_path / "csrc" / "ascend")
    monkeypatch.setattr(paths, "CSRC", tmp_path / "csrc")
    monkeypatch.setattr(paths, "ASCEND", tmp_path / "csrc" / "ascend")
    configs.specs.cache_clear()
    yield tmp_path / "csrc" / "ascend"
    configs.specs.cache_clear()


def test_an_edited_kernel_is_stale_and_the_others_are_not(edited):
    assert wb.build("lm_head", backend="npu").info.made == "ahead of time"
    source = edited / "lm_head_ascend.asc"
    source.write_text(source.read_text() + "// edited\n")
    with pytest.raises(wb.MissingError, match=r"it was built before lm_head_ascend\.asc changed"):
        wb.build("lm_head", backend="npu")
    assert wb.build("det_gemm", backend="npu").info.made == "ahead of time"


def test_a_header_that_came_in_makes_it_stale(edited):
    source = edited / "probe_ascend.asc"
    source.write_text('#include "own.h"\n' + source.read_text())
    (edited / "own.h").touch()
    with pytest.raises(wb.MissingError, match=r"built before own\.h, probe_ascend\.asc changed"):
        wb.build(source, backend="npu")


# ---- built anew while it is loaded -------------------------------------------------------------


def rebuilt(package: Path, real_extension: Path, tmp_path: Path, monkeypatch) -> None:
    """Build another one over the one that is loaded."""
    with monkeypatch.context() as patch:
        aot_kit.clean_environment(patch, real_extension / "home")
        patch.setenv("BISHENG_DOES", "fake")
        patch.setenv("BISHENG_LOG", str(tmp_path / "rebuild.log"))
        patch.setenv("WORKBENCH_ASCEND_ARCH", "dav-2201")
        patch.setenv("WORKBENCH_CACHE", str(tmp_path / "rebuild"))
        aot.build(extension.module_path(package), say=[].append)


def test_a_handle_of_a_replaced_extension_is_refused(
    package, real_extension, tmp_path, monkeypatch
):
    kernel = wb.build("lm_head", backend="npu")
    x, y = np.ones(64, dtype=np.float32), np.zeros(8, dtype=np.float32)
    part = wb.build(paths.ASCEND / "probe_ascend.asc", backend="npu").module
    ask = lambda: part.launch("probe_sum", 1, 0, [x.ctypes.data, y.ctypes.data, 64])  # noqa: E731
    ask()
    rebuilt(package, real_extension, tmp_path, monkeypatch)
    with pytest.raises(wb.MissingError, match=r"out of date: .*Restart the kernel"):
        ask()
    with pytest.raises(
        wb.MissingError, match=r"(?s)bisheng.*built anew after this process had load"
    ):
        wb.build("lm_head", backend="npu")
    assert kernel.info.made == "ahead of time"


def test_the_same_build_put_there_again_is_no_other(package):
    part = wb.build(paths.ASCEND / "probe_ascend.asc", backend="npu").module
    x, y = np.ones(64, dtype=np.float32), np.zeros(8, dtype=np.float32)
    module = extension.module_path(package)
    copy = module.with_suffix(".copy")
    shutil.copyfile(module, copy)
    os.replace(copy, module)  # as pip does when nothing has changed
    part.launch("probe_sum", 1, 0, [x.ctypes.data, y.ctypes.data, 64])
    assert y[0] == 64
    assert wb.build("lm_head", backend="npu").info.made == "ahead of time"
    module.unlink()  # uninstalled: what is loaded stays what it was
    part.launch("probe_sum", 1, 0, [x.ctypes.data, y.ctypes.data, 64])


def test_a_module_that_somebody_imported_is_taken(package):
    wb.build("lm_head", backend="npu")
    loaded = sys.modules[extension.NAME]
    wb.build("det_gemm", backend="npu")
    assert sys.modules[extension.NAME] is loaded
    sys.modules[extension.NAME] = types.ModuleType("an older one, without a manifest")
    with pytest.raises(wb.MissingError, match="Restart the kernel"):
        wb.build("lm_head", backend="npu")


def test_doctor_says_what_the_extension_is(package):
    npu = doctor.diagnose().backends["npu"]
    assert npu["extension"]["path"] == str(extension.module_path())
    assert (npu["extension"]["arch"], npu["extension"]["reason"]) == ("dav-2201", "")
    assert not any("CANN (bisheng)" in r for r in npu["reasons"])
    truncate(package)
    found = doctor.diagnose()
    assert found.backends["npu"]["extension"]["path"] is None
    (problem,) = [p for p in found.problems if p.what == "extension built ahead of time"]
    assert "half built" in problem.why and "WORKBENCH_FORCE_ASCEND=1" in problem.how
    assert any("CANN (bisheng)" in r for r in found.backends["npu"]["reasons"])


def test_work_that_torch_has_queued_runs_before_the_kernel(package, monkeypatch):
    """A stand-in for torch_npu's stream: what was queued runs when the stream is flushed."""
    x, y = torch.zeros(64), torch.zeros(8)
    pending = [lambda: x.fill_(2.0)]

    class Stream:
        npu_stream = 0

        def __init__(self, flushes: bool) -> None:
            self.flushes = flushes

        def synchronize(self) -> None:
            while self.flushes and pending:
                pending.pop()()

    kernel = wb.build(paths.ASCEND / "probe_ascend.asc", backend="npu")
    monkeypatch.setattr(kernel, "_address", lambda tensor: tensor.data_ptr())  # on the CPU here
    for flushes, total in ((False, 0.0), (True, 128.0)):  # the control first
        torch_npu = types.ModuleType("torch_npu")
        torch_npu.npu = types.SimpleNamespace(current_stream=lambda f=flushes: Stream(f))
        monkeypatch.setitem(sys.modules, "torch_npu", torch_npu)
        kernel.launch("probe_sum", 1, x, y, 64)
        assert y[0] == total


def test_nothing_claims_to_have_run_on_an_npu(package):
    info = wb.build("lm_head", backend="npu").info
    claims = re.compile(r"verif|hardware|measured|tested|valid|exact|confirm|proven", re.I)
    assert not claims.search(f"{info} {json.dumps(info.to_dict())}".replace(str(package), ""))
    assert "Nobody has run its result on a device" in aot.__doc__
