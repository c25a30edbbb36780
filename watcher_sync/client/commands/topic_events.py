# SPDX-License-Identifier: Apache-2.0
"""``event tail --topic``: the events of a watch topic, over the watch stream, until Ctrl-C or ``--limit``.

The stream reconnects by itself. After an interruption, ``--since`` with the last sequence continues the output.
"""

from __future__ import annotations

import argparse
import queue
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from watcher_sync.client.client import Client
from watcher_sync.client.commands.arguments import WrongUsage, argument
from watcher_sync.client.commands.cells import time_text
from watcher_sync.client.transport import segment

if TYPE_CHECKING:  # gRPC loads slowly, so only the command itself imports it
    from watcher_sync.client.watch import WatchError, WatchEvent

TOPICS = "/management/v1alpha1/watchtopics/"

_QUEUE_EVENTS = 1000
COLUMNS = ("sequence", "time", "type", "group", "kind", "name", "scope", "entity_id", "attributes", "unset")

ARGUMENTS = (
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


def document(event: WatchEvent) -> dict[str, Any]:
    """The members of an event."""
    return event.to_dict()


def record(event: WatchEvent) -> list[Any]:
    """An event as a record of CSV."""
    values = event.to_dict()
    for name in ("scope", "attributes", "unset"):
        values[name] = msgspec.json.encode(values[name]).decode() if values[name] else ""
    return [values[name] for name in COLUMNS]


def line(event: WatchEvent) -> str:
    """An event for people."""
    time = time_text(event.time) if event.time else "-"
    scope = f" in {event.scope.kind} {event.scope.name}" if event.scope else ""
    attributes = " ".join(f"{name}={value}" for name, value in sorted(event.attributes.items()))
    what = f"{event.type} {event.group}/{event.kind} {event.name}{scope}"
    return f"{event.sequence:>8} {time} {what}  {attributes}".rstrip()
