"""Streams as paths in one small space: a finite feature map of a kernel, learnt from training streams."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sysbags._common.estimator import SequenceEstimator
from sysbags._common.memory import MEMORY
from sysbags._common.parallel import ONE_BLAS_THREAD, run
from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import TRANSPOSE, check_integer, check_stream, seed_of, warn_if_exchanged
from sysbags.errors import DistanceWarning, IncompatibleSystemsError, ParameterError
from sysbags.kernels.functions import (
    check_kernel,
    check_precision,
    feature_map,
    histogram_matrix,
    kernel_matrix,
)

CANDIDATES = 5  # frames that are drawn for each landmark
FEWEST_CANDIDATES, MOST_CANDIDATES = 1000, 5000  # as the kernel between all of them is in memory
NEGLIGIBLE = 1e-9  # of the squared norm: below this a candidate is spanned by the landmarks, in float32
LARGE_LOSS = 0.1  # of the squared norm of training frames
BLOCK = 1 << 22  # kernel values at a time


class StreamEmbedding(TransformerMixin, SequenceEstimator):  # type: ignore[misc]
    """A finite feature map of a kernel: each stream becomes a path in R^d, rows are time.

    The kernel between two histograms becomes the inner product of two short vectors, so that the kernel is
    evaluated once per frame and landmark instead of once per pair of frames. With landmarks L, some of the
    training frames, and ``k(L, L) = R R'``, a histogram y becomes ``R^-1 k(L, y)``: the projection of its
    features to the span of those of the landmarks (Nystrom). Where y is in that span, inner products are
    exact; otherwise ``|k(x, y) - z(x)'z(y)| <= sqrt(l(x) l(y))`` with ``l(y) = k(y, y) - ||z(y)||^2``.

    Kernels with an explicit feature map ("linear", "bhattacharyya") need no landmarks and lose nothing.

    Parameters
    ----------
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, default="chi2"
    size : int, default=256
        Number of landmarks; fewer, if these span all frames that were drawn.
    components : int, optional
        Keep so many coordinates: the principal directions of the training frames. By default all.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Precision of the coordinates that `transform` returns.
    random_state : int, Generator or None, default=0
        For the frames that are drawn, 1,000 or five for each landmark, and the choice among them.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Attributes
    ----------
    landmarks_ : (m, p) array of float32, or None
        None for kernels with an explicit feature map.
    factor_ : (m, m) array or None
        R, lower triangular, computed from the landmarks.
    components_ : (d, c) array or None
        The principal directions, largest first; their columns are orthonormal.
    lost_ : float
        The share of the squared norm of training frames that the coordinates do not hold; 0 loses nothing.

    Warns
    -----
    DistanceWarning
        If that share is above 10 %.

    Examples
    --------
    >>> import numpy as np, sysbags
    >>> from sysbags.datasets import make_streams
    >>> streams, _ = make_streams(classes=2, per_class=4, frames=40, bins=8)
    >>> embedding = sysbags.StreamEmbedding(size=50).fit(streams)
    >>> paths = embedding.transform(streams)
    >>> paths[0].shape, embedding.lost_ < 0.05
    ((40, 50), True)
    >>> exact = sysbags.kernels.kernel_matrix(streams[0], streams[1])
    >>> bool(abs(paths[0] @ paths[1].T - exact).max() < 0.05)
    True

    A system in the embedding is an ordinary linear dynamic system:

    >>> sysbags.identify(paths[0], order=2, kernel="linear")
    System(order=2, size=40, bag_length=50, kernel='linear')
    """

    landmarks_: npt.NDArray[np.float32] | None
    components_: Array | None
    lost_: float

    def __init__(
        self,
        kernel: KernelLike = "chi2",
        size: int = 256,
        *,
        components: int | None = None,
        dtype: npt.DTypeLike = np.float64,
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.size = size
        self.components = components
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, streams: Sequence[npt.ArrayLike], y: Any = None) -> Self:
        """Choose landmarks among the frames of streams, and their principal directions.

        Parameters
        ----------
        streams : sequence of (N, p) array_like
        y : ignored
        """
        checked = check_streams(streams, check_kernel(self.kernel))
        self.fit_drawn([len(stream) for stream in checked], checked.__getitem__)
        if self.lost_ > LARGE_LOSS:
            warnings.warn(
                f"the embedding loses {100 * self.lost_:.0f} % of the squared norm of the training frames: "
                "more landmarks or components lose less",
                DistanceWarning,
                stacklevel=2,
            )
        return self

    def fit_drawn(self, sizes: Sequence[int] | IntArray, read: Callable[[int], Array]) -> Self:
        """Fit to streams of which only those are read that frames are drawn from.

        Parameters
        ----------
        sizes : sequence of int
            The number of frames of each stream.
        read : callable
            Returns the stream with an index.
        """
        kernel, count = check_kernel(self.kernel), check_integer(self.size, "size")
        if self.components is not None:
            check_integer(self.components, "components")
        explicit = feature_map(kernel)
        self.landmarks_ = self.components_ = None
        self.lost_ = 0.0
        self.__dict__.pop("factor_", None)
        if explicit is not None and self.components is None:
            return self
        rng = np.random.default_rng(seed_of(self.random_state))
        drawn = min(max(CANDIDATES * count, FEWEST_CANDIDATES), MOST_CANDIDATES)
        frames = _draw(sizes, read, max(count, drawn), rng)
        candidates = frames.astype(np.float32).astype(np.float64)  # landmarks have single precision
        if explicit is None:
            chosen, features, total = MEMORY.recall(
                "landmarks",
                [candidates, kernel, count, rng.bit_generator.state],
                lambda: pivoted_landmarks(candidates, kernel, count, rng, n_jobs=self.n_jobs),
            )
            self.landmarks_ = candidates[chosen].astype(np.float32)
        else:
            features = np.asarray(explicit(candidates))
            total = float(np.square(features).sum())
        held = np.square(features).sum()
        if self.components is not None:
            with ONE_BLAS_THREAD:  # the same bits for any number of threads
                variances, directions = np.linalg.eigh(features.T @ features)
            self.components_ = np.ascontiguousarray(directions[:, ::-1][:, : self.components])
            held = variances[::-1][: self.components].sum()
        self.lost_ = float(np.clip(1.0 - held / total, 0.0, 1.0)) if total > 0.0 else 0.0
        return self

    @cached_property
    def factor_(self) -> Array | None:
        """The Cholesky factor of the kernel between landmarks."""
        check_is_fitted(self, "lost_")
        return None if self.landmarks_ is None else landmark_factor(self.landmarks_, self.kernel)

    def features(self, bags: Array) -> Array:
        """Return the coordinates of histograms before `components`, (N, d)."""
        return self.coordinates(self.products(bags))

    def combined_features(self, bags: Array, weights: Array) -> Array:
        """Return the features of combinations of histograms, (r, d), for (N, r) weights."""
        return self.coordinates(self.products(bags) @ weights)  # first, as there are fewer of them

    def products(self, bags: Array) -> Array:
        """Return the kernel of landmarks with valid histograms, (m, N), or explicit features, transposed."""
        check_is_fitted(self, "lost_")
        if self.landmarks_ is not None:
            landmarks = self.landmarks_.astype(np.float64)
            if isinstance(self.kernel, str):  # what is checked is not checked again
                return histogram_matrix(landmarks, bags, self.kernel, np.float64, None)
            return kernel_matrix(landmarks, bags, self.kernel)
        explicit = feature_map(self.kernel)
        assert explicit is not None  # or there were landmarks
        return np.asarray(explicit(bags)).T

    def coordinates(self, products: Array) -> Array:
        """Return the coordinates, (N, d), of `products`, (m, N)."""
        if self.factor_ is None:
            return products.T
        from scipy.linalg import solve_triangular

        # R' from above, in the order of LAPACK's arrays: otherwise it is copied each time.
        return np.asarray(solve_triangular(self.factor_.T, products, trans=1, check_finite=False).T)

    def projection(self) -> Array | None:
        """Return the matrix, (m, c), by which products become a path in the components; None without them."""
        if self.factor_ is None or self.components_ is None:
            return self.components_
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.factor_, self.components_, lower=True, trans=1))

    def paths_and_averages(self, streams: Sequence[Array], projection: Array) -> tuple[list[Array], Array]:
        """Return the paths of valid streams in the components, and averages in all coordinates, (K, d)."""
        products = self.products(np.concatenate(streams))
        each = np.split(products, np.cumsum([len(stream) for stream in streams])[:-1], axis=1)
        averages = self.coordinates(np.stack([one.mean(axis=1) for one in each], axis=1))
        return [one.T @ projection for one in each], averages

    def transform(self, streams: Sequence[npt.ArrayLike]) -> list[npt.NDArray[Any]]:
        """Return the path of each stream, (N, d), in blocks of frames.

        Parameters
        ----------
        streams : sequence of (N, p) array_like
        """
        check_is_fitted(self, "lost_")
        length = None if self.components_ is None else len(self.components_)  # an explicit map keeps bins
        if self.landmarks_ is not None:
            length = self.landmarks_.shape[1]
        return run(self.path, check_streams(streams, self.kernel, length), self.n_jobs, "embedding")

    def path(self, stream: Array) -> npt.NDArray[Any]:
        """Return the path of one stream that is known to be valid."""
        step = max(1, BLOCK // (len(self.landmarks_) if self.landmarks_ is not None else stream.shape[1]))
        precision = check_precision(self.dtype)
        blocks = []
        for start in range(0, len(stream), step):
            features = self.features(stream[start : start + step])
            path = features if self.components_ is None else features @ self.components_
            blocks.append(path.astype(precision, copy=False))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def check_streams(
    streams: Sequence[npt.ArrayLike], kernel: KernelLike, length: int | None = None
) -> list[Array]:
    """Return streams as arrays; all must be valid for the kernel and have as many bins."""
    try:
        count = 0 if isinstance(streams, (str, bytes)) else len(streams)
    except TypeError:  # an iterator, or a sparse table
        count = 0
    if not count:
        raise ParameterError("streams must be a sequence of at least one (N, p) array, rows are time")
    warn_if_exchanged(streams, kernel)
    checked = [check_stream(item, kernel, name=f"streams[{k}]") for k, item in enumerate(streams)]
    expected = checked[0].shape[1] if length is None else length
    rows = {len(stream) for stream in checked}
    exchanged = len(rows) == 1 if length is None else rows == {length}
    hint = f"; if their rows are channels and their columns time, {TRANSPOSE}" if exchanged else ""
    for k, stream in enumerate(checked):
        if stream.shape[1] != expected:
            raise IncompatibleSystemsError(
                f"streams have different numbers of bins, but must have one: streams[{k}] has "
                f"{stream.shape[1]} and not {expected}{hint}"
            )
    return checked


def pivoted_landmarks(
    candidates: Array,
    kernel: KernelLike,
    size: int,
    rng: np.random.Generator,
    *,
    n_jobs: int | None = None,
) -> tuple[IntArray, Array, float]:
    """Choose histograms that span the others well.

    Randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2022): the next landmark is drawn with a
    probability in proportion to what is left of each candidate, its squared distance to the span of the
    landmarks. k-means++ draws its centers so, in the space of the kernel.

    Returns the indices of m landmarks, `size` or fewer if nothing is left; the features of the candidates,
    (n, m), whose rows for the landmarks are lower triangular and the Cholesky factor of the kernel between
    them; and the sum of the squared norms of the candidates.
    """
    gram = kernel_matrix(candidates, kernel=kernel, n_jobs=n_jobs)
    norms = np.diagonal(gram)
    left = norms.copy()
    columns = np.zeros((len(candidates), min(size, len(candidates))))
    chosen: list[int] = []
    while len(chosen) < columns.shape[1] and left.any():
        k, pivot = len(chosen), int(rng.choice(len(left), p=left / left.sum()))
        column = gram[pivot] - columns[:, :k] @ columns[pivot, :k]
        columns[:, k] = column / np.sqrt(column[pivot])
        left -= columns[:, k] ** 2
        left[left <= NEGLIGIBLE * norms] = 0.0
        left[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen), columns[:, : len(chosen)], float(norms.sum())


def landmark_factor(landmarks: npt.NDArray[Any], kernel: KernelLike) -> Array:
    """Return the Cholesky factor of the kernel between landmarks."""
    with ONE_BLAS_THREAD:  # the same bits for any number of threads
        return np.asarray(np.linalg.cholesky(kernel_matrix(landmarks.astype(np.float64), kernel=kernel)))


def _draw(
    sizes: Sequence[int] | IntArray, read: Callable[[int], Array], count: int, rng: np.random.Generator
) -> Array:
    """Return some frames of all streams, each as likely as another."""
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    drawn = np.sort(rng.permutation(bounds[-1])[:count])
    owners = np.searchsorted(bounds, drawn, side="right") - 1
    return np.concatenate([read(k)[drawn[owners == k] - bounds[k]] for k in np.unique(owners).tolist()])
