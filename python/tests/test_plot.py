"""Pictures: drawn for real and looked at as pixels."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import CENTRES, rows_of

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.patches import Ellipse  # noqa: E402

from test_course import documents_of, sums_of  # noqa: E402

from anabranch import DPMixture, HDPTopics, LatentFeatures, plot  # noqa: E402

X, _ = rows_of(3000)


def pixels(ax):
    """The picture that the axes are on; its colours as rows."""
    figure = ax.figure
    figure.canvas.draw()
    image = np.asarray(figure.canvas.buffer_rgba())[..., :3]
    plt.close(figure)
    return image


@pytest.mark.parametrize("family", ["gaussian", "diagonal", "spherical"])
def test_ellipses_stand_where_the_clusters_are(family):
    model = DPMixture(family=family, random_state=0).fit(X)
    ax = plot.clusters(model, X)
    ellipses = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == 4
    for ellipse in ellipses:
        assert np.abs(CENTRES - np.asarray(ellipse.center)).sum(axis=1).min() < 0.5
        assert 3 < ellipse.width < 5 and 3 < ellipse.height < 5
    assert ax.get_title() == "4 components of 3,000 rows"
    assert len(np.unique(pixels(ax).reshape(-1, 3), axis=0)) > 50


def test_an_ellipse_points_along_its_cluster():
    turn = np.deg2rad(30)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    model = SimpleNamespace(
        means_=np.array([[1.0, 2.0]]), covariances_=(rotation @ np.diag([16.0, 0.25]) @ rotation.T)[None],
        weights_=np.ones(1), component_ids_=np.zeros(1, dtype=int), n_components_=1, n_samples_seen_=10,
    )  # fmt: skip
    (ellipse,) = plot.clusters(model).patches
    assert ellipse.angle % 180 == pytest.approx(30) and tuple(ellipse.center) == (1.0, 2.0)
    # Two standard deviations to each side.
    assert (ellipse.width, ellipse.height) == pytest.approx((16.0, 2.0))
    plt.close("all")


def test_responsibilities_and_growth_are_drawn():
    recorder = plot.Recorder()
    model = DPMixture(bootstrap=1000, random_state=0, callback=recorder).fit(X)
    _, axes = plt.subplots(1, 2)
    assert plot.responsibilities(model, X, ax=axes[0]) is axes[0]
    assert plot.growth(recorder, ax=axes[1]) is axes[1]
    line = axes[1].lines[0]
    assert line.get_ydata()[-1] == 4 and line.get_xdata()[-1] == recorder.events[-1].mass
    assert len(np.unique(pixels(axes[0]).reshape(-1, 3), axis=0)) > 10


def test_the_words_of_a_topic_are_those_it_uses():
    rng = np.random.default_rng(0)
    topics = np.array([[0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.6, 0.4]])
    counts = np.array([rng.multinomial(30, topics[ix % 2]) for ix in range(600)])
    model = DPMixture(family="multinomial", bootstrap=300, random_state=0).fit(counts)
    axes = plot.topic_words(model, ["apple", "pear", "hammer", "nail"], n_words=2)
    words = {tuple(text.get_text() for text in ax.get_yticklabels()) for ax in axes}
    assert words == {("pear", "apple"), ("nail", "hammer")}
    plt.close("all")


def test_topics_are_drawn_by_their_own_words():
    model = HDPTopics(random_state=0, vocabulary=[f"w{word}" for word in range(12)]).fit(documents_of(300))
    axes = plot.topic_words(model, n_words=4, n_topics=3)
    assert len(axes) == min(3, model.n_components_)
    largest = model.weights_.argmax()
    drawn = [text.get_text() for text in axes[0].get_yticklabels()]
    assert drawn == model.top_words(4)[largest][::-1]
    plt.close("all")


def test_features_are_drawn_in_the_order_of_what_they_explain():
    X = sums_of(400)
    X[:, :2] *= 3
    model = LatentFeatures(random_state=0).fit(X)
    axes = plot.features(model, (2, 3))
    assert len(axes) == model.n_components_
    shown = [axis.images[0].get_array() for axis in axes]
    order = np.argsort(-model.explained_)
    for picture, feature in zip(shown, order):
        np.testing.assert_array_equal(np.asarray(picture).ravel(), model.components_[feature])
    assert np.abs(shown[0]).argmax() == 0
    assert len(np.unique(pixels(axes[0]).reshape(-1, 3), axis=0)) > 3
    (line,) = plot.features(model, n_features=1)[0].lines
    np.testing.assert_array_equal(line.get_ydata(), model.components_[order[0]])
    plt.close("all")


def test_matplotlib_is_not_needed_until_something_is_drawn():
    code = "import sys, anabranch.plot; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
