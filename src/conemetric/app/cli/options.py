"""The options of the commands, each defined once; those that belong together form an object.

A command takes such an object as a parameter: ``reading: Reading``, or, if it offers only some of
the options, ``reading: Annotated[Reading, ("id_column", "drop_missing")]``; a dictionary instead
describes the options of fields that have no description: ``Annotated[Options, JUDGING]``.
`expanded` turns the fields into options of the command.
"""

import glob
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from ..datasets import ALIASES, BUNDLED
from .files import check_file
from .invocation import state

DATA_PANEL, FIT_PANEL = "Reading the data", "Learning and judging"
DIALECT = ("separator", "decimal", "encoding", "header")


def option(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """An option: placeholder for its value, help text, and names other than its parameter's."""
    return typer.Option(*names, metavar=metavar, help=text, **settings)


# of every command
FLAGS = {"json": "Print the result as JSON.", "debug": "Show the traceback of an error."}
SEED = typer.Option(metavar="N", min=0, help="Seed of every random choice.")
Seed = Annotated[int, SEED]

_data = partial(option, rich_help_panel=DATA_PANEL)
_fit = partial(option, rich_help_panel=FIT_PANEL)


def folder_for(files: str) -> Any:
    """The option that names the folder to write these files to."""
    return option(
        "FOLDER",
        f"Folder for {files}; default: conemetric-out, or with a number if that is taken.",
    )


def data_argument(default: str) -> Any:
    """The file to read, or a bundled data set: this one if none is given."""
    return typer.Argument(
        metavar="DATA",
        help=f"CSV, Parquet, npy or npz file, or a bundled set: {default} (default) or another "
        "that `conemetric datasets` lists. A pattern (quoted) names many Parquet files, learned "
        "from partition by partition.",
    )


DataArgument = Annotated[str | None, data_argument("vehicle")]
Metric = Annotated[
    Path,
    option("FILE", "Metric file written by learn, compare or compress.", "--metric"),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
TEST_SIZE = _fit("SHARE", "Share to hold out and judge on.", min=0.01, max=0.9)
TOLERANCE = _fit("GAP", "Certified relative gap to stop at.", min=0)
MAX_ROWS = _fit(
    "N",
    "Learn from at most this many rows, drawn class by class; default: all, or as many as can be "
    "learned from in minutes.",
    min=10,
)
# how to prepare the rows and how to judge the metric: fields of `studies.Options`
JUDGING = {
    "scale": _fit("HOW", "Standardise the columns: auto, standard or none."),
    "n_pca": _fit("N", "Reduce to this many principal components first.", "--pca", min=1),
    "n_neighbors": _fit("K", "Neighbours that vote when judging.", "-k", "--neighbors", min=1),
    "test_size": TEST_SIZE,
    "max_test_rows": _fit("N", "Judge on at most this many held-out rows.", min=10),
    "seed": SEED,
}
Text = str | None
File = Path | None
IMPUTE = "Fill missing values with the mean or median of their column in the training rows."
TRIPLETS = "Learn from triplets: a file of id, id, id; the first is nearer to the second."
KEEP = "Column to learn from although it looks like row numbers; may be repeated."
TARGET = "What the labels are: classes, continuous (a quantity: regression), or auto."
HEADER = "Whether line 1 of a CSV file names the columns (else column_0, ...); default: detected."

LANGUAGE = (
    "Of the texts, for --lexical: danish, dutch, english, french, german, italian, norwegian, "
    "portuguese, russian, spanish, swedish, turkish, none."
)


@dataclass(frozen=True)
class Reading:
    """How to read the data: which columns are what, and how the file is written."""

    label: Annotated[Text, _data("COLUMN", "Column (or npz array) that holds the classes.")] = None
    labels: Annotated[File, _data("FILE", "File of one label per row, instead of --label.")] = None
    target: Annotated[str, _data("WHAT", TARGET)] = "auto"
    pairs: Annotated[File, _data("FILE", "Learn from pairs: a file of id, id, same.")] = None
    triplets: Annotated[File, _data("FILE", TRIPLETS)] = None
    id_column: Annotated[Text, _data("COLUMN", "Column of unique row names.", "--id")] = None
    ignore: Annotated[
        list[str] | None, _data("COLUMN", "Column to leave out; may be repeated.")
    ] = None
    keep: Annotated[list[str] | None, _data("COLUMN", KEEP)] = None
    drop_missing: Annotated[
        bool, _data("", "Leave out rows with missing or infinite values.", "--drop-missing")
    ] = False
    impute: Annotated[Text, _data("HOW", IMPUTE)] = None
    one_hot: Annotated[
        bool, _data("", "Also learn from text columns: a feature per value.", "--one-hot")
    ] = False
    separator: Annotated[Text, _data("MARK", "CSV field separator; default: detected.")] = None
    decimal: Annotated[Text, _data("MARK", "CSV decimal mark, . or ,; default: detected.")] = None
    encoding: Annotated[
        Text, _data("NAME", "CSV encoding, such as latin-1; default: detected.")
    ] = None
    header: Annotated[bool | None, _data("", HEADER, "--header/--no-header")] = None
    offered: tuple[str, ...] = ()  # fields that are options of this command

    def remedies(self, joint: str = ", or ", **advice: str) -> str:
        """Other remedies: the advice whose option this command offers."""
        return "".join(f"{joint}{text}" for name, text in advice.items() if name in self.offered)


def is_pattern(data: str | None) -> bool:
    """Whether an argument names many files."""
    return data is not None and glob.has_magic(str(data)) and not Path(data).exists()


def check_reading(data: str | None, reading: Reading) -> None:
    """Refuse options that contradict each other, and files that are not there."""
    if reading.drop_missing and reading.impute:
        raise ValueError("got --drop-missing and --impute; give one of them.")
    if reading.target != "auto" and (reading.pairs or reading.triplets):
        raise ValueError(f"--target {reading.target} goes with --label or --labels; leave it out.")
    kinds = ("label", "labels", "pairs", "triplets")
    given = [f"--{name}" for name in kinds if getattr(reading, name)]
    if len(given) > 1:
        raise ValueError(f"got {' and '.join(given)}; give one kind of supervision.")
    by_number = (reading.pairs or reading.triplets) and reading.id_column is None
    if reading.drop_missing and by_number:
        raise ValueError(
            "--drop-missing would change the row numbers that pairs and triplets use; name the "
            "rows by --id."
        )
    bundled = data is None or ALIASES.get(data, data) in BUNDLED
    for path in (None if bundled else data, reading.labels, reading.pairs, reading.triplets):
        if path is not None:
            check_file(path)


@dataclass(frozen=True)
class Sources:
    """Where queries, documents and judgements are."""

    queries: Annotated[
        File, _data("FILE", "Query vectors: Parquet, CSV, npy, npz or JSON lines.")
    ] = None
    documents: Annotated[File, _data("FILE", "Document vectors, in the same formats.")] = None
    relevance: Annotated[
        File,
        _data("FILE", "Judgements: TREC's four columns, or a table of query, document and grade."),
    ] = None
    encode: Annotated[
        Text, _data("MODEL", "Encode texts with this sentence-transformers model.")
    ] = None


@dataclass(frozen=True)
class Scores:
    """Which other scores to learn with."""

    lexical: Annotated[
        bool, typer.Option("--lexical", help="Add BM25 of the texts and learn its weight.")
    ] = False
    language: Annotated[str, option("NAME", LANGUAGE)] = "english"
    scores: Annotated[
        list[Path] | None,
        option("FILE", "TREC run of another system, to learn its weight; may be repeated."),
    ] = None


@dataclass(frozen=True)
class Cluster:
    """Where to compute."""

    workers: Annotated[
        int | None,
        option(
            "N", "Compute on a local cluster of this many processes, partition by partition.", min=1
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        option(
            "ADDRESS", "Compute on the Dask cluster of this scheduler, such as tcp://host:8786."
        ),
    ] = None


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer takes it: the fields of its options objects become parameters, and
    --json and --debug come last.
    """
    parameters, objects = {}, {}
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        kind, only = _options_object(hints[name])
        if kind is None:
            parameters[name] = parameter.replace(annotation=hints[name])
            continue
        types = get_type_hints(kind, include_extras=True)
        defaults = {field.name: field.default for field in fields(kind)}
        offered = [field for field in only or types if field != "offered"]
        objects[name] = kind, offered
        for field in offered:
            hint = Annotated[types[field], only[field]] if isinstance(only, dict) else types[field]
            parameters[field] = parameter.replace(
                name=field, default=defaults[field], annotation=hint
            )
    for name, text in FLAGS.items():
        hint = Annotated[bool, typer.Option(f"--{name}", help=text)]
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=hint
        )
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters.values()]

    @wraps(command)
    def call(json, debug, **given):
        state.json, state.debug = json, debug
        for name, (kind, offered) in objects.items():
            own = {field: given.pop(field) for field in offered}
            more = {"offered": tuple(offered)} if kind is Reading else {}
            given[name] = kind(**own, **more)
        return command(**given)

    call.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in keyword}
    return call


def _options_object(hint):
    """The class of an options object and the fields it is narrowed to; None for an option."""
    only = None
    if get_origin(hint) is Annotated:
        hint, only = get_args(hint)[:2]
    return (hint, only) if is_dataclass(hint) else (None, None)
