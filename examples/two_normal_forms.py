"""
One clip in two normal forms
============================

The states of a system may be measured in two units. In the orthonormal form, the paper's, each direction
counts the same in a distance, whether it holds motion or noise. In the unit-variance form a direction counts
as much as the stream varies along it.

``python examples/two_normal_forms.py two_normal_forms.png`` writes the picture to a file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from states_of_a_clip import make_stream  # examples/states_of_a_clip.py

import sysbags
from sysbags.bags import LocalBinaryPatterns
from sysbags.datasets import make_frames

BLUE, ORANGE = "#0072B2", "#D55E00"
FORMS = {"orthonormal": (ORANGE, "s"), "unit-variance": (BLUE, "o")}
ORDERS = range(2, 13)

# %%
# The turning wheel has two directions of motion; all further directions of its stream are noise. A good
# distance should say that both halves of the clip show the same thing, and that a clip of waves shows
# something else. So we compare the two distances. Only observers are compared (``lambda_a=0``), for which the
# distance is known in closed form.


def ratios(form: str) -> list[float]:
    """Return the distance of two halves of the clip, divided by that to a clip of waves, for each order."""
    _, wheel = make_stream()
    waves = LocalBinaryPatterns(method="nri_uniform").stream(make_frames("waves", frames=50))
    found = []
    for order in ORDERS:
        first, second, other = (
            sysbags.identify(stream, order, normal_form=form) for stream in (wheel[:50], wheel[50:], waves)
        )
        near = sysbags.alignment_distance(first, second, lambda_a=0.0)
        found.append(near / sysbags.alignment_distance(first, other, lambda_a=0.0))
    return found


# %%
# With order 2, the number of directions that hold motion, both forms know that the halves are alike. Each
# direction of noise that is added then counts as much as the motion in the orthonormal form, and the halves
# drift apart faster than in the unit-variance form.


def main(argv: Sequence[str]) -> None:
    path = argv[0] if argv else "two_normal_forms.png"
    _, stream = make_stream()

    figure = Figure(figsize=(10, 3.6), dpi=130, layout="constrained")
    *clouds, bars, lines = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.3])
    for place, (form, (colour, marker)) in enumerate(FORMS.items()):
        system = sysbags.identify(stream, order=5, normal_form=form)
        assert system.states is not None
        x, y = system.states[:, 0], system.states[:, 3]
        axes = clouds[place]
        axes.scatter(x, y, s=14, marker=marker, facecolors="none", edgecolors=colour)
        axes.set_aspect("equal")
        largest = 1.1 * np.abs(system.states).max()
        axes.set_xlim(-largest, largest)
        axes.set_ylim(-largest, largest)
        axes.set_title(f"States, {form}", loc="left", color=colour)
        axes.set_xlabel("first state (motion)")
        axes.set_ylabel("fourth state (noise)")
        axes.set_xticks([])
        axes.set_yticks([])

        shares = np.diag(system.observer_gram) / np.trace(system.observer_gram)
        bars.bar(np.arange(5) + 0.4 * place - 0.2, 100.0 * shares, 0.38, color=colour)
        found = ratios(form)
        lines.plot(ORDERS, found, color=colour, marker=marker, label=form)
        print(
            f"{form}: two halves are {found[0]:.2f} of the way to waves with order 2, {found[-1]:.2f} with 12"
        )

    bars.set_title("Weight of a direction, %", loc="left")
    bars.set_xlabel("state")
    bars.set_xticks(range(5), [str(i) for i in range(1, 6)])
    lines.set_title("Distance of halves / to waves", loc="left")
    lines.set_xlabel("order")
    lines.set_xticks(ORDERS[::2])
    lines.set_ylim(0.0, 1.0)
    lines.legend(frameon=False, loc="lower right")
    for axes in (bars, lines):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


if __name__ == "__main__":
    main(sys.argv[1:])
