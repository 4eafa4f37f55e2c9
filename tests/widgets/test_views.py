"""The views without a page: what they answer, what they embed, what they refuse."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
import torch
from traitlets import TraitError

from workbench.errors import InputError
from workbench.numerics import drift
from workbench.orders.standard import pairwise_order, reduce_sum, sequential_order
from workbench.plots.views import palette
from workbench.widgets.views import drift_view, heatmap_view, tree_view
from workbench.widgets.views.front import STATIC

FILES = ("view_parts.js", "tree_view.js", "heatmap_view.js", "views.css")


def image_of(still: str) -> str:
    """The text of the first image of a still picture, an SVG."""
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', still)
    return base64.b64decode(data).decode()


def sent(view, monkeypatch) -> list:
    """What a view sends to its page."""
    kept: list = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: kept.append((content, buffers)))
    return kept


# ---- the tree ------------------------------------------------------------------------------------


def test_the_first_view_is_embedded_in_both_pictures():
    view = tree_view(reduce_sum(4096, 1))
    plain, folded = view.views[0]
    assert (plain["folded"], folded["folded"], view.folded) == (False, True, True)
    assert folded["cells"]["count"][1] == 64 and len(folded["cells"]["row"]) == 8
    assert 8 < len(plain["cells"]["row"]) <= 1500
    json.dumps(view.views, allow_nan=False)


def test_a_window_is_answered_and_a_wrong_one_refused(monkeypatch):
    view = tree_view(pairwise_order(64))
    kept = sent(view, monkeypatch)
    asked = {"ask": "window", "id": "x:1", "side": 0, "folded": False, "place": [16, 24, 9]}
    view._asked(view, asked, [])
    view._asked(view, asked | {"id": "x:2", "place": [16, 99, 0]}, [])
    view._asked(view, asked | {"id": "x:3", "side": 7}, [])
    view._asked(view, {"ask": "window", "id": "x:4"}, [])
    (first, *wrong) = [content for content, _ in kept]
    assert (first["answer"], first["id"]) == ("window", "x:1")
    assert first["view"]["place"] == [16, 24, 3] and first["view"]["cells"]["terms"][0] == 8
    assert [("error" in w, "view" in w, w["id"]) for w in wrong] == [
        (True, False, "x:2"),
        (True, False, "x:3"),
        (True, False, "x:4"),
    ]


def test_words_of_a_cell_select_its_node():
    view = tree_view(reduce_sum(4096, 1))
    seen = []
    view.observe(lambda change: seen.append(change["new"]), "selected")
    reply = view.answer({"ask": "words", "side": 0, "folded": True, "cell": 1})
    assert reply == {"terms": "0..63", "order": "pairs of 64"}
    side, node = view.selected
    assert side == 0 and view.trees[0].sizes()[node] == 64 and seen == [view.selected]


def test_terms_bring_shares_and_a_bound():
    view = tree_view(sequential_order(3), folded=False)
    assert "below" not in view.views[0][0]["cells"] and view.bound() is None
    view.set_terms(torch.tensor([1.0, 2.0, 5.0]), "row 1")
    cells = view.views[0][0]["cells"]
    at = cells["terms"].index(2)  # x0 + x1 = 3 of 3 + 8
    assert cells["below"][at] == float(f"{3 / 11:.4g}")
    assert "running error bound of row 1: 6.56e-07" in image_of(view.still())
    assert view.bound() == 11 * 2.0**-24 and view.orders[0]["terms_label"] == "row 1"
    assert "below" not in view.set_terms(None).views[0][0]["cells"]


def test_the_first_difference_is_marked_in_both_and_only_there():
    left, right = reduce_sum(4096, 1), sequential_order(4096)
    view = tree_view(left, right)
    assert not view.difference["equal"] and view.difference["text"] == str(left.diff(right))
    for side in (0, 1):
        for folded in (0, 1):
            place = view.difference["places"][side][folded]
            asked = {"ask": "window", "side": side, "folded": bool(folded), "place": place}
            assert view.answer(asked)["view"]["mark"] >= 0
    same = tree_view(left, reduce_sum(4096, 1))
    assert same.difference["equal"] and same.difference["places"] == []
    assert [shown["mark"] for pair in same.views for shown in pair] == [-1] * 4


def test_without_a_kernel_there_is_an_image_with_its_text():
    view = tree_view(reduce_sum(16_384, 1), evidence="from a declaration", label="one ReduceSum")
    data, _ = view._repr_mimebundle_()
    html = data["text/html"]
    (alt,) = re.findall(r'<img alt="([^"]*)" src="data:image/svg\+xml;base64,', html)
    assert "one ReduceSum: 16,384 terms" in alt and "256 x [pairs of 64]" in alt
    assert len(html) < 400_000 and data["text/plain"].startswith("TreeView")


@pytest.mark.parametrize("wrong", [None, [[0, 1], 2], "pairs"])
def test_no_tree_is_refused(wrong):
    with pytest.raises(InputError, match="ReductionTree"):
        tree_view(wrong)


# ---- the map -------------------------------------------------------------------------------------


def test_the_map_begins_at_its_farthest_value_and_lists_the_next():
    values = np.random.default_rng(0).standard_normal((5, 40))
    view = heatmap_view(values, unit="ULP", worst=7)
    order = np.argsort(-np.abs(values).ravel())[:7]
    assert [row[:2] for row in view.worst] == [list(divmod(int(k), 40)) for k in order]
    assert view.selected == tuple(view.worst[0][:2]) and view.limit == np.abs(values).max()


def test_a_choice_is_told_and_one_outside_refused():
    view = heatmap_view(np.arange(-6.0, 6.0).reshape(3, 4))
    told = []
    view.on_select(lambda row, column: told.append((row, column)))
    view.selected = [2, 1]  # as a page sends it
    assert told == [(2, 1)] and view.value == 3.0 and "row 2, column 1: +3" in view.chosen
    for wrong in ((3, 0), (0, -1), (0.5, 0), "ab", (1,), None):
        with pytest.raises((InputError, TraitError)):
            view.selected = wrong
    assert view.selected == (2, 1) and told == [(2, 1)]


def test_bins_travel_as_bytes_and_as_shares_of_the_limit(monkeypatch):
    values = np.random.default_rng(1).standard_normal((6, 2000))
    view = heatmap_view(values)
    kept = sent(view, monkeypatch)
    view._asked(view, {"ask": "window", "id": "a", "low": [1, 100], "high": [3, 130]}, [])
    ((content, buffers),) = kept
    assert (content["view"]["tall"], content["view"]["wide"]) == (2, 30)
    shares = np.frombuffer(buffers[0], "<f4").reshape(2, 30)
    assert (shares == (values[1:3, 100:130] / view.limit).astype("f4")).all()
    at = np.frombuffer(buffers[1], "<i4").reshape(2, 30, 2)
    assert at[1, 7].tolist() == [2, 107]
    view._asked(view, {"ask": "window", "id": "b", "low": [0, 0], "high": [9, 9]}, [])
    assert "error" in kept[1][0]


def test_values_that_are_not_finite_do_not_stretch_the_colours():
    values = np.array([[np.nan, 1.0, -2.0], [np.inf, 0.5, 0.0]])
    view = heatmap_view(values)
    assert view.limit == 2.0 and view.selected == (0, 0)
    json.dumps(view.worst, allow_nan=False)
    assert heatmap_view(np.zeros((2, 2))).limit == 1.0


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((0, 3)), np.array([["a"]]), [[1j]]])
def test_no_table_of_real_numbers_is_refused(wrong):
    with pytest.raises(InputError):
        heatmap_view(wrong)


# ---- linked --------------------------------------------------------------------------------------


def test_choosing_an_output_shows_its_sum():
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, 64, generator=generator) for n in (3, 50))
    order = reduce_sum(64, 1)
    view = drift_view(drift(torch.nn.functional.linear, hidden, weight), None, hidden, weight,
                      tree=order)  # fmt: skip
    bounds = set()
    for row, column in ((0, 7), (2, 49), view.selected):
        view.select(row, column)
        terms = hidden[row].numpy() * weight[column].numpy()
        wanted = sum(float(abs(x)) for x in order.partial_sums(terms).astype(np.float64))
        # 63 numbers summed in another order, in fp64.
        assert abs(view.order.bound() - wanted * 2.0**-24) <= 63 * 2.0**-53 * wanted
        assert view.order.orders[0]["terms_label"] == f"row {row}, vocabulary id {column}"
        bounds.add(view.order.bound())
    assert len(bounds) > 1, "the choice changes nothing"
    with pytest.raises(InputError):
        view.select(3, 0)


def test_a_drift_of_other_inputs_or_without_an_order_is_refused():
    hidden, weight = torch.ones(2, 8), torch.ones(3, 8)
    found = drift(torch.nn.functional.linear, hidden, weight)
    with pytest.raises(InputError, match="not the inputs"):
        drift_view(found, None, hidden, weight[:2], tree=pairwise_order(8))
    with pytest.raises(InputError, match="declares no order"):
        drift_view(found, torch.nn.functional.linear, hidden, weight)
    with pytest.raises(InputError, match="H = 8"):
        drift_view(found, None, hidden, weight, tree=pairwise_order(9))


# ---- files ---------------------------------------------------------------------------------------


def addresses(text: str) -> list[str]:
    """What a file would fetch from elsewhere: any address but the name of SVG."""
    found = re.findall(r"(?:https?:)?//[\w.]+\.\w+[^\s\"']*|@import|\bimport\s*\(", text)
    return [x for x in found if "www.w3.org/2000/svg" not in x]


@pytest.mark.parametrize("name", FILES)
def test_the_front_end_fetches_nothing(name):
    assert addresses((STATIC / name).read_text("utf-8")) == []


def test_the_check_of_addresses_can_fail():
    assert addresses('import x from "https://esm.sh/d3"') and addresses("@import url(a.css)")


@pytest.mark.parametrize("name", FILES)
def test_text_is_at_least_12_pixels(name):
    sizes = re.findall(r"font(?:-size)?: (\d+)px", (STATIC / name).read_text("utf-8"))
    assert all(int(size) >= 12 for size in sizes) and (sizes or name.endswith(".js"))


def test_the_map_is_white_at_0_and_symmetric_in_lightness():
    colors = palette("PuOr")
    middle = [int(colors[len(colors) // 2][k : k + 2], 16) for k in (1, 3, 5)]
    assert min(middle) > 240 and len(colors) % 2 == 1
