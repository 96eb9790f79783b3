"""A multiple of the trace added to every constraint."""

import numpy as np
import pytest
from instances import triplet_instance
from numpy.testing import assert_allclose

from conemetric.core.arrays import to_numpy
from conemetric.engine.operators import from_triplets
from conemetric.engine.operators.shifted import ShiftedOperator

SHIFT = 0.7


@pytest.fixture
def operators(asarray, seed):
    """An operator, and the same with a shift."""
    X, T = triplet_instance("labels", seed)
    operator = from_triplets(asarray(X), asarray(T))
    return operator, ShiftedOperator(operator, SHIFT)


def test_every_margin_gains_the_shifted_trace(operators, asarray, seed):
    operator, shifted = operators
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(operator.n_features, 3))
    expected = to_numpy(operator.forward(asarray(L @ L.T))) + SHIFT * (L * L).sum()
    for margins in (
        shifted.forward(asarray(L @ L.T)),
        shifted.forward_factor(asarray(L)),
        shifted.forward_product(asarray(L), asarray(L)),
    ):
        assert_allclose(to_numpy(margins), expected, rtol=1e-9, atol=1e-9)


def test_the_adjoint_is_that_of_the_operator(operators, asarray, seed):
    _, shifted = operators
    rng = np.random.default_rng(seed)
    u = asarray(rng.normal(size=shifted.n_constraints))
    L = asarray(rng.normal(size=(shifted.n_features, 2)))
    product = float(to_numpy(shifted.forward_factor(L)) @ to_numpy(u))
    for adjoint in (shifted.adjoint(u), shifted.precise_adjoint(u)):
        A = to_numpy(adjoint)
        assert np.trace(to_numpy(L).T @ A @ to_numpy(L)) == pytest.approx(product, rel=1e-9)
        assert_allclose(to_numpy(shifted.adjoint_product(u, L)), A @ to_numpy(L), atol=1e-8)


def test_it_has_the_other_precision(operators):
    operator, shifted = operators
    single = shifted.astype(operator.xp.float32)
    assert single.shift == SHIFT
    assert to_numpy(single.empty_constraint_vector()).dtype == np.float32
    assert (single.n_constraints, single.n_features) == (
        operator.n_constraints,
        operator.n_features,
    )
