"""The conventions of scikit-learn."""

import numpy as np
import pytest
from conftest import rows_of
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from anabranch import DPMixture


@pytest.mark.parametrize("family", ["gaussian", "diagonal", "spherical"])
def test_every_check_of_scikit_learn_passes(family):
    results = check_estimator(DPMixture(family=family), on_fail=None, on_skip=None)
    outcomes = [(result["check_name"], result["status"], result["exception"]) for result in results]
    failed = [outcome for outcome in outcomes if outcome[1] not in ("passed", "skipped")]
    assert not failed
    passed = sum(status == "passed" for _, status, _ in outcomes)
    print(f"check_estimator, {family}: {passed} passed, {len(outcomes) - passed} skipped, 0 failed")
    assert passed > 40


def test_in_a_pipeline_with_named_output(rows):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows[0], columns=["x", "y"])
    pipeline = make_pipeline(StandardScaler(), DPMixture(random_state=0)).set_output(transform="pandas")
    labels = pipeline.fit(X).predict(X)
    assert pipeline[-1].feature_names_in_.tolist() == ["x", "y"]
    probabilities = pipeline.transform(X)
    assert probabilities.columns.tolist() == [f"dpmixture{k}" for k in range(4)]
    assert (probabilities.to_numpy().argmax(axis=1) == labels).all()


def test_grid_search_prefers_the_right_family():
    rng = np.random.default_rng(3)
    tilted = rng.normal(size=(1500, 2)) @ np.array([[1.0, 0.99], [0.0, 0.1]])
    search = GridSearchCV(DPMixture(random_state=0), {"family": ["spherical", "gaussian"]}, cv=2).fit(tilted)
    assert search.best_params_ == {"family": "gaussian"}


def test_a_clone_has_the_parameters_and_has_learned_nothing(rows):
    model = DPMixture(alpha=2.0, batch_size=100, random_state=1).fit(rows[0])
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "means_")


def test_attributes_fit_together(rows):
    X, truth = rows
    model = DPMixture(random_state=0).fit(X)
    assert model.n_components_ == 4 and model.n_samples_seen_ == len(X)
    assert model.means_.shape == (4, 2) and model.covariances_.shape == (4, 2, 2)
    assert model.component_ids_.shape == model.counts_.shape == (4,)
    np.testing.assert_allclose(model.weights_.sum(), 1.0)
    np.testing.assert_allclose(model.counts_.sum(), len(X))
    labels = model.predict(X)
    for label in range(4):
        members = X[labels == label]
        assert len(set(truth[labels == label])) == 1
        np.testing.assert_allclose(model.means_[label], members.mean(axis=0), atol=0.05)
        np.testing.assert_allclose(model.covariances_[label], np.cov(members.T), atol=0.15)


def test_fit_predict_is_fit_and_predict(rows):
    X, _ = rows
    labels = DPMixture(random_state=5).fit_predict(X)
    np.testing.assert_array_equal(labels, DPMixture(random_state=5).fit(X).predict(X))


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"alpha": 0.0}, "concentration alpha = 0 is not a finite number above 0"),
        ({"family": "gausian"}, "unknown family `gausian`"),
        ({"batch_size": 0}, "batch_size: 0 is not a whole number of at least 1"),
        ({"schedule": "later"}, "schedule: 'later' is not one of deterministic, free"),
        ({"prior_kappa": -1.0}, "prior_kappa: -1 is not a finite number above 0"),
        ({"prior_dof": 0.5}, "0.5 degrees of freedom are too few for 2 columns"),
        ({"prior_mean": [1.0, 2.0, 3.0]}, "prior_mean"),
        ({"family": "poisson"}, "choose another family"),
    ],
)
def test_wrong_parameters_are_told(parameters, words):
    model = DPMixture(**parameters)
    with pytest.raises(ValueError, match=words):
        model.fit(rows_of(100)[0])
    assert not hasattr(model, "means_")
