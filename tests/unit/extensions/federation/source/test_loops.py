# SPDX-License-Identifier: Apache-2.0
"""A follower shows the loops over it that its region refuses, and follows on."""

from __future__ import annotations

import datetime
import logging

import msgspec
import pytest

from tests.unit.extensions.federation.source.test_follower import SETTINGS, FakeRegion, Following
from tests.waiting import wait_until
from watcher_sync.client import Forbidden, Unreachable
from watcher_sync.client.models import Source
from watcher_sync.extensions.federation.source import loops
from watcher_sync.extensions.federation.source.follower import Follower
from watcher_sync.extensions.federation.source.loops import RefusedLoops, loop_of, refused_loops
from watcher_sync.sources.base import SourceState

GLOBAL = msgspec.structs.replace(SETTINGS, source="up", site="global")
"""Of the installation north, which follows the installation global."""
SHOWN = (
    "the source north of the region refuses the loop north -> global -> north; remove one of the sources of the loop"
)


def refusing(loop: str = "north -> global -> north", source: str = "north", state: str = "connected") -> Source:
    """A source of the region, which refuses a loop."""
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    detail = f"loop {loop}: the region follows this installation, it has 'global:north:a'; remove one of these sources"
    return Source(source=source, state=state, fresh=False, updated_at=now, detail=detail)


def asked(region: FakeRegion, clock: list[float] | None = None) -> RefusedLoops:
    times = clock or [0.0]
    return RefusedLoops(GLOBAL, region, monotonic=lambda: times[-1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("loop", "concerned"),
    [
        ("north -> global -> north", True),
        ("a -> b -> global -> a", True),
        ("a -> global -> b -> a", False),
        ("global -> north -> global", False),
        ("north -> elsewhere -> north", False),
        ("north -> global -> south", False),
        ("global -> global", False),
    ],
)
def test_a_loop_leads_over_the_follower_whose_name_for_the_region_is_its_last_link(loop: str, concerned: bool) -> None:
    assert bool(refused_loops("global", [refusing(loop)])) is concerned


def test_the_loop_that_a_follower_names_is_the_one_that_the_other_side_reads() -> None:
    assert refused_loops("global", [refusing(loop_of("north", "global:north:a"))])


@pytest.mark.parametrize(("state", "found"), [("connected", 1), ("disconnected", 1), ("removed", 0), ("starting", 0)])
def test_a_source_that_is_connected_or_of_an_older_region_disconnected_refuses_a_loop(state: str, found: int) -> None:
    assert len(refused_loops("global", [refusing(state=state)])) == found


@pytest.mark.parametrize("detail", ["", "no route", "north -> global -> north: is the way to it"])
def test_a_source_with_another_detail_refuses_no_loop(detail: str) -> None:
    assert refused_loops("global", [msgspec.structs.replace(refusing(), detail=detail)]) == []


def test_several_loops_are_shown_together() -> None:
    region = FakeRegion()
    region.sources_shown = [refusing(), refusing("south -> global -> south", "south")]
    assert asked(region).detail().count("refuses the loop") == 2


def test_the_region_is_asked_once_a_minute_and_at_each_connection() -> None:
    region, clock = FakeRegion(), [0.0]
    refused = asked(region, clock)
    counts = []
    for now in (0.0, 0.1, 59.9, 60.0, 60.1, 119.9):
        clock.append(now)
        refused.detail()
        counts.append(region.source_lists)
    assert counts == [1, 1, 1, 2, 2, 2]
    refused.connected()
    refused.detail()
    refused.detail()
    assert region.source_lists == 3


def test_an_account_that_may_not_list_sources_shows_nothing() -> None:
    region, clock = FakeRegion(), [0.0]
    region.sources_shown = [refusing()]
    refused = asked(region, clock)
    assert refused.detail() == SHOWN
    region.refuses_sources = Forbidden(403, "sources:list")
    clock.append(60.0)
    assert refused.detail() == ""


def test_a_failure_of_the_look_changes_nothing_and_is_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    region, clock = FakeRegion(), [0.0]
    region.sources_shown = [refusing()]
    refused = asked(region, clock)
    assert refused.detail() == SHOWN
    caplog.clear()
    region.refuses_sources = Unreachable("no route")
    clock.append(60.0)
    assert refused.detail() == SHOWN
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]


def test_a_loop_is_logged_when_it_comes_and_when_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    region, clock = FakeRegion(), [0.0]
    refused = asked(region, clock)
    for at, shown in enumerate(([], [refusing()], [refusing()], [], [])):
        region.sources_shown = shown
        clock.append(60.0 * at)
        refused.detail()
    assert [record.getMessage() for record in caplog.records] == [
        f"source up: {SHOWN}",
        "source up: the region refuses no loop any more",
    ]


def test_a_follower_shows_the_loop_as_long_as_it_lasts_and_follows_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "_ASK_SECONDS", 0.02)
    region = FakeRegion()
    region.write("a")
    region.sources_shown = [refusing()]
    with Following(region, 1, GLOBAL) as following:
        wait_until(lambda: following.follower.detail == SHOWN)
        region.write("b")
        wait_until(lambda: following.position() == 2)
        assert shown(following.follower) == (SourceState.CONNECTED, SHOWN)
        region.sources_shown = []
        wait_until(lambda: shown(following.follower) == (SourceState.CONNECTED, ""))


def test_a_region_that_does_not_list_its_sources_is_followed() -> None:
    region = FakeRegion()
    region.write("a")
    region.refuses_sources = Unreachable("no route")
    with Following(region, 1, GLOBAL) as following:
        wait_until(lambda: region.source_lists)
        region.write("b")
        wait_until(lambda: following.position() == 2)
        assert shown(following.follower) == (SourceState.CONNECTED, "")


def test_a_region_is_asked_again_after_an_outage_of_the_stream() -> None:
    region = FakeRegion()
    region.write("a")
    with Following(region, 1, GLOBAL) as following:
        wait_until(lambda: region.source_lists == 1)
        region.is_away = True
        region.write("b")
        wait_until(lambda: following.follower.state is SourceState.DISCONNECTED)
        region.sources_shown = [refusing()]
        region.is_away = False
        wait_until(lambda: following.follower.detail == SHOWN)
    assert region.source_lists == 2


def shown(follower: Follower) -> tuple[SourceState, str]:
    return follower.state, follower.detail
