"""The panel: what it computes, and what its controls make of it; real kernels, no browser."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

import workbench as wb
from workbench.errors import BuildError, ConfigError, InputError
from workbench.widgets import Judge, PanelState, panel, tile_choices
from workbench.widgets import judge as judging
from workbench.widgets.panel import REAL, SYNTHETIC

HIDDEN = torch.randn(12, 1024, generator=torch.Generator().manual_seed(3))
WEIGHT = torch.randn(9, 1024, generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(HIDDEN, WEIGHT)


@pytest.fixture
def shown():
    return panel(HIDDEN, WEIGHT)


# ---- the computation -----------------------------------------------------------------------------


def test_stages_fill_up_one_result(judge):
    stages = list(judge.stages(PanelState(tile_length=256)))
    filled = [
        [n for n in ("tree", "logits", "drift", "invariance") if getattr(s, n) is not None]
        for s in stages
    ]
    assert filled == [
        [],
        ["tree"],
        ["tree", "logits"],
        ["tree", "logits", "drift"],
        ["tree", "logits", "drift", "invariance"],
    ]
    assert [s.complete for s in stages] == [False] * 4 + [True]
    last = stages[-1]
    assert last.tree == wb.declared_order("lm_head", last.state.config, n=1024)
    assert last.invariance.passed and not last.baseline.equal and last.error == ""


def test_the_verdicts_are_those_of_the_functions_a_notebook_calls(judge):
    found = judge.judge(PanelState(tile_length=256))
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=256), backend="twin")
    default = wb.build("lm_head", wb.KernelConfig(), backend="twin")
    logits = kernel(HIDDEN, WEIGHT)
    assert torch.equal(found.logits.view(torch.int32), logits.view(torch.int32))
    differing = (logits.view(torch.int32) != default(HIDDEN, WEIGHT).view(torch.int32)).sum()
    assert found.baseline.mismatches == differing > 0
    own = wb.drift(kernel, HIDDEN, WEIGHT)["kernel", "exact"]
    assert found.drift["kernel", "exact"].max_abs == own.max_abs


def test_a_block_count_leaves_the_bits_and_a_tile_does_not(judge):
    first = judge.judge(PanelState(tile_length=256))
    blocks = judge.judge(PanelState(tile_length=256, max_blocks=3), first)
    assert blocks.change.equal and blocks.change_text() == "MAX_BLOCKS 128 → 3: = bits unchanged"
    tile = judge.judge(PanelState(tile_length=512, max_blocks=3), blocks)
    assert not tile.change.equal
    assert tile.change_text().startswith("tile 256 → 512: ≠ ")
    dtype = judge.judge(PanelState(tile_length=512, max_blocks=3, dtype="bf16"), tile)
    assert dtype.change is None, "other inputs: nothing to say of their bits"


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_every_dtype_is_judged_on_its_fp32_logits(judge, dtype):
    found = judge.judge(PanelState(arch="dav-3510", dtype=dtype))
    assert found.error == "" and found.logits.dtype == torch.float32
    assert found.drift.out_dtype == "float32" and found.baseline.equal


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (PanelState(tile_length=99968), ["99968", "196352", "12160"]),
        (PanelState(tile_length=100), ["multiple of 64"]),
        (PanelState(tile_length=0), ["from 64"]),
        (PanelState(max_blocks=0), ["max_blocks"]),
        (PanelState(tile_length=12160, arch="dav-2201", dtype="fp16"), []),
        (PanelState(arch="dav-9999"), ["unknown architecture"]),
        (PanelState(dtype="int8"), ["int8", "fp32"]),
    ],
)
def test_a_state_that_cannot_work_is_explained(judge, state, words):
    found = judge.judge(state)
    assert found.complete
    if words:
        assert found.logits is None and all(word in found.error for word in words), found.error
    else:
        assert found.error == ""


def test_a_split_k_kernel_would_be_caught(judge, monkeypatch):
    """The control: with a kernel that depends on its batch the last line says so."""
    real = judging.build

    def flawed(*args, **kwargs):
        kernel = real(*args, **kwargs)

        class SplitK:
            info, config = kernel.info, kernel.config

            def __call__(self, hidden, weight, **more):
                parts = 2 if hidden[..., 0].numel() > 4 else 1
                width = hidden.shape[-1] // parts
                pieces = zip(hidden.split(width, -1), weight.split(width, -1), strict=True)
                return sum(kernel(h, w, **more) for h, w in pieces)

        return SplitK()

    monkeypatch.setattr(judging, "build", flawed)
    found = Judge(HIDDEN, WEIGHT).judge(PanelState(tile_length=256))
    assert not found.invariance.passed
    assert "outputs change with the batch; first: " in found.invariance_text()


def test_texts_and_json_of_a_result(judge):
    found = judge.judge(PanelState())
    assert "every bit equal to tile 4096" in str(found)
    said = found.to_dict()
    assert "logits" not in said and said["state"]["tile_length"] == 4096
    assert "<table>" in found._repr_html_()


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_the_slider_offers_what_fits_up_to_the_largest(arch, dtype):
    choices = tile_choices(arch, dtype)
    spec = wb.build.spec("lm_head")
    assert choices == sorted(set(choices)) and choices[0] == 64 and 4096 in choices
    assert choices[-1] == spec.largest_tile(arch, dtype) and len(choices) < 25
    for tile in choices:
        spec.check(spec.complete(wb.KernelConfig(tile_length=tile, arch=arch)), dtype)


# ---- the widget ----------------------------------------------------------------------------------


def test_the_first_result_is_there_when_the_cell_ends(shown):
    assert shown.result.complete and shown.result.baseline.equal
    assert not [t for t in threading.enumerate() if t.name == "workbench-panel"]
    assert "every bit equal" in shown.verdicts.value and "<img alt=" in shown.picture.value
    assert "no Ascend hardware" in shown.verdicts.value
    assert 'role="status"' in shown.status.value
    for slider in (shown.tile, shown.max_blocks, shown.tile_text):
        assert not slider.continuous_update


def test_moving_the_tile_slider_rebuilds(shown):
    shown.tile.value = 256
    shown.wait()
    assert shown.result.state.tile_length == 256 and shown.tile_text.value == "256"
    assert "tile 4096 → 256: ≠" in shown.verdicts.value
    assert "tile 256 on dav-2201" in shown.picture.value
    assert ">done<" in shown.status.value


def test_moving_max_blocks_changes_no_bit(shown):
    shown.max_blocks.value = 7
    shown.wait()
    assert shown.result.change.equal and "bits unchanged" in shown.verdicts.value


def test_a_tile_over_the_budget_is_refused_in_words_and_the_panel_lives_on(shown):
    shown.tile_text.value = "99968"
    shown.wait()
    assert "99968" in shown.verdicts.value and "12160" in shown.verdicts.value
    assert 'role="alert"' in shown.verdicts.value and shown.picture.value == ""
    shown.tile_text.value = "256"
    shown.wait()
    assert shown.result.error == "" and shown.tile.value == 256 and "<img" in shown.picture.value


@pytest.mark.parametrize("text", ["abc", "", "1e3", "64.5"])
def test_what_is_no_number_is_refused_in_words(shown, text):
    shown.tile_text.value = text
    shown.wait()
    assert "not a tile length" in shown.verdicts.value
    shown.max_blocks.value = 5  # another control moves on from the last tile that was right
    shown.wait()
    assert shown.result.error == "" and shown.tile_text.value == "4096"


def test_any_tile_that_fits_can_be_typed_and_joins_the_slider(shown):
    assert 320 not in shown.tile.options
    shown.set(tile_length=320).wait()
    assert shown.tile.value == 320 and shown.result.state.tile_length == 320


def test_another_architecture_moves_the_limits(shown):
    shown.set(arch="dav-3510").wait()
    assert shown.tile.options[-1] == 15744
    shown.set(tile_length=15744).wait()
    assert shown.result.error == ""
    shown.set(arch="dav-2201").wait()
    assert shown.tile.options[-1] == 12160
    assert shown.result.state.tile_length == 12160 and shown.result.error == ""


def test_only_the_last_of_many_moves_is_shown(shown):
    for tile in (64, 128, 192, 256, 384, 512):
        shown.tile.value = tile
    shown.wait()
    assert shown.result.state.tile_length == 512
    assert "tile 4096 → 512" in shown.verdicts.value, "compared with what was shown before"


@pytest.mark.parametrize(
    "error",
    [
        BuildError("x.asc:3: expected ';'", file="x.asc", line=3),
        ConfigError("no <b>bold</b> here"),
        KeyError("a bug"),
    ],
)
def test_errors_of_any_kind_are_shown_and_survived(shown, monkeypatch, error):
    def broken(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(judging, "build", broken)
        shown.set(tile_length=128).wait()
        assert shown.result.error and 'role="alert"' in shown.verdicts.value
        assert "<b>bold</b>" not in shown.verdicts.value
    shown.set(tile_length=256).wait()
    assert shown.result.error == ""


def test_without_a_compiler_the_panel_says_so_instead_of_raising(monkeypatch):
    def broken(*args, **kwargs):
        raise wb.MissingError("there is no compiler; install g++")

    monkeypatch.setattr(judging, "build", broken)
    made = panel(HIDDEN, WEIGHT)
    assert "install g++" in made.verdicts.value


def test_the_samples_can_be_chosen_and_are_not_compared_with_each_other():
    made = panel()
    assert made.data.options == (SYNTHETIC, REAL) and made.result.tree.leaves == 4096
    made.set(data=REAL).wait()
    assert made.result.tree.leaves == 576 and made.result.change is None
    assert "576" in made.picture.value


def test_wrong_use_is_told():
    with pytest.raises(InputError, match="together"):
        panel(HIDDEN)
    with pytest.raises(InputError, match="no control 'tile'"):
        panel(HIDDEN, WEIGHT).set(tile=3)


def test_a_start_that_cannot_work_is_shown_not_raised():
    made = panel(HIDDEN, WEIGHT, tile_length=99968)
    assert "99968" in made.result.error and made.tile.value == 12160


def test_a_process_with_a_busy_panel_ends():
    """Headless, nothing waits: the interpreter ends though a rebuild is under way."""
    code = (
        "import torch, workbench as wb\n"
        "p = wb.panel(torch.ones(2, 128), torch.ones(3, 128))\n"
        "p.set(max_blocks=11)\n"
        "print('bye')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120, text=True)
    assert (done.returncode, done.stdout) == (0, "bye\n"), done.stderr
