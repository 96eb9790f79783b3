"""Estimators on dask collections: the same programs as in memory, whatever the partitions."""

import warnings
from functools import lru_cache

import numpy as np
import pytest
from cases import first_of, pairs_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    NuMax,
    QueryAdapter,
    RelativeComparisons,
    RelevanceMetric,
    frobmetric_path,
)
from conemetric.blocks import Threads

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

ESTIMATORS = {
    "FrobMetric": FrobMetric(tol=1e-7),
    "FrobMetric, logistic": FrobMetric(loss="logistic", tol=1e-7),
    "LMNNEig": LMNNEig(tol=1e-7),
    "DMLEig": DMLEig(tol=1e-7),
    "BoostMetric": BoostMetric(max_iter=40),
    "BoostMetric, stage-wise": BoostMetric(
        solver="stagewise", loss="exponential", v=1e-7, max_iter=40
    ),
}


def made(name, **parameters):
    """One of the estimators, with a tight tolerance unless boosting ends by its count."""
    return clone(ESTIMATORS[name]).set_params(**parameters)


def labelled(seed, n=120, D=4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return (rng.normal(size=(n, D)) + 0.7 * y[:, None]).astype(dtype), y


def random_chunks(seed, n):
    """Sizes of one to seven partitions, some of them empty, some tiny."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, n + 1, rng.integers(0, 7)))
    return tuple(np.diff([0, *cuts, n]).tolist())


def partitioned(array, sizes):
    return da.from_array(array, chunks=(sizes, *array.shape[1:]))


def fit(estimator, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits of boosting
        return estimator.fit(*args, **kwargs)


@lru_cache
def in_memory(name, corrective, seed):
    """Estimator, rows, labels and the certificate of the fit in memory, once for all blocks."""
    X, y = labelled(seed, n=60, D=3)
    estimator = made(name, tol=1e-6, max_iter=300) if corrective else made(name)
    return estimator, X, y, fit(estimator, X, y).certificate_


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.costly
def test_the_certified_objective_is_that_of_the_fit_in_memory(name, seed):
    corrective = name == "BoostMetric"
    estimator, X, y, expected = in_memory(name, corrective, seed)
    sizes = random_chunks(seed, len(y))
    with Threads(workers=2):
        metric = fit(estimator, partitioned(X, sizes), partitioned(y, sizes))
    # two answers of corrective boosting differ by no more than the larger gap
    gaps = (expected.relative_gap, metric.certificate_.relative_gap) if corrective else ()
    assert metric.certificate_.primal == pytest.approx(expected.primal, rel=max(1e-6, *gaps, 0.0))
    assert metric.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.costly
def test_the_same_bits_on_any_number_of_workers_and_from_files(name):
    X, y = labelled(0, n=24, dtype=np.float32)
    sizes, found = (8, 0, 3, 6, 7), []
    estimator = made(name, tol=1e-2, max_iter=3)
    for workers, limit in ((1, None), (2, 1_000), (5, 0)):
        with Threads(workers=workers, memory_limit=limit):
            metric = fit(estimator, partitioned(X, sizes), partitioned(y, sizes))
        found.append((metric.components_.tobytes(), metric.certificate_))
    assert found[0] == found[1] == found[2]
    assert metric.components_.dtype == np.float32


@pytest.mark.parametrize("n_impostors", [3, "auto"])
@pytest.mark.parametrize("name", ["FrobMetric", "LMNNEig", "DMLEig", "BoostMetric"])
@pytest.mark.costly
def test_references_are_the_same_rows_in_memory_and_in_blocks(name, n_impostors):
    X, y = labelled(1, n=90)
    y[:3] = 3  # a class with too few references of its own
    y[60:] %= 3
    sizes = random_chunks(3, len(y))
    estimator = made(name, n_references=30, n_impostors=n_impostors, random_state=5, tol=1e-3)
    with pytest.warns(UserWarning, match="1 of 4 classes have 3 or fewer rows"):
        expected = fit(estimator, X, y).certificate_.primal
        metric = fit(estimator, partitioned(X, sizes), partitioned(y, sizes))
    # other rows would change it by percents
    assert metric.certificate_.primal == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("name", ["FrobMetric", "DMLEig"])
def test_references_at_the_same_distance_are_taken_alike_in_memory_and_in_blocks(name):
    """Whole numbers, of which the sample has another range than all rows."""
    rng = np.random.default_rng(4)
    X, y = rng.integers(0, 4, (120, 3)).astype(float), rng.integers(0, 2, 120)
    X[::40] += 100
    sizes = (50, 0, 70)
    estimator = made(name, n_references=20, random_state=5, tol=1e-8)
    expected = fit(estimator, X, y).certificate_.primal
    metric = fit(estimator, partitioned(X, sizes), partitioned(y, sizes))
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n_references", [None, 30])
@pytest.mark.parametrize("name", ["FrobMetric", "DMLEig"])
@pytest.mark.costly
def test_rows_without_a_label_are_left_out(name, n_references):
    X, y = labelled(16, n=90)
    y[::4] = -1
    y[20:30] = -1
    sizes = (20, 10, 30, 30)  # one partition has no label at all
    estimator = made(name, n_references=n_references, random_state=5)
    with pytest.warns(UserWarning, match="of 90 rows have the label -1"):
        expected = fit(estimator, X, y).certificate_.primal
    with pytest.warns(UserWarning, match="of 90 rows have the label -1"):
        metric = fit(estimator, partitioned(X, sizes), partitioned(y, sizes))
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)


def random_triplets(seed, X, m):
    """Of random rows, mostly with the nearer one first."""
    rng = np.random.default_rng(seed)
    triplets = np.array([rng.choice(len(X), 3, replace=False) for _ in range(m)])
    return triplets[np.arange(m)[:, None], [ordered(X[row], rng) for row in triplets]]


def ordered(points, rng):
    near, far = (np.linalg.norm(points[0] - points[k]) for k in (1, 2))
    return [0, 1, 2] if (near < far) == (rng.uniform() < 0.9) else [0, 2, 1]


@pytest.mark.parametrize("lazy", [False, True], ids=["array", "dask array"])
@pytest.mark.parametrize("name", ["FrobMetric", "LMNNEig", "BoostMetric"])
@pytest.mark.costly
def test_triplets_of_row_numbers(name, lazy):
    X, _ = labelled(2)
    triplets, estimator = random_triplets(3, X, 90), made(name)
    expected = fit(estimator, X, triplets=triplets).certificate_.primal
    given = da.from_array(triplets, chunks=((40, 0, 50), 3)) if lazy else triplets
    metric = fit(estimator, partitioned(X, (20, 70, 30)), triplets=given)
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)


def test_pairs_of_row_numbers():
    X, _ = labelled(4)
    pairs = random_triplets(5, X, 80)[:, :2]
    similar = np.random.default_rng(6).uniform(size=80) < 0.5
    estimator = made("DMLEig")
    expected = fit(estimator, X, pairs=pairs, similar=similar).certificate_.primal
    metric = fit(estimator, partitioned(X, (60, 60)), pairs=pairs, similar=similar)
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["FrobMetric", "LMNNEig", "BoostMetric"])
@pytest.mark.parametrize("width", [3, 4])
@pytest.mark.costly
def test_tuples_of_points(name, width):
    rng = np.random.default_rng(7)
    points = rng.normal(size=(70, 3, 3))
    tuples = np.array([part[ordered(part, rng)] for part in points])
    tuples = tuples if width == 3 else tuples[:, [0, 1, 0, 2]]
    estimator = made(name)
    expected = fit(estimator, tuples).certificate_.primal
    metric = fit(estimator, da.from_array(tuples, chunks=((30, 39, 1), width, 3)))
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)


def test_pairs_of_points():
    rng = np.random.default_rng(8)
    pairs, y = rng.normal(size=(60, 2, 3)), rng.choice([-1, 1], 60)
    expected = DMLEig(tol=1e-7).fit(pairs, y).certificate_.primal
    metric = DMLEig(tol=1e-7).fit(da.from_array(pairs, chunks=((25, 35), 2, 3)), y)
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("prior", [None, "identity"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.costly
def test_weights_and_priors(prior, loss):
    estimator = made("FrobMetric", prior=prior, loss=loss)
    assert_weighed_alike(estimator)


WEIGHED = {
    "LMNNEig": LMNNEig(tol=1e-7),
    "DMLEig": DMLEig(tol=1e-7),
    "BoostMetric": BoostMetric(solver="stagewise", loss="exponential", v=1e-7, max_iter=15),
    "BoostMetric, logistic": BoostMetric(solver="stagewise", v=1.0, max_iter=15),
}


@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.costly
def test_weights_of_the_other_estimators(name):
    assert_weighed_alike(clone(WEIGHED[name]))


def assert_weighed_alike(estimator):
    """Weights of rows, some of them zero, and of constraints."""
    X, y = labelled(17, n=60)
    rng, sizes = np.random.default_rng(17), (25, 35)
    weights = rng.integers(0, 4, len(y)) * rng.uniform(size=len(y))
    expected = fit(estimator, X, y, sample_weight=weights).certificate_.primal
    metric = fit(estimator, partitioned(X, sizes), partitioned(y, sizes), sample_weight=weights)
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)
    given = {"triplets": random_triplets(3, X, 60)}
    if isinstance(estimator, DMLEig):
        given = {"pairs": given["triplets"][:, :2], "similar": rng.uniform(size=60) < 0.5}
    expected = fit(estimator, X, **given, sample_weight=weights).certificate_.primal
    metric = fit(estimator, partitioned(X, sizes), **given, sample_weight=weights)
    assert metric.certificate_.primal == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "class_weight"),
    [
        ("FrobMetric", "balanced"),
        ("FrobMetric", {0: 0.0, 2: 3.0}),
        *((name, {1: 2.5}) for name in WEIGHED),
    ],
)
@pytest.mark.costly
def test_class_weights(name, class_weight):
    X, y = labelled(18, n=60)
    sizes, weights = (25, 0, 35), np.random.default_rng(18).uniform(size=len(y))
    y[20:30] = -1
    estimator = clone(made("FrobMetric") if name == "FrobMetric" else WEIGHED[name])
    estimator.set_params(class_weight=class_weight, tol=1e-3)
    for given in ({}, {"sample_weight": weights}):
        expected = fit(estimator, X, y, **given).certificate_.primal
        metric = fit(estimator, partitioned(X, sizes), partitioned(y, sizes), **given)
        # other weights would change it by percents
        assert metric.certificate_.primal == pytest.approx(expected, rel=2e-3)


def test_columns_of_a_parquet_file_are_read_alike(tmp_path):
    """Left alone, dask would join the partitions of the label, which is small."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frames = pytest.importorskip("dask.dataframe")
    X, y = labelled(18)
    table = pandas.DataFrame(X, columns=list("abcd")).assign(label=y)
    for part in range(4):
        table[30 * part : 30 * part + 30].to_parquet(tmp_path / f"part-{part}.parquet")
    read = frames.read_parquet(tmp_path)
    metric = FrobMetric(tol=1e-7).fit(read[list("abcd")], read["label"])
    expected = FrobMetric(tol=1e-7).fit(X, y)
    assert metric.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-6)


def test_coinciding_dissimilar_pairs_are_told():
    X, y = labelled(9, n=60)
    X[:4], y[:4] = X[0], [0, 1, 0, 1]
    sizes = (30, 30)
    with pytest.warns(UserWarning, match="dissimilar pairs join coinciding points"):
        expected = DMLEig().fit(X, y)
    with pytest.warns(UserWarning, match="dissimilar pairs join coinciding points"):
        metric = DMLEig().fit(partitioned(X, sizes), partitioned(y, sizes))
    assert metric.objective_ == expected.objective_ == 0
    with pytest.raises(ValueError, match="all 4 dissimilar pairs join coinciding points"):
        DMLEig().fit(
            partitioned(X, sizes),
            pairs=[[0, 1], [1, 2], [2, 3], [0, 3], [0, 9]],
            similar=[0, 0, 0, 0, 1],
        )


def test_a_path_of_C():
    X, y = labelled(10)
    sizes, Cs = (50, 70), [0.1, 1.0]
    expected = frobmetric_path(X, y, Cs=Cs, tol=1e-7)
    path = frobmetric_path(partitioned(X, sizes), partitioned(y, sizes), Cs=Cs, tol=1e-7)
    for one, other in zip(path, expected, strict=True):
        assert one.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-6)


def test_dataframes_and_labels_that_are_words():
    pandas = pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    X, y = labelled(11)
    words = np.array(["apple", "pear", "quince"])[y]
    table = pandas.DataFrame(X, columns=list("abcd")).assign(fruit=words)
    whole = frames.from_pandas(table, npartitions=4)
    metric = FrobMetric(tol=1e-7).fit(whole[list("abcd")], whole["fruit"])
    expected = FrobMetric(tol=1e-7).fit(table[list("abcd")], words)
    assert metric.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=1e-6)
    assert list(metric.feature_names_in_) == list("abcd")
    mapped = metric.transform(whole[list("abcd")])
    assert_allclose(mapped.compute(), metric.transform(table[list("abcd")]))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_transform_is_lazy(name):
    X, y = labelled(12)
    metric = fit(made(name, tol=0.1, max_iter=5), X, y)
    seen = []

    def block(info):
        seen.append(info)
        return X[:60] if info[0] == 0 else X[60:]

    lazy = da.concatenate(
        [
            da.from_delayed(dask.delayed(block)((k,)), (60, X.shape[1]), dtype=X.dtype)
            for k in range(2)
        ]
    )
    mapped = metric.transform(lazy)
    assert not seen
    assert mapped.shape == (len(X), len(metric.components_))
    assert_array_equal(
        mapped.compute(), np.vstack([metric.transform(X[:60]), metric.transform(X[60:])])
    )


# so that a state is kept before the fit is over
LONGER = {"FrobMetric": {"C": 100.0}, "FrobMetric, logistic": {"C": 1e4}}


@first_of("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - {"BoostMetric"}))
@pytest.mark.costly
def test_a_checkpoint_is_gone_on_from_with_the_same_bits(name, dtype, tmp_path):
    X, y = labelled(13, n=80, dtype=dtype)
    sizes = (30, 50)
    parts = partitioned(X, sizes), partitioned(y, sizes)
    whole = fit(made(name, tol=0.0, max_iter=28, **LONGER.get(name, {})), *parts)
    first = made(name, tol=0.0, max_iter=22, **LONGER.get(name, {}))
    fit(first, *parts, checkpoint=str(tmp_path))
    later = made(name, tol=0.0, max_iter=8, **LONGER.get(name, {}))
    fit(later, *parts, checkpoint=str(tmp_path))
    assert (tmp_path / "state").exists()
    bounds, expected = (
        np.column_stack([metric.history_[key] for key in ("primal", "dual")])
        for metric in (later, whole)
    )
    done = np.flatnonzero((expected == bounds[0]).all(1))[0]  # iterations of the last state
    common = min(len(expected) - done, len(bounds))
    assert done > 0 and common > 1
    assert_array_equal(bounds[:common], expected[done : done + common])


@pytest.mark.parametrize(
    "name, other",
    [
        ("FrobMetric", {"C": 5.0}),
        ("FrobMetric", {"prior": np.eye(4)}),
        ("FrobMetric", {"prior": 2 * np.eye(4)}),
        ("FrobMetric", {"class_weight": {0: 1.0, 1: 2.0, 2: 1.0}}),
        ("FrobMetric, logistic", {"random_state": 3}),
        ("LMNNEig", {"n_targets": 2}),
        ("BoostMetric, stage-wise", {"solver": "corrective"}),
    ],
)
@pytest.mark.costly
def test_the_checkpoint_of_another_fit_is_refused(name, other, tmp_path):
    X, y = labelled(13)
    parts = partitioned(X, (50, 70)), partitioned(y, (50, 70))
    estimator = made(name, tol=0.0, max_iter=22, **LONGER.get(name, {}))
    if "prior" in other:
        estimator.set_params(prior=3 * np.eye(4))
    fit(estimator, *parts, checkpoint=str(tmp_path))
    fit(clone(estimator).set_params(max_iter=1), *parts, checkpoint=str(tmp_path))
    state = (tmp_path / "state").read_bytes()
    refused = [
        (clone(estimator).set_params(**other), parts),
        (estimator, (parts[0].astype(np.float32), parts[1])),
        (estimator, (parts[0][:, :3], parts[1])),
        (estimator, (parts[0].rechunk((60, 60)), parts[1].rechunk(60))),
    ]
    for metric, data in refused if "prior" not in other else refused[:2]:
        with pytest.raises(ValueError, match=r"state of another fit \(.*pass another folder"):
            fit(metric, *data, checkpoint=str(tmp_path))
    assert (tmp_path / "state").read_bytes() == state


def test_what_is_wrong_is_said_before_any_work():
    X, y = labelled(14)
    parts, labels = partitioned(X, (60, 60)), partitioned(y, (60, 60))
    metric = FrobMetric()
    with pytest.raises(ValueError, match="requires y to be passed"):
        metric.fit(parts)
    with pytest.raises(ValueError, match="120 rows of X; pass one for each"):
        metric.fit(parts, y[:100])
    with pytest.raises(ValueError, match="sample_weight has 100 values for the 120 rows of X"):
        metric.fit(parts, labels, sample_weight=partitioned(np.ones(100), (60, 40)))
    with pytest.raises(ValueError, match="partitions and X has 2"):
        metric.fit(dask_unknown(parts), labels.rechunk(40))
    with pytest.raises(ValueError, match=r"compute_chunk_sizes\(\) first"):
        metric.fit(dask_unknown(parts), y)
    broken = X.copy()
    broken[70, 1] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in partition 1"):
        metric.fit(partitioned(broken, (60, 60)), labels)
    floating = np.where(np.arange(len(y)) == 70, np.nan, y)
    with pytest.raises(ValueError, match="first: row 10 in partition 1"):
        metric.fit(parts, partitioned(floating, (60, 60)))
    with pytest.raises(ValueError, match="y has 1 class"):
        metric.fit(parts, da.zeros_like(labels))
    with pytest.raises(ValueError, match="X has no rows in its 1 partitions"):
        metric.fit(parts[:0], labels[:0])
    with pytest.raises(ValueError, match="have an index out of range"):
        metric.fit(parts, triplets=[[0, 1, 120]])
    with pytest.raises(ValueError, match="n_components=9 is more than the 4 features"):
        FrobMetric(n_components=9).fit(parts, labels)
    with pytest.raises(ValueError, match="warm_start=True is not supported with dask"):
        FrobMetric(warm_start=True).fit(parts, labels)
    with pytest.raises(ValueError, match="class_weight='balanced' goes with class labels"):
        FrobMetric(class_weight="balanced").fit(parts, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match="class_weight names 7"):
        FrobMetric(class_weight={7: 1.0}).fit(parts, labels)
    with pytest.raises(
        ValueError, match=r"loss='hinge' is not supported with dask.*pass loss='logistic' or"
    ):
        BoostMetric(loss="hinge").fit(parts, labels)
    with pytest.raises(ValueError, match="n_passes=2 is not supported with dask"):
        BoostMetric(n_passes=2).fit(parts, labels)
    with pytest.raises(ValueError, match="is supported with dask collections"):
        metric.fit(X, y, checkpoint="here")


def dask_unknown(array):
    """The same array with chunks of unknown length."""
    return da.concatenate([part[part[:, 0] > -np.inf] for part in array.blocks])


def test_everybody_else_refuses_a_dask_array():
    X, y = labelled(15)
    parts = partitioned(X, (60, 60))
    for estimator in (NuMax(), FrobMetricCV(), RelativeComparisons(), AutoMetric()):
        with pytest.raises(TypeError, match=r"works in memory.*pass X.compute\(\) or a sample"):
            estimator.fit(parts, y)
    with pytest.raises(TypeError, match=r"works in memory.*pass X.compute\(\) or a sample"):
        MaximumVarianceUnfolding().fit(parts)
    with pytest.raises(TypeError, match=r"works in memory, and Y.*pass Y.compute\(\)"):
        MaxMarginMatrixFactorization().fit(parts)
    for estimator in (QueryAdapter(), RelevanceMetric()):
        with pytest.raises(TypeError, match=r"pass queries.compute\(\)"):
            estimator.fit(parts, X, [[0, 1]])
        with pytest.raises(TypeError, match=r"pass documents.compute\(\)"):
            estimator.fit(X, parts, [[0, 1]])


@lru_cache
def with_few_constraints(name, n_constraints):
    """Estimator, rows, constraints and the certificate of the fit in memory, once for all blocks."""
    X, _ = labelled(0, n=8)
    rng = np.random.default_rng(n_constraints)
    n_constraints = max(2, n_constraints) if name == "DMLEig" else n_constraints
    numbers = np.array([rng.permutation(8)[:3] for _ in range(n_constraints)])
    given = {"triplets": numbers}
    if name == "DMLEig":
        given = {"pairs": numbers[:, :2], "similar": np.arange(n_constraints) % 2}
    metric = type(ESTIMATORS[name])(max_iter=20, tol=0.1)
    return metric, X, given, metric.fit(X, **given).certificate_


@pairs_of(
    name=("FrobMetric", "LMNNEig", "DMLEig", "BoostMetric"),
    chunks=(1, 5, 8),
    n_constraints=(1, 2, 3, 7, 40),
    lazy=(False, True),
)
@pytest.mark.filterwarnings("ignore")
def test_more_blocks_than_constraints_and_fewer(name, chunks, n_constraints, lazy):
    metric, X, given, alone = with_few_constraints(name, n_constraints)
    if lazy:
        given = {key: da.from_array(values, chunks=-1) for key, values in given.items()}
    blocks = metric.fit(da.from_array(X, chunks=(chunks, -1)), **given).certificate_
    slack = 1e-6 * abs(alone.primal)  # points are whitened by another route
    assert blocks.dual <= alone.primal + slack
    assert alone.dual <= blocks.primal + slack


@pytest.mark.parametrize("name", ["FrobMetric", "DMLEig"])
@pytest.mark.parametrize("fraction", [0, 0.5])
def test_a_quantity_is_refused(name, fraction):
    X, _ = labelled(0)
    y = 100 * np.random.default_rng(0).permutation(120) + fraction
    blocks = da.from_array(X, chunks=(50, -1))
    for target in ("auto", "continuous"):
        with pytest.raises(ValueError, match="learns between classes, and y is a quantity"):
            made(name).fit(blocks, y, target=target)
    ratings = np.repeat([0.5, 1.0, 1.5], 40)
    with pytest.raises(ValueError, match="y is a quantity, with 3 values"):
        made(name).fit(blocks, ratings)
    assert hasattr(made(name, tol=1e-2).fit(blocks, ratings, target="classes"), "components_")


@pytest.mark.filterwarnings("ignore:.*meant for", "ignore:.*classes have")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["labels", "triplets"])
@pytest.mark.parametrize("in_blocks", [False, True])
@pytest.mark.costly
def test_a_tolerance_below_single_precision_ends_at_the_rounding(kind, seed, in_blocks):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 3)).astype(np.float32)
    y, triplets = rng.integers(0, 2, 9), random_triplets(seed, X, 12)
    given = {"y": partitioned(y, (3, 3, 3))} if kind == "labels" else {"triplets": triplets}
    if not in_blocks:
        given = {"y": y} if kind == "labels" else given
    estimator = LMNNEig(n_targets=1, n_impostors=1, tol=1e-9, max_iter=1000)
    metric = fit(estimator, partitioned(X, (3, 3, 3)) if in_blocks else X, **given)
    assert metric.n_iter_ < 200
    assert metric.certificate_.relative_gap < 1e-6
