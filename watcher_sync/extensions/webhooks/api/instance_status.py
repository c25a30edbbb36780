# SPDX-License-Identifier: Apache-2.0
"""``/v1/instance/{id}/status``: the status of an instance and of its resources, in the dialect of ONAP's k8splugin.

An instance is a VNF instance with its workloads and pods, an instance of a service type, or a server. So is an entity
of a plugin's kind. An id is looked up in this order among the instances that the caller may see. To other callers it
does not exist (404).

A caller with one project sees the resources of this project, without the fields that tell of hosts. Of pods and
workloads of a namespace that belongs to no project, it sees name, phase and numbers of pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, get_args

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.problems import bad_request, not_found
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.service import Service
from watcher_sync.extensions.webhooks.onap.documents import instance_kinds, resource_kinds, status_document
from watcher_sync.model.kinds import Entity, Relation, project_of
from watcher_sync.model.view import View
from watcher_sync.model.visibility import hidden_of
from watcher_sync.storage.table_model import TableModel
from watcher_sync.storage.writing.journal import read_head

TAG: Final = "subscriptions"

PAYLOADS: Final = ("status", "full")

_REFERENCE: schemas.Schema = {
    "type": "object",
    "required": ["field", "relation", "kind", "id"],
    "properties": {
        "field": schemas.STRING | {"description": "The field that names the other entity."},
        "relation": {"enum": list(get_args(Relation))},
        "kind": schemas.STRING | {"description": "The kind of the other entity."},
        "id": schemas.STRING | {"description": "Its id."},
    },
}

RESOURCE: schemas.Schema = {
    "type": "object",
    "required": ["name", "GVK", "kind", "id", "status"],
    "properties": {
        "name": schemas.STRING,
        "GVK": {
            "type": "object",
            "required": ["Group", "Version", "Kind"],
            "properties": {"Group": schemas.STRING, "Version": schemas.STRING, "Kind": schemas.STRING},
        },
        "kind": schemas.STRING | {"description": "Its kind in the model."},
        "id": schemas.STRING | {"description": "Its id in the model."},
        "cluster": schemas.STRING,
        "namespace": schemas.STRING,
        "references": {"type": "array", "items": _REFERENCE, "description": "What it depends on."},
        "status": {"type": "object", "description": "Its status, or with payload=full all of it, without secrets."},
    },
}

_STATUS: schemas.Schema = {
    "type": "object",
    "required": ["request", "ready", "resourceCount", "resourcesStatus", "sequence"],
    "properties": {
        "request": {
            "type": "object",
            "required": ["instance-id", "kind", "name"],
            "properties": {"instance-id": schemas.STRING, "kind": schemas.STRING, "name": schemas.STRING},
        },
        "ready": {"type": "boolean", "description": "Whether the instance, its workloads and its pods are ready."},
        "resourceCount": {"type": "integer", "minimum": 0},
        "resourcesStatus": {"type": "array", "items": RESOURCE},
        "sequence": schemas.SEQ | {"description": "The journal seq that the status is of, for a replay."},
    },
}

READ = Rule("instance_status:show", PROJECT_READER)
"""The rule of callers for whom an instance exists."""


class InstanceStatus:
    """``/v1/instance/{id}/status``."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @operation(
        summary="Show the status of an instance and of its resources",
        description="The dialect of ONAP's k8splugin. The id is that of a VNF instance, of an instance of a service "
        "type, of a server, or of an entity of a plugin's kind.",
        rule=READ,
        query={
            "payload": {
                "enum": list(PAYLOADS),
                "default": "status",
                "description": "status: the status of each resource; full: all of its fields.",
            },
            "kinds": {
                "type": "array",
                "items": schemas.SHORT_TEXT,
                "minItems": 1,
                "uniqueItems": True,
                "description": "Resources of these kinds only, separated by commas. By default a VNF instance has its "
                "workloads and pods.",
            },
        },
        responses={200: Answer(_STATUS, "The status")},
        errors=(404,),
        tag=TAG,
    )
    def on_get(self, call: Call, instance_id: str) -> None:
        """Answers with the status."""
        kinds = self._service.kinds
        with self._service.reading() as connection:
            # First: what is committed meanwhile may be in the document, and is delivered again.
            sequence = read_head(connection, self._service.tables)
            view = TableModel(connection, self._service.tables, kinds)
            kind, entity = find_visible(call, view, instance_id)
            only = call.query.get("kinds")
            require_resource_kinds(kind, only or (), "query")
            scope = call.context.scope
            hidden = {name: call.context.hidden(kinds[name]) for name in resource_kinds(kind)}
            document = status_document(
                _ScopedView(view, scope),
                kinds,
                kind,
                entity,
                full=call.query["payload"] == "full",
                hidden_of=lambda name, each: hidden_of(name, project_of(each), scope, hidden, kinds.hidden_unowned),
                only=only,
            )
        call.answer(document | {"sequence": sequence})


class _ScopedView:
    """A view without the entities of other projects.

    Pods and workloads of a namespace without a project are in it. Their documents have name and phase, as the
    evaluation of the VNF instance tells them to its project.
    """

    def __init__(self, view: View, scope: str | None) -> None:
        """:param scope: the only project whose entities are shown; None: all."""
        self.kinds = view.kinds
        self._view = view
        self._scope = scope

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, or None where the caller does not see one."""
        entity = self._view.get(kind, entity_id)
        return entity if entity is not None and self._shows(entity) else None

    def by(self, kind: str, index: str, value: Any) -> Collection[Entity]:
        """The entities that the caller sees and whose indexed field has this value."""
        return [entity for entity in self._view.by(kind, index, value) if self._shows(entity)]

    def all(self, kind: str, prefix: str = "") -> Iterator[Entity]:
        """The entities of a kind that the caller sees. O(entities of the kind)."""
        return filter(self._shows, self._view.all(kind, prefix))

    def _shows(self, entity: Entity) -> bool:
        return self._scope is None or project_of(entity) in (None, self._scope)


def find_visible(call: Call, view: TableModel, instance_id: str) -> tuple[str, Entity]:
    """The kind and the entity of an instance on which the policy allows the operation.

    An instance of another project may have the same id and another kind. It does not hide the caller's own one.

    :raises Problem: 404 when the caller may see no instance of this id; 403 when it may see it and do no more.
    """
    found = [
        (kind, entity) for kind in instance_kinds(view.kinds) if (entity := view.get(kind, instance_id)) is not None
    ]
    for kind, entity in found:
        if call.context.may_on(call.rule, project_of(entity)):
            return kind, entity
    if any(call.context.may_on(READ.name, project_of(entity)) for _, entity in found):
        raise call.context.refusal([call.rule])
    raise not_found(f"instance {instance_id}")


def require_resource_kinds(kind: str, names: Collection[str], where: str) -> None:
    """Requires that resources of an instance can have these kinds.

    :param kind: the kind of the instance.
    :param where: query or body.
    :raises Problem: 400 when one of them cannot.
    """
    possible = resource_kinds(kind)
    for name in names:
        if name not in possible:
            text = f"the resources of a {kind} have the kinds {', '.join(possible)}, not {name}"
            raise bad_request(where, "/kinds", text)
