# SPDX-License-Identifier: Apache-2.0
"""An engine that leads says which hosts are silent, from the events of its own sources; a standby says nothing."""

from __future__ import annotations

import datetime
import itertools

import pytest

from tests.simulated import telling
from tests.unit.engine.conftest import Spoken, until
from tests.waiting import PATIENCE_SECONDS
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.assembly import make_liveness
from watcher_sync.model.changes import Seen, Upsert
from watcher_sync.sources.base import SourceState

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()


def sign(*hosts):
    """An event that these hosts published now."""
    now = datetime.datetime.now(datetime.UTC)
    changes = [Seen("compute_node", host, now) for host in hosts]
    return Event(id=f"sign-{next(NUMBERS)}", type="told", source="spoken", data=changes)


def declared(*hosts):
    changes = [Upsert("compute_node", host, "1", {"service": {"status": "enabled"}}) for host in hosts]
    return Event(id="declared", type="told", source="spoken", data=changes)


@pytest.fixture
def liveness(conf, store):
    """Makes the service of an engine, as its assembly does."""
    conf.set_override("silent_after", 1.0, group="liveness")

    def make(engine):
        return make_liveness(conf, engine, make_context(conf, store, telling(), engine.model.snapshot))

    return make


def state(store, host):
    node = store.load().snapshot().get("compute_node", host)
    return node.state if node is not None else None


def speak_until(source, condition, *hosts, times=100):
    """Events of these hosts, until the condition is true; whether it came true."""
    for _ in range(times):
        source.say(sign(*hosts))
        if until(condition, 0.1):
            return True
    return False


def test_a_host_that_falls_silent_is_down_and_up_again_with_its_next_event(run, store, liveness):
    source = Spoken()
    running = run(source, services=[liveness])
    source.say(declared("host-1", "host-2"), sign("host-1", "host-2"))
    assert speak_until(source, lambda: state(store, "host-1") == "down", "host-2")
    assert state(store, "host-2") == "unknown"
    assert speak_until(source, lambda: state(store, "host-1") == "up", "host-1")
    assert running.engine.leading


def test_a_source_that_loses_its_connection_makes_no_host_silent(run, store, liveness):
    source = Spoken()
    running = run(source, services=[liveness])
    source.state = SourceState.DISCONNECTED
    assert until(lambda: [row.state for row in running.engine.source_rows()] == ["disconnected"])
    source.say(declared("host-1", "host-2"), sign("host-1", "host-2"))
    assert not speak_until(source, lambda: state(store, "host-1") == "down", "host-2", times=30)
    source.state = SourceState.CONNECTED
    assert speak_until(source, lambda: state(store, "host-1") == "down", "host-2")


def test_a_standby_writes_no_liveness(run, conf, store, liveness):
    conf.set_override("standby", True, group="engine")
    leader = Spoken()
    run(leader, lease_seconds=PATIENCE_SECONDS)  # no pause of the machine is the end of its lease
    leader.say(declared("host-1", "host-2"), sign("host-1", "host-2"))
    assert until(lambda: state(store, "host-1") == "unknown")
    standby = run(Spoken(), services=[liveness], lease_seconds=PATIENCE_SECONDS)
    assert until(lambda: standby.engine.model.snapshot().get("compute_node", "host-1") is not None)
    (service,) = standby.engine.services
    assert not service._thread.is_alive()
    assert state(store, "host-1") == "unknown"
