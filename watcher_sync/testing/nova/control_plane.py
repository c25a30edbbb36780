# SPDX-License-Identifier: Apache-2.0
"""The simulated control plane: clocks, copies of servers, database writes and publications.

The modules ``server_operations`` and ``host_operations`` use this one. A :class:`Copy` is a server in the memory of one
Nova process. As in Nova, the copy after a write has the row's fields and the ``updated_at`` of the write before. What
another process writes meanwhile is not in it, so an event that saves nothing publishes a stale copy.

Guarantees: with ``clock_skew`` 0 two publications never have the same envelope time, and the later one has the later
time. Each write replaces the record of a server and never changes the old one.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Generator, Iterator
from typing import Any

from watcher_sync.testing.ledger import Ledger
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.database import Database, Fault, Host, Migration, Record, Server

__all__ = ("API", "CONDUCTORS", "ControlPlane", "Copy", "Host", "Record", "Server", "Steps")

Steps = Generator[notifications.Document | float]
"""What an operation does: it yields the notifications it publishes and the seconds that it waits."""

API = "nova-api:controller-0"
CONDUCTORS = ("nova-conductor:controller-0", "nova-conductor:controller-1")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Copy:
    """A server in the memory of the processes that carry out one action.

    Nova hands it from the API to the conductor and to the computes.
    """

    __slots__ = ("_plane", "conductor", "record", "request_id", "server")

    def __init__(self, plane: ControlPlane, server: Server, request_id: str, conductor: str) -> None:
        self._plane = plane
        self.server = server
        self.record = server.record
        self.request_id = request_id
        self.conductor = conductor
        """Who writes for the computes, which have no database."""

    def save(self, writer: str | None = None, **changes: Any) -> Iterator[notifications.Document]:
        """Write the changed fields; yields the instance.update where Nova publishes it.

        :param writer: the API or a conductor; the conductor of this action when left out.
        """
        plane, server = self._plane, self.server
        writer = writer or self.conductor
        before = server.record
        server.record = {**before, **changes, "updated_at": plane.second(writer)}
        self.record = {**server.record, "updated_at": before["updated_at"]}
        if plane.notify_on_state_change:
            # Another request's write while a resize moves the server looks like the hidden record of another cell.
            task = self.record["task_state"]
            hidden = task == "resize_migrated" and before["task_state"] == task
            owns = "instance.update of tags" if hidden else "instance.update"
            yield plane.publish_update(self, before, f"nova-compute:{writer.partition(':')[2]}", owns=owns)

    def publish(self, event_type: str, publisher: str | Host, **more: Any) -> notifications.Document:
        """The instance event with the fields of this copy; ``more`` are those that only its payload class has."""
        return self._plane.publish(event_type, self, publisher, **more)


class ControlPlane:
    """See the module's text. Belongs to one simulator and its thread."""

    def __init__(
        self,
        *,
        rng: random.Random,
        start: datetime.datetime,
        starts: bool = True,
        notify_on_state_change: bool = True,
        clock_skew: float = 0.0,
    ) -> None:
        self.rng = rng
        self.database = Database()
        self.ledger = Ledger(self.database)
        self.hosts = self.database.hosts
        self.servers = self.database.servers
        self.starts = starts
        self.notify_on_state_change = notify_on_state_change
        self.now = (start - _EPOCH) // datetime.timedelta(microseconds=1)
        """Microseconds since 1970; decides the order of what happens."""
        self.clock: Callable[[], int] | None = None
        """What the services write as the time, in microseconds since 1970; None: :attr:`now`."""
        self._skew = int(clock_skew * 1_000_000)
        self._offsets: dict[str, int] = {}
        self._texts: tuple[int, str, str] = (-1, "", "")
        self._published = self.now
        self._number = 0
        self._message_ids = self.new_id()[:18]

    def second(self, publisher: str = API) -> str:
        """The time as a process writes it into the database, by its own clock."""
        return self._clock(self._time() + self._offset(publisher))[1]

    def new_id(self) -> str:
        """A uuid that the seed decides."""
        text = f"{self.rng.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def read(self, server: Server) -> Copy:
        """The server as a process reads it now, for a new request."""
        return Copy(self, server, f"req-{self.new_id()}", CONDUCTORS[self._number & 1])

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
        return {"host": host.name, "node": host.node, "availability_zone": host.availability_zone}

    def migrate(self, server: Server, type_: str, target: Host, flavor: Record | None = None) -> Migration:
        """A migration record; unless it evacuates, it takes over the source's allocation, and the server claims."""
        source = server.host
        assert source is not None
        held = self.database.migrations
        migration = Migration(len(held) + 1, self.new_id(), server.uuid, source.name, target.name, type_, self.second())
        held[migration.uuid] = migration
        if type_ != "evacuation":
            self.database.hand_over(server, source, server.uuid, migration.uuid)
        self.database.claim(server, target, flavor)
        return migration

    def restarted(self, host: Host) -> None:
        """A compute that starts again removes the servers that were evacuated from it."""
        evacuated = set()
        for migration in self.database.migrations.values():
            if migration.type == "evacuation" and migration.status == "done" and migration.source == host.name:
                evacuated.add(migration.instance_uuid)
                self.conclude(migration, "completed")
        for server in self.servers:
            if server.uuid in evacuated and server.host is not host and not server.busy:
                self.database.release(server, host)

    def conclude(self, migration: Migration, status: str) -> None:
        """The migration's status changes."""
        migration.status, migration.updated_at = status, self.second()

    def fail(self, server: Server, type_: str, message: str) -> None:
        """The API shows a fault of the server while it is in error."""
        server.fault = Fault(type_, message, self.second())

    def publish(
        self,
        event_type: str,
        copy: Copy,
        publisher: str | Host,
        *,
        fault: tuple[str, str] | None = None,
        on: Host | None = None,
        source: Host | None = None,
        owns: str | None = None,
        **more: Any,
    ) -> notifications.Document:
        """A service publishes an instance event.

        :param on: where the instance is, if only the publisher tells it and the payload does not.
        :param source: the host that the instance leaves by a resize.
        :param owns: the line of the ownership table that it follows, if not its own.
        """
        legacy = False
        if isinstance(publisher, Host):
            legacy = publisher.legacy
            publisher = publisher.publisher
        envelope = self._envelope(publisher)
        more["request_id"] = copy.request_id
        if fault is not None:
            more["fault"] = fault
        document = notifications.from_record(event_type, copy.record, more, envelope=envelope)
        if legacy:
            data = document["payload"][notifications.DATA]
            del data["locked"], data["locked_reason"]
        if self.starts or not event_type.endswith(".start"):
            self.ledger.published(
                owns or event_type,
                copy.record,
                envelope["timestamp"],
                fault=fault,
                legacy=legacy,
                on=on,
                source=source,
            )
        return document

    def publish_update(
        self, copy: Copy, before: Record, publisher: str, *, owns: str = "instance.update"
    ) -> notifications.Document:
        """The instance.update that follows a write; a task state that was null is shown as the new one, as in Nova.

        :param owns: the line of the ownership table that it follows.
        """
        record = copy.record
        return self.publish(
            "instance.update",
            copy,
            publisher,
            owns=owns,
            old_display_name=before["display_name"] if before["display_name"] != record["display_name"] else None,
            state_update=notifications.wrap(
                "InstanceStateUpdatePayload",
                {
                    "old_state": before["state"],
                    "state": record["state"],
                    "old_task_state": before["task_state"] or record["task_state"],
                    "new_task_state": record["task_state"],
                },
            ),
        )

    def publish_compute_task(self, method: str, copy: Copy, fault: tuple[str, str]) -> notifications.Document:
        """A conductor gives up scheduling a server."""
        envelope = self._envelope(copy.conductor)
        record = copy.record
        never_ran = method == "build_instances"
        self.ledger.task_failed(record, fault, envelope["timestamp"], never_ran=never_ran)
        return notifications.other(
            f"compute_task.{method}.error", envelope=envelope, instance_uuid=record["uuid"], method=method,
            state=record["state"], reason=notifications.fault(*fault),
        )  # fmt: skip

    def publish_service(self, event_type: str, host: Host, *, binary: str = "nova-compute") -> notifications.Document:
        """A service's record was created, changed or deleted; the API publishes changes in the service's name."""
        created = event_type == "service.create"
        envelope = self._envelope(f"{binary}:{host.name}", clock=host.publisher if created else API)
        reported: dict[str, Any] = {
            "availability_zone": host.service_zone,
            "disabled": host.disabled_reason is not None,
            "disabled_reason": host.disabled_reason,
            "forced_down": host.forced_down,
        }
        topic, seen_up = binary.removeprefix("nova-"), self.second()
        if binary == "nova-compute":
            host.updated_at = seen_up
            self.ledger.service(host, None if event_type == "service.delete" else reported)
        else:
            reported |= {"disabled": True, "disabled_reason": f"{topic} moves", "forced_down": True}
        return notifications.service(
            event_type, envelope=envelope, binary=binary, topic=topic, host=host.name, last_seen_up=seen_up,
            uuid=host.service_uuid, **reported,
        )  # fmt: skip

    def publish_aggregate(
        self, event_type: str, record: Record, hosts: list[str] | None = None
    ) -> notifications.Document:
        """An aggregate after (``.end``) or before (``.start``) an operation.

        :param hosts: those in the publisher's memory, where they differ from the database's.
        """
        reported = {**record, "hosts": list(record["hosts"] if hosts is None else hosts)}
        reported["metadata"] = dict(record["metadata"])
        if event_type.endswith(".end") and "cache_images" not in event_type:
            self.ledger.aggregate(event_type, {**reported, "metadata": dict(reported["metadata"])})
        return notifications.aggregate(event_type, envelope=self._envelope(API), **reported)

    def publish_other(
        self, event_type: str, publisher: str | None = None, *, request_id: str | None = None, **fields: Any
    ) -> notifications.Document:
        """Something whose payload reports nothing of hosts and instances.

        :param request_id: the request in its context.
        """
        envelope = self._envelope(publisher or API)
        if request_id is not None:
            envelope[notifications.REQUEST] = request_id
        return notifications.other(event_type, envelope=envelope, **fields)

    def _envelope(self, publisher: str, *, clock: str | None = None) -> dict[str, Any]:
        """:param clock: the publisher on whose machine the event was made, if it speaks in another one's name."""
        self._published = max(self._time(), self._published + 1)
        if self.clock is None:
            self.now = self._published
        moment = self._published + self._offset(clock or publisher)
        timestamp = f"{self._clock(moment)[0]}.{moment % 1_000_000:06d}"
        number = self._number = self._number + 1
        mixed = number * 0x9E37_79B9_7F4A_7C15 & 0xFFFF_FFFF_FFFF_FFFF  # no order of publication in the ids
        message_id = f"{self._message_ids}-{mixed >> 48:04x}-{mixed & 0xFFFF_FFFF_FFFF:012x}"
        return {"message_id": message_id, "publisher_id": publisher, "timestamp": timestamp}

    def _time(self) -> int:
        return self.now if self.clock is None else self.clock()

    def _offset(self, publisher: str) -> int:
        """How far the clock of the publisher's machine is from the true time, in microseconds."""
        if not self._skew:
            return 0
        machine = publisher.partition(":")[2]
        offset = self._offsets.get(machine)
        if offset is None:
            offset = self._offsets[machine] = self.rng.randint(-self._skew // 2, self._skew // 2)
        return offset

    def _clock(self, moment: int) -> tuple[str, str]:
        second = moment // 1_000_000
        if second != self._texts[0]:
            time = _EPOCH + datetime.timedelta(seconds=second)
            self._texts = (second, f"{time:%Y-%m-%d %H:%M:%S}", f"{time:%Y-%m-%dT%H:%M:%SZ}")
        return self._texts[1:]
