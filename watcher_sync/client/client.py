# SPDX-License-Identifier: Apache-2.0
"""Every operation of the API as a method, with typed answers.

A list is an iterator that requests one page after the other. A list is sorted by id, unless the caller chooses another
field. Sorted by id, it contains exactly once every entity that exists during the whole listing.

A client is used by one thread at a time. The methods raise every error of the network as a
:class:`~watcher_sync.client.errors.ClientError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from keystoneauth1 import adapter, noauth, session

from watcher_sync.client import models
from watcher_sync.client.changes import DEFAULT_WAIT_SECONDS, ChangeStream
from watcher_sync.client.entities import EntityCalls
from watcher_sync.client.models import Entity
from watcher_sync.client.paging import Reading, converted
from watcher_sync.client.subscriptions import SubscriptionCalls, WatchTopicCalls
from watcher_sync.client.transport import Transport, segment
from watcher_sync.client.vnf_instances import VNF_INSTANCES, VnfCalls


class MonitoringCalls(Reading):
    """The part of :class:`~watcher_sync.client.client.Client` for engines, sources and stored events."""

    def sources(self) -> list[models.Source]:
        """All sources of all engines."""
        return converted(self._get("/v1/sources", dict[str, Any]).get("sources"), list[models.Source])

    def engines(self) -> list[models.Engine]:
        """The engines of all groups, the leader of each group first."""
        return converted(self._get("/v1/engines", dict[str, Any]).get("engines"), list[models.Engine])

    def outlets(self) -> list[models.LogOutlet]:
        """The outlets that publish on a log, by name."""
        return converted(self._get("/v1/outlets", dict[str, Any]).get("outlets"), list[models.LogOutlet])

    def outlet(self, name: str) -> models.LogOutlet:
        """One outlet.

        :raises NotFound: when there is none of this name.
        """
        return self._get(f"/v1/outlets/{segment(name)}", models.LogOutlet)

    def inventories(self) -> list[models.Inventory]:
        """The inventories of the live systems that are compared as a whole."""
        return converted(self._get("/v1/sources", dict[str, Any]).get("inventories"), list[models.Inventory])

    def source(self, name: str) -> models.Source:
        """One source.

        :raises NotFound: when there is none of this name.
        """
        return self._get(f"/v1/sources/{segment(name)}", models.Source)

    def parked(self, *, limit: int | None = None, marker: str | None = None) -> Iterator[models.ParkedEvent]:
        """Events that wait for an entity which does not exist yet, without their bodies."""
        return self._list("/v1/parked", "parked", models.ParkedEvent, {}, limit, marker)

    def quarantine(self, *, limit: int | None = None, marker: str | None = None) -> Iterator[models.Quarantined]:
        """Events that could not be decoded or applied, without their bodies."""
        return self._list("/v1/quarantine", "quarantine", models.Quarantined, {}, limit, marker)

    def quarantined(self, number: int) -> models.QuarantinedWhole:
        """One quarantined event with its body.

        :raises NotFound: when there is none with this id.
        """
        return self._get(f"/v1/quarantine/{number}", models.QuarantinedWhole)

    def replay(self, number: int) -> models.Replayed:
        """Applies a quarantined event again. If it is refused again, it stays in quarantine.

        :raises NotFound: when there is none with this id.
        """
        return self._transport.request("POST", f"/v1/quarantine/{number}/replay").read(models.Replayed)

    def drop(self, number: int) -> None:
        """Deletes a quarantined event.

        :raises NotFound: when there is none with this id.
        """
        self._transport.request("DELETE", f"/v1/quarantine/{number}")


if TYPE_CHECKING:
    from watcher_sync.client.watch import WatchManager

SERVICE_TYPE_INSTANCES = "/v1/service_type_instances"


def connect(endpoint: str, *, timeout: float = 30.0) -> Client:
    """Makes a client of an API without authentication (``[api] auth_strategy = noauth``).

    :param endpoint: root of the service, such as ``http://127.0.0.1:8790``.
    :param timeout: seconds that an answer may take.
    """
    plugin = noauth.NoAuth(endpoint=endpoint)
    return Client(adapter.Adapter(session.Session(auth=plugin), endpoint_override=endpoint), timeout=timeout)


class Client(EntityCalls, MonitoringCalls, VnfCalls, SubscriptionCalls, WatchTopicCalls):
    """The client of one API. Used by one thread at a time."""

    def __init__(self, adapter: adapter.Adapter, *, timeout: float = 30.0) -> None:
        """:param adapter: an adapter of keystoneauth with the session, the credentials and the endpoint.

        :param timeout: seconds that an answer may take.
        """
        super().__init__(Transport(adapter, timeout=timeout))

    def watch_manager(self, *, address: str | None = None, tls: bool | None = None, **settings: Any) -> WatchManager:
        """A manager of watch streams of the same service, with the credentials of this client.

        :param address: ``host`` or ``host:port`` of the watch stream; by default the API's host and port 8776.
        :param tls: whether the stream uses TLS; by default if the API does.
        :param settings: fields of :class:`~watcher_sync.client.watch.WatchOptions`, such as ``sequence``.
        :raises ClientError: when there is no token, or the address is wrong.
        """
        # Imported here: gRPC loads for longer than the rest of the client, and most programs do not need it.
        from watcher_sync.client.watch.manager import manager_of

        return manager_of(self._transport, address, tls, settings)

    def search(
        self, text: str, *, kind: str | None = None, limit: int | None = None, as_of: int | str | None = None
    ) -> models.SearchResults:
        """Entities of all kinds whose name or id is, begins with, or contains a text.

        :param kind: entities of this kind only.
        :param limit: the maximum number of results.
        :param as_of: see :meth:`entities`.
        """
        known = self.kind(kind) if kind is not None else None
        query = {"q": text, "kind": known, "limit": limit, "as_of": as_of}
        return self._get("/v1/search", models.SearchResults, query)

    def events_page(
        self,
        since: int | str | None = None,
        *,
        limit: int | None = None,
        wait: float = 0.0,
        kind: str | None = None,
        entity_id: str | None = None,
        actor: str | None = None,
        all_projects: bool | None = None,
        epoch: str | None = None,
    ) -> models.EventPage:
        """One page of the journal.

        :param since: the seq after which to begin, or an ISO 8601 time of the first change; None: the page has the last
            changes.
        :param wait: seconds that the API waits for a change if there is none after ``since``.
        :param actor: only changes by the actor with this id.
        :param all_projects: see :meth:`entities`.
        :param epoch: the epoch of ``since``, as the page before has it; None: any.
        :raises Gone: when the journal does not reach back to ``since``, or is of another epoch.
        """
        known = self.kind(kind) if kind is not None else None
        query = {"since": since, "limit": limit, "wait": wait or None, "kind": known, "id": entity_id}
        query |= {"actor": actor, "all_projects": all_projects, "epoch": epoch or None}
        return self._get("/v1/events", models.EventPage, query, wait=wait)

    def events(
        self,
        since: int | None = None,
        *,
        kind: str | None = None,
        entity_id: str | None = None,
        actor: str | None = None,
        all_projects: bool | None = None,
        patience: float | None = None,
        wait: float = DEFAULT_WAIT_SECONDS,
        epoch: str | None = None,
    ) -> ChangeStream:
        """Every change after ``since``, in order, without a gap and without repetition. The iterator has no end.

        While the API is unavailable, the iterator retries, with growing pauses. To continue in another process, store
        the iterator's ``position`` and ``epoch``.

        :param since: the seq after which to begin; None: the present end of the journal.
        :param actor: see :meth:`events_page`.
        :param all_projects: see :meth:`entities`.
        :param patience: seconds of retries after which :class:`Unreachable` or :class:`Unavailable` is raised; None:
            retry without limit.
        :param wait: seconds that one request waits for a change, at most 60.
        :param epoch: the epoch of ``since``; None: any.
        :raises Gone: when the journal does not reach back to ``since``, or is of another epoch.
        """

        def page(since: int | None, wait: float, epoch: str) -> models.EventPage:
            return self._sized(
                lambda size: self.events_page(
                    since,
                    limit=size,
                    wait=wait,
                    kind=kind,
                    entity_id=entity_id,
                    actor=actor,
                    all_projects=all_projects,
                    epoch=epoch,
                )
            )

        return ChangeStream(page, since, patience=patience, wait=wait, epoch=epoch or "")

    def drifts(
        self,
        *,
        kind: str | None = None,
        source: str | None = None,
        levels: bool | None = None,
        all_projects: bool | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[models.Drift]:
        """The differences that reconciliation found between the model and the live systems.

        :param levels: true: the VNF instances that are at no level precede them.
        """
        query = {"kind": self.kind(kind) if kind is not None else None, "source": source, "levels": levels}
        query |= {"all_projects": all_projects}
        return self._list("/v1/drifts", "drifts", models.Drift, query, limit, marker)

    def create_service_type_instance(self, values: Mapping[str, Any]) -> models.Stored:
        """Creates an instance of a service type.

        :param values: ``service_type``, and optionally ``id``, ``instance_name``, ``spec``, ``provider_name``,
            ``agent_name``, ``project_id``.
        :raises Conflict: when the id belongs or belonged to another instance.
        """
        answer = self._transport.request("POST", SERVICE_TYPE_INSTANCES, body=values)
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def replace_service_type_instance(
        self, entity_id: str, values: Mapping[str, Any], *, if_match: str | None = None
    ) -> models.Stored:
        """Creates or replaces an instance of a service type. A field that ``values`` lacks becomes null, but the
        project is unchanged.

        :param if_match: the expected ETag; None: any.
        :raises NotFound: when the instance belongs to another project.
        :raises PreconditionFailed: when the instance has another ETag.
        :raises Conflict: when the id belonged to a deleted instance.
        """
        headers = {"If-Match": if_match} if if_match is not None else None
        path = f"{SERVICE_TYPE_INSTANCES}/{segment(entity_id)}"
        answer = self._transport.request("PUT", path, body=values, headers=headers)
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def delete_service_type_instance(self, entity_id: str, *, if_match: str | None = None) -> None:
        """Deletes an instance of a service type.

        :param if_match: the expected ETag; None: any.
        :raises NotFound: when there is none with this id.
        :raises PreconditionFailed: when the instance has another ETag.
        """
        headers = {"If-Match": if_match} if if_match is not None else None
        self._transport.request("DELETE", f"{SERVICE_TYPE_INSTANCES}/{segment(entity_id)}", headers=headers)

    def delete_provider_binding(self, binding_id: str) -> None:
        """Resets the binding of a source to a provider.

        :raises NotFound: when there is none with this id.
        """
        self._transport.request("DELETE", f"/v1/provider_bindings/{segment(binding_id)}")

    def operations(
        self, vnf_id: str, *, limit: int | None = None, marker: str | None = None
    ) -> Iterator[models.VnfOperation]:
        """The operations on a VNF instance, oldest first.

        :param marker: the token after which to begin.
        :raises NotFound: when there is no such instance.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}/operations"
        return self._list(path, "operations", models.VnfOperation, {}, limit, marker)
