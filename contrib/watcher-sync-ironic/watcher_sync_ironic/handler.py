# SPDX-License-Identifier: Apache-2.0
"""Ironic's versioned notifications become changes of nodes, ports and portgroups.

A payload is an image of the object at its last save. So its version begins with the times of creation and of this save,
in seconds as Ironic has them. Events of one second are in the order of their publication, with two exceptions:

* The API publishes after the conductor's answer, when a conductor may have saved the node again. So its copy of what
  only conductors write yields to their events of the same second.
* A change of traits does not change ``updated_at``, so traits have the order of publication.

Ports disappear with their node, without events. Pure; for any thread. The contract is in
``doc/source/contributor/ironic-events.rst``.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, Final

from watcher_sync.events import Event
from watcher_sync.exceptions import NotYet
from watcher_sync.handlers import sortable
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Delete, Upsert, Version
from watcher_sync.model.scopes import EntityScope
from watcher_sync.model.view import View
from watcher_sync_ironic.entities import NODE, PORT, PORTGROUP
from watcher_sync_ironic.payloads import NodeData, Payload, PortData, PortgroupData, Resource

_COPY: Final = "0"
_SAVED: Final = "1"

_CONDUCTORS: Final = ("provision", "power")
"""The facets that conductors alone write."""

_IGNORED: Final = (
    "allocation", "chassis", "deploytemplate", "inspectionrule", "runbook", "volumeconnector", "volumetarget",
)  # fmt: skip


class IronicHandler(Handler):
    """The handler of ``ironic``."""

    events: ClassVar[Mapping[str, str | None]] = {
        "baremetal.node.create.end": "on_node",
        "baremetal.node.update.end": "on_node_by_api",
        "baremetal.node.maintenance_set.end": "on_node_by_api",
        "baremetal.node.delete.end": "on_node_deleted",
        "baremetal.node.provision_set.*": "on_node",
        "baremetal.node.power_set.*": "on_node",
        "baremetal.node.power_state_corrected.success": "on_node",
        "baremetal.node.console_*": "on_node",
        "baremetal.port.create.end": "on_port",
        "baremetal.port.update.end": "on_port",
        "baremetal.port.delete.end": "on_port_deleted",
        "baremetal.portgroup.create.end": "on_portgroup",
        "baremetal.portgroup.update.end": "on_portgroup",
        "baremetal.portgroup.delete.end": "on_portgroup_deleted",
        # What the API publishes before a request or after a failed one has values that nothing saved.
        **{
            f"baremetal.{name}.{action}.{status}": None
            for name, actions in {
                "node": ("create", "update", "delete", "maintenance_set"),
                "port": ("create", "update", "delete"),
                "portgroup": ("create", "update", "delete"),
            }.items()
            for action in actions
            for status in ("start", "error")
        },
        **dict.fromkeys(f"baremetal.{name}.*" for name in _IGNORED),
    }
    drivers: ClassVar[Collection[str]] = ("oslo_messaging", "rabbitmq", "rabbitmq_stream")

    def scopes(self, origin: str) -> list[EntityScope]:
        """All nodes, ports and portgroups."""
        return [EntityScope(kind=kind) for kind in (NODE, PORT, PORTGROUP)]

    def on_node(self, event: Event, view: View) -> Iterator[Change]:
        """The conductor saved the node, or created it."""
        return _node_saved(event, view, _SAVED)

    def on_node_by_api(self, event: Event, view: View) -> Iterator[Change]:
        """The conductor saved what a caller of the API asked for."""
        return _node_saved(event, view, _COPY)

    def on_node_deleted(self, event: Event, view: View) -> Iterator[Change]:
        """The node is gone, with its ports and portgroups."""
        node = event.read(Payload[NodeData]).data
        yield Delete(NODE, node.uuid, _last_version(node.created_at))
        if event.time is not None:
            yield from _dependents_deleted(view, node.uuid, event.time)

    def on_port(self, event: Event, view: View) -> Iterator[Change]:
        """A port was created or updated."""
        return _dependent_saved(PORT, event.read(Payload[PortData]).data, event, view)

    def on_port_deleted(self, event: Event, view: View) -> Iterator[Change]:
        """A port is gone."""
        port = event.read(Payload[PortData]).data
        yield Delete(PORT, port.uuid, _last_version(port.created_at))

    def on_portgroup(self, event: Event, view: View) -> Iterator[Change]:
        """A portgroup was created or updated."""
        return _dependent_saved(PORTGROUP, event.read(Payload[PortgroupData]).data, event, view)

    def on_portgroup_deleted(self, event: Event, view: View) -> Iterator[Change]:
        """A portgroup is gone."""
        portgroup = event.read(Payload[PortgroupData]).data
        yield Delete(PORTGROUP, portgroup.uuid, _last_version(portgroup.created_at))


def _node_saved(event: Event, view: View, rank: str) -> Iterator[Change]:
    """:param rank: of the facets that conductors alone write."""
    node = event.read(Payload[NodeData]).data
    known = view.get(NODE, node.uuid)
    if known is not None and getattr(known, "created_at", None) != node.created_at:
        yield from _dependents_deleted(view, node.uuid, node.created_at - datetime.timedelta(seconds=1))
    versions = dict.fromkeys(_CONDUCTORS, _version(node, event, rank))
    versions["traits"] = Version(f"{_seconds(node.created_at, 'created_at')}.{_publication(event)}")
    yield Upsert(NODE, node.uuid, _version(node, event), node.facets(), versions)


def _dependent_saved(kind: str, data: PortData | PortgroupData, event: Event, view: View) -> Iterator[Change]:
    """:raises NotYet: its node is unknown: it is deleted, or the event overtook that of its creation."""
    node = view.get(NODE, data.node_uuid)
    if node is None:
        raise NotYet(NODE, data.node_uuid)
    enrolled: datetime.datetime | None = getattr(node, "created_at", None)
    if enrolled is None or data.created_at >= enrolled:  # else it belonged to an older node with this uuid
        yield Upsert(kind, data.uuid, _version(data, event), data.facets())


def _dependents_deleted(view: View, node_id: str, until: datetime.datetime) -> Iterator[Change]:
    """Delete the ports and portgroups of a node that were created until a time."""
    for kind in (PORT, PORTGROUP):
        for each in view.by(kind, "node_id", node_id):
            created_at: datetime.datetime | None = getattr(each, "created_at", None)
            if created_at is not None and created_at <= until:
                yield Delete(kind, each.id, _last_version(created_at))


def _version(data: Resource, event: Event, rank: str = _SAVED) -> Version:
    saved = _seconds(data.updated_at, "updated_at") if data.updated_at is not None else sortable.NO_TIME[:11]
    return Version(f"{_seconds(data.created_at, 'created_at')}.{saved}.{rank}{_publication(event)}")


def _last_version(created_at: datetime.datetime) -> Version:
    """The version of a deletion: after all that the object with this time of creation ever had."""
    return Version(f"{_seconds(created_at, 'created_at')}.z")


def _publication(event: Event) -> str:
    published = sortable.digits(event.time, "timestamp") if event.time is not None else sortable.NO_TIME
    return f"{published}.{sortable.name(event.id)}"


def _seconds(time: datetime.datetime, field: str) -> str:
    return sortable.digits(time, f"payload.ironic_object.data.{field}")[:11]
