"""One page about an adapted embedding: what held-out queries gained, which won and lost,
how it was chosen, how far it is proven, how to use it.
"""

import html
import json

import numpy as np

from ... import __version__
from ...core.extras import require
from ...storage import atomic_path
from ..studies.adapting import MEASURES, Adaptation
from ..studies.learning import SIGNIFICANT
from . import content
from .page import as_json, card, definitions, render

SHOWN = 8  # queries won or lost
DOCUMENTS = 3  # of each, before and after
LONGEST = 160  # characters of a text
MAIN = "nDCG@10"
SIDES = {"queries": "queries only", "both": "queries and documents"}


def write_retrieval_report(path, adaptation: Adaptation, *, name="data", snippet="") -> None:
    """Write the report of an adaptation as one HTML file that needs no network.

    Parameters
    ----------
    path : str or path
    adaptation : Adaptation
    name : str
        What to call the collection.
    snippet : str
        Code that uses the map.
    """
    plotlyjs = require("plotly.offline", "cli").get_plotlyjs()
    from . import figures

    before, after = (adaptation.values[key][MAIN] for key in ("before", adaptation.chosen))
    order = np.argsort(after - before, kind="stable")
    titles = [query_text(adaptation, i) for i in range(len(before))]
    drawn = {
        "differences": figures.differences_figure((after - before)[order], titles, order),
        "choice": figures.choice_figure(paths(adaptation)),
    }
    history = content.history(adaptation)
    if history:
        drawn["convergence"] = figures.convergence_figure(history)
    won, lost = int((after > before).sum()), int((after < before).sum())
    fields = {
        "name": html.escape(name),
        "what": "an adapted embedding",
        "headline": headline(adaptation),
        "protocol": protocol(adaptation),
        "cards": cards(adaptation),
        "taken": SIDES[adaptation.chosen],
        "measures": measures_table(adaptation),
        "counts": f"{won:,} queries won, {lost:,} lost, {len(before) - won - lost:,} stayed.",
        "won": queries_table(adaptation, [i for i in order[::-1] if after[i] > before[i]][:SHOWN]),
        "lost": queries_table(adaptation, [i for i in order if after[i] < before[i]][:SHOWN]),
        "facts": facts(adaptation),
        "snippet": html.escape(snippet),
        "advice": html.escape(advice(adaptation)),
        "notes": "".join(f"<li>{html.escape(note)}</li>" for note in adaptation.notes)
        or "<li>Nothing out of the ordinary.</li>",
        "version": __version__,
        "kinds": "" if history else "no-convergence",
        "figures": as_json({key: json.loads(figure.to_json()) for key, figure in drawn.items()}),
        "data": "{}",
        "plotly": plotlyjs.replace("</script", "<\\/script"),
    }
    with atomic_path(path) as temporary:
        temporary.write_text(render(fields, "retrieval.html"), encoding="utf-8")


# ---- words


def headline(adaptation):
    """What came of it, in one sentence that does not overclaim."""
    if adaptation.estimator.C_ == 0:
        return (
            "No setting ranked training queries that were held out better than the embedding "
            "does by more than a standard error, so it was left as it is."
        )
    before, after = (adaptation.values[key][MAIN].mean() for key in ("before", adaptation.chosen))
    change = adaptation.difference(MAIN)
    figures = (
        f"mean {MAIN} {100 * after:.1f} against {100 * before:.1f} on {change.n:,} held-out "
        f"queries, p = {change.p_value:.2g}"
    )
    if change.p_value <= SIGNIFICANT and after > before:
        return f"Use it: {figures}."
    finding = "Worse than" if change.p_value <= SIGNIFICANT else "No measurable gain over"
    return f"{finding} the embedding as it is ({figures}): keep the embedding."


def protocol(adaptation):
    collection = adaptation.collection
    return (
        f"{len(collection.documents):,} documents of {collection.documents.shape[1]} dimensions; "
        f"learned from {adaptation.n_training:,} judged queries, judged on "
        f"{len(adaptation.held_out):,} others; compared by {adaptation.options.similarity}."
    )


def cards(adaptation):
    estimator, change = adaptation.estimator, adaptation.difference(MAIN)
    certificate = estimator.certificate_
    before, after = (
        100 * adaptation.values[key][MAIN].mean() for key in ("before", adaptation.chosen)
    )
    interval = f"95 % interval {100 * change.low:+.1f} to {100 * change.high:+.1f}"
    entries = [
        (f"{MAIN} before", f"{before:.1f}", "the embedding as it is", "before"),
        (f"{MAIN} after", f"{after:.1f}", f"{type(estimator).__name__}", "after"),
        ("Difference", f"{100 * change.difference:+.1f}", interval, ""),
        ("Proven gap", f"{abs(certificate.relative_gap):.1e}", f"{certificate.status}", ""),
        (
            "Maps",
            "queries" if adaptation.chosen == "queries" else "both sides",
            _index(adaptation),
            "",
        ),
        ("Learning time", f"{adaptation.seconds[adaptation.chosen]:.1f} s", "choice included", ""),
    ]
    return "".join(card(*entry) for entry in entries)


def _index(adaptation):
    if adaptation.chosen == "both" or adaptation.options.n_components is not None:
        return "documents go into the index anew"
    return "the documents' index stays"


def measures_table(adaptation):
    head = "".join(
        f"<th scope='col'>{name}</th>"
        for name in ("", "before", *(SIDES[key] for key in adaptation.fitted), "difference", "p")
    )
    rows = [f"<tr>{head}</tr>"]
    for measure in MEASURES:
        means = [
            f"{100 * adaptation.values[key][measure].mean():.1f}"
            for key in ("before", *adaptation.fitted)
        ]
        change = adaptation.difference(measure)
        spread = (
            f"{100 * change.difference:+.1f} ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
        )
        cells = "".join(f"<td>{value}</td>" for value in (*means, spread, f"{change.p_value:.2g}"))
        rows.append(f"<tr><th scope='row'>{measure}</th>{cells}</tr>")
    return "".join(rows)


def facts(adaptation):
    estimator = adaptation.estimator
    certificate, setting = estimator.certificate_, estimator.setting_
    rows = [
        ("Estimator", type(estimator).__name__),
        ("Maps", SIDES[adaptation.chosen]),
        ("C, margin", f"{setting.C:.3g}, {setting.margin:g}"),
        ("Negatives", f"{setting.n_hard} nearest and {setting.n_random} random for each query"),
        ("Objective of the map", f"{certificate.primal:.6g}"),
        ("Proven bound on the optimum", f"{certificate.dual:.6g}"),
        ("Relative gap", f"{certificate.relative_gap:.3g}"),
        ("Status", str(certificate.status)),
        *(
            (f"Time, {SIDES[key]}", f"{seconds:.2f} s")
            for key, seconds in adaptation.seconds.items()
        ),
    ]
    return definitions(rows)


def advice(adaptation):
    if adaptation.estimator.C_ == 0:
        return (
            "The map changes no ranking: keep the embedding, judge more queries, or judge the "
            "documents that it ranks first."
        )
    if adaptation.chosen == "both":
        return (
            "Queries and documents go through the same map, and Euclidean distance compares "
            "them: build the index from the mapped documents."
        )
    if adaptation.options.n_components is not None:
        return "Build the index from the shorter documents, and search it with shorter queries."
    return (
        "Only queries go through the map; the index of the documents stays as it is, and so does "
        "its way of comparing."
    )


# ---- queries


def query_text(adaptation, i):
    """What to call the i-th held-out query."""
    collection, query = adaptation.collection, adaptation.held_out[i]
    return _text(query, collection.query_texts) or _name(query, collection.query_names, "query")


def document_text(collection, document):
    name = _name(document, collection.document_names, "document")
    text = _text(document, collection.document_texts)
    return f"{name}: {text}" if text else name


def _name(row, names, kind):
    return f"{kind} {row}" if names is None else str(names[row])


def _text(row, texts):
    text = "" if texts is None else " ".join((texts[row] or "").split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\u2026"


def queries_table(adaptation, queries):
    if not queries:
        return "<p>None.</p>"
    before, after = (adaptation.values[key][MAIN] for key in ("before", adaptation.chosen))
    head = "".join(
        f"<th scope='col'>{name}</th>"
        for name in ("query", MAIN, "first documents before", "first documents after")
    )
    rows = [f"<tr>{head}</tr>"]
    for i in queries:
        lists = [
            documents_list(adaptation, i, adaptation.rankings[key][i, :DOCUMENTS])
            for key in ("before", adaptation.chosen)
        ]
        values = f"{100 * before[i]:.0f} \u2192 {100 * after[i]:.0f}"
        rows.append(
            f"<tr><th scope='row'>{html.escape(query_text(adaptation, i))}</th><td>{values}</td>"
            + "".join(
                f"<td data-label='{label}'><ol>{items}</ol></td>"
                for label, items in zip(("before", "after"), lists, strict=True)
            )
            + "</tr>"
        )
    return f"<table class='queries'>{''.join(rows)}</table>"


def documents_list(adaptation, i, documents):
    collection = adaptation.collection
    judged = collection.relevance[collection.relevance[:, 0] == adaptation.held_out[i]]
    relevant = set(judged[judged[:, 2] > 0, 1].tolist())
    items = []
    for document in documents.tolist():
        text = document_text(collection, document)
        mark = "<strong>relevant</strong> " if document in relevant else ""
        items.append(f"<li>{mark}{html.escape(text)}</li>")
    return "".join(items)


def paths(adaptation):
    """(name, C, gain, standard error) of each path tried, in points of nDCG@10."""
    found: dict[str, list] = {}
    for key, estimator in adaptation.fitted.items():
        for candidate in estimator.candidates_:
            setting = candidate.setting
            if setting.C == 0:
                continue
            side = "queries" if key == "queries" else "both"
            negatives = "" if setting.n_hard else ", random only"
            name = f"{side}, margin {setting.margin:g}{negatives}"
            found.setdefault(name, []).append(
                (setting.C, 100 * candidate.gain, 100 * candidate.standard_error)
            )
    return {name: np.array(values).T for name, values in found.items()}
