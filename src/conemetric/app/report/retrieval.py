"""The report of an adaptation: what held-out queries gained, which gained and lost most, how the
map was chosen, how far it is proven, how to use it.
"""

from os import PathLike
from typing import Any

import numpy as np

from ..studies.adapting import MEASURES, Adaptation, Collection
from ..studies.hybrid import RRF, Contribution
from ..studies.learning import SIGNIFICANT
from . import content, figures
from .metric import proof_facts
from .rendering import Card, write_page

TABS = {
    "gain": "Gain",
    "queries": "Queries",
    "choice": "Choice",
    "proof": "Proof",
    "use": "Use it",
}
SHOWN = 8  # queries with the largest gains, and with the largest losses
DOCUMENTS = 3  # of each, before and after
LONGEST = 160  # characters of a text
MAIN = "nDCG@10"
SCORES_HEADINGS = ("", MAIN, "sum gains", "p", "weight", "rescued", "lost")
SIDES = {"queries": "queries only", "both": "queries and documents"}


def write_retrieval_report(
    path: str | PathLike, adaptation: Adaptation, *, name: str = "data", snippet: str = ""
) -> None:
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
    before, after = (adaptation.values[key][MAIN] for key in ("before", adaptation.chosen))
    order = np.argsort(after - before, kind="stable")
    won, lost = int((after > before).sum()), int((after < before).sum())
    fields = {
        "name": name,
        "what": "an adapted embedding",
        "headline": headline(adaptation),
        "protocol": protocol(adaptation),
        "cards": cards(adaptation),
        "tabs": TABS,
        "pictures": pictures(adaptation, (after - before)[order]),
        "chosen": SIDES[adaptation.chosen],
        "main_measure": MAIN,
        "measure_headings": (
            *("", "before"),
            *(SIDES[key] for key in adaptation.fitted),
            *("difference", "p"),
        ),
        "measures": measures_table(adaptation),
        "scores_headings": SCORES_HEADINGS,
        "scores": scores_table(adaptation),
        "rescued": rescued_rows(adaptation),
        "counts": f"{won:,} queries gained, {lost:,} lost, {len(before) - won - lost:,} unchanged.",
        "won": [query_row(adaptation, i) for i in order[::-1] if after[i] > before[i]][:SHOWN],
        "lost": [query_row(adaptation, i) for i in order if after[i] < before[i]][:SHOWN],
        "facts": facts(adaptation),
        "snippet": snippet,
        "advice": advice(adaptation),
        "notes": adaptation.notes,
    }
    write_page(path, "retrieval.html", fields)


def pictures(adaptation: Adaptation, differences: np.ndarray) -> dict[str, figures.Picture]:
    """The pictures of the page by name, as far as there is something to draw."""
    drawn = {"choice": figures.choice_picture(paths(adaptation))}
    if differences.any():
        drawn["differences"] = figures.differences_picture(differences)
    history = content.history(adaptation)
    if history:
        drawn["convergence"] = figures.convergence_picture(history)
    return drawn


# ---- words


def headline(adaptation: Adaptation) -> str:
    """Whether to use the map, in a sentence that does not overclaim."""
    if adaptation.unchanged:
        return (
            "No setting ranked held-out training queries better than the embedding does by more "
            "than a standard error: keep the embedding."
        )
    before, after = (adaptation.values[key][MAIN].mean() for key in ("before", adaptation.chosen))
    change = adaptation.difference(MAIN)
    scores = (
        f"mean {MAIN} {100 * after:.1f} against {100 * before:.1f} on {change.n:,} held-out "
        f"queries, p = {change.p_value:.2g}"
    )
    if change.p_value <= SIGNIFICANT and after > before:
        return f"Use it: {scores}."
    finding = "Worse than" if change.p_value <= SIGNIFICANT else "No measurable gain over"
    return f"{finding} the original embedding ({scores}): keep the embedding."


def protocol(adaptation: Adaptation) -> str:
    """How the map was judged, in a sentence."""
    collection = adaptation.collection
    return (
        f"{len(collection.documents):,} documents of {collection.documents.shape[1]} dimensions; "
        f"learned from {adaptation.n_training:,} judged queries, judged on "
        f"{len(adaptation.held_out):,} others; compared by {adaptation.options.similarity}."
    )


def cards(adaptation: Adaptation) -> list[Card]:
    """The numbers of the summary."""
    estimator, change = adaptation.estimator, adaptation.difference(MAIN)
    certificate = estimator.certificate_
    before, after = (
        100 * adaptation.values[key][MAIN].mean() for key in ("before", adaptation.chosen)
    )
    interval = f"95 % interval {100 * change.low:+.1f} to {100 * change.high:+.1f}"
    rebuilt = adaptation.chosen == "both" or adaptation.options.n_components is not None
    return [
        Card(f"{MAIN} before", f"{before:.1f}", "the original embedding"),
        Card(f"{MAIN} after", f"{after:.1f}", type(estimator).__name__),
        Card("Difference", f"{100 * change.difference:+.1f}", interval),
        Card("Proven gap", f"{abs(certificate.relative_gap):.1e}", str(certificate.status)),
        Card(
            "Maps",
            "queries" if adaptation.chosen == "queries" else "both sides",
            "index the mapped documents" if rebuilt else "the document index stays",
        ),
        Card("Learning time", f"{adaptation.seconds[adaptation.chosen]:.1f} s", "choice included"),
    ]


def measures_table(adaptation: Adaptation) -> list[tuple[str, ...]]:
    """A row for each measure: means before and after, difference with interval, p."""
    rows = []
    for measure in MEASURES:
        means = (
            f"{100 * adaptation.values[key][measure].mean():.1f}"
            for key in ("before", *adaptation.fitted)
        )
        change = adaptation.difference(measure)
        spread = f"({100 * change.low:+.1f} to {100 * change.high:+.1f})"
        difference = f"{100 * change.difference:+.1f} {spread}"
        rows.append((measure, *means, difference, f"{change.p_value:.2g}"))
    return rows


def scores_table(adaptation: Adaptation) -> list[tuple[str, ...]]:
    """A row for the embedding, each column, reciprocal rank fusion and the learned sum: means,
    by how much the learned sum is better, weights, and how many queries each score rescued and
    lost; empty without columns.
    """
    if not adaptation.contributions:
        return []
    embedding, *columns = adaptation.contributions
    rows: list[tuple[str, str, Contribution | None]] = [
        ("embedding alone", "before", embedding),
        *((f"{column.name} alone", f"{column.name} alone", column) for column in columns),
        ("rank fusion (RRF)", RRF, None),
        ("learned sum", adaptation.chosen, None),
    ]
    return [
        (
            label,
            f"{100 * adaptation.values[key][MAIN].mean():.1f}",
            *(
                ("", "")
                if key == adaptation.chosen
                else _gain(adaptation.difference(MAIN, against=key))
            ),
            *(("", "", "") if score is None else _shares(score)),
        )
        for label, key, score in rows
    ]


def _gain(change):
    return f"{100 * change.difference:+.1f}", f"{change.p_value:.2g}"


def _shares(score):
    return f"{score.weight:.3g}", str(len(score.rescued)), str(len(score.lost))


def rescued_rows(adaptation: Adaptation) -> list[tuple[str, str]]:
    """Scores, and queries that have a relevant document among the first 10 thanks to them."""
    texts, names = adaptation.collection.query_texts, adaptation.collection.query_names
    rows = []
    for score in adaptation.contributions:
        for query in adaptation.held_out[score.rescued[:SHOWN]]:
            rows.append((score.name, _text(query, texts) or _name(query, names, "query")))
    return rows


def facts(adaptation: Adaptation) -> list[tuple[str, str]]:
    """Setting, certificate and timings, by name."""
    estimator = adaptation.estimator
    setting = estimator.setting_
    return [
        ("Estimator", type(estimator).__name__),
        ("Maps", SIDES[adaptation.chosen]),
        ("C, margin", f"{setting.C:.3g}, {setting.margin:g}"),
        ("Negatives", f"{setting.n_hard} nearest and {setting.n_random} random for each query"),
        *proof_facts("map", estimator.certificate_),
        *(
            (f"Time, {SIDES[key]}", f"{seconds:.2f} s")
            for key, seconds in adaptation.seconds.items()
        ),
    ]


def advice(adaptation: Adaptation) -> str:
    """How to put the map to use."""
    if adaptation.unchanged:
        return (
            "The map changes no ranking: keep the embedding, judge more queries, or judge the "
            "documents that it ranks first."
        )
    if adaptation.uses_scores:
        return (
            "Search with the mapped queries, and add the other scores with their weights: "
            "fusion.json has them, and conemetric export writes them as queries of databases."
        )
    if adaptation.chosen == "both":
        return (
            "Queries and documents go through the same map, and Euclidean distance compares "
            "them: build the index from the mapped documents."
        )
    if adaptation.options.n_components is not None:
        return "Build the index from the shorter documents, and search it with shorter queries."
    return (
        "Only queries go through the map; the index of the documents and its way of comparing "
        "stay unchanged."
    )


# ---- queries


def query_row(adaptation: Adaptation, i: int) -> dict[str, Any]:
    """The i-th held-out query: its text, its values, its first documents before and after."""
    collection, query = adaptation.collection, adaptation.held_out[i]
    before, after = (adaptation.values[key][MAIN][i] for key in ("before", adaptation.chosen))
    judged = collection.relevance[collection.relevance[:, 0] == query]
    relevant = set(judged[judged[:, 2] > 0, 1].tolist())
    name = _name(query, collection.query_names, "query")
    return {
        "text": _text(query, collection.query_texts) or name,
        "change": f"{100 * before:.0f} \u2192 {100 * after:.0f}",
        "documents": {
            label: [
                (document in relevant, document_text(collection, document))
                for document in adaptation.rankings[key][i, :DOCUMENTS].tolist()
            ]
            for label, key in (("before", "before"), ("after", adaptation.chosen))
        },
    }


def document_text(collection: Collection, document: int) -> str:
    """The name of a document, and the beginning of its text."""
    name = _name(document, collection.document_names, "document")
    text = _text(document, collection.document_texts)
    return f"{name}: {text}" if text else name


def _name(row, names, kind):
    return f"{kind} {row}" if names is None else str(names[row])


def _text(row, texts):
    text = "" if texts is None else " ".join((texts[row] or "").split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\u2026"


def paths(adaptation: Adaptation) -> dict[str, np.ndarray]:
    """C, gain and standard error, in points of nDCG@10, along each path tried, by its name."""
    found: dict[str, list] = {}
    for key, estimator in adaptation.fitted.items():
        for candidate in estimator.candidates_:
            setting = candidate.setting
            if setting.C == 0:
                continue
            side = "queries" if key == "queries" else "both"
            negatives = "" if setting.n_hard else ", random only"
            scores = ", with the other scores" if setting.normalization else ""
            name = f"{side}, margin {setting.margin:g}{negatives}{scores}"
            found.setdefault(name, []).append(
                (setting.C, 100 * candidate.gain, 100 * candidate.standard_error)
            )
    return {name: np.array(values).T for name, values in found.items()}
