"""The report as a file: its content, its policy, and names that must stay text."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import warnings
from importlib import resources

import cv2
import numpy as np
import pytest

from clips import moving_frames, write_clip
from evaluations import EVIL, changed, make_evaluation, make_pictures, with_evil_names
from pages import Page
from sysbags.datasets import make_clips
from sysbags.errors import FileError, ParameterError, VideoError, VideoWarning
from sysbags.evaluate.results import Clip
from sysbags.report import page as report
from sysbags.video import frames


@pytest.fixture(scope="module")
def evaluation():
    return make_evaluation()


@pytest.fixture(scope="module")
def shots(evaluation):
    return make_pictures(evaluation)


@pytest.fixture(scope="module")
def text(evaluation, shots):
    return report.page(evaluation, shots)


def test_the_page_makes_no_request_and_runs_only_its_own_script(text):
    page = Page(text)
    assert not re.search(r"""https?://(?!www\.w3\.org/2000/svg)|@import|url\(""", text)
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert all(anchor["href"].startswith("#") for anchor in page.all("a"))
    assert not [a for _, a in page.seen if "src" in a or any(name.startswith("on") for name in a)]
    [policy] = [meta["content"] for meta in page.all("meta") if "http-equiv" in meta]
    digest = base64.b64encode(hashlib.sha256(page.raw["module"].encode()).digest()).decode()
    assert policy == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; " + f"script-src 'sha256-{digest}'"
    )
    targets = {a["id"] for _, a in page.seen if "id" in a}
    assert {anchor["href"][1:] for anchor in page.all("a")} <= targets
    assert len(targets) == sum("id" in a for _, a in page.seen)


def test_summary_and_tables_need_no_script(evaluation, text):
    shown = Page(text).text
    main = evaluation.methods[evaluation.main]
    assert evaluation.title in shown
    assert evaluation.protocol in shown
    assert "20 clips in 4 classes" in shown
    assert f"{main.rate.right} of 20 clips correct" in shown
    for method in evaluation.methods:
        assert f"{100 * method.rate.share:.1f} %" in shown
        assert method.name in shown
        assert method.classifier in shown
    for p in ("0.031", "0.400", "<\N{NO-BREAK SPACE}0.001"):
        assert p in shown
    for figure in evaluation.published:
        assert f"{figure.rate:.1f} %" in shown
        assert figure.source in shown
    assert shown.count("published") == len(evaluation.published) + 1  # each figure, and the best in the head
    for stage, seconds in (
        ("reading", "12.3 s"),
        ("systems", "0.84 s"),
        ("kernel", "140 s"),
        ("total", "153 s"),
    ):
        assert stage in shown
        assert seconds in shown
    assert "LocalBinaryPatterns" in shown
    assert "0.00123456" in shown


def test_intervals_are_drawn_to_scale(evaluation, text):
    body = text[text.index("<tbody>") :]
    drawn = re.findall(r'class="range" style="left: ([\d.]+)%; width: ([\d.]+)%', body)
    for method, (left, width) in zip(evaluation.methods, drawn, strict=True):
        assert float(left) == pytest.approx(100 * method.rate.low, abs=0.01)  # two decimals are kept
        assert float(left) + float(width) == pytest.approx(100 * method.rate.high, abs=0.01)


def test_the_best_of_each_kind_stands_in_the_head(evaluation):
    better = dataclasses.replace(evaluation.methods[3], rate=dataclasses.replace(evaluation.methods[1].rate))
    chosen = changed(evaluation, methods=(*evaluation.methods[:3], better), published=())
    head = report.page(chosen, [b""] * 20).split("</header>")[0]
    assert "same accuracy, p" in head
    assert "Best published" not in head
    single = changed(evaluation, methods=evaluation.methods[1:2], main=0)
    head = report.page(single, [b""] * 20).split("</header>")[0]
    assert head.count('class="tile"') == 1  # beside the main method only the best published figure


def test_confidence_needs_no_script_but_for_its_diagram(evaluation, text):
    summary = evaluation.confidence_summary
    body = text.split('<section id="confidence"')[1].split("</section>")[0]
    shown = " ".join(Page(f"<section{body}</section>").text.split())
    assert f"expected calibration error {100 * summary['expected_calibration_error']:.1f} %" in shown
    for row in summary["coverage"]:
        cells = "{sources:.1%}{clips:.1%}{size:.2f}{empty:.1%}".format(**row).replace("%", " %")
        assert f"{100 * row['level']:.0f} %{cells}" in shown
    assert "above 88.9 % every set holds all classes" in shown  # there are eight sources
    data = json.loads(Page(text).raw["application/json"])
    assert data["reliability"] == summary["reliability"]


def test_a_method_without_confidence_has_no_such_section(evaluation):
    page = report.page(changed(evaluation, main=0), [b""] * 20)
    assert "confidence-head" not in page
    assert "#confidence" not in page
    assert json.loads(Page(page).raw["application/json"])["reliability"] is None


@pytest.mark.parametrize("text", [EVIL[0], "frames were read with size = 120; 3 clips are left out"])
def test_departures_from_the_paper_stand_under_the_title(evaluation, text):
    facts = {"bag": "LocalBinaryPatterns", "departures from the paper": text}
    page = report.page(changed(evaluation, facts=facts), [b""] * 20)
    head = page.split('<p class="lead">')[0]
    assert Page(head.split("</h1>")[1]).text.split() == f"Not as in the paper: {text}.".split()
    assert Page(page).text.count(text) == 2  # here and among the settings


def test_without_departures_nothing_is_said(evaluation, text):
    assert "Not as in the paper" not in text
    complete = changed(evaluation, facts={"departures from the paper": "none"})
    assert "Not as in the paper" not in report.page(complete, [b""] * 20)


def test_data_round_trip(evaluation, shots, text):
    stored = json.loads(Page(text).raw["application/json"])
    assert [base64.b64decode(shot) for shot in stored.pop("pictures")] == shots
    assert stored == json.loads(json.dumps(report.compact(evaluation)))
    code = evaluation.classes.index
    assert stored["truth"] == [code(clip.label) for clip in evaluation.clips]
    predictions = np.array(stored["predictions"][stored["main"]])
    counts = np.zeros((4, 4), dtype=int)
    np.add.at(counts, (np.array(stored["truth"]), predictions), 1)
    assert np.array_equal(counts, evaluation.confusion)
    near = evaluation.details.relations
    # Three significant digits are kept, four in the plane: relative errors up to half a unit of the last.
    np.testing.assert_allclose(stored["neighbour_parts"], near.neighbour_parts, rtol=5e-3, atol=1e-12)
    for method, one in zip(evaluation.methods, stored["explanations"], strict=True):
        if method.explanations is None:
            assert one is None
            continue
        assert one["names"] == ["averages", "covariances"]
        for name in ("distances", "probabilities", "parts"):
            expected = [list(getattr(each, name).values()) for each in method.explanations]
            np.testing.assert_allclose(one[name], expected, rtol=5e-3, atol=1e-12)
        assert one["scores"] == [None] * len(method.predictions)
    assert [one is not None for one in stored["explanations"]] == [False, True, False, False]
    np.testing.assert_allclose(stored["plane"], near.plane, rtol=5e-4, atol=1e-12)


def test_settings_that_were_chosen_and_how_often(evaluation, shots):
    main = dataclasses.replace(
        evaluation.methods[1],
        classifier="moments",
        settings={"components": 32, "ridge": {"0.1": 7, "0.3": 3}},
    )
    folds = "leaves out one of at most ten folds at a time"
    assert folds not in report.page(evaluation, shots)
    text = report.page(changed(evaluation, methods=(evaluation.methods[0], main)), shots)
    assert "<li>components: 32</li><li>ridge: 0.1 (7), 0.3 (3)</li>" in text
    assert folds in " ".join(text.split())


def test_names_cannot_break_out(evaluation, shots):
    hostile = with_evil_names(evaluation)
    page = Page(report.page(hostile, shots))
    assert [script.get("type") for script in page.all("script")] == ["application/json", "module"]
    assert not page.all("img")
    stored = json.loads(page.raw["application/json"])
    assert stored["classes"] == list(hostile.classes)
    assert [clip["name"] for clip in stored["clips"]] == [clip.name for clip in hostile.clips]
    assert EVIL[0] in page.text


def test_a_class_without_others_and_systems_without_states(evaluation):
    main = evaluation.methods[1]
    first, *others = main.explanations
    scores = dict.fromkeys(evaluation.classes, 0.25) | {evaluation.classes[0]: -np.inf}
    first = dataclasses.replace(
        first, distances=first.distances | {evaluation.classes[0]: np.inf}, scores=scores
    )
    found = (first, *others)
    single_group_classes = changed(
        evaluation,
        methods=(dataclasses.replace(main, make_explanations=lambda: found),),
        main=0,
        systems=tuple(dataclasses.replace(system, states=None) for system in evaluation.details.systems),
    )
    compact = report.compact(single_group_classes)
    assert compact["explanations"][0]["distances"][0][0] is None
    assert compact["explanations"][0]["scores"][:2] == [[None, 0.25, 0.25, 0.25], None]
    assert set(compact["systems"][0]) == {"eigenvalues"}


def test_quantised_numbers():
    values = np.random.default_rng(0).standard_normal((3, 50))
    compact = report.quantised(values)
    levels = np.frombuffer(base64.b64decode(compact["bytes"]), dtype=np.int8).reshape(3, 50)
    # Half a level, and the scale has three significant digits.
    tolerance = (0.5 / 127 + 5e-3) * np.abs(values).max()
    np.testing.assert_allclose(levels * compact["scale"], values, rtol=0, atol=tolerance)
    assert np.abs(levels).max() == 127
    assert report.quantised(np.zeros(2)) == {"scale": 0, "bytes": "AAA="}


def test_trajectories(evaluation):
    system = evaluation.details.systems[0]
    states = np.random.default_rng(0).standard_normal((700, system.order))
    compact = report._system(dataclasses.replace(system, states=states))
    assert (compact["steps"], compact["frames"]) == (600, 700)
    levels = np.frombuffer(base64.b64decode(compact["states"]["bytes"]), dtype=np.int8).reshape(3, 600)
    # A cosine of 1 up to rounding: the first 600 steps of the first three states, in this order.
    for drawn, state in zip(levels.astype(float), states[:600, :3].T, strict=True):
        assert drawn @ state > 0.999 * np.linalg.norm(drawn) * np.linalg.norm(state)
    eigenvalues = np.array(compact["eigenvalues"]) @ [1, 1j]
    np.testing.assert_allclose(eigenvalues, np.linalg.eigvals(system.transition), rtol=0, atol=1e-3)


def test_atlas(evaluation):
    rng = np.random.default_rng(0)
    swings = rng.permutation(np.linspace(0.1, 1.0, 300))
    wave = np.sin(np.arange(40))[:, None]
    mean = dataclasses.replace(
        evaluation.details.atlas[0], histogram=rng.dirichlet(np.ones(300)), dynamics=5.0 + wave * swings
    )
    compact = report._mean(mean)
    assert compact["bins"] == sorted(np.argsort(swings)[-24:])
    assert (compact["steps"], compact["length"], compact["size"]) == (40, 300, 5)
    assert compact["nearest"] == list(mean.members[:6])
    course = np.frombuffer(base64.b64decode(compact["dynamics"]["bytes"]), dtype=np.int8).reshape(24, 40)
    expected = (wave - wave.mean()).T * swings[compact["bins"]][:, None]
    np.testing.assert_allclose(course * compact["dynamics"]["scale"], expected, rtol=0, atol=0.01)
    bars = np.frombuffer(base64.b64decode(compact["histogram"]["bytes"]), dtype=np.int8)
    assert len(bars) == 256
    merged = np.zeros(256)  # bin b belongs to the last bar that begins at or before it
    for b, mass in enumerate(mean.histogram):
        merged[max(k for k in range(256) if k * 300 // 256 <= b)] += mass
    np.testing.assert_allclose(bars * compact["histogram"]["scale"], merged, rtol=0, atol=0.01 * merged.max())


def test_420_clips_stay_small(evaluation):
    times = 21
    tall = {"distances": np.zeros((0, 0))}  # never needed
    for name in ("plane", "neighbours", "neighbour_parts"):
        tall[name] = np.repeat(getattr(evaluation.details.relations, name), times, axis=0)
    tall["neighbour_parts"] = np.repeat(tall["neighbour_parts"], 2, axis=1)
    states = np.random.default_rng(0).standard_normal((500, 3))
    system = dataclasses.replace(evaluation.details.systems[0], states=states)
    many = changed(
        evaluation,
        clips=evaluation.clips * times,
        methods=tuple(
            dataclasses.replace(
                method,
                predictions=method.predictions * times,
                make_confidence=None,
                make_explanations=lambda: evaluation.methods[1].explanations * times,
            )
            for method in evaluation.methods
        ),
        systems=(system,) * 420,
        relations=dataclasses.replace(evaluation.details.relations, **tall),
        atlas=evaluation.details.atlas * 5,
    )
    noise = np.random.default_rng(0).integers(0, 256, (120, 213, 3), dtype=np.uint8)
    smooth = cv2.GaussianBlur(noise, (0, 0), 1.0)  # still busier than a frame of a clip
    jpeg = cv2.imencode(".jpg", smooth, [cv2.IMWRITE_JPEG_QUALITY, report.JPEG_QUALITY])[1].tobytes()
    assert len(report.page(many, [jpeg] * 420)) < 8e6


def grey_of(jpeg):
    return cv2.imdecode(np.frombuffer(jpeg, dtype=np.uint8), cv2.IMREAD_COLOR)


@pytest.mark.parametrize(("count", "tolerance"), [(1, 4), (9, 4), (64, 4), (200, 12)])
def test_pictures_are_from_the_middle(tmp_path, count, tolerance):
    """Each frame is grey, the brighter the later: 1 level a frame, and JPEG may err by a few."""
    film = np.arange(20, 20 + count, dtype=np.uint8)[:, None, None] * np.ones((1, 30, 40), dtype=np.uint8)
    path = write_clip(tmp_path / "clip.mkv", film, pixel_format="gray")
    [jpeg] = report.pictures([Clip("a/clip", path, "a")])
    shown = grey_of(jpeg)
    assert shown.shape == (120, 160, 3)
    assert abs(shown.mean() - (20 + count / 2)) <= tolerance


def test_pictures_keep_order_colours_and_proportions(tmp_path):
    film = np.zeros((3, 64, 32, 3), dtype=np.uint8)
    film[..., 0] = 200
    first = write_clip(tmp_path / "upright.mp4", film)
    second = write_clip(tmp_path / "wide.mp4", film.transpose(0, 2, 1, 3)[..., ::-1])
    clips = [Clip("a/upright", first, "a"), Clip("b/wide", second, "b")]
    upright, wide = (grey_of(jpeg) for jpeg in report.pictures(clips, n_jobs=2))
    assert (upright.shape, wide.shape) == ((120, 60, 3), (120, 240, 3))
    assert upright[..., 2].mean() > 150 > 50 > upright[..., 0].mean()  # OpenCV's order: blue first
    assert wide[..., 0].mean() > 150 > 50 > wide[..., 2].mean()


def test_broken_and_missing_clips(tmp_path):
    path = write_clip(tmp_path / "clip.mkv", moving_frames(30), pixel_format="gray")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(VideoWarning):
        list(frames(path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(report.pictures([Clip("a/clip", path, "a")])) == 1
    with pytest.raises(VideoError, match=r"gone\.mp4 does not exist"):
        report.pictures([Clip("a/gone", tmp_path / "gone.mp4", "a")])


def test_write(tmp_path, monkeypatch):
    paths, _ = make_clips(tmp_path, 2, frames=3, height=32, width=48, textures=["fire", "rain"])
    evaluation = make_evaluation(2, 2, names=("fire", "rain"), neighbours=2, paths=paths)
    target = tmp_path / "new folder" / "report.html"
    report.write_report(target, evaluation, n_jobs=2)
    assert target.read_text(encoding="utf-8") == report.page(evaluation, report.pictures(evaluation.clips))
    # Half a surrogate pair is what a file name that is no text looks like.
    strange = changed(evaluation, title="caf\udce9")
    report.write_report(target, strange)
    assert "<title>caf?: " in target.read_text(encoding="utf-8")

    before = target.read_bytes()
    with pytest.raises(FileError, match="folder"):
        report.write_report(tmp_path, evaluation)
    monkeypatch.setattr(report, "page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.write_report(target, evaluation)
    assert target.read_bytes() == before
    assert [file.name for file in target.parent.iterdir()] == ["report.html"]


def test_a_picture_for_each_clip(evaluation):
    with pytest.raises(ParameterError, match="3 pictures, but there must be 20, one for each clip"):
        report.page(evaluation, [b""] * 3)


def test_own_files_cannot_end_their_element():
    files = {
        file.name: file.read_text(encoding="utf-8")
        for file in resources.files("sysbags.report").joinpath("static").iterdir()
    }
    scripts = [name for name in files if name.endswith(".js")]
    assert sorted(scripts) == sorted([*report.SCRIPTS, "live.js"])  # that of the page of watch
    assert len(files) == len(scripts) + 5  # and the style sheets
    for name in files:
        assert "</" not in files[name]
        assert "<!--" not in files[name]
