"""Sweeps: what a run holds is what other parts find, nothing is lost, nothing is done twice."""

from __future__ import annotations

import threading

import pytest
import torch
from sweep_kit import made, small, table

import workbench as wb
from workbench.build.kernel import Kernel
from workbench.errors import InputError, MissingError
from workbench.evidence import fixture_id
from workbench.numerics.transforms import TRANSFORMS
from workbench.orders.reveal import reveal
from workbench.sweep import fixtures, measure, runner
from workbench.sweep.fixtures import InputRef
from workbench.sweep.record import Record
from workbench.sweep.runner import sweep

U = 2.0**-53


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    store = tmp_path_factory.mktemp("sweep") / "runs.sqlite"
    seen = []
    found = sweep(small(), store=store, workers=0, progress=seen.append)
    return found, store, seen


def inputs(rows: int = 2, ids: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """What the sweep says it takes of the real sample, taken here another way."""
    sample = wb.samples.smollm2()
    flat = sample.hidden.reshape(160, 576)
    assert rows == 2
    return torch.stack([flat[0], flat[159]]), sample.weight[:ids].float()


def test_counts_and_record(done):
    found, store, seen = done
    assert (len(found.runs), found.total, found.refused, found.failed) == (6, 6, 2, 0)
    assert found.passed and not found.stopped and found.kept == 0
    with Record(store, readonly=True) as record:
        assert {run.key for run in record.runs()} == {run.key for run in found.runs}
        assert record.get(found.runs[0].key) == found.runs[0]
    assert [run.config["tile_length"] for run in found.runs] == [64, 64, 128, 128, 100, 100]
    # The refused stand there at once, before anything has run.
    assert (seen[0].done, seen[0].run, seen[0].left) == (2, None, None)
    assert [p.done for p in seen] == [2, 3, 4, 5, 6] and seen[-1].left == 0


def test_refused_say_why(done):
    for run in done[0].runs[-2:]:
        assert run.status == "refused" and "multiple of 64" in run.error
        assert run.bits is None and run.drift is None and run.inputs.fixture_id


def test_figures_are_those_of_the_other_parts(done):
    hidden, weight = inputs()
    for run in done[0].runs[:4]:
        config = wb.KernelConfig(arch=run.arch, **run.config)
        kernel = wb.build("lm_head", config, backend="twin")
        out = kernel(hidden, weight)
        assert run.inputs.fixture_id == fixture_id(hidden, weight)
        assert run.shape == (2, 576, 16)
        assert run.order_hash == reveal(kernel, 576, seed=7).hash  # other probes, with checks
        # Distances by hand: fp64 products are off by less than this.
        exact = hidden.double() @ weight.double().T
        scale = hidden.double().abs() @ weight.double().abs().T
        slack = float(((576 + 2) * U * scale).max())
        error = (out.double() - exact).abs()
        assert abs(run.drift.max_abs - float(error.max())) <= slack
        assert abs(run.drift.mean_abs - float(error.mean())) <= slack
        with measure.one_thread():
            mv = torch.stack([torch.mv(weight, row.clone()) for row in hidden]).double()
        assert run.reference == "torch.mv"
        assert abs(run.reference_drift.max_abs - float((mv - exact).abs().max())) <= slack
        assert run.invariance.passed and run.invariance.transforms == TRANSFORMS
        bound = wb.bounds(wb.declared_order("lm_head", config, n=576), hidden, weight)
        assert run.bound.kind == "running"
        assert run.bound.max == float(bound.running.max())
        assert (
            run.bound.worst_ratio == bound.ratio(out.double().numpy() - bound.exact)["running"] < 1
        )


def test_bit_classes_are_those_of_bit_classes(done):
    runs = done[0].runs[:4]
    configs = [wb.KernelConfig(arch=run.arch, **run.config) for run in runs]
    expected = wb.bit_classes(configs, n=576)
    for a in range(4):
        for b in range(4):
            same = expected.class_of(configs[a]) == expected.class_of(configs[b])
            assert same == (
                (runs[a].order_hash, runs[a].bits) == (runs[b].order_hash, runs[b].bits)
            )
    assert [[run.config["tile_length"] for run in c.runs] for c in done[0].classes()] == [
        [64, 64],
        [128, 128],
    ]


def test_counters_are_exact(done):
    # Of each logit: 576 fp32 of hidden, 576 of weight; and one fp32 back.
    for run in done[0].runs[:4]:
        assert run.counters["logits"] == 2 * 16 and run.counters["rows"] == 2
        assert run.counters["gm_to_ub_bytes"] == 32 * 2 * 576 * 4
        assert run.counters["ub_to_gm_bytes"] == 32 * 4
        assert run.counters["blocks"] == run.config["max_blocks"]


def test_time_is_a_ratio(done):
    for run in done[0].runs[:4]:
        assert run.time.reference == "F.linear"
        assert run.time.ratio == run.time.reference_median / run.time.median > 0


def test_provenance(done):
    run = done[0].runs[0]
    info = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin").info
    assert run.provenance.source_digest == info.source_digest
    assert run.provenance.compiler == info.compiler
    assert run.provenance.torch == torch.__version__ and run.provenance.seconds > 0
    assert run.backend == "twin" and "2 of 160 rows" in run.inputs.name


def test_resumed_nothing_is_measured_again(done, monkeypatch):
    found, store, _ = done
    monkeypatch.setattr(runner, "measure", lambda task: pytest.fail("measured again"))
    again = sweep(small(), store=store, workers=0, progress=False)
    assert again.kept == 6 and again.runs == found.runs


def test_not_resumed_everything_is_measured_again(done, monkeypatch):
    found, store, _ = done
    calls = []
    real = runner.measure
    monkeypatch.setattr(runner, "measure", lambda task: calls.append(task) or real(task))
    again = sweep(small(), store=store, workers=0, progress=False, resume=False, timing=0)
    assert len(calls) == 4 and again.kept == 0
    assert table(again.runs) == table(found.runs)
    assert again.runs[0].time is None


def test_other_bits_than_the_record_are_a_failed_run(done, monkeypatch):
    _, store, _ = done
    real = runner.measure
    monkeypatch.setattr(runner, "measure", lambda task: real(task) | {"bits": "0" * 16})
    again = sweep(small(), store=store, workers=0, progress=False, resume=False, timing=0)
    assert [run.status for run in again.runs] == ["failed"] * 4 + ["refused"] * 2
    assert "gave two results" in again.runs[0].error and not again.passed
    with Record(store, readonly=True) as record:  # which keeps what it had
        assert record.get(again.runs[0].key).status == "ok"


def test_a_repetition_is_another_run(tmp_path):
    space = small(tiles=(64,), max_blocks=(1,))
    options = {"store": tmp_path / "r", "workers": 0, "progress": False, "timing": 1}
    first, second = (sweep(space, repeat=i, **options).runs[0] for i in (0, 1))
    assert (first.key != second.key, second.repeat, second.id) == (True, 1, 2)
    assert (first.bits, first.drift) == (second.bits, second.drift)


def test_one_failure_loses_nothing_else(tmp_path, monkeypatch):
    real = Kernel.launch

    def launch(self, *args, **kwargs):
        if self.config.tile_length == 128:
            raise ZeroDivisionError("of this configuration")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Kernel, "launch", launch)
    space = small(max_blocks=(1,))
    found = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert [run.status for run in found.runs] == ["ok", "failed", "refused"]
    assert found.runs[1].error == "ZeroDivisionError: of this configuration"
    monkeypatch.undo()
    again = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert [run.status for run in again.runs] == ["ok", "ok", "refused"] and again.kept == 2


def test_a_build_that_fails_is_one_failed_run(tmp_path, monkeypatch):
    real = runner.compiled

    def compiled(task):
        if task.config.tile_length == 64:
            raise wb.BuildError("no such luck")
        real(task)

    monkeypatch.setattr(runner, "compiled", compiled)
    found = sweep(small(max_blocks=(1,)), store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert [(run.status, run.error) for run in found.runs][:2] == [
        ("failed", "no such luck"),
        ("ok", None),
    ]


def test_a_kernel_that_sees_its_batch_is_not_invariant(monkeypatch):
    # The control of the quick subset: one bit, and only where the batch is larger than one row.
    task = planned(small(tiles=(64,), max_blocks=(1,)))
    real = measure._Subject.__call__

    def seeing(self, hidden, weight, **more):
        out = real(self, hidden, weight, **more)
        if hidden.reshape(-1, hidden.shape[-1]).shape[0] == 17:
            out.view(torch.int32)[..., 0] ^= 1
        return out

    monkeypatch.setattr(measure._Subject, "__call__", seeing)
    found = measure.measure(task)
    assert found["status"] == "ok" and not found["invariance"]["passed"]
    assert found["invariance"]["first_mismatch"]["case"]


def test_counting_must_not_change_a_bit(monkeypatch):
    task = planned(small(tiles=(64,), max_blocks=(1,)))
    real = measure._Subject.__call__

    def other(self, hidden, weight, **more):
        out = real(self, hidden, weight, **more)
        if more.get("counters"):
            out.view(torch.int32)[0, 0] ^= 1
        return out

    monkeypatch.setattr(measure._Subject, "__call__", other)
    found = measure.measure(task)
    assert found["status"] == "failed" and "counted" in found["error"]


def planned(space, given="smollm2", folder=None):
    return runner._tasks(space, given, folder, 0, None)[0][1]


def test_other_inputs_than_the_coordinator_has_fail():
    import dataclasses

    task = dataclasses.replace(planned(small(tiles=(64,))), fixture="0" * 16)
    found = measure.measure(task)
    assert found["status"] == "failed" and "where the sweep was started" in found["error"]


def test_shared_work_is_done_once(tmp_path, monkeypatch):
    calls = []
    for name in ("judge", "bounds"):
        real = getattr(measure, name)
        monkeypatch.setattr(
            measure, name, lambda *a, _n=name, _r=real, **k: calls.append(_n) or _r(*a, **k)
        )
    for cache in (measure._bounds, measure._truth):
        cache.cache_clear()
    measure._drifts.clear()
    space = small(tiles=(64, 128), max_blocks=(1, 2, 3), schedules=(0, 1))
    found = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert found.passed and len(found.runs) == 12
    assert calls.count("bounds") == 2  # orders
    assert calls.count("judge") <= 2  # outputs with other bits
    assert measure._truth.cache_info().misses == 1


def test_stopped_and_resumed_is_the_same_table(done, tmp_path):
    stop = threading.Event()

    def shown(at):
        if at.run is not None and at.run.status == "ok":
            stop.set()

    part = sweep(small(), store=tmp_path / "r", workers=0, progress=shown, stop=stop, timing=0)
    assert part.stopped and not part.passed and len(part.runs) == 3 and "3 to go" in part.title()
    whole = sweep(small(), store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert whole.kept == 3 and table(whole.runs) == table(done[0].runs)


def test_det_gemm(tmp_path):
    space = small(op="det_gemm", tiles=(), constants={"leaf_length": (32, 64)}, max_blocks=(1, 3))
    found = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert found.passed and len(found.classes()) == 2
    hidden, weight = inputs()
    kernel = wb.build("det_gemm", wb.KernelConfig(leaf_length=32), backend="twin")
    exact = hidden.double() @ weight.double().T
    error = float((kernel(hidden, weight.T.contiguous()).double() - exact).abs().max())
    slack = float((578 * U * (hidden.double().abs() @ weight.double().abs().T)).max())
    assert abs(found.runs[0].drift.max_abs - error) <= slack


def test_bf16_with_fp32_results(tmp_path):
    space = small(tiles=(64,), max_blocks=(1,), dtypes=("bf16",), out_dtype="fp32")
    (run,) = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0).runs
    (same,) = sweep(
        small(tiles=(64,), max_blocks=(1,), dtypes=("bf16",)),
        store=tmp_path / "r",
        workers=0,
        progress=False,
        timing=0,
    ).runs
    assert run.key != same.key and run.order_hash == same.order_hash
    assert run.drift.max_abs < same.drift.max_abs  # not rounded to bf16
    assert run.inputs == same.inputs and run.inputs.fixture_id != inputs()[0]


# ---- inputs --------------------------------------------------------------------------------------


def test_tensors_travel_as_a_file(tmp_path):
    hidden, weight = inputs()
    (ref,) = fixtures.references((hidden.reshape(1, 2, 576), weight), tmp_path)
    found = fixtures.load(ref, "fp32", (None, None))
    assert found.inputs.fixture_id == fixture_id(hidden, weight) and found.shape == (2, 576, 16)
    assert fixtures.load(ref, "bf16", (1, 4)).weight.equal(weight[:4].bfloat16())


def test_a_distribution_is_drawn_in_its_size():
    ref = InputRef("normal", hidden_size=64, seed=3)
    found = fixtures.load(ref, "fp32", (2, 8))
    g = torch.Generator().manual_seed(3)
    assert found.hidden.equal(torch.randn(2, 64, generator=g)) and found.inputs.seed == 3
    assert found.weight.equal(torch.randn(8, 64, generator=g))


@pytest.mark.parametrize("given", ["gpt5", [], (torch.ones(2), "x"), InputRef("nothing"), 7])
def test_inputs_that_are_none(given, tmp_path):
    with pytest.raises(InputError):
        fixtures.references(given, tmp_path)


def test_more_than_there_is(tmp_path):
    with pytest.raises(InputError, match="160 rows"):
        sweep(small(shapes=((161, 8),)), store=tmp_path / "r", workers=0, progress=False)


def test_a_file_of_another_machine():
    with pytest.raises(MissingError, match="not on this machine"):
        fixtures.load(InputRef("mine", "/nowhere/x.safetensors"), "fp32", (1, 1))


@pytest.mark.parametrize(
    "bad", [{"client": 7}, {"workers": -1}, {"timing": -1}, {"client": 7, "workers": 2}]
)
def test_wrong_arguments(bad, tmp_path):
    with pytest.raises(InputError):
        sweep(small(), store=tmp_path / "r", progress=False, **bad)


def test_no_space(tmp_path):
    with pytest.raises(InputError, match="Space"):
        sweep({"tiles": [64]}, store=tmp_path / "r")


def test_all_refused_needs_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "versions", lambda *a: pytest.fail("built"))
    found = sweep(small(tiles=(100,)), store=tmp_path / "r", workers=0, progress=False)
    assert found.refused == 2 and found.passed
    assert made().key not in {run.key for run in found.runs}
