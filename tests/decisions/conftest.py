"""Decisions with a coarse search, where not how finely is searched is the point."""

import pytest


@pytest.fixture(autouse=True)
def few_settings(coarse_search):
    """Fits of a third of the time."""
