"""Cells of a picture and its windows, against slow walks through nested lists."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import nested_trees, shifted, terms_of

from workbench.errors import InputError
from workbench.orders.standard import (
    halving_order,
    pairwise_order,
    reduce_sum,
    sequential_order,
    split_k_order,
)
from workbench.orders.tree import ReductionTree
from workbench.orders.tree.icicle import Icicle, icicle, shares
from workbench.orders.tree.window import ROWS, Place, window, words

PROPERTY = settings(max_examples=60, deadline=None)
VOCABULARY = 151_936


def sorted_nested(nested):
    """Children by their least terms."""
    if isinstance(nested, int):
        return nested
    return sorted(map(sorted_nested, nested), key=lambda x: min(terms_of(x)))


def walked(nested, start=0, level=0):
    """(start, width, level, least, greatest) of every node, by recursion."""
    terms = terms_of(nested)
    yield start, len(terms), level, min(terms), max(terms)
    if not isinstance(nested, int):
        for child in nested:
            yield from walked(child, start, level + 1)
            start += len(terms_of(child))


def nested_of(tree: ReductionTree, node: int):
    return json.loads(tree.to_json(node))


def normal(nested):
    """A subtree as it is up to a shift of its term numbers and the order of children."""
    return sorted_nested(shifted(nested, -min(terms_of(nested))))


def faults(cells: Icicle) -> list[str]:
    """What is wrong with a picture, cell by cell."""
    found = []
    nodes = np.sort(np.concatenate([cells.nodes(k) for k in range(len(cells))]))
    if nodes.tolist() != list(range(cells.tree._layout.total)):
        found.append("the cells do not hold each node once")
    for cell in range(len(cells)):
        parts = np.flatnonzero(cells.parent == cell)
        parts = parts[np.argsort(cells.start[parts])]
        edges = [cells.start[cell], *cells.end[parts]]
        if len(parts) and (edges[:-1] != cells.start[parts]).any():
            found.append(f"the parts of cell {cell} leave gaps")
        if len(parts) and edges[-1] != cells.end[cell]:
            found.append(f"the parts of cell {cell} do not fill it")
        if len(parts) and (cells.level[parts] != cells.level[cell] + 1).any():
            found.append(f"the parts of cell {cell} are on another level than the next")
        held = cells.terms[cell] * cells.count[cell]
        if len(parts) and held != (cells.terms[parts] * cells.count[parts]).sum():
            found.append(f"the parts of cell {cell} have other terms than it")
        own = cells.nodes(cell)
        sizes = cells.tree.sizes()[own]
        tops = own[sizes == cells.terms[cell]]
        if len(tops) != cells.count[cell]:
            found.append(f"cell {cell} holds {len(tops)} sums, not {cells.count[cell]}")
        forms = [normal(nested_of(cells.tree, k)) for k in tops.tolist()]
        if any(form != forms[0] for form in forms):
            found.append(f"cell {cell} holds different sums")
        if len(own) != len(tops) and not cells.run[cell]:
            found.append(f"cell {cell} is no run and holds partial sums")
    return found


@PROPERTY
@given(nested_trees(most=24, arity=4))
def test_the_plain_picture_is_that_of_a_walk(case):
    _, nested = case
    cells = icicle(ReductionTree.from_nested(nested))
    table = np.stack([cells.start, cells.width, cells.level, cells.first, cells.last], axis=1)
    assert sorted(map(tuple, table.tolist())) == sorted(walked(sorted_nested(nested)))
    assert faults(cells) == []


@PROPERTY
@given(nested_trees(most=24, arity=3))
def test_the_folded_picture_holds_each_node_once_and_equal_sums_together(case):
    cells = icicle(ReductionTree.from_nested(case[1]), folded=True)
    assert faults(cells) == []


@pytest.mark.parametrize(
    ("tree", "folded"),
    [
        (reduce_sum(512, 1), 8),  # a run of 8 things, then pairs: 64, 32, … 1
        (sequential_order(60), 2),
        (pairwise_order(128), 8),
        (halving_order(128), 8),
        (split_k_order(96, 3), 3),  # a run of three runs of 32 terms
    ],
)
def test_regular_orders_fold_to_a_few_cells(tree, folded):
    cells = icicle(tree, folded=True)
    assert len(cells) == folded and faults(cells) == []
    assert cells.end.max() == cells.places


def test_a_run_counts_its_parts_and_names_the_next_of_equal_sums():
    cells = icicle(reduce_sum(4096, 1), folded=True)
    assert (cells.things[0], cells.run[0], cells.terms[0]) == (64, 1, 4096)
    assert (cells.count[1], cells.terms[1], cells.step[1], cells.last[1]) == (64, 64, 64, 63)
    # 1 + 63 additions in the run: a sum of 64 is followed by 1 to 63 of them.
    assert (cells.depth_min[1], cells.depth_max[1]) == (1, 63)


def test_small_parts_of_a_folded_picture_are_wide_enough_to_be_read():
    cells = icicle(reduce_sum(4096 + 5, 1), folded=True)
    # Five terms of 4,101 would be a pixel.
    small = np.flatnonzero((cells.level == 1) & (cells.terms == 5))
    assert len(small) == 1 and 20 * cells.width[small[0]] > cells.places


@pytest.mark.parametrize("name", ["start", "width", "level", "terms", "count", "cell_of"])
@pytest.mark.parametrize("folded", [False, True])
def test_the_check_of_pictures_can_fail(name, folded):
    cells = icicle(reduce_sum(200, 1), folded)
    wrong = getattr(cells, name).copy()
    wrong[2] += 1
    assert faults(cells) == []
    assert faults(dataclasses.replace(cells, **{name: wrong})) != []


# ---- shares of the error bound -------------------------------------------------------------------


def bound_of(nested, terms) -> tuple[np.float32, Fraction]:
    """(the sum, the sum of all |partial sum|), by recursion in fp32 and in fractions."""
    if isinstance(nested, int):
        return terms[nested], Fraction(0)
    parts = [bound_of(child, terms) for child in nested]
    value = parts[0][0]
    for part, _ in parts[1:]:
        value = np.float32(value + part)
    return value, abs(Fraction(float(value))) + sum(below for _, below in parts)


@PROPERTY
@given(nested_trees(most=24, least=2), st.integers(0, 9), st.booleans())
def test_shares_are_those_of_a_recursion(case, seed, folded):
    n, nested = case
    tree = ReductionTree.from_nested(nested)
    terms = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    cells = icicle(tree, folded)
    found = shares(cells, terms)
    total = bound_of(nested, terms)[1]
    # Sums of at most n numbers below 1, one division each.
    slack = 3 * n * Fraction(1, 2**53)
    assert abs(Fraction(found.bound) - total / 2**24) <= slack * total
    for cell in range(len(cells)):
        nodes = cells.nodes(cell)
        tops = nodes[tree.sizes()[nodes] == cells.terms[cell]]
        below = sum(bound_of(nested_of(cells.tree, k), terms)[1] for k in tops.tolist())
        assert abs(Fraction(found.below[cell]) - below / total) <= slack
        sums = [bound_of(nested_of(cells.tree, k), terms)[0] for k in nodes[nodes >= n].tolist()]
        own = sum(abs(Fraction(float(value))) for value in sums)
        assert abs(Fraction(found.own[cell]) - own / total) <= slack


def test_shares_of_nothing_and_of_infinities():
    cells = icicle(sequential_order(4))
    nothing = shares(cells, np.zeros(4, np.float32))
    assert nothing.bound == 0 and not nothing.own.any() and not nothing.below.any()
    broken = shares(cells, np.array([1, np.inf, 1, 1], np.float32))
    assert np.isnan(broken.bound) and np.isnan(broken.own).all()


def test_shares_take_one_row_of_floats():
    cells = icicle(sequential_order(4))
    for wrong in (np.zeros((2, 4), np.float32), np.zeros(3, np.float32), np.zeros(4, np.int64)):
        with pytest.raises(InputError):
            shares(cells, wrong)


# ---- windows -------------------------------------------------------------------------------------


@st.composite
def windows(draw):
    n, nested = draw(nested_trees(most=60, arity=3))
    low = draw(st.integers(0, n - 1))
    return ReductionTree.from_nested(nested), low, draw(st.integers(low + 1, n))


@PROPERTY
@given(windows(), st.sampled_from([4, 6, 20]))
def test_a_window_shows_every_sum_of_its_rows_or_pools_it(case, rows):
    tree, low, high = case
    cells = icicle(tree)
    found = window(cells, low, high, rows=rows)
    assert len(found.rows) <= rows
    inside = [k for k in range(len(cells)) if cells.start[k] < high and cells.end[k] > low]
    holding = [k for k in inside if cells.start[k] <= low and cells.end[k] >= high]
    top = max(holding, key=lambda k: cells.level[k])
    assert found.place.level == cells.level[top] == found.rows[0][0]
    assert found.rows[-1][1] == max(cells.level[k] for k in inside)
    assert all(a[1] + 1 == b[0] for a, b in zip(found.rows[:-1], found.rows[1:], strict=True))
    drawn = found.cells
    for row, (level, _) in enumerate(found.rows):
        wanted = sorted(
            (k for k in inside if cells.level[k] == level), key=lambda k: cells.start[k]
        )
        at = np.flatnonzero(drawn["row"] == row)
        assert drawn["pooled"][at].sum() == len(wanted)
        first = 0
        for k in at.tolist():
            held = wanted[first : first + drawn["pooled"][k]]
            first += len(held)
            assert (drawn["x0"][k], drawn["x1"][k]) == (
                cells.start[held[0]],
                cells.end[held[-1]],
            )
            assert drawn["terms"][k] == max(cells.terms[j] for j in held)
            assert drawn["cell"][k] == (held[0] if len(held) == 1 else -1)


@pytest.mark.parametrize("make", [sequential_order, pairwise_order, halving_order])
def test_windows_of_the_whole_vocabulary_stay_small(make):
    cells = icicle(make(VOCABULARY))
    rng = np.random.default_rng(0)
    for _ in range(20):
        low = int(rng.integers(0, VOCABULARY - 1))
        found = window(cells, low, int(rng.integers(low + 1, VOCABULARY + 1)))
        assert 0 < len(found) <= 1500 and len(found.rows) <= ROWS and len(found.path) <= 6
    assert len(cells) == 2 * VOCABULARY - 1  # what a picture of everything would hold


def test_zooming_out_ends_at_the_whole():
    cells = icicle(reduce_sum(4096, 1))
    place, steps = Place(2048, 2049, 99), 0
    while place is not None:
        found = window(cells, *place)
        place, steps = found.out, steps + 1
    assert (found.place.low, found.place.high) == (0, 4096) and 3 < steps < 70


def test_a_window_with_a_level_begins_there():
    cells = icicle(pairwise_order(64), folded=True)  # cells one below the other, equally wide
    assert window(cells).place.level == 0
    assert window(cells, 0, None, 3).place.level == 3


def test_a_cell_is_found_where_it_is_drawn():
    cells = icicle(sequential_order(1000))
    found = window(cells)
    node = 1000 + 500  # x0 + … + x501: depth 498
    k = found.at(cells, node)
    first, last = found.rows[found.cells["row"][k]]
    assert first <= cells.level[node] <= last
    assert found.cells["x0"][k] == 0 and found.cells["x1"][k] >= 502
    assert window(cells, 900, 1000).at(cells, 5) == -1


def test_words_name_terms_and_order():
    assert words(icicle(reduce_sum(4096, 1), folded=True), 0) == ("0..4095", "64 x [pairs of 64]")
    plain = icicle(halving_order(8))
    assert words(plain, 8) == ("0, 4", "[0,4]")
    assert words(plain, 3) == ("3", "")


@pytest.mark.parametrize("place", [(-1, 3), (3, 3), (0, 9)])
def test_places_that_are_not_there(place):
    with pytest.raises(InputError, match="places"):
        window(icicle(sequential_order(8)), *place)


def test_an_order_of_nothing_has_no_picture():
    with pytest.raises(InputError, match="no terms"):
        icicle(ReductionTree.from_nested([]))


def test_a_window_is_json():
    cells = icicle(sequential_order(4))
    broken = shares(cells, np.array([1, np.nan, 1, 1], np.float32))
    text = json.dumps(window(cells, shares=broken).to_dict(), allow_nan=False)
    assert json.loads(text)["cells"]["own"][0] is None
