# SPDX-License-Identifier: Apache-2.0
"""A fake Keystone, Nova and Placement over HTTP for tests, benchmarks and the demo; openstacksdk can talk to it.

:class:`FakeOpenStack` is the entry. Its content is an :class:`Inventory`, which a test fills by hand,
or which :func:`inventory_of` makes of a simulated cloud.

``allocations``    Which consumer holds how much of which host, as Placement stores it
``cloud``          The fake cloud as tests hold it
``compute``        Nova's API: versions, tokens, policies and routes
``computes``       Nova's lists of services, hypervisors, aggregates, zones, migrations and flavors
``faults``         The faults of a cloud
``http``           HTTP/1.1: requests, answers and faults
``identity``       Keystone: versions, tokens, the catalog and projects
``inventory``      The content of a fake cloud
``messages``       Requests, answers and errors
``microversions``  Parses the header of a request, and refuses what is outside the range
``paging``         What Nova's lists share: limit and marker, links and times
``placement``      Placement: inventories, usages, allocations, traits
``population``     Fills an inventory with many hosts and servers at once
``records``        The records of a fake cloud: hosts, servers, flavors, aggregates, migrations
``server_views``   The representations of servers, encoded once
``servers``        Nova's lists of servers: filters, order and pages
``simulated``      An inventory that follows a simulated cloud
"""

from watcher_sync.testing.http.faults import Answer, Cut, Delay, Fault, Hang
from watcher_sync.testing.openstack.cloud import FakeOpenStack
from watcher_sync.testing.openstack.faults import (
    Do,
    ExpireTokens,
    Garbage,
    Rewrite,
    forbidden,
    marker_not_found,
    server_error,
    too_many_requests,
)
from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.messages import ApiError, Request
from watcher_sync.testing.openstack.records import (
    Aggregate,
    Flavor,
    Host,
    Migration,
    Server,
    ServerFault,
    Service,
)
from watcher_sync.testing.openstack.simulated import SimulatedInventory, inventory_of

__all__ = [
    "FakeOpenStack",
    "Inventory",
    "SimulatedInventory",
    "inventory_of",
    "Host",
    "Rewrite",
    "Server",
    "ServerFault",
    "Flavor",
    "Service",
    "Aggregate",
    "Migration",
    "ApiError",
    "Request",
    "Fault",
    "Answer",
    "Delay",
    "Hang",
    "Cut",
    "Garbage",
    "ExpireTokens",
    "Do",
    "forbidden",
    "marker_not_found",
    "server_error",
    "too_many_requests",
]
