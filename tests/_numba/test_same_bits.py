"""A process that compiles the kernels and one that loads them compute the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPUTE = """
import sys
import numpy as np
import sysbags
from sysbags.systems.system import System
rng = np.random.default_rng(0)
systems = []
for _ in range(8):
    samples, alpha = rng.dirichlet(np.ones(16), size=40), rng.standard_normal((40, 5))
    systems.append(System(0.3 * rng.standard_normal((5, 5)), samples, alpha, np.full(40, 1 / 40)))
if sys.argv[1] == "cross_gram":
    gram = sysbags.cross_gram(systems)
    results = gram.observer, gram.mean
else:
    results = (sysbags.pairwise_distances(systems),)
for values in results:
    print(*(value.hex() for value in values.ravel().tolist()))
"""


@pytest.mark.parametrize("function", ["cross_gram", pytest.param("alignment", marks=pytest.mark.long)])
def test_compiled_and_loaded_kernels_compute_the_same_bits(tmp_path: Path, function: str) -> None:
    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", COMPUTE, function],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    )
    assert compiled
    assert compiled == loaded
