"""The face of the feasible kernels: its proof, and that it holds the optimum of a conic solver."""

import numpy as np
import pytest

from conemetric.papers.unfolding.edges import EdgeOperator
from conemetric.papers.unfolding.rigidity import clique_stress, independent, rigid_face


def all_pairs(n, *left_out):
    return np.array([(i, j) for i in range(n) for j in range(i + 1, n) if (i, j) not in left_out])


def laplacian(edges, weights, n):
    return EdgeOperator(edges, n, np.zeros(1)).adjoint(weights)


def two_hinged_squares():
    """Two flat cliques of four points in space that share an edge, as a hinge."""
    X = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0.0, 0, 1], [0, 1, 1]])
    far = [(i, j) for i in (2, 3) for j in (4, 5)]
    return X, all_pairs(6, *far)


def test_a_stress_is_a_psd_laplacian_of_no_value():
    X, edges = two_hinged_squares()
    w = clique_stress(edges, X)
    stress = laplacian(edges, w, len(X))
    squared = ((X[edges[:, 0]] - X[edges[:, 1]]) ** 2).sum(1)
    assert np.linalg.eigvalsh(stress)[0] >= -1e-12
    assert np.trace(stress) > 1
    np.testing.assert_allclose(stress @ X, 0, atol=1e-12)
    assert abs(squared @ w) <= 1e-12


def test_hinged_squares_keep_one_freedom():
    """Every kernel of the hinge, at any angle, is on the face."""
    X, edges = two_hinged_squares()
    face = rigid_face(edges, X)
    assert face.basis.shape == (6, 3)
    np.testing.assert_allclose(face.basis.T @ face.basis, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(face.basis.sum(0), 0, atol=1e-12)
    for angle in (0.0, 0.4, 2.0):
        folded = X.copy()
        folded[4:, [0, 2]] = [-np.cos(angle), np.sin(angle)]
        centred = folded - folded.mean(0)
        np.testing.assert_allclose(face.basis @ (face.basis.T @ centred), centred, atol=1e-12)
    # six numbers in Z, five of which the edges know
    assert len(face.kept) == 5


def test_complete_graphs_determine_everything():
    X = np.random.default_rng(0).normal(size=(9, 2))
    face = rigid_face(all_pairs(9), X)
    assert face.basis.shape == (9, 2) and len(face.kept) == 3


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("near", [1e-3, 1e-6, 1e-7, 1e-9])
@pytest.mark.parametrize("shift", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("dimension", [1, 2])
def test_a_face_holds_the_rows_it_was_made_from(dimension, shift, near, seed):
    X = np.random.default_rng(seed).random((8, dimension)) + shift
    X = np.vstack([X, X[5] + near])
    face = rigid_face(all_pairs(9, (0, 8), (1, 7)), X)
    centred = X - X[0]
    centred = centred - centred.mean(0)
    held = face.basis @ (face.basis.T @ centred)
    np.testing.assert_allclose(held, centred, atol=1e-8 if near > 1e-6 else near)
    np.testing.assert_allclose(face.basis.T @ face.outside, 0, atol=1e-4)


def test_loose_graphs_have_no_face():
    X = np.random.default_rng(0).normal(size=(9, 5))
    assert rigid_face(np.array([(i, i + 1) for i in range(8)]), X) is None


def test_coincident_points_are_one_point():
    X = np.random.default_rng(0).normal(size=(5, 4))[[0, 1, 2, 3, 4, 4]]
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    face = rigid_face(edges, X)
    np.testing.assert_allclose(face.basis[4], face.basis[5], atol=1e-12)
    assert face.basis.shape == (6, 4)
    assert len(face.stress) == 4 and face.kept.max() <= 3


@pytest.mark.parametrize(("m", "r"), [(30, 3), (10, 6)])
def test_kept_constraints_imply_the_others(m, r):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(m, r))
    rows[-1] = 2 * rows[0]
    kept = independent(rows)
    assert len(kept) == min(m - 1, r * (r + 1) // 2)
    products = np.einsum("mi,mj->mij", rows, rows).reshape(m, -1)
    assert np.linalg.matrix_rank(products[kept]) == np.linalg.matrix_rank(products) == len(kept)
