"""Clips to systems, by options or by a saved model; clips that cannot be used are skipped and reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysbags._common.files import saved_contents, saved_kind
from sysbags._common.messages import Stages, collect_warnings, summary_of_warnings
from sysbags.cli._config import given
from sysbags.cli._options import Settings, check_network
from sysbags.cli._output import check_inputs, note, note_summary
from sysbags.distances import METRICS
from sysbags.errors import FileError, ParameterError, SysbagsError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers import SystemIdentifier
    from sysbags.classifiers.base import SystemClassifier
    from sysbags.classifiers.identifier import ClipSystems
    from sysbags.datasets.folder import ClipFolder
    from sysbags.evaluate.results import Evaluation
    from sysbags.evaluate.training import TrainedModel
    from sysbags.library import Added


@dataclass(frozen=True)
class Features:
    """How clips become systems, and the metric with its weights; `fitted` bags come from a model."""

    bags: BagTransformer
    identifier: SystemIdentifier
    metric: str
    lambda_a: float
    lambda_mu: float
    fitted: bool

    def read(self, paths: Sequence[Path], stages: Stages, n_jobs: int) -> ClipSystems:
        """Turn clips into systems."""
        return read_clips(paths, self.bags, self.identifier, stages, n_jobs, not self.fitted)

    @classmethod
    def of(
        cls,
        settings: Settings,
        model: Path | None,
        metric: str | None,
        lambda_a: float | None,
        lambda_mu: float | None,
        random_state: int,
        *,
        of_streams: bool = False,
    ) -> Features:
        """Use a saved model, if there is one, or else the options; by default its metric, or "alignment".

        With `of_streams` it may be a classifier of streams, whose bags alone are used.
        """
        if model is None:
            metric = metric or "alignment"
            bags, identifier = settings.make_bags(random_state), settings.make_identifier()
            identifier.set_params(normal_form=METRICS[metric].normal_form or identifier.normal_form)
            return cls(bags, identifier, metric, _first(lambda_a, 0.25), _first(lambda_mu, 0.0), False)
        if settings.given():
            raise ParameterError(
                f"--model has its own bag and order: leave out {', '.join(settings.given())}"
            )
        metric, lambda_a, lambda_mu = given(metric=metric, lambda_a=lambda_a, lambda_mu=lambda_mu)
        bags, known, classifier = load_pipeline(model) if of_streams else load_model(model)
        if len(bags.members()) > 1:
            raise ParameterError(
                f"{model} has {len(bags.members())} bags, but this command takes a single bag"
            )
        identifier = known or settings.make_identifier()
        if known is None:
            metric = metric or "alignment"
            note(
                f"{model} holds a classifier of streams, which has no metric: its bags are used, with the "
                f"metric {metric} of systems of order {identifier.order}"
            )
            return cls(bags, identifier, metric, _first(lambda_a, 0.25), _first(lambda_mu, 0.0), True)
        metric = metric or classifier.metric
        if metric != classifier.metric and METRICS[metric].weighted and None in (lambda_a, lambda_mu):
            raise ParameterError(
                f"the weights of {model} are those of the metric {classifier.metric}: for the metric "
                f"{metric}, give --lambda-a and --lambda-mu"
            )
        form = METRICS[metric].normal_form
        if form not in (None, identifier.normal_form):
            raise ParameterError(
                f"the metric {metric} needs the {form} form, but the systems of {model} are in the "
                f"{identifier.normal_form} form"
            )
        weights = classifier.weights_[0].tolist()
        return cls(
            bags, identifier, metric, _first(lambda_a, weights[0]), _first(lambda_mu, weights[1]), True
        )


def _first(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def load_model(path: Path) -> tuple[BagTransformer, SystemIdentifier, SystemClassifier]:
    """Load a model of systems: the three steps of its pipeline."""
    bags, identifier, classifier = load_pipeline(path)
    if identifier is None:
        raise FileError(
            f"{path} holds a classifier of streams, which has no systems to compare: `sysbags fit` with "
            "`--classifier kernel-ridge` saves a model that has"
        )
    return bags, identifier, classifier


def check_model(path: Path) -> None:
    """Refuse, before slow imports, a saved file that is no model."""
    check_inputs(path)
    if saved_kind(path) != "Pipeline" and (contents := saved_contents(path)):
        raise FileError(f"{path} holds {contents}, but it must be a model that `sysbags fit` has saved")


def load_pipeline(path: Path) -> tuple[BagTransformer, SystemIdentifier | None, Any]:
    """Load a model of `sysbags fit`: bags, for systems what identifies them, and the classifier."""
    check_model(path)
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import Pipeline
    from sklearn.utils.validation import check_is_fitted

    from sysbags.bags.base import BagTransformer
    from sysbags.classifiers.base import SystemClassifier
    from sysbags.classifiers.identifier import SystemIdentifier
    from sysbags.classifiers.streams import StreamClassifier
    from sysbags.storage.files import load

    model = load(path)
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else []
    kinds = [(BagTransformer, StreamClassifier), (BagTransformer, SystemIdentifier, SystemClassifier)]
    if not any(len(steps) == len(kind) and all(map(isinstance, steps, kind)) for kind in kinds):
        raise FileError(
            f"{path} holds a {type(model).__name__}, but it must be a model that `sysbags fit` has saved"
        )
    bags, classifier = steps[0], steps[-1]
    try:
        check_is_fitted(bags)
        check_is_fitted(classifier)
    except NotFittedError:
        raise FileError(f"{path} holds a model that is not fitted: use `sysbags fit`") from None
    _check_networks(path, bags)
    return bags, steps[1] if len(steps) == 3 else None, classifier


def _check_networks(path: Path, bags: BagTransformer) -> None:
    """Raise an error that names the model if a file of its networks is missing."""
    from sysbags.bags.network_files import find_network, verified_path

    for name in (getattr(bag, "model", None) for bag in bags.members()):
        if isinstance(name, str):
            check_network(name, f"{path} has the network")
            try:
                if (entry := find_network(name)) is not None:
                    verified_path(entry)
            except ParameterError as error:
                raise FileError(f"cannot use {path}: {error}") from None


def read_clips(
    paths: Sequence[Path],
    bags: BagTransformer,
    identifier: SystemIdentifier | None,
    stages: Stages,
    n_jobs: int,
    fit: bool,
) -> ClipSystems:
    """Turn clips into systems, or streams if nothing identifies them.

    With `fit` the bags are fitted to the clips first, where they require it.
    """
    from sysbags.classifiers.identifier import describe_clips

    with warnings_as_notes():
        identify = None if identifier is None else identifier.system
        return describe_clips(paths, bags, identify, fit=fit, n_jobs=n_jobs, stages=stages)


def skipped(clips: ClipSystems | Added | Evaluation | TrainedModel) -> list[dict[str, str]]:
    """Return the failures for a JSON document."""
    return [{"path": str(path), "error": str(error)} for path, error in clips.failures.items()]


def without_class(folder: Path, clips: ClipFolder) -> list[dict[str, str]]:
    """Return the clips beside the class folders for a JSON document."""
    return [
        {"path": str(folder / name), "error": f"{name} is in no class folder"} for name in clips.unlabelled
    ]


def report_skipped(clips: ClipSystems) -> None:
    """Print which clips are skipped; if that is all of them, raise what is wrong with the first."""
    if not clips.paths:
        for error in clips.failures.values():
            raise type(error)(f"none of the clips can be used: {error}")
    note_skipped(clips.failures.values())


def note_skipped(errors: Iterable[SysbagsError]) -> None:
    """Print which clips are skipped, and why; of many the first."""
    note_summary([f"skipped: {error}" for error in errors], "clips are skipped (--json lists them)", limit=10)


def note_outcome(outcome: Evaluation | TrainedModel, notes: Iterable[str]) -> None:
    """Print which clips are skipped, which classes are left out as a whole, and what else there is to say."""
    note_skipped(outcome.failures.values())
    for name in outcome.single_group_classes:
        note(
            f"the class {name} has a single clip or source: its clips are left out together, and so they are "
            "classified wrongly"
        )
    for text in notes:
        note(text)


def too_short(
    clip: Path,
    rows: int,
    shortest: int | None,
    other: str,
    orders: tuple[int, int | str] | None,
    uncertain: str = "its distance is",
) -> str:
    """Say that a clip is much shorter than others, or too short for the order that is asked for.

    `other` is the clip that has `shortest` bags, `orders` those of the system and that was asked for.
    """
    if shortest is not None and 2 * rows < shortest:
        bags = "1 bag" if rows == 1 else f"{rows} bags"
        return f"{clip} has {bags}, but {other} has {shortest}: {uncertain} uncertain"
    if orders is not None and isinstance(orders[1], int) and orders[0] < orders[1]:
        return f"{clip} is too short or too still for order {orders[1]}: its system has order {orders[0]}"
    return ""


def note_too_short(texts: Iterable[str]) -> None:
    """Print what `too_short` says of clips; of many the first."""
    note_summary([text for text in dict.fromkeys(texts) if text], "clips are too short or too still")


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print the warnings about videos when the work is done; of many, one summary."""
    with collect_warnings() as texts:
        yield
    for text in summary_of_warnings(list(dict.fromkeys(texts))):
        note(text)
