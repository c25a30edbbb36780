# SPDX-License-Identifier: Apache-2.0
"""``source list``, ``source show``, ``inventory list``: the state of the sources and of the inventories."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.client.commands.base import ListCommand, ShowCommand
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.models import Inventory, Source


class SourceList(ListCommand):
    """List the sources of all engines."""

    marker_help = "where to begin: after this source"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = (
            "source",
            "state",
            "fresh",
            "behind_seconds",
            "lag",
            "last_event_age",
            "last_full_sync_at",
            "reconnects",
            "entities",
            "trouble",
        )
        choice = Choice(parsed_args, Source.__struct_fields__, "source")
        return names, [row(source, names) for source in choice.of_all(self.client.sources())]


class InventoryList(ListCommand):
    """List the inventories: whether the model has everything that the live systems have."""

    marker_help = "where to begin: after this source"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = ("source", "complete", "complete_since", "last_complete_at", "trouble")
        choice = Choice(parsed_args, Inventory.__struct_fields__, "source")
        return names, [row(inventory, names) for inventory in choice.of_all(self.client.inventories())]


class SourceShow(ShowCommand):
    """Show one source."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("source", metavar="NAME", help="its name in [engine] enabled_sources")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        names = tuple(field.name for field in msgspec.structs.fields(Source))
        return names, row(self.client.source(parsed_args.source), names)
