"""Configuration of the documentation, which `make docs` builds without a network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "extensions"), str(DOCS.parent / "examples")]

import sysbags  # noqa: E402

project = "sysbags"
author = "The sysbags developers"
copyright = "The sysbags developers, BSD-3-Clause"
version = release = sysbags.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "made_pages",
]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
smartquotes = False  # they would turn the dashes of options into one

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_html_meta = {
    "description": "Compare, classify, search and watch videos, and other histograms, by how they move."
}

default_role = "autolink"  # a name in backquotes leads to its page
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say it in words
numpydoc_show_class_members = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

sphinx_gallery_conf = {
    "examples_dirs": ["../tutorials", "../examples"],
    "gallery_dirs": ["tutorials", "gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib", "saved_pictures.saved_pictures"),
    "reset_argv": "saved_pictures.picture_argument",
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1,
    "thumbnail_size": (640, 320),
    "remove_config_comments": True,
    "capture_repr": (),
    "download_all_examples": True,
    "write_computation_times": False,  # its pages load scripts from other sites
}

html_theme = "pydata_sphinx_theme"
html_title = f"sysbags {release}"
html_static_path = ["_static"]
html_css_files = ["sysbags.css"]
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}
