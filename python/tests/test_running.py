"""While it runs: other threads go on, Ctrl-C stops, somebody watches."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from conftest import rows_of

from anabranch import DPMixture, Event

X, _ = rows_of(6000)


def test_other_threads_go_on_while_it_learns():
    rows = np.random.default_rng(0).normal(size=(300_000, 8))
    ticks, done = 0, threading.Event()

    def tick():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    DPMixture(family="diagonal", random_state=0).fit(rows)
    done.set()
    thread.join()
    # Holding the lock, the fit would let it run only now and then, every few milliseconds at best.
    assert ticks > 20


def test_the_callback_hears_of_every_minibatch():
    events = []
    DPMixture(bootstrap=1000, batch_size=500, random_state=0, callback=events.append).fit(X)
    assert all(isinstance(event, Event) for event in events)
    assert [event.rows for event in events] == [1000] + [500] * 10
    assert [event.batch for event in events] == list(range(11))
    assert events[-1].mass == 6000 and events[-1].components >= 4


def test_the_callback_can_look_at_the_model_and_save_it(tmp_path):
    scores = []

    def look(event):
        scores.append(model.score(X[:100]))
        model.save(tmp_path / "now.anabranch")

    model = DPMixture(bootstrap=1000, batch_size=1000, random_state=0, callback=look)
    model.fit(X)
    assert len(scores) == 6
    assert DPMixture.load(tmp_path / "now.anabranch").n_samples_seen_ >= 1000


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be told to share a processor here")
def test_the_model_is_there_when_its_first_minibatch_is_told_of():
    # On one processor whoever hears of a minibatch runs before whoever told goes on.
    processors = os.sched_getaffinity(0)
    seen = []

    def look(event):
        seen.append(model.score(X[:10]))

    try:
        os.sched_setaffinity(0, {min(processors)})
        for seed in range(20):
            model = DPMixture(bootstrap=100, batch_size=100, random_state=seed, n_jobs=1, callback=look)
            model.fit(X[:200])
    finally:
        os.sched_setaffinity(0, processors)
    assert len(seen) == 40


def test_stop_iteration_ends_the_fit_politely():
    def enough(event):
        if event.mass >= 2000:
            raise StopIteration

    rows = np.tile(X, (50, 1))
    # Far more minibatches than may wait for the callback.
    model = DPMixture(bootstrap=1000, batch_size=50, random_state=0, callback=enough).fit(rows)
    assert 2000 <= model.n_samples_seen_ < len(rows)


def test_an_error_in_the_callback_comes_out():
    def fails(event):
        raise RuntimeError("the screen is full")

    with pytest.raises(RuntimeError, match="the screen is full"):
        DPMixture(bootstrap=1000, random_state=0, callback=fails).fit(X)


def test_a_bar_is_shown_when_asked_for(capsys):
    DPMixture(bootstrap=1000, random_state=0, verbose=1).fit(X)
    shown = capsys.readouterr().err
    assert "anabranch" in shown and "components=" in shown


def test_threads_share_the_work():
    for schedule in ("deterministic", "free"):
        model = DPMixture(random_state=0, n_jobs=2, schedule=schedule).fit(X)
        assert model.n_components_ >= 4 and model.n_samples_seen_ == len(X)


INTERRUPTED = """
    import sys, threading, time, signal, os
    import numpy as np
    from anabranch import DPMixture

    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may ignore it
    what = sys.argv[1]
    rows = np.random.default_rng(0).normal(size=(200_000, 20)) + 9 * (np.arange(200_000) % 7)[:, None]
    pressed = []

    def press(event=None):
        if not pressed:
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

    def press_when_it_learns():
        while "_engine" not in vars(model) or model._engine.schema is None:
            time.sleep(0.01)
        time.sleep(0.1)
        press()

    def endless():
        yield rows[:20000]
        threading.Timer(0.3, press).start()
        while True:
            time.sleep(0.05)
            yield rows[:10]

    model = DPMixture(random_state=0, batch_size=64)
    try:
        if what == "first minibatch":
            threading.Thread(target=press_when_it_learns).start()
            model.fit(rows)
        elif what == "stream":
            model.callback = press
            model.fit(rows)
        else:
            model.fit(endless())
        print("not stopped")
    except KeyboardInterrupt:
        print(time.monotonic() - pressed[0])
        model.callback = None
        print(model.n_samples_seen_, len(model.predict(rows[:5])))
        model.partial_fit(rows[:100])
"""


@pytest.mark.parametrize("what", ["first minibatch", "stream", "iterator"])
def test_ctrl_c_stops_soon_and_leaves_a_model(what):
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), what]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    seconds, looked = done.stdout.splitlines()
    seen, predicted = map(int, looked.split())
    print(f"Ctrl-C during the {what}: stopped after {float(seconds):.2f} s with {seen} rows")
    assert predicted == 5 and 0 < seen < 200_000


def test_a_second_fit_at_the_same_time_is_refused():
    inside, errors = [], []

    def other(event):
        if not inside:
            inside.append(event)
            try:
                model.partial_fit(X[:10])
            except RuntimeError as error:
                errors.append(str(error))

    model = DPMixture(bootstrap=1000, random_state=0, callback=other)
    model.fit(X)
    assert errors == ["the model is being fitted; wait for that to end"]
