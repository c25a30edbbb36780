# SPDX-License-Identifier: Apache-2.0
"""``events tail``: the journal; with ``--follow`` it waits for further changes.

The command prints each change at once: a line of JSON, a YAML document, a CSV record, or a line for people. After an
interruption, ``--since`` with the last seq continues the output. With ``--topic`` it prints a watch topic.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import yaml

from watcher_sync.client.commands import topic_events
from watcher_sync.client.commands.base import Command, add_all_projects, at_least_1, seq
from watcher_sync.client.formatting import delta_text, plain
from watcher_sync.client.models import Change

_DEFAULT_CHANGES = 10
"""How many changes the command shows without ``--since``, ``--limit`` and ``--follow``."""

_COLUMNS = ("seq", "time", "kind", "id", "change", "delta", "event_id", "event_type", "source", "merged", "actor")

Writer = Callable[[Change], None]


class EventsTail(Command):
    """Show the last changes of the model, or those after a seq; with --follow wait for further changes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Makes the parser of the options."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add("--since", type=seq, metavar="SEQ", help="begin after this seq (default: the last changes)")
        limited = f"end after N changes (default: {_DEFAULT_CHANGES} without --since and --follow, else no limit)"
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
        since: int | None = parsed_args.since
        if since is None:
            page = self.client.events_page(None, limit=parsed_args.limit or _DEFAULT_CHANGES, **wanted)
            yield from page.events
            since = page.next_since
            if not parsed_args.follow:
                return
        if parsed_args.follow:
            yield from self.client.events(since, **wanted)
        while not parsed_args.follow:
            page = self.client.events_page(since, **wanted)
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
    out.writerow(_COLUMNS)

    def write(change: Change) -> None:
        values: dict[str, Any] = msgspec.to_builtins(change)
        values["delta"] = msgspec.json.encode(change.delta).decode()
        values["actor"] = msgspec.json.encode(change.actor).decode() if change.actor else ""
        out.writerow([values[name] for name in _COLUMNS])

    return write


def _table() -> Writer:
    def write(change: Change) -> None:
        time = change.time.astimezone().strftime("%H:%M:%S")
        what = delta_text(change.delta) if change.change == "updated" else change.event_type
        print(plain(f"{change.seq:>8} {time} {change.change} {change.kind} {change.id}  {what}"))

    return write


_WRITERS: dict[str, Callable[[], Writer]] = {"json": _json, "yaml": _yaml, "csv": _csv, "table": _table}
