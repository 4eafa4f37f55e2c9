"""Operators as `invariance` takes them: which inputs have rows, and what one row's result is.

| operator | rows | shared | travels with a row | a row's result |
|---|---|---|---|---|
| lm_head | hidden | weight, bias | | logits [V] |
| batch_invariant_logp | logits | | target | logp, lse |
| det_gemm | a | b (as [N, K]) | | [N] |
| linear_logp | hidden | weight | target | logp, lse |

The gradient of the rows is judged in the same way: beside each row then also travels the upstream
gradient of its results. Gradients of what is shared sum over rows and are not judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch

from workbench.build import config as configs
from workbench.errors import ConfigError, InputError
from workbench.numerics.invariance import (
    JUDGEMENTS,
    SEED,
    TRANSFORMS,
    VOCAB_ID,
    InvarianceResult,
    invariance,
)
from workbench.numerics.transforms import described, neutral_changes
from workbench.ops import registry
from workbench.ops.inputs import DTYPES, IGNORE_INDEX, NAMES
from workbench.ops.variant import backend_of, built, config_for

IMPLS = ("ascend", "native")

_LOGP = ("batch_invariant_logp", "linear_logp")  # these take a target and give logp and lse
_LOGP_COLUMNS = ("logp", "lse")


@dataclass(frozen=True, eq=False)
class OperatorInputs:
    """Inputs of an operator, as `invariance` takes them.

    Attributes:
        rows: [..., H], [..., V] or [..., K].
        weight: [V, H]; of det_gemm b transposed, [N, K]; None for batch_invariant_logp.
        row_inputs: What travels with the rows, in the order of the table above.
        bias: [V] of the LM head, or None.
    """

    rows: torch.Tensor
    weight: torch.Tensor | None
    row_inputs: tuple[torch.Tensor, ...] = ()
    bias: torch.Tensor | None = None


def operator_inputs(
    op: str,
    hidden: torch.Tensor,
    weight: torch.Tensor | None = None,
    target: torch.Tensor | None = None,
    *,
    gradient: bool = False,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    seed: int = SEED,
) -> OperatorInputs:
    """What `op` is judged on, with the upstream gradients drawn from `seed`.

    Every seventh row has an upstream of -0, so that the sign of a zero gradient is judged too.

    Args:
        op: One of `registry.ops()`.
        hidden: The rows: hidden states, or of batch_invariant_logp logits, of det_gemm `a`.
        weight: [V, H]; of det_gemm b transposed, [N, K].
        target: [...] int64, of the operators that take one.
        gradient: Whether the gradient of the rows is to be judged.
        bias: [V] of the LM head.
        out_dtype: Dtype of the results, for their upstream; None: that of the rows.

    Raises:
        InputError: An unknown operator, or an input it needs is missing.
    """
    _known(op)
    leading = hidden.shape[:-1]
    if op in _LOGP and target is None:
        raise InputError(f"{op} needs a target [...] beside rows {list(hidden.shape)}")
    if op != "batch_invariant_logp" and weight is None:
        raise InputError(f"{op} needs a weight [V, H] beside rows {list(hidden.shape)}")
    if op == "batch_invariant_logp":
        weight = None
    found = OperatorInputs(hidden, weight, bias=bias)
    companions = [target] if op in _LOGP and target is not None else []
    if gradient:
        g = torch.Generator().manual_seed(seed)
        if op in _LOGP:  # of logp and of lse
            shapes, dtype = [tuple(leading)] * 2, torch.float32
        else:
            assert weight is not None
            shapes, dtype = [(*leading, len(weight))], out_dtype or hidden.dtype
        for shape in shapes:
            upstream = torch.randn(shape, generator=g).to(hidden.device, dtype)
            upstream.view(-1, *shape[len(leading) :])[2::7] = -0.0
            companions.append(upstream)
    return replace(found, row_inputs=tuple(companions))


def _known(op: str) -> None:
    if op not in registry.ops():
        raise InputError(f"op {op!r} is unknown; known: {', '.join(registry.ops())}")


class OperatorRows:
    """An operator, or the gradient of its rows, as a callable that `invariance` takes.

    `call(rows, weight, *row_inputs)`; without the weight where the operator has none. T5 builds it
    with every other value of the constants that decide no bits.

    Args:
        op: One of `registry.ops()`.
        operator: Called as the operator of that name. A target comes second (batch_invariant_logp)
            or third (linear_logp), and the result may be logp alone or (logp, lse).
        gradient: Give the gradient of the rows.
        options: Further arguments of each call.
        make: Builds `operator` for other configurations; None: T5 has chunks alone.
        configs: The configurations `make` takes, by the name of their spec.
        info: For the evidence: `name`, `arch`, the backend `asked` for and, once called, the
            `backend`; None for a plain callable.
    """

    fills_memory = True  # T7 also runs it with new memory full of NaN

    def __init__(
        self,
        op: str,
        operator: Callable[..., Any],
        *,
        gradient: bool = False,
        options: dict[str, Any] | None = None,
        make: Callable[..., Callable[..., Any]] | None = None,
        configs: dict[str, configs.KernelConfig] | None = None,
        info: Any = None,
    ) -> None:
        _known(op)
        self.op, self.operator, self.gradient = op, operator, gradient
        self.options, self._make = options or {}, make
        self.configs = configs or {}
        self.info = info
        self.__name__ = getattr(operator, "__name__", None) or type(operator).__name__
        chosen = {name: config.to_dict() for name, config in self.configs.items()}
        one = chosen.get(op, {}) if len(chosen) < 2 else chosen
        arch = next((c.arch for c in self.configs.values()), None)
        self.config = SimpleNamespace(to_dict=lambda: one, arch=arch)

    def __call__(
        self,
        rows: torch.Tensor,
        *others: torch.Tensor,
        bias: torch.Tensor | None = None,
        out_dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        if self.info is not None:  # "auto" is decided by the tensors
            self.info.backend = backend_of(rows, self.info.asked)
        weight, companions = self._parts(others)
        if not self.gradient:
            return self._results(rows, weight, companions, bias, out_dtype)
        # A new leaf of the same strides: how the rows lie in memory is part of a case.
        leaf = rows.detach().requires_grad_()
        with torch.enable_grad():
            targets = companions[: len(companions) - self._upstreams]
            upstream = companions[len(targets) :]
            results = self._results(leaf, weight, targets, bias, out_dtype, stacked=False)
            (found,) = torch.autograd.grad(results, leaf, list(upstream))
        return found

    @property
    def _upstreams(self) -> int:
        return 2 if self.op in _LOGP else 1

    def _parts(
        self, others: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor | None, tuple[torch.Tensor, ...]]:
        if self.op == "batch_invariant_logp":
            return None, tuple(others)
        return others[0], tuple(others[1:])

    def _results(
        self,
        rows: torch.Tensor,
        weight: torch.Tensor | None,
        companions: Sequence[torch.Tensor],
        bias: torch.Tensor | None,
        out_dtype: torch.dtype | None,
        stacked: bool = True,
    ) -> Any:
        given = dict(self.options)
        if bias is not None:
            given["bias"] = bias
        call = self.operator
        if out_dtype not in (None, rows.dtype):
            if self.op == "linear_logp":  # results are fp32 in any case; this is of its logits
                given["logits_dtype"] = out_dtype
            elif self.op != "batch_invariant_logp":
                call = self.operator.forward_fp32  # type: ignore[attr-defined]
        if self.op == "lm_head":
            return call(rows, weight, **given)
        if self.op == "det_gemm":
            assert weight is not None
            return call(rows, weight.T, **given)
        shared = () if weight is None else (weight,)
        found = call(rows, *shared, *companions, **given)
        if not stacked:
            return found
        return torch.stack(found, -1) if isinstance(found, tuple) else found.unsqueeze(-1)

    def schedules(
        self, dtype: torch.dtype, max_blocks: Sequence[int]
    ) -> Iterator[tuple[str, OperatorRows]]:
        """The same operator with each other value of the constants that decide no bits."""
        if self._make is None:
            return
        for name, config in self.configs.items():
            spec = configs.spec(name)
            for change in neutral_changes(spec, config, NAMES.get(dtype), max_blocks):
                changed = {**self.configs, name: config.replace(**change)}
                label = f"{name}: " if len(self.configs) > 1 else ""
                yield label + described(change), self._rebuilt(changed)
        if self.op == "linear_logp":
            yield "logits a row at a time", self._rebuilt(self.configs, chunk_bytes=1)

    def _rebuilt(self, changed: dict[str, configs.KernelConfig], **options: Any) -> OperatorRows:
        assert self._make is not None
        return type(self)(
            self.op,
            self._make(changed, **options),
            gradient=self.gradient,
            options=self.options,
            make=self._make,
            configs=changed,
            info=self.info,
        )


class KernelRows(OperatorRows):
    """The same with `out`: there the kernel behind the operator writes (forward results only)."""

    def __call__(
        self,
        rows: torch.Tensor,
        *others: torch.Tensor,
        bias: torch.Tensor | None = None,
        out_dtype: torch.dtype | None = None,
        out: torch.Tensor | None = None,
    ) -> torch.Tensor:
        if out is None:
            return super().__call__(rows, *others, bias=bias, out_dtype=out_dtype)
        weight, companions = self._parts(others)
        backend = backend_of(rows, getattr(self.operator, "backend", "auto"))
        kernel = built(self.op, self.configs[self.op].to_key(), backend, rows.dtype)
        if self.op == "lm_head":
            return kernel(rows, weight, bias, out_dtype, out=out)
        if self.op == "det_gemm":
            assert weight is not None
            return kernel(rows, weight.T, out_dtype, out=out)
        parts = tuple(part.contiguous() for part in out.unbind(-1))  # poisoned as `out` is
        kernel(rows, *companions, out=parts)
        return out.copy_(torch.stack(parts, -1))


def operator_rows(
    op: str,
    config: configs.KernelConfig | None = None,
    *,
    gradient: bool = False,
    backend: str = "auto",
    impl: str = "ascend",
    logp_config: configs.KernelConfig | None = None,
    **options: Any,
) -> OperatorRows:
    """An operator of ours, by name, as `invariance` takes it.

    Args:
        op: One of `registry.ops()`.
        config: Of the operator; of linear_logp that of its LM head.
        gradient: Give the gradient of the rows instead of the result.
        backend: "twin", "npu" or "auto".
        impl: "ascend", or "native" for the reference in plain torch.
        logp_config: Of linear_logp's log-probability; None: as the operator itself chooses.
        options: Further arguments of the operator's constructor (`backward="matmul"`).

    Raises:
        InputError: An unknown operator or implementation, or a configuration of a native one.
        ConfigError: A configuration that the kernel does not take.
    """
    _known(op)
    if impl not in IMPLS:
        raise InputError(f"impl={impl!r}; known: {', '.join(IMPLS)}")
    kind = registry.class_of(op, impl)
    called = {"return_lse": True} if op in _LOGP else {}
    if impl == "native":
        if config is not None or logp_config is not None or options:
            raise InputError(f"the native {op} has no configuration and no options: leave them out")
        return OperatorRows(op, kind(), gradient=gradient, options=called)
    chosen: dict[str, configs.KernelConfig | None] = {op: config}
    if op == "linear_logp":
        beside = logp_config or config_for("batch_invariant_logp", config)
        chosen = {"lm_head": config, "batch_invariant_logp": beside}
    elif logp_config is not None:
        raise ConfigError(f"logp_config is linear_logp's; {op} has one configuration")
    complete = {name: configs.spec(name).complete(given) for name, given in chosen.items()}

    def make(by_name: dict[str, configs.KernelConfig], **other: Any) -> Callable[..., Any]:
        if op == "linear_logp":
            given = {"config": by_name["lm_head"], "logp_config": by_name["batch_invariant_logp"]}
        else:
            given = {"config": by_name[op]}
        return kind(**given, backend=backend, **{**options, **other})

    first = next(iter(complete.values()))
    info = SimpleNamespace(name=kind.__name__, asked=backend, backend=None, arch=first.arch)
    wrapper = OperatorRows if gradient or op == "linear_logp" else KernelRows
    return wrapper(
        op,
        make(complete),
        gradient=gradient,
        options=called,
        make=make,
        configs=complete,
        info=info,
    )


def columns_of(op: str, gradient: bool) -> str | tuple[str, ...]:
    """What the last dimension of a row's result counts."""
    if gradient:
        return VOCAB_ID if op == "batch_invariant_logp" else "channel"
    if op in _LOGP:
        return _LOGP_COLUMNS
    return VOCAB_ID if op == "lm_head" else "column"


def operator_invariance(
    op: str,
    config: configs.KernelConfig | None = None,
    *,
    judgement: str = JUDGEMENTS[0],
    dtype: str = "fp32",
    backend: str = "auto",
    impl: str = "ascend",
    inputs: OperatorInputs | None = None,
    fn: OperatorRows | None = None,
    rows: int = 20,
    width: int = 96,
    vocab: int = 33,
    out_dtype: torch.dtype | None = None,
    bias: bool = False,
    transforms: Sequence[str] = TRANSFORMS,
    seed: int = SEED,
    operator_options: dict[str, Any] | None = None,
    **options: Any,
) -> InvarianceResult:
    """Whether an operator of ours, or the gradient of its rows, keeps the bits of a row.

    Args:
        op: "lm_head", "batch_invariant_logp", "det_gemm" or "linear_logp".
        config: KernelConfig; None: the kernel's defaults. T5 also builds it with other block counts
            and with other values of every constant whose spec says it decides no bits.
        judgement: "forward_invariance", or "gradient_invariance" for the gradient of the rows:
            grad_hidden, grad_logits or grad_a. The gradients of weight, bias and b sum over the
            rows of the batch and so depend on it by their nature; they have one stated order.
        dtype: "fp32", "bf16" or "fp16".
        backend: "twin", "npu" or "auto".
        impl: "ascend", or "native" for the reference.
        inputs: What to judge on, from `operator_inputs`; None: N(0,1) of the sizes below, every
            fifth target ignored.
        fn: Something else to judge in the operator's place.
        rows, width, vocab: N, H (or K), V (or det_gemm's N) of drawn inputs.
        out_dtype: torch.float32 for fp32 results of 16-bit inputs (of linear_logp: fp32 logits).
        bias: Whether drawn inputs of the LM head have a bias.
        transforms, seed: As in `invariance`; drawn inputs come from the seed too.
        operator_options: Further arguments of the operator's constructor.
        options: Further arguments of `invariance` (`sizes`, `max_blocks`, `max_active`, …).

    Raises:
        InputError: An unknown operator, judgement, dtype or implementation.
        ConfigError: A configuration that the kernel does not take.

    Example:
        >>> found = operator_invariance("lm_head", dtype="bf16", transforms="T1", sizes=(1, 2, 7))
        >>> found.passed, found.judgement, found.evidence.target
        (True, 'forward_invariance', 'AscendLMHeadOp')
    """
    _known(op)
    if judgement not in JUDGEMENTS:
        raise InputError(f"judgement={judgement!r}; known: {', '.join(JUDGEMENTS)}")
    if dtype not in DTYPES:
        raise InputError(f"dtype={dtype!r}; known: {', '.join(DTYPES)}")
    gradient = judgement == JUDGEMENTS[1]
    if fn is None:
        fn = operator_rows(
            op,
            config,
            gradient=gradient,
            backend=backend,
            impl=impl,
            **(operator_options or {}),
        )
    if inputs is None:
        inputs = drawn_inputs(
            op,
            dtype,
            gradient=gradient,
            rows=rows,
            width=width,
            vocab=vocab,
            bias=bias,
            out_dtype=out_dtype,
            seed=seed,
        )
    return invariance(
        fn,
        inputs.rows,
        inputs.weight,
        inputs.bias,
        transforms,
        row_inputs=inputs.row_inputs,
        seed=seed,
        out_dtype=out_dtype,
        columns=columns_of(op, gradient),
        judgement=judgement,
        op=op,
        **{"leading_dims": op != "det_gemm", **options},
    )


def drawn_inputs(
    op: str,
    dtype: str = "fp32",
    *,
    gradient: bool = False,
    rows: int = 20,
    width: int = 96,
    vocab: int = 33,
    bias: bool = False,
    out_dtype: torch.dtype | None = None,
    seed: int = SEED,
) -> OperatorInputs:
    """N(0,1) inputs of `op` from one seed; every fifth target (the fourth of five) is ignored.

    Example:
        >>> inputs = drawn_inputs("linear_logp", "bf16", gradient=True, rows=3)
        >>> inputs.rows.shape, inputs.weight.shape, [t.shape[0] for t in inputs.row_inputs]
        (torch.Size([3, 96]), torch.Size([33, 96]), [3, 3, 3])
    """
    g = torch.Generator().manual_seed(seed)
    kind = DTYPES[dtype]
    wide = vocab if op == "batch_invariant_logp" else width
    hidden = torch.randn(rows, wide, generator=g).to(kind)
    weight = torch.randn(vocab, width, generator=g).to(kind)
    target = torch.randint(vocab, (rows,), generator=g)
    target[3::5] = IGNORE_INDEX
    drawn = torch.randn(vocab, generator=g).to(kind) if bias else None
    return operator_inputs(
        op,
        hidden,
        weight,
        target,
        gradient=gradient,
        bias=drawn,
        out_dtype=out_dtype,
        seed=seed + 1,
    )
