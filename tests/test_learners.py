"""Lists of estimators are told what they lack."""

import pytest
from learners import NO_PROGRAM, SEVERAL_FITS, TAKES, check_complete, learners, public_classes

from conemetric import DMLEig, FrobMetric, LMNNEig


@pytest.mark.parametrize("takes", TAKES)
def test_every_learner_is_missed(takes):
    names = learners(takes)
    check_complete(names, takes)
    assert names < {kind.__name__ for kind in public_classes()}
    for name in names:
        with pytest.raises(AssertionError, match=f"lacks {name}, which takes {takes}"):
            check_complete(names - {name}, takes)
        check_complete(names - {name}, takes, without={name: "a reason"})


def test_estimators_and_names_with_settings():
    with pytest.raises(AssertionError, match="lacks BoostMetric, RelativeComparisons, which"):
        check_complete([FrobMetric(), FrobMetric(C=2.0), "LMNNEig, hard"], "triplets")


@pytest.mark.parametrize("without", ["DMLEig", "FrobMetric", "LogisticRegression"])
def test_reasons_that_are_not_needed_are_named(without):
    names = learners("triplets")
    with pytest.raises(AssertionError, match=f"need not name {without}"):
        check_complete(names, "triplets", without={without: "a reason"})


def test_what_learns_from_what():
    assert {type(each).__name__ for each in (FrobMetric(), LMNNEig())} < learners("triplets")
    assert type(DMLEig()).__name__ in learners("tuples") - learners("triplets")
    assert {*NO_PROGRAM, *SEVERAL_FITS} < learners("labels")
