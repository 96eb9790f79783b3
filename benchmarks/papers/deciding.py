"""Classifiers in a learned metric beside trees, boosting and neural networks, on 33 sets of KEEL
(`keel-decide`) and beside published accuracies (`talent`).

Of the other libraries only those that are installed are measured, and records are kept: each can be
run in an environment of its own (``python -m pip install catboost``, ``lightgbm``, ``xgboost``,
``pytabkit skorch faiss-cpu``), and the last run prints them all.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler

from conemetric.core.clock import stopwatch
from conemetric.decisions.base import MOST_EXACT

from ..data import load
from .experiment import Competitor, Published, on_device, ours
from .keel import COLUMNS, KeelTable, mean_seconds, standings

FOREST, BOOSTED, CATBOOST, OURS = "forest", "boosting", "CatBoost", "MetricClassifier"
QUIET = {"verbose": False, "allow_writing_files": False, "thread_count": 1}


def fitted(competitor, X, y, train):
    """The estimator fitted to standardised training rows, the scaler, and the seconds of the fit.
    Ours learns from many rows on a GPU, if there is one.
    """
    scaler = StandardScaler().fit(X[train])
    rows = scaler.transform(X[train])
    if competitor.is_ours and len(rows) > MOST_EXACT:
        rows = on_device(rows, 0)
    began = stopwatch()
    estimator = competitor.make().fit(rows, y[train])
    return estimator, scaler, stopwatch() - began


def beside_trees(rows, columns, noun, offset):
    """One line per method, over the sets that all methods were measured on: where it stands beside
    the better of forest and boosting.

    ``noun`` is the heading of the number of sets; ``offset`` is added to all values, so that
    ratios to a small one say little.
    """
    cells = {(row.dataset, row.method): row for row in rows}
    methods = list(dict.fromkeys(row.method for row in rows))
    shared = [c for c in columns if all((c, method) in cells for method in methods)]
    if not shared or not {FOREST, BOOSTED} <= set(methods):
        return []
    values = {m: np.array([cells[c, m].mean for c in shared]) + offset for m in methods}
    better = np.minimum(values[FOREST], values[BOOSTED])
    return [
        {
            noun: len(shared),
            "method": method,
            **line,
            "seconds": mean_seconds(cells, shared, method),
        }
        for method, line in standings(values, better, DecideTable.ratio_name).items()
    ]


@dataclass(frozen=True)
class DecideTable(KeelTable):
    """Error of classifiers on standardised columns."""

    references = FOREST, BOOSTED
    ratio_name = "ratio to the better of forest and boosting"

    def measure(self, column, method, run):
        data = load(column)
        split = self.split(column, data.y, run)
        classifier, scaler, seconds = fitted(self.methods[method], data.X, data.y, split.train)
        predicted = np.ravel(classifier.predict(scaler.transform(data.X[split.test])))
        error = float(np.mean(predicted != data.y[split.test]))
        certificate = getattr(classifier, "certificate_", None)
        return {
            "value": 100 * error,
            "seconds": seconds,
            "tolerance": 100 * (error * (1 - error) / len(split.test)) ** 0.5,
            "relative_gap": None if certificate is None else certificate.relative_gap,
        }

    def reference(self, error):
        return np.minimum(error[FOREST], error[BOOSTED])

    def more(self, error, method):
        return {}


KEEL_DECIDE = DecideTable(
    name="keel-decide",
    duration="hours",
    title="Classifiers on 33 KEEL sets, at most 1,500 training rows",
    paper="not in the papers",
    quantity="error, %",
    columns=COLUMNS,
    methods={
        FOREST: Competitor(
            "sklearn.ensemble:RandomForestClassifier", {"n_estimators": 300, "random_state": 0}
        ),
        BOOSTED: Competitor("sklearn.ensemble:HistGradientBoostingClassifier", {"random_state": 0}),
        "extra trees": Competitor(
            "sklearn.ensemble:ExtraTreesClassifier", {"n_estimators": 300, "random_state": 0}
        ),
        "SVC, grid": Competitor(f"{__package__}.baselines:GridSVC"),
        "NCA, 3-NN": Competitor(f"{__package__}.baselines:NearestInMetric", {"metric": "nca"}),
        "AutoMetric, 3-NN": Competitor(f"{__package__}.baselines:NearestInMetric"),
        CATBOOST: Competitor("catboost:CatBoostClassifier", {"random_state": 0, **QUIET}),
        "LightGBM": Competitor(
            "lightgbm:LGBMClassifier", {"random_state": 0, "n_jobs": 1, "verbose": -1}
        ),
        "XGBoost": Competitor("xgboost:XGBClassifier", {"random_state": 0, "n_jobs": 1}),
        "RealMLP-TD": Competitor("pytabkit:RealMLP_TD_Classifier", {"random_state": 0}),
        "TabR-S-D": Competitor("pytabkit:TabR_S_D_Classifier", {"random_state": 0}),
        OURS: ours("MetricClassifier", random_state=0),
    },
    runs=10,
    fractions=(0.7, 0.0, 0.3),
    stratified=True,
)

# accuracies that github.com/LAMDA-Tabular/TALENT reports: tuned by 100 trials, mean of 15 seeds
TALENT_METHODS = (
    "LogReg", "k-NN", "SVM", "random forest", "XGBoost", CATBOOST, "LightGBM", "TabPFN", "MLP", "FT-T",
    "TabR", "ModernNCA", "MLP-PLR", "RealMLP",
)  # fmt: skip
TALENT_ACCURACY = """
magic          0.7976 0.8465 0.7934 0.8690 0.8763 0.8787 0.8788 0.8669 0.8724 0.8759 0.8813 0.8596 0.8705 0.8786
pima           0.7597 0.7143 0.7468 0.7727 0.7645 0.7775 0.7814 0.7558 0.7606 0.7558 0.7597 0.7524 0.7576 0.7403
contraceptive  0.5424 0.4983 0.5130 0.5663 0.5880 0.6016 0.6052 0.5916 0.5742 0.4750 0.5939 0.5724 0.5930 0.5831
letter         0.7612 0.9507 0.6940 0.9103 0.9643 0.9709 0.9650      - 0.9745 0.9759 0.9849 0.9854 0.9739 0.9836
optdigits      0.9671 0.9795 0.9582 0.9801 0.9824 0.9824 0.9831 0.9789 0.9825 0.9779 0.9871 0.9913 0.9785 0.9870
penbased       0.9441 0.9909 0.9281 0.9879 0.9414 0.9913 0.9509 0.9888 0.9950 0.9935 0.9943 0.9940 0.9929 0.9960
phoneme        0.7382 0.8686 0.7294 0.8852 0.8766 0.8797 0.8807 0.8624 0.8684 0.8809 0.8892 0.8971 0.8698 0.8784
ring           0.7730 0.7757 0.7705 0.9367 0.9715 0.9711 0.9741 0.9804 0.9741 0.9765 0.9795 0.9802 0.9779 0.9761
satimage       0.8616 0.9075 0.8367 0.9086 0.9142 0.9135 0.9162 0.9077 0.8993 0.8959 0.9131 0.9104 0.9040 0.9156
segment        0.8853 0.8896 0.8297 0.9196 0.9149 0.9202 0.9177 0.9234 0.9199 0.9137 0.9190 0.9277 0.8986 0.9133
spambase       0.9229 0.9175 0.9191 0.9330 0.9523 0.9467 0.9461 0.9473 0.9386 0.9393 0.9388 0.9320 0.9304 0.9435
texture        0.9964 0.9855 0.9982 0.9675 0.9784 0.9900 0.9081      - 0.9964 0.9962 0.9981 0.9974 0.9962 0.9981
twonorm        0.9811 0.9797 0.9791 0.9745 0.9763 0.9774 0.9757 0.9791 0.9773 0.9782 0.9762 0.9778 0.9782 0.9785
vehicle        0.8235 0.7294 0.7596 0.7278 0.7604 0.7529 0.7812 0.8435 0.8235 0.7824 0.8576 0.8024 0.8133 0.8231
"""
AGREE = (
    1.0  # per cent; a set counts if our CatBoost and theirs are this close: some are other versions
)


def _talent():
    """Published errors by column and method."""
    lines = [line.split() for line in TALENT_ACCURACY.strip().splitlines()]
    return {
        (f"keel_{name}", method): Published(100 - 100 * float(value))
        for name, *values in lines
        for method, value in zip(TALENT_METHODS, values, strict=True)
        if value != "-"
    }


@dataclass(frozen=True)
class TalentTable(DecideTable):
    """Error on random splits, beside what others report on theirs."""

    def summary(self, rows):
        """Mean rank among the published methods, over the sets where CatBoost agrees."""
        error = {(row.dataset, row.method): row.mean for row in rows}
        methods = list(TALENT_METHODS)
        same = [
            column
            for column in self.columns
            if {(column, CATBOOST), (column, OURS)} <= set(error)
            and abs(error[column, CATBOOST] - self.published[column, CATBOOST].mean) <= AGREE
        ]
        if not same:
            return []
        values = np.array(
            [
                [
                    *(self.published.get((c, m), Published(np.nan)).mean for m in methods),
                    error[c, OURS],
                ]
                for c in same
            ]
        )
        # a method without a figure for a set has no rank there
        ranks = rankdata(values, axis=1, nan_policy="omit")
        means = np.nanmean(ranks, axis=0)
        return [
            {
                "sets": len(same),
                "method": method,
                "mean rank": round(float(mean), 2),
                "best on": int((rank == 1).sum()),
            }
            for method, mean, rank in sorted(
                zip([*methods, OURS], means, ranks.T, strict=True), key=lambda line: line[1]
            )
        ]


PUBLISHED = _talent()
TALENT = TalentTable(
    name="talent",
    title="Classifiers beside the accuracies that TALENT reports",
    paper="not in the papers",
    quantity="error, %",
    columns=tuple(dict.fromkeys(column for column, _ in PUBLISHED)),
    methods={
        CATBOOST: KEEL_DECIDE.methods[CATBOOST],
        OURS: KEEL_DECIDE.methods[OURS],
    },
    published=PUBLISHED,
    runs=15,
    fractions=(0.8, 0.0, 0.2),
    stratified=True,
    most_rows=1 << 62,
)

TABLES = (KEEL_DECIDE, TALENT)
