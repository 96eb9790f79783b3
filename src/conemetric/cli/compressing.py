"""``conemetric compress``: few dimensions that keep every distance within 1 +- delta."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ..core.progress import emit
from .files import output_folder, write_csv
from .invocation import progress_bar, state
from .options import Columns, Command, Overwrite, Seed, data_argument, flag, folder_for, option
from .wording import filled_grid, in_words, plural, use_in_python, written

N_PAIRS = 20_000  # of rows to judge on: 200 lie beyond the 99 % quantile shown
MOST_JUDGED, FEWEST_JUDGED = 2_000, 20  # rows to judge on
N_NEIGHBOURS = 10  # of which as many as possible should be kept
DEFAULT = "digits"  # has enough dimensions to leave some out
DELTA = "Squared distances change by at most this share."
CLASS_AWARE = "Keep rows of a class close and classes apart; needs labels."
MAX_ROWS = "Learn from at most this many rows, drawn at random."
METRIC, TABLE = "metric.safetensors", "table.csv"
COLUMNS = {
    "": "{method}",
    "dimensions": "{dimensions}",
    "worst change": "{worst_change:.1%}",
    "99% of changes below": "{change_99:.1%}",
    "neighbours kept": "{neighbours_kept:.1%}",
}


@dataclass(frozen=True, kw_only=True)
class Compress(Command, Columns):
    """Options of `compress`."""

    data: Annotated[str | None, data_argument(DEFAULT)] = None
    delta: Annotated[float, option("SHARE", DELTA, min=0.001, max=0.999)] = 0.2
    class_aware: Annotated[bool, flag("--class-aware", CLASS_AWARE)] = False
    out: Annotated[Path | None, folder_for(f"{METRIC} and {TABLE}")] = None
    overwrite: Overwrite = False
    max_rows: Annotated[int, option("N", MAX_ROWS, min=10)] = 500
    seed: Seed = 0


def compress(given: Compress) -> None:
    """Learn a linear map to few dimensions that keeps the distances of all pairs of rows
    (NuMax).
    """
    given.check()
    out = output_folder(given.out, [METRIC, TABLE], given.overwrite)

    import numpy as np

    from ..engine.certificate import Status
    from ..storage import save_metric
    from .reading.loading import load_rows

    with progress_bar("reading"):
        table, name = load_rows(given.data or DEFAULT, given)
        if given.class_aware and table.labels is None:
            raise ValueError("--class-aware needs labels; pass --label COLUMN or --labels FILE.")
        rows, test = _split(table, given.max_rows, np.random.default_rng(given.seed))
        X, metric = _learned(table, rows, given)
        save_metric(out / METRIC, metric)
        emit("stage", stage="evaluating")
        results = _results(metric.of_features(), X, rows, test, given.seed)
        needed = None
        # with classes, distances between them may change, and these compare to nothing
        if not given.class_aware:
            needed = components_needed(X[rows], given.delta)
    write_csv(out / TABLE, results)
    found = Compressed(given.delta, metric, X.shape[1], rows, test, results, needed)
    _answer(name, table, found, out)
    if metric.certificate.status is Status.INTERRUPTED:
        raise typer.Exit(130)


def _learned(table, rows, given):
    """All rows as numbers, and the metric learned from some of them."""
    from sklearn.pipeline import make_pipeline

    from ..papers.numax.numax import NuMax
    from ..storage import LearnedMetric
    from ..studies.task import table_encoder

    X = table.X
    estimator = NuMax(delta=given.delta, class_aware=given.class_aware, random_state=given.seed)
    learned: Any = estimator
    names = table.names
    encoder = table_encoder(table.X, table.kinds)
    if encoder is not None:
        X = encoder.fit(table.X[rows]).transform(table.X)
        learned = make_pipeline(encoder, estimator)
        names = None  # the encoder has them
    emit("stage", stage="learning")
    labels = None
    if given.class_aware:
        labels = table.labels[rows]
    estimator.fit(X[rows], labels)
    notes = {"rows": len(rows), "delta": given.delta}
    return X, LearnedMetric.from_estimator(learned, feature_names=names, notes=notes)


def components_needed(X: Any, delta: float) -> int:
    """How many principal components keep every squared distance between the rows of X within
    1 +- delta, scaled as well as possible.
    """
    import numpy as np
    from scipy.spatial.distance import pdist
    from sklearn.decomposition import PCA

    Z = PCA().fit_transform(X)  # the leading components first
    apart = pdist(X, "sqeuclidean") > 0  # equal rows of Z differ by a rounding
    full = pdist(Z, "sqeuclidean")[apart]
    kept = 0.0  # share of each squared distance that the first components have
    for n, column in enumerate(Z.T, 1):
        kept = kept + pdist(column[:, None], "sqeuclidean")[apart] / full
        # the best scale centres the shares that are kept, so that only their range matters
        if np.ptp(kept) <= delta * (kept.max() + kept.min()):
            return n
    return Z.shape[1]


class Compressed(NamedTuple):
    """A metric of few dimensions, what it was learned from, and how it does."""

    delta: float
    metric: Any
    n_features: int  # before
    learned_from: Any  # numbers of rows, as those that it is judged on
    judging: Any
    results: list[dict[str, Any]]
    components_needed: int | None  # principal ones, for as much


def _answer(name: str, table: Any, found: Compressed, out: Path) -> None:
    """Show what was found, and write it for programs."""
    delta = found.delta
    metric = found.metric
    n_features = found.n_features
    results = found.results
    rank = len(metric.components)
    rows = plural(len(found.learned_from), "row")
    test = plural(len(found.judging), "row")
    if found.judging is not found.learned_from:
        test += " held out"
    last = [written(out, f"{METRIC}, {TABLE}")]
    needed = found.components_needed
    if needed is not None:
        last.append(
            f"[bold]{rank} dimensions keep every squared distance between the {rows} learned from "
            f"within 1 ± {delta:g}; principal components need {needed}.[/]"
        )
    values = {
        "data": name,
        "features": n_features,
        "delta": delta,
        "results": results,
        "components_needed": needed,
        "status": str(metric.certificate.status),
        "files": {"metric": str(out / METRIC), "table": str(out / TABLE)},
    }
    title = f"{name}: {plural(n_features, 'dimension')} to {rank} at delta = {delta:g}"
    state.answer(
        values,
        filled_grid(title, COLUMNS, results),
        f"learned from {rows}; evaluated by the squared distances within {test}",
        f"certificate: {in_words(metric.certificate)}",
        notes=table.notes,
        last=[*last, "Next, in Python:", *use_in_python(out / METRIC)],
    )


def _split(table, max_rows, rng):
    """Rows to learn from, and others to judge on (the same ones if there are too few others)."""
    import numpy as np

    from ..studies.supervision import sample_by_class

    n = len(table.X)
    y = table.labels
    if y is None:
        y = np.zeros(n, int)
    rows = sample_by_class(y, min(max_rows, n), rng)
    others = np.setdiff1d(np.arange(n), rows)
    test = np.sort(rng.permutation(others)[:MOST_JUDGED])
    if len(test) < FEWEST_JUDGED:
        return rows, rows
    return rows, test


def _results(metric, X, rows, test, seed):
    """How the learned map, and as many principal components, keep distances and neighbours."""
    import numpy as np
    from sklearn.decomposition import PCA

    from ..evaluation.knn import neighbour_recall
    from ..evaluation.verification import distance_score

    rank = len(metric.components)
    results = []
    pca = PCA(min(rank, len(rows), X.shape[1]), random_state=seed).fit(X[rows])
    # the same pairs for both maps
    pairs = test[np.random.default_rng(seed).integers(len(test), size=(N_PAIRS, 2))]
    searched, queries = np.array_split(X[test][::-1], 2)
    for name, size, mapped in (("numax", rank, metric), ("pca", pca.n_components_, pca)):
        before = distance_score(None, X, pairs) ** 2
        after = distance_score(mapped, X, pairs) ** 2
        # equal rows stay equal, and have no share to change by
        change = np.abs(after[before > 0] / before[before > 0] - 1)
        kept = neighbour_recall(mapped, searched, queries, k=min(N_NEIGHBOURS, len(searched)))
        results.append(
            {
                "method": name,
                "dimensions": size,
                "worst_change": float(change.max()),
                "change_99": float(np.quantile(change, 0.99)),
                "neighbours_kept": kept,
            }
        )
    return results
