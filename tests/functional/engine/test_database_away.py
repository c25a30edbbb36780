# SPDX-License-Identifier: Apache-2.0
"""A database that is stopped under load and comes back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
import requests
import sqlalchemy as sa

from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.engine.proxy import CountingProxy
from tests.functional.executables import BIN
from tests.services.servers import Server, free_port
from tests.waiting import deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.wsgi.api import FILES

OUTAGE = float(os.environ.get("WATCHER_SYNC_TEST_OUTAGE", "30"))
"""Seconds that the database is away in the rare form."""

SHORT_OUTAGE = 4.0

_FIRST_ATTEMPTS = 5
"""The pauses of the back-off are shorter than a second at first."""


@pytest.mark.parametrize("outage", [SHORT_OUTAGE, pytest.param(OUTAGE, marks=pytest.mark.rare)], ids=["short", "long"])
def test_a_database_outage_loses_nothing_and_is_asked_less_than_once_a_second(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    own_postgresql: Server,
    figure: Callable[[str], None],
    outage: float,
) -> None:
    nova = line("nova")
    with CountingProxy(own_postgresql.port) as proxy:
        site = install(own_postgresql.url, engine__enabled_sources="nova", engine__batch_size=100)
        site.upgrade()
        site.options |= {**nova.source("nova"), "source_nova.prefetch": 200}
        site.options["database.connection"] = str(
            sa.make_url(own_postgresql.url).set(port=proxy.port).render_as_string(hide_password=False)
        )
        site.tolerate_pauses()
        config = site.config()
        cloud = CloudSimulator(seed=30, hosts=20, instances=200)
        engine = site.engine(config)
        engine.wait_until_leading()
        workers = engine.workers
        with nova.publishing(cloud.events(), rate=200, most=int(200 * (outage + 40))):
            wait_until(lambda: site.head() > 100, what="load")
            own_postgresql.stop()
            site.store.database.dispose()
            engine.wait_for_log("The database is unavailable")
            began, before = time.monotonic(), proxy.attempts
            # The pauses of the back-off are shorter than the outage, unless the engine itself is paused.
            wait_until(lambda: time.monotonic() - began >= outage and proxy.attempts > before, outage + 10)
            away, attempts = time.monotonic() - began, proxy.attempts - before
            assert engine.running
            wait_until(nova.waiting, what="events that the engine does not take in")
            own_postgresql.start()
            returned = time.monotonic()
            head = site.head()
            wait_until(lambda: site.head() > head, what="a commit after the outage")
            figure(f"{attempts} attempts in {away:.1f} s, first commit {time.monotonic() - returned:.1f} s after it")
        assert 1 <= attempts < away + _FIRST_ATTEMPTS
        engine.wait_for_log("The database has recovered")  # the commit comes before the line
        assert engine.workers == workers, "the worker did not recover, it was replaced"
        assert engine.logged("The database is unavailable") == 1
        assert engine.logged("The database has recovered") == 1
        site.drain(config, nova, engine=engine)
        site.check(cloud.reported())


def test_an_engine_that_is_started_before_its_database_waits_for_it(
    install: Callable[..., Installation], own_postgresql: Server
) -> None:
    site = install(own_postgresql.url, engine__enabled_sources="")
    site.upgrade()
    site.store.database.dispose()
    own_postgresql.stop()
    engine = site.engine(site.config())
    engine.wait_for_log("The database is unavailable")
    assert engine.running
    own_postgresql.start()
    engine.wait_until_leading()
    assert engine.logged("The database is unavailable") == 1


@pytest.mark.parametrize("server", ["watcher-sync-api", "gunicorn", "gunicorn --preload"])
def test_an_api_that_is_started_before_its_database_answers_503_and_then_serves(
    install: Callable[..., Installation], own_postgresql: Server, server: str
) -> None:
    port = free_port()
    site = install(own_postgresql.url, api__auth_strategy="noauth", api__port=port)
    site.upgrade()
    site.store.database.dispose()
    own_postgresql.stop()
    config = site.config()
    environment = site.environment | {FILES: str(config)}
    command = site.command("watcher-sync-api", config)
    if server != "watcher-sync-api":
        bound = ["--bind", f"127.0.0.1:{port}", "--workers", "1", "watcher_sync.wsgi.api:application"]
        command = [str(BIN / "gunicorn"), *server.split()[1:], "--config", "python:watcher_sync.wsgi.gunicorn", *bound]
    api = EngineProcess(command, site.folder / "api.log", environment)
    site.engines.append(api)

    def status(path: str) -> int:
        try:
            return requests.get(f"http://127.0.0.1:{port}{path}", timeout=deadline(30)).status_code
        except requests.RequestException:
            assert api.running, api.log
            return 0

    wait_until(lambda: status("/healthcheck") == 503, what="an answer without the database")
    assert status("/v1/instances") == 503
    workers = api.workers
    own_postgresql.start()
    wait_until(lambda: status("/healthcheck") == 200, what="an answer with the database")
    assert status("/v1/instances") == 200
    assert api.workers == workers
    assert (api.logged("The database is unavailable"), api.logged("The database has recovered")) == (1, 1)
    assert api.terminate()[0] == 0
