"""Fits in single precision to rows far from the origin: certificates may be worse, never wrong.

Every estimator of `certificates` that takes rows, moved by 1, 1e3 and 1e5 and rounded to float32 or
float64. The value of what is stored is computed anew in float64 from the rows as rounded, and the
optimum of these rows by a conic solver.
"""

import numpy as np

from .certificates import CASES, ROUNDING, all_disagreements, judge

MOVES = (1.0, 1e3, 1e5)
NO_ROWS = ("MaxMarginMatrixFactorization", "solve_frobenius_sdp")
NAMES = tuple(name for name in CASES if name not in NO_ROWS)


def attempt(number):
    """Fit number ``number``; the estimators take turns, then the moves; one in four in float64."""
    turn, case = divmod(number, len(NAMES))
    move, rng = MOVES[turn % len(MOVES)], np.random.default_rng(number)
    dtype = np.float64 if (number + turn) % 4 == 3 else np.float32

    def changed(X):
        return (X + move * rng.normal(size=X.shape[1])).astype(dtype)

    what, fit = CASES[NAMES[case]](rng, changed)
    return judge(number, f"{what}, moved by {move:g}, {np.dtype(dtype)}", fit, false_claims)


def false_claims(found, optimum, slack):
    """What is wrong, without what is only worse: a primal value above that of what is stored."""
    for fault in all_disagreements(found, optimum, slack):
        proof, value = found.certificate, found.value
        if fault.startswith("primal") and proof.primal > value * (1 - ROUNDING):
            continue
        yield fault
