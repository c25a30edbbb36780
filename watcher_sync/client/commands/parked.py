# SPDX-License-Identifier: Apache-2.0
"""``parked list``: the events that wait for an entity which does not exist yet."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import ListCommand
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.models import ParkedEvent


class ParkedList(ListCommand):
    """List the events that wait for an entity which does not exist yet, oldest first."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = ("id", "parked_at", "expires_at", "source", "event_type", "kind", "entity_id")
        choice = Choice(parsed_args, ParkedEvent.__struct_fields__, "id")
        return names, [row(event, names) for event in choice.of_pages(self.client.parked)]
