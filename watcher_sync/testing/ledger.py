# SPDX-License-Identifier: Apache-2.0
"""The simulated cloud's own record of what the model must contain after the published events.

A test that compares the model with itself proves nothing, so the ledger is a second, independent computation. It
never reads a notification. At each publication the simulator records what the event is about, in its own terms. The
ledger stores the newest value for each group of fields.

The rules are those of :mod:`watcher_sync.model.entities`: which event writes state, placement, lock and fault, what
a deletion leaves, and when an unregistered host exists.

Dates are aware UTC datetimes. One ledger belongs to one simulator and its thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

Version = tuple[str, str, str]
"""(updated_at or created_at, time of the envelope, message id): text that sorts as time does."""

Truth = dict[str, dict[str, dict[str, Any]]]
"""kind -> id -> field -> value."""

_UNKNOWN = (
    "hypervisor_hostname", "uuid", "vcpus", "memory_mb", "disk_gb", "reserved_vcpus", "reserved_memory_mb",
    "reserved_disk_gb", "vcpu_ratio", "memory_ratio", "disk_ratio",
)  # fmt: skip


class Account:
    """The events of one instance: per facet the newest version and the instance as it was then."""

    __slots__ = ("fault", "lock", "placement", "state")

    def __init__(self) -> None:
        self.state: tuple[Version, Mapping[str, Any]] | None = None
        self.placement: tuple[Version, Mapping[str, Any]] | None = None
        self.lock: tuple[Version, Mapping[str, Any]] | None = None
        self.fault: tuple[Version, tuple[str, str]] | None = None


class Ledger:
    """What the published events add up to."""

    def __init__(self) -> None:
        self._instances: dict[str, Account] = {}
        self._deleted: set[str] = set()
        self._services: dict[str, tuple[Version, Mapping[str, Any] | None]] = {}
        self._aggregates: dict[str, tuple[Version, Mapping[str, Any]]] = {}
        self._heard: dict[str, str] = {}

    def heard(self, publisher_id: str, timestamp: str) -> None:
        """A service published something; timestamp as the envelope has it."""
        host = publisher_id.partition(":")[2]
        if timestamp > self._heard.get(host, ""):
            self._heard[host] = timestamp

    def instance(
        self,
        version: Version,
        seen: Mapping[str, Any],
        *,
        fault: tuple[str, str] | None = None,
        error: bool = False,
        with_lock: bool = True,
    ) -> None:
        """An event that upserts an instance.

        :param seen: the instance as the event shows it; stored, so it must not change any more.
        :param fault: exception class and message of an error event.
        :param with_lock: whether the event's payload has the field ``locked``.
        """
        uuid = seen["uuid"]
        if uuid in self._deleted:
            return
        if seen["state"] == "deleted":
            self.delete(uuid)
            return
        account = self._instances.get(uuid)
        if account is None:
            account = self._instances[uuid] = Account()
        if account.state is None or version > account.state[0]:
            account.state = (version, seen)
        moves = not error and seen["task_state"] != "migrating"
        if moves and (account.placement is None or version > account.placement[0]):
            account.placement = (version, seen)
        if with_lock and (account.lock is None or version > account.lock[0]):
            account.lock = (version, seen)
        if error and fault and (account.fault is None or version > account.fault[0]):
            account.fault = (version, fault)

    def delete(self, uuid: str) -> None:
        """The instance is deleted; later events about it are ignored."""
        self._deleted.add(uuid)
        self._instances.pop(uuid, None)

    def service(self, version: Version, host: str, seen: Mapping[str, Any] | None) -> None:
        """A compute service is as seen, or deleted (None)."""
        known = self._services.get(host)
        if known is None or version > known[0]:
            self._services[host] = (version, seen)

    def aggregate(self, version: Version, uuid: str, seen: Mapping[str, Any] | None) -> None:
        """An aggregate is as seen, or deleted (None) for good."""
        if uuid in self._deleted:
            return
        if seen is None:
            self._deleted.add(uuid)
            self._aggregates.pop(uuid, None)
            return
        known = self._aggregates.get(uuid)
        if known is None or version > known[0]:
            self._aggregates[uuid] = (version, seen)

    def truth(self) -> Truth:
        """All kinds as they are after the events so far."""
        instances = {uuid: _instance(uuid, account) for uuid, account in self._instances.items()}
        placed = {row["host"] for row in instances.values() if row["host"] is not None}
        registered = {host for host, (_, seen) in self._services.items() if seen is not None}
        zones = self._zones()
        nodes = {host: self._node(host, zones) for host in placed | registered}
        aggregates = {
            uuid: {
                "id": uuid,
                "name": seen["name"],
                "hosts": sorted(seen["hosts"]),
                "availability_zone": seen["metadata"].get("availability_zone"),
            }
            for uuid, (_, seen) in self._aggregates.items()
        }
        return {"aggregate": aggregates, "compute_node": nodes, "instance": instances}

    def _zones(self) -> dict[str, str]:
        zones: dict[str, str] = {}
        for _, seen in sorted(self._aggregates.values(), key=lambda told: told[0]):
            zone = seen["metadata"].get("availability_zone")
            if zone is not None:
                zones.update(dict.fromkeys(seen["hosts"], zone))
        return zones

    def _node(self, host: str, zones: Mapping[str, str]) -> dict[str, Any]:
        told = self._services.get(host)
        seen = told[1] if told is not None else None
        zone = seen["availability_zone"] if seen is not None else None
        heard = self._heard.get(host)
        return {
            "id": host,
            "discovered": told is None,
            "gone": told is not None and seen is None,
            "status": None if seen is None else "disabled" if seen["disabled"] else "enabled",
            "disabled_reason": None if seen is None else seen["disabled_reason"],
            "forced_down": None if seen is None else seen["forced_down"],
            "state": "unknown",
            "service_zone": zone,
            "availability_zone": zones.get(host, zone),
            "last_heard": None if heard is None else _time(heard.replace(" ", "T") + "+00:00"),
            **dict.fromkeys(_UNKNOWN),
        }


def _instance(uuid: str, account: Account) -> dict[str, Any]:
    assert account.state is not None  # every upsert writes it
    seen = account.state[1]
    placement = account.placement[1] if account.placement is not None else {}
    lock = account.lock[1] if account.lock is not None else {}
    fault = account.fault[1] if account.fault is not None else (None, None)
    flavor = seen["flavor"]
    root = flavor["root_gb"] if seen["image_uuid"] else 0
    return {
        "id": uuid,
        "name": seen["display_name"],
        "host_name": seen["host_name"],
        "project_id": seen["tenant_id"],
        "user_id": seen["user_id"],
        "host": placement.get("host"),
        "node": placement.get("node"),
        "state": "soft-deleted" if seen["state"] == "soft-delete" else seen["state"],
        "task_state": seen["task_state"],
        "power_state": seen["power_state"],
        "locked": lock.get("locked"),
        "locked_reason": lock.get("locked_reason"),
        "vcpus": flavor["vcpus"],
        "memory_mb": flavor["memory_mb"],
        "disk_gb": root + flavor["ephemeral_gb"] + (flavor["swap"] + 1023) // 1024,
        "root_gb": flavor["root_gb"],
        "ephemeral_gb": flavor["ephemeral_gb"],
        "swap_mb": flavor["swap"],
        "flavor_id": flavor["flavorid"],
        "flavor_name": flavor["name"],
        "extra_specs": dict(flavor["extra_specs"]),
        "image_id": seen["image_uuid"] or None,
        "metadata": dict(seen["metadata"]),
        "key_name": seen["key_name"],
        "availability_zone": seen["availability_zone"],
        "ip_addresses": list(seen["ip_addresses"]),
        "created_at": _time(seen["created_at"]),
        "updated_at": _time(seen["updated_at"]),
        "launched_at": _time(seen["launched_at"]),
        "fault_type": fault[0],
        "fault_message": fault[1],
    }


def _time(text: str | None) -> datetime.datetime | None:
    return None if text is None else datetime.datetime.fromisoformat(text)
