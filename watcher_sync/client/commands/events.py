# SPDX-License-Identifier: Apache-2.0
"""``event list`` and ``event tail``: the journal; with ``--follow`` the latter waits for further changes.

``event tail`` prints each change at once: a line of JSON, a YAML document, a CSV record, or a line for people. After an
interruption, ``--since`` with the last seq continues the output. With ``--topic`` it prints a watch topic.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import yaml

from watcher_sync.client.commands import topic_events
from watcher_sync.client.commands.base import (
    Command,
    ListCommand,
    add_all_projects,
    at_least_1,
    seq,
    seq_or_time,
)
from watcher_sync.client.commands.cells import row, time_text, title
from watcher_sync.client.commands.choosing import Choice
from watcher_sync.client.formatting import delta_text, plain
from watcher_sync.client.models import Change

_DEFAULT_CHANGES = 10
"""How many changes the command shows without ``--since``, ``--limit`` and ``--follow``."""

_TABLE_COLUMNS = ("seq", "time", "kind", "id", "change", "event_type", "source", "delta")
_COLUMNS = ("seq", "time", "kind", "id", "change", "delta", "event_id", "event_type", "source", "merged", "actor")

Writer = Callable[[Change], None]


class EventTail(Command):
    """Show the last changes of the model, or those after a seq; with --follow wait for further changes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add(
            "--since",
            type=seq_or_time,
            metavar="SEQ|TIME",
            help="begin after this seq, or at this time (ISO 8601, such as 2026-01-31T12:00; without an offset it is "
            "local time; default: the last changes)",
        )
        limited = f"end after N changes (default: {_DEFAULT_CHANGES} without --since and --follow, else no limit)"
        add("--epoch", metavar="EPOCH", help="the epoch of SEQ; the command fails if the journal is of another one")
        add("--limit", type=at_least_1, metavar="N", help=limited)
        add("--follow", "-F", action="store_true", help="wait for further changes until Ctrl-C; reconnects to the API")
        add("--kind", metavar="KIND", help="changes of this kind only")
        add("--id", dest="entity_id", metavar="ID", help="changes of the entity with this id only")
        add_all_projects(parser)
        topic_events.add_options(parser)
        add("-f", "--format", choices=sorted(_WRITERS), default="table", help="output format (default: table)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Prints the changes, or the events of a topic."""
        topic_events.check_options(parsed_args)
        if parsed_args.topic is not None:
            write_event = topic_events.WRITERS[parsed_args.format]()
            for event in itertools.islice(topic_events.topic_events(self.client, parsed_args), parsed_args.limit):
                write_event(event)
                sys.stdout.flush()
            return
        write = _WRITERS[parsed_args.format]()
        for change in itertools.islice(self._changes(parsed_args), parsed_args.limit):
            write(change)
            sys.stdout.flush()

    def _changes(self, parsed_args: argparse.Namespace) -> Iterable[Change]:
        wanted: dict[str, Any] = {
            "kind": parsed_args.kind,
            "entity_id": parsed_args.entity_id,
            "all_projects": parsed_args.all_projects,
        }
        since: int | str | None = parsed_args.since
        epoch: str | None = parsed_args.epoch
        if isinstance(since, str):
            page = self.client.events_page(since, epoch=epoch, **wanted)
            yield from page.events
            since, epoch = page.next_since, page.epoch
            if not parsed_args.follow and since >= page.head:
                return
        if since is None:
            page = self.client.events_page(None, limit=parsed_args.limit or _DEFAULT_CHANGES, **wanted)
            yield from page.events
            since, epoch = page.next_since, page.epoch
            if not parsed_args.follow:
                return
        if parsed_args.follow:
            yield from self.client.events(since, epoch=epoch, **wanted)
        while not parsed_args.follow:
            page = self.client.events_page(since, epoch=epoch, **wanted)
            epoch = page.epoch
            yield from page.events
            if page.next_since == since or page.next_since >= page.head:
                return
            since = page.next_since


class EventList(ListCommand):
    """List changes of the model: the last ones, or those after a seq or from a time on."""

    marker_help = "where to begin: after this seq"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--since", type=seq_or_time, metavar="SEQ|TIME",
            help=f"begin after this seq, or at this time (default: the last {_DEFAULT_CHANGES} changes, or --limit; "
            "with --filter or --sort, those among the last page of the journal)",
        )  # fmt: skip
        parser.add_argument("--kind", metavar="KIND", help="changes of this kind only")
        parser.add_argument("--id", dest="entity_id", metavar="ID", help="changes of the entity with this id only")
        add_all_projects(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[tuple[Any, ...]]]:
        """Returns the columns and the rows."""
        names = _TABLE_COLUMNS if parsed_args.formatter == "table" else _COLUMNS
        choice = Choice(parsed_args, Change.__struct_fields__, "seq")
        return names, [row(change, names) for change in choice.of_pages(functools.partial(self._changes, parsed_args))]

    def _changes(self, parsed_args: argparse.Namespace, limit: int | None, marker: str | None) -> Iterable[Change]:
        wanted: dict[str, Any] = {
            "kind": parsed_args.kind,
            "entity_id": parsed_args.entity_id,
            "all_projects": parsed_args.all_projects,
        }
        since: int | str | None = parsed_args.since if marker is None else seq(marker)
        if since is None:
            chosen = parsed_args.sort is not None or parsed_args.filters
            last = None if chosen else limit or _DEFAULT_CHANGES
            yield from self.client.events_page(None, limit=last, **wanted).events
            return
        epoch: str | None = None
        while True:
            page = self.client.events_page(since, epoch=epoch, **wanted)
            epoch = page.epoch
            yield from page.events
            if page.next_since == since or page.next_since >= page.head:
                return
            since = page.next_since


def _json() -> Writer:
    return lambda change: print(msgspec.json.encode(change).decode())


def _yaml() -> Writer:
    def write(change: Change) -> None:
        yaml.safe_dump(
            msgspec.to_builtins(change), sys.stdout, sort_keys=False, explicit_start=True, allow_unicode=True
        )

    return write


def _csv() -> Writer:
    out = csv.writer(sys.stdout)
    out.writerow([title(name) for name in _COLUMNS])

    def write(change: Change) -> None:
        values: dict[str, Any] = msgspec.to_builtins(change)
        values["delta"] = msgspec.json.encode(change.delta).decode()
        values["actor"] = msgspec.json.encode(change.actor).decode() if change.actor else ""
        out.writerow([values[name] for name in _COLUMNS])

    return write


def _table() -> Writer:
    def write(change: Change) -> None:
        what = delta_text(change.delta) if change.change == "updated" else change.event_type
        print(plain(f"{change.seq:>8} {time_text(change.time)} {change.change} {change.kind} {change.id}  {what}"))

    return write


_WRITERS: dict[str, Callable[[], Writer]] = {"json": _json, "yaml": _yaml, "csv": _csv, "table": _table}
