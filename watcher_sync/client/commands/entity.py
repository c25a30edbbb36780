# SPDX-License-Identifier: Apache-2.0
"""``entity list``, ``entity show``, ``entity history list``: the entities of every kind."""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from watcher_sync.client.commands.base import ListCommand, ShowCommand, add_all_projects, add_as_of
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.filters import Filters, parse_filters
from watcher_sync.client.models import Change, Entity

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


class EntitiesCommand(ListCommand):
    """The base of lists of entities, which the API filters and sorts."""

    marker_help = "where to begin: after this id, or at the next_marker of a page"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_all_projects(parser)
        add_as_of(parser)
        return parser

    def found(
        self,
        parsed_args: argparse.Namespace,
        kind: str,
        *,
        fields: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> Iterator[Entity]:
        """Requests the entities that the options choose.

        :param fields: the fields of the result; None: all.
        :param filters: filters beside those of ``--filter``.
        """
        together = parse_filters(parsed_args.filters)
        for name, values in (filters or {}).items():
            together.setdefault(name, []).extend(values)
        return self.client.entities(
            kind,
            filters=together,
            sort=parsed_args.sort,
            fields=fields,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
            all_projects=parsed_args.all_projects,
            as_of=parsed_args.as_of,
        )


class EntityList(EntitiesCommand):
    """List the entities of a kind."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        add_fields(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        return self.listed(parsed_args, parsed_args.kind)

    def listed(self, parsed_args: argparse.Namespace, kind: str) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows of the entities of a kind."""
        fields = parsed_args.fields
        entities = self.found(parsed_args, kind, fields=fields)
        first = next(entities, None)
        if first is None:
            return fields or ("id",), ()
        names = fields or tuple(first)
        if not fields and not parsed_args.columns and parsed_args.formatter == "table":
            names = tuple(name for name in names if name in _DEFAULT_COLUMNS) or names[:_MAX_DEFAULT_COLUMNS]
            if names == ("id",):
                names = tuple(first)[:_MAX_DEFAULT_COLUMNS]
        return names, (row(entity, names) for entity in itertools.chain([first], entities))


class EntityShow(ShowCommand):
    """Show one entity."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        parser.add_argument("id", metavar="NAME_OR_ID", help="its id, or its name if no other entity has it")
        add_fields(parser)
        add_as_of(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        entity = self.client.find_entity(
            parsed_args.kind, parsed_args.id, fields=parsed_args.fields, as_of=parsed_args.as_of
        )
        names = tuple(parsed_args.fields or entity)
        return names, row(entity, names)


class EntityHistoryList(ListCommand):
    """List the changes of one entity, oldest first; of a deleted entity too."""

    marker_help = "where to begin: after this seq"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        parser.add_argument("id", metavar="ID", help="its id")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names: tuple[str, ...] = ("seq", "time", "change", "event_type", "source", "merged", "delta")
        if parsed_args.formatter != "table":
            names = (*names, "actor")
        choice = Choice(parsed_args, Change.__struct_fields__, "seq")
        changes = choice.of_pages(functools.partial(self.client.history, parsed_args.kind, parsed_args.id))
        return names, [row(change, names) for change in changes]


def add_kind(parser: argparse.ArgumentParser) -> None:
    """Adds the argument KIND."""
    parser.add_argument("kind", metavar="KIND", help="kind of entity, such as instance or compute_node")


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Adds ``--fields``."""
    parser.add_argument(
        "--fields", type=_names, metavar="FIELD,...", help="the fields to show (default: all; a table shows some)"
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("must name at least one field")
    return names
