"""Each faulty kernel is found, by its code and line; its corrected twin and every kernel that ships
run clean under all checks, with the same bits as without."""

from __future__ import annotations

import functools

import pytest
import torch

import workbench as wb
from faults import cases
from faults.cases import CASES, Case

# A copy that rounds up loses a tail as well; an offset that nobody wrote is a wrong one as well.
WITHOUT = ("blocks_round_up", "gather_by_unwritten_offsets")
ONE_FAMILY = [c for c in CASES if c.kind in ("race", "init") and c.name not in WITHOUT]


@functools.cache
def kernels(kind: str, faulty: bool):
    defines = {"FAULTY": int(faulty)}
    path = cases.HERE / f"{kind}.asc"
    return wb.build(path, wb.KernelConfig(arch="dav-2201"), backend="twin", defines=defines)


def launch(case: Case, faulty: bool, **options) -> torch.Tensor:
    x, y = torch.arange(1024.0), torch.zeros(1024)
    kernels(case.kind, faulty).launch(case.name, case.blocks, x, y, **options)
    return y


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_mistake_is_found_at_its_line(case: Case) -> None:
    found = []
    for threads in (1, 2):
        with pytest.raises(wb.TwinFault) as caught:
            launch(case, True, check=True, threads=threads)
        found.append(caught.value)
    fault = found[0]
    assert (fault.kind, fault.code, fault.line) == (case.kind, case.code, case.line), fault
    assert fault.file == str(case.path)
    assert fault.block in range(case.blocks) and fault.instruction and fault.mend, fault
    assert str(fault) == str(found[1]), "the fault must not depend on the threads"
    # Its own family of checks is enough, and the same process goes on.
    with pytest.raises(wb.TwinFault) as caught:
        launch(case, True, check=case.kind)
    assert str(caught.value) == str(fault)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_its_corrected_twin_is_clean(case: Case) -> None:
    fast = launch(case, False)
    checked = launch(case, False, check=True, counters=True)
    assert torch.equal(fast.view(torch.int32), checked.view(torch.int32))


@pytest.mark.parametrize("case", ONE_FAMILY, ids=lambda c: c.name)
def test_other_families_say_nothing(case: Case) -> None:
    """The control of the names: without its own family the mistake goes unseen."""
    others = ",".join(kind for kind in cases.FAMILIES if kind != case.kind)
    launch(case, True, check=others)


def test_there_are_enough_of_every_family() -> None:
    assert len(CASES) >= 60
    for kind in cases.FAMILIES:
        assert sum(c.kind == kind for c in CASES) >= 10, kind
    assert len({c.name for c in CASES}) == len(CASES)


def test_the_table_in_the_docs_is_this_one() -> None:
    assert cases.in_docs() == cases.table(), "run: python tests/faults/cases.py"
