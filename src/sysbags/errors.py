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
    "StreamWarning",
    "SysbagsError",
    "VideoError",
    "VideoWarning",
]


class SysbagsError(ValueError):
    """Base of all errors that sysbags raises on purpose; also a `ValueError`.

    Examples
    --------
    >>> import sysbags
    >>> try:
    ...     sysbags.identify([[0.5, 0.5], [0.9, 0.1]], order=5)
    ... except sysbags.SysbagsError as error:
    ...     print(f"{type(error).__name__}: {error}")
    OrderError: order 5 needs at least 6 frames, but the stream has 2: the largest order possible is 1
    """


class StreamError(SysbagsError):
    """A stream is not what it must be: wrong shape, NaN, negative, rows that do not sum to 1.

    Examples
    --------
    >>> import sysbags
    >>> sysbags.identify([[0.5, 0.7], [0.5, 0.5], [1.0, 0.0]], order=1)
    Traceback (most recent call last):
        ...
    sysbags.errors.StreamError: row 0 of stream sums to 1.2, but each histogram must sum to 1:
    divide each row by its sum
    """


class OrderError(SysbagsError):
    """The order asked for does not exist for this stream, or it is too short or too still for any order.

    Examples
    --------
    >>> import sysbags
    >>> sysbags.identify([[0.5, 0.5]] * 10, order=2)
    Traceback (most recent call last):
        ...
    sysbags.errors.OrderError: all 10 frames have the same bag (a still clip), so there is no motion to learn
    """


class IncompatibleSystemsError(SysbagsError):
    """Systems that cannot be compared: different kernels or different bag lengths.

    Examples
    --------
    >>> import sysbags
    >>> one, two = (sysbags.System([[0.5]], [[1.0]], [[1.0]], [1.0], name) for name in ("chi2", "linear"))
    >>> sysbags.align(one, two)
    Traceback (most recent call last):
        ...
    sysbags.errors.IncompatibleSystemsError: the first collection has the kernel 'chi2' and the second
    'linear', but only systems of the same kernel can be compared
    """


class ParameterError(SysbagsError):
    """An option has a value that makes no sense.

    Examples
    --------
    >>> import sysbags
    >>> sysbags.datasets.make_streams(classes=0)
    Traceback (most recent call last):
        ...
    sysbags.errors.ParameterError: classes is 0, but it must be a whole number of at least 1
    """


class CalibrationError(SysbagsError, AttributeError):
    """A classifier has no calibration, and so none of the methods that need one; also an `AttributeError`.

    Examples
    --------
    >>> import sysbags
    >>> sysbags.NearestMean().predict_proba
    Traceback (most recent call last):
        ...
    sysbags.errors.CalibrationError: predict_proba needs scores of items left out: fit with
    probability=True, which takes five more fits
    >>> hasattr(sysbags.NearestMean(), "predict_proba")
    False
    """


class VideoError(SysbagsError):
    """A video cannot be read: missing, empty, no picture in it, or broken where `strict` forbids that.

    Examples
    --------
    >>> import sysbags
    >>> list(sysbags.video.frames("missing.mp4"))
    Traceback (most recent call last):
        ...
    sysbags.errors.VideoError: missing.mp4 does not exist
    """


class DistanceWarning(UserWarning):
    """Distances are far from what a method assumes, or also measure something else.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, sysbags
    >>> streams = np.random.default_rng(0).dirichlet(np.ones(3), size=(12, 8))
    >>> identifier = sysbags.SystemIdentifier(order=1, kernel="linear", normal_form="unit-variance")
    >>> model = sysbags.KernelRidgeClassifier(metric="alignment", lambda_a=0.0, lambda_mu=0.0)
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     _ = model.fit(identifier.fit_transform(streams), 6 * ["a", "b"])
    >>> caught[0].category.__name__, model.negative_share_ > 0.05
    ('DistanceWarning', True)
    """


class StreamWarning(UserWarning):
    """Streams seem to have time and channels exchanged.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, sysbags
    >>> series = np.random.default_rng(0).standard_normal((6, 3, 50))  # (clips, channels, time), as in aeon
    >>> identifier = sysbags.SystemIdentifier(order=2, kernel="linear")
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     _ = identifier.transform(series)
    >>> caught[0].category.__name__
    'StreamWarning'
    >>> identifier.transform(series.transpose(0, 2, 1))[0]
    System(order=2, size=50, bag_length=3, kernel='linear')
    """


class VideoWarning(UserWarning):
    """A video broke off: the frames before the break are used.

    Examples
    --------
    >>> import pathlib, tempfile, warnings
    >>> import numpy as np, sysbags
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "clip.avi"
    >>> _ = sysbags.video.write_video(path, np.random.default_rng(0).random((10, 48, 64, 3)), rate=5)
    >>> _ = path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     frames = list(sysbags.video.frames(path))
    >>> caught[0].category.__name__, 0 < len(frames) < 10
    ('VideoWarning', True)
    """


class CacheWarning(UserWarning):
    """A result cannot be cached: the work continues without.

    Examples
    --------
    Stop rather than work without the cache:

    >>> import warnings
    >>> from sysbags.errors import CacheWarning
    >>> with warnings.catch_warnings(action="error", category=CacheWarning):
    ...     warnings.warn("the work continues without the cache", CacheWarning)
    Traceback (most recent call last):
        ...
    sysbags.errors.CacheWarning: the work continues without the cache
    """


class FileError(SysbagsError):
    """A model file, a folder or a table is not what it must be.

    Examples
    --------
    >>> import sysbags
    >>> sysbags.load("missing.sysbags")
    Traceback (most recent call last):
        ...
    sysbags.errors.FileError: cannot read missing.sysbags: No such file or directory
    """
