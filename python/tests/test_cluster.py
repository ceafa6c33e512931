"""A real NATS server on this machine: rows go in from Python, Python and other workers learn, the model comes back."""

import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import rows_of
from sklearn.metrics import adjusted_rand_score

from anabranch import cluster

SERVER = os.environ.get("ANABRANCH_NATS_SERVER", "")
PATIENCE = 120
X, TRUTH = rows_of(6000)
SIZES = {"batch_size": 200, "bootstrap": 1000, "ack_wait": 2}

pytestmark = pytest.mark.skipif(not os.path.exists(SERVER), reason="no NATS server: scripts/nats-set-up fetches one")


@pytest.fixture
def url(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = open(tmp_path / "log", "wb")
    command = [SERVER, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path / "js")]
    server = subprocess.Popen(command, stderr=log)
    wait_for(lambda: listens(port))
    yield f"nats://127.0.0.1:{port}"
    server.kill()
    server.wait()
    log.close()


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def check(model):
    assert model.n_samples_seen_ == len(X)
    np.testing.assert_allclose(model.counts_.sum(), len(X))
    assert adjusted_rand_score(TRUTH, model.predict(X)) > 0.95


def test_an_array_is_submitted_worked_on_and_pulled(url):
    done = cluster.submit(X, job="j", to=url, **SIZES)
    assert (done["source"]["published"], done["source"]["rows"]) == (30, 6000)
    with cluster.Worker("j", to=url, threads=1) as worker:
        model = cluster.pull("j", to=url, wait=True)
        assert worker.running
    check(model)
    assert worker.report["rows"] == 5000, "the bootstrap's rows are not a worker's"
    now = cluster.status("j", to=url)
    assert (now["absorbed"], now["pending"], now["finished"], now["workers"]) == (30, 0, True, [])
    # The same rows again are the same source, and a pulled model can go on by itself.
    again = cluster.submit(X, job="j", to=url, **SIZES)
    assert again["source"] == done["source"]
    assert model.partial_fit(X[:100]).n_samples_seen_ == len(X) + 100


def test_python_works_beside_the_command_line_and_one_of_them_is_killed(url, tmp_path):
    np.save(tmp_path / "rows.npy", X)
    cluster.submit(tmp_path / "rows.npy", job="j", to=url, **SIZES)
    command = [sys.executable, "-m", "anabranch", "worker", "--job", "j", "--to", url, "--threads", "1", "-q"]
    other = subprocess.Popen(command)
    try:
        wait_for(lambda: cluster.status("j", to=url)["absorbed"] > 5)
        other.kill()
        with cluster.Worker("j", to=url, threads=1):
            check(cluster.pull("j", to=url, wait=True))
    finally:
        other.kill()
        other.wait()


def test_named_columns_keep_their_names(url):
    pandas = pytest.importorskip("pandas")
    cluster.submit(pandas.DataFrame(X, columns=["east", "north"]), job="j", to=url, **SIZES)
    with cluster.Worker("j", to=url):
        model = cluster.pull("j", to=url, wait=True)
    assert model.feature_names_in_.tolist() == ["east", "north"]
    assert adjusted_rand_score(TRUTH, model.predict(pandas.DataFrame(X, columns=["east", "north"]))) > 0.95


def test_a_job_without_rows_waits_for_them(url):
    cluster.submit(job="j", to=url, columns=["a", "b"], **SIZES)
    with pytest.raises(ValueError, match="has no model yet"):
        cluster.pull("j", to=url)
    assert cluster.status("j", to=url)["sources"] == []


def test_what_is_wrong_is_said_in_the_words_of_python(url):
    with pytest.raises(ValueError, match="`a.b` is not a name for a job"):
        cluster.submit(X, job="a.b", to=url)
    with pytest.raises(ValueError, match="there is no job `other`"):
        cluster.status("other", to=url)
    with pytest.raises(ValueError, match="cannot reach a NATS server"):
        cluster.status("j", to="nats://127.0.0.1:1")
    with pytest.raises(ValueError, match="unexpected argument"):
        cluster.submit(X, job="j", to=url, no_such_thing=3)
    worker = cluster.Worker("other", to=url).start()
    with pytest.raises(ValueError, match="there is no job `other`"):
        wait_for(lambda: not worker.running)
        worker.stop()
