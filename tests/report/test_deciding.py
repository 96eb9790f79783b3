"""The report explains decisions by the training rows that made them."""

import re
from html import unescape

import numpy as np
import pytest

from conemetric.report.metric import write_report
from conemetric.report.reasons import N_DECIDING, N_NEAR
from conemetric.studies import Options, run_study
from conemetric.studies.supervision import Measured


def quantity():
    X = np.random.default_rng(0).standard_normal((120, 4))
    return run_study(Measured(X, X[:, 0] + X[:, 1] ** 2), Options(method="frob"), decide=True)


def written(path, study, **options):
    """The page, and its rows of the table of reasons as lists of cells."""
    decided = study.decided
    write_report(path, study, **options)
    page = path.read_text(encoding="utf-8")
    assert "{{" not in page and "{%" not in page
    table = re.search(r"Why: the training rows.*?</table>", page, re.DOTALL)
    if table is None:
        return decided, page, []
    lines = re.findall(r"<tr>(.*?)</tr>", table[0], re.DOTALL)[1:]
    return (
        decided,
        page,
        [re.findall(r"<t[hd].*?>(.*?)</t[hd]>", line, re.DOTALL) for line in lines],
    )


@pytest.mark.parametrize("key", ["images", "blend", "long", "quantity"])
def test_the_page_shows_the_rows_that_decided(studies, tmp_path, key):
    study = quantity() if key == "quantity" else studies[key]
    images = key == "images"
    ids = np.array([f"<{i}>" for i in range(study.task.n_rows)])
    shape = (8, 8) if images else None
    decided, page, lines = written(tmp_path / "page.html", study, ids=ids, image_shape=shape)
    assert "\nconemetric inspect metric.safetensors\nconemetric predict new.csv " in page
    first = [line for line in lines if line[0]]
    assert len(lines) == N_DECIDING * len(first) and 3 <= len(first) <= 6
    test = study.task.original(study.task.test).tolist()
    rows = [ids.tolist().index(unescape(line[0])) for line in first]
    assert set(rows) <= set(test)
    wrong = next(iter(decided.judgements.values())).wrong
    assert wrong[test.index(rows[0])] == wrong.max()  # mistakes first
    why = decided.explain(np.array(rows), N_DECIDING)
    for k, line in enumerate(lines):
        i, j = divmod(k, N_DECIDING)
        name, *image, label, share, near_by = line[-4 - images :]
        assert unescape(name) == ids[why.rows[i, j]]
        assert share == f"{why.shares[i, j]:+.1%}"
        assert len(near_by.split(", ")) <= N_NEAR
        assert len(image) == images and all("data:image/png" in each for each in image)
        if key != "quantity":
            row = np.flatnonzero(study.task.original(study.task.learn) == why.rows[i, j])[0]
            assert unescape(label) == str(study.task.y[study.task.learn][row])


@pytest.mark.parametrize("key", ["names", "triplets", "pairs"])
def test_without_a_decision_there_is_nothing_to_explain(studies, tmp_path, key):
    """Principal components, triplets and pairs."""
    decided, page, lines = written(tmp_path / "page.html", studies[key])
    assert decided is None and lines == [] and "conemetric predict" not in page
