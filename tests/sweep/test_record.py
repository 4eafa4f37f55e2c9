"""The record as one process sees it: what goes in comes out, once; searches, tables, forks."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import multiprocessing
import threading

import pandas as pd
import pytest
from record_kit import MADE, a_run, full_run

from workbench.errors import InputError, MissingError
from workbench.sweep.record import Record, RecordError
from workbench.sweep.run import DriftFigures, Inputs, Run, one_backend


@pytest.fixture
def record(tmp_path):
    with Record(tmp_path / "runs.sqlite") as opened:
        yield opened


def test_every_field_comes_back(record):
    """Every float with its bits: subnormals, NaN and infinities too."""
    odd = DriftFigures(math.nan, math.inf, -math.inf, 5e-324)
    for number, run in enumerate((full_run(), full_run(drift=odd, repeat=3)), start=1):
        assert record.add(run) == number
        assert record.get(number).to_dict() == {**run.to_dict(), "id": number}
        assert record.get(run.key).id == number
    back = record.get(2).drift
    assert [type(v) for v in vars(back).values()] == [float] * 4
    assert math.isnan(back.max_abs) and back.max_ulp == 5e-324
    assert record.get(1) == full_run()


def test_a_failed_run_keeps_why(record):
    error = "kernel.asc:3: error: \udcff no text \x00 at all"
    record.add(a_run(status="failed", error=error))
    assert record.get(1).error == "kernel.asc:3: error: \\udcff no text \x00 at all"


@pytest.mark.parametrize(
    "bad",
    [
        {"status": "fine"},
        {"status": "failed"},
        {"error": "but ok"},
        {"shape": (1, 2)},
        {"shape": (1, 2, -3)},
        {"backend": ""},
        {"arch": "dav-3510"},  # and dav-2201 in the configuration
        {"inputs": None},
        {"drift": {"max_abs": 1.0}},
        {"config": [("tile_length", 64)]},
    ],
    ids=str,
)
def test_a_run_that_says_nothing_sensible_is_refused(bad):
    with pytest.raises(InputError):
        a_run(**bad)


def test_the_key_names_what_decides_a_result():
    base = a_run()
    other = [
        a_run(op="det_gemm"),
        a_run(config={"tile_length": 128}),
        a_run(arch="dav-3510", config=dict(base.config)),
        a_run(backend="npu"),
        a_run(dtype="bf16"),
        a_run(out_dtype="bf16"),
        a_run(shape=(160, 576, 4097)),
        a_run(inputs=Inputs("5f0d", "smollm2", 0)),
        a_run(inputs=Inputs("5f0c", "smollm2", 1)),
        a_run(provenance=dataclasses.replace(MADE, source_digest="cd" * 20)),
        a_run(provenance=dataclasses.replace(MADE, code_digest="cd" * 20)),
        a_run(provenance=dataclasses.replace(MADE, compiler="g++ 13")),
        a_run(provenance=dataclasses.replace(MADE, torch="2.14.0")),
        a_run(repeat=1),
    ]
    assert len({base.key, *(run.key for run in other)}) == 1 + len(other)
    # What came out, where and when do not; nor do the order of constants, or the dtype said twice.
    mixed = dict(reversed(base.config.items()))
    elsewhere = dataclasses.replace(MADE, cpu="another", machine="another", started="", seconds=2.0)
    same = [a_run(bits="ff", drift=None, counters={}), a_run(config=mixed), a_run(out_dtype="fp32")]
    same += [a_run(provenance=elsewhere), a_run(inputs=Inputs("5f0c", "another name", 0))]
    assert {run.key for run in same} == {base.key}


def test_a_key_stands_once_and_the_better_run_stays(record):
    failed, refused = ({"status": s, "error": s, "bits": None} for s in ("failed", "refused"))
    assert record.add(a_run(**failed)) == 1 and not record.has(a_run().key)
    assert record.add(a_run(**refused)) == 1 and record.has(a_run().key)
    assert record.add(a_run()) == 1 and record.has(a_run().key)
    assert record.add(a_run(**failed)) == 1
    assert record.add(a_run(counters={})) == 1  # the first of two good ones
    assert len(record) == 1 and record.get(1) == a_run()
    assert record.keys() == {a_run().key} and record.keys(["failed"]) == frozenset()
    assert record.add(a_run(repeat=1)) == 2


@pytest.mark.parametrize("changed", ["bits", "order_hash"])
def test_other_bits_under_one_key_do_not_pass_unseen(record, changed):
    record.add(a_run())
    with pytest.raises(RecordError, match=f"{changed} .* where this run has ff") as e:
        record.add_all([a_run(1), a_run(**{changed: "ff"})])
    assert e.value.reason == "other bits"
    assert [run.key for run in record.runs()] == [a_run().key]  # all or none


def test_searches(record):
    kinds = [("twin", "fp32", 64), ("twin", "bf16", 64), ("npu", "fp32", 128)]
    for backend, dtype, tile in kinds:
        record.add(a_run(backend=backend, dtype=dtype, config={"tile_length": tile}))

    def ids(**where):
        return [run.id for run in record.runs(**where)]

    assert ids() == [1, 2, 3]
    assert ids(backend="twin") == [1, 2] and ids(backend="twin", dtype="fp32") == [1]
    assert ids(dtype=["fp32", "fp16"]) == [1, 3] and ids(dtype=[]) == []
    assert ids(config={"tile_length": 64}) == [1, 2] and ids(h=576, status="ok") == [1, 2, 3]
    assert ids(out_dtype=None) == [1, 2, 3] and ids(bits=None) == []
    assert ids(out_dtype=["fp32", None]) == [1, 2, 3] and ids(out_dtype=["fp32"]) == []
    assert ids(backend="twin", out_dtype=["fp32", None]) == [1, 2]
    with pytest.raises(InputError, match=r"bakend is no column.*backend"):
        ids(bakend="twin")
    with pytest.raises(InputError, match=r"no run has tile among its constants.*tile_length"):
        ids(config={"tile": 64})
    with pytest.raises(InputError, match="at most 900"):
        ids(n=range(1000))
    with pytest.raises(InputError, match="no run of id 9"):
        record.get(9)
    with pytest.raises(InputError, match="no run of key"):
        record.get("'; DROP TABLE runs; --")


def test_no_figure_mixes_the_twin_with_a_device(record):
    far = DriftFigures(9.0, 1.0, 1.0, 1.0)
    record.add_all([a_run(n) for n in range(3)])
    record.add_all([a_run(n, backend="npu", drift=far) for n in range(2)])
    record.add(a_run(5, status="failed", error="no", order_hash=None, drift=None))
    twin, npu = record.summary(by=()).rows()
    assert (twin["backend"], twin["runs"], twin["ok"], twin["failed"]) == ("twin", 4, 3, 1)
    assert (twin["max_abs"], npu["max_abs"]) == (2 / 3, 9.0)
    assert (npu["backend"], npu["runs"], npu["orders"], npu["inputs"]) == ("npu", 2, 1, 1)
    assert one_backend(record.runs(backend="npu")) == "npu"
    with pytest.raises(InputError, match="twin and npu"):
        one_backend(record.runs())


def test_a_nan_is_the_largest_distance(record):
    nan = DriftFigures(math.nan, 0.0, 0.0, 0.0)
    record.add_all([a_run(1), a_run(2, drift=nan), a_run(3)])
    assert math.isnan(record.summary().rows()[0]["max_abs"])


def test_compare_says_what_differs(record):
    record.add(a_run(1))
    elsewhere = dataclasses.replace(MADE, started="2026-02-02", seconds=9.0, machine="device host")
    found = {"bits": "ff", "invariance": full_run().invariance, "provenance": elsewhere}
    record.add(a_run(1, backend="npu", **found))
    record.add(a_run(1, config={"tile_length": 128}, order_hash="0b", bits=a_run(1).bits))
    found = record.compare(1, 2)
    assert (found.same_bits, found.same_order, found.why) == (False, True, "")
    assert [c.name for c in found.of("bit class")] == ["bits"]
    assert [(c.a, c.b) for c in found.of("backend")] == [("twin", "npu")]
    assert [c.b for c in found.of("verdict") if c.name == "invariance.passed"] == [False]
    assert [(c.a, c.b) for c in found.of("provenance")] == [("host", "device host")]
    assert found.of("drift") == found.of("configuration") == ()
    assert "run 1 (twin, dav-2201) and run 2 (npu, dav-2201): other bits" in str(found)
    other = record.compare(1, 3)
    assert (other.same_bits, other.same_order) == (True, False)
    assert ("config.tile_length", 64, 128) in [(c.name, c.a, c.b) for c in other.changes]
    assert record.compare(1, 1).changes == () and record.compare(1, a_run(1)).same_bits
    assert json.dumps(found.to_dict()) and "<table>" in found._repr_html_()


def test_a_comparison_writes_numbers_short_and_longer_only_where_they_are_close():
    from workbench.sweep.compare import _texts

    assert _texts(2.1457672119140625e-06, 1.0e-06) == ["2.146e-06", "1e-06"]
    assert _texts(0.1, None) == ["0.1", "-"] and _texts("a", 7) == ["a", "7"]
    assert _texts(1 / 3, 1 / 3 + 2**-40) == [str(1 / 3), str(1 / 3 + 2**-40)]


def test_a_comparison_says_what_is_no_difference_of_kernels(record):
    timed = full_run().time
    elsewhere = dataclasses.replace(MADE, machine="another")
    newer = dataclasses.replace(MADE, torch="3.0")
    cautions = [
        record.compare(a_run(time=timed), a_run(**changes)).cautions
        for changes in (
            {"time": timed, "bits": "ff"},
            {"time": timed, "provenance": elsewhere},
            {"time": timed, "backend": "npu"},
            {"provenance": elsewhere},  # without a time
            {"provenance": newer},  # the same bits
            {"provenance": newer, "bits": "ff"},
        )
    ]
    assert [len(found) for found in cautions] == [0, 1, 1, 0, 0, 1]
    assert "two machines" in cautions[1][0] and "other versions of torch" in cautions[5][0]
    found = record.compare(a_run(time=timed), a_run(time=timed, backend="npu"))
    assert "note: the times are of two machines" in str(found) and found.to_dict()["cautions"]


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"inputs": Inputs("ffff")}, "other inputs, 5f0c and ffff"),
        ({"dtype": "bf16"}, "other dtype"),
        ({"out_dtype": "bf16"}, "other out_dtype, fp32 and bf16"),
        ({"shape": (1, 576, 4096)}, "other shape"),
        ({"op": "det_gemm"}, "other op"),
        ({"status": "failed", "error": "no", "bits": None}, "is failed"),
        ({"bits": None}, "has none"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_bits_are_not_compared_where_they_answer_other_questions(record, changes, why):
    found = record.compare(a_run(), a_run(**changes))
    assert found.same_bits is None and why in found.why and why in str(found)


def test_merge_brings_the_runs_of_another_machine(record, tmp_path):
    record.add_all([a_run(1), a_run(2)])
    with Record(tmp_path / "device.sqlite") as device:
        device.add_all([a_run(2), a_run(1, backend="npu"), a_run(2, backend="npu")])
    assert record.merge(tmp_path / "device.sqlite") == 2
    assert record.merge(tmp_path / "device.sqlite") == 0
    assert [(run.id, run.backend) for run in record.runs()] == [
        *((1, "twin"), (2, "twin"), (3, "npu"), (4, "npu"))
    ]
    with Record(tmp_path / "device.sqlite") as device:
        device.add_all([a_run(5), a_run(1, bits="ff")])
    with pytest.raises(RecordError, match="two results for one input"):
        record.merge(tmp_path / "device.sqlite")
    assert len(record) == 4


# ---- tables --------------------------------------------------------------------------------------


def test_csv_keeps_every_value(record, tmp_path):
    record.add_all([full_run(), a_run(1, counters={"copies": 3}, drift=None)])
    record.add(a_run(2, status="failed", error='a "quoted"\nline, é', bits=None))
    path = record.export(tmp_path / "runs.csv")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == [*record.rows()[0]]
    for text, row in zip(rows, record.rows(), strict=True):
        for name, value in row.items():
            if value is None:
                assert text[name] == "", name
            elif isinstance(value, float):
                assert float(text[name]).hex() == value.hex(), name
            else:
                assert text[name] == (json.dumps(value) if value in (True, False) else str(value))
    assert rows[0]["config.tile_length"] == "64" and rows[1]["counters.copies"] == "3"
    assert rows[2]["error"] == 'a "quoted"\nline, é'
    assert sorted(p.name for p in tmp_path.iterdir() if "csv" in p.name) == ["runs.csv"]


def test_an_export_that_fails_leaves_the_older_file(record, tmp_path, monkeypatch):
    record.add(a_run())
    path = record.export(tmp_path / "runs.csv")
    before = path.read_bytes()
    monkeypatch.setattr("workbench.sweep.export._plain", lambda value: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        record.export(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    with pytest.raises(InputError, match=r"\.csv, \.parquet"):
        record.export(record.path)
    with pytest.raises(InputError, match="cannot be written"):
        record.export(tmp_path / "nowhere" / "runs.csv")


def test_pandas_has_the_same_columns_with_and_without_runs(record):
    empty = record.to_pandas()
    record.add(a_run(1))
    frame = record.to_pandas(backend="twin")
    assert isinstance(frame, pd.DataFrame) and len(empty) == 0
    assert {*empty.columns} <= {*frame.columns}
    assert frame.loc[0, "config.tile_length"] == 64 and frame.loc[0, "drift.max_abs"] == 1 / 3


def test_parquet_without_pyarrow_says_what_to_do(record, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingError, match="pip install pyarrow"):
        record.export(tmp_path / "runs.parquet")


def test_parquet_keeps_every_value(record, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    odd = DriftFigures(math.nan, math.inf, 5e-324, 1.0)
    record.add_all([full_run(), a_run(1, drift=odd, config={"tile_length": "auto"})])
    table = pq.read_table(record.export(tmp_path / "runs.parquet"))
    for got, row in zip(table.to_pylist(), record.rows(), strict=True):
        for name, value in row.items():
            if name == "config.tile_length":
                value = str(value)  # a number and a text in one column
            assert repr(got[name]) == repr(value), name
    empty = pq.read_table(record.export(tmp_path / "none.parquet", status="failed"))
    assert empty.num_rows == 0
    for name in empty.column_names:
        assert str(empty.schema.field(name).type) == str(table.schema.field(name).type), name


# ---- threads and forks ---------------------------------------------------------------------------


def test_threads_share_a_record(record):
    def work(writer):
        for number in range(20):
            record.add(a_run(number, writer))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({run.key for run in record.runs()}) == len(record) == 80


def test_a_record_is_used_on_both_sides_of_a_fork(record):
    """And closed before it: a child must not believe in its parent's locks."""
    record.add(a_run(0))
    assert record._open is not None
    context = multiprocessing.get_context("fork")

    def child(number, sent):
        opened = record._open is not None
        sent.put((opened, record.add(a_run(number))))

    queue = context.Queue()
    children = [context.Process(target=child, args=(k, queue)) for k in (1, 2)]
    for process in children:
        process.start()
        record.add(a_run(10 + process.pid))
    found = [queue.get(timeout=30) for _ in children]
    for process in children:
        process.join()
    assert [opened for opened, _ in found] == [False, False]
    assert len(record) == 5 and {number for _, number in found} <= {r.id for r in record.runs()}
    record.check()


def test_an_empty_record_is_no_nothing(record):
    assert record and len(record) == 0 and record.runs() == [] and record.add_all([]) == []
    assert isinstance(Run.from_dict(a_run().to_dict()), Run)
    assert "runs.sqlite" in repr(record) and "0 runs" in str(record)
    assert "<table>" not in record._repr_html_()
