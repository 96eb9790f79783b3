"""The general Frobenius-norm SDP solver of Shen et al. (2014, section III), as one function."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

from ...core.arrays import Array, float64, is_torch, to_numpy
from ...core.sklearn_private import Interval, validate_params
from ...engine.certificate import Certificate
from ...engine.dual_quasi_newton import DualQuasiNewton
from ...engine.operators import MatrixOperator, Operator
from ...engine.sdp import SemidefiniteProgram
from ...estimators.base import LARGEST_PARAMETER, SMALLEST_PARAMETER


@dataclass(frozen=True)
class FrobeniusSDPResult:
    """Solution of `solve_frobenius_sdp`.

    Attributes
    ----------
    X : array (D, D)
        The best point found, positive semidefinite, and moved until its constraints are met but for
        rounding, where that is possible; in float64, as certified.
    factor : array (D, rank)
        L with X = L L', in float64.
    multipliers : array (m,)
        One per constraint, nonnegative for inequalities.
    certificate : Certificate
        Objective of X, proven lower bound on the optimum, worst constraint violation
        relative to the largest entry of b, status. If X misses constraints by more than rounding,
        its objective says nothing about the optimum, and the violation is infinite.
    n_iter : int
    history : dict of arrays
    """

    X: Any
    factor: Any
    multipliers: Any
    certificate: Certificate
    n_iter: int
    history: dict[str, np.ndarray]


@validate_params(
    {
        "sigma": [Interval(Real, SMALLEST_PARAMETER, LARGEST_PARAMETER, closed="both")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "callback": [callable, None],
    },
    prefer_skip_nested_validation=True,
)
def solve_frobenius_sdp(  # noqa: PLR0913
    C: Any,
    A: Any,
    b: Any,
    sigma: float,
    *,
    equality: Any = False,
    tol: float = 1e-6,
    max_iter: int = 5000,
    start: Any = None,
    callback: Callable[[dict[str, Any]], Any] | None = None,
) -> FrobeniusSDPResult:
    """Minimise <C, X> + ||X||_F^2 / (2 sigma) over psd X with <A_i, X> <= b_i or = b_i.

    Parameters
    ----------
    C : array (D, D)
        Objective; only its symmetric part matters.
    A : array (m, D, D), sequence of dense or SciPy sparse (D, D) matrices, or Operator
        Constraint matrices. `conemetric.engine.operators.from_pairs` makes the operator of
        sums of weighted pairs, which never forms a matrix.
    b : array (m,)
    sigma : float
        Inverse weight of the regulariser; large values approach the plain SDP.
    equality : bool or boolean array (m,), default=False
        Which constraints are equalities.
    tol : float, default=1e-6
        Largest relative gap, and largest violation relative to the largest entry of b,
        at which to stop.
    max_iter : int, default=5000
        Maximum number of iterations of the solver.
    start : array (m,), default=None
        Multipliers to start from.
    callback : callable, default=None
        Called with a dict of scalars after each iteration; a true return value stops the solve.

    Returns
    -------
    FrobeniusSDPResult
        If no X meets the constraints, ``certificate.status`` is "infeasible" and a warning
        gives the reason.

    Examples
    --------
    The psd matrix of unit diagonal nearest to a given one (a correlation matrix):

    >>> import numpy as np
    >>> from conemetric import solve_frobenius_sdp
    >>> G = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    >>> A = [np.diag(row) for row in np.eye(3)]
    >>> result = solve_frobenius_sdp(-G, A, np.ones(3), sigma=1.0, equality=True)
    >>> result.X.round(3)
    array([[ 1. ,  0.5, -0.5],
           [ 0.5,  1. ,  0.5],
           [-0.5,  0.5,  1. ]])
    """
    _check_numbers(C, "C")
    _check_numbers(b, "b")
    C = _square(C)
    operator = A if isinstance(A, Operator) else MatrixOperator(_check_matrices(A, C))
    D = operator.n_features
    m = operator.n_constraints
    if tuple(C.shape) != (D, D):
        raise ValueError(f"C has shape {tuple(C.shape)}, those in A ({D}, {D}); make them agree.")
    each = f"each of the {m} constraints"
    _check_shape("b", b, [(m,)], f"one bound for {each} in A")
    _check_shape("equality", equality, [(), (m,)], f"one value, or one for {each}")
    _check_shape("start", start, [(m,)], f"one multiplier for {each} in A")
    equality = np.zeros(m, dtype=bool) | _truth(equality)
    # <C, X> depends on the symmetric part of C alone
    problem = SemidefiniteProgram(operator, (C + C.T) / 2, b, sigma, equality)
    solver = DualQuasiNewton(tol=tol, max_iter=max_iter)

    def keep(L: Array) -> tuple[None, Array]:
        """Return L moved until its constraints are met: the ascent meets them only in the limit."""
        return None, problem.exact.repaired(float64(L))

    result = solver.solve(problem, start=start, callback=callback, keep=keep)
    L = result.primal_point
    return FrobeniusSDPResult(
        X=L @ L.T,
        factor=L,
        multipliers=result.dual_point,
        certificate=result.certificate,
        n_iter=result.n_iter,
        history=result.history,
    )


def _square(C: Any) -> Any:
    """Return C as a dense array in float64, or as the tensor it is; raise unless it is square."""
    if sparse.issparse(C):
        C = C.toarray()
    if not is_torch(C):
        C = np.asarray(C, dtype=np.float64)
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise ValueError(f"C has shape {tuple(C.shape)}; pass a square matrix.")
    return C


def _check_shape(name: str, values: Any, shapes: list[tuple[int, ...]], wanted: str) -> None:
    """Raise if ``values`` are given, but in none of these shapes."""
    shape = tuple(np.shape(values))
    if values is not None and shape not in shapes:
        raise ValueError(f"{name} has shape {shape}; pass {wanted}.")


def _truth(equality: Any) -> np.ndarray:
    """Return what is True or False, or 1 or 0, as booleans."""
    truth = np.asarray(to_numpy(equality))
    if truth.dtype != bool and not (truth.dtype.kind in "iuf" and np.isin(truth, (0, 1)).all()):
        raise ValueError(f"equality={equality!r} must be True or False, or hold only those.")
    return truth.astype(bool)


def _check_numbers(values: Any, name: str) -> None:
    """Raise if these are not real, finite numbers."""
    if sparse.issparse(values):
        array = values.data
    else:
        array = np.asarray(to_numpy(values))
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} has dtype {array.dtype}; pass real numbers.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains numbers that are not finite; drop such constraints.")


def _check_matrices(A: Any, C: Any) -> Any:
    """Return the matrices as arrays; raise if there are none, or if one does not fit C."""
    if not hasattr(A, "shape"):  # one array is kept whole
        matrices = []
        for matrix in A:
            if not hasattr(matrix, "shape"):  # a list of lists
                matrix = np.asarray(matrix)
            matrices.append(matrix)
        A = matrices
    if len(A) == 0:
        raise ValueError("A is empty; pass at least one constraint matrix.")
    for i, matrix in enumerate(A):
        _check_numbers(matrix, f"A[{i}]")
        if tuple(matrix.shape) != tuple(C.shape):
            shapes = f"shape {tuple(matrix.shape)}, but C is {tuple(C.shape)}"
            raise ValueError(f"A[{i}] has {shapes}; make them agree.")
    return A
