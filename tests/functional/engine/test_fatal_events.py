# SPDX-License-Identifier: Apache-2.0
"""Events whose handler raises what ends a thread, or ends the process: each is in quarantine, and the rest goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.functional.conftest import Broker
from tests.functional.engine import fatal_plugin
from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.engine.fatal_plugin import ENDS, EXCEPTIONS, cloud_event, notification
from tests.functional.engine.rabbitmq_streams import StreamLine
from tests.functional.executables import BIN
from tests.functional.sources.jetstream import dcm_of
from tests.services.servers import Server, free_port
from tests.waiting import deadline, wait_until
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import pod

_SECONDS = 240
_HOW = ["SIGSEGV", *(pytest.param(how, marks=pytest.mark.rare) for how in ENDS if how != "SIGSEGV")]


@pytest.fixture
def site(install: Callable[..., Installation], sqlite_url: str, tmp_path: Path) -> Installation:
    site = install(sqlite_url, database__lease_time=1, monitoring__port=free_port())
    site.environment |= fatal_plugin.install(tmp_path / "plugin")
    site.upgrade()
    return site


def nodes(site: Installation) -> set[str]:
    return {entity.id for entity in site.store.load().snapshot().all("compute_node")}


def quarantined(site: Installation) -> list[dict[str, Any]]:
    return [json.loads(line) for line in site.manage("quarantine", "list", "-f", "json").splitlines()]


def history(*hows: str) -> list[tuple[str, str]]:
    """(id, way) of events: good ones before, between and behind those that fail."""
    found = [(f"good-{i}-{j}", "good") for i in range(len(hows) + 1) for j in range(5)]
    for i, how in reversed(list(enumerate(hows))):
        found.insert(5 * (i + 1), (f"bad-{how}", how))
    return found


def ready(site: Installation) -> tuple[int, dict[str, Any]]:
    """The status of ``/readyz`` and its checks; 0: nothing answers."""
    try:
        answer = requests.get(f"http://127.0.0.1:{site.options['monitoring.port']}/readyz", timeout=deadline(10))
    except requests.RequestException:
        return 0, {}
    return answer.status_code, answer.json()["checks"]


def wait_for_all(site: Installation, events: Sequence[tuple[str, str]], engine: EngineProcess) -> None:
    """All good events are applied, and exactly the others are in quarantine."""
    good = {name for name, how in events if how == "good"}
    try:
        wait_until(lambda: nodes(site) == good, _SECONDS, "the good events")
    except AssertionError:
        print(engine.log[-8000:])
        raise
    bad = sorted(how for _, how in events if how != "good")
    wait_until(lambda: Quarantine(site.store).count() == len(bad))
    found = {entry["event_type"].partition(".")[2]: entry for entry in quarantined(site)}
    assert sorted(found) == bad
    for how, entry in found.items():
        if how in EXCEPTIONS:
            assert entry["reason"].startswith(f"the handler fatal.handle failed: {how}"), entry
            assert how in Quarantine(site.store).show(entry["id"])["detail"]
        else:
            assert entry["reason"] == "ends of the engine's process with this event alone in hand: 3"


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=deadline(10)).status_code == 200
    except requests.RequestException:
        return False


def check_ends(engine: EngineProcess, how: str, name: str) -> int:
    """Each end is in the log, with its signal or status and what was in hand; the traceback of a signal is, too.

    :returns: how many ends there were: three with the event alone, and one before them if it came with others.
    """
    ended = "exited with status 3" if how == "exit" else f"was ended by {how}"
    lines = [line for line in engine.log.splitlines() if " ERROR " in line and ended in line]
    assert len(lines) in (3, 4), engine.log[-4000:]
    assert all(name in line and " more" not in line for line in lines[-3:]), lines
    if how in ("SIGSEGV", "SIGABRT"):
        assert "Fatal Python error" in engine.log
        assert "in handle" in engine.log or "in fail" in engine.log
    return len(lines)


def test_whatever_a_handler_raises_is_its_events_quarantine(site: Installation, line: Callable[[str], Line]) -> None:
    nova = line("fatal")
    site.options |= {"engine.enabled_sources": "nova", **nova.source("nova")}
    events = history(*EXCEPTIONS)
    nova.publish(notification(*event) for event in events)
    engine = site.engine(site.config())
    wait_for_all(site, events, engine)
    assert "Worker process" not in engine.log
    assert engine.terminate()[0] == 0


@pytest.mark.parametrize("how", _HOW)
def test_a_message_that_ends_the_process_is_quarantined_and_its_neighbours_are_applied(
    site: Installation, line: Callable[[str], Line], how: str
) -> None:
    nova = line("fatal")
    site.options |= {"engine.enabled_sources": "nova", **nova.source("nova")}
    events = history(how)
    nova.publish(notification(*event) for event in events)
    engine = site.engine(site.config())
    wait_for_all(site, events, engine)
    ends = check_ends(engine, how, f"bad-{how}")
    wait_until(lambda: ready(site)[0] == 200)
    metrics = requests.get(f"http://127.0.0.1:{site.options['monitoring.port']}/metrics", timeout=deadline(10)).text
    assert f"watcher_sync_unclean_ends_total {ends}.0" in metrics
    assert "watcher_sync_suspect_events 0.0" in metrics
    assert engine.terminate()[0] == 0


@pytest.mark.parametrize("worker_class", ["gthread", "sync"])
def test_whatever_a_handler_raises_ends_no_worker_of_gunicorn_and_not_its_master(
    site: Installation, worker_class: str
) -> None:
    port = free_port()
    options = ("--bind", f"127.0.0.1:{port}", "--workers", "1", "--worker-class", worker_class)
    command = [BIN / "gunicorn", "--config", "python:watcher_sync.wsgi.gunicorn", *options]
    config = site.config(api__auth_strategy="noauth")
    environment = site.environment | {"OS_WATCHER_SYNC_CONFIG_FILES": str(config)}
    command.append("watcher_sync.wsgi.api:application")
    process = EngineProcess([str(word) for word in command], site.folder / "gunicorn.log", environment)
    site.engines.append(process)
    url = f"http://127.0.0.1:{port}/v1/events"
    wait_until(lambda: _answers(url), what="the API")
    workers = process.workers
    for name, how in history(*EXCEPTIONS):
        body, headers = cloud_event(name, how), {"Content-Type": "application/cloudevents+json"}
        answer = requests.post(url, data=body, headers=headers, timeout=deadline(30))
        assert answer.status_code < 300, answer.text
    wait_for_all(site, history(*EXCEPTIONS), process)
    assert process.workers == workers
    assert process.terminate()[0] == 0


def test_whatever_a_handler_raises_does_not_end_a_replay_and_sigint_does(site: Installation) -> None:
    recording = site.folder / "recording.jsonl"
    recording.write_bytes(b"\n".join(cloud_event(*event) for event in history(*EXCEPTIONS)) + b"\n")
    counts = json.loads(site.manage("replay", "-f", "json", recording))
    assert (counts["read"], counts["quarantined"]) == (len(history(*EXCEPTIONS)), len(EXCEPTIONS))

    recording.write_bytes(cloud_event("held", "wait") + b"\n")
    command = [*site.command("watcher-sync-manage", site.config()), "replay", str(recording)]
    process = EngineProcess(command, site.folder / "replay.log", site.environment)
    site.engines.append(process)
    waiting = Path(site.environment["PYTHONPATH"], "waiting")
    wait_until(waiting.exists, what="the handler that does not return")
    process.signal(signal.SIGINT)
    assert process.wait() == 130, process.log
    assert len(quarantined(site)) == len(EXCEPTIONS)


def test_a_jetstream_message_that_ends_the_process_is_quarantined_and_others_are_applied(
    site: Installation, own_nats: Server
) -> None:
    site.options |= {
        "engine.enabled_sources": "dcm", "source_dcm.driver": "nats_jetstream", "source_dcm.servers": own_nats.url,
        "source_dcm.ack_wait": 2,
    }  # fmt: skip
    events = history("SystemExit", "SIGABRT")
    with dcm_of(own_nats.url) as dcm:
        dcm.make_stream()
        dcm.publish(*(cloud_event(*event) for event in events))
        engine = site.engine(site.config())
        wait_for_all(site, events, engine)
        wait_until(dcm.settled)
    check_ends(engine, "SIGABRT", "bad-SIGABRT")
    assert engine.terminate()[0] == 0


def test_a_stream_message_that_ends_the_process_is_quarantined_and_its_neighbours_are_applied(
    site: Installation, broker: Broker
) -> None:
    line = StreamLine(broker.name("fatal"), broker.url, site)
    line.declare()
    site.options |= {"engine.enabled_sources": "nova", **line.source("nova")}
    events = history("KeyboardInterrupt", "exit")
    line.publish(notification(*event) for event in events)
    engine = site.engine(site.config())
    wait_for_all(site, events, engine)
    check_ends(engine, "exit", "bad-exit")
    assert engine.terminate()[0] == 0
    line.close()


def test_a_pod_that_ends_the_process_is_quarantined_over_restarts_until_the_plugin_is_repaired(
    site: Installation, tmp_path: Path
) -> None:
    with KubernetesServer() as server:
        for name in ("a", "fatal-sigsegv", "z"):
            server.create(pod(name))
        site.options |= {
            "engine.enabled_sources": "edge", "source_edge.driver": "kubernetes", "source_edge.backoff_max": 1,
            "source_edge.kubeconfig": server.kubeconfig(tmp_path / "edge"), "reconcile.enabled": False,
        }  # fmt: skip
        engine = site.engine(site.config())
        names = lambda: {entity.name for entity in site.store.load().snapshot().all("pod")}  # noqa: E731
        wait_until(lambda: names() == {"a", "z"}, _SECONDS, "the good pods")
        wait_until(lambda: Quarantine(site.store).count() == 1)
        check_ends(engine, "SIGSEGV", "kubernetes.pod.added")
        assert engine.terminate()[0] == 0

        engine = site.engine(site.config())
        engine.wait_until_leading()
        server.create(pod("later"))
        wait_until(lambda: names() == {"a", "later", "z"}, what="the pod behind")
        assert "Worker process" not in engine.log
        assert engine.terminate()[0] == 0
        assert len(quarantined(site)) == 1

        fatal_plugin.repair(tmp_path / "plugin")
        engine = site.engine(site.config())
        wait_until(lambda: names() == {"a", "fatal-sigsegv", "later", "z"}, what="the pod that was refused")
        assert "refused events are retried: 1" in engine.log
        assert "Worker process" not in engine.log
        assert engine.terminate()[0] == 0
