"""The paper's Frank-Wolfe method: valid bounds at every step, margins that match the
point, both kinds of vertex.
"""

import numpy as np
import pytest
from instances import triplet_instance

from benchmarks.papers.frank_wolfe import FrankWolfe
from conemetric.engine.operators import from_pairs, from_triplets
from conemetric.engine.operators.whitening import whiten
from conemetric.engine.proximal_point import ProximalPoint
from conemetric.papers.eigenvalue.program import DMLEigProgram, LMNNEigProgram


def game(program, kind, seed=0):
    X, T = triplet_instance(kind, seed)
    if program == "dml":
        return DMLEigProgram(from_pairs(X, np.unique(T[:, [0, 2]], axis=0)))
    return LMNNEigProgram(from_triplets(whiten(X, T[:, :2], 1e-3).points, T), 0.3)


def steps(problem, n, **parameters):
    return [
        iterate
        for iterate, _ in zip(FrankWolfe(**parameters).steps(problem, None), range(n), strict=False)
    ]


@pytest.mark.parametrize("program", ["dml", "lmnn"])
@pytest.mark.parametrize("kind", ["labels", "random", "collinear"])
@pytest.mark.costly
def test_every_step_bounds_the_optimum_and_the_gap_closes(program, kind):
    problem = game(program, kind)
    exact = ProximalPoint(tol=1e-6).solve(problem).certificate
    iterates = steps(
        problem, 400, mu=0.1 / abs(exact.primal) if program == "lmnn" else 1e-2 * abs(exact.primal)
    )
    slack = 1e-9 * abs(exact.primal)
    assert all(
        iterate.primal >= exact.dual - slack and iterate.dual <= exact.primal + slack
        for iterate in iterates
    )
    for iterate in (iterates[1], iterates[-1]):
        bounds = problem.bounds(iterate.primal_point, iterate.dual_point)
        # the point is worth what the game says, or more
        assert bounds.primal <= iterate.primal + 1e-9 * abs(iterate.primal)
        assert bounds.dual == pytest.approx(iterate.dual, rel=1e-9)
    certified = [
        problem.bounds(iterate.primal_point, iterate.dual_point) for iterate in iterates[::20]
    ]
    early, late = (
        min(b.primal for b in part) - max(b.dual for b in part)
        for part in (certified[:2], certified)
    )
    assert late < 0.5 * early


def test_the_factor_carries_the_margins_of_the_game():
    problem = game("dml", "labels")
    for iterate in steps(problem, 60, mu=1e-3):
        L = iterate.primal_point
        assert np.sum(L**2) == pytest.approx(1, rel=1e-12)  # on the spectrahedron
        assert -problem.operator.forward_factor(L).min() == pytest.approx(iterate.primal, rel=1e-8)
        assert iterate.dual_point.sum() == pytest.approx(1)


def test_large_matrices_take_lanczos(monkeypatch):
    """Above the dense limit only leading eigenvectors are computed, and the bounds stay
    the same.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 20))
    pairs = np.array([[i, j] for i in range(15) for j in range(i)])
    dense = steps(DMLEigProgram(from_pairs(X, pairs)), 15, mu=0.1)
    monkeypatch.setattr("conemetric.core.spectral.PARTIAL_FROM", 5)
    monkeypatch.setattr(np.linalg, "eigh", None)
    lanczos = steps(DMLEigProgram(from_pairs(X, pairs)), 15, mu=0.1)
    np.testing.assert_allclose([i.dual for i in lanczos], [i.dual for i in dense], rtol=1e-6)
