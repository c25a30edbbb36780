# SPDX-License-Identifier: Apache-2.0
"""A version is text that sorts as (payload time, envelope time, message id) do."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent

NOON = 1_767_268_800  # 2026-01-01 12:00:00 UTC, in seconds


def test_a_version_is_the_payloads_time_the_envelopes_time_and_the_message_id(nova, version):
    event = nova.instance("instance.update", at=7, sent=8.25, message_id="abc")
    assert version(event) == f"0{NOON + 7}000000.0{NOON + 8}250000.abc"


def test_created_at_stands_in_for_a_null_or_missing_updated_at(nova, version):
    event = nova.instance("instance.update", at=None, created_at="2026-01-01T12:00:03Z", sent=8, message_id="abc")
    assert version(event) == f"0{NOON + 3}000000.0{NOON + 8}000000.abc"
    assert version(nova.drop(event, "nova_object.data/updated_at")) == version(event)


def test_missing_parts_are_zeros(nova, version):
    zeros = "0" * 17
    event = nova.instance("instance.update", at=None, created_at=None, sent=8, message_id="abc")
    assert version(event) == f"{zeros}.0{NOON + 8}000000.abc"
    assert version(nova.service("service.delete", "h", sent=None)).startswith(f"{zeros}.{zeros}.m")


@pytest.mark.parametrize("event_type", ["service.update", "service.delete"])
def test_services_and_aggregates_have_the_envelopes_time_only(nova, version, event_type):
    prefix = f"{'0' * 17}.0{NOON + 8}000000.m"
    assert version(nova.service(event_type, "h", sent=8)).startswith(prefix)
    aggregate = (
        event_type.replace("service", "aggregate") + ".end" if "delete" in event_type else "aggregate.create.end"
    )
    assert version(nova.aggregate(aggregate, "a", sent=8, hosts=[])).startswith(prefix)


def test_an_update_and_a_deletion_in_one_second_are_told_apart_by_the_envelope(nova, version):
    first = nova.instance("instance.update", at=7, sent=7.000001)
    assert version(first) < version(nova.instance("instance.delete.end", at=7, sent=7.000002))


def test_a_time_of_another_zone_is_the_same_version(nova, version):
    one = nova.instance("instance.update", sent=8, message_id="x", updated_at="2026-01-01T12:00:07Z")
    other = nova.instance("instance.update", sent=8, message_id="x", updated_at="2026-01-01T05:00:07-07:00")
    assert version(one) == version(other)


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TIMES = st.timedeltas(datetime.timedelta(0), datetime.timedelta(days=1_157_406)).map(lambda since: EPOCH + since)
IDS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=64)
PARTS = st.tuples(TIMES.map(lambda time: time.replace(microsecond=0)), TIMES, IDS)


def made(nova, parts):
    event = nova.instance("instance.update", updated_at=parts[0].strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0"))
    return Event(id=parts[2], type=event.type, source="nova", origin="", time=parts[1], data=event.data)


@given(PARTS, PARTS)
def test_the_order_of_versions_is_the_order_of_their_parts(nova, version, one, other):
    first, second = version(made(nova, one)), version(made(nova, other))
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_message_id_makes_a_version_of_its_own_that_can_be_stored(nova, version, one, other):
    versions = []
    for name in (one, other):
        text = version(nova.service("service.update", "h", sent=1, message_id=name))
        assert text.isascii()
        assert text.isprintable()
        assert len(text) <= 100
        versions.append(text)
    assert (versions[0] == versions[1]) == (one == other)


@pytest.mark.parametrize("year", [1969, 5139, 9999])
def test_an_envelope_of_a_time_that_cannot_be_ordered_is_refused(nova, changes, year):
    event = nova.instance("instance.update")
    event = Event(
        id="x", type=event.type, source="nova", time=datetime.datetime(year, 6, 1, tzinfo=datetime.UTC), data=event.data
    )
    with pytest.raises(InvalidEvent, match=r"^timestamp: "):
        changes(event)
