# SPDX-License-Identifier: Apache-2.0
"""What an event deletes between the listing and the write, although its publisher's clock is behind."""

from __future__ import annotations

import datetime

import pytest

from tests.nova_sites import NovaSite
from watcher_sync.events import Event
from watcher_sync.testing.openstack import FakeOpenStack

pytestmark = pytest.mark.slow


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def service_deleted(host: str, time: datetime.datetime) -> Event:
    return Event(
        id="10000000-0000-4000-8000-000000000001",
        type="service.delete",
        source="nova",
        time=time,
        origin=f"nova-api:{host}",
        data={
            "nova_object.name": "ServiceStatusPayload",
            "nova_object.namespace": "nova",
            "nova_object.version": "1.1",
            "nova_object.data": {"binary": "nova-compute", "host": host, "disabled": False, "forced_down": False},
        },
    )


def test_a_host_that_an_event_deletes_after_the_listing_does_not_return(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    cloud.inventory.add_host("compute-9")
    site.reconcile()
    clock_behind = now()
    cloud.inventory.update_host("compute-9", disabled=True, disabled_reason="maintenance")

    def delete(_seconds: float) -> None:
        site.told(service_deleted("compute-9", clock_behind))

    site.reconcile(wait=delete)
    assert site.model.get("compute_node", "compute-9") is None


def test_a_host_that_events_made_and_deleted_after_the_listing_does_not_return(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    clock_behind = now()
    cloud.inventory.add_host("compute-9")

    def delete(_seconds: float) -> None:
        site.told(service_deleted("compute-9", clock_behind))

    site.reconcile(wait=delete)
    assert site.model.get("compute_node", "compute-9") is None
