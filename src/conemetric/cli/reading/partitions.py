"""Many Parquet files as partitions, and where to compute on them."""

import glob
import itertools
import math
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...core.extras import require
from ...core.wording import plural
from ...studies.options import Options
from ...studies.partitioned import Partitioned
from ...tables.spelling import Spelling
from . import intake
from .columns import typed_column
from .labels import class_labels
from .loading import giveaway_in_words
from .reading import DIALECT, OPTION_NAMES, Reading

FIRST_ROWS = 100_000  # of the first file, read to choose the columns
# of a partition's numbers: 64 MB, so that there are few and a worker can hold several
PARTITION_BYTES = 1 << 26
# options that do not go with many files
ONE_FILE = (
    "max_rows",
    "labels",
    "target",
    "pairs",
    "triplets",
    "groups",
    "id_column",
    "missing",
    *DIALECT,
)


class Part(NamedTuple):
    """Rows of a Parquet file that make a partition; those without a label are left out."""

    path: str
    start: int  # the number of its first row in the file
    length: int
    labelled: np.ndarray | None = None  # numbers, from the start, of rows with a label; None: all

    @property
    def size(self) -> int:
        """Rows with a label."""
        if self.labelled is None:
            return self.length
        return len(self.labelled)

    def row_in_file(self, row: int) -> int:
        """The number in the file, from 0, of a row of the partition."""
        if self.labelled is not None:
            row = int(self.labelled[row])
        return self.start + row


class Partitions(NamedTuple):
    """Partitions, and what is known about their columns."""

    read: list[Callable]  # each returns rows and labels of one partition
    parts: list[Part]
    names: list[str]  # of the features
    notes: list[str]  # what was ignored, in words
    kinds: dict[str, Spelling]  # how words spelled the values of columns
    ids: None = None
    row_numbers: None = None  # a row goes by its file and its number there

    @property
    def sizes(self) -> list[int]:
        """Rows of each partition."""
        return [part.size for part in self.parts]

    def row_columns(self, rows: np.ndarray) -> dict[str, list]:
        """File and number in the file, from 0, of rows numbered across all partitions."""
        ends = np.cumsum(self.sizes)
        number = np.searchsorted(ends, rows, side="right").tolist()
        columns: dict[str, list] = {"file": [], "row": []}
        for row, part, end in zip(rows.tolist(), number, ends[number].tolist(), strict=True):
            within = row - (end - self.parts[part].size)
            columns["file"].append(self.parts[part].path)
            columns["row"].append(self.parts[part].row_in_file(within))
        return columns


def load_partitions(
    pattern: str | None, given: Reading, options: Options
) -> tuple[Partitions, Partitioned, str]:
    """The partitions, the task they make, and a name for it; refuses options that need one file."""
    for name in ONE_FILE:
        if given.is_chosen(name):
            option = OPTION_NAMES.get(name, name).replace("_", "-")
            raise ValueError(
                f"--{option} cannot be used with many files; leave it out, or pass one file without "
                "--workers and --scheduler."
            )
    found = find_partitions(pattern, given)
    task = Partitioned.of(found.read, found.sizes, options, given.target)
    giveaway = giveaway_in_words(task.X, found.names, task.y, given.label, False)
    task = replace(task, label=given.label, kinds=found.kinds, giveaway=giveaway)
    if giveaway:
        found.notes.append(giveaway)
    intake.tell_gaps(task.X, found.notes)  # of a sample from all files
    return found, task, str(pattern)


def find_partitions(pattern: str | None, reading: Reading) -> Partitions:
    """The partitions of the Parquet files that a pattern (a path or an address such as
    ``s3://...``, with ``*``, ``?`` or ``[...]``) names: whole files, or parts of large ones.
    """
    label = reading.label
    if pattern is None:
        raise ValueError("--workers and --scheduler need Parquet files; name them.")
    paths = _paths(pattern)
    if label is None:
        raise ValueError(f"'{pattern}' names many files; name the column of classes with --label.")
    notes: list[str] = []
    lazy = pl.scan_parquet(paths[0], glob=False)
    schema = lazy.collect_schema()
    intake.check_columns(paths[0], schema, reading)
    first = lazy.head(FIRST_ROWS).drop({label, *(reading.ignore or ())}).collect()
    # vectors hold numbers; the kinds of other columns are those of the first rows
    vectors = [name for name, kind in first.schema.items() if intake.is_vector(kind)]
    single = first.drop(vectors)
    kinds: intake.Kinds = {}
    if single.width:
        kinds = intake.learnable(paths[0], single, reading, notes).kinds
    used = [name for name in first.columns if name in {*kinds, *vectors}]
    # in the order of the file
    kinds = {name: kinds.get(name, "vector") for name in used}
    # one row tells how many numbers a row has, and their names
    X, names = read_columns(first[:1], kinds, paths[0])
    most_rows = max(1, PARTITION_BYTES // (X.shape[1] * 8))
    parts: list[Part] = []
    for path in paths:
        _check_alike(path, paths[0], schema, (*kinds, label))
        parts += _parts_of(path, label, most_rows)
    n_without_label = sum(part.length - part.size for part in parts)
    parts = [part for part in parts if part.size]
    if not parts:
        fault = "has no rows"
        if n_without_label:
            fault = f"has no row with a label in column '{label}'"
        raise ValueError(f"'{pattern}' ({plural(len(paths), 'file')}) {fault}.")
    if n_without_label:
        notes.append(f"Left out: {plural(n_without_label, 'row')} without a label.")
    readers: list[Callable] = [partial(read_partition, part, kinds, label) for part in parts]
    spellings = {name: kind for name, kind in kinds.items() if isinstance(kind, Spelling)}
    return Partitions(readers, parts, names, notes, spellings)


def _check_alike(path, first_path, schema, names):
    """Refuse a file whose columns of these names are missing, or not of the types of the first file."""
    own = pl.scan_parquet(path, glob=False).collect_schema()
    for name in names:
        if own.get(name) != schema[name]:
            raise ValueError(
                f"'{path}': column '{name}' holds {own.get(name, 'nothing')}, in '{first_path}' "
                f"{schema[name]}; pass files with the same columns."
            )


def _parts_of(path, label, most_rows):
    """A Parquet file in parts of at most so many rows."""
    # of all columns only this one is read now: it says how many rows of each part have a label
    labels = pl.scan_parquet(path, glob=False).select(label).collect()[label]
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
    n_parts = math.ceil(len(labels) / most_rows)
    cuts = np.linspace(0, len(labels), n_parts + 1).astype(int).tolist()
    for start, stop in itertools.pairwise(cuts):
        known = labels[start:stop].is_not_null()
        numbers = None
        if not known.all():
            numbers = known.arg_true().to_numpy()
        yield Part(path, start, stop - start, numbers)


def read_columns(
    frame: pl.DataFrame, kinds: intake.Kinds, path: str | Path, table: bool = False
) -> tuple[Any, list[str]]:
    """These columns and their names: an array of numbers, or a frame if there are others."""
    if all(kind in ("number", "vector") for kind in kinds.values()) and not table:
        return intake.column_matrix(frame, list(kinds), path)
    entries = intake.with_entries(frame.select(list(kinds)), path)
    typed = [typed_column(column, kinds.get(column.name, "number")) for column in entries]
    return pl.DataFrame(typed), entries.columns


def _paths(pattern):
    if "://" in pattern:
        files, path = require("fsspec.core", "cluster").url_to_fs(pattern)
        paths = [files.unstrip_protocol(found) for found in sorted(files.glob(path))]
    elif Path(pattern).exists():
        paths = [pattern]
    else:
        paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise FileNotFoundError(f"there is no file '{pattern}'.")
    other = [path for path in paths if not path.lower().endswith((".parquet", ".pq"))]
    if other:
        raise ValueError(f"'{other[0]}' is not Parquet; several files at a time must be Parquet.")
    return paths


def read_partition(
    part: Part, kinds: intake.Kinds, label: str, table: bool = False
) -> tuple[Any, np.ndarray]:
    """Rows and labels of a part of a Parquet file."""
    rows = pl.scan_parquet(part.path, glob=False).slice(part.start, part.length)
    frame = rows.select([*kinds, label]).collect()
    if part.labelled is not None:
        frame = frame[part.labelled]
    return read_columns(frame, kinds, part.path, table)[0], class_labels(frame[label])


@contextmanager
def computing(
    workers: int | None, scheduler: str | None, say: Callable[[str], None]
) -> Iterator[None]:
    """Compute on worker processes of this machine, on the cluster of a scheduler, or, with
    neither, in this process: a few partitions at a time, out of core if memory is short. ``say``
    tells the user where.
    """
    if workers is not None and scheduler is not None:
        raise ValueError("got --workers and --scheduler; pass one of them.")
    if workers is None and scheduler is None:
        yield
        return
    distributed = require("distributed", "cluster")
    with ExitStack() as opened:
        cluster: Any = scheduler
        if workers is not None:
            cluster = opened.enter_context(_local_cluster(distributed, workers))
        client = opened.enter_context(distributed.Client(cluster))
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        say(f"computing on {plural(count, 'worker')}; dashboard: {client.dashboard_link}")
        yield


def _local_cluster(distributed, n_workers):
    """Worker processes of this machine that Ctrl-C does not reach: it ends the fit, which still needs
    them for its last certificate.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"
        )
    finally:
        signal.signal(signal.SIGINT, before)
