"""Studies beside small models."""

import pytest


@pytest.fixture(autouse=True)
def quick_comparison(few_trees):
    """Every study here compares with small models."""
