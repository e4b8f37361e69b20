"""Warnings, collected by thread and passed on to the threads of `run`; text that is safe on a terminal."""

from __future__ import annotations

import os
import threading
import warnings

import pytest

from sysbags._common.messages import collect_warnings, printable, summary_of_warnings, warn
from sysbags._common.parallel import run
from sysbags.errors import VideoWarning


def breaks_off(name):
    return f"{name} breaks off after 9 frames, used without the rest: its header promises 51 frames"


def test_without_a_collection_python_shows_them():
    with pytest.warns(VideoWarning, match="clip breaks off") as caught:
        warn("clip breaks off", VideoWarning)
    assert caught[0].filename == __file__


def test_a_collection_takes_their_place():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with collect_warnings() as outer:
            warn("one", VideoWarning)
            with collect_warnings() as inner:
                warn("two", VideoWarning)
            warn("three", VideoWarning)
        assert (outer, inner) == (["one", "three"], ["two"])
        with pytest.raises(VideoWarning, match="four"):
            warn("four", VideoWarning)


def test_a_collection_ends_with_an_error():
    with pytest.raises(KeyboardInterrupt), collect_warnings():
        raise KeyboardInterrupt
    with pytest.warns(VideoWarning):
        warn("one", VideoWarning)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_threads_of_run_add_to_the_callers_collection(n_jobs):
    with collect_warnings() as texts:
        run(lambda k: warn(str(k), VideoWarning), list(range(20)), n_jobs, "numbers")
    assert sorted(texts, key=int) == [str(k) for k in range(20)]


def test_each_thread_has_its_own_collection():
    names, collections = ["a", "b", "c"], {}
    meeting = threading.Barrier(len(names))  # all collections are open at the same time

    def work(name):
        with collect_warnings() as texts:
            meeting.wait()
            for k in range(100):
                warn(f"{name}{k}", VideoWarning)
            meeting.wait()
        collections[name] = texts

    with collect_warnings() as outer:
        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert outer == []
    assert collections == {name: [f"{name}{k}" for k in range(100)] for name in names}


def test_few_warnings_stay_as_they_are():
    texts = [breaks_off(name) for name in "cab"]
    assert summary_of_warnings([]) == []
    assert summary_of_warnings([*texts, texts[0]], clips=9) == sorted(texts)


def test_many_warnings_become_one_sentence():
    texts = [breaks_off(f"{k:02}.avi") for k in range(60)]
    ending = (
        "clips break off early and are used without the rest, for example 00.avi breaks off after 9 frames: "
        "its header promises 51 frames"
    )
    assert summary_of_warnings(texts + texts, clips=254) == [f"60 of 254 {ending}"]
    assert summary_of_warnings(texts[::-1]) == [f"60 {ending}"]
    others = ["the work continues without the cache"]
    assert summary_of_warnings(texts + others, clips=254) == [*others, f"60 of 254 {ending}"]


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("\x1b[31mred\x1b[0m.mp4", r"\x1b[31mred\x1b[0m.mp4"),
        ("a\nb\rc\td", r"a\nb\rc\td"),
        ("\0\x07\x7f\x9b", r"\x00\x07\x7f\x9b"),
        (os.fsdecode(b"\xff.avi"), r"\udcff.avi"),
    ],
)
def test_control_characters_become_visible(text, visible):
    assert printable(text) == visible
    assert printable(text).encode("utf-8").isascii()


@pytest.mark.parametrize("text", ["", "plain name.mp4", "été 波 \N{RAINBOW}", r"C:\x1b", "\xa0"])
def test_other_text_stays(text):
    assert printable(text) == text
