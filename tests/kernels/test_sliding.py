"""A kernel matrix that slides against one that is evaluated at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.datasets import make_streams
from sysbags.kernels.functions import SlidingKernel, kernel_matrix

STREAM = make_streams(classes=1, per_class=1, frames=700, bins=11, random_state=0)[0][0]


# A tile of columns holds up to 256 rows, so that 300 rows are in two of 160.
@settings(max_examples=30, deadline=None)
@given(
    size=st.sampled_from([2, 15, 16, 40, 300]),
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6),
    kernel=st.sampled_from(["chi2", "intersection"]),
)
def test_any_numbers_of_new_rows(size, shares, kernel):
    sliding, stop = SlidingKernel(STREAM[:size], kernel), size
    for share in shares:
        count = 1 + int(share * (min(size, 60) - 1))
        sliding.append(STREAM[stop : stop + count])
        stop += count
        rows = STREAM[stop - size : stop]
        np.testing.assert_array_equal(sliding.rows, rows)
        # Columns are summed over bins in the order of the rows' lists, so only round-off may differ.
        np.testing.assert_allclose(sliding.matrix, kernel_matrix(rows, kernel=kernel), rtol=0, atol=1e-14)
        np.testing.assert_array_equal(sliding.matrix, sliding.matrix.T)


@pytest.mark.parametrize("count", [17, 33, 299])
def test_new_rows_across_the_end_of_the_ring(count):
    sliding = SlidingKernel(STREAM[:300])
    sliding.append(STREAM[300:310])
    sliding.append(STREAM[310 : 310 + count])
    expected = kernel_matrix(STREAM[10 + count : 310 + count], kernel="chi2")
    np.testing.assert_allclose(sliding.matrix, expected, rtol=0, atol=1e-14)
