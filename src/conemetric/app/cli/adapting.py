"""``conemetric adapt``: from judged queries to a better ranking, with the embedding frozen."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...core.progress import emit
from ..studies.options import AdaptOptions
from .files import check_file, output_folder, write_csv
from .invocation import progress_bar
from .options import SEED, TEST_SIZE, TOLERANCE, Overwrite, Scores, Sources, folder_for, option

FILES = {"adapter": "adapter.safetensors", "report": "report.html", "table": "table.csv"}
DOCUMENT_MAP = "documents.safetensors"
WEIGHTS = "fusion.json"


ADAPTING = {
    "map": option(
        "WHAT", "queries: the documents' index stays; both; or auto, the more reliable gain."
    ),
    "similarity": option("KIND", "How the index compares: cosine or inner."),
    "n_components": option("N", "Make the embedding this short as well.", "--components", min=1),
    "test_size": TEST_SIZE,
    "tol": TOLERANCE,
    "seed": SEED,
}
COLLECTION = (
    "Folder in BEIR's layout, or npz file with queries, documents and relevance; scikit-learn's "
    "reference pages when left out."
)


def adapt(
    sources: Sources,
    columns: Scores,
    options: Annotated[AdaptOptions, ADAPTING],
    data: Annotated[str | None, typer.Argument(metavar="[COLLECTION]", help=COLLECTION)] = None,
    out: Annotated[
        Path | None, folder_for("adapter.safetensors, report.html and table.csv")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Adapt a frozen embedding to judged queries, judge it on held-out queries, and
    write the map, a report and a table.

    [dim]conemetric adapt --lexical
    conemetric adapt --queries q.parquet --documents d.parquet --relevance qrels.tsv
    conemetric adapt beir/scifact --encode all-MiniLM-L6-v2 --lexical
    conemetric adapt beir/scifact --scores bm25.trec --scores colbert.trec
    conemetric adapt collection.npz --map queries[/]
    """
    given = (data, sources.queries, sources.documents, sources.relevance, *(columns.scores or ()))
    for place in given:
        if place is not None and not Path(place).is_dir():
            check_file(place)
    out = output_folder(out, [*FILES.values(), DOCUMENT_MAP, WEIGHTS], overwrite)

    from ..report import write_retrieval_report
    from ..studies.adapting import adapt as run_adaptation
    from .adapted import answer, query_rows, save, snippet
    from .collections import read_collection
    from .scores import read_scores

    with progress_bar():
        emit("stage", stage="reading")
        collection, notes = read_collection(data, sources)
        scores, more = read_scores(collection, columns)
        found = run_adaptation(replace(collection, scores=scores), options)
        found.notes[:0] = notes + more
        emit("stage", stage="writing the report")
        files = save(found, out)
        name, code = _name(data, sources.relevance), snippet(found, files)
        write_retrieval_report(out / FILES["report"], found, name=name, snippet=code)
        write_csv(out / FILES["table"], query_rows(found))
    answer(found, name, files, out)


def _name(data, relevance):
    """What to call the collection: its file or folder, or the folder of its files."""
    if data is not None:
        return Path(data).resolve().stem
    return "reference pages" if relevance is None else Path(relevance).resolve().parent.name
