"""Parity with library functions, case by case: the table of docs/parity.md.

    python benchmarks/parity.py [--quick] [--out FILE] [--page]

Each case: the order or orders are revealed, evaluated by `dot` and by generated kernels, and
compared bit for bit with the library on new draws of N(0, 1) and on the real sample (its weight and
its hidden states, each as one row of numbers and cut anew for the n of the case). Times are ratios
of one run. `--page` writes the table into docs/parity.md.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from _common import run_with_table

import workbench as wb
from workbench.orders.parity import ParityError, parity
from workbench.orders.synthesise import SynthesisError, synthesise

DRAWS = 20

CASES: list[dict[str, Any]] = [
    *({"target": "torch.mv", "rows": r, "n": n} for n in (64, 576, 1000, 4096) for r in (1, 257)),
    {"target": "torch.mv", "rows": 257, "n": 577},
    {"target": "torch.mv", "rows": 257, "n": 576, "offset": (1, 0)},
    {"target": "F.linear", "rows": 1, "n": 576, "columns": 257},
    {"target": "F.linear", "rows": 2, "n": 576, "columns": 257},
    {"target": "F.linear", "rows": 8, "n": 576, "columns": 257},
    {"target": "F.linear", "rows": 2, "n": 4096, "columns": 64},
    {"target": "torch.matmul", "rows": 4, "n": 576, "columns": 64},
    {"target": "numpy.dot", "rows": 1, "n": 576},
    {"target": "numpy.dot", "rows": 257, "n": 576},
    {"target": "numpy.matmul", "rows": 1, "n": 576, "columns": 64},
    {"target": "numpy.matmul", "rows": 4, "n": 576, "columns": 64},
]


def operands(case: dict[str, Any], seed: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(a [rows, n], b [columns, n]) of N(0, 1), or of the sample where the seed is None."""
    rows, n, columns = case["rows"], case["n"], case.get("columns", 1)
    if seed is None:
        sample = wb.samples.smollm2()
        weight, hidden = sample.weight.float().flatten(), sample.hidden.flatten()
        first, second = (hidden, weight) if columns > rows else (weight, hidden)
        return (
            first[: rows * n].reshape(rows, n).numpy(),
            second[: columns * n].reshape(columns, n).numpy(),
        )
    rng = np.random.default_rng(1000 + seed)
    return tuple(rng.standard_normal((k, n)).astype(np.float32) for k in (rows, columns))


def ratio(ours: Any, theirs: Any) -> float:
    """The fastest of ours over the fastest of theirs, in turns."""
    best = [float("inf")] * 2
    for _ in range(30):
        for k, function in enumerate((ours, theirs)):
            start = time.perf_counter()
            function()
            best[k] = min(best[k], time.perf_counter() - start)
    return best[0] / best[1]


def run(case: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {**case, "offset": case.get("offset", (0, 0))}
    try:
        ours = parity(**case, threads=1)
    except ParityError as error:
        return result | {"error": str(error), "reason": error.reason}
    compiled = ours.compiled()
    asked = ours._asked
    equal = {"N(0, 1)": 0, "sample": 0, "compiled": 0}
    for seed in [*range(DRAWS), None]:
        a, b = operands(case, seed)
        want = asked.outputs(a, b)
        equal["sample" if seed is None else "N(0, 1)"] += np.array_equal(ours._outputs(a, b), want)
        equal["compiled"] += np.array_equal(compiled._outputs(a, b), want)
    ascend = []
    for order in ours.orders:
        try:
            made = synthesise(
                order.tree,
                kind="ascend",
                fused=order.fused,
                zero_start=order.zero_start,
                backend="twin",
            )
            rows = np.unique(order.rows_)[:2]
            columns = np.unique(order.columns_)[:2]
            same = made(a[rows], b[columns]).tobytes() == want[np.ix_(rows, columns)].tobytes()
            ascend.append("equal" if same else "DIFFERS")
        except SynthesisError as error:
            ascend.append(f"no: {error.reason}")
    torch.set_num_threads(1)
    return result | {
        "seconds": ours.report.seconds,
        "calls": ours.report.calls,
        "orders": list(ours.report.orders),
        "equal": equal,
        "ascend": ascend,
        "forms": [k.form for k in compiled._kernels],
        "ratio": ratio(lambda: compiled._outputs(a, b), lambda: asked._call(asked._a, asked._b)),
        "alignment": ours.report.alignment,
        "other_threads": ours.report.other_threads,
    }


def table(result: dict[str, Any]) -> str:
    m = result["machine"]
    lines = [
        f"{m['cpu']}, torch {m['torch']} ({result['blas']}), numpy {np.__version__}, "
        f"{m['compiler']}; one thread. {DRAWS} draws of N(0, 1); time of the generated kernels "
        "over that of the library.",
        "",
        "| call | outputs: order | fused | N(0, 1) | sample | Ascend C on the twin | time |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in result["cases"]:
        by = f"[{r['columns']}, {r['n']}]" if r.get("columns") else f"[{r['n']}]"
        call = f"`{r['target']}` [{r['rows']}, {r['n']}] by {by}"
        if any(r["offset"]):
            call += f", first operand {4 * r['offset'][0]} bytes off its line"
        if "error" in r:
            lines.append(f"| {call} | none: {r['error']} | | no | no | | |")
            continue
        orders = "<br>".join(f"{o['outputs']}: {o['form']}" for o in r["orders"])
        fused = "<br>".join(str(o["fused"]) for o in r["orders"])
        same = f"{r['equal']['N(0, 1)']} of {DRAWS}"
        sample = "equal" if r["equal"]["sample"] else "differs"
        if r["equal"]["compiled"] != DRAWS + 1:
            sample += ", generated kernels differ"
        ascend = "<br>".join(r["ascend"])
        lines.append(
            f"| {call} | {orders} | {fused} | {same} | {sample} | {ascend} | {r['ratio']:.1f} |"
        )
    return "\n".join(lines)


def measure(quick: bool) -> dict[str, Any]:
    return {
        "what": "parity with library functions, one thread",
        "runs": DRAWS,
        "blas": "MKL" if torch.backends.mkl.is_available() else "no MKL",
        "cases": [run(case) for case in (CASES[:1] if quick else CASES)],
    }


if __name__ == "__main__":
    run_with_table(measure, __doc__, table, "parity.md", "parity")
