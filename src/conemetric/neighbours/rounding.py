"""Bounds on the rounding of distances, and which distances are ties.

Points z are those of X about a centre, in a unit of length that is a power of two. A search forms
squared distances |z_i|^2 + |z_j|^2 - 2 z_i'z_j in low precision; each is wrong by at most gamma
(|z_i| + |z_j|)^2, and |z_j| <= |z_i| + d. So the computed square of a reference at distance d from
query i is at most

    d^2 + gamma (2 |z_i| + d)^2

and looking at all references below that misses none as near as d. X itself is rounded, which moves
a distance from x_i by up to eps (|x_i| + d), and its sum in float64 by less than sqrt(D) eps d.
Distances that differ by no more than a few of these are ties: the ties of the nearest reference are
those within that distance of it, the nearest of the rest has its own, and so on. `ties` decides
which of them comes first. So neither a change of units nor another order of rows changes
neighbours, and no result depends on how a search groups its sums.
"""

__all__ = ["DOUBLE_EPS", "product_gamma", "tie_rule"]

TIES = 4.0  # roundings by which ties may differ
DOUBLE_EPS = 2.0**-52  # spacing of float64 numbers at 1
SQUARES = 8  # roundings of a squared distance besides those of its products


def product_gamma(n_features: int, eps: float) -> float:
    """gamma of sums of products in a precision of ``eps``, in any order of summation."""
    return (SQUARES + n_features) * eps


def tie_rule(n_features: int, eps: float) -> tuple[float, float]:
    """(a, b): distances from x_i within a |x_i| + b d of d are ties of d."""
    return TIES * eps, TIES * (eps + n_features**0.5 * DOUBLE_EPS)
