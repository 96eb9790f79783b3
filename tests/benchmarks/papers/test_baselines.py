import numpy as np

from benchmarks.papers.baselines import WHITENING, SimilarPairsWhitening
from conemetric import DMLEig


def labelled():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 60)
    return rng.normal(size=(60, 4)) * [1, 10, 0.1, 3] + y[:, None], y


def test_whitening_is_the_inverse_of_the_scatter_that_dml_eig_has():
    X, y = labelled()
    components = SimilarPairsWhitening().fit(X, y).components_
    scatter = DMLEig(tol=0.1).fit(X, y).similar_scatter_
    np.testing.assert_allclose(components.T @ components @ scatter, np.eye(4), atol=1e-8)


def test_whitening_from_pairs_makes_their_scatter_the_identity():
    X, _ = labelled()
    pairs = np.random.default_rng(1).integers(0, 60, (40, 2))
    similar = np.arange(40) < 25
    Z = WHITENING.make().fit(X, pairs=pairs, similar=similar).transform(X)
    d = (Z[pairs[:, 0]] - Z[pairs[:, 1]])[similar]
    np.testing.assert_allclose(d.T @ d, np.eye(4), atol=1e-6)
