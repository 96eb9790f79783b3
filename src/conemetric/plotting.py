"""Plots of a learned metric, in scikit-learn's style: ``SomeDisplay.from_estimator(...)``
computes and draws.

Each display keeps its axes and figure (``ax_``, ``figure_``), draws again by ``plot``, and takes
any fitted metric of the library, including `LearnedMetric` (except `ConvergenceDisplay`: a
loaded metric has no history).
"""

import colorsys
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.decomposition import PCA

from .core import spectral
from .core.arrays import to_numpy
from .core.extras import require

BEFORE, AFTER = "#d98a1f", "#2b7fd4"  # distinguishable for the colour-blind
# matplotlib's own cycle
TEN = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd",
    "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip


class _Display:
    """``plot`` on given axes, or on new ones."""

    def _axes(self, ax, n_columns=1, figsize=(6.0, 4.0)):
        if ax is None:
            plt = require("matplotlib.pyplot", "plot")
            _, ax = plt.subplots(1, n_columns, figsize=figsize, layout="constrained")
        axes = np.atleast_1d(ax)
        if len(axes) != n_columns:
            raise ValueError(f"ax has {len(axes)} axes; this display needs {n_columns}.")
        self.ax_, self.figure_ = ax, axes[0].figure
        return axes


def on_principal_axes(Z: np.ndarray) -> np.ndarray:
    """Rows on their two principal axes; the second coordinate of a single feature is 0."""
    with np.errstate(invalid="ignore"):  # the zero metric leaves no variance
        flat = PCA(min(2, *Z.shape)).fit_transform(Z)
    return flat if flat.shape[1] == 2 else np.column_stack([flat, np.zeros(len(flat))])


class MetricComparisonDisplay(_Display):
    """The same rows before and after, in two dimensions each.

    Parameters
    ----------
    before, after : array (n, 2)
    labels : array (n,), default=None
        Classes, drawn in different colours.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric
    >>> from conemetric.plotting import MetricComparisonDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = MetricComparisonDisplay.from_estimator(FrobMetric().fit(X, y), X, y)
    >>> [ax.get_title() for ax in display.ax_]
    ['Euclidean', 'learned']
    """

    def __init__(self, before: np.ndarray, after: np.ndarray, labels: Any = None) -> None:
        self.before, self.after, self.labels = before, after, labels

    @classmethod
    def from_estimator(cls, metric: Any, X: Any, y: Any = None, *, ax: Any = None) -> Self:
        """Project rows on the two principal axes of the Euclidean and of the learned space."""
        before, after = (on_principal_axes(to_numpy(Z)) for Z in (X, metric.transform(X)))
        return cls(before, after, labels=y).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; ``ax`` is a pair of axes."""
        axes = self._axes(ax, 2, (9.0, 4.2))
        labels = np.zeros(len(self.before)) if self.labels is None else np.asarray(self.labels)
        names = np.unique(labels)
        dots = {"s": 14, "alpha": 0.8, "linewidths": 0}
        titled = zip(axes, (self.before, self.after), ("Euclidean", "learned"), strict=True)
        for axis, flat, title in titled:
            for name, colour in zip(names, class_colours(len(names)), strict=True):
                axis.scatter(*flat[labels == name].T, color=colour, label=str(name), **dots)
            axis.set(title=title, xticks=[], yticks=[])
        if 1 < len(names) <= 12:
            axes[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        return self


def class_colours(n: int) -> list[str]:
    """A colour for each of n classes: distinct up to ten, then along a rainbow."""
    if n <= len(TEN):
        return list(TEN[:n])
    colours = []
    for i in range(n):
        hue = 0.83 * i / (n - 1)  # up to magenta: 1 would be red again
        red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue, 0.5, 0.75))
        colours.append(f"#{red:02x}{green:02x}{blue:02x}")
    return colours


class SpectrumDisplay(_Display):
    """Eigenvalues of the learned metric, largest first.

    Parameters
    ----------
    eigenvalues : array (rank,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric
    >>> from conemetric.plotting import SpectrumDisplay
    >>> display = SpectrumDisplay.from_estimator(FrobMetric().fit(*load_iris(return_X_y=True)))
    >>> bool(display.eigenvalues[0] == display.eigenvalues.max())
    True
    """

    def __init__(self, eigenvalues: Any) -> None:
        self.eigenvalues = eigenvalues

    @classmethod
    def from_estimator(cls, metric: Any, *, ax: Any = None) -> Self:
        """Take the eigenvalues of M from the rows of ``components_``."""
        return cls(spectral.eigenvalues_of(to_numpy(metric.components_))).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax``."""
        (axis,) = self._axes(ax)
        axis.bar(np.arange(1, len(self.eigenvalues) + 1), self.eigenvalues, color=AFTER, alpha=0.7)
        axis.set(xlabel="direction", ylabel="eigenvalue", title="Spectrum of the learned metric")
        return self


class ConvergenceDisplay(_Display):
    """Objective and proven bound by iteration, and the relative gap between the best of each.

    Parameters
    ----------
    history : dict
        With ``primal``, ``dual`` and ``relative_gap``, as in ``history_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric
    >>> from conemetric.plotting import ConvergenceDisplay
    >>> display = ConvergenceDisplay.from_estimator(FrobMetric().fit(*load_iris(return_X_y=True)))
    >>> display.ax_[1].get_yscale()
    'log'
    """

    def __init__(self, history: Mapping[str, Any]) -> None:
        self.history = history

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Take ``history_`` from a fitted estimator."""
        return cls(estimator.history_).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; ``ax`` is a pair of axes."""
        bounds, gap = self._axes(ax, 2, (9.0, 3.6))
        curves = {"primal": (AFTER, "objective of the metric"), "dual": (BEFORE, "proven bound")}
        for name, (colour, label) in curves.items():
            bounds.plot(self.history[name], color=colour, marker=".", label=label)
        bounds.set(xlabel="iteration", ylabel="objective")
        bounds.legend(frameon=False)
        size = np.abs(np.asarray(self.history["relative_gap"], float))
        gap.semilogy(np.where(size > 0, size, np.nan), color="#7a5fd0", marker=".")
        gap.set(xlabel="iteration", ylabel="certified relative gap")
        return self
