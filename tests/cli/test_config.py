"""Configuration files: which are read, what they may hold, and what comes first."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from cli_folder import call, call_json, make_classes
from sysbags.cli._config import user_file
from sysbags.cli.config import TEMPLATE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return make_classes(tmp_path_factory.mktemp("config") / "clips", per_class=2)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """An empty folder and an empty home; a function that writes a file of one of the three places."""
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SYSBAGS_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    files = {
        "user": home / "sysbags" / "sysbags.toml",
        "folder": Path("sysbags.toml"),
        "environment": tmp_path / "e",
    }

    def write_file(text, place="folder"):
        files[place].parent.mkdir(parents=True, exist_ok=True)
        files[place].write_text(text)
        if place == "environment":
            monkeypatch.setenv("SYSBAGS_CONFIG", str(files[place]))
        return files[place]

    return write_file


def values(capsys, *command):
    rows = call_json(capsys, "config", *command)["values"]
    return {(row["command"], row["option"]): (row["value"], row["from"]) for row in rows}


def test_no_file(capsys, write):
    assert call_json(capsys, "config") == {"files": [], "values": []}
    code, out, err = call(capsys, "config")
    assert (code, err) == (0, "")
    assert "no file" in out
    assert values(capsys, "fit")["fit", "--n-jobs"] == (-1, "built-in")
    assert values(capsys, "fit")["fit", "--kernel"] == ("chi2", "built-in")
    assert call(capsys, "config", "--path")[1].strip() == str(user_file())


def test_precedence(capsys, write, classes, tmp_path):
    """Command line, environment, folder, user, built-in; a table of a command comes before [defaults]."""
    user = write(
        "[defaults]\norder = 2\nwindow = 2\nkernel = 'linear'\n[inspect]\nstride = 3\nwords = 9", "user"
    )
    assert values(capsys)["inspect", "--order"] == ("2", str(user))
    here = write("[defaults]\norder = 3\n[inspect]\nwindow = 3\nmax-frames = 12")
    assert values(capsys)["inspect", "--order"] == ("3", "sysbags.toml")
    named = write("[defaults]\nwindow = 1\n[inspect]\norder = 4", "environment")
    found = values(capsys, "inspect")
    assert found["inspect", "--order"] == ("4", str(named))
    assert found["inspect", "--window"] == ("1", str(named))
    assert found["inspect", "--max-frames"] == ("12", str(here))
    assert found["inspect", "--stride"] == ("3", str(user))
    assert found["inspect", "--size"] == (None, "built-in")
    assert values(capsys)["distance", "--order"] == ("3", "sysbags.toml")
    assert [file["place"] for file in call_json(capsys, "config")["files"]] == [
        "user",
        "folder",
        "environment",
    ]
    # And so it is used: every third of the first frames, with a kernel.
    clip = classes / "waves" / "0.mp4"
    system = call_json(capsys, "inspect", clip, "--order", 1, "--stride", 1)["systems"][0]
    assert (system["order"], system["kernel"], system["samples"]) == (1, "linear", 12)
    assert call_json(capsys, "inspect", clip, "--stride", 1)["systems"][0]["order"] == 4


def test_an_empty_variable_reads_no_file(capsys, write, monkeypatch):
    write("[defaults]\nn-jobs = 3")
    monkeypatch.setenv("SYSBAGS_CONFIG", "")
    assert call_json(capsys, "config")["files"] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[fit\n", "sysbags.toml is not valid TOML: "),
        ("order = 3", "order is in no table, but it must be in [defaults] or in the table of a command"),
        ("[fot]\norder = 3", "sysbags.toml: [fot] is not a command: did you mean fit?"),
        ("[library.ad]\norder = 3", "sysbags.toml: [library.ad] is not a command: did you mean library.add?"),
        ("[fit]\nordre = 3", "[fit] ordre is not an option of `sysbags fit`: did you mean order?"),
        ("[fit]\nversion = true", "[fit] version is not an option of `sysbags fit`"),
        ("[watch]\nstride = 3", "[watch] stride is not an option of `sysbags watch`"),
        (
            "[defaults]\nn-job = 3",
            "[defaults] n-job is not an option that commands share: did you mean n-jobs?",
        ),
        ("[defaults]\nout = 'x'", "[defaults] out is not an option that commands share"),
        ("[fit]\nn-jobs = 'all'", "[fit] n-jobs is 'all': "),
        ("[fit]\nn-jobs = true", "[fit] n-jobs is True, but it must be a number or a text"),
        ("[fit]\nbags = ['lbp']", "[fit] bags is ['lbp'], but it must be a number or a text"),
        ("[fit]\nbags = ''", "[fit] bags is '', but it must be a number or a text"),
        ("[fit]\nwindow = 0", "[fit] window is 0: "),
        ("[fit]\nmetric = 'city'", "[fit] metric is 'city': "),
        ("[fit]\njson = 'yes'", "[fit] json is 'yes', but it must be true or false"),
        ("[fit]\ncache = '../x'", "[fit] cache is '../x', which leads out of the folder"),
        ("[fit]\ncache = '/x'", "[fit] cache is '/x', which leads out of the folder"),
        ("[defaults]\nscheduler = 'tcp://x:1'", "[defaults] scheduler is 'tcp://x:1', which leads out"),
    ],
)
def test_mistakes(capsys, write, text, sentence):
    write(text)
    code, out, err = call(capsys, "models", "list")
    assert (code, out) == (2, "")
    assert err.startswith("sysbags: sysbags.toml")
    assert sentence in err
    assert err.count("\n") == 1
    assert call(capsys, "--version")[0] == 0
    assert call(capsys, "--help")[0] == 0


def test_what_a_folder_may_not_say_the_user_may(capsys, write):
    write("[defaults]\nscheduler = 'tcp://x:1'\ncache = '/x'", "user")
    assert values(capsys)["matrix", "--scheduler"][0] == "tcp://x:1"
    assert values(capsys)["evaluate", "--cache"][0] == "/x"


def test_a_variable_that_names_no_file(capsys, write, monkeypatch):
    monkeypatch.setenv("SYSBAGS_CONFIG", "nowhere.toml")
    code, _, err = call(capsys, "models", "list")
    assert (code, err) == (2, "sysbags: SYSBAGS_CONFIG is nowhere.toml, but there is no such file\n")


def test_an_error_of_a_command_names_the_file(capsys, write, classes):
    write("[fit]\norder = 'five'\nn-jobs = 0")
    code, _, err = call(capsys, "fit", classes, "--out", "m")
    assert code == 2
    assert err.endswith("(--order is from sysbags.toml)\n")
    code, _, err = call(capsys, "fit", classes, "--out", "m", "--order", "six")
    assert err.endswith("of at least 1 or auto\n")
    code, _, err = call(capsys, "fit", classes, "--out", "m", "--order", "2")
    assert err.endswith("(--n-jobs is from sysbags.toml)\n")


def test_help_shows_the_default(capsys, write):
    write("[fit]\norder = 17\nlambda-a = 0.125")
    out = call(capsys, "fit", "--help")[1]
    assert "[default: 17]" in out
    assert "[default: 0.125]" in out


def test_quiet_and_verbose(capsys, write):
    write("[defaults]\nquiet = true\n[models.list]\nverbose = true\nquiet = false")
    assert "defaults from sysbags.toml" in call(capsys, "models", "list")[2]
    assert call(capsys, "-q", "models", "list")[2] == ""
    assert call(capsys, "models", "list", "-q")[2] == ""
    assert "version" in call(capsys, "-v", "models")[2]
    assert "version" in call(capsys, "models", "-v")[2]


def test_a_library_has_its_settings(capsys, write, classes, tmp_path):
    """Files give the settings of a new library, and are not compared with those of an old one."""
    write("[defaults]\norder = 2\n[library.add]\ncompress = 10\nlandmarks = 7\nwindow = 2")
    first, library = classes / "waves", tmp_path / "l.library"
    assert call_json(capsys, "library", "add", library, first)["added"] == 2
    facts = call_json(capsys, "library", "info", library)
    assert (facts["most_landmarks"], facts["compress"]) == (7, 10)
    assert "window=2" in facts["bags"]
    write(
        "[defaults]\norder = 3\nbags = 'colour'\n[library.add]\ncompress = 5\nlandmarks = 8\nmodel = 'none'"
    )
    assert call_json(capsys, "library", "add", library, classes / "flicker")["added"] == 2
    code, _, err = call(capsys, "library", "add", library, first, "--order", 3)
    assert (code, "order" in err) == (2, True)


def test_what_does_not_fit_the_command_line_is_left_out(capsys, write, classes, tmp_path):
    """A default of a file gives way to a model, a saved file, another bag or a preset."""
    clip, model = classes / "waves" / "0.mp4", tmp_path / "m"
    weights = ["--lambda-a", 0.5, "--lambda-mu", 1, "--order", 2]
    assert call(capsys, "fit", classes, "--out", model, *weights)[0] == 0
    write(
        "[defaults]\nwords = 9\norder = 3\nbags = 'surf'\nwindow = 1\n"
        "[distance]\nlambda-a = 7\nmetric = 'martin'\n"
        "[evaluate]\nfolds = 2\n[fit]\nlambda-a = 0.5\nlambda-mu = 1"
    )
    assert call_json(capsys, "inspect", model)["kind"] == "Pipeline"
    found = call_json(capsys, "distance", clip, clip, "--model", model)
    assert (found["metric"], found["lambda_a"], found["lambda_mu"]) == ("alignment", 0.5, 1.0)
    assert call_json(capsys, "inspect", clip, "--bags", "lbp")["systems"][0]["order"] == 3
    assert call_json(capsys, "fit", classes, "--out", model, "--preset", "fast")["clips"] == 4
    evaluated = call_json(capsys, "evaluate", classes, "--bags", "lbp", "--classifier", "nearest-mean")
    assert [method["kind"] for method in evaluated["methods"]] == ["systems", "averages"]
    write("[fit]\npreset = 'fast'\nlambda-a = 0.5\nlambda-mu = 1")
    assert call_json(capsys, "fit", classes, "--out", model, "--bags", "lbp")["clips"] == 4
    write("[fit]\npreset = 'fast'\nbags = 'lbp'")
    code, _, err = call(capsys, "fit", classes, "--out", model)
    assert code == 2
    assert "(--bags is from sysbags.toml, --preset is from sysbags.toml)" in err


def test_template(capsys, write):
    assert call(capsys, "config", "--init") == (0, "written: sysbags.toml\n", "")
    assert Path("sysbags.toml").read_text() == TEMPLATE
    assert values(capsys) == {}
    Path("sysbags.toml").write_text(re.sub(r"^# (?=[a-z-]+ = )", "", TEMPLATE, flags=re.M))
    assert len(set(values(capsys).values())) == 10  # every example is valid
    code, _, err = call(capsys, "config", "--init")
    assert (code, "exists already" in err) == (2, True)


def test_unknown_command(capsys, write):
    code, _, err = call(capsys, "config", "library", "ad")
    assert code == 2
    assert "the command is library ad, but it must be one of fit, " in err


def test_the_page_has_an_example_that_works(capsys, write):
    page = (ROOT / "docs" / "configuration.md").read_text()
    write(re.search(r"```toml\n(.*?)```", page, flags=re.S)[1])
    assert values(capsys)["library add", "--compress"] == ("40", "sysbags.toml")


@pytest.mark.skipif(os.name == "nt", reason="Windows has another folder")
def test_the_users_file(monkeypatch):
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    assert user_file() == Path("/home/someone/.config/sysbags/sysbags.toml")
