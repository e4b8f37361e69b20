"""What sysbags raises: every error is one sentence that says what is wrong and what would be right."""

from __future__ import annotations

__all__ = [
    "CacheWarning",
    "CalibrationError",
    "DistanceWarning",
    "FileError",
    "IncompatibleSystemsError",
    "OrderError",
    "ParameterError",
    "StreamError",
    "SysbagsError",
    "VideoError",
    "VideoWarning",
]


class SysbagsError(ValueError):
    """Base of all errors that sysbags raises on purpose; also a `ValueError`."""


class StreamError(SysbagsError):
    """A stream is not what it must be: wrong shape, NaN, negative, rows that do not sum to 1."""


class OrderError(SysbagsError):
    """The order asked for does not exist for this stream, or it is too short or too still for any order."""


class IncompatibleSystemsError(SysbagsError):
    """Systems that cannot be compared: different kernels or different bag lengths."""


class ParameterError(SysbagsError):
    """An option has a value that makes no sense."""


class CalibrationError(SysbagsError, AttributeError):
    """A classifier has no calibration, and so none of the methods that need one; also an `AttributeError`."""


class VideoError(SysbagsError):
    """A video cannot be read: missing, empty, no picture in it, or broken where `strict` forbids that."""


class DistanceWarning(UserWarning):
    """Distances are far from what a method assumes."""


class VideoWarning(UserWarning):
    """A video broke off: the frames before the break are used."""


class CacheWarning(UserWarning):
    """A result cannot be cached: the work continues without."""


class FileError(SysbagsError):
    """A model file, a folder or a table is not what it must be."""
