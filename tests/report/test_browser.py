"""The report in a real browser: it shows its pictures at every width and in both colour schemes,
stays silent on the console, and makes no network requests.
"""

import pytest

TABS = {
    "images": {"map": ["principal_axes"], "mistakes": [], "dimensions": [], "proof": []},
}
TABS["names"] = TABS["blend"] = TABS["long"] = TABS["triplets"] = TABS["images"]
TABS["helped"] = TABS["frozen"] = {key: [] for key in ("gain", "queries", "choice", "proof", "use")}

# of each panel of a picture: marks drawn, width, height, and whether its text has the page's colour
DRAWN = """
const ink = getComputedStyle(document.body).color;
return [...document.querySelectorAll("#plot-" + arguments[0] + " svg")].map((panel) => {
  const marks = [...panel.querySelectorAll("circle, rect")].filter((mark) => mark.getBoundingClientRect().width > 0);
  const texts = [...panel.querySelectorAll("text")].map((text) => getComputedStyle(text).fill);
  return [marks.length, panel.clientWidth, panel.clientHeight, texts.every((colour) => colour === ink)];
});
"""

# the elements that reach beyond this width
TOO_WIDE = """
return [...document.querySelectorAll("body *")]
  .filter((element) => element.getBoundingClientRect().right > arguments[0] + 1)
  .map((element) => element.outerHTML.slice(0, 120));
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
            panels = browser.execute_script(DRAWN, plot)
            assert panels, f"{plot} is missing"
            for marks, plot_width, plot_height, inked in panels:
                assert marks > 1, f"{plot} drew nothing"
                assert plot_width > 250 and plot_height > 100
                assert inked, f"{plot} has text in other colours than the page"
        panels = browser.find_elements("css selector", '[role="tabpanel"]')
        assert [panel.get_attribute("id") for panel in panels if panel.is_displayed()] == [
            f"panel-{tab}"
        ]
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width, (
            f"tab {tab} scrolls sideways: {browser.execute_script(TOO_WIDE, width)}"
        )
    assert browser.get_log("browser") == []
    requests = browser.execute_script(
        "return performance.getEntriesByType('resource').map((entry) => entry.name)"
    )
    assert [name for name in requests if not name.startswith("data:")] == []
    assert browser.execute_script("return window.broken") is None, "a name broke out of the data"


@pytest.mark.parametrize("width", [1280, 390])
def test_long_class_names_scroll_within_their_table(browser, pages, width):
    emulate(browser, width, 850)
    browser.get(pages["long"].as_uri() + "#mistakes")
    table = browser.find_element("css selector", "#panel-mistakes .numbers")
    ways_to_predict = table.find_elements("css selector", "tr")[1:]
    assert len(browser.find_elements("css selector", ".counts")) == len(ways_to_predict) > 2
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [1280, 390])
def test_the_table_of_evidence_is_readable(browser, pages, width):
    emulate(browser, width, 850)
    browser.get(pages["blend"].as_uri() + "#proof")
    heights = browser.execute_script(
        "return [...document.querySelectorAll('#panel-proof .numbers tr')].map((row) => row.clientHeight)"
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


def test_pictures_are_side_by_side_or_stacked(browser, pages):
    tops = "return [...document.querySelectorAll('#plot-principal_axes svg')].map((panel) => panel.getBoundingClientRect().top)"
    for width, n_lines in ((1200, 1), (390, 2)):
        emulate(browser, width, 850)
        browser.get(pages["images"].as_uri())
        assert len(set(browser.execute_script(tops))) == n_lines


def test_without_javascript_everything_is_there(browser, pages):
    emulate(browser, 1200, 850)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(pages["images"].as_uri())
        pictures = browser.find_elements("css selector", ".plot svg")
        assert len(pictures) == 2
        assert all(picture.is_displayed() and picture.size["width"] > 300 for picture in pictures)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
