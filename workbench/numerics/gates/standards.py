"""One result judged by every accuracy standard in use, side by side.

Our own gates are raw bits, the contract's cell and the derived bounds. The others are quoted from
their documents (`standards.json`: rule, threshold, source, and what had to be assumed). They are
shown to be compared; nothing in this project is judged by them.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.evidence import raw_bits
from workbench.numerics.contract import contract
from workbench.numerics.exact import rounded_to
from workbench.numerics.operands import check_tensors
from workbench.numerics.ulp import ulp
from workbench.ops.inputs import NAMES

PATH = Path(__file__).with_name("standards.json")
_torch_default = torch.testing.assert_close  # its defaults are what is quoted, not a number of ours
_MISMATCHED = re.compile(r"Mismatched elements: (\d+) / \d+")


@dataclass(frozen=True)
class Standard(Result):
    """A rule that says whether a result is accurate enough.

    Attributes:
        name: Key in `STANDARDS`.
        label, short: For people; `short` heads a column.
        ours: Raw bits, the contract and the derived bounds; False for what is quoted.
        says: The rule in words.
        needs: What it takes besides candidate and reference: "exact", "bench" or "bounds".
        source, url: Where the rule is documented; "" for ours.
        assumed: What the document leaves open, and how it is read here.
        thresholds: As the data file has them.
    """

    name: str
    label: str
    short: str
    ours: bool
    says: str
    needs: tuple[str, ...]
    source: str = ""
    url: str = ""
    assumed: tuple[str, ...] = ()
    thresholds: Mapping[str, Any] = field(default_factory=dict, metadata={"json": False})


@dataclass(frozen=True)
class Verdict(Result):
    """What one standard says of one result.

    Attributes:
        standard: Its name.
        passed: The verdict; None where the standard cannot judge this (`reason` says why).
        flagged: Outputs outside the rule, for rules that judge each output; None for the others.
        outputs: How many outputs there were.
        statistic: The numbers it rests on, e.g. {"cosine": 1.0}.
        reason: Why there is no verdict, or "warning" where the standard warns and passes.
    """

    standard: str
    passed: bool | None
    flagged: int | None
    outputs: int
    statistic: dict[str, float]
    reason: str = ""


@dataclass(frozen=True)
class StandardsResult(Result):
    """The same result by all standards.

    Attributes:
        verdicts: One for each standard that was asked for, ours first.
        dtype, out_dtype: Of the operator's inputs and of the candidate.
        op: The operator, for the contract's cell.

    Example:
        >>> good = torch.tensor([[1.0, 2.0]])
        >>> standards(good, good, exact=good.double())["cosine"].passed
        True
    """

    verdicts: tuple[Verdict, ...]
    dtype: str
    out_dtype: str
    op: str

    def __getitem__(self, name: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.standard == name:
                return verdict
        known = ", ".join(v.standard for v in self.verdicts)
        raise KeyError(f"{name!r} was not asked for; this result has {known}")

    def rows(self) -> list[dict[str, Any]]:
        words = {True: "passes", False: "FLAGS", None: "cannot judge"}
        return [
            {
                "standard": STANDARDS[v.standard].label,
                "verdict": words[v.passed] + (f" ({v.reason})" if v.reason else ""),
                "flagged": "" if v.flagged is None else f"{v.flagged} of {v.outputs}",
                "statistic": ", ".join(f"{k} {x:.4g}" for k, x in v.statistic.items()),
            }
            for v in self.verdicts
        ]

    def title(self) -> str:
        judged = [v for v in self.verdicts if v.passed is not None]
        flags = sum(not v.passed for v in judged)
        what = f"{self.op} {self.dtype} -> {self.out_dtype}"
        return f"{what}: {flags} of {len(judged)} standards flag it"


def standards(
    candidate: torch.Tensor,
    reference: torch.Tensor,
    *,
    exact: Any = None,
    bounds: Any = None,
    bench: torch.Tensor | None = None,
    correct: torch.Tensor | None = None,
    dtype: str | torch.dtype | None = None,
    op: str = "lm_head",
    only: Iterable[str] | None = None,
) -> StandardsResult:
    """Judge one result by every standard.

    Args:
        candidate: The result, [N, V], fp32, bf16 or fp16.
        reference: Floats of the same shape: what the contract and `assert_close` compare with.
        exact: fp64 values (torch or numpy), the golden side of the other standards; None: the
            bounds' own exact values, else `reference` widened.
        bounds: A `workbench.numerics.bounds.Bounds`, or anything with `get(kind)` -> fp64 [N, V].
        bench: The same operation by someone else in the same precision, for the standards that
            compare two errors.
        correct: What the bits should be; None: `reference` in the candidate's dtype.
        dtype: Of the operator's inputs, for the contract's cell; None: the candidate's.
        op: Operator, for the contract's cell.
        only: Names of `STANDARDS`, at least one; None: all.

    Raises:
        InputError: Shapes, dtypes or bounds that do not fit, nothing to judge, no standard or an
            unknown one.

    Example:
        >>> exact = torch.tensor([[1.0, 2.0]]).double()
        >>> off = (exact * 1.01).float()
        >>> found = standards(off, exact.float(), exact=exact)
        >>> found["cosine"].passed, found["contract"].flagged, found["running"].passed
        (True, 2, None)
    """
    wanted = tuple(STANDARDS) if only is None else (only,) if isinstance(only, str) else tuple(only)
    if not wanted:
        raise InputError(
            "only=… names no standard, so there is no verdict; leave it out for all, or name some "
            f"of {', '.join(STANDARDS)}"
        )
    case = _Case.of(candidate, reference, exact, bounds, bench, correct, dtype, op)
    return StandardsResult(
        tuple(_judged(name, case) for name in wanted),
        case.dtype,
        NAMES[case.candidate.dtype],
        op,
    )


def judge_by(
    standard: str, candidate: torch.Tensor, reference: torch.Tensor, **given: Any
) -> Verdict:
    """The verdict of one standard; arguments and errors as in `standards`.

    Example:
        >>> zeros = torch.zeros(2, 3)
        >>> judge_by("raw_bits", -zeros, zeros).flagged
        6
    """
    (verdict,) = standards(candidate, reference, only=[standard], **given).verdicts
    return verdict


# ---- what is judged --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Case:
    candidate: torch.Tensor
    reference: torch.Tensor
    golden: np.ndarray  # fp64
    bounds: Any
    bench: torch.Tensor | None
    correct: torch.Tensor
    dtype: str  # of the inputs
    op: str

    @classmethod
    def of(
        cls,
        candidate: torch.Tensor,
        reference: torch.Tensor,
        exact: Any,
        bounds: Any,
        bench: torch.Tensor | None,
        correct: torch.Tensor | None,
        dtype: str | torch.dtype | None,
        op: str,
    ) -> _Case:
        check_tensors(candidate, "candidate", correct=correct, bench=bench)
        check_tensors(reference, "reference")
        if bounds is not None:
            _check_bounds(bounds, exact is None, tuple(candidate.shape))
        if candidate.dtype not in NAMES:
            raise InputError(
                f"the candidate is {candidate.dtype}; standards are stated for "
                f"{', '.join(NAMES.values())}. Give the operator's own output"
            )
        if not candidate.numel():
            raise InputError("there are no outputs to judge; give at least one")
        candidate, reference = candidate.detach().cpu(), reference.detach().cpu()
        if exact is None:
            exact = reference if bounds is None else bounds.exact
        golden = exact.detach().cpu().double().numpy() if torch.is_tensor(exact) else exact
        golden = np.asarray(golden, np.float64)
        narrow = rounded_to(reference, candidate.dtype)
        correct = narrow if correct is None else correct.detach().cpu()
        bench = None if bench is None else bench.detach().cpu()
        sides: dict[str, Any] = {
            "reference": reference,
            "exact": golden,
            "correct": correct,
            "bench": bench,
        }
        for name, side in sides.items():
            if side is not None and tuple(side.shape) != tuple(candidate.shape):
                raise InputError(
                    f"{name} is {list(side.shape)} and the candidate {list(candidate.shape)}; "
                    "they are compared output by output and need one shape"
                )
        if correct.dtype != candidate.dtype:
            raise InputError(
                f"correct is {correct.dtype} and the candidate {candidate.dtype}: bits are compared"
                " in one dtype"
            )
        short = contract().dtype(candidate.dtype if dtype is None else dtype)
        return cls(candidate, reference, golden, bounds, bench, correct, short, op)

    @property
    def out(self) -> str:
        """The candidate's dtype: what the quoted standards choose their thresholds by."""
        return NAMES[self.candidate.dtype]

    @functools.cached_property
    def errors(self) -> np.ndarray:
        """|candidate - golden|, fp64; NaN where either side is."""
        return self.errors_of(self.candidate)

    def errors_of(self, side: torch.Tensor) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.abs(side.double().numpy() - self.golden)

    @functools.cached_property
    def relative(self) -> np.ndarray:
        """|error| / |golden|; 0 where both sides are 0."""
        with np.errstate(all="ignore"):
            ratio = self.errors / np.abs(self.golden)
        return np.where(self.errors == 0, 0.0, ratio)

    @functools.cached_property
    def cosine(self) -> float:
        """Of the angle between both sides; 1 where both are 0 everywhere (0 / 0 otherwise)."""
        a, b = self.candidate.double().numpy().ravel(), self.golden.ravel()
        if not a.any() and not b.any():  # (a NaN is not 0)
            return 1.0
        with np.errstate(all="ignore"):
            return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    def spacing(self) -> np.ndarray:
        """One ULP of the candidate's dtype at each golden value."""
        return ulp(torch.from_numpy(self.golden), self.candidate.dtype).numpy()


def _check_bounds(bounds: Any, golden: bool, shape: tuple[int, ...]) -> None:
    wanted = ("get", "exact") if golden else ("get",)
    missing = [name for name in wanted if not hasattr(bounds, name)]
    if missing:
        raise InputError(
            f"bounds={bounds!r:.60} has no {' and no '.join(missing)}; give what "
            "wb.bounds(tree, hidden, weight) returns, or leave bounds out"
        )
    exact = getattr(bounds, "exact", None)
    if exact is not None and np.shape(exact) != shape:
        raise InputError(
            f"the bounds are of {list(np.shape(exact))} outputs and the candidate has "
            f"{list(shape)}; derive them from the same hidden and weight"
        )


Finding = tuple[bool, int | None, dict[str, float], str]  # passed, flagged, statistic, reason
Rule = Callable[[_Case, Mapping[str, Any]], Finding]


def _judged(name: str, case: _Case) -> Verdict:
    if name not in STANDARDS:
        raise InputError(f"standard {name!r} is unknown; there are {', '.join(STANDARDS)}")
    standard, outputs = STANDARDS[name], case.candidate.numel()
    missing = [need for need in standard.needs if getattr(case, need, True) is None]
    if missing:
        why = f"needs {' and '.join(missing)}"
        return Verdict(name, None, None, outputs, {}, why)
    passed, flagged, statistic, reason = _RULES[name](case, standard.thresholds)
    return Verdict(name, bool(passed), flagged, outputs, statistic, reason)


def _each(inside: np.ndarray, **statistic: float) -> Finding:
    """A rule for every output; `inside` is False for NaN."""
    flagged = int((~inside).sum())
    return not flagged, flagged, statistic, ""


# ---- ours ------------------------------------------------------------------------------------


def _raw_bits(case: _Case, _: Mapping[str, Any]) -> Finding:
    return _each((raw_bits(case.candidate) == raw_bits(case.correct)).numpy())


def _contract(case: _Case, _: Mapping[str, Any]) -> Finding:
    found = contract().judge(
        case.candidate, case.reference, "forward_accuracy", case.op, case.dtype
    )
    ratio = found.tolerance_ratio
    return found.passed, found.mismatches, {} if ratio is None else {"tolerance_ratio": ratio}, ""


def _bound(kind: str) -> Rule:
    def rule(case: _Case, _: Mapping[str, Any]) -> Finding:
        allowed = np.asarray(case.bounds.get(kind), np.float64)
        with np.errstate(all="ignore"):
            used = np.where(case.errors == 0, 0.0, case.errors / allowed)
        return _each(case.errors <= allowed, error_over_bound=float(used.max()))

    return rule


# ---- quoted ----------------------------------------------------------------------------------


def _assert_close(case: _Case, _: Mapping[str, Any]) -> Finding:
    try:
        _torch_default(case.candidate, rounded_to(case.reference, case.candidate.dtype))
    except AssertionError as error:
        counted = _MISMATCHED.search(str(error))
        return False, int(counted[1]) if counted else None, {}, ""
    return True, 0, {}, ""


def _cosine(case: _Case, limit: Mapping[str, Any]) -> Finding:
    return case.cosine > limit["cosine_above"], None, {"cosine": case.cosine}, ""


def _accuracy_reached(case: _Case, limit: Mapping[str, Any]) -> Finding:
    cosine, worst = case.cosine, float(case.errors.max())
    near = cosine >= limit["cosine_pair"] or worst <= limit["max_abs_pair"]
    passed = near and cosine >= limit["cosine_alone"] and worst <= limit["max_abs_alone"]
    return passed, None, {"cosine": cosine, "max_abs": worst}, ""


def _share_over(case: _Case, limit: float) -> float:
    """Share of outputs whose relative error is not below `limit`; NaN is not below."""
    return float((~(case.relative < limit)).mean())


def _msprobe_precheck(case: _Case, limit: Mapping[str, Any]) -> Finding:
    worst, share = float(case.errors.max()), limit["share"][case.out]
    over = _share_over(case, share["error"])
    statistic = {"cosine": case.cosine, "max_abs": worst, "share_over": over}
    if not case.cosine > limit["cosine_above"]:
        return False, None, statistic, ""
    if worst < limit["max_abs_below"]:
        return True, None, statistic, ""
    warns = not _share_over(case, share["warning"]) < share["warning"]
    passed = over < share["error"]
    return passed, None, statistic, "warning" if passed and warns else ""


def _msprobe_thousandth(case: _Case, limit: Mapping[str, Any]) -> Finding:
    share = 1 - _share_over(case, limit["relative_below"])
    return share > limit["share_above"], None, {"share_below": share}, ""


def _msprobe_ulp(case: _Case, limits: Mapping[str, Any]) -> Finding:
    limit = limits[case.out]
    spacing = case.spacing()
    size = case.errors / spacing
    share = float((~(size <= limit["beyond_ulp"])).mean())
    mean = float(size.mean())
    passed = share < limit["share_below"] or mean < limit.get("mean_below", -1)
    if not passed and case.bench is not None:
        bench = case.errors_of(case.bench) / spacing
        passed = share < float((~(bench <= limit["beyond_ulp"])).mean())
    return passed, None, {"mean_ulp": mean, "share_beyond": share}, ""


def _over(ours: float, theirs: float) -> float:
    """ours / theirs; 0 / 0 is 1 (as good as each other), x / 0 infinite."""
    if ours == theirs:
        return 1.0
    return ours / theirs if theirs else math.inf if ours == ours else math.nan


def _by_ratio(ratios: dict[str, float], limit: Mapping[str, Any], warns: float = math.inf):
    passed = all(value <= limit[name] for name, value in ratios.items())  # a NaN fails
    warning = passed and any(value > warns for value in ratios.values())
    return passed, None, ratios, "warning" if warning else ""


def _msprobe_bench(case: _Case, limit: Mapping[str, Any]) -> Finding:
    small = np.abs(case.golden) < limit["small"][case.out]["below"]
    assert case.bench is not None

    def metrics(error: np.ndarray) -> tuple[float, ...]:
        relative = error[~small] / np.abs(case.golden[~small])
        beyond = error[small] > limit["small"][case.out]["error"]
        return (
            float(beyond.mean()) if beyond.size else 0.0,
            math.sqrt(float(np.square(error).mean())),
            float(relative.max(initial=0)),
            float(relative.mean()) if relative.size else 0.0,
        )

    names = ("small_error_ratio", "rmse_ratio", "max_relative_ratio", "mean_relative_ratio")
    pairs = zip(metrics(case.errors), metrics(case.errors_of(case.bench)), strict=True)
    ratios = {name: _over(*pair) for name, pair in zip(names, pairs, strict=True)}
    return _by_ratio(ratios, limit, warns=1)


def _with_epsilon(case: _Case, error: np.ndarray, epsilon: float) -> np.ndarray:
    return error / (np.abs(case.golden) + epsilon)


def _cann_mere_mare(case: _Case, limit: Mapping[str, Any]) -> Finding:
    relative = _with_epsilon(case, case.errors, limit["epsilon"])
    mere, mare = float(relative.mean()), float(relative.max())
    threshold = limit[case.out]
    passed = mere < threshold and mare < limit["maximum_times"] * threshold
    return passed, None, {"mere": mere, "mare": mare}, ""


def _cann_mixed(case: _Case, limits: Mapping[str, Any]) -> Finding:
    limit, size = limits[case.out], np.abs(case.golden)
    outside = ~(case.errors <= limit["absolute"] + limit["relative"] * size)
    matched = 1 - float(outside.mean())
    at = int(case.errors.argmax())  # the first NaN if there is one
    worst = float(case.errors.flat[at])
    most = max(limit["floor"], limits["ulp"] * float(case.spacing().flat[at]))
    passed = matched >= limits["matched_at_least"] and worst <= most
    return passed, int(outside.sum()), {"matched": matched, "max_abs": worst}, ""


def _cann_ratio(case: _Case, limit: Mapping[str, Any]) -> Finding:
    assert case.bench is not None

    def metrics(error: np.ndarray) -> tuple[float, ...]:
        relative = _with_epsilon(case, error, limit["epsilon"])
        rmse = math.sqrt(float(np.square(error).mean()))
        return float(relative.max()), float(relative.mean()), rmse

    names = ("mare_ratio", "mere_ratio", "rmse_ratio")
    pairs = zip(metrics(case.errors), metrics(case.errors_of(case.bench)), strict=True)
    return _by_ratio({n: _over(*pair) for n, pair in zip(names, pairs, strict=True)}, limit)


def _twice_torch(case: _Case, limit: Mapping[str, Any]) -> Finding:
    assert case.bench is not None
    ours, theirs = float(case.errors.max()), float(case.errors_of(case.bench).max())
    statistic = {"max_abs": ours, "bench_max_abs": theirs}
    return ours <= limit["times"] * theirs, None, statistic, ""


_RULES: dict[str, Rule] = {
    "raw_bits": _raw_bits,
    "contract": _contract,
    "worst_case": _bound("worst_case"),
    "running": _bound("running"),
    "probabilistic": _bound("probabilistic"),
    "assert_close": _assert_close,
    "cosine": _cosine,
    "accuracy_reached": _accuracy_reached,
    "msprobe_precheck": _msprobe_precheck,
    "msprobe_thousandth": _msprobe_thousandth,
    "msprobe_ulp": _msprobe_ulp,
    "msprobe_bench": _msprobe_bench,
    "cann_mere_mare": _cann_mere_mare,
    "cann_mixed": _cann_mixed,
    "cann_ratio": _cann_ratio,
    "twice_torch": _twice_torch,
}
_OURS = {
    "raw_bits": ("raw bits", "bits", "every bit equal to the correct kernel's", ()),
    "contract": ("the numerics contract", "contract", "the cell of contract.json, each output", ()),
    "worst_case": (
        "worst-case bound",
        "worst case",
        "|error| within gamma of (tree height + 1) times the sum of |x w|, plus output rounding",
        ("bounds",),
    ),
    "running": (
        "running bound",
        "running",
        "|error| within u times the sums of |partial sums| and |products|, plus output rounding",
        ("bounds",),
    ),
    "probabilistic": (
        "probabilistic bound",
        "probable",
        "|error| within the bound that holds with probability 1 - delta for independent roundings",
        ("bounds",),
    ),
}
# The bench decides nothing alone in msprobe_ulp, which works without one.
_NEEDS_BENCH = ("msprobe_bench", "cann_ratio", "twice_torch")


def _numbers(value: Any) -> Any:
    """Thresholds with "2^-10" as the number it is."""
    if isinstance(value, dict):
        return MappingProxyType({key: _numbers(item) for key, item in value.items()})
    if isinstance(value, str):
        base, _, power = value.partition("^")
        return float(base) ** int(power)
    return value


def _load() -> Mapping[str, Standard]:
    found = {
        name: Standard(name, title, short, True, says, needs)
        for name, (title, short, says, needs) in _OURS.items()
    }
    for name, raw in json.loads(PATH.read_text("utf-8"))["standards"].items():
        found[name] = Standard(
            name,
            raw["title"],
            raw["short"],
            False,
            raw["says"],
            ("bench",) if name in _NEEDS_BENCH else (),
            raw["source"],
            raw["url"],
            tuple(raw["assumed"]),
            _numbers(raw["thresholds"]),
        )
    return MappingProxyType({name: found[name] for name in _RULES})


STANDARDS: Mapping[str, Standard] = _load()


def standards_table() -> str:
    """The standards as a Markdown table: rule, source, and what is assumed."""
    rows = ["| column | standard | rule | source | assumed |", "| --- | --- | --- | --- | --- |"]
    for s in STANDARDS.values():
        source = "this project" if s.ours else f"[{s.source}]({s.url})"
        says = s.says.replace("|", "\\|")
        assumed = "; ".join(s.assumed).replace("|", "\\|")
        rows.append(f"| {s.short} | {s.label} | {says} | {source} | {assumed} |")
    return "\n".join(rows)
