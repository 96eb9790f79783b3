"""How the documentation is built: ``python -m pip install '.[docs]' && sphinx-build -W
docs docs/_build``.
"""

import matplotlib

import conemetric

matplotlib.use("Agg")

project = "conemetric"
author = "The conemetric developers"
version = release = conemetric.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"conemetric {release}"
myst_heading_anchors = 3
autosummary_generate = True
numpydoc_show_class_members = False
default_role = "autolink"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "download_all_examples": False,
    "show_signature": False,
    "matplotlib_animations": False,
}
suppress_warnings = ["config.cache"]
