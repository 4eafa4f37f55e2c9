"""A hundred thousand outputs and no violation of a proved bound; the controls have many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workbench.errors import InputError
from workbench.numerics.bounds.parts import KINDS
from workbench.numerics.bounds.study import (
    DISTRIBUTIONS,
    ORDERS,
    BoundsStudy,
    bounds_study,
    main,
    markdown,
)
from workbench.orders.standard import pairwise_order

OUTPUTS = 700


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def study() -> BoundsStudy:
    return bounds_study(OUTPUTS, seed=0)


def test_no_violation_of_the_proved_bounds_in_100_000_outputs(study):
    assert study.judged >= 100_000
    assert study.violations("worst_case") == study.violations("running") == 0


def test_the_probabilistic_bound_fails_only_where_it_is_warned_about(study):
    failed, calls = study.calls(warned=False)
    assert failed == 0 and calls > 100
    failed, calls = study.calls(warned=True)
    assert 0 < failed <= calls < 40
    warned = {r["distribution"] for r in study.rows() if r["calls warned"]}
    assert {"constants", "short period"} <= warned
    assert not warned & {"normal", "uniform", "one-signed", "heavy tail", "mixed exponents"}


def test_everything_was_there(study):
    for key, names in (("distribution", DISTRIBUTIONS), ("order", ORDERS)):
        rows = study.by(key)
        assert [r[key] for r in rows] == list(names)
        assert all(r["outputs"] >= OUTPUTS * 10 for r in rows)
    dtypes = {r["dtypes"]: r for r in study.by("dtypes")}
    assert len(dtypes) == 7 and min(r["calls"] for r in dtypes.values()) > 15
    overflow = next(r for r in study.rows() if r["distribution"] == "near overflow")
    assert 0 < overflow["without bound"] < overflow["outputs"] / 2


def test_control_subnormal_products_need_their_own_term(study):
    """Without 2^-150 for each product that underflows the proved bounds are exceeded."""
    smallest = [
        c
        for c in study.cells
        if (c.distribution, c.out_dtype) == ("subnormal products", "float32")
        and c.dtype != "float16"
    ]
    for kind in ("worst_case", "running"):
        less = [c.limits[kind] - c.n * 2.0**-150 for c in smallest]
        above = [(c.errors > bound).sum() for c, bound in zip(smallest, less, strict=True)]
        assert sum(above) > 100, kind


def test_errors_come_near_the_bounds(study):
    """Bounds far above every error would be kept by anything."""
    for row in study.by("distribution"):
        if row["distribution"] not in ("small integers", "constants", "short period"):
            assert row["running ratio"] > 0.1, row


def test_control_half_of_a_bound_is_exceeded(study):
    for kind in KINDS:
        above = sum(int((c.errors > c.limits[kind] / 2).sum()) for c in study.cells)
        assert above > 1000, kind


def test_control_the_bounds_of_a_lower_tree_are_exceeded():
    names = {"distributions": ["one-signed"], "orders": ["sequential"], "widths": [1000]}
    lower = bounds_study(400, **names, change=lambda tree: pairwise_order(tree.leaves))
    assert lower.violations("running") > 20 and lower.violations("worst_case") > 20
    assert bounds_study(400, **names).violations("running") == 0


def test_groups_and_tables(study):
    text = markdown(study.by("order"))
    assert text.count("\n") == len(ORDERS) + 1 and "| sequential |" in text
    assert "0 above worst_case, 0 above running" in study.title()
    with pytest.raises(InputError, match="no group"):
        study.by("seed")


def test_it_is_a_command(capsys):
    main(["--outputs", "5"])
    told = capsys.readouterr().out
    assert re.search(r"\d+ outputs with a bound in 154 calls", told) and "| normal |" in told


def test_the_page_shows_a_study_without_a_violation():
    page = Path(__file__).resolve().parents[2] / "docs" / "bounds.md"
    told = re.search(
        r"(\d+) outputs with a bound in (\d+) calls: 0 above worst_case, 0 above running",
        page.read_text("utf-8"),
    )
    assert told and int(told[1]) >= 1_000_000 and int(told[2]) == 10 * 154
