"""Drift per tile and per dtype: one table over configurations, on the same inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workbench._result import Result
from workbench.build import KernelConfig, build
from workbench.build.kernel import Kernel
from workbench.errors import InputError
from workbench.evidence import Evidence
from workbench.numerics.drift.measure import Against, Truth, judge
from workbench.numerics.drift.views import DriftResult
from workbench.ops.inputs import DTYPES, short_name
from workbench.orders.tree import ReductionTree

Configs = Iterable[int | KernelConfig] | Mapping[Any, int | KernelConfig]


@dataclass(frozen=True)
class DriftTable(Result):
    """Drifts of several configurations and input dtypes; `table[64, "fp32"]` is one of them.

    Attributes:
        drifts: {(label, dtype): DriftResult}, labels and dtypes in the order given. A label is the
            tile length where tiles were given, else the configuration's own text or the key.
    """

    drifts: dict[tuple[Any, str], DriftResult]

    def __getitem__(self, key: tuple[Any, str]) -> DriftResult:
        try:
            return self.drifts[key]
        except KeyError:
            known = ", ".join(map(repr, self.drifts))
            raise KeyError(f"{key!r} is not in this table; it has {known}") from None

    @property
    def labels(self) -> list[Any]:
        return list(dict.fromkeys(label for label, _ in self.drifts))

    @property
    def dtypes(self) -> list[str]:
        return list(dict.fromkeys(dtype for _, dtype in self.drifts))

    @property
    def evidence(self) -> list[Evidence]:
        return [found.evidence for found in self.drifts.values()]

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"config": label, "dtype": dtype, "arch": found.evidence.arch} | row
            for (label, dtype), found in self.drifts.items()
            for row in found.rows()
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "drifts": [
                {"config": str(label), "dtype": dtype} | found.to_dict()
                for (label, dtype), found in self.drifts.items()
            ]
        }

    def title(self) -> str:
        n, h, v = next(iter(self.drifts.values())).shape
        count = len(self.labels)
        return f"Drift of {count} configurations in {', '.join(self.dtypes)} at {n} x {h} x {v}"


def drift_over(
    kernel: str | Kernel | Callable[[Any], Callable[..., torch.Tensor]],
    configs: Configs,
    dtypes: Sequence[str | torch.dtype],
    hidden: torch.Tensor,
    weight: torch.Tensor,
    against: Against = ("exact", "torch.mv"),
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    *,
    tree: ReductionTree | str | None = None,
    exact: str = "fp64",
    backend: str = "auto",
) -> DriftTable:
    """`drift` for each configuration and input dtype. References are computed once a dtype.

    Args:
        kernel: Name of a shipped operator ("lm_head"), a built kernel (its other constants and its
            architecture stay), or a function of a configuration that returns a callable.
        configs: Tile lengths, `KernelConfig`s, or {label: one of them}.
        dtypes: "fp32", "bf16", "fp16" or torch dtypes, to which the inputs are rounded first. So
            dtypes differ in their inputs too, each with exact logits of its own.
        hidden, weight, against, bias, out_dtype, tree, exact: As in `drift`; tree="declared" gives
            each configuration the order it declares.
        backend: "auto", "twin" or "npu", where `kernel` is a name.

    Raises:
        InputError: No configuration or dtype, or what `drift` refuses.
        ConfigError: A configuration does not fit the kernel or the dtype.

    Example:
        >>> found = drift_over(
        ...     "lm_head", (64, 128), ["fp32"], torch.ones(2, 128), torch.ones(3, 128),
        ...     against="exact", backend="twin",
        ... )
        >>> [row["max_abs"] for row in found.rows()]
        [0.0, 0.0]
    """
    labelled = dict(configs) if isinstance(configs, Mapping) else {_label(c): c for c in configs}
    named = {_short(d): DTYPES.get(d, d) if isinstance(d, str) else d for d in dtypes}
    if not labelled or not named:
        raise InputError("there is nothing to measure; give at least one configuration and dtype")
    kernels = {label: _made(kernel, config, backend) for label, config in labelled.items()}
    found: dict[tuple[Any, str], DriftResult] = {}
    for name, dtype in named.items():
        cast = None if bias is None else bias.to(dtype)
        truth = Truth(hidden.to(dtype), weight.to(dtype), against, cast, exact)
        for label, one in kernels.items():
            found[label, name] = judge(one, truth, out_dtype, tree)
    # One configuration after the other, as they were given.
    return DriftTable({(c, d): found[c, d] for c in labelled for d in named})


def _label(config: int | KernelConfig) -> Any:
    if not isinstance(config, KernelConfig):
        return config
    return " ".join(f"{k}={v}" if k != "arch" else str(v) for k, v in config.to_dict().items())


def _short(dtype: str | torch.dtype) -> str:
    if isinstance(dtype, torch.dtype):
        return short_name(dtype)
    if dtype not in DTYPES:
        raise InputError(f"dtype {dtype!r} is unknown; give {', '.join(DTYPES)} or a torch dtype")
    return dtype


def _made(kernel: Any, config: Any, backend: str) -> Callable[..., torch.Tensor]:
    whole = isinstance(config, KernelConfig)
    if isinstance(kernel, str):
        return build(kernel, config if whole else KernelConfig(tile_length=config), backend)
    if isinstance(kernel, Kernel):
        return kernel.rebuild(**(config.to_dict() if whole else {"tile_length": config}))
    return kernel(config)
