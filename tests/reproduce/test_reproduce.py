"""The experiments on DynTex, the very same code on miniatures, against a slow twin; and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sysbags
from cli_folder import call, call_json
from clips import image_bytes, moving_frames, write_clip
from miniatures import FRAMES, HEIGHT, WIDTH, findings, miniature, run
from sysbags._common.cache import Cache
from sysbags._common.messages import Stages
from sysbags.bags import LocalBinaryPatterns, streams
from sysbags.datasets import make_frames
from sysbags.errors import FileError, OrderError, VideoError
from sysbags.evaluate import features
from sysbags.reproduce import Options, dyntex, published


@pytest.fixture(scope="module")
def alpha(tmp_path_factory):
    root = tmp_path_factory.mktemp("alpha")
    layout, _ = miniature(root / "data", "dyntex-alpha", 4)
    clip = root / "data" / "Sea" / "3.mkv"
    clip.unlink()
    clip.with_suffix("").mkdir()  # a folder of images is a clip too
    for k, frame in enumerate(make_frames("waves", FRAMES, HEIGHT, WIDTH, 3)):
        (clip.with_suffix("") / f"{k}.png").write_bytes(image_bytes(frame))
    clips = layout.find(root / "data")
    return clips, run(dyntex, clips, root / "cache"), root / "cache"


def test_dyntex_against_a_twin_that_refits_for_each_clip(alpha):
    clips, outcome, _ = alpha
    systems = [sysbags.identify(LocalBinaryPatterns().stream(path), order=5) for path in clips.paths]
    labels, metrics = np.array(clips.labels), {}
    metrics["martin"] = sysbags.martin_distance
    metrics["max-singular-value"] = sysbags.max_singular_value_distance
    metrics["alignment"] = sysbags.alignment_distance  # its defaults are the paper's weights
    for method in outcome.evaluation.methods:
        distance = metrics[method.settings["metric"]]
        for k, system in enumerate(systems):
            near = {}
            for label in clips.layout.counts:
                members = np.flatnonzero(labels == label)
                others = [systems[j] for j in members if j != k]
                if method.classifier == "nearest-mean":
                    near[label] = distance(system, sysbags.frechet_mean(others).system)
                elif method.classifier == "nearest medoid":
                    sums = [sum(distance(candidate, other) for other in others) for candidate in others]
                    near[label] = distance(system, others[int(np.argmin(sums))])
                else:
                    near[label] = min(distance(system, other) for other in others)
            assert method.predictions[k] == min(near, key=near.get), (method.name, method.classifier, k)
        right = np.array(method.predictions) == labels
        assert (method.rate.right, method.rate.total) == (right.sum(), len(labels))


def test_dyntex_has_the_papers_tables_and_sweeps(alpha):
    _, outcome, _ = alpha
    evaluation = outcome.evaluation
    shown = [(m.name, m.classifier, m.settings["paper"]) for m in evaluation.methods]
    assert shown == [
        ("LBP systems, Martin", "nearest-system", 91.7),
        ("LBP systems, maximum singular value", "nearest-system", 96.7),
        ("LBP systems, alignment", "nearest-system", 98.3),
        ("LBP systems, Martin", "nearest medoid", 83.3),
        ("LBP systems, maximum singular value", "nearest medoid", 85.0),
        ("LBP systems, alignment", "nearest-mean", 88.3),
    ]
    assert evaluation.main == 5
    assert [m.p_value is None for m in evaluation.methods] == [False] * 5 + [True]
    over_a, over_mu = evaluation.details.curves
    np.testing.assert_allclose(over_a.values, 0.15 + 0.2 * np.arange(10), rtol=1e-12)
    np.testing.assert_array_equal(over_mu.values, 10.0 * np.arange(11))
    assert (over_a.fixed, over_mu.fixed) == (0.0, 0.25)
    assert over_mu.accuracies[0] == evaluation.methods[2].rate.share  # the untuned setting again
    assert outcome.runtimes.keys() == {"pair", "nearest-system", "nearest-mean"}
    assert outcome.runtimes["nearest-mean"][1] == 539.47
    pairs = 12 * 11 / 2
    assert outcome.runtimes["pair"][0] * pairs == pytest.approx(outcome.runtimes["nearest-system"][0])
    assert outcome.departures == []
    assert evaluation.failures == {}


@pytest.mark.parametrize("name", ["dyntex-beta", "dyntex-gamma"])
def test_the_larger_sets_run_whole(tmp_path, name):
    layout, clips = miniature(tmp_path / "data", name, 2)
    outcome = run(dyntex, clips, tmp_path / "cache")
    assert len(outcome.evaluation.clips) == 20
    assert outcome.evaluation.classes == tuple(sorted(layout.counts))
    assert outcome.evaluation.confusion.sum(axis=1).tolist() == [2] * 10
    assert outcome.evaluation.methods[2].settings["paper"] == published.figure(name, "SoB + Align", "1-NN")


def test_the_second_time_nothing_is_computed_again(alpha, monkeypatch):
    clips, outcome, cache = alpha
    for owner, name in ((streams, "describe"), (features, "identify_first"), (features, "cross_gram")):
        monkeypatch.setattr(owner, name, None)
    again = run(dyntex, clips, cache)
    assert findings(again) == findings(outcome)


def test_dyntex_goes_on_where_it_was_interrupted(alpha, tmp_path, monkeypatch):
    clips, complete, _ = alpha
    read, usual = [], streams.describe
    patience = 5

    def describe(bags, path):
        if len(read) == patience:
            raise KeyboardInterrupt
        result = usual(bags, path)
        read.append(path)
        return result

    monkeypatch.setattr(streams, "describe", describe)
    with pytest.raises(KeyboardInterrupt):
        run(dyntex, clips, tmp_path)
    assert len(list(tmp_path.iterdir())) == 5
    finished, patience = read.copy(), None
    read.clear()
    outcome = dyntex(clips, Options(cache=Cache(tmp_path), n_jobs=3), Stages())
    assert sorted(read) == sorted(set(clips.paths) - set(finished))
    assert findings(outcome) == findings(complete)


def test_a_clip_that_changed_is_read_again(tmp_path, monkeypatch):
    _, clips = miniature(tmp_path / "data", "dyntex-alpha", 2)
    run(dyntex, clips, tmp_path / "cache")
    write_clip(clips.paths[1], moving_frames(FRAMES, HEIGHT, WIDTH, seed=7))
    read, usual = [], streams.describe
    monkeypatch.setattr(streams, "describe", lambda bags, path: (read.append(path), usual(bags, path))[1])
    run(dyntex, clips, tmp_path / "cache")
    assert read == [clips.paths[1]]


def test_clips_without_a_system_are_left_out_and_told(tmp_path):
    _, clips = miniature(tmp_path / "data", "dyntex-alpha", 3)
    short, still, broken = clips.paths[0], clips.paths[3], clips.paths[6]
    write_clip(short, moving_frames(4, HEIGHT, WIDTH))
    write_clip(still, np.full((FRAMES, HEIGHT, WIDTH), 128, np.uint8))
    broken.write_bytes(b"no video")
    outcome = run(dyntex, clips, tmp_path / "cache")
    assert {path: type(error) for path, error in outcome.evaluation.failures.items()} == {
        short: OrderError,
        still: OrderError,
        broken: VideoError,
    }
    assert all(str(path) in str(error) for path, error in outcome.evaluation.failures.items())
    assert [clip.path for clip in outcome.evaluation.clips] == [
        p for p in clips.paths if p not in outcome.evaluation.failures
    ]
    assert all(method.rate.total == 6 for method in outcome.evaluation.methods)
    assert outcome.departures == [
        "3 clips are left out, as no system can be made of a clip that is short, still or broken"
    ]


def test_too_few_good_clips(tmp_path):
    _, clips = miniature(tmp_path / "data", "dyntex-alpha", 1)
    for path in clips.paths[1:]:
        path.write_bytes(b"no video")
    with pytest.raises(FileError, match=r"fewer than two classes have a clip that can be used.*0\.avi"):
        run(dyntex, clips, tmp_path / "cache")


def test_the_command_in_json_and_in_words(alpha, capsys, tmp_path, monkeypatch):
    clips, outcome, cache = alpha
    data = clips.paths[0].parents[1]
    monkeypatch.chdir(tmp_path)
    output = call_json(
        capsys, "reproduce", "dyntex-alpha", data, "--allow-incomplete", "--cache", cache, "--n-jobs", 1
    )
    assert output["set"] == "dyntex-alpha"
    assert output["classes"]["Sea"] == {"paper": 20, "found": ["0.avi", "1.mov", "2.mp4", "3"]}
    assert [m["per_cent"] for m in output["methods"]] == [
        100 * m.rate.share for m in outcome.evaluation.methods
    ]
    assert [m["paper"] for m in output["methods"]] == [91.7, 96.7, 98.3, 83.3, 85.0, 88.3]
    assert output["confusion"]["counts"] == outcome.evaluation.confusion.tolist()
    assert output["departures"] == [
        f"{name} has 4 clips, 16 fewer than 20" for name in ("Sea", "Grass", "Trees")
    ]
    assert output["runtimes"]["nearest-system"]["paper"] == 112.8
    assert json.dumps(output["curves"])
    code, out, err = call(
        capsys, "reproduce", "dyntex-alpha", data, "--allow-incomplete", "--cache", cache, "--n-jobs", 1
    )
    assert code == 0
    assert "Sea has 4 clips, 16 fewer than 20" in err
    assert "Not as in the paper: Sea has 4 clips" in out
    for row in ("LBP systems, alignment", "ASF-TOP (published)", "2D+T Curvelet (published)", "lambda_mu"):
        assert row in out
    line = next(line for line in out.splitlines() if "alignment" in line and "nearest-mean" in line)
    assert "88.3 %" in line
    assert f"{100 * outcome.evaluation.methods[5].rate.share:.1f} %" in line
    assert list(tmp_path.iterdir()) == []  # all is in the cache


def test_the_command_keeps_its_stages_in_the_working_folder(capsys, tmp_path, monkeypatch):
    miniature(tmp_path / "data", "dyntex-beta", 1, classes=4)
    monkeypatch.chdir(tmp_path)
    report = tmp_path / "beta.html"
    code, out, err = call(
        capsys,
        "reproduce",
        "dyntex-beta",
        "data",
        "--allow-incomplete",
        "--max-frames",
        12,
        "--report",
        report,
        "--n-jobs",
        1,
    )
    assert code == 0, err
    assert "Intermediate results: .sysbags-cache" in out
    assert "frames were read with max_frames = 12" in out
    assert "The paper's, SoB + Align, NCC (tbl:beta_confusion)" in out
    assert len(list((tmp_path / ".sysbags-cache").iterdir())) == 4 + 4 + 1  # streams, systems, the kernel
    assert "<html" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["dyntex-alpha", "data"],
            "data is not DynTex Alpha as in the paper, 60 clips in 3 classes: Sea has 1 clip",
        ),
        (["dyntex-alpha", "nowhere"], "nowhere does not exist"),
        (
            ["dyntex-alpha", "data", "--allow-incomplete", "--words", "9"],
            "--words goes with yupenn, but the data set is dyntex-alpha",
        ),
        (["dyntex-alpha", "data", "--report", "no/where.html"], "cannot write no/where.html"),
        (["ucf", "data"], "'ucf' is not one of"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(capsys, tmp_path, monkeypatch, arguments, sentence):
    for name in ("Sea", "Grass", "Trees"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "1.avi").touch()
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "reproduce", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
