"""The tests' own tools: pairs of options, and the names of cases within a test."""

import itertools

import pytest
from cases import case, pairwise


@pytest.mark.parametrize("sizes", [(2, 2), (7, 3, 2, 2, 2), (6, 6, 3, 2, 2, 2), (1, 4, 1)])
def test_every_two_values_of_two_options_meet(sizes):
    rows = pairwise(sizes)
    for i, j in itertools.combinations(range(len(sizes)), 2):
        meet = {(row[i], row[j]) for row in rows}
        assert meet == set(itertools.product(range(sizes[i]), range(sizes[j])))
    most = max(a * b for a, b in itertools.combinations(sizes, 2))
    assert len(rows) <= 2 * most


def test_a_failing_case_is_named():
    with pytest.raises(AssertionError) as caught, case(kind="copies", size=2):
        raise AssertionError
    assert caught.value.__notes__ == ["in the case kind='copies', size=2"]
