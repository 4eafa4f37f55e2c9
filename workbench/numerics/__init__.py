"""Judging numbers: raw bits for invariance, distance for drift; never one for the other."""

from __future__ import annotations

from workbench.evidence import Evidence, evidence, fixture_id, hex_bits, raw_bits
from workbench.numerics.adapters import (
    OperatorInputs,
    OperatorRows,
    operator_inputs,
    operator_invariance,
    operator_rows,
)
from workbench.numerics.agreement import (
    LogpAgreement,
    SamplerTrainerResult,
    agreement,
    sampler_trainer,
)
from workbench.numerics.bits import BitComparison, compare_bits
from workbench.numerics.bounds import Bounds, bounds
from workbench.numerics.contract import Contract, Judgement, Operand
from workbench.numerics.drift import DriftComparison, DriftResult, drift
from workbench.numerics.drift.over import DriftTable, drift_over
from workbench.numerics.exact_sum import rounded_dot, rounded_sum
from workbench.numerics.invariance import (
    RELATIONS,
    TRANSFORMS,
    InvarianceResult,
    TransformResult,
    invariance,
)
from workbench.numerics.tolerance import Tolerance, tolerance

__all__ = [
    "RELATIONS",
    "TRANSFORMS",
    "BitComparison",
    "Bounds",
    "Contract",
    "DriftComparison",
    "DriftResult",
    "DriftTable",
    "Evidence",
    "InvarianceResult",
    "Judgement",
    "LogpAgreement",
    "Operand",
    "OperatorInputs",
    "OperatorRows",
    "SamplerTrainerResult",
    "Tolerance",
    "TransformResult",
    "agreement",
    "bounds",
    "compare_bits",
    "drift",
    "drift_over",
    "evidence",
    "fixture_id",
    "hex_bits",
    "invariance",
    "operator_inputs",
    "operator_invariance",
    "operator_rows",
    "raw_bits",
    "rounded_dot",
    "rounded_sum",
    "sampler_trainer",
    "tolerance",
]
