"""Features: what rows are made of."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_course import FEATURES, sums_of

from anabranch import LatentFeatures

X = sums_of(600)


def test_planted_features_are_found_and_rows_rebuilt():
    model = LatentFeatures(random_state=0).fit(X)
    assert model.n_components_ == 3
    order = np.abs(model.components_[:, None] - FEATURES[None]).sum(axis=2).argmin(axis=0)
    np.testing.assert_allclose(model.components_[order], FEATURES, atol=0.1)
    assert model.noise_ == pytest.approx(0.2, abs=0.03) and model.feature_scale_ > 0 and model.alpha_ == 5.0
    Z = model.transform(X)
    assert Z.shape == (600, 3) and ((Z >= 0) & (Z <= 1)).all()
    truth = np.random.default_rng(0).integers(2, size=(600, 3))
    np.testing.assert_array_equal(Z[:, order] > 0.5, truth == 1)
    np.testing.assert_allclose(model.counts_[order], truth.sum(axis=0), atol=3)
    rebuilt = model.inverse_transform(Z)
    assert np.sqrt(((rebuilt - X) ** 2).mean()) < 0.25
    np.testing.assert_array_equal(model.inverse_transform(np.eye(3)), model.components_)
    np.testing.assert_allclose(model.explained_, model.counts_ * (model.components_**2).sum(axis=1))
    with pytest.raises(ValueError, match="X: it has 2 columns, the model has 3 features"):
        model.inverse_transform(np.ones((1, 2)))


def test_rows_of_another_kind_are_less_probable():
    model = LatentFeatures(random_state=0).fit(X)
    odd = X[:50] + 1.5
    assert model.score(X) > model.score(odd) + 10
    assert model.score_samples(X).shape == (600,)


def test_given_deviations_stay_and_travel(tmp_path):
    model = LatentFeatures(noise=0.2, feature_scale=2.0, random_state=0).fit(X)
    assert model.noise_ == pytest.approx(0.2) and model.feature_scale_ == pytest.approx(2.0)
    model.save(tmp_path / "model")
    loaded = LatentFeatures.load(tmp_path / "model")
    assert loaded.noise == pytest.approx(0.2) and loaded.feature_scale == pytest.approx(2.0)
    assert loaded.partial_fit(X).noise_ == pytest.approx(0.2)


def test_in_a_pipeline_that_goes_back():
    pipeline = make_pipeline(StandardScaler(), LatentFeatures(random_state=0)).fit(X)
    back = pipeline.inverse_transform(pipeline.transform(X))
    assert np.sqrt(((back - X) ** 2).mean()) < 0.5
