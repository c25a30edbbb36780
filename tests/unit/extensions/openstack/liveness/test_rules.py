# SPDX-License-Identifier: Apache-2.0
"""When a host is up or down, by Nova's list of services and by its own events; and how silence is measured."""

from __future__ import annotations

import datetime

import pytest

from tests.simulated import NOON
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.extensions.openstack.liveness.rules import (
    SERVICE_DOWN,
    SILENT,
    Sign,
    SilenceTracker,
    by_events,
    by_service,
)


def at(seconds: float) -> datetime.datetime:
    return NOON + datetime.timedelta(seconds=seconds)


def node(**fields: object) -> ComputeNode:
    return ComputeNode(id="host-1", seq=1, versions=("", "", "", ""), **fields)


def down(reason: str) -> ComputeNode:
    return node(liveness="down", liveness_reason=reason, liveness_since=at(0))


def fields(change):
    return None if change is None else tuple(change.facets["liveness"].values())


# The list of services


def test_a_host_whose_service_is_reported_up_is_up():
    assert fields(by_service(node(), up=True, at=at(0), last_heard=None)) == ("up", None, at(0))


def test_a_host_whose_service_is_reported_down_is_down_with_a_reason():
    assert fields(by_service(node(), up=False, at=at(0), last_heard=None)) == ("down", SERVICE_DOWN, at(0))


def test_a_list_that_reports_what_is_known_changes_nothing():
    assert by_service(node(liveness="up", liveness_since=at(-9)), up=True, at=at(0), last_heard=None) is None
    assert by_service(down(SERVICE_DOWN), up=False, at=at(9), last_heard=None) is None
    assert by_service(down(SILENT), up=False, at=at(9), last_heard=None) is None


def test_an_event_that_is_newer_than_the_list_wins_over_a_service_that_is_reported_down():
    assert by_service(node(), up=False, at=at(0), last_heard=at(1)) is None
    assert by_service(node(), up=False, at=at(0), last_heard=at(-1)) is not None


def test_the_list_says_nothing_of_a_host_that_is_forced_down():
    assert by_service(node(forced_down=True), up=False, at=at(0), last_heard=None) is None


def test_a_silent_host_that_the_list_reports_up_is_up_again():
    assert fields(by_service(down(SILENT), up=True, at=at(5), last_heard=None)) == ("up", None, at(5))


# Its events


def test_a_silent_host_is_down_with_a_reason():
    change = by_events(node(liveness="up"), at=at(0), last_heard=at(-700), silent=True)
    assert fields(change) == ("down", SILENT, at(0))


@pytest.mark.parametrize("silent", [None, False])
def test_a_host_that_is_not_silent_stays_as_it_is(silent):
    assert by_events(node(), at=at(0), last_heard=at(-1), silent=silent) is None
    assert by_events(node(liveness="up"), at=at(0), last_heard=None, silent=silent) is None


def test_an_event_that_is_newer_than_the_list_makes_a_host_up_again():
    assert fields(by_events(down(SERVICE_DOWN), at=at(9), last_heard=at(1), silent=False)) == ("up", None, at(9))
    assert by_events(down(SERVICE_DOWN), at=at(9), last_heard=at(-1), silent=False) is None
    assert by_events(down(SERVICE_DOWN), at=at(9), last_heard=None, silent=None) is None


def test_a_silent_host_is_up_again_with_its_next_event_whatever_its_clock_says():
    assert fields(by_events(down(SILENT), at=at(9), last_heard=at(-3600), silent=False)) == ("up", None, at(9))


def test_a_silent_host_stays_down_after_a_restart_of_the_engine_until_it_publishes():
    assert by_events(down(SILENT), at=at(9), last_heard=at(1), silent=None) is None


# Silence


class Tracked:
    """Two hosts of one source and one of another; the test has them speak and lets time pass."""

    def __init__(self):
        self.tracker = SilenceTracker()
        self.now = 0.0
        self.signs = {}

    def speak(self, *hosts, after=0.0, disconnected=()):
        self.now += after
        for host in hosts:
            source = "cell2" if host == "other" else "cell1"
            self.signs[host] = Sign(host, source, at(self.now))
        self.tracker.observe(self.now, self.signs.values(), max_gap=300, disconnected=disconnected)

    def silences(self):
        return {host: self.tracker.silence(host) for host in ("host-1", "host-2", "other")}


@pytest.fixture
def tracked():
    return Tracked()


def test_silence_is_the_time_that_others_of_the_source_publish_without_the_host(tracked):
    tracked.speak("host-1", "host-2")
    for _ in range(7):
        tracked.speak("host-2", after=100)
    assert tracked.silences() == {"host-1": 700, "host-2": 0, "other": None}


def test_a_silent_source_makes_no_host_silent(tracked):
    tracked.speak("host-1", "host-2")
    tracked.speak(after=10_000)
    assert tracked.silences() == {"host-1": 0, "host-2": 0, "other": None}


def test_another_source_makes_no_host_silent(tracked):
    tracked.speak("host-1", "host-2", "other")
    for _ in range(7):
        tracked.speak("other", after=100)
    assert tracked.silences() == {"host-1": 0, "host-2": 0, "other": 0}


def test_a_pause_of_the_whole_source_counts_at_most_the_gap(tracked):
    tracked.speak("host-1", "host-2")
    tracked.speak("host-2", after=10_000)
    assert tracked.silences()["host-1"] == 300


def test_time_without_a_connection_does_not_count(tracked):
    tracked.speak("host-1", "host-2")
    tracked.speak(after=5, disconnected=["cell1"])
    tracked.speak("host-2", after=200)
    assert tracked.silences()["host-1"] == 0


def test_the_start_of_an_engine_makes_no_host_silent(tracked):
    tracked.signs["host-1"] = Sign("host-1", "cell1", at(-10_000))
    tracked.speak("host-2", after=100)
    assert tracked.silences()["host-1"] == 0


def test_an_event_with_an_old_time_ends_the_silence(tracked):
    tracked.speak("host-1", "host-2")
    tracked.speak("host-2", after=200)
    tracked.signs["host-1"] = Sign("host-1", "cell1", at(-3600))
    tracked.speak()
    assert tracked.silences()["host-1"] == 0


def test_a_host_that_the_list_of_services_confirms_is_not_silent(tracked):
    tracked.speak("host-1", "host-2")
    tracked.speak("host-2", after=200)
    tracked.tracker.confirm(["host-1", "unknown"])
    assert tracked.silences()["host-1"] == 0


def test_a_host_that_is_gone_is_forgotten(tracked):
    tracked.speak("host-1", "host-2")
    tracked.tracker.retain({"host-2"})
    assert tracked.silences()["host-1"] is None
