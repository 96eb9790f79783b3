"""What users pass to estimators, and what raises when it is used."""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis


class Broken(Exception):
    """Raised by what a user passed."""


class BrokenRows:
    """Rows that cannot be read."""

    shape = (24, 4)

    def __array__(self, dtype=None, copy=None):
        raise Broken

    def __len__(self):
        return len(self.shape)


class BrokenMetric(LinearDiscriminantAnalysis):
    """An estimator that maps linearly and fails late: at its second fit."""

    fits: int = 0

    def fit(self, X, y):
        BrokenMetric.fits += 1
        if BrokenMetric.fits % 2 == 0:
            raise Broken
        return super().fit(X, y)


class BrokenFolds:
    """A splitter that fails after its first fold."""

    def split(self, X, y=None, groups=None):
        half = len(X) // 2
        yield np.arange(half), np.arange(half, len(X))
        raise Broken

    def get_n_splits(self, X=None, y=None, groups=None):
        return 2


def broken_kernel(X, Y):
    raise Broken


def broken_preprocessor(names):
    raise Broken
