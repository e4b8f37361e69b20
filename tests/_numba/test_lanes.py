"""Where vectors cannot be built, tuples take their place and find the same alignments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sysbags import align_blocks

FALLBACK = """
import json, sys
sys.modules["sysbags._numba.vectors"] = None  # importing it fails
import numpy as np
from sysbags import align_blocks
from sysbags._numba import lanes, tuples
assert lanes.load is tuples.load
pairs = json.load(sys.stdin)
print(json.dumps([align_blocks(*map(np.array, pair), 1.0).value for pair in pairs]))
"""


@pytest.fixture(scope="module")
def pairs() -> list[list[np.ndarray]]:
    rng = np.random.default_rng(0)
    return [[0.4 * rng.standard_normal((n, n)) for _ in range(3)] for n in (1, 2, 3, 5, 5, 8)]


def test_tuples_find_the_same_alignments(pairs: list[list[np.ndarray]], tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FALLBACK],
        input=json.dumps([[matrix.tolist() for matrix in pair] for pair in pairs]),
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    values = [align_blocks(*pair, 1.0).value for pair in pairs]
    # Both stop where the slope is 1e-7 of the problem's scale; the value is then off by its square.
    np.testing.assert_allclose(json.loads(run.stdout), values, rtol=1e-9)
