# SPDX-License-Identifier: Apache-2.0
"""``quarantine list``, ``show``, ``replay``, ``delete``: events that could not be decoded or applied.

``replay`` and ``delete`` process all given events, one after the other, even if one of them fails. ``replay`` prints
the outcome of each. The exit status is 1 if one of them failed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import Command, ListCommand, RowsCommand, ShowCommand, seq
from watcher_sync.client.commands.cells import PlainText, row
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.commands.errors import PartialFailure
from watcher_sync.client.errors import NotFound
from watcher_sync.client.models import Quarantined


class QuarantineList(ListCommand):
    """List quarantined events, without their bodies."""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names: tuple[str, ...] = ("id", "received_at", "source", "event_type", "event_id", "subject", "reason")
        if parsed_args.formatter != "table":
            names = (*names, "origin", "time", "deliveries")
        choice = Choice(parsed_args, Quarantined.__struct_fields__, "id")
        return names, [row(event, names) for event in choice.of_pages(self.client.quarantine)]


class QuarantineShow(ShowCommand):
    """Show a quarantined event with its body."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", type=seq, metavar="ID", help="its id in the list")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Returns the names and the values."""
        event = self.client.quarantined(parsed_args.id)
        forms = [name for name in ("text", "base64") if getattr(event, name) is not None] or ["data"]
        head = ("id", "received_at", "source", "event_type", "event_id", "origin", "subject", "time", "deliveries")
        names = (*head, "reason", "detail", *forms)
        return names, row(event, names)


class QuarantineReplay(RowsCommand):
    """Apply quarantined events again. An event that is refused again stays in quarantine, with the new reason."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_ids(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Prints the outcome of each event, and returns the exit status."""
        self._failures = 0
        status = super().run(parsed_args)
        return 1 if status == 0 and self._failures else status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        rows: list[tuple[Any, ...]] = []
        for number in _chosen(self, parsed_args):
            try:
                replayed = self.client.replay(number)
                rows.append((number, replayed.outcome, replayed.seq, PlainText(replayed.reason or "")))
            except NotFound:
                rows.append((number, "not found", None, ""))
            self._failures += rows[-1][1] in ("quarantined", "not found")
        return ("id", "outcome", "seq", "reason"), rows


class QuarantineDelete(Command):
    """Delete quarantined events."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        _add_ids(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes the events."""
        missing = []
        for number in _chosen(self, parsed_args):
            try:
                self.client.drop(number)
            except NotFound:
                missing.append(number)
        if missing and not parsed_args.all:
            raise PartialFailure(f"no quarantined event has the id {', '.join(map(str, missing))}")


def _add_ids(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("ids", nargs="*", type=seq, default=[], metavar="ID", help="ids in the list")
    which.add_argument("--all", action="store_true", help="all events that are in quarantine now")


def _chosen(command: Command, parsed_args: argparse.Namespace) -> list[int]:
    """The ids to process. With ``--all`` they are listed first, because refused events stay in the list."""
    if parsed_args.all:
        return [event.id for event in command.client.quarantine()]
    return list(dict.fromkeys(parsed_args.ids))
