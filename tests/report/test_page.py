"""What the page says, without a browser."""

import re
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from cases import case
from markupsafe import escape

from conemetric.report import content
from conemetric.report.metric import facts, headline, write_report
from conemetric.report.table import row_titles, table_rows
from conemetric.studies.task import Judgement


class Reader(HTMLParser):
    """Collects tags and identifiers."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id"]


@pytest.mark.parametrize("key", ["images", "names", "triplets"])
def test_the_page_is_whole(pages, key):
    text = pages[key].read_text(encoding="utf-8")
    reader = Reader(text)
    assert reader.tags.count("script") == 1
    plots = {name.removeprefix("plot-") for name in reader.ids if name.startswith("plot-")}
    assert plots == {"principal_axes"}
    assert "{{" not in text and "{%" not in text
    assert not re.search(r"""(src|href)=["']https?:""", text), "the page must need no network"


def test_a_blend_shows_evidence_in_the_place_of_a_proof(pages, studies):
    page = pages["blend"].read_text(encoding="utf-8")
    study = studies["blend"]
    assert str(study.evidence) in page and "{{" not in page
    assert ">Evidence</button>" in page and "Proven bound" not in page
    for name, weight in study.estimator.weights_.items():
        assert f'<th scope="row">{name}</th><td>{weight:.1%}</td>' in page
    proof = pages["triplets"].read_text(encoding="utf-8")
    assert ">Proof</button>" in proof and "Proven bound" in proof


def test_odd_names_are_text(pages):
    text = pages["names"].read_text(encoding="utf-8")
    assert "<i>odd" not in text and "&lt;i&gt;odd" in text
    assert "i" not in Reader(text).tags


def test_views_show_held_out_rows_only(studies):
    study = studies["images"]
    rows, groups = content.shown_rows(study)
    assert set(rows) <= set(study.task.test) and len(groups) == len(rows)


def test_the_card_of_a_blend_says_what_it_counts(pages, studies):
    weights = studies["blend"].estimator.weights_
    n = sum(weight >= 0.01 for weight in weights.values())
    card = f'<h3>Blend</h3><p class="figure">{n}</p><p>of {len(weights)} candidates have 1% of'
    assert card in pages["blend"].read_text(encoding="utf-8")


def test_marks_are_within_their_picture(studies):
    for key in ("images", "pairs", "triplets"):
        study = studies[key]
        pictures = [content.projection(study), content.distances(study)]
        assert (pictures[1] is None) == (key != "pairs")
        for picture in filter(None, pictures):
            assert [title for title, _ in picture.panels] == ["Euclidean", "learned"]
            for _, marks in picture.panels:
                x, y = np.array([mark[:2] for mark in marks], float).T
                assert x.min() >= 0 and x.max() <= content.WIDTH
                assert y.min() >= 0 and y.max() <= content.HEIGHT


@pytest.mark.parametrize("key", ["images", "names", "pairs", "triplets"])
def test_the_page_shows_directions_and_columns(pages, studies, key):
    study, text = studies[key], pages[key].read_text(encoding="utf-8")
    found = content.dimensions(study)
    for n, error in zip(found.tried, found.errors, strict=True):
        enough = " (enough)" if n == found.suggested else ""
        assert re.search(rf">{n}{re.escape(enough)}</th>.*?<td>{error:.2%}</td>", text)
    shares = content.feature_shares(study)
    first, share = content.main_features(shares, [str(i) for i in range(len(shares))])[0]
    assert int(first) == np.argmax(shares) and f"{share:.1%}</td>" in text
    assert ('class="pixels"' in text) == (key == "images")


def test_confusion_counts_every_held_out_row(studies):
    study = studies["images"]
    tables = content.confusion(study, row_titles(study)).tables
    assert list(tables) == [row[0] for row in table_rows(study)]
    for name, table in zip(study.judged[0], tables.values(), strict=True):
        assert table.sum() == study.before.n
        assert np.trace(table) == (~study.judged[0][name].wrong).sum()


@pytest.mark.parametrize(
    "classes", [["b", "aa", "a"], [2.5, 0.5, -1.0], [10, 9, -1], [True, False, True]], ids=str
)
@pytest.mark.parametrize("dtype", [None, object])
def test_confusion_counts_classes_of_any_type(studies, classes, dtype, seed):
    study, rng = studies["blend"], np.random.default_rng(seed)
    y = np.array(classes, dtype)[study.task.y]
    predicted = rng.permutation(y[study.task.test])
    judged = Judgement(predicted != y[study.task.test], {"predicted": predicted})
    task = replace(study.task, y=y)
    split = dict.fromkeys(("euclidean", study.options.method), judged)
    titles = {"euclidean": "Euclidean", study.options.method: "learned"}
    table = content.confusion(replace(study, task=task, judged=[split]), titles)
    assert table.names == [str(name) for name in np.unique(y)]
    for i, true in enumerate(np.unique(y)):
        counts = [((y[task.test] == true) & (predicted == each)).sum() for each in np.unique(y)]
        np.testing.assert_array_equal(table.tables["learned"][i], counts)


@pytest.mark.parametrize("key", ["images", "names", "triplets"])
def test_shares_are_of_the_original_columns(studies, key):
    shares = content.feature_shares(studies[key])
    assert len(shares) == studies[key].metric.n_features_in_
    assert shares.min() >= 0 and shares.sum() == pytest.approx(1)


def test_the_suggested_dimension_is_within_one_standard_error(studies):
    found = content.dimensions(studies["images"])
    best = found.errors.min()
    position = np.flatnonzero(found.tried == found.suggested)[0]
    slack = np.sqrt(max(best * (1 - best), 1 / 84) / 84)
    # as are all larger ones, but not the next smaller one
    assert (found.errors[position:] <= best + slack).all()
    assert position == 0 or found.errors[position - 1] > best + slack


def judged(study, lost, won, alarm=""):
    """The study with so many held-out items wrong only after, and wrong only before."""
    before, after = np.zeros(200, bool), np.zeros(200, bool)
    before[:won], after[won : won + lost] = True, True
    split = {"euclidean": Judgement(before), study.options.method: Judgement(after)}
    return replace(study, judged=[split], decided=None, alarm=alarm)


@pytest.mark.parametrize("kind", ["images", "blend", "pairs", "triplets"])
def test_the_verdict_comes_first_and_respects_p(studies, kind):
    for lost in (0, 1, 3, 10, 30):
        for won in (0, 1, 3, 5, 6, 10, 30, 60):
            with case(lost=lost, won=won):
                check_verdict(judged(studies[kind], lost, won), lost, won)


def check_verdict(study, lost, won):
    p = study.before.p_value(study.after)
    expected = "" if p > 0.05 else "better" if won > lost else "worse"
    begins = {
        "better": "Use the learned distance rather than the Euclidean one: error ",
        "worse": "Keep the Euclidean distance: the learned one is worse, error ",
        "": "Keep the Euclidean distance: the learned one ",
    }[expected]
    shown = "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
    words = study.verdict_in_words
    assert study.outcome == expected
    assert words.startswith(begins) and shown in words
    assert headline(study) == words
    assert headline(replace(study, alarm="It is zero.")).startswith("It is zero. ")


def test_a_useless_metric_is_never_recommended(studies):
    study = judged(studies["images"], 0, 60, alarm="It is zero.")
    assert study.outcome == ""
    assert "Keep the Euclidean distance: the learned one has collapsed" in study.verdict_in_words


def written(study, folder):
    write_report(folder / "page.html", study)
    return (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("splits", [1, 2, 3])
@pytest.mark.parametrize("kind", ["images", "pairs"])
def test_the_page_says_how_many_splits_were_judged(studies, tmp_path, kind, splits):
    study = replace(studies[kind], judged=studies[kind].judged * splits)
    text = written(study, tmp_path)
    once = "One random split, seed" in text
    assert once == (splits == 1)
    assert once or f"{splits} random splits, " in text
    assert once or f"{splits} random splits" in headline(study)


def test_the_page_says_how_it_was_judged(studies, pages):
    images, pairs = studies["images"], studies["pairs"]
    of_images, of_pairs = (
        re.search(r'class="protocol">(.*?)</p>', pages[key].read_text(encoding="utf-8"))[1]
        for key in ("images", "pairs")
    )
    wrong = int(images.after.wrong.sum())
    assert f"{wrong} of {images.after.n} rows wrong" in pages["images"].read_text(encoding="utf-8")
    assert "30% of the rows held out" in of_images
    assert f"{len(images.task.train)} training rows" in of_images
    wrong = int(pairs.after.wrong.sum())
    assert f"{wrong} of {pairs.after.n} pairs wrong" in pages["pairs"].read_text(encoding="utf-8")
    assert "threshold" in of_pairs and "nearest" not in headline(pairs) + of_pairs


def test_pairs_are_not_called_rows_or_classes(pages):
    text = pages["pairs"].read_text(encoding="utf-8")
    for words in ("held-out rows", "classes", "training rows"):
        assert words not in text.split('id="panel-use"')[0]
    assert "Rows of the pairs" in text and "training pairs" in text


@pytest.mark.parametrize(
    ("lost", "won", "kind"),
    [(0, 20, "better"), (20, 0, "worse"), (4, 8, ""), (8, 4, ""), (0, 0, "")],
)
def test_the_error_after_is_coloured_only_where_chance_is_ruled_out(
    studies, tmp_path, lost, won, kind
):
    text = written(judged(studies["triplets"], lost, won), tmp_path)
    title = row_titles(studies["triplets"])["frob"]
    assert f'<div class="card {kind}"><h3>Error, {title}</h3>' in text


def test_the_page_tells_data_and_columns(pages, studies):
    text = pages["names"].read_text(encoding="utf-8")
    assert f"150 rows, id {studies['names'].metric.notes['data_id']}" in text
    assert "Columns used (4)" in text and "&lt;, &gt;, &amp;, &#34;" in text


def test_the_page_shows_the_promise_of_a_threshold(studies):
    study = studies["pairs"]
    assert "Threshold of pairs" not in dict(facts(study))
    metric = copy(study.metric)
    rows = study.task.indices[study.task.test]
    similar = np.where(study.task.similar[study.task.test], 1, -1)
    metric.calibrate_threshold(study.task.X[rows], similar, "max_fpr", alpha=0.1)
    shown = dict(facts(replace(study, metric=metric)))["Threshold of pairs"]
    assert shown.startswith(f"{metric.threshold_:.4g}: at most")
    assert "10% of dissimilar pairs are called similar, with 95% conf" in shown


def test_images_must_fit(studies, tmp_path):
    with pytest.raises(ValueError, match="7x7 do not have the 64 columns"):
        write_report(tmp_path / "page.html", studies["images"], image_shape=(7, 7))


def test_reports_of_one_study_are_the_same_bytes(studies, tmp_path):
    for name in "ab":
        write_report(tmp_path / name, studies["names"])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("key", ["images", "blend", "triplets"])
def test_the_page_holds_every_row_of_the_table(pages, studies, key):
    text, study = pages[key].read_text(encoding="utf-8"), studies[key]
    compared = [row["method"] for row in study.table()[2:-1]]
    names = ["Euclidean", f"learned ({study.metric.method})", *compared]
    if key == "triplets":
        names = names[:2]
    else:
        names.append(f"always '{study.task.constant().prediction}'")
    rows = table_rows(study)
    assert [row[0] for row in rows] == names and len(rows) == (2 if key == "triplets" else 6)
    for name, mean, *_ in rows:
        shown = re.escape(str(escape(name)))
        assert re.search(rf"{shown}</t[hd]>\s*<td[^>]*>{mean}", text)
        assert re.search(rf"<h3>Error, {shown}</h3><p class=\"figure\">{mean}", text)
        assert (f"<caption>{escape(name)}</caption>" in text) == (key != "triplets")


def test_an_outlier_does_not_squash_the_map():
    rng = np.random.default_rng(0)
    flat = np.vstack([rng.normal(size=(300, 2)), [[1e6, -1e6]]])
    places = content.within_frame(flat)
    assert places[-1].tolist() == [1, 0]
    assert places[:-1].std(axis=0).min() > 0.1
    np.testing.assert_array_equal(
        np.argsort(places[:-1, 0])[10:-10], np.argsort(flat[:-1, 0])[10:-10]
    )
    assert np.isfinite(content.within_frame(np.zeros((5, 2)))).all()
