"""The dashboard: what its controls make of a study; real kernels, no browser."""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import explore_kit as kit
import ipywidgets as ipw
import numpy as np
import pytest
import torch

import workbench as wb
from workbench import paths
from workbench.build.twin import TwinToolchain
from workbench.errors import BuildError, InputError
from workbench.widgets.explore import explore, panes
from workbench.widgets.explore import study as studies
from workbench.widgets.explore.front import STATIC
from workbench.widgets.explore.work import TABS

TWIN = "None of it was measured on Ascend hardware"


def made(**more):
    return explore(hidden=kit.HIDDEN, weight=kit.WEIGHT, **{"pane": "build", **more})


@pytest.fixture
def view():
    return made()


def words(view, pane: str) -> str:
    return view.parts.words[pane].value


def widgets(root) -> list:
    found, queue = [], [root]
    while queue:
        found.append(queue.pop())
        queue += getattr(found[-1], "children", ())
    return found


# ---- a first view --------------------------------------------------------------------------------


def test_the_first_result_is_there_when_the_cell_ends():
    view = made(pane="order")
    assert view.result.done == {"order"} and view.result.error == ""
    assert not [t for t in threading.enumerate() if t.name == "workbench-panel"]
    assert "= the binary adds as its source declares" in words(view, "order")
    assert view.parts.views["order"].trees == (view.result.tree,)
    assert TWIN in view.parts.summary.value
    assert 'role="status"' in view.parts.status.value and ">done<" in view.parts.status.value
    assert view.parts.cancel.disabled


def test_every_part_can_be_found_by_its_class_and_every_control_has_a_label(view):
    every = widgets(view)
    classes = {name for w in every for name in getattr(w, "_dom_classes", ())}
    assert classes >= {f"workbench-pane-{name}" for name in TABS}
    assert classes >= {f"workbench-{name}" for name in (
        "explore", "controls", "tabs", "cancel", "pin", "unpin", "refresh", "copy", "export", "code"
    )}  # fmt: skip
    for control in every:
        if isinstance(control, (ipw.Button, ipw.Dropdown, ipw.Text, ipw.IntSlider, ipw.Textarea)):
            assert control.description.strip(), control
    sliders = [w for w in every if "Slider" in type(w).__name__]
    assert len(sliders) == 2 and not any(s.continuous_update for s in sliders)
    for name, box in view.parts.boxes.items():
        assert box.children[0].value.startswith('<h2 class="workbench-heading">'), name


def test_the_order_is_hung_once_for_each_configuration_and_the_old_one_closed(monkeypatch):
    real, made_for = panes.order_view, []

    def counted(found, output):
        made_for.append(found.state.tile)
        return real(found, output)

    monkeypatch.setattr(panes, "order_view", counted)
    view = made(pane="order", tile_length=64)
    first = view.parts.views["order"]
    assert first.trees == (view.result.tree,) and first in view.parts.boxes["order"].children
    view.refresh().wait().set(pane="build").wait().set(pane="order").wait()
    assert made_for == [64] and view.parts.views["order"] is first and first.comm is not None
    view.set(tile_length=192).wait()
    second = view.parts.views["order"]
    assert made_for == [64, 192] and second.trees[0] == view.result.tree != first.trees[0]
    assert first.comm is None and first not in view.parts.boxes["order"].children
    view.set(pane="build", tile_length=128).wait()
    assert "order" not in view.parts.views, "an order of another configuration was left"


def products(row, column):
    """fp64, so that the test does not round as what it tests does."""
    return kit.HIDDEN[row].double().numpy() * kit.WEIGHT[column].double().numpy()


def bound_of(tree, terms):
    return float(np.abs(tree.partial_sums(terms.astype(np.float32)).astype(np.float64)).sum())


def test_the_order_shows_the_shares_of_an_output():
    view = made(pane="order", tile_length=64)
    shown = view.parts.views["order"]
    wanted = bound_of(view.result.tree, products(0, 0)) * 2.0**-24
    # (fp64 sums of H numbers, in two orders)
    assert abs(shown.bound() - wanted) <= kit.H * 2.0**-53 * wanted
    assert shown.orders[0]["terms_label"] == "row 0, vocabulary id 0"
    view.set(op="batch_invariant_logp", tile_length=None).wait()
    shown = view.parts.views["order"]
    assert shown.orders[0]["terms_label"] == "row 0" and shown.orders[0]["n"] == kit.V
    logits = view.result.given.logits[0].double()
    largest = max(torch.exp(logits - logits.max()).tolist())
    assert largest == 1.0 < shown.bound() * 2.0**24


# ---- drift: choose an output ---------------------------------------------------------------------


def test_an_output_chosen_in_the_drift_pane_is_the_one_whose_order_is_shown():
    view = made(pane="drift", tile_length=64)
    shown = view.parts.views["drift"]
    errors = view.result.drift["kernel", "exact"].errors_in("ulp")
    assert abs(errors[shown.selected]) == abs(errors).max()
    assert tuple(shown.map.worst[0][:2]) == shown.selected
    view.set(pane="order").wait()  # nothing was chosen: it shows the worst of the map
    place = "row {}, vocabulary id {}".format(*shown.selected)
    assert view.parts.views["order"].orders[0]["terms_label"] == place
    view.set(pane="drift").wait()
    assert view.parts.views["drift"] is shown
    shown.map.selected = (4, 7)  # as a page sets it, by mouse, by an arrow key or in the list
    assert shown.order.orders[0]["terms_label"] == "row 4, vocabulary id 7"
    view.set(pane="order").wait()
    order = view.parts.views["order"]
    assert order.orders[0]["terms_label"] == "row 4, vocabulary id 7"
    assert order.bound() == shown.order.bound()
    # Another configuration: the same output again, in its other order.
    view.set(pane="drift", tile_length=192).wait()
    again = view.parts.views["drift"]
    assert again is not shown and again.selected == (4, 7) and shown.map.comm is None
    assert again.order.trees[0] == view.result.tree and again.order.bound() != order.bound()
    # Fewer rows than the one that was chosen: the worst of those that are left.
    view.set(rows=3).wait()
    errors = view.result.drift["kernel", "exact"].errors_in("ulp")
    left = view.parts.views["drift"].selected
    assert left[0] < 3 and abs(errors[left]) == abs(errors).max()


def test_the_reference_has_its_own_map_on_the_same_scale():
    view = made(pane="drift")
    shown = view.parts.views["drift"]
    drift = view.result.drift
    assert "torch.mv itself" in shown.words.value and "torch.mv itself" in words(view, "drift")
    mine, at = shown.map, shown.selected
    shown.of.value = ("torch.mv", "exact")
    theirs = drift["torch.mv", "exact"].errors_in("ulp")
    assert shown.map is not mine and shown.map in shown.children and mine not in shown.children
    assert shown.selected == at and shown.map.value == theirs[at]
    both = max(abs(drift[side, "exact"].errors_in("ulp")).max() for side in ("kernel", "torch.mv"))
    assert shown.map.limit == mine.limit == both
    assert f"torch.mv itself {theirs[at]:+.3g}" in shown.words.value


def test_other_errors_in_the_same_order_are_another_map():
    """A source was edited, which left its order as it was."""
    found = made(pane="drift").result
    kernel, *rest = found.drift.comparisons
    other = dataclasses.replace(kernel, max_abs=2 * kernel.max_abs)
    edited = dataclasses.replace(found.drift, comparisons=(other, *rest))
    key = panes.view_key("drift", found)
    assert panes.view_key("drift", dataclasses.replace(found)) == key
    assert panes.view_key("drift", dataclasses.replace(found, drift=edited)) != key


def test_the_map_is_a_widget_and_no_figure_but_is_exported_as_one():
    view = made(pane="drift")
    assert re.findall('alt="([A-Z][a-z]+)', view.parts.pictures["drift"].value) == ["Histograms"]
    assert "drift_map" in [p.name for p in panes.pictures("drift", view.result)]
    still = view._repr_mimebundle_()["text/html"]
    assert len(re.findall(r'<img alt="[^"]{40,}" src="data:image/svg', still)) == 2
    # Log-probs are one number a row: there is no map of them, and none is left of before.
    view.set(op="batch_invariant_logp").wait()
    assert view.parts.views.get("drift") is None and "nats" in words(view, "drift")


def test_an_own_file_has_its_order_revealed_for_the_map():
    view = made(op=str(kit.FLAWED), call=kit.calling("sound"), tile_length=64, pane="drift")
    assert view.result.order is None and view.result.done == {"drift"}
    assert view.parts.views["drift"].order.trees[0] == view.result.revealed
    # The control: an order that cannot be found leaves the figure, and says so where it is asked.
    view = made(op=str(kit.FLAWED), call=lambda k, h, w: (h @ w.T).abs().sqrt(), pane="drift")
    assert view.result.revealed is None and view.parts.views.get("drift") is None
    assert 'alt="Heatmaps' in view.parts.pictures["drift"].value


def test_a_widget_that_nobody_took_is_closed(view, monkeypatch):
    closed = []

    class Shown(ipw.HTML):
        def close(self):
            closed.append(self.value)
            super().close()

    monkeypatch.setattr(panes, "view", lambda pane, found, output: Shown(pane))
    request = dataclasses.replace(view._request(None), pane="order", hung={})
    steps = view._work(request)
    while next(steps).view is None:
        pass
    steps.close()
    assert set(closed) == {"order"}


# ---- moving --------------------------------------------------------------------------------------


def test_the_tile_slider_changes_the_order_and_the_bits():
    view = made(pane="order", tile_length=64)
    before = view.parts.views["order"].alt
    view.controls.tiles.slider.value = 192
    view.wait()
    assert view.result.state.tile_length == 192 and view.controls.tiles.text.value == "192"
    assert "tile 64 → 192: ≠" in view.parts.summary.value
    assert view.parts.views["order"].alt != before
    assert set(view.latency) == {"first", "bits", "figure", "done"}
    assert view.latency["first"] <= view.latency["bits"] <= view.latency["figure"]


def test_max_blocks_and_the_schedule_change_no_bit(view):
    view.controls.max_blocks.value = 7
    assert "MAX_BLOCKS 128 → 7: = bits unchanged" in view.wait().parts.summary.value
    view.controls.schedule.value = "weight_stationary"
    assert "schedule output → weight_stationary: = bits" in view.wait().parts.summary.value


def test_a_hidden_tab_computes_nothing_until_it_is_shown(view):
    assert view.result.drift is None and words(view, "drift") == ""
    view.parts.tabs.selected_index = TABS.index("drift")  # as a click does
    view.wait()
    assert view.result.drift is not None and "torch.mv itself" in words(view, "drift")
    assert view.result.invariance is None and view.result.tolerance is None
    view.set(tile_length=64).wait()
    assert "tab is opened" in words(view, "build") and "torch.mv itself" in words(view, "drift")


@pytest.mark.parametrize("pane", ["invariance", "tolerance", "counters"])
def test_a_pane_has_its_numbers_with_marks_and_not_with_colours_alone(view, pane):
    view.set(pane=pane).wait()
    said = re.sub("<[^>]*>", " ", words(view, pane))
    wanted = {"invariance": "= passed", "tolerance": "= 0 of 54", "counters": "not measured on"}
    assert wanted[pane] in said
    for picture in re.findall("<img [^>]*>", view.parts.pictures[pane].value):
        assert re.search('alt="[^"]{20,}"', picture)
    assert "no Ascend hardware" in said or "by the twin" in said


def test_only_the_last_of_many_moves_is_shown_and_the_others_are_not_built(view, monkeypatch):
    real, built, go_on = studies.build, [], threading.Event()

    def counted(op, config, *rest, **more):
        built.append(config.tile_length)
        assert go_on.wait(20)
        return real(op, config, *rest, **more)

    monkeypatch.setattr(studies, "build", counted)
    for tile in (128, 192, 256, 320):
        view.set(tile_length=tile)
    go_on.set()
    view.wait()
    assert view.result.state.tile_length == 320 and "tile 4096 → 320" in view.parts.summary.value
    # (4096: the default's bits. Which of the others the thread found first is a matter of luck.)
    assert len({*built} - {320, 4096}) <= 1 and built[-1] in (320, 4096)


def test_going_back_builds_nothing(view, monkeypatch):
    view.set(tile_length=64).wait()
    monkeypatch.setattr(studies, "build", None)  # to call it would raise
    view.set(tile_length=4096).wait().set(tile_length=64).wait()
    assert view.result.error == "" and view.result.state.tile_length == 64


def test_another_kernel_moves_the_limits_and_its_own_controls():
    view = made()
    view.controls.op.value = "det_gemm"
    view.wait()
    assert view.state.tile == 512 and view.controls.leaf_length.layout.display is None
    assert view.controls.schedule.layout.display == "none" and not view.result.error
    bits_before = view.result.outputs
    view.controls.leaf_length.value = 32
    assert not view.wait().result.change.equal and view.result.outputs is not bits_before
    view.controls.op.value = "batch_invariant_logp"
    view.wait()
    assert view.state.reference == "torch.log_softmax" and view.result.outputs.shape == (kit.N,)
    view.controls.data.value = "smollm2"
    assert view.wait().result.order.leaves == kit.V, "as many ids as before"


def test_a_smaller_ub_moves_the_tile_to_what_fits(view):
    view.set(arch="dav-3510", tile_length=15744).wait()
    assert view.result.error == ""
    view.controls.arch.value = "dav-2201"
    assert view.wait().result.error == "" and view.state.tile == 12160


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tile": 3}, "no control 'tile'"),
        ({"pane": "attic"}, "pane='attic'"),
        ({"dtype": "int8"}, "offers fp32, bf16, fp16"),
        ({"rows": 7}, "1 to 6"),
        ({"data": "qwen"}, "own, smollm2, qwen3"),
    ],
)
def test_a_value_that_no_control_has_is_refused_and_nothing_moves(view, values, message):
    before = view.state
    with pytest.raises(InputError, match=message):
        view.set(max_blocks=9, **values)
    assert view.state == before and view.controls.max_blocks.value == 128


# ---- errors --------------------------------------------------------------------------------------


def test_a_tile_over_the_budget_is_words_and_the_dashboard_lives_on(view):
    view.controls.tiles.text.value = "99968"
    view.wait()
    assert "99968" in view.result.error and "12160" in words(view, "build")
    assert view.parts.views == {}, "an order stands below the message"
    assert 'role="alert"' in words(view, "order") and "not built" in view.parts.status.value
    assert TWIN in view.parts.summary.value and view.pin() == ""
    view.controls.tiles.text.value = "64"
    view.wait()
    assert view.result.error == "" and "compiler" in words(view, "build")


@pytest.mark.parametrize("text", ["abc", "", "64.5"])
def test_what_is_no_number_is_refused_in_words(view, text):
    view.controls.tiles.text.value = text
    assert "not a tile length" in view.result.error and 'role="alert"' in words(view, "build")
    view.controls.max_blocks.value = 5
    assert view.wait().result.error == "" and view.controls.tiles.text.value == "4096"


@pytest.mark.parametrize(
    "error", [BuildError("x.asc:3: no", log="all of it"), KeyError("a <b>bug</b>")]
)
def test_errors_of_any_kind_are_shown_and_survived(view, monkeypatch, error):
    def broken(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(studies, "build", broken)
        view.set(tile_length=128).wait()
        assert view.result.error and "<b>bug</b>" not in words(view, "build")
        if isinstance(error, BuildError):
            assert "all of it" in words(view, "build")
    assert view.refresh().wait().result.error == ""


def test_an_own_file_starts_with_its_own_block_count(tmp_path):
    path = tmp_path / "mine.asc"
    path.write_text("#ifndef MAX_BLOCKS\n#define MAX_BLOCKS 8\n#endif\n" + kit.FLAWED.read_text())
    view = made(op=str(path), call=kit.calling("sound"))
    assert view.state.max_blocks == view.controls.max_blocks.value == 8
    assert "max_blocks" not in view.code
    assert "max_blocks=128" in view.set(max_blocks=128).wait().code
    view.set(op="lm_head", max_blocks=40).wait()
    assert view.set(op=str(path)).wait().state.max_blocks == 8
    view.controls.op.value = "lm_head"
    view.controls.path.value = f" {path}"
    assert view.wait().state.max_blocks == 8


def test_an_own_file_is_rebuilt_after_an_edit(tmp_path):
    path = tmp_path / "mine.asc"
    text = kit.FLAWED.read_text()
    path.write_text(text.replace("float sum = 0.0f;", "float sum = nowhere;"))
    view = made(op=str(path), call=kit.calling("sound"), tile_length=64)
    assert "mine.asc:84" in view.result.error and "nowhere" in words(view, "build")
    path.write_text(text)
    view.parts.refresh.click()
    assert view.wait().result.error == "" and view.result.outputs.shape == (kit.N, kit.V)
    view.controls.op.value = "lm_head"
    assert view.wait().result.info.name == "lm_head"
    view.controls.path.value = str(tmp_path / "nowhere.asc")
    assert "no file" in view.wait().result.error


# ---- giving up -----------------------------------------------------------------------------------


@pytest.fixture
def sleeping(monkeypatch, tmp_path):
    """Compilers sleep; `sleeping()` is the id of the process that one has started."""
    pid = tmp_path / "pid"
    monkeypatch.setattr(
        TwinToolchain,
        "commands",
        lambda self, unit, work, objects: [["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"]],
    )

    def of_the_sleeper() -> int:
        end = time.monotonic() + 30
        while not (pid.exists() and pid.read_text().strip()):
            assert time.monotonic() < end, "no compiler was started"
            time.sleep(0.01)
        found = int(pid.read_text())
        pid.unlink()
        return found

    return of_the_sleeper


def ended(pid: int) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":  # it waits to be buried
            return True
        time.sleep(0.01)
    return False


def fresh_blocks() -> int:
    """A MAX_BLOCKS that no cache has: it decides no bits, and is built anew."""
    return 1000 + int.from_bytes(os.urandom(2), "big") % 60000


def test_a_build_is_cancelled_and_what_was_shown_stays(view, sleeping, monkeypatch):
    before = words(view, "build")
    view.set(max_blocks=fresh_blocks())
    pid = sleeping()
    assert not view.parts.cancel.disabled and "<progress" in view.parts.status.value
    view.parts.cancel.click()
    assert "cancelled" in view.parts.status.value and view.parts.cancel.disabled
    assert ended(pid)
    view.wait(20)
    mark, _, shown = words(view, "build").partition("</p>")
    assert shown == before and mark.endswith(
        ">Cancelled. What stands below was there before, or is not complete."
    )
    assert "cancelled" in view.parts.status.value
    monkeypatch.undo()
    assert view.refresh().wait().result.change.equal
    assert "Cancelled" not in words(view, "build")


def test_a_newer_position_ends_the_compiler_of_an_older_one(view, sleeping, monkeypatch):
    view.set(max_blocks=fresh_blocks())
    pid = sleeping()
    view.set(max_blocks=128)
    assert ended(pid)
    assert view.wait(20).result.state.max_blocks == 128 and ">done<" in view.parts.status.value


# ---- pins ----------------------------------------------------------------------------------------


def test_pinned_configurations_stand_beside_what_is_shown(view, tmp_path):
    assert view.pin() == "A" and view.pin() == "A", "it is pinned already"
    view.set(tile_length=192).wait()
    assert "Pinned configurations" not in words(view, "pins"), "its row “now” would be an older one"
    view.parts.pin.click()
    view.set(tile_length=64, pane="pins").wait()
    said = re.sub("<[^>]*>", " ", words(view, "pins"))
    assert [*view.pins] == ["A", "B"] and "Pins (2)" in view.parts.tabs.titles
    first = view.compare("B").first_text
    assert first.split(" ")[4] in said and "≠ another order" in said and "0x" in first
    assert said.count("torch.mv") == 3, "the drift of all three"
    assert view.compare("A", "B").bits.mismatches > 0
    # The links of this pane, and the files of a folder, hold the same comparisons.
    view.parts.export.click()
    html = view.wait().parts.links.value
    links = dict(re.findall('download="([^"]*)" href="data:[^,]*,([^"]*)"', html))
    files = {p.name: p.read_bytes() for p in view.export(tmp_path) if p.stem == "pins"}
    assert {k: base64.b64decode(v) for k, v in links.items()} == files
    told = list(csv.DictReader(io.StringIO(files["pins.csv"].decode())))
    assert [row["pin"] for row in told] == ["A", "B"] and told[1]["first"] == first
    pins = json.loads(files["pins.json"], parse_constant=pytest.fail)
    assert [pins[name]["order_equal"] for name in "AB"] == [
        view.compare(name).order_equal for name in "AB"
    ]
    assert pins["B"]["bits"]["mismatches"] == view.compare("B").bits.mismatches > 0
    view.parts.pin_choice.value = "B"
    view.parts.show_pin.click()
    assert view.wait().state.tile_length == 192
    view.parts.unpin.click()
    assert [*view.wait().pins] == ["A"]
    assert "Pinned configurations" in view._repr_mimebundle_()["text/html"]
    with pytest.raises(InputError, match="no pin 'B'; there is A"):
        view.compare("B")


# ---- code, export, a page without a kernel -------------------------------------------------------


@pytest.mark.parametrize("own", [True, False])
def test_the_code_reproduces_the_view(own, monkeypatch):
    monkeypatch.setattr(wb, "explore", explore, raising=False)
    view = made() if own else explore(rows=2, vocab=7, pane="build")
    view.set(tile_length=64, schedule="weight_stationary", dtype="bf16").wait()
    assert view.parts.code.value == view.code
    names = {"hidden": kit.HIDDEN, "weight": kit.WEIGHT} if own else {}
    exec(view.code, names)
    again = names["view"]
    assert again.state == view.state
    assert kit.bits(again.result.outputs) == kit.bits(view.result.outputs)
    assert again.result.order == view.result.order
    # The control: another position has other code, and other bits.
    view.set(tile_length=192).wait()
    assert view.code != again.code and kit.bits(view.result.outputs) != kit.bits(
        again.result.outputs
    )


def test_figures_and_data_are_exported(tmp_path):
    view = made(pane="order")
    view.set(pane="counters").wait()
    files = {p.name: p.read_bytes() for p in view.export(tmp_path / "out")}
    assert files["order.png"].startswith(b"\x89PNG")
    assert ElementTree.fromstring(files["order.svg"]).tag.endswith("svg")
    shown = json.loads(files["view.json"], parse_constant=pytest.fail)
    assert shown["state"]["data"] == "own" and shown["done"] == ["counters", "order"]
    report = view.result.counters.report
    told = json.loads(files["counters.json"], parse_constant=pytest.fail)
    assert told["counters"] == report.counters
    lines = list(csv.DictReader(io.StringIO(files["counters.csv"].decode())))
    assert [int(row["copies"]) for row in lines] == [row["copies"] for row in report.lines]
    tree = wb.ReductionTree.from_nested(json.loads(files["order.json"])["tree"])
    assert tree == view.result.tree and files["view.py"].decode() == view.code
    # The links of the open pane hold the same data.
    view.parts.export.click()
    html = view.wait().parts.links.value
    links = dict(re.findall('download="([^"]*)" href="data:[^,]*,([^"]*)"', html))
    assert {k: base64.b64decode(v) for k, v in links.items()} == {
        name: files[name] for name in ("counters.json", "counters.csv")
    }
    with pytest.raises(InputError, match="cannot write"):
        view.export("/proc/nowhere")


def test_a_page_without_a_kernel_shows_what_was_there(view):
    data = view._repr_mimebundle_()
    assert TWIN in data["text/html"] and "Run the cell" in data["text/html"]
    assert "compiler" in data["text/html"] and data["text/plain"].startswith("Explore: lm_head")
    view.controls.tiles.text.value = "99968"
    view.wait()
    assert "12160" in view._repr_mimebundle_()["text/html"]


def test_the_front_end_is_real_files_that_fetch_nothing():
    for name in ("explore.js", "explore.css"):
        text = (STATIC / name).read_text()
        text = re.sub(r'url\("data:[^"]*"\)', "", text)  # it is in the file
        assert len(text) > 1000 and not re.search(r"https?:|//cdn|@import|\bimport\b|url\(", text)
    script = (STATIC / "explore.js").read_text()
    for name in ("workbench-copy", "workbench-code"):
        assert name in script


def test_wrong_use_is_told():
    with pytest.raises(InputError, match="together"):
        explore(hidden=kit.HIDDEN)
    with pytest.raises(InputError, match="pane='attic'"):
        made(pane="attic")
    with pytest.raises(InputError, match="dtype='int8'"):
        made(dtype="int8")


def test_a_start_that_cannot_work_is_shown_not_raised():
    view = made(tile_length=99968)
    assert "12160" in view.result.error and view.controls.tiles.text.value == "99968"


def test_a_process_with_a_busy_dashboard_ends():
    code = (
        "import torch\n"
        "from workbench.widgets.explore import explore\n"
        "v = explore(hidden=torch.ones(2, 128), weight=torch.ones(3, 128))\n"
        "v.set(max_blocks=11, pane='drift')\n"
        "print('bye')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, text=True)
    assert (done.returncode, done.stdout) == (0, "bye\n"), done.stderr


@pytest.mark.serial
def test_a_change_shows_within_a_quarter_of_a_second_and_a_rebuild_within_one():
    """Medians; of three rounds, since another process may be at work."""
    view = explore(pane="order")
    tiles = (64, 128, 192, 256, 320)
    for tile in tiles:
        view.set(tile_length=tile).wait()
    rounds = []
    while len(rounds) < 3:
        cached, rebuilt = [], []
        for tile in tiles:
            view._looks.forget()  # judged again; the kernel comes from the build cache
            found = view.set(tile_length=tile, max_blocks=128).wait()
            assert found.result.info.cached
            cached.append(found.latency["bits"])
            found = view.set(max_blocks=fresh_blocks()).wait()
            assert not found.result.info.cached
            rebuilt.append(found.latency["bits"])
        rounds.append((statistics.median(cached), statistics.median(rebuilt)))
        if rounds[-1][0] <= 0.25 and rounds[-1][1] <= 1.0:
            break
    else:
        pytest.fail(f"(cached, rebuilt) in seconds: {rounds}")
    print("cached, rebuilt [s]:", rounds)


def test_targets_of_ones_own_are_used():
    target = torch.tensor([0, 1, 2, 3, 4, -100])
    view = made(op="batch_invariant_logp", target=target, pane="drift")
    assert view.result.outputs[-1].item() == 0.0, "an ignored row gives 0"
    assert view.result.drift.shape[0] == 5


def test_the_page_of_the_dashboard_runs(tmp_path, monkeypatch):
    """Its example "From Python", as a reader would paste it."""
    page = (paths.PACKAGE.parent / "docs" / "dashboard.md").read_text()
    (block,) = re.findall(r"```python\n(view = wb\.explore\(rows.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"wb": wb}
    exec(block, names)
    assert not names["view"].compare("A").bits.equal
    assert (tmp_path / "out" / "view.py").read_text() == names["view"].code
