"""Every mutation against every gate: which mistake does which standard see, and who cries wolf?

Inputs are drawn by numpy and everything is summed in numpy in a fixed order, so the table is the
same on every machine with IEEE arithmetic (unless the bench is torch's own).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.build.config import DEFAULT_ARCH, KernelConfig, spec
from workbench.errors import InputError
from workbench.evidence import Evidence, evidence, raw_bits
from workbench.numerics.bounds import bounds
from workbench.numerics.exact import rounded_to
from workbench.numerics.gates.mutations import (
    LANES,
    MUTATIONS,
    NotApplicable,
    Setting,
    correct,
    setting,
)
from workbench.numerics.gates.standards import (
    STANDARDS,
    StandardsResult,
    Verdict,
    standards,
    standards_table,
)
from workbench.numerics.operands import check_tensors
from workbench.ops.inputs import DTYPES, NAMES
from workbench.ops.precision import full_fp32
from workbench.orders.declared import declared_order, lm_head_order
from workbench.orders.standard import named
from workbench.orders.tree import ReductionTree

BENCHES = ("split-k", "torch")
_PARTS = 8  # of the split-K bench: as deep as torch.mv's order on a CPU with 8 lanes
_MARKS = {True: "·", False: "flags", None: "–"}
_WIDTH = 100  # of a printed line


@dataclass(frozen=True)
class MutationRow(Result):
    """One result before every gate.

    Attributes:
        dtype: Of the inputs: "fp32", "bf16" or "fp16".
        name: A mutation, or a correct order.
        kind: "control" (a correct kernel in some order), or the mutation's kind: "same", "correct"
            or "wrong".
        bug: What a real kernel does that looks like this; for a control, its order in words.
        changed: Outputs whose bits are not those of the correct kernel; None where the mutation
            means nothing.
        why_not: Why it means nothing for these inputs, or "".
        verdicts: One for each gate; empty where the mutation means nothing.
    """

    dtype: str
    name: str
    kind: str
    bug: str
    changed: int | None
    why_not: str
    verdicts: tuple[Verdict, ...]

    def __getitem__(self, gate: str) -> Verdict | None:
        """The verdict of a gate, or None where there is none."""
        return next((v for v in self.verdicts if v.standard == gate), None)


@dataclass(frozen=True)
class MutationTable(Result):
    """What `mutation_table` found.

    Attributes:
        table: One row for each dtype and each mutation or control.
        gates: Names of `STANDARDS`, in the order of the columns.
        shape: [N, H, V].
        dtypes: Of the inputs.
        out_dtype: Of the outputs: those of the inputs, or "fp32".
        tile, arch: Of the declared order that the mutated kernel claims.
        tree_hash: Of that order.
        bench: Who computed the other result of the standards that compare two errors.
        seed: Of the draw (unless inputs were given) and of what mutations choose.
        evidence: Inputs and versions. Computed by the numpy model of the order, on no hardware.
    """

    table: tuple[MutationRow, ...]
    gates: tuple[str, ...]
    shape: tuple[int, int, int]
    dtypes: tuple[str, ...]
    out_dtype: str
    tile: int
    arch: str
    tree_hash: str
    bench: str
    seed: int
    evidence: Evidence

    @property
    def dtype(self) -> str:
        return ", ".join(self.dtypes)

    def row(self, name: str, dtype: str) -> MutationRow:
        for row in self.table:
            if (row.name, row.dtype) == (name, dtype):
                return row
        raise KeyError(f"{name!r} in {dtype} is not in this table")

    def of(self, dtype: str, *kinds: str) -> list[MutationRow]:
        """The rows of a dtype; only of some kinds if any are named."""
        return [r for r in self.table if r.dtype == dtype and (not kinds or r.kind in kinds)]

    def seen(self, gate: str, dtype: str) -> tuple[int, int]:
        """(flagged, judged) among the wrong results that differ from the correct one in a bit."""
        verdicts = [r[gate] for r in self.of(dtype, "wrong") if r.changed]
        judged = [v for v in verdicts if v is not None and v.passed is not None]
        return sum(not v.passed for v in judged), len(judged)

    def false_alarms(self, gate: str, dtype: str) -> tuple[int, int]:
        """(flagged, judged) among correct results: controls and harmless mutations.

        For raw bits that is no alarm but their purpose: they tell one order from another.
        """
        verdicts = [r[gate] for r in self.of(dtype, "control", "same", "correct")]
        judged = [v for v in verdicts if v is not None and v.passed is not None]
        return sum(not v.passed for v in judged), len(judged)

    @property
    def passed(self) -> bool:
        """Whether the table can be trusted, as far as it can say itself.

        The bounds that hold without a probability flag no correct result; a mutation that leaves
        the order as it is changes no bit, and every gate says of it what it says of the kernel.
        """
        for dtype in self.dtypes:
            kernel = self.of(dtype, "control")[0]
            for row in self.of(dtype, "same"):
                if row.changed or row.verdicts != kernel.verdicts:
                    return False
        sound = {"worst_case", "running"} & set(self.gates)
        return not any(self.false_alarms(gate, d)[0] for gate in sound for d in self.dtypes)

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"dtype": r.dtype, "kind": r.kind, "name": r.name, "changed": _count(r.changed)}
            | {STANDARDS[g].short: _cell(r, g) for g in self.gates}
            for r in self.table
        ]

    def title(self) -> str:
        n, h, v = self.shape
        return (
            f"Mutations of an LM head at {n} x {h} x {v}, tile {self.tile}, {self.arch} "
            f"(numpy model of the declared order {self.tree_hash}; outputs {self.out_dtype}; "
            f"bench {self.bench})"
        )

    def markdown(self) -> str:
        """What docs/mutations.md holds: the tables, the mutations, the standards."""
        tables = [_markdown(_lines(self, dtype)) for dtype in self.dtypes]
        head = f"{self.title()}, seed {self.seed}."
        return "\n\n".join([head, *tables, mutations_list(), standards_table()])

    def __str__(self) -> str:
        """The same tables with their columns aligned, no line longer than a terminal's."""
        parts = [_aligned(_lines(self, dtype)) for dtype in self.dtypes]
        return "\n\n".join([self.title().replace(" (", "\n(", 1), *parts])


def draw(
    shape: tuple[int, int, int], seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Hidden [N, H], weight [V, H] and bias [V], fp32 N(0, 1), from numpy's PCG64.

    Vocabulary id 0 is a padding row: its weight and its bias are 0, as in real models, so that an
    exact 0 stands among the outputs.

    Args:
        shape: (N, H, V).
        seed: Not negative.
    """
    sizes = isinstance(shape, (tuple, list)) and len(shape) == 3
    if not sizes or not all(isinstance(size, (int, np.integer)) for size in (*shape, seed)):
        raise InputError(
            f"shape {shape!r:.60} and seed {seed!r:.20}: wanted whole numbers: (N, H, V) are the "
            "rows of hidden, the terms of a sum and the rows of the weight"
        )
    n, h, v = shape
    if min(shape) < 1 or seed < 0:
        raise InputError(f"shape {shape} and seed {seed}: wanted sizes >= 1 and a seed >= 0")
    rng = np.random.default_rng(seed)
    hidden, weight, bias = (
        rng.standard_normal(size, dtype=np.float32) for size in ((n, h), (v, h), (v,))
    )
    weight[0] = bias[0] = 0
    return torch.from_numpy(hidden), torch.from_numpy(weight), torch.from_numpy(bias)


@torch.no_grad()
def mutation_table(
    shape: tuple[int, int, int] = (16, 1000, 64),
    dtypes: Iterable[str] = ("fp32", "bf16", "fp16"),
    seed: int = 0,
    tile: int = 256,
    arch: str = DEFAULT_ARCH,
    *,
    out_dtype: torch.dtype | None = None,
    hidden: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    bench: str = "split-k",
    gates: Iterable[str] | None = None,
    mutations: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> MutationTable:
    """Put every mutation, and correct results in several orders, before every gate.

    The golden values are fp64 sums in a fixed order; the reference of the contract and of
    `assert_close` is the golden value rounded once to the output dtype. Bounds are those of the
    order that a result claims: the declared one for mutations, its own for a control.

    Args:
        shape: (N, H, V) of the draw; taken from `hidden` and `weight` where they are given.
        dtypes: Of the inputs.
        seed: Of the draw, and of what mutations choose.
        tile, arch: Of the LM head whose declared order is summed.
        out_dtype: None (that of the inputs) or torch.float32: the sum as it is.
        hidden, weight, bias: Inputs instead of the draw, [N, H], [V, H] and [V] or None; converted
            to each dtype.
        bench: "split-k" (8 parts, the same on every machine) or "torch" (`F.linear` here, in the
            dtype of the outputs).
        gates, mutations: Names; None: all.
        progress: Called with a line of text per dtype.

    Raises:
        InputError: An unknown name, inputs that do not fit, or that are not finite in a dtype.
        ConfigError: A tile or an architecture that no LM head of a dtype is built for.

    Example:
        >>> found = mutation_table((2, 40, 8), ["fp32"], gates=["cosine", "running"])
        >>> found.row("drop_last_tile", "fp32")["running"].passed
        False
        >>> found.false_alarms("running", "fp32")[0]
        0
    """
    dtypes = tuple(dtypes)
    gates = tuple(STANDARDS) if gates is None else tuple(gates)
    names = tuple(MUTATIONS) if mutations is None else tuple(mutations)
    for kind, asked, known in (
        ("dtype", dtypes, DTYPES),
        ("gate", gates, STANDARDS),
        ("mutation", names, MUTATIONS),
        ("bench", (bench,), BENCHES),
    ):
        if not asked or not set(asked) <= set(known):
            raise InputError(f"{kind} {', '.join(asked) or '(none)'}: there are {', '.join(known)}")
    config, built = KernelConfig(tile_length=tile, arch=arch), spec("lm_head")
    for dtype in dtypes:
        built.check(built.complete(config), dtype)
    if (hidden is None) != (weight is None):
        raise InputError("hidden and weight are given together or not at all")
    if hidden is None or weight is None:
        hidden, weight, bias = draw(shape, seed)
    check_tensors(hidden)
    check_tensors(weight, "weight", bias=bias)
    if not hidden.ndim:
        raise InputError("hidden has no dimension; give [N, H]")
    width = hidden.shape[-1]
    tree = declared_order("lm_head", config, n=width)
    half = tile // 2 // LANES * LANES or 2 * tile  # a tile is a whole number of repeats
    other = declared_order("lm_head", config.replace(tile_length=half), n=width)
    rows: list[MutationRow] = []
    for dtype in dtypes:
        if progress is not None:
            progress(f"{len(names)} mutations in {dtype}")
        narrow = DTYPES[dtype]
        h, w, b = hidden.to(narrow), weight.to(narrow), None if bias is None else bias.to(narrow)
        _check_finite(dtype, hidden=h, weight=w, bias=b)
        case = setting(h, w, tree, bias=b, out_dtype=out_dtype, tile=tile, other=other, seed=seed)
        other_result = _bench(bench, case, h, w, b)
        with _one_thread():
            judge = _Judge(case, h, w, b, other_result, gates)
            rows += [_mutated(name, dtype, case, judge) for name in names]
            rows += [_control(*order, dtype, case, judge) for order in _orders(width, tile, arch)]
    return MutationTable(
        table=tuple(rows),
        gates=gates,
        shape=(len(hidden), width, len(weight)),
        dtypes=dtypes,
        out_dtype=", ".join(dtypes) if out_dtype is None else NAMES[out_dtype],
        tile=tile,
        arch=arch,
        tree_hash=tree.hash,
        bench=bench,
        seed=seed,
        evidence=evidence(_model, hidden, weight, bias),
    )


def _check_finite(dtype: str, **named: torch.Tensor | None) -> None:
    for name, tensor in named.items():
        count = 0 if tensor is None else int((~torch.isfinite(tensor)).sum())
        if count:
            raise InputError(
                f"{count} numbers in {name} are NaN or Inf in {dtype}: no error and no bound means "
                "anything there. Give finite inputs, or leave out a dtype in which they overflow"
            )


def _model() -> None:
    """Names the target in the evidence."""


_model.__name__ = "numpy model of lm_head"


class _Judge:
    """Golden values, reference, bench and bounds of one dtype; judges results by all gates."""

    def __init__(
        self,
        case: Setting,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        bench: torch.Tensor,
        gates: tuple[str, ...],
    ) -> None:
        self.case, self.gates = case, gates
        self.hidden, self.weight, self.bias = hidden, weight, bias
        self.golden = _golden(case)
        self.reference = rounded_to(torch.from_numpy(self.golden), case.out_dtype)
        self.correct = correct(case)
        self.bench = bench
        self._bounds: dict[str, Any] = {}

    def __call__(self, candidate: torch.Tensor, tree: ReductionTree) -> StandardsResult:
        return standards(
            candidate,
            self.reference,
            exact=self.golden,
            bounds=self.bounds(tree),
            bench=self.bench,
            correct=self.correct,
            dtype=self.case.dtype,
            only=self.gates,
        )

    def bounds(self, tree: ReductionTree) -> Any:
        if not {"worst_case", "running", "probabilistic"} & set(self.gates):
            return None
        if tree.hash not in self._bounds:
            out = self.case.out_dtype
            self._bounds[tree.hash] = bounds(
                tree, self.hidden, self.weight, bias=self.bias, out_dtype=out
            )
        return self._bounds[tree.hash]

    def changed(self, candidate: torch.Tensor) -> int:
        return int((raw_bits(candidate) != raw_bits(self.correct)).sum())


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread: those of small tensors only wait for each other, 8 times longer here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _bench(
    name: str, case: Setting, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    if name == "torch":
        # In the dtype of the result: a sum that torch rounds to 16 bits is no bench of an fp32 one.
        wide = [None if t is None else t.to(case.out_dtype) for t in (hidden, weight, bias)]
        with full_fp32("cpu"):
            return torch.nn.functional.linear(*wide)  # type: ignore[arg-type]
    return _in_order(case, named(name, case.width, parts=min(_PARTS, case.width)))


def _golden(case: Setting) -> np.ndarray:
    """fp64 logits: exact products, summed in the tree's order; no BLAS, so equal everywhere."""
    wide, rows = case.weight.astype(np.float64), case.hidden.astype(np.float64)
    total = np.stack([case.tree.sum(row * wide) for row in rows])
    return total if case.bias is None else total + case.bias


def _in_order(case: Setting, tree: ReductionTree) -> torch.Tensor:
    return correct(replace(case, tree=tree))


def _mutated(name: str, dtype: str, case: Setting, judge: _Judge) -> MutationRow:
    mutation = MUTATIONS[name]
    try:
        out = mutation.run(case)
    except NotApplicable as why:
        return MutationRow(dtype, name, mutation.kind, mutation.bug, None, str(why), ())
    verdicts = judge(out, case.tree).verdicts
    return MutationRow(dtype, name, mutation.kind, mutation.bug, judge.changed(out), "", verdicts)


def _control(
    name: str, words: str, tree: ReductionTree, dtype: str, case: Setting, judge: _Judge
) -> MutationRow:
    out = _in_order(case, tree)
    verdicts = judge(out, tree).verdicts
    return MutationRow(dtype, name, "control", words, judge.changed(out), "", verdicts)


def _orders(width: int, tile: int, arch: str) -> list[tuple[str, str, ReductionTree]]:
    """Correct orders: name, words, tree. The first is the one that mutations start from."""
    config = KernelConfig(tile_length=tile, arch=arch)
    found = [("correct", "the declared order", declared_order("lm_head", config, n=width))]
    for size in (64, 1024, 4096):
        words = f"the declared order of tile {size}"
        tree = declared_order("lm_head", config.replace(tile_length=size), n=width)
        found.append((f"tile {size}", words, tree))
    found.append(
        ("method 2", "ReduceSum method 2 in one tile", lm_head_order(width, width, None, method=2))
    )
    for name in ("sequential", "reversed", "pairwise", "split-k", "halving", "warp-shuffle"):
        options = {"parts": min(_PARTS, width)} if name == "split-k" else {}
        found.append((name, f"the {name} order", named(name, width, **options)))
    different: dict[ReductionTree, tuple[str, str, ReductionTree]] = {}
    for order in found:
        different.setdefault(order[2], order)  # equal trees are one control
    return list(different.values())


# ---- text ------------------------------------------------------------------------------------


def _count(changed: int | None) -> str:
    return "–" if changed is None else f"{changed:,}"


def _cell(row: MutationRow, gate: str) -> str:
    """ "·" passes, a number: outputs flagged, "flags": flagged as a whole, "–": no verdict."""
    verdict = row[gate]
    if verdict is None or verdict.passed is None or row.changed is None:
        return _MARKS[None]
    if verdict.passed or not verdict.flagged:  # flagged as a whole, or by an aggregate
        return _MARKS[verdict.passed]
    return "all" if verdict.flagged == verdict.outputs else f"{verdict.flagged:,}"


_HEADS = {
    "same": "the same order",
    "correct": "another correct result",
    "wrong": "wrong",
    "control": "control: correct, in another order",
}


def _lines(found: MutationTable, dtype: str) -> list[list[str]]:
    """The table of a dtype, its head first; a line of one cell heads a group."""
    outputs = found.shape[0] * found.shape[2]
    shorts = (STANDARDS[gate].short for gate in found.gates)
    lines = [[f"{dtype}, {outputs:,} outputs", "bits changed", *shorts]]
    for kind in ("same", "correct", "wrong", "control"):
        rows = found.of(dtype, kind)
        lines += [[_HEADS[kind]]] if rows else []
        for row in rows:
            lines.append([row.name, _count(row.changed), *(_cell(row, g) for g in found.gates)])
    lines.append(["totals"])
    for words, counts in (("wrong, seen", found.seen), ("correct, flagged", found.false_alarms)):
        totals = ["{} of {}".format(*counts(gate, dtype)) for gate in found.gates]
        lines.append([words, "", *totals])
    return lines


def _markdown(lines: list[list[str]]) -> str:
    head, *rest = lines
    full = [head, ["---", *("---:" for _ in head[1:])]]
    full += [[f"**{r[0]}**", *("" for _ in head[1:])] if len(r) == 1 else r for r in rest]
    return "\n".join(f"| {' | '.join(line)} |" for line in full)


def _aligned(lines: list[list[str]]) -> str:
    """The lines with aligned columns; columns that do not fit beside each other stand below."""
    wide = [line for line in lines if len(line) > 1]
    first, *widths = (max(map(len, column)) for column in zip(*wide, strict=True))
    blocks: list[list[int]] = [[]]
    for column, width in enumerate(widths):
        taken = first + sum(2 + widths[c] for c in blocks[-1])
        if blocks[-1] and taken + 2 + width > _WIDTH:
            blocks.append([])
        blocks[-1].append(column)
    return "\n\n".join(
        "\n".join(
            "  ".join([name.ljust(first), *(cells[c].rjust(widths[c]) for c in block)]).rstrip()
            if cells
            else f"-- {name}"
            for name, *cells in lines
        )
        for block in blocks
    )


def mutations_list() -> str:
    """The mutations as a Markdown table: name, kind, and the bug that looks like it."""
    lines = ["| mutation | kind | a real kernel in which |", "| --- | --- | --- |"]
    lines += [f"| `{m.name}` | {m.kind} | {m.bug} |" for m in MUTATIONS.values()]
    return "\n".join(lines)
