# SPDX-License-Identifier: Apache-2.0
"""The zone that a live migration leaves behind when it fails."""

from __future__ import annotations

import datetime
import json

import pytest

from tests.nova_sites import NovaSite
from watcher_sync.extensions.openstack.reconcile.reconciler import CHANGES
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.openstack import FakeOpenStack
from watcher_sync.wire.envelopes import read_body

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scope", ["nova", CHANGES])
def test_the_zone_of_the_destination_that_a_conductor_wrote_back_is_mended(
    site: NovaSite, cloud: FakeOpenStack, scope: str
):
    """The conductor has the destination's zone in its object, and saves the object after the failure."""
    site.reconcile()
    server = next(one for one in cloud.inventory.servers.values() if one.host == "compute-0")
    sent = datetime.datetime.now(datetime.UTC)
    told = notifications.event(
        "instance.update",
        envelope={"timestamp": sent.strftime("%Y-%m-%d %H:%M:%S.%f"), "publisher_id": "nova-compute:controller"},
        uuid=server.id, host="compute-0", node="compute-0", state="active", task_state=None, deleted_at=None,
        availability_zone="north",
    )  # fmt: skip
    site.told(read_body(json.dumps(told).encode(), source="nova"))
    found = site.model.get("instance", server.id)
    assert (found.host, found.availability_zone) == ("compute-0", "north")
    cloud.inventory.update_server(server.id)
    site.reconcile(scope)
    assert site.model.get("instance", server.id).availability_zone == "nova"
    if scope == "nova":
        assert (server.id, "availability_zone") in {(one.entity_id, one.field) for one in site.drifts()}
