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
# # On a real NPU
#
# What the twin assumes about sums, casts and fused products is ten questions that a device answers
# in its first minute; until one has answered, this notebook shows what will be asked and what each
# answer means.
#
# The twin computes by the vendor's documents. Where they are silent it has assumptions. Four have a
# switch and are asked here; others, such as the bits of a NaN that arithmetic makes, have none
# ([docs/twin.md](../docs/twin.md) lists both). On a machine with an NPU the same cells ask the
# device; on this one they ask the twin, and every figure says so.

# %% tags=["parameters"]
arch = "dav-2201"
other_arch = "dav-3510"
tiles = [64, 256]
rows = 4
vocab = 64

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from IPython.display import Markdown

import workbench as wb
from workbench.build import arch as architectures
from workbench.build import cann
from workbench.plots import evidence_text, show
from workbench.sweep import bit_classes

for name in (arch, other_arch):  # says so where the kernel does not run on one
    wb.build("lm_head", wb.KernelConfig(tile_length=tiles[0], arch=name), backend="twin")
# What the last claim compares needs at least one tile that the two add in other orders.
declared = {
    t: [
        wb.declared_order("lm_head", wb.KernelConfig(tile_length=t, arch=name), n=576)
        for name in (arch, other_arch)
    ]
    for t in tiles
}
if all(a == b for a, b in declared.values()):
    raise wb.InputError(
        f"tiles={tiles}: {arch} and {other_arch} add a row of 576 in one order with each of them "
        "(a tile of up to 64 is one vector). Give other architectures, or a tile such as 256 too"
    )
reasons = cann.device_reasons()
backend = "twin" if reasons else "npu"
print(f"asked here: the {backend}")
for reason in reasons:
    print(f"  no device is asked: {reason}")

# %% [markdown]
# ## Ten questions
#
# Each is one small launch on an input whose result tells apart the ways that hardware could work.
# H1 sums 100000000, 1, -100000000, 1, … inside one vector: adjacent pairs give 0, a halving tree
# gives 32, a sum from left to right gives 1. `workbench probe --device npu --out probes.md` writes
# this table on a device. H6 is asked in two ways, so there are eleven answers.

# %%
asked = wb.probe(arch, backend=backend)
Markdown(asked.report().replace("# ", "### ", 1))

# %%
expected = {name: wb.probe(name) for name in (arch, other_arch)}
answers = {name: {a.name: a.bits for a in p.halves()} for name, p in expected.items()}
split = [name for name, bits in answers[arch].items() if answers[other_arch][name] != bits]
show(
    wb.plots.probe_table(
        {f"the twin as {name}": found for name, found in expected.items()},
        title=f"{len(split)} of {len(answers[arch])} answers are others on {other_arch}: "
        "a device says which one it is",
    ),
    f"A table of questions by architecture of the twin. Other answers: {', '.join(split)}.",
)

# %%
assert all(found.passed for found in expected.values())
assert asked.passed, asked.report()  # on a device this is the question
assert "H10" in split  # the order across repeats is another one

# %% [markdown]
# ## Three documented orders, three answers
#
# `ReduceSum` has three documented orders. H10 has eight terms among 256 that make them give 17, 16
# and 9. Here the trees are built from the documents' words and evaluated by Python alone, without
# any kernel.

# %%
terms = torch.zeros(256)
for at, value in {13: 1, 20: -1e8, 34: 3, 51: 3, 93: 1, 104: 3, 132: 1e8, 219: 1}.items():
    terms[at] = value
methods = {method: wb.orders.reduce_sum(256, method) for method in (1, 2, 3)}
sums = {method: float(tree.sum(terms.numpy())) for method, tree in methods.items()}
show(
    wb.plots.icicles(
        {f"method {m} gives {sums[m]:g}": tree for m, tree in methods.items()},
        evidence_text(note="trees as documented, evaluated in fp32 by Python; no kernel ran"),
        "H10 gives another result for each documented order of ReduceSum over 256 terms",
    ),
    "Three orders of summation over 256 terms. "
    + "; ".join(f"method {m}: {value:g}" for m, value in sums.items()),
)

# %%
assert sums == {1: 17.0, 2: 16.0, 3: 9.0}
h10 = {name: next(a for a in found.probes if a.name == "H10") for name, found in expected.items()}
for name, answer in h10.items():
    method = architectures.load(name).reduce_sum_method_count(4 * 256)
    assert answer.value == sums[method], name

# %% [markdown]
# ## If a device answers otherwise
#
# Four choices that are not documented everywhere have a switch; on dav-2201 all four are open.
# Below the twin stands in for devices of that architecture that choose otherwise: each choice shows
# in the answers of its own question and leaves the others alone. So an answer of a device says
# which switch to set, and the twin then follows it. A masked lane can be told from a zero only
# where the accumulator does not start with one: the two are asked together.

# %%
choices = {
    "accumulator starts with its first term": {"accumulator_start": "first"},
    "accumulator starts with its first term, masked lanes are skipped": {
        "accumulator_start": "first",
        "masked_lanes": "skip",
    },
    "a fused product is rounded first": {"fused": "unfused"},
    "overflow saturates": {"overflow": "saturate"},
}
stand_ins = {"as assumed": wb.probe("dav-2201")}
stand_ins |= {name: wb.probe("dav-2201", switches=chosen) for name, chosen in choices.items()}
bits = {name: {a.name: a.bits for a in found.halves()} for name, found in stand_ins.items()}
moved = {
    name: [q for q, answer in found.items() if answer != bits["as assumed"][q]]
    for name, found in bits.items()
}
show(
    wb.plots.probe_table(
        stand_ins,
        title=f"{len(choices)} other choices, {len(choices)} other patterns of answers: they say "
        "which switch to set",
    ),
    "A table of questions by choice, the twin standing in for devices. Other answers: "
    + "; ".join(f"{name}: {', '.join(found)}" for name, found in moved.items() if found),
)

# %%
patterns = {tuple(found.values()) for found in bits.values()}
assert len(patterns) == 1 + len(choices), "two choices could not be told apart"
assert moved["as assumed"] == [] and all(moved[name] for name in choices)
assert moved["overflow saturates"] == ["H8"] and moved["a fused product is rounded first"] == ["H7"]

# %% [markdown]
# ## Two records side by side
#
# A sweep on a device writes a record like any other; its runs stand beside the twin's, never in
# their place. `compare` says what differs, and compares bits only where both runs answered one
# question. Here the second record is the device's if there is one, else the twin's once more; and a
# third is the twin as another architecture, so that there is something to find. Over tile 64 both
# architectures add in one order, since a tile is then one vector.

# %%
folder = TemporaryDirectory()


def measured(name, backend="twin", arch=arch):
    """The record of a small sweep on the real sample, and its runs by tile."""
    space = wb.sweep.Space(tiles=tiles, arches=[arch], shapes=[(rows, vocab)], backend=backend)
    record = wb.Record(Path(folder.name) / f"{name}.sqlite")
    found = wb.sweep(space, "smollm2", store=record, workers=0, progress=False, timing=0)
    return record, {run.config["tile_length"]: run for run in found.runs}


predicted, ours = measured("twin")
second, theirs = measured("second", backend)
third, others = measured("third", arch=other_arch)
label = "twin and device" if backend == "npu" else "the twin twice"
pairs = {f"tile {t}: {label}": predicted.compare(ours[t], theirs[t]) for t in tiles}
pairs |= {
    f"tile {t}: {arch} and {other_arch}": predicted.compare(ours[t], others[t]) for t in tiles
}
follow = sum(found.same_bits == found.same_order for found in pairs.values())
show(
    wb.plots.comparison_table(
        pairs,
        evidence_text(
            note=f"{' and '.join(dict.fromkeys(['twin', backend]))} · {rows} x 576 x {vocab} fp32, "
            f"smollm2, inputs {ours[tiles[0]].inputs.fixture_id}"
            + ("" if backend == "npu" else " · no Ascend hardware")
        ),
        f"{follow} of {len(pairs)} pairs share their bits exactly if they share the order",
    ),
    "A table of pairs of runs: "
    + "; ".join(f"{name}: {'same' if c.same_bits else 'other'} bits" for name, c in pairs.items()),
)

# %%
assert follow == len(pairs)
assert all(pairs[f"tile {t}: {label}"].same_bits for t in tiles)
for t in tiles:  # bits differ exactly where the declared orders do
    a, b = declared[t]
    assert pairs[f"tile {t}: {arch} and {other_arch}"].same_bits == (a == b), t
# The control: among these pairs are some that differ.
assert not all(found.same_bits for found in pairs.values())
# A record of another machine is taken in, once, and nothing that was there is replaced.
before = len(predicted.runs())
assert predicted.merge(third) == len(tiles) and predicted.merge(third) == 0
assert len(predicted.runs()) == before + len(tiles)
assert not bit_classes.disagreements(predicted.runs())
print(pairs[f"tile {tiles[-1]}: {arch} and {other_arch}"])

# %% [markdown]
# ## What would be asked
#
# On a machine with CANN, torch_npu and a device, in this order
# ([docs/on-an-npu.md](../docs/on-an-npu.md) has every step, and what messages of a device mean):
#
# ```bash
# workbench doctor --json > doctor.json
# workbench probe --device npu --arch dav-2201 --out probes.md --json > probes.json
# workbench check --device npu --op lm_head --dtype bf16 --check-grad --json > check.json
# workbench invariance --backend npu --op lm_head --dtype bf16 --json > invariance.json
# workbench sweep --backend npu --tile 64:1024:x2 --store device.sqlite
# ```
#
# A single wrong bit is worth a report: the index and both bit patterns are in the JSON.

# %% [markdown]
# ## Try it
#
# The dashboard has switched the architecture at the last of the tiles: the order changed, as the
# answers to H10 above say, and the line "this change" says how many bits followed. Switch it back
# under "architecture". At tile 64, which is one vector, it changes nothing.

# %%
view = wb.explore(tile_length=tiles[-1], arch=arch, rows=rows, vocab=vocab, pane="order")
before = view.result.order
result = view.set(arch=other_arch).wait().result
assert result.order == wb.declared_order(
    "lm_head", wb.KernelConfig(tile_length=tiles[-1], arch=other_arch), n=result.order.leaves
)
assert result.change.equal == (result.order == before), view
view

# %% [markdown]
# ## What you should have seen
#
# * Ten questions ask what the twin assumes of a device's sums, casts and fused products. Their
#   answers tell apart three documented orders and every choice that has a switch.
# * Without a device the table shows what the twin's data imply. It is a prediction, not a result.
# * Runs of a device stand beside the twin's in a record. Bits are compared where both answered one
#   question, and they followed the order.
