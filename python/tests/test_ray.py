"""A real Ray on this machine: workers die, tasks are run again, every minibatch counts once."""

import os
import sys

import numpy as np
import pytest
from conftest import rows_of
from sklearn.metrics import adjusted_rand_score

ray = pytest.importorskip("ray")

import anabranch.ray  # noqa: E402
from anabranch import DPMixture  # noqa: E402

X, TRUTH = rows_of(12_000)


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # Classes of this file must reach workers that cannot import it.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)
    yield
    ray.shutdown()


def model():
    return DPMixture(bootstrap=2000, random_state=0)


def check(fitted, rows):
    assert fitted.n_samples_seen_ == rows
    np.testing.assert_allclose(fitted.counts_.sum(), rows)
    assert adjusted_rand_score(TRUTH, fitted.predict(X)) > 0.95


def test_arrays_and_iterables_are_fitted_by_tasks():
    check(anabranch.ray.fit(X, model(), batch_size=1000), len(X))
    check(anabranch.ray.fit(np.array_split(X, 7), model(), batch_size=1000, in_flight=2), len(X))


def test_a_fitted_model_is_gone_on_from_and_left_alone():
    first = model().fit(X[:4000])
    check(anabranch.ray.fit(X[4000:], first, batch_size=1000), len(X))
    assert first.n_samples_seen_ == 4000


def test_a_data_set_of_ray():
    data = pytest.importorskip("ray.data")
    columns = [{"x": float(x), "y": float(y)} for x, y in X[:5000]]
    fitted = anabranch.ray.fit(data.from_items(columns), model(), batch_size=1000)
    check(fitted, 5000)
    assert fitted.feature_names_in_.tolist() == ["x", "y"]


class Deadly:
    """Rows that kill the first process that looks at them in a task."""

    def __init__(self, rows, marker):
        self.rows, self.marker, self.driver = rows, marker, os.getpid()

    def __len__(self):
        return len(self.rows)

    def __array__(self, dtype=None, copy=None):
        if os.getpid() != self.driver:
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return self.rows
            os._exit(1)
        return self.rows


def test_the_death_of_a_worker_is_survived(tmp_path):
    pieces = [X[:3000], *np.array_split(X[3000:], 9)]
    pieces[4] = Deadly(pieces[4], str(tmp_path / "died"))
    fitted = anabranch.ray.fit(pieces, model(), batch_size=3000)
    assert (tmp_path / "died").exists()
    check(fitted, len(X))


def test_a_task_that_is_run_again_counts_once():
    """A worker may die after its increment was absorbed and before Ray heard of it: the task is then run again."""
    central = ray.remote(anabranch.ray._Central).remote(model())
    assert ray.get(central.learn.remote(X[:2000]))
    learn = ray.remote(anabranch.ray._learn)
    tasks = [learn.remote(central, batch, X[2000 + 500 * (batch % 20) :][:500], 50) for batch in range(100, 120)]
    again = [learn.remote(central, batch, X[2000 + 500 * (batch % 20) :][:500], 50) for batch in range(100, 120, 3)]
    assert sum(ray.get(tasks + again)) == 20
    check(ray.get(central.model.remote()), len(X))
