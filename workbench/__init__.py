"""Ascend Kernel Workbench: develop Ascend C kernels whose bits matter.

    import workbench as wb

    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=1024, arch="dav-2201"), backend="twin")
    sample = wb.samples.smollm2()
    print(wb.invariance(kernel, sample.hidden, sample.weight.float()))

Names load on first use: `import workbench` itself imports neither torch nor matplotlib.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from workbench import _npu_guard

# Must come before anything here can import torch (see the module).
_npu_guard.ensure()

__version__ = "0.1.0"

# public name -> module that has it; "" as attribute: the module itself
_LAZY = {
    "build": ("workbench.build", ""),
    "KernelConfig": ("workbench.build.config", "KernelConfig"),
    "ReductionTree": ("workbench.orders", "ReductionTree"),
    "declared_order": ("workbench.orders", "declared_order"),
    "agreement": ("workbench.numerics", "agreement"),
    "drift": ("workbench.numerics", "drift"),
    "invariance": ("workbench.numerics", "invariance"),
    "operator_invariance": ("workbench.numerics", "operator_invariance"),
    "sampler_trainer": ("workbench.numerics", "sampler_trainer"),
    "probe": ("workbench.numerics.probes", "probe"),
    "samples": ("workbench.samples", ""),
    "ops": ("workbench.ops", ""),
    "plots": ("workbench.plots", ""),
    "panel": ("workbench.widgets", "panel"),
    "WorkbenchError": ("workbench.errors", "WorkbenchError"),
    "BuildError": ("workbench.errors", "BuildError"),
    "CacheError": ("workbench.errors", "CacheError"),
    "ConfigError": ("workbench.errors", "ConfigError"),
    "InputError": ("workbench.errors", "InputError"),
    "MissingError": ("workbench.errors", "MissingError"),
    "TwinFault": ("workbench.errors", "TwinFault"),
}

__all__ = ["__version__", *_LAZY]

if TYPE_CHECKING:
    from workbench import build, ops, plots, samples
    from workbench.build.config import KernelConfig
    from workbench.errors import (
        BuildError,
        CacheError,
        ConfigError,
        InputError,
        MissingError,
        TwinFault,
        WorkbenchError,
    )
    from workbench.numerics.adapters import operator_invariance
    from workbench.numerics.agreement import agreement, sampler_trainer
    from workbench.numerics.drift import drift
    from workbench.numerics.invariance import invariance
    from workbench.numerics.probes import probe
    from workbench.orders import ReductionTree, declared_order
    from workbench.widgets.panel import panel


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}") from None
    found = importlib.import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
