"""Several bags together: a kernel machine on the sum of their systems' squared distances."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from sysbags._common.types import Array
from sysbags.distances.pairwise import alignment_matrix
from sysbags.evaluate.distances import mean_term
from sysbags.evaluate.entries import Alternative, EvaluationSet, MethodSpec, SystemSet
from sysbags.evaluate.machine import machine

__all__ = ["kernel_ridge_method"]

LAMBDA_A = (0.25, 1.0)
LAMBDA_MU = (100.0, 30.0, 300.0)
RIDGES = (0.015, 0.005, 0.05)  # times lambda_mu and the weights of all bags: in the unit of distances
WEIGHTS = (1.0, 0.5, 0.0)  # of each bag but the first, whose weight is 1


def kernel_ridge_method(
    names: Sequence[str],
    bags: Sequence[Sequence[SystemSet]],
    items: EvaluationSet,
    lambda_a: float | None = None,
    lambda_mu: float | None = None,
) -> MethodSpec:
    """Regularised least squares on the sum of squared alignment distances over bags.

    The weights of the distance and of the bags and the ridge are chosen, the very best of all.

    Parameters
    ----------
    names : sequence of str
        What tables call the bags.
    bags : sequence of sequences of SystemSet
        For each bag the systems of all clips, once or by three codebooks.
    items : EvaluationSet
    lambda_a, lambda_mu : float, optional
        What is given is kept.
    """
    versions = max(map(len, bags))
    grid_a = LAMBDA_A if lambda_a is None else (lambda_a,)
    grid_mu = LAMBDA_MU if lambda_mu is None else (lambda_mu,)

    def terms(view: SystemSet, a: float) -> tuple[Array, Array]:
        aligned = alignment_matrix(view.gram, a, random_state=items.seed, n_jobs=items.jobs)
        return aligned, mean_term(view.gram)

    def alternatives() -> list[Alternative]:
        found: list[Alternative] = []
        for a in grid_a:
            known = [[terms(view, a) for view in views] for views in bags]
            for mu, *further, ridge in product(grid_mu, *[WEIGHTS] * (len(bags) - 1), RIDGES):
                weights = np.array([1.0, *further])
                between = [
                    sum(
                        weight * (aligned + mu * mean)
                        for weight, views in zip(weights, known, strict=True)
                        for aligned, mean in [views[version % len(views)]]
                    )
                    for version in range(versions)
                ]
                scaled = ridge * max(mu, 1.0) * float(weights.sum())
                made = [machine(np.asarray(one), items.codes, items.groups, scaled) for one in between]
                settings = {"lambda_a": float(a), "lambda_mu": float(mu), "ridge": scaled}
                settings |= {f"weight of {name}": w for name, w in zip(names[1:], further, strict=True)}
                found.append((settings, items.judge(made)))
        return found

    title = f"{' + '.join(names)} systems, alignment"
    return MethodSpec(title, "kernel machine", "systems", alternatives, one_standard_error=False)
