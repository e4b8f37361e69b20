"""``python -m sysbags`` is the command line."""

from __future__ import annotations

from sysbags.cli import run

if __name__ == "__main__":
    run()
