"""Kernel configurations, and the specs that say which ones a kernel takes.

A spec (`csrc/ascend/<op>_ascend.json`, beside the `.asc`) lists the kernel's build-time constants,
the UB buffers it reserves per input dtype, and its entries. Everything that can be refused before
compiling is refused here.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
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
            `max_blocks` (the most blocks a launch uses).

    Raises:
        ConfigError: The architecture is unknown, or a constant is not an integer.

    Example:
        >>> cfg = KernelConfig(tile_length=1024, max_blocks=40, arch="dav-2201")
        >>> cfg.tile_length, cfg.replace(tile_length=64).tile_length
        (1024, 64)
    """

    __slots__ = ("arch", "constants", "switches")
    arch: str
    switches: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int], ...]

    def __init__(
        self,
        *,
        arch: str = DEFAULT_ARCH,
        switches: Mapping[str, str] | None = None,
        **constants: int,
    ) -> None:
        archs.load(arch)
        archs.switch_bits(dict(switches or {}))
        for name, value in constants.items():
            if name != name.lower() or not name.isidentifier():
                raise ConfigError(
                    f"constant {name!r}: constants are given by lower-case names, as "
                    "tile_length=1024"
                )
            if isinstance(value, bool) or not isinstance(value, int):
                raise ConfigError(
                    f"{name}={value!r}: a build-time constant is an integer, got "
                    f"{type(value).__name__}"
                )
        object.__setattr__(self, "arch", arch)
        object.__setattr__(self, "constants", tuple(sorted(constants.items())))
        object.__setattr__(self, "switches", tuple(sorted((switches or {}).items())))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a KernelConfig is immutable; use .replace({name}=…) for another one")

    def __getattr__(self, name: str) -> int:
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


def _rebuild(fields: dict[str, Any]) -> KernelConfig:
    return KernelConfig(**fields)


@dataclass(frozen=True)
class Spec:
    """What the JSON beside a kernel says of it. `raw` is the parsed file."""

    op: str
    source: Path
    raw: dict[str, Any]

    @property
    def fidelity(self) -> dict[str, Any]:
        return self.raw["fidelity"]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Input dtypes with an entry: ("fp32", "bf16", "fp16")."""
        return tuple(dict.fromkeys(entry["in"] for entry in self.raw["entries"]))

    def kernels(self, dtype: str) -> list[str]:
        """Names of the kernels that take inputs of `dtype`."""
        return [entry["kernel"] for entry in self.raw["entries"] if entry["in"] == dtype]

    def dtype_of(self, kernel: str) -> str:
        """Input dtype of the kernel of that name."""
        return next(entry["in"] for entry in self.raw["entries"] if entry["kernel"] == kernel)

    def entry(self, dtype: str, out_dtype: str) -> str:
        """Name of the kernel for these dtypes.

        Raises:
            ConfigError: There is none; the message lists those there are.
        """
        for entry in self.raw["entries"]:
            if (entry["in"], entry["out"]) == (dtype, out_dtype):
                return entry["kernel"]
        known = ", ".join(f"{e['in']} -> {e['out']}" for e in self.raw["entries"])
        raise ConfigError(f"{self.op} has no entry {dtype} -> {out_dtype}; it has {known}")

    def complete(self, config: KernelConfig | None) -> KernelConfig:
        """`config` with the kernel's defaults for every constant it does not set."""
        config = config or KernelConfig()
        known = {name.lower(): c["default"] for name, c in self.raw["constants"].items()}
        unknown = [name for name, _ in config.constants if name not in known]
        if unknown:
            raise ConfigError(
                f"{self.op} has no constant {', '.join(unknown)}; it has {', '.join(known)}"
            )
        return KernelConfig(**{**known, **config.to_dict()})

    def ub_bytes(self, dtype: str, tile: int) -> int:
        """Bytes of UB the kernel reserves for inputs of `dtype` with this tile length."""
        total = 0
        for buffer in self.raw["ub"]["buffers"][dtype]:
            size = buffer.get("bytes", 0) + buffer.get("bytes_per_element", 0) * tile
            total += buffer["count"] * -(-int(size) // DATA_BLOCK) * DATA_BLOCK
        return total

    def largest_tile(self, arch: str, dtype: str) -> int:
        """The largest tile length whose buffers fit into the UB of `arch` for inputs of `dtype`."""
        step = self.raw["constants"][self.raw["ub"]["tile"]]["multiple_of"]
        budget = archs.load(arch).ub_bytes
        # The need grows with the tile, so the answer is found by bisection over multiples.
        low, high = 0, budget // step
        while low < high:
            middle = (low + high + 1) // 2
            if self.ub_bytes(dtype, middle * step) <= budget:
                low = middle
            else:
                high = middle - 1
        return low * step

    def fits(self, config: KernelConfig, dtype: str) -> bool:
        """Whether the kernel's buffers for inputs of `dtype` fit into the UB."""
        tile = getattr(config, self.raw["ub"]["tile"].lower())
        return self.ub_bytes(dtype, tile) <= archs.load(config.arch).ub_bytes

    def check(self, config: KernelConfig, dtype: str | None = None) -> None:
        """Refuse what cannot work, before anything is compiled.

        Args:
            config: A complete configuration.
            dtype: Refuse what does not work for this input dtype; None: for any dtype at all.

        Raises:
            ConfigError: With the value given, the values that work and the largest of them.
        """
        if config.arch not in self.raw["archs"]:
            raise ConfigError(
                f"{self.op} does not run on {config.arch}; it runs on "
                f"{', '.join(self.raw['archs'])}"
            )
        for name, rule in self.raw["constants"].items():
            self._check_range(config, name, rule, dtype)
        tile = getattr(config, self.raw["ub"]["tile"].lower())
        budget = archs.load(config.arch).ub_bytes
        needs = {d: self.ub_bytes(d, tile) for d in ([dtype] if dtype else self.dtypes)}
        if min(needs.values()) > budget:
            largest = ", ".join(f"{self.largest_tile(config.arch, d)} for {d}" for d in needs)
            raise ConfigError(
                f"{self.raw['ub']['tile'].lower()}={tile} needs {min(needs.values())} bytes of UB; "
                f"{config.arch} has {budget}. The largest value that works is {largest}"
            )

    def _check_range(self, config: KernelConfig, name: str, rule: dict, dtype: str | None) -> None:
        value = getattr(config, name.lower())
        largest = rule.get("max")
        if name == self.raw["ub"]["tile"]:
            largest = max(
                self.largest_tile(config.arch, d) for d in ([dtype] if dtype else self.dtypes)
            )
        step = rule.get("multiple_of", 1)
        if value >= rule["min"] and value % step == 0 and value <= rule.get("max", value):
            return
        wanted = f"from {rule['min']} to {largest}"
        if step > 1:
            wanted = f"a multiple of {step} " + wanted
        below = min(value // step * step, largest)
        near = f"; {below} is the nearest below" if value % step and below >= rule["min"] else ""
        raise ConfigError(
            f"{name.lower()}={value}: it must be {wanted} on {config.arch} ({rule['why']}). "
            f"The largest value that works is {largest}{near}"
        )


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
