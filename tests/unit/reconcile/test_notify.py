# SPDX-License-Identifier: Apache-2.0
"""Listeners receive small payloads. No caller waits for the bus, and without a driver nothing connects to it."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.unit.engine.conftest import until
from tests.unit.reconcile.conftest import Hang
from tests.waiting import deadline
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.notifications import VnfNotifications
from watcher_sync.reconcile.notify import Notifications
from watcher_sync.storage.drifts import FieldDifference

VNF = VnfInstance(id="7f1c", name="demo", cluster="edge", namespace="default")
ABOUT = {"id": "7f1c", "name": "demo", "cluster": "edge", "namespace": "default"}


def difference(field, model, live):
    return FieldDifference(
        kind="vnf_instance", entity_id="7f1c", field=field, model_value=model, live_value=live, policy="observe"
    )


@pytest.fixture
def bus(conf, monkeypatch):
    """oslo.messaging's own driver for tests, which keeps what it is given."""
    from oslo_messaging.notify import _impl_test

    monkeypatch.setattr(_impl_test, "NOTIFICATIONS", [])
    Notifications(conf)  # registers the options
    conf.set_override("driver", ["test"], group="oslo_messaging_notifications")
    conf.set_override("transport_url", "fake://", group="oslo_messaging_notifications")
    return _impl_test


def test_each_event_has_its_type_priority_and_a_small_payload(conf, bus):
    told = Notifications(conf)
    syncs = VnfNotifications(told)
    syncs.sync_start(VNF)
    syncs.sync_end(VNF, {"VDU1": "SYNCED"}, {"VDU1": 2})
    syncs.sync_error(VNF, "the cluster does not answer")
    syncs.drift(VNF, [difference("scale_level", {"a": 1}, {"a": 2}), difference("observed", None, {"VDU1": 2})])
    assert told.flush(60)
    assert [(priority, m["event_type"]) for _, m, priority, _ in bus.NOTIFICATIONS] == [
        ("INFO", "vnf_instance.sync.start"),
        ("INFO", "vnf_instance.sync.end"),
        ("ERROR", "vnf_instance.sync.error"),
        ("WARN", "vnf_instance.drift"),
    ]
    messages = [message for _, message, _, _ in bus.NOTIFICATIONS]
    assert {message["publisher_id"] for message in messages} == {f"watcher_sync.{socket.gethostname()}"}
    start, end, error, drift = (message["payload"] for message in messages)
    assert start == ABOUT
    assert end == {**ABOUT, "results": {"VDU1": "SYNCED"}, "pods": {"VDU1": 2}}
    assert error == {**ABOUT, "why": "the cluster does not answer"}
    assert drift == {
        **ABOUT,
        "count": 2,
        "differences": [
            {"field": "scale_level", "policy": "observe", "model_value": {"a": 1}, "live_value": {"a": 2}},
            {"field": "observed", "policy": "observe", "model_value": None, "live_value": {"VDU1": 2}},
        ],
    }


def test_a_drift_stays_small_however_much_differs(conf, bus):
    told = Notifications(conf)
    VnfNotifications(told).drift(
        VNF, [difference("vnfc_info", "x" * 500, 1), *(difference(f"f{n}", 1, 2) for n in range(100))]
    )
    assert told.flush(60)
    ((_, message, _, _),) = bus.NOTIFICATIONS
    payload = message["payload"]
    assert (payload["count"], len(payload["differences"])) == (101, 20)
    assert payload["differences"][0] == {"field": "vnfc_info", "policy": "observe", "live_value": 1}


def test_without_a_driver_nothing_is_made_and_no_thread_runs(conf, monkeypatch):
    monkeypatch.setattr("oslo_messaging.get_notification_transport", lambda conf: pytest.fail("a transport was made"))
    before = set(threading.enumerate())
    Notifications(conf)  # registers the options
    for drivers in ([], ["noop"]):
        conf.set_override("driver", drivers, group="oslo_messaging_notifications")
        told = Notifications(conf)
        VnfNotifications(told).sync_start(VNF)
        assert told.flush(0)
        assert not told.wanted
    assert [thread for thread in threading.enumerate() if thread not in before] == []


class Bus:
    """A notifier whose sending ends as the test says."""

    def __init__(self, end):
        self.end = end
        self.sent = []

    def info(self, context, event_type, payload):
        self.end()
        self.sent.append(payload["id"])


def test_an_outage_delays_no_caller_and_what_does_not_fit_is_dropped_and_logged_once(conf, bus, monkeypatch, said):
    hang = Hang()
    sending = Bus(hang)
    monkeypatch.setattr("oslo_messaging.Notifier", lambda transport, **_: sending)
    told = Notifications(conf, room=3)
    syncs = VnfNotifications(told)
    syncs.sync_start(VNF)
    assert hang.asked.wait(deadline(60))
    for _ in range(10):
        syncs.sync_start(VNF)  # returns, although nothing can be sent
    assert told.dropped == 7
    assert said() == ["Notifications are dropped: 3 wait for the broker already"]
    assert not told.flush(0)
    hang.let_go()
    assert told.flush(60)
    assert len(sending.sent) == 4


def test_a_bus_that_fails_is_said_once_and_tried_with_the_next(conf, bus, monkeypatch, said):
    failures = [OSError("no route"), OSError("no route")]

    def end():
        if failures:
            raise failures.pop()

    sending = Bus(end)
    monkeypatch.setattr("oslo_messaging.Notifier", lambda transport, **_: sending)
    told = Notifications(conf)
    for _ in range(3):
        VnfNotifications(told).sync_start(VNF)
    assert until(lambda: sending.sent == ["7f1c"])
    assert told.dropped == 2
    assert said() == ["Notifications cannot be sent: OSError"]
