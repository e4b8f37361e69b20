"""``sysbags demo``: an example from clips to report, on generated clips."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from sysbags._common.files import check_folder
from sysbags._common.messages import Stages
from sysbags._common.parallel import check_jobs
from sysbags.cli._options import Json, NJobs, RandomState, option, out_option
from sysbags.cli._output import check_out, print_json, say, show_seconds, show_table


def demo(
    out: Annotated[Path, out_option("Folder for the clips, the model and report.html.", "DIR")] = Path(
        "demo"
    ),
    per_class: Annotated[int, option("Number of clips per texture.", "N", min=2)] = 8,
    frames: Annotated[int, option("Number of frames per clip.", "N", min=10)] = 60,
    random_state: RandomState = 0,
    n_jobs: NJobs = -1,
    as_json: Json = False,
) -> None:
    """Classify generated clips, and write a report.

    The clips show eight moving textures. A model is trained as by `sysbags fit`, with its cross-validated
    accuracy; it is saved and loaded, and classifies new clips.

    Example: sysbags demo --out demo, then open demo/report.html
    """
    check_jobs(n_jobs)
    check_folder(out)

    from sysbags.evaluate.demo import Settings, experiment
    from sysbags.report.demo_page import page
    from sysbags.report.templates import write_page

    settings = Settings(out, per_class, frames, random_state, n_jobs)
    check_out(settings.report)
    outcome = experiment(settings, Stages())
    write_page(settings.report, page(outcome))
    pairs = zip(outcome.predictions, outcome.new_labels, strict=True)
    correct = sum(prediction == label for prediction, label in pairs)
    if as_json:
        print_json(
            {
                "settings": asdict(settings),
                "clips": len(outcome.clips),
                "chance": outcome.chance,
                "rates": {name.replace(" ", "_"): asdict(rate) for name, rate in outcome.rates.items()},
                "new_clips": [
                    {"path": path, "label": label, "prediction": prediction}
                    for path, label, prediction in zip(
                        outcome.new_clips, outcome.new_labels, outcome.predictions, strict=True
                    )
                ],
                "model": settings.model,
                "report": settings.report,
                "seconds": outcome.seconds,
            }
        )
        return
    say(f"Accuracy by nested cross-validation, {len(outcome.clips)} clips:")
    show_table(*outcome.table())
    show_seconds(outcome.seconds)
    say(f"The saved model classifies {correct} of {len(outcome.new_clips)} new clips correctly.")
    say(f"Model: {settings.model}")
    say(f"Report: {settings.report}")
