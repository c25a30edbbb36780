# SPDX-License-Identifier: Apache-2.0
"""The simulated control plane: clock, hosts, servers, database writes and publications.

The modules ``server_operations`` and ``host_operations`` use this one. The method ``save`` is Nova's database write and
sets ``updated_at`` with a resolution of one second. The method ``publish`` builds the notification and records it in
the ledger. The simulator records the heartbeat when its caller consumes the notification.

Guarantees: two publications never have the same envelope time, and the later one has the later time. Each save
replaces the record of a server and never changes the old one, so published records remain unchanged.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Generator
from typing import Any

from watcher_sync.testing.ledger import Ledger
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.notification_types import DELETES, ERRORS, UPSERTS

Record = dict[str, Any]
"""A server as Nova's database has it: the payload's fields, with flavor, addresses and volumes unwrapped."""

Steps = Generator[notifications.Document | float]
"""What an operation does: it yields the notifications it publishes and the seconds that it waits."""

API, CONDUCTOR = "nova-api:controller-0", "nova-conductor:controller-0"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Host:
    """A compute host."""

    __slots__ = ("count", "declared", "disabled_reason", "forced_down", "legacy", "name", "node", "registered",
                 "service_zone", "spare", "zone")  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.node = name
        self.count = 0
        """Servers on it."""
        self.zone: str | None = None
        self.service_zone: str | None = None
        self.declared = True
        """Whether its service is created in sight of the bus."""
        self.registered = False
        self.disabled_reason: str | None = None
        self.forced_down = False
        self.spare = False
        """Excluded from scheduling, so that it remains empty."""
        self.legacy = False
        """Its release is old: no lock in its payloads."""

    @property
    def publisher(self) -> str:
        return f"nova-compute:{self.name}"

    @property
    def works(self) -> bool:
        return (self.registered or not self.declared) and not self.forced_down

    @property
    def schedulable(self) -> bool:
        return self.works and self.disabled_reason is None and not self.spare


class Server:
    """An instance."""

    __slots__ = ("busy", "host", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.host: Host | None = None
        self.busy = True

    @property
    def state(self) -> str:
        state: str = self.record["state"]
        return state


class ControlPlane:
    """See the module's text. Belongs to one simulator and its thread."""

    def __init__(self, *, rng: random.Random, start: datetime.datetime) -> None:
        self.rng = rng
        self.ledger = Ledger()
        self.hosts: list[Host] = []
        self.servers: list[Server] = []
        self.now = (start - _EPOCH) // datetime.timedelta(microseconds=1)
        """Microseconds since 1970."""
        self._second = -1
        self._published = self.now
        self._texts = ("", "")
        self._number = 0
        self._message_ids = self.new_id()[:18]

    def second(self) -> str:
        """The time as the database writes it."""
        return self._clock()[1]

    def new_id(self) -> str:
        """A uuid that the seed decides."""
        text = f"{self.rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def pick_host(self, *, other_than: Host | None = None) -> Host | None:
        """The scheduler: a host that may take a server, or None."""
        for _ in range(8):
            host = self.rng.choice(self.hosts)
            if host.schedulable and host is not other_than:
                return host
        able = [host for host in self.hosts if host.schedulable and host is not other_than]
        return self.rng.choice(able) if able else None

    def place(self, server: Server, host: Host | None) -> dict[str, Any]:
        """Move the server in the account of hosts; returns the fields to save."""
        if server.host is not None:
            server.host.count -= 1
        server.host = host
        if host is None:
            return {"host": None, "node": None}
        host.count += 1
        zone = host.zone or host.service_zone or "nova"
        return {"host": host.name, "node": host.node, "availability_zone": zone}

    def save(self, server: Server, **changes: Any) -> None:
        """Nova writes the server's row."""
        server.record = {**server.record, **changes, "updated_at": self.second()}

    def publish(
        self,
        event_type: str,
        server: Server,
        publisher: str | Host | None = None,
        *,
        seen: Record | None = None,
        fault: tuple[str, str] | None = None,
        **more: Any,
    ) -> notifications.Document:
        """A service publishes an instance event.

        :param publisher: who; the server's host when left out.
        :param seen: the record in the publisher's memory, where that is not the database's.
        :param more: the fields that only this payload class has.
        """
        record = server.record if seen is None else seen
        legacy = False
        if publisher is None:
            publisher = server.host if server.host is not None else API
        if isinstance(publisher, Host):
            legacy = publisher.legacy
            publisher = publisher.publisher
        envelope = self._envelope(publisher)
        if fault is not None:
            more["fault"] = fault
        document = notifications.from_record(event_type, record, more, envelope=envelope)
        if legacy:
            data = document["payload"][notifications.DATA]
            del data["locked"], data["locked_reason"]
        if event_type in DELETES:
            self.ledger.delete(record["uuid"])
        elif (error := event_type in ERRORS) or event_type in UPSERTS:
            version = (record["updated_at"] or record["created_at"], envelope["timestamp"], envelope["message_id"])
            self.ledger.instance(version, record, fault=fault, error=error, with_lock=not legacy)
        return document

    def update(self, server: Server, old: Record, publisher: str | Host | None = None) -> notifications.Document:
        """The instance.update that follows a save; old is the record before it."""
        record = server.record
        contradicts = self.rng.random() < 0.125  # the change as it began, beside data as it ended
        return self.publish(
            "instance.update",
            server,
            publisher,
            old_display_name=old["display_name"] if old["display_name"] != record["display_name"] else None,
            state_update=notifications.wrap(
                "InstanceStateUpdatePayload",
                {
                    "old_state": old["state"],
                    "state": old["state"] if contradicts else record["state"],
                    "old_task_state": old["task_state"],
                    "new_task_state": old["task_state"] if contradicts else record["task_state"],
                },
            ),
        )

    def publish_service(self, event_type: str, host: Host, *, binary: str = "nova-compute") -> notifications.Document:
        """A service's record was created, changed or deleted."""
        envelope = self._envelope(f"{binary}:{host.name}")
        told: dict[str, Any] = {
            "availability_zone": host.service_zone,
            "disabled": host.disabled_reason is not None,
            "disabled_reason": host.disabled_reason,
            "forced_down": host.forced_down,
        }
        topic, seen_up = binary.removeprefix("nova-"), self.second()
        if binary == "nova-compute":
            version = ("", envelope["timestamp"], envelope["message_id"])
            self.ledger.service(version, host.name, None if event_type == "service.delete" else told)
        else:
            told |= {"disabled": True, "disabled_reason": f"{topic} moves", "forced_down": True}
        return notifications.service(
            event_type, envelope=envelope, binary=binary, topic=topic, host=host.name, last_seen_up=seen_up, **told
        )

    def publish_aggregate(self, event_type: str, record: Record) -> notifications.Document:
        """An aggregate as it is after (``.end``) or before (``.start``) an operation."""
        envelope = self._envelope(API)
        told = {**record, "hosts": list(record["hosts"]), "metadata": dict(record["metadata"])}
        if event_type.endswith(".end") and "cache_images" not in event_type:
            version = ("", envelope["timestamp"], envelope["message_id"])
            self.ledger.aggregate(version, record["uuid"], None if event_type == "aggregate.delete.end" else told)
        return notifications.aggregate(
            event_type, envelope=envelope, **{**told, "hosts": list(told["hosts"]), "metadata": dict(told["metadata"])}
        )

    def publish_other(self, event_type: str) -> notifications.Document:
        """Something that tells nothing of hosts and instances."""
        return notifications.other(event_type, envelope=self._envelope(API))

    def _envelope(self, publisher: str) -> dict[str, Any]:
        self._published = self.now = max(self.now, self._published + 1)
        timestamp, _ = self._clock()
        timestamp = f"{timestamp}.{self.now % 1_000_000:06d}"
        number = self._number = self._number + 1
        mixed = number * 0x9E37_79B9_7F4A_7C15 & 0xFFFF_FFFF_FFFF_FFFF  # no order of publication in the ids
        message_id = f"{self._message_ids}-{mixed >> 48:04x}-{mixed & 0xFFFF_FFFF_FFFF:012x}"
        return {"message_id": message_id, "publisher_id": publisher, "timestamp": timestamp}

    def _clock(self) -> tuple[str, str]:
        second = self.now // 1_000_000
        if second != self._second:
            moment = _EPOCH + datetime.timedelta(seconds=second)
            self._second = second
            self._texts = (f"{moment:%Y-%m-%d %H:%M:%S}", f"{moment:%Y-%m-%dT%H:%M:%SZ}")
        return self._texts
