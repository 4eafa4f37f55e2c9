"""The space of a sweep: lists of values whose product is tried, and what of it cannot be built."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench._result import Result
from workbench.build import arch as architectures
from workbench.build.config import DEFAULT_ARCH, KernelConfig, spec
from workbench.errors import ConfigError, InputError

OPS = ("lm_head", "det_gemm")  # what has logits: an exact value, a bound, a drift
BACKENDS = ("auto", "twin", "npu")


@dataclass(frozen=True)
class Point:
    """One configuration for one dtype and one shape: what is built, and on how much it runs.

    Attributes:
        config: Complete: every constant has its number.
        dtype: "fp32", "bf16" or "fp16".
        shape: (rows, vocabulary ids) of the input that are used; None: all there are.
        refusal: Why it cannot be built; empty where it can.
    """

    config: KernelConfig
    dtype: str
    shape: tuple[int | None, int | None]
    refusal: str = ""


@dataclass(frozen=True)
class Space(Result):
    """The product of lists, as a value.

    Args:
        op: "lm_head" or "det_gemm".
        tiles: Values of TILE_LENGTH. An empty list, here and below: the kernel's default.
        max_blocks: Values of MAX_BLOCKS.
        schedules: Values of SCHEDULE, numbers or names ("weight_stationary").
        dtypes: Of the inputs.
        arches: Architectures.
        shapes: (rows, vocabulary ids) of each input that are used, or None for all of it.
        constants: Lists for other constants, {"weight_rows": (1, 4)}.
        out_dtype: None (that of the inputs) or "fp32".
        backend: As for `workbench.build`.
        only: Of the product only these configurations, if there are any.

    Raises:
        InputError: A list, a dtype or a shape that cannot be meant.
        ConfigError: No such operator, constant or architecture.

    Example:
        >>> space = Space(tiles=(64, 100), max_blocks=(1, 128), dtypes=("fp32", "bf16"))
        >>> len(space), [point.refusal[:15] for point in space.refused()][:1]
        (8, ['tile_length=100'])
    """

    op: str = "lm_head"
    tiles: tuple[int, ...] = ()
    max_blocks: tuple[int, ...] = ()
    schedules: tuple[int | str, ...] = ()
    dtypes: tuple[str, ...] = ("fp32",)
    arches: tuple[str, ...] = (DEFAULT_ARCH,)
    shapes: tuple[tuple[int, int] | None, ...] = ((8, 512),)
    constants: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    out_dtype: str | None = None
    backend: str = "auto"
    only: tuple[KernelConfig, ...] = ()

    def __post_init__(self) -> None:
        if self.op not in OPS:
            raise ConfigError(
                f"op={self.op!r}: a sweep knows {' and '.join(OPS)}. Of another kernel it has no "
                "exact value and no bound: build its variants and ask wb.reveal and wb.invariance "
                "(docs/sweeps.md)"
            )
        rules = spec(self.op)
        for name in ("tiles", "max_blocks", "schedules", "dtypes", "arches", "shapes"):
            object.__setattr__(self, name, _list(name, getattr(self, name)))
        object.__setattr__(
            self, "constants", {k: _list(k, v) for k, v in dict(self.constants).items()}
        )
        object.__setattr__(self, "shapes", tuple(_shape(shape) for shape in self.shapes))
        for dtype in (*self.dtypes, *([self.out_dtype] if self.out_dtype else [])):
            if dtype not in rules.dtypes:
                raise InputError(f"dtype={dtype!r}; {self.op} takes {', '.join(rules.dtypes)}")
        if not (self.dtypes and self.arches and self.shapes):
            raise InputError("dtypes, arches and shapes each need at least one value")
        for arch in self.arches:
            architectures.load(arch)
        if self.backend not in BACKENDS:
            raise InputError(f"backend={self.backend!r}; give one of {', '.join(BACKENDS)}")
        # A name that no value makes sense of is a slip of the hand, no configuration to refuse.
        for config in itertools.islice(self._configs(), 1):
            rules.complete(config)
        for name, values in self.lists().items():
            for value in values:
                rules.complete(KernelConfig().replace(**{name: value}))

    def lists(self) -> dict[str, tuple[int | str, ...]]:
        """{constant: its values}, those that have any."""
        named = {
            spec(self.op).raw["ub"]["tile"].lower(): self.tiles,
            "max_blocks": self.max_blocks,
            "schedule": self.schedules,
        }
        twice = [name for name in named if named[name] and name in self.constants]
        if twice:
            raise InputError(f"{', '.join(twice)} is given twice: as a list of its own, and in "
                             "constants. Give it once")  # fmt: skip
        if other := {"arch", "switches"} & {*self.constants}:
            raise InputError(f"constants={{{min(other)!r}: …}}: that is no constant of a kernel; "
                             "architectures are given as arches=")  # fmt: skip
        return {name: v for name, v in {**named, **self.constants}.items() if v}

    def _configs(self) -> Iterable[KernelConfig]:
        lists = self.lists()
        for arch, values in itertools.product(self.arches, itertools.product(*lists.values())):
            yield KernelConfig(arch=arch).replace(**dict(zip(lists, values, strict=True)))

    def points(self) -> list[Point]:
        """Every combination once, refused ones too; neighbours share their input."""
        rules = spec(self.op)
        given = self.only or self._configs()
        configs = list(dict.fromkeys(rules.complete(config) for config in given))
        return [
            Point(config, dtype, shape or (None, None), self._refusal(config, dtype))
            for shape, dtype, config in itertools.product(self.shapes, self.dtypes, configs)
        ]

    def refused(self) -> list[Point]:
        """What cannot be built, each with its reason in `refusal`."""
        return [point for point in self.points() if point.refusal]

    def _refusal(self, config: KernelConfig, dtype: str) -> str:
        rules = spec(self.op)
        try:
            rules.check(config, dtype)
            rules.entry(dtype, self.out_dtype or dtype)
        except ConfigError as error:
            return str(error)
        return ""

    def __len__(self) -> int:
        return len(self.points())

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = [
            {"of": name, "values": ", ".join(map(str, values))}
            for name, values in {"op": (self.op,), "arch": self.arches, "dtype": self.dtypes,
                                 **self.lists()}.items()
        ]  # fmt: skip
        texts = ("all" if s is None else f"{s[0]} x {s[1]}" for s in self.shapes)
        return [*rows, {"of": "rows x ids", "values": ", ".join(texts)}]

    def title(self) -> str:
        points = self.points()
        refused = sum(bool(point.refusal) for point in points)
        return f"{len(points)} configurations of {self.op}, {refused} of which cannot be built"


def _list(name: str, given: Any) -> tuple[Any, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{name}={given!r}; give a list of values, for example [{given!r}]")
    return tuple(dict.fromkeys(given))


def _shape(given: Any) -> tuple[int, int] | None:
    if given is None:
        return None
    try:
        rows, ids = (int(size) for size in given)
    except (TypeError, ValueError):
        raise InputError(
            f"shape {given!r}; want (rows, vocabulary ids) of the input, or None for all of it"
        ) from None
    if min(rows, ids) < 1:
        raise InputError(f"shape {given!r}; both numbers are at least 1")
    return rows, ids
