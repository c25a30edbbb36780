# SPDX-License-Identifier: Apache-2.0
"""The writable fields of ``/v1/vnf_instances``: the registration. The evaluation writes the observed fields.

The API checks the levels of the aspects at registration. It refuses a registration with invalid levels, or with too
many; the problem names the field. The levels themselves are computed when an instance is evaluated, and never stored.

A write holds the instance's operation lease until its commit. While an operation runs, only its owner may replace or
delete the instance. The request has the operation's token in ``Operation-Token``, and its secret in
``Operation-Secret``.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from watcher_sync.api.entities.writing import CONDITIONS, WritableKind
from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Call, Rule
from watcher_sync.api.http.problems import FieldProblem, Problem, bad_request
from watcher_sync.api.http.rules import ADMIN
from watcher_sync.api.http.validation import pointer
from watcher_sync.api.service import Service
from watcher_sync.commit.direct import DirectCommitCycle
from watcher_sync.extensions.kubernetes.conf.namespaces import namespace_projects
from watcher_sync.extensions.vnf.api import sol003
from watcher_sync.extensions.vnf.api.operations import SECRET, TOKEN, owner_of, proof_of
from watcher_sync.extensions.vnf.model.levels import (
    MAX_ASPECTS,
    MAX_SCALE_LEVEL,
    MAX_VDUS,
    MOST_PODS,
    BadRegistration,
    check,
)
from watcher_sync.extensions.vnf.model.matching import KINDS
from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kind
from watcher_sync.operations import DELETE, REGISTER, Operations, Proof
from watcher_sync.storage.schema.tables import Tables

_LEASED = (
    f"{CONDITIONS} While an operation holds the instance, the answer is 409, unless the header {TOKEN} has the "
    f"operation's token. Then the header {SECRET} must have its secret; otherwise the answer is 403."
)

_PODS: schemas.Schema = {"type": "integer", "minimum": 0, "maximum": MOST_PODS}

_NAMESPACE = "default"
"""The namespace of a registration that names none, as in Kubernetes."""

_FIELDS: dict[str, schemas.Schema] = {
    "name": schemas.nullable(schemas.SHORT_TEXT),
    "cluster": schemas.SHORT_TEXT,
    "namespace": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "default": _NAMESPACE},
    "vnfd_id": schemas.SHORT_TEXT,
    "flavour_id": schemas.nullable(schemas.SHORT_TEXT),
    **{
        name: schemas.nullable(schemas.SHORT_TEXT)
        for name in ("vnf_provider", "vnf_product_name", "vnf_software_version", "vnfd_version")
    },
    "ext_cp_info": schemas.nullable({"type": "array", "maxItems": 100, "items": {"type": "object"}}),
    "sync_after_failure": {"type": "boolean", "default": True},
    "vdus": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": MAX_VDUS,
        "propertyNames": schemas.SHORT_TEXT,
        "additionalProperties": {
            "type": "object",
            "required": ["workload", "initial"],
            "additionalProperties": False,
            "properties": {
                "workload": {
                    "type": "object",
                    "required": ["kind"],
                    "additionalProperties": False,
                    "properties": {
                        "kind": {"enum": list(KINDS)},
                        "name": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"},
                        "labels": {
                            "type": "object",
                            "minProperties": 1,
                            "maxProperties": 8,
                            "propertyNames": {"type": "string", "pattern": "^[a-zA-Z0-9./_-]{1,317}$"},
                            "additionalProperties": {"type": "string", "maxLength": 63},
                            "description": "In place of a name: labels that one workload of the kind alone has, such "
                            "as app.kubernetes.io/instance of a release of Helm. Not for a Pod.",
                        },
                    },
                },
                "initial": _PODS | {"description": "Pods at level 0."},
                "min": _PODS | {"default": 0},
                "max": _PODS | {"description": "No limit by default."},
            },
        },
    },
    "aspects": {
        "type": "object",
        "maxProperties": MAX_ASPECTS,
        "propertyNames": schemas.SHORT_TEXT,
        "additionalProperties": {
            "type": "object",
            "required": ["max_scale_level", "deltas"],
            "additionalProperties": False,
            "properties": {
                "max_scale_level": {"type": "integer", "minimum": 0, "maximum": MAX_SCALE_LEVEL},
                "deltas": {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": MAX_VDUS,
                    "additionalProperties": {
                        "type": ["integer", "array"],
                        "minimum": 1,
                        "maximum": MOST_PODS,
                        "maxItems": MAX_SCALE_LEVEL,
                        "items": {"type": "integer", "minimum": 1, "maximum": MOST_PODS},
                        "description": "Pods that each step adds; a list: one number per step.",
                    },
                },
            },
        },
    },
}


class WritableVnfInstance(WritableKind):
    """The facet ``registration`` of a VNF instance, written under the instance's operation lease."""

    fields: Mapping[str, schemas.Schema] = _FIELDS
    required = ("cluster", "vnfd_id", "vdus")
    create_summary = "Register a VNF instance"
    create_description = (
        "Two aspects may not scale the same VDU, and no level may need more pods than a VDU's max. "
        f"A field may also have its name of SOL003: {', '.join(sol003.GIVEN)}."
    )
    replace_summary = "Register a VNF instance, or replace its registration"
    replace_description = (
        "A field that the body lacks gets its default, mostly null. The observed fields are unchanged. The request "
        f"resolves a failed operation that holds the sync back. {_LEASED}"
    )
    delete_summary = "Delete a VNF instance"
    delete_description = f"Deletes the registration. The cluster is not changed. {_LEASED}"

    def __init__(self, operations: Operations, service: Service) -> None:
        """:raises ConfigError: when an option of a source maps no namespace to a project."""
        self._operations = operations
        self._service = service
        self._namespace_projects = namespace_projects(service.conf)

    def more_rules(self, kind: Kind) -> Sequence[Rule]:
        """The rules for namespaces that do not belong to the project of the instance."""
        return (
            Rule(
                f"{kind.plural}:unmapped_namespace",
                ADMIN,
                "Register a VNF instance in a namespace that the configuration maps to no project.",
                "the instance shows pods that belong to no project",
            ),
            Rule(
                f"{kind.plural}:foreign_namespace",
                ADMIN,
                "Register a VNF instance in a namespace that the configuration maps to another project.",
                "the instance shows the pods of the other project",
            ),
        )

    def authorize(self, call: Call, kind: Kind, values: Mapping[str, Any]) -> None:
        """Requires that the instance may be in its namespace: the evaluation shows the pods of the namespace.

        :raises Problem: 403, which does not say whether the namespace is mapped to another project.
        """
        project_id = values[PROJECT_FIELD]
        owner = self._namespace_owner(values["cluster"], values["namespace"])
        if owner is not None and owner == project_id:
            return
        unmapped, foreign = self.more_rules(kind)
        if not call.context.may_on((unmapped if owner is None else foreign).name, project_id):
            where = f"{values['cluster']}/{values['namespace']}"
            raise Problem(403, f"The policy does not allow a VNF instance of the project in the namespace {where}")

    def _namespace_owner(self, cluster: str, namespace: str) -> str | None:
        """The project that a namespace of a cluster is mapped to; None: none.

        The configuration of this process decides. If it has no mapping, the tables have that of the engine, as far as
        the namespace has objects.
        """
        owner = self._namespace_projects.get((cluster, namespace))
        if owner is not None:
            return owner
        with self._service.reading() as connection:
            return _read_namespace_owner(connection, self._service.tables, cluster, namespace)

    def prepare(self, body: Any) -> Any:
        """Renames fields that have their names of SOL003.

        :raises Problem: 400 when a field has both of its names.
        """
        if not isinstance(body, dict):
            return body
        for name, field in sol003.GIVEN.items():
            if name in body:
                if field in body:
                    raise bad_request("body", pointer([name]), f"is given as {field}, too")
                body[field] = body.pop(name)
        return body

    def values(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the fields of the registration."""
        return registration(body)

    def facets(
        self, values: Mapping[str, Any], old: Entity | None, now: datetime.datetime
    ) -> dict[str, dict[str, Any]]:
        """Returns the facet ``registration``."""
        facet = {**values, "registered_at": now}
        if old is None:
            facet["created_at"] = now
        return {"registration": facet}

    @contextlib.contextmanager
    def exclusive(self, call: Call, entity_id: str, *, deletes: bool) -> Iterator[Callable[[DirectCommitCycle], None]]:
        """Holds the operation lease: that of the caller's operation, or one for this write alone.

        :raises OperationRunning: when another operation holds it; the answer is 409.
        """
        with self._leased(call, entity_id, deletes=deletes) as (token, proof):
            yield lambda cycle: self._verify(cycle, entity_id, token, proof)

    def schema(self, kind: Kind) -> schemas.Schema:
        """The schema of the instance's own fields, and of SOL003's."""
        return item_schema(kind)

    def document(self, call: Call, kind: Kind, entity: Entity) -> dict[str, Any]:
        """Returns the instance's own fields, and SOL003's."""
        own = kind.to_json(entity)
        link = call.link(f"/v1/{kind.plural}", entity.id)
        return {**own, **sol003.attributes(own, link), sol003.NAME: sol003.instantiated(own)}

    @contextlib.contextmanager
    def _leased(self, call: Call, entity_id: str, *, deletes: bool) -> Iterator[tuple[int, Proof]]:
        """Yields token and proof of the lease for the write: the caller's, or those of a new lease."""
        given = call.request.get_header(TOKEN)
        if given is None:
            what = DELETE if deletes else REGISTER
            with self._operations.held(entity_id, what, "api", owner_of(call), forget=deletes) as lease:
                yield lease.token, lease.proof
            return
        if not given.isascii() or not given.isdecimal() or len(given) > 18:
            raise bad_request("header", f"/{TOKEN}", "is no token")
        yield int(given), proof_of(call)

    def _verify(self, cycle: DirectCommitCycle, entity_id: str, token: int, proof: Proof) -> None:
        with cycle.store.connect() as connection:
            self._operations.verify_token(connection, entity_id, token, proof)


def _read_namespace_owner(connection: sa.Connection, tables: Tables, cluster: str, namespace: str) -> str | None:
    """The project of the pods and workloads of a namespace; None: no engine mapped the namespace to a project."""
    for kind in ("pod", "workload"):
        t = tables.entities[kind]
        where = sa.and_(t.c.namespace == namespace, t.c.cluster == cluster, t.c.project_id.is_not(None))
        owner: str | None = connection.execute(sa.select(t.c.project_id).where(where).limit(1)).scalar()
        if owner is not None:
            return owner
    return None


def item_schema(kind: Kind) -> schemas.Schema:
    """The schema of an instance in answers."""
    schema = schemas.entity_schema(kind)
    return {**schema, "properties": {**schema["properties"], **sol003.ATTRIBUTES}}


def registration(body: Mapping[str, Any]) -> dict[str, Any]:
    """Normalizes a body to the fields of the facet ``registration``, without its times.

    :raises Problem: 400 when the levels are invalid or too many; ``errors`` names the fields.
    """
    values: dict[str, Any] = {name: body.get(name) for name in _FIELDS}
    values["namespace"] = body.get("namespace", _NAMESPACE)
    values["sync_after_failure"] = body.get("sync_after_failure", True)
    values["failed_operation"] = None  # a registration resolves it
    values["vdus"] = {name: _vdu(vdu) for name, vdu in body["vdus"].items()}
    values["aspects"] = {name: _aspect(aspect) for name, aspect in (body.get("aspects") or {}).items()}
    try:
        check(values["vdus"], values["aspects"])
    except BadRegistration as exc:
        errors = [FieldProblem("body", pointer(path), detail) for path, detail in exc.errors[:20]]
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
