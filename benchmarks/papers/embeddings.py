"""What a learned metric does for frozen text embeddings: neighbours' labels, retrieval,
and compression.
"""

from dataclasses import dataclass
from functools import lru_cache

from conemetric.evaluation.knn import knn_error, nearest_labels, neighbour_recall

from ..data import load
from .experiment import BOOSTING, Competitor, Experiment, on_device, ours, timed

SET = "debian_minilm384"
CLASSIFIERS = ("logistic regression",)  # their error stands in the k-NN columns


def _parts(name):
    data = load(name)
    n = data.n_train
    return data.X[:n], data.y[:n], data.X[n:], data.y[n:]


@lru_cache(maxsize=64)
def _fitted(experiment, method):
    """A fitted method and its time; the columns of a table share it."""
    X, y, _, _ = _parts(SET)
    row = {table.name: table for table in TABLES}[experiment].methods[method]
    metric = row.make()
    X = on_device(X) if row.is_ours else X
    return metric, (0.0 if metric is None else timed(lambda: metric.fit(X, y)))


@dataclass(frozen=True)
class Embeddings(Experiment):
    """One column per way of judging, all on the same fit: ``k-NN`` errors, ``miss@k``,
    ``neighbours lost@k``; in per cent.
    """

    def obstacle(self, column, method):
        if method in CLASSIFIERS and not column.endswith("-NN"):
            return "a classifier has no neighbours"
        return super().obstacle(column, method)

    def measure(self, column, method, run):
        metric, seconds = _fitted(self.name, method)
        X, y, T, labels = _parts(SET)
        kind = column.partition(":")[2]
        if kind.endswith("-NN"):
            k = int(kind.removesuffix("-NN"))
            if method in CLASSIFIERS:
                value = float((metric.predict(T) != labels).mean())
            else:
                value = knn_error(metric, X, y, T, labels, k)
        elif kind.startswith("miss@"):
            mapped = [Z if metric is None else metric.transform(Z) for Z in (X, T)]
            _, found = nearest_labels(mapped[0], y, mapped[1], int(kind.removeprefix("miss@")))
            value = float((found != labels[:, None]).all(axis=1).mean())
        else:
            value = 1 - neighbour_recall(metric, X, T, int(kind.partition("@")[2]))
        record = {"value": 100 * value, "seconds": seconds}
        if hasattr(metric, "components_"):
            record["dimensions"] = int(metric.components_.shape[0])
        # an embedding whose rank was cut short of its bounds is violated by more than
        # tol
        if hasattr(metric, "delta_"):
            record |= {"delta": metric.delta_, "violation": metric.certificate_.violation}
        return record


EMBEDDINGS = Embeddings(
    name="embeddings",
    title="Frozen sentence embeddings, 384-D, 33 classes",
    paper="not in the papers",
    quantity="error, %",
    columns=tuple(f"{SET}:{kind}" for kind in ("1-NN", "3-NN", "10-NN", "miss@10")),
    methods={
        "Euclidean": Competitor(),
        "whitening": Competitor("sklearn.decomposition:PCA", {"whiten": True}),
        "PCA 128": Competitor("sklearn.decomposition:PCA", {"n_components": 128}),
        "LDA": Competitor("sklearn.discriminant_analysis:LinearDiscriminantAnalysis"),
        "NCA": Competitor(
            "sklearn.neighbors:NeighborhoodComponentsAnalysis", {"max_iter": 20, "random_state": 0}
        ),
        "logistic regression": Competitor(
            "sklearn.linear_model:LogisticRegression", {"C": 10.0, "max_iter": 1000}
        ),
        "FrobMetric": ours("FrobMetric"),
        "FrobMetric, 3 impostors": ours("FrobMetric", n_impostors=3),
        "BoostMetric": ours("BoostMetric", **BOOSTING),
        "DML-eig": ours("DMLEig"),
        "LMNN-eig": ours("LMNNEig"),
        "RelativeComparisons": ours("RelativeComparisons"),
    },
)
SIZES = (64, 128, 192, 256)
COMPRESSION = Embeddings(
    name="embeddings-compression",
    title="Compressed sentence embeddings",
    paper="not in the papers",
    quantity="%",
    columns=tuple(f"{SET}:{kind}" for kind in ("neighbours lost@10", "1-NN", "10-NN")),
    methods={
        f"{name} {size}": Competitor(where, {"n_components": size, **parameters})
        for size in SIZES
        for name, where, parameters in (
            ("NuMax", "conemetric:NuMax", {}),
            ("NuMax-Class", "conemetric:NuMax", {"class_aware": True}),
            ("PCA", "sklearn.decomposition:PCA", {}),
            (
                "random projection",
                "sklearn.random_projection:GaussianRandomProjection",
                {"random_state": 0},
            ),
            ("FrobMetric", "conemetric:FrobMetric", {}),
        )
    },
)

TABLES = (EMBEDDINGS, COMPRESSION)
