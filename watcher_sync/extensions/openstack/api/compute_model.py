# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/compute_model``: all hosts, aggregates and servers of one generation, in one answer.

Optimisers such as OpenStack Watcher need the state of the whole cloud at one moment. The ``generation`` of the answer
is the seq of its last change. ``/v1/events?since=<generation>`` has the changes after it.

The answer is a stream. The API reads everything between the first bytes and the next ones, so a slow client does not
prolong the transaction. If the database fails meanwhile, the answer ends early, and is no JSON.

Only administrators and readers of the system may read it. An override of the rule does not suffice: the caller must
also see all projects and the fields that tell of hosts.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Generator
from typing import Any

import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.api.edge.feed import Feed, ResponseStream
from watcher_sync.api.edge.rate_limits import identity_of
from watcher_sync.api.http import etags, schemas
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.extensions.openstack.read import compute_model
from watcher_sync.extensions.openstack.read.compute_model import ComputeModelReader, fields_of
from watcher_sync.model.kinds import Kind
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.writing.journal import read_head

_NUMA: schemas.Schema = {
    "type": "object",
    "properties": {
        "nodes": schemas.nullable({"type": "integer"}) | {"description": "hw:numa_nodes"},
        "cpu_policy": schemas.nullable(schemas.STRING) | {"description": "hw:cpu_policy"},
        "cpu_thread_policy": schemas.nullable(schemas.STRING) | {"description": "hw:cpu_thread_policy"},
        "mem_page_size": schemas.nullable(schemas.STRING) | {"description": "hw:mem_page_size"},
        "pci_affinity_policy": schemas.nullable(schemas.STRING) | {"description": "hw:pci_numa_affinity_policy"},
    },
}
_PCI: schemas.Schema = {
    "type": "object",
    "required": ["alias", "count"],
    "properties": {"alias": schemas.STRING, "count": {"type": "integer", "minimum": 1}},
}
_AGGREGATE: schemas.Schema = {
    "type": "object",
    "properties": {
        "id": schemas.STRING | {"description": "Its uuid."},
        "number": schemas.nullable({"type": "integer"}) | {"description": "The id that Nova's API gives it."},
        "name": schemas.nullable(schemas.STRING),
    },
}
_COMPUTED: dict[str, schemas.Schema] = {
    "aggregate": {},
    "compute_node": {
        "aggregates": {"type": "array", "items": _AGGREGATE, "description": "The aggregates that list the host."},
        "pci": schemas.nullable({"type": "object"})
        | {"description": "The inventories of the resource classes CUSTOM_PCI_*; null: unknown."},
    },
    "instance": {
        "numa": schemas.nullable(_NUMA) | {"description": "What extra_specs ask for; null: nothing, or unknown."},
        "pci": schemas.nullable({"type": "array", "items": _PCI})
        | {"description": "The PCI devices that extra_specs ask for; null: unknown."},
    },
}
"""Kind -> the members that no field has."""

LOG = logging.getLogger(__name__)


def routes(service: Service, feed: Feed) -> list[tuple[str, ComputeModel]]:
    """The route of the compute model; none as long as one of its kinds is unusable."""
    return [("/v1/compute_model", ComputeModel(service, feed))] if _COMPUTED.keys() <= service.kinds.keys() else []


class ComputeModel:
    """``/v1/compute_model``."""

    def __init__(self, service: Service, feed: Feed) -> None:
        self._service = service
        self._feed = feed
        self._reader = ComputeModelReader(service.tables, service.kinds, service.store.database.dialect.name)
        self.on_get = operation(
            summary="Show all hosts, aggregates and servers of one generation",
            description=__doc__ or "",
            rule=Rule("compute_model:show", ADMIN_OR_SYSTEM_READER),
            headers={"If-None-Match": {"type": "string"}},
            responses={
                200: Answer(_schema(service), "The compute model, as a stream", headers=("ETag",)),
                304: Answer(None, "The generation is the one of If-None-Match", headers=("ETag",)),
            },
            tag="compute model",
            streams=True,
        )(self.show)

    def show(self, call: Call) -> None:
        """Answers with a stream, or with 304 where nothing has changed."""
        call.context.require_everything()
        with contextlib.ExitStack() as stack:
            slot = self._feed.take_slot(identity_of(call.request.env))
            stack.callback(slot.release)
            connection = stack.enter_context(self._service.reading())
            generation = read_head(connection, self._service.tables)
            if etags.answered_not_modified(call, f'"{generation}"'):
                return
            call.response.content_type = JSON
            chunks = _chunks(self._reader, connection, generation)
            call.response.stream = ResponseStream(chunks, stack.pop_all().close)


def _chunks(reader: ComputeModelReader, connection: sa.Connection, generation: int) -> Generator[bytes, None, None]:
    yield compute_model.begin(generation)
    try:
        with translated():
            pieces = reader.read(connection, generation)
            connection.close()
    except DatabaseUnavailable as exc:
        LOG.warning("An answer of /v1/compute_model breaks off: %s", exc)
        # A WSGI server ends the connection, and takes this for a client's end: it logs no traceback.
        raise ConnectionResetError(errno.ECONNRESET, str(exc)) from exc
    yield from pieces


def _schema(service: Service) -> schemas.Schema:
    kinds = [service.kinds[name] for name in _COMPUTED]
    lists = {kind.plural: {"type": "array", "items": _entry(kind)} for kind in kinds}
    return {
        "type": "object",
        "required": ["generation", *lists],
        "properties": {
            "generation": schemas.SEQ | {"description": "The journal's seq at which the answer was read."},
            **lists,
        },
    }


def _entry(kind: Kind) -> schemas.Schema:
    known: dict[str, Any] = schemas.entity_schema(kind)["properties"]
    properties = {name: known[name] for name in fields_of(kind)} | _COMPUTED[kind.name]
    return {"type": "object", "required": list(properties), "properties": properties}
