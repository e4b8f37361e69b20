"""Kernels between histograms: the sums over bins, by far the largest cost of the whole library.

Rows of one stream meet columns of another. A row is a *list* of the bins where it is not zero, so
empty bins cost nothing; the other stream is held *transposed*, bins by frames, so that the innermost
loop runs over neighbouring frames and fills vector registers.

For chi-squared both sides hold reciprocals, since a histogram's bin enters as

    ab / (a + b) = 1 / (1/a + 1/b)

and then two bins of sums s and t add up to (s + t) / (st), four to one fraction in the same way: a
handful of additions and products, and **one division for four bins**, the division being what would
otherwise bound the speed. `sysbags.kernels.functions.Code` chooses the scale at which these products of
four can neither overflow nor underflow. No denominator is zero, so no NaN can occur.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array, IntArray
from sysbags._numba import compiled

GROUP = 8  # bins a pass: fewer passes over the running sums, yet few enough to stay in registers
LANES = 16  # columns are padded to a multiple of this, so that loops have no scalar rest
PANEL = 16  # rows that share what they load of the transposed stream while it is in the first cache

# exp(x) on [-1, 0] as a Taylor series about -1/2: the rest after degree 14 is 0.5^15 / 15! < 3e-17.
EXPONENTIAL = tuple(float(np.exp(-0.5)) / float(np.prod(np.arange(1.0, k + 1.0))) for k in range(15))

Floats = npt.NDArray[np.floating[Any]]
Bins = npt.NDArray[np.uint32]
Choice = Literal[True] | None


@compiled()
def count_bins(samples: Array, floor: float) -> IntArray:
    """Count the bins of each row that are above the floor."""
    counts = np.zeros(samples.shape[0], np.int64)
    for i in range(samples.shape[0]):
        count = 0
        for entry in samples[i]:
            count += entry > floor
        counts[i] = count
    return counts


@compiled(wrapper=False)
def _encode(row: Array, floor: float, unit: float, intersection: Choice, out: Floats) -> None:
    """Write a histogram as the sums want it, see `sysbags.kernels.functions.Code`."""
    if intersection is None:
        for k in range(row.size):
            out[k] = unit / max(row[k], floor)
    else:
        for k in range(row.size):
            out[k] = row[k]


@compiled()
def fill_lists(
    samples: Array,
    starts: IntArray,
    floor: float,
    unit: float,
    intersection: Choice,
    bins: Bins,
    values: Floats,
) -> None:
    """Write the list of each row's bins above the floor; what is left of its last group stays as it is.

    Row i of the histograms, (N, p), owns the groups from `starts[i]` up to `starts[i + 1]` of `bins` (where)
    and `values` (what), which are written. For how an entry is encoded see `sysbags.kernels.functions.Code`.
    """
    line = np.empty(samples.shape[1], values.dtype)
    for i in range(samples.shape[0]):
        _encode(samples[i], floor, unit, intersection, line)
        at = starts[i] * GROUP
        for k in range(samples.shape[1]):
            if samples[i, k] > floor:
                bins[at] = k
                values[at] = line[k]
                at += 1


@compiled()
def fill_tiles(samples: Array, floor: float, unit: float, intersection: Choice, tiles: Floats) -> None:
    """Write (N, p) histograms, encoded and transposed, to (T, p, width) tiles; the rest stays as it is."""
    size, length = samples.shape
    width = tiles.shape[2]
    lines = np.empty((LANES, length), tiles.dtype)
    # A few rows at a time, whose entries of one bin are neighbours; they never straddle two tiles.
    for begin in range(0, size, LANES):
        count = min(LANES, size - begin)
        for j in range(count):
            _encode(samples[begin + j], floor, unit, intersection, lines[j])
        tile, column = tiles[begin // width], begin % width
        for k in range(length):
            for j in range(count):
                tile[k, column + j] = lines[j, k]


# Contraction (fused multiply-add) is all that is wanted: a division turned into an estimated
# reciprocal would be both slower here and less accurate.
@compiled(fastmath={"contract"}, wrapper=False)
def _add_chi2(total: Floats, tile: Floats, bins: Bins, values: Floats, first: int) -> None:
    """Add 1 / (x + y) of eight bins to every column's total, from column `first` on."""
    r0, r1, r2, r3 = tile[bins[0]], tile[bins[1]], tile[bins[2]], tile[bins[3]]
    r4, r5, r6, r7 = tile[bins[4]], tile[bins[5]], tile[bins[6]], tile[bins[7]]
    x0, x1, x2, x3 = values[0], values[1], values[2], values[3]
    x4, x5, x6, x7 = values[4], values[5], values[6], values[7]
    # Unsigned, because an index that might count from the end is never vectorised.
    for j in range(np.uint64(first), np.uint64(total.shape[0])):
        s0, s1, s2, s3 = x0 + r0[j], x1 + r1[j], x2 + r2[j], x3 + r3[j]
        s4, s5, s6, s7 = x4 + r4[j], x5 + r5[j], x6 + r6[j], x7 + r7[j]
        s01, s23, s45, s67 = s0 * s1, s2 * s3, s4 * s5, s6 * s7
        four = ((s0 + s1) * s23 + (s2 + s3) * s01) / (s01 * s23)
        total[j] += four + ((s4 + s5) * s67 + (s6 + s7) * s45) / (s45 * s67)


@compiled(fastmath={"nnan", "nsz"}, wrapper=False)
def _add_intersection(total: Floats, tile: Floats, bins: Bins, values: Floats, first: int) -> None:
    """Add min(a, b) of eight bins to every column's total, from column `first` on."""
    r0, r1, r2, r3 = tile[bins[0]], tile[bins[1]], tile[bins[2]], tile[bins[3]]
    r4, r5, r6, r7 = tile[bins[4]], tile[bins[5]], tile[bins[6]], tile[bins[7]]
    a0, a1, a2, a3 = values[0], values[1], values[2], values[3]
    a4, a5, a6, a7 = values[4], values[5], values[6], values[7]
    for j in range(np.uint64(first), np.uint64(total.shape[0])):
        low = (min(a0, r0[j]) + min(a1, r1[j])) + (min(a2, r2[j]) + min(a3, r3[j]))
        high = (min(a4, r4[j]) + min(a5, r5[j])) + (min(a6, r6[j]) + min(a7, r7[j]))
        total[j] += low + high


@compiled(wrapper=False)
def _panel(
    totals: Floats,
    starts: IntArray,
    bins: Bins,
    values: Floats,
    begin: int,
    end: int,
    tile: Floats,
    first: int,
    intersection: Choice,
) -> None:
    """Sum over the bins for rows `begin` to `end` against one tile of columns, into the first of `totals`."""
    longest = 0
    for i in range(begin, end):
        for j in range(first, totals.shape[1]):
            totals[i - begin, j] = 0.0
        longest = max(longest, starts[i + 1] - starts[i])
    # Rows take turns: neighbours in time fill much the same bins, so each turn finds them in the cache.
    for turn in range(longest):
        for i in range(begin, end):
            group = starts[i] + turn
            if group < starts[i + 1]:
                if intersection is None:
                    _add_chi2(totals[i - begin], tile, bins[group], values[group], first)
                else:
                    _add_intersection(totals[i - begin], tile, bins[group], values[group], first)


@compiled(fastmath={"contract", "nnan", "nsz"}, wrapper=False)
def _finish(
    total: Floats,
    row_sum: float,
    column_sums: Array,
    unit: float,
    first: int,
    intersection: Choice,
    out: Array,
) -> None:
    """Turn a row of sums into kernel values; the exponential is a polynomial, so that it vectorises."""
    if intersection is None:
        factor, middle = 2.0 * unit, 0.5 - 0.5 * row_sum
        for j in range(np.uint64(first), np.uint64(total.shape[0])):
            t = min(factor * total[j] + (middle - 0.5 * column_sums[j]), 0.5)
            power = EXPONENTIAL[14]
            for k in range(13, -1, -1):
                power = power * t + EXPONENTIAL[k]
            out[j] = power
    else:
        for j in range(np.uint64(first), np.uint64(total.shape[0])):
            out[j] = unit * total[j]


@compiled()
def kernel_rows(
    starts: IntArray,
    bins: Bins,
    values: Floats,
    row_sums: Array,
    tiles: Floats,
    column_sums: Array,
    unit: float,
    intersection: Choice,
    upper: bool,
    begin: int,
    end: int,
    out: Array,
) -> None:
    """Fill rows `begin` to `end` of a kernel matrix, `out`.

    The rows are lists from `fill_lists`. The columns are transposed, `width` frames a tile: `tiles` are
    (T, p, width). The sums of the histograms are (N1,) and (T, width). A sum of encoded values is multiplied
    with `unit`. The kernel is chi-squared if `intersection` is None; each is compiled when it is first used.
    With `upper` only what is right of the diagonal matters; to the left of it `out` may stay as it is.
    """
    width = tiles.shape[2]
    totals = np.empty((PANEL, width), tiles.dtype)
    line = np.empty(width)
    for t in range(tiles.shape[0]):
        left = t * width
        right = min(left + width, out.shape[1])
        for top in range(begin, end, PANEL):
            first = max(0, top - left) if upper else 0
            if first >= width:
                continue
            bottom = min(top + PANEL, end)
            _panel(totals, starts, bins, values, top, bottom, tiles[t], first, intersection)
            for i in range(top, bottom):
                _finish(totals[i - top], row_sums[i], column_sums[t], unit, first, intersection, line)
                for j in range(left + first, right):
                    out[i, j] = line[j - left]


@compiled()
def append_rows(
    samples: Array,
    tiles: Floats,
    column_sums: Array,
    floor: float,
    unit: float,
    empty: float,
    intersection: Choice,
    oldest: int,
    matrix: Array,
) -> None:
    """Slide a kernel matrix: evaluate it between new rows and the last N rows, and move the rest.

    The new rows, (S, p), are fewer than N. The last N rows are columns as in `kernel_rows`, in a ring that
    begins at `oldest`: the new rows replace the oldest ones. `matrix` is the kernel matrix of the rows in the
    ring, oldest first, and changed to that of the new ring. For how an entry is encoded see
    `sysbags.kernels.functions.Code`.
    """
    count, length = samples.shape
    size, width = matrix.shape[0], tiles.shape[2]
    starts = np.zeros(count + 1, np.int64)
    bins = count_bins(samples, floor)
    for i in range(count):
        starts[i + 1] = starts[i] + (bins[i] + GROUP - 1) // GROUP
    lists = np.zeros(starts[count] * GROUP, np.uint32)
    values = np.full(starts[count] * GROUP, empty, tiles.dtype)
    fill_lists(samples, starts, floor, unit, intersection, lists, values)
    lines, sums = np.empty((LANES, length), tiles.dtype), np.zeros(count)
    # A few rows at a time, whose entries of one bin are neighbours, as in `fill_tiles`.
    for top in range(0, count, LANES):
        bottom = min(top + LANES, count)
        for i in range(top, bottom):
            _encode(samples[i], floor, unit, intersection, lines[i - top])
            for k in range(length):
                sums[i] += samples[i, k]
            slot = (oldest + i) % size
            column_sums[slot // width, slot % width] = sums[i]
        at = top
        while at < bottom:  # from here to the end of the tile or of the ring
            slot = (oldest + at) % size
            tile, column = tiles[slot // width], slot % width
            together = min(bottom - at, min(width - column, size - slot))
            for k in range(length):
                for i in range(together):
                    tile[k, column + i] = lines[at - top + i, k]
            at += together
    block = np.empty((count, size))
    groups = lists.reshape((-1, GROUP)), values.reshape((-1, GROUP))
    kernel_rows(
        starts, groups[0], groups[1], sums, tiles, column_sums, unit, intersection, False, 0, count, block
    )
    kept, begin = size - count, (oldest + count) % size
    for i in range(kept):
        source, target = matrix[i + count, count:], matrix[i]
        for j in range(np.uint64(kept)):
            target[j] = source[j]
    for i in range(count):
        target = matrix[kept + i]
        for j in range(size):
            slot = begin + j
            target[j] = block[i, slot if slot < size else slot - size]
        # Of two new rows the one with the smaller number is taken as the row, as in a matrix at once.
        for j in range(i):
            target[kept + j] = matrix[kept + j, kept + i]
    for j in range(kept):
        target = matrix[j]
        for i in range(count):
            target[kept + i] = matrix[kept + i, j]


@compiled()
def mirror(matrix: Array) -> None:
    """Copy what is right of the diagonal to the left of it."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = matrix[j, i]


@compiled(fastmath={"contract", "reassoc", "nsz"}, wrapper=False)
def _dot(left: Array, right: Array, begin: int, end: int) -> float:
    total = 0.0
    for j in range(np.uint64(begin), np.uint64(end)):
        total += left[j] * right[j]
    return total


@compiled()
def cross_blocks(
    starts: IntArray,
    bins: Bins,
    values: Floats,
    row_sums: Array,
    row_weights: Array,
    row_systems: IntArray,
    tiles: Floats,
    column_sums: Array,
    column_weights: Array,
    column_systems: IntArray,
    unit: float,
    intersection: Choice,
    upper: bool,
    out: Array,
) -> None:
    """Add `W1' k(Y1, Y2) W2` to `out` for all pairs of two runs of systems; no kernel matrix is ever kept.

    The streams of each run are strung together. Each kernel row is consumed as soon as it is known. System s
    owns the rows from `row_systems[s]` up to `row_systems[s + 1]`, and columns likewise. The coefficients are
    (N1, n) of the rows and (T, m, width) of the columns; the other arguments are those of `kernel_rows`, but
    `upper` means only the pairs in which the second system comes after the first.
    """
    width = tiles.shape[2]
    n, m = row_weights.shape[1], column_weights.shape[1]
    totals = np.empty((PANEL, width), tiles.dtype)
    line = np.empty(width)
    product = np.empty(m)
    for t in range(tiles.shape[0]):
        left = t * width
        for s in range(out.shape[0]):
            wanted = s + 1 if upper else 0
            while wanted < out.shape[1] and column_systems[wanted + 1] <= left:
                wanted += 1
            if wanted == out.shape[1] or column_systems[wanted] >= left + width:
                continue
            first = max(0, column_systems[wanted] - left) // LANES * LANES
            for top in range(row_systems[s], row_systems[s + 1], PANEL):
                bottom = min(top + PANEL, row_systems[s + 1])
                _panel(totals, starts, bins, values, top, bottom, tiles[t], first, intersection)
                for i in range(top, bottom):
                    _finish(totals[i - top], row_sums[i], column_sums[t], unit, first, intersection, line)
                    for other in range(wanted, out.shape[1]):
                        begin = max(0, column_systems[other] - left)
                        end = min(width, column_systems[other + 1] - left)
                        if begin >= width:
                            break
                        for c in range(m):
                            product[c] = _dot(line, column_weights[t, c], begin, end)
                        for r in range(n):
                            for c in range(m):
                                out[s, other, r, c] += row_weights[i, r] * product[c]
