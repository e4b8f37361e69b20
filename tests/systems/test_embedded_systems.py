"""Systems of paths in an embedding: exact where the landmarks span the frames, and the error elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

import sysbags
from clips import moving_frames, write_clip
from sysbags import NearestSystem, StreamEmbedding, SystemIdentifier
from sysbags.datasets import make_streams
from sysbags.kernels import kernel_matrix
from sysbags.library import Library
from sysbags.storage import describe

STREAMS, LABELS = make_streams(classes=2, per_class=3, frames=25, bins=8)
STREAMS = [stream.astype(np.float32).astype(np.float64) for stream in STREAMS]  # as landmarks are
FORMS = ["orthonormal", "unit-variance"]
# Every frame is a landmark, and what is left is the round-off of factors and eigenvectors: some 1e-14. Where
# directions nearly coincide, in logarithms and rotations, a few digits more are lost.
ROUND_OFF = {"rtol": 0, "atol": 1e-10}


def both(kernel="chi2", form="orthonormal", condense=False, order=None):
    """Systems of the kernel, and linear ones of the paths in an embedding that spans all frames."""
    paths = StreamEmbedding(kernel, size=1000).fit_transform(STREAMS)
    orders = [2 + k % 2 if order is None else order for k in range(len(paths))]
    exact, plain = (
        [sysbags.identify(one, n, kernel=k, normal_form=form) for one, n in zip(given, orders, strict=True)]
        for given, k in ((STREAMS, kernel), (paths, "linear"))
    )
    return exact, [theta.compress(theta.order + 1) for theta in plain] if condense else plain


@pytest.mark.parametrize("condense", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kernel", ["chi2", "intersection", "bhattacharyya"])
def test_distances_are_those_of_the_kernel(kernel, form, condense):
    exact, plain = both(kernel, form, condense)
    assert {theta.size for theta in plain} == ({3, 4} if condense else {25})
    for metric in ("alignment", "martin", "max-singular-value"):
        weights = {"lambda_a": 0.5, "lambda_mu": 1.0} if metric == "alignment" else {}
        expected, found = (
            sysbags.pairwise_distances(one, metric=metric, **weights) for one in (exact, plain)
        )
        np.testing.assert_allclose(found, expected, **ROUND_OFF)
    np.testing.assert_allclose(sysbags.cross_gram(plain).mean, sysbags.cross_gram(exact).mean, **ROUND_OFF)


@pytest.mark.parametrize("condense", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_means_are_those_of_the_kernel(form, condense):
    sides = both(form=form, condense=condense, order=2)
    expected, found = (sysbags.frechet_mean(systems, lambda_mu=1.0) for systems in sides)
    assert found.objective == pytest.approx(expected.objective, abs=1e-10)
    distances = [
        sysbags.pairwise_distances([mean.system], systems, lambda_mu=1.0)
        for mean, systems in zip((expected, found), sides, strict=True)
    ]
    np.testing.assert_allclose(distances[1], distances[0], **ROUND_OFF)
    if condense:  # a mean of systems with n + 1 samples each has n + 1 again
        again = found.system.compress(3)
        assert again.size == 3
        np.testing.assert_allclose(
            sysbags.pairwise_distances([again], sides[1], lambda_mu=1.0), distances[0], **ROUND_OFF
        )


def test_forecasts_are_those_of_the_kernel_in_the_embedding():
    exact, plain = both(condense=True)
    for one, other in zip(exact, plain, strict=True):
        expected, found = one.forecast(n_steps=6), other.forecast(n_steps=6)
        # The sign of a state is that of an eigenvector, which is decided by its largest entry.
        np.testing.assert_allclose(found.states, expected.states, **ROUND_OFF)
        np.testing.assert_allclose(found.covariances, expected.covariances, **ROUND_OFF)
        products = other.alpha.T @ other.samples @ found.histograms.T
        mean = other.alpha.T @ other.samples @ other.samples.T @ other.beta
        np.testing.assert_allclose(products.T - mean, expected.states @ one.observer_gram, **ROUND_OFF)


@given(
    st.integers(0, 1000),
    st.integers(1, 30),
    st.sampled_from([None, 1, 4]),
    st.sampled_from(["chi2", "intersection", "bhattacharyya"]),
)
@settings(max_examples=30, deadline=None)
@pytest.mark.filterwarnings("ignore::sysbags.errors.DistanceWarning")
def test_the_error_is_within_what_is_stated(seed, size, components, kernel):
    """The bound of docs/scale.md: the trace of what is lost of the kernel, a positive semidefinite matrix."""
    streams, _ = make_streams(classes=2, per_class=2, frames=20, bins=8, random_state=seed)
    embedding = StreamEmbedding(kernel, size, components=components, random_state=seed).fit(streams[1:])
    path, k = embedding.transform(streams[:1])[0], kernel_matrix(streams[0], kernel=kernel)
    lost = k - path @ path.T
    trace = np.diagonal(k).sum() - np.square(path).sum()
    assert np.linalg.eigvalsh(lost)[0] > -1e-9
    assert np.trace(lost) == pytest.approx(trace, abs=1e-9)
    if np.linalg.matrix_rank(path - path.mean(axis=0), tol=1e-3) < 3:
        return  # a system of order 3 does not exist
    exact, found = (
        sysbags.identify(*given, normal_form="unit-variance")
        for given in ((streams[0], 3, kernel), (path, 3, "linear"))
    )
    difference = exact.eigenvalues - found.eigenvalues
    assert difference.min() > -1e-9
    assert difference.max() <= trace + 1e-9
    assert -1e-9 < exact.mean_norm - found.mean_norm <= trace / len(path) + 1e-9


@pytest.mark.parametrize("normal_form", FORMS)
def test_a_pipeline_fits_predicts_and_is_saved(tmp_path, normal_form):
    streams, labels = make_streams(classes=2, per_class=6, frames=40, bins=8, noise=0.3)
    train = np.arange(len(streams)) % 2 == 0
    known, new = ([s for s, use in zip(streams, one, strict=True) if use] for one in (train, ~train))
    model, whole, exact = (
        make_pipeline(*start, SystemIdentifier(2, kernel, normal_form=normal_form), NearestSystem(**options))
        for start, kernel, options in (
            ((StreamEmbedding(size=300),), "linear", {"compress": 3}),
            ((StreamEmbedding(size=300),), "linear", {}),
            ((), "chi2", {}),
        )
    )
    for one in (model, whole, exact):
        one.fit(known, labels[train])
    assert exact.score(new, labels[~train]) > 0.8  # one of six is wrong in one form
    for one in (model, whole):
        np.testing.assert_array_equal(one.predict(new), exact.predict(new))
    for name, one in (("model", model), ("whole", whole)):
        sysbags.save(tmp_path / name, one)
    np.testing.assert_array_equal(sysbags.load(tmp_path / "model").predict(new), model.predict(new))
    arrays = describe(tmp_path / "model")["arrays"]
    d = len(model[0].landmarks_)
    assert arrays["steps/nearestsystem/systems_/0/samples"]["shape"] == [3, d]
    sizes = [(tmp_path / name).stat().st_size for name in ("model", "whole")]
    landmarks = model[0].landmarks_.nbytes + model[0].factor_.nbytes
    assert sizes[0] - landmarks < 0.25 * (sizes[1] - landmarks)


def test_a_system_is_saved_whole(tmp_path):
    theta = both(condense=True)[1][0]
    sysbags.save(tmp_path / "theta", theta)
    loaded = sysbags.load(tmp_path / "theta")
    for name in ("transition", "samples", "alpha", "beta", "observer_gram", "mean_norm", "states"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(theta, name))
    assert loaded.compression_error == {"observer": 0.0, "mean": 0.0, "relative": 0.0}


def test_a_library_of_the_linear_kernel_holds_n_plus_one_samples_of_each_clip(tmp_path):
    """A library reads clips, not streams: its systems are those of bags, without a `StreamEmbedding`."""
    (tmp_path / "clips").mkdir()
    for k in range(4):
        write_clip(tmp_path / "clips" / f"{k}.mkv", moving_frames(14, 32, 40, seed=k))
    with Library(tmp_path / "library") as library:
        library.add([tmp_path / "clips"], identifier=SystemIdentifier(2, "linear"), compress=3)
        systems = list(library.systems)
        assert [theta.size for theta in systems] == [3] * 4
        expected = sysbags.pairwise_distances(systems[:1], systems)[0]
        found = library.index().search(systems[0], 4, exact=True)
        np.testing.assert_allclose(found.distances, np.sort(expected), **ROUND_OFF)
        whole = sysbags.bags.LocalBinaryPatterns().transform([clip.path for clip in library.clips()])
        exact = sysbags.pairwise_distances([sysbags.identify(stream, 2, "linear") for stream in whole])
        np.testing.assert_allclose(expected, exact[0], rtol=0, atol=1e-6)  # samples in single precision
