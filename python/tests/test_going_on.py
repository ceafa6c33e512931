"""A model that was saved goes on, and models that were learned apart become one."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import rows_of, same

from anabranch import DPMixture, load


def model(**parameters):
    return DPMixture(bootstrap=500, batch_size=100, random_state=7, **parameters)


def test_a_loaded_model_goes_on_as_the_command_line_does(tmp_path):
    X, _ = rows_of(2500)
    np.save(tmp_path / "today.npy", X[:1500])
    np.save(tmp_path / "tomorrow.npy", X[1500:])
    model().fit(X[:1500]).save(tmp_path / "model")
    here = load(tmp_path / "model").partial_fit(X[1500:])
    command = [sys.executable, "-m", "anabranch", "fit", "tomorrow.npy", "--from", "model", "--out", "new", "-q"]
    subprocess.run([*command, "--schedule", "deterministic", "--workers", "1"], cwd=tmp_path, check=True)
    there = load(tmp_path / "new")
    assert here.n_samples_seen_ == there.n_samples_seen_ == 2500
    same(here, there)


def test_a_given_prior_stays_when_a_loaded_model_goes_on(tmp_path):
    X, _ = rows_of(1500)
    model(prior_kappa=0.5, prior_dof=9.0).fit(X[:1000]).save(tmp_path / "model")
    load(tmp_path / "model").partial_fit(X[1000:]).save(tmp_path / "new")
    import json

    from anabranch import _core

    prior = [json.loads(_core.describe((tmp_path / name).read_bytes()))["provenance"] for name in ("model", "new")]
    assert [p["prior_given"] for p in prior] == [True, True]


def test_merged_parts_are_nearly_the_whole():
    X, _ = rows_of(4000)
    parts = [model().fit(part) for part in np.array_split(X, 4)]
    merged, whole = DPMixture.merge(parts), model().fit(X)
    assert merged.n_samples_seen_ == 4000
    assert merged.counts_.sum() == pytest.approx(4000)
    assert abs(merged.score(X) - whole.score(X)) < 0.02
    assert merged.partial_fit(X[:10]).n_samples_seen_ == 4010


def test_models_of_the_same_rows_are_refused():
    X, _ = rows_of(1000)
    one, other = model().fit(X), model()
    for piece in np.array_split(X, 13):
        other.partial_fit(piece)
    with pytest.raises(ValueError, match="have both learned from rows"):
        DPMixture.merge([one, other])
    assert DPMixture.merge([one, other], assume_apart=True).n_samples_seen_ == 2000
    with pytest.raises(ValueError, match="no model"):
        DPMixture.merge([])


def test_parameters_that_change_while_it_learns_are_refused_or_take_effect():
    X, _ = rows_of(3000)
    going = model().partial_fit(X[:1500])
    going.set_params(n_jobs=2, labels="clusters", verbose=0).partial_fit(X[1500:])
    same(going.set_params(labels="components"), model().fit(X))
    for name, value in (("alpha", 2.0), ("family", "diagonal"), ("random_state", 99), ("prior_mean", [0.0, 0.0])):
        was = getattr(going, name)
        going.set_params(**{name: value})
        with pytest.raises(ValueError, match=f"^{name}: this model was begun with {was!r}, and the parameter is now"):
            going.partial_fit(X[:10])
        going.set_params(**{name: was})
    assert going.partial_fit(X[:10]).n_samples_seen_ == 3010
    assert going.set_params(alpha=2.0).fit(X).alpha_ == 2.0
    drawn = DPMixture(random_state=None).partial_fit(X[:1000]).partial_fit(X[1000:])
    assert drawn.n_samples_seen_ == 3000


def test_unknown_labels_are_refused_before_anything_is_learned():
    with pytest.raises(ValueError, match="labels: 'cluster' is not one of components, clusters; did you mean 'clusters'"):
        DPMixture(labels="cluster").fit(rows_of(100)[0])
