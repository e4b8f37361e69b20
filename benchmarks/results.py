"""The tables of docs/results.md: every method on a folder of class folders, by `sysbags evaluate`.

`python -m benchmarks.results FOLDER [--cache DIR] [--only lbp deep]`
"""

from __future__ import annotations

import argparse
import io
import json
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import facts
from sysbags.cli import main as sysbags_main
from sysbags.report.statistics import mcnemar

RUNS: dict[str, list[str]] = {
    "lbp": ["--compare"],
    "deep": shlex.split(
        "--bag deep --keep-aspect --size 256 --stride 12 --max-frames 21 "
        "--add-bag deep-words --add-bag colour"
    ),
}


def table(document: dict[str, Any]) -> list[str]:
    """All methods of an evaluation, and the settings that were chosen for those of systems."""
    lines = [
        "| method | classifier | accuracy | 95 % interval | McNemar p |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for method in document["methods"]:
        rate, p = method["rate"], method["p_value"]
        p_text = "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
        share = f"{100 * method['share']:.1f} %"
        cells = (
            method["name"],
            method["classifier"],
            f"**{share}**" if method["main"] else share,
            f"{100 * rate['low']:.1f} to {100 * rate['high']:.1f}",
            p_text,
        )
        lines.append(f"| {' | '.join(cells)} |")
    for method in document["methods"]:
        chosen = {name: value for name, value in method["settings"].items() if isinstance(value, dict)}
        if method["kind"] == "systems" and chosen:
            values = (
                f"{name} {', '.join(f'{value} ({count})' for value, count in counts.items())}"
                for name, counts in chosen.items()
            )
            lines += ["", f"Chosen for {method['name']}, {method['classifier']}: {'; '.join(values)}."]
    return lines


def against(document: dict[str, Any], others: list[dict[str, Any]]) -> list[str]:
    """The main method against comparators of an earlier run on the same clips."""
    labels = np.array([clip["label"] for clip in document["clips"]])
    main = next(method for method in document["methods"] if method["main"])
    lines = []
    for other in others:
        if other["name"].startswith("st-TCoF"):
            p = mcnemar(*(np.array(method["predictions"]) == labels for method in (main, other)))
            gain = 100 * (main["share"] - other["share"])
            lines.append(f"* {gain:+.1f} points on {other['name']}, {other['classifier']}: p = {p:.3f}")
    return lines


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.results", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cache", type=Path, default=Path(".sysbags-cache"))
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    arguments = parser.parse_args()
    comparators: list[dict[str, Any]] = []
    for name in arguments.only:
        output = io.StringIO()
        with redirect_stdout(output):
            code = sysbags_main(
                ["evaluate", str(arguments.folder), *RUNS[name], "--cache", str(arguments.cache), "--json"]
            )
        if code:
            raise SystemExit(code)
        document = json.loads(output.getvalue())
        command = shlex.join(["sysbags", "evaluate", arguments.folder.name, *RUNS[name]])
        print(
            f"{len(document['clips'])} clips, {len(document['skipped'])} skipped; {document['protocol']}.\n"
        )
        print("\n".join(facts(command, ("numpy", "numba", "av", "torch"))), end="\n\n")
        print("\n".join(table(document)), end="\n\n")
        print("\n".join(against(document, comparators)), end="\n\n")
        comparators += [method for method in document["methods"] if method["kind"] == "comparator"]
        total = sum(document["seconds"].values())
        print(f"Everything took {total:.0f} s, except for what was read from the cache.\n", flush=True)


if __name__ == "__main__":
    main()
