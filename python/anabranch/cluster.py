"""Fit on many machines over NATS JetStream: publish rows, work on them, fetch the model.

The same jobs as those of the commands ``anabranch submit``, ``worker``, ``pull`` and ``status``: some workers may be
Python processes and others not. Each minibatch counts once, whatever is killed or delivered twice.

>>> from anabranch import cluster                                      # doctest: +SKIP
>>> cluster.submit(X, job="clicks", to="nats://host:4222")             # doctest: +SKIP
>>> with cluster.Worker("clicks", to="nats://host:4222"):              # doctest: +SKIP
...     model = cluster.pull("clicks", to="nats://host:4222", wait=True)
"""

import hashlib
import io
import json
import os
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as _StillRunning

import numpy as np
from sklearn.utils import check_array

from . import _core, _input
from ._steps import load

__all__ = ["Worker", "pull", "status", "submit"]

# Seconds between two looks at Ctrl-C.
_GLANCE = 0.2


def submit(X=None, *, job, to=None, source=None, **options):
    """Publish rows to a job, which is created when it is not there.

    Parameters
    ----------
    X : path, list of paths, array, data frame or table, optional
        The rows. Without them the job is created for others to feed.
    job : str
        Name of the job: letters, digits, ``-`` and ``_``.
    to : str, optional
        Address of the server; ``$ANABRANCH_NATS`` by default, then ``nats://127.0.0.1:4222``.
    source : str, optional
        Name of these rows: the same name again goes on where the last submission ended. By default the paths of the
        files, or a digest of the rows, so that the same rows twice count once.
    **options
        The flags of ``anabranch submit``, such as ``family="diagonal"``, ``batch_size=500``, ``replicas=3`` or
        ``creds="me.creds"``.

    Returns
    -------
    result : dict
        ``job``, ``source`` with the minibatches and rows published, and ``rows_subject``, where anybody may publish.
    """
    rows, files = None, []
    if X is not None and _input.is_path(X):
        files = _input.paths(X)
    elif X is not None:
        rows = _message(X)
        source = source or f"rows {hashlib.sha256(rows).hexdigest()[:32]}"
    flags = _flags(job=job, to=to, source=source, quiet=True, **options)
    return _run(["submit", *flags, "--", *files], rows)


def pull(job, *, to=None, wait=False, finish=False, **options):
    """Fetch the current model of a job as a fitted estimator.

    Parameters
    ----------
    job, to
        As in :func:`submit`.
    wait : bool, default=False
        Wait until everything that was submitted is in, and the workers have finished the model.
    finish : bool, default=False
        Finish the model that is returned as ``fit`` does at its end. The job is left alone.
    **options
        Credentials: ``creds``, ``nkey``, ``tls_ca``, ``tls_cert``, ``tls_key``.

    Returns
    -------
    model : estimator
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.anabranch")
        _run(["pull", *_flags(job=job, to=to, wait=wait, finish=finish, out=path, **options)])
        return load(path)


def status(job, *, to=None, **options):
    """How a job stands: pending and absorbed minibatches, components, conflicts, sources and workers, as a dict."""
    return _run(["status", *_flags(job=job, to=to, **options)])


class Worker:
    """A worker of a job, on threads of this process. It works from ``start`` to ``stop``, or inside a ``with``.

    Parameters
    ----------
    job, to
        As in :func:`submit`.
    threads : int, optional
        Threads that infer; all cores by default.
    listen : str, default="127.0.0.1:0"
        Address of ``/health`` and ``/metrics``; port 0 takes a free one.
    wait : bool, default=False
        Wait for the job to be created instead of failing.
    **options
        Credentials, as in :func:`pull`.

    Attributes
    ----------
    report : dict or None
        What the worker did, once it has stopped: minibatches, rows, conflicts, seconds.
    """

    def __init__(self, job, *, to=None, threads=None, listen="127.0.0.1:0", wait=False, **options):
        self._flags = _flags(job=job, to=to, threads=threads, listen=listen, wait=wait, quiet=True, **options)
        self._stop = None
        self._done = None
        self.report = None

    def start(self):
        """Join the job and return at once."""
        if self._done is not None:
            raise RuntimeError("the worker has been started already")
        self._stop, self._done = _core.Stop(), Future()
        arguments = (["worker", *self._flags], None, self._stop)
        # Not one of the pool's threads, which Python waits for when it ends.
        threading.Thread(target=_fill, args=(self._done, arguments), name="anabranch worker", daemon=True).start()
        return self

    @property
    def running(self):
        """True while the worker is at work; it ends by itself only with an error, which ``stop`` raises."""
        return self._done is not None and not self._done.done()

    def stop(self):
        """Finish what is being learned from, hand the rest back, leave, and return the report."""
        if self._done is None:
            raise RuntimeError("the worker has not been started")
        self._stop.set()
        self.report = _wait(self._done, self._stop)
        return self.report

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.stop()
        else:
            self._stop.set()


def _flags(**options):
    """Parameters as the flags of the command line: ``batch_size=9`` is ``--batch-size=9``."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif isinstance(value, (list, tuple)):
            flags.append(f"{flag}={','.join(map(str, value))}")
        elif value is not None and value is not False:
            flags.append(f"{flag}={value}")
    return flags


def _message(X):
    """Rows in a format that says itself what it is: an array as npy, named columns as JSON lines."""
    if hasattr(X, "num_rows") or hasattr(X, "columns"):
        names = [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]
        lines = (json.dumps(dict(zip(names, map(_cell, cells)))) for cells in zip(*_input._columns(X)))
        return "\n".join(lines).encode()
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(check_array(X, dtype=np.float64, input_name="X")))
    return file.getvalue()


def _cell(value):
    return value.item() if isinstance(value, np.generic) else value


def _fill(future, arguments):
    try:
        future.set_result(_core.cluster(*arguments))
    except BaseException as error:
        future.set_exception(error)


def _wait(future, stop):
    """The result, as soon as it is there; Ctrl-C asks for an end first."""
    try:
        while True:
            try:
                return json.loads(future.result(timeout=_GLANCE))
            except _StillRunning:
                if future.done():
                    raise
    except KeyboardInterrupt:
        stop.set()
        raise


def _run(args, rows=None):
    stop = _core.Stop()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return _wait(pool.submit(_core.cluster, args, rows, stop), stop)
