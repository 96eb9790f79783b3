"""Rows through a metric in bounded memory, batch by batch, between any of the file formats."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from polars.io.plugins import register_io_source

from ...core.progress import emit
from ...core.wording import plural
from ...storage import LearnedMetric, atomic_path
from .intake import check_width, is_vector, learned_names, rows_as_learned
from .reading import Reading
from .tables import (
    ARRAYS,
    TABLES,
    check_numbers,
    ending_of,
    load_arrays,
    readable,
    refuse_dropping,
    refuse_options_of_csv,
    scan,
    unzipped,
)

BATCH = 1 << 22  # numbers in a batch: 32 MB in double precision


def embedded_batches(
    path: Path, metric: LearnedMetric, reading: Reading, notes: list[str], dropped: list[int]
) -> Iterator[pl.DataFrame]:
    """Data frames of embedded rows: carried-over columns first, then e0, e1, ...

    Missing values are filled if the metric knows how; other rows with one are refused, or
    dropped by ``--drop-missing``, and counted.
    """
    n_read = 0
    for X, carried in _batches(path, metric, reading, notes):
        bad: Any = np.zeros(len(X), bool)
        if isinstance(X, np.ndarray) and metric.encoder is None:  # which takes gaps
            bad = ~np.isfinite(X).all(axis=1)
        if bad.any() and not reading.drop_missing:
            raise ValueError(
                f"'{path}': row {n_read + int(np.argmax(bad))} has a missing or infinite value; "
                "fill it in, or use --drop-missing to leave such rows out."
            )
        n_read += len(X)
        dropped.append(int(bad.sum()))
        emit("stage", stage=f"embedded {plural(n_read, 'row')}")
        if bad.all():
            continue
        if bad.any():
            X = X[~bad]
        Z = metric.transform(X)
        coordinates = pl.DataFrame(Z, schema=[f"e{i}" for i in range(Z.shape[1])])
        if carried.width:
            yield carried.filter(~bad).hstack(coordinates)
        else:
            yield coordinates


def _batches(path, metric, reading, notes):
    """Features and carried-over columns of some rows at a time."""
    path = unzipped(path)
    if metric.encoder is not None:
        refuse_dropping(reading)
    size = max(1, BATCH // metric.n_features_in_)
    if ending_of(path, TABLES + ARRAYS) in ARRAYS:
        refuse_options_of_csv(path, reading)
        X = load_arrays(path)["X"]
        check_numbers(path, X)
        check_width(path, X.shape[1], (metric.encoder or metric).n_features_in_)
        dtype = np.float32 if X.dtype == np.float32 else np.float64
        for start in range(0, len(X), size):
            rows = np.asarray(X[start : start + size], dtype)
            yield metric.fill_missing(rows), pl.DataFrame()
        return
    frame = scan(path, reading, notes, learned_names(metric.encoder or metric))
    with readable(path, reading):
        for batch in frame.collect_batches(chunk_size=size, maintain_order=True):
            rows = rows_as_learned(path, batch, metric.encoder or metric, reading, notes)
            used = set(metric.columns or batch.select(cs.numeric()).columns)
            used |= {name for name, kind in batch.schema.items() if is_vector(kind)}
            yield rows, batch.drop(used & set(batch.columns))


def write_batches(path: Path, batches: Iterator[pl.DataFrame], rank: int) -> int:
    """Write data frames to a CSV, Parquet or npy file, whole or not at all; count their rows."""
    kind = path.suffix.lower()
    if kind not in (".csv", ".parquet", ".pq", ".npy"):
        raise ValueError(f"--out '{path}': pass a name that ends in .csv, .parquet or .npy.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"--out '{path}': there is no folder '{path.parent}'.")
    first = next(batches, None)  # which tells the columns
    if first is None:
        raise ValueError("the data have no rows, or none without missing values.")
    sizes = []

    def source(with_columns, predicate, n_rows, batch_size):
        for frame in itertools.chain([first], batches):
            sizes.append(len(frame))
            if with_columns is not None:
                frame = frame.select(with_columns)
            yield frame

    with atomic_path(path) as temporary:
        if kind == ".npy":  # which Polars does not write
            dtype = first[:, -1].to_numpy().dtype
            _write_npy(temporary, dtype, source(first.columns[-rank:], None, None, None), rank)
        else:
            lazy = register_io_source(source, schema=first.schema)
            write = lazy.sink_csv if kind == ".csv" else lazy.sink_parquet
            write(temporary)
    return sum(sizes)


def _write_npy(path, dtype, frames, rank):
    """Write the header again when the number of rows is known; its size is fixed."""
    n = 0
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (10**15, rank)})
        for frame in frames:
            file.write(np.ascontiguousarray(frame.to_numpy(), dtype).tobytes())
            n += len(frame)
        file.seek(0)
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (n, rank)})
