"""Reads the sentences of a verdict back and holds them against its table; shares nothing with the
program that writes them.
"""

import re

import pytest

FIGURE = r"[\d.]+%(?: ± [\d.]+%)?"
NUMBER = r"[\d.e-]+"
DISTANCES = {"euclidean", "learned"}
OF_OURS = {"learned", "MetricClassifier", "MetricRegressor"}
SMALLEST = 0.001  # smaller p-values are shown as p < 0.001


class Oracle:
    """A table: errors by name ("euclidean", "learned", "constant", and what else there is), raw
    p-values by pair of names, and what a verdict calls its errors, items and judges.
    """

    def __init__(
        self,
        errors,
        p_values,
        collapsed=False,
        measure="error",
        where=" on 99 rows",
        judges="rows",
        figures=None,
    ):
        self.errors, self.raw, self.collapsed = errors, p_values, collapsed
        self.figures = figures or {name: f"{100 * error:.2f}%" for name, error in errors.items()}
        self.least = min(errors.values())
        self.best = {name for name in errors if errors[name] == self.least}
        self.said_p = {}  # by pair: each may have one p-value only
        measure, where = re.escape(measure), re.escape(where)
        change = rf"{measure} (?P<x>{FIGURE}) -> (?P<y>{FIGURE})(?:{where})?"
        keep = "Keep the Euclidean distance: the learned one"
        tied = r"(?:, as ha(?:s|ve) (?P<tied>.*?))?"
        self.sentences = {
            "lowest": rf"(?P<title>[^.]*?) has the lowest {measure}: (?P<figure>{FIGURE}){where}{tied}",
            "lowest of others": (
                rf"The lowest {measure} is not ours: (?P<title>.*?), (?P<figure>{FIGURE}){where}{tied}"
            ),
            "level": (
                rf"These {judges} cannot tell it apart from (?P<rows>.*?)"
                r"(?:, p adjusted for (?P<count>\d+) comparisons)?"
            ),
            "every": (
                rf"Every other row(?: but (?P<but>.*?))? has a higher {measure} "
                rf"\((?P<p>p < {SMALLEST}|p at most {NUMBER})"
                r"(?:, adjusted for (?P<count>\d+) comparisons)?\)"
            ),
            "ours": rf"Our best is worse: (?P<rows>.*? \({FIGURE}, p.*?\))",
            "little": r"The columns may carry little information",
            "constant": (
                r"(?P<title>[^.]*?) (?P<how>may be ahead of|is no better than) "
                r"(?P<rows>always predicting .*?\))(?: by chance)?: "
                rf"too few {judges}, or columns that carry little information"
            ),
            "better": (
                rf"Use the learned distance rather than the Euclidean one: {change} \((?P<p>p.*?)\)"
            ),
            "unclear": rf"{keep} (?P<how>may be ahead by chance|shows no gain), {change} \((?P<p>p.*?)\)",
            "worse": rf"{keep} is worse, {change} \((?P<p>p.*?)\)",
            "collapsed": rf"{keep} has collapsed, {change}",
        }

    def check(self, text):
        """Hold every sentence against the table; the facts that they state, by kind of sentence."""
        rest, facts = text, {}
        while rest:
            name, found = self.first_sentence(rest, text)
            assert name not in facts, f"{name} twice: {text}"
            facts[name], rest = found.groupdict(), rest[found.end() :]
        self.check_lowest(facts)
        self.check_distances(facts)
        return facts

    def first_sentence(self, rest, text):
        for name, pattern in self.sentences.items():
            found = re.match(rf"{pattern}\.(?: (?=\S)|$)", rest)
            if found:
                return name, found
        raise AssertionError(f"not a sentence that is known: {rest!r} in {text!r}")

    def row(self, title):
        """The name of the row that a sentence calls so."""
        start = title[0].lower() + title[1:]
        if start.startswith("always predicting "):
            return "constant"
        titles = {"the Euclidean distance": "euclidean", "the learned distance": "learned"}
        name = titles.get(start, title)
        return name if name in self.errors else start

    def counted(self, lowest):
        """The comparisons that p-values are multiplied by: not that of the two distances."""
        others = set(self.errors) - {lowest}
        return len(others - DISTANCES if lowest in DISTANCES else others)

    def p(self, lowest, name):
        """The p-value that counts."""
        raw = self.raw[frozenset((lowest, name))]
        return raw if {lowest, name} == DISTANCES else min(1.0, raw * self.counted(lowest))

    def check_p(self, one, other, said, expected):
        pair = frozenset((one, other))
        assert self.said_p.setdefault(pair, said) == said  # one pair, one p
        self.check_value(said, expected)

    def check_value(self, said, expected):
        if said == f"p < {SMALLEST}":
            assert expected < SMALLEST
        else:
            assert float(said.removeprefix("p = ")) == pytest.approx(expected, rel=0.05)
            assert expected >= SMALLEST

    def check_count(self, said, lowest):
        n = self.counted(lowest)
        assert said is None if n < 2 else int(said) == n

    def listed(self, text):
        """Rows with figure and p, of "A (1%, p = 2), B (..) or C (..)"."""
        rows = re.findall(rf"(?:, | or |^)(.+?) \(({FIGURE}), (p.*?)\)", text)
        assert text.count("(") == len(rows)
        return [(self.row(title), figure, p) for title, figure, p in rows]

    def check_lowest(self, facts):
        """Which row has the lowest error, and what is said of the others."""
        distances_only = set(self.errors) <= {*DISTANCES, "constant"}
        said = facts.get("lowest") or facts.get("lowest of others")
        assert not ("lowest" in facts and "lowest of others" in facts)
        if said is None:
            assert distances_only and self.best != {"constant"}
            lowest = "learned" if "learned" in self.best else "euclidean"
        else:
            lowest = self.row(said["title"])
            assert lowest in self.best and said["figure"] == self.figures[lowest]
            assert ("lowest" in facts) == (lowest in OF_OURS)
            if self.best & OF_OURS:
                assert lowest in OF_OURS  # "not ours" would be false
            titles = re.split(", | and ", said["tied"] or "")
            tied = {self.row(title) for title in titles if title}
            told = DISTANCES if lowest in DISTANCES else set()  # the last sentence is on both
            assert tied == self.best - {lowest, "constant"} - told
        rest = set(self.errors) - {lowest}
        other_distance = DISTANCES - {lowest} if lowest in DISTANCES else set()
        level = {name for name in rest if self.p(lowest, name) > 0.05}
        if self.collapsed:
            level |= other_distance
        named = level - {"constant"} - other_distance
        assert ("level" in facts) == bool(named and not distances_only)
        if "level" in facts:
            self.check_level(facts["level"], lowest, named)
        if "every" in facts:
            assert not named
            self.check_every(facts["every"], lowest, rest, level)
        elif not distances_only and not named:
            assert rest <= level | other_distance
        self.check_ours(facts, lowest, level, distances_only)
        self.check_constant(facts, lowest, level)

    def check_level(self, said, lowest, named):
        told = self.listed(said["rows"])
        assert {name for name, _, _ in told} == named and len(told) == len(named)
        errors = [self.errors[name] for name, _, _ in told]
        assert errors == sorted(errors)
        for name, figure, p in told:
            assert figure == self.figures[name]
            self.check_p(lowest, name, p, self.p(lowest, name))
        self.check_count(said["count"], lowest)

    def check_every(self, said, lowest, rest, level):
        but = said["but"]
        excepted = {self.row(title) for title in but.split(" and ")} if but else set()
        assert excepted == level
        largest = max(self.p(lowest, name) for name in rest - level)
        assert largest <= 0.05
        self.check_value(said["p"].replace("at most", "="), largest)
        self.check_count(said["count"], lowest)

    def check_ours(self, facts, lowest, level, distances_only):
        """What is said of ours, if the lowest error is not."""
        ours = OF_OURS & set(self.errors)
        if "ours" in facts:
            ((name, figure, p),) = self.listed(facts["ours"]["rows"])
            assert lowest not in OF_OURS and not ours & level
            assert self.errors[name] == min(self.errors[each] for each in ours)
            assert figure == self.figures[name]
            self.check_p(lowest, name, p, self.p(lowest, name))
        elif lowest not in OF_OURS and not distances_only:
            # a sentence on level rows, or that on the distances, says how the best of ours does
            best = min(ours, key=self.errors.get)
            assert ours & level or (lowest == "euclidean" and best == "learned")

    def check_constant(self, facts, lowest, level):
        assert ("little" in facts) == (lowest == "constant")
        assert ("constant" in facts) == ("constant" in level)
        if "constant" in facts:
            assert self.row(facts["constant"]["title"]) == lowest
            ((name, figure, p),) = self.listed(facts["constant"]["rows"])
            assert name == "constant" and figure == self.figures[name]
            assert (facts["constant"]["how"] == "is no better than") == (name in self.best)
            self.check_p(lowest, name, p, self.p(lowest, name))

    def check_distances(self, facts):
        before, after = self.errors["euclidean"], self.errors["learned"]
        raw = self.raw[frozenset(DISTANCES)]
        if self.collapsed:
            expected = "collapsed"
        elif raw > 0.05:
            expected = "unclear"
        else:
            expected = "better" if after < before else "worse"
        assert {"better", "unclear", "worse", "collapsed"} & set(facts) == {expected}
        said = facts[expected]
        assert (said["x"], said["y"]) == (self.figures["euclidean"], self.figures["learned"])
        if "p" in said:
            self.check_p("euclidean", "learned", said["p"], raw)
        if "how" in said:
            assert (said["how"] == "may be ahead by chance") == (after < before)
