# SPDX-License-Identifier: Apache-2.0
"""``drift list``: where reconciliation found the model and the live system to differ."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import Listing, add_paging, row


class DriftList(Listing):
    """List what reconciliation found to differ."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--kind", metavar="KIND", help="drifts of this kind only")
        parser.add_argument("--source", metavar="NAME", help="drifts that this source showed only")
        add_paging(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Columns and rows."""
        names = ("id", "kind", "entity_id", "field", "model_value", "live_value", "policy", "source", "since")
        drifts = self.client.drifts(
            kind=parsed_args.kind, source=parsed_args.source, limit=parsed_args.limit, marker=parsed_args.marker
        )
        return names, [row(drift, names) for drift in drifts]
