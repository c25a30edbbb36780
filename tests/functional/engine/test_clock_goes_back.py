# SPDX-License-Identifier: Apache-2.0
"""The clock of a machine goes an hour back under load, and later forward again. The database's clock stays right.

The machine runs two engines, the API and the outlet. Nova, DCM, a cluster and clients of the API write meanwhile, and
managers take leases. The simulators, the brokers and the API server have the right clock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.faults.storm.ingredients import ENGINE_SOURCES
from tests.faults.storm.plan import Settings
from tests.faults.storm.processes import Processes
from tests.faults.storm.readers import FeedReader, JournalWatch
from tests.faults.storm.run import SITE_OPTIONS, SUBJECTS, configure
from tests.faults.storm.verdict import Verdict, judge
from tests.faults.storm.writers import CLUSTER, Writers
from tests.faulty_proxy import FaultyProxy
from tests.functional.engine.clocks import MachineClock
from tests.functional.engine.driving import Installation, Line
from tests.functional.sources.jetstream import dcm_of
from tests.functional.webhooks.driving import BOX, Record, recording
from tests.functional.webhooks.subscribing import subscribe_all
from tests.services.servers import Server, free_port
from tests.waiting import deadline, wait_until
from watcher_sync.storage.groups.source_status import list_sources

pytestmark = [pytest.mark.rare, pytest.mark.timeout(900)]

HOUR = 3600
SETTINGS = Settings(seed=5, nova_rate=40, dcm_rate=15, kubernetes_rate=3)
LEASE_SECONDS = 3


class Machine:
    """The processes, what writes and reads, and what goes on."""

    def __init__(self, site: Installation, processes: Processes, writers: Writers, record: Record) -> None:
        self.site = site
        self.processes = processes
        self.writers = writers
        self.record = record
        self.watch, self.feed = JournalWatch(site), FeedReader(writers.api.url)
        self._client = httpx.Client(base_url=writers.api.url, timeout=deadline(30))

    def wait_for_progress(self) -> None:
        """Everything goes on: changes of each source, reading, webhooks, operations, reconciliation and status."""
        found = self.watch.wait_for_commits(ENGINE_SOURCES, 60)
        assert None not in found.values(), found
        before, synced = self._figures(), self._synced()
        wait_until(
            lambda: all(now > then for now, then in zip(self._figures().values(), before.values(), strict=True)),
            90, f"more than {before}",
        )  # fmt: skip
        wait_until(lambda: self._synced() != synced, 90, "a comparison with the cluster")
        assert self._client.get("/healthcheck").status_code == 200
        sources = self._client.get("/v1/sources").json()["sources"]
        shown = {each["source"]: (each["state"], each["fresh"]) for each in sources}
        assert {name: shown[name] for name in ENGINE_SOURCES} == dict.fromkeys(ENGINE_SOURCES, ("connected", True))

    def _synced(self) -> list[object]:
        return [row.last_full_sync_at for row in list_sources(self.site.store.database)]

    def _figures(self) -> dict[str, float]:
        return {
            "journal": self.site.head(), "feed": self.feed.since, "webhooks": self.record.total,
            "operations": self.writers.managers.completed, "rows": self.writers.rows.written,
        }  # fmt: skip

    def take_abandoned_lease(self, name: str) -> None:
        """An operation without a heartbeat ends after its lease time, and another manager gets the instance."""
        body = self.writers.cluster.functions[0].registration(CLUSTER) | {"name": name}
        del body["id"]
        answer = self._client.put(instance := f"/v1/vnf_instances/{name}", json=body)
        assert answer.status_code in (200, 201), answer.text
        path = f"{instance}/operations"
        first = self._client.post(path, json={"operation": "SCALE", "holder": "first"})
        assert first.status_code == 201, first.text
        assert self._client.post(path, json={"operation": "SCALE", "holder": "second"}).status_code == 409

        def begun() -> httpx.Response | None:
            answer = self._client.post(path, json={"operation": "SCALE", "holder": "second"})
            assert answer.status_code in (201, 409), answer.text
            return answer if answer.status_code == 201 else None

        second = wait_until(begun, 30 * LEASE_SECONDS, "the end of the abandoned lease").json()
        headers = {"Operation-Secret": second["secret"]}
        assert second["token"] > first.json()["token"]
        assert self._client.delete(f"{path}/{second['id']}", headers=headers).status_code in (204, 409)
        wait_until(lambda: self._client.delete(instance).status_code in (204, 404), what="the end of the instance")


def test_everything_goes_on_when_the_clock_goes_an_hour_back_and_forward_again(
    install: Callable[..., Installation],
    postgresql_url: str,
    own_nats: Server,
    line: Callable[[str], Line],
    tmp_path: Path,
    figure: Callable[[str], None],
) -> None:
    clock = MachineClock(tmp_path)
    nova = line("nova")
    site = install(postgresql_url)
    site.options |= SITE_OPTIONS | {
        "database.lease_time": 10, "operations.lease_time": LEASE_SECONDS, "reconcile.interval": 2,
        "reconcile.jitter": 0, "retention.interval": 1,
    }  # fmt: skip
    site.upgrade()
    with contextlib.ExitStack() as stack:
        dcm = stack.enter_context(dcm_of(own_nats.url))
        dcm.make_stream(subjects=SUBJECTS)
        record = stack.enter_context(recording())
        proxies = {
            "rabbitmq": FaultyProxy(urlsplit(nova.url).port or 5672), "nats": FaultyProxy(own_nats.port),
        }  # fmt: skip
        for proxy in proxies.values():
            stack.callback(proxy.cut)
        configure(site, nova, proxies)
        port = free_port()
        writers = Writers(SETTINGS, nova, dcm, f"http://127.0.0.1:{port}", site.folder / "kubeconfig")
        stack.callback(writers.close)
        site.environment |= clock.environment
        machine = Machine(site, Processes(site, None, port), writers, record)
        names = writers.register()
        sees = {"instance_kind": "vnf_instance", "project_id": None, "sees_admin_only": True}
        subscribe_all(site.store, [record.url] * len(names), names, box=BOX, **sees)
        for each in (machine.watch, machine.feed, writers):
            each.start()
        machine.wait_for_progress()
        leader, engines = machine.processes.leader().process, list(site.engines)
        for seconds in (-HOUR, 0):
            clock.set(seconds)
            machine.wait_for_progress()
            machine.take_abandoned_lease(f"abandoned-at{seconds}")
            leader.wait_for_log("Rows are deleted by age again" if seconds == 0 else "Nothing is deleted by age")
        assert machine.processes.leader().process is leader
        assert site.engines == engines
        assert all(engine.running for engine in engines)
        writers.stop()
        verdict = Verdict()
        judge(verdict, SETTINGS, site, writers, machine.processes, nova, machine.feed, machine.watch, record, quiet=180)
        for reader in (machine.feed, machine.watch):
            reader.stop()
    figure(f"{verdict.changes} changes, {verdict.feed_rows} rows of the feed, {verdict.webhooks} webhooks")
    assert verdict.failures == []
    for engine in engines:
        assert not engine.logged("Traceback")
    assert leader.logged("Leading the engine group") == 1
    assert leader.logged("Nothing is deleted by age") == 1
    assert leader.logged("Rows are deleted by age again") == 1
