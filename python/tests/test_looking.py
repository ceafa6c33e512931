"""Looking at a model while rows come: it costs the rows since the last look, and names last."""

import pickle

import numpy as np
import pytest
from anabranch import DPMixture


@pytest.fixture(scope="module")
def plane():
    """Round clusters on a grid, far apart, in any order."""
    rng = np.random.default_rng(3)
    centres = np.array([(20 * i, 20 * j) for i in range(3) for j in range(3)], float)
    return centres[rng.integers(9, size=8000)] + rng.normal(size=(8000, 2))


def names(model, X):
    return model.component_ids_[model.predict(X)]


def version(model):
    return model._engine.attributes()["version"]


@pytest.mark.parametrize("bootstrap", [20_000, 1000])
def test_one_more_row_is_all_that_is_learned(plane, bootstrap):
    model = DPMixture(bootstrap=bootstrap, batch_size=100).partial_fit(plane[:2000])
    before = version(model)
    for row in range(2000, 2010):
        model.partial_fit(plane[row : row + 1])
        assert version(model) == before + row - 1999
    assert model.n_samples_seen_ == 2010
    assert model.counts_.sum() == pytest.approx(2010, rel=1e-3)


def test_looking_changes_nothing_of_what_is_learned(plane):
    looked = DPMixture(bootstrap=1000, batch_size=100)
    for first in range(0, 3000, 10):
        looked.partial_fit(plane[first : first + 10])
        looked.predict(plane[:5])
    looked.partial_fit(plane[3000:8000])
    straight = DPMixture(bootstrap=1000, batch_size=100).partial_fit(plane)
    # The components are added up in the order of their names.
    np.testing.assert_allclose(looked.score_samples(plane), straight.score_samples(plane), rtol=1e-12)


def test_names_last_from_the_first_rows_on(plane):
    model = DPMixture(bootstrap=4000, batch_size=100)
    shown = []
    for first, last in [(0, 300), (300, 900), (900, 3990), (3990, 4100), (4100, 5000), (5000, 8000)]:
        model.partial_fit(plane[first:last])
        for rows, before in shown:
            assert np.mean(names(model, plane[:rows]) == before) >= 0.99, (rows, last)
        shown.append((last, names(model, plane[:last])))
    assert model.n_components_ == 9


def test_a_pickle_answers_at_once_and_goes_on_in_the_same_way(plane, tmp_path):
    for rows in [500, 3000]:
        model = DPMixture(bootstrap=1000, batch_size=100).partial_fit(plane[:rows])
        model.predict(plane[:10])
        model.partial_fit(plane[rows : rows + 7])
        again = pickle.loads(pickle.dumps(model))
        assert version(again) == version(model)
        assert np.array_equal(names(again, plane), names(model, plane))
        for one in model, again:
            one.partial_fit(plane[rows + 7 : rows + 2000])
        assert np.array_equal(names(again, plane), names(model, plane))
        assert np.array_equal(again.score_samples(plane), model.score_samples(plane))
        model.save(tmp_path / "model")
        loaded = DPMixture.load(tmp_path / "model")
        assert np.array_equal(names(loaded, plane), names(model, plane))
