# SPDX-License-Identifier: Apache-2.0
"""``/v1/vnf_instances/{id}/operations``: a life-cycle manager begins an operation, sends heartbeats, and ends it.

::

    POST   .../operations            {"operation": "SCALE", "holder": "lcm-1"}  ->  201 {id, token, secret, ...}
    PUT    .../operations/{id}       every few seconds, with the header Operation-Secret
    DELETE .../operations/{id}?state=COMPLETED, with the header Operation-Secret

The end writes into the instance, in one transaction, whether a failed operation holds its sync back.

If several managers post at once, one gets 201, and the others get 409 with the holder of the lease.

The lease belongs to the user and the project of the first request. No later answer has the secret. For another project
the operation does not exist (404). For another user, and for a wrong secret, the answer is 403.

A manager that sends no heartbeat for the lease time loses the lease. Its next request gets 409.
"""

from __future__ import annotations

import datetime
import uuid
from typing import Any, Final

import msgspec

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.http import schemas
from watcher_sync.api.http.bodies import Body
from watcher_sync.api.http.envelope import AUDIT
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.problems import Problem, lease_conflict, not_found
from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.rules import PROJECT_MANAGER, PROJECT_MEMBER, PROJECT_READER
from watcher_sync.api.service import Service
from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.events import Event
from watcher_sync.exceptions import StaleToken
from watcher_sync.extensions.vnf.handler import KIND
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.model.changes import Upsert
from watcher_sync.operations import LeaseRow, OperationRow, Operations, Owner, Proof
from watcher_sync.read.reading import last_change
from watcher_sync.storage.database.database import retried
from watcher_sync.storage.groups.operation_leases import COMPLETED, ENDS, EXPIRED, FAILED, FAILURES, RUNNING, STATES

TOKEN: Final = "Operation-Token"
SECRET: Final = "Operation-Secret"
"""A header of its own: a URL is in logs, and a body in histories of shells."""

_TOKEN: schemas.Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": 2**63 - 1,
    "description": "The fencing token; every new holder of the lease gets a larger one.",
}

OPERATION: schemas.Schema = {
    "type": "object",
    "required": ["id", "operation", "holder", "token", "state", "since", "expires_at", "ended_at"],
    "properties": {
        "id": schemas.STRING,
        "operation": schemas.STRING,
        "holder": schemas.STRING,
        "token": _TOKEN,
        "state": {"enum": list(STATES)},
        "since": schemas.TIME,
        "expires_at": schemas.nullable(schemas.TIME)
        | {"description": "When the lease expires unless a heartbeat extends it; null after the end."},
        "ended_at": schemas.nullable(schemas.TIME),
        "user_id": schemas.nullable(schemas.STRING)
        | {"description": "The user that began the operation; null for readers of other projects."},
        "project_id": schemas.nullable(schemas.STRING),
    },
    "additionalProperties": False,
}

_BEGUN: schemas.Schema = {
    **OPERATION,
    "required": [*OPERATION["required"], "secret"],
    "properties": {
        **OPERATION["properties"],
        "secret": schemas.STRING
        | {"description": f"For the header {SECRET} of every further request. No other answer has it."},
    },
}

LEASE: schemas.Schema = {
    "type": "object",
    "required": ["kind", "entity_id", "id", "operation", "holder", "token", "since", "heartbeat_at", "expires_at"],
    "properties": {
        "kind": schemas.STRING,
        "entity_id": schemas.STRING,
        "id": schemas.STRING | {"description": "The id of the operation."},
        "operation": schemas.STRING,
        "holder": schemas.STRING,
        "token": {"type": "integer", "minimum": 1, "description": "The fencing token."},
        "since": schemas.TIME,
        "heartbeat_at": schemas.TIME,
        "expires_at": schemas.TIME | {"description": "When it expires unless a heartbeat extends it."},
    },
}

_BEGIN: schemas.Schema = {
    "type": "object",
    "required": ["operation", "holder"],
    "additionalProperties": False,
    "properties": {
        "operation": schemas.SHORT_TEXT | {"maxLength": 64, "description": "The kind of work, such as SCALE or HEAL."},
        "holder": schemas.SHORT_TEXT | {"description": "The holder's name; a refused request gets it."},
    },
}

_HEARTBEAT: schemas.Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"token": _TOKEN},
}


_FORCE_END = Rule(
    "vnf_instances:force_end_operation",
    PROJECT_MANAGER,
    "End an operation of another owner, without its secret.",
    "it ends what a member began, which no other member may",
)

_NEEDS_SECRET = f"The header {SECRET} must have the operation's secret; otherwise the answer is 403."


class OperationList:
    """``/v1/vnf_instances/{id}/operations``: the operations on one instance."""

    def __init__(self, collection: Collection, operations: Operations) -> None:
        plural = collection.kind.plural
        self._collection = collection
        self._operations = operations
        self.on_get = operation(
            summary="List the operations on a VNF instance",
            rule=Rule(f"{plural}:operations", PROJECT_READER),
            query=schemas.paging(collection.service.max_limit)
            | {"marker": schemas.SEQ | {"default": 0, "description": "The page begins after this token."}},
            responses={200: Answer(schemas.collection("operations", OPERATION), "A page of operations, oldest first")},
            errors=(404,),
            tag=plural,
        )(self.list_page)
        self.on_post = operation(
            summary="Begin an operation on a VNF instance",
            description="If another operation runs, the answer is 409 with its holder, its beginning, and Retry-After. "
            "The operation belongs to the caller's user and project. Only this answer has its secret.",
            rule=Rule(f"{plural}:operate", PROJECT_MEMBER),
            body=Body({JSON: _BEGIN}),
            responses={201: Answer(_BEGUN, "The operation holds the instance", headers=("Location",))},
            errors=(404, 409),
            tag=plural,
        )(self.begin)

    def list_page(self, call: Call, entity_id: str) -> None:
        """Answers with one page, oldest first."""
        self._collection.require_owned(call, entity_id, known=True)
        rows = self._operations.history(entity_id, after=call.query["marker"], limit=call.query["limit"] + 1)
        if not rows:
            self._collection.require_existing(call, entity_id)
        call.answer_page("operations", rows, lambda row: row.token, lambda row: _document(row, call.context))

    def begin(self, call: Call, entity_id: str) -> None:
        """Takes the operation lease."""
        self._collection.require_existing(call, entity_id)
        lease = self._operations.begin(entity_id, call.body["operation"], call.body["holder"], owner_of(call))
        try:
            # A deletion needs the lease, too: an instance that exists now exists until the lease is released.
            self._collection.require_existing(call, entity_id)
        except Problem:
            self._operations.end(entity_id, lease.id, None, lease.token, FAILED)
            raise
        call.response.set_header("Location", call.link(None, lease.id))
        call.answer({**_running(lease), "secret": lease.secret}, 201)


class OperationItem:
    """``/v1/vnf_instances/{id}/operations/{operation_id}``: one operation."""

    def __init__(self, collection: Collection, operations: Operations, writer: DirectWriter) -> None:
        plural = collection.kind.plural
        self._writer = writer
        operate = Rule(f"{plural}:operate", PROJECT_MEMBER)
        self._collection = collection
        self._operations = operations
        self.on_get = operation(
            summary="Show an operation on a VNF instance",
            rule=Rule(f"{plural}:operations", PROJECT_READER),
            responses={200: Answer(OPERATION)},
            errors=(404,),
            tag=plural,
        )(self.show)
        self.on_put = operation(
            summary="Send the heartbeat of an operation",
            description=f"Extends the lease. {_NEEDS_SECRET} The answer is 409 if the operation has ended or another "
            "one holds the lease, and 412 if the operation has another token.",
            rule=operate,
            body=Body({JSON: _HEARTBEAT}, required=False),
            responses={200: Answer(OPERATION)},
            errors=(403, 404, 409, 412),
            tag=plural,
        )(self.heartbeat)
        self.on_delete = operation(
            summary="End an operation on a VNF instance",
            description=f"{_NEEDS_SECRET} A second request with the same state changes nothing. The answer is 409 if "
            "the operation has ended in another state or another one holds the lease, and 412 if the operation has "
            "another token.",
            rule=operate,
            more_rules=(_FORCE_END,),
            query={
                "state": {"enum": list(ENDS), "default": COMPLETED, "description": "The final state."},
                "token": _TOKEN,
                "force": {
                    "type": "boolean",
                    "default": False,
                    "description": "End the operation of another owner, without its secret. The rule "
                    f"{_FORCE_END.name} must allow it; by default it allows administrators and the project's managers.",
                },
            },
            responses={204: Answer(None, "The lease is released")},
            errors=(403, 404, 409, 412),
            tag=plural,
        )(self.end)

    def show(self, call: Call, entity_id: str, operation_id: str) -> None:
        """Answers with the operation, running or ended."""
        self._collection.require_owned(call, entity_id, known=True)
        call.answer(_document(_shown(self._operations, entity_id, operation_id), call.context))

    def heartbeat(self, call: Call, entity_id: str, operation_id: str) -> None:
        """Extends the lease."""
        self._collection.require_owned(call, entity_id, known=True)
        token = (call.body or {}).get("token")
        try:
            lease = self._operations.heartbeat(entity_id, operation_id, proof_of(call), token)
        except StaleToken:
            raise self._refusal(entity_id, operation_id, token) from None
        call.answer(_running(lease))

    def end(self, call: Call, entity_id: str, operation_id: str) -> None:
        """Releases the lease."""
        self._collection.require_owned(call, entity_id, known=True)
        token, state = call.query.get("token"), call.query["state"]
        proof = None if call.query["force"] else proof_of(call)
        if proof is None:
            call.context.require(_FORCE_END.name)
            self._collection.require_owned(call, entity_id, known=True, rule=_FORCE_END.name)
        # The lease of a short write, such as a registration, is no operation: the history does not contain it.
        row = (
            self._operations.show(entity_id, operation_id)
            if proof is None
            else self._operations.verify(entity_id, operation_id, proof)
        )
        try:
            self._end(call, entity_id, operation_id, row, token, state)
        except StaleToken:
            row = _shown(self._operations, entity_id, operation_id)
            if row.state != state or token not in (None, row.token):
                raise self._refusal(entity_id, operation_id, token) from None
        if proof is None:
            AUDIT.warning("the operation %s of %s was ended by force, as %s", operation_id, entity_id, state)
        call.answer_nothing()

    @retried
    def _end(
        self, call: Call, entity_id: str, lease_id: str, row: OperationRow | None, token: int | None, state: str
    ) -> None:
        """Releases the lease, and writes whether the operation holds the sync back; all or nothing.

        :param row: the operation; None: the lease of a short write, which holds nothing back.
        :raises StaleToken: the operation no longer has the lease.
        """
        with self._writer.begin(call.context.actor) as cycle:
            with cycle.store.connect() as connection:
                self._operations.end_within(connection, entity_id, lease_id, token, state)
            if row is not None:
                _record_failure(cycle, entity_id, row, state)

    def _refusal(self, entity_id: str, operation_id: str, token: int | None) -> Problem:
        """Makes the problem of a heartbeat or an end that the lease refuses."""
        row = _shown(self._operations, entity_id, operation_id)
        if token is not None and token != row.token:
            return Problem(412, f"{token} is not the token of this operation")
        lease = self._operations.running(entity_id)
        if lease is not None and lease.id != operation_id:
            return lease_conflict("Another operation has taken over the instance", lease)
        if row.state != EXPIRED or row.ended_at is None:
            return lease_conflict(f"The operation has ended: {row.state}")
        service = self._collection.service
        with service.reading() as connection:
            last = last_change(connection, service.tables, self._operations.kind, entity_id)
        expired = f"The lease expired at {row.ended_at:%Y-%m-%dT%H:%M:%SZ}, and the instance"
        if last is None or last.time <= row.ended_at:
            return lease_conflict(f"{expired} was not written since")
        written = {"seq": last.seq, "time": last.time, "event_type": last.event_type}
        return lease_conflict(f"{expired} was written since: {last.event_type}", written=written)


class LeaseList:
    """``/v1/leases``: the leases that are held now, of all instances.

    A caller who may not see all projects gets the leases of the instances of its project.
    """

    def __init__(self, service: Service, operations: Operations) -> None:
        plural = service.kinds[operations.kind].plural
        self._operations = operations
        self.on_get = operation(
            summary="List the operation leases that are held now",
            rule=Rule(f"{plural}:operations", PROJECT_READER),
            query=schemas.paging(service.max_limit),
            responses={200: Answer(schemas.collection("leases", LEASE))},
            tag=plural,
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page, sorted by id."""
        query = call.query
        rows = self._operations.all_running(call.context.scope, after=query.get("marker", ""), limit=query["limit"] + 1)
        call.answer_page(
            "leases", rows, lambda row: row.id, lambda row: {name: getattr(row, name) for name in LEASE["required"]}
        )


def owner_of(call: Call) -> Owner:
    """The caller as the owner of a lease."""
    return Owner(call.context.user_id or "", call.context.project_id)


def proof_of(call: Call) -> Proof:
    """What the request presents. Without a secret the proof is always refused."""
    return Proof(owner_of(call), call.request.get_header(SECRET) or "")


def _record_failure(cycle: DirectCommitCycle, entity_id: str, row: OperationRow, state: str) -> None:
    """Writes the failed operation that holds the sync of the instance back, or that none does any more."""
    vnf = cycle.view.get(KIND, entity_id)
    if not isinstance(vnf, VnfInstance):
        return
    now = datetime.datetime.now(datetime.UTC)
    failed = None
    if state in FAILURES and not vnf.sync_after_failure:
        failed = {"id": row.id, "operation": row.operation, "holder": row.holder, "state": state}
        failed["ended_at"] = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    if failed != vnf.failed_operation:
        cause = Event(
            id=str(uuid.uuid4()), type=f"{KIND}.operation_{state.lower()}", source="api", subject=entity_id, time=now
        )
        change = Upsert(KIND, entity_id, cycle.next_version(), {"registration": {"failed_operation": failed}})
        cycle.write(cause, [change])


def _shown(operations: Operations, entity_id: str, operation_id: str) -> OperationRow:
    row = operations.show(entity_id, operation_id)
    if row is None:
        raise not_found(f"operation {operation_id} of {operations.kind} {entity_id}")
    return row


def _running(lease: LeaseRow) -> dict[str, Any]:
    same = ("id", "operation", "holder", "token", "since", "expires_at", "user_id", "project_id")
    return {**{name: getattr(lease, name) for name in same}, "state": RUNNING, "ended_at": None}


def _document(row: OperationRow, reader: RequestContext) -> dict[str, Any]:
    document = msgspec.structs.asdict(row)
    del document["secret_digest"]
    if row.project_id != reader.project_id and reader.scope is not None:
        document["user_id"] = document["project_id"] = None
    return document
