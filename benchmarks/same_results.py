"""Do two versions of the source give the same results on generated clips?

`python -m benchmarks.same_results --base REVISION` checks the revision out into a temporary folder, makes
clips once, runs `fit`, `classify`, `evaluate` and `reproduce` with both versions of the source, and prints
every difference in predictions, accuracies and chosen settings. Names that were renamed on the way are
translated by `RENAMED`. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sysbags.datasets import make_clips
from sysbags.datasets.layouts import LAYOUTS

ROOT = Path(__file__).parents[1]
RENAMED = {
    "kernel ridge": "kernel-ridge",
    "nearest mean": "nearest-mean",
    "1-NN": "nearest-system",
}
RUNS = {
    "evaluate --compare": ["evaluate", "CLIPS", "--compare", "--report", "REPORT"],
    "evaluate --compare, folds": ["evaluate", "CLIPS", "--compare", "--protocol", "folds", "--folds", "4"],
    "evaluate --tune": ["evaluate", "CLIPS", "--tune", "--max-frames", "30"],
    "evaluate, two bags": ["evaluate", "CLIPS", "--bags", "lbp,colour"],
    "evaluate, visual words": ["evaluate", "CLIPS", "--bag", "sift", "--words", "40"],
    "fit": ["fit", "CLIPS", "--out", "MODEL"],
    "classify": ["classify", "MODEL", "NEW"],
    "fit, nearest system": ["fit", "CLIPS", "--out", "MODEL", "--classifier", "nearest-system"],
    "classify, nearest system": ["classify", "MODEL", "NEW"],
    "reproduce dyntex-alpha": ["reproduce", "dyntex-alpha", "ALPHA", "--allow-incomplete"],
    "reproduce yupenn": ["reproduce", "yupenn", "YUPENN", "--allow-incomplete", "--words", "30"],
}


def make_inputs(folder: Path) -> dict[str, list[str]]:
    """Write the clips of all runs; the values replace the capital words in `RUNS`."""
    textures = ["fire", "rain", "wheel", "lights"]
    paths, _ = make_clips(folder / "clips", 6, 40, 60, 80, random_state=5, textures=textures, n_jobs=-1)
    rows = [f"{p.parent.name}/{p.name},{p.parent.name}-{int(p.stem) // 2}" for p in paths]
    (folder / "clips" / "index.csv").write_text("\n".join(["clip,source", *rows]) + "\n")
    new, _ = make_clips(folder / "new", 1, 40, 60, 80, random_state=6, textures=textures, n_jobs=-1)
    for name, per_class in (("dyntex-alpha", 5), ("yupenn", 3)):
        make_clips(folder / name, per_class, 30, 48, 64, random_state=7, textures=textures, n_jobs=-1)
        for texture, label in zip(textures, LAYOUTS[name].counts, strict=False):
            (folder / name / texture).rename(folder / name / label)
    return {
        "CLIPS": [str(folder / "clips")],
        "NEW": [str(path) for path in new],
        "ALPHA": [str(folder / "dyntex-alpha")],
        "YUPENN": [str(folder / "yupenn")],
    }


def results(source: Path, inputs: dict[str, list[str]], work: Path) -> dict[str, Any]:
    """Run every command with one version of the source; return what it decided."""
    work.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    words = {**inputs, "MODEL": [str(work / "model")], "REPORT": [str(work / "report.html")]}
    decisions = {}
    for name, arguments in RUNS.items():
        print(f"{source.name}: {name}", file=sys.stderr, flush=True)
        listed = [text for argument in arguments for text in words.get(argument, [argument])]
        if arguments[0] in ("evaluate", "reproduce"):
            listed += ["--cache", str(work / "cache")]
        done = subprocess.run(
            [sys.executable, "-m", "sysbags", *listed, "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{source.name}: {name} ended with {done.returncode}: {done.stderr}")
        decisions[name] = decided(json.loads(done.stdout))
    return decisions


def decided(document: dict[str, Any]) -> dict[str, Any]:
    """Keep what a run decided: predictions, counts of right clips and settings; distances to nine digits."""
    if "methods" in document:
        return {
            "confusion": document.get("confusion"),
            **({"curves": document["curves"]} if "curves" in document else {}),
            "grid": document.get("grid") or document.get("details", {}).get("grid"),
            "methods": [
                {
                    "method": method["name"],
                    "classifier": method["classifier"],
                    "predictions": method["predictions"],
                    "right": method["rate"],
                    "p": method["p_value"],
                    "settings": method["settings"],
                }
                for method in document["methods"]
            ],
        }
    if "clips" in document and isinstance(document["clips"], list):
        clips = [{k.removeprefix("squared_"): v for k, v in clip.items()} for clip in document["clips"]]
        return {"labels": [clip["label"] for clip in clips], "distances": clips}
    return {
        name: document[name] for name in ("lambda_a", "lambda_mu", "accuracy", "right") if name in document
    }


def differences(first: Any, second: Any, where: str) -> list[str]:
    """Name every place in which two results differ, but for names that were renamed and round-off."""
    if isinstance(first, dict) and isinstance(second, dict):
        # Curves are drawn only for a report.
        places = [place for place in dict.fromkeys([*first, *second]) if place != "curves" or place in second]
        return [
            text
            for place in places
            for text in differences(first.get(place), second.get(place), f"{where}, {place}")
        ]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [
            text
            for k, pair in enumerate(zip(first, second, strict=True))
            for text in differences(*pair, f"{where}, {k}")
        ]
    if isinstance(first, float) and isinstance(second, float):
        # Sums run in another order; distances are of order 1.
        return (
            [] if abs(first - second) <= 1e-9 * max(1.0, abs(first)) else [f"{where}: {first} and {second}"]
        )
    if isinstance(first, str) and isinstance(second, str):
        first, second = (_translated(text) for text in (first, second))
    return [] if first == second else [f"{where}: {first!r} and {second!r}"]


def _translated(text: str) -> str:
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", required=True, help="a git revision")
    parser.add_argument("--keep", type=Path, help="folder for the results of the base, to be used again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) if options.keep is None else options.keep
        folder.mkdir(exist_ok=True)
        known = folder / "base.json"
        if not known.exists():
            inputs = make_inputs(folder / "inputs")
            (folder / "inputs.json").write_text(json.dumps(inputs))
            tree = folder / "source"
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run(
                [*git, "add", "--detach", str(tree), options.base], check=True, capture_output=True
            )
            try:
                known.write_text(json.dumps(results(tree, inputs, folder / "base")))
            finally:
                subprocess.run([*git, "remove", "--force", str(tree)], check=True, capture_output=True)
        inputs = json.loads((folder / "inputs.json").read_text())
        with tempfile.TemporaryDirectory() as work:
            ours = results(ROOT, inputs, Path(work) / "ours")
        (folder / "ours.json").write_text(json.dumps(ours))
        differing = differences(json.loads(known.read_text()), ours, "")
    for text in differing:
        print(text.lstrip(", "))
    print(f"{len(differing)} differences in {len(RUNS)} runs against {options.base}")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
