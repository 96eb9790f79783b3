"""Changes of the data that must not change the answer, of every estimator; what is compared,
`metamorphic` says.
"""

from functools import partial

import metamorphic
import numpy as np

from .outcome import Outcome, timed

SIZES = {  # decades from which a change is drawn
    "translation": (0, 6),
    "constant column": (-3, 6),
}


def drawn(rng, decades):
    return float(10.0 ** rng.uniform(*decades))


def change(rng):
    name, kind, _ = metamorphic.TOGETHER[rng.integers(len(metamorphic.TOGETHER))]
    return partial(metamorphic.changed, name, kind, drawn(rng, SIZES.get(kind, (0, 0))))


def automatic(rng):
    kind, _ = metamorphic.AUTOMATIC[rng.integers(len(metamorphic.AUTOMATIC))]
    return partial(metamorphic.automatic, kind, drawn(rng, SIZES.get(kind, (0, 0))))


def gradients(rng):
    changes = metamorphic.GRADIENT_CHANGES
    return partial(metamorphic.gradients, *changes[rng.integers(len(changes))])


def units(rng):
    return partial(
        metamorphic.rescaled, str(rng.choice([*metamorphic.LABELLED])), drawn(rng, (-6, 6))
    )


def copy(rng):
    distance = drawn(rng, (-9, -3)) if rng.random() < 0.8 else 0.0
    return partial(metamorphic.beside_a_copy, str(rng.choice([*metamorphic.LABELLED])), distance)


def ties(rng):
    return partial(metamorphic.among_ties, str(rng.choice(metamorphic.TIED)))


def blocks(rng):
    return partial(
        metamorphic.in_blocks, str(rng.choice(metamorphic.BLOCKS)), int(rng.integers(1, 12))
    )


def judged(rng):
    name, kind = rng.choice([*metamorphic.JUDGED]), rng.choice(metamorphic.JUDGED_CHANGES)
    return partial(metamorphic.judged, str(name), str(kind))


def rated(rng):
    return partial(metamorphic.rated, str(rng.choice(metamorphic.RATING_CHANGES)))


def semidefinite(rng):
    kinds = metamorphic.MATRIX_CHANGES
    return partial(metamorphic.semidefinite, kinds[rng.integers(len(kinds))])


FAMILIES = (
    change,
    change,
    change,
    units,
    copy,
    copy,
    ties,
    blocks,
    automatic,
    gradients,
    judged,
    rated,
    semidefinite,
)


def attempt(number):
    """Change number ``number``; the families take turns."""
    trial = FAMILIES[number % len(FAMILIES)](np.random.default_rng(number))
    what = " ".join(map(str, (trial.func.__name__.replace("_", " "), *trial.args)))
    try:
        faults, seconds = timed(lambda: tuple(trial(number)))
    except Exception as error:
        return Outcome(number, what, type(error).__name__, faults=(f"{error}"[:200],))
    return Outcome(number, what, "changed" if faults else "the same", seconds, faults=faults)
