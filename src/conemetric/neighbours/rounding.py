"""What rounding may do to distances, and which of them are ties.

Points z are those of X about a centre, in a unit of length that is a power of two. A
search forms squared distances |z_i|^2 + |z_j|^2 - 2 z_i'z_j in low precision; each is
wrong by at most gamma (|z_i| + |z_j|)^2, and |z_j| <= |z_i| + d. So a reference at
distance d from query i is given no more than

    d^2 + gamma (2 |z_i| + d)^2

and who looks at all below that misses none as near as d. X is rounded itself, which
moves a distance from x_i by up to eps (|x_i| + d), and its sum in float64 by less than
sqrt(D) eps d. Distances that differ by no more than a few of these are ties: the
nearest of all has for its ties those within that of it, the nearest of the rest has its
own, and so on. Which of the ties comes first is said in `ties`. So neither a change of
units nor another order of rows changes neighbours, and no answer depends on how a search
groups its sums.
"""

TIES = 4.0  # roundings by which ties may differ


def product_gamma(n_features, eps):
    """gamma of sums of products in a precision of ``eps``, in any order of summation."""
    return (8 + n_features) * eps


def tie_rule(n_features, eps):
    """(a, b): distances from x_i within a |x_i| + b d of d are ties of d."""
    return TIES * eps, TIES * (eps + n_features**0.5 * 2.0**-52)
