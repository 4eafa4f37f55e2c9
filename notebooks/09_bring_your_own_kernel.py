# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     notebook_metadata_filter: -jupytext.text_representation
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Bring your own kernel
#
# An Ascend C file written in a cell gets what the shipped kernels have: its order of summation, its
# drift, an invariance check, and a sanitizer that names the line of the cell.
#
# No Ascend software is needed. The same text compiles with bisheng for a device; here it compiles
# for this CPU and runs on the twin.

# %% tags=["parameters"]
arch = "dav-2201"
tile = 192  # between 64 and 576, the width of a row; a multiple of 64 that divides it
rows = 16
vocab = 64

# %%
import torch

import workbench as wb
from workbench.build import arch as architectures
from workbench.numerics import compare_bits, evidence
from workbench.orders import reduce_sum_order, sequential
from workbench.plots import evidence_text, show
from workbench.widgets.views import tree_view

# %load_ext workbench

sample = wb.samples.smollm2()  # hidden states and weights of a real LM head
hidden = sample.hidden.flatten(0, -2)[:rows].float()
weight = sample.weight[:vocab].float()
width = hidden.shape[1]
if tile % 64 or width % tile or not 64 < tile < width:
    fitting = [t for t in range(128, width, 64) if width % t == 0]
    raise wb.InputError(
        f"tile={tile}: the kernel takes rows of {width} in whole tiles, and 64 and {width} are "
        f"asked below anyway. Multiples of 64 between them that divide {width}: {fitting}"
    )

# %% [markdown]
# ## A cell becomes a kernel
#
# `%%ascendc NAME` builds the cell and binds the kernel to NAME. This one computes the same dot
# products as the shipped LM head, in another way: it multiplies tile by tile, adds the tiles *lane
# by lane* into an accumulator, and reduces that once at the end. `-D` gives constants, which
# `dots.rebuild(tile=…)` changes later.
#
# A core has pipes that run at once: MTE2 copies tiles in, V is the vector unit, MTE3 copies results
# out. An event such as MTE2_V makes the second pipe wait for the first.

# %% tags=["active-ipynb"]
# %%ascendc dots -D TILE={tile} --arch {arch}
# #include "kernel_operator.h"
# using namespace AscendC;
#
# template <HardEvent event>
# __aicore__ inline void Wait() {  // the second pipe of the event waits for the first
#     SetFlag<event>(0);
#     WaitFlag<event>(0);
# }
#
# // out[r, v] = the sum over h of x[r, h] * w[v, h]. A row is a multiple of TILE long.
# extern "C" __global__ __aicore__ void dots(GM_ADDR x, GM_ADDR w, GM_ADDR out, uint32_t rows,
#                                            uint32_t vocab, uint32_t width) {
#     KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
#     TPipe pipe;
#     TBuf<TPosition::VECCALC> aBuf, bBuf, accBuf, sumBuf, workBuf;
#     pipe.InitBuffer(aBuf, TILE * sizeof(float));
#     pipe.InitBuffer(bBuf, TILE * sizeof(float));
#     pipe.InitBuffer(accBuf, TILE * sizeof(float));
#     pipe.InitBuffer(sumBuf, 32);
#     pipe.InitBuffer(workBuf, TILE * sizeof(float));
#     LocalTensor<float> a = aBuf.Get<float>(), b = bBuf.Get<float>(), acc = accBuf.Get<float>();
#     LocalTensor<float> sum = sumBuf.Get<float>(), work = workBuf.Get<float>();
#     GlobalTensor<float> xs, ws, outs;
#     xs.SetGlobalBuffer((__gm__ float *)x, rows * width);
#     ws.SetGlobalBuffer((__gm__ float *)w, vocab * width);
#     outs.SetGlobalBuffer((__gm__ float *)out, rows * vocab);
#     for (uint32_t o = GetBlockIdx(); o < rows * vocab; o += GetBlockNum()) {
#         Duplicate(acc, 0.0f, TILE);
#         for (uint32_t at = 0; at < width; at += TILE) {
#             DataCopy(a, xs[o / vocab * width + at], TILE);
#             DataCopy(b, ws[o % vocab * width + at], TILE);
#             Wait<HardEvent::MTE2_V>();
#             Mul(a, a, b, TILE);
#             PipeBarrier<PIPE_V>();
#             Add(acc, acc, a, TILE);
#             Wait<HardEvent::V_MTE2>();
#         }
#         PipeBarrier<PIPE_V>();
#         ReduceSum(sum, acc, work, TILE);
#         Wait<HardEvent::V_MTE3>();
#         DataCopyPad(outs[o], sum, DataCopyExtParams{1, sizeof(float), 0, 0, 0});
#         Wait<HardEvent::MTE3_V>();
#     }
# }

# %% [markdown]
# A kernel writes into memory that it is given. Everything below takes a function of hidden [..., H]
# and weight [V, H]. `function` marks it as this kernel's, so that results name the backend.


# %%
def logits_of(kernel, blocks=8, check=None):
    """What the kernel writes, as a function: hidden [..., H], weight [V, H] -> [..., V]."""

    @kernel.function
    def dots_logits(hidden, weight):
        x, w = hidden.reshape(-1, hidden.shape[-1]).contiguous(), weight.contiguous()
        out = torch.empty(len(x), len(w))
        kernel.launch("dots", blocks, x, w, out, len(x), len(w), x.shape[1], check=check)
        return out.reshape(*hidden.shape[:-1], len(w))

    return dots_logits


def sums_of(kernel):
    """The same as a sum, for `wb.reveal`: terms [R, n] -> [R]."""

    @kernel.function
    def dots_sum(terms):
        return logits_of(kernel)(terms, torch.ones(1, terms.shape[1]))[:, 0]

    return dots_sum


own = logits_of(dots)
print(own(hidden, weight)[0, :4])
assert bool(own(hidden, weight).isfinite().all())

# %% [markdown]
# ## A slip of the pen is named by the cell's line
#
# Write `Mull` for `Mul`, and the compiler's message is at the number that the notebook shows beside
# that line (View › Show Line Numbers). `dots.edited(old, new)` builds the cell with a piece of its
# text replaced:

# %%
try:
    dots.edited("Mul(", "Mull(")
except wb.BuildError as error:
    print(error)
    named = error.line


# %%
def line_of(text):
    """The number of the line of the cell that has this text. Line 1 has the magic."""
    return next(n for n, line in enumerate(dots.cell.body.split("\n"), start=2) if text in line)


assert named == line_of("Mul(")

# %% [markdown]
# ## Its order of summation, found from its results
#
# `wb.reveal` knows nothing of the source. What it finds is what the source says: lane i adds the
# products i, i + TILE, i + 2 TILE, …; then one `ReduceSum` over the lanes. With one tile as wide as
# the row nothing is left to add lane by lane, and the order is the LM head's.

# %%
tiles = [64, tile, width]
kernels = {t: dots.rebuild(tile=t) for t in tiles}
orders = {t: wb.reveal(sums_of(kernel), n=width) for t, kernel in kernels.items()}
shipped = {
    t: wb.declared_order("lm_head", wb.KernelConfig(tile_length=t, arch=arch), n=width)
    for t in tiles
}
panels = {f"this kernel, tile {t}": tree for t, tree in orders.items()}
panels |= {f"LM head, tile {t}": tree for t, tree in shipped.items()}
show(
    wb.plots.icicles(
        panels,
        evidence_text(evidence(own), note="revealed from results; the LM head's as declared"),
        f"Adding lane by lane is another order than the LM head's, until one tile holds the row: "
        f"{len({tree.hash for tree in panels.values()})} orders",
    ),
    "Orders of summation, revealed for this kernel above and declared for the LM head below. "
    + "; ".join(f"{name}: height {tree.height}" for name, tree in panels.items()),
)


# %%
def as_written(tile):
    """The order that the source above says, built by hand."""
    lanes = [sequential(range(lane, width, tile)) for lane in range(tile)]
    method = architectures.load(arch).reduce_sum_method_count(4 * tile)
    return wb.ReductionTree.from_nested(reduce_sum_order(method, lanes))


assert all(orders[t] == as_written(t) for t in tiles)
assert orders[width] == shipped[width]
# The control: another order is told apart.
assert orders[64] != shipped[64] and orders[64] != as_written(tile)

# %% [markdown]
# ## Its drift, and whether it is within what its order allows
#
# The error against the exact logits, beside that of `torch.mv` on the same data. Each order has a
# proved bound on its error (`wb.bounds`). A control shows what the bound is good for: the same
# kernel with its last tile forgotten.

# %%
drift = wb.drift(own, hidden, weight, against=("exact", "torch.mv"))
largest = {name: drift[name, "exact"].max_ulp for name in ("kernel", "torch.mv")}
show(
    wb.plots.drift_histogram(
        drift.histogram(),
        evidence_text(drift),
        f"This kernel is off by at most {largest['kernel']:.1f} ULP of the products it sums, "
        f"torch.mv by {largest['torch.mv']:.1f}",
        names={"kernel": f"this kernel, tile {tile}"},
    ),
    "A histogram of errors against the exact logits, in ULP of the sum of |x w|. Largest: "
    + "; ".join(f"{name} {value:.2f}" for name, value in largest.items()),
)

# %%
bounds = wb.bounds(orders[tile], hidden, weight)


def violations(logits):
    return bounds.violations(logits.double().numpy() - bounds.exact)[bounds.basis]


forgetful = dots.edited("at < width;", "at + TILE < width;")
assert violations(own(hidden, weight)) == 0
assert violations(logits_of(forgetful)(hidden, weight)) > 0
bounds

# %% [markdown]
# ## A row keeps its bits in every batch
#
# Nothing in the kernel looks at how many rows there are, and so no bit of a row may depend on it.
# The control is the same kernel called on parts of the row, with the number of parts following the
# batch.


# %%
def split_k_by_batch(hidden, weight):
    """The kernel on thirds of the row where few rows are there."""
    parts = 3 if hidden[..., 0].numel() <= 4 else 1
    pieces = zip(hidden.chunk(parts, -1), weight.chunk(parts, -1), strict=True)
    return sum(logits_of(kernels[64])(h, w) for h, w in pieces)


some = hidden[:8], weight[:32]
verdicts = {
    f"this kernel, tile {t}": wb.invariance(logits_of(kernel), *some)
    for t, kernel in kernels.items()
}
verdicts["split-K by batch"] = wb.invariance(split_k_by_batch, *some)
kept = [name for name, result in verdicts.items() if result.passed]
show(
    wb.plots.invariance_table(
        verdicts,
        evidence_text(verdicts),
        f"{len(kept)} tiles of this kernel keep every bit of a row; split by batch it does not",
    ),
    "A table of kernels by transform. "
    + "; ".join(
        f"{name}: {sum(t.mismatches for t in result.transforms):,} outputs differ"
        for name, result in verdicts.items()
    ),
)

# %%
assert kept == [f"this kernel, tile {t}" for t in tiles]
assert not verdicts["split-K by batch"].passed
# Nor may the number of blocks decide a bit.
assert all(
    compare_bits(own(hidden, weight), logits_of(dots, blocks)(hidden, weight)).equal
    for blocks in (1, 3, 40)
)

# %% [markdown]
# ## Right results, and wrong all the same
#
# The twin runs instructions in the order of the text, a device does not: its pipes run at once, and
# only flags and barriers hold them. So a kernel without a flag may give the right bits here and
# something else there. The checks look at what must hold on any device. Five mistakes, one at a
# time, each launched with and without the checks:

# %%
mistakes = {  # letter: (a line, what stands there instead)
    "A": ("Wait<HardEvent::MTE2_V>();", ""),
    "B": ("Duplicate(acc, 0.0f, TILE);", ""),
    "C": ("DataCopy(b, ws[o % vocab * width + at], TILE);", "DataCopy(b, ws[0], 2 * TILE);"),
    "D": ("Wait<HardEvent::V_MTE3>();", ""),
    "E": ("Wait<HardEvent::MTE3_V>();", "WaitFlag<HardEvent::MTE3_V>(0);"),
}
right, faults, unseen = own(hidden, weight), {}, []
for letter, (line, instead) in mistakes.items():
    careless = dots.edited(line, instead)
    try:
        if compare_bits(right, logits_of(careless)(hidden, weight)).equal:
            unseen.append(letter)
    except wb.TwinFault:
        pass  # it shows without the checks
    try:
        logits_of(careless, check="all")(hidden, weight)
    except wb.TwinFault as fault:
        faults[letter] = fault
        print(f"{letter}: {fault}\n")

# %%
logits_of(dots, check="all")(hidden, weight)  # the control: the sound kernel has no fault
changed = {letter: line_of(line) for letter, (line, _) in mistakes.items()}
show(
    wb.plots.source_lines(
        dots.cell.text,
        {fault.line: f"{letter}, {fault.kind}: {fault.what}" for letter, fault in faults.items()},
        {line: f"{letter} changed" for letter, line in changed.items()},
        evidence_text(evidence(own, hidden, weight), note="checked mode, one mistake at a time"),
        f"{len(faults)} of {len(mistakes)} mistakes are named at a line; "
        f"{len(unseen)} of them leave every bit right on the twin",
        first=line_of("for (uint32_t o"),
    ),
    "The kernel's loop as a listing. "
    + "; ".join(
        f"mistake {letter} in line {changed[letter]} gives a {fault.kind} fault "
        f"at line {fault.line}"
        for letter, fault in faults.items()
    ),
)

# %%
assert [*faults] == [*mistakes], "a mistake was not caught"
assert {fault.kind for fault in faults.values()} == {"race", "init", "mem", "sync"}
assert unseen, "a mistake that leaves the bits right is what the checks are for"
named = {letter: fault.line for letter, fault in faults.items()}
at_fault = {"A": "Mul(", "B": "Add(", "C": "DataCopy(b", "D": "DataCopyPad(", "E": "MTE3_V>"}
assert named == {letter: line_of(text) for letter, text in at_fault.items()}

# %% [markdown]
# ## Try it
#
# The order that was found, to move about in: hover or use the arrow keys, zoom, fold. Each sum
# shows its share of the error bound on the real row below. Change the cell above, run it again, and
# run this one: `dots` is rebuilt in a fraction of a second.

# %%
order = wb.reveal(sums_of(dots), n=width)
view = tree_view(
    order,
    shipped[tile],
    terms=hidden[0] * weight[0],
    label=f"this kernel, tile {tile}",
    other_label=f"LM head, tile {tile}",
    evidence=evidence_text(evidence(own, hidden[:1], weight[:1])),
)
assert order == orders[tile]
view

# %% [markdown]
# ## What you should have seen
#
# * A cell of Ascend C became a kernel in the running process, and a compiler message stood at the
#   line that the notebook shows.
# * Its order was found from its results alone and is the one that the source says. It is not the LM
#   head's, until one tile holds the row.
# * Its errors are within the bound of its order. A forgotten tile is not.
# * A row keeps its bits in every batch, for every tile and block count; split by batch it does not.
# * Mistakes that leave every bit right on this CPU are still named, at the line of the cell: a
#   missing flag is a missing flag, whatever comes out.
#
# All of it ran on the twin. What a device does with the same file is the next notebook's subject.
