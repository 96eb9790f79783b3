"""TableEncoder: blocks, properties that hold for every column, storage, scikit-learn's checks."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from mixed_tables import N, array_of_objects, columns, frame_pandas, frame_polars
from sklearn.base import clone
from sklearn.metrics import pairwise_distances
from sklearn.pipeline import make_pipeline

from conemetric import FrobMetric, TableEncoder

TABLES = {"pandas": frame_pandas, "polars": frame_polars, "objects": array_of_objects}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("table", TABLES)
def test_every_block_is_centred_with_mean_squared_distance_two(table, weighted, seed):
    X = TABLES[table](columns(seed))
    weights = np.random.default_rng(seed).integers(0, 3, N) + 0.0 if weighted else np.ones(N)
    encoder = TableEncoder().fit(X, sample_weight=weights)
    Z = encoder.transform(X)
    share = weights / weights.sum()
    assert encoder.ignored_ == {}
    assert len(encoder.blocks_) == 12 + 2  # what is missing of two numbers
    assert sum(b.features.stop - b.features.start for b in encoder.blocks_) == Z.shape[1]
    for block in encoder.blocks_:
        B = Z[:, block.features]
        squared = pairwise_distances(B, metric="sqeuclidean")
        assert abs(share @ B).max() < 1e-7  # the mean of "far" is rounded to 1e-7
        assert share @ squared @ share == pytest.approx(2)


def test_all_libraries_give_the_same(seed):
    data = columns(seed)
    encoded = []
    for table in TABLES.values():
        X = table(data)
        encoded.append(TableEncoder().fit(X).transform(X))
    np.testing.assert_array_equal(encoded[0], encoded[1])
    # of objects, equal values are counted before they are summed
    np.testing.assert_allclose(encoded[0], encoded[2], rtol=1e-14, atol=1e-15)


def test_words_against_their_definition(seed):
    data = {"word": columns(seed)["word"]}
    X = frame_pandas(data)
    encoder = TableEncoder(min_frequency=1).fit(X)
    levels = [*sorted({w for w in data["word"] if w}), None]
    one_hot = np.array([[word == level for level in levels] for word in data["word"]], float)
    p = one_hot.mean(0)
    expected = (one_hot - p) / np.sqrt((p * (1 - p)).sum())
    np.testing.assert_allclose(encoder.transform(X), expected, atol=1e-14)
    names = [f"word={level}" for level in levels[:-1]] + ["word=(missing)"]
    assert encoder.get_feature_names_out().tolist() == names


def test_two_values_are_one_feature_at_the_distance_of_two():
    X = pd.DataFrame({"w": ["a"] * 3 + ["b"] * 7})
    Z = TableEncoder().fit_transform(X)
    p = 0.3
    assert Z.shape == (10, 1)
    assert (Z[0, 0] - Z[9, 0]) ** 2 == pytest.approx(2 / (2 * p * (1 - p)))


def test_weights_are_repetitions(seed):
    X = frame_pandas(columns(seed))
    weights = np.random.default_rng(seed).integers(0, 4, N)
    repeated = X.iloc[np.repeat(np.arange(N), weights)]
    one = TableEncoder(min_frequency=0.05).fit(X, sample_weight=weights)
    two = TableEncoder(min_frequency=0.05).fit(repeated)
    np.testing.assert_allclose(one.transform(X), two.transform(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", [1e-200, 1e-20, 1e20, 1e100])
def test_units_do_not_matter(factor, seed):
    X = np.random.default_rng(seed).normal(size=(30, 3)) + np.array([0, 5, -2])
    one = TableEncoder().fit_transform(X)
    two = TableEncoder().fit_transform(X * [1, factor, 1])
    np.testing.assert_allclose(one, two, atol=1e-13)


def test_the_largest_floats_do_not_overflow():
    X = np.array([[1.7e308], [-1.7e308], [1.7e308], [-1.7e308]])
    np.testing.assert_allclose(TableEncoder().fit_transform(X)[:, 0], [1, -1, 1, -1])


def test_columns_are_found_by_name(seed):
    data = columns(seed)
    for table in (frame_pandas, frame_polars):
        X = table(data)
        encoder = TableEncoder().fit(X)
        other = table({"extra": list(range(N)), **dict(reversed(data.items()))})
        np.testing.assert_array_equal(encoder.transform(X), encoder.transform(other))
        assert encoder.feature_names_in_.tolist() == list(data)
        with pytest.raises(
            ValueError, match="X has no column 'skewed', 'yes', which was present during fit"
        ):
            encoder.transform(table({k: v for k, v in data.items() if k not in ("yes", "skewed")}))


def test_a_frame_of_one_library_is_encoded_by_an_encoder_of_another(seed):
    data = columns(seed)
    encoder = TableEncoder().fit(frame_pandas(data))
    expected = encoder.transform(frame_pandas(data))
    np.testing.assert_array_equal(encoder.transform(frame_polars(data)), expected)


@pytest.mark.parametrize("given", [[False, True], [1], np.array([1]), ["code"]])
def test_categorical_features(given):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=40), "code": rng.integers(0, 3, 40)})
    X = X if given == ["code"] else X.to_numpy()
    encoder = TableEncoder(categorical_features=given).fit(X)
    assert [block.kind for block in encoder.blocks_] == ["number", "category"]
    name = "code" if given == ["code"] else "x1"
    assert encoder.get_feature_names_out().tolist()[1:] == [f"{name}={i}" for i in range(3)]


def test_ordered_categories_are_ranks():
    order = ["low", "mid", "high"]
    words = ["low", "high", "mid", "low", None, "mid"]
    expected = np.array([0, 2, 1, 0, np.nan, 1.0])
    expected = np.nan_to_num(expected - np.nanmean(expected))
    expected /= expected.std()
    pandas_ = pd.DataFrame({"o": pd.Categorical(words, order, ordered=True)})
    polars_ = pl.DataFrame({"o": pl.Series(words, dtype=pl.Enum(order))})
    for X in (pandas_, polars_):
        encoder = TableEncoder(missing="center").fit(X)
        assert [block.kind for block in encoder.blocks_] == ["ordered"]
        np.testing.assert_allclose(encoder.transform(X)[:, 0], expected, atol=1e-14)
    unknown = pl.DataFrame({"o": ["low", "extreme"]})
    np.testing.assert_allclose(encoder.transform(unknown)[:, 0], [expected[0], 0], atol=1e-14)


def test_dates_have_cycles_where_the_data_span_them():
    start = np.datetime64("2021-01-04T00:00", "us")
    spans = {
        "few days": (6, []),
        "weeks": (30, ["week"]),
        "years": (1000, ["week", "year"]),
    }
    for days, expected in spans.values():
        X = pl.DataFrame({"t": start + np.arange(days) * np.timedelta64(1, "D")})
        encoder = TableEncoder().fit(X)
        names = encoder.get_feature_names_out().tolist()
        assert names == ["t", *(f"t:{p}_{w}" for p in expected for w in ("cos", "sin"))]
        assert TableEncoder(dates="elapsed").fit(X).get_feature_names_out().tolist() == ["t"]
    hourly = pl.DataFrame({"t": start + np.arange(100) * np.timedelta64(1, "h")})
    Z = TableEncoder().fit_transform(hourly)
    np.testing.assert_allclose(Z[0, 1:], Z[24, 1:], atol=1e-12)
    with pytest.raises(ValueError, match="dates are ignored"):
        TableEncoder(dates="ignore").fit(hourly)


def test_rare_words_are_pooled_and_unknown_ones_at_the_centre():
    words = ["a"] * 50 + ["b"] * 40 + ["c", "d", "e", "f", "g"] * 2
    X = pd.DataFrame({"w": words})
    encoder = TableEncoder(min_frequency=0.05).fit(X)
    assert encoder.get_feature_names_out().tolist() == ["w=a", "w=b", "w=(rare)"]
    Z = encoder.transform(pd.DataFrame({"w": ["c", "g", "unknown", None]}))
    assert (Z[0] == Z[1]).all() and Z[0, 2] > 0
    assert not Z[2:].any()
    assert TableEncoder(min_frequency=3).fit(X).transform(X).shape[1] == 3
    assert TableEncoder(min_frequency=2).fit(X).transform(X).shape[1] == 7


@pytest.mark.parametrize("missing", ["auto", "center", "error"])
def test_missing_numbers(missing):
    X = np.array([[1.0], [np.nan], [3.0], [4.0]])
    encoder = TableEncoder(missing=missing)
    if missing == "error":
        with pytest.raises(ValueError, match="NaN: column 'x0'"):
            encoder.fit(X)
        assert not np.isnan(encoder.fit(X[[0, 2, 3]]).transform(X[2:])).any()
        with pytest.raises(ValueError, match="NaN: column 'x0'"):
            encoder.transform(X)
        return
    Z = encoder.fit_transform(X)
    assert Z[1, 0] == 0 and Z.shape[1] == (2 if missing == "auto" else 1)
    rare = np.ones((1000, 1)) * np.arange(1000)[:, None]
    rare[5] = np.nan
    assert TableEncoder(missing=missing).fit_transform(rare).shape[1] == 1


def test_kinds_can_be_given():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"id": np.arange(30), "code": rng.integers(0, 3, 30), "size": ["s", "m", "l"] * 10}
    )
    encoder = TableEncoder().fit(X)
    assert encoder.ignored_ == {"id": "looks like a row number"}
    kinds = {"id": "number", "code": "category", 2: "ignore"}
    encoder = TableEncoder(kinds=kinds).fit(X)
    assert [block.kind for block in encoder.blocks_] == ["number", "category"]
    assert encoder.ignored_ == {"size": "ignored by request"}
    with pytest.raises(ValueError, match=r"kinds\['id'\]='numeric' is not one of"):
        TableEncoder(kinds={"id": "numeric"}).fit(X)
    with pytest.raises(ValueError, match="kinds names 'idd', which X does not have"):
        TableEncoder(kinds={"idd": "number"}).fit(X)
    with pytest.raises(ValueError, match="'code' holds numbers, not dates; correct it"):
        TableEncoder(kinds={"code": "date"}).fit(X)
    with pytest.raises(ValueError, match=r"'size' holds '.', which is not a number"):
        TableEncoder(kinds={"size": "number"}).fit(X)


@pytest.mark.parametrize("sparse_output", [True, "auto"])
def test_sparse_output_has_the_same_distances(sparse_output, seed):
    data = columns(seed)
    rng = np.random.default_rng(seed)
    data |= {f"many {i}": rng.integers(0, 60, N).astype(str).tolist() for i in range(6)}
    data = {k: [f"w{v}" for v in vs] if k.startswith("many") else vs for k, vs in data.items()}
    X = frame_polars(data)
    encoder = TableEncoder(sparse_output=sparse_output, min_frequency=1).fit(X)
    S, Z = encoder.transform(X), clone(encoder).set_params(sparse_output=False).fit_transform(X)
    assert S.shape == Z.shape and S.nnz < 0.2 * Z.size
    np.testing.assert_allclose(pairwise_distances(S), pairwise_distances(Z), atol=1e-6)
    new = X.with_columns(pl.lit("unknown").alias("word"))
    S, Z = encoder.transform(new), encoder.set_params(sparse_output=False).transform(new)
    np.testing.assert_allclose(pairwise_distances(S), pairwise_distances(Z), atol=1e-6)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output(library, seed):
    X = frame_pandas(columns(seed))
    encoder = TableEncoder().set_output(transform=library).fit(X)
    assert list(encoder.transform(X).columns) == encoder.get_feature_names_out().tolist()


def test_names_of_features_are_unique():
    X = pd.DataFrame({"a": ["(missing)", None, "b=c", "x"] * 5, "a=b": ["c", "d", "e", "f"] * 5})
    names = TableEncoder().fit(X).get_feature_names_out().tolist()
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("table", TABLES)
def test_copies_pickles_and_states_encode_the_same(table, seed):
    X = TABLES[table](columns(seed))
    encoder = TableEncoder(min_frequency=0.03).fit(X)
    Z = encoder.transform(X)
    for other in (
        pickle.loads(pickle.dumps(encoder)),
        clone(encoder).fit(X),
        TableEncoder.from_state(encoder.state()),
    ):
        np.testing.assert_array_equal(other.transform(X), Z)
        assert other.blocks_ == encoder.blocks_ and other.ignored_ == encoder.ignored_
        assert other.min_frequency == 0.03


def test_a_metric_learns_from_a_table():
    rng = np.random.default_rng(0)
    word = rng.choice(list("abc"), 90)
    X = pd.DataFrame({"noise": rng.normal(size=90), "word": word})
    y = word == "a"
    pipeline = make_pipeline(TableEncoder(), FrobMetric()).fit(X, y)
    Z = pipeline.transform(X)
    without = pipeline.transform(X.assign(noise=0.0))
    assert abs(Z - without).max() < 0.01 * abs(Z[y].mean(0) - Z[~y].mean(0)).max()


def test_gaps_among_words_are_refused_if_asked():
    X = pd.DataFrame({"w": ["a", "b", "a", "b"]})
    encoder = TableEncoder(missing="error").fit(X)
    with pytest.raises(ValueError, match="NaN: column 'w'"):
        encoder.transform(pd.DataFrame({"w": ["a", None]}))


def test_frames_come_out_where_arrays_would_be_sparse():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({f"w{i}": [f"v{v}" for v in rng.integers(0, 60, 200)] for i in range(8)})
    encoder = TableEncoder(min_frequency=1).fit(X)
    assert encoder.transform(X).format == "csr"
    frame = encoder.set_output(transform="pandas").transform(X)
    assert frame.shape[1] == len(encoder.get_feature_names_out())
