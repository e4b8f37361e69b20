"""Text for terminals."""

from __future__ import annotations

import re

__all__ = ["printable"]

# C0, DEL and C1; also surrogates: bytes of a file name that are not UTF-8, which Python cannot print.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Replace control characters by visible escapes: a file name must not send commands to a terminal.

    A line break is one of them, so give lines one by one.

    Examples
    --------
    >>> print(printable("red\x1b[31m.mp4"))
    red\x1b[31m.mp4
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
