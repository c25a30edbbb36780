# SPDX-License-Identifier: Apache-2.0
"""Any text that a source chooses has one result on every database, and no text ends the worker.

Messages for people are cut and cleaned. A text with a character that some database refuses costs its own event
elsewhere, and the quarantine stores that event whatever it contains.
"""

from __future__ import annotations

import datetime
import itertools
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.functional.storage.writing import cycle_on, meter, rows
from tests.simulated import told, whole
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Actor, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Outcome, Upsert
from watcher_sync.model.texts import for_people
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.writing.store import Store

ODD = ["\0", "\ud800", "\udfff", "\U0001f680", "\U0010ffff", "\ufffe", "'", '"', "\\", "%", " ", "\u202e", "é", "\x7f"]
texts = st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=5)), max_size=8).map("".join)
long_texts = st.one_of(texts, st.tuples(texts, st.integers(65_500, 70_000)).map(lambda each: each[0] + "x" * each[1]))

one_store = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
numbers = itertools.count(1)


def has_half(text: str) -> bool:
    """Whether it has half a surrogate pair."""
    return any("\ud800" <= character <= "\udfff" for character in text)


@pytest.fixture(autouse=True)
def _unlogged(caplog: pytest.LogCaptureFixture) -> None:
    """A report of a test cannot have halves of surrogate pairs, which an executable escapes in its log."""
    caplog.set_level(logging.CRITICAL, logger="watcher_sync")


@pytest.fixture
def cycle(store: Store) -> CommitCycle:
    return cycle_on(store)


@one_store
@given(name=texts, fault=long_texts, key=texts, value=texts)
def test_a_message_is_cleaned_and_any_other_text_costs_its_own_event_alike_on_every_database(
    store: Store, cycle: CommitCycle, name: str, fault: str, key: str, value: str
) -> None:
    number = next(numbers)
    uuid = f"server-{number}"
    facets = {"state": {}, "details": {"name": name, "metadata": {key: value}}, "fault": {"fault_message": fault}}
    cycle.run(
        Batch(events=[told(number, Upsert("instance", uuid, "1", facets)), told(number, meter(f"good-{number}"))])
    )
    refused = "\0" in name or any(map(has_half, (name, key, value)))
    found = cycle.model.get("instance", uuid)
    assert (found is None) == refused
    if found is not None:
        assert (found.name, found.metadata, found.fault_message) == (name, {key: value}, for_people(fault))
    assert cycle.model.get("meter", f"good-{number}") is not None
    assert whole(store.load()) == whole(cycle.model)


@one_store
@given(names=st.lists(texts, min_size=8, max_size=8), reason=long_texts)
def test_whatever_an_event_is_called_it_is_applied_or_the_quarantine_stores_it(
    store: Store, cycle: CommitCycle, names: list[str], reason: str
) -> None:
    number = next(numbers)
    identity, kind, origin, subject, channel, user, project, request = names
    odd = {"origin": origin, "subject": subject, "channel": channel, "actor": Actor(user, project, request)}
    good = msgspec.structs.replace(told(number, meter(f"m-{number}")), id=f"{number} {identity}", **odd)
    bad = Event(id=f"{number} {identity}", type=kind, source="test", data=b"{", undecodable=reason, **odd)
    before = len(rows(store, "quarantine"))
    cycle.run(Batch(events=[good, bad], cursors={"test": identity}))
    refused = any(map(has_half, (user, project, request)))
    assert (cycle.model.get("meter", f"m-{number}") is None) == refused
    found = rows(store, "quarantine")
    assert len(found) == before + 1 + refused
    assert Quarantine(store).show(found[-1].id)["reason"] == found[-1].reason


NO_DATABASE_STORES: dict[str, Callable[[], dict[str, Any]]] = {
    "a number": lambda: {"deliveries": 2**70},
    "a sequence": lambda: {"sequence": (2**70, 1)},
    "an actor": lambda: {"actor": Actor("\ud800")},
}


@pytest.mark.parametrize("odd", NO_DATABASE_STORES)
def test_an_event_whose_own_row_is_refused_is_quarantined_in_a_reduced_form(store: Store, odd: str) -> None:
    cycle = cycle_on(store)
    bad = Event(id="odd \ud800", type="odd", source="test", data=b"{", undecodable="bad", **NO_DATABASE_STORES[odd]())
    cycle.run(Batch(events=[told(1, meter("a")), bad, told(2, meter("b"))], cursors={"test": "3"}))
    assert {row.id for row in rows(store, "meters")} == {"a", "b"}
    assert store.cursors() == {"test": "3"}
    (kept,) = rows(store, "quarantine")
    assert (kept.source, kept.event_type, kept.body) == ("test", "odd", b"{")
    assert "its own row is refused" in kept.reason
    assert cycle.stats.total(Outcome.QUARANTINED) == 1


def test_a_time_beyond_the_years_of_utc_is_stored_as_unknown(store: Store) -> None:
    late = datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-9)))
    cycle_on(store).run(Batch(events=[Event(id="1", type="odd", source="test", undecodable="bad", time=late)]))
    assert [row["time"] for row in Quarantine(store).page()] == [None]


def test_the_reason_of_a_plugin_may_have_any_character(store: Store) -> None:
    cycle_on(store).run(Batch(events=[told(1, InvalidEvent("no \0 \ud800 \U0001f680"))]))
    assert [row.reason for row in rows(store, "quarantine")] == ["no \ufffd \ufffd \U0001f680"]
