"""A table of bad inputs over all public doors: each gives one helpful sentence."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import sysbags
from helpers import make_stream, make_system
from sysbags.errors import (
    IncompatibleSystemsError,
    OrderError,
    ParameterError,
    StreamError,
    StreamWarning,
    SysbagsError,
)
from sysbags.evaluate import Settings, leave_one_out
from sysbags.means import covariance_mean

STREAM = make_stream(np.random.default_rng(0))
SYSTEMS = [make_system(seed, order=2) for seed in range(3)]
ONE, TWO, _ = SYSTEMS
LONGER = make_system(5, order=2, bins=9)
OTHER_KERNEL = sysbags.identify(STREAM, order=2, kernel="intersection")
UNSTABLE = sysbags.System([[1.5]], [[0.5, 0.5]], [[1.0]], [1.0])
BLIND = sysbags.System([[0.5]], [[0.5, 0.5]], [[0.0]], [1.0])
GRAM = sysbags.cross_gram(SYSTEMS)
RECTANGULAR = sysbags.cross_gram(SYSTEMS, SYSTEMS[:2])
EYE = np.eye(2)


def changed(row, column, value):
    stream = STREAM.copy()
    stream[row, column] = value
    return stream


def lopsided(first, second):
    return np.ones((len(first), len(second))) * np.arange(len(second))


def short(first, second):
    return np.ones((len(first), 1))


def system(**changes):
    parts = {
        "transition": 0.5 * EYE,
        "samples": np.full((3, 4), 0.25),
        "alpha": np.ones((3, 2)),
        "beta": np.ones(3),
    }
    return sysbags.System(**(parts | changes))


TABLE = {
    # streams
    "stream of one dimension": (lambda: sysbags.identify(STREAM[0]), StreamError, "has 1 dimensions"),
    "stream of three": (lambda: sysbags.identify(STREAM[None]), StreamError, "has 3 dimensions"),
    "time and bins exchanged": (
        lambda: sysbags.identify(STREAM.T),
        StreamError,
        "its columns do, so time and bins are exchanged: rows must be time, so give streams.transpose",
    ),
    "empty stream": (lambda: sysbags.identify(np.empty((0, 4))), StreamError, "is empty"),
    "ragged stream": (lambda: sysbags.identify([[1.0], [0.5, 0.5]]), StreamError, "ragged"),
    "stream of words": (lambda: sysbags.identify([["a", "b"]]), StreamError, "real numbers"),
    "complex stream": (lambda: sysbags.identify(STREAM * 1j), StreamError, "complex128"),
    "NaN": (lambda: sysbags.identify(changed(3, 1, np.nan)), StreamError, "nan at row 3, column 1"),
    "infinity": (lambda: sysbags.identify(changed(2, 0, np.inf)), StreamError, "inf at row 2, column 0"),
    "negative": (lambda: sysbags.identify(changed(4, 2, -0.5)), StreamError, "negative entry -0.5 at row 4"),
    "masked": (
        lambda: sysbags.identify(np.ma.masked_array(STREAM, STREAM.mean() < STREAM)),
        StreamError,
        "masked entries",
    ),
    "masked rows": (
        lambda: sysbags.identify([*STREAM, np.ma.masked_array(STREAM[0], STREAM[0] > 0.1)]),
        StreamError,
        "masked entries",
    ),
    "masked system": (
        lambda: system(transition=np.ma.masked_array(0.5 * EYE, EYE > 0)),
        ParameterError,
        "transition is a masked array with masked entries",
    ),
    "masked labels": (
        lambda: leave_one_out(GRAM, np.ma.masked_array([0, 1, 1], [False, False, True])),
        ParameterError,
        "labels are a masked array",
    ),
    "counts": (lambda: sysbags.identify(STREAM * 7.0), StreamError, "sums to 7"),
    "empty bag": (lambda: sysbags.identify(np.vstack([STREAM, 0 * STREAM[:1]])), StreamError, "empty bag"),
    "bags of two lengths": (
        lambda: sysbags.kernels.kernel_matrix(STREAM, STREAM[:, :1] * 0 + 1.0),
        StreamError,
        "bags of length 8",
    ),
    # identification
    "order 0": (lambda: sysbags.identify(STREAM, order=0), ParameterError, "order is 0"),
    "half an order": (lambda: sysbags.identify(STREAM, order=2.5), ParameterError, "order is 2.5"),
    "order in words": (lambda: sysbags.identify(STREAM, order="some"), ParameterError, '"auto"'),
    "still clip": (lambda: sysbags.identify(STREAM[[0] * 9], order=2), OrderError, "still clip"),
    "one frame": (lambda: sysbags.identify(STREAM[:1], order=1), OrderError, "one frame"),
    "clip below the order": (
        lambda: sysbags.identify(STREAM[:4], order=5),
        OrderError,
        "largest order possible is 3",
    ),
    "order above the rank": (
        lambda: sysbags.identify(STREAM[[0, 1] * 5], order=2),
        OrderError,
        "largest order possible is 1",
    ),
    "unknown kernel": (lambda: sysbags.identify(STREAM, kernel="rbf"), ParameterError, "'intersection'"),
    "lopsided kernel": (lambda: sysbags.identify(STREAM, kernel=lopsided), ParameterError, "not symmetric"),
    "kernel of a wrong shape": (
        lambda: sysbags.identify(STREAM, kernel=short),
        ParameterError,
        "must return (24, 24)",
    ),
    "unknown stability": (lambda: sysbags.identify(STREAM, stability="yes"), ParameterError, "'constrained'"),
    "margin 1": (lambda: sysbags.identify(STREAM, margin=1.0), ParameterError, "margin is 1.0"),
    # systems
    "oblong transition": (lambda: system(transition=np.ones((2, 3))), ParameterError, "square"),
    "NaN in a transition": (lambda: system(transition=EYE * np.nan), ParameterError, "transition holds nan"),
    "alpha too short": (lambda: system(alpha=np.ones((2, 2))), ParameterError, "one row for each of the 3"),
    "beta too long": (lambda: system(beta=np.ones(4)), ParameterError, "one entry for each of the 3"),
    "samples that are counts": (
        lambda: system(samples=np.ones((3, 4))),
        StreamError,
        "row 0 of samples sums to 4",
    ),
    "skewed rotation": (lambda: ONE.rotate([[1.0, 0.1], [0.0, 1.0]]), ParameterError, "not orthogonal"),
    "rotation of a wrong size": (lambda: ONE.rotate(np.eye(3)), ParameterError, "order is 2"),
    "compress to nothing said": (lambda: ONE.compress(), ParameterError, "needs a size"),
    "compress below the order": (lambda: ONE.compress(1), ParameterError, "at least 2 samples"),
    "unknown compression": (lambda: ONE.compress(4, method="svd"), ParameterError, "'pivoted'"),
    # alignment
    "oblong first block": (
        lambda: sysbags.align_blocks(np.ones((2, 3)), EYE),
        ParameterError,
        "first has shape",
    ),
    "vector as a block": (lambda: sysbags.align_blocks(EYE, np.ones(2)), ParameterError, "second has shape"),
    "empty blocks": (lambda: sysbags.align_blocks(np.empty((0, 0)), EYE), ParameterError, "is empty"),
    "infinite block": (
        lambda: sysbags.align_blocks(EYE, [[1, 0], [0, np.inf]], EYE),
        ParameterError,
        "second holds inf",
    ),
    "NaN in the observer": (
        lambda: sysbags.align_blocks(EYE, EYE, EYE * np.nan),
        ParameterError,
        "observer holds",
    ),
    "observer of a wrong shape": (
        lambda: sysbags.align_blocks(EYE, np.eye(3), np.ones((3, 2))),
        ParameterError,
        "must be (2, 3)",
    ),
    "complex block": (lambda: sysbags.align_blocks(EYE * 1j, EYE), ParameterError, "real numbers"),
    "negative lambda_a": (lambda: sysbags.align(ONE, TWO, -1.0), ParameterError, "lambda_a is -1.0"),
    "NaN as lambda_a": (
        lambda: sysbags.align_blocks(EYE, EYE, EYE, np.nan),
        ParameterError,
        "lambda_a is nan",
    ),
    "infinite lambda_mu": (lambda: sysbags.align(ONE, TWO, 1.0, np.inf), ParameterError, "lambda_mu is inf"),
    "lambda_mu in words": (
        lambda: sysbags.alignment_distance(ONE, TWO, lambda_mu="big"),
        ParameterError,
        "lambda_mu is 'big'",
    ),
    "unknown solver": (lambda: sysbags.align(ONE, TWO, solver="adam"), ParameterError, "'jacobi'"),
    "no starts": (lambda: sysbags.align(ONE, TWO, starts=0), ParameterError, "starts is 0"),
    "negative seed": (lambda: sysbags.align(ONE, TWO, random_state=-1), ParameterError, "random_state is -1"),
    "seed in words": (
        lambda: sysbags.align_blocks(EYE, EYE, random_state="x"),
        ParameterError,
        "a Generator",
    ),
    "align a stream": (lambda: sysbags.align(STREAM, ONE), ParameterError, "must be a System"),
    "align two kernels": (
        lambda: sysbags.align(ONE, OTHER_KERNEL),
        IncompatibleSystemsError,
        "'chi2' and the second 'intersection'",
    ),
    "align two bag lengths": (lambda: sysbags.align(ONE, LONGER), IncompatibleSystemsError, "length 8"),
    # collections
    "cross_gram of one system": (lambda: sysbags.cross_gram(ONE), ParameterError, "put it in a list"),
    "cross_gram of nothing": (lambda: sysbags.cross_gram([]), ParameterError, "is empty"),
    "cross_gram of a number": (lambda: sysbags.cross_gram(3), ParameterError, "sequence of System"),
    "cross_gram of streams": (lambda: sysbags.cross_gram([ONE, STREAM]), ParameterError, "systems[1]"),
    "cross_gram of two bag lengths": (
        lambda: sysbags.cross_gram([ONE, LONGER]),
        IncompatibleSystemsError,
        "systems[1] of 9",
    ),
    "cross_gram with no thread": (
        lambda: sysbags.cross_gram(SYSTEMS, n_jobs=0),
        ParameterError,
        "n_jobs is 0",
    ),
    "unknown metric": (
        lambda: sysbags.pairwise_distances(SYSTEMS, metric="euclid"),
        ParameterError,
        "'max-singular-value'",
    ),
    "two collections of two kernels": (
        lambda: sysbags.pairwise_distances(SYSTEMS, [OTHER_KERNEL]),
        IncompatibleSystemsError,
        "only systems of the same kernel",
    ),
    "half a thread": (
        lambda: sysbags.pairwise_distances(SYSTEMS, n_jobs=1.5),
        ParameterError,
        "n_jobs is 1.5",
    ),
    "pairwise with a negative weight": (
        lambda: sysbags.pairwise_distances(SYSTEMS, lambda_mu=-2),
        ParameterError,
        "lambda_mu is -2",
    ),
    "another word than scale": (
        lambda: sysbags.pairwise_distances(SYSTEMS, lambda_mu="auto"),
        ParameterError,
        "lambda_mu is 'auto', but it must be a number that is 0 or more, or \"scale\"",
    ),
    "scale in the orthonormal form": (
        lambda: sysbags.pairwise_distances(SYSTEMS, lambda_a="scale"),
        IncompatibleSystemsError,
        "needs the unit-variance form",
    ),
    "scale for one pair": (
        lambda: sysbags.align(ONE, TWO, "scale"),
        ParameterError,
        "lambda_a is 'scale', but it must be a finite number",
    ),
    "mean of covariances in the orthonormal form": (
        lambda: covariance_mean(SYSTEMS, normalized_by=0.5),
        IncompatibleSystemsError,
        "needs the unit-variance form",
    ),
    # baselines
    "Martin of an unstable system": (
        lambda: sysbags.martin_distance(UNSTABLE, UNSTABLE),
        IncompatibleSystemsError,
        "spectral radius 1.5",
    ),
    "Martin of a blind system": (
        lambda: sysbags.martin_distance(BLIND, BLIND),
        IncompatibleSystemsError,
        "use a smaller order",
    ),
    "maximum singular value of a blind system": (
        lambda: sysbags.max_singular_value_distance(BLIND, BLIND),
        IncompatibleSystemsError,
        "observer of zeros",
    ),
    "SGOT of a blind system": (
        lambda: sysbags.sgot_distance(BLIND, BLIND),
        IncompatibleSystemsError,
        "dependent columns",
    ),
    # means
    "mean of nothing": (lambda: sysbags.frechet_mean([]), ParameterError, "is empty"),
    "mean of one bare system": (lambda: sysbags.frechet_mean(ONE), ParameterError, "put it in a list"),
    "too few weights": (
        lambda: sysbags.frechet_mean(SYSTEMS, weights=[1.0, 1.0]),
        ParameterError,
        "one weight per system",
    ),
    "negative weights": (
        lambda: sysbags.frechet_mean(SYSTEMS, weights=[1, -1, 1]),
        ParameterError,
        "0 or more",
    ),
    "weights of zero": (
        lambda: sysbags.frechet_mean(SYSTEMS, weights=[0, 0, 0]),
        ParameterError,
        "positive sum",
    ),
    "unknown start": (lambda: sysbags.frechet_mean(SYSTEMS, start="random"), ParameterError, "'medoid'"),
    "no iterations": (
        lambda: sysbags.frechet_mean(SYSTEMS, max_iterations=0),
        ParameterError,
        "max_iterations is 0",
    ),
    "negative tolerance": (
        lambda: sysbags.frechet_mean(SYSTEMS, tolerance=-1e-9),
        ParameterError,
        "tolerance is -1e-09",
    ),
    "mean of two collections": (
        lambda: sysbags.means.frechet.mean_of_gram(RECTANGULAR),
        ParameterError,
        "one collection with itself",
    ),
    "medoid of nothing": (lambda: sysbags.medoid([]), ParameterError, "is empty"),
    "medoid of an unknown metric": (
        lambda: sysbags.medoid(SYSTEMS, "mean"),
        ParameterError,
        "metric is 'mean'",
    ),
    # evaluation and estimators
    "leave one out of two collections": (
        lambda: leave_one_out(RECTANGULAR, [0, 1, 0]),
        ParameterError,
        "one collection with itself",
    ),
    "leave one out with scale": (
        lambda: leave_one_out(GRAM, [0, 1, 0], lambda_a="scale"),
        ParameterError,
        "lambda_a is 'scale', but it must be a finite number",
    ),
    "kernel ridge with the Martin distance": (
        lambda: sysbags.KernelRidgeClassifier(metric="martin").fit(SYSTEMS, [0, 1, 0]),
        ParameterError,
        "metric is 'martin', but it must be one of 'alignment', 'covariance', 'normalized-covariance'",
    ),
    "kernel ridge without a ridge": (
        lambda: sysbags.KernelRidgeClassifier(ridge=0).fit(SYSTEMS, [0, 1, 0]),
        ParameterError,
        "ridge is 0, but it must be above 0",
    ),
    "too few labels": (lambda: leave_one_out(GRAM, [0, 1]), ParameterError, "each of the 3 items"),
    "unknown classifier": (
        lambda: leave_one_out(GRAM, [0, 1, 0], classifier="svm"),
        ParameterError,
        "'nearest-system'",
    ),
    "leave one out by an unknown metric": (
        lambda: leave_one_out(GRAM, [0, 1, 0], metric="l2"),
        ParameterError,
        "metric is 'l2'",
    ),
    "no neighbours": (
        lambda: leave_one_out(GRAM, [0, 1, 0], classifier="nearest-system", n_neighbors=0),
        ParameterError,
        "n_neighbors is 0",
    ),
    "more neighbours than systems": (
        lambda: sysbags.NearestSystem(4).fit(SYSTEMS, [0, 1, 0]),
        ParameterError,
        "only 3 training systems",
    ),
    "labels of two dimensions": (
        lambda: sysbags.NearestSystem().fit(SYSTEMS, [[0, 1, 0]]),
        ParameterError,
        "labels have shape (1, 3)",
    ),
    "nearest system by an unknown metric": (
        lambda: sysbags.NearestSystem(metric="l1").fit(SYSTEMS, [0, 1, 0]),
        ParameterError,
        "metric is 'l1'",
    ),
    "predict for another bag length": (
        lambda: sysbags.NearestSystem().fit(SYSTEMS, [0, 1, 0]).predict([LONGER]),
        IncompatibleSystemsError,
        "bags of length 9",
    ),
    "fit a mean to streams": (lambda: sysbags.NearestMean().fit([STREAM], [0]), ParameterError, "systems[0]"),
    "continuous labels of systems": (
        lambda: sysbags.NearestMean().fit(SYSTEMS, [0.5, 1.0, 2.0]),
        ParameterError,
        "labels hold 0.5, but they must be classes",
    ),
    "continuous labels of streams": (
        lambda: sysbags.StreamClassifier().fit(STREAM[None].repeat(3, axis=0), [1.0, 2.5, 2.5]),
        ParameterError,
        "labels hold 2.5, but they must be classes",
    ),
    "mean without labels": (lambda: sysbags.NearestMean().fit(SYSTEMS, []), ParameterError, "shape (0,)"),
    "mean on no samples": (
        lambda: sysbags.NearestMean(compress=0).fit(SYSTEMS, [0, 1, 0]),
        ParameterError,
        "compress is 0",
    ),
    "a bad stream among many": (
        lambda: sysbags.SystemIdentifier(order=2).fit_transform([STREAM, STREAM * 2.0]),
        StreamError,
        "stream 1: row 0",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_one_sentence(name):
    call, error, part = TABLE[name]
    with pytest.raises(error, match=re.escape(part)) as raised:
        call()
    sentence = str(raised.value)
    assert type(raised.value) is error
    assert isinstance(raised.value, SysbagsError)
    assert isinstance(raised.value, ValueError)
    assert "\n" not in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize(
    "call",
    [
        lambda pair: sysbags.pairwise_distances(pair, metric="normalized-covariance"),
        lambda pair: sysbags.pairwise_distances(
            pair[:1] * 2, metric="normalized-covariance", lambda_mu="scale"
        ),
        lambda pair: covariance_mean(pair, normalized_by=0.5),
        lambda pair: sysbags.KernelRidgeClassifier().fit(pair, ["a", "b"]),
    ],
    ids=["distances", "scale", "mean", "kernel-ridge"],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_covariances_of_a_blind_system_are_refused(call):
    pair = [
        sysbags.System([[0.5]], [[0.5, 0.5]], [[weight]], [1.0], normal_form="unit-variance")
        for weight in (0.0, 1.0)
    ]
    with pytest.raises(IncompatibleSystemsError, match="observer of zeros"):
        call(pair)


SERIES = np.random.default_rng(0).standard_normal((8, 3, 40))  # (clips, channels, time)
LABELS = ["a", "b"] * 4


@pytest.mark.parametrize(
    "call",
    [
        lambda series: sysbags.SystemIdentifier(2, "linear").transform(series),
        lambda series: sysbags.SystemIdentifier(2, np.inner).transform(series),
        lambda series: sysbags.StreamEmbedding("linear").fit(series),
        lambda series: sysbags.StreamClassifier("linear").fit(series, LABELS),
        lambda series: sysbags.evaluate.evaluate(series, LABELS, settings=Settings(kernel="linear")),
    ],
    ids=["identifier", "function", "embedding", "classifier", "evaluate"],
)
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_time_and_channels_exchanged(call):
    with pytest.warns(StreamWarning, match=r"3 rows, frames, and 40 columns.* streams\.transpose\(0, 2, 1\)"):
        call(SERIES)
    with warnings.catch_warnings(action="error", category=StreamWarning):
        call(SERIES.transpose(0, 2, 1))


def test_few_frames_of_many_bins_are_no_reason_for_a_warning():
    streams = np.random.default_rng(0).dirichlet(np.ones(30), size=(4, 8))
    with warnings.catch_warnings(action="error"):
        sysbags.SystemIdentifier(2).transform(streams)
        sysbags.StreamEmbedding(size=32).fit(streams)
