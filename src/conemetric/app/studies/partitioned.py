"""Labelled rows in more partitions than memory holds: a sample of them is split, scaled and
judged like any other rows; the metric is learned from all rows but those held out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.extras import require
from ...neighbours import n_references_for
from .supervision import Labelled, sample_by_class

if TYPE_CHECKING:
    from .learning import Options

VOTING = 20_000  # rows that vote when judging, and settle scaling and principal components


@dataclass(frozen=True)
class Partitioned(Labelled):
    """See the module docstring; made by `Partitioned.of`. X and y are those of the sample.

    Attributes
    ----------
    parts : sequence of callables
        Each returns rows and labels, always the same; sent to workers.
    sizes : integer array
        Rows of each.
    sampled : integer array
        Numbers of the rows of the sample among all, ascending.
    held_out : integer array
        Likewise of those held out; set by `split`.
    prepare : Pipeline or None
        What rows go through before the metric is learned; set by `prepared`.
    """

    parts: Sequence[Callable] = ()
    sizes: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    sampled: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    held_out: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    prepare: Any = None

    @classmethod
    def of(
        cls,
        parts: Sequence[Callable],
        sizes: Sequence[int],
        options: "Options",
        target: str = "auto",
    ) -> "Partitioned":
        """Draw the sample."""
        dask = require("dask", "cluster")
        sizes = np.asarray(sizes)
        n, rng = int(sizes.sum()), np.random.default_rng(options.seed)
        wanted = min(n, VOTING + _n_held_out(n, options))
        sampled = np.sort(rng.choice(n, wanted, replace=False, shuffle=False))
        tasks = [
            dask.delayed(_rows)(part, chosen)
            for part, chosen in zip(parts, _by_part(sampled, sizes), strict=True)
            if len(chosen)
        ]
        X, y = (np.concatenate(each) for each in zip(*dask.compute(*tasks), strict=True))
        return cls(X, y, parts=tuple(parts), sizes=sizes, sampled=sampled, target=target)

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    def split(self, options: "Options", rng: np.random.Generator) -> "Partitioned":
        if len(self.classes) < 2:
            raise ValueError(
                f"a sample of {len(self.y):,} rows has one class only, "
                f"{self.classes.tolist()[0]!r}; a metric is learned between classes: give at "
                "least two."
            )
        test = sample_by_class(self.y, _n_held_out(self.n_rows, options), rng)
        train = np.setdiff1d(np.arange(len(self.y)), test)
        n_learned = self.n_rows - len(test)
        notes = [
            f"Learned from all {n_learned:,} training rows, in {len(self.parts)} partitions.",
            f"Judged on {len(test):,} held-out rows; {len(train):,} training rows, drawn at random, "
            "vote, and settle how columns are scaled.",
        ]
        n_references = n_references_for("auto", n_learned, partitioned=True)
        if n_references is not None:
            notes.append(f"Neighbours searched among {n_references:,} training rows.")
        held_out = self.sampled[test]
        return replace(
            self, train=train, learn=train, test=test, held_out=held_out, notes=tuple(notes)
        )

    def prepared(self, prepare: Any) -> "Partitioned":
        return replace(super().prepared(prepare), prepare=prepare)

    def fit(self, estimator: Any) -> None:
        estimator.fit(*self.collections(), target=self.target)

    def collections(self) -> tuple[Any, Any]:
        """Dask arrays of the prepared training rows and of their labels."""
        dask, da = require("dask", "cluster"), require("dask.array", "cluster")
        X, y = [], []
        for part, size, out in zip(
            self.parts, self.sizes.tolist(), _by_part(self.held_out, self.sizes), strict=True
        ):
            rows, labels = dask.delayed(_others, nout=2)(part, out, self.prepare)
            shape = size - len(out), self.n_features
            X.append(da.from_delayed(rows, shape, self.X.dtype))
            y.append(da.from_delayed(labels, shape[:1], self.y.dtype))
        return da.concatenate(X), da.concatenate(y)


def _n_held_out(n, options):
    return min(round(options.test_size * n), options.max_test_rows)


def _by_part(rows, sizes):
    """Row numbers among all, as numbers within each part."""
    ends = np.cumsum(sizes)
    pieces = np.split(rows, np.searchsorted(rows, ends)[:-1])
    return [piece - end + size for piece, end, size in zip(pieces, ends, sizes, strict=True)]


def _rows(part, chosen):
    X, y = part()
    return X[chosen], y[chosen]


def _others(part, out, prepare):
    X, y = part()
    return prepare.transform(np.delete(X, out, 0)), np.delete(y, out)
