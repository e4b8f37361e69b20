"""Systems as arrays and back, bit for bit."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import sysbags
from helpers import make_system
from sysbags._common.cache import Cache
from sysbags.systems.collection import system_arrays, system_from_arrays


def compressed():
    return make_system(1).compress(size=6)


def mean():
    return sysbags.frechet_mean([make_system(2), make_system(3)]).system


def bare():
    return replace(
        make_system(4), eigenvalues=None, explained=None, states=None, _observer_gram=None, _mean_norm=None
    )


@pytest.mark.parametrize("make", [lambda: make_system(0), compressed, mean, bare])
def test_there_and_back(tmp_path, make):
    system, store = make(), Cache(tmp_path)
    for _ in range(2):  # the second time from disk
        copy = system_from_arrays(store.arrays("system", {}, lambda: system_arrays(system)), system.kernel)
        for field in fields(system):
            value, expected = getattr(copy, field.name), getattr(system, field.name)
            assert type(value) is type(expected)
            np.testing.assert_equal(value, expected)


def test_the_kernel_is_given_apart():
    """It may be a function, which is no array."""
    system = system_from_arrays(system_arrays(make_system(0)), "intersection")
    assert system.kernel == "intersection"
    assert "kernel" not in system_arrays(system)


def test_arrays_from_before_there_was_noise():
    """Such as those in older libraries."""
    arrays = system_arrays(make_system(0))
    del arrays["noise"]
    assert system_from_arrays(arrays, "chi2").noise is None
