"""The report's interactive figures; the page gives them the colours of its light or dark theme."""

import numpy as np
import plotly.graph_objects as go
from plotly.colors import qualitative
from plotly.subplots import make_subplots

# told apart by the colour-blind, legible on white and on black
BEFORE, AFTER = "#d98a1f", "#2b7fd4"
FIRST, SECOND = "#7a5fd0", "#12a594"
ABOVE = {"orientation": "h", "yanchor": "bottom", "y": 1.03, "x": 0}


def views_figure(views, details):
    """Before and after side by side, one pair of traces per class; the first of the
    named views is drawn.
    """
    names, group = np.unique(views.groups, return_inverse=True)
    colours = np.array(colours_of(views.groups))
    figure = make_subplots(
        1, 2, subplot_titles=("Before: Euclidean", "After: learned"), horizontal_spacing=0.04
    )
    before, after = next(iter(views.coordinates.values()))
    for g, name in enumerate(names):
        rows = np.flatnonzero(group == g)
        for column, flat in ((1, before), (2, after)):
            figure.add_trace(
                go.Scatter(
                    x=flat[rows, 0].tolist(),
                    y=flat[rows, 1].tolist(),
                    mode="markers",
                    name=name,
                    legendgroup=str(g),
                    showlegend=column == 1 and len(names) > 1,
                    customdata=rows.tolist(),
                    text=[details[r] for r in rows],
                    hovertemplate="%{text}<extra></extra>",
                    marker={"size": 7, "color": colours[rows[0]], "opacity": 0.85},
                ),
                1,
                column,
            )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    figure.update_layout(
        dragmode="select", legend={"itemsizing": "constant", "orientation": "h", "y": -0.03}
    )
    return figure


def colours_of(groups):
    """A colour for each row, by its group."""
    names, group = np.unique(groups, return_inverse=True)
    palette = qualitative.T10 if len(names) <= 10 else qualitative.Alphabet
    return [palette[g % len(palette)] for g in group]


def confusion_figure(confusion):
    """Two tables of counts; the diagonal is left blank, so that the colour shows mistakes."""
    figure = make_subplots(
        1, 2, subplot_titles=("Before: Euclidean", "After: learned"), horizontal_spacing=0.12
    )
    most = max(_mistakes(confusion.before).max(), _mistakes(confusion.after).max(), 1)
    for column, counts in ((1, confusion.before), (2, confusion.after)):
        shown = _mistakes(counts).astype(object)
        np.fill_diagonal(shown, None)
        text = [[str(value) if value else "" for value in row] for row in counts.tolist()]
        figure.add_trace(
            go.Heatmap(
                z=shown.tolist(),
                x=confusion.names,
                y=confusion.names,
                zmin=0,
                zmax=int(most),
                showscale=False,
                xgap=1,
                ygap=1,
                text=text if len(confusion.names) <= 12 else None,
                texttemplate="%{text}" if len(confusion.names) <= 12 else None,
                customdata=counts.tolist(),
                hovertemplate="true %{y}, said %{x}: %{customdata}<extra></extra>",
                hoverongaps=False,
                colorscale=[[0, "rgba(128,128,128,0.08)"], [1, "#d6455d"]],
            ),
            1,
            column,
        )
    ticks = {
        "type": "category",
        "showgrid": False,
        "tickvals": confusion.names,
        "ticktext": shortened(confusion.names),
        "tickfont": {"size": 13 if len(confusion.names) <= 12 else 9},
    }
    figure.update_xaxes(
        title={"text": "said", "standoff": 12},
        tickangle=0 if max(map(len, confusion.names)) < 3 else -90,
        **ticks,
    )
    figure.update_yaxes(autorange="reversed", **ticks)
    figure.update_yaxes(title={"text": "true", "standoff": 12}, col=1)
    return figure


def shortened(names, most=18):
    """Names as they fit on an axis: of long ones, beginning and end."""
    return [
        name if len(name) <= most else f"{name[: most - 6]}\N{HORIZONTAL ELLIPSIS}{name[-5:]}"
        for name in names
    ]


def _mistakes(counts):
    return counts - np.diag(np.diag(counts))


def spectrum_figure(dimensions):
    """Eigenvalues, and the error with only the leading directions."""
    figure = make_subplots(specs=[[{"secondary_y": True}]])
    values = dimensions.eigenvalues / (dimensions.eigenvalues.max() or 1.0)
    number = list(range(1, len(values) + 1))
    figure.add_trace(
        go.Bar(
            x=number,
            y=values.tolist(),
            name="eigenvalue (first = 1)",
            marker_color=AFTER,
            opacity=0.55,
            hovertemplate="direction %{x}: %{y:.3g}<extra></extra>",
        ),
    )
    figure.add_trace(
        go.Scatter(
            x=dimensions.tried.tolist(),
            y=(100 * dimensions.errors).tolist(),
            name="error using the leading directions, %",
            mode="lines+markers",
            line_color=BEFORE,
            hovertemplate="first %{x}: %{y:.2f} %<extra></extra>",
        ),
        secondary_y=True,
    )
    figure.add_vline(
        x=dimensions.suggested,
        line_dash="dot",
        annotation_text=f" enough: {dimensions.suggested}",
        line_color="#888",
    )
    figure.update_xaxes(title="direction", range=[0.4, len(values) + 0.6])
    figure.update_yaxes(title="eigenvalue", secondary_y=False, range=[0, 1.08])
    figure.update_yaxes(
        title="error, %",
        secondary_y=True,
        showgrid=False,
        tickmode="auto",
        range=[0, 108 * float(max(dimensions.errors.max(), 0.01))],
    )
    figure.update_layout(legend=ABOVE)
    return figure


def features_figure(shares, names, image_shape):
    """A bar per column, the largest first, or a picture where the columns are pixels."""
    if image_shape is not None:
        picture = (100 * shares).reshape(image_shape)
        trace = go.Heatmap(
            z=picture.tolist(),
            colorscale="Viridis",
            colorbar={"title": "%", "thickness": 12},
            hovertemplate="row %{y}, column %{x}: %{z:.2f} %<extra></extra>",
        )
        figure = go.Figure(trace)
        figure.update_yaxes(
            autorange="reversed", scaleanchor="x", visible=False, constrain="domain"
        )
        figure.update_xaxes(visible=False, constrain="domain")
        return figure
    top = np.argsort(-shares, kind="stable")[:25][::-1]
    figure = go.Figure(
        go.Bar(
            x=(100 * shares[top]).tolist(),
            y=[names[i] for i in top],
            orientation="h",
            marker_color=AFTER,
            hovertemplate="%{y}: %{x:.2f} %<extra></extra>",
        )
    )
    figure.update_xaxes(title="share of the learned distance, %")
    shown = [names[i] for i in top]
    figure.update_yaxes(
        type="category", automargin=True, tickvals=shown, ticktext=shortened(shown, 24)
    )
    return figure


def convergence_figure(history):
    """Primal and dual closing in on the optimum, and the relative gap between the best of each."""
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.6, 0.4])
    steps = list(range(len(history["primal"])))
    for name, words, colour in (
        ("primal", "objective of the metric", AFTER),
        ("dual", "proven lower bound", BEFORE),
    ):
        line = go.Scatter(
            x=steps,
            y=_finite(history[name]),
            name=words,
            mode="lines+markers",
            line_color=colour,
            marker_size=4,
        )
        figure.add_trace(line, 1, 1)
    gap = np.abs(history["relative_gap"])
    gap = go.Scatter(
        x=steps,
        y=_finite(np.where(gap > 0, gap, np.nan)),
        name="relative gap",
        line_color=FIRST,
        mode="lines+markers",
    )
    figure.add_trace(gap, 2, 1)
    figure.update_traces(hovertemplate="iteration %{x}: %{y:.5g}")
    figure.update_yaxes(title="objective", exponentformat="e", row=1, col=1)
    figure.update_yaxes(title="gap", type="log", exponentformat="e", row=2, col=1)
    figure.update_xaxes(title="iteration", row=2, col=1)
    figure.update_layout(legend=ABOVE)
    return figure


def _finite(values):
    return [value if np.isfinite(value) else None for value in np.asarray(values, float).tolist()]


def margins_figure(margins):
    """How many held-out triplets are the right way round, and by how much."""
    figure = go.Figure()
    low, high = np.quantile(np.concatenate(margins), [0.001, 0.999])
    span = (min(low, -0.2), max(high, 0.2))
    for values, name, colour in zip(margins, ("before", "after"), (BEFORE, AFTER), strict=True):
        _histogram(
            figure, np.clip(values, *span), f"{name}: {np.mean(values > 0):.1%} right", colour, span
        )
    figure.add_vline(x=0, line_dash="dot", line_color="#888")
    figure.update_xaxes(title="log2 (far distance / near distance)")
    figure.update_yaxes(title="triplets")
    figure.update_layout(barmode="overlay", legend=ABOVE)
    return figure


def distances_figure(distances):
    """Distances of same and different pairs, before and after, in units of the threshold."""
    before, after, same = distances
    figure = make_subplots(
        2,
        1,
        shared_xaxes=True,
        subplot_titles=("Before: Euclidean", "After: learned"),
        vertical_spacing=0.12,
    )
    top = float(np.quantile(np.concatenate([before, after]), 0.995))
    for row, values in ((1, before), (2, after)):
        for mask, name, colour in ((same, "same", SECOND), (~same, "different", FIRST)):
            _histogram(
                figure,
                np.minimum(values[mask], top),
                name,
                colour,
                (0, top),
                row=row,
                col=1,
                showlegend=row == 1,
            )
        figure.add_vline(x=1, line_dash="dot", line_color="#888", row=row, col=1)
    figure.update_xaxes(title="distance / threshold", row=2, col=1)
    figure.update_layout(barmode="overlay", legend=ABOVE)
    return figure


def _histogram(figure, values, name, colour, span, showlegend=True, **where):
    counts, edges = np.histogram(values, bins=48, range=span)
    centres = ((edges[1:] + edges[:-1]) / 2).tolist()
    bar = go.Bar(
        x=centres,
        y=counts.tolist(),
        name=name,
        legendgroup=name,
        showlegend=showlegend,
        marker_color=colour,
        opacity=0.6,
        width=float(edges[1] - edges[0]),
        hovertemplate="%{y} at %{x:.2f}<extra></extra>",
    )
    figure.add_trace(bar, **where)


def differences_figure(differences, titles, order):
    """A bar for each query whose value changed, from the most lost to the most won."""
    changed = np.flatnonzero(differences != 0)
    figure = go.Figure(
        go.Bar(
            x=list(range(1, len(changed) + 1)),
            y=(100 * differences[changed]).tolist(),
            text=[titles[order[i]] for i in changed],
            textposition="none",
            hovertemplate="%{text}: %{y:+.1f}<extra></extra>",
            marker_color=[AFTER if differences[i] > 0 else BEFORE for i in changed],
        )
    )
    figure.update_xaxes(title="queries, by difference", showticklabels=False)
    figure.update_yaxes(title="nDCG@10 after less before", range=[-105, 105])
    return figure


def choice_figure(paths):
    """Gain on held-out training queries along each path, with one standard error."""
    figure = go.Figure()
    palette = (AFTER, BEFORE, FIRST, SECOND, "#d6455d", "#777")
    for i, (name, (C, gain, error)) in enumerate(paths.items()):
        figure.add_trace(
            go.Scatter(
                x=C.tolist(),
                y=gain.tolist(),
                error_y={"type": "data", "array": error.tolist(), "thickness": 1},
                name=name,
                mode="lines+markers",
                line_color=palette[i % len(palette)],
                hovertemplate="C = %{x:.2g}: %{y:+.2f} points<extra></extra>",
            )
        )
    figure.add_hline(y=0, line_dash="dot", line_color="#888")
    figure.update_xaxes(title="C", type="log", exponentformat="power", dtick=1)
    figure.update_yaxes(title="gain of nDCG@10, points")
    figure.update_layout(legend={"orientation": "h", "y": -0.2})
    return figure
