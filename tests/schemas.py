"""The JSON documents that commands print, compared with their schemas in docs/schemas."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry, Resource

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)


@cache
def validator(name):
    return Draft202012Validator(SCHEMAS[name], registry=REGISTRY)


def check(name, document):
    """Fail with one sentence if a document is not as its schema says."""
    error = best_match(validator(name).iter_errors(document))
    assert error is None, f"{name}.json: {error.json_path}: {error.message}"


def check_output(argv, out):
    """Check what a command has printed, if that is JSON."""
    words = [word for word in argv if not word.startswith("-")]
    name = next((name for name in ("-".join(words[:2]), *words[:1]) if name in SCHEMAS), None)
    if "--json-lines" in argv or (name == "watch" and "--json" in argv and "--help" not in argv):
        for line in out.splitlines():
            check(name, json.loads(line))
    elif "--json" in argv and "--help" not in argv and out:
        check(name, json.loads(out))
