"""`sysbags fit` on a folder of class folders: frames a second, and where the time goes.

`python -m benchmarks.fit FOLDER [options of sysbags fit]`
"""

from __future__ import annotations

import io
import json
import shlex
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks.machine import facts
from sysbags.cli import main as sysbags_main
from sysbags.storage import describe


def main(arguments: list[str]) -> int:
    """Print the times as Markdown."""
    folder, options = arguments[0], arguments[1:]
    with tempfile.TemporaryDirectory() as scratch:
        # First a small job, so that compilation is not timed.
        small = [*options, "--max-frames", "12", "--json"]
        with redirect_stdout(io.StringIO()):
            code = sysbags_main(["fit", folder, "--out", f"{scratch}/small", *small])
        buffer = io.StringIO()
        with redirect_stdout(buffer):
            code = code or sysbags_main(["fit", folder, "--out", f"{scratch}/model", *options, "--json"])
        if code:
            return code
        output = json.loads(buffer.getvalue())
        # The exact mean of a class rests on every frame of it.
        arrays = describe(f"{scratch}/model")["arrays"]
        frames = sum(array["shape"][0] for name, array in arrays.items() if name.endswith("/samples"))
    total = sum(output["seconds"].values())
    command = shlex.join(["python", "-m", "benchmarks.fit", Path(folder).name, *options])
    print("\n".join(facts(command, ("numpy", "numba", "av"))))
    print(f"\n{output['clips']} clips, {frames:,} frames in {total:.1f} s: {frames / total:,.0f} a second\n")
    print("| stage | seconds | share | frames a second |\n| --- | ---: | ---: | ---: |")
    for name, seconds in output["seconds"].items():
        print(f"| {name} | {seconds:.1f} | {seconds / total:.0%} | {frames / max(seconds, 1e-9):,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
