# SPDX-License-Identifier: Apache-2.0
"""What servers of the simulated cloud use of hosts is what its Placement allocates to them."""

from __future__ import annotations

import collections
import itertools

import pytest

from tests.allocations import used_by_host
from tests.modelled import model_of
from watcher_sync.extensions.openstack.allocations import Usage
from watcher_sync.testing.nova.cloud import CloudSimulator


def is_settled(server, migrations):
    """Whether no operation is under way. A resized server waits for the confirmation.

    An evacuated server is left out: its dead host holds the allocation until its nova-compute starts again, which no
    API of Nova tells.
    """
    moved = [m for m in migrations if m.instance_uuid == server.uuid]
    if any(m.type == "evacuation" for m in moved):
        return False
    return not server.busy or (server.state == "resized" and server.record["task_state"] is None)


@pytest.mark.parametrize("seed", range(4))
def test_each_settled_server_uses_what_placement_allocates_to_it(seed):
    simulator = CloudSimulator(seed=seed, hosts=5, instances=20)
    events, states = simulator.events(), collections.Counter()
    for _ in range(60):
        collections.deque(itertools.islice(events, 20), maxlen=0)
        truth, database = simulator.truth(), simulator.database
        model = model_of({"instance": truth["instance"], "vnf_instance": {}}, observed=False).snapshot()
        for server in database.servers:
            if not is_settled(server, database.migrations.values()):
                continue
            instance = model.get("instance", server.uuid)
            allocated = {
                host: Usage(one.vcpus, one.memory_mb, one.disk_gb)
                for host, consumer in server.claims
                for one in [database.allocations[host][consumer]]
            }
            used = used_by_host([instance])
            states[server.state] += 1
            assert used.keys() == allocated.keys()
            if instance.host is not None:
                assert used[instance.host] == allocated[instance.host]
    assert {"active", "stopped", "resized", "shelved_offloaded", "soft-deleted"} <= {
        "soft-deleted" if state == "soft-delete" else state for state in states
    }
