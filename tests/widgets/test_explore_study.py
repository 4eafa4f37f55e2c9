"""What the dashboard computes, without a widget; real kernels."""

from __future__ import annotations

import math

import explore_kit as kit
import pytest
import torch

import workbench as wb
from workbench.build import Kernel
from workbench.build.cancelling import Cancel, cancellable
from workbench.errors import Cancelled, ConfigError, InputError
from workbench.numerics.contract import contract
from workbench.widgets.explore import ExploreState, Inputs, Study
from workbench.widgets.explore import study as module
from workbench.widgets.explore.pins import compare, overview
from workbench.widgets.explore.study import PANES

OWN = ExploreState(data="own", rows=kit.N, vocab=kit.V, tile_length=64)
LOGP = OWN.replace(op="batch_invariant_logp", reference="torch.log_softmax")
GEMM = OWN.replace(op="det_gemm", leaf_length=32, reference="F.linear")


@pytest.fixture(scope="module")
def shared() -> Inputs:
    return kit.inputs()


def judged(state: ExploreState, inputs: Inputs, *panes: str, call=None):
    found = Study(state, inputs, call=call).judge(*panes)
    assert found.error == "", found.error
    return found


# ---- stages --------------------------------------------------------------------------------------


def test_stages_fill_up_one_result_and_only_what_is_asked_for(shared):
    study = Study(OWN, shared)
    names = ("order", "info", "outputs", "revealed", "drift", "invariance", "tolerance", "counters")
    seen = []
    for found in study.stages(panes=("drift",)):
        filled = [n for n in names if getattr(found, n) is not None]
        if not seen or seen[-1] != filled:
            seen.append(filled)
    assert seen == [
        [],
        ["order"],  # known before anything is compiled
        ["order", "info"],
        ["order", "info", "outputs"],
        ["order", "info", "outputs", "drift"],
    ]
    assert study.result.done == {"drift"}
    first = study.result.outputs
    study.judge("counters")
    assert study.result.done == {"drift", "counters"} and study.result.outputs is first


@pytest.mark.parametrize("state", [OWN, LOGP, GEMM], ids=lambda s: s.op)
def test_a_shipped_kernel_fills_every_pane(shared, state):
    found = judged(state, shared)
    assert found.done == set(PANES) and found.notes == {}
    assert found.order_holds is True and found.invariance.passed
    assert found.counters.same_bits and found.tolerance.chosen.count == 0
    assert all(found.lines()[name] for name in ("build", "order", "bits"))


def test_the_numbers_are_those_of_the_functions_a_notebook_calls(shared):
    found = judged(OWN, shared)
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")
    default = wb.build("lm_head", wb.KernelConfig(), backend="twin")
    logits = kernel(kit.HIDDEN, kit.WEIGHT)
    assert kit.bits(found.outputs) == kit.bits(logits)
    differing = logits.view(torch.int32) != default(kit.HIDDEN, kit.WEIGHT).view(torch.int32)
    assert found.baseline.mismatches == int(differing.sum())
    exact = (kit.HIDDEN.double() @ kit.WEIGHT.double().T - logits.double()).abs().max()
    assert found.drift["kernel", "exact"].max_abs == float(exact)
    own = wb.drift(kernel, kit.HIDDEN, kit.WEIGHT)["torch.mv", "exact"].max_abs
    assert found.drift["torch.mv", "exact"].max_abs == own
    assert found.order == wb.declared_order("lm_head", kernel.config, kit.H)
    cell = contract().cell("forward_accuracy", "lm_head", "fp32")
    assert (found.tolerance.chosen.atol, found.tolerance.chosen.rtol) == (cell.atol, cell.rtol)


def test_counters_are_what_the_schedule_moves(shared):
    counted = judged(OWN, shared, "counters").counters
    assert counted.shape == (kit.N, kit.V)
    # Schedule "output" reads a row of hidden and a row of weight for each output.
    assert counted.report.counters["gm_to_ub_bytes"] == kit.N * kit.V * kit.H * 2 * 4
    other = OWN.replace(schedule="weight_stationary")
    found = judged(other, shared, "counters")
    assert found.baseline.equal, "a schedule decides no bit"
    assert (
        found.counters.report.counters["gm_to_ub_bytes"] < counted.report.counters["gm_to_ub_bytes"]
    )


def test_log_prob_errors_against_an_independent_sum(shared):
    found = judged(LOGP, shared, "drift")
    logits = (kit.HIDDEN @ kit.WEIGHT.T).tolist()
    for row, error in enumerate(found.drift.errors["kernel", "exact"]):
        total = math.fsum(math.exp(x) for x in logits[row])
        wanted = logits[row][row % kit.V] - math.log(total)
        # math.exp, fsum and math.log err by fp64 roundings; the kernel's own error is of fp32.
        slack = 8 * 2.0**-53 * (abs(logits[row][row % kit.V]) + abs(math.log(total)) + 1)
        assert abs(found.outputs[row].double().item() - wanted - error) <= slack
    assert set(found.drift.errors) == {("kernel", "exact"), ("torch.log_softmax", "exact")}


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_sixteen_bit_inputs_are_judged_on_fp32_results(shared, dtype):
    found = judged(OWN.replace(dtype=dtype, arch="dav-3510"), shared, "drift", "tolerance")
    assert found.outputs.dtype == torch.float32 and found.drift.out_dtype == "float32"
    assert found.tolerance.out_dtype == dtype


# ---- controls ------------------------------------------------------------------------------------


def test_an_order_that_is_not_the_declared_one_is_told(shared, monkeypatch):
    real = module.declared_order
    monkeypatch.setattr(
        module, "declared_order", lambda op, cfg, n: real(op, cfg.replace(tile_length=192), n)
    )
    found = judged(OWN, shared, "order")
    assert found.order_holds is False


def test_a_kernel_that_sees_its_batch_is_caught_and_a_sound_one_is_not(shared):
    # (Tiles of 64: of two tiles, two parts would add as one does.)
    state = OWN.replace(op=str(kit.FLAWED))
    flawed = judged(state, shared, "invariance", call=kit.calling("flawed_by_rows"))
    sound = judged(state, shared, call=kit.calling("sound"))
    assert not flawed.invariance.passed and sound.invariance.passed
    assert sound.done == set(PANES) and sound.order is None and sound.order_holds is None
    assert sound.revealed.leaves == kit.H and sound.tolerance.tree_hash == sound.revealed.hash
    assert sound.counters.report.kernel == "sound" and sound.counters.report.counters


def test_an_own_file_without_a_call_says_what_is_missing(shared):
    state = ExploreState(op=str(kit.FLAWED), data="own", rows=2, vocab=3)
    assert state.constants == ("tile_length",) and state.tile == 256
    found = judged(state.replace(tile_length=128), shared)
    assert found.outputs is None and found.info.defines["TILE_LENGTH"] == "128"
    assert set(found.notes) == set(PANES) - {"build"}
    assert all("call=f" in text for text in found.notes.values())


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (OWN.replace(tile_length=99968), ["99968", "196352", "12160"]),
        (OWN.replace(tile_length=100), ["multiple of 64"]),
        (OWN.replace(max_blocks=0), ["max_blocks"]),
        (OWN.replace(arch="dav-9999"), ["unknown architecture"]),
        (OWN.replace(dtype="int8"), ["int8", "fp32"]),
        (OWN.replace(schedule="none"), ["weight_stationary"]),
        (OWN.replace(rows=7), ["rows=7", "1 to 6"]),
        (OWN.replace(vocab=True), ["vocab=True"]),
        (OWN.replace(data="mine"), ["'mine'", "smollm2"]),
        (OWN.replace(reference="numpy"), ["numpy", "torch.mv"]),
        (OWN.replace(op="linear_logp"), ["linear_logp", "lm_head"]),
        (OWN.replace(op="nowhere.asc"), ["nowhere.asc"]),
    ],
)
def test_a_state_that_cannot_work_is_explained(shared, state, words):
    found = Study(state, shared).judge("drift")
    assert found.done == set(PANES) and found.outputs is None
    assert all(word in found.error for word in words), found.error


def test_a_compilers_message_points_into_the_users_file(shared, tmp_path):
    path = tmp_path / "mine.asc"
    path.write_text(kit.FLAWED.read_text().replace("using namespace AscendC;", "using nothing;"))
    state = ExploreState(op=str(path), data="own", rows=2, vocab=3)
    found = Study(state, shared).judge("build")
    assert "mine.asc:21" in found.error and "using nothing" in found.error
    assert "error:" in found.log, "the pane of the build has all that the compiler said"


def test_a_fault_of_the_kernel_is_words(shared):
    state = ExploreState(op=str(kit.FLAWED), tile_length=99968, data="own", rows=2, vocab=3)
    found = Study(state, shared, call=kit.calling("sound")).judge("drift")
    assert found.error.startswith("TwinFault") and "flawed_lm_head.asc" in found.error


def test_a_call_that_returns_something_else_is_told(shared):
    state = ExploreState(op=str(kit.FLAWED), data="own", rows=2, vocab=3)
    found = Study(state, shared, call=lambda kernel, h, w: h).judge("drift")
    assert "call returned [2, 320]; wanted a tensor [N, V] = [2, 3]" in found.error


def test_what_went_wrong_in_one_pane_leaves_the_others(shared, monkeypatch):
    def broken(*args, **kwargs):
        raise InputError("no bound for today")

    monkeypatch.setattr(module, "tolerance", broken)
    found = judged(OWN, shared, "tolerance", "counters")
    assert found.tolerance is None and "no bound for today" in found.notes["tolerance"]
    assert found.counters is not None and "tolerance" in found.done


def test_work_that_is_not_wanted_stops_and_can_go_on_later(shared):
    study, wish = Study(OWN, shared), Cancel()
    seen = []
    with cancellable(wish), pytest.raises(Cancelled):
        for found in study.stages(panes=("drift",)):
            seen.append(found)
            if found.order is not None:
                wish.cancel()
    assert study.result.order is not None and study.result.outputs is None
    assert study.judge("drift").drift is not None


@pytest.mark.parametrize(
    ("state", "pane"), [(OWN, "order"), (OWN, "invariance"), (LOGP, "invariance")]
)
def test_a_search_of_many_launches_stops_at_the_next_one(shared, monkeypatch, state, pane):
    study, wish = Study(state, shared), Cancel()
    study.judge("build")
    launches = []
    real = Kernel.launch

    def counted(*args, **given):
        launches.append(args)
        if len(launches) == 3:
            wish.cancel()
        real(*args, **given)

    monkeypatch.setattr(Kernel, "launch", counted)
    with cancellable(wish), pytest.raises(Cancelled):
        [*study.stages(panes=(pane,))]
    assert len(launches) == 3 and pane not in study.result.done
    study.judge(pane)  # the control: it takes many more
    assert len(launches) > 10 and pane in study.result.done and study.result.notes == {}


# ---- what a change did ---------------------------------------------------------------------------


def test_a_block_count_leaves_the_bits_and_a_tile_does_not(shared):
    first = judged(OWN, shared, "build")
    study = Study(OWN.replace(max_blocks=3), shared)
    blocks = [*study.stages(first, ("build",))][-1]
    assert blocks.change.equal and blocks.change_text() == "MAX_BLOCKS 128 → 3: = bits unchanged"
    tile = [*Study(OWN.replace(tile_length=192, max_blocks=3), shared).stages(blocks, ())][-1]
    assert tile.change_text().startswith("tile 64 → 192: ≠ ")
    other = [*Study(OWN.replace(rows=2), shared).stages(first, ())][-1]
    assert other.change is None and "other inputs" in other.change_text()
    # Another pane of the same view: what led here stands.
    assert [*study.stages(blocks, ("counters",))][-1].change_text() == blocks.change_text()


def test_two_results_side_by_side(shared):
    left, right = (judged(OWN.replace(tile_length=t), shared, "drift") for t in (64, 192))
    both = compare(left, right)
    assert not both.bits.equal and both.order_equal is False
    differ = (left.outputs.view(torch.int32) != right.outputs.view(torch.int32)).nonzero()[0]
    row, column = differ.tolist()
    patterns = [f"0x{v & 0xFFFFFFFF:08x}" for v in
                (int(f.outputs.view(torch.int32)[row, column]) for f in (left, right))]  # fmt: skip
    assert both.first_text.startswith(f"row {row}, column {column}: {patterns[0]}")
    assert patterns[1] in both.first_text and all("torch.mv" in d for d in both.drift)
    same = compare(left, left)
    assert same.bits.equal and same.order_equal and same.first_text == ""
    other = compare(left, judged(OWN.replace(vocab=3), shared, "build"))
    assert other.bits is None and "not the same" in other.bits_text


# ---- state and inputs ----------------------------------------------------------------------------


def test_code_says_what_is_no_default_and_runs(shared):
    state = ExploreState(tile_length=64, rows=2, vocab=5, reference="F.linear")
    assert state.arguments() == {"tile_length": 64, "rows": 2, "vocab": 5, "reference": "F.linear"}
    assert "wb.explore(tile_length=64, rows=2, vocab=5, reference='F.linear')" in state.code()
    assert ExploreState().code() == "import workbench as wb\n\nview = wb.explore()\nview.result\n"
    own = OWN.code(fixture="abc", call=True)
    assert "hidden=hidden, weight=weight" in own and "call=call" in own and "abc" in own
    # A leaf length is det_gemm's: of another kernel it says nothing.
    assert "leaf_length" not in OWN.replace(leaf_length=7).arguments()


def test_states_are_values():
    assert ExploreState(tile_length=4096).resolved() == ExploreState().resolved()
    assert ExploreState(op="det_gemm").tile == 512
    assert OWN.baseline().config == wb.build.spec("lm_head").complete(None)
    with pytest.raises(InputError, match="no control 'tile'"):
        OWN.replace(tile=3)
    with pytest.raises(ConfigError):
        OWN.replace(arch="x").config  # noqa: B018


def test_inputs_are_cut_converted_and_named():
    samples = Inputs()
    assert samples.names == ("smollm2", "qwen3")
    given = samples.take(ExploreState(rows=3, vocab=40, dtype="bf16"))
    assert given.shape == (3, 576, 40) and given.hidden.dtype == torch.bfloat16
    sample = wb.samples.smollm2()
    assert torch.equal(given.weight, sample.weight[:40])
    # A target that is outside of the first ids is ignored, not moved.
    target = sample.target.flatten()[:3]
    assert given.target.tolist() == [t if t < 40 else -100 for t in target.tolist()]
    drawn = samples.take(ExploreState(rows=2, vocab=7, data="qwen3"))
    assert torch.equal(drawn.hidden, wb.samples.qwen3(2, 7, dtype=torch.float32).hidden)
    assert samples.take(ExploreState(rows=3, vocab=40, dtype="bf16")) is given, "kept"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"hidden": kit.HIDDEN}, "together"),
        ({"target": torch.tensor([1])}, "goes with hidden"),
        ({"hidden": kit.HIDDEN, "weight": kit.WEIGHT[:, :5]}, "do not fit"),
        ({"hidden": kit.HIDDEN.long(), "weight": kit.WEIGHT}, "wanted floats"),
        ({"hidden": kit.HIDDEN, "weight": kit.WEIGHT, "target": kit.HIDDEN}, "one a row"),
        ({"hidden": kit.HIDDEN.numpy(), "weight": kit.WEIGHT}, "give a tensor"),
    ],
)
def test_wrong_tensors_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        Inputs(**arguments)


def test_pins_of_other_inputs_are_told_apart(shared):
    one = judged(OWN.replace(tile_length=64), shared, "drift")
    other = judged(OWN.replace(tile_length=64, vocab=3), shared, "drift")
    assert '<th scope="col">inputs' not in overview({"A": one}, one)
    both = overview({"A": one, "B": other}, one)
    assert both.count(one.state.inputs_text()) == 2 and "vocabulary 3<" in both
    found = compare(one, other)
    assert found.left == found.right and found.left_inputs != found.right_inputs
    assert found.drift[0] != found.drift[1]


def test_the_default_is_not_compared_with_itself(shared):
    default = judged(OWN.replace(tile_length=None), shared, "build")
    assert default.baseline_text().startswith("this is the default")
    assert "the default (" in judged(OWN.replace(tile_length=64), shared, "build").baseline_text()
