"""Every case of the contract has a test, or a reason why it needs none (cases.py)."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

from cases import OTHERS, POINTS, ROWS

from workbench.ops import registry

TESTS = Path(__file__).resolve().parent
LISTED = {"LA": 24, "LN": 13, "BL": 18, "LP": 5, "DG": 3, "DL": 3, "TC": 1, "OC": 3, "DI": 1}
LISTED |= {"CI": 2}  # rows of the case table
OUT_OF_SCOPE = {"LN03"}
DOES_NOT_APPLY = {
    ("Case 8", "batch_invariant_logp"),
    ("Case 8", "det_gemm"),
    ("Case 10", "linear_logp"),
}


def every_entry():
    """(case, tests or the reason why there are none)"""
    yield from ROWS.items()
    for case, by_op in POINTS.items():
        yield from ((f"{case}, {op}", named) for op, named in by_op.items())
    yield from OTHERS.items()


def ids(entry: str) -> set[str]:
    """ "LA01-03" -> LA01, LA02, LA03."""
    kind, (first, _, last) = entry[:2], entry[2:].partition("-")
    return {f"{kind}{i:02}" for i in range(int(first), int(last or first) + 1)}


@functools.cache
def collected() -> frozenset[str]:
    """file::function of what pytest collects from the files that are named."""
    named = [name for _, entry in every_entry() if not isinstance(entry, str) for name in entry]
    files = sorted({str(TESTS / name.partition("::")[0]) for name in named})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *files], cwd=TESTS.parent, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = (line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line)
    return frozenset(line.removeprefix(f"{TESTS.name}/") for line in lines)


def test_every_row_and_every_point_is_there_once():
    rows = [i for entry in ROWS for i in sorted(ids(entry))]
    wanted = {f"{kind}{i:02}" for kind, count in LISTED.items() for i in range(1, count + 1)}
    assert len(rows) == len(set(rows)) and set(rows) == wanted
    assert [case.partition(":")[0] for case in POINTS] == [f"Case {i}" for i in range(1, 11)]
    for case, by_op in POINTS.items():
        assert set(by_op) == set(registry.ops()), case


def test_only_what_cannot_have_a_test_has_a_reason_instead():
    assert {e for e, named in ROWS.items() if isinstance(named, str)} == OUT_OF_SCOPE
    reasons = {
        (case.partition(":")[0], op)
        for case, by_op in POINTS.items()
        for op, named in by_op.items()
        if isinstance(named, str)
    }
    assert reasons == DOES_NOT_APPLY


def test_every_named_test_is_collected():
    for case, named in every_entry():
        assert named, case
        missing = set() if isinstance(named, str) else set(named) - collected()
        assert not missing, (case, missing)
    for gone in ("ops/test_logp.py::test_no_such_thing", "ops/test_logp.py::assert_accurate"):
        assert gone not in collected()  # the control
    assert len(collected()) > 200
