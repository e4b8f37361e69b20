"""Distances between systems, all of them from one CrossGram; this module has their table, `METRICS`."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["METRICS", "Metric"]


class Metric(NamedTuple):
    """A distance between systems.

    `title` is its name in tables, `matrix` the path of the function from a CrossGram to the matrix of squared
    distances, `normal_form` the only form of systems that it is defined for, if there is one. It takes
    `lambda_a` and `lambda_mu` if it is `weighted`. If it `averages`, a mean is the average of what is
    compared, see `sysbags.means.covariance_mean`.
    """

    title: str
    matrix: str
    normal_form: str | None = None
    weighted: bool = False
    averages: bool = False


METRICS = {
    "alignment": Metric("alignment", "sysbags.distances.alignment_matrix.alignment_matrix", weighted=True),
    "covariance": Metric(
        "lagged covariances", "sysbags.distances.stein.covariance_matrix", "unit-variance", True, True
    ),
    "normalized-covariance": Metric(
        "normalized lagged covariances",
        "sysbags.distances.stein.normalized_covariance_matrix",
        "unit-variance",
        True,
        True,
    ),
    "martin": Metric("Martin", "sysbags.distances.stein.martin_matrix"),
    "max-singular-value": Metric(
        "maximum singular value", "sysbags.distances.stein.max_singular_value_matrix"
    ),
    "sgot": Metric("spectral-Grassmann transport", "sysbags.distances.sgot.sgot_matrix"),
}
