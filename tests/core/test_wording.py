"""Numbers in messages."""

import pytest

from conemetric.core.wording import figure


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (4.7681, "4.768"),
        (-159.13, "-159.1"),
        (9999.4, "9999"),
        (9999.7, "10,000"),
        (19391.2, "19,390"),
        (-67262.0, "-67,260"),
        (194_871_000_000, "194,900,000,000"),
        (1.2e16, "1.2e+16"),
        (0.00001234, "1.234e-05"),
        (float("nan"), "nan"),
    ],
)
def test_figures_have_four_digits_that_count(value, shown):
    assert figure(value) == shown
