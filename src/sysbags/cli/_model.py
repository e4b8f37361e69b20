"""How clips become systems: as the options say, or as a saved model does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sysbags._common.stages import Stages
from sysbags.cli._reading import Clips, read_clips
from sysbags.cli._settings import Settings
from sysbags.errors import FileError, ParameterError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import NearestMean, NearestSystem, SystemIdentifier

__all__ = ["Features", "load_model"]


@dataclass(frozen=True)
class Features:
    """How clips become systems, and the weights of their distance.

    Attributes
    ----------
    learnt : bool
        They come from a model, so that there is nothing to learn.
    """

    bags: BagTransformer
    identifier: SystemIdentifier
    lambda_a: float
    lambda_mu: float
    learnt: bool

    def read(self, paths: Sequence[Path], stages: Stages, jobs: int) -> Clips:
        """Turn clips into systems."""
        return read_clips(paths, self.bags, self.identifier, stages, jobs, not self.learnt)

    @classmethod
    def of(
        cls,
        settings: Settings,
        model: Path | None,
        lambda_a: float | None,
        lambda_mu: float | None,
        seed: int,
    ) -> Features:
        """Take everything from a saved model, or else from the options."""
        if model is None:
            return cls(
                settings.make_bags(seed),
                settings.make_identifier(),
                _first(lambda_a, 0.25),
                _first(lambda_mu, 0.0),
                False,
            )
        if settings.given():
            raise ParameterError(
                f"--model brings its own bag and order: leave out {', '.join(settings.given())}"
            )
        bags, identifier, classifier = load_model(model)
        return cls(
            bags,
            identifier,
            _first(lambda_a, classifier.lambda_a),
            _first(lambda_mu, classifier.lambda_mu),
            True,
        )


def _first(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def load_model(path: Path) -> tuple[BagTransformer, SystemIdentifier, NearestMean | NearestSystem]:
    """Load what `fit` has saved: the three steps of its pipeline."""
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import NearestMean, NearestSystem, SystemIdentifier
    from sysbags.storage import load

    found = load(path)
    steps = [step for _, step in found.steps] if isinstance(found, Pipeline) else []
    kinds = (BagTransformer, SystemIdentifier, NearestMean | NearestSystem)
    if len(steps) != 3 or not all(isinstance(step, kind) for step, kind in zip(steps, kinds, strict=True)):
        raise FileError(
            f"{path} holds a {type(found).__name__}, but it must be a model that `sysbags fit` has saved"
        )
    bags, identifier, classifier = steps
    try:
        check_is_fitted(bags)
        check_is_fitted(classifier)
    except NotFittedError:
        raise FileError(f"{path} holds a model that has learnt nothing: use `sysbags fit`") from None
    return bags, identifier, classifier
