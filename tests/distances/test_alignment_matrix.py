"""Alignments of many pairs: bounds, and fewer steps where blocks are approximate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sysbags
from sysbags.datasets import make_streams
from sysbags.distances.alignment_matrix import alignment_bounds, alignment_matrix


@pytest.mark.parametrize("lambda_a", [0.0, 0.05, 0.25, 4.0])
def test_alignments_of_an_approximate_gram_are_close(lambda_a):
    """Never below the full search but for round-off, and close: a few sweeps where observers dominate."""
    streams, _ = make_streams(classes=3, per_class=5, frames=40, bins=12)
    gram = sysbags.cross_gram([sysbags.identify(stream, order=4) for stream in streams])
    full = alignment_matrix(gram, lambda_a)
    quick = alignment_matrix(replace(gram, approximate=True), lambda_a)
    assert (quick >= full - 1e-9).all()
    assert (quick <= 1.05 * full + 1e-9).all()
    np.testing.assert_array_equal(quick, quick.T)
    if lambda_a == 4.0:  # transitions dominate: the same search
        np.testing.assert_array_equal(quick, full)


@pytest.mark.parametrize("normal_form", ["orthonormal", "unit-variance"])
def test_bounds_are_those_of_single_pairs(normal_form):
    streams, _ = make_streams(classes=2, per_class=3, frames=40, bins=8)
    systems = [sysbags.identify(s, order=3, normal_form=normal_form) for s in streams]
    bounds = alignment_bounds(sysbags.cross_gram(systems[:4], systems[4:]), 0.5, 2.0)
    expected = [
        [sysbags.align(first, second, 0.5, 2.0).lower_bound for second in systems[4:]]
        for first in systems[:4]
    ]
    np.testing.assert_allclose(bounds, expected, rtol=0, atol=1e-10)
