"""The report's pictures: one or two charts each, and a legend, which is left to the page, where
long names wrap. A pair is side by side on a wide screen and stacked on a phone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..plotting import AFTER, BEFORE, class_colours
from .charts import FONT, SMALL, Chart, extent
from .content import Confusion, Dimensions

# like BEFORE and AFTER distinguishable for the colour-blind, legible on white and on black
FIRST, SECOND, MISTAKE, NEUTRAL = "#7a5fd0", "#12a594", "#d6455d", "#888888"
BINS = 48  # of a histogram
FEW_CLASSES = 12  # up to which the counts of a confusion table are legible
MOST_FEATURES = 25  # bars
LONGEST = 18  # characters of a name on an axis
TITLES = ("Euclidean", "learned")
NO_TICKS: dict[str, Any] = {"x_ticks": [], "y_ticks": []}


@dataclass(frozen=True)
class Picture:
    """Panels as SVG, and a legend of colours and names."""

    panels: list[str]
    legend: list[tuple[str, str]] = field(default_factory=list)


def _shortened(names: Sequence[str]) -> list[str]:
    """Names that fit on an axis: the beginning and end of long ones."""
    return [
        name if len(name) <= LONGEST else f"{name[: LONGEST - 6]}\N{HORIZONTAL ELLIPSIS}{name[-5:]}"
        for name in names
    ]


def comparison_picture(pair: tuple[np.ndarray, ...], groups: np.ndarray) -> Picture:
    """The same rows before and after, a colour per group."""
    names = np.unique(groups).tolist()
    legend = list(zip(class_colours(len(names)), map(str, names), strict=True))
    panels = []
    for flat, title in zip(pair, TITLES, strict=True):
        chart = Chart(*map(extent, flat.T), title=title, **NO_TICKS)
        for name, (colour, _) in zip(names, legend, strict=True):
            x, y = flat[groups == name].T
            chart.points(x, y, colour)
        panels.append(chart.svg())
    return Picture(panels, legend if len(names) > 1 else [])


def confusion_picture(confusion: Confusion) -> Picture:
    """Two tables of counts; the diagonal is blank, so that colour shows mistakes."""
    names, tables = _shortened(confusion.names), (confusion.before, confusion.after)
    n, few = len(names), len(names) <= FEW_CLASSES
    ticks = [(i + 0.5, name) for i, name in enumerate(names)]
    most = max(1, *(np.max(table - np.diag(np.diag(table))) for table in tables))
    panels = []
    for table, title in zip(tables, TITLES, strict=True):
        chart = Chart(
            (0, n),
            (n, 0),
            title=title,
            x_label="predicted",
            y_label="true",
            x_ticks=ticks,
            y_ticks=ticks,
            square=True,
            font=FONT if few else SMALL,
        )
        for (i, j), count in np.ndenumerate(table):
            if i != j:
                shade = 0.06 + 0.94 * count / most
                cell = (j + 0.03, j + 0.97), (i + 0.03, i + 0.97)
                chart.box(*cell, MISTAKE if count else NEUTRAL, shade)
            if few and count:
                chart.text(j + 0.5, i + 0.5, str(count))
        panels.append(chart.svg())
    return Picture(panels)


def spectrum_picture(dimensions: Dimensions) -> Picture:
    """Eigenvalues, and the error using only the leading directions."""
    values = dimensions.eigenvalues / (dimensions.eigenvalues.max() or 1.0)
    worst = 108 * max(float(dimensions.errors.max()), 0.01)
    chart = Chart(
        (0.4, len(values) + 0.6),
        (0, 1.05),
        x_label="direction",
        y_label="eigenvalue",
        second=(0, worst, "error, %"),
    )
    for i, value in enumerate(values, 1):
        chart.box((i - 0.4, i + 0.4), (0, value), AFTER)
    chart.line(dimensions.tried, 100 * dimensions.errors, BEFORE, second=True)
    chart.rule(x=dimensions.suggested)
    anchor = "end" if dimensions.suggested > len(values) / 2 else "start"
    chart.text(dimensions.suggested, 1.0, f" enough: {dimensions.suggested} ", anchor)
    legend = [
        (AFTER, "eigenvalue (first = 1)"),
        (BEFORE, "error using the leading directions, %"),
    ]
    return Picture([chart.svg()], legend)


def features_picture(
    shares: np.ndarray, names: Sequence[str], image_shape: tuple[int, int] | None
) -> Picture:
    """A bar per column, the largest first, or an image where the columns are pixels."""
    if image_shape is not None:
        size = max(image_shape)
        title = f"darkest: {100 * shares.max():.2g} % of the learned distance"
        chart = Chart((0, size), (size, 0), square=True, title=title, **NO_TICKS)
        for (i, j), share in np.ndenumerate(shares.reshape(image_shape)):
            chart.box((j, j + 1), (i, i + 1), AFTER, share / (shares.max() or 1.0))
        return Picture([chart.svg()])
    top = np.argsort(-shares, kind="stable")[:MOST_FEATURES]
    shown = _shortened([names[i] for i in top])
    chart = Chart(
        (0, 105 * (shares.max() or 0.01)),
        (len(top) - 0.4, -0.6),
        x_label="share of the learned distance, %",
        y_ticks=[(float(i), name) for i, name in enumerate(shown)],
        height=72 + 17 * len(top),
    )
    for i, share in enumerate(shares[top]):
        chart.box((0, 100 * share), (i - 0.4, i + 0.4), AFTER)
    return Picture([chart.svg()])


def distances_picture(distances: tuple[np.ndarray, ...]) -> Picture:
    """Distances of similar and dissimilar pairs, before and after, in units of the threshold."""
    *scaled, similar = distances
    top = float(np.quantile(np.concatenate(scaled), 0.995))
    labels: dict[str, Any] = {"x_label": "distance / threshold", "y_label": "pairs"}
    panels = []
    for values, title in zip(scaled, TITLES, strict=True):
        kinds = [values[similar], values[~similar]]
        # those beyond the span count at its end
        counts = [np.histogram(np.minimum(each, top), BINS, (0, top))[0] for each in kinds]
        chart = Chart((0, top), (0, 1.05 * max(map(np.max, counts))), title=title, **labels)
        for count, colour in zip(counts, (SECOND, FIRST), strict=True):
            chart.steps(np.linspace(0, top, BINS + 1), count, colour)
        chart.rule(x=1)
        panels.append(chart.svg())
    return Picture(panels, [(SECOND, "similar"), (FIRST, "dissimilar")])
