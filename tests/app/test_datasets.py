"""Data at hand: what a command knows by name, and the judged collection."""

import numpy as np
import pytest

from conemetric.app.cli.loading import load_rows
from conemetric.app.cli.options import DataArgument, Reading
from conemetric.app.datasets import BUNDLED, reference_pages


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_sets_are_read_by_name_with_the_names_of_their_classes(name):
    bunch = BUNDLED[name]()
    table, given = load_rows(name, Reading())
    assert given == name and table.X.flags.c_contiguous
    np.testing.assert_array_equal(table.X, bunch.data)
    np.testing.assert_array_equal(
        table.labels, np.array(bunch.target_names)[bunch.target].astype(str)
    )
    assert name in DataArgument.__metadata__[0].help


def test_a_file_comes_before_a_bundled_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iris").write_text("")
    with pytest.raises(ValueError, match="'iris' is not a file this command reads"):
        load_rows("iris", Reading())


def test_a_name_that_is_neither_is_refused():
    with pytest.raises(FileNotFoundError, match="there is no file 'mnist'"):
        load_rows("mnist", Reading())


def test_every_page_belongs_to_the_sentence_taken_from_it():
    pages = reference_pages()
    assert len(pages.queries) == len(pages.documents) == len(pages.names) > 300
    np.testing.assert_array_equal(pages.relevance, np.arange(len(pages.names))[:, None] * [1, 1])
    assert all(pages.queries) and len(set(pages.names)) == len(pages.names)
