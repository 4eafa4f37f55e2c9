"""A name for the code behind a run, so that a resumed sweep does not mix runs of two.

The digest of the kernel's file alone does not tell: the twin's headers and runtime decide bits, the
kernel's spec and the table of architectures decide what is built, and our Python says how far off
a result is. In a checkout all of them can be edited while the version stays.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path

from workbench import paths
from workbench.build import includes
from workbench.build.config import spec

# What computes the figures of a run, and nothing that draws or tells of them.
_PYTHON = (
    *("evidence.py", "samples.py", "ops", "sweep/cost_model.py", "sweep/fixtures.py"),
    *("sweep/measure.py", "orders/classes.py", "orders/dot.py", "orders/reveal", "orders/tree"),
    *("sweep/outputs.py", "orders/host.py", "orders/linear.py", "orders/on_host.py"),
    *("numerics/bits.py", "numerics/bounds", "numerics/drift", "numerics/exact.py"),
    *("numerics/exact_sum.py", "numerics/invariance.py", "numerics/operands.py"),
    *("numerics/transforms.py", "numerics/ulp.py"),
)


def code_digest(op: str, backend: str, anew: bool = False) -> str:
    """A name for all that decides what a run of a shipped kernel finds, beside its configuration,
    its inputs, and the versions of compiler and torch: 40 hex digits.

    Files of C++ are looked at in each call. Python counts as it was at the first call in this
    process, which goes on with what it has imported; with `anew`, as a new process would find it.

    Example:
        >>> code_digest("lm_head", "twin") == code_digest("lm_head", "npu")
        False
    """
    stamp = includes.stamp(paths.CSRC / "orders", paths.DATA)
    python = _python() if anew else _imported()
    return includes.digest(json.dumps([_native(op, backend, stamp), python]).encode())


@functools.lru_cache(maxsize=8)
def _native(op: str, backend: str, stamp: includes.Stamp) -> list[tuple[str, str]]:
    """Names and digests of the C++ and its data."""
    rules = spec(op)
    native = [rules.source, rules.source.with_suffix(".json"), paths.DATA / "architectures.json"]
    native += [*sorted(paths.ASCEND.glob("*.h")), paths.ASCEND / "npu_module.cpp"]
    if backend == "twin":
        native += _under(paths.TWIN)
        orders = paths.CSRC / "orders"  # the host kernel, of large outputs
        native += [*sorted(orders.glob("linear*")), orders / "order_host.h"]
    return [(_name(path), includes.contents(str(path))[1]) for path in native]


@functools.cache
def _imported() -> str:
    return _python()


def _python() -> str:
    files = [file for part in _PYTHON for file in _under(paths.PACKAGE / part)]
    names = [(_name(path), includes.digest(path.read_bytes())) for path in files]
    return includes.digest(json.dumps(names).encode())


def _under(path: Path) -> list[Path]:
    """The files of code at a path or below it."""
    kinds = (".py", ".json", ".h", ".inc", ".cpp")
    found: Iterable[Path] = path.rglob("*") if path.is_dir() else [path]
    return sorted(file for file in found if file.suffix in kinds)


def _name(path: Path) -> str:
    """The same in a checkout and in an installed package."""
    for root in (paths.CSRC, paths.PACKAGE):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name
