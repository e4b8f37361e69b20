"""Estimators with scikit-learn's manners: streams to systems, nearest system, nearest mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import check_choice, check_integer, check_labels
from sysbags.classifiers.votes import vote
from sysbags.distances.pairwise import METRICS, pairwise_distances
from sysbags.errors import ParameterError
from sysbags.means.frechet import frechet_mean, medoid
from sysbags.systems.identification import identify
from sysbags.systems.system import System
from sysbags.systems.validation import check_systems

__all__ = ["NearestMean", "NearestSystem", "SystemIdentifier"]


class SystemIdentifier(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """Turn each stream of histograms into a system (`identify`, Algorithm 1).

    Parameters
    ----------
    order : int or "auto", default=5
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, default="chi2"
    stability : {"constrained", "clip", "none"}, default="constrained"
    margin : float, default=1e-3
        The spectral norm of a transition is at most ``1 - margin``.
    n_jobs : int, optional
        Threads.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 30))
    >>> sysbags.SystemIdentifier(order=2).fit_transform(streams)[1]
    System(order=2, size=30, bag_length=6, kernel='chi2')
    """

    def __init__(
        self,
        order: int | str = 5,
        kernel: KernelLike = "chi2",
        *,
        stability: str = "constrained",
        margin: float = 1e-3,
        n_jobs: int | None = None,
    ) -> None:
        self.order = order
        self.kernel = kernel
        self.stability = stability
        self.margin = margin
        self.n_jobs = n_jobs

    def fit(self, streams: Sequence[npt.ArrayLike], labels: Any = None) -> SystemIdentifier:
        """Do nothing: each stream is identified on its own."""
        return self

    def system(self, stream: npt.ArrayLike) -> System:
        """Identify one stream, (N, p)."""
        return identify(stream, self.order, self.kernel, stability=self.stability, margin=self.margin)

    def transform(self, streams: Sequence[npt.ArrayLike]) -> list[System]:
        """Identify each stream.

        Parameters
        ----------
        streams : sequence of (N, p) array_like
        """

        def identified(numbered: tuple[int, npt.ArrayLike]) -> System:
            index, stream = numbered
            try:
                return self.system(stream)
            except ValueError as error:
                raise type(error)(f"stream {index}: {error}") from None

        return run(identified, list(enumerate(streams)), self.n_jobs, "systems")

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _ByDistance(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """What classifies by one of the distances between systems."""

    metric: str
    lambda_a: float
    lambda_mu: float
    random_state: int | np.random.Generator | None
    n_jobs: int | None

    def _between(self, systems: Sequence[System], others: Sequence[System]) -> Array:
        return pairwise_distances(
            systems,
            others,
            self.metric,
            lambda_a=self.lambda_a,
            lambda_mu=self.lambda_mu,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )


class NearestSystem(_ByDistance):
    """Classify a system by the labels of the nearest training systems.

    Parameters
    ----------
    n_neighbors : int, default=1
    metric : {"alignment", "martin", "max-singular-value"}, default="alignment"
    lambda_a, lambda_mu : float, default=0.25, 0.0
        Weights of the transition and of the mean, for "alignment".
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : (C,) array
    systems_ : list of System

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> sysbags.NearestSystem().fit(systems, ["a", "a", "b", "b"]).predict(systems)
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        metric: str = "alignment",
        lambda_a: float = 0.25,
        lambda_mu: float = 0.0,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.lambda_a = lambda_a
        self.lambda_mu = lambda_mu
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, systems: Sequence[System], labels: npt.ArrayLike) -> NearestSystem:
        """Keep the training systems and their labels."""
        members = check_systems(systems)
        check_choice(self.metric, "metric", METRICS)
        self.classes_, self._codes = check_labels(labels, len(members))
        self.systems_ = members
        self._count(self.n_neighbors)
        return self

    def kneighbors(
        self, systems: Sequence[System], n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, IntArray] | IntArray:
        """Find the nearest training systems.

        Parameters
        ----------
        systems : sequence of System
        n_neighbors : int, optional
            By default the estimator's.
        return_distance : bool, default=True

        Returns
        -------
        distances : (K, n_neighbors) array
            Squared, ascending; left out if `return_distance` is false.
        indices : (K, n_neighbors) array of int
        """
        distances = self._distances(systems)
        count = self._count(self.n_neighbors if n_neighbors is None else n_neighbors)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :count]
        return (np.take_along_axis(distances, nearest, axis=1), nearest) if return_distance else nearest

    def predict(self, systems: Sequence[System]) -> npt.NDArray[Any]:
        """Return the label that most of the nearest training systems have; ties go to the nearer."""
        distances = self._distances(systems)
        codes = vote(distances, self._codes, len(self.classes_), self._count(self.n_neighbors))
        return np.asarray(self.classes_[codes])

    def _count(self, n_neighbors: int) -> int:
        count = check_integer(n_neighbors, "n_neighbors")
        if count > len(self.systems_):
            raise ParameterError(
                f"n_neighbors is {count}, but there are only {len(self.systems_)} training systems"
            )
        return count

    def _distances(self, systems: Sequence[System]) -> Array:
        check_is_fitted(self)
        return self._between(systems, self.systems_)


class NearestMean(_ByDistance):
    """Classify a system by the nearest centre of a class.

    The centre is the class's Frechet mean for the alignment distance, its medoid for the baselines.
    An exact mean rests on every training frame of its class; with `compress` it is kept on that many
    samples, so that a prediction costs classes x `compress` kernel rows, at an error that is reported.

    Parameters
    ----------
    metric : {"alignment", "martin", "max-singular-value"}, default="alignment"
    lambda_a, lambda_mu : float, default=0.25, 0.0
        Weights of the transition and of the mean, for "alignment".
    compress : int, optional
        Samples that each class's centre is kept on; by default all.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    classes_ : (C,) array
    centers_ : list of System
        The centre of each class.
    compression_errors_ : (C,) array
        Relative squared error that `compress` made in each centre, 0 where nothing was dropped.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> model = sysbags.NearestMean(compress=20).fit(systems, ["a", "a", "b", "b"])
    >>> [mean.size for mean in model.centers_]
    [20, 20]
    >>> model.predict(systems)
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        *,
        metric: str = "alignment",
        lambda_a: float = 0.25,
        lambda_mu: float = 0.0,
        compress: int | None = None,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.lambda_a = lambda_a
        self.lambda_mu = lambda_mu
        self.compress = compress
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, systems: Sequence[System], labels: npt.ArrayLike) -> NearestMean:
        """Work out the centre of each class."""
        members = check_systems(systems)
        check_choice(self.metric, "metric", METRICS)
        if self.compress is not None:
            check_integer(self.compress, "compress")
        self.classes_, codes = check_labels(labels, len(members))
        options: dict[str, Any] = {
            "lambda_a": self.lambda_a,
            "lambda_mu": self.lambda_mu,
            "random_state": self.random_state,
            "n_jobs": self.n_jobs,
        }
        self.centers_ = []
        for code in range(len(self.classes_)):
            group = [member for member, own in zip(members, codes, strict=True) if own == code]
            if self.metric == "alignment":
                centre = frechet_mean(group, **options).system
            else:
                centre = group[medoid(group, self.metric, **options)]
            self.centers_.append(centre if self.compress is None else centre.compress(self.compress))
        self.compression_errors_ = np.array(
            [0.0 if m.compression_error is None else m.compression_error["relative"] for m in self.centers_]
        )
        return self

    def distances(self, systems: Sequence[System]) -> Array:
        """Return the squared distances of systems to the classes' centres, (K, C)."""
        check_is_fitted(self)
        return self._between(systems, self.centers_)

    def decision_function(self, systems: Sequence[System]) -> Array:
        """Return how near each class's centre is, larger is nearer: minus the squared distance, (K, C).

        For two classes, as scikit-learn has it, one number: positive for the second class.
        """
        distances = self.distances(systems)
        return distances[:, 0] - distances[:, 1] if len(self.classes_) == 2 else -distances

    def predict(self, systems: Sequence[System]) -> npt.NDArray[Any]:
        """Return the label of the class with the nearest centre."""
        nearest = self.distances(systems).argmin(axis=1)
        return np.asarray(self.classes_[nearest])
