"""Protocols: how well do distances, means and vectors tell classes apart, and how sure is that?"""

from __future__ import annotations

from sysbags.evaluate.left_out import (
    CLASSIFIERS,
    LAMBDA_A_GRID,
    LAMBDA_MU_GRID,
    LeaveOneOut,
    Weights,
    choose_weights,
    leave_one_out,
)

__all__ = [
    "CLASSIFIERS",
    "LAMBDA_A_GRID",
    "LAMBDA_MU_GRID",
    "LeaveOneOut",
    "Weights",
    "choose_weights",
    "leave_one_out",
]
