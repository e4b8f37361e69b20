"""The methods of the comparison: those that solve the problem of `align_blocks`, and other distances.

A solver takes a pair, the weight of the transitions and a seed, and returns its rotation. dsa-metric and
fastDSA solve the problem of the transitions alone. Packages are imported when a method is called; settings
are the packages' own defaults unless the name of the method says otherwise.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.linalg

import sysbags
from benchmarks.peers import dsa_distance, pymanopt_best
from benchmarks.problems import Pair
from sysbags._common.types import Array

__all__ = ["OTHERS", "OURS", "SOLVERS", "Other", "Solver", "fast_dsa", "missing", "sgot", "wasserstein"]

OURS = "sysbags"
STARTS, LARGE, STARTS_LARGE = 10, 20, 3  # of pymanopt in each component, for orders up to LARGE and above


class Solver(NamedTuple):
    """A method that minimises the squared distance over all rotations."""

    modules: tuple[str, ...]
    observers: bool
    solve: Callable[[Pair, float, int], Array]


class Other(NamedTuple):
    """A distance of another definition: only its time can be compared."""

    modules: tuple[str, ...]
    score: Callable[[Array, Array], float]


def fast_dsa(pair: Pair, lambda_a: float, seed: int, *, method: Literal["ro", "rim", "land"]) -> Array:
    """The rotation that one of fastDSA's solvers finds with the settings of its `SimDistConfig`.

    "ro" adds a penalty for matrices that are not orthogonal, "rim" moves on the manifold, "land" is the
    landing algorithm. All start at the identity, so the seed and the weight play no part. "rim" does
    not return its matrix; it is kept when the solver creates it.
    """
    import torch
    from fastDSA import SimDistConfig

    torch.set_num_threads(1)
    config = SimDistConfig()
    common = {"lr": config.lr, "iters": config.iters, "device": "cpu"}
    matrix: Any
    if method == "ro":
        from fastDSA.RegularizationTerm import SimilarityTransformDist as Penalty

        matrix = Penalty(**common, lambda_reg=config.ro_lambda_reg, group=config.ro_group).fit(*pair[:2])
    elif method == "rim":
        from fastDSA.RiemannianManifold import SimilarityTransformDist as Manifold

        class Keeping(Manifold):  # type: ignore[misc]
            def _init_C(self, *arguments: Any) -> Any:  # noqa: N802
                self.created = super()._init_C(*arguments)
                return self.created

        solver = Keeping(**common, normalize=config.rim_normalize, so=config.rim_so, init=config.rim_init)
        solver.fit_score(*pair[:2])
        matrix = solver.created.detach()
    else:
        from fastDSA.LandingAlgorithm import SimilarityTransformDist as Landing

        landing = Landing(
            its=config.iters,
            eta=config.lr if config.eta is None else config.eta,
            gamma=config.gamma,
            n_Cmats=config.n_Cmats,
            device="cpu",
            metrics=(config.land_score_method,),
        )
        matrix = landing.fit(*pair[:2]).C_final
    return np.asarray(matrix.numpy().T, dtype=np.float64)  # it fits C in A1 = C A2 C'


def wasserstein(first: Array, second: Array) -> float:
    """dsa-metric's default score: the squared 2-Wasserstein distance between the eigenvalues.

    For normal matrices of order n, n times this score is the squared distance of the transitions.
    """
    import torch
    from DSA.simdist import SimilarityTransformDist

    torch.set_num_threads(1)
    return float(SimilarityTransformDist(score_method="wasserstein").fit_score(first, second))


def sgot(first: Array, second: Array) -> float:
    """POT's spectral-Grassmann distance of two transitions, with its eigendecompositions."""
    from ot.sgot import sgot_metric

    parts: list[Any] = []
    for matrix in (first, second):
        decomposition: tuple[Any, ...] = scipy.linalg.eig(matrix, left=True, right=True)
        eigenvalues, left, right = decomposition
        parts += [eigenvalues, right, left]
    return float(sgot_metric(*parts))


def missing(modules: tuple[str, ...]) -> list[str]:
    """Those of some modules that are not installed.

    Examples
    --------
    >>> missing(("numpy", "no_such_package", "no_such_package.part"))
    ['no_such_package', 'no_such_package.part']
    """

    def installed(module: str) -> bool:
        try:
            return importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:  # the package of a submodule
            return False

    return [module for module in modules if not installed(module)]


def _ours(pair: Pair, lambda_a: float, seed: int) -> Array:
    return sysbags.align_blocks(*pair, lambda_a=lambda_a, random_state=seed).rotation


def _dsa_metric(pair: Pair, lambda_a: float, seed: int, *, iterations: int, rate: float) -> Array:
    return dsa_distance(pair.A1, pair.A2, iterations=iterations, rate=rate, seed=seed).rotation


def _pymanopt(
    pair: Pair, lambda_a: float, seed: int, *, method: Literal["TrustRegions", "ConjugateGradient"]
) -> Array:
    starts = STARTS if len(pair.A1) <= LARGE else STARTS_LARGE
    return pymanopt_best(*pair, lambda_a, method=method, starts=starts, seed=seed).rotation


DSA_MODULES, FAST_MODULES = ("DSA", "torch"), ("fastDSA", "geoopt", "kooplearn", "torch")
# Iterations and learning rate of dsa-metric's class DSA, of its README, and of SimilarityTransformDist.
SOLVERS: dict[str, Solver] = {
    OURS: Solver((), True, _ours),
    "dsa-metric, 1,500 iterations (class DSA)": Solver(
        DSA_MODULES, False, partial(_dsa_metric, iterations=1500, rate=5e-3)
    ),
    "dsa-metric, 2,000 iterations (README)": Solver(
        DSA_MODULES, False, partial(_dsa_metric, iterations=2000, rate=1e-3)
    ),
    "dsa-metric, 200 iterations (its solver's default)": Solver(
        DSA_MODULES, False, partial(_dsa_metric, iterations=200, rate=0.01)
    ),
    "fastDSA, ro": Solver(FAST_MODULES, False, partial(fast_dsa, method="ro")),
    "fastDSA, rim": Solver(FAST_MODULES, False, partial(fast_dsa, method="rim")),
    "fastDSA, land": Solver(FAST_MODULES, False, partial(fast_dsa, method="land")),
    "pymanopt, trust regions": Solver(("pymanopt",), True, partial(_pymanopt, method="TrustRegions")),
    "pymanopt, conjugate gradient": Solver(
        ("pymanopt",), True, partial(_pymanopt, method="ConjugateGradient")
    ),
}
OTHERS: dict[str, Other] = {
    "dsa-metric, Wasserstein": Other(DSA_MODULES, wasserstein),
    "POT, ot.sgot": Other(("ot.sgot",), sgot),
}
