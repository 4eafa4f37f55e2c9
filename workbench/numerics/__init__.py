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
from workbench.numerics.contract import Contract, Judgement, Operand
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
    "Contract",
    "DriftComparison",
    "DriftResult",
    "Evidence",
    "InvarianceResult",
    "Judgement",
    "LogpAgreement",
    "Operand",
    "OperatorInputs",
    "OperatorRows",
    "SamplerTrainerResult",
    "TransformResult",
    "agreement",
    "compare_bits",
    "drift",
    "evidence",
    "fixture_id",
    "hex_bits",
    "invariance",
    "operator_inputs",
    "operator_invariance",
    "operator_rows",
    "raw_bits",
    "sampler_trainer",
]
