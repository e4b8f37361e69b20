"""Luma of limited range to full range."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sysbags._numba import compiled

__all__ = ["full_range"]

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
