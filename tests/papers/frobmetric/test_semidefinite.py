"""The general Frobenius SDP against a conic solver, and what it says of infeasible programs."""

import numpy as np
import pytest
from cases import pairs_of
from numpy.testing import assert_allclose
from oracles import semidefinite_optimum
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from conemetric import solve_frobenius_sdp
from conemetric.core.arrays import to_numpy
from conemetric.engine.operators import from_pairs


def instance(redundant, seed):
    """A feasible program by construction: b comes from a random psd matrix, with room
    for the inequalities.
    """
    rng = np.random.default_rng([redundant, seed])
    D, m = int(rng.integers(2, 9)), int(rng.integers(1, 9))
    A = rng.normal(size=(m, D, D))
    A = (A + A.swapaxes(1, 2)) / 2
    if redundant:
        A[-1] = A[0]  # a redundant constraint
    C = rng.normal(size=(D, D))
    F = rng.normal(size=(D, int(rng.integers(1, D + 1))))
    equality = rng.uniform(size=m) < 0.5
    b = np.einsum("mij,ij->m", A, F @ F.T) + np.where(equality, 0, rng.exponential(size=m))
    if redundant:
        equality[-1], b[-1] = equality[0], b[0]
    return (C + C.T) / 2, A, b, 10.0 ** rng.uniform(-1, 1.5), equality


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("redundant", [False, True])
def test_optimum_agrees_with_a_conic_solver(redundant, seed):
    C, A, b, sigma, equality = instance(redundant, seed)
    optimum = semidefinite_optimum(C, A, b, sigma, equality)
    result = solve_frobenius_sdp(C, A, b, sigma, equality=equality, tol=1e-7)
    size = 1 + abs(optimum)
    assert abs(result.certificate.primal - optimum) <= 1e-5 * size
    assert np.all(result.history["dual"] <= optimum + 1e-6 * size)
    assert result.certificate.violation <= 1e-7
    assert np.linalg.eigvalsh(result.X)[0] >= -1e-12
    assert np.all(result.multipliers[~equality] >= 0)


def test_dense_sparse_pairs_and_libraries_agree(asarray):
    rng = np.random.default_rng(0)
    points, pairs = rng.normal(size=(6, 3)), np.array([[0, 1], [1, 2], [3, 4], [0, 5]])
    weights = sparse.csr_array(np.array([[1.0, 0, -0.5, 0], [0, 2.0, 0, 1.0]]))
    d = points[pairs[:, 0]] - points[pairs[:, 1]]
    A = np.einsum("mp,pi,pj->mij", weights.toarray(), d, d)
    C, b = np.diag([1.0, -0.5, 0.2]), np.array([0.3, 1.0])
    given = [
        (asarray(C), asarray(A), asarray(b)),
        (C, [sparse.csr_array(a) for a in A], b),
        (asarray(C), from_pairs(asarray(points), pairs, weights), asarray(b)),
    ]
    results = [
        to_numpy(solve_frobenius_sdp(*arguments, sigma=2.0, tol=1e-9).X) for arguments in given
    ]
    assert_allclose(results[1], results[0], atol=1e-6)
    assert_allclose(results[2], results[0], atol=1e-6)


@pytest.mark.parametrize("sigma", [0.1, 100.0])
def test_infeasible_programs_are_reported(sigma):
    identity, unit = np.eye(3), np.diag([1.0, 0, 0])
    for A, b, equality in (
        ([identity], [-1.0], True),  # a psd matrix of negative trace
        ([identity, -identity], [1.0, -2.0], False),  # trace at most 1 and at least 2
        ([unit, identity, -unit], [1.0, 0.5, -0.9], False),  # one entry above the trace
    ):
        with pytest.warns(ConvergenceWarning, match="infeasible.*drop or relax constraints"):
            result = solve_frobenius_sdp(np.diag([1.0, 2.0, -1.0]), A, b, sigma, equality=equality)
        assert result.certificate.status == "infeasible"
        assert result.n_iter < 2000


ROTATION = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
RAYS = {  # name: (matrices, b, equality); some multiplier proves each infeasible
    "zero below": ([np.zeros((3, 3))], [-1.0], False),
    "zero equals": ([np.zeros((3, 3))], [1.0], True),
    "zero among others": ([np.zeros((3, 3)), np.eye(3)], [-1.0, 1.0], [False, True]),
    "psd below": ([ROTATION @ np.diag([1.0, 0.1, 0.0]) @ ROTATION.T], [-1.0], False),
    "psd equals": ([ROTATION @ np.diag([1.0, 0.1, 0.0]) @ ROTATION.T], [-1.0], True),
    "tiny": ([1e-9 * np.eye(3)], [-1.0], False),
    "sum of two": ([np.diag([1.0, 0, -1.0]), np.diag([0, 1.0, 2.0])], [-2.0, 1.0], False),
}


@pairs_of(ray=RAYS, C=(np.eye(3), np.zeros((3, 3)), -np.eye(3)), sigma=(0.06, 1e3), asarray=True)
def test_a_ray_of_multipliers_ends_the_solve(ray, C, sigma, asarray):
    A, b, equality = RAYS[ray]
    arrays = asarray(C), asarray(np.stack(A)), asarray(np.array(b))
    with pytest.warns(ConvergenceWarning, match="infeasible.*drop or relax constraints"):
        result = solve_frobenius_sdp(*arrays, sigma, equality=equality)
    assert result.certificate.status == "infeasible"
    assert result.n_iter < 200


def chained(D=4):
    """(A, b) that leave only X_DD = 1: X_11 = 0, so X_13 = 0, so X_22 = 2 X_13 = 0, and so on."""
    A = np.zeros((D, D, D))
    A[0, 0, 0] = A[-1, -1, -1] = 1
    for i in range(1, D - 1):
        A[i, i, i] = 1
        A[i, i - 1, i + 1] = A[i, i + 1, i - 1] = -1
    return A, np.append(np.zeros(D - 1), 1.0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [4, 7, 22])
def test_what_missing_singular_constraints_gains_is_not_called_converged(seed):
    """An error of r can gain r^(1/8) here, while the multipliers at hand price it far lower."""
    rng = np.random.default_rng(seed)
    A, b = chained()
    C, sigma = rng.normal(size=(4, 4)), 10.0 ** rng.uniform(-1, 2)
    C = C + C.T
    optimum = C[-1, -1] + 1 / (2 * sigma)
    result = solve_frobenius_sdp(C, A, b, sigma, equality=True, tol=1e-3, max_iter=300)
    certificate = result.certificate
    assert certificate.dual <= optimum + 1e-9 * abs(optimum)
    off = abs(certificate.primal - optimum) / abs(optimum)
    assert certificate.status != "converged" or off <= 1.5e-3


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("sigma", [0.1, 100.0])
def test_bounds_a_psd_matrix_can_meet_are_not_called_infeasible(scale, sigma):
    A = [np.zeros((3, 3)), np.eye(3), np.diag([-1.0, 0, 0])]
    b = scale * np.array([0.0, 1.0, -1.0])  # met by a single matrix: 1 in the first entry
    result = solve_frobenius_sdp(np.eye(3), A, b, sigma, max_iter=200, tol=1e-4)
    assert result.certificate.status != "infeasible"


def test_feasible_programs_with_inactive_start_are_not_called_infeasible():
    result = solve_frobenius_sdp(np.eye(3), [-np.eye(3)], [-1.0], sigma=5.0, tol=1e-8)
    assert result.certificate.status == "converged"
    assert_allclose(result.X, np.eye(3) / 3, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"b": [1.0, 2.0]}, "b has shape"),
        ({"C": np.eye(2)}, "make them agree"),
        ({"C": np.ones((2, 3))}, "square"),
        ({"sigma": 0.0}, "'sigma' parameter.*Got 0.0"),
        ({"sigma": np.inf}, "'sigma' parameter.*Got inf"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"equality": [True, False]}, r"equality has shape \(2,\)"),
        ({"start": [0.0, 0.0]}, r"start has shape \(2,\)"),
        ({"b": [np.nan]}, "finite"),
        ({"A": []}, "A is empty"),
        ({"A": [np.full((3, 3), np.inf)]}, r"A\[0\] contains"),
    ],
)
def test_bad_input_is_named(change, message):
    arguments = {"C": np.eye(3), "A": [np.eye(3)], "b": [1.0], "sigma": 1.0, **change}
    with pytest.raises(ValueError, match=message):
        solve_frobenius_sdp(**arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"equality": "no"}, "equality='no' must be True or False"),
        ({"equality": [2]}, "must be True or False"),
        ({"C": np.eye(3) * 1j}, "C has dtype complex128"),
        ({"A": [np.eye(3) * 1j]}, r"A\[0\] has dtype complex128"),
        ({"b": [1j]}, "b has dtype complex128"),
        ({"C": np.full((3, 3), "1")}, "C has dtype <U1; pass real numbers"),
    ],
)
def test_what_is_no_number_is_refused(change, message):
    arguments = {"C": np.eye(3), "A": [np.eye(3)], "b": [1.0], "sigma": 1.0, **change}
    with pytest.raises((TypeError, ValueError), match=message):
        solve_frobenius_sdp(**arguments)


def test_lists_do():
    lists = solve_frobenius_sdp(
        [[-1, 0], [0, -2]], [[[1, 0], [0, 1]]], [1], 1, equality=[1], start=[0]
    )
    arrays = solve_frobenius_sdp(
        np.diag([-1.0, -2.0]), np.eye(2)[None], np.ones(1), 1.0, equality=True
    )
    assert_allclose(lists.X, arrays.X)


@pytest.mark.parametrize("seed", [11, 21])
def test_the_matrix_of_a_program_in_float32_meets_its_bounds_as_certified(seed):
    """Large terms that cancel: the bounds are 1e-7 of them."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(2, 3, 3))
    A = ((A + A.swapaxes(1, 2)) / 2).astype(np.float32)
    C, b = rng.normal(size=(3, 3)), np.full(2, 0.01)
    result = solve_frobenius_sdp(-100 * C @ C.T, A, b, sigma=100, equality=True, tol=1e-4)
    missed = abs(np.einsum("mij,ij->m", A.astype(np.float64), result.X) - b).max() / b.max()
    assert result.factor.dtype == np.float64
    assert result.certificate.status == "converged" and result.certificate.violation <= 1e-4
    assert missed <= result.certificate.violation + 1e-14 * abs(result.X).max() / b.max()


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_constraints_are_met_but_for_rounding(precision):
    """The ascent meets them only in the limit, and an objective counts only if they are met."""
    rng = np.random.default_rng(0)
    A, X = rng.normal(size=(5, 6, 6)), rng.normal(size=(6, 6))
    A = (A + A.swapaxes(1, 2)).astype(precision)
    b = np.einsum("mij,ij->m", A, X @ X.T)
    equality = np.array([True, True, True, False, False])
    C = rng.normal(size=(6, 6))
    result = solve_frobenius_sdp(C + C.T, A, b, 5.0, equality=equality, tol=1e-3)
    slack = b - np.einsum("mij,ij->m", A.astype(np.float64), result.X)
    rounding = 10 * np.finfo(precision).eps * abs(b).max()  # b has the precision of A
    assert abs(slack[:3]).max() <= rounding
    assert slack[3:].min() >= -rounding
    assert result.certificate.status == "converged"
    assert result.certificate.relative_gap >= -1e-12
