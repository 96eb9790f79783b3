"""Labelled rows in partitions that together may exceed memory: a sample is split, scaled and judged
like any other rows; the encoding of a table and the metric are learned from all but the held-out ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core.extras import require
from ..neighbours.search import sample_size
from ..tables import TableEncoder
from .options import Options
from .supervision import Labelled, sample_by_class

VOTING = 20_000  # rows that vote when judging, and decide on scaling and principal components


@dataclass(frozen=True)
class Partitioned(Labelled):
    """Made by `Partitioned.of`; X and y are those of the sample."""

    partitions: Sequence[Callable]  # each returns its rows (``table=True``: a frame) and labels
    sizes: np.ndarray  # rows of each
    sampled: np.ndarray  # their numbers among the rows of all partitions
    prepare: Any = None  # Pipeline that rows go through before the metric is learned

    @classmethod
    def of(
        cls, partitions: Sequence[Callable], sizes: Any, options: Options, target: str = "auto"
    ) -> "Partitioned":
        """Draw the sample."""
        dask = require("dask", "cluster")
        sizes = np.asarray(sizes)
        n = int(sizes.sum())
        rng = np.random.default_rng(options.seed)
        wanted = min(n, VOTING + _n_held_out(n, options))
        sampled = np.sort(rng.choice(n, wanted, replace=False, shuffle=False))
        tasks = []
        for partition, chosen in zip(partitions, _by_partition(sampled, sizes), strict=True):
            if len(chosen):
                tasks.append(dask.delayed(_rows)(partition, chosen))
        rows, labels = zip(*dask.compute(*tasks), strict=True)
        X: Any
        if not isinstance(rows[0], np.ndarray):
            X = require("polars", "cli").concat(rows)
        else:
            X = np.concatenate(rows)
            if np.isnan(X).any():  # what fills the gaps is named by column
                partitions = [partial(partition, table=True) for partition in partitions]
                first, _ = partitions[0]()
                X = _with_nulls(X, first.columns)
        y = np.concatenate(labels)
        return cls(X, y, partitions=tuple(partitions), sizes=sizes, sampled=sampled, target=target)

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @property
    def held_out_rows(self) -> np.ndarray:
        return self.sampled[self.original(self.test)]

    def split(self, options: Options, rng: np.random.Generator) -> "Partitioned":
        test = sample_by_class(self.y, _n_held_out(self.n_rows, options), rng)
        train = np.setdiff1d(np.arange(len(self.y)), test)
        self._check_labels(train)
        n_learned = self.n_rows - len(test)
        notes = [
            f"Learned from all {n_learned:,} training rows, in {len(self.partitions)} partitions.",
            f"Evaluated on {len(test):,} held-out rows; {len(train):,} training rows, drawn at random, "
            "vote, and decide on scaling and principal components.",
        ]
        n_references = sample_size("auto", n_learned)
        if n_references is not None:
            notes.append(f"Neighbours searched among {n_references:,} training rows.")
        return replace(self, train=train, learn=train, test=test, notes=tuple(notes))

    def fitted(self, prepare: Any) -> Any:
        """An encoder takes one pass over the training rows of all partitions, other steps the sample."""
        if not isinstance(prepare[0], TableEncoder):
            return super().fitted(prepare)
        others = require("dask", "cluster").delayed(_others, nout=2)
        rows = [others(*part)[0] for part in self._parts()]
        # all that an encoder asks of a Dask collection, which frames of Polars cannot form
        prepare[0].fit(SimpleNamespace(to_delayed=lambda: rows))
        if len(prepare) > 1:
            prepare[1:].fit(prepare[0].transform(self.training_rows()))
        return prepare

    def _parts(self):
        """The partitions, each with the numbers of its held-out rows."""
        held_out = _by_partition(self.held_out_rows, self.sizes)
        return zip(self.partitions, held_out, strict=True)

    def prepared(self, prepare: Any) -> "Partitioned":
        return replace(super().prepared(prepare), prepare=prepare)

    def fit(self, estimator: Any) -> None:
        estimator.fit(*self.collections(), target=self.target)

    def collections(self) -> tuple[Any, Any]:
        """Dask arrays of the prepared training rows and of their labels."""
        dask = require("dask", "cluster")
        da = require("dask.array", "cluster")
        X = []
        y = []
        for (partition, out), size in zip(self._parts(), self.sizes.tolist(), strict=True):
            rows, labels = dask.delayed(_others, nout=2)(partition, out, self.prepare)
            shape = (size - len(out), self.n_features)
            X.append(da.from_delayed(rows, shape, self.X.dtype))
            y.append(da.from_delayed(labels, shape[:1], self.y.dtype))
        return da.concatenate(X), da.concatenate(y)


def _with_nulls(X, names):
    """Numbers as a frame with columns of these names, null where they are not finite."""
    numbers = np.where(np.isfinite(X), X, np.nan).astype(np.float64)
    return require("polars", "cli").DataFrame(numbers, schema=names, nan_to_null=True)


def _n_held_out(n, options):
    return min(round(options.test_size * n), options.max_test_rows)


def _by_partition(rows, sizes):
    """Row numbers among all rows, as numbers within each partition."""
    ends = np.cumsum(sizes)
    split = np.split(rows, np.searchsorted(rows, ends)[:-1])
    return [own - end + size for own, end, size in zip(split, ends, sizes, strict=True)]


def _rows(partition, chosen):
    """Some rows of a partition, and their labels."""
    X, y = partition()
    return X[chosen], y[chosen]


def _others(partition, out, prepare=None):
    """All rows of a partition but some, and their labels."""
    X, y = partition()
    kept = np.delete(np.arange(len(y)), out)
    X = X[kept]
    if prepare is not None:
        X = prepare.transform(X)
    return X, y[kept]
