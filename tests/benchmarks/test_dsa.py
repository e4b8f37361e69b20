from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from benchmarks.dsa import __main__ as program
from benchmarks.dsa import comparison, pairs
from benchmarks.dsa.comparison import Comparison, other_rows, solver_rows, squared_distance
from benchmarks.dsa.methods import OURS, SOLVERS, missing, sgot, wasserstein
from benchmarks.dsa.pairs import PUBLISHED, delayed, make_pairs, make_systems, pair_of, without_observers
from benchmarks.dsa.simulations import SIMULATIONS, line_attractor, lorenz, ring_attractor
from benchmarks.problems import Pair

import sysbags
from sysbags.datasets import make_clips


def need(*modules):
    if absent := missing(modules):
        pytest.skip(f"{', '.join(absent)} cannot be imported")


def rotated_copy(angle, n=4):
    """A pair with distance 0, whose rotation is at a given distance from the identity."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, n))
    S = rng.standard_normal((n, n))
    S = (S - S.T) / np.linalg.norm(S - S.T)
    half = 0.5 * angle * S
    Q = np.linalg.solve(np.eye(n) - half, np.eye(n) + half)
    return Pair(A, Q @ A @ Q.T, np.zeros((n, n)))


def columns(lines):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_squared_distance_is_that_of_align():
    first, second = make_systems("simulations", 4, 2, seed=0)
    alignment = sysbags.align(first, second)
    found = squared_distance(pair_of(first, second), alignment.rotation, 0.25)
    assert found == pytest.approx(alignment.distance, rel=1e-9)
    transitions = squared_distance(without_observers(pair_of(first, second)), alignment.rotation, 0.25)
    assert transitions == pytest.approx(alignment.parts["transition"], rel=1e-9)


def test_matrices_are_judged_by_their_nearest_rotation():
    pair = rotated_copy(0.5)
    assert squared_distance(pair, 3.0 * np.eye(4), 1.0) == pytest.approx(
        np.sum((pair.A1 - pair.A2) ** 2), rel=1e-12
    )
    assert squared_distance(pair, np.full((4, 4), np.nan), 1.0) == np.inf


def test_excess_is_relative_to_the_best_method():
    result = Comparison(
        5,
        "random",
        {OURS: [1.0, 3.0, 2.0], "peer": [40.0, 20.0, 60.0]},
        {OURS: [2.0, 1.1, 1e-12], "peer": [3.0, 1.0, 3e-12]},
        floors=[1e-6] * 3,
    )
    np.testing.assert_allclose(result.excess[OURS], [0.0, 0.1, 0.0], atol=1e-12)
    np.testing.assert_allclose(result.excess["peer"], [0.5, 0.0, 2e-6], atol=1e-12)
    assert result.best(OURS) == result.no_worse("peer") == pytest.approx(2 / 3)
    assert result.best("peer") == pytest.approx(1 / 3)
    assert result.ratio("peer") == 20.0


@pytest.mark.parametrize("kind", ["random", "related", "simulations"])
def test_pairs_depend_on_their_seed_alone(kind):
    one, again, other = (make_pairs(kind, 3, 2, seed) for seed in (5, 5, 6))
    assert len(one) == 2
    for first, second, different in zip(one, again, other, strict=True):
        assert all(block.shape == (3, 3) for block in first)
        assert all(map(np.array_equal, first, second))
        assert not np.allclose(first.A1, different.A1)


def test_clips_of_tables_are_not_those_of_tuning(tmp_path, monkeypatch):
    make_clips(tmp_path, 1, 16, 24, 32, textures=["fire", "rain", "smoke", "waves"])
    read = []
    original = pairs._stream
    monkeypatch.setattr(pairs, "_stream", lambda path: read.append(path) or original(path))
    assert len(make_pairs("clips", 2, 3, PUBLISHED - 1, tmp_path)) == 1  # two of four classes
    tuning, read[:] = set(read), []
    assert len(make_pairs("clips", 2, 3, PUBLISHED, tmp_path)) == 1
    assert len(tuning) == len(read) == 2
    assert not tuning & set(read)
    assert not make_pairs("clips", 2, 1, 0)


def test_delays_keep_the_order_of_time():
    stream = np.arange(10.0).reshape(5, 2)
    assert delayed(stream, 3)[1].tolist() == [2, 3, 4, 5, 6, 7]
    assert delayed(stream, 1).tolist() == stream.tolist()


@pytest.mark.parametrize("simulation", SIMULATIONS)
def test_simulations_stay_bounded(simulation):
    rows = simulation(np.random.default_rng(3))
    assert rows.shape == simulation(np.random.default_rng(4)).shape
    assert np.abs(rows).max() < 10.0
    assert rows.std(axis=0).min() > 0.0


def test_the_ring_keeps_a_bump():
    """Active units have similar angles, at all times; of independent units the mean direction is near 0."""
    rows = ring_attractor(np.random.default_rng(0))
    units = rows.shape[1]
    angles = np.random.default_rng(0).permutation(units) * (2 * np.pi / units)
    direction = np.abs(rows @ np.exp(1j * angles)) / np.abs(rows).sum(axis=1)
    assert direction.min() > 0.4


def test_the_line_attractor_integrates():
    """Along one direction noise adds up, so that the variance is far above that of other directions."""
    rows = line_attractor(np.random.default_rng(2))
    direction = np.random.default_rng(2).standard_normal(rows.shape[1])
    along = rows @ direction / np.linalg.norm(direction)
    assert along.var() > 3.0 * rows.var(axis=0).mean()


def test_lorenz_has_few_dimensions():
    rows = lorenz(np.random.default_rng(0))
    variances = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False) ** 2
    assert variances[:3].sum() > 0.9 * variances.sum()


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_find_a_rotation_near_the_identity(name):
    """The optimum is 0; a transposed rotation would not come near it. Fixed numbers of steps stop early."""
    need(*SOLVERS[name].modules)
    pair = rotated_copy(0.3)
    begin = squared_distance(pair, np.eye(4), 1.0)
    found = squared_distance(pair, SOLVERS[name].solve(pair, 1.0, 0), 1.0)
    exact = name.startswith((OURS, "pymanopt"))
    assert found < (1e-9 if exact else 0.1) * begin


def test_wasserstein_is_the_distance_of_normal_matrices():
    need("DSA", "torch")
    rng = np.random.default_rng(0)
    first, second = (B + B.T for B in rng.standard_normal((2, 4, 4)))
    optimum = squared_distance(
        Pair(first, second, np.zeros((4, 4))),
        sysbags.align_blocks(first, second, lambda_a=1.0).rotation,
        1.0,
    )
    assert 4 * wasserstein(first, second) == pytest.approx(optimum, rel=1e-4)  # it computes in float32


def test_sgot_separates_different_transitions():
    need("ot.sgot")
    pair = make_pairs("random", 4, 1, 0)[0]
    assert sgot(pair.A1, pair.A1) == pytest.approx(0.0, abs=1e-3)  # the root of rounding errors
    assert sgot(pair.A1, pair.A2) > 0.1


@pytest.mark.parametrize("observers", [True, False])
def test_rows_have_every_method(observers):
    need("pymanopt")
    results = []
    lines = columns(
        solver_rows(
            [3], ["random", "clips"], 2, [0], None, methods=["pymanopt"], observers=observers, results=results
        )
    )
    assert {len(line) for line in lines} == {9}
    assert [line[2] for line in lines[2:]] == [OURS, *(name for name in SOLVERS if "pymanopt" in name)]
    (document,) = json.loads(json.dumps(results))
    assert document["observers"] == observers
    assert all(len(values) == 2 for values in document["excess"].values())
    assert min(map(min, document["excess"].values())) == 0.0
    assert all(seconds > 0 for values in document["seconds"].values() for seconds in values)


def test_rows_of_other_distances():
    need("ot.sgot")
    lines = columns(other_rows([3], ["related"], 1, [0], None))
    assert {len(line) for line in lines} == {6}
    assert any(line[2] == "POT, ot.sgot" for line in lines)


def test_missed_optima_are_counted(monkeypatch):
    """A default search that returns the identity misses every optimum."""
    monkeypatch.setattr(comparison, "MISSED_SYSTEMS", 3)
    found = columns(comparison.missed_rows([2], ["simulations", "random"], [0], None))[2:]
    assert [line[:4] for line in found] == [
        ["2", "simulations", "yes", "3"],
        ["2", "simulations", "no", "3"],
    ]
    assert [line[4] for line in found] == ["0.00%"] * 2
    lazy = SOLVERS[OURS]._replace(solve=lambda pair, lambda_a, seed: np.eye(len(pair.A1)))
    monkeypatch.setitem(comparison.SOLVERS, OURS, lazy)
    lines = columns(comparison.missed_rows([2], ["simulations"], [0], None))[2:]
    assert all(line[4] == "100.00%" for line in lines)
    assert {len(line) for line in lines} == {7}


def test_rows_of_certificates():
    lines = columns(comparison.certificate_rows([3], ["random", "related", "clips"], 2, [0], None))
    assert {len(line) for line in lines} == {10}
    assert [line[1:3] for line in lines[2:]] == [
        [f"{kind} (2)", observers] for kind in ("random", "related") for observers in ("yes", "no")
    ]
    for line in lines[2:]:
        fast, fast_least, tight, tight_least = map(float, line[3:7])
        assert 0.0 <= fast_least <= fast <= tight <= 1.0
        assert fast_least <= tight_least <= tight
        assert 0.0 < float(line[8]) <= float(line[9])
    # A related pair of this order is proven, with and without observers.
    assert [line[7] for line in lines[4:]] == ["100%", "100%"]


def test_the_program_says_what_is_left_out(monkeypatch, capsys, tmp_path):
    need("pymanopt")
    monkeypatch.setattr(program, "missing", lambda modules: [m for m in modules if m == "fastDSA"])
    page, file = tmp_path / "page.md", tmp_path / "results.json"
    page.write_text("<!-- python -m benchmarks.dsa --rows observers -->\n<!-- end -->\n")
    options = ["--rows=observers", "--orders=2", "--seeds=0:1", "--methods=pymanopt"]
    monkeypatch.setattr(
        sys, "argv", ["dsa", *options, "--kinds=random,clips", f"--page={page}", f"--json={file}"]
    )
    program.main()
    printed = capsys.readouterr().out
    assert printed.count("because fastDSA cannot be imported") == 3
    assert "left out: pairs of clips" in printed
    assert "| 2 | random (1) | sysbags |" in page.read_text()
    assert [row["order"] for row in json.loads(file.read_text())] == [2]


@pytest.mark.parametrize("option", ["--rows", "--kinds", "--methods"])
def test_the_program_refuses_unknown_words(monkeypatch, capsys, option):
    monkeypatch.setattr(sys, "argv", ["dsa", f"{option}=nonsense"])
    with pytest.raises(SystemExit):
        program.main()
    assert f"{option} has nonsense, but it must be some of" in capsys.readouterr().err
