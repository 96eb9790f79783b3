"""Rounds in cheaper programs: what they are, and that their ascent ends at the optimum."""

import numpy as np
import pytest
from cases import pairs_of
from instances import JUDGED_KINDS, KINDS, judged_instance, triplet_instance
from oracles import bilinear_optimum, frobenius_optimum
from sklearn.exceptions import ConvergenceWarning

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.core.arrays import to_numpy
from conemetric.engine import dual_rounds
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.mixture import Mixture
from conemetric.engine.operators import MatrixOperator, from_triplets
from conemetric.ranking.bilinear_operator import from_comparisons
from conemetric.ranking.bilinear_program import BilinearProgram


@pytest.fixture
def always(monkeypatch):
    """Rounds however few constraints there are and however many of them are free."""
    monkeypatch.setattr(dual_rounds, "MIN_CONSTRAINTS", 1)
    monkeypatch.setattr(dual_rounds, "MAX_FREE_SHARE", 1.0)
    monkeypatch.setattr(dual_rounds, "FEW_FROM", 4)
    monkeypatch.setattr(dual_rounds, "LONGEST", 5)


def test_a_program_whose_operator_has_no_subsets_is_solved_whole(always):
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=(2, 80, 4, 1))
    problem = FrobeniusProgram(MatrixOperator(far @ far.mT - near @ near.mT), 3.0)
    assert not problem.restrictable
    result = DualQuasiNewton(tol=1e-6, max_iter=500).solve(problem)
    assert result.certificate.status == "converged"
    with pytest.raises(TypeError, match=r"MatrixOperator has no subsets.*restrictable"):
        problem.restricted(np.arange(3), result.dual_point)


PROGRAMS = ("plain", "weights", "prior", "scores")


def varied_program(which, kind, seed, asarray=np.asarray, dtype=np.float64, loss="hinge"):
    """Over triplets with or without a prior or weights, or over scores; ``kind`` is the
    number of a kind of instance.
    """
    rng = np.random.default_rng([seed, kind])
    if which == "scores":
        judged = JUDGED_KINDS[kind % len(JUDGED_KINDS)]
        Q, D, comparisons = judged_instance(judged, seed, dtype)
        operator = from_comparisons(asarray(Q), asarray(D), comparisons)
        prior = rng.normal(size=(Q.shape[1],) * 2).astype(dtype)
        return BilinearProgram(operator, 3.0, loss, asarray(prior))
    X, T = triplet_instance(KINDS[kind], seed)
    root = rng.normal(size=(X.shape[1],) * 2)
    prior = asarray((root @ root.T).astype(dtype)) if which == "prior" else None
    weights = rng.uniform(0.1, 2, len(T)) if which == "weights" else None
    operator = from_triplets(asarray(X.astype(dtype)), T)
    return FrobeniusProgram(operator, 3.0, loss, prior, weights)


def split(problem, seed):
    """Multipliers of which half are at a bound, and the places of the other half."""
    rng, m = np.random.default_rng(seed), problem.operator.n_constraints
    u, index = rng.uniform(size=m), np.sort(rng.permutation(m)[: (m + 1) // 2])
    u[np.setdiff1d(np.arange(m), index)] = rng.integers(0, 2, m - len(index))
    return u * to_numpy(problem.unit), index


@pairs_of(kind=range(len(KINDS)), which=PROGRAMS, loss=("hinge", "squared_hinge"), asarray=True)
def test_a_restricted_program_is_the_program_seen_from_few_multipliers(
    which, kind, seed, loss, asarray
):
    problem = varied_program(which, kind, seed, asarray, loss=loss)
    u, index = split(problem, seed)
    part = problem.restricted(asarray(index), asarray(u))
    whole, inner = problem.evaluate(asarray(u)), part.evaluate(asarray(u[index]))
    scale = abs(whole.dual) + abs(whole.primal[0])
    assert inner.dual == pytest.approx(whole.dual, abs=1e-10 * scale)
    gradient = to_numpy(whole.gradient)
    np.testing.assert_allclose(to_numpy(inner.gradient), gradient[index], atol=1e-9 * scale)
    np.testing.assert_allclose(to_numpy(inner.matrix), to_numpy(whole.matrix), atol=1e-9 * scale)
    assert inner.primal[0] <= whole.primal[0] + 1e-10 * scale
    consistent = asarray(problem.operator.constraint_vector(problem.loss.multiplier(whole.margins)))
    consistent = problem.project(consistent * problem.unit)
    mixture = Mixture.of(
        problem.restricted(asarray(index), consistent), inner.matrix, inner.margins
    )
    assert mixture.value == pytest.approx(whole.primal[0], abs=1e-9 * scale)


@pairs_of(kind=range(len(KINDS)), which=PROGRAMS, asarray=True, dtype=True)
def test_a_mixture_is_never_worse_and_knows_its_objective(which, kind, seed, asarray, dtype):
    problem = varied_program(which, kind, seed, asarray, dtype)
    rng, m = np.random.default_rng(seed), problem.operator.n_constraints
    points = [
        problem.evaluate(asarray((rng.uniform(size=m) * to_numpy(problem.unit)).astype(dtype)))
        for _ in range(5)
    ]
    mixture = Mixture.of(problem, points[0].matrix, points[0].margins)
    rounding = 1e-9 if dtype == np.float64 else 1e-3
    for point in points[1:]:
        further = mixture.extended(point)
        assert further.value <= mixture.value * (1 + rounding)
        assert further.value <= point.primal[0] * (1 + rounding)
        again = Mixture.of(problem, further.matrix, further.margins).value
        assert further.value == pytest.approx(again, rel=rounding)
        mixture = further
    factor = problem.primal_point(mixture.matrix)
    bounds = problem.certify(factor, points[0].u)
    assert mixture.value == pytest.approx(bounds.primal, rel=rounding)
    assert bounds.dual <= bounds.primal


@pytest.mark.cases(6)
@pairs_of(kind=KINDS, C=(1e-2, 1.0, 1e2), asarray=True, dtype=True)
def test_rounds_end_at_the_optimum(kind, C, seed, asarray, dtype, always):
    X, T = triplet_instance(kind, seed)
    optimum = frobenius_optimum(X.astype(dtype).astype(float), T, C)
    tol = 1e-5 if dtype == np.float64 else 1e-3
    slack = (1e-7 if dtype == np.float64 else 1e-5) * abs(optimum)
    problem = FrobeniusProgram(from_triplets(asarray(X.astype(dtype)), T), C)
    result = DualQuasiNewton(tol=tol, max_iter=20000).solve(problem)
    assert result.certificate.meets(tol)
    assert result.certificate.dual <= optimum + slack <= result.certificate.primal + 2 * slack
    assert np.all(result.history["dual"] <= optimum + slack)
    assert np.all(result.history["primal"] >= optimum - slack)
    assert to_numpy(result.primal_point).dtype == to_numpy(result.dual_point).dtype == dtype


@pytest.mark.parametrize("kind", JUDGED_KINDS)
@pytest.mark.costly
def test_rounds_over_scores_end_at_the_optimum(kind, seed, asarray, always):
    Q, D, comparisons = judged_instance(kind, seed)
    prior = np.eye(Q.shape[1])
    optimum = bilinear_optimum(Q, D, comparisons, 1.0, prior)
    operator = from_comparisons(asarray(Q), asarray(D), comparisons)
    problem = BilinearProgram(operator, 1.0, "hinge", asarray(prior))
    certificate = DualQuasiNewton(tol=1e-6, max_iter=20000).solve(problem).certificate
    slack = 1e-7 * abs(optimum)
    assert certificate.meets(1e-6)
    assert certificate.dual <= optimum + slack <= certificate.primal + 2 * slack


@pytest.fixture(scope="module")
def many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    T = rng.integers(0, 300, (4000, 3))
    return X, T[(T[:, 0] != T[:, 1]) & (T[:, 0] != T[:, 2])]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.costly
def test_many_constraints_with_and_without_rounds(tol, loss, many, asarray, monkeypatch):
    """The same optimum within the gaps; at the end few multipliers are inside their bounds."""
    X, T = many
    problem = FrobeniusProgram(from_triplets(asarray(X), T), 300.0, loss)
    monkeypatch.setattr(dual_rounds, "MIN_CONSTRAINTS", 1000)
    within = DualQuasiNewton(tol=tol).solve(problem).certificate
    monkeypatch.setattr(dual_rounds, "MIN_CONSTRAINTS", np.inf)
    without = DualQuasiNewton(tol=tol).solve(problem).certificate
    assert within.meets(tol)
    assert without.meets(tol)
    assert within.dual <= without.primal
    assert without.dual <= within.primal


def test_bounds_reached_in_single_precision_are_reached(many):
    X, T = many
    rng = np.random.default_rng(1)
    problem = FrobeniusProgram(from_triplets(X, T), 7.0, weights=rng.uniform(0.1, 2, len(T)))
    index = np.arange(0, len(T), 3)
    moved = (problem.upper[index] * np.linspace(0, 1, len(index))).astype(np.float32)
    moved[::2] = problem.upper[index][::2]
    u = dual_rounds.lifted(problem, problem.upper * 0.5, index, moved)
    assert np.all(u[index][::2] == problem.upper[index][::2])
    assert np.all(u <= problem.upper)
    assert np.all(np.delete(u, index) == np.delete(problem.upper * 0.5, index))


def test_sizes_beyond_single_precision_stay_in_double(many, always):
    """Points so far apart that the squares of their distances are infinite in single precision."""
    X, T = many
    problem = FrobeniusProgram(from_triplets(X[:40] * 1e12, T[(T < 40).all(1)]), 1e-40)
    assert not dual_rounds.Rounds(DualQuasiNewton(), problem).single
    assert DualQuasiNewton(tol=1e-4).solve(problem).status == "converged"


@pytest.mark.parametrize("n_iter", [1, 4, 9])
def test_a_round_that_is_cut_short_keeps_what_it_reached(n_iter, monkeypatch):
    def interrupt(record):
        if record["iteration"] == n_iter:
            raise KeyboardInterrupt

    def gap(solver, callback=None):
        result = solver.solve(problem, callback=callback)
        ends.append(result.n_iter)
        return result.certificate.relative_gap

    monkeypatch.setattr(dual_rounds, "MIN_CONSTRAINTS", 1)
    rng, ends = np.random.default_rng(0), []
    y = np.arange(150) % 3
    X = rng.normal(size=(150, 6)) + 0.7 * y[:, None]
    problem = FrobeniusProgram(from_triplets(X, triplets_from_labels(X, y)), 100.0)
    with pytest.warns(ConvergenceWarning):
        start = gap(DualQuasiNewton(max_iter=0))
        limited = gap(DualQuasiNewton(tol=1e-9, max_iter=n_iter))
        interrupted = gap(DualQuasiNewton(tol=1e-9), interrupt)
    assert ends == [0, n_iter, n_iter]
    assert max(limited, interrupted) < 0.99 * start
