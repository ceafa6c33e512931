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
