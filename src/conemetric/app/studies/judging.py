"""Held-out items judged one by one: error, interval, and the p-value of a change."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import binomtest

from ...evaluation.statistics import mcnemar, mean_interval, paired_difference


@dataclass(frozen=True)
class Judgement:
    """Held-out items judged one by one."""

    wrong: np.ndarray  # whether, or by how much, for each held-out item
    detail: dict[str, Any] = field(default_factory=dict)  # predictions, or distances and threshold

    @property
    def n(self) -> int:
        return len(self.wrong)

    @property
    def rate(self) -> float:
        """Share of wrong items."""
        return float(self.wrong.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % confidence interval of the rate."""
        low, high = binomtest(int(self.wrong.sum()), self.n).proportion_ci(method="wilson")
        return float(low), float(high)

    def row(self) -> dict[str, float]:
        """Error and interval for a table."""
        low, high = self.interval
        return {"error": self.rate, "low": low, "high": high, "held_out": self.n}

    def p_value(self, after: "Judgement") -> float:
        """McNemar's exact test of the change to another judgement of the same items."""
        return mcnemar(self.wrong, after.wrong)


@dataclass(frozen=True)
class Deviation(Judgement):
    """Predictions of held-out numbers: ``wrong`` holds the squared errors over the variance of
    the numbers, so that ``rate`` is the share of variance left unexplained, 1 - R^2.
    """

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % confidence interval of the rate."""
        low, high = mean_interval(self.wrong)
        return max(0.0, low), high

    def row(self) -> dict[str, float]:
        return {**super().row(), "r2": 1 - self.rate, "rmse": self.detail["rmse"]}

    def p_value(self, after: "Judgement") -> float:
        """A randomisation test of the change in squared error."""
        return paired_difference(self.wrong, after.wrong).p_value
