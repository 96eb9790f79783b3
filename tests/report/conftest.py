"""Studies to report on, and a real browser to read the report with."""

import shutil
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris

from conemetric.report.adaptation import write_retrieval_report
from conemetric.report.metric import write_report
from conemetric.studies import Options, run_study
from conemetric.studies.adapting import AdaptOptions, Collection, adapt
from conemetric.studies.constrained import Paired, Ranked
from conemetric.studies.supervision import Labelled

X, y = load_iris(return_X_y=True)


def triplet_study():
    rng = np.random.default_rng(0)
    triplets = np.array([rng.choice(150, 3, replace=False) for _ in range(600)])
    i, j, k = triplets.T
    return run_study(
        Ranked(X, triplets[(y[i] == y[j]) & (y[i] != y[k])]),
        Options(method="frob", scale="standard"),
    )


def pair_study():
    pairs = np.random.default_rng(0).integers(150, size=(300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return run_study(
        Paired(X, pairs, similar=y[pairs[:, 0]] == y[pairs[:, 1]]),
        Options(method="dml-eig", parameters={"tol": 1e-2}),
    )


class Made(dict):
    """Values by name, each made when it is first asked for: most tests need one of them."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def __missing__(self, key):
        self[key] = self.make[key]()
        return self[key]


def image_study():
    digits = load_digits()
    images = Labelled(digits.data[:400], digits.target[:400])
    return run_study(images, Options(method="frob", parameters={"tol": 1e-2}), decide=True)


def name_study():
    names = np.array(
        ["a</script><script>window.broken=1</script>", "<b>bold</b> & 'quoted'", "Blüte"]
    )
    return run_study(
        Labelled(X, names[y]),
        Options(method="frob", n_pca=3),
        feature_names=list('<>&"'),
        decide=True,
    )


def long_study():
    names = np.array([f"{'a long name of a species ' * 2}{i}" for i in y])
    return run_study(Labelled(X, names), Options(method="frob"), decide=True)


@pytest.fixture(scope="session")
def studies():
    return Made(
        {
            "images": image_study,
            "names": name_study,
            "blend": lambda: run_study(Labelled(X, y), Options(), decide=True),
            "long": long_study,
            "triplets": triplet_study,
            "pairs": pair_study,
        }
    )


def collection(helped=True):
    """Queries one place off from their documents, with texts that are no markup."""
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(80, 6))
    relevant = rng.integers(80, size=60)
    queries = np.roll(documents[relevant], 1, axis=1) if helped else documents[relevant]
    relevance = np.column_stack([np.arange(60), relevant, np.ones(60, int)])
    return Collection(
        queries,
        documents,
        relevance,
        query_texts=[
            f"<i>query</i> {i} </script><script>window.broken=1</script>" for i in range(60)
        ],
        document_texts=[f"<b>document</b> {i} " + "long " * 60 for i in range(80)],
    )


@pytest.fixture(scope="session")
def adaptations():
    return Made(
        {
            "helped": lambda: adapt(collection()),
            "frozen": lambda: adapt(collection(helped=False), AdaptOptions(map="queries")),
        }
    )


@pytest.fixture(scope="session")
def pages(studies, adaptations, tmp_path_factory):
    """The reports of the studies and adaptations, as files."""
    folder = tmp_path_factory.mktemp("reports")
    special = {
        "images": {"image_shape": (8, 8)},
        "names": {"name": "<i>odd</i> names", "ids": np.array([f"<u>{r}" for r in range(150)])},
    }

    def write(key):
        path = folder / f"{key} ü.html"
        if key in adaptations.make:
            write_retrieval_report(path, adaptations[key], name="<i>odd</i>", snippet="a < b")
        else:
            write_report(path, studies[key], **{"name": key, **special.get(key, {})})
        return path

    return Made({key: partial(write, key) for key in (*studies.make, *adaptations.make)})


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


@pytest.fixture(autouse=True)
def quick_comparison(few_trees):
    """Every study here compares with small models."""
