"""Sphinx configuration. To build the site:

    python -m pip install '.[docs]' && sphinx-build -W docs docs/_build

Gallery examples run again only when they change; ``-D plot_gallery=0`` skips them all.
"""

import os
from importlib.util import find_spec

import matplotlib
from docutils import nodes
from sphinx import addnodes
from sphinx_gallery.sorting import ExplicitOrder

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
    "sphinx.ext.mathjax",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
if find_spec("sphinx_copybutton"):
    extensions.append("sphinx_copybutton")
if "READTHEDOCS" in os.environ:  # elsewhere the build needs no network
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
}
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_theme = "furo"
html_title = f"conemetric {release}"
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # each class page documents its methods in full
default_role = "autolink"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": ExplicitOrder(  # what people do first comes first
        [
            "plot_digits.py",
            "plot_pairs.py",
            "plot_retrieval.py",
            "plot_concentric_circles.py",
            "plot_kernel_relative_comparisons.py",
            "*",
        ]
    ),
    "backreferences_dir": "generated/examples",
    "doc_module": ("conemetric",),
    "capture_repr": (),  # show only what an example prints
    "download_all_examples": False,
    "show_signature": False,
    "matplotlib_animations": False,
}
suppress_warnings = ["config.cache"]


def skip_inherited(app, what, name, member, skip, options):
    """Leave out the methods that scikit-learn gives every estimator; they are documented there."""
    module = getattr(member, "__module__", None) or ""
    routing = name.startswith("set_") and name.endswith("_request")
    foreign = module.startswith("sklearn.") and name != "fit_transform"
    return True if routing or foreign else skip


def link_public_names(app, doctree):
    """Link every public name in code font on a Markdown page to its page in the API."""
    if app.env.doc2path(app.env.docname).suffix != ".md":
        return
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext()
        linked = isinstance(literal.parent, nodes.title | nodes.reference | addnodes.pending_xref)
        if name in conemetric.__all__ and not linked:
            target = {"refdomain": "py", "reftype": "obj", "reftarget": f"conemetric.{name}"}
            link = addnodes.pending_xref("", **target, refdoc=app.env.docname, refwarn=True)
            literal.replace_self(link)
            link += literal


def setup(app):
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("doctree-read", link_public_names)
