"""Remedies as data: by parameter for Python, by option for a command."""

import pickle

import pytest
from sklearn.exceptions import ConvergenceWarning

from conemetric.core.advice import Advice, AdviceError
from conemetric.core.warn import collected_warnings, warn_user
from conemetric.engine.solver import NotConvergedWarning

OWN = {"alpha": "raise --alpha"}


@pytest.mark.parametrize(
    ("remedies", "in_python", "on_the_command_line"),
    [
        (
            {"alpha": "raise alpha", "": "learn from more rows"},
            "; raise alpha, or learn from more rows.",
            "; raise --alpha, or learn from more rows.",
        ),
        (
            {"C": "give C as a number", "": "judge more"},
            "; give C as a number, or judge more.",
            "; judge more.",
        ),
        ({"C": "give C as a number"}, "; give C as a number.", ""),
        ({}, "", ""),
    ],
)
def test_remedies_name_parameters_or_options(remedies, in_python, on_the_command_line):
    error = AdviceError("needs 99 rows", remedies, "alpha", 0.01)
    assert isinstance(error, ValueError)
    assert str(error) == f"alpha=0.01 needs 99 rows{in_python}"
    assert error.in_options(OWN, "--alpha") == f"--alpha 0.01 needs 99 rows{on_the_command_line}"


def test_errors_survive_a_worker_process():
    error = pickle.loads(pickle.dumps(AdviceError("needs more", {"C": "give C"}, "alpha", 0.5)))
    assert str(error) == "alpha=0.5 needs more; give C." and error.remedies == {"C": "give C"}


def test_warnings_are_given_and_collected_as_they_are():
    warning = NotConvergedWarning("It stopped", {"tol": "to go on, raise tol"})
    with pytest.warns(ConvergenceWarning, match="It stopped; to go on, raise tol."):
        warn_user(warning)
    with collected_warnings() as collected:
        warn_user(warning)
    assert collected == [warning] and isinstance(collected[0], Advice)
