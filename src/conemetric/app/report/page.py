"""The page itself: template, style and script are files beside this one; the data go in
as JSON, so no name can break out.
"""

import base64
import html
import io
import json
from importlib.resources import files

import numpy as np

from ... import __version__
from ...core.extras import require
from ...storage import atomic_path
from . import content, drawings

TILES_PER_LINE = 30  # thumbnails in a line of the sheet


def write_report(path, study, *, name="data", image_shape=None, ids=None):
    """Write the report of a study as one HTML file that needs no network.

    Parameters
    ----------
    path : str or path
    study : Study
    name : str
        What to call the data.
    image_shape : (int, int), default=None
        Height and width where the rows are grey images.
    ids : array, default=None
        Names of the rows, for the hover text.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from conemetric.app.report import write_report
    >>> from conemetric.app.studies import Options, run_study
    >>> from conemetric.app.studies.supervision import Labelled
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = os.path.join(folder, "report.html")
    ...     write_report(page, run_study(Labelled(*load_iris(return_X_y=True)), Options(method="frob")), name="iris")
    ...     print(open(page, encoding="utf-8").read()[:15])
    <!DOCTYPE html>
    """
    if image_shape is not None and image_shape[0] * image_shape[1] != study.metric.n_features_in_:
        height, width = image_shape
        raise ValueError(
            f"images of {height}x{width} do not have the {study.metric.n_features_in_} columns of "
            "the data."
        )
    plotlyjs = require("plotly.offline", "cli").get_plotlyjs()
    from . import figures

    views, dimensions = content.views(study, study.options.seed), content.dimensions(study)
    details = row_details(study, views, ids)
    drawn = {
        "views": figures.views_figure(views, details),
        "spectrum": figures.spectrum_figure(dimensions),
        "features": figures.features_figure(
            content.feature_shares(study), _column_names(study), image_shape
        ),
    }
    if study.task.kind == "labels":
        drawn["confusion"] = figures.confusion_figure(content.confusion(study))
    for name_, values, draw in (
        ("margins", content.margins(study, study.options.seed), figures.margins_figure),
        ("distances", content.distances(study), figures.distances_figure),
        ("convergence", content.history(study), figures.convergence_figure),
    ):
        if values:
            drawn[name_] = draw(values)
    static = {
        "views": drawings.scatters(
            views.coordinates["Principal axes"],
            ("Euclidean", "learned"),
            figures.colours_of(views.groups),
        ),
        "spectrum": drawings.bars(
            dimensions.eigenvalues, "Eigenvalues of the learned metric", figures.AFTER
        ),
    }
    if "convergence" in drawn:
        history = content.history(study)
        static["convergence"] = drawings.lines(
            (history["primal"], history["dual"]),
            "Objective of the metric and proven lower bound, by iteration",
            (figures.AFTER, figures.BEFORE),
        )
    data = {
        "views": {
            key: [np.round(flat, 4).tolist() for flat in pair]
            for key, pair in views.coordinates.items()
        },
        "details": details,
        "tile": image_shape,
        "tilesPerLine": TILES_PER_LINE,
    }
    fields = {
        "name": html.escape(name),
        "what": "a learned metric",
        "headline": headline(study),
        "protocol": protocol(study),
        **wording(study.task.kind),
        "proof": "Proof" if study.metric.certificate else "Evidence",
        "evidence": evidence(study),
        "candidates": candidates(study),
        "cards": cards(study, dimensions),
        "facts": facts(study),
        "notes": "".join(f"<li>{html.escape(note)}</li>" for note in study.notes)
        or "<li>Nothing out of the ordinary.</li>",
        "view_buttons": "".join(
            f'<button type="button" data-view="{key}">{key}</button>' for key in views.coordinates
        ),
        "sheet": "" if image_shape is None else contact_sheet(study, views, image_shape),
        "version": __version__,
        **{f"static_{key}": static.get(key, "") for key in ("views", "spectrum", "convergence")},
        "kinds": " ".join(
            [
                f"no-{key}"
                for key in ("confusion", "margins", "distances", "convergence")
                if key not in drawn
            ]
            + ([] if study.metric.certificate else ["no-certificate"])
            + ([] if study.evidence else ["no-evidence"])
            + (["images"] if image_shape is not None else [])
        ),
        "suggested": str(dimensions.suggested),
        "features_in": str(study.metric.n_features_in_),
        "figures": as_json({key: json.loads(figure.to_json()) for key, figure in drawn.items()}),
        "data": as_json(data),
        "plotly": plotlyjs.replace("</script", "<\\/script"),
    }
    with atomic_path(path) as temporary:
        temporary.write_text(render(fields, "page.html"), encoding="utf-8")


def render(fields, template):
    """The template within the frame of all pages, style and script inlined."""
    style, script, body, frame = (
        (files(__package__) / name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", template, "frame.html")
    )
    return filled(frame, {**fields, "style": style, "script": script, "body": filled(body, fields)})


def filled(template, fields):
    """The template with its ``{{name}}`` places filled."""
    parts = template.split("{{")
    out = [parts[0]]
    for part in parts[1:]:
        key, _, rest = part.partition("}}")
        out += [fields[key], rest]
    return "".join(out)


def as_json(values):
    return (
        json.dumps(values, ensure_ascii=False, allow_nan=False)
        .replace("</", "<\\/")
        .replace("<!--", "<\\!--")
    )


def _column_names(study):
    names = study.metric.feature_names
    return (
        names if names is not None else [f"column {i}" for i in range(study.metric.n_features_in_)]
    )


def row_details(study, views, ids):
    """One line per drawn row: its name, class, and what the neighbours said before and after."""
    task = study.task
    if task.kind not in ("labels", "quantity"):
        return [html.escape(f"row {r}" if ids is None else f"{ids[r]}") for r in views.rows]
    position = np.searchsorted(task.test, views.rows)
    said = [judgement.detail["predicted"][position] for judgement in (study.before, study.after)]
    lines = []
    for r, true, before, after in zip(
        task.original(views.rows), task.y[views.rows], *said, strict=True
    ):
        who = f"row {r}" if ids is None else f"{ids[r]}"
        verdict = (
            "right both times"
            if before == after == true
            else f"said {before:.4g} before, {after:.4g} after"
            if task.kind == "quantity"
            else f"said {before} before, {after} after"
        )
        lines.append(html.escape(f"{who}: {true}, {verdict}"))
    return lines


def contact_sheet(study, views, shape):
    """All thumbnails in one picture, as a data URI."""
    pixels = study.task.pixels(views.rows).reshape(-1, *shape)
    lines = -(-len(pixels) // TILES_PER_LINE)
    sheet = np.zeros((lines * TILES_PER_LINE, *shape))
    sheet[: len(pixels)] = pixels
    sheet = (
        sheet.reshape(lines, TILES_PER_LINE, *shape)
        .transpose(0, 2, 1, 3)
        .reshape(lines * shape[0], -1)
    )
    grey = 255 * (sheet - sheet.min()) / (np.ptp(sheet) or 1.0)
    buffer = io.BytesIO()
    require("PIL.Image", "cli").fromarray(grey.astype(np.uint8)).save(buffer, "PNG")
    return data_uri(buffer)


def data_uri(buffer):
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


# ---- words


def wording(kind):
    """What the page calls things, by the kind of supervision."""
    return {
        "shown": {
            "labels": "The same held-out rows, before and after",
            "quantity": "The same held-out rows, before and after",
            "pairs": "Rows of the pairs, before and after",
            "triplets": "Rows of the triplets, before and after",
        }[kind],
        "click_class": "; click a class to hide it" if kind == "labels" else "",
        "tried_on": {
            "labels": "the error on a part of the training rows",
            "quantity": "1 - R² on a part of the training rows",
            "pairs": "the share of training pairs taken for the wrong kind",
            "triplets": "the share of training triplets in the wrong order",
        }[kind],
        "margin_of": "held-out triplets" if kind == "triplets" else "triplets of held-out rows",
    }


def headline(study):
    """Whether to use the metric, and what the error is."""
    what = {
        "labels": f"rows whose {study.options.n_neighbors} nearest neighbours say another class",
        "pairs": "pairs taken for the wrong kind",
        "triplets": "triplets in the wrong order",
    }
    if study.task.kind == "quantity":
        rmse = [f"{judgement.detail['rmse']:.4g}" for judgement in (study.before, study.after)]
        counts = f"RMSE {rmse[0]} before, {rmse[1]} after."
    else:
        wrong = [f"{int(judgement.wrong.sum()):,}" for judgement in (study.before, study.after)]
        counts = f"{wrong[0]} {what[study.task.kind]} before, {wrong[1]} after."
    return html.escape(f"{study.alarm} {study.verdict} {counts}".strip())


def protocol(study):
    """How it was judged, in a sentence."""
    task, k = study.task, study.options.n_neighbors
    share = f"{study.options.test_size:.0%} of the {task.items} held out"
    how = {
        "labels": f"class by class; each is given the class of most of its {k} nearest among "
        f"{len(task.train):,} training rows",
        "quantity": f"at random; each is given the mean of its {k} nearest among "
        f"{len(task.train):,} training rows",
        "pairs": "at random; a pair is called the same where its distance is below one "
        "threshold, set on the training pairs",
        "triplets": "at random; a triplet is in order where its first row is nearer to the "
        "second than to the third",
    }[task.kind]
    return f"Judged once, seed {study.options.seed}: {share} {how}."


def evidence(study):
    """What a blend gains on training rows that its parts have not seen, in a sentence."""
    if study.evidence is None:
        return ""
    k, n = study.evidence.n_neighbors, study.evidence.n_rows
    return (
        f"Cross-validated {k}-nearest-neighbour error within the training rows ({n:,} of them, "
        f"each judged by metrics learned without it): {study.evidence}. A metric learned by a "
        "convex program also has a proven gap, the largest of its fits."
    )


def candidates(study):
    """The candidates of a blend as rows of a table, the heaviest first."""
    if study.evidence is None:
        return ""
    estimator, judged = study.estimator, study.evidence
    heaviest_first = sorted(estimator.weights_, key=lambda name: -estimator.weights_[name])
    lines = ["<tr><th>method</th><th>part</th><th>error, %</th><th>proven gap</th></tr>"]
    for name in ("blend", *heaviest_first):
        part = f"{estimator.weights_[name]:.1%}" if name in estimator.weights_ else ""
        error = f"{100 * judged.error[name]:.2f} &plusmn; {100 * judged.standard_error[name]:.2f}"
        gaps = [abs(proof.relative_gap) for proof in estimator.certificates_.get(name, ())]
        gap = (f"{max(gaps):.1e}" if max(gaps) < float("inf") else "no bound") if gaps else ""
        lines.append(
            f"<tr><th scope='row'>{html.escape(name)}</th><td>{part}</td><td>{error}</td>"
            f"<td>{gap}</td></tr>"
        )
    return "".join(lines)


def _proof_card(study):
    certificate = study.metric.certificate
    if certificate is not None:
        note = f"relative, to the best objective; {certificate.status}"
        return "Proven gap", f"{abs(certificate.relative_gap):.1e}", note, ""
    weights = study.estimator.weights_
    heaviest = max(weights, key=lambda name: weights[name])
    note = f"of {len(weights)} candidates; the heaviest, {heaviest}, has {weights[heaviest]:.0%}"
    return "Blend", f"{sum(weight > 0.01 for weight in weights.values())}", note, ""


def cards(study, dimensions):
    certificate = study.metric.certificate
    (low0, high0), (low1, high1) = study.before.interval, study.after.interval
    entries = [
        (
            f"{study.task.measure[0].upper()}{study.task.measure[1:]} before",
            f"{study.before.rate:.2%}",
            f"Euclidean; 95 % interval {low0:.1%} to {high0:.1%}",
            "",
        ),
        (
            f"{study.task.measure[0].upper()}{study.task.measure[1:]} after",
            f"{study.after.rate:.2%}",
            f"{study.metric.method}; 95 % interval {low1:.1%} to {high1:.1%}",
            study.outcome,
        ),
        _proof_card(study),
        (
            "Dimensions",
            f"{study.metric.n_features_in_} to {len(study.metric.components)}",
            f"enough for this error: {dimensions.suggested}",
            "",
        ),
        (
            "Learning time",
            f"{study.seconds['learning']:.1f} s",
            f"{int(study.estimator.n_iter_)} iterations" if certificate else "all candidates",
            "",
        ),
    ]
    return "".join(card(*entry) for entry in entries)


def card(title, value, note, kind):
    """One number of the summary, with what it is and where it comes from."""
    note = html.escape(note)
    return (
        f'<div class="card {kind}"><h3>{title}</h3><p class="figure">{value}</p><p>{note}</p></div>'
    )


def facts(study):
    """Certificate, parameters and timings as one definition table."""
    names = study.metric.feature_names
    columns = ", ".join(names) if names is not None else "all, by position"
    rows = [
        ("Data", f"{study.task.n_rows:,} rows, id {study.metric.notes['data_id']}"),
        (f"Columns used ({study.metric.n_features_in_:,})", columns),
        ("Method", study.metric.method),
        (
            "Parameters",
            ", ".join(f"{name}={value}" for name, value in (study.metric.parameters or {}).items()),
        ),
        ("Preprocessing", ", ".join(study.metric.preprocessing) or "none"),
        *_proof(study.metric.certificate),
        *((f"Time, {stage}", f"{seconds:.2f} s") for stage, seconds in study.seconds.items()),
    ]
    return definitions(rows)


def definitions(rows):
    """Names and values as the rows of a table."""
    return "".join(
        f"<tr><th scope='row'>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>"
        for key, value in rows
    )


def _proof(certificate):
    if certificate is None:
        return []
    return [
        ("Objective of the metric", f"{certificate.primal:.6g}"),
        ("Proven bound on the optimum", f"{certificate.dual:.6g}"),
        ("Relative gap", f"{certificate.relative_gap:.3g}"),
        ("Constraints missed by", f"{certificate.violation:.3g}"),
        ("Status", str(certificate.status)),
    ]
