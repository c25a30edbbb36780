# SPDX-License-Identifier: Apache-2.0
"""An engine that may open no further file, such as a connection."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.faulty_proxy import FaultyProxy
from tests.functional.engine.descriptors import first_connection, may_open, on_a_processor
from tests.functional.engine.driving import Installation, Line
from tests.functional.engine.test_monitoring import ask
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

_EVENTS = 300
_MOST_LINES = 40
"""Of the log, in a test: an outage is a line each of the sources, of the lease, of the engine's row, and so on."""
_MOST_OF_A_PROCESSOR = 0.5
_BROKER_PORT = 5672


@pytest.mark.parametrize(
    ("database", "spare", "seconds"),
    [
        ("postgresql", 0, 2.0),
        *(
            pytest.param(database, spare, 20.0, marks=pytest.mark.rare)
            for database in ("postgresql", "mariadb", "sqlite")
            for spare in (0, 1, 2, 4)
        ),
    ],
)
def test_an_engine_without_descriptors_goes_on_names_the_cause_and_loses_nothing(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    request: pytest.FixtureRequest,
    figure: Callable[[str], None],
    database: str,
    spare: int,
    seconds: float,
) -> None:
    url, port, nova = sa.make_url(request.getfixturevalue(f"{database}_url")), free_port(), line("nova")
    with FaultyProxy(_BROKER_PORT) as broker, FaultyProxy(url.port or _BROKER_PORT) as server:
        site = install(url.render_as_string(hide_password=False), engine__enabled_sources="nova")
        site.upgrade()
        site.options |= {**nova.source("nova"), "monitoring.port": port, "monitoring.status_interval": 0.3}
        site.options["source_nova.transport_url"] = nova.url.replace(f":{_BROKER_PORT}", f":{broker.port}")
        if url.port:
            through = url.set(port=server.port).render_as_string(hide_password=False)
            site.options["database.connection"] = through
        config = site.config()
        cloud = CloudSimulator(seed=24, hosts=10, instances=50)
        events = cloud.events()
        engine = site.engine(config)
        wait_until(lambda: ask(port, "/readyz")[0] == 200, what="ready")
        nova.publish([next(events) for _ in range(_EVENTS)])
        wait_until(lambda: site.head() and not nova.waiting(), what="the first events")
        (worker,) = engine.workers
        with on_a_processor(worker, _MOST_OF_A_PROCESSOR), may_open(worker, first_connection(worker) + spare):
            for proxy in (broker, server):
                proxy.reset()
            nova.publish([next(events) for _ in range(_EVENTS)])
            began = time.monotonic()
            with socket.create_connection(("127.0.0.1", port), deadline(60)) as probe:
                probe.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
                if not spare:
                    engine.wait_for_log("source nova: disconnected: cannot connect: 127.0.0.1:")
                    engine.wait_for_log("cannot open files: Too many open files")
                    engine.wait_for_log("Cannot accept connections on 127.0.0.1")
                    assert nova.waiting() >= _EVENTS
                wait_until(lambda: time.monotonic() - began >= seconds, seconds + 10)
        recovered = time.monotonic()
        wait_until(lambda: ask(port, "/readyz")[0] == 200, what="ready again")
        figure(f"ready {time.monotonic() - recovered:.1f} s after the limit was raised")
        assert engine.workers == [worker], "the worker did not recover, it was replaced"
        assert engine.logged("") < _MOST_LINES, engine.log
        assert not engine.logged("Traceback"), engine.log
        nova.publish([next(events) for _ in range(_EVENTS)])
        site.drain(config, nova, engine=engine)
        site.check(cloud.reported())


def test_a_limit_that_is_too_low_for_a_start_is_one_line_and_an_exit_status(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    site = install(sqlite_url)
    site.upgrade()
    limited = ["/bin/sh", "-c", 'ulimit -n 20; exec "$@"', "sh"]
    command = [*limited, *site.command("watcher-sync-engine", site.config())]
    done = subprocess.run(command, capture_output=True, text=True, env=site.environment, timeout=deadline(60))
    assert done.returncode == 2
    assert "error: the limit of open files is 20, and 64 is the least" in done.stderr
