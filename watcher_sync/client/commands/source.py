# SPDX-License-Identifier: Apache-2.0
"""``source list`` and ``source show``: where events come from, and whether they do."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.client.commands.base import Listing, Showing, row
from watcher_sync.client.models import Source


class SourceList(Listing):
    """List the sources of all engines."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Columns and rows."""
        names = ("source", "state", "fresh", "lag", "last_event_age", "last_full_sync_at", "reconnects", "trouble")
        return names, [row(source, names) for source in self.client.sources()]


class SourceShow(Showing):
    """Show one source."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("source", metavar="NAME", help="its name, as [engine] enabled_sources has it")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Names and values."""
        names = tuple(field.name for field in msgspec.structs.fields(Source))
        return names, row(self.client.source(parsed_args.source), names)
