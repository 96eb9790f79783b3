"""``conemetric datasets``: the data sets that commands know by name."""

from ..datasets import ALIASES, BUNDLED, load_bundled
from .invocation import state
from .options import Command
from .wording import grid


def datasets(given: Command) -> None:
    """List the data sets that commands know by name."""
    rows = []
    for name, about in BUNDLED.items():
        bunch = load_bundled(name)
        n, n_features = bunch.data.shape
        sizes = {"rows": n, "features": n_features, "classes": len(bunch.target_names)}
        rows.append({"name": name, **sizes, "about": about})
    others = ", ".join(f"{alias} is {name}" for alias, name in ALIASES.items())
    state.answer(
        {"datasets": rows, "aliases": ALIASES},
        grid("", rows[0], [[str(value) for value in row.values()] for row in rows]),
        last=[f"{others}; try: conemetric learn {rows[0]['name']}"],
    )
