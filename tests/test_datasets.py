"""Data at hand: what a command knows by name, and the judged collection."""

import numpy as np
import pytest

from conemetric.cli.options import DataArgument
from conemetric.cli.reading.loading import load_rows
from conemetric.cli.reading.reading import Reading
from conemetric.datasets import ALIASES, BUNDLED, load_bundled, load_vehicle, reference_pages


@pytest.mark.parametrize("name", [*BUNDLED, *ALIASES, None])
def test_bundled_sets_are_read_by_name_with_the_names_of_their_classes(name):
    expected = ALIASES.get(name, name or "vehicle")
    bunch = load_bundled(expected)
    table, given = load_rows(name, Reading())
    assert given == expected and table.X.flags.c_contiguous
    assert table.names == list(bunch.feature_names)
    np.testing.assert_array_equal(table.X, bunch.data)
    np.testing.assert_array_equal(
        table.labels, np.array(bunch.target_names)[bunch.target].astype(str)
    )


def test_the_default_is_in_the_help():
    assert f"{next(iter(BUNDLED))} (default)" in DataArgument.__metadata__[0].help


def test_the_vehicles_are_whole():
    vehicle = load_vehicle()
    assert vehicle.data.shape == (846, 18) and len(set(vehicle.feature_names)) == 18
    assert np.bincount(vehicle.target).tolist() == [218, 212, 217, 199]  # as UCI counts them
    np.testing.assert_array_equal(vehicle.data, vehicle.data.round())
    assert vehicle.data.sum() == 1791345
    assert "CC BY 4.0" in vehicle.DESCR and "TIRM-87-018" in vehicle.DESCR


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
