# SPDX-License-Identifier: Apache-2.0
"""``event tail --topic``: the events of a watch topic, over the watch stream, until Ctrl-C or ``--limit``.

The stream reconnects by itself. After an interruption, ``--since`` with the last sequence continues the output.
"""

from __future__ import annotations

import argparse
import csv
import queue
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from watcher_sync.client.client import Client
from watcher_sync.client.commands.cells import time_text, title
from watcher_sync.client.commands.errors import WrongUsage
from watcher_sync.client.formatting import plain
from watcher_sync.client.transport import segment

if TYPE_CHECKING:  # gRPC loads slowly, so only the command itself imports it
    from watcher_sync.client.watch import WatchError, WatchEvent

TOPICS = "/management/v1alpha1/watchtopics/"

_QUEUE_EVENTS = 1000
_COLUMNS = ("sequence", "time", "type", "group", "kind", "name", "scope", "entity_id", "attributes", "unset")

Writer = Callable[["WatchEvent"], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds ``--topic`` and the options of the watch stream."""
    add = parser.add_argument
    add(
        "--topic",
        metavar="NAME",
        help="events of this watch topic, over the watch stream, until Ctrl-C or --limit; "
        "--since is the sequence to resume after (default: new events only)",
    )
    add(
        "--stream-address",
        metavar="HOST[:PORT]",
        help="with --topic: address of the watch stream (default: the host of the API and port 8776)",
    )
    add(
        "--stream-tls",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="with --topic: whether the watch stream uses TLS (default: if the API does)",
    )


def check_options(parsed_args: argparse.Namespace) -> None:
    """Checks that the options fit together.

    :raises WrongUsage: when they do not.
    """
    if parsed_args.topic is None:
        if parsed_args.stream_address is not None or parsed_args.stream_tls is not None:
            raise WrongUsage("--stream-address and --stream-tls need --topic")
        return
    if isinstance(parsed_args.since, str):
        raise WrongUsage("--since is the sequence of an event with --topic, and no time")
    for name in ("kind", "entity_id", "all_projects"):
        if getattr(parsed_args, name) is not None:
            option = "id" if name == "entity_id" else name.replace("_", "-")
            raise WrongUsage(f"--{option} cannot be used with --topic, which has filters of its own")


def topic_events(client: Client, parsed_args: argparse.Namespace) -> Iterator[WatchEvent]:
    """The events of the topic, without end.

    :raises ClientError: when the service ends the watch.
    """
    from watcher_sync.client.watch import MemorySequence, WatchEvent

    name: str = parsed_args.topic
    topic = name if name.startswith("/") else TOPICS + segment(name)
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


def _json() -> Writer:
    return lambda event: print(msgspec.json.encode(event.to_dict()).decode())


def _yaml() -> Writer:
    return lambda event: yaml.safe_dump(
        event.to_dict(), sys.stdout, sort_keys=False, explicit_start=True, allow_unicode=True
    )


def _csv() -> Writer:
    out = csv.writer(sys.stdout)
    out.writerow([title(name) for name in _COLUMNS])

    def write(event: WatchEvent) -> None:
        values: dict[str, Any] = event.to_dict()
        for name in ("scope", "attributes", "unset"):
            values[name] = msgspec.json.encode(values[name]).decode() if values[name] else ""
        out.writerow([values[name] for name in _COLUMNS])

    return write


def _table() -> Writer:
    def write(event: WatchEvent) -> None:
        time = time_text(event.time) if event.time else "-"
        scope = f" in {event.scope.kind} {event.scope.name}" if event.scope else ""
        attributes = " ".join(f"{name}={value}" for name, value in sorted(event.attributes.items()))
        what = f"{event.type} {event.group}/{event.kind} {event.name}{scope}"
        print(plain(f"{event.sequence:>8} {time} {what}  {attributes}".rstrip()))

    return write


WRITERS: dict[str, Callable[[], Writer]] = {"json": _json, "yaml": _yaml, "csv": _csv, "table": _table}
"""The formats, the same as those of changes."""
