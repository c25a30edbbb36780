# SPDX-License-Identifier: Apache-2.0
"""Item and history of every kind, derived from the kind's declaration.

An item is found by its id. With ``by=name`` it is found by its name, if no other entity that the caller sees has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.http import etags, positions, schemas
from watcher_sync.api.http.operation import Answer, Call, operation
from watcher_sync.api.http.pages import AnswerPage
from watcher_sync.api.http.positions import AS_OF, AS_OF_HEADER
from watcher_sync.api.http.problems import Problem, not_found
from watcher_sync.api.identity.visibility import BY_ACTOR, is_by, visibility
from watcher_sync.model.kinds import PROJECT_FIELD
from watcher_sync.model.visibility import Hidden
from watcher_sync.read import reading, search
from watcher_sync.read.past.undoing import read_item_at

_SHORT_BYTES = 256
"""A value of more bytes as JSON is long."""

_CHANGE: schemas.Schema = {
    **schemas.JOURNAL_ROW,
    "properties": {
        **schemas.JOURNAL_ROW["properties"],
        "long_fields": {
            "type": "array",
            "items": schemas.STRING,
            "description": "With values=short: the changed fields that are not in delta.",
        },
    },
}

_MAX_NAMED = 10
"""Entities of one name that a problem lists."""


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
                200: Answer(self.schema(), f"The {kind.name}", headers=("ETag", AS_OF_HEADER)),
                304: Answer(None, "The ETag is unchanged", headers=("ETag",)),
            },
            errors=(404, 409, 410) if kind.name_field is not None else (404, 410),
            tag=kind.plural,
        )(self.show)

    def parameters(self) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        return {**self.collection.fields_parameter(), **self.name_parameter(), **positions.PARAMETERS}

    def name_parameter(self) -> dict[str, schemas.Schema]:
        """The query parameter that has the item found by its name, and its schema."""
        name = self.collection.kind.name_field
        if name is None:
            return {}
        text = f"name: find it by its {name} instead of its id; 409 with the ids, if several have this name."
        return {"by": {"enum": ["id", "name"], "default": "id", "description": text}}

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
        row = self._read(call, entity_id)
        collection.require_project(call, row.get(PROJECT_FIELD), entity_id)
        hidden = call.context.require_visible(kind, chosen)
        is_marked = not chosen and AS_OF not in call.query and collection.is_of_removed(row)
        more = "".join(each.tag(row) for each in collection.computed)
        tag = row["seq"] if row["seq"] is not None else f"as-of-{call.query[AS_OF]}"
        if etags.answered_not_modified(call, etags.of(kind, tag, more, is_marked=is_marked)):
            return
        document = self.selected(row, call, hidden)
        call.answer({**document, etags.MARK: True} if is_marked else document)

    def _read(self, call: Call, entity_id: str) -> dict[str, Any]:
        """Reads the entity, now or as it was.

        :raises Problem: 404 when there is none, 409 when several have the name.
        """
        collection, kind = self.collection, self.collection.kind
        service, row = collection.service, None
        if AS_OF in call.query and not collection.computed and call.query.get("by") != "name":
            with service.reading() as connection:  # it costs less than a copy of the kind
                head = positions.present(call, connection, service.tables)
                moment = positions.asked_moment(call, connection, service.tables, head)
                assert moment is not None
                row = read_item_at(connection, service.tables, kind, entity_id, moment.seq)
        else:
            with service.source(call, collection.kinds_read) as source:
                if call.query.get("by") == "name":
                    entity_id = self._id_of_name(source.connection, call, entity_id)
                row = reading.read_item(source.connection, service.tables, kind, entity_id)
                if row is not None:
                    source.add_seqs(service.tables, kind, [row])
                    for each in collection.computed:
                        each.add(source.connection, service.tables, [row])
        if row is None:
            raise not_found(f"{kind.name} {entity_id}")
        return row

    def _id_of_name(self, connection: sa.Connection, call: Call, name: str) -> str:
        """The id of the only entity with a name that the caller sees.

        :raises Problem: 404 when there is none, 409 when there are several, 403 when the caller may not see names.
        """
        collection, kind = self.collection, self.collection.kind
        assert kind.name_field is not None
        call.context.require_visible(kind, [kind.name_field])
        scope = call.context.scope if kind.is_scoped else None
        ids = search.ids_of(connection, collection.service.tables, kind, name, scope=scope, limit=_MAX_NAMED + 1)
        if not ids:
            raise not_found(f"{kind.name} {name}")
        if len(ids) > 1:
            more = " and more" if len(ids) > _MAX_NAMED else ""
            shown = ids[:_MAX_NAMED]
            raise Problem(409, f"Several {kind.plural} have the name {name}: {', '.join(shown)}{more}", ids=shown)
        return ids[0]


class EntityHistory:
    """``/v1/{plural}/{id}/history``: the changes of one entity in the journal."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        self._collection = collection
        self.on_get = operation(
            summary=f"Show the changes of one {kind.name}",
            rule=collection.rules["history"],
            query=schemas.paging(collection.service.max_limit)
            | {
                "marker": schemas.SEQ | {"default": 0, "description": "The page begins after this seq in its order."},
                "sort": {"enum": ["seq", "-seq"], "default": "seq", "description": "-seq: the latest change first."},
                "values": {
                    "enum": ["all", "short"],
                    "default": "all",
                    "description": f"short: fields with a value of more than {_SHORT_BYTES} bytes are only named.",
                },
                "actor": BY_ACTOR,
            },
            responses={200: Answer(schemas.collection("history", _CHANGE), "A page of the history")},
            errors=(404,),
            tag=kind.plural,
        )(self.list_page)

    def list_page(self, call: Call, entity_id: str) -> None:
        """Answers with one page."""
        _history(self._collection, call, entity_id)


def _history(collection: Collection, call: Call, entity_id: str) -> None:
    kind, tables = collection.kind, collection.service.tables
    query = call.query
    limit, newest_first = query["limit"], query["sort"] == "-seq"
    with collection.service.reading() as connection:
        found = reading.read_history(
            connection, tables, kind.name, entity_id,
            marker=int(query["marker"]), limit=limit, newest_first=newest_first,
        )  # fmt: skip
        owner = reading.read_owner(connection, tables, kind, entity_id, deleted=True)
    if owner is None:
        raise not_found(f"{kind.name} {entity_id}")
    collection.require_project(call, owner.project_id, entity_id)
    sight = visibility(call.context, collection.service.kinds)
    marker = found.rows[-1].seq if found.more else None
    page = AnswerPage(limit)
    for row in (stored.undecoded() for stored in found.rows):
        # The caller sees the entity. A row without a project is from before it had one, or before the column existed.
        is_seen = not kind.is_scoped or row.project_id is None or sight.sees(row.project_id)
        if is_seen and (shown := sight.shown(row)) is not None and is_by(query.get("actor"), shown):
            change = shown.document()
            page.add(_shortened(change) if query["values"] == "short" else change)
    call.answer({"history": page.documents, **call.next_page(marker)})


def _shortened(change: dict[str, Any]) -> dict[str, Any]:
    """A change without the fields that have a long value, and the names of these."""
    delta = change["delta"]
    long = [name for name, values in delta.items() if any(len(msgspec.json.encode(v)) > _SHORT_BYTES for v in values)]
    return {**change, "delta": {n: v for n, v in delta.items() if n not in long}, "long_fields": long}
