"""
Recurrent networks that have learnt to oscillate
================================================

Which of them have learnt the same frequency?

Networks of different sizes, with two nonlinearities and different seeds, learn to generate a wave after a
cue. Tasks differ in the period of the wave. Networks with one task have different units and weights. Do they
have the same dynamics? Maheswaranathan, Williams, Golub, Ganguli and Sussillo ask this of larger networks
("Universality and individuality in neural dynamics across large populations of recurrent networks", NeurIPS
2019).

The hidden states are compared by dynamical similarity analysis (DSA), and by their geometry: Procrustes
analysis, which needs rows with the same meaning in all recordings.

``python examples/recurrent_networks.py recurrent_networks.png`` writes the picture to a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from attractors import draw, dsa_distances, procrustes_distances  # examples/attractors.py
from matplotlib.colors import LogNorm
from two_dynamics import right  # examples/two_dynamics.py

from sysbags.dsa import DSA, fit_dmd
from sysbags.statistics import compare_distances, pairwise_group_tests, silhouette_values

Array = npt.NDArray[np.float64]

PERIODS = (6, 9, 13)
SIZES = (16, 24, 32)
STEPS, BATCH, NOISE, GAIN = 36, 4, 0.05, 0.8
SEED = 1000  # seeds below this were used to choose the settings

# %%
# A network
# ---------
# The state is ``h_t = f(W h_{t-1} + b + noise)``, with the cue c added in the first step; the output is
# ``o' h_t``. The function f is tanh, or tanh of the positive part, whose states are rates.


@dataclass
class Network:
    """A recurrent network and its nonlinearity."""

    parameters: list[Array]
    """W, c, b and o."""
    rectified: bool

    @classmethod
    def random(cls, units: int, rectified: bool, gain: float, rng: np.random.Generator) -> Network:
        """Return an untrained network."""
        weights = gain * rng.standard_normal((units, units)) / np.sqrt(units)
        cue, output = rng.standard_normal(units), rng.standard_normal(units) / np.sqrt(units)
        return cls([weights, cue, np.full(units, 0.1 * rectified), output], rectified)

    def run(self, steps: int, trials: int, rng: np.random.Generator) -> Array:
        """Return hidden states, (steps, trials, units)."""
        weights, cue, bias, _ = self.parameters
        states = np.zeros((steps, trials, len(bias)))
        for t in range(steps):
            drive = bias + NOISE * rng.standard_normal(states[t].shape)
            drive += states[t - 1] @ weights.T if t else cue
            states[t] = np.tanh(np.maximum(drive, 0.0) if self.rectified else drive)
        return states

    def gradients(self, states: Array, target: Array) -> list[Array]:
        """Return the gradients of half the mean squared error, by backpropagation through time."""
        weights, _, _, output = self.parameters
        errors = (states @ output - target[:, None]) / states[..., 0].size
        slopes = 1.0 - states**2
        if self.rectified:
            slopes *= states > 0.0
        deltas, later = np.empty_like(states), np.zeros_like(states[0])
        for t in reversed(range(len(states))):
            deltas[t] = (later + errors[t, :, None] * output) * slopes[t]
            later = deltas[t] @ weights
        return [
            np.einsum("tki,tkj->ij", deltas[1:], states[:-1]),
            deltas[0].sum(axis=0),
            deltas.sum(axis=(0, 1)),
            np.einsum("tki,tk->i", states, errors),
        ]


# %%
# Training
# --------
# Adam with a falling learning rate, on a few steps of the wave. The gain is the size of the weights before
# training. Try ``--gain 1.2``: some networks then keep an oscillation of their own, which their output does
# not use. DSA sees it, because it compares all of the dynamics.


def train(
    period: int, units: int, rectified: bool, rng: np.random.Generator, iterations: int, gain: float
) -> Network:
    network = Network.random(units, rectified, gain, rng)
    target = wave(period, STEPS)
    first = [np.zeros_like(p) for p in network.parameters]
    second = [np.zeros_like(p) for p in network.parameters]
    for k in range(1, iterations + 1):
        gradients = network.gradients(network.run(STEPS, BATCH, rng), target)
        size = np.sqrt(sum(np.sum(g**2) for g in gradients))
        rate = 0.01 * (1.0 - 0.95 * k / iterations)
        for p, g, m, v in zip(network.parameters, gradients, first, second, strict=True):
            g *= min(1.0, 0.5 / size)
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            p -= rate * (m / (1.0 - 0.9**k)) / (np.sqrt(v / (1.0 - 0.999**k)) + 1e-8)
    return network


def wave(period: int, steps: int) -> Array:
    return np.asarray(np.cos(2.0 * np.pi / period * np.arange(steps)))


# %%
# The recordings
# --------------
# Two for each network: trials that start with the cue, and trials that are cut out of a longer run at random
# times. In the first, row t means the same for all networks. In the second, trials start at any phase.


@dataclass
class Recordings:
    """The hidden states of all networks."""

    labels: npt.NDArray[np.str_]
    fits: Array
    """Share of the wave's variance that the output explains, one per network."""
    cued: list[Array]
    free: list[Array]


def make_recordings(per_task: int, iterations: int = 300, gain: float = GAIN, seed: int = SEED) -> Recordings:
    labels, fits, cued, free = [], [], [], []
    for period in PERIODS:
        for k in range(per_task):
            rng = np.random.default_rng([seed, period, k])
            network = train(period, SIZES[k // 2 % len(SIZES)], bool(k % 2), rng, iterations, gain)
            states = network.run(120, 40, rng)
            error = states[:STEPS] @ network.parameters[3] - wave(period, STEPS)[:, None]
            labels.append(f"period {period}")
            fits.append(1.0 - np.mean(error**2) / np.mean(wave(period, STEPS) ** 2))
            starts = rng.integers(20, 120 - 25, size=40)
            cued.append(centred(states[:25].transpose(1, 0, 2)))
            free.append(centred(np.stack([states[s : s + 25, i] for i, s in enumerate(starts)])))
    return Recordings(np.array(labels), np.array(fits), cued, free)


def centred(trials: Array) -> Array:
    """Subtract the mean: rates have one, which would count as a part of the dynamics."""
    return np.asarray(trials - trials.mean(axis=(0, 1)))


# %%
# The comparisons
# ---------------
# An oscillation needs two dimensions, so the rank is 2. An array (trials, time, units) is one system: steps
# from one trial to the next are never part of a fit.


def distances(recordings: Sequence[Array]) -> dict[str, Array]:
    """Return squared distances by name."""
    rows = [trials.reshape(-1, trials.shape[2]) for trials in recordings]
    return {
        "DSA, angular": dsa_distances(recordings, rank=2)[0],
        "DSA, Wasserstein": DSA(recordings, rank=2, score_method="wasserstein").fit_score(),
        "DSA, angular, automatic rank": dsa_distances(recordings, rank="auto")[0],
        "Procrustes": procrustes_distances(rows),
    }


# %%
# The picture
# -----------
# One network has an oscillation of its own, and is farther from all others than they are from each other. A
# map of the distances would show little else. So the maps show the ranks of the distances (1 for the nearest
# pair), and the colours of the matrix have a logarithmic scale.


def ranks(squared: Array) -> Array:
    """Return the ranks of the distances between all pairs."""
    pairs = np.triu_indices(len(squared), 1)
    ranked = np.zeros_like(squared)
    ranked[pairs] = 1.0 + squared[pairs].argsort().argsort()
    return ranked + ranked.T


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="DSA of trained recurrent networks.")
    parser.add_argument("picture", nargs="?", default="recurrent_networks.png")
    parser.add_argument("--per-task", type=int, default=6, help="networks for each period")
    parser.add_argument("--iterations", type=int, default=300, help="steps of the training")
    parser.add_argument("--gain", type=float, default=GAIN, help="size of the weights before training")
    options = parser.parse_args(argv)
    recordings = make_recordings(options.per_task, options.iterations, options.gain)
    labels = recordings.labels
    print(f"{len(labels)} networks explain at least {100.0 * recordings.fits.min():.1f} % of their wave")
    angles = [np.abs(np.angle(fit_dmd(trials, rank=2).eigenvalues[0])) for trials in recordings.free]
    found_periods = ", ".join("none" if angle == 0.0 else f"{2.0 * np.pi / angle:.1f}" for angle in angles)
    print(f"periods of the two leading directions: {found_periods}")
    for kind, trials in (("cued", recordings.cued), ("free", recordings.free)):
        found = distances(trials)
        print(f"{kind} trials, nearest neighbour with the same task:")
        for name, squared in found.items():
            average = silhouette_values(squared, labels).mean()
            print(f"  {name}: {right(squared, labels)} of {len(labels)}, average silhouette {average:.2f}")
    tests = pairwise_group_tests(found["DSA, angular"], labels)
    resolutions = ", ".join(f"{test.resolution:.2g}" for test in tests.tests)
    print(f"free trials, DSA: {tests.summary()} Resolutions before the adjustment: {resolutions}.")
    test = compare_distances(found["DSA, angular"], found["Procrustes"], labels)
    print(f"free trials, DSA and Procrustes: {test.summary()}")
    maps = {
        f"Map by {name}, ranks": np.square(ranks(squared))
        for name, squared in (("DSA", found["DSA, angular"]), ("Procrustes", found["Procrustes"]))
    }
    draw(np.sqrt(found["DSA, angular"]), maps, labels, options.picture, norm=LogNorm(clip=True))


if __name__ == "__main__":
    main()
