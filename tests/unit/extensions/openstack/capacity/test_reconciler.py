# SPDX-License-Identifier: Apache-2.0
"""What the reconciler writes of the providers' reports: precedence, unknown values, failures and losses."""

from __future__ import annotations

import msgspec
import pytest

from tests.simulated import NOON
from tests.unit.extensions.openstack.capacity.conftest import Reporting
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.extensions.openstack.capacity.providers import load_providers
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.reconcile.capacity_provider import HostCapacity, ResourceInventory
from watcher_sync.storage.groups.source_status import declare_inventory, write_inventory


def test_what_a_provider_reports_is_written_and_what_it_does_not_report_stays_unknown(site, run):
    report = run(site.reconciler(a=Reporting(HostCapacity(host="host-1", vcpus=8, vcpu_ratio=4.0))))
    assert report.written == 1
    assert site.fields("vcpus", "vcpu_ratio", "capacity_source") == (8, 4.0, "a")
    assert site.fields("memory_mb", "disk_gb", "reserved_vcpus", "memory_ratio", "inventories") == (None,) * 5
    assert site.fields("vcpus", "capacity_source", host="host-2") == (None, None)


def test_a_run_without_a_difference_writes_no_row(site, run):
    inventory = ResourceInventory(total=2, reserved=0, allocation_ratio=1.0, used=1)
    reconciler = site.reconciler(
        a=Reporting(HostCapacity(host="host-1", vcpus=8, vcpu_ratio=16.0, inventories={"CUSTOM_FPGA": inventory}))
    )
    run(reconciler)
    head = site.head()
    report = run(reconciler)
    assert (report.written, report.differences, site.head()) == (0, (), head)
    assert site.fields("inventories") == (
        {"CUSTOM_FPGA": {"total": 2, "reserved": 0, "allocation_ratio": 1.0, "used": 1}},
    )


def test_a_host_is_found_by_its_uuid_its_hypervisor_name_or_its_own_name(site, run):
    site.write(Upsert("compute_node", "host-1", "2", {"hypervisor": {"uuid": "u-1", "hypervisor_hostname": "n1"}}))
    for number, name in enumerate(({"uuid": "u-1", "node": "other"}, {"node": "n1"}, {"node": "host-1"})):
        run(site.reconciler(a=Reporting(HostCapacity(**name, vcpus=number))))
        assert site.fields("vcpus") == (number,)


def test_a_report_of_an_unknown_host_creates_none(site, run):
    report = run(site.reconciler(a=Reporting(HostCapacity(host="host-9", vcpus=8))))
    assert (report.written, site.node("host-9")) == (0, None)


def test_a_run_that_lacks_hosts_is_incomplete_until_the_inventory_is_complete(site, run):
    provider = Reporting(HostCapacity(host="host-1", vcpus=8), HostCapacity(host="host-9", vcpus=4))
    reconciler = site.reconciler(a=provider)
    assert run(reconciler).complete  # no inventory is compared
    database = site.store.database
    declare_inventory(database, "slots", NOON)  # that of a plugin has no hosts
    assert run(reconciler).complete
    row = declare_inventory(database, "nova", NOON)
    report = run(reconciler)
    assert (report.complete, site.fields("vcpus")) == (False, (8,))
    assert report.failures == {"hosts": "1 are not in the model, whose inventory is incomplete"}
    provider.report.pop()
    assert run(reconciler).complete
    provider.report.append(HostCapacity(host="host-9", vcpus=4))
    write_inventory(database, msgspec.structs.replace(row, complete_since=NOON))
    assert run(reconciler).complete  # such as bare metal, which the inventory leaves out


def test_hosts_that_the_replica_does_not_have_yet_get_their_capacity(site, run):
    view = site.store.load().snapshot()
    site.add_hosts("host-9")
    site.context = msgspec.structs.replace(site.context, view=lambda: view)
    assert run(site.reconciler(a=Reporting(HostCapacity(host="host-9", vcpus=8)))).written == 1


def test_the_first_provider_of_the_option_wins_field_by_field_in_any_order_of_runs(site, run):
    first = Reporting(HostCapacity(host="host-1", vcpus=8, memory_mb=100))
    second = Reporting(HostCapacity(host="host-1", vcpus=99, disk_gb=7), HostCapacity(host="host-2", vcpus=3))
    for order in (("a", "b"), ("b", "a")):
        reconciler = site.reconciler(a=first, b=second)
        for scope in order:
            run(reconciler, scope)
        assert site.fields("vcpus", "memory_mb", "disk_gb", "capacity_source") == (8, 100, 7, "a,b")
        assert site.fields("vcpus", "capacity_source", host="host-2") == (3, "b")


def test_inventories_of_several_providers_are_merged_by_resource_class(site, run):
    def of(**classes):
        return {name: ResourceInventory(total=total) for name, total in classes.items()}

    reconciler = site.reconciler(
        a=Reporting(HostCapacity(host="host-1", inventories=of(VCPU=8))),
        b=Reporting(HostCapacity(host="host-1", inventories=of(VCPU=99, CUSTOM_X=1))),
    )
    run(reconciler, "a")
    run(reconciler, "b")
    assert site.fields("inventories") == ({"VCPU": {"total": 8}, "CUSTOM_X": {"total": 1}},)


def test_after_a_restart_a_lower_provider_does_not_overwrite_what_a_higher_one_wrote(site, run):
    first = Reporting(HostCapacity(host="host-1", vcpus=8))
    run(site.reconciler(a=first, b=Reporting()), "a")
    restarted = site.reconciler(a=first, b=Reporting(HostCapacity(host="host-1", vcpus=99, disk_gb=7)))
    run(restarted, "b")
    assert site.fields("vcpus", "disk_gb", "capacity_source") == (8, 7, "a,b")


def test_a_provider_that_fails_changes_nothing_and_the_next_run_heals(site, run):
    provider = Reporting(HostCapacity(host="host-1", vcpus=8))
    reconciler = site.reconciler(a=provider)
    run(reconciler)
    head = site.head()
    provider.fail()
    with pytest.raises(ReconcileError, match="it is away"):
        run(reconciler)
    assert (site.head(), site.fields("vcpus")) == (head, (8,))
    provider.report = [HostCapacity(host="host-1", vcpus=9)]
    run(reconciler)
    assert site.fields("vcpus") == (9,)


def test_a_value_that_a_provider_does_not_report_any_more_is_unknown_again(site, run):
    provider = Reporting(HostCapacity(host="host-1", vcpus=8, disk_gb=7))
    reconciler = site.reconciler(a=provider)
    run(reconciler)
    provider.report = [HostCapacity(host="host-1", vcpus=8)]
    run(reconciler)
    assert site.fields("vcpus", "disk_gb", "capacity_source") == (8, None, "a")


@pytest.mark.slow
def test_a_host_that_a_provider_does_not_report_any_more_loses_its_capacity(site, run):
    site.add_hosts("host-3", "host-4")
    provider = Reporting(*(HostCapacity(host=f"host-{n}", vcpus=8) for n in range(1, 5)))
    run(site.reconciler(a=provider))
    provider.report.pop(0)
    run(site.reconciler(a=provider))
    assert site.fields("vcpus", "capacity_source") == (None, None)
    assert site.fields("vcpus", "capacity_source", host="host-2") == (8, "a")


@pytest.mark.parametrize("restarted", [False, True])
def test_too_many_hosts_that_are_not_reported_any_more_lose_nothing_until_the_operator_agrees(site, run, restarted):
    provider = Reporting(HostCapacity(host="host-1", vcpus=8), HostCapacity(host="host-2", vcpus=8))
    other = Reporting()
    reconciler = site.reconciler(a=provider, b=other)
    run(reconciler)
    provider.report = [HostCapacity(host="host-2", vcpus=9)]
    if restarted:
        reconciler = site.reconciler(a=provider, b=other)
    for _ in range(2):
        report = run(reconciler)
        assert (report.complete, report.refused_deletes) == (False, {"compute_node": 1})
        run(reconciler, "b")
        assert (site.fields("vcpus"), site.fields("vcpus", host="host-2")) == ((8,), (9,))
    report = run(reconciler, allow_deletes=True)
    assert report.complete
    assert site.fields("vcpus", "capacity_source") == (None, None)


def test_a_dry_run_reports_the_differences_and_writes_nothing(site, run):
    head = site.head()
    provider = Reporting(HostCapacity(host="host-1", vcpus=8))
    report = run(site.reconciler(a=provider), dry_run=True)
    found = [(d.entity_id, d.field, d.model_value, d.live_value) for d in report.differences]
    assert found == [("host-1", "vcpus", None, 8), ("host-1", "capacity_source", None, "a")]
    assert (report.written, site.head()) == (0, head)


def test_under_the_policy_observe_a_difference_is_a_drift_and_nothing_is_written(site, run):
    site.conf.set_override("policy", {"compute_node": "observe"}, group="reconcile")
    run(site.reconciler(a=Reporting(HostCapacity(host="host-1", vcpus=8))))
    assert site.fields("vcpus") == (None,)
    assert site.drifts() == [("host-1", "vcpus", None, 8), ("host-1", "capacity_source", None, "a")]


def test_capacity_and_service_events_do_not_make_each_other_stale(site, run):
    run(site.reconciler(a=Reporting(HostCapacity(host="host-1", vcpus=8))))
    site.write(Upsert("compute_node", "host-1", "2", {"service": {"status": "disabled"}}))
    assert site.fields("status", "vcpus") == ("disabled", 8)


def test_a_host_whose_service_was_deleted_gets_no_capacity(site, run):
    site.write(
        Upsert("instance", "vm", "1", {"state": {}, "placement": {"host": "host-1"}}),
        Delete("compute_node", "host-1", "2"),
    )
    run(site.reconciler(a=Reporting(HostCapacity(host="host-1", vcpus=8))))
    assert site.fields("gone", "vcpus") == (True, None)


def test_the_scopes_are_the_enabled_providers_and_have_the_interval_of_the_option(site):
    site.conf.set_override("interval", 12, group="reconcile_capacity")
    reconciler = site.reconciler(a=Reporting(), b=Reporting())
    assert (reconciler.scopes(), reconciler.interval("a"), reconciler.timeout("a")) == (["a", "b"], 12, 300)


def test_by_default_no_provider_is_enabled(site):
    assert load_providers(site.conf) == {}


@pytest.mark.parametrize(
    ("providers", "wrong"),
    [
        (["placemnt"], "there is no provider 'placemnt'; there are kubernetes, nova, placement, static"),
        (["static"], r"\[capacity_provider_static\] file: not set"),
        (["kubernetes"], r"\[capacity_provider_kubernetes\] clusters: no enabled source follows a cluster"),
        (["nova"], r"\[reconcile_nova\] cloud, auth_type: are not set"),
    ],
)
def test_a_provider_that_cannot_work_is_an_error_of_the_configuration(site, providers, wrong):
    site.conf.set_override("providers", providers, group="reconcile_capacity")
    with pytest.raises(ConfigError, match=wrong):
        load_providers(site.conf)


# Values that cannot be stored

BROKEN = {"CUSTOM_\ud800": ResourceInventory(total=1)}
"""No database takes half a surrogate pair."""


def many(site, count):
    hosts = [f"node-{number:03d}" for number in range(count)]
    site.add_hosts(*hosts)
    return hosts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "field"), [({"inventories": BROKEN}, "inventories"), ({"memory_mb": -1}, "memory_mb")]
)
def test_a_refused_value_ends_the_write_of_no_other_host(site, run, broken, field):
    hosts = many(site, 210)
    capacities = [HostCapacity(host=host, vcpus=8, **(broken if host == "node-077" else {})) for host in hosts]
    report = run(site.reconciler(a=Reporting(*capacities)))
    assert {site.fields("vcpus", host=host) for host in hosts if host != "node-077"} == {(8,)}
    assert (report.written, list(report.refused_writes)) == (210, ["compute_node node-077"])
    assert report.refused_writes["compute_node node-077"].startswith(f"{field}: ")


def test_the_other_fields_of_a_host_with_a_refused_value_are_written(site, run):
    run(site.reconciler(a=Reporting(HostCapacity(host="host-1", vcpus=8, memory_mb=100))))
    run(site.reconciler(a=Reporting(HostCapacity(host="host-1", vcpus=9, memory_mb=-1))))
    assert site.fields("vcpus", "memory_mb") == (9, 100)


def test_a_refused_value_is_logged_once_counted_and_shown(site, stepped, said):
    provider = Reporting(HostCapacity(host="host-1", vcpus=-1), HostCapacity(host="host-2", vcpus=8))
    steps = stepped(site.reconciler(a=provider))
    steps.begin_due()
    steps.after(10_000)
    state = steps.state("a")
    assert (steps.runs("a"), state.failures, len(state.report.refused_writes)) == ({"ok": 2}, 0, 1)
    assert state.problem.startswith("compute_node host-1 cannot be stored: vcpus: ")
    assert [line.split(" cannot")[0] for line in said() if "cannot be stored" in line] == ["compute_node host-1"]
    provider.report = [HostCapacity(host="host-1", vcpus=1), HostCapacity(host="host-2", vcpus=8)]
    steps.after(10_000)
    assert (steps.state("a").problem, site.fields("vcpus")) == ("", (1,))
