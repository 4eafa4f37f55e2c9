"""What a launch reports: exact counters, fidelity tags, switches, perturbation."""

from __future__ import annotations

import pytest
import torch

import workbench as wb

KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR y, uint32_t n) {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, 1024);
    pipe.InitBuffer(out, 1, 1024);
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float *)x + n * GetBlockIdx(), n);
    to.SetGlobalBuffer((__gm__ float *)y + n * GetBlockIdx(), n);
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopyPad(a, from, DataCopyExtParams{1, n * 4, 0, 0, 0}, DataCopyPadExtParams<float>());
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> b = out.AllocTensor<float>();
    %s
    out.EnQue(b);
    in.FreeTensor(a);
    b = out.DeQue<float>();
    DataCopyPad(to, b, DataCopyExtParams{1, n * 4, 0, 0, 0});
    out.FreeTensor(b);
}
"""


def kernel(folder, line: str, **config):
    path = folder / "k.asc"
    path.write_text(KERNEL % line)
    return wb.build(path, wb.KernelConfig(**config), backend="twin")


def test_counters_are_exact_per_launch_and_per_line(tmp_path) -> None:
    blocks, n = 3, 100
    k = kernel(tmp_path, "Muls(b, a, 2.0f, n); PipeBarrier<PIPE_V>(); Adds(b, b, 1.0f, n);")
    x, y = torch.arange(300.0), torch.zeros(300)
    for threads in (1, 2):
        k.launch("k", blocks, x, y, n, counters=True, threads=threads)
        assert torch.equal(y, 2 * x + 1)
        last = k.last
        assert last.counters == {
            "gm_to_ub_bytes": blocks * n * 4,
            "ub_to_gm_bytes": blocks * n * 4,
            "vector_instructions": blocks * 2,
            "vector_repeats": blocks * 2 * 2,  # 100 elements are two repeats of 64 lanes
            "scalar_reads": 0,
            "scalar_writes": 0,
            "flags": 0,
            "barriers": blocks,
            "queue_operations": blocks * 8,
            "copies": blocks * 2,
        }
        lines = {row["line"]: row for row in last.lines}
        assert all(row["file"].endswith("k.asc") for row in last.lines)
        assert lines[17]["vector_instructions"] == blocks * 2 and lines[17]["barriers"] == blocks
        assert lines[13]["gm_to_ub_bytes"] == blocks * n * 4
        assert lines[21]["ub_to_gm_bytes"] == blocks * n * 4
        totals = {name: sum(r[name] for r in last.lines) for name in last.counters}
        assert totals == last.counters
    assert last.ub_bytes == 3 * 1024
    k.launch("k", blocks, x, y, n)
    assert k.last.counters == {} and k.last.lines == []


def test_a_launch_carries_the_weakest_tag_of_what_it_executed(tmp_path) -> None:
    x, y = torch.rand(64), torch.zeros(64)
    for line, tag in (
        ("Muls(b, a, 2.0f, 64);", "exact"),
        ("MulAddDst(b, a, a, 64);", "assumed"),
        ("Exp(b, a, 64);", "approximate"),
        ("if (n == 1) Exp(b, a, 64); else Muls(b, a, 2.0f, 64);", "exact"),  # as executed
    ):
        k = kernel(tmp_path, line)
        k.launch("k", 1, x, y, 64)
        assert k.last.fidelity == tag
        assert {"DataCopyPad", "AllocTensor", "EnQue"} <= k.last.instructions.keys()
    assert "Exp" not in k.last.instructions and k.last.instructions["Muls"] == "exact"
    assert "Exp" not in str(k.last) and "exact" in k.last._repr_html_()


def test_perturbation_moves_approximate_results_by_an_ulp_and_nothing_else(tmp_path) -> None:
    x = torch.linspace(-3, 3, 64)
    exact, approximate = kernel(tmp_path, "Muls(b, a, 2.0f, 64);"), None

    def run(k, seed: int) -> torch.Tensor:
        y = torch.zeros(64)
        k.launch("k", 1, x, y, 64, perturb=seed)
        return y.view(torch.int32)

    assert torch.equal(run(exact, 0), run(exact, 5))
    approximate = kernel(tmp_path, "Exp(b, a, 64);")
    plain, moved = run(approximate, 0), run(approximate, 5)
    step = (moved - plain).abs()
    assert step.max() == 1 and 10 < step.sum() < 64, "by -1, 0 or +1"
    assert torch.equal(moved, run(approximate, 5)), "the same seed gives the same moves"
    assert not torch.equal(moved, run(approximate, 6))
    assert approximate.last.perturb == 6


def test_switches_are_part_of_the_configuration_and_recorded(tmp_path) -> None:
    line = "Duplicate(b, -1.0f - 0x1p-11f, 64); PipeBarrier<PIPE_V>(); MulAddDst(b, a, a, 64);"
    x, y = torch.full((64,), 1 + 2.0**-12), torch.zeros(64)
    results = {}
    for choice in ("fused", "unfused"):
        k = kernel(tmp_path, line, switches={"fused": choice})
        k.launch("k", 1, x, y, 64)
        results[choice] = y[0].item()
        assert k.last.switches == {"fused": choice}
        assert k.config.to_dict()["switches"] == {"fused": choice}
    assert results == {"fused": 2.0**-24, "unfused": 0.0}
    one, other = wb.KernelConfig(switches={"fused": "fused"}), wb.KernelConfig()
    assert one != other and hash(one) != hash(other) and one.replace(arch="dav-3510").switches
    with pytest.raises(wb.ConfigError, match="fused: fused or unfused"):
        wb.KernelConfig(switches={"fused": "maybe"})
    with pytest.raises(wb.ConfigError, match="unknown switch"):
        wb.KernelConfig(switches={"flush": "yes"})


def test_checks_are_named_and_wrong_names_refused(tmp_path) -> None:
    k = kernel(tmp_path, "Muls(b, a, 2.0f, 64);")
    with pytest.raises(wb.InputError, match="has not been launched"):
        _ = k.last
    x, y = torch.ones(64), torch.zeros(64)
    k.launch("k", 1, x, y, 64, check="race,mem")
    assert k.last.checks == ["mem", "race"]
    k.launch("k", 1, x, y, 64, check=True)
    assert k.last.checks == ["mem", "init", "race", "sync"]
    with pytest.raises(wb.InputError, match="check 'memory': there are mem, init, race, sync"):
        k.launch("k", 1, x, y, 64, check="memory")


def test_a_fault_as_an_exception_and_as_json(tmp_path) -> None:
    k = kernel(tmp_path, "Muls(b, a[8], 2.0f, 256);")
    with pytest.raises(wb.TwinFault) as caught:
        k.launch("k", 2, torch.ones(512), torch.zeros(512), 256, check=True)
    fault = caught.value
    assert (fault.kind, fault.line, fault.block) == ("mem", 17, 0)
    assert fault.file.endswith("k.asc") and fault.instruction == "Muls"
    assert fault.tensor and fault.mend and fault.what in str(fault)
    assert fault.to_dict()["message"] == str(fault)
    k.launch("k", 1, torch.ones(64), torch.zeros(64), 8)  # the process lives on
