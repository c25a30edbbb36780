# SPDX-License-Identifier: Apache-2.0
"""Operations on hosts and aggregates, with the notifications that Nova publishes.

Operations are generators, as in :mod:`watcher_sync.testing.nova.server_operations`.

Undeclared hosts have services that were created before the history begins, so only their servers' notifications name
them. Spare hosts have no servers, so that a service can be deleted from an empty host, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from watcher_sync.testing.nova.control_plane import ControlPlane, Steps
from watcher_sync.testing.nova.database import Host, Record


class Aggregates:
    """The aggregates of one cloud, as their API has them."""

    def __init__(self, plane: ControlPlane, zones: int) -> None:
        self.plane = plane
        self.zones = [self._record(f"zone-{i}", {"availability_zone": f"az-{i}"}) for i in range(zones)]
        self.special = self._record("fast-disks", {"ssd": "true"})
        self._count = 0

    def found(self) -> Steps:
        """The first aggregates, and the hosts join theirs; every seventh host is in no zone."""
        for record in (*self.zones, self.special):
            yield from self._publish_record("create", record)
        for i, host in enumerate(self.plane.hosts):
            if self.zones and i % 7 != 6:
                yield from self._join(self.zones[i % len(self.zones)], host)
            if i % 5 == 0:
                yield from self._join(self.special, host)

    def change(self) -> Steps:
        """One thing that an operator does to aggregates."""
        rng = self.plane.rng
        what = rng.random()
        record = rng.choice([*self.zones, self.special])
        if what < 0.4:
            yield from self._move(rng.choice(self.plane.hosts))
        elif what < 0.5:
            yield from self._join_two(self.special, *rng.sample(self.plane.hosts, 2))
        elif what < 0.65:
            record["name"] = f"{record['name'].partition('+')[0]}+{rng.randrange(100)}"
            yield from self._publish_record("update_prop", record)
        elif what < 0.8:
            record["metadata"]["contact"] = f"team-{rng.randrange(100)}"
            yield from self._publish_record("update_metadata", record)
        elif what < 0.9 and self.zones:
            zone = rng.choice(self.zones)
            zone["metadata"]["availability_zone"] = f"{zone['metadata']['availability_zone'].partition('+')[0]}+"
            for host in self.plane.hosts:
                if host.name in zone["hosts"]:
                    host.zone = zone["metadata"]["availability_zone"]
            yield from self._publish_record("update_metadata", zone)
        else:
            passing = self._record(f"passing-{self._count}", {})
            self._count += 1
            yield from self._publish_record("create", passing)
            host = rng.choice(self.plane.hosts)
            yield from self._join(passing, host)
            yield rng.uniform(1.0, 30.0)
            yield from self._leave(passing, host)  # Nova refuses to delete one that has hosts
            yield from self._publish_record("delete", passing)

    def _move(self, host: Host) -> Steps:
        """Out of its zone, and into another one or none."""
        for zone in self.zones:
            if host.name in zone["hosts"]:
                yield from self._leave(zone, host)
        if self.zones and self.plane.rng.random() < 0.8:
            yield from self._join(self.plane.rng.choice(self.zones), host)

    def _join(self, record: Record, host: Host) -> Steps:
        if host.name in record["hosts"]:
            return
        zone = record["metadata"].get("availability_zone")
        record["hosts"] = [*record["hosts"], host.name]
        host.zone = zone or host.zone
        yield from self._publish_record("add_host", record)

    def _join_two(self, record: Record, first: Host, second: Host) -> Steps:
        """Two requests at once: each publishes the hosts that it read, and its own."""
        if first.name in record["hosts"] or second.name in record["hosts"]:
            return
        before = record["hosts"]
        record["hosts"] = [*before, first.name, second.name]
        for _ in (first, second):
            yield self.plane.publish_aggregate("aggregate.add_host.start", record, before)
        for host in (first, second):
            yield self.plane.publish_aggregate("aggregate.add_host.end", record, [*before, host.name])

    def _leave(self, record: Record, host: Host) -> Steps:
        record["hosts"] = [name for name in record["hosts"] if name != host.name]
        if "availability_zone" in record["metadata"]:
            host.zone = None
        yield from self._publish_record("remove_host", record)

    def _publish_record(self, action: str, record: Record) -> Steps:
        if action == "create":
            self.plane.database.aggregates.append(record)
        elif action == "delete":
            self.plane.database.aggregates.remove(record)
        yield self.plane.publish_aggregate(f"aggregate.{action}.start", record)
        yield self.plane.publish_aggregate(f"aggregate.{action}.end", record)

    def _record(self, name: str, metadata: dict[str, str]) -> Record:
        number = self.plane.rng.randrange(1, 1_000_000)
        return {"id": number, "uuid": self.plane.new_id(), "name": name, "hosts": [], "metadata": metadata}


def found_services(plane: ControlPlane) -> Steps:
    """The services of the declared hosts, with a conductor beside some of them."""
    for i, host in enumerate(plane.hosts):
        if host.declared:
            host.registered = True
            yield plane.publish_service("service.create", host)
        if i % 25 == 3:
            yield plane.publish_service("service.create", host, binary="nova-conductor")


def change_host(plane: ControlPlane, host: Host, *, others: Sequence[Host]) -> Steps:
    """One thing that an operator does to a host; at most a fifth of the hosts is out of order at a time."""
    rng = plane.rng
    if rng.random() < 0.15:
        binary = rng.choice(("nova-conductor", "nova-scheduler"))
        yield plane.publish_service("service.update", host, binary=binary)
        return
    broken = [other for other in others if not other.works or other.disabled_reason is not None]
    if broken and (rng.random() < 0.5 or len(broken) * 5 >= len(others)):
        yield from _repair(plane, rng.choice(broken))
        return
    if not host.works or host.disabled_reason is not None or len(broken) * 5 >= len(others):
        return
    what = rng.random()
    if what < 0.1:  # no notification says that a service is dead
        host.dead = True
        return
    if what < 0.4:
        host.disabled_reason = rng.choice(("maintenance", "memory errors", "dégradé"))
    elif what < 0.7:
        host.forced_down = True
    elif host.registered:
        host.registered = False
        host.forced_down = False
        yield plane.publish_service("service.delete", host)
        return
    host.registered = host.declared = True  # an undeclared host is declared now
    yield plane.publish_service("service.update", host)


def _repair(plane: ControlPlane, host: Host) -> Steps:
    if host.dead:  # none says either that it was restarted
        host.dead = False
        plane.restarted(host)
        return
    created = not host.exists
    host.registered = host.declared = True
    host.disabled_reason, host.forced_down = None, False
    yield plane.publish_service("service.create" if created else "service.update", host)
