"""Evaluations: cross-validated accuracies of every method, with intervals, from clips, streams or systems."""

from __future__ import annotations

from sysbags.evaluate.cross_validation import leave_one_out
from sysbags.evaluate.evaluation import evaluate, single_group_classes
from sysbags.evaluate.methods import METHODS
from sysbags.evaluate.results import Evaluation, LeaveOneOut
from sysbags.evaluate.settings import Protocol, Settings
from sysbags.evaluate.training import TrainedModel, train

__all__ = [
    "METHODS",
    "Evaluation",
    "LeaveOneOut",
    "Protocol",
    "Settings",
    "TrainedModel",
    "evaluate",
    "leave_one_out",
    "single_group_classes",
    "train",
]
