# SPDX-License-Identifier: Apache-2.0
"""``event list`` and ``event tail``: the journal; with ``--follow`` the latter waits for further changes.

``event tail`` prints each change at once: a line of JSON, a YAML document, a CSV record, or a line for people. With
``--topic`` it prints the events of a watch topic, over the watch stream, which reconnects by itself. After an
interruption, ``--since`` with the last seq or sequence continues the output.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import queue
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml

from watcher_sync.client.client import Client
from watcher_sync.client.commands.arguments import (
    ALL_PROJECTS,
    BY_ACTOR,
    WrongUsage,
    argument,
    at_least_1,
    seq,
    seq_or_time,
)
from watcher_sync.client.commands.base import Command, Noun
from watcher_sync.client.commands.cells import delta, time_text, title
from watcher_sync.client.export_formats import without_formula
from watcher_sync.client.models import Change
from watcher_sync.client.terminal import delta_text, plain
from watcher_sync.client.transport import segment
from watcher_sync.extensions.watch.wire.topic_links import self_link

if TYPE_CHECKING:  # gRPC loads slowly, so only the command itself imports it
    from watcher_sync.client.watch import WatchError, WatchEvent

_QUEUE_EVENTS = 1000
_TOPIC_COLUMNS = ("sequence", "time", "type", "group", "kind", "name", "scope", "entity_id", "attributes", "unset")

_TOPIC_ARGUMENTS = (
    argument(
        "--topic",
        metavar="NAME",
        help="events of this watch topic, over the watch stream, until Ctrl-C or --limit; "
        "--since is the sequence to resume after (default: new events only)",
    ),
    argument(
        "--stream-address",
        metavar="HOST[:PORT]",
        help="with --topic: address of the watch stream (default: the host of the API and port 8776)",
    ),
    argument(
        "--stream-tls",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="with --topic: whether the watch stream uses TLS (default: if the API does)",
    ),
)
"""``--topic`` and the options of the watch stream."""


def _check_topic_options(parsed_args: argparse.Namespace) -> None:
    """Checks that the options fit together.

    :raises WrongUsage: when they do not.
    """
    if parsed_args.topic is None:
        if parsed_args.stream_address is not None or parsed_args.stream_tls is not None:
            raise WrongUsage("--stream-address and --stream-tls need --topic")
        return
    if isinstance(parsed_args.since, str):
        raise WrongUsage("--since is the sequence of an event with --topic, and no time")
    for name in _FILTERS:
        if getattr(parsed_args, name) is not None:
            option = "id" if name == "entity_id" else name.replace("_", "-")
            raise WrongUsage(f"--{option} cannot be used with --topic, which has filters of its own")


def _topic_events(client: Client, parsed_args: argparse.Namespace) -> Iterator[WatchEvent]:
    """The events of the topic, without end.

    :raises ClientError: when the service ends the watch.
    """
    from watcher_sync.client.watch import MemorySequence, WatchEvent

    name: str = parsed_args.topic
    topic = name if name.startswith("/") else self_link(segment(name))
    # A queue with a bound: a slow terminal must not fill the memory.
    found: queue.Queue[WatchEvent | WatchError] = queue.Queue(_QUEUE_EVENTS)
    manager = client.watch_manager(
        address=parsed_args.stream_address,
        tls=parsed_args.stream_tls,
        sequence=MemorySequence({topic: parsed_args.since or 0}),
    )
    with manager:
        manager.register_watch(topic, found, found)
        while True:
            item = found.get()
            if not isinstance(item, WatchEvent):
                raise item
            yield item


def _topic_document(event: WatchEvent) -> dict[str, Any]:
    """The members of an event."""
    return event.to_dict()


def _topic_record(event: WatchEvent) -> list[Any]:
    """An event as a record of CSV."""
    values = event.to_dict()
    for name in ("scope", "attributes", "unset"):
        values[name] = msgspec.json.encode(values[name]).decode() if values[name] else ""
    return [values[name] for name in _TOPIC_COLUMNS]


def _topic_line(event: WatchEvent) -> str:
    """An event for people."""
    time = time_text(event.time) if event.time else "-"
    scope = f" in {event.scope.kind} {event.scope.name}" if event.scope else ""
    attributes = " ".join(f"{name}={value}" for name, value in sorted(event.attributes.items()))
    what = f"{event.type} {event.group}/{event.kind} {event.name}{scope}"
    return f"{event.sequence:>8} {time} {what}  {attributes}".rstrip()


_DEFAULT_CHANGES = 10
"""How many changes the commands show without ``--since``, ``--limit`` and ``--follow``."""

_COLUMNS = ("seq", "time", "kind", "id", "change", "delta", "event_id", "event_type", "source", "merged", "actor")

T = TypeVar("T")

_CHOSEN = (
    argument("--kind", metavar="KIND", help="changes of this kind only"),
    argument("--id", dest="entity_id", metavar="ID", help="changes of the entity with this id only"),
    BY_ACTOR,
    ALL_PROJECTS,
)
_FILTERS = ("kind", "entity_id", "actor", "all_projects")


def _chosen(parsed_args: argparse.Namespace) -> dict[str, Any]:
    return {name: getattr(parsed_args, name) for name in _FILTERS}


class EventTail(Command):
    """Show the last changes of the model, or those after a seq; with --follow wait for further changes."""

    arguments = (
        argument(
            "--since",
            type=seq_or_time,
            metavar="SEQ|TIME",
            help="begin after this seq, or at this time (ISO 8601, such as 2026-01-31T12:00; without an offset it is "
            "local time; default: the last changes)",
        ),
        argument(
            "--epoch", metavar="EPOCH", help="the epoch of SEQ; the command fails if the journal is of another one"
        ),
        argument(
            "--limit",
            type=at_least_1,
            metavar="N",
            help=f"end after N changes (default: {_DEFAULT_CHANGES} without --since and --follow, else no limit)",
        ),
        argument(
            "--follow", "-F", action="store_true", help="wait for further changes until Ctrl-C; reconnects to the API"
        ),
        *_CHOSEN,
        *_TOPIC_ARGUMENTS,
        argument(
            "-f", "--format", choices=["csv", "json", "table", "yaml"], default="table",
            help="output format (default: table)",
        ),
    )  # fmt: skip

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Prints the changes, or the events of a topic."""
        _check_topic_options(parsed_args)
        if parsed_args.topic is None:
            _print(parsed_args, self._changes(parsed_args), msgspec.to_builtins, _line, _COLUMNS, _record)
        else:
            events = _topic_events(self.client, parsed_args)
            _print(parsed_args, events, _topic_document, _topic_line, _TOPIC_COLUMNS, _topic_record)

    def _changes(self, parsed_args: argparse.Namespace) -> Iterable[Change]:
        chosen = _chosen(parsed_args)
        since: int | str | None = parsed_args.since
        epoch: str | None = parsed_args.epoch
        if not parsed_args.follow and since is not None:
            yield from _until_head(self.client, since, epoch, chosen)
            return
        if not isinstance(since, int):
            limit = {"limit": parsed_args.limit or _DEFAULT_CHANGES} if since is None else {"epoch": epoch}
            page = self.client.events_page(since, **limit, **chosen)
            yield from page.events
            since, epoch = page.next_since, page.epoch
        if parsed_args.follow:
            yield from self.client.events(since, epoch=epoch, **chosen)


def _until_head(client: Client, since: int | str, epoch: str | None, chosen: dict[str, Any]) -> Iterable[Change]:
    """The chosen changes after a seq or from a time on, up to the end of the journal."""
    while True:
        page = client.events_page(since, epoch=epoch, **chosen)
        epoch = page.epoch
        yield from page.events
        if page.next_since == since or page.next_since >= page.head:
            return
        since = page.next_since


def _listed(client: Client, parsed_args: argparse.Namespace, limit: int | None, marker: str | None) -> Iterable[Change]:
    since: int | str | None = parsed_args.since if marker is None else seq(marker)
    if since is not None:
        return _until_head(client, since, None, _chosen(parsed_args))
    is_chosen = parsed_args.sort is not None or parsed_args.filters
    last = None if is_chosen else limit or _DEFAULT_CHANGES
    return client.events_page(None, limit=last, **_chosen(parsed_args)).events


EventList = Noun(
    fields=Change.__struct_fields__,
    columns=_COLUMNS,
    table=("seq", "time", "kind", "id", "change", "event_type", "source", "delta"),
    cells={"delta": delta},
    key="seq",
    marker="after this seq",
    pages=lambda client, args: functools.partial(_listed, client, args),
).list_command(
    "List changes of the model: the last ones, or those after a seq or from a time on.",
    argument(
        "--since", type=seq_or_time, metavar="SEQ|TIME",
        help=f"begin after this seq, or at this time (default: the last {_DEFAULT_CHANGES} changes, or --limit; "
        "with --filter or --sort, those among the last page of the journal)",
    ),
    *_CHOSEN,
)  # fmt: skip


def _line(change: Change) -> str:
    what = delta_text(change.delta) if change.change == "updated" else change.event_type
    return f"{change.seq:>8} {time_text(change.time)} {change.change} {change.kind} {change.id}  {what}"


def _record(change: Change) -> list[Any]:
    values = msgspec.to_builtins(change)
    values["delta"] = msgspec.json.encode(change.delta).decode()
    values["actor"] = msgspec.json.encode(change.actor).decode() if change.actor else ""
    return [values[name] for name in _COLUMNS]


def _print(
    parsed_args: argparse.Namespace,
    events: Iterable[T],
    document: Callable[[T], dict[str, Any]],
    line: Callable[[T], str],
    columns: Sequence[str],
    record: Callable[[T], Sequence[Any]],
) -> None:
    """Prints each event at once.

    :param document: the members of an event, for JSON and YAML.
    :param line: an event for people.
    :param columns: the columns of CSV.
    :param record: an event as a record of CSV.
    """
    out = csv.writer(sys.stdout)
    if parsed_args.format == "csv":
        out.writerow(map(title, columns))
    for event in itertools.islice(events, parsed_args.limit):
        if parsed_args.format == "json":
            print(msgspec.json.encode(document(event)).decode())
        elif parsed_args.format == "yaml":
            yaml.safe_dump(document(event), sys.stdout, sort_keys=False, explicit_start=True, allow_unicode=True)
        elif parsed_args.format == "csv":
            out.writerow(map(without_formula, record(event)))
        else:
            print(plain(line(event)))
        sys.stdout.flush()
