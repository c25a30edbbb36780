# SPDX-License-Identifier: Apache-2.0
"""POST, PUT and DELETE for every kind of which the API owns a facet.

A write is one short transaction under the locked journal head, so it is coherent with every engine. The version of a
write contains the journal's seq, and is newer than that of any event.

The transaction compares ``If-Match`` and ``If-None-Match`` with the ETag. A deletion is final: no later entity can have
the id.

An entity belongs to the project of the token that creates it, unless the policy allows another ``project_id``. Ids are
unique in the whole installation. The id of another project's entity gets 404 before any comparison and any lease.

A :class:`WritableKind` describes the differences between the kinds.
"""

from __future__ import annotations

import abc
import contextlib
import datetime
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_item import EntityItem
from watcher_sync.api.entities.entity_list import EntityList
from watcher_sync.api.http import etags, schemas
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.problems import Problem, not_found
from watcher_sync.api.http.rules import PROJECT_MEMBER
from watcher_sync.api.http.schemas import Schema
from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, Outcome, Upsert
from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kind, project_of
from watcher_sync.model.visibility import seen

_PROJECT: Schema = schemas.nullable(schemas.SHORT_TEXT) | {
    "description": "The project that owns it; by default that of the token. Only administrators name another one."
}

ID: Schema = {
    "type": "string",
    "pattern": "^[A-Za-z0-9_~:@-][A-Za-z0-9._~:@-]{0,254}$",
    "description": "The id; a new uuid by default.",
}

# The headers have no schema: whether a value is valid depends on the entity, so a generated value would mostly fail.
CONDITIONS = (
    "The API compares If-Match and If-None-Match (RFC 9110, section 13.1) with the ETag, and answers 412 if one fails."
)


UNLIMITED = -1


def require_room(
    cycle: DirectCommitCycle, kind: Kind, old: Entity | None, values: Mapping[str, Any], quota: int
) -> None:
    """Require that the project has room for an entity that the write creates, or moves into the project.

    The transaction that creates an entity counts the others. It holds the lock of the journal's head, so two requests
    at the same time cannot both take the last place.

    :param cycle: the transaction of the write.
    :param old: the entity before the write; None: it does not exist.
    :param values: the fields to write.
    :param quota: the maximum in one project; -1: no limit.
    :raises Problem: 403 when the quota is exceeded.
    """
    project_id = values.get(PROJECT_FIELD)
    if quota < 0 or project_id is None or (old is not None and getattr(old, PROJECT_FIELD, None) == project_id):
        return
    table = cycle.store.tables.entities[kind.name]
    query = sa.select(sa.func.count()).select_from(table).where(table.c[PROJECT_FIELD] == project_id)
    with cycle.store.connect() as connection:
        count = connection.execute(query).scalar_one()
    if count >= quota:
        raise Problem(
            403,
            f"Quota exceeded: project {project_id} has {count} {kind.plural}, and {quota} are allowed",
            quota=quota,
            used=count,
        )


class WritableKind(abc.ABC):
    """The fields of one kind that the API writes, and how."""

    quota: int = UNLIMITED
    """The maximum number of entities in one project (``[api] quota_*``)."""
    fields: Mapping[str, Schema]
    """The fields of a body."""
    required: Sequence[str]
    create_summary: str
    create_description: str
    replace_summary: str
    replace_description: str
    delete_summary: str
    delete_description: str

    def prepare(self, body: Any) -> Any:
        """Converts a decoded body to the form that its schema describes; by default it is that form.

        :raises Problem: 400 when it cannot be converted.
        """
        return body

    @abc.abstractmethod
    def values(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Normalizes a body to the fields of the kind.

        :raises Problem: 400 when a field is invalid; ``errors`` names it.
        """

    @abc.abstractmethod
    def facets(
        self, values: Mapping[str, Any], old: Entity | None, now: datetime.datetime
    ) -> dict[str, dict[str, Any]]:
        """Returns the values to write: facet -> field -> value.

        :param old: the entity before the write; None: it does not exist.
        """

    def more_rules(self, kind: Kind) -> Sequence[Rule]:
        """The rules that :meth:`authorize` requires."""
        return ()

    def authorize(  # noqa: B027 - most kinds allow all values
        self, call: Call, kind: Kind, values: Mapping[str, Any]
    ) -> None:
        """Requires that the policy allows these values, the project among them; by default it does.

        :raises Problem: 403 when it does not.
        """

    @contextlib.contextmanager
    def exclusive(self, call: Call, entity_id: str, *, deletes: bool) -> Iterator[Callable[[DirectCommitCycle], None]]:
        """Holds what a write of one entity needs, such as its operation lease; by default nothing.

        :returns: a check that the writer calls inside the transaction.
        """
        yield lambda _cycle: None

    def schema(self, kind: Kind) -> Schema:
        """The schema of the entity in answers."""
        return schemas.entity_schema(kind)

    def document(self, call: Call, kind: Kind, entity: Entity) -> dict[str, Any]:
        """Returns the entity as in answers, without its seq."""
        return kind.to_json(entity)


_REPLACE: Schema = {
    "type": "boolean",
    "default": False,
    "description": "true: the id may be that of a deleted entity, which the new one replaces.",
}


def _replacing(kind: Kind) -> dict[str, Schema]:
    """The query parameters of a request that may create an entity of a kind."""
    return {"replace": _REPLACE} if kind.ids_reused else {}


class WritableList(EntityList):
    """The list of a kind, with POST."""

    def __init__(self, collection: Collection, writer: DirectWriter, writable: WritableKind) -> None:
        super().__init__(collection)
        kind = collection.kind
        body = body_schema(kind, writable)
        self._kind = kind
        self._collection = collection
        self._writer = writer
        self._writable = writable
        self.on_post = operation(
            summary=writable.create_summary,
            description=writable.create_description,
            rule=Rule(f"{kind.plural}:create", PROJECT_MEMBER),
            more_rules=writable.more_rules(kind),
            query=_replacing(kind),
            body=Body({JSON: {**body, "properties": {"id": ID, **body["properties"]}}}, prepare=writable.prepare),
            responses={201: Answer(writable.schema(kind), "The entity is created", headers=("ETag", "Location"))},
            errors=(403, 404, 409, 422),
            tag=kind.plural,
        )(self.create)

    def create(self, call: Call) -> None:
        """Creates an entity under a new id."""
        kind, collection = self._kind, self._collection
        body = dict(call.body)
        given = body.pop("id", None)
        entity_id = given or str(uuid.uuid4())
        project_id = body.pop(PROJECT_FIELD, call.context.project_id)
        call.context.require_on(call.rule, project_id)
        values = {**self._writable.values(body), PROJECT_FIELD: project_id}
        self._writable.authorize(call, kind, values)
        deleted = collection.require_owned(call, entity_id) if given is not None else None
        with self._writer.begin(call.context.actor) as cycle:
            old = cycle.view.get(kind.name, entity_id)
            if old is not None:
                collection.require_project(call, project_of(old), entity_id)
                raise Problem(409, f"{kind.name} {entity_id} exists already")
            replaces = call.query.get("replace", False)
            entity = put(cycle, kind, entity_id, values, self._writable, deleted, replaces=replaces)
        call.response.set_header("Location", call.link(None, entity_id))
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
            rule=Rule(f"{kind.plural}:replace", PROJECT_MEMBER),
            more_rules=writable.more_rules(kind),
            path={"entity_id": ID},
            query=_replacing(kind),
            body=Body({JSON: body_schema(kind, writable)}, prepare=writable.prepare),
            responses={
                200: Answer(schema, "The entity is replaced", headers=("ETag",)),
                201: Answer(schema, "The entity is created", headers=("ETag",)),
            },
            errors=(403, 404, 409, 412, 422),
            tag=kind.plural,
        )(self.replace)
        self.on_delete = operation(
            summary=writable.delete_summary,
            description=writable.delete_description,
            rule=Rule(f"{kind.plural}:delete", PROJECT_MEMBER),
            responses={204: Answer(None, "The entity is deleted")},
            errors=(404, 409, 412),
            tag=kind.plural,
        )(self.delete)

    def schema(self) -> Schema:
        """The schema of the entity in answers."""
        return self._writable.schema(self.collection.kind)

    def replace(self, call: Call, entity_id: str) -> None:
        """Creates the entity, or replaces its facets that the API owns."""
        kind, collection = self.collection.kind, self.collection
        body = dict(call.body)
        given: dict[str, Any] = {PROJECT_FIELD: body.pop(PROJECT_FIELD)} if PROJECT_FIELD in body else {}
        values = self._writable.values(body)
        if given:
            call.context.require_on(call.rule, given[PROJECT_FIELD])
        # Before a lease is taken, and before the ETags are compared.
        deleted = collection.require_owned(call, entity_id)
        actor = call.context.actor
        with self._writable.exclusive(call, entity_id, deletes=False) as check, self._writer.begin(actor) as cycle:
            check(cycle)
            old = cycle.view.get(kind.name, entity_id)
            if old is not None:
                collection.require_project(call, project_of(old), entity_id)
            values |= given or {PROJECT_FIELD: call.context.project_id if old is None else project_of(old)}
            self._writable.authorize(call, kind, values)
            etags.require(call, etags.of(kind, old.seq) if old is not None else None)
            replaces = call.query.get("replace", False)
            entity = put(cycle, kind, entity_id, values, self._writable, deleted, replaces=replaces)
        answer(call, kind, entity, self._writable, 201 if old is None else 200)

    def delete(self, call: Call, entity_id: str) -> None:
        """Deletes the entity."""
        kind = self.collection.kind
        self.collection.require_existing(call, entity_id)  # without an entity no lease is taken
        actor = call.context.actor
        with self._writable.exclusive(call, entity_id, deletes=True) as check, self._writer.begin(actor) as cycle:
            check(cycle)
            old = cycle.view.get(kind.name, entity_id)
            if old is None:
                raise not_found(f"{kind.name} {entity_id}")
            self.collection.require_project(call, project_of(old), entity_id)
            etags.require(call, etags.of(kind, old.seq))
            change = Delete(kind.name, entity_id, cycle.next_version())
            cycle.write(_cause(kind, "deleted", entity_id, _utcnow()), [change])
        call.answer_nothing()


def body_schema(kind: Kind, writable: WritableKind) -> Schema:
    """The schema of a request's body, with the descriptions of the kind's fields."""
    properties = {name: schema | {"description": kind.fields[name].doc} for name, schema in writable.fields.items()}
    properties[PROJECT_FIELD] = _PROJECT
    return {
        "type": "object",
        "required": list(writable.required),
        "additionalProperties": False,
        "properties": properties,
    }


def put(
    cycle: DirectCommitCycle,
    kind: Kind,
    entity_id: str,
    values: Mapping[str, Any],
    writable: WritableKind,
    deleted: Problem | None = None,
    *,
    replaces: bool,
) -> Entity:
    """Creates or replaces an entity. If the entity has these values already, nothing is written.

    :param deleted: the problem of an id that belonged to a deleted entity; None: 409.
    :param replaces: whether the entity may replace a deleted one of its id.
    :raises Problem: when the id belonged to a deleted entity; 403 when the quota of the project is exceeded.
    """
    now = _utcnow()
    old = cycle.view.get(kind.name, entity_id)
    if old is not None and all(getattr(old, name) == value for name, value in values.items()):
        return old
    was_deleted = Problem(409, f"The id {entity_id} belonged to a deleted {kind.name}; choose another id")
    if kind.ids_reused and old is None and not replaces and cycle.model.tombstone(kind.name, entity_id) is not None:
        was_deleted.detail += ", or say replace=true"
        raise deleted or was_deleted
    require_room(cycle, kind, old, values, writable.quota)
    change = Upsert(kind.name, entity_id, cycle.next_version(), writable.facets(values, old, now))
    outcome = cycle.write(_cause(kind, "created" if old is None else "updated", entity_id, now), [change])
    entity = cycle.view.get(kind.name, entity_id)
    if outcome is not Outcome.APPLIED or entity is None:
        raise deleted or was_deleted
    return entity


def answer(call: Call, kind: Kind, entity: Entity, writable: WritableKind, status: int) -> None:
    """Answers with the entity and its ETag."""
    call.response.set_header("ETag", etags.of(kind, entity.seq))
    document = seen(writable.document(call, kind, entity), call.context.hidden(kind))
    call.answer({**document, "seq": entity.seq}, status)


def _cause(kind: Kind, what: str, entity_id: str, now: datetime.datetime) -> Event:
    """The event that the journal records as the cause: created, updated or deleted."""
    return Event(id=str(uuid.uuid4()), type=f"{kind.name}.{what}", source="api", subject=entity_id, time=now)


def _utcnow() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
