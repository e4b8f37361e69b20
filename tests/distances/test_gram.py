"""CrossGram against `alpha' k(Y, Y) alpha` with the kernels of the definitions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysbags.distances.gram import SystemStack, Tiling, cross_gram
from sysbags.errors import IncompatibleSystemsError, ParameterError
from sysbags.kernels import KERNELS
from sysbags.systems.system import System

# Columns of alpha have norm 1 and beta sums to 1, so a block adds up a few hundred products that are
# well below 1, each known to 1e-16 or so.
EXACT = 1e-13


def twin_kernel(first, second, kernel):
    a, b = first[:, None], second[None]
    if kernel == "chi2":
        total = a + b
        quotient = np.divide((a - b) ** 2, total, out=np.zeros_like(total), where=total > 0)
        return np.exp(-0.5 * quotient.sum(axis=2))
    if kernel == "bhattacharyya":
        return np.sqrt(a * b).sum(axis=2)
    if kernel == "intersection":
        return np.minimum(a, b).sum(axis=2)
    return first @ second.T if kernel == "linear" else kernel(first, second)


def gaussian(first, second):
    return np.exp(-((first[:, None] - second[None]) ** 2).sum(axis=2))


def make_system(seed, size, order, kernel, length=12, share=0.7):
    rng = np.random.default_rng(seed)
    counts = rng.random((size, length)) * (rng.random((size, length)) < share)
    counts[:, seed % length] += 0.1
    alpha, beta = rng.normal(size=(size, order)), rng.random(size)
    return System(
        rng.normal(size=(order, order)),
        counts / counts.sum(axis=1, keepdims=True),
        alpha / np.linalg.norm(alpha, axis=0),
        beta / beta.sum(),
        kernel,
    )


def make_systems(kernel, shapes, seed=0, **options):
    return [make_system(seed + i, size, order, kernel, **options) for i, (size, order) in enumerate(shapes)]


def check_against_twin(gram, first, second, tolerance=EXACT):
    for i, row in enumerate(first):
        for j, column in enumerate(second):
            matrix = twin_kernel(row.samples, column.samples, row.kernel)
            block = gram.observer[i, j]
            n, m = row.order, column.order
            np.testing.assert_allclose(
                block[:n, :m], row.alpha.T @ matrix @ column.alpha, rtol=0, atol=tolerance
            )
            assert not block[n:].any()
            assert not block[:, m:].any()
            np.testing.assert_allclose(
                gram.mean[i, j], row.beta @ matrix @ column.beta, rtol=0, atol=tolerance
            )
    for side, systems in ((gram.rows, first), (gram.columns, second)):
        np.testing.assert_array_equal(side.orders, [system.order for system in systems])
        for k, system in enumerate(systems):
            n = system.order
            matrix = twin_kernel(system.samples, system.samples, system.kernel)
            np.testing.assert_array_equal(side.transition[k, :n, :n], system.transition)
            observer_gram = side.observer_gram[k]
            np.testing.assert_allclose(
                observer_gram[:n, :n], system.alpha.T @ matrix @ system.alpha, rtol=0, atol=tolerance
            )
            np.testing.assert_allclose(
                side.mean_norm[k], system.beta @ matrix @ system.beta, rtol=0, atol=tolerance
            )
            for padded in (side.transition[k], observer_gram):
                assert not padded[n:].any()
                assert not padded[:, n:].any()


def check_symmetry(gram):
    assert gram.symmetric
    assert gram.columns is gram.rows
    np.testing.assert_array_equal(gram.observer, gram.observer.transpose(1, 0, 3, 2))
    np.testing.assert_array_equal(gram.mean, gram.mean.T)


MIXED = [(20, 3), (7, 1), (33, 5), (16, 2), (1, 1), (40, 4)]
ALL_KERNELS = [*KERNELS, gaussian]


@pytest.mark.parametrize("kernel", ALL_KERNELS)
def test_one_collection_of_mixed_orders_and_lengths(kernel):
    systems = make_systems(kernel, MIXED)
    gram = cross_gram(systems)
    check_against_twin(gram, systems, systems)
    check_symmetry(gram)
    for k in range(len(systems)):
        np.testing.assert_array_equal(gram.observer[k, k], gram.rows.observer_gram[k])


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("shares", [(0.7, 0.7), (1.0, 0.2), (0.2, 1.0)])
def test_two_collections(kernel, shares):
    # Whichever side is sparser gives the lists of bins, so both roles are met here.
    first = make_systems(kernel, MIXED, share=shares[0])
    second = make_systems(kernel, [(5, 2), (25, 6), (18, 1)], seed=50, share=shares[1])
    gram = cross_gram(first, second)
    assert gram.observer.shape == (6, 3, 5, 6)
    assert not gram.symmetric
    check_against_twin(gram, first, second)


@pytest.mark.parametrize("kernel", ["chi2", "intersection"])
def test_streams_across_tiles_of_columns(kernel):
    # Three systems a block: streams strung together cross the borders of tiles, long ones more than once.
    tiling = Tiling(blocks=1)
    systems = make_systems(kernel, [(150, 2), (3, 1), (530, 3), (260, 2)], length=5)
    check_against_twin(cross_gram(systems, tiling=tiling), systems, systems)
    check_against_twin(cross_gram(systems[:1], systems[1:], tiling=tiling), systems[:1], systems[1:])


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize(("most", "entries"), [(2, 1 << 20), (16, 200), (16, 1)])
def test_more_systems_than_a_block_holds(kernel, most, entries):
    systems = make_systems(kernel, [(6, 2), (11, 3), (4, 1), (9, 2), (8, 3)])
    gram = cross_gram(systems, tiling=Tiling(systems=most, entries=entries, blocks=1))
    check_against_twin(gram, systems, systems)
    check_symmetry(gram)


def test_blocks_cover_a_collection_in_order():
    systems = make_systems("linear", [(2 + i % 3, 1) for i in range(37)])
    blocks = list(Tiling(systems=4, entries=100).blocks_of(np.array([s.samples.size for s in systems])))
    assert [i for block in blocks for i in range(block.start, block.stop)] == list(range(37))
    for block in blocks:
        assert block.stop - block.start <= 4
        assert sum(system.samples.size for system in systems[block]) <= 100


@pytest.mark.parametrize("kernel", ALL_KERNELS)
@pytest.mark.parametrize("symmetric", [True, False])
def test_same_bits_for_every_number_of_threads(kernel, symmetric):
    systems = make_systems(kernel, [(8 + i, 1 + i % 3) for i in range(20)])
    others = None if symmetric else systems[::-2]
    single, threaded = (cross_gram(systems, others, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(single.observer, threaded.observer)
    np.testing.assert_array_equal(single.mean, threaded.mean)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4)), min_size=1, max_size=5),
    st.sampled_from(KERNELS),
    st.sampled_from([1, 3, 12]),
    st.floats(0.05, 1.0),
)
@settings(max_examples=40, deadline=None)
def test_any_collection(shapes, kernel, length, share):
    systems = make_systems(kernel, shapes, length=length, share=share)
    gram = cross_gram(systems)
    check_against_twin(gram, systems, systems)
    check_symmetry(gram)


def test_subset_of_one_collection():
    systems = make_systems("chi2", MIXED)
    gram = cross_gram(systems)
    chosen = np.array([4, 0, 3])
    part = gram.subset(chosen)
    check_symmetry(part)
    check_against_twin(part, [systems[i] for i in chosen], [systems[i] for i in chosen])
    block = gram.subset(chosen, [1, 2])
    assert not block.symmetric
    check_against_twin(block, [systems[i] for i in chosen], systems[1:3])
    mask = np.arange(len(systems)) % 2 == 0
    np.testing.assert_array_equal(gram.subset(mask).mean, gram.mean[::2, ::2])


def test_subset_of_two_collections():
    first, second = make_systems("chi2", MIXED), make_systems("chi2", MIXED[:3], seed=30)
    part = cross_gram(first, second).subset([5, 1])
    assert not part.symmetric
    check_against_twin(part, [first[5], first[1]], second)


def test_input_is_not_modified():
    systems = make_systems("chi2", MIXED)
    copies = [(s.samples.copy(), s.alpha.copy(), s.beta.copy()) for s in systems]
    cross_gram(systems)
    for system, arrays in zip(systems, copies, strict=True):
        for now, before in zip((system.samples, system.alpha, system.beta), arrays, strict=True):
            np.testing.assert_array_equal(now, before)


def test_kernel_that_fails_for_a_pair():
    def nonsense(first, second):
        return np.full((len(first), len(second)), np.nan)

    options = {"_observer_gram": np.eye(1), "_mean_norm": 1.0}
    systems = [System([[0.5]], [[1.0, 0.0]], [[1.0]], [1.0], nonsense, **options) for _ in range(2)]
    with pytest.raises(ParameterError, match="nonsense returned nan"):
        cross_gram(systems)


def test_bad_input():
    chi2, linear = make_systems("chi2", MIXED[:2]), make_systems("linear", MIXED[:2])
    longer = make_systems("chi2", MIXED[:1], length=5)
    with pytest.raises(IncompatibleSystemsError, match="kernel"):
        cross_gram(chi2, linear)
    with pytest.raises(IncompatibleSystemsError, match="length"):
        cross_gram(chi2, longer)
    with pytest.raises(ParameterError, match="others is empty"):
        cross_gram(chi2, [])
    with pytest.raises(ParameterError, match="n_jobs"):
        cross_gram(chi2, n_jobs=0)


def test_a_stack_holds_each_system_and_zeros():
    systems = make_systems("chi2", [(9, 2), (7, 4), (8, 1)])
    stack = SystemStack.of(systems)
    assert (stack.orders.tolist(), stack.normal_form) == ([2, 4, 1], "orthonormal")
    for k, system in enumerate(systems):
        n = system.order
        kernel = twin_kernel(system.samples, system.samples, "chi2")
        np.testing.assert_array_equal(stack.transition[k, :n, :n], system.transition)
        np.testing.assert_allclose(
            stack.observer_gram[k, :n, :n], system.alpha.T @ kernel @ system.alpha, rtol=0, atol=EXACT
        )
        assert stack.mean_norm[k] == pytest.approx(system.beta @ kernel @ system.beta, abs=EXACT)
        for padded in (stack.transition[k], stack.observer_gram[k]):
            assert not padded[n:].any()
            assert not padded[:, n:].any()
    rows = cross_gram(systems).rows
    for name in ("orders", "transition", "observer_gram", "mean_norm"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(stack, name), err_msg=name)
    unit = [replace(system, normal_form="unit-variance") for system in systems]
    assert SystemStack.of(unit).normal_form == "unit-variance"
