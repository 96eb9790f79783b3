"""``conemetric verify``: decide whether two rows are the same, by a threshold of their distance."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

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
FOLDS = "Folds, each evaluated with the threshold of the others."
PROMISE = (
    "Set the threshold so that at most this share of different pairs is called the same, and write "
    "it with that guarantee into the metric file. The pairs must not be those the metric was learned "
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
    confidence: Annotated[float, option("SHARE", "Probability that the guarantee holds.")] = (
        CONFIDENCE
    )


def verify(given: Verify) -> None:
    """Are these two the same? Threshold, accuracy and ROC of the learned distance on
    pairs, beside the Euclidean distance of the columns as they are and standardised.

    If the metric fills missing values, the Euclidean distance is that of the filled rows.
    [dim]conemetric verify pairs.csv --data rows.csv --metric m.safetensors --max-false-alarms 0.01[/]
    """
    _refuse_confidence_alone(given)
    check_file(given.metric, "metric")
    check_file(given.file)
    check_file(given.data)
    if given.out is not None:
        output_folder(given.out, ["roc.csv"], given.overwrite)

    from ..evaluation.verification import cross_validate
    from ..storage import LearnedMetric, load_metric
    from .reading.loading import read_pairs
    from .reading.tables import read_table

    learned = LearnedMetric.from_estimator(load_metric(given.metric))
    table = read_table(given.data, given, learned)
    pairs = Pairs(*read_pairs(given.file, table))
    _check_pairs(given.file, pairs.same, given.folds)
    seen = learned_from(learned.notes or {}, table.X, pairs.rows)
    if given.max_false_alarms is not None:
        _check_promise(given, pairs.same, seen)
    scores = _scores(learned, table.X, pairs.rows)
    fold = pairs.folds(given.folds, given.seed)
    curves = {name: cross_validate(score, pairs.same, fold) for name, score in scores.items()}
    promised = None
    if given.max_false_alarms is not None:
        promised = _promise(learned, -scores["learned"], pairs.same, given)
    if given.out is not None:
        write_csv(given.out / "roc.csv", list(_points(curves)))
    results = {name: _result(scores[name], curves[name], pairs.same) for name in scores}
    alarm = ""
    if seen:
        alarm = f"{seen} the metric was learned from: it does worse on other pairs."
    else:
        table.notes.extend(_note_on_rows(learned.notes or {}, table.X, pairs.rows))
    _answer(given, table.notes, pairs, results, promised, alarm)


def _refuse_confidence_alone(given):
    if given.max_false_alarms is None and given.confidence != CONFIDENCE:
        raise ValueError(
            f"--confidence {given.confidence:g} belongs to a guarantee, and none is asked for; pass "
            "--max-false-alarms RATE too, or leave it out."
        )


class Pairs(NamedTuple):
    """Pairs of rows by their numbers (m, 2), and which of them are the same."""

    rows: Any
    same: Any

    def folds(self, n: int, seed: int) -> Any:
        """A fold for each pair, at random, all of about the same size."""
        import numpy as np

        return np.random.default_rng(seed).permutation(len(self.same)) % n


def _scores(learned, X, pairs):
    """How alike each pair is by each of the distances, by their names."""
    from sklearn.preprocessing import StandardScaler

    from ..evaluation.verification import distance_score

    metric = learned
    if learned.encoder is not None:
        # the other distances need numbers too: those that the metric sees
        X = learned.encoder.set_params(sparse_output=False).transform(X)
        metric = learned.of_features()
    return {
        "euclidean": distance_score(None, X, pairs),
        "standardised": distance_score(None, StandardScaler().fit_transform(X), pairs),
        "learned": distance_score(metric, X, pairs),
    }


def _points(curves):
    """The points of every ROC curve, as rows of a file."""
    for name, curve in curves.items():
        rates = zip(curve.false_positive_rate, curve.true_positive_rate, strict=True)
        for wrong, right in rates:
            yield {"method": name, "false_positive_rate": wrong, "true_positive_rate": right}


def _result(score, curve, same):
    """What a distance achieves, as JSON values."""
    from ..evaluation.verification import best_threshold

    threshold: Any = -float(best_threshold(score, same)[0])
    # where calling all pairs the same, or none, is best, no distance separates the two, and JSON has
    # no infinity
    if not math.isfinite(threshold):
        threshold = None
    return {
        "threshold": threshold,
        "accuracy": curve.mean,
        "standard_error": curve.standard_error,
        "auc": curve.auc,
        "equal_error_rate": curve.equal_error_rate,
    }


def learned_from(notes: dict[str, Any], X: Any, pairs: Any) -> str:
    """How many of these pairs of rows the metric with these notes was learned from, in words; empty
    if none, or if it is not known. Of many pairs, a random sample is known.
    """
    share = _share_known(notes, "pairs", X, pairs)
    if not share:
        return ""
    return f"{share:.0%} of these pairs are among those that"


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
    largest = keys[-1]
    if len(known) == MOST_KEYS:
        # a full sample holds the smallest keys only: nothing is known of larger ones
        largest = min(known[-1], largest)
    comparable = [key for key in keys if key <= largest]
    if not comparable:
        return 0.0
    return len(set(comparable) & set(known)) / len(comparable)


def _answer(given, notes, pairs, results, promised, alarm):
    """Print what each distance achieves and, if one was made, the promise."""
    shown: list[Any] = []
    if alarm:
        shown.append(f"[bold red]{alarm}[/]")
    rows = [{"method": SHOWN.get(name, name), **values} for name, values in results.items()]
    shown.append(filled_grid("", COLUMNS, rows))
    shown.append(
        f"{plural(len(pairs.same), 'pair')}, {given.folds} folds; call a pair the same when its distance "
        "is at most the threshold"
    )
    notes = list(notes)
    if promised is not None:
        shown.append(_promise_in_words(promised, given.metric))
        notes += _note_on_dependence(pairs)
    values = {"pairs": len(pairs.same), **results, "promise": promised, "alarm": alarm}
    state.answer(values, *shown, notes=notes)


def _promise_in_words(promised, metric):
    """What the threshold promises, what it costs, and where it is stored."""
    alpha = _in_percent(promised["alpha"])
    confidence = _in_percent(promised["confidence"])
    recognised = _in_percent(promised["same_recognised"])
    return (
        f"[bold]With the threshold {promised['threshold']:.4g}, at most {alpha} of different "
        f"pairs are called the same, with {confidence} confidence, for pairs drawn like these.[/]"
        f" It recognises {recognised} of the same pairs here. Written to {escape(str(metric))}"
    )


def _in_percent(share):
    return f"{100 * share:.4g}%"


def _note_on_dependence(pairs):
    """A note if different pairs share rows: they are then not independent, as the promise takes them."""
    times = Counter(pairs.rows[~pairs.same].ravel().tolist())
    n = sum(count > 1 for count in times.values())
    if not n:
        return []
    return [
        f"{plural(n, 'row')} in more than one different pair: the guarantee is for pairs "
        "drawn from these rows; for pairs of new rows, pass every row once."
    ]


def _check_pairs(path, same, folds):
    """Refuse too few pairs, or pairs of one kind."""
    if len(same) < 2 * folds:
        raise ValueError(
            f"'{path}' has {plural(len(same), 'pair')}; {folds} folds need at least {2 * folds}: "
            "pass more pairs, or fewer --folds."
        )
    for kind, which in (("same", same), ("different", ~same)):
        if which.all():
            raise ValueError(f"'{path}' holds only {kind} pairs; pass some of both.")


def _check_promise(given, same, seen):
    """Refuse a promise that cannot be made, or only from other or more pairs."""
    from ..evaluation.thresholds import check_share, fewest_needed

    if seen:
        raise ValueError(
            f"{seen} the metric was learned from; a guarantee needs other pairs: "
            "keep some out of `conemetric learn`."
        )
    rate = given.max_false_alarms
    check_share(rate, "max_false_alarms")
    check_share(given.confidence, "confidence")
    needed = fewest_needed(rate, given.confidence)
    n_different = int((~same).sum())
    if n_different < needed:
        raise ValueError(
            f"'{given.file}' has {plural(n_different, 'different pair')}; to guarantee --max-false-alarms "
            f"{rate:g} with --confidence {given.confidence:g} takes at least {needed:,}: pass more "
            "pairs, or raise --max-false-alarms."
        )


def _promise(learned, distance, same, given):
    """Store the threshold with its promise in the metric file; the promise and what it costs."""
    from ..evaluation.thresholds import promised_threshold
    from ..storage import save_metric

    threshold, promise = promised_threshold(
        distance, same, "max_fpr", given.max_false_alarms, given.confidence
    )
    learned.threshold_ = threshold
    learned.threshold_promise_ = promise
    save_metric(given.metric, learned)
    recognised = float((distance[same] <= threshold).mean())
    return {"threshold": threshold, **promise_values(promise), "same_recognised": recognised}
