"""Weights of distances in the natural units of the systems that are compared."""

from __future__ import annotations

import numpy as np

from sysbags._common.validation import check_choice, check_weight
from sysbags.distances.gram import SystemStack
from sysbags.distances.registry import METRICS
from sysbags.errors import IncompatibleSystemsError, ParameterError

__all__ = ["SCALE", "Weight", "resolve_weights", "scaled_weights"]

Weight = float | str
SCALE = "scale"
LAG_WEIGHT = 0.9  # of each lag relative to the lag before


def scaled_weights(stack: SystemStack, metric: str = "alignment") -> tuple[float, float]:
    """Return the weights with which the parts of a distance have the same unit.

    In the unit-variance form an observer has the unit of a standard deviation: ``||C||^2`` is the variance of
    the stream. So is ``||mu_1 - mu_2||^2``, while transitions have no unit. With v the average variance of
    the systems and t their average ``||A||^2``, the weights (`lambda_a`, `lambda_mu`) are

    * (v / t, 1) for "alignment": a transition counts as much as an observer, and without transitions the
      distance is that of two Gaussians, the squared 2-Wasserstein distance;
    * (0.9, v) for "covariance", whose distances have the unit of a squared variance;
    * (0.9, 1 / v) for "normalized-covariance", whose distances have no unit.

    Parameters
    ----------
    stack : SystemStack
        Of systems in the unit-variance form: the orthonormal form has no units.
    metric : {"alignment", "covariance", "normalized-covariance"}, default="alignment"

    Returns
    -------
    lambda_a, lambda_mu : float

    Examples
    --------
    >>> import sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(3, 30))
    >>> systems = [sysbags.identify(stream, order=2, normal_form="unit-variance") for stream in streams]
    >>> lambda_a, lambda_mu = scaled_weights(sysbags.cross_gram(systems).rows, "normalized-covariance")
    >>> variances = [system.observer_gram.trace() for system in systems]
    >>> lambda_a, bool(np.isclose(lambda_mu, 1.0 / np.mean(variances)))
    (0.9, True)
    """
    if stack.normal_form != "unit-variance":
        raise IncompatibleSystemsError(
            f'systems are in the {stack.normal_form} form, but the weight "{SCALE}" needs the unit-variance '
            'form: identify or SystemIdentifier with normal_form="unit-variance"'
        )
    variance = float(np.einsum("kii->k", stack.observer_gram).mean())
    if variance <= 0.0:
        raise IncompatibleSystemsError(
            f'all systems have an observer of zeros, but the weight "{SCALE}" needs one with a variance'
        )
    if metric == "alignment":
        squares = float(np.einsum("kij,kij->k", stack.transition, stack.transition).mean())
        return (variance / squares if squares > 0.0 else variance), 1.0
    if metric == "covariance":
        return LAG_WEIGHT, variance
    if metric == "normalized-covariance":
        return LAG_WEIGHT, 1.0 / variance
    raise ParameterError(f"the metric {metric!r} has no weights")


def resolve_weights(
    stack: SystemStack, metric: str, lambda_a: Weight, lambda_mu: Weight
) -> tuple[float, float]:
    """Return weights as numbers: those that are "scale" by `scaled_weights`.

    Metrics without weights ignore them.

    Examples
    --------
    >>> import sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(3, 30))
    >>> systems = [sysbags.identify(stream, order=2, normal_form="unit-variance") for stream in streams]
    >>> resolve_weights(sysbags.cross_gram(systems).rows, "alignment", 0.5, "scale")
    (0.5, 1.0)
    """
    if not METRICS[check_choice(metric, "metric", METRICS)].weighted:
        return 0.0, 0.0
    given = {"lambda_a": lambda_a, "lambda_mu": lambda_mu}
    for name, weight in given.items():
        if isinstance(weight, str) and weight != SCALE:
            raise ParameterError(
                f'{name} is {weight!r}, but it must be a number that is 0 or more, or "scale"'
            )
    scaled = scaled_weights(stack, metric) if SCALE in (lambda_a, lambda_mu) else (0.0, 0.0)
    first, second = (
        otherwise if isinstance(weight, str) else check_weight(weight, name)
        for (name, weight), otherwise in zip(given.items(), scaled, strict=True)
    )
    return first, second
