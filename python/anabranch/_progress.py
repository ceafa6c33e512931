"""Who hears of a minibatch: a progress bar, the user's callback, or both."""

import json
from typing import NamedTuple


class Event(NamedTuple):
    """One minibatch has joined the model; what ``callback`` gets."""

    batch: int
    """Number of the minibatch."""
    rows: int
    """Its rows."""
    version: int
    """Version of the posterior afterwards."""
    components: int
    """Components afterwards."""
    mass: float
    """Weight absorbed so far."""
    matchings: int
    """Assignment problems solved for it."""
    conflicts: int
    """Times that others came first and its components had to be identified again."""
    created: int
    """Components it added."""
    changes: tuple = ()
    """What has become of components since the last event, in order: a dict for each birth, merge, split and death, with its ``event``,
    ids and masses, as the lines of ``fit --events``."""


class Watch:
    """Forwards events to a bar and a callback; ``None`` when nobody listens."""

    def __init__(self, verbose, callback, total):
        self._callback = callback
        self._bar = None
        if verbose:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, unit=" rows", unit_scale=True, desc="anabranch")

    @property
    def receiver(self):
        """What the engine calls."""
        return self if self._bar is not None or self._callback is not None else None

    def __call__(self, *fields):
        *fields, changes = fields
        event = Event(*fields, changes=tuple(json.loads(changes)))
        if self._bar is not None:
            self._bar.set_postfix(components=event.components, refresh=False)
            self._bar.update(event.rows)
        if self._callback is not None:
            self._callback(event)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()
