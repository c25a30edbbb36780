# SPDX-License-Identifier: Apache-2.0
"""A cloud to look at: hosts and instances with believable names, and the problems that a real one has."""

from __future__ import annotations

import datetime
import itertools
import random
import uuid
from collections.abc import Iterator
from typing import Any

from tests.unit.extensions.log.rows import outlet_cursor
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.log.cursors import FAILED, write_outlet
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.model.changes import Change, Delete, Upsert
from watcher_sync.model.kinds import kind_of
from watcher_sync.storage.groups.source_status import SourceRow, write_sources
from watcher_sync.storage.writing.store import Store

_FIELDS = kind_of(Instance).fields
HOSTILE = "<img src=x onerror=alert(1)>"

_ROLES = ("upf-edge", "amf", "smf", "ausf", "nrf", "udm", "cu-up", "cu-cp", "du", "vcpe", "ims-cscf", "probe")
_STATES = ("active",) * 60 + ("stopped",) * 3 + ("building", "paused", "shelved_offloaded")


class Told:
    """Events carry the changes that they are to make."""

    events = {"instance.*": "told", "service.*": "told"}  # noqa: RUF012 - as plugins write it

    def told(self, event: Event, _view: object) -> Iterator[Change]:
        """What the event says."""
        yield from event.data


class Cloud:
    """Writes to a store as an engine does, in this process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.cycle = CommitCycle(store, store.load(), Dispatcher([("told", Told())]))
        self.instances: dict[str, dict[str, Any]] = {}
        """Id -> what is known of its state."""
        self._numbers = itertools.count(1)
        self._rng = random.Random(20)

    def commit(self, *changes: Change, type: str = "instance.update") -> None:
        """These changes in one transaction, an event each."""
        self.cycle.run(Batch(events=[self._event(type, [change]) for change in changes]))

    def instance(self, entity_id: str, *, host: str | None = None, **state: Any) -> Upsert:
        """The change that makes or changes an instance."""
        known = self.instances.setdefault(entity_id, {})
        known |= state
        facets: dict[str, dict[str, Any]] = {"state": {}} if state else {}
        for name, value in known.items() if state else ():
            facets.setdefault(_FIELDS[name].facet or "", {})[name] = value
        if host is not None:
            facets["placement"] = {"host": host}
        return Upsert("instance", entity_id, self._version(), facets)

    def node(self, host: str, **facets: dict[str, Any]) -> Upsert:
        """The change that makes or changes a host."""
        return Upsert("compute_node", host, self._version(), facets)

    def deleted(self, entity_id: str) -> Delete:
        """The change that deletes an instance."""
        del self.instances[entity_id]
        return Delete("instance", entity_id, self._version())

    def grow(self, hosts: int, instances: int) -> None:
        """All hosts and instances, in transactions of 2,000."""
        names = [f"cmp-{('ams', 'fra', 'muc')[i % 3]}-{i:04d}" for i in range(hosts)]
        changes: list[Change] = [
            self.node(n, service={"status": "enabled"}, zone={"service_zone": f"{n[4:7]}1"}) for n in names
        ]
        for number in range(instances):
            changes.append(self._booted(number, names[number % hosts if number % 7 else self._rng.randrange(hosts)]))
        for start in range(0, len(changes), 2000):
            self.commit(*changes[start : start + 2000], type="instance.create.end")

    def problem(self) -> None:
        """What goes wrong in a cloud of at least 30 hosts and 100 instances."""
        down = {"status": "disabled", "disabled_reason": "PSU 2 failed, vendor case 884-2231", "forced_down": True}
        self.commit(
            self.node("cmp-ams-0012", service=down),
            self.node(
                "cmp-muc-0005", service={"status": "disabled", "disabled_reason": "kernel upgrade, back at 18:00"}
            ),
            self.node("cmp-fra-0019", service={"status": "disabled"}),
            self.node("cmp-fra-0022", liveness={"liveness": "down"}),
            type="service.update",
        )
        for entity_id in list(self.instances)[40:100:9]:
            self.commit(self.instance(entity_id, state="error"), type="instance.create.error")

    def busy(self, times: int) -> None:
        """Ordinary life: instances are made, resized, stopped, moved and deleted."""
        names = [f"cmp-{('ams', 'fra', 'muc')[i % 3]}-{i:04d}" for i in range(24)]
        for number in range(times):
            entity_id = self._rng.choice(list(self.instances))
            if number % 5 == 0:
                self.commit(self.instance(entity_id, task_state="migrating"), type="instance.live_migration_pre.end")
                self.commit(
                    self.instance(entity_id, host=self._rng.choice(names), task_state=None),
                    type="instance.live_migration_post.end",
                )
            elif number % 5 == 1:
                self.commit(self._booted(90_000 + number, self._rng.choice(names)), type="instance.create.end")
            elif number % 5 == 2:
                self.commit(
                    self.instance(entity_id, state="stopped", power_state="shutdown"), type="instance.power_off.end"
                )
            elif number % 5 == 3:
                self.commit(self.instance(entity_id, vcpus=16, memory_mb=32_768), type="instance.resize.end")
            else:
                self.commit(self.deleted(entity_id), type="instance.delete.end")

    def sources(self) -> None:
        """One source of each condition."""
        now = datetime.datetime.now(datetime.UTC)

        def ago(seconds: float) -> datetime.datetime:
            return now - datetime.timedelta(seconds=seconds)

        common = {"engine_group": "default", "host": "control-1", "pid": 1184}
        write_sources(
            self.store.database,
            [
                SourceRow(source="nova", state="connected", since=ago(86_000), last_event_at=ago(1), lag=3,
                          reconnects=1, updated_at=now, **common),
                SourceRow(source="dcm", state="connected", since=ago(7000), last_event_at=ago(412), lag=1804,
                          updated_at=ago(400), **common),
                SourceRow(source="edge", state="disconnected", since=ago(900), detail="connection refused",
                          last_event_at=ago(905), reconnects=14, updated_at=now, **common),
            ],
        )  # fmt: skip
        write_outlet(self.store.database, outlet_cursor(since=ago(5000), updated_at=now))
        write_outlet(
            self.store.database,
            outlet_cursor(
                outlet="billing",
                driver="kafka",
                state=FAILED,
                detail="connection refused",
                since=ago(60),
                updated_at=now,
            ),
        )

    def quarantine(self) -> None:
        """Events that belong there."""
        bad = [
            (
                "instance.update",
                b'{"nova_object.name": "InstanceUpdatePayload", ',
                "the body is not JSON: unexpected end",
            ),
            ("dcm.vm", b'{"status": 7}', "data.status is not a text"),
            ("service.update", b"\xff\xfe\x00", "the body is not UTF-8"),
        ]
        self.cycle.run(Batch(events=[self._event(t, data, undecodable=why) for t, data, why in bad]))

    def _booted(self, number: int, host: str) -> Upsert:
        rng = self._rng
        entity_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        state = rng.choice(_STATES)
        return self.instance(
            entity_id, host=host, name=f"{rng.choice(_ROLES)}-{number:05d}", state=state, vcpus=rng.choice((2, 4, 8)),
            memory_mb=8192, project_id=f"{rng.randrange(8):032x}", flavor_name="vnf.dedicated",
            power_state="running" if state == "active" else "shutdown", metadata={"site": "edge-7", "role": "vnf"},
            task_state="spawning" if state == "building" else None, ip_addresses=[f"10.4.{number % 250}.17"],
        )  # fmt: skip

    def _event(self, type: str, data: Any, **more: Any) -> Event:
        now = datetime.datetime.now(datetime.UTC)
        return Event(id=str(uuid.uuid4()), type=type, source="nova", time=now, data=data, **more)

    def _version(self) -> str:
        return f"{next(self._numbers):09d}"
