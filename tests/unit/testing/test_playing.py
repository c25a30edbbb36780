# SPDX-License-Identifier: Apache-2.0
"""A plugin's test sees the entities, the outcomes and the quarantine that an engine would have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import pytest
from oslo_config import cfg

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, NotYet, PluginConflict
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Upsert, Version
from watcher_sync.model.kinds import Count, Doc, Entity, In, kind
from watcher_sync.model.view import View
from watcher_sync.testing.playing import play


@kind("played_lamp", plural="played_lamps", anchor="light", ids_reused=True)
class PlayedLamp(Entity, frozen=True, kw_only=True, gc=False):
    """A lamp."""

    watts: Annotated[Count | None, In("light"), Doc("What it draws, W.")] = None


class LampHandler(Handler):
    """Lamps, with a factor from an option."""

    events: ClassVar[dict[str, str | None]] = {"lamp.lit": "lit", "lamp.tested": None}
    options: ClassVar[list[cfg.Opt]] = [cfg.IntOpt("factor", default=10)]

    def lit(self, event: Event, view: View) -> Iterator[Change]:
        """The lamp draws this."""
        data = event.read()
        if data["watts"] < 0:
            raise InvalidEvent("watts: less than 0")
        if data["watts"] == 7 and view.get("played_lamp", "other") is None:
            raise NotYet("played_lamp", "other")
        facet = {"light": {"watts": data["watts"] * self.conf.factor}}
        yield Upsert("played_lamp", data["lamp"], Version(f"{data['number']:020d}"), facet)


def event(number: int, lamp: str, watts: int, what: str = "lit") -> dict[str, Any]:
    data = {"lamp": lamp, "number": number, "watts": watts}
    return {"specversion": "1.0", "id": str(number), "source": "/hall", "type": f"lamp.{what}", "data": data}


HISTORY = [
    event(2, "a", 5),
    event(1, "a", 9),
    event(2, "a", 5),
    event(3, "b", -1),
    event(4, "b", 7),
    event(5, "a", 1, "tested"),
]


@pytest.mark.parametrize("batch_size", [1, 500])
def test_events_end_in_entities_outcomes_and_reasons(batch_size: int) -> None:
    played = play(HISTORY, handlers={"lamps": LampHandler}, kinds=[PlayedLamp], batch_size=batch_size)
    assert played.entities == {"played_lamp": {"a": {"id": "a", "watts": 50}}}
    assert played.outcomes == {
        "read": 6, "applied": 1, "stale": 1, "duplicate": 1, "ignored": 1, "parked": 1, "quarantined": 1,
    }  # fmt: skip
    assert played.refused == ["watts: less than 0"]


def test_two_plays_share_nothing() -> None:
    for lamp in ("a", "b"):
        played = play([event(1, lamp, 3)], handlers={"lamps": LampHandler}, kinds=[PlayedLamp])
        assert list(played.entities["played_lamp"]) == [lamp]


def test_two_handlers_of_one_event_type_are_refused_as_by_the_engine() -> None:
    with pytest.raises(PluginConflict, match=r"both claim the event type 'lamp\.lit'"):
        play([], handlers={"lamps": LampHandler, "lights": LampHandler}, kinds=[PlayedLamp])
