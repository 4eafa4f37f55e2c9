"""`check`: good candidates pass, and each kind of bad one fails where it is bad.

OC01 to OC03 of the case table.
"""

from __future__ import annotations

import json
import sys
import types

import pytest
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.build import cann
from workbench.errors import BuildError, CacheError, ConfigError, InputError, MissingError
from workbench.numerics import check_cases, checker
from workbench.numerics.check_cases import plain_torch
from workbench.numerics.checker import check
from workbench.ops import registry

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
SMALL = {"device": "cpu", "batch": 2, "seq": 3, "vocab": 33, "normalized_dim": 70}
NAMES = {
    "lm_head": [["", "gradient:hidden", "gradient:weight"], ["gradient:bias"]],
    "batch_invariant_logp": [["", "gradient:logits"], ["lse"]],
    "det_gemm": [["", "gradient:a", "gradient:b"], []],
    "linear_logp": [["", "gradient:hidden", "gradient:weight"], ["gradient:bias"]],
}


def outputs(result):
    """By (case, name): the cases by their place."""
    return {(i, o.name): o for i, case in enumerate(result.cases) for o in case.outputs}


def failing(result):
    return {key for key, output in outputs(result).items() if not output.gate_passed}


def grads(op="lm_head", candidate="ascend", **options):
    return check(op, candidate, check_grad=True, **(SMALL | options))


# ---- what passes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("op", registry.ops())
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("candidate", ["ascend", "pytorch"])
def test_sound_candidates_pass_forward_and_gradients(op, dtype, candidate):
    found = grads(op, candidate, dtype=dtype)
    assert found.passed and found.pass_rate == 1.0, str(found)
    assert (found.suite, found.candidate) == (op, f"{candidate}-{op}")
    assert found.backend == {"ascend": "twin", "pytorch": "cpu"}[candidate]
    names = [name for _, name in outputs(found)]
    always, extra = NAMES[op]
    assert set(names) == {*always, *extra}
    for output in outputs(found).values():
        assert output.tolerance_ratio_exact is not None and output.reference_ratio is not None
        if op != "linear_logp":
            assert output.gate == "contract" and output.passed
            assert output.tolerance_ratio_exact <= 1
        else:
            assert output.gate == "bits and bound" and output.bits_equal
            assert 0 < output.derived_ratio <= 1
        products = op != "batch_invariant_logp" and (op != "linear_logp" or not output.name)
        assert (output.max_ulp_of_sum is not None) == products
    for case in found.cases:
        assert [o.index for o in case.outputs] == list(range(len(case.outputs)))


def test_names_of_the_cases():
    """The biased form is a case of its own; shapes and the dtype stand in the name."""

    def names(op):
        return [case.name for case in check(op, "pytorch", **SMALL).cases]

    assert names("lm_head") == [
        "lm_head-torch.float32-2x3x70x33",
        "lm_head-bias-torch.float32-2x3x70x33",
    ]
    assert names("batch_invariant_logp") == [
        "batch_invariant_logp-torch.float32-2x3x33",
        "batch_invariant_logp-ignore-torch.float32-2x3x33",
        "batch_invariant_logp-lse-torch.float32-2x3x33",
    ]
    assert names("det_gemm") == ["det_gemm-torch.float32-6x70x33"]
    assert names("linear_logp") == [
        "linear_logp-torch.float32-2x3x70x33",
        "linear_logp-bias-torch.float32-2x3x70x33",
    ]


def test_the_configuration_reaches_the_kernel_and_the_evidence():
    """OC03: an architecture given is the one that runs; the result is JSON."""
    config = wb.KernelConfig(tile_length=64, max_blocks=3, arch="dav-3510")
    found = check("lm_head", config=config, **SMALL)
    assert found.evidence.arch == "dav-3510"
    assert found.evidence.config["tile_length"] == 64 and found.evidence.backend == "twin"
    wide = SMALL | {"normalized_dim": 4096}
    same = check("lm_head", config=wb.KernelConfig(arch="dav-3510"), **wide)
    other = check("lm_head", config=wb.KernelConfig(arch="dav-2201"), **wide)
    assert other.cases[0].fixture_id == same.cases[0].fixture_id == other.evidence.fixture_id
    assert other.evidence.arch == "dav-2201"
    assert other.cases[0].outputs[0].mean_abs != same.cases[0].outputs[0].mean_abs
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["suite"] == "lm_head" and data["options"]["seed"] == 123
    fields = {
        *("max_abs", "mean_abs", "max_rel", "atol", "rtol", "tolerance_ratio"),
        *("tolerance_ratio_exact", "reference_ratio", "cause", "passed", "max_ulp_of_sum"),
    }
    assert fields <= set(data["cases"][0]["outputs"][0])
    assert len(found.to_pandas()) == 2 and "<table" in found._repr_html_()
    with pytest.raises(ConfigError, match="tile_length"):
        check("lm_head", config=wb.KernelConfig(tile_length=65), **SMALL)
    with pytest.raises(InputError, match="Ascend kernel"):
        check("lm_head", "pytorch", config=config, **SMALL)


def test_an_override_of_the_registry_does_not_replace_the_candidate(monkeypatch):
    """A check of ascend that ran the reference would pass for nothing."""
    monkeypatch.setenv("WORKBENCH_OPS", "native")
    found = check("lm_head", **SMALL)
    assert found.backend == "twin" and found.evidence.config["tile_length"] == 4096


def test_inputs_follow_the_seed_and_the_mode():
    first, again = check("lm_head", "pytorch", **SMALL), check("lm_head", "pytorch", **SMALL)
    other = check("lm_head", "pytorch", seed=124, **SMALL)
    assert first.cases[0].fixture_id == again.cases[0].fixture_id != other.cases[0].fixture_id

    seen = []

    def watch(hidden, weight, target, bias=None):
        seen.append((hidden, weight, target))
        return plain_torch("linear_logp")(hidden, weight, target, bias)

    options = {"input_mode": "constant", "constant_value": 0.25, "token_value": 7}
    assert check("linear_logp", watch, **options, **SMALL).passed
    hidden, weight, target = seen[0]
    assert (hidden == 0.25).all() and (weight == 0.25).all() and (target == 7).all()
    with pytest.raises(InputError, match="token_value=33"):
        check("linear_logp", watch, **(options | {"token_value": 33}), **SMALL)
    # The upstream gradient has a seed of its own, and ones are ones.
    ups = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h, w):
            ctx.save_for_backward(h, w)
            return h @ w.T

        @staticmethod
        def backward(ctx, g):
            ups.append(g)
            h, w = ctx.saved_tensors
            return g @ w, g.flatten(0, 1).T @ h.flatten(0, 1)

    def lm_head(hidden, weight, bias=None):
        out = Watch.apply(hidden, weight)
        return out if bias is None else out + bias

    for options in ({}, {"grad_seed": 9}, {"grad_mode": "ones"}):
        assert grads("lm_head", lm_head, **options).passed
    assert len(ups) == 6 and (ups[4] == 1).all()
    assert not torch.equal(ups[0], ups[2]) and torch.equal(ups[0], ups[1])


# ---- what fails ----------------------------------------------------------------------------------


def linear(hidden, weight, bias=None):
    return F.linear(hidden, weight, bias)


class MeanUpstream(torch.autograd.Function):
    """Right where every upstream gradient is the same, and nowhere else."""

    @staticmethod
    def forward(ctx, hidden, weight):
        ctx.save_for_backward(hidden, weight)
        return hidden @ weight.T

    @staticmethod
    def backward(ctx, g):
        hidden, weight = ctx.saved_tensors
        g = g.mean().expand_as(g)
        return g @ weight, g.flatten(0, 1).T @ hidden.flatten(0, 1)


class WrongSign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return -g


def forgets_the_bias(hidden, weight, bias=None):
    # It takes part in the graph, so that only its value is missing.
    return F.linear(hidden, weight) + (0 if bias is None else bias * 0)


def one_column(hidden, weight, bias=None):
    out = F.linear(hidden, weight, bias)
    return torch.cat([out[..., :-1], out[..., :1]], -1)


def drops_a_term(hidden, weight, bias=None):
    return F.linear(hidden[..., 1:], weight[..., 1:], bias)


def nan_in_one_place(hidden, weight, bias=None):
    out = F.linear(hidden, weight, bias)
    return out + torch.where(torch.arange(out.numel()).view(out.shape) == 5, torch.nan, 0.0)


EVERY = {(i, name) for i in (0, 1) for name in ("", "gradient:hidden", "gradient:weight")} | {
    (1, "gradient:bias")
}
FORWARD = {(0, ""), (1, "")}
BAD = {
    "zeros": (lambda h, w, b=None: linear(h, w, b) * 0, EVERY, "outside the tolerance"),
    "one column": (one_column, EVERY, "outside the tolerance"),
    "bias forgotten": (forgets_the_bias, {(1, ""), (1, "gradient:bias")}, "outside"),
    "a term dropped": (drops_a_term, {*EVERY} - {(1, "gradient:bias")}, "outside"),
    "NaN": (nan_in_one_place, FORWARD, "NaN or Inf"),
    "sign of the gradient": (
        lambda h, w, b=None: linear(WrongSign.apply(h), w, b),
        {(0, "gradient:hidden"), (1, "gradient:hidden")},
        "outside",
    ),
    "mean upstream": (
        lambda h, w, b=None: MeanUpstream.apply(h, w) + (0 if b is None else b),
        {*EVERY} - FORWARD - {(1, "gradient:bias")},
        "outside",
    ),
    "detached": (lambda h, w, b=None: linear(h, w, b).detach(), EVERY - FORWARD, "detached"),
    "no gradient of the weight": (
        lambda h, w, b=None: linear(h, w.detach(), b),
        {(0, "gradient:weight"), (1, "gradient:weight")},
        "it is None",
    ),
    "another shape": (lambda h, w, b=None: linear(h, w, b)[0], EVERY, "want torch.float32"),
    "another dtype": (lambda h, w, b=None: linear(h, w, b).double(), FORWARD, "is torch.float64"),
    "not a tensor": (lambda h, w, b=None: 3.0, EVERY, "returned a float; want a tensor"),
    "None": (lambda h, w, b=None: None, EVERY, "returned None; want a tensor"),
    "nothing": (lambda h, w, b=None: (), EVERY, "returned 0 of 1 outputs"),
    "no bias argument": (lambda h, w: linear(h, w), {k for k in EVERY if k[0]}, "TypeError"),
    "raises": (lambda h, w, b=None: 1 / 0, EVERY, "raised ZeroDivisionError: division by zero"),
    "inputs changed": (lambda h, w, b=None: linear(_scaled(h), w, b), EVERY, "changed its input"),
}


def _scaled(hidden):
    with torch.no_grad():
        return hidden.mul_(1.5)


@pytest.mark.parametrize(("candidate", "wrong", "why"), BAD.values(), ids=BAD)
def test_a_bad_candidate_fails_where_it_is_bad(candidate, wrong, why):
    """OC01: a bad candidate fails, a bad gradient fails."""
    found = grads("lm_head", candidate)
    assert failing(found) == wrong, str(found)
    assert not found.passed and found.pass_rate == (len(EVERY) - len(wrong)) / len(EVERY)
    assert any(why in outputs(found)[key].reason for key in wrong)
    assert "passed=False" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    # The control: the same check of what is right.
    assert grads("lm_head", linear).passed


def test_ones_hide_a_mean_of_the_upstream_and_random_does_not():
    """OC01"""

    def candidate(hidden, weight, bias=None):
        out = MeanUpstream.apply(hidden, weight)
        return out if bias is None else out + bias

    assert grads("lm_head", candidate, grad_mode="ones").passed
    assert not grads("lm_head", candidate).passed


def test_without_check_grad_no_gradient_is_asked_for():
    found = check("lm_head", lambda h, w, b=None: linear(h, w, b).detach(), **SMALL)
    assert found.passed and set(outputs(found)) == FORWARD


def shifted_target(logits, target, return_lse=False):
    return plain_torch("batch_invariant_logp")(logits, (target + 1) % logits.shape[-1])


def counts_ignored(logits, target):
    return torch.log_softmax(logits.float(), -1).gather(-1, target.clamp(min=0)[..., None])[..., 0]


def test_bad_log_probs_fail():
    assert grads("batch_invariant_logp", plain_torch("batch_invariant_logp")).passed
    assert failing(grads("batch_invariant_logp", shifted_target)) == {
        (i, name) for i in (0, 1) for name in ("", "gradient:logits")
    }
    # The wrong ignore rule is seen in the case that ignores, and there only.
    assert failing(grads("batch_invariant_logp", counts_ignored)) == {
        (1, ""),
        (1, "gradient:logits"),
    }


def test_bad_products_fail():
    assert grads("det_gemm", torch.matmul).passed
    low = grads("det_gemm", lambda a, b: (a.bfloat16() @ b.bfloat16()).float())
    assert not low.passed  # an fp32 product by way of bf16
    assert failing(grads("det_gemm", lambda a, b: a @ b.detach())) == {(0, "gradient:b")}


# ---- linear_logp ---------------------------------------------------------------------------------


def test_linear_logp_rests_on_bits_and_bound_and_its_cell_stays_what_it_is():
    """N(0, 1) at H 4096: log-probs of logits of size 64 are beyond the cell in any order."""
    sizes = SMALL | {"normalized_dim": 4096, "vocab": 129, "seq": 8}
    found = check("linear_logp", **sizes)
    for output in outputs(found).values():
        assert not output.passed and output.tolerance_ratio > 1 and output.cause == "reference"
        assert output.tolerance_ratio_exact > 1  # said in the reason too
        assert "misses the cell" in output.reason
        assert output.gate_passed and output.bits_equal and 0 < output.derived_ratio <= 1
    assert found.passed
    line = str(found).splitlines()[2]
    assert "passed=False cause=reference" in line
    assert "gate=bits-and-bound gate_passed=True" in line


def test_linear_logp_with_other_bits_fails(monkeypatch):
    def moved(op, kind, config, backend):
        both = sound(op, kind, config, backend)
        return lambda *inputs: torch.nextafter(both(*inputs), torch.zeros(()))

    sound = check_cases.sequence
    monkeypatch.setattr(check_cases, "sequence", moved)
    found = check("linear_logp", **SMALL)
    assert not found.passed and failing(found) == FORWARD
    assert all(o.bits_equal is False and o.derived_ratio <= 1 for o in outputs(found).values())


def test_a_user_s_linear_logp_is_held_to_the_bound_of_partial_sums():
    both = plain_torch("linear_logp")

    def reversed_order(hidden, weight, target, bias=None):
        return both(hidden.flip(-1), weight.flip(-1), target, bias)

    def dropped(hidden, weight, target, bias=None):
        return both(hidden[..., 1:], weight[..., 1:], target, bias)

    found = grads("linear_logp", reversed_order)
    assert found.passed and all(o.bits_equal is None for o in outputs(found).values())
    assert all(o.gate == "bound" for o in outputs(found).values())
    assert failing(grads("linear_logp", dropped)) >= FORWARD
    nan = grads("linear_logp", lambda *inputs: both(*inputs) * torch.nan)
    assert failing(nan) >= FORWARD


WIDE = {"normalized_dim": 4096, "vocab": 129, "seq": 8}
PLAIN = plain_torch("linear_logp")
OFF = {
    "a nat less": (lambda h, w, t, b=None: PLAIN(h, w, t, b) - 1, FORWARD),
    "a tenth of a nat less": (lambda h, w, t, b=None: PLAIN(h, w, t, b) - 0.1, FORWARD),
    "temperature 0.99": (lambda h, w, t, b=None: PLAIN(h, w * 0.99, t, b), FORWARD),
    "bias left out": (lambda h, w, t, b=None: PLAIN(h, w, t), {(1, "")}),
}


@pytest.mark.parametrize(("candidate", "wrong"), OFF.values(), ids=OFF)
def test_a_user_s_log_probs_that_are_off_fail_in_fp32(candidate, wrong):
    found = check("linear_logp", candidate, **(SMALL | WIDE))
    assert failing(found) == wrong
    row = outputs(found)[1, ""]
    # The bound of any order, which is of this size, would let the first three through.
    assert row.derived_ratio > 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_torch_of_the_user_s_keeps_the_bound(dtype):
    found = grads("linear_logp", lambda *inputs: PLAIN(*inputs), dtype=dtype, **WIDE)
    assert found.passed, str(found)
    # In 16 bits the rounding of logits is allowed for: the bound is wider, and a nat is still seen
    # on some rows.
    less = check("linear_logp", lambda *i: PLAIN(*i) - 1, dtype=dtype, **(SMALL | WIDE))
    assert failing(less) == FORWARD


def test_the_line_says_why_a_failed_cell_stands_under_a_suite_that_passed():
    found = check("linear_logp", lambda *inputs: PLAIN(*inputs), **(SMALL | WIDE))
    assert found.passed and "passed=False" in str(found)
    for output in outputs(found).values():
        assert not output.passed and output.reason.endswith("; linear_logp rests on gate_passed")
    narrow = check("linear_logp", "pytorch", **(SMALL | {"normalized_dim": 1, "vocab": 2}))
    assert all(o.passed and not o.reason for o in outputs(narrow).values())


# ---- candidates that end, and set-ups that fail --------------------------------------------------


class EndsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        sys.exit(0)


def test_sys_exit_in_a_candidate_is_a_failed_verdict():
    found = check("lm_head", lambda *inputs: sys.exit(0), **SMALL)
    assert failing(found) == FORWARD
    assert all(o.reason == "raised SystemExit: 0" for o in outputs(found).values())
    found = grads("lm_head", lambda h, w, b=None: linear(EndsInBackward.apply(h), w, b))
    assert failing(found) == EVERY - FORWARD
    assert "backward raised SystemExit" in outputs(found)[0, "gradient:hidden"].reason

    def interrupted(*inputs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("lm_head", interrupted, **SMALL)


@pytest.mark.parametrize("check_grad", [False, True])
def test_more_tensors_than_the_operator_has_outputs_fail(check_grad):
    def two(hidden, weight, bias=None):
        return linear(hidden, weight, bias), torch.zeros(3)

    found = check("lm_head", two, check_grad=check_grad, **SMALL)
    assert failing(found) == set(outputs(found)) != set()
    assert all(o.reason == "returned 2 tensors; want 1" for o in outputs(found).values())
    one = check("lm_head", lambda *i: [linear(*i)], check_grad=check_grad, **SMALL)
    assert one.passed


def test_a_set_up_that_fails_is_raised_and_no_verdict(monkeypatch):
    """Of an operator of ours. A user's callable that raises the same has failed."""
    tile = wb.KernelConfig(tile_length=12288)  # fits for 16 bits, not for fp32
    with pytest.raises(ConfigError, match="12288"):
        check("batch_invariant_logp", config=tile, **SMALL)
    for kind in (ConfigError, MissingError, BuildError, CacheError):

        def fails(*inputs, kind=kind, **options):
            raise kind("no set-up")

        monkeypatch.setattr(check_cases, "ascend", lambda *args, fails=fails: fails)
        with pytest.raises(kind, match="no set-up"):
            check("lm_head", **SMALL)
        found = check("lm_head", fails, **SMALL)
        assert failing(found) == FORWARD
        assert f"raised {kind.__name__}: no set-up" in outputs(found)[0, ""].reason
    monkeypatch.setattr(check_cases, "ascend", lambda *args: lambda *inputs, **options: 1 / 0)
    assert failing(check("lm_head", **SMALL)) == FORWARD  # a bug of ours is a failed verdict


# ---- names ---------------------------------------------------------------------------------------


def test_a_callable_of_the_user_by_name(tmp_path, monkeypatch):
    (tmp_path / "mine_for_check.py").write_text(
        "import torch\n"
        "def head(hidden, weight, bias=None):\n"
        "    return torch.nn.functional.linear(hidden, weight, bias)\n"
        "class Head:\n"
        "    def __call__(self, hidden, weight, bias=None):\n"
        "        return head(hidden, weight, bias)\n"
        "    method = staticmethod(head)\n"
        "number = 3\n"
        "class Needs:\n"
        "    def __init__(self, size):\n"
        "        pass\n"
        "class Silent:\n"
        "    pass\n"
    )
    (tmp_path / "ends_for_check.py").write_text("import sys; sys.exit(0)\n")
    (tmp_path / "divides_for_check.py").write_text("#\n1 / 0\n")
    (tmp_path / "broken_for_check.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    for path in ("head", "Head", "Head.method"):
        found = grads("lm_head", f"mine_for_check:{path}")
        assert found.passed and found.candidate == f"mine_for_check:{path}"
    for name, message in (
        ("mine_for_check:number", "no callable number"),
        ("mine_for_check:nothing", "no callable nothing"),
        ("nowhere_at_all:f", "cannot import nowhere_at_all"),
        ("../mine_for_check:head", "no name of a module"),
        ("mine_for_check.py:head", "cannot import mine_for_check.py"),
        ("ends_for_check:f", r"cannot import ends_for_check: SystemExit: 0 \(ends_for_check.py, l"),
        ("divides_for_check:f", r"ZeroDivisionError: .* \(divides_for_check.py, line 2\)"),
        ("broken_for_check:f", r"SyntaxError: .*broken_for_check.py, line 1"),
        ("mine_for_check:Needs", r"raised TypeError: .*give a function, or a class whose arg"),
        ("mine_for_check:Silent", "a Silent cannot be called"),
        ("triton", "known ones are ascend, pytorch, module:callable"),
        (":f", "known ones are"),
        ("m:", "known ones are"),
    ):
        with pytest.raises(InputError, match=message):
            check("lm_head", name, **SMALL)
    with pytest.raises(InputError, match="candidate is a int"):
        check("lm_head", 3, **SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"op": "softmax"}, r"op 'softmax'.*lm_head"),
        ({"dtype": "fp8"}, "out of the contract's scope"),
        ({"dtype": torch.float64}, "judges fp32, bf16, fp16"),
        ({"device": "gpu"}, r"device 'gpu'.*auto, cpu, npu"),
        ({"batch": 0}, "batch=0: want at least 1"),
        ({"vocab": -1}, "vocab=-1"),
        ({"input_mode": "zeros"}, "random, constant"),
        ({"grad_mode": "twos"}, "random, ones"),
        ({"seed": 2**63}, "seed=9223372036854775808: want a whole number of 64 bits"),
        ({"grad_seed": -(2**63) - 1}, "grad_seed=-"),
        ({"input_mode": "constant", "constant_value": 1e39}, r"constant_value=1e\+39: fp32 holds"),
        (
            {"input_mode": "constant", "constant_value": 7e4, "dtype": "fp16"},
            "fp16 holds numbers from -65504 to 65504",
        ),
        ({"input_mode": "constant", "constant_value": float("nan")}, "constant_value=nan"),
        ({"vocab": 10**12}, r"vocab=1000000000000.* takes at least [\d,]+ bytes; this machine has"),
        ({"batch": 10**30}, "bytes; this machine has"),
    ],
)
def test_what_is_not_known_is_refused(options, message):
    given = {"op": "lm_head", "candidate": "pytorch"} | SMALL | options
    with pytest.raises(InputError, match=message):
        check(given.pop("op"), given.pop("candidate"), **given)


def test_a_device_that_is_not_there():
    if hasattr(torch, "npu"):
        pytest.skip("there may be one here")
    with pytest.raises(MissingError, match="workbench doctor"):
        check("lm_head", **(SMALL | {"device": "npu"}))
    assert check("lm_head", **(SMALL | {"device": "auto"})).backend == "twin"


def test_auto_takes_an_npu_only_where_all_it_needs_is_there(monkeypatch):
    works = types.SimpleNamespace(is_available=lambda: True)
    module = types.ModuleType("torch_npu")
    module.npu = works
    monkeypatch.setitem(sys.modules, "torch_npu", module)
    monkeypatch.setattr(cann, "device_reasons", list)
    assert checker._device("auto") == checker._device("npu") == "npu"
    monkeypatch.setattr(cann, "device_reasons", lambda: ["no CANN"])  # torch_npu works without
    assert checker._device("auto") == "cpu"
    with pytest.raises(MissingError, match=r"device npu: no CANN\. `workbench doctor`"):
        checker._device("npu")
    monkeypatch.setattr(cann, "device_reasons", list)
    works.is_available = lambda: False
    assert checker._device("auto") == "cpu"
    monkeypatch.setitem(sys.modules, "torch_npu", None)  # import raises
    assert checker._device("auto") == "cpu"
