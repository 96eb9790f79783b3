"""The pages name what there is."""

from pathlib import Path

import pytest

import conemetric

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", conemetric.__all__)
def test_the_api_page_lists_every_public_name(name):
    assert f"   {name}\n" in (DOCS / "api.rst").read_text()
