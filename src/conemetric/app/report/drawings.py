"""Plain drawings for readers without JavaScript: SVG written out, because matplotlib
would take longer than everything else in a report.
"""

import html
from collections.abc import Sequence

import numpy as np

WIDTH, HEIGHT, GAP, HEAD = 440, 320, 30, 28


def scatters(pair, titles: Sequence[str], colours: Sequence[str]) -> str:
    """Two clouds of points side by side; one colour per point."""
    panels = []
    for points, title in zip(pair, titles, strict=True):
        x, y = _scaled(points[:, 0], WIDTH), HEIGHT - _scaled(points[:, 1], HEIGHT)
        marks = (
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>'
            for a, b, colour in zip(x, y, colours, strict=True)
        )
        panels.append((title, "".join(marks)))
    return _drawing(panels)


def bars(heights, title: str, colour: str) -> str:
    """Bars from the left, the tallest as high as the drawing."""
    step = WIDTH / len(heights)
    tall = HEIGHT * np.asarray(heights) / (np.max(heights) or 1.0)
    marks = (
        f'<rect x="{i * step:.1f}" y="{HEIGHT - h:.1f}" width="{0.8 * step:.2f}" height="{h:.1f}"/>'
        for i, h in enumerate(tall)
    )
    return _drawing([(title, f'<g fill="{colour}">{"".join(marks)}</g>')])


def lines(curves, title: str, colours: Sequence[str]) -> str:
    """Curves over the same steps, on one scale."""
    curves = [np.where(np.isfinite(values), values, np.nan) for values in curves]
    low, high = np.nanmin(np.concatenate(curves)), np.nanmax(np.concatenate(curves))
    marks = []
    for values, colour in zip(curves, colours, strict=True):
        x = np.linspace(0, WIDTH, max(2, len(values)))[: len(values)]
        y = HEIGHT * (1 - (values - low) / ((high - low) or 1.0))
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if b == b)
        marks.append(f'<polyline fill="none" stroke="{colour}" points="{points}"/>')
    return _drawing([(title, "".join(marks))])


def _scaled(values, size):
    """Values stretched over 4 to ``size`` - 4."""
    low, spread = np.min(values), np.ptp(values)
    return 4 + (size - 8) * (values - low) / (spread or 1.0)


def _drawing(panels):
    width = len(panels) * (WIDTH + GAP) - GAP
    drawn = "".join(
        f'<g transform="translate({i * (WIDTH + GAP)} {HEAD})"><text y="-9">{html.escape(title)}</text>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>{marks}</g>'
        for i, (title, marks) in enumerate(panels)
    )
    return (
        f'<svg class="static" role="img" viewBox="0 0 {width} {HEIGHT + HEAD + 1}" '
        f'font-family="sans-serif" font-size="15">{drawn}</svg>'
    )
