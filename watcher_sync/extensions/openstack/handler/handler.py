# SPDX-License-Identifier: Apache-2.0
"""Nova's versioned notifications become changes of compute nodes, instances and aggregates.

Nova's events overtake each other, so no method depends on earlier events. Each change has a version
(:mod:`~watcher_sync.extensions.openstack.handler.ordering`), and an event of an instance writes only the facets that it
owns (:mod:`~watcher_sync.extensions.openstack.handler.ownership`).

* An instance is deleted only if the payload has state ``deleted`` and the time of it, or comes with
  ``instance.delete.end`` and one of both.
* Only events of a compute service write a compute_node.
* An event that its compute published is a sign of life of that host.

The methods read the view only to mark doubtful orders and to leave out copies that could not win. Pure; for any thread.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Final

from msgspec import UNSET, UnsetType

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.openstack.handler import aggregates, failures, ownership
from watcher_sync.extensions.openstack.handler import facets as payload_facets
from watcher_sync.extensions.openstack.handler.facets import Fields, shared, without_unset
from watcher_sync.extensions.openstack.handler.instances import instance_changes, is_row_deleted
from watcher_sync.extensions.openstack.handler.ordering import event_version, request_version
from watcher_sync.extensions.openstack.handler.ownership import (
    API,
    FAULT,
    PLACEMENT,
    POWER,
    REQUEST,
    RESIZE,
    STATE,
    TAGS,
    publishing_host,
    with_seen,
)
from watcher_sync.extensions.openstack.handler.payloads import (
    AGGREGATE,
    COMPUTE_TASK,
    DATA,
    INSTANCE,
    SERVICE,
    AggregateData,
    InstanceData,
    ServiceData,
    read,
)
from watcher_sync.extensions.openstack.kinds import Aggregate, ComputeNode, Instance
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Delete, Doubtful, Upsert
from watcher_sync.model.scopes import EntityScope
from watcher_sync.model.view import View

_AGGREGATE_UPDATED = ("create", "update_prop", "update_metadata")

_NOTHING: Final[frozenset[str]] = frozenset()
_PLACED: Final = frozenset({PLACEMENT})
_TAGGED: Final = frozenset({TAGS})
_UPDATE: Final = ownership.OWNED["instance.update"]
_UPDATE_UNPLACED: Final = _UPDATE - _PLACED


class NovaHandler(Handler):
    """The handler of ``nova``."""

    events: ClassVar[Mapping[str, str | None]] = {
        **ownership.dispatch_table(),
        "service.create": "on_service",
        "service.update": "on_service",
        "service.delete": "on_service_deleted",
        **{f"aggregate.{action}.end": "on_aggregate" for action in _AGGREGATE_UPDATED},
        "aggregate.add_host.end": "on_aggregate_host_added",
        "aggregate.remove_host.end": "on_aggregate_host_removed",
        "aggregate.delete.end": "on_aggregate_deleted",
        **dict.fromkeys(ownership.IGNORED),
        **dict.fromkeys(ownership.SIGNS_OF_LIFE, "on_heartbeat"),
        "compute.exception": "on_compute_exception",
    }
    drivers: ClassVar[Collection[str]] = ("oslo_messaging", "rabbitmq", "rabbitmq_stream")

    def scopes(self, origin: str) -> list[EntityScope]:
        """All hosts, servers and aggregates."""
        return [EntityScope(kind=kind) for kind in ("instance", "aggregate", "compute_node")]

    def on_heartbeat(self, event: Event, view: View) -> Iterable[Change]:
        """A notification whose payload the model ignores; it is a sign of life of its publisher."""
        return with_seen(event)

    def on_compute_exception(self, event: Event, view: View) -> Iterable[Change]:
        """A failure without the id of an instance.

        It is that of the instance whose action has its request. If there is none, the instances of the host in the
        middle of a task are doubtful. The host remembers the failure for an action that begins later.

        :raises InvalidEvent: naming the field that is wrong.
        """
        if (host := publishing_host(event)) is None:
            return ()
        request_id = event.actor.request_id if event.actor is not None else None
        instances = [i.id for i in view.by("instance", "request_id", request_id)] if request_id is not None else []
        failure = failures.failure_of(event)
        changes: list[Change] = list(failures.remembered(view, host, failure)) if failure is not None else []
        if failure is not None:
            changes += [change for instance_id in instances for change in failures.failed(instance_id, failure)]
        elif instances:
            changes += [Doubtful("instance", instance_id) for instance_id in instances]
        if not instances:
            found = [i for i in view.by("instance", "host", host) if isinstance(i, Instance)]
            changes += [Doubtful("instance", instance.id) for instance in found if _is_running_a_task(instance)]
        return with_seen(event, *changes)

    def on_instance(self, event: Event, view: View) -> Iterable[Change]:
        """The facets that this event type owns, and copies of the others.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        facets = ownership.INSTANCE_EVENTS[event.type].facets
        more = {facet: fields for facet, fields in payload_facets.ENDED.items() if facet in facets}
        return instance_changes(event, view, data, ownership.OWNED[event.type], more)

    def on_instance_error(self, event: Event, view: View) -> Iterable[Change]:
        """A failure, with its fault. Only a failed build that left its host tells where the instance is: nowhere.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        owned = ownership.OWNED.get(event.type, ownership.OTHER_ERROR.owned)
        if data.host is not None:
            owned -= _PLACED
        fault = payload_facets.fault(data.fault)
        return instance_changes(event, view, data, owned, {FAULT: fault} if fault else {}, failed=True)

    def on_instance_update(self, event: Event, view: View) -> Iterable[Change]:
        """A save of a conductor or an API.

        The API publishes new tags without a save. A cross-cell resize saves the hidden record of the source last. A
        migrating instance has its old host. An offloaded one may still have its host in the first of two saves. An
        error ends a resize: Nova has freed the allocation of the other host.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        owned = _UPDATE
        more: dict[str, Fields] = {}
        task, change = data.task_state, data.state_update
        if event.origin.startswith(API):
            owned = _TAGGED
        elif task == "migrating":
            owned = _UPDATE_UNPLACED
        elif task == "resize_migrated" and change and change.data.old_task_state == task:
            owned = _NOTHING
        elif task is None and data.state == "shelved_offloaded":
            owned = _UPDATE_UNPLACED
            more[PLACEMENT] = payload_facets.NO_HOST
        elif data.state == "error":
            more[RESIZE] = payload_facets.NO_SOURCE
        return instance_changes(event, view, data, owned, more)

    def on_instance_rebuilt(self, event: Event, view: View) -> Iterable[Change]:
        """A rebuild runs where the instance is afterwards. In an evacuation the payload has the dead host.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        owned = ownership.OWNED[event.type]
        host = publishing_host(event)
        if host is None or host == data.host:
            return instance_changes(event, view, data, owned, {})
        node = view.get("compute_node", host)
        hypervisor = node.hypervisor_hostname if isinstance(node, ComputeNode) else None
        # All fields of the facet, because a field that an event leaves out keeps what came first.
        placement = {**(payload_facets.placement(data, None) or {}), "host": host, "node": hypervisor or host}
        return instance_changes(event, view, data, owned - {PLACEMENT}, {PLACEMENT: placement}, doubt=True)

    def on_instance_resized(self, event: Event, view: View) -> Iterable[Change]:
        """The source gave the instance to the destination, and keeps its allocation. To another cell it gives a copy.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        source = publishing_host(event)
        if source is None:
            return instance_changes(event, view, data, _NOTHING, {})
        more = {RESIZE: {"source_host": source}}
        if data.host == source:
            return instance_changes(event, view, data, _NOTHING, more)
        return _begun(event, view, data, _PLACED, more)

    def on_instance_resize_finishing(self, event: Event, view: View) -> Iterable[Change]:
        """The destination begins, and has itself as the host, but for a resize to another cell.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        if data.host != publishing_host(event):
            return instance_changes(event, view, data, _NOTHING, {})
        return _begun(event, view, data, _PLACED, {})

    def on_instance_started(self, event: Event, view: View) -> Iterable[Change]:
        """A compute begins an action whose failure names no instance.

        :raises InvalidEvent: naming the field that is wrong.
        """
        return _begun(event, view, read(event.data, INSTANCE), _NOTHING, {})

    def on_instance_exists(self, event: Event, view: View) -> Iterable[Change]:
        """A copy. The destination of a resize publishes it when it begins the revert, and nothing else.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        if data.task_state == "resize_reverting":
            return _begun(event, view, data, _NOTHING, {})
        return instance_changes(event, view, data, _NOTHING, {})

    def on_instance_migration_aborted(self, event: Event, view: View) -> Iterable[Change]:
        """A migration in the queue ends at once; a running one ends later, and says so itself.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        owned = _NOTHING if data.task_state == "migrating" else ownership.OWNED[event.type]
        return instance_changes(event, view, data, owned, {})

    def on_instance_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """The instance exists no more, known or not; its deletion failed if neither its state nor a time says so.

        A soft-deleted one has a time, too.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, INSTANCE)
        if data.state == "deleted" or (data.state != "soft-delete" and is_row_deleted(data)):
            return with_seen(event, Delete("instance", data.id, event_version(event)))
        return instance_changes(event, view, data, ownership.OWNED[event.type], {}, doubt=True)

    def on_compute_task_error(self, event: Event, view: View) -> Iterable[Change]:
        """The conductor gave up: the payload has the state of the instance, and the specification of the request.

        A server that was not built never ran. No other event may tell its power, flavor and owner, so those of its
        request count until one does. The request of a resize has the new flavor, and tells nothing of the instance.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, COMPUTE_TASK)
        stated = data.state
        state = without_unset({"state": shared(payload_facets.STATES.get(stated, stated) if stated else stated)})
        facets: dict[str, Fields] = {STATE: {**state, "task_state": None}}
        if fields := payload_facets.fault(data.fault, "reason"):
            facets[FAULT] = fields
        version = event_version(event, stated)
        request: dict[str, Fields] = {}
        if event.type == "compute_task.build_instances.error":
            request = {POWER: {"power_state": "pending", "updated_at": None}, **payload_facets.requested(data)}
        versions = dict.fromkeys(request, request_version(version)) or None
        change = Upsert("instance", data.id, version, {**facets, **request}, versions)
        return (change, Doubtful("instance", data.id))

    def on_service(self, event: Event, view: View) -> Iterable[Change]:
        """What a compute service tells of its host. Other services tell nothing of it.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, SERVICE)
        if data.binary != "nova-compute":
            return ()
        fields = {
            "status": UNSET if data.disabled is UNSET else "disabled" if data.disabled else "enabled",
            "disabled_reason": data.disabled_reason,
            "forced_down": data.forced_down,
        }
        # The payload's zone is always null: only Nova's API knows the zone of a service.
        host, version = _host(data), event_version(event)
        facets = {"service": without_unset(fields)}
        if event.type != "service.create":
            return (Upsert("compute_node", host, version, facets),)
        memory = failures.after_creation(view, host, version)
        if memory is None:
            return with_seen(event, Upsert("compute_node", host, version, facets))
        facets[failures.FACET], since = memory
        return with_seen(event, Upsert("compute_node", host, version, facets, {failures.FACET: since}))

    def on_service_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """A compute service was taken out of Nova.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, SERVICE)
        if data.binary != "nova-compute":
            return ()
        return (Delete("compute_node", _host(data), event_version(event)),)

    def on_aggregate(self, event: Event, view: View) -> Iterable[Change]:
        """An aggregate with its hosts and the zone that it puts them in.

        :raises InvalidEvent: naming the field that is wrong.
        """
        return (_listed_aggregate(event, view, read(event.data, AGGREGATE)),)

    def on_aggregate_host_added(self, event: Event, view: View) -> Iterable[Change]:
        """An aggregate has one host more, the last one of the list. Others of the list may be wrong, or missing.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, AGGREGATE)
        version, known = event_version(event), _known_aggregate(view, data.id)
        facets: dict[str, Fields] = {"state": _aggregate(data)}
        hosts = data.hosts or []
        members = aggregates.joined(known, sys.intern(hosts[-1]), version) if hosts else None
        if members is None:
            return (Upsert("aggregate", data.id, version, facets),)
        facets[aggregates.HOSTS], since = members
        change = Upsert("aggregate", data.id, version, facets, {aggregates.HOSTS: since})
        if known is not None and facets[aggregates.HOSTS]["hosts"] == sorted({*(known.hosts or ()), *hosts}):
            return (change,)
        return (change, Doubtful("aggregate", data.id))

    def on_aggregate_host_removed(self, event: Event, view: View) -> Iterable[Change]:
        """An aggregate has one host less; the payload does not say which one.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, AGGREGATE)
        return (_listed_aggregate(event, view, data), Doubtful("aggregate", data.id))

    def on_aggregate_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """An aggregate exists no more.

        :raises InvalidEvent: naming the field that is wrong.
        """
        data = read(event.data, AGGREGATE)
        return (Delete("aggregate", data.id, event_version(event)),)


def _begun(
    event: Event, view: View, data: InstanceData, owned: frozenset[str], more: dict[str, Fields]
) -> tuple[Change, ...]:
    """The change of an instance with an action that begins, and the failure of that action if it came before."""
    if not data.request_id:
        return instance_changes(event, view, data, owned, more)
    more[REQUEST] = {"request_id": data.request_id}
    changes = instance_changes(event, view, data, owned, more)
    failure = failures.remembered_failure(view, {publishing_host(event), data.host or None}, data.request_id)
    return changes if failure is None else (*changes, *failures.failed(data.id, failure))


def _is_running_a_task(instance: Instance) -> bool:
    return instance.task_state is not None or (instance.source_host is not None and instance.state != "resized")


# Fields of services and aggregates


def _host(data: ServiceData) -> str:
    if data.host is None:
        raise InvalidEvent(f"{DATA}.host: Expected str, got null")
    return sys.intern(data.host)


def _aggregate(data: AggregateData) -> Fields:
    return without_unset(
        {
            "name": data.name,
            "number": data.number,
            "metadata": data.metadata,
            "availability_zone": _zone(data),
        }
    )


def _known_aggregate(view: View, aggregate_id: str) -> Aggregate | None:
    known = view.get("aggregate", aggregate_id)
    return known if isinstance(known, Aggregate) else None


def _listed_aggregate(event: Event, view: View, data: AggregateData) -> Upsert:
    """An aggregate of which the payload lists all hosts."""
    version = event_version(event)
    facets: dict[str, Fields] = {"state": _aggregate(data)}
    if not isinstance(data.hosts, list):
        return Upsert("aggregate", data.id, version, facets)
    hosts = {sys.intern(host) for host in data.hosts}
    facets[aggregates.HOSTS], since = aggregates.listed(_known_aggregate(view, data.id), hosts, version)
    return Upsert("aggregate", data.id, version, facets, {aggregates.HOSTS: since})


def _zone(data: AggregateData) -> str | UnsetType | None:
    if data.metadata is None or data.metadata is UNSET:
        return data.metadata
    zone: str | None = shared(data.metadata.get("availability_zone"))
    if zone is not None and len(zone) > 255:
        raise InvalidEvent(f"{DATA}.metadata.availability_zone: Expected str of length <= 255")
    return zone
