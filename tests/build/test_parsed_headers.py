"""kernel_operator.h parsed once: used where it fits, left alone where it does not."""

from __future__ import annotations

import dataclasses

import build_kit as kit

import workbench as wb
from workbench.build.twin import TwinToolchain


def filled(kernel) -> float:
    import torch

    out = torch.zeros(1)
    kernel.launch("fill", 1, out)
    return out.item()


def test_a_parsed_header_is_taken_where_the_file_begins_with_ours(record, tmp_path):
    plain = kit.FILL.replace('#include "kernel_operator.h"', "#include <cmath>\n" + "%s", 1)
    assert filled(wb.build(kit.source(tmp_path), backend="twin")) == 1
    other = kit.source(tmp_path, plain % '#include "kernel_operator.h"', "other.asc")
    assert filled(wb.build(other, backend="twin")) == 1
    first, second = record.compilations
    assert "-include" in first and "-include" not in second


def test_one_that_does_not_fit_is_not_used(each_compiler, tmp_path, monkeypatch):
    """Parsed with other macros defined than the unit has: one compiler warns, the other refuses."""
    whole = TwinToolchain.parsed_headers

    def unfit(self, on):
        item = whole(self, on)
        command = [word for word in item.command if word != "-pthread"]
        return dataclasses.replace(item, command=command)

    monkeypatch.setattr(TwinToolchain, "parsed_headers", unfit)
    assert filled(wb.build(kit.source(tmp_path), backend="twin")) == 1


def test_a_mistake_of_the_user_is_still_shown_at_its_line(each_compiler, tmp_path):
    path = kit.source(tmp_path, kit.FILL + "\nint f() { return undeclared; }\n")
    line = path.read_text().split("\n").index("int f() { return undeclared; }") + 1
    try:
        wb.build(path, backend="twin")
        raise AssertionError("it compiled")
    except wb.BuildError as error:
        assert error.line == line and "undeclared" in str(error)
