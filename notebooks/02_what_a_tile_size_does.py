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
# # What a tile size does
#
# The tile length decides the order of summation, and with it the bits and the error of every logit;
# MAX_BLOCKS decides none of them.
#
# A kernel reads a row in *tiles* of TILE_LENGTH elements, which must fit into the *unified buffer*
# (UB) of a core. It computes each output in a *block*, and MAX_BLOCKS says how many blocks share
# the outputs at most. Both are build-time constants that people tune for speed. Each change below
# is a new kernel, compiled from the same source and loaded into this process in a fraction of a
# second.

# %% tags=["parameters"]
archs = ["dav-2201", "dav-3510"]
tiles = [64, 256, 1024, 2048, 4096]
max_blocks = [1, 2, 3, 7, 40, 48, 128, 256]
grid_blocks = [1, 3, 40, 128]
rows = 32
vocab = 257
seed = 0
# The claims below speak of tiles 64, 1024 and 4096 on both architectures: leave those in.

# %%
import time
from concurrent.futures import ThreadPoolExecutor

import torch

import workbench as wb
from workbench.numerics import compare_bits, evidence, fixture_id
from workbench.numerics.contract import contract
from workbench.plots import evidence_text, show

lacking = [name for name in ("dav-2201", "dav-3510") if name not in archs]
lacking += [f"tile {tile}" for tile in (64, 1024, 4096) if tile not in tiles]
if lacking:
    raise wb.InputError(
        f"archs={archs} and tiles={tiles} lack {', '.join(lacking)}, which the claims speak of; "
        "leave those in and add others"
    )


def build(arch, tile, blocks=128):
    config = wb.KernelConfig(tile_length=tile, max_blocks=blocks, arch=arch)
    return wb.build("lm_head", config, backend="twin")


wanted = [(arch, tile, 128) for arch in archs for tile in tiles]
wanted += [(archs[0], tile, blocks) for tile in tiles for blocks in grid_blocks]
wanted += [(archs[0], 1024, blocks) for blocks in max_blocks]
wanted = list(dict.fromkeys(wanted))
start = time.perf_counter()
with ThreadPoolExecutor(2) as pool:
    kernels = dict(zip(wanted, pool.map(lambda key: build(*key), wanted), strict=True))
fresh = [k.info.seconds for k in kernels.values() if not k.info.cached]
seconds = time.perf_counter() - start
print(f"{len(kernels)} kernels in {seconds:.1f} s, {len(fresh)} of them compiled just now")

# A real LM head (H 576), and a draw of the shape of a larger one (H 4096).
sample = wb.samples.smollm2()
real = sample.hidden.flatten(0, -2)[:rows], sample.weight[:vocab].float()
draw = wb.samples.qwen3(rows=rows, vocab=vocab, dtype=torch.float32, seed=seed)
synthetic = draw.hidden, draw.weight


def first(tensors, width):
    """The same rows and vocabulary with the first `width` channels only."""
    return tuple(t[:, :width].contiguous() for t in tensors)


# %% [markdown]
# ## The tile and the architecture decide the order
#
# Read from the bottom up: 4,096 products at the bottom, one logit at the top. `ReduceSum` is the
# instruction that adds up one tile; the vendor documents its order for each architecture. The
# kernel adds the tiles one after another. The height is the number of additions on the longest
# path. One colour, one order.

# %%
trees = {
    f"tile {tile}, {arch}": wb.declared_order("lm_head", kernels[arch, tile, 128].config, n=4096)
    for arch in archs
    for tile in tiles
    if tile != 2048
}
orders = len({tree.hash for tree in trees.values()})
show(
    wb.plots.orders(
        trees,
        evidence_text(note=f"declared by the source, nothing executed · {', '.join(archs)}"),
        f"{len(trees)} configurations, {orders} orders: tile and architecture decide",
    ),
    "Orders of summation drawn as trees. "
    + "; ".join(f"{name}: height {tree.height}" for name, tree in trees.items()),
)

# %%
heights = {name: tree.height for name, tree in trees.items()}
assert heights["tile 64, dav-2201"] == heights["tile 4096, dav-2201"] == 69
assert heights["tile 1024, dav-2201"] == 24 and heights["tile 4096, dav-3510"] == 12
assert trees["tile 64, dav-2201"] == trees["tile 4096, dav-2201"]
assert trees["tile 64, dav-3510"] != trees["tile 4096, dav-3510"]

# %% [markdown]
# ## Tiles of one order share every bit, and no others do
#
# Within a column (one hidden size) tiles of one letter have the same declared order; A is the class
# of the largest tile. The dot says that the bits of real outputs fall into the very same groups.

# %%
widths = {"real": (real, (192, 576)), "synthetic": (synthetic, (1024, 4096))}
declared, observed = {}, {}
for arch in archs:
    for name, (tensors, sizes) in widths.items():
        cells = [(tile, width) for tile in tiles for width in sizes]
        label = f"{arch}, {name}"
        declared[label] = {
            (tile, width): wb.declared_order(
                "lm_head", kernels[arch, tile, 128].config, n=width
            ).hash
            for tile, width in cells
        }
        # A name made of the outputs' bits: equal names, equal bits.
        observed[label] = {
            (tile, width): fixture_id(kernels[arch, tile, 128](*first(tensors, width)))
            for tile, width in cells
        }
show(
    wb.plots.bit_classes(
        declared,
        observed,
        evidence_text(
            evidence(kernels[arch, tile, 128], *first(tensors, width))
            for arch in archs
            for tile in tiles
            for tensors, sizes in widths.values()
            for width in sizes
        ),
        "Tile 64 and tile 4096 share every bit on dav-2201 at H 4096, not on dav-3510",
    ),
    "Tables of tile length by hidden size with a letter for each bit class. At H 4096 tile 64 is "
    "in the class of tile 4096 on dav-2201 and in another on dav-3510.",
)


# %%
def groups(names, width):
    """The tiles of one column, grouped by name."""
    found = {}
    for tile in tiles:
        found.setdefault(names[tile, width], set()).add(tile)
    return sorted(map(sorted, found.values()))


for label in declared:
    for width in {width for _, width in declared[label]}:
        assert groups(declared[label], width) == groups(observed[label], width), (label, width)
assert [64, 4096] in groups(observed["dav-2201, synthetic"], 4096)
assert [64] in groups(observed["dav-3510, synthetic"], 4096)

# %% [markdown]
# ## The error follows the order, so the largest tile is not always the best
#
# The largest error against an fp64 product of the same inputs. On the real head, with its short
# rows, it hardly moves although the bits do; on long rows it follows the longest path above. The
# last row is `torch.mv`, the usual reference: its own error stands there, and on the CPU named
# below the figure most of a drift measured against it is that.

# %%
drifts = {
    f"{arch}, {name}": {
        (tile, width): wb.drift(kernels[arch, tile, 128], *first(tensors, width))
        for tile in tiles
        for width in sizes
    }
    for arch in archs
    for name, (tensors, sizes) in widths.items()
}
error = {
    (arch, tile): drifts[f"{arch}, synthetic"][tile, 4096]["kernel", "exact"].max_abs
    for arch in archs
    for tile in tiles
}
reference = drifts[f"{archs[0]}, synthetic"][4096, 4096]["torch.mv", "exact"].max_abs
show(
    wb.plots.drift_heatmap(
        drifts,
        evidence_text(drifts),
        "Larger is not always better: on dav-2201 tile 1024 halves the error of 4096 at H 4096",
    ),
    "Heatmaps of the largest error against fp64, tile length by hidden size. At H 4096: "
    + "; ".join(f"{arch} tile {tile} {value:.1e}" for (arch, tile), value in error.items())
    + f"; torch.mv itself {reference:.1e}",
)

# %%
few = f"largest of only {rows} x {vocab} logits? {error}"
assert error["dav-2201", 1024] < 0.7 * error["dav-2201", 4096], few
assert error["dav-3510", 4096] < error["dav-3510", 64], few
# (The project's contract is the one file of tolerances; notebook 06 is about them.)
atol = contract().cell("forward_accuracy", "lm_head", "fp32").atol
assert all(value < atol for value in error.values())

# %% [markdown]
# ## No configuration lets the batch in
#
# Whatever the tile and the block count, a row has the same bits in every batch. The line below the
# grid is a control: the same kernel with its sum split by the batch must be caught.


# %%
def split_k_by_batch(hidden, weight):
    """The kernel on parts of the hidden dimension, more parts the fewer rows there are."""
    parts = 4 if hidden[..., 0].numel() <= 4 else 1
    width = -(-hidden.shape[-1] // parts)
    pieces = zip(hidden.split(width, -1), weight.split(width, -1), strict=True)
    return sum(kernels[archs[0], 4096, 128](h, w) for h, w in pieces)


def judge(function):
    # The block counts are the grid's columns, so none are tried inside.
    sizes = {"sizes": (1, 2, 7, 16, 33, 64, 129), "position_sizes": (17, 129)}
    return wb.invariance(function, real[0], real[1][:32], max_blocks=(), **sizes)


verdicts = {
    (tile, blocks): judge(kernels[archs[0], tile, blocks])
    for tile in tiles
    for blocks in grid_blocks
}
control = {"split-K by batch": judge(split_k_by_batch)}
show(
    wb.plots.invariance_grid(verdicts, control, evidence_text(verdicts)),
    f"A grid of tile length by MAX_BLOCKS: no mismatch in any of {len(verdicts)} configurations. "
    "Below it the control, which is caught.",
)

# %%
assert all(result.passed for result in verdicts.values())
assert not control["split-K by batch"].passed

# %% [markdown]
# ## MAX_BLOCKS changes nothing
#
# It says how many blocks share the outputs, and each output is summed inside one block. So it moves
# work about and never a bit, while the tile length changes most outputs.

# %%
reference_bits = kernels[archs[0], 4096, 128](*synthetic)
by_tile = {
    tile: compare_bits(reference_bits, kernels[archs[0], tile, 128](*synthetic)) for tile in tiles
}
default = kernels[archs[0], 1024, 128](*synthetic)
by_blocks = {
    blocks: compare_bits(default, kernels[archs[0], 1024, blocks](*synthetic))
    for blocks in max_blocks
}
used = [(archs[0], tile, 128) for tile in tiles]
used += [(archs[0], 1024, blocks) for blocks in max_blocks]
show(
    wb.plots.changed_outputs(
        by_blocks,
        by_tile,
        ("tile 1024, against MAX_BLOCKS 128", "MAX_BLOCKS 128, against tile 4096"),
        evidence_text(evidence(kernels[key], *synthetic) for key in used),
        "MAX_BLOCKS changes no bit of any output; the tile length changes most of them",
    ),
    "Two bar charts of how many outputs change bits. By MAX_BLOCKS: none. By tile length: "
    + "; ".join(f"tile {tile} {found.mismatches:,}" for tile, found in by_tile.items()),
)

# %%
assert all(found.equal for found in by_blocks.values())
assert not by_tile[1024].equal
assert by_tile[64].equal, f"archs begins with {archs[0]}; tile 64 is as tile 4096 on dav-2201 alone"
for tile in tiles:
    for blocks in grid_blocks:
        outputs = kernels[archs[0], tile, blocks](*synthetic)
        assert fixture_id(outputs) == fixture_id(kernels[archs[0], tile, 128](*synthetic))

# %% [markdown]
# ## Try it
#
# The dashboard came from tile 4096 to tile 1024. Move the tile slider to another length: the tree
# below becomes another one, and the line "this change" says how many outputs took other bits. Only
# from 64 to 4096 or back does neither happen on dav-2201, as seen above. Move MAX_BLOCKS: neither
# happens at any value. "Pin this configuration" keeps one beside the next. Under "or any
# tile" type one that does not fit into the unified buffer, 99968 for one, to see what you are told.

# %%
view = wb.explore(data="qwen3", rows=rows, vocab=vocab, arch=archs[0], pane="order")
drawn = wb.samples.qwen3(rows=rows, vocab=vocab, dtype=torch.float32)  # with the dashboard's seed
same = kernels[archs[0], 4096, 128](drawn.hidden, drawn.weight)
assert compare_bits(view.result.outputs, same).equal  # the same kernel, the same inputs
assert view.set(max_blocks=7).wait().result.change.equal, view
result = view.set(max_blocks=128, tile_length=1024).wait().result
assert not result.change.equal and result.revealed == trees[f"tile 1024, {archs[0]}"], view
view

# %% [markdown]
# ## What you should have seen
#
# * The tile length and the architecture decide the order of summation, and the order decides the
#   bits: what the source declares and what the outputs show fall into the same classes.
# * On dav-2201 tile 64 and tile 4096 add in the same order at H 4096, and share every bit. On
#   dav-3510 they do not.
# * The error follows the order. On dav-2201 neither the smallest nor the largest tile is the most
#   accurate, and `torch.mv` has a larger error than any of them on the CPU named above.
# * MAX_BLOCKS never changed a bit, and no configuration let a row's bits depend on its batch.
#
# All of it is computed by the twin: the kernel's own source, compiled for this CPU. It has not run
# on Ascend hardware.
