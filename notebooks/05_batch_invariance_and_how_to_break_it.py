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
# # Batch invariance, and how to break it
#
# A row's logits and gradients keep every bit whatever stands around the row; and four ordinary
# mistakes, each of which breaks that, are each caught by name.
#
# A sampler scores a token in one batch, a trainer in another. They agree on every bit only if a
# row's result is a function of the row alone. That is a claim about all batches there are. No test
# can try them all, so this one tries to break it: seven kinds of other company for the same rows.
# It compares raw bits, since a tolerance would hide what it looks for.

# %% tags=["parameters"]
arch = "dav-2201"
tile_length = 64
blocks = [1, 40]
vocab = 64
seed = 0
# Batches that T1 and T2 try; more of them take longer.
sizes = [1, 2, 4, 7, 8, 16, 17, 33, 64, 129]
position_sizes = [17, 129]

# %%
import torch
import torch.nn.functional as F

import workbench as wb
from workbench.numerics import raw_bits
from workbench.numerics.adapters import OperatorRows
from workbench.numerics.contract import contract
from workbench.plots import evidence_text, show

if max(sizes) <= 4 or max(position_sizes) <= 4:
    raise wb.InputError(
        f"sizes={sizes}, position_sizes={position_sizes}: give a size above 4 in both. A mistake "
        "below treats batches of up to 4 rows alike, and those alone could not show it"
    )
config = wb.KernelConfig(tile_length=tile_length, arch=arch)
kernel = wb.build("lm_head", config, backend="twin")

# Hidden states and weights of a real LM head: 32 tokens, H 576.
sample = wb.samples.smollm2()
hidden, weight = sample.hidden.flatten(0, -2)[:32], sample.weight[:vocab].float()
company = {"sizes": sizes, "position_sizes": position_sizes, "seed": seed}


def differ(result):
    """How many of the outputs compared have other bits than the row alone."""
    return sum(transform.mismatches for transform in result.transforms)


# %% [markdown]
# ## The kernel keeps every bit under seven transforms
#
# First each row is computed alone. Then the same rows are put into other company:
#
# | | what changes | what it would catch |
# |---|---|---|
# | T1 | the size of the batch | a split of the sum that follows the batch |
# | T2 | the position in it | code that treats the first or last rows apart |
# | T3 | the neighbours: random, NaN, Inf | a leak between rows |
# | T4 | padding, left and right | padding that is summed as well |
# | T5 | chunks, MAX_BLOCKS, every constant that must not decide bits | a schedule in the sum |
# | T6 | selection, packing, permutation | strides and addresses in the sum |
# | T7 | repeats, held results, poisoned buffers | memory not written, or written too late |

# %%
rows = {}
for name, dtype in {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}.items():
    rows[f"lm_head, {name}"] = wb.invariance(
        kernel, hidden.to(dtype), weight.to(dtype), max_blocks=blocks, **company
    )
cases = sum(t.cases for result in rows.values() for t in result.transforms)
elements = sum(t.elements for result in rows.values() for t in result.transforms)
show(
    wb.plots.invariance_table(
        rows,
        evidence_text(rows),
        f"{cases} batches, {elements:,} logits compared: every bit of every row is kept",
    ),
    f"A table of three dtypes by seven transforms: no mismatch among {elements:,} logits.",
)

# %%
assert all(result.passed for result in rows.values())
assert all(t.elements > 0 for result in rows.values() for t in result.transforms)
rows["lm_head, fp32"]

# %% [markdown]
# ## Four mistakes, each caught by name
#
# A check that has never failed proves nothing. Below the same kernel is called in four wrong ways.
# All four run, and the tolerance of this project's contract passes the logits of the first two.
# Guess before you look: which transform sees which?


# %%
def split_k_by_batch(hidden, weight):
    """Few rows leave cores idle, so the sum is cut into parts: more parts the fewer rows."""
    rows = hidden[..., 0].numel()
    parts = 4 if rows <= 4 else 2 if rows <= 32 else 1
    width = -(-hidden.shape[-1] // parts)
    pieces = zip(hidden.split(width, -1), weight.split(width, -1), strict=True)
    return sum(kernel(h, w) for h, w in pieces)


def neighbour_leak(hidden, weight):
    """The row before is masked out: multiplied by 0 instead of left out."""
    rows = hidden.flatten(0, -2)
    masked = 0 * rows.roll(1, 0)[:, :1]
    return (kernel(rows, weight) + masked).unflatten(0, hidden.shape[:-1])


def uninitialised_tail(hidden, weight):
    """Rows are padded to a multiple of 128: with 0 in the weight, with anything in the rows."""
    width = -(-(hidden.shape[-1] + 1) // 128) * 128
    rows = torch.empty(*hidden.shape[:-1], width)
    rows[..., : hidden.shape[-1]] = hidden
    return kernel(rows, F.pad(weight, (0, width - hidden.shape[-1])))


uninitialised_tail.fills_memory = True  # it takes new memory: T7 fills that with NaN

workspace = torch.empty(4096 * vocab)


def reused_workspace(hidden, weight):
    """The result is a view of a workspace that the next call writes again."""
    logits = kernel(hidden, weight)
    place = workspace[: logits.numel()].view(logits.shape)
    return place.copy_(logits)


# What each must fail; more is not held against it.
mistakes = {
    "split-K by batch": (split_k_by_batch, ("T1", "T2", "T3", "T4", "T6")),
    "neighbour leak": (neighbour_leak, ("T3",)),
    "uninitialised tail": (uninitialised_tail, ("T7",)),
    "reused workspace": (reused_workspace, ("T7",)),
}
caught = {"the kernel": rows["lm_head, fp32"]}
for name, (mistake, _) in mistakes.items():
    caught[name] = wb.invariance(mistake, hidden, weight, max_blocks=(), **company)
failed = sum(not result.passed for result in caught.values())
show(
    wb.plots.invariance_table(
        caught,
        evidence_text(caught),
        f"The check that passes the kernel catches {failed} of {len(mistakes)} mistakes around it",
    ),
    "A table of the kernel and four mistakes by transform. "
    + "; ".join(f"{name}: {differ(result):,} logits differ" for name, result in caught.items()),
)

# %%
exact = hidden.double() @ weight.double().T
for name, (_, transforms) in mistakes.items():
    assert not caught[name].passed
    for transform in transforms:
        first = caught[name][transform].first_mismatch
        assert first is not None, f"{name}: not caught by {transform}"
        assert first["expected_bits"] != first["got_bits"]
assert caught["the kernel"].passed
# No transform sees all of them: T1 passes the leak, T3 the workspace, T7 the leak.
for name, transform in {"neighbour leak": "T1", "reused workspace": "T3"}.items():
    assert caught[name][transform].passed, (name, transform)
assert caught["neighbour leak"]["T7"].passed
# The contract's tolerance does not see the first two.
for mistake in (split_k_by_batch, neighbour_leak):
    judged = contract().judge(mistake(hidden, weight), exact, "forward_accuracy", "lm_head", "fp32")
    assert judged.passed, mistake.__name__
caught["split-K by batch"]

# %% [markdown]
# `uninitialised tail` may fail more than T7: what is in new memory is anyone's guess. T7 fills it
# with NaN, so that there is no guessing.

# %% [markdown]
# ## Only NaN and Inf tell a masked neighbour from an absent one
#
# 0 times a number is 0, so a row that is masked out by a multiplication leaves no trace: until it
# holds a NaN, as padding and freed memory do. Below is one logit of one row. Only its neighbours
# change: another row stands before it, and once more behind it.

# %%
row, entry = hidden[3:4], weight[:1]
generator = torch.Generator().manual_seed(seed)
neighbours = {"alone": None, "random": torch.randn(row.shape, generator=generator)}
neighbours |= {"large": torch.full(row.shape, 1e30), "Inf": torch.full(row.shape, torch.inf)}
neighbours |= {"NaN": torch.full(row.shape, torch.nan)}


def beside(function, other):
    """The row's logit with `other` before and behind it."""
    if other is None:
        return function(row, entry)[0, 0]
    return function(torch.cat([other, row, other]), entry)[1, 0]


logits = {
    "the kernel": [beside(kernel, other) for other in neighbours.values()],
    "neighbour leak": [beside(neighbour_leak, other) for other in neighbours.values()],
}
patterns = {name: raw_bits(torch.stack(values)).numpy() for name, values in logits.items()}
show(
    wb.plots.bit_patterns(
        patterns,
        list(neighbours),
        evidence_text(caught["the kernel"]),
        "A masked neighbour is invisible until it is NaN or Inf; the kernel never sees one",
        axis="neighbours",
    ),
    "The 32 bits of one logit with five kinds of neighbours. Different patterns: "
    + "; ".join(f"{name}, {len(set(bits.tolist()))}" for name, bits in patterns.items()),
)

# %%
assert len(set(patterns["the kernel"].tolist())) == 1
leaked = dict(zip(neighbours, patterns["neighbour leak"].tolist(), strict=True))
assert leaked["alone"] == leaked["random"] == leaked["large"]
assert leaked["alone"] not in (leaked["NaN"], leaked["Inf"])

# %% [markdown]
# ## Gradients are rows too
#
# A trainer needs more than the logits. The gradient of a row is a row, and it is judged in the same
# way, with its upstream gradient travelling beside it. There are four operators: the LM head, the
# log-prob of a target (from logits), both in one (`linear_logp`), and a matrix product of a stated
# order (`det_gemm`), which the gradients are made with. All of them in fp32, forward and backward:

# %%
operators = {}
for op in ("lm_head", "batch_invariant_logp", "linear_logp", "det_gemm"):
    for judgement in ("forward_invariance", "gradient_invariance"):
        name = f"{op.replace('batch_invariant_logp', 'log-prob')}, {judgement.split('_')[0]}"
        operators[name] = wb.operator_invariance(
            op, judgement=judgement, backend="twin", max_blocks=blocks, **company
        )
show(
    wb.plots.invariance_table(
        operators,
        evidence_text(operators),
        f"{sum(r.passed for r in operators.values())} of {len(operators)}: results and gradients "
        "of all four operators keep every bit of a row",
    ),
    f"A table of {len(operators)} judgements by seven transforms: "
    f"{sum(differ(r) for r in operators.values())} mismatches.",
)

# %%
assert len(operators) == 8 and all(result.passed for result in operators.values())

# %% [markdown]
# ## A correct forward does not make a correct backward
#
# The gradient of a row of hidden states is a sum over the *vocabulary*. Cut the vocabulary by the
# size of the batch, and nothing happens to the logits: each is still one sum. The gradient is added
# in another order, and only its own check can tell.

# %%
operator = wb.ops.AscendLMHeadOp(config, backend="twin")


def vocabulary_by_batch(hidden, weight):
    """The same operator on parts of the vocabulary, more of them the fewer rows there are."""
    parts = 4 if hidden[..., 0].numel() <= 4 else 1
    return torch.cat([operator(hidden, part) for part in weight.chunk(parts)], -1)


broken = {}
for kind in ("forward", "gradient"):
    asked = {"judgement": f"{kind}_invariance", **company}
    broken[f"the operator, {kind}"] = wb.operator_invariance(
        "lm_head", config, backend="twin", max_blocks=(), **asked
    )
    broken[f"cut by batch, {kind}"] = wb.operator_invariance(
        "lm_head",
        fn=OperatorRows("lm_head", vocabulary_by_batch, gradient=kind == "gradient"),
        **asked,
    )
show(
    wb.plots.invariance_table(
        broken,
        evidence_text(broken),
        "Cutting the vocabulary by batch leaves every logit alone and changes the gradients",
    ),
    "A table of forward and gradient by transform, for the operator and a version that cuts the "
    "vocabulary by batch. "
    + "; ".join(f"{name}: {differ(result):,} differ" for name, result in broken.items()),
)

# %%
assert broken["the operator, forward"].passed and broken["the operator, gradient"].passed
assert broken["cut by batch, forward"].passed
assert not broken["cut by batch, gradient"].passed
broken["cut by batch, gradient"]

# %% [markdown]
# The gradient of the *weight* sums over the rows of the batch: by its nature it depends on them. It
# has one stated order instead, which [the operators' pages](../docs/operators/lm_head.md) give.

# %% [markdown]
# ## Try it
#
# The dashboard makes this check, on fewer batches, for whatever you choose. Try to make it fail:
# any tile, MAX_BLOCKS, architecture, dtype, or another kernel. As long as you do not, every line of
# the table says "= passed"; bits may change from tile to tile, but not with the batch.

# %%
view = wb.explore(hidden=hidden, weight=weight, tile_length=tile_length, arch=arch,
                  pane="invariance")  # fmt: skip
assert view.result.invariance.passed, view
for count in blocks:
    result = view.set(max_blocks=count).wait().result
    assert result.invariance.passed and (result.change is None or result.change.equal), view
view

# %% [markdown]
# ## What you should have seen
#
# * Seven kinds of company, and no bit of any row changed: logits in fp32, bf16 and fp16; log-probs,
#   matrix products and the gradients of all four operators in fp32; whatever block count and
#   schedule was tried.
# * Four mistakes that real code makes, each caught. Two of them pass the contract's tolerance.
# * NaN and Inf are not exotic inputs. They are the only neighbours that show a leak.
# * Forward and gradient are two claims. One can hold without the other.
#
# Invariance says that the bits stay the same. It does not say that they are right: how far off a
# result may be is the next notebook.
