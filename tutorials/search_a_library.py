"""
Search a library of clips
=========================

You have a folder of clips and a new one. Which clips show something that looks and moves alike? And
which clips do you have twice?

**At the end** you have a library, which is one file with the systems of all clips, the nearest
clips to a new one with exact distances, and a list of duplicates.

**You need** sysbags with the extra ``plot`` (:doc:`/installation`). To try the commands, too, set
``folder`` to a folder of your own, and open a terminal there.
"""

# %%
# The clips
# ---------
# 30 generated clips of five kinds, one folder per kind. Then three more files: a copy of a clip under
# another name, and a film that is there twice, once without its first three frames.

import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from sysbags.datasets import make_clips, make_frames
from sysbags.library import Library
from sysbags.video import frames, write_video

folder = Path(tempfile.mkdtemp())  # or a folder of your own, to keep the files
clips = folder / "clips"
shape = {"frames": 40, "height": 60, "width": 80}
make_clips(
    clips,
    per_class=6,
    textures=["fire", "rain", "traffic", "waves", "wheel"],
    **shape,
)

shutil.copy(clips / "fire" / "02.mp4", clips / "fire" / "copy.mp4")
film = make_frames("waves", **shape, random_state=5)
write_video(clips / "waves" / "whole.mp4", film, rate=25, lossless=True)
write_video(clips / "waves" / "trimmed.mp4", film[3:], rate=25, lossless=True)

# %%
# Add clips
# ---------
# The first ``add`` makes the file. Folders are searched, and the folder that a clip is in becomes its
# label.

library = Library(folder / "scenes.library")
added = library.add([clips])
print(added.added, "clips added,", len(added.failures), "could not be read")
again = library.add([clips])
print(again.added, "added,", again.unchanged, "unchanged")

# %%
# The second line is the point of a library: only clips that are new or have changed are read again.
# So add a folder as often as you like. If ``add`` is interrupted, add again, and it continues.
#
# In a terminal, in the folder that holds ``clips`` (here ``/data``), with a library of its own:
#
# .. code-block:: console
#
#     $ sysbags library add shell.library clips
#     33 added, 0 updated, 0 unchanged, 0 skipped; 33 clips in shell.library
#
# Search
# ------
# A new clip of a fire, which is not in the library:

(query,), _ = make_clips(
    folder / "new", per_class=1, textures=["fire"], random_state=1, **shape
)
found = library.search(query, k=4)
for clip, distance, bound in zip(
    found.clips,
    found.neighbours.distances,
    found.neighbours.lower_bounds,
    strict=True,
):
    print(f"{clip.label}/{clip.path.name}: {distance:.2f}, at least {bound:.2f}")

# %%
# The first number is the squared alignment distance between the new clip and the one that was found.
# It is 0 for a clip and itself, and about 9.4 for two clips of this library, by the median. So the
# nearest clips are nearer than others, but far from being the same. The distance is the result of a
# search for the best rotation, and the second number is what no rotation can go below. If the clip that
# you search for is in the library, it is not compared with itself.
#
# .. code-block:: console
#
#     $ sysbags library search shell.library new/fire/00.mp4 -k 4
#      rank  path                     label  squared distance  lower bound
#         1  /data/clips/fire/03.mp4  fire              7.877        7.758
#         2  /data/clips/fire/01.mp4  fire              7.992        7.872
#         3  /data/clips/fire/05.mp4  fire               8.22         8.01
#         4  /data/clips/fire/04.mp4  fire              8.313        8.181
#     8 kernel blocks and 40 alignments computed
#
# The last line is the work that it took. A search looks at all clips in an embedding first, which is
# approximate and fast, and computes exact distances for the best of them only: for 8 of 33. How can
# you be sure that it has missed none?

print(found.neighbours.blocks, "of", len(library), "clips were compared exactly")
exact = library.search(query, k=4, exact=True)
print(
    "provably the nearest:",
    [clip.path.name for clip in exact.clips],
    exact.neighbours.blocks,
    "compared",
)

# %%
# With ``exact=True`` the search goes on until lower bounds exclude all other clips. The answer is the
# same here. In so small a library it had to compare with all clips; :doc:`/scale` has the numbers for
# 10,000.
#
# Duplicates
# ----------

duplicates = library.duplicates()
for group in duplicates.equal:
    print(
        "the same content:",
        ", ".join(f"{path.parent.name}/{path.name}" for path in group),
    )
for first, second, distance in duplicates.near:
    print(f"nearly the same: {first.name} and {second.name}, {distance:.2f}")
print(f"largest squared distance of such a pair: {duplicates.below:.2f}")

# %%
# Files with the same bytes are found by their checksums, whatever their names are. Pairs with a small
# distance follow: the film without its first frames is one. "Small" is 5 % of the typical distance
# between two clips, the number in the last line; ``below=`` sets another limit. A clip that was
# encoded again with a low quality has lost what the bags are made of, and may be beyond this limit.
#
# .. code-block:: console
#
#     $ sysbags library duplicates shell.library
#     equal content: /data/clips/fire/02.mp4, /data/clips/fire/copy.mp4
#      clip                           other clip                   squared distance
#      /data/clips/waves/trimmed.mp4  /data/clips/waves/whole.mp4            0.2308
#     groups of equal content: 1; pairs with a squared distance of at most 0.4697: 1
#
# A picture
# ---------
# The new clip and the four nearest ones, each by a frame from its middle.

figure, axes = plt.subplots(1, 5, figsize=(11, 2.4), layout="constrained")
titles = ["new clip"] + [
    f"{clip.label}/{clip.path.name}\n{distance:.2f}"
    for clip, distance in zip(
        found.clips, found.neighbours.distances, strict=True
    )
]
for axis, path, title in zip(
    axes, [query, *(clip.path for clip in found.clips)], titles, strict=True
):
    axis.imshow(next(frames(path, colour="rgb", start=20)))
    axis.set_title(title)
    axis.set_xticks([])
    axis.set_yticks([])
for side in axes[0].spines.values():
    side.set(color="#D55E00", linewidth=3)
library.close()
plt.show()

# %%
# What next
# ---------
# * :doc:`/scale` says how a search works, what it costs, and what to use for more clips.
# * :doc:`/cluster` computes the systems of many clips on several machines.
# * :doc:`classify_clips` predicts classes, with probabilities, instead of listing neighbours.
