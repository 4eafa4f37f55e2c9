"""Icicles and matrices of orders: what is painted is what the tree says."""

from __future__ import annotations

import time

import numpy as np
import pytest
from matplotlib.figure import Figure

from workbench.orders.standard import (
    named,
    pairwise_order,
    reduce_sum,
    sequential_order,
    split_k_order,
    warp_shuffle_order,
)
from workbench.orders.tree import ReductionTree
from workbench.plots import folded as icicle_module
from workbench.plots import style
from workbench.plots.folded import _Scale, icicle, icicles
from workbench.plots.matrix import order_matrix
from workbench.plots.trees import _POINTS, _lay_out, orders


def pictures(figure: Figure) -> list[np.ndarray]:
    """The arrays of all images in all panels, colour bars left out."""
    return [np.ma.filled(i.get_array(), -1) for ax in figure.axes for i in ax.images]


def assert_inside(figure: Figure) -> None:
    figure.draw_without_rendering()
    width, height = figure.get_size_inches() * figure.dpi
    texts = [t for t in figure.findobj(lambda a: hasattr(a, "get_text")) if t.get_text().strip()]
    assert len(texts) > 3
    for text in texts:
        if text.get_visible() and text.get_window_extent().width:
            box = text.get_window_extent()
            assert box.x0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()


def ancestors(tree: ReductionTree, leaf: int) -> list[int]:
    """The sizes of the partial sums that hold a term, from the result down to the term."""
    up, sizes, node, found = tree.parents(), tree.sizes(), leaf, []
    while node >= 0:
        found.append(int(sizes[node]))
        node = up[node]
    return found[::-1]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "tree",
    [
        sequential_order(40),
        split_k_order(60, 7, combine="pairs"),
        warp_shuffle_order(100, 32),
        ReductionTree.from_nested([[0, 3, 1], [2, [4, 5]], 6]),
        ReductionTree.from_nested([2, [1, 0]]),
        ReductionTree.from_nested(0),
    ],
)
def test_a_column_shows_the_sizes_of_the_sums_above_its_term(tree, log):
    picture, strip = pictures(icicles({"": tree}, log=log))
    assert strip.shape == (1, tree.leaves)  # few terms: a column each
    scale = _Scale(max(tree.height, 1), log)
    levels = scale.level((np.arange(len(picture)) + 0.5) / len(picture) * scale.end)
    assert levels.min() == 0 and levels.max() == max(tree.height, 1)
    for column, term in enumerate(strip[0].tolist()):
        sizes = ancestors(tree, term)
        want = [np.log2(sizes[k]) if k < len(sizes) else -1 for k in levels]
        assert picture[:, column].tolist() == want


def test_a_column_of_many_terms_shows_the_deepest():
    tree = warp_shuffle_order(10_000)
    picture, strip = pictures(icicle(tree))
    assert picture.shape == (icicle_module._HIGH, icicle_module._WIDE)
    placed = tree.sorted()._layout.leaf_order
    depths = tree.depths()
    edges = np.arange(721) * 10_000 // 720
    for column in range(0, 720, 37):
        terms = placed[edges[column] : edges[column + 1]]
        assert strip[0, column] in terms
        assert depths[strip[0, column]] == depths[terms].max()


def test_the_strip_is_a_ramp_only_where_terms_are_taken_in_turn():
    ramp = pictures(icicle(pairwise_order(64)))[1]
    strided = pictures(icicle(warp_shuffle_order(64, 32)))[1]
    assert ramp[0].tolist() == list(range(64)) and sorted(strided[0]) == list(range(64))
    assert strided[0, :3].tolist() == [0, 32, 16]


@pytest.mark.parametrize("n", [0, 1, 8, 4096])
def test_any_length_can_be_drawn(n):
    trees = {"sequential": sequential_order(n), "shuffles": warp_shuffle_order(n)}
    for figure in (icicles(trees), order_matrix(trees)):
        assert len(figure.get_suptitle()) > 15
        assert_inside(figure)


def test_what_icicles_say():
    trees = {"a": sequential_order(64), "b": pairwise_order(64), "c": reduce_sum(64, 1)}
    figure = icicles(trees)
    assert figure.get_suptitle() == "2 different orders: the deepest term is rounded 6 to 63 times"
    words = " ".join(t.get_text() for t in figure.findobj(lambda a: hasattr(a, "get_text")))
    assert words.count(trees["b"].hash[:6]) == 2 and "height 63" in words and "(log)" in words
    bars = [ax.lines[-1].get_color() for ax in figure.axes[:3]]
    assert bars[1] == bars[2] != bars[0] == style.CATEGORIES[0]
    assert "3 times" in icicle(pairwise_order(8), "pairs").get_suptitle()
    assert "1 to 7 times" in icicle(sequential_order(8)).get_suptitle()
    small = icicle(ReductionTree.from_nested([[0, 2], 1]))
    numbers = [t.get_text() for t in small.axes[0].texts]
    assert [t for t in numbers if t.isdigit()] == ["0", "2", "1"]


@pytest.mark.parametrize(
    ("top", "wanted"),
    [
        (69, [0, 1, 3, 10, 30, 69]),
        (254, [0, 1, 3, 10, 30, 100, 254]),
        (300, [0, 1, 3, 10, 30, 100, 300]),
        (151_935, [0, *(f * 10**k for k in (1, 2, 3, 4) for f in (1, 3)), 151_935]),
    ],
)
def test_a_logarithmic_axis_has_numbers_wherever_there_is_room(top, wanted):
    assert _Scale(top, True).ticks() == wanted


def test_numbers_of_terms_have_commas_and_the_strip_says_what_it_shows():
    tree = sequential_order(4096)
    for figure in (icicles({"": tree}), orders({"": tree})):
        figure.draw_without_rendering()
        (ax,) = figure.axes[:1]
        assert ax.get_xlabel().startswith("4,096 terms")
        assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "2,048", "4,096"]
    words = [t.get_text() for t in icicles({"": tree}).axes[0].texts]
    assert "number of each term: light, the first; dark, the last" in words


def test_a_matrix_shows_l_of_all_pairs():
    tree = warp_shuffle_order(200, 32)
    (picture,) = pictures(order_matrix(tree))
    assert picture.tolist() == np.log2(tree.lca_matrix()).tolist()


def test_a_long_sum_is_shown_by_some_of_its_terms_and_its_beginning():
    tree = reduce_sum(4096, 1)
    whole, first = pictures(order_matrix({"": tree}))
    assert first.tolist() == np.log2(tree.lca_matrix()[:256, :256]).tolist()
    assert whole.shape == (256, 256) and (np.diag(whole) == 0).all()
    # Terms 16 apart at most, in repeats of 64: neighbours in the picture mostly share one.
    assert 0.6 < (np.diag(whole, 1) <= 6).mean() < 0.9
    assert whole[0, -1] == 12


def test_stripes_are_not_hidden_by_the_choice_of_terms():
    """Control: evenly spaced terms of a strided order would all be in a few lanes."""
    tree = warp_shuffle_order(65_536)
    whole = pictures(order_matrix(tree))[0]
    even = np.arange(256) * 256
    spaced = np.log2(tree.lca_sizes(even[:, None], even[None]))
    assert spaced.max() == 8  # one lane: 256 terms
    assert whole.max() == 16


def test_a_vocabulary_of_terms_is_drawn_as_easily():
    """CPU seconds with the hash of the tree; 1 to 2 each on one core of 2024."""
    trees = {name: named(name, 151_936) for name in ("sequential", "warp-shuffle")}
    begin = time.process_time()
    figure = icicles(trees)
    assert {p.shape for p in pictures(figure)} == {(480, 720), (1, 720)}
    assert len(style.png(figure, 1)) > 10_000
    assert time.process_time() - begin < 20
    assert sum(len(c.get_paths()) for ax in figure.axes for c in ax.collections) < 6000


def test_lines_of_a_deep_tree_are_drawn_once():
    drawing = _lay_out(sequential_order(20_000))
    assert len(drawing.lines) < 6 * _POINTS + 10 < 3 * 19_999
    heights = {y for line in drawing.lines for _, y in line}
    assert 19_999 - max(heights) < 20_000 / _POINTS
    # Nothing falls away where each line has a place of its own.
    assert len(_lay_out(sequential_order(500)).lines) == 3 * (499 - 500 // 64 + 1)
    assert_inside(orders({"deep": sequential_order(3000)}))
