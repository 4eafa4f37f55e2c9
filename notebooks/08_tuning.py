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
# # Tuning without surprises
#
# A configuration is a point on two scales, what it costs and what it does to the bits: a sweep
# measures both, so a faster kernel with every bit of the old one can be asked for by name.
#
# Tuning is usually done for speed alone, and the bits change on the way. Here every configuration
# comes with its bit class (all configurations that give the same bits), its drift (the distance
# from the exact result), an invariance check and exact counts of its work.

# %% tags=["parameters"]
arch = "dav-2201"
tiles = [64, 128, 192, 256, 576, 1024]
max_blocks = [1, 40]
weight_rows = [1, 4, 8]  # rows of weight that stay in UB while rows of hidden stream past
keep = 64  # the tile length in production, whose bits are to stay
rows = 8
vocab = 256

# %%
import dataclasses
from pathlib import Path
from tempfile import TemporaryDirectory

import workbench as wb
from workbench.numerics import compare_bits
from workbench.plots import show
from workbench.sweep import bit_classes, choose
from workbench.sweep.cost_model import cost

if keep not in tiles:
    raise wb.InputError(f"keep={keep} is not among tiles={tiles}; give one of them")
orders = {
    tile: wb.declared_order("lm_head", wb.KernelConfig(tile_length=tile, arch=arch), n=576).hash
    for tile in tiles
}
if len({*orders.values()}) < 2:
    raise wb.InputError(
        f"tiles={tiles} all add a row of 576 in one order on {arch}: one bit class, and nothing to "
        "choose. Add a tile of another order, such as 64 or 192"
    )
space = wb.sweep.Space(
    tiles=tiles,
    max_blocks=max_blocks,
    schedules=["weight_stationary"],
    constants={"weight_rows": weight_rows},
    arches=[arch],
    shapes=[(rows, vocab)],
    backend="twin",
)
folder = TemporaryDirectory()  # gone with this notebook; give a path of your own to keep the runs
store = Path(folder.name) / "runs.sqlite"
# No wall times: those of the twin are times of a simulation and say nothing of a device.
found = wb.sweep(space, "smollm2", store=store, workers=0, progress=False, timing=0)
runs = [run for run in found.runs if run.status == "ok"]
print(f"{len(found.runs)} configurations, {len(found.classes())} bit classes, in {store.name}")

# %% [markdown]
# ## Some constants decide bits, some never do
#
# One cell is one configuration, measured on real hidden states of a small language model. The
# letter is its bit class: the order of summation revealed from the binary, and a name of the
# results' bits. MAX_BLOCKS shares out the work and WEIGHT_ROWS says what stays in the buffer: along
# a row of the table the letter must not change.

# %%
letters = {run.key: one.letter for one in found.classes() for run in one.runs}
by_tile = {
    tile: {letters[run.key] for run in runs if run.config["tile_length"] == tile} for tile in tiles
}
show(
    wb.plots.sweep_table(
        found.runs,
        title=f"{len(runs)} configurations, {len(found.classes())} bit classes: the tile length "
        "decides, MAX_BLOCKS and WEIGHT_ROWS do not",
    ),
    "A table of tile length by MAX_BLOCKS and WEIGHT_ROWS with a letter for each bit class and the "
    "largest error. " + "; ".join(f"tile {t}: {', '.join(sorted(c))}" for t, c in by_tile.items()),
)

# %%
refused = [f"{run.config}: {run.error}" for run in found.runs if run.status != "ok"]
assert len(runs) == len(space), refused
assert found.disagreements() == []
assert all(len(classes) == 1 for classes in by_tile.values())
assert all(run.invariance.passed and run.bound.worst_ratio <= 1 for run in runs)
# Tiles share a class exactly if the source declares one order for both. So does every tile that
# holds the whole row of 576: it is one sum, whatever its length.
for a in tiles:
    assert all((by_tile[a] == by_tile[b]) == (orders[a] == orders[b]) for b in tiles), a
assert len({orders[tile] for tile in tiles if tile >= 576}) <= 1
# The control: one run with another bit in its results is told.
odd = dataclasses.replace(runs[0], bits=runs[-1].bits + "0")
assert len(bit_classes.disagreements([*runs, odd])) == 1

# %% [markdown]
# ## Drift against cost, and a recommendation with its reason
#
# The cost is the bytes that a configuration moves for each logit: counted on the twin, exact, and a
# fact of the program rather than of a machine. Here the tile decides the drift and WEIGHT_ROWS the
# bytes, so one configuration can be best in both. `recommend` takes the cheapest whose drift is
# small enough: without a limit of yours, no more than `torch.mv` is off by itself on this input.

# %%


def words(found):
    at = found.choice.config
    return (
        f"tile {at['tile_length']}, {at['weight_rows']} rows of weight, {at['max_blocks']} blocks"
    )


best = wb.sweep.recommend(found.runs)
show(
    wb.plots.pareto_plot(
        best,
        found.runs,
        title=("Best in both, and recommended" if len(best.front) == 1 else "Recommended")
        + f": {words(best)}",
    ),
    f"A scatter of drift against bytes moved per logit. {best.reason}",
)
print(best.reason)

# %%
assert best.choice.drift <= best.choice.reference_drift
# No other configuration is better in both, and the chosen one is on the front or equal to it.
points = {(choice.cost, choice.drift) for choice in best.front}
assert (best.choice.cost, best.choice.drift) in points
for run in runs:
    at = choose.cost_of(run, "bytes"), run.drift.max_abs
    assert any(c <= at[0] and d <= at[1] for c, d in points)

# %% [markdown]
# ## Staying in a bit class
#
# Suppose tile `keep` is in production, and its bits are in a golden file. `same_bits_as` chooses
# only among configurations with every bit of it: tuning that cannot change a result. Bytes do not
# tell these apart, so the cost is the model's. **It is a model and not calibrated**: exact counts,
# times rates from public pages and guesses. It puts configurations in an order, no more.

# %%
mine = {"tile_length": keep}
kept = bit_classes.in_class_of(found.runs, mine)
stay = wb.sweep.recommend(found.runs, same_bits_as=mine, cost="model")
before = min(choose.cost_of(run, "model") for run in kept if run.config["tile_length"] == keep)
show(
    wb.plots.pareto_plot(
        stay,
        kept,
        title=f"{len(kept)} of {len(runs)} configurations have every bit of tile {keep}; "
        f"{words(stay)} would take {stay.choice.cost / before:.0%} of its best time "
        "(model, not calibrated)",
    ),
    f"The configurations in the bit class of tile {keep}: one drift, at different modelled costs "
    f"(a model, not calibrated). {stay.reason}",
)
print(stay.reason)


# %%
def logits(config):
    """What a configuration computes on the sweep's own input."""
    sample = wb.samples.smollm2()
    tensors = sample.hidden.flatten(0, -2)[:rows], sample.weight[:vocab].float()
    constants = {k: v for k, v in config.items() if k != "arch"}
    made = wb.KernelConfig(arch=config["arch"], **constants)
    return wb.build("lm_head", made, backend="twin")(*tensors)


production = logits({"arch": arch, "tile_length": keep})
assert compare_bits(production, logits(stay.choice.config)).equal
assert stay.choice.cost <= before
assert {run.drift.max_abs for run in kept} == {stay.choice.drift}
# The control: a configuration outside the class has other bits.
outside = next(run for run in runs if run not in kept)
assert not compare_bits(production, logits({"arch": arch, **outside.config})).equal

# %% [markdown]
# ## What would limit it on a device: a model, not calibrated
#
# The same configurations by unit. Do not quote the times: nothing was measured on Ascend hardware,
# and the line below the figure says how much of them rests on guesses. What can be read is which
# unit a configuration leans on, and what a change of a constant would relieve. Tiles are copied
# from the device's memory (GM) into a core's unified buffer (UB), the vector unit works there, and
# results are copied back; the scalar unit adds up the tiles.

# %%
shown = {
    f"tile {run.config['tile_length']}, WEIGHT_ROWS {run.config['weight_rows']}": cost(run)
    for run in kept
    if run.config["max_blocks"] == max(max_blocks)
}
show(
    wb.plots.cost_bars(
        shown, note=f"{rows} x 576 x {vocab}, fp32, MAX_BLOCKS {max(max_blocks)}, smollm2"
    ),
    "Stacked bars of modelled time by unit, a model that is not calibrated. "
    + "; ".join(f"{name}: limited by {one.limiting}" for name, one in shown.items()),
)

# %%
assert {one.label for one in shown.values()} == {"model, not calibrated"}
for one in shown.values():  # the slowest unit alone, and all one after the other
    assert one.overlapped <= one.serial

# %% [markdown]
# ## The record goes on where it stopped
#
# Every run is on the disk as it ends. The same sweep again measures nothing that is there; a wider
# one measures what is new.

# %%
again = wb.sweep(space, "smollm2", store=store, workers=0, progress=False, timing=0)
assert [run.to_dict() for run in again.runs] == [run.to_dict() for run in found.runs]
with wb.Record(store, readonly=True) as record:
    assert len(record.runs()) == len(found.runs)
    print(record.summary())

# %% [markdown]
# ## Try it
#
# The dashboard has what is in production pinned as A, and stands where the recommendation is: the
# table compares bits, order and error of both. Move MAX_BLOCKS or the schedule: bits stay equal to
# A's. Move the tile to 192, another order: the table names the first output that differs.
# "Counters" has the exact counts of the configuration that is shown.

# %%
view = wb.explore(tile_length=keep, max_blocks=max(max_blocks), schedule="weight_stationary",
                  rows=rows, vocab=vocab, arch=arch, pane="pins")  # fmt: skip
view.pin()
view.set(tile_length=stay.choice.config["tile_length"]).wait()
assert view.compare("A").bits.equal and view.compare("A").order_equal, view
assert compare_bits(view.result.outputs, production).equal
view

# %% [markdown]
# ## What you should have seen
#
# * The tile length decided the bit class of every configuration, MAX_BLOCKS and WEIGHT_ROWS none.
# * A recommendation is a sentence: the cheapest by counted bytes whose error is no larger than
#   `torch.mv`'s own on the same data.
# * Inside one bit class a kernel can be tuned freely: the drift is the same number, and the bits
#   were compared.
# * Times of the cost model are a model, not calibrated. On a device the same sweep adds runs of its
#   own beside these, and never in place of them.
