# SPDX-License-Identifier: Apache-2.0
"""Writing ``/v1/service_type_instances``: the one kind whose spec the API owns.

A write is one short transaction with the journal's head locked, so it is coherent with every engine, and it
is committed when it is answered. Its version is made of the journal's seq and is newer than that of any event: what is
written here is not overwritten by what a provider says, which has facets of its own. Events that were
parked because the instance did not exist yet are taken up in the same transaction.

``If-Match`` and ``If-None-Match`` are held against the ETag inside the transaction: of two writers who read the same
version one gets 412. An id is never used again: a deletion is final.
"""

from __future__ import annotations

import uuid
from typing import Any

from watcher_sync.api.core import etags, schemas
from watcher_sync.api.core.operation import JSON, Answer, Body, Call, Rule, operation
from watcher_sync.api.core.problems import Problem, not_found
from watcher_sync.api.resources.entities import Collection, item_resource, list_resource
from watcher_sync.api.resources.writing import CONDITIONS, ID, WRITER, cause, utcnow
from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.model.changes import Delete, Outcome, Upsert
from watcher_sync.model.entities import ServiceTypeInstance
from watcher_sync.model.kinds import Entity, Kind

KIND = "service_type_instance"

_WRITTEN: dict[str, schemas.Schema] = {
    "service_type": schemas.PLAIN,
    "instance_name": schemas.nullable(schemas.PLAIN),
    "spec": schemas.nullable({"type": "object"}),
    "provider_name": schemas.nullable(schemas.PLAIN),
}


def writable_list(collection: Collection, writes: DirectWriter) -> object:
    """The list, with POST."""
    kind = collection.kind
    written = _written(kind)

    class WritableList(type(list_resource(collection))):  # type: ignore[misc]
        """The list, and where a new one is made."""

        @operation(
            summary=f"Make a {kind.name}",
            rule=Rule(f"{kind.plural}:create", WRITER),
            body=Body({JSON: {**written, "properties": {"id": ID, **written["properties"]}}}),
            responses={201: Answer(schemas.entity_schema(kind), "It is made", headers=("ETag", "Location"))},
            errors=(409, 422),
            tag=kind.plural,
        )
        def on_post(self, call: Call) -> None:
            entity_id = call.body.pop("id", None) or str(uuid.uuid4())
            with writes.begin() as cycle:
                if cycle.view.get(KIND, entity_id) is not None:
                    raise Problem(409, f"{kind.name} {entity_id} exists already")
                entity = _put(cycle, kind, entity_id, call.body)
            call.response.set_header("Location", f"{call.request.path.rstrip('/')}/{entity_id}")
            _answer(call, kind, entity, 201)

    return WritableList()


def writable_item(collection: Collection, writes: DirectWriter) -> object:
    """The item, with PUT and DELETE."""
    kind = collection.kind
    answer = schemas.entity_schema(kind)

    class WritableItem(type(item_resource(collection))):  # type: ignore[misc]
        """The item, and how it is replaced and deleted."""

        @operation(
            summary=f"Make or replace a {kind.name}",
            description="What is left out of the body has no value afterwards; what the provider wrote stays. "
            + CONDITIONS,
            rule=Rule(f"{kind.plural}:replace", WRITER),
            path={"entity_id": ID},
            body=Body({JSON: _written(kind)}),
            responses={
                200: Answer(answer, "It is replaced", headers=("ETag",)),
                201: Answer(answer, "It is made", headers=("ETag",)),
            },
            errors=(409, 412, 422),
            tag=kind.plural,
        )
        def on_put(self, call: Call, entity_id: str) -> None:
            with writes.begin() as cycle:
                old = cycle.view.get(KIND, entity_id)
                etags.demand(call, etags.of(kind, old.seq) if old is not None else None)
                entity = _put(cycle, kind, entity_id, call.body)
            _answer(call, kind, entity, 201 if old is None else 200)

        @operation(
            summary=f"Delete a {kind.name}",
            rule=Rule(f"{kind.plural}:delete", WRITER),
            description=CONDITIONS,
            responses={204: Answer(None, "It is gone")},
            errors=(404, 412),
            tag=kind.plural,
        )
        def on_delete(self, call: Call, entity_id: str) -> None:
            with writes.begin() as cycle:
                old = cycle.view.get(KIND, entity_id)
                if old is None:
                    raise not_found(f"{kind.name} {entity_id}")
                etags.demand(call, etags.of(kind, old.seq))
                change = Delete(KIND, entity_id, cycle.next_version())
                cycle.write(cause(KIND, "deleted", entity_id, utcnow()), [change])
            call.nothing()

    return WritableItem()


def _written(kind: Kind) -> schemas.Schema:
    """What a writer may say."""
    properties = {name: schema | {"description": kind.fields[name].doc} for name, schema in _WRITTEN.items()}
    return {
        "type": "object",
        "required": ["service_type"],
        "additionalProperties": False,
        "properties": properties,
    }


def _put(cycle: DirectCommitCycle, kind: Kind, entity_id: str, body: dict[str, Any]) -> Entity:
    """Make or replace it; what says the same already is left as it is.

    :raises Problem: 409 where the id belonged to an instance that was deleted.
    """
    now = utcnow()
    values = {name: body.get(name) for name in _WRITTEN}
    old = cycle.view.get(KIND, entity_id)
    if old is not None and all(getattr(old, name) == value for name, value in values.items()):
        return old
    provider = {"provider_name": values.pop("provider_name")}
    spec = {**values, "spec_updated_at": now}
    if not isinstance(old, ServiceTypeInstance) or old.created_at is None:
        spec["created_at"] = now
    change = Upsert(KIND, entity_id, cycle.next_version(), {"spec": spec, "provider": provider})
    outcome = cycle.write(cause(KIND, "created" if old is None else "updated", entity_id, now), [change])
    entity = cycle.view.get(KIND, entity_id)
    if outcome is not Outcome.APPLIED or entity is None:
        raise Problem(409, f"The id {entity_id} belonged to a {kind.name} that was deleted; take another")
    return entity


def _answer(call: Call, kind: Kind, entity: Entity, status: int) -> None:
    call.response.set_header("ETag", etags.of(kind, entity.seq))
    call.answer({**kind.to_json(entity), "seq": entity.seq}, status)
