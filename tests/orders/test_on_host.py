"""Host kernels in the place of kernels: proven on a part of each call, named in the evidence."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import ARCHS, DTYPES, ENTRIES, NO_MEMORY, kernel, same_bits, wild

import workbench as wb
from workbench.errors import InputError, WorkbenchError
from workbench.ops import AscendLinearLogpOp
from workbench.orders import host
from workbench.orders.linear import linear
from workbench.orders.logp import logp
from workbench.orders.on_host import Compared, OnHost


@pytest.mark.parametrize("arch", ARCHS)
def test_it_is_called_as_the_kernel_and_has_its_bits(arch):
    run = kernel(256, arch)
    stand_in = OnHost(run, rows=2, columns=5)
    for dtype, out in ENTRIES:
        hidden, weight, bias = (wild(s, 1, dtype) for s in ((2, 3, 700), (19, 700), (19,)))
        got = stand_in(hidden, weight, bias=bias, out_dtype=DTYPES[out])
        assert same_bits(got, run(hidden, weight, bias, DTYPES[out])), (dtype, out)
        assert stand_in.last == Compared("twin", (2, 5), (6, 19))
    for shape, vocab in (((0, 7), 3), ((2, 7), 0)):
        assert not stand_in(torch.ones(shape), torch.ones(vocab, 7)).numel()
        assert stand_in.last is None
    assert stand_in(torch.ones(2, 0), torch.ones(3, 0)).shape == (2, 3)
    assert stand_in.last == Compared("twin", (2, 3), (2, 3))


def test_another_order_is_caught():
    """The control: a kernel that does not add as its configuration says."""
    real = kernel(64)

    class Other:
        spec, info = real.spec, real.info
        config = real.config.replace(tile_length=256)
        __call__ = staticmethod(real.__call__)

    stand_in = OnHost(Other())
    hidden, weight = wild((3, 700), 1), wild((40, 700), 2)
    with pytest.raises(WorkbenchError, match="by the host kernel and 0x"):
        stand_in(hidden, weight)
    assert stand_in.last is None
    assert OnHost(real)(hidden, weight).shape == (3, 40)


def test_drift_and_its_evidence():
    hidden, weight = wild((5, 700), 1), wild((40, 700), 2)
    run = kernel(256)
    found, want = (wb.drift(k, hidden, weight, tree="declared") for k in (OnHost(run), run))
    assert [c.to_dict() for c in found.comparisons] == [c.to_dict() for c in want.comparisons]
    assert found.tree_hash == want.tree_hash
    told = found.evidence
    assert (told.target, told.backend) == ("lm_head: host kernel, order-exact", "host")
    assert (told.arch, told.config) == (want.evidence.arch, want.evidence.config)
    assert want.evidence.backend == "twin"


def test_the_page_runs_with_the_stand_in(capsys):
    """As a reader would paste it, with fewer vocabulary ids."""
    page = (Path(wb.__file__).parents[1] / "docs" / "host-kernels.md").read_text()
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block.replace("20000", "300").replace("2000", "200").replace("4096", "700"), names)
    told = capsys.readouterr().out
    assert "lm_head: host kernel, order-exact" in told and "part=[4, 64]" in told
    assert names["stand_in"].last == Compared("twin", (4, 64), (8, 300))


def test_its_name_is_there_and_loads_no_torch_before():
    code = ("import sys, workbench.orders as o; assert 'torch' not in sys.modules; "
            "print(o.OnHost.__module__)")  # fmt: skip
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "workbench.orders.on_host" and wb.orders.OnHost is OnHost


def test_refusals():
    info = SimpleNamespace(backend="npu")
    for given in (
        torch.nn.functional.linear,
        wb.build("batch_invariant_logp", backend="twin"),
        SimpleNamespace(spec=kernel().spec, info=info),
    ):
        with pytest.raises(InputError, match="not an LM head on the twin"):
            OnHost(given)
    with pytest.raises(InputError, match="at least one output"):
        OnHost(kernel(), columns=0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_in_a_row_are_the_reference_of_linear_logp(dtype):
    hidden, weight, bias = (wild(s, 1, dtype, spread=1) for s in ((64, 200), (3000, 200), (3000,)))
    hidden = hidden / 64  # so that many logits of a row count
    target = torch.arange(64) * 47
    target[3::5] = -100
    head, beside = wb.KernelConfig(tile_length=256), wb.KernelConfig(tile_length=128)
    for logits_dtype in (None, torch.float32):
        op = AscendLinearLogpOp(head, logp_config=beside, backend="twin")
        want = op(hidden, weight, target, bias=bias, logits_dtype=logits_dtype, return_lse=True)
        got = logp(linear(hidden, weight, head, bias, logits_dtype), target, beside)
        assert all(map(same_bits, got, want)), logits_dtype
        other = logp(linear(hidden, weight, head, bias, logits_dtype), target, head)
        assert not all(map(same_bits, other, want)), "the control: another tile shows"


# What would be read or written at address 0 otherwise: in a process of its own.
WITHOUT_MEMORY = """
from workbench.orders.logp import logp

logits, target = torch.ones(3, 70), torch.tensor([0, 1, 2])
want = logp(logits, target)

with torch.device("meta"):
    found = logp(logits, target)
assert all(f.device.type == "cpu" and f.equal(w) for f, w in zip(found, want))
with FakeTensorMode(allow_non_fake_inputs=True) as mode:
    refused(lambda: logp(mode.from_tensor(logits), mode.from_tensor(target), validate=False))
    refused(lambda: logp(logits, target, validate=False))
refused(lambda: torch.func.functionalize(lambda x: logp(x, target)[0])(logits))
refused(lambda: torch.vmap(lambda x, t: logp(x[None], t[None]))(logits, target))
refused(lambda: torch.func.grad(lambda x: logp(x, target)[0].sum())(logits))
"""


def test_tensors_without_memory_are_refused_whatever_the_default_device():
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY + WITHOUT_MEMORY], capture_output=True, text=True
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    with pytest.raises(InputError, match="to_dense"):
        logp(torch.ones(3, 70).to_sparse(), torch.tensor([0, 1, 2]))


def test_a_cache_that_is_cleared_meanwhile_is_filled_again(monkeypatch, tmp_path):
    """Between the moment the library is found and the one it is loaded."""
    real, found = host.compiled, []

    def compiled(path, cxx):
        found.append(tmp_path / "gone.so" if not found else real(path, cxx))
        return found[-1]

    monkeypatch.setattr(host, "compiled", compiled)
    host._library.cache_clear()
    assert host.library("logp.cpp").order_ln is not None and len(found) == 2
    (tmp_path / "bad.so").write_text("not a library")  # one that is there is no such case
    monkeypatch.setattr(host, "compiled", lambda *_: tmp_path / "bad.so")
    host._library.cache_clear()
    with pytest.raises(OSError, match=r"bad\.so"):
        host.library("logp.cpp")
    host._library.cache_clear()
