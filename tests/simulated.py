# SPDX-License-Identifier: Apache-2.0
"""Events of a simulated cloud, and what runs them through the model without any database.

The tests of the model, the storage and the engine share it. The simulator makes one legal history once, and each test
plays it in its own way.
"""

from __future__ import annotations

import copy
import datetime
import functools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.model.changes import Change, Outcome
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Model, Snapshot
from watcher_sync.model.transaction import Transaction
from watcher_sync.model.view import View
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.nova.cloud import CloudSimulator, Truth
from watcher_sync.wire.envelopes import read_document

SIMULATED = ("aggregate", "compute_node", "instance")
"""The kinds that the simulated cloud is made of."""

_KINDS = builtin_kinds()

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


@functools.cache
def cloud(seed: int, n: int, hosts: int = 5, instances: int = 10) -> tuple[tuple[Event, ...], Truth]:
    """The first n events of one cloud, and what is true after them."""
    simulator = CloudSimulator(seed=seed, hosts=hosts, instances=instances, undeclared=0.3, legacy=0.2)
    documents = copy.deepcopy(simulator.history(n))
    events = tuple(read_document(d, source="nova", number=i) for i, d in enumerate(documents))
    return events, simulator.reported()


def nova() -> Dispatcher:
    """The dispatch table of the Nova handler."""
    return Dispatcher([("nova", NovaHandler())])


def batches(events: Sequence[Event], rng: random.Random, most: int) -> Iterator[Sequence[Event]]:
    """The events in order, in batches of random sizes."""
    start = 0
    while start < len(events):
        size = rng.randint(1, most)
        yield events[start : start + size]
        start += size


def play(model: Model, dispatcher: Dispatcher, events: Iterable[Event]) -> list[Outcome]:
    """One batch: dispatched, and published as if it were committed."""
    transaction = Transaction(model)
    outcomes = []
    for event in events:
        entry = dispatcher.find(event.type)
        if entry is None or entry.call is None:
            outcomes.append(Outcome.IGNORED)
            continue
        try:
            outcomes.append(transaction.apply(event, entry.call(event, transaction) or ()))
        except InvalidEvent:
            outcomes.append(Outcome.QUARANTINED)
    model.publish(transaction)
    return outcomes


def new_model() -> Model:
    """An empty model of the built-in kinds."""
    return Model(builtin_kinds())


def shown(snapshot: Snapshot) -> Truth:
    """kind -> id -> field -> value, in the form of the simulator's truth and of the kinds that it simulates."""
    return {kind: {row["id"]: row for row in snapshot.dump(kind)} for kind in SIMULATED}


def whole(model: Model) -> dict[str, Any]:
    """All that a replica is, as plain data: its public fields, versions, seqs, indexes and tombstones."""
    snapshot = model.snapshot()
    found: dict[str, Any] = {"generation": model.generation}
    for name, kind in model.kinds.items():
        entities = {e.id: e for e in snapshot.all(name)}
        found[name] = {
            "dump": list(snapshot.dump(name)),
            "bookkeeping": {i: (e.seq, e.versions) for i, e in entities.items()},
            "tombstones": model._tombstones[name].states(),
            "indexes": {
                (index, value): {e.id for e in snapshot.by(name, index, value)}
                for index in kind.indexes
                for e in entities.values()
                for value in values_of(getattr(e, index))
            },
        }
    return found


def values_of(value: Any) -> list[Any]:
    """What a field's value is found under in an index."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def event(number: int, type: str = "test", **fields: Any) -> Event:
    """An event of a source named test."""
    return Event(id=f"event-{number}", type=type, source="test", time=NOON, **fields)


class Told:
    """A handler whose events carry the changes that they are to make, as a function of the view."""

    events = {"told": "told", "silent": None}  # noqa: RUF012 - as plugins write it

    def told(self, event: Event, view: View) -> Iterable[Change]:
        """What the event's data says; raised, when that is an exception."""
        for item in event.data:
            made = item(view) if isinstance(item, Callable) else item  # type: ignore[arg-type]
            if isinstance(made, BaseException):
                raise made
            yield made


def by_facet(kind_name: str, /, **values: Any) -> dict[str, dict[str, Any]]:
    """The values of fields by the facet that each belongs to, with the anchor: whatever the facets are."""
    kind = _KINDS[kind_name]
    facets: dict[str, dict[str, Any]] = {kind.anchor: {}}
    for name, value in values.items():
        facet = kind.fields[name].facet
        assert facet is not None, name
        facets.setdefault(facet, {})[name] = value
    return facets


def told(number: int, *changes: Any) -> Event:
    """An event for :class:`Told`."""
    return event(number, "told", data=changes)


def telling(kinds: Kinds | None = None) -> Dispatcher:
    """The dispatch table of :class:`Told`."""
    return Dispatcher([("told", Told())])
