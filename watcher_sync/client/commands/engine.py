# SPDX-License-Identifier: Apache-2.0
"""``engine list``: the engines of all groups, leading and standing by."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import ListCommand
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.models import Engine


class EngineList(ListCommand):
    """List the engines of all groups: which one leads, and which stand by."""

    marker_help = "where to begin: after the engine with this process id"

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = ("group", "host", "pid", "state", "since", "release", "heartbeat_at", "seq", "lag_seconds", "sources")
        choice = Choice(parsed_args, Engine.__struct_fields__, "pid")
        return names, [row(engine, names) for engine in choice.of_all(self.client.engines())]
