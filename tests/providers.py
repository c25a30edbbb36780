# SPDX-License-Identifier: Apache-2.0
"""DCM's events through dispatch, handler and model, with the API's part played by the test."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterable
from typing import Any

import msgspec

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, NotYet
from watcher_sync.extensions.dcm.handler.handler import OPTIONS, DcmHandler
from watcher_sync.extensions.dcm.handler.service_types import ServiceTypes
from watcher_sync.model.changes import WRITTEN_HERE, Change, Outcome, Upsert
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.dcm.providers import Row, Step
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.wire.envelopes import read_body

KIND = "service_type_instance"
EPOCH = 1_772_000_000_000_000


def event(
    document: publisher.Document | bytes | None = None,
    *,
    channel: str = "dcm.vm",
    sequence: tuple[int, int] | int | None = None,
    **fields: Any,
) -> Event:
    """The event that a source makes of the document (default: :func:`watcher_sync.testing.dcm.publisher.status`).

    :param sequence: (epoch, sequence), or the second of them; None: it came without one, and without a channel.
    """
    body = document if isinstance(document, bytes) else publisher.body_of(document or publisher.status(**fields))
    made = read_body(body, source="dcm", number=1)
    if sequence is None:
        return made
    place = (EPOCH, sequence) if isinstance(sequence, int) else sequence
    return msgspec.structs.replace(made, channel=channel, sequence=place)


class Player:
    """One model, the handler, and what an engine does around them: quarantine and parked events."""

    def __init__(self, *, services: ServiceTypes | None = None, **options: Any) -> None:
        conf = {option.name: option.default for option in OPTIONS} | options
        self.handler = DcmHandler(conf, services=services)
        self.dispatcher = Dispatcher([("dcm", self.handler)])
        self.model = Model(builtin_kinds())
        self.reasons: list[str] = []
        self._parked: list[tuple[tuple[str, str], Event]] = []
        self._writes = itertools.count(1)

    def row(
        self,
        entity_id: str = "i-1",
        service_type: str = "vm",
        provider_name: str | None = "kubevirt-1",
        agent_name: str | None = None,
        **more: Any,
    ) -> None:
        """Create or replace the row, as the API does, and apply the events that wait for it."""
        spec = {"service_type": service_type, "instance_name": None, "spec": None, **more}
        facets = {"spec": spec, "provider": {"provider_name": provider_name, "agent_name": agent_name}}
        change = Upsert(KIND, entity_id, f"{WRITTEN_HERE}{next(self._writes):020d}", facets)
        self.apply([change])
        self._unpark_ready(KIND, entity_id)

    def play(self, *events: Event) -> list[Outcome]:
        """The outcome of each event."""
        return [self._one(event) for event in events]

    def steps(self, steps: Iterable[Step], *, sequenced: bool = True) -> None:
        """The steps of a simulator, in this order."""
        for step in steps:
            if isinstance(step, Row):
                fields = dict(step.body)
                self.row(fields.pop("id"), fields.pop("service_type"), fields.pop("provider_name"), **fields)
            else:
                self._one(step.event(sequenced=sequenced))

    def get(self, entity_id: str = "i-1") -> Any:
        """The row, or None."""
        return self.model.get(KIND, entity_id)

    def told(self, *events: Event) -> Any:
        """The row ``i-1`` after these events, each of which has to be applied."""
        if self.get() is None:
            self.row(service_type=events[0].channel.removeprefix("dcm.") or "vm")
        outcomes = self.play(*events)
        assert set(outcomes) == {Outcome.APPLIED}, (outcomes, self.reasons)
        return self.get()

    def parked(self) -> int:
        """How many events wait for their row."""
        return len(self._parked)

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """All rows as JSON has them."""
        snapshot = self.model.snapshot()
        return {kind: list(snapshot.dump(kind)) for kind in (KIND, "provider")}

    def _one(self, event: Event) -> Outcome:
        if event.undecodable is not None:
            self.reasons.append(event.undecodable)
            return Outcome.QUARANTINED
        entry = self.dispatcher.find(event.type, event.channel)
        if entry is None or entry.call is None:
            return Outcome.IGNORED
        transaction = Transaction(self.model)
        try:
            outcome = transaction.apply(event, entry.call(event, transaction) or ())
        except InvalidEvent as exc:
            self.reasons.append(str(exc))
            return Outcome.QUARANTINED
        except NotYet as exc:
            self._parked.append(((exc.kind, exc.entity_id), event))
            return Outcome.PARKED
        self.model.publish(transaction)
        return outcome

    def apply(self, changes: list[Change]) -> None:
        """What the API writes."""
        transaction = Transaction(self.model)
        transaction.apply(Event(id="api", type="api", source="api"), changes)
        self.model.publish(transaction)

    def _unpark_ready(self, *key: str) -> None:
        due = [event for waits_for, event in self._parked if waits_for == key]
        self._parked = [entry for entry in self._parked if entry[0] != key]
        self.play(*due)


def seconds(number: float) -> datetime.datetime:
    """So many seconds after noon."""
    return publisher.NOON + datetime.timedelta(seconds=number)
