"""Pictures in the gallery that an example writes to the file which it is given."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from sphinx_gallery.scrapers import figure_rst

PICTURE = Path(gettempdir()) / "sysbags-gallery.png"


def picture_argument(gallery_conf: dict[str, Any], variables: dict[str, Any]) -> list[str]:
    """Return the arguments of an example: the file for its picture."""
    return [str(PICTURE)]


def saved_pictures(block: Any, variables: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Show the picture that a block has written, if there is one."""
    if not PICTURE.exists():
        return ""
    place = next(variables["image_path_iterator"])
    shutil.move(PICTURE, place)
    return str(figure_rst([place], gallery_conf["src_dir"]))
