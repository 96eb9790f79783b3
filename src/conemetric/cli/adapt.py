"""``conemetric adapt``: from judged queries to a better ranking, with the embedding frozen."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..core.progress import emit
from ..ranking.engines import ENGINES
from .files import as_rows, output_folder, write_csv, write_query
from .invocation import progress_bar, state
from .options import Adapting, CollectionFiles, Command, Overwrite, folder_for
from .reading.reading import check_file
from .wording import grid, in_words, places, plural, written

if TYPE_CHECKING:
    from ..studies.adapting import Adaptation

FILES = {"adapter": "adapter.safetensors", "report": "report.html", "table": "table.csv"}
WEIGHTS = "fusion.json"
QUERY = {True: "query.sql", False: "query.json"}  # for the target: a statement or a document
N_EXAMPLES = 10  # rankings stored with it
COLLECTION = (
    "Folder in BEIR's layout, or npz file with queries, documents and relevance; default: "
    "scikit-learn's reference pages."
)
MAPPED = {"queries": "queries only, the index stays", "both": "queries and documents"}


@dataclass(frozen=True, kw_only=True)
class Adapt(Command, Adapting, CollectionFiles):
    """Options of `adapt`."""

    data: Annotated[str | None, typer.Argument(metavar="[COLLECTION]", help=COLLECTION)] = None
    out: Annotated[Path | None, folder_for("adapter.safetensors, report.html and table.csv")] = None
    overwrite: Overwrite = False


def adapt(given: Adapt) -> None:
    """Adapt a frozen embedding to judged queries, evaluate it on held-out queries, and
    write the map, a report and a table.

    [dim]conemetric adapt --lexical
    conemetric adapt --queries q.parquet --documents d.parquet --relevance qrels.tsv
    conemetric adapt beir/scifact --encode all-MiniLM-L6-v2 --lexical
    conemetric adapt beir/scifact --scores bm25.trec --scores colbert.trec
    conemetric adapt beir/scifact --lexical --target pgvector
    conemetric adapt collection.npz --map queries[/]
    """
    _refuse_unused(given)
    _check_places(given)
    # which of the last three are written is known only in the end
    out = output_folder(given.out, [*FILES.values(), WEIGHTS, *QUERY.values()], given.overwrite)

    from ..report.adaptation import write_retrieval_report
    from ..studies import adapting
    from .reading.collections import read_collection
    from .reading.scores import postgres_language, read_scores

    with progress_bar("reading"):
        collection, notes = read_collection(given.data, given)
        _refuse_share(given, collection)
        adapting.check_options(given)
        scores, more = read_scores(collection, given, given.target)
        found = adapting.adapt(replace(collection, scores=scores), given)
        found.notes[:0] = notes + more  # on what was read, before those on what was learned
        emit("stage", stage="writing the report")
        files = save(found, out, postgres_language(given.language))
        name = _name(given.data, given.relevance)
        code = snippet(found, files, out)
        write_retrieval_report(out / FILES["report"], found, name=name, snippet=code)
        write_csv(out / FILES["table"], query_rows(found))
    _answer(found, name, files, out)


def _check_places(given):
    """Refuse files that are not there, before anything is read."""
    for place in (given.data, given.queries, given.documents, given.relevance):
        if place is not None and not Path(place).is_dir():
            check_file(place)
    for place in given.scores or ():
        if not place.is_dir():
            check_file(place)


def _refuse_unused(given):
    """Refuse options about scores that there are none of, rather than ignore them."""
    if not (given.lexical or given.scores):
        if given.target in ENGINES:
            raise ValueError(
                f"--target {given.target} ranks by a sum of scores, and without --lexical or --scores "
                "FILE there is only the embedding, with no query to write; pass one of them, or leave "
                "--target out."
            )
        if given.normalization != Adapt.normalization:
            raise ValueError(
                f"--normalization {given.normalization} scales other scores, and there are none; pass "
                "--lexical or --scores FILE, or leave it out."
            )
    if given.server is not None and not (given.lexical and given.target == "pgvector"):
        raise ValueError(
            f"--server {given.server} scores words for pgvector; pass --lexical and --target pgvector "
            "too, or leave it out."
        )
    # the query of pgvector names a language whichever scores it adds up
    if given.language != Adapt.language and not (given.lexical or given.target == "pgvector"):
        raise ValueError(
            f"--language {given.language} is that of the texts which --lexical scores; pass --lexical "
            "too, or leave it out."
        )


def _refuse_share(given, collection):
    """Refuse a share of queries to hold out where the collection names those queries."""
    if collection.test is not None and given.test_size != Adapt.test_size:
        raise ValueError(
            f"--test-size {given.test_size:g} is a share to draw, and the collection says itself which "
            "queries are held out; leave it out."
        )


def _name(data, relevance):
    """What to call the collection: its file or folder, or the folder of its files."""
    if data is not None:
        return Path(data).resolve().stem
    if relevance is None:
        return "reference pages"
    return Path(relevance).resolve().parent.name


def save(found: "Adaptation", out: Path, language: str = "english") -> dict[str, str]:
    """Write the map, the weights of other scores, and the query for the target."""
    from ..export import to_hybrid_query
    from ..storage import save_metric

    notes = {"maps": found.chosen, "similarity": found.options.similarity}
    save_metric(out / FILES["adapter"], found.estimator, notes=notes)
    files = dict(FILES)
    if found.uses_scores:
        write_query(out / WEIGHTS, to_hybrid_query(found.estimator, "json"))
        files["weights"] = WEIGHTS
    if found.options.target is not None and found.contributions:
        query = to_hybrid_query(found.estimator, language=language, examples=_examples(found))
        files["query"] = QUERY[isinstance(query, str)]
        write_query(out / files["query"], query)
    return files


def _examples(found):
    """Held-out queries and their first documents, None where there are no texts."""
    from ..export import Examples

    collection = found.collection
    if collection.query_texts is None:
        return None
    rows = found.held_out[:N_EXAMPLES]
    names = collection.document_names or range(len(collection.documents))
    rankings = []
    for ranking in found.rankings[found.chosen][: len(rows), :10].tolist():
        listed = [document for document in ranking if document >= 0]  # -1: none left
        rankings.append([names[document] for document in listed])
    texts = [collection.query_texts[row] for row in rows]
    return Examples(collection.queries[rows], texts, rankings)


def snippet(found: "Adaptation", files: dict[str, str], out: Path) -> str:
    """Code that uses what was written."""
    adapter = json.dumps(str(out / files["adapter"]))
    lines = ["from conemetric import load_metric", "", f"adapter = load_metric({adapter})"]
    lines += _lines_that_search(found)
    scores = ""
    if "weights" in files:
        lines.append(f"# with the other scores, sparse (n_queries, n_documents): {formula(found)}")
        scores = f", {_columns_as_code(found)}"
    lines.append(f"first, values = adapter.rank(query_vectors, document_vectors{scores}, k=10)")
    if "query" in files:
        lines += _lines_on_query(found.options.target, json.dumps(str(out / files["query"])))
    return "\n".join(lines)


def _lines_that_search(found):
    """Code that maps what is searched, and says by what."""
    if found.chosen == "both":
        return [
            "index = adapter.transform(document_vectors)  # of unit vectors",
            "found = adapter.transform(query_vectors)  # compare by Euclidean distance",
        ]
    search = "found = adapter.transform(query_vectors)  # then search"
    if getattr(found.estimator, "document_components_", None) is None:
        return [f"{search} the index as it is"]
    return [
        "index = document_vectors @ adapter.document_components.T",
        f"{search} the shorter index",
    ]


def _columns_as_code(found):
    """A dictionary of the columns of scores that have a weight, as code."""
    _, *columns = found.contributions  # the first is the embedding's own
    used = [column.name for column in columns if column.weight]
    entries = ", ".join(f'"{name}": {name}_scores' for name in used)
    return "{" + entries + "}"


def _lines_on_query(target, file):
    """How to use the query that was written for a search engine."""
    lines = [f"# the same ranking in {target}: {file}"]
    if target == "pgvector":
        lines.append(
            f"# psql -f {file}, then SELECT * FROM learned_rank($1, $2, 10): $1 a "
            "vector as encoded, $2 the words"
        )
    return lines


def formula(found: "Adaptation") -> str:
    """The learned sum of scores."""
    scaled = found.estimator.normalization_
    terms = []
    for place, score in enumerate(found.contributions):
        # the embedding, which comes first, is compared as it is
        term = score.name if place == 0 else f"{scaled}({score.name})"
        if score.weight:
            terms.append(f"{score.weight:.3g} {term}")
    return " + ".join(terms)


def query_rows(found: "Adaptation") -> list[dict[str, Any]]:
    """Every measure of every held-out query, before and after."""
    from ..studies.adapting import MEASURES

    columns = {"query": _named(found, found.held_out)}
    for measure in MEASURES:
        columns[f"{measure} before"] = found.values["before"][measure].tolist()
        columns[f"{measure} after"] = found.values[found.chosen][measure].tolist()
    return as_rows(columns)


def _named(found, queries):
    """These queries by name, or by number where they have none."""
    names = found.collection.query_names
    if names is None:
        return queries.tolist()
    return [names[query] for query in queries]


def _answer(found: "Adaptation", name: str, files: dict[str, str], out: Path) -> None:
    """Print the measures before and after, what was learned and how to use it."""
    from ..report.adaptation import SCORES_HEADINGS, headline, scores_table
    from ..studies.adapting import MEASURES

    changes = {measure: found.difference(measure) for measure in MEASURES}
    queries = plural(len(found.held_out), "query")
    title = f"{name}: {queries} held out, {plural(len(found.collection.documents), 'document')}"
    headings = ("", "before", "after", "difference", "95% interval", "p")
    shown = [grid(title, headings, (_row(found, *change) for change in changes.items()))]
    if found.contributions:
        shown.append(grid("Every score alone, and together", SCORES_HEADINGS, scores_table(found)))
    last = [written(out, ", ".join(files.values())), f"[bold]{escape(headline(found))}[/]"]
    last += _on_significance(changes)
    if found.helps:  # else there is nothing to use
        last.append(escape(snippet(found, files, out)))
    state.answer(
        _values(found, name, changes, places(out, files)),
        *shown,
        _tried(found),
        f"certificate: {in_words(found.estimator.certificate_)}",
        notes=found.notes,
        last=last,
    )


def _values(found, name, changes, files):
    """What was found, for `--json`."""
    certificate = found.estimator.certificate_
    means = {}
    for ranking, measured in found.values.items():
        means[ranking] = {measure: float(values.mean()) for measure, values in measured.items()}
    values = {
        "data": name,
        "queries": len(found.collection.queries),
        "documents": len(found.collection.documents),
        "held_out": len(found.held_out),
        "map": found.chosen,
        "means": means,
        "differences": {measure: change._asdict() for measure, change in changes.items()},
        "setting": vars(found.estimator.setting_),
        "relative_gap": certificate.relative_gap,
        "status": str(certificate.status),
        "seconds": found.seconds,
        "files": files,
    }
    if found.contributions:
        values["scores"] = {
            score.name: _score_values(found, score) for score in found.contributions
        }
    return values


def _score_values(found, score):
    """What one score adds, its queries by name."""
    return {
        "weight": score.weight,
        "rescued": _named(found, found.held_out[score.rescued]),
        "lost": _named(found, found.held_out[score.lost]),
    }


def _tried(found):
    """Which map was chosen, and how each that was tried ranks the held-out queries."""
    from ..studies.adapting import MAIN

    tried = []
    for key in found.fitted:
        seconds = found.seconds[key]
        tried.append(f"{MAPPED[key]} {found.mean(MAIN, key):.1f} ({seconds:.1f} s)")
    return f"maps {MAPPED[found.chosen]}; {MAIN} of what was tried: {', '.join(tried)}"


def _on_significance(changes):
    """Where the difference may be chance: how large would it have to be?"""
    from ..studies.adapting import MAIN, SIGNIFICANT

    change = changes[MAIN]
    if change.p_value <= SIGNIFICANT:
        return []
    # half the interval, in points
    least = 50 * (change.high - change.low)
    return [
        f"On {plural(change.n, 'query')} a difference of less than about {least:.1f} points cannot be "
        "distinguished from chance: collect judgements of more queries."
    ]


def _row(found, measure, change):
    """A measure before and after, for the screen."""
    return (
        measure,
        f"{found.mean(measure, 'before'):.1f}",
        f"{found.mean(measure):.1f}",
        f"{100 * change.difference:+.1f}",
        f"{100 * change.low:+.1f} to {100 * change.high:+.1f}",
        f"{change.p_value:.2g}",
    )
