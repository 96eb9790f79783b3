"""What an experiment is: columns (data sets), rows (methods), a protocol that measures
one cell, and the published numbers.
"""

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sklearn.model_selection import StratifiedKFold

from conemetric.constraints.in_memory import triplets_from_neighbours
from conemetric.core.clock import stopwatch
from conemetric.engine.operators import from_triplets
from conemetric.estimators.scale import mean_impostor_distance
from conemetric.evaluation.knn import knn_error
from conemetric.neighbours.search import neighbours_by_label

from .. import data
from ..registry import REGISTRY
from .knn_protocol import Grid

GPU_FROM = 1 << 20  # numbers; below, starting a kernel takes longer than its work


class Published(NamedTuple):
    """A number as printed, with its standard deviation where the paper gives one."""

    mean: float
    std: float | None = None


def published_table(columns, text):
    """Read a table as the paper prints it: one line per method, ``name | mean (std) |
    ...``; ``-`` where there is no number.

    Examples
    --------
    >>> published_table(["iris", "wine"], "Euclidean | 3.64 (4.18) | -")
    {('iris', 'Euclidean'): Published(mean=3.64, std=4.18)}
    """
    table = {}
    for line in text.strip().splitlines():
        method, *cells = (cell.strip() for cell in line.split("|"))
        if len(cells) != len(columns):
            raise ValueError(f"line {line!r} has {len(cells)} cells for {len(columns)} columns.")
        for column, cell in zip(columns, cells, strict=True):
            if cell != "-":
                numbers = [float(number) for number in re.findall(r"[\d.]+", cell)]
                table[column, method] = Published(*numbers)
    return table


@dataclass(frozen=True)
class Competitor:
    """A method in a table: its name there is its key.

    Attributes
    ----------
    estimator : str or None
        Where its class is, ``module:name``; None for the Euclidean distance. It is
        imported when first used, so that a table can name what is not installed.
    parameters : mapping
    grid : sequence of parameter mappings, or function of training X and y that returns one
        Choices made on validation.
    prepared : bool
        Whether the table's preprocessing applies to it.
    """

    estimator: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    grid: Grid = ({},)
    prepared: bool = True

    @property
    def is_ours(self):
        """Whether it is a method of this package, which takes tensors too."""
        return self.estimator is not None and self.estimator.startswith("conemetric:")

    @property
    def exists(self):
        if self.estimator is None:
            return True
        module, name = self.estimator.split(":")
        try:
            return hasattr(importlib.import_module(module), name)
        except ImportError:
            return False

    def make(self):
        """The unfitted estimator, or None for the Euclidean distance."""
        if self.estimator is None:
            return None
        module, name = self.estimator.split(":")
        return getattr(importlib.import_module(module), name)(**self.parameters)


# BoostMetric as in its paper, where the number of iterations is what regularises
BOOSTING: dict[str, Any] = {
    "v": 1e-7,
    "loss": "exponential",
    "solver": "stagewise",
    "max_iter": 500,
}


def ours(name, grid: Grid = ({},), **parameters):
    """A method of this package, by class name.

    >>> ours("FrobMetric", C=2.0).make().C
    2.0
    """
    return Competitor(f"conemetric:{name}", parameters, grid)


class ScaleFreeC:
    """A grid for C in scale-free units: C = kappa / s^4, with s^2 the mean squared
    impostor distance of the training set.
    """

    def __init__(self, *kappas):
        self.kappas = kappas

    def __call__(self, X, y):
        targets, impostors = neighbours_by_label(X, y, 1, 3)
        operator = from_triplets(X, triplets_from_neighbours(targets, impostors))
        mean_square = mean_impostor_distance(operator)
        return [{"C": float(kappa / mean_square**2)} for kappa in self.kappas]


class CrossValidated:
    """A grid of one choice: that of the least 3-NN error in three-fold cross-validation
    on the training set.

    Parameters
    ----------
    name : str
        Class of this package.
    choices : list of parameter mappings
    parameters
        What else is given to the class while choosing, such as a coarser ``tol``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> CrossValidated("LMNNEig", [{"gamma": 0.5}, {"gamma": 0.9}], tol=0.1)(*load_iris(return_X_y=True))
    [{'gamma': 0.5}]
    """

    def __init__(self, name, choices, **parameters):
        self.name, self.choices, self.parameters = name, choices, parameters

    def __call__(self, X, y):
        folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))

        def error(choice):
            make = ours(self.name, **self.parameters, **choice).make
            return sum(knn_error(make().fit(X[a], y[a]), X[a], y[a], X[b], y[b]) for a, b in folds)

        return [min(self.choices, key=error)]


@dataclass(frozen=True)
class Experiment(ABC):
    """One table or figure of a paper.

    Attributes
    ----------
    name : str
        What ``python -m benchmarks.papers`` calls it.
    title, paper, quantity : str
        What it shows, where, and what is measured.
    columns : tuple of str
        Data sets; ``name:variant`` where one set appears in several forms.
    methods : mapping of str to Competitor
    published : mapping of (column, method) to Published
    runs : int, or mapping of column to int
        As many as the paper has.
    lower_is_better : bool
    duration : str
        Roughly, on one core: a minute, minutes or hours; "?" if that is not known.
    """

    name: str
    title: str
    paper: str
    quantity: str
    columns: tuple[str, ...]
    methods: Mapping[str, Competitor]
    published: Mapping[tuple[str, str], Published] = field(default_factory=dict)
    runs: int | Mapping[str, int] = 1
    lower_is_better: bool = True
    duration: str = "?"

    def n_runs(self, column):
        return self.runs if isinstance(self.runs, int) else self.runs[column]

    def missing_data(self, column):
        """Why the data of this column cannot be had, or None. What OpenML has is
        fetched here, before several processes ask.
        """
        source = column.partition(":")[0]
        if source in REGISTRY and not data.is_available(source):
            try:
                data.load(source)
            except FileNotFoundError:
                return f"data set {source} is not on this machine, nor can it be fetched"
        return None

    def obstacle(self, column, method):
        """Why this method cannot be measured on this column here, or None."""
        if not self.methods[method].exists:
            return f"{self.methods[method].estimator} is not installed"
        return None

    def summary(self, rows) -> list[dict[str, Any]]:
        """What the whole table comes to, one mapping of headings to values per line; empty
        for a table that is read cell by cell.
        """
        return []

    @abstractmethod
    def measure(self, column, method, run) -> dict[str, Any]:
        """Measure one cell: ``value``, and ``seconds`` of the fit; other entries are
        kept beside them.

        Optional ``tolerance`` is the standard error of a single run, and ``curve`` a
        pair of lists to draw.
        """


def timed(work):
    """Seconds that ``work()`` takes, without what Numba compiles on the way."""
    began = stopwatch()
    work()
    return stopwatch() - began


def on_device(X, least=GPU_FROM):
    """X on the GPU, when it has so many numbers and PyTorch finds one."""
    try:
        import torch
    except ImportError:
        return X
    on_gpu = X.size >= least and torch.cuda.is_available()
    return torch.as_tensor(X, device="cuda") if on_gpu else X
