"""The benchmarks that have a Must: lines of the summary, text and tables. Measures nothing."""

from __future__ import annotations

from collections.abc import Callable

from _telling import SHORT, Result, Row, number, prose, ranged, table, time

# Order-exact linear beside F.linear, fp32, by N.
MUST = {1: 0.85, 2: 1.8, 4: 1.8, 8: 1.8, 16: 1.3, 32: 0.9, 64: 0.65, 128: 0.55}
AIM = {1: 1.0, 2: 2.0, 4: 2.0, 8: 2.0, 16: 1.5, 32: 1.05, 64: 0.7, 128: 0.6}
MUST_16, MUST_READ, MUST_ODD = 2.0, 0.8, 0.8
ODD_WORDS = "loses at most a fifth"
COLD_S, CACHED_MS, FASTER = 0.3, 5.0, 50
SWEEP_S, IMPORT_S, MEMORY_MIB = 60, 0.3, 64


# ---- rebuild -------------------------------------------------------------------------------------


def operators(result: Result) -> dict[str, dict]:
    """{operator: its times}; a result made before there were several is one of the LM head."""
    return result.get("operators") or {"lm_head": result}


def rebuild_rows(result: Result) -> list[Row]:
    theirs = result["peer_torch_cpp_extension"]["median"]
    rows = []
    for name, found in operators(result).items():
        cold = found["cold"]["median"]
        met, must, ratio = cold <= COLD_S, f"at most {COLD_S} s", f"{theirs / cold:.0f} times"
        if name == "lm_head":
            met, must = met and theirs / cold >= FASTER, f"{must}; at least {FASTER} times faster"
            peer = f"torch.utils.cpp_extension: {time(theirs)}"
        else:
            peer = "the same"
        rows.append(Row(f"rebuild, cold, `{name}`", time(cold), peer, ratio, must, met))
    for name, found in operators(result).items():
        cached = max(found["cached_in_process"]["median"], found["cached_on_disk"]["median"])
        rows.append(
            Row(
                f"rebuild, cached (from disk or in the process, the slower), `{name}`",
                time(cached),
                "the same",
                f"{theirs / cached:,.0f} times",
                f"at most {CACHED_MS:.0f} ms",
                1e3 * cached <= CACHED_MS,
            )
        )
    return rows


def rebuild(result: Result) -> list[str]:
    peer = result["peer_torch_cpp_extension"]
    rows = [
        (
            f"`{name}`",
            found["variants"],
            ranged(found["cold"]),
            ranged(found["cached_in_process"], 1e3),
            ranged(found["cached_on_disk"], 1e3),
        )
        for name, found in operators(result).items()
    ]
    rows.append(("peer, the LM head", result["runs"], ranged(peer), "", ""))
    return [
        *prose(
            """Cold: a tile length never built before, the shared objects cached; `build` and a
            first launch. `linear_logp` rebuilds the LM head that it is made of. Median (smallest to
            largest)."""
        ),
        "",
        *table(
            ("operator", "variants", "cold, s", "cached in the process, ms", "cached on disk, ms"),
            rows,
        ),
        "",
        *prose(
            f"""For `lm_head` that is **{result["times_faster_than_peer"]:.0f} times** faster than
            the peer. The very first build, which also compiles the shared objects, took
            {result["first_build_with_shared_objects"]:.0f} s."""
        ),
    ]


# ---- linear --------------------------------------------------------------------------------------


def by_case(result: Result) -> dict[tuple, list[dict]]:
    """{(dtype, N, H, V): its cells, one a thread count, in ascending order}."""
    found: dict[tuple, list[dict]] = {}
    for cell in sorted(result["cells"], key=lambda c: c["threads"]):
        case = (cell["dtype"], cell["rows"], cell["width"], cell["vocab"])
        found.setdefault(case, []).append(cell)
    return found


def _both(cells: list[dict], value: Callable[[dict], str]) -> str:
    return ", ".join(value(c) for c in cells)


def linear_rows(result: Result) -> list[Row]:
    rows = []
    shape = next((c["width"], c["vocab"]) for c in result["cells"])
    for (dtype, n, *size), cells in by_case(result).items():
        if n not in MUST or tuple(size) != shape:
            continue
        faster = [c["times_faster"] for c in cells]
        if dtype == "float32":
            must, met = f"{MUST[n]} (aim {AIM[n]})", min(faster) >= MUST[n]
        elif n > 1:
            must, met = f"{MUST_16:g}", min(faster) >= MUST_16
        else:
            share = [c["of_read_bandwidth"] for c in cells]
            must = f"{MUST_READ} of the read bandwidth: {_both(cells, _read)}"
            met = min(share) >= MUST_READ
        rows.append(
            Row(
                f"linear, {SHORT[dtype]}, N = {n}; 1 and 2 threads",
                _both(cells, lambda c: f"{c['gflops']['ours']:.0f}") + " GFLOP/s",
                "F.linear: " + _both(cells, lambda c: f"{c['gflops']['torch']:.0f}"),
                _both(cells, lambda c: f"{c['times_faster']:.2f}"),
                must,
                met,
            )
        )
    for axis, cases in result.get("odd", {}).items():
        keeps = [c["keeps"]["median"] for c in cases]
        rows.append(
            Row(
                f"linear at an odd {axis}, fp32, 1 thread",
                f"{min(keeps):.2f} of the speed, the least of {len(keeps)}",
                "ours at the even neighbours",
                ", ".join(f"{k:.2f}" for k in keeps),
                ODD_WORDS,
                min(keeps) >= MUST_ODD,
            )
        )
    if "odd" not in result:  # a result made before these were measured
        rows.append(Row("linear at an odd N, H, V", "not measured here", "", "", ODD_WORDS))
    equal = all(c["bits_equal_twin"] for c in result["cells"])
    count = len(result["cells"])
    rows.append(
        Row("linear, bits", f"{count} of {count} cells equal" if equal else "**differ**",
            "the twin", "", "equal in every cell", equal)
    )  # fmt: skip
    return rows


def _read(cell: dict) -> str:
    return f"{cell['of_read_bandwidth']:.2f}"


def linear(result: Result) -> list[str]:
    rows = []
    for (dtype, n, h, v), cells in by_case(result).items():
        rows.append(
            (
                SHORT[dtype],
                n,
                h,
                f"{v:,}",
                _both(cells, lambda c: f"{c['times_faster']:.2f}"),
                _both(
                    [c for c in cells if "times_faster_range" in c],
                    lambda c: "{:.2f} to {:.2f}".format(*c["times_faster_range"]),
                ),
                "".join(f"{c.get('times_faster_by_cpu_time', '')}" for c in cells),
                _both(
                    [c for c in cells if "times_faster_than_plain" in c],
                    lambda c: f"{c['times_faster_than_plain']:.2f}",
                ),
                _both([c for c in cells if "of_read_bandwidth" in c], _read),
            )
        )
    lines = [
        *prose(
            """Above 1, ours is faster. Candidates are in processes of their own and take turns;
            before a case is timed, its bits are compared with the twin's. More on it:
            [host-kernels.md](host-kernels.md)."""
        ),
        "",
        *table(
            ("dtype", "N", "H", "V", "times faster, 1 and 2 threads", "smallest to largest",
             "by CPU time, 1 thread", "than torch without AVX512-BF16", "of the read bandwidth"),
            rows,
        ),
        "",
    ]  # fmt: skip
    odd = [
        (
            " x ".join(f"{x:,}" for x in case["shape"]),
            " and ".join(" x ".join(f"{x:,}" for x in shape) for shape in case["against"]),
            ranged(case["keeps"]),
        )
        for cases in result.get("odd", {}).values()
        for case in cases
    ]
    if odd:
        lines += [
            *prose(
                """What is left of its speed at an odd size, fp32, 1 thread: products a second
                against an even size, and at an odd N against the mean time of N - 1 and N + 1."""
            ),
            "",
            *table(("odd", "against", "keeps"), odd),
        ]
    return lines


# ---- memory --------------------------------------------------------------------------------------


def memory_rows(result: Result) -> list[Row]:
    if not result["measured"]:
        must = f"at most {MEMORY_MIB} MiB"
        return [Row("memory at full width", f"not measured: {result['why']}", "", "", must)]
    most: dict[str, float] = {}
    for cell in result["cells"]:
        most[cell["who"]] = max(most.get(cell["who"], 0), cell["mib"]["max"])
    ours, theirs = most["linear"], most["F.linear"]
    return [
        Row(
            "linear, memory beyond inputs and output, full width of Qwen3-8B",
            f"{ours:.2g} MiB",
            f"F.linear: {theirs:.2g} MiB",
            f"{ours / theirs:.2g} of its memory" if theirs > 0 else "",
            f"at most {MEMORY_MIB} MiB",
            ours <= MEMORY_MIB,
        )
    ]


def memory(result: Result) -> list[str]:
    if not result["measured"]:
        return [f"Not measured here: {result['why']}."]
    rows = [
        (f"`{c['who']}`", c["threads"], ranged(c["mib"]), ranged(c["seconds"]))
        for c in result["cells"]
    ]
    return [
        *prose(
            f"""Inputs are {result["inputs_mib"]:,.0f} MiB, the output {result["output_mib"]:,.0f}
            MiB. Peak of the resident set, each call in a new process."""
        ),
        "",
        *table(("call", "threads", "MiB beyond inputs and output", "s"), rows),
    ]


# ---- sweep ---------------------------------------------------------------------------------------


def sweep_rows(result: Result) -> list[Row]:
    took = result["seconds"]["median"]
    return [
        Row(
            f"sweep of {result['configurations']} configurations, nothing built before",
            time(took),
            f"one after another: {time(result['one_after_another']['seconds'])}",
            f"{result['times_faster']['median']:.2f} times",
            f"at most {SWEEP_S} s on 2 cores",
            took <= SWEEP_S,
        )
    ]


def sweep(result: Result) -> list[str]:
    count, peer = result["configurations"], result["one_after_another"]
    rate = count / result["seconds"]["median"]
    return [
        *prose(
            f"""Ours is the command `workbench sweep` in a new process with an empty cache: start of
            Python, torch and the shared objects of the twin are in its time. The peer measures the
            same configurations one after another in one process that is there already, with those
            objects compiled; {peer["configurations_a_run"]} of them after each run of ours, so that
            together these are all of them."""
        ),
        "",
        *table(
            ("", "seconds"),
            [
                (f"ours, {count} configurations", ranged(result["seconds"])),
                ("ours, processor seconds of all processes", ranged(result["processor_seconds"])),
                (f"peer, {peer['configurations_a_run']} of them", ranged(peer["seconds_a_run"])),
                (f"peer, all {count}", f"{peer['seconds']:.3g}"),
            ],
        ),
        "",
        f"That is {number(rate)} configurations a second.",
    ]


# ---- start-up ------------------------------------------------------------------------------------


def startup_rows(result: Result) -> list[Row]:
    beyond = result["beyond_torch"]["import"]["median"]
    return [
        Row(
            "`import workbench`, beyond `import torch`",
            time(beyond),
            f"`import torch`: {time(result['import_torch']['median'])}",
            f"{result['of_torch']['median']:.3f} of its time",
            f"at most {IMPORT_S} s",
            beyond <= IMPORT_S,
        )
    ]


def startup(result: Result) -> list[str]:
    rows = [
        (f"`{code}`", ranged(result["seconds"][name])) for name, code in result["programs"].items()
    ]
    found = result["beyond_torch"]
    return [
        *prose(
            f"""`import workbench` where torch has just been imported:
            {ranged(found["import"], 1e3, " ms")}; with the names of a first cell looked up
            {ranged(found["used"], 1e3, " ms")}. The difference of two whole processes, of which a
            busy machine makes much noise: {ranged(found["whole_process"], 1e3, " ms")}. Whole
            processes, start and end of Python included:"""
        ),
        "",
        *table(("program", "s"), rows),
    ]


# ---- growth --------------------------------------------------------------------------------------

_NAMES = {"linear": "order-exact linear", "twin": "LM head on the twin", "logp": "logp"}


def growth_rows(result: Result) -> list[Row]:
    rows = []
    for name, panels in result["panels"].items():
        for panel in panels:
            ours, theirs = panel["lines"].items()
            rows.append(
                Row(
                    f"slope of time against {panel['axis']}, {_NAMES[name]}",
                    f"{ours[1]['slope']:.2f}, last doubling {ours[1]['last']:.2f}",
                    f"{theirs[0]}: {theirs[1]['slope']:.2f}, {theirs[1]['last']:.2f}",
                    "",
                    "plotted and stated",
                    True,
                )
            )
    return rows


def growth(result: Result) -> list[str]:
    rows = []
    for panels in result["panels"].values():
        for panel in panels:
            axis, sizes = panel["axis"], panel["sizes"]
            fixed = ", ".join(f"{k} {v:,}" for k, v in panel["base"].items() if k != axis)
            for name, found in panel["lines"].items():
                rows.append(
                    (
                        f"`{name}`",
                        axis,
                        f"{sizes[0]:,} to {sizes[-1]:,} ({fixed})",
                        f"{found['slope']:.2f}",
                        "{min:.2f} to {max:.2f}".format(**found["slopes_of_rounds"]),
                        f"{found['last']:.2f}",
                    )
                )
    return [
        *prose(
            """Slope of log(time) against log(size), by least squares; 1 is proportional. A call has
            fixed costs, and a weight that is read once serves several rows, so a slope below 1 at
            small sizes is as it should be; the last doubling shows where it goes. N of `torch.mv`
            is a call for each row."""
        ),
        "",
        *table(
            ("call", "axis", "sizes", "slope", "of the single rounds", "of the last doubling"), rows
        ),
        "",
        *prose(
            "The counters grow exactly: from N, H, V = 2, 2048, 64, "
            + "; ".join(f"`{law}`" for law in result["laws"].values())
            + "."
        ),
    ]
