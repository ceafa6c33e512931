"""Fit on a Ray cluster: the central posterior is an actor, minibatches are tasks.

A task takes a snapshot, learns from its rows and hands the increment to the actor. Ray may run a task again, because a
worker died or was thought dead; the minibatch keeps its name and counts once.

>>> import anabranch.ray                                               # doctest: +SKIP
>>> model = anabranch.ray.fit(ray.data.read_parquet("s3://bucket/"))   # doctest: +SKIP
"""

import secrets

import ray
from sklearn.base import clone

from ._mixture import DPMixture
from ._steps import infer

# Tasks in flight for each processor of the cluster: one at work, one on the way.
_PER_PROCESSOR = 2

# Numbers for the minibatches of one run.
_RUN_SHIFT = 32
_RUNS = 2**29


class _Central:
    """The central posterior. Ray runs its methods one after another."""

    def __init__(self, model):
        self._model = model
        self._snapshot = None

    def learn(self, *blocks):
        """Learn the first rows alone; True when there are enough of them to start the workers."""
        for block in blocks:
            self._model.partial_fit(block)
        return self._model._has_started()

    def snapshot(self):
        if self._snapshot is None:
            self._snapshot = self._model.snapshot()
        return self._snapshot

    def absorb(self, increment):
        counted = self._model.absorb(increment)
        if counted:
            self._snapshot = None
        return counted

    def model(self):
        return self._model


def _learn(central, batch, rows, max_new):
    """One task: snapshot, infer, absorb. Says whether it counted."""
    snapshot = ray.get(central.snapshot.remote())
    increment = infer(snapshot, rows, batch=batch, max_new=max_new)
    return ray.get(central.absorb.remote(increment))


def fit(data, model=None, *, batch_size=2048, in_flight=None, max_retries=3, task_options=None):
    """Fit a mixture to a data set on all machines of a Ray cluster.

    Parameters
    ----------
    data : ray.data.Dataset, array, data frame, table, or iterable of those
        Rows. A data set or an iterable may be larger than memory.
    model : estimator, optional
        What to fit; ``DPMixture()`` by default. A fitted model is gone on from, and left alone.
    batch_size : int, default=2048
        Rows of a task.
    in_flight : int, optional
        Tasks that run or wait at a time; twice the processors of the cluster by default. More rows are asked for only
        when there is room.
    max_retries : int, default=3
        Times that a task is run again when its worker dies.
    task_options : dict, optional
        Further options of the tasks, such as ``{"num_cpus": 2}``.

    Returns
    -------
    model : estimator
        A fitted copy of ``model``.
    """
    model = DPMixture() if model is None else model
    start = model if model.__sklearn_is_fitted__() else clone(model)
    if not ray.is_initialized():
        ray.init()
    in_flight = in_flight or max(1, int(_PER_PROCESSOR * ray.cluster_resources().get("CPU", 1)))
    central = ray.remote(_Central).remote(start)
    learn = ray.remote(_learn).options(max_retries=max_retries, **(task_options or {}))
    run = secrets.randbelow(_RUNS) << _RUN_SHIFT
    started = ray.get(central.learn.remote())
    running = []
    try:
        for number, rows in enumerate(_minibatches(data, batch_size)):
            if not started:
                started = ray.get(central.learn.remote(rows))
                continue
            if len(running) >= in_flight:
                done, running = ray.wait(running, num_returns=1)
                ray.get(done)
            running.append(learn.remote(central, run + number, rows, model.max_new))
        ray.get(running)
        return ray.get(central.model.remote())
    finally:
        ray.kill(central)


def _minibatches(data, size):
    """Cut whatever holds rows into minibatches."""
    if hasattr(data, "iter_batches"):
        yield from data.iter_batches(batch_size=size, batch_format="pyarrow")
    elif hasattr(data, "shape"):
        yield from _cut(data, size)
    else:
        for block in data:
            yield from _cut(block, size)


def _cut(block, size):
    n = block.shape[0] if hasattr(block, "shape") else len(block)
    if n <= size:
        if n:
            yield block
        return
    for first in range(0, n, size):
        if hasattr(block, "slice") and hasattr(block, "num_rows"):
            yield block.slice(first, size)
        else:
            yield block[first : first + size]
