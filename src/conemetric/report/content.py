"""The numbers a report shows, computed from a `Study`; the templates draw them."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import confusion_matrix

from ..core import spectral
from ..plotting import class_colours, on_principal_axes
from ..studies import Study

SHOWN = 400  # rows drawn in the two-dimensional views: more overlap
JUDGED = 2000  # rows the suggested dimension is judged on: a standard error below 1.2 %
MOST_CLASSES = 30  # legible in a confusion table
MOST_FEATURES = 25  # bars
TINY = np.finfo(float).tiny
# of a picture
WIDTH = 396
HEIGHT = 274
MARGIN = 6
OUTLYING = 0.15  # of the range of most rows: how far beyond it the map reaches
BINS = 48  # of a histogram
TITLES = ("Euclidean", "learned")
# distinguishable for the colour-blind
SIMILAR = "#12a594"
DISSIMILAR = "#7a5fd0"


class Picture(NamedTuple):
    """Panels, each a title and its marks, a legend of colours and names, and what the axes are."""

    panels: list[tuple[str, list[tuple]]]
    legend: list[tuple[str, str]]
    axes: tuple[str, str]


def shown_rows(study: Study) -> tuple[np.ndarray, np.ndarray]:
    """Held-out rows, or rows of constraints, to show, and the name of the group of each."""
    task = study.task
    rng = np.random.default_rng(study.options.seed)
    if task.kind not in ("labels", "quantity"):
        rows = np.sort(rng.permutation(np.unique(task.indices))[:SHOWN])
        return rows, np.full(len(rows), "rows")
    rows = task.sample(task.test, SHOWN, rng)
    y = task.y[rows]
    if task.kind == "labels":
        return rows, y.astype(str)
    names = np.array(["1: lowest quarter", "2", "3", "4: highest quarter"])
    return rows, names[np.searchsorted(np.quantile(y, (0.25, 0.5, 0.75)), y)]


def projection(study: Study) -> Picture:
    """The same rows before and after on their principal axes, as (x, y, colour)."""
    rows, groups = shown_rows(study)
    names, colour_of = np.unique(groups, return_inverse=True)
    colours = class_colours(len(names))
    panels = []
    X = study.task.X[rows]
    for title, Z in zip(TITLES, (X, study.estimator.transform(X)), strict=True):
        share = np.nan_to_num(within_frame(on_principal_axes(Z)))
        places = MARGIN + share * (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN)
        x, y = places.round(1).T.tolist()
        coloured = [colours[i] for i in colour_of]
        panels.append((title, list(zip(x, y, coloured, strict=True))))
    legend: list[tuple[str, str]] = []
    if len(names) > 1:
        legend = list(zip(colours, map(str, names), strict=True))
    return Picture(panels, legend, ("first principal axis", "second principal axis"))


def within_frame(flat: np.ndarray) -> np.ndarray:
    """Places in a frame from 0 to 1 that shows all rows but outliers, which lie at its edge: one
    of them would otherwise squash the others into a corner.
    """
    low, high = np.quantile(flat, (0.01, 0.99), axis=0)
    reach = OUTLYING * (high - low)
    low = np.maximum(flat.min(axis=0), low - reach)
    high = np.minimum(flat.max(axis=0), high + reach)
    return np.clip((flat - low) / (high - low + TINY), 0, 1)


class Confusion(NamedTuple):
    """Counts, true by predicted class; of many classes those with most mistakes."""

    names: list[str]
    tables: dict[str, np.ndarray]  # by the row of the study's table
    left_out: int


def confusion(study: Study, titles: dict[str, str]) -> Confusion | None:
    """The counts of every row of the table, under its title; None without classes."""
    if study.task.kind != "labels":
        return None
    names = study.task.classes.astype(str)
    true = study.task.y[study.task.test].astype(str)
    tables = {}
    for row, title in titles.items():
        predicted = study.judged[0][row].detail["predicted"].astype(str)
        tables[title] = confusion_matrix(true, predicted, labels=names)
    keep = np.arange(len(names))
    if len(names) > MOST_CLASSES:
        total = sum(tables.values())
        off = total - np.diag(np.diag(total))
        keep = np.sort(np.argsort(-(off.sum(0) + off.sum(1)), kind="stable")[:MOST_CLASSES])
    kept = {title: table[np.ix_(keep, keep)] for title, table in tables.items()}
    return Confusion(names[keep].tolist(), kept, len(names) - len(keep))


class Dimensions(NamedTuple):
    """Eigenvalues of the learned metric, and the validation error using only the leading
    directions; ``suggested`` is the fewest within one standard error of the best.
    """

    eigenvalues: np.ndarray
    tried: np.ndarray
    errors: np.ndarray
    suggested: int


def dimensions(study: Study) -> Dimensions:
    """Judge the leading directions of the metric on a part of the training items."""
    components = study.estimator.components_
    task = study.task
    n = len(components)
    steps = np.round(2 ** np.arange(0, np.log2(n), 0.5))
    tried = np.unique(np.append(steps[steps < n], n)).astype(int)
    # from the training rows: a dimension chosen on the held-out rows would
    # make their errors too low
    held_out = task.validation(JUDGED, np.random.default_rng(study.options.seed))
    mapped = held_out.prepared(study.estimator)
    rates = []
    for d in tried:
        leading = replace(mapped, X=mapped.X[:, :d])
        rates.append(leading.judge(None, study.options).rate)
    errors = np.array(rates)
    best = errors.min()
    n_judged = len(mapped.test)
    # one standard error, of one mistake at least
    slack = np.sqrt(max(best * (1 - best), 1 / n_judged) / n_judged)
    within = errors <= best + slack
    # and stays so with more directions, unless fewer are better: one low value among others may be luck
    stays = np.logical_and.accumulate(within[::-1])[::-1]
    if not stays.any():
        stays = within
    suggested = int(tried[np.argmax(stays)])
    return Dimensions(spectral.eigenvalues_of(components), tried, errors, suggested)


def feature_shares(study: Study) -> np.ndarray | None:
    """Share of each column in the mean squared learned distance: M_jj times its variance. None with a
    kernel, whose coordinates take all columns together.
    """
    if study.metric.kernel is not None:
        return None
    components = study.estimator.components_
    if study.options.n_pca is None:
        variance = study.task.training_rows().var(axis=0)
    else:  # back through the principal axes; what they left out counts as noise, evenly spread
        pca = study.prepare[-1]
        components = components @ pca.components_
        variance = pca.explained_variance_ @ pca.components_**2 + pca.noise_variance_
    weight = np.asarray((components**2).sum(axis=0) * variance, float)
    if study.metric.encoder is not None:  # the features of a column together
        weight = study.metric.encoder.by_column(weight)
    if not weight.sum() > 0:
        return weight
    return weight / weight.sum()


def main_features(shares: np.ndarray | None, names: list[str]) -> list[tuple[str, float]]:
    """The columns with the largest shares, of `feature_shares`."""
    if shares is None:
        return []
    return [(names[i], shares[i]) for i in np.argsort(-shares, kind="stable")[:MOST_FEATURES]]


def distances(study: Study) -> Picture | None:
    """Histograms of the distances of held-out pairs before and after, in units of their threshold,
    as (x, y, width, height, colour); None for other tasks.
    """
    task = study.task
    if task.kind != "pairs":
        return None
    scaled = [_in_thresholds(judgement.detail) for judgement in (study.before, study.after)]
    top = float(np.quantile(np.concatenate(scaled), 0.995))
    similar = task.similar[task.test]
    panels = []
    for title, values in zip(TITLES, scaled, strict=True):
        threshold = round(min(1 / top, 1) * WIDTH, 1)
        line = (threshold, 0, 1, HEIGHT, "#888888")
        kinds = {SIMILAR: values[similar], DISSIMILAR: values[~similar]}
        panels.append((title, [line, *_bars(kinds, top)]))
    legend = [(SIMILAR, "similar"), (DISSIMILAR, "dissimilar")]
    return Picture(panels, legend, ("distance, in units of the threshold", "pairs"))


def _in_thresholds(detail: dict[str, Any]) -> np.ndarray:
    """Distances in units of their threshold; of their median where that is 0 or infinite."""
    distance = detail["distance"]
    unit = detail["threshold"]
    if not 0 < unit < np.inf:
        unit = np.median(distance) or 1.0
    return distance / unit


def _bars(kinds: dict[str, np.ndarray], top: float) -> list[tuple]:
    """The bars of a histogram of distances for each colour, all to one scale."""
    counts = {}
    for colour, values in kinds.items():
        # those beyond the top count at the end
        counts[colour] = np.histogram(np.minimum(values, top), BINS, (0, top))[0]
    most = max(map(np.max, counts.values()))
    wide = WIDTH / BINS
    bars = []
    for colour, count in counts.items():
        for i, tall in enumerate((count / most * (HEIGHT - 20)).round(1).tolist()):
            bars.append((round(i * wide, 1), HEIGHT - tall, round(wide, 1), tall, colour))
    return bars
