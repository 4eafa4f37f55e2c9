"""Five programs as a user writes them, run as they are, against numpy: without checks, and with all
of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from roundings import Rounded, worst

PROGRAMS = Path(__file__).parent / "programs"
CHECKS = pytest.mark.parametrize("checks", [[], ["--check", "all"]], ids=["fast", "checked"])


@pytest.fixture
def program(call, tmp_path):
    """program(name, {file: array}, *arguments): runs it in a folder with these files; what reads a
    file it has written."""

    def go(name, files, *args):
        for file, values in files.items():
            (tmp_path / file).write_bytes(np.ascontiguousarray(values).tobytes())
        code, out, _ = call(PROGRAMS / f"{name}.asc", "--json", "--cwd", tmp_path, *args)
        assert code == 0, out.get("error", {}).get("message") or out
        assert out["faults"] == []

        def read(file, dtype):
            return np.frombuffer((tmp_path / file).read_bytes(), dtype)

        return out, read

    return go


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.dtype.itemsize}")


@CHECKS
@pytest.mark.parametrize("n", [1, 7, 8, 1000, 8192, 20011])
def test_elementwise(program, n, checks):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n)).astype(np.float32)
    _, read = program("elementwise", {"x.bin": x, "y.bin": y}, *checks, "--", n, 0.75)
    want = np.maximum(x * np.float32(0.75) + y, np.float32(0))
    assert (bits(read("z.bin", np.float32)) == bits(want)).all()


@CHECKS
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 100), (64, 1000), (50, 4096)])
def test_softmax(program, rows, columns, checks):
    rng = np.random.default_rng(columns)
    x = (4 * rng.standard_normal((rows, columns))).astype(np.float32)
    out, read = program("softmax", {"x.bin": x}, *checks, "--", rows, columns)
    wide = Rounded(x, torch.float32)
    e = (wide - wide.max(1)).exp()
    want = e * (1 / e.sum(1))
    assert worst(read("y.bin", np.float32).reshape(rows, columns), want) <= 1
    assert out["stdout"].startswith(f"{rows} rows in ")


@CHECKS
@pytest.mark.parametrize(("rows", "columns"), [(1, 1024), (5, 16), (60, 2048)])
def test_rms_norm(program, rows, columns, checks):
    rng = np.random.default_rng(columns)
    x = rng.standard_normal((rows, columns)).astype(np.float16)
    gamma = (1 + 0.1 * rng.standard_normal(columns)).astype(np.float16)
    files = {"x.bin": x, "gamma.bin": gamma}
    _, read = program("rms_norm", files, "-D", f"COLUMNS={columns}", *checks, "--", rows)
    wide = Rounded(x, torch.float32)
    want = wide * (1 / ((wide * wide).mean(1) + 1e-6).sqrt()) * Rounded(gamma, torch.float32)
    got = read("y.bin", np.float16).reshape(rows, columns)
    assert worst(got, want.to(torch.float16)) <= 1


@CHECKS
@pytest.mark.parametrize(("rows", "columns", "k"), [(1, 512, 512), (7, 100, 5), (60, 333, 32)])
def test_topk(program, rows, columns, k, checks):
    rng = np.random.default_rng(k)
    x = rng.integers(-50, 50, (rows, columns)).astype(np.float32)  # with many equal values
    _, read = program("topk", {"x.bin": x}, *checks, "--", rows, columns, k)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    values = read("values.bin", np.float32).reshape(rows, k)
    indices = read("indices.bin", np.uint32).reshape(rows, k)
    assert (indices == order).all()
    assert (values == np.take_along_axis(x, order, 1)).all()


@CHECKS
@pytest.mark.parametrize(("n", "blocks"), [(1, 1), (10, 20), (100_003, 7), (300_000, 48)])
def test_reduce(program, n, blocks, checks):
    rng = np.random.default_rng(n)
    x = rng.integers(-8, 9, n).astype(np.float32)  # every sum of them is exact
    _, read = program("reduce", {"x.bin": x}, *checks, "--", n, blocks)
    assert read("result.bin", np.float32).tolist() == [x.sum(dtype=np.float64), x.max(), x.min()]


def test_a_wrong_answer_would_be_seen(program):
    """The control: another input than the one that numpy was given."""
    x = np.ones(64, np.float32)
    _, read = program("elementwise", {"x.bin": x, "y.bin": x}, "--", 64, 0.5)
    assert not (read("z.bin", np.float32) == 1.25).any()


def test_a_program_says_what_it_wants(call):
    code, out, _ = call(PROGRAMS / "topk.asc", "--json")
    assert (code, out["exit_code"]) == (2, 2) and "usage: topk" in out["stderr"]
