"""The Pitman–Yor mixture: the interface of the other mixture, a discount, and parameters that are learned."""

import json
import pickle

import numpy as np
import pytest
from conftest import learned, rows_of, same
from sklearn.base import clone
from test_files import command

import anabranch
from anabranch import DPMixture, PYMixture

X, _ = rows_of(2345)


def model(**parameters):
    return PYMixture(bootstrap=1000, random_state=11, **parameters)


def test_without_a_discount_it_is_the_dirichlet_process_mixture():
    theirs = DPMixture(alpha=2.0, bootstrap=1000, random_state=11).fit(X)
    ours = model(alpha=2.0, discount=0.0).fit(X)
    same(ours, theirs)
    np.testing.assert_array_equal(ours.score_samples(X), theirs.score_samples(X))


def test_the_weights_of_the_density_are_those_of_the_process():
    """One component: (n - d) of it and alpha + d for all to come."""
    alpha, discount, n = 1.5, 0.4, 40
    rows = np.random.default_rng(3).normal(size=(n, 1))
    fitted = PYMixture(alpha, discount, prior_mean=0.0, prior_kappa=1.0, prior_scale=1.0, prior_dof=4.0, random_state=0)
    fitted.fit(rows)
    plain = DPMixture(1e-9, prior_mean=0.0, prior_kappa=1.0, prior_scale=1.0, prior_dof=4.0, random_state=0).fit(rows)
    assert fitted.n_components_ == plain.n_components_ == 1
    x = np.array([[0.3], [8.0], [1e3]])
    known = plain.score_samples(x) + np.log((n - discount) / (n + alpha))
    assert (fitted.score_samples(x) > known).all()
    np.testing.assert_allclose(fitted.score_samples(x)[0], known[0], atol=0.1)


def test_what_is_learned_is_told_and_travels(tmp_path):
    fitted = model(alpha="auto", discount="auto").fit(X)
    assert fitted.alpha_ > 0 and 0 <= fitted.discount_ < 1
    assert DPMixture(alpha="auto", bootstrap=1000, random_state=11).fit(X).alpha_ != 5.0
    fitted.save(tmp_path / "model")
    loaded = anabranch.load(tmp_path / "model")
    assert type(loaded) is PYMixture and loaded.discount == "auto" and loaded.alpha == "auto"
    assert (loaded.alpha_, loaded.discount_) == (fitted.alpha_, fitted.discount_)
    same(pickle.loads(pickle.dumps(fitted)), fitted)
    inspected = json.loads(command("inspect", tmp_path / "model", "--json"))
    assert (inspected["model"], inspected["discount"]) == ("py", fitted.discount_)
    assert inspected["learned"] == ["alpha", "discount"]
    with pytest.raises(ValueError, match="holds a model for PYMixture"):
        DPMixture.load(tmp_path / "model")


def test_the_command_line_writes_the_same_file(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    PYMixture(alpha="auto", discount="auto", random_state=11).fit(X).save(ours)
    flags = ["--model", "py", "--alpha", "auto", "--discount", "auto", "--seed", 11, "--threads", 1, "--quiet"]
    command("fit", tmp_path / "rows.npy", "--out", theirs, *flags)
    assert learned(ours) == learned(theirs)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"discount": 1.0}, "discount d = 1 is not in"),
        ({"discount": "automatic"}, "not one of auto"),
        ({"alpha": -0.5, "discount": 0.5}, "not above minus the discount"),
    ],
)
def test_parameters_outside_the_domain_are_told(parameters, message):
    with pytest.raises(ValueError, match=message):
        model(**parameters).fit(X)


def test_it_is_an_estimator():
    assert clone(model(discount=0.3)).get_params()["discount"] == 0.3
    first, second = model(discount=0.3).partial_fit(X[:1500]).partial_fit(X[1500:]), model(discount=0.3).fit(X)
    same(first, second)
