"""Every sentence of a verdict is true of its table: all orders of errors, certain or not, read back
by a program that shares nothing with the one that writes them.
"""

from itertools import combinations, permutations, product

import pytest
from cases import first_of
from verdict_oracle import DISTANCES, Oracle

from conemetric.studies.verdict import Kind, Row, Terms, find_verdict, verdict_in_words

KINDS = {
    "euclidean": Kind.EUCLIDEAN,
    "learned": Kind.LEARNED,
    "MetricClassifier": Kind.DECISION,
    "random forest": Kind.OTHER,
    "constant": Kind.CONSTANT,
}
SURE, UNSURE = 1e-5, 0.3


def written(errors, p_values, collapsed, measure):
    rows = [Row(name, KINDS[name], error) for name, error in errors.items()]
    verdict = find_verdict(rows, lambda one, other: p_values[frozenset((one, other))], collapsed)
    terms = Terms(
        measure=measure,
        figures={name: f"{error:.2%}" for name, error in errors.items()},
        where=" on 99 rows",
        judges="rows",
        constant="'b', the most common label",
    )
    return verdict, verdict_in_words(verdict, terms)


def tables(names, constant, certainties=(SURE, UNSURE)):
    """All orders of the errors of these rows, two of them perhaps equal, and all patterns of which
    pairs are certain: pairs with the lowest row and the pair of the distances.
    """
    levels = [0.1, 0.2, 0.3, 0.4][: len(names)]
    for order in {*permutations(levels), *permutations([levels[0], *levels[:-1]])}:
        errors = dict(zip(names, order, strict=True))
        if constant is not None:
            errors["constant"] = constant
        lowest = min(errors.values())
        counts = [
            pair
            for pair in combinations(errors, 2)
            if set(pair) == DISTANCES or any(errors[name] == lowest for name in pair)
        ]
        free = [pair for pair in counts if errors[pair[0]] != errors[pair[1]]]
        for pattern in product(certainties, repeat=len(free)):
            p_values = {frozenset(pair): 1.0 for pair in combinations(errors, 2)}
            p_values |= {frozenset(pair): p for pair, p in zip(free, pattern, strict=True)}
            yield errors, p_values


@pytest.mark.parametrize(
    ("measure", "collapsed", "certainties"),
    [
        ("error", False, (SURE, UNSURE, 0.02)),  # 0.02 is certain of one comparison, not of four
        ("error", True, (SURE, UNSURE)),
        ("1 - R²", False, (SURE, UNSURE)),
    ],
    ids=["classes", "collapsed", "numbers"],
)
@pytest.mark.parametrize("constant", [None, 0.05, 0.25, 0.9])
@first_of("n_rows", [3, 2, 4])
def test_every_sentence_is_true_of_the_table(n_rows, constant, measure, collapsed, certainties):
    names = list(KINDS)[:n_rows]
    n = 0
    for errors, p_values in tables(names, constant, certainties):
        _, text = written(errors, p_values, collapsed, measure)
        Oracle(errors, p_values, collapsed, measure).check(text)
        n += 1
    assert n >= 5


@pytest.mark.parametrize("constant", [0.05, 0.25])
def test_a_row_is_green_only_where_it_is_better(constant):
    for errors, p_values in tables(list(KINDS)[:4], constant):
        verdict, text = written(errors, p_values, False, "error")
        least = min(errors.values())
        for name, error in errors.items():
            colour = verdict.colour(name)
            if colour == "better":
                beats_euclidean = "Use the learned distance" in text and name == "learned"
                assert beats_euclidean or (error == least and "cannot tell" not in text)
                assert name not in ("euclidean", "constant") and error < constant
            elif colour == "worse":
                assert name == "learned" and "the learned one is worse" in text


def test_the_set_of_rows_that_are_level_holds_the_best_one():
    """Of equal rows, the one that happens to be picked is rarely called better than the truly best."""
    import numpy as np

    from conemetric.evaluation.statistics import mcnemar

    rng, missed = np.random.default_rng(0), 0
    names = list(KINDS)
    for _ in range(400):
        rates = [0.3, 0.3, 0.3, 0.3, 0.3]
        wrong = {name: rng.random(120) < rate for name, rate in zip(names, rates, strict=True)}
        rows = [Row(name, KINDS[name], float(wrong[name].mean())) for name in names]
        verdict = find_verdict(rows, lambda one, other, w=wrong: mcnemar(w[one], w[other]))
        missed += verdict.is_worse("MetricClassifier")
    assert missed <= 0.05 * 400


def test_the_examples_read_well():
    errors = {"euclidean": 0.3150, "learned": 0.2047, "MetricClassifier": 0.1654}
    errors |= {"random forest": 0.2520, "constant": 0.7441}
    p_values = {frozenset(pair): 1e-9 for pair in combinations(errors, 2)}
    p_values[frozenset(("MetricClassifier", "learned"))] = 0.052
    _, text = written(errors, p_values, False, "error")
    assert text == (
        "MetricClassifier has the lowest error: 16.54% on 99 rows. These rows cannot tell it apart "
        "from the learned distance (20.47%, p = 0.21), p adjusted for 4 comparisons. Use the learned "
        "distance rather than the Euclidean one: error 31.50% -> 20.47% (p < 0.001)."
    )
    errors |= {"random forest": 0.0058, "learned": 0.0251}
    _, text = written(errors, p_values, False, "error")
    assert text == (
        "The lowest error is not ours: random forest, 0.58% on 99 rows. Every other row has a higher "
        "error (p < 0.001, adjusted for 4 comparisons). Our best is worse: the learned distance "
        "(2.51%, p < 0.001). Use the learned distance rather than the Euclidean one: error 31.50% -> "
        "2.51% (p < 0.001)."
    )
