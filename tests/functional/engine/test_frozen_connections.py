# SPDX-License-Identifier: Apache-2.0
"""A leader whose connections to the database stop answering without closing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from tests.faulty_proxy import FaultyProxy
from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.engine.test_monitoring import ask
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

pytestmark = [pytest.mark.rare, pytest.mark.alone, pytest.mark.timeout(600)]

_RED_SECONDS = 10.0
_COMMIT_SECONDS = 15.0
_RATE = 200.0
_PUBLISH_SECONDS = 25.0
_SERVERS = ["postgresql", "mariadb"]


class Readiness:
    """Watches ``/readyz`` of an engine in a thread."""

    def __init__(self, port: int) -> None:
        self.red_at: float | None = None
        """Monotonic time of the first answer that said that the database is unavailable."""
        self._port = port
        self._stop = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch during the block."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        yield
        self._stop.set()
        thread.join(deadline(10))

    def _run(self) -> None:
        while self.red_at is None and not self._stop.wait(0.05):
            status, text = ask(self._port, "/readyz")
            if status == 503 and "the database is unavailable" in text:
                self.red_at = time.monotonic()


class Site:
    """A leader behind a proxy, and perhaps a standby without one."""

    def __init__(self, site: Installation, nova: Line, proxy: FaultyProxy, *, standby: bool) -> None:
        self.site = site
        self.nova = nova
        self.proxy = proxy
        self.port = free_port()
        far = sa.make_url(site.url).set(port=proxy.port).render_as_string(hide_password=False)
        # The engine's thread reads the clock of the database once in each interval of the retention.
        site.options |= {
            **nova.source("nova"), "engine.enabled_sources": "nova", "engine.standby": str(standby).lower(),
            "engine.batch_size": 100, "retention.interval": 1,
        }  # fmt: skip
        site.upgrade()
        self.cloud = CloudSimulator(seed=16, hosts=20, instances=200)
        self.leader = site.engine(site.config(database__connection=far, monitoring__port=self.port))
        self.leader.wait_until_leading()
        self.standby: EngineProcess | None = None
        if standby:
            self.standby = site.engine(site.config())
            self.standby.wait_for_log("Standing by")

    def measure(self, fault: Callable[[], None]) -> tuple[float | None, float]:
        """Seconds from the fault to the red ``/readyz`` of the leader, if it was red within ten, and to a commit."""
        readiness = Readiness(self.port)
        with readiness.watched():
            wait_until(lambda: ask(self.port, "/readyz")[0] == 200, what="ready")
            fault()
            began = time.monotonic()
            wait_until(lambda: time.monotonic() - began > 0.5)  # what was under way has arrived
            head = self.site.head()
            wait_until(lambda: self.site.head() > head, 60, "a commit after the fault")
            committed = time.monotonic() - began
            wait_until(lambda: readiness.red_at is not None or time.monotonic() - began > _RED_SECONDS)
        return None if readiness.red_at is None else readiness.red_at - began, committed

    def check(self) -> None:
        """Everything was committed once, in order."""
        if self.standby is not None:
            assert self.leader.terminate()[0] == 0, self.leader.log[-4000:]
        self.site.drain(self.site.config(), self.nova, engine=self.standby or self.leader)
        self.site.check(self.cloud.reported())


@pytest.fixture(params=_SERVERS)
def make_site(
    request: pytest.FixtureRequest, install: Callable[..., Installation], line: Callable[[str], Line]
) -> Iterator[Callable[..., Site]]:
    url = str(request.getfixturevalue(f"{request.param}_url"))
    with FaultyProxy(sa.make_url(url).port or 0) as proxy:
        yield lambda **how: Site(install(url), line("nova"), proxy, **how)


@pytest.mark.parametrize("standby", [False, True])
def test_a_leader_whose_connections_freeze_is_not_ready_and_something_commits_again(
    make_site: Callable[..., Site], figure: Callable[[str], None], standby: bool
) -> None:
    site = make_site(standby=standby)
    with site.nova.publishing(site.cloud.history(int(_RATE * _PUBLISH_SECONDS)), rate=_RATE):
        wait_until(lambda: site.site.head() > 300, what="load")
        red, committed = site.measure(site.proxy.silence)
        figure(f"{_seconds(red)} to the red /readyz, {committed:.1f} s to the next commit")
        # Between two commits the pool finds the frozen connection, and replaces it without an error.
        assert (committed if red is None else red) <= _RED_SECONDS
        assert committed <= _COMMIT_SECONDS
    site.check()


def test_a_leader_that_is_cut_off_is_not_ready_and_its_standby_commits(
    make_site: Callable[..., Site], figure: Callable[[str], None]
) -> None:
    site = make_site(standby=True)
    with site.nova.publishing(site.cloud.history(int(_RATE * _PUBLISH_SECONDS)), rate=_RATE):
        wait_until(lambda: site.site.head() > 300, what="load")
        red, committed = site.measure(site.proxy.vanish)
        figure(f"{_seconds(red)} to the red /readyz, {committed:.1f} s to the next commit")
        assert red is not None
        assert red <= _RED_SECONDS
        assert committed <= _COMMIT_SECONDS
        site.proxy.restore()
        # It may notice first that its own commit has no answer. Either way it ends its lead.
        site.leader.wait_for_log("Standing by: engine")
    site.check()


def test_an_idle_leader_whose_connections_froze_commits_the_next_event_in_time(
    make_site: Callable[..., Site], figure: Callable[[str], None]
) -> None:
    site = make_site(standby=False)
    history = site.cloud.history(2_000)
    site.nova.publish(history[:1_000])
    wait_until(lambda: site.nova.waiting() == 0, what="an idle engine")

    def freeze() -> None:
        site.proxy.silence()
        site.nova.publish(history[1_000:])

    _, committed = site.measure(freeze)
    figure(f"{committed:.1f} s to the next commit")
    assert committed <= _COMMIT_SECONDS
    site.check()


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
