# SPDX-License-Identifier: Apache-2.0
"""Watcher's storage model of Cinder's kinds, against the real API over HTTP."""

from __future__ import annotations

import auditing
import pytest
from auditing import model_of
from served import CEPH, FAST, LVM, SLOW, TYPES, volume_uuid
from watcher.common import exception
from watcher_sync_watcher.collector import WatcherSyncStorageCollector

from watcher_sync.model.changes import Delete

PROBE = "/v1/storage_backends"
LISTS = [PROBE, "/v1/storage_pools", "/v1/volume_types", "/v1/volumes"]
SERVER = "5d2a6a0c-1a0d-4d7e-9a70-6a9f6a6d0d01"


@pytest.fixture
def collector(watcher, site):
    """The one that strategies get."""
    site.fill_storage()
    found = auditing.collector("storage")
    site.requests.clear()
    return found


def described(collector, scope=()):
    return auditing.described(model_of(collector, scope))


def test_after_loading_the_collector_strategies_get_it_under_the_name_storage(collector):
    assert isinstance(collector, WatcherSyncStorageCollector)
    assert collector.notification_endpoints == []


def test_the_model_has_every_attribute_of_backends_and_pools(collector):
    model = described(collector)
    assert model["StorageNode"] == {
        CEPH: {"uuid": "", "human_id": "", "host": CEPH, "zone": "az1", "status": "enabled", "state": "up",
               "volume_type": ["fast"]},
        LVM: {"uuid": "", "human_id": "", "host": LVM, "zone": "az2", "status": "enabled", "state": "up",
              "volume_type": ["slow"]},
    }  # fmt: skip
    figures = {"total_capacity_gb": 1000, "free_capacity_gb": 400, "provisioned_capacity_gb": 700,
               "allocated_capacity_gb": 600, "virtual_free": 0, "uuid": "", "human_id": ""}  # fmt: skip
    assert model["Pool"] == {
        FAST: {"name": FAST, "total_volumes": 3} | figures,
        SLOW: {"name": SLOW, "total_volumes": 0} | figures,
    }
    assert {edge for edge in model["edges"] if "#" in edge[0]} == {(FAST, CEPH), (SLOW, LVM)}


def test_the_model_has_every_attribute_of_volumes(collector, site):
    attachment = {"attachment_id": "a-1", "instance_id": SERVER}
    site.commit(
        site.volume(
            5, FAST, status="in-use", attachments=[attachment], instance_ids=[SERVER], bootable=True, multiattach=True,
            snapshot_id=TYPES["slow"], name=None,
        )
    )  # fmt: skip
    model = described(collector)
    assert model["Volume"][volume_uuid(5)] == {
        "uuid": volume_uuid(5), "human_id": "", "size": 15, "status": "in-use", "name": "", "multiattach": True,
        "attachments": [{"attachment_id": "a-1", "server_id": SERVER}], "snapshot_id": TYPES["slow"],
        "project_id": f"{2:032x}", "metadata": {"tier": "gold"}, "bootable": True, "volume_type": "fast",
        "created_at": "2026-01-01T12:00:05.000000", "host": FAST,
    }  # fmt: skip
    assert {edge for edge in model["edges"] if "#" in edge[1]} == {
        (volume_uuid(number), FAST if number % 2 else SLOW) for number in range(8)
    }


def test_volumes_are_in_the_order_in_which_cinder_lists_them(collector):
    volumes = model_of(collector).get_all_volumes()
    assert list(volumes) == [volume_uuid(number) for number in reversed(range(8))]


def test_an_unchanged_model_costs_one_small_request_and_is_the_callers_own(collector, site):
    first = model_of(collector)
    assert site.requests == [PROBE, *LISTS]
    first.remove_volume(first.get_volume_by_uuid(volume_uuid(0)))
    site.requests.clear()
    assert len(model_of(collector).get_all_volumes()) == 8
    assert site.requests == [PROBE]


def test_the_next_audit_gets_the_present_state(collector, site):
    assert model_of(collector).get_volume_by_uuid(volume_uuid(0)).host == SLOW
    site.commit(site.volume(0, FAST))
    assert model_of(collector).get_volume_by_uuid(volume_uuid(0)).host == FAST


@pytest.mark.parametrize("before", ["/v1/storage_backends?as_of", "/v1/storage_pools", "/v1/volumes?as_of", "marker="])
def test_all_pages_of_all_lists_are_of_one_generation(collector, site, before):
    site.commit(*(site.volume(number, SLOW) for number in range(8, 250)))

    def change(path: str) -> None:
        if before in path:
            site.before = lambda _: None
            site.commit(
                site.entity("storage_backend", "stor-2@new", status="enabled", state="up"),
                site.pool("stor-2@new#new"),
                *(site.volume(number, "stor-2@new#new") for number in range(0, 250, 2)),
                *(Delete("volume", volume_uuid(number), site.version()) for number in range(1, 250, 2)),
            )

    site.before = change
    model = model_of(collector)
    assert sorted(model.get_all_storage_nodes()) == [CEPH, LVM]
    volumes = model.get_all_volumes()
    assert len(volumes) == 250
    assert {volume.host for volume in volumes.values()} == {FAST, SLOW}
    later = model_of(collector)
    assert {volume.host for volume in later.get_all_volumes().values()} == {"stor-2@new#new"}
    assert len(later.get_all_volumes()) == 125


def test_what_watcher_cannot_express_is_left_out(collector, site):
    site.commit(
        site.pool(f"{CEPH}#new", free_capacity_gb=None),
        site.pool("stor-9@lost#lost"),
        site.volume(20, f"{CEPH}#new"),
        site.volume(21, FAST, size_gb=None),
        site.volume(22, FAST, volume_type_id="5d2a6a0c-1a0d-4d7e-9a70-6a9f6a6d0d02"),
        site.volume(23, None, volume_type_id=None, status="error"),
    )
    model = described(collector)
    assert sorted(model["Pool"]) == sorted([FAST, SLOW, "stor-9@lost#lost"])
    assert set(model["Volume"]) == {volume_uuid(number) for number in (*range(8), 20, 23)}
    assert {volume_uuid(20), volume_uuid(23), "stor-9@lost#lost"}.isdisjoint({edge[0] for edge in model["edges"]})
    homeless = model["Volume"][volume_uuid(23)]
    assert (homeless["host"], homeless["volume_type"]) == ("", "")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"status": "disabled", "state": "up"}, ("disabled", "up")),
        ({"status": "enabled", "state": "down"}, ("enabled", "down")),
        ({"status": "enabled", "state": None}, ("enabled", "down")),
    ],
)
def test_pools_of_a_backend_that_is_disabled_or_down_are_left_out(collector, site, values, shown):
    site.commit(site.entity("storage_backend", LVM, **values))
    model = described(collector)
    backend = model["StorageNode"][LVM]
    assert (backend["status"], backend["state"]) == shown
    assert set(model["Pool"]) == {FAST}
    assert model["Volume"][volume_uuid(0)]["host"] == SLOW


@pytest.mark.parametrize(
    ("rule", "backends"),
    [
        ({"availability_zones": [{"name": "az2"}]}, {LVM}),
        ({"availability_zones": [{"name": "*"}]}, {CEPH, LVM}),
        ({"volume_types": [{"name": "fast"}]}, {CEPH}),
        ({"volume_types": [{"name": "*"}]}, {CEPH, LVM}),
    ],
)
def test_the_scope_of_an_audit_chooses_the_backends(collector, site, rule, backends):
    model = described(collector, [{"storage": [rule]}])
    assert set(model["StorageNode"]) == backends
    assert {volume["host"].split("#")[0] for volume in model["Volume"].values()} == backends
    assert site.requests == [PROBE, *LISTS]


@pytest.mark.parametrize(
    ("exclusion", "excluded"),
    [
        ({"storage_pools": [{"name": SLOW}]}, {0, 2, 4, 6}),
        ({"volumes": [{"uuid": volume_uuid(3)}]}, {3}),
        ({"projects": [{"uuid": f"{1:032x}"}]}, {1, 4, 7}),
    ],
)
def test_what_the_scope_excludes_is_not_in_the_model(collector, exclusion, excluded):
    model = described(collector, [{"storage": [{"exclude": [exclusion]}]}])
    assert set(model["Volume"]) == {volume_uuid(number) for number in set(range(8)) - excluded}


def test_a_failed_request_is_repeated_as_the_configuration_says(collector, site):
    site.broken = 1
    assert len(model_of(collector).get_all_volumes()) == 8
    site.commit(site.volume(8, FAST))

    def fail(path: str) -> None:
        site.broken = 2 * ("/v1/volumes" in path)

    site.before = fail
    with pytest.raises(exception.ClusterDataModelCollectionError):
        model_of(collector)
    site.before = lambda _: None
    site.broken = 0
    assert len(model_of(collector).get_all_volumes()) == 9


def test_zone_migration_moves_volumes_and_retypes_them(collector):
    pools = [{"src_pool": SLOW, "dst_pool": FAST}, {"src_pool": FAST, "dst_type": "slow"}]
    actions = auditing.plan("zone_migration", storage_pools=pools, parallel_total=6, parallel_per_pool=2)
    assert actions == [
        ("volume_migrate", values)
        for values in (
            _action(7, migration_type="retype", destination_type="slow"),
            _action(6, migration_type="migrate", destination_node=FAST),
            _action(5, migration_type="retype", destination_type="slow"),
            _action(4, migration_type="migrate", destination_node=FAST),
        )
    ]


def _action(number, **values):
    return sorted({"resource_name": f"volume-{number}", "resource_id": volume_uuid(number), **values}.items())
