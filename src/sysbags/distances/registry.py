"""The list of distances between systems."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["METRICS", "Metric"]


class Metric(NamedTuple):
    """A distance between systems.

    Attributes
    ----------
    title : str
        The name in tables.
    matrix : str
        Path of the function from a CrossGram to the matrix of squared distances.
    weighted : bool
        Whether it takes `lambda_a`, `lambda_mu` and `random_state`.
    """

    title: str
    matrix: str
    weighted: bool = False


METRICS = {
    "alignment": Metric("alignment", "sysbags.distances.alignment_matrix.alignment_matrix", weighted=True),
    "martin": Metric("Martin", "sysbags.distances.baselines.martin_matrix"),
    "max-singular-value": Metric(
        "maximum singular value", "sysbags.distances.baselines.max_singular_value_matrix"
    ),
}
