"""DMLEig and LMNNEig as estimators: contract, libraries, the paper's algorithm beside ours."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from conemetric import DMLEig, LMNNEig
from conemetric.core.arrays import to_numpy

IRIS, LABELS = load_iris(return_X_y=True)


@pytest.mark.parametrize("estimator", [DMLEig(), LMNNEig(0.3)], ids=str)
@pytest.mark.costly
def test_libraries_and_precisions_agree(estimator, asarray, dtype):
    X, y = load_wine(return_X_y=True)
    reference = estimator.set_params(tol=1e-3).fit(X, y).objective_
    fitted = estimator.fit(asarray(X.astype(dtype)), y)
    assert fitted.objective_ == pytest.approx(reference, rel=2e-3)
    assert fitted.certificate_.relative_gap <= 1e-3
    assert to_numpy(fitted.components_).dtype == dtype
    assert fitted.transform(asarray(X.astype(dtype))).shape == (len(X), len(fitted.components_))


@pytest.mark.parametrize(
    ("estimator", "given", "meant_for"),
    [
        (DMLEig(), {"pairs": [[0, 1], [0, 60]], "similar": [True, False]}, "pairs"),
        (LMNNEig(), {"triplets": [[0, 1, 60]]}, "triplets"),
    ],
)
def test_learning_from_labels_warns(estimator, given, meant_for):
    with pytest.warns(UserWarning, match=f"is meant for given {meant_for}"):
        estimator.fit(IRIS, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit(IRIS, **given)


@pytest.mark.parametrize("estimator", [DMLEig(), LMNNEig()], ids=str)
def test_more_features_than_points(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 30)), np.repeat([0, 1], 6)
    X[0] = X[1]
    fitted = estimator.fit(X, y)
    assert fitted.certificate_.relative_gap <= 1e-3
    assert np.isfinite(fitted.components_).all()
