"""Every estimator under changes of the data that must not change its answer (see
`metamorphic`).
"""

import pytest
from metamorphic import (
    AUTOMATIC,
    BLOCKS,
    GRADIENT_CHANGES,
    JUDGED,
    JUDGED_CHANGES,
    LABELLED,
    MATRIX_CHANGES,
    NEAR,
    RATING_CHANGES,
    TIED,
    TOGETHER,
    UNITS,
    among_ties,
    automatic,
    beside_a_copy,
    changed,
    gradients,
    in_blocks,
    judged,
    rated,
    rescaled,
    semidefinite,
)


@pytest.mark.cases(6)
@pytest.mark.parametrize(("name", "change", "size"), TOGETHER)
def test_a_change_that_changes_nothing(name, change, size, seed):
    assert changed(name, change, size, seed) == ()


@pytest.mark.cases(6)
@pytest.mark.parametrize("size", UNITS)
@pytest.mark.parametrize("name", LABELLED)
def test_units(name, size, seed):
    assert rescaled(name, size, seed) == ()


@pytest.mark.cases(6)
@pytest.mark.parametrize("distance", NEAR)
@pytest.mark.parametrize("name", LABELLED)
def test_a_row_repeated_and_nearly_repeated(name, distance, seed):
    assert beside_a_copy(name, distance, seed) == ()


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", TIED)
def test_the_order_of_rows_at_equal_distances(name, seed):
    assert among_ties(name, seed) == ()


@pytest.mark.parametrize("n_triplets", [1, 4, 11])
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.costly
def test_more_blocks_than_constraints(name, n_triplets, seed):
    pytest.importorskip("dask.array")
    assert in_blocks(name, n_triplets, seed) == ()


@pytest.mark.parametrize(("change", "size"), AUTOMATIC)
@pytest.mark.costly
def test_automatic(change, size, seed):
    assert tuple(automatic(change, size, seed)) == ()


@pytest.mark.parametrize(("name", "change", "size"), GRADIENT_CHANGES)
def test_gradients(name, change, size, seed):
    assert tuple(gradients(name, change, size, seed)) == ()


@pytest.mark.parametrize("change", JUDGED_CHANGES)
@pytest.mark.parametrize("name", JUDGED)
def test_judged_queries(name, change, seed):
    assert judged(name, change, seed) == ()


@pytest.mark.parametrize("change", RATING_CHANGES)
def test_ratings(change, seed):
    assert rated(change, seed) == ()


@pytest.mark.parametrize("change", MATRIX_CHANGES)
def test_matrices(change, seed):
    assert semidefinite(change, seed) == ()
