# SPDX-License-Identifier: Apache-2.0
"""Handlers that read a stored version read it also after a listing has continued it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.events import Event
from watcher_sync.extensions.dcm.handler.ordering import answer_version_of, recovery_version_of, version_of
from watcher_sync.extensions.openstack.handler.aggregates import joined
from watcher_sync.extensions.openstack.kinds import Aggregate
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import NEVER, Upsert, Version, absent, after, base_of, check_key
from watcher_sync.model.kinds import kind_of

BEGIN: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def when(seconds: int) -> str:
    return sortable.digits(BEGIN + datetime.timedelta(seconds=seconds), "time")


def status(number: int) -> Event:
    return Event(id=f"e{number}", type="dcm.vm", source="dcm", origin="prov", subject="x", sequence=(1, number))


@given(st.text("ab.0~+!", max_size=6), st.integers(1, 4))
def test_the_base_is_the_version_that_an_event_wrote(text: str, times: int) -> None:
    version = Version(text)
    assert base_of(version) == version
    for _ in range(times):
        version = after(version)
        assert base_of(version) == base_of(absent(version)) == text


@pytest.mark.parametrize("order", [version_of, answer_version_of])
def test_an_older_status_does_not_win_after_a_listing(order: Callable[[Event, str, Version], Version]) -> None:
    known = order(status(5), when(10), NEVER)
    assert order(status(6), when(5), known) < known < after(known)
    assert order(status(6), when(5), after(known)) == order(status(6), when(5), known)
    assert order(status(7), when(11), after(known)) > after(known)


def test_a_recovery_is_newer_than_a_listing_and_older_than_later_events() -> None:
    known = version_of(status(5), when(10), NEVER)
    assert recovery_version_of(after(known), when(11)) == recovery_version_of(known, when(11)) > after(known)
    first = recovery_version_of(after(NEVER), when(11))
    check_key(Upsert("provider", "p", first, {}))
    assert after(NEVER) < first < version_of(Event(id="e", type="dcm.vm", source="dcm", origin="p"), when(0), NEVER)


def aggregate(version: Version, joins: dict[str, str]) -> Aggregate:
    kind = kind_of(Aggregate)
    return Aggregate(id="1", hosts=["a"], joins=joins, versions=tuple(version for _ in kind.no_versions))


@pytest.mark.parametrize(("base", "joins"), [("100", {}), ("120+100+01", {"120": "gone"}), ("120~", {"120": "gone"})])
def test_a_join_after_a_listing_brings_no_earlier_join_back(base: str, joins: dict[str, str]) -> None:
    stored = after(Version(base))
    members = joined(aggregate(stored, joins), "b", Version("130"))
    assert members is not None
    fields, version = members
    assert fields["joins"] == {"130": "b"}
    assert version > stored
    assert base_of(version) == version
    assert " " not in version


def test_a_join_is_accepted_after_a_listing_that_made_the_aggregate() -> None:
    assert joined(aggregate(after(NEVER), {}), "b", Version("130")) is not None
