"""The face of the cone that every kernel with given distances along a graph lies on.

Cliques of points that span fewer dimensions than their size allows (four points in a plane, three on a
line) are rigid, and give weights w of edges with A*(w) psd and b'w = 0: every feasible kernel is U Z U',
U a basis of the null space of A*(w) (docs/mathematics; facial reduction, Krislock & Wolkowicz 2010).
The ends of an edge far shorter than the others count as a flat clique too: b'w is then next to nothing.

A graph can be more rigid than its cliques. Then no kernel on this face is definite either,
multipliers grow until rounding hides the bound, and the program over all kernels is the better one.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, qr

FLAT = 1e-8  # relative singular value below which a clique is flat: distances lose its square
NULL = 1e-10  # relative eigenvalue of A*(w) up to which a direction is not ruled out
# length of an edge whose ends count as one point, relative to the median length and to the extent of
# the rows, of whose square it is then less than double precision can tell
COINCIDENT_RTOL = 1e-6
COINCIDENT_EXTENT = 1e-8
INDEPENDENT = 1e-10  # relative pivot below which a constraint follows from those before it


class Face(NamedTuple):
    """Where all feasible kernels lie, K = U Z U', and which edges are independent there."""

    basis: np.ndarray  # U (n, r), orthonormal and centred
    # V / sqrt(lambda), the other eigenvectors of A*(w) over their eigenvalues' roots
    outside: np.ndarray
    stress: np.ndarray  # w, one weight per edge
    kept: np.ndarray  # numbers of edges that determine Z


def rigid_face(edges: np.ndarray, X: np.ndarray) -> Face | None:
    """The `Face` of the distances between the rows of X along ``edges`` (a < b); None if no clique
    is flat. Edges of length zero contribute to it but are not numbered.
    """
    lengths = np.linalg.norm(X[edges[:, 0]] - X[edges[:, 1]], axis=1)
    apart = lengths > 0
    stress = clique_stress(edges, X) + (nearly_coincident(lengths, X) & apart)
    if not stress.any():
        return None
    basis, outside = null_basis(edges, stress, len(X))
    a, b = edges[apart].T
    return Face(basis, outside, stress[apart], independent(basis[a] - basis[b]))


def nearly_coincident(lengths: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Which edges between rows of X are so short that their ends count as one point."""
    extent = float((X.max(0) - X.min(0)).max())
    median = np.median(lengths[lengths > 0])
    return lengths <= max(COINCIDENT_RTOL * median, COINCIDENT_EXTENT * extent)


def independent(rows: np.ndarray) -> np.ndarray:
    """Numbers of constraints a_e'Z a_e (``rows`` = a_e) that all others follow from."""
    m, r = rows.shape
    if r * (r + 1) // 2 < m:
        # each constraint as a vector of r (r + 1) / 2 entries, whose products are (a_e'a_f)^2
        i, j = np.triu_indices(r)
        products = rows[:, i] * rows[:, j] * np.where(i == j, 1.0, 2**0.5)
        triangle, order = qr(products.T, mode="r", pivoting=True)
        # squared, the pivots of the Gram matrix below: one tolerance serves both
        pivots = abs(np.diagonal(triangle)) ** 2
        rank = int((pivots > INDEPENDENT * pivots[0]).sum())
        return np.sort(order[:rank])
    gram = (rows @ rows.T) ** 2
    # a Cholesky decomposition with pivoting, which numbers from 1
    _, order, rank, _ = lapack.dpstrf(gram, tol=INDEPENDENT * gram.diagonal().max())
    return np.sort(order[:rank] - 1)


def clique_stress(edges: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Edge weights w with Lap(w) psd, Lap(w) X = 0: projections of a clique around each edge."""
    number = {(int(a), int(b)): e for e, (a, b) in enumerate(edges)}
    neighbours: list[set[int]] = [set() for _ in X]
    for a, b in number:
        neighbours[a].add(b)
        neighbours[b].add(a)
    stress = np.zeros(len(edges))
    for clique in {_clique_around(a, b, neighbours) for a, b in number}:
        points = X[list(clique)] - X[clique[0]]  # exact at any distance from the origin
        U, singular, _ = np.linalg.svd(points - points.mean(0), full_matrices=False)
        inside = U[:, singular > FLAT * singular[0]]
        if inside.shape[1] == len(clique) - 1:
            continue
        # I - 1 1'/k - U U' is psd, zero on X, and the Laplacian with these weights
        projection = 1 / len(clique) + inside @ inside.T
        for i, a in enumerate(clique):
            for j in range(i + 1, len(clique)):
                stress[number[a, clique[j]]] += projection[i, j]
    return stress


def _clique_around(a: int, b: int, neighbours: list[set[int]]) -> tuple[int, ...]:
    """A maximal clique that contains a and b, as a sorted tuple: common neighbours in turn."""
    clique = {a, b}
    candidates = neighbours[a] & neighbours[b]
    while candidates:
        c = max(candidates, key=lambda point: (len(candidates & neighbours[point]), -point))
        clique.add(c)
        candidates = candidates & neighbours[c]
    return tuple(sorted(clique))


def null_basis(edges: np.ndarray, stress: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Centred null space of Lap(stress), orthonormal; and the other eigenvectors / sqrt(value)."""
    laplacian = np.zeros((n, n))
    a, b = edges.T
    laplacian[a, b] = laplacian[b, a] = -stress
    laplacian[np.arange(n), np.arange(n)] = -laplacian.sum(1)
    lifted = laplacian + np.trace(laplacian) / n**2  # the constant vector leaves the null space
    values, vectors = np.linalg.eigh(lifted)
    inside = values <= NULL * values[-1]
    return vectors[:, inside], vectors[:, ~inside] / values[~inside] ** 0.5
