# SPDX-License-Identifier: Apache-2.0
"""The statistics of a model, read over the API while changes are committed."""

from __future__ import annotations

import pytest

from tests.simulated import cloud
from watcher_sync.client import BadRequest, Gone, Unreachable
from watcher_sync.client.stats import RATE_WINDOW_SECONDS, ModelStats
from watcher_sync.commit.batch import Batch

pytestmark = pytest.mark.slow


def commit(cycle, events):
    for start in range(0, len(events), 25):
        cycle.run(Batch(events=events[start : start + 25]))


def counted(cycle):
    snapshot = cycle.model.snapshot()
    return {kind: len(list(snapshot.dump(kind))) for kind in snapshot.kinds}


def test_the_counts_are_those_of_the_model_at_the_start_and_as_it_goes_on(client, cycle):
    events, _ = cloud(seed=7, n=300)
    commit(cycle, events[:150])
    stats = ModelStats(client)
    assert stats.read().counts == counted(cycle)
    for start in range(150, 300, 30):
        commit(cycle, events[start : start + 30])
        snapshot = stats.refresh()
        assert snapshot.counts == counted(cycle)
        assert snapshot.seq == cycle.model.generation
    assert [c.seq for c in snapshot.changes] == sorted({c.seq for c in snapshot.changes})


def test_what_happened_during_the_listing_is_neither_missed_nor_counted_twice(client, cycle, monkeypatch):
    events, _ = cloud(seed=7, n=300)
    commit(cycle, events[:100])
    list_pages = client.entity_pages

    def listing(kind, **options):
        yield from list_pages(kind, **options)
        if kind == "aggregate":
            commit(cycle, events[100:])

    monkeypatch.setattr(client, "entity_pages", listing)
    snapshot = ModelStats(client).read()
    assert snapshot.counts == counted(cycle)
    assert snapshot.changes[-1].seq <= snapshot.seq == cycle.model.generation


def test_the_rate_is_of_the_last_seconds(client, cycle):
    now = [0.0]
    events, _ = cloud(seed=7, n=300)
    stats = ModelStats(client, monotonic=lambda: now[0])
    stats.read()
    commit(cycle, events)
    busy = stats.refresh()
    assert busy.rate * RATE_WINDOW_SECONDS == pytest.approx(
        sum(c.merged for c in client.events_page(0, limit=1000).events)
    )
    now[0] += RATE_WINDOW_SECONDS + 1
    assert stats.refresh().rate == 0


def test_an_api_that_is_away_leaves_the_snapshot_and_says_so(client, cycle, monkeypatch):
    commit(cycle, cloud(seed=7, n=100)[0])
    stats = ModelStats(client)
    before = stats.read()

    def away():
        raise Unreachable("Connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(client, "sources", away)
        snapshot = stats.refresh()
        assert (snapshot.counts, snapshot.problem) == (before.counts, "Connection refused")
        with pytest.raises(Unreachable):
            ModelStats(client).read()
    assert stats.refresh().problem == ""


def test_a_journal_that_is_lost_is_begun_again(client, cycle, monkeypatch):
    events, _ = cloud(seed=7, n=200)
    commit(cycle, events[:100])
    stats = ModelStats(client)
    stats.read()
    commit(cycle, events[100:])
    ask = client.events_page

    def purged(since=None, **options):
        if since is not None:
            raise Gone(410, "the journal begins later")
        return ask(since, **options)

    monkeypatch.setattr(client, "events_page", purged)
    assert stats.refresh().counts == counted(cycle)


def test_a_refusal_ends_it(client, monkeypatch):
    stats = ModelStats(client)
    stats.read()

    def refused():
        raise BadRequest(400, "no")

    monkeypatch.setattr(client, "sources", refused)
    with pytest.raises(BadRequest):
        stats.refresh()
