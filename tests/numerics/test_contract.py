"""The numerics contract: every cell, every refusal, and verdicts at the edge of the rule.

TC01 of the case table, and OC02's bump of one ulp under the invariance judgements.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math

import numpy as np
import pytest
import torch

from workbench.errors import ConfigError, InputError
from workbench.numerics import Operand
from workbench.numerics.contract import PATH, Contract, contract, load
from workbench.ops import registry

ACCURACY = ("forward_accuracy", "gradient_accuracy")
INVARIANCE = ("forward_invariance", "gradient_invariance")
CLASSES = ("elementwise", "reduction", "logprob")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
RAW = json.loads(PATH.read_text())
# Of the cells, the limits and the classes. Whoever changes a number changes this too, on purpose.
CELLS = "dcdc2b3f"


def judge(got, wanted, judgement="forward_accuracy", op="lm_head", dtype="fp32", *rest, **named):
    return contract().judge(got, wanted, judgement, op, dtype, *rest, **named)


def written(tmp_path, change) -> str:
    """A copy of the contract, changed."""
    raw = copy.deepcopy(RAW)
    change(raw)
    file = tmp_path / "contract.json"
    file.write_text(json.dumps(raw))
    return file


# ---- the file ------------------------------------------------------------------------------------


def test_every_cell_is_there_and_none_has_moved():
    found = {(c.judgement, c.op_class, c.dtype): c for c in contract().cells()}
    wanted = {(j, c, d) for j in (*ACCURACY, *INVARIANCE) for c in CLASSES for d in DTYPES}
    assert set(found) == wanted
    for (judgement, _, _), cell in found.items():
        assert (cell.kind == "raw bits") == (judgement in INVARIANCE) == (cell.atol is None)
        assert (cell.atol is None) == (cell.rtol is None)
    numbers = {k: RAW[k] for k in ("judgements", "aggregates", "op_classes")}
    digest = hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()[:8]
    assert digest == CELLS, "a cell of the contract has changed"


def test_gradients_have_the_forward_cells_but_for_two():
    differ = [
        (op_class, dtype)
        for op_class in CLASSES
        for dtype in DTYPES
        if RAW["judgements"]["forward_accuracy"][op_class][dtype]
        != RAW["judgements"]["gradient_accuracy"][op_class][dtype]
    ]
    assert differ == [("reduction", "bf16"), ("logprob", "bf16")]


def test_every_operator_has_a_class():
    assert {op: contract().op_class(op) for op in registry.ops()} == {
        "lm_head": "reduction",
        "det_gemm": "reduction",
        "batch_invariant_logp": "logprob",
        "linear_logp": "logprob",
    }
    assert contract().op_class("rms_norm") == "reduction"
    assert contract().cell("forward_accuracy", "elementwise", "fp32").op_class == "elementwise"


def pair(atol, rtol):
    return {"atol": atol, "rtol": rtol}


def drop(*path):
    def change(raw):
        for key in path[:-1]:
            raw = raw[key]
        del raw[path[-1]]

    return change


def put(value, *path):
    def change(raw):
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] = value

    return change


BROKEN = {
    "missing cell": (drop("judgements", "forward_accuracy", "logprob", "bf16"), "bf16"),
    "missing class": (drop("judgements", "gradient_accuracy", "reduction"), "reduction"),
    "missing judgement": (drop("judgements", "forward_invariance"), "forward_invariance"),
    "half a cell": (drop("judgements", "forward_accuracy", "logprob", "bf16", "rtol"), "rtol"),
    "fp8": (put(pair(1, 1), "judgements", "forward_accuracy", "logprob", "fp8"), "fp8"),
    "invariance by tolerance": (
        put(pair(0.5, 0), "judgements", "forward_invariance", "reduction", "fp32"),
        "raw bits",
    ),
    "accuracy by bits": (
        put("raw bits", "judgements", "forward_accuracy", "reduction", "fp32"),
        "raw bits",
    ),
    "negative": (put(-1, "judgements", "forward_accuracy", "logprob", "fp32", "atol"), "-1"),
    "everything passes": (
        put(1e9, "judgements", "forward_accuracy", "logprob", "fp32", "atol"),
        "maximum",
    ),
    "no limit": (drop("aggregates", "approx_kl", "fp16"), "fp16"),
    "unknown key": (put(1, "relax"), "relax"),
    "another rule": (put(2, "version"), "version"),
    "op in two classes": (put(["lm_head"], "op_classes", "elementwise"), "lm_head"),
    "op named as a class": (put(["reduction"], "op_classes", "elementwise"), "reduction"),
    "clip range upside down": (put([1.2, 0.8], "aggregates", "clip_range"), "clip_range"),
}


@pytest.mark.parametrize(("change", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        load(written(tmp_path, change))


def test_the_file_as_it_is_is_read(tmp_path):
    same = load(written(tmp_path, lambda raw: None))
    assert same.cells() == contract().cells()
    (tmp_path / "contract.json").write_text("{")
    with pytest.raises(ConfigError, match="not JSON"):
        load(tmp_path / "contract.json")


def test_a_loaded_contract_cannot_be_changed():
    key = ("forward_accuracy", "reduction", "fp32")
    with pytest.raises(TypeError):
        contract()._cells[key] = pair(1, 1)
    with pytest.raises(TypeError):
        contract()._cells[key]["atol"] = 1
    with pytest.raises(TypeError):
        contract().op_classes["reduction"] = ()
    with pytest.raises(AttributeError):
        contract().cell("forward_accuracy", "lm_head", "fp32").atol += 1
    contract().limits("fp32")["max_abs"] = 1  # a copy
    assert contract().limits("fp32")["max_abs"] != 1


def test_the_table_of_the_docs_is_the_contract_s():
    page = (PATH.parents[2] / "docs" / "contract.md").read_text("utf-8")
    _, _, rest = page.partition("<!-- contract.json -->\n")
    table, end, _ = rest.partition("\n<!-- end -->")
    assert end and table == contract().table(), "python -m workbench.numerics.contract prints it"


def test_the_files_are_packaged():
    assert '"numerics/**/*.json"' in (PATH.parents[2] / "setup.py").read_text()


# ---- resolving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("short", DTYPES)
def test_names_of_a_dtype(short):
    wanted = contract().cell("forward_accuracy", "lm_head", short)
    assert wanted.dtype == short
    for name in (DTYPES[short], str(DTYPES[short]), str(DTYPES[short])[6:]):
        assert contract().cell("forward_accuracy", "lm_head", name) == wanted


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "float8_e5m2", torch.float8_e4m3fn])
def test_fp8_is_out_of_scope(dtype):
    with pytest.raises(InputError, match="fp8 is out of the contract's scope"):
        contract().cell("forward_accuracy", "lm_head", dtype)


def test_unknown_names_are_refused_with_the_known_ones():
    for dtype in (torch.float64, torch.int8, "fp64", "bits", ""):
        with pytest.raises(InputError, match="judges fp32, bf16, fp16"):
            contract().cell("forward_accuracy", "lm_head", dtype)
    with pytest.raises(InputError, match=r"softmax.*lm_head.*reduction"):
        contract().cell("forward_accuracy", "softmax", "fp32")
    with pytest.raises(InputError, match=r"accuracy.*forward_accuracy.*gradient_invariance"):
        contract().cell("accuracy", "lm_head", "fp32")


def test_a_missing_cell_has_no_default():
    raw = copy.deepcopy(RAW)
    del raw["judgements"]["forward_accuracy"]["logprob"]["bf16"]
    with pytest.raises(InputError, match=r"no cell for forward_accuracy, logprob, bf16"):
        Contract(raw, "").cell("forward_accuracy", "batch_invariant_logp", "bf16")


@pytest.mark.parametrize("name", ["atol", "rtol"])
@pytest.mark.parametrize("judgement", ACCURACY)
def test_a_private_number_may_be_tighter_and_never_looser(name, judgement):
    cell = contract().cell(judgement, "lm_head", "bf16")
    value = getattr(cell, name)
    tighter = contract().resolve(judgement, "lm_head", "bf16", **{name: value / 2})
    assert getattr(tighter, name) == value / 2
    assert contract().resolve(judgement, "lm_head", "bf16", **{name: value}) == cell
    for looser in (math.nextafter(value, 1), value * 2, math.inf, math.nan, -value):
        with pytest.raises(InputError, match=f"{name}=.*not within the contract"):
            contract().resolve(judgement, "lm_head", "bf16", **{name: looser})


@pytest.mark.parametrize("judgement", INVARIANCE)
@pytest.mark.parametrize("given", [{"atol": 0.0}, {"rtol": 0.0}, pair(1, 1)])
def test_an_invariance_row_takes_no_tolerance(judgement, given):
    with pytest.raises(InputError, match="raw bits"):
        contract().resolve(judgement, "lm_head", "fp32", **given)
    with pytest.raises(InputError, match="raw bits"):
        judge(torch.ones(1), torch.ones(1), judgement, **given)


# ---- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("judgement", ACCURACY)
@pytest.mark.parametrize("op", CLASSES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_rule_at_its_edge(judgement, op, dtype):
    """Exactly the allowance passes, the next fp32 number does not; on either side."""
    cell = contract().cell(judgement, op, dtype)
    reference = torch.tensor([0.0, 1.0, -3.0, 64.0])
    allowed = cell.atol + cell.rtol * reference.abs()
    for sign in (1, -1):
        inside = reference + sign * allowed
        # fp32 cannot hold every sum: step inwards until the difference is allowed.
        while bool(((inside - reference).abs() > allowed).any()):
            inside = torch.where(
                (inside - reference).abs() > allowed, torch.nextafter(inside, reference), inside
            )
        found = judge(inside, reference, judgement, op, dtype)
        assert found.passed and found.tolerance_ratio <= 1 and found.mismatches == 0
        assert found.cause is None and found.reason == ""
        for i in range(4):
            outside = inside.clone()
            while (outside[i] - reference[i]).abs() <= allowed[i]:
                outside[i] = torch.nextafter(outside[i], outside[i] + sign)
            found = judge(outside, reference, judgement, op, dtype)
            assert not found.passed and found.tolerance_ratio > 1
            assert (found.mismatches, found.worst["index"]) == (1, [i])
            assert found.cause == "candidate" and "1 of 4" in found.reason


def test_the_rule_is_not_symmetric_and_roles_are_checked():
    """TC01, a reversed role: large against small passes one way only."""
    cell = contract().cell("forward_accuracy", "lm_head", "bf16")
    big = torch.tensor([2**20.0])
    small = big - 0.99 * (cell.atol + cell.rtol * big)
    one, other = judge(small, big, dtype="bf16"), judge(big, small, dtype="bf16")
    assert one.passed and not other.passed
    got, wanted = Operand(small, "candidate", "twin"), Operand(big, "reference", "torch.mv")
    assert judge(got, wanted, dtype="bf16").to_dict() == one.to_dict()
    with pytest.raises(InputError, match="'reference' stands in the place of the candidate"):
        judge(wanted, got)
    with pytest.raises(InputError, match="'candidate' stands in the place of the reference"):
        judge(small, got)
    with pytest.raises(InputError, match="in the place of the exact"):
        judge(small, big, exact=Operand(big.double(), "reference"))
    with pytest.raises(InputError, match=r"'gold'.*roles are candidate, reference, exact"):
        judge(Operand(small, "gold"), big)


def test_where_the_operands_come_from():
    """OC03, provenance: no reference for itself; bits only within one source."""
    x = torch.ones(2)
    twin = {role: Operand(x, role, "twin") for role in ("candidate", "reference")}
    with pytest.raises(InputError, match="both come from 'twin'"):
        judge(*twin.values())
    assert judge(*twin.values(), "forward_invariance").passed
    with pytest.raises(InputError, match="results of one source"):
        judge(twin["candidate"], Operand(x, "reference", "npu"), "forward_invariance")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["candidate", "reference", "both", "exact"])
def test_nan_and_inf_fail_even_where_both_sides_have_them(value, side):
    """TC01"""
    bad, good = torch.tensor([1.0, value, 2.0]), torch.tensor([1.0, 1.0, 2.0])
    found = judge(
        bad if side in ("candidate", "both") else good,
        bad if side in ("reference", "both") else good,
        exact=(bad if side == "exact" else good).double(),
    )
    assert not found.passed and found.cause == "nonfinite"
    assert "NaN or Inf" in found.reason and "1 in the" in found.reason
    json.dumps(found.to_dict(), allow_nan=False)
    assert judge(good, good, exact=good.double()).passed


def test_an_empty_verdict_is_none():
    """TC01"""
    for judgement in (*ACCURACY, *INVARIANCE):
        with pytest.raises(InputError, match="nothing to judge"):
            judge(torch.ones(0, 3), torch.ones(0, 3), judgement)


def test_operands_that_do_not_fit():
    x = torch.ones(2)
    for bad, message in (
        ((x, torch.ones(3)), "shapes differ"),
        ((x, [1.0, 1.0]), "the reference is list"),
        ((x.int(), x), "the candidate is torch.int32"),
    ):
        with pytest.raises(InputError, match=message):
            judge(*bad)
    with pytest.raises(InputError, match="want fp64"):
        judge(x, x, exact=x)
    with pytest.raises(InputError, match="scale"):
        judge(x, x, scale=x.double())
    with pytest.raises(InputError, match="leave out exact"):
        judge(x, x, "forward_invariance", exact=x.double())
    with pytest.raises(InputError, match="bits"):
        judge(x, x.half(), "forward_invariance")


def test_whose_error_it_is():
    cell = contract().cell("forward_accuracy", "lm_head", "fp32")
    exact = torch.zeros(4, dtype=torch.float64)

    def found(candidate: float, reference: float):
        """Offsets of element 2 in units of what the cell allows at zero."""
        got, wanted = torch.zeros(4), torch.zeros(4)
        got[2], wanted[2] = candidate * cell.atol, reference * cell.atol
        return judge(got, wanted, exact=exact)

    fine = found(0.25, -0.5)
    assert fine.passed and fine.cause is None
    assert round(fine.tolerance_ratio_exact, 3) == 0.25 and round(fine.reference_ratio, 3) == 0.5
    theirs = found(0.25, -0.9)
    assert not theirs.passed and theirs.cause == "reference"
    assert "the candidate keeps the cell" in theirs.reason and theirs.worst["exact"] == 0
    ours = found(1.5, -0.25)
    assert not ours.passed and ours.cause == "candidate" and "misses the cell" in ours.reason
    both = found(3.0, -0.9)  # the contract's words blame the reference; the reason says the rest
    assert both.cause == "reference" and "misses the cell" in both.reason
    assert both.tolerance_ratio_exact > 1
    # Without exact values nobody else can be blamed.
    assert judge(torch.ones(1), torch.zeros(1)).cause == "candidate"


def test_figures_of_a_verdict():
    got, wanted = torch.tensor([[1.0, 2.0], [4.0, 0.5]]), torch.tensor([[1.0, 2.0], [3.0, 0.0]])
    found = judge(got, wanted, exact=wanted.double(), scale=torch.full((2, 2), 8.0).double())
    assert (found.elements, found.mismatches) == (4, 2)
    assert (found.max_abs, found.mean_abs, found.max_rel) == (1.0, 0.375, math.inf)
    assert found.max_ulp_of_sum == 2.0**20  # the spacing at 8 is 2^-20
    worst = {"index": [1, 1], "candidate": 0.5, "reference": 0.0, "exact": 0.0}
    assert found.worst == worst
    cell = contract().cell("forward_accuracy", "lm_head", "fp32")
    assert found.tolerance_ratio == float(torch.tensor(0.5) / cell.atol)
    assert "FAILED" in str(found) and "passed" in str(judge(wanted, wanted))
    tight = judge(got * 0 + wanted, wanted, atol=0.0, rtol=0.0)
    assert tight.passed and tight.tolerance_ratio == 0 and tight.atol == 0


@pytest.mark.parametrize("judgement", INVARIANCE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_ulp_fails_an_invariance_judgement(judgement, dtype):
    """OC02, at (4, 5); and -0 is not +0, a NaN is itself."""
    rows = torch.randn(4, 5, generator=torch.Generator().manual_seed(3)).to(DTYPES[dtype])
    rows[0, 0], rows[0, 1] = math.nan, 0.0
    assert judge(rows.clone(), rows, judgement, dtype=dtype).passed
    view = {2: torch.int16, 4: torch.int32}[rows.element_size()]
    bumped = rows.clone()
    bumped.view(view)[2, 3] += 1
    found = judge(bumped, rows, judgement, dtype=dtype)
    assert not found.passed and found.mismatches == 1 and found.worst["index"] == [2, 3]
    assert found.atol is None and found.tolerance_ratio is None
    assert found.worst["expected_bits"] != found.worst["got_bits"]
    zero = rows.clone()
    zero[0, 1] = -0.0
    assert not judge(zero, rows, judgement, dtype=dtype).passed
    # The same bump is far inside every accuracy cell.
    finite = rows[1:], bumped[1:]
    assert judge(*finite, dtype=dtype).passed


# ---- log-prob aggregates -------------------------------------------------------------------------


def test_aggregates_are_what_they_say():
    rng = np.random.default_rng(0)
    sampler = rng.standard_normal((3, 7)) - 2
    d = rng.standard_normal((3, 7)) * 0.6
    active = rng.random((3, 7)) < 0.6
    found = contract().agreement(
        torch.from_numpy(sampler), torch.from_numpy(sampler + d), torch.from_numpy(active), "bf16"
    )
    d = (sampler + d - sampler)[active]
    assert found.tokens == active.sum() and found.max_abs == abs(d).max()
    kl = math.fsum(map(math.expm1, d)) - math.fsum(d)
    assert abs(found.approx_kl - kl / len(d)) <= 2.0**-50 * sum(abs(np.expm1(d)) + abs(d))
    outside = (np.exp(d) < 0.8) | (np.exp(d) > 1.2)
    assert found.clip_fraction == outside.mean() > 0
    assert found.failed == ("max_abs", "approx_kl", "clip_fraction") and not found.passed
    assert "FAILED: max_abs" in str(found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_limits_of_the_aggregates(dtype):
    limit = contract().limits(dtype)["max_abs"]
    zero = torch.zeros(8, dtype=torch.float64)
    inside = zero + limit
    assert contract().agreement(zero, inside, dtype=DTYPES[dtype]).passed
    inside[5] = math.nextafter(limit, 1)
    assert contract().agreement(zero, inside, dtype=dtype).failed == ("max_abs",)
    exactly = contract().agreement(zero, zero, dtype=dtype)
    assert exactly.passed and exactly.max_abs == exactly.approx_kl == exactly.clip_fraction == 0


def test_aggregates_refuse_what_they_cannot_judge():
    """TC01: NaN, Inf and nothing."""
    x = torch.zeros(2, 3)
    agreement = contract().agreement
    for value in (math.nan, math.inf, -math.inf):
        bad = x.clone()
        bad[1, 1] = value
        for pair in ((bad, x), (x, bad), (bad, bad)):
            with pytest.raises(InputError, match=r"has 1 NaN or Inf among 6"):
                agreement(*pair)
        assert agreement(x, bad, bad.isfinite()).passed  # not active
    with pytest.raises(InputError, match="no active token"):
        agreement(x, x, x > 0)
    with pytest.raises(InputError, match="no active token"):
        agreement(x[:0], x[:0])
    with pytest.raises(InputError, match="give one shape"):
        agreement(x, x[0])
    with pytest.raises(InputError, match="want bool"):
        agreement(x, x, x)
    with pytest.raises(InputError, match="fp8"):
        agreement(x, x, dtype="fp8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.to_sparse(), "sparse_coo on cpu; want a dense tensor"),
        (lambda t: t.to("meta"), "strided on meta; want a dense tensor"),
        (lambda t: t.to(torch.float8_e4m3fn), "fp8"),
        (lambda t: t.to(torch.complex64), "complex64; want a torch.Tensor of real floats"),
        (lambda t: t.to(torch.int32), "int32; want a torch.Tensor of real floats"),
        (lambda t: t.tolist(), "list; want a torch.Tensor of real floats"),
    ],
)
def test_values_that_cannot_be_judged_are_refused_everywhere(change, message):
    good = torch.ones(2, 3)
    bad = change(good)
    for pair in ((bad, good), (good, bad), (bad, bad)):
        for judgement in ("forward_accuracy", "forward_invariance"):
            with pytest.raises(InputError, match=message):
                contract().judge(*pair, judgement, "lm_head", "fp32")
        with pytest.raises(InputError, match=message):
            contract().agreement(*pair)
