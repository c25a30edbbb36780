# SPDX-License-Identifier: Apache-2.0
"""``drift list``: the differences that reconciliation found between the model and the live systems."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import ListCommand, add_all_projects, add_paging, row


class DriftList(ListCommand):
    """List the differences between the model and the live systems."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--kind", metavar="KIND", help="drifts of this kind only")
        parser.add_argument("--source", metavar="NAME", help="drifts found for this source only")
        add_all_projects(parser)
        add_paging(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = ("id", "kind", "entity_id", "field", "model_value", "live_value", "policy", "source", "since")
        drifts = self.client.drifts(
            kind=parsed_args.kind,
            source=parsed_args.source,
            all_projects=parsed_args.all_projects,
            limit=parsed_args.limit,
            marker=parsed_args.marker,
        )
        return names, [row(drift, names) for drift in drifts]
