"""Kernel configurations, and the specs that say which ones a kernel takes.

A spec (`csrc/ascend/<op>_ascend.json`, beside the `.asc`) lists the kernel's build-time constants,
the UB buffers it reserves per input dtype, and its entries. Everything that can be refused before
compiling is refused here.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench import paths
from workbench.build import arch as archs
from workbench.errors import ConfigError

DEFAULT_ARCH = "dav-2201"
DATA_BLOCK = 32  # bytes; every UB buffer is a whole number of data blocks


class KernelConfig:
    """An architecture and a set of build-time constants: immutable, hashable, a value.

    Constants are given as lower-case keywords (`tile_length` stands for the macro TILE_LENGTH).
    A constant that is not given takes the kernel's own default when the kernel is built.

    Args:
        arch: Name of the architecture, for example "dav-2201" (the default) or "dav-3510".
        switches: What the vendor does not document, chosen otherwise than the twin's default for
            the architecture: {"masked_lanes": "zero" or "skip", "accumulator_start": "zero" or
            "first", "fused": "fused" or "unfused", "overflow": "inf_nan" or "saturate"}. The twin
            takes it at every launch; nothing is compiled anew.
        **constants: Integers, for the LM head `tile_length` (elements of a row per tile) and
            `max_blocks` (the most blocks a launch uses), or a name where the kernel gives its
            values names (`schedule="weight_stationary"`).

    Raises:
        ConfigError: The architecture is unknown, or a constant is neither an integer nor a name.

    Example:
        >>> cfg = KernelConfig(tile_length=1024, max_blocks=40, arch="dav-2201")
        >>> cfg.tile_length, cfg.replace(tile_length=64).tile_length
        (1024, 64)
    """

    __slots__ = ("arch", "constants", "switches")
    arch: str
    switches: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int | str], ...]

    def __init__(
        self,
        *,
        arch: str = DEFAULT_ARCH,
        switches: Mapping[str, str] | None = None,
        **constants: int | str,
    ) -> None:
        archs.load(arch)
        archs.switch_bits(dict(switches or {}))
        for name, value in constants.items():
            if name != name.lower() or not name.isidentifier():
                raise ConfigError(
                    f"constant {name!r}: constants are given by lower-case names, as "
                    "tile_length=1024"
                )
            named = isinstance(value, str) and value.isidentifier()
            if isinstance(value, bool) or not (isinstance(value, int) or named):
                raise ConfigError(
                    f"{name}={value!r}: a build-time constant is an integer or the name of one, "
                    f"got {type(value).__name__}"
                )
        object.__setattr__(self, "arch", arch)
        object.__setattr__(self, "constants", tuple(sorted(constants.items())))
        object.__setattr__(self, "switches", tuple(sorted((switches or {}).items())))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a KernelConfig is immutable; use .replace({name}=…) for another one")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for key, value in self.constants:
                if key == name:
                    return value
        raise AttributeError(
            f"this KernelConfig does not set {name!r} (the kernel's default applies when it is "
            "built)"
        )

    def replace(self, **changes: Any) -> KernelConfig:
        """The same configuration with `changes` (constants, or `arch`)."""
        return KernelConfig(**{**self.to_dict(), **changes})

    def defines(self) -> dict[str, str]:
        """The constants as macros: {"TILE_LENGTH": "1024"}."""
        return {name.upper(): str(value) for name, value in self.constants}

    def to_dict(self) -> dict[str, Any]:
        chosen = {"switches": dict(self.switches)} if self.switches else {}
        return {"arch": self.arch, **chosen, **dict(self.constants)}

    def to_key(self) -> str:
        """The configuration as one line of text, which `from_key` reads: an argument of a torch
        operator.

        Example:
            >>> cfg = KernelConfig(tile_length=64)
            >>> cfg.to_key(), KernelConfig.from_key(cfg.to_key()) == cfg
            ('{"arch": "dav-2201", "tile_length": 64}', True)
        """
        return json.dumps(self.to_dict())

    @classmethod
    def from_key(cls, key: str) -> KernelConfig:
        """The configuration that `to_key` wrote."""
        return cls(**json.loads(key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelConfig) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.arch, self.switches, self.constants))

    def __reduce__(self):
        return _rebuild, (self.to_dict(),)

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v}" for k, v in self.constants)
        if self.switches:
            inner += f"{', ' if inner else ''}switches={dict(self.switches)}"
        return f"KernelConfig({inner}{', ' if inner else ''}arch={self.arch!r})"


def as_config(config: KernelConfig | None) -> KernelConfig:
    """`config`, or an empty one for None.

    Raises:
        ConfigError: It is something else.
    """
    if config is None:
        return KernelConfig()
    if not isinstance(config, KernelConfig):
        raise ConfigError(
            f"config is a {type(config).__name__} ({config!r}); want a KernelConfig, for example "
            "KernelConfig(tile_length=1024)"
        )
    return config


def _rebuild(fields: dict[str, Any]) -> KernelConfig:
    return KernelConfig(**fields)


@dataclass(frozen=True)
class Spec:
    """What the JSON beside a kernel says of it. `raw` is the parsed file."""

    op: str
    source: Path
    raw: dict[str, Any]
    _checked: set[tuple[KernelConfig, str | None]] = field(
        default_factory=set, init=False, repr=False, compare=False
    )  # what `check` has found to work: a kernel asks at every launch

    @property
    def fidelity(self) -> dict[str, Any]:
        return self.raw["fidelity"]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Input dtypes with an entry: ("fp32", "bf16", "fp16")."""
        return tuple(dict.fromkeys(entry["in"] for entry in self.raw["entries"]))

    def kernels(self, dtype: str, role: str | None = None) -> list[str]:
        """Names of the kernels that take inputs of `dtype`; `role`: those of this role alone."""
        return [
            entry["kernel"]
            for entry in self.raw["entries"]
            if entry["in"] == dtype and role in (None, _role(entry))
        ]

    def together(self, kernel: str) -> list[str]:
        """Names of the kernels that are compiled with the one of that name: those of its input
        dtype and role. A change of a constant is seen as soon as one of them is there."""
        entry = next(entry for entry in self.raw["entries"] if entry["kernel"] == kernel)
        return self.kernels(entry["in"], _role(entry))

    def entry(self, dtype: str, out_dtype: str, role: str = "forward") -> str:
        """Name of the kernel for these dtypes; an entry without a role is a "forward" one.

        Raises:
            ConfigError: There is none; the message lists those there are.
        """
        of_role = [e for e in self.raw["entries"] if _role(e) == role]
        for entry in of_role:
            if (entry["in"], entry["out"]) == (dtype, out_dtype):
                return entry["kernel"]
        known = ", ".join(f"{e['in']} -> {e['out']}" for e in of_role) or "none"
        raise ConfigError(f"{self.op} has no {role} entry {dtype} -> {out_dtype}; it has {known}")

    def complete(self, config: KernelConfig | None) -> KernelConfig:
        """`config` with the kernel's defaults for every constant it does not set, and numbers for
        names.

        Raises:
            ConfigError: A constant or the name of a value that the kernel does not have, or
                `config` is no KernelConfig.
        """
        config = as_config(config)
        rules = {name.lower(): rule for name, rule in self.raw["constants"].items()}
        unknown = [name for name, _ in config.constants if name not in rules]
        if unknown:
            raise ConfigError(
                f"{self.op} has no constant {', '.join(unknown)}; it has {', '.join(rules)}"
            )
        numbers = {name: self._number(name, rules[name], value) for name, value in config.constants}
        given: dict[str, Any] = {name: rule["default"] for name, rule in rules.items()}
        given.update(config.to_dict())
        given.update(numbers)
        return KernelConfig(**given)

    def _number(self, name: str, rule: dict[str, Any], value: int | str) -> int:
        if isinstance(value, int):
            return value
        names = rule.get("names", {})
        if value not in names:
            known = f"one of {', '.join(names)}" if names else "an integer"
            raise ConfigError(f"{name}={value!r}: {self.op} wants {known}")
        return names[value]

    def ub_bytes(self, dtype: str, config: KernelConfig | int) -> int:
        """Bytes of UB the kernel reserves for inputs of `dtype`.

        Args:
            config: A configuration, or a tile length beside the other constants' defaults.
        """
        tile_name = self.raw["ub"]["tile"].lower()
        if isinstance(config, int):
            config = KernelConfig().replace(**{tile_name: config})
        config = self.complete(config)
        tile = getattr(config, tile_name)
        total = 0
        for buffer in self.raw["ub"]["buffers"][dtype]:
            # "when": only with these values of constants; "times": as often as a constant says.
            if any(getattr(config, k.lower()) != v for k, v in buffer.get("when", {}).items()):
                continue
            count = buffer["count"]
            if "times" in buffer:
                count *= getattr(config, buffer["times"].lower())
            size = buffer.get("bytes", 0) + buffer.get("bytes_per_element", 0) * tile
            total += count * -(-int(size) // DATA_BLOCK) * DATA_BLOCK
        return total

    def largest_tile(self, arch: str, dtype: str, config: KernelConfig | None = None) -> int:
        """The largest tile length whose buffers fit into the UB of `arch` for inputs of `dtype`.

        Args:
            config: Where the other constants come from; None: the kernel's defaults.
        """
        name = self.raw["ub"]["tile"]
        step = self.raw["constants"][name]["multiple_of"]
        budget = archs.load(arch).ub_bytes
        config = config or KernelConfig()
        # The need grows with the tile, so the answer is found by bisection over multiples.
        low, high = 0, budget // step
        while low < high:
            middle = (low + high + 1) // 2
            tried = config.replace(**{name.lower(): middle * step})
            if self.ub_bytes(dtype, tried) <= budget:
                low = middle
            else:
                high = middle - 1
        return low * step

    def fits(self, config: KernelConfig, dtype: str) -> bool:
        """Whether the kernel's buffers for inputs of `dtype` fit into the UB."""
        return self.ub_bytes(dtype, config) <= archs.load(config.arch).ub_bytes

    def check(self, config: KernelConfig, dtype: str | None = None) -> None:
        """Refuse what cannot work, before anything is compiled.

        Args:
            config: A complete configuration.
            dtype: Refuse what does not work for this input dtype; None: for any dtype at all.

        Raises:
            ConfigError: With the value given, the values that work and the largest of them.
        """
        if (config, dtype) in self._checked:
            return
        if config.arch not in self.raw["archs"]:
            raise ConfigError(
                f"{self.op} does not run on {config.arch}; it runs on "
                f"{', '.join(self.raw['archs'])}"
            )
        for name, rule in self.raw["constants"].items():
            self._check_range(config, name, rule, dtype)
        tile = getattr(config, self.raw["ub"]["tile"].lower())
        budget = archs.load(config.arch).ub_bytes
        needs = {d: self.ub_bytes(d, config) for d in ([dtype] if dtype else self.dtypes)}
        if min(needs.values()) > budget:
            largest = ", ".join(
                f"{self.largest_tile(config.arch, d, config)} for {d}" for d in needs
            )
            raise ConfigError(
                f"{self.raw['ub']['tile'].lower()}={tile} needs {min(needs.values())} bytes of UB; "
                f"{config.arch} has {budget}. The largest value that works is {largest}"
            )
        self._checked.add((config, dtype))

    def _check_range(self, config: KernelConfig, name: str, rule: dict, dtype: str | None) -> None:
        value = getattr(config, name.lower())
        names = rule.get("names")
        if names:
            if value in names.values():
                return
            known = ", ".join(f"{v} ({k})" for k, v in names.items())
            raise ConfigError(f"{name.lower()}={value}: {self.op} has {known}; {rule['why']}")
        largest = rule.get("max")
        step = rule.get("multiple_of", 1)
        if value >= rule["min"] and value % step == 0 and value <= rule.get("max", value):
            return  # before the search below, which a cached build would pay for
        if name == self.raw["ub"]["tile"]:
            largest = max(
                self.largest_tile(config.arch, d, config)
                for d in ([dtype] if dtype else self.dtypes)
            )
        wanted = f"from {rule['min']} to {largest}"
        if step > 1:
            wanted = f"a multiple of {step} " + wanted
        below = min(value // step * step, largest)
        off = value % step and rule["min"] <= below < largest
        near = f"; {below} is the nearest below" if off else ""
        raise ConfigError(
            f"{name.lower()}={value}: it must be {wanted} on {config.arch} ({rule['why']}). "
            f"The largest value that works is {largest}{near}"
        )


def _role(entry: dict[str, str]) -> str:
    return entry.get("role", "forward")


@functools.cache
def specs() -> dict[str, Spec]:
    """The specs of all shipped kernels, by op name."""
    found = {}
    for path in sorted(paths.ASCEND.glob("*.json")):
        raw = json.loads(path.read_text())
        found[raw["op"]] = Spec(raw["op"], path.parent / raw["source"], raw)
    return found


def spec(op: str) -> Spec:
    """The spec of the shipped kernel `op`.

    Raises:
        ConfigError: No kernel of that name is shipped.
    """
    try:
        return specs()[op]
    except KeyError:
        raise ConfigError(
            f"no kernel is called {op!r}; shipped ones are {', '.join(specs())}. "
            "For your own pass the path of its .asc file"
        ) from None
