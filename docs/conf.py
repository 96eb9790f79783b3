"""How the documentation is built: ``python -m pip install '.[docs]' && sphinx-build -W
docs docs/_build``. Examples that did not change are not run again.
"""

import matplotlib
from sphinx_gallery.sorting import FileNameSortKey

import conemetric

matplotlib.use("Agg")

project = "conemetric"
author = "The conemetric developers"
copyright = "2026, the conemetric developers"
version = release = conemetric.__version__
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme = "furo"
html_title = f"conemetric {release}"
myst_heading_anchors = 3
autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # methods stand below their class, in full
default_role = "autolink"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": FileNameSortKey,
    "backreferences_dir": "generated/examples",
    "doc_module": ("conemetric",),
    "capture_repr": (),  # what an example prints, it prints
    "download_all_examples": False,
    "show_signature": False,
    "matplotlib_animations": False,
}
suppress_warnings = ["config.cache"]


def leave_out(app, what, name, member, skip, options):
    """Methods that scikit-learn gives every estimator are documented there."""
    module = getattr(member, "__module__", None) or ""
    routing = name.startswith("set_") and name.endswith("_request")
    foreign = module.startswith("sklearn.") and name != "fit_transform"
    return True if routing or foreign else skip


def setup(app):
    app.connect("autodoc-skip-member", leave_out)
