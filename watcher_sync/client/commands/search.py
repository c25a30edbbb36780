# SPDX-License-Identifier: Apache-2.0
"""``search``: entities of all kinds by their names and ids."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import RowsCommand, add_as_of, at_least_1
from watcher_sync.client.commands.cells import row


class Search(RowsCommand):
    """Find entities of all kinds whose name or id is, begins with, or contains a text."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("text", metavar="TEXT", help="a name, an id, or a part of one; upper and lower case differ")
        parser.add_argument("--kind", metavar="KIND", help="entities of this kind only")
        parser.add_argument("--limit", type=at_least_1, metavar="N", help="the maximum number of results (default: 20)")
        add_as_of(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        found = self.client.search(
            parsed_args.text, kind=parsed_args.kind, limit=parsed_args.limit, as_of=parsed_args.as_of
        )
        if found.more:
            print("there are more results; a longer text or --limit shows them", file=sys.stderr)
        names = ("kind", "id", "name", "project_id")
        return names, [row(each, names) for each in found.results]
