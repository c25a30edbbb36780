# SPDX-License-Identifier: Apache-2.0
"""A life-cycle operation as a with block, against the application on a real socket."""

from __future__ import annotations

import datetime

import pytest

from tests.unit.extensions.vnf.api.test_instances import DEMO
from tests.waiting import Deadline
from watcher_sync.client import Conflict, NotFound, OperationLost, connect

pytestmark = pytest.mark.slow

PATH = "/v1/vnf_instances/a"


@pytest.fixture
def vnf(client):
    client._transport.request("PUT", PATH, body=DEMO)
    return "a"


def shown(client):
    """The operations, oldest first."""
    return client._transport.request("GET", f"{PATH}/operations").read(dict)["operations"]


def until(condition):
    limit = Deadline(60)
    while not condition():
        assert not limit.is_over


def test_the_instance_is_taken_in_the_block_and_given_back_after_it(client, vnf, url):
    with client.operation(vnf, "SCALE", holder="lcm-1") as operation:
        assert operation.held
        operation.require_held()
        with pytest.raises(Conflict) as taken, connect(url).operation(vnf, "HEAL"):
            pytest.fail("two have it")
        assert taken.value.document["holder"] == "lcm-1"
        assert taken.value.retry_after >= 1
        assert shown(client)[-1]["state"] == "RUNNING"
    assert [(o["operation"], o["state"]) for o in shown(client)] == [("SCALE", "COMPLETED")]
    with client.operation(vnf, "HEAL") as next_one:
        assert next_one.token == operation.token + 1


def test_a_block_that_raises_has_failed_and_its_own_exception_is_seen(client, vnf):
    with pytest.raises(ZeroDivisionError), client.operation(vnf, "SCALE"):
        raise ZeroDivisionError
    assert shown(client)[-1]["state"] == "FAILED"


def test_heartbeats_keep_the_lease_beyond_its_time(client, vnf, conf):
    conf.set_override("lease_time", 15, group="operations")
    with client.operation(vnf, "SCALE") as operation:
        late = operation.lease.expires_at + datetime.timedelta(seconds=1)
        until(lambda: datetime.datetime.fromisoformat(shown(client)[-1]["expires_at"]) > late)
        assert operation.held
        assert shown(client)[-1]["state"] == "RUNNING"
    assert shown(client)[-1]["state"] == "COMPLETED"


def test_the_loss_of_the_lease_is_raised_in_the_block_and_at_its_end(client, vnf, conf, url):
    conf.set_override("lease_time", 15, group="operations")
    with pytest.raises(OperationLost, match="SCALE"), client.operation(vnf, "SCALE") as operation:
        path = f"{PATH}/operations/{operation.lease.id}"
        connect(url)._transport.request("DELETE", path, query={"state": "FAILED", "force": True})
        until(lambda: not operation.held)
        with pytest.raises(OperationLost):
            operation.require_held()


def test_what_does_not_exist_cannot_be_taken(client):
    with pytest.raises(NotFound), client.operation("missing", "SCALE"):
        pytest.fail("taken")
