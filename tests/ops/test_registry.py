"""The registry: lists, reasons, overrides, reset (LA23, DI01, Cases 10).

A machine with an NPU is stood in for by files: a bisheng, an npu-smi and a torch_npu that are found
the way real ones are. Nothing here says that a kernel runs on a device.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.build import cann
from workbench.errors import ConfigError, InputError, MissingError
from workbench.ops import registry

OPS = ("lm_head", "batch_invariant_logp", "det_gemm", "linear_logp")
WORKING = "import types\nnpu = types.SimpleNamespace(is_available=lambda: True)\n"


class Machine:
    """Files that a machine with an NPU has; each can be taken away."""

    def __init__(self, root, monkeypatch):
        self.root, self.monkeypatch = root, monkeypatch

    def cann(self):
        bisheng = self.root / "cann" / "bin" / "bisheng"
        bisheng.parent.mkdir(parents=True)
        bisheng.write_text("#!/bin/sh\n")
        bisheng.chmod(0o755)
        self.monkeypatch.setenv("ASCEND_HOME_PATH", str(self.root / "cann"))

    def device(self):
        smi = self.root / "tools" / "npu-smi"
        smi.parent.mkdir()
        smi.write_text("#!/bin/sh\n")
        smi.chmod(0o755)
        self.monkeypatch.setenv("PATH", str(smi.parent), prepend=":")

    def torch_npu(self, text=WORKING):
        package = self.root / "packages" / "torch_npu"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(text)
        self.monkeypatch.syspath_prepend(str(package.parent))

    def everything(self):
        self.cann(), self.device(), self.torch_npu()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without any of it, and a registry that knows nothing yet."""
    for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", registry.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cann, "DEFAULT_HOME", str(tmp_path / "none"))
    monkeypatch.delitem(sys.modules, "torch_npu", raising=False)
    registry.reset()
    yield Machine(tmp_path, monkeypatch)
    sys.modules.pop("torch_npu", None)
    monkeypatch.undo()
    registry.reset()


def reason(op="lm_head", platform="npu", impl="ascend", **more) -> str:
    rows = registry.explain(op, platform, **more).rows()
    return next(row["reason"] for row in rows if row["implementation"] == impl)


# ---- the lists -----------------------------------------------------------------------------------


def test_the_lists():
    """DI01: the same operators on both platforms, the kernel first and torch second."""
    npu, cpu = registry.priorities("npu"), registry.priorities("cpu")
    assert tuple(npu) == tuple(cpu) == registry.ops() == OPS
    assert set(npu.values()) == {("ascend", "native")}
    assert set(cpu.values()) == {("twin", "native")}


def test_every_listed_class_is_there(machine):
    machine.everything()
    for op in OPS:
        for platform in registry.PLATFORMS:
            for impl in registry.priorities(platform)[op]:
                made = registry.get_op(op, platform, impl=impl)
                name = type(made).__name__
                assert name.startswith("Native" if impl == "native" else "Ascend")
                assert getattr(made, "backend", None) == {"ascend": "npu", "twin": "twin"}.get(impl)
                assert type(made) is getattr(wb.ops, name)


def test_asking_for_the_registry_imports_no_operator():
    code = (
        "import sys; from workbench.ops import registry\n"
        "registry.ops(), registry.priorities('npu')\n"
        "print([m for m in sys.modules if 'workbench.ops.' in m], 'torch' in sys.modules)\n"
        "registry.get_op('lm_head', 'cpu')\n"
        "print('workbench.ops.lm_head' in sys.modules, 'workbench.ops.native' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["['workbench.ops.registry'] False", "True False"], done


def test_an_operator_of_the_registry_computes(machine):
    hidden, weight = torch.ones(2, 8), torch.ones(3, 8)
    for options in ({"platform": "cpu"}, {"tensor": hidden}, {}):
        op = registry.get_op("lm_head", **options)
        assert type(op) is wb.ops.AscendLMHeadOp and (op(hidden, weight) == 8).all()
    config = wb.KernelConfig(tile_length=64, arch="dav-3510")
    assert registry.get_op("lm_head", "cpu", config=config).config.tile_length == 64


# ---- an NPU, and each thing that it may lack -----------------------------------------------------


def test_ascend_comes_first_on_an_npu(machine):
    """LA23"""
    machine.everything()
    for op in OPS:
        assert registry.explain(op).platform == "npu"
        made = registry.get_op(op)
        assert type(made).__name__.startswith("Ascend") and made.backend == "npu"
    assert isinstance(registry.get_op("lm_head", "npu"), wb.ops.AscendLMHeadOp)
    rows = registry.explain("lm_head", "npu").rows()
    assert [(r["implementation"], r["status"]) for r in rows] == [
        ("ascend", "chosen"),
        ("native", "available"),
    ]
    # The tensor decides where it is given.
    assert registry.explain("lm_head", tensor=torch.ones(1)).platform == "cpu"


PARTS = {
    "cann": "CANN (bisheng) not found",
    "device": "no NPU device (/dev/davinci*)",
    "torch_npu": "torch_npu is not installed",
}


@pytest.mark.parametrize("missing", PARTS)
def test_one_thing_is_missing(machine, missing):
    for part in set(PARTS) - {missing}:
        getattr(machine, part)()
    assert PARTS[missing] in reason()
    assert not any(text in reason() for part, text in PARTS.items() if part != missing)
    assert isinstance(registry.get_op("lm_head", "npu"), wb.ops.NativeLMHeadOp)
    assert registry.explain("lm_head").platform == "cpu"
    with pytest.raises(MissingError) as caught:
        registry.get_op("lm_head", "npu", impl="ascend")
    assert PARTS[missing] in str(caught.value) and "registry.explain" in str(caught.value)


def test_everything_is_missing(machine):
    assert all(text in reason() for text in PARTS.values())


BROKEN = {
    "ImportError": ("raise ImportError('libhccl.so: cannot open')", "libhccl.so: cannot open"),
    "OSError": ("raise OSError('libascendcl.so: wrong ELF class')", "wrong ELF class"),
    "RuntimeError": ("raise RuntimeError('the driver is too old')", "the driver is too old"),
    "AttributeError": ("", "has no attribute 'npu'"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_runtime_is_a_reason(machine, kind):
    """DI01: an NPU runtime that raises on import reports as unavailable, with its message."""
    text, message = BROKEN[kind]
    machine.cann(), machine.device(), machine.torch_npu(text)
    for op in OPS:
        assert f"torch_npu does not work: {kind}: " in reason(op) and message in reason(op)
    assert isinstance(registry.get_op("lm_head", "npu"), wb.ops.NativeLMHeadOp)


def test_a_device_that_torch_npu_does_not_see(machine):
    machine.cann(), machine.device(), machine.torch_npu(WORKING.replace("True", "False"))
    assert reason() == "torch_npu finds no NPU that it can use"


CHIPS = {
    "Ascend910B3": "dav-2201",
    "Ascend310P3": "dav-2002",
    "Ascend910": None,  # of two architectures, one of which the default is for
    "Ascend9999": None,  # not known: nothing is held against it
}


@pytest.mark.parametrize("chip", CHIPS)
def test_the_device_s_architecture(machine, chip):
    """A configuration for another architecture than the device's is a reason."""
    machine.cann(), machine.device()
    machine.torch_npu(WORKING.replace("(is", f"(get_device_name=lambda: {chip!r}, is"))
    fits = CHIPS[chip]
    for arch in ("dav-2201", "dav-3510"):
        config = wb.KernelConfig(arch=arch)
        found = registry.explain("lm_head", "npu", config=config)
        if arch == "dav-2201" and fits in (arch, None):
            assert found.chosen == "ascend" and registry.explain("lm_head").chosen == "ascend"
        elif fits or chip == "Ascend910":
            text = reason(config=config)
            assert f"this device is {chip} (" in text and f"is for {arch}" in text
            with pytest.raises(MissingError, match="this device is"):
                registry.get_op("lm_head", "npu", config=config)
        else:
            assert found.chosen == "ascend"
    if chip == "Ascend310P3":  # the default architecture is not the device's
        assert "give config=KernelConfig(arch='dav-2002')" in reason()
        assert isinstance(registry.get_op("lm_head", "npu"), wb.ops.NativeLMHeadOp)


def test_torch_npu_is_not_imported_where_it_cannot_work(machine):
    machine.torch_npu("raise SystemExit('imported')")
    assert "CANN (bisheng) not found" in reason()
    assert "torch_npu" not in sys.modules


def test_no_compiler_for_the_twin(machine, monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    assert "/no/such/compiler" in reason(platform="cpu", impl="twin")
    assert isinstance(registry.get_op("lm_head", "cpu"), wb.ops.NativeLMHeadOp)
    with pytest.raises(MissingError, match="/no/such/compiler"):
        registry.get_op("lm_head", "cpu", impl="twin")


def test_no_headers_for_the_twin(machine, monkeypatch, tmp_path):
    monkeypatch.setattr(registry.sysconfig, "get_path", lambda name: str(tmp_path))
    assert "Python.h is not in" in reason(platform="cpu", impl="twin")


# ---- reset ---------------------------------------------------------------------------------------


def test_what_was_found_stays_until_reset(machine):
    """Cases 10: the machine changes under the process; asked once, and again after reset."""
    assert registry.explain("lm_head", "npu").chosen == "native"
    machine.everything()
    assert registry.explain("lm_head", "npu").chosen == "native"
    registry.reset()
    assert registry.explain("lm_head", "npu").chosen == "ascend"
    (machine.root / "cann" / "bin" / "bisheng").unlink()
    assert registry.explain("lm_head", "npu").chosen == "ascend"
    registry.reset()
    assert PARTS["cann"] in reason()


def test_reset_forgets_built_kernels():
    """Cases 10: a kernel whose source has changed is built anew by the next operator."""
    from workbench.ops.variant import built

    key = wb.KernelConfig(tile_length=64).to_key()
    first = built("lm_head", key, "twin")
    assert built("lm_head", key, "twin") is first
    registry.reset()
    assert built("lm_head", key, "twin") is not first


# ---- overrides -----------------------------------------------------------------------------------


def test_the_argument_overrides(machine):
    assert isinstance(registry.get_op("lm_head", "cpu", impl="native"), wb.ops.NativeLMHeadOp)
    rows = registry.explain("lm_head", "cpu", impl="native").rows()
    assert [(r["implementation"], r["status"], r["reason"]) for r in rows] == [
        ("twin", "not asked for", "impl='native'"),
        ("native", "chosen", "impl='native'"),
    ]


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        ("", ["twin"] * 4),
        ("native", ["native"] * 4),
        ("lm_head=native", ["native", "twin", "twin", "twin"]),
        ("lm_head=native,det_gemm=twin", ["native", "twin", "twin", "twin"]),
        (" native , det_gemm = twin ", ["native", "native", "twin", "native"]),
        ("det_gemm=twin,native", ["native", "native", "twin", "native"]),
    ],
)
def test_the_variable_overrides(machine, monkeypatch, value, chosen):
    monkeypatch.setenv(registry.VARIABLE, value)
    found = [registry.explain(op, "cpu") for op in OPS]
    assert [e.chosen for e in found] == chosen
    assert registry.get_op("lm_head", "cpu", impl="twin").backend == "twin"  # the argument wins
    for explanation in found:
        assert explanation.asked in ("", f"WORKBENCH_OPS={value}")


def test_an_override_that_cannot_run_is_an_error(machine, monkeypatch):
    """Never another one silently."""
    monkeypatch.setenv(registry.VARIABLE, "ascend")
    with pytest.raises(MissingError) as caught:
        registry.get_op("lm_head", "npu")
    words = ["WORKBENCH_OPS=ascend was asked for", "lm_head on npu", "CANN (bisheng) not found"]
    assert all(word in str(caught.value) for word in words), str(caught.value)
    explanation = registry.explain("lm_head", "npu")  # says so, and raises nothing
    assert explanation.chosen is None and "none can run" in str(explanation)


UNKNOWN = {
    "op": (lambda: registry.get_op("rms_norm", "cpu"), ["'rms_norm'", *OPS]),
    "explained op": (lambda: registry.explain("x", "cpu"), ["unknown op 'x'", *OPS]),
    "platform": (lambda: registry.get_op("lm_head", "cuda"), ["'cuda'", "npu, cpu"]),
    "listed platform": (lambda: registry.priorities("gpu"), ["'gpu'", "npu, cpu"]),
    "tensor": (
        lambda: registry.get_op("lm_head", tensor=torch.ones(1, device="meta")),
        ["'meta'", "npu, cpu"],
    ),
    "list": (lambda: registry.get_op("lm_head", tensor=[1]), ["a list has no device"]),
    "array": (lambda: registry.get_op("lm_head", tensor=np.ones(1)), ["a ndarray has no device"]),
    "impl": (
        lambda: registry.get_op("lm_head", "cpu", impl="ascend"),
        ["impl='ascend'", "lm_head", "on cpu", "twin, native"],
    ),
    "two platforms": (
        lambda: registry.get_op("lm_head", "npu", tensor=torch.ones(1)),
        ["platform='npu'", "on cpu"],
    ),
    "backend": (lambda: registry.get_op("lm_head", "cpu", backend="twin"), ["impl='twin'"]),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_unknown_names(machine, what):
    call, words = UNKNOWN[what]
    with pytest.raises(InputError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("cuda", ["WORKBENCH_OPS=cuda", "'cuda'", "twin, native"]),
        ("ascend", ["'ascend'", "on cpu", "twin, native"]),
        ("rms_norm=native", ["WORKBENCH_OPS=rms_norm=native", "unknown op 'rms_norm'", *OPS]),
        ("lm_head=", ["no ''", "twin, native"]),
    ],
)
def test_unknown_names_in_the_variable(machine, monkeypatch, value, words):
    monkeypatch.setenv(registry.VARIABLE, value)
    with pytest.raises(InputError) as caught:
        registry.get_op("lm_head", "cpu")
    assert all(word in str(caught.value) for word in words), str(caught.value)


# ---- arguments of the constructor ----------------------------------------------------------------


def test_an_implementation_that_cannot_honour_the_configuration_is_passed_over(machine):
    config = wb.KernelConfig(tile_length=64)
    with pytest.raises(MissingError, match="native takes no config"):
        registry.get_op("lm_head", "npu", config=config)
    with pytest.raises(MissingError, match="native takes no config"):
        registry.get_op("lm_head", "cpu", impl="native", config=config)
    assert reason(platform="cpu", impl="native", config=config) == "native takes no config"
    assert registry.get_op("lm_head", "npu")  # without it native is as good as said


def test_a_configuration_that_the_operator_refuses(machine):
    with pytest.raises(ConfigError, match="multiple of 64"):
        registry.get_op("lm_head", "cpu", config=wb.KernelConfig(tile_length=100))


# ---- a user's own --------------------------------------------------------------------------------


class Mine:
    """An LM head with a scale."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def __call__(self, hidden, weight):
        return self.scale * (hidden @ weight.T)


@pytest.fixture
def registered(machine):
    done = []

    def add(op, platform, name, *args, **kwargs):
        registry.register(op, platform, name, *args, **kwargs)
        done.append((op, platform, name))

    yield add
    for one in done:
        registry.unregister(*one)


def test_a_users_implementation(registered):
    registered("lm_head", "cpu", "mine", Mine)
    assert registry.priorities("cpu")["lm_head"] == ("mine", "twin", "native")
    assert registry.priorities("npu")["lm_head"] == ("ascend", "native")
    op = registry.get_op("lm_head", "cpu", scale=2.0)
    assert isinstance(op, Mine) and (op(torch.ones(1, 4), torch.ones(2, 4)) == 8).all()
    # The twin takes no scale, so it is no substitute.
    explanation = registry.explain("lm_head", "cpu", scale=2.0)
    assert [c.status for c in explanation.choices] == ["chosen", "rejected", "rejected"]
    assert explanation.choices[1].reason == "twin takes no scale"


def test_a_users_priority(registered, monkeypatch):
    registered("lm_head", "cpu", "second", "workbench.ops.native:NativeLMHeadOp", priority=1)
    registered("lm_head", "cpu", "last", "workbench.ops.native:NativeLMHeadOp", priority=99)
    assert registry.priorities("cpu")["lm_head"] == ("twin", "second", "native", "last")
    monkeypatch.setenv(registry.VARIABLE, "lm_head=last")
    assert registry.explain("lm_head", "cpu").chosen == "last"
    assert type(registry.get_op("lm_head", "cpu")) is wb.ops.NativeLMHeadOp


UNAVAILABLE = {
    "a reason": (lambda: "no licence", "no licence"),
    "reasons": (lambda: ["no licence", "no fan"], "no licence; no fan"),
    "an exception": (lambda: 1 // 0, "ZeroDivisionError"),
    "False": (lambda: False, "returned False; True means"),
    "nothing": (lambda: None, "returned None; True means"),
    "no reasons": (list, "returned []; True means"),
}


@pytest.mark.parametrize("what", UNAVAILABLE)
def test_a_users_reason(registered, what):
    available, text = UNAVAILABLE[what]
    registered("lm_head", "cpu", "mine", Mine, available=available)
    assert text in reason(platform="cpu", impl="mine")
    assert registry.explain("lm_head", "cpu").chosen == "twin"


def test_control_an_available_implementation_of_a_user_is_chosen(registered):
    registered("lm_head", "cpu", "mine", Mine, available=lambda: True)
    assert registry.explain("lm_head", "cpu").chosen == "mine"


@pytest.mark.parametrize(
    ("target", "text"),
    [("no.such.module:Op", "ModuleNotFoundError"), ("workbench.ops.native:NoOp", "AttributeError")],
)
def test_a_users_module_that_does_not_import(registered, target, text):
    registered("lm_head", "cpu", "mine", target)
    assert f"{target} does not import: {text}" in reason(platform="cpu", impl="mine")
    with pytest.raises(MissingError, match="does not import"):
        registry.get_op("lm_head", "cpu", impl="mine")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("rms_norm", "cpu", "mine", Mine), "unknown op 'rms_norm'"),
        (("lm_head", "cuda", "mine", Mine), "unknown platform 'cuda'"),
        (("lm_head", "cpu", "twin", Mine), "has a 'twin' on cpu already"),
        (("lm_head", "cpu", "a=b", Mine), "letters, digits and _"),
        (("lm_head", "cpu", "mine", "module"), "package.module:Class"),
    ],
)
def test_what_cannot_be_registered(machine, arguments, text):
    before = registry.priorities("cpu")
    with pytest.raises(InputError, match=text):
        registry.register(*arguments)
    assert registry.priorities("cpu") == before


def test_only_what_was_registered_can_be_taken_back(machine):
    for name in ("twin", "native", "mine"):
        with pytest.raises(InputError, match="was not registered"):
            registry.unregister("lm_head", "cpu", name)


# ---- threads, and the result's forms -------------------------------------------------------------


def test_threads_ask_once(registered):
    calls, start, made, wrong = [], threading.Barrier(8), [], []

    def available():
        calls.append(threading.get_ident())
        return True

    registered("lm_head", "cpu", "mine", Mine, available=available)

    def work():
        try:
            start.wait(30)
            made.extend(type(registry.get_op(op, "cpu")).__name__ for op in ("lm_head",) * 20)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and made == ["Mine"] * 160 and len(calls) == 1


def test_a_module_that_registers_itself_while_another_thread_asks(registered, tmp_path, machine):
    """Neither waits for the other: one holds the import of the module, one finds out about it."""
    (tmp_path / "selfish.py").write_text(
        "import time\nfrom workbench.ops import registry\ntime.sleep(0.2)\n"
        "registry.register('lm_head', 'npu', 'selfish', 'selfish:Op')\nclass Op: pass\n"
    )
    machine.monkeypatch.syspath_prepend(str(tmp_path))
    entered = threading.Event()

    def available():
        entered.set()
        importlib.import_module("selfish")
        return True

    registered("lm_head", "cpu", "mine", Mine, available=available)
    threads = [
        threading.Thread(target=importlib.import_module, args=("selfish",), daemon=True),
        threading.Thread(target=registry.explain, args=("lm_head", "cpu"), daemon=True),
    ]
    threads[0].start()
    time.sleep(0.05)  # it is in the module now
    threads[1].start()
    for thread in threads:
        thread.join(20)
    assert entered.is_set() and not any(thread.is_alive() for thread in threads)
    registry.unregister("lm_head", "npu", "selfish")
    del sys.modules["selfish"]


def test_a_misspelt_option_is_told_the_ones_there_are(machine):
    for ask in (registry.get_op, registry.explain):
        with pytest.raises(InputError) as caught:
            ask("lm_head", "cpu", bacward="matmul")
        text = str(caught.value)
        assert "lm_head takes no bacward on cpu; it takes twin: config, backward; native:" in text
    # One that another implementation takes is a reason, not a mistake.
    with pytest.raises(MissingError, match="native takes no backward"):
        registry.get_op("lm_head", "cpu", impl="native", backward="matmul")


def test_explain_refuses_the_configuration_that_get_op_refuses(machine):
    for op in OPS:
        said = []
        for ask in (registry.get_op, registry.explain):
            with pytest.raises(ConfigError, match="does not run on dav-1001; it runs on") as caught:
                ask(op, "cpu", config=wb.KernelConfig(arch="dav-1001"))
            said.append(str(caught.value))
        assert said[0] == said[1]
        for ask in (registry.get_op, registry.explain):
            with pytest.raises(ConfigError, match=r"config is a str \('x'\); want a KernelConfig"):
                ask(op, "cpu", config="x")
        assert registry.explain(op, "cpu", config=wb.KernelConfig(arch="dav-3510")).chosen


def test_what_is_no_configuration_is_refused_wherever_it_is_given():
    for make in (
        lambda: wb.ops.AscendLMHeadOp("x=1"),
        lambda: wb.ops.AscendLinearLogpOp("x=1"),
        lambda: wb.build("lm_head", {"tile_length": 64}),
        lambda: wb.build(wb.paths.ASCEND / "lm_head_ascend.asc", {}),
    ):
        with pytest.raises(ConfigError, match="want a KernelConfig, for example KernelConfig"):
            make()


def test_a_target_that_is_no_class_is_refused_at_once():
    before = registry.priorities("cpu")
    for target in (3, None, "workbench.ops.native", ["a:b"]):
        with pytest.raises(InputError, match="give a class, or a text"):
            registry.register("lm_head", "cpu", "mine", target)
    assert registry.priorities("cpu") == before


def test_where_nothing_can_run_the_sentence_says_so_once(machine, monkeypatch):
    monkeypatch.setattr(registry, "_refusal", lambda one, given: "not today")
    with pytest.raises(MissingError, match=r"^nothing can run lm_head on cpu here. twin: not tod"):
        registry.get_op("lm_head", "cpu")
    with pytest.raises(
        MissingError, match=r"^impl='native' was asked for, and it cannot run lm_he"
    ):
        registry.get_op("lm_head", "cpu", impl="native")


def test_the_explanation_in_every_form(machine):
    explanation = registry.explain("det_gemm", "npu")
    assert str(explanation).startswith("det_gemm on npu: native\n")
    assert "CANN (bisheng) not found" in explanation._repr_html_()
    assert list(explanation.to_pandas()["status"]) == ["rejected", "chosen"]
    found = json.loads(json.dumps(explanation.to_dict()))
    assert found["chosen"] == "native" and found["choices"][0]["implementation"] == "ascend"


def test_a_stand_in_in_sys_modules_is_a_torch_npu(machine, monkeypatch):
    """As a notebook or a test puts it there, without a file."""
    machine.cann(), machine.device()
    module = types.ModuleType("torch_npu")
    module.npu = types.SimpleNamespace(is_available=lambda: True)
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    assert registry.explain("lm_head", "npu").chosen == "ascend"


def test_the_variable_may_change_while_it_is_read(monkeypatch):
    """Another thread takes it away between two looks: there is one look."""

    class Flickering(dict):
        looks = 0

        def get(self, key, default=None):
            if key != registry.VARIABLE:
                return super().get(key, default)
            self.looks += 1
            return "native" if self.looks == 1 else default

        def __getitem__(self, key):
            if key == registry.VARIABLE:
                raise KeyError(key)
            return super().__getitem__(key)

    environment = Flickering(registry.os.environ)
    monkeypatch.setattr(registry.os, "environ", environment)
    found = registry.explain("lm_head", "cpu")
    assert (found.chosen, found.asked) == ("native", "WORKBENCH_OPS=native")


def test_implementations_that_cannot_be_asked_or_made_break_nothing():
    class Unhashable:
        __hash__ = None

        def __call__(self):
            return True

    with pytest.raises(InputError, match="not hashable"):
        registry.register("lm_head", "cpu", "odd", "builtins:dict", available=Unhashable())
    registry.register("lm_head", "cpu", "odd", "builtins:dict")  # it has no signature
    try:
        found = registry.explain("lm_head", "cpu", impl=None)
        assert found.chosen != "odd" and "cannot be made" in found.choices[0].reason
    finally:
        registry.unregister("lm_head", "cpu", "odd")
