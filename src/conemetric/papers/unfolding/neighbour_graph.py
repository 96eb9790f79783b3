"""The graph of nearest neighbours that `MaximumVarianceUnfolding` keeps, a bound on the variance it
allows, and bases of the functions that are constant or linear along it.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.sparse.linalg import splu

from ...core.sklearn_private import barycenter_weights, fix_connected_components
from ...core.warn import warn_user
from ...neighbours.search import nearest
from ...neighbours.ties import row_keys
from .rigidity import Face, nearly_coincident

SOURCES = 64  # points from which geodesic distances are measured for sigma="auto"
RIDGE = 1e-3  # of the reconstruction weights, relative, scikit-learn's default for LLE
# relative to its mean diagonal: keeps the landmarks' linear system regular where a piece of the
# graph has none. On a Swiss roll, digits, iris and an arc (20 and 60 landmarks) it changes the
# singular values of the reconstruction by 1 % at most, 1e-6 by up to a factor of 7
LANDMARK_RIDGE = 1e-9
# relative size below which a direction is the constant one, which vanishes but for the ridge: it
# reaches 9e-6 on these sets, and no other is below 7e-3
LEAST_SINGULAR = 1e-4


def neighbour_edges(X: np.ndarray, n_neighbors: int) -> tuple[np.ndarray, np.ndarray]:
    """Union of the k-nearest-neighbour relations as pairs (a < b), and their Euclidean lengths.

    A graph in several pieces is joined by the shortest edges between them, with a warning.
    """
    n = len(X)
    order = np.argsort(row_keys(X))  # ties must not depend on the order of rows
    centred = X[order] - X[order].mean(0)  # far from the origin, rounding would hide distances
    neighbour = nearest(centred, None, n_neighbors)[0]
    rows = np.repeat(np.arange(n), n_neighbors)
    graph = sparse.csr_array((np.ones(neighbour.size), (rows, neighbour.ravel())), (n, n))
    n_pieces, piece = connected_components(graph, directed=False)
    if n_pieces > 1:
        warn_user(
            f"The neighbour graph falls into {n_pieces} pieces; they are joined by the shortest "
            "edges between them. Raise n_neighbors to connect them by more."
        )
        graph = fix_connected_components(
            centred, graph.tolil(), n_pieces, piece, mode="connectivity"
        )
    pairs = np.unique(np.sort(order[np.stack(graph.nonzero(), 1)], axis=1), axis=0)
    return pairs, np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)


def variance_bound(edges: np.ndarray, lengths: np.ndarray, n: int) -> float:
    """Estimate of the bound sum_ij g_ij^2 / (2 n) on Tr K, with g the geodesic
    distances, from `SOURCES` evenly spread points.
    """
    edges = edges.astype(np.int32)  # older versions of dijkstra take no other indices
    graph = sparse.csr_array((lengths, edges.T), (n, n))
    sources = np.unique(np.linspace(0, n - 1, min(n, SOURCES)).astype(int))
    geodesic = dijkstra(graph, directed=False, indices=sources)
    bound = 0.5 * n * float((geodesic**2).mean())
    return bound if bound > 0 else 1.0  # all rows coincide: any sigma will do


def coincident_pieces(edges: np.ndarray, lengths: np.ndarray, X: np.ndarray) -> np.ndarray:
    """For each row of X the number of the first with which it coincides: equal rows, and the ends
    of edges so short that their squares are zero.
    """
    _, first, inverse = np.unique(X + 0.0, axis=0, return_index=True, return_inverse=True)
    return joined_pieces(edges[lengths**2 == 0], first[inverse])


def joined_pieces(pairs: np.ndarray, first: np.ndarray) -> np.ndarray:
    """``first``, with the ends of ``pairs`` joined too."""
    n = len(first)
    pairs = np.vstack([pairs, np.column_stack([np.arange(n), first])])
    graph = sparse.csr_array((np.ones(len(pairs)), pairs.T), (n, n))
    _, piece = connected_components(graph, directed=False)
    return np.unique(piece, return_index=True)[1][piece]


def joined_face(
    edges: np.ndarray, lengths: np.ndarray, first: np.ndarray, X: np.ndarray
) -> Face | None:
    """The kernels that join the ends of edges nearly of length zero, beside the rows that coincide
    (``first``); None without such edges. Of parallel edges the shortest implies the others.
    """
    near = nearly_coincident(lengths, X)
    if not near.any():
        return None
    first = joined_pieces(edges[near], first)
    ends = np.sort(first[edges], 1)  # of edges between pieces
    order = np.lexsort((lengths, *ends.T))
    order = order[ends[order, 0] != ends[order, 1]]
    _, shortest = np.unique(ends[order], axis=0, return_index=True)
    outside = np.zeros((len(first), 0))
    return Face(coincidence_basis(first), outside, near * 1.0, order[shortest])


def coincidence_basis(first: np.ndarray) -> np.ndarray:
    """Orthonormal, centred basis (n x points - 1) of the functions that are constant on the rows
    with the same ``first``.
    """
    _, piece, mass = np.unique(first, return_inverse=True, return_counts=True)
    root = mass[:, None] ** 0.5  # the constant function: the first axis, the others are centred
    return (np.linalg.qr(root, mode="complete")[0][:, 1:] / root)[piece]


def landmark_basis(
    X: np.ndarray, landmarks: np.ndarray, n_neighbors: int, first: np.ndarray | None = None
) -> np.ndarray:
    """Orthonormal, centred basis (n x fewer than landmarks) of the functions
    reconstructed from their values at the landmarks; rows with the same ``first`` are one point.

    Every other point is the combination of its neighbours that best reconstructs it;
    those combinations, solved for the landmarks, are the linear map Q of Weinberger,
    Packer & Saul (2005), whose columns are centred and orthonormalised here.
    """
    if first is None:
        first = np.arange(len(X))
    points, piece, mass = np.unique(first, return_inverse=True, return_counts=True)
    Q = _reconstruction(X[points], np.searchsorted(points, landmarks), n_neighbors)
    # a point counts as often as it has rows, so with the root of that in a norm over points
    root = mass[:, None] ** 0.5
    U, singular, _ = np.linalg.svd(root * (Q - mass @ Q / mass.sum()), full_matrices=False)
    return (U[:, singular > LEAST_SINGULAR * singular[0]] / root)[piece]


def _reconstruction(X: np.ndarray, landmarks: np.ndarray, n_neighbors: int) -> np.ndarray:
    """Return the map Q from values at the landmarks to values at all rows of X, which differ."""
    n = len(X)
    n_neighbors = min(n_neighbors, n - 1)
    neighbour = nearest(X, None, n_neighbors)[0]
    weights = barycenter_weights(X, X, neighbour, reg=RIDGE)
    rows = np.repeat(np.arange(n), n_neighbors)
    combined = sparse.csr_array((weights.ravel(), (rows, neighbour.ravel())), (n, n))
    residual = sparse.eye_array(n, format="csr") - combined
    energy = (residual.T @ residual).tocsc()
    others = np.setdiff1d(np.arange(n), landmarks)
    Q = np.zeros((n, len(landmarks)))
    Q[landmarks, np.arange(len(landmarks))] = 1.0
    if len(others):
        # the values at the others that minimise |(I - W) f|^2
        ridge = LANDMARK_RIDGE * energy.trace() / n * sparse.eye_array(len(others), format="csc")
        system = splu(energy[np.ix_(others, others)].tocsc() + ridge)
        Q[others] = -system.solve(energy[np.ix_(others, landmarks)].toarray())
    return Q
