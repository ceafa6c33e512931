"""Densities, labels and draws against formulas computed elsewhere."""

import numpy as np
import pytest
from conftest import rows_of
from scipy import stats

from anabranch import DPMixture


def student(x, mean, kappa, psi, dof):
    """Log density of a normal-inverse-Wishart predictive, by scipy."""
    d = len(mean)
    df = dof - d + 1
    return stats.multivariate_t(mean, psi * (kappa + 1) / (kappa * df), df=df).logpdf(x)


def test_the_density_is_the_students_t_of_the_posterior():
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, size=(400, 3))
    kappa, scale, dof, alpha = 0.5, 4.0, 6.0, 1.5
    model = DPMixture(
        alpha, prior_mean=[1.0, 2.0, 3.0], prior_kappa=kappa, prior_scale=scale, prior_dof=dof, random_state=0
    ).fit(X)
    assert model.n_components_ == 1
    n, mean0 = len(X), np.array([1.0, 2.0, 3.0])
    centred = X - X.mean(axis=0)
    shift = X.mean(axis=0) - mean0
    psi = scale * np.eye(3) + centred.T @ centred + kappa * n / (kappa + n) * np.outer(shift, shift)
    mean = (kappa * mean0 + X.sum(axis=0)) / (kappa + n)
    x = rng.normal(3.0, 4.0, size=(50, 3))
    known = np.log(n / (n + alpha)) + student(x, mean, kappa + n, psi, dof + n)
    new = np.log(alpha / (n + alpha)) + student(x, mean0, kappa, scale * np.eye(3), dof)
    np.testing.assert_allclose(model.score_samples(x), np.logaddexp(known, new), rtol=1e-9)
    assert model.score(x) == pytest.approx(np.mean(model.score_samples(x)))


def test_poisson_counts_have_the_negative_binomial_density():
    rng = np.random.default_rng(2)
    X = rng.poisson(4.0, size=(300, 1)).astype(float)
    kappa, alpha = 2.0, 1.0
    model = DPMixture(alpha, family="poisson", prior_mean=3.0, prior_kappa=kappa, random_state=0).fit(X)
    assert model.n_components_ == 1
    x = np.arange(15.0)[:, None]

    def predictive(shape, rate):
        return stats.nbinom(shape, rate / (rate + 1.0)).logpmf(x[:, 0])

    n = len(X)
    known = np.log(n / (n + alpha)) + predictive(3.0 * kappa + X.sum(), kappa + n)
    new = np.log(alpha / (n + alpha)) + predictive(3.0 * kappa, kappa)
    np.testing.assert_allclose(model.score_samples(x), np.logaddexp(known, new), rtol=1e-9)


def test_probabilities_are_shares_and_labels_their_argmax():
    X, truth = rows_of(3000, seed=4)
    model = DPMixture(random_state=0, n_jobs=2).fit(X)
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(X))
    # Far from every cluster the row belongs to somebody, and its density says that it is an anomaly.
    assert model.score_samples([[500.0, 500.0]])[0] < model.score_samples(X).min()


def test_draws_have_the_moments_of_the_rows():
    X, _ = rows_of(5000, seed=5)
    drawn, labels = DPMixture(alpha=0.01, random_state=0).fit(X).sample(20000)
    assert drawn.shape == (20000, 2) and set(labels) <= {-1, 0, 1, 2, 3}
    kept = drawn[labels >= 0]
    np.testing.assert_allclose(kept.mean(axis=0), X.mean(axis=0), atol=0.4)
    np.testing.assert_allclose(np.cov(kept.T), np.cov(X.T), rtol=0.05, atol=2.0)
    with pytest.raises(ValueError, match="n_samples"):
        DPMixture(random_state=0).fit(X).sample(0)
