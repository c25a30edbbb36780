# SPDX-License-Identifier: Apache-2.0
"""What an operator's tools ask of a running engine: its port, the rules and the dashboard, the report."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functional.conftest import Broker
from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.reconcile.installed import Installed
from tests.services.ensure import url_of
from tests.services.servers import free_port
from tests.unit.engine.asking import figures
from tests.waiting import deadline, wait_until
from watcher_sync.storage.groups.source_status import list_sources
from watcher_sync.testing.nova.cloud import CloudSimulator

ETC = Path(__file__).parents[3] / "etc" / "watcher-sync"

Watched = tuple[Installation, EngineProcess, int]


def ask(port: int, path: str) -> tuple[int, str]:
    """Returns the HTTP status and the body; the status is 0 while the server does not answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=deadline(60))
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """An engine with a reconciler that has worked off some events, where eventlet cannot be imported, and its port."""
    folder = tmp_path_factory.mktemp("watched")
    broker = Broker(url_of("rabbitmq"))
    options = {"engine.enabled_sources": "nova", "monitoring.status_interval": 0.2}
    with Installation(folder, f"sqlite:///{folder / 'watched.sqlite'}", options) as site:
        yield from _watched(site, Line(broker.name("nova"), broker.url))
    broker.clean_up()


def _watched(site: Installation, nova: Line) -> Iterator[Watched]:
    blocked = site.folder / "blocked"
    plugin = Installed(blocked)
    (blocked / "eventlet.py").write_text("raise ImportError('eventlet is blocked')\n")
    port = free_port()
    site.options |= nova.source("nova") | {"monitoring.port": port}
    site.environment["PYTHONPATH"] = str(blocked)
    site.upgrade()
    nova.publish([*CloudSimulator(seed=91, hosts=5, instances=20).history(200), b"not even JSON"])
    engine = site.engine(site.config())
    wait_until(lambda: ask(port, "/readyz")[0] == 200, what="ready")
    wait_until(lambda: nova.waiting() == 0 and shown(port)["watcher_sync_events_total"].get(QUARANTINED) == 1)
    wait_until(lambda: shown(port)["watcher_sync_reconcile_last_success_timestamp_seconds"], what="a reconciliation")
    wait_until(lambda: plugin.runs("hanging"), what="the one that hangs")
    yield site, engine, port
    status, _ = engine.terminate()
    assert status == 0, engine.log[-4000:]
    nova.close()


QUARANTINED = (("outcome", "quarantined"), ("source", "nova"))


def shown(port: int) -> dict[str, Any]:
    status, text = wait_until(lambda: (answer := ask(port, "/metrics"))[0] and answer)
    assert status == 200
    return figures(text)


def test_the_port_the_table_and_the_metrics_tell_of_the_same_engine(watched: Watched) -> None:
    site, engine, port = watched
    assert json.loads(ask(port, "/readyz")[1])["checks"]["sources"] == {"nova": {"ok": True}}
    wait_until(lambda: [row.state for row in list_sources(site.store.database)] == ["connected"])
    wait_until(lambda: [row.last_event_at is not None for row in list_sources(site.store.database)] == [True])
    assert [row.pid for row in list_sources(site.store.database)] == engine.workers
    # The engine may write between the two, such as that a host is silent.
    wait_until(lambda: shown(port)["watcher_sync_journal_seq"] == {(): float(site.head())}, what="one seq in both")
    found = shown(port)
    assert sum(found["watcher_sync_events_total"].values()) >= 201
    instances = site.store.load().snapshot().count("instance")
    assert found["watcher_sync_entities"][(("kind", "instance"),)] == instances > 0
    # The worker answers, not the master.
    text = ask(port, "/metrics")[1]
    assert "process_resident_memory_bytes" in text


def test_every_metric_of_the_rules_and_of_the_dashboard_is_one_of_a_running_engine(watched: Watched) -> None:
    _, _, port = watched
    rules = yaml.safe_load((ETC / "prometheus-alerts.yaml").read_text())
    dashboard = json.loads((ETC / "grafana-dashboard.json").read_text())
    used = {word for e in expressions(rules, dashboard) for word in re.findall(r"\b(?:watcher_sync|process)_\w+", e)}
    used = {word for word in used if not word.startswith("watcher_sync_watch_")}  # of the outlet
    assert len(used) > 20
    found = shown(port)
    assert used - found.keys() == set()
    # And the other way round: what is measured is shown or watched.
    ours = {name for name in found if name.startswith("watcher_sync_")}
    families = {re.sub(r"_(total|bucket|count|sum|created)$", "", name) for name in ours}
    assert families - {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in used} == set()


def test_sigusr2_has_the_worker_report_and_the_engine_goes_on(watched: Watched) -> None:
    _, engine, port = watched
    workers = engine.workers
    engine.signal(signal.SIGUSR2)
    engine.wait_for_log("Guru Meditation")
    engine.wait_for_log("Configuration")
    wait_until(lambda: "connection = ***" in engine.log, what="the end of the report")
    log = engine.log
    for title in ("Package", "Sources", "Model", "Leases", "Reconciliation", "Threads", "Processes"):
        assert re.search(rf"^====\s+{title}\s+====$", log, re.M), title
    assert re.search(r"^nova = \n(  .*\n)*  state = connected since ", log, re.M)
    assert "lease engine:default = " in log
    assert re.search(r"^standin/hanging = \n(  .*\n)*  running = True", log, re.M)
    assert "sqlite:///" not in log
    assert "guest:guest" not in log
    assert (engine.workers, ask(port, "/healthz")[0]) == (workers, 200)
    engine_worker = workers[0]
    assert f"/{engine_worker}/" in log


def test_a_port_that_is_taken_is_said_at_the_start(install: Callable[..., Installation], sqlite_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        site = install(sqlite_url, monitoring__port=server.getsockname()[1])
        site.upgrade()
        done = site.run("watcher-sync-engine")
    assert done.returncode == 2
    assert "error: [monitoring] host, port: cannot listen on 127.0.0.1 port" in done.stderr


def expressions(rules: dict[str, Any], dashboard: dict[str, Any]) -> list[str]:
    alerts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    targets = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", ())]
    variables = [v["definition"] for v in dashboard["templating"]["list"] if "definition" in v]
    assert alerts
    assert targets
    return alerts + targets + variables
