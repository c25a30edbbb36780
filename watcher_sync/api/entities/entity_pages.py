# SPDX-License-Identifier: Apache-2.0
"""Reads a page of a list as its query asks for it: filters, sort, marker and limit."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.api.entities import as_of, host_usage
from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_filters import conditions, named, text_of, value_of
from watcher_sync.api.http.operation import Call
from watcher_sync.api.http.problems import bad_request
from watcher_sync.api.http.request_context import NO_PROJECT
from watcher_sync.api.http.rules import ADMIN_ONLY_FIELDS, ALL_PROJECTS
from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.model.visibility import Hidden
from watcher_sync.read.entity_pages import After, Sort, read_page
from watcher_sync.read.filters import FieldCondition
from watcher_sync.read.past.moments import Moment
from watcher_sync.wire.fields import BadEnvelope

_MAX_READS = 10
"""Reads of a table for one page of a list whose rows are filtered after they are read."""


def wanted_ids(call: Call) -> list[str] | None:
    """The ids of the parameter ``ids``; None: the request has none."""
    ids = call.query.get("ids")
    return None if ids is None else [urllib.parse.unquote(each).replace("\0", "") for each in ids]


class ListPage(msgspec.Struct, frozen=True):
    """Rows of a list, and what an answer needs beside them."""

    rows: list[dict[str, Any]]
    marker: str | None
    """Of the next page; None: this is the last one."""
    seq: int
    hidden: Hidden
    """What the caller does not see."""
    moment: Moment | None = None
    """What the page shows; None: the present."""

    def about(self) -> dict[str, Any]:
        """The members of an answer that say what it shows."""
        return {"seq": self.seq, **as_of.answer(self.moment)}


def read_list(
    collection: Collection,
    call: Call,
    names: Sequence[str],
    chosen: Iterable[str],
    make: Callable[[dict[str, Any], Hidden], dict[str, Any] | None] | None = None,
) -> ListPage:
    """Reads a page as the query asks for it: filters, sort, marker and limit.

    :param names: the columns to read.
    :param chosen: the fields that the request names; the caller has to see them.
    :param make: makes the document of a row, or returns None for a row that is left out; None: the row itself. Then
        the page may take several reads of the table, up to ten, and have fewer rows than its limit.
    """
    kind, query = collection.kind, call.query
    wanted = scoped_conditions(kind, call)
    sort = Sort(query["sort"].lstrip("-"), query["sort"].startswith("-"))
    used = [*named(kind, query), sort.field]
    hidden = collection.require_visible(call, [*chosen, *used])
    as_of.require_known_fields(kind, used, call)
    _require_visible_members(call, wanted, hidden)
    limit, marker = int(query["limit"]), query.get("marker")
    rows: list[dict[str, Any]] = []
    with as_of.reading(call, collection.service, collection.kinds_read) as source:
        for _ in range(_MAX_READS if make is not None else 1):
            found = read_page(
                source.connection,
                collection.service.tables,
                kind,
                names=host_usage.columns(names) if collection.computed else names,
                conditions=wanted,
                sort=sort,
                after=_after(kind, sort, marker),
                limit=limit,
                ids=wanted_ids(call),
            )
            if collection.computed:
                host_usage.add(source.connection, collection.service.tables, found.rows, names)
            if "seq" in names:
                source.add_seqs(kind, found.rows)
            more = found.more
            for number, row in enumerate(found.rows, start=1):
                marker = _marker(sort, row)
                if (document := row if make is None else make(row, hidden)) is not None:
                    rows.append(document)
                    if len(rows) == limit:
                        more = more or number < len(found.rows)
                        break
            if len(rows) == limit or not more:
                break
    return ListPage(rows, marker if more else None, source.seq, hidden, source.moment)


def scoped_conditions(kind: Kind, call: Call) -> list[FieldCondition]:
    """The conditions of the request, and the one that leaves the caller's project alone, unless it sees all.

    :raises Problem: 403 when the request asks for another project, or for all, and the policy does not allow it.
    """
    found = conditions(kind, call.query)
    if not kind.is_scoped:
        return found
    wanted: bool | None = call.query.get("all_projects")
    scope = call.context.scope
    if wanted and scope is not None:
        raise call.context.refusal([ALL_PROJECTS])
    if wanted is False:
        scope = call.context.project_id or NO_PROJECT
    if scope is None:
        return found
    asked = {value for each in found if each.field == PROJECT_FIELD and each.operator == "eq" for value in each.values}
    for project_id in asked - {scope}:
        call.context.require_on(call.rule, project_id)
    return found if asked else [*found, FieldCondition(PROJECT_FIELD, "eq", (scope,))]


def _require_visible_members(call: Call, wanted: Iterable[FieldCondition], hidden: Hidden) -> None:
    """:raises Problem: 403 when a filter names a member that the caller does not see."""
    for each in wanted:
        if each.member is not None and each.member in {path.partition(".")[0] for path in hidden.get(each.field, ())}:
            raise call.context.refusal([ADMIN_ONLY_FIELDS])


def _marker(sort: Sort, row: dict[str, Any]) -> str:
    """The marker of a row: its id, or its sort value (escaped; * for null) and its id."""
    if sort.field == "id":
        return str(row["id"])
    value = row[sort.field]
    return f"{'*' if value is None else _escaped(text_of(value))},{row['id']}"


def _escaped(text: str) -> str:
    """Percent-encodes what a marker gives a meaning to, so that a marker is about as long as its value."""
    text = text.replace("%", "%25").replace(",", "%2C")
    return f"%2A{text[1:]}" if text.startswith("*") else text


def _after(kind: Kind, sort: Sort, marker: str | None) -> After | None:
    """Decodes a marker of :func:`_marker`. Every other text is a valid position too, if it is that of a value.

    :raises Problem: 400 when it is none.
    """
    if marker is None:
        return None
    text = marker.replace("\0", "")
    if sort.field == "id":
        return After(None, text)
    value, _, entity_id = text.partition(",")
    if value == "*":
        return After(None, entity_id)
    try:
        return After(value_of(kind.fields[sort.field].python, urllib.parse.unquote(value)), entity_id)
    except (ValueError, KeyError, BadEnvelope):
        raise bad_request("query", "/marker", f"marker is no position in a list sorted by {sort.field}") from None
