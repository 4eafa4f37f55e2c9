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
# # Drift, and whose it is
#
# Most of the distance between the kernel and a reference is the reference's own error: that shows
# as soon as both stand beside the exact result.
#
# "The kernel differs from `torch.mv` by 3e-5" names two results and does not say which of them is
# off. Both are sums in fp32, in two orders, and each order has an error of its own. So every
# distance here comes with a third corner: the exact logits, from products and sums in fp64.

# %% tags=["parameters"]
arch = "dav-2201"
tile_length = 4096
tiles = [64, 128, 256, 576]
vocab = 4096
seed = 0

# %%
import numpy as np
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.numerics import evidence, raw_bits
from workbench.plots import evidence_text, show

by_tile = [wb.KernelConfig(tile_length=tile, arch=arch) for tile in tiles]
if len({wb.declared_order("lm_head", one, n=576).hash for one in by_tile}) < 2:
    raise wb.InputError(
        f"tiles={tiles} all add a row of 576 in one order on {arch} and have the same errors. Give "
        "tiles of more than one order, such as 64 and 256"
    )
config = wb.KernelConfig(tile_length=tile_length, arch=arch)
kernel = wb.build("lm_head", config, backend="twin")

# Hidden states and weights of a real LM head: 160 tokens, H 576.
sample = wb.samples.smollm2()
hidden, weight = sample.hidden.flatten(0, -2), sample.weight[:vocab].float()
H = hidden.shape[-1]
own_order = wb.declared_order("lm_head", config, n=H)

here = evidence(F.linear)
# What a library's sums do is a fact of one library on one kind of CPU: shown anywhere, asserted
# where it is known.
known = here.blas == "MKL" and here.cpu_capability in ("AVX2", "AVX512")
print(f"{here.cpu}, {here.cpu_capability}; torch {here.torch_version} with {here.blas}")

# %% [markdown]
# ## Most of the distance to a reference is the reference's own error
#
# Three references: `torch.mv` a row at a time, `F.linear` on all rows, and the plainest loop there
# is, one product after the other. The last one has the same bits on every machine. A dark panel has
# small errors; all panels share one scale.
#
# The unit is the ULP of Σ|x w|: the spacing of fp32 at the sum of the sizes of all products of that
# logit. It is a measure of how much was added, whether or not it cancelled in the end.

# %%
sequential = wb.orders.sequential_order(H)


def one_by_one(hidden, weight):
    """Every product added to the sum before it, from left to right, in fp32."""
    return wb.orders.linear(hidden, weight, sequential)


references = {"one by one": one_by_one}
drift = wb.drift(kernel, hidden, weight, ("exact", "torch.mv", "F.linear", references))
names = ("torch.mv", "F.linear", "one by one")


def share(name):
    """The reference's part of the mean square of the distance between kernel and reference."""
    theirs, ours = drift[name, "exact"].rms, drift["kernel", "exact"].rms
    return theirs**2 / (theirs**2 + ours**2)


show(
    wb.plots.drift_map(
        drift,
        pairs=[("kernel", "exact"), *((name, "exact") for name in names)],
        title=f"The error is the reference's: {share('one by one'):.0%} of the distance from the "
        f"kernel to the plain loop, {share('torch.mv'):.0%} of that to torch.mv on this CPU",
    ),
    "Heatmaps of the error of the kernel and of three references, row by vocabulary id. Largest "
    "errors in ULP: "
    + "; ".join(f"{name} {drift[name, 'exact'].max_ulp:.1f}" for name in ("kernel", *names)),
)

# %%
kernel_error, plain_error = drift["kernel", "exact"], drift["one by one", "exact"]
assert share("one by one") > 0.9
assert plain_error.rms > 3 * kernel_error.rms
assert drift["kernel", "one by one"].rms > 3 * kernel_error.rms  # the distance blames the kernel
if known:
    assert share("torch.mv") > 0.5 and share("F.linear") > 0.5
drift

# %% [markdown]
# The exact side has an error too, since sums in fp64 round as well. It is known: a bound on all
# outputs, and 64 of them compared with the correctly rounded value.

# %%
assert drift.exact.differing == drift.exact.beyond_bound == 0 and drift.exact.checked >= 64
assert 1000 * drift.exact.own_error < kernel_error.rms
drift.exact

# %% [markdown]
# ## The order makes the spread
#
# The same errors as histograms. The share of outputs is logarithmic, since tolerances meet the
# tails. Each histogram is as wide as its order is deep: the plain loop rounds a term up to
# 576 times on its way, the kernel as often as its tree is high.

# %%
pairs = [("kernel", "exact"), ("torch.mv", "exact"), ("one by one", "exact")]
show(
    wb.plots.drift_histogram(
        drift.histogram(pairs, "ulp"),
        title=f"The deeper the order, the wider the errors: the plain loop is off by up to "
        f"{plain_error.max_ulp:.0f} ULP, the kernel by {kernel_error.max_ulp:.1f}",
        names={"kernel": f"kernel (height {own_order.height})"}
        | {"one by one": f"one by one (height {sequential.height})"},
    ),
    "Histograms of signed errors in ULP. "
    + "; ".join(
        f"{a}: rms {drift[a, b].rms:.1e}, largest {drift[a, b].max_ulp:.1f} ULP" for a, b in pairs
    ),
)

# %%
# The bound that follows from an order belongs to that order. No error of the kernel is above its
# own; the plain loop, a correct sum in another order, breaks it: the control.
bounds = wb.bounds(own_order, hidden, weight)
assert bounds.violations(kernel_error.errors)["running"] == 0
assert bounds.violations(plain_error.errors)["running"] > 0
assert own_order.height < sequential.height and kernel_error.max_ulp < plain_error.max_ulp

# %% [markdown]
# ## A logit near 0 keeps few of its bits, in any order
#
# It is tempting to measure an error against the result itself. But where terms cancel, the result
# is small and the roundings on the way were not. Below is the one logit of this sample whose
# relative error is the largest. Nothing is wrong with it.

# %%
exact = kernel_error.values.sides["exact"]
in_result_ulp = kernel_error.errors / np.spacing(np.abs(exact.numpy()).astype(np.float32))
row, column = np.unravel_index(np.abs(in_result_ulp).argmax(), in_result_ulp.shape)
sides = {"exact": exact[row, column].float()}
sides |= {name: drift.values.sides[name][row, column] for name in ("kernel", "torch.mv")}
sides |= {"one by one": drift.values.sides["one by one"][row, column]}
in_ulp = float(abs(kernel_error.errors_in("ulp")[row, column]))
result_ulp = float(abs(in_result_ulp[row, column]))
show(
    wb.plots.bit_patterns(
        {
            f"logit of row {row}, id {column} = {float(exact[row, column]):.2g}": raw_bits(
                torch.stack(list(sides.values()))
            ).numpy()
        },
        list(sides),
        evidence_text(drift),
        f"The worst relative error: {result_ulp:,.0f} ULP of the logit, and {in_ulp:.2f} ULP of "
        "what was added",
        axis="computed by",
    ),
    f"The 32 bits of one logit near 0: exact, kernel, torch.mv and one by one. The kernel is "
    f"{result_ulp:,.0f} units in the last place of the result away, {in_ulp:.2f} of Σ|x w|.",
)

# %%
assert result_ulp > 100 * kernel_error.max_ulp
assert in_ulp <= kernel_error.max_ulp
assert abs(kernel_error.errors[row, column]) <= bounds.running[row, column]

# %% [markdown]
# ## In 16 bits the output's rounding hides the order
#
# With bf16 or fp16 inputs the kernel still adds in fp32, and rounds once to the output's dtype.
# That one rounding is a thousand times all the others together. So the tile length moves the fp32
# column below, and leaves the other two alone.

# %%
some = hidden[:64], weight[:1024]
table = wb.drift_over(kernel, tiles, ["fp32", "bf16", "fp16"], *some, "exact")
largest = {
    dtype: [table[tile, dtype]["kernel", "exact"].max_abs for tile in tiles]
    for dtype in table.dtypes
}
show(
    wb.plots.drift_by_tile(
        table,
        title="In 16 bits one rounding covers the order: same largest error for each tile",
    ),
    "Largest error by tile length. "
    + "; ".join(f"{d} {min(v):.2g} to {max(v):.2g}" for d, v in largest.items()),
)

# %%
spread = {dtype: max(values) - min(values) for dtype, values in largest.items()}
assert 100 * spread["fp32"] > min(largest["fp32"]), f"{tiles} have nearly one largest error"
for dtype in ("bf16", "fp16"):
    assert 100 * spread[dtype] < min(largest[dtype])
    assert min(largest[dtype]) > 1000 * max(largest["fp32"])
# A control: asked for its fp32 sums, the same 16-bit inputs show the order again.
wide = wb.drift_over(kernel, tiles, ["bf16"], *some, "exact", out_dtype=torch.float32)
sums = [wide[tile, "bf16"]["kernel", "exact"] for tile in tiles]
assert len({found.rms for found in sums}) > 1
assert all(1000 * found.max_abs < largest["bf16"][0] for found in sums)

# %% [markdown]
# ## A part that is summed otherwise shows as a step
#
# Drift can be seen by place. Suppose a vocabulary is cut in two and the second half is computed by
# another code path: correct, but in another order. One number for all ids would not say where. A
# plot over ids does. Before the cut the dots of both lie on each other.

# %%
cut = vocab // 2


def two_paths(hidden, weight):
    """The kernel for the first half of the vocabulary, the plain loop for the second."""
    return torch.cat([kernel(hidden, weight[:cut]), one_by_one(hidden, weight[cut:])], -1)


by_place = wb.drift(kernel, hidden, weight, ("exact", {"two code paths": two_paths}))


def step(name):
    """The rms error of the second half of the vocabulary over that of the first."""
    first, second = by_place.by_vocab((name, "exact"), groups=2)["rms"]
    return second / first


show(
    wb.plots.drift_by_vocab(
        by_place,
        pairs=[("kernel", "exact"), ("two code paths", "exact")],
        title="Two code paths show as a step: "
        f"{step('two code paths'):.1f} times the error from id {cut:,} on; the kernel alone "
        f"{step('kernel'):.1f} times",
    ),
    "Largest error for each vocabulary id, of the kernel and of a version with two code paths: its "
    f"errors from id {cut:,} on are {step('two code paths'):.1f} times as large.",
)

# %%
assert step("two code paths") > 3, f"a step of {step('two code paths'):.1f}: few of {vocab} ids?"
assert 0.5 < step("kernel") < 2

# %% [markdown]
# ## Try it
#
# The dashboard's table has the kernel's error and `torch.mv`'s own. Click a cell of the map, move
# in it with the arrow keys, or choose one of the outputs that drift most: the line below says how
# far each side is off there, and the tree how the error bound of that output arises. "errors of"
# puts `torch.mv`'s own errors on the map, in the same colours. Then move the tile to 256: the same
# output again, added in another order.

# %%
few = weight[:512]
view = wb.explore(hidden=hidden, weight=few, rows=len(hidden), vocab=len(few),
                  tile_length=tile_length, arch=arch, pane="drift")  # fmt: skip
ours = drift.values.sides["kernel"][:, : len(few)]
assert torch.equal(raw_bits(view.result.outputs), raw_bits(ours)), view
view

# %% [markdown]
# ## What you should have seen
#
# * A distance between two results is the error of both. With the exact logits beside it, each side
#   has its own: here most of it is the reference's.
# * Errors follow the order: the deeper the tree, the wider they spread. And each order has a bound
#   of its own.
# * A relative error says little about a logit near 0. The ULP of Σ|x w| puts all outputs on one
#   scale.
# * In 16 bits the last rounding covers the order, unless you ask for fp32 sums.
# * Errors by place show code paths: a step is another order.
#
# Distance is one question. Whether a row keeps its bits is another: the next notebook.
