import numpy as np
import pytest

from benchmarks.papers import features


def test_local_binary_patterns_of_a_step():
    """A vertical edge: flat pixels see only neighbours as bright, pixels right of it
    see three darker ones.
    """
    image = np.zeros((1, 9, 7))
    image[:, :, 3:] = 1.0
    histogram = features.local_binary_patterns(image)[0].reshape(35, 59) ** 2
    assert histogram.sum() == 7 * 5
    assert sorted(histogram.sum(0)[histogram.sum(0) > 0].tolist()) == [7, 28]


def test_local_binary_patterns_ignore_brightness():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(3, 20, 15))
    np.testing.assert_array_equal(
        features.local_binary_patterns(images), features.local_binary_patterns(5 * images + 2)
    )


def test_uniform_patterns_have_58_bins_and_the_rest_share_one():
    labels = features._uniform_labels()
    assert len(np.unique(labels)) == 59
    assert (np.bincount(labels)[:58] == 1).all()


@pytest.mark.parametrize(("height", "width"), [(62, 47), (16, 24), (8 * 3 + 7, 8 * 2)])
def test_oriented_gradients_agree_with_scikit_image(height, width):
    feature = pytest.importorskip("skimage.feature")
    images = np.random.default_rng(0).uniform(0, 255, size=(3, height, width))
    settings = dict(
        orientations=9, pixels_per_cell=(8, 8), cells_per_block=(2, 2), block_norm="L2-Hys"
    )
    theirs = [feature.hog(image, **settings) for image in images]
    np.testing.assert_allclose(features.oriented_gradients(images), theirs, rtol=1e-6, atol=1e-9)


def test_oriented_gradients_of_a_ramp():
    """Brightness grows to the right: all gradients have direction 0 and fill the first
    bin; growing downwards, the fifth.
    """
    ramp = np.broadcast_to(np.arange(16.0), (1, 16, 16))
    for image, expected in ((ramp, 0), (ramp.transpose(0, 2, 1), 4)):
        cells = features.oriented_gradients(image).reshape(4, 9)
        assert cells[:, expected].min() > 0.4
        np.testing.assert_allclose(np.delete(cells, expected, axis=1)[3], 0)


def test_oriented_gradients_ignore_brightness_and_contrast():
    images = np.random.default_rng(0).uniform(0, 255, size=(2, 32, 24))
    ours, changed = (
        features.oriented_gradients(images),
        features.oriented_gradients(3 * images + 20),
    )
    np.testing.assert_allclose(ours, changed, rtol=1e-6)
    assert np.isfinite(features.oriented_gradients(np.zeros((1, 32, 24)))).all()
