# SPDX-License-Identifier: Apache-2.0
"""The pages of a catch-up: their size, the failure of a large one, and the page that is requested meanwhile."""

from __future__ import annotations

import json

import pytest

from tests.waiting import wait_until
from watcher_sync.client.watch import EventsPurged, HarvestFailed, RestHarvester
from watcher_sync.testing.watch.catch_up import Answer, document_of
from watcher_sync.testing.watch.topic import SELF_LINK

MAXIMUM = (("X-Watcher-Sync-Max-Page-Size", "1000"),)


def harvested(service, **settings):
    found = RestHarvester(service.url, "t", **settings).harvest(SELF_LINK, 5, "x")
    return [each.metadata.sequenceID for each in found]


def page_of(service, after, size):
    """The body of a page."""
    return json.dumps([document_of(each) for each in service.topic.newer(after)[:size]]).encode()


def sizes(service):
    return [int(each.query["pageSize"]) for each in service.asked]


def test_pages_are_large_after_the_service_has_announced_its_maximum(service):
    service.topic.publish(2_500)
    assert harvested(service) == list(range(6, 2_501))
    assert sizes(service) == [100, 1_000, 1_000, 1_000]


def test_a_stock_service_gets_no_large_page(stock):
    stock.topic.publish(250)
    assert harvested(stock) == list(range(6, 251))
    assert sizes(stock) == [100, 100, 100]


@pytest.mark.parametrize("announced", ["", "-1", "many", "50"])
def test_a_strange_announcement_changes_no_size(stock, announced):
    stock.topic.publish(130)
    stock.answers.append(Answer(200, page_of(stock, 5, 100), (("X-Watcher-Sync-Max-Page-Size", announced),)))
    assert harvested(stock) == list(range(6, 131))
    assert sizes(stock) == [100, 100]


def test_the_size_that_the_caller_sets_is_that_of_every_page(service):
    service.topic.publish(70)
    assert harvested(service, page_size=30) == list(range(6, 71))
    assert sizes(service) == [30, 30, 30]


def test_a_page_of_events_that_are_too_large_together_is_halved_until_it_fits(service, monkeypatch):
    service.topic.publish(400)
    most = len(page_of(service, 5, 30))
    monkeypatch.setattr("watcher_sync.client.watch.harvester._MAX_PAGE_BYTES", most)
    assert harvested(service) == list(range(6, 401))
    assert set(sizes(service)) == {100, 50, 25}
    monkeypatch.setattr("watcher_sync.client.watch.harvester._MAX_PAGE_BYTES", 10)
    with pytest.raises(HarvestFailed, match="more than 10 bytes"):
        harvested(service)
    assert sizes(service)[-1] == 1


def test_small_pages_follow_after_a_large_one_that_failed(service):
    service.topic.publish(400)
    events = RestHarvester(service.url, "t").harvest(SELF_LINK, 5, "x")
    service.answers.extend([Answer(200, page_of(service, 5, 100), MAXIMUM), Answer(503)])
    assert [each.metadata.sequenceID for each in events] == list(range(6, 401))
    assert sizes(service) == [100, 1_000, 100, 100, 100]


def test_a_small_page_that_fails_ends_the_catch_up_after_the_events_before_it(stock):
    stock.topic.publish(400)
    events = RestHarvester(stock.url, "t").harvest(SELF_LINK, 5, "x")
    stock.answers.extend([Answer(200, page_of(stock, 5, 100)), Answer(503)])
    assert [next(events).metadata.sequenceID for _ in range(100)] == list(range(6, 106))
    with pytest.raises(HarvestFailed):
        next(events)


def test_the_next_page_is_requested_while_the_caller_handles_one(service):
    service.topic.publish(150)
    events = RestHarvester(service.url, "t").harvest(SELF_LINK, 5, "x")
    assert next(events).metadata.sequenceID == 6
    wait_until(lambda: len(service.asked) == 2)
    assert service.asked[1].query["query"] == "sequenceID>105"
    assert len(list(events)) == 144
    assert len(service.asked) == 2


def test_every_page_has_the_epoch_of_the_position_if_it_is_known(service):
    service.topic.publish(250)
    found = RestHarvester(service.url, "t", page_size=100).harvest_of_epoch(SELF_LINK, 5, "x", "e1")
    assert len(list(found)) == 245
    assert [each.query.get("epoch") for each in service.asked] == ["e1"] * 3
    del service.asked[:]
    harvested(service)
    assert {each.query.get("epoch") for each in service.asked} == {None}


def test_a_refusal_has_the_epoch_that_the_service_says(service):
    service.answers.append(Answer(410, b"{}", (("X-Axway-Max-Sequence-Id", "7"), ("X-Watcher-Sync-Epoch", "e2"))))
    with pytest.raises(EventsPurged) as refused:
        list(RestHarvester(service.url, "t").harvest_of_epoch(SELF_LINK, 5, "x", "e1"))
    assert (refused.value.epoch, refused.value.max_sequence) == ("e2", 7)
