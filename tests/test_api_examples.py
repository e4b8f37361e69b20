"""Every public class and function has an example in its docstring, which the API reference shows."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

PACKAGES = [
    "sysbags",
    "sysbags.bags",
    "sysbags.classifiers",
    "sysbags.comparators",
    "sysbags.datasets",
    "sysbags.dsa",
    "sysbags.errors",
    "sysbags.evaluate",
    "sysbags.kernels",
    "sysbags.library",
    "sysbags.means",
    "sysbags.statistics",
    "sysbags.storage",
    "sysbags.systems",
    "sysbags.video",
    "sysbags.watch",
]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_have_examples(package):
    module = import_module(package)
    public = {name: getattr(module, name) for name in module.__all__}
    documented = {name: one for name, one in public.items() if inspect.isclass(one) or inspect.isroutine(one)}
    assert documented
    assert [name for name, one in documented.items() if ">>>" not in (one.__doc__ or "")] == []
