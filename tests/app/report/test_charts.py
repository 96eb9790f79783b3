"""Charts: round ticks within the axes, marks where the data are, names that cannot break out."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from conemetric.app.report.charts import MOST_TICKS, WIDTH, Chart, _ticks, extent

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("size", [1e-12, 1e-3, 0.7, 1.0, 3.0, 99.0, 1e9])
@pytest.mark.parametrize("start", [-2.5, -1.0, 0.0, 0.3])
def test_ticks_are_few_round_numbers_within_the_axis(size, start):
    low, high = start * size, (start + 1) * size
    places = [place for place, _ in _ticks(low, high)]
    assert 2 <= len(places) <= MOST_TICKS + 1
    assert all(low - 1e-9 * size <= place <= high + 1e-9 * size for place in places)
    steps = np.diff(places)
    np.testing.assert_allclose(steps, steps[0])
    digits = f"{steps[0]:.6e}"[:8].rstrip("0").rstrip(".")
    assert digits in ("1", "2", "5")


def numbers(path):
    return [float(number) for number in re.findall(r"-?[\d.]+", path)]


@pytest.mark.parametrize("names", [None, [], [(1.0, "<b>&"), (3.0, "a long name, a long name")]])
@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("second", [None, (0.0, 5.0, "other")])
def test_every_mark_is_within_the_picture(names, square, second):
    ticks = {"x_ticks": names, "y_ticks": names}
    chart = Chart(
        (0.5, 8.0),
        (0.5, 8.0),
        title="<title>",
        x_label="across",
        y_label="up",
        second=second,
        square=square,
        **ticks,
    )
    values = np.array([0.5, 1.0, 8.0])
    chart.line(values, values, "#123456")
    chart.box((1, 2), (3, 4), "#123456")
    chart.rule(x=2)
    chart.text(2, 2, "a < b")
    picture = ElementTree.fromstring(chart.svg())
    _, _, width, height = numbers(picture.get("viewBox"))
    assert width == WIDTH and height > 50
    for path in picture.iter(f"{SVG}path"):
        drawn = numbers(path.get("d").replace("h0", ""))
        assert all(-1 <= number <= max(width, height) + 1 for number in drawn)
        assert "nan" not in path.get("d")
    words = [text.text for text in picture.iter(f"{SVG}text")]
    assert {"<title>", "across", "up", "a < b"} <= set(words)
    assert (names is None) or {name for _, name in names} <= set(words)
    if square:
        assert chart.bottom - chart.top == pytest.approx(chart.right - chart.left)


def test_marks_are_where_the_data_are():
    chart = Chart((1.0, 100.0), (1.0, 100.0))
    middle = 50.5
    assert chart.at_x([1.0, middle, 100.0]) == pytest.approx(
        [chart.left, (chart.left + chart.right) / 2, chart.right]
    )
    assert chart.at_y([1.0, middle, 100.0]) == pytest.approx(
        [chart.bottom, (chart.bottom + chart.top) / 2, chart.top]
    )


@pytest.mark.parametrize(
    "values", [[1.0, 2.0], [3.0], [0.0, 0.0], [np.nan], [], [1.0, np.inf, -np.inf, 4.0]]
)
def test_the_extent_has_room_for_every_finite_value(values):
    low, high = extent(values)
    finite = [value for value in values if np.isfinite(value)]
    assert low < high and all(low < value < high for value in finite)
