# SPDX-License-Identifier: Apache-2.0
"""Simulated DCM providers: legal histories of status events, and the truth after them.

The API creates instances of service types, some before the first event of their provider, some after. Providers of
each program (:data:`~watcher_sync.testing.dcm.publisher.PUBLISHERS`) publish their state, environment agents publish
the health of providers, and the simulator records the truth.

Guarantee: one seed and one set of arguments give one history, byte for byte.

:meth:`ProviderSimulator.truth` covers
exactly the steps so far, for a stream in the order of publication (:attr:`Message.sequence`). An event about a row
that does not exist yet is true of that row later.

Not simulated: real durations and the abilities of real providers. No thread, no I/O, not thread-safe.
"""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from watcher_sync.events import Event
from watcher_sync.extensions.dcm.kinds import binding_id
from watcher_sync.testing.dcm import publisher as dcm
from watcher_sync.testing.dcm.publisher import Document, Publisher
from watcher_sync.testing.ledger import Truth
from watcher_sync.wire.envelopes import read_body

EPOCH: Final = 1_772_000_000_000_000
"""When the simulated stream was made, microseconds since 1970."""

UNTOLD: Final = frozenset(
    f"service_type_instance.{name}" for name in ("created_at", "project_id", "spec_updated_at", "updated_at")
)
"""Fields that say when the API did something, which the simulator cannot know: to be left out of a comparison."""

_TYPES: Final = tuple(dcm.STATUSES)
_MESSAGES: Final = ("It is so.", "", "waiting for a volume", None, "sérveur-サーバ", "pulled the image in 3 s")


class Row(NamedTuple):
    """What has to be posted to ``/v1/service_type_instances``."""

    body: Document


class Message(NamedTuple):
    """What has to be published."""

    subject: str
    """The NATS subject."""
    body: bytes
    sequence: tuple[int, int]
    """(epoch of the stream in microseconds, sequence in it), both by the simulator's count."""
    message_id: str | None
    """Nats-Msg-Id, where the publisher sets one."""

    def event(self, source: str = "dcm", *, sequenced: bool = True) -> Event:
        """The event that a source makes of it.

        :param sequenced: False: as if it came by a way that has no sequence.
        """
        event = read_body(self.body, source=source, number=self.sequence[1])
        if not sequenced:
            return event
        return msgspec.structs.replace(event, channel=self.subject, sequence=self.sequence)


Step = Row | Message


class _Instance:
    """What the simulator knows of one instance."""

    def __init__(self, row: Document, publisher: Publisher) -> None:
        self.row = row
        self.publisher = publisher
        self.made = False
        self.reported: dict[str, Any] = {
            "status": None, "status_message": None, "status_updated_at": None, "output_spec": None,
        }  # fmt: skip


class ProviderSimulator:
    """The providers of one DCM control plane.

    :param seed: decides everything random.
    :param instances: how many instances there will be; afterwards they only change.
    :param providers: how many providers; each is one program with its habits and one service type.
    :param late: fraction (0..1) of the instances that the API makes only after their provider spoke of them.
    :param health: fraction of the messages that are an agent's word about a provider.
    :param start: when the history begins, aware UTC.
    :param clock: writes the times instead, aware UTC; the history is the same but for its times.
    """

    def __init__(
        self,
        *,
        seed: int,
        instances: int,
        providers: int = 11,
        late: float = 0.2,
        health: float = 0.02,
        start: datetime.datetime = dcm.NOON,
        clock: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._rng = random.Random(seed)
        self._target = instances
        self._late = late
        self._health = health
        self._now = start
        self._clock = clock
        self._sequence = itertools.count(1)
        self._providers = [self._provider(i) for i in range(providers)]
        self._instances: list[_Instance] = []
        self._waiting: list[tuple[int, _Instance]] = []
        self._states: dict[str, dict[str, Any]] = {}
        self._steps = self._run()

    def steps(self) -> Iterator[Step]:
        """The steps from here on, without end."""
        return self._steps

    def history(self, messages: int) -> list[Step]:
        """The steps up to so many messages from here, and the rows that are still to be made."""
        found: list[Step] = []
        while messages:
            step = next(self._steps)
            found.append(step)
            messages -= isinstance(step, Message)
        return found + list(self.settle())

    def settle(self) -> Iterator[Step]:
        """Make the rows that the API has not made yet."""
        while self._waiting:
            yield self._make(self._waiting.pop()[1])

    def truth(self) -> Truth:
        """kind -> id -> field -> value of the rows that are made, without the fields of :data:`UNTOLD`."""
        instances, bindings = {}, {}
        for instance in self._instances:
            if instance.made:
                provider = instance.row["provider_name"]
                source = instance.publisher.source(provider)
                if instance.reported["status"] is not None:
                    entity_id = binding_id(provider, source)
                    bindings[entity_id] = {"id": entity_id, "provider_name": provider, "source": source}
                row = {"instance_name": None, "spec": None, "agent_name": None, **instance.row, **instance.reported}
                row["provider_id"] = f"{row['provider_name']}/{row['service_type']}"
                state = self._states.get(row["provider_id"])
                instances[row["id"]] = {**row, "provider_state": state["state"] if state is not None else None}
        return {
            "service_type_instance": instances,
            "provider_binding": bindings,
            "provider": {i: {"id": i, **state} for i, state in self._states.items()},
        }

    def _run(self) -> Iterator[Step]:
        while True:
            passed = self._now + datetime.timedelta(microseconds=self._rng.randint(1_000, 900_000))
            self._now = passed if self._clock is None else self._clock()
            for entry in [entry for entry in self._waiting if entry[0] <= 0]:
                self._waiting.remove(entry)
                yield self._make(entry[1])
            self._waiting = [(left - 1, instance) for left, instance in self._waiting]
            if len(self._instances) < self._target and (not self._instances or self._rng.random() < 0.4):
                instance = self._new()
                if self._rng.random() < self._late:
                    self._waiting.append((self._rng.randint(1, 20), instance))
                else:
                    yield self._make(instance)
                yield self._status_event(instance)
            elif self._rng.random() < self._health:
                yield self._warn()
            else:
                yield self._status_event(self._rng.choice(self._instances))

    def _provider(self, number: int) -> tuple[str, str, Publisher]:
        publisher = dcm.PUBLISHERS[number % len(dcm.PUBLISHERS)]
        service_type = {"kubevirt": "vm", "acm": "cluster"}.get(publisher.name) or self._rng.choice(_TYPES)
        return f"{publisher.name.replace(' ', '-')}-{number}", service_type, publisher

    def _new(self) -> _Instance:
        name, service_type, publisher = self._rng.choice(self._providers)
        text = f"{self._rng.getrandbits(128):032x}"
        row: Document = {
            "id": f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}",
            "service_type": service_type,
            "provider_name": name,
            "instance_name": f"{service_type}-{len(self._instances)}",
            "spec": {"size": self._rng.choice(("small", "large")), "replicas": self._rng.randint(1, 5)},
        }
        instance = _Instance(row, publisher)
        self._instances.append(instance)
        return instance

    def _make(self, instance: _Instance) -> Row:
        instance.made = True
        return Row(dict(instance.row))

    def _status_event(self, instance: _Instance) -> Message:
        row, publisher = instance.row, instance.publisher
        service_type = row["service_type"]
        if publisher.raw_phases and service_type == "vm":
            reported = self._rng.choice(tuple(dcm.KUBEVIRT_PHASES))
            meant = dcm.KUBEVIRT_PHASES[reported]
        else:
            statuses = dcm.ACM_STATUSES if publisher.name == "acm" else dcm.STATUSES[service_type]
            reported = meant = self._rng.choice(statuses)
        message = self._rng.choice(_MESSAGES)
        output = {"address": f"10.0.0.{self._rng.randint(1, 254)}"} if self._rng.random() < 0.3 else None
        sequence = (EPOCH, next(self._sequence))
        document = publisher.event(
            row["id"],
            reported,
            service_type=service_type,
            provider=row["provider_name"],
            event_id=f"event-{sequence[1]}",
            time=self._now,
            message=message,
            output_spec=output,
        )
        instance.reported["status"] = meant
        instance.reported["status_message"] = (None if publisher.no_message else message) or None
        instance.reported["status_updated_at"] = publisher.time(self._now)
        if output is not None:
            instance.reported["output_spec"] = output
        message_id = document["id"] if publisher.message_id else None
        return Message(dcm.subject(service_type), dcm.body_of(document), sequence, message_id)

    def _warn(self) -> Message:
        name, service_type, publisher = self._rng.choice(self._providers)
        state = self._rng.choice(("degraded", "unavailable", "available"))
        sequence = (EPOCH, next(self._sequence))
        document = dcm.health(
            state,
            provider=name,
            service_type=service_type,
            event_id=f"health-{sequence[1]}",
            time=self._now,
            reason=f"it is {state}",
        )
        document["source"] = publisher.source(name)
        self._states[f"{name}/{service_type}"] = {
            "name": name,
            "service_type": service_type,
            "state": state,
            "reason": f"it is {state}",
            "agent_name": "agent-1",
            "updated_at": self._now,
        }
        return Message(dcm.SUBJECT_HEALTH, dcm.body_of(document), sequence, None)
