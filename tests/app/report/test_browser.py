"""The report in a real browser: it draws, reacts, stays silent on the console, and asks
nothing of the network.
"""

import pytest

TABS = {
    "images": {
        "map": ["views"],
        "mistakes": ["confusion", "margins"],
        "dimensions": ["spectrum", "features"],
        "proof": ["convergence"],
    },
    "triplets": {
        "map": ["views"],
        "mistakes": ["margins"],
        "dimensions": ["spectrum", "features"],
        "proof": ["convergence"],
    },
}
TABS["names"] = TABS["images"]
TABS["blend"] = {**TABS["images"], "proof": []}
TABS["long"] = TABS["images"]
TABS["helped"] = {
    "gain": ["differences"],
    "queries": [],
    "choice": ["choice"],
    "proof": ["convergence"],
    "use": [],
}
TABS["frozen"] = {**TABS["helped"], "gain": [], "proof": []}  # no query moved, nothing was solved

DRAWN = """
const place = document.getElementById("plot-" + arguments[0]);
const done = arguments[1];
const wait = (left) => {
  const marks = place.querySelectorAll(".main-svg .point, .main-svg path.js-line, .main-svg image").length;
  if (marks > 0 || left === 0) done([marks, place.clientWidth, place.clientHeight]); else setTimeout(() => wait(left - 1), 50);
};
wait(200);
"""


def emulate(browser, width, height, scheme="light"):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )


@pytest.mark.parametrize(
    ("page", "width", "scheme"),
    [
        ("images", 1200, "light"),
        ("images", 390, "light"),
        ("names", 390, "dark"),
        ("triplets", 1200, "dark"),
        ("blend", 1200, "light"),
        ("blend", 390, "light"),
        ("helped", 1200, "light"),
        ("helped", 390, "dark"),
        ("frozen", 390, "light"),
    ],
)
def test_every_tab_draws_without_errors(browser, pages, page, width, scheme):
    emulate(browser, width, 850, scheme)
    browser.get(pages[page].as_uri())
    for tab, plots in TABS[page].items():
        browser.find_element("id", f"tab-{tab}").click()
        for plot in plots:
            marks, plot_width, plot_height = browser.execute_async_script(DRAWN, plot)
            assert marks > 0, f"{plot} drew nothing"
            assert plot_width > 250 and plot_height > 250
        panels = browser.find_elements("css selector", '[role="tabpanel"]')
        assert [panel.get_attribute("id") for panel in panels if panel.is_displayed()] == [
            f"panel-{tab}"
        ]
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, (
            "the page scrolls sideways"
        )
    assert browser.get_log("browser") == []
    requests = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert [name for name in requests if not name.startswith("data:")] == []
    assert browser.execute_script("return window.broken") is None, "a name broke out of the data"


OVERLAPPING = """
const boxes = [...document.querySelectorAll("#plot-confusion .xtick text, #plot-confusion .ytick text, "
  + "#plot-confusion .x2tick text, #plot-confusion .y2tick text, #plot-confusion .annotation text")];
const corners = boxes.map((label) => label.getBoundingClientRect()).filter((box) => box.width > 0);
const cells = [...document.querySelectorAll("#plot-confusion .heatmaplayer image")].map((cell) => cell.getBoundingClientRect());
const shared = (a, b, low, high) => Math.min(a[high], b[high]) - Math.max(a[low], b[low]);
const over = (a, b) => shared(a, b, "left", "right") > 2 && shared(a, b, "top", "bottom") > 2;
const struck = (a, i) => cells.some((b) => over(a, b)) || corners.some((b, j) => i < j && over(a, b));
return [corners.length, corners.filter(struck).length];
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_long_class_names_do_not_overprint(browser, pages, width):
    emulate(browser, width, 850)
    browser.get(pages["long"].as_uri() + "#mistakes")
    browser.execute_async_script(DRAWN, "confusion")
    labels, overlapping = browser.execute_script(OVERLAPPING)
    assert labels >= 6 and overlapping == 0


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_of_evidence_is_readable(browser, pages, width):
    emulate(browser, width, 850)
    browser.get(pages["blend"].as_uri() + "#proof")
    heights = browser.execute_script(
        "return [...document.querySelectorAll('.if-evidence tr')].map((row) => row.clientHeight)"
    )
    assert len(heights) > 3 and max(heights) < 60, "its words are broken into letters"


def test_the_keyboard_reaches_every_tab(browser, pages):
    from selenium.webdriver.common.keys import Keys

    browser.get(pages["names"].as_uri())
    browser.find_element("id", "tab-map").send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("id") == "tab-mistakes"
    browser.switch_to.active_element.send_keys(Keys.END)
    assert browser.switch_to.active_element.get_attribute("id") == "tab-use"
    browser.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("aria-selected") == "true"
    assert browser.current_url.endswith("#map")


def test_the_two_maps_are_linked(browser, pages):
    from selenium.webdriver import ActionChains

    emulate(browser, 1200, 850)
    browser.get(pages["images"].as_uri())
    browser.execute_async_script(DRAWN, "views")
    point = browser.find_elements("css selector", "#plot-views .scatterlayer path.point")[0]
    ActionChains(browser).move_to_element(point).perform()
    rings, points = browser.execute_async_script(
        """
        const place = document.getElementById("plot-views"), done = arguments[0];
        const at = (trace, i) => [trace.x[i], trace.y[i]];
        const look = (left) => {
          const rings = place.data.slice(-2);
          if (!rings[0].x.length && left) { setTimeout(() => look(left - 1), 50); return; }
          for (const trace of place.data.slice(0, -2).filter((_, i) => i % 2 === 0)) {
            const [x, y] = at(rings[0], 0);
            const i = trace.customdata.findIndex((_, i) => Math.abs(trace.x[i] - x) + Math.abs(trace.y[i] - y) < 1e-3);
            const other = place.data[place.data.indexOf(trace) + 1];
            if (i >= 0) done([rings.map((ring) => at(ring, 0)), [trace, other].map((t) => at(t, i))]);
          }
          done([[], []]);
        };
        look(100);
        """
    )
    assert len(rings) == 2, "no ring around the row pointed at"
    for ring, expected in zip(rings, points, strict=True):
        assert ring == pytest.approx(expected, abs=1e-3)
    assert "row" in browser.find_element("id", "row-text").text
    assert browser.execute_script("return document.querySelector('canvas').width") == 72
    browser.find_element("css selector", '[data-view="Principal axes"]').click()
    moved = browser.execute_script("return document.getElementById('plot-views').data[0].x[0]")
    data = browser.execute_script(
        "return JSON.parse(document.getElementById('data').textContent).views['Principal axes'][0]"
    )
    first = browser.execute_script(
        "return document.getElementById('plot-views').data[0].customdata[0]"
    )
    assert moved == pytest.approx(data[first][0])


def test_without_javascript_the_pictures_are_there(browser, pages):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(pages["images"].as_uri())
        pictures = browser.find_elements("css selector", "svg.static")
        assert len(pictures) == 3
        assert all(picture.is_displayed() and picture.size["width"] > 300 for picture in pictures)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
