# SPDX-License-Identifier: Apache-2.0
"""``drift list``: what differs from the live systems, and which VNF instances are at no level."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import ListCommand, add_all_projects
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.models import Drift


class DriftList(ListCommand):
    """List the VNF instances that are at no level, and the differences between the model and the live systems."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--kind", metavar="KIND", help="drifts of this kind only")
        parser.add_argument("--source", metavar="NAME", help="drifts found for this source, or in this cluster, only")
        parser.add_argument(
            "--differences-only",
            action="store_true",
            help="no VNF instances that are at no level",
        )
        add_all_projects(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = (
            "id", "kind", "entity_id", "field", "model_value", "live_value", "policy", "source", "since", "summary",
            "remedy",
        )  # fmt: skip
        drifts = functools.partial(
            self.client.drifts,
            kind=parsed_args.kind,
            source=parsed_args.source,
            levels=None if parsed_args.differences_only else True,
            all_projects=parsed_args.all_projects,
        )
        choice = Choice(parsed_args, Drift.__struct_fields__, "id")
        return names, [row(drift, names) for drift in choice.of_pages(drifts)]
