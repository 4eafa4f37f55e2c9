"""Sweeps: what a run holds is what other parts find, nothing is lost, nothing is done twice."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from sweep_kit import small, table

import workbench as wb
from workbench import paths
from workbench.build.config import spec
from workbench.build.kernel import Kernel
from workbench.errors import InputError, MissingError
from workbench.evidence import fixture_id
from workbench.numerics.transforms import TRANSFORMS
from workbench.orders.reveal import reveal
from workbench.sweep import choose, code, fixtures, measure, runner
from workbench.sweep.fixtures import InputRef
from workbench.sweep.record import Record, RecordError
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


@pytest.mark.parametrize(
    "what", ["csrc/twin/include/kernel_operator.h", "csrc/ascend/lm_head_ascend.json",
             "csrc/twin/runtime", "workbench/numerics/ulp.py", "workbench/orders/tree",
             "workbench/data/architectures.json"],
)  # fmt: skip
def test_code_that_was_edited_is_other_code(what, tmp_path, monkeypatch):
    """A copy of all files, one of them edited under the same version; what only draws is not."""
    for part in ("csrc", "workbench"):
        shutil.copytree(paths.PACKAGE.parent / part, tmp_path / part,
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    real = code.code_digest("lm_head", "twin")
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "workbench")
    monkeypatch.setattr(paths, "CSRC", tmp_path / "csrc")
    monkeypatch.setattr(paths, "DATA", tmp_path / "workbench" / "data")
    for name in ("ascend", "twin"):
        monkeypatch.setattr(paths, name.upper(), tmp_path / "csrc" / name)
    rules = dataclasses.replace(spec("lm_head"), source=paths.ASCEND / "lm_head_ascend.asc")
    monkeypatch.setattr(code, "spec", lambda op: rules)

    assert code.code_digest("lm_head", "twin", anew=True) == real  # wherever the files are
    (tmp_path / "workbench" / "plots" / "sweep.py").write_text("")
    assert code.code_digest("lm_head", "twin", anew=True) == real
    edited = tmp_path / what
    file = edited if edited.is_file() else min(f for f in edited.iterdir() if f.is_file())
    file.write_bytes(file.read_bytes() + b"\n")
    assert code.code_digest("lm_head", "twin", anew=True) != real
    # What this process has imported stays what it is; C++ is compiled as it lies there.
    assert (code.code_digest("lm_head", "twin") == real) == (file.suffix == ".py")


# Loaded with what measures, and no part of it: other operators, tables, texts.
NOT_MEASURING = {
    *("numerics.adapters", "numerics.agreement", "numerics.candidates", "numerics.contract"),
    *("orders.declared", "orders.standard"),
}
LOADED = """
import sys, tempfile
from workbench.sweep.runner import sweep
from workbench.sweep.space import Space
with tempfile.TemporaryDirectory() as folder:
    for op in ("lm_head", "det_gemm"):
        space = Space(op=op, dtypes=("fp32", "bf16"), shapes=((2, 8),))
        assert sweep(space, store=f"{folder}/r", workers=0, progress=False, timing=1).passed
print(*(m.__file__ for n, m in sys.modules.items() if n.startswith("workbench.")), sep="\\n")
"""


def test_all_that_measures_is_among_the_code():
    out = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = {Path(line) for line in out.stdout.split("\n") if line}
    counted = {file for part in code._PYTHON for file in code._under(paths.PACKAGE / part)}
    assert len(loaded & counted) > 30
    missing = {
        ".".join(file.relative_to(paths.PACKAGE).with_suffix("").parts)
        for file in loaded - counted
        if file.relative_to(paths.PACKAGE).parts[0] in ("numerics", "orders", "ops")
    }
    rest = {n for n in missing if not n.endswith("__init__") and ".tolerance." not in n}
    assert rest == NOT_MEASURING


def test_a_resumed_sweep_does_not_take_runs_of_other_code(done, tmp_path, monkeypatch):
    found, store, _ = done
    shutil.copy(store, tmp_path / "r")
    monkeypatch.setattr(measure, "code_digest", lambda *_: "another")
    again = sweep(small(), store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert again.kept == 0 and again.passed
    assert not {run.key for run in again.runs} & {run.key for run in found.runs}
    with Record(tmp_path / "r") as record:
        assert len(record) == 12
        with pytest.raises(InputError, match="versions of the code"):
            choose.recommend(record.runs())
        new = choose.recommend(record.runs(), only_newest=True)
    assert set(new.choice.runs) <= {run.key for run in again.runs}
    assert new.excluded == {choose.OLDER: 6, "refused": 2}
    # A search sweeps several times, and may be of two: its advice and its JSON are there as well.
    both = dataclasses.replace(again, runs=(*again.runs, *found.runs))
    assert both.recommend().choices == new.choices == both.recommendations()[0].choices
    assert both.to_dict()["recommendations"][0]["excluded"] == new.excluded
    with pytest.raises(InputError, match="versions of the code"):
        both.recommend(only_newest=False)


def test_code_that_is_edited_while_a_sweep_runs_fails_its_runs(tmp_path, monkeypatch):
    """And does not put runs of two codes into one table."""
    seen = iter(["first"] * 2)
    monkeypatch.setattr(measure, "code_digest", lambda *_: next(seen, "second"))
    space = small(max_blocks=(1,))
    found = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    # Which of the two is built, and so runs, first is not known.
    assert sorted(run.status for run in found.runs) == ["failed", "ok", "refused"]
    (failed,) = [run for run in found.runs if run.status == "failed"]
    assert "code_digest second and not first" in failed.error
    again = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert again.kept == 0 and again.passed


def test_what_was_refused_and_can_be_built_is_measured(tmp_path, monkeypatch):
    space = small(tiles=(64,), max_blocks=(1,))
    options = {"store": tmp_path / "r", "workers": 0, "progress": False, "timing": 0}
    (key, task, _), = runner._tasks(space, "smollm2", None, 0, runner._Here())  # fmt: skip
    with Record(tmp_path / "r") as record:
        record.add(task.unfinished("refused", "by other rules"))
    found = sweep(space, **options)
    assert found.kept == 0 and found.runs[0].status == "ok" and found.runs[0].key == key
    # And what could be built, and is refused now, is refused.
    monkeypatch.setattr(runner.Space, "_refusal", lambda *_: "by new rules")
    monkeypatch.setattr(runner, "_versions", lambda *_: task.versions)
    found = sweep(space, **options)
    assert (found.runs[0].status, found.runs[0].error) == ("refused", "by new rules")
    with Record(tmp_path / "r") as record:
        assert record.get(key).status == "ok"  # which it was


def test_two_names_of_one_input_are_measured_once(tmp_path, monkeypatch):
    calls = []
    real = runner.measure
    monkeypatch.setattr(runner, "measure", lambda task: calls.append(task) or real(task))
    given = [inputs(), tuple(t.clone() for t in inputs())]
    space = small(tiles=(64,), max_blocks=(1,), shapes=(None, (2, 16)))
    found = sweep(space, given, tmp_path / "r", workers=0, progress=False, timing=0)
    assert len(calls) == found.total == len(found.runs) == 1


def test_kept_runs_without_a_time_are_told(tmp_path):
    space = small(tiles=(64,), max_blocks=(1,))
    options = {"store": tmp_path / "r", "workers": 0, "progress": False}
    assert sweep(space, timing=0, **options).notes == ()
    assert sweep(space, timing=0, **options).notes == ()
    again = sweep(space, timing=1, **options)
    assert again.kept == 1 and "no wall time" in again.notes[0] and "repeat" in str(again)


def test_first_configurations_that_do_not_build_lose_no_other(tmp_path, monkeypatch):
    real = measure.build

    def build(op, config, *args, **kwargs):
        if config.tile_length <= 256:
            raise wb.BuildError("no such luck")
        return real(op, config, *args, **kwargs)

    monkeypatch.setattr(measure, "build", build)
    space = small(tiles=(64, 128, 192, 256, 512), max_blocks=(1,))
    found = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert [run.status for run in found.runs] == [*["failed"] * 4, "ok"]


def test_a_file_of_inputs_that_is_written_anew(tmp_path):
    """Its old content, and what was found on it, are not taken for the new one's."""
    hidden, weight = inputs()
    file = tmp_path / "mine.safetensors"
    space = small(tiles=(64,), max_blocks=(1,), shapes=(None,))
    errors = []
    for scale in (1.0, 4.0):
        save_file({"hidden": hidden * scale, "weight": weight}, file)
        found = sweep(space, InputRef("mine", str(file)), tmp_path / "r", workers=0,
                      progress=False, timing=0)  # fmt: skip
        assert found.passed and found.kept == 0
        assert found.runs[0].inputs.fixture_id == fixture_id(hidden * scale, weight)
        errors.append((found.runs[0].drift.max_abs, found.runs[0].bound.max))
    assert errors[1] == (4 * errors[0][0], 4 * errors[0][1])  # a power of two: exactly


def test_a_distribution_without_a_seed_has_seed_0(tmp_path):
    same = [InputRef("normal", hidden_size=64), InputRef("normal", hidden_size=64, seed=0)]
    assert fixtures.references(same, lambda: tmp_path) == [same[1]]


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
    return runner._tasks(space, given, folder, 0, runner._Here())[0][1]


def test_other_inputs_than_the_coordinator_has_fail():
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
    assert run.inputs == same.inputs and run.inputs.fixture_id != fixture_id(*inputs())


# ---- inputs --------------------------------------------------------------------------------------


def test_tensors_travel_as_a_file(tmp_path):
    hidden, weight = inputs()
    (ref,) = fixtures.references((hidden.reshape(1, 2, 576), weight), lambda: tmp_path)
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
        fixtures.references(given, lambda: tmp_path)


def test_more_than_there_is(tmp_path):
    with pytest.raises(InputError, match="160 rows"):
        sweep(small(shapes=((161, 8),)), store=tmp_path / "r", workers=0, progress=False)


def test_a_file_of_another_machine():
    with pytest.raises(MissingError, match="not on this machine"):
        fixtures.load(InputRef("mine", "/nowhere/x.safetensors"), "fp32", (1, 1))


@pytest.mark.parametrize(
    "bad",
    [{"client": 7}, {"workers": -1}, {"timing": -1}, {"client": 7, "workers": 2}, {"timeout": "x"},
     {"timeout": -1}, {"timeout": float("nan")}, {"timeout": float("inf")}, {"timeout": True},
     {"stop": 3}, {"store": 5}, {"store": b"r"}, {"outputs": "cuda"}, {"outputs": None}],
)  # fmt: skip
def test_wrong_arguments(bad, tmp_path):
    (name,) = list(bad)[:1]
    with pytest.raises(InputError, match=rf"(^|\W){name}"):
        sweep(small(), **{"store": tmp_path / "r", "progress": False} | bad)
    assert not (tmp_path / "r").exists() or "client" in bad


def test_all_of_the_callers_own_tensors_has_to_be_asked_for(tmp_path):
    """The space has a size that the caller never gave."""
    own = torch.ones(3, 20), torch.ones(7, 20)
    space = wb.sweep.Space(tiles=(64,), max_blocks=(1,))
    options = {"store": tmp_path / "r", "workers": 0, "progress": False, "timing": 0}
    with pytest.raises(InputError, match=r"3 rows and 7 .*\(8, 512\) if none.*shapes=\[None\]"):
        sweep(space, own, **options)
    found = sweep(dataclasses.replace(space, shapes=[None]), own, **options)
    assert found.runs[0].shape == (3, 20, 7)


def test_an_answer_that_cannot_be_read_is_one_failed_run(tmp_path, monkeypatch):
    """Of a worker with another workbench, whose runs have other fields, or other keys."""
    real, odd = runner.measure, {}

    def measure(task):
        found = real(task)
        return odd[task.config.tile_length](found) if task.config.tile_length in odd else found

    monkeypatch.setattr(runner, "measure", measure)
    odd[64] = lambda found: found | {"colour": "red"}
    odd[128] = lambda found: found | {"key": "0" * 32}
    odd[192] = lambda found: "a run"
    space = small(tiles=(64, 128, 192, 256), max_blocks=(1,))
    found = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert [run.status for run in found.runs] == ["failed"] * 3 + ["ok"]
    for run, words in zip(found.runs, ("colour", "of another run", "TypeError"), strict=False):
        assert words in run.error and f"of this workbench, {wb.__version__}" in run.error
        assert "another version" in run.error
    odd.clear()
    again = sweep(space, store=tmp_path / "r", workers=0, progress=False, timing=0)
    assert again.passed and again.kept == 1


def test_where_a_compiler_lies_is_no_part_of_the_key(tmp_path, monkeypatch):
    """The same one at two paths gives one key, so a record sees other bits of it."""
    space = small(tiles=(64,), max_blocks=(1,))
    real = measure.Versions.of.__func__

    def elsewhere(path):
        def of(cls, *args, **more):
            made = real(cls, *args, **more)
            version = made.compiler.partition(" (/")[0]
            return dataclasses.replace(made, compiler=f"{version} ({path})")

        monkeypatch.setattr(measure.Versions, "of", classmethod(of))

    options = {"workers": 0, "progress": False, "timing": 0}
    elsewhere("/usr/bin/g++")
    (first,) = sweep(space, store=tmp_path / "a", **options).runs
    elsewhere("/opt/gcc/bin/g++")
    assert sweep(space, store=tmp_path / "a", **options).kept == 1
    (second,) = sweep(space, store=tmp_path / "b", **options).runs
    assert first.key == second.key
    assert second.provenance.compiler.endswith("(/opt/gcc/bin/g++)")
    with Record(tmp_path / "a") as record:
        assert record.merge(tmp_path / "b") == 0
        with Record(tmp_path / "c") as other:
            other.add(dataclasses.replace(second, bits="0" * 16))
        with pytest.raises(RecordError, match="gave two results"):
            record.merge(tmp_path / "c")
    # The control: another version is another key.
    made = dataclasses.replace(first.provenance, compiler="g++ 99 (/usr/bin/g++)")
    assert dataclasses.replace(first, provenance=made, key="").key != first.key


def test_a_worker_with_the_compiler_elsewhere_measures(monkeypatch):
    task = planned(small(tiles=(64,), max_blocks=(1,)))
    version = task.versions.compiler.partition(" (/")[0]
    told = dataclasses.replace(task.versions, compiler=f"{version} (/opt/bin/g++)")
    found = measure.measure(dataclasses.replace(task, versions=told))
    assert found["status"] == "ok" and found["key"] == task.key
    assert found["provenance"]["compiler"] == task.versions.compiler  # that of the worker
    told = dataclasses.replace(task.versions, compiler="g++ 99 (/usr/bin/g++)")
    found = measure.measure(dataclasses.replace(task, versions=told))
    assert found["status"] == "failed" and "and not g++ 99," in found["error"]


def test_the_first_block_of_the_page_on_a_record_with_runs_of_older_code(tmp_path, monkeypatch):
    """As a reader would paste it, in a folder with a record from before an edit."""
    page = (paths.PACKAGE.parent / "docs" / "sweeps.md").read_text()
    block = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    block = block.replace("tiles=(", "shapes=[(2, 8)], tiles=(").replace("(1, 40, 128)", "(1,)")
    block = block.replace('"runs.sqlite"', '"runs.sqlite", workers=0, timing=0')
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as before:
        before.setattr(measure, "code_digest", lambda *_: "")
        exec(block, {})
    names = {}
    exec(block, names)
    advice = names["found"].recommendations(same_bits_as={"tile_length": 1024})
    assert [one.choice.config["arch"] for one in advice] == ["dav-2201", "dav-3510"]
    with Record("runs.sqlite", readonly=True) as record:
        assert len(record) == 2 * len(names["found"].runs)
        both = choose.recommend_each(
            record.runs(), only_newest=True, same_bits_as={"tile_length": 1024}
        )
    assert [one.choice for one in both] == [one.choice for one in advice]


def test_no_space(tmp_path):
    with pytest.raises(InputError, match="Space"):
        sweep({"tiles": [64]}, store=tmp_path / "r")


def test_all_refused_needs_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "versions", lambda *a: pytest.fail("built"))
    found = sweep(small(tiles=(100,)), store=tmp_path / "r", workers=0, progress=False)
    assert found.refused == 2 and found.passed
