"""The options of the commands. A command is a function of one object: its options class, whose
annotated fields are its options and arguments.

    @dataclass(frozen=True, kw_only=True)
    class Learn(Command, Supervised, Output): ...        # groups of options that commands share

    def learn(given: Learn) -> None: ...

To add an option, add a field ``name: Annotated[type, option("PLACEHOLDER", "Help.")] = default`` to
the class of the command or of the group, and use ``given.name``. A field without annotation is no
option: so `Reading` and `studies.Options` hold all that readers and studies ask, with defaults, and
every command offers the part of it that its class annotates.
"""

import glob
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from ..datasets import ALIASES, BUNDLED
from ..ranking.engines import ENGINES
from ..studies.options import AdaptOptions, Options
from .invocation import state
from .reading.reading import Reading, Sources, check_file

DATA_PANEL, FIT_PANEL = "Reading the data", "Learning and evaluation"


def option(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """An option: placeholder for its value, help text, and names other than its field's."""
    return typer.Option(*names, metavar=metavar, help=text, **settings)


def choice(metavar: str, text: str, *names: str, among: Iterable[str], **settings: Any) -> Any:
    """An option whose values the shell completes."""
    known = tuple(among)  # read many times, and perhaps a generator

    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return option(metavar, text, *names, autocompletion=complete, **settings)


def flag(name: str, text: str, **settings: Any) -> Any:
    """An option without a value."""
    return option("", text, name, **settings)


_data = partial(option, rich_help_panel=DATA_PANEL)
_fit = partial(option, rich_help_panel=FIT_PANEL)
SCALES = ("auto", "standard", "none")
TARGETS = ("auto", "classes", "continuous")
Text = str | None
Names = list[str] | None
Number = int | None
File = Path | None


def as_command(function: Callable[[Any], None]) -> Callable[..., None]:
    """The command as Typer takes it: the options of its class become parameters."""
    kind = inspect.signature(function).parameters["given"].annotation
    parameters = sorted(options_of(kind), key=lambda each: each.name in ("json", "debug"))  # last

    @wraps(function)
    def call(**options):
        state.json = options["json"]
        state.debug = options["debug"]
        return function(kind(**options))

    # from which Typer reads the options
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def options_of(kind: type) -> list[inspect.Parameter]:
    """The options among the fields of an options class."""
    given = inspect.signature(kind).parameters.values()
    return [parameter for parameter in given if get_origin(parameter.annotation) is Annotated]


@dataclass(frozen=True, kw_only=True)
class Command:
    """Options of every command."""

    json: Annotated[bool, flag("--json", "Print the result as JSON.")] = False
    debug: Annotated[bool, flag("--debug", "Show the traceback of an error.")] = False


# ---- options that several commands have


def folder_for(files: str) -> Any:
    """The option that names the folder to write these files to."""
    return option("FOLDER", f"Folder for {files}; default: conemetric-out, numbered if taken.")


def data_argument(default: str) -> Any:
    """The file to read, or a bundled data set: this one if none is given."""
    text = (
        f"CSV (also gzipped), Parquet, npy or npz file, or a bundled data set: {default} (default) or "
        "another that `conemetric datasets` lists. For `learn`, a quoted pattern names many Parquet "
        "files, which are read partition by partition."
    )
    return typer.Argument(metavar="DATA", help=text)


TRIPLETS = "Learn from triplets, a file of id, id, id: first nearer to second than to third."
GROUPS = (
    "Column whose equal values say which rows belong together (a person, a patient, a document): they "
    "are learned from or held out together."
)
CATEGORICAL = "Column of categories, even if they look like numbers or identifiers."
NUMERIC = "Column of numbers, even if they look like row numbers or categories; other entries are missing."
SCALING = "Standardise columns: auto, standard or none."
# options of learning from labels and judging by them: pairs and triplets are held out as they are
OF_LABELS = {"n_neighbors": "neighbors", "max_rows": "max-rows", "max_test_rows": "max-test-rows"}
VOTING = "Neighbours that vote."
REDUCED = "Reduce to this many principal components first."
JUDGED = "Evaluate on at most this many held-out rows."
TARGET = "What the labels are: classes, continuous (a quantity: regression), or auto."
ENCODING = "CSV encoding, such as latin-1; default: detected."
HEADER = "Whether line 1 of a CSV file names the columns (else column_0, ...); default: detected."
MARKER = "CSV entry that marks a missing value, such as -999; may be repeated."
DataArgument = Annotated[Text, data_argument("vehicle")]
Rows = Annotated[Path, typer.Argument(metavar="DATA", help="CSV, Parquet, npy or npz file.")]
Metric = Annotated[Path, option("FILE", "Metric file written by learn, compare or compress.")]
Out = Annotated[File, option("FILE", "CSV file to write; default: print the first rows.")]
Overwrite = Annotated[bool, flag("--overwrite", "Replace existing files.")]
Seed = Annotated[int, option("N", "Seed of every random choice.", min=0)]
IdColumn = Annotated[Text, _data("COLUMN", "Column of unique row names.", "--id")]
DROP = "Leave out rows with missing or infinite values."
DropMissing = Annotated[bool, flag("--drop-missing", DROP, rich_help_panel=DATA_PANEL)]
Tolerance = Annotated[float, _fit("GAP", "Certified relative gap to stop at.", min=0)]
HELD_OUT = "Share to hold out for evaluation; of pairs and triplets the share of their rows."
TestSize = Annotated[float, _fit("SHARE", HELD_OUT, min=0.01, max=0.9)]
MAX_ROWS = (
    "Learn from at most this many rows, drawn class by class; default: as many as can be learned "
    "from in minutes."
)


def most_rows(text: str) -> Any:
    """The option that limits how many rows are learned from."""
    return _fit("N", text, min=10)


MaxRows = Annotated[Number, most_rows(MAX_ROWS)]


# ---- reading


@dataclass(frozen=True, kw_only=True)
class Dialect(Reading):
    """How a CSV file is written."""

    def offers(self, name: str) -> bool:
        """Whether this field is an option of the command."""
        return any(parameter.name == name for parameter in options_of(type(self)))

    separator: Annotated[Text, _data("MARK", "CSV field separator; default: detected.")] = None
    decimal: Annotated[Text, _data("MARK", "CSV decimal mark, . or ,; default: detected.")] = None
    encoding: Annotated[Text, _data("NAME", ENCODING)] = None
    header: Annotated[bool | None, _data("", HEADER, "--header/--no-header")] = None
    missing: Annotated[Names, _data("ENTRY", MARKER)] = None


@dataclass(frozen=True, kw_only=True)
class Columns(Dialect):
    """Which columns are what."""

    data: Text = None
    label: Annotated[Text, _data("COLUMN", "Column (or npz array) that holds the classes.")] = None
    labels: Annotated[File, _data("FILE", "File with a label per row, instead of --label.")] = None
    id_column: IdColumn = None
    ignore: Annotated[Names, _data("COLUMN", "Column to leave out; may be repeated.")] = None
    categorical: Annotated[Names, _data("COLUMN", CATEGORICAL)] = None
    numeric: Annotated[Names, _data("COLUMN", NUMERIC)] = None

    def check(self) -> None:
        """Refuse options that contradict each other, and files that are not there."""
        if self.target != "auto" and (self.pairs or self.triplets):
            raise ValueError(f"--target {self.target} needs --label or --labels; leave it out.")
        kinds = ("label", "labels", "pairs", "triplets")
        given = [f"--{name}" for name in kinds if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"got {' and '.join(given)}; pass one kind of supervision.")
        if self.pairs or self.triplets:
            self._refuse_options_of_labels(given[0])
        check_data(self.data)
        for path in (self.labels, self.pairs, self.triplets):
            if path is not None:
                check_file(path)

    def _refuse_options_of_labels(self, supervision):
        for name, option in OF_LABELS.items():
            if self.offers(name) and self.is_chosen(name):
                raise ValueError(
                    f"--{option} {getattr(self, name)} is for rows with labels; with {supervision} all of "
                    "the training part is learned from, and no neighbours vote: leave the option out."
                )


@dataclass(frozen=True, kw_only=True)
class Supervised(Columns):
    """Data with labels, pairs or triplets."""

    data: DataArgument = None
    target: Annotated[str, choice("WHAT", TARGET, among=TARGETS, rich_help_panel=DATA_PANEL)] = (
        "auto"
    )
    pairs: Annotated[File, _data("FILE", "Learn from pairs: a file of id, id, same.")] = None
    triplets: Annotated[File, _data("FILE", TRIPLETS)] = None
    groups: Annotated[Text, _data("COLUMN", GROUPS)] = None


@dataclass(frozen=True, kw_only=True)
class Judging(Options):
    """How to prepare the rows and how to judge the metric."""

    scale: Annotated[str, choice("HOW", SCALING, among=SCALES, rich_help_panel=FIT_PANEL)] = "auto"
    n_pca: Annotated[Number, _fit("N", REDUCED, "--pca", min=1)] = None
    n_neighbors: Annotated[int, _fit("K", VOTING, "-k", "--neighbors", min=1)] = Options.n_neighbors
    test_size: TestSize = Options.test_size
    max_test_rows: Annotated[int, _fit("N", JUDGED, min=10)] = Options.max_test_rows
    max_rows: MaxRows = None
    tol: Tolerance = Options.tol
    seed: Seed = 0

    def check_for(self, task: Any) -> None:
        """Refuse unscaled columns where a table is encoded, which scales its numbers too."""
        from ..studies.task import table_encoder

        if self.scale == "none" and table_encoder(task.X, task.kinds) is not None:
            raise ValueError(
                "--scale none is for tables of complete numbers; one with categories, dates or missing values is "
                "encoded, which scales its numbers too: leave the option out."
            )


def check_data(data: str | None) -> None:
    """Refuse a file that is not there; a bundled data set goes by its name."""
    if data is not None and ALIASES.get(data, data) not in BUNDLED:
        check_file(data)


def is_pattern(data: str | None) -> bool:
    """Whether an argument names many files."""
    return data is not None and glob.has_magic(str(data)) and not Path(data).exists()


# ---- judged collections

QUERIES = "Query vectors: Parquet, CSV, npy, npz or JSON lines."
JUDGEMENTS = "Judgements: TREC's four columns, or a table of query, document and grade."
ENCODE = "Encode texts with this sentence-transformers model."
LANGUAGE = (
    "Language of the texts, for --lexical: danish, dutch, english, french, german, italian, "
    "norwegian, portuguese, russian, spanish, swedish, turkish, none."
)
RUN = "TREC run of another system, whose weight is learned; may be repeated."
SERVER = (
    "PostgreSQL that scores words for --target pgvector, postgresql://...; default: one that is "
    "started for the purpose."
)
SHORTER = "Also shorten the embedding to this many dimensions."
SCORE_SCALING = "Scale of the other scores: raw, range or spread; auto tries all."
RANKED_BY = f"Search engine that will rank: {', '.join(ENGINES)}."
MAP = "What to map: queries (the index stays), both, or auto, the more reliable gain."


@dataclass(frozen=True, kw_only=True)
class CollectionFiles(Sources):
    """Where queries, documents and judgements are, and which other scores to learn with."""

    queries: Annotated[File, _data("FILE", QUERIES)] = None
    documents: Annotated[File, _data("FILE", "Document vectors, in the same formats.")] = None
    relevance: Annotated[File, _data("FILE", JUDGEMENTS)] = None
    encode: Annotated[Text, _data("MODEL", ENCODE)] = None
    lexical: Annotated[bool, flag("--lexical", "Add BM25 of the texts; learn its weight.")] = False
    language: Annotated[str, option("NAME", LANGUAGE)] = "english"
    scores: Annotated[list[Path] | None, option("FILE", RUN)] = None
    server: Annotated[Text, option("URL", SERVER)] = None


@dataclass(frozen=True, kw_only=True)
class Adapting(AdaptOptions):
    """How to adapt and how to judge."""

    map: Annotated[str, option("WHAT", MAP)] = "auto"
    similarity: Annotated[str, option("KIND", "Similarity of the index: cosine, inner.")] = "cosine"
    n_components: Annotated[Number, option("N", SHORTER, "--components", min=1)] = None
    target: Annotated[Text, option("ENGINE", RANKED_BY)] = None
    normalization: Annotated[str, option("HOW", SCORE_SCALING)] = "auto"
    test_size: TestSize = AdaptOptions.test_size
    tol: Tolerance = AdaptOptions.tol
    seed: Seed = 0
