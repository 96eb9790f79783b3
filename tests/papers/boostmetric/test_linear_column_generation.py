"""Column generation on the hinge program, against a conic solver."""

import numpy as np
import pytest
from instances import KINDS, triplet_instance
from numpy.testing import assert_allclose
from oracles import soft_margin_optimum

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.engine.operators import from_triplets
from conemetric.papers.boostmetric.linear_column_generation import LinearColumnGeneration
from conemetric.papers.boostmetric.soft_margin import SoftMarginProgram

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.costly
def test_optimum(kind, seed):
    X, T = triplet_instance(kind, seed)
    v = 4 / len(T)
    optimum = soft_margin_optimum(X, T, v)
    certificate = (
        LinearColumnGeneration(tol=1e-6, max_iter=100)
        .solve(SoftMarginProgram(from_triplets(X, T), v))
        .certificate
    )
    size = max(abs(optimum), 1e-2)  # some instances have optimum zero
    assert certificate.dual - 1e-7 <= optimum <= certificate.primal + 1e-7
    assert certificate.primal - optimum <= 1e-6 * size


def test_ends_where_linear_programs_are_not_accurate_enough():
    rng = np.random.default_rng(1850)
    X = rng.normal(size=(28, 6)) * 10.0 ** np.array([-3, -2, 0, 1, 2, 3])
    T = triplets_from_labels(X, np.arange(28) % 2, 1, 1)
    result = LinearColumnGeneration(tol=0.0, max_iter=2000).solve(
        SoftMarginProgram(from_triplets(X, T), 0.2)
    )
    assert result.status == "stalled" and result.n_iter < 200
    assert result.certificate.dual <= result.certificate.primal


def test_libraries_and_precisions_agree(asarray, dtype):
    X, T = triplet_instance("duplicates", 1)
    v = 4 / len(T)
    result = LinearColumnGeneration(tol=1e-3).solve(
        SoftMarginProgram(from_triplets(asarray(X.astype(dtype)), asarray(T)), v)
    )
    assert result.certificate.meets(1e-3)
    assert_allclose(result.certificate.primal, soft_margin_optimum(X, T, v), rtol=2e-3)
    assert_allclose(float((result.primal_point**2).sum()), 1, rtol=1e-5)
    assert np.all(np.diff(result.history["dual"]) >= 0)
