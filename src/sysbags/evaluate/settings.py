"""What is asked of an evaluation: what is fixed and what is chosen, and what is left out together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sysbags._common.validation import check_choice, check_integer
from sysbags.bags.base import BagTransformer
from sysbags.errors import ParameterError
from sysbags.evaluate.candidates import WeightGrid, matching_grids
from sysbags.evaluate.splits import PROTOCOLS
from sysbags.systems.identification import descending_orders

# Exact kernel blocks of all pairs of more clips than these take more than a minute, at 1 to 2 ms each; an
# embedding takes one block of each clip with the landmarks.
MANY_CLIPS = 300
LANDMARKS = 500


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is fixed of systems and distances; what is None is chosen by nested selection, or is usual.

    Attributes
    ----------
    order, kernel : optional
        By default 5, or less for a clip that is too short or too still for it, and "chi2"; with `tune` they
        are chosen.
    metric : {"alignment", "covariance", "normalized-covariance"}, optional
        Distance between systems, see `sysbags.pairwise_distances`. By default it is chosen.
    normal_form : {"orthonormal", "unit-variance"}, optional
        Unit of the states, see `sysbags.identify`. By default it is chosen.
    lambda_a, lambda_mu : float, optional
        Weights of the transition and of the mean; by default chosen. If one is given without a metric, the
        metric is the alignment distance in the orthonormal form, the paper's.
    embedding : int, optional
        Approximate distances, which are faster for many clips: the number of landmarks of the embedding of
        each bag, which is fitted to all systems without labels, in trials to those of the training set. By
        default 500 for more than 300 clips, see `MANY_CLIPS`, and otherwise distances are exact; those of
        other people's methods always are.
    exact : bool, default=False
        Exact distances between systems, however many clips there are.
    tune : bool, default=False
        Choose order, kernel, weights, neighbours and parameters of the bags.
    fixed : sequence of str
        Parameters of the bags that are not tuned.

    Examples
    --------
    >>> Settings(order=3, metric="covariance").grids[0].lambda_a
    (1.0, 0.5)
    """

    order: int | str | None = None
    kernel: str | None = None
    metric: str | None = None
    normal_form: str | None = None
    lambda_a: float | None = None
    lambda_mu: float | None = None
    embedding: int | None = None
    exact: bool = False
    tune: bool = False
    fixed: Sequence[str] = ()

    def __post_init__(self) -> None:
        _ = self.grids
        if self.embedding is not None:
            check_integer(self.embedding, "embedding")
            if self.exact:
                raise ParameterError("an embedding is given, but exact distances need none: give one of both")

    def for_clips(self, count: int) -> Settings:
        """Return the settings for so many clips."""
        if self.exact or self.embedding is not None or count <= MANY_CLIPS:
            return self
        return replace(self, embedding=LANDMARKS)

    @cached_property
    def grids(self) -> tuple[WeightGrid, ...]:
        """The metrics and weights to choose from."""
        return tuple(matching_grids(self.metric, self.normal_form, self.lambda_a, self.lambda_mu))

    @property
    def of_systems(self) -> bool:
        """Whether something is said that is of systems alone."""
        said = (self.order, self.metric, self.normal_form, self.lambda_a, self.lambda_mu, self.embedding)
        return self.tune or said != (None,) * len(said)

    @property
    def usual_order(self) -> int | str:
        """The order that is given, or the usual one."""
        return self.order or 5

    @property
    def usual_kernel(self) -> str:
        """The kernel that is given, or the usual one."""
        return self.kernel or "chi2"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """What is left out together.

    Attributes
    ----------
    name : {"leave-one-out", "folds", "by-source", "predefined"}, optional
        By default the trials, where there are any, or else the groups, where there are two of them, or else
        each clip.
    folds : int, default=10
        For the protocol "folds", and inside the training set of a trial.
    trials : mapping of str to sequence of {"train", "test", ""}, optional
        For the protocol "predefined": official splits by name, each with a word for each clip; "" if the clip
        is not used. Settings are chosen inside each training set.

    Examples
    --------
    >>> Protocol(name="folds", folds=4).resolved(["a", "a", "b"])
    'folds'
    >>> Protocol().resolved(["a", "a", "b"]), Protocol().resolved(None)
    ('by-source', 'leave-one-out')
    """

    name: str | None = None
    folds: int = 10
    trials: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_choice(self.name, "protocol", PROTOCOLS)

    def resolved(self, sources: Sequence[str] | None) -> str:
        """Return the name, or else what is usual for clips of these sources."""
        several = sources is not None and len(set(sources)) > 1
        usual = "predefined" if self.trials else "by-source" if several else "leave-one-out"
        return usual if self.name is None else self.name


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for, checked."""

    bags: Mapping[str, BagTransformer | None]  # by what tables call them; None for streams
    methods: tuple[str, ...]  # classifiers of systems
    settings: Settings
    compare: bool = False  # also other metrics and averages
    # Other people's methods, and how they read clips.
    comparators: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def orders(self) -> list[int | str]:
        """The orders to try for a clip: a given order is strict, unless bags have different frames."""
        usual = self.settings.usual_order
        return descending_orders([usual]) if self.smaller_orders else [usual]

    @property
    def smaller_orders(self) -> bool:
        """Whether a clip that is too short or too still for the order has a smaller one."""
        return self.settings.order is None or len(self.bags) > 1

    @property
    def main_bag(self) -> tuple[str, BagTransformer | None]:
        """The first bag and its name; None for streams."""
        return next(iter(self.bags.items()))
