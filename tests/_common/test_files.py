from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import textwrap

import pytest

from sysbags._common.files import atomic_write
from sysbags.errors import FileError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def put(path, text):
    with atomic_write(path) as temporary:
        temporary.write_text(text)


def test_writes_and_makes_the_folder(tmp_path):
    target = tmp_path / "a" / "b" / "table.csv"
    put(target, "new")
    assert target.read_text() == "new"
    assert names(target.parent) == ["table.csv"]


@pytest.mark.parametrize("name", ["table.csv", "model.tar.gz", "plain", ".hidden", "two words.é", "x" * 250])
def test_any_name_as_text_or_path(tmp_path, name):
    put(str(tmp_path / name), "one")
    put(tmp_path / name, "two")
    assert (tmp_path / name).read_text() == "two"
    assert names(tmp_path) == [name]


def test_a_bare_name_is_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put("table.csv", "new")
    assert names(tmp_path) == ["table.csv"]


def test_the_target_keeps_its_content_until_the_end(tmp_path):
    target = tmp_path / "clip.mp4"
    target.write_text("old")
    with atomic_write(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".mp4"
        assert temporary.name.startswith(".tmp-")
        assert temporary.read_bytes() == b""
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["clip.mp4"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("boom"), SystemExit(3), FileError("no")])
@pytest.mark.parametrize("existing", [True, False])
def test_an_interruption_leaves_what_was_there(tmp_path, error, existing):
    target = tmp_path / "model"
    if existing:
        target.write_text("old")

    def interrupted():
        with atomic_write(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(type(error)) as caught:
        interrupted()
    assert caught.value is error
    assert names(tmp_path) == (["model"] if existing else [])
    assert not existing or target.read_text() == "old"


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_at_the_last_moment(tmp_path, monkeypatch, call, error):
    def fail(*_):
        raise error

    target = tmp_path / "model"
    target.write_text("old")
    monkeypatch.setattr(os, call, fail)
    if isinstance(error, OSError):
        with pytest.raises(FileError, match=r"cannot write .*model: No space left on device$"):
            put(target, "new")
    else:
        with pytest.raises(KeyboardInterrupt):
            put(target, "new")
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_a_full_disk_in_the_middle(tmp_path):
    """A limit on the size of files stands for the disk."""
    code = """
        import resource, signal, sys
        from sysbags._common.files import atomic_write
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            with atomic_write(sys.argv[1]) as temporary:
                temporary.write_bytes(bytes(100_000))
        except ValueError as error:
            print(type(error).__name__, error)
    """
    (tmp_path / "model").write_text("old")
    run = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "model")]
    output = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert output == f"FileError cannot write {tmp_path / 'model'}: File too large\n"
    assert (tmp_path / "model").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_permissions_follow_the_mask_or_the_file_replaced(tmp_path):
    before = os.umask(0o027)
    try:
        put(tmp_path / "new", "text")
        (tmp_path / "old").write_text("old")
        (tmp_path / "old").chmod(0o604)
        put(tmp_path / "old", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o604


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "target.csv").write_text("old")
    link, dangling = tmp_path / "link.csv", tmp_path / "dangling.csv"
    link.symlink_to("there/target.csv")
    dangling.symlink_to("there/new.csv")
    put(link, "one")
    put(dangling, "two")
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert (tmp_path / "there" / "target.csv").read_text() == "one"
    assert (tmp_path / "there" / "new.csv").read_text() == "two"
    assert names(tmp_path) == ["dangling.csv", "link.csv", "there"]
    assert names(tmp_path / "there") == ["new.csv", "target.csv"]


def test_what_is_no_file_gets_a_sentence(tmp_path):
    (tmp_path / "file").write_text("old")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = names(tmp_path)
    for path, reason in [
        (tmp_path, "it is a folder, but it must be the name of a file"),
        ("/", "it is a folder, but it must be the name of a file"),
        (tmp_path / "pipe", "it is a device or a pipe, but it must be the name of a file"),
        (os.devnull, "it is a device or a pipe, but it must be the name of a file"),
        (tmp_path / "file" / "below", "Not a directory"),
        (tmp_path / "loop", "Too many levels of symbolic links"),
        (tmp_path / ("x" * 300), "File name too long"),
    ]:
        with pytest.raises(FileError) as caught:
            put(path, "new")
        assert str(caught.value) == f"cannot write {path}: {reason}"
    with pytest.raises(FileError, match=r"cannot write .*embedded null"):  # in the words of each Python
        put(f"{tmp_path}/nul\0l", "new")
    assert names(tmp_path) == before
    assert (tmp_path / "file").read_text() == "old"
