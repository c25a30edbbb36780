# SPDX-License-Identifier: Apache-2.0
"""A version is text that sorts as (rank, envelope time, message id) do."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.openstack.handler import ordering

NOON = 1_767_268_800  # 2026-01-01 12:00:00 UTC, in seconds


def test_a_version_is_a_rank_the_envelopes_time_its_clock_and_the_message_id(nova, version):
    event = nova.instance("instance.update", at=7, sent=8.25, message_id="abc")
    text = version(event)
    assert text.startswith(f"20{NOON + 8}250000")
    assert text.endswith("abc")
    assert len(text) == 1 + 17 + 3 + 3


def test_the_time_of_the_write_before_is_no_part_of_the_version(nova, version):
    event = nova.instance("instance.update", at=7, sent=8, message_id="abc")
    assert version(event) == version(nova.instance("instance.update", at=3, sent=8, message_id="abc"))
    assert version(event) == version(nova.drop(event, "nova_object.data/updated_at"))


def test_an_event_without_a_time_is_older_than_every_other(nova, version):
    assert version(nova.service("service.delete", "h", sent=None)).startswith("2" + "0" * 17)
    assert version(nova.service("service.delete", "h", sent=None)) < version(
        nova.service("service.delete", "h", sent=0)
    )


def test_events_of_a_building_instance_are_older_than_all_others_of_it(nova, version):
    building = nova.instance("instance.update", state="building", sent=9)
    assert version(building) < version(nova.instance("instance.update", sent=8))


@pytest.mark.parametrize("event_type", ["service.update", "service.delete"])
def test_services_and_aggregates_have_versions_of_the_same_form(nova, version, event_type):
    prefix = f"20{NOON + 8}000000"
    assert version(nova.service(event_type, "h", sent=8)).startswith(prefix)
    aggregate = (
        event_type.replace("service", "aggregate") + ".end" if "delete" in event_type else "aggregate.create.end"
    )
    assert version(nova.aggregate(aggregate, "a", sent=8, hosts=[])).startswith(prefix)


def test_a_listed_version_is_between_the_events_before_and_after_the_listing(nova, version):
    listed_at = datetime.datetime(2026, 1, 1, 12, 0, 8, tzinfo=datetime.UTC)
    for updated_at in (None, listed_at, listed_at + datetime.timedelta(hours=1)):
        listed = ordering.listed_version(updated_at, listed_at)
        for make in (nova_update, nova_service):
            assert version(make(nova, 7.999999)) < listed < version(make(nova, 8.000001))
    building = ordering.listed_version(None, listed_at, state="building")
    assert version(nova.instance("instance.update", sent=7, state="building")) < building
    assert building < version(nova.instance("instance.create.end", sent=7))


def nova_update(nova, sent):
    return nova.instance("instance.update", sent=sent)


def nova_service(nova, sent):
    return nova.service("service.update", "h", sent=sent)


@pytest.mark.parametrize(("apart", "doubtful"), [(0.4, True), (0.999, True), (1.001, False)])
def test_two_clocks_at_nearly_the_same_time_are_doubtful(nova, version, apart, doubtful):
    one = version(nova.instance("instance.update", sent=8, publisher="nova-compute:host1"))
    other = version(nova.instance("instance.update", sent=8 + apart, publisher="nova-compute:host2"))
    same = version(nova.instance("instance.update", sent=8 + apart, publisher="nova-compute:host1"))
    assert ordering.is_doubtful(one, other) is ordering.is_doubtful(other, one) is doubtful
    assert not ordering.is_doubtful(one, same)
    assert not ordering.is_doubtful(one, ordering.copy_version(other))


def test_an_update_and_a_deletion_in_one_second_are_ordered_by_the_envelope(nova, version):
    first = nova.instance("instance.update", at=7, sent=7.000001)
    assert version(first) < version(nova.instance("instance.delete.end", at=7, sent=7.000002))


def test_a_time_of_another_zone_is_the_same_version(nova, version):
    one = nova.instance("instance.update", sent=8, message_id="x", updated_at="2026-01-01T12:00:07Z")
    other = nova.instance("instance.update", sent=8, message_id="x", updated_at="2026-01-01T05:00:07-07:00")
    assert version(one) == version(other)


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
TIMES = st.timedeltas(datetime.timedelta(0), datetime.timedelta(days=1_157_406)).map(lambda since: EPOCH + since)
IDS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters="! "), min_size=1, max_size=10)
PARTS = st.tuples(st.sampled_from(["building", "stopped"]), TIMES, IDS)


def made(nova, parts):
    event = nova.instance("instance.update", state=parts[0])
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
        assert len(text) <= 31
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
