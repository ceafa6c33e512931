"""Clusters of any shape: what the tree of the density says."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anabranch
from anabranch import DPMixture


@pytest.fixture(scope="module")
def moons():
    return make_moons(3000, noise=0.06, random_state=1)


@pytest.fixture(scope="module")
def fitted(moons):
    return DPMixture(random_state=0).fit(moons[0])


def test_two_moons_are_two_clusters_of_many_components(fitted, moons):
    rows, truth = moons
    assert fitted.n_components_ > 4
    assert fitted.n_clusters_ == 2
    assert adjusted_rand_score(truth, fitted.predict_clusters(rows)) > 0.99


def test_a_cluster_is_named_after_its_oldest_component_that_is_not_small(fitted):
    labels = fitted.cluster_labels()
    for name in set(labels.tolist()):
        counts = np.where(labels == name, fitted.counts_, 0.0)
        large = counts >= counts.sum() / (labels == name).sum() / 2
        assert name == fitted.component_ids_[large].min()


def test_rows_of_a_wide_component_under_several_clusters_are_divided():
    rng = np.random.default_rng(5)
    centres = np.array([[0, 0], [12, 0], [-10, 6], [3, 12], [2, -11]], float)
    truth = rng.integers(5, size=1000)
    rows = centres[truth] + rng.standard_normal((1000, 2)) / np.sqrt(rng.chisquare(3, (1000, 1)) / 3)
    model = DPMixture(random_state=0).fit(rows)
    by_component = adjusted_rand_score(truth, model.cluster_labels()[model.predict(rows)])
    by_row = adjusted_rand_score(truth, model.predict_clusters(rows))
    assert by_component < 0.93 < by_row


def test_the_number_of_clusters_can_be_asked_for(fitted):
    for n in (1, 2, 3):
        assert len(set(fitted.cluster_labels(N=n).tolist())) == n
    with pytest.raises(ValueError, match="not both"):
        fitted.cluster_labels(N=2, valley=0.5)
    with pytest.raises(ValueError, match="no part of a peak"):
        fitted.cluster_labels(valley=2.0)


def test_small_clusters_can_be_noise(moons):
    rows = np.vstack([moons[0], np.full((5, 2), 40.0) + np.arange(10).reshape(5, 2) / 10])
    model = DPMixture(random_state=0).fit(rows)
    far = model.predict_clusters(rows[-5:], min_size=20, noise=True)
    assert set(far.tolist()) == {-1}
    assert -1 not in model.predict_clusters(rows[:50], min_size=20, noise=True)


def test_labels_of_clusters_go_through_pipelines(moons):
    rows, truth = moons
    model = make_pipeline(StandardScaler(), DPMixture(labels="clusters", random_state=0))
    assert adjusted_rand_score(truth, model.fit_predict(rows)) > 0.99
    assert clone(model[-1]).labels == "clusters"


def test_the_tree_has_one_join_fewer_than_leaves(fitted):
    tree = fitted.cluster_tree_
    n = fitted.n_components_
    assert tree["joins"].shape == (n - 1, 2) and len(tree["passes"]) == n - 1
    assert tree["measure"] == "density" and tree["peaks"].max() == 0.0
    valleys = tree["passes"][~tree["slopes"]]
    assert (np.diff(valleys) <= 0).all()


def test_the_file_says_how_the_model_was_cut(fitted, tmp_path):
    path = tmp_path / "moons"
    fitted.save(path)
    run = [sys.executable, "-m", "anabranch", "clusters", str(path), "--count", "3", "--keep"]
    subprocess.run(run, check=True, capture_output=True)
    kept = anabranch.load(path)
    assert kept.n_clusters_ == 3
    kept.save(tmp_path / "again")
    assert anabranch.load(tmp_path / "again").n_clusters_ == 3


def test_rows_keep_their_cluster_as_the_stream_goes_on():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(m, 1, (20_000, 2)) for m in (-9, 0, 9)])
    rng.shuffle(rows)
    model = DPMixture(random_state=0, bootstrap=2000).partial_fit(rows[:6000])
    before = model.predict_clusters(rows[:6000])
    model.partial_fit(rows[6000:])
    assert (model.predict_clusters(rows[:6000]) == before).mean() > 0.99
