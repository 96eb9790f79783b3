"""Studies to report on, and a real browser to read the report with."""

import shutil

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


@pytest.fixture(scope="session")
def studies():
    digits = load_digits()
    images = Labelled(digits.data[:400], digits.target[:400])
    names = np.array(
        ["a</script><script>window.broken=1</script>", "<b>bold</b> & 'quoted'", "Blüte"]
    )
    return {
        "images": run_study(images, Options(method="frob", parameters={"tol": 1e-2}), decide=True),
        "names": run_study(
            Labelled(X, names[y]),
            Options(method="frob", n_pca=3),
            feature_names=list('<>&"'),
            decide=True,
        ),
        "blend": run_study(Labelled(X, y), Options(), decide=True),
        "long": run_study(
            Labelled(X, np.array([f"{'a long name of a species ' * 2}{i}" for i in y])),
            Options(method="frob"),
            decide=True,
        ),
        "triplets": triplet_study(),
        "pairs": pair_study(),
    }


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
    return {
        "helped": adapt(collection()),
        "frozen": adapt(collection(helped=False), AdaptOptions(map="queries")),
    }


@pytest.fixture(scope="session")
def pages(studies, adaptations, tmp_path_factory):
    """The reports of the studies and adaptations, as files."""
    folder = tmp_path_factory.mktemp("reports")
    paths = {key: folder / f"{key} ü.html" for key in (*studies, *adaptations)}
    for key, found in adaptations.items():
        write_retrieval_report(paths[key], found, name="<i>odd</i>", snippet="a < b")
    write_report(paths["images"], studies["images"], name="images", image_shape=(8, 8))
    write_report(
        paths["names"],
        studies["names"],
        name="<i>odd</i> names",
        ids=np.array([f"<u>{r}" for r in range(150)]),
    )
    for key in ("blend", "long"):
        write_report(paths[key], studies[key], name=key)
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


@pytest.fixture(autouse=True)
def quick_comparison(few_trees):
    """Every study here compares with small models."""
