"""The benchmarks without a Must: lines of the summary, text and tables. Measures nothing."""

from __future__ import annotations

from _telling import SHORT, Result, Row, prose, ranged, table, time

# ---- the twin, schedules, backward, reveal, parity -----------------------------------------------


def twin_rows(result: Result) -> list[Row]:
    rows = []
    for dtype in SHORT:
        found = [r for r in result["table"] if r["dtype"] == dtype]
        best = max(found, key=lambda r: r["ratio"])
        rows.append(
            Row(
                f"twin, {SHORT[dtype]}, N = 1, tile {best['tile']}",
                time(best["twin"]["median"]),
                f"torch.mv: {time(best['torch.mv']['median'])}",
                f"{best['ratio']:.2f} of its speed",
            )
        )
    triton = result.get("triton_interpreter", {"measured": False, "why": "no such run"})
    if triton["measured"]:
        rows.append(
            Row(
                f"twin, fp32, 1 x 4096 x {triton['shape'][2]}, tile {triton['block']}",
                time(triton["twin"]["median"]),
                f"Triton's interpreter: {time(triton['triton']['median'])}",
                f"{triton['times_faster']['median']:,.0f} times",
            )
        )
    else:
        rows.append(Row("twin beside Triton's interpreter", "", "not measured", ""))
    return rows


def twin(result: Result) -> list[str]:
    rows = [
        (
            r["dtype"],
            r["tile"],
            f"{r['ratio']:.2f}",
            "{min:.2f} to {max:.2f}".format(**r["ratio_spread"]) if "ratio_spread" in r else "",
            f"{r['checked']:.1f}",
            f"{r['counters']:.2f}",
        )
        for r in sorted(result["table"], key=lambda r: r["dtype"] != "float32")
    ]
    triton = result.get("triton_interpreter", {"measured": False, "why": "no such run"})
    if triton["measured"]:
        n, h, v = triton["shape"]
        last = prose(
            f"""Another simulation: a matrix-vector product written in Triton, a program a logit and
            blocks of {triton["block"]:,}, run by Triton {triton["version"]}'s interpreter
            (`TRITON_INTERPRET=1`) at {n} x {h} x {v}, because it is slow:
            {time(triton["triton"]["median"])}, the twin {time(triton["twin"]["median"])},
            **{ranged(triton["times_faster"])} times** faster. The interpreter runs a program in
            numpy and promises no order of summation; on whole numbers, where order does not matter,
            both gave the same bits."""
        )
    else:
        last = prose(f"Beside Triton's interpreter: not measured here. {triton['why']}.")
    return [
        "The ratio is torch.mv's time over the twin's, for the same product.",
        "",
        *table(
            ("dtype", "tile", "speed of the twin, torch.mv = 1", "smallest to largest",
             "checked mode, times fast mode", "with counters"),
            rows,
        ),
        "",
        *last,
    ]  # fmt: skip


def schedules_rows(result: Result) -> list[Row]:
    return [
        Row(
            f"LM head, 59 rows, {SHORT[r['dtype']]}: `weight_stationary` on the twin",
            time(r["seconds"]["weight_stationary"]["median"]),
            f"`output` on the twin: {time(r['seconds']['output']['median'])}",
            f"{r['ratio']['output']:.2f} times",
        )
        for r in result["table"]
    ]


def schedules(result: Result) -> list[str]:
    rows = [
        (
            r["dtype"],
            f"{r['bytes_per_logit']['output']:,.0f}",
            f"{r['bytes_per_logit']['weight_stationary']:,.0f}",
            f"{r['ratio']['output']:.2f}",
            f"{r['ratio']['torch.mv']:.2f}",
            f"{r['ratio']['F.linear']:.3f}",
        )
        for r in result["table"]
    ]
    return [
        "Bytes do not depend on where a kernel runs. A ratio is the other's time over that of",
        "`weight_stationary`: above 1 it is slower than that.",
        "",
        *table(
            ("dtype", "bytes from GM per logit, `output`", "`weight_stationary`",
             "time of `output`", "of `torch.mv` per row", "of `F.linear`"),
            rows,
        ),
    ]  # fmt: skip


def backward_rows(result: Result) -> list[Row]:
    return [
        Row(
            f"backward, {SHORT[r['dtype']]}, {r['rows']} rows: `deterministic` on the twin",
            time(r["seconds"]["deterministic"]["median"]),
            f"torch's products: {time(r['seconds']['matmul']['median'])}",
            f"{r['ratio']:.2f} of its time",
        )
        for r in result["table"]
        if r["rows"] == 8 or len(result["table"]) < 3
    ]


def backward(result: Result) -> list[str]:
    rows = [
        (
            r["dtype"],
            r["rows"],
            f"{r['ratio']:.2f}",
            "{min:.2f} to {max:.2f}".format(**r["ratio_spread"]) if "ratio_spread" in r else "",
        )
        for r in result["table"]
    ]
    head = ("dtype", "rows", "time of `deterministic`, `matmul` = 1", "smallest to largest")
    return table(head, rows)


def reveal_rows(result: Result) -> list[Row]:
    return [
        Row(
            f"reveal, n = {result.get('n', 4096):,}, {k['arch']}",
            f"{time(k['seconds']['median'])}, {k['calls']} calls",
            f"one probe a call: {time(k['one_probe_a_call']['seconds']['median'])}, "
            f"{k['one_probe_a_call']['calls']:,} calls",
            f"{k['times_faster']['median']:.0f} times",
        )
        for k in result["kernels"]
    ]


def reveal(result: Result) -> list[str]:
    rows = [
        (
            k["arch"],
            k["calls"],
            k["calls_allowed"],
            k["check_calls"],
            ranged(k["seconds"]),
            f"{k['one_probe_a_call']['calls']:,}",
            ranged(k["times_faster"]),
        )
        for k in result["kernels"]
    ]
    return [
        "Calls that confirm (rows are independent, the order explains other values) are",
        "counted apart. The peer asks the same function one probe a call.",
        "",
        *table(
            ("arch", "calls to find it", "2 log2 n", "to confirm", "seconds",
             "one probe a call: calls", "batched is faster by"),
            rows,
        ),
    ]  # fmt: skip


def parity_rows(result: Result) -> list[Row]:
    found = sorted(c["ratio"] for c in result["cases"] if "ratio" in c)
    middle = found[len(found) // 2] if found else float("nan")
    return [
        Row(
            f"parity, {len(found)} of {len(result['cases'])} calls matched bit for bit",
            "generated kernels",
            "the library's own",
            f"{middle:.1f} of its time, the middle one",
        )
    ]


def parity(result: Result) -> list[str]:
    return [
        "Generated kernels that have every bit of a library's call, and what that costs. Case by "
        "case, with the orders:",
        "[parity.md](parity.md).",
    ]
