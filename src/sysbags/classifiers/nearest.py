"""Classifiers of systems by their distances: nearest system and nearest mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.seeds import seed_of
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels
from sysbags.classifiers.explanation import Explanation
from sysbags.classifiers.votes import majority_vote
from sysbags.distances.alignment import align
from sysbags.distances.alignment_matrix import mean_term
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.distances.pairwise import pairwise_distances
from sysbags.distances.registry import METRICS
from sysbags.distances.weights import Weight, resolve_weights
from sysbags.errors import ParameterError
from sysbags.means.covariance import covariance_mean
from sysbags.means.frechet import frechet_mean, medoid
from sysbags.systems.system import System
from sysbags.systems.validation import check_systems

__all__ = ["NearestMean", "NearestSystem"]


class _DistanceClassifier(ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Base of the classifiers that use one of the distances between systems."""

    metric: str
    lambda_a: Weight
    lambda_mu: Weight
    lambda_a_: float
    lambda_mu_: float
    random_state: int | np.random.Generator | None
    n_jobs: int | None

    def _resolve_weights(self, systems: Sequence[System]) -> None:
        """Check the metric, and set the weights to numbers."""
        check_choice(self.metric, "metric", METRICS)
        weights = resolve_weights(SystemStack.of(systems), self.metric, self.lambda_a, self.lambda_mu)
        self.lambda_a_, self.lambda_mu_ = weights

    def _between(self, systems: Sequence[System], others: Sequence[System]) -> Array:
        return pairwise_distances(
            systems,
            others,
            self.metric,
            lambda_a=self.lambda_a_,
            lambda_mu=self.lambda_mu_,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )

    def _explain(
        self,
        systems: Sequence[System],
        classes: list[Any],
        codes: IntArray,
        nearest: Sequence[Sequence[System]],
        distances: Array,
    ) -> list[Explanation]:
        """Explain predictions.

        Parameters
        ----------
        systems : sequence of System
        classes : list of C labels
        codes : (K,) array of int
            Class index that is predicted for each.
        nearest : K sequences of C systems
            What each is compared with in each class.
        distances : (K, C) array
            Squared distances to them.
        """
        seed = seed_of(self.random_state)

        def explanation(k: int) -> Explanation:
            row = dict(zip(classes, distances[k].tolist(), strict=True))
            label = classes[codes[k]]
            if not METRICS[self.metric].weighted:
                return Explanation(label=label, distances=row, parts={})
            winner = nearest[k][codes[k]]
            if self.metric != "alignment":
                mean = 0.0
                if self.lambda_mu_ > 0.0:
                    mean = self.lambda_mu_ * float(mean_term(cross_gram([systems[k]], [winner]))[0, 0])
                parts = {"covariances": max(row[label] - mean, 0.0), "mean": mean}
                return Explanation(label=label, distances=row, parts=parts)
            alignment = align(systems[k], winner, self.lambda_a_, self.lambda_mu_, random_state=seed)
            # The same number but for rounding, so that the parts sum to it.
            return Explanation(
                label=label, distances=row | {label: alignment.distance}, parts=alignment.parts
            )

        return run(explanation, list(range(len(systems))), self.n_jobs, "explanations")


class NearestSystem(_DistanceClassifier):
    """Classify a system by the labels of the nearest training systems.

    Parameters
    ----------
    n_neighbors : int, default=1
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value"}
        By default "alignment", see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float or "scale", default=0.25, 0.0
        Weights of the transition, or of the lags, and of the mean; the last two metrics have none. "scale"
        gives all parts the same unit, see `sysbags.distances.weights.scaled_weights`.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    lambda_a_, lambda_mu_ : float
        The weights as numbers.
    classes_ : (C,) array
    systems_ : list of System
        The training systems.
    labels_ : (K,) array
        Their labels.

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
        lambda_a: Weight = 0.25,
        lambda_mu: Weight = 0.0,
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
        self._resolve_weights(members)
        classes, codes = check_labels(labels, len(members))
        self.systems_, self.labels_ = members, classes[codes]
        self._count(self.n_neighbors)
        return self

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes of the training labels, sorted."""
        return np.unique(self.labels_)

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
        """Return the label that most of the nearest training systems have; ties go to the nearest."""
        codes = self._vote(self._distances(systems))
        return np.asarray(self.classes_[codes])

    def explain(self, systems: Sequence[System]) -> list[Explanation]:
        """Return what `predict` returns, with the distances to the nearest training system of each class.

        Parameters
        ----------
        systems : sequence of System

        Returns
        -------
        list of Explanation
            One per system.
        """
        distances = self._distances(systems)
        classes = self.classes_
        same_class = self.labels_ == classes[:, None]
        nearest = np.where(same_class, distances[:, None, :], np.inf).argmin(axis=2)
        return self._explain(
            systems,
            classes.tolist(),
            self._vote(distances),
            [[self.systems_[k] for k in row] for row in nearest],
            np.take_along_axis(distances, nearest, axis=1),
        )

    def _vote(self, distances: Array) -> IntArray:
        """Return the class index of each row of distances to the training systems."""
        nearest = np.argsort(distances, axis=1, kind="stable")[:, : self._count(self.n_neighbors)]
        classes, codes = np.unique(self.labels_, return_inverse=True)
        return majority_vote(codes[nearest], len(classes))

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


class NearestMean(_DistanceClassifier):
    """Classify a system by the nearest class mean.

    The center of a class is its Frechet mean for the alignment distance, the average of the covariances, or
    of the normalized ones, for the metrics of covariances, and its medoid for the other two metrics.
    An exact mean has as many samples as its class has training frames; with `compress` it has that many, so
    that a prediction computes classes x `compress` kernel rows, with an error that is reported.

    Parameters
    ----------
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value"}
        By default "alignment", see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float or "scale", default=0.25, 0.0
        Weights of the transition, or of the lags, and of the mean; the last two metrics have none. "scale"
        gives all parts the same unit, see `sysbags.distances.weights.scaled_weights`.
    compress : int, optional
        Number of samples of each center; by default all.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    lambda_a_, lambda_mu_ : float
        The weights as numbers.
    classes_ : (C,) array
    centers_ : list of System
        The center of each class.
    compression_errors_ : (C,) array
        Relative squared error of each center after `compress`, 0 where no sample was dropped.

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
        lambda_a: Weight = 0.25,
        lambda_mu: Weight = 0.0,
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

    def fit(
        self, systems: Sequence[System], labels: npt.ArrayLike, *, gram: CrossGram | None = None
    ) -> NearestMean:
        """Compute the center of each class.

        Parameters
        ----------
        systems : sequence of System
        labels : (K,) array_like
        gram : CrossGram, optional
            ``cross_gram(systems)``, where it is there already: then the kernel is not evaluated again.
        """
        members = check_systems(systems)
        self._resolve_weights(members)
        if self.compress is not None:
            check_integer(self.compress, "compress")
        self.classes_, codes = check_labels(labels, len(members))
        options: dict[str, Any] = {
            "lambda_a": self.lambda_a_,
            "lambda_mu": self.lambda_mu_,
            "random_state": self.random_state,
            "n_jobs": self.n_jobs,
        }
        self.centers_ = []
        for code in range(len(self.classes_)):
            rows = np.flatnonzero(codes == code)
            group = [members[k] for k in rows]
            options["gram"] = None if gram is None else gram.subset(rows)
            if self.metric == "alignment":
                center = frechet_mean(group, **options).system
            elif METRICS[self.metric].averages:
                lag_weight = self.lambda_a_ if self.metric == "normalized-covariance" else None
                center = covariance_mean(
                    group, normalized_by=lag_weight, n_jobs=self.n_jobs, gram=options["gram"]
                )
            else:
                center = group[medoid(group, self.metric, **options)]
            self.centers_.append(center if self.compress is None else center.compress(self.compress))
        self.compression_errors_ = np.array(
            [0.0 if m.compression_error is None else m.compression_error["relative"] for m in self.centers_]
        )
        return self

    def distances(self, systems: Sequence[System]) -> Array:
        """Return the squared distances of systems to the centers of the classes, (K, C)."""
        check_is_fitted(self)
        return self._between(systems, self.centers_)

    def decision_function(self, systems: Sequence[System]) -> Array:
        """Return minus the squared distance to the center of each class, (K, C).

        For two classes, as in scikit-learn, one number per system: positive for the second class.
        """
        distances = self.distances(systems)
        return distances[:, 0] - distances[:, 1] if len(self.classes_) == 2 else -distances

    def predict(self, systems: Sequence[System]) -> npt.NDArray[Any]:
        """Return the label of the class with the nearest center."""
        nearest = self.distances(systems).argmin(axis=1)
        return np.asarray(self.classes_[nearest])

    def explain(self, systems: Sequence[System]) -> list[Explanation]:
        """Return what `predict` returns, with the distances to the centers of all classes.

        Parameters
        ----------
        systems : sequence of System

        Returns
        -------
        list of Explanation
            One per system.

        Examples
        --------
        >>> import numpy as np, sysbags
        >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
        >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
        >>> model = sysbags.NearestMean().fit(systems, ["a", "a", "b", "b"])
        >>> explanation = model.explain(systems)[3]
        >>> explanation.label, list(explanation.distances), list(explanation.parts)
        ('b', ['a', 'b'], ['transition', 'observer', 'mean'])
        >>> bool(np.isclose(sum(explanation.parts.values()), explanation.distances["b"]))
        True
        """
        distances = self.distances(systems)
        centers = [self.centers_] * len(distances)
        return self._explain(systems, self.classes_.tolist(), distances.argmin(axis=1), centers, distances)
