"""Fits of every estimator to small random and degenerate data, against a conic solver.

Of each fit: the bound is below the optimum, the primal value is that of what is stored,
and what is called converged is within ``tol`` of the optimum.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import oracles
from instances import comparison_rows
from learners import NO_PROGRAM, check_complete
from recomputed import exact, margins, recomputed_objective

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
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
from conemetric.ranking.candidates import Setting
from conemetric.ranking.program import RankingProgram

from .outcome import Outcome, timed

SLACK = 1e-5  # relative error granted to the conic solver; to an answer it doubts, DOUBTED
DOUBTED = 1e-2
NOTHING = 1e-8
FEASIBLE = 1e-9  # violation of a point that is as good as feasible
NOTEWORTHY = 0.3  # seconds of a fit that are measured again
ROUNDING = 1e-6  # relative, of a primal value computed in another order
KINDS = (
    "plain",
    "units",
    "outlier",
    "duplicates",
    "collinear",
    "wide",
    "grid",
    "separable",
    "rare class",
    "one feature",
    "shifted",
    "near copies",
    "constant feature",
    "binary",
)


def labelled(rng):
    """(X, y, kind): 8 to 30 points of 2 or 3 classes in 1 to 7 features."""
    kind = KINDS[rng.integers(len(KINDS))]
    n, D, k = int(rng.integers(10, 31)), int(rng.integers(2, 8)), int(rng.integers(2, 4))
    n, D = {"wide": (8, 12), "one feature": (n, 1)}.get(kind, (n, D))
    y = rng.permutation(np.arange(n) % k)
    X = rng.normal(size=(n, D)) + rng.uniform(0, 2) * rng.normal(size=(k, D))[y]
    if kind == "units":
        X *= 10.0 ** rng.uniform(-3, 3, size=D)
    elif kind == "outlier":
        X[0] *= 10.0 ** rng.uniform(1, 3)
    elif kind == "duplicates":
        X[1::3] = X[: len(X[1::3])]
    elif kind == "collinear":
        X[:, -1], X[:, 0] = 2 * X[:, 0], 1.0
    elif kind == "grid":
        X = np.round(X)
    elif kind == "separable":
        X[:, 0] += 20 * y
    elif kind == "shifted":
        X += 10.0 ** rng.uniform(0, 6) * rng.normal(size=D)
    elif kind == "near copies":
        X[1::3] = X[: len(X[1::3])]
        X[1::3] += 10.0 ** rng.uniform(-9, -3) * rng.normal(size=X[1::3].shape)
    elif kind == "constant feature":
        X[:, 0] = 10.0 ** rng.uniform(-3, 6)
    elif kind == "binary":
        X = (X > 0).astype(float)
    elif kind == "rare class":
        y = np.where(np.arange(n) < 2, 1, 0)
    return X, y, kind


@dataclass(frozen=True)
class Fit:
    """What is compared: a certificate and its ``tol``, the value of what is stored, and
    the way to the optimum. ``unit`` is what the objective is counted in: of it, parts
    below `NOTHING` are zero.
    """

    certificate: Certificate
    tol: float
    value: float
    optimum: Callable[[], float]
    unit: float = 0.0


# ---- estimators of labels: what is drawn, and its optimum


def as_it_is(X):
    return X


def around(rng, size, decades=1.5):
    return float(size * 10.0 ** rng.uniform(-decades, decades))


def mean_square(X):
    return float(((X - X.mean(0)) ** 2).sum(1).mean())


def few(rng):
    return {"n_targets": int(rng.integers(1, 3)), "n_impostors": int(rng.integers(1, 3))}


def frobenius(rng, X):
    C = "scale" if rng.random() < 0.3 else around(rng, 10 / mean_square(X) ** 2)
    loss = str(rng.choice(["hinge", "squared_hinge", "logistic"]))
    return FrobMetric(C, loss=loss, **few(rng))


def frobenius_path(rng, X):
    return FrobMetricCV(Cs=2, cv=2, random_state=0, **few(rng))


def frobenius_optimum(metric, X):
    return oracles.frobenius_optimum(X, metric.triplets_, metric.C_, metric.loss)


def boosted(loss, size):
    def make(rng, X):
        v = around(rng, size * mean_square(X), 1.0)
        return BoostMetric(v, loss=loss, solver="corrective", max_iter=2000, **few(rng))

    return make


def boosted_optimum(metric, X):
    """In units that keep the numbers near one; where the bound is about metrics of no
    larger trace, over those.
    """
    size = mean_square(X)
    trace = size * float((metric.components_**2).sum())
    largest = trace if metric.loss == "exponential" else None
    scaled = X / size**0.5
    return oracles.trace_optimum(scaled, metric.triplets_, metric.loss, metric.v_ / size, largest)[
        0
    ]


def soft_margin(rng, X):
    v = "scale" if rng.random() < 0.3 else float(rng.uniform(0.13, 0.5))
    return BoostMetric(v, loss="hinge", **few(rng))


def soft_margin_optimum(metric, X):
    size = mean_square(X)
    return size * oracles.soft_margin_optimum(X / size**0.5, metric.triplets_, metric.v_)


def closest_pair(rng, X):
    return DMLEig(**few(rng))


def closest_pair_optimum(metric, X):
    scatter = metric.similar_scatter_
    return -oracles.dml_eig_optimum(X, metric.pairs_, metric.similar_, scatter)


def large_margin(rng, X):
    return LMNNEig(gamma=float(rng.uniform(0.05, 0.95)), **few(rng))


def large_margin_optimum(metric, X):
    return oracles.lmnn_eig_optimum(X, metric.triplets_, metric.gamma, metric.similar_scatter_)


def comparisons(rng, X):
    D = X.shape[1]
    basis = None if rng.random() < 0.5 else rng.normal(size=(D, D + int(rng.integers(3))))
    return RelativeComparisons(basis=basis, random_state=0, **few(rng))


def comparisons_optimum(metric, X):
    A = np.eye(X.shape[1]) if metric.basis is None else metric.basis
    return oracles.comparison_optimum(
        comparison_rows(X, metric.triplets_, A), (A.T @ A) ** 2, metric.C_
    )


def near_isometry(rng, X):
    return NuMax(float(rng.uniform(0.1, 0.6)))


def near_isometry_optimum(metric, X):
    i, j = np.triu_indices(len(X), 1)
    V = X[i] - X[j]
    lengths = (V**2).sum(1)
    V = V[lengths > 1e-10 * ((X - X.mean(0)) ** 2).sum(1).max()]
    V = V / np.linalg.norm(V, axis=1, keepdims=True)
    ones = np.ones(len(V))
    return oracles.secant_optimum(V, (1 - metric.delta) * ones, (1 + metric.delta) * ones)


def unfolding(rng, X):
    return MaximumVarianceUnfolding(
        int(rng.integers(2, 6)), constraint=str(rng.choice(["at_most", "equal"]))
    )


def unfolding_optimum(metric, X):
    i, j = np.triu_indices(len(X), 1)
    coincident = np.column_stack([i, j])[((X[i] - X[j]) ** 2).sum(1) == 0]
    edges = np.vstack([metric.edges_, coincident])  # which keep their distance, too
    i, j = edges.T
    lengths = ((X[i] - X[j]) ** 2).sum(1)
    return oracles.unfolding_optimum(
        edges, lengths, len(X), metric.sigma_, metric.constraint == "equal"
    )


def of_labels(make, optimum, without=()):
    """A case: ``make(rng, X)`` is fitted, ``optimum(fitted, X)`` computed; not to data of
    the kinds ``without``.
    """

    def draw(rng, changed=as_it_is):
        X, y, kind = labelled(rng)
        while kind in without:
            X, y, kind = labelled(rng)
        estimator, X = make(rng, X), changed(X)

        def fit():
            fitted = estimator.fit(X, y)
            value = recomputed_objective(fitted, X)
            unit = mean_square(exact(X)) if estimator.get_params().get("loss") == "hinge" else 0.0
            unit = len(fitted.triplets_) if isinstance(fitted, LMNNEig) else unit
            unit = getattr(fitted, "C_", unit)
            rows = exact(X)
            return Fit(fitted.certificate_, fitted.tol, value, lambda: optimum(fitted, rows), unit)

        return f"{estimator!r} to {kind} data, {X.shape[0]} x {X.shape[1]}", fit

    return draw


# ---- the others


def near_a_prior(rng, changed=as_it_is):
    X, y, kind = labelled(rng)
    D = X.shape[1]
    root = rng.normal(size=(D, int(rng.integers(1, D + 1))))
    M0 = around(rng, 1 / mean_square(X), 1.0) * root @ root.T / D
    metric = FrobMetric(around(rng, 10 / mean_square(X) ** 2), prior=M0, **few(rng))
    X = changed(X)

    def fit():
        metric.fit(X, y)
        hinge = np.maximum(0, 1 - margins(metric, X)).mean()
        distance = ((exact(metric.components_).T @ exact(metric.components_) - M0) ** 2).sum()
        return Fit(
            metric.certificate_,
            metric.tol,
            0.5 * distance + metric.C * hinge,
            lambda: oracles.frobenius_optimum(exact(X), metric.triplets_, metric.C, prior=M0),
            metric.C + 0.5 * (M0**2).sum(),
        )

    return f"FrobMetric({metric.C:g}, prior=M0) to {kind} data, {X.shape[0]} x {D}", fit


def factorisation(rng):
    n, m = (int(size) for size in rng.integers(3, 13, size=2))
    Y = rng.integers(1, int(rng.integers(3, 5)), size=(n, m)).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[0, :2] = 1.0, 2.0
    tol = float(rng.choice([1e-3, 1e-5]))
    model = MaxMarginMatrixFactorization(around(rng, 1.0, 0.7), tol=tol)

    def optimum():
        rows, columns = np.nonzero(~np.isnan(Y))
        level = np.searchsorted(model.levels_, Y[rows, columns])
        return oracles.mmmf_optimum(rows, columns, level, Y.shape, model.thresholds_, model.gamma)

    def fit():
        model.fit(Y)
        return Fit(model.certificate_, tol, recomputed_objective(model, Y), optimum)

    return f"{model!r} to {n} x {m} ratings", fit


def semidefinite(rng):
    D, m = int(rng.integers(2, 8)), int(rng.integers(1, 8))
    C, A = rng.normal(size=(D, D)), rng.normal(size=(m, D, D))
    C, A = C + C.T, A + A.transpose(0, 2, 1)
    root = rng.normal(size=(D, D))
    equality = rng.random(m) < 0.5
    b = np.einsum("mij,ij->m", A, root @ root.T) + ~equality * rng.uniform(0, 1, m)
    sigma = around(rng, 1.0)

    def fit():
        result = solve_frobenius_sdp(C, A, b, sigma, equality=equality)
        value = (C * result.X).sum() + (result.X**2).sum() / (2 * sigma)
        return Fit(
            result.certificate,
            1e-6,
            value,
            lambda: oracles.semidefinite_optimum(C, A, b, sigma, equality),
        )

    return f"solve_frobenius_sdp, {m} constraints on {D} x {D}", fit


def judged(kind, **options):
    def draw(rng, changed=as_it_is):
        n_queries, n_documents, D = (int(n) for n in rng.integers((3, 6, 2), (9, 20, 6)))
        documents = rng.normal(size=(n_documents, D)) * 10.0 ** rng.uniform(-1, 1)
        first = rng.integers(n_documents, size=n_queries)
        queries = documents[first] * rng.uniform(0.2, 2, size=(n_queries, 1))
        queries = queries + rng.uniform(0, 1) * documents[rng.integers(n_documents, size=n_queries)]
        queries, documents = np.split(changed(np.vstack([queries, documents])), [n_queries])
        data = queries, documents, np.column_stack([np.arange(n_queries), first])
        estimator = kind(around(rng, 1.0, 1.0), n_hard=2, n_random=2, random_state=0, **options)

        def fit():
            estimator.fit(*data)
            checked, compared, setting = compared_by(estimator, data)
            value = judged_objective(estimator, checked, compared, setting)
            return Fit(
                estimator.certificate_,
                estimator.tol,
                value,
                lambda: judged_optimum(estimator, checked, compared, setting),
                estimator.C * D / setting.margin,
            )

        return f"{estimator!r} to {n_queries} queries, {n_documents} documents of {D} features", fit

    return draw


def compared_by(estimator, data):
    """What the estimator's fit compared, as it sees it."""
    checked = estimator._validate(*data, reset=True)
    seed = np.random.RandomState(estimator.random_state).randint(2**31 - 1)
    margin = estimator._form.margins[0]
    setting = Setting(estimator.C, margin, estimator.n_hard, estimator.n_random)
    return checked, RankingProgram(estimator._form).comparisons(checked, setting, seed), setting


def compared_rows(estimator, checked):
    """Queries and documents in float64, of unit length for the cosine, about the documents'
    mean as far as scores do not depend on it.
    """
    Q, X = (exact(rows) for rows in (checked.queries, checked.documents))
    if isinstance(estimator, RelevanceMetric):
        return Q - X.mean(0), X - X.mean(0)
    if estimator.similarity == "cosine":
        Q, X = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (Q, X))
    return Q, X - X.mean(0)


def judged_objective(estimator, checked, compared, setting):
    """The objective of the map as it is stored."""
    Q, X = compared_rows(estimator, checked)
    (q, b, w), A = compared.triplets.T, exact(estimator.components_)
    if isinstance(estimator, RelevanceMetric):
        rho = (((Q[q] - X[w]) @ A.T) ** 2).sum(1) - (((Q[q] - X[b]) @ A.T) ** 2).sum(1)
        M = A.T @ A
    else:
        rho, M = ((Q[q] @ A.T) * (X[b] - X[w])).sum(1), A.T
    change = compared.inverse @ M @ compared.inverse - compared.prior / setting.margin
    c = estimator.C * X.shape[1] / setting.margin * compared.weights / compared.weights.sum()
    return 0.5 * (change**2).sum() + c @ np.maximum(0, 1 - rho)


def judged_optimum(estimator, checked, compared, setting):
    D, T = checked.queries.shape[1], compared.T
    mapped = [rows @ T for rows in compared_rows(estimator, checked)]
    C, prior = estimator.C * D / setting.margin, compared.prior / setting.margin
    if isinstance(estimator, QueryAdapter):
        return oracles.bilinear_optimum(
            *mapped, compared.triplets, C, prior, weights=compared.weights
        )
    triplets = compared.triplets + np.array([0, 1, 1]) * len(checked.queries)
    return oracles.frobenius_optimum(
        np.vstack(mapped), triplets, C, "hinge", prior, compared.weights
    )


WIDE = ("wide",)  # keeps no scatter matrix
CASES = {
    "FrobMetric": of_labels(frobenius, frobenius_optimum),
    "FrobMetricCV": of_labels(frobenius_path, frobenius_optimum, ("rare class",)),
    "FrobMetric, prior": near_a_prior,
    "BoostMetric, logistic": of_labels(boosted("logistic", 1.0), boosted_optimum),
    "BoostMetric, exponential": of_labels(boosted("exponential", 0.3), boosted_optimum),
    "BoostMetric, hinge": of_labels(soft_margin, soft_margin_optimum),
    "DMLEig": of_labels(closest_pair, closest_pair_optimum, WIDE),
    "LMNNEig": of_labels(large_margin, large_margin_optimum, WIDE),
    "RelativeComparisons": of_labels(comparisons, comparisons_optimum),
    "NuMax": of_labels(near_isometry, near_isometry_optimum),
    "MaximumVarianceUnfolding": of_labels(unfolding, unfolding_optimum),
    "MaxMarginMatrixFactorization": factorisation,
    "solve_frobenius_sdp": semidefinite,
    "RelevanceMetric": judged(RelevanceMetric),
    "QueryAdapter": judged(QueryAdapter),
    "QueryAdapter, inner": judged(QueryAdapter, similarity="inner"),
}
check_complete(CASES, "labels", without=NO_PROGRAM)


def attempt(number):
    """Fit number ``number``; the cases take turns."""
    names = tuple(CASES)
    what, fit = CASES[names[number % len(names)]](np.random.default_rng(number))
    return judge(number, what, fit)


def judge(number, what, fit, disagreements=None):
    """The outcome of a fit held against the optimum by ``disagreements``."""
    what = " ".join(what.split())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found, seconds = timed(fit)
            if seconds > NOTEWORTHY:  # it may have compiled something
                found, seconds = timed(fit)
        except Exception as error:
            if isinstance(error, ValueError) and "coincid" in str(error):
                return Outcome(number, what, "refused")  # rows that no program tells apart
            return Outcome(number, what, type(error).__name__, faults=(f"{error}",))
    ended, oracle, slack = str(found.certificate.status), "", SLACK
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        try:
            optimum, against = timed(found.optimum)
        except Exception:  # the other solver's
            optimum, against = None, 0.0
    if optimum is None or not np.isfinite(optimum):
        # what is left to hold the fit against is itself
        optimum, oracle = found.value, "oracle failed"
    elif doubts:
        oracle, slack = "oracle inaccurate", DOUBTED
    if found.certificate.violation <= FEASIBLE and found.value < optimum:  # a point that is there
        if found.value < optimum - slack * size_of(optimum, found):
            oracle = "oracle inaccurate"
        optimum = found.value
    faults = tuple((disagreements or all_disagreements)(found, optimum, slack))
    return Outcome(number, what, ended, seconds, against, faults, oracle)


def size_of(optimum, found):
    """What errors are relative to."""
    return max(abs(optimum), abs(found.value), NOTHING / SLACK * found.unit)


def all_disagreements(found, optimum, slack):
    """What a certificate says that the optimum, or what is stored, does not bear out."""
    proof = found.certificate
    size = size_of(optimum, found)
    if abs(proof.primal - found.value) > ROUNDING * size:
        yield f"primal {proof.primal:.9g}, but {found.value:.9g} is stored"
    if proof.dual > optimum + slack * size:
        yield f"dual {proof.dual:.9g} above the optimum {optimum:.9g}"
    if proof.status == "converged":
        if found.value - optimum > (found.tol + slack) * size:
            yield f"converged to {found.tol:g}, but {found.value:.9g} for {optimum:.9g}"
        if not abs(proof.relative_gap) <= found.tol:
            yield f"converged to {found.tol:g} with a relative gap of {proof.relative_gap:.2e}"
