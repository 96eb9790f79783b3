"""The report's pictures: matplotlib's SVG, in the colours of the page.

Every panel is an SVG of its own, so that a pair is side by side on a wide screen and stacked
on a phone. Legends are left to the page, where long names wrap.
"""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from ...core.extras import require
from ..plotting import (
    AFTER,
    BEFORE,
    ConvergenceDisplay,
    MetricComparisonDisplay,
    SpectrumDisplay,
    class_colours,
)
from .content import Confusion, Dimensions

__all__ = ["Picture"]

# like BEFORE and AFTER distinguishable for the colour-blind, legible on white and on black
FIRST, SECOND, MISTAKE, NEUTRAL = "#7a5fd0", "#12a594", "#d6455d", "#888888"
INK, LINE = "#010203", "#010204"  # stand for the colours of the page, light or dark
PAGE_COLOURS = {INK: "currentColor", LINE: "var(--line)"}
WIDTH, HEIGHT = 5.5, 3.8  # inches of 72 SVG units: on a screen of 390 px, a unit is 0.9 px
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.edgecolor": LINE,
    "xtick.color": LINE,
    "ytick.color": LINE,
}
BINS = 48  # of a histogram
FEW_CLASSES = 12  # up to which the counts of a confusion table are legible
MOST_FEATURES = 25  # bars
LONGEST = 18  # characters of a name on an axis


Drawn = Any  # axes and legend, which the decorator `_picture` turns into a Picture


@dataclass(frozen=True)
class Picture:
    """Panels as SVG, and a legend of colours and names."""

    panels: list[str]
    legend: list[tuple[str, str]]


def _picture(draw: Callable[..., tuple[list, Any]]) -> Callable[..., Picture]:
    """Turn a function that returns axes and a legend (None: the labels of the axes) into one
    that returns a `Picture`.
    """

    @wraps(draw)
    def drawn(*values: Any) -> Picture:
        # identifiers within SVG differ between pictures and are the same in every run
        style = {**STYLE, "svg.hashsalt": draw.__name__}
        with require("matplotlib", "cli").rc_context(style):
            axes, legend = draw(*values)
            legend = _labels(axes) if legend is None else legend
            return Picture([_svg(axis.figure) for axis in axes], legend)

    return drawn


def _panels(n: int = 1, height: float = HEIGHT) -> list:
    """Axes of as many figures."""
    figure = require("matplotlib.figure", "cli").Figure
    return [figure(figsize=(WIDTH, height), layout="constrained").subplots() for _ in range(n)]


def _labels(axes: list) -> list[tuple[str, str]]:
    """Colours and labels of what the axes show, once each; their own legends are removed."""
    to_hex = require("matplotlib.colors", "cli").to_hex
    found = {}
    for axis in (shown for panel in axes for shown in panel.figure.axes):
        if axis.get_legend() is not None:
            axis.get_legend().remove()
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            artist = handle[0] if isinstance(handle, tuple) else handle  # of bars, of error bars
            filled = hasattr(artist, "get_facecolor")
            found[label] = to_hex(artist.get_facecolor() if filled else artist.get_color())
    return [(colour, label) for label, colour in found.items()]


def _svg(figure: Any) -> str:
    """The figure as SVG within a page: colours of the page, its own size and style sheet gone."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg)
    svg = re.sub(r' id="[\w.]+_\d{1,3}"', "", svg)
    for stand_in, colour in PAGE_COLOURS.items():
        svg = svg.replace(stand_in, colour)
    return svg


def _shortened(names: Sequence[str], most: int = LONGEST) -> list[str]:
    """Names that fit on an axis: the beginning and end of long ones."""
    return [
        name if len(name) <= most else f"{name[: most - 6]}\N{HORIZONTAL ELLIPSIS}{name[-5:]}"
        for name in names
    ]


@_picture
def comparison_picture(pair: tuple[np.ndarray, np.ndarray], groups: np.ndarray) -> Drawn:
    """The same rows before and after, a colour per group."""
    axes = _panels(2)
    MetricComparisonDisplay(*pair, groups).plot(axes)
    _labels(axes)
    names = np.unique(groups)
    to_hex = require("matplotlib.colors", "cli").to_hex
    colours = [to_hex(colour) for colour in class_colours(len(names))]
    return axes, list(zip(colours, names.tolist(), strict=True)) if len(names) > 1 else []


@_picture
def confusion_picture(confusion: Confusion) -> Drawn:
    """Two tables of counts; the diagonal is blank, so that colour shows mistakes."""
    colours = require("matplotlib.colors", "cli")
    faint = (*colours.to_rgb(NEUTRAL), 0.08)
    shades = colours.LinearSegmentedColormap.from_list("mistakes", [faint, MISTAKE])
    names, tables = _shortened(confusion.names), (confusion.before, confusion.after)
    places = np.arange(len(names)) + 0.5
    few = len(names) <= FEW_CLASSES
    most = max(1, *(np.max(table - np.diag(np.diag(table))) for table in tables))
    axes = _panels(2, WIDTH)
    for axis, table, title in zip(axes, tables, ("Euclidean", "learned"), strict=True):
        mistakes = np.ma.masked_array(table, np.eye(len(table), dtype=bool))
        axis.pcolormesh(mistakes, cmap=shades, vmin=0, vmax=most, edgecolors=LINE, linewidth=0.5)
        axis.set(title=title, xlabel="predicted", ylabel="true", aspect="equal")
        axis.tick_params(labelsize=11 if few else 8)
        axis.set_xticks(
            places, names, rotation=0 if max(map(len, names)) < 3 else 90, parse_math=False
        )
        axis.set_yticks(places, names, parse_math=False)
        axis.invert_yaxis()
        for (i, j), count in np.ndenumerate(table if few else np.zeros((0, 0))):
            if count:
                axis.text(j + 0.5, i + 0.5, str(count), ha="center", va="center")
    return axes, []


@_picture
def spectrum_picture(dimensions: Dimensions) -> Drawn:
    """Eigenvalues, and the error using only the leading directions."""
    (axis,) = _panels()
    SpectrumDisplay(dimensions.eigenvalues / (dimensions.eigenvalues.max() or 1.0)).plot(axis)
    axis.containers[0].set_label("eigenvalue (first = 1)")
    axis.set_title("")
    errors = axis.twinx()
    errors.plot(
        dimensions.tried,
        100 * dimensions.errors,
        color=BEFORE,
        marker="o",
        markersize=4,
        label="error using the leading directions, %",
    )
    errors.set(ylabel="error, %", ylim=(0, 108 * max(float(dimensions.errors.max()), 0.01)))
    axis.axvline(dimensions.suggested, color=NEUTRAL, linestyle=":")
    axis.annotate(
        f" enough: {dimensions.suggested}", (dimensions.suggested, 1.0), va="top", color=INK
    )
    return [axis], None


@_picture
def features_picture(
    shares: np.ndarray, names: Sequence[str], image_shape: tuple[int, int] | None
) -> Drawn:
    """A bar per column, the largest first, or an image where the columns are pixels."""
    if image_shape is not None:
        (axis,) = _panels()
        image = axis.imshow(100 * shares.reshape(image_shape))
        axis.set_axis_off()
        axis.figure.colorbar(image, ax=axis, label="share, %")
        return [axis], []
    top = np.argsort(-shares, kind="stable")[:MOST_FEATURES][::-1]
    (axis,) = _panels(height=1.0 + 0.24 * len(top))
    axis.barh(np.arange(len(top)), 100 * shares[top], color=AFTER, alpha=0.7)
    axis.set_yticks(np.arange(len(top)), _shortened([names[i] for i in top]), parse_math=False)
    axis.set_xlabel("share of the learned distance, %")
    return [axis], []


@_picture
def convergence_picture(history: Mapping[str, np.ndarray]) -> Drawn:
    """Primal and dual closing in on the optimum, and the relative gap between the best of each."""
    axes = _panels(2)
    finite = {name: np.where(np.isfinite(v), v, np.nan) for name, v in history.items()}
    ConvergenceDisplay(finite).plot(axes)
    return axes, None


@_picture
def margins_picture(margins: tuple[np.ndarray, np.ndarray]) -> Drawn:
    """How many held-out triplets are in the right order, and by how much."""
    (axis,) = _panels()
    low, high = np.quantile(np.concatenate(margins), [0.001, 0.999])
    span = (min(low, -0.2), max(high, 0.2))
    for values, name, colour in zip(margins, ("before", "after"), (BEFORE, AFTER), strict=True):
        label = f"{name}: {np.mean(values > 0):.1%} right"
        _histogram(axis, np.clip(values, *span), span, label, colour)
    axis.axvline(0, color=NEUTRAL, linestyle=":")
    axis.set(xlabel="log2 (far distance / near distance)", ylabel="triplets")
    return [axis], None


@_picture
def distances_picture(distances: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Drawn:
    """Distances of similar and dissimilar pairs, before and after, in units of the threshold."""
    *scaled, similar = distances
    top = float(np.quantile(np.concatenate(scaled), 0.995))
    axes = _panels(2)
    for axis, values, title in zip(axes, scaled, ("Euclidean", "learned"), strict=True):
        for mask, name, colour in ((similar, "similar", SECOND), (~similar, "dissimilar", FIRST)):
            _histogram(axis, np.minimum(values[mask], top), (0, top), name, colour)
        axis.axvline(1, color=NEUTRAL, linestyle=":")
        axis.set(title=title, xlabel="distance / threshold", ylabel="pairs")
    return axes, None


def _histogram(axis, values, span, label, colour):
    axis.hist(
        values,
        BINS,
        range=span,
        label=label,
        color=colour,
        alpha=0.6,
        histtype="stepfilled",
        linewidth=0,
    )


@_picture
def differences_picture(differences: np.ndarray) -> Drawn:
    """The queries whose value changed, from the largest loss to the largest gain."""
    (axis,) = _panels()
    changed = 100 * differences[differences != 0]
    axis.stairs(np.maximum(changed, 0), fill=True, color=AFTER, label="gained")
    axis.stairs(np.minimum(changed, 0), fill=True, color=BEFORE, label="lost")
    axis.set(xlabel="queries, by difference", ylabel="nDCG@10 after minus before", ylim=(-105, 105))
    axis.set_xticks([])
    return [axis], None


@_picture
def choice_picture(paths: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Drawn:
    """Gain on held-out training queries along each path, with one standard error."""
    (axis,) = _panels()
    palette = (AFTER, BEFORE, FIRST, SECOND, MISTAKE, NEUTRAL)
    for i, (name, (C, gain, error)) in enumerate(paths.items()):
        colour = palette[i % len(palette)]
        axis.errorbar(C, gain, error, color=colour, marker="o", markersize=4, label=name)
    axis.axhline(0, color=NEUTRAL, linestyle=":")
    axis.set(xlabel="C", ylabel="gain of nDCG@10, points", xscale="log")
    return [axis], None
