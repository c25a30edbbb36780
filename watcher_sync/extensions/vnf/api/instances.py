# SPDX-License-Identifier: Apache-2.0
"""The list and the items of ``/v1/vnf_instances``, with the selectors of SOL013, and the routes of VNF instances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_list import ListRequest
from watcher_sync.api.entities.writing import WritableItem, WritableList
from watcher_sync.api.http import schemas
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.pages import AnswerPage
from watcher_sync.api.http.problems import bad_request
from watcher_sync.api.http.validation import pointer
from watcher_sync.api.service import Service
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.extensions.vnf.api import sol003, sol013
from watcher_sync.extensions.vnf.api.operations import LeaseList, OperationItem, OperationList
from watcher_sync.extensions.vnf.api.registration import WritableVnfInstance, item_schema
from watcher_sync.extensions.vnf.api.sync import SyncNow, VnfSyncResource
from watcher_sync.model.visibility import NOTHING_HIDDEN, Hidden
from watcher_sync.operations import Operations
from watcher_sync.storage.groups.operation_leases import OperationLeases

KIND = "vnf_instance"

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
"""Reads of the table for one page. A document may have fewer bytes than its row, and a filter drops instances."""
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
        documents, marker, about = read_page(collection, call, chosen, names, _document)
        call.answer({collection.kind.plural: documents, **call.next_page(marker), **about})


class Form(Protocol):
    """Makes the document of an instance."""

    def __call__(
        self, collection: Collection, call: Call, row: dict[str, Any], hidden: Hidden, *, complete: bool
    ) -> dict[str, Any]:
        """:param complete: with ``instantiatedVnfInfo``."""


def read_page(
    collection: Collection, call: Call, chosen: sol013.AttributeSelection, names: Sequence[str], form: Form
) -> tuple[list[msgspec.Raw], str | None, dict[str, Any]]:
    """Reads one page of a list: of about 8 MiB, in the form that the answer has.

    :param names: of all attributes that the documents may have.
    :returns: the documents, the marker of the next page or None, and what the answer says of its moment.
    :raises Problem: 400 when the filter is none.
    """
    wanted = _expressions(call, names)
    request = ListRequest(collection, call, [p[0] for p in chosen.only or () if p[0] in collection.names])

    def shown(text: bytes) -> dict[str, Any] | None:
        row = msgspec.json.decode(text)
        complete = bool(wanted) or chosen.shows(sol003.NAME)
        document = form(collection, call, row, request.hidden, complete=complete)
        return chosen.of(document) if all(each.matches(document) for each in wanted) else None

    answer = AnswerPage(request.limit)
    end = request.after
    with collection.service.source(call, collection.kinds_read) as source:
        if end is not None:
            request.require_known_marker(source.connection, call, end.id)
        for _ in range(_MAX_READS):
            page = request.read(source, collection.names, NOTHING_HIDDEN, after=end)
            more = page.more
            for number, text in enumerate(page.texts(), start=1):
                end = page.end(number)
                if (document := shown(text)) is not None:
                    answer.add(document)
                    if answer.is_full:
                        more = more or number < len(page.rows)
                        break
            if answer.is_full or not more:
                break
            del page  # before the next one is read
    return answer.documents, request.marker(end) if more and end is not None else None, source.about()


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
        return chosen.of(_document(self.collection, call, row, hidden, complete=chosen.shows(sol003.NAME)))


def _document(
    collection: Collection, call: Call, row: dict[str, Any], hidden: Hidden, *, complete: bool
) -> dict[str, Any]:
    """An instance with its own fields and SOL003's attributes, with or without ``instantiatedVnfInfo``."""
    own = collection.selected(row, None, hidden)
    document = {**own, **sol003.attributes(row, call.link(f"/v1/{collection.kind.plural}", row["id"]))}
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


def routes(service: Service, writer: DirectWriter, sync: SyncNow) -> list[Route]:
    """The list and the items of VNF instances, their operations and their sync, and their form of SOL003.

    :param sync: syncs single instances.
    """
    kind = service.kinds.get(KIND)
    if kind is None:
        return []
    operations = Operations(OperationLeases(service.store.database, service.tables), KIND, service.conf.operations)
    collection, path = Collection(service, kind), f"/v1/{kind.plural}"
    vnf = WritableVnfInstance(operations, service)
    vnf.quota = service.conf.api.quota_vnf_instances
    return [
        ("/v1/leases", LeaseList(service, operations)),
        (path, VnfInstanceList(collection, writer, vnf)),
        (f"{path}/{{entity_id}}", VnfInstanceItem(collection, writer, vnf)),
        (f"{path}/{{entity_id}}/operations", OperationList(collection, operations)),
        (f"{path}/{{entity_id}}/operations/{{operation_id}}", OperationItem(collection, operations, writer)),
        (f"{path}/{{entity_id}}/sync", VnfSyncResource(collection, sync)),
    ]
