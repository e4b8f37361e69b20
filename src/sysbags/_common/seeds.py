"""Random states as integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sysbags.errors import ParameterError

__all__ = ["seed_of"]


def seed_of(random_state: Any) -> int:
    """Turn a random state (an integer, a Generator, a RandomState or None) into an integer."""
    if type(random_state) is int and random_state >= 0:
        return random_state
    if isinstance(random_state, np.integer) and random_state >= 0:
        return int(random_state)
    if random_state is None:
        return int(np.random.default_rng().integers(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    raise ParameterError(
        f"random_state is {random_state!r}, but it must be a whole number of at least 0, a Generator or None"
    )
