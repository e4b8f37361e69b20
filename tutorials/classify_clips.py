"""
Classify clips: from a folder to a saved model
==============================================

You have short videos of a few classes, and want to know the class of new ones.

**At the end** you have a model file that classifies clips with probabilities, an honest estimate of
its accuracy, and a report that shows where it is wrong.

**You need** sysbags with the extra ``plot`` (:doc:`/installation`), and clips: one folder per
class, about ten clips in each. This page generates them, so that you can run it as it is. To try
the commands, too, set ``folder`` to a folder of your own, and open a terminal there.
"""

# %%
# The clips
# ---------
# ``make_clips`` writes ten clips of each of four moving textures: ``clips/fire/00.mp4`` and so on.
# Clips of one class differ in speed, scale, direction, colours and noise, as recordings do. Three
# more clips of each class are kept apart, to be classified later.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import sysbags
from sysbags.datasets import make_clips
from sysbags.evaluate import Settings, evaluate, train
from sysbags.report import write_report

folder = Path(tempfile.mkdtemp())  # or a folder of your own, to keep the files
shape = {"frames": 40, "height": 60, "width": 80}
textures = ["fire", "smoke", "traffic", "waves"]
paths, labels = make_clips(
    folder / "clips", per_class=10, textures=textures, **shape
)
new_paths, new_labels = make_clips(
    folder / "new", per_class=3, textures=textures, random_state=1, **shape
)
print(len(paths), "clips to learn from,", len(new_paths), "new ones")

# %%
# Train
# -----
# ``train`` does what is needed for a model. Each frame becomes a bag, a histogram of local binary
# patterns. The bags of a clip become a system, which describes what the clip shows and how it moves.
# A classifier compares systems.
#
# Without options, several metrics, which are distances between systems, are tried, too. One is fixed
# here, so that this page is quick.

settings = Settings(metric="normalized-covariance")
trained = train(paths, labels, settings=settings)
print(trained.settings["classifier"])
print(trained.method.rate)

# %%
# The first line is the classifier that was chosen among three. The second is its *cross-validated
# accuracy*, with a 95 % confidence interval: each clip was predicted by a model that had not seen it,
# and everything that is chosen was chosen again without it. This is what to expect for new clips of
# the same kind. The interval is wide, because forty clips are few.
#
# The same from the command line:
#
# .. code-block:: console
#
#     $ sysbags fit clips --out textures.model --metric normalized-covariance
#     40 clips of 4 classes, 0 skipped
#     kernel ridge, metric normalized-covariance of unit-variance states, lambda_a =
#     0.9, lambda_mu = 166.7
#     settings chosen from 60 settings by leave-one-clip-out
#     nested leave-one-clip-out accuracy 85.0 % (34 of 40; 95 % interval 70.9 to
#     92.9 %; always predicting the most frequent class: 25.0 %)
#     saved in textures.model (1.00 MB); 10 samples per system are kept: for 8
#     held-out clips this changes no prediction, and the scores by 3.7 %
#     ...
#
# The lines in the middle say the same as above: of 60 combinations of settings one was chosen, and
# 34 of 40 clips were predicted correctly. Guessing one class would reach 25 %. The last line is about
# the file: of each clip only as much is kept as the predictions need. ``lambda_a``
# and ``lambda_mu`` are the weights of motion and of averages in the metric.
#
# Classify new clips
# ------------------
# The pipeline is a scikit-learn one: it takes paths of clips, and has ``predict``, ``predict_proba``
# and ``score``.

model = trained.pipeline
print(model.predict(new_paths[::3]))
print(
    f"{model.score(new_paths, new_labels):.0%} of the new clips are classified correctly"
)

# %%
# The first line has the predicted classes of four clips, one of each class. The second is the share
# of all twelve new clips whose class is right. Twelve clips are too few to contradict the estimate.
#
# Probabilities and sets
# ----------------------
# How sure is the model? Probabilities are calibrated by clips that were left out: of the predictions
# with 70 %, about 70 % should be right.

for path, row in zip(
    new_paths[::3], model.predict_proba(new_paths[::3]), strict=True
):
    shown = ", ".join(
        f"{name} {p:.0%}" for name, p in zip(model.classes_, row, strict=True)
    )
    print(f"{path.parent.name}/{path.name}: {shown}")

# %%
# A *prediction set* answers another question: which classes can it be, so that the true one is among
# them for 9 of 10 clips? The last step of the pipeline is the classifier, and ``model[:-1]`` are the
# steps before it, which turn clips into systems.

systems = model[:-1].transform(new_paths)
sets = model[-1].predict_set(systems, alpha=0.1)
covered = sum(
    label in found for label, found in zip(new_labels, sets, strict=True)
)
print("sizes of the sets:", [len(found) for found in sets])
print(f"the true class is in the set for {covered} of {len(sets)} clips")

# %%
# A set with one class is a sure prediction, and a set with several is a doubt. An empty set means:
# none of these classes.
#
# .. code-block:: console
#
#     $ sysbags classify textures.model new/fire/00.mp4 new/traffic/00.mp4 --coverage 90%
#      clip                label    set      covariances  mean  most probable first
#      new/fire/00.mp4     fire     fire              8%   92%  fire 94%, waves 6%, smoke 0%
#      new/traffic/00.mp4  traffic  traffic          19%   81%  traffic 65%, fire 17%, smoke 16%
#
# The columns ``covariances`` and ``mean`` split the distance to the predicted class: how much of it
# is due to the motion, and how much to the average frame.
#
# Save and load
# -------------
# A model file holds arrays and JSON. Loading it runs no code, so that you can load a file from an
# untrusted source.

sysbags.save(folder / "textures.model", model)
loaded = sysbags.load(folder / "textures.model")
print((loaded.predict(new_paths) == model.predict(new_paths)).all())

# %%
# ``True``: the loaded model predicts the same as the one that was saved.
#
# Evaluate, and read the report
# -----------------------------
# ``evaluate`` compares several classifiers on the same clips, and its result can be written as a
# page.

result = evaluate(paths, labels, settings=settings, title="Moving textures")
print(result)
write_report(folder / "report.html", result)

# %%
# Each line is a classifier with its cross-validated accuracy and interval. The intervals of the best
# two overlap: forty clips are too few to say which is better.
#
# .. code-block:: console
#
#     $ sysbags evaluate clips --metric normalized-covariance --report report.html
#     40 clips of 4 classes, 0 skipped; one clip left out at a time (40 clips)
#      method                                      classifier    accuracy  95 % interval      p  seconds
#      LBP systems, normalized lagged covariances  kernel-ridge    85.0 %  70.9 to 92.9       -      4.4
#      LBP systems, normalized lagged covariances  nearest-mean    72.5 %  57.2 to 83.9   0.062      0.3
#      LBP systems, normalized lagged covariances  nearest-system  90.0 %  76.9 to 96.0   0.500      0.1
#     Always predicting the most frequent class: 25.0 %
#     ...
#     Report: report.html
#
# Here ``p`` is the p-value of McNemar's test, which asks whether a classifier differs from the first
# one. Always predicting the most frequent class would reach 25 %.
#
# ``report.html`` is one file that needs no network. Open it in a browser:
#
# .. image:: /images/report.png
#    :alt: The upper part of the report: accuracies, intervals and the confusion matrix
#    :width: 100%
#
# Read it from top to bottom:
#
# * **Summary.** The accuracy of the main method, which is the first classifier, with its interval.
#   Beside it is the best other one. Its p-value, 0.5, says that five points more on forty clips may
#   well be chance.
# * **Methods.** All classifiers. Open *settings* to see what was chosen for each.
# * **Confusion matrix.** Rows are true classes, and columns are predicted ones. All fires are right;
#   three clips of waves are not. Select a cell to see its clips.
# * **Confidence.** Are the probabilities honest? In the plot, points on the diagonal are. The table
#   says how often the prediction sets held the true class, and how many classes they had.
# * **Map** and **chosen clip.** Each point is a clip, near ones are alike, and wrong ones have a
#   ring. Select a point to see why it was classified so, the nearest clips on the map, and the states of
#   the system over time.
# * **Most confused pairs of classes.** The clips that are wrong, side by side. This is where you find
#   wrong labels.
# * **Class atlas.** The mean of each class, and the clips that are nearest to it: what the model
#   takes for typical.
# * **Runtimes and settings.** All that is needed to repeat the evaluation.
#
# A picture
# ---------
# The two most useful parts of the report, drawn by hand: the confusion matrix, and the map of all
# clips, in which near means alike.

figure, (matrix, plane) = plt.subplots(
    1, 2, figsize=(10, 4.2), layout="constrained"
)
matrix.imshow(result.confusion, cmap="Blues")
for row, column in np.ndindex(result.confusion.shape):
    count = result.confusion[row, column]
    matrix.text(
        column,
        row,
        count,
        ha="center",
        va="center",
        color="white" if count > 5 else "black",
    )
matrix.set_xticks(range(4), result.classes)
matrix.set_yticks(range(4), result.classes)
matrix.set(
    xlabel="predicted",
    ylabel="true class",
    title=f"{result.accuracy:.0%} correct",
)
wrong = result.predictions != np.array(labels)
for name, colour in zip(
    result.classes, ("#D55E00", "#999999", "#009E73", "#0072B2"), strict=True
):
    plane.scatter(
        *result.details.relations.plane[np.array(labels) == name].T,
        color=colour,
        label=name,
    )
plane.scatter(
    *result.details.relations.plane[wrong].T,
    s=120,
    facecolors="none",
    edgecolors="black",
    label="wrong",
)
plane.set(title="Map of all clips", xticks=[], yticks=[])
plane.legend(fontsize="small")
plt.show()

# %%
# What next
# ---------
# * Your own clips: one folder per class, and the same two commands. If several clips were cut from
#   one recording, say so in a table ``index.csv`` (see ``sysbags fit --help``), or the accuracy will
#   be too good to be true.
# * Other bags: ``--bags lbp,colour,flow`` describes clips in several ways at once; :doc:`/results`
#   says what that brings.
# * :doc:`/model` explains what a system is, and :doc:`/metric-space` what distances measure.
# * :doc:`search_a_library` finds similar clips if you have no classes.
