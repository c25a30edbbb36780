# SPDX-License-Identifier: Apache-2.0
"""The dialect of the power distribution units: one sequence number counts everything they say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from watcher_sync.events import Event
from watcher_sync.handlers import sortable
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Delete, Upsert, Version
from watcher_sync.model.view import View


class Removed(msgspec.Struct):
    """The fields of ``rack.removed`` that are used; others may come and go."""

    rack: str
    sequence: int


class Power(Removed):
    """The fields of ``rack.power.*`` that are used."""

    room: str
    watts: int


class RackHandler(Handler):
    """Racks that were switched on or off, or taken away."""

    events: ClassVar[dict[str, str | None]] = {
        "rack.power.*": "power_changed",
        "rack.power.test": None,  # an exact entry wins over a pattern
        "rack.removed": "removed",
    }
    drivers: ClassVar[tuple[str, ...]] = ("nats_jetstream",)  # other sources may not bring these events

    def power_changed(self, event: Event, view: View) -> Iterator[Change]:
        """The rack's power and what it draws."""
        power = event.read(Power)
        state = event.type.rpartition(".")[2]
        facet = {"room": power.room, "power": state, "watts": power.watts}
        yield Upsert("rack", power.rack, version(event, power), {"power": facet})

    def removed(self, event: Event, view: View) -> Iterator[Change]:
        """The rack is gone."""
        removed = event.read(Removed)
        yield Delete("rack", removed.rack, version(event, removed))


def version(event: Event, payload: Removed) -> Version:
    """Text order is the order of the changes: the number padded with zeros, then the id as a tie-break."""
    return Version(f"{payload.sequence:020d}.{sortable.name(event.id)}")
