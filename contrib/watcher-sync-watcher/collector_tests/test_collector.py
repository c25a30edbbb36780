# SPDX-License-Identifier: Apache-2.0
"""A real Watcher with the collector of this distribution, against the real API over HTTP."""

from __future__ import annotations

import threading

import auditing
import pytest
from auditing import model_of
from keystoneauth1 import session, token_endpoint
from oslo_config import cfg
from served import host_uuid, server_uuid
from watcher.common import exception
from watcher.decision_engine.loading import default
from watcher_sync_watcher.collector import WatcherSyncCollector

PATH = "/v1/compute_model"


@pytest.fixture
def collector(watcher):
    """The one that strategies get."""
    return auditing.collector("compute")


def hosts_of(model):
    return sorted(node.hostname for node in model.get_all_compute_nodes().values())


def test_after_loading_the_collector_strategies_get_it_under_the_name_compute(collector):
    assert isinstance(collector, WatcherSyncCollector)
    assert collector is default.ClusterDataModelCollectorLoader().load("watcher_sync", osc=None)
    assert collector.notification_endpoints == []


def test_the_other_collectors_of_watcher_are_still_found(collector):
    assert {"compute", "baremetal", "storage", "watcher_sync", "watcher_sync_storage", "watcher_sync_baremetal"} == set(
        default.ClusterDataModelCollectorLoader().list_available()
    )


def test_the_model_has_every_attribute_of_hosts(collector):
    node = model_of(collector).get_node_by_name("host-2")
    assert {name: getattr(node, name) for name in node.fields} == {
        "uuid": host_uuid(2), "hostname": "host-2", "status": "disabled", "disabled_reason": "fan", "state": "up",
        "vcpus": 16, "vcpu_reserved": 2, "vcpu_ratio": 4.0, "memory": 65536, "memory_mb_reserved": 512,
        "memory_ratio": 1.5, "disk": 500, "disk_gb_reserved": 10, "disk_ratio": 1.0,
    }  # fmt: skip


def test_the_model_has_every_attribute_of_servers(collector):
    model = model_of(collector)
    instance = model.get_instance_by_uuid(server_uuid(5))
    values = {name: getattr(instance, name) for name in instance.fields}
    assert values.pop("created").isoformat() == "2026-01-01T12:00:00+00:00"
    assert values == {
        "uuid": server_uuid(5), "name": "server-5", "state": "active", "vcpus": 2, "memory": 2048, "disk": 10,
        "metadata": {"optimize": "true"}, "project_id": f"{2:032x}", "locked": True, "host": "host-1",
        "hypervisor_hostname": "host-1.example.com", "watcher_exclude": False, "pinned_az": "",
        "flavor_extra_specs": {},
    }  # fmt: skip
    assert model.get_node_by_instance_uuid(server_uuid(5)).hostname == "host-1"
    assert len(model.get_all_instances()) == 12


def test_extended_attributes_are_there_when_watcher_wants_them(collector):
    cfg.CONF.set_override("enable_extended_attributes", True, group="compute_model")
    model = model_of(collector)
    pinned, free = (model.get_instance_by_uuid(server_uuid(n)) for n in (1, 2))
    assert (pinned.pinned_az, pinned.flavor_extra_specs) == ("az1", {"hw:numa_nodes": "1"})
    assert free.pinned_az == ""


def test_each_audit_costs_one_request_and_gets_the_present_state(collector, site):
    site.requests.clear()
    assert model_of(collector).get_node_by_instance_uuid(server_uuid(0)).hostname == "host-0"
    assert site.requests == [PATH]
    site.commit(site.server(0, "host-1"))
    assert model_of(collector).get_node_by_instance_uuid(server_uuid(0)).hostname == "host-1"
    assert site.requests == [PATH, PATH]


def test_an_unchanged_model_is_built_again_without_being_sent(collector, site):
    first = model_of(collector)
    first.remove_instance(first.get_instance_by_uuid(server_uuid(0)))
    second = model_of(collector)
    assert len(second.get_all_instances()) == 12


def test_what_watcher_cannot_express_is_left_out(collector, site):
    site.commit(
        site.host(4, vcpus=None),
        site.server(20, "host-4"),
        site.server(21, None, state="building"),
        site.server(22, "host-0", state="soft-deleted"),
        site.server(23, "host-0", vcpus=None),
        site.host(5, hypervisor_type="ironic"),
        site.host(6, uuid=None),
    )  # fmt: skip
    model = model_of(collector)
    assert hosts_of(model) == ["host-0", "host-1", "host-2", "host-3"]
    assert len(model.get_all_instances()) == 12


def test_a_host_of_unknown_state_is_down(collector, site):
    site.commit(site.host(0, liveness=None))
    assert model_of(collector).get_node_by_name("host-0").state == "down"


@pytest.mark.parametrize(
    ("rule", "hosts"),
    [
        ({"host_aggregates": [{"id": 1}]}, ["host-0", "host-1"]),
        ({"host_aggregates": [{"name": "gpu"}]}, ["host-3"]),
        ({"host_aggregates": [{"id": "*"}]}, ["host-0", "host-1", "host-3"]),
        ({"availability_zones": [{"name": "az2"}]}, ["host-2", "host-3"]),
        ({"availability_zones": [{"name": "*"}]}, ["host-0", "host-1", "host-2", "host-3"]),
        ({"host_aggregates": [{"name": "none"}]}, []),
        ({"exclude": [{"compute_nodes": [{"name": "host-0"}]}]}, ["host-1", "host-2", "host-3"]),
        ({"exclude": [{"host_aggregates": [{"name": "ssd"}]}]}, ["host-2", "host-3"]),
    ],
)
def test_the_scope_of_an_audit_chooses_the_hosts(collector, site, rule, hosts):
    site.requests.clear()
    assert hosts_of(model_of(collector, [{"compute": [rule]}])) == hosts
    assert site.requests == [PATH]


@pytest.mark.parametrize(
    ("exclusion", "excluded"),
    [
        ({"instances": [{"uuid": server_uuid(3)}]}, {3}),
        ({"projects": [{"uuid": f"{1:032x}"}]}, {1, 4, 7, 10}),
        ({"instance_metadata": [{"optimize": "False"}]}, {6}),
    ],
)
def test_excluded_servers_are_marked_as_excluded(collector, site, exclusion, excluded):
    site.commit(site.server(6, "host-2", metadata={"optimize": "false"}))
    model = model_of(collector, [{"compute": [{"exclude": [exclusion]}]}])
    marked = {uuid for uuid, instance in model.get_all_instances().items() if instance.watcher_exclude}
    assert marked == {server_uuid(n) for n in excluded}


def test_audits_of_two_threads_have_their_own_scopes(collector):
    chosen = []
    barrier = threading.Barrier(2)

    def audit(zone):
        handler = collector.get_audit_scope_handler([{"compute": [{"availability_zones": [{"name": zone}]}]}])
        barrier.wait(10)
        chosen.append(hosts_of(handler.get_scoped_model(collector.get_latest_cluster_data_model())))

    threads = [threading.Thread(target=audit, args=(zone,)) for zone in ("az1", "az2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(chosen) == [["host-0", "host-1"], ["host-2", "host-3"]]


def test_a_failed_request_is_repeated_as_the_configuration_says(collector, site):
    site.broken = 1
    assert len(model_of(collector).get_all_instances()) == 12
    site.broken = 2
    with pytest.raises(exception.ClusterDataModelCollectionError):
        model_of(collector)


def test_a_failed_synchronisation_leaves_a_stale_model_and_the_next_one_heals_it(collector, site):
    site.broken = 2
    collector.synchronize()
    assert collector.cluster_data_model.stale
    collector.synchronize()
    assert len(collector.cluster_data_model.get_all_instances()) == 12


def test_the_collector_refuses_a_server_that_is_no_watcher_sync(collector, site):
    cfg.CONF.set_override("endpoint", f"{site.url}/versions", group=f"{auditing.NAMESPACE}.watcher_sync")
    with pytest.raises(exception.ClusterDataModelCollectionError):
        model_of(collector)


def test_without_noauth_the_session_of_watchers_clients_is_used(watcher, site):
    cfg.CONF.set_override("auth_strategy", "keystone", group=f"{auditing.NAMESPACE}.watcher_sync")
    clients = auditing.Session()
    clients.session = session.Session(auth=token_endpoint.Token(site.url, "secret"))
    loaded = default.ClusterDataModelCollectorLoader().load("watcher_sync", osc=clients)
    assert len(loaded.get_latest_cluster_data_model().get_all_instances()) == 12


@pytest.mark.parametrize("name", auditing.STRATEGIES)
def test_a_strategy_of_watcher_makes_a_plan_of_the_model(collector, site, name):
    site.commit(site.host(2, disabled_reason=None), site.host(3))
    site.commit(*(site.server(number, "host-0") for number in range(12, 40)))
    site.requests.clear()
    actions = auditing.plan(name)
    assert site.requests == [PATH]
    assert "migrate" in {kind for kind, _ in actions}
