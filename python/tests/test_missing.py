"""Missing values: learned from, answered, and filled in."""

import numpy as np
import pytest
from anabranch import DPMixture
from sklearn.metrics import adjusted_rand_score


def rows_of(n=900, share=0.2):
    rng = np.random.default_rng(2)
    labels = rng.integers(3, size=n)
    centres = np.array([[0.0, 0.0, 0.0], [12.0, -8.0, 5.0], [-9.0, 9.0, -12.0]])
    whole = centres[labels] + rng.standard_normal((n, 3))
    return whole, np.where(rng.random(whole.shape) < share, np.nan, whole), labels


@pytest.mark.parametrize("family", ["gaussian", "diagonal", "spherical"])
def test_clusters_are_found_and_values_filled_in(family):
    whole, holes, labels = rows_of()
    model = DPMixture(family=family, random_state=1).fit(holes)
    assert model.counts_.sum() == pytest.approx(len(holes))
    assert adjusted_rand_score(labels, model.predict(holes)) > 0.95
    assert np.isfinite(model.score_samples(holes)).all()
    filled, std = model.impute(holes, return_std=True)
    known = ~np.isnan(holes)
    np.testing.assert_array_equal(filled[known], whole[known])
    assert (std[known] == 0).all() and (std[~known] > 0).all()
    some = ~known & (known.sum(axis=1) > 0)[:, None]
    assert np.sqrt(np.mean((filled - whole)[some] ** 2)) < 2
    np.testing.assert_array_equal(model.impute(holes), filled)


def test_the_tags_say_who_takes_missing_values():
    assert DPMixture().__sklearn_tags__().input_tags.allow_nan
    assert not DPMixture(family="multinomial").__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="share their total"):
        DPMixture(family="multinomial").fit(np.array([[1.0, np.nan], [2.0, 1.0]]))


def test_infinite_values_are_not_missing():
    with pytest.raises(ValueError, match="infinity"):
        DPMixture().fit(np.array([[1.0, np.inf], [2.0, 1.0]]))


def told_by_holes(n=600):
    """Rows of one hill; those of the first half lack most values of three columns, the others few."""
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((n, 4))
    shares = np.where(np.arange(n) < n // 2, 0.9, 0.1)[:, None] * np.array([0, 1, 1, 1])
    return np.where(rng.random(rows.shape) < shares, np.nan, rows), np.arange(n) < n // 2


def test_that_values_are_missing_tells_components_apart_on_request(tmp_path):
    rows, labels = told_by_holes()
    assert DPMixture(random_state=1).fit(rows).n_components_ == 1
    model = DPMixture(random_state=1, missing_informative=True).fit(rows)
    assert model.n_components_ == 2
    assert adjusted_rand_score(labels, model.predict(rows)) > 0.8
    shares = np.sort(model.missing_, axis=0)
    assert (shares[:, 0] < 0.02).all() and (shares[0, 1:] < 0.2).all() and (shares[1, 1:] > 0.8).all()
    assert model.covariances_.shape == (2, 4, 4)
    assert np.isnan(model.sample(500)[0]).any()
    model.save(tmp_path / "model")
    loaded = DPMixture.load(tmp_path / "model")
    assert (loaded.family, loaded.missing_informative) == ("gaussian", True)
    np.testing.assert_array_equal(loaded.score_samples(rows), model.score_samples(rows))
    assert loaded.partial_fit(rows).n_samples_seen_ == 1200
    some = DPMixture(random_state=1, missing_informative=[2, "3"]).fit(rows)
    assert np.isnan(some.missing_[:, [0, 3]]).all() and np.isfinite(some.missing_[:, [1, 2]]).all()
    some.save(tmp_path / "some")
    assert DPMixture.load(tmp_path / "some").missing_informative == ["2", "3"]
    with pytest.raises(AttributeError, match="missing_"):
        DPMixture().fit(rows).missing_


def test_learning_what_is_missing_is_refused_where_it_means_nothing():
    rows, _ = told_by_holes(60)
    for wrong in ("yes", 3, []):
        with pytest.raises(ValueError, match="missing_informative"):
            DPMixture(missing_informative=wrong).fit(rows)
    with pytest.raises(ValueError, match="there is no column `9`"):
        DPMixture(missing_informative=[9]).fit(rows)
    with pytest.raises(ValueError, match="multinomial"):
        DPMixture(family="multinomial", missing_informative=True).fit(np.array([[1.0, 2.0], [2.0, 1.0]]))
