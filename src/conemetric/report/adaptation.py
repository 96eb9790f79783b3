"""The report of an adaptation: what held-out queries gained and lost, and how to use the map."""

from os import PathLike
from typing import Any

import numpy as np

from ..evaluation.statistics import p_in_words
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
    before = adaptation.values["before"][MAIN]
    after = adaptation.values[adaptation.chosen][MAIN]
    order = np.argsort(after - before, kind="stable")
    won = [i for i in order[::-1] if after[i] > before[i]]
    lost = [i for i in order if after[i] < before[i]]
    # those that gained or lost most
    shown_won = [query_row(adaptation, i) for i in won[:SHOWN]]
    shown_lost = [query_row(adaptation, i) for i in lost[:SHOWN]]
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
        "rescued": _rescued(adaptation),
        "n_won": len(won),
        "n_lost": len(lost),
        "won": shown_won,
        "lost": shown_lost,
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
        f"{change.n:,} held-out queries, {p_in_words(change.p_value)}"
    )
    if found.helps:
        return f"Use it: {scores}.{_beside_rank_fusion(found)}"
    finding = "No measurable gain over"
    if change.p_value <= SIGNIFICANT:
        finding = "Worse than"
    return f"{finding} the original embedding ({scores}): keep the embedding."


def _beside_rank_fusion(found: Adaptation) -> str:
    """A sentence on rank fusion, which needs no training, where the map is not significantly better."""
    if RRF not in found.values:
        return ""
    gain = found.difference(MAIN, RRF)
    figures = f"{found.mean(MAIN, RRF):.1f}, {p_in_words(gain.p_value)}"
    if gain.p_value > SIGNIFICANT:
        return f" These queries cannot tell it apart from rank fusion, which needs no training ({figures})."
    if gain.difference < 0:
        return f" Rank fusion, which needs no training, is better ({figures})."
    return ""


def scores_table(found: Adaptation) -> list[tuple[str, ...]]:
    """A row for the embedding, each column, reciprocal rank fusion and the learned sum: means,
    by how much the learned sum is better, weights, and how many queries each score rescued and
    lost; empty without columns.
    """
    if not found.contributions:
        return []
    embedding, *columns = found.contributions

    def row(label: str, key: str, score: Contribution | None = None) -> tuple[str, ...]:
        gain = ("", "")
        if key != found.chosen:  # which gains nothing over itself
            change = found.difference(MAIN, against=key)
            gain = (f"{100 * change.difference:+.1f}", f"{change.p_value:.2g}")
        shares = ("", "", "")
        if score is not None:
            shares = (f"{score.weight:.3g}", str(len(score.rescued)), str(len(score.lost)))
        mean = f"{found.mean(MAIN, key):.1f}"
        return (label, mean, *gain, *shares)

    rows = [row("embedding alone", "before", embedding)]
    for column in columns:
        alone = f"{column.name} alone"
        rows.append(row(alone, alone, column))
    rows.append(row("rank fusion (RRF)", RRF))
    rows.append(row("learned sum", found.chosen))
    return rows


# ---- queries


def _rescued(found: Adaptation) -> list[tuple[str, str]]:
    """Queries that have a relevant document among the first 10 thanks to a score, and its name."""
    rescued = []
    for score in found.contributions:
        for query in found.held_out[score.rescued[:SHOWN]]:
            rescued.append((score.name, _query(found, query)))
    return rescued


def query_row(found: Adaptation, i: int) -> dict[str, Any]:
    """The i-th held-out query: its text, its values, its first documents before and after."""
    collection = found.collection
    query = found.held_out[i]
    before = found.values["before"][MAIN][i]
    after = found.values[found.chosen][MAIN][i]
    judged = collection.relevance[collection.relevance[:, 0] == query]
    relevant = set(judged[judged[:, 2] > 0, 1].tolist())

    def first_documents(key: str) -> list[tuple[bool, str]]:
        documents = found.rankings[key][i, :DOCUMENTS].tolist()
        return [(each in relevant, _document(collection, each)) for each in documents]

    return {
        "text": _query(found, query),
        "change": f"{100 * before:.0f} \u2192 {100 * after:.0f}",
        "documents": {
            "before": first_documents("before"),
            "after": first_documents(found.chosen),
        },
    }


def _query(found: Adaptation, query: int) -> str:
    """The text of a query, or its name."""
    names = found.collection.query_names
    return _text(query, found.collection.query_texts) or _name(query, names, "query")


def _document(collection, document):
    """The name of a document, and the beginning of its text."""
    name = _name(document, collection.document_names, "document")
    text = _text(document, collection.document_texts)
    if not text:
        return name
    return f"{name}: {text}"


def _name(row: int, names: Any, kind: str) -> str:
    """The name of a query or a document, else its number."""
    if names is None:
        return f"{kind} {row}"
    return str(names[row])


def _text(row: int, texts: Any) -> str:
    """The beginning of a text in one line; empty without texts."""
    if texts is None:
        return ""
    text = " ".join((texts[row] or "").split())
    if len(text) <= LONGEST:
        return text
    return text[: LONGEST - 1] + "\u2026"


def paths(found: Adaptation) -> list[tuple[str, ...]]:
    """For each path tried: its name, and the C of the largest gain with its standard error."""
    tried: dict[str, list] = {}
    for side, estimator in found.fitted.items():
        for candidate in estimator.candidates_:
            setting = candidate.setting
            if setting.C == 0:  # the map is the identity
                continue
            name = f"{side}, margin {setting.margin:g}"
            if not setting.n_hard:
                name += ", random only"
            if setting.normalization:
                name += ", with the other scores"
            tried.setdefault(name, []).append(candidate)
    rows: list[tuple[str, ...]] = []
    for name, candidates in tried.items():
        best = max(candidates, key=lambda candidate: candidate.gain)
        gain = f"{100 * best.gain:+.1f} ± {100 * best.standard_error:.1f}"
        rows.append((name, f"{best.setting.C:.3g}", gain))
    return rows
