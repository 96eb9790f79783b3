"""Changes of the data that must not change the answer, for every estimator.

A change leaves a program the same, or in other units. So the fits before and after it bound
the same optimum: the bound of each is below the value of what the other stores, and values
of converged fits agree to ``tol``. No second solver is needed.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from learners import NO_PROGRAM, check_complete
from recomputed import recomputed_objective
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    GradientMetric,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    NuMax,
    QueryAdapter,
    RelativeComparisons,
    RelevanceMetric,
    solve_frobenius_sdp,
)
from conemetric.engine.certificate import Certificate

ROUNDING = 1e-6  # relative, of an objective computed in another order
LABELLED = {
    "FrobMetric": FrobMetric(),
    "FrobMetric, logistic": FrobMetric(loss="logistic"),
    "FrobMetric, squared hinge": FrobMetric(loss="squared_hinge"),
    "FrobMetricCV": FrobMetricCV(Cs=2, cv=2, random_state=0),
    "BoostMetric": BoostMetric(),
    "BoostMetric, hinge": BoostMetric(loss="hinge"),
    "DMLEig": DMLEig(),
    "LMNNEig": LMNNEig(),
    "RelativeComparisons": RelativeComparisons(random_state=0),
    "NuMax": NuMax(0.3),
    "MaximumVarianceUnfolding": MaximumVarianceUnfolding(4),
    "MaximumVarianceUnfolding, equal": MaximumVarianceUnfolding(3, constraint="equal"),
}
check_complete(LABELLED, "labels", without=NO_PROGRAM)
# the objective of s X is that of X times this power of s
POWERS = {
    "FrobMetric": -4,
    "FrobMetric, logistic": -4,
    "FrobMetric, squared hinge": -4,
    "FrobMetricCV": -4,
    "BoostMetric, hinge": 2,
    "RelativeComparisons": -4,
    "MaximumVarianceUnfolding": 2,
    "MaximumVarianceUnfolding, equal": 2,
}


@dataclass(frozen=True)
class Fit:
    """A certificate, its ``tol``, and the recomputed objective of what is stored."""

    certificate: Certificate
    tol: float
    value: float
    weights: dict | None = None  # of the loss, where they are chosen by the data


def quietly(fit, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fit(*arguments, **options)


def fitted(name, X, y=None, weights=None, **given):
    """Fit to labels or given constraints, with the ``weights`` of another fit, if any."""
    estimator = clone(LABELLED[name]).set_params(**(weights or {}))
    quietly(estimator.fit, X, y, **given)
    found = {part: float(getattr(estimator, f"{part}_", np.nan)) for part in ("C", "v", "sigma")}
    chosen = {part: value for part, value in found.items() if np.isfinite(value)}
    if name == "FrobMetricCV":
        chosen = {"Cs": [estimator.C_]}
    value = recomputed_objective(estimator, X)
    return Fit(estimator.certificate_, estimator.tol, value, chosen)


@cache
def unchanged(name, seed):
    return fitted(name, *labelled(seed))


def faults(before, after, scale=1.0, slack=ROUNDING, spare=0):
    """What is wrong with two fits of one program, the second in units of ``scale``."""
    size = max(abs(before.value), abs(after.value) / scale)
    for fit, unit in ((before, 1.0), (after, scale)):
        yield from unfounded(fit, ROUNDING * size * unit)
    for bound, value, other in (
        (before.certificate.dual, after.value / scale, before),
        (after.certificate.dual / scale, before.value, after),
    ):
        if bound > value + slack * size:
            yield f"a bound of {bound:.9g} ({other.certificate.status}), but {value:.9g} is reached"
    if before.certificate.status == "converged":
        if after.certificate.status != "converged" and not after.certificate.meets(
            spare * after.tol
        ):
            yield f"converged before, {after.certificate.status} after"
        elif abs(before.value - after.value / scale) > (before.tol + slack) * size:
            yield f"the objective was {before.value:.9g} and is {after.value / scale:.9g}"


def unfounded(fit, rounding):
    """Claims of a certificate that what is stored does not support."""
    proof = fit.certificate
    if not abs(proof.primal - fit.value) <= rounding:
        yield f"primal {proof.primal:.9g}, but {fit.value:.9g} is stored"
    if not proof.dual <= fit.value + rounding + abs(fit.value) * proof.violation:
        yield f"dual {proof.dual:.9g} above the primal {fit.value:.9g}"


# ---- data


def labelled(seed, n=24, D=4):
    """(X, y) of three classes, all distances different."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 3)
    return rng.normal(size=(n, D)) + rng.normal(size=(3, D))[y], y


def triplets(rng, n, m=30):
    return np.array([rng.choice(n, 3, replace=False) for _ in range(m)])


# ---- changes of labelled points: (X, y, rng, size) -> X, y


def shifted(X, y, rng, size):
    return X + size * rng.normal(size=X.shape[1]), y


def rotated(X, y, rng, size):
    return X @ np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0], y


def reordered(X, y, rng, size):
    order = rng.permutation(len(X))
    return X[order], y[order]


def renamed(X, y, rng, size):
    return X, rng.permutation(3)[y]


def with_a_constant(X, y, rng, size):
    return np.insert(X, rng.integers(X.shape[1] + 1), size, axis=1), y


def in_units(X, y, rng, size):
    return size * X, y


def extremes(sizes):
    """The first and the last: what holds for both holds for those between."""
    return sizes if len(sizes) == 1 else (sizes[0], sizes[-1])


@dataclass(frozen=True)
class Change:
    make: Callable
    sizes: tuple[float, ...] = (1.0,)
    without: tuple[str, ...] = ()  # estimators that it does change


CHANGES = {
    "translation": Change(shifted, (1.0, 1e2, 1e4, 1e6)),
    # weights of single features do not turn with the rows
    "rotation": Change(rotated, without=("RelativeComparisons",)),
    # the draw of the folds, by row number, holds out other rows
    "order of rows": Change(reordered),
    "names of classes": Change(renamed),
    # where the trace is fixed, a constant feature takes what harms elsewhere
    "constant column": Change(with_a_constant, (0.0, 1.0, 1e6)),
}
UNITS = (1e-6, 1e6)
NEAR = (0.0, 1e-9, 1e-7, 1e-5, 1e-3)  # how far from a row its copy is, in units of the spread
TOGETHER = [
    (name, change, size)
    for name in LABELLED
    for change, how in CHANGES.items()
    if name not in how.without
    # a search over C fits many times, each fit as FrobMetric does
    for size in (how.sizes[-1:] if name == "FrobMetricCV" else extremes(how.sizes))
]


def changed(name, change, size, seed):
    """Faults of a fit to changed data beside one to the data."""
    X, y = labelled(seed)
    rng = np.random.default_rng([seed, 1])
    # numbers of the size of the shift round differences of rows
    slack = ROUNDING + 1e-13 * size**2 if change == "translation" else ROUNDING
    before = unchanged(name, seed)
    # what "scale" stands for counts features, a constant one too
    weights = before.weights if change == "constant column" else None
    after = fitted(name, *CHANGES[change].make(X, y, rng, size), weights)
    return tuple(faults(before, after, slack=slack))


def rescaled(name, size, seed):
    X, y = labelled(seed)
    after = fitted(name, size * X, y)
    return tuple(faults(unchanged(name, seed), after, size ** POWERS.get(name, 0)))


def repeated(seed):
    """Rows, labels, a row to repeat and another, triplets, and where the copy replaces the row."""
    X, y = labelled(seed)
    rng = np.random.default_rng([seed, 2])
    k, other = rng.choice(len(X), 2, replace=False)
    T = triplets(rng, len(X))
    return X, y, k, other, T, (k == T) & (rng.random(T.shape) < 0.5)


@cache
def without_the_copy(name, seed):
    X, _, _, _, T, _ = repeated(seed)
    return fitted(name, X, **({} if name == "NuMax" else constraints_for(name, T)))


def beside_a_copy(name, distance, seed):
    """A copy of a row replaces it in some of the triplets (or pairs); for estimators without
    triplets, only the certificate is checked.
    """
    X, y, k, other, T, replaced = repeated(seed)
    # on a line with another row: the direction between the two is not a new one
    double = np.vstack([X, X[k] + distance * (X[other] - X[k])])
    if name.startswith("MaximumVariance"):
        return tuple(false_unfolding(name, double))
    if name == "FrobMetricCV":
        found = fitted(name, double, np.append(y, y[k]))
        return tuple(unfounded(found, ROUNDING * abs(found.value)))
    moved = constraints_for(name, np.where(replaced, len(X), T))
    after = fitted(name, double, **({} if name == "NuMax" else moved))
    return tuple(faults(without_the_copy(name, seed), after, slack=ROUNDING + 100 * distance))


def constraints_for(name, T):
    """Triplets as arguments of the estimator's fit."""
    if name != "DMLEig":
        return {"triplets": T}
    pairs = np.vstack([T[:, :2], T[:, [0, 2]]])
    return {"pairs": pairs, "similar": np.arange(len(pairs)) < len(T)}


def false_unfolding(name, X):
    """The centred points themselves keep every distance, so no bound is above their value."""
    model = quietly(clone(LABELLED[name]).fit, X)
    values = np.linalg.svd(X - X.mean(0), compute_uv=False) ** 2
    value = (values**2).sum() / (2 * model.sigma_) - values.sum()
    if model.certificate_.dual > value + ROUNDING * abs(value):
        yield f"a bound of {model.certificate_.dual:.9g}, but the points have {value:.9g}"
    stored = recomputed_objective(model, X)
    yield from unfounded(Fit(model.certificate_, model.tol, stored), ROUNDING * abs(stored))


def among_ties(name, seed):
    """Whole-number rows, many at equal distances, in another order."""
    X, y = labelled(seed)
    rng = np.random.default_rng([seed, 3])
    before = fitted(name, np.round(X), y)
    return tuple(faults(before, fitted(name, *reordered(np.round(X), y, rng, 1.0))))


TIED = [name for name in LABELLED if name not in CHANGES["order of rows"].without]
BLOCKS = ("FrobMetric", "LMNNEig", "DMLEig", "BoostMetric")


def in_blocks(name, n_triplets, seed):
    """On dask, rows in more blocks than there are constraints, beside the fit in memory."""
    import dask.array as da

    X, _ = labelled(seed)
    constraints = constraints_for(
        name, triplets(np.random.default_rng([seed, 4]), len(X), n_triplets)
    )
    before = fitted(name, X, **constraints)
    blocks = da.from_array(X, chunks=(2, X.shape[1]))
    here = quietly(clone(LABELLED[name]).fit, X, **constraints)
    metric = quietly(clone(LABELLED[name]).fit, blocks, **constraints)
    vars(here).update(vars(metric))  # which keeps no triplets
    value = recomputed_objective(here, X)
    return tuple(faults(before, Fit(metric.certificate_, metric.tol, value)))


AUTOMATIC = tuple(
    (change, size)
    for change, how in CHANGES.items()
    # some candidates weigh single features
    if change != "rotation"
    for size in how.sizes
)


@cache
def automatic_fit(seed):
    two = {"frob": FrobMetric(), "lda": LinearDiscriminantAnalysis()}
    return quietly(AutoMetric(candidates=two, random_state=0).fit, *labelled(seed, 60))


def automatic(change, size, seed):
    """The evidence and the distances of the blend."""
    X, y = labelled(seed, 60)
    before = automatic_fit(seed)
    Z, z = CHANGES[change].make(X, y, np.random.default_rng([seed, 1]), size)
    after = quietly(clone(before).fit, Z, z)
    if before.evidence_.error != after.evidence_.error:
        yield f"errors {dict(before.evidence_.error)}, then {dict(after.evidence_.error)}"
    if change == "order of rows":
        Z = X
    one, other = (pdist(model.transform(A)) for model, A in ((before, X), (after, Z)))
    if abs(one - other).max() > 2e-2 * one.max():
        yield f"distances differ by {abs(one - other).max() / one.max():.2g}"


GRADIENTS = {
    "laplacian": GradientMetric(),
    "gaussian, diagonal": GradientMetric("gaussian", diagonal=True),
    "city block": GradientMetric("city block"),
}
GRADIENT_CHANGES = tuple(
    (name, change, size)
    for name in GRADIENTS
    for change, how in {**CHANGES, "units": Change(in_units, UNITS)}.items()
    if change != "rotation" or name == "laplacian"  # weights of columns do not turn
    for size in how.sizes
)


def gradients(name, change, size, seed):
    """The distances of a `GradientMetric`, relative to their mean."""
    X, y = labelled(seed)
    make = in_units if change == "units" else CHANGES[change].make
    Z, z = make(X, y, np.random.default_rng([seed, 1]), size)
    before, after = (quietly(clone(GRADIENTS[name]).fit, *data) for data in ((X, y), (Z, z)))
    if change == "order of rows":
        Z = X
    one, other = (pdist(model.transform(A)) for model, A in ((before, X), (after, Z)))
    if abs(one / one.mean() - other / other.mean()).max() > 1e-4:
        yield f"distances differ by {abs(one / one.mean() - other / other.mean()).max():.2g}"


# ---- judged queries, ratings, matrices


JUDGED = {"RelevanceMetric": RelevanceMetric, "QueryAdapter": QueryAdapter}
JUDGED_CHANGES = ("rotation", "order of queries", "order of documents", "units")


def judged(name, change, seed):
    rng = np.random.default_rng(seed)
    documents = rng.normal(size=(18, 4))
    first = rng.integers(18, size=7)
    queries = documents[first] + rng.normal(size=(7, 4))
    relevance = np.column_stack([np.arange(7), first])
    estimator = JUDGED[name](1.0, n_hard=3, n_random=0, random_state=0)
    before = judged_fit(estimator, queries, documents, relevance)
    if change == "rotation":
        Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        queries, documents = queries @ Q, documents @ Q
    elif change == "order of queries":
        order = rng.permutation(7)
        queries, relevance = queries[order], np.column_stack([np.arange(7), first[order]])
    elif change == "order of documents":
        order = rng.permutation(18)
        documents, relevance = documents[order], relevance.copy()
        relevance[:, 1] = np.argsort(order)[first]
    else:
        queries, documents = 1e3 * queries, 1e3 * documents
    after = judged_fit(estimator, queries, documents, relevance)
    return tuple(faults(before, after))


def judged_fit(estimator, queries, documents, relevance):
    model = quietly(clone(estimator).fit, queries, documents, relevance)
    return Fit(model.certificate_, model.tol, model.certificate_.primal)


RATING_CHANGES = ("order of rows", "order of columns", "transposed", "translation", "units")


def rated(change, seed):
    rng = np.random.default_rng(seed)
    Y = rng.integers(1, 4, size=(9, 7)).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[0, :3] = 1.0, 2.0, 3.0
    Z = {
        "order of rows": Y[rng.permutation(9)],
        "order of columns": Y[:, rng.permutation(7)],
        "transposed": Y.T,
        "translation": Y + 1e6,
        "units": 1e3 * Y,
    }[change]
    return tuple(faults(rating_fit(Y), rating_fit(Z)))


def rating_fit(Y):
    model = quietly(MaxMarginMatrixFactorization(tol=1e-4).fit, Y)
    return Fit(model.certificate_, model.tol, recomputed_objective(model, Y))


MATRIX_CHANGES = ("rotation", "order", "units of the constraints", *NEAR)


def semidefinite(change, seed):
    """A number is how far from a constraint its copy is."""
    rng = np.random.default_rng(seed)
    D, m = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    C, A, root = rng.normal(size=(D, D)), rng.normal(size=(m, D, D)), rng.normal(size=(D, D))
    C, A = C + C.T, A + A.transpose(0, 2, 1)
    b = np.einsum("mij,ij->m", A, root @ root.T) + rng.uniform(0.1, 1, m)
    before, slack = matrix_fit(C, A, b), ROUNDING
    if change == "rotation":
        Q = np.linalg.qr(rng.normal(size=(D, D)))[0]
        C, A = Q @ C @ Q.T, Q @ A @ Q.T
    elif change == "order":
        order = rng.permutation(m)
        A, b = A[order], b[order]
    elif change == "units of the constraints":
        units = 10.0 ** rng.uniform(-3, 3, m)
        A, b = units[:, None, None] * A, units * b
    else:
        A, b, slack = np.vstack([A, A[:1]]), np.append(b, b[0] + change), ROUNDING + 100 * change
    # the multipliers of nearly parallel constraints trade places, and may stall a little early
    spare = 10 if change in NEAR else 0
    return tuple(faults(before, matrix_fit(C, A, b), slack=slack, spare=spare))


def matrix_fit(C, A, b):
    result = quietly(solve_frobenius_sdp, C, A, b, 1.0)
    value = (C * result.X).sum() + (result.X**2).sum() / 2
    return Fit(result.certificate, 1e-6, value)
