"""Fewer samples for a system: the paper's k-means, or error-bounded pivoted selection.

A system's observer `C = Phi alpha` and mean `mu = Phi beta` are combinations of the N features
`Phi = [phi(y_1) .. phi(y_N)]` of its samples. Compression looks for m < N bags `Ybar` and combinations of
their features that are nearest:

    minimise ||C - C~||_F^2 + ||mu - mu~||^2   over C~, mu~ in span phi(Ybar),   C~'C~ = C'C.

For given bags the solution is closed: with `W` an orthonormal basis of the span (from the truncated
eigendecomposition of `k(Ybar, Ybar)`, whose condition is 1e4 to 1e8, so never its inverse),
`mu~ = W W'mu` and `C~ = W Z G^(1/2)`, `G = C'C`, with `Z` the polar factor of `W'C G^(1/2)` (the thin SVD of
Algorithm 3). The two methods differ in the choice of the bags. Under the linear kernel n + 1 bags are enough,
see `condensed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from sysbags._common.types import Array, IntArray, KernelLike
from sysbags._common.validation import check_choice, check_integer, check_weight
from sysbags.errors import ParameterError
from sysbags.kernels.functions import feature_map, kernel_matrix

METHODS = ("pivoted", "kmeans")
# The round-off of a kernel matrix is about 1e-16 of its largest eigenvalue; after division by less than this
# fraction of it, the sixth digit would be wrong.
FLOOR = 1e-10
BLOCK_ENTRIES = 4_000_000  # the largest number of kernel values in memory


@dataclass(frozen=True, eq=False)
class Compressed:
    """Bags and coefficients of a compressed system, its Gram values and the error made."""

    samples: Array
    alpha: Array
    beta: Array
    observer_gram: Array
    mean_norm: float
    error: dict[str, float]


def feature_product(left: Array, right: Array, coefficients: Array, kernel: KernelLike) -> Array:
    """Return `k(left, right) @ coefficients`, with no more than a block of rows of the kernel in memory.

    These are inner products, (M, r), of the features of `left` with combinations of the features of `right`.
    If both are the same object, small problems use the symmetry.
    """
    features = feature_map(kernel)
    if features is not None:
        product: Array = features(left) @ (features(right).T @ coefficients)
        return product
    rows = max(1, BLOCK_ENTRIES // right.shape[0])
    if left is right and rows >= left.shape[0]:
        return kernel_matrix(left, kernel=kernel) @ coefficients
    blocks = [
        kernel_matrix(left[start : start + rows], right, kernel=kernel) @ coefficients
        for start in range(0, left.shape[0], rows)
    ]
    return np.concatenate(blocks)


def feature_gram(samples: Array, coefficients: Array, kernel: KernelLike) -> Array:
    """Return the symmetric `coefficients' k(samples, samples) coefficients`."""
    features = feature_map(kernel)
    if features is not None:
        combination = features(samples).T @ coefficients
        return np.asarray(combination.T @ combination)
    gram = coefficients.T @ feature_product(samples, samples, coefficients, kernel)
    return 0.5 * (gram + gram.T)


def compress(
    samples: Array,
    alpha: Array,
    beta: Array,
    kernel: KernelLike,
    observer_gram: Array,
    mean_norm: float,
    *,
    size: int | None = None,
    tolerance: float | None = None,
    method: str = "pivoted",
    random_state: int | None = 0,
) -> Compressed:
    """Approximate an observer and a mean with fewer samples; see `System.compress` for the arguments."""
    check_choice(method, "method", METHODS)
    count, order = alpha.shape
    if size is None and tolerance is None:
        raise ParameterError(
            "compress needs a size (number of samples to keep) or a tolerance (relative error)"
        )
    if size is not None and check_integer(size, "size") < order:
        raise ParameterError(
            f"size is {size}, but an observer of order {order} needs at least {order} samples"
        )
    if tolerance is not None:
        check_weight(tolerance, "tolerance")
        if method == "kmeans":
            raise ParameterError(
                'method "kmeans" takes a size and no tolerance: use method="pivoted" to bound the error'
            )
    unchanged = Compressed(
        samples, alpha, beta, observer_gram, mean_norm, {"observer": 0.0, "mean": 0.0, "relative": 0.0}
    )
    size = count if size is None else min(size, count)
    targets = np.column_stack([alpha, beta])
    if method == "kmeans":
        if size == count:
            return unchanged
        bags = _cluster_means(samples, size, random_state)
        result = _fit(bags, feature_product(bags, samples, targets, kernel), kernel, observer_gram, mean_norm)
        return _present(result, bags.shape[0], order)
    if size == count and tolerance is None:
        return unchanged
    exact = None
    if kernel == "linear" and size > order and count > order + 1:
        rows, alpha, beta = condensed(samples, alpha, beta)
        exact = replace(unchanged, samples=rows, alpha=alpha, beta=beta)
        if tolerance is None:
            return exact
    products = feature_product(samples, samples, targets, kernel)
    chosen: list[int] = []
    for pivot, predicted in _pivots(_Columns(samples, kernel), products, observer_gram, mean_norm):
        chosen.append(pivot)
        if len(chosen) == size:
            break
        if tolerance is None or len(chosen) < order:
            continue
        if predicted <= tolerance or exact is not None:
            result = _fit(samples[chosen], products[chosen], kernel, observer_gram, mean_norm)
            if result is not None and result.error["relative"] <= tolerance:
                return result
        if exact is not None:
            return exact
    if exact is not None:
        return exact
    # `size` samples, or all that are linearly independent in the feature space.
    if len(chosen) == count:
        return unchanged
    result = _fit(samples[chosen], products[chosen], kernel, observer_gram, mean_norm)
    if tolerance is not None and size == count and (result is None or result.error["relative"] > tolerance):
        return unchanged
    return _present(result, len(chosen), order)


def condensed(samples: Array, alpha: Array, beta: Array) -> tuple[Array, Array, Array]:
    """Return n + 1 samples, and coefficients with the same observer and mean under the linear kernel.

    There an observer is a matrix of as many rows as bins. The samples are the mean plus each of its columns,
    and the mean. As their states are the unit vectors and 0, the `Readout` of forecasts stays the same, too.
    """
    order, mean = alpha.shape[1], beta @ samples
    rows = np.vstack([mean + alpha.T @ samples, mean])
    identity = np.eye(order + 1)
    return rows, identity[:, :order] - identity[:, order:], identity[order]


def _present(result: Compressed | None, size: int, order: int) -> Compressed:
    if result is None:
        raise ParameterError(
            f"the {size} samples span fewer than {order} directions of the feature space, "
            f"but an observer of order {order} needs {order}: use a larger size"
        )
    return result


class _Columns:
    """The columns and the diagonal of `k(Y, Y)`; only a small matrix is stored as a whole."""

    def __init__(self, samples: Array, kernel: KernelLike) -> None:
        self.samples, self.kernel = samples, kernel
        count = samples.shape[0]
        self.whole = kernel_matrix(samples, kernel=kernel) if count * count <= BLOCK_ENTRIES else None

    def __getitem__(self, i: int) -> Array:
        if self.whole is not None:
            return self.whole[:, i]
        return kernel_matrix(self.samples, self.samples[i : i + 1], kernel=self.kernel)[:, 0]

    def diagonal(self) -> Array:
        if self.whole is not None:
            return np.diagonal(self.whole).copy()
        blocks = np.array_split(self.samples, -(-self.samples.shape[0] // 64))
        return np.concatenate([np.diagonal(kernel_matrix(block, kernel=self.kernel)) for block in blocks])


def _pivots(
    columns: _Columns, products: Array, observer_gram: Array, mean_norm: float
) -> Iterator[tuple[int, float]]:
    """Select samples one by one, each time the one that reduces the error of the targets most.

    This is a pivoted Cholesky decomposition of `k(Y, Y)` whose pivot is not the largest remaining diagonal
    entry but the one whose feature, made orthogonal to those chosen before, explains most of `[C, mu]`
    (simultaneous orthogonal matching pursuit in feature space). Yields the index of a sample, and the
    relative error with the samples so far.
    """
    count, order = products.shape[0], observer_gram.shape[0]
    total = float(np.trace(observer_gram)) + mean_norm
    half = square_root(observer_gram)
    remaining = columns.diagonal()
    floor = FLOOR * float(remaining.max())
    residual = products.copy()
    factor = np.empty((count, 0))
    explained = np.zeros((order, order))
    explained_mean = 0.0
    for _ in range(count):
        candidates = remaining > floor
        if not candidates.any():
            return
        gain = np.full(count, -np.inf)
        gain[candidates] = (
            np.einsum("ij,ij->i", residual[candidates], residual[candidates]) / remaining[candidates]
        )
        pivot = int(gain.argmax())
        column = (columns[pivot] - factor @ factor[pivot]) / np.sqrt(remaining[pivot])
        step = residual[pivot] / np.sqrt(remaining[pivot])
        residual -= np.outer(column, step)
        remaining = remaining - column * column
        remaining[pivot] = 0.0
        factor = np.column_stack([factor, column])
        explained += np.outer(step[:order], step[:order])
        explained_mean += float(step[order] ** 2)
        # tr(C~'C) is the nuclear norm of W'C G^(1/2), whose squared singular values are these.
        squares = np.linalg.eigvalsh(half @ explained @ half)
        aligned = float(np.sqrt(np.maximum(squares, 0.0)).sum())
        lost = 2.0 * (float(np.trace(observer_gram)) - aligned) + mean_norm - explained_mean
        yield pivot, max(lost, 0.0) / total


def _fit(
    bags: Array, products: Array, kernel: KernelLike, observer_gram: Array, mean_norm: float
) -> Compressed | None:
    """Return the nearest observer and mean in the span of the bags, or None if its dimension is too small.

    `products` is `k(bags, Y) [alpha, beta]`, where Y are the samples of the system.
    """
    order = observer_gram.shape[0]
    gram = kernel_matrix(bags, kernel=kernel)
    eigenvalues, vectors = scipy.linalg.eigh(gram)
    positive = eigenvalues > FLOOR * eigenvalues[-1]
    if int(positive.sum()) < order:
        return None
    basis = vectors[:, positive] / np.sqrt(eigenvalues[positive])
    coordinates = basis.T @ products
    half = square_root(observer_gram)
    left, _, right = scipy.linalg.svd(coordinates[:, :order] @ half, full_matrices=False)
    alpha = basis @ (left @ right @ half)
    beta = basis @ coordinates[:, order]
    # The errors are computed from the coefficients, so that they include round-off.
    new_gram = alpha.T @ gram @ alpha
    new_mean = float(beta @ gram @ beta)
    observer = np.trace(observer_gram) + np.trace(new_gram) - 2.0 * np.sum(alpha * products[:, :order])
    mean = mean_norm + new_mean - 2.0 * (beta @ products[:, order])
    observer, mean = max(float(observer), 0.0), max(float(mean), 0.0)
    relative = (observer + mean) / (float(np.trace(observer_gram)) + mean_norm)
    error = {"observer": observer, "mean": mean, "relative": relative}
    return Compressed(bags, alpha, beta, 0.5 * (new_gram + new_gram.T), new_mean, error)


def _cluster_means(samples: Array, size: int, random_state: int | None) -> Array:
    """Return the means of `size` clusters of the samples; the mean of histograms is a histogram."""
    distinct = np.unique(samples, axis=0)
    if distinct.shape[0] <= size:
        return distinct
    # Imported here because importing scikit-learn takes long.
    from sklearn.cluster import KMeans

    labels: IntArray = KMeans(size, n_init=3, random_state=random_state).fit(samples).labels_
    # From the labels, because the centers of KMeans depend on the threads and may be below zero.
    return np.array([samples[labels == k].mean(axis=0) for k in range(size)])


def square_root(gram: Array) -> Array:
    """Return the symmetric square root of a positive semidefinite matrix."""
    eigenvalues, vectors = scipy.linalg.eigh(gram)
    root: Array = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    return root
