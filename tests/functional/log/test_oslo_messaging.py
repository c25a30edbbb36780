# SPDX-License-Identifier: Apache-2.0
"""Notifications of our own on a real RabbitMQ, read by a plain notification listener of oslo.messaging."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import oslo_messaging
import pytest
from oslo_config import cfg

from tests.faulty_proxy import FaultyProxy
from tests.functional.log.publishing import EPOCH, PARTITION, at, change, changes, make_outlet, publish, snapshot
from tests.functional.sources.listening import BROKER, Publisher
from tests.waiting import wait_until
from watcher_sync.extensions.log.base import CREATED, DELETED, OutletError
from watcher_sync.extensions.log.oslo_messaging.outlet import OsloMessagingOutlet

NAMESPACE = "watcher_sync_object"


class Listener:
    """A notification listener as any service has it. Its exchange and its topic have this name."""

    def __init__(self, name: str, url: str = BROKER) -> None:
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        self.seen: list[dict[str, Any]] = []
        self._transport = oslo_messaging.get_notification_transport(conf, url)
        self._listener = oslo_messaging.get_notification_listener(
            self._transport, [oslo_messaging.Target(exchange=name, topic=name)], [self], executor="threading"
        )

    def info(self, ctxt: Any, publisher: str, event_type: str, payload: dict[str, Any], metadata: Any) -> None:
        """The library calls it for each notification of this priority."""
        self.seen.append({"publisher": publisher, "type": event_type, "payload": payload, **metadata})

    def start(self) -> None:
        """Declare the queue and consume."""
        self._listener.start()

    def stop(self) -> None:
        """Close the connections."""
        self._listener.stop()
        self._listener.wait()
        self._transport.cleanup()

    def seqs(self) -> list[int]:
        """Of the notifications, in their order."""
        return [seen["payload"][f"{NAMESPACE}.data"]["change"][f"{NAMESPACE}.data"]["seq"] for seen in self.seen]


def delete_queue(name: str) -> None:
    """Delete what a listener of this name has declared."""
    publisher = Publisher(name, BROKER.replace("rabbit:", "amqp:"))
    publisher.channel.queue_delete(f"{name}.info")
    publisher.close()


@pytest.fixture
def name() -> Iterator[str]:
    made = f"watcher-sync-{secrets.token_hex(4)}"
    yield made
    delete_queue(made)


@pytest.fixture
def listener(name: str) -> Iterator[Listener]:
    made = Listener(name)
    made.start()
    yield made
    made.stop()


def opened(name: str, url: str = BROKER) -> OsloMessagingOutlet:
    outlet = make_outlet(OsloMessagingOutlet, transport_url=url, exchange=name, topics=[name])
    outlet.open({})
    return outlet


def test_a_plain_listener_gets_versioned_notifications_of_each_change_and_of_a_snapshot(
    name: str, listener: Listener
) -> None:
    outlet = opened(name)
    gone = {"id": "i-3", "host": "host-1"}
    assert publish(outlet, snapshot(1, ["i-0"])[:2]) == {}
    done = publish(
        outlet,
        [
            snapshot(1, ["i-0"])[2],
            change(2, change=CREATED, before=None, delta={"state": (None, "active")}),
            change(3, change=DELETED, before=gone, after=None, delta={}, actor={"user_id": "u"}, previous_seq=1),
            change(4, versions={"state": "v4"}, event_id="m-1", event_type="instance.update", source="nova"),
        ],
    )
    outlet.close()

    assert done == {PARTITION: at(4)}
    wait_until(lambda: len(listener.seen) == 6)
    assert [seen["type"] for seen in listener.seen] == [
        "watcher_sync.snapshot_begin",
        "watcher_sync.instance.snapshot",
        "watcher_sync.snapshot_end",
        "watcher_sync.instance.created",
        "watcher_sync.instance.deleted",
        "watcher_sync.instance.updated",
    ]
    begin, _, _, created, deleted, updated = (seen["payload"] for seen in listener.seen)
    assert {seen["publisher"] for seen in listener.seen} == {"watcher_sync:east"}
    assert begin[f"{NAMESPACE}.name"] == "SnapshotPayload"
    assert created[f"{NAMESPACE}.changes"] == ["state"]
    assert deleted[f"{NAMESPACE}.data"].items() >= gone.items()
    assert deleted[f"{NAMESPACE}.data"]["change"][f"{NAMESPACE}.data"].items() >= {
        "actor": {"user_id": "u"}, "previous_seq": 1, "id": "i-3", "kind": "instance", "epoch": EPOCH,
    }.items()  # fmt: skip
    fields = updated[f"{NAMESPACE}.data"].pop("change")
    assert updated == {
        f"{NAMESPACE}.name": "InstancePayload",
        f"{NAMESPACE}.namespace": "watcher_sync",
        f"{NAMESPACE}.version": "1.0",
        f"{NAMESPACE}.changes": ["host"],
        f"{NAMESPACE}.data": {"id": "i-4", "host": "host-2", "state": "active"},
    }
    assert fields[f"{NAMESPACE}.data"] == {
        "partition": "east", "epoch": "e1", "seq": 4, "change": "updated", "kind": "instance", "id": "i-4",
        "time": "2026-01-02T03:04:05.000006Z", "previous_seq": None, "delta": {"host": ["host-1", "host-2"]},
        "versions": {"state": "v4"}, "actor": None, "project_id": None,
        "cause": {"event_id": "m-1", "event_type": "instance.update", "source": "nova", "merged": 1},
    }  # fmt: skip


def test_an_outage_of_the_broker_is_an_error_and_changes_sent_again_have_the_same_message_ids(
    name: str, listener: Listener
) -> None:
    with FaultyProxy(urlsplit(BROKER).port or 0) as proxy:
        outlet = opened(name, f"rabbit://guest:guest@127.0.0.1:{proxy.port}/")
        publish(outlet, changes(1, 500))
        proxy.discard_answers()
        with ThreadPoolExecutor(1) as threads:
            published = threads.submit(publish, outlet, changes(501, 1000))
            wait_until(lambda: len(listener.seen) > 600)  # the library drops what repeats one of its last 16
            proxy.cut()
        with pytest.raises(OutletError, match="did not confirm"):
            published.result()
        with pytest.raises(OutletError, match="cannot connect"):
            outlet.open({PARTITION: at(500)})
        proxy.restore()
        assert outlet.open({PARTITION: at(500)}) == {PARTITION: at(500)}
        assert publish(outlet, changes(501, 1000)) == {PARTITION: at(1000)}
        outlet.close()

    wait_until(lambda: len(listener.seen) > 1000 and listener.seqs()[-1] == 1000)
    assert set(listener.seqs()) == set(range(1, 1001))
    assert len({seen["message_id"] for seen in listener.seen}) == 1000


def test_a_change_that_no_queue_takes_is_an_error(name: str, listener: Listener) -> None:
    outlet = make_outlet(OsloMessagingOutlet, transport_url=BROKER, exchange=name, topics=[name, "other"])
    outlet.open({})
    with pytest.raises(OutletError, match=f"NO_ROUTE: no queue of exchange {name} has the key other.info"):
        publish(outlet, [change(1)])
    outlet.close()
