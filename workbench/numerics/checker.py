"""`check`: a candidate against the reference of an operator, forward and gradients.

Every output is judged under the numerics contract. Exact fp64 results stand beside the reference,
so that a verdict says whose error it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from workbench import __version__
from workbench._result import Result
from workbench.build import cann
from workbench.build.config import KernelConfig
from workbench.errors import BuildError, CacheError, ConfigError, InputError, MissingError
from workbench.evidence import Evidence, evidence, fixture_id
from workbench.numerics import check_cases
from workbench.numerics.bits import compare_bits
from workbench.numerics.candidates import load_callable
from workbench.numerics.check_cases import CANDIDATES, Case, Draw, Truth
from workbench.numerics.contract import Judgement, Operand, contract
from workbench.numerics.memory import check_memory
from workbench.ops import registry
from workbench.ops.inputs import DTYPES

CONTRACT, BOUND, BITS_AND_BOUND = "contract", "bound", "bits and bound"


@dataclass(frozen=True)
class OutputResult(Result):
    """One output or gradient of one case.

    Attributes:
        index: 0, 1, …: the outputs, then the gradients.
        name: "" for an operator's only output, else its name, or "gradient:hidden" and so on.
        shape, dtype: As the reference has them, dtype as "torch.float32".
        max_abs, mean_abs, max_rel, atol, rtol, tolerance_ratio, tolerance_ratio_exact,
            reference_ratio, max_ulp_of_sum, cause, reason, worst: As in `Judgement`. The numbers
            are None where there was nothing to judge: an exception, no gradient, another shape.
        passed: The verdict of the contract's cell.
        gate: What the verdict of the check rests on. "contract": the cell, so `gate_passed` is
            `passed`. For linear_logp, whose cell fp32 cannot keep in any order, "bits and bound"
            (raw bits of the two operators in sequence, and the bound that follows from the order)
            or for a user's callable "bound" (of the sequential order, to first order: a correct sum
            in an unusual order, sorted by sign for example, can exceed it); the cell's verdict
            stays as it is, and `reason` says where it does not decide.
        gate_passed: The verdict of the gate.
        bits_equal: Raw bits equal to those of the two operators in sequence; None: not asked.
        derived_ratio: Worst |candidate - exact| / derived bound; None: there is no bound.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    passed: bool
    gate: str
    gate_passed: bool
    reason: str
    cause: str | None = None
    max_abs: float | None = None
    mean_abs: float | None = None
    max_rel: float | None = None
    atol: float | None = None
    rtol: float | None = None
    tolerance_ratio: float | None = None
    tolerance_ratio_exact: float | None = None
    reference_ratio: float | None = None
    max_ulp_of_sum: float | None = None
    bits_equal: bool | None = None
    derived_ratio: float | None = None
    worst: dict[str, Any] | None = None

    def line(self) -> str:
        def number(name: str) -> str:
            value = getattr(self, name)
            return f"{name}=-" if value is None else f"{name}={value:.3e}"

        tolerance = "tol=-"
        if self.atol is not None:
            tolerance = f"tol=(atol={self.atol:.3e}, rtol={self.rtol:.3e})"
        parts = [
            f"output={self.index}",
            *([self.name] if self.name else []),
            f"shape={tuple(self.shape)} dtype={self.dtype}",
            *map(number, ("max_abs", "mean_abs", "max_rel")),
            f"{tolerance} passed={self.passed}",
            *([f"cause={self.cause}"] if self.cause else []),
            *map(number, ("tolerance_ratio", "tolerance_ratio_exact", "reference_ratio")),
            number("max_ulp_of_sum"),
        ]
        if self.gate != CONTRACT:
            parts.append(f"gate={self.gate.replace(' ', '-')} gate_passed={self.gate_passed}")
            parts.append(f"{number('derived_ratio')} bits_equal={self.bits_equal}")
        if self.reason:
            parts.append(f"({self.reason})")
        return " ".join(parts)


@dataclass(frozen=True)
class CaseResult(Result):
    """One case: its outputs, and the id of its inputs."""

    name: str
    passed: bool
    fixture_id: str
    outputs: tuple[OutputResult, ...]


@dataclass(frozen=True)
class CheckResult(Result):
    """What `check` found.

    Attributes:
        suite: The operator.
        passed: Every output's gate passed.
        pass_rate: Share of the outputs whose gate passed.
        candidate: "ascend-lm_head", "pytorch-lm_head" or the user's "module:callable".
        backend: "twin" or "npu" of an Ascend operator; else the device torch ran on.
        dtype: "fp32", "bf16" or "fp16".
        cases: One result for each case.
        options: The flags that decide the inputs.
        contract: Digest of the contract's file.
        version: Of the workbench.
        evidence: Backend, architecture, configuration, inputs of the first case, versions.
    """

    suite: str
    passed: bool
    pass_rate: float
    candidate: str
    backend: str
    dtype: str
    cases: tuple[CaseResult, ...]
    options: dict[str, Any]
    contract: str
    version: str
    evidence: Evidence = field(repr=False)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"case": case.name} | {k: v for k, v in output.to_dict().items() if k != "worst"}
            for case in self.cases
            for output in case.outputs
        ]

    def title(self) -> str:
        return f"suite={self.suite} passed={self.passed} pass_rate={self.pass_rate:.4f}"

    def __str__(self) -> str:
        lines = [
            self.title(),
            f"candidate={self.candidate} backend={self.backend} passed={self.passed} "
            f"pass_rate={self.pass_rate:.4f}",
        ]
        for case in self.cases:
            lines += [f"  case={case.name} {output.line()}" for output in case.outputs]
        return "\n".join(lines)


def check(
    op: str,
    candidate: str | Callable = "ascend",
    *,
    device: str = "auto",
    dtype: str | torch.dtype = "fp32",
    batch: int = 2,
    seq: int = 16,
    vocab: int = 257,
    normalized_dim: int = 4096,
    input_mode: str = "random",
    constant_value: float = 0.25,
    token_value: int = 0,
    seed: int = 123,
    grad_seed: int = 123,
    check_grad: bool = False,
    grad_mode: str = "random",
    config: KernelConfig | None = None,
) -> CheckResult:
    """Check a candidate of an operator against its reference under the contract.

    The reference is the operator's Native class on the CPU: fp32 inside, a row at a time. A
    candidate is called as the operator's `forward` is: lm_head (hidden [batch, seq, H], weight
    [V, H][, bias [V]]), batch_invariant_logp (logits [batch, seq, V], target [batch, seq] with
    ignored rows, -100), det_gemm (a [batch*seq, H], b [H, V]), linear_logp (hidden, weight, target
    [, bias]). It returns one tensor, of the inputs' dtype (log-probs: fp32), and may not change its
    inputs. Whatever it raises, SystemExit too, is a failed verdict; what keeps an Ascend operator
    from being built is raised as it is.

    Args:
        op: "lm_head", "batch_invariant_logp", "det_gemm" or "linear_logp".
        candidate: "ascend" (the twin or an NPU), "pytorch" (plain torch on the whole batch),
            "module:callable" (the current folder is searched first; a class is made without
            arguments), or a callable.
        device: "cpu", "npu", or "auto": an NPU where there is one.
        dtype: Of the inputs: "fp32", "bf16", "fp16" or the torch dtype.
        batch, seq, vocab, normalized_dim: Sizes; `normalized_dim` is H.
        input_mode: "random": N(0, 1) and random targets; "constant": `constant_value` everywhere
            and `token_value` as every target.
        seed, grad_seed: Of the inputs and of the upstream gradient.
        check_grad: Judge the gradients too. A gradient that is missing fails.
        grad_mode: "random", or "ones", which cannot see a gradient that mixes up its upstream.
        config: Of the Ascend kernel (of linear_logp: the LM head's); None: the defaults.

    Raises:
        InputError: Unknown names, sizes below 1 or beyond this machine's memory, a seed beyond 64
            bits, a constant that the dtype does not hold, a candidate that cannot be imported or
            made, or what the contract refuses.
        ConfigError: A configuration that the Ascend kernel does not take.
        MissingError: `device="npu"` and there is none, or no compiler.
        BuildError, CacheError: The Ascend kernel does not compile, or cannot be kept.

    Example:
        >>> found = check("lm_head", "pytorch", device="cpu", normalized_dim=64, vocab=5)
        >>> found.passed, [case.name for case in found.cases][1]
        (True, 'lm_head-bias-torch.float32-2x16x64x5')
    """
    _check_names(op, device, input_mode, grad_mode)
    sizes = {"batch": batch, "seq": seq, "vocab": vocab, "normalized_dim": normalized_dim}
    for name, size in sizes.items():
        if size < 1:
            raise InputError(f"{name}={size}: want at least 1")
    for name, number in (("seed", seed), ("grad_seed", grad_seed)):
        if not -(2**63) <= number < 2**63:
            raise InputError(f"{name}={number}: want a whole number of 64 bits with its sign")
    short = contract().dtype(dtype)
    if input_mode == "constant":
        if not 0 <= token_value < vocab:
            raise InputError(f"token_value={token_value}: want a vocabulary id below {vocab}")
        most = torch.finfo(DTYPES[short]).max
        if not abs(constant_value) <= most:  # NaN too
            raise InputError(
                f"constant_value={constant_value}: {short} holds numbers from {-most:g} to {most:g}"
            )
    check_memory(check_cases.least_bytes(op, **sizes), f"{op} with " + _listed(sizes))
    draw = Draw(
        DTYPES[short], batch, seq, vocab, normalized_dim, input_mode, constant_value, token_value,
        seed,
    )  # fmt: skip
    kind, fn, title, where, backend = _candidate(op, candidate, _device(device), config)
    heights = check_cases.heights_of(config, draw) if _derived(op, kind) else None
    reference = check_cases.native(op)
    twice = None if kind == "user" else check_cases.sequence(op, kind, config, backend)
    found, first = [], None
    for case in check_cases.cases(op, draw, heights):
        if case.ours_only and kind == "user":
            continue
        first = first or case
        wanted = _run(reference, case, (grad_seed, grad_mode) if check_grad else None)
        if wanted.error or wanted.gradient_error:
            why = wanted.error or wanted.gradient_error
            raise InputError(f"the reference of {op} does not take {case.name}: {why}")
        upstream, ours = wanted.upstream, kind == "ascend"
        outputs = _judge(
            op,
            short,
            case,
            wanted,
            _run(fn, case, upstream, where, ours=ours),
            None if twice is None else _run(twice, case, upstream, where, ours=ours),
            case.truth(upstream),
            gate=_gate(op, kind),
            title=title,
        )
        passed = all(output.gate_passed for output in outputs)
        found.append(CaseResult(case.name, passed, fixture_id(*case.inputs.values()), outputs))
    assert first is not None
    verdicts = [output.gate_passed for case in found for output in case.outputs]
    options = {
        **sizes,
        "input_mode": input_mode,
        "constant_value": constant_value,
        "token_value": token_value,
        "seed": seed,
        "grad_seed": grad_seed,
        "check_grad": check_grad,
        "grad_mode": grad_mode,
    }
    proof = evidence(fn, *first.inputs.values())
    return CheckResult(
        suite=op,
        passed=all(verdicts),
        pass_rate=sum(verdicts) / len(verdicts),
        candidate=title,
        backend=backend,
        dtype=short,
        cases=tuple(found),
        options=options,
        contract=contract().digest,
        version=__version__,
        evidence=dataclasses.replace(proof, target=title, backend=backend),
    )


def _check_names(op: str, device: str, input_mode: str, grad_mode: str) -> None:
    for name, value, known in (
        ("op", op, registry.ops()),
        ("device", device, ("auto", "cpu", "npu")),
        ("input_mode", input_mode, ("random", "constant")),
        ("grad_mode", grad_mode, ("random", "ones")),
    ):
        if value not in known:
            raise InputError(f"{name} {value!r} is unknown; known ones are {', '.join(known)}")


def _listed(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _device(device: str) -> str:
    if device == "cpu":
        return device
    reasons = cann.why_no_npu()
    if not reasons:
        return "npu"
    if device == "auto":
        return "cpu"
    raise MissingError(f"device npu: {'; '.join(reasons)}. `workbench doctor` says what is missing")


def _candidate(
    op: str, candidate: str | Callable, device: str, config: KernelConfig | None
) -> tuple[str, Callable, str, str, str]:
    """Kind ("ascend", "pytorch" or "user"), callable, title, device and backend."""
    if candidate == "ascend":
        backend = "twin" if device == "cpu" else "npu"
        made = check_cases.ascend(op, config, backend)
        return "ascend", made, f"ascend-{op}", device, backend
    if config is not None:
        raise InputError("config is of the Ascend kernel: give it with the candidate ascend only")
    if candidate == "pytorch":
        return "pytorch", check_cases.plain_torch(op), f"pytorch-{op}", device, device
    if isinstance(candidate, str):
        return "user", load_callable(candidate, ", ".join(CANDIDATES)), candidate, device, device
    if not callable(candidate):
        raise InputError(
            f"candidate is a {type(candidate).__name__}; want a callable or one of "
            f"{', '.join(CANDIDATES)}"
        )
    name = getattr(candidate, "__name__", type(candidate).__name__)
    return "user", candidate, name, device, device


def _derived(op: str, kind: str) -> bool:
    """Whether the heights of the candidate's sums are declared; else partial sums bound them."""
    return op == "linear_logp" and kind == "ascend"


def _gate(op: str, kind: str) -> str:
    if op != "linear_logp":
        return CONTRACT
    return BOUND if kind == "user" else BITS_AND_BOUND


# ---- running -------------------------------------------------------------------------------------


@dataclass
class _Ran:
    """What a callable gave: outputs and gradients on the CPU, or why not; and the upstream."""

    outputs: list[torch.Tensor]
    upstream: list[torch.Tensor] | None = None
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    error: str = ""
    gradient_error: str = ""


def _run(
    fn: Callable,
    case: Case,
    upstream: list[torch.Tensor] | tuple[int, str] | None,
    device: str = "cpu",
    ours: bool = False,
) -> _Ran:
    """Call `fn`; `upstream`: the gradients of its outputs, or a seed and mode to draw them by.

    An operator of ours that cannot be built is no candidate that failed: that is raised.
    """
    inputs = {
        # A copy: what the candidate does to it must not reach the reference.
        name: tensor.detach()
        .to(device, copy=True)
        .requires_grad_(upstream is not None and name in case.wrt)
        for name, tensor in case.inputs.items()
    }
    ran = _Ran([])
    try:
        with torch.set_grad_enabled(upstream is not None):
            out = fn(*inputs.values(), **case.options)
        outputs = list(out) if isinstance(out, (tuple, list)) else [out]
        bad = next((_not_dense(o) for o in outputs if _not_dense(o)), "")
        if bad:
            ran.error = f"returned {bad}; want a tensor"
            return ran
        if len(outputs) > len(case.outputs):
            ran.error = f"returned {len(outputs)} tensors; want {len(case.outputs)}"
            return ran
        ran.outputs = [o.detach().cpu() for o in outputs]
        if isinstance(upstream, tuple):
            upstream = _upstream(ran.outputs, *upstream)
        ran.upstream = upstream
        if upstream is not None:
            _gradients(ran, outputs, inputs, case, upstream, ours)
    except BaseException as error:  # a candidate may raise anything: that is a failed verdict
        if _is_no_verdict(error, ours):
            raise
        ran.outputs, ran.error = [], f"raised {type(error).__name__}: {error}"[:300]
        return ran
    changed = [
        name
        for name, tensor in case.inputs.items()
        if not _same(tensor, inputs[name].detach().cpu())
    ]
    if changed:
        ran.error = f"changed its input {', '.join(changed)}"
    return ran


def _same(expected: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether the bits are equal; a tensor of another shape or dtype has others."""
    alike = (expected.shape, expected.dtype) == (got.shape, got.dtype)
    return alike and compare_bits(expected, got).equal


def _not_dense(value: Any) -> str:
    """What `value` is instead of a dense tensor; "" if it is one."""
    if value is None:
        return "None"
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    return "" if value.layout == torch.strided else f"a {value.layout} tensor"


def _is_no_verdict(error: BaseException, ours: bool) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return True
    return ours and isinstance(error, (ConfigError, MissingError, BuildError, CacheError))


def _gradients(
    ran: _Ran,
    outputs: list[torch.Tensor],
    inputs: dict[str, torch.Tensor],
    case: Case,
    upstream: Sequence[torch.Tensor],
    ours: bool,
) -> None:
    if not any(o.requires_grad for o in outputs):
        ran.gradient_error = "no gradient: the output does not require one (detached?)"
        return
    if [o.shape for o in outputs] != [g.shape for g in upstream]:
        ran.gradient_error = "no gradient: the output has another shape"
        return
    pairs = [
        (o, g.to(o.device, o.dtype))
        for o, g in zip(outputs, upstream, strict=True)
        if o.requires_grad
    ]
    try:
        grads = torch.autograd.grad(
            [o for o, _ in pairs],
            [inputs[name] for name in case.wrt],
            [g for _, g in pairs],
            allow_unused=True,
        )
    except BaseException as error:  # the forward result stays judged
        if _is_no_verdict(error, ours):
            raise
        ran.gradient_error = f"backward raised {type(error).__name__}: {error}"[:300]
        return
    sparse = next((_not_dense(g) for g in grads if g is not None and _not_dense(g)), "")
    if sparse:
        ran.gradient_error = f"a gradient is {sparse}; want a tensor"
        return
    ran.gradients = {
        name: None if grad is None else grad.detach().cpu()
        for name, grad in zip(case.wrt, grads, strict=True)
    }


def _upstream(outputs: Sequence[torch.Tensor], seed: int, mode: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    if mode == "ones":
        return [torch.ones_like(o) for o in outputs]
    return [torch.randn(o.shape, generator=generator).to(o.dtype) for o in outputs]


# ---- judging -------------------------------------------------------------------------------------


def _judge(
    op: str,
    dtype: str,
    case: Case,
    wanted: _Ran,
    got: _Ran,
    twice: _Ran | None,
    truth: dict[str, Truth],
    *,
    gate: str,
    title: str,
) -> tuple[OutputResult, ...]:
    """One result for each output of the reference, then for each gradient."""
    entries: list[tuple[str, str, torch.Tensor, torch.Tensor | None, torch.Tensor | None, str]] = []
    for i, name in enumerate(case.outputs):
        given = got.outputs[i] if i < len(got.outputs) else None
        same = twice.outputs[i] if twice is not None and i < len(twice.outputs) else None
        error = got.error or f"returned {len(got.outputs)} of {len(case.outputs)} outputs"
        entries.append(("forward_accuracy", name, wanted.outputs[i], given, same, error))
    for name, reference in wanted.gradients.items():
        assert reference is not None
        given = got.gradients.get(name)
        same = twice.gradients.get(name) if twice is not None else None
        error = got.error or got.gradient_error or "no gradient: it is None"
        label = f"gradient:{name}"
        entries.append(("gradient_accuracy", label, reference, given, same, error))
    found = []
    for index, (judgement, name, reference, given, same, error) in enumerate(entries):
        base: dict[str, Any] = {
            "index": index,
            "name": name,
            "shape": tuple(reference.shape),
            "dtype": str(reference.dtype),
            "gate": gate,
        }
        if given is None or got.error:
            why = error
        elif given.shape != reference.shape or given.dtype != reference.dtype:
            why = (
                f"is {given.dtype} {tuple(given.shape)}; want {reference.dtype} "
                f"{tuple(reference.shape)}"
            )
        else:
            why = ""
        if why or given is None:
            base |= {"passed": False, "gate_passed": False, "cause": "candidate", "reason": why}
            found.append(OutputResult(**base))
            continue
        known = truth[name]
        verdict = contract().judge(
            Operand(given, "candidate", title),
            Operand(reference, "reference", f"native-{op}"),
            judgement,
            op,
            dtype,
            exact=Operand(known.exact, "exact", "fp64"),
            scale=known.scale,
        )
        found.append(_output(base, verdict, given, same, twice, known))
    return tuple(found)


def _output(
    base: dict[str, Any],
    verdict: Judgement,
    given: torch.Tensor,
    same: torch.Tensor | None,
    twice: _Ran | None,
    known: Truth,
) -> OutputResult:
    numbers = {
        name: getattr(verdict, name)
        for name in (
            *("passed", "cause", "reason", "max_abs", "mean_abs", "max_rel", "atol", "rtol"),
            *("tolerance_ratio", "tolerance_ratio_exact", "reference_ratio", "max_ulp_of_sum"),
            "worst",
        )
    }
    if base["gate"] == CONTRACT:
        return OutputResult(**base, **numbers, gate_passed=verdict.passed)
    assert known.bound is not None
    error = (given.double() - known.exact).abs()
    ratio = float(torch.where(error == 0, error, error / known.bound).max())
    equal = None
    if twice is not None:
        equal = same is not None and compare_bits(same, given).equal
    gate_passed = ratio <= 1 and equal is not False  # `not ratio > 1` would let a NaN through
    if verdict.passed != gate_passed:
        numbers["reason"] = "; ".join(
            filter(None, (verdict.reason, "linear_logp rests on gate_passed"))
        )
    return OutputResult(
        **base,
        **numbers,
        gate_passed=gate_passed,
        bits_equal=equal,
        derived_ratio=ratio,
    )
