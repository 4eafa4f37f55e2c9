"""The seven transforms of a batch: the same rows in other company, and what is called on them.

`Bench` holds the rows and knows how to call the callable; each transform yields `Case`s, one result
for rows whose bits are known from the baseline. What travels with a row (its target, its upstream
gradient) moves with it through every transform.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from workbench.build.config import KernelConfig, Spec
from workbench.errors import ConfigError, InputError
from workbench.ops.inputs import NAMES

RELATIONS = {
    "T1": "batch population: the same rows in batches of other sizes",
    "T2": "position: the same rows first, in the middle and last",
    "T3": "neighbour content: random, NaN and Inf in the other rows",
    "T4": "padding: sequences padded on the left and on the right",
    "T5": "schedule: the batch in chunks; other block counts and schedules",
    "T6": "selection, packing and permutation of the rows",
    "T7": "reuse: repeats, other inputs in between, reused and poisoned output buffers",
}
TRANSFORMS = tuple(RELATIONS)

Batch = tuple[torch.Tensor, ...]  # the rows [N, H], then what travels with them, [N, ...] each


@dataclass
class Case:
    """One result to be compared: `got` [k, ...] holds the active rows number `which`."""

    label: str
    which: Sequence[int]
    got: torch.Tensor


@dataclass
class Bench:
    """The rows, and how to call the callable on a batch made of them."""

    fn: Callable[..., Any]
    weight: torch.Tensor | None
    active: Batch  # [A, ...] each
    filler: Batch  # [F, ...] each: the other rows, or random ones
    leading: bool  # the callable takes [..., H]
    call: dict[str, Any]
    generator: torch.Generator
    drawn_from: Batch  # all rows as given: the values that whole-number companions may take
    row_shape: tuple[int, ...] | None  # of one row's result; None: that of the first call
    baseline: torch.Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def total(self) -> int:
        return len(self.active[0])

    @property
    def columns(self) -> int:
        """V: rows of the weight, or the width of the rows where there is no weight."""
        return self.active[0].shape[1] if self.weight is None else len(self.weight)

    def run(self, batch: Batch, fn: Callable[..., Any] | None = None) -> torch.Tensor:
        """The callable's result for `batch`, its shape checked; not cloned."""
        out = _pure(fn or self.fn, self._arguments(batch, self.weight), self.call)
        self.check(out, batch)
        return out

    def run_into(self, batch: Batch, out: torch.Tensor) -> Any:
        return _pure(self.fn, self._arguments(batch, self.weight), {**self.call, "out": out})

    @staticmethod
    def _arguments(batch: Batch, weight: torch.Tensor | None) -> Batch:
        return batch if weight is None else (batch[0], weight, *batch[1:])

    def run_fewer_columns(self, batch: Batch) -> None:
        """A call with another weight (or narrower rows), which a callable may not remember."""
        fewer, columns = max(1, self.columns // 2), self.columns
        rows, *others = batch
        weight = self.weight
        if weight is None:
            rows = rows[:, :fewer]
        else:
            weight = weight[:fewer]
        cut = []
        for tensor in others:
            if not tensor.is_floating_point():  # ids stay ids; negative ones mean something else
                tensor = torch.where(tensor >= 0, tensor % fewer, tensor)
            elif tensor.ndim == 2 and tensor.shape[1] == columns:
                tensor = tensor[:, :fewer]
            cut.append(tensor)
        call = dict(self.call)
        if "bias" in call:
            call["bias"] = call["bias"][:fewer]
        _pure(self.fn, self._arguments((rows, *cut), weight), call)

    def check(self, out: Any, batch: Batch) -> None:
        leading = list(batch[0].shape[:-1])
        if isinstance(out, torch.Tensor):
            if self.row_shape is None and list(out.shape[: len(leading)]) == leading:
                self.row_shape = tuple(out.shape[len(leading) :])
            if self.row_shape is not None and list(out.shape) == [*leading, *self.row_shape]:
                return
        got = list(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
        wanted = [*leading, *(["..."] if self.row_shape is None else self.row_shape)]
        # Only where it was called so: the command line gives a candidate [N, H] alone.
        hint = "; if it takes [N, H] only, pass leading_dims=False" if len(leading) > 1 else ""
        raise InputError(
            f"the callable returned {got} for hidden {list(batch[0].shape)}; wanted a tensor "
            f"{wanted}{hint}"
        )

    def fillers(self, count: int) -> Batch:
        """`count` filler rows, repeated cyclically."""
        return take(self.filler, torch.arange(count) % len(self.filler[0]))

    def noise(self, count: int) -> Batch:
        """`count` random rows; their whole-number companions are drawn from the given ones."""
        drawn = []
        for given, like in zip(self.drawn_from, self.active, strict=True):
            if like.is_floating_point():
                shape = (count, *like.shape[1:])
                drawn.append(torch.randn(shape, generator=self.generator).to(like))
            else:
                at = torch.randint(len(given), (count,), generator=self.generator)
                drawn.append(given[at.to(given.device)])
        return tuple(drawn)

    def with_fillers(self) -> Batch:
        """The active rows, then as many fillers."""
        return join(self.active, self.fillers(self.total))


def _pure(fn: Callable[..., Any], arguments: Batch, options: dict[str, Any]) -> Any:
    """`fn(*arguments, **options)`; InputError if torch changed one of the inputs in place.

    The rows of one call are those of the next: a verdict on changed ones would say nothing.
    """
    named = {f"argument {i}": t for i, t in enumerate(arguments)} | {
        name: value for name, value in options.items() if name != "out"
    }
    tensors = {name: t for name, t in named.items() if isinstance(t, torch.Tensor)}

    def versions() -> dict[str, int]:
        return {name: 0 if t.is_inference() else t._version for name, t in tensors.items()}

    before = versions()
    result = fn(*arguments, **options)
    changed = [name for name, version in versions().items() if version != before[name]]
    if changed:
        raise InputError(
            f"the callable changed its {', '.join(changed)} in place; judge one that leaves its "
            "inputs as they are, or that works on a clone"
        )
    return result


def take(batch: Batch, index: Any) -> Batch:
    return tuple(tensor[index] for tensor in batch)


def join(*batches: Batch) -> Batch:
    return tuple(torch.cat(tensors) for tensors in zip(*batches, strict=True))


def each(batch: Batch, how: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
    return tuple(how(tensor) for tensor in batch)


def cases(
    name: str,
    bench: Bench,
    *,
    sizes: Sequence[int],
    position_sizes: Sequence[int],
    chunks: Sequence[int],
    max_blocks: Sequence[int],
    repeats: int,
) -> Iterator[Case]:
    """The cases of the transform `name`."""
    makers: dict[str, Callable[[], Iterator[Case]]] = {
        "T1": lambda: _population(bench, sizes),
        "T2": lambda: _position(bench, position_sizes),
        "T3": lambda: _neighbours(bench),
        "T4": lambda: _padding(bench),
        "T5": lambda: _schedule(bench, chunks, max_blocks),
        "T6": lambda: _selection(bench),
        "T7": lambda: _reuse(bench, repeats),
    }
    return makers[name]()


def _population(bench: Bench, sizes: Sequence[int]) -> Iterator[Case]:
    for size in sizes:
        for start in range(0, bench.total, size):  # a small batch holds a part of the rows
            which = range(start, min(start + size, bench.total))
            batch = join(take(bench.active, list(which)), bench.fillers(size - len(which)))
            label = f"batch of {size}, active rows {which[0]}..{which[-1]}"
            yield Case(label, which, bench.run(batch)[: len(which)])


def _position(bench: Bench, sizes: Sequence[int]) -> Iterator[Case]:
    total = bench.total
    for size in sizes:
        width = min(total, size)
        places = {"first": 0, "middle": (size - width) // 2, "last": size - width}
        for turn, (place, start) in enumerate(places.items()):
            # Turned, so that not the same row is at the very edge every time.
            which = [(turn + i) % total for i in range(width)]
            batch = bench.fillers(size)
            for tensor, active in zip(batch, bench.active, strict=True):
                tensor[start : start + width] = active[which]
            yield Case(
                f"{place} in a batch of {size}", which, bench.run(batch)[start : start + width]
            )


def _neighbours(bench: Bench) -> Iterator[Case]:
    total = bench.total
    for content in ("random", "NaN", "Inf", "-Inf", "NaN in one channel"):
        noise = bench.noise(total + 1)
        for tensor in noise:
            if content == "random" or not tensor.is_floating_point():
                continue
            if content == "NaN in one channel" and tensor.ndim > 1:
                tensor[:, 0] = float("nan")
            elif content == "NaN in one channel":
                tensor.fill_(float("nan"))
            else:
                tensor.fill_(float(content))
        batch = tuple(
            active.new_empty((2 * total + 1, *active.shape[1:])) for active in bench.active
        )
        for tensor, active, other in zip(batch, bench.active, noise, strict=True):
            tensor[0::2], tensor[1::2] = other, active  # a neighbour on each side of each row
        yield Case(f"neighbours {content}", range(total), bench.run(batch)[1::2])


def _padding(bench: Bench) -> Iterator[Case]:
    total = bench.total
    lengths = [total - total // 3, total // 3] if total > 2 else [total]  # ragged sequences
    longest = lengths[0] + 3
    for side in ("left", "right"):
        for content in ("zero", "random"):
            flat = bench.noise(len(lengths) * longest)
            if content == "zero":
                for tensor in flat:
                    if tensor.is_floating_point():
                        tensor.zero_()
            at: list[int] = []
            start = 0
            for i, length in enumerate(lengths):
                first = i * longest + (longest - length if side == "left" else 0)
                for tensor, active in zip(flat, bench.active, strict=True):
                    tensor[first : first + length] = active[start : start + length]
                at += range(first, first + length)
                start += length
            padded = each(flat, lambda t: t.unflatten(0, (-1, longest)))
            for form in [flat, padded] if bench.leading else [flat]:
                label = f"{side} padding with {content} rows, hidden {list(form[0].shape)}"
                out = bench.run(form)
                yield Case(label, range(total), out.reshape(-1, *_row_shape(bench))[at])


def _row_shape(bench: Bench) -> tuple[int, ...]:
    assert bench.row_shape is not None  # known since the baseline
    return bench.row_shape


def _schedule(bench: Bench, chunks: Sequence[int], max_blocks: Sequence[int]) -> Iterator[Case]:
    total = bench.total
    batch = bench.with_fillers()
    for chunk in chunks:
        # Cloned piece by piece: a callable may hand out the same buffer every time.
        pieces = [
            bench.run(piece).detach().clone()
            for piece in zip(*(tensor.split(chunk) for tensor in batch), strict=True)
        ]
        yield Case(f"chunks of {chunk}", range(total), torch.cat(pieces)[:total])
    for label, other in schedules(bench.fn, batch[0].dtype, max_blocks):
        yield Case(label, range(total), bench.run(batch, other)[:total])


def _selection(bench: Bench) -> Iterator[Case]:
    total = bench.total
    everyone = list(range(total))
    fillers = bench.fillers(total)
    pairs = list(zip(bench.active, fillers, strict=True))
    mixed = tuple(torch.stack(pair, 1) for pair in pairs)  # [A, 2, ...]
    flat = each(mixed, lambda t: t.flatten(0, 1))
    yield Case("selected by a strided view", everyone, bench.run(each(flat, lambda t: t[::2])))
    index = torch.arange(0, 2 * total, 2)
    yield Case("selected by index", everyone, bench.run(take(flat, index)))
    # Of what has no columns (a target a row), the first of two columns.
    wide = tuple(
        torch.stack([a, f], 1)[:, 0] if a.ndim == 1 else torch.cat([a, f], 1)[:, : a.shape[1]]
        for a, f in pairs
    )
    yield Case("columns of a wider buffer", everyone, bench.run(wide))
    duplicated = bench.run(each(bench.active, lambda t: t.repeat_interleave(2, 0)))
    yield Case("each row twice", [i // 2 for i in range(2 * total)], duplicated)
    orders = {"reversed": everyone[::-1]}
    for i in range(2):
        drawn = torch.randperm(total, generator=bench.generator).tolist()
        orders[f"permuted at random ({i})"] = drawn
    for label, order in orders.items():
        yield Case(label, order, bench.run(take(bench.active, order)))
    if bench.leading:
        out = bench.run(mixed)  # the packed form of the same rows is `flat`
        yield Case(f"unpacked as {list(mixed[0].shape)}", everyone, out[:, 0])
        yield Case("packed from that", everyone, bench.run(flat)[::2])


def _reuse(bench: Bench, repeats: int) -> Iterator[Case]:
    total = bench.total
    everyone = range(total)
    batch = bench.with_fillers()
    for i in range(repeats):
        yield Case(f"repeat {i}", everyone, bench.run(each(batch, torch.clone))[:total])
    held = bench.run(batch)
    for count in (1, 2 * total, 4 * total + 1):
        bench.run(bench.noise(count))
    bench.run_fewer_columns(bench.noise(3))
    # Not cloned before: a later call must not write into an earlier result.
    yield Case("a result held over later calls", everyone, held[:total])
    yield Case("repeat after other inputs", everyone, bench.run(batch)[:total])
    if getattr(bench.fn, "fills_memory", False):
        with _new_memory_is_nan():
            got = bench.run(batch)[:total]
        yield Case("new memory full of NaN", everyone, got)
    if not _takes_out(bench.fn):
        return
    out = bench.baseline.new_empty((2 * total, *_row_shape(bench)))
    for i, label in enumerate(("a poisoned out buffer", "the same buffer poisoned again")):
        poison(out, i)
        returned = bench.run_into(batch, out)
        yield Case(label, everyone, out[:total].clone())
        if returned is not None:
            bench.check(returned, batch)
            yield Case(f"{label}, as returned", everyone, returned[:total])
    bench.run_into(each(batch, lambda t: t.flip(0)), out)
    bench.run_into(batch, out)
    yield Case("a buffer that held another result", everyone, out[:total])


def _takes_out(fn: Callable[..., Any]) -> bool:
    try:
        return "out" in inspect.signature(fn).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False


def poison(out: torch.Tensor, turn: int) -> None:
    """Fill with NaNs of a payload that arithmetic does not make, another one each turn."""
    pattern = {2: (0x7FED, 0x7FEB), 4: (0x7FEDDEAD, 0x7FEDBEEF)}
    width = out.element_size()
    if width in pattern:
        out.view({2: torch.int16, 4: torch.int32}[width]).fill_(pattern[width][turn])
    else:
        out.fill_(float("nan"))


@contextlib.contextmanager
def _new_memory_is_nan() -> Iterator[None]:
    """Inside, torch fills what `torch.empty` gives with NaN: what is not written shows.

    For operators that make their own results, so that no poisoned buffer can be handed to them.
    """
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    settings: Any = torch.utils.deterministic
    fill = settings.fill_uninitialized_memory
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        settings.fill_uninitialized_memory = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        settings.fill_uninitialized_memory = fill


# ---- other schedules ---------------------------------------------------------------------------


def schedules(
    fn: Any, dtype: torch.dtype, max_blocks: Sequence[int]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """`fn` built otherwise, in every way that may not change a bit: (what was changed, callable).

    For a callable with `schedules(dtype, max_blocks)`, which says it itself, or with
    `rebuild(**constants)`: with a `spec`, every constant that the spec says decides no bits is
    varied; else `max_blocks` alone. No block counts: nothing is built.
    """
    if not max_blocks:
        return
    if hasattr(fn, "schedules"):
        yield from fn.schedules(dtype, max_blocks)
        return
    if not hasattr(fn, "rebuild"):
        return
    config = getattr(fn, "config", None)
    spec = getattr(fn, "spec", None)
    if spec is not None:
        changes = neutral_changes(spec, config, NAMES.get(dtype), max_blocks)
    elif (own := getattr(config, "max_blocks", None)) is not None:
        changes = [{"max_blocks": blocks} for blocks in max_blocks if blocks != own]
    else:
        return
    for change in changes:
        yield described(change), fn.rebuild(**change)


def described(change: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in change.items())


def neutral_changes(
    spec: Spec, config: KernelConfig | None, dtype: str | None, max_blocks: Sequence[int]
) -> list[dict[str, int]]:
    """Changes of constants that decide no bits, from `config`.

    One at a time: every block count, and of other numbers the smallest, one in between and the
    largest that fits. Every value that has a name (a schedule) besides: with the other constants as
    they are, all at their smallest, and all at their largest.

    Args:
        dtype: Leave out what does not fit into UB for inputs of this dtype; None: for any.
        max_blocks: Values of MAX_BLOCKS.
    """
    own = spec.complete(config)
    rules = {n: r for n, r in spec.raw["constants"].items() if not r.get("decides_bits", True)}
    named = {n: r for n, r in rules.items() if "names" in r}
    others = [n for n in rules if n not in named]
    found: list[dict[str, int]] = []
    for values in itertools.product(*(sorted(r["names"].values()) for r in named.values())):
        chosen = dict(zip((n.lower() for n in named), values, strict=True))
        base = {n: v for n, v in chosen.items() if v != getattr(own, n)}
        if not base:
            for name in others:
                some = _some_values(spec, name, own, dtype, max_blocks)
                found += [{name.lower(): value} for value in some]
            continue
        found.append(base)
        for end in (0, -1):
            change = dict(base)
            for name in others:
                some = _some_values(spec, name, own.replace(**change), dtype, max_blocks)
                change |= {name.lower(): value for value in some[end:][:1]}
            found.append(change)
    found = [c for c in found if any(getattr(own, name) != value for name, value in c.items())]
    return [c for c in found if _works(spec, own.replace(**c), dtype)]


def _idle(spec: Spec, name: str, config: KernelConfig) -> bool:
    """Whether a constant does nothing here: it counts buffers of another schedule only."""
    buffers = [b for list_ in spec.raw["ub"]["buffers"].values() for b in list_]
    uses = [b.get("when", {}) for b in buffers if b.get("times") == name]
    meant = [all(getattr(config, k.lower()) == v for k, v in when.items()) for when in uses]
    return bool(meant) and not any(meant)


def _some_values(
    spec: Spec, name: str, config: KernelConfig, dtype: str | None, max_blocks: Sequence[int]
) -> list[int]:
    """Ascending values worth a try: none where the constant does nothing."""
    if name == "MAX_BLOCKS":
        return sorted(max_blocks)
    if _idle(spec, name, config):
        return []
    rule = spec.raw["constants"][name]
    low, step = rule["min"], rule.get("multiple_of", 1)
    high = rule.get("max", rule["default"])
    if name == spec.raw["ub"]["tile"]:
        high = spec.largest_tile(config.arch, dtype or spec.dtypes[0], config)
    while high > low and not _works(spec, config.replace(**{name.lower(): high}), dtype):
        high //= 2
    high = max(high // step * step, low)
    middle = int((low * high) ** 0.5) // step * step
    return sorted({low, max(middle, low), high})


def _works(spec: Spec, config: KernelConfig, dtype: str | None) -> bool:
    try:
        spec.check(config, dtype)
    except ConfigError:
        return False
    return True
