"""Large outputs by the host kernel: the same figures, said in the run, and a lie is caught."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from sweep_kit import small

from workbench.errors import InputError
from workbench.sweep import measure, outputs, runner
from workbench.sweep.outputs import LARGE, chosen
from workbench.sweep.record import Record
from workbench.sweep.runner import sweep

SPACE = small(tiles=(64, 256), max_blocks=(1,), shapes=((20, 600),))
# What must not depend on who computed the outputs.
SAME = (
    "order_hash",
    "bits",
    "drift",
    "reference_drift",
    "bound",
    "invariance",
    "counters",
    "inputs",
)


def swept(space, store, by, **more):
    return sweep(space, store=store, workers=0, progress=False, timing=0, outputs=by, **more)


def planned(space, by):
    return runner._tasks(space, "smollm2", None, 0, runner._Here(), by=by)[0][1]


def test_the_rule():
    assert math.prod((2**14, 2**7, 2**7)) == LARGE
    assert chosen("auto", "lm_head", "twin", (2**14, 2**7, 2**7)) == "kernel"
    assert chosen("auto", "lm_head", "twin", (2**14, 2**7, 2**7 + 1)) == "host"
    for by in ("kernel", "host"):
        assert chosen(by, "lm_head", "twin", (1, 1, 1)) == by
    for op, backend in (("det_gemm", "twin"), ("lm_head", "npu")):
        assert chosen("auto", op, backend, (2**14, 2**14, 2**14)) == "kernel"
        with pytest.raises(InputError, match=f"{op} on {backend}.*outputs='kernel'"):
            chosen("host", op, backend, (1, 1, 1))


def test_nothing_is_begun_where_there_is_no_host_kernel(tmp_path):
    with pytest.raises(InputError, match="det_gemm on twin"):
        swept(small(op="det_gemm", tiles=()), tmp_path / "r", "host")
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dtypes": ("bf16",), "out_dtype": "fp32", "arches": ("dav-3510",)},
        {"dtypes": ("fp16",)},
    ],
    ids=str,
)
def test_the_same_figures_as_by_the_kernel(tmp_path, changes):
    space = dataclasses.replace(SPACE, **changes)
    store = tmp_path / "r"
    by = {name: swept(space, store, name) for name in ("kernel", "host")}
    for one, two in zip(by["kernel"].runs, by["host"].runs, strict=True):
        assert one.status == two.status == "ok" and one.key != two.key
        assert {n: getattr(one, n) for n in SAME} == {n: getattr(two, n) for n in SAME}
        assert (one.provenance.outputs, two.provenance.outputs) == ("", "host")
        assert "outputs_by" not in one.provenance.extra
        assert two.provenance.extra["outputs_by"] == (
            "the order-exact host kernel; 4 x 64 of them, spread over all, and the first 8 x 512 "
            "compared with the twin"
        )
    assert by["host"].runs[0].bits != by["host"].runs[1].bits  # the control: bits tell
    assert [swept(space, store, name).kept for name in by] == [2, 2]
    with Record(store, readonly=True) as record:
        assert len(record) == 4
        found = record.compare(by["kernel"].runs[0].key, by["host"].runs[0].key)
        assert found.same_bits and [c.name for c in found.changes if c.part == "provenance"] == [
            "provenance.outputs", "provenance.outputs_by"]  # fmt: skip


def test_auto_is_the_host_kernel_where_it_is_large(monkeypatch):
    assert planned(SPACE, "auto").outputs == "kernel"
    monkeypatch.setattr(outputs, "LARGE", 20 * 576 * 600 - 1)
    auto, asked = planned(SPACE, "auto"), planned(SPACE, "host")
    assert auto.outputs == "host" and auto.key == asked.key
    assert measure.measure(auto)["provenance"]["outputs"] == "host"
    assert planned(small(op="det_gemm", tiles=()), "auto").outputs == "kernel"


def test_a_kernel_whose_configuration_lies_is_caught(monkeypatch):
    """It adds as with tile 256, and says 64."""
    real = measure.build

    class Lying:
        def __init__(self, kernel, config):
            self.kernel, self.config = kernel, config

        def __getattr__(self, name):
            return getattr(self.kernel, name)

        def __call__(self, *args, **more):
            return self.kernel(*args, **more)

    monkeypatch.setattr(
        measure, "build", lambda op, config, *args, **more:
        Lying(real(op, config.replace(tile_length=256), *args, **more), config),
    )  # fmt: skip
    task = planned(SPACE, "host")
    assert task.config.tile_length == 64
    found = measure.measure(task)
    assert found["status"] == "failed" and "by the host kernel and 0x" in found["error"]
    honest = dataclasses.replace(task, config=task.config.replace(tile_length=256))
    assert measure.measure(honest)["status"] == "ok"  # the control


def test_a_bit_that_the_spread_does_not_see_is_seen_where_it_is_counted(monkeypatch):
    real = measure.OnHost.__call__

    def off(self, *args, **more):
        out = real(self, *args, **more)
        out.view(torch.int32)[1, 7] ^= 1
        return out

    monkeypatch.setattr(measure.OnHost, "__call__", off)
    found = measure.measure(planned(SPACE, "host"))
    assert found["status"] == "failed" and "than the host kernel" in found["error"]


def test_the_time_is_that_of_the_kernel_on_what_is_counted(monkeypatch):
    """And never that of the host kernel."""
    seen = []
    real = measure._Subject.__call__

    def call(self, hidden, weight, **more):
        if "threads" in more:
            seen.append((len(hidden), len(weight)))
        return real(self, hidden, weight, **more)

    monkeypatch.setattr(measure._Subject, "__call__", call)
    for by, size in (("host", (8, 512)), ("kernel", (20, 600))):
        seen.clear()
        found = measure.measure(dataclasses.replace(planned(SPACE, by), timing=1))
        assert found["time"]["ratio"] > 0 and set(seen) == {size}


def test_the_host_kernel_is_compiled_before_the_run(monkeypatch):
    asked = []
    monkeypatch.setattr(measure.host, "library", asked.append)
    measure.compiled(planned(SPACE, "kernel"))
    assert not asked
    measure.compiled(planned(SPACE, "host"))
    assert asked == ["linear.cpp"]
