"""Figures: they say what they should, inside their edges, and touch no global state."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

import workbench as wb
from workbench import plots
from workbench.numerics import DriftResult, compare_bits, evidence
from workbench.orders import ReductionTree, sequential
from workbench.plots import style, trees
from workbench.sweep.compare import compare
from workbench.sweep.growth import growth
from workbench.sweep.run import Inputs, Provenance, Run

HIDDEN, WEIGHT = torch.randn(3, 96, generator=torch.Generator().manual_seed(1)), torch.ones(5, 96)
QUICK = {"sizes": (1, 2, 5), "position_sizes": (5,), "chunks": (2,)}


def per_row(hidden, weight):
    """Cannot depend on the batch."""
    rows = hidden.reshape(-1, hidden.shape[-1])
    out = torch.stack([(weight * row).sum(-1) for row in rows])
    return out.reshape(*hidden.shape[:-1], len(weight))


def by_batch(hidden, weight):
    """Adds the size of the batch: caught by everything that changes it."""
    return per_row(hidden, weight) + len(hidden)


def texts(figure: Figure) -> str:
    """Every text of a drawn figure."""
    FigureCanvasAgg(figure).draw()
    found = [t.get_text() for t in figure.findobj(Text) if t.get_visible()]
    return "\n".join(t for t in found if t)


def assert_inside(figure: Figure) -> None:
    """No text runs over the figure's edge: cut letters are the commonest fault of a figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    width, height = canvas.get_width_height()
    # Labels of ticks outside an axis's limits exist, and are not drawn.
    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    ticks = {label for axis in axes for label in axis.get_ticklabels(which="both")}
    for text in figure.findobj(Text):
        hidden = text.axes is not None and not text.axes.get_visible()
        if text in ticks or hidden or not text.get_visible() or not text.get_text().strip():
            continue
        box = text.get_window_extent(renderer)
        ok = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert ok, f"{text.get_text()!r} at {box} leaves the figure of {width} x {height}"


def tree(tile: int, n: int = 4096, arch: str = "dav-2201") -> ReductionTree:
    return wb.declared_order("lm_head", wb.KernelConfig(tile_length=tile, arch=arch), n=n)


def drift(hidden=HIDDEN, weight=WEIGHT) -> DriftResult:
    return wb.drift(per_row, hidden, weight)


@pytest.fixture(scope="module")
def verdicts():
    good = wb.invariance(per_row, HIDDEN, WEIGHT, **QUICK)
    bad = wb.invariance(by_batch, HIDDEN, WEIGHT, **QUICK)
    return good, bad


def more_figures() -> dict[str, Figure]:
    """Figures of orders, drift, bounds and tolerances, of small results."""
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")
    drifts = wb.drift(kernel, HIDDEN, WEIGHT)
    table = wb.drift_over("lm_head", [64, 128], ["fp32"], HIDDEN, WEIGHT, backend="twin")
    found = wb.bounds(tree(64, 96), HIDDEN, WEIGHT)
    judged = wb.tolerance(kernel, HIDDEN, WEIGHT)
    classes = wb.bit_classes([kernel.config], 96, backend="twin", order="declared")
    space = wb.sweep.Space(tiles=(64, 128), shapes=[(2, 16)])
    with tempfile.TemporaryDirectory() as folder:
        runs = wb.sweep(space, store=f"{folder}/runs.sqlite", workers=0, progress=False).runs
    counted = growth(lambda n, h, v: {"gm_to_ub_bytes": 8 * n * h * v}, (1, 64, 2))
    kernel(HIDDEN, WEIGHT, counters=True)
    return {
        "sweep_table": plots.sweep_table(runs),
        "pareto_plot": plots.pareto_plot(wb.sweep.recommend(runs), runs),
        "cost_bars": plots.cost_bars({"tile 64": wb.sweep.cost(kernel)}),
        "counter_growth": plots.counter_growth({"output": counted}),
        "icicle": plots.icicle(tree(256)),
        "icicles": plots.icicles({str(t): tree(t) for t in (64, 256, 4096)}),
        "order_matrix": plots.order_matrix(tree(64, 200)),
        "class_table": plots.class_table(classes),
        "drift_map": plots.drift_map(drifts),
        "drift_histogram": plots.drift_histogram(drifts.histogram()),
        "drift_by_vocab": plots.drift_by_vocab(drifts),
        "drift_by_tile": plots.drift_by_tile(table),
        "bound_scatter": plots.bound_scatter({"N(0, 1)": (found, found.exact * 2.0**-26)}),
        "tolerance_ratios": plots.tolerance_ratios(judged.histogram()),
        "tolerance_plane": plots.tolerance_plane(judged.grid()),
        "mutation_grid": plots.mutation_grid(wb.mutation_table((2, 40, 8), ["fp32"]), "fp32"),
    }


def figures_of_logp_probes_and_sources() -> dict[str, Figure]:
    """Figures that test_agreement_plots.py tests in full."""
    logp = torch.zeros(4)
    found = {"same": wb.agreement(logp, logp), "far": wb.agreement(logp, logp + 1)}
    ones = SimpleNamespace(
        hidden=torch.ones(2, 4, 8), weight=WEIGHT[:, :8], target=torch.ones(2, 4, dtype=torch.long)
    )
    alone = {"alone": wb.sampler_trainer(lambda h, w, t: per_row(h, w)[..., 0], ones, prompt=1)}
    made = Provenance("ab12", "g++ 12.2.0", "0.1", "2.13.0")
    run = Run("lm_head", {"tile_length": 64}, "dav-2201", "twin", "fp32", (2, 64, 8),
              Inputs("5f0c"), made, bits="aa", order_hash="t")  # fmt: skip
    here = style.evidence_text(evidence(per_row))
    return {
        "agreement_bars": plots.agreement_bars(found, here),
        "agreement_table": plots.agreement_table(alone, here),
        "comparison_table": plots.comparison_table({"one": compare(run, run)}, here),
        "probe_table": plots.probe_table({"dav-2201": wb.probe("dav-2201")}),
        "source_lines": plots.source_lines("one\n  two\n", {2: "a note"}, {1: "B"}, here),
        "token_ratios": plots.token_ratios({"a": (logp, logp + 1)}, (0.8, 1.2), here),
    }


@pytest.fixture(scope="module")
def figures(verdicts) -> dict[str, Figure]:
    """Every function of the package once, with results like a notebook's."""
    good, bad = verdicts
    equal = compare_bits(torch.zeros(4), torch.zeros(4))
    moved = compare_bits(torch.zeros(4), torch.ones(4))
    names = {(64, 96): "a", (4096, 96): "a", (64, 512): "b", (4096, 512): "a"}
    tiles = {64: tree(64), 256: tree(256), 4096: tree(4096)}
    drifts = dict.fromkeys(tiles, drift())
    shift = np.zeros((2, 5))
    shift[1, 3] = 1e-5
    words = np.array([0x3F800000, 0x3F800001], np.uint32)
    made = {
        "order": plots.order(tree(256), "tile 256"),
        "orders": plots.orders({str(t): found for t, found in tiles.items()}),
        "bit_classes": plots.bit_classes({"a": names}, {"a": names}),
        "drift_heatmap": plots.drift_heatmap({"a": {(64, 96): drift()}, "b": {(64, 96): drift()}}),
        "invariance_table": plots.invariance_table({"good": good, "bad": bad}),
        "invariance_grid": plots.invariance_grid({(64, 1): good, (64, 128): good}, {"bad": bad}),
        "batch_shift": plots.batch_shift({"f": shift, "g": shift * 0}, [1, 2]),
        "bit_patterns": plots.bit_patterns({"f": words}, [1, 2]),
        "changed_outputs": plots.changed_outputs({1: equal, 2: equal}, {64: moved, 4096: equal}),
        "tile_overview": plots.tile_overview(
            tiles, drifts, {64: equal, 256: moved, 4096: equal}, {t: {1: equal} for t in tiles}
        ),
    }
    made |= more_figures() | figures_of_logp_probes_and_sources()
    assert set(made) == set(plots.__all__) - {"evidence_text", "png", "show"}
    return made


NAMES = sorted(set(plots.__all__) - {"evidence_text", "png", "show"})


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_has_a_title_and_evidence_and_stays_inside_its_edges(figures, name):
    figure = figures[name]
    assert len(figure.get_suptitle()) > 15
    assert "workbench" in figure.get_supxlabel()
    assert_inside(figure)


def test_the_check_for_edges_can_fail():
    figure = Figure()
    figure.text(0.9, 0.5, "much too long to fit where it stands")
    with pytest.raises(AssertionError, match="leaves the figure"):
        assert_inside(figure)


def test_drawing_needs_no_pyplot_and_leaves_the_settings_alone():
    code = (
        "import sys, matplotlib\n"
        # Asked the plain way, matplotlib would choose a backend and load pyplot for it.
        "def settings(): return {k: dict.__getitem__(matplotlib.rcParams, k) "
        "for k in dict.keys(matplotlib.rcParams)}\n"
        "before = settings()\n"
        "import workbench as wb; from workbench import plots\n"
        "t = wb.declared_order('lm_head', wb.KernelConfig(tile_length=64), n=128)\n"
        "assert plots.png(plots.order(t), 1)[:4] == b'\\x89PNG'\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert settings() == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# ---- orders --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 100, 576, 1000, 4096])
def test_any_length_can_be_drawn(n):
    found = tree(64, n)
    assert_inside(plots.order(found, f"H {n}"))
    drawing = trees._lay_out(found)
    assert len(drawing.triangles) <= 2 * trees._FOLD
    if n:
        assert drawing.path[0][1] == found.height


def test_a_left_to_right_sum_is_drawn_without_recursion():
    deep = ReductionTree.from_nested(sequential(range(3000)))
    drawing = trees._lay_out(deep)
    assert drawing.path[0][1] == 2999


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
def test_lines_never_cross(arch):
    """Subtrees stand side by side, also where a lane-wise order interleaves their terms."""
    drawing = trees._lay_out(tree(256, 1024, arch))
    spans = sorted((t[0][0], t[1][0]) for t in drawing.triangles)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    bars = [line for line in drawing.lines if line[0][1] == line[1][1]]
    drops = [line for line in drawing.lines if line[0][0] == line[1][0]]
    for (x0, y), (x1, _) in bars:
        for (x, low), (_, high) in drops:
            assert not (x0 < x < x1 and low < y < high), "a vertical line crosses a bar"


def test_depths_of_the_triangles_are_the_trees_own():
    found = tree(1024)
    drawing = trees._lay_out(found)
    # 64 terms a triangle, in order: the depth of its first term is that of all of them
    assert drawing.depths == found.depths()[::64].tolist()


def test_orders_of_one_hash_share_a_colour():
    said = texts(plots.orders({"a": tree(64), "b": tree(4096), "c": tree(256)}))
    assert "3 configurations, 2 different orders" in said
    assert said.count(tree(64).hash[:6]) == 2


# ---- what figures say ----------------------------------------------------------------------------


def test_bit_classes_letters_and_confirmation():
    names = {(64, 96): "x", (256, 96): "y", (4096, 96): "x"}
    said = texts(plots.bit_classes({"a": names}, {"a": names}))
    assert (said.count("A\n"), said.count("B\n"), said.count("●\n")) == (2, 1, 3)
    other = dict(names) | {(256, 96): "x"}
    said = texts(plots.bit_classes({"a": names}, {"a": other}))
    assert "●\n" not in said and said.count("×\n") == 3


def test_drift_shows_the_references_own_error():
    result = drift()
    said = texts(plots.drift_heatmap({"a": {(64, 96): result}}))
    for pair in (("kernel", "exact"), ("torch.mv", "exact")):
        assert style.scientific(result[pair].max_abs) in said


def test_drift_of_exact_results_can_be_drawn():
    ones = wb.drift(per_row, torch.ones(2, 8), torch.ones(3, 8))
    assert "0" in texts(plots.drift_heatmap({"a": {(64, 8): ones}}))


def test_invariance_is_said_by_marks_not_by_colour_alone(verdicts):
    good, bad = verdicts
    said = texts(plots.invariance_table({"good": good, "bad": bad}))
    assert said.count("=\n") >= 7 and "≠" in said and "1 of 2 keep every bit" in said
    assert "% of outputs changed" in said
    # A table of "=" alone has no scale: there is nothing to read from it.
    assert "% of outputs" not in texts(plots.invariance_table({"good": good}))
    said = texts(plots.invariance_grid({(64, 1): good}, {"control": bad}))
    assert "caught" in said and "not caught" not in said
    said = texts(plots.invariance_grid({(64, 1): good}, {"control": good}))
    assert "not caught" in said
    said = texts(plots.invariance_grid({(64, 1): bad}))
    assert "1 of 1 configurations change" in said


def test_a_logit_that_moves_is_counted():
    shift = np.zeros((2, 4))
    assert "every bit equal" in texts(plots.batch_shift({"f": shift}, [1, 2]))
    shift[1, 0] = 1e-9
    said = texts(plots.batch_shift({"f": shift}, [1, 2]))
    assert "12% of logits moved" in said and "f move" in said


def test_bit_patterns_mark_what_differs_from_the_first_line():
    words = np.array([0xBF800000, 0xBF800003, 0xBF800000], np.uint32).view(np.int32)
    said = texts(plots.bit_patterns({"f": words}, [1, 2, 3]))
    assert said.count("×\n") == 2  # two bits of one word; the legend's × has text behind it
    assert "0xbf800003" in said and "-1.00000036" in said
    same = texts(plots.bit_patterns({"f": words[:1]}, [1]))
    assert "the same 32 bits in every batch" in same


def test_a_block_count_that_changes_bits_is_not_called_harmless():
    moved = compare_bits(torch.zeros(4), torch.ones(4))
    said = texts(plots.changed_outputs({1: moved}, {64: moved}))
    assert "1 of 1 values of MAX_BLOCKS change bits" in said and "≠" in said


# ---- evidence ------------------------------------------------------------------------------------


class FakeKernel:
    class info:
        name, backend, arch, defines = "lm_head", "twin", "dav-2201", {}

    def __init__(self, tile):
        self.config = wb.KernelConfig(tile_length=tile, max_blocks=128)


def test_evidence_merges_what_is_common():
    found = [evidence(FakeKernel(tile), HIDDEN, WEIGHT) for tile in (64, 256)]
    said = plots.evidence_text(found)
    assert "twin (simulated on this CPU, no Ascend hardware)" in said
    assert said.count("dav-2201") == 1 and "tile 64, 256" in said and "MAX_BLOCKS 128" in said
    assert found[0].fixture_id in said and torch.__version__ in said
    many = [evidence(FakeKernel(64 * (1 + k)), HIDDEN) for k in range(9)]
    assert "tile 64 … 576 (9 of them)" in plots.evidence_text(many)


def test_evidence_of_results_names_shape_and_dtype():
    said = plots.evidence_text(drift())
    assert "3×96×5 float32" in said and "per_row" in said and "twin" not in said


def test_numbers_are_written_as_people_write_them():
    assert [style.scientific(x) for x in (7e-5, 0, 1.24e-4, 3.0)] == [
        *("7.0e-5", "0", "1.2e-4", "3.0e0")
    ]


# ---- text alternatives ---------------------------------------------------------------------------


def test_show_hands_the_text_alternative_to_nbconvert(monkeypatch):
    import IPython.display
    import nbformat
    from nbconvert import HTMLExporter

    shown: dict = {}
    monkeypatch.setattr(
        IPython.display, "display", lambda data, **more: shown.update(data=data, **more)
    )
    plots.show(plots.order(tree(64, 128)), 'a tree of "64" & more')
    assert shown["raw"] and shown["data"]["text/plain"] == 'a tree of "64" & more'
    v4 = nbformat.v4
    output = v4.new_output("display_data", data=shown["data"], metadata=shown["metadata"])
    book = v4.new_notebook(cells=[v4.new_code_cell("x", outputs=[output])])
    body, _ = HTMLExporter(template_name="basic").from_notebook_node(book)
    (image,) = re.findall(r"<img[^>]*>", body)
    parsed: list[dict] = []
    parser = HTMLParser()
    parser.handle_startendtag = lambda tag, attrs: parsed.append(dict(attrs))
    parser.feed(image)
    assert parsed[0]["alt"] == 'a tree of "64" & more' and parsed[0]["width"] == "950"


def test_an_empty_text_alternative_is_refused():
    with pytest.raises(ValueError, match="alt is empty"):
        plots.show(plots.order(tree(64, 128)), " ")
