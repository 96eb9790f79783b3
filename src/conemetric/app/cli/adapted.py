"""What ``conemetric adapt`` writes and prints."""

from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from ...export import to_hybrid_query
from ...export.base import write_json
from ...ranking.columns import EMBEDDING
from ...storage import LearnedAdapter, save_metric
from ..report.retrieval import SCORES_HEADINGS, headline, scores_table
from ..studies.adapting import MAIN, MEASURES, Adaptation
from ..studies.learning import SIGNIFICANT
from .adapting import DOCUMENT_MAP, FILES, WEIGHTS
from .invocation import state
from .wording import grid, in_words, plural, written


def save(found: Adaptation, out: Path) -> dict[str, str]:
    """Write the map, or both maps where queries and documents have one each."""
    notes = {"maps": found.chosen, "similarity": found.options.similarity}
    save_metric(out / FILES["adapter"], found.estimator, notes=notes)
    files = dict(FILES)
    components = getattr(found.estimator, "document_components_", None)
    if components is not None:
        side = LearnedAdapter(
            components,
            np.zeros(len(components)),
            method="QueryAdapter",
            notes={"maps": "documents"},
        )
        save_metric(out / DOCUMENT_MAP, side)
        files["documents"] = DOCUMENT_MAP
    if found.uses_scores:
        write_json(out / WEIGHTS, to_hybrid_query(found.estimator, "json"))
        files["weights"] = WEIGHTS
    return files


def snippet(found: Adaptation, files: dict[str, str]) -> str:
    """Code that uses what was written."""
    lines = ["from conemetric import load_metric", ""]
    if found.chosen == "both":
        lines += [
            f'metric = load_metric("{files["adapter"]}")  # of vectors of norm one',
            "index = metric.transform(document_vectors)",
            "found = metric.transform(query_vectors)  # compare by Euclidean distance",
        ]
    else:
        lines.append(f'adapter = load_metric("{files["adapter"]}")')
        if "documents" in files:
            lines.append(f'index = load_metric("{files["documents"]}").transform(document_vectors)')
        where = "the shorter index" if "documents" in files else "the index as it is"
        lines.append(f"found = adapter.transform(query_vectors)  # then search {where}")
    if "weights" in files:
        lines.append(f"# then add the other scores, by {files['weights']}: {formula(found)}")
    return "\n".join(lines)


def formula(found: Adaptation) -> str:
    """The learned sum of scores."""
    scaled = found.estimator.normalization_
    terms = [
        f"{score.weight:.3g} {score.name if score.name == EMBEDDING else f'{scaled}({score.name})'}"
        for score in found.contributions
        if score.weight
    ]
    return " + ".join(terms)


def query_rows(found: Adaptation) -> list[dict[str, Any]]:
    """Every measure of every held-out query, before and after."""
    names = found.collection.query_names
    rows: list[dict[str, Any]] = []
    for i, query in enumerate(found.held_out.tolist()):
        rows.append({"query": query if names is None else names[query]})
        for measure in MEASURES:
            for when, key in (("before", "before"), ("after", found.chosen)):
                rows[-1][f"{measure} {when}"] = float(found.values[key][measure][i])
    return rows


MAPPED = {"queries": "queries only, the index stays", "both": "queries and documents"}


def answer(found: Adaptation, name: str, files: dict[str, str], out: Path) -> None:
    """Print the measures before and after, what was learned and how to use it."""
    certificate = found.estimator.certificate_
    changes = {measure: found.difference(measure) for measure in MEASURES}
    values = {
        "data": name,
        "queries": len(found.collection.queries),
        "documents": len(found.collection.documents),
        "held_out": len(found.held_out),
        "map": found.chosen,
        "means": {
            key: {measure: float(values.mean()) for measure, values in of.items()}
            for key, of in found.values.items()
        },
        "differences": {measure: change._asdict() for measure, change in changes.items()},
        "setting": vars(found.estimator.setting_),
        "relative_gap": certificate.relative_gap,
        "status": str(certificate.status),
        "seconds": found.seconds,
        "files": {kind: str(out / file) for kind, file in files.items()},
    }
    shown = [_table(found, name, changes)]
    if found.contributions:
        values["scores"] = {each.name: _contribution(found, each) for each in found.contributions}
        shown.append(grid("Every score alone, and together", SCORES_HEADINGS, scores_table(found)))
    tried = ", ".join(
        f"{MAPPED[key]} {found.mean(MAIN, key):.1f} ({found.seconds[key]:.1f} s)"
        for key in found.fitted
    )
    state.answer(
        values,
        *shown,
        f"maps {MAPPED[found.chosen]}; {MAIN} of what was tried: {tried}",
        f"certificate: {in_words(certificate)}",
        notes=found.notes,
        last=[
            written(out, ", ".join(files.values())),
            f"[bold]{escape(headline(found))}[/]",
            *_why_unsure(changes[MAIN]),
            escape(snippet(found, files)),
        ],
    )


def _table(found, name, changes):
    """The measures before and after, for the screen."""
    queries = plural(len(found.held_out), "query")
    return grid(
        f"{name}: {queries} held out, {plural(len(found.collection.documents), 'document')}",
        ("", "before", "after", "difference", "95 % interval", "p"),
        [
            (
                f"[bold]{measure}[/]" if measure == MAIN else measure,
                f"{found.mean(measure, 'before'):.1f}",
                f"{found.mean(measure):.1f}",
                f"{100 * change.difference:+.1f}",
                f"{100 * change.low:+.1f} to {100 * change.high:+.1f}",
                f"{change.p_value:.2g}",
            )
            for measure, change in changes.items()
        ],
    )


def _contribution(found, score):
    """The weight of a score, and the names of the queries that it rescued and lost."""
    names = found.collection.query_names
    rows = {kind: found.held_out[getattr(score, kind)].tolist() for kind in ("rescued", "lost")}
    if names is not None:
        rows = {kind: [names[row] for row in of] for kind, of in rows.items()}
    return {"weight": score.weight, **rows}


def _why_unsure(change):
    """How large a difference would have to be, if this one may be chance."""
    if change.p_value <= SIGNIFICANT:
        return []
    return [
        f"On {plural(change.n, 'query')} a difference of less than about "
        f"{50 * (change.high - change.low):.1f} points cannot be distinguished from chance: judge more queries."
    ]
