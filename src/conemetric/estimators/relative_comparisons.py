"""RelativeComparisons: weights of features, directions or kernel functions from relative comparisons (Schultz & Joachims 2004)."""

from numbers import Integral, Real

import numpy as np
from sklearn import get_config
from sklearn.base import _fit_context
from sklearn.decomposition import PCA
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from .. import spectral
from ..arrays import is_torch, like, to_numpy
from ..operators import from_triplets
from ..problems.relative_comparisons import RelativeComparison
from ..solvers.dual_coordinate import DualCoordinate
from .base import TRIPLET_PARAMETERS, MahalanobisMetric
from .frobmetric import scaled_C


class RelativeComparisons(MahalanobisMetric):
    """Metric M = A diag(w) A' with learned weights w >= 0, from triplets "i is closer to j than to k".

    Solves, with z = (A'x_i - A'x_k)^2 - (A'x_i - A'x_j)^2 for each triplet, ::

        min over w >= 0 of 1/2 ||A diag(w) A'||_F^2 + C sum max(0, 1 - w'z)

    and returns a proof of how far from the optimum it stopped (``certificate_``).

    Parameters
    ----------
    C : float or "scale", default="scale"
        Weight of the loss, a sum over the triplets. "scale" makes the fit independent of the units of X: the C that `FrobMetric`
        takes for "scale", divided by the number of triplets.
    transform : None, array-like (n_features, p), "pca" or callable, default=None
        The matrix A. None is the identity: one weight per feature. "pca" takes the principal directions of X. A callable is a
        kernel, called as ``transform(X, Y)`` and returning the matrix k(x, y), such as `sklearn.metrics.pairwise.rbf_kernel` or
        a kernel of `sklearn.gaussian_process`: A then holds the training points in its feature space, one weight for each.
    n_targets, n_impostors : int, default=3
        Neighbours per point that make its triplets, when fitted from labels.
    n_components : int, default=None
        Keep only this many leading directions of the learned metric. None keeps all.
    tol : float, default=1e-3
        Largest certified relative gap at which to stop.
    max_iter : int, default=1000
        An iteration is a coordinate sweep, or as many Newton steps as read about a million entries of z.
    random_state : int, RandomState or None
        Draws the order of the coordinate sweeps.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (rank, n_features)
        ``transform(X) = X @ components_.T``; with a kernel, (rank, number of positive weights) and
        ``transform(X) = k(X, kernel_points_) @ components_.T``.
    feature_weights_ : array (p,)
        The learned w.
    transform_ : array (n_features, p) or None
        The matrix A; None for the identity and for a kernel.
    kernel_points_ : array
        With a kernel: the training points whose weight is positive.
    certificate_ : Certificate
        Objective of the weights, proven lower bound on the optimum, gap, status.
    objective_, n_iter_, history_
        Primal objective, iterations, and scalars per iteration (``steps``: Newton steps so far).
    C_ : float
        The C that was used, in the units of X.
    multipliers_ : array (m,)
        Dual solution, one multiplier per triplet, between 0 and C.
    triplets_ : integer array (m, 3)

    Notes
    -----
    The solver runs on the host in float64: its steps are sequential and read a handful of numbers each. A PyTorch tensor is
    copied there once, and the fitted arrays are returned to its device and precision. The m x p array of the z is stored while
    it fits scikit-learn's ``working_memory`` (see `sklearn.set_config`; 1 GiB unless changed), and computed again in blocks
    whenever it is read otherwise.

    References
    ----------
    Schultz & Joachims, "Learning a Distance Metric from Relative Comparisons", NIPS 16, 2004.
    Nguyen, Morell & De Baets, "An efficient method for solving a quadratic programming problem derived from distance metric
    learning", Investigación Operacional, 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import RelativeComparisons
    >>> X, y = load_iris(return_X_y=True)
    >>> metric = RelativeComparisons().fit(X, y)
    >>> bool(metric.certificate_.relative_gap <= 1e-3)
    True
    >>> int(metric.feature_weights_.argmax())  # petal width
    3
    """

    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "transform": [None, StrOptions({"pca"}), "array-like", callable],
        **TRIPLET_PARAMETERS,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        C="scale",
        *,
        transform=None,
        n_targets=3,
        n_impostors=3,
        n_components=None,
        tol=1e-3,
        max_iter=1000,
        random_state=None,
        verbose=0,
    ):
        self.C = C
        self.transform = transform
