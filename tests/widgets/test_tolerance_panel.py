"""The tolerance panel: real kernels, no browser."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from matplotlib.figure import Figure

import workbench as wb
from workbench.errors import BuildError, InputError
from workbench.numerics.contract import contract
from workbench.numerics.tolerance import tolerance
from workbench.widgets import tolerance as module
from workbench.widgets.tolerance import tolerance_panel

SAMPLE = SimpleNamespace(
    hidden=torch.randn(2, 2, 320, generator=torch.Generator().manual_seed(5)),
    weight=torch.randn(30, 320, generator=torch.Generator().manual_seed(6)),
)
CELL = contract().cell("forward_accuracy", "lm_head", "fp32")


@pytest.fixture
def empty_figures(monkeypatch):
    """Panels draw at once, and nothing: what figures show is tested beside the plots."""
    monkeypatch.setattr(module, "REST", 0.0)
    for name in ("tolerance_plane", "tolerance_ratios"):
        monkeypatch.setattr(module, name, lambda *given: Figure(figsize=(1, 1)))


@pytest.fixture
def shown(empty_figures):
    return tolerance_panel(SAMPLE)


def text(panel) -> str:
    return re.sub("<[^>]+>", " ", panel.numbers.value)


def images(panel) -> list[str]:
    return re.findall(r'<img alt="([^"]+)"', panel.picture.value)


def test_the_first_result_is_there_when_the_cell_ends():
    shown = tolerance_panel(SAMPLE)
    assert not [t for t in threading.enumerate() if t.name == "workbench-panel"]
    assert (shown.atol.value, shown.rtol.value) == (CELL.atol, CELL.rtol)
    assert shown.flagged.count == 0 and "= 0 of 120 outputs flagged" in text(shown)
    assert "no Ascend hardware" in shown.numbers.value and 'role="status"' in shown.status.value
    plane, ratios = images(shown)
    assert plane.startswith("Plane of atol and rtol: ") and "0 of 120 outputs" in plane
    assert "times the running bound, median" in ratios
    assert all(slider.continuous_update for slider in (shown.atol, shown.rtol))


def test_a_move_counts_what_the_function_counts(shown):
    kernel = wb.build("lm_head", wb.KernelConfig(), backend="twin")
    found = tolerance(kernel, SAMPLE.hidden, SAMPLE.weight)
    for atol, rtol in ((2.0**-20, 2.0**-22), (2.0**-24, 2.0**-26)):
        shown.set(atol=atol, rtol=rtol).wait()
        assert shown.flagged == found.at(atol, rtol)
        assert f"≠ {shown.flagged.count} of 120 outputs flagged" in text(shown)
        assert shown.flagged.title() in images(shown)[0] and len(images(shown)) == 2
    assert shown.flagged.count > 50
    shown.set(kind="worst_case").wait()
    assert shown.flagged == found.at(2.0**-24, 2.0**-26, "worst_case")
    assert "times the worst-case bound" in text(shown)


def test_the_derived_bounds_are_named_and_reached(shown):
    least = shown.tolerance.smallest_atol(CELL.rtol)
    assert f"running {least:.2e}" in text(shown)
    shown.to_derived()
    shown.wait()
    assert shown.atol.value == least and shown.flagged.below == 0
    assert "no correct kernel is flagged" in text(shown)
    half = least / 2
    shown.set(atol=half).wait()
    assert shown.flagged.below > 0 and "a correct kernel may be flagged" in text(shown)
    shown.contract.click()
    shown.wait()
    assert shown.atol.value == CELL.atol


def test_another_dtype_or_tile_rebuilds(shown):
    first = shown.tolerance
    shown.set(tile_length=128).wait()
    assert shown.tolerance.tree_hash != first.tree_hash
    shown.set(dtype="bf16").wait()
    assert shown.tolerance.out_dtype == "bf16" and shown.flagged.count > 50
    shown.to_contract()
    shown.wait()
    assert shown.flagged.count == 0, "the contract's cell of this dtype"
    shown.set(dtype="fp32").wait()
    assert shown.tolerance.dtype == "fp32" and len(shown._known) <= module.KEPT


def test_a_reference_with_an_error_of_its_own(shown):
    shown.set(reference="torch.mv").wait()
    assert "torch.mv of each row" in text(shown) and shown.error == ""


def test_only_the_last_of_many_moves_is_shown(shown):
    values = [2.0**-k for k in range(5, 25)]
    for value in values:
        shown.atol.value = value
    shown.wait()
    assert shown.flagged.atol == values[-1]
    assert f"atol {values[-1]:.3g}, " in text(shown) and len(images(shown)) == 2


def test_numbers_come_before_pictures_and_do_not_wait_for_them(shown, monkeypatch):
    """A figure that takes for ever delays no count."""
    free = threading.Event()

    def slow(*args, **kwargs):
        free.wait(20)
        raise RuntimeError("drawn too late")

    monkeypatch.setattr(module, "tolerance_plane", slow)
    shown.set(atol=2.0**-20)
    assert shown._counter.wait(10)
    shown.set(atol=2.0**-21)
    assert shown._counter.wait(10) and shown.flagged.atol == 2.0**-21
    free.set()
    shown.wait()
    assert "drawn too late" in shown.picture.value and 'role="alert"' in shown.picture.value
    assert shown.error == "", "the numbers stand"


@pytest.mark.parametrize("error", [BuildError("x.asc:3: <b>no</b>"), KeyError("a bug")])
def test_errors_of_any_kind_are_shown_and_survived(shown, monkeypatch, error):
    def broken(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(module, "build", broken)
        shown.set(tile_length=128).wait()
        assert shown.error and 'role="alert"' in shown.numbers.value
        assert shown.flagged is None and shown.picture.value == ""
        assert "<b>no</b>" not in shown.numbers.value
        broken_start = tolerance_panel(SAMPLE)
        assert broken_start.error and 'role="alert"' in broken_start.numbers.value
    shown.set(tile_length=64).wait()
    assert shown.error == "" and shown.flagged is not None


def test_a_tile_that_does_not_fit_is_refused_in_words(empty_figures):
    made = tolerance_panel(SAMPLE, tile_length=99968)
    assert "99968" in made.error and "12160" in text(made)
    made.set(tile_length=64).wait()
    assert made.error == ""


def test_delta_is_told_to_be_of_all_outputs_together(shown):
    before = shown.kind.value
    top = 10.0 ** module.DECADES[1]
    shown.set(kind="probabilistic", atol=top).wait()
    assert shown.flagged.below == 0 and "0.001 for all outputs together" in text(shown)
    shown.set(kind=before).wait()


def test_wrong_use_is_told(shown):
    for given, words in (
        ({"tile": 3}, "no control 'tile'"),
        ({"atol": 0}, "the slider goes from"),
        ({"rtol": float("nan")}, "the slider goes from"),
        ({"dtype": "int8"}, "offers fp32"),
        ({"reference": "F.linear"}, "offers exact"),
    ):
        with pytest.raises(InputError, match=words):
            shown.set(**given)
    for given, words in (
        ({"rows": 0}, "rows=0"),
        ({"dtype": "zz"}, "dtype='zz': the panel offers fp32"),
        ({"arch": "zz"}, "arch='zz': the panel offers dav"),
        ({"reference": "zz"}, "reference='zz': the panel offers exact"),
    ):
        with pytest.raises(InputError, match=words):
            tolerance_panel(SAMPLE, **given)
    with pytest.raises(InputError, match="no tensors hidden"):
        tolerance_panel("x")


def test_another_architecture_moves_the_limits(shown):
    shown.set(tile_length=12160).wait()
    shown.set(arch="dav-3510").wait()
    assert shown.tile.options[-1] == 15744 and shown.tolerance.evidence.arch == "dav-3510"
    shown.set(dtype="fp16").wait()
    assert shown.error == "" and shown.tile.value <= shown.tile.options[-1]


def test_a_process_with_a_busy_panel_ends():
    """Headless, nothing waits: the interpreter ends though a figure is being drawn."""
    code = (
        "from workbench.widgets.tolerance import tolerance_panel\n"
        "p = tolerance_panel(rows=1, vocab=8)\n"
        "p.set(atol=2.0**-20)\n"
        "print('bye')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, text=True)
    assert (done.returncode, done.stdout) == (0, "bye\n"), done.stderr


@pytest.mark.serial
def test_the_numbers_follow_a_slider_faster_than_the_figures():
    made = tolerance_panel(rows=4)
    made.wait()
    moved = threading.Event()
    made.numbers.observe(lambda _: moved.set(), "value")
    counted = []
    for k in range(12):
        moved.clear()
        start = time.perf_counter()
        made.atol.value = 2.0 ** -(12 + k)
        assert moved.wait(30)
        counted.append(time.perf_counter() - start)
    start = time.perf_counter()
    made.set(atol=2.0**-11).wait()
    everything = time.perf_counter() - start
    assert sorted(counted)[len(counted) // 2] < everything / 4
