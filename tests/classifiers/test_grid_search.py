"""What the clones of a grid search share: the same results, with less work."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import sysbags
from sysbags._common.memory import MEMORY
from sysbags.classifiers import identifier
from sysbags.classifiers import streams as stream_classifier
from sysbags.datasets import make_streams
from sysbags.distances import shared
from sysbags.distances.gram import cross_gram
from sysbags.distances.shared import shared_cross_gram

STREAMS, LABELS = make_streams(classes=2, per_class=6, frames=30, bins=6)
RIDGE = (
    make_pipeline(sysbags.SystemIdentifier(), sysbags.KernelRidgeClassifier()),
    {"systemidentifier__order": [2, 3], "kernelridgeclassifier__ridge": [1.0, 0.1]},
)
MOMENTS = (
    sysbags.StreamClassifier(size=20),
    {"components": [2, 4], "combinations": [[("averages",)], [("averages", "covariances")]]},
)


@pytest.fixture
def memory(monkeypatch):
    """The memory, empty and in use."""
    monkeypatch.setattr(MEMORY, "limit", 10_000_000)
    MEMORY.clear()
    return MEMORY


def counted(monkeypatch, module, name, amount):
    """Replace a function by one that also adds to a list."""
    function, counts = getattr(module, name), []

    def counting(*arguments, **options):
        counts.append(amount(*arguments))
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, counting)
    return counts


def search(model, grid):
    return GridSearchCV(model, grid, cv=3, error_score="raise").fit(STREAMS, LABELS)


@pytest.mark.parametrize("case", [RIDGE, MOMENTS], ids=["ridge", "moments"])
def test_a_search_chooses_the_same_with_and_without(memory, case):
    found = search(*case)
    assert memory.bytes > 0
    with memory.off():
        expected = search(*case)
    for name in ("split0_test_score", "split1_test_score", "split2_test_score"):
        np.testing.assert_array_equal(found.cv_results_[name], expected.cv_results_[name])
    # The kernel between two streams is evaluated in either order, which rounds differently.
    np.testing.assert_allclose(
        found.decision_function(STREAMS), expected.decision_function(STREAMS), atol=1e-9
    )


def test_the_kernel_is_evaluated_once_for_each_pair_and_order(memory, monkeypatch):
    pairs = counted(monkeypatch, shared, "cross_gram", lambda rows, columns: len(rows) * len(columns or rows))
    systems = counted(monkeypatch, identifier, "identify_first", lambda *_: 1)
    search(*RIDGE)
    assert sum(systems) == 2 * 12
    # Both halves of the pairs among the first training set and the first test set count, others once.
    assert sum(pairs) <= 2 * 12**2
    with memory.off():
        del systems[:]
        search(*RIDGE)
    assert sum(systems) == (4 * 3 + 1) * 12


def test_moments_are_computed_once_for_each_fold_and_number_of_components(memory, monkeypatch):
    chunks = counted(monkeypatch, stream_classifier, "moments_of_paths", lambda *_: 1)
    search(*MOMENTS)
    assert len(chunks) == 2 * (2 * 3) + 1  # training and test set of three folds; and, at last, of all clips


@pytest.mark.parametrize("kernel", ["chi2", "linear"])
def test_blocks_of_any_collections(memory, monkeypatch, kernel):
    rng = np.random.default_rng(0)
    systems = [sysbags.identify(stream, 1 + k % 3, kernel) for k, stream in enumerate(STREAMS[:8])]
    for most in (10_000, 30):  # the second forgets again and again
        monkeypatch.setattr(shared, "MOST", most)
        for _ in range(12):
            rows, columns = ([systems[k] for k in rng.permutation(8)[: rng.integers(1, 8)]] for _ in range(2))
            for others in (None, columns):
                found, expected = shared_cross_gram(rows, others), cross_gram(rows, others)
                assert found.symmetric == expected.symmetric
                for name in ("observer", "mean"):
                    np.testing.assert_allclose(
                        getattr(found, name), getattr(expected, name), rtol=0, atol=1e-12
                    )
                np.testing.assert_array_equal(found.columns.orders, expected.columns.orders)


def test_a_stream_that_is_changed_in_place_is_another_one(memory):
    stream, model = STREAMS[0].copy(), sysbags.SystemIdentifier(2)
    (first,) = model.transform([stream])
    assert model.transform([stream])[0] is model.transform([stream.copy()])[0] is first
    stream[:] = STREAMS[1]
    np.testing.assert_array_equal(model.transform([stream])[0].samples, STREAMS[1])
    (several,) = model.transform([(stream,)])
    assert isinstance(several, tuple)
    assert model.set_params(order=3).transform([stream])[0].order == 3


def test_the_memory_is_bounded(memory, monkeypatch):
    monkeypatch.setattr(MEMORY, "limit", 10_000)
    sysbags.SystemIdentifier(2).transform(STREAMS)
    assert 0 < memory.bytes <= 10_000
    calls = []
    for _ in range(2):  # a function has no fingerprint
        memory.recall("test", [np.inner], lambda: calls.append(1) or (np.zeros(1),))
    assert len(calls) == 2


def test_masked_streams_are_refused_though_their_numbers_are_known(memory):
    model = sysbags.SystemIdentifier(2)
    model.transform(STREAMS[:1])
    with pytest.raises(sysbags.SysbagsError, match="masked"):
        model.transform([np.ma.masked_less(STREAMS[0], 0.01)])
