"""The report of a study: what a learned metric gained, what it looks at, how far it is proven."""

from collections.abc import Sequence
from os import PathLike
from typing import Any

from .. import __version__
from ..core.extras import require
from ..engine.certificate import Certificate
from ..storage import atomic_path
from ..studies import Study
from . import content
from .reasons import ShownRows, reasons
from .table import cards, row_titles, table_headings, table_rows


def write_report(
    path: str | PathLike,
    study: Study,
    *,
    name: str = "data",
    image_shape: tuple[int, int] | None = None,
    ids: Any = None,
    row_numbers: Any = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the report of a study as one HTML file that needs no network.

    Parameters
    ----------
    path : str or path
    study : Study
    name : str
        What to call the data.
    image_shape : (int, int), default=None
        Height and width if the rows are grey images.
    ids : array, default=None
        Names of the rows.
    row_numbers : array, default=None
        Numbers of the rows in their file; None: rows are numbered as in the study.
    notes : sequence of str
        What was done with the columns, in words.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from conemetric.report.metric import write_report
    >>> from conemetric.studies import Options, run_study
    >>> from conemetric.studies.supervision import Labelled
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = os.path.join(folder, "report.html")
    ...     write_report(page, run_study(Labelled(*load_iris(return_X_y=True)), Options(method="frob")), name="iris")
    ...     print(open(page, encoding="utf-8").read()[:15])
    <!DOCTYPE html>
    """
    rows = ShownRows(study.task.kind, ids, image_shape, row_numbers)
    n_columns = study.task.raw.shape[1]
    if image_shape is not None and image_shape[0] * image_shape[1] != n_columns:
        size = "x".join(map(str, image_shape))
        raise ValueError(f"images of {size} do not have the {n_columns} columns of the data.")
    shares = content.feature_shares(study)
    features_image = ""
    if shares is not None:
        features_image = rows.image([shares], 0)
    column_names = _column_names(study)
    reasons_shown = study.decided and reasons(study, study.decided, column_names, rows)
    fields = {
        "name": name,
        "study": study,
        "headline": headline(study),
        "projection": content.projection(study),
        "distances": content.distances(study),
        "cards_of_rows": cards(study),
        "confusion": content.confusion(study, row_titles(study)),
        "features": content.main_features(shares, column_names),
        "features_image": features_image,
        "dimensions": content.dimensions(study),
        "images": image_shape is not None,
        "decided": study.decided,
        "reasons": reasons_shown,
        "table_headings": table_headings(study),
        "table": table_rows(study),
        "candidates": candidates(study),
        "facts": facts(study),
        "notes": [*notes, *study.notes],
    }
    write_page(path, "metric.html", fields)


def _column_names(study):
    """The columns of the data; those that an encoder left out in this split included."""
    return study.names or [f"column {i}" for i in range(study.task.raw.shape[1])]


# ---- words


def headline(study: Study) -> str:
    """What the table shows, and first of all whether the metric has collapsed."""
    return f"{study.alarm} {study.verdict_in_words}".strip()


def candidates(study: Study) -> list[tuple[str, ...]]:
    """Name, weight, error and proven gap of the candidates of a blend, the heaviest first."""
    if study.evidence is None:
        return []
    judged = study.evidence
    weights = study.estimator.weights_
    heaviest_first = sorted(weights, key=lambda name: -weights[name])
    rows: list[tuple[str, ...]] = []
    for name in ("blend", *heaviest_first):
        weight = ""
        if name in weights:
            weight = f"{weights[name]:.1%}"
        error = f"{judged.error[name]:.2%} ± {judged.standard_error[name]:.2%}"
        proofs = study.estimator.certificates_.get(name, ())
        rows.append((name, weight, error, _largest_gap(proofs)))
    return rows


def _largest_gap(proofs: Sequence[Certificate]) -> str:
    """The largest of the proven gaps of a candidate's fits; empty if it proves none."""
    if not proofs:
        return ""
    gap = max(abs(proof.relative_gap) for proof in proofs)
    if gap < float("inf"):
        return f"{100 * gap:.2g}%"
    return "no bound"


def facts(study: Study) -> list[tuple[str, str]]:
    """Certificate, parameters and timings, by name."""
    metric = study.metric
    columns = ", ".join(study.names or ()) or "all, by position"
    parameters = [f"{name}={value}" for name, value in (metric.parameters or {}).items()]
    told = [
        ("Data", f"{study.task.n_rows:,} rows, id {(metric.notes or {})['data_id']}"),
        (f"Columns used ({study.task.raw.shape[1]:,})", columns),
        ("Method", str(metric.method)),
        ("Parameters", ", ".join(parameters)),
        ("Preprocessing", ", ".join(metric.preprocessing) or "none"),
        *proof_facts("metric", metric.certificate),
    ]
    promise = metric.threshold_promise_
    if promise:
        told.append(("Threshold of pairs", f"{metric.threshold_:.4g}: {promise}"))
    for stage, seconds in study.seconds.items():
        told.append((f"Time, {stage}", f"{seconds:.2f} s"))
    return told


def proof_facts(what: str, certificate: Certificate | None) -> list[tuple[str, str]]:
    """A certificate in figures, by name."""
    if certificate is None:
        return []
    return [
        (f"Objective of the {what}", f"{certificate.primal:.6g}"),
        ("Proven bound on the optimum", f"{certificate.dual:.6g}"),
        ("Relative gap", f"{certificate.relative_gap:.3g}"),
        ("Constraint violation", f"{certificate.violation:.3g}"),
        ("Status", str(certificate.status)),
    ]


def write_page(path: str | PathLike, template: str, fields: dict[str, Any]) -> None:
    """Fill the template, which escapes every field, and write the page whole or not at all."""
    jinja2 = require("jinja2", "cli")
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        # names of columns, labels and texts come from the user's files
        autoescape=True,
        # a slip in a template is an error rather than an empty place on the page
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = templates.get_template(template).render(version=__version__, **fields)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
