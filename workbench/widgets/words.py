"""Results in a line of words, as all panels say them."""

from __future__ import annotations

from typing import Any

from workbench.errors import ConfigError, WorkbenchError
from workbench.numerics import BitComparison, DriftResult, InvarianceResult
from workbench.orders import ReductionTree


def build_text(seconds: float, cached: bool, backend: str) -> str:
    """ "rebuilt in 0.21 s (twin)"."""
    how = "from the cache in" if cached else "rebuilt in"
    time = f"{seconds * 1e3:.0f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
    return f"{how} {time} ({backend})"


def order_text(tree: ReductionTree) -> str:
    """How many terms, how deep, which order."""
    return f"{tree.leaves:,} terms, longest path {tree.height:,} additions, order {tree.hash[:6]}"


def drift_text(found: DriftResult, reference: str) -> str:
    """The kernel's error, the reference's own, and how far the two are apart."""
    own, other = found["kernel", "exact"], found[reference, "exact"]
    apart = found["kernel", reference]
    return (
        f"max error against fp64: kernel {own.max_abs:.1e}, {reference} itself "
        f"{other.max_abs:.1e}; kernel against {reference} {apart.max_abs:.1e}"
    )


def bits_text(found: BitComparison, same: str, differ: str) -> str:
    """ "= bits unchanged" or "≠ 7 of 90 outputs changed their bits"."""
    if found.equal:
        return f"= {same}"
    return f"≠ {found.mismatches:,} of {found.elements:,} {differ}"


def invariance_text(found: InvarianceResult) -> str:
    """Whether a row keeps its bits, and where it first does not."""
    transforms = found.transforms
    cases, outputs = sum(t.cases for t in transforms), sum(t.elements for t in transforms)
    if found.passed:
        return f"= a row keeps its bits in {cases} batches ({outputs:,} outputs compared)"
    first = next(t for t in transforms if not t.passed)
    where = (first.first_mismatch or {}).get("case", "nothing was compared")
    bad = sum(t.mismatches for t in transforms)
    return f"≠ {bad:,} of {outputs:,} outputs change with the batch; first: {where}"


def changes_text(old: Any, new: Any, fields: dict[str, str]) -> str:
    """ "tile 4096 → 1024, MAX_BLOCKS 128 → 40", or "" where nothing changed.

    Args:
        old, new: Two states.
        fields: {attribute: its name}.
    """
    pairs = ((name, getattr(old, key), getattr(new, key)) for key, name in fields.items())
    return ", ".join(f"{name} {before} → {after}" for name, before, after in pairs
                     if before != after)  # fmt: skip


def explain(error: BaseException) -> str:
    """An error in words, for people: the class says only what kind of thing went wrong."""
    kind = type(error).__name__
    if isinstance(error, ConfigError):  # its message says all: what was given and what works
        return str(error)
    if isinstance(error, WorkbenchError):
        return f"{kind}: {error}"
    return f"Something unexpected happened. {kind}: {error}"
