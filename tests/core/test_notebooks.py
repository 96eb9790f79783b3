"""What a notebook shows of results and of progress."""

from xml.etree import ElementTree

import pytest
from sklearn.datasets import load_iris

from conemetric import Certificate, FrobMetric, Status, watching
from conemetric.automatic.folds import Evidence
from conemetric.core.notebooks import html_table
from conemetric.core.progress import emit

X, y = load_iris(return_X_y=True)


@pytest.mark.parametrize("value", ["<script>", "a & b", '"', 3.5, None])
def test_tables_hold_what_they_are_given_as_text(value):
    table = ElementTree.fromstring(html_table(f"{value}", {f"{value}": value}))
    assert [cell.text for cell in table.iter() if cell.text] == [str(value)] * 3


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("dual", [0.5, float("-inf")])
def test_a_certificate_shows_its_figures(status, dual):
    certificate = Certificate(1.0, dual, 1.0 - dual, 0.25, 1e-9, status)
    shown = certificate._repr_html_()
    assert f"Certificate: {status}" in shown and "1e-09" in shown
    assert f"<th>dual</th><td>{dual:.6g}</td>" in shown


@pytest.mark.parametrize("blend", [0.01, 0.2])
def test_evidence_shows_the_lowest_error_first(blend):
    errors = {"Euclidean": 0.1, "blend": blend, "FrobMetric": 0.15}
    evidence = Evidence(errors, dict.fromkeys(errors, 0.01), 0.001, 700, 3)
    table = ElementTree.fromstring(evidence._repr_html_())
    names = [cell.text for cell in table.iter("th")]
    assert names == sorted(errors, key=errors.get)
    assert str(evidence) in table.find("caption").text


def test_a_line_of_progress_ends_with_the_block(capsys):
    pytest.importorskip("tqdm")
    with watching():
        emit("stage", stage="learning")
        FrobMetric().fit(X, y)
    shown = capsys.readouterr().err
    assert "learning" in shown and "certified gap" in shown
    FrobMetric().fit(X, y)
    assert capsys.readouterr().err == ""
