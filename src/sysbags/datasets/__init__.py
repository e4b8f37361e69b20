"""Generated streams and clips, folders of clips, and files of streams."""

from sysbags.datasets.folder import ClipFolder, class_folders, clips_under, looks_like_clip
from sysbags.datasets.generated import TEXTURES, make_clips, make_frames
from sysbags.datasets.stream_files import LabelledStreams, read_streams, write_streams
from sysbags.datasets.streams import (
    make_line_attractor,
    make_lorenz,
    make_random_network,
    make_ring_attractor,
    make_streams,
)
from sysbags.datasets.watching import (
    EVENTS,
    SCENES,
    WatchedEvent,
    WatchingVideo,
    make_watching,
)

__all__ = [
    "EVENTS",
    "SCENES",
    "TEXTURES",
    "ClipFolder",
    "LabelledStreams",
    "WatchedEvent",
    "WatchingVideo",
    "class_folders",
    "clips_under",
    "looks_like_clip",
    "make_clips",
    "make_frames",
    "make_line_attractor",
    "make_lorenz",
    "make_random_network",
    "make_ring_attractor",
    "make_streams",
    "make_watching",
    "read_streams",
    "write_streams",
]
