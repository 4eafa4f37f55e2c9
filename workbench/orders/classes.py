"""Bit classes: which configurations of a kernel share every bit.

Two things are asked of every configuration, each from its running binary: the order it sums in
(`reveal`), and the bits of its results on data made to tell orders apart. Configurations are
called equal where both agree. An order alone would miss other arithmetic, data alone orders that
these data cannot tell apart; where the two disagree the result says so.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result
from workbench.build.config import KernelConfig, spec
from workbench.errors import ConfigError, InputError, WorkbenchError
from workbench.evidence import Evidence, evidence, fixture_id
from workbench.orders.declared import declared_order
from workbench.orders.tree import ReductionTree

ORDERS = ("revealed", "declared")
_TRIPLES = 16384  # the largest n at which a sum of exponentials is revealed
_EMPTY_DRAWS = 1000
_MOST = 4096  # of a constant drawn at random
_LENGTHS = ("tile_length", "leaf_length")
_ROWS, _COLUMNS = 12, 16  # of the data, at the default
Progress = Callable[[int, int, KernelConfig], None]


@dataclass(frozen=True)
class BitClass(Result):
    """Configurations that sum in one order and gave the same bits.

    Attributes:
        letter: A name for the eye: A, B, …, in the order met.
        hash: Of the order; of two classes with one hash the bits of the results differ.
        bits: Name of the results' bits.
        height: Additions on the longest path of the order.
        configs: The complete configurations.
        tree: The order.
    """

    letter: str
    hash: str
    bits: str
    height: int
    configs: tuple[KernelConfig, ...]
    tree: ReductionTree = field(repr=False, compare=False, metadata={"json": False})

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("letter", "hash", "bits", "height")}
        return plain | {"configs": [config.to_dict() for config in self.configs]}

    def title(self) -> str:
        return f"class {self.letter}: {len(self.configs)} configurations, order {self.hash[:6]}"


@dataclass(frozen=True)
class Disagreement(Result):
    """Two configurations on which order and results do not say the same.

    Attributes:
        kind: "same order, other bits": calling them equal by their order would be false (another
            arithmetic, or a bug), so they are not. "other order, same bits": these data did not
            tell them apart; they are not called equal either.
        left, right: One configuration of each side.
    """

    kind: str
    left: KernelConfig
    right: KernelConfig

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "left": self.left.to_dict(), "right": self.right.to_dict()}


@dataclass(frozen=True)
class BitClasses(Result):
    """What `bit_classes` found.

    Attributes:
        op, n, dtype: What was asked.
        rests_on: "revealed" (order from the binary) or "declared" (from the source), beside bits.
        classes: In the order of the configurations.
        disagreements: Where order and results differ in what they say.
        failed: {configuration: message} of those that could not be built or revealed.
        outputs: Results whose bits were compared, per configuration.
        evidence: Backend, inputs, versions, one for each architecture.
    """

    op: str
    n: int
    dtype: str
    rests_on: str
    classes: tuple[BitClass, ...]
    disagreements: tuple[Disagreement, ...]
    failed: dict[KernelConfig, str]
    outputs: int
    evidence: tuple[Evidence, ...]

    @property
    def passed(self) -> bool:
        """True if every configuration ran and none has the order of another but other bits."""
        kinds = {d.kind for d in self.disagreements}
        return not self.failed and _DANGEROUS not in kinds

    def class_of(self, config: KernelConfig) -> BitClass:
        """The class of a configuration (constants left out are the kernel's defaults).

        Raises:
            InputError: It was not among the configurations, or failed.
        """
        wanted = spec(self.op).complete(config)
        for found in self.classes:
            if wanted in found.configs:
                return found
        why = self.failed.get(wanted)
        raise InputError(f"{config!r} " + (f"failed: {why}" if why else "was not asked for"))

    def same(self, left: KernelConfig, right: KernelConfig) -> bool:
        """True if both are in one class."""
        return self.class_of(left) is self.class_of(right)

    def to_dict(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "n": self.n,
            "dtype": self.dtype,
            "passed": self.passed,
            "rests_on": self.rests_on,
            "outputs": self.outputs,
            "classes": [found.to_dict() for found in self.classes],
            "disagreements": [d.to_dict() for d in self.disagreements],
            "failed": [{"config": c.to_dict(), "error": why} for c, why in self.failed.items()],
            "evidence": [one.to_dict() for one in self.evidence],
        }

    def rows(self) -> list[dict[str, Any]]:
        table: list[dict[str, Any]] = [
            {
                "class": found.letter,
                "order": found.hash[:6],
                "height": found.height,
                "configurations": config_text(self.op, found.configs),
            }
            for found in self.classes
        ]
        reasons: dict[str, list[KernelConfig]] = {}
        for config, why in self.failed.items():
            reasons.setdefault(why, []).append(config)
        for why, configs in reasons.items():
            line = {"class": "!", "order": "-", "height": "-"}
            # "tile_length=100: it must be …" names a constant itself
            text = config_text(self.op, configs, but=why.partition("=")[0])
            join = "; " if ": " in text else ": "
            table.append(line | {"configurations": f"{text}{join}{why}"})
        return table

    def title(self) -> str:
        count = sum(len(found.configs) for found in self.classes)
        where = ", ".join(dict.fromkeys(str(one.backend) for one in self.evidence)) or "none ran"
        head = (
            f"{count} configurations of {self.op} ({where}), n = {self.n}, {self.dtype}: "
            f"{len(self.classes)} bit classes by the {self.rests_on} order and {self.outputs} "
            "results"
        )
        if self.disagreements:
            kinds = [d.kind for d in self.disagreements]
            head += "; " + ", ".join(f"{kinds.count(k)} x {k}" for k in dict.fromkeys(kinds))
        return head


_DANGEROUS, _BLIND = "same order, other bits", "other order, same bits"


def bit_classes(
    configs: Iterable[KernelConfig],
    n: int = 4096,
    *,
    op: str = "lm_head",
    dtype: str = "fp32",
    backend: str = "auto",
    order: str = "revealed",
    rows: int = _ROWS,
    columns: int = _COLUMNS,
    seed: int = 0,
    progress: Progress | None = None,
) -> BitClasses:
    """Group configurations by the order they sum in and by the bits of their results.

    Args:
        configs: `KernelConfig`s; constants left out take the kernel's defaults, duplicates count
            once.
        n: Terms of a sum: H of lm_head, V of batch_invariant_logp, K of det_gemm.
        op: "lm_head", "batch_invariant_logp" or "det_gemm".
        dtype: Of the inputs: "fp32", "bf16" or "fp16". Results are the fp32 sums.
        backend: As for `workbench.build`.
        order: "revealed" from the binary, or "declared" by the source (quicker; says less).
        rows, columns: Of the data: `rows` x `columns` results are compared.
        seed: Of the data and of the probes.
        progress: Called with (done, total, configuration) before each.

    Returns:
        `BitClasses`. A configuration that cannot be built or revealed is in `failed`; the others
        are not lost.

    Raises:
        InputError: No configurations, n < 1, or unknown names.
        ConfigError: Unknown operator, or something that is no `KernelConfig`.

    Example:
        >>> import workbench as wb
        >>> tiles = [wb.KernelConfig(tile_length=t) for t in (64, 128, 256)]
        >>> found = bit_classes(tiles, n=256)
        >>> [[c.tile_length for c in one.configs] for one in found.classes]
        [[64, 256], [128]]
    """
    if order not in ORDERS:
        raise InputError(f"order={order!r}; give one of {', '.join(ORDERS)}")
    for what, size in (("n", n), ("rows", rows), ("columns", columns)):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"{what}={size!r}; wanted a whole number of at least 1")
    if isinstance(configs, (KernelConfig, str)) or not isinstance(configs, Iterable):
        raise InputError(
            f"configs is a {type(configs).__name__}; wanted several KernelConfig, for example "
            "[KernelConfig(tile_length=64), KernelConfig(tile_length=128)]"
        )
    chosen = list(dict.fromkeys(spec(op).complete(config) for config in configs))
    if not chosen:
        raise InputError("no configurations were given; pass at least one KernelConfig")
    if op == "batch_invariant_logp" and order == "revealed" and n > _TRIPLES:
        raise InputError(
            f"n={n}: to reveal a sum of exponentials takes n rows of n logits; give n up to "
            f"{_TRIPLES}, or order='declared' (by the source, and the results' bits)"
        )
    if dtype not in spec(op).dtypes:
        raise InputError(f"dtype={dtype!r}; {op} takes {', '.join(spec(op).dtypes)}")
    data = adversarial(n, rows, columns, dtype, seed)
    found: list[tuple[KernelConfig, ReductionTree, str]] = []
    failed: dict[KernelConfig, str] = {}
    seen: dict[str, Evidence] = {}  # per architecture
    for done, config in enumerate(chosen):
        if progress is not None:
            progress(done, len(chosen), config)
        try:
            kernel = _built(op, config, backend)
            tree = _order(op, kernel, n, dtype, order, seed)
            bits = fixture_id(*results(op, kernel, *data))
        except WorkbenchError as error:
            failed[config] = str(error)
            continue
        if config.arch not in seen:  # the configuration stands in the classes
            seen[config.arch] = dataclasses.replace(evidence(kernel, *data), config={})
        found.append((config, tree, bits))
    classes = _grouped(found)
    return BitClasses(
        op=op,
        n=n,
        dtype=dtype,
        rests_on=order,
        classes=classes,
        disagreements=_disagreements(classes),
        failed=failed,
        outputs=rows * columns,
        evidence=tuple(seen.values()),
    )


def _built(op: str, config: KernelConfig, backend: str) -> Any:
    from workbench.build import build

    return build(op, config, backend=backend)


def _order(op: str, kernel: Any, n: int, dtype: str, order: str, seed: int) -> ReductionTree:
    if order == "declared":
        return declared_order(op, kernel.config, n)
    if op == "batch_invariant_logp":
        from workbench.orders.reveal.positive import agrees_by_triples, log_sum_exp, reveal_positive

        sums, promised = log_sum_exp(kernel, dtype), declared_order(op, kernel.config, n)
        if agrees_by_triples(promised, sums, seed=seed):  # n - 2 probes prove the order
            return promised
        return reveal_positive(sums, n, seed=seed)
    from workbench.orders.reveal import reveal

    return reveal(kernel, n, dtype=dtype, seed=seed, check=False)


def results(op: str, kernel: Any, hidden: Any, weight: Any) -> tuple[Any, ...]:
    """The fp32 results of a kernel on the data of `adversarial`."""
    import torch

    if op == "batch_invariant_logp":
        # Clamped: of wide logits one exponential would be the whole sum.
        logits = (hidden.float()[:, None] * weight.float()).clamp(-8, 8).to(hidden.dtype)
        return tuple(kernel(logits, torch.zeros(logits.shape[:2], dtype=torch.int64)))
    if op == "det_gemm":
        return (kernel(hidden, weight.T.contiguous(), out_dtype=torch.float32),)
    return (kernel(hidden, weight, out_dtype=torch.float32),)


def _grouped(found: Sequence[tuple[KernelConfig, ReductionTree, str]]) -> tuple[BitClass, ...]:
    groups: dict[tuple[str, str], list[int]] = {}
    for index, (_, tree, bits) in enumerate(found):
        groups.setdefault((tree.hash, bits), []).append(index)
    return tuple(
        BitClass(
            letter=letter(number),
            hash=key[0],
            bits=key[1],
            height=found[members[0]][1].height,
            configs=tuple(found[i][0] for i in members),
            tree=found[members[0]][1],
        )
        for number, (key, members) in enumerate(groups.items())
    )


def _disagreements(classes: Sequence[BitClass]) -> tuple[Disagreement, ...]:
    pairs = itertools.combinations(classes, 2)  # of one class nothing is to be said
    kinds = (
        (_DANGEROUS if a.hash == b.hash else _BLIND, a, b)
        for a, b in pairs
        if a.hash == b.hash or a.bits == b.bits
    )
    return tuple(Disagreement(kind, a.configs[0], b.configs[0]) for kind, a, b in kinds)


def letter(number: int) -> str:
    """A, B, …, Z, AA, AB, … for 0, 1, 2, …"""
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("A") + digit) + text
    return text


def config_text(op: str, configs: Sequence[KernelConfig], but: str = "") -> str:
    """Configurations in a few words: what all have in common is left out, and the constant `but`.

    Example:
        >>> pairs = [(64, 1), (64, 2), (128, 1), (128, 2)]
        >>> chosen = [KernelConfig(tile_length=tile, max_blocks=b) for tile, b in pairs]
        >>> config_text("lm_head", chosen)
        'dav-2201: tile_length 64, 128; max_blocks 1, 2'
    """
    parts = []
    for arch in dict.fromkeys(config.arch for config in configs):
        here = [dict(c.constants) for c in configs if c.arch == arch]
        names = list(dict.fromkeys(name for constants in here for name in constants))
        names.sort(key=lambda name: (name not in _LENGTHS, name))
        values = {k: list(dict.fromkeys(c[k] for c in here if k in c)) for k in names}
        shown = [k for k in names if k != but and (len(values[k]) > 1 or k in _LENGTHS)]
        product = 1
        for name in shown:
            product *= len(values[name])
        if product == len(here):
            lists = {k: [value_text(op, k, v) for v in values[k]] for k in shown}
            text = "; ".join(f"{k} {', '.join(lists[k])}" for k in shown)
        else:  # not every combination: one by one
            lines = [[f"{k} {value_text(op, k, c[k])}" for k in shown if k in c] for c in here]
            text = "; ".join(" ".join(line) for line in lines)
        parts.append(f"{arch}: {text}" if text else arch)
    return " | ".join(parts)


def value_text(op: str, name: str, value: int | str) -> str:
    """A constant's value as its spec names it: "weight_stationary" for SCHEDULE 1."""
    names = spec(op).raw["constants"].get(name.upper(), {}).get("names", {})
    return next((word for word, number in names.items() if number == value), str(value))


# ---- data ----------------------------------------------------------------------------------------


def adversarial(n: int, rows: int, columns: int, dtype: str, seed: int) -> tuple[Any, Any]:
    """Operands whose dot products change their bits with the order: hidden [rows, n] and weight
    [columns, n] of `dtype`.

    Rows take turns: N(0, 1); exponents over 2^-12 to 2^12; large terms that cancel in pairs; one
    such pair among ones, as a probe of the order is; ties of the rounding; one sign. Weights are
    signs times powers of two, every other row N(0, 1).

    Example:
        >>> hidden, weight = adversarial(64, 6, 2, "bf16", seed=0)
        >>> list(hidden.shape), list(weight.shape), hidden.dtype
        ([6, 64], [2, 64], torch.bfloat16)
    """
    import torch

    from workbench.ops.inputs import DTYPES

    g = torch.Generator().manual_seed(seed)
    big = 2.0**14 if dtype == "fp16" else 2.0**30
    hidden = torch.randn(rows, n, generator=g)
    for row in range(rows):
        kind = row % 6
        sign = torch.randint(0, 2, (n,), generator=g) * 2.0 - 1
        if kind == 1:
            hidden[row] *= torch.exp2(torch.randint(-12, 13, (n,), generator=g).float())
        elif kind in (2, 3) and n >= 2:
            pairs = max(1, n // 8) if kind == 2 else 1
            places = torch.randperm(n, generator=g)[: 2 * pairs]
            if kind == 3:
                hidden[row] = 1
            hidden[row, places] = big
            hidden[row, places[pairs:]] *= -1
        elif kind == 4:
            ties = torch.tensor([1.0, 2.0**-11, 2.0**-12, 3 * 2.0**-12, 2.0**-13])
            hidden[row] = sign * ties[torch.randint(0, len(ties), (n,), generator=g)]
        elif kind == 5:
            hidden[row] = hidden[row].abs()
    weight = torch.randn(columns, n, generator=g)
    signs = torch.randint(0, 2, (columns, n), generator=g) * 2.0 - 1
    powers = signs * torch.exp2(torch.randint(-3, 4, (columns, n), generator=g).float())
    weight[::2] = powers[::2]
    return hidden.to(DTYPES[dtype]), weight.to(DTYPES[dtype])


# ---- counting false equals -----------------------------------------------------------------------


def random_configs(
    count: int,
    *,
    op: str = "lm_head",
    dtype: str = "fp32",
    seed: int = 0,
    arches: Sequence[str] | None = None,
) -> list[KernelConfig]:
    """`count` configurations drawn at random among those that the kernel takes for `dtype`.

    Constants are drawn log-uniformly from their ranges up to 4,096, the tile length from what then
    fits the UB.

    Example:
        >>> [len(random_configs(5, seed=s)) for s in (0, 1)]
        [5, 5]
    """
    rules, draw = spec(op), random.Random(seed)
    tile = rules.raw["ub"]["tile"]
    step = rules.raw["constants"][tile]["multiple_of"]
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InputError(f"count={count!r}; wanted a whole number of 0 or more")
    found: list[KernelConfig] = []
    empty = 0  # draws in a row that left no room for a tile
    while len(found) < count:
        if empty > _EMPTY_DRAWS:
            raise ConfigError(
                f"{empty} draws in a row left no room for a tile of {op} in the UB of "
                f"{', '.join(arches or rules.raw['archs'])} with {dtype}. Give other `arches`, or "
                "list configurations yourself"
            )
        constants: dict[str, Any] = {"arch": draw.choice(tuple(arches or rules.raw["archs"]))}
        for name, rule in rules.raw["constants"].items():
            if name != tile:
                constants[name.lower()] = _drawn(draw, rule)
        config = KernelConfig(**constants)
        most = rules.largest_tile(config.arch, dtype, config) // step
        empty += 1
        if most:  # else the other buffers alone are over the UB
            empty = 0
            steps = round(most ** draw.random())
            found.append(config.replace(**{tile.lower(): max(1, min(steps, most)) * step}))
    return found


def _drawn(draw: random.Random, rule: Mapping[str, Any]) -> int:
    if "names" in rule:
        return draw.choice(list(rule["names"].values()))
    step, most = rule.get("multiple_of", 1), min(rule.get("max", _MOST), _MOST)
    low, high = -(-rule["min"] // step), most // step
    return round(low * (max(low, high) / low) ** draw.random()) * step  # log-uniform


@dataclass(frozen=True)
class EqualsStudy(Result):
    """How often a way of grouping calls two configurations equal that are not.

    The truth comes from elsewhere: the bits of other, independent random data, and the order that
    the source declares. Two configurations are truly equal where both agree.

    Attributes:
        op, n, dtype, seed: What was drawn.
        configs: Configurations.
        pairs: Pairs of them.
        equal: Truly equal pairs.
        counts: {key: (false equal, false unequal)} for the rule of `bit_classes` and for keys that
            are wrong on purpose.
    """

    op: str
    n: int
    dtype: str
    seed: int
    configs: int
    pairs: int
    equal: int
    counts: dict[str, tuple[int, int]]

    @property
    def passed(self) -> bool:
        """True if the rule never called two configurations equal that are not."""
        return self.counts["order and bits"][0] == 0

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"grouped by": key, "false equal": wrong, "false unequal": missed}
            for key, (wrong, missed) in self.counts.items()
        ]

    def title(self) -> str:
        return (
            f"{self.configs} random configurations of {self.op}, n = {self.n}, {self.dtype}: "
            f"{self.pairs} pairs, {self.equal} of them equal"
        )


def equals_study(
    configs: Sequence[KernelConfig],
    n: int,
    *,
    op: str = "lm_head",
    dtype: str = "fp32",
    backend: str = "auto",
    seed: int = 0,
    draws: int = 4,
) -> EqualsStudy:
    """Count the false "equal" of `bit_classes` on `configs`, and of grouping keys that are wrong.

    Args:
        draws: Independent sets of data that the truth rests on, none of them used by the rule.

    Raises:
        WorkbenchError: A configuration could not be built or revealed: the count would be of less.
    """
    found = bit_classes(configs, n, op=op, dtype=dtype, backend=backend, seed=seed)
    if found.failed:
        config, why = next(iter(found.failed.items()))
        raise WorkbenchError(f"{config!r} failed, so nothing is counted: {why}")
    names = [config for one in found.classes for config in one.configs]
    data = [adversarial(n, 2 * _ROWS, _COLUMNS, dtype, seed + 1000 + draw) for draw in range(draws)]
    truth = []
    for config in names:
        kernel = _built(op, config, backend)
        bits = tuple(fixture_id(*results(op, kernel, *operands)) for operands in data)
        truth.append((declared_order(op, config, n).hash, bits))
    one_draw = adversarial(n, 1, 1, dtype, seed)
    keys: dict[str, list] = {
        "order and bits": [found.class_of(c).letter for c in names],
        "architecture": [c.arch for c in names],
        "architecture and n % tile": [(c.arch, n % _length(op, c)) for c in names],
        "bits of one output": [
            fixture_id(*results(op, _built(op, c, backend), *one_draw)) for c in names
        ],
    }
    pairs = list(itertools.combinations(range(len(names)), 2))
    same = [truth[i] == truth[j] for i, j in pairs]
    counts = {}
    for key, values in keys.items():
        called = [values[i] == values[j] for i, j in pairs]
        wrong = sum(c and not t for c, t in zip(called, same, strict=True))
        missed = sum(t and not c for c, t in zip(called, same, strict=True))
        counts[key] = (wrong, missed)
    return EqualsStudy(op, n, dtype, seed, len(names), len(pairs), sum(same), counts)


def _length(op: str, config: KernelConfig) -> int:
    return config.leaf_length if op == "det_gemm" else config.tile_length
