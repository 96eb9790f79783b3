"""The synthetic manifolds and recovery from measurements."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks.papers.compressive import (
    best_match,
    manifold_pursuit,
    measure,
    translating_images,
)


@pytest.mark.parametrize(("shape", "area"), [("square", 25), ("disk", 21)])
def test_shapes_move_without_changing(shape, area):
    images, positions = translating_images(shape, side=9, size=5)
    assert images.shape == (25, 81)
    assert (images.sum(1) == area).all()
    moved = np.roll(images[0].reshape(9, 9), tuple(positions[-1]), (0, 1)).ravel()
    assert_allclose(images[-1], moved)


def test_blob_peaks_at_its_centre():
    images, positions = translating_images("blob", side=6, size=1.5, step=2)
    assert len(images) == 9
    peak = np.array(np.unravel_index(images.argmax(1), (6, 6))).T
    assert_allclose(peak, positions)


def test_unknown_shape_is_refused():
    with pytest.raises(ValueError, match="shape='star'"):
        translating_images("star")


def test_measurements_have_the_noise_asked_for():
    rng = np.random.default_rng(0)
    Psi, X = rng.normal(size=(50, 20)), rng.normal(size=(10, 20))
    noise = measure(Psi, X, snr_db=20) - X @ Psi.T
    assert_allclose(np.linalg.norm(noise, axis=1), 0.1 * np.linalg.norm(X @ Psi.T, axis=1))


def test_recovery_is_exact_without_noise_and_survives_some():
    images, _ = translating_images("blob", side=12, size=3)
    Psi = np.linalg.svd(images - images.mean(0), full_matrices=False)[2][:20]
    assert_allclose(manifold_pursuit(measure(Psi, images), Psi, images), images)
    noisy = manifold_pursuit(measure(Psi, images, snr_db=20), Psi, images)
    assert np.mean((noisy - images) ** 2) < 0.02 * np.mean(images**2)


def error(found, images):
    return np.mean(np.linalg.norm(found - images, axis=1) / np.linalg.norm(images, axis=1))


def test_pursuit_does_not_stall_where_steps_of_another_length_would_go_on():
    images, _ = translating_images("blob", side=16, size=3)
    embedding = np.random.default_rng(2).normal(size=(10, 256))
    measured = measure(embedding, images)
    assert_allclose(best_match(measured, embedding, images), images)
    # with steps of one length 0.12
    assert error(manifold_pursuit(measured, embedding, images), images) < 0.02


def test_pursuit_finds_the_best_match_where_the_embedding_is_nearly_isometric():
    images, _ = translating_images("blob", side=16, size=3)
    embedding = np.linalg.svd(images - images.mean(0), full_matrices=False)[2][:40]
    measured = measure(embedding, images, snr_db=6)
    found, best = (
        manifold_pursuit(measured, embedding, images),
        best_match(measured, embedding, images),
    )
    misfit, least = (np.linalg.norm(measured - x @ embedding.T, axis=1) for x in (found, best))
    assert (misfit >= least - 1e-12).all()
    assert np.mean(misfit <= least + 1e-12) > 0.95


@pytest.mark.parametrize("recover", [manifold_pursuit, best_match])
def test_arrays_that_do_not_belong_together_are_named(recover):
    Y, Psi, X = np.ones((2, 3)), np.ones((3, 5)), np.ones((4, 5))
    for arrays, words in (
        ((Y[:, :2], Psi, X), "measurements has 2 columns"),
        ((Y, Psi, X[:, :4]), "samples has 4 columns"),
        ((Y, Psi, X[:0]), "minimum of 1"),
        ((Y * np.nan, Psi, X), "measurements contains NaN"),
        ((Y[0], Psi, X), "Expected 2D"),
    ):
        with pytest.raises(ValueError, match=words):
            recover(*arrays)
