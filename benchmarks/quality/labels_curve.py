"""1-NN error on frozen embeddings against the number of labelled rows in a class, by defaults.

So many rows of each of the 33 sections are drawn from the official training rows, FrobMetric learns
from them by its defaults, and the test rows take the label of the nearest of them, by the Euclidean
distance and by the learned one. Logistic regression, which predicts without neighbours, learns from the
same rows, with its defaults (C = 1).

    python -m benchmarks labels_curve --counts 4 16 64 --draws 5 --figure FILE.png

Data: debian_minilm384
Minutes: 3 (estimated)
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

from conemetric import FrobMetric
from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..data import load
from ..output import markdown_head, markdown_row

NAMES = ("Euclidean distance, 1-NN", "FrobMetric, 1-NN", "logistic regression")
COLOURS = ("#e8853c", "#4f83cc", "#2f9e8f")


def draw_rows(y, count, seed):
    """``count`` rows of each class."""
    rng = np.random.default_rng([count, seed])
    drawn = [rng.permutation(np.flatnonzero(y == label))[:count] for label in np.unique(y)]
    return np.concatenate(drawn)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--counts", nargs="*", type=int, default=[4, 16, 64])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--figure")
    options = parser.parse_args(arguments)
    data = load("debian_minilm384", dtype=np.float32)
    X = data.X
    y = data.y
    n = data.n_train
    curve = []
    print(*markdown_head(["labelled rows of a class", *NAMES]), sep="\n")
    for count in options.counts:
        errors = []
        for seed in range(options.draws):
            rows = draw_rows(y[:n], count, seed)
            learned = FrobMetric().fit(X[rows], y[rows])
            logistic = LogisticRegression(max_iter=1000).fit(X[rows], y[rows])
            errors.append(
                [
                    100 * knn_error(None, X[rows], y[rows], X[n:], y[n:], [1])[0],
                    100 * knn_error(learned, X[rows], y[rows], X[n:], y[n:], [1])[0],
                    100 * np.mean(logistic.predict(X[n:]) != y[n:]),
                ]
            )
        means = np.mean(errors, axis=0)
        spread = np.std(errors, axis=0, ddof=min(1, len(errors) - 1))
        curve.append(means)
        cells = [f"{m:.1f} ({s:.1f})" for m, s in zip(means, spread, strict=True)]
        print(markdown_row([count, *cells]), flush=True)
    if options.figure:
        draw(options.counts, np.array(curve), options.figure)


def draw(counts, curve, path):
    import matplotlib.pyplot as plt

    grey = "#808495"  # visible on white and on black, as in docs/figures/front.py
    parts = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    with plt.rc_context(dict.fromkeys(parts, grey)):
        figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
        for name, values, colour in zip(NAMES, curve.T, COLOURS, strict=True):
            axes.plot(counts, values, "o-", label=name, color=colour)
        axes.set(xscale="log", xlabel="labelled rows of each class", ylabel="error, %")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, loc="lower left")
        figure.savefig(path, dpi=150, transparent=True)
