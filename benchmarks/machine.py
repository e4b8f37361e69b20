"""What must stand beside a number so that it can be judged and repeated."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path

__all__ = ["facts"]


def facts(command: str, packages: Sequence[str]) -> list[str]:
    """Date, machine, command and versions, as lines of Markdown."""
    return [
        f"* date: {datetime.date.today().isoformat()}",
        f"* machine: {processor()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        f"* command: `{command}`",
        f"* versions: {', '.join(f'{name} {version(name)}' for name in packages)}",
    ]


def version(package: str) -> str:
    """Version of a package, if it is there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
