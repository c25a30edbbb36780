# SPDX-License-Identifier: Apache-2.0
"""A database whose disk becomes full under an engine, an API and an outlet, and has space again."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.engine.small_disks import Disk, SmallPostgreSQL, small_disk, small_postgresql
from tests.functional.engine.test_monitoring import ask
from tests.functional.security.serving import documented_api
from tests.functional.webhooks.driving import BOX, OPTIONS, check, outlet, recording
from tests.functional.webhooks.subscribing import Instances, subscribe_all
from tests.services.servers import free_port
from tests.waiting import wait_until
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.testing.nova.cloud import CloudSimulator

_EVENTS = 3000
_MOST_LINES = 25
"""Of the engine's log, with the start."""
_MOST_WRITES = 3000
PATH = "/v1/service_type_instances"


@contextlib.contextmanager
def _database(kind: str, folder: Path) -> Iterator[tuple[str, Disk, SmallPostgreSQL | None]]:
    """The URL of an empty database, its disk, and its server."""
    if kind == "sqlite":
        with small_disk(folder / "small", 64) as disk:
            yield f"sqlite:///{disk.folder / 'watcher-sync.sqlite'}", disk, None
    else:
        with small_postgresql(small_log=kind == "log") as (server, disk):
            yield server.url, disk, server


def _write(client: httpx.Client, numbers: Iterator[int], answers: dict[str, int]) -> int:
    """Write one more entity; the status of the answer."""
    name = f"written-{next(numbers)}"
    body = {"service_type": "vm", "instance_name": "x" * 200 + name}
    answers[name] = client.put(f"{PATH}/{name}", json=body).status_code
    return answers[name]


def _problems(log: str) -> list[str]:
    return [line for line in log.splitlines() if " WARNING " in line or " ERROR " in line]


@pytest.mark.parametrize("kind", ["tables", pytest.param("log", marks=pytest.mark.rare), "sqlite"])
def test_a_full_disk_of_the_database_stops_writes_until_it_has_space_and_loses_nothing(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    figure: Callable[[str], None],
    tmp_path: Path,
    kind: str,
) -> None:
    with contextlib.ExitStack() as stack:
        url, disk, server = stack.enter_context(_database(kind, tmp_path))
        nova, port = line("nova"), free_port()
        site = install(url, engine__enabled_sources="nova", monitoring__port=port, api__auth_strategy="noauth")
        site.options |= {**nova.source("nova"), "api.write_rate": 0}
        if kind == "sqlite":
            site.options["DEFAULT.state_path"] = disk.folder
        site.upgrade()
        config = site.config()
        stack.callback(site.store.database.dispose)
        cloud = CloudSimulator(seed=53, hosts=10, instances=50)
        events = cloud.events()
        engine = site.engine(config)
        stack.callback(engine.kill)
        client = stack.enter_context(documented_api(config, "--workers", "1"))
        wait_until(lambda: ask(port, "/readyz")[0] == 200, what="ready")
        nova.publish([next(events) for _ in range(100)])
        wait_until(lambda: site.head() and not nova.waiting(), what="the first events")
        answers: dict[str, int] = {}
        numbers = itertools.count()
        assert _write(client, numbers, answers) == 201
        site.store.database.dispose()

        disk.fill()
        nova.publish([next(events) for _ in range(_EVENTS)])
        cause = _cause(engine, port)
        wait_until(lambda: _write(client, numbers, answers) != 201 or len(answers) > _MOST_WRITES, what="a refusal")
        reads = client.get(PATH).status_code
        figure(f"{cause}; {len(answers)} writes until a refusal; a read was answered with {reads}")
        assert reads == 200 or (kind == "log" and reads == 503)
        assert set(answers.values()) == {201, 503}
        assert engine.running

        disk.free()
        if server is not None and kind == "log":
            assert "PANIC" in server.log.read_text(errors="replace")
            server.kill()  # it may be in its own recovery, or have given up
            server.start()
        wait_until(lambda: ask(port, "/readyz")[0] == 200, what="ready again")
        wait_until(lambda: _write(client, numbers, answers) == 201, what="a write")
        with_answer = {name for name, status in answers.items() if status == 201}
        found = {entity["id"] for entity in _pages(client)}
        assert found & answers.keys() == with_answer
        site.drain(config, nova, engine=engine)
        site.check_journal()
        site.check_tables({k: v for k, v in cloud.reported().items() if k != "service_type_instance"})
        assert len(_problems(engine.log)) < _MOST_LINES, engine.log
        for log in (engine.log, config.with_name("api.log").read_text()):
            assert "Traceback" not in log, log


def _cause(engine: EngineProcess, port: int) -> str:
    """Why the engine is not ready, which its log has, too."""
    status, text = wait_until(lambda: (answer := ask(port, "/readyz"))[0] == 503 and answer, what="not ready")
    assert status == 503
    cause = json.loads(text)["checks"]["database"]["detail"].partition("the database is unavailable: ")[2]
    engine.wait_for_log("The database is unavailable, retrying; no event is acknowledged until it recovers")
    return str(cause)


def _pages(client: httpx.Client) -> Iterator[dict[str, str]]:
    url = PATH
    while url:
        page = client.get(url).json()
        yield from page["service_type_instances"]
        url = page["next"]


@pytest.mark.rare
def test_webhooks_go_on_after_the_disk_of_the_database_was_full(install: Callable[..., Installation]) -> None:
    count = 40
    with small_postgresql(small_log=False) as (server, disk):
        site = install(server.url)
        site.options |= OPTIONS
        site.upgrade()
        with recording() as record:
            instances = Instances(site.store)
            instances.write(range(count))
            subscribe_all(site.store, [record.url] * count, box=BOX)
            process = outlet(site, site.config())
            process.wait_for_log("subscriptions")
            instances.write(range(count))
            wait_until(lambda: not record.lacks(instances.committed), what="the first changes")
            disk.fill()
            with pytest.raises(DatabaseUnavailable, match="No space left on device"):
                for _ in range(_MOST_WRITES):
                    instances.write(range(count))
            disk.free()
            instances.write(range(count))
            wait_until(lambda: not record.lacks(instances.committed), what="all changes")
            check(record, instances, range(count))
            assert process.running
            assert "Traceback" not in process.log, process.log
        site.store.database.dispose()
        process.kill()
