# SPDX-License-Identifier: Apache-2.0
"""Background services run while their engine leads, and their metrics are the engine's."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from prometheus_client.core import GaugeMetricFamily

from tests.simulated import told
from tests.unit.engine.asking import ask, figures
from tests.unit.engine.conftest import Spoken, until
from watcher_sync.engine.monitoring_http import make_application
from watcher_sync.model.changes import Upsert

pytestmark = pytest.mark.slow


class Beside:
    """Writes down what the engine tells it, and whose the lease was then."""

    title = "Beside"

    def __init__(self, engine):
        self.engine = engine
        self.story = []

    def _write(self, what):
        self.story.append((what, self.engine.lease.read().holder == self.engine.lease.holder))

    def start(self):
        self._write("start")

    def begin_stop(self):
        self._write("begin_stop")

    def join(self, timeout):
        self._write("join")

    def report(self):
        return {"told": len(self.story)}

    def collect(self):
        return [GaugeMetricFamily("beside", "How often the engine called the service.", value=len(self.story))]


def test_a_service_starts_with_the_lead_and_has_ended_before_the_lease_is_given_back(run):
    running = run(Spoken(), services=[Beside])
    assert until(lambda: running.engine.leading)
    (beside,) = running.engine.services
    assert beside.story == [("start", True)]
    assert running.stop()
    assert beside.story == [("start", True), ("begin_stop", True), ("join", True)]


def test_what_the_sources_still_say_is_committed_between_the_two(run, store):
    class Late(Spoken):
        def stop(self, deadline):
            self.say(told(9, Upsert("instance", "late", "1", {"state": {}, "details": {"name": "late"}})))
            assert until(lambda: "event-9" in self.acked)
            super().stop(deadline)

    class Looking(Beside):
        def join(self, timeout):
            self.story.append(store.load().snapshot().ids("instance"))

    running = run(Late(), services=[Looking])
    assert until(lambda: running.engine.leading)
    assert running.stop()
    assert running.engine.services[0].story[1:] == [("begin_stop", True), ["late"]]


@pytest.mark.slow
def test_a_service_rests_while_another_engine_leads_and_starts_again_after_that(run, conf, store):
    conf.set_override("standby", True, group="engine")
    running = run(Spoken(), services=[Beside])
    assert until(lambda: running.engine.leading)
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.leases).values(token=99, holder="other/1"))
    (beside,) = running.engine.services
    assert until(lambda: [what for what, _ in beside.story][:3] == ["start", "begin_stop", "join"])
    assert until(lambda: [what for what, _ in beside.story][3:] == ["start"])
    assert running.engine.leading


def test_the_figures_of_services_are_the_engines(run):
    running = run(Spoken(), services=[Beside])
    assert until(lambda: running.engine.leading)
    application = make_application(running.engine)
    assert figures(ask(application, "/metrics")[1])["beside"] == {(): 1.0}


def test_a_reload_of_the_engine_is_passed_to_the_services_that_have_something_to_do(run):
    class Reloading(Beside):
        def reload(self):
            self.story.append("reload")

    running = run(Spoken(), services=[Beside, Reloading])
    assert until(lambda: running.engine.leading)
    running.engine.reload(["liveness.silent_after"])
    beside, reloading = running.engine.services
    assert (beside.story, reloading.story) == ([("start", True)], [("start", True), "reload"])
