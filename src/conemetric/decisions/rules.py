"""The decision rules, by the name that `MetricClassifier` and `MetricRegressor` know them by."""

from .kernel import KernelRule
from .neighbors import NeighborVote
from .rule import Rule

RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (NeighborVote, KernelRule)}


def rules_for(name: str) -> list[type[Rule]]:
    """The rules to choose from: all for "auto"."""
    return list(RULES.values()) if name == "auto" else [RULES[name]]
