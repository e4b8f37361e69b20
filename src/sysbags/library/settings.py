"""The settings of a library: how clips become systems and are compared, fixed by the first clips."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sysbags._common.cache import fingerprint
from sysbags._common.parallel import run
from sysbags._common.validation import check_choice, check_integer, check_weight
from sysbags.bags.base import BagTransformer
from sysbags.bags.lbp import LocalBinaryPatterns
from sysbags.bags.streams import attempt
from sysbags.bags.union import BagUnion
from sysbags.distances import METRICS
from sysbags.errors import FileError, ParameterError, SysbagsError
from sysbags.library.schema import check_file, checksum, pack, unpack
from sysbags.storage.files import Reader, Writer, versions

if TYPE_CHECKING:
    from sysbags.classifiers import SystemIdentifier
    from sysbags.library.store import Library

LANDMARKS = 500
FALLBACK = "smaller_orders"
CHECKS: dict[str, Callable[[Any, str], object]] = {
    "compress": check_integer,
    "landmarks": check_integer,
    "metric": lambda value, name: check_choice(value, name, METRICS),
    "lambda_a": check_weight,
    "lambda_mu": check_weight,
}


class LibrarySettings(NamedTuple):
    """How clips become systems and are compared; the same for all clips of a library.

    The bags are fitted, if they require it. A system has at most `compress` samples, the embedding at most
    `landmarks` landmarks. The metric and its weights are those of a search that is not given any.
    """

    bags: BagTransformer
    identifier: SystemIdentifier
    compress: int | None
    landmarks: int = LANDMARKS
    metric: str = "alignment"
    lambda_a: float = 0.25
    lambda_mu: float = 0.0

    @property
    def reading(self) -> tuple[BagTransformer, SystemIdentifier, int | None]:
        """What `read_clip` needs."""
        return self[:3]


class NewSettings(NamedTuple):
    """The row of settings that the library does not have yet, see `put_settings`."""

    tree: str
    arrays: bytes
    versions: str


def read_settings(library: Library) -> LibrarySettings | None:
    """Return the settings of a library; None if no clip was ever added."""
    with library.connection() as connection:
        row = connection.execute("SELECT tree, arrays, checksum FROM settings").fetchone()
    if row is None:
        return None
    if checksum(*row[:2]) != row[2]:
        raise FileError(f"the settings of the library {library.path} are damaged: make a new library")
    return _settings_of(library, *row[:2])


def _settings_of(library: Library, tree: str, arrays: bytes) -> LibrarySettings:
    try:
        return LibrarySettings(**Reader(unpack(arrays)).get(json.loads(tree)))
    except FileError as error:  # such as a network that is not the same here
        raise FileError(f"cannot use the library {library.path}: {error}") from None
    except Exception as error:  # a malicious file may raise any exception
        raise FileError(f"the settings of the library {library.path} are not valid: {error}") from error


def settings_for(
    library: Library, wanted: Mapping[str, Any], paths: Sequence[str], n_jobs: int | None
) -> tuple[LibrarySettings, NewSettings | None]:
    """Return the settings of the library; where it has none, those that are wanted, or the defaults.

    New settings are written with the first clip, so that a library without clips has none. A library that
    does not exist is made with the first clip, too. `wanted` has some of the fields of `LibrarySettings`.
    """
    if not isinstance(wanted.get("bags", LocalBinaryPatterns()), BagTransformer):
        raise ParameterError(f"bags is {wanted['bags']!r}, but it must be one of sysbags.bags")
    if isinstance(wanted.get("bags"), BagUnion):
        raise ParameterError("a library holds one system per clip, so the bags must be a single bag")
    for name, check in CHECKS.items():
        if name in wanted:
            check(wanted[name], name)
    check_file(library.path, create=True)
    settings, new = None, None
    if library.path.exists():
        with library.connection(create=True):
            pass  # an empty file becomes a library
        settings = library.settings
    if settings is None:
        writer = Writer()
        tree = writer.put_each(_fitted(wanted, paths, n_jobs)._asdict(), "")
        text = json.dumps({"dict": tree}, allow_nan=False)
        new = NewSettings(text, pack(writer.arrays), json.dumps(versions(writer.needs)))
        settings = _settings_of(library, new.tree, new.arrays)
    _check_form(library, settings.metric, settings)
    _check_same(library, settings, wanted)
    return settings, new


def put_settings(connection: sqlite3.Connection, new: NewSettings) -> bool:
    """Write settings, and return whether the library has these: another process may have written others."""
    row = connection.execute("SELECT tree, arrays FROM settings").fetchone()
    if row is None:
        values = [*new, checksum(*new[:2])]
        connection.execute("INSERT INTO settings VALUES (1, ?, ?, ?, ?)", values)
    return row in (None, new[:2])


def _fitted(wanted: Mapping[str, Any], paths: Sequence[str], n_jobs: int | None) -> LibrarySettings:
    """Return complete settings; bags that learn are fitted to the clips that can be read."""
    from sklearn.base import clone

    from sysbags.classifiers import SystemIdentifier

    bags: BagTransformer = wanted.get("bags") or LocalBinaryPatterns()
    if bags.requires_fit and not _is_fitted(bags):
        first = run(_can_be_read, paths, n_jobs, "first frames", shared=(bags,), remote=True)
        readable = [Path(path) for path, error in zip(paths, first, strict=True) if error is None]
        if not readable:
            error = next(error for error in first if error is not None)
            raise type(error)(f"none of the clips can be used: {error}")
        bags = clone(bags).set_params(n_jobs=n_jobs).fit(readable).set_params(n_jobs=None)
    form = METRICS[wanted.get("metric", "alignment")].normal_form or "orthonormal"
    defaults = {"identifier": SystemIdentifier(smaller_orders=True, normal_form=form), "compress": None}
    return LibrarySettings(**{**defaults, **wanted, "bags": bags})


def search_metric(
    library: Library, metric: str | None = None, lambda_a: float | None = None, lambda_mu: float | None = None
) -> dict[str, Any]:
    """Return the metric and the weights of a search: those that are given, and the others of the library."""
    settings = library.settings
    own = LibrarySettings._field_defaults if settings is None else settings._asdict()
    weights = {"lambda_a": lambda_a, "lambda_mu": lambda_mu}
    if metric not in (None, own["metric"]):
        check_choice(metric, "metric", METRICS)
        if METRICS[metric].weighted and None in weights.values():
            raise ParameterError(
                f"the weights of the library {library.path} are those of the metric {own['metric']}: for the "
                f"metric {metric}, give lambda_a and lambda_mu, too"
            )
    given = {"metric": metric, **weights}
    chosen: dict[str, Any] = {name: own[name] if value is None else value for name, value in given.items()}
    if settings is not None:
        _check_form(library, chosen["metric"], settings)
    return chosen


def _check_form(library: Library, metric: str, settings: LibrarySettings) -> None:
    """Raise an error for a metric that is not defined for the systems of a library."""
    needed, form = METRICS[metric].normal_form, settings.identifier.normal_form
    if needed not in (None, form):
        raise ParameterError(
            f"the metric {metric} needs the {needed} form, but the systems of the library {library.path} are "
            f"in the {form} form"
        )


def _can_be_read(path: str, bags: BagTransformer) -> SysbagsError | None:
    outcome = attempt(Path(path), lambda: next(iter(bags.read(path))))
    return outcome if isinstance(outcome, SysbagsError) else None


def _is_fitted(bags: BagTransformer) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(bags)
    except NotFittedError:
        return False
    return True


def _check_same(library: Library, settings: LibrarySettings, wanted: Mapping[str, Any]) -> None:
    """Raise an error if settings are given that are not those of the library."""
    from sklearn.base import clone

    for name, other in wanted.items():
        own: Any = getattr(settings, name)
        if name not in ("bags", "identifier"):
            differing = {} if own == other else {name: (own, other)}
        else:
            learnt = name == "bags" and other.requires_fit and _is_fitted(other)
            # Bags that are not fitted yet have no codebook to compare.
            first, second = (fingerprint(one if learnt else clone(one)) for one in (own, other))
            differing = {key: (first.get(key), second.get(key)) for key in first | second}
            # Whether smaller orders are allowed is not an option of the command.
            differing = {k: pair for k, pair in differing.items() if pair[0] != pair[1] and k != FALLBACK}
        for key, (value, given) in differing.items():
            what = "another codebook" if key.endswith("_") else f"{key}={value!r}, not {given!r}"
            if key == "class":
                what = f"{type(own).__name__}, not {type(other).__name__}"
            raise ParameterError(
                f"the library {library.path} was made with {what}: leave out the settings to use those of "
                "the library, or make another library"
            )
