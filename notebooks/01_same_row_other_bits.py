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
# # The same row, other bits
#
# Torch's own `F.linear` and `torch.mv` can give a row other bits when its batch grows (they do with
# MKL on AVX2); the deterministic LM head gives it the same bits in every batch.
#
# A trainer and its sampler evaluate the same token in different batches. If the bits of a logit
# depend on the batch, the two disagree, and no tolerance says why. So nothing here is compared
# with a tolerance: raw bits only.
#
# The LM head is the last layer of a language model. A logit is one of its outputs: the dot product
# of a token's hidden state, a row of `hidden`, with the row of `weight` of one vocabulary entry.
#
# The kernel is written in Ascend C, for Ascend NPUs. None is needed here: the *twin* compiles the
# same source for this CPU and computes as the vendor's documents say that the NPU does.

# %% tags=["parameters"]
arch = "dav-2201"
tile_length = 4096
vocab = 257
batch_sizes = [1, 2, 3, 4, 7, 8, 16, 17, 32]
seed = 0

# %%
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.numerics import evidence, raw_bits
from workbench.plots import evidence_text, show

if not all(1 <= size <= 32 for size in batch_sizes):
    raise wb.InputError(f"batch_sizes={batch_sizes}: give sizes from 1 to 32, the rows of the data")
config = wb.KernelConfig(tile_length=tile_length, arch=arch)
kernel = wb.build("lm_head", config, backend="twin")

# Hidden states and weights of a real LM head, and a draw of the shape of a larger one. H is the
# length of a row: each logit is a sum of H products.
sample = wb.samples.smollm2()
hidden, weight = sample.hidden.flatten(0, -2)[:32], sample.weight[:vocab].float()
draw = wb.samples.qwen3(rows=32, vocab=vocab, dtype=torch.float32, seed=seed)
data = {"real, H 576": (hidden, weight), "synthetic, H 4096": (draw.hidden, draw.weight)}

here = evidence(F.linear)
# What torch's sums do is a fact of one library on one kind of CPU: shown anywhere, asserted there.
known = here.blas == "MKL" and here.cpu_capability == "AVX2"
print(f"{here.cpu}, {here.cpu_capability}; torch {here.torch_version} with {here.blas}")
print("what torch does is", "asserted here" if known else "shown, not asserted: not MKL on AVX2")

# %% [markdown]
# ## `F.linear` moves a row's logits with its batch
#
# One row, alone and then as the first of larger batches. Each vertical line is one logit; its
# colour says how far it moved from where it was when the row stood alone. Grey: no bit changed.


# %%
def moved(function, hidden, weight):
    """Row 0's logits in a batch of each size, minus those of the row alone: [sizes, V]."""
    alone = function(hidden[:1], weight)[0]
    return torch.stack([function(hidden[:n], weight)[0] - alone for n in batch_sizes]).numpy()


shifts = {f"F.linear, {name}": moved(F.linear, *tensors) for name, tensors in data.items()}
shares = {name: float((shift != 0).mean()) for name, shift in shifts.items()}
judged = {f"F.linear, {name}": wb.invariance(F.linear, *tensors) for name, tensors in data.items()}
show(
    wb.plots.batch_shift(
        shifts,
        batch_sizes,
        evidence_text(judged),
        "F.linear moves a row's logits with its batch" if any(shares.values()) else "",
    ),
    "Two heatmaps of batch size by vocabulary entry. Share of logits that moved: "
    + "; ".join(f"{name}, {share:.0%}" for name, share in shares.items()),
)

# %%
if known:
    assert not any(result.passed for result in judged.values())
    assert all(share > 0.5 for share in shares.values()), f"few logits moved in {batch_sizes}"
judged["F.linear, real, H 576"]

# %% [markdown]
# ## `torch.mv` does it too
#
# `torch.mv(matrix, vector)` chooses its order of summation by the shape of the matrix. Give it the
# batch as the matrix, and a row's logit depends on how many rows stand below it. Give it the
# weight, as references do, and the logit depends on how many vocabulary entries the shard has.
# Below are all 32 bits of one logit.


# %%
def mv_over_batch(hidden, weight):
    """Logits with the batch as `torch.mv`'s matrix: one call for each vocabulary entry."""
    rows = hidden.reshape(-1, hidden.shape[-1])
    logits = torch.stack([torch.mv(rows, entry) for entry in weight], dim=1)
    return logits.reshape(*hidden.shape[:-1], len(weight))


row, entry = draw.hidden[0], min(5, vocab - 1)
by_batch = [
    mv_over_batch(draw.hidden[:n], draw.weight[entry : entry + 1])[0, 0] for n in batch_sizes
]
# The same entry as the last of a shard of each size.
shards = [draw.weight[entry : entry + 1].expand(n, -1).contiguous() for n in batch_sizes]
by_shard = [torch.mv(shard, row)[-1] for shard in shards]
patterns = {
    "torch.mv, the batch is the matrix: rows in the batch": by_batch,
    "torch.mv, the weight is the matrix: vocabulary entries in the shard": by_shard,
}
bits = {name: raw_bits(torch.stack(values)).numpy() for name, values in patterns.items()}
writings = {name: len(set(pattern.tolist())) for name, pattern in bits.items()}
show(
    wb.plots.bit_patterns(
        bits,
        batch_sizes,
        evidence_text(evidence(mv_over_batch, draw.hidden, draw.weight)),
        "One logit, the same operands: torch.mv writes other bits into it"
        if max(writings.values()) > 1
        else "One logit, the same operands: torch.mv writes the same bits on this CPU",
        axis="size",
    ),
    "The 32 bits of one logit for each size of torch.mv's matrix. Different bit patterns: "
    + "; ".join(f"{name}, {count}" for name, count in writings.items()),
)

# %%
mv_judged = wb.invariance(mv_over_batch, hidden, weight[:64])
if known:
    assert writings["torch.mv, the batch is the matrix: rows in the batch"] > 1
    assert not mv_judged.passed
mv_judged

# %% [markdown]
# ## The kernel keeps every bit of a row in every batch
#
# Seven ways to change what stands around a row, none of which may change the row: batch size,
# position, neighbours (NaN and Inf too), padding, chunks and block counts, selection and packing,
# reuse of buffers. "=" means that every bit of every output compared was the same.
#
# All seven compare with the row computed alone. So where `F.linear` gives a row other bits in a
# batch than alone, it fails all seven alike: even T7, which only makes the same call again.

# %%
verdicts = dict(judged) | {"torch.mv, real, H 576": mv_judged}
blocks = (1, 40)  # other block counts to try, each a kernel of its own
for name, (rows, columns) in data.items():
    verdicts[f"kernel fp32, {name}"] = wb.invariance(kernel, rows, columns[:64], max_blocks=blocks)
for dtype in (torch.bfloat16, torch.float16):
    short = {torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    verdicts[f"kernel {short}, real, H 576"] = wb.invariance(
        kernel, hidden.to(dtype), weight[:64].to(dtype), max_blocks=blocks
    )
ours = {name: result for name, result in verdicts.items() if name.startswith("kernel")}
show(
    wb.plots.invariance_table(
        verdicts,
        evidence_text(verdicts),
        "The kernel keeps every bit of a row, whatever stands around it",
    ),
    "A table of callables by transform. "
    + "; ".join(
        f"{name}: {sum(t.mismatches for t in result.transforms):,} of "
        f"{sum(t.elements for t in result.transforms):,} outputs differ"
        for name, result in verdicts.items()
    ),
)

# %%
assert all(result.passed for result in ours.values())
ours["kernel fp32, real, H 576"]

# %% [markdown]
# ## A check that cannot fail proves nothing
#
# A scheduler with many cores and few rows likes to cut the sum of a row into parts: split-K. Below
# the very same kernel is called on parts of the row, and their number follows the batch. Each part
# is summed in a fixed order, and still the row's bits now depend on its neighbours.


# %%
def split_k_by_batch(hidden, weight):
    """The kernel on parts of the hidden dimension, more parts the fewer rows there are."""
    rows = hidden[..., 0].numel()
    parts = 4 if rows <= 4 else 2 if rows <= 32 else 1
    width = -(-hidden.shape[-1] // parts)
    pieces = zip(hidden.split(width, -1), weight.split(width, -1), strict=True)
    return sum(kernel(h, w) for h, w in pieces)


caught = {
    "kernel": ours["kernel fp32, real, H 576"],
    "split-K by batch": wb.invariance(split_k_by_batch, hidden, weight[:64]),
}
show(
    wb.plots.invariance_table(
        caught,
        evidence_text(caught),
        "The same check catches the same kernel once its sum is split by batch",
    ),
    "A table of the kernel and of its split-K form by transform: the kernel has no mismatch, the "
    f"split form {sum(t.mismatches for t in caught['split-K by batch'].transforms):,}",
)

# %%
assert caught["kernel"].passed
assert not caught["split-K by batch"].passed
caught["split-K by batch"]

# %% [markdown]
# ## Try it
#
# The panel builds the kernel anew for each position of its controls and calls the same
# `wb.invariance` on it, with both kinds of data. Move any of them: the line "this change" may say
# that bits changed, as the next notebook explains. The last line never says that a row's bits
# depend on its batch.

# %%
panel = wb.panel(tile_length=tile_length, arch=arch)
assert panel.result.invariance.passed, panel.result
panel

# %% [markdown]
# ## What you should have seen
#
# * `F.linear` and `torch.mv` choose an order of summation by the shape of what they are given. With
#   MKL on AVX2 a row's logits change with the batch, by up to 2e-4 at H 4096; the CPU and library
#   of this run are named below each figure.
# * The kernel reduces a row inside one block in an order that depends on the tile length and the
#   architecture alone: 0 mismatches in every transform, for three dtypes, real and synthetic.
# * The same check caught the same kernel as soon as its sum was split by the batch.
#
# The next notebook asks what does change the kernel's bits.
