"""The ten probes: each architecture's documented answers, and what the switches do to them."""

from __future__ import annotations

import json
import math

import pytest

import workbench as wb
from workbench import cli
from workbench.numerics import probes

# The documented answers, written down here once more: H1 to H10 (None: not asked or not finite).
TINY = 64 * 71362 * 2.0**-149  # 1e-40 is 71362 units of the last place of a subnormal
DOCUMENTED = {
    #              H1   H2   H3   H4   H5    H6   H7       H8     H9   H10
    "dav-1001": (0.0, 0.0, 0.0, 1.0, TINY, -0.0, None, 65504.0, 0.0, 16.0),
    "dav-2002": (0.0, 0.0, 0.0, 1.0, TINY, -0.0, 2**-24, 65504.0, 0.0, 16.0),
    "dav-2201": (0.0, 1.0, 0.0, 1.0, TINY, 0.0, 2**-24, None, 1.0, 17.0),
    "dav-3510": (0.0, 0.0, 2.0, 1.0, TINY, -0.0, 2**-24, None, 0.0, 9.0),
}
COUNT_1 = {"dav-1001": 0.0, "dav-2002": 0.0, "dav-2201": 0.0, "dav-3510": -0.0}


def same(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return a == b and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize("arch", DOCUMENTED)
def test_the_twin_gives_the_documented_answers(arch: str) -> None:
    found = wb.probe(arch)
    assert [p.name for p in found.probes] == [f"H{n}" for n in range(1, 11)]
    wrong = {
        p.name: p.value
        for p, want in zip(found.probes, DOCUMENTED[arch], strict=True)
        if not same(p.value, want)
    }
    assert not wrong
    assert same(found.probes[5].also.value, COUNT_1[arch])
    assert found.passed and found.backend == "twin"
    if arch != "dav-1001":
        inf = found.probes[7]
        assert inf.bits == ("7f800000" if inf.value is None else "477fe000")


@pytest.mark.parametrize(
    ("switches", "changed"),
    [
        ({"accumulator_start": "first"}, {"H6": -0.0}),
        ({"masked_lanes": "skip"}, {}),  # the accumulator hides it …
        ({"masked_lanes": "skip", "accumulator_start": "first"}, {"H6": -0.0, "count 1": -0.0}),
        ({"fused": "unfused"}, {"H7": 0.0}),
        ({"overflow": "saturate"}, {"H8": 65504.0}),
    ],
)
def test_a_switch_changes_its_answer_and_no_other(switches, changed) -> None:
    plain, switched = wb.probe("dav-2201"), wb.probe("dav-2201", switches=switches)
    assert switched.passed, "what is expected follows the switch"
    differ = {
        b.name: b.value
        for a, b in zip(plain.probes, switched.probes, strict=True)
        if a.bits != b.bits
    }
    if plain.probes[5].also.bits != switched.probes[5].also.bits:
        differ["count 1"] = switched.probes[5].also.value
    assert differ.keys() == changed.keys()
    assert all(same(differ[name], changed[name]) for name in changed)


def test_control_another_answer_is_told_apart(monkeypatch) -> None:
    """A device that sums by halves answers otherwise: it is marked, and says what it would mean."""
    halving = probes.Question(
        "H1", "…", lambda kernel: 32.0, probes.QUESTIONS[0].answers, probes.QUESTIONS[0].expected
    )
    odd = probes.Question(
        "H2", "…", lambda kernel: 5.0, probes.QUESTIONS[1].answers, halving.expected
    )
    monkeypatch.setattr(probes, "QUESTIONS", (halving, odd))
    found = wb.probe("dav-2201")
    assert not found.passed and not found.probes[0].agrees
    assert "halving tree" in found.probes[0].meaning
    assert "none of the answers we know of" in found.probes[1].meaning
    assert "H1, H2 differ from what the twin's data of dav-2201 imply" in found.report()


def test_the_command(capsys, tmp_path) -> None:
    report = tmp_path / "probes.md"
    assert cli.main(["probe", "--arch", "dav-3510", "--json", "--out", str(report)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [p["name"] for p in found["probes"]] == [f"H{n}" for n in range(1, 11)]
    assert {"name", "value", "bits", "expected", "meaning"} <= found["probes"][0].keys()
    assert found["probes"][7]["value"] is None and found["probes"][7]["bits"] == "7f800000"
    text = report.read_text()
    assert "the twin (no hardware was involved)" in text and "| H10 |" in text
    assert cli.main(["probe", "--switch", "masked_lanes"]) == 2
    assert cli.main(["probe", "--switch", "masked_lanes=maybe"]) == 2
    assert cli.main(["probe", "--out", str(tmp_path)]) == 2
    assert "is a folder; give a file in it" in capsys.readouterr().err
    assert cli.main(["probe", "--arch", "dav-9"]) == 2
    assert "unknown architecture" in capsys.readouterr().err


def test_a_device_that_is_not_there(capsys) -> None:
    assert cli.main(["probe", "--device", "npu"]) == 3
    assert "CANN" in capsys.readouterr().err
    with pytest.raises(wb.InputError, match="switches work on the twin only"):
        wb.probe(backend="npu", switches={"fused": "unfused"})
