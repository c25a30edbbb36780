# SPDX-License-Identifier: Apache-2.0
"""List, item and history of every kind, derived from the kind's declaration.

A list can be filtered by the indexed fields of the kind, and sorted by the id or an indexed text field. Sorted by id,
the pages contain exactly once every entity that exists during the whole listing. A caller that reads all pages, and
then the events since the ``seq`` of the *first* page, misses nothing.

With ``versions=true`` each entity has its versions.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.api.core import etags, schemas
from watcher_sync.api.core.operation import JSON, Answer, Body, Call, operation
from watcher_sync.api.core.problems import not_found
from watcher_sync.api.core.request_context import NO_PROJECT
from watcher_sync.api.core.rules import ADMIN_ONLY_FIELDS, ALL_PROJECTS
from watcher_sync.api.core.visibility import visibility
from watcher_sync.api.resources import host_usage
from watcher_sync.api.resources.entity_collection import Collection
from watcher_sync.model.kinds import PROJECT_FIELD
from watcher_sync.model.visibility import Hidden
from watcher_sync.storage import reading
from watcher_sync.storage.journal import read_head

_MAX_READS = 10
"""Reads of a table for one page of a list whose rows are filtered after they are read."""

_ALL_PROJECTS: dict[str, schemas.Schema] = {
    "all_projects": {
        "type": "boolean",
        "description": "true: the entities of all projects, or 403; false: those of the caller's project alone. By "
        "default the answer has everything that the caller may see.",
    }
}

MAX_IDS = 100
"""Ids that a list may be asked for."""

MAX_STATES = 1000
"""Ids in the body of one request, whatever the limit of pages: a follower of this API relies on it."""

_REPLICATION: dict[str, schemas.Schema] = {
    "versions": {
        "type": "boolean",
        "description": "true: each entity has its own fields and versions (facet -> version text), or 403. For "
        "callers who see all projects and the fields that tell of hosts. The list is sorted by id. Parameters that "
        "sort it or choose fields have no effect.",
    },
    "ids": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": 1500, "pattern": "^[^,]+$"},
        "minItems": 1,
        "maxItems": MAX_IDS,
        "description": "Only entities with these ids, separated by commas. Each id is percent-encoded once more.",
    },
}


class EntityList:
    """``/v1/{plural}``: all entities of one kind."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        schema = schemas.collection(kind.plural, _with_versions(self.item_schema(collection)), seq=schemas.SEQ)
        self._collection = collection
        self.on_get = operation(
            summary=f"List {kind.plural}",
            rule=collection.rules["list"],
            query=self.parameters(collection),
            responses={200: Answer(schema, f"A page of {kind.plural}")},
            tag=kind.plural,
        )(self.list_page)

    def parameters(self, collection: Collection) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        kind = collection.kind
        return {
            **schemas.paging(collection.service.max_limit),
            "sort": {
                "enum": [sign + name for name in collection.sorts for sign in ("", "-")], "default": "id",
                "description": "The field to sort by; a leading - reverses the order.",
            },
            **collection.fields_parameter(),
            **_REPLICATION,
            **(_ALL_PROJECTS if kind.is_scoped else {}),
            **{n: schemas.SHORT_TEXT | {"description": f"Only entities with this {n}."} for n in collection.filters},
        }  # fmt: skip

    def item_schema(self, collection: Collection) -> schemas.Schema:
        """The schema of an entity of the list."""
        return collection.schema()

    def list_page(self, call: Call) -> None:
        """Answers with one page."""
        if call.query.get("versions"):
            self._answer_versions(self._collection, call)
        else:
            self.answer_page(self._collection, call)

    @staticmethod
    def _answer_versions(collection: Collection, call: Call) -> None:
        """Answers with the own fields and the versions, whatever the form of the list is."""
        require_all(call)
        query = call.query
        filters = {name: query[name] for name in collection.filters if name in query}
        if collection.kind.is_scoped:
            _scope(call, filters)
        ids, marker = query.get("ids"), query.get("marker")
        with collection.service.reading() as connection:
            seq = read_head(connection, collection.service.tables)
            page = collection.states.read(
                connection,
                limit=int(query["limit"]),
                after=None if marker is None else marker.replace("\0", ""),
                ids=None if ids is None else [urllib.parse.unquote(each).replace("\0", "") for each in ids],
                filters=filters,
            )
        states = [msgspec.Raw(text) for text in page.texts]
        call.answer({collection.kind.plural: states, **next_page(call, page.marker), "seq": seq})

    def answer_page(self, collection: Collection, call: Call) -> None:
        """Reads a page and answers with it."""
        chosen = call.query.get("fields")
        names = chosen or list(collection.names)
        page = read_list(collection, call, names, chosen or ())
        documents = [collection.selected(row, names, page.hidden) for row in page.rows]
        call.answer({collection.kind.plural: documents, **next_page(call, page.marker), "seq": page.seq})


class EntityItem:
    """``/v1/{plural}/{id}``: one entity."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        self.collection = collection
        self.on_get = operation(
            summary=f"Show one {kind.name}",
            rule=collection.rules["show"],
            query=self.parameters(),
            headers={"If-None-Match": schemas.ETAG},
            responses={
                200: Answer(self.schema(), f"The {kind.name}", headers=("ETag",)),
                304: Answer(None, "The ETag is unchanged", headers=("ETag",)),
            },
            errors=(404,),
            tag=kind.plural,
        )(self.show)

    def parameters(self) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        return self.collection.fields_parameter()

    def schema(self) -> schemas.Schema:
        """The schema of the entity in answers."""
        return self.collection.schema()

    def chosen(self, call: Call) -> Sequence[str]:
        """The fields that the request names.

        :raises Problem: 400 when the request makes no sense.
        """
        names: Sequence[str] = call.query.get("fields", ())
        return names

    def selected(self, row: dict[str, Any], call: Call, hidden: Hidden) -> dict[str, Any]:
        """Makes the document of a row.

        :param hidden: what the caller does not see.
        """
        return self.collection.selected(row, call.query.get("fields"), hidden)

    def show(self, call: Call, entity_id: str) -> None:
        """Answers with the entity and its ETag."""
        collection, kind = self.collection, self.collection.kind
        chosen = self.chosen(call)
        with collection.service.reading() as connection:
            row = reading.read_item(connection, collection.service.tables, kind, entity_id)
            if row is None:
                raise not_found(f"{kind.name} {entity_id}")
            if collection.computed:
                host_usage.add(connection, collection.service.tables, [row], collection.names)
        collection.require_project(call, row.get(PROJECT_FIELD), entity_id)
        hidden = collection.require_visible(call, chosen)
        more = host_usage.tag(row) if collection.computed else ""
        if etags.answered_not_modified(call, etags.of(kind, row["seq"], more)):
            return
        call.answer(self.selected(row, call, hidden))


class EntityHistory:
    """``/v1/{plural}/{id}/history``: the changes of one entity in the journal."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        self._collection = collection
        self.on_get = operation(
            summary=f"Show the changes of one {kind.name}",
            rule=collection.rules["history"],
            query=schemas.paging(collection.service.max_limit)
            | {"marker": schemas.SEQ | {"default": 0, "description": "The page begins after this seq."}},
            responses={200: Answer(schemas.collection("history", schemas.JOURNAL_ROW), "A page of the history")},
            errors=(404,),
            tag=kind.plural,
        )(self.list_page)

    def list_page(self, call: Call, entity_id: str) -> None:
        """Answers with one page, oldest change first."""
        _history(self._collection, call, entity_id)


class EntityStates:
    """``/v1/states/{plural}``: many entities of one kind with their versions, by their ids."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        self._collection = collection
        request: schemas.Schema = {
            "type": "object",
            "required": ["ids"],
            "additionalProperties": False,
            "properties": {
                "ids": {
                    "type": "array",
                    "items": {"type": "string", "minLength": 1, "maxLength": 1500},
                    "minItems": 1,
                    "maxItems": MAX_STATES,
                    "description": "The ids, as they are.",
                },
                "marker": {"type": "string", "maxLength": 1500, "description": "The page begins after this id."},
            },
        }
        schema = schemas.collection(kind.plural, _with_versions(collection.schema()), seq=schemas.SEQ)
        self.on_post = operation(
            summary=f"Read {kind.plural} with their versions",
            description="The answer is that of the list with versions=true and ids. A URL has room for fewer ids.",
            rule=collection.rules["list"],
            body=Body({JSON: request}),
            responses={200: Answer(schema, f"A page of {kind.plural}")},
            tag=kind.plural,
        )(self.read)

    def read(self, call: Call) -> None:
        """Answers with those of the entities that exist."""
        collection = self._collection
        require_all(call)
        ids = [each.replace("\0", "") for each in call.body["ids"]]
        marker = call.body.get("marker")
        after = None if marker is None else marker.replace("\0", "")
        with collection.service.reading() as connection:
            seq = read_head(connection, collection.service.tables)
            found = collection.states.read(connection, limit=len(ids), after=after, ids=ids)
        states = [msgspec.Raw(text) for text in found.texts]
        call.answer({collection.kind.plural: states, "next_marker": found.marker, "next": None, "seq": seq})


def require_all(call: Call) -> None:
    """Requires a caller who sees everything of every entity.

    :raises Problem: 403 when it does not.
    """
    if call.context.scope is not None:
        raise call.context.refusal([ALL_PROJECTS])
    if not call.context.sees_admin_only:
        raise call.context.refusal([ADMIN_ONLY_FIELDS])


def _with_versions(schema: schemas.Schema) -> schemas.Schema:
    """The schema of an entity that may have the member ``versions``."""
    versions = {
        "type": "object",
        "additionalProperties": schemas.STRING,
        "description": "facet -> the version that wrote it last; only with versions=true.",
    }
    return {**schema, "properties": {**schema["properties"], "versions": versions}}


def next_page(call: Call, marker: str | int | None) -> dict[str, Any]:
    """``next_marker`` and ``next`` of a page."""
    if marker is None:
        return {"next_marker": None, "next": None}
    text = str(marker)
    asked = {name: _query_text(value) for name, value in call.query.items() if name != "marker"}
    return {"next_marker": text, "next": f"{call.request.path}?{urllib.parse.urlencode({**asked, 'marker': text})}"}


def _query_text(value: Any) -> str:
    """A value of the query as a request has it."""
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


class ListPage(msgspec.Struct, frozen=True):
    """Rows of a list, and what an answer needs beside them."""

    rows: list[dict[str, Any]]
    marker: str | None
    """Of the next page; None: this is the last one."""
    seq: int
    hidden: Hidden
    """What the caller does not see."""


def read_list(
    collection: Collection,
    call: Call,
    names: Sequence[str],
    chosen: Iterable[str],
    make: Callable[[dict[str, Any], Hidden], dict[str, Any] | None] | None = None,
) -> ListPage:
    """Reads a page as the query asks for it: filters, sort, marker and limit.

    :param names: the columns to read.
    :param chosen: the fields that the request names; the caller has to see them.
    :param make: makes the document of a row, or returns None for a row that is left out; None: the row itself. Then
        the page may take several reads of the table, up to ten, and have fewer rows than its limit.
    """
    kind, query = collection.kind, call.query
    filters = {name: query[name] for name in collection.filters if name in query}
    if kind.is_scoped:
        _scope(call, filters)
    sort = reading.Sort(query["sort"].lstrip("-"), query["sort"].startswith("-"))
    hidden = collection.require_visible(call, [*chosen, *filters, sort.field])
    limit, marker = int(query["limit"]), query.get("marker")
    rows: list[dict[str, Any]] = []
    with collection.service.reading() as connection:
        seq = read_head(connection, collection.service.tables)
        for _ in range(_MAX_READS if make is not None else 1):
            found = reading.read_page(
                connection,
                collection.service.tables,
                kind,
                names=host_usage.columns(names) if collection.computed else names,
                filters=filters,
                sort=sort,
                after=_after(sort, marker),
                limit=limit,
                ids=[urllib.parse.unquote(each).replace("\0", "") for each in query["ids"]] if "ids" in query else None,
            )
            if collection.computed:
                host_usage.add(connection, collection.service.tables, found.rows, names)
            more = found.more
            for number, row in enumerate(found.rows, start=1):
                marker = _marker(sort, row)
                if (document := row if make is None else make(row, hidden)) is not None:
                    rows.append(document)
                    if len(rows) == limit:
                        more = more or number < len(found.rows)
                        break
            if len(rows) == limit or not more:
                break
    return ListPage(rows, marker if more else None, seq, hidden)


def _scope(call: Call, filters: dict[str, Any]) -> None:
    """Restricts the filters to the project of the caller, unless it sees all projects.

    :raises Problem: 403 when the request asks for another project, or for all, and the policy does not allow it.
    """
    wanted: bool | None = call.query.get("all_projects")
    scope = call.context.scope
    if wanted and scope is not None:
        raise call.context.refusal([ALL_PROJECTS])
    if wanted is False:
        scope = call.context.project_id or NO_PROJECT
    if scope is not None and filters.setdefault(PROJECT_FIELD, scope) != scope:
        call.context.require_on(call.rule, filters[PROJECT_FIELD])


def _history(collection: Collection, call: Call, entity_id: str) -> None:
    kind, tables = collection.kind, collection.service.tables
    after, limit = int(call.query["marker"]), call.query["limit"]
    with collection.service.reading() as connection:
        found = reading.read_history(connection, tables, kind.name, entity_id, after=after, limit=limit)
        owner = reading.read_owner(connection, tables, kind, entity_id, deleted=True)
    if owner is None:
        raise not_found(f"{kind.name} {entity_id}")
    collection.require_project(call, owner.project_id, entity_id)
    sight = visibility(call.context, collection.service.kinds)
    marker = found.rows[-1].seq if found.more else None
    # The caller sees the entity. A row without a project is from before it had one, or before the column existed.
    changes = [
        shown.document()
        for row in found.rows
        if (not kind.is_scoped or row.project_id is None or sight.sees(row.project_id))
        and (shown := sight.shown(row)) is not None
    ]
    call.answer({"history": changes, **next_page(call, marker)})


def _marker(sort: reading.Sort, row: dict[str, Any]) -> str:
    """The marker of a row: its id, or its sort value (percent-encoded; * for null) and its id."""
    if sort.field == "id":
        return str(row["id"])
    value = row[sort.field]
    return f"{'*' if value is None else urllib.parse.quote(value, safe='')},{row['id']}"


def _after(sort: reading.Sort, marker: str | None) -> reading.After | None:
    """Decodes a marker of :func:`_marker`. Every other text is a valid position too: that of a value."""
    if marker is None:
        return None
    text = marker.replace("\0", "")
    if sort.field == "id":
        return reading.After(None, text)
    value, _, entity_id = text.partition(",")
    return reading.After(None if value == "*" else urllib.parse.unquote(value).replace("\0", ""), entity_id)
