"""``sysbags inspect``: the facts of a model, a system, a normal process or a clip."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sysbags.cli._facts import clip_facts, is_saved, saved_facts, system_facts
from sysbags.cli._options import Json
from sysbags.cli._output import check_out, number, print_json, say, show_table
from sysbags.cli._settings import Settings, with_settings
from sysbags.errors import ParameterError

__all__ = ["inspect"]


@with_settings
def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A saved file, a video or a folder of images.")
    ],
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the systems, as an image file.")
    ] = None,
    as_json: Json = False,
    *,
    settings: Settings,
) -> None:
    """Show sizes, eigenvalues and the spectrum of the transition of a model, a system or a clip.

    An eigenvalue of the transition is an oscillation: its angle gives the period, its modulus the rate of
    decay, both in bags (one bag per frame, unless --window is larger). The options for frames, bags and
    systems are for clips. For a file of `sysbags watch --save-normal`, the bag, the options and the
    numbers of windows are shown.

    Example: sysbags inspect clip.mp4 --plot clip.png
    """
    if plot is not None:
        check_out(plot, [file])
    if is_saved(file):
        if settings.given():
            raise ParameterError(f"{', '.join(settings.given())} goes with clips, but {file} is a saved file")
        facts, systems = saved_facts(file)
    else:
        facts, systems = clip_facts(file, settings)
    if plot is not None:
        from sysbags.cli._plot import draw

        metric = {name: facts[name] for name in ("metric", "lambda_a", "lambda_mu") if name in facts}
        draw(systems, plot, file.name, **metric)
        facts["plot"] = plot
    facts["systems"] = [{"name": name, **system_facts(system)} for name, system in systems]
    if as_json:
        print_json({"path": file, **facts})
        return
    _show(facts)


def _show(facts: dict[str, Any]) -> None:
    systems, regions = facts.pop("systems"), facts.pop("regions", [])
    rows: list[tuple[str, Any]] = []
    for name, value in facts.items():
        if name == "steps":
            rows += value.items()
        else:
            rows.append((name, value))
    if len(systems) == 1:
        waves = systems[0].pop("spectrum")
        rows += [(name, value) for name, value in systems[0].items() if name != "name" and value is not None]
    show_table(["", "value"], [[name.replace("_", " "), _text(value)] for name, value in rows])
    if len(systems) == 1:
        say("")
        say("Spectrum of the transition")
        show_table(
            [head.replace("_", " ") for head in waves[0]], [map(_text, wave.values()) for wave in waves]
        )
    elif regions:
        say("")
        show_table(
            [head.replace("_", " ") for head in regions[0]],
            [map(_text, row.values()) for row in regions],
        )
    elif systems:
        say("")
        say("Systems, and the largest eigenvalue of each transition")
        heads = ("name", "order", "samples")
        leading = [system["spectrum"][0] for system in systems]
        show_table(
            [head.replace("_", " ") for head in (*heads, *leading[0])],
            [
                [*(str(system[head]) for head in heads), *map(_text, wave.values())]
                for system, wave in zip(systems, leading, strict=True)
            ],
        )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    return "-" if value is None else number(value) if isinstance(value, float) else str(value)
