"""Loops over pixels: luma of full range; local binary patterns of a picture, or of three planes of a video.

A pattern says which neighbours on a circle are at least as bright as the pixel they surround. A neighbour
off the grid is interpolated between four pixels. Smooth areas are full of *ties*, in which the interpolated
value equals the centre but for round-off. So `count_patterns` works out the very expression that
scikit-image does, in double precision, term by term; nothing may be re-associated. In `encode_planes`
positions are rounded so that there is no round-off.

For 8 points at radius 1 integers decide. There the square of a diagonal neighbour has the centre itself as
one corner. With b its opposite corner and s the sum of the two others, all minus the centre, and w = 0.70711
the diagonal's rounded offset, the interpolated value less the centre is w (w b + (1 - w) s), so that only
the sign of ``b + s (1 - w) / w`` matters.

* Away from zero it is larger than any round-off: at least 0.001 for bytes. The ratio 27146/65536 gives
  the same sign for all bytes as 0.29289/0.70711, so that 16-bit registers do.
* It is zero only for b = s = 0. Whether round-off then makes it negative depends on where the pixel
  lies, as ``r + 0.70711`` is rounded. In rows and columns from 2 up to 512 it never does, nor anywhere
  if all four corners are equal; what is left goes to double precision.

The tests go through all bytes to show both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled

SAFE_BEGIN, SAFE_END = 2, 512
"""Rows and columns in which a tie is never rounded down."""

TURNS = 4

Bytes = npt.NDArray[np.uint8]
Pixels = npt.NDArray[Any]
Codes = npt.NDArray[np.unsignedinteger[Any]]

RATIO, SIXTEEN = np.int32(27146), np.int32(16)
"""27146 / 2^16 is as good as 0.29289 / 0.70711 for bytes; their product is one instruction."""

# NumPy's functions keep the type of what they are given, where Numba's operators widen it to 64 bits.
ZERO, NONE, ONE = np.int16(0), np.uint8(0), np.uint32(1)
BIT_0, BIT_1, BIT_2, BIT_3 = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(8)
BIT_4, BIT_5, BIT_6, BIT_7 = np.uint8(16), np.uint8(32), np.uint8(64), np.uint8(128)


@compiled(wrapper=False)
def _ones(code: Any) -> int:
    """Count the bits that are 1; the compiler knows this loop and has one instruction for it."""
    count = 0
    while code:
        code &= code - 1
        count += 1
    return count


@compiled(wrapper=False)
def _bin(code: Any, points: int, method: int) -> Any:
    """Number a code's bin as scikit-image does; 0 is default, 1 ror, 2 uniform, 3 nri_uniform."""
    if method == 0:
        return code
    if method == 1:
        least = code
        for _ in range(points - 1):
            code = (code >> 1) | ((code & 1) << (points - 1))
            least = min(least, code)
        return least
    ones = _ones(code)
    uniform = _ones(code ^ ((code >> 1) | ((code & 1) << (points - 1)))) <= 2
    if method == 2:
        return ones if uniform else points + 1
    if not uniform:
        return points * (points - 1) + 2
    if ones == 0 or ones == points:
        return ones * (points - 1) + (ones > 0)
    # How far the run of ones is turned; trailing zeros are the ones of ~x & (x - 1).
    turn = ones - _ones(code & ~(code + 1)) if code & 1 else points - _ones(~code & (code - 1))
    return 1 + (ones - 1) * points + turn


@compiled()
def pattern_bins(points: int, method: int) -> IntArray:
    """Return the bin of every code of that many points."""
    bins = np.empty(1 << points, np.int64)
    for code in range(1 << points):
        bins[code] = _bin(code, points, method)
    return bins


@compiled(wrapper=False)
def _tally(codes: Codes, turns: npt.NDArray[np.uint32]) -> None:
    """Count codes in histograms that take turns: a count cannot rise again before it has been written."""
    first, second, third, fourth = turns[0], turns[1], turns[2], turns[3]
    unrolled_size = np.uint64(codes.size // TURNS * TURNS)
    for c in range(np.uint64(0), unrolled_size, np.uint64(TURNS)):
        first[codes[c]] += ONE
        second[codes[c + np.uint64(1)]] += ONE
        third[codes[c + np.uint64(2)]] += ONE
        fourth[codes[c + np.uint64(3)]] += ONE
    for c in range(unrolled_size, np.uint64(codes.size)):
        first[codes[c]] += ONE


@compiled(wrapper=False)
def _shares(columns: Array, width: int) -> Array:
    """For each neighbour and column, the share of the pixel to the right in the interpolation."""
    shares = np.empty((columns.size, width))
    for i in range(columns.size):
        for c in range(width):
            shares[i, c] = (c + columns[i]) - np.floor(c + columns[i])
    return shares


@compiled(wrapper=False)
def _add_interpolated(
    upper_left: Pixels,
    upper_right: Pixels,
    lower_left: Pixels,
    lower_right: Pixels,
    centre: Pixels,
    across: Array,
    down: float,
    bit: Any,
    codes: Codes,
) -> None:
    """Set a bit where the neighbour between four pixels is not below the centre."""
    none = codes.dtype.type(0)
    # Unsigned, because an index that might count from the end is never vectorised.
    for c in range(np.uint64(codes.size)):
        right = across[c]
        upper = (1.0 - right) * upper_left[c] + right * upper_right[c]
        lower = (1.0 - right) * lower_left[c] + right * lower_right[c]
        reached = (1.0 - down) * upper + down * lower >= centre[c]
        codes[c] = np.bitwise_or(codes[c], bit if reached else none)


@compiled(wrapper=False)
def add_exact(neighbour: Pixels, centre: Pixels, bit: Any, codes: Codes) -> None:
    """Set a bit where the neighbour, itself a pixel, is not below the centre."""
    none = codes.dtype.type(0)
    for c in range(np.uint64(codes.size)):
        codes[c] = np.bitwise_or(codes[c], bit if neighbour[c] >= centre[c] else none)


@compiled(wrapper=False)
def _encode(
    picture: Pixels,
    margin: int,
    r: int,
    begin: int,
    end: int,
    rows: Array,
    columns: Array,
    shares: Array,
    codes: Codes,
) -> None:
    """Write the codes of row r, columns `begin` to `end`."""
    codes = codes[begin:end]
    codes[:] = 0
    centre = picture[r + margin, begin + margin :]
    for i in range(rows.size):
        bit = codes.dtype.type(1 << i)
        y = r + rows[i]
        upper, lower = picture[int(np.floor(y)) + margin], picture[int(np.ceil(y)) + margin]
        left = begin + margin + int(np.floor(columns[i]))
        right = begin + margin + int(np.ceil(columns[i]))
        down = y - np.floor(y)
        if left == right and down == 0.0:
            add_exact(upper[left:], centre, bit, codes)
        else:
            _add_interpolated(
                upper[left:],
                upper[right:],
                lower[left:],
                lower[right:],
                centre,
                shares[i, begin:],
                down,
                bit,
                codes,
            )


@compiled(wrapper=False)
def _encode_bins(
    field: Array, margin: int, r: int, rows: Array, columns: Array, shares: Array, method: int, codes: Codes
) -> None:
    """Write the bins of row r."""
    _encode(field, margin, r, 0, codes.size, rows, columns, shares, codes)
    if method != 0:
        for c in range(np.uint64(codes.size)):
            codes[c] = _bin(np.int64(codes[c]), rows.size, method)


@compiled()
def count_patterns(
    picture: Bytes, margin: int, rows: Array, columns: Array, method: int, counts: Array
) -> None:
    """Add each pixel's pattern to the counts.

    The picture, (H + 2 margin, W + 2 margin), is a frame within zeros, as what lies outside of it counts as
    black; no neighbour is farther away than the margin. `rows` and `columns` say where the neighbours are,
    relative to the pixel. The i-th is worth 2^i in a code. For `method` see `_bin`.
    """
    height, width = picture.shape[0] - 2 * margin, picture.shape[1] - 2 * margin
    shares, field = _shares(columns, width), picture.astype(np.float64)
    codes = np.empty(width, np.uint32)
    turns = np.zeros((TURNS, counts.size), np.uint32)
    for r in range(height):
        _encode_bins(field, margin, r, rows, columns, shares, method, codes)
        _tally(codes, turns)
    for k in range(counts.size):
        counts[k] += turns[0, k] + turns[1, k] + turns[2, k] + turns[3, k]


@compiled()
def share_of_sides(first: Any, second: Any) -> Any:
    """What the corners beside the centre, less it, add to the opposite corner; rounded down, see the top."""
    s = np.int32(np.add(first, second))
    return np.int16(np.right_shift(np.multiply(s, RATIO), SIXTEEN))


@compiled(wrapper=False)
def _encode_nearest(above: Bytes, row: Bytes, below: Bytes, codes: Bytes) -> None:
    """Write the codes of 8 points at radius 1 by integers; the three rows begin a column before the codes."""
    for c in range(np.uint64(codes.size)):
        g = np.int16(row[c + 1])
        right, left = np.subtract(np.int16(row[c + 2]), g), np.subtract(np.int16(row[c]), g)
        up, down = np.subtract(np.int16(above[c + 1]), g), np.subtract(np.int16(below[c + 1]), g)
        codes[c] = (
            (BIT_0 if right >= ZERO else NONE)
            | (BIT_1 if np.add(np.int16(above[c + 2]), share_of_sides(up, right)) >= g else NONE)
            | (BIT_2 if up >= ZERO else NONE)
            | (BIT_3 if np.add(np.int16(above[c]), share_of_sides(up, left)) >= g else NONE)
            | (BIT_4 if left >= ZERO else NONE)
            | (BIT_5 if np.add(np.int16(below[c]), share_of_sides(down, left)) >= g else NONE)
            | (BIT_6 if down >= ZERO else NONE)
            | (BIT_7 if np.add(np.int16(below[c + 2]), share_of_sides(down, right)) >= g else NONE)
        )


@compiled(wrapper=False)
def _tied(picture: Bytes, y: int, x: int) -> bool:
    """Whether one of a pixel's diagonals is a tie that is not flat."""
    g, left, right = int(picture[y, x]), int(picture[y, x - 1]), int(picture[y, x + 1])
    for k in (y - 1, y + 1):
        neighbour = int(picture[k, x])
        if neighbour != g and (
            (picture[k, x - 1] == g and neighbour + left == 2 * g)
            or (picture[k, x + 1] == g and neighbour + right == 2 * g)
        ):
            return True
    return False


@compiled(wrapper=False)
def _encode_safely(
    picture: Bytes, margin: int, r: int, rows: Array, columns: Array, shares: Array, codes: Bytes
) -> None:
    """Write the codes of row r, of 8 points at radius 1: by integers where they decide."""
    width = codes.size
    above, row = picture[r + margin - 1, margin - 1 :], picture[r + margin, margin - 1 :]
    below = picture[r + margin + 1, margin - 1 :]
    end = min(SAFE_END, width) if SAFE_BEGIN <= r < SAFE_END else 0
    _encode_nearest(above, row, below, codes[:end])
    for c in range(min(SAFE_BEGIN, end)):
        if _tied(picture, r + margin, c + margin):
            _encode(picture, margin, r, c, c + 1, rows, columns, shares, codes)
    if end < width:
        _encode(picture, margin, r, end, width, rows, columns, shares, codes)


@compiled()
def count_nearest(
    picture: Bytes, margin: int, rows: Array, columns: Array, bins: IntArray, counts: Array
) -> None:
    """Do what `count_patterns` does, for 8 points at radius 1, several times faster; `bins` has that of each
    code.
    """
    height, width = picture.shape[0] - 2 * margin, picture.shape[1] - 2 * margin
    shares = _shares(columns, width)
    codes = np.empty(width, np.uint8)
    turns = np.zeros((TURNS, 256), np.uint32)
    for r in range(height):
        _encode_safely(picture, margin, r, rows, columns, shares, codes)
        _tally(codes, turns)
    for code in range(256):
        counts[bins[code]] += turns[0, code] + turns[1, code] + turns[2, code] + turns[3, code]


@compiled()
def count_patterns_of_regions(
    picture: Bytes, margin: int, rows: Array, columns: Array, method: int, regions: IntArray, counts: Array
) -> None:
    """Do what `count_patterns` does for each region of a frame.

    `regions`, (H, W), is the region of each pixel, from 1; 0 is ignored. Region i is row i - 1 of the counts.
    """
    shares, field = _shares(columns, regions.shape[1]), picture.astype(np.float64)
    codes = np.empty(regions.shape[1], np.uint32)
    for r in range(regions.shape[0]):
        _encode_bins(field, margin, r, rows, columns, shares, method, codes)
        for c in range(codes.size):
            if regions[r, c] > 0:
                counts[regions[r, c] - 1, codes[c]] += 1.0


@compiled()
def count_nearest_of_regions(
    picture: Bytes, margin: int, rows: Array, columns: Array, bins: IntArray, regions: IntArray, counts: Array
) -> None:
    """Do what `count_patterns_of_regions` does, for 8 points at radius 1; `bins` is as in `count_nearest`."""
    shares = _shares(columns, regions.shape[1])
    codes = np.empty(regions.shape[1], np.uint8)
    for r in range(regions.shape[0]):
        _encode_safely(picture, margin, r, rows, columns, shares, codes)
        for c in range(codes.size):
            if regions[r, c] > 0:
                counts[regions[r, c] - 1, bins[codes[c]]] += 1.0


@compiled()
def encode_planes(
    window: npt.NDArray[np.uint8],
    first: int,
    radii: tuple[int, int, int],
    corners: IntArray,
    weights: Array,
    codes: npt.NDArray[np.uint8],
) -> None:
    """Write the codes of the middle frame of a window in each plane, (3, H - 2 ry, W - 2 rx).

    The window, (2 rt + 1, H, W), is a ring buffer whose earliest frame is at `first`. For the corners and
    weights see `sysbags.bags.planes.neighbours`. Neighbour p has the value 2^p in a code.
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
                    _add_between(a[y], b[y], c[y], d[y], weights[plane, p], center, bit, codes_of_row)
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
def _add_between(
    a: Bytes, b: Bytes, c: Bytes, d: Bytes, weights: Array, center: Bytes, bit: Any, codes: Bytes
) -> None:
    """Set a bit where the neighbour between four voxels is not below the center."""
    wa, wb, wc, wd = weights[0], weights[1], weights[2], weights[3]
    for i in range(np.uint64(codes.size)):
        value = wa * a[i] + wb * b[i] + wc * c[i] + wd * d[i]
        codes[i] = np.bitwise_or(codes[i], bit if value >= center[i] else NONE)


# round((x - 16) 255 / 219) in integers, as FFmpeg's scaler has it; 32 bits, so that eight fit a register.
SCALE, OFFSET, SHIFT = np.int32(19077), np.int32(-297000), np.int32(14)
DARK, BRIGHT = np.int32(0), np.int32(255)


@compiled()
def full_range(luma: npt.NDArray[np.uint8], full: npt.NDArray[np.uint8]) -> None:
    """Stretch luma from 16..235 to 0..255, cut off what lies beyond, and write it to `full`.

    Lines of luma may be longer than those of `full`; the rest of them is left out.
    """
    for r in range(luma.shape[0]):
        source, target = luma[r], full[r]
        for c in range(np.uint64(target.size)):
            value = np.right_shift(np.add(np.multiply(np.int32(source[c]), SCALE), OFFSET), SHIFT)
            target[c] = np.uint8(min(max(value, DARK), BRIGHT))
