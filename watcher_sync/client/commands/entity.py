# SPDX-License-Identifier: Apache-2.0
"""``entity list``, ``entity show``, ``entity history``: the entities of every kind."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import (
    ListCommand,
    ShowCommand,
    WrongUsage,
    add_all_projects,
    add_paging,
    row,
)

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


class EntityList(ListCommand):
    """List the entities of a kind."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        parser.add_argument(
            "--filter",
            dest="filters",
            action="append",
            type=_pair,
            default=[],
            metavar="FIELD=VALUE",
            help="only entities with this value in an indexed field; may be repeated",
        )
        parser.add_argument("--sort", metavar="FIELD", help="sort by this field; --sort=-FIELD reverses the order")
        add_fields(parser)
        add_paging(parser, marker="where to begin: after this id, or at the next_marker of a page")
        add_all_projects(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        filters = dict(parsed_args.filters)
        if len(filters) < len(parsed_args.filters):
            raise WrongUsage("--filter: a field is given twice")
        fields = parsed_args.fields
        entities = self.client.entities(
            parsed_args.kind,
            filters=filters,
            sort=parsed_args.sort,
            fields=fields,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
            all_projects=parsed_args.all_projects,
        )
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
        parser.add_argument("id", metavar="ID", help="its id")
        add_fields(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        entity = self.client.entity(parsed_args.kind, parsed_args.id, fields=parsed_args.fields)
        names = tuple(parsed_args.fields or entity)
        return names, row(entity, names)


class EntityHistory(ListCommand):
    """Show the changes of one entity, oldest first; of a deleted entity too."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        parser.add_argument("id", metavar="ID", help="its id")
        add_paging(parser, marker="where to begin: after this seq")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names: tuple[str, ...] = ("seq", "time", "change", "event_type", "source", "merged", "delta")
        if parsed_args.formatter != "table":
            names = (*names, "actor")
        changes = self.client.history(
            parsed_args.kind, parsed_args.id, limit=parsed_args.limit, marker=parsed_args.marker
        )
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


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must be FIELD=VALUE, not {text!r}")
    return name, value
