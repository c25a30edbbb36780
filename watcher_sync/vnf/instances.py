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
from typing import Any, Protocol

import msgspec

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_list import ListRequest
from watcher_sync.api.entities.writing import CONDITIONS, Quotas, WritableItem, WritableKind, WritableList
from watcher_sync.api.http import schemas
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import Call, Rule
from watcher_sync.api.http.problems import FieldProblem, Problem, bad_request
from watcher_sync.api.http.rules import ADMIN, PROJECT_MEMBER
from watcher_sync.api.http.validation import pointer
from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kind
from watcher_sync.model.visibility import NOTHING_HIDDEN, Hidden
from watcher_sync.model.vnf.levels import MAX_ASPECTS, MAX_SCALE_LEVEL, MAX_VDUS, MOST_PODS, BadRegistration, check
from watcher_sync.model.vnf.matching import KINDS
from watcher_sync.operations import DELETE, REGISTER, Operations, Proof
from watcher_sync.vnf import sol003, sol013
from watcher_sync.vnf.operations import SECRET, TOKEN, OperationItem, OperationList, owner_of, proof_of
from watcher_sync.vnf.sync import SyncNow, VnfSyncResource

KIND = "vnf_instance"

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

    def document(self, kind: Kind, entity: Entity) -> dict[str, Any]:
        """Returns the instance's own fields, and SOL003's."""
        own = kind.to_json(entity)
        return {**own, **sol003.attributes(own), sol003.NAME: sol003.instantiated(own)}

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


_FLAG: schemas.Schema = {"enum": ["", "true"]}
_PATHS: schemas.Schema = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": 500},
    "minItems": 1,
    "maxItems": 200,
    "uniqueItems": True,
}

SELECTORS: dict[str, schemas.Schema] = {
    "fields": _PATHS | {"description": "The attributes of the answer, separated by commas; a part of one as a/b."},
    "all_fields": _FLAG | {"description": "All attributes, complex ones as well (SOL013)."},
    "exclude_fields": _PATHS | {"description": "All attributes but these, separated by commas (SOL013)."},
    "exclude_default": _FLAG | {"description": "The attributes that are shown by default (SOL013)."},
}
FILTER: schemas.Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": sol013.MAX_FILTER_CHARS,
    "description": "Only instances that match an attribute filter (SOL013), such as "
    "(eq,vnfProductName,UPF);(gt,instantiatedVnfInfo/scaleStatus/scaleLevel,0). A page may have fewer entries.",
}
_MAX_READS = 10
"""Reads of the table for one page whose instances are filtered after they are read."""
EXCLUDED = (sol003.NAME,)
"""Attributes that a list has only if they are asked for."""


class VnfInstanceList(WritableList):
    """``/v1/vnf_instances``: instances with their own fields and in the form of SOL003, with SOL013's selectors."""

    def parameters(self, collection: Collection) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        return {**super().parameters(collection), **SELECTORS, "filter": FILTER}

    def item_schema(self, collection: Collection) -> schemas.Schema:
        """The schema of an instance of the list."""
        return item_schema(collection.kind)

    def answer_page(self, collection: Collection, call: Call) -> None:
        """Reads a page and answers with it."""
        names = _names(collection)
        chosen = selection_of(call, names, excluded_by_default=EXCLUDED)
        rows, marker, about = read_page(collection, call, chosen, names, _document)
        call.answer({collection.kind.plural: rows, **call.next_page(marker), **about})


class Form(Protocol):
    """Makes the document of an instance."""

    def __call__(
        self, collection: Collection, row: dict[str, Any], hidden: Hidden, *, complete: bool
    ) -> dict[str, Any]:
        """:param complete: with ``instantiatedVnfInfo``."""


def read_page(
    collection: Collection, call: Call, chosen: sol013.AttributeSelection, names: Sequence[str], form: Form
) -> tuple[list[dict[str, Any]], str | None, dict[str, Any]]:
    """Reads one page of a list.

    :param names: of all attributes that the documents may have.
    :returns: the documents, the marker of the next page or None, and what the answer says of its moment.
    :raises Problem: 400 when the filter is none.
    """
    wanted = _expressions(call, names)
    request = ListRequest(collection, call, [p[0] for p in chosen.only or () if p[0] in collection.names])

    def shown(text: bytes) -> dict[str, Any] | None:
        row = msgspec.json.decode(text)
        complete = bool(wanted) or chosen.shows(sol003.NAME)
        document = form(collection, row, request.hidden, complete=complete)
        return chosen.of(document) if all(each.matches(document) for each in wanted) else None

    rows: list[dict[str, Any]] = []
    end = request.after
    with collection.service.source(call, collection.kinds_read) as source:
        for _ in range(_MAX_READS):
            page = request.read(source, collection.names, NOTHING_HIDDEN, after=end)
            more = page.more
            for number, text in enumerate(page.texts(), start=1):
                end = page.end(number)
                if (document := shown(text)) is not None:
                    rows.append(document)
                    if len(rows) == request.limit:
                        more = more or number < len(page.rows)
                        break
            if len(rows) == request.limit or not more:
                break
    return rows, request.marker(end) if more and end is not None else None, source.about()


class VnfInstanceItem(WritableItem):
    """``/v1/vnf_instances/{id}``: an instance with its own fields and as SOL003 has it, with SOL013's selectors."""

    def parameters(self) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        return {**super().parameters(), **SELECTORS}

    def chosen(self, call: Call) -> Sequence[str]:
        """The own fields that the request names."""
        only = selection_of(call, _names(self.collection)).only or ()
        return [path[0] for path in only if path[0] in self.collection.names]

    def selected(self, row: dict[str, Any], call: Call, hidden: Hidden) -> dict[str, Any]:
        """Returns the chosen attributes. ``instantiatedVnfInfo`` is computed only if it is chosen."""
        chosen = selection_of(call, _names(self.collection))
        return chosen.of(_document(self.collection, row, hidden, complete=chosen.shows(sol003.NAME)))


def _document(collection: Collection, row: dict[str, Any], hidden: Hidden, *, complete: bool) -> dict[str, Any]:
    """An instance with its own fields and SOL003's attributes, with or without ``instantiatedVnfInfo``."""
    own = collection.selected(row, None, hidden)
    document = {**own, **sol003.attributes(row)}
    if complete:
        document[sol003.NAME] = sol003.instantiated(row)
    return document


def selection_of(
    call: Call, names: Sequence[str], excluded_by_default: Sequence[str] = ()
) -> sol013.AttributeSelection:
    """The attributes that a request selects.

    :param names: of all attributes that a document may have.
    :raises Problem: 400 when the selectors name no attribute or contradict each other.
    """
    try:
        return sol013.selection(call.query, names=names, excluded_by_default=excluded_by_default)
    except sol013.BadSelection as exc:
        name = next(name for name in ("fields", "exclude_fields", "all_fields") if name in call.query)
        raise bad_request("query", pointer([name]), str(exc)) from None


def _names(collection: Collection) -> tuple[str, ...]:
    """The attributes that an instance may have."""
    return (*collection.names, *sol003.ATTRIBUTES)


def _expressions(call: Call, names: Sequence[str]) -> tuple[sol013.Expression, ...]:
    """:raises Problem: 400 when the filter is none."""
    if "filter" not in call.query:
        return ()
    try:
        return sol013.parse_filter(call.query["filter"], names)
    except sol013.BadSelection as exc:
        raise bad_request("query", "/filter", str(exc)) from None


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


def routes(collection: Collection, writer: DirectWriter, operations: Operations, sync: SyncNow | None) -> list[Route]:
    """The list and the items of VNF instances, their operations and their sync.

    :param sync: syncs single instances; None: the API answers such a request with 503.
    """
    service, path = collection.service, f"/v1/{collection.kind.plural}"
    vnf = WritableVnfInstance(operations, service.namespace_owner)
    vnf.quotas = Quotas.of(service.conf)
    return [
        (path, VnfInstanceList(collection, writer, vnf)),
        (f"{path}/{{entity_id}}", VnfInstanceItem(collection, writer, vnf)),
        (f"{path}/{{entity_id}}/operations", OperationList(collection, operations)),
        (f"{path}/{{entity_id}}/operations/{{operation_id}}", OperationItem(collection, operations, writer)),
        (f"{path}/{{entity_id}}/sync", VnfSyncResource(collection, sync)),
    ]
