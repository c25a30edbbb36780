# SPDX-License-Identifier: Apache-2.0
"""The liveness of hosts over a database: what is written, logged and counted."""

from __future__ import annotations

import datetime
import itertools
import logging

import pytest

from tests.simulated import NOON, nova
from tests.sites import Site
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.liveness.rules import SERVICE_DOWN, SILENT
from watcher_sync.extensions.openstack.liveness.service import LivenessService
from watcher_sync.extensions.openstack.liveness.writer import LivenessWriter
from watcher_sync.model.changes import Delete, Seen, Upsert
from watcher_sync.model.transaction import Transaction

pytestmark = pytest.mark.slow


class ReplicaSite(Site):
    """A replica with three hosts, whose clock the test moves."""

    def __init__(self, folder):
        super().__init__(folder)
        self.cycle = CommitCycle(self.store, self.store.load(), nova())
        self.seconds = 0.0
        self.skew = datetime.timedelta()
        """How much the clocks of Nova and of its hosts are ahead of ours."""
        self.writer = LivenessWriter(make_context(self.conf, self.store, nova(), self.snapshot))
        self.offline = []
        self.service = LivenessService(
            self.conf,
            self.writer,
            self.snapshot,
            disconnected=lambda: self.offline,
            clock=lambda: self.seconds,
            now=self.now,
        )
        self.asked = []
        for host in ("host-1", "host-2", "host-3"):
            service = Upsert("compute_node", host, "1", {"service": {"status": "enabled"}})
            self.apply(service)

    def now(self):
        return NOON + datetime.timedelta(seconds=self.seconds)

    def snapshot(self):
        self.cycle.follow()
        return self.cycle.model.snapshot()

    def apply(self, *changes):
        event = Event(id="e", type="test", source="cell1")
        with DirectWriter(self.store, nova()).begin() as cycle:
            cycle.write(event, changes)

    def speak(self, *hosts, after=0.0):
        """Events that the hosts themselves publish, as the engine commits them."""
        self.seconds += after
        self.cycle.follow()
        transaction = Transaction(self.cycle.model)
        for host in hosts:
            event = Event(id=host, type="test", source="cell1")
            transaction.apply(event, [Seen("compute_node", host, self.now() + self.skew)])
        self.cycle.model.publish(transaction)

    def list_services(self, **states):
        return self.writer.on_services(
            {host.replace("_", "-"): up for host, up in states.items()},
            self.snapshot(),
            at=self.now(),
            source="nova",
        )

    def liveness(self, host="host-1"):
        node = self.snapshot().get("compute_node", host)
        return (node.state, node.liveness_reason)

    def rows(self):
        return self.snapshot().generation


@pytest.fixture
def site(tmp_path):
    site = ReplicaSite(tmp_path)
    yield site
    site.close()


@pytest.fixture
def logged(caplog):
    caplog.set_level(logging.INFO, "watcher_sync.extensions.openstack.liveness")
    return lambda: [record.getMessage() for record in caplog.records]


def keep_speaking(site, *hosts, seconds=700):
    for _ in range(seconds // 100):
        site.speak(*hosts, after=100)
        site.service.check()


def test_a_host_that_is_silent_while_others_publish_is_down_and_logged_once(site, logged):
    site.speak("host-1", "host-2")
    site.service.check()
    keep_speaking(site, "host-2", seconds=500)
    assert site.liveness() == ("unknown", None)
    keep_speaking(site, "host-2", seconds=1500)
    assert site.liveness() == ("down", SILENT)
    assert site.liveness("host-2") == ("unknown", None)
    assert logged() == [f"compute_node host-1: down: {SILENT}"]


def test_its_next_event_makes_a_silent_host_up_again(site, logged):
    site.speak("host-1", "host-2")
    site.service.check()
    keep_speaking(site, "host-2")
    site.speak("host-1", after=1)
    site.service.check()
    assert site.liveness() == ("up", None)
    assert logged()[1:] == ["compute_node host-1: up"]


def test_a_host_of_which_nothing_was_received_stays_unknown(site):
    site.speak("host-1", "host-2")
    site.service.check()
    keep_speaking(site, "host-1", "host-2", seconds=2000)
    assert site.liveness("host-3") == ("unknown", None)


def test_a_source_that_is_disconnected_makes_no_host_silent(site):
    site.speak("host-1", "host-2")
    site.service.check()
    site.offline = ["cell1"]
    keep_speaking(site, seconds=2000)
    site.offline = []
    site.speak("host-2", after=1)
    site.service.check()
    assert site.liveness() == ("unknown", None)


def test_with_silent_after_0_no_host_is_silent(site):
    site.conf.set_override("silent_after", 0, group="liveness")
    site.speak("host-1", "host-2")
    site.service.check()
    keep_speaking(site, "host-2", seconds=2000)
    assert site.liveness() == ("unknown", None)


def test_the_list_of_services_makes_hosts_up_and_down_and_its_repetition_writes_nothing(site, logged):
    found = site.list_services(host_1=True, host_2=False, unknown=False)
    assert [(d.entity_id, d.field, d.model_value, d.live_value) for d in found] == [
        ("host-1", "liveness", None, "up"),
        ("host-2", "liveness", None, "down"),
    ]
    assert (site.liveness("host-1"), site.liveness("host-2")) == (("up", None), ("down", SERVICE_DOWN))
    rows = site.rows()
    site.seconds += 60
    assert site.list_services(host_1=True, host_2=False) == []
    assert site.rows() == rows
    assert logged() == ["compute_node host-1: up", f"compute_node host-2: down: {SERVICE_DOWN}"]


def test_a_dry_run_reports_the_liveness_and_writes_nothing(site):
    rows = site.rows()
    found = site.writer.on_services({"host-1": False}, site.snapshot(), at=site.now(), source="nova", dry_run=True)
    assert [d.live_value for d in found] == ["down"]
    assert site.rows() == rows


def test_an_event_that_arrives_after_the_list_makes_the_host_up_again(site):
    site.list_services(host_1=False)
    site.speak("host-1", after=1)
    site.service.check()
    assert site.liveness() == ("up", None)


def test_an_event_that_was_published_before_the_list_leaves_the_host_down(site):
    site.speak("host-1")
    site.seconds += 1
    site.list_services(host_1=False)
    site.service.check()
    assert site.liveness() == ("down", SERVICE_DOWN)


def test_a_list_that_was_requested_before_a_newer_change_changes_nothing(site):
    site.seconds = 100
    site.list_services(host_1=True)
    site.seconds = 50
    site.list_services(host_1=False)
    assert site.liveness() == ("up", None)


def test_an_idle_host_that_the_list_of_services_confirms_is_not_silent(site):
    site.speak("host-1", "host-2")
    site.service.check()
    for _ in range(10):
        keep_speaking(site, "host-2", seconds=500)
        site.list_services(host_1=True)
        site.service.check()
    assert site.liveness() == ("up", None)


def test_a_host_that_is_forced_down_is_down_whatever_its_liveness(site):
    site.list_services(host_1=True)
    site.apply(Upsert("compute_node", "host-1", "2", {"service": {"forced_down": True}}))
    assert site.liveness() == ("down", None)
    assert site.service.report()["host-1"] == "forced down"


def test_a_host_whose_service_was_deleted_is_left_alone(site):
    site.apply(Upsert("instance", "vm", "1", {"state": {}, "placement": {"host": "host-1"}}))
    site.apply(Delete("compute_node", "host-1", "2"))
    assert site.list_services(host_1=False) == []


def test_a_check_without_a_change_writes_nothing(site):
    site.speak("host-1", "host-2")
    rows = site.rows()
    keep_speaking(site, "host-1", "host-2")
    assert site.rows() == rows


def test_the_metric_counts_the_hosts_by_state(site):
    site.list_services(host_1=True, host_2=False)
    (gauge,) = site.service.collect()
    assert {sample.labels["state"]: sample.value for sample in gauge.samples} == {"up": 1, "down": 1, "unknown": 1}


# Nova is asked before a silent host is down


@pytest.fixture
def nova_answers(site):
    """Nova's API is configured, and answers this: host -> whether it is up, or an exception."""

    def answers(answer):
        def ask():
            site.asked.append(site.seconds)
            if isinstance(answer, Exception):
                raise answer
            return answer, site.skew

        site.service._ask = ask

    site.speak("host-1", "host-2")
    site.service.check()
    return answers


def test_a_silent_host_that_nova_reports_up_is_idle_and_stays_as_it_is(site, nova_answers, logged):
    nova_answers({"host-1": True, "host-2": True})
    keep_speaking(site, "host-2", seconds=3000)
    assert site.liveness() == ("up", None)
    assert site.asked[0] == 600
    assert all(later - earlier >= 600 for earlier, later in itertools.pairwise(site.asked))
    assert len(site.asked) in (4, 5)
    assert logged() == ["compute_node host-1: up"]


def test_a_silent_host_that_nova_reports_down_is_down(site, nova_answers):
    nova_answers({"host-1": False, "host-2": True})
    keep_speaking(site, "host-2", seconds=3000)
    assert site.liveness() == ("down", SERVICE_DOWN)
    assert site.asked == [600]


@pytest.mark.parametrize("ahead", [-300, 0, 300])
def test_a_host_that_is_down_is_up_after_its_next_event_whatever_the_difference_of_the_clocks(site, ahead):
    site.skew = datetime.timedelta(seconds=ahead)
    site.speak("host-1", "host-2")
    site.service.check()
    site.service._ask = lambda: ({"host-1": False, "host-2": True}, site.skew)
    keep_speaking(site, "host-2")
    assert site.liveness() == ("down", SERVICE_DOWN)
    site.speak("host-1", after=10)
    site.service.check()
    assert site.liveness() == ("up", None)


def test_a_silent_host_that_nova_does_not_list_is_down_for_its_silence(site, nova_answers):
    nova_answers({"host-2": True})
    keep_speaking(site, "host-2")
    assert site.liveness() == ("down", SILENT)


def test_while_nova_cannot_be_asked_no_host_is_down_for_its_silence(site, nova_answers, logged):
    nova_answers(ReconcileError("compute: no answer"))
    keep_speaking(site, "host-2", seconds=1000)
    assert site.liveness() == ("unknown", None)
    assert logged() == ["Silent hosts cannot be checked, retrying: compute: no answer"]
    nova_answers({"host-1": False})
    keep_speaking(site, "host-2", seconds=100)
    assert site.liveness() == ("down", SERVICE_DOWN)


def test_nova_is_not_asked_while_no_host_is_silent(site, nova_answers):
    nova_answers({"host-1": False})
    keep_speaking(site, "host-1", "host-2", seconds=3000)
    assert site.asked == []
