# SPDX-License-Identifier: Apache-2.0
"""Changes as they come: in order, without a gap, without repetition, whatever happens to the API."""

from __future__ import annotations

import threading

import pytest

from tests.services.servers import free_port
from tests.simulated import cloud
from tests.unit.client.conftest import served
from tests.waiting import deadline
from watcher_sync.client import Change, EventPage, Gone, ServerFailed, Unavailable, Unreachable, connect
from watcher_sync.client.changes import ChangeStream
from watcher_sync.commit.batch import Batch


def change(seq):
    return Change(
        seq=seq, time="2026-01-01T00:00:00Z", kind="k", id="i", change="updated", delta={}, event_id="e",
        event_type="t", source="s",
    )  # fmt: skip


class Script:
    """Pages and errors in this order; the clock moves by what is slept."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.epochs = []
        self.now = 0.0
        self.slept = []

    def page(self, since, wait, epoch):
        self.epochs.append(epoch)
        self.asked.append(since)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return EventPage(events=[change(s) for s in answer[0]], next_since=answer[1], head=answer[1], epoch="e1")

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds

    def following(self, since, **options):
        return ChangeStream(self.page, since, monotonic=lambda: self.now, sleep=self.sleep, **options)


def test_now_is_asked_for_once_and_retained_through_failures():
    script = Script(([3, 4], 4), Unreachable("x"), ([], 4), ([5], 5))
    assert next(script.following(None)).seq == 5
    assert script.asked == [None, 4, 4, 4]


def test_each_position_is_sent_with_the_epoch_of_its_page():
    script = Script(([1], 1), ([], 2), ([3], 3))
    following = script.following(0, epoch="e0")
    assert [next(following).seq for _ in range(2)] == [1, 3]
    assert (script.epochs, following.epoch) == (["e0", "e1", "e1"], "e1")


def test_what_was_lost_is_asked_for_again_and_nothing_is_given_twice():
    script = Script(([1, 2], 2), Unreachable("x"), Unavailable(503, "y"), ([3], 7), ([8], 8))
    following = script.following(0)
    assert [next(following).seq for _ in range(4)] == [1, 2, 3, 8]
    assert script.asked == [0, 2, 2, 2, 7]


def test_the_position_is_what_another_one_goes_on_from():
    following = Script(([1, 2], 5), ([], 9), ([10], 10)).following(0)
    positions = [following.position]
    for _ in range(3):
        next(following)
        positions.append(following.position)
    assert positions == [0, 1, 5, 10]


def test_pauses_grow_are_bounded_and_heed_retry_after():
    script = Script(*[Unreachable("x")] * 12, Unavailable(503, "y", retry_after=30.0), ([1], 1))
    next(script.following(0))
    assert all(0.25 <= pause <= 10 for pause in script.slept[:12])
    assert max(script.slept[:2]) <= 1.0
    assert min(script.slept[6:12]) >= 5.0
    assert script.slept[12] == 30.0


def test_patience_has_an_end():
    script = Script(*[Unreachable("x")] * 100)
    with pytest.raises(Unreachable):
        next(script.following(0, patience=20.0, wait=0.0))
    assert script.now == pytest.approx(20.0)


@pytest.mark.parametrize("error", [Gone(410, "x"), ServerFailed(500, "x")])
def test_what_waiting_does_not_mend_is_raised_at_once(error):
    script = Script(error)
    with pytest.raises(type(error)):
        next(script.following(0))
    assert script.slept == []


def committing(cycle, events):
    for start in range(0, len(events), 10):
        cycle.run(Batch(events=events[start : start + 10]))


def test_a_reader_sees_every_change_through_a_restart_of_the_api(application, cycle):
    events, _ = cloud(seed=3, n=300)
    committing(cycle, events[:100])
    port = free_port()
    with served(application, port) as url:
        following = connect(url).events(0)
        seen = [next(following).seq for _ in range(20)]
    committer = threading.Thread(target=committing, args=(cycle, events[100:]))
    committer.start()
    with served(application, port):
        seen += [next(following).seq for _ in range(20)]
        committer.join()
        everything = [change.seq for change in everything_since_0(connect(url))]
        seen += [next(following).seq for _ in everything[len(seen) :]]
    assert seen == everything
    assert len(everything) > 60


def everything_since_0(client):
    since, found = 0, []
    while True:
        page = client.events_page(since)
        found += page.events
        if page.next_since >= page.head:
            return found
        since = page.next_since


def test_a_change_arrives_while_it_is_waited_for(client, cycle):
    events, _ = cloud(seed=3, n=20)
    following = client.events(0)
    timer = threading.Timer(0.2, committing, (cycle, events))
    timer.start()
    assert next(following).seq == 1
    timer.join(deadline(60))  # its last commit is before the end of the store


def test_only_the_wanted_changes_come(client, cycle):
    events, _ = cloud(seed=3, n=200)
    committing(cycle, events)
    wanted = [c for c in everything_since_0(client) if c.kind == "aggregate"]
    assert wanted
    following = client.events(0, kind="aggregates")
    assert [next(following) for _ in wanted] == wanted
    one = client.events(0, entity_id=wanted[-1].id)
    assert next(one).id == wanted[-1].id


def test_only_the_changes_by_one_actor_come_in_pages_streams_and_histories(client, cycle):
    events, _ = cloud(seed=3, n=200)
    committing(cycle, events)
    everything = everything_since_0(client)
    one = next(c for c in reversed(everything) if c.actor is not None)
    same = [c for c in everything if c.actor is not None and c.actor["id"] == one.actor["id"]]
    assert 0 < len(same) < len(everything)
    assert client.events_page(0, actor=one.actor["id"], limit=1000).events == same
    following = client.events(0, actor=one.actor["id"])
    assert [next(following) for _ in same] == same
    assert list(client.history(one.kind, one.id, actor=one.actor["id"])) == [c for c in same if c.id == one.id]
    assert list(client.history(one.kind, one.id, actor="someone")) == []


def test_a_position_of_another_journal_is_gone(client):
    with pytest.raises(Gone, match="start from the lists"):
        next(client.events(10**6))
