# SPDX-License-Identifier: Apache-2.0
"""``quarantine list``, ``show``, ``replay``, ``drop``: events that could not be decoded or applied.

Several are done one after the other, and all are tried: what became of each is printed, and the exit status
is 1 if one of them failed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from watcher_sync.client.commands.base import Asking, Listing, PartialFailure, Showing, add_paging, row, seq
from watcher_sync.client.errors import NotFound


class QuarantineList(Listing):
    """List quarantined events, without their bodies."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add_paging(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Columns and rows."""
        names: tuple[str, ...] = ("id", "received_at", "source", "event_type", "event_id", "subject", "reason")
        if parsed_args.formatter != "table":
            names = (*names, "origin", "time", "deliveries")
        events = self.client.quarantine(limit=parsed_args.limit, marker=parsed_args.marker)
        return names, [row(event, names) for event in events]


class QuarantineShow(Showing):
    """Show a quarantined event whole."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("id", type=seq, metavar="ID", help="its id in the list")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], tuple[Any, ...]]:
        """Names and values."""
        event = self.client.quarantined(parsed_args.id)
        forms = [name for name in ("text", "base64") if getattr(event, name) is not None] or ["data"]
        head = ("id", "received_at", "source", "event_type", "event_id", "origin", "subject", "time", "deliveries")
        names = (*head, "reason", "detail", *forms)
        return names, row(event, names)


class QuarantineReplay(Listing):
    """Try quarantined events again. One that is refused again stays, under a new id."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        _add_ids(parser)
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Print what became of each; the exit status."""
        self._refused = 0
        status = super().run(parsed_args)
        return 1 if status == 0 and self._refused else status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Columns and rows."""
        rows: list[tuple[Any, ...]] = []
        for number in _chosen(self, parsed_args):
            try:
                replayed = self.client.replay(number)
                rows.append((number, replayed.outcome, replayed.seq))
            except NotFound:
                rows.append((number, "not found", None))
            self._refused += rows[-1][1] in ("quarantined", "not found")
        return ("id", "outcome", "seq"), rows


class QuarantineDrop(Asking):
    """Throw quarantined events away for good."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        _add_ids(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Drop them."""
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
    which.add_argument("--all", action="store_true", help="all that are in quarantine now")


def _chosen(command: Asking, parsed_args: argparse.Namespace) -> list[int]:
    """The ids; all are listed before the first is touched, because a replay may give new ones."""
    if parsed_args.all:
        return [event.id for event in command.client.quarantine()]
    return list(dict.fromkeys(parsed_args.ids))
