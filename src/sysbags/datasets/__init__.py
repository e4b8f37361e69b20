"""Generated streams and clips, folders of clips, and files of streams."""

from sysbags.datasets.dynamics import DYNAMICS, SURFACES, make_dynamics_clips, make_dynamics_frames
from sysbags.datasets.folder import ClipFolder, class_folders, clips_under, looks_like_clip
from sysbags.datasets.generated import TEXTURES, make_clips, make_frames
from sysbags.datasets.stream_files import LabelledStreams, read_streams, write_streams
from sysbags.datasets.streams import make_streams

__all__ = [
    "DYNAMICS",
    "SURFACES",
    "TEXTURES",
    "ClipFolder",
    "LabelledStreams",
    "class_folders",
    "clips_under",
    "looks_like_clip",
    "make_clips",
    "make_dynamics_clips",
    "make_dynamics_frames",
    "make_frames",
    "make_streams",
    "read_streams",
    "write_streams",
]
