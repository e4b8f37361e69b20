"""The everyday commands import nothing that is for experiments."""

from __future__ import annotations

import subprocess
import sys

from sklearn.pipeline import Pipeline

from cli_folder import call, make_classes
from clips import moving_frames
from sysbags import save
from sysbags.bags import LocalBinaryPatterns
from sysbags.storage import save_values
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


# Each names a path that does not exist, or is of another kind.
WRONG_PATHS = """
fit none --out new
evaluate none
classify none {clip}
classify {model} none
distance none {clip}
matrix none --out new
mean {clip} none --out new
inspect none
synthesize none --out new.mp4
timeline none
watch none
watch {clip} --normal none
reproduce yupenn none
library list none
library add new none
library search {model} none
export none --to csv --out new.csv
demo --out {clip}
classify {normal}
classify {normal} {clip}
fit {clip} --out none/new
library add none/new {clip}
"""
REFUSED = """
import sys
from sysbags.cli import main
slow = {"cv2", "numba", "scipy", "sklearn", "sysbags.storage"}
for words in sys.argv[1:]:
    assert main(words.split()) == 2, words
    assert not slow & set(sys.modules), words
"""


def test_a_wrong_path_is_told_before_slow_imports(tmp_path):
    clip, model, normal = (tmp_path / name for name in ("clip.mp4", "some.model", "camera.normal"))
    write_video(clip, moving_frames(8, 48, 64), 8)
    save(model, Pipeline([("bags", LocalBinaryPatterns())]))
    save_values(normal, "Normal", {"rate": 25.0})
    commands = [
        words.format(clip=clip, model=model, normal=normal) for words in WRONG_PATHS.strip().splitlines()
    ]
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, *commands], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == len(commands)
    assert {path.name for path in tmp_path.iterdir()} == {"clip.mp4", "some.model", "camera.normal"}


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
