"""``conemetric adapt``: from judged queries to a better ranking, with the embedding frozen."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ...core.progress import emit
from .files import check_file, output_folder, write_csv
from .invocation import progress_bar, state
from .options import Adapting, Command, Overwrite, Sources, folder_for
from .wording import grid, in_words, plural, written

if TYPE_CHECKING:
    from ..studies.adapting import Adaptation

FILES = {"adapter": "adapter.safetensors", "report": "report.html", "table": "table.csv"}
DOCUMENT_MAP = "documents.safetensors"
WEIGHTS = "fusion.json"
QUERY = {True: "query.sql", False: "query.json"}  # for the target: a statement or a document
N_EXAMPLES = 10  # rankings stored with it
COLLECTION = (
    "Folder in BEIR's layout, or npz file with queries, documents and relevance; scikit-learn's "
    "reference pages when left out."
)
EMBEDDING = "embedding"  # its column, as `ranking.columns` calls it
MAPPED = {"queries": "queries only, the index stays", "both": "queries and documents"}


@dataclass(frozen=True, kw_only=True)
class Adapt(Command, Adapting, Sources):
    """Options of `adapt`."""

    data: Annotated[str | None, typer.Argument(metavar="[COLLECTION]", help=COLLECTION)] = None
    out: Annotated[Path | None, folder_for("adapter.safetensors, report.html and table.csv")] = None
    overwrite: Overwrite = False


def adapt(given: Adapt) -> None:
    """Adapt a frozen embedding to judged queries, judge it on held-out queries, and
    write the map, a report and a table.

    [dim]conemetric adapt --lexical
    conemetric adapt --queries q.parquet --documents d.parquet --relevance qrels.tsv
    conemetric adapt beir/scifact --encode all-MiniLM-L6-v2 --lexical
    conemetric adapt beir/scifact --scores bm25.trec --scores colbert.trec
    conemetric adapt beir/scifact --lexical --target pgvector
    conemetric adapt collection.npz --map queries[/]
    """
    data = given.data
    for place in (data, given.queries, given.documents, given.relevance, *(given.scores or ())):
        if place is not None and not Path(place).is_dir():
            check_file(place)
    out = output_folder(
        given.out, [*FILES.values(), DOCUMENT_MAP, WEIGHTS, *QUERY.values()], given.overwrite
    )

    from ..report.adaptation import write_retrieval_report
    from ..studies.adapting import adapt as run_adaptation
    from ..studies.adapting import check_options
    from .collections import read_collection
    from .scores import postgres_language, read_scores

    with progress_bar():
        emit("stage", stage="reading")
        collection, notes = read_collection(data, given)
        check_options(given)
        scores, more = read_scores(collection, given, given.target)
        found = run_adaptation(replace(collection, scores=scores), given)
        found.notes[:0] = notes + more
        emit("stage", stage="writing the report")
        files = save(found, out, postgres_language(given.language))
        name, code = _name(data, given.relevance), snippet(found, files, out)
        write_retrieval_report(out / FILES["report"], found, name=name, snippet=code)
        write_csv(out / FILES["table"], query_rows(found))
    _answer(found, name, files, out)


def _name(data, relevance):
    """What to call the collection: its file or folder, or the folder of its files."""
    if data is not None:
        return Path(data).resolve().stem
    return "reference pages" if relevance is None else Path(relevance).resolve().parent.name


def save(found: "Adaptation", out: Path, language: str = "english") -> dict[str, str]:
    """Write the map, or both maps where queries and documents have one each."""
    import numpy as np

    from ...export import to_hybrid_query
    from ...export.base import write_json
    from ...storage import LearnedAdapter, save_metric

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
    if found.options.target is not None and found.contributions:
        query = to_hybrid_query(found.estimator, language=language, examples=_examples(found))
        files["query"] = QUERY[isinstance(query, str)]
        if isinstance(query, str):
            (out / files["query"]).write_text(query, encoding="utf-8")
        else:
            write_json(out / files["query"], query)
    return files


def _examples(found):
    """Held-out queries and their first documents, None where there are no texts."""
    from ...export import Examples

    rows, of = found.held_out[:N_EXAMPLES], found.collection
    if of.query_texts is None:
        return None
    first = found.rankings[found.chosen][: len(rows), :10].tolist()
    names = of.document_names or range(len(of.documents))
    documents = [[names[document] for document in row if document >= 0] for row in first]
    return Examples(of.queries[rows], [of.query_texts[row] for row in rows], documents)


def snippet(found: "Adaptation", files: dict[str, str], out: Path) -> str:
    """Code that uses what was written."""
    places = {kind: json.dumps(str(out / file)) for kind, file in files.items()}
    lines = [
        "from conemetric import load_metric",
        "",
        f"adapter = load_metric({places['adapter']})",
    ]
    scores = ""
    if found.chosen == "both":
        lines += [
            "index = adapter.transform(document_vectors)  # of vectors of norm one",
            "found = adapter.transform(query_vectors)  # compare by Euclidean distance",
        ]
    else:
        where = "the index as it is"
        if "documents" in files:
            lines.append(f"index = load_metric({places['documents']}).transform(document_vectors)")
            where = "the shorter index"
        lines.append(f"found = adapter.transform(query_vectors)  # then search {where}")
    if "weights" in files:
        used = [score.name for score in found.contributions if score.weight]
        columns = (f'"{name}": {name}_scores' for name in used if name != EMBEDDING)
        scores = f", {{{', '.join(columns)}}}"
        lines.append(f"# with the other scores, sparse (n_queries, n_documents): {formula(found)}")
    lines.append(f"first, values = adapter.rank(query_vectors, document_vectors{scores}, k=10)")
    if "query" in files:
        target = found.options.target
        lines.append(f"# the same ranking in {target}: {places['query']}")
        if target == "pgvector":
            lines.append(
                f"# psql -f {places['query']}, then SELECT * FROM learned_rank($1, $2, 10): $1 a "
                "vector as encoded, $2 the words"
            )
    return "\n".join(lines)


def formula(found: "Adaptation") -> str:
    """The learned sum of scores."""
    scaled = found.estimator.normalization_
    terms = [
        f"{score.weight:.3g} {score.name if score.name == EMBEDDING else f'{scaled}({score.name})'}"
        for score in found.contributions
        if score.weight
    ]
    return " + ".join(terms)


def query_rows(found: "Adaptation") -> list[dict[str, Any]]:
    """Every measure of every held-out query, before and after."""
    from ..studies.adapting import MEASURES

    names = found.collection.query_names
    rows: list[dict[str, Any]] = []
    for i, query in enumerate(found.held_out.tolist()):
        rows.append({"query": query if names is None else names[query]})
        for measure in MEASURES:
            for when, key in (("before", "before"), ("after", found.chosen)):
                rows[-1][f"{measure} {when}"] = float(found.values[key][measure][i])
    return rows


def _answer(found: "Adaptation", name: str, files: dict[str, str], out: Path) -> None:
    """Print the measures before and after, what was learned and how to use it."""
    from ..report.adaptation import SCORES_HEADINGS, headline, scores_table
    from ..studies.adapting import MAIN, MEASURES

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
            *([escape(snippet(found, files, out))] if found.helps else []),
        ],
    )


def _table(found, name, changes):
    """The measures before and after, for the screen."""
    from ..studies.adapting import MAIN

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
    from ..studies.adapting import SIGNIFICANT

    if change.p_value <= SIGNIFICANT:
        return []
    return [
        f"On {plural(change.n, 'query')} a difference of less than about "
        f"{50 * (change.high - change.low):.1f} points cannot be distinguished from chance: judge more queries."
    ]
