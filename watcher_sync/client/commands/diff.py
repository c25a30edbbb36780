# SPDX-License-Identifier: Apache-2.0
"""``diff``: what changed of each entity between two moments."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from watcher_sync.client.commands.base import RowsCommand, add_all_projects, add_limit, seq_or_time
from watcher_sync.client.commands.cells import Delta, cell


class Diff(RowsCommand):
    """Show what changed of each entity between two moments; an entity that is as it was is left out."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        moment = "a seq, or a time (ISO 8601, such as 2026-01-31T12:00; without an offset it is local time)"
        add = parser.add_argument
        add("--from", dest="since", type=seq_or_time, required=True, metavar="SEQ|TIME", help=f"{moment}")
        add("--to", dest="upto", type=seq_or_time, metavar="SEQ|TIME", help=f"{moment}; default: now")
        add("--kind", metavar="KIND", help="entities of this kind only")
        add_limit(parser)
        add("--marker", metavar="MARKER", help="where to begin: after KIND,ID")
        add_all_projects(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        found = self.client.differences(
            parsed_args.since,
            parsed_args.upto,
            kind=parsed_args.kind,
            all_projects=parsed_args.all_projects,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
        )
        names = ("kind", "id", "name", "change", "fields", "seq")
        return names, (
            tuple(
                Delta(msgspec.to_builtins(each.fields)) if name == "fields" else cell(getattr(each, name), name)
                for name in names
            )
            for each in found
        )
