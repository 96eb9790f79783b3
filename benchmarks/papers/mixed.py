"""Decisions from tables with words and gaps, beside forests and boosting that get them natively, on
the files ``tables/class_*.csv`` and ``tables/number_*.csv`` of the folder named by ``CONEMETRIC_DATA``
(header, comma, empty where missing; the column to predict is ``target``).

CatBoost, LightGBM and xRFM are measured where they are installed (``python -m pip install catboost
lightgbm xrfm``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from conemetric import TableEncoder
from conemetric.core.clock import stopwatch

from ..data import has_table, load_table
from .baselines import GridSVC, GridXRFM
from .deciding import BOOSTED, CATBOOST, FOREST, QUIET, beside_trees
from .experiment import Competitor, Experiment, ours

MOST_ROWS = 1500  # of training
GAP = "(missing)"
NAMES = {
    "class": """anneal autos balance_scale breast_cancer bridges_version1 car cmc colic column3C credit_a
    credit_g dermatology eucalyptus glass heart_c hypothyroid kr_vs_kp lymph primary_tumor vote""",
    "number": """auto93 autohorse autompg autoprice bodyfat cholesterol cleveland cloud cpu cpu_small echomonths fishcatch
    housing kin8nm lowbwt pbc puma8NH pyrim sensory servo stock strike triazines veteran""",
}


def split_rows(name, y, run):
    """Training and test rows, 70 to 30, classes in proportion where each has two rows."""
    _, code, sizes = np.unique(y, return_inverse=True, return_counts=True)
    by_class = code if name.startswith("class") and sizes.min() > 1 else None
    train, test = train_test_split(
        np.arange(len(y)), test_size=0.3, random_state=run, stratify=by_class
    )
    return train[:MOST_ROWS], test


# ---- how each method takes a table


def words_of(frame):
    return [name for name in frame if frame[name].dtype.kind not in "biuf"]


def as_text(frame):
    """Words as text, a gap as a word of its own; without columns that are empty."""
    frame = frame.loc[:, frame.notna().any()].copy()
    for name in words_of(frame):
        frame[name] = frame[name].astype(object).where(frame[name].notna(), GAP).astype(str)
    return frame


def as_categories(frame):
    frame = as_text(frame)
    return frame.astype(dict.fromkeys(words_of(frame), "category"))


def one_hot(model, frame):
    words = words_of(frame)
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_pipeline(make_column_transformer((encoder, words), remainder="passthrough"), model)


def with_categories(model, frame):
    return model.set_params(cat_features=words_of(frame))


def as_given(frame):
    return frame


def alone(model, frame):
    return model


def encoded(model, frame):
    return make_pipeline(TableEncoder(sparse_output=False), model)


@dataclass(frozen=True)
class TableCompetitor(Competitor):
    """A method, how a table is prepared for it and how the estimator is made for the table."""

    prepare: Callable = as_given
    wrap: Callable = alone


def of_table(competitor, prepare=as_given, wrap=alone):
    return TableCompetitor(competitor.estimator, competitor.parameters, prepare=prepare, wrap=wrap)


@dataclass(frozen=True)
class MixedTable(Experiment):
    """Error in per cent: of classes the rows that are wrong, of numbers the root of the unexplained
    share of the variance.
    """

    kind: str = "class"

    def missing_data(self, column):
        return None if has_table(column) else f"no file {column}.csv"

    def measure(self, column, method, run):
        frame, y = load_table(column)
        train, test = split_rows(column, y, run)
        competitor: Any = self.methods[method]
        kept = frame.columns[frame.iloc[train].notna().any()]
        prepared = competitor.prepare(frame[kept])
        model = competitor.wrap(competitor.make(), prepared.iloc[train])
        began = stopwatch()
        model.fit(prepared.iloc[train], y[train])
        seconds = stopwatch() - began
        predicted = np.ravel(model.predict(prepared.iloc[test]))
        certificate = getattr(model, "certificate_", None)
        if self.kind == "class":
            value = float(np.mean(predicted != y[test]))
        else:
            value = float(np.mean((predicted - y[test]) ** 2) / np.var(y[train])) ** 0.5
        return {
            "value": 100 * value,
            "seconds": seconds,
            "relative_gap": None if certificate is None else certificate.relative_gap,
        }

    def summary(self, rows):
        return beside_trees(rows, self.columns, "tables", offset=1)


def _methods(kind):
    noun = {"class": "Classifier", "number": "Regressor"}[kind]
    trees = {"n_estimators": 300, "random_state": 0}
    found = {
        FOREST: of_table(
            Competitor(f"sklearn.ensemble:RandomForest{noun}", trees), as_text, one_hot
        ),
        BOOSTED: of_table(
            Competitor(
                f"sklearn.ensemble:HistGradientBoosting{noun}",
                {"random_state": 0, "categorical_features": "from_dtype"},
            ),
            as_categories,
        ),
        "extra trees": of_table(
            Competitor(f"sklearn.ensemble:ExtraTrees{noun}", trees), as_text, one_hot
        ),
        CATBOOST: of_table(
            Competitor(f"catboost:CatBoost{noun}", {"random_state": 0, **QUIET}),
            as_text,
            with_categories,
        ),
        "LightGBM": of_table(
            Competitor(f"lightgbm:LGBM{noun}", {"random_state": 0, "n_jobs": 1, "verbose": -1}),
            as_categories,
        ),
        "xRFM, grid": of_table(Competitor(f"{GridXRFM.__module__}:GridXRFM"), wrap=encoded),
        "plain metric": of_table(ours(f"Metric{noun}", metric=None, random_state=0)),
        f"Metric{noun}": of_table(ours(f"Metric{noun}", random_state=0)),
    }
    if kind == "class":
        svc = Competitor(f"{GridSVC.__module__}:GridSVC")
        found["SVC, grid"] = of_table(svc, wrap=encoded)
    return found


def _table(kind, title):
    return MixedTable(
        name="tables" if kind == "class" else "tables-numbers",
        title=title,
        paper="not in the papers",
        quantity="error, %",
        columns=tuple(f"{kind}_{name}" for name in NAMES[kind].split()),
        methods=_methods(kind),
        duration="hours",
        runs=10,
        kind=kind,
    )


TABLES = (
    _table("class", "Classes from tables with words and gaps, at most 1,500 training rows"),
    _table("number", "Numbers from tables with words and gaps, at most 1,500 training rows"),
)
