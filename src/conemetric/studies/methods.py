"""The methods by the names people type, what each learns from, and how to choose one."""

from importlib import import_module
from typing import Any, NamedTuple

from .options import Options

WORK = 1e13  # scalar operations of a fit from the default number of rows: minutes on a few cores
# rows of a fold times (features + 100) that a candidate of "auto" learns from, at most: all candidates
# take about a minute on one core
AUTO_VALUES = 4_000_000
PAIR_WORK = 40  # scalar operations per pair of rows and feature, counted for NuMax


class Method(NamedTuple):
    """A method of the library: its short name, its class, and the supervision it takes."""

    name: str
    class_name: str
    accepts: tuple[str, ...]
    passes: int = 60  # over the rows in a typical fit, measured
    visits_pairs: bool = False  # whether a fit visits all pairs of rows

    def most_rows(self, n_features: int) -> int:
        """Rows that a fit takes minutes for, by its arithmetic: the same on every machine."""
        if self.visits_pairs:
            return int((WORK / (PAIR_WORK * n_features)) ** 0.5)
        return int(WORK / (self.passes * (2 * n_features**2 + 100 * n_features + 1000)))

    def with_options(self, options: Options, n_features: int) -> Any:
        """An unfitted estimator for rows of ``n_features``; options its class lacks are ignored."""
        parameters = {
            "n_neighbors": options.n_neighbors,
            "tol": options.tol,
            "max_rows": AUTO_VALUES // (n_features + 100),
            "random_state": options.seed,
            "kernel": options.kernel,
            **options.parameters,
        }
        estimator = getattr(import_module("conemetric"), self.class_name)()
        known = estimator.get_params(deep=False)
        return estimator.set_params(
            **{name: value for name, value in parameters.items() if name in known}
        )


# what methods that learn from triplets accept: from pairs, they compare similar with dissimilar ones
TRIPLETS = ("labels", "quantity", "pairs", "triplets")
# names of `engine.kernel_map.KERNELS`, known here without loading it
KERNELS = ("gaussian", "laplacian", "cosine")
# methods that have no `kernel` parameter
WITHOUT_KERNEL = ("gradient", "numax")
KNOWN = (
    Method("auto", "AutoMetric", ("labels",), passes=1000),
    Method("frob", "FrobMetric", TRIPLETS),
    Method("boost", "BoostMetric", TRIPLETS, passes=500),
    Method("dml-eig", "DMLEig", ("labels", "pairs"), passes=1000),
    Method("lmnn-eig", "LMNNEig", TRIPLETS, passes=1000),
    Method("relative", "RelativeComparisons", TRIPLETS, passes=200),
    Method("gradient", "GradientMetric", ("labels", "quantity"), passes=200),
    Method("numax", "NuMax", ("none", "labels", "pairs"), visits_pairs=True),
)


def methods_for(supervision: str) -> list[Method]:
    """The methods that take "labels", "quantity", "pairs", "triplets" or "none"."""
    return [method for method in KNOWN if supervision in method.accepts]


def find(name: str, supervision: str) -> Method:
    """The method called ``name``; an error if it cannot learn from ``supervision``."""
    takers = ", ".join(method.name for method in methods_for(supervision))
    method = next((method for method in KNOWN if method.name == name), None)
    if method is None:
        raise ValueError(
            f"method '{name}' is not known; methods that learn from {supervision}: {takers}."
        )
    if supervision not in method.accepts:
        raise ValueError(
            f"method '{name}' learns from {' or '.join(method.accepts)}, not {supervision}; use "
            f"one of: {takers}."
        )
    return method


def check_kernel(method: str, kernel: str | None) -> None:
    """Refuse a kernel that the method cannot learn with."""
    if kernel is None:
        return
    if method in WITHOUT_KERNEL:
        takers = ", ".join(each.name for each in KNOWN if each.name not in WITHOUT_KERNEL)
        raise ValueError(f"method '{method}' learns without kernels; use one of: {takers}.")
    if method == "auto" and kernel != "auto":
        raise ValueError(
            f"method 'auto' chooses the kernel itself: kernel='{kernel}' needs a method such as 'frob', "
            "or be 'auto'."
        )
    if method != "auto" and kernel == "auto":
        raise ValueError(
            f"kernel='auto' is for method 'auto', which tries several; name one for '{method}': "
            f"{', '.join(KERNELS[:-1])} or {KERNELS[-1]}."
        )
