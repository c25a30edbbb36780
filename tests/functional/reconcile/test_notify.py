# SPDX-License-Identifier: Apache-2.0
"""Notifications reach a listener on RabbitMQ, also those that waited for the broker."""

from __future__ import annotations

import json
import socket
import urllib.parse
from collections.abc import Iterator
from typing import Any

import amqp
import pytest
from oslo_config import cfg
from oslo_messaging import opts as messaging

from tests.functional.conftest import Broker
from tests.functional.engine.proxy import CountingProxy
from tests.services.servers import free_port
from tests.waiting import wait_until
from watcher_sync.conf import opts
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.notifications import VnfNotifications
from watcher_sync.reconcile.notify import Notifications

VNF = VnfInstance(id="7f1c", name="demo", cluster="edge", namespace="default")


class Listener:
    """Who reads the queue of one priority of a topic."""

    def __init__(self, broker: Broker) -> None:
        at = urllib.parse.urlsplit(broker.amqp_url)
        self._topic = broker.unique
        self._connection = amqp.Connection(
            f"{at.hostname}:{at.port or 5672}", userid=at.username or "guest", password=at.password or "guest"
        )
        self._connection.connect()
        self._channel = self._connection.channel()

    def heard(self, priority: str) -> list[dict[str, Any]]:
        """What has come in; the queue is the notifier's, so there is none before its first message."""
        found = []
        try:
            while (message := self._channel.basic_get(f"{self._topic}.{priority}", no_ack=True)) is not None:
                found.append(json.loads(json.loads(message.body)["oslo.message"]))
        except amqp.NotFound:
            self._channel = self._connection.channel()
        return found

    def wait_for(self, priority: str, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        wait_until(lambda: found.extend(self.heard(priority)) or len(found) >= count, 60, "the notifications")
        return found

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def listener(broker: Broker) -> Iterator[Listener]:
    made = Listener(broker)
    yield made
    made.close()


def configured(broker: Broker, port: int | None = None) -> cfg.ConfigOpts:
    url = urllib.parse.urlsplit(broker.url)
    if port is not None:
        url = url._replace(netloc=f"{url.username}:{url.password}@127.0.0.1:{port}")
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for group, options in messaging.list_opts():
        if group in (None, "oslo_messaging_notifications"):
            conf.register_opts(options, group=group)
    conf.set_override("control_exchange", broker.unique)
    conf.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    conf.set_override("topics", [broker.unique], group="oslo_messaging_notifications")
    conf.set_override("transport_url", url.geturl(), group="oslo_messaging_notifications")
    return conf


def test_a_listener_receives_the_notifications_of_syncs_and_drifts(broker: Broker, listener: Listener) -> None:
    told = Notifications(configured(broker))
    syncs = VnfNotifications(told)
    syncs.sync_start(VNF)
    syncs.sync_end(VNF, {"VDU1": "SYNCED"}, {"VDU1": 2})
    syncs.sync_error(VNF, "the cluster does not answer")
    syncs.drift(VNF, [])
    assert told.flush(60)
    start, end = listener.wait_for("info", 2)
    assert (start["event_type"], end["event_type"]) == ("vnf_instance.sync.start", "vnf_instance.sync.end")
    assert start["publisher_id"] == f"watcher_sync.{socket.gethostname()}"
    assert (end["payload"]["name"], end["payload"]["pods"]) == ("demo", {"VDU1": 2})
    assert listener.wait_for("error", 1)[0]["payload"]["why"] == "the cluster does not answer"
    assert listener.wait_for("warn", 1)[0]["event_type"] == "vnf_instance.drift"


def test_notifications_during_an_outage_of_the_broker_delay_no_caller_and_arrive_after_it(
    broker: Broker, listener: Listener
) -> None:
    at = urllib.parse.urlsplit(broker.amqp_url)
    port = free_port()
    told = Notifications(configured(broker, port), room=5)
    for _ in range(20):
        VnfNotifications(told).sync_start(VNF)
    assert told.dropped >= 14
    assert not told.flush(0.1)
    with CountingProxy(at.port or 5672, port):
        kept = 20 - told.dropped
        assert len(listener.wait_for("info", kept)) == kept
        assert told.flush(60)
