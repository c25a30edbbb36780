# SPDX-License-Identifier: Apache-2.0
"""Changes on the mock cluster of librdkafka, which several clients share.

It has no fence, aborts nothing, compacts nothing and creates topics for everyone who asks.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from tests.functional.log.publishing import (
    PARTITION,
    answer_timeout,
    at,
    change,
    changes,
    make_outlet,
    publish,
    snapshot,
)
from tests.waiting import deadline
from watcher_sync.extensions.log.base import DELETED, OutletError
from watcher_sync.extensions.log.kafka import topics
from watcher_sync.extensions.log.kafka.outlet import KafkaOutlet


class MockCluster:
    """Three brokers in this process."""

    def __init__(self) -> None:
        self._client = confluent_kafka.Producer(
            {"test.mock.num.brokers": 3, "bootstrap.servers": "mock", "log_level": 0}
        )
        brokers = self._client.list_topics(timeout=deadline(10)).brokers.values()
        self.servers = [f"{broker.host}:{broker.port}" for broker in brokers]

    def create(self, *topics: str) -> None:
        """Asked for a topic, the cluster creates it."""
        for topic in topics:
            self._client.list_topics(topic, timeout=deadline(10))

    def records(self, topic: str) -> list[confluent_kafka.Message]:
        """What a plain consumer of committed records reads."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": ",".join(self.servers),
                "group.id": "tests",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        found = []
        while (record := consumer.poll(deadline(10))) is not None and record.error() is None:
            found.append(record)
        consumer.close()
        return found

    def model(self, topic: str) -> dict[str, Any]:
        """Key -> position of its last record, as after a compaction."""
        last = {(record.key() or b"").decode(): record for record in self.records(f"{topic}.model")}
        return {key: headers_of(record)["Watcher-Sync-Position"] for key, record in last.items() if record.value()}


def headers_of(record: confluent_kafka.Message) -> dict[str, str]:
    return {name: value.decode() for name, value in record.headers() or []}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    return MockCluster()


@pytest.fixture
def topic(cluster: MockCluster) -> str:
    made = f"watcher-sync-{secrets.token_hex(4)}"
    cluster.create(made, f"{made}.model")
    return made


def outlet_for(cluster: MockCluster, topic: str, **options: Any) -> KafkaOutlet:
    return make_outlet(KafkaOutlet, servers=cluster.servers, topic=topic, timeout=answer_timeout(), **options)


def test_a_consumer_reads_each_change_in_order_under_the_key_of_its_entity(cluster: MockCluster, topic: str) -> None:
    outlet = outlet_for(cluster, topic)
    assert outlet.open({}) == {}
    assert publish(outlet, snapshot(1, ["a"])[:2]) == {}
    assert publish(outlet, [snapshot(1, ["a"])[2], *changes(2, 4)]) == {PARTITION: at(4)}
    outlet.close()

    found = [(record.key(), headers_of(record)) for record in cluster.records(topic)]
    assert [(key, headers["Watcher-Sync-Position"], headers["Watcher-Sync-Change"]) for key, headers in found] == [
        (None, "e1:1", "snapshot_begin"),
        (b"instance/a", "e1:1", "snapshot"),
        (None, "e1:1", "snapshot_end"),
        (b"instance/i-2", "e1:2", "updated"),
        (b"instance/i-3", "e1:3", "updated"),
        (b"instance/i-4", "e1:4", "updated"),
    ]
    body = json.loads(cluster.records(topic)[-1].value() or b"")
    assert body["type"] == "watcher_sync.instance.updated"
    assert body["data"]["entity"] == {"id": "i-4", "host": "host-2", "state": "active"}


def test_the_model_has_the_last_state_and_neither_what_was_deleted_nor_what_a_snapshot_lacks(
    cluster: MockCluster, topic: str
) -> None:
    outlet = outlet_for(cluster, topic)
    outlet.open({})
    publish(outlet, snapshot(1, ["a", "b", "c"]))
    publish(outlet, [change(2, id="a"), change(3, id="b", change=DELETED, after=None), change(4, id="d")])
    assert cluster.model(topic) == {"instance/a": "e1:2", "instance/c": "e1:1", "instance/d": "e1:4"}

    publish(outlet, [*snapshot(9, ["a", "e"]), change(10, id="f")])
    outlet.close()
    assert cluster.model(topic) == {"instance/a": "e1:9", "instance/e": "e1:9", "instance/f": "e1:10"}


def test_the_next_publisher_gets_the_last_position_and_whether_it_is_in_a_snapshot(
    cluster: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "_FIRST_STEP", 1)  # the last record is then the marker of a transaction
    first, second = outlet_for(cluster, topic), outlet_for(cluster, topic)
    first.open({})
    publish(first, changes(1, 500))
    assert second.open({PARTITION: at(3)}) == {PARTITION: at(500)}
    publish(second, snapshot(600, ["a"], epoch="e2")[:2])
    assert first.open({PARTITION: at(3)}) == {PARTITION: at(600, "e2")._replace(is_in_snapshot=True)}
    publish(first, snapshot(700, ["a"], epoch="e2"))
    assert second.open({}) == {PARTITION: at(700, "e2")}
    first.close()
    second.close()

    with pytest.raises(OutletError, match="contains the partition east, not west"):
        outlet_for(cluster, topic, partition="west").open({})


def test_a_snapshot_of_another_selection_at_the_same_seq_removes_what_it_lacks(
    cluster: MockCluster, topic: str
) -> None:
    outlet = outlet_for(cluster, topic)
    outlet.open({})
    publish(outlet, snapshot(600, ["a", "b", "c"]))
    publish(outlet, snapshot(600, ["a"]))
    outlet.close()
    assert set(cluster.model(topic)) == {"instance/a"}


def test_a_missing_topic_is_an_error_that_names_it(cluster: MockCluster) -> None:
    missing = f"watcher-sync-{secrets.token_hex(4)}"
    cluster.create(missing)
    with pytest.raises(OutletError, match=rf"topic {missing}.model: Broker: Unknown topic or partition"):
        outlet_for(cluster, missing).open({})


def test_brokers_that_are_gone_are_an_error_in_time() -> None:
    cluster = MockCluster()
    cluster.create("t", "t.model")
    outlet = make_outlet(KafkaOutlet, servers=cluster.servers, topic="t", timeout=deadline(1))
    outlet.open({})
    publish(outlet, changes(1, 10))
    del cluster  # its brokers end with it
    with pytest.raises(OutletError, match=r"Kafka: .* Connection refused"):
        publish(outlet, changes(11, 20))
    outlet.close()
    with pytest.raises(OutletError, match="Kafka: "):
        outlet.open({})
