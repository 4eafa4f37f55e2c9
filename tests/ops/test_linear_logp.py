"""linear_logp: the bits of the LM head, then the log-probability, without their logits."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import ARCHS, DTYPES, bits
from linear_kit import ROWS, H, InSequence, V, assert_same_bits, run, tensors

import workbench as wb
from workbench.errors import ConfigError, InputError, MissingError
from workbench.numerics.bounds.linear_logp import Heights, linear_logp_bounds
from workbench.numerics.contract import contract
from workbench.ops import (
    AscendLinearLogpOp,
    NativeBatchInvariantLogpOp,
    NativeLinearLogpOp,
    NativeLMHeadOp,
)

# The package has the module itself under the function's name, and that is callable.
linear = sys.modules["workbench.ops.linear_logp"]
TESTS = Path(__file__).resolve().parent.parent
each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
# One row and one column at a time; a few; several with a ragged last; all at once.
CHUNKS = (1, 1500, 9000, 1 << 26)


# ---- the bits of the two operators ---------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("logits_dtype", [None, torch.float32], ids=["rounded", "fp32"])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
def test_the_bits_of_the_two_operators(dtype, logits_dtype, biased):
    """Results and gradients, whatever the chunks; ignored rows among them."""
    hidden, weight, bias, *rest = tensors(dtype)
    given = (hidden, weight, bias if biased else None, *rest)
    want = run(InSequence(), *given, logits_dtype=logits_dtype)
    assert want[2].count_nonzero() and want[3].count_nonzero()
    for chunk in CHUNKS:
        got = run(AscendLinearLogpOp(chunk_bytes=chunk), *given, logits_dtype=logits_dtype)
        assert_same_bits(got, want, chunk)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", ["output", "weight_stationary"])
def test_the_bits_of_other_configurations(arch, schedule):
    config = wb.KernelConfig(tile_length=256, max_blocks=7, arch=arch, schedule=schedule)
    logp_config = wb.KernelConfig(tile_length=64, max_blocks=3, arch=arch)
    hidden, *rest = tensors(rows=(5,), width=1000, vocab=300)
    given = (hidden / 64, *rest)  # logits of size 1: no term drowns the others
    want = run(InSequence(config, logp_config), *given)
    default = run(InSequence(), *given)
    differ = [(bits(a) != bits(b)).any() for a, b in zip(want, default, strict=True)]
    assert any(differ), "the configuration is in no bit: this would be no test"
    for chunk in (1500, 1 << 26):
        op = AscendLinearLogpOp(config, logp_config=logp_config, chunk_bytes=chunk)
        assert_same_bits(run(op, *given), want)


def test_the_log_probability_takes_architecture_switches_and_blocks_of_the_head(monkeypatch):
    built = []
    real = linear.built
    monkeypatch.setattr(linear, "built", lambda *a: (built.append(a[:2]), real(*a))[1])
    config = wb.KernelConfig(
        tile_length=64, max_blocks=7, arch="dav-3510", switches={"overflow": "saturate"}
    )
    op = AscendLinearLogpOp(config)
    run(op, *tensors())
    keys = {key for name, key in built if name == "batch_invariant_logp"}
    (used,) = map(wb.KernelConfig.from_key, keys)
    assert used == op.logp_config and dict(used.switches) == {"overflow": "saturate"}
    assert (used.arch, used.max_blocks, used.tile_length) == ("dav-3510", 7, 4096)


def test_a_switch_of_the_head_reaches_the_bits_of_the_log_probability():
    """A gradient of the logits beyond fp16: Inf, or with "saturate" the largest number."""
    config = wb.KernelConfig(switches={"overflow": "saturate"})
    hidden, weight = torch.ones(1, 8, dtype=torch.float16), torch.zeros(2, 8, dtype=torch.float16)
    weight[:, 0] = torch.tensor([2.0**-10, 0.0])
    given = (hidden, weight, None, torch.tensor([0]), torch.tensor([1e6]), torch.zeros(1))
    got = run(AscendLinearLogpOp(config), *given)
    assert got[2][0, 0] == 65504 * 2.0**-10
    beside = wb.KernelConfig(switches={"overflow": "saturate"})
    assert_same_bits(got, run(InSequence(config, beside), *given))
    # Control: a log-probability without the switch has an Inf there, and other bits.
    without = run(AscendLinearLogpOp(config, logp_config=wb.KernelConfig()), *given)
    assert without[2][0, 0] != got[2][0, 0]


def test_forward_fp32_is_of_fp32_logits():
    given = tensors(torch.bfloat16)
    want = run(InSequence(), *given, logits_dtype=torch.float32)
    assert_same_bits(run(AscendLinearLogpOp().forward_fp32, *given), want)
    # Control: the rounding in between is in the bits.
    assert (bits(want[0]) != bits(run(InSequence(), *given)[0])).any()


@pytest.mark.parametrize("need", ["hidden", "weight", "bias"])
@pytest.mark.parametrize("chunk", [1500, 1 << 26])
def test_only_the_gradients_that_are_wanted(need, chunk):
    hidden, weight, bias, target, grad_logp, _ = tensors()
    every = dict(zip(("hidden", "weight", "bias"), (hidden, weight, bias), strict=True))
    want = {name: t.clone().requires_grad_() for name, t in every.items()}
    InSequence()(want["hidden"], want["weight"], target, want["bias"]).backward(grad_logp)
    got = {n: t.clone().requires_grad_(n == need) for n, t in every.items()}
    op = AscendLinearLogpOp(chunk_bytes=chunk)
    op(got["hidden"], got["weight"], target, got["bias"]).backward(grad_logp)
    for name in every:
        if name == need:
            assert_same_bits([got[name].grad], [want[name].grad])
        else:
            assert got[name].grad is None
    with torch.no_grad():
        assert not op(got["hidden"], weight, target).requires_grad
    assert not op(hidden, weight, target).requires_grad


def test_control_a_sum_cut_elsewhere_has_other_bits(monkeypatch):
    """The gradients of hidden summed over two halves of the vocabulary, as a chunk of columns in
    the wrong pass would: the bits show it."""
    given = tensors(width=300, vocab=300)
    want = run(InSequence(), *given)
    whole = linear.head_vjp

    def halves(g, h, w, *rest, **needs):
        if needs.get("need_weight", True) or len(w) != 300:
            return whole(g, h, w, *rest, **needs)
        (a, *_), (b, *_) = (
            whole(g[:, part], h, w[part], *rest, **needs) for part in (slice(150), slice(150, 300))
        )
        return a + b, None, None

    monkeypatch.setattr(linear, "head_vjp", halves)
    got = run(AscendLinearLogpOp(), *given)
    assert_same_bits([*got[:2], *got[3:]], [*want[:2], *want[3:]])
    assert (bits(got[2]) != bits(want[2])).any()


def test_control_a_target_in_the_wrong_chunk_is_seen(monkeypatch):
    """Without the column that stands in for a target of another chunk, the gradient of the weight
    is wrong."""
    given = tensors()
    want = run(InSequence(), *given)
    right = linear._Chunks.gradient

    def misplaced(self, rows, lse, grads, low, high):
        if (low, high) != (0, self.vocab):
            target = self.target[rows]
            inside = torch.where((target >= low) & (target < high), target - low, 0)
            logits = self.logits(rows, low, high)
            return self.logp.grad(logits, inside, lse[rows], grads[0][rows], grads[1][rows])
        return right(self, rows, lse, grads, low, high)

    monkeypatch.setattr(linear._Chunks, "gradient", misplaced)
    got = run(AscendLinearLogpOp(chunk_bytes=9000), *given)
    assert_same_bits(got[:3], want[:3])
    assert (bits(got[3]) != bits(want[3])).any()


# ---- targets: ignored, at the edges, outside -----------------------------------------------------


@pytest.mark.parametrize("ignore_index", [-100, -1, 0, 1, 4, 64, 2**40])
@pytest.mark.parametrize("chunk", [1500, 1 << 26])
def test_any_ignore_index(ignore_index, chunk):
    """One inside the vocabulary too: a chunk's own column numbers must not meet it."""
    hidden, weight, bias, target, *grads = tensors()
    target[target == -100] = ignore_index
    given = (hidden, weight, bias, target, *grads)
    want = run(InSequence(), *given, ignore_index=ignore_index)
    got = run(AscendLinearLogpOp(chunk_bytes=chunk), *given, ignore_index=ignore_index)
    assert_same_bits(got, want)
    ignored = target == ignore_index
    assert ignored.sum() >= 2 and not got[0][ignored].any() and not got[2][ignored].any()


@pytest.mark.parametrize("chunk", [1500, 1 << 26])
def test_every_target_column(chunk):
    """Each token once: in every place of every chunk, first and last included."""
    given = tensors(rows=(V,), width=16)
    target = torch.arange(V)
    given = (*given[:3], target, *given[4:])
    assert_same_bits(run(AscendLinearLogpOp(chunk_bytes=chunk), *given), run(InSequence(), *given))


def test_the_logits_of_ignored_rows_are_not_computed(monkeypatch):
    given = tensors()
    target, seen = given[3].reshape(-1), []
    right = linear._Chunks.logits

    def watched(self, rows, *span):
        seen.extend(rows.tolist())
        return right(self, rows, *span)

    monkeypatch.setattr(linear._Chunks, "logits", watched)
    run(AscendLinearLogpOp(chunk_bytes=1500), *given)
    active = set((target != -100).nonzero()[:, 0].tolist())
    assert set(seen) == active and len(active) == 16


@pytest.mark.parametrize("chunk", [1500, 1 << 26])
def test_all_rows_ignored(chunk):
    hidden, weight, bias, target, *grads = tensors()
    given = (hidden, weight, bias, torch.full_like(target, -100), *grads)
    got = run(AscendLinearLogpOp(chunk_bytes=chunk), *given)
    assert_same_bits(got, run(InSequence(), *given))
    assert not any(bits(t).any() for t in got)  # +0 everywhere


@pytest.mark.parametrize("chunk", [1500, 1 << 26])
@pytest.mark.parametrize("where", ["weight", "ignored hidden", "active hidden", "bias"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_not_finite(chunk, where, value):
    """The same NaNs in the same places: zero times Inf in an ignored row's gradient too."""
    hidden, weight, bias, *rest = tensors()
    place = {"weight": weight[7], "bias": bias[7:]}
    place |= {"ignored hidden": hidden[0, 3], "active hidden": hidden[0, 4]}
    place[where][0] = value
    given = (hidden, weight, bias, *rest)
    want = run(InSequence(), *given)
    assert any(t.isnan().any() for t in want)
    assert_same_bits(run(AscendLinearLogpOp(chunk_bytes=chunk), *given), want)


@each_dtype
@pytest.mark.parametrize("chunk", [1500, 1 << 26])
@pytest.mark.parametrize("bad", [-1, V, 2**40, -(2**62)])
def test_a_target_outside(dtype, chunk, bad):
    hidden, weight, bias, target, *grads = tensors(dtype)
    target[1, 4] = bad
    op = AscendLinearLogpOp(chunk_bytes=chunk)
    for call in (op, NativeLinearLogpOp()):
        with pytest.raises(InputError) as caught:
            call(hidden, weight, target, bias)
        words = ["target[1, 4]", str(bad), "0 to 64", "ignore_index=-100", "1 of 18"]
        assert all(word in str(caught.value) for word in words), str(caught.value)
    given = (hidden, weight, bias, target, *grads)
    got = run(op, *given, validate=False)
    assert_same_bits(got, run(InSequence(), *given, validate=False))
    nan = got[0].isnan()
    assert nan.sum() == 1 and nan[1, 4] and got[2][1, 4].isnan().all()
    assert not got[2][0].isnan().any()


def test_int32_targets():
    given = tensors()
    assert_same_bits(
        run(AscendLinearLogpOp(), *given[:3], given[3].int(), *given[4:]),
        run(AscendLinearLogpOp(), *given),
    )


# ---- accuracy ------------------------------------------------------------------------------------


@each_dtype
def test_accuracy(dtype, record_property):
    """Within the bound derived from the heights of the sums; the contract's cell is reported."""
    g = torch.Generator().manual_seed(123)
    hidden, weight = (torch.randn(s, generator=g).to(dtype) for s in ((2, 16, 4096), (257, 4096)))
    target = torch.randint(257, (2, 16), generator=g)
    target[0, 0] = -100
    upstream = torch.randn(2, 16, generator=g)
    heights = Heights.any_order(32, 4096, 257)
    height = wb.declared_order("lm_head", wb.KernelConfig(), n=4096).height
    heights = Heights(height, heights.softmax, heights.grad_hidden, heights.grad_weight)
    bounds = linear_logp_bounds(hidden, weight, target, upstream=upstream, heights=heights)
    got = run(AscendLinearLogpOp(), hidden, weight, None, target, upstream, torch.zeros(2, 16))
    for name, t in zip(("logp", "hidden", "weight"), (got[0], *got[2:]), strict=True):
        bounded = bounds[name]
        assert ((t.double() - bounded.exact).abs() <= bounded.bound).all(), name
    native = NativeLinearLogpOp()(hidden, weight, target)
    exact = bounds["logp"].exact
    found = contract().judge(got[0], native, "forward_accuracy", "linear_logp", dtype, exact=exact)
    record_property("forward_accuracy of linear_logp", str(found))
    # Controls: a column dropped from the head, and a sign swapped in backward, are outside.
    dropped = hidden.clone()
    dropped[..., 100] = 0
    off = AscendLinearLogpOp()(dropped, weight, target).double() - exact
    assert (off.abs() > bounds["logp"].bound).any()
    assert ((-got[2].double() - bounds["hidden"].exact).abs() > bounds["hidden"].bound).any()


@each_dtype
def test_native_is_the_two_natives_in_sequence(dtype):
    given = tensors(dtype)

    class Natives:
        def __call__(self, hidden, weight, target, bias, logits_dtype=None, **options):
            logits = NativeLMHeadOp().forward_fp32(hidden, weight, bias)
            logits = logits.to(logits_dtype or hidden.dtype)
            return NativeBatchInvariantLogpOp()(logits, target, **options)

    for wide in (None, torch.float32):
        want = run(Natives(), *given, logits_dtype=wide)
        assert_same_bits(run(NativeLinearLogpOp(), *given, logits_dtype=wide), want)
    wide = run(NativeLinearLogpOp().forward_fp32, *given)
    assert_same_bits(wide, run(NativeLinearLogpOp(), *given, logits_dtype=torch.float32))


# ---- invariance ----------------------------------------------------------------------------------


def arrivals(hidden, target):
    """Name -> log-probs [4, 40] by `call(hidden, target)`, a batch of the real sample each."""
    order = [2, 0, 3, 1]
    back = np.argsort(order).tolist()
    junk = torch.full((4, 5, hidden.shape[-1]), float("nan"), dtype=hidden.dtype)
    pad = torch.full((4, 5), -100)

    def flat(call):
        return call(hidden.reshape(160, -1), target.reshape(-1)).reshape(4, 40)

    def rows_of_7(call):
        h, t = hidden.reshape(160, -1), target.reshape(-1)
        parts = [call(h[i : i + 7], t[i : i + 7]) for i in range(0, 160, 7)]
        return torch.cat(parts).reshape(4, 40)

    return {
        "packed": flat,
        "a text at a time": lambda call: torch.stack(list(map(call, hidden, target))),
        "chunks of 7 rows": rows_of_7,
        "permuted": lambda call: call(hidden[order], target[order])[back],
        "padded right": lambda call: call(
            torch.cat([hidden, junk], 1), torch.cat([target, pad], 1)
        )[:, :40],
        "padded left": lambda call: call(torch.cat([junk, hidden], 1), torch.cat([pad, target], 1))[
            :, 5:
        ],
    }


def test_log_probs_of_the_real_sample_do_not_see_the_batch():
    """T1 to T6 on log-probs: sampler batches against trainer batches, chunks of every size."""
    sample = wb.samples.smollm2()
    hidden, weight = sample.hidden.bfloat16(), sample.weight
    op = AscendLinearLogpOp()
    want = op(hidden, weight, sample.target)
    assert -20 < want.mean() < 0  # real tokens, real probabilities
    quick = wb.KernelConfig(schedule="weight_stationary", max_blocks=7)
    for i, (name, batch) in enumerate(arrivals(hidden, sample.target).items()):
        # With chunks that no batch is a multiple of, and without any.
        other = AscendLinearLogpOp(quick, chunk_bytes=13 * 4096 * 2 if i % 2 else 1 << 26)
        got = batch(lambda h, t, other=other: other(h, weight, t))
        assert_same_bits([got], [want], name)
        found = contract().agreement(want, got, dtype="bf16")
        assert (found.max_abs, found.approx_kl, found.clip_fraction) == (0, 0, 0)
    # Control: a sampler with another order of summation is seen in the bits and in the KL.
    config = wb.KernelConfig(tile_length=64, arch="dav-3510")
    other = AscendLinearLogpOp(config)(hidden, weight, sample.target, logits_dtype=torch.float32)
    mine = op(hidden, weight, sample.target, logits_dtype=torch.float32)
    found = contract().agreement(mine, other, dtype="bf16")
    assert (bits(mine) != bits(other)).any() and found.max_abs > 0 and found.approx_kl > 0


def test_gradients_of_rows_do_not_see_the_batch():
    hidden, weight, bias, target, grad_logp, grad_lse = tensors(torch.bfloat16, rows=(33,))
    want = run(AscendLinearLogpOp(), hidden, weight, bias, target, grad_logp, grad_lse)[2]
    for low, high in ((0, 1), (32, 33), (5, 22)):
        part = (t[low:high] for t in (target, grad_logp, grad_lse))
        for chunk in (1500, 1 << 26):
            op = AscendLinearLogpOp(chunk_bytes=chunk)
            got = run(op, hidden[low:high], weight, bias, *part)[2]
            assert_same_bits([got], [want[low:high]])
            part = (t[low:high] for t in (target, grad_logp, grad_lse))


# ---- memory --------------------------------------------------------------------------------------

MEASURE = """
    import re, sys
    import torch
    from workbench import KernelConfig
    from workbench.ops import AscendBatchInvariantLogpOp, AscendLinearLogpOp, AscendLMHeadOp

    CONFIG = KernelConfig(schedule="weight_stationary")  # the quicker one on the twin

    def status(name):
        text = open("/proc/self/status").read()
        return int(re.search(name + r":\\s+(\\d+) kB", text)[1]) << 10

    def in_sequence(hidden, weight, target):
        logits = AscendLMHeadOp(CONFIG).forward_fp32(hidden, weight)
        return AscendBatchInvariantLogpOp()(logits, target)

    torch.set_num_threads(2)
    rows, vocab = 59, 60000
    hidden = torch.randn(rows, 32).bfloat16()
    weight = torch.randn(vocab, 32).bfloat16()
    target = torch.randint(vocab, (rows,))
    run = {call}
    h, w = hidden[:2].clone().requires_grad_(), weight[:600].clone().requires_grad_()
    run(h, w, target[:2] % 600).sum().backward()  # build, load, start threads
    open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
    before = status("VmRSS")
    hidden.requires_grad_(), weight.requires_grad_()
    logp = run(hidden, weight, target)
    logp.sum().backward()
    growth = status("VmHWM") - before
    held = sum(t.nbytes for t in (logp, hidden.grad, weight.grad))
    assert hidden.grad.isfinite().all() and weight.grad.count_nonzero()
    print((growth - held) / 2**20)
"""


def excess(call: str) -> float:
    """MiB of peak memory of forward and backward beyond inputs and outputs."""
    code = textwrap.dedent(MEASURE).format(call=call)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


@pytest.mark.serial
@pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc (Linux)"
)
def test_the_logits_are_never_held():
    """59 x 60,000 fp32 logits are 13.5 MiB, and so is their gradient; a chunk here is 4."""
    op = "AscendLinearLogpOp(CONFIG, chunk_bytes=4 << 20).forward_fp32"
    assert excess(op) <= 4 + 8
    # Control: the two operators hold both.
    assert excess("in_sequence") >= 2 * 13.5 - 3


# ---- what is refused -----------------------------------------------------------------------------

WRONG = {
    "target shape": ({"target": torch.zeros(3, dtype=torch.int64)}, ["(3,)", "(2, 9, 70)", "row"]),
    "target float": ({"target": torch.zeros(ROWS)}, ["target is fp32", "int64 or int32"]),
    "target a list": ({"target": [0] * 18}, ["target is a list"]),
    "target elsewhere": (
        {"target": torch.zeros(ROWS, dtype=torch.int64, device="meta")},
        ["target is on meta", "one device"],
    ),
    "hidden fp64": ({"hidden": torch.zeros(*ROWS, H).double()}, ["hidden is float64"]),
    "hidden 1-D": ({"hidden": torch.zeros(H)}, ["hidden has shape (70,)"]),
    "weight bf16": ({"weight": torch.zeros(V, H).bfloat16()}, ["weight is bf16", "one dtype"]),
    "bias shape": ({"bias": torch.zeros(V + 1)}, ["bias has shape (66,)"]),
    "no vocabulary": (
        {"weight": torch.zeros(0, H), "bias": torch.zeros(0)},
        ["over no logits is not defined"],
    ),
    "ignore_index": ({"ignore_index": 1.5}, ["ignore_index is 1.5"]),
    "logits_dtype": ({"logits_dtype": torch.float16}, ["fp32 inputs come as fp32"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(name):
    hidden, weight, bias, target, *_ = tensors()
    changes, words = WRONG[name]
    given = {"hidden": hidden, "weight": weight, "target": target, "bias": bias, **changes}
    for call in (AscendLinearLogpOp(), NativeLinearLogpOp(), wb.ops.linear_logp):
        with pytest.raises(InputError) as caught:
            call(**given)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_wrong_operators():
    for chunk in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="chunk_bytes"):
            AscendLinearLogpOp(chunk_bytes=chunk)
    with pytest.raises(InputError, match="backend"):
        AscendLinearLogpOp(backend="gpu")
    with pytest.raises(InputError, match="backward"):
        AscendLinearLogpOp(backward="fast")
    with pytest.raises(ConfigError, match="config is for dav-3510, logp_config for dav-2201"):
        AscendLinearLogpOp(wb.KernelConfig(arch="dav-3510"), logp_config=wb.KernelConfig())
    with pytest.raises(ConfigError, match="multiple of"):
        AscendLinearLogpOp(logp_config=wb.KernelConfig(tile_length=100))
    op = AscendLinearLogpOp(wb.KernelConfig(arch="dav-3510"), chunk_bytes=77)
    assert op.logp_config.arch == "dav-3510" and "77" in repr(op) and "dav-3510" in repr(op)


def test_a_second_derivative_is_refused():
    hidden, weight, _, target, *_ = tensors()
    leaf = hidden.clone().requires_grad_()
    logp = AscendLinearLogpOp()(leaf, weight, target)
    (grad,) = torch.autograd.grad(logp.sum(), leaf, create_graph=True)
    with pytest.raises(InputError, match="AscendLMHeadOp, then AscendBatchInvariantLogpOp"):
        grad.sum().backward()
    # The way that the message names works.
    (grad,) = torch.autograd.grad(InSequence()(leaf, weight, target).sum(), leaf, create_graph=True)
    grad.pow(2).sum().backward()
    assert leaf.grad.count_nonzero()


# ---- backward="matmul", and the function ---------------------------------------------------------


@each_dtype
def test_backward_by_matmul(dtype):
    """No bits are promised; the values are those of the deterministic one within the contract."""
    given = tensors(dtype)
    want = run(AscendLinearLogpOp(), *given)
    for chunk in (1500, 1 << 26):
        got = run(AscendLinearLogpOp(backward="matmul", chunk_bytes=chunk), *given)
        assert_same_bits(got[:2], want[:2])
        for a, b in zip(got[2:], want[2:], strict=True):
            assert contract().judge(a, b, "gradient_accuracy", "lm_head", dtype).passed


def test_the_function(monkeypatch):
    hidden, weight, bias, target, *_ = tensors()
    monkeypatch.delenv("WORKBENCH_OPS", raising=False)
    twin = AscendLinearLogpOp()(hidden, weight, target, bias)
    native = NativeLinearLogpOp()(hidden, weight, target, bias)
    assert (bits(twin) != bits(native)).any()
    call = wb.ops.linear_logp
    assert_same_bits([call(hidden, weight, target, bias)], [twin])
    assert_same_bits([call(hidden, weight, target, bias, impl="native")], [native])
    assert_same_bits([call(hidden, weight, target, bias, chunk_bytes=1, impl="twin")], [twin])
    config = wb.KernelConfig(tile_length=64, arch="dav-3510")
    want = AscendLinearLogpOp(config)(hidden, weight, target, bias)
    assert_same_bits([call(hidden, weight, target, bias, config=config)], [want])
    logp, lse = call(hidden, weight, target, return_lse=True, ignore_index=-100)
    assert logp.shape == lse.shape == ROWS
    monkeypatch.setenv("WORKBENCH_OPS", "linear_logp=native")
    assert_same_bits([call(hidden, weight, target, bias)], [native])
    with pytest.raises(MissingError, match="native takes no chunk_bytes"):
        call(hidden, weight, target, bias, chunk_bytes=1)
    with pytest.raises(InputError, match="'gpu'"):
        call(hidden, weight, target, impl="gpu")


def test_the_function_breaks_the_graph():
    """It asks the registry, which nobody can trace; an operator made once is in one graph
    (test_torch.py). With a break the bits are right."""
    hidden, weight, bias, target, *_ = tensors()

    def loss(hidden):
        return wb.ops.linear_logp(hidden * 2, weight, target, bias).sum()

    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(loss, fullgraph=True, backend="aot_eager")(hidden)
    torch._dynamo.reset()
    leaves = [hidden.clone().requires_grad_() for _ in range(2)]
    for call, leaf in zip((torch.compile(loss, backend="aot_eager"), loss), leaves, strict=True):
        call(leaf).backward()
    assert_same_bits([leaves[0].grad], [leaves[1].grad])


def test_fake_gradients_lie_in_memory_as_the_real_ones():
    """Inductor asserts the strides that the fake promised; inputs here are transposed views."""
    hidden, weight, bias, target, *up = tensors()
    hidden = hidden.transpose(0, 1).contiguous().transpose(0, 1)
    weight, bias = weight.T.contiguous().T, bias.repeat_interleave(2)[::2]
    assert not (hidden.is_contiguous() or weight.is_contiguous() or bias.is_contiguous())
    op = AscendLinearLogpOp()
    _, lse = op(hidden, weight, target, bias, return_lse=True)
    rest = (True, True, True, -100, False, 1 << 20, *op._keys, "deterministic", "twin")
    call = torch.ops.workbench.linear_logp_grad.default
    arguments = (*up, hidden, weight, target, bias, lse)
    real = call(*arguments, *rest)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = call(*(mode.from_tensor(t) for t in arguments), *rest)
    assert [t.stride() for t in fake] == [t.stride() for t in real]
    assert [t.shape for t in fake] == [t.shape for t in real]


def test_the_module_is_the_function():
    assert wb.ops.linear_logp is linear
    assert linear.AscendLinearLogpOp is AscendLinearLogpOp
