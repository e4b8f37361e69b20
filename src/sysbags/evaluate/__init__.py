"""Evaluations: cross-validated accuracies of every method, with intervals, from clips, streams or systems."""

from __future__ import annotations

from sysbags.evaluate.cross_validation import (
    LAMBDA_A_GRID,
    LAMBDA_MU_GRID,
    Weights,
    choose_weights,
    leave_one_out,
)
from sysbags.evaluate.evaluation import evaluate, single_group_classes
from sysbags.report.results import Evaluation, LeaveOneOut

__all__ = [
    "LAMBDA_A_GRID",
    "LAMBDA_MU_GRID",
    "Evaluation",
    "LeaveOneOut",
    "Weights",
    "choose_weights",
    "evaluate",
    "leave_one_out",
    "single_group_classes",
]
