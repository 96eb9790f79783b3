"""What the words of a column spell: recognised once, from a sample first, then from all of them."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, Self

from ..core.fields import named_class
from ..core.warn import warn_user
from ..core.wording import listed
from .dates import DateSpelling
from .numerals import NumberSpelling, mixed_units
from .spelling import FEWEST_VALUES, MOST_SLIPS, Spelling, is_missing
from .times import DurationSpelling, HeightSpelling, TimeSpelling

# in the order in which they are tried
# 13:08 would also be a duration, of 13 minutes and 8 seconds: times of day come first
CLASSES: tuple[type[Spelling], ...] = (
    DateSpelling,
    TimeSpelling,
    NumberSpelling,
    DurationSpelling,
    HeightSpelling,
)
NUMBER_CLASSES = tuple(each for each in CLASSES if each.kind == "number")
BY_NAME = {each.name: each for each in CLASSES}
SAMPLED = 200  # words that show whether it is worth while to read all of them
SLACK = 0.1  # more slips than are allowed: that many in a sample are no chance
WHAT = {"number": "a number", "date": "a date", "time": "a time of day"}  # by kind
Value = float | None


class Recognised(NamedTuple):
    """A spelling, and what each different word of the column spells by it: NaN for a missing value, None
    for a slip.
    """

    spelling: Spelling
    values: dict[str, Value]

    @classmethod
    def by(cls, spelling: Spelling, words: Iterable[str]) -> Self:
        """What these words spell by a spelling."""
        return cls(spelling, {word: spelling.value_of(word) for word in words})

    @property
    def slips(self) -> list[str]:
        """The words that spell nothing."""
        return [word for word, value in self.values.items() if value is None]


def recognise(
    words: Collection[str],
    others: float = 0.0,
    decimal: str = ".",
    classes: Sequence[type[Spelling]] = CLASSES,
) -> Recognised | None:
    """The first spelling by which all of the different words but a share of ``others`` spell values.
    None if there is none, or if all words mean missing values. ``decimal`` is the decimal mark where
    words leave it open.
    """
    present = [word for word in words if not is_missing(word)]
    if not present:
        return None
    sample = present[:: -(-len(present) // SAMPLED)]
    allowed = others * len(present)
    allowed_in_sample = 0.0
    if others:
        allowed_in_sample = (others + SLACK) * len(sample)
    for kind in classes:
        spelling = kind.found_in(sample, decimal)
        if spelling is None:
            continue
        n_unread = [spelling.value_of(word) for word in sample].count(None)
        if n_unread > allowed_in_sample:
            continue
        found = Recognised.by(spelling, words)
        if len(found.slips) > allowed:
            # the rest may show the decimal mark, or dates in further formats
            spelling = kind.found_in(present, decimal) or spelling
            found = Recognised.by(spelling, words)
        if len(found.slips) <= allowed:
            return found
    return None


def spelling_of(name: str, words: Collection[str]) -> Spelling | None:
    """The spelling of the words of a column; None if they are categories. A warning names a slip but for
    which they would be something else.
    """
    found = recognise(words)
    if found is not None:
        return found.spelling
    fault = _fault_of(words)
    if fault:
        warn_user(
            f"column {name!r} is read as categories: {fault}, or declare it as such "
            "(categorical_features, --categorical)."
        )
    return None


def _fault_of(words: Collection[str]) -> str:
    """But for what words would be numbers, dates or times, and what to do; empty if they are far from
    it, or so few that any may be a category.
    """
    if len(words) < FEWEST_VALUES:
        return ""
    nearly = recognise(words, MOST_SLIPS)
    if nearly is not None:
        what = WHAT[nearly.spelling.kind]
        slip = nearly.slips[0][:80]
        return f"{slip!r} is not {what}, as nearly all others are; correct it, empty it"
    units = mixed_units(list(words))
    if units:
        return f"its numbers are in {listed(units)}; convert them to one unit"
    return ""


def spelling_from_state(state: Any, within: str) -> Spelling | None:
    """The spelling of a state, checked; None for None."""
    if state is None:
        return None
    spelling, fields = named_class(state, "name", BY_NAME, within)
    return spelling.from_state(fields, within)
