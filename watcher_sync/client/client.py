# SPDX-License-Identifier: Apache-2.0
"""Every operation of the API as a method, with typed answers.

A list is an iterator that requests one page after the other. A list is sorted by id, unless the caller chooses another
field. Sorted by id, it contains exactly once every entity that exists during the whole listing.

A client is used by one thread at a time. The methods raise every error of the network as a
:class:`~watcher_sync.client.errors.ClientError`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from keystoneauth1 import adapter, noauth, session

from watcher_sync.client import models
from watcher_sync.client.changes import DEFAULT_WAIT_SECONDS, ChangeStream
from watcher_sync.client.errors import UnexpectedResponse, UnknownKind
from watcher_sync.client.models import Change, Entity
from watcher_sync.client.paging import converted
from watcher_sync.client.subscriptions import SubscriptionCalls
from watcher_sync.client.transport import Transport, segment
from watcher_sync.client.vnf_instances import VNF_INSTANCES, VnfCalls
from watcher_sync.client.watch_topics import WatchTopicCalls

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


class Client(VnfCalls, SubscriptionCalls, WatchTopicCalls):
    """The client of one API. Used by one thread at a time."""

    def __init__(self, adapter: adapter.Adapter, *, timeout: float = 30.0) -> None:
        """:param adapter: an adapter of keystoneauth with the session, the credentials and the endpoint.

        :param timeout: seconds that an answer may take.
        """
        super().__init__(Transport(adapter, timeout=timeout))
        self._paths: dict[str, str] = {}

    def kinds(self) -> dict[str, str]:
        """Kind -> path of its list. The client requests it once."""
        if not self._paths:
            version = self._get("/v1", dict[str, Any]).get("version")
            kinds = version.get("kinds") if isinstance(version, dict) else None
            if not isinstance(kinds, dict):
                raise UnexpectedResponse("what answers at /v1 is not this API")
            self._paths = {str(name): str(path) for name, path in kinds.items()}
        return dict(self._paths)

    def kind(self, name: str) -> str:
        """The name of a kind, from its name or its plural, written with ``_`` or ``-``.

        :raises UnknownKind: when the server has no such kind; the message names its kinds.
        """
        wanted = name.replace("-", "_")
        for kind, path in self.kinds().items():
            if wanted in (kind, path.rpartition("/")[2]):
                return kind
        raise UnknownKind(f"there is no kind {name!r}; the server has {', '.join(sorted(self.kinds()))}")

    def watch_manager(self, *, address: str | None = None, tls: bool | None = None, **settings: Any) -> WatchManager:
        """A manager of watch streams of the same service, with the credentials of this client.

        :param address: ``host`` or ``host:port`` of the watch stream; by default the API's host and port 8776.
        :param tls: whether the stream uses TLS; by default if the API does.
        :param settings: further keyword arguments of :class:`~watcher_sync.client.watch.WatchManager`.
        :raises ClientError: when there is no token, or the address is wrong.
        """
        # Imported here: gRPC loads for longer than the rest of the client, and most programs do not need it.
        from watcher_sync.client.watch.session import manager_of

        return manager_of(self._transport, address, tls, settings)

    def entity_page(
        self,
        kind: str,
        *,
        filters: Mapping[str, str] | None = None,
        sort: str | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        all_projects: bool | None = None,
    ) -> models.EntityPage:
        """One page of a list; see :meth:`entities`.

        :param limit: the maximum number of entries on the page.
        """
        path = self._path(kind)
        query = {**(filters or {}), "sort": sort, "fields": fields, "limit": limit, "marker": marker}
        query["all_projects"] = all_projects
        document = self._get(path, dict[str, Any], query)
        return converted({**document, "entities": document.get(path.rpartition("/")[2])}, models.EntityPage)

    def entities(
        self,
        kind: str,
        *,
        filters: Mapping[str, str] | None = None,
        sort: str | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        all_projects: bool | None = None,
    ) -> Iterator[Entity]:
        """The entities of a kind.

        :param kind: its name or its plural.
        :param filters: indexed field -> value.
        :param sort: the field to sort by, ``id`` by default; a leading ``-`` reverses the order.
        :param fields: the fields of the result; all by default.
        :param limit: the maximum number of entities of all pages together.
        :param marker: where to begin: ``next_marker`` of a page.
        :param all_projects: True: those of all projects; False: those of the caller's project; None: all that the
            caller may see. Only for kinds with a ``project_id``.
        :raises Forbidden: when the policy does not allow the list.
        """
        pages = self.entity_pages(
            kind, filters=filters, sort=sort, fields=fields, limit=limit, marker=marker, all_projects=all_projects
        )
        return (entity for page in pages for entity in page.entities)

    def entity_pages(
        self,
        kind: str,
        *,
        filters: Mapping[str, str] | None = None,
        sort: str | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        all_projects: bool | None = None,
    ) -> Iterator[models.EntityPage]:
        """The same page by page. The events after the ``seq`` of the first page complete the list."""

        def page(size: int | None, marker: str | None) -> tuple[models.EntityPage, str | None]:
            got = self.entity_page(
                kind, filters=filters, sort=sort, fields=fields, limit=size, marker=marker, all_projects=all_projects
            )
            return got, got.next_marker

        left = limit
        for got in self._pages(page, limit, marker):
            if left is not None:
                got = msgspec.structs.replace(got, entities=got.entities[:left])
                left -= len(got.entities)
            yield got
            if left == 0:
                return

    def entity(self, kind: str, entity_id: str, *, fields: Sequence[str] | None = None) -> Entity:
        """One entity.

        :param fields: the fields of the result; all by default.
        :raises NotFound: when there is none with this id.
        """
        return self._get(f"{self._path(kind)}/{segment(entity_id, slash=True)}", Entity, {"fields": fields})

    def stored(self, kind: str, entity_id: str) -> models.Stored:
        """One entity with its ETag, for a conditional write.

        :raises NotFound: when there is none with this id.
        """
        answer = self._transport.request("GET", f"{self._path(kind)}/{segment(entity_id, slash=True)}")
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def history(
        self, kind: str, entity_id: str, *, limit: int | None = None, marker: str | None = None
    ) -> Iterator[Change]:
        """The changes of one entity in the journal, oldest first.

        :param marker: the seq after which to begin.
        :raises NotFound: when the API knows no entity with this id, existing or deleted.
        """
        return self._list(
            f"{self._path(kind)}/{segment(entity_id, slash=True)}/history", "history", Change, {}, limit, marker
        )

    def events_page(
        self,
        since: int | None = None,
        *,
        limit: int | None = None,
        wait: float = 0.0,
        kind: str | None = None,
        entity_id: str | None = None,
        all_projects: bool | None = None,
    ) -> models.EventPage:
        """One page of the journal.

        :param since: the seq after which to begin; None: the page has the last changes.
        :param wait: seconds that the API waits for a change if there is none after ``since``.
        :param all_projects: see :meth:`entities`.
        :raises Gone: when the journal does not reach back to ``since``, or is another one.
        """
        known = self.kind(kind) if kind is not None else None
        query = {"since": since, "limit": limit, "wait": wait or None, "kind": known, "id": entity_id}
        query["all_projects"] = all_projects
        return self._get("/v1/events", models.EventPage, query, wait=wait)

    def events(
        self,
        since: int | None = None,
        *,
        kind: str | None = None,
        entity_id: str | None = None,
        all_projects: bool | None = None,
        patience: float | None = None,
        wait: float = DEFAULT_WAIT_SECONDS,
    ) -> ChangeStream:
        """Every change after ``since``, in order, without a gap and without repetition. The iterator has no end.

        While the API is unavailable, the iterator retries, with growing pauses. To continue in another process, store
        the iterator's ``position``.

        :param since: the seq after which to begin; None: the present end of the journal.
        :param all_projects: see :meth:`entities`.
        :param patience: seconds of retries after which :class:`Unreachable` or :class:`Unavailable` is raised; None:
            retry without limit.
        :param wait: seconds that one request waits for a change, at most 60.
        :raises Gone: when the journal does not reach back to ``since``, or is another one.
        """

        def page(since: int | None, wait: float) -> models.EventPage:
            return self._sized(
                lambda size: self.events_page(
                    since, limit=size, wait=wait, kind=kind, entity_id=entity_id, all_projects=all_projects
                )
            )

        return ChangeStream(page, since, patience=patience, wait=wait)

    def sources(self) -> list[models.Source]:
        """All sources of all engines."""
        return converted(self._get("/v1/sources", dict[str, Any]).get("sources"), list[models.Source])

    def inventories(self) -> list[models.Inventory]:
        """The inventories of the live systems that are compared as a whole; none of an older server."""
        found = self._get("/v1/sources", dict[str, Any]).get("inventories", [])
        return converted(found, list[models.Inventory])

    def source(self, name: str) -> models.Source:
        """One source.

        :raises NotFound: when there is none of this name.
        """
        return self._get(f"/v1/sources/{segment(name)}", models.Source)

    def drifts(
        self,
        *,
        kind: str | None = None,
        source: str | None = None,
        all_projects: bool | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[models.Drift]:
        """The differences that reconciliation found between the model and the live systems."""
        query = {"kind": self.kind(kind) if kind is not None else None, "source": source, "all_projects": all_projects}
        return self._list("/v1/drifts", "drifts", models.Drift, query, limit, marker)

    def quarantine(self, *, limit: int | None = None, marker: str | None = None) -> Iterator[models.Quarantined]:
        """Events that could not be decoded or applied, without their bodies."""
        return self._list("/v1/quarantine", "quarantine", models.Quarantined, {}, limit, marker)

    def quarantined(self, number: int) -> models.QuarantinedWhole:
        """One quarantined event with its body.

        :raises NotFound: when there is none with this id.
        """
        return self._get(f"/v1/quarantine/{number}", models.QuarantinedWhole)

    def replay(self, number: int) -> models.Replayed:
        """Applies a quarantined event again. If it is refused again, it stays in quarantine under a new id.

        :raises NotFound: when there is none with this id.
        """
        return self._transport.request("POST", f"/v1/quarantine/{number}/replay").read(models.Replayed)

    def drop(self, number: int) -> None:
        """Deletes a quarantined event.

        :raises NotFound: when there is none with this id.
        """
        self._transport.request("DELETE", f"/v1/quarantine/{number}")

    def create_service_type_instance(self, values: Mapping[str, Any]) -> models.Stored:
        """Creates an instance of a service type.

        :param values: ``service_type``, and optionally ``id``, ``instance_name``, ``spec``, ``provider_name``,
            ``project_id``.
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

    def operations(
        self, vnf_id: str, *, limit: int | None = None, marker: str | None = None
    ) -> Iterator[models.VnfOperation]:
        """The operations on a VNF instance, oldest first.

        :param marker: the token after which to begin.
        :raises NotFound: when there is no such instance.
        """
        path = f"{VNF_INSTANCES}/{segment(vnf_id)}/operations"
        return self._list(path, "operations", models.VnfOperation, {}, limit, marker)

    def _path(self, kind: str) -> str:
        return self.kinds()[self.kind(kind)]
