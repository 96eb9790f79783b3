"""``conemetric verify``: decide whether two rows are the same, by a threshold of their distance."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from .files import output_folder, write_csv
from .invocation import state
from .options import Command, Dialect, IdColumn, Metric, Overwrite, Seed, option
from .reading.reading import check_file
from .wording import filled_grid, plural, promise_values

COLUMNS = {
    "": "{method}",
    "threshold": "{threshold:.4g}",
    "accuracy": "{accuracy:.2%} ± {standard_error:.2%}",
    "area under ROC": "{auc:.4f}",
    "equal error rate": "{equal_error_rate:.2%}",
}
SHOWN = {"standardised": "euclidean, standardised"}
FOLDS = "Folds, each judged by the threshold of the others."
PROMISE = (
    "Set the threshold so that at most this share of different pairs is called the same, and write "
    "it with that promise into the metric file. The pairs must not be those the metric was learned "
    "from."
)


CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Verify(Command, Dialect):
    """Options of `verify`."""

    file: Annotated[Path, typer.Argument(metavar="PAIRS", help="File of id, id, same (1 or 0).")]
    data: Annotated[Path, option("FILE", "Rows of the pairs: CSV, Parquet, npy or npz file.")]
    metric: Metric
    id_column: IdColumn = None
    folds: Annotated[int, option("N", FOLDS, min=2)] = 10
    out: Annotated[Path | None, option("FOLDER", "Folder for roc.csv.")] = None
    overwrite: Overwrite = False
    seed: Seed = 0
    max_false_alarms: Annotated[float | None, option("RATE", PROMISE)] = None
    confidence: Annotated[float, option("SHARE", "Probability that the promise holds.")] = (
        CONFIDENCE
    )


def verify(given: Verify) -> None:
    """Are these two the same? Threshold, accuracy and ROC of the learned distance on
    pairs, beside the Euclidean distance of the columns as they are and standardised.

    If the metric fills missing values, the Euclidean distance is that of the filled rows.
    [dim]conemetric verify pairs.csv --data rows.csv --metric m.safetensors --max-false-alarms 0.01[/]
    """
    pairs, folds, out = given.file, given.folds, given.out
    max_false_alarms, confidence = given.max_false_alarms, given.confidence
    if max_false_alarms is None and confidence != CONFIDENCE:
        raise ValueError(
            f"--confidence {confidence:g} is that of a promise, and none is made; give "
            "--max-false-alarms RATE too, or leave it out."
        )
    check_file(given.metric, "metric")
    for path in (pairs, given.data):
        check_file(path)
    if out is not None:
        output_folder(out, ["roc.csv"], given.overwrite)

    import numpy as np
    from sklearn.preprocessing import StandardScaler

    from ..evaluation.verification import best_threshold, cross_validate, distance_score
    from ..storage import LearnedMetric, load_metric, save_metric
    from .reading.loading import read_pairs
    from .reading.tables import read_table

    learned = LearnedMetric.from_estimator(load_metric(given.metric))
    table = read_table(given.data, given, learned)
    indices, same = read_pairs(pairs, table)
    _check_pairs(pairs, same, folds)
    seen = learned_from(learned.notes or {}, table.X, indices)
    if max_false_alarms is not None:
        if seen:
            raise ValueError(
                f"{seen} the metric was learned from; a promise needs pairs that it has not seen."
            )
        _check_promise(pairs, same, max_false_alarms, confidence)
    X, metric = table.X, learned
    if learned.encoder is not None:
        X = learned.encoder.set_params(sparse_output=False).transform(X)
        metric = learned.of_features()
    fold = np.random.default_rng(given.seed).permutation(len(same)) % folds
    scores = {
        "euclidean": distance_score(None, X, indices),
        "standardised": distance_score(None, StandardScaler().fit_transform(X), indices),
        "learned": distance_score(metric, X, indices),
    }
    found = {name: cross_validate(score, same, fold) for name, score in scores.items()}
    promised = None
    if max_false_alarms is not None:
        promised = _promise(learned, -scores["learned"], same, max_false_alarms, confidence)
        save_metric(given.metric, learned)
    if out is not None:
        curves = [
            {"method": name, "false_positive_rate": wrong, "true_positive_rate": right}
            for name, each in found.items()
            for wrong, right in zip(each.false_positive_rate, each.true_positive_rate, strict=True)
        ]
        write_csv(out / "roc.csv", curves)
    results = {}
    for name, score in scores.items():
        threshold, curve = -float(best_threshold(score, same)[0]), found[name]
        results[name] = {
            "threshold": threshold if math.isfinite(threshold) else None,
            "accuracy": curve.mean,
            "standard_error": curve.standard_error,
            "auc": curve.auc,
            "equal_error_rate": curve.equal_error_rate,
        }
    if seen:
        seen = f"{seen} the metric was learned from: it does worse on pairs that it has not seen."
    else:
        table.notes.extend(_note_on_rows(learned.notes or {}, table.X, indices))
    _answer(results, table, indices, same, folds, promised, given.metric, seen)


def learned_from(notes: dict[str, Any], X: Any, pairs: Any) -> str:
    """How many of these pairs of rows the metric with these notes was learned from, in words; empty
    if none, or if it is not known. Of many pairs, a random sample is known.
    """
    share = _share_known(notes, "pairs", X, pairs)
    return f"{share:.0%} of these pairs are among those that" if share else ""


def _note_on_rows(notes, X, pairs):
    """How many rows of these pairs are in pairs that the metric was learned from, if any is."""
    import numpy as np

    rows = np.unique(pairs)
    share = _share_known(notes, "pair_rows", X, np.column_stack([rows, rows]))
    if not share:
        return []
    return [
        f"Rows: {share:.0%} of those in these pairs are in pairs that the metric was learned from; "
        "errors on new rows are higher."
    ]


def _share_known(notes, kind, X, pairs):
    """The share of these pairs that the notes have keys of, by the sample that they keep."""
    from ..studies.constrained import MOST_KEYS, pair_keys
    from ..studies.task import digits_of

    known = notes.get(kind)
    if not known or notes.get("rows_id") != digits_of(X):
        return 0.0
    keys = pair_keys(pairs)
    within = min(known[-1] if len(known) == MOST_KEYS else keys[-1], keys[-1])
    keys = [key for key in keys if key <= within]
    return len(set(keys) & set(known)) / len(keys) if keys else 0.0


def _answer(results, table, indices, same, folds, promised, metric, seen):
    rows = [{"method": SHOWN.get(name, name), **values} for name, values in results.items()]
    shown = [
        *([f"[bold red]{seen}[/]"] if seen else []),
        filled_grid("", COLUMNS, rows),
        f"{plural(len(same), 'pair')}, {folds} folds; call a pair the same when its distance is at "
        "most the threshold",
    ]
    notes = list(table.notes)
    if promised is not None:
        alpha, confidence, recognised = (
            f"{100 * promised[name]:.4g} %" for name in ("alpha", "confidence", "same_recognised")
        )
        shown.append(
            f"[bold]With the threshold {promised['threshold']:.4g}, at most {alpha} of different "
            f"pairs are called the same, with {confidence} confidence, for pairs drawn like these.[/]"
            f" It recognises {recognised} of the same pairs here. Written to {escape(str(metric))}"
        )
        n = sum(count > 1 for count in Counter(indices[~same].ravel().tolist()).values())
        if n:  # which makes the pairs dependent
            notes.append(
                f"{plural(n, 'row')} in more than one different pair: the promise is for pairs "
                "drawn from these rows; for pairs of new rows, give every row once."
            )
    values = {"pairs": len(same), **results, "promise": promised, "alarm": seen}
    state.answer(values, *shown, notes=notes)


def _check_pairs(path, same, folds):
    """Refuse too few pairs, or pairs of one kind."""
    if len(same) < 2 * folds:
        raise ValueError(
            f"'{path}' has {plural(len(same), 'pair')}; {folds} folds need at least {2 * folds}: "
            "give more pairs, or fewer --folds."
        )
    if same.all() or not same.any():
        raise ValueError(
            f"'{path}' holds only {'same' if same.all() else 'different'} pairs; give some of both."
        )


def _check_promise(path, same, rate, confidence):
    """Refuse a promise that cannot be made, or only from more pairs."""
    from ..evaluation.thresholds import check_share, fewest_needed

    for value, name in ((rate, "max_false_alarms"), (confidence, "confidence")):
        check_share(value, name)
    needed, given = fewest_needed(rate, confidence), int((~same).sum())
    if given < needed:
        raise ValueError(
            f"'{path}' has {plural(given, 'different pair')}; to promise --max-false-alarms "
            f"{rate:g} with --confidence {confidence:g} takes at least {needed:,}: give more "
            "pairs, or raise --max-false-alarms."
        )


def _promise(learned, distance, same, rate, confidence):
    """Set the threshold of the metric; the promise and what it costs, as JSON values."""
    from ..evaluation.thresholds import promised_threshold

    threshold, promise = promised_threshold(distance, same, "max_fpr", rate, confidence)
    learned.threshold_, learned.threshold_promise_ = threshold, promise
    recognised = float((distance[same] <= threshold).mean())
    return {"threshold": threshold, **promise_values(promise), "same_recognised": recognised}
