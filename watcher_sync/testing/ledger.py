# SPDX-License-Identifier: Apache-2.0
"""The simulated cloud's own record of what the model must contain.

A test that compares the model with itself proves nothing, so the ledger is a second, independent computation.

:meth:`Ledger.truth` is what the simulated database holds: what the model must contain after a reconciliation.
:meth:`Ledger.reported` is what notifications can report of it. An entity that no notification named is not in it. A
field whose last change no notification reported has the value :data:`ANYTHING`, which equals every value. Only
reconciliation can know such a field.

An event reports only the facets that it owns. The events that save nothing show a stale copy, and own little.

Dates are aware UTC datetimes. One ledger belongs to one simulator and its thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from watcher_sync.testing.nova.ownership import FACETS, FIRST, OWNED, SIGNS_OF_LIFE, placed_by, recovered

if TYPE_CHECKING:
    from watcher_sync.testing.nova.database import Database, Host, Server

Truth = dict[str, dict[str, dict[str, Any]]]
"""kind -> id -> field -> value."""


class _Anything:
    """Equal to every value."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "ANYTHING"

    def __reduce__(self) -> str:
        return "ANYTHING"


ANYTHING: Final = _Anything()
"""The value of a field that the ledger does not decide."""

_BY_API = ("hypervisor_hostname", "hypervisor_type", "uuid")
_BY_MODEL = (
    "liveness", "liveness_reason", "liveness_since", "inventories", "capacity_source", "failures", "last_heard",
)  # fmt: skip
_CAPACITY = (
    "vcpus", "memory_mb", "disk_gb", "reserved_vcpus", "reserved_memory_mb", "reserved_disk_gb", "vcpu_ratio",
    "memory_ratio", "disk_ratio",
)  # fmt: skip


class Account:
    """The events of one instance: per facet the record that the last event with this facet showed."""

    __slots__ = ("doubtful", "fault", "latest", "shown", "source")

    def __init__(self) -> None:
        self.shown: dict[str, Mapping[str, Any]] = {}
        """Facet -> record."""
        self.fault: tuple[str, str] | None = None
        """Of the last error event, until an event showed that the instance recovered."""
        self.source: str | None = None
        """The host that keeps its allocation until a resize is confirmed or reverted."""
        self.latest = ""
        """The latest envelope time of its events."""
        self.doubtful = False
        """Whether clocks contradict the order of its events."""

    def note(self, timestamp: str, owned: str) -> None:
        """An event was published; a later one that tells the state ends the doubt."""
        self.doubtful = timestamp < self.latest or (self.doubtful and "state" not in owned)
        self.latest = max(self.latest, timestamp)


class Ledger:
    """What the database holds, and what the published events reported of it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._accounts: dict[str, Account] = {}
        self._services: dict[str, Mapping[str, Any] | None] = {}
        self._aggregates: dict[str, dict[str, Any]] = {}
        self._last_sign: dict[str, str] = {}

    # What the control plane records

    def seen(self, event_type: str, publisher_id: str, timestamp: str) -> None:
        """Something was published; a sign of life if computes publish it themselves."""
        binary, _, host = publisher_id.partition(":")
        if binary != "nova-compute" or event_type == "instance.update" or not event_type.startswith(SIGNS_OF_LIFE):
            return
        if timestamp > self._last_sign.get(host, ""):
            self._last_sign[host] = timestamp

    def published(
        self,
        event_type: str,
        record: Mapping[str, Any],
        timestamp: str,
        *,
        fault: tuple[str, str] | None = None,
        legacy: bool = False,
        on: Host | None = None,
        source: Host | None = None,
    ) -> None:
        """An instance event.

        :param record: the copy that the event shows; stored, so it must not change any more.
        :param legacy: whether the payload lacks the field ``locked``.
        :param on: the host that the publisher reports instead of the payload's.
        :param source: the host that the instance leaves by a resize.
        """
        owned = OWNED.get(event_type)
        if owned is None:
            return
        uuid = record["uuid"]
        if record["state"] == "deleted" and record["deleted_at"] is not None:
            self._accounts.pop(uuid, None)
            return
        account = self._accounts.get(uuid)
        if account is None:
            if uuid in self._database.deleted:
                return
            account = self._accounts[uuid] = Account()
            more = " tags" if "tags" in owned else ""
            owned = (FIRST.removesuffix(" lock") if legacy else FIRST) + more
        account.note(timestamp, owned)
        shown = account.shown
        for facet in owned.split():
            if facet == "source":
                account.source = None if source is None else source.name
            elif facet == "state":
                shown["state"] = shown["power"] = record
            elif facet != "placement":
                shown[facet] = record
            elif (placed := placed_by(event_type, record)) is not None:
                shown[facet] = placed if on is None else {**placed, "host": on.name, "node": None}
        if event_type == "instance.update" and record["state"] == "error":
            account.source = None
        if fault is not None:
            account.fault = fault
        elif "state" in owned and recovered(record):
            account.fault = None

    def task_failed(
        self, record: Mapping[str, Any], fault: tuple[str, str], timestamp: str, *, never_ran: bool
    ) -> None:
        """A conductor gave up; its event shows the state and the fault only."""
        account = self._accounts.setdefault(record["uuid"], Account())
        account.note(timestamp, "state")
        account.shown["state"] = record
        if never_ran:
            account.shown.setdefault("power", record)
        account.fault = fault

    def service(self, host: Host, reported: Mapping[str, Any] | None) -> None:
        """A compute service is as the event shows it, or deleted (None)."""
        self._services[host.name] = reported

    def aggregate(self, event_type: str, reported: Mapping[str, Any]) -> None:
        """An aggregate changed. Its hosts are as the event shows them, where the database agrees."""
        uuid, action = reported["uuid"], event_type.removeprefix("aggregate.").removesuffix(".end")
        if action == "delete":
            self._aggregates.pop(uuid, None)
            return
        self._aggregates[uuid] = {**reported}

    # What tests compare

    def doubtful(self) -> set[str]:
        """The instances whose last events' clocks contradict their order."""
        return {uuid for uuid, account in self._accounts.items() if account.doubtful}

    def truth(self) -> Truth:
        """All kinds as the database holds them."""
        aggregates = {record["uuid"]: _aggregate(record) for record in self._database.aggregates}
        hosts = {host.name: _node(host) for host in self._database.hosts if host.exists or host.count}
        instances = {server.uuid: _instance(server) for server in self._database.servers}
        return {"aggregate": aggregates, "compute_node": hosts, "instance": instances}

    def reported(self) -> Truth:
        """All kinds as notifications can report them; :data:`ANYTHING` where only reconciliation can know."""
        truth = self.truth()
        instances = {
            uuid: _reported(row, account)
            for uuid, account in self._accounts.items()
            if (row := truth["instance"].get(uuid)) is not None
        }
        accounts = self._accounts.values()
        placed = {account.shown["placement"]["host"] for account in accounts if "placement" in account.shown}
        placed |= {account.source for account in accounts}
        registered = {host for host, seen in self._services.items() if seen is not None}
        zones = {
            host: zone
            for record in self._aggregates.values()
            for host in record["hosts"]
            if (zone := record["metadata"].get("availability_zone")) is not None
        }
        nodes = {host: self._reported_node(host, zones) for host in (placed | registered) - {None}}
        aggregates = {uuid: _aggregate(record) for uuid, record in self._aggregates.items()}
        for uuid, row in aggregates.items():
            if uuid in truth["aggregate"] and row["hosts"] != truth["aggregate"][uuid]["hosts"]:
                row["hosts"] = ANYTHING
        return {"aggregate": aggregates, "compute_node": nodes, "instance": instances}

    def _reported_node(self, host: str, zones: Mapping[str, str]) -> dict[str, Any]:
        seen = self._services.get(host)
        last_heard = self._last_sign.get(host)
        return {
            "id": host,
            "discovered": host not in self._services,
            "gone": host in self._services and seen is None,
            "status": None if seen is None else "disabled" if seen["disabled"] else "enabled",
            "disabled_reason": None if seen is None else seen["disabled_reason"],
            "forced_down": None if seen is None else seen["forced_down"],
            "state": "down" if seen is not None and seen["forced_down"] else "unknown",
            "service_zone": None,
            "availability_zone": zones.get(host),
            **dict.fromkeys((*_BY_API, *_BY_MODEL, *_CAPACITY)),
            "failures": ANYTHING,
            "last_heard": None if last_heard is None else _time(last_heard.replace(" ", "T") + "+00:00"),
        }


def _aggregate(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": record["uuid"],
        "name": record["name"],
        "number": record["id"],
        "metadata": dict(record["metadata"]),
        "hosts": sorted(record["hosts"]),
        "joins": ANYTHING,
        "availability_zone": record["metadata"].get("availability_zone"),
    }


def _node(host: Host) -> dict[str, Any]:
    """A host as os-services, os-hypervisors and Placement show it; ``gone`` when servers outlived its service."""
    known = host.exists
    return {
        "id": host.name,
        "discovered": False if known else ANYTHING,
        "gone": not known,
        "status": host.status if known else None,
        "disabled_reason": host.disabled_reason if known else None,
        "forced_down": host.forced_down if known else None,
        "state": host.state if known else ANYTHING,
        "service_zone": ANYTHING,
        "availability_zone": host.availability_zone if known else ANYTHING,
        "hypervisor_hostname": host.node if known else ANYTHING,
        "hypervisor_type": host.hypervisor_type if known else ANYTHING,
        "uuid": host.uuid if known else ANYTHING,
        **(host.capacity._asdict() if known else dict.fromkeys(_CAPACITY, ANYTHING)),
        **dict.fromkeys(_BY_MODEL, ANYTHING),
    }


def _instance(server: Server) -> dict[str, Any]:
    """A server as its API shows it, with the fields of an admin."""
    record = server.record
    flavor = record["flavor"]
    root = flavor["root_gb"] if record["image_uuid"] else 0
    fault = server.fault if record["state"] == "error" else None
    return {
        "id": record["uuid"],
        "name": record["display_name"],
        "host_name": record["host_name"],
        "project_id": record["tenant_id"],
        "user_id": record["user_id"],
        "host": record["host"],
        "node": record["node"],
        "source_host": server.source_host.name if server.source_host is not None else None,
        "state": _STATES.get(record["state"], record["state"]),
        "task_state": record["task_state"],
        "power_state": record["power_state"],
        "locked": record["locked"],
        "locked_reason": record["locked_reason"],
        "vcpus": flavor["vcpus"],
        "memory_mb": flavor["memory_mb"],
        "disk_gb": root + flavor["ephemeral_gb"] + (flavor["swap"] + 1023) // 1024,
        "root_gb": flavor["root_gb"],
        "ephemeral_gb": flavor["ephemeral_gb"],
        "swap_mb": flavor["swap"],
        "flavor_id": flavor["flavorid"],
        "flavor_name": flavor["name"],
        "extra_specs": dict(flavor["extra_specs"]),
        "image_id": record["image_uuid"] or None,
        "metadata": dict(record["metadata"]),
        "key_name": record["key_name"],
        "tags": [],
        "server_group": None,
        "pinned_zone": server.pinned_zone,
        "availability_zone": record["availability_zone"] if server.host is None else server.host.availability_zone,
        "ip_addresses": list(record["ip_addresses"]),
        "created_at": _time(record["created_at"]),
        "updated_at": _time(record["updated_at"]),
        "launched_at": _time(record["launched_at"]),
        "fault_type": None if fault is None else fault.type,
        "fault_message": None if fault is None else fault.message,
        "request_id": ANYTHING,
    }


_STATES = {"soft-delete": "soft-deleted"}
"""Nova's vm_state -> the model's, where they differ."""

_OF_FLAVOR = {
    "vcpus": "vcpus", "memory_mb": "memory_mb", "root_gb": "root_gb", "ephemeral_gb": "ephemeral_gb",
    "swap_mb": "swap", "flavor_id": "flavorid", "flavor_name": "name", "extra_specs": "extra_specs",
}  # fmt: skip
_OF_RECORD = {"name": "display_name", "project_id": "tenant_id", "image_id": "image_uuid"}
"""Field of the model -> field of the record or of its flavor."""
_NOTIFIED = (
    *_OF_FLAVOR, *_OF_RECORD, "disk_gb", "host_name", "user_id", "host", "node", "state", "task_state", "power_state",
    "locked", "locked_reason", "metadata", "key_name", "availability_zone", "ip_addresses", "created_at", "launched_at",
)  # fmt: skip
"""What payloads show of an instance."""


def _reported(truth: dict[str, Any], account: Account) -> dict[str, Any]:
    """The truth, with :data:`ANYTHING` for each field that the events show otherwise or not at all."""
    row = dict(truth)
    for field in _NOTIFIED:
        shown = account.shown.get(FACETS.get(field, "attributes"))
        if shown is None or _value(field, shown) != row[field]:
            row[field] = ANYTHING
    row["updated_at"] = ANYTHING
    row["pinned_zone"] = None
    row["tags"] = row["tags"] if "tags" in account.shown else ANYTHING
    if account.source != truth["source_host"]:
        row["source_host"] = ANYTHING
    fault = (truth["fault_type"], truth["fault_message"])
    if (account.fault or (None, None)) != fault:
        row["fault_type"] = row["fault_message"] = ANYTHING
    return row


def _value(field: str, record: Mapping[str, Any]) -> Any:
    flavor = record["flavor"]
    if field == "state":
        return _STATES.get(record["state"], record["state"])
    if field == "disk_gb":
        root = flavor["root_gb"] if record["image_uuid"] else 0
        return root + flavor["ephemeral_gb"] + (flavor["swap"] + 1023) // 1024
    if field in _OF_FLAVOR:
        return flavor[_OF_FLAVOR[field]]
    value = record[_OF_RECORD.get(field, field)]
    if field.endswith("_at"):
        return _time(value)
    return value or None if field == "image_id" else value


def _time(text: str | None) -> datetime.datetime | None:
    return None if text is None else datetime.datetime.fromisoformat(text)
