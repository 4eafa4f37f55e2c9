"""Ascend C that adds in a given order, where the order is regular: written, built and launched."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workbench._result import Result
from workbench.build import arch as architectures
from workbench.build import cache, includes
from workbench.build.config import KernelConfig
from workbench.errors import InputError, WorkbenchError
from workbench.orders.declared import lm_head_order
from workbench.orders.dot import fused_mask, operands
from workbench.orders.synthesise.regular import Lanes, lanes_of
from workbench.orders.tree import ReductionTree

REPEAT = 64  # fp32 elements in a repeat of a vector instruction
DATA_BLOCK = 8  # fp32 elements in a data block
MOST_REPEATS = 255  # of one instruction
CHUNK = 8192  # fp32 elements of a row in UB at a time; a longer tile is taken whole
MOST_BURSTS = 4095  # of one copy
MOST_BLOCKS = 48  # of a launch: the vector cores of the largest A2/A3


class SynthesisError(WorkbenchError):
    """An order that no kernel of the wanted kind can be generated for.

    Attributes:
        reason: What is irregular, in words.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class AscendKernel(Result):
    """A dot product in Ascend C in one order, built for a backend. Made by `synthesise`.

    Call it as a `HostKernel`: (weight [R, n], x [n]) for [R], or (hidden [N, n], weight [V, n])
    for [N, V], fp32.

    Attributes:
        name: Name of the kernel in the source.
        tree, zero_start: The order it adds in.
        form: "lanes" (vector additions in steps, then scalars), "scalar" (one term after another)
            or "ReduceSum" (the architecture's own reduction, tile by tile).
        what: The order in words.
        source: The generated Ascend C; `path` is the file it lies in.
        kernel: The `Kernel` that `workbench.build` made of it.
    """

    name: str
    tree: ReductionTree = field(metadata={"json": False})
    zero_start: bool
    form: str
    what: str
    arch: str
    source: str = field(repr=False, metadata={"json": False})
    path: str
    kernel: Any = field(repr=False, metadata={"json": False})

    def __call__(self, a: Any, b: Any) -> Any:
        import torch

        rows, vector, vectors = operands(self.tree.leaves, a, b)
        device = "npu" if self.kernel.info.backend == "npu" else "cpu"
        hidden, weight = (
            torch.from_numpy(np.array(t, np.float32, order="C")).to(device) for t in (rows, vectors)
        )
        out = torch.empty(len(rows), len(vectors), device=device)
        if out.numel():
            blocks = min(out.numel(), MOST_BLOCKS)
            self.kernel.launch(self.name, blocks, hidden, weight, out, len(rows), len(vectors))
        out = out.cpu() if vector.ndim == 2 else out.cpu()[:, 0]
        return out if hasattr(a, "detach") else out.numpy()

    def to_dict(self) -> dict[str, Any]:
        order = {"tree": self.tree.hash, "n": self.tree.leaves}
        return super().to_dict() | order | {"backend": self.kernel.info.backend}

    def title(self) -> str:
        return f"{self.name}: an Ascend C kernel for one order"


def ascend_kernel(
    tree: ReductionTree,
    fused: Any = None,
    zero_start: bool = False,
    name: str = "dot_in_order",
    arch: str = "dav-2201",
    path: str | os.PathLike[str] | None = None,
    backend: str = "auto",
) -> AscendKernel:
    """Write, build and load the kernel; see `synthesise`."""
    from workbench.build.builder import build

    source, form, what = ascend_source(tree, fused, zero_start, name, arch)
    file = Path(path) if path is not None else _place(source)
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file() or file.read_text("utf-8") != source:
        fresh = file.with_name(f".{file.name}.{os.getpid()}")
        fresh.write_text(source, "utf-8")
        os.replace(fresh, file)
    kernel = build(file, KernelConfig(arch=arch), backend)
    return AscendKernel(name, tree, zero_start, form, what, arch, source, str(file), kernel)


def _place(source: str) -> Path:
    return cache.root() / "synthesised" / f"{includes.digest(source.encode())[:16]}.asc"


def ascend_source(
    tree: ReductionTree,
    fused: Any = None,
    zero_start: bool = False,
    name: str = "dot_in_order",
    arch: str = "dav-2201",
) -> tuple[str, str, str]:
    """(Ascend C source, form, the order in words) of the kernel for this order.

    Raises:
        SynthesisError: The order is not regular, or has fused products.
        InputError: A name that is none in C++, or no term.
    """
    if not name.isidentifier() or not name.isascii():
        raise InputError(f"name={name!r}: a kernel's name is a C++ identifier, as dot_in_order")
    if fused_mask(tree, fused).any():
        raise SynthesisError(
            "some products of this order are fused into their sum. That MulAddDst rounds once is "
            "documented for dav-3510 only, so no Ascend C is generated for fused products; "
            'kind="host" takes them',
            "fused products",
        )
    on = architectures.load(arch)
    if not tree.leaves:
        raise InputError("this order adds no term; there is nothing to generate a kernel for")
    lanes, why = lanes_of(tree)
    if lanes is not None and lanes.width <= CHUNK:
        form = "scalar" if lanes.width == 1 else "lanes"
        body = _one_lane(lanes) if lanes.width == 1 else _lanes(lanes)
        return _file(tree, name, str(lanes), body, zero_start), form, str(lanes)
    tiles = reduce_sum_tiles(tree, on)
    if tiles is not None:
        tile, repeats = tiles
        what = f"tiles of {tile} terms, each one ReduceSum ({'repeats' if repeats else 'count'})"
        body = _tiles(tree.leaves, tile, repeats)
        source = _file(tree, name, what, body, zero_start, room=max(CHUNK, tile))
        return source, "ReduceSum", what
    raise SynthesisError(
        f"the order {tree.hash} over {tree.leaves} terms is not regular: {why}; nor is it that of "
        f"ReduceSum on {arch}, tile by tile, for any tile length. "
        'kind="host" takes any order of pairs',
        why,
    )


def reduce_sum_tiles(tree: ReductionTree, arch: Any) -> tuple[int, bool] | None:
    """(tile length, whether by the form with repeats) of the ReduceSum that adds in this order."""
    n = tree.leaves
    # The root adds the last tile to all before it, so where that one starts can be read off.
    below = tree.children[tree.offsets[-2] :] if n > 1 else np.zeros(1, np.int64)
    last = int(tree._layout.least[below].max())
    for tile in range(REPEAT, n + REPEAT, REPEAT):
        if tile * 3 * 4 > arch.ub_bytes:
            break
        start = (n - 1) // tile * tile
        if start not in (0, last):
            continue
        if lm_head_order(n, tile, arch) == tree:
            return tile, False
        # The form with repeats is method 2 everywhere; it is used for whole repeats only.
        repeats = n % REPEAT == 0 and tile <= MOST_REPEATS * REPEAT
        if repeats and lm_head_order(n, tile, None, 2) == tree:
            return tile, True
    return None


# ---- source --------------------------------------------------------------------------------------


def _file(
    tree: ReductionTree, name: str, what: str, body: str, zero_start: bool, room: int = CHUNK
) -> str:
    zero = "sum + 0.0f" if zero_start else "sum"
    terms = f"{tree.leaves} terms each"
    return f"""// Generated by workbench: out[i, j] = sum_k hidden[i, k] * weight[j, k], {terms}.
//
// The order of summation, all of it in fp32, is the tree {tree.hash}:
// {what}.
// Each product is rounded. A block takes the outputs b, b + B, b + 2 B, … and sums each alone.
#include "kernel_operator.h"

namespace in_order {{

using namespace AscendC;

constexpr uint32_t kTerms = {tree.leaves};
constexpr uint32_t kRoom = {room};  // fp32 elements of each row in UB at a time

// `count` elements from GM; bursts of `burst` elements, each from a data block of its own on.
__aicore__ inline void Load(const LocalTensor<float> &to, const GlobalTensor<float> &from,
                            uint32_t offset, uint32_t bursts, uint32_t burst) {{
    const DataCopyExtParams params{{static_cast<uint16_t>(bursts),
                                   static_cast<uint32_t>(burst * sizeof(float)), 0, 0, 0}};
    DataCopyPadExtParams<float> pad;
    pad.isPad = false;
    pad.leftPadding = 0;
    pad.rightPadding = 0;
    DataCopyPad(to, from[offset], params, pad);
}}

class Dot {{
  public:
    __aicore__ inline Dot() {{}}

    __aicore__ inline void Init(GM_ADDR out, uint64_t outputs, TPipe *pipe) {{
        out_.SetGlobalBuffer((__gm__ float *)out, outputs);
        pipe->InitBuffer(hiddenBuf_, kRoom * sizeof(float));
        pipe->InitBuffer(weightBuf_, kRoom * sizeof(float));
        pipe->InitBuffer(sumBuf_, kSumRoom * sizeof(float));
        pipe->InitBuffer(workBuf_, kWorkRoom * sizeof(float));
        a_ = hiddenBuf_.Get<float>();
        b_ = weightBuf_.Get<float>();
        s_ = sumBuf_.Get<float>();
    }}

    // out[i] = the product of two rows.
    __aicore__ inline void Process(GM_ADDR hidden, GM_ADDR weight, uint64_t i) {{
        hidden_.SetGlobalBuffer((__gm__ float *)hidden, kTerms);
        weight_.SetGlobalBuffer((__gm__ float *)weight, kTerms);
        const float sum = Sum();
        Ready<HardEvent::S_V>();
        Duplicate(s_, {zero}, 1);
        Ready<HardEvent::V_MTE3>();
        DataCopyPad(out_[i], s_, DataCopyExtParams{{1, sizeof(float), 0, 0, 0}});
        Ready<HardEvent::MTE3_V>();
        Ready<HardEvent::MTE3_S>();
    }}

  private:
    template <HardEvent kEvent>
    __aicore__ inline void Ready() {{
        const auto id = GetTPipePtr()->FetchEventID(kEvent);
        SetFlag<kEvent>(id);
        WaitFlag<kEvent>(id);
    }}

    // a_ = the products of `bursts` times `burst` terms from `first` on. Their scalar and vector
    // readers have finished when the next ones are copied.
    __aicore__ inline void Products(uint32_t first, uint32_t bursts, uint32_t burst) {{
        Ready<HardEvent::V_MTE2>();
        Ready<HardEvent::S_MTE2>();
        Load(a_, hidden_, first, bursts, burst);
        Load(b_, weight_, first, bursts, burst);
        Ready<HardEvent::MTE2_V>();
        const uint32_t pitch = (burst + 7) / 8 * 8;  // a burst starts a data block
        Mul(a_, a_, b_, static_cast<int32_t>((bursts - 1) * pitch + burst));
        PipeBarrier<PIPE_V>();
        Ready<HardEvent::V_S>();
    }}

{body}
    GlobalTensor<float> hidden_;
    GlobalTensor<float> weight_;
    GlobalTensor<float> out_;
    TBuf<TPosition::VECCALC> hiddenBuf_;
    TBuf<TPosition::VECCALC> weightBuf_;
    TBuf<TPosition::VECCALC> sumBuf_;
    TBuf<TPosition::VECCALC> workBuf_;
    LocalTensor<float> a_;
    LocalTensor<float> b_;
    LocalTensor<float> s_;
}};

}}  // namespace in_order

// hidden [rows, {tree.leaves}], weight [vocab, {tree.leaves}], out [rows, vocab], fp32, contiguous.
extern "C" __global__ __aicore__ void {name}(GM_ADDR hidden, GM_ADDR weight, GM_ADDR out,
                                             uint32_t rows, uint32_t vocab) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    AscendC::TPipe pipe;
    in_order::Dot dot;
    const uint64_t outputs = static_cast<uint64_t>(rows) * vocab;
    constexpr uint64_t kRow = in_order::kTerms * sizeof(float);
    dot.Init(out, outputs, &pipe);
    for (uint64_t i = AscendC::GetBlockIdx(); i < outputs; i += AscendC::GetBlockNum()) {{
        dot.Process(hidden + i / vocab * kRow, weight + i % vocab * kRow, i);
    }}
}}
"""


def _rooms(sums: int, work: int) -> str:
    return f"""    static constexpr uint32_t kSumRoom = {-(-sums // DATA_BLOCK) * DATA_BLOCK};
    static constexpr uint32_t kWorkRoom = {-(-work // DATA_BLOCK) * DATA_BLOCK};
"""


def _tiles(n: int, tile: int, repeats: bool) -> str:
    how = f"{REPEAT}, static_cast<int32_t>(count / {REPEAT}), 8" if repeats else (
        "static_cast<int32_t>(count)"
    )  # fmt: skip
    return f"""    __aicore__ inline float Sum() {{
        float sum = 0.0f;
        for (uint32_t begin = 0; begin < kTerms; begin += {tile}) {{
            const uint32_t count = kTerms - begin < {tile} ? kTerms - begin : {tile};
            Products(begin, 1, count);
            Ready<HardEvent::S_V>();
            ReduceSum(s_, a_, workBuf_.Get<float>(), {how});
            Ready<HardEvent::V_S>();
            sum = begin == 0 ? s_.GetValue(0) : sum + s_.GetValue(0);
        }}
        return sum;
    }}

{_rooms(1, tile // REPEAT)}"""


def _lanes(lanes: Lanes) -> str:
    width, start, end = lanes.width, lanes.start, lanes.start + lanes.width * lanes.blocks
    lines = _edges(start, end, len(lanes.mask))
    lines.append(f"Products({start}, 1, {width});")
    for number, lane in enumerate(lanes.lanes):
        chain = [*(f"p{i}" for i in lane.before), f"a_.GetValue({number})"]
        lines.append(f"s_.SetValue({number}, {' + '.join(chain)});")
    lines.append("Ready<HardEvent::S_V>();")
    # Blocks of whole data blocks are copied as one burst; others as a burst each, padded.
    pitch = -(-width // DATA_BLOCK) * DATA_BLOCK
    most = min(CHUNK // pitch, MOST_BURSTS)
    shape = f"1, count * {width}" if pitch == width else f"count, {width}"
    lines += [
        f"for (uint32_t block = 1; block < {lanes.blocks}; block += {most}) {{",
        f"    const uint32_t left = {lanes.blocks} - block;",
        f"    const uint32_t count = left < {most} ? left : {most};",
        f"    Products({start} + block * {width}, {shape});",
        "    for (uint32_t i = 0; i < count; ++i) {",
        f"        Add(s_, s_, a_[i * {pitch}], {width});",
        "        PipeBarrier<PIPE_V>();",
        "    }",
        "}",
        "Ready<HardEvent::V_S>();",
    ]
    for number, lane in enumerate(lanes.lanes):
        chain = [f"s_.GetValue({number})", *(f"p{i}" for i in lane.after)]
        lines.append(f"const float l{number} = {' + '.join(chain)};")
    lines.append(f"return {lanes.combined(lines, _edge_sum)};")
    return _sum_function(lines) + _rooms(width, DATA_BLOCK)


def _edge_sum(term: int, to: str) -> str:
    return f"{to} + p{term}" if to else f"p{term}"


def _one_lane(lanes: Lanes) -> str:
    """Every term is added to the sum before it; the scalar unit does that."""
    (lane,) = lanes.lanes
    start, end = lanes.start, lanes.start + lanes.blocks
    lines = _edges(start, end, len(lanes.mask))
    head = " + ".join(f"p{i}" for i in lane.before)
    lines += [
        f"float sum = {head or '0.0f'};",
        f"for (uint32_t begin = {start}; begin < {end}; begin += kRoom) {{",
        f"    const uint32_t count = {end} - begin < kRoom ? {end} - begin : kRoom;",
        "    Products(begin, 1, count);",
        "    for (uint32_t i = 0; i < count; ++i) {",
        "        const float product = a_.GetValue(i);",
        # A sum that starts with its first product keeps the sign of a sum of -0.
        "        sum = sum + product;"
        if head
        else f"        sum = begin + i == {start} ? product : sum + product;",
        "    }",
        "}",
        f"return {' + '.join(['sum', *(f'p{i}' for i in lane.after)])};",
    ]
    return _sum_function(lines) + _rooms(1, DATA_BLOCK)


def _edges(start: int, end: int, n: int) -> list[str]:
    """Lines that read the products outside of the regular part [start, end): p0, p1, …"""
    lines = []
    for first, last in ((0, start), (end, n)):
        if first < last:
            lines.append(f"Products({first}, 1, {last - first});")
            lines += [f"const float p{i} = a_.GetValue({i - first});" for i in range(first, last)]
    return lines


def _sum_function(lines: list[str]) -> str:
    body = "\n".join(f"        {line}" for line in lines)
    return f"    __aicore__ inline float Sum() {{\n{body}\n    }}\n\n"
