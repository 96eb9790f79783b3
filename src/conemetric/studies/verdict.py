"""The verdict on a table of ways to predict: which row has the lowest error, which rows cannot be
told apart from it, and whether the learned distance is better than the Euclidean one.

The row with the lowest error is compared with every other row by a paired test on the same held-out
items, and each p-value is multiplied by the number of these comparisons (Bonferroni). Although the
lowest row was picked by looking, that suffices for what is said: the row that is truly best is
called worse only if some other row beats it by chance, and there are no more than these comparisons
in which that can happen (Hsu, Annals of Statistics 9, 1981: comparisons with the best).

Learned against Euclidean distance is a comparison of its own, at the same level, planned before the
data were seen. It has one p-value wherever it occurs, which is not multiplied.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ..evaluation.statistics import SIGNIFICANT, p_in_words


class Kind(Enum):
    """What a row of the table predicts by; of rows with the same error the first kind is named first."""

    DECISION = "a classifier or regressor of this library"
    LEARNED = "nearest neighbours by the learned distance"
    EUCLIDEAN = "nearest neighbours by the Euclidean distance"
    OTHER = "a model it is compared with"
    CONSTANT = "the same for every item"


OURS = (Kind.DECISION, Kind.LEARNED)
DISTANCES = (Kind.EUCLIDEAN, Kind.LEARNED)


class Outcome(Enum):
    """How the learned distance does beside the Euclidean one."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"  # the difference may well be chance
    COLLAPSED = "collapsed"  # whatever its error is


@dataclass(frozen=True)
class Row:
    """A row of the table: its name there, its kind, and its error, the mean of all splits."""

    name: str
    kind: Kind
    error: float


@dataclass(frozen=True)
class Comparison:
    """A row beside the one with the lowest error, with the p-value that counts."""

    row: Row
    p_value: float

    @property
    def is_level(self) -> bool:
        """Whether the two cannot be told apart."""
        return self.p_value > SIGNIFICANT


@dataclass(frozen=True)
class OfDistances:
    """The learned distance beside the Euclidean one."""

    euclidean: Row
    learned: Row
    p_value: float
    outcome: Outcome


@dataclass(frozen=True)
class Verdict:
    """What the table shows.

    Attributes
    ----------
    lowest : Row
        The row with the lowest error.
    comparisons : tuple of Comparison
        All other rows, by their error, each compared with the lowest; without the other distance
        where the lowest row is one, since that comparison is ``distances``.
    distances : OfDistances
    """

    lowest: Row
    comparisons: tuple[Comparison, ...]
    distances: OfDistances

    @property
    def level(self) -> tuple[Comparison, ...]:
        """The comparisons with rows that cannot be told apart from the lowest."""
        return tuple(each for each in self.comparisons if each.is_level)

    @property
    def worse(self) -> tuple[Comparison, ...]:
        """The comparisons with rows whose error is measurably higher."""
        return tuple(each for each in self.comparisons if not each.is_level)

    @property
    def other_distance(self) -> Row | None:
        """The other distance, where the lowest row is one."""
        if self.lowest.kind not in DISTANCES:
            return None
        if self.lowest == self.distances.euclidean:
            return self.distances.learned
        return self.distances.euclidean

    @property
    def other_distance_is_worse(self) -> bool:
        """Whether that one has a measurably higher error."""
        settled = self.distances.outcome in (Outcome.BETTER, Outcome.WORSE)
        return self.other_distance is not None and settled

    @property
    def is_ours(self) -> bool:
        """Whether the lowest error is that of this library."""
        return self.lowest.kind in OURS

    @property
    def is_alone(self) -> bool:
        """Whether every other row has a measurably higher error."""
        return not self.level and (self.other_distance is None or self.other_distance_is_worse)

    def is_worse(self, name: str) -> bool:
        """Whether a row has a measurably higher error than the lowest."""
        if self.other_distance is not None and name == self.other_distance.name:
            return self.other_distance_is_worse
        return any(each.row.name == name for each in self.worse)

    def colour(self, name: str) -> str:
        """ "better" or "worse" where the verdict says so of a row, else empty. Nothing is better that
        errs as much as the constant.
        """
        learned = self.distances.learned
        outcome = self.distances.outcome
        if name == learned.name and outcome is Outcome.WORSE:
            return "worse"
        if name == learned.name and outcome is Outcome.BETTER:
            if learned.error < self._error_of_constant:
                return "better"
            return ""
        is_baseline = self.lowest.kind in (Kind.EUCLIDEAN, Kind.CONSTANT)
        if name == self.lowest.name and self.is_alone and not is_baseline:
            return "better"
        return ""

    @property
    def _error_of_constant(self):
        rows = [self.lowest, *(comparison.row for comparison in self.comparisons)]
        errors = [row.error for row in rows if row.kind is Kind.CONSTANT]
        return min(errors, default=math.inf)


def find_verdict(
    rows: Sequence[Row], p_value: Callable[[str, str], float], collapsed: bool = False
) -> Verdict:
    """The verdict on these rows.

    Parameters
    ----------
    rows : sequence of Row
        One of each distance, and any others.
    p_value : callable
        ``p_value(one, other)``: of the difference between the errors of two rows, by name.
    collapsed : bool, default=False
        Whether the learned distance has collapsed.
    """
    order = list(Kind)  # of rows with the same error
    lowest, *others = sorted(rows, key=lambda row: (row.error, order.index(row.kind)))
    # learned against Euclidean is a planned comparison, which is not among those that are adjusted
    counted = [row for row in others if not {row.kind, lowest.kind} <= set(DISTANCES)]
    comparisons = []
    for row in counted:
        adjusted = len(counted) * p_value(lowest.name, row.name)
        comparisons.append(Comparison(row, min(1.0, adjusted)))
    euclidean = next(row for row in rows if row.kind is Kind.EUCLIDEAN)
    learned = next(row for row in rows if row.kind is Kind.LEARNED)
    p_of_distances = p_value(euclidean.name, learned.name)
    if collapsed:
        outcome = Outcome.COLLAPSED
    elif p_of_distances > SIGNIFICANT:
        outcome = Outcome.UNCLEAR
    elif learned.error < euclidean.error:
        outcome = Outcome.BETTER
    else:
        outcome = Outcome.WORSE
    distances = OfDistances(euclidean, learned, p_of_distances, outcome)
    return Verdict(lowest, tuple(comparisons), distances)


# ---- in words


@dataclass(frozen=True)
class Terms:
    """What the words need beside the verdict."""

    measure: str  # "error", or what else a row has the lowest of
    figures: Mapping[str, str]  # the error of each row, by its name, as the table shows it
    where: str  # " on 254 held-out rows", after a figure
    judges: str  # "rows" or "splits", which tell rows of the table apart or cannot
    constant: str = ""  # what is always predicted

    def title(self, row: Row) -> str:
        """What a sentence calls a row."""
        titles = {
            Kind.EUCLIDEAN: "the Euclidean distance",
            Kind.LEARNED: "the learned distance",
            Kind.CONSTANT: f"always predicting {self.constant}",
        }
        return titles.get(row.kind, row.name)


def verdict_in_words(verdict: Verdict, terms: Terms) -> str:
    """The verdict in a few sentences, each of which can be checked against the table."""
    compared = [each.row.kind for each in verdict.comparisons]
    only_distances = {verdict.lowest.kind, *compared} <= {*DISTANCES, Kind.CONSTANT}
    if only_distances:
        sentences = [_on_distances(verdict.distances, terms, terms.where)]
        if verdict.lowest.kind is Kind.CONSTANT:
            sentences.append(_lowest(verdict, terms))
    else:
        sentences = [_lowest(verdict, terms), _level(verdict, terms), _ours(verdict, terms)]
    sentences.append(_constant(verdict, terms))
    if not only_distances:
        sentences.append(_on_distances(verdict.distances, terms))
    return " ".join(filter(None, sentences))


def _lowest(verdict, terms):
    """Which row has the lowest error, and whether it is ours."""
    title = terms.title(verdict.lowest)
    figure = terms.figures[verdict.lowest.name] + terms.where + _tied(verdict, terms)
    # what is not ours is named as plainly as what is
    if verdict.is_ours:
        return f"{title[0].upper()}{title[1:]} has the lowest {terms.measure}: {figure}."
    return f"The lowest {terms.measure} is not ours: {title}, {figure}."


def _tied(verdict, terms):
    """Which rows have the lowest error too, but for the constant, which has a sentence of its own."""
    tied = []
    for each in verdict.comparisons:
        same = each.row.error == verdict.lowest.error
        if same and each.row.kind is not Kind.CONSTANT:
            tied.append(terms.title(each.row))
    if not tied:
        return ""
    *first, last = tied
    if not first:
        return f", as has {last}"
    return f", as have {', '.join(first)} and {last}"


def _level(verdict, terms):
    """Which rows cannot be told apart from the lowest, or that none is; the constant and the other
    distance have sentences of their own.
    """
    level = [each for each in verdict.level if each.row.kind is not Kind.CONSTANT]
    if level:
        return _cannot_tell_apart(level, verdict, terms)
    if verdict.worse:
        return _every_other_row(verdict, terms)
    return ""


def _cannot_tell_apart(level, verdict, terms):
    """The rows that may be as good as the lowest, with their p-values."""
    *first, named = (_with_p(each, terms) for each in level)
    if first:
        named = f"{', '.join(first)} or {named}"
    n = len(verdict.comparisons)
    if n > 1:
        named += f", p adjusted for {n} comparisons"
    return f"These {terms.judges} cannot tell it apart from {named}."


def _every_other_row(verdict, terms):
    """That all other rows are worse, but for the constant and the other distance where they are not."""
    exceptions = [each.row for each in verdict.level]
    p_values = [each.p_value for each in verdict.worse]
    if verdict.other_distance_is_worse:
        p_values.append(verdict.distances.p_value)
    elif verdict.other_distance is not None:
        exceptions.append(verdict.other_distance)
    rows = "Every other row"
    if exceptions:
        rows += f" but {' and '.join(map(terms.title, exceptions))}"
    p = p_in_words(max(p_values)).replace("=", "at most")
    n = len(verdict.comparisons)
    if n > 1:
        p += f", adjusted for {n} comparisons"
    return f"{rows} has a higher {terms.measure} ({p})."


def _ours(verdict, terms):
    """What the best of ours is, where it is worse and no other sentence says so."""
    ours = [each for each in verdict.comparisons if each.row.kind in OURS]
    if verdict.is_ours or not ours or any(each.is_level for each in ours):
        return ""
    best, learned = ours[0], verdict.other_distance
    if learned is not None:
        level_or_better = not verdict.other_distance_is_worse or learned.error <= best.row.error
        if level_or_better:  # the sentence on the distances tells how it does
            return ""
    return f"Our best is worse: {_with_p(best, terms)}."


def _constant(verdict, terms):
    """Whether always predicting the same does as well."""
    if verdict.lowest.kind is Kind.CONSTANT:
        return "The columns may carry little information."
    level = [each for each in verdict.level if each.row.kind is Kind.CONSTANT]
    if not level:
        return ""
    title = terms.title(verdict.lowest)
    over = _with_p(level[0], terms)
    finding = f"may be ahead of {over} by chance"
    if level[0].row.error == verdict.lowest.error:
        finding = f"is no better than {over}"
    return (
        f"{title[0].upper()}{title[1:]} {finding}: too few {terms.judges}, or columns that carry little "
        "information."
    )


def _on_distances(distances, terms, where=""):
    """Which of the two distances to use."""
    before = terms.figures[distances.euclidean.name]
    after = terms.figures[distances.learned.name]
    change = f"{terms.measure} {before} -> {after}{where}"
    p = p_in_words(distances.p_value)
    if distances.outcome is Outcome.BETTER:
        return f"Use the learned distance rather than the Euclidean one: {change} ({p})."
    if distances.outcome is Outcome.COLLAPSED:
        finding = f"has collapsed, {change}"
    elif distances.outcome is Outcome.WORSE:
        finding = f"is worse, {change} ({p})"
    elif distances.learned.error < distances.euclidean.error:
        finding = f"may be ahead by chance, {change} ({p})"
    else:
        finding = f"shows no gain, {change} ({p})"
    return f"Keep the Euclidean distance: the learned one {finding}."


def _with_p(comparison, terms):
    figure = terms.figures[comparison.row.name]
    return f"{terms.title(comparison.row)} ({figure}, {p_in_words(comparison.p_value)})"
