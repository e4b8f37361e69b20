"""The experiment on YUPENN, the very same code on a miniature, against a slow twin."""

from __future__ import annotations

import numpy as np
import pytest

import sysbags
from clips import moving_frames, write_clip
from miniatures import FRAMES, HEIGHT, WIDTH, WORDS, findings, miniature, run
from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags.bags import VisualWords, words
from sysbags.errors import ParameterError
from sysbags.evaluate import features
from sysbags.evaluate.splits import codebook_folds
from sysbags.reproduce import Options, yupenn


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    root = tmp_path_factory.mktemp("scenes")
    # The others are so calm at this size that some clips have no system of order 10.
    _, clips = miniature(root / "data", "yupenn", 3, 4, ("waves", "rain", "fire", "grass"))
    return clips, run(yupenn, clips, root / "cache"), root / "cache"


def described(clips, cache):
    """Samples, folds and codebooks of a miniature, by the pieces."""
    cache, bags = Cache(cache), VisualWords(WORDS)
    samples = features.sampled_descriptors(cache, bags, clips.paths, n_jobs=1)
    folds = codebook_folds(clips.labels, range(len(samples)))
    return samples, folds, [fitted.words_ for fitted in features.codebooks(cache, bags, samples, folds)]


def test_yupenn_against_a_twin(scenes):
    clips, outcome, cache = scenes
    _, folds, books = described(clips, cache)
    labels = np.array(clips.labels)
    metrics = {
        "martin": lambda a, b, _: sysbags.martin_distance(a, b),
        "max-singular-value": lambda a, b, _: sysbags.max_singular_value_distance(a, b),
        "alignment": lambda a, b, weights: sysbags.alignment_distance(a, b, **weights),
    }
    assert not outcome.evaluation.failures
    predictions = {k: [None] * len(labels) for k in range(5)}
    for part in range(3):
        bags = VisualWords(WORDS)
        bags.words_, bags.bandwidth_ = books[part], 1.0
        systems = [sysbags.identify(bags.stream(path), order=10) for path in clips.paths]
        for i in np.flatnonzero(folds == part):
            for k, method in enumerate(outcome.evaluation.methods):
                weights = {key: x for key, x in method.settings.items() if key.startswith("lambda")}
                distance = metrics[method.settings["metric"]]
                near = [distance(systems[i], other, weights) for other in systems]
                near[i] = np.inf
                predictions[k][i] = labels[int(np.argmin(near))]
    for k, method in enumerate(outcome.evaluation.methods):
        assert list(method.predictions) == predictions[k], method.name
        right = np.array(predictions[k]) == labels
        average = np.mean([right[folds == part].mean() for part in range(3)])
        assert method.settings["average of the three codebooks"] == pytest.approx(average, rel=1e-12)


def test_yupenn_has_the_papers_table_and_a_sweep(scenes):
    _, outcome, _ = scenes
    evaluation = outcome.evaluation
    assert [(m.settings["paper"], m.classifier) for m in evaluation.methods] == [
        (83.3, "nearest-system"),
        (80.7, "nearest-system"),
        (86.4, "nearest-system"),
        (88.8, "nearest-system"),
        (88.8, "nearest-system"),
    ]
    weights = [(m.settings.get("lambda_a"), m.settings.get("lambda_mu")) for m in evaluation.methods]
    assert weights[:4] == [(None, None), (None, None), (0.25, 0.0), (0.5, 0.8)]
    grid = np.array(outcome.details["grid"]["rates"])
    best = evaluation.methods[4]
    assert best.settings["average of the three codebooks"] == grid.max()
    a, mu = (
        outcome.details["grid"][name].index(w)
        for name, w in zip(("lambda_a", "lambda_mu"), weights[4], strict=True)
    )
    assert grid[a, mu] == grid.max()
    over_a, over_mu = evaluation.details.curves
    assert over_a.accuracies[over_a.values.index(0.5)] == over_mu.accuracies[over_mu.values.index(0.8)]
    assert outcome.runtimes["nearest-system"][1] == 31423.0
    assert outcome.departures == [f"there are {WORDS} words, not 500"]
    parts = list(outcome.details["codebook_folds"].values())
    assert sorted(np.bincount(parts)) == [4, 4, 4]


@pytest.mark.parametrize("options", [{}, {"window": 3, "step": 2}, {"assignment": "soft"}])
def test_streams_of_all_codebooks_are_the_bags_own(scenes, tmp_path, options):
    clips, _, cache = scenes
    samples, folds, books = described(clips, cache)
    bags = VisualWords(WORDS, **options)
    cache = Cache(tmp_path)
    streams = features.ClipFeatures(clips.paths, folds, cache, 1).streams(bags)
    widths = [fitted.bandwidth_ for fitted in features.codebooks(cache, bags, samples, folds)]
    assert len(streams) == len(books) == 3
    for book, width, version in zip(books, widths, streams, strict=True):
        fitted = VisualWords(WORDS, **options)
        fitted.words_, fitted.bandwidth_ = book, width
        assert len(version) == len(clips.paths)
        for path, stream in list(zip(clips.paths, version, strict=True))[:2]:
            np.testing.assert_array_equal(stream, fitted.stream(path))


def test_a_clips_codebook_has_not_seen_it(tmp_path):
    _, clips = miniature(tmp_path / "data", "yupenn", 2, classes=3)
    _, folds, before = described(clips, tmp_path / "cache")
    write_clip(clips.paths[2], moving_frames(FRAMES, HEIGHT, WIDTH, seed=9))
    _, _, after = described(clips, tmp_path / "cache")
    for part in range(3):
        same = np.array_equal(before[part], after[part])
        assert same == (part == folds[2])


def test_yupenn_goes_on_where_it_was_interrupted(scenes, tmp_path, monkeypatch):
    clips, complete, _ = scenes
    learnt, calls = [], []
    usual_learn, usual_masses = features.learn_words, words.word_masses

    def learn(*arguments):
        learnt.append(1)
        return usual_learn(*arguments)

    def masses(*arguments):
        calls.append(1)
        if len(calls) == 3 * FRAMES * 4 + 10 and not again:  # amid the fifth clip
            raise KeyboardInterrupt
        return usual_masses(*arguments)

    again = False
    monkeypatch.setattr(features, "learn_words", learn)
    monkeypatch.setattr(words, "word_masses", masses)
    with pytest.raises(KeyboardInterrupt):
        run(yupenn, clips, tmp_path)
    assert len(learnt) == 3
    again = True
    learnt.clear()
    calls.clear()
    outcome = run(yupenn, clips, tmp_path)
    assert not learnt
    assert len(calls) == 3 * FRAMES * (len(clips.paths) - 4)
    assert findings(outcome) == findings(complete)


def test_too_many_words_for_the_clips(scenes, tmp_path):
    clips, _, _ = scenes
    options = Options(cache=Cache(tmp_path), frames={"max_frames": 1}, words=99999, n_jobs=1)
    with pytest.raises(ParameterError, match=r"words is 99999, but two thirds .* ask for fewer words"):
        yupenn(clips, options, Stages())
