"""The base of the classifiers: squared distances between clips that have one system, or one per bag."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray
from sysbags._common.validation import check_choice, check_integer, check_labels, check_weight, seed_of
from sysbags.classifiers.calibration import Calibration, ConfidenceMixin, cross_fitted_scores
from sysbags.classifiers.scores import ClassScores, ScorePredictor, TrainingSet, half_mean
from sysbags.distances import METRICS
from sysbags.distances.alignment import align
from sysbags.distances.embedding import embed, fit_embedding, fit_to_systems
from sysbags.distances.gram import CrossGram, SystemStack, cross_gram, mean_term
from sysbags.distances.pairwise import SCALE, Weight, distance_matrix, resolve_weights
from sysbags.distances.projection import EmbeddedStack, EmbeddingLoss, project
from sysbags.distances.shared import shared_cross_gram
from sysbags.distances.truncation import in_unit_variance
from sysbags.errors import ParameterError
from sysbags.kernels.embedding import StreamEmbedding
from sysbags.systems.collection import check_systems
from sysbags.systems.system import System

Item = System | Sequence[System]  # a clip: its system, or one per bag


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a system is predicted to be of a class.

    Attributes
    ----------
    label : Any
        The class that `predict` returns.
    distances : dict
        Squared distance to each class: to its center, or to its nearest training system.
    parts : dict
        What "transition", "observer" and "mean" add to the squared distance to the class `label`, weights
        included; they sum to it. For the metrics of covariances they are "covariances" and "mean"; empty for
        metrics without weights. Of several bags they are what each bag adds, by the names in the `BagUnion`
        that the systems come from, or else "bag 0", "bag 1" and so on.
    probabilities, p_values : dict, optional
        Of each class, if the classifier is calibrated, see `sysbags.classifiers.calibration.Calibration`.
    scores : dict, optional
        Of each class, where they decide: `label` has the largest, of equals the smallest distance. Of several
        neighbours they are votes. None where the smallest distance decides.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(6), size=(4, 30))
    >>> systems = sysbags.SystemIdentifier(order=2).fit_transform(streams)
    >>> explanation = sysbags.NearestMean().fit(systems, ["a", "a", "b", "b"]).explain(systems)[3]
    >>> explanation.label, min(explanation.distances, key=explanation.distances.get)
    ('b', 'b')
    >>> list(explanation.parts), explanation.probabilities is None  # fitted without probability=True
    (['transition', 'observer', 'mean'], True)
    """

    label: Any
    distances: dict[Any, float]
    parts: dict[str, float]
    probabilities: dict[Any, float] | None = None
    p_values: dict[Any, float] | None = None
    scores: dict[Any, float] | None = None


class TrainingClips(NamedTuple):
    """What a classifier learns from.

    Attributes
    ----------
    bags : list of lists of System
        The systems of all clips, bag by bag.
    classes : (C,) array
    codes : (K,) array of int
        Index of the class of each clip.
    groups : (K,) array of int
        What must not be split when probabilities are calibrated; by default each clip is a group of its own.
    grams : sequence of CrossGram or None
        Of the systems of each bag, where it is there.
    """

    bags: list[list[System]]
    classes: npt.NDArray[Any]
    codes: IntArray
    groups: IntArray
    grams: Sequence[CrossGram] | None


class SystemClassifier(ConfidenceMixin, ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """The base of the classifiers: squared distances between clips, each with one system or one per bag.

    A clip with several systems is a point of a product space. Its squared distance to another clip is the
    weighted sum of the squared distances of its systems, those of each bag divided by their scale, the
    variance of the bag: half the mean squared distance of two training clips. With one bag the distance is
    that of the metric.

    Metrics of covariances and weights "scale" need systems in the unit-variance form. Systems in the
    orthonormal form, the default of `identify`, are changed to it, in `fit` and for predictions; metrics that
    take both forms compare systems as they are given.

    With an `embedding`, the kernel is evaluated between each clip and the landmarks instead of all pairs of
    clips, and all distances are approximate, with the error that `fit_embedding` states.

    A subclass has the parameters below and implements `_learn` and `_compare`, which wrap one of
    `sysbags.classifiers.scores`, and `candidates`, by which evaluations and `sysbags fit` choose its other
    parameters. `kept` names the attribute of what clips are compared with.
    """

    kept: ClassVar[str] = "systems_"

    metric: str
    lambda_a: Weight
    lambda_mu: Weight
    bag_weights: Sequence[float] | None
    compress: int | None
    embedding: int | StreamEmbedding | None
    probability: bool
    random_state: int | np.random.Generator | None
    n_jobs: int | None
    labels_: npt.NDArray[Any]
    compression_errors_: Array
    # A model file from before there were embeddings has neither.
    embeddings_: list[StreamEmbedding] | None = None
    embedding_errors_: Array | None = None
    # Set by `evaluate.train`: cross-validated, of averages alone, and of the most frequent class.
    accuracies_: Array | None = None
    shortest_: int | None = None  # samples of the smallest training system; None in older model files
    weights_: Array
    scales_: Array
    _embedded: list[EmbeddedStack | None] | None = None  # what clips are compared with, when first needed

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, sorted."""
        return np.unique(self.labels_)

    @property
    def members_(self) -> list[Any]:
        """The training clips or centers that clips are compared with."""
        members: list[Any] = getattr(self, self.kept)
        return members

    @property
    def embedding_loss_(self) -> EmbeddingLoss | None:
        """What the embedding loses of the training clips; None for exact distances."""
        if self.embeddings_ is None or self.embedding_errors_ is None:
            return None
        return EmbeddingLoss.of([e.size for e in self.embeddings_], [self.embedding_errors_])

    def fit(
        self,
        systems: Sequence[Item],
        y: npt.ArrayLike,
        groups: npt.ArrayLike | None = None,
        *,
        grams: Sequence[CrossGram] | None = None,
    ) -> Self:
        """Learn from clips and their labels.

        Parameters
        ----------
        systems : sequence of System, or of sequences of System
            One system per clip, or one per bag of each clip.
        y : (K,) array_like
            The label of each clip.
        groups : (K,) array_like, optional
            What must not be split when `probability` is calibrated, such as the source of a clip.
        grams : sequence of CrossGram, optional
            ``cross_gram`` of the systems of each bag, where it is there: the kernel is not evaluated again.
        """
        self._check()
        self.accuracies_ = None
        bags = self._start(by_bag(systems), grams)
        self.shortest_ = min(system.size for bag in bags for system in bag)
        classes, codes = check_labels(y, len(bags[0]))
        units = np.arange(len(codes)) if groups is None else check_labels(groups, len(codes), "groups")[1]
        clips = TrainingClips(bags, classes, codes, units, grams)
        self.calibration_ = None
        members, self.labels_ = self._learn(clips)
        self._keep(members)
        if self.probability:
            self._calibrate(clips)
        return self

    def _check(self) -> None:
        """Check parameters that other classifiers do not have."""

    @abstractmethod
    def _learn(self, clips: TrainingClips) -> tuple[list[list[System]], npt.NDArray[Any]]:
        """Learn from clips; return what to compare with, bag by bag, and its labels."""

    @classmethod
    @abstractmethod
    def candidates(
        cls, clips: TrainingSet, *, tune: bool = False
    ) -> Iterator[tuple[dict[str, Any], ScorePredictor]]:
        """Yield parameters to choose from, with the scores of all training clips without their group.

        Parameters
        ----------
        clips : TrainingSet
        tune : bool, default=False
            Whether more parameters than usual are tried.
        """

    @classmethod
    def metrics_to_try(cls, metrics: Sequence[str]) -> Sequence[str]:
        """Return those of some metrics among which the classifier should be chosen; by default all."""
        return metrics

    @abstractmethod
    def _compare(self, bags: list[list[System]]) -> ClassScores:
        """Compare clips, given bag by bag, with what was learnt."""

    def predict(self, systems: Sequence[Item]) -> npt.NDArray[Any]:
        """Return the label of each clip.

        Parameters
        ----------
        systems : sequence of System, or of sequences of System
            One system per clip, or one per bag of each clip.
        """
        codes = self.compare(systems).codes
        return np.asarray(self.classes_[codes])

    def decision_function(self, systems: Sequence[Item]) -> Array:
        """Return the scores of the classes, (K, C), larger is better.

        For two classes, as in scikit-learn, one number per clip: positive for the second class.
        """
        scores = self.compare(systems).scores
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def compare(self, systems: Sequence[Item]) -> ClassScores:
        """Compare clips with what was learnt: predicted classes, scores and distances."""
        check_is_fitted(self)
        return self._compare(self._by_bag(systems))

    def explain(self, systems: Sequence[Item]) -> list[Explanation]:
        """Return what `predict` returns, with the distances to all classes and the parts of one of them.

        Parameters
        ----------
        systems : sequence of System, or of sequences of System

        Returns
        -------
        list of Explanation
            One per clip.
        """
        check_is_fitted(self)
        bags = self._by_bag(systems)
        compared = self._compare(bags)
        classes, seed = self.classes_.tolist(), seed_of(self.random_state)
        names = getattr(systems[0], "names", ())
        calibration, chances, fits = self.calibration_, None, None
        if calibration is not None:
            scores = self._calibrated_scores(compared.scores)
            chances, fits = calibration.confidence(scores, compared.distances)

        def by_class(values: Array | None, k: int) -> dict[Any, float] | None:
            return None if values is None else dict(zip(classes, values[k].tolist(), strict=True))

        def explanation(k: int) -> Explanation:
            code = compared.codes[k]
            winner = by_bag([self.members_[compared.nearest[k, code]]])
            distances = dict(zip(classes, compared.distances[k].tolist(), strict=True))
            parts = self._parts([bag[k] for bag in bags], [bag[0] for bag in winner], seed)
            if len(bags) > 1 and names:
                parts = dict(zip(names, parts.values(), strict=True))
            if "transition" in parts:  # the same number but for rounding, so that the parts sum to it
                distances[classes[code]] = sum(parts.values())
            return Explanation(
                label=classes[code],
                distances=distances,
                parts=parts,
                probabilities=by_class(chances, k),
                p_values=by_class(fits, k),
                scores=by_class(compared.deciding, k),
            )

        return run(explanation, list(range(len(bags[0]))), self.n_jobs, "explanations")

    def compressed(self, size: int) -> Self:
        """Return a copy that keeps at most `size` samples of each of its systems; see `System.compress`."""
        twin = copy(self)
        twin.compress = check_integer(size, "size")
        twin._keep(by_bag(self.members_))
        return twin

    def _by_bag(self, systems: Sequence[Item]) -> list[list[System]]:
        """Return the systems of new clips bag by bag; there must be as many bags as in training."""
        bags = by_bag(systems)
        if len(bags) != len(self.weights_):
            raise ParameterError(
                f"a clip has {len(bags)} systems, but there must be {len(self.weights_)} of them"
            )
        return self._in_form(bags)

    def _in_form(self, bags: list[list[System]]) -> list[list[System]]:
        """Change systems to the unit-variance form if the metric, or a weight "scale", needs it."""
        metric = METRICS[self.metric]
        scaled = metric.weighted and SCALE in (self.lambda_a, self.lambda_mu)
        return [in_unit_variance(bag) for bag in bags] if metric.normal_form or scaled else bags

    def _start(self, bags: list[list[System]], grams: Sequence[CrossGram] | None) -> list[list[System]]:
        """Check parameters, set weights and scales, and return the systems in the form that is needed."""
        check_choice(self.metric, "metric", METRICS)
        if self.compress is not None:
            check_integer(self.compress, "compress")
        if grams is None:
            bags = self._in_form(bags)
        self._embed(bags)
        self.weights_ = np.array(
            [resolve_weights(SystemStack.of(bag), self.metric, self.lambda_a, self.lambda_mu) for bag in bags]
        )
        self.scales_ = np.ones(len(bags))
        self._bag_weights()
        if len(bags) > 1:
            squared = self._distances(bags, None, grams)
            self.scales_ = np.array([half_mean(between) or 1.0 for between in squared])
        return bags

    def _embed(self, bags: list[list[System]]) -> None:
        """Fit the embedding of each bag, and measure what each training clip loses in it."""
        self.embeddings_, self.embedding_errors_ = None, np.zeros(len(bags[0]))
        if isinstance(self.embedding, StreamEmbedding):
            if len(bags) > 1:
                raise ParameterError(
                    f"embedding is one for a single bag, but clips have {len(bags)} systems: give the number "
                    "of landmarks, and each bag has an embedding of its own"
                )
            fitted = hasattr(self.embedding, "lost_")
            self.embeddings_ = [self.embedding if fitted else fit_to_systems(clone(self.embedding), bags[0])]
        elif self.embedding is not None:
            size, seed = check_integer(self.embedding, "embedding"), seed_of(self.random_state)
            self.embeddings_ = [fit_embedding(bag, size, random_state=seed) for bag in bags]
        for embedding, bag in zip(self.embeddings_ or [], bags, strict=False):
            lost = embed(embedding, bag, n_jobs=self.n_jobs).lost
            if embedding.landmarks_ is not None:
                self.embedding_errors_ = np.maximum(self.embedding_errors_, lost)

    def _embedding(self, bag: int) -> StreamEmbedding | None:
        """Return the embedding of a bag; None where the kernel is exact."""
        embedding = None if self.embeddings_ is None else self.embeddings_[bag]
        # With an explicit feature map the exact products are as fast, and are not rounded to float32.
        return None if embedding is None or embedding.landmarks_ is None else embedding

    def _bag_weights(self) -> Array:
        """Return what the squared distances of each bag are multiplied by."""
        bags = len(self.scales_)
        weights = [1.0] * bags if self.bag_weights is None else list(self.bag_weights)
        if len(weights) != bags:
            raise ParameterError(
                f"bag_weights has {len(weights)} numbers, but a clip has {bags} systems: one number for each"
            )
        return np.array([check_weight(weight, "a bag's weight") for weight in weights]) / self.scales_

    def _distances(
        self,
        bags: list[list[System]],
        others: list[list[System]] | None,
        grams: Sequence[CrossGram] | None = None,
        **options: Any,
    ) -> list[Array]:
        """Return the squared distances of each bag, without its weight; options are of `distance_matrix`."""
        return [
            distance_matrix(
                self._gram(k, bag, None if others is None else others[k]) if grams is None else grams[k],
                self.metric,
                lambda_a=self.weights_[k, 0],
                lambda_mu=self.weights_[k, 1],
                random_state=self.random_state,
                n_jobs=self.n_jobs,
                **options,
            )
            for k, bag in enumerate(bags)
        ]

    def _gram(self, k: int, bag: list[System], others: list[System] | None) -> CrossGram:
        """Return the CrossGram of systems of a bag, in its embedding if it has one."""
        embedding = self._embedding(k)
        if embedding is not None:
            return cross_gram(bag, others, n_jobs=self.n_jobs, embedding=embedding)
        return shared_cross_gram(bag, others, n_jobs=self.n_jobs)

    def _between(
        self,
        bags: list[list[System]],
        others: list[list[System]] | None,
        grams: Sequence[CrossGram] | None = None,
        **options: Any,
    ) -> Array:
        """Return the squared distances between clips: the weighted sum over bags."""
        squared = zip(self._bag_weights(), self._distances(bags, others, grams, **options), strict=True)
        return np.asarray(sum(weight * between for weight, between in squared))

    def _to_members(self, bags: list[list[System]], **options: Any) -> Array:
        """Return the squared distances of clips to what was learnt."""
        members = by_bag(self.members_)
        if self._embedded is None:
            embeddings = [self._embedding(k) for k in range(len(members))]
            self._embedded = [
                None if embedding is None else EmbeddedStack.of(bag, embedding, n_jobs=self.n_jobs)
                for bag, embedding in zip(members, embeddings, strict=True)
            ]
        grams = [
            self._gram(k, bag, exact) if embedded is None else embedded.gram(bag, n_jobs=self.n_jobs)
            for k, (bag, exact, embedded) in enumerate(zip(bags, members, self._embedded, strict=True))
        ]
        return self._between(bags, members, grams, **options)

    def _parts(self, clip: list[System], other: list[System], seed: int) -> dict[str, float]:
        """Return the parts of the squared distance between two clips; of several bags, that of each bag."""
        if len(clip) > 1:
            squared = self._distances([[system] for system in clip], [[system] for system in other])
            return {
                f"bag {k}": float(weight * between[0, 0])
                for k, (weight, between) in enumerate(zip(self._bag_weights(), squared, strict=True))
            }
        if not METRICS[self.metric].weighted:
            return {}
        weights, embedding = self.weights_[0], self._embedding(0)
        if embedding is not None:  # its exact inner products are those of the embedding
            clip = [project(clip[0], embedding)]
        if self.metric == "alignment":
            return align(clip[0], other[0], weights[0], weights[1], random_state=seed).parts
        gram = cross_gram(clip, other)
        mean = weights[1] * float(mean_term(gram)[0, 0]) if weights[1] > 0.0 else 0.0
        grams = [gram] if embedding is None else None
        total = float(self._distances([clip], [other], grams)[0][0, 0])
        return {"covariances": max(total - mean, 0.0), "mean": mean}

    def _class_scores(self, systems: Sequence[Item]) -> tuple[Array, Array]:
        compared = self.compare(systems)
        return self._calibrated_scores(compared.scores), compared.distances

    def _calibrated_scores(self, scores: Array) -> Array:
        """Return scores in the form that probabilities are calibrated from; by default as they are."""
        return scores

    def _calibrate(self, clips: TrainingClips) -> None:
        """Calibrate by cross-validation."""
        twin = clone(self).set_params(probability=False, compress=None)
        systems = list(zip(*clips.bags, strict=True))
        labels, seed = clips.classes[clips.codes], self.random_state
        scores, distances = cross_fitted_scores(twin, systems, labels, clips.groups, random_state=seed)
        self.calibration_ = Calibration.fit(scores, distances, clips.codes, clips.groups)

    def _keep(self, bags: list[list[System]]) -> None:
        """Set what to compare with, with fewer samples if that is asked for, and the errors of that."""
        if self.compress is not None:
            size = self.compress
            bags = [run(lambda system: system.compress(size), bag, self.n_jobs, "samples") for bag in bags]
        errors = [
            [0.0 if s.compression_error is None else s.compression_error["relative"] for s in bag]
            for bag in bags
        ]
        self.compression_errors_ = np.max(errors, axis=0)
        self._embedded = None
        setattr(self, self.kept, [clip if len(bags) > 1 else clip[0] for clip in zip(*bags, strict=True)])


def by_bag(systems: Any) -> list[list[System]]:
    """Turn one system per clip, or several, into one list of systems per bag."""
    if isinstance(systems, (System, str, bytes)) or not hasattr(systems, "__iter__"):
        check_systems(systems)  # raises
    items = [list(item) if isinstance(item, (tuple, list)) else [item] for item in systems]
    if not items or len({len(item) for item in items}) > 1 or not items[0]:
        raise ParameterError(
            "systems is empty, but it must hold at least one clip"
            if not items
            else "each clip must have the same number of systems, at least one"
        )
    return [list(check_systems(list(bag))) for bag in zip(*items, strict=True)]
