"""``sysbags watch``: events in a stored or live video."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysbags._common.files import json_text
from sysbags._common.messages import shows_progress
from sysbags.bags.registry import BAGS
from sysbags.cli._config import given
from sysbags.cli._options import (
    Settings,
    argument,
    flag,
    last_of_list,
    option,
    rate_per_second,
    seconds_of,
    setting,
    with_settings,
)
from sysbags.cli._output import check_inputs, check_out, note, note_error, number, say
from sysbags.errors import FileError, ParameterError

if TYPE_CHECKING:
    from sysbags.bags.base import BagTransformer
    from sysbags.bags.union import BagUnion
    from sysbags.server.live import LivePage
    from sysbags.watch.checkpoint import Normal
    from sysbags.watch.delivery import Receiver
    from sysbags.watch.session import Report, Session

# What moves and how: the first bag sees in a few frames whether something is slower, the second how fast.
WATCHED, WATCHED_IN_REGIONS = "lbp-top,flow", "lbp-top"
FLOW_LINES = 48  # more need most of the time
LEARN, FALSE_ALARMS = "10min", "1/day"
POSSIBLE = [name for name, bag in BAGS.items() if not bag.bag_class.learnt]
ADVICE = "use a shorter --learn, or --checkpoint to continue with more video"
REFRESH = 4  # times per second


@dataclass(frozen=True, kw_only=True)
class VideoSettings(Settings):
    """How windows become systems: a video without an end has no first, last or N-th frame, and no words."""

    bags: Annotated[
        str | None,
        setting(
            f"What is counted in a frame, one or several of {', '.join(POSSIBLE)}.",
            "BAG,...",
            "--bags",
            "--bag",
            default=WATCHED,
            autocompletion=last_of_list(POSSIBLE),
        ),
    ] = None
    order: Annotated[str | None, setting("Order of the systems.", "N", default="5")] = None
    words: None = None
    start: None = None
    stop: None = None
    stride: None = None
    max_frames: None = None


@with_settings
def watch(
    source: Annotated[
        str,
        argument(
            "INPUT",
            "A video file, a folder of segments, - for a pipe, a device such as /dev/video0, an address such "
            "as rtsp://camera/stream, or numbers with times: .csv or .parquet.",
        ),
    ],
    normal: Annotated[
        Path | None, option("What is normal, from --save-normal of another run.", "MODEL")
    ] = None,
    learn: Annotated[
        str | None,
        option(
            "Learn what is normal from the beginning, or from whole recordings: a.mp4,b.mp4.",
            "TIME|FILES",
            default=LEARN,
        ),
    ] = None,
    calibrate: Annotated[
        str | None,
        option(
            "Recordings of more normal video, a.mp4,b.mp4: with --normal, how often it gives false alarms "
            "becomes better known.",
            "FILES",
        ),
    ] = None,
    save_normal: Annotated[Path | None, option("Write what was learnt to a file.", "MODEL")] = None,
    false_alarms: Annotated[str, option("How many events may be false: 1/day, 2/h.", "RATE")] = FALSE_ALARMS,
    events: Annotated[Path | None, option("Write the events, one per row.", "FILE.csv")] = None,
    save_clips: Annotated[Path | None, option("Write a clip of each event.", "DIR")] = None,
    run: Annotated[
        list[str] | None,
        option("Run a command for each event; {event.json} is a file with it.", "COMMAND", "--exec"),
    ] = None,
    webhook: Annotated[list[str] | None, option("POST each event as JSON.", "URL")] = None,
    mqtt: Annotated[
        list[str] | None, option("Publish each event to an MQTT broker.", "HOST[:PORT]/TOPIC")
    ] = None,
    view: Annotated[
        str | None, option("Show a live page; only to this computer, unless HOST is given.", "[HOST:]PORT")
    ] = None,
    json_lines: Annotated[
        bool,
        typer.Option("--json-lines", "--json", help="Print one JSON object per line instead of sentences."),
    ] = False,
    windows: Annotated[bool, flag("--windows", "Report each window too.")] = False,
    adapt: Annotated[
        str | None,
        option(
            "Follow what changes slower than in this time, such as daylight: 5min.", "TIME", default="never"
        ),
    ] = None,
    length: Annotated[int | None, option("Bags in a window.", "N", min=2, default="100")] = None,
    step: Annotated[int | None, option("Bags from one window to the next.", "N", min=1, default="10")] = None,
    rate: Annotated[float | None, option("Frames per second to use.", "X", default="all")] = None,
    grid: Annotated[str | None, option("Watch the cells of a grid, such as 3x4.", "RxC")] = None,
    mask: Annotated[
        Path | None, option("Watch the regions of a picture: each grey level is one, but 0.", "FILE")
    ] = None,
    checkpoint: Annotated[
        Path | None, option("Keep what is needed to continue; the same command continues.", "FILE")
    ] = None,
    checkpoint_every: Annotated[str, option("How often.", "TIME")] = "30s",
    time_column: Annotated[
        str | None,
        option("The column of times of a table; - is then CSV.", "NAME", "--time", default="by its name"),
    ] = None,
    columns: Annotated[
        str | None, option("The columns of numbers of a table.", "NAME,...", default="all others")
    ] = None,
    follow: Annotated[bool, flag("--follow", "Wait for more segments of a folder.")] = False,
    *,
    settings: VideoSettings,
) -> None:
    """Learn what is normal in a video, and report what is not.

    Events are reported at a stated rate of false alarms. An input that is live is opened again when it fails.
    Ctrl-C and SIGTERM end the run: the open event is written, and with --checkpoint the same command
    continues, also after a crash.

    Example: sysbags watch rtsp://camera/stream --learn 1h --false-alarms 1/day --events events.csv
    """
    _check(source, [normal, mask], {"events": events, "Normal": save_normal, "Checkpoint": checkpoint})

    from sysbags.bags.regions import Regions
    from sysbags.bags.union import BagUnion
    from sysbags.datasets.tables import TABLE_SUFFIXES
    from sysbags.means.compilation import compiled_for
    from sysbags.video import container_facts
    from sysbags.watch.checkpoint import load_normal
    from sysbags.watch.checkpoint import save_normal as write_normal
    from sysbags.watch.delivery import Broker, Command, Webhook, spool_folder
    from sysbags.watch.learning import before_learning, calibrated, learn_recordings
    from sysbags.watch.recording import check_event_table
    from sysbags.watch.session import Outputs, Session

    if events is not None:
        check_event_table(events)
    receivers: list[Receiver] = [
        *map(Command, run or ()),
        *map(Webhook, webhook or ()),
        *map(Broker, mqtt or ()),
    ]
    options: dict[str, Any] = {
        "false_alarms": rate_per_second(false_alarms, "--false-alarms"),
        "adapt": None if adapt is None else seconds_of(adapt, "--adapt"),
    }
    show = _print_line if json_lines else _print_sentence
    make_page: Callable[[Session, Report], LivePage] | None = None
    if view is not None:
        from sysbags.server.live import LivePage, address_of

        host, port = address_of(view)
        make_page = partial(LivePage, host=host, port=port, windows=windows)
    run_session = partial(_run, show, receivers, spool_folder(source, checkpoint, events))
    if time_column is not None or columns is not None or Path(source).suffix.lower() in TABLE_SUFFIXES:
        from sysbags.watch.numbers import NumberSession

        video: dict[str, Any] = {
            "normal": normal,
            "calibrate": calibrate,
            "save_normal": save_normal,
            "grid": grid,
        }
        video |= {"mask": mask, "save_clips": save_clips, "checkpoint": checkpoint, "follow": follow or None}
        given_here = zip(video, given(**video), strict=True)
        asked = [f"--{name.replace('_', '-')}" for name, value in given_here if value]
        for name in [*asked, *(name for name in settings.given() if name != "--order")]:
            raise ParameterError(f"a table of numbers is watched without {name}: leave it out")
        if learn and _is_files(learn):
            raise ParameterError(f"--learn is {learn}, but of a table it must be a time, such as 10min")
        numbers = NumberSession.opened(
            source,
            time=time_column,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            outputs=Outputs(events=events, windows=windows or view is not None),
            rate=rate,
            learn=seconds_of(learn or LEARN, "--learn"),
            length=length or 100,
            step=step or 10,
            order=_order(settings),
            **options,
        )
        run_session(make_page and make_page(numbers, show), numbers)
        return
    recordings = _recordings(learn, "--learn") if learn and _is_files(learn) else []
    more = [] if calibrate is None else _recordings(calibrate, "--calibrate")
    if calibrate is not None and normal is None and not recordings:
        raise ParameterError("--calibrate needs --normal, or --learn with recordings")
    found: Normal | None = None
    outputs = Outputs(
        events=events,
        clips=save_clips,
        learnt=None if calibrate is not None or recordings else save_normal,
        checkpoint=checkpoint,
        checkpoint_every=seconds_of(checkpoint_every, "--checkpoint-every"),
        windows=windows or view is not None,
    )
    if normal is not None:
        names = ("--learn", "--length", "--step", "--grid", "--mask", "--save-normal")
        kept = None if calibrate is not None else save_normal
        own = given(learn=learn, length=length, step=step, grid=grid, mask=mask, save_normal=kept)
        asked = [name for name, value in zip(names, own, strict=True) if value]
        for name in [*asked, *settings.given()]:
            raise ParameterError(f"--normal says what was learnt, and how: leave out {name}")
        found = load_normal(normal)
        bag = found.bag
    else:
        has_regions = grid is not None or mask is not None
        settings = replace(settings, bags=settings.bags or (WATCHED_IN_REGIONS if has_regions else WATCHED))
        is_network = any("size" in BAGS[name].bag_class.options for name in settings.names())
        bag = _bag(settings if is_network else replace(settings, size=None))
        if has_regions:
            if isinstance(bag, BagUnion):
                raise ParameterError("--grid and --mask take a single bag: give one with --bags")
            bag = Regions(bag, grid, mask)
        order, identifier = _order(settings), settings.make_identifier()
        size = None if is_network else settings.size
        how = {
            "length": length or 100,
            "step": step or 10,
            "order": order,
            "kernel": identifier.kernel,
        }
        if not recordings:
            options |= {"learn": seconds_of(learn or LEARN, "--learn"), **how, "size": size}
    if recordings:
        found = before_learning(recordings, bag, rate=rate, size=size, **how)
    session = Session(
        source, bag, outputs=outputs, rate=rate, live={"follow": follow}, **options, normal=found
    )
    if os.path.isfile(source):
        seconds = container_facts(Path(source))["seconds"]  # an error, if it is no video
        needed = session.options.learn
        if found is None and checkpoint is None and (seconds or math.inf) < needed:
            raise ParameterError(f"{source} has {seconds:.4g} s, but --learn is {needed:g} s: {ADVICE}")
    page = make_page and make_page(session, show)  # an error, if its port is taken
    with compiled_for("alignment"):
        if found is not None and not (checkpoint is not None and checkpoint.exists()):
            if recordings:
                found = learn_recordings(recordings, bag, rate=rate, size=size, **how)
            if more:
                found = calibrated(found, more)
            if outputs.learnt is None and save_normal is not None:
                write_normal(save_normal, found)
            session.normal = found
    run_session(page, session, may_continue=checkpoint is not None)


def _run(
    show: Report,
    receivers: Sequence[Receiver],
    unsent: Path,
    page: LivePage | None,
    session: Session,
    *,
    may_continue: bool = False,
) -> None:
    """Run a session with its page, and tell receivers; end the command with an error if there was one."""
    from sysbags.watch.delivery import Delivery

    with ExitStack() as stack:
        if page is not None:
            show = stack.enter_context(page).report
        delivery = stack.enter_context(Delivery(show, receivers, unsent))
        signals = stack.enter_context(_stopped_by_signals(session))
        stack.enter_context(_live_line(session))
        session.run(delivery.report)
    if session.failures:
        note_error(f"{len(session.failures)} times a file was not written, first: {session.failures[0]}")
    if signals:
        raise typer.Exit(128 + signals[0])
    if session.is_learning and not may_continue:
        advice = ADVICE if session.unit == "frames" else "use a shorter --learn"
        raise ParameterError(
            f"the input ended before it was learnt what is normal, so no event could be found: {advice}"
        )
    if session.failures:
        raise typer.Exit(2)


def _order(settings: VideoSettings) -> int:
    order = settings.make_identifier().order
    if isinstance(order, str):
        raise ParameterError("--order is auto, but all windows must have the same order: give a number")
    return int(order)


def _is_files(text: str) -> bool:
    """Return whether a value names files, and is no time such as 10min."""
    return "," in text or Path(text).exists()


def _recordings(text: str, option: str) -> list[Path]:
    """Return the files that "a.mp4,b.mp4" names."""
    paths = [Path(part.strip()) for part in text.split(",")]
    for path in paths:
        if not path.is_file():
            raise FileError(f"{option} has {path}, but there is no such file")
    return paths


def _bag(settings: VideoSettings) -> BagTransformer | BagUnion:
    """Return the bag, or several; with others, flow is that of small frames."""
    from sysbags.bags.union import BagUnion

    made = list(zip(settings.names(), settings.make_all_bags().values(), strict=True))
    if len(made) == 1:
        return made[0][1]
    for name, bag in made:
        if name == "flow":
            bag.set_params(frames={**(bag.frames or {}), "size": FLOW_LINES})
    return BagUnion(made)


def _check(source: str, inputs: list[Path | None], outputs: dict[str, Path | None]) -> None:
    """Refuse, before any work, options that do not fit; outputs have their kinds."""
    from sysbags.video.feeds import is_address, is_device

    if not (source == "-" or is_address(source) or is_device(source)):
        inputs = [Path(source), *inputs]
    check_inputs(*inputs)
    for kind, path in outputs.items():
        check_out(path, *inputs, kind=kind)
    files = [os.path.realpath(path) for path in outputs.values() if path is not None]
    if len(set(files)) < len(files):
        raise ParameterError("--events, --save-normal and --checkpoint must be different files")


@contextmanager
def _stopped_by_signals(session: Session) -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM end a session; the second one ends the program at once."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught
        return
    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for kind, handler in before.items():
            signal.signal(kind, handler)

    def stop(kind: int, frame: object) -> None:
        caught.append(kind)
        restore()
        session.stop()

    for kind in before:
        signal.signal(kind, stop)
    try:
        yield caught
    finally:
        restore()


def _live_line(session: Session) -> AbstractContextManager[object]:
    """Show how it goes, if anyone can see it."""
    if not shows_progress():
        return nullcontext()
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    speed = _Speed(session)

    def line() -> Text:
        state = f"learning {100.0 * session.progress:.0f} %" if session.is_learning else "normal"
        state = "EVENT" if session.open_events else state
        skipped = f", {session.skipped} frames skipped" if session.skipped else ""
        parts = f"{speed():.0f} frames/s, surprise {session.surprise:.1f}, {session.events} events"
        return Text(f"{state}, {parts}{skipped}", no_wrap=True, overflow="ellipsis")

    return Live(
        get_renderable=line,
        console=Console(file=sys.stderr),
        refresh_per_second=REFRESH,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )


class _Speed:
    """Frames per second of a session since about two seconds ago."""

    def __init__(self, session: Session) -> None:
        self.session, self.speed = session, 0.0
        self.time, self.frames = time.monotonic(), session.frames

    def __call__(self) -> float:
        now, frames = time.monotonic(), self.session.frames
        if now - self.time > 2.0 or not self.speed:
            self.speed = (frames - self.frames) / max(now - self.time, 1e-3)
            self.time, self.frames = now, frames
        return self.speed


def _print_line(record: dict[str, Any]) -> None:
    print(json_text(record, indent=None), flush=True)


def _print_sentence(record: dict[str, Any]) -> None:
    kind = record["type"]
    text = SENTENCES[kind](record) if kind in SENTENCES else ""
    if kind in ("event", "event_start", "learnt", "window", "end"):
        say(text)
        sys.stdout.flush()
    elif text:
        note(text)


def _clock(seconds: float) -> str:
    from sysbags.watch.timeline import timecode

    return timecode(seconds)


def _moment(record: dict[str, Any]) -> str:
    where = f" in {record['region']}" if record["region"] else ""
    utc = f" ({record['start_utc']})" if record.get("start_utc") else ""
    return f"{_clock(record['start'])}{utc}{where}"


def _learnt(record: dict[str, Any]) -> str:
    where = f"{record['region'] or record['bag']}: " if record["region"] or record["bag"] else ""
    names = ("asked", "share", "observed_low", "observed_high", "promised")
    asked, share, low, high, promised = (record[f"{name}_per_day"] for name in names)
    seen = record["observed_seconds"]
    rate = _rounded(asked) if share == asked else f"{_rounded(share)} of all {_rounded(asked)}"
    text = (
        f"{where}learnt from {record['learn_seconds']:g} s; false alarms: asked for {rate} per day, "
        f"seen {record['observed_events']} in {_rounded(seen)} s of what is normal, "
        f"which is {_rounded(low)} to {_rounded(high)} per day (95 %)"
    )
    if share < low:
        return f"{text}: that is more, as normal changes slowly; --adapt or learning for longer helps"
    if share < promised:
        return (
            f"{text}; less than {_rounded(promised)} per day cannot be promised: "
            f"{_rounded(seen * promised / share)} s without a false alarm would show {_rounded(share)}"
        )
    return text


def _rounded(value: float) -> str:
    return f"{value:.0f}" if value >= 1000.0 else number(value)


def _event(record: dict[str, Any]) -> str:
    part = f" of the {record['part']}" if record["part"] else ""
    clip = f", {record['clip']}" if record["clip"] else ""
    part += f", by {record['bag']}," if record["bag"] else ""
    text = f"event {_moment(record)}: {record['kind']}{part} for {record['duration']:.1f} s"
    rate = f"{record['per_day']:.2g} times per day"
    if record["rule"] == "lasting":
        found = _clock(record["found"])
        return f"{text}, a small lasting change found at {found}, in what is normal at most {rate}{clip}"
    if record["extrapolated"]:
        return (
            f"{text}, p-value at most {_rounded_up(record['p_value'])} as no normal window was so unusual, "
            f"in what is normal about {rate}, extrapolated{clip}"
        )
    return f"{text}, p-value {record['p_value']:.2g}, in what is normal about {rate}{clip}"


def _rounded_up(bound: float) -> str:
    """Write a bound with two digits, so that it still holds.

    >>> _rounded_up(0.0625), _rounded_up(0.062), _rounded_up(1.0)
    ('0.063', '0.062', '1')
    """
    unit = 10.0 ** (math.floor(math.log10(bound)) - 1)
    return f"{math.ceil(bound / unit - 1e-9) * unit:.2g}"


def _end(record: dict[str, Any]) -> str:
    events = "1 event" if record["events"] == 1 else f"{record['events']} events"
    text = f"{events} in {_clock(record['seconds'])}, {record['frames']} {record['unit']}"
    if record["skipped"]:
        text += f", {record['skipped']} frames skipped"
    if not record["has_learnt"]:
        text += "; it is not yet learnt what is normal, so no event could be found"
        if record["reason"] == "stopped":
            text += ": with --checkpoint the same command continues"
    return text


SENTENCES: dict[str, Any] = {
    "learnt": _learnt,
    "event_start": lambda record: f"event begins {_moment(record)}: {record['kind']}",
    "event": _event,
    "window": lambda record: (
        f"window {_clock(record['start'])} to {_clock(record['stop'])}: {record['kind']}, "
        f"surprise {number(record['surprise'])}"
    ),
    "gap": lambda record: f"data is missing before {_clock(record['time'])}",
    "reconnect": lambda record: f"no connection ({record['reason']}), again in {record['pause']:g} s",
    "skipped": lambda record: f"{record['frames']} frames skipped, as the machine is too slow: use --rate",
    "waiting": lambda record: "waiting for data",
    "note": lambda record: record["text"],
    "end": _end,
}
