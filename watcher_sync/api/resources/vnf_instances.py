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

from watcher_sync.api.core import schemas
from watcher_sync.api.core.operation import Call, Rule, pointer
from watcher_sync.api.core.problems import FieldError, Problem, bad_request
from watcher_sync.api.core.rules import ADMIN, PROJECT_MEMBER
from watcher_sync.api.core.visibility import Hidden
from watcher_sync.api.resources import sol003
from watcher_sync.api.resources.lease_proof import SECRET, TOKEN, owner_of, proof_of
from watcher_sync.api.resources.writing import CONDITIONS, WritableItem, WritableKind
from watcher_sync.commit.direct import DirectCommitCycle
from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kind
from watcher_sync.model.vnf.levels import MAX_ASPECTS, MAX_SCALE_LEVEL, MAX_VDUS, MOST_PODS, BadRegistration, check
from watcher_sync.model.vnf.matching import KINDS
from watcher_sync.operations import DELETE, REGISTER, Operations, Proof

KIND = "vnf_instance"

_LEASED = (
    f"{CONDITIONS} While an operation holds the instance, the answer is 409, unless the header {TOKEN} has the "
    f"operation's token. Then the header {SECRET} must have its secret; otherwise the answer is 403."
)

_PODS: schemas.Schema = {"type": "integer", "minimum": 0, "maximum": MOST_PODS}

_FIELDS: dict[str, schemas.Schema] = {
    "name": schemas.nullable(schemas.SHORT_TEXT),
    "cluster": schemas.SHORT_TEXT,
    "namespace": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"},
    "vnfd_id": schemas.SHORT_TEXT,
    "flavour_id": schemas.nullable(schemas.SHORT_TEXT),
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
                    "required": ["kind", "name"],
                    "additionalProperties": False,
                    "properties": {
                        "kind": {"enum": list(KINDS)},
                        "name": {"type": "string", "pattern": "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"},
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
    required = ("cluster", "namespace", "vnfd_id", "vdus")
    create_summary = "Register a VNF instance"
    create_description = "Two aspects may not scale the same VDU, and no level may need more pods than a VDU's max."
    replace_summary = "Register a VNF instance, or replace its registration"
    replace_description = f"A field that the body lacks becomes null. The observed fields are unchanged. {_LEASED}"
    delete_summary = "Delete a VNF instance"
    delete_description = f"Deletes the registration. The cluster is not changed. {_LEASED}"

    def __init__(self, operations: Operations, namespace_owner: Callable[[str, str], str | None]) -> None:
        """:param namespace_owner: returns the project that a namespace of a cluster is mapped to; None: none."""
        self._operations = operations
        self._namespace_owner = namespace_owner

    def more_rules(self, kind: Kind) -> Sequence[Rule]:
        """The rules for namespaces that do not belong to the project of the instance."""
        return (
            Rule(
                f"{kind.plural}:unmapped_namespace",
                PROJECT_MEMBER,
                "Register a VNF instance in a namespace that the configuration maps to no project.",
            ),
            Rule(
                f"{kind.plural}:foreign_namespace",
                ADMIN,
                "Register a VNF instance in a namespace that the configuration maps to another project.",
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

    def document(self, kind: Kind, entity: Entity) -> dict[str, Any]:
        """Returns the instance's own fields, and SOL003's."""
        own = kind.to_json(entity)
        return {**own, sol003.NAME: sol003.instantiated(own)}

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


class VnfInstanceItem(WritableItem):
    """``/v1/vnf_instances/{id}``: an instance with its own fields and in the form of SOL003."""

    def fields_parameter(self) -> schemas.Schema:
        """The schema of the query parameter ``fields``."""
        return super().fields_parameter() | {"items": {"enum": [*self.collection.names, sol003.NAME]}}

    def selected(self, row: dict[str, Any], names: list[str] | None, hidden: Hidden) -> dict[str, Any]:
        """Returns the chosen fields. SOL003's form is computed only if it is chosen."""
        document = super().selected(row, names, hidden)
        if names is None or sol003.NAME in names:
            document[sol003.NAME] = sol003.instantiated(row)
        return document


def item_schema(kind: Kind) -> schemas.Schema:
    """The schema of an instance in answers."""
    schema = schemas.entity_schema(kind)
    return {**schema, "properties": {**schema["properties"], sol003.NAME: sol003.SCHEMA}}


def registration(body: Mapping[str, Any]) -> dict[str, Any]:
    """Normalizes a body to the fields of the facet ``registration``, without its times.

    :raises Problem: 400 when the levels are invalid or too many; ``errors`` names the fields.
    """
    values: dict[str, Any] = {name: body.get(name) for name in _FIELDS}
    values["vdus"] = {name: _vdu(vdu) for name, vdu in body["vdus"].items()}
    values["aspects"] = {name: _aspect(aspect) for name, aspect in (body.get("aspects") or {}).items()}
    try:
        check(values["vdus"], values["aspects"])
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
