"""``conemetric adapt``: the same answer from every form that collections have, files that
work, and faults that are named.
"""

import csv
import json

import numpy as np
import polars as pl
import pytest

from conemetric import load_metric
from conemetric.cli.reading.collections import read_collection, read_judgements
from conemetric.cli.reading.reading import Sources
from conemetric.datasets import JudgedTexts, reference_pages
from conemetric.ranking.measures import ndcg, rank

pytestmark = pytest.mark.usefixtures("no_report")
N_QUERIES, N_DOCUMENTS, D = 60, 80, 6


@pytest.fixture
def collection():
    """Queries whose features stand one place off from those of their document."""
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(N_DOCUMENTS, D)).astype(np.float32)
    relevant = rng.integers(N_DOCUMENTS, size=N_QUERIES)
    queries = np.roll(documents[relevant], 1, axis=1)
    relevance = np.column_stack([np.arange(N_QUERIES), relevant, np.full(N_QUERIES, 2)])
    return queries, documents, relevance


@pytest.fixture
def npz(collection, tmp_path):
    path = tmp_path / "small.npz"
    names = ("queries", "documents", "relevance")
    np.savez(path, **dict(zip(names, collection, strict=True)))
    return path


def table(path, ids, X, texts=None):
    """Ids, vectors and texts as Parquet or JSON lines."""
    columns = {"_id": ids, "embedding": pl.Series(X.tolist(), dtype=pl.List(pl.Float32))}
    if texts is not None:
        columns["text"] = texts
    frame = pl.DataFrame(columns)
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_ndjson(path)
    return path


def test_a_collection_gives_adapter_table_and_report(
    run, written_report, npz, collection, tmp_path
):
    queries, documents, relevance = collection
    out = tmp_path / "out"
    result = run("adapt", npz, "--out", out, "--map", "queries", "--json")
    assert result.code == 0, result.err
    answer = result.json
    assert answer["map"] == "queries" and answer["status"] == "converged"
    assert answer["held_out"] == 18 and answer["documents"] == N_DOCUMENTS
    with open(out / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    held_out = [int(row["query"]) for row in rows]
    adapter = load_metric(out / "adapter.safetensors")
    # what was written is what was judged
    for label, mapped in (("before", queries), ("after", adapter.transform(queries))):
        values = ndcg(
            rank(mapped[held_out].astype(np.float32), documents, 10), of(held_out, relevance)
        )
        np.testing.assert_allclose(
            [float(row[f"nDCG@10 {label}"]) for row in rows], values, atol=1e-6
        )
    means = answer["means"]
    assert means["before"]["nDCG@10"] < 0.5 < means["queries"]["nDCG@10"]
    change = answer["differences"]["nDCG@10"]
    assert change["low"] < means["queries"]["nDCG@10"] - means["before"]["nDCG@10"] < change["high"]
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    written = sorted(path.name for path in out.iterdir())
    assert written == ["adapter.safetensors", "report.html", "table.csv"]


def test_judgements_without_grades_in_a_report(run, written_report, collection, tmp_path):
    queries, documents, relevance = collection
    path, out = tmp_path / "ungraded.npz", tmp_path / "out"
    np.savez(path, queries=queries, documents=documents, relevance=relevance[:, :2])
    assert run("adapt", path, "--out", out, "--map", "queries").code == 0
    assert "<strong>relevant</strong>" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.costly
@pytest.mark.parametrize("sure", [True, False])
def test_the_last_lines_say_how_sure_the_gain_is(run, npz, tmp_path, monkeypatch, sure):
    monkeypatch.setattr("conemetric.studies.adapting.SIGNIFICANT", 1.0 if sure else -1.0)
    result = run("adapt", npz, "--out", tmp_path / "out", "--map", "queries")
    verdict = result.out.index("mean nDCG@10")
    assert result.out.index("written to") < verdict
    assert ("collect judgements" in result.out) != sure
    assert ("load_metric" in result.out[verdict:]) == sure  # code only for what is worth using


def of(queries, relevance):
    """Judgements of some queries, numbered anew."""
    return np.concatenate(
        [
            np.column_stack([np.full(len(rows), i), rows[:, 1:]])
            for i, rows in enumerate(relevance[relevance[:, 0] == query] for query in queries)
        ]
    )


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "jsonl", "csv"])
@pytest.mark.parametrize("qrels", ["trec", "tsv", "headed", "parquet", "npy"])
def test_every_form_gives_the_same_collection(collection, tmp_path, kind, qrels):
    queries, documents, relevance = collection
    paths = {}
    for name, X in (("queries", queries), ("documents", documents)):
        paths[name] = path = tmp_path / f"{name}.{kind}"
        ids = [f"{name[0]}{row}" for row in range(len(X))]
        if kind == "npy":
            np.save(path, X)
        elif kind == "npz":
            np.savez(path, X=X, ids=ids)
        elif kind == "csv":
            pl.DataFrame(X).insert_column(0, pl.Series("id", ids)).write_csv(path)
        else:
            table(path, ids, X)
    named = kind != "npy"
    if qrels == "npy" and named:
        pytest.skip("names are not numbers")
    rows = [[f"q{q}", f"d{d}", g] if named else [q, d, g] for q, d, g in relevance.tolist()]
    path = tmp_path / f"qrels.{qrels if qrels in ('parquet', 'npy') else 'txt'}"
    if qrels == "parquet":
        pl.DataFrame(rows, schema=["query", "document", "grade"], orient="row").write_parquet(path)
    elif qrels == "npy":
        np.save(path, relevance)
    else:
        lines = {
            "trec": [f"{q} 0 {d} {g}" for q, d, g in rows],
            "tsv": [f"{q}\t{d}\t{g}" for q, d, g in rows],
            "headed": ["query-id\tcorpus-id\tscore", *(f"{q}\t{d}\t{g}" for q, d, g in rows)],
        }
        path.write_text("\n".join(lines[qrels]) + "\n")
    found, notes = read_collection(
        None, Sources(queries=paths["queries"], documents=paths["documents"], relevance=path)
    )
    np.testing.assert_allclose(found.queries, queries, atol=1e-6)
    np.testing.assert_allclose(found.documents, documents, atol=1e-6)
    np.testing.assert_array_equal(found.relevance, relevance)
    assert found.test is None and notes == []
    assert (found.query_names is None) == (not named)


def beir(folder, collection):
    """BEIR's layout, with the vectors beside the texts."""
    queries, documents, relevance = collection
    folder.mkdir()
    for stem, X in (("queries", queries), ("corpus", documents)):
        np.save(folder / f"{stem}.npy", X)
        lines = [
            json.dumps({"_id": f"{stem[0]}{row}", "text": f"text {row}"}) for row in range(len(X))
        ]
        (folder / f"{stem}.jsonl").write_text("\n".join(lines))
    (folder / "qrels").mkdir()
    head = "query-id\tcorpus-id\tscore"
    lines = [f"q{q}\tc{d}\t{g}" for q, d, g in relevance.tolist()]
    (folder / "qrels" / "train.tsv").write_text("\n".join([head, *lines[:40]]))
    (folder / "qrels" / "test.tsv").write_text("\n".join([head, *lines[40:], "q3\tnowhere\t1"]))


def test_a_folder_in_beirs_layout_keeps_its_split_and_its_texts(run, collection, tmp_path):
    beir(tmp_path / "beir", collection)
    out = tmp_path / "out"
    result = run("adapt", tmp_path / "beir", "--map", "queries", "--out", out, "--json")
    assert result.code == 0, result.err
    assert result.json["held_out"] == 20
    assert any("Ignored: 1 of 21 judgements in 'test.tsv'" in note for note in result.json["notes"])
    with open(out / "table.csv", newline="") as file:
        assert [row["query"] for row in csv.DictReader(file)] == [f"q{q}" for q in range(40, 60)]
    found, _ = read_collection(tmp_path / "beir", Sources())
    assert found.document_texts[7] == "text 7"


def test_without_files_there_is_an_example_at_hand(run, tmp_path, monkeypatch):
    few = JudgedTexts(*(part[:150] for part in reference_pages()))
    monkeypatch.setattr("conemetric.cli.reading.collections.reference_pages", lambda: few)
    result = run("adapt", "--map", "queries", "--out", tmp_path / "out", "--json")
    assert result.code == 0, result.err
    assert result.json["data"] == "reference pages" and result.json["documents"] == 150
    assert any("Without a collection" in note for note in result.json["notes"])


@pytest.mark.parametrize("map_", ["queries", "both"])
@pytest.mark.parametrize("components", [None, 4])
@pytest.mark.costly
def test_the_snippet_ranks_as_the_table_says(
    run, npz, collection, tmp_path, monkeypatch, map_, components
):
    queries, documents, relevance = collection
    out = tmp_path / "out"
    short = [] if components is None else ["--components", components]
    monkeypatch.setattr("conemetric.studies.adapting.Adaptation.helps", True)
    result = run("adapt", npz, "--map", map_, "--out", out, "--json", *short)
    assert result.code == 0, result.err
    told = run("adapt", npz, "--map", map_, "--out", tmp_path / "again", *short)
    code = told.out[told.out.index("from conemetric import load_metric") :]
    assert str(tmp_path / "again" / "adapter.safetensors") in code
    unit = [X / np.linalg.norm(X, axis=1, keepdims=True) for X in (queries, documents)]
    place = {"query_vectors": unit[0], "document_vectors": unit[1]}
    exec(code, place)
    index = place.get("index", unit[1])
    if components is not None:
        assert index.shape[1] == place["found"].shape[1] <= components  # the rank, where lower
    with open(out / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    held_out = [int(row["query"]) for row in rows]
    similarity = "euclidean" if map_ == "both" else "cosine"
    values = ndcg(rank(place["found"][held_out], index, 10, similarity), of(held_out, relevance))
    np.testing.assert_allclose([float(row["nDCG@10 after"]) for row in rows], values, atol=1e-6)
    values = ndcg(place["first"][held_out], of(held_out, relevance))
    np.testing.assert_allclose([float(row["nDCG@10 after"]) for row in rows], values, atol=1e-6)


def test_both_maps_are_tried_and_the_surer_is_told_to_people(run, npz, tmp_path):
    result = run("adapt", npz, "--out", tmp_path / "out")
    assert result.code == 0 and result.err == ""
    assert "queries only, the index stays" in result.out
    assert "of what was tried" in result.out and "proven within" in result.out


def test_an_embedding_that_cannot_be_helped_is_left_as_it_is(run, tmp_path):
    """Every query is its document: nothing ranks better than the embedding."""
    X = np.random.default_rng(1).normal(size=(40, 4))
    path = tmp_path / "same.npz"
    np.savez(path, queries=X, docs=X, qrels=np.column_stack([np.arange(40)] * 2))
    result = run("adapt", path, "--out", tmp_path / "out", "--map", "queries", "--json")
    assert result.code == 0, result.err
    assert result.json["setting"]["C"] == 0
    assert result.json["differences"]["nDCG@10"]["difference"] == 0
    assert any("left as it is" in note for note in result.json["notes"])


def test_an_index_by_inner_product_gets_a_map_of_queries(run, npz, tmp_path):
    result = run("adapt", npz, "--similarity", "inner", "--out", tmp_path / "out", "--json")
    assert result.code == 0, result.err
    assert result.json["map"] == "queries" and list(result.json["means"]) == ["before", "queries"]


def test_texts_are_encoded_by_a_model(run, tmp_path):
    """A bag of words: every word has a vector of its own."""
    models = pytest.importorskip("sentence_transformers.models")
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer, pre_tokenizers
    from tokenizers import models as token_models

    words = [f"w{i}" for i in range(24)]
    tokenizer = Tokenizer(
        token_models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="w0")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.random.default_rng(0).normal(size=(24, 8)).astype(np.float32)
    bag = models.StaticEmbedding(tokenizer, embedding_weights=vectors)
    SentenceTransformer(modules=[bag], device="cpu").save(str(tmp_path / "model"))
    rng = np.random.default_rng(0)
    documents = [" ".join(words[w] for w in rng.integers(1, 24, size=3)) for _ in range(50)]
    pl.DataFrame({"id": range(50), "text": documents}).write_csv(tmp_path / "documents.csv")
    queries = [text.split()[0] for text in documents]
    pl.DataFrame({"id": range(50), "text": queries}).write_csv(tmp_path / "queries.csv")
    (tmp_path / "qrels.csv").write_text("\n".join(f"{i},{i}" for i in range(50)))
    files = [f"--{name}={tmp_path / name}.csv" for name in ("queries", "documents")]
    files += ["--relevance", tmp_path / "qrels.csv", "--map", "queries"]
    result = run("adapt", *files, "--encode", tmp_path / "model", "--out", tmp_path / "o", "--json")
    assert result.code == 0, result.err
    assert load_metric(tmp_path / "o" / "adapter.safetensors").components.shape == (8, 8)
    refused = run("adapt", *files, "--out", tmp_path / "p")
    assert refused.code == 2 and "--encode MODEL" in refused.err


def test_judgements_without_grades_and_with_headers(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("query,document\n3,4\n5,6\n")
    assert read_judgements(path).rows() == [("3", "4", 1), ("5", "6", 1)]
    path.write_text("q1 Q0 d7 2\nq1 Q0 d8 0\n")
    assert read_judgements(path).rows() == [("q1", "d7", 2), ("q1", "d8", 0)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": None}, "missing --queries:"),
        ({"queries": np.ones((N_QUERIES, 5))}, "vectors of 5 numbers"),
        ({"queries": np.full((N_QUERIES, D), np.inf)}, "missing or infinite"),
        ({"relevance": "900 0 3 1\n"}, "names no query and document"),
        ({"relevance": "1 0 3 1\n2 3\n"}, "line 2 has 2 fields where the first has 4"),
        ({"relevance": "1\t3\t1\n1\t4\thigh\n"}, "not whole numbers"),
        ({"relevance": "1 0 3 0\n2 0 4 0\n"}, "none with a grade above 0"),
        ({"relevance": "1 0 3 1\n2 0 4 1\n3 0 4 1\n"}, "3 queries have a relevant document"),
        ({"--map": "documents"}, "map='documents' is not known"),
        ({"--similarity": "l1"}, "similarity='l1' is not known"),
        ({"--map": "both", "--similarity": "inner"}, "use map='queries'"),
        ({"--components": 50}, "n_components=50 is more"),
    ],
)
def test_faults_are_named(run, collection, tmp_path, change, message):
    queries, documents, relevance = collection
    parts = {"queries": queries, "documents": documents}
    text = "\n".join(f"{q} 0 {d} {g}" for q, d, g in relevance.tolist())
    (tmp_path / "qrels.txt").write_text(change.get("relevance", text))
    arguments = ["--relevance", tmp_path / "qrels.txt", "--out", tmp_path / "out"]
    for name, X in {**parts, **change}.items():
        if name.startswith("--"):
            arguments += [name, X]
        elif name in parts and X is not None:
            np.save(tmp_path / f"{name}.npy", X)
            arguments += [f"--{name}", tmp_path / f"{name}.npy"]
    result = run("adapt", *arguments)
    assert result.code == 2 and message in " ".join(result.err.split()), result.err
    assert not (tmp_path / "out" / "adapter.safetensors").exists()


def test_other_places_are_refused(run, npz, tmp_path):
    result = run("adapt", npz, "--queries", npz)
    assert result.code == 2 and "and separate files" in " ".join(result.err.split())
    (tmp_path / "empty").mkdir()
    result = run("adapt", tmp_path / "empty")
    err = " ".join(result.err.split())
    assert result.code == 2 and "missing --queries and --documents and --relevance: pass" in err
    np.savez(tmp_path / "other.npz", X=np.ones((3, 2)))
    result = run("adapt", tmp_path / "other.npz")
    assert result.code == 2 and "neither a folder" in " ".join(result.err.split())
