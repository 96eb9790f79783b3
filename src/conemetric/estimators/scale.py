"""The C that makes a fit independent of the units of X, and the range it may have."""

from typing import Any

from ..core.advice import AdviceError
from ..core.arrays import float64

# chosen over 14 data sets from D = 4 to 384; see docs/defaults.md
SCALE_FREE_C_PER_FEATURE = 30.0


def scaled_C(operator: Any, n_features: int, weights: Any = None) -> float:
    """The C of ``C="scale"``: `SCALE_FREE_C_PER_FEATURE` D / s^4."""
    return SCALE_FREE_C_PER_FEATURE * n_features / mean_impostor_distance(operator, weights) ** 2


def mean_impostor_distance(operator: Any, weights: Any = None, scaled: str = "C") -> float:
    """s^2, the mean squared Euclidean distance over the impostor pairs of a triplet operator, by
    which a parameter is ``scaled``.
    """
    if weights is None:
        weights = 1.0
    sum_, count = operator.space.sum(_impostor_lengths, operator.blocks, weights)
    mean_square = sum_ / count
    if not mean_square**2 > 0:
        numbers = "numbers"
        if scaled == "C":
            numbers = "a number"
        raise AdviceError(
            f"Every impostor coincides with its point, so {scaled} cannot be scaled to X",
            {
                "": "remove duplicated rows whose targets differ",
                "n_impostors": "raise n_impostors",
                scaled: f"pass {scaled} as {numbers}",
            },
        )
    return mean_square


def check_range_of_C(C: float, operator: Any) -> None:
    """Refuse a C whose multipliers, at most about C / m each, the precision of the operator lacks."""
    number = operator.xp.finfo(operator.dtype)
    m = operator.n_constraints
    if not float(number.tiny) < C / m < float(number.max * number.eps):
        raise ValueError(
            f"C={C:g} over {m} triplets is out of the range of {operator.dtype}: C scales with "
            "the inverse fourth power of the units of X; rescale X, or pass it in float64."
        )


def _impostor_lengths(operator, weights):
    """Weighted sum of the squared lengths of the impostor pairs, and their total weight."""
    far = operator.pair[operator.row_start[:-1]]  # a triplet's row begins with its impostor pair
    lengths = float64(operator.pair_lengths[far])
    if isinstance(weights, float):
        return lengths.sum(), len(far)
    return (weights * lengths).sum(), float64(weights).sum()
