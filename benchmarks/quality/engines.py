"""Whether search engines return what `rank` returns when they run an exported ranking.

For each engine, the adapter is learned with ``target=`` this engine from the lists of words that the
engine itself returns, on half of the judged queries; its export is run in the engine on the others. A
line has the queries whose first ten are those of `rank` (documents whose scores differ by less than a
rounding may change places), and nDCG@10 of both; C = 0.1, so that words always have a weight. "dense"
are the first ten by mapped queries alone, of an adapter without words. Engines that are not installed
are left out; ``python -m pip install '.[engines]'`` brings them all.

    python -m benchmarks engines --engines pgvector sqlite --documents 500 --queries 96

Data: ir_hybrid_cranfield and its texts
Minutes: 2
"""

import importlib.metadata
import re
import sqlite3
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np

from conemetric import QueryAdapter
from conemetric.export import Examples, postgres_connection, postgres_scores, to_hybrid_query
from conemetric.ranking.lexical import BM25Vectors, engine_scores
from conemetric.ranking.measures import ndcg

from ..command import command_parser
from ..data import load_collection, load_texts, unit_rows
from ..output import print_row

ROUNDING = 1e-5  # of float32 scores, which engines store
WINDOW = 200


class Engine:
    """An engine that holds documents; ``columns`` are its lists of words for some queries."""

    packages: tuple[str, ...] = ()

    def __init__(self, documents, texts):
        self.documents, self.texts = np.asarray(documents, np.float32), texts
        self.closing = ExitStack()
        self.open()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.closing.close()

    @property
    def version(self):
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in self.packages)

    def ranking(self, adapter, queries, texts):
        """The first ten of every query by the adapter's export."""
        exported = to_hybrid_query(adapter)
        mapped = np.asarray(adapter.transform_queries(unit_rows(queries, np.float64)), np.float32)
        return [self.hybrid(exported, *query) for query in zip(mapped, texts, strict=True)]


class Postgres(Engine):
    packages = ("psycopg",)

    def open(self):
        self.connection = self.closing.enter_context(postgres_connection())
        self.connection.execute("CREATE EXTENSION vector")
        self.connection.execute(
            f"CREATE TABLE items (id integer, embedding vector({self.documents.shape[1]}), "
            "words tsvector)"
        )
        with self.connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO items VALUES (%s, %s, to_tsvector('english', %s))",
                [
                    (i, str(row.tolist()), text)
                    for i, (row, text) in enumerate(zip(self.documents, self.texts, strict=True))
                ],
            )

    @property
    def version(self):
        of = "SELECT current_setting('server_version'), extversion FROM pg_extension"
        server, vector = self.connection.execute(f"{of} WHERE extname = 'vector'").fetchone()
        return f"PostgreSQL {server}, pgvector {vector}"

    def columns(self, texts):
        return {"words": postgres_scores(texts, self.texts, self.connection, n_listed=WINDOW)}

    def ranking(self, adapter, queries, texts):
        scores = self.columns(texts[:10])
        first, _ = adapter.rank(queries[:10], self.documents, scores)
        stored = Examples(queries[:10], texts[:10], first.tolist())
        self.connection.execute(to_hybrid_query(adapter, examples=stored))
        rank = "SELECT id FROM learned_rank(%s::vector, %s, 10)"
        return [
            [row[0] for row in self.connection.execute(rank, (str(vector.tolist()), text))]
            for vector, text in zip(np.asarray(queries, np.float32), texts, strict=True)
        ]

    def nearest(self, vector):
        order = "SELECT id FROM items ORDER BY embedding <=> %s::vector LIMIT 10"
        return [row[0] for row in self.connection.execute(order, (str(vector.tolist()),))]


class Sqlite(Engine):
    packages = ("sqlite-vec",)

    def open(self):
        import sqlite_vec

        path = sqlite_vec.loadable_path()
        if hasattr(sqlite3.Connection, "enable_load_extension"):
            self.connection, self.sqlite = sqlite3.connect(":memory:"), sqlite3.sqlite_version
        else:
            import apsw

            self.connection, self.sqlite = apsw.Connection(":memory:"), apsw.sqlite_lib_version()
        self.closing.callback(self.connection.close)
        self.connection.enable_load_extension(True)
        self.connection.load_extension(path)
        run = self.connection.cursor()
        run.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, embedding BLOB)")
        run.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61')")
        for i, (row, text) in enumerate(zip(self.documents, self.texts, strict=True)):
            run.execute("INSERT INTO items VALUES (?, ?)", (i, row.tobytes()))
            run.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (i, text))

    @property
    def version(self):
        return f"SQLite {self.sqlite}, {super().version}"

    def columns(self, texts):
        listed = "SELECT rowid, -rank AS score FROM words WHERE words MATCH ? ORDER BY score DESC"
        listed += f", rowid LIMIT {WINDOW}"
        cursor = self.connection.cursor()

        def search(text):
            return list(cursor.execute(listed, (any_word(text),)))

        return {"words": engine_scores(search, texts, range(len(self.texts)))}

    def hybrid(self, exported, vector, text):
        answer = self.connection.cursor().execute(exported, (vector.tobytes(), any_word(text)))
        return [row[0] for row in answer]

    def nearest(self, vector):
        order = "SELECT id FROM items ORDER BY vec_distance_cosine(embedding, ?) LIMIT 10"
        return [row[0] for row in self.connection.cursor().execute(order, (vector.tobytes(),))]


def any_word(text):
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", text)) or '""'


class WithVectors(Engine):
    """An engine whose lists of words are those of sparse vectors of ours."""

    def columns(self, texts):
        return {"words": self.vectors.listed(texts, WINDOW)}


class DuckDB(WithVectors):
    packages = ("duckdb",)

    def open(self):
        import duckdb

        self.vectors = BM25Vectors(self.texts)
        self.connection = self.closing.enter_context(duckdb.connect())
        width = self.documents.shape[1]
        self.connection.execute(f"CREATE TABLE items (id INTEGER, embedding FLOAT[{width}])")
        self.connection.execute("CREATE TABLE words (word VARCHAR, id INTEGER, score DOUBLE)")
        self.connection.executemany(
            "INSERT INTO items VALUES (?, ?)",
            [[i, row.tolist()] for i, row in enumerate(self.documents)],
        )
        weights, names = self.vectors.documents.tocoo(), list(self.vectors.vocabulary)
        place = np.empty(len(names), object)
        place[list(self.vectors.vocabulary.values())] = names
        rows = zip(
            place[weights.coords[1]],
            *map(np.ndarray.tolist, (weights.coords[0], weights.data)),
            strict=True,
        )
        text = ", ".join(f"('{word}', {document}, {score!r})" for word, document, score in rows)
        self.connection.execute(f"INSERT INTO words VALUES {text}")

    def hybrid(self, exported, vector, text):
        (words,) = self.vectors.words([text])
        return [
            row[0] for row in self.connection.execute(exported, [vector.tolist(), words]).fetchall()
        ]

    def nearest(self, vector):
        order = f"array_cosine_similarity(embedding, $1::FLOAT[{len(vector)}]) DESC LIMIT 10"
        found = self.connection.execute(f"SELECT id FROM items ORDER BY {order}", [vector.tolist()])
        return [row[0] for row in found.fetchall()]


def entries(matrix, row):
    part = slice(*matrix.indptr[row : row + 2])
    return matrix.indices[part].tolist(), matrix.data[part].tolist()


class Qdrant(WithVectors):
    packages = ("qdrant-client",)

    def open(self):
        from qdrant_client import QdrantClient, models

        self.vectors, self.models = BM25Vectors(self.texts), models
        self.client = QdrantClient(":memory:")
        self.closing.callback(self.client.close)
        size = self.documents.shape[1]
        self.client.create_collection(
            "items",
            {"embedding": models.VectorParams(size=size, distance=models.Distance.DOT)},
            sparse_vectors_config={"words": models.SparseVectorParams()},
        )
        points = []
        for i, row in enumerate(self.documents):
            vector = {"embedding": row.tolist(), "words": self.sparse(self.vectors.documents, i)}
            points.append(models.PointStruct(id=i, vector=vector))
        self.client.upsert("items", points)

    def sparse(self, matrix, row):
        places, values = entries(matrix, row)
        return self.models.SparseVector(indices=places, values=values)

    def hybrid(self, exported, vector, text):
        query = self.sparse(self.vectors.transform([text]), 0)
        if not query.indices:  # no word is known
            return self.nearest(vector)
        values = {"{{embedding}}": vector.tolist(), "{{words}}": query.model_dump()}
        request = self.models.QueryRequest.model_validate(filled(exported, values))
        found = self.client.query_points(
            "items", prefetch=request.prefetch, query=request.query, limit=request.limit
        )
        return [point.id for point in found.points]

    def nearest(self, vector):
        found = self.client.query_points(
            "items", query=vector.tolist(), using="embedding", limit=10
        )
        return [point.id for point in found.points]


def filled(value, values):
    """A document with its placeholders replaced."""
    if isinstance(value, dict):
        return {key: filled(each, values) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, values) for each in value]
    return values.get(value, value) if isinstance(value, str) else value


class Milvus(WithVectors):
    packages = ("milvus-lite", "pymilvus")

    def open(self):
        from pymilvus import DataType, MilvusClient

        self.vectors = BM25Vectors(self.texts)
        folder = self.closing.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        self.client = MilvusClient(str(Path(folder, "items.db")))
        self.closing.callback(self.client.close)
        schema, index = self.client.create_schema(), self.client.prepare_index_params()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=self.documents.shape[1])
        schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
        index.add_index("embedding", index_type="FLAT", metric_type="IP")
        index.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="IP")
        self.client.create_collection("items", schema=schema, index_params=index)
        self.client.insert(
            "items",
            [
                {
                    "id": i,
                    "embedding": row.tolist(),
                    "words": dict(zip(*entries(self.vectors.documents, i), strict=True)),
                }
                for i, row in enumerate(self.documents)
            ],
        )

    def hybrid(self, exported, vector, text):
        from pymilvus import AnnSearchRequest, Function, FunctionType

        words = dict(zip(*entries(self.vectors.transform([text]), 0), strict=True))
        if not words:
            return self.nearest(vector)
        data = {"embedding": vector.tolist(), "words": words}
        searches = [
            AnnSearchRequest([data[each["anns_field"]]], param={"metric_type": "IP"}, **each)
            for each in exported["searches"]
        ]
        rerank = Function("sum", FunctionType.RERANK, [], params=exported["rerank"])
        found = self.client.hybrid_search("items", searches, rerank, limit=exported["limit"])
        return [hit["id"] for hit in found[0]]

    def nearest(self, vector):
        found = self.client.search(
            "items",
            [vector.tolist()],
            anns_field="embedding",
            limit=10,
            search_params={"metric_type": "IP"},
        )
        return [hit["id"] for hit in found[0]]


class LanceDB(Engine):
    packages = ("lancedb",)

    def open(self):
        import lancedb

        folder = self.closing.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        rows = [
            {"id": i, "vector": row.tolist(), "text": text}
            for i, (row, text) in enumerate(zip(self.documents, self.texts, strict=True))
        ]
        self.table = lancedb.connect(folder).create_table("items", rows)
        self.table.create_fts_index("text")

    def columns(self, texts):
        from lancedb.query import MatchQuery

        def search(text):
            found = self.table.search(MatchQuery(text, "text"), query_type="fts").limit(WINDOW)
            return [(row["id"], row["_score"]) for row in found.to_list()]

        return {"words": engine_scores(search, texts, range(len(self.texts)))}

    def hybrid(self, exported, vector, text):
        from lancedb.query import MatchQuery
        from lancedb.rerankers import LinearCombinationReranker

        query = self.table.search(query_type="hybrid").vector(vector.tolist())
        query = query.text(MatchQuery(text, "text")).distance_type("cosine")
        query = query.rerank(LinearCombinationReranker(**exported["reranker"]))
        return [row["id"] for row in query.limit(exported["limit"]).to_list()[:10]]

    def nearest(self, vector):
        found = self.table.search(vector.tolist()).distance_type("cosine").limit(10)
        return [row["id"] for row in found.to_list()]


class Chroma(Engine):
    """Vectors only: Chroma has no score of words outside its cloud."""

    packages = ("chromadb",)
    columns = None

    def open(self):
        import chromadb

        client = chromadb.EphemeralClient()
        space = {"hnsw": {"space": "cosine", "ef_search": len(self.documents)}}
        self.collection = client.create_collection("items", configuration=space)
        self.closing.callback(client.delete_collection, "items")
        self.collection.add(ids=[str(i) for i in range(len(self.texts))], embeddings=self.documents)

    def nearest(self, vector):
        found = self.collection.query(query_embeddings=[vector], n_results=10)
        return [int(name) for name in found["ids"][0]]


ENGINES = {
    "pgvector": Postgres,
    "duckdb": DuckDB,
    "sqlite": Sqlite,
    "qdrant": Qdrant,
    "milvus": Milvus,
    "lancedb": LanceDB,
    "chroma": Chroma,
}


def same(found, expected, scores):
    """Whether a ranking is the expected one: documents whose scores (of all) differ by less than
    a rounding may change places.
    """
    found, expected = list(found), [document for document in expected if document >= 0]
    if len(found) != len(expected) or len(set(found)) != len(found):
        return False
    values = np.array([scores.get(document, -np.inf) for document in found])
    best = np.array([scores[document] for document in expected])
    return bool((abs(values - best) <= ROUNDING * (1 + abs(best))).all())


def compared(adapter, queries, documents, columns, found):
    """Which queries have the expected first ten, and that ranking."""
    deep, scores = adapter.rank(queries, documents, columns, len(documents))
    listed = [
        dict(zip(*row, strict=True)) for row in zip(deep.tolist(), scores.tolist(), strict=True)
    ]
    pairs = zip(found, deep[:, :10].tolist(), listed, strict=True)
    return [same(*pair) for pair in pairs], deep[:, :10]


def judged(found, relevance):
    first = np.full((len(found), 10), -1)
    for row, documents in zip(first, found, strict=True):
        row[: len(documents)] = documents
    return 100 * float(np.nanmean(ndcg(first, relevance)))


class Half(NamedTuple):
    """Some of the queries, their texts, and what is relevant to them."""

    queries: np.ndarray
    texts: list[str]
    relevance: np.ndarray

    @classmethod
    def of(cls, judged, texts, numbers):
        """The queries of these numbers."""
        kept = np.isin(np.arange(len(judged.queries)), numbers)
        part = judged.part(kept)
        relevance = part.relevance[part.relevance[:, 2] > 0]
        return cls(part.queries, [texts[i] for i in np.flatnonzero(kept)], relevance)


def measure(name, documents, texts, train, test):
    """Print a line."""
    with ENGINES[name](documents, texts) as engine:
        form = "dense"
        cells = ["", "", ""]
        adapter = QueryAdapter(0.1, random_state=0)
        columns = [None, None]
        if engine.columns is not None:
            form = "hybrid, dense"
            adapter.target = name
            columns = [engine.columns(part.texts) for part in (train, test)]
        adapter.fit(train.queries, documents, train.relevance, scores=columns[0])
        if columns[1] is not None:
            found = engine.ranking(adapter, test.queries, test.texts)
            equal, ours = compared(adapter, test.queries, documents, columns[1], found)
            ndcgs = (judged(ranking, test.relevance) for ranking in (ours.tolist(), found))
            cells = [f"{sum(equal)} of {len(equal)}", *(f"{value:.2f}" for value in ndcgs)]
        alone = QueryAdapter(1.0, random_state=0).fit(train.queries, documents, train.relevance)
        mapped = np.asarray(alone.transform_queries(test.queries), np.float32)
        near = [engine.nearest(vector) for vector in mapped]
        equal, _ = compared(alone, test.queries, documents, None, near)
        dense = f"{sum(equal)} of {len(equal)}"
        print_row(f"{name:10s} {engine.version:38s} {form:14s}", [*cells, dense], 65, 12)


def installed(name):
    try:
        return ENGINES[name].packages and all(
            map(importlib.metadata.version, ENGINES[name].packages)
        )
    except importlib.metadata.PackageNotFoundError:
        return False


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--documents", type=int, default=500)
    parser.add_argument("--queries", type=int, default=96, help="to judge on, at most")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    whole = load_collection("ir_hybrid_cranfield", dtype=np.float64).judged
    texts = load_texts("ir_hybrid_cranfield")
    n = options.documents
    kept = whole.relevance[:, 1] < n
    some = whole._replace(documents=whole.documents[:n], relevance=whole.relevance[kept])
    relevant = some.relevance[some.relevance[:, 2] > 0]
    queries = np.random.default_rng(0).permutation(np.unique(relevant[:, 0]))
    half = max(len(queries) // 2, len(queries) - options.queries)
    train = Half.of(some, texts["queries"], queries[:half])
    test = Half.of(some, texts["queries"], queries[half:])
    print(f"{n} documents, {half} queries to learn from")
    heads = ("same hybrid", "nDCG rank", "nDCG engine", "same dense")
    print_row(f"{'engine':10s} {'version':38s} {'form':14s}", heads, 65, 12)
    for name in options.engines:
        if installed(name):
            measure(name, some.documents, texts["docs"][:n], train, test)
        else:
            print(f"{name:10s} not installed")
