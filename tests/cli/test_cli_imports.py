"""The everyday commands import nothing that is for experiments."""

from __future__ import annotations

import subprocess
import sys

from cli_folder import call, make_classes
from clips import moving_frames
from sysbags.video import write_video

# Runs commands in one process and prints the modules of the research packages that any of them has imported.
CODE = """
import sys
from sysbags.cli import main
for words in sys.argv[1:]:
    assert main(words.split()) == 0, words
research = ("sysbags.evaluate", "sysbags.comparators", "sysbags.reproduce")
print("imported:", [name for name in sys.modules if name.startswith(research)])
"""


def test_everyday_commands_import_no_experiments(tmp_path, capsys):
    clips, model = make_classes(tmp_path / "clips"), tmp_path / "m.model"
    assert call(capsys, "fit", clips, "--out", model)[0] == 0
    first, second = clips / "waves" / "0.mp4", clips / "flicker" / "0.mp4"
    film = tmp_path / "film.mkv"
    write_video(film, moving_frames(440, 48, 64), 8, lossless=True)
    commands = [
        f"classify {model} {first}",
        f"distance {first} {second}",
        f"mean {first} {second} --out {tmp_path / 'mean.model'}",
        f"watch {film} --learn 42s --length 16 --step 4 --false-alarms 1/10min",
    ]
    done = subprocess.run([sys.executable, "-c", CODE, *commands], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported: []"
