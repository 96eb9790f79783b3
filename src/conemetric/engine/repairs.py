"""Move a factor L until X = L L' meets its constraints, or nearly.

A step is L + A*(y) L, with the y for which A(X) changes by what is missing, to first order
(Levenberg-Marquardt): a small change of L that does, and X stays psd. Next to an X of low rank
constraints can be met to r and yet X be sqrt(r) from one that meets them. Few of the leading columns
of L may then lead to such a point where all of them do not, so they are tried from few to all.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

from ..core.arrays import Array, to_numpy

if TYPE_CHECKING:
    from .sdp import ConstrainedProgram

STEPS = 12  # at most, in one repair
FIRST_DAMPING = 1e-6  # relative to the diagonal of the system of a step
# A repair ends unless this many steps leave at most that share of the error.
HOPEFUL_STEPS = 2
HOPELESS = 0.3
SHARES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 0.0)  # of the trace: columns with less are left out
RIGHT = 1e-9  # relative error of constraints that are met as well as steps can
EXACT = 1e-13  # relative error that no step improves on
ACTIVE = 1e-4  # slack of an inequality, relative, within which steps must not break it
# The same in units of the largest error, for factors that are still off: to hold an inequality that is
# nearly parallel to a broken one is to ask for two changes that contradict each other.
ACTIVE_IN_ERRORS = 10.0


class Repaired(NamedTuple):
    """A factor, and the largest relative error of its constraints."""

    factor: Array
    error: float


def repaired(
    program: "ConstrainedProgram",
    L: Array,
    until: float,
    *,
    steady: bool,
    active_in_errors: float = math.inf,
) -> Repaired:
    """L after steps towards its constraints, which end where the error is ``until``, or hopeless:
    if it has not fallen far enough since the first step or, with ``steady``, in the last few. Steps
    hold the inequalities with a slack of at most `ACTIVE`, and of so many errors.
    """
    operator = program.operator
    size = program.scale
    damping = FIRST_DAMPING
    slack = program.b - operator.forward_factor(L)
    missing = program.lacking(slack)
    errors = [_largest(missing / size)]
    while errors[-1] > until and len(errors) <= STEPS and not _is_hopeless(errors, steady):
        active = min(ACTIVE, active_in_errors * errors[-1])
        moved = operator.moved(L, missing, program.at_stake(slack, active), damping)
        left = program.b - operator.forward_factor(moved)
        still_missing = program.lacking(left)
        improved = _squares(still_missing / size) < _squares(missing / size)
        if improved:
            L = moved
            slack = left
            missing = still_missing
            damping = damping / 10
        else:
            damping = 10 * damping
        errors.append(_largest(missing / size))
    return Repaired(L, errors[-1])


def repaired_from_few(program: "ConstrainedProgram", L: Array) -> tuple[list[Array], Array]:
    """(factors near L that meet their constraints, from few columns of L to all; the last, which may
    not).
    """
    # columns of L V are orthogonal, and `values`, their squares, add up to the trace of X
    values, vectors = program.operator.xp.linalg.eigh(L.T @ L)
    order = list(range(L.shape[1]))[::-1]
    L = (L @ vectors)[:, order]
    share = to_numpy(values / values.sum())[order]
    ranks = sorted({int((share > least).sum()) for least in SHARES} - {0})
    tried = [_repaired_exactly(program, L[:, :rank]) for rank in ranks]
    right = [repair.factor for repair in tried if repair.error <= RIGHT]
    return right, tried[-1].factor


def _repaired_exactly(program: "ConstrainedProgram", L: Array) -> Repaired:
    """L as near to its constraints as steps lead."""
    first = repaired(program, L, EXACT, steady=True)
    if first.error <= EXACT or not program.must_be_exact:
        return first
    again = repaired(program, first.factor, EXACT, steady=True, active_in_errors=ACTIVE_IN_ERRORS)
    if again.error < first.error:
        return again
    return first


def _largest(errors: Array) -> float:
    return float(abs(errors).max())


def _squares(errors: Array) -> float:
    return float((errors * errors).sum())


def _is_hopeless(errors: list[float], steady: bool) -> bool:
    if len(errors) <= HOPEFUL_STEPS:
        return False
    before = errors[-1 - HOPEFUL_STEPS] if steady else errors[0]
    return errors[-1] > HOPELESS * before
