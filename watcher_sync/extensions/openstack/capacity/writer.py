# SPDX-License-Identifier: Apache-2.0
"""Decides which provider's value counts, writes the capacity of hosts, and finds the values that cannot be stored.

The providers have an order. Each field, and each resource class of ``inventories``, has the value of the first
provider that reports it. What a provider wrote before the start of the process counts until it reports again. Its
name is in ``capacity_source`` of the host.

A portion of hosts is one transaction. If the model or the database refuses a value, the portion is bisected until the
host is alone. Then each field of this host is tried in a transaction that is rolled back. The fields that are refused
keep their stored value, and the others are written.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, RowRefused
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Change, Outcome, Upsert, Version
from watcher_sync.model.view import View
from watcher_sync.reconcile.capacity_provider import HostCapacity
from watcher_sync.storage.database.database import retried

SCALARS: Final = (
    "vcpus",
    "memory_mb",
    "disk_gb",
    "reserved_vcpus",
    "reserved_memory_mb",
    "reserved_disk_gb",
    "vcpu_ratio",
    "memory_ratio",
    "disk_ratio",
)

Reports = Mapping[str, Mapping[str, HostCapacity | None]]
"""Provider -> host -> what it reported last. A provider that has not reported yet is absent, and None is a host for
which the stored values count."""


def merged(node: ComputeNode, order: Sequence[str], reports: Reports) -> dict[str, Any]:
    """Return the fields of the facet ``capacity`` of one host.

    :param order: the providers by precedence.
    """
    before = sources_of(node)
    values: dict[str, Any] = dict.fromkeys(SCALARS)
    inventories: dict[str, Any] = {}
    sources = []
    for name, reported in _reported(node, order, before, reports):
        contributes = False
        for field in SCALARS:
            if values[field] is None and reported[field] is not None:
                values[field] = reported[field]
                contributes = True
        for resource_class, inventory in (reported["inventories"] or {}).items():
            if resource_class not in inventories:
                inventories[resource_class] = inventory
                contributes = True
        if contributes:
            sources.append(name)
    values["inventories"] = inventories or None
    values["capacity_source"] = ",".join(sources) or None
    return values


def sources_of(node: ComputeNode) -> list[str]:
    """Return the providers that the stored fields of a host come from."""
    return node.capacity_source.split(",") if node.capacity_source else []


def _reported(
    node: ComputeNode, order: Sequence[str], before: Sequence[str], reports: Reports
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each provider reports of the host, by precedence."""
    stored = {field: getattr(node, field) for field in (*SCALARS, "inventories")}
    for name in order:
        found = reports.get(name, {}).get(node.id)
        if found is not None:
            yield name, _plain(found)
        elif name in before and (name not in reports or node.id in reports[name]):
            yield name, stored


def _plain(reported: HostCapacity) -> dict[str, Any]:
    found = {field: getattr(reported, field) for field in SCALARS}
    inventories = reported.inventories or {}
    return {**found, "inventories": {name: msgspec.to_builtins(one) for name, one in inventories.items()}}


_KIND: Final = "compute_node"
_MAX_HOSTS: Final = 200
"""Hosts of one transaction."""
_REFUSALS: Final = (InvalidEvent, RowRefused)

Fields = Callable[[ComputeNode], dict[str, Any]]
"""Returns the fields of a host as it is in the transaction."""


class WrittenCapacity(msgspec.Struct, kw_only=True):
    """The result of the writes."""

    written: int = 0
    """Hosts that changed."""
    refused: dict[str, str] = {}
    """``compute_node <host>`` -> its refused fields, and why."""


class CapacityWriter:
    """Writes what one provider reported at one time. For one thread."""

    def __init__(self, writes: DirectWriter, fields: Fields, *, source: str, at: datetime.datetime) -> None:
        """:param source: recorded as the source of the changes."""
        self._writes = writes
        self._fields = fields
        self._source = source
        self._at = at
        self._version = Version(sortable.digits(at, "time"))
        self._result = WrittenCapacity()

    def write(self, hosts: Sequence[str]) -> WrittenCapacity:
        """Write hosts, in one transaction per 200.

        :raises DatabaseUnavailable: the database is unavailable; earlier transactions are written.
        """
        for begin in range(0, len(hosts), _MAX_HOSTS):
            self._write_portion(hosts[begin : begin + _MAX_HOSTS])
        return self._result

    def _write_portion(self, hosts: Sequence[str]) -> None:
        try:
            self._commit(hosts)
        except _REFUSALS as exc:
            if len(hosts) == 1:
                self._write_rest(hosts[0], exc)
                return
            middle = len(hosts) // 2
            self._write_portion(hosts[:middle])
            self._write_portion(hosts[middle:])

    def _write_rest(self, host: str, error: Exception) -> None:
        """Write the fields of a host that are not refused.

        :param error: why all of them together are refused.
        """
        names = [name for name in ComputeNode.__struct_fields__ if name in self._names(host)]
        refused = {name: why for name in names if (why := self._refusal_of(host, name))}
        rest = [name for name in names if name not in refused]
        if refused and rest:
            try:
                self._commit([host], only=rest)
            except _REFUSALS as exc:
                error, refused = exc, {}
        shown = refused or {", ".join(names): str(error)}
        self._result.refused[f"{_KIND} {host}"] = "; ".join(f"{name}: {why}" for name, why in shown.items())

    def _names(self, host: str) -> Collection[str]:
        with self._writes.begin() as cycle:
            node = cycle.view.get(_KIND, host)
            return self._fields(node) if isinstance(node, ComputeNode) else ()

    def _refusal_of(self, host: str, name: str) -> str:
        """Try one field in a transaction that is rolled back. Returns why it is refused; empty if it is not."""
        try:
            self._commit([host], only=[name], is_trial=True)
        except _REFUSALS as exc:
            return str(exc)
        except _Trial:
            pass
        return ""

    @retried
    def _commit(self, hosts: Sequence[str], *, only: Collection[str] | None = None, is_trial: bool = False) -> None:
        """Write hosts in one transaction.

        :param only: the fields to write; None: all.
        :param is_trial: roll it back.
        :raises InvalidEvent, RowRefused: a value is refused; nothing is written.
        """
        with self._writes.begin() as cycle:
            outcomes = cycle.write_all(
                [(self._event(host), functools.partial(self._change, host, only)) for host in hosts]
            )
            if is_trial:
                raise _Trial
        self._result.written += outcomes.count(Outcome.APPLIED)

    def _change(self, host: str, only: Collection[str] | None, view: View) -> Iterable[Change]:
        node = view.get(_KIND, host)
        if isinstance(node, ComputeNode) and not node.gone:
            fields = {name: value for name, value in self._fields(node).items() if only is None or name in only}
            yield Upsert(_KIND, host, self._version, {"capacity": fields})

    def _event(self, host: str) -> Event:
        return Event(
            id=f"{host}/capacity/{self._at.isoformat()}",
            type="compute_node.capacity",
            source=self._source,
            time=self._at,
        )


class _Trial(Exception):
    """Rolls a trial back."""
