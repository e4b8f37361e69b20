"""
Watch a process with a fixed camera
===================================

A camera looks at a wheel that turns all day. One day it turns more slowly. Each single frame looks
as always, so that no picture shows that something is wrong: only the motion has changed. You want
to be told, but not too often for nothing.

**At the end** you have a watcher that has learnt what is normal from five minutes of video, that
raises an alarm at a rate of false alarms which you have stated, and a plot of how surprising each
moment was.

**You need** sysbags with the extra ``plot`` (:doc:`/installation`). To try the command, too, set
``folder`` to a folder of your own, and open a terminal there.
"""

# %%
# The video
# ---------
# ``make_watching`` generates the video of a process, with events at known times. This one has seven
# and a half minutes. From 360 to 400 seconds the wheel is 20 % slower. Light and wind change slowly,
# the camera adds noise, and each frame is compressed as JPEG: that is normal here.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from sysbags.bags import PlanePatterns
from sysbags.datasets import WatchedEvent, make_watching
from sysbags.video import frames, write_video
from sysbags.watch import Watcher

folder = Path(tempfile.mkdtemp())  # or a folder of your own, to keep the video
slower = WatchedEvent(start=360.0, stop=400.0, kind="dynamics", strength=1.0)
video = make_watching("wheel", seconds=450.0, events=[slower])
write_video(folder / "wheel.mp4", video.frames(), video.rate, lossless=True)
print(video.count, "frames at", video.rate, "per second")

# %%
# From now on only the file is used, as if it had come from a camera.
#
# From frames to bags
# -------------------
# A bag is a histogram of what a frame shows. ``PlanePatterns`` compares each pixel with its
# neighbours in the picture and in the frames before and after, and counts the patterns. All bags
# together are the stream of the video.

rows = PlanePatterns().stream(folder / "wheel.mp4")
print(rows.shape)

# %%
# The shape is (bags, bins). There are two bags fewer than frames, because the first and the last frame
# have a neighbour on one side only.
#
# Learn, then watch
# -----------------
# A ``Watcher`` cuts the stream into windows that overlap: 50 bags, which is 5 seconds, with a new
# window every 10 bags. It learns from the first 300 seconds what normal windows look like and how
# they move. After that each window is judged.
#
# You do not choose a threshold. You say how often a false alarm is acceptable, here once per hour,
# and the threshold is chosen for that.

watcher = Watcher(
    rate=video.rate, learn=300.0, false_alarms=1 / 3600, length=50, step=10
)
verdicts, events = watcher.update(rows)
events += watcher.finish()  # an event that has not ended at the end of the video
print(f"threshold: surprise {watcher.threshold.high:.1f}")
print(
    f"false alarms while learning: {watcher.observed.events} in {watcher.observed.seconds:.0f} seconds"
)

# %%
# The *surprise* of a window is -log10 of a p-value whose tail is extrapolated: a window with a
# surprise of 3 is as unusual as one normal window of a thousand. An event begins with a window above
# the threshold. The second line is a check with normal windows that took no part in the choice of
# the threshold.
#
# ``update`` may be called again with more rows, for a camera that goes on; the verdicts are the same
# as if all rows had come at once.
#
# The alarms
# ----------

for event in events:
    print(
        f"{event.start:.0f} to {event.end:.0f} s: change of the {event.part}, surprise {event.surprise:.1f}"
    )
    print(
        f"in normal video there is such an event {event.per_day:.1f} times per day"
    )

# %%
# There is one alarm, and its times are right up to two seconds. (An event lasts while windows are
# above a lower threshold, so that it may begin a little early.) What has changed is the *transition*:
# the motion. Had something new come into the picture, it would be the *observer* (what moves) or the
# *mean* (how the picture looks on average). The last line is the rate of false alarms that you would
# have to accept to hear of such an event; you have asked for one per hour, which is 24 per day.
#
# The same from the command line
# ------------------------------
# One command does all of this, for files and for live cameras:
#
# .. code-block:: console
#
#     $ sysbags watch wheel.mp4 --bags lbp-top --learn 5min --false-alarms 1/h \
#           --length 50 --step 10 --events events.csv
#     learnt from 300 s; false alarms: asked for 24 per day, seen 0 in 150 s of
#     normal video, which is 0 to 2125 per day (95 %); the asked rate is
#     extrapolated and cannot be promised, but 2125 per day can: 13280 s without a
#     false alarm would show it
#     event begins 00:06:01.000: change
#     event 00:06:01.000: change of the transition for 37.0 s, p-value at most 0.032
#     as no normal window was so unusual, in normal video about 3.9 times per day,
#     extrapolated
#     1 event in 00:07:29.800, 4500 frames
#
# The p-value is larger than you might expect: it is counted, and 150 seconds of normal video are too
# short to count less than that. Learn from an hour instead of minutes, and it can become smaller.
# "Extrapolated" says the same of the rate. Five minutes are enough for this wheel; outdoors, where light
# and weather change slowly, false alarms come more often than asked after so short a time. The table
# ``events.csv`` has one row per event.
#
# A picture
# ---------
# The surprise of each window, at the time of its newest frames. The shaded part is the time at which
# the wheel was slower, and the frames above show why this is hard to see: one is normal, and one is
# from the event.

pictures = {
    name: next(frames(folder / "wheel.mp4", start=10 * name))
    for name in (330, 380)
}
judged = [verdict for verdict in verdicts if verdict.kind != "learning"]
figure = plt.figure(figsize=(9, 4.6), layout="constrained")
grid = figure.add_gridspec(2, 2, height_ratios=(1, 1.6))
for column, (second, picture) in enumerate(pictures.items()):
    axes = figure.add_subplot(grid[0, column])
    axes.imshow(picture, cmap="gray", vmin=0, vmax=255)
    axes.set_title(
        f"{second} s: {'slower' if slower.start <= second < slower.stop else 'normal'}"
    )
    axes.set_axis_off()
axes = figure.add_subplot(grid[1, :])
axes.axvspan(
    slower.start,
    slower.stop,
    color="#D55E00",
    alpha=0.2,
    label="the wheel is slower",
)
axes.plot(
    [v.stop for v in judged],
    [v.surprise for v in judged],
    color="#0072B2",
    label="surprise",
)
axes.axhline(
    watcher.threshold.high,
    color="black",
    linestyle="--",
    linewidth=1,
    label="threshold",
)
axes.set(xlabel="seconds", ylabel="surprise", xlim=(300, 450), ylim=(0, None))
axes.legend(loc="upper right", fontsize="small")
plt.show()

# %%
# What next
# ---------
# * :doc:`/watch` describes all options: several regions of a picture, clips of the events, slow
#   changes such as daylight (``--adapt``), and how often events of several kinds are found.
# * :doc:`/timeline` divides a stored video into phases, and finds those that return.
# * :doc:`classify_clips` tells classes of clips from each other, if you have examples of each.
