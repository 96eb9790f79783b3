"""What a fitted decision is made of, and how it explains itself."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ..core import fields
from ..engine.certificate import Certificate
from ..engine.distance_kernels import mean_differences
from .rule import FittedRule, Training, Trial
from .rules import RULES

FIELDS: dict[str, fields.Field] = {
    "metric": fields.Text(),
    "rule": fields.Text(tuple(RULES)),
    "setting": fields.Plain(dict),
    "loss": fields.Number(nan=True),
    "weight": fields.Number(0, 1 + 1e-9, strict=True),
    "map": fields.ArrayField("f", ("d", "r"), optional=True),
    "places": fields.ArrayField("i", ("p",), low=0, below="m", increasing=True),
    "fitted": fields.Field(),
}


@dataclass(frozen=True)
class Explanation:
    """The training rows that decided, and the columns that made them near.

    Attributes
    ----------
    rows : array (n_queries, n)
        Row numbers in the X of ``fit``, the most influential first.
    shares : array (n_queries, n)
        Share of each in the decision: positive if it supports it, of a number if it moves it
        away from the mean. Over all training rows the absolute shares add up to 1.
    nearness : array (n_queries, n, n_columns)
        What each column contributes to 1 - d / (mean d), with d the squared distance, or that
        of the city block if the kernel depends on it: positive where the column makes the two
        rows more similar than two average rows. Of a blend, the mean over its parts.
    columns : tuple of str or None
        Names of the columns; None if X had none in ``fit``.
    """

    rows: np.ndarray
    shares: np.ndarray
    nearness: np.ndarray = field(repr=False)
    columns: tuple[str, ...] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Decided:
    """What a classifier or regressor predicts for new rows, and why.

    Attributes
    ----------
    values : array (n,)
        The predicted classes or numbers.
    probabilities : array (n, n_classes) or None
        Of the classes; None for numbers.
    sets : array of bool (n, n_classes) or None
        Sets of classes that should hold the true one; None for numbers, and without held-out rows.
    intervals : array (n, 2) or None
        Lower and upper ends of intervals that should hold the true number; None for classes, and
        without held-out rows.
    explanation : Explanation or None
        The training rows that decided, if they were asked for.
    """

    values: np.ndarray
    probabilities: np.ndarray | None = None
    sets: np.ndarray | None = None
    intervals: np.ndarray | None = None
    explanation: Explanation | None = None


@dataclass(frozen=True)
class Part:
    """One part of a blend: a rule fitted in a metric.

    Attributes
    ----------
    trial : Trial
        Metric and rule, with the scores they gave held-out rows.
    weight : float
    certificate : Certificate or None
        How far its kernel system is from the exact solution; None for neighbours.
    """

    trial: Trial
    weight: float
    fitted: FittedRule = field(repr=False)
    L: np.ndarray | None = field(repr=False)  # scaled rows go to L'x; None is the identity
    places: np.ndarray = field(repr=False)  # of the rows it keeps, among those that any part keeps

    @property
    def certificate(self) -> Certificate | None:
        return self.fitted.certificate

    def __str__(self) -> str:
        return f"{self.weight:.0%} {self.trial}"

    def nearness(self, difference: np.ndarray, X: np.ndarray) -> np.ndarray:
        """What each feature adds to 1 - d / (mean d over the rows X) for rows of this difference."""
        L = np.eye(X.shape[1]) if self.L is None else self.L
        if self.trial.rule.by_columns:
            scale = np.diag(L)  # the metrics of this kernel weigh columns
            apart, typical = abs(difference * scale), mean_differences(X * scale)
        else:
            spread = X - X.mean(0)
            apart = difference * (difference @ L @ L.T)
            # the mean over all pairs of rows is twice the variance, so no pairs are formed
            typical = 2 * (spread * (spread @ L @ L.T)).mean(0)
        return (typical - apart) / (typical.sum() or 1.0)

    def state(self) -> fields.State:
        """The part without the training rows."""
        trial = self.trial
        return {
            "metric": trial.metric,
            "rule": trial.rule.name,
            "setting": trial.rule.state(),
            "loss": trial.loss,
            "weight": self.weight,
            "map": self.L,
            "places": self.places,
            "fitted": self.fitted.state(),
        }

    @classmethod
    def from_state(cls, state: fields.State, within: str, rows: Training) -> Self:
        """The part of such a state, fitted to these rows."""
        fields.check(state, FIELDS, within, {"m": len(rows.Y), "d": rows.Z.shape[1]})
        rule = RULES[state["rule"]].from_state(state["setting"], f"{within}.setting")
        L, places = state["map"], state["places"]
        fits = not rule.by_columns or L is None or L.shape[0] == L.shape[1]
        fields.expect(fits, f"{within}.map", "not square", "weights of columns")
        fitted = rule.restored(rows.among(places).mapped(L), state["fitted"])
        trial = Trial(state["metric"], rule, np.empty((0, rows.Y.shape[1])), state["loss"])
        return cls(trial, state["weight"], fitted, L, places)


@dataclass(frozen=True)
class Blend:
    """The parts of a fitted classifier or regressor, the heaviest first.

    Attributes
    ----------
    parts : tuple of Part
    certificate : Certificate or None
        How far the weights are from those that minimise the squared error of held-out scores.
    """

    parts: tuple[Part, ...]
    certificate: Certificate | None

    def __str__(self) -> str:
        if len(self.parts) == 1:
            return str(self.parts[0].trial)
        return "; ".join(map(str, self.parts))
