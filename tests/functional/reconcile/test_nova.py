# SPDX-License-Identifier: Apache-2.0
"""An engine on an empty database beside a cloud that exists already."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.functional.engine.driving import Installation
from tests.nova_sites import NovaSite, truth
from tests.services.servers import free_port
from tests.simulated import SIMULATED
from tests.waiting import deadline, wait_until
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.model.kinds import kind_of
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.openstack import FakeOpenStack, Inventory, server_error
from watcher_sync.testing.openstack.population import populate
from watcher_sync.testing.openstack.simulated import inventory_of
from watcher_sync.wire.envelopes import read_document

_HOSTS, _SERVERS = 200, 4_000
_UNTOLD = [
    "last_heard", "liveness", "liveness_reason", "liveness_since", "compute_node.state", "instance.updated_at",
    "instance.fault_type",
    *(f"compute_node.{n}" for n, field in kind_of(ComputeNode).fields.items() if field.facet == "capacity"),
]  # fmt: skip


def readyz(port: int) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=deadline(60)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer)
    except OSError:
        return 0, {}


def test_an_engine_is_ready_only_after_the_first_complete_run_and_at_once_after_a_restart(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    port = free_port()
    inventory = Inventory()
    populate(inventory, hosts=_HOSTS, servers=_SERVERS)
    with FakeOpenStack(inventory) as cloud:
        account = {f"reconcile_nova__{name}": value for name, value in cloud.options().items()}
        site = install(
            sqlite_url, reconcile_nova__enabled="true", reconcile_nova__interval=3600, reconcile__jitter=0,
            reconcile_nova__region_name="RegionOne", monitoring__port=port, **account,
        )  # fmt: skip
        site.upgrade()
        cloud.fail(server_error(503), path="/servers/detail", count=None, after=1)
        engine = site.engine(site.config())
        engine.wait_for_log("The reconciliation of nova/nova is incomplete: servers", 120)
        status, body = readyz(port)
        assert status == 503
        assert body["checks"]["inventory"]["detail"].startswith("inventory incomplete of nova")
        engine.terminate()

        cloud.heal()
        engine = site.engine(site.config())
        wait_until(lambda: readyz(port)[0] == 200, what="an engine that is ready", seconds=120)
        model = site.store.load().snapshot()
        assert (model.count("compute_node"), model.count("instance")) == (_HOSTS, _SERVERS)
        expected = truth(cloud)
        assert {one.id: (one.host, one.state, one.name, one.flavor_id) for one in model.all("instance")} == {
            i: (row["host"], row["state"], row["name"], row["flavor_id"]) for i, row in expected.items()
        }
        first = read_inventory(site.store.database, "nova")
        assert first is not None
        assert first.complete_since is not None
        engine.terminate()

    engine = site.engine(site.config())  # the cloud is away
    wait_until(lambda: readyz(port)[0] == 200, what="an engine that is ready with a complete inventory")
    engine.terminate()


def test_an_outage_at_the_start_delays_readiness_and_capacity_by_seconds(
    install: Callable[..., Installation], sqlite_url: str
) -> None:
    """Placement is listed before Nova has a host, and each interval is an hour."""
    port = free_port()
    inventory = Inventory()
    populate(inventory, hosts=_HOSTS, servers=_SERVERS)
    with FakeOpenStack(inventory) as cloud:
        account = {f"reconcile_nova__{name}": value for name, value in cloud.options().items()}
        site = install(
            sqlite_url, reconcile_nova__enabled="true", reconcile_nova__interval=3600, reconcile__jitter=0,
            reconcile_nova__region_name="RegionOne", monitoring__port=port, reconcile_capacity__interval=3600,
            reconcile_capacity__providers="placement", **account,
        )  # fmt: skip
        site.upgrade()
        cloud.compute.stop()
        engine = site.engine(site.config())
        engine.wait_for_log("The reconciliation of capacity/placement is incomplete: hosts: ", 120)
        engine.wait_for_log("The reconciliation of nova/nova fails: ", 120)
        cloud.compute.start()
        wait_until(lambda: readyz(port)[0] == 200, what="an engine that is ready", seconds=120)
        engine.wait_for_log("The reconciliation of capacity/placement is complete again", 120)
        model = site.store.load().snapshot()
        assert model.count("instance") == _SERVERS
        assert all(one.vcpus for one in model.all("compute_node"))
        assert engine.logged("The reconciliation of nova/nova fails: ") == 1
        engine.terminate()


def test_lost_events_are_healed_by_one_run_and_each_correction_is_a_drift(tmp_path: Path) -> None:
    simulator = CloudSimulator(seed=11, hosts=20, instances=150, undeclared=0.0, starts=False)
    documents = [*simulator.populate(), *simulator.history(1_500)]
    events = [read_document(d, source="nova", number=i) for i, d in enumerate(documents)]
    with FakeOpenStack(inventory_of(simulator)) as cloud:
        site = NovaSite(tmp_path, cloud)
        try:
            cycle = CommitCycle(site.store, site.store.load(), site.dispatcher, CommitOptions(doubts=site.doubts))
            kept = [event for i, event in enumerate(events) if i % 20]
            for first in range(0, len(kept), 500):
                cycle.run(Batch(events=kept[first : first + 500]))
            before = {(d.kind, d.entity_id) for d in compare(simulator.truth(), site.model, ignored=_UNTOLD)}
            report = site.reconcile()
            assert report.complete
            wrong = list(compare(simulator.truth(), site.model, ignored=_UNTOLD))
            # Nova saves the state deleted before it deletes the row and publishes the end.
            ending = {one.id for one in cloud.inventory.servers.values() if one.state == "deleted"}
            assert [str(d) for d in wrong if d.field != "availability_zone" and d.entity_id not in ending] == []
            drifts = {(d.kind, d.entity_id) for d in site.drifts()}
            assert {key for key in before if key[0] in SIMULATED} <= drifts
            assert all(d.since is not None for d in site.drifts())
        finally:
            site.close()
