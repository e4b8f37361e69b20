"""Small generators that several test files share."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np

from sysbags.classifiers.scores.neighbors import majority_vote
from sysbags.datasets import make_streams
from sysbags.distances import METRICS
from sysbags.distances.pairwise import pairwise_distances
from sysbags.systems.identification import identify

NOISE = 0.3


def in_form_of(metric, systems):
    """The systems, called unit-variance where the metric asks for it: what is tested is how they are used."""
    form = METRICS[metric].normal_form or "orthonormal"
    return [replace(system, normal_form=form) for system in systems]


def compile_metrics():
    """Compile and cache what computes systems and their distances."""
    systems = [identify(stream, order=2) for stream in make_streams(2, 1, frames=12, bins=8)[0]]
    for metric in METRICS:
        pairwise_distances(in_form_of(metric, systems), metric=metric, lambda_mu=1.0)


def gram_in_form_of(metric, gram):
    """The CrossGram of systems that are called unit-variance where the metric asks for it."""
    form = METRICS[metric].normal_form or "orthonormal"
    rows = replace(gram.rows, normal_form=form)
    return replace(
        gram, rows=rows, columns=rows if gram.symmetric else replace(gram.columns, normal_form=form)
    )


def from_python(function):
    """A kernel that is compiled for other kernels alone, made callable from Python."""

    @numba.njit(error_model="numpy")
    def call(*arguments):
        return function(*arguments)

    return call


def orthogonal(n, rng, determinant=None):
    """A Haar-random orthogonal matrix, of the determinant asked for."""
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    Q = Q * np.where(np.diag(R) < 0, -1.0, 1.0)
    if determinant is not None and np.linalg.det(Q) * determinant < 0:
        Q[:, 0] *= -1.0
    return Q


def polar(matrix):
    """The nearest matrix with orthonormal columns."""
    U, _, Vt = np.linalg.svd(matrix, full_matrices=False)
    return U @ Vt


def rho(A1, A2, M, Q, lambda_a=0.25):
    """The definition: ``lambda_a tr(A1' Q' A2 Q) + tr(M Q)``."""
    return lambda_a * np.trace(A1.T @ Q.T @ A2 @ Q) + np.trace(M @ Q)


def make_pair(kind, n, rng):
    """Transitions of norm 0.999 and ``C1' C2``; "related" is a system and its noisy rotated copy."""
    A1, C1 = _stable(rng.standard_normal((n, n))), polar(rng.standard_normal((3 * n, n)))
    if kind == "random":
        A2, C2 = _stable(rng.standard_normal((n, n))), polar(rng.standard_normal((3 * n, n)))
    else:
        Q = orthogonal(n, rng)
        A2 = _stable(Q @ _noisy(A1, rng) @ Q.T)
        C2 = polar(_noisy(C1, rng)) @ Q.T
    return A1, A2, C1.T @ C2


def _stable(matrix):
    return matrix * (0.999 / np.linalg.norm(matrix, 2))


def _noisy(matrix, rng):
    noise = rng.standard_normal(matrix.shape)
    return matrix + noise * (NOISE * np.linalg.norm(matrix) / np.linalg.norm(noise))


def make_stream(rng, frames=24, bins=8):
    """Histograms that swing between random bags, with noise."""
    corners = rng.dirichlet(np.ones(bins), size=3)
    angle = rng.uniform(0.2, 1.5) * np.arange(frames) + rng.uniform(0.0, 6.0)
    shares = np.column_stack([1.0 + np.cos(angle), 1.0 + np.sin(angle), np.ones(frames)]) / 3.0
    stream = shares @ corners + 0.3 * rng.dirichlet(np.ones(bins), size=frames)
    return stream / stream.sum(axis=1, keepdims=True)


def make_system(seed, order=3, **options):
    """The system identified from a small stream of its own seed."""
    return identify(make_stream(np.random.default_rng(seed), **options), order=order)


def plane_rotation(n, p, q, t):
    """The paper's `G_pq`: a rotation by t in the plane of the axes p and q."""
    G = np.eye(n)
    G[p, p] = G[q, q] = np.cos(t)
    G[p, q], G[q, p] = np.sin(t), -np.sin(t)
    return G


def vote(distances, codes, classes, neighbours):
    """The majority vote of the nearest columns, for each row of distances."""
    return majority_vote(codes[np.argsort(distances, axis=1, kind="stable")[:, :neighbours]], classes)
