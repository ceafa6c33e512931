"""The stubs say what the package does."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("mypy")

USE = """
    from anabranch import DPMixture, Event, cluster, infer, load, plot

    def watch(event: Event) -> None:
        print(event.components + 1)

    model = DPMixture(2.0, family="diagonal", callback=watch).fit([[1.0, 2.0], [3.0, 4.0]])
    increment: bytes = infer(model.snapshot(), [[1.0, 2.0]], batch=3)
    counted: bool = model.absorb(increment)
    count: int = load("model").partial_fit([[1.0]]).n_components_
    axes = plot.clusters(model)
    with cluster.Worker("j", threads=2) as worker:
        fetched: DPMixture = cluster.pull("j", wait=True)
    rows = worker.stop()["rows"]
"""

MISUSE = """
    from anabranch import DPMixture

    DPMixture(n_components=3)
    DPMixture(schedule="later")
    name: str = DPMixture().fit([[1.0]]).n_components_
"""


def mypy(code, folder):
    path = folder / "use.py"
    path.write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "mypy", "--strict", "--allow-subclassing-any", "--ignore-missing-imports",
               "--cache-dir", str(folder), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout


def test_what_is_right_passes_and_what_is_wrong_does_not(tmp_path):
    assert "Success" in mypy(USE, tmp_path)
    assert "Found 3 errors" in mypy(MISUSE, tmp_path)


def test_the_signatures_of_the_engine_are_those_of_the_stub(tmp_path):
    command = [sys.executable, "-m", "mypy.stubtest", "anabranch._core"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
