"""The class table says what the classes say, cell by cell."""

from __future__ import annotations

import re

import numpy as np
from plots.test_plots import texts

import workbench as wb
from workbench.orders.classes import bit_classes
from workbench.plots import png
from workbench.plots.classes import class_table


def cells(ax) -> dict[tuple[int, int], str]:
    return {
        (round(t.get_position()[0]), round(t.get_position()[1])): t.get_text() for t in ax.texts
    }


def test_every_cell_has_the_letter_and_colour_of_its_class():
    configs = [
        wb.KernelConfig(tile_length=tile, max_blocks=blocks)
        for tile in (64, 100, 128, 1024)
        for blocks in (1, 2)
    ]
    found = bit_classes(configs, 1024, backend="twin", order="declared")
    fig = class_table(found)
    (ax,) = fig.axes
    rows = [t.get_text() for t in ax.get_yticklabels()]
    columns = [t.get_text() for t in ax.get_xticklabels()]
    assert rows == ["64", "100", "128", "1024"]  # as constants are typed,
    assert not re.search(r"\d,\d", texts(fig))  # everywhere in the figure
    assert columns == ["dav-2201\n1", "dav-2201\n2"]
    seen = cells(ax)
    colors = np.asarray(ax.images[0].get_array())
    for config in configs:
        at = columns.index(f"dav-2201\n{config.max_blocks}"), rows.index(str(config.tile_length))
        wanted = "!" if config.tile_length == 100 else found.class_of(config).letter
        assert seen[at] == wanted
    by_letter = {}
    for (x, y), text in seen.items():
        by_letter.setdefault(text, set()).add(tuple(colors[y, x]))
    assert {len(c) for c in by_letter.values()} == {1} and len(by_letter) == 3
    assert "8 configurations" in fig.get_suptitle() and "2 bit classes" in fig.get_suptitle()
    assert "no Ascend hardware" in fig.get_supxlabel()
    assert png(fig)[:4] == b"\x89PNG"


def test_a_table_wider_than_its_names_turns_them():
    configs = [wb.KernelConfig(tile_length=64, max_blocks=b) for b in range(1, 18)]
    found = bit_classes(configs, 64, backend="twin", order="declared")
    (ax,) = class_table(found).axes
    assert {t.get_rotation() for t in ax.get_xticklabels()} == {90}
