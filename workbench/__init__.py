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
    "orders": ("workbench.orders", ""),
    "reveal": ("workbench.orders.reveal", "reveal"),
    "RevealError": ("workbench.orders.reveal", "RevealError"),
    "row_orders": ("workbench.orders.reveal.rows", "row_orders"),
    "arithmetic": ("workbench.orders.arithmetic", "arithmetic"),
    "bit_classes": ("workbench.orders.classes", "bit_classes"),
    "parity": ("workbench.orders.parity", "parity"),
    "ParityError": ("workbench.orders.parity", "ParityError"),
    "synthesise": ("workbench.orders.synthesise", "synthesise"),
    "SynthesisError": ("workbench.orders.synthesise", "SynthesisError"),
    "bounds": ("workbench.numerics.bounds", "bounds"),
    "tolerance": ("workbench.numerics.tolerance", "tolerance"),
    "mutation_table": ("workbench.numerics.gates.table", "mutation_table"),
    "judge_by_standards": ("workbench.numerics.gates.standards", "standards"),
    "agreement": ("workbench.numerics", "agreement"),
    "drift": ("workbench.numerics", "drift"),
    "drift_over": ("workbench.numerics.drift.over", "drift_over"),
    "invariance": ("workbench.numerics", "invariance"),
    "operator_invariance": ("workbench.numerics", "operator_invariance"),
    "sampler_trainer": ("workbench.numerics", "sampler_trainer"),
    "probe": ("workbench.numerics.probes", "probe"),
    "samples": ("workbench.samples", ""),
    "sweep": ("workbench.sweep", ""),
    "Record": ("workbench.sweep.record", "Record"),
    "ops": ("workbench.ops", ""),
    "plots": ("workbench.plots", ""),
    "panel": ("workbench.widgets", "panel"),
    "explore": ("workbench.widgets.explore", "explore"),
    "tree_view": ("workbench.widgets.views", "tree_view"),
    "heatmap_view": ("workbench.widgets.views", "heatmap_view"),
    "drift_view": ("workbench.widgets.views", "drift_view"),
    "tolerance_panel": ("workbench.widgets.tolerance", "tolerance_panel"),
    "WorkbenchError": ("workbench.errors", "WorkbenchError"),
    "BuildError": ("workbench.errors", "BuildError"),
    "CacheError": ("workbench.errors", "CacheError"),
    "Cancelled": ("workbench.errors", "Cancelled"),
    "ConfigError": ("workbench.errors", "ConfigError"),
    "InputError": ("workbench.errors", "InputError"),
    "MissingError": ("workbench.errors", "MissingError"),
    "TwinFault": ("workbench.errors", "TwinFault"),
}

__all__ = ["__version__", *_LAZY]

if TYPE_CHECKING:
    from workbench import build, ops, orders, plots, samples, sweep
    from workbench.build.config import KernelConfig
    from workbench.errors import (
        BuildError,
        CacheError,
        Cancelled,
        ConfigError,
        InputError,
        MissingError,
        TwinFault,
        WorkbenchError,
    )
    from workbench.numerics.adapters import operator_invariance
    from workbench.numerics.agreement import agreement, sampler_trainer
    from workbench.numerics.bounds import bounds
    from workbench.numerics.drift import drift
    from workbench.numerics.drift.over import drift_over
    from workbench.numerics.gates.standards import standards as judge_by_standards
    from workbench.numerics.gates.table import mutation_table
    from workbench.numerics.invariance import invariance
    from workbench.numerics.probes import probe
    from workbench.numerics.tolerance import tolerance
    from workbench.orders import ReductionTree, declared_order
    from workbench.orders.arithmetic import arithmetic
    from workbench.orders.classes import bit_classes
    from workbench.orders.parity import ParityError, parity
    from workbench.orders.reveal import RevealError, reveal
    from workbench.orders.reveal.rows import row_orders
    from workbench.orders.synthesise import SynthesisError, synthesise
    from workbench.sweep.record import Record
    from workbench.widgets.explore import explore
    from workbench.widgets.panel import panel
    from workbench.widgets.tolerance import tolerance_panel
    from workbench.widgets.views import drift_view, heatmap_view, tree_view


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}") from None
    found = importlib.import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


# Not in `_LAZY`: `from workbench import *` must not load IPython.
def load_ipython_extension(shell: Any) -> None:
    """`%load_ext workbench`: registers `%%ascendc` (workbench/magic.py)."""
    importlib.import_module("workbench.magic").load_ipython_extension(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext workbench`."""
    importlib.import_module("workbench.magic").unload_ipython_extension(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
