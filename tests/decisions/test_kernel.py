"""The search for the setting of a kernel."""

from itertools import product

import pytest

from conemetric.decisions.kernel import RIDGES, WIDTHS, KernelRule, _around


@pytest.mark.parametrize("kernel", WIDTHS)
@pytest.mark.full_search
def test_neighbours_are_one_step_away_in_every_direction(kernel):
    widths = WIDTHS[kernel]
    for i, j in product(range(len(widths)), range(len(RIDGES))):
        found = _around(KernelRule(kernel, widths[i], RIDGES[j]))
        steps = {(widths.index(rule.width) - i, RIDGES.index(rule.ridge) - j) for rule in found}
        possible = {(-1, 0), (1, 0), (0, -1), (0, 1)}
        possible -= {(-1, 0)} if i == 0 else set()
        possible -= {(1, 0)} if i == len(widths) - 1 else set()
        possible -= {(0, -1)} if j == 0 else set()
        possible -= {(0, 1)} if j == len(RIDGES) - 1 else set()
        assert steps == possible and len(found) == len(possible)
        assert {rule.kernel for rule in found} == {kernel}
