"""The report of an adaptation: what held-out queries gained and lost, and how to use the map."""

from os import PathLike
from typing import Any

import numpy as np

from ..studies.adapting import MAIN, MEASURES, RRF, SIGNIFICANT, Adaptation, Contribution
from .metric import proof_facts, write_page

SHOWN = 8  # queries with the largest gains, and with the largest losses
DOCUMENTS = 3  # of each, before and after
LONGEST = 160  # characters of a text
SCORES_HEADINGS = ("", MAIN, "sum gains", "p", "weight", "rescued", "lost")
SIDES = {"queries": "queries only", "both": "queries and documents"}


def write_retrieval_report(
    path: str | PathLike, adaptation: Adaptation, *, name: str = "data", snippet: str = ""
) -> None:
    """Write the report of an adaptation as one HTML file that needs no network; ``name`` is what
    to call the collection, ``snippet`` code that uses the map.
    """
    before, after = (adaptation.values[key][MAIN] for key in ("before", adaptation.chosen))
    order = np.argsort(after - before, kind="stable")
    fields = {
        "name": name,
        "adaptation": adaptation,
        "headline": headline(adaptation),
        "paths": paths(adaptation),
        "sides": SIDES,
        "measures": MEASURES,
        "main_measure": MAIN,
        "scores_headings": SCORES_HEADINGS,
        "scores": scores_table(adaptation),
        # queries that have a relevant document among the first 10 thanks to a score
        "rescued": [
            (score.name, _query(adaptation, query))
            for score in adaptation.contributions
            for query in adaptation.held_out[score.rescued[:SHOWN]]
        ],
        "n_won": int((after > before).sum()),
        "n_lost": int((after < before).sum()),
        "won": [query_row(adaptation, i) for i in order[::-1] if after[i] > before[i]][:SHOWN],
        "lost": [query_row(adaptation, i) for i in order if after[i] < before[i]][:SHOWN],
        "proof": proof_facts("map", adaptation.estimator.certificate_),
        "snippet": snippet,
        "notes": adaptation.notes,
    }
    write_page(path, "retrieval.html", fields)


# ---- words


def headline(found: Adaptation) -> str:
    """Whether to use the map, in a sentence that does not overclaim."""
    if found.unchanged:
        return (
            "No setting ranked held-out training queries better than the embedding by more than its "
            "standard error: keep the embedding."
        )
    change = found.difference(MAIN)
    scores = (
        f"mean {MAIN} {found.mean(MAIN):.1f} against {found.mean(MAIN, 'before'):.1f} on "
        f"{change.n:,} held-out queries, p = {change.p_value:.2g}"
    )
    if found.helps:
        return f"Use it: {scores}."
    finding = "Worse than" if change.p_value <= SIGNIFICANT else "No measurable gain over"
    return f"{finding} the original embedding ({scores}): keep the embedding."


def scores_table(found: Adaptation) -> list[tuple[str, ...]]:
    """A row for the embedding, each column, reciprocal rank fusion and the learned sum: means,
    by how much the learned sum is better, weights, and how many queries each score rescued and
    lost; empty without columns.
    """
    if not found.contributions:
        return []
    embedding, *columns = found.contributions

    def row(label: str, key: str, score: Contribution | None = None) -> tuple[str, ...]:
        change = found.difference(MAIN, against=key)
        gain = f"{100 * change.difference:+.1f}", f"{change.p_value:.2g}"
        shares = ("", "", "")
        if score is not None:
            shares = (f"{score.weight:.3g}", str(len(score.rescued)), str(len(score.lost)))
        mean = f"{found.mean(MAIN, key):.1f}"
        return (label, mean, *(("", "") if key == found.chosen else gain), *shares)

    return [
        row("embedding alone", "before", embedding),
        *(row(f"{column.name} alone", f"{column.name} alone", column) for column in columns),
        row("rank fusion (RRF)", RRF),
        row("learned sum", found.chosen),
    ]


# ---- queries


def query_row(found: Adaptation, i: int) -> dict[str, Any]:
    """The i-th held-out query: its text, its values, its first documents before and after."""
    collection, query = found.collection, found.held_out[i]
    before, after = (found.values[key][MAIN][i] for key in ("before", found.chosen))
    judged = collection.relevance[collection.relevance[:, 0] == query]
    relevant = set(judged[judged[:, 2] > 0, 1].tolist())
    return {
        "text": _query(found, query),
        "change": f"{100 * before:.0f} \u2192 {100 * after:.0f}",
        "documents": {
            label: [
                (document in relevant, _document(collection, document))
                for document in found.rankings[key][i, :DOCUMENTS].tolist()
            ]
            for label, key in (("before", "before"), ("after", found.chosen))
        },
    }


def _query(found, query):
    """The text of a query, or its name."""
    names = found.collection.query_names
    return _text(query, found.collection.query_texts) or _name(query, names, "query")


def _document(collection, document):
    """The name of a document, and the beginning of its text."""
    name = _name(document, collection.document_names, "document")
    text = _text(document, collection.document_texts)
    return f"{name}: {text}" if text else name


def _name(row, names, kind):
    return f"{kind} {row}" if names is None else str(names[row])


def _text(row, texts):
    text = "" if texts is None else " ".join((texts[row] or "").split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\u2026"


def paths(found: Adaptation) -> list[tuple[str, ...]]:
    """For each path tried: its name, and the C of the largest gain with its standard error."""
    tried: dict[str, list] = {}
    for side, estimator in found.fitted.items():
        for candidate in estimator.candidates_:
            setting = candidate.setting
            if setting.C == 0:
                continue
            negatives = "" if setting.n_hard else ", random only"
            scores = ", with the other scores" if setting.normalization else ""
            name = f"{side}, margin {setting.margin:g}{negatives}{scores}"
            tried.setdefault(name, []).append(candidate)
    best = {name: max(each, key=lambda candidate: candidate.gain) for name, each in tried.items()}
    return [
        (name, f"{each.setting.C:.3g}", f"{100 * each.gain:+.1f} ± {100 * each.standard_error:.1f}")
        for name, each in best.items()
    ]
