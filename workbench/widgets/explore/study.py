"""What the dashboard shows, computed without a widget: a state goes in, results come in stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from workbench.build import Kernel, build, cancelling
from workbench.errors import BuildError, Cancelled, InputError, WorkbenchError
from workbench.evidence import evidence
from workbench.numerics import compare_bits, invariance
from workbench.numerics.adapters import columns_of, operator_inputs, operator_rows
from workbench.numerics.drift.measure import judge
from workbench.numerics.invariance import InvarianceResult
from workbench.numerics.tolerance import tolerance
from workbench.ops.inputs import IGNORE_INDEX
from workbench.ops.native import NativeBatchInvariantLogpOp
from workbench.orders import ReductionTree, declared_order
from workbench.orders.reveal import RevealError, reveal
from workbench.widgets.explore.inputs import Given, Inputs
from workbench.widgets.explore.result import Counted, ExploreResult, RowErrors
from workbench.widgets.explore.state import LOGP, ExploreState
from workbench.widgets.words import explain

PANES = ("order", "drift", "invariance", "tolerance", "counters", "build")

# Of the invariance check: enough to catch what is known to go wrong, in a fraction of a second.
BATCHES, POSITIONS, COLUMNS = (1, 2, 7, 16, 33, 64), (17,), 32
COUNTED = 1 << 25  # products of the launch that is counted, at most
_NO_CALL = (
    "How this file's kernels are to be called is not known: a kernel is launched with addresses "
    "and numbers whose meaning only its author knows. Give wb.explore(…, call=f) with "
    "f(kernel, hidden [N, H], weight [V, H]) -> [N, V], which launches it; then its order, drift, "
    "batch invariance, tolerance and counters are found from what it computes."
)

Call = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]


class Study:
    """One state, built once and looked at as far as is asked for.

    Args:
        state: What is built, and on what it is run.
        inputs: Where the tensors come from.
        backend: "twin" or "npu"; "auto": npu for tensors on an NPU, else the twin.
        call: For an own file: (kernel, hidden [N, H], weight [V, H]) -> [N, V].

    Attributes:
        result: What is known so far.

    Example:
        >>> study = Study(ExploreState(rows=2, vocab=8), Inputs())
        >>> [sorted(found.done) for found in study.stages(panes=("build",))][-1]
        ['build']
        >>> study.result.order.height
        14
    """

    def __init__(
        self,
        state: ExploreState,
        inputs: Inputs,
        backend: str = "auto",
        call: Call | None = None,
    ) -> None:
        if backend == "auto":
            backend = "npu" if inputs.device == "npu" else "twin"
        self.state, self.inputs, self.backend, self.call = state, inputs, backend, call
        self.result = ExploreResult(state)
        self._subject: _Subject | None = None
        self._given: Given | None = None

    def judge(self, *panes: str) -> ExploreResult:
        """The result with these panes (all if none is named); errors are in its words."""
        for _ in self.stages(panes=panes or PANES):
            pass
        return self.result

    def stages(
        self, previous: ExploreResult | None = None, panes: Sequence[str] = ("order",)
    ) -> Iterator[ExploreResult]:
        """Results that hold more and more, until the panes asked for are done.

        Work that was done before is not done again. Errors that are raised on purpose are words in
        the result.

        Args:
            previous: What was shown before, to say what this change did to the bits.
            panes: Some of PANES, in the order in which they are wanted.

        Raises:
            Cancelled: The work is not wanted any more; what is known by then is kept.
        """
        if self.result.error:  # what was missing may be there now
            self.result = ExploreResult(self.state)
        yield self.result
        try:
            yield from self._base()
            yield self._compared(previous)
        except Cancelled:
            raise
        except WorkbenchError as error:
            cancelling.check()  # whoever called a kernel may have made another error of it
            log = error.log if isinstance(error, BuildError) else self.result.log
            yield self._now(error=explain(error), log=log, done=frozenset(PANES))
            return
        for pane in panes:
            if pane in self.result.done:
                continue
            cancelling.check()
            try:
                yield from getattr(self, f"_{pane}")()
            except Cancelled:
                raise
            except Exception as error:  # of any kind: the other panes have nothing to do with it
                cancelling.check()
                self._now(notes=self.result.notes | {pane: explain(error)})
            yield self._now(done=self.result.done | {pane})

    def _now(self, **known: Any) -> ExploreResult:
        self.result = dataclasses.replace(self.result, **known)
        return self.result

    # ---- what every pane rests on ------------------------------------------------------------

    def _base(self) -> Iterator[ExploreResult]:
        """Declared order, build, outputs: each once."""
        state = self.state
        if self._subject is not None and self.result.outputs is not None:
            return
        state.check(self.inputs.limits(state.data))
        given = self._given = self.inputs.take(state)
        if state.shipped is not None and self.result.order is None:
            # Known before anything is compiled: it follows from the source's promise.
            terms = given.shape[2] if state.op == LOGP else given.shape[1]
            order = declared_order(state.op, state.config, terms)
            yield self._now(order=order, given=given, fixture=given.fixture)
        kernel = self._built(state)
        self._subject = _Subject(state, kernel, self.call)
        made = {"info": kernel.info, "log": kernel.info.log}
        yield self._now(**made, given=given, fixture=given.fixture)
        if self._subject.known:
            outputs = self._subject.outputs(given)
            yield self._now(outputs=outputs, baseline=self._baseline(outputs))

    def _built(self, state: ExploreState) -> Kernel:
        dtypes = [state.dtype] if state.shipped is not None else None
        cancelling.check()
        return build(state.op, state.config, self.backend, dtypes=dtypes)

    def _baseline(self, outputs: torch.Tensor) -> Any:
        state = self.state.baseline()
        if self.state.shipped is None:
            return None
        if state.resolved() == self.state.resolved():
            return compare_bits(outputs, outputs)

        def made() -> torch.Tensor:
            assert self._given is not None
            return _Subject(state, self._built(state), self.call).outputs(self._given)

        # The source too: after an edit the default has other bits.
        source = self.result.info.source_digest if self.result.info is not None else ""
        key = state.op, source, state.arch, state.dtype, state.rows, state.vocab, state.data
        return compare_bits(self.inputs.keep("baseline", (*key, self.backend), made), outputs)

    def _compared(self, previous: ExploreResult | None) -> ExploreResult:
        change, changed, outputs = None, "", self.result.outputs
        if previous is None or previous.state.resolved() == self.state.resolved():
            return self.result  # another pane of the same view: what led here stands
        if previous.outputs is not None and outputs is not None:
            changed = self.state.changes_from(previous.state)
            same = self.state.same_inputs(previous.state)
            if changed and same and previous.fixture == self.result.fixture:
                change = compare_bits(previous.outputs, outputs)
        return self._now(change=change, changed=changed)

    @property
    def _at_hand(self) -> tuple[_Subject, Given]:
        """The kernel and its inputs, where it is known how to call it."""
        assert self._subject is not None and self._given is not None
        if not self._subject.known:
            raise InputError(_NO_CALL)
        return self._subject, self._given

    # ---- the panes ---------------------------------------------------------------------------

    def _order(self) -> Iterator[ExploreResult]:
        subject, given = self._at_hand
        if self.backend != "twin":
            return
        yield self._now(revealed=self._revealed(subject, given))

    def _revealed(self, subject: _Subject, given: Given) -> ReductionTree | None:
        """The order of the running binary; why it is not found is a note."""
        if self.result.revealed is not None:
            return self.result.revealed
        terms = given.shape[2] if self.state.op == LOGP else given.shape[1]
        try:
            if self.state.shipped is not None:
                # (What is checked in addition is whether it is a sum at all.)
                return reveal(subject.kernel, terms, dtype=self.state.dtype, check=False)
            return reveal(subject.sums, terms, array="torch")
        except RevealError as error:
            cancelling.check()
            self._now(notes=self.result.notes | {"order": explain(error)})
            return None

    def _drift(self) -> Iterator[ExploreResult]:
        subject, given = self._at_hand
        if self.state.op == LOGP:
            yield self._now(drift=self._log_prob_errors(subject, given))
            return
        truth = self.inputs.truth(self.state)
        cancelling.check()
        yield self._now(drift=judge(subject, truth, subject.out_dtype))
        if self.result.tree is None and self.backend == "twin":
            # No order is declared: the sums behind these errors are found from the binary.
            cancelling.check()
            yield self._now(revealed=self._revealed(subject, given))

    def _log_prob_errors(self, subject: _Subject, given: Given) -> RowErrors:
        assert self.result.outputs is not None
        active = given.target != IGNORE_INDEX
        if not active.any():
            raise InputError("every target is outside this vocabulary: there is no log-prob")
        wide, ids = given.logits[active].cpu().double(), given.target[active].cpu()
        exact = torch.log_softmax(wide, -1).gather(-1, ids[:, None])[:, 0]
        sides = {"kernel": self.result.outputs[active].cpu()}
        if self.state.reference != "exact":
            native = NativeBatchInvariantLogpOp()
            sides[self.state.reference] = native.forward(given.logits[active].cpu(), ids)  # type: ignore[assignment]
        return RowErrors(
            errors={(k, "exact"): (v.double() - exact).numpy() for k, v in sides.items()},
            of=active.cpu().nonzero()[:, 0].numpy(),
            shape=(int(active.sum()), given.shape[2], 1),
            dtype=str(given.logits.dtype).removeprefix("torch."),
            out_dtype="float32",
            evidence=evidence(subject, given.logits, given.target),
        )

    def _invariance(self) -> Iterator[ExploreResult]:
        subject, given = self._at_hand
        yield self._now(invariance=_invariance(subject, given))

    def _tolerance(self) -> Iterator[ExploreResult]:
        subject, given = self._at_hand
        reference = self.state.reference if self.state.reference == "torch.mv" else "exact"
        if self.state.op == LOGP:
            found = tolerance(subject.kernel, given.logits, op=LOGP, target=given.target)
        elif self.state.shipped is not None:
            found = tolerance(
                subject.kernel, given.hidden, given.weight, op=self.state.op, reference=reference
            )
        else:
            tree = self._revealed(subject, given)
            found = tolerance(
                subject, given.hidden, given.weight, tree=tree or "any", reference=reference
            )
        yield self._now(tolerance=found)

    def _counters(self) -> Iterator[ExploreResult]:
        subject, given = self._at_hand
        if self.backend != "twin":
            raise InputError("only the twin counts; a device has its profiler (msprof)")
        yield self._now(counters=subject.counted(given, self.result.outputs))

    def _build(self) -> Iterator[ExploreResult]:
        return iter(())  # everything is known since the build


class _Subject:
    """A built kernel as what is judged: (hidden, weight) -> [N, V], fp32 out of 16-bit inputs.

    Rounding to 16 bits would hide the order.
    """

    def __init__(self, state: ExploreState, kernel: Kernel, call: Call | None) -> None:
        self.state, self.kernel, self._call = state, kernel, call
        self.info, self.config = kernel.info, kernel.config  # for the evidence
        self.__name__ = kernel.info.name
        self.out_dtype = torch.float32 if state.shipped is not None else None

    @property
    def known(self) -> bool:
        """Whether it is known how the kernel is called."""
        return self.state.shipped is not None or self._call is not None

    def __call__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        out_dtype: torch.dtype | None = None,
        **more: Any,
    ) -> torch.Tensor:
        if self.state.op == "lm_head":
            return self.kernel(hidden, weight, out_dtype=out_dtype, **more)
        if self.state.op == "det_gemm":
            rows = hidden.reshape(-1, hidden.shape[-1])
            out = self.kernel(rows, weight.T.contiguous(), out_dtype=out_dtype, **more)
            return out.reshape(*hidden.shape[:-1], len(weight))
        assert self._call is not None
        return self._call(_Launching(self.kernel, more) if more else self.kernel, hidden, weight)

    def sums(self, terms: torch.Tensor) -> torch.Tensor:
        """Sums of terms [R, n]: products with 1."""
        return self(terms, torch.ones(1, terms.shape[1], dtype=terms.dtype))[:, 0]

    def outputs(self, given: Given, **more: Any) -> torch.Tensor:
        """[N, V], or [N] log-probs, of all inputs."""
        if self.state.op == LOGP:
            return self.kernel(given.logits, given.target, **more)[0]
        found = self(given.hidden, given.weight, self.out_dtype, **more)
        n, _, v = given.shape
        if not isinstance(found, torch.Tensor) or tuple(found.shape) != (n, v):
            what = list(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise InputError(f"call returned {what}; wanted a tensor [N, V] = [{n}, {v}]")
        return found

    def counted(self, given: Given, outputs: torch.Tensor | None) -> Counted:
        """A launch that counts, of as many rows and columns as take no time."""
        n, h, v = given.shape
        if self.state.op == LOGP:
            rows = max(1, min(n, COUNTED // v))
            got = self.kernel(given.logits[:rows], given.target[:rows], counters=True)[0]
            wanted = None if outputs is None else outputs[:rows]
        else:
            columns = max(1, min(v, COUNTED // h))
            rows = max(1, min(n, COUNTED // (h * columns)))
            hidden, weight = given.hidden[:rows], given.weight[:columns]
            got = self(hidden, weight, self.out_dtype, counters=True)
            wanted = None if outputs is None else outputs[:rows, :columns]
        same = wanted is None or compare_bits(wanted.contiguous(), got.contiguous()).equal
        return Counted(self.kernel.last, tuple(got.shape), same)


class _Launching:
    """A kernel whose launches take further options; the rest is the kernel's."""

    def __init__(self, kernel: Kernel, options: dict[str, Any]) -> None:
        self._kernel, self._options = kernel, options

    def launch(self, name: str, blocks: int, *args: Any, **given: Any) -> None:
        self._kernel.launch(name, blocks, *args, **{**given, **self._options})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


def _invariance(subject: _Subject, given: Given) -> InvarianceResult:
    """All transforms on raw bits, over fewer batches and columns than a notebook takes."""
    op = subject.state.op
    # () leaves out other builds: block counts and schedules have controls of their own.
    quick: dict[str, Any] = {"sizes": BATCHES, "position_sizes": POSITIONS, "max_blocks": ()}
    if op == LOGP:
        fn = operator_rows(op, subject.config, backend=subject.info.backend)
        inputs = operator_inputs(op, given.logits, target=given.target)
        return invariance(
            fn,
            inputs.rows,
            row_inputs=inputs.row_inputs,
            columns=columns_of(op, False),
            op=op,
            leading_dims=True,
            **quick,
        )
    weight = given.weight[:COLUMNS]
    more: dict[str, Any] = {"out_dtype": subject.out_dtype} if subject.out_dtype else {}
    columns = columns_of(op, False) if op in ("lm_head", "det_gemm") else "vocab_id"
    return invariance(
        subject, given.hidden, weight, columns=columns, op=op, leading_dims=False, **quick, **more
    )
