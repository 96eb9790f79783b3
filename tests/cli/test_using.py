"""Commands that put a metric to use, and the comparison of methods."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.spatial.distance import pdist
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import FrobMetric, TableEncoder, load_metric, save_metric
from conemetric.cli.compressing import components_needed
from conemetric.cli.reading import batches
from conemetric.studies.methods import methods_for

X, y = load_wine(return_X_y=True)
NAMES = [f"f{i}" for i in range(13)]


@pytest.fixture(scope="module")
def fitted():
    return make_pipeline(StandardScaler(), FrobMetric()).fit(X, y)


@pytest.fixture
def metric(fitted, tmp_path):
    path = tmp_path / "metric.safetensors"
    save_metric(path, fitted, feature_names=NAMES)
    return path


@pytest.fixture
def bare(fitted, tmp_path):
    """The same metric without column names."""
    path = tmp_path / "bare.safetensors"
    save_metric(path, fitted)
    return path


def read(path):
    if path.suffix == ".npy":
        return np.load(path)
    frame = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    return frame.select(pl.col("^e[0-9]+$")).to_numpy()


@pytest.mark.parametrize("given", ["csv", "parquet", "npy"])
@pytest.mark.parametrize("wanted", ["csv", "parquet", "npy"])
@pytest.mark.parametrize("beside", [("bottle", "kind"), ()])
def test_embed_streams_any_format_to_any_other(
    run, frame, fitted, metric, bare, tmp_path, monkeypatch, given, wanted, beside
):
    monkeypatch.setattr(batches, "BATCH", 13 * 50)  # four batches
    source, out = tmp_path / f"rows.{given}", tmp_path / f"embedded.{wanted}"
    shuffled = frame.select(*beside[:1], *NAMES[::-1], *beside[1:])
    if given == "npy":
        np.save(source, X)
    else:
        getattr(shuffled, f"write_{given}")(source)
    result = run(
        "embed", source, "--metric", bare if given == "npy" else metric, "--out", out, "--json"
    )
    assert result.code == 0, result.err
    assert result.json["rows"] == 178
    np.testing.assert_allclose(read(out), fitted.transform(X), atol=1e-9)
    if beside and given != "npy" and wanted == "parquet":
        assert pl.read_parquet(out)["bottle"].to_list() == frame["bottle"].to_list()


def test_embed_tells_new_words_once_for_all_batches(run, tmp_path, monkeypatch):
    rows = pl.DataFrame({"x": np.arange(60) % 7, "w": ["a", "b"] * 30})
    path, out = tmp_path / "metric.safetensors", tmp_path / "out.npy"
    save_metric(path, make_pipeline(TableEncoder(), FrobMetric()).fit(rows, [0, 1] * 30))
    rows.with_columns(w=pl.format("new {}", pl.int_range(60))).write_csv(tmp_path / "new.csv")
    monkeypatch.setattr(batches, "BATCH", 2 * 20)
    result = run("embed", tmp_path / "new.csv", "--metric", path, "--out", out, "--json")
    [note] = result.json["notes"]
    assert "'new 0', 'new 1', 'new 10' and 17 more (column 'w')" in note and not result.err


@pytest.mark.parametrize("wanted", ["csv", "parquet", "npy"])
@pytest.mark.parametrize("row", [3, 60, 177])
def test_embed_names_a_missing_value_of_any_batch(
    run, frame, metric, tmp_path, monkeypatch, wanted, row
):
    monkeypatch.setattr(batches, "BATCH", 13 * 50)
    hole = pl.when(pl.int_range(pl.len()) == row).then(None).otherwise("f3")
    frame.with_columns(f3=hole).write_csv(tmp_path / "hole.csv")
    out = tmp_path / f"embedded.{wanted}"
    result = run("embed", tmp_path / "hole.csv", "--metric", metric, "--out", out)
    assert result.code == 2 and not out.exists()
    assert result.err.startswith(f"error '{tmp_path / 'hole.csv'}': row {row} has a missing")


def test_embed_keeps_leading_dimensions(run, csv, fitted, metric, tmp_path):
    assert (
        run(
            "embed", csv, "--metric", metric, "--out", tmp_path / "two.npy", "--dimensions", "2"
        ).code
        == 0
    )
    np.testing.assert_allclose(np.load(tmp_path / "two.npy"), fitted.transform(X)[:, :2], atol=1e-9)


def test_embed_refuses_what_it_cannot_do(run, csv, frame, metric, tmp_path):
    out = tmp_path / "out.npy"
    frame.drop("f3").write_csv(tmp_path / "less.csv")
    result = run("embed", tmp_path / "less.csv", "--metric", metric, "--out", out)
    assert "has no column 'f3', which training used; add it." in result.err
    frame.with_columns(
        f3=pl.when(pl.int_range(pl.len()) == 60).then(None).otherwise("f3")
    ).write_csv(tmp_path / "hole.csv")
    assert (
        "row 60 has a missing"
        in run("embed", tmp_path / "hole.csv", "--metric", metric, "--out", out).err
    )
    assert (
        "ends in .csv, .parquet or .npy"
        in run("embed", csv, "--metric", metric, "--out", tmp_path / "out.txt").err
    )
    assert (
        "no folder"
        in run("embed", csv, "--metric", metric, "--out", tmp_path / "no" / "out.csv").err
    )
    assert "not a metric file" in run("embed", csv, "--metric", csv, "--out", out).err
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_neighbors_are_those_of_the_learned_space(run, csv, fitted, metric, tmp_path):
    out = tmp_path / "near.csv"
    assert (
        run("neighbors", csv, "--metric", metric, "--id", "bottle", "-k", "2", "--out", out).code
        == 0
    )
    found = pl.read_csv(out)
    Z = fitted.transform(X)
    distances = np.linalg.norm(Z[:, None] - Z, axis=2) + np.diag(np.full(178, np.inf))
    expected = [f"b{i}" for i in np.argsort(distances, axis=1)[:, :2].ravel()]
    assert found["neighbor"].to_list() == expected
    np.testing.assert_allclose(
        found["distance"].to_numpy(), np.sort(distances, axis=1)[:, :2].ravel(), atol=1e-6
    )
    shown = run("neighbors", csv, "--metric", metric, "--against", csv, "-k", "1", "--json").json[
        "neighbors"
    ]
    assert all(entry["row"] == entry["neighbor"] for entry in shown)
    assert "exceeds the 177 rows" in run("neighbors", csv, "--metric", metric, "-k", "178").err


def test_verify_finds_threshold_and_roc(run, csv, pairs, metric, tmp_path):
    args = (
        "--data",
        csv,
        "--id",
        "bottle",
        "--metric",
        metric,
        "--out",
        tmp_path / "roc",
        "--json",
    )
    answer = run("verify", pairs, *args).json
    assert answer["learned"]["accuracy"] > answer["euclidean"]["accuracy"]
    assert 0.8 < answer["learned"]["auc"] <= 1
    curves = pl.read_csv(tmp_path / "roc" / "roc.csv")
    for name in ("euclidean", "learned"):
        curve = curves.filter(pl.col("method") == name)
        area = np.trapezoid(curve["true_positive_rate"], curve["false_positive_rate"])
        assert area == pytest.approx(answer[name]["auc"], abs=0.01)
    pl.DataFrame({"a": ["b0"] * 30, "b": ["b1"] * 30, "same": [1] * 30}).write_csv(
        tmp_path / "one.csv"
    )
    assert "only same pairs" in run("verify", tmp_path / "one.csv", *args, "--overwrite").err
    pl.DataFrame({"a": ["b0"] * 30, "b": ["b1"] * 30, "same": ["maybe"] * 30}).write_csv(
        tmp_path / "words.csv"
    )
    assert "'maybe'" in run("verify", tmp_path / "words.csv", *args, "--overwrite").err


def test_verify_compares_with_standardised_columns(run, csv, pairs, metric, frame):
    given = ("verify", pairs, "--data", csv, "--id", "bottle", "--metric", metric)
    answer = run(*given, "--json").json
    scaled = StandardScaler().fit_transform(
        frame.select(load_metric(metric).feature_names).to_numpy()
    )
    names = pl.read_csv(pairs)
    rows = names.select(pl.col("one", "other").str.strip_prefix("b").cast(int)).to_numpy()
    score = -np.linalg.norm(scaled[rows[:, 0]] - scaled[rows[:, 1]], axis=1)
    assert answer["standardised"]["auc"] == pytest.approx(
        roc_auc_score(names["same"], score), rel=0.01
    )
    assert answer["standardised"]["accuracy"] > answer["euclidean"]["accuracy"]
    assert "standardised" in run(*given).out


@pytest.mark.parametrize("seen", [False, True])
def test_verify_takes_words_and_gaps(run, frame, pairs, tmp_path, monkeypatch, seen):
    monkeypatch.setattr("conemetric.report.metric.write_report", lambda *args, **kwargs: None)
    rows = np.arange(178)
    words = pl.Series("colour", np.array(["red", "white", "rosé"])[rows // 60])
    path, out = tmp_path / "words.csv", tmp_path / "out"
    frame.with_columns(words, f3=pl.when(pl.Series(rows % 9 > 0)).then("f3")).write_csv(path)
    lines = pairs.read_text().splitlines()
    (tmp_path / "learned.csv").write_text("\n".join(lines[:150]))
    (tmp_path / "others.csv").write_text("\n".join([lines[0], *lines[150:]]))
    options = ("--id", "bottle", "--pairs", tmp_path / "learned.csv", "--ignore", "kind")
    assert run("learn", path, *options, "--out", out).code == 0
    given = tmp_path / ("learned.csv" if seen else "others.csv")
    args = ("--data", path, "--id", "bottle", "--metric", out / "metric.safetensors", "--json")
    answer = run("verify", given, *args).json
    assert answer["learned"]["auc"] > answer["euclidean"]["auc"] > 0.5
    assert ("100% of these pairs" in answer["alarm"]) == seen


@pytest.mark.parametrize("share", [0, 0.5, 1])
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.costly
def test_verify_says_when_it_is_given_its_own_training_pairs(
    run, csv, pairs, tmp_path, monkeypatch, share, many
):
    monkeypatch.setattr("conemetric.report.metric.write_report", lambda *args, **kwargs: None)
    if many:  # a sample of the pairs is known
        monkeypatch.setattr("conemetric.studies.constrained.MOST_KEYS", 60)
    lines = pairs.read_text().splitlines()
    learned = lines[1:150]
    known = {frozenset(line.split(",")[:2]) for line in learned}
    others = [line.split(",") for line in lines[150:]]
    others = [line for line in others if frozenset(line[:2]) not in known]
    (tmp_path / "learned.csv").write_text("\n".join([lines[0], *learned]))
    out = tmp_path / "out"
    options = ("--id", "bottle", "--pairs", tmp_path / "learned.csv", "--ignore", "kind")
    assert run("learn", csv, *options, "--out", out).code == 0
    turned = [f"{b},{a},{same}" for a, b, same in (line.split(",") for line in learned)]
    kept = turned[: round(share * 100)] + [
        ",".join(line) for line in others[: round((1 - share) * 100)]
    ]
    (tmp_path / "given.csv").write_text("\n".join([lines[0], *kept]))
    given = ("verify", tmp_path / "given.csv", "--data", csv, "--id", "bottle")
    metric = ("--metric", out / "metric.safetensors")
    answer = run(*given, *metric, "--json").json
    assert bool(answer["alarm"]) == (share > 0)
    rows = {row for line in learned for row in line.split(",")[:2]}
    of_given = {row for line in kept for row in line.split(",")[:2]}
    (note,) = [n for n in answer["notes"] if "errors on new rows" in n] or [""]
    assert bool(note) == (share == 0)
    if share == 0:
        told = float(re.search(r"Rows: (\d+)%", note)[1])
        assert told == pytest.approx(
            100 * len(rows & of_given) / len(of_given), abs=25 if many else 0.6
        )
    if share == 1:
        assert answer["alarm"].startswith("100% of these pairs are among those that the metric was")
    promise = run(*given, *metric, "--max-false-alarms", "0.2")
    assert (promise.code == 2 and "a guarantee needs other pairs" in promise.err) == (share > 0)


@pytest.mark.parametrize(("rate", "confidence"), [("0.05", "0.95"), ("0.2", "0.8")])
def test_verify_writes_a_promise_into_the_metric(run, csv, pairs, metric, rate, confidence):
    before = load_metric(metric)
    given = ("verify", pairs, "--data", csv, "--id", "bottle", "--metric", metric)
    promise = ("--max-false-alarms", rate, "--confidence", confidence)
    answer = run(*given, *promise, "--json").json
    learned, promised = load_metric(metric), answer["promise"]
    kept = learned.threshold_promise_
    assert (kept.alpha, kept.confidence) == (float(rate), float(confidence))
    assert promised["threshold"] == learned.threshold_ and promised["bound"] == kept.bound
    assert 0 < promised["same_recognised"] <= 1
    assert any("in more than one different pair" in note for note in answer["notes"])
    assert learned.certificate == before.certificate and learned.notes == before.notes
    shown = " ".join(run(*given, *promise).out.split())
    percent = f"{100 * float(rate):g}% of different pairs are called the same"
    assert percent in shown and "for pairs drawn like these" in shown
    assert run("inspect", metric, "--json").json["promise"]["n"] == kept.n
    assert run(*given, "--json").json["promise"] is None
    assert load_metric(metric).threshold_promise_ == kept


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-false-alarms", "0.001"), "takes at least 2,995"),
        (("--max-false-alarms", "1.5"), "--max-false-alarms 1.5 must be"),
        (("--max-false-alarms", "0.05", "--confidence", "0"), "--confidence 0.0 must be"),
    ],
)
def test_verify_refuses_a_promise_it_cannot_keep(run, csv, pairs, metric, options, message):
    before = metric.read_bytes()
    given = ("verify", pairs, "--data", csv, "--id", "bottle", "--metric", metric)
    assert message in run(*given, *options).err
    assert metric.read_bytes() == before


def test_inspect_tells_what_is_in_a_file(run, metric):
    answer = run("inspect", metric, "--json").json
    learned = load_metric(metric)
    assert answer["method"] == "FrobMetric" and answer["dimensions"] == len(learned.components)
    assert answer["certificate"]["relative_gap"] == learned.certificate.relative_gap
    np.testing.assert_allclose(
        answer["eigenvalues"], np.linalg.svd(learned.components, compute_uv=False) ** 2
    )
    assert "FrobMetric" in run("inspect", metric).out


@pytest.mark.parametrize("threshold", [0.5, float("inf")])
def test_inspect_shows_infinite_numbers_as_text(run, metric, threshold):
    learned = load_metric(metric).set_threshold(threshold)
    learned.certificate = replace(
        learned.certificate, dual=-float("inf"), gap=float("inf"), relative_gap=float("inf")
    )
    save_metric(metric, learned)
    answer = run("inspect", metric, "--json").json
    assert float(answer["threshold"]) == threshold and answer["promise"] is None
    assert answer["certificate"]["dual"] == "-inf"


def test_compare_sets_methods_side_by_side(run, csv, tmp_path):
    names = [method.name for method in methods_for("labels") if method.name in ("frob", "dml-eig")]
    chosen = [part for name in names for part in ("--method", name)]
    answer = run(
        "compare", csv, "--label", "kind", *chosen, "--out", tmp_path / "out", "--json"
    ).json
    assert [row["method"] for row in answer["results"]] == ["euclidean", *names]
    for name, row in zip(names, answer["results"][1:], strict=True):
        metric = load_metric(tmp_path / "out" / f"{name}.safetensors")
        assert metric.certificate.relative_gap == row["relative_gap"]
    assert "frob" in (tmp_path / "out" / "table.csv").read_text()


@pytest.mark.parametrize("delta", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("spectrum", ["flat", "steep", "few"])
def test_components_needed_are_the_fewest_that_keep_every_distance(spectrum, delta, seed):
    scales = {"flat": np.ones(8), "steep": 0.5 ** np.arange(8), "few": np.r_[1, 1, np.zeros(6)]}
    rows = np.random.default_rng(seed).normal(size=(30, 8)) * scales[spectrum]
    rows[1] = rows[0]  # equal rows constrain nothing
    n = components_needed(rows, delta)
    assert 1 <= n <= 8 and (spectrum != "few" or n <= 2)
    full = pdist(rows, "sqeuclidean")

    def best_delta(k):
        mapped = PCA(k).fit_transform(rows)
        kept = pdist(mapped, "sqeuclidean")[full > 0] / full[full > 0]
        return (kept.max() - kept.min()) / (kept.max() + kept.min())

    assert best_delta(n) <= delta + 1e-12
    assert all(best_delta(k) > delta for k in range(1, n))


def test_copies_of_rows_need_no_components(seed):
    rows = np.random.default_rng(seed).normal(size=(40, 30)) * np.exp(-np.arange(30.0))
    n = components_needed(rows, 0.2)
    assert n < 10
    assert components_needed(np.concatenate([rows, rows]), 0.2) == n


def test_compress_keeps_distances(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 20))
    np.save(tmp_path / "flat.npy", rows)
    args = ("--delta", "0.3", "--max-rows", "60", "--out", tmp_path / "out", "--json")
    answer = run("compress", tmp_path / "flat.npy", *args).json
    numax, pca = answer["results"]
    assert numax["dimensions"] <= 3 == pca["dimensions"] or numax["dimensions"] == pca["dimensions"]
    assert numax["change_99"] < 0.4
    assert load_metric(tmp_path / "out" / "metric.safetensors").method == "NuMax"


def test_pairs_outside_the_data_are_named(run, csv, metric, tmp_path):
    for rows, fault in (
        ([0, 500], "'b' has 500; the data have rows 0 to 177"),
        ([-2, 0], "'a' has -2; the data have rows"),
    ):
        pl.DataFrame(
            {"a": [rows[0], 1] * 20, "b": [rows[1], 2] * 20, "same": [1, 0] * 20}
        ).write_csv(tmp_path / "pairs.csv")
        result = run("verify", tmp_path / "pairs.csv", "--data", csv, "--metric", metric)
        assert result.code == 2 and fault in result.err


def test_warnings_are_lines_without_paths(run, tmp_path):
    rows = np.random.default_rng(0).normal(size=(40, 3))
    np.save(tmp_path / "twins.npy", np.vstack([rows, rows]))
    result = run("compress", tmp_path / "twins.npy", "--out", tmp_path / "out", "--json")
    assert result.code == 0
    assert (
        result.err.startswith("warning 40 pairs of rows coincide") and result.err.count("\n") == 1
    )


# ---- export and what is there already


def test_embed_leaves_out_rows_with_missing_values(
    run, frame, fitted, metric, tmp_path, monkeypatch
):
    monkeypatch.setattr(batches, "BATCH", 13 * 50)
    rows = np.arange(178)
    gone = (rows % 7 == 0) | ((rows >= 50) & (rows < 100))  # one batch has nothing left
    path, out = tmp_path / "holes.csv", tmp_path / "out.parquet"
    frame.with_columns(
        pl.when(pl.Series(gone)).then(None).otherwise(pl.col("f2")).alias("f2"),
        pl.lit("kept").alias("extra"),
    ).write_csv(path)
    args = ("embed", path, "--metric", metric, "--json", "--out")
    result = run(*args, out)
    assert (
        result.code == 2 and "row 0 has a missing" in result.err and "--drop-missing" in result.err
    )
    for out in (tmp_path / "out.parquet", tmp_path / "out.npy"):
        result = run(*args, out, "--drop-missing")
        assert result.json["rows"] == (~gone).sum() and result.json["dropped"] == gone.sum()
        np.testing.assert_allclose(read(out), fitted.transform(X[~gone]), atol=1e-9)
    bottles = pl.read_parquet(tmp_path / "out.parquet")["bottle"].to_list()
    assert bottles == frame["bottle"].filter(~gone).to_list()


@pytest.mark.parametrize("command", ["embed", "neighbors", "verify", "export"])
def test_files_that_are_there_stay(run, csv, pairs, metric, tmp_path, command):
    out = tmp_path / "out.csv"
    out.write_text("mine")
    arguments = {
        "embed": (csv, "--metric", metric, "--out", out),
        "neighbors": (csv, "--metric", metric, "--out", out),
        "verify": (pairs, "--data", csv, "--metric", metric, "--id", "bottle", "--out", tmp_path),
        "export": (metric, "--to", "sql", "--out", out),
    }[command]
    (tmp_path / "roc.csv").write_text("mine")
    result = run(command, *arguments)
    assert result.code == 2 and "exists already" in result.err and "--overwrite" in result.err
    assert out.read_text() == (tmp_path / "roc.csv").read_text() == "mine"
    assert run(command, *arguments, "--overwrite").code == 0
    written = tmp_path / "roc.csv" if command == "verify" else out
    assert written.read_text() != "mine"


@pytest.mark.parametrize("to", ["faiss", "onnx", "sql"])
def test_export_writes_what_the_library_reads(run, metric, fitted, tmp_path, to):
    out = tmp_path / "there"
    result = run("export", metric, "--to", to, "--out", out, "--json")
    assert result.code == 0 and result.json["dimensions"] == len(fitted[-1].components_)
    few = X[:5].astype(np.float32)
    if to == "faiss":
        mapped = pytest.importorskip("faiss").read_VectorTransform(str(out)).apply(few)
    elif to == "onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(str(out))
        (mapped,) = session.run(None, {"X": few})
    else:
        return
    np.testing.assert_allclose(mapped, fitted.transform(X[:5]), atol=1e-3)


@pytest.mark.parametrize("to", ["json", "pgvector", "elasticsearch"])
def test_export_of_weights_that_a_metric_does_not_have(run, metric, tmp_path, to):
    result = run("export", metric, "--to", to, "--out", tmp_path / "x")
    assert result.code == 2 and f"--to {to} writes learned weights" in result.err
    assert "use one of faiss, onnx" in result.err and not (tmp_path / "x").exists()


def test_export_refuses_what_it_does_not_know(run, metric, tmp_path):
    result = run("export", metric, "--to", "excel", "--out", tmp_path / "x")
    assert result.code == 2 and "use one of faiss, onnx" in result.err
    result = run("export", metric, "--to", "sentence-transformers", "--out", tmp_path)
    assert result.code == 2 and "modules.json" in result.err
