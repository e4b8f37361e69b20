"""Classifiers of systems by their distances: nearest system and nearest mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_integer
from sysbags.classifiers.base import Item, SystemClassifier, TrainingClips
from sysbags.classifiers.scores import ClassScores, ScorePredictor, TrainingSet
from sysbags.classifiers.scores.centers import center_scores
from sysbags.classifiers.scores.neighbors import Neighbors, majority_vote, neighbor_scores
from sysbags.distances import METRICS
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram
from sysbags.distances.pairwise import Weight
from sysbags.distances.projection import project
from sysbags.errors import ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.means.frechet import covariance_mean, frechet_mean, medoid
from sysbags.systems.system import System

TUNED_NEIGHBORS = (1, 3, 5)


class NearestSystem(SystemClassifier):
    """Classify a clip by the labels of the nearest training clips.

    A clip is a system, or several, one per bag: then squared distances are sums over the bags, see
    `sysbags.classifiers.base.SystemClassifier`.

    Parameters
    ----------
    n_neighbors : int, default=1
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value", "sgot"}
        By default "alignment", see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float or "scale", default=0.25, 0.0
        Weights of the transition, or of the lags, and of the mean; the last three metrics have none. "scale"
        gives all parts the same unit, see `sysbags.distances.pairwise.scaled_weights`.
    bag_weights : sequence of float, optional
        One weight per bag, by default 1.
    compress : int, optional
        Number of samples of each training system; by default all.
    embedding : int or StreamEmbedding, optional
        Approximate distances, which are faster for many clips: the number of landmarks that `fit` chooses
        among the training frames, one embedding per bag, or an embedding for the only bag, which is fitted
        unless it is already. By default distances are exact.
    index : SystemIndex, optional
        An index of the training systems, for clips of one system, see `sysbags.library.SystemIndex`.
        `predict` and `kneighbors` search in it, and compute exact distances to a shortlist only. The other
        methods (`decision_function`, `predict_proba`, `predict_set`, `compare`, `explain`) still compare with
        all training systems. A model with an index cannot be saved.
    probability : bool, default=False
        Calibrate probabilities and prediction sets in `fit`, by cross-validation in five folds.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    weights_ : (B, 2) array
        `lambda_a` and `lambda_mu` of each bag, as numbers.
    scales_ : (B,) array
        What the squared distances of each bag are divided by; 1 for a single bag.
    classes_ : (C,) array
    systems_ : list of System, or of tuples of System
        The training clips.
    labels_ : (K,) array
        Their labels.
    compression_errors_ : (K,) array
        Largest relative squared error of each clip's systems after `compress`, 0 where no sample was dropped.
    embeddings_ : list of StreamEmbedding, or None
        One per bag; None for exact distances.
    embedding_errors_ : (K,) array
        The share of the squared norm of each training clip's observers that the embedding does not hold, the
        largest of its bags; 0 for exact distances.
    calibration_ : Calibration
        With `probability`.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> sysbags.NearestSystem().fit(systems, ["a", "a", "b", "b"]).predict(systems)
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    >>> index = sysbags.library.SystemIndex(systems)
    >>> sysbags.NearestSystem(index=index).fit(systems, ["a", "a", "b", "b"]).predict(systems)
    array(['a', 'a', 'b', 'b'], dtype='<U1')
    """

    systems_: list[Any]

    def __init__(
        self,
        n_neighbors: int = 1,
        *,
        metric: str = "alignment",
        lambda_a: Weight = 0.25,
        lambda_mu: Weight = 0.0,
        bag_weights: Sequence[float] | None = None,
        compress: int | None = None,
        embedding: int | StreamEmbedding | None = None,
        index: Any = None,
        probability: bool = False,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.lambda_a = lambda_a
        self.lambda_mu = lambda_mu
        self.bag_weights = bag_weights
        self.compress = compress
        self.embedding = embedding
        self.index = index
        self.probability = probability
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _learn(self, clips: TrainingClips) -> tuple[list[list[System]], npt.NDArray[Any]]:
        """Keep the training clips."""
        self._count(self.n_neighbors, len(clips.codes))
        self._check_index(clips.bags)
        return clips.bags, clips.classes[clips.codes]

    def kneighbors(
        self, systems: Sequence[Item], n_neighbors: int | None = None, return_distance: bool = True
    ) -> tuple[Array, IntArray] | IntArray:
        """Find the nearest training clips.

        Parameters
        ----------
        systems : sequence of System, or of sequences of System
        n_neighbors : int, optional
            By default the estimator's.
        return_distance : bool, default=True

        Returns
        -------
        distances : (K, n_neighbors) array
            Squared, ascending; left out if `return_distance` is false.
        indices : (K, n_neighbors) array of int
        """
        check_is_fitted(self)
        bags = self._by_bag(systems)
        asked = self.n_neighbors if n_neighbors is None else n_neighbors
        count = self._count(asked, len(self.systems_))
        if self.index is None:
            # Pairs that bounds exclude are not aligned.
            bounded = self.metric == "alignment" and len(bags) == 1 and self._bag_weights()[0] > 0.0
            between = self._to_members(bags, **({"n_neighbors": count} if bounded else {}))
            nearest = np.argsort(between, axis=1, kind="stable")[:, :count]
            distances = np.take_along_axis(between, nearest, axis=1)
        else:
            found = run(lambda clip: self.index.search(clip, count), bags[0], self.n_jobs, "neighbours")
            nearest = np.stack([each.indices for each in found])
            distances = self._bag_weights()[0] * np.stack([each.distances for each in found])
        return (distances, nearest) if return_distance else nearest

    def predict(self, systems: Sequence[Item]) -> npt.NDArray[Any]:
        """Return the label of each clip: that of most of its neighbours; ties go to the nearest.

        Parameters
        ----------
        systems : sequence of System, or of sequences of System
            One system per clip, or one per bag of each clip.
        """
        nearest = self.kneighbors(systems, return_distance=False)
        classes, codes = np.unique(self.labels_, return_inverse=True)
        return np.asarray(classes[majority_vote(codes[nearest], len(classes))])

    def compressed(self, size: int) -> Self:
        """Return a copy, without the index, that keeps at most `size` samples of each of its systems."""
        twin = super().compressed(size)
        twin.index = None
        return twin

    @classmethod
    def candidates(
        cls, clips: TrainingSet, *, tune: bool = False
    ) -> Iterator[tuple[dict[str, Any], ScorePredictor]]:
        """Yield the nearest clip; to tune, more neighbours too. See `SystemClassifier.candidates`."""
        for count in TUNED_NEIGHBORS if tune else (1,):
            parameters = {} if count == 1 else {"n_neighbors": count}
            yield parameters, Neighbors(clips.squared, clips.codes, clips.groups, count)

    def _compare(self, bags: list[list[System]]) -> ClassScores:
        """Vote among the nearest training clips."""
        classes, codes = np.unique(self.labels_, return_inverse=True)
        count = self._count(self.n_neighbors, len(codes))
        return neighbor_scores(self._to_members(bags), codes, len(classes), count)

    def _check_index(self, bags: list[list[System]]) -> None:
        """Raise an error unless the index, if there is one, is of these systems and for these distances."""
        if self.index is None:
            return
        if not hasattr(self.index, "search"):
            raise ParameterError(f"index is {self.index!r}, but it must be a SystemIndex of the systems")
        if self.embedding is not None:
            raise ParameterError("an index has an embedding of its own: leave out embedding, or the index")
        if self.metric != "alignment":
            raise ParameterError(
                f'metric is {self.metric!r}, but an index has distances of the metric "alignment" only'
            )
        if len(bags) > 1:
            raise ParameterError(f"an index is for clips of one system, but clips have {len(bags)} systems")
        if self.compress is not None:
            raise ParameterError(
                f"compress is {self.compress}, but an index has all samples: set one of the two to None"
            )
        lambda_a, lambda_mu = self.weights_[0].tolist()
        if self.index.weights != (lambda_a, lambda_mu):
            raise ParameterError(
                "the index has lambda_a = {:g} and lambda_mu = {:g}, but the classifier has {:g} and {:g}: "
                "both must have the same".format(*self.index.weights, lambda_a, lambda_mu)
            )
        if len(self.index.systems) != len(bags[0]):
            raise ParameterError(
                f"the index has {len(self.index.systems)} systems, but {len(bags[0])} are given: fit the "
                "classifier with the systems of the index"
            )
        own, given = SystemStack.of(self.index.systems), SystemStack.of(bags[0])
        for name in ("orders", "transition", "observer_gram", "mean_norm"):
            if not np.array_equal(getattr(own, name), getattr(given, name)):
                raise ParameterError(
                    "the systems are not those of the index, or in another order: fit the classifier with "
                    "the systems of the index"
                )

    def _calibrate(self, clips: TrainingClips) -> None:
        """Calibrate without the index: it has the systems that a fold leaves out."""
        index, self.index = self.index, None
        try:
            super()._calibrate(clips)
        finally:
            self.index = index

    def _count(self, n_neighbors: int, clips: int) -> int:
        count = check_integer(n_neighbors, "n_neighbors")
        if count > clips:
            raise ParameterError(f"n_neighbors is {count}, but there are only {clips} training systems")
        return count


class NearestMean(SystemClassifier):
    """Classify a clip by the nearest class mean.

    The center of a class is its Frechet mean for the alignment distance, the average of the covariances, or
    of the normalized ones, for the metrics of covariances, and its medoid for the other metrics. A clip
    may have several systems, one per bag: squared distances are then sums over the bags, and the mean of a
    class is that of each bag.
    An exact mean has as many samples as its class has training frames; with `compress` it has that many, so
    that a prediction computes classes x `compress` kernel rows, with an error that is reported. With an
    `embedding` the samples of all means are the landmarks, so that a prediction computes as many kernel rows
    as there are landmarks, whatever the number of classes.

    Parameters
    ----------
    metric : {"alignment", "covariance", "normalized-covariance", "martin", "max-singular-value", "sgot"}
        By default "alignment", see `sysbags.pairwise_distances`.
    lambda_a, lambda_mu : float or "scale", default=0.25, 0.0
        Weights of the transition, or of the lags, and of the mean; the last three metrics have none. "scale"
        gives all parts the same unit, see `sysbags.distances.pairwise.scaled_weights`.
    bag_weights : sequence of float, optional
        One weight per bag, by default 1.
    compress : int, optional
        Number of samples of each center; by default all.
    embedding : int or StreamEmbedding, optional
        Approximate distances, which are faster for many clips: the number of landmarks that `fit` chooses
        among the training frames, one embedding per bag, or an embedding for the only bag, which is fitted
        unless it is already. By default distances are exact.
    probability : bool, default=False
        Calibrate probabilities and prediction sets in `fit`, by cross-validation in five folds.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads.

    Attributes
    ----------
    weights_ : (B, 2) array
        `lambda_a` and `lambda_mu` of each bag, as numbers.
    scales_ : (B,) array
        What the squared distances of each bag are divided by; 1 for a single bag.
    classes_, labels_ : (C,) array
    centers_ : list of System, or of tuples of System
        The center of each class.
    compression_errors_ : (C,) array
        Largest relative squared error of each center's systems after `compress`, 0 where no sample was
        dropped.
    embeddings_ : list of StreamEmbedding, or None
        One per bag; None for exact distances.
    embedding_errors_ : (K,) array
        The share of the squared norm of each training clip's observers that the embedding does not hold, the
        largest of its bags; 0 for exact distances.
    calibration_ : Calibration
        With `probability`.

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
    >>> explanation = model.explain(systems)[3]
    >>> explanation.label, list(explanation.distances), list(explanation.parts)
    ('b', ['a', 'b'], ['transition', 'observer', 'mean'])
    >>> bool(np.isclose(sum(explanation.parts.values()), explanation.distances["b"]))
    True
    """

    kept = "centers_"
    centers_: list[Any]

    def __init__(
        self,
        *,
        metric: str = "alignment",
        lambda_a: Weight = 0.25,
        lambda_mu: Weight = 0.0,
        bag_weights: Sequence[float] | None = None,
        compress: int | None = None,
        embedding: int | StreamEmbedding | None = None,
        probability: bool = False,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.metric = metric
        self.lambda_a = lambda_a
        self.lambda_mu = lambda_mu
        self.bag_weights = bag_weights
        self.compress = compress
        self.embedding = embedding
        self.probability = probability
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _learn(self, clips: TrainingClips) -> tuple[list[list[System]], npt.NDArray[Any]]:
        """Compute the center of each class."""
        bags, classes, codes, _, grams = clips
        members = [np.flatnonzero(codes == code) for code in range(len(classes))]
        centers = [
            [
                self._center(k, [bag[i] for i in rows], None if grams is None else grams[k].subset(rows))
                for rows in members
            ]
            for k, bag in enumerate(bags)
        ]
        return centers, classes

    def distances(self, systems: Sequence[Item]) -> Array:
        """Return the squared distances of clips to the centers of the classes, (K, C)."""
        return self.compare(systems).distances

    def _center(self, bag: int, group: list[System], gram: CrossGram | None) -> System:
        """Return the center of some systems of a bag, in the span of the landmarks if there are any."""
        embedding = self._embedding(bag)
        if embedding is None:
            return self._mean(bag, group, gram)
        if gram is None:
            gram = cross_gram(group, n_jobs=self.n_jobs, embedding=embedding)
        return project(self._mean(bag, group, gram), embedding)

    def _mean(self, bag: int, group: list[System], gram: CrossGram | None) -> System:
        """Return the mean or the medoid of some systems of a bag."""
        lambda_a, lambda_mu = self.weights_[bag].tolist()
        if METRICS[self.metric].averages:
            lag_weight = lambda_a if self.metric == "normalized-covariance" else None
            return covariance_mean(group, normalized_by=lag_weight, n_jobs=self.n_jobs, gram=gram)
        options: dict[str, Any] = {
            "lambda_a": lambda_a,
            "lambda_mu": lambda_mu,
            "random_state": self.random_state,
            "n_jobs": self.n_jobs,
            "gram": gram,
        }
        if self.metric == "alignment":
            return frechet_mean(group, **options).system
        return group[medoid(group, self.metric, **options)]

    @classmethod
    def candidates(
        cls, clips: TrainingSet, *, tune: bool = False
    ) -> Iterator[tuple[dict[str, Any], ScorePredictor]]:
        """Yield the nearest center; there is nothing to choose. See `SystemClassifier.candidates`."""
        yield {}, clips.centers

    @classmethod
    def metrics_to_try(cls, metrics: Sequence[str]) -> Sequence[str]:
        """Return the metrics whose means are small, if there are any.

        The average of covariances is a system whose order is the sum of all orders: too large to be saved and
        used for large classes.
        """
        return [metric for metric in metrics if not METRICS[metric].averages] or metrics

    def _compare(self, bags: list[list[System]]) -> ClassScores:
        """Compare with the centers."""
        return center_scores(self._to_members(bags))
