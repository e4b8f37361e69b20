"""The schemas of JSON documents: complete, strict, and able to fail; `call` checks all documents of tests."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import typer
from jsonschema import Draft202012Validator

from cli_folder import call_json, make_classes
from schemas import FOLDER, SCHEMAS, check
from sysbags.cli import app
from sysbags.cli._config import all_commands
from sysbags.watch.session import Session

PAGE = (FOLDER.parent / "json.md").read_text()


def objects(schema):
    """All schemas in a schema."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from objects(part)


def test_every_command_has_a_schema():
    root = typer.main.get_command(app)
    printing = {
        name.replace(" ", "-")
        for name, options in all_commands(root)
        if any(word.startswith("--json") for option in options for word in option.opts)
    }
    assert printing - {"models-list"} == set(SCHEMAS) - {"common"}  # `sysbags models` lists, too


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_strict(name):
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"{name}.json"
    span = SCHEMAS["common"]["$defs"]["span"]  # the documents that refer to it are strict
    for schema in objects(SCHEMAS[name]):
        if schema is not span and {"properties", "required"} <= schema.keys():
            assert False in (schema.get("additionalProperties"), schema.get("unevaluatedProperties")), schema
            assert set(schema["required"]) <= schema["properties"].keys()


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return make_classes(tmp_path_factory.mktemp("schemas") / "clips", per_class=1) / "waves" / "0.mp4"


OPTIONAL = {"codec", "frames_per_second", "seconds", "licence", "source", "sha256", "url"}


def changed(document):
    """Copies of a document with a field too few or too many, also in the first row of each of its lists."""
    for key in [None, *(key for key, rows in document.items() if rows and isinstance(rows, list))]:
        row = document if key is None else document[key][0]
        for field in {*row, "unknown"} - OPTIONAL if isinstance(row, dict) else ():
            copied = copy.deepcopy(document)
            part = copied if key is None else copied[key][0]
            part.update(unknown=1) if field == "unknown" else part.pop(field)
            yield copied


@pytest.mark.parametrize(("name", "least"), [("inspect", 16), ("distance", 9), ("models", 5), ("config", 8)])
def test_a_field_that_is_missing_or_unknown_fails(capsys, clip, name, least):
    words = {"inspect": [clip], "distance": [clip, clip], "models": ["list"], "config": ["fit"]}[name]
    document = call_json(capsys, name, *words, *(["--order", 2] if words[0] == clip else []))
    copies = list(changed(document))
    assert len(copies) >= least
    for copied in copies:
        with pytest.raises(AssertionError, match=rf"{name}\.json"):
            check(name, copied)


def test_every_line_of_watch_has_a_schema():
    told = set(re.findall(r'"(\w+)"', Session.run.__doc__.partition('Their "type" is ')[2]))
    assert told == set(SCHEMAS["watch"]["$defs"])
    with pytest.raises(AssertionError, match=r"watch\.json"):
        check("watch", {"type": "gap", "time": 1.0})


def test_distances_are_called_squared():
    """Whatever is named after a distance says that it is squared."""
    for name, schema in SCHEMAS.items():
        fields = {field for part in objects(schema) for field in part.get("properties", {})}
        named = {field for field in fields if "distance" in field}
        named = {field for field in named if field != "alignment distance of map and atlas"}
        assert all("squared" in field for field in named), (name, named)


def test_the_page_lists_every_schema():
    listed = re.findall(r"\(schemas/([\w-]+)\.json\)", PAGE)
    assert sorted(listed) == sorted(SCHEMAS)
    assert all((FOLDER / f"{name}.json").exists() for name in listed)


def test_the_example_of_the_page(capsys, clip, monkeypatch):
    """The fields that the page's example shows are those of the document."""
    monkeypatch.chdir(clip.parent)
    document = call_json(capsys, "distance", "0.mp4", "0.mp4", "--order", 2)
    shown = re.search(r"```json\n(.*?)```", PAGE, flags=re.S)[1]
    assert re.findall(r'^  "(\w+)"', shown, flags=re.M) == list(document)
    assert Path(document["clips"][0]).name == "0.mp4"
