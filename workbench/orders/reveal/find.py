"""`reveal`: the order in which a function sums, found by asking it."""

from __future__ import annotations

import dataclasses
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench._result import Result, html_table
from workbench.errors import InputError
from workbench.orders.reveal import confirm, explain, probing
from workbench.orders.reveal.targets import BATCH_BYTES, RevealError, Target, target_of
from workbench.orders.tree import ReductionTree

__all__ = ["RevealError", "RevealReport", "RevealedTree", "reveal"]


@dataclass(frozen=True)
class RevealReport(Result):
    """How an order was found, and what it rests on.

    Attributes:
        target: Name of what was asked.
        n, dtype: Number of terms and their dtype.
        shape: Rows and columns of the call, where they are part of the question.
        backend, arch, config: Of a kernel; None and {} for another function.
        array: "torch" or "numpy": what the function was given.
        big, unit: The values of a probe.
        units: "all", or how many units a probe had where the results cannot hold n.
        probes, calls: Sums and calls that found the order; `check_calls`: those before and after.
        rounds: Rounds of probes, each of which needs the answers of the one before.
        seconds: Of all of it, without a build.
        arithmetic: What reproduces the sums of random terms bit for bit, in words; None where
            nothing that was tried does, or nothing was checked.
        fused: Nodes with more than two children, by kind: "exact" (one rounding of the exact sum)
            or "aligned" (terms far below the largest are lost).
        checks: What was confirmed.
        evidence: Machine and versions.
    """

    target: str
    n: int
    dtype: str
    shape: dict[str, int]
    backend: str | None
    arch: str | None
    config: dict[str, Any]
    array: str
    big: float
    unit: float
    units: str
    probes: int
    calls: int
    check_calls: int
    rounds: int
    seconds: float
    arithmetic: str | None
    fused: dict[str, int]
    checks: tuple[str, ...]
    evidence: Any = field(repr=False, compare=False)

    # `rows` of a Result is its table
    def rows(self) -> list[dict[str, Any]]:
        shown = self.to_dict()
        shown.pop("evidence")
        shown["checks"] = "; ".join(self.checks)
        for name in ("shape", "config", "fused"):
            shown[name] = " ".join(f"{k}={v}" for k, v in shown[name].items())
        return [{"what": k, "value": v} for k, v in shown.items() if v not in (None, "")]

    def title(self) -> str:
        return f"order of {self.target}, n = {self.n}, {self.dtype}"

    def _repr_html_(self) -> str:
        """For a reader: what was asked, how, and what was confirmed, in words."""
        where = [self.backend or "", self.arch or ""]
        where += [f"{k}={v}" for k, v in self.config.items() if k != "arch"]
        told = {
            "asked": f"{self.target}: a sum of {self.n:,} terms in {self.dtype}",
            "shape of a call": ", ".join(f"{k} {v}" for k, v in self.shape.items()),
            "built for": ", ".join(filter(None, where)),
            "a probe": f"{self.big:.3g} (M) in place of one term, -M of another, "
            f"{self.unit:g} in place of {self.units} of the others",
            "found with": f"{self.probes:,} probes in {self.calls:,} calls and {self.rounds} "
            "rounds: each round asks what the answers before it left open",
            "checked with": f"{self.check_calls:,} more calls, before and after",
            "took": f"{self.seconds:.2g} s",
            "reproduced by": self.arithmetic and f"{self.arithmetic} along this order",
            "nodes of more than two parts": ", ".join(f"{v} {k}" for k, v in self.fused.items()),
            "confirmed": "; ".join(self.checks),
        }
        return html_table([{"what": k, "value": v} for k, v in told.items() if v], self.title())


@dataclass(frozen=True, eq=False, repr=False)
class RevealedTree(ReductionTree):
    """A `ReductionTree` that was revealed, with the report of how.

    Attributes:
        report: RevealReport.
    """

    report: Any = None

    def __reduce__(self):
        return type(self), (
            self.leaves,
            np.array(self.children),
            np.array(self.offsets),
            self.report,
        )


def reveal(
    target: Any,
    n: int,
    *,
    dtype: str = "fp32",
    rows: int | None = None,
    row: int = 0,
    columns: int | None = None,
    column: int = 0,
    array: str = "auto",
    seed: int = 0,
    batch_bytes: int = BATCH_BYTES,
    check: bool = True,
    unexplained: str = "refuse",
) -> RevealedTree:
    """The order in which `target` adds n terms.

    Args:
        target: A kernel of `wb.build`, an operator, the name of one, the name of a library
            function ("torch.mv", "numpy.sum", … see `orders.reveal.targets.NAMES`), a
            `Target`, or any callable of terms [R, n] that returns R sums.
        n: Number of terms; 0 gives the empty sum.
        dtype: Of the terms: "fp32", "fp64", "fp16" or "bf16". Kernels give their fp32 sums.
        rows, columns: Shape of the call. Library functions choose their code by it, so it is part
            of the question; they are asked with 1 and 1 where it is left out. A callable or a
            kernel is given as many rows as there are probes, unless `rows` says otherwise.
        row, column: Which output is asked for, where the shape is fixed.
        array: What a callable is given: "torch", "numpy" or "auto".
        seed: Of the pivots and of the random terms.
        batch_bytes: Terms in one call, in bytes.
        check: Confirm first that results repeat, that rows are independent and that it is a sum;
            afterwards that the tree explains other probes and sums of random terms.
        unexplained: The order is found with large values, of which most others are lost. What if
            no arithmetic that is modelled (rounded to one format at all nodes, some nodes in fp64,
            fused nodes that align) gives along it the bits of sums of ordinary terms? "refuse"
            raises; "warn" returns the tree with a warning, "allow" without. In both cases
            `report.arithmetic` is None, and the order is one of large values only.

    Returns:
        The tree, with `.report`. Of batch_invariant_logp: the order of its sum of exponentials
        (`orders.reveal.positive`), a `PositiveTree`.

    Raises:
        RevealError: It is no sum in one order, with the `reason`.
        InputError: Unknown target, dtype or output.

    Example:
        >>> import torch
        >>> tree = reveal(lambda terms: terms[:, 0] + (terms[:, 1] + terms[:, 2]), 3)
        >>> tree.to_json(), tree.report.arithmetic
        ('[0,[1,2]]', 'fp32 sums')
    """
    if isinstance(batch_bytes, bool) or not isinstance(batch_bytes, int) or batch_bytes < 1:
        raise InputError(f"batch_bytes={batch_bytes!r}; wanted the bytes of at least one row")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise InputError(f"seed={seed!r}; wanted a whole number")
    if _is_log_prob(target):  # its terms are exponentials, which cannot cancel
        from workbench.orders.reveal.positive import log_sum_exp, reveal_positive

        if rows is not None or columns is not None or row or column:
            raise InputError(
                "batch_invariant_logp sums exponentials, row by row: leave rows and columns out"
            )
        sums = log_sum_exp(_kernel(target), dtype)
        return reveal_positive(sums, n, seed=seed, batch_bytes=batch_bytes, check=check)
    asked = target_of(
        target,
        n,
        dtype=dtype,
        rows=rows,
        row=row,
        columns=columns,
        column=column,
        array=array,
        batch_bytes=batch_bytes,
    )
    return revealed(asked, seed=seed, check=check, unexplained=unexplained)


UNEXPLAINED = ("refuse", "warn", "allow")


def revealed(
    target: Target, *, seed: int = 0, check: bool = True, unexplained: str = "refuse"
) -> RevealedTree:
    """`reveal` of a `Target` as it is, at its slot and positions."""
    if unexplained not in UNEXPLAINED:
        raise InputError(f"unexplained={unexplained!r}; wanted one of {', '.join(UNEXPLAINED)}")
    before = target.calls
    if target.n:
        target.sums(np.zeros((1, target.n)))  # compiles what is not; tells the results' dtype
    started = time.perf_counter()
    rng, pivots = (np.random.default_rng([seed % 2**64, k]) for k in (0, 1))
    checks: list[str] = []
    if check and target.n:
        checks += confirm.before(target, rng)
    prober = confirm.Prober(target, rng, check)
    if check:
        explain.refuse_sorting_early(target, prober, rng, unexplained)
    here = target.calls
    found = probing.discover(target.n, prober.ask, prober.side, pivots)
    calls = target.calls - here
    tree = ReductionTree(found.leaves, found.children, found.offsets)
    arithmetic = None
    if check and target.n:
        arithmetic, more = confirm.after(target, tree, found, prober, rng, unexplained)
        made = target.calls - before
        if found.stars:
            checks.append(f"{found.stars} wide nodes were taken from random pairs, not from all")
        checks.append(f"found and checked in {made} calls: what happens more rarely is not seen")
        checks += more
        if arithmetic is None and unexplained == "warn":
            warnings.warn(f"{target.name}: {more[-1]}", stacklevel=3)
    target.forget()
    report = RevealReport(
        target=target.name,
        n=target.n,
        dtype=target.dtype,
        shape=dict(target.shape),
        backend=target.backend,
        arch=target.arch,
        config=dict(target.config),
        array=target.array,
        big=target.big,
        unit=target.unit,
        units=prober.units,
        probes=prober.probes,
        calls=calls,
        check_calls=target.calls - before - calls,
        rounds=found.rounds,
        seconds=time.perf_counter() - started,
        arithmetic=arithmetic,
        fused=_fused(tree, found),
        checks=tuple(checks),
        evidence=_evidence(target, seed),
    )
    return RevealedTree(tree.leaves, np.array(tree.children), np.array(tree.offsets), report)


_LOG_PROB = "batch_invariant_logp"


def _is_log_prob(target: Any) -> bool:
    spec = getattr(target, "spec", None)
    return target == _LOG_PROB or getattr(spec, "op", None) == _LOG_PROB


def _kernel(target: Any) -> Any:
    if not isinstance(target, str):
        return target
    from workbench.build import build

    return build(target)


def _fused(tree: ReductionTree, found: probing.Found) -> dict[str, int]:
    wide = found.kinds[np.diff(tree.offsets) > 2]
    names = ((probing.EXACT, "exact"), (probing.ALIGNED, "aligned"))
    return {name: int((wide == kind).sum()) for kind, name in names if (wide == kind).any()}


def _evidence(target: Target, seed: int) -> Any:
    import torch

    from workbench.evidence import evidence

    # The probes follow from the number of terms and the seed.
    made = evidence(target.fn, torch.tensor([target.n, target.slots or 0, target.slot, seed]))
    return dataclasses.replace(
        made,
        target=target.name,
        backend=target.backend,
        arch=target.arch,
        config=dict(target.config),
    )
