# SPDX-License-Identifier: Apache-2.0
"""Changes in a stream of a real RabbitMQ, read by a plain AMQP consumer."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pika
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
from tests.services.rabbitmq import RabbitMQStreamNode, private_rabbitmq_stream_node
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.log.base import OutletDeposed, OutletError
from watcher_sync.extensions.log.rabbitmq_stream.outlet import RabbitMQStreamOutlet

_OPEN = ("snapshot_begin", "snapshot")


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQStreamNode]:
    with private_rabbitmq_stream_node() as made:
        yield made


@pytest.fixture
def stream() -> str:
    return f"watcher-sync-{secrets.token_hex(4)}"


def outlet_for(node: RabbitMQStreamNode, stream: str, **options: Any) -> RabbitMQStreamOutlet:
    return make_outlet(
        RabbitMQStreamOutlet,
        **{
            "transport_url": node.url,
            "stream_port": node.stream_port,
            "stream": stream,
            "stream_mode": "create",
            "timeout": answer_timeout(),
            **options,
        },
    )


def read(node: RabbitMQStreamNode, stream: str, last: str) -> list[tuple[dict[str, str], bytes]]:
    """The headers and bodies of the changes until one has this position, as a consumer of AMQP 0.9.1 gets them.

    A snapshot has it at its end.
    """
    found = []
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.port))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    deliveries = channel.consume(stream, arguments={"x-stream-offset": "first"}, inactivity_timeout=deadline(10))
    for method, properties, body in deliveries:
        assert method is not None, f"{last} did not come"
        channel.basic_ack(method.delivery_tag)
        change = properties.headers["Watcher-Sync-Change"]
        if change != "claim":
            found.append((properties.headers, body))
        if properties.headers.get("Watcher-Sync-Position", "").endswith(last) and change not in _OPEN:
            break
    with contextlib.suppress(pika.exceptions.AMQPError):  # a stream has no nack for what the client still has
        connection.close()
    return found


def positions(node: RabbitMQStreamNode, stream: str, last: str) -> list[str]:
    return [headers["Watcher-Sync-Position"] for headers, _ in read(node, stream, last)]


def can_open(outlet: RabbitMQStreamOutlet) -> bool:
    """A broker that has just started knows its streams a little later."""
    try:
        outlet.open({})
    except OutletError:
        return False
    return True


def test_a_consumer_of_amqp_reads_each_change_in_order(node: RabbitMQStreamNode, stream: str) -> None:
    outlet = outlet_for(node, stream)
    assert outlet.open({}) == {}
    assert publish(outlet, snapshot(1, ["a"])[:2]) == {}
    assert publish(outlet, [snapshot(1, ["a"])[2], *changes(2, 3)]) == {PARTITION: at(3)}
    large = "x" * 100_000
    assert publish(outlet, [change(seq, after={"id": "a", "name": large}) for seq in range(4, 24)]) == {
        PARTITION: at(23)
    }
    outlet.close()

    found = read(node, stream, "e1:23")
    assert [(headers["Watcher-Sync-Position"], headers["Watcher-Sync-Change"]) for headers, _ in found[:5]] == [
        ("e1:1", "snapshot_begin"),
        ("e1:1", "snapshot"),
        ("e1:1", "snapshot_end"),
        ("e1:2", "updated"),
        ("e1:3", "updated"),
    ]
    assert json.loads(found[4][1])["data"]["entity"] == {"id": "i-3", "host": "host-2", "state": "active"}
    assert json.loads(found[-1][1])["data"]["entity"]["name"] == large
    assert len(found) == 25


def test_the_next_publisher_gets_the_last_position_and_whether_it_is_in_a_snapshot(
    node: RabbitMQStreamNode, stream: str
) -> None:
    outlet = outlet_for(node, stream)
    assert [outlet.open({}), outlet.open({})] == [{}, {}]
    publish(outlet, changes(1, 500))
    for _ in range(3):  # each opening leaves a mark, and the change is further back
        assert outlet.open({PARTITION: at(3)}) == {PARTITION: at(500)}
    publish(outlet, snapshot(600, ["a"], epoch="e2")[:2])
    assert outlet.open({PARTITION: at(3)}) == {PARTITION: at(600, "e2")._replace(is_in_snapshot=True)}
    publish(outlet, snapshot(700, ["a"], epoch="e2"))
    assert outlet.open({}) == {PARTITION: at(700, "e2")}
    outlet.close()

    with pytest.raises(OutletError, match="contains the partition east, not west"):
        outlet_for(node, stream, partition="west").open({})


def test_the_server_drops_what_a_deposed_publisher_sends_and_it_learns_of_it(
    node: RabbitMQStreamNode, stream: str
) -> None:
    deposed, present = outlet_for(node, stream), outlet_for(node, stream)
    deposed.open({})
    publish(deposed, changes(1, 100))
    assert present.open({}) == {PARTITION: at(100)}
    with pytest.raises(OutletDeposed, match="another publisher has claimed the stream"):
        publish(deposed, changes(101, 150))
    publish(present, changes(101, 200))
    with pytest.raises(OutletDeposed):
        publish(deposed, changes(151, 300))
    publish(present, changes(201, 300))
    deposed.close()
    present.close()
    assert positions(node, stream, "e1:300") == [f"e1:{seq}" for seq in range(1, 301)]


def test_after_an_outage_nothing_is_lost_and_nothing_is_there_twice(node: RabbitMQStreamNode, stream: str) -> None:
    outlet = outlet_for(node, stream)
    outlet.open({})
    publish(outlet, changes(1, 100))
    with node.out_of_service():
        with pytest.raises(OutletError, match=f"stream {stream}: ConnectionError: connection lost"):
            publish(outlet, changes(101, 200))
        with pytest.raises(OutletError, match=f"stream {stream}: "):
            outlet.open({PARTITION: at(100)})
    wait_until(lambda: can_open(outlet))
    seq = outlet.open({PARTITION: at(100)})[PARTITION].seq
    assert publish(outlet, changes(seq + 1, 300)) == {PARTITION: at(300)}
    outlet.close()
    assert positions(node, stream, "e1:300") == [f"e1:{seq}" for seq in range(1, 301)]


def test_a_missing_stream_is_an_error_that_names_it(node: RabbitMQStreamNode, stream: str) -> None:
    with pytest.raises(OutletError, match=f"stream {stream}: StreamDoesNotExist"):
        outlet_for(node, stream, stream_mode="verify").open({})


@pytest.mark.parametrize("missing", ["read", "write"])
def test_a_user_without_a_permission_is_refused_and_not_deposed(
    node: RabbitMQStreamNode, stream: str, missing: str
) -> None:
    first = outlet_for(node, stream)
    first.open({})
    first.publish(changes(1, 3))
    first.close()
    node.add_user(stream)
    outlet = outlet_for(node, stream, transport_url=node.url_of(user=stream))
    node.permit(stream, **{missing: "^nothing$"})
    with pytest.raises(OutletError, match=f"stream {stream}: AccessRefused"):
        outlet.open({})
    node.permit(stream)
    assert outlet.open({}) == {PARTITION: at(3)}
    outlet.close()
