"""JSON documents."""

from __future__ import annotations

import json
import math
import os
from typing import Any

__all__ = ["json_text"]


def json_text(document: Any, indent: int | None = 2) -> str:
    """Return the text of a JSON document; numbers that are not finite become null, paths become text.

    With ``indent=None`` it is a single line.

    Examples
    --------
    >>> print(json_text({"accuracy": 0.5, "p_value": float("nan")}))
    {
      "accuracy": 0.5,
      "p_value": null
    }
    """
    return json.dumps(_plain(document), indent=indent, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return os.fspath(value) if isinstance(value, os.PathLike) else value
