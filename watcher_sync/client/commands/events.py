# SPDX-License-Identifier: Apache-2.0
"""``events tail``: the journal, and with ``--follow`` as it grows.

Every change is written as soon as it comes: a line of JSON, a YAML document, a CSV record, or a line for people. So
it can be piped, and cut off at any point; ``--since`` with the last seq that was read goes on from there.
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

from watcher_sync.client.commands.base import Asking, at_least_1, seq
from watcher_sync.client.formatting import delta_text, plain
from watcher_sync.client.models import Change

_LAST = 10
"""Changes that are shown where nothing says how many."""

_COLUMNS = ("seq", "time", "kind", "id", "change", "delta", "event_id", "event_type", "source", "merged")

Writer = Callable[[Change], None]


class EventsTail(Asking):
    """Show the last changes of the model, or those after a seq; with --follow as they come."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The options."""
        parser = super().get_parser(prog_name)
        add = parser.add_argument
        add("--since", type=seq, metavar="SEQ", help="begin after this seq; without it with the last changes")
        add("--limit", type=at_least_1, metavar="N", help=f"end after so many; without --since and --follow {_LAST}")
        add("--follow", "-F", action="store_true", help="wait for more, until Ctrl-C; survives a restart of the API")
        add("--kind", metavar="KIND", help="changes of this kind only")
        add("--id", dest="entity_id", metavar="ID", help="changes of the entity with this id only")
        add("-f", "--format", choices=sorted(_WRITERS), default="table", help="how to write them (default: table)")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write them."""
        write = _WRITERS[parsed_args.format]()
        for change in itertools.islice(self._changes(parsed_args), parsed_args.limit):
            write(change)
            sys.stdout.flush()

    def _changes(self, parsed_args: argparse.Namespace) -> Iterable[Change]:
        wanted = {"kind": parsed_args.kind, "entity_id": parsed_args.entity_id}
        since: int | None = parsed_args.since
        if since is None:
            page = self.client.events_page(None, limit=parsed_args.limit or _LAST, **wanted)
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
        out.writerow([values[name] for name in _COLUMNS])

    return write


def _table() -> Writer:
    def write(change: Change) -> None:
        time = change.time.astimezone().strftime("%H:%M:%S")
        what = delta_text(change.delta) if change.change == "updated" else change.event_type
        print(plain(f"{change.seq:>8} {time} {change.change} {change.kind} {change.id}  {what}"))

    return write


_WRITERS: dict[str, Callable[[], Writer]] = {"json": _json, "yaml": _yaml, "csv": _csv, "table": _table}
