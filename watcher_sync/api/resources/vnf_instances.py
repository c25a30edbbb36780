# SPDX-License-Identifier: Apache-2.0
"""``/v1/vnf_instances``: what is registered is written here; what is observed is written by the sync.

The table of levels is made at registration, and a registration whose levels make no sense is refused naming the
field. An instance is shown with our own fields and, beside them, as SOL003 has it.

A write takes the instance's operation lease for the moment: while an operation runs, nobody replaces or deletes
what it works on, but who runs it: with the operation's token in ``Operation-Token``.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from watcher_sync.api.core import etags, schemas
from watcher_sync.api.core.operation import JSON, Answer, Body, Call, Rule, operation, pointer
from watcher_sync.api.core.problems import FieldError, Problem, bad_request, not_found
from watcher_sync.api.resources import sol003
from watcher_sync.api.resources.entities import Collection, demand_existing, item_resource, list_resource
from watcher_sync.api.resources.writing import CONDITIONS, ID, WRITER, cause, utcnow
from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.model.changes import Delete, Outcome, Upsert
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.vnf.levels import MOST_PODS, BadRegistration, expand
from watcher_sync.model.vnf.matching import KINDS
from watcher_sync.operations import DELETE, REGISTER, Operations
from watcher_sync.storage import reading

KIND = "vnf_instance"

TOKEN = "Operation-Token"  # noqa: S105 - the name of a header

_LEASED = (
    f"{CONDITIONS} While an operation holds the instance: 409, unless the header {TOKEN} has the operation's token."
)

_PODS: schemas.Schema = {"type": "integer", "minimum": 0, "maximum": MOST_PODS}

_WRITTEN: dict[str, schemas.Schema] = {
    "name": schemas.nullable(schemas.PLAIN),
    "cluster": schemas.PLAIN,
    "namespace": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"},
    "vnfd_id": schemas.PLAIN,
    "flavour_id": schemas.nullable(schemas.PLAIN),
    "vdus": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1000,
        "propertyNames": schemas.PLAIN,
        "additionalProperties": {
            "type": "object",
            "required": ["workload", "initial"],
            "additionalProperties": False,
            "properties": {
                "workload": {
                    "type": "object",
                    "required": ["kind", "name"],
                    "additionalProperties": False,
                    "properties": {
                        "kind": {"enum": list(KINDS)},
                        "name": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"},
                    },
                },
                "initial": _PODS | {"description": "Pods at level 0."},
                "min": _PODS | {"default": 0},
                "max": _PODS | {"description": "No limit unless given."},
            },
        },
    },
    "aspects": {
        "type": "object",
        "maxProperties": 100,
        "propertyNames": schemas.PLAIN,
        "additionalProperties": {
            "type": "object",
            "required": ["max_scale_level", "deltas"],
            "additionalProperties": False,
            "properties": {
                "max_scale_level": {"type": "integer", "minimum": 0, "maximum": 1000},
                "deltas": {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 1000,
                    "additionalProperties": {
                        "type": ["integer", "array"],
                        "minimum": 1,
                        "maximum": MOST_PODS,
                        "maxItems": 1000,
                        "items": {"type": "integer", "minimum": 1, "maximum": MOST_PODS},
                        "description": "Pods that each step adds; a list: one number per step.",
                    },
                },
            },
        },
    },
}

_REQUIRED = ("cluster", "namespace", "vnfd_id", "vdus")


def vnf_list(collection: Collection, writes: DirectWriter) -> object:
    """``/v1/vnf_instances``."""
    kind = collection.kind
    written = _written(kind)

    class VnfList(type(list_resource(collection))):  # type: ignore[misc]
        """The list, and where a new one is registered."""

        @operation(
            summary="Register a VNF instance",
            description="Two aspects may not scale the same VDU, and no level may need more pods than a VDU's max.",
            rule=Rule(f"{kind.plural}:create", WRITER),
            body=Body({JSON: {**written, "properties": {"id": ID, **written["properties"]}}}),
            responses={201: Answer(item_schema(kind), "It is registered", headers=("ETag", "Location"))},
            errors=(409, 422),
            tag=kind.plural,
        )
        def on_post(self, call: Call) -> None:
            entity_id = call.body.pop("id", None) or str(uuid.uuid4())
            values = registration(call.body)
            with writes.begin() as cycle:
                if cycle.view.get(KIND, entity_id) is not None:
                    raise Problem(409, f"{kind.name} {entity_id} exists already")
                entity = _put(cycle, entity_id, values)
            call.response.set_header("Location", f"{call.request.path.rstrip('/')}/{entity_id}")
            _answer(call, kind, entity, 201)

    return VnfList()


def vnf_item(collection: Collection, writes: DirectWriter, operations: Operations) -> object:
    """``/v1/vnf_instances/{id}``."""
    kind = collection.kind
    answer = item_schema(kind)
    names = {"enum": [*collection.names, sol003.NAME]}
    fields = collection.fields_parameter()["fields"] | {"items": names}

    class VnfItem(type(item_resource(collection))):  # type: ignore[misc]
        """One instance, and how its registration is replaced and ended."""

        @operation(
            summary="Show one vnf_instance",
            rule=collection.rules["show"],
            query={"fields": fields},
            headers={"If-None-Match": schemas.ETAG},
            responses={
                200: Answer(answer, "The vnf_instance", headers=("ETag",)),
                304: Answer(None, "It is still what the ETag stands for", headers=("ETag",)),
            },
            errors=(404,),
            tag=kind.plural,
        )
        def on_get(self, call: Call, entity_id: str) -> None:
            with collection.service.reading() as connection:
                row = reading.read_item(connection, collection.service.tables, kind, entity_id)
            if row is None:
                raise not_found(f"{kind.name} {entity_id}")
            if etags.answered_not_modified(call, etags.of(kind, row["seq"])):
                return
            wanted = call.query.get("fields")
            document = collection.selected(row, wanted)
            if wanted is None or sol003.NAME in wanted:
                document[sol003.NAME] = sol003.instantiated(row)
            call.answer(document)

        @operation(
            summary="Register a VNF instance, or replace its registration",
            description=f"What is left out of the body has no value afterwards; what was observed stays. {_LEASED}",
            rule=Rule(f"{kind.plural}:replace", WRITER),
            path={"entity_id": ID},
            body=Body({JSON: _written(kind)}),
            responses={
                200: Answer(answer, "It is replaced", headers=("ETag",)),
                201: Answer(answer, "It is registered", headers=("ETag",)),
            },
            errors=(409, 412, 422),
            tag=kind.plural,
        )
        def on_put(self, call: Call, entity_id: str) -> None:
            values = registration(call.body)
            with _leased(call, operations, entity_id, REGISTER) as token, writes.begin() as cycle:
                _demand(operations, cycle, entity_id, token)
                old = cycle.view.get(KIND, entity_id)
                etags.demand(call, etags.of(kind, old.seq) if old is not None else None)
                entity = _put(cycle, entity_id, values)
            _answer(call, kind, entity, 201 if old is None else 200)

        @operation(
            summary="Delete a VNF instance",
            description=f"Its registration is forgotten; nothing in the cluster is touched. {_LEASED}",
            rule=Rule(f"{kind.plural}:delete", WRITER),
            responses={204: Answer(None, "It is gone")},
            errors=(404, 409, 412),
            tag=kind.plural,
        )
        def on_delete(self, call: Call, entity_id: str) -> None:
            demand_existing(collection, entity_id)  # no lease is made for what does not exist
            with _leased(call, operations, entity_id, DELETE) as token, writes.begin() as cycle:
                _demand(operations, cycle, entity_id, token)
                old = cycle.view.get(KIND, entity_id)
                if old is None:
                    raise not_found(f"{kind.name} {entity_id}")
                etags.demand(call, etags.of(kind, old.seq))
                change = Delete(KIND, entity_id, cycle.next_version())
                cycle.write(cause(KIND, "deleted", entity_id, utcnow()), [change])
            call.nothing()

    return VnfItem()


def item_schema(kind: Kind) -> schemas.Schema:
    """An instance as items show it."""
    schema = schemas.entity_schema(kind)
    return {**schema, "properties": {**schema["properties"], sol003.NAME: sol003.SCHEMA}}


def registration(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the facet ``registration`` but for its times, in one form however they were said.

    :raises Problem: 400 naming the fields that make no sense.
    """
    values: dict[str, Any] = {name: body.get(name) for name in _WRITTEN}
    values["vdus"] = {name: _vdu(vdu) for name, vdu in body["vdus"].items()}
    values["aspects"] = {name: _aspect(aspect) for name, aspect in (body.get("aspects") or {}).items()}
    try:
        values["levels"] = expand(values["vdus"], values["aspects"])
    except BadRegistration as exc:
        errors = [FieldError("body", pointer(path), detail) for path, detail in exc.errors[:20]]
        raise Problem(400, f"{errors[0].pointer.lstrip('/')}: {errors[0].detail}", errors=errors) from None
    return values


def _vdu(vdu: Mapping[str, Any]) -> dict[str, Any]:
    most = vdu.get("max")
    return {
        "workload": dict(vdu["workload"]),
        "initial": int(vdu["initial"]),
        "min": int(vdu.get("min", 0)),
        "max": None if most is None else int(most),
    }


def _aspect(aspect: Mapping[str, Any]) -> dict[str, Any]:
    deltas = {
        v: [int(d) for d in given] if isinstance(given, list) else int(given) for v, given in aspect["deltas"].items()
    }
    return {"max_scale_level": int(aspect["max_scale_level"]), "deltas": deltas}


def _written(kind: Kind) -> schemas.Schema:
    """What a writer may say."""
    properties = {name: schema | {"description": kind.fields[name].doc} for name, schema in _WRITTEN.items()}
    return {
        "type": "object",
        "required": list(_REQUIRED),
        "additionalProperties": False,
        "properties": properties,
    }


def _put(cycle: DirectCommitCycle, entity_id: str, values: Mapping[str, Any]) -> Entity:
    """Make or replace the registration; what says the same already is left as it is.

    :raises Problem: 409 where the id belonged to an instance that was deleted.
    """
    now = utcnow()
    old = cycle.view.get(KIND, entity_id)
    if old is not None and all(getattr(old, name) == value for name, value in values.items()):
        return old
    facet = {**values, "registered_at": now}
    if old is None:
        facet["created_at"] = now
    change = Upsert(KIND, entity_id, cycle.next_version(), {"registration": facet})
    outcome = cycle.write(cause(KIND, "created" if old is None else "updated", entity_id, now), [change])
    entity = cycle.view.get(KIND, entity_id)
    if outcome is not Outcome.APPLIED or entity is None:
        raise Problem(409, f"The id {entity_id} belonged to a {KIND} that was deleted; take another")
    return entity


@contextlib.contextmanager
def _leased(call: Call, operations: Operations, entity_id: str, what: str) -> Iterator[int]:
    """The token under which a write is made: the caller's operation's, else one for this write alone.

    :raises OperationRunning: 409.
    """
    given = call.request.get_header(TOKEN)
    if given is None:
        with operations.held(entity_id, what, "api", forget=what == DELETE) as lease:
            yield lease.token
        return
    if not given.isascii() or not given.isdecimal() or len(given) > 18:
        raise bad_request("header", f"/{TOKEN}", "is no token")
    yield int(given)


def _demand(operations: Operations, cycle: DirectCommitCycle, entity_id: str, token: int) -> None:
    with cycle.store.connect() as connection:
        operations.verify_token(connection, entity_id, token)


def _answer(call: Call, kind: Kind, entity: Entity, status: int) -> None:
    call.response.set_header("ETag", etags.of(kind, entity.seq))
    own = kind.to_json(entity)
    call.answer({**own, "seq": entity.seq, sol003.NAME: sol003.instantiated(own)}, status)
