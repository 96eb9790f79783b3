"""Blends are weighted means of matrices, for metrics of any method."""

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import (
    FrobMetric,
    LearnedMetric,
    RelativeComparisons,
    blend,
    load_metric,
    save_metric,
)

X, y = load_wine(return_X_y=True)


def learned(A, **more):
    A = np.asarray(A, float)
    return LearnedMetric(A, np.zeros(len(A)), **more)


def test_the_matrix_is_the_weighted_mean_of_scaled_matrices():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 4)) * [1, 2, 3, 4]
    parts = [learned(rng.normal(size=(rank, 4))) for rank in (1, 2, 4)]
    difference = (rows[:, None] - rows[None]).reshape(-1, 4)
    expected = 0
    for metric, weight in zip(parts, (1, 2, 5), strict=True):
        M = metric.get_mahalanobis_matrix()
        expected += weight / 8 * M / np.einsum("ni,ij,nj->n", difference, M, difference).mean()
    found = blend(parts, [1, 2, 5], X=rows).get_mahalanobis_matrix()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_without_rows_the_mean_eigenvalue_is_the_scale():
    found = blend([learned([[2.0, 0.0]]), learned([[0.0, 30.0]])]).get_mahalanobis_matrix()
    np.testing.assert_allclose(found, np.eye(2), atol=1e-12)


def test_the_units_of_a_metric_do_not_matter():
    A = np.random.default_rng(1).normal(size=(3, 3))
    once, again = (
        blend([learned(scale * A), learned(np.eye(3))], X=A).components for scale in (1, 1e5)
    )
    np.testing.assert_allclose(once, again, atol=1e-12)


def test_pipelines_with_different_preprocessing_meet_in_the_features_they_share(tmp_path):
    parts = [
        make_pipeline(StandardScaler(), FrobMetric(tol=0.1)).fit(X, y),
        make_pipeline(StandardScaler(), PCA(5), LinearDiscriminantAnalysis()).fit(X, y),
        NeighborhoodComponentsAnalysis(n_components=3, max_iter=3, random_state=0).fit(X, y),
    ]
    metric = blend(parts, X=X)
    pairs = np.stack([X[:-1], X[1:]], axis=1)
    squared = 0
    for part in parts:
        Z = part.transform(X)
        scale = 2 * Z.var(axis=0).sum()
        squared += (np.diff(Z, axis=0) ** 2).sum(axis=1) / scale / 3
    np.testing.assert_allclose(metric.pair_distance(pairs) ** 2, squared, rtol=1e-8)
    save_metric(tmp_path / "blend.safetensors", metric)
    again = load_metric(tmp_path / "blend.safetensors")
    np.testing.assert_array_equal(again.components, metric.components)
    assert again.method == (
        "blend of FrobMetric, LinearDiscriminantAnalysis, NeighborhoodComponentsAnalysis"
    )


@pytest.mark.parametrize(
    ("metrics", "arguments", "error", "message"),
    [
        ([], {}, ValueError, "metrics is empty"),
        ([np.eye(2), np.eye(3)], {}, ValueError, r"\[2, 3\] features"),
        (
            [np.eye(2)],
            {"weights": [1, 2]},
            ValueError,
            r"weights has shape \(2,\); .*one number for each of the 1 metrics",
        ),
        ([np.eye(2)], {"weights": [-1]}, ValueError, "weights holds -1.0"),
        ([np.eye(2)], {"weights": [0]}, ValueError, "weights is zero for all 1 metrics"),
        ([np.eye(2)], {"X": np.eye(3)}, ValueError, "X has 3 features"),
        ([np.zeros((1, 2))], {}, ValueError, "is zero, so it has no scale"),
        ([[[1.0, 0.0]]], {"X": [[0, 1], [0, 2]]}, ValueError, "zero between all rows of X"),
    ],
)
def test_what_cannot_be_blended(metrics, arguments, error, message):
    with pytest.raises(error, match=message):
        blend([learned(A) for A in metrics], **arguments)


def test_other_estimators_are_refused():
    with pytest.raises(TypeError, match="StandardScaler, which is not a metric"):
        blend([StandardScaler().fit(X)])
    rows = StandardScaler().fit_transform(X)[::6]
    kernel = RelativeComparisons(basis=rbf_kernel, tol=0.1).fit(rows, y[::6])
    with pytest.raises((TypeError, ValueError, AttributeError), match="kernel"):
        blend([kernel])


def test_names_of_features_agree_or_are_refused():
    named = learned(np.eye(2), feature_names=["a", "b"])
    assert blend([learned(np.eye(2)), named]).feature_names == ["a", "b"]
    with pytest.raises(ValueError, match="name their features differently"):
        blend([named, learned(np.eye(2), feature_names=["b", "a"])])
