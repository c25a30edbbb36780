# SPDX-License-Identifier: Apache-2.0
"""``entity list``, ``entity show``, ``entity history``: what exists, of every kind."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import Listing, Showing, WrongUsage, add_paging, row

_TELLING = frozenset(
    {
        "id", "name", "instance_name", "service_type", "project_id", "host", "state", "status", "task_state",
        "power_state", "provider_name", "availability_zone", "hosts", "cluster", "namespace", "phase", "last_heard",
        "updated_at",
    }
)  # fmt: skip
"""Fields that a table shows where nothing else is asked for; all others need -c or --fields."""

_FEW = 8


class EntityList(Listing):
    """List the entities of a kind."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        parser.add_argument(
            "--filter",
            dest="filters",
            action="append",
            type=_pair,
            default=[],
            metavar="FIELD=VALUE",
            help="only those with this value in an indexed field; may be repeated",
        )
        parser.add_argument("--sort", metavar="FIELD", help="sort by this field; with --sort=-FIELD downwards")
        add_fields(parser)
        add_paging(parser, marker="where to begin: the id after which, or the next_marker of a page")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Columns and rows."""
        filters = dict(parsed_args.filters)
        if len(filters) < len(parsed_args.filters):
            raise WrongUsage("--filter: each field once")
        fields = parsed_args.fields
        entities = self.client.entities(
            parsed_args.kind,
            filters=filters,
            sort=parsed_args.sort,
            fields=fields,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
        )
        first = next(entities, None)
        if first is None:
            return fields or ("id",), ()
        names = fields or tuple(first)
        if not fields and not parsed_args.columns and parsed_args.formatter == "table":
            names = tuple(name for name in names if name in _TELLING) or names[:_FEW]
            if names == ("id",):
                names = tuple(first)[:_FEW]
        return names, (row(entity, names) for entity in itertools.chain([first], entities))


class EntityShow(Showing):
    """Show one entity."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        parser.add_argument("id", metavar="ID", help="its id")
        add_fields(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Names and values."""
        entity = self.client.entity(parsed_args.kind, parsed_args.id, fields=parsed_args.fields)
        names = tuple(parsed_args.fields or entity)
        return names, row(entity, names)


class EntityHistory(Listing):
    """Show what happened to one entity, oldest first; to a deleted one too."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add_kind(parser)
        parser.add_argument("id", metavar="ID", help="its id")
        add_paging(parser, marker="where to begin: the seq after which")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Columns and rows."""
        names = ("seq", "time", "change", "event_type", "source", "merged", "delta")
        changes = self.client.history(
            parsed_args.kind, parsed_args.id, limit=parsed_args.limit, marker=parsed_args.marker
        )
        return names, [row(change, names) for change in changes]


def add_kind(parser: argparse.ArgumentParser) -> None:
    """The argument KIND."""
    parser.add_argument("kind", metavar="KIND", help="kind of entity, such as instance or compute_node")


def add_fields(parser: argparse.ArgumentParser) -> None:
    """``--fields``."""
    parser.add_argument(
        "--fields", type=_names, metavar="FIELD,...", help="the fields to show; all unless given, a table shows a few"
    )


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("names at least one field")
    return names


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"is FIELD=VALUE, not {text!r}")
    return name, value
