"""A system of bags: a kernel linear dynamic system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import (
    check_choice,
    check_integer,
    check_matrix,
    check_stream,
    check_weight,
    kernel_name,
    seed_of,
)
from sysbags.errors import ParameterError, StreamError
from sysbags.kernels.functions import check_kernel
from sysbags.systems import compression
from sysbags.systems.forecast import Forecast, Readout, forecast_states, simulated_states

NORMAL_FORMS = ("orthonormal", "unit-variance")

ORTHOGONALITY_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """A kernel linear dynamic system (`eq:KLDS`), given by coefficients over its samples.

    With `phi` the kernel's feature map and `Phi = [phi(y_1) .. phi(y_N)]`, the system is

        x_{t+1} = A x_t + noise,    phi(y_t) = mu + C x_t + noise,    C = Phi alpha,   mu = Phi beta.

    Two systems that differ by a rotation of the state space (`rotate`) describe the same process.
    Every array is a read-only copy, so a system never changes.

    Parameters
    ----------
    transition : (n, n) array
        `A`, the state transition.
    samples : (N, p) array
        `Y`, one row per bag.
    alpha : (N, n) array
        Coefficients of the observer `C`. `identify` makes `C'C = I`, or the states' variances; the class does
        not require it.
    beta : (N,) array
        Coefficients of the mean `mu`.
    kernel : {"chi2", "bhattacharyya", "intersection", "linear"} or callable, default="chi2"
        The kernel between two streams.
    eigenvalues : (n,) array, optional
        For inspection: the leading eigenvalues of the centred kernel, N times the states' variances.
    explained : float, optional
        For inspection: the fraction of the variance of the stream that the states explain.
    states : (T, n) array, optional
        For inspection: the states of the stream that the system was learnt from, rows are time.
    residual : float, optional
        For inspection: the relative error of one-step prediction, see `identify`.
    noise : (n, n) array, optional
        Covariance of the noise of the states, for `forecast` and `simulate`; see `identify`.
    normal_form : {"orthonormal", "unit-variance"}, default="orthonormal"
        The coordinates of the states, see `identify`. In both forms a rotation of the states is all that is
        free; only systems of the same form can be compared.
    compression_error : mapping, optional
        For a compressed system: the error of `compress`.

    Examples
    --------
    >>> from sysbags.systems.system import System
    >>> theta = System([[0.5]], samples=[[0.0, 1.0], [1.0, 0.0]], alpha=[[1.0], [0.5]], beta=[0.5, 0.5])
    >>> theta
    System(order=1, size=2, bag_length=2, kernel='chi2')
    >>> theta.observer_gram.round(4)
    array([[1.6179]])
    >>> theta.rotate([[-1.0]]).alpha
    array([[-1. ],
           [-0.5]])
    """

    transition: Array
    samples: Array
    alpha: Array
    beta: Array
    kernel: KernelLike = "chi2"
    eigenvalues: Array | None = None
    explained: float | None = None
    states: Array | None = None
    residual: float | None = None
    noise: Array | None = None
    normal_form: str = "orthonormal"
    compression_error: Mapping[str, float] | None = None
    _observer_gram: Array | None = field(default=None)
    _mean_norm: float | None = field(default=None)

    def __post_init__(self) -> None:
        kernel = check_kernel(self.kernel)
        check_choice(self.normal_form, "normal_form", NORMAL_FORMS)
        transition = check_matrix(self.transition, "transition", (None, None), "a square (n, n) matrix")
        order = transition.shape[0]
        if transition.shape[1] != order:
            raise ParameterError(
                f"transition has shape {transition.shape}, but it must be a square (n, n) matrix"
            )
        samples = check_stream(self.samples, kernel, name="samples")
        size = samples.shape[0]
        rows = f"one row for each of the {size} samples, one column per state"
        shapes: dict[str, tuple[tuple[int | None, ...], str]] = {
            "alpha": ((size, order), f"({size}, {order}): {rows}"),
            "beta": ((size,), f"({size},): one entry for each of the {size} samples"),
            "eigenvalues": ((None,), "a vector"),
            "states": ((None, order), f"(T, {order}): one row per time step, one column per state"),
            "noise": ((order, order), f"({order}, {order})"),
            "_observer_gram": ((order, order), f"({order}, {order})"),
        }
        arrays: dict[str, Array] = {"transition": transition, "samples": samples}
        for name, (shape, meaning) in shapes.items():
            value = getattr(self, name)
            if value is not None or name in ("alpha", "beta"):
                title = "the observer's Gram matrix" if name == "_observer_gram" else name
                arrays[name] = check_matrix(value, title, shape, meaning)
        for name, array in arrays.items():
            object.__setattr__(self, name, _frozen(array))
        if self.residual is not None:
            object.__setattr__(self, "residual", check_weight(self.residual, "residual"))

    @classmethod
    def of_valid(cls, **parameters: Any) -> System:
        """Make a system of parameters that are known to be valid, without checking them.

        Its arrays are made read-only, and copied only where they share memory with other arrays.
        """
        system = object.__new__(cls)
        for name, value in parameters.items():
            vars(system)[name] = _frozen(value) if isinstance(value, np.ndarray) else value
        return system

    def __repr__(self) -> str:
        return (
            f"System(order={self.order}, size={self.size}, bag_length={self.bag_length}, "
            f"kernel={kernel_name(self.kernel)})"
        )

    @property
    def order(self) -> int:
        """Dimension `n` of the state space."""
        return int(self.transition.shape[0])

    @property
    def size(self) -> int:
        """Number `N` of samples."""
        return int(self.samples.shape[0])

    @property
    def bag_length(self) -> int:
        """Number `p` of bins."""
        return int(self.samples.shape[1])

    @property
    def observer_gram(self) -> Array:
        """(n, n) `C'C = alpha' k(Y, Y) alpha`; the identity in the orthonormal form. Computed once."""
        if self._observer_gram is None:
            self._compute_norms()
        assert self._observer_gram is not None
        return self._observer_gram

    @property
    def mean_norm(self) -> float:
        """`mu'mu = beta' k(Y, Y) beta`. Computed once."""
        if self._mean_norm is None:
            self._compute_norms()
        assert self._mean_norm is not None
        return self._mean_norm

    def _compute_norms(self) -> None:
        """Fill both caches from one pass over the kernel."""
        coefficients = np.column_stack([self.alpha, self.beta])
        gram = compression.feature_gram(self.samples, coefficients, self.kernel)
        object.__setattr__(self, "_observer_gram", _frozen(gram[:-1, :-1].copy()))
        object.__setattr__(self, "_mean_norm", float(gram[-1, -1]))

    def rotate(self, rotation: Any) -> System:
        """Change the basis of the state space by an orthogonal matrix, `Q . theta` (`eq:P_tran`).

        Parameters
        ----------
        rotation : (n, n) array
            `Q` with `Q'Q = I`, of either determinant.

        Returns
        -------
        System
            `(Q'AQ, Y, alpha Q, beta)`, the same process in other coordinates. It is a right action:
            `theta.rotate(Q1).rotate(Q2)` is `theta.rotate(Q1 @ Q2)`.
        """
        n = self.order
        Q = check_matrix(rotation, "rotation", (n, n), f"({n}, {n}), as the system's order is {n}")
        error = float(np.abs(Q.T @ Q - np.eye(n)).max())
        if error > ORTHOGONALITY_TOLERANCE:
            raise ParameterError(
                f"rotation is not orthogonal: Q'Q differs from the identity by {error:.2g}, "
                f"but at most {ORTHOGONALITY_TOLERANCE:g} is allowed"
            )
        return replace(
            self,
            transition=Q.T @ self.transition @ Q,
            alpha=self.alpha @ Q,
            states=None if self.states is None else self.states @ Q,
            noise=None if self.noise is None else Q.T @ self.noise @ Q,
            _observer_gram=None if self._observer_gram is None else Q.T @ self._observer_gram @ Q,
        )

    def compress(
        self,
        size: int | None = None,
        *,
        tolerance: float | None = None,
        method: str = "pivoted",
        random_state: int | None = 0,
    ) -> System:
        """Return the system with fewer samples; the error is in its `compression_error`.

        The transition does not change. Observer and mean are replaced by the nearest ones in the span of the
        new samples, with the same Gram matrix `C'C` of the observer. See `sysbags.systems.compression`.

        Under the linear kernel, as of a stream in a `StreamEmbedding`, observer and mean are matrices: with a
        size of at least n + 1, "pivoted" keeps them exactly, in n + 1 samples that need not be histograms.
        Forecasts have the same means, but not the deviations that the states do not explain.

        Parameters
        ----------
        size : int, optional
            Number of samples, at least the order. With `size >= N` the system does not change.
        tolerance : float, optional
            For "pivoted": stop at the first size whose relative error is not above it. Give `size`,
            `tolerance` or both; with both, the smaller size is used.
        method : {"pivoted", "kmeans"}, default="pivoted"
            "pivoted" selects samples of the system, each time the one that reduces the error most; it needs
            the kernel between all N samples. "kmeans" is the paper's: the cluster centers of the samples,
            which average noise and are better for smooth but noisy streams. Compare `compression_error`.
        random_state : int or None, default=0
            Seed of "kmeans".

        Returns
        -------
        System
            With `compression_error["observer"]` = ``||C - C~||_F^2``, `["mean"]` = ``||mu - mu~||^2`` and
            `["relative"]` = their sum over ``||C||_F^2 + ||mu||^2``.
        """
        parts = compression.compress(
            self.samples,
            self.alpha,
            self.beta,
            self.kernel,
            self.observer_gram,
            self.mean_norm,
            size=size,
            tolerance=tolerance,
            method=method,
            random_state=random_state,
        )
        return replace(
            self,
            samples=parts.samples,
            alpha=parts.alpha,
            beta=parts.beta,
            compression_error=parts.error,
            _observer_gram=parts.observer_gram,
            _mean_norm=parts.mean_norm,
        )

    def project(self, stream: Any) -> Array:
        """Return the states of given bags, (T, n): those whose features the observer explains best.

        The problem solved for each bag is: minimise ``||phi(y) - mu - C x||`` over x. Its solution
        `x = (C'C)^-1 C'(phi(y) - mu)` needs only kernel values: `C'phi(y) = alpha' k(Y, y)`. The samples of
        a system from `identify` get its `states` back.

        Parameters
        ----------
        stream : (T, p) array_like

        Examples
        --------
        >>> import numpy as np, sysbags
        >>> stream = np.random.default_rng(0).dirichlet(np.ones(6), size=30)
        >>> theta = sysbags.identify(stream, order=2)
        >>> bool(np.allclose(theta.project(stream), theta.states))
        True
        """
        bags = check_stream(stream, self.kernel)
        if bags.shape[1] != self.bag_length:
            raise StreamError(
                f"stream has bags of length {bags.shape[1]}, but those of the system have {self.bag_length}"
            )
        products = compression.feature_product(bags, self.samples, self.alpha, self.kernel)
        # Least squares, because an observer may have dependent columns.
        solution = np.linalg.lstsq(self.observer_gram, (products - self._mean_product).T, rcond=None)[0]
        return np.asarray(solution.T, dtype=np.float64)

    @cached_property
    def _mean_product(self) -> Array:
        """(n,) `C'mu = alpha' k(Y, Y) beta`."""
        product: Array = self.beta @ compression.feature_product(
            self.samples, self.samples, self.alpha, self.kernel
        )
        return product

    def forecast(self, stream: Any = None, n_steps: int = 1) -> Forecast:
        """Predict the states and the bags of the next `n_steps` steps, with their spread.

        The state of the last bag is taken as known. After k steps the states have the mean `A^k x` and the
        covariance `P_k = A P_{k-1} A' + noise`, `P_0 = 0`. A bag is predicted by a linear combination of the
        samples, see `Readout`. Row k of the result is step k + 1.

        Parameters
        ----------
        stream : (T, p) array_like, optional
            What has been seen; only the last row is used. By default the forecast begins after the last of
            `states`.
        n_steps : int, default=1

        Examples
        --------
        >>> import numpy as np, sysbags
        >>> time = np.arange(60)[:, None]
        >>> stream = (2.0 + np.cos(0.3 * time + 0.5 * np.pi * np.arange(4))) / 8.0
        >>> ahead = sysbags.identify(stream[:50], order=2).forecast(n_steps=10)
        >>> bool(np.abs(ahead.histograms - stream[50:]).max() < 0.05)  # bins are from 0.125 to 0.375
        True
        """
        check_integer(n_steps, "n_steps")
        if stream is None:
            state = self._last_state()
        else:
            (state,) = self.project(check_stream(stream, self.kernel)[-1:])
        states, covariances = forecast_states(self.transition, self._known_noise(), state, n_steps)
        readout = self._readout
        return Forecast(states, covariances, readout.histograms(states), readout.deviations(covariances))

    def simulate(self, n_steps: int, random_state: Any = 0, initial: Any = None) -> tuple[Array, Array]:
        """Draw a path of the system: `x_{t+1} = A x_t + e_t` with Gaussian noise `e_t`.

        Parameters
        ----------
        n_steps : int
        random_state : int, Generator or None, default=0
        initial : (n,) array_like, optional
            The state before the first step; by default the last of `states`.

        Returns
        -------
        states : (n_steps, n) array
        histograms : (n_steps, p) array
            The mean bag of each state, see `Readout`; the noise of bags is not drawn.

        Examples
        --------
        >>> import numpy as np, sysbags
        >>> theta = sysbags.identify(np.random.default_rng(0).dirichlet(np.ones(6), size=30), order=2)
        >>> states, histograms = theta.simulate(100, random_state=1)
        >>> states.shape, histograms.shape, bool(np.allclose(histograms.sum(axis=1), 1.0))
        ((100, 2), (100, 6), True)
        """
        check_integer(n_steps, "n_steps")
        n = self.order
        state = (
            self._last_state()
            if initial is None
            else check_matrix(initial, "initial", (n,), f"({n},): one number per state")
        )
        rng = np.random.default_rng(seed_of(random_state))
        states = simulated_states(self.transition, self._known_noise(), state, n_steps, rng)
        return states, self._readout.histograms(states)

    @cached_property
    def _readout(self) -> Readout:
        return Readout.fit(self.project(self.samples), self.samples)

    def _known_noise(self) -> Array:
        if self.noise is None:
            raise ParameterError("the system has no noise, but a forecast needs it: use identify")
        return self.noise

    def _last_state(self) -> Array:
        if self.states is None:
            raise ParameterError("the system has no states to continue: give a stream, or an initial state")
        return np.asarray(self.states[-1])


def _frozen(array: Array) -> Array:
    """Return a read-only array that shares no memory with a writeable one."""
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.setflags(write=False)
    return array
