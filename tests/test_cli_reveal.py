"""`workbench reveal` on the command line."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.build.config import KernelConfig
from workbench.orders.declared import declared_order
from workbench.orders.standard import sequential_order
from workbench.orders.tree import ReductionTree

MODULE = """
import math
import numpy as np
def rows(terms):
    return np.cumsum(terms, axis=1)[:, -1]
def fsum(terms):
    return np.array([math.fsum(row) for row in terms], np.float32)
def last(terms):
    out = rows(terms)
    out[-1] = np.cumsum(terms[-1, ::-1])[-1]
    return out
def by_sign(terms):
    back = np.cumsum(terms[:, ::-1], axis=1)[:, -1]
    return np.where((terms > 0).all(1), back, rows(terms))
def quotes(terms):
    raise ValueError("rows=3 is the user's own")
def mean(terms):
    return terms.mean(1)
"""


@pytest.fixture
def run(command_line, tmp_path, monkeypatch):
    (tmp_path / "revealed_here.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return command_line("reveal")


def test_a_kernel_as_json(run):
    code, found, _ = run(
        *("lm_head", "--n", "150", "-D", "TILE_LENGTH=64", "--arch", "dav-3510"),
        *("--backend", "twin", "--json"),
    )
    declared = declared_order("lm_head", KernelConfig(tile_length=64, arch="dav-3510"), 150)
    assert code == 0 and found["declared"] == {
        "hash": declared.hash,
        "equal": True,
        "difference": None,
    }
    assert (found["hash"], found["height"], found["leaves"]) == (
        declared.hash,
        declared.height,
        150,
    )
    assert ReductionTree.from_nested(found["tree"]) == declared
    assert found["probes"] > 149 and found["calls"] < found["probes"] and found["seconds"] > 0
    assert found["evidence"]["arch"] == "dav-3510" and found["evidence"]["backend"] == "twin"


def test_a_kernel_as_text(run):
    code, out, _ = run("lm_head", "--n", "4096", "--backend", "twin")
    assert code == 0 and "64 x [pairs of 64]" in out and "declared order: the same" in out
    assert len(out) < 2000


def test_an_order_that_is_not_the_declared_one_fails(run, monkeypatch):
    monkeypatch.setattr(
        "workbench.orders.declared.declared_order",
        lambda op, config, n: declared_order("det_gemm", KernelConfig(leaf_length=128), n),
    )
    code, out, _ = run("lm_head", "--n", "40", "--backend", "twin")
    assert code == 1 and "declared order: ANOTHER" in out


def test_logp_is_revealed_by_triples(run):
    code, found, _ = run("batch_invariant_logp", "--n", "70", "--backend", "twin", "--json")
    assert code == 0 and found["declared"]["equal"] and found["leaves"] == 70


def test_a_library_function_and_its_arithmetic(run):
    code, found, _ = run(
        *("torch.mv", "--n", "40", "--rows", "3", "--row", "2", "--arithmetic", "--json")
    )
    assert code == 0 and found["declared"] is None
    assert found["shape"] == {"rows": 3, "row": 2} and found["arithmetic_probes"]["n"] == 40
    assert sorted(found["arithmetic_probes"]) and found["backend"] is None


def from_parents(parents, leaves):
    """As docs/orders.md writes it."""
    parents = np.array(parents, int)
    children = np.argsort(parents[:-1], kind="stable")
    counts = np.bincount(parents[:-1] - leaves, minlength=len(parents) - leaves)
    return ReductionTree.from_arrays(children, np.append(0, np.cumsum(counts)), leaves)


def test_a_callable_of_the_current_folder(run):
    code, found, _ = run("revealed_here:rows", "--n", "60", "--array", "numpy", "--json")
    assert code == 0 and found["height"] == 59
    wanted = sequential_order(60)
    assert ReductionTree.from_nested(found["tree"]) == wanted == from_parents(found["parents"], 60)


@pytest.mark.parametrize("n", [901, 902, 5000])
def test_a_tree_of_any_depth_is_read_back(run, n):
    """Python's json does not read 1,000 lists inside each other; `parents` is flat."""
    code, found, _ = run("revealed_here:rows", "--n", n, "--array", "numpy", "--json")
    assert code == 0 and found["leaves"] == n and found["height"] == n - 1
    assert from_parents(found["parents"], n).hash == found["hash"] == sequential_order(n).hash
    assert (found["tree"] is None) == (n - 1 > 900)


def test_few_terms_and_fused_nodes_have_parents_too(run):
    for name, n in (("numpy.sum", 0), ("numpy.sum", 1), ("revealed_here:fsum", 40)):
        code, found, _ = run(name, "--n", n, "--json")
        assert code == 0 and len(found["parents"]) == n + (n > 1)
        assert from_parents(found["parents"], n).hash == found["hash"]


def test_all_outputs_of_a_call(run):
    code, found, _ = run("revealed_here:last", "--n", "40", "--rows", "5", "--all", "--json")
    assert code == 0
    assert [(g["outputs"], g["rows"]) for g in found["groups"]] == [(4, "0-3"), (1, "4")]
    code, out, _ = run("revealed_here:last", "--n", "40", "--rows", "5", "--all")
    assert code == 0 and "2 orders in one call of last" in out


def test_all_outputs_of_a_kernel_are_compared_with_its_declaration(run, monkeypatch):
    args = ("lm_head", "--n", "70", "--rows", "2", "--all", "--backend", "twin")
    code, found, _ = run(*args, "--json")
    assert code == 0 and [one["equal"] for one in found["declared"]] == [True]
    monkeypatch.setattr(
        "workbench.orders.declared.declared_order",
        lambda op, config, n: declared_order("det_gemm", KernelConfig(leaf_length=128), n),
    )
    code, out, _ = run(*args)
    assert code == 1 and "declared order: ANOTHER" in out


def test_what_is_no_sum_is_exit_1(run):
    code, _, err = run("revealed_here:mean", "--n", "40")
    assert code == 1 and "no mean" in err
    code, _, err = run("revealed_here:last", "--n", "40")
    assert code == 1 and "rows are not independent" in err
    assert "--rows N --row r asks" in err and "rows=" not in err
    code, _, err = run("revealed_here:quotes", "--n", "40")
    assert code == 1 and "rows=3 is the user's own" in err


def test_an_order_that_explains_no_ordinary_sum(run):
    code, _, err = run("revealed_here:by_sign", "--n", "9")
    assert code == 1 and "does not explain ordinary sums" in err
    assert "Ask with --unexplained for the order" in err and "unexplained=" not in err
    code, out, _ = run("revealed_here:by_sign", "--n", "9", "--unexplained")
    assert code == 0 and "not plain sums" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("torch.mv",), "Missing option '--n'"),
        (("torch.mv", "--n", "-1"), "--n"),
        (("torch.prod", "--n", "4"), "is unknown"),
        (("torch.mv", "--n", "4", "-D", "A=1"), "belong to a kernel"),
        (("torch.mv", "--n", "4", "--arch", "dav-2201"), "belong to a kernel"),
        (("torch.mvv", "--n", "4"), "batch_invariant_logp, torch.sum"),
        (("torch.mvv", "--n", "4"), "and module:callable"),
        (("torch.mv", "--n", "4", "--rows", "2", "--row", "2"), "wanted 0 to 1"),
        (("torch.mv", "--n", "4", "--row", "5"), "--row 5 of 1 rows; wanted 0 to 0. --rows 6"),
        (("torch.mv", "--n", "4", "--all", "--row", "0", "--arithmetic"), "drop --row"),
        (("lm_head", "--n", "4", "-D", "TILE=3"), "no constant tile"),
        (("lm_head", "--n", "4", "--arch", "dav-1"), "dav-1"),
        (("lm_head", "--n", "4", "-D", "arch=5"), "--arch"),
        (("lm_head", "--n", "4", "-D", "switches=5"), "no constant of a kernel"),
        (("numpy.sum", "--n", "99999999999"), "this machine has"),
        (("torch.mv", "--n", "9", "--rows", "99999999999"), "this machine has"),
        (("lm_head", "--n", "4", "--dtype", "fp64", "--backend", "twin"), "float64"),
        (("batch_invariant_logp", "--n", "4", "--rows", "2"), "sums exponentials"),
        (("nowhere:f", "--n", "4"), "cannot import nowhere"),
    ],
)
def test_wrong_usage(run, args, words):
    code, _, err = run(*args)
    assert code == 2 and words in " ".join(err.split())
