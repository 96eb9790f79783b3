"""Charts as SVG, in the colours of the page, light or dark: axes with ticks, and marks in data
coordinates.
"""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from typing import Any

import numpy as np

WIDTH, HEIGHT = 396, 274  # SVG units; on a screen of 390 px, a unit is 0.9 px
FONT, SMALL = 11, 8  # size of letters, and where names are many
LETTER = 0.6  # mean width of a letter of a sans-serif face, by its size
MOST_TICKS = 6

Ticks = list[tuple[float, str]]


@dataclass
class Chart:
    """One panel."""

    x: tuple[float, float]  # ends of the axes
    y: tuple[float, float]
    _: KW_ONLY
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    x_ticks: Ticks | None = None  # positions and names; None: round numbers
    y_ticks: Ticks | None = None
    second: tuple[float, float, str] | None = None  # ends and label of another axis, on the right
    height: float = HEIGHT
    square: bool = False  # whether the area of the marks is a square
    font: int = FONT

    def __post_init__(self) -> None:
        x_ticks = _ticks(*self.x) if self.x_ticks is None else self.x_ticks
        y_ticks = _ticks(*self.y) if self.y_ticks is None else self.y_ticks
        second_ticks = _ticks(*self.second[:2]) if self.second else []
        self.left = 6 + (FONT + 6) * bool(self.y_label) + self._widest(y_ticks)
        self.right = WIDTH - (12 + FONT * bool(self.second) + self._widest(second_ticks))
        self.upright = self._widest(x_ticks) * len(x_ticks) > self.right - self.left
        self.top = 24 if self.title else 10
        names = self._widest(x_ticks) if self.upright else (self.font + 8) * bool(x_ticks)
        below = 6 + names + (FONT + 6) * bool(self.x_label)
        self.bottom = self.top + self.right - self.left if self.square else self.height - below
        self.height = self.bottom + below
        self.marks: list[str] = []
        self._axes(x_ticks, y_ticks, second_ticks)
        self._labels()

    def _widest(self, ticks):
        return 8 + LETTER * self.font * max(len(name) for _, name in ticks) if ticks else 0

    def _axes(self, x_ticks, y_ticks, second_ticks):
        outline = f"M{self.left:.1f} {self.top}V{self.bottom:.1f}H{self.right:.1f}"
        self.marks.append(_stroke(outline, "var(--line, #888888)", 1))
        for position, name in x_ticks:
            x = self.at_x(position)
            place = f'transform="translate({x + 4:.1f} {self.bottom + 6:.1f}) rotate(-90)"'
            if not self.upright:
                place = f'x="{x:.1f}" y="{self.bottom + self.font + 5:.1f}"'
            self._write(name, place, "end" if self.upright else "middle", self.font)
        for position, name in y_ticks:
            self._beside(name, self.left - 6, self.at_y(position), "end")
        for position, name in second_ticks:
            self._beside(name, self.right + 6, self.at_y(position, second=True), "start")

    def _labels(self):
        middle, centre = (self.left + self.right) / 2, (self.top + self.bottom) / 2
        self._write(self.title, f'x="{middle:.1f}" y="14"', "middle", FONT + 1)
        self._write(self.x_label, f'x="{middle:.1f}" y="{self.height - 5:.1f}"', "middle")
        upward = 'transform="translate({:.1f} {:.1f}) rotate(-90)"'
        self._write(self.y_label, upward.format(FONT, centre), "middle")
        if self.second:
            self._write(self.second[2], upward.format(WIDTH - 3, centre), "middle")

    def _write(self, text, place, anchor, size=FONT):
        if text:
            self.marks.append(
                f'<text {place} text-anchor="{anchor}" font-size="{size}" '
                f'fill="currentColor">{escape(text)}</text>'
            )

    def _beside(self, text, x, y, anchor):
        self._write(text, f'x="{x:.1f}" y="{y + 0.35 * self.font:.1f}"', anchor, self.font)

    def at_x(self, values: Any) -> Any:
        """Data to SVG units."""
        return _scaled(values, self.x, (self.left, self.right))

    def at_y(self, values: Any, second: bool = False) -> Any:
        """Data to SVG units."""
        ends = self.second[:2] if self.second and second else self.y
        return _scaled(values, ends, (self.bottom, self.top))

    def points(self, x: Any, y: Any, colour: str, size: float = 4, second: bool = False) -> None:
        """A dot for each row."""
        places = zip(self.at_x(x), self.at_y(y, second), strict=True)
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places if math.isfinite(a + b))
        self.marks.append(_stroke(path, colour, size, "stroke-linecap:round;stroke-opacity:.8"))

    def line(self, x: Any, y: Any, colour: str, second: bool = False) -> None:
        """Dots joined by lines."""
        places = zip(self.at_x(x), self.at_y(y, second), strict=True)
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        self.marks.append(_stroke(f"M{path}", colour, 1.5))
        self.points(x, y, colour, 5, second)

    def box(
        self, x: Sequence[float], y: Sequence[float], colour: str, opacity: float = 0.7
    ) -> None:
        """A filled rectangle between two corners."""
        (a, b), (c, d) = self.at_x(np.asarray(x, float)), self.at_y(np.asarray(y, float))
        self._fill(f"M{a:.1f} {c:.1f}H{b:.1f}V{d:.1f}H{a:.1f}Z", colour, opacity)

    def steps(self, edges: Any, heights: Any, colour: str, opacity: float = 0.6) -> None:
        """A filled staircase from zero: a histogram."""
        tops, ends = self.at_y(np.asarray(heights, float)), self.at_x(np.asarray(edges, float))
        path = "".join(f"V{top:.1f}H{end:.1f}" for top, end in zip(tops, ends[1:], strict=True))
        base = self.at_y(np.zeros(1))[0]
        self._fill(f"M{ends[0]:.1f} {base:.1f}{path}V{base:.1f}Z", colour, opacity)

    def rule(self, x: float) -> None:
        """A dotted vertical line."""
        path = f"M{self.at_x(x):.1f} {self.top}V{self.bottom:.1f}"
        self.marks.append(_stroke(path, "#888888", 1, "stroke-dasharray:2 3"))

    def text(self, x: float, y: float, text: str, anchor: str = "middle") -> None:
        """A word at a place, its middle there unless anchored otherwise."""
        self._beside(text, float(self.at_x(x)), float(self.at_y(y)), anchor)

    def _fill(self, path, colour, opacity):
        self.marks.append(f'<path d="{path}" fill="{colour}" fill-opacity="{opacity:.3g}"/>')

    def svg(self) -> str:
        """The whole chart."""
        size = f"0 0 {WIDTH} {self.height:.0f}"
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}">{"".join(self.marks)}</svg>'
        )


def extent(*arrays: Any) -> tuple[float, float]:
    """Ends of an axis that shows all finite values with some room."""
    values = np.concatenate([np.ravel(array) for array in arrays]).astype(float)
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
    return float(low - room), float(high + room)


def _stroke(path, colour, width, style=""):
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" style="{style}"/>'
    )


def _scaled(values, ends, units):
    share = (np.asarray(values, float) - ends[0]) / (ends[1] - ends[0])
    return units[0] + share * (units[1] - units[0])


def _ticks(low: float, high: float) -> Ticks:
    """Round numbers within the axis."""
    unit = 10.0 ** math.floor(math.log10((high - low) / MOST_TICKS))
    step = next(unit * n for n in (1, 2, 5, 10) if (high - low) / (unit * n) <= MOST_TICKS)
    counts = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    return [(n * step, f"{round(n * step, 12):g}") for n in counts]
