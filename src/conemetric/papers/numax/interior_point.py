"""Primal-dual interior-point method for the near-isometry program over few features.

    min Tr P   s.t.  slack_k = +-(v'Pv - bound) >= 0,  P psd        Z = I - sum_k +-m_k v v' psd,  m >= 0
    path       P Z = t I,   slack_k m_k = t,   t -> 0
    step       (A_G* W A_G + I) S = right-hand side,   dP = G S G',   A_G(S) = (G'v)'S(G'v),   W = sum m_k / slack_k

k runs over the lower (+) and upper (-) bounds that exist, and G scales so that G^-1 P G^-T = G'ZG is
diagonal (Nesterov & Todd 1997). P = I and small multipliers are feasible, and steps keep them so:
every iterate is feasible, and has a bound. The matrix of a step has a row for each entry of a
symmetric matrix, however many the secants, so that some twenty steps are enough where ADMM, for a
small delta, needs thousands.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from ...core.arrays import like, to_numpy
from ...engine.solver import Iterate, Solver, Steps
from .admm import factorised
from .program import NearIsometryProgram
from .secants import SecantOperator

SHORT = 0.9  # share of the way to the boundary
CENTRING = 1e-6  # smallest share of t that a step aims at
FIRST = 0.5  # largest eigenvalue of I - Z at first
SMALLEST_STEP = 1e-6  # below which rounding dominates


@dataclass(frozen=True)
class IsometryPath(Solver):
    """See the module docstring; the solve is on the host, in float64."""

    max_iter: int = 100
    solves = NearIsometryProgram
    takes_start = False

    def steps(self, problem: NearIsometryProgram, start: object = None) -> Steps:
        point: PathPoint | None = PathPoint.begin(problem)
        while point is not None:
            y = like(point.y, problem.operator.V)
            L = like(point.factor, problem.operator.V)
            violation = float(problem.excess(problem.operator.forward_factor(L)))
            yield Iterate(float(np.trace(point.P)), problem.bound(y), L, y, violation)
            point = point.advanced()


class Move(NamedTuple):
    """Of P and Z, scaled, of slacks and multipliers."""

    P: np.ndarray
    Z: np.ndarray
    slack: np.ndarray
    m: np.ndarray


@dataclass(frozen=True)
class PathPoint:
    """P and multipliers m: ``signs`` +1 for the lower and -1 for the upper ``bounds``, of ``secants``."""

    A: SecantOperator
    secants: np.ndarray
    signs: np.ndarray
    bounds: np.ndarray
    P: np.ndarray
    factor: np.ndarray  # of P
    m: np.ndarray

    @classmethod
    def begin(cls, problem: NearIsometryProgram) -> Self:
        """Return P = I, with multipliers that are feasible."""
        A = SecantOperator(to_numpy(problem.operator.V).astype(float))
        both = [to_numpy(each).astype(float) for each in (problem.lower, problem.upper)]
        ours, secants = np.nonzero(np.isfinite(both))
        # opposite multipliers of two bounds cancel each other, and can be on the path at once
        alone = np.bincount(secants, minlength=A.n_constraints) == 1
        largest = np.linalg.eigvalsh(A.adjoint(1.0 * alone))[-1]
        # at P = I slacks are about delta: m = 1 / delta puts both bounds of a secant at t = 1,
        # and they cancel in Z = I - A*(y), which multipliers of the others must leave definite
        m = np.where(alone, FIRST / max(largest, FIRST), 1 / problem.delta)[secants]
        bounds = np.array(both)[ours, secants]
        one = np.eye(A.n_features)
        return cls(A, secants, 1.0 - 2 * ours, bounds, one, one, m)

    def collected(self, values: np.ndarray) -> np.ndarray:
        """The sum of ``values`` over the bounds of each secant."""
        return np.bincount(self.secants, values, self.A.n_constraints)

    @property
    def y(self) -> np.ndarray:
        """The multipliers as the program has them: one per secant, negative at the upper bound."""
        return self.collected(self.signs * self.m)

    def advanced(self) -> Self | None:
        """The point after a predictor and a corrector; None if rounding allows no further step."""
        try:
            system = System(self)
            guess = system.direction(0.0)
            left = system.barrier(guess) / system.barrier()
            centring = min(1.0, max(CENTRING, left**3))  # Mehrotra (1992)
            move = system.direction(centring * system.barrier(), guess)
            p, d = system.reach(move)
            P = self.P + p * (system.G @ move.P @ system.G.T)
            P = (P + P.T) / 2
            after = replace(self, P=P, factor=np.linalg.cholesky(P), m=self.m + d * move.m)
        except np.linalg.LinAlgError:
            return None
        if max(p, d) > SMALLEST_STEP:
            return after
        return None


class System:
    """The linear system of a step from one point: P and Z scaled are diag(middle), and A too is scaled."""

    def __init__(self, point: PathPoint):
        self.point = point
        self.slack = point.signs * (point.A.forward(point.P)[point.secants] - point.bounds)
        Z = np.eye(len(point.P)) - point.A.adjoint(point.y)
        # with P = F F', Z = R R' and R'F = U diag(middle) W':  G = F W / sqrt(middle)
        _, self.middle, rows = np.linalg.svd(np.linalg.cholesky((Z + Z.T) / 2).T @ point.factor)
        self.G = (point.factor @ rows.T) * self.middle**-0.5
        self.A = SecantOperator(point.A.V @ self.G)
        # products of four entries of a secant: its weight enters each by the fourth root
        weights = point.collected(point.m / self.slack)[:, None]
        self.solve = factorised(SecantOperator(weights**0.25 * self.A.V).symmetric_gram(), 1.0)

    def direction(self, target: float, guess: Move | None = None) -> Move:
        """The move towards t = ``target``, with second-order terms of a ``guess``."""
        point = self.point
        middle = self.middle
        wanted = np.diag(target / middle - middle)
        products = target - self.slack * point.m
        if guess is not None:
            # T with middle T + T middle = -(second + second'), the products of changes (Mehrotra)
            second = guess.P @ guess.Z
            wanted = wanted - (second + second.T) / (middle[:, None] + middle)
            products = products - guess.slack * guess.m
        change = products / self.slack
        rhs = wanted + self.A.adjoint(point.collected(point.signs * change))
        P = self.A.matrix(self.solve(self.A.vector(rhs)))
        slack = point.signs * self.A.forward(P)[point.secants]
        change = change - point.m / self.slack * slack
        Z = -self.A.adjoint(point.collected(point.signs * change))
        return Move(P, Z, slack, change)

    def reach(self, move: Move) -> tuple[float, float]:
        """`SHORT` of the way that P and slacks, and Z and multipliers, can go; at most 1."""
        primal = self._inward(move.P, move.slack / self.slack)
        dual = self._inward(move.Z, move.m / self.point.m)
        return primal, dual

    def _inward(self, change: np.ndarray, relative: np.ndarray) -> float:
        """`SHORT` of the step at which diag(middle) + ``change`` is singular, or 1 + ``relative``
        zero; at most 1.
        """
        half = self.middle**-0.5
        smallest = np.linalg.eigvalsh(half[:, None] * change * half)[0]
        worst = float(min(smallest, relative.min()))
        if worst >= -SHORT:
            return 1.0
        return -SHORT / worst

    def barrier(self, move: Move | None = None) -> float:
        """t: the mean product of eigenvalues, and of slacks with multipliers; after a move, if any."""
        P = Z = np.diag(self.middle)
        slack = self.slack
        m = self.point.m
        if move is not None:
            p, d = self.reach(move)
            P = P + p * move.P
            Z = Z + d * move.Z
            slack = slack + p * move.slack
            m = m + d * move.m
        return float((P * Z).sum() + slack @ m) / (len(P) + len(m))
