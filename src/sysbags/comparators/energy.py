"""Spatiotemporal oriented energies: the fraction of a video that moves in each direction and at each speed.

A picture that moves by (u, v) pixels per frame, to the right and down, has all of its spectrum in the plane
of frequencies (x, y, t) with the normal (u, v, 1). The response of a filter that is the third derivative of a
Gaussian in the direction d of space-time to a frequency w is ``(d'w)^3`` times a Gaussian. The energy of the
plane is the sum of the squared responses of four such filters, whose directions lie in the plane 45 degrees
apart. This sum does not depend on the direction of the first filter, and for a single frequency w of length 1
it is proportional to ``(1 - (n'w)^2)^3``: it depends on the motion and not on the appearance of the picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sysbags._common.types import Array
from sysbags._common.validation import check_weight
from sysbags.bags.base import video_name
from sysbags.comparators.base import Comparator
from sysbags.errors import ParameterError, VideoError
from sysbags.video import Frame, Video

SPEEDS = (0.5, 1.0, 2.0)
DIRECTIONS = {
    "right": (1, 0),
    "right and down": (1, 1),
    "down": (0, 1),
    "left and down": (-1, 1),
    "left": (-1, 0),
    "left and up": (-1, -1),
    "up": (0, -1),
    "right and up": (1, -1),
}
ORDERS = tuple((i, j, 3 - i - j) for i in range(4) for j in range(4 - i))
"""The ten third derivatives: orders in x, y and t."""


def _channels() -> tuple[tuple[str, ...], Array]:
    names, normals = ["static"], [(0.0, 0.0, 1.0)]
    for speed in SPEEDS:
        for name, (x, y) in DIRECTIONS.items():
            names.append(f"{name} at {speed:g}")
            normals.append((speed * x / math.hypot(x, y), speed * y / math.hypot(x, y), 1.0))
    names += ["horizontal flicker", "vertical flicker"]
    normals += [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)]
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    return (*names, "unstructured"), np.array(normals) / lengths


CHANNELS, NORMALS = _channels()
Responses = npt.NDArray[np.float32]


class SpatiotemporalEnergy(Comparator):
    """Spatiotemporal oriented energies (SOE): fractions of 27 orientations in space-time, and of none.

    At each pixel the energies of 27 planes (see the top of this module) and a constant are divided by their
    sum, and these fractions are averaged over the picture and over time. The 28 channels are `CHANNELS`, in
    this order:

    * "static";
    * motion at 0.5, 1 and 2 pixels per frame, each in 8 directions: "right", "right and down", "down",
      "left and down", "left", "left and up", "up", "right and up";
    * "horizontal flicker" and "vertical flicker": motion at infinite speed along the axis, so that nothing
      changes along it;
    * "unstructured": the constant, the largest fraction where the contrast is not above the noise.

    The filters are broad, so that neighbouring channels respond too. Half the length of a filter is left out
    at each border of the picture and at both ends of the video.

    K. G. Derpanis, M. Lecce, K. Daniilidis and R. P. Wildes, "Dynamic scene understanding: the role of
    orientation features in space and time in scene classification", CVPR 2012; the planes, their four
    filters, the normalisation and the set of channels follow K. G. Derpanis and R. P. Wildes, "Spacetime
    texture representation and recognition based on a spatiotemporal orientation analysis", IEEE Transactions
    on Pattern Analysis and Machine Intelligence 34(6), 2012. Scale and constant are choices made here: the
    constant is the energy that white noise with a standard deviation of one level of grey, of 256, has in all
    planes together.

    Parameters
    ----------
    sigma : float, default=1.5
        Standard deviation of the Gaussian, in pixels and frames. A filter has ``2 ceil(4 sigma) + 1`` taps,
        13 by default; its response is largest for waves of ``2 pi sigma / sqrt(3)`` pixels, 5.4 by default.
    frames : mapping, optional
        Options for `sysbags.video.frames`. Speeds are in pixels and frames after these options.
    n_jobs : int, optional
        Number of threads, over videos.

    Examples
    --------
    >>> picture = np.random.default_rng(0).integers(0, 256, size=(32, 48), dtype=np.uint8)
    >>> vector = SpatiotemporalEnergy().vector([np.roll(picture, k, axis=1) for k in range(16)])
    >>> vector.shape, CHANNELS[vector.argmax()]
    ((28,), 'right at 1')
    """

    title = "SOE"
    classifiers = ("1-NN", "nearest-mean")
    metric = "chi2"

    def __init__(
        self,
        sigma: float = 1.5,
        *,
        frames: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.sigma = sigma
        self.frames = frames
        self.n_jobs = n_jobs

    def vector(self, video: Video) -> Array:
        """Turn one video into the fractions of the channels, (28,); they sum to 1."""
        sigma = check_weight(self.sigma, "sigma")
        if not 0.5 <= sigma <= 50.0:  # the taps of a smaller sigma do not sample a Gaussian well
            raise ParameterError(f"sigma is {self.sigma!r}, but it must be at least 0.5 and at most 50")
        constant = noise_energy(sigma)
        total = np.zeros(len(CHANNELS))
        for field in answers(self.read(video), sigma, name=video_name(video)):
            total += energies(field.reshape(len(ORDERS), -1), constant)
        # This removes round-off: the fractions already sum to 1 nearly.
        return np.asarray(total / total.sum())


def derivatives(sigma: float) -> Array:
    """Return a sampled Gaussian and its first three derivatives, (4, taps)."""
    radius = math.ceil(4.0 * sigma)
    x = np.arange(-radius, radius + 1) / sigma
    gauss = np.exp(-0.5 * x**2)
    gauss /= gauss.sum()
    kernels = np.stack(
        [gauss, -x * gauss / sigma, (x**2 - 1.0) * gauss / sigma**2, (3 * x - x**3) * gauss / sigma**3]
    )
    kernels[2] -= kernels[2].sum() * gauss  # so that its response to a constant is 0 in spite of sampling
    return kernels


@cache
def steering() -> Array:
    """Return the weights of the ten derivatives in the four filters of each plane, (108, 10).

    The third derivative in the direction (a, b, c) is the sum of ``6 / (i! j! k!) a^i b^j c^k`` times the
    derivative of orders (i, j, k).
    """
    weights = []
    for normal in NORMALS:
        first = np.cross(normal, (1.0, 0.0, 0.0) if abs(normal[0]) < 0.9 else (0.0, 1.0, 0.0))
        first /= np.linalg.norm(first)
        second = np.cross(normal, first)
        for turn in np.pi / 4.0 * np.arange(4):
            direction = np.cos(turn) * first + np.sin(turn) * second
            weights.append(
                [
                    6.0 / math.prod(map(math.factorial, orders)) * np.prod(direction**orders)
                    for orders in ORDERS
                ]
            )
    table = np.array(weights)
    table.setflags(write=False)
    return table


def noise_energy(sigma: float) -> float:
    """Return the energy of white noise with variance 1 in all planes together."""
    products = derivatives(sigma) @ derivatives(sigma).T
    i = np.array(ORDERS)
    covariance = np.prod(products[i[:, None], i[None, :]], axis=2)  # of the responses of the ten filters
    return float(np.sum(steering() @ covariance * steering()))


def answers(frames: Iterable[Frame], sigma: float, *, name: str = "the video") -> Iterator[Responses]:
    """Filter a video by the ten third derivatives of a Gaussian, with one frame per tap in memory.

    Yields one new array (10, H - taps + 1, W - taps + 1) for each frame but ``taps - 1``, in the order of
    `ORDERS`. The name is that of the video in error messages.
    """
    import cv2

    kernels = derivatives(sigma).astype(np.float32)
    taps = kernels.shape[1]
    inside = slice(taps // 2, -(taps // 2))
    window = np.empty((0, 0), np.float32)
    number = 0
    for number, frame in enumerate(frames, start=1):
        if number == 1:
            if min(frame.shape) < taps:
                raise VideoError(
                    f"{name} has frames of {frame.shape[1]} x {frame.shape[0]} pixels, but oriented energies "
                    f"with sigma={sigma:g} need at least {taps} x {taps}"
                )
            window = np.empty((taps, frame.size), np.float32)
        window[(number - 1) % taps] = frame.ravel()
        if number >= taps:
            # The window is a ring buffer: rolling the few taps is cheaper than rolling the frames.
            over_time = (np.roll(kernels, number % taps, axis=1) @ window).reshape(4, *frame.shape)
            yield np.stack(
                [
                    cv2.sepFilter2D(over_time[k], -1, kernels[i], kernels[j])[inside, inside]
                    for i, j, k in ORDERS
                ]
            )
    if number < taps:
        raise VideoError(
            f"{name} has only {number} of the {taps} frames that oriented energies with sigma={sigma:g} need"
        )


def energies(responses: npt.NDArray[Any], constant: float) -> Array:
    """Average the fractions of the channels over the pixels of (10, n) responses; the (28,) result sums to 1.

    With r the ten responses at a pixel, the energy of plane n is ``r' Q_n r``. Its fraction is the energy
    divided by ``s = r' (sum Q_n) r + constant``. The sum of the fractions over pixels is therefore
    ``tr(Q_n M)``, where M is the sum of ``r r' / s``, so that 27 planes cost no more than two.
    """
    weights = steering()
    form = (weights.T @ weights).astype(responses.dtype)
    inverse_sums = 1.0 / (np.einsum("an,an->n", form @ responses, responses) + responses.dtype.type(constant))
    moments = ((responses * inverse_sums) @ responses.T).astype(np.float64)
    planes = np.sum(weights @ moments * weights, axis=1).reshape(-1, 4).sum(axis=1)
    unstructured = constant * float(inverse_sums.sum(dtype=np.float64))
    return np.asarray(np.append(planes, unstructured) / responses.shape[1])
