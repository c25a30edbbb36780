# SPDX-License-Identifier: Apache-2.0
"""Engines, sources, outlets, inventories, drifts, parked and quarantined events: the state that an operator monitors.

``quarantine replay`` and ``delete`` process all given events, one after the other, even if one of them fails.
``replay`` prints the outcome of each. The exit status is 1 if one of them failed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from watcher_sync.client.client import Client
from watcher_sync.client.commands.arguments import ALL_PROJECTS, argument, one_of, seq
from watcher_sync.client.commands.base import DeleteCommand, Noun, PartialFailure, RowsCommand
from watcher_sync.client.commands.cells import PlainText
from watcher_sync.client.errors import NotFound
from watcher_sync.client.models import Drift, Engine, Inventory, LogOutlet, ParkedEvent, Quarantined, Source

EngineList = Noun(
    fields=Engine.__struct_fields__,
    columns=("group", "host", "pid", "state", "since", "release", "heartbeat_at", "seq", "lag_seconds", "sources"),
    key="pid",
    marker="after the engine with this process id",
    every=lambda client, _: client.engines(),
).list_command("List the engines of all groups: which one leads, and which stand by.")

OUTLET = Noun(
    fields=LogOutlet.__struct_fields__,
    columns=(
        "outlet", "driver", "partition", "state", "since", "seq", "published_seq", "lag", "lag_seconds", "host",
        "detail",
    ),
    key="outlet",
    marker="after this outlet",
    every=lambda client, _: client.outlets(),
    one=lambda client, args: client.outlet(args.outlet),
)  # fmt: skip

OutletList = OUTLET.list_command("List the outlets that publish on a log, and how far each is.")
OutletShow = OUTLET.show_command(
    "Show one outlet.", argument("outlet", metavar="NAME", help="its name in [outlets] enabled")
)

SOURCE = Noun(
    fields=Source.__struct_fields__,
    columns=(
        "source", "state", "fresh", "behind_seconds", "lag", "last_event_age", "last_full_sync_at", "reconnects",
        "entities", "problem",
    ),
    key="source",
    marker="after this source",
    every=lambda client, _: client.sources(),
    one=lambda client, args: client.source(args.source),
)  # fmt: skip

SourceList = SOURCE.list_command("List the sources of all engines.")
SourceShow = SOURCE.show_command(
    "Show one source.", argument("source", metavar="NAME", help="its name in [engine] enabled_sources")
)

InventoryList = Noun(
    fields=Inventory.__struct_fields__,
    columns=("source", "complete", "complete_since", "last_complete_at", "problem"),
    key="source",
    marker="after this source",
    every=lambda client, _: client.inventories(),
).list_command("List the inventories: whether the model has everything that the live systems have.")

DriftList = Noun(
    fields=Drift.__struct_fields__,
    columns=(
        "id", "kind", "entity_id", "field", "model_value", "live_value", "policy", "source", "since", "summary",
        "remedy",
    ),
    pages=lambda client, args: functools.partial(
        client.drifts, kind=args.kind, source=args.source, levels=args.levels, all_projects=args.all_projects
    ),
).list_command(
    "List the VNF instances that are at no level, and the differences between the model and the live systems.",
    argument("--kind", metavar="KIND", help="drifts of this kind only"),
    argument("--source", metavar="NAME", help="drifts found for this source, or in this cluster, only"),
    argument(
        "--differences-only", dest="levels", action="store_const", const=None, default=True,
        help="no VNF instances that are at no level",
    ),
    ALL_PROJECTS,
)  # fmt: skip

ParkedList = Noun(
    fields=ParkedEvent.__struct_fields__,
    columns=("id", "parked_at", "expires_at", "source", "event_type", "kind", "entity_id"),
    pages=lambda client, _: client.parked,
).list_command("List the events that wait for an entity which does not exist yet, oldest first.")


def _whole(client: Client, parsed_args: argparse.Namespace) -> dict[str, Any]:
    """A quarantined event with its body, in the form that it has."""
    event = client.quarantined(parsed_args.id)
    body = [name for name in ("text", "base64") if getattr(event, name) is not None] or ["data"]
    head = ("id", "received_at", "source", "event_type", "event_id", "origin", "subject", "time", "deliveries")
    return {name: getattr(event, name) for name in (*head, "reason", "detail", *body)}


_QUARANTINE_TABLE = ("id", "received_at", "source", "event_type", "event_id", "subject", "reason")

QUARANTINE = Noun(
    fields=Quarantined.__struct_fields__,
    columns=(*_QUARANTINE_TABLE, "origin", "time", "deliveries"),
    table=_QUARANTINE_TABLE,
    pages=lambda client, _: client.quarantine,
    one=_whole,
    delete=lambda client, _, number: client.drop(number),
    absent="no quarantined event has the id",
)
_CHOSEN = one_of(
    argument("chosen", nargs="*", type=seq, default=[], metavar="ID", help="ids in the list"),
    argument("--all", action="store_true", help="all events that are in quarantine now"),
    required=True,
)

QuarantineList = QUARANTINE.list_command("List quarantined events, without their bodies.")
QuarantineShow = QUARANTINE.show_command(
    "Show a quarantined event with its body.", argument("id", type=seq, metavar="ID", help="its id in the list")
)


class QuarantineReplayCommand(RowsCommand):
    """Apply quarantined events again. An event that is refused again stays in quarantine, with the new reason."""

    noun = Noun(columns=("id", "outcome", "seq", "reason"), cells={"reason": PlainText})
    arguments = (_CHOSEN,)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Prints the outcome of each event, and returns the exit status."""
        self._failures = 0
        status = super().run(parsed_args)
        return 1 if status == 0 and self._failures else status

    def _documents(self, parsed_args: argparse.Namespace) -> Iterable[Any]:
        outcomes: list[dict[str, Any]] = []
        for number in _chosen(self.client, parsed_args):
            try:
                replayed = self.client.replay(number)
                outcomes.append({"id": number, **msgspec.structs.asdict(replayed), "reason": replayed.reason or ""})
            except NotFound:
                outcomes.append({"id": number, "outcome": "not found", "reason": ""})
            self._failures += outcomes[-1]["outcome"] in ("quarantined", "not found")
        return outcomes


class QuarantineDelete(DeleteCommand):
    """Delete quarantined events."""

    noun = QUARANTINE
    arguments = (_CHOSEN,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Deletes them. With ``--all`` it is no error if another command deleted some."""
        parsed_args.chosen = _chosen(self.client, parsed_args)
        with contextlib.suppress(PartialFailure) if parsed_args.all else contextlib.nullcontext():
            super().take_action(parsed_args)


def _chosen(client: Client, parsed_args: argparse.Namespace) -> list[int]:
    """The ids to process. With ``--all`` they are listed first, because refused events stay in the list."""
    if parsed_args.all:
        return [event.id for event in client.quarantine()]
    return list(dict.fromkeys(parsed_args.chosen))
