"""Sphinx configuration. To build the site:

    python -m pip install '.[docs]' && sphinx-build -W docs docs/_build

Gallery examples run again only when they change; ``-D plot_gallery=0`` skips them all.
"""

import inspect
import os
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

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
            "plot_ring_kernel.py",
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


# methods and properties that the library uses on its own objects; users need none of them
INTERNAL = {
    *("state", "from_state", "held_out_for", "as_kind", "declared", "fill_missing", "for_vectors"),
    *("replaced", "from_bounds", "unseen_categories", "by_column", "n_kept_", "n_held_out_"),
    *("columns", "model_", "in_options"),
}


def documented_members(path):
    """[(directive, name)] of what a class page documents: ``fit`` first, properties last."""
    module, _, name = path.rpartition(".")
    kind = getattr(import_module(module), name)
    methods = []
    properties = []
    for owner in reversed(kind.__mro__):
        if not owner.__module__.startswith("conemetric"):
            continue  # what scikit-learn gives every estimator is documented there
        for member, value in vars(owner).items():
            known = member in methods or member in properties
            if member.startswith("_") or member in INTERNAL or known:
                continue
            if member.startswith("set_") and member.endswith("_request"):
                continue
            # a conditional method of scikit-learn holds its function as ``fn``
            function = getattr(value, "fn", getattr(value, "__func__", value))
            if not inspect.getdoc(function):
                continue
            if isinstance(value, property):
                properties.append(member)
            elif inspect.isfunction(function):
                methods.append(member)
    methods.sort(key=lambda member: member != "fit")
    pairs = [("method", member) for member in methods]
    return pairs + [("property", member) for member in properties]


autosummary_context = {"documented_members": documented_members}


def unlink_measures(app, doctree):
    """Measures such as nDCG@10 look like mail addresses to docutils, which links them."""
    for link in list(doctree.findall(nodes.reference)):
        if link.get("refuri") == f"mailto:{link.astext()}":
            link.replace_self(nodes.Text(link.astext()))


# pages that were split or renamed, and where their readers find it now
RENAMED = {
    "guide": "choosing",
    "decisions": "predicting",
    "retrieval": "ranking",
    "scale": "large_data",
    "neighbours": "large_data",
    "benchmarks": "results",
    "mathematics": "mathematics/index",
}


def redirect_renamed_pages(app, exception):
    if exception is not None or app.builder.name != "html":
        return
    for old, new in RENAMED.items():
        target = app.builder.get_relative_uri(old, new)
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">'
        Path(app.outdir, f"{old}.html").write_text(page)


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
    app.connect("doctree-read", unlink_measures)
    app.connect("doctree-read", link_public_names)
    app.connect("build-finished", redirect_renamed_pages)
