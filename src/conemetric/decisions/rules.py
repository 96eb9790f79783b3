"""The decision rules, by the name that `MetricClassifier` and `MetricRegressor` know them by."""

from .kernel import KernelRule
from .neighbors import NeighborVote
from .rule import Rule

# the kernel last: `MetricClassifier` prefers it unless another is surely better
RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (NeighborVote, KernelRule)}
