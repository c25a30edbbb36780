# SPDX-License-Identifier: Apache-2.0
"""Watcher's bare-metal model of Ironic's kinds, against the real API over HTTP."""

from __future__ import annotations

import auditing
import pytest
from auditing import model_of
from served import host_uuid, node_uuid
from watcher_sync_watcher.collector import WatcherSyncBaremetalCollector

PATH = "/v1/baremetal_nodes"


@pytest.fixture
def collector(watcher, site):
    """The one that strategies get."""
    site.fill_baremetal()
    found = auditing.collector("baremetal")
    site.requests.clear()
    return found


def test_after_loading_the_collector_strategies_get_it_under_the_name_baremetal(collector):
    assert isinstance(collector, WatcherSyncBaremetalCollector)
    strategy = auditing.strategy("saving_energy")
    assert set(strategy.baremetal_model.get_all_ironic_nodes()) == {node_uuid(number) for number in range(3)}


def test_the_model_has_every_attribute_of_nodes(collector):
    on = {"power_state": "power on", "maintenance": False, "maintenance_reason": "", "human_id": ""}
    assert auditing.described(model_of(collector)) == {
        "edges": [],
        "IronicNode": {
            node_uuid(0): on | {"uuid": node_uuid(0), "extra": {"compute_node_id": host_uuid(0)}, "maintenance": True,
                                "maintenance_reason": "fan"},
            node_uuid(1): on | {"uuid": node_uuid(1), "extra": {"compute_node_id": host_uuid(1)},
                                "power_state": "power off"},
            node_uuid(2): on | {"uuid": node_uuid(2), "extra": {}},
        },
    }  # fmt: skip


def test_a_node_of_unknown_power_state_or_maintenance_is_left_out(collector, site):
    site.commit(site.bare(1, power_state=None), site.bare(2, maintenance=None), site.bare(3))
    assert set(model_of(collector).get_all_ironic_nodes()) == {node_uuid(0), node_uuid(3)}


def test_an_unchanged_model_costs_one_small_request(collector, site):
    model_of(collector)
    assert site.requests == [PATH, PATH]
    model_of(collector)
    assert site.requests == [PATH, PATH, PATH]


def test_what_the_scope_excludes_is_not_in_the_model(collector):
    scope = [{"baremetal": [{"exclude": [{"ironic_nodes": [{"uuid": node_uuid(1)}]}]}]}]
    assert set(model_of(collector, scope).get_all_ironic_nodes()) == {node_uuid(0), node_uuid(2)}
