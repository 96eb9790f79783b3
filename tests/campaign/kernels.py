"""Fits in the coordinates of kernels: the objective anew, in float64, from what is stored.

Every estimator with ``kernel=``, on rows in rings or clouds that are moved, scaled and repeated, in
both precisions. Coordinates are computed by SciPy from the stored landmarks, width and projection.
"""

import warnings

import numpy as np
from learners import NO_PROGRAM, check_complete
from recomputed import coordinates_by_scipy, recomputed_objective
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_circles

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    RelativeComparisons,
)

from .outcome import Outcome, timed

ESTIMATORS = (
    FrobMetric(),
    FrobMetric(loss="logistic"),
    FrobMetric(loss="squared_hinge"),
    FrobMetricCV(Cs=2, cv=2, random_state=0),
    BoostMetric(),
    DMLEig(),
    LMNNEig(),
    RelativeComparisons(random_state=0),
)
check_complete(ESTIMATORS, "kernel", without=NO_PROGRAM)
KERNELS = ("gaussian", "laplacian")
# of the objective: coordinates are rounded where they are stored, and again where they are made anew
ROUNDING = {np.float64: 1e-6, np.float32: 1e-3}


def rows_of(rng):
    """Rows in rings or clouds, moved, in other units, some of them repeated."""
    seed = int(rng.integers(2**31))
    n = int(rng.integers(30, 80))
    if rng.random() < 0.5:
        X, y = make_circles(n, noise=0.1, factor=0.5, random_state=seed)
    else:
        X, y = make_blobs(n, int(rng.integers(2, 8)), centers=3, random_state=seed)
    X = 10.0 ** rng.integers(-3, 4) * (X + rng.integers(-50, 50))
    repeated = rng.integers(0, n, n // 4)
    return np.concatenate([X, X[repeated]]), np.concatenate([y, y[repeated]])


def attempt(number):
    """Fit number ``number``; the estimators take turns, then the kernels, then the precisions."""
    turn, case = divmod(number, len(ESTIMATORS))
    turn, kernel = divmod(turn, len(KERNELS))
    dtype = (np.float64, np.float32)[turn % 2]
    X, y = rows_of(np.random.default_rng(number))
    X = X.astype(dtype)
    metric = clone(ESTIMATORS[case]).set_params(kernel=KERNELS[kernel])
    what = f"{metric!r} to {X.shape[0]} x {X.shape[1]}, {np.dtype(dtype)}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _, seconds = timed(lambda: metric.fit(X, y))
        except Exception as error:
            return Outcome(number, what, type(error).__name__, faults=(f"{error}",))
        metric._features = lambda rows: coordinates_by_scipy(metric, rows)
        objective = recomputed_objective(metric, X.astype(float))
    proof = metric.certificate_
    return Outcome(
        number,
        what,
        str(proof.status),
        seconds,
        0.0,
        tuple(faults_of(proof, metric, objective, dtype)),
    )


def faults_of(proof, metric, objective, dtype):
    """What a certificate says that what is stored does not bear out."""
    constraints = getattr(metric, "triplets_", None)
    n_constraints = 0 if constraints is None else len(constraints)
    # losses of margins near one, each rounded, which may add up to nearly nothing
    slack = ROUNDING[dtype] * abs(objective) + np.finfo(dtype).eps * n_constraints
    if abs(objective - proof.primal) > slack:
        yield f"primal {proof.primal:.9g}, but {objective:.9g} is stored"
    if proof.dual > objective + slack:
        yield f"dual {proof.dual:.9g} above {objective:.9g}"
    if proof.status == "converged" and not abs(proof.relative_gap) <= metric.tol:
        yield f"converged to {metric.tol:g} with a relative gap of {proof.relative_gap:.2e}"
