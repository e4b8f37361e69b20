"""Local binary patterns in the three planes of a video: picture, rows over time and columns over time.

A neighbour off the grid is interpolated between four voxels. Positions are rounded to 1 / GRAIN voxels, so
that this has no round-off in double precision: in smooth areas many neighbours equal the center, and `>=`
must hold for each of them.

At radii 1 integers decide. The square of a diagonal neighbour has the center itself as one corner. With b the
opposite corner and s the sum of the two others, all minus the center, and w the position of the neighbour on
each axis, its value minus that of the center is ``w (w b + (1 - w) s)``, so only the sign of
``b + s (1 - w) / w`` matters. For bytes `share_of_sides` gives the same sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled
from sysbags._numba.lbp import Bytes, add_exact, share_of_sides

__all__ = ["encode_planes"]

NONE = np.uint8(0)


@compiled()
def encode_planes(
    window: npt.NDArray[np.uint8],
    first: int,
    radii: tuple[int, int, int],
    corners: IntArray,
    weights: Array,
    codes: npt.NDArray[np.uint8],
) -> None:
    """Write the codes of the middle frame of a window in each plane.

    Parameters
    ----------
    window : (2 rt + 1, H, W) array of uint8
        A ring buffer.
    first : int
        The place of its earliest frame.
    radii : (rx, ry, rt)
    corners, weights
        See `sysbags.bags.planes.neighbours`.
    codes : (3, H - 2 ry, W - 2 rx) array of uint8
        Neighbour p has the value 2^p in a code.
    """
    depth, height = window.shape[:2]
    rx, ry, rt = radii
    nearest = rx == 1 and ry == 1 and rt == 1
    middle = window[(first + rt) % depth]
    codes[:] = 0
    for plane in range(3):
        for p in range(corners.shape[1]):
            bit, places = np.uint8(1 << p), (corners[plane, p] + np.array([first + rt, ry, rx])).T
            times, rows, columns = places[0] % depth, places[1], places[2]
            a, b, c, d = (
                window[times[0], rows[0] :, columns[0] :],
                window[times[1], rows[1] :, columns[1] :],
                window[times[2], rows[2] :, columns[2] :],
                window[times[3], rows[3] :, columns[3] :],
            )
            for y in range(height - 2 * ry):
                center, codes_of_row = middle[y + ry, rx:], codes[plane, y]
                if weights[plane, p, 0] == 1.0:
                    add_exact(a[y], center, bit, codes_of_row)
                elif not nearest:
                    _add_interpolated(a[y], b[y], c[y], d[y], weights[plane, p], center, bit, codes_of_row)
                elif p == 1:  # first the corner that is opposite to the center
                    _add_diagonal(d[y], b[y], c[y], center, bit, codes_of_row)
                elif p == 3:
                    _add_diagonal(c[y], a[y], d[y], center, bit, codes_of_row)
                elif p == 5:
                    _add_diagonal(a[y], b[y], c[y], center, bit, codes_of_row)
                else:
                    _add_diagonal(b[y], a[y], d[y], center, bit, codes_of_row)


@compiled(wrapper=False)
def _add_diagonal(corner: Bytes, first: Bytes, second: Bytes, center: Bytes, bit: Any, codes: Bytes) -> None:
    """Set a bit where the diagonal neighbour at distance 1 is not below the center, by integers."""
    # Unsigned, because a loop over an index that might be negative is not vectorised.
    for i in range(np.uint64(codes.size)):
        g = np.int16(center[i])
        share = share_of_sides(np.subtract(np.int16(first[i]), g), np.subtract(np.int16(second[i]), g))
        reached = np.add(np.int16(corner[i]), share) >= g
        codes[i] = np.bitwise_or(codes[i], bit if reached else NONE)


@compiled(wrapper=False)
def _add_interpolated(
    a: Bytes, b: Bytes, c: Bytes, d: Bytes, weights: Array, center: Bytes, bit: Any, codes: Bytes
) -> None:
    """Set a bit where the neighbour between four voxels is not below the center."""
    wa, wb, wc, wd = weights[0], weights[1], weights[2], weights[3]
    for i in range(np.uint64(codes.size)):
        value = wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i]
        codes[i] = np.bitwise_or(codes[i], bit if value >= center[i] else NONE)
