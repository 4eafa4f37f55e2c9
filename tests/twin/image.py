"""One instruction at a time on an image of UB: what the tests of data movement are written in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import workbench as wb

SIZE = 65536  # bytes of the image: as much of GM, all of it in UB
WORDS = 16  # of z, where a line puts what an instruction returns

HEAD = """#include "kernel_operator.h"
using namespace AscendC;
template <typename T> LocalTensor<T> At(const LocalTensor<uint8_t> &all, uint32_t offset) {
    return all[offset].template ReinterpretCast<T>();
}
#define UB(type, offset) At<type>(all, offset)
#define GM(type, offset) Global<type>(g, offset)
template <typename T> GlobalTensor<T> Global(GM_ADDR g, uint32_t offset) {
    GlobalTensor<T> t;
    t.SetGlobalBuffer((__gm__ T *)(g + offset));
    return t;
}
"""
# x: the image; y: the image afterwards; g: GM that the line may use; z: what it returns.
KERNEL = f"""
extern "C" __global__ __aicore__ void NAME(GM_ADDR x, GM_ADDR y, GM_ADDR g, GM_ADDR z) {{
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, {SIZE});
    LocalTensor<uint8_t> all = buf.Get<uint8_t>();
    __gm__ uint64_t *out = (__gm__ uint64_t *)z;
    (void)out; (void)g;
    DataCopyPad(all, Global<uint8_t>(x, 0), DataCopyExtParams(1, {SIZE}, 0, 0, 0),
                DataCopyPadExtParams<uint8_t>());
    PipeBarrier<PIPE_ALL>();
    LINE
    PipeBarrier<PIPE_ALL>();
    SetAtomicNone();
    DataCopyPad(Global<uint8_t>(y, 0), all, DataCopyExtParams(1, {SIZE}, 0, 0, 0));
}}
"""
# Without DataCopyPad: dav-1001 and dav-2002.
OLD = {
    KERNEL[KERNEL.index("DataCopyPad(all") : KERNEL.index("    PipeBarrier")]: (
        f"DataCopy(all, Global<uint8_t>(x, 0), {SIZE}u);\n"
    ),
    KERNEL[KERNEL.index("DataCopyPad(Global") : KERNEL.index("}\n")]: (
        f"DataCopy(Global<uint8_t>(y, 0), all, {SIZE}u);\n"
    ),
}


class Lines:
    """Kernels of one file, each around one line of Ascend C.

    Each runs twice, in the fast mode and under every check, and must leave the same bytes; those
    named in `unchecked`, which a check objects to, run once.
    """

    def __init__(self, folder: Path, lines: dict[str, str], arch: str = "dav-2201", unchecked=()):
        self.unchecked = frozenset(unchecked)
        text = HEAD
        self.names = {name: f"k{i}" for i, name in enumerate(lines)}
        for name, line in lines.items():
            kernel = KERNEL
            if arch in ("dav-1001", "dav-2002"):
                for new, old in OLD.items():
                    assert new in kernel
                    kernel = kernel.replace(new, old)
            text += kernel.replace("NAME", self.names[name]).replace("LINE", line)
        path = folder / f"lines_{arch}.asc"
        path.write_text(text)
        self.kernel = wb.build(path, wb.KernelConfig(arch=arch), backend="twin")

    def __call__(self, name: str, image: np.ndarray, gm: np.ndarray | None = None, **options):
        """(image, gm, z) after the line; the arguments stay as they are."""
        fast = self._launch(name, image, gm, **options)
        if "check" not in options and name not in self.unchecked:
            checked = self._launch(name, image, gm, check=True, **options)
            for a, b in zip(fast, checked, strict=True):
                assert np.array_equal(a, b), f"{name}: the checked mode gives other bits"
        return fast

    def _launch(self, name: str, image: np.ndarray, gm: np.ndarray | None, **options):
        x = torch.from_numpy(image.copy())
        y = torch.zeros(SIZE, dtype=torch.uint8)
        g = torch.from_numpy(np.zeros(SIZE, np.uint8) if gm is None else gm.copy())
        z = torch.zeros(WORDS, dtype=torch.int64)
        blocks = options.pop("blocks", 1)
        self.kernel.launch(self.names[name], blocks, x, y, g, z, **options)
        return y.numpy(), g.numpy(), z.numpy()


def random_image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, SIZE, dtype=np.uint8)


def put(image: np.ndarray, offset: int, values: np.ndarray) -> np.ndarray:
    """A copy of the image with the bytes of `values` at `offset`."""
    image = image.copy()
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    image[offset : offset + raw.size] = raw
    return image


def get(image: np.ndarray, offset: int, dtype, count: int) -> np.ndarray:
    size = np.dtype(dtype).itemsize * count
    return image[offset : offset + size].view(dtype).copy()


def assert_only(before: np.ndarray, after: np.ndarray, changes: dict[int, np.ndarray]) -> None:
    """`after` is `before` with these arrays at these byte offsets, and nothing else."""
    want = before
    for offset, values in changes.items():
        want = put(want, offset, np.asarray(values))
    wrong = np.flatnonzero(want != after)
    assert wrong.size == 0, (
        f"{wrong.size} bytes differ, first at {wrong[0]}: {after[wrong[0]]:#x}, "
        f"wanted {want[wrong[0]]:#x}"
    )
