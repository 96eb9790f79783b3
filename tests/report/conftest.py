"""Studies to report on, and a real browser to read the report with."""

import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from conemetric.report import write_report
from conemetric.workflow import Options, learn
from conemetric.workflow.supervision import Labelled, Paired, Ranked

X, y = load_iris(return_X_y=True)


def triplet_study():
    rng = np.random.default_rng(0)
    triplets = np.array([rng.choice(150, 3, replace=False) for _ in range(600)])
    i, j, k = triplets.T
    return learn(
        Ranked(X, triplets[(y[i] == y[j]) & (y[i] != y[k])]),
        Options(method="frob", scale="standard"),
    )


def pair_study():
    pairs = np.random.default_rng(0).integers(150, size=(300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return learn(
        Paired(X, pairs, similar=y[pairs[:, 0]] == y[pairs[:, 1]]),
        Options(method="dml-eig", parameters={"tol": 1e-2}),
    )


@pytest.fixture(scope="session")
def studies():
    digits = load_digits()
    images = Labelled(digits.data[:400], digits.target[:400])
    names = np.array(
        ["a</script><script>window.broken=1</script>", "<b>bold</b> & 'quoted'", "Blüte"]
    )
    return {
        "images": learn(images, Options(method="frob", parameters={"tol": 1e-2})),
        "names": learn(
            Labelled(X, names[y]), Options(method="frob", n_pca=3), feature_names=list('<>&"')
        ),
        "blend": learn(Labelled(X, y), Options()),
        "triplets": triplet_study(),
        "pairs": pair_study(),
    }


@pytest.fixture(scope="session")
def pages(studies, tmp_path_factory):
    """The reports of the studies, as files."""
    folder = tmp_path_factory.mktemp("reports")
    paths = {key: folder / f"{key} ü.html" for key in studies}
    write_report(paths["images"], studies["images"], name="images", image_shape=(8, 8))
    write_report(
        paths["names"],
        studies["names"],
        name="<i>odd</i> names",
        ids=np.array([f"<u>{r}" for r in range(150)]),
    )
    write_report(paths["blend"], studies["blend"], name="blend")
    write_report(paths["triplets"], studies["triplets"], name="triplets")
    write_report(paths["pairs"], studies["pairs"], name="pairs")
    return paths


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Headless Chromium by Selenium; skipped where either is missing."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="browser tests need selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip(
            "browser tests need chromium and chromedriver (Debian: chromium, chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
    ):
        options.add_argument(f"--{flag}")
    for flag in (
        "disable-component-update",
        "disable-sync",
        f"user-data-dir={tmp_path_factory.mktemp('browser')}",
        "window-size=1200,900",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    session.implicitly_wait(10)
    yield session
    session.quit()
