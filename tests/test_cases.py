"""The tests' own tools: pairs of options, and the names of cases within a test."""

import inspect
import itertools

import pytest
from cases import alike_parts, case, each, pairwise, whose_turn


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


def test_a_loop_runs_every_case_and_takes_the_fixtures_of_its_test(tmp_path):
    seen = []

    @each(("one", "other"), [(1, 2), (3, 4)])
    @each("number", [5, 6])
    def checked(one, other, number, tmp_path):
        """Says so."""
        seen.append((one, other, number))
        assert number + one != 9

    assert list(inspect.signature(checked).parameters) == ["tmp_path"]
    assert checked.__doc__ == "Says so."
    with pytest.raises(AssertionError) as caught:
        checked(tmp_path=tmp_path)
    assert seen == [(1, 2, 5), (1, 2, 6), (3, 4, 5), (3, 4, 6)]
    assert caught.value.__notes__ == ["in the case number=6", "in the case one=3, other=4"]


def test_parts_hold_every_case_once_and_all_values_of_small_options():
    product = itertools.product(["hinge", "logistic", "squared"], ["numpy"], range(4), "ab")
    names = ["test[" + "-".join(map(str, values)) + "]" for values in product]
    parts = alike_parts(dict(zip(names, names, strict=True)), 5)
    assert sorted(itertools.chain(*parts)) == sorted(names)
    assert {len(part) for part in parts} <= {4, 5}
    for part in parts[:-1]:  # the last one is what is left
        values = [
            set(column) for column in zip(*(name[5:-1].split("-") for name in part), strict=True)
        ]
        assert list(map(len, values)) == [3, 1, 4, 2]
    assert alike_parts(dict.fromkeys(names), 24) == [[None] * 24]


@pytest.mark.parametrize(
    ("most", "n_turns", "n_days"), [(6, 1, 4), (1, 1, 20), (20, 3, 3), (1, 2, 40)]
)
def test_every_case_has_its_turn(most, n_turns, n_days):
    names = [f"test[{number}-{number % 3}]" for number in range(20)]
    cases = dict(zip(names, names, strict=True))
    days = [whose_turn(cases, most, number, n_turns) for number in range(7, 7 + n_days)]
    assert sorted(itertools.chain(*days)) == sorted(names)
    assert sum(map(bool, days)) == n_days // n_turns
