"""``conemetric export``: a metric in the format of another system."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ..core.extras import require
from ..ranking.engines import ENGINES
from .files import check_free, write_query, write_text
from .invocation import state
from .options import Command, Overwrite, option
from .reading.reading import check_file
from .wording import plural

FORMATS = ("faiss", "onnx", "sentence-transformers", "sql")
SYSTEMS = (*ENGINES, "json")  # of weights, as `export.hybrid.SYSTEMS`
DIALECT = "pgvector"  # of SQL, where none is chosen
METRIC = "Metric file, or the fusion.json that adapt wrote."
TO = f"One of {', '.join(FORMATS)}; for weights one of {', '.join(SYSTEMS)}."
OUT = "File to write; for sentence-transformers, the folder of a saved model to add to."


@dataclass(frozen=True, kw_only=True)
class Export(Command):
    """Options of `export`."""

    metric: Annotated[Path, typer.Argument(metavar="METRIC", help=METRIC)]
    to: Annotated[str, option("FORMAT", TO)]
    out: Annotated[Path, option("PLACE", OUT)]
    dialect: Annotated[str, option("NAME", "For --to sql: pgvector or duckdb.")] = DIALECT
    overwrite: Overwrite = False


def export(given: Export) -> None:
    """Write the learned map in the format of another system, where the learned distance is
    then the Euclidean one.

    [dim]conemetric export metric.safetensors --to faiss --out metric.faiss
    conemetric export metric.safetensors --to onnx --out metric.onnx
    conemetric export metric.safetensors --to sentence-transformers --out my-model
    conemetric export metric.safetensors --to sql --dialect duckdb --out metric.sql
    conemetric export fusion.json --to elasticsearch --out query.json[/]
    """
    metric = given.metric
    to = given.to
    # known by its name, since what else may be written depends on it
    weights = metric.suffix == ".json"
    kind = "" if weights else "metric"
    check_file(metric, kind)
    if to != "sql" and given.dialect != DIALECT:
        raise ValueError(
            f"--dialect {given.dialect} is a dialect of SQL, and --to {to} writes none of it; use --to sql, "
            "or leave --dialect out."
        )
    if not weights and to not in (*FORMATS, *SYSTEMS):
        known = ", ".join(dict.fromkeys((*FORMATS, *SYSTEMS)))
        raise ValueError(f"--to '{to}' is not known; use one of {known}.")
    if weights or to != "sentence-transformers":  # which adds to an existing folder
        check_free([given.out], given.overwrite)

    values: dict[str, Any]
    if weights or to not in FORMATS:
        values = {"weights": _write_weights(metric, to, given.out)}
        what = plural(len(values["weights"]), "weight")
    else:
        rank, n_features = _write_map(metric, to, given.out, given.dialect)
        values = {"features": n_features, "dimensions": rank}
        what = f"{plural(n_features, 'feature')} to {plural(rank, 'dimension')}"
    answer = f"{what}, for {to}, in {escape(str(given.out))}"
    state.answer({"to": to, **values, "out": str(given.out)}, answer)


def _write_weights(path, to, out):
    """Write the sum of scores that was learned, for a search engine; return its weights."""
    from ..export import to_hybrid_query
    from ..export.hybrid import score_sum
    from ..storage import load_metric

    learned: Any
    if path.suffix == ".json":
        try:
            learned = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"'{path}' is not a JSON file: {error}") from error
    else:
        learned = load_metric(path)
        if learned.scores is None:
            raise ValueError(
                f"--to {to} writes learned weights of scores, and '{path}' has none; use one of "
                f"{', '.join(FORMATS)}, or a file that adapt wrote with --lexical or --scores."
            )
    write_query(out, to_hybrid_query(learned, to))
    return score_sum(learned).weights


def _write_map(path, to, out, dialect):
    """Write the learned map in one of the formats; return its shape."""
    from ..storage import load_metric

    learned = load_metric(path)
    _write(learned, to, out, dialect)
    return learned.components.shape


def _write(learned, to, out, dialect):
    from .. import export
    from ..storage import atomic_path

    if to == "faiss":
        transform = export.to_faiss(learned)
        with atomic_path(out) as temporary:
            require("faiss", "ann").write_VectorTransform(transform, str(temporary))
    elif to == "onnx":
        export.to_onnx(learned, out)
    elif to == "sentence-transformers":
        export.to_sentence_transformers(learned, out)
    else:
        write_text(out, export.to_sql(learned, dialect))
