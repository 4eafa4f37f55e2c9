"""One function a pane: a result goes in, HTML and figures come out. What is drawn, plots draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from workbench import plots
from workbench.numerics import DriftResult
from workbench.numerics.invariance import place
from workbench.widgets import markup, words
from workbench.widgets.explore.result import ExploreResult, RowErrors
from workbench.widgets.explore.state import LOGP
from workbench.widgets.views import drift_view, tree_view

TITLES = {
    "order": "Order",
    "drift": "Drift",
    "invariance": "Batch invariance",
    "tolerance": "Tolerance",
    "counters": "Counters",
    "build": "Build log",
    "pins": "Pins",
}
Output = tuple[int, int]  # row, column
_LINES = 14  # source lines in the table of counters


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn when it is wanted, with its text alternative.

    Attributes:
        name: Of a file that it is written to.
        alt: What it shows, for someone who cannot see it.
        draw: Makes the figure.
        key: What it depends on: two pictures of one key are the same.
        in_view: Whether the pane's widget shows it as well: then it is drawn for files alone.
    """

    name: str
    alt: str
    draw: Callable[[], Figure] = field(compare=False)
    key: Any = None
    in_view: bool = False


def numbers(pane: str, found: ExploreResult) -> str:
    """The words and numbers of a pane, as HTML; they come before its figures."""
    if found.error:
        heading = "Not built." if found.info is None else "No result."
        return markup.error(found.error, heading) + (_compiler(found) if found.log else "")
    note = found.notes.get(pane, "")
    body = {
        "order": _order,
        "drift": _drift,
        "invariance": _invariance,
        "tolerance": _tolerance,
        "counters": _counters,
        "build": _build,
    }[pane](found)
    return body + (markup.note(note) if note else "")


def pictures(pane: str, found: ExploreResult) -> list[Picture]:
    """The figures of a pane, in the order in which they are drawn."""
    if found.error:
        return []
    made = {
        "order": _order_pictures,
        "drift": _drift_pictures,
        "invariance": _invariance_pictures,
        "tolerance": _tolerance_pictures,
    }.get(pane)
    return made(found) if made else []


def data(pane: str, found: ExploreResult) -> Any:
    """The result behind a pane (a `Result`: JSON, and rows for CSV); None where there is none."""
    if pane == "order":
        return found.tree
    return {
        "drift": found.drift,
        "invariance": found.invariance,
        "tolerance": found.tolerance,
        "counters": found.counters and found.counters.report,
        "build": found.info,
    }.get(pane)


def view(pane: str, found: ExploreResult, output: Output | None = None) -> Any:
    """The widget of a pane, to move about in; None where it has none.

    Args:
        output: (row, column) whose sum is shown; None, or one that is not there: the output that
            drifts most, as far as that is known.
    """
    if view_key(pane, found, output) is None:
        return None
    return {"order": order_view, "drift": drift_map_view}[pane](found, _output(found, output))


def view_key(pane: str, found: ExploreResult, output: Output | None = None) -> Any:
    """What the widget of a pane depends on: of one key it is the same. None: there is none."""
    tree = found.tree
    if found.error or tree is None or tree.leaves == 0 or found.given is None:
        return None
    if pane == "order":
        return found.state, tree.hash, _how(found), _output(found, output)
    if pane == "drift" and isinstance(found.drift, DriftResult):
        # (The errors too: an edited source may change them and leave its order.)
        known = tree.leaves == found.drift.shape[1]
        return (found.state, tree.hash, found.drift) if known else None
    return None


def order_view(found: ExploreResult, output: Output) -> Any:
    """The order, with the share of each sum in the error bound of an output.

    A declared order that is not the revealed one stands beside it, the first difference marked.
    """
    assert found.given is not None and found.tree is not None
    terms, what = found.given.terms(found.state.op, *output)
    declared = found.order if found.order_holds is False else None
    made = tree_view(
        found.tree,
        declared,
        label=f"{_how(found)}, {found.state.title()}",
        other_label="declared by the source" if declared is not None else "",
        evidence=_order_note(found),
    )
    return made.set_terms(terms, what)


def drift_map_view(found: ExploreResult, output: Output) -> Any:
    """The errors on a map, and the order of the output that is chosen there."""
    assert found.given is not None and isinstance(found.drift, DriftResult)
    given = found.given
    made = drift_view(found.drift, None, given.hidden, given.weight, tree=found.tree)
    return made.select(*output)


def _output(found: ExploreResult, output: Output | None) -> Output:
    """The output whose sum is shown: the one asked for, else the one that drifts most."""
    if output is not None and output[0] < found.state.rows and output[1] < found.state.vocab:
        return output
    if isinstance(found.drift, DriftResult):
        errors = abs(found.drift["kernel", "exact"].errors_in("ulp"))
        row, column = divmod(int(errors.argmax()), errors.shape[1])  # (a NaN is the largest)
        return row, column
    return 0, 0


# ---- order ---------------------------------------------------------------------------------------


def _order(found: ExploreResult) -> str:
    declared, revealed = found.order, found.revealed
    lines = {}
    if declared is not None:
        lines["declared"] = f"by the source: {words.order_text(declared)}"
    if revealed is not None:
        lines["revealed"] = f"from the running binary: {words.order_text(revealed)}"
    if found.order_holds is not None:
        lines["agreement"] = (
            "= the binary adds as its source declares"
            if found.order_holds
            else f"≠ the binary adds otherwise: {_difference(found)}"
        )
    if found.tree is not None:
        depths = found.tree.depths()
        if len(depths):
            lines["roundings"] = (
                f"a term is rounded {int(depths.min())} to {int(depths.max())} times on its way"
            )
    summed = "exponentials of a row of logits" if found.state.op == LOGP else "products of a sum"
    lines["terms are"] = summed
    first = dict.fromkeys(("declared", "revealed", "agreement"), "")  # each keeps its place
    coming = list(first)[1:] if declared is not None and "order" not in found.done else []
    return markup.facts(first | lines, coming)


def _difference(found: ExploreResult) -> str:
    assert found.order is not None and found.revealed is not None
    return str(found.order.diff(found.revealed)).splitlines()[0]


def _order_pictures(found: ExploreResult) -> list[Picture]:
    tree = found.tree
    if tree is None:
        return []
    state = found.state
    label = f"{state.title()}"
    note = _order_note(found)
    return [
        Picture(
            "order",
            f"Order of summation of {label}: {words.order_text(tree)}.",
            lambda: plots.order(tree, f"tile {state.tile} on {state.arch}" if state.tile else "",
                                plots.evidence_text(note=note)),
            (tree.hash, state.tile, state.arch, _how(found)),
            in_view=view_key("order", found) is not None,
        )
    ]  # fmt: skip


def _how(found: ExploreResult) -> str:
    held = found.order is not None and found.order_holds is not False
    return "declared by the source" if held else "revealed from the running binary"


def _order_note(found: ExploreResult) -> str:
    state = found.state
    return f"{_how(found)}, {state.arch}" + (f", tile {state.tile}" if state.tile else "")


# ---- drift ---------------------------------------------------------------------------------------


def _drift(found: ExploreResult) -> str:
    drift = found.drift
    if drift is None:
        return ""
    rows = found.state.rows
    made = _row_errors(drift, rows) if isinstance(drift, RowErrors) else _comparisons(drift)
    return made + markup.evidence(drift)


def _row_errors(drift: RowErrors, of: int) -> str:
    rows = [
        {
            "side": _side(row["candidate"]),
            "max": f"{row['max_abs']:.2e}",
            "mean": f"{row['mean_abs']:.2e}",
            "worst": f"row {row['worst_row']}",
        }
        for row in drift.rows()
    ]
    heads = {"side": "error of", "max": "largest, in nats", "mean": "mean, in nats"}
    heads["worst"] = "where the largest is"
    caption = "Log-probs against the exact ones (fp64)"
    if drift.shape[0] < of:
        caption += f", of the {drift.shape[0]:,} of {of:,} rows whose target is in the vocabulary"
    return markup.table(rows, caption, heads)


def _comparisons(drift: DriftResult) -> str:
    rows = []
    for pair in sorted(drift.pairs(), key=lambda pair: pair[1] != "exact"):
        c = drift[pair]
        rows.append(
            {
                "side": _side(pair[0]) if pair[1] == "exact" else f"{pair[0]} against {pair[1]}",
                "max": f"{c.max_abs:.2e}",
                "mean": f"{c.mean_abs:.2e}",
                "ulp": f"{c.max_ulp:.2f}",
                "differing": f"{c.differing:,} of {c.outputs:,}",
                "worst": f"row {c.worst['row']}, id {c.worst['vocab_id']}",
            }
        )
    heads = {
        "side": "error of",
        "max": "largest |error|",
        "mean": "mean |error|",
        "ulp": "largest, in ULP of Σ|x w|",
        "differing": "outputs with other bits",
        "worst": "where |error| is largest",
    }
    caption = "Errors against the exact results (fp64), and against the reference"
    return markup.table(rows, caption, heads)


def _side(name: str) -> str:
    return name if name == "kernel" else f"{name} itself"


def _drift_pictures(found: ExploreResult) -> list[Picture]:
    drift = found.drift
    if drift is None:
        return []
    sides = ", ".join(f"{k} {v:.1e}" for k, v in _largest(drift).items())
    if isinstance(drift, RowErrors):
        title = "Errors of the log-probs about 0, in nats"
        return [
            Picture(
                "drift_histogram",
                f"Histogram of the errors of log-probs; largest: {sides}.",
                lambda: plots.drift_histogram(drift.histogram(), title=title),
            )
        ]
    return [
        Picture(
            "drift_map",
            f"Heatmaps of errors over rows and vocabulary ids, one a side; largest: {sides}.",
            lambda: plots.drift_map(drift),
            in_view=view_key("drift", found) is not None,
        ),
        Picture(
            "drift_histogram",
            f"Histograms of errors with their signs; largest: {sides}.",
            lambda: plots.drift_histogram(drift.histogram()),
        ),
    ]


def _largest(drift: DriftResult | RowErrors) -> dict[str, float]:
    """{side: its largest error against the exact results}."""
    if isinstance(drift, RowErrors):
        return {side: drift.max_abs((side, wanted)) for side, wanted in drift.errors}
    return {c: drift[c, r].max_abs for c, r in drift.pairs() if r == "exact"}


def largest_errors(drift: DriftResult | RowErrors | None) -> str:
    """ "kernel 7.0e-06, torch.mv 1.1e-05", "" where nothing was measured."""
    if drift is None:
        return ""
    return ", ".join(f"{side} {value:.1e}" for side, value in _largest(drift).items())


# ---- invariance ----------------------------------------------------------------------------------


def _invariance(found: ExploreResult) -> str:
    verdict = found.invariance
    if verdict is None:
        return ""
    rows = []
    for t in verdict.transforms:
        at = t.first_mismatch
        rows.append(
            {
                "transform": f"{t.name} {t.relation}",
                "verdict": "= passed" if t.passed else "≠ failed",
                "cases": f"{t.cases:,}",
                "differ": f"{t.mismatches:,} of {t.elements:,}",
                "first": f"{at['case']}: {place(at)}, {at['expected_bits']} became {at['got_bits']}"
                if at
                else "none",
            }
        )
    caption = "What a row's bits survive, by transform of the batch"
    heads = {"cases": "batches", "differ": "outputs that differ", "first": "first mismatch"}
    lines = {
        "verdict": words.invariance_text(verdict),
        "looked at": _columns_looked_at(found),
        "left out": "of T5, other block counts and schedules: they have controls above",
    }
    return markup.facts(lines) + markup.table(rows, caption, heads) + markup.evidence(verdict)


def _columns_looked_at(found: ExploreResult) -> str:
    """How many of the vocabulary's ids the check was of, where it was not of all."""
    checked = found.invariance.shape[-1] if found.invariance is not None else 0
    if found.state.op == LOGP or checked == found.state.vocab:
        return ""
    return f"the first {checked:,} of {found.state.vocab:,} vocabulary ids, to be quick"


def _invariance_pictures(found: ExploreResult) -> list[Picture]:
    verdict: Any = found.invariance
    if verdict is None:
        return []
    return [
        Picture(
            "invariance",
            f"Table of mismatches by transform: {words.invariance_text(verdict)}.",
            lambda: plots.invariance_table({found.state.title().split(",")[0]: verdict},
                                           title=words.invariance_text(verdict)),
        )
    ]  # fmt: skip


# ---- tolerance -----------------------------------------------------------------------------------


def _tolerance(found: ExploreResult) -> str:
    t = found.tolerance
    if t is None:
        return ""
    own, label = t.chosen, next(iter(t.cells))
    bound = own.kind.replace("_", "-")
    mark = "=" if not own.count else "≠"
    lines = {
        "contract's cell": f"of {t.op}, {label}: atol {own.atol:.3g}, rtol {own.rtol:.3g}",
        "flagged outputs": f"{mark} {own.count:,} of {own.outputs:,}; the worst error is "
        f"{own.worst_ratio:.3g} times what is allowed there",
        "against the bound": f"the cell allows {own.looseness_min:.3g} to {own.looseness_max:.3g} "
        f"times the {bound} bound, median {own.looseness_median:.3g}",
        "this kernel": f"{t.bounds[own.kind].beyond:,} outputs are beyond the {bound} bound",
        "derived pair": f"atol {t.proposal.atol:.3g}, rtol {t.proposal.rtol:.3g}: the tightest "
        f"that flags no correct kernel in this order on these inputs ({bound})",
        "outputs": f"rounded to {t.out_dtype}, as the cell judges them",
        "reference": t.reference,
        "order": t.order,
        "warnings": "; ".join(t.warnings),
    }
    rows = [
        {
            "kind": kind.replace("_", "-"),
            "median": f"{b.median:.2e}",
            "max": f"{b.max:.2e}",
            "worst": f"{b.worst_ratio:.3g}",
            "beyond": f"{b.beyond:,}",
            "rests": b.rests_on,
        }
        for kind, b in t.bounds.items()
    ]
    heads = {"kind": "bound", "median": "median", "max": "largest", "rests": "rests on"}
    heads |= {"worst": "worst |error| / bound", "beyond": "outputs beyond"}
    return markup.facts(lines) + markup.table(rows, "Derived bounds", heads) + markup.evidence(t)


def _tolerance_pictures(found: ExploreResult) -> list[Picture]:
    t = found.tolerance
    if t is None:
        return []
    own = t.chosen
    return [
        Picture(
            "tolerance_ratios",
            f"Histograms of errors and of what is allowed: {own.title()}.",
            lambda: plots.tolerance_ratios(t.histogram()),
        ),
        Picture(
            "tolerance_plane",
            f"Plane of atol and rtol with the contract's cells: {own.title()}.",
            lambda: plots.tolerance_plane(t.grid(), (own.atol, own.rtol)),
        ),
    ]


# ---- counters and build --------------------------------------------------------------------------

_COUNTERS = {
    "gm_to_ub_bytes": "bytes from GM to UB",
    "ub_to_gm_bytes": "bytes from UB to GM",
    "vector_instructions": "vector instructions",
    "vector_repeats": "vector repeats",
    "copies": "copies",
    "flags": "synchronisation: flags set or waited for",
    "barriers": "synchronisation: pipe barriers",
    "queue_operations": "queue operations",
    "scalar_reads": "scalar reads",
    "scalar_writes": "scalar writes",
}


def _part(counted: tuple[int, ...], found: ExploreResult) -> str:
    """Why fewer outputs were counted than are shown, if they were."""
    whole = None if found.outputs is None else tuple(found.outputs.shape)
    if whole is None or tuple(counted) == whole:
        return ""
    of = " × ".join(map(str, whole))
    return f": the first of {of}, because counting is slow"


def _counters(found: ExploreResult) -> str:
    counted = found.counters
    if counted is None:
        return ""
    report = counted.report
    names = {**_COUNTERS, **{k: k for k in report.counters if k not in _COUNTERS}}
    shape = " × ".join(map(str, counted.shape))
    outputs = 1
    for size in counted.shape:
        outputs *= size
    rows = [
        {"what": text, "launch": f"{report.counters[k]:,}",
         "each": _each(report.counters[k] / outputs)}
        for k, text in names.items()
        if k in report.counters
    ]  # fmt: skip
    lines = {
        "counted": f"by the twin, not measured on hardware: one launch of {shape} outputs in "
        f"{report.blocks:,} blocks{_part(counted.shape, found)}",
        "unified buffer": f"{report.ub_bytes:,} bytes reserved by the hungriest block",
        "bits": "= the launch that was counted gave the same bits"
        if counted.same_bits
        else "≠ the launch that was counted gave other bits: counting changes none, so the number "
        "of rows or columns does",
        "fidelity": f"weakest tag of an executed instruction: {report.fidelity}",
    }
    heads = {"what": "counter", "launch": "of the launch", "each": "per output"}
    made = markup.facts(lines) + markup.table(rows, "Counters of the twin", heads)
    return made + markup.table(_by_line(report.lines), "By source line, the busiest first",
                               {"line": "line", **names})  # fmt: skip


def _each(number: float) -> str:
    """A count for one output: whole where it is large, four digits where it is small."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def _by_line(lines: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The lines that execute most, with the counters that differ from 0 anywhere."""
    counts = [{k: v for k, v in line.items() if isinstance(v, int) and k != "line"}
              for line in lines]  # fmt: skip
    used = [k for k in (counts[0] if counts else {}) if any(c.get(k) for c in counts)]
    order = sorted(range(len(lines)), key=lambda i: -sum(counts[i].values()))[:_LINES]
    return [
        {
            "line": f"{str(lines[i]['file']).rsplit('/', 1)[-1]}:{lines[i]['line']}",
            **{k: f"{counts[i].get(k, 0):,}" for k in used},
        }
        for i in order
    ]


def _build(found: ExploreResult) -> str:
    info = found.info
    if info is None:
        return ""
    lines = {
        "built": found.build_text() + f", {info.made}",
        "source": f"{info.source} (content {info.source_digest[:12]})",
        "compiler": info.compiler,
        "flags": " ".join(info.flags),
        "defines": " ".join(f"-D{k}={v}" for k, v in info.defines.items()),
        "entries": ", ".join(info.entries),
        "module": info.path,
        "fidelity": _fidelity(info.fidelity),
    }
    return markup.facts(lines) + _compiler(found)


def _fidelity(told: dict[str, Any]) -> str:
    assumed = "; ".join(told.get("assumed", []))
    return told.get("tag", "not stated") + (f" ({assumed})" if assumed else "")


def _compiler(found: ExploreResult) -> str:
    said = found.log.strip()
    return markup.preformatted(said or "The compiler said nothing.", "What the compiler said")
