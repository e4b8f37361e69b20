"""`DSA`: dynamical similarity analysis of many time series, from data to a matrix of distances."""

from __future__ import annotations

import hashlib
import inspect
import reprlib
from collections.abc import Sequence
from typing import Any, Never

import numpy as np

from sysbags._common.messages import warn
from sysbags._common.parallel import run
from sysbags._common.types import Array, KernelLike
from sysbags._common.validation import check_choice, check_integer, check_weight, seed_of
from sysbags.dsa.modes import DynamicModes, check_rank, choose_delays, fit_trials, rank_range
from sysbags.dsa.scores import Score, angular_distance, euclidean_distance, wasserstein_distance
from sysbags.dsa.trials import Trials, check_controls, check_items, check_trials, is_collection
from sysbags.errors import DistanceWarning, ParameterError, StreamError

SCORE_METHODS = ("angular", "euclidean", "wasserstein")
COMPARISONS = ("state", "control", "joint")
DATA = ("X", "Y", "X_control", "Y_control")
# What takes the place of arguments of dsa-metric.
INSTEAD = {
    **dict.fromkeys(("iters", "lr"), "the search ends when it has converged; see starts"),
    **dict.fromkeys(("rank_thresh", "rank_explained_variance"), 'give rank a number or "auto"'),
    **dict.fromkeys(("device", "send_to_cpu"), "everything runs on the processor"),
    **dict.fromkeys(("group", "wasserstein_compare"), "see score_method"),
    "verbose": "the progress of long work is shown without it",
    "dmd_class": "see kernel",
    "similarity_class": "see score_method",
    **dict.fromkeys(("dmd_config", "simdist_config"), "give what is in it to DSA itself, as rank=5"),
    **dict.fromkeys(("reduced_rank_reg", "steps_ahead"), "the fit is a ridge regression of one time step"),
}


class DSA:
    """Compare the dynamics of time series, whatever the coordinates in which they are observed.

    Dynamical similarity analysis (Ostrow, Eisen, Kozachkov and Fiete, "Beyond geometry", NeurIPS 2023) fits
    a linear system to the delay-embedded rows of each time series (`fit_dmd`) and compares the transitions A
    of two of them up to a rotation of the state space:

    - "angular": the angle between ``A1`` and ``Q' A2 Q`` for the best Q in O(n), from 0 to pi;
    - "euclidean": ``min ||A1 - Q' A2 Q||_F``, where each A is divided by its norm, from 0 to 2;
    - "wasserstein": the squared 2-Wasserstein distance between the eigenvalues of A1 and A2; no rotation.

    All of them are distances: **0 means the same dynamics, and a larger score means less similar ones**. The
    score of a system with itself is exactly 0, and the score does not change by a single bit when X and Y are
    exchanged. With inputs the systems are ``z_{t+1} = A z_t + B u_t``, and the same rotation acts on A and B,
    see `euclidean_distance`; dsa-metric's InputDSA aligns controllability matrices instead.

    The arguments and the scores are those of the class of the same name in the package dsa-metric, where that
    one finds the best rotation. Three things differ. Transitions of unequal ranks are padded with zeros,
    with a warning, where dsa-metric compares eigenvalues instead, so that all entries of a matrix have the
    same meaning; with "wasserstein", eigenvalues of unequal numbers are two uniform distributions, in both.
    Time steps from one trial to the next are never part of a fit. A rank that the data does not have is an
    error.

    `n_delays`, `delay_interval` and `rank` may differ between systems: without Y as a list with one value per
    system, with Y as a pair for X and Y, each of them one value or a list.

    Parameters
    ----------
    X : array_like or list
        One system or a list of systems. A system is an array (time, channels), (trials, time, channels), or
        (time,) for one channel, or, within a list of systems, a list of trials whose lengths may differ.
        Systems may have different channels. A flat list of numbers is one system (time,). Lists of numbers
        inside a list are refused: pass numpy arrays.
    Y : array_like or list, optional
        The systems to compare with. By default all pairs of X are compared.
    X_control, Y_control : array_like or list, optional
        Inputs of each system, with the same trials and time points as X and Y. All systems have the same
        inputs in the same units. Inputs need `score_method` "angular" or "euclidean"; the default compares
        eigenvalues, and so needs ``compare="state"``.
    n_delays : int or "auto", default=1
        Number of observations in a row. "auto" is one number for all systems, by the error of one-step
        prediction on held-out time, without the kernel.
    delay_interval : int, default=1
        Time steps from one observation in a row to the next.
    rank : int, "auto" or None, default=None
        Dimension of the state, see `fit_dmd`. "auto" is one rank for all systems: the largest of their
        automatic ranks, or the largest rank that all of them have, if that is smaller. With a kernel, None
        is the same as "auto".
    score_method : {"wasserstein", "angular", "euclidean"}, default="wasserstein"
        See above; the default is that of dsa-metric.
    lamb : float, default=0.0
        Ridge penalty of the fit.
    kernel : str or callable, optional
        States are kernel principal components of the rows, see `fit_dmd`.
    compare : {"joint", "state", "control"}, optional
        With inputs: compare A and B (the default), A alone, or B alone, which needs at least two inputs.
    control_weight : float, default=1.0
        Weight of B beside A.
    starts, certificate, random_state
        See `sysbags.align_blocks`.
    n_jobs : int, optional
        Threads; the result does not depend on it.

    Attributes
    ----------
    models_ : tuple of two lists of DynamicModes
        Of X and of Y.
    n_delays_ : list of int
        For the systems of X, then those of Y.
    scores_, certificates_ : float or array
        The scores, and lower bounds: no rotation has a smaller score. With "wasserstein" both are equal.
    squared_scores_ : float or array
        Squared distances, which `sysbags.statistics` takes: the squares of "angular" and "euclidean" scores,
        and the "wasserstein" scores as they are, because they are squared already.

    Warns
    -----
    DistanceWarning
        If transitions of unequal ranks are padded with zeros.

    Examples
    --------
    The same oscillation seen through two other sensors, and a faster one:

    >>> import numpy as np
    >>> time = np.arange(200)[:, None]
    >>> slow = np.cos(0.1 * time + [0.0, 1.0, 2.0])
    >>> seen = slow @ np.random.default_rng(0).standard_normal((3, 2))
    >>> fast = np.cos(0.5 * time + [0.0, 1.0, 2.0])
    >>> dsa = DSA([slow, seen, fast], rank=2, score_method="angular")
    >>> dsa.fit_score().round(2)
    array([[0. , 0. , 0.4],
           [0. , 0. , 0.4],
           [0.4, 0.4, 0. ]])
    >>> dsa
    DSA(3 systems, rank=2, score_method='angular')
    >>> dsa.certificates_.round(2)[0]
    array([0. , 0. , 0.4])
    >>> round(DSA(slow, fast, rank=2, score_method="angular").fit_score(), 2)
    0.4
    """

    models_: tuple[list[DynamicModes], list[DynamicModes]]
    n_delays_: list[int]
    scores_: float | Array
    certificates_: float | Array
    squared_scores_: float | Array

    def __init__(
        self,
        X: Any,
        Y: Any = None,
        *,
        X_control: Any = None,
        Y_control: Any = None,
        n_delays: Any = 1,
        delay_interval: Any = 1,
        rank: Any = None,
        score_method: str = "wasserstein",
        lamb: float = 0.0,
        kernel: KernelLike | None = None,
        compare: str | None = None,
        control_weight: float = 1.0,
        starts: int | None = None,
        certificate: str = "fast",
        random_state: int | np.random.Generator | None = 0,
        n_jobs: int | None = None,
        **other: Never,
    ) -> None:
        for name in other:
            instead = INSTEAD.get(name, f"its arguments are {', '.join(_defaults())}")
            raise ParameterError(f"DSA has no argument {name!r}: {instead}")
        self.X = X
        self.Y = Y
        self.X_control = X_control
        self.Y_control = Y_control
        self.n_delays = n_delays
        self.delay_interval = delay_interval
        self.rank = rank
        self.score_method = score_method
        self.lamb = lamb
        self.kernel = kernel
        self.compare = compare
        self.control_weight = control_weight
        self.starts = starts
        self.certificate = certificate
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __repr__(self) -> str:
        sides = [self.X] if self.Y is None else [self.X, self.Y]
        counts = [len(side) if is_collection(side) else 1 for side in sides]
        shown = [" against ".join(f"{count} system{'s' * (count != 1)}" for count in counts)]
        if self.X_control is not None or self.Y_control is not None:
            shown[0] += ", with inputs"
        for name, default in _defaults().items():
            value = reprlib.repr(getattr(self, name))
            if name not in DATA and value != reprlib.repr(default):
                shown.append(f"{name}={value}")
        return f"DSA({', '.join(shown)})"

    def __getattr__(self, name: str) -> Never:
        from sklearn.exceptions import NotFittedError

        if name in DSA.__annotations__:
            raise NotFittedError(f"{name} is not known yet: call fit_score, or fit_dmds and then score")
        raise AttributeError(f"DSA has no attribute {name!r}")

    def fit_score(self) -> Any:
        """Fit the systems and return their scores.

        Returns
        -------
        float, (K,) array or (K, L) array
            A number for two single systems, one dimension for a single system and a list, a matrix for two
            lists or for the pairs of one list.
        """
        return self.fit_dmds().score()

    def fit_dmds(self) -> DSA:
        """Fit a linear system to each time series; `score` may then be called with several score methods.

        Returns
        -------
        DSA
            Itself, with `models_` and `n_delays_`.
        """
        first = _systems(self.X, self.X_control, "X")
        if self.Y is None:
            if not is_collection(self.X):
                raise ParameterError("X is one system, but without Y it must be a list of systems to compare")
            if self.Y_control is not None:
                raise ParameterError("there is Y_control without Y, but inputs need the data that they drive")
            second = []
        else:
            second = _systems(self.Y, self.Y_control, "Y")
        systems = [*first, *second]
        self._comparison(_check_inputs(systems))
        sizes = [len(first)] if self.Y is None else [len(first), len(second)]
        intervals = [
            check_integer(interval, "delay_interval")
            for interval in _per_system(self.delay_interval, "delay_interval", sizes)
        ]
        ranks = [check_rank(rank) for rank in _per_system(self.rank, "rank", sizes)]
        if isinstance(self.n_delays, str) and self.n_delays == "auto":
            delays = [choose_delays(systems, intervals, ranks, self.lamb, self.n_jobs)] * len(systems)
        else:
            delays = [check_integer(n, "n_delays") for n in _per_system(self.n_delays, "n_delays", sizes)]
        if "auto" in ranks or (self.kernel is not None and None in ranks):
            ranks = self._common_rank(systems, delays, intervals, ranks)

        # Equal data is fitted once: its score is then exactly 0.
        keys = [
            _digest(system, repr(settings))
            for system, *settings in zip(systems, delays, intervals, ranks, strict=True)
        ]
        places = {key: k for k, key in reversed(list(enumerate(keys)))}

        def fit(k: int) -> DynamicModes:
            trials, controls, name = systems[k]
            return fit_trials(
                trials, controls, delays[k], intervals[k], ranks[k], self.lamb, self.kernel, name
            )

        unique = sorted(places.values())
        fitted = dict(zip(unique, run(fit, unique, self.n_jobs, "dynamic modes"), strict=True))
        models = [fitted[places[key]] for key in keys]
        self._keys = (keys[: len(first)], keys[len(first) :] or keys)
        self.models_ = (models[: len(first)], models[len(first) :] or models)
        self.n_delays_ = delays
        return self

    def score(self) -> Any:
        """Compare the fitted systems.

        Returns
        -------
        float, (K,) array or (K, L) array
            See `fit_score`.
        """
        (first, second), (keys, other_keys) = self.models_, self._keys
        weights = self._comparison(first[0].control.shape[1])
        ranks = sorted({model.rank for model in (*first, *second)})
        if len(ranks) > 1 and self.score_method != "wasserstein":
            warn(
                f"the ranks of the systems are from {ranks[0]} to {ranks[-1]}, and unequal ranks are padded "
                "with zeros, so the scores also measure the difference in rank: give all systems one rank",
                DistanceWarning,
                stacklevel=2,
            )
        seed = seed_of(self.random_state)

        def pair_score(pair: tuple[int, int]) -> Score:
            i, j = pair
            one, two = first[i], second[j]
            if one is two:
                return Score(0.0, 0.0)
            if other_keys[j] < keys[i]:  # one order for both directions, so that the score is symmetric
                one, two = two, one
            if self.score_method == "wasserstein":
                return Score(*[wasserstein_distance(one.eigenvalues, two.eigenvalues)] * 2)
            distance = angular_distance if self.score_method == "angular" else euclidean_distance
            controls = (one.control, two.control) if one.control.size else None
            return distance(
                one.transition,
                two.transition,
                controls,
                weights=weights,
                starts=self.starts,
                certificate=self.certificate,
                random_state=seed,
            )

        table = np.zeros((2, len(first), len(second)))
        pairs = [(i, j) for i in range(len(first)) for j in range(len(second)) if self.Y is not None or i < j]
        if pairs:
            rows, columns = np.transpose(pairs)
            table[:, rows, columns] = np.transpose(run(pair_score, pairs, self.n_jobs, "pairs of systems"))
            if self.Y is None:
                table[:, columns, rows] = table[:, rows, columns]
        # A system that was not given in a list has no axis.
        single = tuple(slice(None) if is_collection(side) else 0 for side in (self.X, self.Y))
        scores, certificates = table if self.Y is None else table[(slice(None), *single)]
        self.scores_, self.certificates_ = (
            float(side) if np.ndim(side) == 0 else side for side in (scores, certificates)
        )
        self.squared_scores_ = self.scores_ if self.score_method == "wasserstein" else self.scores_**2
        return self.scores_

    def _comparison(self, inputs: int) -> tuple[float, float]:
        """Check the options of the score for a number of inputs; return the weights of A and B."""
        check_choice(self.score_method, "score_method", SCORE_METHODS)
        compare = ("joint" if inputs else "state") if self.compare is None else self.compare
        check_choice(compare, "compare", COMPARISONS)
        weight = check_weight(self.control_weight, "control_weight")
        if compare != "state" and not inputs:
            raise ParameterError(f"compare is {compare!r}, but there are no inputs: give X_control")
        if compare != "state" and self.score_method == "wasserstein":
            raise ParameterError(
                'score_method is "wasserstein", which compares eigenvalues and not inputs: with X_control '
                'use score_method="angular" or "euclidean", or compare="state" to leave the inputs out'
            )
        if compare == "control" and inputs == 1:
            raise ParameterError(
                'compare is "control", but with one input all scores are 0: at least two inputs are needed'
            )
        return {"state": (1.0, 0.0), "control": (0.0, 1.0), "joint": (1.0, weight)}[compare]

    def _common_rank(
        self, systems: Sequence[Trials], delays: list[int], intervals: list[int], ranks: list[Any]
    ) -> list[Any]:
        """Replace the automatic ranks by one rank, because distances between unequal ranks mean less."""

        def ranges(k: int) -> tuple[int, int]:
            trials, _, name = systems[k]
            return rank_range(trials, delays[k], intervals[k], self.kernel, name)

        automatic = [
            k for k, rank in enumerate(ranks) if rank == "auto" or (rank is None and self.kernel is not None)
        ]
        found, largest = np.transpose(run(ranges, automatic, self.n_jobs, "ranks"))
        rank = max(1, min(int(found.max()), int(largest.min())))
        return [rank if k in automatic else given for k, given in enumerate(ranks)]


def _systems(data: Any, control: Any, name: str) -> list[Trials]:
    """Return the trials, inputs and name of each system."""
    if not is_collection(data):
        trials = check_trials(data, name)
        return [(trials, check_controls(control, trials, f"{name}_control"), name)]
    if not data:
        raise ParameterError(f"{name} is an empty list, but it must hold at least one system")
    if control is not None and (not is_collection(control) or len(control) != len(data)):
        given = f"a list of {len(control)}" if is_collection(control) else "one array"
        raise ParameterError(
            f"{name}_control is {given}, but it must be a list with the inputs of each of the {len(data)} "
            "systems"
        )
    check_items(data, name)
    check_items(control or (), f"{name}_control")
    systems = []
    for k, item in enumerate(data):
        trials = check_trials(item, f"{name}[{k}]")
        inputs = None if control is None else control[k]
        systems.append((trials, check_controls(inputs, trials, f"{name}_control[{k}]"), f"{name}[{k}]"))
    return systems


def _defaults() -> dict[str, Any]:
    """Return the arguments of `DSA` with their default values."""
    parameters = inspect.signature(DSA).parameters.values()
    return {p.name: p.default for p in parameters if p.kind != p.VAR_KEYWORD}


def _check_inputs(systems: Sequence[Trials]) -> int:
    """Return the number of inputs, which must be the same for all systems."""
    expected: int = systems[0][1][0].shape[1]
    for _, controls, name in systems:
        if controls[0].shape[1] != expected:
            raise StreamError(
                f"{name} has {controls[0].shape[1]} inputs and {systems[0][2]} has {expected}, but all "
                "systems must have the same inputs"
            )
    return expected


def _per_system(value: Any, name: str, sizes: Sequence[int]) -> list[Any]:
    """Return one value for each system of X, then of Y; see `DSA` for the forms of the value."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return [value] * sum(sizes)
    if len(sizes) == 1:
        if len(value) != sizes[0]:
            raise ParameterError(f"{name} has {len(value)} values, but there are {sizes[0]} systems in X")
        return list(value)
    if len(value) != 2:
        raise ParameterError(f"{name} has {len(value)} values, but it must be a pair: for X, and for Y")
    return [item for side, size in zip(value, sizes, strict=True) for item in _per_system(side, name, [size])]


def _digest(system: Trials, settings: str) -> bytes:
    """Return a number for the data and the settings of one system: equal for equal ones alone."""
    digest = hashlib.sha256(settings.encode())
    for array in (*system[0], *system[1]):
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
