"""What a learned metric is to be better than, where neither scikit-learn nor this
package has it.
"""

from itertools import product

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from conemetric import AutoMetric
from conemetric.constraints.in_memory import pairs_from_neighbours
from conemetric.constraints.labels import encode_labels
from conemetric.engine.operators.whitening import whiten
from conemetric.neighbours.search import neighbours_by_label

from .experiment import Competitor


class SimilarPairsWhitening(TransformerMixin, BaseEstimator):
    """The metric X_S^-1, with X_S the scatter of the similar pairs: closed form, and
    where DML-eig starts.

    Parameters
    ----------
    n_targets : int, default=3
        From labels, each point with its targets makes the similar pairs.
    ridge : float, default=1e-8
        As in `DMLEig`.

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> SimilarPairsWhitening().fit(X, y).transform(X).shape
    (150, 4)
    """

    def __init__(self, *, n_targets=3, ridge=1e-8):
        self.n_targets = n_targets
        self.ridge = ridge

    def fit(self, X, y=None, *, pairs=None, similar=None):
        """Learn from labels, or from pairs and which of them are similar."""
        if pairs is None:
            lists = neighbours_by_label(X, encode_labels(y), self.n_targets, 3)
            pairs, similar = pairs_from_neighbours(*lists)
        whitened = whiten(np.asarray(X), np.asarray(pairs)[similar], self.ridge)
        self.components_ = whitened.lift(np.eye(whitened.points.shape[1])).T
        return self

    def transform(self, X):
        return X @ self.components_.T


WHITENING = Competitor(f"{__name__}:SimilarPairsWhitening")


class GridSVC(GridSearchCV):
    """SVC with C and gamma chosen by five-fold cross-validation."""

    def __init__(self):
        grid = {"C": [0.1, 1, 10, 100, 1000], "gamma": ["scale", 0.003, 0.01, 0.03, 0.1, 0.3]}
        super().__init__(SVC(), grid, cv=5)


class GridKernelRidge(GridSearchCV):
    """Kernel ridge on centred y; kernel, width and ridge chosen by five-fold cross-validation."""

    def __init__(self):
        grid = {
            "regressor__kernel": ["rbf", "laplacian"],
            "regressor__gamma": [0.003, 0.01, 0.03, 0.1, 0.3],
            "regressor__alpha": [0.001, 0.01, 0.1, 1, 10],
        }
        centred = TransformedTargetRegressor(KernelRidge(), transformer=StandardScaler())
        super().__init__(centred, grid, cv=KFold(5, shuffle=True, random_state=0))


class GridXRFM(BaseEstimator):
    """xRFM (recursive feature machines) with the form of the metric, the width and the ridge, of
    16 in all, that a fifth of the training rows likes best; the other rows are learned from.
    """

    classes: np.ndarray | None
    centre: float
    scale: float

    def fit(self, X, y):
        from xrfm import xRFM

        self.classes, y = (None, y) if y.dtype.kind == "f" else np.unique(y, return_inverse=True)
        self.centre, self.scale = (np.mean(y), np.std(y)) if self.classes is None else (0, 1)
        kind = np.float32 if self.classes is None else np.int64
        parts = train_test_split(X, (y - self.centre) / self.scale, test_size=0.2, random_state=0)
        X, X_val = (part.astype(np.float32) for part in parts[:2])
        y, y_val = (part.astype(kind) for part in parts[2:])
        least = np.inf
        for diag, width, ridge in product((False, True), (2.0, 5.0, 10.0, 20.0), (1e-3, 0.1)):
            shape = {"kernel": "l2", "exponent": 1.0, "bandwidth": width, "diag": diag}
            fit = {"reg": ridge, "iters": 5, "verbose": False, "early_stop_rfm": True}
            model = xRFM(
                {"model": {**shape, "bandwidth_mode": "constant"}, "fit": fit}, verbose=False
            )
            predicted = model.fit(X, y, X_val, y_val).predict(X_val)
            wrong = (
                (np.ravel(predicted) - y_val) ** 2
                if self.classes is None
                else np.ravel(predicted) != y_val
            )
            if np.mean(wrong) < least:
                least, self.model_ = np.mean(wrong), model
        return self

    def predict(self, X):
        found = np.ravel(self.model_.predict(X.astype(np.float32)))
        return (
            found * self.scale + self.centre
            if self.classes is None
            else self.classes[found.astype(int)]
        )


class NearestInMetric:
    """3-NN after `AutoMetric` or scikit-learn's NCA."""

    def __init__(self, metric="auto"):
        nca = NeighborhoodComponentsAnalysis(random_state=0)
        self.metric = nca if metric == "nca" else AutoMetric(random_state=0)

    def fit(self, X, y):
        Z = self.metric.fit(X, y).transform(X)
        self.neighbours = KNeighborsClassifier(3).fit(Z, y)
        return self

    def predict(self, X):
        return self.neighbours.predict(self.metric.transform(X))
