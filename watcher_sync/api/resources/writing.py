# SPDX-License-Identifier: Apache-2.0
"""Resources that can be written: POST, PUT and DELETE, declared once for every such kind.

A write is one short transaction under the locked journal head, so it is coherent with every engine. It is
committed when it is answered. Its version is made of the journal's seq and is newer than that of any event.
``If-Match`` and ``If-None-Match`` are compared with the ETag inside the transaction: of two writers who read the
same version, one gets 412. An id is never used again: a deletion is final.

A kind says what differs as a :class:`WritableKind`.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from watcher_sync.api.core import etags, schemas
from watcher_sync.api.core.operation import JSON, Answer, Body, Call, Rule, operation
from watcher_sync.api.core.problems import Problem, not_found
from watcher_sync.api.core.schemas import Schema
from watcher_sync.api.resources.entities import Collection, EntityItem, EntityList
from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, Outcome, Upsert
from watcher_sync.model.kinds import Entity, Kind

WRITER = "role:admin or role:member"

ID: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_~:@-][A-Za-z0-9._~:@-]{0,254}$",
    "description": "Id; a uuid unless given.",
}

# In words: a parameter's schema cannot say that most of its values are refused most of the time.
CONDITIONS = "If-Match and If-None-Match (RFC 9110, section 13.1) are held against the ETag; 412 where one fails."


class WritableKind(abc.ABC):
    """What the API writes of one kind."""

    fields: Mapping[str, Schema]
    """The fields of a body."""
    required: Sequence[str]
    create_summary: str
    create_description: str
    replace_summary: str
    replace_description: str
    delete_summary: str
    delete_description: str

    @abc.abstractmethod
    def values(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The fields that a body gives, in one form.

        :raises Problem: 400 naming the fields that make no sense.
        """

    @abc.abstractmethod
    def facets(
        self, values: Mapping[str, Any], old: Entity | None, now: datetime.datetime
    ) -> dict[str, dict[str, Any]]:
        """facet -> its values to be written.

        :param old: the entity before the write; None: there is none.
        """

    @contextlib.contextmanager
    def exclusive(self, call: Call, entity_id: str, *, deletes: bool) -> Iterator[Callable[[DirectCommitCycle], None]]:
        """Hold what a write of one entity needs, such as its operation lease; by default nothing.

        :returns: a check to be made inside the transaction.
        """
        yield lambda _cycle: None

    def schema(self, kind: Kind) -> Schema:
        """The entity as answers show it."""
        return schemas.entity_schema(kind)

    def document(self, kind: Kind, entity: Entity) -> dict[str, Any]:
        """The entity as answers show it, without its seq."""
        return kind.to_json(entity)


class WritableList(EntityList):
    """The list of a kind, with POST."""

    def __init__(self, collection: Collection, writer: DirectWriter, writable: WritableKind) -> None:
        super().__init__(collection)
        kind = collection.kind
        body = body_schema(kind, writable)
        self._kind = kind
        self._writer = writer
        self._writable = writable
        self.on_post = operation(
            summary=writable.create_summary,
            description=writable.create_description,
            rule=Rule(f"{kind.plural}:create", WRITER),
            body=Body({JSON: {**body, "properties": {"id": ID, **body["properties"]}}}),
            responses={201: Answer(writable.schema(kind), "It is made", headers=("ETag", "Location"))},
            errors=(409, 422),
            tag=kind.plural,
        )(self.create)

    def create(self, call: Call) -> None:
        """Make an entity under a new id."""
        kind = self._kind
        entity_id = call.body.pop("id", None) or str(uuid.uuid4())
        values = self._writable.values(call.body)
        with self._writer.begin() as cycle:
            if cycle.view.get(kind.name, entity_id) is not None:
                raise Problem(409, f"{kind.name} {entity_id} exists already")
            entity = put(cycle, kind, entity_id, values, self._writable)
        call.response.set_header("Location", f"{call.request.path.rstrip('/')}/{entity_id}")
        answer(call, kind, entity, self._writable, 201)


class WritableItem(EntityItem):
    """The item of a kind, with PUT and DELETE."""

    def __init__(self, collection: Collection, writer: DirectWriter, writable: WritableKind) -> None:
        self._writer = writer
        self._writable = writable
        super().__init__(collection)
        kind = collection.kind
        schema = writable.schema(kind)
        self.on_put = operation(
            summary=writable.replace_summary,
            description=writable.replace_description,
            rule=Rule(f"{kind.plural}:replace", WRITER),
            path={"entity_id": ID},
            body=Body({JSON: body_schema(kind, writable)}),
            responses={
                200: Answer(schema, "It is replaced", headers=("ETag",)),
                201: Answer(schema, "It is made", headers=("ETag",)),
            },
            errors=(409, 412, 422),
            tag=kind.plural,
        )(self.replace)
        self.on_delete = operation(
            summary=writable.delete_summary,
            description=writable.delete_description,
            rule=Rule(f"{kind.plural}:delete", WRITER),
            responses={204: Answer(None, "It is gone")},
            errors=(404, 409, 412),
            tag=kind.plural,
        )(self.delete)

    def schema(self) -> Schema:
        """The entity as the item shows it."""
        return self._writable.schema(self.collection.kind)

    def replace(self, call: Call, entity_id: str) -> None:
        """Make the entity, or replace what the API owns of it."""
        kind = self.collection.kind
        values = self._writable.values(call.body)
        with self._writable.exclusive(call, entity_id, deletes=False) as check, self._writer.begin() as cycle:
            check(cycle)
            old = cycle.view.get(kind.name, entity_id)
            etags.require(call, etags.of(kind, old.seq) if old is not None else None)
            entity = put(cycle, kind, entity_id, values, self._writable)
        answer(call, kind, entity, self._writable, 201 if old is None else 200)

    def delete(self, call: Call, entity_id: str) -> None:
        """Delete the entity for good."""
        kind = self.collection.kind
        self.collection.require_existing(entity_id)  # nothing is held for what does not exist
        with self._writable.exclusive(call, entity_id, deletes=True) as check, self._writer.begin() as cycle:
            check(cycle)
            old = cycle.view.get(kind.name, entity_id)
            if old is None:
                raise not_found(f"{kind.name} {entity_id}")
            etags.require(call, etags.of(kind, old.seq))
            change = Delete(kind.name, entity_id, cycle.next_version())
            cycle.write(_cause(kind, "deleted", entity_id, _utcnow()), [change])
        call.nothing()


def body_schema(kind: Kind, writable: WritableKind) -> Schema:
    """The schema of a body, with the descriptions of the kind's fields."""
    properties = {name: schema | {"description": kind.fields[name].doc} for name, schema in writable.fields.items()}
    return {
        "type": "object",
        "required": list(writable.required),
        "additionalProperties": False,
        "properties": properties,
    }


def put(
    cycle: DirectCommitCycle, kind: Kind, entity_id: str, values: Mapping[str, Any], writable: WritableKind
) -> Entity:
    """Make or replace an entity; nothing is written where it has these values already.

    :raises Problem: 409 where the id belonged to an entity that was deleted.
    """
    now = _utcnow()
    old = cycle.view.get(kind.name, entity_id)
    if old is not None and all(getattr(old, name) == value for name, value in values.items()):
        return old
    change = Upsert(kind.name, entity_id, cycle.next_version(), writable.facets(values, old, now))
    outcome = cycle.write(_cause(kind, "created" if old is None else "updated", entity_id, now), [change])
    entity = cycle.view.get(kind.name, entity_id)
    if outcome is not Outcome.APPLIED or entity is None:
        raise Problem(409, f"The id {entity_id} belonged to a {kind.name} that was deleted; take another")
    return entity


def answer(call: Call, kind: Kind, entity: Entity, writable: WritableKind, status: int) -> None:
    """Answer with the entity and its ETag."""
    call.response.set_header("ETag", etags.of(kind, entity.seq))
    call.answer({**writable.document(kind, entity), "seq": entity.seq}, status)


def _cause(kind: Kind, what: str, entity_id: str, now: datetime.datetime) -> Event:
    """The event that the journal records as the cause: created, updated or deleted."""
    return Event(id=str(uuid.uuid4()), type=f"{kind.name}.{what}", source="api", subject=entity_id, time=now)


def _utcnow() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
