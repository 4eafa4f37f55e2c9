"""What people do to a dashboard that it has to survive, and claims that have to stay true then."""

from __future__ import annotations

import dataclasses
import gc
import math
import re
import threading
import time
import weakref

import explore_kit as kit
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ipywidgets.widgets import widget as registry

import workbench as wb
from workbench.errors import InputError
from workbench.widgets import Latest
from workbench.widgets.explore import dashboard, explore, panes
from workbench.widgets.explore import study as studies
from workbench.widgets.explore.state import LOGP, OPS, ExploreState
from workbench.widgets.explore.work import TABS
from workbench.widgets.tile import TileControl
from workbench.widgets.views import heatmap_view


def made(**more):
    return explore(hidden=kit.HIDDEN, weight=kit.WEIGHT, **{"pane": "build", **more})


def words(view, pane: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", view.parts.words[pane].value))


def open_widgets() -> int:
    return len(registry._instances)


# ---- a worker that goes on -----------------------------------------------------------------------


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("mine")])
def test_no_exception_of_a_call_ends_the_worker(error):
    bad = threading.Event()

    def call(kernel, hidden, weight):
        if bad.is_set():
            raise error
        return kit.calling("sound")(kernel, hidden, weight)

    view = made(op=str(kit.FLAWED), call=call, tile_length=64)
    bad.set()
    assert type(error).__name__ in view.set(rows=3).wait(20).result.error
    bad.clear()
    assert view.set(rows=4).wait(20).result.error == ""


def test_a_failure_that_cannot_be_told_does_not_end_the_worker(capsys):
    applied: list = []

    def work(item):
        yield 1 // item

    def failed(item, error):
        raise RuntimeError("the display is broken as well")

    latest = Latest(work, applied.append, failed)
    for item in (0, 1):
        latest.submit(item)
        assert latest.wait(5)
    assert applied == [1] and "the display is broken as well" in capsys.readouterr().err


def test_a_call_that_never_returns_is_left_to_itself(monkeypatch):
    monkeypatch.setattr(dashboard, "PATIENCE", 0.05)
    hang, hung, go_on = threading.Event(), threading.Event(), threading.Event()

    def call(kernel, hidden, weight):
        if hang.is_set():
            hang.clear()
            hung.set()
            assert go_on.wait(20)
        return kit.calling("sound")(kernel, hidden, weight)

    view = made(op=str(kit.FLAWED), call=call, tile_length=64)
    hang.set()
    view.set(rows=3)
    assert hung.wait(10)
    (stuck,) = (t for t in threading.enumerate() if t.name == "workbench-panel")
    view.cancel()
    time.sleep(0.1)
    assert view.set(rows=4).wait(10).result.outputs.shape == (4, kit.V)
    go_on.set()  # and if it returns after all, it changes nothing
    stuck.join(10)
    assert not stuck.is_alive() and ">done<" in view.parts.status.value
    assert view.result.state.rows == 4 and view.set(rows=5).wait(10).result.error == ""


def test_controls_do_not_wait_for_what_is_being_made():
    """A compiler may be at work for the default's bits while a slider moves."""
    given_ = studies.Inputs()
    given_.limits("smollm2")
    making, go_on, asked = threading.Event(), threading.Event(), []

    def make():
        making.set()
        assert go_on.wait(10)
        return 1

    maker = threading.Thread(target=given_.keep, args=("baseline", "key", make))
    asker = threading.Thread(target=lambda: asked.append(given_.limits("smollm2")))
    maker.start()
    assert making.wait(5)
    asker.start()
    asker.join(2)
    found = [*asked]
    go_on.set()
    maker.join()
    asker.join()
    assert found, "limits() waited for another thread's build"


# ---- nothing is kept -----------------------------------------------------------------------------


@pytest.mark.parametrize("pane", ["drift", "order"])
def test_moves_keep_no_widgets_and_a_closed_dashboard_none_at_all(pane):
    before = open_widgets()
    view = made(pane=pane, tile_length=64)
    view.set(tile_length=128).wait()
    settled = open_widgets()
    for tile in (192, 64, 128):
        view.set(tile_length=tile).wait()
    assert open_widgets() == settled > before
    if pane == "drift":
        # Maps of other sides are made when they are asked for, and go as well.
        view.parts.views["drift"].of.value = ("torch.mv", "exact")
        assert view.set(tile_length=192).wait() and open_widgets() == settled
    gone = [weakref.ref(w) for w in (view.parts.front, view.parts.views[pane])]
    view.close()
    assert open_widgets() == before
    assert view.close() is None, "a second time does nothing"
    del view
    gc.collect()
    assert [ref() for ref in gone] == [None, None], "something keeps what was closed"


# ---- refused, and then gone on -------------------------------------------------------------------


def test_a_refusal_is_over_when_another_tab_is_opened():
    view = made()
    view.controls.tiles.text.value = "abc"
    assert "not a tile length" in view.result.error
    view.parts.tabs.selected_index = TABS.index("counters")
    view.wait()
    assert view.result.error == "" and "vector instructions" in words(view, "counters")
    assert view.controls.tiles.text.value == "4096" and view.pin() == "A"


@pytest.mark.parametrize(
    ("name", "typed", "reason"),
    [
        ("rows", 500, "rows 500: this input has 1 to {rows}"),
        ("vocab", 0, "vocabulary 0: this input has 1 to {vocab}"),
        ("leaf_length", -3, "leaf length -3: a leaf has 1 to 65,536"),
    ],
)
def test_a_number_out_of_range_is_refused_in_words_and_not_replaced(name, typed, reason):
    view = made(**({"op": "det_gemm"} if name == "leaf_length" else {}))
    control, before, bits = getattr(view.controls, name), view.state, view.result.outputs
    reason = reason.format(rows=len(kit.HIDDEN), vocab=len(kit.WEIGHT))
    control.value = typed
    view.wait()
    assert view.result.error == reason and reason in words(view, "build")
    assert control.value == typed and reason in view.parts.front.announcement
    # The code is of the position before, and says so.
    assert view.code.startswith(f"# Refused: {reason}\n# What follows is the position before")
    again: dict = {"hidden": kit.HIDDEN, "weight": kit.WEIGHT}
    exec(view.code, again)
    assert again["view"].state == before
    # Another control moves on from there.
    view.controls.max_blocks.value = 3
    view.wait()
    assert view.state == before.replace(max_blocks=3) and view.result.error == ""
    assert control.value == getattr(before, name) and "Refused" not in view.code
    assert kit.bits(view.result.outputs) == kit.bits(bits)


def test_a_path_that_is_no_file_leaves_the_kernel_and_an_emptied_one_goes_back_to_ours(tmp_path):
    view = made()
    view.controls.path.value = str(tmp_path / "nope.asc")
    view.wait()
    assert "There is no file" in view.result.error and "nope.asc" in words(view, "build")
    assert view.state.op == "lm_head" and list(view.controls.op.options) == list(OPS)
    view.controls.path.value = ""
    assert view.wait().result.error == "" and view.state.op == "lm_head"
    view.controls.path.value = str(kit.FLAWED)
    assert view.wait().state.op == str(kit.FLAWED)
    view.controls.path.value = ""
    assert view.wait().state.op == "lm_head" and view.result.error == ""


def test_the_check_of_a_part_of_the_vocabulary_says_so():
    view = explore(rows=2, vocab=64, pane="invariance")
    assert "the first 32 of 64 vocabulary ids" in words(view, "invariance")
    view.set(vocab=32).wait()
    assert "vocabulary ids" not in words(view, "invariance")


def test_a_typed_tile_that_does_not_fit_stays_for_the_builder_to_refuse():
    """When another choice moves the slider's limits; a tile of the slider moves to what fits."""
    moved: list = []
    tiles = TileControl([64, 128, 256], 256, lambda: moved.append(1), moved.append, {}, {})
    tiles.limit([64, 128])
    assert (tiles.value, tiles.slider.value) == (128, 128)
    tiles.text.value = "48"
    tiles.limit([64, 128, 192])
    assert tiles.value == 48 and tiles.text.value == "48" and len(moved) == 1


def test_another_input_takes_as_many_rows_as_it_has():
    view = made(rows=len(kit.HIDDEN))
    view.controls.data.value = "smollm2"
    view.controls.rows.value = 100
    view.controls.data.value = "own"
    view.wait()
    assert view.state.rows == len(kit.HIDDEN) == view.controls.rows.value
    assert view.result.error == ""


def test_a_pane_that_breaks_leaves_the_others(monkeypatch):
    def broken(*args, **more):
        raise ZeroDivisionError("a bug in a check")

    view = made()
    monkeypatch.setattr(studies, "tolerance", broken)
    view.set(pane="tolerance").wait()
    assert view.result.error == "" and "ZeroDivisionError: a bug" in words(view, "tolerance")
    assert view.set(pane="build").wait() and "compiler" in words(view, "build")
    # A figure that cannot be drawn leaves the numbers.
    monkeypatch.setattr(panes.plots, "invariance_table", broken)
    view.set(pane="invariance").wait()
    assert view.result.error == "" and "= passed" in words(view, "invariance")
    assert "not drawn" in view.parts.pictures["invariance"].value


def test_an_error_after_the_build_does_not_say_that_nothing_was_built():
    view = made(op=str(kit.FLAWED), call=lambda k, h, w: torch.ones(3), tile_length=64)
    assert "call returned [3]" in view.result.error
    assert words(view, "build").strip().startswith("No result.")
    assert made(tile_length=99968).parts.words["build"].value.count("Not built.") == 1


@pytest.mark.parametrize(
    "values",
    [
        {"tile_length": 64.5},
        {"tile_length": "abc"},
        {"tile_length": True},
        {"max_blocks": 0},
        {"max_blocks": 2.5},
        {"max_blocks": "many"},
        {"leaf_length": 0},
        {"leaf_length": 65537},
        {"rows": True},
        {"vocab": 2.0},
        {"op": None},
    ],
)
def test_a_number_that_a_control_would_change_in_silence_is_refused(values):
    view = made()
    before = view.state
    with pytest.raises(InputError, match=re.escape(next(iter(values)))):
        view.set(**values)
    assert view.state == before
    with pytest.raises(InputError):
        made(**values)


def test_numbers_of_numpy_are_numbers():
    view = made(rows=np.int64(3)).set(tile_length=np.int64(64), max_blocks=np.int32(7)).wait()
    assert (view.state.rows, view.state.tile_length, view.state.max_blocks) == (3, 64, 7)
    assert "np." not in view.code and view.result.error == ""


# ---- claims --------------------------------------------------------------------------------------


def test_the_worst_log_prob_is_named_by_its_row_of_the_batch():
    """Ignored targets have no error: the fourth error is not that of row 3."""
    target = torch.tensor([-100, -100, 2, -100, 4, 5])
    view = made(op=LOGP, target=target, pane="drift")
    exact = torch.log_softmax(view.result.given.logits.double(), -1)
    rows = [2, 4, 5]
    error = abs(view.result.outputs[rows].double() - exact[rows, target[rows]])
    worst = rows[int(error.argmax())]
    assert view.result.drift.rows()[0]["worst_row"] == worst
    assert f"row {worst}" in words(view, "drift") and "3 of 6 rows" in words(view, "drift")
    assert "3 of 6" not in words(made(op=LOGP, pane="drift"), "drift")


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_log_probs_of_a_row_that_is_not_finite_are_counted_and_shown(value):
    hidden = kit.HIDDEN.clone()
    hidden[1, 3] = value
    view = explore(LOGP, hidden=hidden, weight=kit.WEIGHT, pane="drift")
    assert view.result.error == "" and not view.result.notes
    drift, counted = view.result.drift, view.result.drift.histogram()
    for pair, found in drift.errors.items():
        broken = int((~np.isfinite(found)).sum())
        assert counted.nonfinite[pair] == broken > 0
        assert counted.counts[pair].sum() == len(found) - broken
    assert drift.rows()[0]["worst_row"] == 1 and "<img" in view.parts.pictures["drift"].value


def test_the_default_has_new_bits_after_an_edit_of_the_source(monkeypatch):
    view = made(tile_length=192)
    before = view.result.baseline.mismatches
    assert before > 0
    real = studies.Study._built

    def edited(self, state):
        """The default's kernel now adds as the shown one does."""
        kernel = real(self, state.replace(tile_length=192))
        kernel.info = dataclasses.replace(kernel.info, source_digest="edited")
        return kernel

    monkeypatch.setattr(studies.Study, "_built", edited)
    assert view.refresh().wait().result.baseline.equal


SOUND = st.fixed_dictionaries(
    {
        "tile_length": st.sampled_from([None, 64, 192, 512]),
        "max_blocks": st.sampled_from([1, 128, 300]),
        "dtype": st.sampled_from(["fp32", "bf16", "fp16"]),
        "leaf_length": st.sampled_from([32, 128]),
        "rows": st.integers(1, kit.N),
        "vocab": st.integers(1, kit.V),
        "arch": st.sampled_from(["dav-2201", "dav-3510"]),
        "pane": st.sampled_from(TABS),
    }
)


@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    op=st.sampled_from(["lm_head", LOGP, "det_gemm"]),
    weight_stationary=st.booleans(),
    reference=st.integers(0, 2),
    backend=st.sampled_from(["auto", "twin"]),
    target=st.booleans(),
    values=SOUND,
)
def test_the_code_reproduces_every_state(
    monkeypatch, op, weight_stationary, reference, backend, target, values
):
    """No kernel is built: what is called, and with what, is what counts."""
    monkeypatch.setattr(studies.Study, "stages", lambda self, *_: iter(()))
    monkeypatch.setattr(dashboard.Work, "_hang", lambda *_: iter(()))
    monkeypatch.setattr(dashboard.Work, "_draw", lambda *_: iter(()))
    monkeypatch.setattr(wb, "explore", explore, raising=False)
    given_ = {"hidden": kit.HIDDEN, "weight": kit.WEIGHT}
    if target:
        given_["target"] = torch.arange(kit.N)
    choices = ExploreState(op=op).references
    values = values | {"op": op, "reference": choices[reference % len(choices)]}
    if op == "lm_head" and weight_stationary:
        values["schedule"] = "weight_stationary"
    view = explore(**given_, backend=backend).set(**values).wait()
    names = dict(given_)
    exec(view.code, names)
    again = names["view"]
    assert again.state == view.state and again.pane == view.pane and again.code == view.code
    assert again._inputs.own_target == target and again._backend == backend
    for shown in (view, again):
        shown.close()


# ---- the map -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "more", "said"),
    [
        ([[0.0, -5.0, 2.0]], {"limit": 1.0}, "-5 to 2 ULP; colours from -1 to 1"),
        ([[3.0, 3.0]], {}, "3 to 3 ULP; colours from -3 to 3"),
        ([[0.0, 0.0]], {}, "0 to 0 ULP"),
        ([[math.nan, 1.0, -math.inf]], {}, "1 to 1 ULP, 2 NaN or Inf; colours"),
        ([[math.nan, math.nan]], {}, "values, 2 NaN or Inf; colours"),
    ],
)
def test_the_text_of_a_map_says_what_its_values_are(values, more, said):
    alt = heatmap_view(values, unit="ULP", **more).alt
    assert said in alt and "+nan" not in alt


@pytest.mark.parametrize(
    ("values", "more"),
    [
        (torch.ones(2, 2, device="meta"), {}),
        (torch.eye(2).to_sparse(), {}),
        ([[1], [1, 2]], {}),
        ([[1.0]], {"limit": "much"}),
        ([[1.0]], {"names": ("row",)}),
        ([[1.0]], {"worst": 1.5}),
    ],
)
def test_a_map_refuses_what_it_cannot_show(values, more):
    with pytest.raises(InputError):
        heatmap_view(values, **more)


def test_narrow_floats_are_shown_exactly():
    values = torch.tensor([[0.25, -1.5]])
    for dtype in (torch.bfloat16, torch.float16, torch.float8_e4m3fn):
        assert heatmap_view(values.to(dtype)).worst == [[0, 1, -1.5], [0, 0, 0.25]]
