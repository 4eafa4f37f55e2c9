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
# # The order, revealed
#
# The order in which a binary adds can be found from its results alone: so what a source declares
# can be checked, and what nobody declared can be seen.
#
# Floating point addition is not associative: `(a + b) + c` and `a + (b + c)` may differ in their
# last bits. A sum of 4,096 terms is 4,095 additions, and some tree says which two numbers each of
# them adds. Know the tree, and you know every bit of the result. But few sources tell it, and no
# library promises one.

# %% tags=["parameters"]
archs = ["dav-2201", "dav-3510"]
tiles = [64, 256, 1024, 4096]
max_blocks = [1, 128]
n = 4096
seed = 0

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F

import workbench as wb
from workbench import paths
from workbench.numerics import compare_bits, evidence
from workbench.numerics.contract import contract
from workbench.plots import evidence_text, show

configs = [wb.KernelConfig(tile_length=tile, arch=arch) for arch in archs for tile in tiles]
declared = {config: wb.declared_order("lm_head", config, n=n) for config in configs}
if len({tree.hash for tree in declared.values()}) < 2:
    raise wb.InputError(
        f"tiles={tiles} on {', '.join(archs)} all add {n:,} terms in one order: there is nothing "
        "to tell apart. Add a tile of another order, such as 64 or 256, or more terms"
    )
if tiles[0] >= 576:
    raise wb.InputError(
        f"tiles begins with {tiles[0]}, which holds a whole row of 576; the edited kernel below "
        "takes its tiles backwards, so put one first of which a row has several, such as 64"
    )
kernels = {config: wb.build("lm_head", config, backend="twin") for config in configs}
kernel = kernels[configs[0]]

here = evidence(F.linear)
# What a library's sums do is a fact of one library on one kind of CPU: shown anywhere, asserted
# there.
known = here.blas == "MKL" and here.cpu_capability in ("AVX2", "AVX512")
print(f"{here.cpu}, {here.cpu_capability}; torch {here.torch_version} with {here.blas}")


def name_of(config):
    return f"tile {config.tile_length}, {config.arch}"


# %% [markdown]
# ## A probe tells where two terms meet
#
# Take a sum of ones. Put a huge number M in place of one of them, and -M in place of another. A one
# that is added to M is lost: M + 1 rounds to M. Where M and -M meet they cancel, and whatever comes
# later counts. So the result is the number of ones that come later, and
#
# > `n - result` = how many terms are in the first partial sum that holds both.
#
# For example four terms, added as `(a + b) + (c + d)`. M at a and -M at b: c and d count, the
# result is 2, so a and b share a sum of 2. M at a and -M at c: b is lost in M, d in -M, the result
# is 0, so a and c first meet in a sum of all 4.
#
# Below, every pair of 200 terms is asked. A dark pair meets early, a light one in the last
# addition. A block on the diagonal is a run of terms summed on its own. A stripe beside it pairs
# terms that lie far apart.

# %%
few = 200
M = 2.0**127  # in fp32, M + 1 rounds to M


def kernel_sums(terms):
    """The kernel as a sum: one logit per row, with a weight of ones. [R, n] -> [R]"""
    return kernel(terms, torch.ones(1, terms.shape[1]))[:, 0]


def meetings(sums):
    """For each pair: how many terms are in the first partial sum that holds both. [few, few]"""
    i, j = torch.triu_indices(few, few, 1)
    probes, probe = torch.ones(len(i), few), torch.arange(len(i))
    probes[probe, i], probes[probe, j] = M, -M
    found = torch.ones(few, few, dtype=torch.int64)
    found[i, j] = found[j, i] = few - sums(probes).long()
    return found.numpy()


own = f"kernel, tile {kernel.config.tile_length}"
asked = {own: kernel} | {name: name for name in ("torch.cumsum", "numpy.sum", "torch.mv")}
small = {}
for name, target in asked.items():
    try:
        small[name] = wb.reveal(target, n=few)
    except wb.RevealError as error:  # a library of another machine may add by no fixed tree
        print(f"{name}: {error.reason}")
show(
    wb.plots.order_matrix(
        small,
        evidence=evidence_text(tree.report.evidence for tree in small.values()),
        title=f"{len(small)} sums of the same {few} terms, "
        f"{len({tree.hash for tree in small.values()})} orders: dark pairs meet early",
    ),
    "Matrices of term by term, coloured by the size of the first partial sum that holds both. "
    + "; ".join(f"{name}: height {tree.height}" for name, tree in small.items()),
)

# %%
by_hand = meetings(kernel_sums)
assert np.array_equal(by_hand, small[own].lca_matrix())
# A control: the same probes do not fit a sum from left to right.
assert not np.array_equal(by_hand, wb.orders.sequential_order(few).lca_matrix())

# %% [markdown]
# All pairs of 4,096 terms would be 8 million probes. `wb.reveal` asks only what it does not know
# yet, many probes in a call. Then it confirms what it found: with other large values, and by adding
# random terms along the tree, which must give the function's own bits.

# %%
small[own].report

# %% [markdown]
# ## Every kernel adds as its source declares
#
# There are two trees for each configuration. One is *declared*: written down from the source and
# from the vendor's description of `ReduceSum`; nothing is run. The other is *revealed* from the
# compiled binary. All are compared, and some are drawn, declared on the left, revealed on the
# right.
#
# The bar on top is the result; below each sum stand the parts it adds. How far a column hangs down
# is how often that term is rounded. The grey strip says which terms they are: an order that takes
# them in turn makes one ramp from light to dark. One colour over two panels: one tree.

# %%
revealed = {config: wb.reveal(kernels[config], n=n) for config in configs}
shown = [config for config in configs if config.tile_length in (tiles[0], tiles[-2:][0])]
panels = {}
for config in shown:
    panels[f"declared: {name_of(config)}"] = declared[config]
    panels[f"revealed: {name_of(config)}"] = revealed[config]
agree = sum(revealed[config] == declared[config] for config in configs)
show(
    wb.plots.icicles(
        panels,
        evidence_text(tree.report.evidence for tree in revealed.values()),
        f"{agree} of {len(configs)} binaries add in exactly the order that their source declares",
        columns=2,
        high=2.9,
    ),
    f"Declared orders on the left, revealed ones on the right, for {len(shown)} of {len(configs)} "
    f"configurations. {agree} of {len(configs)} are equal: "
    + "; ".join(f"{name_of(config)}, height {revealed[config].height}" for config in configs),
)

# %%
assert agree == len(configs)
assert all(tree.report.arithmetic == "fp32 sums" for tree in revealed.values())
# A control: trees of different configurations can be told apart.
assert len({tree.hash for tree in revealed.values()}) > 1

# %% [markdown]
# ## Libraries have an order too, and it depends on the shape
#
# `torch.mv` is what people compare kernels with. Its order is that of the BLAS behind it, and the
# BLAS chooses its code by the shape of the call. Two outputs of *one* call may be added
# differently. Watch the grey strips: many short ramps, where one sum takes terms from far apart.

# %%
rows, width = 257, 1000


def repeated(terms, count, output):
    """One output of a `torch.mv` whose matrix holds `terms` in each of its `count` rows."""
    return torch.mv(terms.expand(count, -1).contiguous(), torch.ones(len(terms)))[output]


libraries, functions = {}, {}
try:
    for name in ("numpy.sum", "torch.sum"):
        libraries[name] = wb.reveal(name, width)
    functions["numpy.sum"] = lambda terms: torch.from_numpy(np.sum(terms.numpy(), keepdims=True))[0]
    functions["torch.sum"] = torch.sum
    libraries["torch.mv, 1 row"] = wb.reveal("torch.mv", width)
    functions["torch.mv, 1 row"] = lambda terms: repeated(terms, 1, 0)
    in_one_call = wb.row_orders("torch.mv", width, rows=rows)
    for tree, outputs in in_one_call.groups:
        name = f"torch.mv, {rows} rows: row {outputs[0]}"
        libraries[name + (f" to {outputs[-1]}" if len(outputs) > 1 else "")] = tree
        functions[list(libraries)[-1]] = lambda terms, at=outputs[0]: repeated(terms, rows, at)
except wb.RevealError as error:
    print(f"not revealed on this CPU: {error}")
orders = len({tree.hash for tree in libraries.values()})
show(
    wb.plots.icicles(
        libraries,
        evidence_text(tree.report.evidence for tree in libraries.values()),
        f"{len(libraries)} library sums of {width:,} terms, {orders} orders on this CPU"
        + (": one call of torch.mv has two" if known else ""),
        columns=2,
        high=3.2,
    ),
    "Orders of library sums. "
    + "; ".join(f"{name}: height {tree.height}" for name, tree in libraries.items()),
)

# %%
generator = torch.Generator().manual_seed(seed)
drawn = torch.randn(50, width, generator=generator)


def explained(name, tree):
    """Whether sums along `tree` have every bit of the library's."""
    theirs = torch.stack([functions[name](row.clone()) for row in drawn])
    return compare_bits(torch.from_numpy(tree.sum(drawn.numpy())), theirs).equal


own_order = wb.declared_order("lm_head", configs[0], n=width)
for name, tree in libraries.items():
    if tree.report.arithmetic == "fp32 sums":
        assert explained(name, tree), name
        assert explained(name, own_order) == (tree == own_order), name  # a control: another tree
if known:
    assert len(in_one_call.groups) > 1, "one call, one order"

# %% [markdown]
# ## An order that nobody declared is seen
#
# Somebody changes three lines of the kernel: it now takes its tiles from the last to the first. It
# compiles, and the tolerance of this project's contract passes its logits. Its file declares
# nothing. Its results tell.

# %%
source = (paths.ASCEND / "lm_head_ascend.asc").read_text()
last = "(width_ - 1) / kTile * kTile"  # where the last tile begins
edits = {
    "CopyTile(hiddenRow, weightRow, 0);": f"CopyTile(hiddenRow, weightRow, {last});",
    "weightRow, begin + kTile);": f"weightRow, {last} - begin - kTile);",
    "sum += TileSum(TileElements(width_, begin));": (
        f"sum += TileSum(TileElements(width_, {last} - begin));"
    ),
}
for old, new in edits.items():
    assert source.count(old) == 1, old
    source = source.replace(old, new)
with TemporaryDirectory() as folder:
    path = Path(folder) / "backwards.asc"
    path.write_text(source)
    edited = wb.build(path, kernel.config, backend="twin")


def backwards(hidden, weight):
    """The edited kernel. [..., H], [V, H] -> [..., V]"""
    out = torch.empty(*hidden.shape[:-1], len(weight))
    shape = (out.numel() // len(weight), hidden.shape[-1], len(weight), 0)
    edited.launch("lm_head_fp32", 8, hidden.contiguous(), weight, None, out, *shape)
    return out


def sums_backwards(terms):
    return backwards(terms, torch.ones(1, terms.shape[1]))[:, 0]


sample = wb.samples.smollm2()
hidden, weight = sample.hidden.flatten(0, -2)[:32], sample.weight[:257].float()
H = hidden.shape[-1]
forwards = wb.declared_order("lm_head", kernel.config, n=H)
found = wb.reveal(sums_backwards, n=H)
logits, theirs = kernel(hidden, weight), backwards(hidden, weight)
change = compare_bits(logits, theirs)
show(
    wb.plots.orders(
        {"declared": forwards, "revealed from the edited binary": found},
        evidence_text(evidence(edited, hidden, weight)),
        f"The edited kernel adds its tiles backwards: {change.mismatches:,} of "
        f"{change.elements:,} logits differ",
    ),
    f"Two orders of {H} terms: declared, and revealed from the edited kernel, where the long path "
    "begins at the last tile instead of the first.",
)

# %%
tile, pairs = kernel.config.tile_length, forwards.diff(found)
print(pairs)
assert found != forwards and not pairs.equal
starts = range(0, H, tile)
lengths = [min(tile, H - start) for start in starts]
parts = [
    wb.declared_order("lm_head", kernel.config, n=length).to_nested(start)
    for start, length in zip(starts, lengths, strict=True)
]
assert found == wb.ReductionTree.from_nested(wb.orders.sequential(parts[::-1]))
# The contract's tolerance passes both. The order tells them apart.
exact = hidden.double() @ weight.double().T
for result in (logits, theirs):
    assert contract().judge(result, exact, "forward_accuracy", "lm_head", "fp32").passed
assert change.mismatches > 0

# %% [markdown]
# ## The order sorts configurations into bit classes
#
# Configurations of one order, whose results also agree bit for bit on data made to tell orders
# apart, form a *bit class*. Inside a class you may tune for speed and change no result. One letter
# is one class.
#
# A letter may stand at two tiles. On dav-2201 tile 4096 has that of tile 64: `ReduceSum` adds a
# long tile in *repeats* of 64 terms there, one after the other, and that is just how the kernel
# adds tiles of 64. On dav-3510 it adds its repeats in pairs: tile 4096 is in a class of its own.

# %%
grid = [config.replace(max_blocks=blocks) for config in configs for blocks in max_blocks]
classes = wb.bit_classes(grid, n=n, backend="twin")
show(
    wb.plots.class_table(
        classes,
        title=f"{len(grid)} configurations, {len(classes.classes)} bit classes: tile and "
        "architecture decide, MAX_BLOCKS never",
    ),
    f"A table of tile length by architecture and MAX_BLOCKS with a letter for each of "
    f"{len(classes.classes)} bit classes. The letters do not change with MAX_BLOCKS.",
)

# %%
assert classes.passed and not classes.failed, classes
for config in configs:
    first, *others = [config.replace(max_blocks=blocks) for blocks in max_blocks]
    assert all(classes.same(first, other) for other in others), config
# Declared and revealed orders make the same classes …
promised = {}
for config in grid:
    promised.setdefault(wb.declared_order("lm_head", config, n=n).hash, []).append(config)
assert len(promised) == len(classes.classes)
assert all(classes.same(group[0], config) for group in promised.values() for config in group)
# … tiles 64 and 4096 are one class where ReduceSum adds its repeats in turn …
if {64, 4096} <= {*tiles} and n >= 4096:
    for arch in {"dav-2201", "dav-3510"} & {*archs}:
        pair = [wb.KernelConfig(tile_length=t, arch=arch, max_blocks=max_blocks[0])
                for t in (64, 4096)]  # fmt: skip
        assert classes.same(*pair) == (arch == "dav-2201"), arch
# … and a control: the edited kernel is in none of them.
assert wb.reveal(sums_backwards, n=n).hash not in {one.hash for one in classes.classes}

# %% [markdown]
# ## Try it
#
# The dashboard calls `wb.declared_order` and `wb.reveal` for the kernel that you choose:
# "declared", "revealed" and "agreement" stand above the tree. Hover over a bar, or move with the
# arrow keys, to read which terms it adds and its share in the error bound of one output. Move the
# tile length to 256: the order changes, and the bits with it. (Tile 4096 would not do on dav-2201:
# it adds in the order of tile 64.) Move MAX_BLOCKS: neither changes. Try a batch-invariant log-prob
# under "kernel": its sum runs over the vocabulary.

# %%
view = wb.explore(
    data="qwen3",
    rows=4,
    vocab=64,
    tile_length=kernel.config.tile_length,
    arch=kernel.config.arch,
    pane="order",
)
assert view.result.revealed == wb.reveal(kernel, n=view.result.tree.leaves), view
assert view.result.order_holds, view
at_256 = wb.declared_order("lm_head", kernel.config.replace(tile_length=256), n=4096)
assert (at_256 != view.result.tree) == (kernel.config.tile_length != 256)
view

# %% [markdown]
# ## What you should have seen
#
# * A probe of ones with M and -M in it tells which partial sum two terms first share. Enough of
#   them give the whole tree, of any function that adds.
# * Every configuration of the LM head adds as its source declares. The trees were compared, not the
#   numbers.
# * `torch.mv` has an order too. It depends on the shape of the call, the library and the CPU, which
#   are named below the figures: such a reference has no bits to be equal to.
# * A kernel that adds its tiles backwards passes the contract's tolerance. Its order tells it.
# * MAX_BLOCKS never parts a bit class. Tile and architecture do.
#
# The next notebook asks how far each order is from the exact result.
