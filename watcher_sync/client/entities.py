# SPDX-License-Identifier: Apache-2.0
"""The methods of the client that read entities of every kind: lists, items, histories, and what they were.

``as_of`` is a seq or a time (ISO 8601). The pages of a list then show the seq of the first page.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from watcher_sync.client import models
from watcher_sync.client.errors import BadRequest, NotFound, UnexpectedResponse, UnknownKind
from watcher_sync.client.export_formats import Column, columns_of
from watcher_sync.client.models import Change, Entity
from watcher_sync.client.paging import D, Reading, converted
from watcher_sync.client.transport import RepeatedParameter, SuccessResponse, Transport, segment

_ALSO_CALLED: Final = {
    "server": "instance",
    "host": "compute_node",
    "hypervisor": "compute_node",
    "vnf": "vnf_instance",
}
"""What users of OpenStack call a kind -> its name, for the hint of an error."""


class EntityCalls(Reading):
    """The part of :class:`~watcher_sync.client.client.Client` that reads entities."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._paths: dict[str, str] = {}

    def kinds(self) -> dict[str, str]:
        """Kind -> path of its list, below the root of the service. The client requests it once."""
        if not self._paths:
            try:
                version = self._get("/v1", dict[str, Any]).get("version")
            except NotFound as exc:
                raise UnexpectedResponse(f"there is no watcher_sync API at {self._transport.root}: {exc}") from None
            kinds = version.get("kinds") if isinstance(version, dict) else None
            if not isinstance(kinds, dict):
                raise UnexpectedResponse("what answers at /v1 is not this API")
            # A link may begin with the path of a proxy, which the root has, too.
            self._paths = {str(name): f"/v1/{str(path).rpartition('/')[2]}" for name, path in kinds.items()}
        return dict(self._paths)

    def kind(self, name: str) -> str:
        """The name of a kind, from its name or its plural, written with ``_`` or ``-``.

        :raises UnknownKind: when the server has no such kind; the message names its kinds.
        """
        wanted = name.replace("-", "_")
        for kind, path in self.kinds().items():
            if wanted in (kind, path.rpartition("/")[2]):
                return kind
        near = difflib.get_close_matches(wanted, [*self.kinds(), *_ALSO_CALLED], n=1)
        meant = f"; did you mean {_ALSO_CALLED.get(near[0], near[0])}?" if near else ";"
        raise UnknownKind(f"there is no kind {name!r}{meant} the server has {', '.join(sorted(self.kinds()))}")

    def entity_page(
        self,
        kind: str,
        *,
        filters: Mapping[str, str | Sequence[str]] | None = None,
        sort: str | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        all_projects: bool | None = None,
        as_of: int | str | None = None,
    ) -> models.EntityPage:
        """One page of a list; see :meth:`entities`.

        :param limit: the maximum number of entries on the page.
        """
        path = self._path(kind)
        query: dict[str, Any] = {
            name: RepeatedParameter([value] if isinstance(value, str) else value)
            for name, value in (filters or {}).items()
        }
        query |= {"sort": sort, "fields": fields, "limit": limit, "marker": marker, "all_projects": all_projects}
        query["as_of"] = as_of
        document = self._get(path, dict[str, Any], query)
        return converted({**document, "entities": document.get(path.rpartition("/")[2])}, models.EntityPage)

    def entities(
        self,
        kind: str,
        *,
        filters: Mapping[str, str | Sequence[str]] | None = None,
        sort: str | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        all_projects: bool | None = None,
        as_of: int | str | None = None,
    ) -> Iterator[Entity]:
        """The entities of a kind.

        :param kind: its name or its plural.
        :param filters: field -> value, or several that all have to match. A value may have an operator, such as
            ``gt:4``; :func:`~watcher_sync.client.filters.parse_filters` makes them of ``vcpus>4``.
        :param sort: the field to sort by, ``id`` by default; a leading ``-`` reverses the order.
        :param fields: the fields of the result; all by default.
        :param limit: the maximum number of entities of all pages together.
        :param marker: where to begin: ``next_marker`` of a page.
        :param all_projects: True: those of all projects; False: those of the caller's project; None: all that the
            caller may see. Only for kinds with a ``project_id``.
        :param as_of: the model as it was after the change with this seq, or at this time; None: as it is.
        :raises Forbidden: when the policy does not allow the list.
        :raises Gone: when the journal does not reach back to ``as_of``.
        """
        pages = self.entity_pages(
            kind,
            filters=filters,
            sort=sort,
            fields=fields,
            limit=limit,
            marker=marker,
            all_projects=all_projects,
            as_of=as_of,
        )
        return (entity for page in pages for entity in page.entities)

    def entity_pages(
        self,
        kind: str,
        *,
        filters: Mapping[str, str | Sequence[str]] | None = None,
        sort: str | None = None,
        fields: Sequence[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        all_projects: bool | None = None,
        as_of: int | str | None = None,
    ) -> Iterator[models.EntityPage]:
        """The same page by page. The events after the ``seq`` of the first page complete the list."""

        moment = as_of

        def page(size: int | None, marker: str | None) -> tuple[models.EntityPage, str | None]:
            nonlocal moment
            got = self.entity_page(
                kind,
                filters=filters,
                sort=sort,
                fields=fields,
                limit=size,
                marker=marker,
                all_projects=all_projects,
                as_of=moment,
            )
            moment = got.seq if as_of is not None else None
            return got, got.next_marker

        left = limit
        for got in self._pages(page, limit, marker):
            if left is not None:
                got = msgspec.structs.replace(got, entities=got.entities[:left])
                left -= len(got.entities)
            yield got
            if left == 0:
                return

    def entity(
        self, kind: str, entity_id: str, *, fields: Sequence[str] | None = None, as_of: int | str | None = None
    ) -> Entity:
        """One entity.

        :param fields: the fields of the result; all by default.
        :param as_of: see :meth:`entities`.
        :raises NotFound: when there is none with this id.
        """
        return self._get(
            f"{self._path(kind)}/{segment(entity_id, slash=True)}", Entity, {"fields": fields, "as_of": as_of}
        )

    def find_entity(
        self, kind: str, name_or_id: str, *, fields: Sequence[str] | None = None, as_of: int | str | None = None
    ) -> Entity:
        """One entity, by its id, or else by its name.

        :param as_of: see :meth:`entities`.
        :raises NotFound: when there is none with this id or name.
        :raises Conflict: when several have this name; the message and ``document["ids"]`` name their ids.
        """
        return self._find(kind, name_or_id, {"fields": fields, "as_of": as_of}).read(Entity)

    def find_stored(self, kind: str, name_or_id: str, *, as_of: int | str | None = None) -> models.Stored:
        """The same with its ETag, for a conditional write."""
        answer = self._find(kind, name_or_id, {"as_of": as_of})
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def stored(self, kind: str, entity_id: str) -> models.Stored:
        """One entity with its ETag, for a conditional write.

        :raises NotFound: when there is none with this id.
        """
        answer = self._transport.request("GET", f"{self._path(kind)}/{segment(entity_id, slash=True)}")
        return models.Stored(entity=answer.read(Entity), etag=answer.etag)

    def history(
        self,
        kind: str,
        entity_id: str,
        *,
        actor: str | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[Change]:
        """The changes of one entity in the journal, oldest first.

        :param actor: only those by the actor with this id.
        :param marker: the seq after which to begin.
        :raises NotFound: when the API knows no entity with this id, existing or deleted.
        """
        return self._list(
            f"{self._path(kind)}/{segment(entity_id, slash=True)}/history",
            "history",
            Change,
            {"actor": actor},
            limit,
            marker,
        )

    def columns(self, kind: str) -> list[Column]:
        """The fields of a kind in lists, with their types, for files.

        :raises UnexpectedResponse: when the API's document does not describe the list.
        """
        try:
            return columns_of(self._get("/openapi.json", dict[str, Any]), self._path(kind))
        except (KeyError, TypeError, AttributeError):
            raise UnexpectedResponse("the API's document does not describe the list") from None

    def differences(
        self,
        since: int | str,
        upto: int | str | None = None,
        *,
        kind: str | None = None,
        all_projects: bool | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> Iterator[models.Difference]:
        """What changed of each entity between two moments, by kind and id.

        :param since: the earlier moment: a seq, or an ISO 8601 time.
        :param upto: the later moment; None: the present.
        :param kind: entities of this kind only.
        :param limit: the maximum number of entities of all pages together.
        :raises Gone: when the journal does not reach back that far.
        """
        between: dict[str, Any] = {"from": since, "to": upto}
        query = {"kind": self.kind(kind) if kind is not None else None, "all_projects": all_projects}

        def page(size: int | None, marker: str | None) -> tuple[models.DifferencePage, str | None]:
            document = {**query, **between, "limit": size, "marker": marker}
            got = self._get("/v1/diff", models.DifferencePage, document)
            between.update({"from": got.since.seq, "to": got.upto.seq})
            return got, got.next_marker

        found = (each for got in self._pages(page, limit, marker) for each in got.differences)
        return itertools.islice(found, limit)

    def graph(
        self,
        kind: str,
        name_or_id: str,
        *,
        depth: int | None = None,
        direction: str | None = None,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
        as_of: int | str | None = None,
    ) -> models.EntityGraph:
        """What an entity needs, what depends on it, and the edges between them.

        :param depth: the most edges from the entity to another one, 1 to 5; None: 1.
        :param direction: ``needs``, ``dependents`` or ``both``; None: both.
        :param kinds: only entities of these kinds; None: of all.
        :param limit: the most entities.
        :param as_of: see :meth:`entities`.
        :raises NotFound: when there is none with this id or name.
        """
        chosen = None if kinds is None else [self.kind(each) for each in kinds]
        query = {"depth": depth, "direction": direction, "kinds": chosen, "limit": limit, "as_of": as_of}
        return self._around("/v1/graph", models.EntityGraph, kind, name_or_id, query)

    def impact(self, kind: str, name_or_id: str, *, as_of: int | str | None = None) -> models.EntityImpact:
        """How many entities depend on one, directly or through others.

        :param as_of: see :meth:`entities`.
        :raises NotFound: when there is none with this id or name.
        """
        return self._around("/v1/impact", models.EntityImpact, kind, name_or_id, {"as_of": as_of})

    def _around(self, path: str, into: type[D], kind: str, name_or_id: str, query: Mapping[str, Any]) -> D:
        known = self.kind(kind)
        try:
            return self._get(path, into, {"root": f"{known}/{name_or_id}", **query})
        except NotFound:
            found = self.find_entity(known, name_or_id, fields=("id",), as_of=query["as_of"])
            return self._get(path, into, {"root": f"{known}/{found['id']}", **query})

    def _find(self, kind: str, name_or_id: str, query: Mapping[str, Any]) -> SuccessResponse:
        path = f"{self._path(kind)}/{segment(name_or_id, slash=True)}"
        try:
            return self._transport.request("GET", path, query=query)
        except NotFound as exc:
            try:
                return self._transport.request("GET", path, query={**query, "by": "name"})
            except BadRequest:  # a kind without names
                raise exc from None

    def _path(self, kind: str) -> str:
        return self.kinds()[self.kind(kind)]
