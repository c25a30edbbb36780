# SPDX-License-Identifier: Apache-2.0
"""What a stream brings: each change once, in order, and what its caller may see."""

from __future__ import annotations

import threading
import time

import grpc

from tests.functional.storage.conftest import on_one_database
from tests.functional.watch.clients import STOCK, WatchClient, channel_to
from tests.functional.watch.serving import Serving, joined, serving
from tests.functional.webhooks.subscribing import Instances
from tests.waiting import Deadline, wait_until
from watcher_sync.storage.writing.store import Store


@on_one_database
def test_a_stock_client_sees_every_change_once_in_order(site: Serving, store: Store, channel: grpc.Channel) -> None:
    instances = Instances(store)
    client = WatchClient(channel, dialect=STOCK, token="admin").subscribe("admin")
    joined(site, 1)
    head = 0
    for round_ in range(5):
        head = instances.write(range(round_, round_ + 10))
    client.wait_for(head)
    assert client.sequences == list(range(1, head + 1))
    first = client.events[0]
    assert (first.payload.group, first.payload.kind, first.payload.name) == ("compute", "Instance", "n0")
    assert first.metadata.watchTopicSelfLink == "/management/v1alpha1/watchtopics/all"
    client.close()


@on_one_database
def test_each_event_names_the_sequence_before_it(site: Serving, store: Store, channel: grpc.Channel) -> None:
    instances = Instances(store)
    client = WatchClient(channel).subscribe("admin")
    joined(site, 1)
    head = instances.write(range(5))
    client.wait_for(head)
    assert not client.events[0].metadata.HasField("prevSequenceID")
    assert [event.metadata.prevSequenceID for event in client.events[1:]] == client.sequences[:-1]
    client.close()


def test_a_resumed_stream_has_no_gap_and_no_duplicate_while_changes_go_on(
    site: Serving, store: Store, channel: grpc.Channel
) -> None:
    instances = Instances(store)
    for _ in range(20):
        instances.write(range(100))
    ended = threading.Event()
    heads: list[int] = []

    def write() -> None:
        # Not more rows than may wait for a client that is slow.
        while not ended.wait(0.02) and len(heads) < 90:
            heads.append(instances.write(range(10)))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        clients = [WatchClient(channel).subscribe("admin", after=after) for after in (0, 3, 500, 1999)]
        for client in clients:
            client.wait_for(1, 60)
        wait_until(lambda: len(heads) > 30)
    finally:
        ended.set()
        writer.join()
    for client, after in zip(clients, (0, 3, 500, 1999), strict=True):
        client.wait_for(heads[-1] - after, 60)
        assert client.sequences == list(range(after + 1, heads[-1] + 1))
        assert [event.metadata.prevSequenceID for event in client.events] == [after, *client.sequences[:-1]]
        client.close()


@on_one_database
def test_a_stock_client_goes_on_after_what_rest_served(site: Serving, store: Store, channel: grpc.Channel) -> None:
    head = Instances(store).write(range(10))
    wait_until(lambda: site.worker.stats.position == head)
    topic = site.topics.topics["/management/v1alpha1/watchtopics/all"]
    site.topics.served[("admin", topic.id)] = 6
    client = WatchClient(channel, dialect=STOCK).subscribe("admin")
    client.wait_for(head - 6)
    assert client.sequences == list(range(7, head + 1))
    client.close()


@on_one_database
def test_a_client_that_can_resume_and_has_no_position_gets_new_events_only(
    site: Serving, store: Store, channel: grpc.Channel
) -> None:
    instances = Instances(store)
    head = instances.write(range(10))
    wait_until(lambda: site.worker.stats.position == head)
    topic = site.topics.topics["/management/v1alpha1/watchtopics/all"]
    site.topics.served[("admin", topic.id)] = 6
    client = WatchClient(channel).subscribe("admin", capabilities=("ping", "resume"))
    joined(site, 1)
    instances.write([1])
    client.wait_for(1)
    assert client.sequences == [head + 1]
    client.close()


@on_one_database
def test_a_stock_client_without_a_catch_up_begins_at_the_head(
    site: Serving, store: Store, channel: grpc.Channel
) -> None:
    instances = Instances(store)
    head = instances.write(range(10))
    wait_until(lambda: site.worker.stats.position == head)
    client = WatchClient(channel, dialect=STOCK).subscribe("admin")
    joined(site, 1)
    instances.write([1])
    client.wait_for(1)
    assert client.sequences == [head + 1]
    client.close()


@on_one_database
def test_a_project_sees_its_own_changes_without_hosts(site: Serving, store: Store, channel: grpc.Channel) -> None:
    mine, others = WatchClient(channel).subscribe("p", after=0), WatchClient(channel).subscribe("q", after=0)
    all_of = WatchClient(channel).subscribe("admin", after=0)
    joined(site, 3)
    writer = Instances(store)
    head = writer.write(range(3))
    all_of.wait_for(head)
    mine.wait_for(head)
    assert mine.sequences == all_of.sequences
    assert others.sequences == []
    assert all("host" not in event.payload.attributes for event in mine.events)
    for client in (mine, others, all_of):
        client.close()


def test_a_filter_brings_what_it_names_only(site: Serving, store: Store, channel: grpc.Channel) -> None:
    link = "/management/v1alpha1/watchtopics/one"
    site.topics.put(link, {"group": "compute", "kind": "Instance", "name": "n3", "type": ["created"]})
    clients = [WatchClient(channel).subscribe("admin", self_link=link) for _ in range(2)]
    joined(site, 2)
    instances = Instances(store)
    instances.write(range(5))
    head = instances.write(range(5))
    resumed = WatchClient(channel).subscribe("admin", self_link=link, after=0)
    for client in (*clients, resumed):
        client.wait_for(1)
        assert client.events[0].payload.name == "n3"
    wait_until(lambda: site.worker.stats.position == head)
    assert [len(client.events) for client in (*clients, resumed)] == [1, 1, 1]
    for client in (*clients, resumed):
        client.close()


@on_one_database
def test_a_slow_reader_ends_with_resource_exhausted_and_resumes_while_others_see_no_delay(store: Store) -> None:
    with (
        serving(store, max_queued_events=200) as site,
        channel_to(site.port, grpc__http2__bdp_probe=0) as one,
        channel_to(site.port) as two,
    ):
        slow, fast = WatchClient(one), WatchClient(two)
        slow.pause()
        slow.subscribe("admin")
        fast.subscribe("admin")
        joined(site, 2)
        instances = Instances(store)
        head, longest = 0, 0.0
        limit = Deadline(240)
        while site.worker.stats.overflows == 0:
            assert not limit.is_over
            began = time.monotonic()
            head = instances.write(range(200), "x" * 200 + str(head))
            fast.wait_for(head, 60)
            longest = max(longest, time.monotonic() - began)
        assert longest < 55
        slow.go_on()
        assert slow.wait_for_status() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert slow.sequences == list(range(1, len(slow.sequences) + 1))
        again = WatchClient(one).subscribe("admin", after=slow.sequences[-1])
        again.wait_for(head - slow.sequences[-1], 60)
        assert slow.sequences + again.sequences == list(range(1, head + 1))
        assert fast.sequences == list(range(1, head + 1))
        for client in (again, fast):
            client.close()


@on_one_database
def test_a_killed_server_loses_nothing_for_who_resumes(store: Store) -> None:
    instances = Instances(store)
    seen: list[int] = []
    head = 0
    for _ in range(3):
        with serving(store) as site, channel_to(site.port) as channel:
            client = WatchClient(channel).subscribe("admin", after=seen[-1] if seen else 0)
            joined(site, 1)
            head = instances.write(range(20))
            client.wait_for(head - len(seen))
            seen += client.sequences
            site.stop()
            assert client.wait_for_status() == grpc.StatusCode.UNAVAILABLE
            head = instances.write(range(7))
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) == head - 7
