"""Draws a table: ours against published, one panel per data set; or the ROC curves that
were measured.
"""

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

OURS, OTHERS, PUBLISHED = "#77aadd", "#cccccc", "#cc3311"


def draw(table, path):
    """Write the figure of a `ResultTable` to ``path`` (no window is opened, whatever the backend)."""
    columns = list(dict.fromkeys(row.dataset for row in table.rows))
    if not columns:
        return
    height = -(-len(columns) // 4)
    width = -(-len(columns) // height)
    figure = Figure(figsize=(4.2 * width, 3.4 * height), layout="constrained")
    axes = figure.subplots(height, width, squeeze=False).ravel()
    for ax in axes[len(columns) :]:
        ax.set_visible(False)
    measured = [record for record in table.records if "curve" in record]
    for ax, column in zip(axes, columns, strict=False):
        curves = [record for record in measured if record["dataset"] == column]
        if curves:
            _curves(ax, curves)
        else:
            _bars(
                ax, [row for row in table.rows if row.dataset == column], table.experiment.methods
            )
        ax.set_title(column, fontsize=9)
    shown = "ROC curves, area below in brackets" if measured else table.experiment.quantity
    figure.suptitle(f"{table.experiment.title}: {shown}", fontsize=10)
    with rc_context({"svg.hashsalt": "conemetric"}):
        figure.savefig(path, dpi=120)


def _bars(ax, rows, methods):
    """A bar per method, this package's in colour, its value at the foot; diamonds where
    the paper has a number.
    """
    places = range(len(rows))
    colours = [OURS if methods[row.method].is_ours else OTHERS for row in rows]
    ax.barh(
        places,
        [row.mean for row in rows],
        xerr=[row.std for row in rows],
        height=0.7,
        color=colours,
    )
    for place, row in zip(places, rows, strict=True):
        ax.annotate(
            f"{row.mean:.3g}",
            (0, place),
            (3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    known = [
        (row.published, place)
        for place, row in zip(places, rows, strict=True)
        if row.published is not None
    ]
    if known:
        ax.plot(*zip(*known, strict=True), "D", color=PUBLISHED, markersize=4, label="published")
        ax.legend(fontsize=7)
    ax.set_yticks(places, [row.method for row in rows], fontsize=7)
    ax.invert_yaxis()


def _curves(ax, records):
    """ROC curves, one per method, the mean over its runs; all have the same false
    positive rates.
    """
    for method in dict.fromkeys(record["method"] for record in records):
        curves = [record["curve"] for record in records if record["method"] == method]
        rates, mean = curves[0][0], np.mean([curve[1] for curve in curves], axis=0)
        ax.plot(rates, mean, label=f"{method} ({np.trapezoid(mean, rates):.3f})", linewidth=1.2)
    ax.set(xlabel="false positive rate", ylabel="true positive rate")
    ax.legend(fontsize=7, loc="lower right")
