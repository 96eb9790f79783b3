"""Unfoldings of small random graphs, nearly degenerate ones among them, solved to `TOL` and again to
`TIGHT`: no value called converged is off by more than `ALLOWED` tol, with both constraints.

What it is off by is measured from the better of the two bounds, which are proven. A value above its
bound has been gained by distances that are missed.
"""

import warnings

import numpy as np

from conemetric import MaximumVarianceUnfolding

from .outcome import Outcome, timed

TOL, TIGHT, ALLOWED = 1e-3, 1e-6, 1.5
SIGMAS = ("auto", 1e3, np.inf, 10.0)


def graph(rng):
    """(X, n_neighbors, sigma): 8 to 29 normally distributed rows in 1 to 4 dimensions."""
    X = rng.normal(size=(int(rng.integers(8, 30)), int(rng.integers(1, 5))))
    n_neighbors = int(rng.integers(2, 7))
    return X, n_neighbors, SIGMAS[rng.integers(len(SIGMAS))]


def off_by(loose, tight):
    """How far the value of ``loose`` is above the better bound, or below it, relative to that."""
    bound = max(loose.certificate_.dual, tight.certificate_.dual)
    return (bound - loose.certificate_.primal) / abs(bound)


def attempt(number):
    """Draw number ``number``, with both constraints."""
    X, n_neighbors, sigma = graph(np.random.default_rng(number))
    what = f"{n_neighbors} neighbours of {X.shape[0]} x {X.shape[1]} rows, sigma={sigma}"
    ended, faults, total = [], [], 0.0
    for constraint in ("at_most", "equal"):
        fits = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for tol in (TOL, TIGHT):
                model = MaximumVarianceUnfolding(
                    n_neighbors, sigma=sigma, constraint=constraint, tol=tol
                )
                fit, seconds = timed(lambda model=model: model.fit(X))
                fits.append(fit)
                total += seconds
        status, off = str(fits[0].certificate_.status), off_by(*fits)
        ended.append(f"{constraint} {status}")
        if status == "converged" and abs(off) > ALLOWED * TOL:
            faults.append(f"{constraint}: converged to {TOL:g}, but off by {off:.2e}")
    return Outcome(number, what, ", ".join(ended), total, faults=tuple(faults))
