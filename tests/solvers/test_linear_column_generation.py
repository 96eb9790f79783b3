"""Column generation on the hinge program, against a conic solver."""

import numpy as np
import pytest
from instances import triplet_instance
from numpy.testing import assert_allclose
from oracles import soft_margin_optimum

from conemetric.operators import from_triplets
from conemetric.problems.soft_margin import SoftMarginProgram
from conemetric.solvers.linear_column_generation import LinearColumnGeneration

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("seed", range(12))
def test_optimum(seed):
    X, T, _ = triplet_instance(seed)
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


def test_libraries_and_precisions_agree(asarray, dtype):
    X, T, _ = triplet_instance(8)
    v = 4 / len(T)
    result = LinearColumnGeneration(tol=1e-3).solve(
        SoftMarginProgram(from_triplets(asarray(X.astype(dtype)), asarray(T)), v)
    )
    assert result.certificate.meets(1e-3)
    assert_allclose(result.certificate.primal, soft_margin_optimum(X, T, v), rtol=2e-3)
    assert_allclose(float((result.primal_point**2).sum()), 1, rtol=1e-5)
    assert np.all(np.diff(result.history["dual"]) >= 0)
