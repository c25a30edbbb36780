# SPDX-License-Identifier: Apache-2.0
"""List, item and history of every kind, derived from the kind's declaration.

A list can be filtered by the indexed fields of the kind, and sorted by the id or by an indexed text field. The default
is the id: then the pages contain exactly once every entity that exists during the whole listing.

Each page has the journal's seq at which it was read. A caller that reads all pages, and then the events since the
``seq`` of the *first* page, misses nothing.

A kind with a ``project_id`` is scoped. A caller sees the entities of its project, or of all projects if the rule
``all_projects`` allows it. For every other entity the answer is 404.
"""

from __future__ import annotations

import urllib.parse
from typing import Any

from watcher_sync.api.core import etags, schemas
from watcher_sync.api.core.journal_documents import journal_document
from watcher_sync.api.core.operation import Answer, Call, Rule, operation
from watcher_sync.api.core.problems import not_found
from watcher_sync.api.core.request_context import ALL_PROJECTS, IN_PROJECT, READER, RequestContext
from watcher_sync.api.service import Service
from watcher_sync.model.kinds import Kind
from watcher_sync.storage import reading
from watcher_sync.storage.journal import JournalRow, read_head

PROJECT = "project_id"


class Collection:
    """The kind, the rules and the fields that the resources of one kind share."""

    def __init__(self, service: Service, kind: Kind) -> None:
        self.service = service
        self.kind = kind
        self.scoped = PROJECT in kind.fields
        self.filters = tuple(kind.indexes)
        self.sorts = ("id", *(name for name in kind.indexes if kind.fields[name].python is str))
        self.names = (*kind.public, "seq")
        read = IN_PROJECT if self.scoped else READER
        self.rules = {what: Rule(f"{kind.plural}:{what}", read) for what in ("list", "show", "history")}

    def fields_parameter(self) -> dict[str, schemas.Schema]:
        """The query parameter ``fields`` and its schema."""
        return {
            "fields": {
                "type": "array",
                "items": {"enum": list(self.names)},
                "minItems": 1,
                "uniqueItems": True,
                "description": "The fields of the answer, separated by commas; all by default.",
            }
        }

    def require_project(self, context: RequestContext, what: str, project_id: str | None, entity_id: str) -> None:
        """:raises Problem: 404 when the entity belongs to a project that the caller may not see."""
        if self.scoped and not context.may(self.rules[what].name, project_id or ""):
            raise not_found(f"{self.kind.name} {entity_id}")

    def require_existing(self, entity_id: str) -> None:
        """:raises Problem: 404 when there is no such entity."""
        with self.service.reading() as connection:
            if reading.read_item(connection, self.service.tables, self.kind, entity_id) is None:
                raise not_found(f"{self.kind.name} {entity_id}")

    def selected(self, row: dict[str, Any], names: list[str] | None) -> dict[str, Any]:
        """Returns the chosen fields in declared order; ``names`` is None: all fields."""
        return {name: row[name] for name in self.names if names is None or name in names}


class EntityList:
    """``/v1/{plural}``: all entities of one kind."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        query = {
            **schemas.paging(collection.service.max_limit),
            "sort": {
                "enum": [sign + name for name in collection.sorts for sign in ("", "-")], "default": "id",
                "description": "The field to sort by; a leading - reverses the order.",
            },
            **collection.fields_parameter(),
            **{n: schemas.SHORT_TEXT | {"description": f"Only entities with this {n}."} for n in collection.filters},
        }  # fmt: skip
        schema = schemas.collection(kind.plural, schemas.entity_schema(kind), seq=schemas.SEQ)
        self._collection = collection
        self.on_get = operation(
            summary=f"List {kind.plural}",
            rule=collection.rules["list"],
            query=query,
            responses={200: Answer(schema, f"A page of {kind.plural}")},
            tag=kind.plural,
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page."""
        _list(self._collection, call)


class EntityItem:
    """``/v1/{plural}/{id}``: one entity."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        self.collection = collection
        self.on_get = operation(
            summary=f"Show one {kind.name}",
            rule=collection.rules["show"],
            query={"fields": self.fields_parameter()},
            headers={"If-None-Match": schemas.ETAG},
            responses={
                200: Answer(self.schema(), f"The {kind.name}", headers=("ETag",)),
                304: Answer(None, "The ETag is unchanged", headers=("ETag",)),
            },
            errors=(404,),
            tag=kind.plural,
        )(self.show)

    def fields_parameter(self) -> schemas.Schema:
        """The schema of the query parameter ``fields``."""
        return self.collection.fields_parameter()["fields"]

    def schema(self) -> schemas.Schema:
        """The schema of the entity in answers."""
        return schemas.entity_schema(self.collection.kind)

    def selected(self, row: dict[str, Any], names: list[str] | None) -> dict[str, Any]:
        """Makes the document of a row.

        :param names: the chosen fields; None: all.
        """
        return self.collection.selected(row, names)

    def show(self, call: Call, entity_id: str) -> None:
        """Answers with the entity and its ETag."""
        collection, kind = self.collection, self.collection.kind
        with collection.service.reading() as connection:
            row = reading.read_item(connection, collection.service.tables, kind, entity_id)
        if row is None:
            raise not_found(f"{kind.name} {entity_id}")
        collection.require_project(call.context, "show", row.get(PROJECT), entity_id)
        if etags.answered_not_modified(call, etags.of(kind, row["seq"])):
            return
        call.answer(self.selected(row, call.query.get("fields")))


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


def next_page(call: Call, marker: str | int | None) -> dict[str, Any]:
    """``next_marker`` and ``next`` of a page."""
    if marker is None:
        return {"next_marker": None, "next": None}
    text = str(marker)
    asked = {k: ",".join(v) if isinstance(v, list) else v for k, v in call.query.items() if k != "marker"}
    return {"next_marker": text, "next": f"{call.request.path}?{urllib.parse.urlencode({**asked, 'marker': text})}"}


def _list(collection: Collection, call: Call) -> None:
    kind, query = collection.kind, call.query
    filters = {name: query[name] for name in collection.filters if name in query}
    if collection.scoped and not call.context.may(ALL_PROJECTS, ""):
        own = call.context.project_id or ""
        if filters.setdefault(PROJECT, own) != own:
            call.context.require(collection.rules["list"].name, filters[PROJECT])
    sort = reading.Sort(query["sort"].lstrip("-"), query["sort"].startswith("-"))
    limit: int = query["limit"]
    names = query.get("fields") or list(collection.names)
    with collection.service.reading() as connection:
        seq = read_head(connection, collection.service.tables)
        rows = reading.read_page(
            connection,
            collection.service.tables,
            kind,
            names=names,
            filters=filters,
            sort=sort,
            after=_after(sort, query.get("marker")),
            limit=limit + 1,
        )
    marker = _marker(sort, rows[limit - 1]) if len(rows) > limit else None
    page = [collection.selected(row, names) for row in rows[:limit]]
    call.answer({kind.plural: page, **next_page(call, marker), "seq": seq})


def _history(collection: Collection, call: Call, entity_id: str) -> None:
    kind, tables, limit = collection.kind, collection.service.tables, call.query["limit"]
    with collection.service.reading() as connection:
        rows = reading.read_history(
            connection, tables, kind.name, entity_id, after=int(call.query["marker"]), limit=limit + 1
        )
        row = reading.read_item(connection, tables, kind, entity_id)
        last = None if row is not None else reading.last_change(connection, tables, kind.name, entity_id)
    if row is None and last is None:
        raise not_found(f"{kind.name} {entity_id}")
    if collection.scoped:
        project = row[PROJECT] if row is not None else _last_value(last, PROJECT)
        collection.require_project(call.context, "history", project, entity_id)
    marker = rows[limit - 1].seq if len(rows) > limit else None
    call.answer({"history": [journal_document(r, call.context) for r in rows[:limit]], **next_page(call, marker)})


def _last_value(row: JournalRow | None, field: str) -> Any:
    """The last value of a field of a deleted entity; None if the journal does not contain it."""
    if row is None or field not in row.delta:
        return None
    old, new = row.delta[field]
    return old if row.change == "deleted" else new


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
