"""The experiments' own pieces, and each protocol run small with stand-in data and methods."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from benchmarks.data import Dataset
from benchmarks.papers import (
    embeddings,
    faces,
    fastqp,
    isometry,
    knn_tables,
    measurements,
    mixed,
    regression,
    toys,
    unfolding,
)
from benchmarks.papers.tables import EXPERIMENTS
from benchmarks.registry import REGISTRY
from conemetric import FrobMetric


def face_data():
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(40), 4)
    latent = np.repeat(rng.normal(size=(40, 4)), 4, axis=0) + 0.1 * rng.normal(size=(160, 4))
    X = latent @ rng.normal(size=(4, 62 * 47))
    same = [(4 * p + i, 4 * p + j) for p in range(40) for i, j in ((0, 1), (2, 3))]
    different = [
        (4 * p + i, 4 * ((p // 4) * 4 + (p + 1) % 4) + i) for p in range(40) for i in (0, 1)
    ]
    fold = np.array([a // 16 for a, _ in same + different])
    extras = {"pairs": np.array(same + different), "same": np.repeat([1, 0], 80), "fold": fold}
    return Dataset("lfw_view2_62x47", X, people, None, extras)


FACE_ROWS = [
    (faces.FROBMETRIC_TABLE2, "Euclidean"),
    (faces.FROBMETRIC_TABLE2, "Euclidean, Mk-NN"),
    (faces.FROBMETRIC_TABLE2, "FrobMetric"),
    (faces.DML_EIG_TABLE6, "whitening, restricted"),
    (faces.DML_EIG_TABLE6, "DML-eig, restricted"),
]


@pytest.mark.parametrize(("table", "method"), FACE_ROWS)
def test_face_verification_tells_people_apart(monkeypatch, table, method):
    monkeypatch.setattr(faces, "load", lambda name, dtype: face_data())
    faces._features.cache_clear()
    record = table.measure("lfw_view2_62x47:pixels-4", method, 3)
    faces._features.cache_clear()
    assert record["value"] > 80
    assert len(record["curve"][0]) == len(record["curve"][1]) == 51


def test_every_face_column_names_known_features(monkeypatch):
    monkeypatch.setattr(faces, "load", lambda name, dtype: face_data())
    sizes = {"pixels": 62 * 47, "lbp": 35 * 59, "hog": 24 * 36}
    for column in faces.COLUMNS:
        kind = column.partition(":")[2].partition("-")[0]
        faces._features.cache_clear()
        X = faces._features("lfw_view2_62x47", kind)[0]
        assert X.shape == (160, sizes[kind]) and np.isfinite(X).all()
    faces._features.cache_clear()


def test_circles_lie_in_the_first_two_dimensions():
    X, y = toys.concentric_circles(400)
    radius = np.hypot(X[:, 0], X[:, 1])
    assert radius[y == 0].max() < radius[y == 1].min() + 0.5
    assert np.abs(radius - 1 - y).mean() < 0.2
    assert toys.BOOSTMETRIC_TOY.measure("circles", "FrobMetric", 0)["value"] > 50
    assert toys.BOOSTMETRIC_TOY.measure("circles", "PCA", 0)["value"] < 20


def test_labelled_triplets_agree_with_the_labels():
    y = np.array([0, 0, 1, 1, 2, 2, 2])
    i, j, k = fastqp.labelled_triplets(y, 50, 0).T
    assert (y[i] == y[j]).all() and (y[i] != y[k]).all() and (i != j).all()


def test_sampled_pairs_are_distinct():
    pairs = isometry.sampled_pairs(10, 45, 0)
    assert len({tuple(pair) for pair in pairs.tolist()}) == 45 and (pairs[:, 0] < pairs[:, 1]).all()


def test_pca_rank_is_the_smallest_that_keeps_the_distances():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * np.array([5, 4, 3, 1, 0.1, 0.01])
    pairs = isometry.sampled_pairs(60, 500, 0)
    rank = isometry.pca_rank(X, pairs, 0.3)

    def constant(r):
        """Isometry constant of r components at their best scale."""
        Z = PCA(r).fit_transform(X)
        ratio = ((Z[pairs[:, 0]] - Z[pairs[:, 1]]) ** 2).sum(1) / (
            (X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2
        ).sum(1)
        return (ratio.max() - ratio.min()) / (ratio.max() + ratio.min())

    assert constant(rank) <= 0.3 < constant(rank - 1)


def test_knn_table_measures_errors_with_the_chosen_parameters():
    record = knn_tables.FROBMETRIC_TABLE1.measure("iris", "FrobMetric", 1)
    assert (
        0 <= record["value"] < 15
        and set(record["parameters"]) == {"C"}
        and record["relative_gap"] <= 1e-2
    )
    assert record["validation"] is not None
    assert knn_tables.DML_EIG_TABLE4.measure("wine", "Euclidean", 0)["validation"] is None


def test_lmnn_eig_is_tuned_inside_the_training_part():
    record = knn_tables.DML_EIG_TABLE4.measure("iris", "LMNN-eig", 0)
    assert record["parameters"]["gamma"] in (0.1, 0.5, 0.9) and record["validation"] is None


def test_runs_of_a_table_see_different_splits():
    first, second = (
        knn_tables.FROBMETRIC_TABLE1.split("iris", np.zeros(150), run) for run in (0, 1)
    )
    assert not np.array_equal(first.test, second.test)
    fixed = knn_tables.FROBMETRIC_TABLE1.split("letter", np.zeros(20000), 0)
    assert [len(part) for part in (fixed.train, fixed.validation, fixed.test)] == [
        10500,
        4500,
        5000,
    ]


def test_embeddings_judge_one_fit_in_every_column(monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    X = rng.normal(size=(200, 6)) + 2 * np.eye(6)[y]
    monkeypatch.setattr(embeddings, "load", lambda name: Dataset(name, X, y, 150))
    embeddings._fitted.cache_clear()
    values = {
        column.partition(":")[2]: embeddings.EMBEDDINGS.measure(column, "FrobMetric", 0)["value"]
        for column in embeddings.EMBEDDINGS.columns
    }
    embeddings._fitted.cache_clear()
    metric = FrobMetric().fit(X[:150], y[:150])
    assert values["1-NN"] == pytest.approx(
        100 * embeddings.knn_error(metric, X[:150], y[:150], X[150:], y[150:], 1)
    )
    assert values["miss@10"] <= values["1-NN"]


def test_unfolding_records_time_and_quality():
    record = unfolding.MVU_TIMES.measure("swiss_roll", "Isomap", 0)
    assert record["value"] > 0 and record["trustworthiness"] > 0.9


@pytest.mark.parametrize(
    ("method", "kept", "consistent"),
    [("Isomap", 0.725, 0.782), ("LLE", 0.673, 0.982), ("PCA", 0.817, 0.925)],
)
def test_unfoldings_are_judged_as_on_the_page(method, kept, consistent):
    values = {
        column.partition(":")[2]: unfolding.MVU_SIGMA.measure(column, method, 0)["value"]
        for column in unfolding.MVU_SIGMA.columns
    }
    assert (values["Q_nx"], values["ALCD"]) == pytest.approx((kept, consistent), abs=2e-3)
    assert 0 < values["ALSTD"] < values["ALED"] and values["ALSTD"] < values["GSCD"]


def test_measurements_of_synthetic_images():
    pursuit, best = (
        measurements.NUMAX_FIGURE11.measure("blob:10 at 20 dB", f"random projection{how}", 0)[
            "value"
        ]
        for how in ("", ", best match")
    )
    assert 0 < best < pursuit < 100
    shapes = measurements.NUMAX_FIGURE12.measure("disk or square:20", "PCA", 0)
    assert shapes["value"] < 40
    assert isometry.NUMAX_RANK.measure("squares:0.4", "PCA", 0)["value"] > 5


def test_cells_share_an_embedding_unless_it_is_drawn_anew():
    begun = measurements.learned.cache_info().misses
    for method in ("PCA", "random projection"):
        for run in range(2):
            measurements.NUMAX_FIGURE12.measure("disk or square:3", method, run)
    assert measurements.learned.cache_info().misses - begun == 3


def test_columns_are_known_data_sets_or_synthetic():
    known = {"circles", "squares", "swiss_roll", "blob", "disk or square", *REGISTRY}
    known |= {"diabetes", *regression.SETS}
    known |= {f"{kind}_{name}" for kind, names in mixed.NAMES.items() for name in names.split()}
    for experiment in EXPERIMENTS.values():
        for column in experiment.columns:
            source = column.partition(":")[0]
            assert source in known or source.startswith("D=")
