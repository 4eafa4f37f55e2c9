"""Eight more programs, each in another style of the documentation, run as they are, against numpy:
without checks, and with all of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from roundings import Rounded, worst

import workbench as wb

PROGRAMS = Path(__file__).parent / "programs"
CHECKS = pytest.mark.parametrize("checks", [[], ["--check", "all"]], ids=["fast", "checked"])
same = np.testing.assert_array_equal


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
        return lambda file, dtype: np.frombuffer((tmp_path / file).read_bytes(), dtype)

    return go


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


@CHECKS
@pytest.mark.parametrize("n", [1, 1024, 10007])
def test_leaky_relu(program, n, checks):
    x = normal(n)
    read = program("leaky_relu", {"x.bin": x}, *checks, "--", n)
    same(read("y.bin", np.float32), np.where(x >= 0, x, x * np.float32(0.01)))


@CHECKS
def test_layer_norm(program, checks):
    x, gamma, beta = normal(32, 64), normal(64), normal(1, 64)[0]
    read = program("layer_norm", {"x.bin": x, "gamma.bin": gamma, "beta.bin": beta}, *checks)
    wide = Rounded(x, torch.float32)
    share = 1 / x.shape[1]
    mean = (wide * share).sum(1)
    off = wide - mean
    variance = (off * off * share).sum(1)
    factor = ((variance + 1e-5).log() * -0.5).exp()  # documented so
    want = off * factor * Rounded(gamma, torch.float32) + Rounded(beta, torch.float32)
    assert worst(read("y.bin", np.float32).reshape(32, 64), want) <= 1
    assert worst(read("mean.bin", np.float32)[:, None], mean) <= 1
    assert worst(read("variance.bin", np.float32)[:, None], variance) <= 1


@CHECKS
def test_buf_pool(program, checks):
    x = normal(2048, dtype=np.float16)
    read = program("buf_pool", {"x.bin": x}, *checks)
    same(read("copy.bin", np.float16), x)
    a, b = x[:512], x[512:1024]
    same(read("sums.bin", np.float16), np.concatenate([a + b, a - b]))


@CHECKS
def test_masks(program, checks):
    h, f = normal(512, dtype=np.float16), normal(1024)
    read = program("masks", {"h.bin": h, "f.bin": f}, *checks)
    lanes = -h
    lanes[1::2] = 2 * h[1::2]
    same(read("lanes.bin", np.float16), lanes)
    same(read("clamped.bin", np.float32), f.clip(-0.5, 0.5))
    counted = np.zeros(512, np.float16)
    counted[:300] = 2 * h[:300]
    counted.reshape(4, 128)[:, :8] += np.float16(100)
    same(read("counted.bin", np.float16), counted)


@CHECKS
def test_static_tensor(program, checks):
    x, y = normal(2, 8 * 512 * 5)
    h = normal(256, dtype=np.float16)
    read = program("static_tensor", {"x.bin": x, "y.bin": y, "h.bin": h}, *checks)
    same(read("z.bin", np.float32), x * y)
    same(read("k.bin", np.float16), h + np.float16(1.5))


@CHECKS
def test_sync_sum(program, checks):
    x = np.random.default_rng(1).integers(-9, 10, 40 * 1024).astype(np.float32)  # sums are exact
    read = program("sync_sum", {"x.bin": x}, *checks)
    same(read("hard.bin", np.float32), [x.sum()])
    same(read("soft.bin", np.float32), [x.sum()])


@CHECKS
def test_columns(program, checks):
    x = normal(20, 33)
    h = x.astype(np.float16)
    read = program("columns", {"x.bin": x, "h.bin": h}, *checks)
    inside = np.zeros(33, bool)
    inside[5:16] = True
    same(read("y.bin", np.float32).reshape(20, 33), np.where(inside, 3 * x, 0))
    same(read("z.bin", np.float16).reshape(20, 33), np.where(inside, h, 0))


@CHECKS
@pytest.mark.parametrize("tile", [64, 256])
def test_scale(program, tile, checks):
    x = normal(3333)
    h = x.astype(np.float16)
    read = program("scale", {"x.bin": x, "h.bin": h}, "-D", f"TILE_N={tile}", *checks, "--", x.size)
    same(read("a.bin", np.float32), -2 * x)
    same(read("b.bin", np.float32), np.maximum(-2 * x, 0))
    same(read("c.bin", np.float16), np.abs(2 * h))


def test_pools_that_share_their_memory_need_reset(call, tmp_path):
    """The control of buf_pool: without Reset, nothing waits for what still reads the memory."""
    text = (PROGRAMS / "buf_pool.asc").read_text("utf-8")
    assert text.count("pool1.Reset();") == 1
    (tmp_path / "buf_pool.asc").write_text(text.replace("pool1.Reset();", ""), "utf-8")
    (tmp_path / "x.bin").write_bytes(normal(2048, dtype=np.float16).tobytes())
    args = ["--json", "--check", "all", "-I", PROGRAMS, "--cwd", tmp_path]
    code, out, _ = call(tmp_path / "buf_pool.asc", *args)
    assert code == 1
    assert [f["kind"] for f in out["faults"]] == ["race"], out["faults"]


# ---- what a first mistake is answered with -----------------------------------------------------

KERNELS = """#include "kernel_operator.h"
using namespace AscendC;
template <typename T>
__aicore__ inline void work(GM_ADDR x, GM_ADDR y, uint32_t n) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> que;
    pipe.InitBuffer(que, 1, n * sizeof(T));
    GlobalTensor<T> in, out;
    in.SetGlobalBuffer((__gm__ T *)x + GetBlockIdx() * n);
    out.SetGlobalBuffer((__gm__ T *)y + GetBlockIdx() * n);
    auto t = que.template AllocTensor<T>();
    DataCopy(t, in, n);
    que.EnQue(t);
    t = que.template DeQue<T>();
    DataCopy(out, t, n);
    que.FreeTensor(t);
}
extern "C" __global__ __aicore__ void move(__gm__ float *x, GM_ADDR y, uint32_t n) {
    work<float>((GM_ADDR)x, y, n);
}
template <typename T>
__global__ __aicore__ void move_any(GM_ADDR x, GM_ADDR y, uint32_t n) {
    work<T>(x, y, n);
}
"""


@pytest.fixture
def kernel(write):
    return wb.build(write(KERNELS, "kernels.asc"), backend="twin")


def test_a_launch_does_not_leave_its_tensors_without_checks_either(kernel):
    x = torch.arange(256, dtype=torch.float32)
    y = torch.zeros(256)
    kernel.launch("move", 4, x, y, 64)
    assert (y == x).all()
    kernel.launch("move", 2, x[128:], y, 64)  # a part of a tensor is a tensor
    assert (y[:128] == x[128:]).all()
    with pytest.raises(wb.TwinFault, match=r"0 bytes past the end of the 1024 bytes of tensor 1"):
        kernel.launch("move", 5, x, y, 64)
    with pytest.raises(wb.TwinFault, match="tensor 2 of the launch"):
        kernel.launch("move", 4, x, y[:-8].clone(), 64)


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("move", lambda x: x.half(), "got a tensor of torch.float16"),
        ("move", lambda x: x.numpy(), "torch.from_numpy"),
        ("move_any<float>", lambda x: x, "move_any is a template"),
        ("space::move", lambda x: x, "plain names here: 'move'"),
    ],
)
def test_a_launch_says_what_it_wants(kernel, name, make, words):
    x = torch.zeros(64)
    with pytest.raises(wb.InputError, match=re.escape(words)):
        kernel.launch(name, 1, make(x), torch.zeros(64), 64)
    kernel.launch("move", 1, x.view(torch.int32), x, 64)  # the bits of it are no mistake


MAIN = "int main() { k<bfloat16_t><<<1, nullptr, nullptr>>>(nullptr); }\n"
TEMPLATE = """#include "kernel_operator.h"
using namespace AscendC;
template <typename T>
__global__ __aicore__ void k(GM_ADDR x) {
    TBuf<TPosition::VECCALC> buf;
    LocalTensor<T> t = buf.Get<T>();
    LINE
}
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Exp(t, t, 16);", ["main.asc:7: Exp on dav-2201 takes half, float"]),
        (
            "Add(t, t, t, 16, 3);",
            [
                "main.asc:7: no matching function",
                "there is: Add(const LocalTensor<T>&, const LocalTensor<T>&, "
                "const LocalTensor<T>&, const int32_t&)",
            ],
        ),
    ],
)
def test_an_error_in_a_template_is_shown_at_the_line_that_has_it(call, write, line, words):
    path = write(TEMPLATE.replace("LINE", line) + MAIN)
    code, out, _ = call(path, "--json")
    assert code == 1
    for each in words if shutil.which("g++") else words[:1]:
        assert each in out["error"]["message"]


def test_a_header_that_is_not_found_says_where_one_is_looked_for(call, write):
    code, out, _ = call(write('#include "none.h"\n' + TEMPLATE + MAIN), "--json")
    assert code == 1
    assert "-I (include_dirs=)" in out["error"]["message"]


def test_a_kernel_called_like_a_function_says_so(call, write):
    text = KERNELS + "int main() { move(nullptr, nullptr, 64); }\n"
    code, out, _ = call(write(text), "--json")
    assert code == 134
    assert "a TPipe outside of a launch" in out["stderr"]
