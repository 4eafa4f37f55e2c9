"""The twin against the numpy model on random instructions (short; ``long_run.py`` is the long one).

What the twin does not have yet is skipped with its number; each mutant of the model must be
reported, by the harness alone and with the twin in its place.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models.vector import settings as model_settings

from . import run as fuzz
from .draw import IMAGE, SCRATCH, Pools
from .interpreter import Twin, all_cases, documented, select, source
from .mutants import MUTANTS

CASES = all_cases()
GROUPS = sorted({case.group for case in CASES})


def differing(executor, cases, seeds: list[int], model=fuzz.apply) -> fuzz.Report:
    """One batch whose instructions follow from the seeds alone."""
    report = fuzz.Report()
    chosen = [cases[seed % len(cases)] for seed in seeds]
    names = [f"h/{seed}" for seed in seeds]
    images = np.empty((len(seeds), IMAGE), np.uint8)
    scratch = np.zeros((len(seeds), SCRATCH), np.uint8)
    pools = Pools(0)
    rows = zip(chosen, names, images, scratch, strict=True)
    drawn = [fuzz.draw(case, name, pools, *memory) for case, name, *memory in rows]
    fuzz.one_batch(executor, chosen, names, drawn, images, scratch, report, model, "dav-2201", 3)
    return report


# --- the harness by itself ------------------------------------------------------------------------


def test_names_are_unique():
    assert not [name for name, n in Counter(case.name for case in CASES).items() if n > 1]
    assert source(CASES).count("break;") == len(CASES) + 1


def test_a_seed_draws_the_same_twice():
    for case in CASES[::13]:
        memories = []
        for _ in range(2):
            image, gm = np.zeros(IMAGE, np.uint8), np.zeros(SCRATCH, np.uint8)
            drawn = fuzz.draw(case, "s", Pools(3), image, gm)
            memories.append((drawn.instr, image, gm))
        (a, b) = memories
        assert a[0] == b[0] and (a[1] == b[1]).all() and (a[2] == b[2]).all()


def test_the_model_agrees_with_itself_on_every_case():
    """Every case draws instructions that the model accepts, and the comparison is quiet."""
    report = fuzz.run(fuzz.Stand(), CASES, 3 * len(CASES), seed=2)
    assert not report.wrong, report.examples[:3]
    assert set(report.ran) == {case.op for case in CASES}


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_reported(name):
    """Control: an executor with one mistake."""
    model, ops, shows = MUTANTS[name]
    cases = [case for case in select(ops, CASES) if shows(case)]
    report = fuzz.run(fuzz.Stand(model), cases, 3000, seed=4)
    missed = set(ops.split(",")) - set(report.wrong)
    assert not missed, f"{name} was not seen in {missed}"


# --- the twin -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def twin():
    return Twin()


def of_group(twin: Twin, cases):
    have = twin.prepare(cases)
    if not have:
        pytest.fail(f"the twin has none of {len(cases)} cases: {twin.missing[cases[0].name]}")
    return have


@pytest.mark.parametrize("group", GROUPS)
def test_the_twin_is_the_model(twin, group, record_property):
    cases = [case for case in CASES if case.group == group]
    have = of_group(twin, cases)
    record_property("cases", len(have))
    record_property("skipped", len(cases) - len(have))

    @settings(max_examples=60, deadline=None, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.lists(st.integers(0, 2**48), min_size=1, max_size=64))
    def check(seeds):
        report = differing(twin, have, seeds)
        assert not report.wrong, "\n".join(map(str, report.examples))

    check()
    # Every case at least twice, whatever hypothesis drew.
    report = fuzz.run(twin, have, max(2 * len(have), 500), seed=5)
    assert not report.wrong, "\n".join(map(str, report.examples))
    if len(have) < len(cases):
        pytest.fail(f"equal on {len(have)} cases; the twin lacks {len(cases) - len(have)}")


@pytest.mark.parametrize(
    "ops, switches",
    [
        ("reduce", {"masked_lanes": "skip"}),
        ("ReduceSum", {"accumulator_start": "first"}),
        ("fused", {"fused": "unfused"}),
        ("binary", {"overflow": "saturate"}),
        ("cast", {"overflow": "saturate"}),
        ("reduce", {"overflow": "saturate"}),
    ],
)
def test_the_switches(ops, switches):
    """What the documents leave open, chosen the other way in both; the other way is seen."""
    other = Twin(switches=switches)
    have = of_group(other, select(ops, CASES))
    arch = fuzz.with_switches(model_settings("dav-2201"), switches)
    report = fuzz.run(other, have, 1500, seed=8, arch=arch)
    assert not report.wrong, "\n".join(map(str, report.examples))
    assert fuzz.run(other, have, 1500, seed=8).wrong, "control: the switch changes something"


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["dav-1001", "dav-2002", "dav-3510"])
def test_other_architectures(arch):
    other = Twin(arch)
    cases = documented(CASES, arch)
    assert len(cases) > 100
    have = of_group(other, cases)
    report = fuzz.run(other, have, max(2 * len(have), 1000), seed=9, arch=arch)
    assert not report.wrong, "\n".join(map(str, report.examples))
    if len(have) < len(cases):
        pytest.fail(f"equal on {len(have)} cases; the twin lacks {len(cases) - len(have)}")


@pytest.mark.parametrize("name", MUTANTS)
def test_the_twin_is_no_mutant(twin, name):
    """Control: the twin against a model with one mistake."""
    model, ops, shows = MUTANTS[name]
    have = of_group(twin, [case for case in select(ops, CASES) if shows(case)])
    report = fuzz.run(twin, have, 2000, seed=6, model=model)
    missed = {case.op for case in have} - set(report.wrong)
    assert not missed, f"{name} was not seen in {missed}"


def test_the_long_run_says_what_it_did():
    """One command: seed, counts, mismatches, exit status; a mutant makes it fail."""
    script = Path(__file__).with_name("long_run.py")
    command = [sys.executable, str(script), "--seed", "7", "--count", "300", "--ops", "Add"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 3), done.stdout + done.stderr
    assert "seed 7, dav-2201: 300 instances" in done.stdout and "0 mismatches" in done.stdout
    done = subprocess.run([*command, "--mutant", "past-the-end"], capture_output=True, text=True,
                          timeout=300)  # fmt: skip
    assert done.returncode == 1 and "DIFFER" in done.stdout, done.stdout + done.stderr
