# SPDX-License-Identifier: Apache-2.0
"""The list of every kind, derived from the kind's declaration.

A list can be filtered and sorted by the fields of the kind (:mod:`~watcher_sync.api.entities.entity_filters`). Sorted
by id, the pages contain exactly once every entity that exists and matches during the whole listing. A caller that reads
all pages, and then the events since the ``seq`` of the *first* page, misses nothing.

With ``versions=true`` each entity has its versions.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.api.entities import entity_filters
from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.http import schemas
from watcher_sync.api.http.etags import MARK
from watcher_sync.api.http.operation import Answer, Call, operation
from watcher_sync.api.http.positions import AS_OF, AS_OF_ANSWER, AS_OF_HEADER, EPOCH_HEADER, PARAMETERS
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.http.rules import ADMIN_ONLY_FIELDS
from watcher_sync.api.service import ReadSource
from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.model.visibility import Hidden, seen
from watcher_sync.read.entity_reader import After, EntityReader, Sort
from watcher_sync.read.filters import FieldCondition
from watcher_sync.read.reading import read_owner
from watcher_sync.storage.epochs import read_position
from watcher_sync.storage.groups.removed_sources import RemovedOfKind
from watcher_sync.wire.fields import BadEnvelope

MAX_IDS = 100
"""Ids that a list may be asked for."""

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

_VERSIONS: schemas.Schema = {
    "type": "object",
    "additionalProperties": schemas.STRING,
    "description": "facet -> the version that wrote it last; only with versions=true.",
}

_MARKED = b',"%b":true}' % MARK.encode()
"""How the text of an entity of a removed source ends."""


class EntityList:
    """``/v1/{plural}``: all entities of one kind."""

    def __init__(self, collection: Collection) -> None:
        kind = collection.kind
        item = self.item_schema(collection)
        item = {**item, "properties": {**item["properties"], "versions": _VERSIONS}}
        schema = schemas.collection(kind.plural, item, seq=schemas.SEQ, as_of=AS_OF_ANSWER)
        self._collection = collection
        self.on_get = operation(
            summary=f"List {kind.plural}",
            rule=collection.rules["list"],
            query=self.parameters(collection),
            responses={200: Answer(schema, f"A page of {kind.plural}", headers=(AS_OF_HEADER,))},
            errors=(404, 410),
            tag=kind.plural,
        )(self.list_page)

    def parameters(self, collection: Collection) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        kind = collection.kind
        return {
            **entity_filters.parameters(kind),
            **schemas.paging(collection.service.max_limit),
            "sort": {
                "enum": [sign + name for name in collection.sorts for sign in ("", "-")], "default": "id",
                "description": "The field to sort by; a leading - reverses the order.",
            },
            **collection.fields_parameter(),
            **_REPLICATION,
            **PARAMETERS,
            **(schemas.all_projects("the entities") if kind.is_scoped else {}),
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
        call.context.require_everything()
        if AS_OF in call.query:
            raise bad_request("query", f"/{AS_OF}", f"{AS_OF} and versions exclude each other")
        reader, marker = collection.states, call.query.get("marker")
        conditions = _scoped_conditions(collection.kind, call, _filtered(collection.kind, call.query))
        with collection.service.reading(short=True) as connection:
            head = read_position(connection, collection.service.tables)
            call.response.set_header(EPOCH_HEADER, head.epoch)
            page = reader.page(
                connection,
                limit=int(call.query["limit"]),
                after=None if marker is None else After(None, marker.replace("\0", "")),
                conditions=conditions,
                ids=_wanted_ids(call),
            )
        states = [msgspec.Raw(reader.encode(row)) for row in page.rows]
        last = page.rows[-1][reader.position["id"]] if page.more else None
        call.answer({collection.kind.plural: states, **call.next_page(last), "seq": head.seq})

    def answer_page(self, collection: Collection, call: Call) -> None:
        """Reads a page and answers with it."""
        chosen = call.query.get("fields")
        wanted = ListRequest(collection, call, chosen or ())
        has_marks = not chosen and AS_OF not in call.query
        # Read here: a request with two connections could wait for the pool, as others do.
        removed = collection.service.removed_of(collection.kind.name) if has_marks else None
        with collection.service.source(call, collection.kinds_read, short=True) as source:
            if wanted.after is not None:
                wanted.require_known_marker(source.connection, call, wanted.after.id)
            page = wanted.read(source, chosen or collection.names, wanted.hidden, removed=removed)
        texts = [msgspec.Raw(text) for text in page.texts()]
        marker = wanted.marker(page.end(len(texts))) if page.more else None
        call.answer({collection.kind.plural: texts, **call.next_page(marker), **source.about()})


class ListPage(msgspec.Struct, frozen=True):
    """Entities of a list, as they were read."""

    reader: EntityReader
    rows: Sequence[Sequence[Any]]
    facts: Sequence[Mapping[str, Any]]
    """Of each entity what is not in its text as it is stored."""
    more: bool
    """Whether entities follow after the last one."""
    partly_hidden: Hidden
    """Field -> its members that are left out."""
    removed: RemovedOfKind | None
    """The entities that are marked; None: none are."""

    def texts(self) -> Iterator[bytes]:
        """The entities as JSON."""
        reader = self.reader
        for row, facts in zip(self.rows, self.facts, strict=True):
            values = self._visible(row) if self.partly_hidden else row
            text = reader.encode(values, [facts[name] for name in reader.computed])
            yield text[:-1] + _MARKED if self.removed is not None and self.removed.has(facts) else text

    def end(self, number: int) -> After:
        """Where the page ends if it has so many entities."""
        return After(self.rows[number - 1][-1], self.facts[number - 1]["id"])

    def _visible(self, row: Sequence[Any]) -> list[Any]:
        values = list(row)
        for name in self.partly_hidden:
            if (text := values[self.reader.position[name]]) is not None:
                shown = seen({name: msgspec.json.decode(text)}, self.partly_hidden)
                values[self.reader.position[name]] = msgspec.json.encode(shown[name])
        return values


class ListRequest:
    """What a request asks of a list: filters, sort, marker and limit."""

    def __init__(self, collection: Collection, call: Call, chosen: Iterable[str]) -> None:
        """:param chosen: the fields that the request names; the caller has to see them.

        :raises Problem: 400 or 403 when the request asks for what makes no sense, or what the caller does not see.
        """
        kind, query = collection.kind, call.query
        self._collection = collection
        filtered = _filtered(kind, query)
        self._conditions = _scoped_conditions(kind, call, filtered)
        self._sort = Sort(query["sort"].lstrip("-"), query["sort"].startswith("-"))
        self._ids = _wanted_ids(call)
        used = [*filtered, self._sort.field]
        self.hidden = call.context.require_visible(kind, [*chosen, *used])
        """What the caller does not see."""
        _require_in_the_journal(kind, used, call)
        _require_visible_members(call, self._conditions, self.hidden)
        self.limit = int(query["limit"])
        self.after = _after(kind, self._sort, query.get("marker"))
        """Where the page before ended; None: this is the first one."""

    def require_known_marker(self, connection: sa.Connection, call: Call, entity_id: str) -> None:
        """Checks the marker of a list of the present; the past may have had other entities.

        :raises Problem: 404 when it names no entity that the caller sees, or saw until the entity was deleted.
        """
        if AS_OF in call.query:
            return
        kind = self._collection.kind
        owner = read_owner(connection, self._collection.service.tables, kind, entity_id, deleted=True)
        scope = call.context.scope if kind.is_scoped else None
        if owner is None or scope not in (None, owner.project_id):
            raise Problem(404, f"marker: {kind.name} {entity_id} does not exist")

    def read(
        self,
        source: ReadSource,
        names: Container[str],
        hidden: Hidden,
        *,
        after: After | None = None,
        removed: RemovedOfKind | None = None,
    ) -> ListPage:
        """One page.

        :param names: the members of each entity.
        :param hidden: what is left out of them.
        :param after: where the page begins; None: where the request says.
        :param removed: the entities that are marked; None: none are.
        """
        collection, service = self._collection, self._collection.service
        kind = collection.kind
        shown = tuple(name for name in collection.names if name in names and hidden.get(name) != ())
        reader = collection.reader(source.connection.dialect.name, shown, () if removed is None else removed.fields)
        page = reader.page(
            source.connection,
            limit=self.limit,
            sort=self._sort,
            after=after or self.after,
            conditions=self._conditions,
            ids=self._ids,
        )
        facts = [reader.beside(row) for row in page.rows]
        source.add_seqs(service.tables, kind, facts)
        for each in collection.computed:
            if not each.schemas.keys().isdisjoint(shown):
                each.add(source.connection, service.tables, facts)
        return ListPage(
            reader,
            page.rows,
            facts,
            page.more,
            {name: members for name, members in hidden.items() if members and name in shown},
            removed,
        )

    def marker(self, end: After) -> str:
        """The marker of the next page: the id, or the sort value (escaped; * for null) and the id."""
        if self._sort.field == "id":
            return end.id
        return f"{'*' if end.value is None else _escaped(entity_filters.text_of(end.value))},{end.id}"


def _filtered(kind: Kind, query: Mapping[str, Any]) -> list[str]:
    """The fields that the filters of a request name, and those of which they name a member."""
    return [name for name in ("id", *kind.fields) if name in query]


def _scoped_conditions(kind: Kind, call: Call, filtered: Sequence[str]) -> list[FieldCondition]:
    """The conditions of the request, and the one that leaves the caller's project alone, unless it sees all.

    :param filtered: the fields that its filters name.
    :raises Problem: 403 when the request asks for another project, or for all, and the policy does not allow it.
    """
    found = entity_filters.conditions(kind, call.query, filtered) if filtered else []
    if not kind.is_scoped:
        return found
    scope = call.context.scope_of(call.query.get("all_projects"))
    if scope is None:
        return found
    asked = {value for each in found if each.field == PROJECT_FIELD and each.operator == "eq" for value in each.values}
    for project_id in asked - {scope}:
        call.context.require_on(call.rule, project_id)
    return found if asked else [*found, FieldCondition(PROJECT_FIELD, "eq", (scope,))]


def _wanted_ids(call: Call) -> list[str] | None:
    """The ids of the parameter ``ids``; None: the request has none."""
    ids = call.query.get("ids")
    return None if ids is None else [urllib.parse.unquote(each).replace("\0", "") for each in ids]


def _require_in_the_journal(kind: Kind, names: Iterable[str], call: Call) -> None:
    """:raises Problem: 400 when the request filters or sorts the past by a field that the journal does not have."""
    if AS_OF in call.query and kind.last_seen_field is not None and kind.last_seen_field in set(names):
        raise bad_request("query", f"/{kind.last_seen_field}", f"{kind.last_seen_field} is unknown with {AS_OF}")


def _require_visible_members(call: Call, wanted: Iterable[FieldCondition], hidden: Hidden) -> None:
    """:raises Problem: 403 when a filter names a member that the caller does not see."""
    for each in wanted:
        if each.member is not None and each.member in {path.partition(".")[0] for path in hidden.get(each.field, ())}:
            raise call.context.refusal([ADMIN_ONLY_FIELDS])


def _escaped(text: str) -> str:
    """Percent-encodes what a marker gives a meaning to, so that a marker is about as long as its value."""
    text = text.replace("%", "%25").replace(",", "%2C")
    return f"%2A{text[1:]}" if text.startswith("*") else text


def _after(kind: Kind, sort: Sort, marker: str | None) -> After | None:
    """Decodes a marker of a list. Every other text is a valid position too, if it is that of a value.

    :raises Problem: 400 when it is none.
    """
    if marker is None:
        return None
    text = marker.replace("\0", "")
    if sort.field == "id":
        return After(None, text)
    value, _, entity_id = text.partition(",")
    if value == "*":
        return After(None, entity_id)
    try:
        value = entity_filters.value_of(kind.fields[sort.field].python, urllib.parse.unquote(value))
    except (ValueError, KeyError, BadEnvelope):
        raise bad_request("query", "/marker", f"marker is no position in a list sorted by {sort.field}") from None
    return After(value, entity_id)
