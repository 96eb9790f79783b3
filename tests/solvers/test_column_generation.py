"""Boosting by column generation: optima against a conic solver, the paper's theorem, the root finder, bounded columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import triplet_instance
from numpy.testing import assert_allclose
from problems.test_boosting_losses import program

from conemetric.arrays import to_numpy
from conemetric.operators import from_triplets
from conemetric.problems.boosting_losses import ExponentialLoss, LogisticLoss
from conemetric.solvers.base import Status
from conemetric.solvers.column_generation import ColumnGeneration, Ensemble, LearnerMargins, positive_root

TASKS = [(ExponentialLoss, 1e-2), (LogisticLoss, 1.0)]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("loss, v", TASKS)
@pytest.mark.parametrize("seed", range(36))
def test_optimum(loss, v, seed):
    """Totally corrective to 1e-5, stage-wise to 1e-3; the certificate brackets the optimum as its problem says."""
    X, T, _ = triplet_instance(seed)
    found = program(X, T, loss, v)
    if found is None:
        assert loss is ExponentialLoss  # satisfiable triplets: no minimum
        return
    optimum, M = found
    for corrective, tol, accuracy in ((True, 1e-4, 1e-5), (False, 1e-3, 1e-3)):
        result = ColumnGeneration(tol=tol, max_iter=4000, corrective=corrective).solve(loss(from_triplets(X, T), v))
        certificate, trace = result.certificate, (result.primal_point**2).sum()
        error = certificate.primal - optimum
        assert certificate.status is Status.CONVERGED
        assert -1e-6 * abs(optimum) <= error <= accuracy * abs(optimum)
        assert error <= certificate.gap + max(0, np.trace(M) - trace) * certificate.violation * v + 1e-6 * abs(optimum)
