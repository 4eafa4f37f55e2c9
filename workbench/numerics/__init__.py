"""Judging numbers: raw bits for invariance, distance for drift; never one for the other."""

from __future__ import annotations

from workbench.numerics.bits import (
    BitComparison,
    Evidence,
    compare_bits,
    evidence,
    fixture_id,
    hex_bits,
    raw_bits,
)
from workbench.numerics.drift import DriftComparison, DriftResult, drift
from workbench.numerics.invariance import (
    RELATIONS,
    TRANSFORMS,
    InvarianceResult,
    TransformResult,
    invariance,
)

__all__ = [
    "RELATIONS",
    "TRANSFORMS",
    "BitComparison",
    "DriftComparison",
    "DriftResult",
    "Evidence",
    "InvarianceResult",
    "TransformResult",
    "compare_bits",
    "drift",
    "evidence",
    "fixture_id",
    "hex_bits",
    "invariance",
    "raw_bits",
]
