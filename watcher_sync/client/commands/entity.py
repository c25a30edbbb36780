# SPDX-License-Identifier: Apache-2.0
"""``entity list``, ``show``, ``history list``, ``diff``, ``search``: the entities of every kind, now and before."""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from watcher_sync.client.client import Client
from watcher_sync.client.commands.arguments import (
    ALL_PROJECTS,
    AS_OF,
    BY_ACTOR,
    FIELDS,
    KIND,
    LIMIT,
    LONG,
    Argument,
    argument,
    at_least_1,
    marker,
    seq_or_time,
)
from watcher_sync.client.commands.base import ListCommand, Noun, RowsCommand, ShowCommand
from watcher_sync.client.commands.cells import delta
from watcher_sync.client.errors import NotFound
from watcher_sync.client.filters import parse_filters
from watcher_sync.client.models import Change, Entity, Stored

ENTITIES_MARKER = "after this id, or at the next_marker of a page"

_DEFAULT_COLUMNS = frozenset(
    {
        "id", "name", "instance_name", "service_type", "project_id", "host", "state", "status", "task_state",
        "power_state", "provider_name", "availability_zone", "hosts", "cluster", "namespace", "phase", "last_heard",
        "updated_at",
    }
)  # fmt: skip
"""Fields that a table shows by default; -c or --fields chooses others."""

_MAX_DEFAULT_COLUMNS = 8
"""How many columns a table has if the kind has none of the default columns."""


class EntityListCommand(ListCommand):
    """List the entities of a kind."""

    # The API filters and sorts them.
    noun = Noun(marker=ENTITIES_MARKER)
    arguments: ClassVar[tuple[Argument, ...]] = (ALL_PROJECTS, AS_OF, KIND, FIELDS)
    kind: str | None = None
    """None: that of the argument."""

    def _arguments(self) -> tuple[Argument, ...]:
        return (*super()._arguments(), LONG)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        few = parsed_args.formatter == "table" and not (parsed_args.columns or parsed_args.long)
        fields: Sequence[str] = getattr(parsed_args, "fields", None) or (self.noun.table if few else ())
        kind = self.kind or parsed_args.kind
        entities = self.client.entities(kind, **self._query(parsed_args, fields or None))
        found = list(itertools.islice(entities, 1))
        if not fields:
            # An empty list has the columns of another one of its kind.
            fields = tuple(found[0]) if found else tuple(column.name for column in self.client.columns(kind))
            fields = _default_columns(fields) if few else fields
        names = fields
        return names, (self._row(entity, names) for entity in itertools.chain(found, entities))

    def _query(self, parsed_args: argparse.Namespace, fields: Sequence[str] | None) -> dict[str, Any]:
        return entities_query(parsed_args, fields)


def entities_query(parsed_args: argparse.Namespace, fields: Sequence[str] | None) -> dict[str, Any]:
    """The arguments of :meth:`~watcher_sync.client.client.Client.entities` that the options give.

    :param fields: the fields of the result; None: all.
    """
    names = ("sort", "limit", "marker", "all_projects", "as_of")
    given = {name: getattr(parsed_args, name, None) for name in names}
    return {**given, "filters": parse_filters(parsed_args.filters), "fields": fields}


def _default_columns(fields: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name for name in fields if name in _DEFAULT_COLUMNS)
    return names if names and names != ("id",) else tuple(fields)[:_MAX_DEFAULT_COLUMNS]


NAME_OR_ID = argument("id", metavar="NAME_OR_ID", help="its id, or its name if no other entity has it")


class EntityShow(ShowCommand):
    """Show one entity."""

    arguments: ClassVar[tuple[Argument, ...]] = (KIND, NAME_OR_ID, FIELDS, AS_OF)
    kind: str | None = None
    """None: that of the argument."""

    def _document(self, parsed_args: argparse.Namespace) -> Entity:
        kind, fields = self.kind or parsed_args.kind, parsed_args.fields
        entity = self.client.find_entity(kind, parsed_args.id, fields=fields, as_of=parsed_args.as_of)
        return {name: entity.get(name) for name in fields or entity}


def with_etag(stored: Stored) -> Entity:
    """The entity with its ETag as a further field."""
    return {**stored.entity, "etag": stored.etag}


def _id_of(client: Client, parsed_args: argparse.Namespace) -> str:
    """The id of the entity that the command names. The name of a deleted entity is unknown."""
    try:
        return str(client.find_entity(parsed_args.kind, parsed_args.id, fields=("id",))["id"])
    except NotFound:
        return str(parsed_args.id)


_HISTORY_COLUMNS = ("seq", "time", "change", "event_type", "source", "merged", "delta")

EntityHistoryList = Noun(
    fields=Change.__struct_fields__,
    columns=(*_HISTORY_COLUMNS, "actor"),
    table=_HISTORY_COLUMNS,
    cells={"delta": delta},
    key="seq",
    marker="after this seq",
    pages=lambda client, args: functools.partial(client.history, args.kind, _id_of(client, args), actor=args.actor),
).list_command(
    "List the changes of one entity, oldest first; of a deleted entity too.",
    KIND,
    argument("id", metavar="NAME_OR_ID", help="its id, or its name if no other entity has it; of a deleted one the id"),
    BY_ACTOR,
)


class DiffCommand(RowsCommand):
    """Show what changed of each entity between two moments; an entity that is as it was is left out."""

    noun = Noun(columns=("kind", "id", "name", "change", "fields", "seq"), cells={"fields": delta})
    _moment = "a seq, or a time (ISO 8601, such as 2026-01-31T12:00; without an offset it is local time)"
    arguments = (
        argument("--from", dest="since", type=seq_or_time, required=True, metavar="SEQ|TIME", help=_moment),
        argument("--to", dest="upto", type=seq_or_time, metavar="SEQ|TIME", help=f"{_moment}; default: now"),
        argument("--kind", metavar="KIND", help="entities of this kind only"),
        LIMIT,
        marker("after KIND,ID"),
        ALL_PROJECTS,
    )

    def _documents(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        names = ("kind", "all_projects", "limit", "marker")
        given = {name: getattr(parsed_args, name) for name in names}
        return self.client.differences(parsed_args.since, parsed_args.upto, **given)


class SearchCommand(RowsCommand):
    """Find entities of all kinds whose name or id is, begins with, or contains a text."""

    noun = Noun(columns=("kind", "id", "name", "project_id"))
    arguments = (
        argument("text", metavar="TEXT", help="a name, an id, or a part of one; upper and lower case differ"),
        argument("--kind", metavar="KIND", help="entities of this kind only"),
        argument("--limit", type=at_least_1, metavar="N", help="the maximum number of results (default: 20)"),
        AS_OF,
    )

    def _documents(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        given = {name: getattr(parsed_args, name) for name in ("kind", "limit", "as_of")}
        found = self.client.search(parsed_args.text, **given)
        if found.more:
            print("there are more results; a longer text or --limit shows them", file=sys.stderr)
        return found.results
