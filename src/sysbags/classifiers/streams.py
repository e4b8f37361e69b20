"""A classifier of streams: kernel ridge on their moments, with everything chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from sysbags._common.cache import fingerprint
from sysbags._common.estimator import SequenceEstimator
from sysbags._common.memory import MEMORY
from sysbags._common.parallel import run
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import (
    check_choice,
    check_integer,
    check_labels,
    check_per_bag,
    check_two_classes,
    has_several_streams,
    seed_of,
    warn_if_exchanged,
)
from sysbags.classifiers.base import Explanation
from sysbags.classifiers.calibration import Calibration, ConfidenceMixin
from sysbags.classifiers.scores import ClassScores, half_mean, nearest_of_each_class
from sysbags.classifiers.scores.committee import (
    COMBINATIONS,
    MOST_ITEMS,
    CommitteeFit,
    Member,
    better_predictions,
    choose_committee,
    committee_scores,
    fit_committee,
    usual_members,
)
from sysbags.classifiers.scores.folds import balanced_folds
from sysbags.classifiers.scores.moments import TERMS, Moments, lag_grid, moments_of_paths
from sysbags.classifiers.scores.ridge import log_shares
from sysbags.errors import ParameterError
from sysbags.kernels.embedding import StreamEmbedding, check_streams
from sysbags.kernels.functions import check_kernel

FRAMES = 4096  # that are embedded at a time


class StreamClassifier(ConfidenceMixin, ClassifierMixin, SequenceEstimator):  # type: ignore[misc]
    """Classify streams of histograms by their moments, with everything chosen by cross-validation.

    Each stream becomes a path in one space (`sysbags.StreamEmbedding`), and each path a few numbers: its
    average, the averages over each eighth of it, and its covariances with itself some steps later, for lags
    0, 1, 2, 4 and so on up to a quarter of the shortest training clip. Between these there are four squared
    distances; covariances count both as they are and divided by their norm. Kernel ridge classifiers of their
    sums, for several ridges, linear or with a Gaussian, are compared on folds that are held out, and the ten
    best vote with their average score. Ties go to averages over time, which are always among the candidates;
    if they alone are more accurate in nested cross-validation, they are all that is used.

    Time and memory grow linearly with the number of clips. Above 1,000 clips, settings are chosen on 1,000
    of them, which are also what new clips are compared with; all clips are learnt from.

    Parameters
    ----------
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, or a sequence, default="chi2"
        A sequence has one entry for each bag. "linear" is for values that are not histograms.
    size : int, default=256
        Number of landmarks of each embedding.
    components : int, default=32
        Number of coordinates, the principal directions, that covariances are between.
    combinations : sequence of sequences of str
        The sums of distances to choose from, by the names "averages", "course", "covariances" and "normalized
        covariances"; by default these with and without averages or their course.
    random_state : int, Generator or None, default=0
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Attributes
    ----------
    classes_ : (C,) array
    embeddings_ : list of StreamEmbedding
        One per bag.
    bins_ : (B,) array of int
        The number of bins of each bag.
    lags_ : (L,) array of int
    shortest_ : int or None
        The number of rows of the shortest training stream; None in older model files.
    moments_ : list of Moments
        Of the clips that new ones are compared with, one per bag.
    labels_ : (K,) array
        The labels of these.
    term_weights_ : (M, T) array
        The weights of the terms of the squared distance, of each of the classifiers that vote.
    shares_ : (T,) array
        The share of each term in the squared distances of training clips.
    widths_, ridges_ : (M,) array
        Their Gaussians, 0 for none, and ridges.
    coefficients_ : (M, K, C) array
    intercepts_ : (M, C) array
    calibration_ : Calibration or None
        None if there is a single group of clips.
    estimate_ : (3, E) array of int, or None
        What nested cross-validation in at most ten folds predicts: the indices of the training clips, of many
        a part, and the codes of their classes as predicted by the classifier, and by averages over time
        alone. For each fold everything is chosen by the others, also whether averages are all that is used.
        None if there is a single group.
    accuracy_, averages_accuracy_ : float or None
        The accuracies of the estimate, and of averages over time alone.
    tried_ : int
        The number of candidates.

    Examples
    --------
    >>> import sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, labels = make_streams(classes=2, per_class=8, noise=0.3)
    >>> model = sysbags.StreamClassifier().fit(streams[::2], labels[::2])
    >>> bool((model.predict(streams[1::2]) == labels[1::2]).all())
    True
    >>> model.accuracy_, model.predict_proba(streams[:1]).shape
    (1.0, (1, 2))
    """

    calibration_: Calibration | None
    estimate_: IntArray | None
    shortest_: int | None = None

    def __init__(
        self,
        kernel: KernelLike | Sequence[KernelLike] = "chi2",
        *,
        size: int = 256,
        components: int = 32,
        combinations: Sequence[Sequence[str]] = COMBINATIONS,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel: Any = kernel
        self.size = size
        self.components = components
        self.combinations = combinations
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, sorted."""
        return np.unique(self.labels_)

    @property
    def members_(self) -> list[Member]:
        """The classifiers that vote."""
        check_is_fitted(self, "ridges_")
        numbers = zip(self.term_weights_, self.widths_.tolist(), self.ridges_.tolist(), strict=True)
        return [Member(*each) for each in numbers]

    def fit(self, streams: Sequence[Any], y: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Self:
        """Learn from streams and their labels.

        Parameters
        ----------
        streams : sequence of (N, p) array_like, or of tuples of these
            One stream per clip, or one per bag of each clip.
        y : (K,) array_like
            The label of each clip.
        groups : (K,) array_like, optional
            What must not be split in cross-validation, such as the recording that a clip was cut from.
        """
        check_integer(self.components, "components")
        for names in self.combinations:
            if isinstance(names, str):
                raise ParameterError(f"combinations holds {names!r}, but it must hold sequences of names")
            for name in names:
                check_choice(name, "combinations", TERMS)
        warn_if_exchanged(streams, self.kernel)
        bags, seed = by_bag(streams), seed_of(self.random_state)
        classes, codes = check_labels(y, len(bags[0]))
        check_two_classes(classes)
        kernels = [check_kernel(kernel) for kernel in check_per_bag(self.kernel, "kernel", len(bags))]
        bags = [check_streams(bag, kernel) for bag, kernel in zip(bags, kernels, strict=True)]
        # By their contents, so that the model is the same in whatever order the clips are given.
        prints = [fingerprint([bag[k] for bag in bags]) for k in range(len(codes))]
        order = np.array(sorted(range(len(codes)), key=prints.__getitem__))
        bags, codes = [[bag[k] for k in order] for bag in bags], codes[order]
        units = np.arange(len(codes))
        if groups is not None:
            units = check_labels(groups, len(codes), "groups")[1][order]
        kept = items_to_keep(codes, seed)
        self.bins_ = np.array([bag[0].shape[1] for bag in bags])
        self.shortest_ = min(len(stream) for bag in bags for stream in bag)
        self.lags_ = lag_grid(self.shortest_)
        self.embeddings_ = self._fit_embeddings(bags, kernels, seed)
        every = self._described(bags)
        self.moments_ = [each.subset(kept) for each in every]
        self.labels_ = classes[codes[kept]]
        terms = self._terms(self.moments_)
        members = self._choose(terms, codes[kept], units[kept], order[kept], seed)
        self.term_weights_ = np.array([member.weights for member in members])
        self.widths_ = np.array([member.width for member in members])
        self.ridges_ = np.array([member.ridge for member in members])
        part = self.term_weights_.mean(axis=0) * [half_mean(term) for term in terms]
        self.shares_ = part / (part.sum() or 1.0)
        if len(kept) < len(codes):
            terms = self._terms(every)
        fit = fit_committee(members, terms, kept, codes, class_weights(codes), n_jobs=self.n_jobs)
        self.coefficients_, self.intercepts_ = fit
        return self

    def _fit_embeddings(
        self, bags: list[list[Array]], kernels: list[KernelLike], seed: int
    ) -> list[StreamEmbedding]:
        options: Any = {"components": self.components, "random_state": seed, "n_jobs": self.n_jobs}
        # What is lost is that of covariances, and no reason for a warning: averages have all coordinates.
        return [
            StreamEmbedding(kernel, self.size, **options).fit_drawn([len(s) for s in bag], bag.__getitem__)
            for kernel, bag in zip(kernels, bags, strict=True)
        ]

    def _described(self, bags: list[list[Array]]) -> list[Moments]:
        """Return the moments of clips, bag by bag."""

        def described(
            some: list[Array], embedding: StreamEmbedding, projection: Array, space: list[Any]
        ) -> Moments:
            return MEMORY.recall(
                "moments",
                [space, self.lags_, some],
                lambda: moments_of_paths(*embedding.paths_and_averages(some, projection), self.lags_),
            )

        every = []
        for embedding, bag in zip(self.embeddings_, bags, strict=True):
            space = [embedding.kernel, fingerprint([embedding.landmarks_, embedding.components_])]
            shared = (embedding, embedding.projection(), space)
            size = max(1, FRAMES // max(len(stream) for stream in bag))
            chunks = [bag[k : k + size] for k in range(0, len(bag), size)]
            every.append(Moments.stack(run(described, chunks, self.n_jobs, "clips", shared=shared)))
        return every

    def _terms(self, bags: list[Moments]) -> Array:
        """Return the terms of the squared distances of clips to those that are kept, (T, K, L)."""
        pairs = zip(bags, self.moments_, strict=True)
        return np.concatenate([some.squared(kept, n_jobs=self.n_jobs) for some, kept in pairs])

    def _choose(
        self, terms: Array, codes: IntArray, units: IntArray, indices: IntArray, seed: int
    ) -> list[Member]:
        """Choose the members, estimate their accuracy, and calibrate their probabilities."""
        bags, weights = len(self.moments_), class_weights(codes)
        self.estimate_ = self.calibration_ = self.accuracy_ = self.averages_accuracy_ = None
        self.tried_ = 1
        folds = balanced_folds(codes, units, seed)
        if folds is None:
            return usual_members(terms, bags, self.combinations)
        choice, averages = choose_committee(
            terms, codes, folds, weights, bags=bags, combined=self.combinations, n_jobs=self.n_jobs
        )
        predictions = better_predictions(choice, averages, folds)
        self.estimate_ = np.array([indices, predictions, averages.predictions])
        self.accuracy_, self.averages_accuracy_ = np.mean(self.estimate_[1:] == codes, axis=1).tolist()
        if self.averages_accuracy_ > np.mean(choice.predictions == codes):
            choice = averages
        self.tried_ = choice.tried
        scores = log_shares(np.where(_left(codes, folds), choice.scores, -np.inf))
        distances = np.einsum("mt,tkl->kl", [member.weights for member in choice.members], terms)
        apart = np.where(folds[:, None] == folds, np.inf, distances / len(choice.members))
        nearest, _ = nearest_of_each_class(apart, codes, int(codes.max()) + 1)
        try:
            self.calibration_ = Calibration.fit(scores, nearest, codes, units)
        except ParameterError:  # no class is in two groups
            self.calibration_ = None
        return choice.members

    def predict(self, streams: Sequence[Any]) -> npt.NDArray[Any]:
        """Return the label of each stream, or of each tuple of streams."""
        codes = self.compare(streams).codes
        return np.asarray(self.classes_[codes])

    def decision_function(self, streams: Sequence[Any]) -> Array:
        """Return the scores of the classes, (K, C); for two classes, as in scikit-learn, one per clip."""
        scores = self.compare(streams).scores
        return scores[:, 1] if len(self.classes_) == 2 else scores

    def compare(self, streams: Sequence[Any]) -> ClassScores:
        """Compare streams with what was learnt: predicted classes, scores and squared distances."""
        return self._compare(self._new_terms(streams))

    def _new_terms(self, streams: Sequence[Any]) -> Array:
        """Return the terms of the squared distances of new clips to those that are kept."""
        check_is_fitted(self, "intercepts_")
        warn_if_exchanged(streams, self.kernel)
        bags = by_bag(streams)
        if len(bags) != len(self.embeddings_):
            raise ParameterError(
                f"a clip has {len(bags)} streams, but there must be {len(self.embeddings_)} of them"
            )
        known = zip(bags, self.embeddings_, self.bins_.tolist(), strict=True)
        return self._terms(
            self._described([check_streams(bag, embedding.kernel, bins) for bag, embedding, bins in known])
        )

    def _compare(self, terms: Array) -> ClassScores:
        classes, codes = np.unique(self.labels_, return_inverse=True)
        scores = committee_scores(self.members_, CommitteeFit(self.coefficients_, self.intercepts_), terms)
        squared = np.tensordot(self.term_weights_.mean(axis=0), terms, axes=1)
        nearest = nearest_of_each_class(squared, codes, len(classes))
        return ClassScores(scores.argmax(axis=1), scores, *nearest, scores)

    def _class_scores(self, streams: Sequence[Any]) -> tuple[Array, Array]:
        compared = self.compare(streams)
        return log_shares(compared.scores), compared.distances

    def explain(self, streams: Sequence[Any]) -> list[Explanation]:
        """Return what `predict` returns, with the distances to all classes and the parts of one of them.

        The squared distance to a class is that to its nearest training clip, in the average metric of the
        classifiers that vote; its parts are what averages, their course and covariances, of each bag, add
        to the distance to the predicted class.

        Parameters
        ----------
        streams : sequence of (N, p) array_like, or of tuples of these
        """
        terms = self._new_terms(streams)
        compared, classes = self._compare(terms), self.classes_.tolist()
        names = term_names(getattr(streams[0], "names", ()), len(self.embeddings_))
        mean_weights = self.term_weights_.mean(axis=0)
        chances, fits = None, None
        if self.calibration_ is not None:
            chances, fits = self.calibration_.confidence(log_shares(compared.scores), compared.distances)

        def by_class(values: Array | None, k: int) -> dict[Any, float] | None:
            return None if values is None else dict(zip(classes, values[k].tolist(), strict=True))

        explanations = []
        for k, code in enumerate(compared.codes.tolist()):
            parts = mean_weights * terms[:, k, compared.nearest[k, code]]
            explanations.append(
                Explanation(
                    label=classes[code],
                    distances=by_class(compared.distances, k) or {},
                    parts={
                        name: part
                        for name, part, weight in zip(names, parts.tolist(), mean_weights, strict=True)
                        if weight > 0.0
                    },
                    probabilities=by_class(chances, k),
                    p_values=by_class(fits, k),
                    scores=by_class(compared.deciding, k),
                )
            )
        return explanations


def compared(shares: Array, bags: Sequence[str]) -> str:
    """Return the share of each term in squared distances (`shares_`), for people, largest first."""
    named = zip(shares.tolist(), term_names(bags, len(shares) // len(TERMS)), strict=True)
    return ", ".join(
        f"{name} {100 * share:.0f} %" for share, name in sorted(named, reverse=True) if share > 0.005
    )


def by_bag(streams: Sequence[Any]) -> list[list[Any]]:
    """Turn one stream per clip, or a tuple of several, into one list of streams per bag."""
    if isinstance(streams, (str, bytes)) or not hasattr(streams, "__len__") or not len(streams):
        raise ParameterError(
            "streams must be a sequence of at least one (N, p) array, or of tuples of these, one per bag"
        )
    items = [item if has_several_streams(item) else (item,) for item in streams]
    if len({len(item) for item in items}) > 1:
        raise ParameterError("each clip must have the same number of streams, one per bag")
    return [list(bag) for bag in zip(*items, strict=True)]


def class_weights(codes: IntArray) -> Array:
    """Return weights with which each class has the same sum, and whose mean is 1."""
    return np.asarray(compute_sample_weight("balanced", codes))


def items_to_keep(codes: IntArray, random_state: int, most: int = MOST_ITEMS) -> IntArray:
    """Return the indices of at most so many items, in order, of each class in proportion and at least one."""
    if len(codes) <= most:
        return np.arange(len(codes))
    order = np.random.default_rng(random_state).permutation(len(codes))
    # The first of each class, then the others in turn: place j of n in its class comes at j / n.
    places = np.empty(len(codes))
    for code in np.unique(codes):
        inside = order[codes[order] == code]
        places[inside] = np.arange(len(inside)) / len(inside)
    return np.sort(np.lexsort((np.argsort(order), places))[:most])


def term_names(bags: Sequence[str], count: int) -> list[str]:
    """Return the name of each term of a distance; of several bags with the name of the bag."""
    if count == 1:
        return list(TERMS)
    named = bags or [f"bag {k}" for k in range(count)]
    return [f"{name} {term}" for name in named for term in TERMS]


def _left(codes: IntArray, folds: IntArray) -> npt.NDArray[np.bool_]:
    """Return for each item which classes have items outside its fold, (K, C)."""
    counts = np.zeros((int(folds.max()) + 1, int(codes.max()) + 1), dtype=np.int64)
    np.add.at(counts, (folds, codes), 1)
    return np.asarray((counts.sum(axis=0) - counts)[folds] > 0)
