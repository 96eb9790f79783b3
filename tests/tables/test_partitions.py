"""Parts of a table, one by one or as a Dask collection, give the encoder of the whole."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from mixed_tables import N, columns, frame_pandas

from conemetric import TableEncoder


@pytest.mark.parametrize("cuts", [[60], [1, 2, 3], [10, 11, 90]])
@pytest.mark.parametrize("weighted", [False, True])
def test_summaries_of_parts_add_up(cuts, weighted, seed):
    rng = np.random.default_rng(seed)
    X = frame_pandas(columns(seed)).assign(row=np.arange(N), id=rng.permutation(N))
    weights = rng.integers(1, 4, N).astype(float) if weighted else np.ones(N)
    encoder = TableEncoder(min_frequency=0.03)
    bounds = [0, *cuts, N]
    parts = [
        encoder.summarize(X.iloc[start:stop], weights[start:stop])
        for start, stop in pairwise(bounds)
    ]
    summary = parts[0]
    for part in parts[1:]:
        summary = summary + part
    encoder.fit_summary(summary)
    whole = TableEncoder(min_frequency=0.03).fit(X, sample_weight=weights)
    assert encoder.blocks_ == whole.blocks_ and encoder.ignored_ == whole.ignored_
    assert set(whole.ignored_) == {"row", "id"}
    for one, two in zip(encoder.columns_, whole.columns_, strict=True):
        if one.kind in ("category", "boolean"):  # from counts: exactly the same
            assert one.state().keys() == two.state().keys()
            np.testing.assert_array_equal(one.shares, two.shares)
            assert one.values == two.values and one.rare == two.rare
    np.testing.assert_allclose(encoder.transform(X), whole.transform(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("npartitions", [1, 5])
def test_a_dask_frame(npartitions, seed):
    dd = pytest.importorskip("dask.dataframe")
    X = frame_pandas(columns(seed))
    lazy = dd.from_pandas(X, npartitions=npartitions)
    encoder, whole = TableEncoder().fit(lazy), TableEncoder().fit(X)
    assert encoder.blocks_ == whole.blocks_
    Z = encoder.transform(lazy)
    assert Z.shape[1] == whole.transform(X).shape[1]
    np.testing.assert_allclose(Z.compute(), whole.transform(X), rtol=1e-6, atol=1e-6)


def test_a_dask_array(seed):
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(seed).normal(size=(50, 4))
    X[::7, 1] = np.nan
    encoder = TableEncoder().fit(da.from_array(X, chunks=(20, 3)))
    np.testing.assert_allclose(
        encoder.transform(da.from_array(X, chunks=(20, 3))).compute(),
        TableEncoder().fit_transform(X),
        atol=1e-12,
    )


def test_parts_of_different_tables_are_refused():
    encoder = TableEncoder()
    numbers = encoder.summarize(pd.DataFrame({"x": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=r"'x' is one of numbers in one part .* words in another"):
        numbers + encoder.summarize(pd.DataFrame({"x": ["a", "b"]}))
    with pytest.raises(ValueError, match="parts of one table have columns"):
        numbers + encoder.summarize(pd.DataFrame({"y": [1.0, 2.0]}))
